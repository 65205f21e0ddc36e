//===- CostModel.cpp - Which tiles fit, and which of them are quickest ------===//

#include "passes/analysis/CostModel.h"

#include "arch/ArchInfo.h"
#include "ir/sched/SwizzledLayout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

using namespace attune;

//===----------------------------------------------------------------------===//
// Calibration
//===----------------------------------------------------------------------===//

namespace {
/// Cycles and counts that no data sheet has. Instructions are per element of S; cycles are of one SM.
struct Calibration {
  double mmaScale;         ///< on ArchInfo's rate of the tensor cores
  double sharedScale;      ///< on its rate of shared memory: above 1, as reads hide better than the other units' work
  double overlapLoss;      ///< share of the units' time that 8 warps leave unhidden behind the busiest unit
  double overlapExponent;  ///< unhidden share falls as (8 / warps per SM) ^ exponent
  double fewWarpsExponent; ///< the same below 8 warps: two warps a scheduler hide each other's latency, one cannot
  double oneBlockLoss;     ///< factor on it when one block has the SM: its warps meet at the same barriers
  double softmaxAlu;       ///< scale-subtract, max, sum, half a pack
  double dropoutAlu;       ///< Philox 4x32-7 over the 8 elements of a call, compare and select
  double preciseAlu;       ///< range reduction of an accurate exp2
  double barrierCycles;    ///< one block-wide barrier, for each warp of the block
  double tileCycles;       ///< latency of a tile's row statistics, loop and copies that only other blocks hide
  double latencyCycles;    ///< a copy from L2 that nothing hides
  double blockCycles;      ///< prologue and epilogue of a block
  double float32MmaFactor; ///< m16n8k8 TF32 three times, each at half the rate of bf16
  double float32Shared;    ///< V has no transposed 32-bit ldmatrix
  double l2Share;          ///< part of L2 that K and V of running heads may fill
  double launchSeconds;
};
} // namespace

// Least squares over 136 timings, as measured, of 39 prototype configurations in three runs on one H200: bf16, D 32 to
// 256, S 1024 to 16384, plain, causal, dropout, softcap, ALiBi. On these same timings, S = 1024 at half weight, the
// error is 3.8% (root mean square); no others were held back. Not measured: fewWarpsExponent, preciseAlu, the float32
// factors, l2Share, the CPU, and every architecture but sm_90, which differ through ArchInfo's rates. oneBlockLoss is a
// little above its best fit, so that of near ties at D >= 192 the one with two blocks per SM is taken.
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
    .l2Share = 0.6,
    .launchSeconds = 3e-6,
};

// Registers besides S, O and Q: what NVRTC 13.0 needs without spilling over the variants and head dims of tests/arch.
// Kernels of equal sizes differ by up to 16; the largest count, so that a plan which is accepted rarely spills.
static constexpr int addressRegisters = 35; // addresses and strides, a lane's place, the loop and its bounds
static constexpr int narrowPanelRegisters =
    15; // rows that are no whole number of 128-byte panels: addresses share less
static constexpr int queryAddressRegisters = 12; // fragments of Q on their way from shared memory, and their addresses
// Features peak in different places of the loop: only the one that needs most counts.
static constexpr int boundRegisters = 3;           // a first tile and a first full tile
static constexpr int listRegisters = 17;           // a list of tiles, whose next index is carried
static constexpr int dropoutRegisters = 17;        // Philox's keys of each round and its state
static constexpr int dropoutNarrowRegisters = 9;   // the same beside narrow panels
static constexpr int columnRegisters = 12;         // addresses of a vector over columns
static constexpr int elementLoadRegisters = 25;    // addresses of loads for each element
static constexpr int distanceRegisters = 1;        // a value by distance on its way from shared memory, and its address
static constexpr int furtherDistanceRegisters = 6; // the same of each further value
// The same where a plan is given: what leaves it worth running, with a few spills.
static constexpr int leastAddressRegisters = 24;
static constexpr int leastDropoutRegisters = 16;
static constexpr int leastWarpgroupRegisters = 31; // beside S, P and O of a warpgroup: m, l, addresses, the loop

// Up to here 16 rows a warp fit the shared memory, and all columns of O a warp's registers: nothing is gained by a
// split.
static constexpr int wideHeadDim = 256;
static constexpr int maxHeadDim = 512;

static int64_t roundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// Of each element of S.
static double specialResults(const PlanRequest &request) {
  return request.normaliserSpecial + request.specialPerElement;
}

/// Columns of V and O as tiles hold them: 16, the matrix instruction's, for each of the warps that split them.
static int64_t paddedHeadDimV(const PlanRequest &request, const Plan &plan) {
  return roundUp(request.headDimV, 16 * plan.dvWarps);
}

//===----------------------------------------------------------------------===//
// Visited tiles
//===----------------------------------------------------------------------===//

namespace {
/// A half-open range of tile indices.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};

/// What the tiles of rows visit, summed over one head.
struct TileCount {
  double visited = 0;
  double partial = 0;
  double keyRows = 0; ///< rows of K read
  double longest = 0; ///< most tiles that one block visits
};
} // namespace

/// Size of the union of [0, prefix) and `range`.
static int64_t unionSize(int64_t prefix, Range range) {
  if (range.size() == 0)
    return prefix;
  return prefix + Range{std::max(range.begin, prefix), range.end}.size();
}

namespace {
/// The tiles of a band, row of tiles by row of tiles: row i holds the queries from i * tileQ on, and with them the keys
/// that some of them see, and that all do.
///
///     end of the keys of row i, uncut    i * tileQ - left, ... + tileQ + right         seen by some query
///                                        i * tileQ + tileQ - 1 - left, ... + right + 1 seen by every query
///
/// All four move by tileQ keys a row. Over lcm(tileQ, tileK) / tileQ rows that is a whole number of tiles, so that
/// every count grows by a constant over each such period, as long as no end comes near 0, Sk or the prefix, where it is
/// cut. Between these places two periods tell all, whatever the length.
class BandTiles {
public:
  BandTiles(const PlanRequest &request, int64_t tileQ, int64_t tileK)
      : Sq(request.queries), Sk(request.keys), tileQ(tileQ), tileK(tileK), keyTiles(ceilDiv(Sk, tileK)) {
    if (request.mask.kind != MaskShape::Kind::Band)
      return;
    auto within = [](int64_t keys) { return std::clamp(keys, -MaskShape::unlimited, MaskShape::unlimited); };
    left = within(request.mask.left);
    right = within(request.mask.right);
    prefix = std::clamp<int64_t>(request.mask.prefix, 0, Sk);
  }

