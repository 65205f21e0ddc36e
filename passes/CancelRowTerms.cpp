//===- CancelRowTerms.cpp - A score's row terms leave the softmax -------------===//
//
// A term of the score that depends on the query alone cancels in the softmax: exp(x + r - max(x + r)) = exp(x - max(x)). Only the
// LSE keeps it. So a bias u * (k - q), as ALiBi's, splits at the tile's first query q0 into
//
//     u * (k - q)  =  u * (k - q0)  -  u * (q - q0)
//                     column           row
//
// The column part is one value for all rows of a lane, so that an element costs one multiply-add and no conversion to float; the row
// part moves to the LSE. The split rounds twice where the formula rounds once, at magnitudes within a tile's height of it.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"

#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Matchers.h"

namespace attune {
#define GEN_PASS_DEF_CANCELROWTERMS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

/// A map whose result ends in `rest + factor * (k - q)`, or (q - k) with `negated`.
struct DistanceTerm {
  arith::AddFOp sum;
  Value rest, factor;
  bool negated;
};

std::optional<DistanceTerm> matchDistance(tile::MapOp map) {
  Value q = map.getCoordinate("q"), k = map.getCoordinate("k");
  auto sum = map.getYield().getValues().front().getDefiningOp<arith::AddFOp>();
  if (!q || !k || !sum)
    return std::nullopt;
  for (auto [term, rest] : {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())}) {
    auto product = term.getDefiningOp<arith::MulFOp>();
    if (!product)
      continue;
    for (auto [factor, distance] : {std::pair(product.getLhs(), product.getRhs()), std::pair(product.getRhs(), product.getLhs())}) {
      auto convert = distance.getDefiningOp<arith::SIToFPOp>();
      auto difference = convert ? convert.getIn().getDefiningOp<arith::SubIOp>() : nullptr;
      if (!difference || !difference.getType().isInteger(32) || map.getBody().isAncestor(factor.getParentRegion()))
        continue;
      if (difference.getLhs() == k && difference.getRhs() == q)
        return DistanceTerm{sum, rest, factor, false};
      if (difference.getLhs() == q && difference.getRhs() == k)
        return DistanceTerm{sum, rest, factor, true};
    }
  }
  return std::nullopt;
}

std::optional<float> constantFloat(Value value) {
  FloatAttr attribute;
  if (!value.getType().isF32() || !matchPattern(value, m_Constant(&attribute)))
    return std::nullopt;
  return attribute.getValue().convertToFloat();
}

/// exp2(a * c + b * -c): unchanged when both inputs move by the same amount.
bool isExponentOfDifference(tile::MapOp map) {
  auto exp = map.getYield().getValues().front().getDefiningOp<math::Exp2Op>();
  auto fma = exp ? exp.getOperand().getDefiningOp<math::FmaOp>() : nullptr;
  auto shift = fma ? fma.getC().getDefiningOp<arith::MulFOp>() : nullptr;
  if (!shift || map.getInputs().size() != 2 || fma.getA() != map.getElement(0) || shift.getLhs() != map.getElement(1))
    return false;
  std::optional<float> scale = constantFloat(fma.getB()), negative = constantFloat(shift.getRhs());
  return scale && negative && *scale == -*negative;
}

/// Whether `map` returns `argument` or 0 or -inf, as the mask and the guard of the maximum do.
bool onlySelects(tile::MapOp map, Value argument) {
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    auto isInfinity = [](Value v) {
      std::optional<float> constant = constantFloat(v);
      return constant && std::isinf(*constant);
    };
    if (auto compare = dyn_cast<arith::CmpFOp>(user))
      return isInfinity(compare.getRhs()) || isInfinity(compare.getLhs());
    auto select = dyn_cast<arith::SelectOp>(user);
    return select && select.getResult() == map.getYield().getValues().front() && select.getCondition() != argument;
  });
}

/// Follows the shifted scores to what must undo the shift: the maps after the loop.
class ShiftFlow {
public:
  bool follow(Value source) {
    shifted.insert(source);
    for (unsigned i = 0; i < shifted.size(); ++i)
      for (OpOperand &use : shifted[i].getUses())
        if (!visit(use))
          return false;
    return llvm::all_of(together, [&](Value value) { return shifted.contains(value); });
  }

