//===- CompileHost.cpp - Compiling tile.kernel to a host object -------------===//

#include "codegen/cpu/Cpu.h"
#include "codegen/cpu/LowerTile.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace attune;

namespace {

/// LLVM's name of the host CPU, its features, and its vector unit.
struct Host {
  std::string cpu, features;
  HostVectors vectors;

  static const Host &instance() {
    static const Host host;
    return host;
  }

private:
  Host() : cpu(llvm::sys::getHostCPUName()) {
    llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
    std::vector<std::string> names;
    for (const auto &feature : found)
      names.push_back((feature.second ? "+" : "-") + feature.first().str());
    llvm::sort(names);
    features = llvm::join(names, ",");
    if (found.lookup("avx512f") && found.lookup("avx512vl") && found.lookup("avx512bw") && found.lookup("avx512dq"))
      vectors = {16, 32, true};
    else if (found.lookup("avx2") && found.lookup("fma"))
      vectors = {8, 16, false};
    else if (llvm::Triple(llvm::sys::getProcessTriple()).isAArch64())
      vectors = {4, 32, false};
  }
};

/// Registers LLVM's back end for the host, once per process.
void initializeTarget() {
  static const bool done = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)done;
}

void loadDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, math::MathDialect,
                      scf::SCFDialect, vector::VectorDialect>();
}

/// Lowers scf, arith, math and vector ops to the llvm dialect.
LogicalResult convertToLLVM(ModuleOp module) {
  MLIRContext *context = module.getContext();
  {
    RewritePatternSet patterns(context);
    populateSCFToControlFlowConversionPatterns(patterns);
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    ConversionTarget target(*context);
    target.addIllegalDialect<scf::SCFDialect>();
    target.addIllegalOp<arith::CeilDivUIOp>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      return failure();
  }
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyPartialConversion(module, target, std::move(patterns));
}

std::unique_ptr<llvm::TargetMachine> createTargetMachine() {
  const Host &host = Host::instance();
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, host.cpu, host.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                  llvm::CodeGenOptLevel::Default, /*JIT=*/true));
}

/// Runs a short LLVM pipeline. The generated code is already vectorised and in SSA form; the pipeline only folds
/// address arithmetic, removes common subexpressions and moves invariant code out of loops.
void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(
      passes, "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),"
              "early-cse<memssa>,instcombine<no-verify-fixpoint>)"));
  passes.run(module, modules);
}

/// A module's kernels as optimised LLVM IR. `machine` must live as long as `code` is used.
struct HostModule {
  std::vector<HostFunction> functions;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> code;
};

Expected<HostModule> makeHostModule(ModuleOp module, llvm::LLVMContext &context) {
  Expected<SmallVector<tile::LaunchedKernel>> kernels = tile::launchedKernels(module);
  if (!kernels)
    return kernels.error();
  initializeTarget();
  loadDialects(*module.getContext());
  const Host &host = Host::instance();
  Expected<LoweredModule> lowered = lowerTile(*kernels, host.vectors);
  if (!lowered)
    return lowered.error();

  std::string messages;
  ScopedDiagnosticHandler diagnostics(module.getContext(), [&](Diagnostic &diagnostic) {
    messages += (messages.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  HostModule result;
  for (auto [kernel, bytes] : llvm::zip(*kernels, lowered->scratchBytes))
    result.functions.push_back({SymbolTable::getSymbolName(kernel.op).str(), llvm::alignTo(bytes, 64)});
  const std::string &last = result.functions.back().symbol;
  if (failed(convertToLLVM(*lowered->module)))
    return Error{"the cpu target cannot lower kernel '" + last + "': " + messages};
  result.code = translateModuleToLLVMIR(*lowered->module, context, "kernel", true);
  if (!result.code)
    return Error{"the cpu target cannot translate kernel '" + last + "': " + messages};
  result.machine = createTargetMachine();
  if (!result.machine)
    return Error{"this LLVM has no code generator for " + llvm::sys::getProcessTriple()};
  result.code->setTargetTriple(result.machine->getTargetTriple());
  result.code->setDataLayout(result.machine->createDataLayout());
  for (llvm::Function &function : *result.code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("target-cpu", host.cpu);
    function.addFnAttr("target-features", host.features);
    function.addFnAttr("prefer-vector-width", std::to_string(32 * host.vectors.lanes));
    function.addFnAttr("min-legal-vector-width", std::to_string(32 * host.vectors.lanes));
    for (unsigned argument : {0u, 1u, 2u})
      function.addParamAttr(argument, llvm::Attribute::NoAlias);
    function.addParamAttr(2, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
  }
  optimize(*result.code, *result.machine);
  return result;
}

} // namespace

std::string attune::hostCpuKey() {
  const Host &host = Host::instance();
  return llvm::sys::getProcessTriple() + ";" + host.cpu + ";" + host.features;
}

Expected<std::string> attune::printHostLlvm(ModuleOp module) {
  llvm::LLVMContext context;
  Expected<HostModule> made = makeHostModule(module, context);
  if (!made)
    return made.error();
  std::string text;
  llvm::raw_string_ostream stream(text);
  made->code->print(stream, nullptr);
  return text;
}

Expected<HostObject> attune::compileHost(ModuleOp module) {
  llvm::LLVMContext context;
  Expected<HostModule> made = makeHostModule(module, context);
  if (!made)
    return made.error();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager emit;
  if (made->machine->addPassesToEmitFile(emit, stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                         /*DisableVerify=*/true))
    return Error{"this LLVM cannot write objects for " + llvm::sys::getProcessTriple()};
  emit.run(*made->code);
  HostObject object;
  object.bytes.assign(bytes.begin(), bytes.end());
  object.functions = std::move(made->functions);
  return object;
}
