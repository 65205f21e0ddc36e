//===- CapturedGradients.cpp - Gradients of captured tensors -------------------===//

#include "passes/attn/CapturedGradients.h"
#include "attune/Kernel.h"
#include "passes/attn/LongAccumulator.h"
#include "passes/attn/TileWriter.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace attune;
using tile::TileType;

//===----------------------------------------------------------------------===//
// What indices follow from
//===----------------------------------------------------------------------===//

static constexpr StringLiteral wordAxis = "word";

/// `words`: of the long accumulator that each element has, the first axis; 0 where it has none.
static tile::OperandAttr operandOver(MLIRContext *context, const Twine &name, OperandRole role,
                                     ArrayRef<std::string> axes, Type element, int64_t words = 0) {
  SmallVector<tile::AxisAttr> all;
  if (words)
    all.push_back(tile::AxisAttr::get(context, StringAttr::get(context, wordAxis), words, 1));
  for (const std::string &axis : axes)
    all.push_back(tile::AxisAttr::get(context, StringAttr::get(context, axis), 0, 1));
  return tile::OperandAttr::get(context, StringAttr::get(context, name), role, /*optional=*/false, all, element);
}

tile::OperandAttr GradientSum::declaration() const {
  MLIRContext *context = add->getContext();
  return operandOver(context, name, OperandRole::Workspace, {"b", "h", ofKeys ? "k" : "q"}, Float32Type::get(context));
}

std::string CapturedGradient::axis(unsigned dim) const {
  return (tile::tensorPrefix + tensor.getName().getValue() + "." + Twine(dim)).str();
}

static SmallVector<std::string> axesOf(const CapturedGradient &gradient) {
  SmallVector<std::string> axes;
  for (unsigned dim = 0; dim < gradient.tensor.getRank(); ++dim)
    axes.push_back(gradient.axis(dim));
  return axes;
}

static std::string nameOf(const CapturedGradient &gradient) {
  return std::string(gradientPrefix) + gradient.tensor.getName().str();
}

tile::OperandAttr CapturedGradient::declaration() const {
  return operandOver(tensor.getContext(), nameOf(*this), OperandRole::Out, axesOf(*this), tensor.getElementType());
}

tile::OperandAttr CapturedGradient::addends() const {
  Builder builder(tensor.getContext());
  const Type element = inAnyOrder ? Type(builder.getI64Type()) : Type(builder.getF32Type());
  return operandOver(tensor.getContext(), nameOf(*this) + ".addends", OperandRole::Workspace, axesOf(*this), element,
                     inAnyOrder ? accumulator::words : 0);
}

std::array<Value, 4> attune::coordinatesAround(attn::AddGradientOp add) {
  auto op = add->getParentOfType<attn::AttentionOp>();
  Block &body = *add->getBlock();
  if (add->getParentRegion() == &op.getScoreGrad())
    return {body.getArgument(1), body.getArgument(2), body.getArgument(3), body.getArgument(4)};
  return {body.getArgument(0), body.getArgument(1), {}, {}};
}

std::optional<unsigned> attune::coordinateOf(attn::AddGradientOp add, Value index) {
  if (auto wide = index.getDefiningOp<arith::ExtSIOp>())
    index = wide.getIn();
  for (auto [i, coordinate] : llvm::enumerate(coordinatesAround(add)))
    if (coordinate && coordinate == index)
      return unsigned(i);
  return std::nullopt;
}

/// `index`, of i32 or i64, limited to [0, extent), as i32.
static Value clampIndex(OpBuilder &builder, Location loc, Value index, Value extent) {
  Type type = index.getType();
  auto number = [&](int64_t value) { return arith::ConstantIntOp::create(builder, loc, type, value); };
  if (type.isInteger(64))
    extent = arith::ExtSIOp::create(builder, loc, type, extent);
  Value last = arith::SubIOp::create(builder, loc, extent, number(1));
  index = arith::MaxSIOp::create(builder, loc, arith::MinSIOp::create(builder, loc, index, last), number(0));
  return type.isInteger(64) ? arith::TruncIOp::create(builder, loc, builder.getI32Type(), index).getResult() : index;
}

