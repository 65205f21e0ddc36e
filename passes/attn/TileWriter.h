//===- TileWriter.h - Emit values, tiles, maps and loops of a kernel ------===//
//
// All kernels of the forward and of the backward pass are written with these functions.
//
//     TileWriter writer(op);
//     Value sum = writer.map("sum", type, {a, b}, [&](ValueRange x) { return writer.add(x[0], x[1]); });
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/sched/Sched.h"
#include "ir/tile/Signature.h"
#include "ir/tile/Tile.h"
#include "passes/attn/CloneRegion.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace attune {

/// Emits ops of a kernel at `builder`, which starts at the attention op.
struct TileWriter {
  explicit TileWriter(attn::AttentionOp op)
      : op(op), builder(op.getLoc(), op), f32(builder.getF32Type()), i32(builder.getI32Type()) {}

  //===--- Parameters and scalars ---===//

  mlir::Type view(int64_t rank, mlir::Type element) { return tile::ViewType::get(op.getContext(), rank, element); }
  mlir::Value param(llvm::StringRef name, mlir::Type type) {
    return tile::named(tile::ParamOp::create(builder, type, name), name);
  }
  mlir::Value param(tile::OperandAttr operand) { return param(operand.getName(), operand.getViewType()); }
  /// The thread block's position along an axis of the grid.
  mlir::Value blockIndex(llvm::StringRef axis, const llvm::Twine &name) {
    return tile::named(tile::BlockIndexOp::create(builder, i32, axis), name.str());
  }
  mlir::Value axisExtent(llvm::StringRef axis, const llvm::Twine &name) {
    return tile::named(tile::AxisExtentOp::create(builder, i32, axis), name.str());
  }
  void readQueryOffset() { qOffset = op.getQOffset() ? param("q_offset", i32) : mlir::Value(); }
  mlir::Value constant(float value) { return mlir::arith::ConstantOp::create(builder, builder.getF32FloatAttr(value)); }
  mlir::Value number(int64_t value) { return mlir::arith::ConstantIntOp::create(builder, value, 32); }

  // Arithmetic on two floats or two signed integers
  mlir::Value add(mlir::Value a, mlir::Value b) { return either<mlir::arith::AddFOp, mlir::arith::AddIOp>(a, b); }
  mlir::Value subtract(mlir::Value a, mlir::Value b) { return either<mlir::arith::SubFOp, mlir::arith::SubIOp>(a, b); }
  mlir::Value multiply(mlir::Value a, mlir::Value b) { return either<mlir::arith::MulFOp, mlir::arith::MulIOp>(a, b); }
  mlir::Value divide(mlir::Value a, mlir::Value b) { return either<mlir::arith::DivFOp, mlir::arith::DivSIOp>(a, b); }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpIOp::create(builder, predicate, a, b);
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpFOp::create(builder, predicate, a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(builder, condition, a, b);
  }
  /// The logical and of `known` and `other`; `other` alone if `known` is null.
  mlir::Value both(mlir::Value known, mlir::Value other) {
    return known ? mlir::arith::AndIOp::create(builder, known, other).getResult() : other;
  }
  mlir::Value opposite(mlir::Value flag) {
    return mlir::arith::XOrIOp::create(builder, flag, mlir::arith::ConstantIntOp::create(builder, 1, 1));
  }

  //===--- The kernel ---===//

  /// Creates a kernel without operands, with the tile sizes of `plan` and `warps` consumer warps, and moves `builder`
  /// into its body.
  tile::KernelOp createKernel(const llvm::Twine &name, llvm::ArrayRef<mlir::Attribute> grid, attn::PlanAttr plan,
                              int64_t warps);
  /// The axis of a grid or operand. `size` is its extent, 0 if only a launch determines it; a thread block of a grid
  /// takes `by` of its elements.
  tile::AxisAttr axis(llvm::StringRef name, int64_t size = 0, int64_t by = 1) {
    return tile::AxisAttr::get(op.getContext(), builder.getStringAttr(name), size, by);
  }

  //===--- Tiles ---===//

