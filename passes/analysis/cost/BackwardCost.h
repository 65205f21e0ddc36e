//===- BackwardCost.h - What the backward pass moves and how long it takes ----===//
//
// The kernels of AttnToTileBackward.cpp, one after the other. Bytes are those that HBM must move: each tensor once, of a
// dense bias the tiles that are visited, and where dQ is added up in memory its float32 sums cleared, added to and read. Seconds are of tiles of S:
//
//     products / (rate * efficiency)  +  cycles of a tile  +  cycles of an element  +  what its expressions take
//
// or of the bytes, where these take longer. What the forward pass saves takes bytes, and away what computes it again.
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

/// What the forward pass may leave for the backward pass beside O and LSE.
enum class Savable : uint8_t { Dropout, Score };
/// "dropout", "score"
std::string_view name(Savable value);

/// Instructions of the score for each element of S, and what is left of them where a value of it is saved.
struct ScoreWork {
  double alu = 0, special = 0; ///< of x and of its gradient
  bool needsProduct = true;    ///< whether S is computed
};

/// The backward pass of a request.
struct BackwardRequest {
  PlanRequest plan;
  ScoreWork score, withSavedScore;
  bool hasScore = true; ///< whether there is a float32 that stands for the score
};

/// Which of them are saved.
struct SavedValues {
  bool dropout = false, score = false;
  bool has(Savable value) const { return value == Savable::Dropout ? dropout : score; }
  bool any() const { return dropout || score; }
  friend bool operator==(const SavedValues &, const SavedValues &) = default;
};

/// Bytes of what is saved, for the request's sizes.
double savedBytes(const PlanRequest &request, SavedValues saved);

struct BackwardKernelCost {
  std::string name; ///< "rows", "keys", "queries"
  double flops = 0;
  double hbmReadBytes = 0, hbmWrittenBytes = 0;
  double seconds = 0;
  double hbmBytes() const { return hbmReadBytes + hbmWrittenBytes; }
};

struct BackwardCost {
  std::vector<BackwardKernelCost> kernels;
  double workspaceBytes = 0; ///< of the launch: delta, sums of dQ
  double flops() const;
  double hbmBytes() const;
  double seconds() const;
};

/// Of the plans that chooseBackwardPlans gives, on a GPU. Not counted: gradients of captured tensors.
BackwardCost backwardCost(const BackwardRequest &request, const BackwardPlans &plans, SavedValues saved = {});

/// Seconds that a forward pass of `seconds` and `hbmBytes` takes more where it saves values.
double savingSeconds(const BackwardRequest &request, double seconds, double hbmBytes, SavedValues saved);

/// One value: "lse", "o", "score", "p", "mask", "dropout".
struct SavingDecision {
  std::string value;
  bool isSaved = false;
  double bytes = 0; ///< that it takes where it is saved, for the sizes
  /// What saving it gives, where the model has a choice: of forward and backward together, the others being decided.
  /// Positive where it is quicker.
  std::optional<double> secondsGained = {};
  std::string reason;
  /// "dropout   saved       33554432 bytes, 0.21 ms quicker: within the budget"
  std::string text() const;
};

} // namespace attune