  llvm::SetVector<tile::MapOp> readers;
  llvm::SetVector<Value> shifted;

private:
  bool visit(OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto map = dyn_cast<tile::MapOp>(user)) {
      if (use.getOperandNumber() >= map.getInputs().size())
        return false;
      if (!isa<tile::ForBlocksOp>(map->getParentOp())) {
        readers.insert(map);
        return true;
      }
      if (isExponentOfDifference(map)) {
        llvm::append_range(together, map.getInputs());
        return true;
      }
      if (!onlySelects(map, map.getElement(use.getOperandNumber())))
        return false;
      shifted.insert(map.getResult());
      return true;
    }
    if (auto reduce = dyn_cast<tile::ReduceOp>(user)) {
      if (reduce.getKind() != tile::Reduction::Max)
        return false;
      together.push_back(reduce.getTile());
      if (reduce.getInit())
        together.push_back(reduce.getInit());
      shifted.insert(reduce.getResult());
      return true;
    }
    auto yield = dyn_cast<tile::YieldOp>(user);
    auto loop = yield ? dyn_cast<tile::ForBlocksOp>(yield->getParentOp()) : nullptr;
    if (!loop)
      return false;
    auto init = loop.getInits()[use.getOperandNumber()].getDefiningOp<tile::SplatOp>();
    std::optional<float> start = init ? constantFloat(init.getValue()) : std::nullopt;
    if (!start || !std::isinf(*start))
      return false;
    shifted.insert(loop.getCarried()[use.getOperandNumber()]);
    shifted.insert(loop.getResult(use.getOperandNumber()));
    return true;
  }

  SmallVector<Value> together;
};

struct CancelRowTerms : attune::impl::CancelRowTermsBase<CancelRowTerms> {
  using CancelRowTermsBase::CancelRowTermsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (kernel.getPrecise() || kernel.getDtype().isF32())
        continue;
      SmallVector<tile::MapOp> maps;
      kernel.walk([&](tile::MapOp map) {
        if (isa<tile::ForBlocksOp>(map->getParentOp()) && cast<TileType>(map.getResult().getType()).rank() == 2)
          maps.push_back(map);
      });
      for (tile::MapOp map : maps)
        if (std::optional<DistanceTerm> term = matchDistance(map))
          cancel(map, *term);
    }
  }

  void cancel(tile::MapOp map, DistanceTerm term) {
    ShiftFlow flow;
    if (map.getOnlyIf() || !flow.follow(map.getResult()))
      return;
    Value origin = map.getOrigins()[map.getCoordinate("q").getArgNumber() - map.getInputs().size()];
    OpBuilder builder(term.sum);
    Location loc = term.sum.getLoc();
    // factor * (coordinate - origin), or its negative, as (k - q) or (q - k) has it.
    auto part = [&](OpBuilder &at, Value coordinate, bool negate) -> Value {
      Value distance = negate ? arith::SubIOp::create(at, loc, origin, coordinate) : arith::SubIOp::create(at, loc, coordinate, origin);
      return arith::MulFOp::create(at, loc, term.factor, arith::SIToFPOp::create(at, loc, at.getF32Type(), distance));
    };
    Value column = part(builder, map.getCoordinate("k"), term.negated);
    map.getYield().getValuesMutable()[0].set(arith::AddFOp::create(builder, loc, term.rest, column));
    for (tile::MapOp reader : flow.readers) {
      OpBuilder outer(reader);
      auto renewed = tile::MapOp::create(outer, reader.getLoc(), reader.getResult().getType(), reader.getInputs(),
                                         {{StringRef("q"), origin}});
      renewed->setDiscardableAttrs(reader->getDiscardableAttrDictionary());
      OpBuilder inner = OpBuilder::atBlockEnd(&renewed.getBody().front());
      Value row = part(inner, renewed.getCoordinate("q"), !term.negated);
      IRMapping mapping;
      for (auto [i, input] : llvm::enumerate(reader.getInputs())) {
        Value element = renewed.getElement(i);
        // The maximum of a row without keys stays -inf.
        mapping.map(reader.getElement(i), flow.shifted.contains(input) ? Value(arith::AddFOp::create(inner, loc, element, row)) : element);
      }
      for (Operation &op : reader.getBody().front())
        inner.clone(op, mapping);
      reader.getResult().replaceAllUsesWith(renewed.getResult());
      reader.erase();
    }
  }
};

} // namespace
