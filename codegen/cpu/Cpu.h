//===- Cpu.h - The CPU target -----------------------------------------------===//
//
// Compiles a logical `tile.kernel` for the host and links the result into the process.
//
//     Expected<HostObject> object = compileHost(module);            // MLIR, LLVM: 0.1 s
//     Expected<HostCode> code = loadHost(object->bytes, object->entry); // a linker: 1 ms
//     HostEntry entry{code->function, object->scratchBytes};
//
// One call of the function does one block of work. Where its tile lies along the axes of the grid the kernel computes
// from the block's number (`tile-schedule-blocks`). Every tile lies in the caller's scratch memory. Rows of the block are
// the lanes of a vector: a tile of (q, k) is stored k-major, so that S^T = K Q^T needs no transposed K, a row's maximum
// is a vertical maximum, and P^T feeds O^T = V^T P^T as it stands.
//
// Numbers. Every float tile is kept in float32: f16 and bf16 inputs are widened when loaded, results are
// rounded to nearest even when stored, and `tile.convert` (P to the dtype of V) does not round.
//
// Threads: compileHost and loadHost may be called from any number of threads at once, each with its own
// MLIR context; the loaded function is reentrant, one scratch area a call.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/Kernel.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
}

namespace attune {

/// The function of one kernel.
struct HostFunction {
  std::string symbol;
  size_t scratchBytes = 0; ///< what one call needs, 64-byte aligned
};

/// A module's kernels as a relocatable object of the host's format, for the host's CPU.
struct HostObject {
  std::vector<char> bytes;
  std::vector<HostFunction> functions; ///< in the order of the launch
};

/// Functions linked into this process, in the order of their symbols. `owner` keeps the code alive.
struct HostCode {
  std::vector<decltype(HostEntry::function)> functions;
  std::shared_ptr<void> owner;
};

/// Compiles the `tile.kernel` ops of `module`, behind `tile-schedule-blocks`. The module is not changed.
/// Fails on an op that the CPU target lacks, naming it.
Expected<HostObject> compileHost(mlir::ModuleOp module);

/// The LLVM IR that compileHost makes the object from. Its errors.
Expected<std::string> printHostLlvm(mlir::ModuleOp module);

/// Links an object of compileHost. Fails when the object is damaged or lacks a symbol.
Expected<HostCode> loadHost(std::span<const char> bytes, std::span<const std::string> symbols);

/// The host's CPU and its features: an object runs only where this key is the same.
std::string hostCpuKey();

} // namespace attune
