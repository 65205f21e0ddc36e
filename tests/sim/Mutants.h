//===- Mutants.h - Kernels with one op of synchronisation changed -----------===//
//
// Every op that waits, arrives, fences, commits or counts is removed or changed, one at a time, in kernels of both
// paths; so is what keeps roles together: the tiles that a search finds, what one role tells another, the order of
// work, where rings go on with the next tile of work.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/sim/Schedules.h"

#include <functional>
#include <string>
#include <vector>

namespace attune::tests {

struct Mutant {
  std::string what; ///< "wait_copies 2 removed"
  std::string text;
};

std::vector<std::string> linesOf(const std::string &text);
/// Each with a line break behind it.
std::string join(const std::vector<std::string> &lines);

/// All mutants of a kernel's text. Ops are counted in the order of the text. Some do not load: what an op's own
/// verifier refuses.
std::vector<Mutant> mutantsOf(const std::string &text);

/// A module without the kernels whose first line is one of those, of which one is left.
std::string withoutKernels(const std::string &text, const std::function<bool(const std::string &)> &isOne);
/// A module without the kernels that start where TMA cannot read a tensor (`tile.fallback_of`).
std::string withoutFallbacks(const std::string &text);

struct Subject {
  std::string name;
  Variant variant;
  Schedule schedule;
};

/// Kernels whose mutants are counted.
std::vector<Subject> mutationSubjects();

} // namespace attune::tests
