//===- GpuTests.h - Numerics on a real GPU ----------------------------------===//
#pragma once

namespace attune::tests {

/// The tests of layer 6, as a program:
///
///     attune-tests                      // everything
///     attune-tests --filter head-dims   // cases whose group or label contains the text
///     attune-tests --sanitize           // a small choice, for compute-sanitizer
///     attune-tests --arch sm_90         // another architecture that the device runs, not its default
///     attune-tests --arch sm_80         // an older one, whose CUDA is compiled for the device (CompileToRun.h)
///     attune-tests --time               // hand-written schedules beside the same programs without one
///     attune-tests --text mine/split_keys_warpgroups-deep.mlir   // another schedule of one of them, checked and timed
///     attune-tests --cpu                // on the CPU target, to try the program itself
///     attune-tests --threads 4 --verbose --random 500 --seed 17
///
/// Prints one line per failing case and a table of the groups. Returns 0 when all pass, 1 when a case failed, 2 on
/// wrong usage, 77 without a GPU (1 where ATTUNE_EXPECT_GPU is set) and where the GPU does not run the architecture's
/// CUDA.
int gpuTestsMain(int argc, char **argv);

} // namespace attune::tests
