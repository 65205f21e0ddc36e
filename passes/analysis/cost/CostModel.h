//===- CostModel.h - Which tiles fit, and which of them are quickest --------===//
//
// Plain C++ without MLIR. A request says what a variant needs on which architecture; the model walks every
// candidate plan, drops those over a hard limit, and ranks the rest by predicted time.
//
//     PlanRequest request;                    // sm_90, bf16, head dim 128, 16384 tokens, hidden 2048
//     request.mask = MaskShape::causal();
//     Expected<std::vector<RankedPlan>> plans = rankPlans(request);
//     if (!plans)
//       return plans.error();                 // the smallest tile does not fit: lists each buffer
//     plans->front().plan                     // 128 x 64, 4 warps, ...
//     plans->front().cost.trafficBytes        // exact for this tiling
//
// The kernel that a plan describes (forward): one block of `warps` warps owns tileQ rows of one head. Each warp
// owns Mw = tileQ / (16 * warps), 1 or 2, tiles of 16 rows, with all keys of a tile and all Dv columns. Above head
// dim 256, where registers or shared memory no longer hold as much, G = dvWarps warps may share the same rows: then
// Mw = tileQ / (16 * warps / G), each warp computes S for all keys, and accumulates Dv / G columns of O (below, Dv is
// padded to 16 G). The block reads K and V from global memory once in any case.
//
//   shared bytes (e = bytes of an element, pad16 rounds up to 16)
//     Q  tileQ * pad16(D) * e               O is staged over Q; "O beyond Q" is what Dv > D adds
//     K  stages * tileK * pad16(D) * e
//     V  stages * tileK * pad16(Dv) * e
// With producer warps (sm_90a) a warpgroup owns 64 rows, and P has registers of its own beside S. Blocks are persistent
// where O fits beside Q, with tileQ * pad16(Dv) * e of its own, and Q has two stages where these fit too.
//
// With stageBiases each dense bias has stages * tileQ * tileK elements beside them. Values by distance, which a copy
// warp computes for a tile of tileQ + tileK - 1 distances, have rings of 4 * stages bytes a distance, 8 in plans with
// turns; what it loads by key for the mask has 4 * stages bytes a key.
//
//   registers per thread (an upper bound of what the kernel needs, not what ptxas takes when it has more)
//     S Mw*tileK/2 + O Mw*pad16(Dv)/2/G + Q fragments Mw*pad16(D)/4 when qRegisters (twice that for f32)
//     + m and l 4 Mw + fragments + addresses and bounds + dropout
//     + loads of score and mask: 2 Mw for each vector over rows, tileK/4 for each over columns, more for each over both
//     P overlaps S: fragments are packed as exp2 is taken.
//
// Traffic, exact: bytes that cross between L2 and shared memory. With the tiles of rows i = 0 .. ceil(Sq/tileQ)-1
// and R(i) the rows of K in the tiles that i visits (tiles with a visible key, the last one cut at Sk),
//
//     read       B*H * ( Sq*D*e + sum_i R(i) * (D + Dv) * e )      Q; K and V
//                B*H * visited tiles * tileQ * tileK * e           of each dense bias
//     written    B*H * ( Sq*Dv*e + 4*Sq )                          O; LSE
//
// Between HBM and L2, each of Q, K, V and the biases is read once, K and V again for each wave of blocks where those of
// the running heads do not fit L2; what is written leaves L2 when its lines are needed, or after the kernel.
//
// FlashAttention's Theorem 2, O(N^2 d^2 / M), is the last term: M bounds tileQ * d, so that the sum has N * d / M
// times N rows. Standard attention (the paper's Algorithm 0) writes S, reads it, writes P and reads it:
//
//     B*H * 4*Sq*Sk*e + B*H * Sq*(D + Dv)*e + B*Hkv * Sk*(D + Dv)*e
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/Schedule.h"
#include "attune/TileMap.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune {

/// Part of the cache key of every kernel whose schedule is "auto". Raise it whenever a ranking can change.
inline constexpr int costModelVersion = 24;

/// Up to this head dim a kernel keeps everything in registers. Beyond it only tiles of few rows of mma.sync could,
/// which lose more.
constexpr int spillFreeHeadDim(bool warpgroups) { return warpgroups ? 256 : 128; }

