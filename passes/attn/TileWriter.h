//===- TileWriter.h - Emit tiles, maps and a variant's expressions --------===//
//
// The kernels of the forward and of the backward pass are written with the same functions: for tiles, for maps over
// tiles, and for the variant's own expressions within maps.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/sched/Sched.h"
#include "ir/tile/Signature.h"
#include "ir/tile/Tile.h"
#include "passes/analysis/mask/MaskAnalysis.h"
#include "passes/analysis/score/MapPatterns.h"
#include "passes/attn/CloneRegion.h"

#include <limits>

namespace attune {

class TileWriter {
protected:
  explicit TileWriter(attn::AttentionOp op)
      : op(op), builder(op), loc(op.getLoc()), f32(builder.getF32Type()), i32(builder.getI32Type()) {}

  //===--- Parameters and scalars ---===//

  mlir::Type view(int64_t rank, mlir::Type element) { return tile::ViewType::get(op.getContext(), rank, element); }
  mlir::Value param(llvm::StringRef name, mlir::Type type) {
    return tile::named(tile::ParamOp::create(builder, loc, type, name), name);
  }
  mlir::Value axisExtent(llvm::StringRef axis, llvm::StringRef name) {
    return tile::named(tile::AxisExtentOp::create(builder, loc, i32, axis), name);
  }
  void readQueryOffset() { qOffset = op.getQOffset() ? param("q_offset", i32) : mlir::Value(); }
  mlir::Value constant(float value) {
    return mlir::arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  }
  mlir::Value number(int64_t value) { return mlir::arith::ConstantIntOp::create(builder, loc, value, 32); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return mlir::arith::AddIOp::create(builder, loc, a, b); }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpIOp::create(builder, loc, predicate, a, b);
  }

  /// The warp roles of a kernel: a producer role with the plan's producer warps, and a consumer role.
  mlir::ArrayAttr rolesOf(attn::PlanAttr plan) {
    auto role = [&](llvm::StringRef name, int64_t warps) -> mlir::Attribute {
      return sched::RoleAttr::get(builder.getContext(), builder.getStringAttr(name), warps, /*registers=*/0);
    };
    return builder.getArrayAttr({role("producer", plan.getProducerWarps()), role("consumer", plan.getWarps())});
  }

  //===--- Tiles ---===//

  tile::TileType shape(std::initializer_list<std::pair<llvm::StringRef, int64_t>> axes, mlir::Type element,
                       tile::MemorySpace space) {
    return tile::TileType::make(op.getContext(), axes, element, space);
  }
  /// A copy of a tile from global memory to a ring with `stages` stages in shared memory.
  mlir::Value copy(tile::TileType type, mlir::Value view, mlir::ValueRange indices, mlir::Value limit, int64_t stages,
                   llvm::StringRef name) {
    auto load = tile::LoadOp::create(builder, loc, type, view, indices, limit);
    load->setAttr(sched::ringAttr, sched::RingAttr::get(builder.getContext(), stages));
    return tile::named(load, name);
  }
  /// A map over the inputs' elements. `body` gets the elements and returns the element of the result.
  mlir::Value map(llvm::StringRef name, tile::TileType type, mlir::ValueRange inputs,
                  llvm::function_ref<mlir::Value(mlir::ValueRange)> body) {
    return createMap(builder, loc, name, type, inputs, body);
  }
  mlir::Value scaledBy(llvm::StringRef name, mlir::Value tile, mlir::Value factor) {
    return map(name, mlir::cast<tile::TileType>(tile.getType()), tile, [&](mlir::ValueRange v) -> mlir::Value {
      return mlir::arith::MulFOp::create(builder, loc, v[0], factor);
    });
  }
  /// Rounds a tile to the kernel's dtype, because operands of a product must have it.
  mlir::Value rounded(mlir::Value tile, llvm::StringRef name) {
    if (op.getDtype().isF32())
      return tile;
    auto type = mlir::cast<tile::TileType>(tile.getType()).withElementType(op.getDtype());
    return tile::named(tile::ConvertOp::create(builder, loc, type, tile), name);
  }
  mlir::Value times(llvm::StringRef name, mlir::Value tile, mlir::Value rowFactor) {
    return map(
        name, mlir::cast<tile::TileType>(tile.getType()), {tile, rowFactor},
        [&](mlir::ValueRange v) -> mlir::Value { return mlir::arith::MulFOp::create(builder, loc, v[0], v[1]); });
  }

