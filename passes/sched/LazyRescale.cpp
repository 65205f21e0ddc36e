//===- LazyRescale.cpp - Lazy rescaling of the softmax ---===//
//
// The softmax subtracts a row's maximum m so that exp2 does not overflow. The maximum of an earlier part of the keys
// serves as well, because m cancels in the division by the sum. So m is kept, and the tile's sum of exponentials, which
// is needed anyway, shows whether the exponentials stayed in range:
//
//     before                                        after
//     --------------------------------------        -------------------------------------------------------------
//     m' = max(m, max(x))                           p = exp2((x - m) c); P = convert(p); sum = sum(p) of a lane
//     p = exp2((x - m') c); P = convert(p)          l' = l + sum
//     l' = l alpha + sum(p)                         if a lane of the warp has a sum of 2^15 or more, or a NaN:
//     O' = O alpha                                    the code on the left instead
//
// Most tiles then need no maximum, no exchange between lanes and no rescaling. 2^15 is in range for P in f16, and far
// below the largest float32, which O and l must not exceed. Some earlier key has the score m and the exponential 1, so
// that l is at least 1.
//
// The exponentials on the right are exp2((x - m) c) for f16 and for `precise`. For bf16 the exponent is one FMA, exp2(c
// x + addend), and the loop carries the addend together with m (createAddend). Rows for which the addend's rounding
// would matter have an infinite addend: the row's sum is infinite, so every tile runs the code on the left. Where a row
// has had no visible key, m is the least finite float and the addend the greatest: masked keys give exp2(-inf) = 0, and
// the first visible key gives exp2(inf), so that its tile runs the code on the left and sets m.
//
// S must stay in registers after the exponentials, because the code on the left may need it. So the exponentials are
// written to P's registers at once, 16 columns at a time. The previous product with V still reads these registers, and
// the wait for that product moves before the exponentials. The product then overlaps with another warpgroup's softmax,
// not with its own: the pass is for kernels with ping-pong scheduling. Plans with dropout have no ping-pong, because
// dropout's arithmetic takes so long that an early wait costs more than it gains. Where the kernel has `sched.overlap`
// too, the wait is after the exponentials of the first half of the columns: these need none of P's registers, and are
// converted to P together with the others.
//
// The first tile is excluded, because it always updates the maximum. Kernels whose score depends on positions and that
// visit tiles in increasing order, as a search does, are excluded too: within each tile, ALiBi's bias grows along the
// keys by more than the range of the exponentials.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Constants.h"
#include "passes/analysis/score/MapPatterns.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace attune {
#define GEN_PASS_DEF_LAZYRESCALE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr float outOfRange = 32768;
constexpr float greatest = std::numeric_limits<float>::max();

/// The ops of a loop's softmax, from the maximum to P.
struct Softmax {
  tile::ReduceOp maximum;
  tile::MapOp base; ///< the maximum, or 0 where no key is visible
  tile::MapOp exponentials;
  tile::MapOp alpha;             ///< the factor by which a new maximum rescales earlier exponentials
  tile::MapOp sumBefore, output; ///< the carried sum and accumulator, times alpha
  tile::ReduceOp sum;
  tile::ConvertOp probability;
  sched::MmaWaitOp wait; ///< the wait for the product that updates the accumulator

  Value carriedSum() { return sumBefore.getInputs()[0]; }
  Value accumulator() { return output.getInputs()[0]; }

  /// The maximum and the ops that depend on it, except `base`, in program order.
  SmallVector<Operation *> ops() {
    SmallVector<Operation *> ops{maximum, exponentials, alpha, sumBefore, output, sum, probability};
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return ops;
  }

  /// The ops before `output` that wait for products or release ring stages, from `wait` on. If the op directly before
  /// `wait` waits for the next tile of V, the result starts with that op.
  SmallVector<Operation *> waits() {
    SmallVector<Operation *> waits;
    if (auto values = dyn_cast_or_null<sched::WaitOp>(wait->getPrevNode()))
      waits.push_back(values);
    for (Operation *op = wait; op != output; op = op->getNextNode())
      if (isa<sched::MmaWaitOp, sched::ReleaseOp>(op))
        waits.push_back(op);
    return waits;
  }
};

