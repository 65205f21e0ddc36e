//===- BackwardPlan.cpp - Candidate plans of the backward pass, in the order of preference ---===//

#include "passes/analysis/cost/BackwardPlan.h"

#include "arch/ArchInfo.h"
#include "ir/sched/SwizzledLayout.h"
#include "passes/analysis/cost/Rounding.h"
#include "passes/analysis/cost/VisitedTiles.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <span>

using namespace attune;

/// Bytes of one row of Q plus one row of dO, or of K plus V.
static int64_t rowBytes(const PlanRequest &request) {
  return (roundUp(request.headDim, 16) + roundUp(request.headDimV, 16)) * request.elementBytes;
}

/// Whether 128 queries span several blocks of a block pattern, which may see different key tiles.
static bool hasSmallBlocks(const PlanRequest &request) { return request.patternRows && request.patternRows < 128; }

namespace {
/// The plans of one loop with warp-level products. The thread block holds a tile of one axis (queries or keys) and
/// loops over tiles of the other axis.
class Loop {
public:
  enum Of { Keys, Queries }; ///< the axis of which a thread block holds one tile (the loop is over the other axis)

  Loop(const PlanRequest &request, const ArchInfo &arch, int64_t budget, Of of, const PlanChoice &fixed)
      : request(request), arch(arch), budget(budget), of(of), fixed(fixed) {}

  /// All plans of the loop that fit, the model's choice first. An error if no plan fits.
  Expected<std::vector<Plan>> candidates() const {
    std::vector<Plan> plans;
    // Adds the plan with two stages and the plan with one stage, if `fits` holds for them.
    auto add = [&](int64_t rows, int64_t rowsOfWarp, int64_t columns, auto &&fits) {
      for (int64_t stages : {2, 1})
        if (!arch.isCpu() || stages == 1)
          if (const Plan plan = make(rows, rowsOfWarp, columns, stages);
              (arch.isCpu() || fits(plan)) && // cache is not a hard limit
              std::ranges::find(plans, plan) == plans.end())
            plans.push_back(plan);
    };
    // With float32 inputs, fragments for warps of 32 rows would take all registers.
    const int64_t mostRows = request.elementBytes > 2 ? 16 : 32;
    for (int64_t rows = mostRows; rows >= 16; rows /= 2)
      for (int64_t columns : {64, 32})
        add(blockRows(rows), rows, columns, [&](const Plan &plan) { return hasRoom(plan); });
    // If even the accumulators of 16 rows do not fit in the registers of a thread, narrow tiles spill least.
    add(blockRows(16), 16, 32, [&](const Plan &plan) { return plan.stages == 2 && isShared(plan); });
    // One block of twice the rows has as many warps as two blocks, and room for a second ring stage where two blocks on
    // a multiprocessor have none.
    if (of == Keys && !hasSmallBlocks(request))
      add(2 * blockRows(16), 16, 32, [&](const Plan &plan) { return plan.stages == 2 && sharedBytes(plan) <= budget; });
    add(blockRows(16), 16, 32, [&](const Plan &plan) { return isShared(plan); });
    if (plans.empty())
      for (int64_t tile : {64, 32, 16})
        add(tile, 16, std::min<int64_t>(tile, 32), [&](const Plan &plan) { return sharedBytes(plan) <= budget; });
    if (plans.empty())
      return nothingFits(make(16, 16, 16, 1));
    // Further tiles for tuning to measure: the rules above leave these tiles out, but they take no more than
    // mostRegisters.
    const int64_t mostRegisters = std::max(freeRegisters, registers(plans.front()));
    for (int64_t rowsOfWarp = mostRows; rowsOfWarp >= 16; rowsOfWarp /= 2)
      for (int64_t rows : {64, 128, 32})
        for (int64_t columns : {64, 32, 128, 16})
          add(rows, rowsOfWarp, columns,
              [&](const Plan &plan) { return registers(plan) <= mostRegisters && sharedBytes(plan) <= budget; });
    return plans;
  }

  /// Whether a loop over queries with this plan can have all five products: whether shared memory has room for dS,
  /// which all warps of the thread block read. Warps of 16 rows are excluded, because their reads of shared memory
  /// would take more time than a second loop for dQ.
  bool hasRoomForQueries(const Plan &plan) const {
    const int64_t exchanged = int64_t(plan.tileQ) * plan.tileK * request.elementBytes;
    return own(plan) >= 32 * plan.warps && hasRoom(plan, exchanged);
  }

private:
  static constexpr int64_t freeRegisters = 200; ///< registers for tiles; addresses and fragments take the rest of 255

