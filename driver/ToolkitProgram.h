//===- ToolkitProgram.h - Finding and running programs of a CUDA toolkit -----===//
#pragma once

#include "attune/Error.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::driver {

/// The path of `program`, searched in this order: PATH, $CUDA_HOME/bin, $CUDA_PATH/bin, /usr/local/cuda*/bin (newest
/// first), and the Python packages of NVIDIA and of Triton.
std::optional<std::string> findToolkitProgram(std::string_view program);

/// Runs `command`, whose first word is the program's path, and returns its standard output. Errors: no temporary file
/// can be created (the error begins with `what`); the program fails (the error has the program's message).
Expected<std::string> outputOf(const std::vector<std::string> &command, std::string_view what);

} // namespace attune::driver
