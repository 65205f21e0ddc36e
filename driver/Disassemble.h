//===- Disassemble.h - The instructions of a cubin --------------------------===//
#pragma once

#include "attune/Error.h"

#include <span>
#include <string>

namespace attune::driver {

/// The path of nvdisasm (ToolkitProgram.h), or an error that says how to install it.
Expected<std::string> findDisassembler();

/// What `nvdisasm --print-code` says of a cubin. Errors: its own words where it fails.
Expected<std::string> disassemble(const std::string &disassembler, std::span<const char> cubin);

} // namespace attune::driver
