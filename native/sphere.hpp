// Rows of one side that lie on a sphere: what each instruction set provides, and the problem.
#pragma once

#include <cstdint>

#include "random.hpp"
#include "rows.hpp"

namespace tastespace {

enum class SphereMove { least, geodesic, slice, metropolis };

// One side's update given the other side, with every row on the sphere of a radius q. Row i has the energy
//
//   r_i alpha/2 sum_k w_k (y_k - x.v_k - c)^2 - x.h + s_i/2 (lambda c^2 - 2 c m),   |x| = q
//
// which with c integrated out is 1/2 x^T A x - b.x, a Fisher-Bingham energy. A and b are made once per row, and every
// step after that is a product with A. The bias can be on the sphere as well: then |x|^2 + c^2 = q^2, and h has a
// number for it.
template <class T>
struct SphereProblem {
  RowsProblem<T> rows;               // its prior has only the linear part; out and out_bias are the current rows
  const T *row_precision = nullptr;  // n_rows: r, or null for 1
  double radius = 1;
  bool has_joint_bias = false;
  SphereMove move = SphereMove::geodesic;
  int64_t steps = 1;  // leapfrog steps of a trajectory, or slices, or proposals
  // Of a leapfrog step, or of a proposal, in units of the narrowest direction of the row's energy.
  double step_size = 1;
  double *acceptance = nullptr;    // n_rows, or null: the acceptance probability of moves
  double *energy_error = nullptr;  // n_rows, or null: the energy error of a trajectory
};

// Everything one thread needs besides the workspace of the rows.
template <class T>
struct SphereWorkspace {
  T *matrix;        // padded x padded: A, all of it
  T *vectors;       // sphere_vectors x padded
  double *factor;   // padded x padded, for the minimum of the energy
  double *numbers;  // sphere_vectors x padded
};
constexpr int64_t sphere_vectors = 8;

template <class T>
struct SphereKernel {
  int64_t (*padded)(int64_t dimension);  // enough for both types
  // Moves a row whose ratings are accumulated; false: the result is not finite.
  bool (*move)(const SphereProblem<T> &, int64_t row, RowsWorkspace<T> &, SphereWorkspace<T> &, RandomStream &,
               const RandomTables &);
};

}  // namespace tastespace
