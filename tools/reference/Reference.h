//===- Reference.h - Attention in float64, the plain way ----------------------===//
//
// The formula of docs/design.md as loops over b, h, q and k: dot products, softmax, O and LSE in float64, s
// and the score's operations rounded to float32, run by an interpreter of its own (Program.h). It shares
// nothing with the compiler but the public expression graph, so agreement between the two means something.
//
//     Problem problem{.variant = &variant, .q = q, .k = k, .v = v, .tensors = {{"slopes", slopes}}};
//     Expected<Output> exact = attention(problem);
//     Expected<Output> plain = plainLowPrecision(problem);
//     Comparison o = compareO(kernelO, *exact, *plain, bf16);
//     Comparison lse = compareLse(kernelLse, *exact, *plain, bf16);
//     if (!o.pass)
//       std::puts(o.describe().c_str());
//
// Semantics that the formula leaves to words:
//   - s is float32(scale * dot product), and every operation of the score rounds to float32, so that any
//   finite score
//     has one right result: `s + 1e10` makes all keys equal, and O the mean of V.
//   - A key whose x is -inf, by mask, block pattern or score, contributes nothing, whatever V holds.
//   - A row without a visible key has O = 0 and LSE = -inf.
//   - NaN and infinities at visible keys spread; a row with x = +inf or NaN has O = NaN and LSE = NaN.
//   - A dropped key is multiplied by 0 (0 * NaN = NaN).
//   - qOffset is added to q in expressions only; dropout and block patterns count rows from 0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"
#include "attune/Variant.h"
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

/// Row-major results.
struct Output {
  int64_t batch = 0, heads = 0, queryLength = 0, keyLength = 0, headDimV = 0;
  std::vector<double> o;      ///< [B, H, Sq, Dv]
  std::vector<double> lse;    ///< [B, H, Sq]
  std::vector<double> spread; ///< [B, H, Sq]: sum_k p * |x|, the derivative of LSE by a relative error of s'
  std::vector<uint8_t> keep;  ///< [B, H, Sq, Sk], 1 = kept, hidden keys included; empty unless wanted
  std::map<std::string, int64_t> clampedReads = {}; ///< by tensor: reads outside of it that the formula evaluates and that do not say clamped
};

/// The formula, softmax and sums in float64. Errors: shapes that do not fit, a captured tensor or scalar that
/// is missing or of another dtype or rank.
Expected<Output> attention(const Problem &problem);

/// What a straightforward low-precision implementation computes: S accumulated in float32 and rounded to
/// the dtype of q, score and softmax in float32, P' rounded to the dtype, P'V accumulated in float32, O
/// rounded to the dtype. `lse` is the float32 one.
Expected<Output> plainLowPrecision(const Problem &problem);

/// The verdict on one tensor of results.
struct Comparison {
  std::string name;    ///< "o" or "lse"
  double maxError = 0; ///< over the elements that are finite in the reference
  double rmsError = 0;
  double plainError = 0; ///< maxError of the plain computation
  double limit = 0;      ///< what maxError may be; for LSE, the limit at the worst row
  bool pass = true;
  int64_t badCount = 0;          ///< elements beyond the limit, or not finite where they should be
  std::vector<int64_t> badIndex; ///< of the first bad element; empty when there is none
  double badExpected = 0;
  double badActual = 0;

  /// "o: max error 1.2e-03 (limit 4.5e-03, plain 1.7e-03), rms 3.4e-05", and the first bad element.
  std::string describe() const;
};

/// O of shape [B, H, Sq, Dv] against the reference. Limit: twice the plain computation's maximum error
/// plus 1e-5 (f32) or 1e-3 (f16, bf16). An element that is finite in the reference has to be finite; one
/// that is not has to be equal, both NaN, or what the plain computation has there.
Comparison compareO(const HostTensor &o, const Output &exact, const Output &plain, DType inputs);

/// LSE of shape [B, H, Sq] (f32) against the reference. -inf has to match exactly, NaN is compared as in
/// compareO, and the error of a row may be
///
///     1e-4 + r * spread + (f32 only) 2 * max error of the plain LSE
///
/// LSE changes by sum_k p * ds' when the scores change by ds', so a relative error r of every s' moves it
/// by at most r * sum_k p * |s'| = r * spread. r is 1e-4 for float32 and for `.precise()` variants (S
/// itself is accumulated in float32, which is far below), else the fast-math bound of docs/design.md with
/// a margin for the second order: 2^-9 for bf16 and 2^-12 for f16, times 1.25. For float32 the plain LSE
/// accounts for expressions that cancel; for the others it holds the rounding of S, which kernels do not
/// make, and is left out.
Comparison compareLse(const HostTensor &lse, const Output &exact, const Output &plain, DType inputs,
                      bool precise = false);

} // namespace attune::reference
