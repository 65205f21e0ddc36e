//===- ParallelFor.cpp - A loop on all cores ----------------------------------===//
#include "tools/reference/ParallelFor.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

void attune::reference::parallelFor(int64_t count, unsigned threads,
                                    const std::function<void(int64_t, int64_t)> &work) {
  constexpr int64_t grain = 8;
  std::atomic<int64_t> next = 0;
  auto loop = [&] {
    for (int64_t begin; (begin = next.fetch_add(grain)) < count;)
      work(begin, std::min(begin + grain, count));
  };
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  threads = unsigned(std::min<int64_t>(threads, (count + grain - 1) / grain));
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    try {
      others.emplace_back(loop);
    } catch (const std::system_error &) { // a limit on threads or memory: those that there are do the work
      break;
    }
  loop();
  for (std::thread &other : others)
    other.join();
}
