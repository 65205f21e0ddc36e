//===- BackwardTiles.h - The computations on one tile that all kernels of the backward pass share ---===//
//
// Writes kernels and their operands, the row values derived from LSE, and, for one tile of queries and keys, the
// matrices S, x, P, dP and dS, with masks, dropout and the gradients of captured tensors. AttnToTileBackward.cpp
// decides which kernels there are and what their loops sum up.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/Signature.h"
#include "passes/analysis/cost/BackwardPlan.h"
#include "passes/attn/BoundsKernel.h"
#include "passes/attn/CapturedGradients.h"
#include "passes/attn/CommonValues.h"
#include "passes/attn/TileWriter.h"

#include "mlir/IR/Matchers.h"

namespace attune::backward {
using namespace mlir; // this header is included by one .cpp file only
using tile::MemorySpace;
using tile::TileType;
using Predicate = arith::CmpIPredicate;

/// Whether the loops of a plan have a producer role. Float32 kernels never have one.
inline bool hasRoles(attn::AttentionOp op, attn::PlanAttr plan) {
  return plan.getProducerWarps() > 0 && !op.getDtype().isF32();
}

class BackwardTiles : protected TileWriter {
protected:
  BackwardTiles(attn::AttentionOp op, attn::PlanAttr keysPlan, attn::PlanAttr queriesPlan, int64_t granularity,
                ArrayRef<CapturedGradient> captured)
      : TileWriter(op), keysPlan(keysPlan), queriesPlan(queriesPlan), plan(keysPlan), gradients(*op.getGradients()),
        captured(captured), granularity(granularity), hasStatistics(!op.getStatistics().empty()) {}

  //===--- Kernels and their operands ---===//

  /// The kind of a kernel, which selects the plan. `Rows` kernels have no loop over tiles and give each warp 16 rows of
  /// queries.
  enum class Work { LoopOverQueries, LoopOverKeys, Rows };

  tile::KernelOp writeKernel(const Twine &suffix, ArrayRef<StringRef> axes, Work work, function_ref<void()> body) {
    plan = work == Work::LoopOverQueries ? keysPlan : queriesPlan;
    const bool splitsColumns = work == Work::LoopOverQueries && hasRoles(op, keysPlan);
    columns = columnsOfQueryLoop(op.getHeadDim(), op.getHeadDimV(), granularity,
                                 splitsColumns ? columnSplitsOf(plan.getTileQ(), plan.getWarps()) : 1);
    SmallVector<Attribute> grid;
    for (StringRef axis : axes) {
      const int64_t by = axis == "q" ? plan.getTileQ() : axis == "k" ? plan.getTileK() : 1;
      grid.push_back(tile::AxisAttr::get(op.getContext(), builder.getStringAttr(axis), 0, by));
    }
    const int64_t warps = work == Work::Rows && plan.getWarps() > 1 ? plan.getTileQ() / 16 : plan.getWarps();
    auto sizes = tile::PlanAttr::get(builder.getContext(), plan.getTileQ(), plan.getTileK(), warps,
                                     plan.getBlocksPerSm(), plan.getDvWarps());
    builder.setInsertionPoint(op);
    kernel = tile::KernelOp::create(builder, loc, (op.getSymName() + suffix).str(), builder.getArrayAttr({}),
                                    builder.getArrayAttr(grid), op.getDtype(), sizes, op.getTensorsAttr(),
                                    op.getScalarsAttr(), op.getPatternAttr(), op.getDropout(), op.getPrecise(),
                                    op.getQOffset());
    if (Attribute remarks = op->getAttr(tile::remarksAttr); remarks && work == Work::LoopOverQueries)
      kernel->setAttr(tile::remarksAttr, remarks);
    if (work != Work::Rows && hasRoles(op, plan))
      kernel->setAttr(sched::rolesAttr, rolesOf(plan));
    kernels.push_back(FlatSymbolRefAttr::get(kernel.getSymNameAttr()));
    builder.createBlock(&kernel.getBody());
    operands.clear();
    values = {};
    body();
    if (kernel->hasAttr(sched::rolesAttr) && plan.getStageBiases())
      kernel->setAttr(sched::stageBiasesAttr, builder.getUnitAttr());
    for (const BoundsTable &table : ofKernel)
      operands.push_back(table.declaration());
    ofKernel.clear();
    kernel.setOperandsAttr(builder.getArrayAttr(operands));
    builder.setInsertionPoint(op);
    return kernel;
  }

