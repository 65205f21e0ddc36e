//===- BackwardCost.h - Predicts bytes and time of the backward pass ----------===//
//
// The cost is a sum over the kernels that AttnToTileBackward.cpp creates. Bytes are HBM traffic: each tensor is counted
// once, but a dense bias only in the visited tiles. If dQ is accumulated in memory, its float32 sums are cleared, added
// to and read. The time of a kernel is the larger of the time of its bytes and the time of its tiles of S:
//
//     products / (rate * efficiency)  +  cycles of a tile  +  cycles of an element  +  cycles of the score
//
// A value that the forward pass saves adds bytes and removes the cycles to recompute the value.
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/BackwardPlan.h"

#include <optional>
#include <string>
#include <vector>

namespace attune {

/// Values that the forward pass can save for the backward pass in addition to O and LSE.
enum class Savable : uint8_t { Dropout, Score };
/// The name of a value: "dropout" or "score".
std::string_view name(Savable value);

/// The work of the score's expressions for each element of S.
struct ScoreWork {
  double alu = 0, special = 0; ///< instructions and special functions of the score and of its gradient
  bool needsProduct = true;    ///< whether S = Q K^T must be computed
};

/// Which values the forward pass saves for the backward pass, in addition to O and LSE (Savable).
struct SavedValues {
  bool dropout = false, score = false;
  bool has(Savable value) const { return value == Savable::Dropout ? dropout : score; }
  bool any() const { return dropout || score; }
  friend bool operator==(const SavedValues &, const SavedValues &) = default;
};

/// The properties of a backward pass that the model reads.
struct BackwardRequest {
  PlanRequest plan;
  ScoreWork score, withSavedScore; ///< work of the score if it is recomputed; work if a saved score is read
  SavedValues saved = {};          ///< the values whose saving is decided already
};

/// The bytes of the saved values, for the request's sizes.
double savedBytes(const PlanRequest &request, SavedValues saved);

struct BackwardKernelCost {
  std::string name; ///< "rows" (row statistics), "values" (dV), "keys" (dK, or dK and dV) or "queries" (dQ)
  double flops = 0;
  double hbmReadBytes = 0, hbmWrittenBytes = 0;
  double seconds = 0;
  double hbmBytes() const { return hbmReadBytes + hbmWrittenBytes; }
};

struct BackwardCost {
  std::vector<BackwardKernelCost> kernels;
  double workspaceBytes = 0; ///< workspace of the launch: delta, float32 sums of dQ
  double flops() const;
  double hbmBytes() const;
  double seconds() const;
};

/// The cost on a GPU of a backward pass with `plans` (see chooseBackwardPlans) that reads the values `saved` by the
/// forward pass. Gradients of captured tensors are not counted.
BackwardCost backwardCost(const BackwardRequest &request, const BackwardPlans &plans, SavedValues saved = {});

/// The additional seconds that a forward pass takes to write the values `saved` to memory. A forward pass that saves
/// none of them takes `seconds` and moves `hbmBytes` between HBM and L2.
double savingSeconds(const BackwardRequest &request, double seconds, double hbmBytes, SavedValues saved);

/// The decision about one value, "lse", "o", "score", "p", "mask" or "dropout": saved or recomputed, and why.
struct SavingDecision {
  std::string value;
  bool isSaved = false;
  double bytes = 0; ///< memory of the value if saved, for the request's sizes
  /// How much less time forward and backward pass together take if the forward pass saves the value than if the
  /// backward pass recomputes the value, with the decisions about other values fixed. Negative if saving is slower;
  /// empty if the model has no choice.
  std::optional<double> secondsGained = {};
  std::string reason;
  /// The decision as `explain` prints it: "dropout saved, 33554432 bytes, saved 0.210 ms quicker: within the budget".
  /// The time is that of both passes with the value saved, against recomputed; the budget is the memory budget.
  std::string text() const;
};

} // namespace attune
