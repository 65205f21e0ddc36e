//===- CostModel.h - Ranks the plans of a variant by predicted time ---------===//
//
// Plain C++ without MLIR. A request describes what a variant needs and on which architecture. The model evaluates
// every candidate plan, rejects plans over a hard limit, and ranks the rest by predicted time.
//
//     PlanRequest request;                    // sm_90, bf16, head dim 128, 16384 tokens, hidden 2048
//     request.mask = MaskShape::causal();
//     Expected<std::vector<RankedPlan>> plans = rankPlans(request);
//     if (!plans)
//       return plans.error();                 // even the smallest tile does not fit; the error lists each buffer
//     plans->front().plan                     // 128 x 64, 4 warps, ...
//     plans->front().cost.trafficBytes        // exact for this tiling
//
// The forward kernel of a plan: one thread block of `warps` warps holds tileQ rows of one head. A warp holds Mw tiles
// of 16 rows:
//
//     Mw = tileQ / (16 * warps / G)     1 or 2; G = dvWarps
//
// Up to head dim 256, G is 1: each warp has rows of its own, with all keys of a tile and all Dv columns. Above, where
// registers or shared memory may not suffice for that, G warps may hold the same rows. Each of them computes S for all
// keys and accumulates Dv / G columns of O (Dv is padded to 16 G). In both cases a thread block reads K and V from
// global memory once.
//
//   shared bytes (e = bytes of an element, pad16 rounds up to 16)
//     Q  tileQ * pad16(D) * e               O is stored through the bytes of Q; if Dv > D, the rest is "O beyond Q"
//     K  stages * tileK * pad16(D) * e
//     V  stages * tileK * pad16(Dv) * e
//
// With producer warps (sm_90a) a warpgroup holds 64 rows, and P has registers of its own in addition to S. Blocks are
// persistent if O fits in shared memory in addition to Q, with tileQ * pad16(Dv) * e bytes of its own. Q has two stages
// if both stages fit too.
//
// With stageBiases each dense bias needs stages * tileQ * tileK more elements. Relative-position values, which the
// producer warps compute for the tileQ + tileK - 1 distances q - k of a tile, have rings of 4 * stages bytes a
// distance, or 8 * stages in ping-pong plans. Vectors over keys that a producer warp loads for the mask have 4 * stages
// bytes a key.
//
//   registers per thread (an upper bound of what the kernel needs, not what ptxas uses if more are available)
//     S Mw*tileK/2 + O Mw*pad16(Dv)/2/G + Q fragments Mw*pad16(D)/4 when qRegisters (twice that for f32)
//     + m and l 4 Mw + fragments + addresses and bounds + dropout
//     + loads of score and mask: 2 Mw for each vector over rows, tileK/4 for each over columns, more for each over both
//     P reuses the registers of S: fragments are packed as soon as exp2 is computed.
//
// Traffic, the bytes between L2 and shared memory, is exact. The tiles of rows have numbers i = 0 .. ceil(Sq/tileQ)-1.
// Tile i visits the key tiles with a visible key; R(i) is the number of rows of K in these tiles, up to Sk:
//
//     read       B*H * ( Sq*D*e + sum_i R(i) * (D + Dv) * e )      Q; K and V
//                B*H * visited tiles * tileQ * tileK * e           of each dense bias
//     written    B*H * ( Sq*Dv*e + 4*Sq )                          O; LSE
//
// Between HBM and L2, each of Q, K, V and the biases is read once. If K and V of the running heads do not fit L2, they
// are read again for each wave of thread blocks. Written data goes from L2 to HBM when its cache lines are evicted, at
// the latest after the kernel.
//
// FlashAttention's Theorem 2, O(N^2 d^2 / M), is the term of K and V: the memory M bounds tileQ * d, so that there are
// N / tileQ = N * d / M row tiles, each of which reads N rows. Standard attention (the paper's Algorithm 0) writes and
// reads both S and P:
//
//     B*H * 4*Sq*Sk*e + B*H * Sq*(D + Dv)*e + B*Hkv * Sk*(D + Dv)*e
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arch/ArchInfo.h"
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

