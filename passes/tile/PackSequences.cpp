//===- PackSequences.cpp - Kernels of a batch become kernels of packed sequences ---===//
//
// The kernels of a batch take the rows of sequence b from [b, h, row, ...]. In packed operands the rows of all sequences
// follow each other, [1, h, row, ...], and two captured vectors hold each sequence's first row of Q and of K. A kernel
// computes the same for each sequence; the pass changes only where a thread block works, and where its rows lie:
//
//     batch                                 packed
//     grid [b, h, q by 128]                 grid [h, q_by_128 by 128]      q_by_128: each sequence begins with a new tile
//     b, q0 = block index                   tile = block index / 128, b = the sequence of the tile
//                                           q0 = 128 * (tile - the sequence's first tile)
//     Sq, Sk = extents                      the sequence's own numbers of rows
//     load Q[b, h, q0] limit Sq             load Q[0, h, begin + q0] limit begin + Sq
//
// Positions, masks, scores and dropout thus count within a sequence, and no row of another sequence is written or reaches
// a result.
//
// The number of a sequence's first tile is begin / 128 + b + 1 (tile.search), which leaves at most one tile without rows
// for each sequence. Such a tile loops over nothing.
//
// The rows before the first sequence and those after the last are sequences without rows of the other axis: their O is
// written as 0.
//
// In a workspace of tiles each sequence begins at a multiple of 128 rows. Tiles whose rows divide 128 are written as a
// whole, and TMA can store them: the rows past the sequence's end belong to nobody. That holds for tiles without rows, too,
// since a sequence's numbers of tiles of n rows, times n, are at most its rows of the workspace.
//
// A kernel without an axis of sequences, which adds up the gradient of a captured tensor over all rows, takes the rows of
// all sequences as those of one.
//
// Where only Q is packed, K and V keep their places in a batch or in pages, and the extent of k is a batch's. A kernel
// whose blocks are tiles of such keys has the sequence in its grid, and searches for nothing.
//
//===----------------------------------------------------------------------===//

#include "ir/attn/Attn.h"
#include "ir/tile/Signature.h"
#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/mask/EmptyDomain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace attune {
#define GEN_PASS_DEF_PACKSEQUENCES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

constexpr int64_t workspaceRows = 128; ///< a sequence begins at a multiple of so many rows of a workspace

class KernelPacker {
public:
  KernelPacker(tile::KernelOp kernel, attn::SequencesAttr sequences)
      : kernel(kernel), sequences(sequences), builder(kernel.getLoc(), kernel.getContext()) {}

  LogicalResult pack() {
    bool hasSequence = false;
    for (auto axis : kernel.getGridAttr().getAsRange<tile::AxisAttr>()) {
      hasSequence |= axis.getName() == "b";
      if (isRows(axis.getName()))
        tiled = axis;
    }
    if (failed(checkOps()))
      return failure();
    if (!tiled && !hasSequence) {
      packAsOne();
      return success();
    }
    declareSequences();
    builder.setInsertionPointToStart(&kernel.getBody().front());
    tiled ? placeBlock() : takeSequence();
    kernel.walk([&](Operation *op) {
      if (auto domain = dyn_cast<tile::DomainOp>(op)) {
        if (hasRows)
          emptyUnless(builder, domain, hasRows); // a tile without rows of its sequence loops over nothing
      } else if (auto element = dyn_cast<tile::ElementOp>(op))
        moveElement(element);
      else if (auto load = dyn_cast<tile::LoadOp>(op))
        moveTile(load);
      else if (auto store = dyn_cast<tile::StoreOp>(op))
        moveTile(store);
      else if (auto accumulate = dyn_cast<tile::AccumulateOp>(op))
        moveTile(accumulate);
    });
    replaceExtents();
    declare();
    return success();
  }

private:
  /// The first row of a sequence along an axis, the row after its last, and the number of its rows.
  struct Rows {
    Value begin, end, count;
  };

  /// Whether the axis counts rows that are packed.
  bool isRows(StringRef axis) const { return axis == "q" || (axis == "k" && sequences.getKeys()); }

