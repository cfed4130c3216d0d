#pragma once

#include <nanobind/nanobind.h>

void bind_drawn(nanobind::module_ &module);