/// The fields of #attn.plan.
struct Plan {
  int tileQ = 0;
  int tileK = 0;
  int warps = 0;
  int stages = 0;          ///< 1: one K and one V buffer, two barriers a tile; >= 2: rings, one barrier a tile
  bool qRegisters = false; ///< fragments of Q stay in registers
  int blocksPerSm = 0;     ///< the register budget is 65536 / (blocksPerSm * threads)
  bool longestFirst = false;
  int dvWarps = 1;          ///< warps that share the same rows and split the columns of V and O
  int producerWarps = 0;    ///< more warps, which copy for the others; products are warpgroup-level then
  bool persistent = false;  ///< blocks take one query tile after another; O has a place of its own
  int queryStages = 1;      ///< stages of Q's ring in persistent blocks
  bool pingPong = false;   ///< warpgroups ping-pong: one runs its products while another runs its softmax
  bool overlap = false;     ///< the product with V of a tile runs beside the softmax of the next
  bool stageBiases = false; ///< producer warps bring dense biases to shared memory; else lanes load their elements
  bool packGqa = false;     ///< rows are those of all query heads of a key head
  bool splitKeys = false;   ///< blocks share the keys of a tile of rows; a second kernel combines their parts

  int threads() const { return (warps + producerWarps) * 32; }
  /// Warps that split the rows.
  int rowWarps() const { return warps / dvWarps; }
  /// Tiles of 16 rows that each warp owns.
  int rowTilesPerWarp() const { return tileQ / (16 * rowWarps()); }
  /// "128 x 64, 4 warps, 1 stage, q in shared memory, 2 blocks per SM"; "8 warps (2 split dv)" where dvWarps is 2. A
  /// plan that does not fit has no blocks.
  std::string text() const;
  friend bool operator==(const Plan &, const Plan &) = default;
};

/// Registers of a thread that copies, and of one that computes, beside each other in a block: setmaxnreg shares out
/// what the block has at its launch, and waits for ever for more. Producer warps that search the tiles to visit, or rows in pages and their end, take more,
/// most where the `tiles` of the others, registers of S, P and O, leave it; so do those that compute `values` by
/// distance for the others.
struct RoleRegisters {
  int producer, consumer;
};
RoleRegisters roleRegisters(int consumerWarps, int producerWarps, bool searches, int values, int tiles,
                            int blocksPerSm = 1);
/// Registers of S, P beside it, and O, without those of the exponentials that `turns` with `overlap` keep beside P.
int warpgroupTileRegisters(int64_t tileK, int64_t headDimV);

/// The plan fields that a user fixed (attune/Schedule.h); the rest is chosen.
struct PlanChoice {
  std::optional<int> tileQ = {}, tileK = {}, warps = {}, stages = {};
  std::optional<bool> qRegisters = {};
  std::optional<int> dvWarps = {}, blocksPerSm = {};
  std::optional<bool> longestFirst = {}, persistent = {};
  std::optional<int> queryStages = {};
  std::optional<bool> pingPong = {}, overlap = {}, stageBiases = {}, packGqa = {}, splitKeys = {};

  /// What `other` fixes stands in the place of what was fixed.
  template <typename Structure> void overrule(const Structure &other) {
    visitSchedule(
        [](auto, auto, auto &to, const auto &from) {
          if (from)
            to = from;
        },
        *this, other);
  }
  /// Whether a field is fixed.
  bool any() const {
    bool any = false;
    visitSchedule([&](auto, auto, const auto &field) { any |= field.has_value(); }, *this);
    return any;
  }
};

/// The fields of a Plan, or what CompileOptions fix.
template <typename Structure> PlanChoice choiceOf(const Structure &structure) {
  PlanChoice choice;
  assignSchedule(choice, structure);
  return choice;
}

/// The keys that the queries of a mask see, as the analysis finds them that a kernel's loops come from
/// (MaskAnalysis.h), for one pair of lengths.
struct MaskRows {
  /// Keys in [begin, end), of which all of the queries see [fullBegin, fullEnd).
  struct Keys {
    int64_t begin, fullBegin, fullEnd, end;
  };
  int64_t queries = 0, keys = 0; ///< the lengths
  int64_t rowsEach = 16;         ///< queries of each element of `rows`
  /// Some of these queries see something in each, and nothing elsewhere; ascending and apart.
  std::vector<std::vector<Keys>> rows = {};
};

/// What is visible, as far as the count of tiles is concerned.
struct MaskShape {
  enum class Kind : uint8_t {
    Full,     ///< every key
    Band,     ///< -left <= k - q <= right, or k < prefix
    Rows,     ///< an interval for each few queries
    Fraction, ///< unknown; `fraction` of the blocks of `grain` x `grain` hold something visible, each tile is partial
  };
  static constexpr int64_t unlimited = int64_t(1) << 40;

  Kind kind = Kind::Full;
  int64_t left = unlimited;
  int64_t right = unlimited;
  int64_t prefix = 0;
  double fraction = 1.0;
  int64_t grain = 1;                                      ///< of Kind::Fraction
  bool byTile = false;                                    ///< of Kind::Rows: tiles are asked one by one
  std::shared_ptr<const std::vector<MaskRows>> rows = {}; ///< of Kind::Rows: for the lengths that plans are ranked for

