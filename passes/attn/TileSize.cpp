//===- TileSize.cpp - Choose the plan (tile sizes and schedule) of each variant ---===//

#include "passes/attn/TileSize.h"

#include "ir/attn/Attn.h"
#include "passes/Passes.h"
#include "passes/analysis/cost/BackwardPlan.h"
#include "passes/analysis/mask/MaskAnalysis.h"
#include "passes/analysis/score/Distances.h"
#include "passes/analysis/score/LogisticFunction.h"
#include "passes/attn/TileScores.h"
#include "passes/attn/backward/CapturedGradients.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace attune {
#define GEN_PASS_DEF_TILESIZE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace attune;

//===----------------------------------------------------------------------===//
// Instructions of a region
//===----------------------------------------------------------------------===//

namespace {
/// What a value depends on: the row q, the column k, or the element (on s, or on both q and k).
enum Dependence : unsigned { onRow = 1, onColumn = 2, onElement = onRow | onColumn };

struct RegionCost {
  double special = 0;
  double alu = 0;
  int uniformValues = 0, rowVectors = 0, columnVectors = 0, wordColumns = 0, elementLoads = 0, relativeValues = 0,
      biases = 0, biasBytes = 0;
};
} // namespace

OpCost attune::opCost(Operation *op, bool precise) {
  auto costOf = [&](double special, double alu, double preciseSpecial, double preciseAlu) {
    return precise ? OpCost{preciseSpecial, preciseAlu} : OpCost{special, alu};
  };
  return llvm::TypeSwitch<Operation *, OpCost>(op)
      .Case<attn::YieldOp, attn::ScalarOp, attn::ExtentOp, arith::ConstantOp>([](auto) { return OpCost{0, 0}; })
      .Case<attn::LoadOp>([](auto) { return OpCost{0, 4}; })    // clamp, address, load, widen
      .Case<attn::SearchOp>([](auto) { return OpCost{0, 64}; }) // eight steps, for a vector of some hundred elements
#define ATTUNE_FUNCTION1(op, name, value, mlir, cuda, quick, costs, ...)                                               \
  .Case<mlir>([&](auto) { return costOf(costs); })
#define ATTUNE_FUNCTION2(op, name, value, mlir, cuda, costs, ...) .Case<mlir>([&](auto) { return costOf(costs); })
#include "attune/Functions.def"
      .Case<arith::DivFOp>([&](auto) { return OpCost{1, precise ? 8.0 : 1.0}; })
      .Case<arith::DivSIOp, arith::RemSIOp, arith::DivUIOp, arith::RemUIOp>([](Operation *division) {
        return OpCost{0, matchPattern(division->getOperand(1), m_Constant()) ? 6.0 : 20.0};
      })
      .Default([](Operation *) { return OpCost{0, 1}; });
}

static Type tensorElement(attn::LoadOp load) {
  return load->getParentOfType<attn::AttentionOp>().findTensor(load.getName()).getElementType();
}

static bool isBias(attn::LoadOp load, Block &body, const llvm::DenseMap<Value, unsigned> &dependence) {
  auto arguments = body.getArguments().take_back(2);
  return isDenseBias(load.getIndices(), tensorElement(load), arguments[0], arguments[1],
                     [&](Value index) { return dependence.lookup(index) == 0; });
}

/// The ops of a region that remain in the kernel when `roots`, the region's relative-position values, are read from
/// shared memory instead of computed.
static llvm::DenseSet<Operation *> opsBesideRelative(Block &body, ArrayRef<Value> roots) {
  llvm::DenseSet<Operation *> needed{body.getTerminator()};
  for (Operation &op : llvm::reverse(body)) {
    if (!needed.contains(&op))
      continue;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && !llvm::is_contained(roots, operand))
        needed.insert(producer);
  }
  return needed;
}

