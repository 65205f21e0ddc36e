//===- PlanSeconds.cpp - Predicts the time of a plan -------------------------===//

#include "passes/analysis/cost/PlanSeconds.h"

#include "ir/sched/SwizzledLayout.h"
#include "passes/analysis/cost/Rounding.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <tuple>
#include <vector>

using namespace attune;

//===----------------------------------------------------------------------===//
// Calibration
//===----------------------------------------------------------------------===//

namespace {
/// Measured constants that no data sheet of a GPU has, for kernels without producer warps. Instructions are per element
/// of S; cycles are of one SM.
struct Calibration {
  double mmaScale;    ///< factor on ArchInfo's rate of the tensor cores
  double sharedScale; ///< factor on ArchInfo's rate of shared memory; above 1, because reads overlap well
  /// Fraction of the other units' time that does not overlap with the busiest unit's, at 8 warps per SM.
  double overlapLoss;
  double overlapExponent;  ///< overlapLoss is multiplied by (8 / warps per SM) ^ overlapExponent
  double fewWarpsExponent; ///< replaces overlapExponent below 8 warps per SM (two for each of the four schedulers)
  double oneBlockLoss;     ///< factor on overlapLoss if an SM runs one block only: all warps wait at the same barriers
  double softmaxAlu;       ///< instructions of softmax for an element: scale-subtract, max, sum, half a pack
  double dropoutAlu;       ///< instructions of dropout: 1/8 of a Philox 4x32-7 call, compare, select
  double preciseAlu;       ///< additional instructions of a float32-accurate exp2: range reduction
  double barrierCycles;    ///< cycles of a block-wide barrier for each warp of the block
  double tileCycles;       ///< latency of a tile's row statistics, loop and copies; only other blocks on the SM hide it
  double latencyCycles;    ///< latency of a copy from L2
  double blockCycles;      ///< cycles of a block's prologue and epilogue
  double float32MmaFactor; ///< factor on the flops of float32: three m16n8k8 TF32 products at half the rate of bf16
  double float32Shared;    ///< factor on shared-memory reads: V has no transposed 32-bit ldmatrix
  double lastRows;         ///< idle time of an SM at the end of the kernel, as a fraction of a row tile's time
  double launchSeconds;
  double memoryLatency;  ///< seconds from the start of a copy to the arrival of its bytes, under load
  double combineSeconds; ///< time of the kernel that combines the splits of the keys
  double splitsSeconds;  ///< additional time of the combining kernel for each `splitsAtOnce` splits
};
/// Measured constants of the model for kernels with producer warps.
struct WarpgroupCalibration {
  double softmaxAlu;      ///< instructions of an element that `warpgroupCycles` does not count: maxima, packs, moves
  double aluShare;        ///< fraction of arithmetic that does not overlap with wgmma and special functions
  double specialShare;    ///< fraction of special functions that does not overlap with other work
  double scoreCycles;     ///< cycles of a warpgroup's tile for each instruction of the score, for any tileK
  double relativeCycles;  ///< cycles for each key and relative-position value; the values are read before the products
  double tileCycles;      ///< latencies of products, of row reductions over lanes and of barriers, per warpgroup's tile
  double barrierCycles;   ///< cycles added to tileCycles for each additional warpgroup
  double ownOverlap;      ///< overlapped fraction of the shorter of products and softmax, with a single warpgroup
  double pingPongOverlap; ///< overlapped fraction for two warpgroups with both ping-pong and overlap
  /// Without ping-pong: wait for each other warpgroup, in units of the time of a warpgroup's products.
  double withoutPingPong;
  double boxRowCycles;     ///< cycles of TMA for a row of a box
  double unalignedFactor;  ///< factor on boxRowCycles for rows that are not a multiple of 32 bytes
  double wideTile;         ///< factor on tiles of more than 128 keys: longer code and more live registers
  double stageCycles;      ///< cycles of a tile to release and refill the stages of rings
  double thirdStageCycles; ///< part of stageCycles that a third stage hides
  double maskShare;        ///< factor on the arithmetic of a mask, which overlaps with nothing
  double nextTileCycles;   ///< cycles between two row tiles of a persistent block, which has begun the next copies
  double blockCycles;      ///< cycles of a block's prologue and epilogue
  double ownTiles; ///< fraction of a tile's time that a warpgroup saves if it skips a tile masked for all of its rows
  double lastRows; ///< idle time of an SM at the end of the kernel, as a fraction of a row tile's time
};

} // namespace

