//===- AttnToTileBackward.cpp - Write the kernels of the backward pass ----===//
//
// Writes the gradients with respect to Q, K and V (Dao et al., 2022, Algorithm 4) for any score, mask and normaliser.
// Nothing of size Sq x Sk is stored: each kernel recomputes S, the scores x and the weights P from Q, K and LSE.
//
//     P  = p(x, base(L))                            with statistics (softmax) L = LSE + log(divisor(LSE, 1))
//     dV = P'^T dO                                  P' = P with dropout
//     G  = keep(dO V^T) - delta                     delta = rowsum(dO * O) - dLSE * exp(L - LSE); 0 without statistics
//     dX = p_grad(G), dS = score_grad(dX)           0 at masked keys
//     dK = scale * dS^T Q,  dQ = scale * dS K
//
// There are three kernels, or two without statistics. No kernel adds to the results of another:
//
//     | kernel       | block               | loop                                     | writes          |
//     |--------------|---------------------|------------------------------------------|-----------------|
//     | NAME_rows    | a tile of queries   |                                          | delta, L        |
//     | NAME_keys    | a tile of keys      | the heads of its group, tiles of queries | dK, dV          |
//     | NAME_queries | a tile of queries   | tiles of keys                            | dQ              |
//
// The same kernels compute the gradients of captured tensors, or kernels after them do (CapturedGradients.h): NAME_rows
// and NAME_queries sum per row, NAME_keys sums per key, NAME_queries scatters. NAME_queries also writes dense gradients
// where batches and heads do not share an element.
//
// Each result is summed by one block in a fixed order, so that every launch gives the same bits. Both loops compute S
// and dP, seven products instead of five. With the attribute attn.accumulates_dq five products are enough: the loop
// over queries adds dS K to sums in memory, in no particular order:
//
//     | NAME_rows    | a tile of queries   |                                          | delta, L, zeros |
//     | NAME_keys    | a tile of keys      | the heads of its group, tiles of queries | dK, dV, sums    |
//     | NAME_queries | a tile of queries   |                                          | dQ              |
//
// Gradients of captured tensors that need a loop over keys then have a kernel of their own, NAME_elements; dense
// gradients are written by NAME_keys.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/attn/BackwardTiles.h"
#include "passes/attn/LongAccumulator.h"

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

class BackwardWriter : backward::BackwardTiles {
public:
  BackwardWriter(attn::AttentionOp op, attn::PlanAttr keysPlan, attn::PlanAttr queriesPlan, int64_t granularity,
                 ArrayRef<CapturedGradient> captured)
      : BackwardTiles(op, keysPlan, queriesPlan, granularity, captured) {}

