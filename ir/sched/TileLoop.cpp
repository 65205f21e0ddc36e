//===- TileLoop.cpp - sched.for_tiles: builder, parser, verifier, and removal of unused carried values ----===//

#include "ir/Terminators.h"
#include "ir/sched/Sched.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune::sched;

void ForTilesOp::build(OpBuilder &builder, OperationState &state, ValueRange inits, Value bound, ValueRange tiles,
                       bool keeps) {
  OpBuilder::InsertionGuard guard(builder);
  state.addOperands(inits);
  state.addOperands(bound);
  state.addOperands(tiles);
  state.getOrAddProperties<Properties>().operandSegmentSizes = {int32_t(inits.size()), 1, int32_t(tiles.size())};
  state.addTypes(tiles.getTypes());
  if (keeps) {
    state.getOrAddProperties<Properties>().keeps = builder.getUnitAttr();
    state.addTypes(inits.getTypes());
  }
  Block *body = builder.createBlock(state.addRegion());
  for (Value value : llvm::concat<Value>(SmallVector<Value>(inits), SmallVector<Value>(tiles)))
    body->addArgument(value.getType(), state.location);
}

ParseResult ForTilesOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> inits, tiles;
  SmallVector<Type> tileTypes;
  OpAsmParser::UnresolvedOperand bound;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren) || parser.parseEqual() ||
      parser.parseOperandList(inits, OpAsmParser::Delimiter::Paren) || parser.parseKeyword("below") ||
      parser.parseOperand(bound))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    argument.type = builder.getI32Type();
  if (succeeded(parser.parseOptionalKeyword("tiles"))) {
    auto parseTile = [&]() -> ParseResult {
      OpAsmParser::Argument argument;
      if (parser.parseArgument(argument) || parser.parseEqual() || parser.parseOperand(tiles.emplace_back()) ||
          parser.parseColonType(argument.type))
        return failure();
      tileTypes.push_back(argument.type);
      arguments.push_back(argument);
      return success();
    };
    if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseTile))
      return failure();
  }
  bool keeps = succeeded(parser.parseOptionalKeyword("keeps"));
  Region *body = result.addRegion();
  if (parser.resolveOperands(inits, builder.getI32Type(), result.operands) ||
      parser.resolveOperand(bound, builder.getI32Type(), result.operands) ||
      parser.resolveOperands(tiles, tileTypes, loc, result.operands) || parser.parseRegion(*body, arguments) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  ensureTerminator(*body, builder, result.location);
  result.getOrAddProperties<Properties>().operandSegmentSizes = {int32_t(inits.size()), 1, int32_t(tiles.size())};
  result.addTypes(tileTypes);
  if (keeps) {
    result.getOrAddProperties<Properties>().keeps = builder.getUnitAttr();
    result.addTypes(SmallVector<Type>(inits.size(), builder.getI32Type()));
  }
  return success();
}

void ForTilesOp::print(OpAsmPrinter &printer) {
  auto arguments = getBody().getArguments();
  printer << " (";
  llvm::interleaveComma(arguments.take_front(getInits().size()), printer);
  printer << ") = (" << getInits() << ") below " << getBound();
  if (!getTiles().empty()) {
    printer << " tiles(";
    llvm::interleaveComma(llvm::zip(arguments.drop_front(getInits().size()), getTiles()), printer, [&](auto pair) {
      printer << std::get<0>(pair) << " = " << std::get<1>(pair) << " : " << std::get<1>(pair).getType();
    });
    printer << ")";
  }
  printer << (getKeeps() ? " keeps " : " ");
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {getOperandSegmentSizeAttr(), "keeps"});
}

NextOp ForTilesOp::getNext() { return cast<NextOp>(getBody().front().getTerminator()); }

LogicalResult ForTilesOp::verify() {
  if (getInits().empty())
    return emitOpError("needs at least the tile index");
  SmallVector<Type> carried(getInits().getTypes());
  llvm::append_range(carried, getTiles().getTypes());
  auto next = terminatorOf<NextOp>(getBody());
  if (!next || !llvm::equal(getBody().getArgumentTypes(), carried) ||
      !llvm::equal(next.getValues().getTypes(), carried))
    return emitOpError("initial, carried and next values differ in number or type");
  SmallVector<Type> results(getTiles().getTypes());
  if (getKeeps())
    llvm::append_range(results, getInits().getTypes());
  if (!llvm::equal(getResultTypes(), results))
    return emitOpError("results are the tiles, with `keeps` then the carried i32 values");
  return success();
}

/// Whether the `i`-th carried value is used only to compute its own next value, so that the loop need not carry it.
static bool servesItself(ForTilesOp loop, unsigned i) {
  if (loop.getKeeps() && !loop.getKept()[i].use_empty())
    return false;
  Block &body = loop.getBody().front();
  llvm::SetVector<Value> follow;
  follow.insert(body.getArgument(i));
  for (size_t n = 0; n < follow.size(); ++n)
    for (OpOperand &use : follow[n].getUses()) {
      Operation *user = use.getOwner();
      if (user == loop.getNext() && use.getOperandNumber() == i)
        continue;
      if (user->getBlock() != &body || user->getNumRegions() || !isMemoryEffectFree(user) ||
          user->hasTrait<OpTrait::IsTerminator>())
        return false;
      follow.insert(user->result_begin(), user->result_end());
    }
  return true;
}

/// Replaces the loop by one without the `i`-th carried value, whose uses become uses of its initial value.
static void dropCarried(ForTilesOp loop, unsigned i, PatternRewriter &rewriter) {
  SmallVector<Value> inits(loop.getInits());
  Value init = inits[i];
  inits.erase(inits.begin() + i);
  auto fresh = ForTilesOp::create(rewriter, loop.getLoc(), inits, loop.getBound(), loop.getTiles(), loop.getKeeps());
  fresh->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  if (auto names = loop->getAttrOfType<ArrayAttr>(attune::tile::namesAttr); names && i < names.size()) {
    SmallVector<Attribute> kept(names.begin(), names.end());
    kept.erase(kept.begin() + i);
    fresh->setAttr(attune::tile::namesAttr, rewriter.getArrayAttr(kept));
  }
  NextOp next = loop.getNext();
  rewriter.modifyOpInPlace(next, [&] { next->eraseOperand(i); });
  Block &body = fresh.getBody().front();
  SmallVector<Value> arguments(body.getArguments());
  arguments.insert(arguments.begin() + i, init);
  rewriter.mergeBlocks(&loop.getBody().front(), &body, arguments);
  SmallVector<Value> results(fresh.getResults());
  if (loop.getKeeps())
    results.insert(results.begin() + loop.getTiles().size() + i, init);
  rewriter.replaceOp(loop, results);
}

/// Whether the `i`-th carried value is the same in all iterations.
static bool isInvariant(ForTilesOp loop, unsigned i) {
  Value next = loop.getNext().getValues()[i], init = loop.getInits()[i];
  const std::optional<int64_t> number = getConstantIntValue(next);
  return next == loop.getBody().getArgument(i) || next == init || (number && number == getConstantIntValue(init));
}

LogicalResult ForTilesOp::canonicalize(ForTilesOp loop, PatternRewriter &rewriter) {
  for (unsigned i = 1; i < loop.getInits().size(); ++i) {
    if (isInvariant(loop, i) || servesItself(loop, i)) {
      dropCarried(loop, i, rewriter);
      return success();
    }
  }
  return failure();
}