// Least-squares fit to 136 timings of 39 prototype configurations, in three runs on one H200: bf16, D 32 to 256, S 1024
// to 16384, plain, causal, dropout, softcap, ALiBi. On these timings, S = 1024 at half weight, the root mean square
// error is 3.8%; no timings were held back for validation. Not measured: fewWarpsExponent, preciseAlu, the float32
// factors, the CPU, and all architectures except sm_90; other architectures only differ in ArchInfo's rates.
// oneBlockLoss is slightly above its best fit, so that at D >= 192 plans with two blocks per SM win near ties.
static constexpr Calibration calibration = {
    .mmaScale = 0.937,
    .sharedScale = 1.25,
    .overlapLoss = 0.39,
    .overlapExponent = 0.05,
    .fewWarpsExponent = 0.6,
    .oneBlockLoss = 1.22,
    .softmaxAlu = 2.5,
    .dropoutAlu = 12.0,
    .preciseAlu = 4.0,
    .barrierCycles = 15.0,
    .tileCycles = 58.0,
    .latencyCycles = 380.0,
    .blockCycles = 5100.0,
    .float32MmaFactor = 6.0,
    .float32Shared = 1.5,
    .lastRows = 0.25,
    .launchSeconds = 3e-6,
    .memoryLatency = 2e-6,
    .combineSeconds = 6e-6,
    .splitsSeconds = 0.8e-6,
};

// Found by random search on timings of one H200: 41 cases with all their plans (odd lengths, D 40 to 256, masks,
// biases, dropout, grids of 8 to 4,096 blocks; bench/tuning.py), 34 cases with two or three plans (lengths 1,024 to
// 16,384) and 20 cases with the 24 plans that the model ranked first. The search began at round numbers and reduced the
// error by a twelfth. On these timings the plan that the model ranks first is within 10% of the fastest plan in 94
// cases, and 1.8% slower in the geometric mean; no timings were held back for validation.
static constexpr WarpgroupCalibration warpgroupCalibration = {
    .softmaxAlu = 6,
    .aluShare = 0.52,
    .specialShare = 0.33,
    .scoreCycles = 18.5,
    .relativeCycles = 1.6,
    .tileCycles = 310,
    .barrierCycles = 108,
    .ownOverlap = 0.28,
    .pingPongOverlap = 0.52,
    .withoutPingPong = 1.56,
    .boxRowCycles = 2.3,
    .unalignedFactor = 1.85,
    .wideTile = 1.075,
    .stageCycles = 195,
    .thirdStageCycles = 90,
    .maskShare = 2,
    .nextTileCycles = 1480,
    .blockCycles = 3570,
    .ownTiles = 0.51,
    .lastRows = 0.28,
};

//===----------------------------------------------------------------------===//
// Predicted time
//===----------------------------------------------------------------------===//

static void setBusy(PlanCost &cost, const ArchInfo &arch) {
  cost.units = {{arch.isCpu() ? "products" : "tensor cores", cost.mmaSeconds},
                {"special functions", cost.specialSeconds},
                {"arithmetic", cost.aluSeconds},
                {arch.isCpu() ? "memory" : "HBM", cost.hbmSeconds}};
  if (!arch.isCpu())
    cost.units.emplace_back("shared memory", cost.sharedSeconds);
  std::ranges::sort(cost.units, [](const auto &a, const auto &b) {
    return std::tie(b.second, b.first) < std::tie(a.second, a.first);
  });
  cost.limitedBy = cost.units.front().first;
  for (const auto &[name, seconds] : cost.units)
    fmt::format_to(std::back_inserter(cost.busy), "{}{} {:.0f}%", cost.busy.empty() ? "" : ", ", name,
                   100 * seconds / cost.totalSeconds);
}

namespace {
/// Predicted cycles of one SM.
struct TileCycles {
  double mma, special, alu, shared; ///< busy cycles of each unit for one tile
  double maskAlu;                   ///< arithmetic of the mask for one partial tile
  double tile;                      ///< time of one tile, with overlapping units
  double maskOfTile;                ///< additional time of a partial tile, to evaluate the mask
  double block;                     ///< a thread block's prologue and epilogue
};
} // namespace

