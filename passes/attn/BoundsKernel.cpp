//===- BoundsKernel.cpp - Write the kernel that fills the per-tile tables of a mask ---===//
//
// A fixed number of thread blocks fills all tables. The work of a table is divided into groups of 8 consecutive
// entries, for each index of the table's other axes (batch, head). Every block takes the same number of consecutive
// groups:
//
//     ids[b, k], 128 keys an entry                           entries of group 0                   of group 1
//         batch 0    ids[0, 0:128]  ids[0, 128:256]  ...     ids.k[least | greatest, 0, 0:8]      ..., 8:16]
//
// The entries are the columns of a register tile. The rows of the tile are the queries or keys of an entry, split over
// all warps; two reductions over the rows, minimum and maximum, give the entries.
//
// For the table of a boolean condition that depends on both axes, the work is counted in single entries, one per (query
// tile, key tile): a loop counts for how many keys of each query the condition holds.
//
// For a table whose entries each cover a group of 32 tiles the work is counted in single entries, too. The columns of
// the register tile are then the 32 tiles of the group. The last block takes the first of this work, because the last
// blocks may have no entries of other tables to fill:
//
//     ids[b, k], 32 tiles of 128 keys an entry               entry 0
//         batch 0    ids[0, 0:4096]  ids[0, 4096:8192]  ...  ids.k_groups[least | greatest, 0, 0]
//
//===----------------------------------------------------------------------===//

#include "passes/attn/BoundsKernel.h"
#include "passes/analysis/score/MapPatterns.h"
#include "passes/attn/CloneRegion.h"

#include <algorithm>

using namespace mlir;
using namespace attune;
using tile::TileType;

tile::OperandAttr attune::workCounterOperand(MLIRContext *context) {
  const Builder builder(context);
  return tile::OperandAttr::get(context, StringAttr::get(context, tile::workCounter), OperandRole::Workspace, false,
                                {tile::AxisAttr::get(context, StringAttr::get(context, "counters"), 1, 1)},
                                IntegerType::get(context, 32));
}

namespace {

constexpr int64_t groupEntries = 8, warps = 8;

class BoundsKernelWriter {
public:
  BoundsKernelWriter(OpBuilder builder, attn::AttentionOp op, tile::KernelOp kernel)
      : builder(builder), loc(kernel.getLoc()), op(op), kernel(kernel), i32(builder.getI32Type()) {}

  tile::KernelOp write(ArrayRef<BoundsTable> tables) {
    // About as many thread blocks as run at a time. A table with an entry per (query tile, key tile) evaluates every
    // element, so more and shorter blocks balance the load better.
    splits = tables.empty() ? 1 : std::ranges::any_of(tables, &BoundsTable::isOfBoth) ? 2048 : 256;
    const std::string name = (kernel.getSymName() + (tables.empty() ? "_counter" : "_bounds")).str();
    MLIRContext *context = builder.getContext();
    builder.setInsertionPointAfter(kernel);
    auto split = tile::AxisAttr::get(context, builder.getStringAttr("split"), splits, 1);
    auto writer = tile::KernelOp::create(builder, loc, name, operands(tables), builder.getArrayAttr({split}),
                                         kernel.getDtype(), plan(), kernel.getTensorsAttr(), kernel.getScalarsAttr(),
                                         attn::BlockPatternAttr(), false, false, kernel.getQOffset());
    // All kernels of a launch must declare the same derived axis of keys (its extent is computed from the pages).
    if (Attribute derived = kernel->getAttr(tile::derivedAttr); derived && op.getKeyPagesAttr())
      writer->setAttr(tile::derivedAttr, derived);
    builder.createBlock(&writer.getBody());
    block = tile::named(tile::BlockIndexOp::create(builder, loc, i32, "split"), "split");
    if (tile::OperandAttr counter = tile::findOperand(kernel, tile::workCounter))
      resetCounter(counter);
    for (const BoundsTable &table : tables)
      fill(table);
    declareReads(writer, kernel);
    return writer;
  }

private:
  ArrayAttr operands(ArrayRef<BoundsTable> tables) {
    SmallVector<Attribute> declared;
    for (const BoundsTable &table : tables)
      declared.push_back(table.declaration());
    if (tile::OperandAttr counter = tile::findOperand(kernel, tile::workCounter))
      declared.push_back(counter);
    return builder.getArrayAttr(declared);
  }

