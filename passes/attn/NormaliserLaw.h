//===- NormaliserLaw.h - What the backward pass requires of row statistics ---===//
//
// The forward pass computes the weight of a key from the statistics m and l of its row, and saves LSE alone:
//
//     w = p(x, base(m)) / divisor(m, l)        m: the maximum of x; l: the sum of p(x, base(m)) over the row's keys
//     LSE = lse(m, l)
//
// The backward pass uses LSE as the maximum. The sum of the row is 1 for this maximum, and w = p(x, base(L)) with
//
//     L = LSE                                  where divisor is l
//     L = lse(LSE, divisor(LSE, 1))            otherwise, for example with a sink
//
// Gradients are those of w and LSE for the constant maximum LSE: only l depends on the scores. All of this is correct
// for a normaliser that keeps the following laws. Let m' >= m >= x, and let r = p(x, base(m')) / p(x, base(m)):
//
//     | law       | formula                                          | what it gives                                  |
//     |-----------|--------------------------------------------------|------------------------------------------------|
//     | statistics| one maximum, and one sum that starts from 0      | l is the sum above, for any split of the keys  |
//     | rescale   | rescale(m, l, base(m')) = r                      | l is the sum of p(x, base(m)) for the last m   |
//     | divisor   | divisor(m', r l) = r divisor(m, l)               | w does not depend on m                         |
//     | maximum   | lse(m', r l) = lse(m, l)                         | LSE does not depend on m                       |
//     | lse       | p(x, base(lse(m, l))) = p(x, base(m)) / l        | l = 1 for m = LSE; w = p(x, base(L))           |
//     | sign      | p >= 0                                           | the sign bit of P can mark dropped weights     |
//     | no keys   | lse = -inf for the initial values                | LSE = -inf marks a row without a visible key   |
//
// The laws are checked at points of a fixed pseudo-random sequence, in float64. A point has values of m, m', x, l, of
// the batch and the head, and of the captured tensors' elements and scalars that the expressions read. Equal means
// equal to 1e-5, because constants are float32: ln 2 errs by 3e-8, and exponents reach 100. This is no proof. Two
// analytic functions that agree at 32 such points are the same function for practical purposes, but an expression with
// a case of its own outside of the points' range (|x| > 32) is not evaluated there.
//
// CAPTURED TENSORS. The gradient of a tensor that p reads, such as a temperature, is the sum over the keys of the
// gradient of p for a constant maximum. The backward pass evaluates that gradient for the maximum L. Unless the divisor
// is l, L differs from LSE by a function of the tensor, so the gradient is refused. A gradient through base is refused
// too, because it is not computed. A temperature is more exact in the score than in p. The gradient of a score that is
// divided by a temperature has the score as a factor, that of p has the factor x - LSE: delta contains O rounded to the
// dtype, and this rounding error then weighs about LSE times as much.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"

namespace attune {

/// Checks that the normaliser of `op` keeps the laws (file header) under which the backward pass computes its
/// gradients. `op` has row statistics and requests gradients. The error, at the op, names the broken law, the values
/// for which it is broken, and what to write instead.
mlir::LogicalResult checkNormaliserLaws(attn::AttentionOp op);

/// The index of the first sum among the row statistics; 0 if there is none.
unsigned sumStatistic(attn::AttentionOp op);
/// Whether the normaliser divides by the row's sum of weights and by nothing else.
bool dividesBySum(attn::AttentionOp op);
/// Whether lse(m, l) is m + log(l), with the natural logarithm. Precondition: checkNormaliserLaws succeeds.
bool hasNaturalLse(attn::AttentionOp op);

} // namespace attune
