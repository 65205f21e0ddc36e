//===- Memory.cpp - Shared memory that knows who wrote it -------------------===//

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
  std::fill(reads.begin(), reads.end(), 0);
}

/// Whether the cell's last write is ordered before the actor; with `engine`, for the asynchronous proxy too.
bool SharedMemory::seesWrite(const Actor &actor, const Cell &cell, bool engine) const {
  bool own = cell.agent == actor.warp && cell.state == State::Written;
  bool ordered = cell.clock <= actor.knows->seen[cell.agent] || (own && cell.lane == actor.lane);
  if (!ordered || !engine || cell.state != State::Written)
    return ordered;
  return cell.clock <= actor.knows->fenced[cell.agent] ||
         (own && cell.lane >= 0 && cell.clock <= actor.laneFences[cell.lane]);
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
  return Fault{cell.state == State::Copied ? "without having waited for the copy that filled it"
                                           : "which another thread wrote, and no barrier or ring orders the two",
               cell.op};
}

std::optional<Fault> SharedMemory::faultOfWrite(const Actor &actor, size_t index, bool engine) const {
  const Cell &cell = cells[index];
  if (cell.underRead)
    return Fault{"while an asynchronous op still reads it", readOps[index]};
  if (cell.state != State::Empty)
    if (std::optional<Fault> fault = faultOfRead(actor, cell, engine))
      return fault;
  for (int warp = 0; warp < warps; ++warp)
    if (warp != actor.warp && reads[index * warps + warp] > actor.knows->seen[warp])
      return Fault{"which another warp may still read; no barrier or ring orders the two", readOps[index]};
  if (cell.readClock && cell.readWarp == actor.warp && cell.readLane != actor.lane &&
      cell.readClock > actor.knows->seen[actor.warp])
    return Fault{"which another thread of the warp may still read; no barrier orders the two", cell.readOp};
  return std::nullopt;
}

/// The actor is the last that wrote the cell, and nobody has read it since.
void SharedMemory::claim(const Actor &actor, size_t index, State state) {
  Cell &cell = cells[index];
  cell.clock = actor.now;
  cell.op = actor.op;
  cell.agent = uint16_t(actor.warp);
  cell.lane = int8_t(actor.lane);
  cell.state = state;
  cell.readClock = 0;
  std::fill_n(&reads[index * warps], warps, 0);
}

std::optional<Fault> SharedMemory::read(const Actor &actor, int64_t address, int64_t count) {
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i) {
    Cell &cell = cells[i];
    if (std::optional<Fault> fault = faultOfRead(actor, cell, false))
      return fault;
    reads[i * warps + actor.warp] = actor.now;
    readOps[i] = actor.op;
    if (actor.lane != Actor::wholeWarp) {
      cell.readClock = actor.now;
      cell.readOp = actor.op;
      cell.readWarp = uint16_t(actor.warp);
      cell.readLane = int8_t(actor.lane);
    }
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
  Actor engine{agent, Actor::wholeWarp, phase, op};
  for (size_t i = address / 4, end = (address + count) / 4; i < end; ++i)
    claim(engine, i, State::Copied);
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
    Cell &cell = cells[i];
    --cell.underRead;
    reads[i * warps + actor.warp] = actor.now;
    if (actor.lane != Actor::wholeWarp) {
      cell.readClock = actor.now;
      cell.readOp = actor.op;
      cell.readWarp = uint16_t(actor.warp);
      cell.readLane = int8_t(actor.lane);
    }
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
