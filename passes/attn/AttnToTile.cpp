//===- AttnToTile.cpp - Write the tiles of one block of the forward pass ---===//
//
// Writes the FlashAttention forward of one query tile: for each visible K tile, S = Q K^T, the score and mask, the
// normaliser (for softmax m, l and the rescaled accumulator), and O += P V (Dao et al., 2022, Algorithms 1 and 5). The
// formulas stay in their natural form; later passes fold scales, split sums and hoist.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/attn/FromVariant.h"
#include "ir/tile/Signature.h"
#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Dependences.h"
#include "passes/analysis/mask/EmptyDomain.h"
#include "passes/analysis/mask/MaskAnalysis.h"
#include "passes/analysis/mask/TileSequence.h"
#include "passes/analysis/products/WarpgroupRows.h"
#include "passes/attn/BoundsKernel.h"
#include "passes/attn/NormaliserWriter.h"
#include "passes/attn/SplitKeys.h"
#include "passes/attn/TileScores.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

#include <algorithm>

namespace attune {
#define GEN_PASS_DEF_ATTNTOTILE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::MemorySpace;
using tile::TileType;

namespace {

/// Writes the kernels of one attention. The members are values that several functions use.
class KernelWriter : NormaliserWriter {
public:
  KernelWriter(attn::AttentionOp op, attn::PlanAttr plan, int64_t granularity)
      : NormaliserWriter(op), plan(plan), depth(llvm::alignTo(op.getHeadDim(), granularity)),
        depthV(llvm::alignTo(op.getHeadDimV(), granularity * plan.getDvWarps())) {}

  void write() {
    if (!op.getNormaliser())
      writeSoftmax(op);
    const StringRef suffix = plan.getSplitKeys() ? "_shares" : "";
    kernel = createKernel(op.getSymName() + suffix, gridOfRows(), plan, plan.getWarps());
    annotate();
    writeBlock();
    kernel.setOperandsAttr(operands());
    writeFurtherKernels();
  }

private:
  /// Why thread blocks may visit different numbers of key tiles: sequence lengths are in memory, or each block searches
  /// for its visible tiles.
  enum class Uneven { No, InMemory, BySearch };

  /// Sets the plan's fields that concern the whole kernel as attributes.
  void annotate() {
    if (Attribute remarks = op->getAttr(tile::remarksAttr))
      kernel->setAttr(tile::remarksAttr, remarks);
    auto mark = [&](bool has, StringRef name) {
      if (has)
        kernel->setAttr(name, builder.getUnitAttr());
    };
    mark(plan.getLongestFirst(), sched::longestFirstAttr);
    mark(plan.getPersistent(), sched::persistentAttr);
    mark(plan.getPingPong(), sched::pingPongAttr);
    mark(plan.getOverlap(), sched::overlapAttr);
    mark(plan.getStageBiases(), sched::stageBiasesAttr);
    if (plan.getProducerWarps())
      kernel->setAttr(sched::rolesAttr, sched::rolesOf(kernel.getContext(), plan.getProducerWarps(), plan.getWarps()));
  }