/// The cost of a region per element of S. `argumentDependence` has an entry for each block argument; the last two
/// arguments are q and k. If `staged` (vectors and biases are copied to shared memory), relative-position values are
/// counted apart from other ops, and loads of dense biases are also counted as biases.
static RegionCost regionCost(Region &region, ArrayRef<unsigned> argumentDependence, bool precise, bool staged) {
  RegionCost cost;
  if (region.empty())
    return cost;
  Block &body = region.front();
  SmallVector<Value> roots;
  if (staged) {
    auto uniform = [&](BlockArgument argument) { return argumentDependence[argument.getArgNumber()] == 0; };
    auto arguments = body.getArguments().take_back(2);
    roots = DistanceValues(body, arguments[0], arguments[1], uniform).roots();
  }
  const llvm::DenseSet<Operation *> remaining = opsBesideRelative(body, roots);
  cost.relativeValues = int(roots.size());
  llvm::DenseMap<Value, unsigned> dependence;
  for (auto [argument, on] : llvm::zip_equal(region.getArguments(), argumentDependence))
    dependence[argument] = on;
  for (Operation &op : region.front()) {
    unsigned on = 0;
    for (Value operand : op.getOperands())
      on |= dependence.lookup(operand);
    for (Value result : op.getResults())
      dependence[result] = on;
    if (!remaining.contains(&op))
      continue;
    OpCost one = opCost(&op, precise);
    // With two row tiles per warp, a lane holds four rows of each column, so a column's value costs a quarter per
    // element. Row values and uniform values are hoisted out of the loop.
    const double split = on == onElement ? 1 : on == onColumn ? 0.25 : 0;
    cost.special += split * one.special;
    cost.alu += split * one.alu;
    if (isa<attn::ScalarOp>(op))
      ++cost.uniformValues;
    if (auto load = dyn_cast<attn::LoadOp>(op); load && staged && isBias(load, body, dependence)) {
      ++cost.biases;
      cost.biasBytes += int(tensorElement(load).getIntOrFloatBitWidth() / 8);
    }
    const bool readsMemory = isa<attn::LoadOp, attn::SearchOp>(op);
    if (readsMemory && on == onColumn && op.getResult(0).getType().getIntOrFloatBitWidth() == 32)
      ++cost.wordColumns;
    if (readsMemory)
      ++(on == onElement  ? cost.elementLoads
         : on == onRow    ? cost.rowVectors
         : on == onColumn ? cost.columnVectors
                          : cost.uniformValues);
  }
  return cost;
}

//===----------------------------------------------------------------------===//
// The mask's band
//===----------------------------------------------------------------------===//

namespace {
/// q * row + k * column + constant
struct Affine {
  int64_t row = 0, column = 0, constant = 0;
};

/// Reads a mask as a band of k - q with an optional prefix. Extents of axes have the sizes for which plans are ranked.
/// An operand of `and` that cannot be read is dropped, so that the band is an upper bound; any other value that cannot
/// be read makes the mask unreadable.
class BandReader {
public:
  BandReader(Block &block, const PlanRequest &request) : block(block), request(request) {}

  /// The mask shape of a condition, or nullopt if the condition cannot be read as a band of k - q. Results are cached:
  /// a value with several users is read once.
  std::optional<MaskShape> read(Value value) {
    if (auto known = shapes.find(value); known != shapes.end())
      return known->second;
    std::optional<MaskShape> shape = compute(value);
    return shapes[value] = shape;
  }

  /// Whether the result of read() is the whole mask, not just an upper bound.
  bool isExact() const { return exact; }

private:
  std::optional<MaskShape> compute(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto conjunction = dyn_cast<arith::AndIOp>(op)) {
      auto a = read(conjunction.getLhs()), b = read(conjunction.getRhs());
      if (!a || !b) {
        exact = false; // one operand alone is an upper bound
        return a ? a : b;
      }
      if (a->prefix || b->prefix) {
        exact = false;
        return a->prefix ? b : a;
      }
      return MaskShape::band(std::min(a->left, b->left), std::min(a->right, b->right));
    }
    if (auto disjunction = dyn_cast<arith::OrIOp>(op)) {
      auto a = read(disjunction.getLhs()), b = read(disjunction.getRhs());
      if (!a || !b)
        return std::nullopt;
      return MaskShape::band(std::max(a->left, b->left), std::max(a->right, b->right), std::max(a->prefix, b->prefix));
    }
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      return readCompare(compare);
    return std::nullopt;
  }

