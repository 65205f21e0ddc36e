//===- Cpu.h - The CPU target -----------------------------------------------===//
//
// Compiles the `tile.kernel` ops of a module for the host and links the result into the process.
//
//     Expected<HostObject> object = compileHost(module);           // MLIR, LLVM: 0.1 s
//     const HostFunction &first = object->functions.front();       // of the first kernel
//     std::vector<std::string> symbols = {first.symbol};
//     Expected<HostCode> code = loadHost(object->bytes, symbols);  // a linker: 1 ms
//     HostEntry entry{code->functions.front(), first.scratchBytes};
//
// One call of a compiled function computes one block of the grid, as a thread block would. The function computes the
// block's position along the grid's axes from the block index (pass `tile-schedule-blocks`). All tiles are in scratch
// memory, which the caller provides. Queries map to vector lanes in a kernel that loops over keys, so a tile of (q, k)
// is stored as [k][q]. Then S^T = K Q^T needs no transposed K, the maximum of a row of S is a lane-wise maximum of
// vectors, and P^T is the operand of O^T = V^T P^T without a transpose.
//
// Numbers. All float tiles are kept in float32. f16 and bf16 inputs are widened when they are loaded, and results are
// rounded to nearest even when they are stored. `tile.convert` (P to the dtype of V) does not round.
//
// Threads. compileHost and loadHost may be called from any number of threads at once, each with its own MLIR context.
// The loaded function is reentrant if every call has its own scratch memory.
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

/// The compiled function of one kernel.
struct HostFunction {
  std::string symbol;
  size_t scratchBytes = 0; ///< bytes of scratch memory that one call needs; the memory must be 64-byte aligned
};

/// A module's kernels as a relocatable object file for the host's CPU.
struct HostObject {
  std::vector<char> bytes;
  std::vector<HostFunction> functions; ///< one per kernel, in launch order
};

/// Functions linked into this process, in the order of the requested symbols. `owner` keeps the code alive.
struct HostCode {
  std::vector<decltype(HostEntry::function)> functions;
  std::shared_ptr<void> owner;
};

/// Compiles the `tile.kernel` ops of `module`, after the pass `tile-schedule-blocks`. The module is not changed.
/// Fails for an op that the CPU target does not implement, and names the op.
Expected<HostObject> compileHost(mlir::ModuleOp module);

/// The LLVM IR that compileHost would compile, as text. Fails like compileHost.
Expected<std::string> printHostLlvm(mlir::ModuleOp module);

/// Links an object of compileHost. Fails when the object is damaged or lacks a symbol.
Expected<HostCode> loadHost(std::span<const char> bytes, std::span<const std::string> symbols);

/// The host's triple, CPU and CPU features. An object runs only on a host with the same key.
std::string hostCpuKey();

} // namespace attune
