//===- Memory.cpp - Checks the order of shared-memory accesses ---------------===//

#include "passes/analysis/synchronization/Memory.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

Memory::Memory(const Program &program, const Components &components) : program(program), components(components) {
  layOut();
}

/// The byte ranges in shared memory of group `block` of a stage's rows: one range in each panel of the swizzled layout.
static SmallVector<std::pair<int64_t, int64_t>> rangesOf(const SharedBuffer &buffer, int64_t stage, int64_t block) {
  tile::TileType type = sched::SharedOp(buffer.op).getResult().getType();
  const int64_t stageBytes = type.bytes() / buffer.stages,
                begin = int64_t(sched::SharedOp(buffer.op).getOffset()) + stage * stageBytes;
  if (buffer.blocks == 1)
    return {{begin, begin + stageBytes}};
  auto swizzle = dyn_cast_if_present<sched::SwizzleAttr>(type.getLayout());
  const int64_t rowBytes = type.rowBytes(), panel = swizzle ? swizzle.getPanel() : rowBytes, panels = rowBytes / panel,
                first = block * buffer.rowsAtOnce(), last = std::min(first + buffer.rowsAtOnce(), buffer.rows);
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t at = begin + p * buffer.rows * panel;
    ranges.push_back({at + first * panel, at + last * panel});
  }
  return ranges;
}

void Memory::layOut() {
  SmallVector<int64_t> bounds;
  auto forAll = [&](auto visit) {
    for (auto [b, buffer] : llvm::enumerate(program.buffers))
      for (int64_t stage = 0; stage < buffer.stages; ++stage)
        for (int64_t block = 0; block < buffer.blocks; ++block)
          for (auto range : rangesOf(buffer, stage, block))
            visit(b, stage, block, range);
  };
  forAll([&](size_t, int64_t, int64_t, auto range) { bounds.append({range.first, range.second}); });
  llvm::sort(bounds);
  bounds.erase(llvm::unique(bounds), bounds.end());
  cells.resize(bounds.size());
  for (const SharedBuffer &buffer : program.buffers)
    cellsOf.emplace_back(buffer.stages, std::vector<std::vector<unsigned>>(buffer.blocks));
  forAll([&](size_t b, int64_t stage, int64_t block, auto range) {
    for (auto at = llvm::lower_bound(bounds, range.first); at != bounds.end() && *at < range.second; ++at)
      cellsOf[b][stage][block].push_back(unsigned(at - bounds.begin()));
  });
}

void Memory::reset() {
  for (Cell &cell : cells) {
    cell.owner = cell.copyComponent = -1;
    cell.writeOp = cell.readOp = nullptr;
    cell.underRead = cell.underCopy = 0;
    cell.writes.clear();
    cell.reads.clear();
  }
}

/// Whether the access `by` is ordered after the event of `actor` at time `at`. An event of a whole warp
/// (Lanes::Together) is ordered before everything that lanes of this warp do later.
bool Memory::comesAfter(const Accessor &by, Actor actor, uint32_t at) const {
  const bool isOwn = by.actor == actor || (by.actor.warp == actor.warp && actor.lanes == Lanes::Together);
  return isOwn || (*by.knows)[components.seen(actor)] >= at;
}

/// The end of an error text about the access `by` and an unordered earlier access of `actor` at time `at`, such as
/// "which another warp may still read; a ring or barrier must order the two". `does` is the part "may still read". If
/// the actor's warp has arrived since, but not for the lane of the earlier access, the text names sync_lanes.
std::string Memory::whyUnordered(const Accessor &by, Actor actor, uint32_t at, StringRef does) const {
  if (by.actor.warp == actor.warp)
    return ("which another lane of the warp " + does + "; a sched.sync_lanes or a barrier must order the two").str();
  if ((*by.knows)[components.seen({actor.warp, Lanes::Together})] >= at)
    return ("which a lane of another warp " + does +
            " although its warp has arrived; a sched.sync_lanes must come before the arrival")
        .str();
  return ("which another warp " + does + "; a ring or barrier must order the two").str();
}

Memory::Result Memory::faultOfWriters(const Accessor &by, const Cell &cell, bool engine) const {
  const Clock &knows = *by.knows;
  if (cell.underCopy)
    return Fault{
        "whose copy may be under way; a sched.wait_copies of the threads that copy and a barrier must stand between",
        cell.writeOp};
  if (cell.copyComponent >= 0 && knows[cell.copyComponent] < cell.copyPhase)
    return Fault{"whose copy may be under way; a sched.wait for its ring's stage must stand between", cell.writeOp};
  Result fault;
  cell.writes.forEach([&](Actor actor, uint32_t at) {
    if (!comesAfter(by, actor, at))
      fault = Fault{whyUnordered(by, actor, at, "may not have stored"), cell.writeOp};
    else if (engine && knows[components.fenced(actor)] < at && !fault)
      fault =
          Fault{"whose stores the asynchronous proxy may not see; a sched.fence_async must follow them", cell.writeOp};
  });
  return fault;
}

