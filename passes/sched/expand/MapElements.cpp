//===- MapElements.cpp - Expand the region of a map for each element ----------------===//

#include "passes/sched/expand/MapElements.h"

namespace attune::expansion {

LogicalResult MapElements::expandOp(tile::SplatOp op) {
  Value buffer = newBuffer(op.getResult()), value = mapping.lookup(op.getValue());
  fillBuffer(value, buffer);
  buffers.map(op.getResult(), buffer);
  return success();
}

void MapElements::mapLane(tile::MapOp op, Value i, IRMapping &inner) {
  for (auto [axis, origin, argument] :
       llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(), op.getBody().getArguments()))
    inner.map(argument, tile::named(add(mapping.lookup(origin), laneElement(op.getResult(), i)), axis));
  for (Operation &nested : op.getBody().front().without_terminator())
    builder.clone(nested, inner);
}

Value MapElements::mapElement(tile::MapOp op, Value i, Value r, Value j, Value c) {
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

std::optional<Line> MapElements::lineThroughColumns(tile::MapOp op, Operation &nested) {
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

Value MapElements::lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c) {
  Value slope = inner.lookupOrDefault(line.slope);
  Value addend = arith::MulFOp::create(builder, loc, slope, floatStart(mapping.lookup(line.origin), laneColumns(op)));
  return math::FmaOp::create(builder, loc, slope, toFloat(add(mul(j, 8), c)), addend);
}

/// Whether `index` is a multiple of `factor`: a constant, or a product with a factor that is such a multiple. The
/// origin of a tile is such a product: a tile's number times the tile's size.
static bool isProductWithMultiple(Value index, int64_t factor) {
  APInt constant;
  if (matchPattern(index, m_ConstantInt(&constant)))
    return constant.getSExtValue() % factor == 0;
  auto product = index.getDefiningOp<arith::MulIOp>();
  return product &&
         (isProductWithMultiple(product.getLhs(), factor) || isProductWithMultiple(product.getRhs(), factor));
}

Value MapElements::originOfDivided(tile::MapOp op, Operation &nested) {
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

Value MapElements::columnQuotient(arith::DivSIOp division, Value origin, Value j) {
  Value divisor = mapping.lookupOrDefault(division.getRhs());
  Value first = arith::DivSIOp::create(builder, loc, mapping.lookup(origin), divisor);
  return add(first, arith::DivUIOp::create(builder, loc, mul(j, 8), divisor));
}

bool MapElements::readsColumns(tile::MapOp op) {
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

void MapElements::writeElements(tile::MapOp op, Value buffer, const std::optional<InterleavedOperand> &interleaved,
                                bool inPairs) {
  // The loop over columns is the outer loop if the map loads elements of tensors: the address offset of a column is
  // then used for all of the lane's rows and is dead afterwards. With rows in the outer loop, the offsets of all
  // columns would stay live. The loop is also the outer one for elements that lanes exchange by shuffles and, with
  // warpgroup-level products, for values that a map computes from the column. With warp-level products ptxas makes
  // better code row by row.
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

LogicalResult MapElements::writeMap(tile::MapOp op) {
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