  /// Declares an operand of the kernel (a global tensor) and returns its view. The last axis is `columns` with extent
  /// `width`; operands without `width` have one value per row.
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

  /// Whether a softmax sink or the like makes the normaliser's divisor differ from the row's sum of weights. Then L =
  /// LSE + log(divisor) differs from LSE and has a workspace operand.
  bool hasSink() { return yieldOf(op.getDivisor()) != op.getDivisor().getArguments().back(); }

  /// Whether the loop over queries computes all five products of the backward pass and adds each tile's contribution to
  /// dQ to float32 sums in global memory.
  bool accumulatesDq() { return op->hasAttr(attn::accumulatesDqAttr); }
  /// Whether a loop over keys computes gradients of captured tensors: sums per row, or scattered additions.
  bool addsByRow() {
    return !sumsOfElements(/*ofKeys=*/false).empty() ||
           llvm::any_of(captured, [](const CapturedGradient &gradient) { return !gradient.scattered.empty(); });
  }

  /// The float32 sums of dQ, not yet multiplied by the softmax scale.
  Value sumsOfQueries() { return operand("dq_sums", OperandRole::Workspace, f32, "h", "q", "d", op.getHeadDim()); }

  /// Declares the operands that the forward pass saved, and reads their views in the kernel being written.
  void declareSaved() {
    auto view = [&](StringRef what) {
      return op.saves(what) ? operand(savedDeclaration(what, OperandRole::In)) : Value();
    };
    savedDropout = view("dropout");
    savedScore = view("score");
  }
  Value loadSaved(StringRef name, Value view, Type element, Value q0, Value k0) {
    return view ? tile::named(
                      tile::LoadBlocksOp::create(builder, loc, scores().withElementType(element), view, b, h, q0, k0),
                      name)
                : Value();
  }

  Value blockIndex(StringRef axis) {
    const StringRef name = axis == "q" ? "q0" : axis == "k" ? "k0" : axis;
    return tile::named(tile::BlockIndexOp::create(builder, loc, i32, axis), name);
  }

