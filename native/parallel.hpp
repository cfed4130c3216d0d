// Threads for one call: started, joined, gone. So a fork between calls is harmless, and there is no pool to tune.
#pragma once

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace tastespace {

// Calls work(task, worker) for every task; the next free worker takes the next task. The work of a task must
// not depend on its worker, so that the number of threads cannot change a result.
template <class Work>
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
      break;  // No more threads to be had: those that run take all the tasks.
    }
  }
  run(0);
  for (std::thread &other : others) other.join();
}

}  // namespace tastespace
