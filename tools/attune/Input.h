//===- Input.h - What VARIANT on the command line is -------------------------===//
//
//     attune compile causal              a built-in
//     attune compile mine.json           a variant, as --emit dsl prints it
//     attune compile edited.txt          a stage, as --emit attn, tile or sched prints it
//
// A file is what it holds, whatever its suffix is. Each is read once, so that a pipe will do.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/attune.h"

#include <string>

namespace attune::cli {

/// VARIANT, read. `file` is empty but for Json and Ir.
struct Input {
  enum class Kind { None, Builtin, Json, Ir };
  Kind kind = Kind::None;
  const BuiltinVariant *builtin = nullptr;
  IrText file = {};
};

/// Errors: a name that is no built-in and no file, a file that cannot be read, a stage that is not read back: "x.cu
/// holds CUDA C++, which is not read back; ...".
Expected<Input> readInput(const std::string &argument);

} // namespace attune::cli