  /// Reads sizes, offset and dropout parameters. Operands must be declared first: extents are read from them.
  void readSizes() {
    values.Sq = axisExtent("q", "Sq");
    values.Sk = axisExtent("k", "Sk");
    values.B = axisExtent("b", "B");
    values.H = axisExtent("h", "H");
    readQueryOffset();
    values.qOffset = qOffset;
    values.tileQ = plan.getTileQ();
    values.tileK = plan.getTileK();
    if (plan != keysPlan)
      values.tables = "_queries";
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
  TileType tileOf(StringRef axis, StringRef along, Type element, MemorySpace space) {
    return shape(
        {{axis, axis == "q" ? plan.getTileQ() : plan.getTileK()}, {along, along == "d" ? columns.d : columns.dv}},
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

  /// The partial sums, one value per row (with `ofKeys` one value per key), that attn.add_gradient ops in `regions` add
  /// to. `regions` are gradient regions of the attention.
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

  /// The arguments of a region of the normaliser: b, h and the statistics. With LSE in place of the running maximum the
  /// weights of a row sum to 1, so every maximum is LSE and every sum is 1 (0 in a row without visible keys).
  SmallVector<Value> atLse(Value lse) {
    Value sum = arith::SelectOp::create(builder, loc, isEmpty(lse), constant(0), constant(1));
    SmallVector<Value> arguments{b, h};
    for (auto statistic : op.getStatistics().getAsRange<attn::RowStatisticAttr>())
      arguments.push_back(statistic.getIsMax() ? lse : sum);
    return arguments;
  }

  Value divisorOf(Value lse) { return valueOf(op.getDivisor(), atLse(lse)); }

  /// Evaluates a gradient region for the incoming gradient g. Returns the value that the region yields or, if `value`
  /// is not null, that value of the region.
  Value gradientBy(Region &region, Value lse, Value g, Value value = {}) {
    SmallVector<Value> arguments = atLse(lse);
    arguments.push_back(g);
    IRMapping mapping;
    mapping.map(region.getArguments(), arguments);
    return cloneFromRegion(builder, op, value ? value : yieldOf(region), mapping);
  }

  /// delta of a row. The sum of weights receives a gradient from the divisor D, whose incoming gradient is
  /// -rowsum(dO * O) / D, and from LSE, whose incoming gradient is dLSE. Each weight of the row receives the same
  /// gradient, -delta / D.
  Value deltaOf(Value sum, Value lse, Value ofLse) {
    Value delta = gradientBy(op.getDivisorGrad(), lse, sum);
    if (ofLse) {
      Value own = arith::MulFOp::create(builder, loc, gradientBy(op.getLseGrad(), lse, ofLse), divisorOf(lse));
      delta = arith::SubFOp::create(builder, loc, delta, own);
    }
    return arith::SelectOp::create(builder, loc, isEmpty(lse), constant(0), delta);
  }

  /// L = LSE + log(D); -inf in a row without visible keys.
  Value logDivisorOf(Value lse) {
    return arith::AddFOp::create(builder, loc, lse, math::LogOp::create(builder, loc, divisorOf(lse)));
  }

  //===--- Tiles of queries and keys ---===//

  /// Vectors with a value per query of a tile; null where the normaliser has no statistics.
  struct RowValues {
    Value base, delta;
    Value logs = {}; ///< LSE, or L = LSE + log(divisor); if `base` is null, scoresOf computes the base from `logs`
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
    Value base = baseOf(loadLogs(views, q0));
    return {base, loadRows("delta", views.delta, q0, values.Sq)};
  }

  /// Loads delta and LSE (or L) of a tile's rows; scoresOf later computes the base from LSE (or L).
  RowValues loadedRows(RowViews views, Value q0) {
    if (!hasStatistics)
      return {};
    Value logs = loadLogs(views, q0);
    return {{}, loadRows("delta", views.delta, q0, values.Sq), logs};
  }

  Value loadLogs(RowViews views, Value q0) { return loadRows("lse", views.logs, q0, values.Sq); }

  Value baseOf(Value logs) {
    return map("base", rows(), logs, [&](ValueRange x) { return valueOf(op.getBase(), atLse(x[0])); });
  }

  Value qOrigin(Value q0) { return qOffset ? tile::named(add(q0, qOffset), "q_origin") : q0; }

  /// The scores of a tile and their gradients.
  struct ScoreTile {
    Value s, x, p, dp;
    Value origin, k0; ///< the first query (with the query offset) and the first key
    RowValues rows;
    Value kept, saved;        ///< dropout flags and score saved by the forward pass, or null
    Value ds;                 ///< null until scoreGradients writes it
    Value q0, partial;        ///< first query without the offset, and the loop's partial flag: inputs of the mask
    bool givesValues = false; ///< the loop also computes dV from P
  };

  /// Masks a tile. A cut, a condition that ends each row's visible keys at one side (q >= k), is applied in the tiles
  /// that it crosses; the rest of the mask is applied in partial tiles. Masked elements become `masked`. Sets
  /// `isMasked` to an i1 value, which is true if at least one of these masks is applied to the tile.
  Value maskTile(const ScoreTile &of, Value tile, float masked) {
    const Value q0 = of.q0, origin = of.origin, k0 = of.k0, partial = of.partial;
    const bool loopsOverKeys = !values.k0;
    const int64_t step = loopsOverKeys ? plan.getTileK() : plan.getTileQ();
    Value looped = loopsOverKeys ? k0 : q0;
    for (const MaskCut &cut : mask.cuts) {
      Value crossed = cut.fullBegin ? compare(Predicate::slt, looped, cut.fullBegin)
                                    : compare(Predicate::sgt, add(looped, number(step)), cut.fullEnd);
      alsoMaskedIf(crossed);
      Value zero = number(0);
      auto visible = [&](Value q, Value k) {
        BlockValues row = values.atRow(loopsOverKeys ? rowOf(q) : k);
        return emitCut(builder, op, row, cut, looped, loopsOverKeys ? k : q);
      };
      tile = hide(tile, loopsOverKeys ? origin : zero, loopsOverKeys ? zero : k0, crossed, visible, masked);
    }
    // K rows past the last key must not contribute to dQ.
    if (accumulatesDq() && !loopsOverKeys) {
      Value ends = compare(Predicate::sgt, add(k0, number(plan.getTileK())), values.Sk);
      alsoMaskedIf(ends);
      auto exists = [&](Value, Value k) { return compare(Predicate::slt, k, values.Sk); };
      tile = hide(tile, number(0), k0, ends, exists, masked);
    }
    const bool lookUp = patternNeedsElementMask(op, plan.getTileQ(), plan.getTileK());
    if (mask.isCutsAlone() && !lookUp)
      return tile;
    alsoMaskedIf(partial);
    SmallVector<Conjunct> byElement = mask.rest;
    byElement.append(mask.unions);
    auto visible = [&](Value q, Value k) { return isVisible(byElement, lookUp, q, k); };
    return hide(tile, origin, k0, partial, visible, masked);
  }

  void alsoMaskedIf(Value condition) {
    isMasked = isMasked ? arith::OrIOp::create(builder, loc, isMasked, condition).getResult() : condition;
  }

  /// The weights P of a tile of scores x.
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

  /// Applies dropout to a tile. `kept` holds the saved flags; where `kept` is null the flags are recomputed.
  Value dropped(Value tile, Value kept, StringRef name, Value q0, Value k0, bool negates = false) {
    if (!op.getDropout())
      return tile;
    if (kept)
      return map(name, scores(), {tile, kept}, [&](ValueRange v) -> Value {
        return negates ? negatedUnless(v[1], v[0])
                       : Value(arith::SelectOp::create(builder, loc, v[1], v[0], constant(0)));
      });
    auto dropout = tile::DropoutOp::create(builder, loc, scores(), Type(), tile, q0, k0, headNumber, seed, offset,
                                           threshold, negates);
    return tile::named(dropout.getResult(), name);
  }

  /// Flips the sign bit of dropped elements: a select between x and -x would take one instruction more.
  Value negatedUnless(Value isKept, Value x) {
    Value isDropped = arith::XOrIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i32, isKept), number(1));
    Value sign = arith::ShLIOp::create(builder, loc, isDropped, number(31));
    Value bits = arith::XOrIOp::create(builder, loc, arith::BitcastOp::create(builder, loc, i32, x), sign);
    return arith::BitcastOp::create(builder, loc, f32, bits);
  }

  /// Whether loops that compute dV mark dropped elements by a negative sign of P. Softmax weights are not negative, so
  /// one call of the random generator then serves P and dP.
  bool marksDropped() { return op.getDropout() && hasStatistics; }
  /// Whether dropped elements of this tile's P are marked by their sign. Otherwise dP is set to 0 at dropped elements.
  bool marksDropped(const ScoreTile &tile) { return tile.givesValues && marksDropped(); }
  Value isDropped(Value p) { return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, p, constant(0)); }

