//===- MapPatterns.h - Maps and votes that passes write and recognise ------===//
//
//     createMap(builder, loc, "alpha", rows, {m, base}, ...)   a map over elements; its body is written by a function
//     createAny(builder, loc, "moves", alpha, UNE, 1)          whether one of the warp's compares so
//     rescaleFactor(map)                                       what a map multiplies a tile by
//     exponentFactor(map)                                      c of a map exp2((x - m) * c)
//     interleavedOperand(map)                                        what its one special function waits for
//     holdsRows(map, input)                                    whether an input has one element for each row
//     coordinateOf(map, index)                                 of which axis a value is the coordinate
//     countedPlaces(index)                                     a vector of places that are coordinates up to an end
//     isMultipleOf(origin, 64)                                 whether tiles begin at multiples of a number
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/Tile.h"

#include "mlir/IR/Matchers.h"

namespace attune {

/// A map over the inputs' elements; `body` gets them and returns the element of the result.
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

/// Whether an element of the warp's `rows` compares with `constant` by `predicate`.
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

/// The row factor by which `map` multiplies its first input and nothing else, or null.
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

/// What the first op of a map's region takes beside the element.
struct InterleavedOperand {
  mlir::Value value;
  bool byRow; ///< one for each row; else one for all
};

/// The constant c > 0 of a map of elements x and rows m to exp2((x - m) * c), as tile-fold-softmax-scale writes the
/// softmax's exponentials.
std::optional<float> exponentFactor(tile::MapOp map);

/// Where the region computes one special function (tanh, exp2) of its first element, by way of a sum, product or fma of
/// that element and of something that is the same along a row: the latter. Of tiles of whole blocks of 16 columns.
/// (InterleaveFunctions.cpp)
std::optional<InterleavedOperand> interleavedOperand(tile::MapOp map);

/// Whether `map` gives a vector of places, which follow from coordinates alone, for elements that are scattered: each is
/// computed where it is used, in no registers before.
inline bool givesPlaces(tile::MapOp map) {
  auto type = map.getResult().getType();
  return type.rank() == 1 && map.getInputs().empty() && !map.getOnlyIf() && !map.getResult().use_empty() &&
         llvm::all_of(map.getResult().getUsers(), [&](mlir::Operation *user) {
           auto scatter = mlir::dyn_cast<tile::ScatterOp>(user);
           return scatter && scatter.getTile() != map.getResult();
         });
}

/// Of which axis of a map's tile a value is the coordinate, and where the tile begins along it.
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

/// A vector of places that counts along its axis from the tile's origin on: the coordinates, negative from `end` on where
/// there is one.
struct CountedPlaces {
  tile::MapOp map;
  mlir::Value coordinate; ///< the map's argument
  TileCoordinate along;
  mlir::Value end; ///< may be null
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

/// Whether `origin`, where a tile begins along an axis, is a multiple of `factor` for every block and tile: a constant,
/// where a block or a loop's tile begins, or a tile's number times its size. Then it is not negative, either.
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
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(origin);
  auto loop = argument ? mlir::dyn_cast<tile::ForBlocksOp>(argument.getOwner()->getParentOp()) : tile::ForBlocksOp();
  auto domain =
      loop && loop.getOrigin() == origin ? loop.getDomain().getDefiningOp<tile::DomainOp>() : tile::DomainOp();
  return domain && fits(domain.getStep());
}

/// Whether `input` of `map`, of two axes, is a vector in registers with an element for each row. (PairElements.cpp)
bool holdsRows(tile::MapOp map, mlir::Value input);

} // namespace attune
