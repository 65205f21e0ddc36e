//===- BackwardCost.cpp - Predicted time of the kernels of a backward pass ---===//

#include "passes/analysis/cost/BackwardCost.h"

#include "arch/ArchInfo.h"
#include "arch/ProgramCalibration.h"
#include "passes/analysis/cost/Rounding.h"
#include "passes/analysis/cost/VisitedTiles.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <numeric>

using namespace attune;

namespace {
/// Fitted constants. Cycles are those of one multiprocessor.
struct BackwardCalibration {
  double efficiency;    ///< fraction of the tensor cores' rate that products reach
  double tileCycles;    ///< cycles of latency for each tile of S, which blocks of a multiprocessor overlap
  double elementCycles; ///< cycles of an element of S: the exponential, P, dS, their rounding
  double dropoutCycles; ///< cycles of an element to recompute its random number for dropout
  double keptCycles;    ///< cycles of an element to load the saved decision of dropout
  double scoreCycles;   ///< cycles of an element to load its saved score
  double sumCycles;     ///< cycles of an element of dQ that computing warps add to memory
};
} // namespace

// Fitted to 12 shapes without dropout, with dropout, and with saved values, on an H100 and an H200
// (docs/log/backward.md, "Backward"), D 64 and 128. Loads of saved values expose the latency of memory, because no
// asynchronous copy prefetches them.
static constexpr BackwardCalibration ofWarpgroups = {.efficiency = 1.0,
                                                     .tileCycles = 1114,
                                                     .elementCycles = 0.0963,
                                                     .dropoutCycles = 0.15,
                                                     .keptCycles = 0.138,
                                                     .scoreCycles = 0.5,
                                                     .sumCycles = 0};
static constexpr BackwardCalibration ofWarps = {.efficiency = 0.60,
                                                .tileCycles = 0,
                                                .elementCycles = 0.02,
                                                .dropoutCycles = 0.105,
                                                .keptCycles = 0.155,
                                                .scoreCycles = 0.17,
                                                .sumCycles = 0.15};
static constexpr double hbmShare = 0.8;       ///< fraction of the HBM rate that copies reach
static constexpr double storeShare = 0.65;    ///< fraction of the HBM rate that stores of a saved score reach
static constexpr double launchSeconds = 3e-6; ///< launch overhead of each kernel
static constexpr double saveDropoutAlu = 6;   ///< instructions to save an element's dropout bit, with 1/8 of a store
static constexpr double saveScoreAlu = 3;     ///< instructions to save an element's score: address and store
static constexpr double exposedShare = 0.5;   ///< fraction of special functions that other work does not hide

std::string_view attune::name(Savable value) { return value == Savable::Dropout ? "dropout" : "score"; }

double attune::savedBytes(const PlanRequest &request, SavedValues saved) {
  const double blocks =
      double(request.batch * request.heads) * double(ceilDiv(request.queries, 16)) * double(ceilDiv(request.keys, 16));
  return blocks * ((saved.dropout ? 32 : 0) + (saved.score ? 1024 : 0));
}

double BackwardCost::flops() const {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0,
                         [](double sum, const BackwardKernelCost &kernel) { return sum + kernel.flops; });
}
double BackwardCost::hbmBytes() const {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0,
                         [](double sum, const BackwardKernelCost &kernel) { return sum + kernel.hbmBytes(); });
}
double BackwardCost::seconds() const {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0,
                         [](double sum, const BackwardKernelCost &kernel) { return sum + kernel.seconds; });
}

namespace {
class Counter {
public:
  Counter(const BackwardRequest &request, const BackwardPlans &plans, SavedValues saved)
      : request(request.plan), score(saved.score ? request.withSavedScore : request.score), plans(plans), saved(saved),
        arch(**archInfo(request.plan.arch)), adds(plans.accumulatesDq) {
    const double e = this->request.elementBytes, d = this->request.headDim, dv = this->request.headDimV;
    const double rows = double(this->request.batch * this->request.heads) * double(this->request.queries);
    const double keys = double(this->request.batch * this->request.headsKv) * double(this->request.keys);
    ofQ = rows * d * e;
    ofO = rows * dv * e;
    ofK = keys * d * e;
    ofV = keys * dv * e;
    ofRow = rows * 4;
    sums = adds ? rows * d * 4 : 0;
  }

  BackwardCost count() const {
    BackwardCost cost;
    const double statistics = request.rowStatistics ? 1 : 0;
    cost.workspaceBytes = statistics * ofRow + sums;
    if (statistics > 0 || sums > 0)
      cost.kernels.push_back(ofBytes("rows", statistics * (2 * ofO + ofRow), statistics * ofRow + sums));
    const double inputs = ofQ + ofO + ofK + ofV + 2 * statistics * ofRow;
    // A loop over keys that computes dQ recomputes S and dP. If the loop over queries accumulates dQ, the loop over
    // keys is not needed.
    if (plans.separateDv)
      cost.kernels.push_back(ofTiles("values", plans.keys, {.dv = true}, inputs - ofV, ofV));
    cost.kernels.push_back(ofTiles("keys", plans.keys, {.dk = true, .dv = !plans.separateDv, .dq = adds}, inputs + sums,
                                   ofK + (plans.separateDv ? 0 : ofV) + sums));
    if (adds)
      cost.kernels.push_back(ofBytes("queries", sums, ofQ));
    else
      cost.kernels.push_back(ofTiles("queries", plans.queries, {.dq = true}, inputs, ofQ));
    return cost;
  }

private:
  BackwardKernelCost ofBytes(std::string name, double read, double written) const {
    BackwardKernelCost cost{.name = std::move(name), .hbmReadBytes = read, .hbmWrittenBytes = written};
    cost.seconds = cost.hbmBytes() / (hbmShare * arch.memoryBytesPerSecond) + launchSeconds;
    return cost;
  }