  std::optional<MaskShape> readCompare(arith::CmpIOp compare) {
    auto lhs = affine(compare.getLhs()), rhs = affine(compare.getRhs());
    if (!lhs || !rhs)
      return std::nullopt;
    Affine d; // lhs - rhs: the comparison is "d predicate 0"
    if (__builtin_sub_overflow(lhs->row, rhs->row, &d.row) ||
        __builtin_sub_overflow(lhs->column, rhs->column, &d.column) ||
        __builtin_sub_overflow(lhs->constant, rhs->constant, &d.constant))
      return std::nullopt;
    d.constant = std::clamp(d.constant, -MaskShape::unlimited, MaskShape::unlimited);
    arith::CmpIPredicate predicate = compare.getPredicate();
    if (d.column == -1) { // negate both sides
      d = {-d.row, -d.column, -d.constant};
      using P = arith::CmpIPredicate;
      predicate = predicate == P::sle   ? P::sge
                  : predicate == P::slt ? P::sgt
                  : predicate == P::sge ? P::sle
                  : predicate == P::sgt ? P::slt
                                        : predicate;
    }
    if (d.column != 1 || (d.row != -1 && d.row != 0))
      return std::nullopt;
    int64_t left = MaskShape::unlimited, right = MaskShape::unlimited;
    switch (predicate) { // the condition is: k - q + constant predicate 0 (or k + constant predicate 0)
    case arith::CmpIPredicate::sle:
      right = -d.constant;
      break;
    case arith::CmpIPredicate::slt:
      right = -d.constant - 1;
      break;
    case arith::CmpIPredicate::sge:
      left = d.constant;
      break;
    case arith::CmpIPredicate::sgt:
      left = d.constant - 1;
      break;
    default:
      return std::nullopt;
    }
    if (d.row == -1)
      return MaskShape::band(left, right);
    if (right == MaskShape::unlimited || right < 0)
      return std::nullopt;
    return MaskShape::band(-MaskShape::unlimited, -MaskShape::unlimited, right + 1); // only k < right + 1
  }

  std::optional<Affine> affine(Value value) {
    if (auto known = affines.find(value); known != affines.end())
      return known->second;
    std::optional<Affine> result = computeAffine(value);
    return affines[value] = result;
  }

  std::optional<Affine> computeAffine(Value value) {
    if (value == block.getArgument(2))
      return Affine{1, 0, 0};
    if (value == block.getArgument(3))
      return Affine{0, 1, 0};
    llvm::APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant)))
      return Affine{0, 0, constant.getSExtValue()};
    Operation *op = value.getDefiningOp();
    if (auto extent = dyn_cast_if_present<attn::ExtentOp>(op)) {
      StringRef name = extent.getName();
      return Affine{0, 0,
                    name == "Sq"   ? request.queries
                    : name == "Sk" ? request.keys
                    : name == "H"  ? request.heads
                                   : request.batch};
    }
    auto attention = cast<attn::AttentionOp>(block.getParentOp());
    if (isLength(op, attention.getKeyLengths()))
      return Affine{0, 0, request.keys};
    if (isLength(op, attention.getQueryLengths()))
      return Affine{0, 0, request.queries};
    if (!isa_and_present<arith::AddIOp, arith::SubIOp>(op))
      return std::nullopt;
    auto a = affine(op->getOperand(0)), b = affine(op->getOperand(1));
    if (!a || !b)
      return std::nullopt;
    Affine result;
    auto combine = [&](int64_t x, int64_t y, int64_t &to) {
      return isa<arith::SubIOp>(op) ? __builtin_sub_overflow(x, y, &to) : __builtin_add_overflow(x, y, &to);
    };
    if (combine(a->row, b->row, result.row) || combine(a->column, b->column, result.column) ||
        combine(a->constant, b->constant, result.constant))
      return std::nullopt;
    return result;
  }

  /// Whether `op` is the length of a sequence: an element of `lengths`, clamped to [0, extent].
  static bool isLength(Operation *op, std::optional<StringRef> lengths) {
    auto least = dyn_cast_if_present<arith::MinSIOp>(op);
    if (!lengths || !least)
      return false;
    for (Value side : least->getOperands())
      if (auto most = side.getDefiningOp<arith::MaxSIOp>())
        for (Value of : most->getOperands())
          if (auto load = of.getDefiningOp<attn::LoadOp>(); load && load.getName() == *lengths)
            return true;
    return false;
  }

  Block &block;
  const PlanRequest &request;
  bool exact = true;
  llvm::DenseMap<Value, std::optional<MaskShape>> shapes;
  llvm::DenseMap<Value, std::optional<Affine>> affines;
};
} // namespace