Value attune::placeOf(OpBuilder &builder, attn::AddGradientOp add, Value index, Value extent,
                      const std::array<Value, 4> &coordinates) {
  auto op = add->getParentOfType<attn::AttentionOp>();
  IRMapping mapping;
  for (auto [argument, value] : llvm::zip(coordinatesAround(add), coordinates))
    if (argument && value)
      mapping.map(argument, value);
  return clampIndex(builder, op.getLoc(), cloneFromRegion(builder, op, index, mapping), extent);
}

CoordinateDims attune::dimsOfTile(attn::AddGradientOp add) {
  CoordinateDims dims;
  for (auto [dim, index] : llvm::enumerate(add.getIndices()))
    dims[*coordinateOf(add, index)] = unsigned(dim);
  return dims;
}

bool attune::isWrittenByLoop(const CapturedGradient &gradient) {
  if (gradient.tiles.empty())
    return false;
  const CoordinateDims dims = dimsOfTile(gradient.tiles.front());
  return dims[0] || dims[1];
}

Value attune::isUnshared(OpBuilder &builder, Location loc, const CapturedGradient &gradient,
                         std::array<Value, 2> counts, function_ref<Value(unsigned)> extentOf) {
  const CoordinateDims dims = dimsOfTile(gradient.tiles.front());
  Value all;
  for (unsigned coordinate : {0u, 1u}) {
    Value most = dims[coordinate] ? extentOf(*dims[coordinate]) : arith::ConstantIntOp::create(builder, loc, 1, 32);
    Value isOne = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, counts[coordinate], most);
    all = all ? arith::AndIOp::create(builder, loc, all, isOne).getResult() : isOne;
  }
  return tile::named(all, "unshared");
}

namespace {

/// What a value of a region of gradients follows from.
struct Sources {
  bool coordinates[4] = {}; ///< b, h, q, k
  bool others = false;      ///< scores, weights, statistics

  bool q() const { return coordinates[2]; }
  bool k() const { return coordinates[3]; }
};

Sources sourcesOf(attn::AddGradientOp add, ValueRange values) {
  const std::array<Value, 4> coordinates = coordinatesAround(add);
  Sources sources;
  SmallVector<Value> open(values);
  llvm::SmallPtrSet<void *, 16> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value.getAsOpaquePointer()).second)
      continue;
    if (Operation *definition = value.getDefiningOp()) {
      llvm::append_range(open, definition->getOperands());
      continue;
    }
    const auto *found = llvm::find(coordinates, value);
    if (found == coordinates.end())
      sources.others = true;
    else
      sources.coordinates[found - coordinates.begin()] = true;
  }
  return sources;
}

/// Whether every index is a coordinate, each one once, q and k among them.
bool isTile(attn::AddGradientOp add) {
  bool found[4] = {};
  for (Value index : add.getIndices()) {
    const std::optional<unsigned> coordinate = coordinateOf(add, index);
    if (!coordinate || std::exchange(found[*coordinate], true))
      return false;
  }
  return found[2] && found[3];
}

bool haveSameIndices(attn::AddGradientOp a, attn::AddGradientOp b) {
  return llvm::equal(a.getIndices(), b.getIndices(), [&](Value x, Value y) {
    return x == y || (coordinateOf(a, x) && coordinateOf(a, x) == coordinateOf(b, y));
  });
}

class GradientPlanner {
public:
  explicit GradientPlanner(attn::AttentionOp op) : op(op) {}

