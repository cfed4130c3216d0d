// Threads, and the kernels compiled for the instruction set of the machine.
#pragma once

#include <cstdint>
#include <memory>

#include "beliefs.hpp"
#include "descent.hpp"
#include "implicit.hpp"
#include "latent.hpp"
#include "rows.hpp"
#include "scores.hpp"
#include "sphere.hpp"
#include "topn.hpp"
#include "trees.hpp"
#include "variational.hpp"

namespace tastespace {

// A reference to work(task, worker), whatever its type: one loop over threads serves all callers.
class Work {
 public:
  template <class Function>
  Work(Function &&function)
      : function_(const_cast<void *>(static_cast<const void *>(std::addressof(function)))),
        call_([](void *to, int64_t task, int worker) {
          (*static_cast<std::remove_reference_t<Function> *>(to))(task, worker);
        }) {}
  void operator()(int64_t task, int worker) const { call_(function_, task, worker); }

 private:
  void *function_;
  void (*call_)(void *, int64_t, int);
};

// Calls work(task, worker) for every task; the next free worker takes the next task. The work of a task must
// not depend on its worker, so that the number of threads cannot change a result.
void parallel_for(int64_t n_tasks, int threads, Work work);

// The kernels of one instruction set.
struct Table {
  const char *name;
  BeliefsKernel beliefs;
  DescentKernel<float> descent_float;
  DescentKernel<double> descent_double;
  ConjugateKernel conjugate;
  LogisticKernel logistic;
  LatentKernel<float> latent_float;
  LatentKernel<double> latent_double;
  RowsKernel<float> rows_float;
  RowsKernel<double> rows_double;
  MomentsKernel moments;
  PairsKernel pairs;
  DrawsKernel draws;
  FeaturesKernel features;
  SphereKernel<float> sphere_float;
  SphereKernel<double> sphere_double;
  ScanKernel scan;
  CandidatesKernel candidates;
  CellsKernel cells;
  TreesKernel trees;
  VariationalKernel<float> variational_float;
  VariationalKernel<double> variational_double;
};

// The families of kernels: NAME_kernel.cpp defines NAME::fill() once per instruction set.
#define TS_FAMILIES(X) \
  X(beliefs)           \
  X(descent)           \
  X(implicit)          \
  X(latent)            \
  X(rows)              \
  X(scores)            \
  X(sphere)            \
  X(topn)              \
  X(trees)             \
  X(variational)

// The table in use: the best that this processor supports, or the one that TASTESPACE_ISA names.
// Throws std::runtime_error when that is unknown or not supported here.
const Table &table();

// The kernel of a family that has one for each type of numbers.
#define TS_BY_TYPE(family, Kernel)                 \
  template <class T>                               \
  const Kernel<T> &family##_kernel();              \
  template <>                                      \
  inline const Kernel<float> &family##_kernel() {  \
    return table().family##_float;                 \
  }                                                \
  template <>                                      \
  inline const Kernel<double> &family##_kernel() { \
    return table().family##_double;                \
  }
TS_BY_TYPE(descent, DescentKernel)
TS_BY_TYPE(latent, LatentKernel)
TS_BY_TYPE(rows, RowsKernel)
TS_BY_TYPE(sphere, SphereKernel)
TS_BY_TYPE(variational, VariationalKernel)
#undef TS_BY_TYPE

}  // namespace tastespace