  /// The operand of a view whose rows are those of sequences, or null.
  tile::OperandAttr packedOperand(Value view) const {
    tile::OperandAttr operand = tile::operandOf(view);
    return operand && !operand.getAxes().empty() && operand.getAxes().front().getName() == "b" &&
                   llvm::any_of(operand.getAxes(), [&](tile::AxisAttr axis) { return isRows(axis.getName()); })
               ? operand
               : tile::OperandAttr();
  }

  /// The place of the axis of rows among an operand's axes.
  size_t rowDimension(tile::OperandAttr operand) const {
    return llvm::find_if(operand.getAxes(), [&](tile::AxisAttr axis) { return isRows(axis.getName()); }) -
           operand.getAxes().begin();
  }

  LogicalResult checkOps() {
    LogicalResult result = success();
    for (auto operand : kernel.getOperandsAttr().getAsRange<tile::OperandAttr>())
      for (tile::AxisAttr axis : operand.getAxes())
        if (isRows(axis.getName()) && axis.getBy() > 1 && !operand.isTiled())
          return kernel.emitError()
                 << "packed sequences do not take a mask whose visible tiles follow from " << operand.getName()
                 << ", a table of tensors or functions of q or k; write the mask by positions, b, h and "
                    "tensors of b and h, or pad the sequences to a batch";
    kernel.walk([&](Operation *op) {
      const bool isOther =
          isa<tile::ScatterOp, tile::LoadBlocksOp, tile::StoreBlocksOp, tile::GroupRowsOp, tile::PagedRowsOp>(op);
      if (isOther && llvm::any_of(op->getOperands(), [&](Value operand) {
            return isa<tile::ViewType>(operand.getType()) && packedOperand(operand);
          }))
        result = op->emitOpError("has no form for packed sequences");
    });
    return result;
  }

  /// A kernel without tiles of rows adds up what those of all sequences have in common: the rows are those of one.
  void packAsOne() {
    kernel->removeAttr(tile::leftOutAttr); // bounds on the lengths of a batch
    SmallVector<tile::AxisExtentOp> asked;
    kernel.walk([&](tile::AxisExtentOp of) {
      if (of.getAxis() == "b")
        asked.push_back(of);
    });
    for (tile::AxisExtentOp of : asked) {
      builder.setInsertionPoint(of);
      of.replaceAllUsesWith(number(1));
      of.erase();
    }
    declare();
  }

  //===--- The thread block's sequence ---===//

