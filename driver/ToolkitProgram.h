//===- ToolkitProgram.h - Programs of a CUDA toolkit -------------------------===//
#pragma once

#include "attune/Error.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::driver {

/// The first `program` of PATH, $CUDA_HOME/bin, $CUDA_PATH/bin, /usr/local/cuda*/bin, newest first, and the Python packages
/// of NVIDIA and of Triton.
std::optional<std::string> findToolkitProgram(std::string_view program);

/// Standard output of `command`, whose first word is the program's path. Errors: no temporary file; where the program
/// fails, its own words. `what` begins the first.
Expected<std::string> outputOf(const std::vector<std::string> &command, std::string_view what);

} // namespace attune::driver