  int64_t own(const Plan &plan) const { return of == Keys ? plan.tileK : plan.tileQ; }
  int64_t looped(const Plan &plan) const { return of == Keys ? plan.tileQ : plan.tileK; }

  /// The number of rows of a thread block's tile. A block that owns keys has 64 keys, for two or four warps. A block
  /// that owns queries has the queries of four warps, or 64 queries where the blocks of a block pattern are small,
  /// because rows of different pattern blocks see different key tiles.
  int64_t blockRows(int64_t rowsOfWarp) const {
    return of == Keys || arch.isCpu() || hasSmallBlocks(request) ? 64 : 4 * rowsOfWarp;
  }

  Plan make(int64_t rows, int64_t rowsOfWarp, int64_t columns, int64_t stages) const {
    Plan plan;
    plan.tileQ = fixed.tileQ.value_or(int(of == Keys ? columns : rows));
    plan.tileK = fixed.tileK.value_or(int(of == Keys ? rows : columns));
    plan.warps = fixed.warps.value_or(arch.isCpu() ? 1 : int(std::max<int64_t>(1, own(plan) / rowsOfWarp)));
    plan.stages = fixed.stages.value_or(int(stages));
    plan.blocksPerSm = 1;
    return plan;
  }

  /// Registers per thread of accumulators, S and dP, and the gradients of captured tensors for the elements of S.
  int64_t registers(const Plan &plan) const {
    const int64_t d = roundUp(request.headDim, 16), accumulated = of == Keys ? d + roundUp(request.headDimV, 16) : d;
    const int64_t tile = looped(plan) / 2;
    int64_t ofRows = accumulated / 2 + 2 * tile;
    if (of == Queries && request.elementGradients)
      ofRows += tile;
    if (of == Queries && request.denseGradients)
      ofRows = std::max(ofRows, 3 * tile);
    return ceilDiv(own(plan), 16 * plan.warps) * ofRows;
  }

  /// Shared memory of the tiles and, for the loop over queries, of LSE and delta in each stage.
  int64_t sharedBytes(const Plan &plan) const {
    const int64_t vectors = of == Keys && request.rowStatistics ? 2 : 0;
    // The kernel for the gradient of a dense captured tensor (indexed by q and k) loops over batches and heads, so Q,
    // K, V and dO all need rings.
    const int64_t held = of == Queries && request.denseGradients ? plan.stages * own(plan) : own(plan);
    const int64_t loop =
        (held + plan.stages * looped(plan)) * rowBytes(request) + plan.stages * vectors * plan.tileQ * 4;
    // The kernel of row statistics uses the same plan and has tiles of O and dO.
    const int64_t rows = of == Queries ? 2 * own(plan) * roundUp(request.headDimV, 16) * request.elementBytes : 0;
    return std::max(loop, rows);
  }

  /// Whether two thread blocks fit on a multiprocessor if each has `more` additional bytes of shared memory.
  bool isShared(const Plan &plan, int64_t more = 0) const {
    return sharedBytes(plan) + more <= std::min(budget, arch.sharedBytesOfEach(2));
  }

  bool hasRoom(const Plan &plan, int64_t more = 0) const {
    return registers(plan) <= freeRegisters && isShared(plan, more);
  }

  Error nothingFits(const Plan &plan) const {
    const int64_t d = roundUp(request.headDim, 16) * request.elementBytes,
                  dv = roundUp(request.headDimV, 16) * request.elementBytes, rows = own(plan), columns = looped(plan);
    const bool keys = of == Keys;
    return Error{fmt::format(
        "the backward pass in tiles of {} x {} needs {} bytes of shared memory ({} {}, {} {}, {} stage{} of {} {} and "
        "{} {}), above the budget of {} bytes; raise the budget or reduce the head dim",
        plan.tileQ, plan.tileK, sharedBytes(plan), keys ? "K" : "Q", rows * d, keys ? "V" : "dO", rows * dv,
        plan.stages, plan.stages == 1 ? "" : "s", keys ? "Q" : "K", columns * d, keys ? "dO" : "V", columns * dv,
        budget)};
  }

  const PlanRequest &request;
  const ArchInfo &arch;
  const int64_t budget;
  const Of of;
  const PlanChoice &fixed;
};
} // namespace

