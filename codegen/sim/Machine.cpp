//===- Machine.cpp - Warp scheduler and barriers of a simulated thread block ===//

#include "codegen/sim/Machine.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attune;
using namespace attune::sim;

//===----------------------------------------------------------------------===//
// The warp scheduler
//===----------------------------------------------------------------------===//

/// How to choose the next warp to run where several warps can run. Short: a random warp each time. Long: mostly the
/// same warp as before. ByPriority: the warp of the highest priority; the warps of a role have neighbouring priorities,
/// so that a whole role lags as far as the barriers allow.
enum class Policy { Short, Long, ByPriority };

Machine::Machine(const Program &program, const Launch &launch, uint64_t seed)
    : program(program), launch(launch), seed(seed), memory(program.sharedBytes, program.warps),
      state(seed * 0x9e3779b97f4a7c15ull + 1) {}

uint64_t Machine::draw(uint64_t below) {
  state += 0x9e3779b97f4a7c15ull; // splitmix64
  uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return (z ^ z >> 31) % below;
}

bool Machine::canRun(const Warp &warp) const {
  switch (warp.state) {
  case Warp::State::Ready:
    return true;
  case Warp::State::AtRing: {
    const RingState &ring = rings[warp.ring];
    return int((warp.full ? ring.full : ring.empty)[warp.stage].number & 1) != warp.parity;
  }
  case Warp::State::AtBarrier:
  case Warp::State::Done:
    return false;
  }
  return false;
}

/// Runs one warp until a point at which the scheduler may switch to another warp.
void Machine::step(Warp &warp) {
  const Step *steps = program.steps.data();
  warp.state = Warp::State::Ready;
  for (;;) {
    if (++stepsTaken > mostSteps) {
      fail(warp, steps[warp.position], fmt::format("still runs after {} steps of the block", mostSteps));
      return;
    }
    switch (steps[warp.position].run(*this, warp, steps[warp.position])) {
    case Go::Next:
      ++warp.position;
      continue;
    case Go::Jump:
      continue;
    case Go::Pause:
      ++warp.position;
      return;
    case Go::Block:
    case Go::Stop:
      return;
    }
  }
}

/// Resets all state for the start of thread block `which`.
void Machine::start(int64_t which) {
  block = which;
  claimed = 0;
  stepsTaken = 0;
  memory.reset();
  landings.clear();
  barriers.fill({});
  rings.assign(program.rings.size(), RingState());
  warps.assign(program.warps, Warp());
  // sched.elect may pick any lane. Lane 0 performs `release`, so electing another lane exposes kernels that rely on the
  // elected lane being lane 0.
  const int elected = 1 + int(draw(lanes - 1));
  for (int i = 0; i < program.warps; ++i) {
    Warp &warp = warps[i];
    warp.index = i;
    warp.firstThread = i * lanes;
    warp.elected = elected;
    warp.values.assign(program.valueBytes / 8, 0);
    warp.registers.assign(program.registerWords, poison);
    warp.buffers.assign(program.registers.size(), {});
    warp.all = warp.some = Knowledge(program.agents);
    for (const Constant &constant : program.constants)
      std::memcpy(warp.value(constant.slot), &constant.bits, 8);
    for (size_t k = 0; k < program.parameters.size(); ++k)
      std::memcpy(warp.value(program.parameters[k].slot), &launch.parameters[k], 8);
  }
}

