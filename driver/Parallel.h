//===- Parallel.h - Compilations on all cores --------------------------------===//
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace attune::driver {

/// work(i) for i in [0, count), in that order, on as many threads as there are cores, or as the system starts, the
/// caller's among them. `work` throws nothing.
template <typename Work> void inParallel(size_t count, Work &&work) {
  std::atomic<size_t> next = 0;
  auto loop = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  const size_t threads = std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  try {
    for (size_t i = 1; i < threads; ++i)
      others.emplace_back(loop);
  } catch (const std::system_error &) { // those that there are do it
  }
  loop();
}

} // namespace attune::driver
