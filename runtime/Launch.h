//===- Launch.h - Checking and packing launch arguments ---------------------===//
//
// The part of Kernel::launch that both targets share: every check that needs no query, and the bytes of
// LaunchParams.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"

#include <cstddef>

namespace attune {

/// Whether two names, most of one letter, are the same.
inline bool sameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.empty() || (a[0] == b[0] && (a.size() == 1 || a == b)));
}

/// Extents of the axes b, h, hkv, q and k of a launch, in which expressions count: 1 where no operand has the axis.
struct LaunchSizes {
  int64_t batch = 1, heads = 1, kvHeads = 1, queryLength = 1, keyLength = 1;
};

/// The parameters of one launch. Left uninitialised: packLaunch writes what is read.
struct PackedLaunch {
  alignas(64) std::byte bytes[maxPackedBytes];
  LaunchSizes sizes;
  int64_t tiles[maxKernels][maxGridAxes]; ///< of each axis of the grid of each kernel
  int64_t blocks[maxKernels];             ///< of each kernel: the product of its tiles

  /// Whether a kernel that writes results has blocks.
  bool hasWork(const KernelImage &image) const {
    for (size_t i = 0; i < image.entries.size(); ++i)
      if (blocks[i] != 0 && !image.entries[i].preparation)
        return true;
    return false;
  }
  LaunchParams &params() { return *reinterpret_cast<LaunchParams *>(bytes); }
  const LaunchParams &params() const { return *reinterpret_cast<const LaunchParams *>(bytes); }
};

/// What an axis is called in messages. The texts of an axis that is none of forwardOperands()'s are its name, whose
/// characters they point to.
struct AxisWords {
  const char *axis;   ///< its name
  const char *extent; ///< in a shape: "Sq"
  const char *noun;   ///< "length"
  const char *stride; ///< of its stride: "row"
  const char *option; ///< that compiles for another extent, of an axis of fixed size
  int64_t most;       ///< extent
  const char *remedy; ///< for a greater one
};

AxisWords wordsFor(const AxisParam &axis);

/// Checks `args` against the kernel and fills `packed`. Allocates only for an error's text.
/// `multiprocessors` of the device, or threads of the CPU, are those among which keys are shared.
Expected<void> packLaunch(const KernelImage &image, Device device, int64_t multiprocessors, float defaultDropout,
                          const LaunchArgs &args, PackedLaunch &packed);

/// Error where a launch with these tensor maps (LaunchParams::mapped) has no kernel for a captured tensor.
Expected<void> checkMapped(const KernelImage &image, int32_t mapped);

/// How many keys each sequence may have by the arguments of a launch, of which nothing is checked yet.
int64_t keysIn(const KernelSignature &signature, const LaunchArgs &args);

/// Bytes of all workspace operands, each from a multiple of 16 on. A tensor that `args` lacks, or has with another
/// rank, counts as empty.
size_t workspaceSize(const KernelImage &image, int64_t multiprocessors, const LaunchArgs &args);

/// An operand as a launch of these arguments takes it, dense, at no address. Error where an extent of it is that of a
/// tensor which `args` lacks, or has with another rank.
Expected<Tensor> denseOperand(const KernelSignature &signature, const OperandParam &operand, Device device,
                              const LaunchArgs &args);

/// Error when the signature does not fit the parameter space or the image cannot be launched at all.
Expected<void> checkSignature(const KernelImage &image);

/// T of DESIGN.md's dropout: min(65535, round(65536 * probability)).
uint32_t dropoutThreshold(float probability);

} // namespace attune
