//===- NormaliserWriter.h - Emit a normaliser's regions in kernels --------===//
//
// A normaliser is defined in attn.attention by its row statistics, their base and rescaling factor, p, divisor and LSE.
// The kernel that visits keys and the kernel that combines splits both emit these parts with the functions below.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/TileWriter.h"

#include <map>

namespace attune {

class NormaliserWriter : protected TileWriter {
protected:
  using TileWriter::TileWriter;

  llvm::SmallVector<attn::RowStatisticAttr> statistics() {
    return llvm::to_vector(op.getStatistics().getAsRange<attn::RowStatisticAttr>());
  }

  /// A float constant, created once before the loop.
  mlir::Value floatConstant(float value) {
    mlir::Value &known = floats[llvm::bit_cast<uint32_t>(value)];
    if (!known) {
      mlir::OpBuilder::InsertionGuard guard(builder);
      if (mlir::Operation *loop = builder.getInsertionBlock()->getParentOp(); mlir::isa<tile::ForBlocksOp>(loop))
        builder.setInsertionPoint(loop);
      known = constant(value);
    }
    return known;
  }

  /// The initial value of a statistic, before any key.
  mlir::Value initialOf(attn::RowStatisticAttr statistic) {
    return floatConstant(statistic.getInitial().getValue().convertToFloat());
  }

  /// A map that evaluates one of the normaliser's regions. `values` are the region's arguments after b and h. `finish`
  /// computes the map's element from the region's result.
  mlir::Value mapByRegion(
      llvm::StringRef name, tile::TileType type, mlir::Region &region, mlir::ValueRange values,
      llvm::function_ref<mlir::Value(mlir::Value)> finish = [](mlir::Value result) { return result; }) {
    mlir::Block &body = region.front();
    mlir::IRMapping mapping;
    mapping.map(body.getArgument(0), b);
    mapping.map(body.getArgument(1), h);
    for (auto constant : body.getOps<mlir::arith::ConstantOp>())
      if (auto value = mlir::dyn_cast<mlir::FloatAttr>(constant.getValue()))
        mapping.map(constant.getResult(), floatConstant(value.getValue().convertToFloat()));
    llvm::SmallVector<mlir::Value> inputs, read;
    for (auto [argument, value] : llvm::zip(body.getArguments().drop_front(2), values))
      if (!argument.use_empty()) {
        inputs.push_back(value);
        read.push_back(argument);
      }
    // In a packed group each row has its own head.
    llvm::SmallVector<std::pair<llvm::StringRef, mlir::Value>> coordinates;
    if (group && !body.getArgument(1).use_empty())
      coordinates.emplace_back("q", row0);
    auto map = tile::MapOp::create(builder, loc, type, inputs, coordinates);
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    mapping.map(read, map.getBody().getArguments().take_front(inputs.size()));
    if (!coordinates.empty())
      mapping.map(body.getArgument(1), queryPlace(map.getCoordinate("q")).head);
    cloneOps(body, mapping);
    tile::YieldOp::create(builder, loc, finish(mapping.lookup(mlir::cast<attn::YieldOp>(body.back()).getValue())));
    return tile::named(map.getResult(), name);
  }

  /// The factor that turns the accumulator into O: 1 / divisor, 0 where the divisor is 0, times dropout's `keepScale`
  /// if that is not null. Without a divisor the result is `keepScale`, which may be null.
  mlir::Value inverseOf(mlir::ValueRange statistics, mlir::Value keepScale) {
    mlir::Region &divisor = op.getDivisor();
    if (divisor.empty())
      return keepScale;
    mlir::Value numerator = keepScale ? keepScale : constant(1);
    // If the divisor is just one of the statistics, the map is named after that statistic.
    auto named = mlir::dyn_cast<mlir::BlockArgument>(yieldOf(divisor));
    std::string name = named ? op.normaliserArgument(divisor, named.getArgNumber()) : "divisor";
    auto type = mlir::cast<tile::TileType>(statistics.front().getType());
    return mapByRegion("inverse_" + name, type, divisor, statistics, [&](mlir::Value value) -> mlir::Value {
      mlir::Value none = mlir::arith::CmpFOp::create(builder, loc, mlir::arith::CmpFPredicate::OEQ, value, zero);
      return mlir::arith::SelectOp::create(builder, loc, none, zero,
                                           mlir::arith::DivFOp::create(builder, loc, numerator, value));
    });
  }

  mlir::Value row0; ///< first row of the tile; read only for packed groups
  mlir::Value zero; ///< float32 constant zero

private:
  std::map<uint32_t, mlir::Value> floats; ///< keys are the bits of the floats
};

} // namespace attune
