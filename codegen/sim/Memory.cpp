//===- Memory.cpp - Shared memory with race detection -----------------------===//

#include "codegen/sim/Memory.h"

#include <algorithm>
#include <cstring>

using namespace attune;
using namespace attune::sim;

SharedMemory::SharedMemory(size_t size, int warps)
    : warps(warps), bytes((size + 15) / 16 * 16), cells(bytes.size() / 4), reads(cells.size() * warps),
      readOps(cells.size()) {
  reset();
}

void SharedMemory::reset() {
  for (size_t i = 0; i < bytes.size(); i += 4)
    std::memcpy(&bytes[i], &poison, 4);
  std::fill(cells.begin(), cells.end(), Cell());
  std::fill(reads.begin(), reads.end(), Read());
}

/// Whether the last write to `cell` (four bytes) is ordered before an access by `actor`, a thread or a warp. With
/// `engine` (an access by tensor cores or TMA) the write must also be visible to the asynchronous proxy (fence_async).
bool SharedMemory::seesWrite(const Actor &actor, const Cell &cell, bool engine) const {
  const bool own = cell.agent == actor.agent();
  const bool ordered = own || cell.clock <= actor.knows->seen[cell.agent];
  if (!ordered || !engine || cell.state != State::Written)
    return ordered;
  return cell.clock <= actor.knows->fenced[cell.agent] || (own && cell.clock <= actor.fence);
}

std::optional<Fault> SharedMemory::faultOfRead(const Actor &actor, const Cell &cell, bool engine) const {
  switch (cell.state) {
  case State::Empty:
    return Fault{"which nothing has written"};
  case State::Copying:
    return Fault{"while a copy into it is under way", cell.op};
  case State::Barrier:
    return Fault{"where the barriers of a ring are"};
  case State::Written:
  case State::Copied:
    break;
  }
  if (seesWrite(actor, cell, engine))
    return std::nullopt;
  if (seesWrite(actor, cell, false))
    return Fault{"which the asynchronous proxy does not see; a fence_async of the threads that wrote it is missing",
                 cell.op};
  if (cell.state == State::Copied)
    return Fault{"without having waited for the copy that filled it", cell.op};
  const int warp = cell.agent / agentsOfWarp;
  if (warp != actor.warp && cell.clock <= actor.knows->seen[Actor::agentOf(warp, Actor::wholeWarp)])
    return Fault{
        "which lanes of another warp may not have written although one of them has arrived; a sync_lanes before "
        "the arrival is missing",
        cell.op};
  return Fault{"which another thread wrote, and no barrier or ring orders the two", cell.op};
}

/// Whether the last reads of a cell (four bytes) by `warp` may still be executing when the actor accesses the cell,
/// because nothing orders the reads before the access. A read by a whole warp is ordered before all later accesses of
/// that warp's lanes.
bool SharedMemory::mayStillRead(const Actor &actor, int warp, const Read &read) const {
  const std::vector<uint32_t> &seen = actor.knows->seen;
  if (!read.lanes)
    return warp != actor.warp && read.clock > seen[Actor::agentOf(warp, Actor::wholeWarp)];
  for (uint32_t left = read.lanes; left; left &= left - 1) {
    const int agent = Actor::agentOf(warp, __builtin_ctz(left));
    if (agent != actor.agent() && read.clock > seen[agent])
      return true;
  }
  return false;
}

std::optional<Fault> SharedMemory::faultOfWrite(const Actor &actor, size_t index, bool engine) const {
  const Cell &cell = cells[index];
  if (cell.underRead)
    return Fault{"while an asynchronous op still reads it", readOps[index]};
  if (cell.state != State::Empty)
    if (std::optional<Fault> fault = faultOfRead(actor, cell, engine))
      return fault;
  for (int warp = 0; warp < warps; ++warp) {
    const Read &read = reads[index * warps + warp];
    if (!read.clock || !mayStillRead(actor, warp, read))
      continue;
    if (warp == actor.warp)
      return Fault{"which another thread of the warp may still read; no barrier orders the two", readOps[index]};
    if (read.clock <= actor.knows->seen[Actor::agentOf(warp, Actor::wholeWarp)])
      return Fault{
          "which lanes of another warp may still read although one of them has arrived; a sync_lanes before the "
          "arrival is missing",
          readOps[index]};
    return Fault{"which another warp may still read; no barrier or ring orders the two", readOps[index]};
  }
  return std::nullopt;
}

/// Records `agent` (a lane, a warp or a ring stage) as the last writer of a cell (four bytes); clears the cell's reads.
void SharedMemory::claim(int agent, uint32_t clock, uint32_t op, size_t index, State state) {
  Cell &cell = cells[index];
  cell.clock = clock;
  cell.op = op;
  cell.agent = uint16_t(agent);
  cell.state = state;
  std::fill_n(&reads[index * warps], warps, Read());
}

/// Records a read. Reads from before the warp's lanes last synchronised are dropped: the new read is ordered after
/// them, so an access that is ordered after the new read is ordered after the dropped reads, too.
void SharedMemory::noteRead(const Actor &actor, size_t index) {
  Read &read = reads[index * warps + actor.warp];
  const uint32_t lane = actor.lane == Actor::wholeWarp ? 0 : 1u << actor.lane;
  read.lanes = read.clock <= actor.met ? lane : read.lanes | lane;
  read.clock = actor.now;
  readOps[index] = actor.op;
}

std::optional<Fault> SharedMemory::read(const Actor &actor, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i) {
    if (std::optional<Fault> fault = faultOfRead(actor, cells[i], false))
      return fault;
    noteRead(actor, i);
  }
  return std::nullopt;
}

std::optional<Fault> SharedMemory::write(const Actor &actor, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i) {
    if (std::optional<Fault> fault = faultOfWrite(actor, i, false))
      return fault;
    claim(actor, i, State::Written);
  }
  return std::nullopt;
}

std::optional<Fault> SharedMemory::startCopy(const Actor &actor, int64_t address, int64_t count, bool engine) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i) {
    if (std::optional<Fault> fault = faultOfWrite(actor, i, engine))
      return fault;
    claim(actor, i, State::Copying);
    std::memcpy(&bytes[i * 4], &poison, 4);
  }
  return std::nullopt;
}

void SharedMemory::landCopy(const Actor &actor, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i)
    claim(actor, i, State::Written);
}

void SharedMemory::landBox(int agent, uint32_t phase, uint32_t op, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i)
    claim(agent, phase, op, i, State::Copied);
}

std::optional<Fault> SharedMemory::startRead(const Actor &actor, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i) {
    if (std::optional<Fault> fault = faultOfRead(actor, cells[i], true))
      return fault;
    ++cells[i].underRead;
    readOps[i] = actor.op;
  }
  return std::nullopt;
}

void SharedMemory::endRead(const Actor &actor, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i) {
    --cells[i].underRead;
    noteRead(actor, i);
  }
}

std::optional<Fault> SharedMemory::placeBarriers(const Actor &actor, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i) {
    if (std::optional<Fault> fault = faultOfWrite(actor, i, false))
      return fault;
    claim(actor, i, State::Barrier);
  }
  return std::nullopt;
}
