//===- Register.cpp - Dialects and passes by name ---------------------------===//

#include "passes/Passes.h"

#include "ir/sched/Sched.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

namespace attune {
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"
} // namespace attune

void attune::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<attn::AttnDialect, tile::TileDialect, sched::SchedDialect, mlir::arith::ArithDialect,
                  mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::func::FuncDialect>();
}

void attune::registerPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  registerAttunePasses();
}