Expected<void> Machine::run(int64_t which) {
  start(which);
  // With an even seed, TMA loads complete as late as possible: when no warp can run.
  const bool late = seed % 2 == 0;
  const auto policy = Policy(seed / 2 % 3);
  std::vector<uint64_t> ofRole(program.roles.size() + 1), priorities(warps.size());
  for (uint64_t &priority : ofRole)
    priority = draw(1 << 16) << 16;
  for (size_t i = 0; i < warps.size(); ++i) {
    auto role = std::find_if(program.roles.begin(), program.roles.end(),
                             [&](const Role &role) { return int(i) < role.firstWarp + role.warps; });
    priorities[i] = ofRole[role - program.roles.begin()] + draw(1 << 16);
  }
  Warp *last = nullptr;
  std::vector<Warp *> ready;
  while (!finding) {
    ready.clear();
    for (Warp &warp : warps)
      if (canRun(warp))
        ready.push_back(&warp);
    size_t landing = late && !ready.empty() ? 0 : landings.size();
    if (ready.empty() && !landing)
      break;
    if (ready.empty() &&
        std::all_of(warps.begin(), warps.end(), [](const Warp &warp) { return warp.state == Warp::State::Done; })) {
      fail(nullptr, landings.front().op,
           "copies into shared memory after the last warp has ended; nobody waits for it");
      break;
    }
    if (policy == Policy::Long && last && canRun(*last) && draw(100) < 95) {
      step(*last);
      continue;
    }
    size_t next = draw(ready.size() + landing);
    if (next >= ready.size()) {
      land(next - ready.size());
      continue;
    }
    last = ready[next];
    if (policy == Policy::ByPriority) {
      last = *std::max_element(ready.begin(), ready.end(),
                               [&](Warp *a, Warp *b) { return priorities[a->index] < priorities[b->index]; });
      if (draw(256) == 0)
        priorities[last->index] = draw(uint64_t(1) << 32);
    }
    step(*last);
  }
  if (!finding)
    finish();
  return finding ? Expected<void>(*finding) : Expected<void>();
}

/// Checks the final state when no warp can run: all warps are done, and every ring stage is complete and released.
bool Machine::finish() {
  for (const Warp &warp : warps)
    if (warp.state != Warp::State::Done) {
      reportDeadlock();
      return false;
    }
  for (size_t r = 0; r < rings.size(); ++r) {
    const Ring &ring = program.rings[r];
    for (int64_t stage = 0; rings[r].ready && stage < ring.stages; ++stage) {
      const Phase &full = rings[r].full[stage], &empty = rings[r].empty[stage];
      uint32_t op = program.steps.back().op;
      auto left = [&](const std::string &what) {
        fail(nullptr, op, fmt::format("ends with {}, stage {}, {}", ring.name, stage, what));
        return false;
      };
      if (full.bytes)
        return left(fmt::format("expecting {} bytes more than its copies bring", full.bytes));
      if (full.missing != full.arrivals)
        return left(fmt::format("filled by {} of {} arrivals", full.arrivals - full.missing, full.arrivals));
      if (ring.released && (full.number != empty.number || empty.missing != empty.arrivals))
        return left(fmt::format(
            "filled {} times and released {} times{}", full.number, empty.number,
            empty.missing == empty.arrivals
                ? ""
                : fmt::format(", and by {} of {} warps once more", empty.arrivals - empty.missing, empty.arrivals)));
    }
  }
  return true;
}

/// Reports a deadlock and what each warp waits for. Neighbouring warps that wait for the same event are listed
/// together.
void Machine::reportDeadlock() {
  std::string text, last;
  uint32_t op = Fault::none;
  size_t first = 0;
  auto close = [&](size_t end) {
    if (last.empty())
      return;
    text += text.empty() ? "" : "; ";
    text += end - first == 1 ? fmt::format("warp {} waits {}", first, last)
                             : fmt::format("warps {} to {} wait {}", first, end - 1, last);
  };
  for (size_t i = 0; i < warps.size(); ++i) {
    const Warp &warp = warps[i];
    std::string what;
    if (warp.state != Warp::State::Done) {
      uint32_t at = program.steps[warp.position].op;
      if (op == Fault::none)
        op = at;
      if (warp.state == Warp::State::AtRing) {
        const Phase &phase = (warp.full ? rings[warp.ring].full : rings[warp.ring].empty)[warp.stage];
        what = fmt::format("for stage {} of {} to be {}, where {} of {} arrivals are missing", warp.stage,
                           program.rings[warp.ring].name, warp.full ? "full" : "empty", phase.missing, phase.arrivals);
        if (phase.bytes)
          what += fmt::format(" and {} bytes", phase.bytes);
      } else {
        for (size_t id = 0; id < barriers.size(); ++id)
          if (barriers[id].waiting >> i & 1)
            what = fmt::format("at barrier {}, where {} of {} threads have arrived", id, barriers[id].arrived,
                               barriers[id].threads);
      }
      if (program.ops[at].where.known())
        what += fmt::format(" (line {})", program.ops[at].where.line);
    }
    if (what != last) {
      close(i);
      last = what;
      first = i;
    }
  }
  close(warps.size());
  fail(nullptr, op, "never ends, as no warp can go on: " + text);
}