/// The counts of visited tiles from which the time of one warpgroup is predicted. A tile that the warpgroup skips,
/// because all keys of the tile are masked for the warpgroup's own 64 rows, saves only the part
/// `warpgroupCalibration.ownTiles` of a tile's time.
static TileCount ownTiles(const PlanRequest &request, const Plan &plan, const TileCount &tiles) {
  const bool passes =
      request.tiles || request.mask.kind == MaskShape::Kind::Band || request.mask.kind == MaskShape::Kind::Rows;
  if (!plan.producerWarps || plan.warps <= 4 || !passes)
    return tiles;
  const TileCount rows = countTiles(request, 64, plan.tileK);
  const double warpgroups = plan.warps / 4.0, savedPart = warpgroupCalibration.ownTiles;
  TileCount own = tiles;
  own.visited = savedPart * rows.visited / warpgroups + (1 - savedPart) * tiles.visited;
  own.partial = savedPart * rows.partial / warpgroups + (1 - savedPart) * tiles.partial;
  return own;
}

/// The cycles of the busiest multiprocessor for plans with packed groups or split keys, whose thread blocks run in
/// waves. With producer warps, a tile's time is mostly latency, which the blocks of one multiprocessor hide for each
/// other. Without producer warps, the tile times of the blocks on one multiprocessor add up.
static double sharedCycles(const PlanRequest &request, const Plan &plan, const TileCount &tiles, const ArchInfo &arch,
                           const TileCycles &of) {
  const double rows = double(request.batch * request.rowHeads(plan) * request.rowTiles(plan));
  const double keyTiles = tiles.visited / double(ceilDiv(request.queries, request.tileQueries(plan)));
  const double splits = double(splitsOf(request, plan, arch)), beside = std::max(plan.blocksPerSm, 1);
  const double waves = std::ceil(rows * splits / (arch.smCount * beside));
  const double atOnce = plan.producerWarps ? 1 : std::min(beside, std::ceil(rows * splits / arch.smCount));
  return waves * (std::ceil(keyTiles / splits) * of.tile * atOnce + of.block * beside);
}

/// The cycles of the busiest multiprocessor. `of` has the cycles of one tile on one multiprocessor.
static double busiestCycles(const PlanRequest &request, const Plan &plan, const TileCount &tiles, const ArchInfo &arch,
                            const TileCycles &of) {
  if (plan.packGqa || plan.splitKeys)
    return sharedCycles(request, plan, tiles, arch, of);
  const double heads = double(request.batch) * request.heads, rows = double(ceilDiv(request.queries, plan.tileQ));
  const double blocks = heads * rows, sms = arch.smCount;
  const TileCount own = ownTiles(request, plan, tiles);
  const double work = heads * (own.visited * of.tile + own.partial * of.maskOfTile) + blocks * of.block;
  const double block = work / blocks, longest = tiles.longest * of.tile + of.block;
  // In the last wave fewer thread blocks share a multiprocessor and run faster, which regains half of the lost time.
  if (!plan.producerWarps && request.mask.kind == MaskShape::Kind::Full)
    return block * (std::ceil(blocks / sms) + blocks / sms) / 2;
  // The number of waves: exact for given sizes, else the expected number, because sizes vary.
  auto iterations = [&](double tilesOfRows) {
    const double each = tilesOfRows / sms;
    return request.theseSizes ? std::ceil(each) : std::max(1.0, each + 0.5);
  };
  // A thread block that is free takes the next row tile, long tiles first, so that short tiles fill the gaps at the
  // end.
  const double last = plan.producerWarps ? warpgroupCalibration.lastRows : calibration.lastRows;
  const double filled = std::max(work / sms + last * block, longest);
  if (!plan.producerWarps || (plan.persistent && request.searches()))
    return filled;
  if (tiles.longest * rows < 1.3 * tiles.visited) // all row tiles take about the same time
    return block * iterations(blocks);
  if (!plan.persistent)
    return filled;
  // Persistent blocks take pairs of row tiles, a long and a short one; all pairs take the same time
  // (sched/WorkOrder.h).
  if (blocks <= sms)
    return longest;
  return plan.longestFirst ? std::max(longest, 2 * block * iterations(blocks / 2)) : work / sms + longest;
}

