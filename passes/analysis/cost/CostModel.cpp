//===- CostModel.cpp - Ranks the plans of a variant by predicted time -------===//

#include "passes/analysis/cost/CostModel.h"

#include "arch/ArchInfo.h"
#include "attune/LaunchParams.h"
#include "ir/sched/SwizzledLayout.h"
#include "passes/analysis/cost/PlanSeconds.h"
#include "passes/analysis/cost/Rounding.h"
#include "passes/analysis/cost/VisitedTiles.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

using namespace attune;

// Registers per thread in addition to S, O and Q, as NVRTC 13.0 needs them to avoid spills for the variants and head
// dims of tests/arch. Kernels of equal sizes differ by up to 16 registers. The constants are the largest counts, so
// that an accepted plan rarely spills.
static constexpr int addressRegisters = 35; // addresses and strides, coordinates of the lane, the loop and its bounds
// Added if rows of Q and K are not a multiple of 128-byte panels, where fewer address computations can be reused.
static constexpr int narrowPanelRegisters = 15;
// Fragments of Q loaded from shared memory, and the addresses of these loads.
static constexpr int queryAddressRegisters = 12;
// The following features of a variant have their peaks of register pressure at different points of the loop, so only
// the largest count is added.
static constexpr int boundRegisters = 3;         // index of the first tile and of the first full tile
static constexpr int listRegisters = 17;         // a list of tiles of a block pattern, with a loop-carried index
static constexpr int dropoutRegisters = 17;      // round keys and state of Philox
static constexpr int dropoutNarrowRegisters = 9; // additional registers of dropout with narrow panels
static constexpr int columnRegisters = 12;       // addresses of a vector over columns
static constexpr int elementLoadRegisters = 25;  // addresses of loads indexed by both q and k
// A float32 product is three TF32 products: registers for the high and low parts of their operands and for their sums.
static constexpr int tf32Registers = 64, tf32RegistersOfSecondRows = 18;
static constexpr int tf32RegistersAbove64Columns = 26, tf32RegistersOfNarrowPanels = 11;
static constexpr int tf32RegistersOfSecondKeys = 14; // fragments of keys after the first 16 of a tile
static constexpr int tf32PlaceRegisters = 10;        // page addresses of rows, or the row where a sequence ends
static constexpr int tf32DropoutRegistersOfSecondRows = 6;
static constexpr int relativeRegisters = 1;        // a relative-position value from shared memory, and its address
static constexpr int furtherRelativeRegisters = 6; // registers of each further relative-position value
// Minimal counts: a plan that leaves fewer registers spills too much and is rejected. With exactly these counts a plan
// spills a few registers.
static constexpr int leastAddressRegisters = 24;
static constexpr int leastDropoutRegisters = 16;
static constexpr int leastWarpgroupRegisters = 31; // m, l, addresses, the loop; without S, P and O of a warpgroup

// Up to this head dim tiles of 16 rows a warp fit in shared memory, and all columns of O fit in a warp's registers, so
// splitting the columns of O over warps gains nothing.
static constexpr int wideHeadDim = 256;

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

/// Bytes of dense biases that are copied for one tile of S. Tiles at the end of an axis count as whole tiles, because
/// TMA fills elements outside of the tensor and counts their bytes.
static double biasBytesOfTile(const PlanRequest &request, const Plan &plan) {
  return double(plan.tileQ) * plan.tileK * request.biasBytes;
}

int64_t attune::splitsOf(const PlanRequest &request, const Plan &plan, const ArchInfo &arch) {
  if (!plan.splitKeys)
    return 1;
  const int64_t rowTiles = request.batch * request.rowHeads(plan) * request.rowTiles(plan);
  // The launch chooses the number of splits from the tiles of all keys, even of keys that the mask excludes.
  return keySplits(rowTiles, ceilDiv(request.keys, plan.tileK), int64_t(arch.smCount) * std::max(plan.blocksPerSm, 1));
}

static void setBytes(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                     const ArchInfo &arch) {
  const double B = request.batch, H = request.heads, Hkv = request.headsKv;
  const double Sq = request.queries, Sk = request.keys, e = request.elementBytes;
  const double columns = request.headDim + request.headDimV;
  const double keyBytes = B * double(request.rowHeads(plan)) * tiles.keyRows * columns * e;
  const double queryBytes = B * H * Sq * request.headDim * e;
  cost.readBytes = queryBytes + keyBytes + B * H * tiles.visited * biasBytesOfTile(request, plan);
  cost.writtenBytes = B * H * Sq * (request.headDimV * e + 4);
  if (plan.splitKeys) {
    // The accumulator and the row statistics of each split are written by the attention kernel, then read by the
    // combining kernel.
    const double bytes = B * H * Sq * double(splitsOf(request, plan, arch)) * (request.headDimV + 2) * 4;
    cost.readBytes += bytes;
    cost.writtenBytes += bytes;
  }
  cost.trafficBytes = cost.readBytes + cost.writtenBytes;
  cost.standardAttentionBytes = B * H * 4 * Sq * Sk * e + B * H * Sq * columns * e + B * Hkv * Sk * columns * e;

  // Blocks of one head run concurrently and read the same K tiles at about the same time. If K and V of all running
  // heads fit L2, they are read from HBM once, else once for each wave of thread blocks.
  const double room = 0.6 * arch.l2Bytes; // the part of L2 that K and V of running heads may fill
  const double queryTiles = double(request.rowTiles(plan));
  const double running = double(arch.smCount) * std::max(plan.blocksPerSm, 1);
  const double group = plan.packGqa ? 1 : std::max(1.0, H / Hkv);
  const double headBytes = tiles.distinctKeys.value_or(Sk) * columns * e;
  const double runningHeads = std::min(B * Hkv, std::ceil(running / (queryTiles * group)) + 1);
  double waves = std::max(1.0, std::ceil(queryTiles * group / running));
  double reads = runningHeads * headBytes > room ? waves : 1;
  if (request.maskLoadsByKey && plan.persistent) {
    // Blocks claim tiles of work (passes/sched/WorkOrder.h): a few row tiles of many heads run at the same time, and
    // each row tile reads only the keys that are visible to it.
    const double most = std::max(1.0, std::floor(running * plan.tileQ / 384));
    const double together = std::ceil(B * H / std::ceil(B * H / most));
    // Between two waves of thread blocks of one head, the keys of all `together` running heads are read. The more bytes
    // these keys have, the smaller is the part of the head's own keys that is still in L2.
    const double lost = std::min(1.0, together / group * tiles.keyRows / queryTiles * columns * e / room);
    waves = std::max(1.0, keyBytes * together / running / (B * Hkv * headBytes));
    reads = 1 + (waves - 1) * lost;
  }
  // A bias has the shape [H, Sq, Sk]: all batches read the same bytes, so HBM is read once for all of them.
  const double biasBytes = H * tiles.visited * biasBytesOfTile(request, plan);
  cost.hbmReadBytes = queryBytes + std::min(keyBytes, reads * B * Hkv * headBytes) + biasBytes;
  cost.hbmBytes = cost.hbmReadBytes + cost.writtenBytes;
}