  FailureOr<CapturedGradient> plan(StringAttr name) {
    CapturedGradient gradient;
    gradient.tensor = op.findTensor(name);
    gradient.inAnyOrder = op.getGradients()->getDeterministic();
    if (gradient.tensor.getRank() == 0)
      return op.emitError() << "the gradient of captured tensor " << name
                            << " is asked for, which has rank 0; capture it with rank 1, of one element, and read its "
                               "element 0";
    SmallVector<attn::AddGradientOp> adds;
    for (auto [region, of] : op.gradientRegions())
      region->walk([&](attn::AddGradientOp add) {
        if (add.getNameAttr() == name)
          adds.push_back(add);
      });
    if (llvm::all_of(adds,
                     [&](attn::AddGradientOp add) { return isTile(add) && haveSameIndices(add, adds.front()); })) {
      gradient.tiles = adds;
      return gradient;
    }
    for (attn::AddGradientOp add : adds)
      if (failed(sort(add, gradient)))
        return failure();
    return gradient;
  }

private:
  LogicalResult sort(attn::AddGradientOp add, CapturedGradient &gradient) {
    const Sources sources = sourcesOf(add, add.getIndices());
    Region *region = add->getParentRegion();
    const bool isOfRow = region == &op.getDivisorGrad() || region == &op.getLseGrad();
    if (isOfRow && sources.others)
      return add.emitError() << "the gradient of captured tensor " << add.getNameAttr()
                             << " is asked for, whose index here follows from statistics of a row; index it by b and h";
    if (!sources.others && !(sources.q() && sources.k())) {
      const bool ofKeys = sources.k();
      gradient.sums.push_back({add, ofKeys,
                               nameOf(gradient) + (ofKeys ? ".keys" : ".rows") +
                                   (gradient.sums.empty() ? "" : std::to_string(gradient.sums.size()))});
      return success();
    }
    gradient.scattered.push_back(add);
    return success();
  }

  attn::AttentionOp op;
};

} // namespace

bool attune::isOfHead(attn::AddGradientOp add, Value index) {
  const Sources sources = sourcesOf(add, index);
  return !sources.q() && !sources.k() && !sources.others;
}

