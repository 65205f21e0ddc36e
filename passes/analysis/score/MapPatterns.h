//===- MapPatterns.h - Creates and matches common forms of tile.map --------===//
//
//     createMap(builder, loc, "alpha", rows, {m, base}, ...)   creates a map whose body a function writes
//     createAny(builder, loc, "moves", alpha, UNE, 1)          creates a warp vote: is any element unequal to 1
//     exponentFactor(map)                                      c of a map exp2((x - m) * c)
//     interleavedOperand(map)                                  the operand that orders a map's special functions
//     holdsRows(map, input)                                    whether an input has one element for each row
//     coordinateOf(map, index)                                 the axis whose coordinate a value is
//     quotientOfCoordinate(op)                                 matches a coordinate divided by a constant
//     countedPlaces(index)                                     matches indices that are coordinates below an end
//     isMultipleOf(origin, 64)                                 whether tiles begin at multiples of a number
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/Tile.h"

#include "mlir/IR/Matchers.h"

namespace attune {

/// Creates a map over the elements of `inputs`; `body` is called with one element of each and returns the result's
/// element.
inline mlir::Value createMap(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef name, mlir::Type type,
                             mlir::ValueRange inputs, llvm::function_ref<mlir::Value(mlir::ValueRange)> body,
                             mlir::Value onlyIf = {}) {
  auto map = tile::MapOp::create(builder, loc, type, inputs, llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Value>>{},
                                 onlyIf);
  mlir::OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&map.getBody().front());
  tile::YieldOp::create(builder, loc, body(map.getBody().getArguments()));
  return tile::named(map.getResult(), name);
}

/// Creates a `tile.any`: whether `predicate` holds between any element of `rows` that the warp holds and `constant`.
inline mlir::Value createAny(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef name, mlir::Value rows,
                             mlir::arith::CmpFPredicate predicate, float constant) {
  auto any = tile::AnyOp::create(builder, loc, builder.getI1Type(), rows);
  mlir::OpBuilder::InsertionGuard guard(builder);
  mlir::Block *body = builder.createBlock(&any.getBody(), {}, builder.getF32Type(), loc);
  mlir::Value with = mlir::arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(constant));
  mlir::Value compares = mlir::arith::CmpFOp::create(builder, loc, predicate, body->getArgument(0), with);
  tile::YieldOp::create(builder, loc, compares);
  return tile::named(any.getResult(), name);
}

/// The row vector v, if `map` only multiplies its first input by v; else null.
inline mlir::Value rescaleFactor(tile::MapOp map) {
  if (map.getInputs().size() != 2 || !map.isWhole() || map.getInputs()[0].getType() != map.getResult().getType() ||
      mlir::cast<tile::TileType>(map.getInputs()[1].getType()).rank() != 1)
    return {};
  auto product = map.getYield().getValues().front().getDefiningOp<mlir::arith::MulFOp>();
  if (!product || llvm::range_size(map.getBody().front().without_terminator()) != 1)
    return {};
  bool factors = (product.getLhs() == map.getElement(0) && product.getRhs() == map.getElement(1)) ||
                 (product.getLhs() == map.getElement(1) && product.getRhs() == map.getElement(0));
  return factors ? map.getInputs()[1] : mlir::Value();
}

/// An operand in the body of a map, such as c of tanh(s * c), where the product also reads s, the element of the map's
/// first input. `sched.after` makes the operand depend on earlier elements of the tile, so that ptxas interleaves the
/// map's special functions with the arithmetic that feeds them.
struct InterleavedOperand {
  mlir::Value value;
  bool byRow; ///< whether each row has its own value; else one value serves the whole tile
};

/// The constant c > 0, if `map` computes exp2((x - m) * c) of elements x and a row vector m, the form in which
/// tile-fold-softmax-scale writes the softmax's exponentials.
std::optional<float> exponentFactor(tile::MapOp map);

/// The InterleavedOperand of `map`, if the map's region computes exactly one special function (tanh, exp2). The
/// function's argument must depend on a sum, difference, product or fma of the first element and a value that is
/// constant along a row, which is the operand. Nullopt if the tile's columns are not a multiple of 16.
/// (InterleaveFunctions.cpp)
std::optional<InterleavedOperand> interleavedOperand(tile::MapOp map);

/// Whether `map` computes a vector of scatter indices from coordinates alone. Such an index is computed where the
/// scatter uses it, so that the vector needs no registers.
inline bool givesPlaces(tile::MapOp map) {
  auto type = map.getResult().getType();
  return type.rank() == 1 && map.getInputs().empty() && !map.getOnlyIf() && !map.getResult().use_empty() &&
         llvm::all_of(map.getResult().getUsers(), [&](mlir::Operation *user) {
           auto scatter = mlir::dyn_cast<tile::ScatterOp>(user);
           return scatter && scatter.getTile() != map.getResult();
         });
}