  /// Whether dX can be written as a sum of products. Let keep be 1 for kept and 0 for dropped elements, and let P' be P
  /// with a negative sign at dropped elements. Then keep P is (P' + |P'|) / 2, and the formula
  ///
  ///     dX = P (keep dP / (1 - p_drop) - delta) = ((P' + |P'|) dP - |P'| delta') / (2 (1 - p_drop))
  ///     delta' = 2 (1 - p_drop) delta
  ///
  /// needs no select; selects run at half rate, and P for dV already takes one. A loop that does not compute dV applies
  /// dropout to dP, two instructions instead of three:
  ///
  ///     dX = P (keep dP - delta' / 2) / (1 - p_drop)
  ///
  /// All later values are linear in dX, so the constant factor is applied to dQ and dK. Gradients of captured tensors
  /// are not scaled that way, so variants with captured gradients keep the select.
  bool splitsGradient() { return marksDropped() && captured.empty() && isWeighted(); }
  /// Whether dX = P G.
  bool isWeighted() {
    Region &region = op.getPGrad();
    auto product = yieldOf(region).getDefiningOp<arith::MulFOp>();
    if (!product)
      return false;
    const Value g = region.getArguments().back();
    Value other = product.getLhs() == g ? product.getRhs() : product.getRhs() == g ? product.getLhs() : Value();
    return other && other != g && valuesInCommon(region, op.getP()).lookup(other) == yieldOf(op.getP());
  }
  /// The softmax scale times the constant factor that `splitsGradient` leaves out of dX. With `splitsGradient` the
  /// caller must set keepScale before, for example by readSizes.
  Value gradientScale(bool givesValues) {
    const float scale = op.getScale().convertToFloat();
    if (!splitsGradient())
      return constant(scale);
    return arith::MulFOp::create(builder, loc, keepScale, constant(givesValues ? scale / 2 : scale));
  }
  /// delta with the factor that the loops over tiles expect: delta' of splitsGradient, otherwise delta itself.
  /// `keepScale` is 1 / (1 - p_drop), as a value of the kernel over rows.
  Value deltaOfLoops(Value delta, Value keepScale) {
    return splitsGradient() ? Value(arith::DivFOp::create(
                                  builder, loc, arith::MulFOp::create(builder, loc, delta, constant(2)), keepScale))
                            : delta;
  }

