//===- InterleaveFunctions.cpp - Interleave special functions with the arithmetic that feeds them ----===//
//
// A special function takes the multiprocessor eight times as long as a multiplication. ptxas knows this rate: between
// two special functions it issues the multiplications that later special functions need, or it issues all
// multiplications first. But while another warpgroup's product runs, an instruction takes two or three cycles, not one.
// The special-function unit then idles while multiplications are issued, and is the only busy unit later. So this pass
// makes the elements of each block of 16 columns depend on the first element of the previous block (`sched.after`). In
// the op that reads an element, the dependence is attached to the operand that is not the element: the factor of the
// score, or the addend of the exponent.
//
// Four kinds of maps are excluded: maps whose elements are summed up, maps with much arithmetic after the function, maps
// of float32-accurate functions, each of which is many instructions, and two maps of which one reads the other (tanh and
// then exp2). In these maps, additions, the packing of P, the arithmetic of the other function or other arithmetic
// already separate the special functions.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Dependences.h"
#include "passes/analysis/score/MapPatterns.h"

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
    // A division counts as a special function, because it uses a reciprocal.
    if (isa<arith::DivFOp, arith::RemFOp>(op) || (isa<math::MathDialect>(op.getDialect()) && !isa<math::FmaOp>(op))) {
      if (special || !isa<math::Exp2Op, math::TanhOp>(op))
        return std::nullopt;
      special = &op;
    }
  if (!special || !followsFrom(special->getOperand(0), [&](Operation *op) { return op == first; }))
    return std::nullopt;
  auto isRow = [&](BlockArgument argument) {
    if (argument.getArgNumber() >= map.getInputs().size())
      return false;
    auto input = cast<tile::TileType>(map.getInputs()[argument.getArgNumber()].getType());
    return input.rank() == 1 && input.axis(0) == type.axis(0) && input.getSpace() == tile::MemorySpace::Register;
  };
  // The last operand comes first: an addend of the row is in a register in any case, but a factor may be a constant.
  for (Value value : llvm::reverse(first->getOperands()))
    if (value != map.getElement(0) && followsOnlyFrom(value, body, isRow))
      return InterleavedOperand{value, /*byRow=*/!followsOnlyFrom(value, body, [](BlockArgument) { return false; })};
  return std::nullopt;
}

namespace {

struct InterleaveFunctions : attune::impl::InterleaveFunctionsBase<InterleaveFunctions> {
  using InterleaveFunctionsBase::InterleaveFunctionsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (sched::hasAsyncProducts(kernel) && !kernel.getPrecise()) {
        llvm::SetVector<Operation *> maps;
        kernel.walk([&](tile::MapOp map) {
          const bool summed = llvm::any_of(map.getResult().getUsers(), [](Operation *user) {
            auto sum = dyn_cast<tile::ReduceOp>(user);
            return sum && sum.getKind() == tile::Reduction::Sum;
          });
          map.setInterleaved(false);
          if (!summed && interleavedOperand(map) && arithmeticAfterFunctions(map) < mostAfter)
            maps.insert(map);
        });
        auto isOne = [&](Operation *op) { return op && maps.contains(op); };
        for (Operation *op : maps) {
          auto map = cast<tile::MapOp>(op);
          map.setInterleaved(!isOne(map.getInputs()[0].getDefiningOp()) && llvm::none_of(map->getUsers(), isOne));
        }
      }
  }

  /// Maps with this many arithmetic instructions after the special function, or more, are excluded. Four arithmetic
  /// instructions take half of the time that a special function takes.
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
