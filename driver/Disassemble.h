//===- Disassemble.h - The instructions of a cubin --------------------------===//
#pragma once

#include "attune/Error.h"

#include <span>
#include <string>

namespace attune::driver {

/// What `nvdisasm --print-code` says of a cubin (ToolkitProgram.h). Errors: there is none; its own words where it fails.
Expected<std::string> disassemble(std::span<const char> cubin);

} // namespace attune::driver
