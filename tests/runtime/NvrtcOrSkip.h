#pragma once

#include "runtime/Nvrtc.h"

#include <catch2/catch.hpp>

extern bool testSkipped;

/// NVRTC, or null (with a warning) where it is not installed. NVRTC that is found but does not work fails.
inline const attune::Nvrtc *nvrtcOrSkip() {
  attune::Expected<const attune::Nvrtc *> nvrtc = attune::Nvrtc::get();
  if (nvrtc)
    return *nvrtc;
  WARN("skipped: " << nvrtc.error().text());
  testSkipped = true;
  return nullptr;
}
