//===- Elementwise.cpp - Loop nests over the elements of tiles ------------===//

#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

namespace attune::cpu {

Value Lowering::readTile(Value value, const Position &at) {
  const Storage &tile = storage.find(value)->second;
  Type element = tile.type.getElementType();
  StringRef inner = at.type.axis(at.innerIndex);
  if (tile.type.rank() == 2) {
    Order order = orderWithInner(tile.type, tile.type.findAxis(inner));
    assert(tile.has(order) && "the order was foreseen");
    Value index = add(mul(at.outer, constI64(tile.type.size(inner))), at.inner);
    return loadScratch(tile.offset[order], element, index, at.lanes);
  }
  if (tile.type.axis(0) == inner)
    return loadScratch(tile.offset[Listed], element, at.inner, at.lanes);
  return loadScratch(tile.offset[Listed], element, at.outer, 1);
}

Value Lowering::coordinateAt(StringRef axis, Value origin, const Position &at) {
  if (origin.getType().isF32()) {
    Value offset = coordinateAt(axis, arith::ConstantIntOp::create(b, 0, 32), at);
    Type type = offset.getType().isInteger() ? Type(b.getF32Type()) : VectorType::get({at.lanes}, b.getF32Type());
    Value start = isa<VectorType>(type) ? widen(origin, at.lanes) : origin;
    return arith::AddFOp::create(b, start, arith::SIToFPOp::create(b, type, offset));
  }
  if (axis != at.type.axis(at.innerIndex))
    return add(origin, arith::TruncIOp::create(b, i32, at.outer));
  Value first = add(origin, arith::TruncIOp::create(b, i32, at.inner));
  if (at.lanes == 1)
    return first;
  SmallVector<int32_t> lanes(at.lanes);
  std::iota(lanes.begin(), lanes.end(), 0);
  auto type = VectorType::get({at.lanes}, i32);
  return add(widen(first, at.lanes), arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(lanes))));
}

Value Lowering::evaluateMap(MapOp map, const Position &at, function_ref<Value(Value)> read) {
  auto evaluate = [&]() -> Value {
    SmallVector<Value> elements, coordinates;
    for (Value input : map.getInputs())
      elements.push_back(read(input));
    for (auto [axis, origin] : llvm::zip(map.getAxes().getAsValueRange<StringAttr>(), map.getOrigins()))
      coordinates.push_back(coordinateAt(axis, lookup(origin), at));
    return lowerMapBody(map, elements, coordinates);
  };
  if (!map.getOnlyIf() || map.getInputs().empty())
    return evaluate();
  Value plain = widen(read(map.getInputs()[0]), at.lanes);
  auto choice = scf::IfOp::create(b, TypeRange{plain.getType()}, lookup(map.getOnlyIf()), true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, widen(evaluate(), at.lanes));
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, plain);
  return choice.getResult(0);
}

Value Lowering::identityOf(Reduction kind, Type type) {
  return kind == Reduction::Sum ? zeroOf(type) : constant(tile::identityOf(kind, getElementTypeOrSelf(type)), type);
}

Value Lowering::combine(Reduction kind, Value accumulator, Value value) {
  if (!isa<FloatType>(getElementTypeOrSelf(value.getType()))) {
    if (kind == Reduction::Max)
      return arith::MaxSIOp::create(b, accumulator, value);
    return kind == Reduction::Min ? arith::MinSIOp::create(b, accumulator, value) : add(accumulator, value);
  }
  if (kind == Reduction::Sum)
    return arith::AddFOp::create(b, accumulator, value);
  const auto beyond = kind == Reduction::Max ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
  return select(arith::CmpFOp::create(b, beyond, value, accumulator), value, accumulator);
}

Lowering::Group Lowering::makeGroup(ArrayRef<Operation *> ops) {
  Group group;
  auto &[at, members, random, outputs, reductions, innerReductions, lines] = group;
  at.type = visitedType(ops.front());
  at.innerIndex = innerAxis(at.type);
  StringRef inner = at.type.axis(at.innerIndex);
  at.lanes = lanesFor(at.type.size(inner));

  members.insert(ops.begin(), ops.end());
  for (Operation *op : ops) {
    if (auto dropout = dyn_cast<DropoutOp>(op))
      random[op] = randomNumbers(dropout);
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<TileType>(operand.getType()); type && type.rank() == 1 && type.axis(0) == inner &&
                                                             !members.contains(operand.getDefiningOp()) &&
                                                             at.type.rank() == 2 && !llvm::is_contained(lines, operand))
        lines.push_back(operand);
    if (auto reduce = dyn_cast<ReduceOp>(op))
      (reduce.getAxis() == inner ? innerReductions : reductions).push_back(reduce);
  }
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      bool used = llvm::any_of(result.getUsers(), [&](Operation *user) {
        Operation *local = ancestorIn(op->getBlock(), user);
        return !members.contains(local);
      });
      if (isa<ReduceOp>(op))
        outputs[result] = target.contains(result) ? storage[target[result]].offset[Listed]
                                                  : allocate(bytesOf(cast<TileType>(result.getType())));
      else if (used)
        outputs[result] = allocateResult(result, ops);
    }
  return group;
}