  /// Declares the derived axes of keys, rows and splits. Where thread blocks search for their visible tiles, some
  /// blocks have much more work than others. The grid then has several times as many splits as run at a time, so that a
  /// multiprocessor which finishes early starts another split.
  void deriveAxes() {
    constexpr int64_t splitsBySearch = 8; // per multiprocessor, where blocks search for visible tiles
    SmallVector<Attribute> derived;
    auto derive = [&](StringRef name, DerivedAxis::Rule rule, int64_t by = 1, int64_t blocksPerSm = 1,
                      StringAttr of = {}) {
      derived.push_back(tile::DerivedAxisAttr::get(op.getContext(), builder.getStringAttr(name),
                                                   builder.getStringAttr(attune::name(rule)), by, blocksPerSm, of));
    };
    if (attn::KeyPagesAttr pages = op.getKeyPagesAttr())
      derive("k", DerivedAxis::Rule::Pages, pages.getSize(), 1,
             builder.getStringAttr(tile::tensorPrefix + pages.getName().getValue() + ".1"));
    if (plan.getPackGqa())
      derive(tile::rowsAxis, DerivedAxis::Rule::Rows);
    if (plan.getSplitKeys() && uneven != Uneven::InMemory)
      derive(tile::splitsAxis, DerivedAxis::Rule::Splits, plan.getTileK(),
             uneven == Uneven::No ? plan.getBlocksPerSm() : splitsBySearch);
    if (uneven == Uneven::InMemory) {
      const StringAttr rows = builder.getStringAttr(axes.rows);
      derive(tile::workItemsAxis, DerivedAxis::Rule::WorkItems, plan.getTileQ(), plan.getBlocksPerSm(), rows);
      derive(tile::tileRowsAxis, DerivedAxis::Rule::TileRows, plan.getTileQ(), 1, rows);
      derive(tile::slotsAxis, DerivedAxis::Rule::Slots, 1, plan.getBlocksPerSm());
    }
    if (!derived.empty())
      kernel->setAttr(tile::derivedAttr, builder.getArrayAttr(derived));
  }

  /// Whether thread blocks visit different numbers of tiles of keys, and why.
  static Uneven unevenOf(tile::DomainOp domain) {
    auto anyFollows = [&](function_ref<bool(Operation *)> is) {
      auto follows = [&](Value end) { return followsFrom(end, is); };
      return llvm::any_of(domain.getBegins(), follows) || llvm::any_of(domain.getEnds(), follows);
    };
    if (domain.skips())
      return Uneven::BySearch;
    // Domain bounds that are computed in floating point do not count as lengths in memory: the kernel that computes
    // splits and the kernel that combines them may round differently, and would disagree about the work items.
    return anyFollows(llvm::IsaPred<tile::ElementOp>) && !anyFollows(llvm::IsaPred<arith::FPToSIOp>) ? Uneven::InMemory
                                                                                                     : Uneven::No;
  }

  /// Restricts `domain` to the thread block's split (share) of the tiles of keys, and returns the end of the rows to
  /// write. In a grid of work items (each a split of the keys for one tile of rows of one sequence), a block whose
  /// split has no tiles gets the end 0, so it writes nothing.
  Value takeSplitOf(tile::DomainOp domain, Value rowLength) {
    const SplitTiles taken = takeSplit(builder, domain, split, splits);
    if (uneven != Uneven::InMemory)
      return rowLength;
    workItems = BlockRows{b, row0, rowLength, taken.all};
    Value has = compare(arith::CmpIPredicate::slt, taken.first, taken.all);
    return tile::named(select(has, rowLength, number(0)), "rows_written");
  }

  /// Replaces the grid by work items: each block finds its sequence, row tile and split from the index of its work
  /// item.
  void placeWorkItems() {
    kernel.setGridAttr(builder.getArrayAttr({axis(tile::workItemsAxis), axis(axes.heads)}));
    workItem.getDefiningOp()->moveBefore(&kernel.getBody().front().front());
    builder.setInsertionPointAfterValue(workItem);
    const SequenceWork::Place place =
        SequenceWork(builder, builder.getLoc(), *workItems, plan.getTileQ(), axes.heads).find(workItem);
    for (auto [index, is] :
         {std::pair{b, place.sequence}, {row0, place.row0}, {split, place.split}, {splits, place.splits}}) {
      Operation *asked = index.getDefiningOp();
      index.replaceAllUsesWith(is);
      asked->erase();
    }
  }

  /// Writes the other kernels of the launch: before this kernel one that fills the per-tile tables, after it one that
  /// combines splits.
  void writeFurtherKernels() {
    SmallVector<tile::KernelOp> kernels{kernel};
    builder.setInsertionPointAfter(kernel);
    if (plan.getSplitKeys())
      kernels.push_back(writeCombineKernel(builder, op, kernel, op.getSymName(), axes, workItems));
    if (!bounds.empty() || claims)
      kernels.insert(kernels.begin(), writeBoundsKernel(builder, op, kernel, bounds));
    if (workItems)
      placeWorkItems();
    builder.setInsertionPoint(kernel);
    writeLaunch(builder, kernels);
  }

