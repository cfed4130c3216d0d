#pragma once

#include <nanobind/nanobind.h>

void bind_descent(nanobind::module_ &module);