  /// P with dropout applied, computed from the tile's P.
  Value keptOf(const ScoreTile &tile, Value q0) {
    if (!marksDropped(tile))
      return dropped(tile.p, tile.kept, "p", q0, tile.k0);
    // tile-fold-rectifiers would fold maximumf into the rounding to bf16. With warpgroup-level products at D 64, ptxas
    // then runs out of registers and serialises the products (warning C7512). maxnumf, which returns 0 for NaN, is not
    // folded.
    if (splitsGradient())
      return map("p", scores(), tile.p, [&](ValueRange v) -> Value {
        return hasRoles(op, keysPlan) ? arith::MaxNumFOp::create(builder, loc, v[0], constant(0)).getResult()
                                      : arith::MaximumFOp::create(builder, loc, v[0], constant(0)).getResult();
      });
    return map("p", scores(), tile.p, [&](ValueRange v) -> Value {
      return arith::SelectOp::create(builder, loc, isDropped(v[0]), constant(0), v[0]);
    });
  }

  /// Computes S, the scores x, P and dP of a tile. `givesValues`: the loop also computes dV from P. With row statistics
  /// (softmax) P is returned unmasked: hideWeights or scoreGradients masks P or dS later, so that the branch of the
  /// mask does not come between P and dS. Without row statistics the scores x are masked here, before P.
  ScoreTile scoresOf(Value q, Value k, Value v, Value gradient, Value q0, Value k0, Value partial, RowValues rows,
                     bool givesValues = false) {
    ScoreTile tile;
    tile.givesValues = givesValues;
    tile.origin = qOrigin(q0);
    tile.k0 = k0;
    tile.q0 = q0;
    tile.partial = partial;
    tile.s = tile::named(tile::MmaOp::create(builder, loc, scores(), q, k, Value()), "s");
    if (rows.logs)
      rows.base = baseOf(rows.logs);
    tile.rows = rows;
    // The forward pass's saved tiles are loaded while the product Q K^T runs.
    tile.kept = loadSaved("kept", savedDropout, builder.getI1Type(), q0, k0);
    tile.saved = loadSaved("saved", savedScore, f32, q0, k0);
    isMasked = Value();
    tile.x = tile.saved ? scoreFromSaved(tile.saved, readsProductAndSaved() ? tile.s : Value(), tile.origin, k0)
                        : scoreTile(tile.s, tile.origin, k0);
    if (!hasStatistics)
      tile.x = maskTile(tile, tile.x, -std::numeric_limits<float>::infinity());
    tile.p = weights(tile.x, rows.base);
    if (marksDropped(tile))
      tile.p = dropped(tile.p, tile.kept, "p", q0, k0, /*negates=*/true);
    tile.dp = tile::named(tile::MmaOp::create(builder, loc, scores(), gradient, v, Value()), "dp");
    if (!marksDropped(tile))
      tile.dp = dropped(tile.dp, tile.kept, "dp", q0, k0);
    return tile;
  }

