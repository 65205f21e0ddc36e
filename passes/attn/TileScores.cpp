//===- TileScores.cpp - Scores, masks and dropout of a tile, for both passes ---===//

#include "passes/attn/TileScores.h"

using namespace mlir;
using namespace attune;
using tile::TileType;

Value attune::scoreTile(TileWriter &writer, Value s, TileOrigin origin) {
  Region &score = writer.op.getScore();
  return scoreMap(writer, "x", s, score.empty() ? Value() : TileWriter::yieldOf(score), origin);
}

Value attune::scoreMap(TileWriter &writer, StringRef name, Value s, Value value, TileOrigin origin) {
  return writer.map(name, s.getType(), s, {{"q", origin.q}, {"k", origin.k}}, [&](tile::MapOp map) {
    Value x = writer.scaled(map.getElement(0));
    if (!value)
      return x;
    const TileWriter::QueryPlace at = writer.queryPlace(map.getCoordinate("q"));
    return writer.cloneRegion(writer.op.getScore(), {x, writer.b, at.head, at.query, map.getCoordinate("k")})
        .lookup(value);
  });
}

Value attune::scoreFromSaved(TileWriter &writer, Value saved, Value s, TileOrigin origin) {
  attn::AttentionOp op = writer.op;
  Value value = op.getSavedScore();
  if (!value || value == TileWriter::yieldOf(op.getScore()))
    return saved;
  return writer.map("x", saved.getType(), saved, {{"q", origin.q}, {"k", origin.k}}, [&](tile::MapOp map) {
    Region &score = op.getScore();
    IRMapping mapping;
    mapping.map(score.getArguments().drop_front(),
                ValueRange{writer.b, writer.h, map.getCoordinate("q"), map.getCoordinate("k")});
    mapping.map(value, map.getElement(0));
    if (readsProductAndSaved(op))
      mapping.map(score.getArgument(0), writer.scaled(map.addInput(s, writer.f32)));
    return cloneFromRegion(writer.builder, op, TileWriter::yieldOf(score), mapping);
  });
}

bool attune::readsProductAndSaved(attn::AttentionOp op) {
  Value value = op.getSavedScore();
  IRMapping saved;
  saved.map(value, value);
  return value && isNeeded(TileWriter::yieldOf(op.getScore()), op.getScore().getArgument(0), saved);
}

tile::OperandAttr attune::savedDeclaration(attn::AttentionOp op, StringRef what, OperandRole role) {
  return tile::declarationOf(op.getContext(), savedOperand(what, role));
}

Value attune::hide(TileWriter &writer, Value tile, TileOrigin from, Value onlyIf,
                   function_ref<Value(Value q, Value k)> visible, float masked) {
  auto body = [&](tile::MapOp map) {
    Value seen = visible(writer.queryPlace(map.getCoordinate("q")).query, map.getCoordinate("k"));
    return writer.select(seen, map.getElement(0), writer.constant(masked));
  };
  return writer.map(masked == 0 ? "p" : "x", tile.getType(), tile, {{"q", from.q}, {"k", from.k}}, body, onlyIf);
}

Value attune::hideCut(TileWriter &writer, Value tile, const BlockValues &block, const MaskCut &cut, TileOrigin origin,
                      Value looped, Value onlyIf, float masked) {
  const bool overKeys = block.fixed() == MaskAxis::Queries;
  auto visible = [&](Value q, Value k) {
    return emitCut(writer.builder, writer.op, block.atRow(overKeys ? writer.rowOf(q) : k), cut, looped,
                   overKeys ? k : q);
  };
  (overKeys ? origin.k : origin.q) = writer.number(0);
  return hide(writer, tile, origin, onlyIf, visible, masked);
}

Value attune::isVisible(TileWriter &writer, ArrayRef<Conjunct> conjuncts, bool lookUp, Value q, Value k) {
  attn::AttentionOp op = writer.op;
  Value visible;
  if (!conjuncts.empty()) {
    IRMapping mapping = writer.cloneRegion(op.getMask(), {writer.b, writer.h, q, k});
    for (auto [value, negate] : conjuncts) {
      Value holds = mapping.lookupOrDefault(value);
      visible = writer.both(visible, negate ? writer.opposite(holds) : holds);
    }
  }
  if (lookUp) {
    attn::BlockPatternAttr pattern = op.getPatternAttr();
    Value view = tile::readTensor(writer.builder, op.getLoc(), op.findTensor(pattern.getName()));
    visible = writer.both(visible, emitPatternLookup(writer.builder, view, writer.h, writer.rowOf(q), k, pattern));
  }
  return visible;
}

DropoutValues attune::readDropout(TileWriter &writer) {
  const Type i64 = writer.builder.getI64Type();
  return {writer.param("seed", i64), writer.param("offset", i64), writer.param("drop_threshold", writer.i32), {}};
}

Value attune::headNumber(TileWriter &writer, Value heads) {
  return tile::named(writer.add(writer.multiply(writer.b, heads), writer.h), "head");
}

tile::DropoutOp attune::dropTile(TileWriter &writer, const DropoutValues &dropout, StringRef name, Value tile, Value q0,
                                 Value k0, bool kept, bool negates) {
  const auto type = cast<TileType>(tile.getType());
  auto drop =
      tile::DropoutOp::create(writer.builder, type, kept ? type.withElementType(writer.builder.getI1Type()) : Type(),
                              tile, q0, k0, dropout.head, dropout.seed, dropout.offset, dropout.threshold, negates);
  tile::named(drop.getResult(), name);
  return drop;
}
