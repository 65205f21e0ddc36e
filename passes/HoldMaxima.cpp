//===- HoldMaxima.cpp - A row keeps its maximum until an element is far above it ---===//
//
// The softmax subtracts a row's maximum so that exp2 does not overflow; any number near it serves as well, as it leaves with the division by the sum. So m becomes
// the maximum of some of the keys so far, in units of the exponent, and moves only when a row of the warp has an element that is above it by the headroom:
//
//     d = c x - m                                          in place of x
//     peak = greatest d of the lane                        by the bits (`tile.reduce peak`): half the instructions, and right where it is positive
//     moves = any lane has peak >= headroom, or m = -inf
//     rise = moves ? max(d over k, 0) : 0                  from here on lanes exchange
//     m, d, alpha = m + rise, d - rise, exp2(-rise)
//     p = exp2(d);  l = l * alpha + sum(p);  O = O * alpha + p V
//
// Most tiles so need no maximum, no exchange between lanes and no rescaling of O. Where no key has been visible m is -inf, and 0 takes its place. As some key is
// at m, or was, sums stay at 1 or above.
//
// A headroom of 64 bits leaves O and l room in float32 for more keys than memory holds, and bf16 has its exponents. Not for f16: P has no more than 5 bits of them, and
// where m rises far in a tile, d is rounded before it comes near 0: by 2^-24 of the rise, which bf16 hides (1e-3 of P at logits of 1e4) and f16 does not.
//
// Where O is wider than the tile of keys, so that rescaling it takes more multiplications than there are exponentials, and the softmax of a tile runs beside the
// products of its neighbours (`overlap`). Not in the first tile, whose maximum moves in any case; nor where tiles follow from tensors' bounds, as such loops are
// short, and code is what they wait for; nor where the score counts positions, as ALiBi: it rises along the keys by more than the headroom a tile.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Constants.h"
#include "passes/Maps.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace attune {
#define GEN_PASS_DEF_HOLDMAXIMA
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr float headroom = 64;

/// A loop's softmax.
struct Softmax {
  unsigned carried = 0; ///< index of the maximum among what the loop carries
  tile::ReduceOp maximum;
  tile::MapOp base;         ///< the maximum, or 0 where there is none
  tile::MapOp exponentials;
  float factor = 0;         ///< of the difference to the maximum in the exponent
  tile::MapOp alpha;        ///< by what the maximum's move changes the exponentials before
  tile::MapOp sum, output;  ///< the carried sum and accumulator, times alpha
};

/// The constant c of exp2(c * x - c * m), as tile-fold-softmax-scale writes it for bf16.
std::optional<float> exponentFactor(tile::MapOp exponentials) {
  auto exp = exponentials.getYield().getValues().front().getDefiningOp<math::Exp2Op>();
  auto fma = exp ? exp.getOperand().getDefiningOp<math::FmaOp>() : nullptr;
  return fma && fma.getA() == exponentials.getElement(0) ? constantFloat(fma.getB()) : std::nullopt;
}

std::optional<Softmax> match(sched::ForTilesOp loop) {
  Softmax softmax;
  for (auto [next, argument] : llvm::zip(loop.getNext().getValues(), loop.getBody().getArguments()))
    if (auto reduce = next.getDefiningOp<tile::ReduceOp>(); reduce && reduce.getKind() == tile::Reduction::Max && reduce.getInit() == argument) {
      softmax.carried = argument.getArgNumber();
      softmax.maximum = reduce;
    }
  if (!softmax.maximum)
    return std::nullopt;
  for (Operation *user : softmax.maximum.getResult().getUsers())
    if (auto map = dyn_cast<tile::MapOp>(user))
      softmax.base = map;
  if (!softmax.base || llvm::range_size(softmax.maximum.getResult().getUsers()) != 2)
    return std::nullopt;
  for (Operation *user : softmax.base.getResult().getUsers()) {
    auto map = dyn_cast<tile::MapOp>(user);
    if (!map || map.getInputs().size() != 2 || map.getInputs()[1] != softmax.base.getResult())
      return std::nullopt;
    (cast<TileType>(map.getResult().getType()).rank() == 1 ? softmax.alpha : softmax.exponentials) = map;
  }
  if (!softmax.alpha || !softmax.exponentials || llvm::range_size(softmax.base.getResult().getUsers()) != 2 ||
      softmax.alpha.getInputs()[0] != softmax.maximum.getInit() || softmax.exponentials.getInputs()[0] != softmax.maximum.getTile())
    return std::nullopt;
  std::optional<float> factor = exponentFactor(softmax.exponentials);
  if (!factor || !(*factor > 0))
    return std::nullopt;
  softmax.factor = *factor;
  for (Operation *user : softmax.alpha.getResult().getUsers()) {
    auto map = dyn_cast<tile::MapOp>(user);
    if (!map || rescaleFactor(map) != softmax.alpha.getResult())
      return std::nullopt;
    (cast<TileType>(map.getResult().getType()).rank() == 1 ? softmax.sum : softmax.output) = map;
  }
  if (!softmax.sum || !softmax.output || llvm::range_size(softmax.alpha.getResult().getUsers()) != 2)
    return std::nullopt;
  return softmax;
}

class Rewriter {
public:
  Rewriter(sched::ForTilesOp loop, Softmax softmax) : loop(loop), softmax(softmax), builder(softmax.maximum), loc(softmax.maximum.getLoc()) {}