/// Registers that the score and mask of a variant add for float32 inputs; `most` is the count for 16-bit inputs. The
/// three TF32 products of a float32 product set the peak of register pressure, and few values of score and mask are
/// live there. In plans with one stage, copies start while S is live, so that values of score and mask add to the peak.
/// Dropout's random numbers are live at the peak in every plan.
static int apartFromTf32(const PlanRequest &request, const Plan &plan, int most) {
  if (request.dropout)
    return (plan.tileK > 32 ? plan.tileK - 4 : 0) + tf32DropoutRegistersOfSecondRows * (plan.rowTilesPerWarp() - 1);
  if (plan.stages > 1)
    return most / 8;
  return request.findsRows() ? std::max(most, tf32PlaceRegisters) : most;
}

/// Registers that the variant's score, mask and dropout need in addition to those of plain attention. `narrow`: rows of
/// Q are not a multiple of 128-byte panels.
static int variantRegisters(const PlanRequest &request, const Plan &plan, bool narrow) {
  // If O is narrow there are few products to schedule, and ptxas keeps more elements in flight at once.
  const int dv = int(roundUp(request.headDimV, 16)), underWay = std::max(0, 64 - dv) * 3 / 4;
  int most = 0;
  if (request.mask.kind == MaskShape::Kind::Band && request.mask.left < MaskShape::unlimited)
    most = std::max(most, boundRegisters);
  if (request.patternRows)
    most = std::max(most, listRegisters);
  if (request.dropout)
    most =
        std::max(most, dropoutRegisters + (narrow ? dropoutNarrowRegisters : 0) + underWay + std::max(0, dv - 64) / 4);
  if (request.columnVectors)
    most = std::max(most, columnRegisters + request.columnVectors * plan.tileK / 4);
  if (request.elementLoads)
    most = std::max(most, elementLoadRegisters + underWay + plan.tileK / 4);
  if (request.elementBytes == 4)
    most = apartFromTf32(request, plan, most);
  return most + request.uniformValues + 2 * plan.rowTilesPerWarp() * request.rowVectors;
}

/// Registers of the tiles S, P and O, of row statistics and of operand fragments.
static int tileRegisters(const PlanRequest &request, const Plan &plan) {
  const int rowTiles = plan.rowTilesPerWarp();
  const int d = int(roundUp(request.headDim, 16)), dv = int(request.paddedHeadDimV(plan)) / plan.dvWarps;
  if (plan.producerWarps)
    return warpgroupTileRegisters(plan.tileK, request.headDimV) + (plan.pingPong && plan.overlap ? plan.tileK / 4 : 0) +
           (plan.packGqa ? d / 4 : 0) + (request.precise ? 4 : 0);
  const int split = request.elementBytes == 4 ? 2 : 1;  // 3xTF32 needs a high and a low part of each operand
  int registers = rowTiles * (plan.tileK / 2 + dv / 2); // S, whose registers P reuses; O
  if (plan.qRegisters)
    registers += rowTiles * (d / 4) * split;
  registers += 4 * rowTiles;               // row statistics m and l
  registers += (4 * rowTiles + 8) * split; // fragments of A, and double-buffered fragments of B
  return registers + (request.precise ? 4 : 0);
}

RoleRegisters attune::roleRegisters(int consumerWarps, int producerWarps, bool searches, int values, int tiles,
                                    int blocksPerSm) {
  constexpr int most = 256;
  const int consumers = consumerWarps / 4, producers = producerWarps / 4;
  const int atLaunch = 65536 / ((consumerWarps + producerWarps) * 32 * blocksPerSm) / 8 * 8,
            all = atLaunch * (consumers + producers);
  auto split = [&](int least) -> RoleRegisters {
    const int consumer = std::min(most, (all - producers * least) / consumers / 8 * 8);
    return {std::min((all - consumers * consumer) / producers / 8 * 8, 56), consumer};
  };
  // A producer thread with 32 registers spills two of them when it searches the per-tile tables of one tensor for the
  // tiles to visit, for three warpgroups, and spills more for four. Consumers whose producer searches need two more
  // registers, for the mask's values of a row.
  if (const RoleRegisters roles = split(40);
      searches && values <= 1 && (consumers > 3 || tiles + leastWarpgroupRegisters + 2 <= roles.consumer))
    return roles;
  return split(values > 1 ? 56 : values || searches ? 32 : 24);
}

int attune::warpgroupTileRegisters(int64_t tileK, int64_t headDimV) {
  return int(tileK / 2 + tileK / 4 + roundUp(headDimV, 16) / 2);
}

static int consumerRegisters(const PlanRequest &request, const Plan &plan) {
  return roleRegisters(plan.warps, plan.producerWarps, request.searches() || request.findsRows(),
                       request.relativeValues, warpgroupTileRegisters(plan.tileK, request.headDimV),
                       std::max(plan.blocksPerSm, 1))
      .consumer;
}

/// The least registers per thread with which a kernel is worth compiling.
static int leastRegisters(const PlanRequest &request, const Plan &plan) {
  return tileRegisters(request, plan) + leastAddressRegisters + (request.dropout ? leastDropoutRegisters : 0);
}

/// Registers per thread of a warpgroup in addition to S, P and O. If O has more than 192 columns, ptxas needs more
/// registers to keep the many accumulator operands of a product apart from other live values, and still more with
/// special functions or Philox in the loop.
static int warpgroupRegisters(const PlanRequest &request, const Plan &plan) {
  const int beyond = std::max<int>(0, int(request.paddedHeadDimV(plan)) / 2 - 96);
  const bool busy = request.dropout || request.specialResults() > 1;
  return leastWarpgroupRegisters + (beyond ? 2 * beyond / 3 + (busy ? 8 : 0) : 0);
}

