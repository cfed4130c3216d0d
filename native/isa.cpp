// Choice of the instruction set, once, at the first call.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tables.hpp"

namespace tastespace {
namespace {

bool supported(const std::string &name) {
  if (name == "base") return true;
#if defined(TS_X86)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (name == "avx2") return avx2;
  if (name == "avx512")
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#endif
  return false;
}

#define TS_FILL(isa)              \
  do {                            \
    isa::fill_rows(table);        \
    isa::fill_beliefs(table);     \
    isa::fill_candidates(table);  \
    isa::fill_cells(table);       \
    isa::fill_choices(table);     \
    isa::fill_confident(table);   \
    isa::fill_drawn(table);       \
    isa::fill_latent(table);      \
    isa::fill_moments(table);     \
    isa::fill_pairs(table);       \
    isa::fill_scan(table);        \
    isa::fill_sphere(table);      \
    isa::fill_descent(table);     \
    isa::fill_variational(table); \
    isa::fill_trees(table);       \
    table.name = #isa;            \
  } while (0)

Table choose() {
  const char *wanted = std::getenv("TASTESPACE_ISA");
  std::string name = wanted ? wanted : "";
  if (!name.empty() && name != "base" && name != "avx2" && name != "avx512")
    throw std::runtime_error("TASTESPACE_ISA is '" + name + "'; expected base, avx2 or avx512");
  if (!name.empty() && !supported(name))
    throw std::runtime_error("TASTESPACE_ISA is '" + name +
                             "', which this processor or build does not have; unset it, or use base");
  if (name.empty()) name = supported("avx512") ? "avx512" : supported("avx2") ? "avx2" : "base";
  Table table;
#if defined(TS_X86)
  if (name == "avx512")
    TS_FILL(avx512);
  else if (name == "avx2")
    TS_FILL(avx2);
  else
#endif
    TS_FILL(base);
  return table;
}

}  // namespace

const Table &table() {
  static const Table chosen = choose();
  return chosen;
}

}  // namespace tastespace
