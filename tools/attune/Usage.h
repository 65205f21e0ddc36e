//===- Usage.h - Mistakes on the command line --------------------------------===//
//
// What CLI11 refuses, said with the name that was meant:
//
//     $ attune compil causal
//     error: 'compil' is not a verb of attune; did you mean compile?
//     $ attune run causal --head-dm 64
//     error: --head-dm is not an option of attune run; did you mean --head-dim?
//
//===----------------------------------------------------------------------===//
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace attune::cli {

/// The text for what parsing `app` threw, with the verb's help to ask for.
std::string usageText(const CLI::App &app, const CLI::ParseError &error);

/// A check of CLI11: the value is one of `names`. Else "cudda is not one of dsl attn cuda; did you mean cuda?".
CLI::Validator oneOf(std::vector<std::string> names);

} // namespace attune::cli
