//===- Clock.h - What lanes have seen of the others --------------------------===//
//
// A vector clock with a component for each thing that can be waited for:
//
//     | component        | counts                                                                      |
//     |------------------|-----------------------------------------------------------------------------|
//     | seen(actor)      | what the actor had done when that was last handed on: an arrival, a barrier |
//     | fenced(actor)    | the part of it that a fence_async has shown to the asynchronous proxy       |
//     | full(ring, s)    | how often stage s was filled: its arrivals and the bytes of its copies      |
//     | empty(ring, s)   | how often it was released by all of its readers                             |
//
// A wait joins the clocks of those who arrived. What a clock does not reach is not ordered before, in whatever order
// events happen to come.
//
// The lanes of a warp are ordered among each other by sched.sync_lanes and by barriers alone. An arrival therefore
// hands on what the lanes that arrive have done, and of the others what they had done when all lanes last met:
//
//     | actor of a warp | does                                              | is handed on by an arrival of    |
//     |-----------------|---------------------------------------------------|----------------------------------|
//     | Together        | what the warp does as one: ldmatrix, products     | any lane                         |
//     | Each            | accesses of several lanes, each for itself        | all lanes that have made some    |
//     | First           | accesses of lane 0 alone                          | lane 0, as of sched.release      |
//     | Other           | accesses of another lane alone, as of the elected | that lane                        |
//
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <array>
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

/// Lanes of a warp that act.
enum class Lanes : uint8_t { Together, Each, First, Other };
inline constexpr std::array allLanes = {Lanes::Together, Lanes::Each, Lanes::First, Lanes::Other};

struct Actor {
  unsigned warp = 0;
  Lanes lanes = Lanes::Together;

  bool operator==(const Actor &) const = default;
};

/// Which component of a clock is what.
struct Components {
  explicit Components(unsigned warps) : warps(warps), count(2 * warps * unsigned(allLanes.size())) {}

  unsigned warps;
  std::vector<unsigned> firstOfRing; ///< then full and empty of each stage
  unsigned count;

  unsigned seen(Actor actor) const { return unsigned(actor.lanes) * warps + actor.warp; }
  unsigned fenced(Actor actor) const { return unsigned(allLanes.size()) * warps + seen(actor); }
  unsigned full(unsigned ring, int64_t stage) const { return firstOfRing[ring] + 2 * unsigned(stage); }
  unsigned empty(unsigned ring, int64_t stage) const { return full(ring, stage) + 1; }
};

} // namespace attune::roles
