//===- TileWriter.cpp - Emit values, tiles, maps and loops of a kernel ----===//

#include "passes/attn/TileWriter.h"

using namespace mlir;
using namespace attune;
using tile::TileType;

tile::KernelOp TileWriter::createKernel(const Twine &name, ArrayRef<Attribute> grid, attn::PlanAttr plan,
                                        int64_t warps) {
  auto sizes = tile::PlanAttr::make(builder.getContext(), {{"q", plan.getTileQ()}, {"k", plan.getTileK()}}, warps,
                                    plan.getBlocksPerSm(), plan.getDvWarps());
  auto kernel = tile::KernelOp::create(builder, name.str(), builder.getArrayAttr({}), builder.getArrayAttr(grid),
                                       op.getDtype(), sizes, op.getTensorsAttr(), op.getScalarsAttr(),
                                       op.getPatternAttr(), op.getDropout(), op.getPrecise(), op.getQOffset());
  if (Attribute sequences = op.getSequencesAttr())
    kernel->setAttr(tile::sequencesAttr, sequences);
  builder.createBlock(&kernel.getBody());
  return kernel;
}

Value TileWriter::copy(TileType type, Value view, ValueRange indices, Value limit, int64_t stages, StringRef name) {
  auto load = tile::LoadOp::create(builder, type, view, indices, limit);
  load->setAttr(sched::ringAttr, sched::RingAttr::get(builder.getContext(), stages));
  return tile::named(load, name);
}

Value TileWriter::map(StringRef name, Type type, ValueRange inputs, Coordinates coordinates,
                      function_ref<Value(tile::MapOp)> body, Value onlyIf) {
  auto map = tile::MapOp::create(builder, type, inputs, coordinates, onlyIf);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&map.getBody().front());
  tile::YieldOp::create(builder, body(map));
  return tile::named(map.getResult(), name);
}

Value TileWriter::scaledBy(StringRef name, Value tile, Value factor) {
  if (isa<TileType>(factor.getType()))
    return map(name, tile.getType(), {tile, factor}, [&](ValueRange x) { return multiply(x[0], x[1]); });
  return map(name, tile.getType(), tile, [&](ValueRange x) { return multiply(x[0], factor); });
}

Value TileWriter::rounded(Value tile, StringRef name) {
  if (op.getDtype().isF32())
    return tile;
  return tile::named(
      tile::ConvertOp::create(builder, cast<TileType>(tile.getType()).withElementType(op.getDtype()), tile), name);
}

TileWriter::Carried TileWriter::loopOver(Value domain, ValueRange inits, function_ref<Carried(tile::ForBlocksOp)> body,
                                         ValueRange within) {
  auto loop = tile::ForBlocksOp::create(builder, domain, within, inits);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&loop.getBody().front());
  tile::YieldOp::create(builder, body(loop));
  return Carried(loop.getResults());
}

void TileWriter::cloneOps(Block &block, IRMapping &mapping) {
  for (Operation &inner : block.without_terminator())
    if (!mapping.contains(inner.getResult(0)))
      cloneFromRegion(builder, op, inner, mapping);
}

IRMapping TileWriter::cloneRegion(Region &region, ValueRange arguments) {
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  cloneOps(region.front(), mapping);
  return mapping;
}

TileWriter::QueryPlace TileWriter::queryPlace(Value row) {
  if (!group)
    return {row, h};
  Value query = arith::DivUIOp::create(builder, row, group), inGroup = arith::RemUIOp::create(builder, row, group);
  return {qOffset ? add(query, qOffset) : query, add(h, inGroup)};
}
