//===- Memory.h - Shared memory with race detection -------------------------===//
//
// The bytes of a block's shared memory. For every four bytes ("cell") the memory keeps the last write and each warp's
// last read, with their clock values (Sim.h, "Races").
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/sim/Program.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace attune::sim {

/// A race or another wrong access: its description, and the other op involved.
struct Fault {
  static constexpr uint32_t none = ~0u;
  std::string what;
  uint32_t other = none;
};

/// A vector clock. For each agent (a lane of a warp, a whole warp, or a stage of a ring) it holds the last clock value
/// whose accesses are ordered before the owner's next access.
struct Knowledge {
  Knowledge() = default;
  explicit Knowledge(int agents) : seen(agents), fenced(agents) {}

  std::vector<uint32_t> seen;
  std::vector<uint32_t> fenced; ///< per agent: last clock value whose writes fence_async made visible to TMA and MMAs

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

/// Who performs an access, a thread or (lane == wholeWarp) a whole warp, and the clocks at that moment.
struct Actor {
  static constexpr int wholeWarp = -1;
  int warp = 0, lane = wholeWarp;
  uint32_t now = 0; ///< the warp's clock
  uint32_t met = 0; ///< the warp's clock when all lanes of the warp last synchronised
  uint32_t op = 0;
  uint32_t fence = 0; ///< the warp's clock at the thread's last fence_async
  const Knowledge *knows = nullptr;

  static constexpr int agentOf(int warp, int lane) { return warp * agentsOfWarp + (lane == wholeWarp ? lanes : lane); }
  int agent() const { return agentOf(warp, lane); }
};

class SharedMemory {
public:
  SharedMemory(size_t bytes, int warps);
  void reset();

  std::byte *at(int64_t address) { return bytes.data() + address; }

  /// Accesses by ordinary instructions. Addresses and counts must be multiples of four and within the memory.
  std::optional<Fault> read(const Actor &actor, int64_t address, int64_t count);
  std::optional<Fault> write(const Actor &actor, int64_t address, int64_t count);

  /// Marks the destination of a copy (cp.async, or TMA if `engine`) as in flight and fills it with NaN.
  std::optional<Fault> startCopy(const Actor &actor, int64_t address, int64_t count, bool engine);
  /// Completes a cp.async: its bytes count as written by `actor`.
  void landCopy(const Actor &actor, int64_t address, int64_t count);
  /// Completes a TMA copy: its bytes count as written by `agent`, a stage of a ring, at clock value `phase`.
  void landBox(int agent, uint32_t phase, uint32_t op, int64_t address, int64_t count);

  /// An asynchronous read by tensor cores or TMA, in flight from startRead to endRead.
  std::optional<Fault> startRead(const Actor &actor, int64_t address, int64_t count);
  void endRead(const Actor &actor, int64_t address, int64_t count);

  /// Marks bytes as holding mbarriers, which no other access may touch.
  std::optional<Fault> placeBarriers(const Actor &actor, int64_t address, int64_t count);

private:
  enum class State : uint8_t { Empty, Written, Copied, Copying, Barrier };
  struct Cell {
    uint32_t clock = 0; ///< clock value of the last write
    uint32_t op = 0;    ///< op of the last write or of the copy in flight
    uint16_t agent = 0; ///< agent of the last write
    State state = State::Empty;
    uint16_t underRead = 0; ///< number of asynchronous reads of the cell in flight
  };
  /// A warp's last reads of a cell. `lanes` is the bit mask of the lanes that have read since the lanes last
  /// synchronised; 0 means that the warp read as a whole (ldmatrix, MMA).
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
  std::vector<Read> reads;       ///< [cell][warp]: a warp's last reads of a cell
  std::vector<uint32_t> readOps; ///< [cell]: op of the last read
};

} // namespace attune::sim
