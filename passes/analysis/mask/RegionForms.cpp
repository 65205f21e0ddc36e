//===- RegionForms.cpp - Values of a mask region as linear forms of q and k ===//

#include "passes/analysis/mask/RegionForms.h"

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

RegionForms::RegionForms(attn::AttentionOp op, OpBuilder &builder, const BlockValues &values, BoundsTables *tables,
                         Value tile)
    : BlockIntegers(op.getLoc(), &builder), op(op), values(values), tables(tables) {
  Axis q = {2, values.tileQ, base(values.Sq, {0, maxExtent})}, k = {3, values.tileK, base(values.Sk, {0, maxExtent})};
  if (values.qOffset)
    q.offset = base(values.qOffset, {-maxExtent, maxExtent});
  bool keysFixed = values.fixed() == MaskAxis::Keys;
  fixedAxis = keysFixed ? k : q;
  loopedAxis = keysFixed ? q : k;
  fixedBegin = base(values.first(), {0, maxExtent - 1});
  if (tile)
    loopedTile = base(tile, {0, maxExtent / loopedAxis.tile});
}

RegionForms::RegionForms(attn::AttentionOp op, MaskAxis fixed, int64_t first, const MaskSizes &sizes,
                         std::optional<int64_t> tile)
    : BlockIntegers(op.getLoc(), nullptr), op(op), fixedBegin(constantOf(first)) {
  Axis q = {2, sizes.tileQ, constantOf(sizes.Sq), constantOf(sizes.qOffset)},
       k = {3, sizes.tileK, constantOf(sizes.Sk)};
  fixedAxis = fixed == MaskAxis::Keys ? k : q;
  loopedAxis = fixed == MaskAxis::Keys ? q : k;
  if (tile)
    loopedTile = constantOf(*tile);
}

const Linear &RegionForms::fixedEnd() {
  if (!fixedEndValue) {
    Linear end = addConstant(fixedBegin, fixedAxis.tile);
    // A tile of one row ends at row + 1. This end need not be clamped to the number of rows, because the results of a
    // row past the end of the sequence are never stored.
    fixedEndValue = fixedAxis.tile == 1 && builder ? end : minimum(end, fixedAxis.count);
    if (fixedEndValue->terms.size() == 1 && !(*fixedEndValue == fixedAxis.count)) {
      Value end = fixedEndValue->terms[0].first;
      // fixedBegin < end holds for a thread block's tile, but one warpgroup's part of the rows may begin past the
      // number of rows.
      if (!values.part && fixedBegin.terms.size() == 1 && fixedBegin.constant == 0) {
        differences.push_back({fixedBegin.terms[0].first, end, -1});
        differences.push_back({end, fixedBegin.terms[0].first, fixedAxis.tile});
      }
      if (!fixedAxis.count.terms.empty())
        differences.push_back({end, fixedAxis.count.terms[0].first, 0});
      if (Operation *definition = end.getDefiningOp())
        tile::named(definition->getResult(0), (fixedAxis.name() + "_end").str());
    }
  }
  return *fixedEndValue;
}

Value RegionForms::atBlock(Value value) {
  if (value.getParentRegion() != &op.getMask())
    return value;
  if (Value known = cloned.lookupOrNull(value))
    return known;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    assert(argument.getArgNumber() < 2 && "q and k are not uniform");
    return argument.getArgNumber() == 0 ? values.b : values.h;
  }
  Operation *definition = value.getDefiningOp();
  SmallVector<Value> operands;
  for (Value operand : definition->getOperands())
    operands.push_back(atBlock(operand));
  Value result;
  if (auto load = dyn_cast<attn::LoadOp>(definition)) {
    attn::CapturedTensorAttr tensor = op.findTensor(load.getName());
    result = tile::ElementOp::create(*builder, load.getLoc(), load.getType(), tensorView(tensor), operands,
                                     SmallVector<bool>(operands.size(), false));
    tile::named(result, load.getName());
  } else if (auto search = dyn_cast<attn::SearchOp>(definition)) {
    result = tile::SearchOp::create(*builder, search.getLoc(), search.getType(),
                                    tensorView(op.findTensor(search.getName())), operands.front(), search.getRight());
    tile::named(result, attn::nameOfSearch(search.getName()));
  } else if (auto scalar = dyn_cast<attn::ScalarOp>(definition)) {
    result = scalarValue(scalar.getName(), scalar.getType());
  } else if (auto extent = dyn_cast<attn::ExtentOp>(definition)) {
    result = extentValue(extent.getName());
  } else {
    for (auto [from, to] : llvm::zip_equal(definition->getOperands(), operands))
      cloned.map(from, to);
    result = builder->clone(*definition, cloned)->getResult(0);
  }
  cloned.map(value, result);
  return result;
}

