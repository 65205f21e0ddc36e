//===- AttnToTile.cpp - From what to how: one block's tiles -----------------===//
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
#include "passes/analysis/Dependences.h"
#include "passes/analysis/MaskAnalysis.h"
#include "passes/analysis/TileSequence.h"
#include "passes/analysis/WarpgroupRows.h"
#include "passes/attn/BoundsKernel.h"
#include "passes/attn/NormaliserWriter.h"
#include "passes/attn/SplitKeys.h"

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

/// Writes one kernel; its members are the values that several parts share.
class KernelWriter : NormaliserWriter {
public:
  KernelWriter(attn::AttentionOp op, attn::PlanAttr plan, int64_t granularity)
      : NormaliserWriter(op), plan(plan), depth(llvm::alignTo(op.getHeadDim(), granularity)),
        depthV(llvm::alignTo(op.getHeadDimV(), granularity * plan.getDvWarps())) {}

  void write() {
    if (!op.getNormaliser())
      writeSoftmax(op);
    auto sizes = tile::PlanAttr::get(builder.getContext(), plan.getTileQ(), plan.getTileK(), plan.getWarps(),
                                     plan.getBlocksPerSm(), plan.getDvWarps());
    const std::string name = (op.getSymName() + (plan.getSplitKeys() ? "_shares" : "")).str();
    kernel = tile::KernelOp::create(builder, loc, name, builder.getArrayAttr({}), gridOfRows(), op.getDtype(), sizes,
                                    op.getTensorsAttr(), op.getScalarsAttr(), op.getPatternAttr(), op.getDropout(),
                                    op.getPrecise(), op.getQOffset());
    annotate();
    builder.createBlock(&kernel.getBody());
    writeBlock();
    kernel.setOperandsAttr(operands());
    writeFurtherKernels();
  }

private:
  /// Why blocks may visit unlike numbers of tiles of keys.
  enum class Uneven { No, InMemory, BySearch };