  ArrayAttr operands() {
    SmallVector<Attribute> declared;
    for (const OperandParam &operand : tile::forwardOperandsOf(op))
      if (operand.role == OperandRole::In || !plan.getSplitKeys())
        declared.push_back(tile::declarationOf(builder.getContext(), operand));
    if (plan.getSplitKeys())
      llvm::append_range(declared, splitOperands(op, axes, workItems.has_value()));
    for (StringRef what : op.getSaves().getAsValueRange<StringAttr>())
      declared.push_back(savedDeclaration(op, what, OperandRole::Out));
    for (const BoundsTable &table : bounds)
      declared.push_back(table.declaration());
    if (claims)
      declared.push_back(workCounterOperand(builder.getContext()));
    return builder.getArrayAttr(declared);
  }

  /// Makes the domain of tiles of keys empty for a thread block whose first row is past the end of its sequence.
  void emptyAfter(tile::DomainOp domain, Value rowLength) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(domain);
    emptyUnless(builder, domain, compare(arith::CmpIPredicate::slt, row0, rowLength));
  }

  /// The grid has a thread block for each tile of rows of a head, or, with split keys, for each split of such a tile.
  SmallVector<Attribute> gridOfRows() {
    SmallVector<Attribute> grid{axis("b"), axis(axes.heads), axis(axes.rows, 0, plan.getTileQ())};
    if (plan.getSplitKeys())
      grid.push_back(axis(tile::splitsAxis));
    return grid;
  }

  /// Whether a tile of keys ends past `end`. With producer warps the tile's origin is compared with the origin of the
  /// first tile that ends past `end`. That origin is computed once per block, which is 1% faster with dropout. With
  /// ping-pong, or without producer warps, no register is left for that value.
  Value isPast(Value k0, Value end) {
    if (!plan.getProducerWarps() || plan.getPingPong())
      return compare(arith::CmpIPredicate::sgt, add(k0, number(plan.getTileK())), end);
    Value from;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfterValue(end);
      Value size = number(plan.getTileK()), tiles = divide(end, size);
      from = tile::named(arith::MulIOp::create(builder, tiles, size, arith::IntegerOverflowFlags::nsw), "partial_from");
    }
    return compare(arith::CmpIPredicate::sge, k0, from);
  }

  /// Whether conjuncts of the mask other than cuts must be applied in a visited tile: the tile is `partial` for the
  /// thread block's rows, and not full for the warpgroup's own rows. (Cuts end each row's keys at one side and are
  /// applied separately.)
  Value isMasked(Value k0, Value partial) {
    // If neither tables nor a `where` region decide about single tiles, the bounds of the warpgroup's own rows suffice.
    Value masked = testsTiles || !bounds.empty() || mask.full.empty() ? partial : Value();
    for (auto [from, to] : mask.full) {
      Value outside = arith::OrIOp::create(builder, compare(arith::CmpIPredicate::slt, k0, from),
                                           compare(arith::CmpIPredicate::sge, k0, to));
      masked = both(masked, outside);
    }
    return masked;
  }