/// A value that is the coordinate along `axis` of a map's tile, which begins at `origin`.
struct TileCoordinate {
  llvm::StringRef axis;
  mlir::Value origin;
};
inline std::optional<TileCoordinate> coordinateOf(tile::MapOp map, mlir::Value value) {
  for (auto [axis, origin, argument] : llvm::zip(map.getAxes().getAsValueRange<mlir::StringAttr>(), map.getOrigins(),
                                                 map.getBody().getArguments().drop_front(map.getInputs().size())))
    if (argument == value)
      return TileCoordinate{axis, origin};
  return std::nullopt;
}

/// A vector of scatter indices that are the coordinates along an axis of the tile. With an `end`, indices from `end` on
/// are negative, which masks these elements out.
struct CountedPlaces {
  tile::MapOp map;
  mlir::Value coordinate; ///< argument of the map's body
  TileCoordinate along;
  mlir::Value end; ///< first masked coordinate; null if no element is masked
};
inline std::optional<CountedPlaces> countedPlaces(mlir::Value index) {
  auto map = index.getDefiningOp<tile::MapOp>();
  if (!map || !givesPlaces(map))
    return std::nullopt;
  mlir::Value value = map.getYield().getValues().front(), end;
  if (auto choice = value.getDefiningOp<mlir::arith::SelectOp>()) {
    auto isBelow = choice.getCondition().getDefiningOp<mlir::arith::CmpIOp>();
    mlir::APInt otherwise;
    if (!isBelow || isBelow.getPredicate() != mlir::arith::CmpIPredicate::slt ||
        isBelow.getLhs() != choice.getTrueValue() || isBelow.getRhs().getParentBlock() == &map.getBody().front() ||
        !mlir::matchPattern(choice.getFalseValue(), mlir::m_ConstantInt(&otherwise)) || !otherwise.isNegative())
      return std::nullopt;
    end = isBelow.getRhs();
    value = choice.getTrueValue();
  }
  if (std::optional<TileCoordinate> along = coordinateOf(map, value))
    return CountedPlaces{map, value, *along, end};
  return std::nullopt;
}

/// Whether `origin`, the first index of a tile, is a nonnegative multiple of `factor` for every block and every tile.
/// Recognised are constants, the origins of a thread block's tile and of a loop's tile, and products of a tile index
/// and a constant; false for other values.
inline bool isMultipleOf(mlir::Value origin, int64_t factor) {
  auto fits = [&](int64_t number) { return number >= 0 && number % factor == 0; };
  mlir::APInt number;
  if (mlir::matchPattern(origin, mlir::m_ConstantInt(&number)))
    return fits(number.getSExtValue());
  if (auto index = origin.getDefiningOp<tile::BlockIndexOp>()) {
    auto kernel = index->getParentOfType<tile::KernelOp>();
    return fits(mlir::cast<tile::AxisAttr>(kernel.getGrid()[index.getPosition()]).getBy());
  }
  if (auto product = origin.getDefiningOp<mlir::arith::MulIOp>())
    return product.getType().isInteger(32) && mlir::matchPattern(product.getRhs(), mlir::m_ConstantInt(&number)) &&
           number.isStrictlyPositive() && fits(number.getSExtValue());
  if (auto sum = origin.getDefiningOp<mlir::arith::AddIOp>())
    return isMultipleOf(sum.getLhs(), factor) && isMultipleOf(sum.getRhs(), factor);
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(origin);
  auto loop = argument ? mlir::dyn_cast<tile::ForBlocksOp>(argument.getOwner()->getParentOp()) : tile::ForBlocksOp();
  auto domain =
      loop && loop.getOrigin() == origin ? loop.getDomain().getDefiningOp<tile::DomainOp>() : tile::DomainOp();
  return domain && fits(domain.getStep());
}

/// A coordinate of a map, divided by a positive constant.
struct CoordinateQuotient {
  unsigned coordinate; ///< index among the map's coordinates
  int64_t divisor;
  int64_t size; ///< the tile's, along the coordinate's axis
};
inline std::optional<CoordinateQuotient> quotientOfCoordinate(mlir::Operation *op) {
  auto map = mlir::dyn_cast<tile::MapOp>(op->getParentOp());
  auto argument =
      map && mlir::isa<mlir::arith::DivSIOp>(op) ? mlir::dyn_cast<mlir::BlockArgument>(op->getOperand(0)) : nullptr;
  const unsigned inputs = map ? unsigned(map.getInputs().size()) : 0;
  mlir::APInt divisor;
  if (!argument || argument.getOwner() != op->getBlock() || argument.getArgNumber() < inputs ||
      !mlir::matchPattern(op->getOperand(1), mlir::m_ConstantInt(&divisor)) || !divisor.isStrictlyPositive())
    return std::nullopt;
  const unsigned coordinate = argument.getArgNumber() - inputs;
  auto axis = mlir::cast<mlir::StringAttr>(map.getAxes()[coordinate]);
  return CoordinateQuotient{coordinate, divisor.getSExtValue(), map.getResult().getType().size(axis.getValue())};
}

/// Whether `input` of the two-dimensional `map` is a register vector with one element for each row. (PairElements.cpp)
bool holdsRows(tile::MapOp map, mlir::Value input);

} // namespace attune
