//===- TileGradients.cpp - S, x, P, dP and dS of a tile of queries and keys ---===//

#include "passes/attn/backward/TileGradients.h"

#include "passes/attn/CommonValues.h"

namespace attune::backward {

//===----------------------------------------------------------------------===//
// Values of a row
//===----------------------------------------------------------------------===//

Value isEmpty(KernelFrame &frame, Value lse) {
  return frame.compare(arith::CmpFPredicate::OEQ, lse, frame.constant(maskedScore));
}

SmallVector<Value> statisticsOf(KernelFrame &frame, Value maximum, Value sum) {
  SmallVector<Value> arguments{frame.b, frame.h};
  for (auto statistic : frame.op.getStatistics().getAsRange<attn::RowStatisticAttr>())
    arguments.push_back(statistic.getIsMax() ? maximum : sum);
  return arguments;
}

SmallVector<Value> atLse(KernelFrame &frame, Value lse) {
  return statisticsOf(frame, lse, frame.select(isEmpty(frame, lse), frame.constant(0), frame.constant(1)));
}

RowViews declareRows(KernelFrame &frame, bool withDelta) {
  if (!frame.program.hasStatistics())
    return {};
  Value logs =
      frame.program.hasSink() ? frame.rows("log_divisor", OperandRole::Workspace) : frame.rows("lse", OperandRole::In);
  return {logs, withDelta ? frame.rows("delta", OperandRole::Workspace) : Value()};
}

static Value baseOf(KernelFrame &frame, Value logs) {
  return frame.map("base", logs.getType(), logs,
                   [&](ValueRange x) { return frame.valueOf(frame.op.getBase(), atLse(frame, x[0])); });
}

RowValues loadRowValues(KernelFrame &frame, const RowViews &views, Value q0, bool givesValues, bool withBase) {
  if (!views.logs)
    return {};
  RowValues rows;
  rows.logs = frame.loadRows("lse", views.logs, q0);
  if (withBase)
    rows.base = baseOf(frame, rows.logs);
  if (views.delta)
    rows.delta = frame.loadRows("delta", views.delta, q0);
  if (rows.delta && frame.program.splitsGradient() && !givesValues)
    rows.delta = frame.map("delta", rows.delta.getType(), rows.delta,
                           [&](ValueRange x) { return frame.multiply(x[0], frame.constant(0.5f)); });
  return rows;
}

//===----------------------------------------------------------------------===//
// Masks and dropout
//===----------------------------------------------------------------------===//

/// Masks a tile. A cut, a condition that ends each row's visible keys at one side (q >= k), is applied in the tiles
/// that it crosses; the rest of the mask is applied in partial tiles. Masked elements become `masked`. Sets
/// ScoreTile::isMasked.
static Value maskTile(KernelFrame &frame, ScoreTile &of, Value tile, float masked) {
  const bool overKeys = frame.values.fixed() == MaskAxis::Queries;
  const MaskSplit &mask = of.at.mask;
  Value looped = overKeys ? of.at.k0 : of.at.q0;
  auto alsoMaskedIf = [&](Value condition) {
    of.isMasked = of.isMasked ? arith::OrIOp::create(frame.builder, of.isMasked, condition).getResult() : condition;
    return condition;
  };
  auto endsAfter = [&](Value first, Value end) {
    const int64_t size = frame.tileOf(first == of.at.k0 ? "k" : "q");
    return frame.compare(Predicate::sgt, frame.add(first, frame.number(size)), end);
  };
  for (const MaskCut &cut : mask.cuts) {
    Value crossed =
        cut.fullBegin ? frame.compare(Predicate::slt, looped, cut.fullBegin) : endsAfter(looped, cut.fullEnd);
    tile = hideCut(frame, tile, frame.values, cut, of.origin, looped, alsoMaskedIf(crossed), masked);
  }
  // K rows past the last key must not contribute to dQ.
  if (frame.program.accumulatesDq() && !overKeys) {
    Value ends = alsoMaskedIf(endsAfter(of.at.k0, frame.values.Sk));
    auto exists = [&](Value, Value k) { return frame.compare(Predicate::slt, k, frame.values.Sk); };
    tile = hide(frame, tile, {frame.number(0), of.at.k0}, ends, exists, masked);
  }
  const bool lookUp = patternNeedsElementMask(frame.op, frame.plan.getTileQ(), frame.plan.getTileK());
  if (mask.isCutsAlone() && !lookUp)
    return tile;
  SmallVector<Conjunct> byElement = mask.rest;
  byElement.append(mask.unions);
  auto visible = [&](Value q, Value k) { return isVisible(frame, byElement, lookUp, q, k); };
  return hide(frame, tile, of.origin, alsoMaskedIf(of.at.partial), visible, masked);
}

/// Flips the sign bit of dropped elements: a select between x and -x would take one instruction more.
static Value negatedUnless(KernelFrame &frame, Value isKept, Value x) {
  auto &builder = frame.builder;
  Value isDropped = arith::XOrIOp::create(builder, arith::ExtUIOp::create(builder, frame.i32, isKept), frame.number(1));
  Value sign = arith::ShLIOp::create(builder, isDropped, frame.number(31));
  Value bits = arith::XOrIOp::create(builder, arith::BitcastOp::create(builder, frame.i32, x), sign);
  return arith::BitcastOp::create(builder, frame.f32, bits);
}

/// Applies dropout to `tile`, P or dP, by the flags that the forward pass saved or, if it saved none, by the random
/// generator. Dropped elements become 0 or, with `negates`, negative.
static Value dropped(KernelFrame &frame, const ScoreTile &of, Value tile, StringRef name, bool negates = false) {
  if (!frame.op.getDropout())
    return tile;
  if (!of.kept)
    return dropTile(frame, frame.dropout, name, tile, of.at.q0, of.at.k0, /*kept=*/false, negates).getResult();
  return frame.map(name, tile.getType(), {tile, of.kept}, [&](ValueRange x) {
    return negates ? negatedUnless(frame, x[1], x[0]) : frame.select(x[1], x[0], frame.constant(0));
  });
}

/// Whether dropped elements of this tile's P are marked by their sign. Otherwise dP is set to 0 at dropped elements.
static bool marksDropped(KernelFrame &frame, const ScoreTile &tile) {
  return tile.at.givesValues && frame.program.marksDropped();
}
static Value isDropped(KernelFrame &frame, Value p) {
  return frame.compare(arith::CmpFPredicate::OLT, p, frame.constant(0));
}

Value keptWeights(KernelFrame &frame, const ScoreTile &tile) {
  if (!marksDropped(frame, tile))
    return dropped(frame, tile, tile.p, "p");
  return frame.map("p", tile.p.getType(), tile.p, [&](ValueRange x) -> Value {
    if (!frame.program.splitsGradient())
      return frame.select(isDropped(frame, x[0]), frame.constant(0), x[0]);
    // tile-fold-rectifiers would fold maximumf into the rounding to bf16. With warpgroup-level products at D 64, ptxas
    // then runs out of registers and serialises the products (warning C7512). maxnumf, which returns 0 for NaN, is not
    // folded.
    if (frame.program.hasRoles(frame.program.keysPlan))
      return arith::MaxNumFOp::create(frame.builder, x[0], frame.constant(0));
    return arith::MaximumFOp::create(frame.builder, x[0], frame.constant(0));
  });
}

void hideWeights(KernelFrame &frame, ScoreTile &tile) {
  if (frame.program.hasStatistics())
    tile.p = maskTile(frame, tile, tile.p, 0);
}

/// The weights P of a tile of scores x.
static Value weightsOf(KernelFrame &frame, Value x, Value base) {
  return frame.map("p", x.getType(), base ? ValueRange{x, base} : ValueRange{x}, [&](ValueRange elements) {
    SmallVector<Value> arguments{frame.b, frame.h};
    llvm::append_range(arguments, elements);
    return frame.valueOf(frame.op.getP(), arguments);
  });
}

ScoreTile scoresOf(KernelFrame &frame, const InputTiles &inputs, const TilePlace &at, RowValues rows) {
  ScoreTile tile{.at = at, .origin = {frame.qOrigin(at.q0), at.k0}, .rows = rows};
  tile.s = frame.product("s", frame.scores(), inputs.q, inputs.k);
  if (rows.logs && !rows.base)
    tile.rows.base = baseOf(frame, rows.logs);
  // The forward pass's saved tiles are loaded while the product Q K^T runs.
  auto loadSaved = [&](StringRef name, Value view, Type element) {
    return view ? tile::named(tile::LoadBlocksOp::create(frame.builder, frame.scores().withElementType(element), view,
                                                         frame.b, frame.h, at.q0, at.k0),
                              name)
                : Value();
  };
  tile.kept = loadSaved("kept", frame.savedDropout, frame.builder.getI1Type());
  tile.saved = loadSaved("saved", frame.savedScore, frame.f32);
  tile.x = tile.saved ? scoreFromSaved(frame, tile.saved, tile.s, tile.origin) : scoreTile(frame, tile.s, tile.origin);
  if (!frame.program.hasStatistics())
    tile.x = maskTile(frame, tile, tile.x, maskedScore);
  tile.p = weightsOf(frame, tile.x, tile.rows.base);
  const bool marks = marksDropped(frame, tile);
  if (marks)
    tile.p = dropped(frame, tile, tile.p, "p", /*negates=*/true);
  if (!inputs.v)
    return tile;
  tile.dp = frame.product("dp", frame.scores(), inputs.gradient, inputs.v);
  if (!marks)
    tile.dp = dropped(frame, tile, tile.dp, "dp");
  return tile;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Returns `value`, or 0 if the key is masked. A key is masked if its weight P is 0 or, without row statistics, if its
/// score is -inf; `of` is that weight or score.
static Value unlessMasked(KernelFrame &frame, Value value, Value of) {
  Value none = frame.constant(frame.program.hasStatistics() ? 0 : maskedScore);
  return frame.select(frame.compare(arith::CmpFPredicate::OEQ, of, none), frame.constant(0), value);
}
static Value showsMasked(KernelFrame &frame, const ScoreTile &tile) {
  return frame.program.hasStatistics() ? tile.p : tile.x;
}
/// Sets masked elements of `values` to 0, in tiles that may have masked elements.
static Value unlessMasked(KernelFrame &frame, const ScoreTile &tile, Value values, StringRef name) {
  if (!tile.isMasked)
    return values;
  auto body = [&](tile::MapOp map) { return unlessMasked(frame, map.getElement(0), map.getElement(1)); };
  return frame.map(name, frame.scores(), {values, showsMasked(frame, tile)}, {}, body, tile.isMasked);
}

namespace {

/// Computes one element of a map (elementwise op) over dP. Other tiles that the element is computed from become inputs
/// of the map.
class GradientElement {
public:
  GradientElement(KernelFrame &frame, const ScoreTile &tile, tile::MapOp map)
      : frame(frame), op(frame.op), tile(tile), map(map) {}

  /// dX, the gradient of the score, as a sum of products (BackwardProgram::splitsGradient).
  Value splitGradient() {
    Value dp = map.getElement(0), p = read(tile.p);
    if (!marksDropped(frame, tile))
      return frame.multiply(p, frame.subtract(dp, read(tile.rows.delta)));
    Value weight = math::AbsFOp::create(frame.builder, p);
    Value ofDropout = frame.multiply(frame.add(p, weight), dp); // p + weight is exactly 0 or 2 P
    return frame.subtract(ofDropout, frame.multiply(weight, read(tile.rows.delta)));
  }

  /// G, the gradient of P: dP / (1 - p_drop), or 0 at dropped elements, minus delta.
  Value incoming() {
    Value g = map.getElement(0);
    if (frame.keepScale)
      g = frame.multiply(g, frame.keepScale);
    if (marksDropped(frame, tile))
      g = frame.select(isDropped(frame, read(tile.p)), frame.constant(0), g);
    return tile.rows.delta ? frame.subtract(g, read(tile.rows.delta)) : g;
  }

  /// `value`, a value of the region p_grad, for the incoming gradient G. The value that the region yields is dX, the
  /// gradient of the score. Where the region recomputes p, the tile's P is used instead.
  Value ofWeight(Value value) {
    Region &region = op.getPGrad();
    IRMapping mapping;
    mapping.map(region.getArguments().back(), incoming());
    mapping.map(region.getArguments().take_front(2), ValueRange{frame.b, frame.h});
    Value p = TileWriter::yieldOf(op.getP());
    for (auto [own, other] : valuesInCommon(region, op.getP()))
      if (other == p && own.getDefiningOp())
        mapping.map(own, marksDropped(frame, tile) ? math::AbsFOp::create(frame.builder, read(tile.p)).getResult()
                                                   : read(tile.p));
    const std::pair<unsigned, Value> inputs[] = {{2, tile.x}, {3, tile.rows.base}};
    for (auto [argument, of] : inputs)
      if (of && isNeeded(value, region.getArgument(argument), mapping))
        mapping.map(region.getArgument(argument), read(of));
    return cloneFromRegion(frame.builder, op, value, mapping);
  }

  /// `value`, a value of the region score_grad, for the incoming gradient dX; 0 at masked keys, unless `value` vanishes
  /// there. The value that the region yields is dS.
  Value ofScore(Value dx, Value value) {
    Region &region = op.getScoreGrad();
    IRMapping mapping;
    mapping.map(region.getArguments().slice(1, 2), ValueRange{frame.b, frame.h});
    mapping.map(region.getArguments().back(), dx);
    if (tile.saved)
      for (auto [own, other] : valuesInCommon(region, op.getScore()))
        if (other == op.getSavedScore() && isNeeded(value, own, mapping))
          mapping.map(own, read(tile.saved));
    if (isNeeded(value, region.getArgument(0), mapping))
      mapping.map(region.getArgument(0), frame.scaled(read(tile.s)));
    const std::tuple<unsigned, StringRef, Value> coordinates[] = {{3, "q", tile.origin.q}, {4, "k", tile.origin.k}};
    for (auto [argument, axis, origin] : coordinates)
      if (isNeeded(value, region.getArgument(argument), mapping))
        mapping.map(region.getArgument(argument), map.addCoordinate(axis, origin));
    Value result = cloneFromRegion(frame.builder, op, value, mapping);
    return frame.program.vanishes(value) ? result : unlessMaskedKey(result);
  }

  Value unlessMaskedKey(Value value) { return unlessMasked(frame, value, read(showsMasked(frame, tile))); }

private:
  Value read(Value of) {
    Value &element = elements[of];
    if (!element)
      element = map.addInput(of, frame.f32);
    return element;
  }

  KernelFrame &frame;
  attn::AttentionOp op;
  const ScoreTile &tile;
  tile::MapOp map;
  DenseMap<Value, Value> elements; ///< of tiles that are inputs
};

} // namespace

static Value mapOfGradients(KernelFrame &frame, const ScoreTile &tile, StringRef name,
                            function_ref<Value(GradientElement &)> body) {
  return frame.map(name, frame.scores(), tile.dp, {}, [&](tile::MapOp map) {
    GradientElement element(frame, tile, map);
    return body(element);
  });
}

/// dS of visible keys, computed by one map. Tiles that p_grad and score_grad do not read are no inputs of the map.
static Value gradientsOfVisible(KernelFrame &frame, const ScoreTile &tile) {
  Region &pGrad = frame.op.getPGrad(), &scoreGrad = frame.op.getScoreGrad();
  return mapOfGradients(frame, tile, "ds", [&](GradientElement &element) {
    Value dx = frame.program.splitsGradient() ? element.splitGradient() : element.ofWeight(TileWriter::yieldOf(pGrad));
    return scoreGrad.empty() ? dx : element.ofScore(dx, TileWriter::yieldOf(scoreGrad));
  });
}

Value scoreGradients(KernelFrame &frame, ScoreTile &tile) {
  Region &scoreGrad = frame.op.getScoreGrad();
  const bool statistics = frame.program.hasStatistics();
  tile.ds = gradientsOfVisible(frame, tile);
  if (statistics && !tile.at.givesValues && frame.program.captured.empty())
    return tile.ds = maskTile(frame, tile, tile.ds, 0);
  hideWeights(frame, tile);
  if (statistics || scoreGrad.empty() || frame.program.vanishes(TileWriter::yieldOf(scoreGrad)))
    tile.ds = unlessMasked(frame, tile, tile.ds, "ds");
  return tile.ds;
}

Value addedOf(KernelFrame &frame, const ScoreTile &tile, attn::AddGradientOp add) {
  attn::AttentionOp op = frame.op;
  const bool isOfScore = add->getParentRegion() == &op.getScoreGrad();
  if (isOfScore && tile.ds && add.getValue() == TileWriter::yieldOf(op.getScoreGrad()))
    return tile.ds;
  Value added = mapOfGradients(frame, tile, "added", [&](GradientElement &element) {
    return isOfScore ? element.ofScore(element.ofWeight(TileWriter::yieldOf(op.getPGrad())), add.getValue())
                     : element.unlessMaskedKey(element.ofWeight(add.getValue()));
  });
  return isOfScore && frame.program.vanishes(add.getValue()) ? unlessMasked(frame, tile, added, "added") : added;
}

Value gradientScale(KernelFrame &frame, bool givesValues) {
  const float scale = frame.op.getScale().convertToFloat();
  if (!frame.program.splitsGradient())
    return frame.constant(scale);
  return frame.multiply(frame.keepScale, frame.constant(givesValues ? scale / 2 : scale));
}

} // namespace attune::backward