/// The users of `value`, if there are exactly `count` and all are in the same IR block as `value`.
std::optional<SmallVector<Operation *>> usersOf(Value value, size_t count) {
  SmallVector<Operation *> users(value.getUsers());
  const bool match = users.size() == count &&
                     llvm::all_of(users, [&](Operation *user) { return user->getBlock() == value.getParentBlock(); });
  return match ? std::optional(users) : std::nullopt;
}

template <typename Op> Op onlyUser(Value value) {
  auto users = usersOf(value, 1);
  return users ? dyn_cast<Op>(users->front()) : Op();
}

/// Whether `value` has two users only, a map that returns a vector and a map that returns a tile. Sets `vector` and
/// `tile` to these maps.
bool splitUsers(Value value, tile::MapOp &vector, tile::MapOp &tile) {
  auto users = usersOf(value, 2);
  if (!users)
    return false;
  for (Operation *user : *users)
    if (auto map = dyn_cast<tile::MapOp>(user))
      (cast<TileType>(map.getResult().getType()).rank() == 1 ? vector : tile) = map;
  return vector && tile;
}

std::optional<Softmax> match(sched::ForTilesOp loop) {
  Softmax softmax;
  for (auto [next, argument] : llvm::zip(loop.getNext().getValues(), loop.getBody().getArguments()))
    if (auto reduce = next.getDefiningOp<tile::ReduceOp>();
        reduce && reduce.getKind() == tile::Reduction::Max && reduce.getInit() == argument)
      softmax.maximum = reduce;
  auto users = softmax.maximum ? usersOf(softmax.maximum.getResult(), 2) : std::nullopt;
  if (!users)
    return std::nullopt;
  for (Operation *user : *users)
    if (auto map = dyn_cast<tile::MapOp>(user))
      softmax.base = map;
  if (!softmax.base || !splitUsers(softmax.base.getResult(), softmax.alpha, softmax.exponentials) ||
      softmax.exponentials.getInputs() != ValueRange{softmax.maximum.getTile(), softmax.base.getResult()} ||
      softmax.alpha.getInputs() != ValueRange{softmax.maximum.getInit(), softmax.base.getResult()} ||
      !exponentFactor(softmax.exponentials) ||
      !splitUsers(softmax.alpha.getResult(), softmax.sumBefore, softmax.output) ||
      rescaleFactor(softmax.sumBefore) != softmax.alpha.getResult() ||
      rescaleFactor(softmax.output) != softmax.alpha.getResult())
    return std::nullopt;
  softmax.sum = onlyUser<tile::ReduceOp>(softmax.sumBefore.getResult());
  users = usersOf(softmax.exponentials.getResult(), 2);
  if (!users || !softmax.sum || !softmax.sum.getPerLane() || softmax.sum.getTile() != softmax.exponentials.getResult())
    return std::nullopt;
  for (Operation *user : *users)
    if (auto convert = dyn_cast<tile::ConvertOp>(user))
      softmax.probability = convert;
  for (Operation *user : softmax.accumulator().getUsers())
    if (auto wait = dyn_cast<sched::MmaWaitOp>(user);
        wait && wait->getBlock() == softmax.output->getBlock() && wait->isBeforeInBlock(softmax.output))
      softmax.wait = wait;
  return softmax.probability && softmax.wait ? std::optional(softmax) : std::nullopt;
}

