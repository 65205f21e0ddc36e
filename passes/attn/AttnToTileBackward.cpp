//===- AttnToTileBackward.cpp - The backward pass as kernels of tiles ---------===//
//
// The gradients of O and LSE by Q, K and V (Dao et al., 2022, Algorithm 4), for any score, mask and normaliser. Nothing of
// size Sq x Sk is stored: each kernel computes S, the scores x and the weights P again from Q, K and LSE.
//
//     P  = p(x, base(L))                              with statistics (softmax) L = LSE + log(divisor(LSE, 1))
//     dV = P'^T dO                                    P' = P with dropout
//     G  = keep(dO V^T) - delta                       delta = rowsum(dO * O) - dLSE * exp(L - LSE); 0 without statistics
//     dX = p_grad(G), dS = score_grad(dX)             0 of what the mask hides
//     dK = scale * dS^T Q,  dQ = scale * dS K
//
// Three kernels, or two without statistics, where none adds to what another one has written:
//
//     | kernel       | block               | loop                                     | writes          |
//     |--------------|---------------------|------------------------------------------|-----------------|
//     | NAME_rows    | a tile of queries   |                                          | delta, L        |
//     | NAME_keys    | a tile of keys      | the heads of its group, tiles of queries | dK, dV          |
//     | NAME_queries | a tile of queries   | tiles of keys                            | dQ              |
//
// Those of captured tensors come with them or behind them, as CapturedGradients.h says: sums of rows from NAME_rows and
// NAME_queries, of keys from NAME_keys, what is scattered from NAME_queries.
//
// Each gradient has one block that adds it up in an order of its own, so that the results are the same bits in every
// launch. S and dP are computed by both loops, seven products in place of five. Where a plan has copy warps, five are
// enough: the loop over queries adds dS K to sums in memory, in no particular order:
//
//     | NAME_rows    | a tile of queries   |                                          | delta, L, zeros |
//     | NAME_keys    | a tile of keys      | the heads of its group, tiles of queries | dK, dV, sums    |
//     | NAME_queries | a tile of queries   |                                          | dQ              |
//
// What loops over keys add to captured tensors has then a kernel of its own, NAME_elements.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Signature.h"
#include "passes/Passes.h"
#include "passes/attn/BoundsKernel.h"
#include "passes/attn/CapturedGradients.h"
#include "passes/attn/TileWriter.h"

namespace attune {
#define GEN_PASS_DEF_ATTNTOTILEBACKWARD
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::MemorySpace;
using tile::TileType;
using Predicate = arith::CmpIPredicate;

namespace {

/// The values of a region of gradients that its region `of` computes, too, each with that of `of`.
DenseMap<Value, Value> valuesInCommon(Region &gradient, Region &of) {
  DenseMap<Value, Value> common;
  for (auto [own, other] : llvm::zip(gradient.getArguments(), of.getArguments()))
    common[own] = other;
  for (Operation &op : gradient.front().without_terminator()) {
    if (op.getNumResults() != 1)
      continue;
    for (Operation &other : of.front().without_terminator()) {
      const bool same = op.getName() == other.getName() && op.getAttrs() == other.getAttrs() &&
                        op.getPropertiesAsAttribute() == other.getPropertiesAsAttribute() &&
                        op.getNumOperands() == other.getNumOperands() &&
                        llvm::all_of(llvm::zip(op.getOperands(), other.getOperands()),
                                     [&](auto pair) { return common.lookup(std::get<0>(pair)) == std::get<1>(pair); });
      if (same) {
        common[op.getResult(0)] = other.getResult(0);
        break;
      }
    }
  }
  return common;
}

class BackwardWriter : TileWriter {
public:
  BackwardWriter(attn::AttentionOp op, attn::PlanAttr plan, int64_t granularity, ArrayRef<CapturedGradient> captured)
      : TileWriter(op), plan(plan), gradients(*op.getGradients()), captured(captured),
        depth(llvm::alignTo(op.getHeadDim(), granularity)), depthV(llvm::alignTo(op.getHeadDimV(), granularity)),
        hasStatistics(!op.getStatistics().empty()) {}

  void write() {
    if (hasStatistics || addsQueries())
      writeKernel("_rows", {"b", "h", "q"}, [&] { writeRows(); });
    tile::KernelOp ofKeys = writeKernel("_keys", {"b", "hkv", "k"}, [&] { writeKeys(); }, addsQueries());
    writeKernel("_queries", {"b", "h", "q"}, [&] { addsQueries() ? writeSums() : writeQueries(/*withQueries=*/true); });
    if (addsQueries() && addsByRow())
      writeKernel("_elements", {"b", "h", "q"}, [&] { writeQueries(/*withQueries=*/false); });
    for (const CapturedGradient &gradient : captured)
      writeCaptured(gradient, ofKeys);
    if (!bounds.empty())
      kernels.insert(kernels.begin(),
                     FlatSymbolRefAttr::get(writeBoundsKernel(builder, op, ofKeys, bounds).getSymNameAttr()));
    OpBuilder front = OpBuilder::atBlockBegin(op->getBlock());
    tile::LaunchOp::create(front, loc, op.getSymNameAttr(), builder.getArrayAttr(kernels),
                           builder.getDenseBoolArrayAttr(SmallVector<bool>(kernels.size(), false)));
  }

private:
  //===--- Kernels and their operands ---===//

  /// `specialized`: some of its warps copy, and its products are warpgroup-level. Others have 16 rows of queries a warp.
  tile::KernelOp writeKernel(const Twine &suffix, ArrayRef<StringRef> axes, function_ref<void()> body,
                             bool specialized = false) {
    SmallVector<Attribute> grid;
    for (StringRef axis : axes) {
      const int64_t by = axis == "q" ? plan.getTileQ() : axis == "k" ? plan.getTileK() : 1;
      grid.push_back(tile::AxisAttr::get(op.getContext(), builder.getStringAttr(axis), 0, by));
    }
    const int64_t warps = addsQueries() && !specialized ? plan.getTileQ() / 16 : plan.getWarps();
    auto sizes = tile::PlanAttr::get(builder.getContext(), plan.getTileQ(), plan.getTileK(), warps,
                                     plan.getBlocksPerSm(), plan.getDvWarps());
    builder.setInsertionPoint(op);
    kernel = tile::KernelOp::create(builder, loc, (op.getSymName() + suffix).str(), builder.getArrayAttr({}),
                                    builder.getArrayAttr(grid), op.getDtype(), sizes, op.getTensorsAttr(),
                                    op.getScalarsAttr(), op.getPatternAttr(), op.getDropout(), op.getPrecise(),
                                    op.getQOffset());
    if (specialized)
      kernel->setAttr(sched::rolesAttr, rolesOf(plan));
    kernels.push_back(FlatSymbolRefAttr::get(kernel.getSymNameAttr()));
    builder.createBlock(&kernel.getBody());
    operands.clear();
    values = {};
    body();
    for (const BoundsTable &table : ofKernel)
      operands.push_back(table.declaration());
    ofKernel.clear();
    kernel.setOperandsAttr(builder.getArrayAttr(operands));
    builder.setInsertionPoint(op);
    return kernel;
  }

