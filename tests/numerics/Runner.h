//===- Runner.h - Run a case on a target and judge it -----------------------===//
//
// What the tests on the CPU target and on a GPU share. A case is a problem of the float64 reference with a
// layout in memory; running it surrounds every tensor with NaN, and judging compares O and LSE with the
// reference and looks for writes outside O and LSE.
//
//     Case test = makeCase("causal", Variant("c").mask(causal()), bf16, {.queries = 113, .keys = 203}, 1);
//     Verdict verdict = check(test, Target::cpu());
//     INFO(verdict.text);
//     CHECK(verdict.pass);
//
// Layout of Q, K, V and O: one chunk of memory per batch, with `guardRows` rows of NaN around each sequence
// and `padColumns` columns of NaN after each row:
//
//     | order        | row stride             | head stride                  |
//     |--------------|------------------------|------------------------------|
//     | [B, H, S, D] | D + pad                | (S + 2 * guard) * row stride |
//     | [B, S, H, D] | H * head stride        | D + pad                      |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Builtins.h"
#include "attune/Compile.h"
#include "tools/reference/Compare.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attune::tests {

/// How a case's tensors lie in memory.
struct Layout {
  bool rowsBeforeHeads = false; ///< [B, S, H, D] in place of [B, H, S, D]; LSE [B, S, H]
  int64_t guardRows = 2;        ///< rows of NaN before and after each sequence
  int64_t padColumns = 0;       ///< columns of NaN after each row, a multiple of 8
  int64_t batchGap = 0;         ///< elements between the batches of K and V that belong to no tensor
  bool reversedTensors = false; ///< captured tensors with the first dimension the fastest
  int64_t tensorShift = 0;      ///< elements by which captured tensors lie behind a multiple of 64 of them
  int64_t gradientShift = 0;    ///< and how much further their gradients
  bool withoutLse = false;      ///< no LSE asked for
  /// Captured tensors with the first row of each batch that is NaN, of K and V or of Q and dO; "": none is.
  std::string keysEnd = {}, queriesEnd = {};
  bool seedPointers = false; ///< dropout's seed and offset by pointer
};

struct Shape {
  int64_t batch = 1, heads = 2, headsKv = 2, queries = 64, keys = 64;
  int headDim = 32, headDimV = 0; ///< 0: headDim
};

struct Case {
  std::string label;
  std::shared_ptr<const Variant> variant;
  reference::Problem problem; ///< problem.variant points to `variant`
  Layout layout = {};
  CompileOptions options = {};                   ///< dtype and head dims are the problem's
  std::shared_ptr<const Variant> reference = {}; ///< another that computes the same: then problem.variant points to it
  /// With `reference`: the LSE of `variant` in a row of a head, from the LSE of `reference`. Unset: they are equal.
  std::function<double(int64_t head, double lse)> lse = {};

  /// Whether LSE is asked for.
  bool wantsLse() const { return !layout.withoutLse && variant->hasLse(); }

  /// "causal bf16 B 1 H 2/2 S 113 x 203 D 32 x 32".
  std::string describe() const;
};

/// Random q, k and v. Captured tensors that the problem lacks and whose names are those of the built-ins (ids,
/// lengths, slopes, table, bias, pattern, sinks; the scalar top) get values that make sense for the shape.
Case makeCase(std::string label, Variant variant, DType dtype, const Shape &shape, uint64_t seed);
/// The same of a problem that already has its inputs.
Case makeCase(std::string label, std::shared_ptr<const Variant> variant, reference::Problem problem);

struct Results {
  reference::HostTensor o, lse; ///< row-major; lse is empty where none was asked for
  std::string outside;          ///< not empty: what was written outside O and LSE
};

/// Launches once, on the kernel's device.
Expected<Results> run(const Kernel &kernel, const Case &test);
/// The same with what is here in place of a kernel's.
struct Launcher {
  Device device;
  std::function<size_t(const LaunchArgs &)> workspaceBytes;
  std::function<Expected<void>(const LaunchArgs &)> launch;
};
Expected<Results> run(const Launcher &launcher, const Case &test);

struct Expectation {
  reference::Output exact, plain;
};
Expected<Expectation> expect(const Case &test);

struct Verdict {
  bool pass = false;
  std::string text; ///< one line: the case, errors and limits, what is wrong
  double ratio = 0; ///< the larger of O's and LSE's error over its limit
};
Verdict judge(const Case &test, const Expectation &expected, const Expected<Results> &results);

/// The options with dtype and head dims of the problem.
CompileOptions optionsOf(const Case &test);
/// Compiles, runs, and compares.
Verdict check(const Case &test, const Target &target);

/// Three documents of whole tiles, of which the middle one has NaN for keys and values: the others' rows have the bits
/// that they have without NaN, where tiles of other documents are neither loaded nor computed (0 * NaN is NaN).
Verdict checkSkippedTiles(const Target &target, DType dtype, int headDim);

/// Which keys each row keeps, recovered from the kernel's own output: with q = 0 all scores are 0, and where V is
/// one-hot for a block of keys, column d of O is 0 iff key begin + d was dropped. [B, H, Sq, Sk]; `test` gives
/// shape, seed and variant, and its Dv is the size of a block.
Expected<std::vector<uint8_t>> recoverKeep(const Kernel &kernel, Case test);
Expected<std::vector<uint8_t>> recoverKeep(const std::function<Expected<Results>(const Case &)> &run, Case test);
/// The same from the formula.
std::vector<uint8_t> formulaKeep(const Case &test);

} // namespace attune::tests