//===----------------------------------------------------------------------===//
// Request and attribute
//===----------------------------------------------------------------------===//

/// The shape of the mask for the sizes that plans are ranked for, found by the analysis that also builds the domains of
/// the kernel's loops. Leaves a remark on `op` if the mask is so large that the analysis is coarse.
static MaskShape rowsOfMask(attn::AttentionOp op, const PlanRequest &request) {
  constexpr int64_t mostRows = 2048; // limit on tile rows for each pair in `lengths`; takes some milliseconds
  // Limit on tile rows and on tile columns where the kernel tests tiles one by one in a search; takes some 10 ms.
  constexpr int64_t mostTested = 64;
  // The limit on evaluated values of the mask's region, summed over all tiles; takes some 100 ms. Larger masks are
  // evaluated on larger tiles.
  constexpr int64_t mostValues = 1 << 19;
  const int64_t values = int64_t(op.getMask().front().getOperations().size());
  std::vector<std::pair<int64_t, int64_t>> lengths = {{request.queries, request.keys}};
  const SmallVector<Conjunct> loose = looseConjuncts(op);
  const bool asks = !loose.empty();
  if (!asks)
    for (auto pair : rankedLengths(request))
      lengths.push_back(pair);
  auto tilesOf = [](int64_t length, int64_t each) { return int64_t(llvm::divideCeil(length, each)); };
  std::vector<MaskRows> all;
  SmallVector<int64_t> columnsEach; // columns of a tile; 1 where tiles are not tested one by one
  int64_t tiles = 0;
  for (auto [queries, keys] : lengths) {
    MaskRows &rows = all.emplace_back(MaskRows{.queries = queries, .keys = keys});
    int64_t &columns = columnsEach.emplace_back(1);
    while (tilesOf(queries, rows.rowsEach) > (asks ? mostTested : mostRows))
      rows.rowsEach *= 2;
    while (asks && tilesOf(keys, columns) > mostTested)
      columns *= 2;
    tiles += tilesOf(queries, rows.rowsEach) * (asks ? tilesOf(keys, columns) : 1);
  }
  for (int64_t left = tiles * values; left > mostValues; left /= 2)
    for (auto [rows, columns] : llvm::zip(all, columnsEach))
      (!asks || tilesOf(rows.queries, rows.rowsEach) >= tilesOf(rows.keys, columns) ? rows.rowsEach : columns) *= 2;
  for (auto [rows, columns] : llvm::zip(all, columnsEach))
    for (int64_t first = 0; first < rows.queries; first += rows.rowsEach) {
      std::vector<MaskRows::Keys> &parts = rows.rows.emplace_back();
      const MaskSizes sizes = {.Sq = rows.queries, .Sk = rows.keys, .tileQ = rows.rowsEach, .tileK = columns};
      for (const TileSegments &part : evaluateDomain(op, sizes, first, loose))
        parts.push_back({part.begin * columns, part.fullBegin * columns, part.fullEnd * columns,
                         std::min(part.end * columns, rows.keys)});
    }
  if (tiles * values > mostValues)
    tile::remark(op, "the mask computes " + Twine(values) +
                         " values of an element: the cost model evaluates larger tiles of it, and counts all of one as "
                         "visited where it cannot prove that nothing of it is visible");
  return MaskShape::byRows(std::move(all), asks);
}

