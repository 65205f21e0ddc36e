//===- NpyFuzz.cpp - NumPy's files under mutation -----------------------------===//
#include "tests/fuzz/Fuzz.h"
#include "tools/reference/Npy.h"

#include <span>

using namespace attune;
using namespace attune::reference;
using namespace attune::tests;

namespace {

std::string describe(const HostTensor &tensor) {
  std::string text(name(tensor.dtype));
  for (int64_t extent : tensor.shape)
    text += " " + std::to_string(extent);
  return text + ", " + std::to_string(tensor.bytes()) + " bytes";
}

/// What was read is a tensor whose memory is what its shape says, and survives being written and read.
void requireSound(const HostTensor &tensor) {
  require(size_t(tensor.size()) * byteSize(tensor.dtype) == tensor.bytes(), "a tensor has the bytes of its shape",
          describe(tensor), "");
  Expected<HostTensor> again = parseNpy(formatNpy(tensor, NarrowFloats::Keep), "again", VoidElements::BFloat16);
  require(bool(again), "a written tensor is read back", describe(tensor), again ? "" : again.error().text());
  require(again->dtype == tensor.dtype && again->shape == tensor.shape && again->data == tensor.data,
          "a written tensor is read back as it was", describe(tensor), describe(*again));
  if (tensor.size() == 0)
    return;
  for (int64_t element : {int64_t(0), tensor.size() / 2, tensor.size() - 1}) {
    tensor.at(element);
    tensor.intAt(element);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  std::span file = std::as_bytes(std::span(bytes, count));
  for (VoidElements voids : {VoidElements::Reject, VoidElements::BFloat16}) {
    Expected<HostTensor> tensor = parseNpy(file, "input", voids);
    if (tensor)
      requireSound(*tensor);
    else
      require(tensor.error().message.starts_with("input: "), "an error names the file", tensor.error().message, "");
  }
  return 0;
}
