//===- Memory.h - Shared memory that knows who wrote it ---------------------===//
//
// Bytes, and for every four of them who wrote and read them last, as counts of what warps have handed on (Sim.h,
// "Races").
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/sim/Program.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace attune::sim {

/// What is wrong, and the op that it clashes with.
struct Fault {
  static constexpr uint32_t none = ~0u;
  std::string what;
  uint32_t other = none;
};

/// Up to which count an agent's accesses are ordered before what comes next here.
struct Knowledge {
  Knowledge() = default;
  explicit Knowledge(int agents) : seen(agents), fenced(agents) {}

  std::vector<uint32_t> seen;
  std::vector<uint32_t> fenced; ///< the same of writes that the asynchronous proxy sees

  void join(const Knowledge &other) {
    for (size_t i = 0; i < seen.size(); ++i) {
      seen[i] = std::max(seen[i], other.seen[i]);
      fenced[i] = std::max(fenced[i], other.fenced[i]);
    }
  }
  void clear() {
    seen.assign(seen.size(), 0);
    fenced.assign(fenced.size(), 0);
  }
};

/// One thread, or with `wholeWarp` the warp as one, and what it knows.
struct Actor {
  static constexpr int wholeWarp = -1;
  int warp = 0, lane = wholeWarp;
  uint32_t now = 0; ///< the warp's count
  uint32_t met = 0; ///< the same when its lanes last met
  uint32_t op = 0;
  uint32_t fence = 0; ///< the same at the thread's last fence_async
  const Knowledge *knows = nullptr;

  static constexpr int agentOf(int warp, int lane) { return warp * agentsOfWarp + (lane == wholeWarp ? lanes : lane); }
  int agent() const { return agentOf(warp, lane); }
};

class SharedMemory {
public:
  SharedMemory(size_t bytes, int warps);
  void reset();

  std::byte *at(int64_t address) { return bytes.data() + address; }

  /// By ordinary instructions. Addresses and counts are multiples of four within the memory.
  std::optional<Fault> read(const Actor &actor, int64_t address, int64_t count);
  std::optional<Fault> write(const Actor &actor, int64_t address, int64_t count);

  /// cp.async, or with `engine` TMA: the destination from the start of a copy to its landing.
  std::optional<Fault> startCopy(const Actor &actor, int64_t address, int64_t count, bool engine);
  /// The copy's bytes are there, written by `actor`.
  void landCopy(const Actor &actor, int64_t address, int64_t count);
  /// The same, written by an agent that is not a warp, in its `phase`.
  void landBox(int agent, uint32_t phase, uint32_t op, int64_t address, int64_t count);

  /// Reads that take until endRead, by tensor cores or TMA.
  std::optional<Fault> startRead(const Actor &actor, int64_t address, int64_t count);
  void endRead(const Actor &actor, int64_t address, int64_t count);

  /// Bytes that hold mbarriers.
  std::optional<Fault> placeBarriers(const Actor &actor, int64_t address, int64_t count);

private:
  enum class State : uint8_t { Empty, Written, Copied, Copying, Barrier };
  struct Cell {
    uint32_t clock = 0; ///< of the last write
    uint32_t op = 0;    ///< that wrote last, or fills now
    uint16_t agent = 0; ///< that wrote last
    State state = State::Empty;
    uint16_t underRead = 0; ///< asynchronous reads under way
  };
  /// A warp's last reads of a cell: by these lanes since all of them met, by no lane where the warp read as one.
  struct Read {
    uint32_t clock = 0, lanes = 0;
  };

  bool seesWrite(const Actor &actor, const Cell &cell, bool engine) const;
  std::optional<Fault> faultOfRead(const Actor &actor, const Cell &cell, bool engine) const;
  std::optional<Fault> faultOfWrite(const Actor &actor, size_t index, bool engine) const;
  bool mayStillRead(const Actor &actor, int warp, const Read &read) const;
  void noteRead(const Actor &actor, size_t index);
  void claim(int agent, uint32_t clock, uint32_t op, size_t index, State state);
  void claim(const Actor &actor, size_t index, State state) { claim(actor.agent(), actor.now, actor.op, index, state); }

  int warps;
  std::vector<std::byte> bytes;
  std::vector<Cell> cells;
  std::vector<Read> reads;       ///< [cell][warp]
  std::vector<uint32_t> readOps; ///< [cell], op of the last read
};

} // namespace attune::sim