Value RegionForms::parameter(StringRef name, Type type) {
  Value &known = parameters[name.str()];
  if (!known)
    known = tile::named(tile::ParamOp::create(*builder, loc, type, name), name);
  return known;
}

Value RegionForms::tensorView(attn::CapturedTensorAttr tensor) {
  Value &known = parameters[("tensors." + tensor.getName().getValue()).str()];
  if (!known)
    known = tile::readTensor(*builder, loc, tensor);
  return known;
}

Value RegionForms::scalarValue(StringRef name, Type type) {
  Value &known = parameters[("scalars." + name).str()];
  if (!known)
    known = tile::readScalar(*builder, loc, name, type);
  return known;
}

Value RegionForms::extentValue(StringRef name) {
  return name == "B" ? values.B : name == "H" ? values.H : name == "Sq" ? values.Sq : values.Sk;
}

unsigned RegionForms::argumentsOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return 1u << argument.getArgNumber();
  if (auto known = dependence.find(value); known != dependence.end())
    return known->second;
  unsigned result = 0;
  for (Value operand : value.getDefiningOp()->getOperands())
    result |= argumentsOf(operand);
  return dependence[value] = result;
}

Form RegionForms::form(Value value) {
  if (auto known = forms.find(value); known != forms.end())
    return known->second;
  Form result = computeForm(value);
  if (result.values.isPoint() && !result.constant())
    result = exactly(constantOf(result.values.lo), result.values);
  return forms[value] = result;
}

Form RegionForms::exactly(const Linear &value, Range range) {
  Form result;
  result.lo = result.hi = value;
  result.values = range;
  return result;
}

Form RegionForms::anything(Range range) {
  Form result;
  result.lo = constantOf(range.lo);
  result.hi = constantOf(range.hi);
  result.values = range;
  return result;
}

Form RegionForms::opaque(Value value, Range range) {
  if (!isUniform(value)) {
    Form result = anything(range);
    if (auto ends = endsInMemory(value)) {
      result.lo = base(ends->first, range);
      result.hi = base(ends->second, range);
    }
    return result;
  }
  if (builder)
    return exactly(base(value, range), range);
  Operation *definition = value.getDefiningOp();
  if (!definition || definition->getNumOperands() == 0)
    return exactly(unknownLinear(), range);
  SmallVector<Attribute> operands;
  for (Value operand : definition->getOperands()) {
    if (!isa<IntegerType>(operand.getType()) || operand.getType().isInteger(1))
      return exactly(unknownLinear(), range);
    std::optional<int64_t> constant = form(operand).constant();
    if (!constant)
      return exactly(unknownLinear(), range);
    operands.push_back(IntegerAttr::get(operand.getType(), *constant));
  }
  SmallVector<OpFoldResult> results;
  if (succeeded(definition->fold(operands, results)) && results.size() == 1)
    if (auto attribute = dyn_cast<Attribute>(results[0]))
      if (auto integer = dyn_cast<IntegerAttr>(attribute))
        return exactly(constantOf(integer.getValue().getSExtValue()), range);
  return exactly(unknownLinear(), range);
}

