//===- KernelCost.cpp - Predicts the time of a tile kernel from its ops -------===//

#include "passes/tile/KernelCost.h"

#include "ir/sched/Sched.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/copies/LiveTiles.h"
#include "passes/attn/TileSize.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

// Of one H200; see docs/log/programs.md for the programs and their times.
constexpr double memoryEfficiency = 0.88;  ///< reached part of ArchInfo::memoryBytesPerSecond
constexpr double level2Rate = 2.2;         ///< rate of level 2 in units of memory's
constexpr double warpProducts = 0.66;      ///< rate of mma.sync on an architecture with asynchronous products
constexpr double othersDelay = 0.05;       ///< part of memory's and the units' lesser time that does not overlap
constexpr double latencyOfIteration = 520; ///< cycles: barriers, dependent products, reductions over lanes
constexpr double latencyOfCopy = 900;      ///< cycles of a copy from memory, without a ring that hides it
constexpr double overlapLoss = 0.4;        ///< part of the other units' time that does not overlap with the busiest's
constexpr double partitions = 4;           ///< of a multiprocessor, whose units serve the warps of the partition alone
constexpr double fullWarps = 8;            ///< warps on a multiprocessor that keep its units busy
constexpr double fewWarpsExponent = 0.3;   ///< with fewer, units are slower by (fullWarps / warps) to this power
constexpr double lastRound = 0.25;         ///< idle time at the end, in units of the time of a block
constexpr double spillFactor = 0.02;       ///< additional time for each spilled register
constexpr int otherRegisters = 56;         ///< of a thread beside tiles: addresses, bounds, fragments

/// Counts the ops of one thread block.
class BlockCounter {
public:
  BlockCounter(tile::KernelOp kernel, const Extents &extents)
      : kernel(kernel), extents(extents), warps(std::max<int64_t>(kernel.getPlan().getWarps(), 1)) {}

  KernelCost count() {
    cost.blocks = 1;
    for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>())
      cost.blocks *= std::ceil(double(extentOf(axis)) / double(axis.getBy()));
    for (auto operand : kernel.getOperands().getAsRange<tile::OperandAttr>()) {
      double bytes = bytesOf(operand.getElementType());
      for (tile::AxisAttr axis : operand.getAxes())
        bytes *= std::ceil(double(extentOf(axis)) / double(axis.getBy()));
      cost.tensorBytes += bytes;
    }
    countOps(kernel.getBody().front(), cost.blocks);
    cost.registers = int(std::ceil(liveRegisters(kernel.getBody().front()))) + otherRegisters;
    for (Operation *op : largestLiveTiles(kernel))
      cost.sharedMemory += ringDepth(op) * cast<TileType>(op->getResult(0).getType()).bytes();
    return cost;
  }

