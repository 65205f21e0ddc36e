//===- Cases.h - What is run on every target --------------------------------===//
//
// The grid of variants, shapes, dtypes, layouts and inputs, in groups. The CPU target runs a sample of it in CI
// (tests/Sample.h), a GPU all of it in tests/gpu. Inputs are made when a case is asked for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/Sample.h"
#include "tests/numerics/Runner.h"

namespace attune::tests {

/// The dtypes of operands in the order of the grids, and in that of grids for decoding.
inline constexpr DType dtypes[] = {f32, bf16, f16}, narrowFirst[] = {bf16, f16, f32};

struct Group {
  std::string name;
  std::vector<std::function<Case()>> cases;
};

/// "builtins", "lengths", "head-dims", "grouped-heads", "layouts", "hidden", "hard-inputs", "large-scores", "patterns", "head-masks",
/// "bounds", "captured", "scalars", "functions", "expressions", "dropout", "normalisers", "few-queries", "pages", "ends", "packed". `gpu` leaves out the head dims that take a
/// GPU compiler long, and adds long sequences.
std::vector<Group> groups(bool gpu);

/// Calls visit(case) for each case of a group on the CPU, or for each of sampleStep(ofSample); false where there is no
/// such group.
bool forEachCase(const std::string &group, const std::function<void(const Case &)> &visit, size_t ofSample = 1);

/// "normalisers": those that come with attune, and definitions from outside.
Group normaliserGroup(bool gpu);
/// Few queries over many keys, by packed groups and shares of keys.
Group fewQueriesGroup();
/// Lengths of sequences, and keys in pages.
Group pagesGroup();
/// Masks that end keys or queries, with NaN after the end.
Group endsGroup();
/// Packed sequences.
Group packedGroup();

/// A small choice for compute-sanitizer: every kind of code, short sequences.
Group smallGroup();

/// The random case of a seed.
Case randomCase(uint64_t seed);

/// The lengths (queries, keys) of docs/peers that the peers' tests use, up to (1024, 1023).
const std::vector<std::pair<int64_t, int64_t>> &peerLengths();

/// Every built-in variant with parameters that matter at lengths of some hundred.
std::vector<Variant> builtinsForTests();

/// Causal, with dropout of probability `p`.
Case dropoutCase(DType dtype, const Shape &shape, float p, uint64_t seed);

} // namespace attune::tests
