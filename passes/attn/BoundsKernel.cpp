//===- BoundsKernel.cpp - The kernel that fills tables of bounds -------------===//
//
// A fixed number of blocks share all tables. The work of a table is counted in groups of 8 entries that lie side by
// side, under each index of the tensor's other dimensions; a block takes as many groups that follow each other as any
// other block:
//
//     ids [B, S], 128 rows an entry                         entries of group 0                   of group 1
//         batch 0    ids[0, 0:128]  ids[0, 128:256]  ...    ids.k[least | greatest, 0, 0:8]      ..., 8:16]
//
// The entries are the columns of a tile, whose rows are the rows that an entry stands for and which all warps share:
// two reductions over the rows give the entries.
//
//===----------------------------------------------------------------------===//

#include "passes/attn/BoundsKernel.h"

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

constexpr int64_t shares = 256, groupEntries = 8, warps = 8;

class BoundsKernelWriter {
public:
  BoundsKernelWriter(OpBuilder builder, tile::KernelOp kernel)
      : builder(builder), loc(kernel.getLoc()), kernel(kernel), i32(builder.getI32Type()) {}

  void write(ArrayRef<BoundsTable> tables) {
    builder.setInsertionPoint(kernel);
    const std::string name = (kernel.getSymName() + "_bounds").str();
    MLIRContext *context = builder.getContext();
    tile::LaunchOp::create(
        builder, loc, StringAttr(),
        builder.getArrayAttr({FlatSymbolRefAttr::get(context, name), FlatSymbolRefAttr::get(kernel.getSymNameAttr())}),
        builder.getDenseBoolArrayAttr({false, true}));
    builder.setInsertionPointAfter(kernel);
    auto share = tile::AxisAttr::get(context, builder.getStringAttr("share"), shares, 1);
    auto writer = tile::KernelOp::create(builder, loc, name, operands(tables), builder.getArrayAttr({share}),
                                         kernel.getDtype(), plan(), kernel.getTensorsAttr(), builder.getArrayAttr({}),
                                         attn::BlockPatternAttr(), false, false, kernel.getQOffset());
    builder.createBlock(&writer.getBody());
    block = tile::named(tile::BlockIndexOp::create(builder, loc, i32, "share"), "share");
    if (tile::OperandAttr counter = tile::findOperand(kernel, tile::workCounter))
      resetCounter(counter);
    for (const BoundsTable &table : tables)
      fill(table);
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

  tile::PlanAttr plan() {
    return tile::PlanAttr::get(builder.getContext(), warps * 16, 2 * groupEntries, warps, /*blocksPerSm=*/1,
                               /*dvWarps=*/1);
  }

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

  /// The first block writes the one element.
  void resetCounter(tile::OperandAttr counter) {
    Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, block, number(0));
    Value limit = arith::ExtUIOp::create(builder, loc, i32, isFirst);
    Value zero = tile::SplatOp::create(builder, loc, registers({{"counters", groupEntries}}, i32), number(0));
    tile::StoreOp::create(builder, loc, zero, view(tile::workCounter, counter.getViewType()), ValueRange{number(0)},
                          limit,
                          /*optional=*/false);
  }

