//===- InterleaveFunctions.cpp - Special functions in step with what leads to them ----===//
//
// A special function takes the multiprocessor eight times as long as a multiplication, and ptxas knows: it issues one,
// and fills the time to the next one with multiplications that later ones need, or all multiplications first. But
// beside another warpgroup's product an instruction takes two or three cycles, not one. So the special-function unit
// idles while multiplications are issued, and is all that runs later. Here 16 columns' elements wait for the first of
// the 16 columns before (`sched.after`), by way of what they take beside themselves: a factor of the score, the
// exponent's addend.
//
// Not for maps whose elements are summed up, nor where much follows from the function: additions, the packing of P and
// that arithmetic stand between the functions as it is. Nor where functions are float32-accurate, and so many
// instructions each.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/Dependences.h"
#include "passes/analysis/MapPatterns.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace attune {
#define GEN_PASS_DEF_INTERLEAVEFUNCTIONS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

std::optional<InterleavedOperand> attune::interleavedOperand(tile::MapOp map) {
  Block &body = map.getBody().front();
  auto type = map.getResult().getType();
  if (type.rank() != 2 || type.getShape().back() % 16 || map.getInputs().empty() ||
      map.getInputs()[0].getType() != map.getResult().getType() || !map.getElement(0).hasOneUse())
    return std::nullopt;
  Operation *first = *map.getElement(0).getUsers().begin();
  if (!isa<arith::MulFOp, arith::AddFOp, arith::SubFOp, math::FmaOp>(first) || first->getBlock() != &body)
    return std::nullopt;
  Operation *special = nullptr;
  for (Operation &op : body)
    // A division is one too: it is by a reciprocal.
    if (isa<arith::DivFOp, arith::RemFOp>(op) || (isa<math::MathDialect>(op.getDialect()) && !isa<math::FmaOp>(op))) {
      if (special || !isa<math::Exp2Op, math::TanhOp>(op))
        return std::nullopt;
      special = &op;
    }
  if (!special || !followsFrom(special->getOperand(0), [&](Operation *op) { return op == first; }))
    return std::nullopt;
  // The last one: an addend is in a register in any case, a factor may be a constant.
  Value value = first->getOperands().back() == map.getElement(0) ? first->getOperand(0) : first->getOperands().back();
  auto isRow = [&](BlockArgument argument) {
    if (argument.getArgNumber() >= map.getInputs().size())
      return false;
    auto input = cast<tile::TileType>(map.getInputs()[argument.getArgNumber()].getType());
    return input.rank() == 1 && input.axis(0) == type.axis(0) && input.getSpace() == tile::MemorySpace::Register;
  };
  if (!followsOnlyFrom(value, body, isRow))
    return std::nullopt;
  return InterleavedOperand{value, /*byRow=*/!followsOnlyFrom(value, body, [](BlockArgument) { return false; })};
}

namespace {

struct InterleaveFunctions : attune::impl::InterleaveFunctionsBase<InterleaveFunctions> {
  using InterleaveFunctionsBase::InterleaveFunctionsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (sched::fillingWarps(kernel) && !kernel.getPrecise())
        kernel.walk([](tile::MapOp map) {
          const bool summed = llvm::any_of(map.getResult().getUsers(), [](Operation *user) {
            auto sum = dyn_cast<tile::ReduceOp>(user);
            return sum && sum.getKind() == tile::Reduction::Sum;
          });
          map.setInterleaved(!summed && interleavedOperand(map) && arithmeticAfterFunctions(map) < mostAfter);
        });
  }

  /// Half of the time that a special function takes its unit.
  static constexpr int64_t mostAfter = 4;

  static int64_t arithmeticAfterFunctions(tile::MapOp map) {
    llvm::SetVector<Operation *> behind;
    for (Operation &op : map.getBody().front())
      if (isa<math::Exp2Op, math::TanhOp>(op))
        getForwardSlice(&op, &behind);
    return llvm::count_if(behind, [](Operation *op) { return !isa<arith::BitcastOp, tile::YieldOp>(op); });
  }
};

} // namespace