FailureOr<SmallVector<CapturedGradient>> attune::planCapturedGradients(attn::AttentionOp op) {
  SmallVector<CapturedGradient> gradients;
  for (StringAttr name : op.getGradients()->getTensors()) {
    FailureOr<CapturedGradient> gradient = GradientPlanner(op).plan(name);
    if (failed(gradient))
      return failure();
    gradients.push_back(std::move(*gradient));
  }
  return gradients;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t warps = 8, blockRows = 16 * warps, blockEntries = 8, zeroEntries = 256, zeroColumns = 64;

/// What both kernels need.
class GradientKernelWriter : protected TileWriter {
public:
  GradientKernelWriter(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like)
      : TileWriter(op), gradient(gradient), like(like), rank(unsigned(gradient.tensor.getRank())) {}

protected:
  /// A kernel over an operand, the tensor's dimensions its last ones, `by[dim]` of these each block. The body is written
  /// next.
  void begin(const Twine &suffix, tile::OperandAttr over, ArrayRef<int64_t> by, int64_t columns) {
    builder.setInsertionPoint(op);
    SmallVector<Attribute> grid(over.getAxes().begin(), over.getAxes().end());
    for (unsigned dim = 0; dim < rank; ++dim)
      grid[grid.size() - rank + dim] =
          tile::AxisAttr::get(builder.getContext(), builder.getStringAttr(gradient.axis(dim)), 0, by[dim]);
    auto plan = tile::PlanAttr::get(builder.getContext(), blockRows, columns, warps, /*blocksPerSm=*/1, /*dvWarps=*/1);
    kernel = tile::KernelOp::create(
        builder, loc, (op.getSymName() + suffix + gradient.tensor.getName().getValue()).str(), builder.getArrayAttr({}),
        builder.getArrayAttr(grid), op.getDtype(), plan, op.getTensorsAttr(), op.getScalarsAttr(),
        attn::BlockPatternAttr(), false, op.getPrecise(), op.getQOffset());
    builder.createBlock(&kernel.getBody());
  }

  tile::KernelOp end() {
    kernel.setOperandsAttr(builder.getArrayAttr(operands));
    kernel.walk([&](tile::AxisExtentOp extent) { declareExtent(extent.getAxis()); });
    return kernel;
  }

  Value declare(tile::OperandAttr operand) {
    operands.push_back(operand);
    return param(operand.getName(), operand.getViewType());
  }

  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value multiply(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value both(Value a, Value b) { return a ? arith::AndIOp::create(builder, loc, a, b).getResult() : b; }
  Value positive(Value a) { return arith::MaxSIOp::create(builder, loc, a, number(0)); }
  /// Of dimension `dim` of the tensor.
  Value extentOf(unsigned dim) { return axisExtent(gradient.axis(dim), ("extent" + Twine(dim)).str()); }
  Value blockIndex(unsigned dim) {
    return tile::named(tile::BlockIndexOp::create(builder, loc, i32, gradient.axis(dim)), ("i" + Twine(dim)).str());
  }
  /// The extents of b, h, q and k.
  std::array<Value, 4> coordinateExtents() {
    return {axisExtent("b", "B"), axisExtent("h", "H"), axisExtent("q", "Sq"), axisExtent("k", "Sk")};
  }
  TileType registers(std::initializer_list<std::pair<StringRef, int64_t>> axes, Type element) {
    return shape(axes, element, tile::MemorySpace::Register);
  }

  const CapturedGradient &gradient;
  tile::KernelOp like, kernel;
  unsigned rank;
  SmallVector<Attribute> operands;

private:
  /// By an operand of the other kernel that has the axis.
  void declareExtent(StringRef axis) {
    if (tile::hasExtent(kernel, axis))
      return;
    for (auto operand : like.getOperandsAttr().getAsRange<tile::OperandAttr>())
      if (operand.getRole() == OperandRole::In &&
          llvm::any_of(operand.getAxes(), [&](tile::AxisAttr each) { return each.getName() == axis; })) {
        operands.push_back(operand);
        break;
      }
    kernel.setOperandsAttr(builder.getArrayAttr(operands));
  }
};

/// Adds up sums of rows and keys. A block has 8 elements along the tensor's last dimension, the columns of a tile whose
/// 128 rows share what each of them sums:
///
///     slopes[h], B 2, Sq 300: b 0 and 1 in a loop, q in rows     column 0     column 1   ...
///         b 0, q 0 .. 127                                        [b, 0, q]    [b, 1, q]
///         b 0, q 128 .. 255                                      ...
///
/// A coordinate that is an index of the tensor is one value for an element: that of its place. All others are summed. So
/// are, at the last element, coordinates beyond the tensor, whose index is clamped. Each (b, h, q) counts for the
/// elements that its clamped indices name.
class GradientSumWriter : public GradientKernelWriter {
public:
  using GradientKernelWriter::GradientKernelWriter;

  tile::KernelOp write() {
    SmallVector<int64_t> by(rank, 1);
    by.back() = blockEntries;
    begin("_grad_", gradient.declaration(), by, 2 * blockEntries);
    for (unsigned dim = 0; dim < rank; ++dim) {
      at.push_back(blockIndex(dim));
      extents.push_back(extentOf(dim));
    }
    const TileType type = registers({{"row", blockRows}, {"entry", blockEntries}}, f32);
    Value total = tile::named(tile::SplatOp::create(builder, loc, type, constant(0)), "total");
    for (const GradientSum &sum : gradient.sums)
      total = addSum(sum, total);
    const bool isScattered = !gradient.scattered.empty();
    if (isScattered && gradient.inAnyOrder)
      total = addWords(total);
    const TileType entries = registers({{"entry", blockEntries}}, f32);
    Value result = tile::named(
        tile::ReduceOp::create(builder, loc, entries, tile::Reduction::Sum, total, "row", Value(), /*per_lane=*/false),
        "gradient");
    if (isScattered && !gradient.inAnyOrder) {
      Value addends =
          tile::LoadOp::create(builder, loc, entries, declare(gradient.addends()), at, extents.back()).getResult();
      result = createMap(builder, loc, "gradient", entries, {result, tile::named(addends, "addends")},
                         [&](ValueRange x) -> Value { return arith::AddFOp::create(builder, loc, x[0], x[1]); });
    }
    tile::StoreOp::create(builder, loc, result, declare(gradient.declaration()), at, extents.back(),
                          /*optional=*/false);
    return end();
  }

private:
  /// How one coordinate of a sum runs.
  struct Run {
    unsigned coordinate;
    Value count;                      ///< of the coordinate
    std::optional<unsigned> dim = {}; ///< the dimension of which it is the index
    Value steps;                      ///< how many values an element has of it
    Value before;                     ///< with `dim`: values less than what the index 0 stands for
  };

  Value addSum(const GradientSum &sum, Value total) {
    Value view = declare(sum.declaration());
    readQueryOffset();
    const std::array<Value, 4> counts = coordinateExtents();
    SmallVector<Run> runs;
    for (unsigned coordinate : {sum.ofKeys ? 3u : 2u, 1u, 0u})
      runs.push_back(runOf(sum.add, coordinate, counts[coordinate]));
    // Those of one batch are counted by 32 bits.
    Run batches = runs.back();
    const bool loops = !batches.dim;
    if (loops)
      runs.pop_back();
    auto addRows = [&](Value b, Value total) { return addRowsOf(sum, view, runs, batches, b, total); };
    if (!loops)
      return addRows(Value(), total);
    return loopOver("batch", 1, batches.count, total, addRows);
  }

  Run runOf(attn::AddGradientOp sum, unsigned coordinate, Value count) {
    Run run{coordinate, count, {}, count, {}};
    for (auto [dim, index] : llvm::enumerate(sum.getIndices()))
      if (coordinateOf(sum, index) == coordinate && !run.dim)
        run.dim = unsigned(dim);
    if (!run.dim)
      return run;
    // Of one element: its own, and those that are clamped to it.
    Value beyond = subtract(count, extents[*run.dim]);
    run.before = number(0);
    if (coordinate == 2 && qOffset) {
      beyond = add(beyond, qOffset);
      run.before = positive(subtract(number(0), qOffset));
    }
    run.steps = add(add(positive(beyond), run.before), number(1));
    return run;
  }

  Value loopOver(StringRef axis, int64_t step, Value tiles, Value total,
                 function_ref<Value(Value origin, Value total)> body) {
    Value domain = tile::DomainOp::create(builder, loc, axis, step, number(0), tiles);
    auto loop = tile::ForBlocksOp::create(builder, loc, domain, ValueRange(), total);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&loop.getBody().front());
    tile::YieldOp::create(builder, loc, body(loop.getOrigin(), loop.getCarried()[0]));
    return loop.getResult(0);
  }

  Value addRowsOf(const GradientSum &sum, Value view, ArrayRef<Run> runs, const Run &batches, Value b, Value total) {
    Value rows = runs.front().steps;
    for (const Run &run : runs.drop_front())
      rows = multiply(rows, run.steps);
    Value tiles = arith::DivSIOp::create(builder, loc, add(rows, number(blockRows - 1)), number(blockRows));
    return loopOver("row", blockRows, tiles, total, [&](Value row0, Value carried) {
      auto map = tile::MapOp::create(builder, loc, carried.getType(), carried, {{"row", row0}, {"entry", at.back()}});
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&map.getBody().front());
      SmallVector<Value> place(at);
      place.back() = map.getCoordinate("entry");
      Value row = map.getCoordinate("row"), counts = compare(arith::CmpIPredicate::slt, row, rows);
      std::array<Value, 4> coordinates = {b, {}, {}, {}};
      for (const Run &run : runs)
        coordinates[run.coordinate] = coordinateAt(run, place, row, &run == &runs.back(), counts);
      Value element = tile::ElementOp::create(
          builder, loc, f32, view, ValueRange{coordinates[0], coordinates[1], coordinates[sum.ofKeys ? 3 : 2]},
          SmallVector<bool>(3, false));
      counts = both(counts, isOfElement(sum.add, coordinates, place));
      Value counted = arith::SelectOp::create(builder, loc, counts, element, constant(0));
      tile::YieldOp::create(builder, loc, arith::AddFOp::create(builder, loc, map.getElement(0), counted).getResult());
      return tile::named(map.getResult(), "total");
    });
  }

  /// Of each element's long accumulator, one word a row.
  Value addWords(Value total) {
    static_assert(accumulator::words <= blockRows);
    Value view = declare(gradient.addends());
    auto map = tile::MapOp::create(builder, loc, total.getType(), total, {{"row", number(0)}, {"entry", at.back()}});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    Value index = map.getCoordinate("row");
    SmallVector<Value> place(at);
    place.back() = map.getCoordinate("entry");
    place.insert(place.begin(), index);
    Value word = tile::ElementOp::create(builder, loc, builder.getI64Type(), view, place,
                                         SmallVector<bool>(place.size(), false));
    Value counted =
        arith::SelectOp::create(builder, loc, compare(arith::CmpIPredicate::slt, index, number(accumulator::words)),
                                accumulator::valueOf(builder, loc, tile::named(word, "word"), index), constant(0));
    tile::YieldOp::create(builder, loc, arith::AddFOp::create(builder, loc, map.getElement(0), counted).getResult());
    return tile::named(map.getResult(), "total");
  }

  /// The coordinate in row `row`, of which what is left is for the runs behind it; adds to `counts` whether there is one.
  Value coordinateAt(const Run &run, ArrayRef<Value> place, Value &row, bool isLast, Value &counts) {
    Value step = isLast ? row : arith::RemSIOp::create(builder, loc, row, run.steps).getResult();
    if (!isLast)
      row = arith::DivSIOp::create(builder, loc, row, run.steps);
    if (!run.dim)
      return step;
    Value coordinate = add(place[*run.dim], subtract(step, run.before));
    if (run.coordinate == 2 && qOffset)
      coordinate = subtract(coordinate, qOffset);
    counts = both(counts, compare(arith::CmpIPredicate::ult, coordinate, run.count));
    return coordinate;
  }

  /// Whether the indices at these coordinates, clamped, are those of the element.
  Value isOfElement(attn::AddGradientOp of, std::array<Value, 4> coordinates, ArrayRef<Value> place) {
    if (coordinates[2] && qOffset)
      coordinates[2] = add(coordinates[2], qOffset);
    Value isOf;
    for (auto [index, element, extent] : llvm::zip(of.getIndices(), place, extents)) {
      Value own = placeOf(builder, of, index, extent, coordinates);
      isOf = both(isOf, compare(arith::CmpIPredicate::eq, own, element));
    }
    return isOf;
  }

  SmallVector<Value> at, extents; ///< the block's first element; of the tensor
};

