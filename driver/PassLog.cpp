#include "driver/PassLog.h"

#include "runtime/Log.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

#include <chrono>
#include <vector>

using namespace mlir;
using namespace attune;

namespace {
/// Logs one line for each pass. Passes nest: passes on nested operations run within an adaptor pass, which has no name
/// and is not logged.
class PassTimes : public PassInstrumentation {
  using Clock = std::chrono::steady_clock;

  void runBeforePass(Pass *, Operation *) override { begins.push_back(Clock::now()); }
  void runAfterPass(Pass *pass, Operation *) override { finish(pass, ""); }
  void runAfterPassFailed(Pass *pass, Operation *) override { finish(pass, ", failed"); }

  void finish(Pass *pass, std::string_view outcome) {
    const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begins.back()).count();
    begins.pop_back();
    if (!pass->getArgument().empty())
      logLine(LogLevel::Debug, "pass {}: {:.2f} ms{}", pass->getArgument().str(), milliseconds, outcome);
  }

  std::vector<Clock::time_point> begins;
};
} // namespace

void attune::driver::observePasses(PassManager &passes, bool printAfterAll) {
  if (logs(LogLevel::Debug))
    passes.addInstrumentation(std::make_unique<PassTimes>());
  if (printAfterAll)
    passes.enableIRPrinting([](Pass *, Operation *) { return false; }, [](Pass *, Operation *) { return true; },
                            /*printModuleScope=*/true,
                            /*printAfterOnlyOnChange=*/false, /*printAfterOnlyOnFailure=*/false, llvm::errs());
}
