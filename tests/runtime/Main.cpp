#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

/// Set by a test that could not run for want of hardware or a library.
bool testSkipped = false;

int main(int argc, char **argv) {
  int failures = Catch::Session().run(argc, argv);
  return failures == 0 && testSkipped ? 77 : failures;
}
