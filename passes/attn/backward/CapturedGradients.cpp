//===- CapturedGradients.cpp - Gradients of captured tensors -------------------===//

#include "passes/attn/backward/CapturedGradients.h"
#include "attune/Signature.h"
#include "passes/analysis/score/Distances.h"
#include "passes/attn/LongAccumulator.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace attune;
using tile::TileType;

//===----------------------------------------------------------------------===//
// Operands for gradients of captured tensors, and what the indices of captured tensors depend on
//===----------------------------------------------------------------------===//

/// The declaration of an operand with these axes. `words` is the extent of a leading axis for the words of long
/// accumulators; 0 leaves that axis out.
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

static std::string operandName(const CapturedGradient &gradient) {
  return std::string(gradientPrefix) + gradient.tensor.getName().str();
}

tile::OperandAttr CapturedGradient::declaration() const {
  return operandOver(tensor.getContext(), operandName(*this), OperandRole::Out, axesOf(*this), tensor.getElementType());
}

tile::OperandAttr CapturedGradient::addends() const {
  Builder builder(tensor.getContext());
  const Type element = inAnyOrder ? Type(builder.getI64Type()) : Type(builder.getF32Type());
  return operandOver(tensor.getContext(), operandName(*this) + ".addends", OperandRole::Workspace, axesOf(*this),
                     element, inAnyOrder ? accumulator::words : 0);
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

/// Clamps `index`, of i32 or i64, to [0, extent) and returns it as i32.
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

Value attune::isUnshared(TileWriter &writer, const CapturedGradient &gradient, std::array<Value, 2> counts,
                         function_ref<Value(unsigned)> extentOf) {
  const CoordinateDims dims = dimsOfTile(gradient.tiles.front());
  Value all;
  for (unsigned coordinate : {0u, 1u}) {
    // count <= most is tested as count - 1 < most, unsigned. A count of 0 wraps, so the test is false; no gradient is
    // written then.
    Value one = writer.number(1), most = dims[coordinate] ? extentOf(*dims[coordinate]) : one;
    Value before = writer.subtract(counts[coordinate], one);
    all = writer.both(all, writer.compare(arith::CmpIPredicate::ult, before, most));
  }
  return tile::named(all, "unshared");
}

namespace {

/// The inputs of a gradient region that a value is computed from.
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

/// Whether every index is a coordinate, each coordinate occurs at most once, and both q and k occur.
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
                               operandName(gradient) + (ofKeys ? ".keys" : ".rows") +
                                   (gradient.sums.empty() ? "" : std::to_string(gradient.sums.size()))});
      return success();
    }
    gradient.scattered.push_back(add);
    return success();
  }

  attn::AttentionOp op;
};

} // namespace

/// Classifies the values of the region around `add` by whether they depend on q - k alone.
static DistanceValues distancesAround(attn::AddGradientOp add) {
  const auto [b, h, q, k] = coordinatesAround(add);
  return {*add->getBlock(), q, k, [b = b, h = h](BlockArgument argument) { return argument == b || argument == h; }};
}

bool attune::followsFromDistance(attn::AddGradientOp add) {
  return add->getParentRegion() == &add->getParentOfType<attn::AttentionOp>().getScoreGrad() &&
         llvm::all_of(add.getIndices(),
                      [values = distancesAround(add)](Value index) { return values.contains(index); });
}

bool attune::sharesPlaces(attn::AddGradientOp add) {
  return llvm::none_of(add.getIndices(), [values = distancesAround(add)](Value index) { return values.counts(index); });
}

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