  tile::PlanAttr plan() { return tile::PlanAttr::make(builder.getContext(), {}, warps, /*blocksPerSm=*/1); }

  Value number(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b, arith::IntegerOverflowFlags::nsw); }
  Value subtract(Value a, Value b) {
    return arith::SubIOp::create(builder, loc, a, b, arith::IntegerOverflowFlags::nsw);
  }
  Value multiply(Value a, Value b) {
    return arith::MulIOp::create(builder, loc, a, b, arith::IntegerOverflowFlags::nsw);
  }
  Value divide(Value a, Value b) { return arith::DivSIOp::create(builder, loc, a, b); }
  Value least(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
  /// ceil(a / by)
  Value divideUp(Value a, int64_t by) { return divide(add(a, number(by - 1)), number(by)); }
  Value extent(StringRef axis) { return tile::named(tile::AxisExtentOp::create(builder, loc, i32, axis), axis); }
  Value view(StringRef name, Type type) { return tile::named(tile::ParamOp::create(builder, loc, type, name), name); }
  TileType registers(std::initializer_list<std::pair<StringRef, int64_t>> axes, Type element) {
    return TileType::make(builder.getContext(), axes, element, tile::MemorySpace::Register);
  }

  /// Resets the work counter. The first thread block stores the counter's one element; all other blocks have the limit
  /// 0 and store nothing.
  void resetCounter(tile::OperandAttr counter) {
    Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, block, number(0));
    Value limit = arith::ExtUIOp::create(builder, loc, i32, isFirst);
    Value zero = tile::SplatOp::create(builder, loc, registers({{"counters", groupEntries}}, i32), number(0));
    tile::StoreOp::create(builder, loc, zero, view(tile::workCounter, counter.getViewType()), ValueRange{number(0)},
                          limit,
                          /*optional=*/false);
  }

