//===- JsonFuzz.cpp - Variants as JSON under mutation -------------------------===//
#include "tests/fuzz/Variants.h"

using namespace attune;
using namespace attune::tests;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  Expected<Variant> variant = Variant::fromJson({reinterpret_cast<const char *>(bytes), count});
  if (variant)
    requireRoundTrip(*variant);
  else
    requireDescribed(variant.error());
  return 0;
}