  TileCount count() const {
    const int64_t period = tileK / std::gcd(tileQ, tileK);
    const std::vector<int64_t> bounds = rowsOfChange();
    Sums total;
    for (size_t i = 0; i + 1 < bounds.size(); ++i)
      add(total, {bounds[i], bounds[i + 1]}, isCutNear(bounds[i]) ? bounds[i + 1] - bounds[i] : period);
    return {double(total.visited), double(total.partial), double(total.keyRows), double(total.longest)};
  }

private:
  /// What the tiles of one row visit.
  struct Row {
    int64_t visited = 0, partial = 0, keyRows = 0;
  };
  /// Over many rows: a count of rows of keys can leave 64 bits.
  struct Sums {
    __int128 visited = 0, partial = 0, keyRows = 0;
    int64_t longest = 0;
  };

  Row row(int64_t i) const {
    const int64_t q0 = i * tileQ, last = std::min(q0 + tileQ, Sq) - 1;
    auto clampKey = [&](int64_t k) { return std::clamp<int64_t>(k, 0, Sk); };
    // Keys visible to some query, and keys visible to every query.
    Range some = {clampKey(q0 - left), clampKey(last + right + 1)};
    Range every = {clampKey(last - left), clampKey(q0 + right + 1)};
    Range visited = some.size() ? Range{some.begin / tileK, ceilDiv(some.end, tileK)} : Range{};
    // A tile cut by Sk is partial.
    Range full = {ceilDiv(every.begin, tileK), every.end / tileK};
    const int64_t tiles = unionSize(ceilDiv(prefix, tileK), visited);
    const int64_t fullTiles = unionSize(prefix / tileK, full);
    const bool readsLast = std::max(ceilDiv(prefix, tileK), visited.end) == keyTiles && tiles > 0;
    return {tiles, tiles - std::min(fullTiles, tiles), tiles * tileK - (readsLast ? keyTiles * tileK - Sk : 0)};
  }

  /// What each uncut end is at row 0.
  std::array<int64_t, 4> ends() const { return {-left, tileQ + right, tileQ - 1 - left, right + 1}; }
  /// Where an end is cut, or meets another that is. Within two tiles of these places rounding to tiles may have crossed
  /// them.
  std::array<int64_t, 3> cuts() const { return {0, prefix, Sk}; }

  /// Rows of tiles at which an end comes near a cut or leaves it, in order; the last row of all, which Sq may cut,
  /// stands alone.
  std::vector<int64_t> rowsOfChange() const {
    const int64_t rows = ceilDiv(Sq, tileQ);
    std::vector<int64_t> bounds = {0, std::max<int64_t>(rows - 1, 0), rows};
    for (int64_t end : ends())
      for (int64_t cut : cuts())
        for (int64_t key : {cut - 2 * tileK, cut + 2 * tileK})
          bounds.push_back(std::clamp<int64_t>(key <= end ? 0 : ceilDiv(key - end, tileQ), 0, rows));
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    return bounds;
  }

  bool isCutNear(int64_t i) const {
    for (int64_t end : ends())
      for (int64_t cut : cuts())
        if (const int64_t key = end + i * tileQ; key >= cut - 2 * tileK && key < cut + 2 * tileK)
          return true;
    return false;
  }

  /// Adds rows whose counts grow by a constant from each to the one `period` rows on.
  void add(Sums &sums, Range rows, int64_t period) const {
    for (int64_t i = rows.begin; i < std::min(rows.begin + period, rows.end); ++i) {
      const Row first = row(i);
      const int64_t times = ceilDiv(rows.end - i, period);
      const Row next = times > 1 ? row(i + period) : first;
      auto sum = [&](int64_t Row::*field) {
        return __int128(times) * (first.*field) + __int128(times) * (times - 1) / 2 * (next.*field - first.*field);
      };
      sums.visited += sum(&Row::visited);
      sums.partial += sum(&Row::partial);
      sums.keyRows += sum(&Row::keyRows);
      sums.longest =
          std::max({sums.longest, first.visited, first.visited + (times - 1) * (next.visited - first.visited)});
    }
  }

  const int64_t Sq, Sk, tileQ, tileK, keyTiles;
  int64_t left = MaskShape::unlimited, right = MaskShape::unlimited, prefix = 0;
};
} // namespace

/// Tiles of rows that see intervals of keys: those of a tile's rows together.
static TileCount countRows(const MaskRows &of, int64_t tileQ, int64_t tileK) {
  TileCount count;
  const int64_t each = std::max<int64_t>(1, tileQ / of.rowsEach);
  // Where an element stands for more rows than a tile has, for as many tiles.
  const double tiles = std::max(1.0, double(of.rowsEach) / double(tileQ));
  for (size_t first = 0; first < of.rows.size(); first += size_t(each)) {
    Range some, every = {0, of.keys};
    for (size_t i = first; i < std::min(first + size_t(each), of.rows.size()); ++i) {
      const MaskRows::Keys &keys = of.rows[i];
      if (keys.begin < keys.end)
        some = some.size() ? Range{std::min(some.begin, keys.begin), std::max(some.end, keys.end)}
                           : Range{keys.begin, keys.end};
      every = {std::max(every.begin, keys.fullBegin), std::min(every.end, keys.fullEnd)};
    }
    if (some.size() == 0)
      continue;
    const Range visited = {some.begin / tileK, ceilDiv(some.end, tileK)},
                full = {ceilDiv(every.begin, tileK), every.end / tileK};
    count.visited += tiles * double(visited.size());
    count.partial += tiles * double(visited.size() - std::min(full.size(), visited.size()));
    count.keyRows += tiles * double(std::min(visited.end * tileK, of.keys) - visited.begin * tileK);
    count.longest = std::max(count.longest, double(visited.size()));
  }
  return count;
}

