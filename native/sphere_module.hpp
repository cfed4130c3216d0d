#pragma once

#include <nanobind/nanobind.h>

void bind_sphere(nanobind::module_ &module);