std::optional<mask::Range> RegionForms::unwrapped(Value value, Wide a, Wide b) {
  Range type = rangeOf(value.getType());
  Wide lo = std::min(a, b), hi = std::max(a, b);
  if (lo < type.lo || hi > type.hi)
    return std::nullopt;
  return Range{int64_t(lo), int64_t(hi)};
}

Form RegionForms::scaled(const Form &x, int64_t factor, Range range) {
  Form result;
  result.values = range;
  bool large = __builtin_mul_overflow(x.looped, factor, &result.looped) ||
               __builtin_mul_overflow(x.fixed, factor, &result.fixed);
  if (large || factor == 0)
    return anything(range);
  result.divisor = x.divisor;
  result.lo = scale(factor > 0 ? x.lo : x.hi, factor);
  result.hi = scale(factor > 0 ? x.hi : x.lo, factor);
  return result;
}

Form RegionForms::signedForm(const Form &x, bool negative) {
  if (!negative)
    return x;
  return scaled(x, -1, x.values.lo == int64Range.lo ? int64Range : Range{-x.values.hi, -x.values.lo});
}

Form RegionForms::sum(Form x, Form y, Range range) {
  if (x.looped && y.looped && x.divisor != y.divisor)
    collapseLooped(x.divisor == 1 ? y : x);
  Form result;
  result.values = range;
  bool large = __builtin_add_overflow(x.looped, y.looped, &result.looped) ||
               __builtin_add_overflow(x.fixed, y.fixed, &result.fixed);
  if (large)
    return anything(range);
  result.divisor = !result.looped ? 1 : x.looped ? x.divisor : y.divisor;
  result.lo = add(x.lo, y.lo);
  result.hi = add(x.hi, y.hi);
  return result;
}

void RegionForms::collapseLooped(Form &x) {
  if (!x.looped)
    return;
  Linear least = add(loopedTile ? scale(*loopedTile, loopedAxis.tile) : constantOf(0), loopedAxis.offset);
  Linear most = loopedTile ? addConstant(least, loopedAxis.tile - 1) : addConstant(add(least, loopedAxis.count), -1);
  Linear first = scale(divide(least, x.divisor), x.looped), last = scale(divide(most, x.divisor), x.looped);
  x.lo = add(x.lo, x.looped > 0 ? first : last);
  x.hi = add(x.hi, x.looped > 0 ? last : first);
  x.looped = 0;
  x.divisor = 1;
}

void RegionForms::collapseFixed(Form &x) {
  if (!x.fixed)
    return;
  Linear first = scale(firstFixed(), x.fixed), last = scale(lastFixed(), x.fixed);
  x.lo = add(x.lo, x.fixed > 0 ? first : last);
  x.hi = add(x.hi, x.fixed > 0 ? last : first);
  x.fixed = 0;
}

Form RegionForms::collapsed(Form x) {
  collapseLooped(x);
  collapseFixed(x);
  return x;
}

Form RegionForms::joined(Form x, Form y, Range range, function_ref<Linear(const Linear &, const Linear &)> low,
                         function_ref<Linear(const Linear &, const Linear &)> high) {
  if (!x.sameCoefficients(y)) {
    x = collapsed(x);
    y = collapsed(y);
  }
  Form result = x;
  result.values = range;
  result.lo = low(x.lo, y.lo);
  result.hi = high(x.hi, y.hi);
  return result;
}

