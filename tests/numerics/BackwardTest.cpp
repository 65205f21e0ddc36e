//===- BackwardTest.cpp - Gradients on the CPU target against float64 ------------===//

#include "tests/numerics/BackwardRunner.h"
#include "tests/numerics/Cases.h"

#include <catch2/catch.hpp>

using namespace attune;
using namespace attune::tests;

namespace {

void runGroup(const std::string &name) {
  for (const Group &group : groups(false)) {
    if (group.name != name)
      continue;
    for (const std::function<Case()> &make : group.cases) {
      Verdict verdict = checkBackward(make(), Target::cpu());
      INFO(verdict.text);
      CHECK(verdict.pass);
    }
    return;
  }
  FAIL("no group " + name);
}

} // namespace

TEST_CASE("builtins") { runGroup("builtins"); }
TEST_CASE("lengths") { runGroup("lengths"); }
TEST_CASE("head-dims") { runGroup("head-dims"); }
TEST_CASE("grouped-heads") { runGroup("grouped-heads"); }
TEST_CASE("layouts") { runGroup("layouts"); }
TEST_CASE("hidden") { runGroup("hidden"); }
TEST_CASE("hard-inputs") { runGroup("hard-inputs"); }
TEST_CASE("large-scores") { runGroup("large-scores"); }
TEST_CASE("patterns") { runGroup("patterns"); }
TEST_CASE("bounds") { runGroup("bounds"); }
TEST_CASE("captured") { runGroup("captured"); }
TEST_CASE("scalars") { runGroup("scalars"); }
TEST_CASE("expressions") { runGroup("expressions"); }
TEST_CASE("dropout") { runGroup("dropout"); }
TEST_CASE("wide-heads") { runGroup("wide-heads"); }
TEST_CASE("normalisers") { runGroup("normalisers"); }
