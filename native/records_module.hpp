#pragma once

#include <nanobind/nanobind.h>

void bind_records(nanobind::module_ &module);