Form RegionForms::computeForm(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argumentForm(argument);
  Type type = value.getType();
  if (!isa<IntegerType>(type))
    return anything(int64Range);
  Operation *definition = value.getDefiningOp();
  bool isBool = type.isInteger(1);
  if (auto constant = dyn_cast<arith::ConstantOp>(definition)) {
    const APInt &bits = cast<IntegerAttr>(constant.getValue()).getValue();
    int64_t number = isBool ? bits.getZExtValue() : bits.getSExtValue();
    return exactly(constantOf(number), {number, number});
  }
  if (auto extent = dyn_cast<attn::ExtentOp>(definition))
    return extentForm(extent);
  if (isa<arith::AddIOp, arith::SubIOp>(definition))
    return sumForm(definition);
  if (isa<arith::MulIOp, arith::ShLIOp>(definition))
    return productForm(definition);
  if (isa<arith::ExtSIOp>(definition) && !definition->getOperand(0).getType().isInteger(1))
    return form(definition->getOperand(0));
  if (isa<arith::TruncIOp>(definition) && !isBool) {
    Form x = form(definition->getOperand(0));
    return x.values.within(rangeOf(type)) ? x : opaque(value);
  }
  if (isa<arith::ExtUIOp>(definition))
    return opaque(value, {0, 1});
  if (auto truncation = dyn_cast<arith::FPToSIOp>(definition)) {
    const dsl::Range range = floats.ofTruncated(truncation);
    return opaque(value, {range.low, range.high});
  }
  if (isa<attn::SearchOp>(definition))
    return opaque(value, {0, int32Range.hi});
  // The remaining operations are not linear. A uniform result is computed as written, any other result gets bounds.
  if (isa<arith::DivSIOp, arith::ShRSIOp>(definition))
    return quotientForm(definition);
  if (isa<arith::RemSIOp>(definition))
    return remainderForm(definition);
  if (std::optional<unsigned> axis = axisOfLength(value))
    return exactly(axisOf(*axis).count, {0, maxExtent});
  if (isa<arith::MinSIOp, arith::MaxSIOp>(definition))
    return extremeForm(definition);
  if (isa<arith::SelectOp>(definition) && !isBool)
    return choiceForm(definition);
  if (isa<math::AbsIOp>(definition))
    return absoluteForm(definition);
  if (isa<arith::AndIOp>(definition) && !isBool) {
    Range x = form(definition->getOperand(0)).values, y = form(definition->getOperand(1)).values;
    if (x.lo >= 0 || y.lo >= 0)
      return opaque(value, {0, x.lo < 0 ? y.hi : y.lo < 0 ? x.hi : std::min(x.hi, y.hi)});
  }
  return opaque(value);
}

Form RegionForms::argumentForm(BlockArgument argument) {
  Range counted = {0, int32Range.hi - 1};
  if (argument.getArgNumber() < 2)
    return builder ? exactly(base(argument.getArgNumber() == 0 ? values.b : values.h, counted), counted)
                   : exactly(unknownLinear(), counted);
  Form result;
  (argument.getArgNumber() == fixedAxis.argument ? result.fixed : result.looped) = 1;
  result.values = {0, maxExtent - 1};
  if (argument.getArgNumber() == 2 && op.getQOffset())
    result.values = {-maxExtent, 2 * maxExtent - 1};
  return result;
}

Form RegionForms::extentForm(attn::ExtentOp extent) {
  if (extent.getName() == "Sq" || extent.getName() == "Sk")
    return exactly(axisOf(extent.getName() == "Sq" ? 2 : 3).count, {0, maxExtent});
  Range counted = {0, int32Range.hi};
  return builder ? exactly(base(extentValue(extent.getName()), counted), counted) : exactly(unknownLinear(), counted);
}