/// Sets the seconds of each unit and of the kernel on a GPU.
static void setGpuSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                          const ArchInfo &arch, const TileCycles &of) {
  const double clock = arch.clockGHz * 1e9, heads = double(request.batch * request.rowHeads(plan));
  auto spread = [&](double perTile) { return heads * tiles.visited * perTile / (arch.smCount * clock); };
  cost.mmaSeconds = spread(of.mma);
  cost.specialSeconds = spread(of.special);
  cost.aluSeconds = spread(of.alu) + heads * tiles.partial * of.maskAlu / (arch.smCount * clock);
  cost.sharedSeconds = spread(of.shared);
  cost.hbmSeconds = cost.hbmBytes / arch.memoryBytesPerSecond;
  const double cycles = busiestCycles(request, plan, tiles, arch, of);
  double seconds = std::max(cycles / clock, cost.hbmSeconds);
  if (plan.producerWarps && (plan.packGqa || plan.splitKeys)) {
    // Latency limits the memory throughput to the bytes in flight divided by memoryLatency. The computation overlaps
    // with the copies only in part, so the times of computation and memory are combined by a 4-norm.
    const double tileBytes = double(plan.tileK) * (request.headDim + request.headDimV) * request.elementBytes;
    const double onTheirWay = arch.smCount * std::max(plan.blocksPerSm, 1) * plan.stages * tileBytes;
    const double memory = std::max(cost.hbmSeconds, cost.hbmReadBytes * calibration.memoryLatency / onTheirWay);
    seconds = std::pow(std::pow(cycles / clock, 4) + std::pow(memory, 4), 0.25);
  }
  cost.totalSeconds = seconds + calibration.launchSeconds;
  if (plan.splitKeys)
    cost.totalSeconds += calibration.combineSeconds +
                         calibration.splitsSeconds * double(ceilDiv(splitsOf(request, plan, arch), splitsAtOnce));
  setBusy(cost, arch);
}

/// Sets the seconds of a plan without producer warps, where all warps both copy and compute.
static void setWarpSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                           const ArchInfo &arch) {
  const Calibration &c = calibration;
  const double tileQ = plan.tileQ, tileK = plan.tileK, e = request.elementBytes;
  const double d = roundUp(request.headDim, 16), dv = request.paddedHeadDimV(plan);
  const double elements = tileQ * tileK;
  // Warps that split the columns of V compute the same S and P redundantly.
  const double copies = plan.dvWarps;
  const double heads = double(request.batch) * request.heads;
  const double blocks = heads * ceilDiv(request.queries, plan.tileQ);
  const double clock = arch.clockGHz * 1e9;
  const bool f32 = request.elementBytes == 4;

  // Busy cycles of each execution unit of one SM for one tile.
  const double mmaRate = c.mmaScale * arch.mmaTflops * 1e12 / (arch.smCount * clock);
  const double flops = 2 * elements * (copies * d + dv) * (f32 ? c.float32MmaFactor : 1);
  const double mma = flops / mmaRate;
  const double special = copies * elements * request.specialResults() / arch.specialPerClockPerSM;
  const double readBytes =
      (plan.rowWarps() * tileK * (copies * d + dv) + (plan.qRegisters ? 0 : copies * tileQ * d)) * e;
  const double writeBytes = tileK * (d + dv) * e;
  const double shared =
      (readBytes * (f32 ? c.float32Shared : 1) + writeBytes) / (c.sharedScale * arch.sharedBytesPerClockPerSM);
  // Each of the SM's four schedulers issues one warp instruction a cycle. One instruction is an mma of 4096 flops, an
  // ldmatrix of 512 bytes, or 32 exp2.
  const double issue = (flops / 4096 + readBytes / 512 + copies * elements / 32) / 4;
  double aluPerElement = c.softmaxAlu + request.aluPerElement;
  if (request.dropout)
    aluPerElement += c.dropoutAlu;
  if (request.precise || f32)
    aluPerElement += c.preciseAlu;
  const double rescale = tileQ * dv;
  const double alu = (copies * elements * aluPerElement + rescale) / arch.fmaPerClockPerSM + issue;
  const double maskAlu = copies * elements * request.maskAluPerElement / arch.fmaPerClockPerSM;

  const double residentBlocks = std::min<double>(plan.blocksPerSm, std::ceil(blocks / arch.smCount));
  const double warps = residentBlocks * plan.warps;
  const double exponent = warps < 8 ? c.fewWarpsExponent : c.overlapExponent;
  const double loss =
      std::min(1.0, c.overlapLoss * std::pow(8 / warps, exponent) * (residentBlocks == 1 ? c.oneBlockLoss : 1));
  const double busiest = std::max({mma, special, alu, shared});
  double tile = busiest + loss * (mma + special + alu + shared - busiest);
  // While a thread block waits at a barrier, the other blocks of the SM compute.
  const double barriers = plan.stages == 1 ? 2 : 1;
  tile += (c.tileCycles + barriers * c.barrierCycles * plan.warps) / residentBlocks;
  // With one stage, V(n) is copied during QK(n), and K(n+1) during the softmax and PV(n): each copy has half of a
  // tile's time.
  if (plan.stages == 1)
    tile += std::max(0.0, c.latencyCycles - tile * residentBlocks / 2) / residentBlocks;
  else
    tile += std::max(0.0, c.latencyCycles - tile * residentBlocks * (plan.stages - 1)) / residentBlocks;

  const double block = c.blockCycles / std::max(residentBlocks, 1.0);
  setGpuSeconds(cost, request, plan, tiles, arch,
                {.mma = mma,
                 .special = special,
                 .alu = alu,
                 .shared = shared,
                 .maskAlu = maskAlu,
                 .tile = tile,
                 .maskOfTile = maskAlu * loss,
                 .block = block});
}

