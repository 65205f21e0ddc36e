//===- Lowering.h - The part of the driver that sees MLIR -------------------===//
//
// Everything from a variant or IR text to CUDA source or a host object. Compile.cpp calls it on a cache miss only:
// nothing else in the driver touches MLIR.
//
//     Expected<Lowered> cuda = lower({.variant = &variant}, options, target, Stage::Cuda);
//     cuda->source                                    // self-contained CUDA C++
//
// Each call borrows an MLIR context from a pool of this process (made on first need, single-threaded), so calls
// from several threads run in parallel and see only their own diagnostics.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"
#include "codegen/sim/Sim.h"
#include "passes/analysis/cost/BackwardCost.h"

#include <vector>

namespace attune::driver {

/// Exactly one is set.
struct Source {
  const Variant *variant = nullptr;
  const IrText *text = nullptr;
};

/// A buffer of the plan. `offset` is -1 where the target has none.
struct PlacedBuffer {
  std::string name;
  int64_t bytes = 0;
  int64_t offset = -1;
};

/// What came out of a lowering. Fields of later stages than the one asked for are empty.
struct Lowered {
  IrSummary summary;
  std::string text;                 ///< the IR at the stage asked for
  std::string source;               ///< CUDA C++
  std::vector<char> object;         ///< CPU: the relocatable object
  std::vector<KernelEntry> entries; ///< in the order of the launch, without what a cubin tells
  Plan plan;                        ///< of the kernel whose schedule is the launch's
  std::string planned;              ///< that kernel's name, at sched and behind
  int threads = 1;
  size_t sharedBytes = 0;
  std::string path; ///< "mma.sync" or "wgmma", from sched on
  std::vector<PlacedBuffer> buffers;
  std::vector<std::pair<std::string, std::string>>
      schedule;                        ///< GPU: what the passes chose (ScheduleText.h), from sched on
  std::vector<std::string> remarks;    ///< what the passes did not do, and why, of all kernels
  std::optional<PlanRequest> request;  ///< where the input had an attn op
  std::optional<RankedPlan> predicted; ///< the cost of `plan`
  double irMilliseconds = 0;
  double printMilliseconds = 0;
  double objectMilliseconds = 0; ///< CPU: LLVM
};

/// Runs the passes up to `stage`: Attn, Tile, Sched or Cuda; for the CPU Llvm, and Cubin for the object. `withCost`
/// fills `request` and `predicted`.
Expected<Lowered> lower(const Source &source, const CompileOptions &options, const Target &target, Stage stage,
                        bool withCost);

/// What the cost model is asked for the attn op of `source` with the schedule fields of `options`, for `sizes`.
Expected<PlanRequest> requestOf(const Source &source, const CompileOptions &options, const Target &target,
                                const ProblemSizes &sizes, IrSummary &summary);

/// Every candidate of the cost model for that request; `tiles` become the request's.
Expected<std::vector<RankedPlan>> rank(const Source &source, const CompileOptions &options, const Target &target,
                                       const ProblemSizes &sizes, Lowered &described,
                                       std::shared_ptr<const TileMap> tiles = nullptr);

/// Ops of the score and mask of `source`, canonicalised: what its kernel computes for each element. 0 where its text
/// holds its tiles.
Expected<size_t> opsOfElement(const Source &source, const CompileOptions &options, const Target &target);

/// What the model says of a backward pass, its sizes, and of what the forward pass saves for it.
struct BackwardExplained {
  IrSummary summary;
  BackwardRequest request;
  BackwardPlans plans;
  BackwardCost cost;
  RankedPlan forward;       ///< the plan of the forward pass that the model prefers
  double forwardSaving = 0; ///< seconds that it takes more for what it saves
  std::vector<SavingDecision> values;
};
/// Of a variant whose gradients `options` ask for. Errors: those of the backward pass.
Expected<BackwardExplained> explainGradients(const Source &source, const CompileOptions &options, const Target &target,
                                             const ProblemSizes &sizes, std::shared_ptr<const TileMap> tiles);

/// The kernel of `attn-to-tile-map`, as tile text, and what it tells apart.
struct TileMapText {
  IrText text;
  bool byBatch = false, byHead = false;
  bool skips = false;               ///< intervals alone do not say which tiles are visited
  bool evaluatesAll = false;        ///< of some of the mask every element is evaluated
  std::vector<TensorParam> tensors; ///< that the kernel reads
  std::vector<ScalarParam> scalars; ///< the same
};
Expected<TileMapText> tileMapText(const Source &source, int tileQ, int tileK);

/// Parses and verifies text.
Expected<IrSummary> describe(const IrText &text);

/// Line `where.line` of `text` with a caret under the column.
std::string excerptOf(std::string_view text, const SourceLocation &where);

/// Sched text in the simulator. Its findings have the text's lines.
struct Simulated {
  IrSummary summary;
  std::vector<KernelEntry> entries;
  int tileQ = 0, tileK = 0;
  Simulator simulator;
};
Expected<Simulated> simulated(const IrText &text);

/// A host object linked into this process.
Expected<Kernel> loadHostImage(KernelImage image);

/// "" for CUDA, else what distinguishes this host's code from another's.
const std::string &hostKey();

} // namespace attune::driver