  static MaskShape full() { return {}; }
  static MaskShape causal() { return band(unlimited, 0); }
  static MaskShape band(int64_t left, int64_t right, int64_t prefix = 0) {
    return {.kind = Kind::Band, .left = left, .right = right, .prefix = prefix};
  }
  static MaskShape partly(double fraction, int64_t grain = 1) {
    return {.kind = Kind::Fraction, .fraction = fraction, .grain = grain};
  }
  static MaskShape byRows(std::vector<MaskRows> rows, bool byTile) {
    return {
        .kind = Kind::Rows, .byTile = byTile, .rows = std::make_shared<const std::vector<MaskRows>>(std::move(rows))};
  }
};

/// What to plan for. Sizes only rank; a plan is correct for every size.
struct PlanRequest {
  std::string arch = "sm_90";
  int elementBytes = 2; ///< 2 for f16 and bf16, 4 for f32
  int headDim = 128;
  int headDimV = 128;
  int64_t sramBudget = 0; ///< bytes of shared memory per block; 0 is the device's opt-in limit
  bool dropout = false;
  bool deterministic = false;      ///< gradients are the same bits in each launch
  bool elementGradients = false;   ///< loops give captured tensors something for each element of S
  bool scatteredGradients = false; ///< some of these are added to memory element by element, not by diagonal
  bool denseGradients = false;     ///< tiles of some have a kernel of their own
  bool denseInOneLoop = true;      ///< of that kernel: batches and heads are iterations of one loop, without a search
  bool gradientReadsScore = false; ///< that of the score is computed from Q K, which is kept until then
  bool sumsByHead = false;         ///< heads of a group sum by key what is theirs alone
  std::string packFault = {};      ///< why the query heads of a key head cannot share a tile's rows, or ""
  bool precise = false;            ///< exp2 and the score's functions to float32 accuracy
  double specialPerElement = 0;    ///< special-function results of the score, besides the normaliser's
  double normaliserSpecial = 1;    ///< those of the normaliser for each element of S: softmax's exp2
  double aluPerElement = 0;        ///< other instructions of the score region for each element of S
  bool rowStatistics = true;       ///< P of a tile waits for what the normaliser keeps of its rows, as a maximum
  int uniformValues = 0;           ///< values of score and mask that the whole block shares: run-time scalars, loads
  int rowVectors = 0;              ///< vectors over rows that the loop keeps: loads indexed by q
  int columnVectors = 0;           ///< vectors over the keys of a tile: loads indexed by k
  int stagedColumns = 0; ///< of the mask's, those of four bytes that a producer warp loads: not among columnVectors
  int elementLoads = 0;  ///< loads indexed by q and k
  int biases = 0;        ///< of elementLoads, those of floats at [.., q, k], which plans with stageBiases copy
  int biasBytes = 0;     ///< of an element of each
  int relativeValues =
      0; ///< values by q - k that the producer warps compute for the others: not among the counts above
  bool maskLoadsByKey = false;  ///< the mask decides tile by tile
  double maskAluPerElement = 2; ///< instructions of the mask for each element of a partial tile
  MaskShape mask;
  /// What mask and block pattern leave by the values of captured tensors, where these are known: tiles are counted by it.
  std::shared_ptr<const TileMap> tiles = {};
  bool keyLengths = false;    ///< sequences have lengths of their own: rows of a tile of keys may end within it
  bool queryLengths = false;  ///< the same of queries, of gradients: dK and dV are sums over their rows
  bool endsByHead = false;    ///< the heads of a group end their keys apart: what one may read is no row of another
  int64_t pageSize = 0;       ///< keys of a page, 0 where rows lie in one piece
  int64_t patternRows = 0;    ///< block pattern: queries of a block, 0 without a pattern
  int64_t patternColumns = 0; ///< and keys
  int64_t batch = 4, heads = 16, headsKv = 16, queries = 4096, keys = 4096;
  bool theseSizes = false; ///< rank for these sizes alone, not for shorter and longer sequences of as many tokens, too
  PlanChoice fixed;

