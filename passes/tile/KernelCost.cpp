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

/// The number of partitions of a multiprocessor. The units of a partition serve the warps of this partition alone.
constexpr double partitions = 4;

/// Counts the ops of one thread block.
class BlockCounter {
public:
  BlockCounter(tile::KernelOp kernel, const Extents &extents)
      : kernel(kernel), extents(extents), warps(std::max<int64_t>(kernel.getPlan().getWarps(), 1)) {}

  LaunchCounts count() {
    counts.blocks = 1;
    for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>())
      counts.blocks *= std::ceil(double(extentOf(axis)) / double(axis.getBy()));
    for (auto operand : kernel.getOperands().getAsRange<tile::OperandAttr>()) {
      double bytes = bytesOf(operand.getElementType());
      for (tile::AxisAttr axis : operand.getAxes())
        bytes *= std::ceil(double(extentOf(axis)) / double(axis.getBy()));
      counts.tensorBytes += bytes;
    }
    countOps(kernel.getBody().front(), counts.blocks);
    counts.tileRegisters = int(std::ceil(liveRegisters(kernel.getBody().front())));
    for (Operation *op : largestLiveTiles(kernel))
      counts.sharedMemory += ringDepth(op) * cast<TileType>(op->getResult(0).getType()).bytes();
    counts.warps = warps;
    counts.producerWarps = sched::producerWarps(kernel);
    counts.wantedBlocks = std::max<int64_t>(kernel.getPlan().getBlocksPerSm(), 1);
    countCopies();
    return counts;
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
            counts.iterations += times * iterations;
            countOps(loop.getBody().front(), times * iterations);
          })
          .Case<tile::LoadOp, tile::WindowOp>(
              [&](Operation *load) { counts.readBytes += times * double(typeOf(load->getResult(0)).bytes()); })
          .Case<tile::StoreOp, tile::AccumulateOp>([&](Operation *store) {
            const double elements = elementsOf(typeOf(store->getOperand(0)));
            auto view = cast<tile::ViewType>(store->getOperand(1).getType());
            counts.writtenBytes += times * elements * bytesOf(view.getElementType());
          })
          .Case([&](tile::MmaOp product) { countProduct(product, times); })
          .Case([&](tile::MapOp map) {
            const double elements = elementsOf(map.getResult().getType()) * copiesOf(map.getResult().getType());
            for (Operation &inner : map.getRegion().front().without_terminator()) {
              const OpCost one = opCost(&inner, kernel.getPrecise());
              counts.specialResults += times * elements * one.special;
              counts.aluResults += times * elements * one.alu;
            }
          })
          .Case([&](tile::ReduceOp reduce) {
            counts.aluResults += times * elementsOf(reduce.getTile().getType()) * copiesOf(reduce.getTile().getType());
          })
          .Case([&](tile::ConvertOp convert) {
            const TileType type = convert.getResult().getType();
            counts.aluResults += times * elementsOf(type) / 2;
            if (type.getSpace() == tile::MemorySpace::Shared)
              counts.sharedBytes += times * double(type.bytes());
          });
  }

  void countProduct(tile::MmaOp product, double times) {
    const TileType result = product.getResult().getType(), left = product.getLhs().getType(),
                   right = product.getRhs().getType();
    const double elements = elementsOf(result),
                 depth = std::sqrt(elementsOf(left) * elementsOf(right) / std::max(elements, 1.0)),
                 copies = copiesOf(result);
    counts.flops += times * 2 * elements * depth * copies;
    // Every warp reads the whole right operand of a warp-level product; an asynchronous product reads it once for a
    // warpgroup.
    const double readers = sched::hasAsyncProducts(kernel) ? double(warps) / 4 : double(warps);
    counts.sharedBytes += times * readers * double(right.bytes());
    if (left.getSpace() == tile::MemorySpace::Shared)
      counts.sharedBytes += times * copies * double(left.bytes());
  }

  void countCopies() {
    kernel.walk([&](tile::ForBlocksOp loop) {
      int64_t bytes = 0;
      for (auto load : loop.getBody().front().getOps<tile::LoadOp>())
        if (isCopied(load)) {
          bytes += load.getResult().getType().bytes();
          counts.stages = std::max(counts.stages, ringDepth(load));
        }
      counts.copiedBytes = std::max(counts.copiedBytes, bytes);
    });
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
    llvm::DenseMap<Operation *, double> freed; // registers of the values whose last use is the op
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
      // In a loop the carried values are live instead of their initial values. The result of an op may reuse the
      // registers of operands whose last use is the op.
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
  LaunchCounts counts;
};

} // namespace

LaunchCounts attune::countsOf(tile::KernelOp kernel, const Extents &extents) {
  return BlockCounter(kernel, extents).count();
}