  /// Declares an operand of the kernel, and reads its view. The last axis is `columns` wide, or a row's one value.
  Value operand(StringRef name, OperandRole role, Type element, StringRef heads, StringRef rows, StringRef columns = "",
                int64_t width = 0) {
    SmallVector<tile::AxisAttr> axes;
    for (StringRef axis : {StringRef("b"), heads, rows})
      axes.push_back(tile::AxisAttr::get(op.getContext(), builder.getStringAttr(axis), 0, 1));
    if (width)
      axes.push_back(tile::AxisAttr::get(op.getContext(), builder.getStringAttr(columns), width, 1));
    operands.push_back(
        tile::OperandAttr::get(op.getContext(), builder.getStringAttr(name), role, /*optional=*/false, axes, element));
    return param(name, view(int64_t(axes.size()), element));
  }
  Value operand(tile::OperandAttr declared) {
    operands.push_back(declared);
    return param(declared.getName(), declared.getViewType());
  }
  Value ofQueries(StringRef name, OperandRole role = OperandRole::In) {
    return operand(name, role, op.getDtype(), "h", "q", "d", op.getHeadDim());
  }
  Value ofOutputs(StringRef name) {
    return operand(name, OperandRole::In, op.getDtype(), "h", "q", "dv", op.getHeadDimV());
  }
  Value ofKeys(StringRef name, OperandRole role = OperandRole::In) {
    return operand(name, role, op.getDtype(), "hkv", "k", "d", op.getHeadDim());
  }
  Value ofValues(StringRef name, OperandRole role = OperandRole::In) {
    return operand(name, role, op.getDtype(), "hkv", "k", "dv", op.getHeadDimV());
  }
  Value ofRows(StringRef name, OperandRole role) { return operand(name, role, f32, "h", "q"); }

  /// Where only the divisor tells L from LSE, there is a place for L.
  bool hasSink() { return yieldOf(op.getDivisor()) != op.getDivisor().getArguments().back(); }

  /// Whether the loop over queries has all five products, and adds to dQ in memory.
  bool addsQueries() { return plan.getCopyWarps() > 0; }
  /// Whether loops over keys add to captured tensors.
  bool addsByRow() {
    return !sumsOfElements(/*ofKeys=*/false).empty() ||
           llvm::any_of(captured, [](const CapturedGradient &gradient) { return !gradient.scattered.empty(); });
  }

  /// dQ in float32 before the scale.
  Value sumsOfQueries() { return operand("dq_sums", OperandRole::Workspace, f32, "h", "q", "d", op.getHeadDim()); }

  Value blockIndex(StringRef axis) {
    const StringRef name = axis == "q" ? "q0" : axis == "k" ? "k0" : axis;
    return tile::named(tile::BlockIndexOp::create(builder, loc, i32, axis), name);
  }

  /// What the loops of both kernels read; after the operands are declared, which have the extents.
  void readSizes() {
    values.Sq = axisExtent("q", "Sq");
    values.Sk = axisExtent("k", "Sk");
    values.B = axisExtent("b", "B");
    values.H = axisExtent("h", "H");
    qOffset = op.getQOffset() ? param("q_offset", i32) : Value();
    values.qOffset = qOffset;
    values.tileQ = plan.getTileQ();
    values.tileK = plan.getTileK();
    if (!op.getDropout())
      return;
    seed = param("seed", builder.getI64Type());
    offset = param("offset", builder.getI64Type());
    threshold = param("drop_threshold", i32);
    keepScale = param("keep_scale", f32);
  }

  void setHead(Value head) {
    values.h = h = head;
    if (op.getDropout())
      headNumber = tile::named(add(arith::MulIOp::create(builder, loc, b, values.H), h), "head");
  }

  TileType rows() { return shape({{"q", plan.getTileQ()}}, f32, MemorySpace::Register); }
  TileType scores() { return shape({{"q", plan.getTileQ()}, {"k", plan.getTileK()}}, f32, MemorySpace::Register); }
  TileType tileOf(StringRef axis, StringRef columns, Type element, MemorySpace space) {
    return shape({{axis, axis == "q" ? plan.getTileQ() : plan.getTileK()}, {columns, columns == "d" ? depth : depthV}},
                 element, space);
  }
  Value load(StringRef name, StringRef axis, StringRef columns, Value view, ValueRange at, Value limit,
             int64_t stages) {
    return copy(tileOf(axis, columns, op.getDtype(), MemorySpace::Shared), view, at, limit, stages, name);
  }
  Value loadRows(StringRef name, Value view, Value q0, Value limit) {
    return tile::named(tile::LoadOp::create(builder, loc, rows(), view, ValueRange{b, h, q0}, limit), name);
  }
  Value zeros(StringRef name, StringRef axis, StringRef columns) {
    return tile::named(tile::SplatOp::create(builder, loc, tileOf(axis, columns, f32, MemorySpace::Register), zero),
                       name);
  }

  //===--- Rows ---===//