WarpgroupCycles attune::warpgroupCycles(const PlanRequest &request, const Plan &plan, const ArchInfo &arch) {
  const double elements = double(plan.tileQ) * plan.tileK, clock = arch.clockGHz * 1e9;
  const double mmaPerClock = arch.mmaTflops * 1e12 / (2 * clock * arch.smCount);
  // A lane uses each relative-position value for two rows. Loads indexed by both q and k wait for address arithmetic
  // and for memory.
  const double perElement = 4 + request.aluPerElement + 0.6 * request.relativeValues + 6 * request.elementLoads +
                            (request.dropout ? calibration.dropoutAlu : 0) +
                            (request.precise ? calibration.preciseAlu : 0);
  // For its 64 rows each warpgroup reads the whole tiles of K and V from shared memory, and its own rows of Q.
  const double operandBytes =
      plan.warps / 4 * 2 * (double(plan.tileK) * (request.headDim + request.headDimV) + 64.0 * request.headDim);
  return {.mma = elements * double(roundUp(request.headDim, 16) + roundUp(request.headDimV, 8)) / mmaPerClock,
          .special = elements * request.specialResults() / arch.specialPerClockPerSM,
          .alu = elements * perElement / arch.fmaPerClockPerSM,
          .shared = operandBytes / arch.sharedBytesPerClockPerSM};
}

/// The number of panels, and so of TMA boxes, that a row is split into.
static double boxesOfRow(int64_t rowBytes) { return double(ceilDiv(rowBytes, sched::panelForBoxes(rowBytes))); }

/// Cycles of TMA for a row of a tensor. Rows that do not start at a sector of 32 bytes take about twice as long.
static double copyCycles(int64_t columns, int64_t elementBytes, const WarpgroupCalibration &c) {
  return c.boxRowCycles * boxesOfRow(roundUp(columns, 16) * elementBytes) *
         (columns * elementBytes % 32 ? c.unalignedFactor : 1);
}

