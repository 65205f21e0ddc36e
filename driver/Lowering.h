//===- Lowering.h - The part of the driver that uses MLIR -------------------===//
//
// Lowering of a variant or of IR text to CUDA source or a host object. Compile.cpp calls these functions on a cache
// miss only. Nothing else in the driver uses MLIR.
//
//     Expected<Lowered> cuda = lower({.variant = &variant}, options, target, Stage::Cuda);
//     cuda->source                                    // self-contained CUDA C++
//
// Each call borrows a single-threaded MLIR context from a pool of this process, so calls from several threads run in
// parallel and get only their own diagnostics.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"
#include "codegen/sim/Sim.h"
#include "passes/analysis/cost/PlanSpace.h"
#include "passes/tile/PlanKernels.h"

#include <vector>

namespace attune::driver {

/// The input of a compilation: a variant or IR text. Exactly one pointer is set.
struct Source {
  const Variant *variant = nullptr;
  const IrText *text = nullptr;
  std::optional<BackwardPlans> plans = {}; ///< the plans of a backward pass, if these are fixed; see withPlan
};

/// A buffer in shared memory, or the scratch memory of a CPU thread, for which `offset` is -1.
struct PlacedBuffer {
  std::string name;
  int64_t bytes = 0;
  int64_t offset = -1;
};

/// The result of a lowering. Fields of stages after the requested one are empty.
struct Lowered {
  IrSummary summary;
  std::string text;                 ///< the IR at the requested stage
  std::string source;               ///< CUDA C++
  std::vector<char> object;         ///< CPU: the relocatable object
  std::vector<KernelEntry> entries; ///< in the order of the launch, without properties that only the cubin has
  Plan plan;                        ///< the plan of the main kernel of the launch
  std::string planned;              ///< the name of the main kernel, from stage sched on
  int threads = 1;
  size_t sharedBytes = 0;
  std::string path; ///< "mma.sync" or "wgmma", from sched on
  std::vector<PlacedBuffer> buffers;
  std::vector<std::pair<std::string, std::string>>
      schedule;                        ///< GPU: the schedule in words (ScheduleText.h), from stage sched on
  std::vector<std::string> remarks;    ///< remarks of all kernels: what the passes did not do, and why
  std::optional<PlanRequest> request;  ///< the cost model's request, if the input had an attn op
  std::optional<RankedPlan> predicted; ///< the predicted cost of `plan`
  std::optional<std::pair<BackwardRequest, BackwardPlans>>
      backward; ///< the request and the plans of a backward pass, if the input had an attn op
  double irMilliseconds = 0;
  double printMilliseconds = 0;
  double objectMilliseconds = 0; ///< CPU: time of LLVM
};

/// Runs the passes up to `stage`: Attn, Tile, Sched or Cuda; on the CPU also Llvm, and Cubin for the object. If
/// `withCost`, the result has `request` and `predicted`.
Expected<Lowered> lower(const Source &source, const CompileOptions &options, const Target &target, Stage stage,
                        bool withCost);

/// The cost model's request for the attn op of `source` with the schedule fields of `options`, for `sizes`.
Expected<PlanRequest> requestOf(const Source &source, const CompileOptions &options, const Target &target,
                                const ProblemSizes &sizes, IrSummary &summary);

/// All candidate plans of the cost model for that request, ranked; `tiles` is the request's map of visited tiles.
Expected<std::vector<RankedPlan>> rank(const Source &source, const CompileOptions &options, const Target &target,
                                       const ProblemSizes &sizes, Lowered &described,
                                       std::shared_ptr<const TileMap> tiles = nullptr);

/// The plans that tuning may measure for `sizes`, ranked by the cost model. Precondition: leavesScheduleOpen, and the
/// source of a backward pass is a variant.
Expected<std::vector<PredictedPlan>> tuningSpace(const Source &source, const CompileOptions &options,
                                                 const Target &target, const ProblemSizes &sizes);

/// The number of ops in the canonicalised score and mask of `source`, which its kernel computes for each element. 0 for
/// text at stage tile or later.
Expected<size_t> opsOfElement(const Source &source, const CompileOptions &options, const Target &target);

/// The cost model's analysis of a backward pass, and of the values that the forward pass saves for it.
struct BackwardExplained {
  IrSummary summary;
  BackwardRequest request;
  BackwardPlans plans;
  BackwardCost cost;
  RankedPlan forward;       ///< the plan of the forward pass that the model prefers
  double forwardSaving = 0; ///< additional seconds of the forward pass for saving values
  std::vector<SavingDecision> values;
};
/// The analysis for `source`, for which `options` request gradients. Errors: those of the backward pass.
Expected<BackwardExplained> explainGradients(const Source &source, const CompileOptions &options, const Target &target,
                                             const ProblemSizes &sizes, std::shared_ptr<const TileMap> tiles);

/// The kernel of `attn-to-tile-map`, as tile text, and the properties of its mask.
struct TileMapText {
  IrText text;
  bool byBatch = false, byHead = false; ///< whether the map depends on the batch and on the head
  bool skips = false;                   ///< whether tiles are skipped by more than intervals of positions
  bool evaluatesAll = false;            ///< whether a part of the mask is evaluated for every element
  std::vector<TensorParam> tensors;     ///< captured tensors that the kernel reads
  std::vector<ScalarParam> scalars;     ///< run-time scalars that the kernel reads
};
Expected<TileMapText> tileMapText(const Source &source, int tileQ, int tileK);

/// The plans of a program's kernels, by the kernels' names. Kernels whose plan the text gives are left out.
using ProgramPlan = std::map<std::string, KernelPlan>;
/// "4 consumer warps, 4 producer warps, rings of 3 stages"; of several kernels with their names.
std::string textOf(const ProgramPlan &plan);

/// A plan of a program whose tile text has none, and the text with this plan.
struct PlannedProgram {
  ProgramPlan plan;
  std::string text;
  KernelCost
      cost; ///< of the launch: the seconds are the sum over kernels, all else is of the kernel that takes longest
};

/// The plans of a program in tile text, of which a kernel at least has none, by predicted time for `extents`. Of a
/// launch of several kernels, the n-th program has the n-th plan of each, or its best one if it has fewer.
Expected<std::vector<PlannedProgram>> plannedPrograms(const IrText &text, const Target &target, const Extents &extents);

/// The plans of each kernel of such a program, by the kernels' names.
using KernelPlans = std::map<std::string, std::vector<KernelPlan>>;
Expected<KernelPlans> kernelPlans(const IrText &text, const Target &target, const Extents &extents);

/// Parses and verifies text.
Expected<IrSummary> describe(const IrText &text);

/// Line `where.line` of `text` with a caret under the column.
std::string excerptOf(std::string_view text, const SourceLocation &where);

/// Sched text, loaded into the simulator. Findings of the simulator have lines of the text.
struct Simulated {
  IrSummary summary;
  std::vector<KernelEntry> entries;
  int tileQ = 0, tileK = 0;
  Simulator simulator;
};
Expected<Simulated> simulated(const IrText &text);

/// Links the host object of `image` into this process and returns its kernel.
Expected<Kernel> loadHostImage(KernelImage image);

/// A text that identifies the host's code: triple, processor and its features.
const std::string &hostKey();

} // namespace attune::driver