  /// delta, and L where it is not LSE; zeros where dQ is added up.
  void writeRows() {
    b = blockIndex("b");
    h = blockIndex("h");
    Value q0 = blockIndex("q");
    if (addsQueries()) {
      zero = constant(0);
      Value sums = sumsOfQueries();
      tile::StoreOp::create(builder, loc, zeros("dq", "q", "d"), sums, ValueRange{b, h, q0}, axisExtent("q", "Sq"),
                            false);
    }
    if (!hasStatistics)
      return;
    Value o = ofOutputs("o"), gradient = ofOutputs("do"), lse = ofRows("lse", OperandRole::In);
    Value ofLse = gradients.getLse() ? ofRows("dlse", OperandRole::In) : Value();
    Value delta = ofRows("delta", OperandRole::Workspace);
    Value logs = hasSink() ? ofRows("log_divisor", OperandRole::Workspace) : Value();
    Value limit = axisExtent("q", "Sq");
    const SmallVector<Value, 3> at{b, h, q0};
    Value product =
        map("o_do", tileOf("q", "dv", f32, MemorySpace::Register),
            {load("o_tile", "q", "dv", o, at, limit, 1), load("do_tile", "q", "dv", gradient, at, limit, 1)},
            [&](ValueRange x) -> Value { return arith::MulFOp::create(builder, loc, x[0], x[1]); });
    Value sum = tile::named(
        tile::ReduceOp::create(builder, loc, rows(), tile::Reduction::Sum, product, "dv", Value(), false), "row_sum");
    SmallVector<Value> inputs{sum, loadRows("lse", lse, q0, limit)};
    if (ofLse)
      inputs.push_back(loadRows("dlse", ofLse, q0, limit));
    auto store = [&](Value tile, Value view) { tile::StoreOp::create(builder, loc, tile, view, at, limit, false); };
    store(map("delta", rows(), inputs, [&](ValueRange x) { return deltaOf(x[0], x[1], ofLse ? x[2] : Value()); }),
          delta);
    if (logs)
      store(map("log_divisor", rows(), inputs[1], [&](ValueRange x) { return logDivisorOf(x[0]); }), logs);
    for (const GradientSum &sum : sumsOf({&op.getDivisorGrad(), &op.getLseGrad()}, false))
      store(map("added", rows(), inputs, [&](ValueRange x) { return addedByRow(sum.add, x); }),
            operand(sum.declaration()));
  }

  /// What `add`, in the region of gradients of the divisor or of LSE, adds for a row; of rowsum(dO * O), LSE and, where it
  /// is there, dLSE.
  Value addedByRow(attn::AddGradientOp add, ValueRange row) {
    Value lse = row[1], none = isEmpty(lse), g = constant(0);
    if (add->getParentRegion() == &op.getDivisorGrad()) {
      // O is 0 where D is infinite: nothing reaches D.
      Value divisor = divisorOf(lse), infinity = constant(std::numeric_limits<float>::infinity());
      Value isInfinite = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, divisor, infinity);
      none = arith::OrIOp::create(builder, loc, none, isInfinite);
      g = arith::NegFOp::create(builder, loc, arith::DivFOp::create(builder, loc, row[0], divisor));
    } else if (row.size() > 2) {
      g = row[2];
    }
    Value added = gradientBy(*add->getParentRegion(), lse, g, add.getValue());
    return arith::SelectOp::create(builder, loc, none, constant(0), added);
  }

  /// Of the sums for rows or for keys, those of additions in these regions of gradients.
  SmallVector<GradientSum> sumsOf(std::initializer_list<Region *> regions, bool ofKeys) {
    SmallVector<GradientSum> sums;
    for (const CapturedGradient &gradient : captured)
      for (const GradientSum &sum : gradient.sums)
        if (sum.ofKeys == ofKeys && llvm::is_contained(regions, sum.add->getParentRegion()))
          sums.push_back(sum);
    return sums;
  }
  SmallVector<GradientSum> sumsOfElements(bool ofKeys) { return sumsOf({&op.getScoreGrad(), &op.getPGrad()}, ofKeys); }

  Value isEmpty(Value lse) {
    return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, lse,
                                 constant(-std::numeric_limits<float>::infinity()));
  }

  /// The arguments of a region of the normaliser whose maximum is LSE: b, h, the statistics.
  SmallVector<Value> atLse(Value lse) {
    Value sum = arith::SelectOp::create(builder, loc, isEmpty(lse), constant(0), constant(1));
    SmallVector<Value> arguments{b, h};
    for (auto statistic : op.getStatistics().getAsRange<attn::RowStatisticAttr>())
      arguments.push_back(statistic.getIsMax() ? lse : sum);
    return arguments;
  }

  Value divisorOf(Value lse) { return valueOf(op.getDivisor(), atLse(lse)); }

  /// The value that a region of gradients yields for the gradient g, or another value of it.
  Value gradientBy(Region &region, Value lse, Value g, Value value = {}) {
    SmallVector<Value> arguments = atLse(lse);
    arguments.push_back(g);
    IRMapping mapping;
    mapping.map(region.getArguments(), arguments);
    return cloneFromRegion(builder, op, value ? value : yieldOf(region), mapping);
  }

  /// With g = -rowsum(dO * O) / D of the divisor D, and dLSE of LSE, the sum of weights has a gradient, which all weights
  /// of the row share: -delta / D.
  Value deltaOf(Value sum, Value lse, Value ofLse) {
    Value delta = gradientBy(op.getDivisorGrad(), lse, sum);
    if (ofLse) {
      Value own = arith::MulFOp::create(builder, loc, gradientBy(op.getLseGrad(), lse, ofLse), divisorOf(lse));
      delta = arith::SubFOp::create(builder, loc, delta, own);
    }
    return arith::SelectOp::create(builder, loc, isEmpty(lse), constant(0), delta);
  }

  /// L = LSE + log(D), -inf in a row without a key.
  Value logDivisorOf(Value lse) {
    return arith::AddFOp::create(builder, loc, lse, math::LogOp::create(builder, loc, divisorOf(lse)));
  }

  //===--- Tiles of queries and keys ---===//

  /// The rows' values in a tile of queries; null where the normaliser has no statistics.
  struct RowValues {
    Value base, delta;
  };
  struct RowViews {
    Value logs, delta;
  };

  RowViews rowViews() {
    if (!hasStatistics)
      return {};
    Value logs = hasSink() ? ofRows("log_divisor", OperandRole::Workspace) : ofRows("lse", OperandRole::In);
    return {logs, ofRows("delta", OperandRole::Workspace)};
  }

  RowValues rowValues(RowViews views, Value q0) {
    if (!hasStatistics)
      return {};
    Value base = map("base", rows(), loadRows("lse", views.logs, q0, values.Sq),
                     [&](ValueRange x) { return valueOf(op.getBase(), atLse(x[0])); });
    return {base, loadRows("delta", views.delta, q0, values.Sq)};
  }

  Value qOrigin(Value q0) { return qOffset ? tile::named(add(q0, qOffset), "q_origin") : q0; }