  /// Masks a tile. A cut, a condition that ends each row's visible keys at one side (q >= k), is applied in the tiles
  /// that it crosses; the rest of the mask is applied in partial tiles.
  Value maskTile(Value x, Value k0, Value partial) {
    const TileOrigin origin{rowOrigin, k0};
    for (const MaskCut &cut : mask.cuts) {
      Value crossed = cut.fullBegin ? compare(arith::CmpIPredicate::slt, k0, cut.fullBegin) : isPast(k0, cut.fullEnd);
      x = hideCut(*this, x, block, cut, origin, k0, crossed);
    }
    const bool lookUp = patternNeedsElementMask(op, plan.getTileQ(), plan.getTileK());
    if (mask.isCutsAlone() && !lookUp)
      return x;
    Value masked = isMasked(k0, partial);
    // With producer warps and at most 128 columns, a lane keeps the visible columns of a row as a bit mask in
    // registers. A row whose visible keys are a union of intervals then needs no comparisons per element.
    SmallVector<Conjunct> byElement = mask.rest;
    if (!plan.getProducerWarps() || plan.getTileK() > 128)
      byElement.append(mask.unions);
    else if (!mask.unions.empty())
      x = hide(*this, x, {rowOrigin, number(0)}, masked, [&](Value q, Value column) {
        Value seen;
        for (const Conjunct &conjunct : mask.unions)
          seen = both(seen, emitUnion(builder, op, block.atRow(rowOf(q)), conjunct, k0, column));
        return seen;
      });
    if (byElement.empty() && !lookUp)
      return x;
    return hide(*this, x, origin, masked, [&](Value q, Value k) { return isVisible(*this, byElement, lookUp, q, k); });
  }

  /// The values defined outside of the domain's `where` region and read in it.
  static llvm::SetVector<Value> readBy(tile::DomainOp domain) {
    llvm::SetVector<Value> read;
    getUsedValuesDefinedAbove(domain.getWhere(), read);
    return read;
  }

  /// The number of 32-bit words that the domain's `where` region reads from per-tile tables of queries.
  static int64_t wordsByQuery(tile::DomainOp domain) {
    int64_t bits = 0;
    for (Value value : readBy(domain))
      if (value.getDefiningOp<tile::ElementOp>())
        bits += std::max<int64_t>(value.getType().getIntOrFloatBitWidth(), 32);
    return bits / 32;
  }

  /// Whether the `where` region tests table entries of the warpgroup's own rows. A condition that depends on keys alone
  /// is the same for all warpgroups.
  static bool testsByPart(tile::DomainOp domain) {
    return llvm::any_of(readBy(domain),
                        [](Value value) { return followsFrom(value, llvm::IsaPred<tile::WarpgroupRowOp>); });
  }

  /// Makes a warpgroup skip the tiles before the first one that its own rows (`part`) see, by the start of `within`.
  /// The function applies where per-tile tables decide which keys a row sees; a producer warp then searches for the
  /// first visible tile of each part. A part whose rows are past Sq searches for the last row instead. The searching
  /// warp keeps the table entries of all parts in registers at once, so a part's entries are limited to two words: the
  /// least and the greatest of one 32-bit value. Tables with an entry per (query tile, key tile) are not built for
  /// parts.
  void beginWhereVisible(SmallVector<Value, 2> &within, BlockValues part, Value domain) {
    Block *block = builder.getInsertionBlock();
    Value one = number(1);
    Operation *before = one.getDefiningOp();
    Value last = arith::SubIOp::create(builder, part.Sq, one, arith::IntegerOverflowFlags::nsw);
    part.q0 = tile::named(arith::MinSIOp::create(builder, part.q0, last), "seen_row");
    SmallVector<BoundsTable> with(bounds);
    auto own = buildDomain(builder, op, part, with).getDefiningOp<tile::DomainOp>();
    const bool counts = std::ranges::any_of(with, &BoundsTable::isOfBoth);
    if (!own.skips() || counts || !testsByPart(own) || wordsByQuery(own) > 2) {
      // No search per part: erase the part's domain, and the ops that only this domain used.
      own.erase();
      while (isOpTriviallyDead(&block->back()) && &block->back() != before)
        block->back().erase();
      return;
    }
    bounds = std::move(with);
    Value begin = tile::named(tile::FirstVisibleOp::create(builder, i32, own), "own_begin");
    if (within.empty())
      within = {begin, domain.getDefiningOp<tile::DomainOp>().getEnds().back()};
    within[0] = begin;
  }