/// The registers per thread with which the kernel does not spill.
static int registersNeeded(const PlanRequest &request, const Plan &plan, const ArchInfo &arch) {
  const bool narrow = roundUp(request.headDim, 16) * request.elementBytes % 128 != 0;
  if (plan.producerWarps)
    return tileRegisters(request, plan) + warpgroupRegisters(request, plan) + (request.dropout ? dropoutRegisters : 0) +
           request.uniformValues + request.rowVectors +
           (request.relativeValues ? relativeRegisters + furtherRelativeRegisters * (request.relativeValues - 1) : 0) +
           (request.columnVectors || request.elementLoads ? elementLoadRegisters : 0);
  int registers = tileRegisters(request, plan) + addressRegisters + int(roundUp(request.headDimV, 16)) / 40;
  if (plan.qRegisters)
    registers -= queryAddressRegisters;
  if (narrow)
    registers += narrowPanelRegisters;
  if (plan.stages == 1) // copies start while S is live
    registers += 8 + 4 * plan.rowTilesPerWarp();
  registers += arch.compilerRegisters;
  if (request.elementBytes == 4) {
    const bool wideRows = std::max(request.headDim, request.headDimV) > 64;
    registers += tf32Registers + tf32RegistersOfSecondRows * (plan.rowTilesPerWarp() - 1);
    if (wideRows)
      registers += narrow ? tf32RegistersOfNarrowPanels : tf32RegistersAbove64Columns;
    if (wideRows || plan.tileK >= 64) // where compilerRegisters > 0, ptxas also keeps more products in flight
      registers += arch.compilerRegisters;
    if (plan.tileK == 16)
      registers -= tf32RegistersOfSecondKeys;
  }
  return registers + variantRegisters(request, plan, narrow);
}

int64_t attune::biasRowBytes(const PlanRequest &request, const Plan &plan) {
  const int64_t bytes = plan.tileK * request.biasBytes / request.biases;
  return request.biases * sched::boxRowBytes(bytes);
}

/// The shared buffers and their sizes as `sched-assign-shared-memory` places them, rounded up to alignments.
static std::vector<SharedBuffer> sharedBuffers(const PlanRequest &request, const Plan &plan) {
  const int64_t e = request.elementBytes;
  // TMA copies whole panels, so the columns are rounded up to panels.
  auto columns = [&](int64_t padded) { return plan.producerWarps ? sched::boxRowBytes(padded * e) / e : padded; };
  const int64_t d = columns(roundUp(request.headDim, 16)), dv = columns(request.paddedHeadDimV(plan));
  // Rows of Q of a packed group that are kept in registers are loaded directly, without shared memory.
  const bool loadsQ = plan.packGqa && (plan.producerWarps || plan.qRegisters);
  const int64_t queryBytes = loadsQ ? 0 : plan.queryStages * plan.tileQ * d * e;
  std::vector<SharedBuffer> buffers = {{"Q", queryBytes},
                                       {"K", roundUp(plan.stages * plan.tileK * d * e, sched::swizzledAlignment)},
                                       {"V", roundUp(plan.stages * plan.tileK * dv * e, sched::swizzledAlignment)}};
  // Each ring has a full and an empty mbarrier a stage, 16 bytes together. A producer that searches sends longer
  // messages to the consumers.
  if (plan.producerWarps)
    buffers.push_back({"barriers", (request.searches() ? 128 : 0) +
                                       16 * (2 * plan.queryStages +
                                             plan.stages * (3 + request.stagedColumns + request.relativeValues +
                                                            (plan.stageBiases ? request.biases : 0)))});
  // O is stored through shared memory. If neither persistent blocks nor packed groups need a separate buffer, O reuses
  // memory: with producer warps the rows of Q, provided that both have the same panels; without producer warps any dead
  // buffers. With split keys, partial float32 results are stored directly from registers or through dead buffers.
  const bool hasOwnO = plan.persistent || plan.packGqa ||
                       (plan.producerWarps && (dv > d || sched::panelForBoxes(dv * e) != sched::panelForBoxes(d * e)));
  if (hasOwnO && !plan.splitKeys)
    buffers.push_back({"O", plan.tileQ * dv * e});
  else if (dv > d && !plan.splitKeys)
    buffers.push_back({"O beyond Q", plan.tileQ * (dv - d) * e});
  if (plan.stageBiases)
    buffers.push_back({"biases", int64_t(plan.stages) * plan.tileQ * biasRowBytes(request, plan)});
  if (request.relativeValues) {
    const int64_t bytes = plan.pingPong ? (plan.tileQ + plan.tileK) * 8 : (plan.tileQ + plan.tileK - 1) * 4;
    buffers.push_back(
        {"relative-position values", request.relativeValues * roundUp(plan.stages * bytes, sched::swizzledAlignment)});
  }
  if (request.stagedColumns)
    buffers.push_back(
        {"per-key values", request.stagedColumns * roundUp(plan.stages * plan.tileK * 4, sched::swizzledAlignment)});
  return buffers;
}

/// The buffers of a CPU thread, which computes in float32 for all input types. Together they should fit in the core's
/// L2 cache.
static std::vector<SharedBuffer> cpuBuffers(const PlanRequest &request, const Plan &plan) {
  const int64_t d = request.headDim, dv = request.headDimV;
  return {{"Q", plan.tileQ * d * 4},
          {"K", plan.tileK * d * 4},
          {"V", plan.tileK * dv * 4},
          {"S", int64_t(plan.tileQ) * plan.tileK * 4},
          {"O", plan.tileQ * dv * 4}};
}

//===----------------------------------------------------------------------===//
// Ping-pong and overlap
//===----------------------------------------------------------------------===//

