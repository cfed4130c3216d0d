// Latent responses of ratings: their scores, draws given them, and how scores spread over a grid.
#pragma once

#include <cstdint>

#include "random.hpp"

namespace tastespace {

// out[k] = offset + row_bias[row] + other_bias[column] + rows[row] . other[column] for the ratings k of every row.
template <class T>
struct ScoresProblem {
  int64_t n_factors = 0;
  const int64_t *offsets = nullptr;  // n_rows + 1
  const int32_t *columns = nullptr;  // per rating
  const T *rows = nullptr;           // n_rows x n_factors
  const T *row_bias = nullptr;       // n_rows, or null for 0
  const T *other = nullptr;          // n_columns rows of n_factors, other_stride apart
  int64_t other_stride = 0;
  const T *other_bias = nullptr;  // n_columns, other_bias_stride apart, or null for 0
  int64_t other_bias_stride = 1;
  double offset = 0;
  T *out = nullptr;  // per rating
};

// A rating's level is the number of edges below its value; its latent response is normal about the score, with
// variance 1, and lies in (cuts[level - 1], cuts[level]], with infinite outer cuts.
template <class T>
struct TruncatedProblem {
  const T *scores = nullptr;  // per rating
  const T *values = nullptr;  // per rating
  int64_t n_edges = 0;
  const T *edges = nullptr;      // ascending
  const double *cuts = nullptr;  // n_edges, ascending
  const RandomTables *tables = nullptr;
  T *out = nullptr;  // per rating; may be scores itself
};

template <class T>
struct PolyaGammaProblem {
  const T *scores = nullptr;  // per rating
  const RandomTables *tables = nullptr;
  T *out = nullptr;  // per rating; may be scores itself
};

// Scores spread over a grid of nodes first, first + step ..., one row per level, for cubic interpolation.
template <class T>
struct BinsProblem {
  const T *scores = nullptr;  // per rating
  const T *values = nullptr;  // per rating
  int64_t n_edges = 0;
  const T *edges = nullptr;  // ascending
  double first = 0, inverse_step = 1;
  int64_t n_nodes = 0;  // at least 4
};

// Ratings that share a stream; the result depends on it.
constexpr int64_t latent_block = 1024;

template <class T>
struct LatentKernel {
  // Ratings begin..end, the first of which belongs to `row`.
  void (*score)(const ScoresProblem<T> &, int64_t row, int64_t begin, int64_t end);
  // Ratings begin..end, at most latent_block.
  void (*truncated)(const TruncatedProblem<T> &, int64_t begin, int64_t end, RandomStream &);
  void (*polya_gamma)(const PolyaGammaProblem<T> &, int64_t begin, int64_t end, RandomStream &);
  // Adds 1, f, f^2 and f^3 of ratings begin..end to moments[level][cell], f being the place in the cell; returns -1, or
  // the first rating outside the grid.
  int64_t (*bin)(const BinsProblem<T> &, int64_t begin, int64_t end, double *moments);
  // Standard normal numbers, and a gamma variable with rate 1: for draws that continue one stream.
  void (*normals)(const RandomTables &, int64_t n, T *out, RandomStream &);
  double (*gamma)(const RandomTables &, double shape, RandomStream &);
};

}  // namespace tastespace