  /// Sets P to 0 at masked keys. Masking x with -inf instead would not suffice: the row's LSE may be NaN.
  void hideWeights(ScoreTile &tile) {
    if (hasStatistics)
      tile.p = maskTile(tile, tile.p, 0);
  }

  /// Computes dS of a tile and masks P afterwards. dS is 0 at masked keys, whatever its other factors are. Masking is a
  /// branch; a branch between P and dS would end the basic block that ptxas schedules, so that all pending exponentials
  /// would run before the branch with nothing to overlap with.
  Value scoreGradients(ScoreTile &tile) {
    tile.ds = gradientsOfVisible(tile);
    if (hasStatistics && !tile.givesValues && captured.empty())
      return tile.ds = maskTile(tile, tile.ds, 0);
    hideWeights(tile);
    if (hasStatistics || op.getScoreGrad().empty() || vanishes(yieldOf(op.getScoreGrad())))
      tile.ds = unlessMasked(tile, tile.ds, "ds");
    return tile.ds;
  }

  /// Whether a value of the score's gradient region is 0 wherever P is 0: the value is a multiple of P, and no finite
  /// value of Q K^T gives a score of -inf. Then masking in partial tiles suffices.
  bool vanishes(Value value) { return isWeighted() && !hidesKeys() && isMultiple(value); }

  /// Whether a score may be -inf although Q K^T is finite. Sums and products of finite numbers count as finite.
  bool hidesKeys() {
    auto isNumber = [](Operation &each) {
      llvm::APFloat number(0.0f);
      if (isa<arith::ConstantOp>(each))
        return !matchPattern(each.getResult(0), m_ConstantFloat(&number)) || number.isFinite();
      return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp, arith::SIToFPOp, attn::YieldOp>(each) ||
             llvm::all_of(each.getResultTypes(), [](Type type) { return type.isIntOrIndex(); });
    };
    return !op.getScore().empty() && !llvm::all_of(op.getScore().front(), isNumber);
  }

  /// Whether `value` of the score's gradient region is dX times finite factors.
  bool isMultiple(Value value) {
    if (value == op.getScoreGrad().getArguments().back())
      return true;
    auto isFinite = [](Value factor) {
      llvm::APFloat number(0.0f);
      return isa_and_present<arith::SIToFPOp>(factor.getDefiningOp()) ||
             (matchPattern(factor, m_ConstantFloat(&number)) && number.isFinite());
    };
    if (auto negation = value.getDefiningOp<arith::NegFOp>())
      return isMultiple(negation.getOperand());
    if (auto product = value.getDefiningOp<arith::MulFOp>())
      return (isMultiple(product.getLhs()) && isFinite(product.getRhs())) ||
             (isMultiple(product.getRhs()) && isFinite(product.getLhs()));
    return false;
  }

  /// Sets masked elements of `values` to 0, in tiles that may have masked elements (`isMasked`).
  Value unlessMasked(const ScoreTile &tile, Value values, StringRef name) {
    return !isMasked ? values
                     : createMap(
                           builder, loc, name, scores(), {values, hasStatistics ? tile.p : tile.x},
                           [&](ValueRange v) { return unlessMasked(v[0], v[1], hasStatistics); }, isMasked);
  }

  /// Returns `value`, or 0 if the key is masked. A key is masked if the argument `of` is 0 (with `isWeight`: `of` is a
  /// weight) or -inf (without: `of` is a score).
  Value unlessMasked(Value value, Value of, bool isWeight) {
    Value none = constant(isWeight ? 0 : -std::numeric_limits<float>::infinity());
    Value isMaskedOut = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, of, none);
    return arith::SelectOp::create(builder, loc, isMaskedOut, constant(0), value);
  }