/// Tile sizes of a candidate with warpgroup-level products. A warp has 16 rows of each product: 16 keys in a loop over
/// queries (dK, dV, S^T, dP^T), 16 queries in a loop over keys (dQ, S, dP).
struct WarpgroupTiles {
  int tileQ, tileK, warps, stages, blocksPerSm = 1;
  bool overlap = false;    ///< the product that gives dQ is deferred to the next tile
  bool persistent = false; ///< blocks take several tiles, and K and V of the next one are copied meanwhile (two stages)
};
/// The model chooses the first of the first `chosenTiles` elements that fits. Later elements are for tuning to measure.
constexpr WarpgroupTiles warpgroupTiles[] = {{128, 128, 8, 2, 1, true, true},
                                             {128, 128, 8, 2, 1, true},
                                             {128, 128, 8, 2},
                                             {64, 128, 8, 2},
                                             {64, 128, 8, 2, 1, true},
                                             {64, 64, 4, 2, 2},
                                             {64, 64, 4, 2},
                                             {64, 128, 8, 3},
                                             {64, 64, 4, 3},
                                             {128, 128, 8, 3}};
constexpr size_t chosenTiles = 4;

constexpr int64_t barrierBytes = 512; ///< upper bound of the bytes of mbarriers and of messages between roles

/// Bytes of a row in shared memory, rounded up to whole panels of TMA.
static int64_t boxRowBytes(int64_t columns, int64_t elementBytes) {
  return sched::boxRowBytes(roundUp(columns, 16) * elementBytes);
}
/// Bytes in whole panels of one row of K plus one row of V, or of Q plus dO.
static int64_t boxRowBytesOf(const LoopColumns &of, int64_t elementBytes) {
  return boxRowBytes(of.d, elementBytes) + boxRowBytes(of.dv, elementBytes);
}

LoopColumns attune::columnsOfQueryLoop(int64_t headDim, int64_t headDimV, int64_t granularity, int64_t splits) {
  constexpr int64_t panel = 64; // columns of 16 bits in a swizzled row of 128 bytes
  if (splits == 1)
    return {roundUp(headDim, granularity), roundUp(headDimV, granularity)};
  return {roundUp(headDim, panel * splits), roundUp(headDimV, headDimV > panel ? panel * splits : granularity)};
}

int64_t attune::columnSplitsOf(int64_t tileQ, int64_t warps) { return std::max<int64_t>(1, 16 * warps / tileQ); }

static LoopColumns columnsOf(const PlanRequest &request, const Plan &plan) {
  return columnsOfQueryLoop(request.headDim, request.headDimV, 16, columnSplitsOf(plan.tileQ, plan.warps));
}

/// Additional bytes for vectors of a mask, in plans that have both dense biases (`tile.window`) and relative-position
/// values in shared memory.
constexpr int64_t windowSlackBytes = 1024;

/// Bytes of shared memory for `stages` stages of each dense bias: a stage holds the elements that a tile of S reads.
static int64_t windowBytes(const PlanRequest &request, const Plan &plan, int64_t stages) {
  return plan.stageBiases ? stages * plan.tileQ * biasRowBytes(request, plan) : 0;
}

/// Bytes of the 4-byte vectors of one ring stage: LSE, delta, captured vectors over rows, vectors over keys that the
/// mask reads (each counted with tileQ elements as well), and relative-position values.
static int64_t vectorBytes(const PlanRequest &request, const Plan &plan) {
  const int64_t vectors = 2 + request.rowVectors + request.stagedColumns; // LSE and delta
  return 4 * (vectors * plan.tileQ + request.relativeValues * (plan.tileQ + plan.tileK));
}

/// Bytes of the panels in which TMA copies or stores rows of `columns` elements.
static int64_t panelOf(int64_t columns, int64_t elementBytes) {
  return sched::panelForBoxes(roundUp(columns, 16) * elementBytes);
}

static int64_t warpgroupSharedBytes(const PlanRequest &request, const Plan &plan) {
  const LoopColumns of = columnsOf(request, plan);
  const int64_t e = request.elementBytes;
  const int64_t rowBytes = boxRowBytesOf(of, e);
  // If their panels are equal, dK is stored through the bytes of V, and dV through those of dQ where shared memory has no
  // room for dV alone (tile-to-sched). In persistent blocks both have bytes of their own, as K and V of the next tile
  // arrive meanwhile, and dQ, which is added from registers, has none.
  const bool isSame = of.d == of.dv;
  const bool dkOverV = !plan.persistent && isSame && panelOf(of.dv, e) == panelOf(of.d, e),
             dvOverDq = !plan.persistent && isSame && panelOf(of.d, 4) == panelOf(of.dv, e);
  const int64_t storedRow = (dkOverV ? 0 : boxRowBytes(of.d, e)) + (dvOverDq ? 0 : boxRowBytes(of.dv, e));
  const int64_t exchanged = 2 * plan.tileK * boxRowBytes(plan.tileQ, e),
                added = plan.persistent ? 0 : plan.tileQ * boxRowBytes(of.d, 4);
  return plan.tileK * (plan.queryStages * rowBytes + storedRow) + plan.stages * plan.tileQ * rowBytes + exchanged +
         added + windowBytes(request, plan, /*stages=*/1) +
         (plan.stageBiases && request.relativeValues ? windowSlackBytes : 0) +
         plan.stages * vectorBytes(request, plan) + barrierBytes;
}