/// Sets the request's fields on gradients of captured tensors. Errors are reported later, by attn-to-tile-backward.
static void readGradients(attn::AttentionOp op, PlanRequest &request) {
  ScopedDiagnosticHandler quiet(op.getContext(), [](Diagnostic &) { return success(); });
  FailureOr<SmallVector<CapturedGradient>> gradients = planCapturedGradients(op);
  if (failed(gradients))
    return;
  request.gradientReadsScore = !op.getScoreGrad().empty() && !op.getScoreGrad().getArgument(0).use_empty();
  request.skipsProduct = op.saves("score") && !readsProductAndSaved(op);
  for (const CapturedGradient &gradient : *gradients) {
    request.denseGradients |= !gradient.tiles.empty();
    request.elementGradients |= gradient.tiles.empty();
    request.scatteredGradients |= !llvm::all_of(gradient.scattered, followsFromDistance);
    // Sums per key are kept in the workspace separately for each head.
    request.sumsByHead |= llvm::any_of(gradient.sums, [](const GradientSum &sum) { return sum.ofKeys; });
  }
  if (request.denseGradients) {
    const LoopShape loop = loopShape(op, 128, 128);
    request.denseInOneLoop = !loop.searches && !loop.byBatch && !loop.byHead;
  }
}

/// Why a tile cannot have rows of several heads (packed groups): a value that must be the same for all rows of a thread
/// block differs between heads. Empty if packing is possible.
static std::string packFaultOf(attn::AttentionOp op) {
  if (op.getSequences())
    return "tiles of packed sequences are of one head";
  if (op.getDropout())
    return "dropout draws numbers for 16 queries of a head at a time";
  if (op.getPattern())
    return "blocks of a pattern are of the queries of one head";
  if (!op.getSaves().empty())
    return "what is saved for the backward pass is of the queries of one head";
  if (!op.getMask().empty() && !op.getMask().getArgument(1).use_empty())
    return "the mask depends on the head, of which the heads of a group would visit other keys each";
  return "";
}

/// Adds the loads and scalars of a region to those of the request.
static void addLoads(PlanRequest &request, const RegionCost &cost) {
  request.uniformValues += cost.uniformValues;
  request.rowVectors += cost.rowVectors;
  request.columnVectors += cost.columnVectors;
  request.elementLoads += cost.elementLoads;
  request.relativeValues += cost.relativeValues;
  request.biases += cost.biases;
  request.biasBytes += cost.biasBytes;
}

/// Sets the request's fields on the normaliser. `staged`: vectors and biases are copied to shared memory.
static void readNormaliser(attn::AttentionOp op, bool precise, bool staged, PlanRequest &request) {
  request.rowStatistics = !op.getNormaliser() || !op.getStatistics().empty();
  if (!op.getNormaliser())
    return;
  // The arguments of p after b and h are the score and the base of the row.
  const unsigned on[] = {0, 0, onElement, onRow};
  const RegionCost p = regionCost(op.getP(), ArrayRef(on).take_front(op.getP().getNumArguments()), precise, false);
  constexpr double softmaxAlu = 2; // a subtraction, and the scaling before exp2
  request.normaliserSpecial = p.special;
  // For bf16, tile-expand-logistic replaces the reciprocal of a logistic function, a special function, by five
  // arithmetic instructions.
  if (staged && !precise && op.getDtype().isBF16())
    op.getP().walk([&](arith::DivFOp division) {
      if (!exponentialOfLogistic(division))
        return;
      request.normaliserSpecial -= 1;
      request.aluPerElement += 5;
    });
  request.aluPerElement += std::max(0.0, p.alu - softmaxAlu);
}