  Value number(int64_t value) { return arith::ConstantIntOp::create(builder, value, 32); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, a, b, arith::IntegerOverflowFlags::nsw); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, a, b, arith::IntegerOverflowFlags::nsw); }
  Value multiply(Value a, int64_t b) {
    return arith::MulIOp::create(builder, a, number(b), arith::IntegerOverflowFlags::nsw);
  }
  Value divide(Value a, int64_t b) { return arith::DivUIOp::create(builder, a, number(b)); }
  Value extent(StringRef axis, StringRef name) {
    return tile::named(tile::AxisExtentOp::create(builder, builder.getI32Type(), axis), name);
  }
  /// The name of the number of rows of all sequences.
  static StringRef allRows(StringRef axis) { return axis == "q" ? "all_queries" : "all_keys"; }
  Value vectorOf(StringRef axis) {
    StringAttr name = axis == "q" ? sequences.getQueries() : sequences.getKeys();
    auto type = tile::ViewType::get(builder.getContext(), 1, builder.getI32Type());
    return tile::named(tile::ParamOp::create(builder, type, (tile::tensorPrefix + name.getValue()).str()), name);
  }

  /// The rows of the sequence. Numbers in memory that are no rows of the operand, or that decrease, are clamped. The rows
  /// before the first sequence, and those after the last, are sequences that have no rows along the other axis.
  Rows rowsOf(StringRef axis) {
    Value vector = vectorOf(axis), all = extent(axis, allRows(axis));
    auto at = [&](Value index, Value least) {
      Value element = tile::ElementOp::create(builder, builder.getI32Type(), vector, index, ArrayRef<bool>{false});
      return arith::MinSIOp::create(builder, arith::MaxSIOp::create(builder, element, least), all);
    };
    Value begin = at(subtract(numberPlus1, number(1)), number(0));
    if (isTiled(axis))
      begin = arith::SelectOp::create(builder, isBeforeFirst, number(0), begin);
    tile::named(begin, axis == "q" ? "first_query" : "first_key");
    Value end = at(arith::MinSIOp::create(builder, numberPlus1, B), begin);
    if (isTiled(axis))
      end = arith::SelectOp::create(builder, isAfterLast, all, end);
    tile::named(end, axis == "q" ? "queries_end" : "keys_end");
    return {begin, end, tile::named(subtract(end, begin), axis == "q" ? "own_queries" : "own_keys")};
  }

  /// Whether the blocks of the grid are tiles of the axis's rows.
  bool isTiled(StringRef axis) const { return tiled && tiled.getName() == axis; }

  std::string paddedAxis(StringRef axis, int64_t rows) { return (axis + "_by_" + Twine(rows)).str(); }

  /// Takes the sequence from the grid.
  void takeSequence() {
    for (auto index : kernel.getBody().getOps<tile::BlockIndexOp>())
      if (index.getAxis() == "b")
        b = index;
    if (!b)
      b = tile::named(tile::BlockIndexOp::create(builder, builder.getI32Type(), "b"), "b");
    builder.setInsertionPointAfter(b.getDefiningOp());
    B = extent("b", "B");
    numberPlus1 = tile::named(add(b, number(1)), "sequence_number");
    body = numberPlus1.getDefiningOp()->getNextNode();
  }

  /// Finds the sequence, and the tile in it, of the block's number.
  void placeBlock() {
    const StringRef axis = tiled.getName();
    const int64_t size = tiled.getBy();
    SmallVector<Attribute> grid;
    for (auto each : kernel.getGridAttr().getAsRange<tile::AxisAttr>())
      if (each == tiled)
        grid.push_back(tile::AxisAttr::get(builder.getContext(), builder.getStringAttr(derive(axis, size)), 0, size));
      else if (each.getName() != "b")
        grid.push_back(each);
    SmallVector<tile::BlockIndexOp> asked(kernel.getBody().getOps<tile::BlockIndexOp>());
    kernel.setGridAttr(builder.getArrayAttr(grid));
    Value row = tile::BlockIndexOp::create(builder, builder.getI32Type(), paddedAxis(axis, size));
    Value tile = tile::named(divide(row, size), "tile");
    Value found = tile::SearchOp::create(builder, builder.getI32Type(), vectorOf(axis), subtract(tile, number(1)),
                                         builder.getUnitAttr(), builder.getI64IntegerAttr(size));
    B = extent("b", "B");
    numberPlus1 = tile::named(arith::MinSIOp::create(builder, found, add(B, number(1))), "sequence_number");
    Value clamped = arith::MinSIOp::create(builder, numberPlus1, B);
    b = tile::named(arith::MaxSIOp::create(builder, subtract(clamped, number(1)), number(0)), "b");
    isBeforeFirst = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, numberPlus1, number(0));
    isAfterLast = arith::CmpIOp::create(builder, arith::CmpIPredicate::sgt, numberPlus1, B);
    Rows &own = axis == "q" ? queries : keys;
    own = rowsOf(axis);
    Value first = add(divide(own.begin, size), numberPlus1);
    // Bounds that do not ascend may give a tile before the sequence's first: as an unsigned number it is past the last.
    Value ownTiles = divide(add(own.count, number(size - 1)), size);
    Value within = arith::MinUIOp::create(builder, subtract(tile, first), ownTiles);
    row0 = tile::named(multiply(within, size), (axis + "0").str());
    hasRows = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, row0, own.count);
    if (!sequences.getKeys()) // rows of no sequence have no keys, neither those of a batch nor pages
      for (Value isOfNone : {isBeforeFirst, isAfterLast})
        hasRows = arith::SelectOp::create(builder, isOfNone, arith::ConstantIntOp::create(builder, 0, 1), hasRows);
    tile::named(hasRows, "has_rows");
    for (tile::BlockIndexOp index : asked) {
      if (index.getAxis() != "b" && index.getAxis() != axis)
        continue;
      index.replaceAllUsesWith(index.getAxis() == "b" ? b : row0);
      index.erase();
    }
    body = hasRows.getDefiningOp()->getNextNode();
  }

  const Rows &along(StringRef axis) {
    Rows &rows = axis == "q" ? queries : keys;
    if (!rows.begin) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(body);
      rows = rowsOf(axis);
    }
    return rows;
  }

  /// The first row of the sequence in a workspace.
  Value beginInWorkspace(StringRef axis) {
    Value &begin = axis == "q" ? workspaceQueries : workspaceKeys;
    if (!begin) {
      OpBuilder::InsertionGuard guard(builder);
      Value first = along(axis).begin;
      builder.setInsertionPoint(body);
      begin = tile::named(multiply(add(divide(first, workspaceRows), numberPlus1), workspaceRows),
                          axis == "q" ? "first_padded_query" : "first_padded_key");
    }
    return begin;
  }

  //===--- Rows of operands ---===//

  /// Whether the operand is a workspace of tiles, in which each sequence begins at a multiple of 128 rows.
  static bool isPadded(tile::OperandAttr operand) {
    return operand.getRole() == OperandRole::Workspace && operand.isTiled();
  }

  Value beginOf(tile::OperandAttr operand) {
    const StringRef axis = operand.getAxes()[rowDimension(operand)].getName();
    return isPadded(operand) ? beginInWorkspace(axis) : along(axis).begin;
  }

  template <typename Op> void moveTile(Op op) {
    tile::OperandAttr operand = packedOperand(op.getView());
    if (!operand)
      return;
    const size_t dim = rowDimension(operand);
    Value begin = beginOf(operand);
    OpBuilder::InsertionGuard guard(builder);
    if (dim + 1 == op.getIndices().size())
      op.getLimitMutable().assign(limitOf(op, operand, begin));
    builder.setInsertionPoint(op);
    op.getIndicesMutable()[unsigned(dim)].set(add(begin, op.getIndices()[dim]));
    op.getIndicesMutable()[0].set(number(0));
  }

  /// The limit of rows among those of all sequences. It is computed before any loop where the limit of the batch is.
  template <typename Op> Value limitOf(Op op, tile::OperandAttr operand, Value begin) {
    const StringRef axis = operand.getAxes()[rowDimension(operand)].getName();
    const bool isAll = isExtent(op.getLimit(), axis);
    if (isAll && !isPadded(operand))
      return along(axis).end;
    Operation *known = op.getLimit().getDefiningOp();
    isAll || !known ? builder.setInsertionPoint(body) : builder.setInsertionPointAfter(known);
    if (writesWhole(op, operand))
      return extent(derive(axis, workspaceRows), "padded_rows");
    return add(begin, isAll ? along(axis).count : op.getLimit());
  }

  static bool isExtent(Value limit, StringRef axis) {
    auto of = limit.getDefiningOp<tile::AxisExtentOp>();
    return of && of.getAxis() == axis;
  }

  /// Whether the op writes a tile of a workspace whose rows past the sequence's end are those of no other sequence.
  bool writesWhole(tile::LoadOp, tile::OperandAttr) { return false; }
  template <typename Op> bool writesWhole(Op op, tile::OperandAttr operand) {
    const StringRef axis = operand.getAxes()[rowDimension(operand)].getName();
    return isPadded(operand) && isExtent(op.getLimit(), axis) &&
           workspaceRows % op.getTile().getType().getShape()[0] == 0;
  }

  void moveElement(tile::ElementOp element) {
    tile::OperandAttr operand = packedOperand(element.getView());
    if (!operand)
      return;
    const size_t dim = rowDimension(operand);
    Value begin = beginOf(operand), count = along(operand.getAxes()[dim].getName()).count;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(element);
    Value row = element.getIndices()[dim];
    SmallVector<bool> inRange(element.getInRange());
    if (!inRange[dim])
      row = arith::MinSIOp::create(builder, row, subtract(count, number(1)));
    element.getIndicesMutable()[unsigned(dim)].set(add(begin, row));
    element.getIndicesMutable()[0].set(number(0));
  }

  void replaceExtents() {
    SmallVector<tile::AxisExtentOp> asked;
    kernel.walk([&](tile::AxisExtentOp of) {
      if (isRows(of.getAxis()) && !isOfAll(of))
        asked.push_back(of);
    });
    for (tile::AxisExtentOp of : asked)
      of.replaceAllUsesWith(along(of.getAxis()).count);
    for (tile::AxisExtentOp of : asked)
      of.erase();
  }
  /// Whether the extent is one that rowsOf() reads: the rows of all sequences.
  static bool isOfAll(tile::AxisExtentOp of) { return tile::nameOf(of) == allRows(of.getAxis()); }

  //===--- Declarations ---===//

  /// The axis of rows where each sequence begins at a multiple of `rows`.
  std::string derive(StringRef axis, int64_t rows) {
    std::string name = paddedAxis(axis, rows);
    addDerived(name, DerivedAxis::Rule::SequenceRows, rows, axis);
    return name;
  }

  void addDerived(StringRef name, DerivedAxis::Rule rule, int64_t by, StringRef of) {
    SmallVector<Attribute> all(llvm::map_range(tile::derivedAxes(kernel), [](auto axis) -> Attribute { return axis; }));
    auto axis = tile::DerivedAxisAttr::get(builder.getContext(), builder.getStringAttr(name),
                                           builder.getStringAttr(attune::name(rule)), by, 1, builder.getStringAttr(of));
    if (llvm::is_contained(all, axis))
      return;
    all.push_back(axis);
    kernel->setAttr(tile::derivedAttr, builder.getArrayAttr(all));
  }

  /// Declares the number of sequences. It comes first, because numbers of rows are computed from it. A launch checks that
  /// the bounds of keys are of as many.
  void declareSequences() {
    auto sequencesOf = [&](StringRef name, StringAttr bounds) -> Attribute {
      return tile::DerivedAxisAttr::get(builder.getContext(), builder.getStringAttr(name),
                                        builder.getStringAttr(attune::name(DerivedAxis::Rule::Sequences)), 1, 1,
                                        builder.getStringAttr(tile::tensorPrefix + bounds.getValue() + ".0"));
    };
    SmallVector<Attribute> all = {sequencesOf("b", sequences.getQueries())};
    if (sequences.getKeys() && sequences.getKeys() != sequences.getQueries())
      all.push_back(sequencesOf("key_sequences", sequences.getKeys()));
    llvm::append_range(all, tile::derivedAxes(kernel));
    kernel->setAttr(tile::derivedAttr, builder.getArrayAttr(all));
  }

  void declare() {
    SmallVector<Attribute> operands;
    for (auto operand : kernel.getOperandsAttr().getAsRange<tile::OperandAttr>()) {
      SmallVector<tile::AxisAttr> axes(operand.getAxes());
      if (llvm::any_of(axes, [&](tile::AxisAttr axis) { return isRows(axis.getName()); }))
        for (tile::AxisAttr &axis : axes) {
          auto become = [&](StringRef name, int64_t size, int64_t by) {
            axis = tile::AxisAttr::get(builder.getContext(), builder.getStringAttr(name), size, by);
          };
          if (axis.getName() == "b")
            become("pack", 1, 1);
          else if (isRows(axis.getName()) && isPadded(operand))
            become(derive(axis.getName(), workspaceRows), 0, axis.getBy());
        }
      operands.push_back(tile::OperandAttr::get(builder.getContext(), operand.getName(), operand.getRole(),
                                                operand.getOptional(), axes, operand.getElementType()));
    }
    kernel.setOperandsAttr(builder.getArrayAttr(operands));
  }

  tile::KernelOp kernel;
  attn::SequencesAttr sequences;
  ImplicitLocOpBuilder builder;
  tile::AxisAttr tiled; ///< the grid's axis of rows
  Value
      numberPlus1; ///< number of the sequence plus 1: 0 for the rows before the first one, B + 1 for those after the last
  Value B, isBeforeFirst, isAfterLast;
  Value b; ///< the number of the sequence, clamped to [0, B)
  Value row0;
  Value hasRows; ///< whether the block's tile has rows of a sequence; null where the grid has no packed rows
  Operation *body = nullptr;             ///< the first op after those that find the block's sequence
  Rows queries, keys;                    ///< of the sequence; null until used
  Value workspaceQueries, workspaceKeys; ///< the first rows of the sequence in workspaces; null until used
};

struct PackSequences : attune::impl::PackSequencesBase<PackSequences> {
  using PackSequencesBase::PackSequencesBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      auto sequences = kernel->getAttrOfType<attn::SequencesAttr>(tile::sequencesAttr);
      if (!sequences)
        continue;
      kernel->removeAttr(tile::sequencesAttr);
      if (failed(KernelPacker(kernel, sequences).pack()))
        return signalPassFailure();
    }
  }
};

} // namespace
