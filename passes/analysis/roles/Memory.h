//===- Memory.h - Who wrote and who reads shared memory ----------------------===//
//
// Shared memory in cells: the bytes of one block of rows of one stage, cut where those of other buffers begin and end.
// Each cell knows by what clocks (Clock.h) its writes and reads are reached:
//
//     | access                          | needs, of what came before                                            |
//     |---------------------------------|-----------------------------------------------------------------------|
//     | read by instructions            | every write; the bytes are those of the same buffer                   |
//     | read by the tensor cores, boxes | the same, and a fence_async after stores                              |
//     | write by instructions           | every read and copy, and writes but for those of other warps' parts   |
//     | write by TMA        | every read and write, and a fence_async after stores                  |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/roles/Clock.h"
#include "passes/analysis/roles/Program.h"

namespace attune::roles {

/// What is wrong with an access, behind "reads k_ring, stage 1, ".
struct Fault {
  std::string what;
  mlir::Operation *other = nullptr;
};

/// Blocks of rows of a stage, bit by bit.
struct Place {
  int buffer = 0;
  int64_t stage = 0;
  uint32_t blocks = 0;

  bool operator==(const Place &) const = default;
};

struct Accessor {
  Actor actor;
  uint32_t now = 0; ///< the warp's own clock
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
  /// By TMA: complete where a clock has `phase` in `component`.
  Result copy(const Accessor &by, const Place &place, unsigned component, uint32_t phase);
  /// By cp.async of a warp's lanes, until `endCopy`.
  Result startCopy(const Accessor &by, const Place &place);
  void endCopy(const Accessor &by, const Place &place);
  /// Asynchronous, until `endRead`.
  Result startRead(const Accessor &by, const Place &place);
  void endRead(const Accessor &by, const Place &place);

private:
  /// Who has accessed a cell, and when last.
  struct Accesses {
    std::array<uint32_t, allLanes.size()> warps = {}; ///< by lanes, warps bit by bit
    std::array<std::array<uint32_t, 32>, allLanes.size()> at;

    void clear() { warps = {}; }
    void add(Actor actor, uint32_t now) {
      warps[size_t(actor.lanes)] |= 1u << actor.warp;
      at[size_t(actor.lanes)][actor.warp] = now;
    }
    /// `visit(actor, at)` for each.
    template <typename Visit> void forEach(Visit visit) const {
      for (Lanes lanes : allLanes)
        for (uint32_t left = warps[size_t(lanes)]; left; left &= left - 1) {
          const auto warp = unsigned(llvm::countr_zero(left));
          visit(Actor{warp, lanes}, at[size_t(lanes)][warp]);
        }
    }
  };
  struct Cell {
    int owner = -1; ///< the buffer that it holds a part of
    mlir::Operation *writeOp = nullptr, *readOp = nullptr;
    int copyComponent = -1; ///< of a copy
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

  /// The cells of a place, one after the other, until `visit` gives a fault.
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
  std::vector<std::vector<std::vector<std::vector<unsigned>>>> cellsOf; ///< by buffer, stage, block
};

} // namespace attune::roles