/// Whether the mask depends on run-time data other than the lengths of sequences.
static bool masksByData(attn::AttentionOp op) {
  return op.getMask()
      .walk([&](Operation *inner) {
        auto load = dyn_cast<attn::LoadOp>(inner);
        const bool isLength = load && (op.getKeyLengths() == load.getName() || op.getQueryLengths() == load.getName());
        return (load && !isLength) || isa<attn::ScalarOp, attn::SearchOp>(inner) ? WalkResult::interrupt()
                                                                                 : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The shape of the mask for the sizes that plans are ranked for.
static MaskShape shapeOfMask(attn::AttentionOp op, const PlanRequest &request) {
  Block &body = op.getMask().front();
  BandReader reader(body, request);
  const std::optional<MaskShape> band = reader.read(cast<attn::YieldOp>(body.getTerminator()).getValue());
  // Masks that only run-time data decide get an assumed shape. Where the bounds kernel must evaluate every element,
  // as for a mask table[q, k], a quarter of all blocks of 128 x 128 elements is assumed to be visible; other masks
  // that load values, such as document ids, are assumed to leave half of all blocks of 2048 x 2048.
  const bool loads = masksByData(op);
  if (band && (reader.isExact() || loads))
    return *band;
  if (countsTiles(op))
    return MaskShape::partly(0.25, 128);
  if (loads)
    return MaskShape::partly(0.5, 2048);
  return rowsOfMask(op, request);
}

/// Sets the request's fields on the mask, except its block pattern. `staged`: vectors are copied to shared memory.
static void readMask(attn::AttentionOp op, bool precise, bool staged, PlanRequest &request) {
  RegionCost cost = regionCost(op.getMask(), {0, 0, onRow, onColumn}, precise, staged);
  request.maskAluPerElement = std::max(2.0, cost.alu + 1); // 1 for the select
  request.maskLoadsByKey = cost.columnVectors > 0;
  if (staged) {
    request.stagedColumns = cost.wordColumns;
    cost.columnVectors -= cost.wordColumns;
  }
  addLoads(request, cost);
  request.mask = shapeOfMask(op, request);
}

/// Moves a band of a variant with a query offset. If there are fewer queries than keys, the queries are assumed to be
/// the last positions of the sequence.
static void moveBandByOffset(attn::AttentionOp op, PlanRequest &request) {
  const int64_t offset = op.getQOffset() ? std::max<int64_t>(0, request.keys - request.queries) : 0;
  if (request.mask.kind != MaskShape::Kind::Band || !offset)
    return;
  for (auto [bound, by] : {std::pair(&request.mask.left, -offset), {&request.mask.right, offset}})
    if (std::abs(*bound) < MaskShape::unlimited)
      *bound += by;
}

PlanRequest attune::planRequest(attn::AttentionOp op, StringRef arch, const SizeHints &hints) {
  PlanRequest request;
  request.arch = arch.str();
  request.elementBytes = int(op.getDtype().getIntOrFloatBitWidth() / 8);
  request.headDim = int(op.getHeadDim());
  request.headDimV = int(op.getHeadDimV());
  request.dropout = op.getDropout();
  request.deterministic = op.getGradients() && op.getGradients()->getDeterministic();
  if (op.getGradients())
    readGradients(op, request);
  request.keyLengths = op.getKeyLengths() || op.packsKeys() || hasEndOf(op, MaskAxis::Keys);
  request.endsByHead = op.getGradients() && endsByHead(op, MaskAxis::Keys);
  request.queryLengths = op.getGradients() && (op.getSequences() || hasEndOf(op, MaskAxis::Queries));
  request.pageSize = op.getKeyPages() ? int64_t(op.getKeyPages()->getSize()) : 0;
  request.packFault = packFaultOf(op);
  request.splitFault = op.getSequences() ? "the number of splits does not follow from packed sequences' lengths" : "";
  request.precise = op.getPrecise();
  request.queries = hints.queries;
  request.keys = hints.keys;
  request.heads = hints.heads ? hints.heads : std::max<int64_t>(1, 2048 / std::max(request.headDim, 1));
  request.headsKv = request.heads;
  request.batch = hints.batch ? hints.batch : std::max<int64_t>(1, 16384 / std::max<int64_t>(hints.queries, 1));
  if (attn::BlockPatternAttr pattern = op.getPatternAttr()) {
    request.patternRows = pattern.getRows();
    request.patternColumns = pattern.getColumns();
  }

  const bool precise = op.getPrecise() || op.getDtype().isF32();
  const bool staged = usesAsyncProducts(request);
  const RegionCost score = regionCost(op.getScore(), {onElement, 0, 0, onRow, onColumn}, precise, staged);
  request.specialPerElement = score.special;
  request.aluPerElement = score.alu;
  readNormaliser(op, precise, staged, request);
  addLoads(request, score);
  if (!op.getMask().empty())
    readMask(op, precise, staged, request);
  moveBandByOffset(op, request);
  return request;
}

attn::PlanAttr attune::planAttr(MLIRContext *context, const Plan &plan) {
  return attn::PlanAttr::get(context, plan.tileQ, plan.tileK, plan.warps, plan.stages, plan.qRegisters,
                             plan.blocksPerSm, plan.longestFirst, plan.dvWarps, plan.producerWarps, plan.persistent,
                             plan.queryStages, plan.pingPong, plan.overlap, plan.stageBiases, plan.packGqa,
                             plan.splitKeys, plan.dpStages);
}

Plan attune::planOf(attn::PlanAttr attr) {
  Plan plan;
  plan.tileQ = int(attr.getTileQ());
  plan.tileK = int(attr.getTileK());
  plan.warps = int(attr.getWarps());
  plan.stages = int(attr.getStages());
  plan.qRegisters = attr.getQRegisters();
  plan.blocksPerSm = int(attr.getBlocksPerSm());
  plan.longestFirst = attr.getLongestFirst();
  plan.dvWarps = int(attr.getDvWarps());
  plan.producerWarps = int(attr.getProducerWarps());
  plan.persistent = attr.getPersistent();
  plan.queryStages = int(attr.getQStages());
  plan.pingPong = attr.getPingPong();
  plan.overlap = attr.getOverlap();
  plan.stageBiases = attr.getStageBiases();
  plan.packGqa = attr.getPackGqa();
  plan.splitKeys = attr.getSplitKeys();
  plan.dpStages = int(attr.getDpStages());
  return plan;
}

std::optional<BackwardPlans> attune::backwardPlansOf(attn::AttentionOp op) {
  auto keys = op->getAttrOfType<attn::PlanAttr>(attn::planAttr),
       queries = op->getAttrOfType<attn::PlanAttr>(attn::queriesPlanAttr);
  if (!keys)
    return std::nullopt;
  return BackwardPlans{planOf(keys), planOf(queries ? queries : keys), op->hasAttr(attn::accumulatesDqAttr),
                       op->hasAttr(attn::separateDvAttr)};
}

void attune::setBackwardPlans(attn::AttentionOp op, const BackwardPlans &plans) {
  op->setAttr(attn::planAttr, planAttr(op.getContext(), plans.keys));
  op->removeAttr(attn::queriesPlanAttr);
  if (plans.queries != plans.keys)
    op->setAttr(attn::queriesPlanAttr, planAttr(op.getContext(), plans.queries));
  for (auto [name, holds] : {std::pair(StringRef(attn::accumulatesDqAttr), plans.accumulatesDq),
                             {StringRef(attn::separateDvAttr), plans.separateDv}}) {
    op->removeAttr(name);
    if (holds)
      op->setAttr(name, UnitAttr::get(op.getContext()));
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct TileSize : attune::impl::TileSizeBase<TileSize> {
  using TileSizeBase::TileSizeBase;
  // visitSchedule needs access to these options.
  using TileSizeBase::tileQ, TileSizeBase::tileK, TileSizeBase::warps, TileSizeBase::stages, TileSizeBase::qRegisters,
      TileSizeBase::dvWarps, TileSizeBase::blocksPerSm, TileSizeBase::longestFirst, TileSizeBase::persistent,
      TileSizeBase::queryStages, TileSizeBase::pingPong, TileSizeBase::overlap, TileSizeBase::stageBiases,
      TileSizeBase::packGqa, TileSizeBase::splitKeys;

  void runOnOperation() override {
    PlanChoice fixed;
    LogicalResult readable = success();
    visitSchedule(
        [&](std::string_view name, auto, auto &to, const auto &option) {
          if (failed(fix(to, name, option)))
            readable = failure();
        },
        fixed, *this);
    if (failed(readable))
      return signalPassFailure();
    if (queries < 1 || keys < 1 || heads < 0 || batch < 0) {
      emitError(getOperation().getLoc()) << "sizes to rank for must be positive; leave them out for the defaults";
      return signalPassFailure();
    }
    for (auto op : getOperation().getOps<attn::AttentionOp>())
      if (failed(choose(op, fixed)))
        return signalPassFailure();
  }

private:
  LogicalResult fix(std::optional<int> &field, std::string_view, const Option<int64_t> &option) {
    if (option)
      field = int(option);
    return success();
  }
  LogicalResult fix(std::optional<bool> &field, std::string_view name, const Option<std::string> &option) {
    if (option != "auto" && option != "true" && option != "false")
      return emitError(getOperation().getLoc())
             << spelled(name, '-') << " '" << option << "' is not one of true, false, auto";
    if (option != "auto")
      field = option == "true";
    return success();
  }

  /// The pass's options take precedence over the plan in the op's attribute.
  static PlanChoice choiceFor(attn::AttentionOp op, StringRef attribute, const PlanChoice &fixed) {
    PlanChoice choice;
    if (auto given = op->getAttrOfType<attn::PlanAttr>(attribute))
      choice = choiceOf(planOf(given));
    choice.overrule(fixed);
    return choice;
  }

  LogicalResult choose(attn::AttentionOp op, const PlanChoice &fixed) {
    PlanRequest request = planRequest(op, arch, {batch, heads, queries, keys});
    request.sramBudget = sramBudget;
    if (op.getGradients())
      return chooseBackward(op, request, fixed);
    request.fixed = choiceFor(op, attn::planAttr, fixed);
    Expected<RankedPlan> chosen = choosePlan(request);
    if (!chosen)
      return op.emitError() << chosen.error().message;
    op->setAttr(attn::planAttr, attune::planAttr(op.getContext(), chosen->plan));
    return success();
  }

  LogicalResult chooseBackward(attn::AttentionOp op, PlanRequest &request, const PlanChoice &fixed) {
    // Plans that the op has already are kept if no option fixes a field and the plans are candidates. Otherwise each
    // field of the op's plans that no option fixes is fixed to its value.
    if (std::optional<BackwardPlans> given = backwardPlansOf(op); given && !fixed.any()) {
      PlanRequest inOrder = request; // request with the order of tiles of work that the op's plans have
      inOrder.fixed.longestFirst = given->keys.longestFirst;
      const PlanChoice ofQueries{.longestFirst = given->queries.longestFirst};
      if (Expected<std::vector<BackwardPlans>> all = backwardPlans(inOrder, ofQueries);
          all && llvm::is_contained(*all, *given))
        return success();
    }
    request.fixed = choiceFor(op, attn::planAttr, fixed);
    std::optional<PlanChoice> ofQueries;
    if (op->hasAttr(attn::queriesPlanAttr))
      ofQueries = choiceFor(op, attn::queriesPlanAttr, fixed);
    Expected<BackwardPlans> chosen = chooseBackwardPlans(request, ofQueries);
    if (!chosen)
      return op.emitError() << chosen.error().message;
    setBackwardPlans(op, *chosen);
    return success();
  }
};
} // namespace