  tile::TileType shape(std::initializer_list<std::pair<llvm::StringRef, int64_t>> axes, mlir::Type element,
                       tile::MemorySpace space = tile::MemorySpace::Register) {
    return tile::TileType::make(op.getContext(), axes, element, space);
  }
  /// A copy of a tile from global memory to a ring with `stages` stages in shared memory.
  mlir::Value copy(tile::TileType type, mlir::Value view, mlir::ValueRange indices, mlir::Value limit, int64_t stages,
                   llvm::StringRef name);
  void store(mlir::Value tile, mlir::Value view, mlir::ValueRange indices, mlir::Value limit, bool optional = false) {
    tile::StoreOp::create(builder, tile, view, indices, limit, optional);
  }
  mlir::Value splat(llvm::StringRef name, tile::TileType type, mlir::Value element) {
    return tile::named(tile::SplatOp::create(builder, type, element), name);
  }
  /// The product a b, plus `sum` unless that is null.
  mlir::Value product(llvm::StringRef name, tile::TileType type, mlir::Value a, mlir::Value b, mlir::Value sum = {}) {
    return tile::named(tile::MmaOp::create(builder, type, a, b, sum), name);
  }
  /// The reduction of a tile over the axis `along`; starts from `init` unless that is null.
  mlir::Value reduce(llvm::StringRef name, mlir::Type type, tile::Reduction kind, mlir::Value tile,
                     llvm::StringRef along, mlir::Value init = {}) {
    return tile::named(tile::ReduceOp::create(builder, type, kind, tile, along, init, /*per_lane=*/false), name);
  }
  using Coordinates = llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Value>>;
  /// A map (elementwise op) on the elements of `inputs` and on coordinates, given as axes with their origins. `body`
  /// returns the element of the result. Where the flag `onlyIf` is false, the result is the first input.
  mlir::Value map(llvm::StringRef name, mlir::Type type, mlir::ValueRange inputs, Coordinates coordinates,
                  llvm::function_ref<mlir::Value(tile::MapOp)> body, mlir::Value onlyIf = {});
  /// A map (elementwise op) without coordinates: `body` gets the elements of the inputs and returns that of the result.
  mlir::Value map(llvm::StringRef name, mlir::Type type, mlir::ValueRange inputs,
                  llvm::function_ref<mlir::Value(mlir::ValueRange)> body) {
    return map(name, type, inputs, {}, [&](tile::MapOp map) { return body(map.getBody().getArguments()); });
  }
  /// A tile times a factor: a number or, with the tile's rows as its axis, a vector.
  mlir::Value scaledBy(llvm::StringRef name, mlir::Value tile, mlir::Value factor);
  /// Rounds a tile to the kernel's dtype, because operands of a product must have it.
  mlir::Value rounded(mlir::Value tile, llvm::StringRef name);

  using Carried = llvm::SmallVector<mlir::Value>;
  /// A loop over a domain; `body` returns the next carried values. With `within`, a warpgroup computes only the tiles
  /// in that range.
  Carried loopOver(mlir::Value domain, mlir::ValueRange inits, llvm::function_ref<Carried(tile::ForBlocksOp)> body,
                   mlir::ValueRange within = {});

  //===--- The variant's regions ---===//

  static mlir::Value yieldOf(mlir::Region &region) {
    return mlir::cast<attn::YieldOp>(region.front().back()).getValue();
  }
  /// Clones those ops of an IR block whose results `mapping` does not have yet, and adds their results to `mapping`.
  void cloneOps(mlir::Block &block, mlir::IRMapping &mapping);
  /// Clones all ops of a region with `arguments` as its arguments. Returns the mapping to the clones.
  mlir::IRMapping cloneRegion(mlir::Region &region, mlir::ValueRange arguments);
  /// Emits the value that a region yields for `arguments`.
  mlir::Value valueOf(mlir::Region &region, mlir::ValueRange arguments) {
    return cloneRegion(region, arguments).lookup(yieldOf(region));
  }
  /// An element of the product S, times the softmax scale.
  mlir::Value scaled(mlir::Value element) { return multiply(element, constant(op.getScale().convertToFloat())); }

  /// The query position and the head of a row of a tile of scores.
  struct QueryPlace {
    mlir::Value query, head;
  };
  QueryPlace queryPlace(mlir::Value row);
  /// The row of Q for the query coordinate `q`. The coordinate includes the query offset, the row does not.
  mlir::Value rowOf(mlir::Value q) { return qOffset ? subtract(q, qOffset) : q; }

  attn::AttentionOp op;
  mlir::ImplicitLocOpBuilder builder;
  mlir::Type f32, i32;
  /// Batch and head of the thread block, or of a loop over them in the kernel; h is the first head of a packed group.
  mlir::Value b, h;
  mlir::Value group;   ///< number of query heads per key head in a packed group (tile.group_rows); else null
  mlir::Value qOffset; ///< row index in Q + qOffset = the row's position; null where the variant has no offset

private:
  template <typename OfFloats, typename OfIntegers> mlir::Value either(mlir::Value a, mlir::Value b) {
    return mlir::isa<mlir::FloatType>(a.getType()) ? OfFloats::create(builder, a, b).getResult()
                                                   : OfIntegers::create(builder, a, b).getResult();
  }
};

} // namespace attune
