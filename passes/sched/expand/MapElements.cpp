//===- MapElements.cpp - Expand the region of a map for each element ----------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::SplatOp op) {
  Value buffer = newBuffer(op.getResult()), value = mapping.lookup(op.getValue());
  fillBuffer(value, buffer);
  buffers.map(op.getResult(), buffer);
  return success();
}

Value KernelExpander::floatCoordinate(Value origin, Value lanePart, Value placePart) {
  return arith::AddFOp::create(builder, loc, floatStart(origin, lanePart), toFloat(placePart));
}

Value KernelExpander::floatStart(Value origin, Value lanePart) {
  Value start = toFloat(lanePart);
  return matchPattern(origin, m_AnyZeroFloat()) ? start : arith::AddFOp::create(builder, loc, origin, start);
}

void KernelExpander::mapLane(tile::MapOp op, Value i, IRMapping &inner) {
  for (auto [axis, origin, argument] :
       llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(), op.getBody().getArguments()))
    inner.map(argument, tile::named(add(mapping.lookup(origin), laneElement(op.getResult(), i)), axis));
  for (Operation &nested : op.getBody().front().without_terminator())
    builder.clone(nested, inner);
}

bool KernelExpander::isRowAxis(Value tile, StringRef axis) {
  auto type = cast<TileType>(tile.getType());
  return type.rank() == 1 ? layoutOf(tile).getRole() == FragmentRole::Rows : type.axis(0) == axis;
}

Value KernelExpander::coordinateInTile(Value tile, StringRef axis, Value i, Value r, Value j, Value c) {
  if (auto type = cast<TileType>(tile.getType()); tile::isByPart(type))
    return axis == tile::distanceAxis ? relativeInPart(i) : firstRowOf(type);
  return isRowAxis(tile, axis) ? rowInTile(tile, i, r) : columnInTile(cast<TileType>(tile.getType()), j, c);
}

Value KernelExpander::sharedElement(Value input, Value of, Value i, Value r, Value j, Value c) {
  auto type = cast<TileType>(input.getType());
  auto [shared, stage] = slotOf(input);
  SmallVector<Value> at;
  for (StringAttr axis : type.getAxes())
    at.push_back(coordinateInTile(of, axis, i, r, j, c));
  if (at.size() == 1)
    at.insert(at.begin(), i32(0));
  return loadShared(attn::valueType(type.getElementType()), shared, stage, at[0], at[1]);
}

Value KernelExpander::inputElement(tile::MapOp op, Value input, Value i, Value r, Value j, Value c) {
  auto type = cast<TileType>(input.getType());
  if (!inShared(input) || tile::isRelative(type))
    return element(input, i, r, j, c);
  if (Value pair = columnPairs.lookup(input))
    return get(pair, {i32(0), c});
  if (Value fragment = windows.lookup(input)) {
    Value pair = sched::GetOp::create(builder, loc, builder.getI32Type(), fragment,
                                      ValueRange{i, i32(0), add(mul(rem(j, 2), 2), r)});
    return sched::UnpackOp::create(builder, loc, builder.getF32Type(), pair, c, type.getElementType());
  }
  if (!isWindow(op, input) || !isRowAxis(op.getResult(), type.axis(0)))
    return sharedElement(input, op.getResult(), i, r, j, c);
  auto [ring, stage] = slotOf(input);
  return loadShared(type.getElementType(), ring, stage, laneRowOf(op.getResult()), add(laneColumn, c), rowStep(i, r),
                    mul(j, 8));
}

IRMapping KernelExpander::mappingFor(Region &region) {
  IRMapping inner;
  region.walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (Value known = mapping.lookupOrNull(operand))
        inner.map(operand, known);
  });
  return inner;
}

void KernelExpander::mapCoordinates(tile::MapOp op, IRMapping &inner, Value i, Value r, Value j, Value c) {
  for (auto [axis, origin, argument] : llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(),
                                                 op.getBody().getArguments().drop_front(op.getInputs().size()))) {
    if (argument.use_empty())
      continue;
    if (origin.getType().isF32())
      inner.map(argument, isRowAxis(op.getResult(), axis)
                              ? floatCoordinate(mapping.lookup(origin), laneRowOf(op.getResult()), rowStep(i, r))
                              : floatCoordinate(mapping.lookup(origin), laneColumns(op), add(mul(j, 8), c)));
    else
      inner.map(argument,
                tile::named(add(mapping.lookup(origin), coordinateInTile(op.getResult(), axis, i, r, j, c)), axis));
  }
}

