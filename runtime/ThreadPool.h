//===- ThreadPool.h - Threads that run host kernels -------------------------===//
//
// A fixed set of threads that share the blocks of one launch, taking them one by one in order:
//
//     ThreadPool::process().run(blocks, scratchBytes, [&](size_t block, void *scratch) { ... });
//
// The calling thread works too. run() returns when every block is done. Calls from several threads take
// turns; a call from inside a block, or in a forked child (which has no worker threads), runs its blocks on
// the calling thread alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <cstddef>
#include <memory>

namespace attune {

class ThreadPool {
public:
  /// A pool in which `threads` threads work on a run, the caller included; at least 1, and fewer where the system
  /// starts no more.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// The pool of this process, of threadsToUse() threads, or the hardware's with a warning where that is an error.
  static ThreadPool &process();
  /// $ATTUNE_NUM_THREADS (1 to 1024), else the hardware's. Compiling for the CPU fails with the error of another value.
  static Expected<unsigned> threadsToUse();

  unsigned threads() const;

  /// Calls body(block, scratch) once for every block in [0, blocks). `scratch` is `scratchBytes` long,
  /// 64-byte aligned, used by one block at a time and kept by its thread for later runs; its content is
  /// whatever the last block left.
  template <typename Body> void run(size_t blocks, size_t scratchBytes, Body &&body) {
    using Plain = std::remove_reference_t<Body>;
    runBlocks(
        blocks, scratchBytes,
        [](void *context, size_t block, void *scratch) { (*static_cast<Plain *>(context))(block, scratch); },
        const_cast<void *>(static_cast<const void *>(&body)));
  }

private:
  using BlockFunction = void (*)(void *context, size_t block, void *scratch);
  void runBlocks(size_t blocks, size_t scratchBytes, BlockFunction function, void *context);

  struct State;
  std::unique_ptr<State> state;
};

} // namespace attune
