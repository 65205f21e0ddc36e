//===- Launch.h - Checking and packing launch arguments ---------------------===//
//
// The part of Kernel::launch that the CUDA and CPU targets have in common: every check that needs no call to the
// driver, and the parameter block that LaunchParams.h describes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/LaunchTables.h"

#include "attune/Kernel.h"

namespace attune {

/// The parameters and the grids of one launch. Left uninitialised; packLaunch writes all that is read later.
struct PackedLaunch : packed_problem {
  const LaunchParams *params() const { return reinterpret_cast<const LaunchParams *>(&block); }
};

/// The last error of the launcher on this thread.
Error launchError();

/// Checks `args` against the kernel and fills `packed`. Allocates only for an error's text. `multiprocessors` (on the
/// CPU: the number of threads) determines into how many splits the keys are divided.
Expected<void> packLaunch(const LaunchTables &tables, Device device, int64_t multiprocessors, float defaultDropout,
                          const LaunchArgs &args, PackedLaunch &packed);

/// The most keys that a sequence can have in a launch: the length of K, or the pages of a sequence times the page size
/// where K is paged. `args` need not have been checked.
int64_t keysIn(const KernelSignature &signature, const LaunchArgs &args);

/// Bytes of all workspace operands, each padded to a multiple of 16. A tensor that `args` lacks, or has with a wrong
/// rank, counts as empty.
size_t workspaceSize(const LaunchTables &tables, int64_t multiprocessors, const LaunchArgs &args);

/// Shape and dense strides that an operand of the kernel has in a launch with the arguments `args`; the tensor's
/// address is null. Fails where an extent comes from a tensor that `args` lacks or has with a wrong rank.
Expected<Tensor> denseOperand(const KernelImage &image, const OperandParam &operand, Device device,
                              const LaunchArgs &args);

/// Fails when the signature does not fit the parameter block, or when the image cannot be launched at all.
Expected<void> checkSignature(const KernelImage &image);

} // namespace attune
