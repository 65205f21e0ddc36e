//===- BackwardProgram.h - One backward pass, and the properties that decide the form of its kernels ---===//
#pragma once

#include "passes/attn/backward/CapturedGradients.h"

namespace attune::backward {
using namespace mlir; // only the kernels of the backward pass include this header

/// What all kernels of one backward pass have in common.
struct BackwardProgram {
  attn::AttentionOp op;
  attn::PlanAttr keysPlan;    ///< of the loop over queries: a thread block holds a tile of keys
  attn::PlanAttr queriesPlan; ///< of all other kernels: a thread block holds a tile of queries
  int64_t granularity;        ///< head dims are padded to multiples of this number (of the matrix instruction)
  ArrayRef<CapturedGradient> captured;

  /// Whether the loops of a plan have a producer role. Float32 kernels never have one.
  bool hasRoles(attn::PlanAttr plan) { return plan.getProducerWarps() > 0 && !op.getDtype().isF32(); }
  /// Whether the loop over queries computes all five products of the backward pass and adds each tile's contribution to
  /// dQ to float32 sums in global memory.
  bool accumulatesDq() { return op->hasAttr(attn::accumulatesDqAttr); }
  /// Whether the loop adds dQ to memory from registers, not by TMA from shared memory: without a producer role, and in
  /// persistent blocks, whose next K and V take that memory.
  bool addsFromRegisters() { return accumulatesDq() && (!hasRoles(keysPlan) || keysPlan.getPersistent()); }
  /// Whether dV and dK are computed by two separate loops over queries.
  bool separatesDv() { return op->hasAttr(attn::separateDvAttr); }
  /// Whether the weights of a row depend on row statistics (softmax).
  bool hasStatistics() { return !op.getStatistics().empty(); }
  /// Whether a softmax sink or the like makes the normaliser's divisor differ from the row's sum of weights. Then L =
  /// lse(LSE, divisor) differs from LSE and has a workspace operand.
  bool hasSink();

  /// The partial sums, one value per row (with `ofKeys` one value per key), that attn.add_gradient ops in `regions` add
  /// to. `regions` are gradient regions of the attention.
  SmallVector<GradientSum> sumsOf(std::initializer_list<Region *> regions, bool ofKeys);
  SmallVector<GradientSum> sumsOfElements(bool ofKeys) { return sumsOf({&op.getScoreGrad(), &op.getPGrad()}, ofKeys); }
  /// Whether a loop over keys computes gradients of captured tensors: sums per row, or scattered additions.
  bool addsByRow();

  /// Whether loops that compute dV mark dropped elements by a negative sign of P. Softmax weights are not negative, so
  /// one call of the random generator then serves P and dP.
  bool marksDropped() { return op.getDropout() && hasStatistics(); }
  /// Whether dX can be written as a sum of products. Let keep be 1 for kept and 0 for dropped elements, and let P' be P
  /// with a negative sign at dropped elements. Then keep P is (P' + |P'|) / 2, and the formula
  ///
  ///     dX = P (keep dP / (1 - p_drop) - delta) = ((P' + |P'|) dP - |P'| delta') / (2 (1 - p_drop))
  ///     delta' = 2 (1 - p_drop) delta
  ///
  /// needs no select; selects run at half rate, and P for dV already takes one. A loop that does not compute dV applies
  /// dropout to dP, two instructions instead of three:
  ///
  ///     dX = P (keep dP - delta' / 2) / (1 - p_drop)
  ///
  /// All later values are linear in dX, so the constant factor is applied to dQ and dK. Gradients of captured tensors
  /// are not scaled that way, so variants with captured gradients keep the select.
  bool splitsGradient() { return marksDropped() && captured.empty() && isWeighted(); }
  /// Whether the gradient of the scores, dX, is P G, where G = keep(dO V^T) - delta is the gradient of the weights P.
  bool isWeighted();
  /// Whether a value of the score's gradient region is 0 wherever P is 0: the value is a multiple of P, and no finite
  /// value of Q K^T gives a score of -inf. Then masking in partial tiles suffices.
  bool vanishes(Value value) { return isWeighted() && !hidesKeys() && isMultiple(value); }

private:
  /// Whether a score may be -inf although Q K^T is finite. Sums and products of finite numbers count as finite.
  bool hidesKeys();
  /// Whether `value` of the score's gradient region is dX times finite factors.
  bool isMultiple(Value value);
};

} // namespace attune::backward