  /// dS of visible keys, computed by one map. Tiles that p_grad and score_grad do not read are no inputs of the map.
  Value gradientsOfVisible(const ScoreTile &tile) {
    if (splitsGradient())
      return mapOfProducts(tile, [&](Value dp, function_ref<Value(Value)> input, tile::MapOp map) {
        Value p = input(tile.p), dx;
        if (marksDropped(tile)) {
          Value weight = math::AbsFOp::create(builder, loc, p);
          Value twice = arith::AddFOp::create(builder, loc, p, weight); // exactly 0 or 2 P
          Value ofDropout = arith::MulFOp::create(builder, loc, twice, dp);
          Value ofRow = arith::MulFOp::create(builder, loc, weight, input(tile.rows.delta));
          dx = arith::SubFOp::create(builder, loc, ofDropout, ofRow);
        } else {
          dx = arith::MulFOp::create(builder, loc, p, arith::SubFOp::create(builder, loc, dp, input(tile.rows.delta)));
        }
        return op.getScoreGrad().empty() ? dx : scoreGradient(tile, dx, yieldOf(op.getScoreGrad()), input, map);
      });
    return mapOfGradients(tile, "ds", [&](Value g, function_ref<Value(Value)> input, tile::MapOp map) {
      Value dx = weightGradient(tile, g, yieldOf(op.getPGrad()), input);
      return op.getScoreGrad().empty() ? dx : scoreGradient(tile, dx, yieldOf(op.getScoreGrad()), input, map);
    });
  }

  /// The values, one for each element of the tile, that the op `add` adds to a captured tensor's gradient; 0 at masked
  /// keys. `add` is in the gradient region of the score or of p.
  Value addedOf(const ScoreTile &tile, attn::AddGradientOp add) {
    const bool isOfScore = add->getParentRegion() == &op.getScoreGrad();
    if (isOfScore && tile.ds && add.getValue() == yieldOf(op.getScoreGrad()))
      return tile.ds;
    Value added = mapOfGradients(tile, "added", [&](Value g, function_ref<Value(Value)> input, tile::MapOp map) {
      if (isOfScore)
        return scoreGradient(tile, weightGradient(tile, g, yieldOf(op.getPGrad()), input), add.getValue(), input, map);
      Value added = weightGradient(tile, g, add.getValue(), input);
      return unlessMasked(added, input(hasStatistics ? tile.p : tile.x), hasStatistics);
    });
    return isOfScore && vanishes(add.getValue()) ? unlessMasked(tile, added, "added") : added;
  }

  /// `sum` + `added`, element by element. If `added` is computed by an unconditional map without other users, the
  /// addition moves into that map, and its select between 0 and the added value becomes a select between `sum` and the
  /// new sum.
  Value sumWith(const ScoreTile &tile, Value sum, Value added) {
    auto map = added.getDefiningOp<tile::MapOp>();
    if (!map || !map.isWhole() || added == tile.ds || !added.use_empty())
      return createMap(builder, loc, "gradient", scores(), {sum, added},
                       [&](ValueRange x) -> Value { return arith::AddFOp::create(builder, loc, x[0], x[1]); });
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(map.getYield());
    Value carried = map.addInput(sum, f32), value = map.getYield().getValues().front();
    auto choice = value.getDefiningOp<arith::SelectOp>();
    if (choice && matchPattern(choice.getTrueValue(), m_AnyZeroFloat())) {
      Value longer = arith::AddFOp::create(builder, loc, carried, choice.getFalseValue());
      value = arith::SelectOp::create(builder, loc, choice.getCondition(), carried, longer);
      map.getYield().getValuesMutable()[0].set(value);
      choice.erase();
    } else {
      map.getYield().getValuesMutable()[0].set(arith::AddFOp::create(builder, loc, carried, value));
    }
    return tile::named(added, "gradient");
  }

  using GradientBody = function_ref<Value(Value, function_ref<Value(Value)> input, tile::MapOp map)>;

  /// A map over dP. `body` takes the element of dP, adds further inputs and returns the element of the result.
  Value mapOfProducts(const ScoreTile &tile, GradientBody body) {
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
    tile::YieldOp::create(builder, loc, body(map.getElement(0), input, map));
    return tile::named(map.getResult(), "ds");
  }