/// Whether the ops of the softmax (the row maximum and the ops that depend on it) can move into one branch. The branch
/// is at the position of the last op of the softmax; no other op may read results of the softmax before that position.
/// The waits for products move before the row maximum, so the awaited products must start before the row maximum. With
/// `overlap` the waits move after the last op of the softmax instead, and no other op may read results of the awaited
/// products before that point.
bool isInOneBlock(Softmax softmax, bool overlap) {
  const SmallVector<Operation *> moving = softmax.ops(), waits = softmax.waits();
  Operation *first = softmax.maximum, *last = moving.back();
  auto readBetween = [&](Value value, Operation *from) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *reader = first->getBlock()->findAncestorOpInBlock(*user);
      return reader && from->isBeforeInBlock(reader) && reader->isBeforeInBlock(last) && reader != softmax.base &&
             !llvm::is_contained(moving, reader) && !llvm::is_contained(waits, reader);
    });
  };
  auto hasBegun = [&](Value value) {
    Operation *producer = value.getDefiningOp();
    return !producer || producer->getBlock() != first->getBlock() || producer->isBeforeInBlock(first);
  };
  return llvm::none_of(moving, [&](Operation *op) { return readBetween(op->getResult(0), op); }) &&
         llvm::all_of(waits, [&](Operation *op) {
           return llvm::all_of(op->getOperands(), [&](Value operand) {
             return overlap ? isa<sched::WaitOp, sched::ReleaseOp>(op) || !readBetween(operand, op) : hasBegun(operand);
           });
         });
}

/// Inserts a copy of `map` before it that computes the first half of the columns, rounded down to a multiple of 16;
/// `map` then computes the other columns. A map of fewer than 32 columns is not split.
void splitFirstHalf(tile::MapOp map) {
  constexpr int64_t block = 16;
  const int64_t columns = map.getResult().getType().getShape().back(), half = columns / block / 2 * block;
  if (!half)
    return;
  OpBuilder builder(map);
  auto first = cast<tile::MapOp>(builder.clone(*map));
  first.setColumns(ArrayRef<int64_t>{0, half});
  map.setColumns(ArrayRef<int64_t>{half, columns});
  map.getInputsMutable().slice(0, 1).assign(first.getResult());
}

/// Adds a carried tile to the loop, as the last one. The caller appends the tile's next value to the operands of
/// `sched.next`.
sched::ForTilesOp carryTile(sched::ForTilesOp loop, Value init) {
  OpBuilder builder(loop);
  SmallVector<Value> tiles(loop.getTiles());
  tiles.push_back(init);
  auto wider =
      sched::ForTilesOp::create(builder, loop.getLoc(), loop.getInits(), loop.getBound(), tiles, loop.getKeeps());
  wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  Block &body = wider.getBody().front();
  for (auto [old, argument] : llvm::zip(loop.getBody().getArguments(), body.getArguments()))
    old.replaceAllUsesWith(argument);
  body.getOperations().splice(body.end(), loop.getBody().front().getOperations());
  const size_t results = loop.getTiles().size();
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    result.replaceAllUsesWith(wider.getResult(i < results ? i : i + 1));
  loop.erase();
  return wider;
}

/// The bound on |c m| below which the addend -c m of the FMA is rounded by at most 2^-11, less than the rounding of the
/// exponential to bf16. At and above the bound, the exponent is computed from the difference x - m instead.
constexpr float farExponent = 16384;

/// The addend of the exponent's FMA for a row of maximum m, for bf16: exp2(fma(c, x, addend)). An infinite exponential
/// makes the row's sum infinite, so that the tile runs the branch that updates the maximum and uses exact differences.
///
///     m                              addend
///     |c m| < 2^14                   -c m, rounded by at most 2^-11, less than the rounding of P
///     no visible key (m is least)    the greatest float: exp2 is 0 for masked keys, and infinite for the first visible
///                                    key, which thus updates the maximum. For c >= 1 the greatest float would not
///                                    exceed c x for every x, and the addend is infinity as in the next line
///     otherwise                      infinity: exp2 is infinite, and every tile updates the maximum
Value createAddend(OpBuilder &builder, Location loc, Value maximum, float factor) {
  return createMap(builder, loc, "addend", maximum.getType(), maximum, [&](ValueRange v) -> Value {
    auto constant = [&](float value) -> Value {
      return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
    };
    Value product = arith::MulFOp::create(builder, loc, v[0], constant(-factor));
    Value small = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                        math::AbsFOp::create(builder, loc, product), constant(farExponent));
    Value otherwise = constant(std::numeric_limits<float>::infinity());
    if (factor < 1) {
      Value none = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, v[0], constant(-greatest));
      otherwise = arith::SelectOp::create(builder, loc, none, constant(greatest), otherwise);
    }
    return arith::SelectOp::create(builder, loc, small, product, otherwise);
  });
}

