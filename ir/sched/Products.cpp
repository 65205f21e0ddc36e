//===- Products.cpp - Verifiers of matrix instructions and of accesses to their operands ----===//

#include "ir/sched/Sched.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

LogicalResult ScaleSharedOp::verify() {
  TileType type = getShared().getType();
  if (type.getSpace() != MemorySpace::Shared || !type.getElementType().isBF16())
    return emitOpError() << "multiplies shared elements of bf16, got " << type;
  return success();
}

LogicalResult LoadSharedOp::verify() {
  if (getShared().getType().getElementType().isInteger(32) != getResult().getType().isInteger(32))
    return emitOpError() << "reads " << getResult().getType() << " from " << getShared().getType()
                         << ", whose elements are " << getShared().getType().getElementType();
  return success();
}

LogicalResult LoadPairOp::verify() {
  Type element = getShared().getType().getElementType();
  if (getFirst().getType() != element || getSecond().getType() != element)
    return emitOpError() << "reads " << getFirst().getType() << " and " << getSecond().getType() << " from "
                         << getShared().getType() << ", whose elements are " << element;
  return success();
}

LogicalResult StoreSharedOp::verify() {
  Type element = getShared().getType().getElementType();
  if (getSecond() && !(getValue().getType().isF32() && element.isF32()))
    return emitOpError() << "writes a pair of " << getValue().getType() << " to elements of " << element
                         << ", where pairs are f32";
  return success();
}

static std::optional<FragmentRole> roleOf(TileType type) {
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  return fragment ? std::optional(fragment.getRole()) : std::nullopt;
}

LogicalResult MmaAsyncOp::verify() {
  TileType acc = getAcc().getType(), a = getA().getType(), b = getB().getType();
  if (roleOf(acc) != FragmentRole::C || !acc.getElementType().isF32() ||
      acc.getShape()[0] != 16 * cast<FragmentAttr>(acc.getLayout()).getWarps())
    return emitOpError() << "needs an f32 c fragment of 16 rows a warp, got " << acc;
  const int64_t columnWarps = cast<FragmentAttr>(acc.getLayout()).getColumnWarps(), columns = acc.getShape()[1];
  if (columns % (8 * columnWarps) || columns / columnWarps > 256)
    return emitOpError() << "has " << columns << " columns"
                         << (columnWarps == 1 ? ", which is" : ", of which a warp's share is")
                         << " not a multiple of 8 up to 256";
  bool registers = roleOf(a) == FragmentRole::A;
  auto isPanel = [](TileType type) {
    return type.getSpace() == MemorySpace::Shared && isa_and_nonnull<SwizzleAttr>(type.getLayout()) && type.rank() == 3;
  };
  if (!registers && !isPanel(a))
    return emitOpError() << "needs an a fragment or a swizzled shared tile on the left, got " << a;
  if (registers && getTransposeLeft())
    return emitOpError("transposes a left operand in registers; only a shared one is stored by columns");
  if (getAIndices().size() != (registers ? 2 : 3))
    return emitOpError() << "needs " << (registers ? 2 : 3) << " indices of the left operand, got "
                         << getAIndices().size();
  if (!isPanel(b))
    return emitOpError() << "needs a swizzled shared tile on the right, got " << b;
  if (a.getElementType() != b.getElementType() || a.getElementType().getIntOrFloatBitWidth() != 16)
    return emitOpError() << "multiplies 16-bit floats of one type, got " << a.getElementType() << " and "
                         << b.getElementType();
  if (b.getShape()[getTranspose() ? 2 : 1] != acc.getShape()[1])
    return emitOpError() << "right operand " << b << " does not have the " << acc.getShape()[1] << " columns of "
                         << acc;
  return success();
}

LogicalResult MmaWaitOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("pending must not be negative");
  for (Value tile : getCompletes())
    if (!roleOf(cast<TileType>(tile.getType())))
      return emitOpError() << "completes register tiles, got " << tile.getType();
  return success();
}

LogicalResult MmaOp::verify() {
  if (roleOf(getAcc().getType()) != FragmentRole::C || roleOf(getA().getType()) != FragmentRole::A ||
      roleOf(getB().getType()) != FragmentRole::B)
    return emitOpError("takes fragments c, a and b");
  return success();
}
