//===- attune-opt.cpp - Run passes on text ----------------------------------===//

#include "passes/Passes.h"
#include "tests/mask/TestMaskDomain.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  attune::registerDialects(registry);
  attune::registerPasses();
  attune::registerTestMaskDomain();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "attune pass driver\n", registry));
}