/// Part of the cache key of every kernel whose schedule is "auto". Increase the number whenever a ranking can change.
inline constexpr int costModelVersion = 27;

/// Up to this head dim, plans that are expected to spill registers are ranked last; `warpgroups`: the plans have
/// warpgroup-level products. Above this head dim only small tiles of mma.sync would not spill, and small tiles lose
/// more time than spills do.
constexpr int spillFreeHeadDim(bool warpgroups) { return warpgroups ? 256 : 128; }

/// The tile sizes and the schedule of one kernel: the fields of #attn.plan.
struct Plan {
  int tileQ = 0;
  int tileK = 0;
  int warps = 0;
  int stages = 0;          ///< 1: one K and one V buffer, two barriers a tile; >= 2: rings, one barrier a tile
  bool qRegisters = false; ///< whether fragments of Q stay in registers
  int blocksPerSm = 0;     ///< blocks per multiprocessor; register budget of a thread: 65536 / (blocksPerSm * threads)
  bool longestFirst = false;
  int dvWarps = 1;         ///< warps that hold the same rows and split the columns of V and O
  int producerWarps = 0;   ///< warps in addition to `warps` that copy tiles; products are then warpgroup-level
  bool persistent = false; ///< a thread block computes several query tiles; O has a separate shared buffer
  /// In persistent blocks: stages of the rings that a block fills once a tile of work (Q; in loops over queries K and V).
  int queryStages = 1;
  /// Backward pass: stages of the ring whose tiles only dP reads (V in a loop over keys, dO in a loop over queries that
  /// does not compute dV). dP frees such a tile early in an iteration. 0: `stages`.
  int dpStages = 0;
  bool pingPong = false; ///< warpgroups ping-pong: one runs its products while another runs its softmax
  /// The product with V of a tile overlaps with the softmax of the next tile. Backward pass, where a loop adds dQ to
  /// memory: the product that gives dQ does.
  bool overlap = false;
  bool stageBiases = false; ///< producer warps copy dense biases to shared memory; else consumers load them directly
  bool packGqa = false;     ///< a tile's rows are the queries of all query heads of one key head
  bool splitKeys = false;   ///< split-KV: thread blocks split the keys of a tile of rows; a second kernel combines them

  int threads() const { return (warps + producerWarps) * 32; }
  /// Number of groups of warps with different rows. The dvWarps warps of a group hold the same rows.
  int rowWarps() const { return warps / dvWarps; }
  /// Tiles of 16 rows that each warp holds.
  int rowTilesPerWarp() const { return tileQ / (16 * rowWarps()); }
  /// "128 x 64, 4 warps, 1 stage, q in shared memory, 2 blocks per SM"; "8 warps (2 split dv)" if dvWarps is 2. The
  /// text of a plan that does not fit lacks the blocks per SM.
  std::string text() const;
  friend bool operator==(const Plan &, const Plan &) = default;
};

/// Registers per thread of producer and consumer warps. setmaxnreg redistributes the registers that the thread block
/// has at its launch; a setmaxnreg that requests more would wait for ever.
///
/// Producer warps need more registers if they search for the tiles to visit or for rows (in pages, or at the end of a
/// sequence), as `searches` says, or if they compute `values` relative-position values for the consumers. A producer
/// that searches and computes at most one relative-position value gets at least 40 registers instead of 32, if the
/// consumers' `tiles` (registers of S, P and O) leave room or if there are more than three consumer warpgroups.
struct RoleRegisters {
  int producer, consumer;
};
RoleRegisters roleRegisters(int consumerWarps, int producerWarps, bool searches, int values, int tiles,
                            int blocksPerSm = 1);
/// Registers per thread of S, P and O. Plans with both ping-pong and overlap need more, for exponentials in addition to
/// P.
int warpgroupTileRegisters(int64_t tileK, int64_t headDimV);

/// The plan fields that a user has fixed (attune/Schedule.h). The model chooses the others.
struct PlanChoice {
  std::optional<int> tileQ = {}, tileK = {}, warps = {}, stages = {};
  std::optional<bool> qRegisters = {};
  std::optional<int> dvWarps = {}, blocksPerSm = {};
  std::optional<bool> longestFirst = {}, persistent = {};
  std::optional<int> queryStages = {};
  std::optional<bool> pingPong = {}, overlap = {}, stageBiases = {}, packGqa = {}, splitKeys = {};

