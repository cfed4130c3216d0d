#pragma once

#include <nanobind/nanobind.h>

void bind_mixtures(nanobind::module_ &module);
