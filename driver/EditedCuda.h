//===- EditedCuda.h - CUDA that was emitted and then edited by hand ---------===//
//
// A launch passes arguments as the generated text expects them. Edited text must therefore keep the kernels' names and
// parameters, struct Params, the threads of a block, and the plan. Everything else may be edited.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"

namespace attune::driver {

/// Checks that the edited text keeps the parts of `generated` that a launch depends on. `entries` are the kernels of
/// `generated`. White space and comments are ignored, except for the comment at the top that names variant, plan and
/// block: lines of this comment may be deleted, but not changed.
Expected<void> checkEditedCuda(const IrText &edited, const std::string &generated,
                               const std::vector<KernelEntry> &entries);

/// Checks that the parameters of the compiled kernels have the sizes that a launch packs.
Expected<void> checkEditedCubin(const IrText &edited, const KernelImage &image);

} // namespace attune::driver
