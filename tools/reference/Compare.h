//===- Compare.h - Is a kernel's result right? --------------------------------===//
//
// One rule for the tool, the numerics tests, the simulator's and the GPU's:
//
//     Expected<Output> exact = attention(problem);
//     Expected<Output> plain = plainLowPrecision(problem);
//     Comparison o = compareO(kernelO, *exact, *plain);
//     Comparison lse = compareLse(kernelLse, *exact, *plain);
//     if (!o.pass)
//       std::puts(o.describe().c_str());   // o: row [0, 1, 4223] has an error of 0.0021, allowed is 0.0004; ...
//
// O is judged row by row. With err(row) the RMS over Dv of O's error, plain(row) that of the plain
// computation and expected(row) the reference's `oError`,
//
//     err(row)   <= max(2 * plain(row),   3 * expected(row))
//     err(whole) <= max(2 * plain(whole), (2 + 1 / sqrt(rows)) * expected(whole))        RMS over all rows
//
// Why expected(row): plain(row) is one draw. Where its roundings happen to be exact (one visible key, S = 0,
// equal V), or few of them decide (two keys, Dv 8), a right kernel with other roundings errs by more than
// twice of it; the rows that see as many keys are too few to say what is usual, as a causal mask leaves B * H
// of them. expected(row) is the standard deviation of those roundings in that very row, from the row's own p
// and V. A rounding errs by at most 2.35 standard deviations, and sums of several are normal: 3 is not
// reached by a right kernel in either case. No absolute term is needed: expected(row) shrinks with the row's
// P and V, so that at S 8192, where a key weighs 1e-4, the bound in bf16 is of that size and not 1e-3. For
// float32 it holds 1e-5 * sum_k p' * |v|.
//
// A row of n keys of N(0, 1) scores and values errs by about 7e-3 / sqrt(n) in bf16, so O shows a key that
// weighs more than twice that. LSE, which is float32, shows any lost key above its own limit of about 1e-5:
//
//     |err(lse)| <= 2 * lseError(row)
//
// Values that are not finite. What is NaN in the reference has to be NaN, and infinities have to be equal (or
// what the plain computation has there, as float32 and dtype overflow earlier); LSE is -inf exactly where the
// reference says so. What is finite in the reference has to be finite, but for rows of which a hidden key
// holds NaN or infinities in K or V: these may reach the row or not. Their finite values are held to the
// limits, and rows with others count as not checked.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/reference/Reference.h"

namespace attune::reference {

/// The verdict on one tensor of results.
struct Comparison {
  std::string name; ///< "o" or "lse"
  bool pass = true;
  double maxError = 0;   ///< over elements that are finite in the reference and the result
  double rmsError = 0;   ///< the same
  double plainError = 0; ///< rmsError of the plain computation
  double limit = 0;      ///< what rmsError may be
  int64_t rows = 0;
  int64_t badRows = 0;           ///< beyond their limit, or not finite where they should be
  int64_t uncheckedRows = 0;     ///< not finite, and NaN or infinities stand at a hidden key
  std::vector<int64_t> worstRow; ///< b, h, q of the row with the largest error over limit; empty without rows
  double worstError = 0;         ///< RMS over the row; infinity where a value is not finite or should not be
  double worstLimit = 0;
  std::string worstValue = {}; ///< "[0, 1, 2, 7] is nan, the reference has 0.25" in such a row

  /// The larger of the whole's and the worst row's error over its limit.
  double ratio() const;
  /// One line. Passed: "o: rms 3.4e-05 (limit 9e-05, plain 4.5e-05), row [0, 1, 2] 4e-05 of 1e-04,
  /// max 1.2e-03".
  std::string describe() const;
};

/// O of shape [B, H, Sq, Dv].
Comparison compareO(const HostTensor &o, const Output &exact, const Output &plain);
/// LSE of shape [B, H, Sq].
Comparison compareLse(const HostTensor &lse, const Output &exact, const Output &plain);

} // namespace attune::reference