std::optional<unsigned> RegionForms::axisOfLength(Value value) {
  // For min(max(x, 0), capacity), the operation that defines x; null for any other value.
  auto clamped = [](Value of) -> Operation * {
    auto least = of ? of.getDefiningOp<arith::MinSIOp>() : arith::MinSIOp();
    auto greatest = least ? least.getLhs().getDefiningOp<arith::MaxSIOp>() : arith::MaxSIOp();
    return greatest && matchPattern(greatest.getRhs(), m_Zero()) ? greatest.getLhs().getDefiningOp() : nullptr;
  };
  auto load = dyn_cast_or_null<attn::LoadOp>(clamped(value));
  if (!builder || !load || load.getIndices().size() != 1 || load.getIndices().front() != op.getMask().getArgument(0))
    return std::nullopt;
  for (auto [axis, count, name] : {std::tuple(2u, values.Sq, StringRef("Sq")), {3u, values.Sk, StringRef("Sk")}}) {
    auto element = dyn_cast_or_null<tile::ElementOp>(clamped(count));
    auto capacity = value.getDefiningOp<arith::MinSIOp>().getRhs().getDefiningOp<attn::ExtentOp>();
    if (element && capacity && capacity.getName() == name && element.getIndices().front() == values.b &&
        tile::capturedTensorOf(element.getView()).getName() == load.getName())
      return axis;
  }
  return std::nullopt;
}

Form RegionForms::sumForm(Operation *definition) {
  Value value = definition->getResult(0);
  Form x = form(definition->getOperand(0)), y = form(definition->getOperand(1));
  if (isa<arith::SubIOp>(definition)) {
    if (y.values.lo == int64Range.lo)
      return opaque(value);
    y = scaled(y, -1, {-y.values.hi, -y.values.lo});
  }
  auto range = unwrapped(value, Wide(x.values.lo) + y.values.lo, Wide(x.values.hi) + y.values.hi);
  return range ? sum(x, y, *range) : opaque(value);
}

Form RegionForms::productForm(Operation *definition) {
  Value value = definition->getResult(0);
  bool shift = isa<arith::ShLIOp>(definition);
  if (shift && !form(definition->getOperand(1)).constant())
    return opaque(value);
  Form x = form(definition->getOperand(0)), y = form(definition->getOperand(1));
  if (shift) {
    if (uint64_t(*y.constant()) >= value.getType().getIntOrFloatBitWidth() - 1)
      return opaque(value);
    int64_t factor = int64_t(1) << *y.constant();
    y = exactly(constantOf(factor), {factor, factor});
  }
  if (x.constant())
    std::swap(x, y);
  Wide a = Wide(x.values.lo) * y.values.lo, b = Wide(x.values.lo) * y.values.hi, c = Wide(x.values.hi) * y.values.lo,
       d = Wide(x.values.hi) * y.values.hi;
  auto range = unwrapped(value, std::min({a, b, c, d}), std::max({a, b, c, d}));
  if (!range)
    return opaque(value);
  return y.constant() ? scaled(x, *y.constant(), *range) : opaque(value, *range);
}

Form RegionForms::quotientForm(Operation *definition) {
  Value value = definition->getResult(0);
  std::optional<int64_t> by = form(definition->getOperand(1)).constant();
  if (!by)
    return opaque(value);
  bool shift = isa<arith::ShRSIOp>(definition);
  int64_t divisor = !shift ? *by : *by >= 0 && *by < 62 ? int64_t(1) << *by : 0;
  Form x = form(definition->getOperand(0));
  // The quotient in a form rounds towards zero, as the DSL's division does, but an arithmetic shift rounds down. Both
  // agree for x >= 0 only.
  if (divisor <= 0 || (shift && x.values.lo < 0))
    return opaque(value);
  Range range = {x.values.lo / divisor, x.values.hi / divisor};
  if (isUniform(value))
    return opaque(value, range);
  if (x.looped == 1 && x.fixed == 0 && x.lo == constantOf(0) && x.hi == constantOf(0)) {
    if (!__builtin_mul_overflow(x.divisor, divisor, &x.divisor) && x.divisor <= 2 * maxExtent) {
      x.values = range;
      return x;
    }
    return anything(range);
  }
  x = collapsed(x);
  Linear lo = divide(x.lo, divisor), hi = x.lo == x.hi ? lo : divide(x.hi, divisor);
  Form result = exactly(lo, range);
  result.hi = hi;
  return result;
}

