//===- Memory.h - Checks the order of shared-memory accesses -----------------===//
//
// Shared memory is divided into cells. A cell is one group of rows (16, or more in tall buffers) of one stage of a
// buffer, divided further where other buffers begin or end. Each cell records who wrote and read it, and when. Each
// access must be ordered, by the clocks of Clock.h, after earlier accesses to its cells:
//
//     | access                          | must be ordered after                                                  |
//     |---------------------------------|------------------------------------------------------------------------|
//     | read by instructions            | every write; the bytes must belong to the same buffer                  |
//     | read by the tensor cores or TMA | the same; a fence_async must follow the stores                         |
//     | write by instructions           | every read and copy; every write that stored to another buffer         |
//     | write by TMA                    | every read and write; a fence_async must follow the stores             |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/synchronization/Clock.h"
#include "passes/analysis/synchronization/Program.h"

namespace attune::synchronization {

/// Describes an access that is not ordered as required. `what` continues an error text that begins "reads stage 1 of
/// k_ring, "; `other` is the op of the earlier access.
struct Fault {
  std::string what;
  mlir::Operation *other = nullptr;
};

/// Groups of rows of one stage of a buffer: bit i of `blocks` is set for group i (SharedBuffer::rowsAtOnce rows each).
struct Place {
  int buffer = 0;
  int64_t stage = 0;
  uint32_t blocks = 0;

  bool operator==(const Place &) const = default;
};

struct Accessor {
  Actor actor;
  uint32_t now = 0; ///< time of the access by the warp's own clock
  const Clock *knows = nullptr;
  mlir::Operation *op = nullptr;
};

class Memory {
public:
  Memory(const Program &program, const Components &components);
  void reset();

  using Result = std::optional<Fault>;
  Result read(const Accessor &by, const Place &place);
  Result write(const Accessor &by, const Place &place);
  /// A write by TMA. The write is complete for a warp whose clock has reached `phase` in `component`.
  Result copy(const Accessor &by, const Place &place, unsigned component, uint32_t phase);
  /// A write by cp.async of a warp's lanes, which is under way until `endCopy`.
  Result startCopy(const Accessor &by, const Place &place);
  void endCopy(const Accessor &by, const Place &place);
  /// A read by an asynchronous op (product or TMA store), which is under way until `endRead`.
  Result startRead(const Accessor &by, const Place &place);
  void endRead(const Accessor &by, const Place &place);

private:
  /// The actors that have accessed a cell, and the time of each actor's last access.
  struct Accesses {
    std::array<uint32_t, allLanes.size()> warps = {}; ///< bit mask of warps, for each of Lanes
    std::array<std::array<uint32_t, 32>, allLanes.size()> at;

    void clear() { warps = {}; }
    void add(Actor actor, uint32_t now) {
      warps[size_t(actor.lanes)] |= 1u << actor.warp;
      at[size_t(actor.lanes)][actor.warp] = now;
    }
    /// Calls `visit(actor, time of its last access)` for each actor.
    template <typename Visit> void forEach(Visit visit) const {
      for (Lanes lanes : allLanes)
        for (uint32_t left = warps[size_t(lanes)]; left; left &= left - 1) {
          const auto warp = unsigned(llvm::countr_zero(left));
          visit(Actor{warp, lanes}, at[size_t(lanes)][warp]);
        }
    }
  };
  struct Cell {
    int owner = -1; ///< the buffer whose data the cell holds; -1 if never written
    mlir::Operation *writeOp = nullptr, *readOp = nullptr;
    /// Vector-clock component that tells when the cell's TMA copy is complete; -1 if written by stores.
    int copyComponent = -1;
    uint32_t copyPhase = 0;
    int underRead = 0, underCopy = 0;
    Accesses writes, reads;
  };

  Result faultOfRead(const Accessor &by, const Cell &cell, int buffer, bool engine) const;
  Result faultOfWrite(const Accessor &by, const Cell &cell, int buffer, bool engine) const;
  Result faultOfWriters(const Accessor &by, const Cell &cell, bool engine) const;
  bool comesAfter(const Accessor &by, Actor actor, uint32_t at) const;
  std::string whyUnordered(const Accessor &by, Actor actor, uint32_t at, llvm::StringRef does) const;
  Result unwritten(const Place &place);
  void layOut();

  /// Calls `visit` for each cell of a place, until `visit` returns a fault.
  template <typename Visit> Result each(const Place &place, Visit visit) {
    const auto &blocks = cellsOf[place.buffer][place.stage];
    for (size_t block = 0; block < blocks.size(); ++block)
      if (place.blocks >> block & 1)
        for (unsigned cell : blocks[block])
          if (Result fault = visit(cells[cell]))
            return fault;
    return std::nullopt;
  }

  const Program &program;
  const Components &components;
  std::vector<Cell> cells;
  /// Indices of cells: [buffer][stage][group of rows] is a list, because other buffers may divide a group.
  std::vector<std::vector<std::vector<std::vector<unsigned>>>> cellsOf;
};

} // namespace attune::synchronization
