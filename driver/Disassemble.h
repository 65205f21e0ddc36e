//===- Disassemble.h - Disassembly of a cubin by nvdisasm --------------------===//
#pragma once

#include "attune/Error.h"

#include <span>
#include <string>

namespace attune::driver {

/// The path of nvdisasm (ToolkitProgram.h), or an error that says how to install it.
Expected<std::string> findDisassembler();

/// The output of `nvdisasm --print-code` for a cubin. Errors: the message of nvdisasm where it fails.
Expected<std::string> disassemble(const std::string &disassembler, std::span<const char> cubin);

} // namespace attune::driver
