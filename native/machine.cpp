// Threads, and the choice of the instruction set: once, at the first call.
#include "machine.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace tastespace {

// Threads are started and joined within a call. So a fork between calls is harmless, and there is no pool to tune.
void parallel_for(int64_t n_tasks, int threads, Work work) {
  if (int64_t(threads) > n_tasks) threads = int(n_tasks);
  if (threads <= 1) {
    for (int64_t task = 0; task < n_tasks; ++task) work(task, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  auto run = [&](int worker) {
    for (int64_t task = next++; task < n_tasks; task = next++) work(task, worker);
  };
  std::vector<std::thread> others;
  others.reserve(size_t(threads) - 1);
  for (int worker = 1; worker < threads; ++worker) {
    try {
      others.emplace_back(run, worker);
    } catch (const std::system_error &) {
      break;  // No more threads are available: those that run take all the tasks.
    }
  }
  run(0);
  for (std::thread &other : others) other.join();
}

#define TS_DECLARE(family) \
  namespace family {       \
  void fill(Table &table); \
  }
#define TS_FILL(family) family::fill(table);
#define TS_INSTRUCTION_SET(isa) \
  namespace isa {               \
  TS_FAMILIES(TS_DECLARE)       \
  Table filled() {              \
    Table table;                \
    TS_FAMILIES(TS_FILL)        \
    table.name = #isa;          \
    return table;               \
  }                             \
  }
TS_INSTRUCTION_SET(base)
#if defined(TS_X86)
TS_INSTRUCTION_SET(avx2)
TS_INSTRUCTION_SET(avx512)
#endif

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

Table choose() {
  const char *wanted = std::getenv("TASTESPACE_ISA");
  std::string name = wanted ? wanted : "";
  if (!name.empty() && name != "base" && name != "avx2" && name != "avx512")
    throw std::runtime_error("TASTESPACE_ISA is '" + name + "'; expected base, avx2 or avx512");
  if (!name.empty() && !supported(name))
    throw std::runtime_error("TASTESPACE_ISA is '" + name +
                             "', which this processor or build does not have; unset it, or use base");
  if (name.empty()) name = supported("avx512") ? "avx512" : supported("avx2") ? "avx2" : "base";
#if defined(TS_X86)
  if (name == "avx512") return avx512::filled();
  if (name == "avx2") return avx2::filled();
#endif
  return base::filled();
}

}  // namespace

const Table &table() {
  static const Table chosen = choose();
  return chosen;
}

}  // namespace tastespace
