#pragma once

#include <nanobind/nanobind.h>

void bind_confident(nanobind::module_ &module);
