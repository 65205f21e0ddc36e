//===- EditedCuda.h - CUDA that was emitted and then edited by hand ---------===//
//
// A launch passes what the generated text takes: its kernels, struct Params, threads of a block and plan. Everything
// else may be edited.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"

namespace attune::driver {

/// Compares what stands in the text with `generated`, whose kernels are `entries`. White space and comments do not
/// count, apart from the comment at the top that names variant, plan and block: those of its lines that are still there
/// have to be the generated ones.
Expected<void> checkEditedCuda(const IrText &edited, const std::string &generated,
                               const std::vector<KernelEntry> &entries);

/// Compares the parameters of the compiled kernels with what a launch packs.
Expected<void> checkEditedCubin(const IrText &edited, const KernelImage &image);

} // namespace attune::driver