Value KernelExpander::mapElement(tile::MapOp op, Value i, Value r, Value j, Value c) {
  IRMapping inner = mappingFor(op.getBody());
  for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments()))
    if (!argument.use_empty())
      inner.map(argument, inputElement(op, input, i, r, j, c));
  if (isByThread(layoutOf(op.getResult()).getRole())) {
    mapLane(op, i, inner);
    return inner.lookupOrDefault(op.getYield().getValues().front());
  }
  mapCoordinates(op, inner, i, r, j, c);
  if (interleaving)
    inner.map(interleaving->operand.value, get(interleaving->values, interleavedAt(i, r)));
  for (Operation &nested : op.getBody().front().without_terminator()) {
    if ((interleaving && interleaving->operand.value.getDefiningOp() == &nested) || inWords.contains(&nested))
      continue;
    if (Value pairs = elementPairs.lookup(&nested))
      inner.map(nested.getResult(0), get(pairs, {i, i32(0), add(mul(r, 2), c)}));
    else if (Value words = conditionWords.lookup(&nested))
      inner.map(nested.getResult(0), testBit(&nested, words, op.getResult(), i, r, j, c));
    else if (Value word = columnsOf.lookup(&nested))
      inner.map(nested.getResult(0), bitOfColumn(word, nested.getLoc(), j, c));
    else if (auto compare = dyn_cast<arith::CmpIOp>(nested); compare && comparesColumn(op, compare)) {
      if (!isInWords(compare))
        inner.map(compare.getResult(), columnComparison(op, compare, inner, j, c));
    } else if (auto line = lineThroughColumns(op, nested))
      inner.map(nested.getResult(0), lineElement(op, *line, inner, j, c));
    else if (Value origin = originOfDivided(op, nested))
      inner.map(nested.getResult(0), columnQuotient(cast<arith::DivSIOp>(nested), origin, j));
    else
      cloneAlone(nested, inner);
  }
  return inner.lookupOrDefault(op.getYield().getValues().front());
}

Value KernelExpander::laneColumns(tile::MapOp op) {
  Value first = firstColumn(cast<TileType>(op.getResult().getType()));
  return first ? add(first, laneColumn) : laneColumn;
}

std::optional<Line> KernelExpander::lineThroughColumns(tile::MapOp op, Operation &nested) {
  auto product = dyn_cast<arith::MulFOp>(nested);
  if (!product || kernel.getPrecise() || layoutOf(op.getResult()).getRole() != FragmentRole::C)
    return std::nullopt;
  Block *body = &op.getBody().front();
  for (auto [axis, origin, argument] : llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(),
                                                 body->getArguments().drop_front(op.getInputs().size())))
    for (auto [factor, other] :
         {std::pair(product.getLhs(), product.getRhs()), std::pair(product.getRhs(), product.getLhs())})
      if (other == argument && !isRowAxis(op.getResult(), axis) && factor.getParentBlock() != body)
        return Line{factor, origin};
  return std::nullopt;
}

Value KernelExpander::lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c) {
  Value slope = inner.lookupOrDefault(line.slope);
  Value addend = arith::MulFOp::create(builder, loc, slope, floatStart(mapping.lookup(line.origin), laneColumns(op)));
  return math::FmaOp::create(builder, loc, slope, toFloat(add(mul(j, 8), c)), addend);
}

/// Whether an index is a multiple of `factor`, such as the origin of a tile: a number of tiles times the tile's size.
static bool isProductWithMultiple(Value index, int64_t factor) {
  APInt constant;
  if (matchPattern(index, m_ConstantInt(&constant)))
    return constant.getSExtValue() % factor == 0;
  auto product = index.getDefiningOp<arith::MulIOp>();
  return product &&
         (isProductWithMultiple(product.getLhs(), factor) || isProductWithMultiple(product.getRhs(), factor));
}

Value KernelExpander::originOfDivided(tile::MapOp op, Operation &nested) {
  auto division = dyn_cast<arith::DivSIOp>(nested);
  APInt divisor;
  if (!division || layoutOf(op.getResult()).getRole() != FragmentRole::C ||
      layoutOf(op.getResult()).getColumnWarps() != 1 || !matchPattern(division.getRhs(), m_ConstantInt(&divisor)) ||
      !divisor.isStrictlyPositive() || divisor.getSExtValue() % 8)
    return {};
  for (auto [axis, origin, argument] : llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(),
                                                 op.getBody().getArguments().drop_front(op.getInputs().size())))
    if (division.getLhs() == argument && !isRowAxis(op.getResult(), axis) &&
        isProductWithMultiple(origin, divisor.getSExtValue()))
      return origin;
  return {};
}

Value KernelExpander::columnQuotient(arith::DivSIOp division, Value origin, Value j) {
  Value divisor = mapping.lookupOrDefault(division.getRhs());
  Value first = arith::DivSIOp::create(builder, loc, mapping.lookup(origin), divisor);
  return add(first, arith::DivUIOp::create(builder, loc, mul(j, 8), divisor));
}

bool KernelExpander::readsColumns(tile::MapOp op) {
  const unsigned inputs = op.getInputs().size();
  return llvm::any_of(op.getBody().getArguments(), [&](BlockArgument argument) {
    const unsigned index = argument.getArgNumber();
    if (argument.use_empty())
      return false;
    if (index < inputs)
      return inShared(op.getInputs()[index]) ||
             layoutOf(buffers.lookup(op.getInputs()[index])).getRole() == FragmentRole::Columns;
    return !isRowAxis(op.getResult(), cast<StringAttr>(op.getAxes()[index - inputs])) &&
           !llvm::all_of(argument.getUsers(), [&](Operation *user) { return isCut(op, user); });
  });
}