  /// Whether the score uses positions as numbers, as ALiBi does.
  bool countsPositions() { return holds<arith::SIToFPOp>(op.getScore()); }

  /// Builds the domain of tiles of keys that the thread block visits, and sets `within` to the range that the
  /// warpgroup's own rows need. Also sets the members `mask`, `testsTiles` and `claims`.
  Value visibleTiles(SmallVector<Value, 2> &within) {
    Value domain = buildDomain(builder, op, block, bounds);
    // The loop visits the last tile of keys first if the running row maxima reach their final values sooner that way. A
    // score like ALiBi is greatest near the query, where a causal mask ends. With a window, the last rows see few keys
    // of the first tile or none. Early maxima matter to warpgroups, which rescale lazily (tile-lazy-rescale).
    if (auto tiles = domain.getDefiningOp<tile::DomainOp>();
        plan.getProducerWarps() && TileSequence{tiles, {}}.isContiguous() &&
        (countsPositions() || !matchPattern(tiles.getBegins().front(), m_Zero())))
      tiles.setReverse(true);
    // All warpgroups iterate over the same tiles. Each warpgroup computes only the tiles that its own rows see, and
    // applies a cut (a condition such as q >= k) only in the tiles that the cut crosses for its own rows.
    BlockValues part = block;
    if (int64_t rows = rowsOfWarpgroup(kernel); rows && rows < plan.getTileQ() && !group) {
      part.tileQ = rows;
      part.part = true;
      part.q0 = tile::named(tile::WarpgroupRowOp::create(builder, i32, q0, part.tileQ), "own_row");
      within = emitHull(builder, op, part);
      if (!bounds.empty() && !op.getPatternAttr())
        beginWhereVisible(within, part, domain);
    }
    part.mayFollow |= part.part;
    mask = splitMask(builder, op, part, bounds);
    auto visited = domain.getDefiningOp<tile::DomainOp>();
    testsTiles = !visited.getWhere().empty();
    // Persistent blocks claim tiles of work from a counter where these differ in length by data in memory: where blocks
    // search for visible tiles, and in packed sequences. The bounds kernel resets the counter.
    claims = plan.getPersistent() && ((visited.skips() && !bounds.empty()) || op.getSequences());
    return domain;
  }

  /// Computes the block's first query and head from its position in the grid. Returns the head of K and V, and the
  /// number of rows of the sequence.
  std::pair<Value, Value> placeRows(Value queryLength) {
    if (plan.getPackGqa()) {
      Value kvHead = rowHead;
      group = param("group", i32);
      h = tile::named(arith::MulIOp::create(builder, kvHead, group, arith::IntegerOverflowFlags::nsw),
                      "first_head"); // no overflow: the result is the number of a query head
      q0 = tile::named(arith::DivUIOp::create(builder, row0, group), "q0");
      rowOrigin = row0;
      return {kvHead, op.getQueryLengths() ? tile::named(multiply(queryLength, group), "own_rows")
                                           : axisExtent(axes.rows, "rows")};
    }
    h = rowHead;
    q0 = row0;
    rowOrigin = qOffset ? tile::named(add(q0, qOffset), "q_origin") : q0;
    Value kvHead = tile::named(divide(h, param("group", i32)), "kv_head");
    return {kvHead, queryLength};
  }

  /// The view of an output for a value that the backward pass reads; null where the value is not saved.
  Value savedView(StringRef what) {
    return op.saves(what) ? param(savedDeclaration(op, what, OperandRole::Out)) : Value();
  }

