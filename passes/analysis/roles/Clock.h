//===- Clock.h - What a warp has seen of the others --------------------------===//
//
// A vector clock with a component for each thing that can be waited for:
//
//     | component        | counts                                                                     |
//     |------------------|----------------------------------------------------------------------------|
//     | seen(w)          | what warp w had done when it last handed on: an arrival, a barrier          |
//     | fenced(w)        | the part of it that a fence_async has shown to the asynchronous proxy       |
//     | full(ring, s)    | how often stage s was filled: its arrivals and the bytes of its copies      |
//     | empty(ring, s)   | how often it was released by all of its readers                             |
//
// A wait joins the clocks of those who arrived. What a clock does not reach is not ordered before, in whatever order
// events happen to come.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace attune::roles {

class Clock {
public:
  Clock() = default;
  explicit Clock(size_t components) : counts(components) {}

  uint32_t &operator[](size_t component) { return counts[component]; }
  uint32_t operator[](size_t component) const { return counts[component]; }

  void join(const Clock &other) {
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = std::max(counts[i], other.counts[i]);
  }
  void clear() { std::fill(counts.begin(), counts.end(), 0); }

private:
  std::vector<uint32_t> counts;
};

/// Which component of a clock is what.
struct Components {
  unsigned warps = 0;
  std::vector<unsigned> firstOfRing; ///< then full and empty of each stage
  unsigned count = 0;

  unsigned seen(unsigned warp) const { return warp; }
  unsigned fenced(unsigned warp) const { return warps + warp; }
  unsigned full(unsigned ring, int64_t stage) const { return firstOfRing[ring] + 2 * unsigned(stage); }
  unsigned empty(unsigned ring, int64_t stage) const { return full(ring, stage) + 1; }
};

} // namespace attune::roles
