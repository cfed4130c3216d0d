#pragma once

#include <nanobind/nanobind.h>

void bind_variational(nanobind::module_ &module);