/// Creates exp2(fma(x, c, addend)), which replaces exp2((x - m) * c).
tile::MapOp fuseExponents(OpBuilder &builder, tile::MapOp exponentials, Value addend, float factor) {
  Location loc = exponentials.getLoc();
  Value p = createMap(builder, loc, tile::nameOf(exponentials.getResult()), exponentials.getResult().getType(),
                      {exponentials.getInputs()[0], addend}, [&](ValueRange v) -> Value {
                        Value c = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(factor));
                        return math::Exp2Op::create(builder, loc, math::FmaOp::create(builder, loc, v[0], c, v[1]));
                      });
  return p.getDefiningOp<tile::MapOp>();
}

/// Starts the carried maximum from the least finite float instead of -inf, so that x - m is never NaN for x = -inf. If
/// `byAddend`, the loop also carries the addend that createAddend() computes from the maximum, as its last tile.
sched::ForTilesOp startFinite(sched::ForTilesOp loop, tile::ReduceOp maximum, float factor, bool byAddend) {
  Location loc = maximum.getLoc();
  const unsigned scalars = loop.getInits().size();
  OpBuilder before(loop);
  Value least = arith::ConstantOp::create(before, loc, before.getF32FloatAttr(-greatest));
  OpOperand &init = loop.getTilesMutable()[cast<BlockArgument>(maximum.getInit()).getArgNumber() - scalars];
  init.set(createMap(before, loc, tile::nameOf(init.get()), init.get().getType(), init.get(),
                     [&](ValueRange v) -> Value { return arith::MaxNumFOp::create(before, loc, v[0], least); }));
  return byAddend ? carryTile(loop, createAddend(before, loc, init.get(), factor)) : loop;
}

/// The softmax of a tile that does not update the running maximum.
struct KeptSoftmax {
  tile::MapOp exponentials;
  Value sum;         ///< the sum of the tile's exponentials
  Value carriedSum;  ///< the carried sum plus `sum`
  Value probability; ///< P, converted
};

/// Creates the softmax that does not update the running maximum. Its exponents are FMAs with `addend`, unless `addend`
/// is null.
KeptSoftmax createKept(OpBuilder &builder, Softmax softmax, Value addend, float factor) {
  tile::ReduceOp maximum = softmax.maximum;
  Location loc = maximum.getLoc();
  IRMapping held;
  held.map(softmax.base.getResult(), maximum.getInit());
  KeptSoftmax kept;
  kept.exponentials = addend ? fuseExponents(builder, softmax.exponentials, addend, factor)
                             : cast<tile::MapOp>(builder.clone(*softmax.exponentials, held));
  Value p = kept.exponentials.getResult();
  held.map(softmax.exponentials.getResult(), p);
  kept.sum = tile::named(tile::ReduceOp::create(builder, loc, maximum.getResult().getType(), tile::Reduction::Sum, p,
                                                maximum.getAxis(), Value(), /*per_lane=*/true),
                         "sum");
  builder.clone(*softmax.probability, held);
  kept.probability = held.lookup(softmax.probability.getResult());
  kept.carriedSum = createMap(builder, loc, tile::nameOf(softmax.sum.getResult()), kept.sum.getType(),
                              {softmax.carriedSum(), kept.sum},
                              [&](ValueRange v) -> Value { return arith::AddFOp::create(builder, loc, v[0], v[1]); });
  return kept;
}