  /// Replaces each field that `other` fixes by the value in `other`.
  template <typename Structure> void overrule(const Structure &other) {
    visitSchedule(
        [](auto, auto, auto &to, const auto &from) {
          if (from)
            to = from;
        },
        *this, other);
  }
  /// Whether the user has fixed any field of the plan.
  bool any() const {
    bool any = false;
    visitSchedule([&](auto, auto, const auto &field) { any |= field.has_value(); }, *this);
    return any;
  }
};

/// Converts a Plan (all fields) or CompileOptions (the fields that the user has fixed) to a PlanChoice.
template <typename Structure> PlanChoice choiceOf(const Structure &structure) {
  PlanChoice choice;
  assignSchedule(choice, structure);
  return choice;
}

/// The keys that are visible to each group of `rowsEach` consecutive queries, for one pair of lengths, as the mask
/// analysis (MaskAnalysis.h) finds them for the loops of a kernel.
struct MaskRows {
  /// Some queries of the group see keys in [begin, end), and all queries see all keys in [fullBegin, fullEnd).
  struct Keys {
    int64_t begin, fullBegin, fullEnd, end;
  };
  int64_t queries = 0, keys = 0; ///< the lengths that `rows` was computed for
  int64_t rowsEach = 16;         ///< number of queries that each element of `rows` describes
  /// For each group of `rowsEach` queries, ascending intervals that do not overlap. No key outside of the intervals is
  /// visible.
  std::vector<std::vector<Keys>> rows = {};
};

/// Which keys a mask leaves visible, as precisely as is needed to count the tiles that a plan visits.
struct MaskShape {
  enum class Kind : uint8_t {
    Full,     ///< every key is visible
    Band,     ///< visible if -left <= k - q <= right or k < prefix
    Rows,     ///< known intervals for each group of consecutive queries (MaskRows)
    Fraction, ///< unknown; the part `fraction` of `grain` x `grain` blocks has visible elements; tiles are partial
  };
  static constexpr int64_t unlimited = int64_t(1) << 40;