  void write() {
    if (hasStatistics || accumulatesDq())
      writeKernel("_rows", {"b", "h", "q"}, Work::Rows, [&] { writeRows(); });
    tile::KernelOp ofKeys = writeKernel("_keys", {"b", "hkv", "k"}, Work::LoopOverQueries, [&] { writeKeys(); });
    if (accumulatesDq())
      writeKernel("_queries", {"b", "h", "q"}, Work::Rows, [&] { writeSums(); });
    if (!accumulatesDq() || addsByRow())
      writeKernel(accumulatesDq() ? "_elements" : "_queries", {"b", "h", "q"}, Work::LoopOverKeys,
                  [&] { writeQueries(/*withQueries=*/!accumulatesDq()); });
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
  //===--- Rows ---===//

  /// Writes delta and, where it differs from LSE (hasSink), L, the row constant that is subtracted in the exponent.
  /// With `accumulates_dq` also sets the float32 sums of dQ to zero.
  void writeRows() {
    b = blockIndex("b");
    h = blockIndex("h");
    Value q0 = blockIndex("q");
    if (accumulatesDq()) {
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
    Value keepScale = op.getDropout() ? param("keep_scale", f32) : Value();
    store(map("delta", rows(), inputs,
              [&](ValueRange x) { return deltaOfLoops(deltaOf(x[0], x[1], ofLse ? x[2] : Value()), keepScale); }),
          delta);
    if (logs)
      store(map("log_divisor", rows(), inputs[1], [&](ValueRange x) { return logDivisorOf(x[0]); }), logs);
    for (const GradientSum &sum : sumsOf({&op.getDivisorGrad(), &op.getLseGrad()}, false))
      store(map("added", rows(), inputs, [&](ValueRange x) { return addedByRow(sum.add, x); }),
            operand(sum.declaration()));
  }

  /// The value that `add`, in the gradient region of the divisor or of LSE, adds for a row. `row` is rowsum(dO * O),
  /// LSE and, if there is one, dLSE.
  Value addedByRow(attn::AddGradientOp add, ValueRange row) {
    Value lse = row[1], none = isEmpty(lse), g = constant(0);
    if (add->getParentRegion() == &op.getDivisorGrad()) {
      // O is 0 where D is infinite, so D gets no gradient there.
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

  //===--- Loops ---===//

  /// The number of rows of K and V to load. No query sees a row after these, and the load fills such rows with zeros:
  /// dQ multiplies the rows by the zeros of dS, and 0 * NaN would be NaN.
  Value keysRead(const BlockValues &block) {
    Value end = emitEndOf(builder, op, block, MaskAxis::Keys);
    return end ? end : values.Sk;
  }
  /// The number of rows of Q and dO to load. dK and dV multiply later rows by zeros, as keysRead explains.
  Value queriesRead(const BlockValues &block) {
    Value end = emitEndOf(builder, op, block, MaskAxis::Queries);
    return end ? end : values.Sq;
  }

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

  /// The carried values of the loop over tiles of queries: dK, dV, then the sums per key of captured gradients.
  using Carried = SmallVector<Value>;

  /// dK and dV of a tile of keys: a loop over the query heads of its group and over the tiles of queries that see a key
  /// of the tile. If the same tiles are visited for every head, one loop repeats its domain for each head (`times`).
  /// With producer and consumer roles, and without sums per key, the domain is repeated in any case, because roles
  /// support a single loop. Sums per key of captured gradients need a loop over heads around the loop over tiles.
  void writeKeys() {
    values.b = b = blockIndex("b");
    Value kvHead = blockIndex("hkv"), k0 = blockIndex("k");
    values.k0 = k0;
    KeyViews views{ofQueries("q"), ofOutputs("do"), rowViews(), {}, accumulatesDq() ? sumsOfQueries() : Value()};
    Value keys = ofKeys("k"), vs = ofValues("v");
    Value dk = ofKeys("dk", OperandRole::Out), dv = ofValues("dv", OperandRole::Out);
    const SmallVector<GradientSum> sums = sumsOfElements(/*ofKeys=*/true);
    const SmallVector<Value> sumViews = viewsOf(sums);
    const SmallVector<DenseGradient> dense = accumulatesDq() ? denseGradients() : SmallVector<DenseGradient>();
    declareSaved();
    readSizes();
    zero = constant(0);
    // The product cannot overflow: it is the number of a query head.
    Value group = param("group", i32),
          first = tile::named(arith::MulIOp::create(builder, loc, kvHead, group, arith::IntegerOverflowFlags::nsw),
                              "first_head");
    const SmallVector<Value, 3> at{b, kvHead, k0};
    BlockValues ofAllHeads = values;
    ofAllHeads.firstHead = first;
    const Value end = keysRead(ofAllHeads);
    const bool ownEnds = endsByHead(op, MaskAxis::Queries);
    views.end = ownEnds ? Value() : queriesRead(ofAllHeads);
    auto takeHead = [&](Value head) {
      setHead(head);
      if (ownEnds)
        views.end = queriesRead(values);
    };
    const KeyTiles tiles{load("k_tile", "k", "d", keys, at, end, 1), load("v_tile", "k", "dv", vs, at, end, 1)};
    const Carried none{zeros("dk", "k", "d"), zeros("dv", "k", "dv")};
    h = first;
    const bool inIterations = backward::hasRoles(op, plan) && sums.empty();
    (inIterations ? values.firstHead : values.h) = first;
    auto tilesOfHeads = domain().getDefiningOp<tile::DomainOp>();
    Carried carried;
    if (inIterations || (first.use_empty() && sums.empty())) {
      tilesOfHeads.getTimesMutable().assign(group);
      carried = loopOver(tilesOfHeads, none, [&](tile::ForBlocksOp loop) {
        takeHead(tile::named(add(first, loop.getIteration()), "h"));
        return afterTile(loop, tiles, views, {}, dense);
      });
    } else {
      Value heads = tile::DomainOp::create(builder, loc, "h", 1, first, add(first, group));
      carried = loopOver(heads, none, [&](tile::ForBlocksOp ofHeads) {
        takeHead(ofHeads.getOrigin());
        Carried inits(ofHeads.getCarried());
        inits.append(sums.size(), noSum("k"));
        Carried ofHead = loopOver(domain(), inits,
                                  [&](tile::ForBlocksOp loop) { return afterTile(loop, tiles, views, sums, dense); });
        for (auto [view, result] : llvm::zip(sumViews, ArrayRef(ofHead).drop_front(2)))
          tile::StoreOp::create(builder, loc, result, view, ValueRange{b, h, k0}, values.Sk, false);
        return Carried(ArrayRef(ofHead).take_front(2));
      });
    }
    tile::StoreOp::create(builder, loc, scaledBy("dk", carried[0], gradientScale(/*givesValues=*/true)), dk, at,
                          values.Sk, false);
    tile::StoreOp::create(builder, loc, keepScale ? scaledBy("dv", carried[1], keepScale) : carried[1], dv, at,
                          values.Sk, false);
  }

  /// Writes a rounded tile to shared memory, for a product that reads values which other warps computed. Two ring
  /// stages are used alternately, so the warpgroups synchronise once per tile.
  Value exchanged(Value tile, StringRef name) {
    auto type = cast<TileType>(tile.getType()).withSpace(MemorySpace::Shared);
    auto convert = tile::ConvertOp::create(builder, loc, type, tile.getDefiningOp<tile::ConvertOp>().getTile());
    if (backward::hasRoles(op, plan))
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
    Value end; ///< number of rows of q and gradient to load
    Value dq;  ///< float32 sums of dQ in memory; null where another kernel computes dQ
  };
  struct KeyTiles {
    Value k, v;
  };

  /// The gradient of a dense captured tensor. In launches where each element of the tensor belongs to a single batch
  /// and head, the loop over tiles writes the gradient directly.
  struct DenseGradient {
    const CapturedGradient *of;
    CoordinateDims dims;
    Value view;
  };

  /// Computes one tile of queries and returns the loop's next carried values. With `accumulates_dq` also adds the
  /// tile's dQ to the sums in memory.
  Carried afterTile(tile::ForBlocksOp loop, const KeyTiles &of, const KeyViews &views, ArrayRef<GradientSum> sums,
                    ArrayRef<DenseGradient> dense) {
    Value q0 = loop.getOrigin();
    const SmallVector<Value, 3> row{b, h, q0};
    // Q and dO are loaded in the order in which they are read.
    Value qTile, doTile;
    auto loadQ = [&] { qTile = load("q_tile", "q", "d", views.q, row, views.end, plan.getStages()); };
    auto loadDo = [&] { doTile = load("do_tile", "q", "dv", views.gradient, row, views.end, plan.getStages()); };
    if (savedScore && !readsProductAndSaved()) {
      loadDo();
      loadQ();
    } else {
      loadQ();
      loadDo();
    }
    ScoreTile tile = scoresOf(qTile, of.k, of.v, doTile, q0, values.k0, loop.getPartial(), rowValues(views.rows, q0),
                              /*givesValues=*/true);
    Value gradients = scoreGradients(tile), p, ds;
    auto roundWeights = [&] { p = rounded(keptOf(tile, q0), "p"); };
    if (!dense.empty()) {
      // P rounded to 16 bits takes half the registers while writeDense computes dense gradients.
      roundWeights();
      writeDense(dense, tile, q0);
    }
    ds = rounded(gradients, "ds");
    if (dense.empty())
      roundWeights();
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

  /// Converts the float32 sums of dQ in memory to dQ, for a tile of queries.
  void writeSums() {
    b = blockIndex("b");
    h = blockIndex("h");
    Value q0 = blockIndex("q"), sums = sumsOfQueries(), dq = ofQueries("dq", OperandRole::Out);
    Value limit = axisExtent("q", "Sq");
    const SmallVector<Value, 3> at{b, h, q0};
    Value tile = tile::named(
        tile::LoadOp::create(builder, loc, tileOf("q", "d", f32, MemorySpace::Register), sums, at, limit), "dq");
    if (op.getDropout())
      keepScale = param("keep_scale", f32);
    tile::StoreOp::create(builder, loc, scaledBy("dq", tile, gradientScale(/*givesValues=*/true)), dq, at, limit,
                          false);
  }

  /// Computes dQ of a tile of queries and those gradients of captured tensors that a loop over keys sums up; without
  /// `withQueries` only the captured gradients.
  void writeQueries(bool withQueries) {
    values.b = b = blockIndex("b");
    Value head = blockIndex("h"), q0 = blockIndex("q");
    values.q0 = q0;
    Value queries = ofQueries("q"), keys = ofKeys("k"), vs = ofValues("v"), gradient = ofOutputs("do");
    const RowViews views = rowViews();
    Value dq = withQueries ? ofQueries("dq", OperandRole::Out) : Value();
    const SmallVector<GradientSum> sums = sumsOfElements(/*ofKeys=*/false);
    const SmallVector<Value> sumViews = viewsOf(sums);
    const SmallVector<DenseGradient> dense = withQueries ? denseGradients() : SmallVector<DenseGradient>();
    declareSaved();
    readSizes();
    setHead(head);
    zero = constant(0);
    Value kvHead = tile::named(arith::DivSIOp::create(builder, loc, h, param("group", i32)), "kv_head");
    const SmallVector<Value, 3> at{b, h, q0};
    const Value end = keysRead(values);
    Value tiles = domain();
    Value qTile = load("q_tile", "q", "d", queries, at, values.Sq, 1),
          doTile = load("do_tile", "q", "dv", gradient, at, values.Sq, 1);
    RowValues ofRow = rowValues(views, q0);
    if (splitsGradient())
      ofRow.delta = map("delta", rows(), ofRow.delta, [&](ValueRange x) -> Value {
        return arith::MulFOp::create(builder, loc, x[0], constant(0.5f));
      });
    Carried inits;
    if (dq)
      inits.push_back(zeros("dq", "q", "d"));
    inits.append(sums.size(), noSum("q"));
    const Carried ends = loopOver(tiles, inits, [&](tile::ForBlocksOp loop) {
      Value k0 = loop.getOrigin();
      const SmallVector<Value, 3> row{b, kvHead, k0};
      Value kTile = load("k_tile", "k", "d", keys, row, end, plan.getStages()),
            vTile = load("v_tile", "k", "dv", vs, row, end, plan.getStages());
      ScoreTile tile = scoresOf(qTile, kTile, vTile, doTile, q0, k0, loop.getPartial(), ofRow);
      Carried next;
      if (dq) {
        Value gradients = scoreGradients(tile);
        writeDense(dense, tile, q0);
        next.push_back(product("dq", "q", "d", rounded(gradients, "ds"), kTile, loop.getCarried().front()));
      } else {
        hideWeights(tile);
      }
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
      tile::StoreOp::create(builder, loc, scaledBy("dq", ends.front(), gradientScale(/*givesValues=*/false)), dq, at,
                            values.Sq, false);
  }

  //===--- Captured tensors ---===//

  SmallVector<DenseGradient> denseGradients() {
    SmallVector<DenseGradient> dense;
    for (const CapturedGradient &gradient : captured)
      if (isWrittenByLoop(gradient))
        dense.push_back({&gradient, dimsOfTile(gradient.tiles.front()), operand(gradient.declaration())});
    return dense;
  }

  Value isUnsharedNow(const CapturedGradient &gradient) {
    return isUnshared(builder, loc, gradient, {values.B, values.H},
                      [&](unsigned dim) { return axisExtent(gradient.axis(dim), "extent"); });
  }

  /// Writes the tile's part of dense gradients.
  void writeDense(ArrayRef<DenseGradient> dense, const ScoreTile &tile, Value q0) {
    for (const DenseGradient &one : dense) {
      Value sum;
      for (attn::AddGradientOp add : one.of->tiles) {
        Value added = addedOf(tile, add);
        sum = sum ? sumWith(tile, sum, added) : added;
      }
      Value unshared = isUnsharedNow(*one.of);
      std::array<Value, 2> places = {b, h};
      for (Value &place : places)
        place = arith::SelectOp::create(builder, loc, unshared, place, number(-1));
      storeTile(sum, one.view, one.dims, places, q0, tile.k0);
    }
  }

  SmallVector<Value> viewsOf(ArrayRef<GradientSum> sums) {
    return llvm::map_to_vector(sums, [&](const GradientSum &sum) { return operand(sum.declaration()); });
  }

  TileType vectorOf(StringRef axis) {
    return shape({{axis, axis == "q" ? plan.getTileQ() : plan.getTileK()}}, f32, MemorySpace::Register);
  }
  /// Zeros for the sums per row or per key of a captured tensor's gradient, before the loop's first tile.
  Value noSum(StringRef axis) { return tile::SplatOp::create(builder, loc, vectorOf(axis), zero); }

  /// The sum `before` plus the values that `add` adds in a tile, reduced over the axis `along`.
  Value addedTo(Value before, const ScoreTile &tile, attn::AddGradientOp add, StringRef along) {
    return tile::named(tile::ReduceOp::create(builder, loc, cast<TileType>(before.getType()), tile::Reduction::Sum,
                                              addedOf(tile, add), along, before, false),
                       add.getName());
  }

  /// Adds the values of `add` in a tile to the workspace by atomics. If the index depends on q - k alone, one sum per
  /// diagonal is added, else each element.
  void scatter(const ScoreTile &tile, attn::AddGradientOp add, const CapturedGradient &gradient) {
    tile::OperandAttr declared = gradient.addends();
    Value view =
        llvm::is_contained(operands, declared) ? param(declared.getName(), declared.getViewType()) : operand(declared);
    Value added = addedOf(tile, add);
    const bool isRelative = followsFromDistance(add);
    if (isRelative)
      added = sumDiagonals(tile, added);
    Value unlessZero = added;
    SmallVector<Value> indices;
    if (gradient.inAnyOrder) {
      const TileType integers = cast<TileType>(added.getType()).withElementType(i32);
      indices.push_back(
          map("word", integers, added, [&](ValueRange x) { return accumulator::wordOf(builder, loc, x[0]); }));
      added = map("addend", integers, added, [&](ValueRange x) { return accumulator::addendOf(builder, loc, x[0]); });
    }
    for (auto [dim, index] : llvm::enumerate(add.getIndices())) {
      Value extent = axisExtent(gradient.axis(dim), "extent");
      if (isOfHead(add, index))
        indices.push_back(placeOf(builder, add, index, extent, {b, h, {}, {}}));
      else
        indices.push_back(isRelative ? indexOfDistances(tile, add, index, extent, unlessZero)
                                     : indexTile(tile, add, index, extent, std::exchange(unlessZero, {})));
    }
    tile::ScatterOp::create(builder, loc, added, view, indices, /*add=*/true,
                            /*merge=*/isRelative && !gradient.inAnyOrder && sharesPlaces(add));
  }

  /// Sums a tile along its diagonals (equal q - k), separately for each part of the rows that a warp holds. Rows past
  /// the last query are set to 0 first.
  Value sumDiagonals(const ScoreTile &tile, Value added) {
    Value isRagged = compare(Predicate::sgt, add(tile.origin, number(plan.getTileQ())), qOrigin(values.Sq));
    auto map = tile::MapOp::create(builder, loc, scores(), ValueRange{added}, {{"q", tile.origin}}, isRagged);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&map.getBody().front());
      Value exists = compare(Predicate::slt, rowOf(map.getCoordinate("q")), values.Sq);
      tile::YieldOp::create(builder, loc,
                            arith::SelectOp::create(builder, loc, exists, map.getElement(0), constant(0)).getResult());
    }
    const int64_t parts = kernel.getPlan().getWarpsOfRows(plan.getTileQ());
    const TileType type =
        shape({{tile::partAxis, parts}, {tile::distanceAxis, plan.getTileQ() / parts + plan.getTileK()}}, f32,
              MemorySpace::Register);
    Value kept = tile::named(map.getResult(), "added");
    return tile::named(tile::SumDiagonalsOp::create(builder, loc, type, kept), "sums");
  }

  /// The tensor index for each diagonal sum of `sums`; -1 where a sum is zero and nothing is to be added.
  Value indexOfDistances(const ScoreTile &tile, attn::AddGradientOp add, Value index, Value extent, Value sums) {
    const auto type = cast<TileType>(sums.getType());
    // The first diagonal goes through row 0 and the key one past the tile's last key; `first` is its q - k.
    Value first = arith::SubIOp::create(builder, loc, tile.origin, this->add(tile.k0, number(plan.getTileK())));
    auto map =
        tile::MapOp::create(builder, loc, type.withElementType(i32), ValueRange{sums},
                            {{tile::partAxis, number(0)}, {tile::distanceAxis, tile::named(first, "first_distance")}});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    Value row = arith::MulIOp::create(builder, loc, map.getCoordinate(tile::partAxis),
                                      number(plan.getTileQ() / type.getShape()[0]));
    Value distance = this->add(map.getCoordinate(tile::distanceAxis), row);
    Value place = placeOf(builder, add, index, extent, {b, h, distance, number(0)});
    Value isAdded = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, map.getElement(0), constant(0));
    place = arith::SelectOp::create(builder, loc, isAdded, place, number(-1));
    tile::YieldOp::create(builder, loc, place);
    return tile::named(map.getResult(), "index");
  }

  /// The tensor index for each element of a tile; -1, which stores nothing, in rows past the last query and where
  /// `unlessZero` is zero.
  Value indexTile(const ScoreTile &tile, attn::AddGradientOp add, Value index, Value extent, Value unlessZero) {
    auto map =
        tile::MapOp::create(builder, loc, scores().withElementType(i32),
                            unlessZero ? ValueRange{unlessZero} : ValueRange(), {{"q", tile.origin}, {"k", tile.k0}});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    Value q = map.getCoordinate("q"), place = placeOf(builder, add, index, extent, {b, h, q, map.getCoordinate("k")});
    if (unlessZero) {
      Value isAdded = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, map.getElement(0), constant(0));
      isAdded = arith::AndIOp::create(builder, loc, isAdded, compare(Predicate::slt, rowOf(q), values.Sq));
      place = arith::SelectOp::create(builder, loc, isAdded, place, number(-1));
    }
    tile::YieldOp::create(builder, loc, place);
    return tile::named(map.getResult(), "index");
  }

  /// Writes the kernels that complete the gradient of a captured tensor, and inserts the kernel that clears that
  /// gradient before all others.
  void writeCaptured(const CapturedGradient &gradient, tile::KernelOp like) {
    auto symbol = [](tile::KernelOp of) { return FlatSymbolRefAttr::get(of.getSymNameAttr()); };
    if (!gradient.tiles.empty() || !gradient.scattered.empty())
      kernels.insert(kernels.begin(), symbol(writeZerosKernel(op, gradient, like)));
    if (gradient.tiles.empty())
      kernels.push_back(symbol(writeGradientKernel(op, gradient, like)));
    else
      writeTiles(gradient);
  }

  /// The gradient of a tensor whose indices are coordinates. The grid has a thread block for each tile of queries and
  /// keys, and for each b and h that is an index. A loop runs over the batches and heads that share the tile's
  /// elements.
  void writeTiles(const CapturedGradient &gradient) {
    std::array<std::string, 2> axes; // tensor axes indexed by b and h
    std::array<Value, 2> places;
    const CoordinateDims dims = dimsOfTile(gradient.tiles.front());
    SmallVector<StringRef> grid;
    for (unsigned coordinate : {0u, 1u})
      if (dims[coordinate])
        grid.push_back(axes[coordinate] = gradient.axis(*dims[coordinate]));
    grid.append({"q", "k"});
    const StringRef suffix = gradient.tensor.getName().getValue();
    tile::KernelOp kernel = writeKernel("_grad_" + suffix, grid, Work::LoopOverKeys, [&] {
      for (unsigned coordinate : {0u, 1u})
        if (dims[coordinate])
          places[coordinate] = tile::named(tile::BlockIndexOp::create(builder, loc, i32, axes[coordinate]),
                                           coordinate ? "head_place" : "batch_place");
      writeTilesOf(gradient, dims, places);
    });
    if (plan.getPersistent())
      kernel->setAttr(sched::persistentAttr, builder.getUnitAttr());
    if (plan.getLongestFirst())
      kernel->setAttr(sched::longestFirstAttr, builder.getUnitAttr());
    // The launch skips this kernel if no two batches or heads share an element of the tensor: the main loop has then
    // written the gradient.
    if (isWrittenByLoop(gradient)) {
      auto most = [&](unsigned i) { return dims[i] ? gradient.axis(*dims[i]) : std::string(); };
      tile::skipIf(kernel, {{"b", most(0)}, {"h", most(1)}});
    }
  }

  void writeTilesOf(const CapturedGradient &gradient, const CoordinateDims &dims, std::array<Value, 2> places) {
    Value q0 = blockIndex("q"), k0 = blockIndex("k");
    values.q0 = q0;
    Value queries = ofQueries("q"), keys = ofKeys("k"), vs = ofValues("v"), doView = ofOutputs("do");
    const RowViews views = rowViews();
    Value out = operand(gradient.declaration());
    declareSaved();
    readSizes();
    zero = constant(0);
    const std::array<Value, 2> counts = {values.B, values.H};
    auto extent = [&](unsigned coordinate) { return axisExtent(gradient.axis(*dims[coordinate]), "extent"); };
    std::array<Range, 2> all;
    for (unsigned i : {0u, 1u})
      all[i] = sharers(counts[i], places[i], places[i] ? extent(i) : Value());
    auto afterTile = [&](tile::ForBlocksOp tiles) {
      Value kvHead = tile::named(arith::DivSIOp::create(builder, loc, h, param("group", i32)), "kv_head");
      const SmallVector<Value, 3> ofQuery{b, h, q0}, ofKey{b, kvHead, tiles.getOrigin()};
      auto streamed = [&](StringRef name, StringRef axis, StringRef columns, Value view, ValueRange at, Value limit) {
        return load(name, axis, columns, view, at, limit, plan.getStages());
      };
      Value qTile = streamed("q_tile", "q", "d", queries, ofQuery, values.Sq),
            doTile = streamed("do_tile", "q", "dv", doView, ofQuery, values.Sq),
            kTile = streamed("k_tile", "k", "d", keys, ofKey, values.Sk),
            vTile = streamed("v_tile", "k", "dv", vs, ofKey, values.Sk);
      // The iterations run over batches and heads for one position of the tile, so the row values are loaded in each
      // iteration. The cut at the end of the keys is dropped: storeTile does not store past that end.
      ScoreTile tile = scoresOf(qTile, kTile, vTile, doTile, q0, k0, tiles.getPartial(), loadedRows(views, q0));
      llvm::erase_if(mask.cuts, [](const MaskCut &cut) { return cut.conjuncts.empty(); });
      hideWeights(tile);
      Value sum = tiles.getCarried()[0];
      for (attn::AddGradientOp add : gradient.tiles)
        sum = sumWith(tile, sum, addedOf(tile, add));
      // Derivatives may read elements of the captured tensor as well: these reads move to the place of the gradient's
      // element.
      readAtPlaces(tiles, gradient, dims, places);
      return Carried{sum};
    };
    const Carried none{tile::named(tile::SplatOp::create(builder, loc, scores(), zero), "gradient")};
    storeTile(loopOverSharers(all, k0, none, afterTile).front(), out, dims, places, q0, k0);
  }

  struct Range {
    Value begin, end;
    Value count(BackwardWriter &writer) const { return arith::SubIOp::create(writer.builder, writer.loc, end, begin); }
    Value domain(BackwardWriter &writer, StringRef axis) const {
      return tile::DomainOp::create(writer.builder, writer.loc, axis, 1, begin, end);
    }
  };

  /// Writes the loops over the batches `all[0]` and the heads `all[1]`. For each batch and head `body` writes the
  /// computation of the tile of keys at `k0`. If visibility of the tile depends on neither batch nor head, all (batch,
  /// head) pairs are repetitions (`times`) of the domain of one loop.
  Carried loopOverSharers(const std::array<Range, 2> &all, Value k0, const Carried &none,
                          function_ref<Carried(tile::ForBlocksOp)> body) {
    Value iterations = arith::MulIOp::create(builder, loc, all[0].count(*this), all[1].count(*this));
    Value anyBatch = number(0), anyHead = number(0);
    values.b = b = anyBatch;
    values.h = h = anyHead;
    Value ofAll = onlyTile(domain(), k0);
    if (anyBatch.use_empty() && anyHead.use_empty()) {
      ofAll.getDefiningOp<tile::DomainOp>().getTimesMutable().assign(iterations);
      return loopOver(ofAll, none, [&](tile::ForBlocksOp tiles) {
        Value iteration = tiles.getIteration(), heads = all[1].count(*this);
        values.b = b = tile::named(add(all[0].begin, arith::DivSIOp::create(builder, loc, iteration, heads)), "b");
        setHead(tile::named(add(all[1].begin, arith::RemSIOp::create(builder, loc, iteration, heads)), "h"));
        return body(tiles);
      });
    }
    return loopOver(all[0].domain(*this, "b"), none, [&](tile::ForBlocksOp batches) {
      values.b = b = batches.getOrigin();
      return loopOver(all[1].domain(*this, "h"), Carried(batches.getCarried()), [&](tile::ForBlocksOp heads) {
        setHead(heads.getOrigin());
        return loopOver(onlyTile(domain(), k0), Carried(heads.getCarried()), body);
      });
    });
  }

  /// Replaces the indices b and h of the loop's reads of the captured tensor by the position `places` of the gradient's
  /// element: batches and heads that share an element of the gradient also read the same element of the tensor.
  void readAtPlaces(tile::ForBlocksOp tiles, const CapturedGradient &gradient, const CoordinateDims &dims,
                    std::array<Value, 2> places) {
    const std::array<Value, 2> own = {b, h};
    tiles.walk([&](tile::ElementOp element) {
      tile::ParamOp of = tile::parameterOf(element.getView());
      if (!of || of.getName() != (tile::tensorPrefix + gradient.tensor.getName().getValue()).str())
        return;
      for (auto [coordinate, value] : llvm::enumerate(own))
        if (dims[coordinate] && element.getIndices()[*dims[coordinate]] == value)
          element.getIndicesMutable()[*dims[coordinate]].set(places[coordinate]);
    });
  }

  /// The batches or heads that share an element of the tensor: the one at `place`, or all of them where `place` is
  /// null. The tensor's last place is also shared by all batches or heads beyond it, because their index is clamped.
  Range sharers(Value count, Value place, Value extent) {
    Value begin = number(0), end = count;
    if (place) {
      begin = place;
      Value next = add(place, number(1));
      Value own = arith::MinSIOp::create(builder, loc, next, count);
      end = arith::SelectOp::create(builder, loc, compare(Predicate::eq, next, extent), count, own);
    }
    return {begin, end};
  }

  /// Restricts a domain over tiles of keys to the tile at `k0`.
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

  /// Stores a tile of the gradient. Elements past the ends of the sequences get index -1 and are not stored. Elements
  /// past the ends of the tensor are not stored either; launches check that no visible element lies there.
  void storeTile(Value total, Value out, const CoordinateDims &dims, std::array<Value, 2> places, Value q0, Value k0) {
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
      auto index =
          tile::MapOp::create(builder, loc, vectorOf(axis).withElementType(i32), ValueRange(), {{axis, origin}});
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
      if (backward::hasRoles(op, plan) && !op->hasAttr(attn::accumulatesDqAttr)) {
        op.emitError() << "has an attn.plan with producer warps, around which one loop has all five products; run "
                          "attn-tile-size first, or say attn.accumulates_dq";
        return signalPassFailure();
      }
      FailureOr<SmallVector<CapturedGradient>> captured = planCapturedGradients(op);
      if (failed(captured))
        return signalPassFailure();
      auto ofQueries = op->getAttrOfType<attn::PlanAttr>(attn::queriesPlanAttr);
      BackwardWriter(op, plan, ofQueries ? ofQueries : plan, granularity, *captured).write();
      op.erase();
    }
  }
};

} // namespace