/// Rewrites the softmax for lazy rescaling. `overlap`: the first half of the exponentials overlaps with the warpgroup's
/// own product with V. `byAddend`: the exponents are FMAs.
void keepMaximum(sched::ForTilesOp loop, Softmax softmax, bool overlap, bool byAddend) {
  tile::ReduceOp maximum = softmax.maximum;
  const float factor = *exponentFactor(softmax.exponentials);
  Location loc = maximum.getLoc();
  const SmallVector<Operation *> moving = softmax.ops();
  loop = startFinite(loop, maximum, factor, byAddend);
  Value addend = byAddend ? Value(loop.getBody().getArguments().back()) : Value();
  const SmallVector<Operation *> waits = softmax.waits();

  OpBuilder builder(loop.getContext());
  builder.setInsertionPointAfter(moving.back());
  KeptSoftmax kept = createKept(builder, softmax, addend, factor);
  // The comparison is unordered, so that a NaN also updates the maximum.
  Value moves = createAny(builder, loc, "moves", kept.sum, arith::CmpFPredicate::UGE, outOfRange);

  // The branch that updates the maximum runs the original ops; `base` is not needed, because the maximum is finite.
  softmax.base.getResult().replaceAllUsesWith(maximum.getResult());
  softmax.base.erase();
  SmallVector<Value> moved{maximum.getResult(), softmax.sum.getResult(), softmax.output.getResult(),
                           softmax.probability.getResult()};
  SmallVector<Value> stayed{maximum.getInit(), kept.carriedSum, softmax.accumulator(), kept.probability};
  if (byAddend) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(maximum);
    moved.push_back(createAddend(builder, loc, maximum.getResult(), factor));
    stayed.push_back(addend);
  }
  auto branch = scf::IfOp::create(builder, loc, TypeRange(ValueRange(moved)), moves, /*withElseRegion=*/true);
  // The wait stays before the branch: the warps of a warpgroup may diverge in the branch, and a wait is for the whole
  // warpgroup.
  if (overlap)
    splitFirstHalf(kept.exponentials);
  for (Operation *op : waits)
    if (overlap || maximum->isBeforeInBlock(op))
      op->moveBefore(overlap ? kept.exponentials.getOperation() : maximum.getOperation());
  // All ops that depend on the maximum move into the branch.
  SmallVector<Operation *> inside(moving);
  if (byAddend)
    inside.insert(llvm::find(inside, maximum.getOperation()) + 1, moved.back().getDefiningOp());
  for (auto [value, result] : llvm::zip(moved, branch.getResults()))
    Value(value).replaceUsesWithIf(result, [&](OpOperand &use) { return !llvm::is_contained(inside, use.getOwner()); });
  for (Operation *op : inside)
    op->moveBefore(branch.thenBlock(), branch.thenBlock()->end());
  builder.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(builder, loc, moved);
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, loc, stayed);
  if (byAddend) {
    sched::NextOp next = loop.getNext();
    next.getValuesMutable().append(branch.getResults().back());
  }
}

struct LazyRescale : attune::impl::LazyRescaleBase<LazyRescale> {
  using LazyRescaleBase::LazyRescaleBase;

  static bool isMaximum(tile::ReduceOp reduce) { return reduce.getKind() == tile::Reduction::Max; }

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel->hasAttr(sched::pingPongAttr) || !holds<tile::ReduceOp>(kernel, isMaximum))
        continue;
      if (holds<arith::SIToFPOp>(kernel) && holds<sched::NextVisibleOp>(kernel)) {
        tile::remark(kernel, "rows take the maximum of every tile: the score counts positions, and tiles that follow "
                             "from a search are visited forwards");
        continue;
      }
      kernel.walk([&](sched::ForTilesOp loop) {
        // Only the inner loop is rewritten; the loop around it runs the peeled first tile.
        if (!loop->getParentOfType<sched::ForTilesOp>())
          return;
        std::optional<Softmax> softmax = match(loop);
        if (softmax && isInOneBlock(*softmax, kernel->hasAttr(sched::overlapAttr)))
          keepMaximum(loop, *softmax, kernel->hasAttr(sched::overlapAttr),
                      kernel.getDtype().isBF16() && !kernel.getPrecise());
        else if (softmax)
          tile::remark(kernel,
                       "rows take the maximum of every tile: the schedule has other ops among those that follow "
                       "from it, which read them, or are waited for");
        else if (holds<tile::ReduceOp>(loop, isMaximum))
          tile::remark(kernel, "rows take the maximum of every tile: what follows from it is not exp2 of what exceeds "
                               "it, times a constant, with a sum and an accumulator that are rescaled");
      });
    }
  }
};

} // namespace