  /// What the plan says of the kernel as a whole.
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
      kernel->setAttr(sched::rolesAttr, rolesOf(plan));
  }

  /// The axes of keys, rows and shares. Where a search says how many tiles of keys a block visits, some blocks have much more than
  /// others: with several times the shares that run at once, who is free takes the next.
  void deriveAxes() {
    constexpr int64_t splitsBySearch = 8; // for each multiprocessor
    SmallVector<Attribute> derived;
    auto derive = [&](StringRef name, DerivedAxis::Rule rule, int64_t by = 1, int64_t blocksPerSm = 1,
                      StringAttr of = {}) {
      derived.push_back(tile::DerivedAxisAttr::get(op.getContext(), builder.getStringAttr(name),
                                                   builder.getStringAttr(attune::name(rule)), by, blocksPerSm, of));
    };
    if (attn::KeyPagesAttr pages = op.getKeyPagesAttr())
      derive("k", DerivedAxis::Rule::Pages, pages.getSize(), 1,
             builder.getStringAttr(tile::tensorPrefix + pages.getName().getValue() + ".1"));
    if (plan.getPackGroups())
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

  /// Whether blocks visit unlike numbers of tiles of keys: by what memory says in front of the loop, or by what a search finds.
  static Uneven unevenOf(tile::DomainOp domain) {
    auto anyFollows = [&](function_ref<bool(Operation *)> is) {
      auto follows = [&](Value end) { return followsFrom(end, is); };
      return llvm::any_of(domain.getBegins(), follows) || llvm::any_of(domain.getEnds(), follows);
    };
    if (domain.skips())
      return Uneven::BySearch;
    // Two kernels may round floats differently, and would not find the same pieces.
    return anyFollows(llvm::IsaPred<tile::ElementOp>) && !anyFollows(llvm::IsaPred<arith::FPToSIOp>) ? Uneven::InMemory
                                                                                                     : Uneven::No;
  }

  /// The block's share of the keys; of what is a piece, the rows that it writes: none where it has no tile.
  Value takeSplitOf(tile::DomainOp domain, Value rowLength) {
    const SplitTiles taken = takeSplit(builder, domain, split, splits);
    if (uneven != Uneven::InMemory)
      return rowLength;
    workItems = BlockRows{b, row0, rowLength, taken.all};
    Value has = compare(arith::CmpIPredicate::slt, taken.first, taken.all);
    return tile::named(arith::SelectOp::create(builder, loc, has, rowLength, number(0)), "rows_written");
  }

  /// Where memory says how many shares there are, blocks are pieces of all sequences' work, and find which.
  void placeWorkItems() {
    kernel.setGridAttr(builder.getArrayAttr({gridAxis(tile::workItemsAxis), gridAxis(axes.heads)}));
    workItem.getDefiningOp()->moveBefore(&kernel.getBody().front().front());
    builder.setInsertionPointAfterValue(workItem);
    const SequenceWork::Place place =
        SequenceWork(builder, loc, *workItems, plan.getTileQ(), axes.heads).find(workItem);
    for (auto [index, is] :
         {std::pair{b, place.sequence}, {row0, place.row0}, {split, place.split}, {splits, place.splits}}) {
      Operation *asked = index.getDefiningOp();
      index.replaceAllUsesWith(is);
      asked->erase();
    }
  }

  /// What is launched beside the kernel: in front of it one that fills tables, behind it one that combines shares.
  void writeFurtherKernels() {
    SmallVector<tile::KernelOp> kernels{kernel};
    builder.setInsertionPointAfter(kernel);
    if (plan.getSplitKeys())
      kernels.push_back(writeCombineKernel(builder, op, kernel, op.getSymName(), axes, workItems));
    if (!bounds.empty())
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
      declared.push_back(savedDeclaration(what, OperandRole::Out));
    for (const BoundsTable &table : bounds)
      declared.push_back(table.declaration());
    if (claims)
      declared.push_back(workCounterOperand(builder.getContext()));
    return builder.getArrayAttr(declared);
  }

  /// A block whose first row lies behind its sequence's visits no tile.
  void emptyAfter(tile::DomainOp domain, Value rowLength) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(domain);
    Value hasRows = compare(arith::CmpIPredicate::slt, row0, rowLength);
    const SmallVector<Value> begins(domain.getBegins()), ends(domain.getEnds());
    Value first; // tile of segments that follow each other, as they still do
    for (auto [i, begin, end] : llvm::enumerate(begins, ends)) {
      if (i > 0 && begin == ends[i - 1])
        domain.getBeginsMutable()[i].set(domain.getEnds()[i - 1]);
      else
        first = begin;
      domain.getEndsMutable()[i].set(arith::SelectOp::create(builder, loc, hasRows, end, first));
    }
  }

  /// The next multiple of 16 of a number that is not negative.
  Value upTo16(Value value) {
    Value units = arith::DivSIOp::create(builder, loc, add(value, number(15)), number(16));
    return arith::MulIOp::create(builder, loc, units, number(16), arith::IntegerOverflowFlags::nsw);
  }

  Attribute gridAxis(StringRef name, int64_t by = 1) {
    return tile::AxisAttr::get(op.getContext(), builder.getStringAttr(name), 0, by);
  }

  /// A block for each tile of rows of a head, and share of its keys.
  ArrayAttr gridOfRows() {
    SmallVector<Attribute> grid{gridAxis("b"), gridAxis(axes.heads), gridAxis(axes.rows, plan.getTileQ())};
    if (plan.getSplitKeys())
      grid.push_back(gridAxis(tile::splitsAxis));
    return builder.getArrayAttr(grid);
  }

  /// Whether a tile of keys ends past `end`. Where two warpgroups compute, it is compared with the first such tile, a
  /// value of the block: measured 1% better for dropout. Warpgroups that take turns, and warps that hold all of a
  /// block's work, have no register for it.
  Value isPast(Value k0, Value end) {
    auto tileK = [&] { return arith::ConstantIntOp::create(builder, loc, plan.getTileK(), 32); };
    if (!plan.getProducerWarps() || plan.getPingPong())
      return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt,
                                   arith::AddIOp::create(builder, loc, k0, tileK()), end);
    Value from;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfterValue(end);
      Value size = tileK(), tiles = arith::DivSIOp::create(builder, loc, end, size);
      from = tile::named(arith::MulIOp::create(builder, loc, tiles, size, arith::IntegerOverflowFlags::nsw),
                         "partial_from");
    }
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, k0, from);
  }

  /// Whether a visited tile is masked beside the cuts: `partial` by all rows of the block, and not full by the part's own.
  Value isMasked(Value k0, Value partial) {
    // Without questions of single tiles, and tables, the part's rows say all that the block's do.
    Value masked = testsTiles || !bounds.empty() || mask.full.empty() ? partial : Value();
    for (auto [from, to] : mask.full) {
      Value outside = arith::OrIOp::create(builder, loc, compare(arith::CmpIPredicate::slt, k0, from),
                                           compare(arith::CmpIPredicate::sge, k0, to));
      masked = masked ? Value(arith::AndIOp::create(builder, loc, masked, outside)) : outside;
    }
    return masked;
  }

  /// Each cut in the tiles that it goes through; what is left of the mask in partial tiles.
  Value maskTile(Value x, Value k0, Value partial) {
    auto ofRow = [&](Value q) {
      BlockValues row = block;
      row.q0 = rowOf(q);
      row.tileQ = 1;
      return row;
    };
    for (const MaskCut &cut : mask.cuts) {
      Value crossed = cut.fullBegin ? compare(arith::CmpIPredicate::slt, k0, cut.fullBegin) : isPast(k0, cut.fullEnd);
      x = hide(x, rowOrigin, number(0), crossed,
               [&](Value q, Value column) { return emitCut(builder, op, ofRow(q), cut, k0, column); });
    }
    const bool lookUp = patternNeedsElementMask(op, plan.getTileQ(), plan.getTileK());
    if (mask.isCutsAlone() && !lookUp)
      return x;
    Value masked = isMasked(k0, partial);
    // Where the columns of a lane are bits of a row's word, several intervals are one word.
    SmallVector<Conjunct> byElement = mask.rest;
    if (!plan.getProducerWarps() || plan.getTileK() > 128)
      byElement.append(mask.unions);
    else if (!mask.unions.empty())
      x = hide(x, rowOrigin, number(0), masked, [&](Value q, Value column) {
        Value seen;
        for (const Conjunct &conjunct : mask.unions) {
          Value by = emitUnion(builder, op, ofRow(q), conjunct, k0, column);
          seen = seen ? Value(arith::AndIOp::create(builder, loc, seen, by)) : by;
        }
        return seen;
      });
    if (byElement.empty() && !lookUp)
      return x;
    return hide(x, rowOrigin, k0, masked, [&](Value q, Value k) { return isVisible(byElement, lookUp, q, k); });
  }

  /// What the domain's questions read of the block.
  static llvm::SetVector<Value> readBy(tile::DomainOp domain) {
    llvm::SetVector<Value> read;
    getUsedValuesDefinedAbove(domain.getWhere(), read);
    return read;
  }

  /// Words that the domain's questions read of tables by query.
  static int64_t wordsByQuery(tile::DomainOp domain) {
    int64_t bits = 0;
    for (Value value : readBy(domain))
      if (value.getDefiningOp<tile::ElementOp>())
        bits += std::max<int64_t>(value.getType().getIntOrFloatBitWidth(), 32);
    return bits / 32;
  }

  /// Whether what the domain asks of tables differs from part to part of the rows: what a key alone decides is the same
  /// for all.
  static bool testsByPart(tile::DomainOp domain) {
    return llvm::any_of(readBy(domain),
                        [](Value value) { return followsFrom(value, llvm::IsaPred<tile::WarpgroupRowOp>); });
  }

  /// Where tables say what a part's rows see, from the first tile that shows them something; a part past Sq asks for
  /// the last row. The warp that searches holds what it reads of the tables for all parts at a time, and has room for
  /// the least and the greatest of one value of words. A table of all tiles is not made again for parts.
  void beginWhereVisible(SmallVector<Value, 2> &within, BlockValues part, Value domain) {
    Block *block = builder.getInsertionBlock();
    Value one = arith::ConstantIntOp::create(builder, loc, 1, 32);
    Operation *before = one.getDefiningOp();
    Value last = arith::SubIOp::create(builder, loc, part.Sq, one, arith::IntegerOverflowFlags::nsw);
    part.q0 = tile::named(arith::MinSIOp::create(builder, loc, part.q0, last), "seen_row");
    SmallVector<BoundsTable> with(bounds);
    auto own = buildDomain(builder, op, part, with).getDefiningOp<tile::DomainOp>();
    const bool counts = std::ranges::any_of(with, &BoundsTable::isOfBoth);
    if (!own.skips() || counts || !testsByPart(own) || wordsByQuery(own) > 2) {
      // Without its tables, what reads them goes too.
      own.erase();
      while (isOpTriviallyDead(&block->back()) && &block->back() != before)
        block->back().erase();
      return;
    }
    bounds = std::move(with);
    Value begin = tile::named(tile::FirstVisibleOp::create(builder, loc, i32, own), "own_begin");
    if (within.empty())
      within = {begin, domain.getDefiningOp<tile::DomainOp>().getEnds().back()};
    within[0] = begin;
  }

  /// Whether the score is a function of positions as numbers.
  bool countsPositions() { return holds<arith::SIToFPOp>(op.getScore()); }

  /// The tiles of keys that the block visits, and those of them `within` which its part does; sets the mask's rest.
  Value visibleTiles(SmallVector<Value, 2> &within) {
    Value domain = buildDomain(builder, op, block, bounds);
    // A score that counts positions, as ALiBi, is greatest near the query, where a causal mask ends: from there on row
    // maxima stay. So do those of a window, of whose first tile the last rows see few keys or none. It matters to
    // warpgroups, which keep their maxima (tile-lazy-rescale).
    if (auto tiles = domain.getDefiningOp<tile::DomainOp>();
        plan.getProducerWarps() && TileSequence{tiles, {}}.isContiguous() &&
        (countsPositions() || !matchPattern(tiles.getBegins().front(), m_Zero())))
      tiles.setReverse(true);
    // Warpgroups walk the tiles side by side: each visits what its own rows see, and cuts where its own rows end.
    BlockValues part = block;
    if (int64_t rows = rowsOfWarpgroup(kernel); rows && rows < plan.getTileQ() && !group) {
      part.tileQ = rows;
      part.part = true;
      part.q0 = tile::named(tile::WarpgroupRowOp::create(builder, loc, i32, q0, part.tileQ), "own_row");
      within = emitHull(builder, op, part);
      if (!bounds.empty() && !op.getPatternAttr())
        beginWhereVisible(within, part, domain);
    }
    part.mayFollow |= part.part;
    mask = splitMask(builder, op, part, bounds);
    auto visited = domain.getDefiningOp<tile::DomainOp>();
    testsTiles = !visited.getWhere().empty();
    // Where a search decides how long a tile takes, and a kernel before can reset their counter.
    claims = plan.getPersistent() && visited.skips() && !bounds.empty();
    return domain;
  }

  void writeBlock() {
    Type dtype = op.getDtype();
    auto index = [&](StringRef axis) {
      StringRef name = axis == "q" ? "q0" : axis == tile::rowsAxis ? "row0" : axis;
      return tile::named(tile::BlockIndexOp::create(builder, loc, i32, axis), name);
    };
    b = index("b");
    rowHead = index(axes.heads);
    row0 = index(axes.rows);
    Value queryLength = lengthOfSequence(builder, op, op.getQueryLengths(), b, axisExtent("q", "Sq"), "own_queries");
    Value capacity = axisExtent("k", "Sk");
    keyLength = lengthOfSequence(builder, op, op.getKeyLengths(), b, capacity, "own_keys");
    keysRead = keyLength;
    if (op.getKeyLengths()) // 16 rows at a time, as the mask hides what follows
      keysRead = tile::named(arith::MinSIOp::create(builder, loc, upTo16(keyLength), capacity), "keys_read");
    Value heads = axisExtent("h", "H"), batch = axisExtent("b", "B");
    readQueryOffset();
    Value kvHead = rowHead, rowLength = queryLength;
    if (plan.getPackGroups()) {
      group = param("group", i32);
      h = tile::named(arith::MulIOp::create(builder, loc, kvHead, group), "first_head");
      q0 = tile::named(arith::DivUIOp::create(builder, loc, row0, group), "q0");
      rowLength = op.getQueryLengths()
                      ? tile::named(arith::MulIOp::create(builder, loc, queryLength, group), "own_rows")
                      : axisExtent(axes.rows, "rows");
      rowOrigin = row0;
    } else {
      h = rowHead;
      q0 = row0;
      rowOrigin = qOffset ? tile::named(arith::AddIOp::create(builder, loc, q0, qOffset), "q_origin") : q0;
      kvHead = tile::named(arith::DivSIOp::create(builder, loc, h, param("group", i32)), "kv_head");
    }
    auto saved = [&](StringRef what) {
      const tile::OperandAttr declared = savedDeclaration(what, OperandRole::Out);
      return op.saves(what) ? param(declared.getName(), declared.getViewType()) : Value();
    };
    savedDropout = saved("dropout");
    savedScore = saved("score");
    Value queries = param("q", view(4, dtype)), keys = rowsOfKeys(param("k", view(4, dtype))),
          values = rowsOfKeys(param("v", view(4, dtype)));
    block = {b, h, q0, qOffset, batch, heads, queryLength, keyLength, plan.getTileQ(), plan.getTileK()};
    block.mayFollow = plan.getSplitKeys() || op.getQueryLengths();
    Value keyEnd = emitEndOf(builder, op, block, MaskAxis::Keys);
    valuesRead = keyEnd ? keyEnd : keyLength;
    SmallVector<Value, 2> within;
    if (plan.getSplitKeys()) {
      split = index(tile::splitsAxis);
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
    rowType = shape({{"q", rows}}, f32, MemorySpace::Register);
    outType = shape({{"q", rows}, {"dv", depthV}}, f32, MemorySpace::Register);
    // Rows of several heads end with what is written; the engine brings all that there are.
    Value qTile = queryTile(queries, group ? rowsWritten : axisExtent("q", "Sq"));
    floatConstant(-std::numeric_limits<float>::infinity()); // where maxima start
    zero = floatConstant(0);
    const SmallVector<Value> inits = initialValues();
    // Dropout counts its coordinates within the sequence, in global heads.
    if (op.getDropout()) {
      head = tile::named(arith::AddIOp::create(builder, loc, arith::MulIOp::create(builder, loc, b, heads), h), "head");
      seed = param("seed", builder.getI64Type());
      offset = param("offset", builder.getI64Type());
      threshold = param("drop_threshold", i32);
    }

    auto loop = tile::ForBlocksOp::create(builder, loc, domain, within, inits);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&loop.getBody().front());
      writeKeys(loop, qTile, {keys, values, kvHead});
    }
    finish(loop.getResults(), rowsWritten);
  }

  /// Rows of several heads are loaded to registers by those who read them, or copied row by row: TMA takes rows of one.
  Value queryTile(Value queries, Value rowLength) {
    Type dtype = op.getDtype();
    TileType type = shape({{"q", plan.getTileQ()}, {"d", depth}}, dtype, MemorySpace::Shared);
    if (group && (plan.getProducerWarps() || plan.getQRegisters())) {
      type = type.withSpace(MemorySpace::Register);
      auto load = tile::LoadOp::create(builder, loc, type.withElementType(f32), rowsOf(queries),
                                       ValueRange{b, rowHead, row0}, rowLength);
      return rounded(tile::named(load, "q_rows"), "q_tile");
    }
    Value qTile = copy(type, rowsOf(queries), ValueRange{b, rowHead, row0}, rowLength, plan.getQStages(), "q_tile");
    if (plan.getQRegisters())
      qTile = tile::named(tile::ConvertOp::create(builder, loc, type.withSpace(MemorySpace::Register), qTile),
                          "q_tile_fragment");
    return qTile;
  }

  /// The view with the block's rows.
  Value rowsOf(Value view) {
    return group ? tile::named(tile::GroupRowsOp::create(builder, loc, view, group), tile::nameOf(view)) : view;
  }

  /// The view of K or V by sequence, where they lie in pages.
  Value rowsOfKeys(Value view) {
    attn::KeyPagesAttr pages = op.getKeyPagesAttr();
    if (!pages)
      return view;
    Value table = tile::readTensor(builder, loc, op.findTensor(pages.getName()));
    return tile::named(tile::PagedRowsOp::create(builder, loc, view, table, pages.getSize()), tile::nameOf(view));
  }

  /// K and V, and which of their heads.
  struct KeyViews {
    Value keys, values, kvHead;
  };

  /// The statistics and the accumulator before the first tile.
  SmallVector<Value> initialValues() {
    SmallVector<Value> inits;
    for (auto statistic : statistics())
      inits.push_back(tile::named(tile::SplatOp::create(builder, loc, rowType, initialOf(statistic)),
                                  statistic.getName().getValue()));
    inits.push_back(tile::named(tile::SplatOp::create(builder, loc, outType, zero), "acc"));
    return inits;
  }

  /// The loop's body: one tile of keys.
  void writeKeys(tile::ForBlocksOp loop, Value qTile, KeyViews of) {
    Type dtype = op.getDtype();
    const int64_t columns = plan.getTileK();
    scoreType = shape({{"q", plan.getTileQ()}, {"k", columns}}, f32, MemorySpace::Register);
    Value k0 = loop.getOrigin();
    Value kTile = copy(shape({{"k", columns}, {"d", depth}}, dtype, MemorySpace::Shared), of.keys,
                       ValueRange{b, of.kvHead, k0}, keysRead, plan.getStages(), "k_tile");
    Value s = tile::named(tile::MmaOp::create(builder, loc, scoreType, qTile, kTile, Value()), "s");
    Value x = maskTile(savingScore(s, k0), k0, loop.getPartial());
    SmallVector<Value> next;
    auto [p, acc] = normalise(x, loop.getCarried(), next);
    Value whichKept;
    if (op.getDropout()) {
      const Type kept = op.saves("dropout") ? scoreType.withElementType(builder.getI1Type()) : Type();
      auto dropout = tile::DropoutOp::create(builder, loc, scoreType, kept, p, q0, k0, head, seed, offset, threshold,
                                             /*negates=*/false);
      p = tile::named(dropout.getResult(), "p");
      whichKept = dropout.getKept();
    }
    p = rounded(p, "p");
    if (whichKept)
      tile::StoreBlocksOp::create(builder, loc, whichKept, savedDropout, b, h, q0, k0);
    Value vTile = copy(shape({{"k", columns}, {"dv", depthV}}, dtype, MemorySpace::Shared), of.values,
                       ValueRange{b, of.kvHead, k0}, valuesRead, plan.getStages(), "v_tile");
    next.push_back(tile::named(tile::MmaOp::create(builder, loc, outType, p, vTile, acc), "acc"));
    tile::YieldOp::create(builder, loc, next);
  }

  /// x of a tile, of which what the backward pass asks for is saved.
  Value savingScore(Value s, Value k0) {
    if (!op.saves("score"))
      return scoreTile(s, rowOrigin, k0);
    Value saved = scoreMap("saved", s, op.getSavedScore(), rowOrigin, k0);
    tile::StoreBlocksOp::create(builder, loc, saved, savedScore, b, h, q0, k0);
    return scoreFromSaved(saved, readsProductAndSaved() ? s : Value(), rowOrigin, k0);
  }

  //===--- The normaliser ---===//

  /// p of a tile of scores, and the accumulator times the rescale. `carried` are the statistics and the accumulator;
  /// `next` gets the statistics with this tile in them.
  std::pair<Value, Value> normalise(Value x, ValueRange carried, SmallVector<Value> &next) {
    ValueRange before = carried.drop_back();
    Value acc = carried.back(), base, rescale;
    next.assign(before.begin(), before.end());
    StringRef maximum;
    for (auto [statistic, value] : llvm::zip(statistics(), next))
      if (statistic.getIsMax()) {
        maximum = maximum.empty() ? statistic.getName().getValue() : maximum;
        value = reduce((statistic.getName().getValue() + "_next").str(), tile::Reduction::Max, x, value);
      }
    if (!op.getBase().empty())
      base = mapByRegion((maximum + "_base").str(), rowType, op.getBase(), next);
    SmallVector<Value> read(before);
    read.push_back(base);
    if (!op.getRescale().empty())
      rescale = mapByRegion("alpha", rowType, op.getRescale(), base ? ValueRange(read) : before);
    // Before the exponentials: what follows then mixes special functions and products in one straight line.
    if (rescale)
      acc = times("acc", acc, rescale);
    Value p = mapByRegion("p", scoreType, op.getP(), base ? ValueRange{x, base} : ValueRange{x});
    for (auto [statistic, value] : llvm::zip(statistics(), next))
      if (!statistic.getIsMax()) {
        StringRef name = statistic.getName().getValue();
        value = reduce(name, tile::Reduction::Sum, p, rescale ? times(name, value, rescale) : value);
      }
    return {p, acc};
  }

  Value reduce(StringRef name, tile::Reduction kind, Value tile, Value init) {
    return tile::named(tile::ReduceOp::create(builder, loc, rowType, kind, tile, "k", init, false), name);
  }

  /// O and LSE from what the loop leaves, or that itself where other blocks have shares of the keys.
  void finish(ValueRange results, Value rowLength) {
    if (plan.getSplitKeys())
      return storeSplit(results, rowLength);
    ValueRange statistics = results.drop_back();
    const SmallVector<Value> place{b, rowHead, row0};
    Value out = results.back();
    if (Value inverse = inverseOf(statistics, op.getDropout() ? param("keep_scale", f32) : Value()))
      out = op.getDivisor().empty() ? scaledBy("out", out, inverse) : times("out", out, inverse);
    if (op.hasLse()) {
      Value lse = mapByRegion("lse", rowType, op.getLse(), statistics);
      tile::StoreOp::create(builder, loc, lse, rowsOf(param("lse", view(3, f32))), place, rowLength, true);
    }
    tile::StoreOp::create(builder, loc, out, rowsOf(param("o", view(4, op.getDtype()))), place, rowLength, false);
  }

  void storeSplit(ValueRange results, Value rowLength) {
    SmallVector<Value> place{b, rowHead, split, row0};
    if (workItems) {
      workItem = tile::named(tile::BlockIndexOp::create(builder, loc, i32, tile::workItemsAxis), tile::workItemsAxis);
      place = {workItem, rowHead, number(0)};
      rowLength = tile::named(arith::SubIOp::create(builder, loc, rowLength, row0), "rows_of_tile");
    }
    for (auto [operand, result] : llvm::zip(splitOperands(op, axes, workItems.has_value()), results))
      tile::StoreOp::create(builder, loc, result, param(operand.getName(), operand.getViewType()), place, rowLength,
                            /*optional=*/false);
  }

  attn::PlanAttr plan;
  tile::KernelOp kernel;
  int64_t depth, depthV;
  TileType rowType, scoreType, outType;
  RowAxes axes = plan.getPackGroups() ? RowAxes{"hkv", tile::rowsAxis} : RowAxes{};
  Value q0, keyLength;
  Value keysRead; ///< rows of K that are copied: what memory holds behind the keys may be among them, unlike of V
  Value
      valuesRead; ///< rows of V that are copied: those behind are zeros, whatever memory holds, as a product with 0 of NaN is NaN
  Value rowOrigin; ///< where the coordinate of a tile's rows begins: q0 with the query offset, or row0 of several heads
  Value rowHead;   ///< the head of the rows: of a query, or the key head of several
  Value split, splits; ///< of the keys; null where the block has all
  Uneven uneven = Uneven::No;
  std::optional<BlockRows> workItems;  ///< what a block works on, where blocks are pieces
  Value workItem;                      ///< the block's
  Value head, seed, offset, threshold; ///< of dropout
  Value savedDropout, savedScore;      ///< views; null where it is not saved
  BlockValues block;
  MaskSplit mask;
  bool testsTiles = false; ///< the domain's tiles are asked one by one
  SmallVector<BoundsTable> bounds;
  bool claims = false; ///< blocks that are free claim tiles of work
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