/// Sets the seconds of a plan with producer warps. The time of a tile is the largest of: the busy times of the units
/// that all warpgroups use, and the latency of one warpgroup from its first product to that of the next tile. If
/// several of these are nearly equal, the time is longer; they are combined by a 4-norm.
static void setWarpgroupSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                                const ArchInfo &arch) {
  const WarpgroupCalibration &c = warpgroupCalibration;
  const WarpgroupCycles of = warpgroupCycles(request, plan, arch);
  const double elements = double(plan.tileQ) * plan.tileK, warpgroups = plan.warps / 4.0;
  const double maskAlu = elements * request.maskAluPerElement / arch.fmaPerClockPerSM;
  const double softmax = c.scoreCycles * warpgroups * request.aluPerElement +
                         c.softmaxAlu * elements / arch.fmaPerClockPerSM + c.aluShare * of.alu +
                         c.specialShare * of.special;

  const double ownProducts = of.mma / warpgroups, ownSoftmax = softmax / warpgroups;
  double own = ownProducts + ownSoftmax + c.tileCycles + c.barrierCycles * (warpgroups - 1);
  own += c.relativeCycles * request.relativeValues * plan.tileK;
  if (plan.overlap && (warpgroups == 1 || (warpgroups == 2 && plan.pingPong)))
    own -= (warpgroups == 1 ? c.ownOverlap : c.pingPongOverlap) * std::min(ownProducts, ownSoftmax);
  if (!plan.pingPong) // a warpgroup waits for the products of the others
    own += c.withoutPingPong * ownProducts * (warpgroups - 1);

  double copies = plan.tileK * (copyCycles(request.headDim, request.elementBytes, c) +
                                copyCycles(request.headDimV, request.elementBytes, c));
  if (plan.stageBiases)
    copies +=
        plan.tileQ * request.biases * c.boxRowCycles * boxesOfRow(plan.tileK * request.biasBytes / request.biases);

  const auto units = {of.mma, softmax, own, of.shared, copies};
  const double most = std::max(units);
  double sum = 0;
  for (double each : units)
    sum += std::pow(each / most, 4);
  const double tile = (plan.tileK > 128 ? c.wideTile : 1) * most * std::pow(sum, 0.25) + c.stageCycles -
                      (plan.stages > 2 ? c.thirdStageCycles : 0);
  setGpuSeconds(cost, request, plan, tiles, arch,
                {.mma = of.mma,
                 .special = of.special,
                 .alu = of.alu,
                 .shared = of.shared,
                 .maskAlu = maskAlu,
                 .tile = tile,
                 .maskOfTile = c.maskShare * maskAlu,
                 .block = plan.persistent ? c.nextTileCycles : c.blockCycles});
}

/// Sets the seconds of a plan of the CPU target. The efficiency of the register-tiled matrix product depends on the
/// tile sizes. exp2 is a vectorised polynomial.
static void setCpuSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                          const ArchInfo &arch) {
  const double tileQ = plan.tileQ, tileK = plan.tileK, elements = tileQ * tileK;
  const double heads = double(request.batch) * request.heads;
  const double clock = arch.clockGHz * 1e9;
  // The product reloads K for every few rows and O for each tile of keys, and short loops do not amortise their set-up.
  const double efficiency = tileQ / (tileQ + 8) * tileK / (tileK + 16);
  const double flops = 2 * elements * (request.headDim + request.headDimV);
  const double mma = flops / (2.0 * arch.fmaPerClockPerSM) / efficiency;
  const double special = elements * request.specialResults() / arch.specialPerClockPerSM;
  const double rowWork = tileQ * (request.headDimV + 32); // operations for rescaling O and for row statistics
  const double alu =
      (elements * (4 + request.aluPerElement + (request.dropout ? 10 : 0)) + rowWork) / (arch.fmaPerClockPerSM / 2.0);
  const double maskAlu = elements * request.maskAluPerElement / (arch.fmaPerClockPerSM / 2.0);
  // Buffers of more than half of L2 are partly evicted to L3.
  const double spill = std::max(0.0, double(cost.sharedBytes) / (0.5 * arch.sharedBytesPerBlock) - 1);
  // S is written and read twice; up to 32 KiB of S (64 x 128) stay in the first-level cache.
  const double firstLevel = std::max(0.0, std::log2(elements * 4 / 32768));
  const double tile = (mma + special + alu) * (1 + 0.25 * spill + 0.1 * firstLevel);
  const double work = heads * (tiles.visited * tile + tiles.partial * maskAlu);
  auto spread = [&](double perTile) { return heads * tiles.visited * perTile / (arch.smCount * clock); };
  cost.mmaSeconds = spread(mma);
  cost.specialSeconds = spread(special);
  cost.aluSeconds = spread(alu);
  cost.hbmSeconds = cost.hbmBytes / arch.memoryBytesPerSecond;
  cost.totalSeconds = std::max(work / (arch.smCount * clock), cost.hbmSeconds);
  setBusy(cost, arch);
}

void attune::setSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                        const ArchInfo &arch) {
  if (arch.isCpu())
    setCpuSeconds(cost, request, plan, tiles, arch);
  else if (plan.producerWarps)
    setWarpgroupSeconds(cost, request, plan, tiles, arch);
  else
    setWarpSeconds(cost, request, plan, tiles, arch);
}
