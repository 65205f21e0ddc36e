//===- IrFuzz.cpp - Text of the attn, tile and sched stages under mutation ----===//
//
// What parses and verifies prints as text that parses to the same text, and the verifier of each stage
// answers with yes or an error.
//
//===----------------------------------------------------------------------===//
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "tests/fuzz/Fuzz.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace attune;
using namespace attune::tests;
using namespace mlir;

namespace {

/// Types and attributes live as long as their context, so that one context for all inputs would grow without
/// end; one for each would spend the time on registering dialects.
MLIRContext &context() {
  constexpr int inputsPerContext = 500;
  static int inputs = 0;
  static std::unique_ptr<MLIRContext> held;
  if (inputs++ % inputsPerContext == 0) {
    DialectRegistry registry;
    registerDialects(registry);
    held = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    held->loadAllAvailableDialects();
  }
  return *held;
}

std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

/// Runs a stage's verifier; its answer is no matter here.
template <typename Add> void verify(ModuleOp module, Add add) {
  PassManager passes(module.getContext());
  add(passes);
  (void)passes.run(module);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  MLIRContext &mlir = context();
  std::string errors;
  ScopedDiagnosticHandler handler(&mlir, [&](Diagnostic &diagnostic) {
    errors += diagnostic.str() + "\n";
    return success();
  });
  std::string input(reinterpret_cast<const char *>(bytes),
                    count); // the lexer reads up to a zero behind the text
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(input, ParserConfig(&mlir));
  if (!module) {
    require(!errors.empty(), "text that is refused gets an error", input, "");
    return 0;
  }
  std::string text = printed(*module);
  OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(text, ParserConfig(&mlir));
  require(bool(again), "printed text parses", text, errors);
  requireEqual(text, printed(*again), "printed text parses to the same text");
  verify(*module, [](PassManager &passes) { addAttnVerifier(passes); });
  verify(*module, [](PassManager &passes) { addTileVerifier(passes, {}); });
  verify(*module, [](PassManager &passes) { addSchedVerifier(passes, {}); });
  return 0;
}