/// Sets the registers of a thread, how many of them spill, and the blocks per multiprocessor.
static void placeBlocks(KernelCost &cost, const ArchInfo &arch, const ProgramCalibration &calibration) {
  const int64_t threads = 32 * (cost.warps + cost.producerWarps);
  cost.registers = cost.tileRegisters + int(std::lround(calibration.otherRegisters));
  const int atLaunch =
      std::min(arch.maxRegistersPerThread, int(arch.registersPerSM / (threads * cost.wantedBlocks) / 8 * 8));
  // Producer warps leave most of their registers to the consumers.
  const int most = cost.producerWarps ? roleRegisters(int(cost.warps), int(cost.producerWarps), /*searches=*/false,
                                                      /*values=*/0, cost.tileRegisters, int(cost.wantedBlocks))
                                            .consumer
                                      : atLaunch;
  cost.spilled = std::max(0, cost.registers - most);
  const int held = cost.producerWarps ? atLaunch : std::min(cost.registers, most);
  cost.blocksPerSm = arch.blocksPerSM(int(threads), held, size_t(cost.sharedMemory));
}

KernelCost attune::predictCost(const LaunchCounts &counts, const ArchInfo &arch,
                               const ProgramCalibration &calibration) {
  KernelCost cost = {counts};
  placeBlocks(cost, arch, calibration);
  if (!cost.blocksPerSm)
    return cost;
  const double clock = arch.clockGHz * 1e9, multiprocessors = arch.smCount;
  const double memoryRate = calibration.memoryEfficiency * arch.memoryBytesPerSecond,
               bytes = cost.readBytes + cost.writtenBytes;
  cost.units = {{"products", cost.flops / productRate(arch, calibration, cost.producerWarps > 0)},
                {"special functions", cost.specialResults / (arch.specialPerClockPerSM * multiprocessors * clock)},
                {"arithmetic", cost.aluResults / (arch.fmaPerClockPerSM * multiprocessors * clock)},
                {"shared memory", cost.sharedBytes / (arch.sharedBytesPerClockPerSM * multiprocessors * clock)},
                {"memory", std::max(std::min(bytes, cost.tensorBytes) / memoryRate,
                                    bytes / (calibration.level2Rate * memoryRate))}};
  std::ranges::sort(cost.units, std::greater(), &std::pair<std::string_view, double>::second);
  auto slower = [&](double warps) {
    return std::max(1.0, partitions / warps) *
           std::pow(std::max(1.0, calibration.fullWarps / std::max(warps, partitions)), calibration.fewWarpsExponent);
  };
  // Splits the times of the units into global memory, the busiest unit of a multiprocessor, and the sum of its others.
  double memory = 0, busiest = 0, rest = 0;
  std::string_view busiestUnit;
  for (const auto &[unit, seconds] : cost.units) // the busiest first
    if (unit == "memory")
      memory = seconds;
    else if (busiestUnit.empty())
      busiest = seconds, busiestUnit = unit;
    else
      rest += seconds;
  const double units = busiest + calibration.overlapLoss * rest;
  // `together` blocks run at a time on each of the `busy` multiprocessors, those that have blocks.
  const double together = std::min(double(cost.blocksPerSm), std::ceil(cost.blocks / multiprocessors)),
               busy = std::min(multiprocessors, cost.blocks / together), rounds = cost.blocks / (busy * together);
  const double ahead = double(cost.stages - 1) + (cost.producerWarps ? calibration.producersAhead : 0);
  // A multiprocessor gets its part of the memory's rate only if `needed` bytes are in flight all the time (Little's
  // law).
  const double needed = memoryRate / multiprocessors * calibration.latencyOfCopy / clock;
  if (cost.copiedBytes)
    memory *= std::max(1.0, needed / (together * double(cost.copiedBytes) * std::max(ahead, calibration.leastAhead)));
  const double latency =
                   calibration.latencyOfIteration + calibration.latencyOfCopy / (1 + calibration.stageHides * ahead),
               ofBlock = (units * multiprocessors * slower(double(cost.warps)) + cost.iterations * latency / clock) /
                         cost.blocks,
               ofLatencies = (rounds + (rounds > 1 ? calibration.lastRound : 0)) * ofBlock,
               ofUnits = units * multiprocessors / busy * slower(double(cost.warps) * together);
  const std::pair<double, std::string_view> limits[] = {
      {memory, "memory"}, {ofUnits, busiestUnit}, {ofLatencies, "latencies"}};
  const auto &limit = *std::ranges::max_element(limits);
  cost.limitedBy = limit.second;
  // The lesser of the memory's time and the multiprocessors' time delays the launch too, as far as it does not overlap
  // with the greater.
  cost.seconds = limit.first + calibration.othersDelay * (memory + std::max(ofUnits, ofLatencies) - limit.first);
  cost.seconds *= 1 + calibration.spillFactor * cost.spilled;
  return cost;
}

KernelCost attune::kernelCost(tile::KernelOp kernel, const ArchInfo &arch, const Extents &extents) {
  return predictCost(countsOf(kernel, extents), arch, *arch.programs);
}