static TileCount countTiles(const PlanRequest &asked, int64_t tileQ, int64_t tileK) {
  if (asked.mask.kind == MaskShape::Kind::Full || asked.mask.kind == MaskShape::Kind::Band)
    return BandTiles(asked, tileQ, tileK).count();
  PlanRequest request = asked;
  if (request.mask.kind == MaskShape::Kind::Rows) {
    const std::vector<MaskRows> &all = *request.mask.rows;
    for (const MaskRows &rows : all)
      if (rows.queries == request.queries && rows.keys == request.keys)
        return countRows(rows, tileQ, tileK);
    // Other lengths: the share of those that are known.
    const MaskRows &known = all.front();
    const double tiles = double(ceilDiv(known.queries, tileQ)) * double(ceilDiv(known.keys, tileK));
    request.mask.fraction = countRows(known, tileQ, tileK).visited / std::max(tiles, 1.0);
  }
  const double longest = double(ceilDiv(request.keys, tileK)) * request.mask.fraction,
               queryTiles = double(ceilDiv(request.queries, tileQ));
  return {.visited = queryTiles * longest,
          .partial = queryTiles * longest,
          .keyRows = queryTiles * double(request.keys) * request.mask.fraction,
          .longest = longest};
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

/// Bytes of dense biases that one tile of S takes: whole tiles where copy warps bring them, as the copy engine counts
/// what lies outside.
static double biasBytesOfTile(const PlanRequest &request, const Plan &plan) {
  return double(plan.tileQ) * plan.tileK * request.biasBytes;
}

static void setBytes(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                     const ArchInfo &arch) {
  const double B = request.batch, H = request.heads, Hkv = request.headsKv;
  const double Sq = request.queries, Sk = request.keys, e = request.elementBytes;
  const double columns = request.headDim + request.headDimV;
  const double keyBytes = B * H * tiles.keyRows * columns * e;
  const double queryBytes = B * H * Sq * request.headDim * e;
  cost.readBytes = queryBytes + keyBytes + B * H * tiles.visited * biasBytesOfTile(request, plan);
  cost.writtenBytes = B * H * Sq * (request.headDimV * e + 4);
  cost.trafficBytes = cost.readBytes + cost.writtenBytes;
  cost.standardAttentionBytes = B * H * 4 * Sq * Sk * e + B * H * Sq * columns * e + B * Hkv * Sk * columns * e;

  // Blocks of one head run side by side and walk K together. While K and V of the running heads stay in L2 they
  // come from HBM once; else once for each wave of blocks.
  const double queryTiles = ceilDiv(request.queries, plan.tileQ);
  const double running = double(arch.smCount) * std::max(plan.blocksPerSm, 1);
  const double group = std::max(1.0, H / Hkv);
  const double headBytes = Sk * columns * e;
  const double runningHeads = std::min(B * Hkv, std::ceil(running / (queryTiles * group)) + 1);
  double reads = 1;
  if (runningHeads * headBytes > calibration.l2Share * arch.l2Bytes)
    reads = std::max(1.0, std::ceil(queryTiles * group / running));
  // Batches share a bias: [H, Sq, Sk].
  const double biasBytes = H * tiles.visited * biasBytesOfTile(request, plan);
  cost.hbmReadBytes = queryBytes + std::min(keyBytes, reads * B * Hkv * headBytes) + biasBytes;
  cost.hbmBytes = cost.hbmReadBytes + cost.writtenBytes;
}

/// Registers of what a variant adds to plain attention.
static int variantRegisters(const PlanRequest &request, const Plan &plan, bool narrow) {
  // Beside a narrow O there are few products to schedule, and more elements are under way at once.
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
  return most + request.uniformValues + 2 * plan.rowTilesPerWarp() * request.rowVectors;
}

/// Registers of tiles and fragments.
static int tileRegisters(const PlanRequest &request, const Plan &plan) {
  const int rowTiles = plan.rowTilesPerWarp();
  const int d = int(roundUp(request.headDim, 16)), dv = int(paddedHeadDimV(request, plan)) / plan.dvWarps;
  if (plan.copyWarps)
    return warpgroupTileRegisters(plan.tileK, request.headDimV) + (plan.turns && plan.overlap ? plan.tileK / 4 : 0) +
           (request.precise ? 4 : 0);
  const int split = request.elementBytes == 4 ? 2 : 1;  // 3xTF32 holds a high and a low part
  int registers = rowTiles * (plan.tileK / 2 + dv / 2); // S, then P in its place; O
  if (plan.qRegisters)
    registers += rowTiles * (d / 4) * split;
  registers += 4 * rowTiles;               // m, l
  registers += (4 * rowTiles + 8) * split; // fragments of A, and of B two deep
  return registers + (request.precise ? 4 : 0);
}

RoleRegisters attune::roleRegisters(int consumerWarps, int copyWarps, bool searches, int values, int tiles) {
  constexpr int most = 256;
  const int consumers = consumerWarps / 4, producers = copyWarps / 4;
  const int atLaunch = 65536 / ((consumerWarps + copyWarps) * 32) / 8 * 8, all = atLaunch * (consumers + producers);
  auto share = [&](int least) -> RoleRegisters {
    const int consumer = std::min(most, (all - producers * least) / consumers / 8 * 8);
    return {std::min((all - consumers * consumer) / producers / 8 * 8, 56), consumer};
  };
  // Searching tables of one tensor for three warpgroups, 32 spill two, and any tables for four spill more; what
  // computes beside them holds two more, a row's words.
  if (const RoleRegisters roles = share(40);
      searches && values <= 1 && (consumers > 3 || tiles + leastWarpgroupRegisters + 2 <= roles.consumer))
    return roles;
  return share(values > 1 ? 56 : values || searches ? 32 : 24);
}

int attune::warpgroupTileRegisters(int64_t tileK, int64_t headDimV) {
  return int(tileK / 2 + tileK / 4 + roundUp(headDimV, 16) / 2);
}

/// Whether a warp of the producer looks in tables for the tiles to visit.
static bool searches(const PlanRequest &request) { return request.patternRows > 0 || request.maskLoadsByKey; }

static int consumerRegisters(const PlanRequest &request, const Plan &plan) {
  return roleRegisters(plan.warps, plan.copyWarps, searches(request),
                       request.distanceValues + (plan.stageBiases ? 2 * request.biases : 0),
                       warpgroupTileRegisters(plan.tileK, request.headDimV))
      .consumer;
}

/// With fewer a kernel is not worth compiling.
static int leastRegisters(const PlanRequest &request, const Plan &plan) {
  return tileRegisters(request, plan) + leastAddressRegisters + (request.dropout ? leastDropoutRegisters : 0);
}

/// What a warpgroup takes beside S, P and O. Beyond 192 columns O is more operands of a product than ptxas keeps apart
/// from what else is alive, the more so beside special functions or Philox.
static int warpgroupRegisters(const PlanRequest &request, const Plan &plan) {
  const int beyond = std::max<int>(0, int(paddedHeadDimV(request, plan)) / 2 - 96);
  const bool busy = request.dropout || specialResults(request) > 1;
  return leastWarpgroupRegisters + (beyond ? 2 * beyond / 3 + (busy ? 8 : 0) : 0);
}

/// What the kernel takes without spilling.
static int registersNeeded(const PlanRequest &request, const Plan &plan, const ArchInfo &arch) {
  const bool narrow = roundUp(request.headDim, 16) * request.elementBytes % 128 != 0;
  if (plan.copyWarps)
    return tileRegisters(request, plan) + warpgroupRegisters(request, plan) + (request.dropout ? dropoutRegisters : 0) +
           request.uniformValues + 2 * request.rowVectors +
           (request.distanceValues ? distanceRegisters + furtherDistanceRegisters * (request.distanceValues - 1) : 0) +
           (request.columnVectors || request.elementLoads ? elementLoadRegisters : 0);
  int registers = tileRegisters(request, plan) + addressRegisters + int(roundUp(request.headDimV, 16)) / 40;
  if (plan.qRegisters)
    registers -= queryAddressRegisters;
  if (narrow)
    registers += narrowPanelRegisters;
  if (plan.stages == 1) // copies start while S is alive
    registers += 8 + 4 * plan.rowTilesPerWarp();
  registers += arch.compilerRegisters;
  return registers + variantRegisters(request, plan, narrow);
}

/// Bytes of a row of a window of each bias, in panels as the copy engine takes them.
static int64_t biasRowBytes(const PlanRequest &request, const Plan &plan) {
  const int64_t bytes = plan.tileK * request.biasBytes / request.biases;
  return request.biases * sched::paddedToPanels(bytes, sched::panelForBoxes(bytes));
}

/// As `sched-assign-shared-memory` places them, or up to an alignment more.
static std::vector<SharedBuffer> sharedBuffers(const PlanRequest &request, const Plan &plan) {
  const int64_t e = request.elementBytes;
  // The copy engine takes whole panels.
  auto columns = [&](int64_t padded) {
    return plan.copyWarps ? sched::paddedToPanels(padded * e, sched::panelForBoxes(padded * e)) / e : padded;
  };
  const int64_t d = columns(roundUp(request.headDim, 16)), dv = columns(paddedHeadDimV(request, plan));
  std::vector<SharedBuffer> buffers = {{"Q", plan.queryStages * plan.tileQ * d * e},
                                       {"K", roundUp(plan.stages * plan.tileK * d * e, sched::swizzledAlignment)},
                                       {"V", roundUp(plan.stages * plan.tileK * dv * e, sched::swizzledAlignment)}};
  if (plan.copyWarps) // two barriers a stage of each ring, and what the producer says with a stage; of a search it says
                      // more
    buffers.push_back({"barriers", (searches(request) ? 128 : 0) +
                                       16 * (2 * plan.queryStages +
                                             plan.stages * (3 + request.stagedColumns + request.distanceValues +
                                                            (plan.stageBiases ? request.biases : 0)))});
  // With copy warps O takes Q's place row by row, where it has the same panels; else once nothing else is alive.
  if (plan.persistent || (plan.copyWarps && (dv > d || sched::panelForBoxes(dv * e) != sched::panelForBoxes(d * e))))
    buffers.push_back({"O", plan.tileQ * dv * e});
  else if (dv > d)
    buffers.push_back({"O beyond Q", plan.tileQ * (dv - d) * e});
  if (plan.stageBiases)
    buffers.push_back({"biases", int64_t(plan.stages) * plan.tileQ * biasRowBytes(request, plan)});
  if (request.distanceValues) {
    const int64_t bytes = plan.turns ? (plan.tileQ + plan.tileK) * 8 : (plan.tileQ + plan.tileK - 1) * 4;
    buffers.push_back(
        {"values by distance", request.distanceValues * roundUp(plan.stages * bytes, sched::swizzledAlignment)});
  }
  if (request.stagedColumns)
    buffers.push_back(
        {"values by key", request.stagedColumns * roundUp(plan.stages * plan.tileK * 4, sched::swizzledAlignment)});
  return buffers;
}

/// A CPU thread computes in float32 whatever the inputs are; its tiles should stay in the core's L2 cache.
static std::vector<SharedBuffer> cpuBuffers(const PlanRequest &request, const Plan &plan) {
  const int64_t d = request.headDim, dv = request.headDimV;
  return {{"Q", plan.tileQ * d * 4},
          {"K", plan.tileK * d * 4},
          {"V", plan.tileK * dv * 4},
          {"S", int64_t(plan.tileQ) * plan.tileK * 4},
          {"O", plan.tileQ * dv * 4}};
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

static void setBusy(PlanCost &cost, const ArchInfo &arch) {
  std::vector<std::pair<double, const char *>> units = {{cost.mmaSeconds, arch.isCpu() ? "products" : "tensor cores"},
                                                        {cost.specialSeconds, "special functions"},
                                                        {cost.aluSeconds, "arithmetic"},
                                                        {cost.hbmSeconds, arch.isCpu() ? "memory" : "HBM"}};
  if (!arch.isCpu())
    units.push_back({cost.sharedSeconds, "shared memory"});
  std::sort(units.begin(), units.end(), std::greater<>());
  cost.limitedBy = units.front().second;
  for (auto [seconds, name] : units)
    fmt::format_to(std::back_inserter(cost.busy), "{}{} {:.0f}%", cost.busy.empty() ? "" : ", ", name,
                   100 * seconds / cost.totalSeconds);
}

namespace {
/// Cycles of one SM.
struct TileCycles {
  double mma, special, alu, shared; ///< of each unit for one tile
  double maskAlu;                   ///< arithmetic of the mask for one partial tile
  double tile;                      ///< one tile, its units overlapping
  double maskOfTile;                ///< what the mask adds to a partial tile
  double block;                     ///< prologue and epilogue of a block
};
} // namespace

/// Seconds of all tiles of all blocks, in waves over the SMs.
static void setGpuSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                          const ArchInfo &arch, const TileCycles &of) {
  const double clock = arch.clockGHz * 1e9;
  const double heads = double(request.batch) * request.heads;
  const double blocks = heads * ceilDiv(request.queries, plan.tileQ);
  const double work = heads * (tiles.visited * of.tile + tiles.partial * of.maskOfTile) + blocks * of.block;
  double cycles = work / arch.smCount;
  if (request.mask.kind ==
      MaskShape::Kind::Full) // blocks that start late share their SM with fewer others, which wins back half
    cycles = work / blocks * (std::ceil(blocks / arch.smCount) + blocks / arch.smCount) / 2;
  else // longest first fills the gaps with short blocks
    cycles = std::max(cycles + 0.25 * work / blocks, tiles.longest * of.tile + of.block);

  auto spread = [&](double perTile) { return heads * tiles.visited * perTile / (arch.smCount * clock); };
  cost.mmaSeconds = spread(of.mma);
  cost.specialSeconds = spread(of.special);
  cost.aluSeconds = spread(of.alu) + heads * tiles.partial * of.maskAlu / (arch.smCount * clock);
  cost.sharedSeconds = spread(of.shared);
  cost.hbmSeconds = cost.hbmBytes / arch.memoryBytesPerSecond;
  cost.totalSeconds = std::max(cycles / clock, cost.hbmSeconds) + calibration.launchSeconds;
  setBusy(cost, arch);
}

static void setSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                       const ArchInfo &arch) {
  const Calibration &c = calibration;
  const double tileQ = plan.tileQ, tileK = plan.tileK, e = request.elementBytes;
  const double d = roundUp(request.headDim, 16), dv = paddedHeadDimV(request, plan);
  const double elements = tileQ * tileK;
  // Warps that split dv compute the same S and P, each for itself.
  const double copies = plan.dvWarps;
  const double heads = double(request.batch) * request.heads;
  const double blocks = heads * ceilDiv(request.queries, plan.tileQ);
  const double clock = arch.clockGHz * 1e9;
  const bool f32 = request.elementBytes == 4;

  // Cycles of one SM for one tile, unit by unit.
  const double mmaRate = c.mmaScale * arch.mmaTflops * 1e12 / (arch.smCount * clock);
  const double flops = 2 * elements * (copies * d + dv) * (f32 ? c.float32MmaFactor : 1);
  const double mma = flops / mmaRate;
  const double special = copies * elements * specialResults(request) / arch.specialPerClockPerSM;
  const double readBytes =
      (plan.rowWarps() * tileK * (copies * d + dv) + (plan.qRegisters ? 0 : copies * tileQ * d)) * e;
  const double writeBytes = tileK * (d + dv) * e;
  const double shared =
      (readBytes * (f32 ? c.float32Shared : 1) + writeBytes) / (c.sharedScale * arch.sharedBytesPerClockPerSM);
  // Four schedulers issue one warp instruction each: an mma of 4096 flops, an ldmatrix of 512 bytes, 32 exp2.
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
  // Other blocks of the SM work while one waits at its barrier.
  const double barriers = plan.stages == 1 ? 2 : 1;
  tile += (c.tileCycles + barriers * c.barrierCycles * plan.warps) / residentBlocks;
  // With single buffers V(n) arrives during QK(n), and K(n+1) during the softmax and PV(n).
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

/// Cycles of each unit for a tile, with copy warps.
struct WarpgroupCycles {
  double mma, special, alu, shared;
  /// A warpgroup's softmax: half of the shorter unit's time hides behind the longer's.
  double softmax() const { return std::max(alu, special) + 0.5 * std::min(alu, special); }
};
static WarpgroupCycles warpgroupCycles(const PlanRequest &request, const Plan &plan, const ArchInfo &arch) {
  const double elements = double(plan.tileQ) * plan.tileK, clock = arch.clockGHz * 1e9;
  const double mmaPerClock = arch.mmaTflops * 1e12 / (2 * clock * arch.smCount);
  // A value by distance serves two rows of a lane. Loads by element wait for their addresses, and for memory.
  const double perElement = 4 + request.aluPerElement + 0.6 * request.distanceValues + 6 * request.elementLoads +
                            (request.dropout ? calibration.dropoutAlu : 0) +
                            (request.precise ? calibration.preciseAlu : 0);
  // A warpgroup's product reads all of B for 64 rows, and its rows of Q.
  const double operandBytes =
      plan.warps / 4 * 2 * (double(plan.tileK) * (request.headDim + request.headDimV) + 64.0 * request.headDim);
  return {.mma = elements * double(roundUp(request.headDim, 16) + roundUp(request.headDimV, 8)) / mmaPerClock,
          .special = elements * specialResults(request) / arch.specialPerClockPerSM,
          .alu = elements * perElement / arch.fmaPerClockPerSM,
          .shared = operandBytes / arch.sharedBytesPerClockPerSM};
}

/// How products and softmax share the multiprocessor: warpgroups take turns, one's products beside another's softmax;
/// one alone runs both of its own side by side. Where arithmetic rules the softmax, as with dropout, its units are what
/// warpgroups share, best in the order in which they come; unless no row waits for its other lanes, as with sigmoid: then
/// turns keep products and arithmetic apart. Two in turn leave the tensor cores idle where one is back
/// later than the other's products take, as at D 128: there its softmax starts beside its own product with V as well.
/// Measured: that pays where the softmax takes between a half and the whole of a tile's products; it needs registers
/// for half of the exponentials, as many as P has.
static void chooseOverlap(const PlanRequest &request, Plan &plan, const ArchInfo &arch) {
  if (!plan.copyWarps)
    return;
  const WarpgroupCycles of = warpgroupCycles(request, plan, arch);
  plan.overlap = plan.warps == 4;
  plan.turns =
      !plan.overlap && !request.dropout && (of.softmax() <= of.mma || of.alu <= of.special || !request.rowStatistics);
  if (plan.turns && plan.warps == 8 && of.softmax() > 0.5 * of.mma && of.softmax() <= of.mma) {
    Plan both = plan;
    both.overlap = true;
    plan.overlap = registersNeeded(request, both, arch) <= consumerRegisters(request, both);
  }
}

/// Time of a block with copy warps. One warpgroup's softmax runs beside another's products; what they share unevenly is
/// lost.
static void setWarpgroupSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                                const ArchInfo &arch) {
  const WarpgroupCycles of = warpgroupCycles(request, plan, arch);
  const double maskAlu = double(plan.tileQ) * plan.tileK * request.maskAluPerElement / arch.fmaPerClockPerSM;
  const double softmax = of.softmax(), busiest = std::max({of.mma, softmax, of.shared});
  const double overlap = plan.warps >= 12 ? 0.1 : plan.warps >= 8 ? 0.28 : 0.6;
  // Measured: tiles of more than 128 keys run slower than their parts. So do two warpgroups in turn where the softmax
  // takes far longer than the products, whose units they do not fill; tiles of fewer than 96 where three warpgroups'
  // products take longer, of fewer than 80 more so; and windows of biases in panels of 32 bytes. Four warpgroups keep
  // the special-function unit busier where an element takes two of its results.
  const bool narrowWindows =
      plan.stageBiases && request.biases && plan.tileK * request.biasBytes / request.biases % 64 != 0;
  const bool few = plan.turns && plan.warps < 12 && softmax > 2.5 * of.mma,
             narrow = plan.tileK < 96 && plan.warps >= 12 && softmax <= of.mma;
  const bool busyFour = plan.warps >= 16 && specialResults(request) >= 2;
  const double slower = plan.tileK > 128 ? 1.08
                        : few            ? 1.05
                        : narrow         ? (plan.tileK < 80 ? 1.1 : 1.06)
                        : narrowWindows  ? 1.06
                        : busyFour       ? 0.95
                                         : 1;
  // A third stage hides a little more of each tile's latency.
  const double latency = plan.stages > 2 ? 620 : 650;
  // What a warpgroup reads by distance stands in front of its products, and shares shared memory with those of others;
  // three fill the gap.
  const double reads = plan.warps < 12 ? 1.5 * request.distanceValues * plan.tileK : 0;
  const double tile = slower * (busiest + overlap * std::min(of.mma, softmax)) + latency + reads;
  setGpuSeconds(cost, request, plan, tiles, arch,
                {.mma = of.mma,
                 .special = of.special,
                 .alu = of.alu,
                 .shared = of.shared,
                 .maskAlu = maskAlu,
                 .tile = tile,
                 .maskOfTile = maskAlu,
                 .block = plan.persistent ? 2000.0 : 3500.0});
}

