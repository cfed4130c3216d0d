#pragma once

#include <nanobind/nanobind.h>

void bind_latent(nanobind::module_ &module);
