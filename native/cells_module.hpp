#pragma once

#include <nanobind/nanobind.h>

void bind_cells(nanobind::module_ &module);
