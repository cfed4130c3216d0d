#pragma once

#include <nanobind/nanobind.h>

void bind_candidates(nanobind::module_ &module);