  /// A loop over the block's share of so many pieces of work; `body` gets the number of one.
  void forShare(Value pieces, function_ref<void(Value)> body) {
    Value each = tile::named(divideUp(pieces, shares), "each"), first = multiply(block, each);
    Value begin = tile::named(least(first, pieces), "first_group"),
          end = tile::named(least(add(begin, each), pieces), "end_group");
    Value domain = tile::DomainOp::create(builder, loc, tile::DomainType::get(builder.getContext()),
                                          builder.getStringAttr("group"), builder.getI64IntegerAttr(1), begin, end,
                                          builder.getDenseBoolArrayAttr({true}),
                                          /*reverse=*/UnitAttr());
    auto loop = tile::ForBlocksOp::create(builder, loc, domain, ValueRange(), ValueRange());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&loop.getBody().front());
    body(loop.getOrigin());
    tile::YieldOp::create(builder, loc);
  }

  void fill(const BoundsTable &table) {
    const tile::OperandAttr declared = table.declaration();
    Value tensor = tile::readTensor(builder, loc, table.tensor), entries = view(table.name, declared.getViewType());
    Value rows = extent(table.axis()), count = tile::named(divideUp(rows, table.rows), "entries"),
          groups = tile::named(divideUp(count, groupEntries), "groups"), pieces = groups;
    SmallVector<Value> extents; // of the tensor's other dimensions
    for (tile::AxisAttr axis : declared.getAxes().drop_front().drop_back()) {
      extents.push_back(extent(axis.getName()));
      pieces = multiply(pieces, extents.back());
    }
    forShare(pieces, [&](Value piece) {
      Value group = remainder(piece, groups), rest = divide(piece, groups);
      SmallVector<Value> others(extents.size());
      for (size_t i = extents.size(); i-- > 0; rest = i ? divide(rest, extents[i]) : rest)
        others[i] = i ? remainder(rest, extents[i]) : rest;
      Value first = tile::named(multiply(group, number(groupEntries)), "first_entry");
      Value elements = read(table, tensor, others, first, rows);
      const TileType vector = registers({{"entry", groupEntries}}, declared.getElementType());
      for (bool greatest : {false, true}) {
        Value end = tile::named(tile::ReduceOp::create(builder, loc, vector,
                                                       greatest ? tile::Reduction::Max : tile::Reduction::Min, elements,
                                                       "row", Value(), /*per_lane=*/false),
                                greatest ? "greatest" : "least");
        SmallVector<Value> at = {number(greatest)};
        llvm::append_range(at, others);
        at.push_back(first);
        tile::StoreOp::create(builder, loc, end, entries, at, count, /*optional=*/false);
      }
    });
  }

  Value remainder(Value a, Value b) { return arith::RemSIOp::create(builder, loc, a, b); }

  /// Row by entry: the elements that the rows of each entry of a group read. Past the entry's last row, or that of the
  /// sequence, the last once more.
  Value read(const BoundsTable &table, Value tensor, ArrayRef<Value> others, Value first, Value rows) {
    const Type element = table.declaration().getElementType();
    const int64_t shared = warps * 16, height = table.rows > shared
                                                    ? llvm::alignTo(table.rows, shared)
                                                    : std::max<int64_t>(llvm::PowerOf2Ceil(table.rows), 16);
    Value zero = number(0), last = subtract(rows, number(1)),
          offset = table.ofKeys || !kernel.getQOffset() ? Value() : view("q_offset", i32);
    auto map = tile::MapOp::create(builder, loc, registers({{"row", height}, {"entry", groupEntries}}, element), {},
                                   {{"row", zero}, {"entry", first}});
    tile::named(map.getResult(), table.tensor.getName().getValue());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    Value own = map.getCoordinate("row");
    if (height > table.rows)
      own = least(own, number(table.rows - 1));
    Value at = least(add(multiply(map.getCoordinate("entry"), number(table.rows)), own), last);
    if (offset)
      at = add(at, offset);
    SmallVector<Value> indices(others);
    indices.insert(indices.begin() + table.dim, at);
    SmallVector<bool> inRange(indices.size(), true);
    inRange[table.dim] = false;
    Value value =
        tile::ElementOp::create(builder, loc, attn::valueType(table.tensor.getElementType()), tensor, indices, inRange);
    if (value.getType().isInteger(1))
      value = arith::ExtUIOp::create(builder, loc, element, value);
    tile::YieldOp::create(builder, loc, value);
    return map.getResult();
  }

  OpBuilder builder;
  Location loc;
  tile::KernelOp kernel;
  Type i32;
  Value block;
};

} // namespace

void attune::writeBoundsKernel(OpBuilder builder, tile::KernelOp kernel, ArrayRef<BoundsTable> tables) {
  BoundsKernelWriter(builder, kernel).write(tables);
}