//===----------------------------------------------------------------------===//
// Error messages
//===----------------------------------------------------------------------===//

Go Machine::fail(const Warp *warp, uint32_t op, const std::string &what, uint32_t other) {
  if (finding)
    return Go::Stop;
  const Op &at = program.ops[op];
  std::string who = fmt::format("block {}", block);
  if (warp) {
    who += fmt::format(", warp {}", warp->index);
    if (warp->role >= 0)
      who += fmt::format(" of {}", program.roles[warp->role].name);
  }
  finding = Error{fmt::format("'{}' op {} ({}, seed {})", at.name, what, who, seed), at.where};
  if (other != Fault::none) {
    const Op &clash = program.ops[other];
    finding->excerpt = fmt::format("note: the other is '{}' op", clash.name);
    if (clash.where.known())
      finding->excerpt += fmt::format(" at {}", clash.where.text());
  }
  return Go::Stop;
}

Go Machine::fail(const Warp &warp, const Step &step, const char *verb, const SharedBuffer &buffer, int64_t stage,
                 const Fault &fault) {
  std::string which = buffer.stages > 1 ? fmt::format(", stage {}", stage) : "";
  const char *joint = buffer.stages > 1 || fault.what.starts_with("which") ? "," : "";
  return fail(warp, step, fmt::format("{} {}{}{} {}", verb, buffer.name, which, joint, fault.what), fault.other);
}

//===----------------------------------------------------------------------===//
// Vector clocks and barriers
//===----------------------------------------------------------------------===//

Knowledge Machine::handOn(Warp &warp, uint32_t arriving) {
  Knowledge knows = warp.all;
  if (warp.someMask & arriving)
    knows.join(warp.some);
  for (uint32_t left = arriving; left; left &= left - 1) {
    const int lane = __builtin_ctz(left), agent = Actor::agentOf(warp.index, lane);
    knows.seen[agent] = warp.now;
    knows.fenced[agent] = warp.fences[size_t(lane)];
  }
  knows.seen[Actor::agentOf(warp.index, Actor::wholeWarp)] = warp.now++;
  return knows;
}

void Machine::learn(Warp &warp, const Knowledge &what) {
  if (warp.mask == allLanes) {
    warp.all.join(what);
    if (warp.someMask)
      warp.some.join(what);
    return;
  }
  if (warp.someMask != warp.mask) {
    if (warp.mask & ~warp.someMask)
      warp.some = warp.all;
    warp.someMask = warp.mask;
  }
  warp.some.join(what);
}

void Machine::synchronizeLanes(Warp &warp) {
  warp.met = warp.now;
  warp.all.join(handOn(warp, allLanes));
  warp.someMask = warp.stored = 0;
}

bool Machine::completePhase(const Warp *warp, uint32_t op, int ring, int64_t stage, bool full) {
  Phase &phase = (full ? rings[ring].full : rings[ring].empty)[stage];
  if (phase.missing)
    return true;
  if (phase.bytes < 0 || (phase.bytes == 0 && phase.underWay)) {
    fail(warp, op,
         fmt::format("completes {}, stage {}, although copies bring more bytes than expect_bytes has named",
                     program.rings[ring].name, stage));
    return false;
  }
  if (phase.bytes)
    return true;
  ++phase.number;
  phase.missing = phase.arrivals;
  phase.complete = phase.gathered;
  phase.gathered.clear();
  return true;
}

bool Machine::arrive(const Warp &warp, const Step &step, int64_t stage, bool full, int64_t count,
                     const Knowledge &knows) {
  const int ring = step.at[0];
  Phase &phase = (full ? rings[ring].full : rings[ring].empty)[stage];
  if (count > phase.missing) {
    fail(warp, step,
         fmt::format("arrives at {}, stage {}, more often than the {} that {} it", program.rings[ring].name, stage,
                     phase.arrivals, full ? "fill" : "empty"));
    return false;
  }
  phase.missing -= count;
  phase.gathered.join(knows);
  return completePhase(&warp, step.op, ring, stage, full);
}