  /// Query heads for each key head.
  int64_t group() const { return headsKv > 0 ? std::max<int64_t>(1, heads / headsKv) : 1; }
  /// Heads of a batch whose rows a plan's tiles hold, and queries of a tile.
  int64_t rowHeads(const Plan &plan) const { return plan.packGqa ? headsKv : heads; }
  int64_t tileQueries(const Plan &plan) const {
    return plan.packGqa ? std::max<int64_t>(1, plan.tileQ / group()) : plan.tileQ;
  }
  /// Tiles of rows of such a head.
  int64_t rowTiles(const Plan &plan) const {
    const int64_t rows = queries * (plan.packGqa ? group() : 1);
    return (rows + plan.tileQ - 1) / plan.tileQ;
  }
  /// Special-function results for each element of S, the normaliser's included.
  double specialResults() const { return normaliserSpecial + specialPerElement; }
  /// Columns of V and O as tiles hold them: 16, the matrix instruction's, for each of the warps that split them.
  int64_t paddedHeadDimV(const Plan &plan) const;
  /// Whether a warp of the producer looks in tables for the tiles to visit.
  bool searches() const { return patternRows > 0 || maskLoadsByKey; }
  /// Whether one finds rows in pages, or where they end.
  bool findsRows() const { return keyLengths || pageSize > 0; }

  /// 16384 tokens of hidden size 2048 in sequences of `length`, as in the FlashAttention papers.
  void setReferenceSizes(int64_t length = 4096);
};

/// The lengths of queries and keys that plans for every size are ranked for: an eighth to four times the request's, each
/// twice the one before.
std::vector<std::pair<int64_t, int64_t>> rankedLengths(const PlanRequest &request);

/// Whether its plans have producer warps and warpgroup-level products: 16-bit inputs and head dims of one instruction, on
/// an architecture that has them.
bool usesWarpgroups(const PlanRequest &request);

struct SharedBuffer {
  std::string name;
  int64_t bytes;
};

/// What a plan costs. Seconds are those of each unit if it alone limited the kernel, spread over all SMs.
struct PlanCost {
  double readBytes = 0;    ///< from L2 to shared memory or registers: exact for this tiling, but for what the values of
                           ///< captured tensors hide; for MaskShape::Fraction the expected value
  double writtenBytes = 0; ///< from there to L2
  double hbmReadBytes = 0; ///< from HBM to L2: what is read once, and what the order of work reads again
  double trafficBytes = 0; ///< readBytes + writtenBytes
  double hbmBytes = 0;     ///< hbmReadBytes + writtenBytes: what is written leaves L2 sooner or later
  double standardAttentionBytes = 0; ///< reads and writes of S and P included
  double mmaSeconds = 0;
  double specialSeconds = 0;
  double aluSeconds = 0;
  double sharedSeconds = 0;
  double hbmSeconds = 0; ///< of hbmBytes
  double totalSeconds = 0;
  double mixSeconds = 0;   ///< with producer warps, the geometric mean over rankedLengths;
                           ///< totalSeconds without, and where only the request's sizes count
  double visitedTiles = 0; ///< tiles of S over all heads
  double partialTiles = 0; ///< of these, those that evaluate the mask
  double allTiles = 0;     ///< with those that are not visited
  int64_t keySplits = 1;   ///< blocks that share the keys of a tile of rows
  int registers = 0;       ///< taken per thread
  bool spills = false;     ///< takes all there are and more: the device compiler is expected to spill some
  int registerLimit = 0;   ///< what blocksPerSm leaves for each thread
  std::vector<SharedBuffer> shared;
  int64_t sharedBytes = 0;
  int64_t sramBudget = 0;
  int blocksPerSm = 0;
  /// Seconds of each unit if it alone limited the kernel, the busiest first: "tensor cores", "shared memory", ...
  std::vector<std::pair<std::string_view, double>> units;
  std::string limitedBy; ///< the unit that is busiest: "tensor cores"
  std::string busy;      ///< how busy each unit is: "tensor cores 41%, shared memory 24%, ..."
};

struct RankedPlan {
  Plan plan;
  PlanCost cost;
  std::string rejected; ///< empty, or the limit that the plan breaks; no times are predicted then
  std::string demoted;  ///< empty, or why it stands behind accepted plans that are predicted to be slower: "the tile
                        ///< does not divide the block pattern"

  bool accepted() const { return rejected.empty(); }
};

/// Every candidate: accepted ones first, quickest first, then the rejected. Among accepted ones those whose tiles
/// divide the block pattern come first, then, up to spillFreeHeadDim, those that keep everything in registers. Fixed
/// fields of the request restrict the candidates. The order is deterministic. Errors: an unknown architecture, a head
/// dim or field out of range, or no candidate that fits.
Expected<std::vector<RankedPlan>> rankPlans(const PlanRequest &request);

/// Bytes of a row of a window of each bias, in panels as TMA takes them.
int64_t biasRowBytes(const PlanRequest &request, const Plan &plan);

/// The first of rankPlans.
Expected<RankedPlan> choosePlan(const PlanRequest &request);

} // namespace attune
