//===- Domain.cpp - Builds the tile.domain and the row cuts of a mask -----===//

#include "ir/NestedOps.h"
#include "passes/analysis/dataflow/Dependences.h"
#include "passes/analysis/mask/Visibility.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

/// Moves ops of the domain's regions, which test a tile or a group of tiles, to before the domain if the ops do not
/// depend on the index of the tile or group.
static void hoistFromRegions(tile::DomainOp domain) {
  for (Region &region : domain->getRegions())
    for (Block &body : region)
      for (Operation &op : llvm::make_early_inc_range(body.without_terminator()))
        if (llvm::none_of(op.getOperands(), [&](Value operand) { return operand.getParentBlock() == &body; }))
          op.moveBefore(domain);
}

/// Erases the ops among `ops`, listed in program order, whose results are unused.
static void eraseDead(ArrayRef<Operation *> ops) {
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

/// Classifies the mask's conjuncts by which keys (or queries) each leaves visible to a single row.
static Visibility::RowConjuncts rowConjuncts(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values) {
  // The analysis of a row emits IR that nothing uses; the scratch region discards that IR.
  OpBuilder::InsertionGuard guard(builder);
  Region scratch;
  Value index = builder.createBlock(&scratch, {}, builder.getI32Type(), op.getLoc())->getArgument(0);
  return Visibility(op, builder, values.atRow(index)).rowConjuncts();
}

/// The text " at NAME:LINE:COLUMN" for an error or remark; empty if the location is unknown.
static std::string placeOf(Location loc) {
  auto place = loc->findInstanceOf<FileLineColLoc>();
  if (!place)
    return "";
  return (" at " + place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" + Twine(place.getColumn()))
      .str();
}

static bool isSomewhereFull(const VisitedPart &part) {
  return !(part.fullBegin == part.fullEnd) && !(part.fullBegin == part.end);
}

/// How many conditions that depend on both q and k the bounds kernel, which runs before the attention kernel, may
/// evaluate for every pair (q, k). Each condition costs a loop over all pairs and a table in global memory.
static constexpr size_t mostCounted = 8;

namespace {

/// Writes one tile.domain: the ends of its segments (ranges of tiles), the `where` region that tests a tile, and the
/// `groups` region that tests 32 tiles.
class DomainWriter {
public:
  DomainWriter(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values)
      : builder(builder), op(op), loc(op.getLoc()), values(values), analysis(op, builder, values, &tables) {}

  tile::DomainOp write(FullBy fullBy) {
    const Visibility::RowConjuncts ofRow = rowConjuncts(builder, op, values);
    chooseByTile(ofRow.loose);
    // With FullBy::Rest, a tile in which only cuts (conditions that end each row's keys at one side, as q >= k) mask
    // elements counts as full, because each cut is applied by a tile.map with a condition of its own.
    const std::vector<VisitedPart> parts = fullBy == FullBy::Rest ? analysis.tilesBy(ofRow.rest, false)
                                           : analysis.judgedByTile().empty()
                                               ? analysis.tiles()
                                               : analysis.tilesBy(analysis.conjuncts(), true);
    hasFull = llvm::any_of(parts, isSomewhereFull);
    // writeWhere() comes before writeSegments(), which reads `hasFull`: writeWhere() clears `hasFull` if the `where`
    // region never finds a full tile, so that no segment is full.
    writeWhere();
    for (const VisitedPart &part : parts)
      writeSegments(part);
    auto domain = tile::DomainOp::create(builder, loc, tile::DomainType::get(op.getContext()),
                                         builder.getStringAttr(analysis.getLooped().name()),
                                         builder.getI64IntegerAttr(analysis.getLooped().tile), begins, ends,
                                         /*times=*/Value(), builder.getDenseBoolArrayAttr(kinds),
                                         /*reverse=*/UnitAttr());
    domain.getWhere().takeBody(where);
    domain.getGroups().takeBody(groups);
    if (analysis.lacksTables)
      remarks.push_back("tiles have bounds of " + std::to_string(Visibility::mostTables) +
                        " values of the mask, which is the most; conditions of others leave out no tile");
    if (Operation *kernel = tile::kernelAround(domain))
      for (const std::string &remark : remarks)
        tile::remark(kernel, remark);
    hoistFromRegions(domain);
    return domain;
  }

  SmallVector<BoundsTable> tables;

private:
  /// Creates the entry block of a region of the domain. The region's arguments are the tile index and, if the domain is
  /// repeated for each head of a GQA group, the number of the repetition. Returns the tile index, and `values` with h
  /// set to the repetition's head.
  std::pair<Value, BlockValues> ask(Region &region, BlockValues values) {
    Value index = builder.createBlock(&region, {}, builder.getI32Type(), loc)->getArgument(0);
    if (values.firstHead) {
      Value iteration = region.addArgument(builder.getI32Type(), loc);
      values.h = tile::named(arith::AddIOp::create(builder, loc, values.firstHead, iteration), "h");
    }
    return {index, values};
  }

  /// Chooses the conjuncts that the `where` region tests for each tile. `loose` are the conjuncts that intervals of a
  /// row do not describe exactly; chosen are those of them whose test can skip tiles.
  void chooseByTile(ArrayRef<Conjunct> loose) {
    OpBuilder::InsertionGuard guard(builder);
    Region scratch;
    const auto [tile, ofIteration] = ask(scratch, values);
    SmallVector<BoundsTable> tablesOfScratch;
    Visibility probe(op, builder, ofIteration, &tablesOfScratch, tile);
    SmallVector<Value> counted, byPart;
    auto asks = [&](const Conjunct &conjunct) {
      if (probe.isBestByPart(conjunct)) {
        byPart.push_back(conjunct.first);
        return true;
      }
      Visibility::Unfollowed unfollowed = probe.unfollowed(conjunct);
      const std::string condition = "the condition" + placeOf(conjunct.first.getLoc());
      auto skipsNone = [&](const Twine &why) { remarks.push_back((condition + " leaves out no tile: " + why).str()); };
      if (unfollowed == Visibility::Unfollowed::HidesSome && counted.size() == mostCounted) {
        skipsNone("a kernel in front evaluates " + Twine(mostCounted) + " others already, which is the most");
        unfollowed = Visibility::Unfollowed::Untried;
      } else if (unfollowed == Visibility::Unfollowed::Untried) {
        skipsNone("the mask is too large to try elements of this one, too");
      } else if (unfollowed == Visibility::Unfollowed::HidesNone) {
        skipsNone("of a few, each has elements for which it holds");
      } else if (unfollowed == Visibility::Unfollowed::HidesFew) {
        skipsNone("it holds for all but a few, which are visited");
      }
      if (unfollowed != Visibility::Unfollowed::HidesSome)
        return analysis.dependsOnIteration(conjunct) ? probe.decidesByTile(conjunct) : probe.skipsByTile(conjunct);
      remarks.push_back(condition + " is of queries and keys in a way that intervals do not follow: a kernel in front "
                                    "evaluates each of its elements and keeps, for each tile, whether it holds for any "
                                    "and for all");
      counted.push_back(conjunct.first);
      return true;
    };
    SmallVector<Conjunct> asked;
    for (const Conjunct &conjunct : loose)
      if (asks(conjunct))
        asked.push_back(conjunct);
    analysis.judgeByTile(std::move(asked), std::move(counted), std::move(byPart));
    analysis.lacksTables |= probe.lacksTables;
  }

  void writeWhere() {
    attn::BlockPatternAttr pattern = op.getPatternAttr();
    bool byTile = !analysis.judgedByTile().empty();
    if (!byTile && !pattern)
      return;
    OpBuilder::InsertionGuard guard(builder);
    Value visible, full;
    const auto [tile, ofIteration] = ask(where, values);
    if (byTile) {
      Visibility ofTile(op, builder, ofIteration, &tables, tile);
      ofTile.judgeByTile(llvm::to_vector(analysis.judgedByTile()), llvm::to_vector(analysis.countedByTile()),
                         llvm::to_vector(analysis.computedByPart()));
      Verdict verdict = ofTile.verdict();
      analysis.lacksTables |= ofTile.lacksTables;
      visible = ofTile.toI1(verdict.possible);
      full = ofTile.toI1(verdict.certain);
    } else {
      visible = full = arith::ConstantIntOp::create(builder, loc, 1, 1);
    }
    if (pattern)
      visible = builder.createOrFold<arith::AndIOp>(loc, touchesPattern(pattern, tile, ofIteration.h), visible);
    hasFull &= !matchPattern(full, m_Zero());
    if (matchPattern(visible, m_One()) && !hasFull)
      return where.getBlocks().clear();
    tile::YieldOp::create(builder, loc, ValueRange{visible, full});
    writeGroups();
  }

  /// Writes the `groups` region, which tests a group of 32 tiles at once. The region contains the conditions that read
  /// per-tile tables of the looped axis, which also have an entry for each group. Tables over both axes have no entries
  /// for groups, and conditions without table reads are cheap to test for each tile.
  void writeGroups() {
    if (values.part)
      return;
    const auto [group, ofIteration] = ask(groups, values.byGroups());
    Visibility ofGroup(op, builder, ofIteration, &tables, group);
    const SmallVector<Conjunct> asked = llvm::filter_to_vector(analysis.judgedByTile(), [&](const Conjunct &conjunct) {
      return !llvm::is_contained(analysis.countedByTile(), conjunct.first) && ofGroup.testsTiles(conjunct);
    });
    Value visible = ofGroup.toI1(ofGroup.verdictOf(asked).possible);
    if (matchPattern(visible, m_One()))
      groups.getBlocks().clear();
    else
      tile::YieldOp::create(builder, loc, visible);
  }

  Value touchesPattern(attn::BlockPatternAttr pattern, Value tile, Value h) {
    attn::CapturedTensorAttr tensor = op.findTensor(pattern.getName());
    Value view = tile::readTensor(builder, loc, tensor);
    SmallVector<Value> indices;
    if (tensor.getRank() == 3)
      indices.push_back(h);
    Value step = arith::ConstantIntOp::create(builder, loc, analysis.getLooped().tile, 32);
    Value looped = arith::MulIOp::create(builder, loc, tile, step, arith::IntegerOverflowFlags::nsw);
    indices.append({values.q0 ? values.q0 : looped, values.k0 ? values.k0 : looped});
    return tile::TouchesOp::create(builder, loc, builder.getI1Type(), view, indices, values.tileQ, values.tileK,
                                   pattern.getRows(), pattern.getColumns());
  }

  void writeSegments(const VisitedPart &part) {
    auto &[begin, fullBegin, fullEnd, end] = part;
    auto segment = [&](const Linear &from, StringRef fromName, const Linear &to, StringRef toName, bool isFull) {
      begins.push_back(analysis.toI32(from, fromName));
      ends.push_back(analysis.toI32(to, toName));
      kinds.push_back(isFull);
    };
    if (!hasFull || !isSomewhereFull(part)) {
      segment(begin, "tiles_begin", end, "tiles_end", false);
      return;
    }
    if (!(begin == fullBegin))
      segment(begin, "tiles_begin", fullBegin, "full_begin", false);
    segment(fullBegin, begin == fullBegin ? "tiles_begin" : "full_begin", fullEnd,
            fullEnd == end ? "tiles_end" : "full_end", true);
    if (!(fullEnd == end))
      segment(fullEnd, "full_end", end, "tiles_end", false);
  }

  OpBuilder &builder;
  attn::AttentionOp op;
  Location loc;
  const BlockValues &values;
  Visibility analysis;
  bool hasFull = false;
  SmallVector<std::string> remarks;
  Region where, groups;
  SmallVector<Value> begins, ends;
  SmallVector<bool> kinds;
};

} // namespace

Value attune::buildDomain(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds,
                          FullBy fullBy) {
  Block *block = builder.getInsertionBlock();
  Operation *before =
      builder.getInsertionPoint() == block->begin() ? nullptr : &*std::prev(builder.getInsertionPoint());
  DomainWriter writer(builder, op, values);
  tile::DomainOp domain = writer.write(fullBy);

  // Folding can leave reads of per-tile tables unused. Dead reads are erased, and only tables that are still read are
  // added to `bounds`.
  SmallVector<Operation *> made;
  for (Operation &op :
       llvm::make_range(before ? std::next(Block::iterator(before)) : block->begin(), Block::iterator(domain)))
    made.push_back(&op);
  for (Region &region : domain->getRegions())
    for (Block &body : region)
      for (Operation &op : body.without_terminator())
        made.push_back(&op);
  eraseDead(made);
  for (Region &region : domain->getRegions())
    if (region.getNumArguments() > 1 && region.getArgument(1).use_empty())
      region.front().eraseArgument(1);
  llvm::copy_if(writer.tables, std::back_inserter(bounds), [&](const BoundsTable &table) {
    return !llvm::is_contained(bounds, table) &&
           holds<tile::ParamOp>(*block, [&](tile::ParamOp param) { return param.getName() == table.name; });
  });
  return domain;
}

namespace {
/// An IR block outside of any kernel. The block's arguments are the BlockValues for an analysis of a tile of queries.
struct ScratchBlock {
  ScratchBlock(attn::AttentionOp op, int64_t tileQ, int64_t tileK) : builder(op.getContext()), loc(op.getLoc()) {
    block = builder.createBlock(&region);
    for (Value *value : {&values.b, &values.h, &values.q0, &values.B, &values.H, &values.Sq, &values.Sk})
      *value = addArgument();
    if (op.getQOffset())
      values.qOffset = addArgument();
    values.tileQ = tileQ;
    values.tileK = tileK;
  }
  Value addArgument() { return block->addArgument(builder.getI32Type(), loc); }

  OpBuilder builder;
  Location loc;
  Region region;
  Block *block;
  BlockValues values;
};
} // namespace

/// Returns `values` with `looped` as the looped axis and a tile that begins at `anyTile` as the fixed tile. The results
/// of the callers do not depend on which tile is fixed.
static BlockValues loopingOver(MaskAxis looped, BlockValues values, Value anyTile) {
  values.q0 = looped == MaskAxis::Keys ? anyTile : Value();
  values.k0 = looped == MaskAxis::Keys ? Value() : anyTile;
  return values;
}

Value attune::emitEndOf(OpBuilder &builder, attn::AttentionOp op, BlockValues values, MaskAxis axis) {
  if (!hasEndOf(op, axis))
    return {};
  Value anyTile = values.first() ? values.first() : arith::ConstantIntOp::create(builder, op.getLoc(), 0, 32);
  Visibility analysis(op, builder, loopingOver(axis, values, anyTile));
  const std::optional<Linear> end = analysis.endForAll();
  return end ? analysis.toI32(*end, axis == MaskAxis::Keys ? "keys_end" : "queries_end") : Value();
}

bool attune::hasEndOf(attn::AttentionOp op, MaskAxis axis) {
  ScratchBlock scratch(op, 128, 128);
  return Visibility(op, scratch.builder, loopingOver(axis, scratch.values, scratch.values.q0)).endForAll().has_value();
}

bool attune::endsByHead(attn::AttentionOp op, MaskAxis axis) {
  ScratchBlock scratch(op, 128, 128);
  const Value end = emitEndOf(scratch.builder, op, scratch.values, axis);
  return end && (end == scratch.values.h || followsFrom(end, [&](Operation *op) {
                   return llvm::is_contained(op->getOperands(), scratch.values.h);
                 }));
}

bool attune::countsTiles(attn::AttentionOp op) {
  ScratchBlock scratch(op, 128, 128);
  const SmallVector<Conjunct> loose = rowConjuncts(scratch.builder, op, scratch.values).loose;
  SmallVector<BoundsTable> tables;
  Visibility probe(op, scratch.builder, scratch.values, &tables, scratch.addArgument());
  return llvm::any_of(loose, [&](const Conjunct &conjunct) {
    return !probe.isBestByPart(conjunct) && probe.unfollowed(conjunct) == Visibility::Unfollowed::HidesSome;
  });
}

LoopShape attune::loopShape(attn::AttentionOp op, int64_t tileQ, int64_t tileK) {
  ScratchBlock scratch(op, tileQ, tileK);
  SmallVector<BoundsTable> tables;
  auto domain = buildDomain(scratch.builder, op, scratch.values, tables).getDefiningOp<tile::DomainOp>();
  splitMask(scratch.builder, op, scratch.values, tables);
  return {domain.skips(), !scratch.values.b.use_empty(), !scratch.values.h.use_empty()};
}

SmallVector<Value, 2> attune::emitHull(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values) {
  Location loc = op.getLoc();
  Visibility analysis(op, builder, values);
  const std::vector<VisitedPart> parts = analysis.tiles();
  Value first = analysis.toI32(parts.front().begin, "own_begin"),
        last = analysis.toI32(parts.back().end, "visible_end");
  auto followsRows = [&](Value tile) {
    return followsFrom(tile, [&](Operation *op) { return op == values.first().getDefiningOp(); });
  };
  if (!followsRows(first) && !followsRows(last))
    return {};
  Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, values.first(), values.count());
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  return {first, tile::named(arith::SelectOp::create(builder, loc, exists, last, zero), "own_end")};
}

/// Ranges of looped indices in which the conjuncts `rest` mask nothing of one warpgroup's rows: every tile that begins
/// in one of these ranges is full for the warpgroup, although the tile may be partial for the thread block. No per-tile
/// tables are read.
static SmallVector<std::pair<Value, Value>> fullPositions(OpBuilder &builder, attn::AttentionOp op,
                                                          const BlockValues &values, ArrayRef<Conjunct> rest) {
  SmallVector<std::pair<Value, Value>> full;
  if (rest.empty())
    return full;
  Visibility analysis(op, builder, values);
  auto position = [&](const Linear &tile, StringRef name) {
    Value size = arith::ConstantIntOp::create(builder, op.getLoc(), analysis.getLooped().tile, 32);
    Value index = analysis.toI32(tile, "own_full_tile");
    return tile::named(
        Value(arith::MulIOp::create(builder, op.getLoc(), index, size, arith::IntegerOverflowFlags::nsw)), name);
  };
  for (const VisitedPart &part : analysis.tilesBy(rest, false))
    if (isSomewhereFull(part))
      full.push_back({position(part.fullBegin, "own_full_from"), position(part.fullEnd, "own_full_to")});
  return full;
}

MaskSplit attune::splitMask(OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds) {
  Visibility::RowConjuncts ofRow = rowConjuncts(builder, op, values);
  MaskSplit split;
  SmallVector<BoundsTable> tables;
  Visibility analysis(op, builder, values, &tables);
  auto add = [&](ArrayRef<Conjunct> conjuncts, bool begins, bool ends) {
    Interval full = analysis.fullInterval(conjuncts);
    full = begins == ends ? analysis.withBothEnds(full) : analysis.withOneEnd(full, begins);
    // Each end of a row's visible interval is a cut, a condition with a tile.map of its own: for one tile.map that
    // compares both ends, the device compiler uses an additional register for each element.
    if (begins)
      split.cuts.push_back({llvm::to_vector(conjuncts), analysis.beginOf(full, "full_from"), {}});
    if (ends)
      split.cuts.push_back({llvm::to_vector(conjuncts), {}, analysis.endOf(full, "full_to")});
  };
  // There is always a cut (a condition with a tile.map of its own) for the upper end of each row's visible interval,
  // because the looped axis ends for every row.
  add(ofRow.upper, false, true);
  if (!ofRow.lower.empty())
    add(ofRow.lower, true, false);
  if (!ofRow.both.empty())
    add(ofRow.both, true, true);
  for (const BoundsTable &table : tables)
    if (!llvm::is_contained(bounds, table))
      bounds.push_back(table);
  if (values.part)
    split.full = fullPositions(builder, op, values, ofRow.rest);
  split.rest = llvm::filter_to_vector(
      ofRow.rest, [&](const Conjunct &conjunct) { return !llvm::is_contained(ofRow.unions, conjunct); });
  split.unions = std::move(ofRow.unions);
  return split;
}

namespace {
/// Compares a column of the looped tile that begins at index `origin` with the begin or the end of a row's interval.
class ColumnComparisons {
public:
  ColumnComparisons(OpBuilder &builder, Location loc, Visibility &analysis, Value origin, Value column)
      : builder(builder), loc(loc), analysis(analysis), origin(origin), column(column) {}

  Value isBelow(const Interval &interval) {
    return compare(arith::CmpIPredicate::slt, analysis.endOf(interval, "row_end"));
  }
  Value isFrom(const Interval &interval) {
    return compare(arith::CmpIPredicate::sge, analysis.beginOf(interval, "row_begin"));
  }

private:
  Value compare(arith::CmpIPredicate predicate, Value end) {
    auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    // The interval's end as a column of the tile, clamped to [0, tile].
    Value columns = arith::SubIOp::create(builder, loc, end, origin, arith::IntegerOverflowFlags::nsw);
    columns = arith::MinSIOp::create(builder, loc, columns, constant(analysis.getLooped().tile));
    columns = arith::MaxSIOp::create(builder, loc, columns, constant(0));
    return arith::CmpIOp::create(builder, loc, predicate, column, columns);
  }

  OpBuilder &builder;
  Location loc;
  Visibility &analysis;
  Value origin, column;
};
} // namespace

Value attune::emitCut(OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const MaskCut &cut,
                      Value origin, Value column) {
  assert((row.k0 ? row.tileK : row.tileQ) == 1 && "one row");
  Visibility analysis(op, builder, row);
  const Interval interval = analysis.fullInterval(cut.conjuncts);
  Location loc = cut.conjuncts.empty() ? op.getLoc() : cut.conjuncts.front().first.getLoc();
  ColumnComparisons columns(builder, loc, analysis, origin, column);
  return cut.fullEnd ? columns.isBelow(interval) : columns.isFrom(interval);
}

Value attune::emitUnion(OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const Conjunct &conjunct,
                        Value origin, Value column) {
  assert((row.k0 ? row.tileK : row.tileQ) == 1 && "one row");
  Visibility analysis(op, builder, row);
  Location loc = conjunct.first.getLoc();
  ColumnComparisons columns(builder, loc, analysis, origin, column);
  Value seen;
  for (const Interval &interval : analysis.hullOfConjunct(conjunct)) {
    Value within;
    if (interval.lo)
      within = columns.isFrom(interval);
    if (interval.hi || !interval.lo) {
      Value below = columns.isBelow(interval);
      within = within ? Value(arith::AndIOp::create(builder, loc, within, below)) : below;
    }
    seen = seen ? Value(arith::OrIOp::create(builder, loc, seen, within)) : within;
  }
  assert(seen && "several intervals");
  return seen;
}

bool attune::patternNeedsElementMask(attn::AttentionOp op, int64_t tileQ, int64_t tileK) {
  attn::BlockPatternAttr pattern = op.getPatternAttr();
  return pattern && (pattern.getRows() % tileQ != 0 || pattern.getColumns() % tileK != 0);
}

Value attune::emitPatternLookup(OpBuilder &builder, Value view, Value h, Value q, Value k,
                                attn::BlockPatternAttr pattern) {
  Location loc = view.getLoc();
  SmallVector<Value> indices;
  if (cast<tile::ViewType>(view.getType()).getRank() == 3)
    indices.push_back(h);
  for (auto [coordinate, size] : {std::pair(q, pattern.getRows()), std::pair(k, pattern.getColumns())}) {
    Value divisor = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(size));
    indices.push_back(arith::DivSIOp::create(builder, loc, coordinate, divisor));
  }
  return tile::ElementOp::create(builder, loc, builder.getI1Type(), view, indices,
                                 SmallVector<bool>(indices.size(), false));
}