Memory::Result Memory::faultOfRead(const Accessor &by, const Cell &cell, int buffer, bool engine) const {
  if (cell.owner < 0)
    return std::nullopt; // never written; unwritten() reports that
  if (cell.owner != buffer)
    return Fault{"whose bytes hold " + sched::SharedOp(program.buffers[cell.owner].op).getName().str(), cell.writeOp};
  return faultOfWriters(by, cell, engine);
}

Memory::Result Memory::faultOfWrite(const Accessor &by, const Cell &cell, int buffer, bool engine) const {
  Result fault;
  if (cell.underRead)
    fault = Fault{"which an asynchronous op may still read; its wait must stand between", cell.readOp};
  cell.reads.forEach([&](Actor actor, uint32_t at) {
    if (!fault && !comesAfter(by, actor, at))
      fault = Fault{whyUnordered(by, actor, at, "may still read"), cell.readOp};
  });
  // Warps may store different parts of the same tile in any order.
  if (fault || (!engine && cell.owner == buffer && cell.copyComponent < 0 && !cell.underCopy))
    return fault;
  return faultOfWriters(by, cell, engine);
}

/// Returns a fault if nothing has written the stage. A stage counts as written once some part of it has been written;
/// the simulator finds rows that a kernel leaves unwritten.
Memory::Result Memory::unwritten(const Place &place) {
  Result written = each({place.buffer, place.stage, ~0u}, [&](Cell &cell) -> Result {
    return cell.owner == place.buffer ? Result(Fault()) : std::nullopt;
  });
  return written ? std::nullopt : Result(Fault{"which nothing has written"});
}

Memory::Result Memory::read(const Accessor &by, const Place &place) {
  Result fault = each(place, [&](Cell &cell) -> Result {
    if (Result fault = faultOfRead(by, cell, place.buffer, false))
      return fault;
    cell.reads.add(by.actor, by.now);
    cell.readOp = by.op;
    return std::nullopt;
  });
  return fault ? fault : unwritten(place);
}

Memory::Result Memory::startRead(const Accessor &by, const Place &place) {
  Result fault = each(place, [&](Cell &cell) -> Result {
    if (Result fault = faultOfRead(by, cell, place.buffer, true))
      return fault;
    ++cell.underRead;
    cell.readOp = by.op;
    return std::nullopt;
  });
  return fault ? fault : unwritten(place);
}

void Memory::endRead(const Accessor &by, const Place &place) {
  each(place, [&](Cell &cell) -> Result {
    --cell.underRead;
    cell.reads.add(by.actor, by.now);
    return std::nullopt;
  });
}

Memory::Result Memory::write(const Accessor &by, const Place &place) {
  return each(place, [&](Cell &cell) -> Result {
    if (Result fault = faultOfWrite(by, cell, place.buffer, false))
      return fault;
    cell.owner = place.buffer;
    cell.copyComponent = -1;
    cell.writes.add(by.actor, by.now);
    cell.writeOp = by.op;
    return std::nullopt;
  });
}

Memory::Result Memory::copy(const Accessor &by, const Place &place, unsigned component, uint32_t phase) {
  return each(place, [&](Cell &cell) -> Result {
    // Several boxes fill one tile in the same phase, in any order.
    if (cell.copyComponent == int(component) && cell.copyPhase == phase && cell.owner == place.buffer)
      return std::nullopt;
    if (cell.owner >= 0)
      if (Result fault = faultOfWrite(by, cell, place.buffer, true))
        return fault;
    cell.owner = place.buffer;
    cell.copyComponent = int(component);
    cell.copyPhase = phase;
    cell.writes.clear();
    cell.writeOp = by.op;
    return std::nullopt;
  });
}

Memory::Result Memory::startCopy(const Accessor &by, const Place &place) {
  return each(place, [&](Cell &cell) -> Result {
    // Threads may copy different parts of the same tile by cp.async in any order.
    const bool part = cell.underCopy && cell.owner == place.buffer;
    if (Result fault = part ? std::nullopt : faultOfWrite(by, cell, place.buffer, false))
      return fault;
    cell.owner = place.buffer;
    cell.copyComponent = -1;
    cell.writeOp = by.op;
    ++cell.underCopy;
    return std::nullopt;
  });
}

void Memory::endCopy(const Accessor &by, const Place &place) {
  each(place, [&](Cell &cell) -> Result {
    --cell.underCopy;
    cell.writes.add(by.actor, by.now);
    return std::nullopt;
  });
}