private:
  static double bytesOf(Type element) { return double(element.getIntOrFloatBitWidth()) / 8; }
  static TileType typeOf(Value value) { return dyn_cast<TileType>(value.getType()); }
  static double elementsOf(TileType type) {
    double elements = 1;
    for (int64_t size : type.getShape())
      elements *= double(size);
    return elements;
  }

  int64_t extentOf(tile::AxisAttr axis) { return axis.isFixed() ? axis.getSize() : extentOf(axis.getName()); }
  int64_t extentOf(StringRef name) {
    if (auto known = extents.find(name.str()); known != extents.end())
      return known->second;
    const bool isByElement = llvm::any_of(kernel.getGrid().getAsRange<tile::AxisAttr>(), [&](tile::AxisAttr axis) {
      return axis.getName() == name && axis.getBy() == 1;
    });
    return isByElement ? 16 : 4096;
  }

  /// `value`, an integer, in a block in the middle of the grid; nullopt if it depends on data or on a loop.
  std::optional<int64_t> evaluate(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto extent = dyn_cast<tile::AxisExtentOp>(op))
      return extentOf(extent.getAxis());
    if (auto index = dyn_cast<tile::BlockIndexOp>(op))
      return extentOf(index.getAxis()) / 2;
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands()) {
      std::optional<int64_t> known = evaluate(operand);
      if (!known)
        return std::nullopt;
      operands.push_back(IntegerAttr::get(operand.getType(), *known));
    }
    SmallVector<OpFoldResult> results;
    if (op->getNumResults() != 1 || failed(op->fold(operands, results)) || results.empty())
      return std::nullopt;
    auto folded = dyn_cast_if_present<IntegerAttr>(dyn_cast<Attribute>(results.front()));
    return folded ? std::optional(folded.getInt()) : std::nullopt;
  }

  double iterationsOf(tile::ForBlocksOp loop) {
    auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
    if (!domain)
      return 1;
    double iterations = 0;
    for (auto [begin, end] : llvm::zip(domain.getBegins(), domain.getEnds())) {
      const std::optional<int64_t> first = evaluate(begin), last = evaluate(end);
      iterations += first && last ? double(std::max<int64_t>(*last - *first, 0))
                                  : double(extentOf(domain.getAxis())) / double(domain.getStep());
    }
    const std::optional<int64_t> times = domain.getTimes() ? evaluate(domain.getTimes()) : std::optional<int64_t>(1);
    return iterations * double(times.value_or(1));
  }

  /// How many warps compute each element of a register tile: more than one if it has too few rows for all warps.
  double copiesOf(TileType type) {
    return double(kernel.getPlan().getRowWarps()) / double(kernel.getPlan().getWarpsOfRows(type.getShape()[0]));
  }

  void countOps(Block &block, double times) {
    for (Operation &op : block)
      llvm::TypeSwitch<Operation *>(&op)
          .Case([&](tile::ForBlocksOp loop) {
            const double iterations = iterationsOf(loop);
            cost.iterations += times * iterations;
            countOps(loop.getBody().front(), times * iterations);
          })
          .Case<tile::LoadOp, tile::WindowOp>(
              [&](Operation *load) { cost.readBytes += times * double(typeOf(load->getResult(0)).bytes()); })
          .Case<tile::StoreOp, tile::AccumulateOp>([&](Operation *store) {
            const double elements = elementsOf(typeOf(store->getOperand(0)));
            auto view = cast<tile::ViewType>(store->getOperand(1).getType());
            cost.writtenBytes += times * elements * bytesOf(view.getElementType());
          })
          .Case([&](tile::MmaOp product) { countProduct(product, times); })
          .Case([&](tile::MapOp map) {
            const double elements = elementsOf(map.getResult().getType()) * copiesOf(map.getResult().getType());
            for (Operation &inner : map.getRegion().front().without_terminator()) {
              const OpCost one = opCost(&inner, kernel.getPrecise());
              cost.specialResults += times * elements * one.special;
              cost.aluResults += times * elements * one.alu;
            }
          })
          .Case([&](tile::ReduceOp reduce) {
            cost.aluResults += times * elementsOf(reduce.getTile().getType()) * copiesOf(reduce.getTile().getType());
          })
          .Case([&](tile::ConvertOp convert) {
            const TileType type = convert.getResult().getType();
            cost.aluResults += times * elementsOf(type) / 2;
            if (type.getSpace() == tile::MemorySpace::Shared)
              cost.sharedBytes += times * double(type.bytes());
          });
  }

  void countProduct(tile::MmaOp product, double times) {
    const TileType result = product.getResult().getType(), left = product.getLhs().getType(),
                   right = product.getRhs().getType();
    const double elements = elementsOf(result),
                 depth = std::sqrt(elementsOf(left) * elementsOf(right) / std::max(elements, 1.0)),
                 copies = copiesOf(result);
    cost.flops += times * 2 * elements * depth * copies;
    // A warp reads the right operand for its rows alone; asynchronous products read it once for a warpgroup.
    const double readers = sched::hasAsyncProducts(kernel) ? double(warps) / 4 : double(warps);
    cost.sharedBytes += times * readers * double(right.bytes());
    if (left.getSpace() == tile::MemorySpace::Shared)
      cost.sharedBytes += times * copies * double(left.bytes());
  }

  /// Registers of a thread for a register tile.
  double registersOf(Value value) {
    const TileType type = typeOf(value);
    if (!type || type.getSpace() != tile::MemorySpace::Register)
      return 0;
    const double words = double(type.bytes()) / 4 * copiesOf(type) / double(kernel.getPlan().getDvWarps());
    return type.rank() == 1 ? words / (8 * double(warps)) : words / (32 * double(warps));
  }

  /// The most registers that register tiles of `block` and of nested blocks take at a time.
  double liveRegisters(Block &block) {
    llvm::DenseMap<Operation *, double> freed; // after an op, by the values that it uses last
    auto noteLastUse = [&](Value value) {
      Operation *last = nullptr;
      for (Operation *user : value.getUsers())
        if (Operation *ancestor = block.findAncestorOpInBlock(*user); !last || last->isBeforeInBlock(ancestor))
          last = ancestor;
      if (last)
        freed[last] += registersOf(value);
      return last != nullptr;
    };
    double live = 0, most = 0;
    for (BlockArgument argument : block.getArguments())
      if (noteLastUse(argument))
        live += registersOf(argument);
    most = live;
    for (Operation &op : block) {
      double nested = 0;
      for (Region &region : op.getRegions())
        if (isa<tile::ForBlocksOp>(op))
          for (Block &inner : region)
            nested = std::max(nested, liveRegisters(inner));
      // What a loop carries is live in the loop, in place of what it starts from. Maps write in place.
      const double ended = freed.lookup(&op);
      most = std::max(most, live - (nested > 0 ? ended : 0) + nested);
      live -= ended;
      for (Value result : op.getResults())
        if (noteLastUse(result))
          live += registersOf(result);
      most = std::max(most, live);
    }
    return most;
  }

  tile::KernelOp kernel;
  const Extents &extents;
  int64_t warps;
  KernelCost cost;
};

} // namespace