  /// Writes a loop over the thread block's part of the work items; all blocks get parts of the same size. If
  /// `reversed`, the last block gets the first part. `body` gets the index of a work item.
  void forSplit(Value workItems, bool reversed, function_ref<void(Value)> body) {
    Value place = reversed ? subtract(number(splits - 1), block) : block;
    Value each = tile::named(divideUp(workItems, splits), "each"), first = multiply(place, each);
    Value begin = tile::named(least(first, workItems), "first_group"),
          end = tile::named(least(add(begin, each), workItems), "end_group");
    Value domain = tile::DomainOp::create(builder, loc, "group", 1, begin, end);
    auto loop = tile::ForBlocksOp::create(builder, loc, domain, ValueRange(), ValueRange());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&loop.getBody().front());
    body(loop.getOrigin());
    tile::YieldOp::create(builder, loc);
  }

  void fill(const BoundsTable &table) {
    // With `isAlone` a work item of a thread block is one table entry, otherwise a group of 8 consecutive entries.
    const bool isOfGroups = table.tiles > 1, isAlone = table.isOfBoth() || isOfGroups;
    Value entries = view(table.name, table.declaration().getViewType());
    Value count = tilesOf(table.keys ? "k" : "q", table.keys ? table.keys : table.queries, isOfGroups),
          groups = isAlone ? count : tile::named(divideUp(count, groupEntries), "groups"), workItems = groups;
    SmallVector<Value> extents; // extents of the table's other axes
    if (table.byBatch)
      extents.push_back(extent("b"));
    if (table.byHead)
      extents.push_back(extent("h"));
    if (table.isOfBoth())
      extents.push_back(tilesOf("q", table.queries));
    for (Value extent : extents)
      workItems = multiply(workItems, extent);
    forSplit(workItems, isOfGroups, [&](Value workItem) {
      Value group = remainder(workItem, groups), rest = divide(workItem, groups);
      SmallVector<Value> others(extents.size());
      for (size_t i = extents.size(); i-- > 0; rest = i ? divide(rest, extents[i]) : rest)
        others[i] = i ? remainder(rest, extents[i]) : rest;
      Value first = isAlone ? group : tile::named(multiply(group, number(groupEntries)), "first_entry");
      auto [least, greatest] = table.isOfBoth() ? endsOfBoth(table, others, group) : ends(table, others, first);
      Value limit = isAlone ? add(group, number(1)) : count;
      for (bool isGreatest : {false, true}) {
        SmallVector<Value> at = {number(isGreatest)};
        llvm::append_range(at, others);
        at.push_back(first);
        tile::StoreOp::create(builder, loc, isGreatest ? greatest : least, entries, at, limit, /*optional=*/false);
      }
    });
  }

  /// The number of tiles of `size` queries or keys that cover `axis`; `areGroups` if each is a group of 32 kernel
  /// tiles.
  Value tilesOf(StringRef axis, int64_t size, bool areGroups = false) {
    return tile::named(divideUp(extent(axis), size), (axis + (areGroups ? "_groups" : "_tiles")).str());
  }

  /// The least and the greatest value, for each table entry of a work item, of the expression that the table bounds.
  /// `first` is the first entry, `others` are the indices of the table's other axes.
  std::pair<Value, Value> ends(const BoundsTable &table, ArrayRef<Value> others, Value first) {
    const Type element = table.declaration().getElementType();
    const bool isOfGroups = table.tiles > 1;
    const TileType type =
        registers({{"row", heightOf(table)}, {"entry", isOfGroups ? table.tiles : groupEntries}}, element);
    Value elements = read(table, type, others, isOfGroups ? multiply(first, number(table.tiles)) : first);
    auto end = [&](tile::Reduction kind, StringRef name) {
      Value from = elements;
      if (auto ofFloats = dyn_cast<FloatType>(element))
        from = createMap(builder, loc, name, type, elements, [&](ValueRange x) -> Value {
          Value isNumber = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::ORD, x[0], x[0]);
          Value infinity =
              arith::ConstantOp::create(builder, loc,
                                        builder.getFloatAttr(ofFloats, APFloat::getInf(ofFloats.getFloatSemantics(),
                                                                                       kind == tile::Reduction::Min)));
          return arith::SelectOp::create(builder, loc, isNumber, x[0], infinity);
        });
      if (isOfGroups)
        from = beside(reduce(kind, from, "entry", name), name);
      return reduce(kind, from, "row", name);
    };
    Value least = end(tile::Reduction::Min, "least");
    return {least, end(tile::Reduction::Max, "greatest")};
  }

  /// Whether the table's condition holds for all elements of a tile of queries and keys, and whether it holds for any.
  std::pair<Value, Value> endsOfBoth(const BoundsTable &table, ArrayRef<Value> others, Value tile) {
    const int64_t keys = table.keys % 32 ? 16 : 32, height = heightOf(table); // keys per iteration
    const TileType type = registers({{"row", height}, {"key", keys}}, i32);
    Value none = tile::named(tile::SplatOp::create(builder, loc, type, number(0)), "holds");
    Value domain = tile::DomainOp::create(builder, loc, "key", keys, number(0), number(table.keys / keys));
    auto loop = tile::ForBlocksOp::create(builder, loc, domain, ValueRange(), none);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&loop.getBody().front());
      Value elements = read(table, type, others, add(multiply(tile, number(table.keys)), loop.getOrigin()));
      Value holds = createMap(builder, loc, "holds", type, ValueRange{loop.getCarried()[0], elements},
                              [&](ValueRange x) -> Value { return add(x[0], x[1]); });
      tile::YieldOp::create(builder, loc, holds);
    }
    Value ofRows = beside(reduce(tile::Reduction::Sum, loop.getResult(0), "key", "keys_of_row"), "keys_of_row");
    auto flag = [&](tile::Reduction kind, StringRef name, int64_t of) {
      Value end = reduce(kind, ofRows, "row", name);
      return createMap(builder, loc, name, end.getType(), end, [&](ValueRange x) -> Value {
        Value holds = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, x[0], number(of));
        return arith::ExtUIOp::create(builder, loc, i32, holds);
      });
    };
    Value all = flag(tile::Reduction::Min, "all", table.keys);
    return {all, flag(tile::Reduction::Max, "any", 1)};
  }

  /// Reduces a tile along one of its two axes.
  Value reduce(tile::Reduction kind, Value elements, StringRef along, StringRef name) {
    const auto type = cast<TileType>(elements.getType());
    const StringRef kept = type.axis(type.axis(0) == along);
    const TileType vector = registers({{kept, type.size(kept)}}, type.getElementType());
    return tile::named(tile::ReduceOp::create(builder, loc, vector, kind, elements, along, Value(), /*per_lane=*/false),
                       name);
  }

  /// Broadcasts a vector with an element per row to the number of columns that a store writes.
  Value beside(Value ofRow, StringRef name) {
    const auto type = cast<TileType>(ofRow.getType());
    return createMap(builder, loc, name,
                     registers({{"row", type.size("row")}, {"entry", groupEntries}}, type.getElementType()), ofRow,
                     [&](ValueRange x) -> Value { return x[0]; });
  }

  Value remainder(Value a, Value b) { return arith::RemSIOp::create(builder, loc, a, b); }

  /// rowsOf is the number of queries or keys that one entry of a bounds table covers. heightOf rounds that number up to
  /// a tile height that the warps can split.
  static int64_t rowsOf(const BoundsTable &table) { return (table.queries ? table.queries : table.keys) / table.tiles; }
  static int64_t heightOf(const BoundsTable &table) {
    const int64_t shared = warps * 16, rows = rowsOf(table);
    return rows > shared ? llvm::alignTo(rows, shared) : std::max<int64_t>(llvm::PowerOf2Ceil(rows), 16);
  }

  /// Evaluates the expression that the table bounds, as a register tile. The columns of the tile are: for a table of
  /// one axis, the table's entries from entry `first` on; if an entry covers a group of tiles, the tiles of the group;
  /// for a table of both axes, the keys from key `first` on. Rows past the entry's last row or past the end of the
  /// sequence repeat the last valid row.
  Value read(const BoundsTable &table, TileType type, ArrayRef<Value> others, Value first) {
    const int64_t rows = rowsOf(table);
    Value zero = number(0), queries = table.queries ? subtract(extent("q"), number(1)) : Value(),
          keys = table.keys ? subtract(extent("k"), number(1)) : Value(),
          offset = table.queries && kernel.getQOffset() ? view("q_offset", i32) : Value();
    const StringRef columns = type.axis(1);
    auto map = tile::MapOp::create(builder, loc, type, {}, {{"row", zero}, {columns, first}});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    Value own = map.getCoordinate("row"), column = map.getCoordinate(columns);
    if (heightOf(table) > rows)
      own = least(own, number(rows - 1));
    auto ofTile = [&](Value tile) { return add(multiply(tile, number(rows)), own); };
    IRMapping mapping;
    Block &region = op.getMask().front();
    const bool isOfBoth = table.isOfBoth();
    if (table.byBatch)
      mapping.map(region.getArgument(0), others.front());
    if (table.byHead)
      mapping.map(region.getArgument(1), others[table.byBatch]);
    if (table.queries) {
      Value q = least(ofTile(isOfBoth ? others.back() : column), queries);
      mapping.map(region.getArgument(2), offset ? add(q, offset) : q);
    }
    if (table.keys)
      mapping.map(region.getArgument(3), least(isOfBoth ? column : ofTile(column), keys));
    Value value = cloneFromRegion(builder, op, table.value, mapping);
    if (value.getType().isInteger(1))
      value = arith::ExtUIOp::create(builder, loc, type.getElementType(), value);
    tile::YieldOp::create(builder, loc, value);
    return tile::named(map.getResult(), StringRef(table.name).take_until([](char c) { return c == '.'; }));
  }

  OpBuilder builder;
  Location loc;
  attn::AttentionOp op;
  tile::KernelOp kernel;
  Type i32;
  int64_t splits = 0;
  Value block;
};

} // namespace

tile::KernelOp attune::writeBoundsKernel(OpBuilder builder, attn::AttentionOp op, tile::KernelOp kernel,
                                         ArrayRef<BoundsTable> tables) {
  return BoundsKernelWriter(builder, op, kernel).write(tables);
}

void attune::writeLaunch(OpBuilder builder, ArrayRef<tile::KernelOp> kernels) {
  if (kernels.size() == 1)
    return;
  SmallVector<Attribute> symbols;
  SmallVector<bool> dependent;
  for (tile::KernelOp kernel : kernels) {
    dependent.push_back(!symbols.empty());
    symbols.push_back(FlatSymbolRefAttr::get(kernel.getSymNameAttr()));
  }
  tile::LaunchOp::create(builder, tile::KernelOp(kernels.front()).getLoc(), StringAttr(), builder.getArrayAttr(symbols),
                         builder.getDenseBoolArrayAttr(dependent));
}