  void writeBlock() {
    Type dtype = op.getDtype();
    b = blockIndex("b", "b");
    rowHead = blockIndex(axes.heads, axes.heads);
    row0 = blockIndex(axes.rows, axes.rows + "0");
    Value queryLength = lengthOfSequence(builder, op, op.getQueryLengths(), b, axisExtent("q", "Sq"), "own_queries");
    keyLength = lengthOfSequence(builder, op, op.getKeyLengths(), b, axisExtent("k", "Sk"), "own_keys");
    Value heads = axisExtent("h", "H"), batch = axisExtent("b", "B");
    readQueryOffset();
    const auto [kvHead, rowLength] = placeRows(queryLength);
    savedDropout = savedView("dropout");
    savedScore = savedView("score");
    Value queries = param("q", view(4, dtype)), keys = rowsOfKeys(param("k", view(4, dtype))),
          values = rowsOfKeys(param("v", view(4, dtype)));
    block = {b, h, q0, qOffset, batch, heads, queryLength, keyLength, plan.getTileQ(), plan.getTileK()};
    block.mayFollow = plan.getSplitKeys() || op.getQueryLengths() || op.getSequences();
    Value keyEnd = emitEndOf(builder, op, block, MaskAxis::Keys);
    valuesRead = keyEnd ? keyEnd : keyLength;
    SmallVector<Value, 2> within;
    if (plan.getSplitKeys()) {
      split = blockIndex(tile::splitsAxis, tile::splitsAxis);
      splits = axisExtent(tile::splitsAxis, "splits");
    }
    Value domain = visibleTiles(within);
    auto visited = domain.getDefiningOp<tile::DomainOp>();
    if (splits)
      uneven = unevenOf(visited);
    if (op.getQueryLengths() || uneven == Uneven::InMemory)
      emptyAfter(visited, rowLength);
    deriveAxes();
    const Value rowsWritten = splits ? takeSplitOf(visited, rowLength) : rowLength;

    const int64_t rows = plan.getTileQ();
    rowType = shape({{"q", rows}}, f32);
    outType = shape({{"q", rows}, {"dv", depthV}}, f32);
    // With a packed group the rows of Q end where the written rows end. Otherwise TMA copies all rows up to Sq.
    Value qTile = queryTile(queries, group ? rowsWritten : axisExtent("q", "Sq"));
    // Creates the constants -inf and 0 before the loop; row maxima start from -inf.
    floatConstant(maskedScore);
    floatConstant(0);
    const SmallVector<Value> inits = initialValues();
    if (op.getDropout()) {
      Value head = headNumber(*this, block.H);
      dropout = readDropout(*this);
      dropout.head = head;
    }
    const KeyViews views{keys, values, kvHead};
    finish(loopOver(
               domain, inits, [&](tile::ForBlocksOp loop) { return afterTile(loop, qTile, views); }, within),
           rowsWritten);
  }

  /// Loads the tile of Q. Rows of a single head are copied by TMA. Rows of a packed group are loaded to registers by
  /// the warps that read them, or copied to shared memory row by row.
  Value queryTile(Value queries, Value rowLength) {
    Type dtype = op.getDtype();
    TileType type = shape({{"q", plan.getTileQ()}, {"d", depth}}, dtype, MemorySpace::Shared);
    if (group && (plan.getProducerWarps() || plan.getQRegisters())) {
      type = type.withSpace(MemorySpace::Register);
      auto load = tile::LoadOp::create(builder, type.withElementType(f32), rowsOf(queries),
                                       ValueRange{b, rowHead, row0}, rowLength);
      return rounded(tile::named(load, "q_rows"), "q_tile");
    }
    Value qTile = copy(type, rowsOf(queries), ValueRange{b, rowHead, row0}, rowLength, plan.getQStages(), "q_tile");
    if (plan.getQRegisters())
      qTile = tile::named(tile::ConvertOp::create(builder, type.withSpace(MemorySpace::Register), qTile),
                          "q_tile_fragment");
    return qTile;
  }

  /// The view of the rows that the thread block computes: those of all heads of a packed group, or of one head.
  Value rowsOf(Value view) {
    return group ? tile::named(tile::GroupRowsOp::create(builder, view, group), tile::nameOf(view)) : view;
  }

