#pragma once

#include <nanobind/nanobind.h>

void bind_neighbours(nanobind::module_ &module);
