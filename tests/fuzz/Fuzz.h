//===- Fuzz.h - What the fuzz targets share -----------------------------------===//
//
// A fuzz target is one function over bytes, which libFuzzer calls with inputs that it mutates towards code it
// has not seen:
//
//     scripts/fuzz expressions 10                       // ten minutes of one target
//     build/bin/attune-fuzz-expressions crash-8d3f...   // one input again
//
// Beyond "no crash, no sanitizer report", a target states what must hold of every accepted input. What does
// not hold ends the process, with both sides printed, and libFuzzer keeps the input.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace attune::tests {

/// Ends the process where `holds` is false: libFuzzer then reports the input.
inline void require(bool holds, std::string_view law, std::string_view before, std::string_view after) {
  if (holds)
    return;
  std::fprintf(stderr, "fault: %.*s\n--- before\n%.*s\n--- after\n%.*s\n", int(law.size()), law.data(),
               int(before.size()), before.data(), int(after.size()), after.data());
  std::abort();
}

inline void requireEqual(const std::string &before, const std::string &after, std::string_view law) {
  require(before == after, law, before, after);
}

} // namespace attune::tests

/// libFuzzer's entry point.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