void Lowering::initReductions(Group &group) {
  const TileType visited = group.at.type;
  const int64_t outerSize = visited.rank() == 2 ? visited.getShape()[1 - group.at.innerIndex] : 1;
  for (ReduceOp reduce : group.innerReductions) {
    Type element = valueType(reduce.getType().getElementType());
    loop(outerSize, 1, [&](Value i) {
      Value init = reduce.getInit() ? loadScratch(storage.find(reduce.getInit())->second.offset[Listed],
                                                  reduce.getType().getElementType(), i, 1)
                                    : identityOf(reduce.getKind(), element);
      storeScratch(init, group.outputs[reduce.getResult()], reduce.getType().getElementType(), i, 1);
    });
  }
}

void Lowering::reduceElement(Group &group, ReduceOp reduce, Value element, SmallVectorImpl<Value> &next) {
  Value value = widen(element, group.at.lanes);
  auto position = llvm::find(group.reductions, reduce);
  if (position != group.reductions.end()) {
    Value &accumulator = next[position - group.reductions.begin()];
    accumulator = combine(reduce.getKind(), accumulator, value);
  } else {
    reduceLanes(reduce, value, group.outputs[reduce.getResult()], group.at);
  }
}

Value Lowering::evaluate(Group &group, Operation *op, function_ref<Value(Value)> read) {
  if (auto map = dyn_cast<MapOp>(op))
    return evaluateMap(map, group.at, read);
  if (auto splat = dyn_cast<SplatOp>(op))
    return lookup(splat.getValue());
  return read(op->getOperand(0));
}

void Lowering::lowerGroup(ArrayRef<Operation *> ops) {
  Group group = makeGroup(ops);
  initReductions(group);
  Position &at = group.at;
  const int64_t innerSize = at.type.getShape()[at.innerIndex];
  const int64_t outerSize = at.type.rank() == 2 ? at.type.getShape()[1 - at.innerIndex] : 1;
  loop(innerSize, at.lanes, [&](Value j) {
    at.inner = j;
    at.outer = {};
    DenseMap<Value, Value> lineValues;
    for (Value line : group.lines)
      lineValues[line] = readTile(line, at);
    SmallVector<Value> accumulators;
    for (ReduceOp reduce : group.reductions) {
      Type element = valueType(reduce.getType().getElementType());
      accumulators.push_back(reduce.getInit() ? lineValues[reduce.getInit()]
                                              : identityOf(reduce.getKind(), vectorOf(element, at.lanes)));
    }
    accumulators = loop(outerSize, 1, accumulators, [&](Value i, ValueRange carried) {
      at.outer = i;
      DenseMap<Value, Value> current = lineValues;
      auto read = [&](Value value) {
        Value &found = current[value];
        if (!found)
          found = readTile(value, at);
        return found;
      };
      // Read all inputs first: a conditional map (only_if) is lowered to a branch, and values read inside the branch
      // would not dominate later uses.
      for (Operation *op : ops)
        for (Value operand : op->getOperands())
          if (isa<TileType>(operand.getType()) && !group.members.contains(operand.getDefiningOp()) &&
              !(isa<ReduceOp>(op) && operand == cast<ReduceOp>(op).getInit()))
            read(operand);
      SmallVector<Value> next(carried);
      for (Operation *op : ops) {
        if (auto reduce = dyn_cast<ReduceOp>(op)) {
          reduceElement(group, reduce, read(reduce.getTile()), next);
          continue;
        }
        if (auto dropout = dyn_cast<DropoutOp>(op)) {
          Value keep = keeps(dropout, group.random[op], innerSize, at);
          current[dropout.getResult()] = drop(dropout, read(dropout.getTile()), keep, at);
          if (dropout.getKept())
            current[dropout.getKept()] = keep;
        } else {
          current[op->getResult(0)] = evaluate(group, op, read);
        }
        for (Value result : op->getResults())
          if (group.outputs.contains(result)) {
            Value index = at.type.rank() == 2 ? add(mul(i, constI64(innerSize)), j) : j;
            storeScratch(current[result], group.outputs[result], cast<TileType>(result.getType()).getElementType(),
                         index, at.lanes);
          }
      }
      return next;
    });
    for (auto [reduce, value] : llvm::zip(group.reductions, accumulators))
      storeScratch(value, group.outputs[reduce.getResult()], reduce.getType().getElementType(), j, at.lanes);
  });

  for (auto [value, offset] : group.outputs) {
    auto type = cast<TileType>(value.getType());
    define(value, offset, type.rank() == 1 ? Listed : orderOf(type), !target.contains(value));
  }
  for (auto [op, offset] : group.random)
    release(offset, at.type.numElements() * 2);
}