  /// Each cut in the tiles that it goes through; what is left of the mask in partial tiles. Sets `isMasked`, whether the
  /// tile is one of them. `hidden` is what a hidden key has.
  Value maskTile(Value tile, float hidden, Value q0, Value origin, Value k0, Value partial) {
    const bool loopsOverKeys = !values.k0;
    const int64_t step = loopsOverKeys ? plan.getTileK() : plan.getTileQ();
    Value looped = loopsOverKeys ? k0 : q0;
    for (const MaskCut &cut : mask.cuts) {
      Value crossed = cut.fullBegin ? compare(Predicate::slt, looped, cut.fullBegin)
                                    : compare(Predicate::sgt, add(looped, number(step)), cut.fullEnd);
      isMasked = isMasked ? either(isMasked, crossed) : crossed;
      Value zero = number(0);
      auto visible = [&](Value q, Value k) {
        BlockValues row = values.atRow(loopsOverKeys ? rowOf(q) : k);
        return emitCut(builder, op, row, cut, looped, loopsOverKeys ? k : q);
      };
      tile = hide(tile, loopsOverKeys ? origin : zero, loopsOverKeys ? zero : k0, crossed, visible, hidden);
    }
    // A key past the last one adds to no dQ.
    if (addsQueries() && !loopsOverKeys) {
      Value ends = compare(Predicate::sgt, add(k0, number(plan.getTileK())), values.Sk);
      isMasked = isMasked ? either(isMasked, ends) : ends;
      auto exists = [&](Value, Value k) { return compare(Predicate::slt, k, values.Sk); };
      tile = hide(tile, number(0), k0, ends, exists, hidden);
    }
    const bool lookUp = patternNeedsElementMask(op, plan.getTileQ(), plan.getTileK());
    if (mask.rest.empty() && !lookUp)
      return tile;
    isMasked = isMasked ? either(isMasked, partial) : partial;
    auto visible = [&](Value q, Value k) { return isVisible(mask.rest, lookUp, q, k); };
    return hide(tile, origin, k0, partial, visible, hidden);
  }

  Value either(Value a, Value b) { return arith::OrIOp::create(builder, loc, a, b); }

  /// P of a tile of x.
  Value weights(Value x, Value base) {
    SmallVector<Value> inputs{x};
    if (base)
      inputs.push_back(base);
    return map("p", scores(), inputs, [&](ValueRange v) {
      SmallVector<Value> arguments{b, h};
      llvm::append_range(arguments, v);
      return valueOf(op.getP(), arguments);
    });
  }

  Value dropped(Value tile, StringRef name, Value q0, Value k0, bool negates = false) {
    if (!op.getDropout())
      return tile;
    return tile::named(
        tile::DropoutOp::create(builder, loc, scores(), tile, q0, k0, headNumber, seed, offset, threshold, negates),
        name);
  }