  /// The gradients that a kernel with a loop over tiles accumulates.
  struct Summed {
    bool dk = false, dv = false, dq = false;
  };
  BackwardKernelCost ofTiles(std::string name, const Plan &plan, Summed of, double read, double written) const {
    const BackwardCalibration &calibration = plan.producerWarps ? ofWarpgroups : ofWarps;
    const TileCount tiles = countTiles(request, plan.tileQ, plan.tileK);
    const double places = double(ceilDiv(request.queries, plan.tileQ)) * double(ceilDiv(request.keys, plan.tileK));
    const double planes = (places > 0 ? tiles.visited / places : 0) * savedBytes(request, saved);
    const double elements = double(plan.tileQ) * plan.tileK;
    // All batches read the same dense bias.
    const double biases = double(request.heads) * tiles.visited * elements * request.biasBytes;
    BackwardKernelCost cost = ofBytes(std::move(name), read + planes + biases, written);
    const double d = double(roundUp(request.headDim, 16)), dv = double(roundUp(request.headDimV, 16));
    const double products = (score.needsProduct ? d : 0) + (of.dk || of.dq ? dv : 0) + (of.dk + of.dq) * d + of.dv * dv;
    const double heads = double(request.batch * request.heads), visited = heads * tiles.visited;
    cost.flops = 2 * products * elements * visited;
    const double cycles = arch.smCount * arch.clockGHz * 1e9;
    const double dropout = !request.dropout ? 0 : saved.dropout ? calibration.keptCycles : calibration.dropoutCycles;
    const double ofElement = calibration.elementCycles + dropout + (saved.score ? calibration.scoreCycles : 0) +
                             score.alu / arch.fmaPerClockPerSM +
                             exposedShare * score.special / arch.specialPerClockPerSM;
    const double ofSums = of.dk && of.dq ? plan.tileQ * double(request.headDim) * calibration.sumCycles : 0;
    const double ofMask = heads * tiles.partial * elements * request.maskAluPerElement / arch.fmaPerClockPerSM;
    const double busy =
        cost.flops / (calibration.efficiency * productRate(arch, *arch.programs, plan.producerWarps > 0)) +
        (visited * (calibration.tileCycles / plan.blocksPerSm + elements * ofElement + ofSums) + ofMask) / cycles;
    cost.seconds = std::max(cost.seconds, busy + launchSeconds);
    return cost;
  }

  const PlanRequest &request;
  const ScoreWork score;
  const BackwardPlans &plans;
  const SavedValues saved;
  const ArchInfo &arch;
  const bool adds;                        ///< whether dQ is accumulated in memory
  double ofQ, ofO, ofK, ofV, ofRow, sums; ///< bytes of each tensor, of a vector over rows and of the sums of dQ
};
} // namespace

BackwardCost attune::backwardCost(const BackwardRequest &request, const BackwardPlans &plans, SavedValues saved) {
  return Counter(request, plans, saved).count();
}

double attune::savingSeconds(const BackwardRequest &request, double seconds, double hbmBytes, SavedValues saved) {
  const ArchInfo &arch = **archInfo(request.plan.arch);
  const TileCount tiles = countTiles(request.plan, 128, 128);
  const double elements = double(request.plan.batch * request.plan.heads) * tiles.visited * 128 * 128;
  const double alu = (saved.dropout ? saveDropoutAlu : 0) + (saved.score ? saveScoreAlu : 0);
  const double busy = seconds + elements * alu / (arch.fmaPerClockPerSM * arch.smCount * arch.clockGHz * 1e9);
  const double all = double(request.plan.queries) * double(request.plan.keys);
  const double visitedPart = all > 0 ? std::min(1.0, tiles.visited * 128 * 128 / all) : 0;
  const double bytes = hbmBytes + visitedPart * savedBytes(request.plan, saved);
  return std::max(busy, bytes / ((saved.score ? storeShare : hbmShare) * arch.memoryBytesPerSecond)) - seconds;
}

std::string SavingDecision::text() const {
  std::string result = fmt::format("{} {}, {:.0f} bytes", value, isSaved ? "saved" : "recomputed", bytes);
  if (secondsGained)
    fmt::format_to(std::back_inserter(result), ", saved {:.3f} ms {}", std::abs(*secondsGained) * 1e3,
                   *secondsGained > 0 ? "quicker" : "slower");
  return result + (reason.empty() ? "" : ": " + reason);
}