  Kind kind = Kind::Full;
  int64_t left = unlimited;
  int64_t right = unlimited;
  int64_t prefix = 0;
  double fraction = 1.0;
  int64_t grain = 1;                                      ///< for Kind::Fraction
  bool byTile = false;                                    ///< for Kind::Rows: the kernel tests tiles one by one
  std::shared_ptr<const std::vector<MaskRows>> rows = {}; ///< for Kind::Rows: one element for each of rankedLengths

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

/// The properties of a program that the cost model reads. Sizes only affect the ranking; a plan is correct for every
/// size.
struct PlanRequest {
  std::string arch = defaultArch;
  int elementBytes = 2; ///< 2 for f16 and bf16, 4 for f32
  int headDim = 128;
  int headDimV = 128;
  int64_t sramBudget = 0; ///< bytes of shared memory per block; 0 is the device's opt-in limit
  bool dropout = false;
  bool deterministic = false;      ///< gradients must be bitwise the same in each launch
  bool elementGradients = false;   ///< a loop adds to gradients of captured tensors for each element of S
  bool scatteredGradients = false; ///< some gradients take an atomic addition per element of S, not per diagonal q - k
  bool denseGradients = false;     ///< a captured tensor indexed by q and k has a gradient kernel of its own
  /// The gradient kernel of a captured tensor indexed by q and k (denseGradients) has one loop over batches and heads,
  /// and needs no search for visible tiles.
  bool denseInOneLoop = true;
  bool gradientReadsScore = false; ///< the score's gradient reads S, which stays in registers until then
  bool skipsProduct = false;       ///< the gradient's loops read a saved score instead of computing S = Q K^T
  bool sumsByHead = false;         ///< a gradient is summed per key, with separate sums for the query heads of a group
  std::string packFault = {};      ///< why a tile cannot hold the rows of all query heads of a key head, or ""
  std::string splitFault = {};     ///< why the keys of a row cannot be split over thread blocks, or ""
  bool precise = false;            ///< exp2 and the score's functions have float32 accuracy
  double specialPerElement = 0;    ///< special-function results of the score for each element of S
  double normaliserSpecial = 1;    ///< special-function results of the normaliser for each element of S: 1 for exp2
  double aluPerElement = 0;        ///< other instructions of the score region for each element of S
  bool rowStatistics = true;       ///< P of a tile depends on statistics of its rows, such as the row maximum
  int uniformValues = 0; ///< values of score and mask that are the same throughout a thread block: scalars, loads
  int rowVectors = 0;    ///< vectors over rows that stay live in the loop: loads indexed by q
  int columnVectors = 0; ///< vectors over the keys of a tile: loads indexed by k
  int stagedColumns = 0; ///< 4-byte vectors over keys that a producer warp loads for the mask; not in columnVectors
  int elementLoads = 0;  ///< loads indexed by q and k
  int biases = 0;        ///< dense biases: elementLoads of floats at [.., q, k]; stageBiases copies them by TMA
  int biasBytes = 0;     ///< sum of the element sizes of all biases
  /// Relative-position values that the producer warps compute for the consumers. The counts of vectors and loads
  /// (rowVectors to biases) exclude these values.
  int relativeValues = 0;
  bool maskLoadsByKey = false;  ///< the mask loads values indexed by the key, so that tiles are tested one by one
  double maskAluPerElement = 2; ///< instructions of the mask for each element of a partial tile
  MaskShape mask;
  /// The visible tiles for the actual values of captured tensors, if these are known. Tiles are then counted exactly.
  std::shared_ptr<const TileMap> tiles = {};
  bool keyLengths = false;   ///< each sequence has its own key length, which may end within a key tile
  bool queryLengths = false; ///< for backward passes: each sequence has its own query length. In keys of measured plans
  bool endsByHead = false;   ///< the key length may differ between the heads of a group
  int64_t pageSize = 0;      ///< keys per page; 0 if the rows of K and V are contiguous
  int64_t patternRows = 0;   ///< block pattern: queries per block, 0 without a pattern
  int64_t patternColumns = 0; ///< block pattern: keys per block
  int64_t batch = 4, heads = 16, headsKv = 16, queries = 4096, keys = 4096;
  bool theseSizes = false; ///< rank plans for exactly these sizes (batch to keys), else for all rankedLengths
  PlanChoice fixed;

  /// The number of query heads for each key head.
  int64_t group() const { return headsKv > 0 ? std::max<int64_t>(1, heads / headsKv) : 1; }
  /// The number of heads with row tiles of their own: key heads if groups are packed, else query heads.
  int64_t rowHeads(const Plan &plan) const { return plan.packGqa ? headsKv : heads; }
  /// The number of different queries in a tile of rows.
  int64_t tileQueries(const Plan &plan) const {
    return plan.packGqa ? std::max<int64_t>(1, plan.tileQ / group()) : plan.tileQ;
  }
  /// The number of tiles of query rows for each head that rowHeads() counts.
  int64_t rowTiles(const Plan &plan) const {
    const int64_t rows = queries * (plan.packGqa ? group() : 1);
    return (rows + plan.tileQ - 1) / plan.tileQ;
  }
  /// The number of special-function results for each element of S: those of the score and those of the normaliser.
  double specialResults() const { return normaliserSpecial + specialPerElement; }
  /// Columns of V and O in tiles: padded so that each warp that splits the columns has a multiple of 16, as mma.sync
  /// needs.
  int64_t paddedHeadDimV(const Plan &plan) const;
  /// Whether a producer warp searches tables for the tiles to visit.
  bool searches() const { return patternRows > 0 || maskLoadsByKey; }
  /// Whether a producer warp looks up the pages of K and V rows, or the row where a sequence ends.
  bool findsRows() const { return keyLengths || pageSize > 0; }