/// Checks that the ring is initialised, and that init_ring is ordered before this use.
bool Machine::ringReady(const Warp &warp, const Step &step, int lane) {
  const RingState &ring = rings[step.at[0]];
  const char *what =
      !ring.ready ? "which no init_ring has initialised"
      : !(ring.by.warp == warp.index && ring.by.lane == lane) && ring.by.now > warp.knows(lane).seen[ring.by.agent()]
          ? "whose init_ring no barrier orders before"
          : nullptr;
  if (what)
    fail(warp, step, fmt::format("uses {}, {}", program.rings[step.at[0]].name, what));
  return !what;
}

/// Arrives at the named barrier `id`; with `waits`, blocks until all `threads` have arrived.
Go Machine::synchronize(Warp &warp, const Step &step, int64_t id, int64_t threads, bool waits) {
  if (!converged(warp, step))
    return Go::Stop;
  if (id < 0 || id >= int64_t(barriers.size()))
    return fail(warp, step, fmt::format("names barrier {}; a block has {}", id, barriers.size()));
  NamedBarrier &barrier = barriers[id];
  if (barrier.arrived == 0)
    barrier = {threads, 0, 0, 0, step.op, Knowledge(program.agents)};
  if (barrier.threads != threads)
    return fail(
        warp, step,
        fmt::format("reaches barrier {} for {} threads, where others wait for {}", id, threads, barrier.threads),
        barrier.op);
  if (barrier.warps >> warp.index & 1)
    return fail(warp, step,
                fmt::format("reaches barrier {} a second time before all {} threads have reached it once", id, threads),
                barrier.op);
  if (waits)
    synchronizeLanes(warp);
  barrier.gathered.join(handOn(warp, allLanes));
  barrier.warps |= 1u << warp.index;
  barrier.arrived += lanes;
  barrier.op = step.op;
  if (barrier.arrived < threads) {
    if (!waits)
      return Go::Pause;
    barrier.waiting |= 1u << warp.index;
    warp.state = Warp::State::AtBarrier;
    return Go::Block;
  }
  for (Warp &other : warps)
    if (barrier.waiting >> other.index & 1) {
      learn(other, barrier.gathered);
      other.state = Warp::State::Ready;
      ++other.position;
    }
  if (waits)
    learn(warp, barrier.gathered);
  barrier = {};
  return Go::Pause;
}

bool Machine::land(size_t which) {
  Landing landing = std::move(landings[which]);
  landings.erase(landings.begin() + which);
  RingState &ring = rings[landing.ring];
  Phase &phase = ring.full[landing.stage];
  int agent = program.rings[landing.ring].firstAgent + landing.stage;
  const std::byte *from = landing.data.data();
  for (const Bytes &place : landing.places) {
    std::memcpy(memory.at(place.address), from, place.count);
    from += place.count;
    memory.landBox(agent, phase.number + 1, landing.op, place.address, place.count);
  }
  phase.gathered.seen[agent] = phase.number + 1;
  phase.bytes -= landing.bytes;
  --phase.underWay;
  return completePhase(nullptr, landing.op, landing.ring, landing.stage, true);
}

Go Machine::completeCopies(Warp &warp, const Step &step, size_t pending) {
  for (; warp.copyGroups.size() > pending; warp.copyGroups.pop_front())
    for (const Copy &copy : warp.copyGroups.front()) {
      std::memcpy(memory.at(copy.to), copy.data.data(), size_t(copy.bytes));
      Actor writer = actor(warp, step, copy.lane);
      writer.op = copy.op;
      memory.landCopy(writer, copy.to, copy.bytes);
    }
  return Go::Pause;
}

void Machine::completeBoxes(Warp &warp, const Step &step, int lane, size_t pending) {
  size_t own = std::count_if(warp.boxGroups.begin(), warp.boxGroups.end(),
                             [&](const auto &group) { return group.front().lane == lane; });
  for (auto group = warp.boxGroups.begin(); own > pending;) {
    if (group->front().lane != lane) {
      ++group;
      continue;
    }
    for (const BoxStore &box : *group)
      for (const Bytes &bytes : box.reads)
        memory.endRead(actor(warp, step, lane), bytes.address, bytes.count);
    group = warp.boxGroups.erase(group);
    --own;
  }
}

