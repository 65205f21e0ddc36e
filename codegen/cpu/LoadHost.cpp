//===- LoadHost.cpp - Linking a host object into the process ----------------===//

#include "codegen/cpu/Cpu.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/Support/MemoryBuffer.h"

#include <atomic>
#include <cmath>
#include <cstring>

using namespace attune;
using namespace llvm::orc;

namespace {

/// LLVM's JIT linker. The first call of loadHost creates the linker; all kernels of the process share the linker.
class Linker {
public:
  static llvm::Expected<std::shared_ptr<Linker>> process() {
    static std::mutex mutex;
    static std::shared_ptr<Linker> linker;
    std::lock_guard lock(mutex);
    if (linker)
      return linker;
    auto control = SelfExecutorProcessControl::Create();
    if (!control)
      return control.takeError();
    auto made = std::make_shared<Linker>(std::move(*control));
    if (llvm::Error error = made->defineLibrary())
      return std::move(error);
    return linker = made;
  }

  explicit Linker(std::unique_ptr<SelfExecutorProcessControl> control)
      : session(std::move(control)), layer(session), library(session.createBareJITDylib("library")) {}

  ~Linker() { llvm::consumeError(session.endSession()); }

  ExecutionSession session;
  ObjectLinkingLayer layer;
  JITDylib &library; ///< the C functions that generated code may call
  std::atomic<unsigned> count = 0;

private:
  llvm::Error defineLibrary() {
    SymbolMap symbols;
    auto define = [&](const char *name, auto *function) {
      symbols[session.intern(name)] = {ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
    };
    using Unary = float (*)(float);
    using Binary = float (*)(float, float);
    const std::pair<const char *, Unary> unary[] = {
        {"sinf", sinf},     {"cosf", cosf},        {"tanf", tanf},     {"asinf", asinf},          {"acosf", acosf},
        {"atanf", atanf},   {"sinhf", sinhf},      {"coshf", coshf},   {"tanhf", tanhf},          {"asinhf", asinhf},
        {"acoshf", acoshf}, {"atanhf", atanhf},    {"expf", expf},     {"exp2f", exp2f},          {"expm1f", expm1f},
        {"logf", logf},     {"log2f", log2f},      {"log10f", log10f}, {"log1pf", log1pf},        {"erff", erff},
        {"erfcf", erfcf},   {"cbrtf", cbrtf},      {"floorf", floorf}, {"ceilf", ceilf},          {"truncf", truncf},
        {"roundf", roundf}, {"roundevenf", rintf}, {"rintf", rintf},   {"nearbyintf", nearbyintf}};
    for (auto [name, function] : unary)
      define(name, function);
    const std::pair<const char *, Binary> binary[] = {
        {"powf", powf}, {"atan2f", atan2f}, {"fmodf", fmodf}, {"fminf", fminf}, {"fmaxf", fmaxf}};
    for (auto [name, function] : binary)
      define(name, function);
    // LLVM merges the calls of sinf and cosf of one value into a call of sincosf.
    define("sincosf", static_cast<void (*)(float, float *, float *)>([](float x, float *sine, float *cosine) {
             *sine = sinf(x);
             *cosine = cosf(x);
           }));
    define("fmaf", static_cast<float (*)(float, float, float)>(fmaf));
    // Generated code calls these conversions of f16 on hosts without F16C instructions.
    define("__extendhfsf2", static_cast<float (*)(_Float16)>([](_Float16 value) { return float(value); }));
    define("__truncsfhf2", static_cast<_Float16 (*)(float)>([](float value) { return _Float16(value); }));
    define("memset", static_cast<void *(*)(void *, int, size_t)>(memset));
    define("memcpy", static_cast<void *(*)(void *, const void *, size_t)>(memcpy));
    define("memmove", static_cast<void *(*)(void *, const void *, size_t)>(memmove));
    return library.define(absoluteSymbols(std::move(symbols)));
  }
};

/// The linked code of one object; the destructor frees the code.
struct LinkedKernel {
  std::shared_ptr<Linker> linker;
  JITDylib *library = nullptr;
  ~LinkedKernel() {
    if (library)
      llvm::consumeError(linker->session.removeJITDylib(*library));
  }
};

} // namespace

Expected<HostCode> attune::loadHost(std::span<const char> bytes, std::span<const std::string> symbols) {
  auto fail = [](llvm::Error error) {
    return Error{"cannot link a kernel for the CPU: " + llvm::toString(std::move(error))};
  };
  auto linker = Linker::process();
  if (!linker)
    return fail(linker.takeError());
  ExecutionSession &session = (*linker)->session;
  // By default the session prints errors to stderr. The calls below return their errors, so printing is disabled.
  session.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
  auto kernel = std::make_shared<LinkedKernel>();
  kernel->linker = *linker;
  kernel->library = &session.createBareJITDylib("kernel" + std::to_string((*linker)->count++));
  kernel->library->addToLinkOrder((*linker)->library);
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(bytes.data(), bytes.size()), symbols.front());
  if (llvm::Error error = (*linker)->layer.add(*kernel->library, std::move(buffer)))
    return fail(std::move(error));
  HostCode code{{}, kernel};
  for (const std::string &name : symbols) {
    auto symbol = session.lookup({kernel->library}, name);
    if (!symbol)
      return fail(symbol.takeError());
    code.functions.push_back(symbol->getAddress().toPtr<decltype(HostEntry::function)>());
  }
  return code;
}