/// Registers of a consumer thread for tiles: 240 minus those for addresses, row vectors and exponentials.
constexpr int64_t mostWarpgroupRegisters = 200;

/// The plan with `tiles`, or nothing if `fixed` fixes a field to another value.
static std::optional<Plan> makeWarpgroupPlan(const WarpgroupTiles &tiles, const PlanChoice &fixed) {
  auto allows = [](const std::optional<int> &fixed, int value) { return !fixed || *fixed == value; };
  if (!allows(fixed.tileQ, tiles.tileQ) || !allows(fixed.tileK, tiles.tileK) || !allows(fixed.warps, tiles.warps) ||
      !allows(fixed.stages, tiles.stages))
    return std::nullopt;
  Plan plan;
  plan.tileQ = tiles.tileQ;
  plan.tileK = tiles.tileK;
  plan.warps = tiles.warps;
  plan.stages = tiles.stages;
  plan.blocksPerSm = tiles.blocksPerSm;
  plan.overlap = tiles.overlap;
  plan.persistent = tiles.persistent;
  plan.queryStages = tiles.persistent ? 2 : 1;
  plan.producerWarps = 4;
  return plan;
}

/// The most bytes of shared memory, up to `budget`, that a thread block may use so that the plan's blocksPerSm blocks
/// fit on a multiprocessor.
static int64_t mostSharedBytes(const ArchInfo &arch, const Plan &plan, int64_t budget) {
  return std::min(budget, arch.sharedBytesOfEach(plan.blocksPerSm));
}

/// The plans with the tile sizes in `candidates` for which `fits` holds, in the order of `candidates`. For each tile
/// size, a plan that copies dense biases to shared memory comes first. `fits` may set further fields of the plan.
static std::vector<Plan> plansThatFit(const PlanRequest &request, const PlanChoice &fixed,
                                      std::span<const WarpgroupTiles> candidates,
                                      const std::function<bool(Plan &)> &fits) {
  std::vector<Plan> plans;
  for (const WarpgroupTiles &tiles : candidates)
    if (std::optional<Plan> plan = makeWarpgroupPlan(tiles, fixed))
      for (bool stageBiases : {true, false}) {
        plan->stageBiases = stageBiases;
        if ((!stageBiases || request.biases) && fits(*plan))
          plans.push_back(*plan);
      }
  return plans;
}

/// The plans of a loop with all five products at warpgroup level, the model's choice first. Empty if none of the first
/// `chosenTiles` of warpgroupTiles fits, or if the request excludes such plans.
static std::vector<Plan> warpgroupPlans(const PlanRequest &request, const ArchInfo &arch, int64_t budget) {
  // The loop multiplies dS with one tile of K for all query heads of a group, so these heads must have the same key
  // length.
  if (!arch.hasProducers() || request.deterministic || request.sumsByHead || request.endsByHead ||
      request.elementBytes != 2)
    return {};
  // TMA stores the gradient of a dense tensor from the dS that warpgroups exchange, which the product for dQ must then
  // read in the same iteration. The score's own arithmetic and dropout need registers, of which dQ leaves none.
  const bool canOverlap =
      !request.denseGradients && !request.dropout && request.aluPerElement == 0 && request.specialPerElement == 0;
  auto fits = [&](const Plan &plan) {
    const LoopColumns of = columnsOf(request, plan);
    const int64_t registers = ((of.d + of.dv) / 2 + plan.tileQ) * plan.tileK / (16 * plan.warps);
    // A value that the mask loads for a head takes a register that persistent blocks do not have, and so do elements that
    // it loads for each q and k.
    const bool canPersist = request.uniformValues == 0 && request.elementLoads == 0;
    return (canOverlap || !plan.overlap) && (canPersist || !plan.persistent) && registers <= mostWarpgroupRegisters &&
           warpgroupSharedBytes(request, plan) <= mostSharedBytes(arch, plan, budget);
  };
  const std::span<const WarpgroupTiles> all(warpgroupTiles);
  if (plansThatFit(request, request.fixed, all.first(chosenTiles), fits).empty())
    return {};
  return plansThatFit(request, request.fixed, all, fits);
}

