//===- Cli.h - The command line as a function -------------------------------===//
#pragma once

/// What the command `attune` does with these arguments; its exit code. libattune.so holds it, so that the installed
/// command is a few lines and LLVM is there once; no header of the library declares it.
extern "C" [[gnu::visibility("default")]] int attune_main(int argc, char **argv);
