#include "driver/ExplainBackward.h"

#include "driver/PlanJson.h"
#include "passes/analysis/cost/BackwardPlan.h"

#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::driver;
using nlohmann::ordered_json;

/// Bytes that the backward pass of standard attention (the paper's Algorithm 3) moves: P is read, dP and dS are written
/// and read, each of Sq x Sk in the inputs' element type.
static double standardBytes(const PlanRequest &request) {
  const double matrix =
      double(request.batch * request.heads) * double(request.queries) * double(request.keys) * request.elementBytes;
  const double e = request.elementBytes;
  const double ofQueries = double(request.batch * request.heads) * double(request.queries) * e,
               ofKeys = double(request.batch * request.headsKv) * double(request.keys) * e;
  // dV = P^T dO; dP = dO V^T; dS from dP and P; dQ = dS K; dK = dS^T Q.
  const double tensors = ofQueries * (2 * double(request.headDimV) + 2 * double(request.headDim)) +
                         ofKeys * (2 * double(request.headDimV) + 2 * double(request.headDim));
  return 7 * matrix + tensors;
}

Expected<std::string> attune::driver::explainBackward(const Source &source, const CompileOptions &options,
                                                      const Target &target, const ProblemSizes &sizes,
                                                      std::shared_ptr<const TileMap> tiles) {
  if (!target.isCuda())
    return Error{"the model knows the backward pass of GPUs alone; name an architecture such as sm_90a (--arch)"};
  Expected<BackwardExplained> explained = explainGradients(source, options, target, sizes, std::move(tiles));
  if (!explained)
    return explained.error();
  const BackwardCost &cost = explained->cost;
  const KernelSignature &signature = explained->summary.signature;
  ordered_json kernels = ordered_json::array(), values = ordered_json::array();
  for (const BackwardKernelCost &kernel : cost.kernels)
    kernels.push_back({{"name", kernel.name},
                       {"flops", kernel.flops},
                       {"hbmReadBytes", kernel.hbmReadBytes},
                       {"hbmWrittenBytes", kernel.hbmWrittenBytes},
                       {"microseconds", kernel.seconds * 1e6}});
  for (const SavingDecision &value : explained->values) {
    ordered_json &entry =
        values.emplace_back(ordered_json{{"value", value.value}, {"saved", value.isSaved}, {"bytes", value.bytes}});
    if (value.secondsGained)
      entry["microsecondsGained"] = *value.secondsGained * 1e6;
    entry["reason"] = value.reason;
  }
  const PlanCost &forward = explained->forward.cost;
  const ordered_json result = {{"variant", explained->summary.name},
                               {"arch", target.arch},
                               {"dtype", name(signature.dtype)},
                               {"headDim", signature.headDim},
                               {"headDimV", signature.headDimV},
                               {"pass", "backward"},
                               {"costModelVersion", costModelVersion},
                               {"sizes", sizesJson(explained->request.plan)},
                               {"text", explained->plans.text()},
                               {"kernels", kernels},
                               {"flops", cost.flops()},
                               {"hbmBytes", cost.hbmBytes()},
                               {"microseconds", cost.seconds() * 1e6},
                               {"workspaceBytes", cost.workspaceBytes},
                               {"standardAttentionBytes", standardBytes(explained->request.plan)},
                               {"forward",
                                {{"text", explained->forward.plan.text()},
                                 {"hbmBytes", forward.hbmBytes},
                                 {"microseconds", (forward.totalSeconds + explained->forwardSaving) * 1e6},
                                 {"savingMicroseconds", explained->forwardSaving * 1e6}}},
                               {"values", values}};
  return result.dump(2);
}