  /// Whether the sign of P says what is dropped: where no weight is negative, one call of the generator serves P and dP.
  bool marksDropped() { return op.getDropout() && hasStatistics; }
  Value isDropped(Value p) { return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, p, constant(0)); }

  /// P with dropout, of P as a tile of scores has it.
  Value keptOf(Value p, Value q0, Value k0) {
    if (!marksDropped())
      return dropped(p, "p", q0, k0);
    return map("p", scores(), p, [&](ValueRange v) -> Value {
      return arith::SelectOp::create(builder, loc, isDropped(v[0]), constant(0), v[0]);
    });
  }

  /// A tile's scores and gradients.
  struct ScoreTile {
    Value s, x, p, dp; ///< p negative where it is dropped, if `marksDropped`
    Value origin, k0;  ///< of its queries, with the query offset, and of its keys
    RowValues rows;
  };

  /// Everything up to dP of a tile.
  ScoreTile scoresOf(Value q, Value k, Value v, Value gradient, Value q0, Value k0, Value partial, RowValues rows) {
    ScoreTile tile{{}, {}, {}, {}, qOrigin(q0), k0, rows};
    tile.s = tile::named(tile::MmaOp::create(builder, loc, scores(), q, k, Value()), "s");
    isMasked = Value();
    tile.x = scoreTile(tile.s, tile.origin, k0);
    auto masked = [&](Value of, float hidden) { return maskTile(of, hidden, q0, tile.origin, k0, partial); };
    // What x would be of a hidden key may be anything, and LSE of the row NaN: its p is 0, in place of p of -inf.
    if (!hasStatistics)
      tile.x = masked(tile.x, -std::numeric_limits<float>::infinity());
    tile.p = weights(tile.x, rows.base);
    if (hasStatistics)
      tile.p = masked(tile.p, 0);
    if (marksDropped())
      tile.p = dropped(tile.p, "p", q0, k0, /*negates=*/true);
    tile.dp = tile::named(tile::MmaOp::create(builder, loc, scores(), gradient, v, Value()), "dp");
    if (!marksDropped())
      tile.dp = dropped(tile.dp, "dp", q0, k0);
    return tile;
  }

  /// dS of a tile: 0 of hidden keys, whatever the other factors are.
  Value scoreGradients(const ScoreTile &tile) {
    Value ds = gradientsOfVisible(tile);
    if (!isMasked || !op.getScoreGrad().empty())
      return ds;
    return createMap(
        builder, loc, "ds", scores(), {ds, hasStatistics ? tile.p : tile.x},
        [&](ValueRange v) { return unlessHidden(v[0], v[1], hasStatistics); }, isMasked);
  }

  /// `value`, but 0 of a key that is hidden by its x, or has no weight P where that is what is given.
  Value unlessHidden(Value value, Value of, bool isWeight) {
    Value none = constant(isWeight ? 0 : -std::numeric_limits<float>::infinity());
    Value isHidden = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, of, none);
    return arith::SelectOp::create(builder, loc, isHidden, constant(0), value);
  }

  /// The same by one map. What p_grad and score_grad do not read is no input.
  Value gradientsOfVisible(const ScoreTile &tile) {
    return mapOfGradients(tile, "ds", [&](Value g, function_ref<Value(Value)> input, tile::MapOp map) {
      Value dx = weightGradient(tile, g, yieldOf(op.getPGrad()), input);
      return op.getScoreGrad().empty() ? dx : scoreGradient(tile, dx, yieldOf(op.getScoreGrad()), input, map);
    });
  }

  /// What `add`, in the region of gradients of the score or of p, adds for each element: 0 of hidden keys.
  Value addedOf(const ScoreTile &tile, attn::AddGradientOp add) {
    return mapOfGradients(tile, "added", [&](Value g, function_ref<Value(Value)> input, tile::MapOp map) {
      if (add->getParentRegion() == &op.getScoreGrad())
        return scoreGradient(tile, weightGradient(tile, g, yieldOf(op.getPGrad()), input), add.getValue(), input, map);
      Value added = weightGradient(tile, g, add.getValue(), input);
      return unlessHidden(added, input(hasStatistics ? tile.p : tile.x), hasStatistics);
    });
  }

  /// A map over dP, whose body gets G of an element, adds further inputs, and returns the element of the result.
  Value mapOfGradients(const ScoreTile &tile, StringRef name,
                       function_ref<Value(Value g, function_ref<Value(Value)> input, tile::MapOp map)> body) {
    auto map = tile::MapOp::create(builder, loc, scores(), ValueRange{tile.dp}, {});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    DenseMap<Value, Value> elements;
    auto input = [&](Value tile) {
      Value &element = elements[tile];
      if (!element)
        element = map.addInput(tile, f32);
      return element;
    };
    Value g = map.getElement(0);
    if (keepScale)
      g = arith::MulFOp::create(builder, loc, g, keepScale);
    if (marksDropped())
      g = arith::SelectOp::create(builder, loc, isDropped(input(tile.p)), constant(0), g);
    if (tile.rows.delta)
      g = arith::SubFOp::create(builder, loc, g, input(tile.rows.delta));
    tile::YieldOp::create(builder, loc, body(g, input, map));
    return tile::named(map.getResult(), name);
  }

  Value weightOf(Value p) { return marksDropped() ? Value(math::AbsFOp::create(builder, loc, p)) : p; }

  /// dX of an element, or another value of the region: p_grad of g, which P serves where the region computes it again.
  Value weightGradient(const ScoreTile &tile, Value g, Value value, function_ref<Value(Value)> input) {
    Region &region = op.getPGrad();
    IRMapping mapping;
    mapping.map(region.getArguments().take_front(2), ValueRange{b, h});
    mapping.map(region.getArguments().back(), g);
    Value p = yieldOf(op.getP());
    for (auto [own, other] : valuesInCommon(region, op.getP()))
      if (other == p && own.getDefiningOp())
        mapping.map(own, weightOf(input(tile.p)));
    const std::pair<unsigned, Value> inputs[] = {{2, tile.x}, {3, tile.rows.base}};
    for (auto [argument, of] : inputs)
      if (of && isNeeded(value, region.getArgument(argument), mapping))
        mapping.map(region.getArgument(argument), input(of));
    return cloneFromRegion(builder, op, value, mapping);
  }

  /// dS of an element, or another value of the region: score_grad of dX.
  Value scoreGradient(const ScoreTile &tile, Value dx, Value value, function_ref<Value(Value)> input, tile::MapOp map) {
    Region &region = op.getScoreGrad();
    IRMapping mapping;
    mapping.map(region.getArguments().slice(1, 2), ValueRange{b, h});
    mapping.map(region.getArguments().back(), dx);
    if (isNeeded(value, region.getArgument(0), mapping))
      mapping.map(region.getArgument(0), scaled(input(tile.s)));
    const std::tuple<unsigned, StringRef, Value> coordinates[] = {{3, "q", tile.origin}, {4, "k", tile.k0}};
    for (auto [argument, axis, origin] : coordinates)
      if (isNeeded(value, region.getArgument(argument), mapping))
        mapping.map(region.getArgument(argument), map.addCoordinate(axis, origin));
    Value result = cloneFromRegion(builder, op, value, mapping);
    return unlessHidden(result, input(hasStatistics ? tile.p : tile.x), hasStatistics);
  }

  /// Whether a value of a region follows from `argument` by values that are not mapped.
  static bool isNeeded(Value of, Value argument, const IRMapping &mapping) {
    SmallVector<Value> needed{of};
    DenseSet<Value> seen;
    while (!needed.empty()) {
      Value value = needed.pop_back_val();
      if (value == argument)
        return true;
      if (!seen.insert(value).second || mapping.contains(value) || !value.getDefiningOp())
        continue;
      llvm::append_range(needed, value.getDefiningOp()->getOperands());
    }
    return false;
  }

  //===--- Loops ---===//

  Value domain() {
    Value tiles = buildDomain(builder, op, values, ofKernel);
    mask = splitMask(builder, op, values, ofKernel);
    for (const BoundsTable &table : ofKernel)
      if (!llvm::is_contained(bounds, table))
        bounds.push_back(table);
    return tiles;
  }

  Value product(StringRef name, StringRef axis, StringRef columns, Value a, Value b, Value sum) {
    return tile::named(tile::MmaOp::create(builder, loc, tileOf(axis, columns, f32, MemorySpace::Register), a, b, sum),
                       name);
  }

  /// What the loops over the tiles of queries that see a tile of keys carry: dK, dV, then sums of keys.
  using Carried = SmallVector<Value>;

  /// dK and dV of a tile of keys: over the query heads of its group, over the tiles of queries that see it. Where these
  /// are the same of every head, heads are rounds of one loop.
  void writeKeys() {
    values.b = b = blockIndex("b");
    Value kvHead = blockIndex("hkv"), k0 = blockIndex("k");
    values.k0 = k0;
    const KeyViews views{ofQueries("q"), ofOutputs("do"), rowViews(), addsQueries() ? sumsOfQueries() : Value()};
    Value keys = ofKeys("k"), vs = ofValues("v");
    Value dk = ofKeys("dk", OperandRole::Out), dv = ofValues("dv", OperandRole::Out);
    const SmallVector<GradientSum> sums = sumsOfElements(/*ofKeys=*/true);
    const SmallVector<Value> sumViews = viewsOf(sums);
    readSizes();
    zero = constant(0);
    Value group = param("group", i32), first = arith::MulIOp::create(builder, loc, kvHead, group);
    const SmallVector<Value, 3> at{b, kvHead, k0};
    const KeyTiles tiles{load("k_tile", "k", "d", keys, at, values.Sk, 1),
                         load("v_tile", "k", "dv", vs, at, values.Sk, 1)};
    const Carried none{zeros("dk", "k", "d"), zeros("dv", "k", "dv")};
    values.h = h = first;
    auto ofFirst = domain().getDefiningOp<tile::DomainOp>();
    Carried carried;
    if (first.use_empty() && sums.empty()) {
      ofFirst.getTimesMutable().assign(group);
      carried = loopOver(ofFirst, none, [&](tile::ForBlocksOp loop) {
        setHead(tile::named(add(first, loop.getRound()), "h"));
        return afterTile(loop, tiles, views, {});
      });
    } else {
      Value heads = tile::DomainOp::create(builder, loc, "h", 1, first, add(first, group));
      carried = loopOver(heads, none, [&](tile::ForBlocksOp ofHeads) {
        setHead(ofHeads.getOrigin());
        Carried inits(ofHeads.getCarried());
        inits.append(sums.size(), noSum("k"));
        Carried ofHead =
            loopOver(domain(), inits, [&](tile::ForBlocksOp loop) { return afterTile(loop, tiles, views, sums); });
        for (auto [view, result] : llvm::zip(sumViews, ArrayRef(ofHead).drop_front(2)))
          tile::StoreOp::create(builder, loc, result, view, ValueRange{b, h, k0}, values.Sk, false);
        return Carried(ArrayRef(ofHead).take_front(2));
      });
    }
    tile::StoreOp::create(builder, loc, scaledBy("dk", carried[0], scale()), dk, at, values.Sk, false);
    tile::StoreOp::create(builder, loc, keepScale ? scaledBy("dv", carried[1], keepScale) : carried[1], dv, at,
                          values.Sk, false);
  }

  /// A rounded tile by way of shared memory: what one warpgroup computes, others read. In two stages, written in turn,
  /// they meet once a tile.
  Value exchanged(Value tile, StringRef name) {
    auto type = cast<TileType>(tile.getType()).withSpace(MemorySpace::Shared);
    auto convert = tile::ConvertOp::create(builder, loc, type, tile.getDefiningOp<tile::ConvertOp>().getTile());
    convert->setAttr(sched::ringAttr, sched::RingAttr::get(builder.getContext(), 2));
    return tile::named(convert, name);
  }

  Carried loopOver(Value domain, const Carried &inits, function_ref<Carried(tile::ForBlocksOp)> body) {
    auto loop = tile::ForBlocksOp::create(builder, loc, domain, ValueRange(), inits);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&loop.getBody().front());
    tile::YieldOp::create(builder, loc, body(loop));
    return Carried(loop.getResults());
  }

  struct KeyViews {
    Value q, gradient;
    RowViews rows;
    Value dq; ///< float32 sums; null where dQ has a kernel of its own
  };
  struct KeyTiles {
    Value k, v;
  };

  /// What is carried after a tile of queries; adds its share to dQ where that is summed here.
  Carried afterTile(tile::ForBlocksOp loop, const KeyTiles &of, const KeyViews &views, ArrayRef<GradientSum> sums) {
    Value q0 = loop.getOrigin();
    const SmallVector<Value, 3> row{b, h, q0};
    Value qTile = load("q_tile", "q", "d", views.q, row, values.Sq, plan.getStages()),
          doTile = load("do_tile", "q", "dv", views.gradient, row, values.Sq, plan.getStages());
    const ScoreTile tile =
        scoresOf(qTile, of.k, of.v, doTile, q0, values.k0, loop.getPartial(), rowValues(views.rows, q0));
    Value ds = rounded(scoreGradients(tile), "ds"), p = rounded(keptOf(tile.p, q0, values.k0), "p");
    Value nextV = product("dv", "k", "dv", p, doTile, loop.getCarried()[1]);
    Value dq = views.dq ? product("dq", "q", "d", exchanged(ds, "ds"), of.k, Value()) : Value();
    Value nextK = product("dk", "k", "d", ds, qTile, loop.getCarried()[0]);
    if (dq)
      tile::AccumulateOp::create(builder, loc, dq, views.dq, row, values.Sq);
    Carried next{nextK, nextV};
    for (auto [sum, before] : llvm::zip(sums, loop.getCarried().drop_front(2)))
      next.push_back(addedTo(before, tile, sum.add, "q"));
    return next;
  }

  /// dQ of a tile of queries from the sums in memory.
  void writeSums() {
    b = blockIndex("b");
    h = blockIndex("h");
    Value q0 = blockIndex("q"), sums = sumsOfQueries(), dq = ofQueries("dq", OperandRole::Out);
    Value limit = axisExtent("q", "Sq");
    const SmallVector<Value, 3> at{b, h, q0};
    Value tile = tile::named(
        tile::LoadOp::create(builder, loc, tileOf("q", "d", f32, MemorySpace::Register), sums, at, limit), "dq");
    tile::StoreOp::create(builder, loc, scaledBy("dq", tile, scale()), dq, at, limit, false);
  }

  /// dQ of a tile of queries, over the tiles of keys that it sees, and what they add to captured tensors; or these alone.
  void writeQueries(bool withQueries) {
    values.b = b = blockIndex("b");
    Value head = blockIndex("h"), q0 = blockIndex("q");
    values.q0 = q0;
    Value queries = ofQueries("q"), keys = ofKeys("k"), vs = ofValues("v"), gradient = ofOutputs("do");
    const RowViews views = rowViews();
    Value dq = withQueries ? ofQueries("dq", OperandRole::Out) : Value();
    const SmallVector<GradientSum> sums = sumsOfElements(/*ofKeys=*/false);
    const SmallVector<Value> sumViews = viewsOf(sums);
    readSizes();
    setHead(head);
    zero = constant(0);
    Value kvHead = tile::named(arith::DivSIOp::create(builder, loc, h, param("group", i32)), "kv_head");
    const SmallVector<Value, 3> at{b, h, q0};
    Value tiles = domain();
    Value qTile = load("q_tile", "q", "d", queries, at, values.Sq, 1),
          doTile = load("do_tile", "q", "dv", gradient, at, values.Sq, 1);
    const RowValues ofRow = rowValues(views, q0);
    Carried inits;
    if (dq)
      inits.push_back(zeros("dq", "q", "d"));
    inits.append(sums.size(), noSum("q"));
    const Carried ends = loopOver(tiles, inits, [&](tile::ForBlocksOp loop) {
      Value k0 = loop.getOrigin();
      const SmallVector<Value, 3> row{b, kvHead, k0};
      Value kTile = load("k_tile", "k", "d", keys, row, values.Sk, plan.getStages()),
            vTile = load("v_tile", "k", "dv", vs, row, values.Sk, plan.getStages());
      const ScoreTile tile = scoresOf(qTile, kTile, vTile, doTile, q0, k0, loop.getPartial(), ofRow);
      Carried next;
      if (dq)
        next.push_back(product("dq", "q", "d", rounded(scoreGradients(tile), "ds"), kTile, loop.getCarried().front()));
      for (auto [sum, before] : llvm::zip(sums, loop.getCarried().take_back(sums.size())))
        next.push_back(addedTo(before, tile, sum.add, "k"));
      for (const CapturedGradient &gradient : captured)
        for (attn::AddGradientOp add : gradient.scattered)
          scatter(tile, add, gradient);
      return next;
    });
    for (auto [view, result] : llvm::zip(sumViews, ArrayRef(ends).take_back(sums.size())))
      tile::StoreOp::create(builder, loc, result, view, at, values.Sq, false);
    if (dq)
      tile::StoreOp::create(builder, loc, scaledBy("dq", ends.front(), scale()), dq, at, values.Sq, false);
  }

  Value scale() { return constant(op.getScale().convertToFloat()); }

  //===--- Captured tensors ---===//

  SmallVector<Value> viewsOf(ArrayRef<GradientSum> sums) {
    return llvm::map_to_vector(sums, [&](const GradientSum &sum) { return operand(sum.declaration()); });
  }

  TileType vectorOf(StringRef axis) {
    return shape({{axis, axis == "q" ? plan.getTileQ() : plan.getTileK()}}, f32, MemorySpace::Register);
  }
  /// Of rows or of keys, before the first tile.
  Value noSum(StringRef axis) { return tile::SplatOp::create(builder, loc, vectorOf(axis), zero); }

  /// A sum of rows or keys with what `add` adds in a tile, along the other axis.
  Value addedTo(Value before, const ScoreTile &tile, attn::AddGradientOp add, StringRef along) {
    return tile::named(tile::ReduceOp::create(builder, loc, cast<TileType>(before.getType()), tile::Reduction::Sum,
                                              addedOf(tile, add), along, before, false),
                       add.getName());
  }

  /// Adds what `add` adds in a tile to the workspace, element by element.
  void scatter(const ScoreTile &tile, attn::AddGradientOp add, const CapturedGradient &gradient) {
    tile::OperandAttr declared = gradient.addends();
    Value view =
        llvm::is_contained(operands, declared) ? param(declared.getName(), declared.getViewType()) : operand(declared);
    Value added = addedOf(tile, add), unlessZero = added;
    SmallVector<Value> indices;
    for (auto [dim, index] : llvm::enumerate(add.getIndices())) {
      Value extent = axisExtent(gradient.axis(dim), "extent");
      if (isOfHead(add, index)) {
        indices.push_back(placeOf(add, index, extent, {b, h, {}, {}}));
        continue;
      }
      indices.push_back(indexTile(tile, add, index, extent, unlessZero));
      unlessZero = {};
    }
    tile::ScatterOp::create(builder, loc, added, view, indices, /*add=*/true);
  }

  /// An index at these coordinates, within the tensor.
  Value placeOf(attn::AddGradientOp add, Value index, Value extent, const std::array<Value, 4> &coordinates) {
    IRMapping mapping;
    for (auto [argument, value] : llvm::zip(coordinatesAround(add), coordinates))
      if (argument && value)
        mapping.map(argument, value);
    return clampIndex(builder, loc, cloneFromRegion(builder, op, index, mapping), extent);
  }

  /// An index of each element of a tile; -1 in rows past the end, and of what adds nothing by `unlessZero`.
  Value indexTile(const ScoreTile &tile, attn::AddGradientOp add, Value index, Value extent, Value unlessZero) {
    auto map =
        tile::MapOp::create(builder, loc, scores().withElementType(i32),
                            unlessZero ? ValueRange{unlessZero} : ValueRange(), {{"q", tile.origin}, {"k", tile.k0}});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    Value q = map.getCoordinate("q"), place = placeOf(add, index, extent, {b, h, q, map.getCoordinate("k")});
    if (unlessZero) {
      Value isAdded = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, map.getElement(0), constant(0));
      isAdded = arith::AndIOp::create(builder, loc, isAdded, compare(Predicate::slt, rowOf(q), values.Sq));
      place = arith::SelectOp::create(builder, loc, isAdded, place, number(-1));
    }
    tile::YieldOp::create(builder, loc, place);
    return tile::named(map.getResult(), "index");
  }

  /// The kernels that complete the gradient of a captured tensor, and in front of all others the one that zeroes.
  void writeCaptured(const CapturedGradient &gradient, tile::KernelOp like) {
    auto symbol = [](tile::KernelOp of) { return FlatSymbolRefAttr::get(of.getSymNameAttr()); };
    if (!gradient.tiles.empty() || !gradient.scattered.empty())
      kernels.insert(kernels.begin(), symbol(writeZerosKernel(builder, op, gradient, like)));
    if (gradient.tiles.empty())
      kernels.push_back(symbol(writeGradientKernel(builder, op, gradient, like)));
    else
      writeTiles(gradient);
  }

  /// The gradient of a tensor whose indices are coordinates: a block for each tile of queries and keys, and of b and h
  /// where these are indices. A loop over those that share the tile's elements.
  void writeTiles(const CapturedGradient &gradient) {
    std::array<std::string, 2> axes; // of b and h
    std::array<Value, 2> places;
    std::array<std::optional<unsigned>, 4> dims;
    attn::AddGradientOp first = gradient.tiles.front();
    for (auto [dim, index] : llvm::enumerate(first.getIndices()))
      dims[*coordinateOf(first, index)] = unsigned(dim);
    SmallVector<StringRef> grid;
    for (unsigned coordinate : {0u, 1u})
      if (dims[coordinate])
        grid.push_back(axes[coordinate] = gradient.axis(*dims[coordinate]));
    grid.append({"q", "k"});
    writeKernel("_grad_" + gradient.tensor.getName().getValue(), grid, [&] {
      for (unsigned coordinate : {0u, 1u})
        if (dims[coordinate])
          places[coordinate] = tile::named(tile::BlockIndexOp::create(builder, loc, i32, axes[coordinate]),
                                           coordinate ? "head_place" : "batch_place");
      writeTilesOf(gradient, dims, places);
    });
  }

  void writeTilesOf(const CapturedGradient &gradient, const std::array<std::optional<unsigned>, 4> &dims,
                    std::array<Value, 2> places) {
    Value q0 = blockIndex("q"), k0 = blockIndex("k");
    values.q0 = q0;
    Value queries = ofQueries("q"), keys = ofKeys("k"), vs = ofValues("v"), doView = ofOutputs("do");
    const RowViews views = rowViews();
    Value out = operand(gradient.declaration());
    readSizes();
    zero = constant(0);
    const std::array<Value, 2> counts = {values.B, values.H};
    auto extent = [&](unsigned coordinate) { return axisExtent(gradient.axis(*dims[coordinate]), "extent"); };
    std::array<Value, 2> all;
    for (unsigned i : {0u, 1u})
      all[i] = sharers(i ? "h" : "b", counts[i], places[i], places[i] ? extent(i) : Value());
    Value none = tile::named(tile::SplatOp::create(builder, loc, scores(), zero), "gradient");
    auto loop = [&](Value over, Value init, function_ref<Value(tile::ForBlocksOp loop)> body) -> Value {
      auto blocks = tile::ForBlocksOp::create(builder, loc, over, ValueRange(), init);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&blocks.getBody().front());
      tile::YieldOp::create(builder, loc, body(blocks));
      return blocks.getResult(0);
    };
    Value total = loop(all[0], none, [&](tile::ForBlocksOp batches) {
      values.b = b = batches.getOrigin();
      return loop(all[1], batches.getCarried()[0], [&](tile::ForBlocksOp heads) {
        setHead(heads.getOrigin());
        return loop(onlyTile(domain(), k0), heads.getCarried()[0], [&](tile::ForBlocksOp tiles) {
          Value kvHead = tile::named(arith::DivSIOp::create(builder, loc, h, param("group", i32)), "kv_head");
          const SmallVector<Value, 3> ofQuery{b, h, q0}, ofKey{b, kvHead, tiles.getOrigin()};
          Value qTile = load("q_tile", "q", "d", queries, ofQuery, values.Sq, 1),
                doTile = load("do_tile", "q", "dv", doView, ofQuery, values.Sq, 1),
                kTile = load("k_tile", "k", "d", keys, ofKey, values.Sk, 1),
                vTile = load("v_tile", "k", "dv", vs, ofKey, values.Sk, 1);
          const ScoreTile tile =
              scoresOf(qTile, kTile, vTile, doTile, q0, tiles.getOrigin(), tiles.getPartial(), rowValues(views, q0));
          Value sum = tiles.getCarried()[0];
          for (attn::AddGradientOp add : gradient.tiles)
            sum = map("gradient", scores(), {sum, addedOf(tile, add)},
                      [&](ValueRange x) -> Value { return arith::AddFOp::create(builder, loc, x[0], x[1]); });
          return sum;
        });
      });
    });
    storeTile(total, out, dims, places, q0, k0);
  }

  /// The batches or heads that share an element of the tensor: all of them, or the one at `place`; at the last place
  /// those beyond it, whose index is clamped.
  Value sharers(StringRef axis, Value count, Value place, Value extent) {
    Value begin = number(0), end = count;
    if (place) {
      begin = place;
      Value next = add(place, number(1));
      Value own = arith::MinSIOp::create(builder, loc, next, count);
      end = arith::SelectOp::create(builder, loc, compare(Predicate::eq, next, extent), count, own);
    }
    return tile::DomainOp::create(builder, loc, axis, 1, begin, end);
  }

  /// Of the tiles of keys that a domain visits, the one at `k0`.
  Value onlyTile(Value domain, Value k0) {
    auto tiles = domain.getDefiningOp<tile::DomainOp>();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(tiles);
    Value tile = arith::DivSIOp::create(builder, loc, k0, number(plan.getTileK())), next = add(tile, number(1));
    for (OpOperand &begin : tiles.getBeginsMutable())
      begin.set(arith::MaxSIOp::create(builder, loc, begin.get(), tile));
    for (OpOperand &end : tiles.getEndsMutable())
      end.set(arith::MinSIOp::create(builder, loc, end.get(), next));
    return domain;
  }

  /// What lies past the ends of the sequences goes nowhere, nor what lies past those of the tensor: launches see to it
  /// that nothing visible does.
  void storeTile(Value total, Value out, const std::array<std::optional<unsigned>, 4> &dims,
                 std::array<Value, 2> places, Value q0, Value k0) {
    Value ofRows = values.Sq;
    if (qOffset)
      ofRows = add(ofRows, qOffset);
    SmallVector<Value> indices(llvm::count_if(dims, [](auto dim) { return dim.has_value(); }));
    for (unsigned coordinate : {0u, 1u})
      if (dims[coordinate])
        indices[*dims[coordinate]] = places[coordinate];
    const std::tuple<unsigned, StringRef, Value, Value> axes[] = {{2, "q", qOrigin(q0), ofRows},
                                                                  {3, "k", k0, values.Sk}};
    for (auto [coordinate, axis, origin, count] : axes) {
      auto index = tile::MapOp::create(builder, loc, scores().withElementType(i32), ValueRange(), {{axis, origin}});
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&index.getBody().front());
      Value place = index.getCoordinate(axis);
      Value isBelow = compare(Predicate::slt, place, count);
      tile::YieldOp::create(builder, loc,
                            arith::SelectOp::create(builder, loc, isBelow, place, number(-1)).getResult());
      indices[*dims[coordinate]] = tile::named(index.getResult(), (Twine(axis) + "_index").str());
    }
    tile::ScatterOp::create(builder, loc, total, out, indices, /*add=*/false);
  }

  attn::PlanAttr plan;
  attn::GradientsAttr gradients;
  ArrayRef<CapturedGradient> captured;
  int64_t depth, depthV;
  bool hasStatistics; ///< each row has one weight a key that depends on the others (softmax)
  SmallVector<Attribute> kernels, operands;
  tile::KernelOp kernel;
  BlockValues values;
  MaskSplit mask;
  Value isMasked; ///< of the tile that is written; null where none is masked
  Value zero, headNumber, seed, offset, threshold, keepScale;
  SmallVector<BoundsTable> bounds, ofKernel; ///< of all kernels; of the one that is written
};

struct AttnToTileBackward : attune::impl::AttnToTileBackwardBase<AttnToTileBackward> {
  using AttnToTileBackwardBase::AttnToTileBackwardBase;

  void runOnOperation() override {
    for (auto op : llvm::make_early_inc_range(getOperation().getOps<attn::AttentionOp>())) {
      if (!op.getGradients())
        continue;
      auto plan = op->getAttrOfType<attn::PlanAttr>(attn::planAttr);
      if (!plan || op.getPGrad().empty()) {
        op.emitError() << "has no "
                       << (plan ? "regions of gradients; run attn-differentiate" : "attn.plan; run attn-tile-size")
                       << " first";
        return signalPassFailure();
      }
      FailureOr<SmallVector<CapturedGradient>> captured = planCapturedGradients(op);
      if (failed(captured))
        return signalPassFailure();
      BackwardWriter(op, plan, granularity, *captured).write();
      op.erase();
    }
  }
};

} // namespace