void Lowering::lowerAny(AnyOp op) {
  Position at;
  at.type = op.getTile().getType();
  at.innerIndex = innerAxis(at.type);
  int64_t innerSize = at.type.getShape()[at.innerIndex];
  int64_t outerSize = at.type.rank() == 2 ? at.type.getShape()[1 - at.innerIndex] : 1;
  at.lanes = lanesFor(innerSize);
  Value none = arith::ConstantOp::create(b, b.getBoolAttr(false));
  SmallVector<Value> found = loop(innerSize, at.lanes, none, [&](Value j, ValueRange outer) {
    at.inner = j;
    return loop(outerSize, 1, outer, [&](Value i, ValueRange carried) -> SmallVector<Value> {
      at.outer = i;
      Block &body = op.getBody().front();
      values[body.getArgument(0)] = readTile(op.getTile(), at);
      for (Operation &inner : body.without_terminator())
        lowerScalarOp(&inner);
      Value met = lookup(body.getTerminator()->getOperand(0));
      if (isa<VectorType>(met.getType()))
        met = vector::ReductionOp::create(b, vector::CombiningKind::OR, met);
      return {arith::OrIOp::create(b, carried[0], met)};
    });
  });
  values[op.getResult()] = found[0];
}

void Lowering::lowerBits(BitsOp op) {
  Block &body = op.getBody().front();
  Value bits;
  for (int32_t i = 0; i < int32_t(op.getCount()); ++i) {
    Value number = arith::ConstantIntOp::create(b, i, 32);
    values[body.getArgument(0)] = number;
    for (Operation &inner : body.without_terminator())
      lowerScalarOp(&inner);
    Value flag = arith::ExtUIOp::create(b, b.getI32Type(), lookup(body.getTerminator()->getOperand(0)));
    Value bit = arith::ShLIOp::create(b, flag, number);
    bits = bits ? Value(arith::OrIOp::create(b, bits, bit)) : bit;
  }
  values[op.getResult()] = bits;
}

void Lowering::lowerSumDiagonals(SumDiagonalsOp op) {
  const TileType type = op.getTile().getType(), result = op.getType();
  const int64_t columns = type.getShape()[1], allRows = type.getShape()[0], rows = allRows / result.getShape()[0],
                lanes = lanesFor(columns), count = result.numElements();
  const int64_t from = ensure(op.getTile(), Listed), to = allocate(bytesOf(result));
  const Type element = result.getElementType();
  const int64_t clearedLanes = lanesFor(count);
  loop(count, clearedLanes,
       [&](Value i) { storeScratch(zeroOf(vectorOf(element, clearedLanes)), to, element, i, clearedLanes); });
  SmallVector<int64_t> reversed(llvm::reverse(llvm::seq<int64_t>(lanes)));
  loop(constI64(0), constI64(allRows), [&](Value row) {
    // The tile is summed in parts of `rows` rows. Each part has rows + columns diagonals; element (r, c) of a part
    // belongs to diagonal r - c + columns. The result lists the diagonals of all parts, one part after the other.
    // `last` is the index in the result of the diagonal through the first element of `row`.
    Value part = arith::DivUIOp::create(b, row, constI64(rows)),
          last = add(row, mul(add(part, constI64(1)), constI64(columns)));
    loop(columns, lanes, [&](Value column) {
      Value terms = loadScratch(from, element, add(mul(row, constI64(columns)), column), lanes);
      if (lanes > 1)
        terms = vector::ShuffleOp::create(b, terms, terms, reversed);
      Value place = arith::SubIOp::create(b, last, add(column, constI64(lanes - 1)));
      Value at = scratchAt(to, element, place); // not aligned to a whole vector
      storeAt(arith::AddFOp::create(b, loadAt(at, terms.getType(), bytesOf(element)), terms), at, bytesOf(element));
    });
  });
  define(op, to, Listed);
}

void Lowering::reduceLanes(ReduceOp reduce, Value value, int64_t offset, const Position &at) {
  using enum vector::CombiningKind;
  const Type element = reduce.getType().getElementType();
  const Reduction kind = reduce.getKind();
  const bool isFloat = isa<FloatType>(element);
  Value scalar = value;
  if (at.lanes > 1) {
    if (isFloat && kind != Reduction::Sum) {
      Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
      value = select(isNan, identityOf(kind, value.getType()), value);
    }
    const vector::CombiningKind how = kind == Reduction::Sum   ? ADD
                                      : kind == Reduction::Max ? (isFloat ? MAXNUMF : MAXSI)
                                                               : (isFloat ? MINNUMF : MINSI);
    scalar = vector::ReductionOp::create(
        b, how, value, kind == Reduction::Sum ? arith::FastMathFlags::reassoc : arith::FastMathFlags::none);
  }
  Value current = loadScratch(offset, element, at.outer, 1);
  storeScratch(combine(reduce.getKind(), current, scalar), offset, element, at.outer, 1);
}

} // namespace attune::cpu