Go Machine::completeProducts(Warp &warp, const Step &step, size_t pending) {
  for (; warp.productGroups.size() > pending; warp.productGroups.pop_front())
    for (const Product &product : warp.productGroups.front()) {
      for (const Bytes &bytes : product.reads)
        memory.endRead(actor(warp, step, Actor::wholeWarp), bytes.address, bytes.count);
      for (int buffer : product.registers)
        if (buffer >= 0 && --warp.buffers[buffer].underWay == 0)
          warp.buffers[buffer].unnamed = true;
    }
  return Go::Pause;
}

//===----------------------------------------------------------------------===//
// Reading and checking operands
//===----------------------------------------------------------------------===//

bool Machine::uniform(Warp &warp, const Step &step, int input, int64_t &result) {
  int first = warp.first();
  result = warp.get<int32_t>(step.in[input], first);
  if (step.in[input].varies)
    for (int lane = first + 1; lane < lanes; ++lane)
      if (warp.has(lane) && warp.get<int32_t>(step.in[input], lane) != result) {
        fail(warp, step,
             fmt::format("has an operand that must be the same in all lanes: {} in lane {}, {} in lane {}", result,
                         first, warp.get<int32_t>(step.in[input], lane), lane));
        return false;
      }
  return true;
}

bool Machine::converged(const Warp &warp, const Step &step) {
  if (warp.mask == allLanes)
    return true;
  fail(warp, step, fmt::format("needs the whole warp, {} of its lanes are here", __builtin_popcount(warp.mask)));
  return false;
}

bool Machine::single(const Warp &warp, const Step &step) {
  if (__builtin_popcount(warp.mask) == 1)
    return true;
  fail(warp, step, fmt::format("is for one thread, {} of the warp are here", __builtin_popcount(warp.mask)));
  return false;
}

std::byte *Machine::global(Warp &warp, const Step &step, const View &view, Slot base,
                           std::array<int64_t, maxRank> indices, int64_t count) {
  const Tensor &tensor = program.tensors[view.tensor];
  const Memory &at = launch.tensors[view.tensor];
  // `base` must have one value for all lanes: it is read for lane 0. Where addresses differ by lane, the caller passes
  // one lane's slot (baseOf).
  int64_t offset = warp.get<int64_t>(base, 0);
  for (int d = view.dropped; d < tensor.rank; ++d) {
    int64_t index = indices[d - view.dropped], last = d + 1 == tensor.rank ? index + count - 1 : index;
    if (offset == outside || index < 0 || last >= at.extents[d]) {
      fail(warp, step,
           offset == outside ? fmt::format("accesses {} through a slice that lies outside of it", tensor.name)
                             : fmt::format("accesses {} at index {} of dimension {}, which has {}", tensor.name,
                                           index < 0 ? index : last, d, at.extents[d]));
      return nullptr;
    }
    offset += index * at.strides[d];
  }
  return at.data + offset * bytesOf(tensor.element);
}

int64_t Machine::element(Warp &warp, const Step &step, const RegisterBuffer &buffer, const Slot *indices, int lane) {
  int64_t at = 0;
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    int32_t index = warp.get<int32_t>(indices[d], lane);
    if (index < 0 || index >= buffer.shape[d]) {
      fail(warp, step,
           fmt::format("takes index {} of {}, a lane's array of {} there", index, buffer.name, buffer.shape[d]));
      return -1;
    }
    at = at * buffer.shape[d] + index;
  }
  return (buffer.first + at * buffer.words) * lanes;
}

bool Machine::touch(Warp &warp, const Step &step, int buffer) {
  RegisterState &state = warp.buffers[buffer];
  state.touched = true;
  if (!state.underWay && !state.unnamed)
    return true;
  const std::string &name = program.registers[buffer].name;
  fail(warp, step,
       state.underWay ? fmt::format("touches {} while an asynchronous MMA on it is under way", name)
                      : fmt::format("touches {}, which no mma_wait has named since its MMA", name),
       state.op);
  return false;
}