  /// Like mapOfProducts, but a map over G instead of dP. G is dP after dropout, minus delta.
  Value mapOfGradients(const ScoreTile &tile, StringRef name, GradientBody body) {
    Value result = mapOfProducts(tile, [&](Value g, function_ref<Value(Value)> input, tile::MapOp map) {
      if (keepScale)
        g = arith::MulFOp::create(builder, loc, g, keepScale);
      if (marksDropped(tile))
        g = arith::SelectOp::create(builder, loc, isDropped(input(tile.p)), constant(0), g);
      if (tile.rows.delta)
        g = arith::SubFOp::create(builder, loc, g, input(tile.rows.delta));
      return body(g, input, map);
    });
    return tile::named(result, name);
  }

  /// Computes `value`, a value of the region p_grad, of an element for the incoming gradient g. The value that the
  /// region yields is dX. Where the region recomputes p, the tile's P is used instead.
  Value weightGradient(const ScoreTile &tile, Value g, Value value, function_ref<Value(Value)> input) {
    Region &region = op.getPGrad();
    IRMapping mapping;
    mapping.map(region.getArguments().take_front(2), ValueRange{b, h});
    mapping.map(region.getArguments().back(), g);
    Value p = yieldOf(op.getP());
    for (auto [own, other] : valuesInCommon(region, op.getP()))
      if (other == p && own.getDefiningOp())
        mapping.map(own, marksDropped(tile) ? Value(math::AbsFOp::create(builder, loc, input(tile.p))) : input(tile.p));
    const std::pair<unsigned, Value> inputs[] = {{2, tile.x}, {3, tile.rows.base}};
    for (auto [argument, of] : inputs)
      if (of && isNeeded(value, region.getArgument(argument), mapping))
        mapping.map(region.getArgument(argument), input(of));
    return cloneFromRegion(builder, op, value, mapping);
  }

  /// Computes `value`, a value of the region score_grad, of an element for the incoming gradient dX. The value that the
  /// region yields is dS.
  Value scoreGradient(const ScoreTile &tile, Value dx, Value value, function_ref<Value(Value)> input, tile::MapOp map) {
    Region &region = op.getScoreGrad();
    IRMapping mapping;
    mapping.map(region.getArguments().slice(1, 2), ValueRange{b, h});
    mapping.map(region.getArguments().back(), dx);
    if (tile.saved)
      for (auto [own, other] : valuesInCommon(region, op.getScore()))
        if (other == op.getSavedScore() && isNeeded(value, own, mapping))
          mapping.map(own, input(tile.saved));
    if (isNeeded(value, region.getArgument(0), mapping))
      mapping.map(region.getArgument(0), scaled(input(tile.s)));
    const std::tuple<unsigned, StringRef, Value> coordinates[] = {{3, "q", tile.origin}, {4, "k", tile.k0}};
    for (auto [argument, axis, origin] : coordinates)
      if (isNeeded(value, region.getArgument(argument), mapping))
        mapping.map(region.getArgument(argument), map.addCoordinate(axis, origin));
    Value result = cloneFromRegion(builder, op, value, mapping);
    return vanishes(value) ? result : unlessMasked(result, input(hasStatistics ? tile.p : tile.x), hasStatistics);
  }

  const attn::PlanAttr keysPlan, queriesPlan;
  attn::PlanAttr plan; ///< plan of the kernel being written
  attn::GradientsAttr gradients;
  ArrayRef<CapturedGradient> captured;
  const int64_t granularity;
  LoopColumns columns; ///< columns of the kernel being written
  bool hasStatistics;  ///< the weights of a row depend on row statistics (softmax)
  SmallVector<Attribute> kernels, operands;
  tile::KernelOp kernel;
  BlockValues values;
  MaskSplit mask;
  Value isMasked; ///< whether the tile being written is masked; null: never
  Value zero, headNumber, seed, offset, threshold, keepScale;
  Value savedDropout, savedScore; ///< views in the kernel being written; null: nothing saved
  /// Per-tile tables of the mask: those of all kernels (`bounds`), and those of the kernel being written (`ofKernel`).
  SmallVector<BoundsTable> bounds, ofKernel;
};

} // namespace attune::backward