  void run() {
    tile::ReduceOp maximum = softmax.maximum;
    Type rows = maximum.getResult().getType(), elements = maximum.getTile().getType();
    Value held = maximum.getInit(), sum = softmax.sum.getInputs()[0], output = softmax.output.getInputs()[0];
    Value zero = constant(0), none = constant(-INFINITY), all = constant(INFINITY), factor = constant(softmax.factor);
    auto isNone = [&](Value m) { return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, m, none); };
    auto select = [&](Value condition, Value a, Value b) -> Value { return arith::SelectOp::create(builder, loc, condition, a, b); };
    auto atLeastZero = [&](Value a) { return arith::MaxNumFOp::create(builder, loc, a, zero); };
    // From no key to the first the way may be down; there is nothing to rescale then.
    auto rescaled = [&](ValueRange v) -> Value {
      Value alpha = math::Exp2Op::create(builder, loc, arith::NegFOp::create(builder, loc, atLeastZero(v[1])));
      return arith::MulFOp::create(builder, loc, v[0], alpha);
    };

    Value base = map("m_base", rows, held, {}, [&](ValueRange v) { return select(isNone(v[0]), zero, v[0]); });
    Value distance = map("d", elements, {maximum.getTile(), base}, {}, [&](ValueRange v) -> Value {
      return math::FmaOp::create(builder, loc, v[0], factor, arith::NegFOp::create(builder, loc, v[1]));
    });
    Value peak = tile::named(tile::ReduceOp::create(builder, loc, rows, tile::Reduction::Peak, distance, "k", Value(), Value(), /*per_lane=*/true), "peak");
    Value above = map("above", rows, {peak, held}, {}, [&](ValueRange v) { return select(isNone(v[1]), all, v[0]); });
    // Unordered: a NaN moves it.
    Value moves = createAny(builder, loc, "moves", above, arith::CmpFPredicate::UGE, headroom);
    // Side by side, and each in place of its first input: one branch. A peak is an element, which the maximum may start from.
    Value rise = tile::named(tile::ReduceOp::create(builder, loc, rows, tile::Reduction::Max, distance, "k", peak, moves, /*per_lane=*/false), "rise");
    Value next = map("m", rows, {held, rise}, moves, [&](ValueRange v) {
      return select(isNone(v[0]), v[1], arith::AddFOp::create(builder, loc, v[0], atLeastZero(v[1])));
    });
    rise = map("rise", rows, {rise, next, base}, moves, [&](ValueRange v) {
      return select(isNone(v[1]), zero, arith::SubFOp::create(builder, loc, v[1], v[2]));
    });
    distance = map("d", elements, {distance, rise}, moves, [&](ValueRange v) -> Value { return arith::SubFOp::create(builder, loc, v[0], v[1]); });
    sum = map("l", rows, {sum, rise}, moves, rescaled);
    Value p = map(tile::nameOf(softmax.exponentials.getResult()), elements, distance, {},
                  [&](ValueRange v) -> Value { return math::Exp2Op::create(builder, loc, v[0]); });

    builder.setInsertionPoint(softmax.output); // behind the wait for what it multiplies
    output = map("acc", output.getType(), {output, rise}, moves, rescaled);

    softmax.exponentials.replaceAllUsesWith(p);
    softmax.sum.replaceAllUsesWith(sum);
    softmax.output.replaceAllUsesWith(output);
    loop.getNext().getValuesMutable()[softmax.carried].set(next);
    for (tile::MapOp map : {softmax.exponentials, softmax.sum, softmax.output, softmax.alpha, softmax.base})
      map.erase();
    maximum.erase();

    // Around the loop m is in the units of x.
    auto scaled = [&](Value m, float by) {
      Value constantBy = constant(by);
      return map("m", rows, m, {}, [&](ValueRange v) -> Value { return arith::MulFOp::create(builder, loc, v[0], constantBy); });
    };
    builder.setInsertionPoint(loop);
    const unsigned scalars = loop.getInits().size(), tile = softmax.carried - scalars;
    loop.getTilesMutable()[tile].set(scaled(loop.getTiles()[tile], softmax.factor));
    builder.setInsertionPointAfter(loop);
    Value result = loop.getResult(tile), converted = scaled(result, 1 / softmax.factor);
    result.replaceAllUsesExcept(converted, converted.getDefiningOp());
  }

private:
  Value constant(float value) { return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value)); }

  Value map(StringRef name, Type type, ValueRange inputs, Value onlyIf, function_ref<Value(ValueRange)> body) {
    return createMap(builder, loc, name, type, inputs, body, onlyIf);
  }

  sched::ForTilesOp loop;
  Softmax softmax;
  OpBuilder builder;
  Location loc;
};

struct HoldMaxima : attune::impl::HoldMaximaBase<HoldMaxima> {
  using HoldMaximaBase::HoldMaximaBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      const bool wide = int64_t(kernel.getHeadDimV()) > kernel.getPlan().getTileK();
      if (!wide || !kernel.getDtype().isBF16() || !kernel.getPlan().getOverlap() || !kernel.getBounds().empty() || countsPositions(kernel))
        continue;
      kernel.walk([&](sched::ForTilesOp loop) {
        // The loop around it has the first tile.
        if (!loop->getParentOfType<sched::ForTilesOp>())
          return;
        if (std::optional<Softmax> softmax = match(loop))
          Rewriter(loop, *softmax).run();
      });
    }
  }

  /// Whether the score is a function of positions as numbers, as ALiBi's: it rises along the keys, and m would move in each tile of many heads.
  static bool countsPositions(tile::KernelOp kernel) {
    return kernel.walk([](arith::SIToFPOp) { return WalkResult::interrupt(); }).wasInterrupted();
  }
};

} // namespace
