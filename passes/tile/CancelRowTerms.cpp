//===- CancelRowTerms.cpp - Cancel terms of the score that depend on the row alone ---===//
//
// A term r of the score that depends on the query alone cancels in the softmax: exp(x + r - max(x + r)) = exp(x -
// max(x)). Only the LSE keeps the term. tile-split-relative-positions writes a relative-position bias as u * (column -
// row). This pass moves the row part to the LSE, so that an element costs one multiply-add.
//
// The formula rounds u * (k - q). This pass rounds u * (k - q0), where q0 is the tile's first query, and a
// warpgroup-level product whose accumulator starts from the bias truncates at each of D / 16 steps. Let s' be the sum
// of product and bias in the accumulator. The additional error of s' is at most 2^-23 * |u| * tile_q * D / 16. For bf16
// inputs this error is within the bound of fast math, 2^-9, up to |u| = 2^3 at D 256 even where s' is 1. For larger
// |u|, the biases of neighbouring keys differ by more than the errors. f16 kernels keep the formula.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/score/MapPatterns.h"
#include "passes/analysis/score/ScoreFlow.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"

namespace attune {
#define GEN_PASS_DEF_CANCELROWTERMS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

/// u * (column - row), one of the terms that a map adds up; `negated` for u * (row - column).
struct DistanceTerm {
  arith::MulFOp product;
  Value factor;
  BlockArgument column;
  bool negated;
};

/// Returns `value` if it is the map's coordinate of type f32 along `axis`, else null.
BlockArgument floatCoordinate(tile::MapOp map, Value value, StringRef axis) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &map.getBody().front() || argument.getArgNumber() < map.getInputs().size() ||
      !value.getType().isF32())
    return {};
  auto name = cast<StringAttr>(map.getAxes()[argument.getArgNumber() - map.getInputs().size()]);
  return name == axis ? argument : BlockArgument();
}

std::optional<DistanceTerm> matchDistance(tile::MapOp map) {
  SmallVector<Value> terms{map.getYield().getValues().front()};
  while (!terms.empty()) {
    Value term = terms.pop_back_val();
    if (auto sum = term.getDefiningOp<arith::AddFOp>(); sum && sum->hasOneUse())
      terms.append({sum.getLhs(), sum.getRhs()});
    auto product = term.getDefiningOp<arith::MulFOp>();
    if (!product || !product->hasOneUse() || product.getResult() == map.getYield().getValues().front())
      continue;
    for (auto [factor, distance] :
         {std::pair(product.getLhs(), product.getRhs()), std::pair(product.getRhs(), product.getLhs())}) {
      auto difference = distance.getDefiningOp<arith::SubFOp>();
      if (!difference || map.getBody().isAncestor(factor.getParentRegion()))
        continue;
      for (bool negated : {false, true}) {
        BlockArgument column = floatCoordinate(map, negated ? difference.getRhs() : difference.getLhs(), "k");
        if (column && floatCoordinate(map, negated ? difference.getLhs() : difference.getRhs(), "q"))
          return DistanceTerm{product, factor, column, negated};
      }
    }
  }
  return std::nullopt;
}

struct CancelRowTerms : attune::impl::CancelRowTermsBase<CancelRowTerms> {
  using CancelRowTermsBase::CancelRowTermsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (kernel.getPrecise() || !kernel.getDtype().isBF16())
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
    // Maps after the loop that read scores or maxima, such as the one of the LSE, must undo the shift of the scores.
    llvm::SetVector<tile::MapOp> readers;
    ScoreFlow flow([](float constant) { return std::isinf(constant); });
    auto onMap = [&](tile::MapOp user, OpOperand &use) {
      if (!isa<tile::ForBlocksOp>(user->getParentOp())) {
        readers.insert(user);
        return ScoreFlow::Step::Ends;
      }
      // The exponent (x - m) * c is unchanged when x and m move by the same amount.
      if (exponentFactor(user)) {
        flow.require(user.getInputs());
        return ScoreFlow::Step::Ends;
      }
      return flow.onlySelects(user, use) ? ScoreFlow::Step::Carries : ScoreFlow::Step::Refuses;
    };
    if (!map.isWhole() || !flow.follow(map.getResult(), onMap))
      return;
    // u * column, or -u * column: the sign goes into the factor u, which is computed once per block.
    OpBuilder before(map);
    Location loc = term.product.getLoc();
    Value factor = term.factor;
    if (term.negated)
      factor = arith::NegFOp::create(before, loc, factor);
    OpBuilder inside(term.product);
    Value column = arith::MulFOp::create(inside, loc, factor, term.column);
    term.product.replaceAllUsesWith(column);
    term.product.erase();
    tile::explain(map, "the term of the row cancels in the softmax, that of the column stays");
    for (tile::MapOp reader : readers) {
      tile::explain(reader, "with the term of the row, which cancelled in the softmax");
      OpBuilder outer(reader);
      if (term.negated)
        factor = arith::NegFOp::create(outer, loc, term.factor);
      Value zero = arith::ConstantOp::create(outer, loc, outer.getF32FloatAttr(0));
      BlockArgument row = reader.addCoordinate("q", zero);
      OpBuilder inner = OpBuilder::atBlockBegin(&reader.getBody().front());
      Value shift = arith::MulFOp::create(inner, loc, factor, row);
      for (auto [i, input] : llvm::enumerate(reader.getInputs()))
        if (flow.reaches(input)) {
          // The maximum of a row without visible keys stays -inf.
          auto unshifted = arith::SubFOp::create(inner, loc, reader.getElement(i), shift);
          reader.getElement(i).replaceAllUsesExcept(unshifted, unshifted);
        }
    }
  }
};

} // namespace