  //===--- The variant's regions ---===//

  /// Clones those ops of an IR block whose results `mapping` does not have yet.
  void cloneOps(mlir::Block &block, mlir::IRMapping &mapping) {
    for (mlir::Operation &inner : block.without_terminator())
      if (!mapping.contains(inner.getResult(0)))
        cloneFromRegion(builder, op, inner, mapping);
  }
  mlir::IRMapping cloneRegion(mlir::Region &region, mlir::ValueRange arguments) {
    mlir::IRMapping mapping;
    mapping.map(region.getArguments(), arguments);
    cloneOps(region.front(), mapping);
    return mapping;
  }
  static mlir::Value yieldOf(mlir::Region &region) {
    return mlir::cast<attn::YieldOp>(region.front().back()).getValue();
  }
  /// The value that a region yields for these arguments.
  mlir::Value valueOf(mlir::Region &region, mlir::ValueRange arguments) {
    return cloneRegion(region, arguments).lookup(yieldOf(region));
  }
  /// An element of the product S, times the softmax scale.
  mlir::Value scaled(mlir::Value element) {
    return mlir::arith::MulFOp::create(builder, loc, element, constant(op.getScale().convertToFloat()));
  }

  /// The query position and the head of a row of a tile of scores.
  struct QueryPlace {
    mlir::Value query, head;
  };
  QueryPlace queryPlace(mlir::Value row) {
    if (!group)
      return {row, h};
    mlir::Value query = mlir::arith::DivUIOp::create(builder, loc, row, group);
    mlir::Value inGroup = mlir::arith::RemUIOp::create(builder, loc, row, group);
    return {qOffset ? add(query, qOffset) : query, add(h, inGroup)};
  }

  /// The scores x of a tile s = Q K^T.
  mlir::Value scoreTile(mlir::Value s, mlir::Value qOrigin, mlir::Value k0) {
    return scoreMap("x", s, op.getScore().empty() ? mlir::Value() : yieldOf(op.getScore()), qOrigin, k0);
  }

  /// A map that computes `value`, a value of the score region, for each element of s. If `value` is null the map
  /// computes the scaled product.
  mlir::Value scoreMap(llvm::StringRef name, mlir::Value s, mlir::Value value, mlir::Value qOrigin, mlir::Value k0) {
    auto map = tile::MapOp::create(builder, loc, s.getType(), s, {{"q", qOrigin}, {"k", k0}});
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    mlir::Value x = scaled(map.getElement(0));
    if (value) {
      const QueryPlace at = queryPlace(map.getCoordinate("q"));
      mlir::IRMapping mapping = cloneRegion(op.getScore(), {x, b, at.head, at.query, map.getCoordinate("k")});
      x = mapping.lookup(value);
    }
    tile::YieldOp::create(builder, loc, x);
    return tile::named(map.getResult(), name);
  }

  /// The scores x, computed from the saved value of the score region. `s` is needed only if x depends on the product
  /// other than through the saved value; otherwise `s` is null.
  mlir::Value scoreFromSaved(mlir::Value saved, mlir::Value s, mlir::Value qOrigin, mlir::Value k0) {
    mlir::Value value = op.getSavedScore();
    if (!value || value == yieldOf(op.getScore()))
      return saved;
    auto map = tile::MapOp::create(builder, loc, saved.getType(), saved, {{"q", qOrigin}, {"k", k0}});
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    mlir::IRMapping mapping;
    mapping.map(op.getScore().getArguments().drop_front(),
                mlir::ValueRange{b, h, map.getCoordinate("q"), map.getCoordinate("k")});
    mapping.map(value, map.getElement(0));
    if (s)
      mapping.map(op.getScore().getArgument(0), scaled(map.addInput(s, f32)));
    tile::YieldOp::create(builder, loc, cloneFromRegion(builder, op, yieldOf(op.getScore()), mapping));
    return tile::named(map.getResult(), "x");
  }

