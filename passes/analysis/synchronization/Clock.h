//===- Clock.h - Vector clocks that order the events of a thread block --------===//
//
// A vector clock says which events of the thread block happened before a point of a warp's program. Its components:
//
//     | component        | counts                                                                       |
//     |------------------|------------------------------------------------------------------------------|
//     | seen(actor)      | time of the actor's last event that an arrival or a barrier has published    |
//     | fenced(actor)    | the same for events that a fence_async made visible to the asynchronous proxy |
//     | full(ring, s)    | how often stage s was filled: all arrivals, and all bytes of its copies      |
//     | empty(ring, s)   | how often stage s was released by all of its readers                         |
//
// A wait joins the clocks of the warps that arrived. An event that a warp's clock does not cover is not ordered before
// the warp's next op, even if the event ran earlier in this simulation.
//
// The lanes of a warp are ordered among each other only by sched.sync_lanes and by barriers. An arrival therefore
// publishes the events of the arriving lanes, and of the other lanes only the events before the last sync_lanes or
// barrier. Events of a warp are attributed to four actors:
//
//     | actor of a warp | its events                                         | published by an arrival of        |
//     |-----------------|----------------------------------------------------|-----------------------------------|
//     | Together        | ops of the whole warp: ldmatrix, products          | any lane                          |
//     | Each            | accesses of several lanes, each for itself         | all lanes that made such accesses |
//     | First           | accesses of lane 0 alone                           | lane 0, as in sched.release       |
//     | Other           | accesses of one other lane alone: the elected lane | that lane                         |
//
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace attune::synchronization {

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

/// The lanes of a warp that an event belongs to (see the table of actors above).
enum class Lanes : uint8_t { Together, Each, First, Other };
inline constexpr std::array allLanes = {Lanes::Together, Lanes::Each, Lanes::First, Lanes::Other};

struct Actor {
  unsigned warp = 0;
  Lanes lanes = Lanes::Together;

  bool operator==(const Actor &) const = default;
};

/// Numbers the components of a clock.
struct Components {
  explicit Components(unsigned warps) : warps(warps), count(2 * warps * unsigned(allLanes.size())) {}

  unsigned warps;
  std::vector<unsigned> firstOfRing; ///< each ring's first component; full and empty of each stage follow
  unsigned count;

  unsigned seen(Actor actor) const { return unsigned(actor.lanes) * warps + actor.warp; }
  unsigned fenced(Actor actor) const { return unsigned(allLanes.size()) * warps + seen(actor); }
  unsigned full(unsigned ring, int64_t stage) const { return firstOfRing[ring] + 2 * unsigned(stage); }
  unsigned empty(unsigned ring, int64_t stage) const { return full(ring, stage) + 1; }
};

} // namespace attune::synchronization
