#pragma once

#include <nanobind/nanobind.h>

void bind_beliefs(nanobind::module_ &module);