  /// Whether `of`, a value of a region, depends on `argument`. Values that `mapping` has already are not followed to
  /// their operands.
  static bool isNeeded(mlir::Value of, mlir::Value argument, const mlir::IRMapping &mapping) {
    llvm::SmallVector<mlir::Value> needed{of};
    llvm::DenseSet<mlir::Value> seen;
    while (!needed.empty()) {
      mlir::Value value = needed.pop_back_val();
      if (value == argument)
        return true;
      if (!seen.insert(value).second || mapping.contains(value) || !value.getDefiningOp())
        continue;
      llvm::append_range(needed, value.getDefiningOp()->getOperands());
    }
    return false;
  }
  /// Whether x depends on s in another way than through the saved value of the score.
  bool readsProductAndSaved() {
    mlir::Value value = op.getSavedScore();
    if (!value)
      return false;
    mlir::IRMapping saved;
    saved.map(value, value);
    return isNeeded(yieldOf(op.getScore()), op.getScore().getArgument(0), saved);
  }

  /// The operand of a value that the forward pass saves for the backward pass.
  tile::OperandAttr savedDeclaration(llvm::StringRef what, OperandRole role) {
    return tile::declarationOf(op.getContext(), savedOperand(what, role));
  }

  /// Replaces the elements of `tile` for which `visible(q, k)` is false by `masked`, a score or a weight. The map is
  /// conditional on `onlyIf`; q and k count from `qFrom` and `kFrom`.
  mlir::Value hide(mlir::Value tile, mlir::Value qFrom, mlir::Value kFrom, mlir::Value onlyIf,
                   llvm::function_ref<mlir::Value(mlir::Value q, mlir::Value k)> visible,
                   float masked = -std::numeric_limits<float>::infinity()) {
    auto map = tile::MapOp::create(builder, loc, tile.getType(), tile, {{"q", qFrom}, {"k", kFrom}}, onlyIf);
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    mlir::Value seen = visible(queryPlace(map.getCoordinate("q")).query, map.getCoordinate("k"));
    tile::YieldOp::create(
        builder, loc,
        mlir::Value(mlir::arith::SelectOp::create(builder, loc, seen, map.getElement(0), constant(masked))));
    return tile::named(map.getResult(), masked == 0 ? "p" : "x");
  }

  /// The row of Q for the query coordinate `q`. The coordinate includes the query offset, the row does not.
  mlir::Value rowOf(mlir::Value q) {
    return qOffset ? mlir::Value(mlir::arith::SubIOp::create(builder, loc, q, qOffset)) : q;
  }

  /// Emits whether (q, k) is visible: these conjuncts of the mask must hold and, with `lookUp`, the block pattern must
  /// include the position (q, k).
  mlir::Value isVisible(llvm::ArrayRef<Conjunct> conjuncts, bool lookUp, mlir::Value q, mlir::Value k) {
    mlir::Value visible;
    auto require = [&](mlir::Value condition) {
      visible = visible ? mlir::arith::AndIOp::create(builder, loc, visible, condition) : condition;
    };
    if (!conjuncts.empty()) {
      mlir::IRMapping mapping = cloneRegion(op.getMask(), {b, h, q, k});
      for (auto [value, negate] : conjuncts) {
        mlir::Value holds = mapping.lookupOrDefault(value);
        if (negate)
          holds =
              mlir::arith::XOrIOp::create(builder, loc, holds, mlir::arith::ConstantIntOp::create(builder, loc, 1, 1));
        require(holds);
      }
    }
    if (lookUp) {
      attn::BlockPatternAttr pattern = op.getPatternAttr();
      attn::CapturedTensorAttr tensor = op.findTensor(pattern.getName());
      require(emitPatternLookup(builder, tile::readTensor(builder, loc, tensor), h, rowOf(q), k, pattern));
    }
    return visible;
  }

  attn::AttentionOp op;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Type f32, i32;
  /// Batch and head of the thread block, or of a loop over them in the kernel; h is the first head of a packed group.
  mlir::Value b, h;
  mlir::Value group;   ///< number of query heads per key head in a packed group (tile.group_rows); else null
  mlir::Value qOffset; ///< row index in Q + qOffset = the row's position; null where the variant has no offset
};

} // namespace attune