KernelCost attune::kernelCost(tile::KernelOp kernel, const ArchInfo &arch, const Extents &extents) {
  KernelCost cost = BlockCounter(kernel, extents).count();
  const tile::PlanAttr plan = kernel.getPlan();
  const int64_t producers = sched::producerWarps(kernel), threads = 32 * (plan.getWarps() + producers);
  const int64_t blocksPerSm = std::max<int64_t>(plan.getBlocksPerSm(), 1);
  const int atLaunch = std::min(arch.maxRegistersPerThread, int(arch.registersPerSM / (threads * blocksPerSm) / 8 * 8));
  // Producer warps leave most of their registers to the consumers.
  const int most = producers ? roleRegisters(int(plan.getWarps()), int(producers), /*searches=*/false, /*values=*/0,
                                             cost.registers - otherRegisters, int(blocksPerSm))
                                   .consumer
                             : atLaunch;
  cost.spilled = std::max(0, cost.registers - most);
  const int held = producers ? atLaunch : std::min(cost.registers, most);
  cost.blocksPerSm = arch.blocksPerSM(int(threads), held, size_t(cost.sharedMemory));
  if (!cost.blocksPerSm)
    return cost;
  const double clock = arch.clockGHz * 1e9, multiprocessors = arch.smCount;
  const bool isSlow = arch.products(Issuer::Warpgroup) && !producers;
  const double memoryRate = memoryEfficiency * arch.memoryBytesPerSecond, bytes = cost.readBytes + cost.writtenBytes;
  cost.units = {
      {"products", cost.flops / (arch.mmaTflops * 1e12 * (isSlow ? warpProducts : 1))},
      {"special functions", cost.specialResults / (arch.specialPerClockPerSM * multiprocessors * clock)},
      {"arithmetic", cost.aluResults / (arch.fmaPerClockPerSM * multiprocessors * clock)},
      {"shared memory", cost.sharedBytes / (arch.sharedBytesPerClockPerSM * multiprocessors * clock)},
      {"memory", std::max(std::min(bytes, cost.tensorBytes) / memoryRate, bytes / (level2Rate * memoryRate))}};
  std::ranges::sort(cost.units, std::greater(), &std::pair<std::string, double>::second);
  auto slower = [](double warps) {
    return std::max(1.0, partitions / warps) *
           std::pow(std::max(1.0, fullWarps / std::max(warps, partitions)), fewWarpsExponent);
  };
  // The units of a multiprocessor, which memory is not.
  double memory = 0, busiest = 0, rest = 0;
  std::string busiestUnit;
  for (const auto &[unit, seconds] : cost.units) // the busiest first
    if (unit == "memory")
      memory = seconds;
    else if (busiestUnit.empty())
      busiest = seconds, busiestUnit = unit;
    else
      rest += seconds;
  const double units = busiest + overlapLoss * rest;
  // Blocks that run at a time, on as many multiprocessors as there are blocks for.
  const double together = std::min(double(cost.blocksPerSm), std::ceil(cost.blocks / multiprocessors)),
               busy = std::min(multiprocessors, cost.blocks / together), rounds = cost.blocks / (busy * together);
  int64_t stages = 1, copied = 0; // copied: bytes of an iteration, the most of any loop
  kernel.walk([&](tile::ForBlocksOp loop) {
    int64_t bytes = 0;
    for (auto load : loop.getBody().front().getOps<tile::LoadOp>())
      if (isCopied(load)) {
        bytes += load.getResult().getType().bytes();
        stages = std::max(stages, ringDepth(load));
      }
    copied = std::max(copied, bytes);
  });
  const double ahead = double(stages - 1) + (producers ? 0.5 : 0);
  // A multiprocessor gets its part of the memory's rate only with that many bytes under way all the time.
  const double needed = memoryRate / multiprocessors * latencyOfCopy / clock;
  if (copied)
    memory *= std::max(1.0, needed / (together * double(copied) * std::max(ahead, 0.25)));
  const double latency = latencyOfIteration + latencyOfCopy / (1 + 4 * ahead),
               ofBlock =
                   (units * multiprocessors * slower(double(plan.getWarps())) + cost.iterations * latency / clock) /
                   cost.blocks,
               ofLatencies = (rounds + (rounds > 1 ? lastRound : 0)) * ofBlock,
               ofUnits = units * multiprocessors / busy * slower(double(plan.getWarps()) * together);
  const std::pair<double, std::string> limits[] = {
      {memory, "memory"}, {ofUnits, busiestUnit}, {ofLatencies, "latencies"}};
  const auto &limit = *std::ranges::max_element(limits);
  cost.limitedBy = limit.second;
  // What does not limit a launch delays it all the same, where the two do not overlap.
  cost.seconds = limit.first + othersDelay * (memory + std::max(ofUnits, ofLatencies) - limit.first);
  cost.seconds *= 1 + spillFactor * cost.spilled;
  return cost;
}