void KernelExpander::writeElements(tile::MapOp op, Value buffer, const std::optional<InterleavedOperand> &interleaved,
                                   bool inPairs) {
  // The loop over columns is the outer loop if maps load elements: the address offset of a column is then used for all
  // of the lane's rows and is dead afterwards, whereas row by row the offsets of all columns stay alive. The same is
  // true of elements that lanes exchange, and, with warpgroup-level products, of values that a score or mask computes
  // from a column. With warp-level products ptxas makes better code row by row.
  const bool exchanges = llvm::any_of(op.getInputs(), [&](Value input) { return isSpread(input); });
  const bool readsShared = llvm::any_of(op.getInputs(), inShared);
  const bool columnsOutside = !op.getBody().getOps<tile::ElementOp>().empty() || exchanges || interleaved ||
                              ((specialized || readsShared) && readsColumns(op));
  openWords(op);
  if (interleaved)
    openPacing(op, *interleaved);
  SmallVector<ElementPairs> pairs = inPairs ? openPairs(op) : SmallVector<ElementPairs>();
  SmallVector<Diagonals> isRelative = openDiagonals(op);
  SmallVector<ColumnPair> byColumn = openColumns(op);
  SmallVector<Window> read = openWindows(op);
  auto loadWindows = [&](Value jj) {
    for (const Window &one : read)
      loadLeftFragments(one.input, one.buffer, jj, i32(0));
  };
  auto loadColumn = [&](Value j) {
    for (const ElementPairs &one : pairs)
      loadPairs(op, one, j);
    for (const ColumnPair &one : byColumn)
      loadColumns(one, j);
    for (const Diagonals &one : isRelative) {
      const int64_t before = laneShape(one.buffer)[0] - columnsOfLane(one.buffer);
      loadDiagonal(one, add(j, before), before);
    }
  };
  auto element = [&](Value i, Value r, Value j, Value c, SmallVector<Value> at) {
    set(mapElement(op, i, r, j, c), buffer, at);
  };
  auto interleaveNext = [&](Value jj) { interleave(buffer, jj); };
  if (columnsOutside && layoutOf(buffer).getRole() == FragmentRole::C)
    forEachColumn(buffer, pairsOf(op), element, loadColumn, read.empty() ? function_ref<void(Value)>() : loadWindows,
                  interleaving ? interleaveNext : function_ref<void(Value)>());
  else
    forEachPlace(buffer, element, [&](Value i, Value r) { openCuts(op, i, r); }, pairsOf(op));
  columnsBelow.clear();
  columnsOf.clear();
  conditionWords.clear();
  inWords.clear();
  elementPairs.clear();
  columnPairs.clear();
  windows.clear();
  interleaving.reset();
}

LogicalResult KernelExpander::expandOp(tile::MapOp op) {
  if (std::optional<ProbabilityChain> chain = chainFrom(op)) {
    // A probability chain is expanded at its last op. The operands of the chain are defined before that op, and no op
    // before that op reads the results of the chain's other ops, except ops of the chain.
    for (Operation *part : {chain->exponent.getOperation(), chain->sum.getOperation(), chain->dropout.getOperation()})
      if (part)
        chainEnds[part] = chain->convert;
    chains[chain->convert] = *chain;
    return success();
  }
  if (givesPlaces(op))
    return success();
  const std::optional<InterleavedOperand> interleaved = op.getInterleaved() ? interleavedOperand(op) : std::nullopt;
  if (op.getInterleaved() && !interleaved)
    return op.emitError(
        "is interleaved, which takes one tanh or exp2 of the element, through one op with a value that is "
        "the same along a row, and a multiple of 16 columns");
  // Elements that the map does not compute are those of the first input. So a map that computes a range of columns may
  // reuse only the first input's buffer.
  Value buffer = bufferFor(op, op.getResult(),
                           op.isWhole() ? ValueRange(op.getInputs()) : ValueRange(op.getInputs()).take_front(1));
  if (op.getOnlyIf() && !op.getInputs().empty())
    copyBuffer(buffers.lookup(op.getInputs().front()), buffer);
  else
    copyOtherColumns(op, buffer);
  auto write = [&] {
    if (Value inPairs = liesInPairs(op))
      either(
          inPairs, [&] { writeElements(op, buffer, interleaved, true); },
          [&] { writeElements(op, buffer, interleaved, false); });
    else
      writeElements(op, buffer, interleaved, false);
  };
  if (op.getOnlyIf())
    onlyIf(mapping.lookup(op.getOnlyIf()), write);
  else
    write();
  buffers.map(op.getResult(), buffer);
  return success();
}

} // namespace attune::expansion
