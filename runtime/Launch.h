//===- Launch.h - Checking and packing launch arguments ---------------------===//
//
// The part of Kernel::launch that the CUDA and CPU targets have in common: every check that needs no call to the
// driver, and the parameter block that LaunchParams.h describes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"

#include <cstddef>

namespace attune {

/// Whether two names are equal. Most axis names have one letter, and for these a comparison of size and letter is
/// enough.
inline bool sameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.empty() || (a[0] == b[0] && (a.size() == 1 || a == b)));
}

/// Extents of the axes b, h, hkv, q and k of a launch; 1 where no operand has the axis.
struct LaunchSizes {
  int64_t batch = 1, heads = 1, kvHeads = 1, queryLength = 1, keyLength = 1;
};

/// The parameters of one launch. The bytes are left uninitialised; packLaunch writes all that is read later.
struct PackedLaunch {
  alignas(64) std::byte bytes[maxPackedBytes];
  LaunchSizes sizes;
  int64_t tiles[maxKernels][maxGridAxes]; ///< number of tiles along each grid axis of each kernel
  int64_t blocks[maxKernels];             ///< number of tiles of each kernel's grid: the product over the grid's axes

  /// Whether any kernel that writes results (not only the workspace) has at least one block in its grid.
  bool hasWork(const KernelImage &image) const {
    for (size_t i = 0; i < image.entries.size(); ++i)
      if (blocks[i] != 0 && !image.entries[i].preparation)
        return true;
    return false;
  }
  LaunchParams &params() { return *reinterpret_cast<LaunchParams *>(bytes); }
  const LaunchParams &params() const { return *reinterpret_cast<const LaunchParams *>(bytes); }
};

/// Words for an axis in error messages. For an axis that no operand of forwardOperands() has, the first four words are
/// the axis's name. They then point into the AxisParam that was passed to wordsFor(), which must outlive them.
struct AxisWords {
  const char *axis;   ///< the axis's name: "q"
  const char *extent; ///< the extent in a shape: "Sq"
  const char *noun;   ///< what the extent is: "length"
  const char *stride; ///< word for the axis's stride: "row"
  const char *option; ///< for an axis of fixed size: the compile option that sets the size; else ""
  int64_t most;       ///< the greatest extent allowed
  const char *remedy; ///< advice where the extent is greater than `most`
};

AxisWords wordsFor(const AxisParam &axis);

/// Checks `args` against the kernel and fills `packed`. Allocates only for an error's text. `multiprocessors` (on the
/// CPU: the number of threads) determines into how many splits the keys are divided.
Expected<void> packLaunch(const KernelImage &image, Device device, int64_t multiprocessors, float defaultDropout,
                          const LaunchArgs &args, PackedLaunch &packed);

/// Fails where a kernel needs a tensor map whose bit in `mapped` (LaunchParams::mapped) is not set, and no other kernel
/// of the module is the fallback of that kernel.
Expected<void> checkMapped(const KernelImage &image, int32_t mapped);

/// The most keys that a sequence can have in a launch: the length of K, or the pages of a sequence times the page size
/// where K is paged. `args` need not have been checked.
int64_t keysIn(const KernelSignature &signature, const LaunchArgs &args);

/// Bytes of all workspace operands, each padded to a multiple of 16. A tensor that `args` lacks, or has with a wrong
/// rank, counts as empty.
size_t workspaceSize(const KernelImage &image, int64_t multiprocessors, const LaunchArgs &args);

/// Shape and dense strides that an operand has in a launch of these arguments; its address is null. Fails where an
/// extent comes from a tensor that `args` lacks or has with a wrong rank.
Expected<Tensor> denseOperand(const KernelSignature &signature, const OperandParam &operand, Device device,
                              const LaunchArgs &args);

/// Fails when the signature does not fit the parameter block, or when the image cannot be launched at all.
Expected<void> checkSignature(const KernelImage &image);

/// The dropout threshold T = min(65535, round(65536 * probability)): an element is kept if its 16 random bits are >= T.
uint32_t dropoutThreshold(float probability);

} // namespace attune