namespace {
/// The gradients that a loop with warpgroup-level products accumulates in registers, in plans that do not add dQ to
/// memory. The rows of the loop's products are keys, or queries for `Dq`.
enum class Sums { DkDv, Dk, Dv, Dq };
} // namespace

/// Tiles of loops over queries (warpgroupKeyTiles) and over keys (warpgroupQueryTiles), of which the model chooses the
/// first that fits. otherKeyTiles are for tuning to measure. A product that is deferred to the next iteration keeps its
/// ring stage in use for two iterations, so that of two stages TMA has none to fill meanwhile. Tiles of 64 rows with
/// three stages therefore stand before larger tiles with two; dK and dV of 128 x 128 fit only where D is small, and are
/// as fast with two.
constexpr WarpgroupTiles
    warpgroupKeyTiles[] = {{128, 128, 8, 2}, {64, 128, 8, 3}, {96, 128, 8, 2}, {64, 128, 8, 2}, {64, 64, 4, 2}},
    otherKeyTiles[] = {{32, 128, 8, 2}},
    warpgroupQueryTiles[] = {{128, 64, 8, 3}, {128, 128, 8, 2}, {128, 64, 8, 2}, {64, 64, 4, 2}, {128, 96, 8, 2}};

/// Registers per thread of the accumulated gradients `sums`, of S and of dP, for 16 rows a warp.
static int64_t sumRegisters(const PlanRequest &request, const Plan &plan, Sums sums) {
  const int64_t d = roundUp(request.headDim, 16) / 2, dv = roundUp(request.headDimV, 16) / 2,
                tile = (sums == Sums::Dq ? plan.tileK : plan.tileQ) / 2;
  return (sums == Sums::Dv ? tile : d + 2 * tile) + (sums == Sums::DkDv || sums == Sums::Dv ? dv : 0);
}

static int64_t sumSharedBytes(const PlanRequest &request, const Plan &plan, Sums sums) {
  const LoopColumns of{request.headDim, request.headDimV};
  const int64_t e = request.elementBytes, dpStages = plan.dpStages ? plan.dpStages : plan.stages;
  int64_t tiles;
  if (sums == Sums::Dq) {
    tiles = plan.tileQ * boxRowBytesOf(of, e) +
            plan.tileK * (plan.stages * boxRowBytes(of.d, e) + dpStages * boxRowBytes(of.dv, e));
  } else {
    tiles = plan.tileK * (boxRowBytes(of.d, e) + (sums == Sums::Dv ? 0 : boxRowBytes(of.dv, e))) +
            plan.tileQ * (plan.stages * boxRowBytes(of.d, e) +
                          (sums == Sums::Dk ? dpStages : plan.stages) * boxRowBytes(of.dv, e));
    // dK is stored through the bytes of K, and dV through the bytes of V (of K if the loop has no V), where the panels
    // are equal and the bytes suffice.
    auto storedApart = [&](int64_t columns, int64_t ofHeld) {
      const bool isOver = roundUp(columns, 16) <= roundUp(ofHeld, 16) && panelOf(columns, e) == panelOf(ofHeld, e);
      return isOver ? 0 : plan.tileK * boxRowBytes(columns, e);
    };
    if (sums != Sums::Dv)
      tiles += storedApart(of.d, of.d);
    if (sums != Sums::Dk)
      tiles += storedApart(of.dv, sums == Sums::Dv ? of.d : of.dv);
  }
  // A loop over keys reads LSE, delta and other vectors over rows once, to registers, so they take no shared memory.
  const int64_t vectors =
      sums == Sums::Dq ? 4 * (request.stagedColumns * plan.tileK + request.relativeValues * (plan.tileQ + plan.tileK))
                       : vectorBytes(request, plan);
  return tiles + windowBytes(request, plan, plan.stages) + plan.stages * vectors + barrierBytes;
}

