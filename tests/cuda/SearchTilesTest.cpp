//===- SearchTilesTest.cpp - A warp's search, by 32 threads of the host -----------===//
//
// The text of search_tiles is compiled for the host. A thread is a lane; a ballot waits for all lanes.
//
//===----------------------------------------------------------------------===//

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <thread>
#include <vector>

#define __device__
#define __forceinline__ inline

namespace {

constexpr unsigned lanesOfWarp = 32;
thread_local struct {
  unsigned x;
} threadIdx;
std::barrier<> allLanes(lanesOfWarp);
std::atomic<unsigned> votes;

unsigned __activemask() { return ~0u; }
int __popc(unsigned word) { return std::popcount(word); }
int __ldg(const int *address) { return *address; }
int min(int a, int b) { return std::min(a, b); }

unsigned __ballot_sync(unsigned, bool condition) {
  if (condition)
    votes |= 1u << threadIdx.x;
  allLanes.arrive_and_wait();
  const unsigned result = votes;
  allLanes.arrive_and_wait();
  if (threadIdx.x == 0)
    votes = 0;
  allLanes.arrive_and_wait();
  return result;
}

#include "SearchTiles.inc"

/// The sequences' first rows, and the row after the last: unlike lengths, some of them 0.
std::vector<int> boundsOf(int count) {
  std::vector<int> bounds(1);
  for (int i = 0; i + 1 < count; ++i)
    bounds.push_back(bounds.back() + (i * 37 + 11) % 200 / (1 + i % 3));
  return bounds;
}

} // namespace

TEST_CASE("a warp finds the sequence of a tile") {
  std::atomic<int> wrong = 0;
  auto search = [&](unsigned lane) {
    threadIdx.x = lane;
    for (int count : {1, 2, 31, 32, 33, 34, 65, 66, 99, 1024, 1025, 1100, 2179}) {
      const std::vector<int> bounds = boundsOf(count);
      std::vector<int> numbers;
      for (int i = 0; i < count; ++i)
        numbers.push_back(bounds[size_t(i)] / 128 + i);
      std::vector<int> tiles = {-1, 0, 1, numbers.back() - 1, numbers.back(), numbers.back() + 1};
      for (int tile = 2; tile < numbers.back(); tile += 1 + numbers.back() / 24)
        tiles.push_back(tile);
      for (int x : tiles) {
        const int found = search_tiles<true, 128>(bounds.data(), 1, count, x);
        wrong += found != std::ranges::upper_bound(numbers, x) - numbers.begin();
      }
    }
  };
  std::vector<std::thread> lanes;
  for (unsigned lane = 0; lane < lanesOfWarp; ++lane)
    lanes.emplace_back(search, lane);
  for (std::thread &lane : lanes)
    lane.join();
  CHECK(wrong == 0);
}