/// Chooses how products overlap with softmax. By default warpgroups ping-pong: one runs its products while another runs
/// its softmax. A single warpgroup overlaps its own product with V and its own softmax (`overlap`).
///
/// Ping-pong does not gain time if the softmax is longer than the products and limited by arithmetic, as with dropout.
/// The warpgroups then compete for the arithmetic units and run best if no order is imposed on them. Exception: without
/// row statistics, as with sigmoid, no row waits for other lanes, and ping-pong pays.
///
/// With two warpgroups in ping-pong the tensor cores idle if a softmax takes longer than the other warpgroup's
/// products, as at D 128. Overlap in addition to ping-pong was measured to gain time if the softmax takes between 0.5
/// and 1 times as long as a tile's products. Overlap then needs registers for half of the exponentials, which are as
/// many registers as those of P.
static void chooseOverlap(const PlanRequest &request, Plan &plan, const ArchInfo &arch) {
  if (!plan.producerWarps)
    return;
  const WarpgroupCycles of = warpgroupCycles(request, plan, arch);
  plan.overlap = plan.warps == 4;
  plan.pingPong =
      !plan.overlap && !request.dropout && (of.softmax() <= of.mma || of.alu <= of.special || !request.rowStatistics);
  if (plan.pingPong && plan.warps == 8 && of.softmax() > 0.5 * of.mma && of.softmax() <= of.mma) {
    Plan both = plan;
    both.overlap = true;
    plan.overlap = registersNeeded(request, both, arch) <= consumerRegisters(request, both);
  }
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

static std::string bufferList(const std::vector<SharedBuffer> &buffers) {
  std::string text;
  for (const SharedBuffer &buffer : buffers)
    fmt::format_to(std::back_inserter(text), "{}{} {}", text.empty() ? "" : ", ", buffer.name, buffer.bytes);
  return text;
}

static std::optional<Error> checkHeadDim(const char *name, int dim, const ArchInfo &arch) {
  if (dim <= 0)
    return Error{fmt::format("{} {} is not positive; use a multiple of 8", name, dim)};
  if (dim % 8)
    return Error{fmt::format("{} {} is not a multiple of 8; pad the last dimension to {}", name, dim, roundUp(dim, 8))};
  if (dim > maxHeadDim)
    return Error{fmt::format("{} {} is above {}, the limit of the {}", name, dim, maxHeadDim,
                             arch.isCpu() ? "cpu target" : "mma.sync path")};
  return std::nullopt;
}

static bool usesAsyncProducts(const PlanRequest &request, const ArchInfo &arch) {
  const ProductUnit *unit = arch.products(Issuer::Warpgroup);
  return arch.hasProducers() && request.elementBytes <= unit->mostElementBytes &&
         std::max(request.headDim, request.headDimV) <= unit->mostColumns;
}

template <typename T> static std::vector<T> choices(std::optional<T> fixed, std::vector<T> all) {
  return fixed ? std::vector<T>{*fixed} : all;
}

static std::vector<int> warpChoices(const PlanRequest &request) { return choices(request.fixed.warps, {4, 8}); }

/// How many warps may split the columns of V and O. Each of these warps computes the same S. In return a thread block
/// has fewer rows of Q, and a warp fewer columns of O.
static std::vector<int> dvWarpChoices(const PlanRequest &request) {
  const bool wide = std::max(request.headDim, request.headDimV) > wideHeadDim;
  return choices(request.fixed.dvWarps, wide ? std::vector{1, 2, 4} : std::vector{1});
}

/// A list for an error text: "64, 128 or 256".
static std::string orList(const auto &numbers) {
  std::string text;
  size_t left = numbers.size();
  for (int number : numbers)
    fmt::format_to(std::back_inserter(text), "{}{}", number, --left > 1 ? ", " : left ? " or " : "");
  return text;
}

/// Checks the plan fields that the user fixed, of which some are supported on some targets only.
static std::optional<Error> checkForms(const PlanRequest &request, const ArchInfo &arch) {
  const PlanChoice &fixed = request.fixed;
  if (fixed.blocksPerSm && *fixed.blocksPerSm < 1)
    return Error{fmt::format("blocks-per-sm {} is not positive", *fixed.blocksPerSm)};
  if (fixed.queryStages && *fixed.queryStages != 1 && *fixed.queryStages != 2)
    return Error{fmt::format("query-stages {} is not 1 or 2", *fixed.queryStages)};
  if (fixed.stageBiases.value_or(false) && !request.biases)
    return Error{"stage-biases has no bias to copy: the score adds no floats of a captured tensor at [.., q, k] that "
                 "producer warps can copy; leave it out"};
  const bool warpgroups = usesAsyncProducts(request, arch);
  const bool splits = fixed.packGqa.value_or(false) || fixed.splitKeys.value_or(false);
  if (fixed.packGqa.value_or(false) && !request.packFault.empty())
    return Error{fmt::format("pack-gqa is not available: {}; leave it out", request.packFault)};
  if (fixed.splitKeys.value_or(false) && !request.splitFault.empty())
    return Error{fmt::format("split-keys is not available: {}; leave it out", request.splitFault)};
  if (splits && fixed.persistent.value_or(false))
    return Error{"persistent blocks take neither packed groups nor splits of keys; leave it out"};
  if (warpgroups && fixed.blocksPerSm.value_or(1) != 1 && !(splits && *fixed.blocksPerSm == 2))
    return Error{fmt::format("blocks-per-sm {} is not available on {}, where one block fills a multiprocessor; use 1",
                             *fixed.blocksPerSm, arch.name)};
  if (warpgroups && fixed.queryStages.value_or(1) == 2 && !fixed.persistent.value_or(true))
    return Error{"query-stages 2 needs persistent blocks, which are false; use 1"};
  if (warpgroups)
    return std::nullopt;
  const std::pair<const char *, bool> ofWarpgroups[] = {{"persistent", fixed.persistent.value_or(false)},
                                                        {"query-stages 2", fixed.queryStages.value_or(1) == 2},
                                                        {"ping-pong", fixed.pingPong.value_or(false)},
                                                        {"overlap", fixed.overlap.value_or(false)},
                                                        {"stage-biases", fixed.stageBiases.value_or(false)}};
  for (auto [name, isFixed] : ofWarpgroups)
    if (isFixed)
      return Error{fmt::format(
          "{} is not available for these inputs on {}: only kernels with producer warps, of 16-bit "
          "inputs on {}, have it; leave it out",
          name, arch.isCpu() ? std::string_view("the cpu target") : arch.name, archNames(&ArchInfo::hasProducers))};
  if (arch.isCpu() && fixed.blocksPerSm.value_or(1) != 1)
    return Error{fmt::format("blocks-per-sm {} is not available on the cpu target; use 1", *fixed.blocksPerSm)};
  return std::nullopt;
}

/// Checks the fields that a plan for the CPU does not have.
static std::optional<Error> checkCpuFields(const PlanChoice &fixed) {
  if (fixed.warps.value_or(1) != 1)
    return Error{fmt::format("warps {} is not available on the cpu target; use 1", *fixed.warps)};
  if (fixed.stages.value_or(1) != 1)
    return Error{fmt::format("stages {} is not available on the cpu target; use 1", *fixed.stages)};
  if (fixed.qRegisters.value_or(false))
    return Error{"q-registers is not available on the cpu target; leave it out"};
  if (fixed.dvWarps.value_or(1) != 1)
    return Error{fmt::format("dv-warps {} is not available on the cpu target; use 1", *fixed.dvWarps)};
  return std::nullopt;
}

/// Checks the fields of a plan whose products are of warpgroups.
static std::optional<Error> checkWarpgroupFields(const PlanChoice &fixed, const ArchInfo &arch) {
  const std::string_view warpLevel = portableArch(arch).name;
  if (fixed.warps && *fixed.warps != 4 && *fixed.warps != 8 && *fixed.warps != 12 && *fixed.warps != 16)
    return Error{fmt::format("warps {} is not supported on {}; use 4, 8, 12 or 16", *fixed.warps, arch.name)};
  if (fixed.stages && (*fixed.stages < 2 || *fixed.stages > 8))
    return Error{fmt::format("stages {} is not between 2 and 8, the stages of {}; use 2, or compile for {}",
                             *fixed.stages, arch.name, warpLevel)};
  if (fixed.qRegisters.value_or(false))
    return Error{fmt::format("q-registers is not available on {}, whose products read Q from shared memory; leave it "
                             "out, or compile for {}",
                             arch.name, warpLevel)};
  if (fixed.dvWarps.value_or(1) != 1)
    return Error{fmt::format(
        "dv-warps {} is not available on {}, whose warpgroups hold all columns of V; use 1, or compile for {}",
        *fixed.dvWarps, arch.name, warpLevel)};
  if (fixed.tileQ && *fixed.tileQ != 64 && *fixed.tileQ != 128 && *fixed.tileQ != 192 && *fixed.tileQ != 256)
    return Error{fmt::format("tile-q {} does not give each of 1 to 4 warpgroups 64 rows; use 64, 128, 192 or 256",
                             *fixed.tileQ)};
  if (fixed.tileQ && fixed.warps && *fixed.tileQ != 16 * *fixed.warps)
    return Error{fmt::format("tile-q {} does not give each of {} warps 16 rows; use {}", *fixed.tileQ, *fixed.warps,
                             16 * *fixed.warps)};
  if (fixed.tileK && *fixed.tileK > 256)
    return Error{fmt::format("tile-k {} is above 256, the most columns of a warpgroup's product", *fixed.tileK)};
  return std::nullopt;
}

/// Checks the fields of a plan whose products are of single warps.
static std::optional<Error> checkWarpFields(const PlanRequest &request) {
  const PlanChoice &fixed = request.fixed;
  if (fixed.warps && *fixed.warps != 4 && *fixed.warps != 8)
    return Error{fmt::format("warps {} is not supported; use 4 or 8", *fixed.warps)};
  if (fixed.stages && (*fixed.stages < 1 || *fixed.stages > 8))
    return Error{fmt::format("stages {} is not between 1 and 8", *fixed.stages)};
  if (fixed.dvWarps && *fixed.dvWarps != 1 && *fixed.dvWarps != 2 && *fixed.dvWarps != 4)
    return Error{fmt::format("dv-warps {} is not supported; use 1, 2 or 4", *fixed.dvWarps)};
  if (!fixed.tileQ)
    return std::nullopt;
  std::set<int> valid;
  for (int warps : warpChoices(request))
    for (int dvWarps : dvWarpChoices(request))
      for (int rowTiles : {1, 2})
        valid.insert(warps / dvWarps * 16 * rowTiles);
  if (valid.count(*fixed.tileQ))
    return std::nullopt;
  std::string split;
  if (std::vector<int> dvWarps = dvWarpChoices(request); dvWarps != std::vector{1})
    split = fmt::format(", {} of which split dv,", orList(dvWarps));
  return Error{fmt::format("tile-q {} does not give each of {} warps{} 16 or 32 rows; use {}", *fixed.tileQ,
                           orList(warpChoices(request)), split, orList(valid))};
}

static std::optional<Error> checkRequest(const PlanRequest &request, const ArchInfo &arch) {
  if (auto error = checkHeadDim("head_dim", request.headDim, arch))
    return error;
  if (auto error = checkHeadDim("head_dim_v", request.headDimV, arch))
    return error;
  if (request.sramBudget < 0)
    return Error{fmt::format("sram budget {} is negative; use 0 for the limit of {}", request.sramBudget, arch.name)};
  if (request.sramBudget > int64_t(arch.sharedBytesPerBlock))
    return Error{fmt::format("sram budget {} is above {}, the limit per block of {}", request.sramBudget,
                             arch.sharedBytesPerBlock, arch.name)};
  const PlanChoice &fixed = request.fixed;
  auto multipleOf16 = [](const char *name, std::optional<int> tile) -> std::optional<Error> {
    if (!tile || (*tile > 0 && *tile % 16 == 0))
      return std::nullopt;
    return Error{fmt::format("{} {} is not a positive multiple of 16", name, *tile)};
  };
  if (auto error = multipleOf16("tile-q", fixed.tileQ))
    return error;
  if (auto error = multipleOf16("tile-k", fixed.tileK))
    return error;
  if (std::optional<Error> error = checkForms(request, arch))
    return error;
  if (arch.isCpu())
    return checkCpuFields(fixed);
  return usesAsyncProducts(request, arch) ? checkWarpgroupFields(fixed, arch) : checkWarpFields(request);
}

/// The number of axes along which the tile does not divide the block pattern's blocks. A tile that divides a block
/// wastes nothing; a larger tile reads pattern blocks that are masked.
static int patternMisses(const PlanRequest &request, const Plan &plan) {
  int misses = 0;
  if (request.patternRows)
    misses += request.patternRows % plan.tileQ != 0;
  if (request.patternColumns)
    misses += request.patternColumns % plan.tileK != 0;
  return misses;
}

/// Whether the heads of a group are packed into one tile of rows, and whether several thread blocks split the keys
/// (split-KV).
struct Sharing {
  bool packGqa, splitKeys;
};

/// The combinations of packed groups and split keys to evaluate. Both help launches with too few row tiles to occupy
/// all multiprocessors. They are evaluated only if the request is for given sizes (theseSizes) or fixes one of the two.
static std::vector<Sharing> sharings(const PlanRequest &request, const ArchInfo &arch) {
  const PlanChoice &fixed = request.fixed;
  const bool asked = fixed.packGqa || fixed.splitKeys;
  std::vector<Sharing> result;
  if (!fixed.packGqa.value_or(false) && !fixed.splitKeys.value_or(false))
    result.push_back({false, false});
  constexpr int64_t rows = 64; // rows of a warpgroup, or of four warps
  const int64_t blocks = request.batch * request.heads * ceilDiv(request.queries, rows);
  const bool few = request.theseSizes && !arch.isCpu() &&
                   (request.queries * request.group() <= 2 * rows || blocks < int64_t(arch.smCount));
  if (!few && !asked)
    return result;
  const bool packs = request.packFault.empty() && (request.group() > 1 || fixed.packGqa.value_or(false));
  const bool splits = request.splitFault.empty();
  for (bool pack : choices(fixed.packGqa, packs ? std::vector{true, false} : std::vector{false}))
    for (bool split : choices(fixed.splitKeys, splits ? std::vector{true, false} : std::vector{false}))
      if (pack || split)
        result.push_back({pack, split});
  return result;
}

/// Adds the candidates that pack the query heads of a key head into one tile, or split the keys over blocks. Deep rings
/// are among the candidates because they keep memory busy, and two thread blocks a multiprocessor because one block
/// computes during the prologue and epilogue of the other.
static void addSharing(std::vector<Plan> &plans, const PlanRequest &request, bool longestFirst) {
  const PlanChoice &fixed = request.fixed;
  for (int warps : choices(fixed.warps, fixed.tileQ ? std::vector{*fixed.tileQ / 16} : std::vector{4, 8}))
    if (!fixed.tileQ || *fixed.tileQ == 16 * warps)
      for (int tileK : choices(fixed.tileK, {32, 64, 128}))
        for (int stages : choices(fixed.stages, {2, 3, 4, 6}))
          for (int blocksPerSm : choices(fixed.blocksPerSm, {1, 2}))
            plans.push_back({16 * warps, tileK, warps, stages, false, blocksPerSm, longestFirst, 1, 4});
}

static std::vector<Plan> candidates(const PlanRequest &request, const ArchInfo &arch, Sharing sharing) {
  const PlanChoice &fixed = request.fixed;
  const bool longestFirst = fixed.longestFirst.value_or(lastRowsSeeMost(request.mask));
  std::vector<Plan> plans;
  const bool splits = sharing.packGqa || sharing.splitKeys;
  if (usesAsyncProducts(request, arch) && splits) {
    addSharing(plans, request, longestFirst);
    return plans;
  }
  if (usesAsyncProducts(request, arch)) {
    // Unless fixed by the user, four warpgroups are not a candidate for: masks where few of 256 rows may see a visited
    // tile (measured 3 to 20% slower), dropout (11% slower), tiles of fewer than 64 keys, and biases, because one
    // load for each element makes the kernel spill.
    const bool scattered = request.mask.kind == MaskShape::Kind::Fraction || request.mask.byTile || request.patternRows;
    const bool asked = fixed.warps || fixed.tileQ, three = scattered || request.dropout || request.biases;
    for (int warps : choices(fixed.warps, {4, 8, 12, 16}))
      if (!fixed.tileQ || *fixed.tileQ == 16 * warps)
        for (int tileK : choices(fixed.tileK, {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256})) {
          if (warps == 16 && !asked && (three || tileK < 64))
            continue;
          for (int stages : choices(fixed.stages, {2, 3}))
            for (bool stageBiases :
                 choices(fixed.stageBiases, request.biases ? std::vector{true, false} : std::vector{false})) {
              plans.push_back({16 * warps, tileK, warps, stages, false, 0, longestFirst, 1, 4});
              plans.back().stageBiases = stageBiases;
            }
        }
    return plans;
  }
  if (arch.isCpu()) {
    for (int tileQ : choices(fixed.tileQ, {16, 32, 48, 64, 96, 128}))
      for (int tileK : choices(fixed.tileK, {16, 32, 64, 128, 192, 256}))
        plans.push_back({tileQ, tileK, 1, 1, false, 1, longestFirst});
    return plans;
  }
  // Fragments of Q stay in shared memory for float32: each fragment has two parts, and spills would cost as much time
  // as fewer reads of shared memory save.
  const std::vector<bool> qRegisterChoices = request.elementBytes == 4 ? std::vector{false} : std::vector{false, true};
  for (int warps : warpChoices(request))
    for (int dvWarps : dvWarpChoices(request))
      for (int rowTiles : {1, 2}) {
        const int tileQ = warps / dvWarps * rowTiles * 16;
        if (fixed.tileQ && *fixed.tileQ != tileQ)
          continue;
        for (int tileK : choices(fixed.tileK, {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256}))
          for (int stages : choices(fixed.stages, {1, 2, 3}))
            for (bool qRegisters : choices(fixed.qRegisters, qRegisterChoices))
              plans.push_back({tileQ, tileK, warps, stages, qRegisters, 0, longestFirst, dvWarps});
      }
  return plans;
}

std::vector<std::pair<int64_t, int64_t>> attune::rankedLengths(const PlanRequest &request) {
  // A variant with a sliding window is meant for longer sequences than the window, so the shortest ranked length is
  // twice the window.
  const bool window = request.mask.kind == MaskShape::Kind::Band && request.mask.left < MaskShape::unlimited &&
                      request.mask.right < MaskShape::unlimited;
  const int64_t shortest = window ? 2 * (request.mask.left + request.mask.right) : 1;
  std::vector<std::pair<int64_t, int64_t>> lengths;
  for (int64_t eighths : {1, 2, 4, 8, 16, 32})
    lengths.emplace_back(std::max<int64_t>({1, shortest, request.queries * eighths / 8}),
                         std::max<int64_t>({1, shortest, request.keys * eighths / 8}));
  return lengths;
}

/// The geometric mean of a plan's time over rankedLengths, because one plan is used for all lengths. Each length has a
/// batch size that gives about as many tokens as the request.
static double mixSeconds(PlanRequest request, const Plan &plan, const ArchInfo &arch) {
  const double tokens = double(request.batch) * request.queries;
  const auto lengths = rankedLengths(request);
  double logarithms = 0;
  for (auto [queries, keys] : lengths) {
    PlanRequest sized = request;
    sized.queries = queries;
    sized.keys = keys;
    sized.batch = std::max<int64_t>(1, int64_t(tokens / double(sized.queries)));
    const TileCount tiles = countTiles(sized, plan.tileQ, plan.tileK);
    PlanCost cost;
    setBytes(cost, sized, plan, tiles, arch);
    setSeconds(cost, sized, plan, tiles, arch);
    logarithms += std::log(cost.totalSeconds);
  }
  return std::exp(logarithms / double(lengths.size()));
}

/// The request as it applies to a plan with stageBiases: dense biases do not count in elementLoads, and cost fewer
/// instructions.
static PlanRequest withStagedBiases(PlanRequest request) {
  // Instructions per element. TileSize.cpp counts 4 for a load from global memory. From shared memory an element takes
  // 1.5: half of a read, because one read serves two columns, and a conversion to float32.
  constexpr double loadAlu = 4, readAlu = 1.5;
  request.elementLoads -= request.biases;
  request.aluPerElement = std::max(0.0, request.aluPerElement - request.biases * (loadAlu - readAlu));
  return request;
}

namespace {
/// Completes one candidate (overlap, persistent blocks, blocksPerSm) and computes its cost, or the reason for its
/// rejection.
class PlanEvaluation {
public:
  PlanEvaluation(const PlanRequest &asked, const Plan &plan, const ArchInfo &arch, int64_t budget)
      : request(plan.stageBiases ? withStagedBiases(asked) : asked), plan(plan), arch(arch), budget(budget) {
    cost.sramBudget = budget;
  }

  RankedPlan run() {
    chooseOverlap(request, plan, arch);
    plan.pingPong = fixed.pingPong.value_or(plan.pingPong);
    plan.overlap = fixed.overlap.value_or(plan.overlap);
    choosePersistent();
    if (cost.sharedBytes > budget)
      ranked.rejected = fmt::format("{} bytes of shared memory, above the budget of {}", cost.sharedBytes, budget);
    if (!arch.isCpu())
      countRegisters();
    if (ranked.accepted())
      chooseBlocksPerSm();
    cost.blocksPerSm = plan.blocksPerSm;
    ranked.plan = plan;
    if (ranked.accepted())
      computeCost();
    return ranked;
  }

private:
  /// Lists the buffers in shared memory (on a CPU, in its cache), and sums their bytes.
  void countSharedBytes() {
    cost.shared = arch.isCpu() ? cpuBuffers(request, plan) : sharedBuffers(request, plan);
    cost.sharedBytes = 0;
    for (const SharedBuffer &buffer : cost.shared)
      cost.sharedBytes += buffer.bytes;
  }

  /// Blocks are persistent if shared memory has room for O in addition to Q. Q then has two stages if both stages fit.
  void choosePersistent() {
    plan.persistent = plan.producerWarps && !splits && fixed.persistent.value_or(true);
    plan.queryStages = plan.persistent ? fixed.queryStages.value_or(2) : 1;
    countSharedBytes();
    if (plan.persistent && !fixed.queryStages && cost.sharedBytes > budget) {
      plan.queryStages = 1;
      countSharedBytes();
    }
    if (plan.persistent && !fixed.persistent && plan.queryStages == 1 && cost.sharedBytes > budget) {
      plan.persistent = false;
      countSharedBytes();
    }
  }

  void countRegisters() {
    const int limit = plan.producerWarps ? consumerRegisters(request, plan) : arch.maxRegistersPerThread;
    const int least = leastRegisters(request, plan), needed = registersNeeded(request, plan, arch);
    if (ranked.accepted() && least > limit)
      ranked.rejected = fmt::format("about {} registers per thread, above {}", least, limit);
    cost.spills = needed > limit;
    cost.registers = cost.spills ? limit : needed;
  }

  /// The number of blocks that fit a multiprocessor. With producer warps the plan fixes the number, because setmaxnreg
  /// divides the registers accordingly.
  int mostBlocksPerSm() const {
    if (arch.isCpu() || (plan.producerWarps && !splits))
      return 1;
    if (plan.producerWarps)
      return std::min(plan.blocksPerSm, arch.blocksPerSM(plan.threads(), 1, size_t(cost.sharedBytes)));
    return arch.blocksPerSM(plan.threads(), cost.registers, size_t(cost.sharedBytes));
  }

  void chooseBlocksPerSm() {
    const int most = mostBlocksPerSm();
    // A warpgroup's accumulator O is an operand of one instruction. O and the other live values must fit in the
    // registers per thread that a thread block has at its launch, before setmaxnreg.
    const int64_t ofProduct = roundUp(request.headDimV, 16) / 2 + leastWarpgroupRegisters;
    if (splits && plan.producerWarps && ofProduct > arch.registersPerSM / (plan.blocksPerSm * plan.threads()))
      ranked.rejected = fmt::format("a product takes {} registers, above what {} blocks of {} threads begin with",
                                    ofProduct, plan.blocksPerSm, plan.threads());
    else if (splits && plan.producerWarps && most < plan.blocksPerSm)
      ranked.rejected = fmt::format("{} bytes of shared memory leave no room for {} blocks on a multiprocessor",
                                    cost.sharedBytes, plan.blocksPerSm);
    else if (most == 0)
      ranked.rejected =
          fmt::format("{} threads with about {} registers do not fit one SM", plan.threads(), cost.registers);
    else if (fixed.blocksPerSm && *fixed.blocksPerSm > most)
      ranked.rejected = fmt::format("at most {} such block{} share{} a multiprocessor, not {}", most,
                                    most == 1 ? "" : "s", most == 1 ? "s" : "", *fixed.blocksPerSm);
    plan.blocksPerSm = std::min(fixed.blocksPerSm.value_or(most), most);
  }

  void computeCost() {
    if (plan.producerWarps)
      cost.registerLimit = consumerRegisters(request, plan);
    else if (!arch.isCpu())
      cost.registerLimit =
          std::min(arch.maxRegistersPerThread, arch.registersPerSM / (plan.blocksPerSm * plan.threads()) / 8 * 8);
    TileCount tiles = countTiles(request, int(request.tileQueries(plan)), plan.tileK);
    const double heads = double(request.batch * request.rowHeads(plan));
    cost.visitedTiles = heads * tiles.visited;
    cost.keySplits = splitsOf(request, plan, arch);
    cost.partialTiles = heads * tiles.partial;
    cost.allTiles =
        heads * double(ceilDiv(request.queries, request.tileQueries(plan)) * ceilDiv(request.keys, plan.tileK));
    setBytes(cost, request, plan, tiles, arch);
    PlanRequest these = request;
    these.theseSizes = true;
    setSeconds(cost, these, plan, tiles, arch);
    cost.mixSeconds = plan.producerWarps && !request.theseSizes ? mixSeconds(request, plan, arch) : cost.totalSeconds;
  }

  const PlanRequest request;
  Plan plan;
  const ArchInfo &arch;
  const int64_t budget;
  const PlanChoice &fixed = request.fixed;
  const bool splits = plan.packGqa || plan.splitKeys;
  RankedPlan ranked;
  PlanCost &cost = ranked.cost;
};
} // namespace

/// The error if no candidate fits. The text describes the candidate with the least shared memory, or with the least
/// registers.
static Error nothingFits(const PlanRequest &request, const std::vector<RankedPlan> &plans, const ArchInfo &arch,
                         int64_t budget) {
  const PlanChoice &fixed = request.fixed;
  const bool any = fixed.any();
  auto least = [&](auto key) {
    return *std::min_element(plans.begin(), plans.end(), [&](auto &a, auto &b) { return key(a) < key(b); });
  };
  RankedPlan smallest = least([](const RankedPlan &p) { return p.cost.sharedBytes; });
  const char *subject = any ? "tile" : "the smallest tile";
  if (smallest.cost.sharedBytes > budget)
    return Error{fmt::format("{} {} x {} needs {} bytes of {} ({}), above the budget of {} bytes; {}", subject,
                             smallest.plan.tileQ, smallest.plan.tileK, smallest.cost.sharedBytes,
                             arch.isCpu() ? "cache" : "shared memory", bufferList(smallest.cost.shared), budget,
                             fixed.persistent.value_or(false)
                                 ? "use smaller tiles, fewer stages, no persistent blocks or a larger budget"
                             : any ? "use smaller tiles, fewer stages or a larger budget"
                                   : "raise the budget or reduce the head dim")};
  RankedPlan leanest = least([&](const RankedPlan &p) { return leastRegisters(request, p.plan) * p.plan.warps; });
  return Error{fmt::format("tile {} x {} with {} warps does not fit: {}; {}", leanest.plan.tileQ, leanest.plan.tileK,
                           leanest.plan.warps, leanest.rejected,
                           leanest.plan.producerWarps ? "use a smaller tile-k"
                           : fixed.blocksPerSm        ? "use fewer blocks or smaller tiles"
                                                      : "use smaller tiles or more warps")};
}

//===----------------------------------------------------------------------===//
// Public functions
//===----------------------------------------------------------------------===//

std::string Plan::text() const {
  const std::string sharing = std::string(packGqa ? ", packed GQA" : "") + (splitKeys ? ", keys split" : "");
  const std::string tiles = tileQ && tileK ? fmt::format("{} x {}, ", tileQ, tileK) : "";
  if (producerWarps)
    return fmt::format("{}{} warpgroup{} and a producer warp, {} stages{}{}{}{}", tiles, warps / 4,
                       warps == 4 ? "" : "s", stages,
                       dpStages ? fmt::format(" ({} of the tile that dP alone reads)", dpStages) : "",
                       pingPong ? ", ping-pong" : "", overlap ? ", overlapped" : "", persistent ? ", persistent" : "") +
           (stageBiases ? ", biases in shared memory" : "") +
           (blocksPerSm > 1 ? fmt::format(", {} blocks per SM", blocksPerSm) : "") + sharing;
  return fmt::format("{}{} warp{}{}, {} stage{}, q in {}{}", tiles, warps, warps == 1 ? "" : "s",
                     dvWarps == 1 ? "" : fmt::format(" ({} split dv)", dvWarps), stages, stages == 1 ? "" : "s",
                     qRegisters ? "registers" : "shared memory",
                     blocksPerSm ? fmt::format(", {} block{} per SM", blocksPerSm, blocksPerSm == 1 ? "" : "s") : "") +
         sharing;
}

int64_t PlanRequest::paddedHeadDimV(const Plan &plan) const { return roundUp(headDimV, 16 * plan.dvWarps); }

void PlanRequest::setReferenceSizes(int64_t length) {
  queries = keys = length;
  batch = std::max<int64_t>(1, 16384 / length);
  heads = headsKv = std::max<int64_t>(1, 2048 / headDim);
}

bool attune::usesAsyncProducts(const PlanRequest &request) {
  Expected<const ArchInfo *> arch = archInfo(request.arch);
  return arch && ::usesAsyncProducts(request, **arch);
}

Expected<std::vector<RankedPlan>> attune::rankPlans(const PlanRequest &request) {
  Expected<const ArchInfo *> found = archInfo(request.arch);
  if (!found)
    return found.error();
  const ArchInfo &arch = **found;
  if (auto error = checkRequest(request, arch))
    return *error;
  const int64_t budget = request.sramBudget ? request.sramBudget : int64_t(arch.sharedBytesPerBlock);

  std::vector<RankedPlan> plans;
  for (Sharing sharing : sharings(request, arch))
    for (Plan plan : candidates(request, arch, sharing)) {
      plan.packGqa = sharing.packGqa;
      plan.splitKeys = sharing.splitKeys;
      plans.push_back(PlanEvaluation(request, plan, arch, budget).run());
    }
  if (plans.empty())
    return Error{"no plan has all the fields that are fixed; leave out some of them"};
  if (std::none_of(plans.begin(), plans.end(), [](const RankedPlan &p) { return p.accepted(); }))
    return nothingFits(request, plans, arch, budget);
  const int headDim = std::max(request.headDim, request.headDimV);
  auto expectedToSpill = [&](const RankedPlan &p) {
    return headDim <= spillFreeHeadDim(p.plan.producerWarps > 0) && p.cost.spills;
  };
  for (RankedPlan &p : plans) {
    if (!p.accepted())
      continue;
    if (patternMisses(request, p.plan))
      p.demoted = "the tile does not divide the block pattern";
    else if (expectedToSpill(p))
      p.demoted = "expected to spill registers";
  }
  // Rejected plans and ties keep the order of the candidates: fewer warps, rows, keys and stages first.
  std::vector<size_t> order(plans.size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](size_t i) {
    const RankedPlan &p = plans[i];
    return std::tuple(!p.accepted(), p.accepted() ? patternMisses(request, p.plan) : 0, expectedToSpill(p),
                      p.cost.mixSeconds, i);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<RankedPlan> ranked;
  for (size_t i : order)
    ranked.push_back(std::move(plans[i]));
  return ranked;
}

Expected<RankedPlan> attune::choosePlan(const PlanRequest &request) {
  Expected<std::vector<RankedPlan>> plans = rankPlans(request);
  if (!plans)
    return plans.error();
  return std::move(plans->front());
}