  /// The view of K or V indexed by position in the sequence, where K and V are stored in pages.
  Value rowsOfKeys(Value view) {
    attn::KeyPagesAttr pages = op.getKeyPagesAttr();
    if (!pages)
      return view;
    Value table = tile::readTensor(builder, op.getLoc(), op.findTensor(pages.getName()));
    return tile::named(tile::PagedRowsOp::create(builder, view, table, pages.getSize()), tile::nameOf(view));
  }

  /// The views of K and V, and the key head to read from them.
  struct KeyViews {
    Value keys, values, kvHead;
  };

  /// Initial values of the statistics and of the accumulator.
  SmallVector<Value> initialValues() {
    SmallVector<Value> inits;
    for (auto statistic : statistics())
      inits.push_back(splat(statistic.getName().getValue(), rowType, initialOf(statistic)));
    inits.push_back(splat("acc", outType, floatConstant(0)));
    return inits;
  }

  /// Computes one tile of keys and returns the loop's next carried values.
  Carried afterTile(tile::ForBlocksOp loop, Value qTile, KeyViews of) {
    Type dtype = op.getDtype();
    const int64_t columns = plan.getTileK();
    scoreType = shape({{"q", plan.getTileQ()}, {"k", columns}}, f32);
    Value k0 = loop.getOrigin();
    Value kTile = copy(shape({{"k", columns}, {"d", depth}}, dtype, MemorySpace::Shared), of.keys,
                       ValueRange{b, of.kvHead, k0}, keyLength, plan.getStages(), "k_tile");
    Value s = product("s", scoreType, qTile, kTile);
    Value x = maskTile(savingScore(s, k0), k0, loop.getPartial());
    Carried next;
    auto [p, acc] = normalise(x, loop.getCarried(), next);
    Value whichKept;
    if (op.getDropout()) {
      auto drop = dropTile(*this, dropout, "p", p, q0, k0, /*kept=*/op.saves("dropout"));
      p = drop.getResult();
      whichKept = drop.getKept();
    }
    p = rounded(p, "p");
    if (whichKept)
      tile::StoreBlocksOp::create(builder, whichKept, savedDropout, b, h, q0, k0);
    Value vTile = copy(shape({{"k", columns}, {"dv", depthV}}, dtype, MemorySpace::Shared), of.values,
                       ValueRange{b, of.kvHead, k0}, valuesRead, plan.getStages(), "v_tile");
    next.push_back(product("acc", outType, p, vTile, acc));
    return next;
  }

  /// The scores x of a tile. If the backward pass wants a value of the score saved, stores that value.
  Value savingScore(Value s, Value k0) {
    const TileOrigin origin{rowOrigin, k0};
    if (!op.saves("score"))
      return scoreTile(*this, s, origin);
    Value saved = scoreMap(*this, "saved", s, op.getSavedScore(), origin);
    tile::StoreBlocksOp::create(builder, saved, savedScore, b, h, q0, k0);
    return scoreFromSaved(*this, saved, s, origin);
  }

  //===--- The normaliser ---===//

  /// Returns p of a tile of scores, and the accumulator times the rescaling factor. `carried` are the statistics and
  /// the accumulator; `next` gets the updated statistics.
  std::pair<Value, Value> normalise(Value x, ValueRange carried, SmallVector<Value> &next) {
    ValueRange before = carried.drop_back();
    Value acc = carried.back(), base, rescale;
    next.assign(before.begin(), before.end());
    StringRef maximum;
    for (auto [statistic, value] : llvm::zip(statistics(), next))
      if (statistic.getIsMax()) {
        maximum = maximum.empty() ? statistic.getName().getValue() : maximum;
        value = reduceKeys((statistic.getName().getValue() + "_next").str(), tile::Reduction::Max, x, value);
      }
    if (!op.getBase().empty())
      base = mapByRegion((maximum + "_base").str(), rowType, op.getBase(), next);
    SmallVector<Value> read(before);
    read.push_back(base);
    if (!op.getRescale().empty())
      rescale = mapByRegion("alpha", rowType, op.getRescale(), base ? ValueRange(read) : before);
    // The accumulator is rescaled before the exponentials, so that special functions and products are in one basic
    // block and can be interleaved.
    if (rescale)
      acc = scaledBy("acc", acc, rescale);
    Value p = mapByRegion("p", scoreType, op.getP(), base ? ValueRange{x, base} : ValueRange{x});
    for (auto [statistic, value] : llvm::zip(statistics(), next))
      if (!statistic.getIsMax()) {
        StringRef name = statistic.getName().getValue();
        value = reduceKeys(name, tile::Reduction::Sum, p, rescale ? scaledBy(name, value, rescale) : value);
      }
    return {p, acc};
  }