/// Time on one core of the CPU target: efficiency of the register-tiled matrix product by tile, and exp2 as a
/// vectorised polynomial.
static void setCpuSeconds(PlanCost &cost, const PlanRequest &request, const Plan &plan, const TileCount &tiles,
                          const ArchInfo &arch) {
  const double tileQ = plan.tileQ, tileK = plan.tileK, elements = tileQ * tileK;
  const double heads = double(request.batch) * request.heads;
  const double clock = arch.clockGHz * 1e9;
  // The product reloads K for each few rows and O for each tile of keys; short loops cost their set-up.
  const double efficiency = tileQ / (tileQ + 8) * tileK / (tileK + 16);
  const double flops = 2 * elements * (request.headDim + request.headDimV);
  const double mma = flops / (2.0 * arch.fmaPerClockPerSM) / efficiency;
  const double special = elements * specialResults(request) / arch.specialPerClockPerSM;
  const double rowWork = tileQ * (request.headDimV + 32); // rescaling of O, row statistics
  const double alu =
      (elements * (4 + request.aluPerElement + (request.dropout ? 10 : 0)) + rowWork) / (arch.fmaPerClockPerSM / 2.0);
  const double maskAlu = elements * request.maskAluPerElement / (arch.fmaPerClockPerSM / 2.0);
  // Half of L2 is comfortable; beyond it the tiles fall out to L3.
  const double spill = std::max(0.0, double(cost.sharedBytes) / (0.5 * arch.sharedBytesPerBlock) - 1);
  // S is written and read twice: 32 KiB of it, 64 x 128, stay in the first level of the cache.
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

static bool usesWarpgroups(const PlanRequest &request, const ArchInfo &arch) {
  return arch.warpgroups && request.elementBytes == 2 && request.headDim <= 256 && request.headDimV <= 256;
}

template <typename T> static std::vector<T> choices(std::optional<T> fixed, std::vector<T> all) {
  return fixed ? std::vector<T>{*fixed} : all;
}

static std::vector<int> warpChoices(const PlanRequest &request) { return choices(request.fixed.warps, {4, 8}); }

/// How many warps may split the columns of V and O. Each repeats the work of S; for that a block has fewer rows of Q,
/// and a warp fewer columns of O.
static std::vector<int> dvWarpChoices(const PlanRequest &request) {
  const bool wide = std::max(request.headDim, request.headDimV) > wideHeadDim;
  return choices(request.fixed.dvWarps, wide ? std::vector{1, 2, 4} : std::vector{1});
}

/// "64, 128 or 256"
static std::string orList(const auto &numbers) {
  std::string text;
  size_t left = numbers.size();
  for (int number : numbers)
    fmt::format_to(std::back_inserter(text), "{}{}", number, --left > 1 ? ", " : left ? " or " : "");
  return text;
}

/// The fields that only some targets have a use for.
static std::optional<Error> checkForms(const PlanRequest &request, const ArchInfo &arch) {
  const PlanChoice &fixed = request.fixed;
  if (fixed.blocksPerSm && *fixed.blocksPerSm < 1)
    return Error{fmt::format("blocks-per-sm {} is not positive", *fixed.blocksPerSm)};
  if (fixed.queryStages && *fixed.queryStages != 1 && *fixed.queryStages != 2)
    return Error{fmt::format("query-stages {} is not 1 or 2", *fixed.queryStages)};
  if (fixed.stageBiases.value_or(false) && !request.biases)
    return Error{"stage-biases has no bias to stage: the score adds no floats of a captured tensor at [.., q, k] that "
                 "copy warps can bring; leave it out"};
  const bool warpgroups = usesWarpgroups(request, arch);
  if (warpgroups && fixed.blocksPerSm.value_or(1) != 1)
    return Error{fmt::format("blocks-per-sm {} is not available on {}, where one block fills a multiprocessor; use 1",
                             *fixed.blocksPerSm, arch.name)};
  if (warpgroups && fixed.queryStages.value_or(1) == 2 && !fixed.persistent.value_or(true))
    return Error{"query-stages 2 needs persistent blocks, which are false; use 1"};
  if (warpgroups)
    return std::nullopt;
  const std::pair<const char *, bool> ofWarpgroups[] = {{"persistent", fixed.persistent.value_or(false)},
                                                        {"query-stages 2", fixed.queryStages.value_or(1) == 2},
                                                        {"turns", fixed.turns.value_or(false)},
                                                        {"overlap", fixed.overlap.value_or(false)},
                                                        {"stage-biases", fixed.stageBiases.value_or(false)}};
  for (auto [name, isFixed] : ofWarpgroups)
    if (isFixed)
      return Error{fmt::format("{} is not available for these inputs on {}: only kernels with copy warps, of 16-bit "
                               "inputs on sm_90a, have it; leave it out",
                               name, arch.isCpu() ? std::string_view("the cpu target") : arch.name)};
  if (arch.isCpu() && fixed.blocksPerSm.value_or(1) != 1)
    return Error{fmt::format("blocks-per-sm {} is not available on the cpu target; use 1", *fixed.blocksPerSm)};
  return std::nullopt;
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
  if (arch.isCpu()) {
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
  if (usesWarpgroups(request, arch)) {
    const std::string_view warpLevel = arch.name.substr(0, arch.name.size() - 1); // the architecture without its suffix
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
  if (fixed.warps && *fixed.warps != 4 && *fixed.warps != 8)
    return Error{fmt::format("warps {} is not supported; use 4 or 8", *fixed.warps)};
  if (fixed.stages && (*fixed.stages < 1 || *fixed.stages > 8))
    return Error{fmt::format("stages {} is not between 1 and 8", *fixed.stages)};
  if (fixed.dvWarps && *fixed.dvWarps != 1 && *fixed.dvWarps != 2 && *fixed.dvWarps != 4)
    return Error{fmt::format("dv-warps {} is not supported; use 1, 2 or 4", *fixed.dvWarps)};
  if (fixed.tileQ) {
    std::set<int> valid;
    for (int warps : warpChoices(request))
      for (int dvWarps : dvWarpChoices(request))
        for (int rowTiles : {1, 2})
          valid.insert(warps / dvWarps * 16 * rowTiles);
    if (!valid.count(*fixed.tileQ)) {
      std::string split;
      if (std::vector<int> dvWarps = dvWarpChoices(request); dvWarps != std::vector{1})
        split = fmt::format(", {} of which split dv,", orList(dvWarps));
      return Error{fmt::format("tile-q {} does not give each of {} warps{} 16 or 32 rows; use {}", *fixed.tileQ,
                               orList(warpChoices(request)), split, orList(valid))};
    }
  }
  return std::nullopt;
}

/// Axes of the block pattern that the tile does not divide: a smaller tile wastes nothing, a larger one reads
/// blocks that the pattern hides.
static int patternMisses(const PlanRequest &request, const Plan &plan) {
  int misses = 0;
  if (request.patternRows)
    misses += request.patternRows % plan.tileQ != 0;
  if (request.patternColumns)
    misses += request.patternColumns % plan.tileK != 0;
  return misses;
}

static std::vector<Plan> candidates(const PlanRequest &request, const ArchInfo &arch) {
  const PlanChoice &fixed = request.fixed;
  // With a bound on k - q the last tile of rows has the most keys.
  const bool longestFirst = fixed.longestFirst.value_or(
      request.mask.kind == MaskShape::Kind::Fraction || request.mask.kind == MaskShape::Kind::Rows ||
      (request.mask.kind == MaskShape::Kind::Band && request.mask.right < MaskShape::unlimited &&
       request.mask.left >= MaskShape::unlimited));
  std::vector<Plan> plans;
  if (usesWarpgroups(request, arch)) {
    // Four warpgroups, where they are not asked for: not beside a mask whose tiles few of 256 rows may see (+3 to +20%
    // measured), nor with dropout (+11%), nor with fewer than 64 keys, nor beside copies of biases by element, which
    // spill.
    const bool scattered = request.mask.kind == MaskShape::Kind::Fraction ||
                           request.mask.kind == MaskShape::Kind::Rows || request.patternRows;
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
  for (int warps : warpChoices(request))
    for (int dvWarps : dvWarpChoices(request))
      for (int rowTiles : {1, 2}) {
        const int tileQ = warps / dvWarps * rowTiles * 16;
        if (fixed.tileQ && *fixed.tileQ != tileQ)
          continue;
        for (int tileK : choices(fixed.tileK, {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256}))
          for (int stages : choices(fixed.stages, {1, 2, 3}))
            for (bool qRegisters : choices(fixed.qRegisters, {false, true}))
              plans.push_back({tileQ, tileK, warps, stages, qRegisters, 0, longestFirst, dvWarps});
      }
  return plans;
}

std::vector<std::pair<int64_t, int64_t>> attune::rankedLengths(const PlanRequest &request) {
  // A window is there for sequences that are longer than it.
  const bool window = request.mask.kind == MaskShape::Kind::Band && request.mask.left < MaskShape::unlimited &&
                      request.mask.right < MaskShape::unlimited;
  const int64_t shortest = window ? 2 * (request.mask.left + request.mask.right) : 1;
  std::vector<std::pair<int64_t, int64_t>> lengths;
  for (int64_t eighths : {1, 4, 16})
    lengths.emplace_back(std::max<int64_t>({1, shortest, request.queries * eighths / 8}),
                         std::max<int64_t>({1, shortest, request.keys * eighths / 8}));
  return lengths;
}

/// One plan serves all lengths: the same tokens in sequences of an eighth, a half, and twice the length.
static double mixSeconds(PlanRequest request, const Plan &plan, const ArchInfo &arch) {
  const double tokens = double(request.batch) * request.queries;
  double product = 1;
  for (auto [queries, keys] : rankedLengths(request)) {
    PlanRequest sized = request;
    sized.queries = queries;
    sized.keys = keys;
    sized.batch = std::max<int64_t>(1, int64_t(tokens / double(sized.queries)));
    const TileCount tiles = countTiles(sized, plan.tileQ, plan.tileK);
    PlanCost cost;
    setBytes(cost, sized, plan, tiles, arch);
    setWarpgroupSeconds(cost, sized, plan, tiles, arch);
    product *= cost.totalSeconds;
  }
  return std::cbrt(product);
}

/// What is left of a request where copy warps bring its dense biases.
static PlanRequest withStagedBiases(PlanRequest request) {
  constexpr double
      loadAlu = 4,
      readAlu = 1.5; // instructions of an element: as TileSize counts a load; half a read of two columns, and widening
  request.elementLoads -= request.biases;
  request.aluPerElement = std::max(0.0, request.aluPerElement - request.biases * (loadAlu - readAlu));
  return request;
}

/// Fills in blocksPerSm and the cost, or the reason why the plan is impossible.
static RankedPlan evaluate(const PlanRequest &asked, Plan plan, const ArchInfo &arch, int64_t budget) {
  const PlanRequest request = plan.stageBiases ? withStagedBiases(asked) : asked;
  RankedPlan ranked;
  PlanCost &cost = ranked.cost;
  cost.sramBudget = budget;
  auto count = [&] {
    cost.shared = arch.isCpu() ? cpuBuffers(request, plan) : sharedBuffers(request, plan);
    cost.sharedBytes = 0;
    for (const SharedBuffer &buffer : cost.shared)
      cost.sharedBytes += buffer.bytes;
  };
  const PlanChoice &fixed = request.fixed;
  chooseOverlap(request, plan, arch);
  plan.turns = fixed.turns.value_or(plan.turns);
  plan.overlap = fixed.overlap.value_or(plan.overlap);
  // Persistent where O has room beside Q, with Q copied ahead where that has room twice.
  plan.persistent = plan.copyWarps && fixed.persistent.value_or(true);
  plan.queryStages = plan.persistent ? fixed.queryStages.value_or(2) : 1;
  count();
  if (plan.persistent && !fixed.queryStages && cost.sharedBytes > budget) {
    plan.queryStages = 1;
    count();
  }
  if (plan.persistent && !fixed.persistent && plan.queryStages == 1 && cost.sharedBytes > budget) {
    plan.persistent = false;
    count();
  }
  if (cost.sharedBytes > budget)
    ranked.rejected = fmt::format("{} bytes of shared memory, above the budget of {}", cost.sharedBytes, budget);
  if (!arch.isCpu()) {
    const int limit = plan.copyWarps ? consumerRegisters(request, plan) : arch.maxRegistersPerThread;
    const int least = leastRegisters(request, plan), needed = registersNeeded(request, plan, arch);
    if (ranked.accepted() && least > limit)
      ranked.rejected = fmt::format("about {} registers per thread, above {}", least, limit);
    cost.spills = needed > limit;
    cost.registers = cost.spills ? limit : needed;
  }
  if (ranked.accepted()) {
    const int most =
        arch.isCpu() || plan.copyWarps ? 1 : arch.blocksPerSM(plan.threads(), cost.registers, size_t(cost.sharedBytes));
    plan.blocksPerSm = std::min(fixed.blocksPerSm.value_or(most), most);
    if (most == 0)
      ranked.rejected =
          fmt::format("{} threads with about {} registers do not fit one SM", plan.threads(), cost.registers);
    else if (fixed.blocksPerSm && *fixed.blocksPerSm > most)
      ranked.rejected = fmt::format("at most {} such block{} share{} a multiprocessor, not {}", most,
                                    most == 1 ? "" : "s", most == 1 ? "s" : "", *fixed.blocksPerSm);
  }
  cost.blocksPerSm = plan.blocksPerSm;
  ranked.plan = plan;
  if (!ranked.accepted())
    return ranked;
  if (plan.copyWarps)
    cost.registerLimit = consumerRegisters(request, plan);
  else if (!arch.isCpu())
    cost.registerLimit =
        std::min(arch.maxRegistersPerThread, arch.registersPerSM / (plan.blocksPerSm * plan.threads()) / 8 * 8);
  TileCount tiles = countTiles(request, plan.tileQ, plan.tileK);
  const double heads = double(request.batch) * request.heads;
  cost.visitedTiles = heads * tiles.visited;
  cost.partialTiles = heads * tiles.partial;
  setBytes(cost, request, plan, tiles, arch);
  if (plan.copyWarps) {
    setWarpgroupSeconds(cost, request, plan, tiles, arch);
    cost.mixSeconds = request.theseSizes ? cost.totalSeconds : mixSeconds(request, plan, arch);
    return ranked;
  }
  if (arch.isCpu())
    setCpuSeconds(cost, request, plan, tiles, arch);
  else
    setSeconds(cost, request, plan, tiles, arch);
  cost.mixSeconds = cost.totalSeconds;
  return ranked;
}

/// Why nothing fits: the candidate with the least shared memory, or the least registers.
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
                           leanest.plan.copyWarps ? "use a smaller tile-k"
                           : fixed.blocksPerSm    ? "use fewer blocks or smaller tiles"
                                                  : "use smaller tiles or more warps")};
}

//===----------------------------------------------------------------------===//
// Interface
//===----------------------------------------------------------------------===//

std::string Plan::text() const {
  if (copyWarps)
    return fmt::format("{} x {}, {} warpgroup{} and a copy warp, {} stages{}{}{}", tileQ, tileK, warps / 4,
                       warps == 4 ? "" : "s", stages, turns ? ", in turn" : "", overlap ? ", overlapped" : "",
                       persistent ? ", persistent" : "") +
           (stageBiases ? ", biases staged" : "");
  return fmt::format("{} x {}, {} warp{}{}, {} stage{}, q in {}{}", tileQ, tileK, warps, warps == 1 ? "" : "s",
                     dvWarps == 1 ? "" : fmt::format(" ({} split dv)", dvWarps), stages, stages == 1 ? "" : "s",
                     qRegisters ? "registers" : "shared memory",
                     blocksPerSm ? fmt::format(", {} block{} per SM", blocksPerSm, blocksPerSm == 1 ? "" : "s") : "");
}

void PlanRequest::setReferenceSizes(int64_t length) {
  queries = keys = length;
  batch = std::max<int64_t>(1, 16384 / length);
  heads = headsKv = std::max<int64_t>(1, 2048 / headDim);
}

bool attune::usesWarpgroups(const PlanRequest &request) {
  Expected<const ArchInfo *> arch = archInfo(request.arch);
  return arch && ::usesWarpgroups(request, **arch);
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
  for (const Plan &plan : candidates(request, arch))
    plans.push_back(evaluate(request, plan, arch, budget));
  if (std::none_of(plans.begin(), plans.end(), [](const RankedPlan &p) { return p.accepted(); }))
    return nothingFits(request, plans, arch, budget);
  const int headDim = std::max(request.headDim, request.headDimV);
  auto expectedToSpill = [&](const RankedPlan &p) {
    return headDim <= spillFreeHeadDim(p.plan.copyWarps > 0) && p.cost.spills;
  };
  for (RankedPlan &p : plans) {
    if (!p.accepted())
      continue;
    if (patternMisses(request, p.plan))
      p.demoted = "the tile does not divide the block pattern";
    else if (expectedToSpill(p))
      p.demoted = "expected to spill registers";
  }
  // Rejected plans, and ties, keep the order of the candidates: fewer warps, rows, keys and stages first.
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