/// The plans that fit for every loop in `each`, with warpgroup-level products and without additions of dQ to memory;
/// the model's choice comes first.
static std::vector<Plan> warpgroupSumPlans(const PlanRequest &request, const ArchInfo &arch, const PlanChoice &fixed,
                                           int64_t budget, std::span<const WarpgroupTiles> candidates,
                                           std::initializer_list<Sums> each) {
  const bool overKeys = *each.begin() == Sums::Dq;
  // Sums per key of captured tensors (sumsByHead) take a loop over heads around the loop over tiles, which producer
  // warps do not support. A loop over keys that computes gradients of captured tensors has no registers left for dQ. A
  // tile of 128 queries may span blocks of a pattern that see different keys. The producer sends its messages with the
  // first tile that a loop copies; without S (skipsProduct) that is another tile, which producer warps do not support.
  if (!usesAsyncProducts(request) || request.sumsByHead || request.skipsProduct ||
      (overKeys && (request.elementGradients || request.denseGradients || hasSmallBlocks(request))))
    return {};
  auto fits = [&](const Plan &plan) {
    return std::ranges::all_of(each, [&](Sums sums) {
      return sumRegisters(request, plan, sums) <= mostWarpgroupRegisters &&
             sumSharedBytes(request, plan, sums) <= mostSharedBytes(arch, plan, budget);
    });
  };
  return plansThatFit(request, fixed, candidates, [&](Plan &plan) {
    plan.dpStages = 0;
    if (fits(plan))
      return true;
    plan.dpStages = plan.stages - 1; // dP frees its tile early in an iteration: one stage less costs little
    return fits(plan);
  });
}

/// Candidate tiles, tried in this order, for the loops over keys that compute gradients of captured tensors. Such loops
/// are used in addition to the loop over queries. A warp has 16 rows of S, of dP and of a tile of the gradient. The
/// loop that sums the gradient's tile over the batches is short and limited by reads from L2. The largest tile that
/// fits in registers is fastest, or tiles of which two thread blocks fit on a multiprocessor and overlap their
/// prologues and epilogues.
constexpr WarpgroupTiles warpgroupElementTiles[] = {
    {128, 128, 8, 2}, {128, 112, 8, 2}, {64, 64, 4, 2, 2}, {128, 64, 8, 2}};

/// Registers per thread of a loop over keys that computes gradients of captured tensors. Three tiles are live: S, dP,
/// and a third with the gradient's sums or with addresses of atomic additions. A kernel for the gradient of a dense
/// tensor (indexed by q and k) also holds a tile of each captured tensor that the score reads: biases in their own type
/// unless they are read from shared memory, other tensors as float32. One more tile is live if the score's gradient
/// reads S.
static double elementRegisters(const PlanRequest &request, const Plan &plan) {
  const int others = std::max(request.elementLoads - request.biases, request.biases ? 0 : 1);
  const double tile = plan.tileK / 2.0,
               ofTensors = (plan.stageBiases ? 0 : request.biases * request.biasBytes / 4.0) + others,
               ofScore = request.gradientReadsScore;
  if (!request.denseGradients)
    return 3 * tile;
  return (3 + ofTensors + ofScore) * tile + request.relativeValues * (plan.tileK / 4 + 2);
}

/// Shared memory of the loops over keys that compute gradients of captured tensors: tiles, vectors, and in each stage
/// the elements of dense biases that a tile of S reads (`tile.window`).
static int64_t elementSharedBytes(const PlanRequest &request, const Plan &plan) {
  const LoopColumns of{request.headDim, request.headDimV};
  const int64_t e = request.elementBytes, held = (request.denseGradients ? plan.stages : 1) * plan.tileQ;
  return held * boxRowBytesOf(of, e) + plan.stages * plan.tileK * boxRowBytesOf(of, e) +
         windowBytes(request, plan, plan.stages) + plan.stages * vectorBytes(request, plan) + barrierBytes;
}