/// Sets to zero what no other kernel writes.
class ZerosWriter : public GradientKernelWriter {
public:
  using GradientKernelWriter::GradientKernelWriter;

  tile::KernelOp write() { return gradient.tiles.empty() ? writeAddends() : writeMargins(); }

private:
  tile::KernelOp writeAddends() {
    SmallVector<int64_t> by(rank, 1);
    by.back() = zeroEntries;
    const tile::OperandAttr addends = gradient.addends();
    begin("_zeros_", addends, by, 2 * blockEntries);
    SmallVector<Value> at;
    if (gradient.inAnyOrder)
      at.push_back(tile::named(tile::BlockIndexOp::create(builder, loc, i32, wordAxis), "word"));
    for (unsigned dim = 0; dim < rank; ++dim)
      at.push_back(blockIndex(dim));
    const Type element = addends.getElementType();
    Value zero = arith::ConstantOp::create(builder, loc, cast<TypedAttr>(builder.getZeroAttr(element)));
    Value zeros = tile::SplatOp::create(builder, loc, registers({{"entry", zeroEntries}}, element), zero);
    tile::StoreOp::create(builder, loc, tile::named(zeros, "zeros"), declare(addends), at, extentOf(rank - 1),
                          /*optional=*/false);
    return end();
  }

