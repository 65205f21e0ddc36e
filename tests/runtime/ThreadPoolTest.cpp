#include "runtime/ThreadPool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace attune;

TEST_CASE("every block runs once", "[pool]") {
  for (unsigned threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (size_t blocks : {size_t(0), size_t(1), size_t(2), size_t(7), size_t(1000)}) {
      std::vector<std::atomic<int>> hits(blocks);
      pool.run(blocks, 16, [&](size_t block, void *) { ++hits[block]; });
      for (auto &hit : hits)
        REQUIRE(hit == 1);
    }
  }
  CHECK(ThreadPool(0).threads() == 1);
}

#if !defined(__has_feature) || !__has_feature(address_sanitizer) // it maps memory of its own
TEST_CASE("threads that the system does not start are done without", "[pool]") {
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * uint64_t(sysconf(_SC_PAGESIZE)) + (64 << 20); // a few stacks
    rlimit both{limit, limit};
    if (setrlimit(RLIMIT_AS, &both) != 0)
      _exit(2);
    ThreadPool pool(256);
    std::atomic<int> sum = 0;
    pool.run(100, 16, [&](size_t block, void *) { sum += int(block); });
    _exit(pool.threads() < 256 && sum == 4950 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("scratch is aligned and used by one block at a time", "[pool]") {
  ThreadPool pool(4);
  for (size_t bytes : {size_t(1), size_t(100), size_t(4096), size_t(64)}) {
    std::atomic<int> wrong = 0;
    pool.run(500, bytes, [&](size_t block, void *scratch) {
      if (reinterpret_cast<uintptr_t>(scratch) % 64 != 0)
        ++wrong;
      auto *mine = static_cast<volatile unsigned char *>(scratch);
      for (size_t i = 0; i < bytes; ++i)
        mine[i] = static_cast<unsigned char>(block);
      for (size_t i = 0; i < bytes; ++i)
        if (mine[i] != static_cast<unsigned char>(block))
          ++wrong;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("runs from several threads take turns, nested runs stay on their thread", "[pool]") {
  ThreadPool pool(3);
  std::atomic<int> total = 0, wrong = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        pool.run(8, 8, [&](size_t, void *outer) {
          std::thread::id here = std::this_thread::get_id();
          pool.run(3, 8, [&](size_t, void *inner) {
            wrong += inner == outer || here != std::this_thread::get_id();
            ++total;
          });
        });
    });
  for (std::thread &caller : callers)
    caller.join();
  CHECK(total == 4 * 50 * 8 * 3);
  CHECK(wrong == 0);
}

TEST_CASE("a forked child runs on its own thread", "[pool]") {
  ThreadPool pool(3);
  pool.run(10, 0, [](size_t, void *) {});
  pid_t child = fork();
  if (child == 0) {
    std::atomic<int> count = 0;
    pool.run(10, 32, [&](size_t, void *) { ++count; });
    _exit(count == 10 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