Form RegionForms::remainderForm(Operation *definition) {
  Value value = definition->getResult(0);
  std::optional<int64_t> divisor = form(definition->getOperand(1)).constant();
  if (!divisor || *divisor == 0 || *divisor == int64Range.lo)
    return opaque(value);
  Form x = form(definition->getOperand(0));
  const int64_t size = std::abs(*divisor), most = size - 1;
  if (x.values.within({-most, most}))
    return x;
  const Range range = {x.values.lo < 0 ? std::max(-most, x.values.lo) : 0,
                       x.values.hi > 0 ? std::min(most, x.values.hi) : 0};
  if (isUniform(value))
    return opaque(value, range);
  if (x.looped && !loopedTile)
    return anything(range);
  // If x.lo and x.hi have the same quotient, the remainder of x lies between the remainders of x.lo and x.hi.
  x = collapsed(x);
  const Linear length = subtract(x.hi, x.lo);
  if (x.lo.unknown || x.hi.unknown || x.lo.tooLarge || x.hi.tooLarge || length.tooLarge || length.range.lo >= size)
    return anything(range);
  const Linear quotient = divide(x.lo, size), before = scale(quotient, size);
  const Condition follows = both(lessEqual(constantOf(0), x.lo), lessEqual(divide(x.hi, size), quotient));
  Form result = anything(range);
  result.lo = select(follows, subtract(x.lo, before), result.lo);
  result.hi = select(follows, subtract(x.hi, before), result.hi);
  return result;
}

Form RegionForms::extremeForm(Operation *definition) {
  Value value = definition->getResult(0);
  bool isMax = isa<arith::MaxSIOp>(definition);
  const Form x = form(definition->getOperand(0)), y = form(definition->getOperand(1));
  Range range = isMax ? Range{std::max(x.values.lo, y.values.lo), std::max(x.values.hi, y.values.hi)}
                      : Range{std::min(x.values.lo, y.values.lo), std::min(x.values.hi, y.values.hi)};
  if (isUniform(value))
    return opaque(value, range);
  auto combine = [&](const Linear &a, const Linear &b) { return isMax ? maximum(a, b) : minimum(a, b); };
  return joined(x, y, range, combine, combine);
}

Form RegionForms::choiceForm(Operation *select) {
  Value value = select->getResult(0);
  if (std::optional<bool> known = floats.holds(select->getOperand(0)))
    return form(select->getOperand(*known ? 1 : 2));
  const Form x = form(select->getOperand(1)), y = form(select->getOperand(2));
  const Range range = hull(x.values, y.values);
  // A select whose operands would be bounded by per-tile tables gets one table for its result, instead of one for each
  // operand. (A DSL quotient by a run-time scalar is lowered to such a select.)
  if (isUniform(value) ||
      (dependsOnOneAxis(value) && (readsMemory(value, fixedAxis) || readsMemory(value, loopedAxis))))
    return opaque(value, range);
  const Choice choice = choiceOf(select->getOperand(0));
  auto chosen = [&](const Linear &a, const Linear &b, const Linear &either) {
    return this->select(choice.always, a, this->select(choice.never, b, either));
  };
  return joined(
      x, y, range, [&](const Linear &a, const Linear &b) { return chosen(a, b, minimum(a, b)); },
      [&](const Linear &a, const Linear &b) { return chosen(a, b, maximum(a, b)); });
}

Form RegionForms::absoluteForm(Operation *definition) {
  Value value = definition->getResult(0);
  Form x = form(definition->getOperand(0));
  if (x.values.lo == rangeOf(value.getType()).lo)
    return opaque(value);
  Range range = {std::max<int64_t>({x.values.lo, -x.values.hi, 0}), std::max(-x.values.lo, x.values.hi)};
  if (isUniform(value))
    return opaque(value, range);
  x = collapsed(x);
  Form result = x;
  result.values = range;
  result.lo = maximum(maximum(x.lo, scale(x.hi, -1)), constantOf(0));
  result.hi = maximum(x.hi, scale(x.lo, -1));
  return result;
}
