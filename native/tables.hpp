// The table of function pointers: one a set of instructions, filled by the kernel files compiled for it.
#pragma once

#include "beliefs.hpp"
#include "candidates.hpp"
#include "cells.hpp"
#include "choices.hpp"
#include "confident.hpp"
#include "descent.hpp"
#include "drawn.hpp"
#include "latent.hpp"
#include "moments.hpp"
#include "pairs.hpp"
#include "rows.hpp"
#include "scan.hpp"
#include "sphere.hpp"
#include "trees.hpp"
#include "variational.hpp"

namespace tastespace {

struct Table {
  const char *name;
  RowsKernel<float> rows_float;
  RowsKernel<double> rows_double;
  BeliefsKernel beliefs;
  CandidatesKernel candidates;
  CellsKernel cells;
  ChoicesKernel choices;
  ConfidentKernel confident;
  DrawnKernel drawn;
  LatentKernel<float> latent_float;
  LatentKernel<double> latent_double;
  MomentsKernel moments;
  PairsKernel pairs;
  ScanKernel scan;
  SphereKernel<float> sphere_float;
  SphereKernel<double> sphere_double;
  DescentKernel<float> descent_float;
  DescentKernel<double> descent_double;
  VariationalKernel<float> variational_float;
  VariationalKernel<double> variational_double;
  TreesKernel trees;
};

#define TS_DECLARE(isa)                \
  namespace isa {                      \
  void fill_rows(Table &table);        \
  void fill_beliefs(Table &table);     \
  void fill_candidates(Table &table);  \
  void fill_cells(Table &table);       \
  void fill_choices(Table &table);     \
  void fill_confident(Table &table);   \
  void fill_drawn(Table &table);       \
  void fill_latent(Table &table);      \
  void fill_moments(Table &table);     \
  void fill_pairs(Table &table);       \
  void fill_scan(Table &table);        \
  void fill_sphere(Table &table);      \
  void fill_descent(Table &table);     \
  void fill_variational(Table &table); \
  void fill_trees(Table &table);       \
  }
TS_DECLARE(base)
#if defined(TS_X86)
TS_DECLARE(avx2)
TS_DECLARE(avx512)
#endif
#undef TS_DECLARE

// The table in use: the best this processor runs, or the one that TASTESPACE_ISA names.
// Throws std::runtime_error when that is unknown or not supported here.
const Table &table();

template <class T>
const RowsKernel<T> &rows_kernel();
template <>
inline const RowsKernel<float> &rows_kernel<float>() {
  return table().rows_float;
}
template <>
inline const RowsKernel<double> &rows_kernel<double>() {
  return table().rows_double;
}

template <class T>
const SphereKernel<T> &sphere_kernel();
template <>
inline const SphereKernel<float> &sphere_kernel<float>() {
  return table().sphere_float;
}
template <>
inline const SphereKernel<double> &sphere_kernel<double>() {
  return table().sphere_double;
}

template <class T>
const LatentKernel<T> &latent_kernel();
template <>
inline const LatentKernel<float> &latent_kernel<float>() {
  return table().latent_float;
}
template <>
inline const LatentKernel<double> &latent_kernel<double>() {
  return table().latent_double;
}

template <class T>
const VariationalKernel<T> &variational_kernel();
template <>
inline const VariationalKernel<float> &variational_kernel<float>() {
  return table().variational_float;
}
template <>
inline const VariationalKernel<double> &variational_kernel<double>() {
  return table().variational_double;
}

template <class T>
const DescentKernel<T> &descent_kernel();
template <>
inline const DescentKernel<float> &descent_kernel<float>() {
  return table().descent_float;
}
template <>
inline const DescentKernel<double> &descent_kernel<double>() {
  return table().descent_double;
}

}  // namespace tastespace