  /// All but the elements of a (b, h, q, k); these, too, where the loop writes those of the tiles that it visits.
  tile::KernelOp writeMargins() {
    attn::AddGradientOp of = gradient.tiles.front();
    SmallVector<int64_t> by(rank, 1);
    const CoordinateDims dims = dimsOfTile(of);
    by[*dims[2]] = blockRows;
    by[*dims[3]] = zeroColumns;
    begin("_zeros_", gradient.declaration(), by, zeroColumns);
    const std::array<Value, 4> counts = coordinateExtents();
    readQueryOffset();
    Value covered;
    SmallVector<Value> at(rank);
    for (unsigned coordinate : {0u, 1u})
      if (dims[coordinate]) {
        at[*dims[coordinate]] = blockIndex(*dims[coordinate]);
        covered = both(covered, compare(arith::CmpIPredicate::slt, at[*dims[coordinate]], counts[coordinate]));
      }
    const bool hides = !op.getMask().empty() || op.getPatternAttr();
    Value clears = hides && isWrittenByLoop(gradient) ? isUnshared(builder, loc, gradient, {counts[0], counts[1]},
                                                                   [&](unsigned dim) { return extentOf(dim); })
                                                      : Value();
    if (clears) {
      Value isKept = arith::XOrIOp::create(builder, loc, clears, arith::ConstantIntOp::create(builder, loc, 1, 1));
      covered = both(covered, isKept);
    }
    const tile::OperandAttr declared = gradient.declaration();
    Value view = declare(declared), row0 = blockIndex(*dims[2]), column0 = blockIndex(*dims[3]);
    const TileType type = registers({{"row", blockRows}, {"column", zeroColumns}}, f32);
    Value zeros = tile::named(tile::SplatOp::create(builder, loc, type, constant(0)), "zeros");
    if (covered) {
      // Batches and heads of which no other kernel writes: all of the block.
      SmallVector<Value> all = at;
      leaveOut(covered, dims, all);
      auto along = [&](StringRef axis, int64_t size, Value origin, StringRef name) {
        auto map = tile::MapOp::create(builder, loc, registers({{axis, size}}, i32), ValueRange(), {{axis, origin}});
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(&map.getBody().front());
        tile::YieldOp::create(builder, loc, Value(map.getCoordinate(axis)));
        return tile::named(map.getResult(), name);
      };
      all[*dims[2]] = along("row", blockRows, row0, "all_rows");
      all[*dims[3]] = along("column", zeroColumns, column0, "all_columns");
      tile::ScatterOp::create(builder, loc, zeros, view, all, /*add=*/false);
    }
    // Of the others what lies beyond the sequences.
    leaveOut(isNothingLeft(covered, isWhole(covered, row0, column0, counts)), dims, at);
    auto indices = [&](StringRef name, bool ofRows) {
      auto map = tile::MapOp::create(builder, loc, type.withElementType(i32), ValueRange(),
                                     {{"row", row0}, {"column", column0}});
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&map.getBody().front());
      Value row = map.getCoordinate("row"), column = map.getCoordinate("column");
      Value isWritten = both(compare(arith::CmpIPredicate::ult, qOffset ? subtract(row, qOffset) : row, counts[2]),
                             compare(arith::CmpIPredicate::slt, column, counts[3]));
      tile::YieldOp::create(
          builder, loc,
          arith::SelectOp::create(builder, loc, isWritten, number(-1), ofRows ? row : column).getResult());
      return tile::named(map.getResult(), name);
    };
    at[*dims[2]] = indices("rows", true);
    at[*dims[3]] = indices("columns", false);
    tile::ScatterOp::create(builder, loc, zeros, view, at, /*add=*/false);
    return end();
  }

  /// Beside what was written for batches and heads that are not covered nothing is left, nor where others write the block.
  Value isNothingLeft(Value covered, Value isWhole) {
    if (!covered)
      return isWhole;
    Value isFree = arith::XOrIOp::create(builder, loc, covered, arith::ConstantIntOp::create(builder, loc, 1, 1));
    return tile::named(arith::OrIOp::create(builder, loc, isFree, isWhole).getResult(), "nothing_left");
  }

  /// Whether other kernels write all elements of the block, those of these batches and heads being `covered`.
  Value isWhole(Value covered, Value row, Value column, const std::array<Value, 4> &counts) {
    if (qOffset)
      row = subtract(row, qOffset);
    covered = both(covered, compare(arith::CmpIPredicate::sge, row, number(0)));
    covered = both(covered, compare(arith::CmpIPredicate::sle, add(row, number(blockRows)), counts[2]));
    covered = both(covered, compare(arith::CmpIPredicate::sle, add(column, number(zeroColumns)), counts[3]));
    return tile::named(covered, "whole");
  }

  /// A block that has nothing to write asks no element: one of its places is none.
  void leaveOut(Value isWhole, const CoordinateDims &dims, SmallVector<Value> &at) {
    for (unsigned coordinate : {0u, 1u})
      if (dims[coordinate]) {
        Value &place = at[*dims[coordinate]];
        place = arith::SelectOp::create(builder, loc, isWhole, number(-1), place);
        return;
      }
  }
};

} // namespace

tile::KernelOp attune::writeGradientKernel(attn::AttentionOp op, const CapturedGradient &gradient,
                                           tile::KernelOp like) {
  return GradientSumWriter(op, gradient, like).write();
}

tile::KernelOp attune::writeZerosKernel(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like) {
  return ZerosWriter(op, gradient, like).write();
}