  Value reduceKeys(StringRef name, tile::Reduction kind, Value tile, Value init) {
    return reduce(name, rowType, kind, tile, "k", init);
  }

  /// Stores O and LSE, computed from the loop's results; with split keys stores these results themselves.
  void finish(ValueRange results, Value rowLength) {
    if (plan.getSplitKeys())
      return storeSplit(results, rowLength);
    ValueRange statistics = results.drop_back();
    const SmallVector<Value> place{b, rowHead, row0};
    Value out = results.back();
    if (Value inverse = inverseOf(statistics, op.getDropout() ? param("keep_scale", f32) : Value()))
      out = scaledBy("out", out, inverse);
    if (op.hasLse()) {
      Value lse = mapByRegion("lse", rowType, op.getLse(), statistics);
      store(lse, rowsOf(param("lse", view(3, f32))), place, rowLength, /*optional=*/true);
    }
    store(out, rowsOf(param("o", view(4, op.getDtype()))), place, rowLength);
  }

  void storeSplit(ValueRange results, Value rowLength) {
    SmallVector<Value> place{b, rowHead, split, row0};
    if (workItems) {
      workItem = blockIndex(tile::workItemsAxis, tile::workItemsAxis);
      place = {workItem, rowHead, number(0)};
      rowLength = tile::named(subtract(rowLength, row0), "rows_of_tile");
    }
    for (auto [operand, result] : llvm::zip(splitOperands(op, axes, workItems.has_value()), results))
      store(result, param(operand), place, rowLength);
  }

  attn::PlanAttr plan;
  tile::KernelOp kernel;
  int64_t depth, depthV;
  TileType rowType, scoreType, outType;
  RowAxes axes = plan.getPackGqa() ? RowAxes{"hkv", tile::rowsAxis} : RowAxes{};
  Value q0, keyLength;
  Value valuesRead; ///< rows of V to copy; rows past these read as zeros, since P is 0 there and 0 * NaN would be NaN
  Value rowOrigin;  ///< first row coordinate of the tile: q0 plus the query offset, or row0 of a packed group
  Value rowHead;    ///< head that indexes the rows: a query head, or the key head of a packed group
  Value split, splits; ///< split index and number of splits; null without split keys
  Uneven uneven = Uneven::No;
  std::optional<BlockRows> workItems; ///< set where each thread block computes one work item
  Value workItem;                     ///< index of the thread block's work item
  DropoutValues dropout;
  Value savedDropout, savedScore; ///< views of saved values; null where not saved
  BlockValues block;
  MaskSplit mask;
  bool testsTiles = false; ///< the domain's `where` region tests single tiles
  SmallVector<BoundsTable> bounds;
  bool claims = false; ///< thread blocks claim their tiles of work from a counter in memory
};

struct AttnToTile : attune::impl::AttnToTileBase<AttnToTile> {
  using AttnToTileBase::AttnToTileBase;

  void runOnOperation() override {
    for (auto op : llvm::make_early_inc_range(getOperation().getOps<attn::AttentionOp>())) {
      if (op.getGradients())
        continue;
      auto plan = op->getAttrOfType<attn::PlanAttr>(attn::planAttr);
      if (!plan) {
        op.emitError("has no attn.plan; run attn-tile-size first");
        return signalPassFailure();
      }
      KernelWriter(op, plan, granularity).write();
      op.erase();
    }
  }
};

} // namespace
