//===- PaceFunctions.cpp - Special functions in step with what leads to them ----===//
//
// A special function takes the multiprocessor eight times as long as a multiplication, and ptxas knows: it issues one, and fills the time to the next one with multiplications that
// later ones need, or all multiplications first. But beside another warpgroup's product an instruction takes two or three cycles, not one. So the special-function unit idles while
// multiplications are issued, and is all that runs later. Here 16 columns' elements wait for the first of the 16 columns before (`sched.behind`), by way of what they take beside
// themselves: a factor of the score, the exponent's addend.
//
// Not for maps whose elements are summed up: additions and the packing of P stand between the functions as it is. Nor where functions are float32-accurate, and so many instructions each.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Maps.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_PACEFUNCTIONS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct PaceFunctions : attune::impl::PaceFunctionsBase<PaceFunctions> {
  using PaceFunctionsBase::PaceFunctionsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (kernel.getPlan().getCopyWarps() && !kernel.getPrecise())
        kernel.walk([](tile::MapOp map) {
          const bool summed = llvm::any_of(map.getResult().getUsers(), [](Operation *user) {
            auto sum = dyn_cast<tile::ReduceOp>(user);
            return sum && sum.getKind() == tile::Reduction::Sum;
          });
          map.setPaced(!summed && pacedOperand(map));
        });
  }
};

} // namespace
