//===- KernelFrame.h - One kernel of the backward pass that is being written ---===//
//
//     KernelFrame frame(program, "_queries", {"b", "h", "q"}, Work::LoopOverKeys);
//     writeQueriesKernel(frame);    // writes the body, which declares operands and tables of the mask
//     frame.finish();               // sets the kernel's operands
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/BackwardPlan.h"
#include "passes/attn/TileScores.h"
#include "passes/attn/backward/BackwardProgram.h"

namespace attune::backward {
using tile::MemorySpace;
using tile::TileType;
using Predicate = arith::CmpIPredicate;
using Carried = TileWriter::Carried;

/// The kind of a kernel, which selects the plan. `Rows` kernels have no loop over tiles and give each warp 16 rows of
/// queries.
enum class Work { LoopOverQueries, LoopOverKeys, Rows };

/// The tiles that a loop visits, and the mask within them.
struct VisibleTiles {
  tile::DomainOp domain;
  MaskSplit mask;
};

/// A kernel of the backward pass that is being written: its plan, and the operands that its body has declared so far.
struct KernelFrame : TileWriter {
  /// Creates the kernel NAME + `suffix` before the attention NAME. `axes` are those of its grid.
  KernelFrame(BackwardProgram &program, const Twine &suffix, ArrayRef<StringRef> axes, Work work);
  void finish();

  //===--- Operands ---===//

  /// Declares an operand of the kernel (a global tensor) and returns its view.
  Value operand(tile::OperandAttr declared);
  /// Declares an operand with the axes b and `axes`, and returns its view. The extents of the axes d and dv are the
  /// head dims of Q and K, and of V.
  Value operand(StringRef name, OperandRole role, Type element, ArrayRef<StringRef> axes);
  Value operand(StringRef name, OperandRole role, Type element, ArrayRef<tile::AxisAttr> axes);
  Value input(StringRef name, ArrayRef<StringRef> axes) { return operand(name, OperandRole::In, op.getDtype(), axes); }
  Value output(StringRef name, ArrayRef<StringRef> axes) {
    return operand(name, OperandRole::Out, op.getDtype(), axes);
  }
  Value rows(StringRef name, OperandRole role) { return operand(name, role, f32, {"h", "q"}); }
  /// The float32 sums of dQ, not yet multiplied by the softmax scale; rows in blocks of 16 if the loop over queries adds
  /// them from registers.
  Value sumsOfQueries();
  SmallVector<Value> sumViews(ArrayRef<GradientSum> sums) {
    return llvm::map_to_vector(sums, [&](const GradientSum &sum) { return operand(sum.declaration()); });
  }

  /// Declares what the forward pass saved, and reads sizes, offset and dropout parameters. All other operands must be
  /// declared first: extents are read from them.
  void readLaunch();
  /// Sets the query head of the ops that are emitted next.
  void setHead(Value head);
  /// 1 / (1 - p_drop); null without dropout.
  Value readKeepScale() { return op.getDropout() ? param("keep_scale", f32) : Value(); }

  //===--- Tiles ---===//

  /// The ring stages of a copied tile (of dO or V) that only the product dP = dO V^T reads.
  int64_t dpStages() { return plan.getDpStages() ? plan.getDpStages() : plan.getStages(); }
  int64_t tileOf(StringRef axis) { return axis == "q" ? plan.getTileQ() : plan.getTileK(); }
  TileType vectorOf(StringRef axis) { return shape({{axis, tileOf(axis)}}, f32); }
  TileType scores() { return shape({{"q", plan.getTileQ()}, {"k", plan.getTileK()}}, f32); }
  /// A tile of float32 in registers. Its rows are queries or keys (`axis` "q" or "k"), its columns the elements of a
  /// head (`along` "d" or "dv").
  TileType headTile(StringRef axis, StringRef along) {
    return shape({{axis, tileOf(axis)}, {along, along == "d" ? columns.d : columns.dv}}, f32);
  }
  /// Copies a tile in the kernel's dtype to shared memory. Its rows are queries or keys (`axis` "q" or "k"), its
  /// columns the elements of a head (`along` "d" or "dv").
  Value load(StringRef name, StringRef axis, StringRef along, Value view, ValueRange at, Value limit, int64_t stages) {
    const TileType type = headTile(axis, along).withElementType(op.getDtype()).withSpace(MemorySpace::Shared);
    return copy(type, view, at, limit, stages, name);
  }
  Value loadRows(StringRef name, Value view, Value q0) {
    return tile::named(tile::LoadOp::create(builder, vectorOf("q"), view, ValueRange{b, h, q0}, values.Sq), name);
  }
  Value zeros(StringRef name, StringRef axis, StringRef along) { return splat(name, headTile(axis, along), zero); }

  //===--- Loops ---===//

  /// The tiles that the thread block's loop visits, and the mask within them.
  VisibleTiles visibleTiles();
  /// The number of rows of K and V to load (with `axis` Queries: of Q and dO). No query (key) sees a later row, and the
  /// load fills later rows of a tile with zeros. The zeros are needed because products multiply these rows by the zeros
  /// of dS and P, and 0 * NaN would be NaN.
  Value rowsRead(const BlockValues &block, MaskAxis axis);
  Value qOrigin(Value q0) { return qOffset ? tile::named(add(q0, qOffset), "q_origin") : q0; }

  BackwardProgram &program;
  const attn::PlanAttr plan;
  const LoopColumns columns; ///< head dims D and Dv, padded to the sizes of the kernel's tiles
  tile::KernelOp kernel;
  BlockValues values;
  Value zero; ///< float32; null before readLaunch
  DropoutValues dropout;
  Value keepScale;
  Value savedDropout, savedScore; ///< views of what the forward pass saved; null: nothing saved
  SmallVector<Attribute> operands;
  SmallVector<BoundsTable> tables; ///< per-tile tables of the mask
};

} // namespace attune::backward