  /// Sets the sizes of the FlashAttention papers: 16384 tokens of hidden size 2048, in sequences of `length`.
  void setReferenceSizes(int64_t length = 4096);
};

/// The (queries, keys) lengths for which the time of a plan is predicted if the plan is to serve all sizes: 1/8, 1/4,
/// 1/2, 1, 2 and 4 times the lengths of the request, but at least twice a sliding window.
std::vector<std::pair<int64_t, int64_t>> rankedLengths(const PlanRequest &request);

/// Whether the request's plans have producer warps and asynchronous products. These need an architecture with producers
/// (ArchInfo::hasProducers), and elements and head dims that one of its product instructions takes.
bool usesAsyncProducts(const PlanRequest &request);

struct SharedBuffer {
  std::string name;
  int64_t bytes;
};

/// The predicted cost of a plan. mmaSeconds, specialSeconds and so on are the time of the kernel if that hardware unit
/// alone limited the kernel.
struct PlanCost {
  /// Bytes that the kernel reads from L2 to shared memory or registers. The number is exact for the plan's tile sizes
  /// if the visible keys are known at compile time. Masks by values of captured tensors may leave fewer tiles; for
  /// MaskShape::Fraction, of which only the fraction of visible blocks is known, the number is an expected value.
  double readBytes = 0;
  double writtenBytes = 0;           ///< from shared memory or registers to L2
  double hbmReadBytes = 0;           ///< from HBM to L2: each tensor once, and K and V again after L2 has evicted them
  double trafficBytes = 0;           ///< readBytes + writtenBytes
  double hbmBytes = 0;               ///< hbmReadBytes + writtenBytes: all written bytes go to HBM sooner or later
  double standardAttentionBytes = 0; ///< traffic of unfused attention, which writes and reads S and P
  double mmaSeconds = 0;
  double specialSeconds = 0;
  double aluSeconds = 0;
  double sharedSeconds = 0;
  double hbmSeconds = 0; ///< time to move hbmBytes
  double totalSeconds = 0;
  /// The time by which plans are ranked: the geometric mean of totalSeconds over the sequence lengths rankedLengths.
  /// Equal to totalSeconds for plans without producer warps and for requests with theseSizes (rank for the request's
  /// own sizes).
  double mixSeconds = 0;
  double visitedTiles = 0; ///< visited tiles of S over all heads
  double partialTiles = 0; ///< visited tiles that evaluate the mask
  double allTiles = 0;     ///< all tiles of S, visited or not
  int64_t keySplits = 1;   ///< splits of the keys of a tile of rows (split-KV)
  int registers = 0;       ///< registers used per thread
  bool spills = false;     ///< the kernel needs more registers than the limit, so that ptxas is expected to spill
  int registerLimit = 0;   ///< registers available per thread with blocksPerSm blocks
  std::vector<SharedBuffer> shared;
  int64_t sharedBytes = 0;
  int64_t sramBudget = 0;
  int blocksPerSm = 0;
  /// Seconds of each unit if that unit alone limited the kernel, the busiest first: "tensor cores", "shared memory",
  /// ...
  std::vector<std::pair<std::string_view, double>> units;
  std::string limitedBy; ///< the busiest unit: "tensor cores"
  std::string busy; ///< busy time of each unit in percent of totalSeconds: "tensor cores 41%, shared memory 24%, ..."
};

struct RankedPlan {
  Plan plan;
  PlanCost cost;
  std::string rejected; ///< empty, or the limit that the plan exceeds; a rejected plan has no predicted times
  /// Empty, or why the plan is ranked after accepted plans that are predicted to be slower: "the tile does not divide
  /// the block pattern".
  std::string demoted;

  bool accepted() const { return rejected.empty(); }
};

/// Returns all candidates in a deterministic order: accepted plans by predicted time, then rejected plans. Accepted
/// plans whose tiles divide the block pattern come before those whose tiles do not. Up to spillFreeHeadDim, plans that
/// are not expected to spill come before those that are. Fixed fields of the request restrict the candidates. Errors:
/// an unknown architecture, a head dim or field out of range, or no candidate that fits.
Expected<std::vector<RankedPlan>> rankPlans(const PlanRequest &request);

/// Bytes of shared memory for one query row of each bias's tile (tile.window), summed over the biases. Rows are rounded
/// up to whole panels of TMA.
int64_t biasRowBytes(const PlanRequest &request, const Plan &plan);

/// The first plan of rankPlans.
Expected<RankedPlan> choosePlan(const PlanRequest &request);

} // namespace attune
