//===- Reference.h - Attention in float64, the plain way ----------------------===//
//
// The formula of docs/inside/decisions-numerics.md as loops over b, h, q and k: dot products, softmax, O and LSE in float64, s
// and the score's operations rounded to float32, run by an interpreter of its own (Program.h). It shares
// nothing with the compiler but the public expression graph, so agreement between the two means something.
//
//     Problem problem{.variant = &variant, .q = q, .k = k, .v = v, .tensors = {{"slopes", slopes}}};
//     Expected<Output> exact = attention(problem);
//     Expected<Output> plain = plainLowPrecision(problem);
//     Comparison o = compareO(kernelO, *exact, *plain);     // Compare.h
//
// Semantics that the formula leaves to words:
//   - s is float32(scale * dot product), and every operation of the score rounds to float32, so that any
//     finite score has one right result: `s + 1e10` makes all keys equal, and O the mean of V.
//   - A key whose x is -inf, by mask, block pattern or score, contributes nothing, whatever V holds.
//   - A row without a visible key has O = 0 and LSE = -inf.
//   - The normaliser is softmax, softmax with a sink, sigmoid or none, as formulas of its own: others are refused.
//   - NaN and infinities at visible keys spread; a row with x = +inf or NaN has O = NaN and LSE = NaN.
//   - A dropped key is multiplied by 0 (0 * NaN = NaN).
//   - qOffset is added to q in expressions only; dropout and block patterns count rows from 0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"
#include "attune/Kernel.h"
#include "attune/Variant.h"
#include "tools/reference/Memory.h"
#include "tools/reference/Npy.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attune::reference {

/// One call of attention. q is [B, H, Sq, D], k is [B, Hkv, Sk, D], v is [B, Hkv, Sk, Dv], all of one float
/// dtype; H is a multiple of Hkv.
struct Problem {
  const Variant *variant = nullptr;
  HostTensor q, k, v;
  std::map<std::string, HostTensor> tensors = {}; ///< captured tensors, the block pattern's among them
  std::map<std::string, HostTensor> scalars = {}; ///< run-time scalars as rank-0 tensors: scalarOf(f32, 2)
  std::optional<double> scale = {};               ///< unset: the variant's, else 1 / sqrt(D)
  std::optional<double> dropout = {};             ///< unset: the variant's probability
  uint64_t seed = 0;
  uint64_t offset = 0;
  int64_t qOffset = 0;
  bool wantKeep = false; ///< fill Output::keep
  unsigned threads = 0;  ///< 0: the hardware's
};

/// A rank-0 tensor.
HostTensor scalarOf(DType dtype, double value);
/// What a launch takes for a run-time scalar: scalarOf(i32, 2) as 2.
ScalarValue scalarValue(const HostTensor &value);

/// Row-major results.
struct Output {
  int64_t batch = 0, heads = 0, queryLength = 0, keyLength = 0, headDimV = 0;
  std::vector<double> o;     ///< [B, H, Sq, Dv]; NaN in rows behind a sequence's queries, as in lse
  std::vector<double> lse;   ///< [B, H, Sq]; empty where the normaliser has none
  std::vector<uint8_t> keep; ///< [B, H, Sq, Sk], 1 = kept, hidden keys included; empty unless wanted
  std::map<std::string, int64_t> clampedReads =
      {}; ///< by tensor: reads outside of it that the formula evaluates and that do not say clamped

  // Of `attention` alone, [B, H, Sq]: what Compare.h holds a kernel of q's dtype to.
  std::vector<double> oError;           ///< expected error of O, RMS over Dv, of a kernel that rounds P' and O to the
                                        ///< dtype, sums in float32 and has functions as accurate as docs/inside asks
  std::vector<double> lseError;         ///< the same of LSE
  std::vector<uint8_t> maskedNonFinite; ///< of InKeys and InValues: NaN or infinities stand at keys that the
                                        ///< row does not see
  enum : uint8_t { InKeys = 1, InValues = 2 };
};

/// About how long `attention` and `plainLowPrecision` take together for q [B, H, Sq, D] and v [B, Hkv, Sk, Dv], with
/// every key visible and plain scores: 0.65 ns for each product of S and of PV, and 10 ns for each element of K and V,
/// on each of so many cores.
double expectedSeconds(const std::array<int64_t, 4> &q, const std::array<int64_t, 4> &v, unsigned threads);

/// What `attention` and `plainLowPrecision` allocate for tensors of these shapes, results included.
void addReferenceMemory(MemoryNeed &need, std::span<const int64_t> q, std::span<const int64_t> k,
                        std::span<const int64_t> v, bool wantKeep);

/// The formula, softmax and sums in float64. Errors: shapes that do not fit, a captured tensor or scalar that
/// is missing or of another dtype or rank, a normaliser other than those above.
Expected<Output> attention(const Problem &problem);

/// What a straightforward low-precision implementation computes: S accumulated in float32 and rounded to
/// the dtype of q, score and softmax in float32, P' rounded to the dtype, P'V accumulated in float32, O
/// rounded to the dtype. `lse` is the float32 one.
Expected<Output> plainLowPrecision(const Problem &problem);

/// The number of (b, h, q, k) that mask and block pattern show; a key that the score alone hides counts. Reads the
/// shapes of q, k and v, not their data. A row is evaluated once for all batches, heads or queries that the mask does
/// not tell apart; nothing is given where that would still be more than `mostEvaluations` elements.
Expected<std::optional<int64_t>> countVisible(const Problem &problem, int64_t mostEvaluations);

/// Some queries of one head and some keys.
struct ElementRange {
  int64_t b = 0, h = 0, firstQuery = 0, queries = 0, firstKey = 0, keys = 0;
};
/// Whether mask and block pattern show each element of the range, which lies within the problem: [queries, keys].
Expected<std::vector<uint8_t>> visibleElements(const Problem &problem, const ElementRange &range);

} // namespace attune::reference