static std::vector<Plan> warpgroupElementPlans(const PlanRequest &request, const ArchInfo &arch,
                                               const PlanChoice &fixed, int64_t budget) {
  std::vector<Plan> plans;
  // Scattered additions to memory need more threads in flight than two warpgroups have.
  if (hasSmallBlocks(request) || request.scatteredGradients || (!request.denseGradients && !request.elementGradients))
    return plans;
  // Producer warps serve a single loop, and send the results of a search for visible tiles with a copy before the loop.
  // A kernel for the gradient of a dense tensor has no copy before its loop, because each iteration (one batch and
  // head) copies another Q. Producer warps thus cannot serve such a kernel if the kernel needs several loops or a
  // search.
  if (request.denseGradients && !request.denseInOneLoop)
    return plans;
  // Prefer biases copied by TMA: each tile of the tensor reads other elements of the bias, and asynchronous copies hide
  // the latency of these reads.
  for (bool stageBiases : {true, false})
    for (const WarpgroupTiles &tiles : warpgroupElementTiles) {
      std::optional<Plan> plan = makeWarpgroupPlan(tiles, fixed);
      if (!plan)
        continue;
      // A persistent block loads the next tile of a dense bias during its epilogue. This prefetch pays off only where
      // no second block runs on the multiprocessor.
      plan->persistent = request.denseGradients && plan->blocksPerSm == 1;
      plan->longestFirst = plan->persistent && fixed.longestFirst.value_or(lastRowsSeeMost(request.mask));
      plan->stageBiases = stageBiases;
      if (stageBiases && !(plan->persistent && request.biases))
        continue;
      if (elementRegisters(request, *plan) <= mostWarpgroupRegisters &&
          elementSharedBytes(request, *plan) <= mostSharedBytes(arch, *plan, budget))
        plans.push_back(*plan);
    }
  return plans;
}

/// Reports fixed fields that the backward kernels do not have, or values out of range.
static Expected<void> checkFixed(const PlanChoice &fixed, const ArchInfo &arch, bool ofKeys) {
  Expected<void> good;
  visitSchedule(
      [&](std::string_view name, auto, const auto &value) {
        const bool ofForm = name == "persistent" || name == "queryStages" || name == "overlap";
        const bool chosen = name == "tileQ" || name == "tileK" || name == "warps" || name == "stages" ||
                            name == "longestFirst" || (ofKeys && ofForm);
        if (good && value && !chosen &&
            int(*value) != (name == "dvWarps" || name == "blocksPerSm" || name == "queryStages"))
          good =
              Error{fmt::format("{} {} is no choice of the backward pass; leave it out", spelled(name, '-'), *value)};
      },
      fixed);
  if (!good)
    return good;
  for (auto [name, tile] : {std::pair("tile-q", fixed.tileQ), std::pair("tile-k", fixed.tileK)})
    if (tile && (*tile <= 0 || *tile % 16))
      return Error{fmt::format("{} {} is not a positive multiple of 16", name, *tile)};
  if (fixed.warps && (*fixed.warps < 1 || *fixed.warps > (arch.isCpu() ? 1 : 16)))
    return Error{fmt::format("warps {} is not between 1 and {}", *fixed.warps, arch.isCpu() ? 1 : 16)};
  if (fixed.stages && (*fixed.stages < 1 || *fixed.stages > (arch.isCpu() ? 1 : 8)))
    return Error{fmt::format("stages {} is not between 1 and {}", *fixed.stages, arch.isCpu() ? 1 : 8)};
  return {};
}

/// Whether the loop over queries may add dQ to memory. The order of additions must not be fixed. Gradients of captured
/// tensors need the second loop anyway, so that adding dQ in the first loop would save nothing.
static bool mayAddQueries(const PlanRequest &request, const ArchInfo &arch) {
  return arch.vectorReductions && request.elementBytes == 2 && !request.deterministic && !request.elementGradients &&
         !request.denseGradients;
}

/// Whether recomputing each element in a second loop takes longer than adding dQ to memory: with random numbers of
/// dropout, or special functions of the score.
static bool isDear(const PlanRequest &request) { return request.dropout || request.specialPerElement >= 1; }

std::string BackwardPlans::text() const {
  if ((keys.producerWarps && accumulatesDq) || (keys == queries && !keys.producerWarps))
    return keys.text();
  return accumulatesDq
             ? fmt::format("{}; by rows {}", keys.text(), queries.text())
             : fmt::format("{} {}; dQ {}", separateDv ? "dK and dV apart" : "dK, dV", keys.text(), queries.text());
}

/// Whether the loop over queries has what `fixed` says of persistent blocks, of the stages of K and V, and of the overlap.
static bool hasForm(const Plan &keys, const PlanChoice &fixed) {
  return fixed.persistent.value_or(keys.persistent) == keys.persistent &&
         fixed.queryStages.value_or(keys.queryStages) == keys.queryStages &&
         fixed.overlap.value_or(keys.overlap) == keys.overlap;
}

Expected<std::vector<BackwardPlans>> attune::backwardPlans(const PlanRequest &request,
                                                           const std::optional<PlanChoice> &ofQueries) {
  Expected<const ArchInfo *> found = archInfo(request.arch);
  if (!found)
    return found.error();
  const ArchInfo &arch = **found;
  if (Expected<void> good = checkFixed(request.fixed, arch, /*ofKeys=*/true); !good)
    return good.error();
  if (Expected<void> good = checkFixed(ofQueries.value_or(PlanChoice()), arch, /*ofKeys=*/false); !good)
    return good.error();
  const int64_t limit = int64_t(arch.sharedBytesPerBlock), budget = request.sramBudget ? request.sramBudget : limit;
  if (budget < 0 || budget > limit)
    return Error{
        fmt::format("sram budget {} is not between 0 and {}, the limit per block of {}", budget, limit, arch.name)};
  const PlanChoice &fixedOfQueries = ofQueries ? *ofQueries : request.fixed;
  const Loop overQueries(request, arch, budget, Loop::Keys, request.fixed);
  const Expected<std::vector<Plan>> warps = overQueries.candidates(),
                                    queries = Loop(request, arch, budget, Loop::Queries, fixedOfQueries).candidates();
  const std::vector<Plan> elements = warpgroupElementPlans(request, arch, fixedOfQueries, budget),
                          warpgroupQueries =
                              warpgroupSumPlans(request, arch, fixedOfQueries, budget, warpgroupQueryTiles, {Sums::Dq});
  // Each pair of plans with its sort key: the sum of the two plans' places among the candidates of their loops, then
  // the place of the plan `keys`.
  std::vector<std::pair<std::pair<size_t, size_t>, BackwardPlans>> ordered;
  size_t place = 0;
  // Blocks start with the tiles that take longest. The kernel for the gradient of a dense tensor, whose grid has tiles
  // of queries and keys, does so only if the kernel's blocks are persistent.
  const bool firstKeys = request.fixed.longestFirst.value_or(firstKeysAreSeenMost(request.mask)),
             lastRows = fixedOfQueries.longestFirst.value_or(lastRowsSeeMost(request.mask));
  auto add = [&](Plan keys, bool accumulatesDq, bool separateDv = false) {
    keys.longestFirst = firstKeys;
    // Without a loop over keys, the plan `queries` serves only kernels over rows that have no loop (row statistics).
    const bool loopsOverKeys = !accumulatesDq || request.elementGradients || request.denseGradients;
    std::vector<Plan> others;
    if (keys.producerWarps)
      others = accumulatesDq ? elements : warpgroupQueries;
    if (queries)
      others.insert(others.end(), queries->begin(), queries->end());
    for (size_t i = 0; i < (loopsOverKeys ? others.size() : std::min<size_t>(1, others.size())); ++i) {
      if (loopsOverKeys && !others[i].persistent)
        others[i].longestFirst = lastRows;
      ordered.push_back({{place + i, place}, {keys, others[i], accumulatesDq, separateDv}});
    }
    ++place;
  };
  for (const Plan &keys : warpgroupPlans(request, arch, budget))
    add(keys, /*accumulatesDq=*/true);
  for (std::span<const WarpgroupTiles> tiles : {std::span<const WarpgroupTiles>(warpgroupKeyTiles), {otherKeyTiles}}) {
    for (const Plan &keys : warpgroupSumPlans(request, arch, request.fixed, budget, tiles, {Sums::DkDv}))
      add(keys, /*accumulatesDq=*/false);
    for (const Plan &keys : warpgroupSumPlans(request, arch, request.fixed, budget, tiles, {Sums::Dv, Sums::Dk}))
      add(keys, /*accumulatesDq=*/false, /*separateDv=*/true);
  }
  for (const Plan &keys : warps ? *warps : std::vector<Plan>()) {
    const bool mayAdd = mayAddQueries(request, arch) && overQueries.hasRoomForQueries(keys);
    add(keys, mayAdd && isDear(request));
    if (mayAdd)
      add(keys, !isDear(request));
  }
  if (ordered.empty())
    return warps ? queries.error() : warps.error();
  std::erase_if(ordered, [&](const auto &each) { return !hasForm(each.second.keys, request.fixed); });
  if (ordered.empty())
    return Error{"no plan of the loop over queries has these choices of persistent, query-stages and overlap together; "
                 "leave one out"};
  std::ranges::sort(ordered, {}, [](const auto &each) { return each.first; });
  std::vector<BackwardPlans> plans;
  for (const auto &[at, each] : ordered)
    plans.push_back(each);
  return plans;
}

Expected<BackwardPlans> attune::chooseBackwardPlans(const PlanRequest &request,
                                                    const std::optional<PlanChoice> &ofQueries) {
  Expected<std::vector<BackwardPlans>> plans = backwardPlans(request, ofQueries);
  return plans ? Expected<BackwardPlans>(plans->front()) : plans.error();
}
