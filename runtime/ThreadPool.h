//===- ThreadPool.h - Threads that run host kernels -------------------------===//
//
// A fixed set of threads that run the grid blocks of one launch. Each thread takes the next block when it is free:
//
//     ThreadPool::process().run(blocks, scratchBytes, [&](size_t block, void *scratch) { ... });
//
// The calling thread works too. run() returns when every block is done. Calls from several threads run one after
// another. A call from inside a block, or in a forked child (which has no worker threads), runs its blocks on the
// calling thread alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <cstddef>
#include <memory>

namespace attune {

class ThreadPool {
public:
  /// A pool of `threads` threads (at least 1), counting the thread that calls run(). The pool is smaller where the
  /// system refuses to start more threads.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// The pool of this process. The pool has threadsToUse() threads; where threadsToUse() fails, the hardware's number
  /// of threads, with a warning.
  static ThreadPool &process();
  /// $ATTUNE_NUM_THREADS, or the hardware's number of threads where the variable is not set. Fails for a value that is
  /// not from 1 to 1024; compiling for the CPU then fails with the same error.
  static Expected<unsigned> threadsToUse();

  unsigned threads() const;

  /// Calls body(block, scratch) once for every block in [0, blocks). `scratch` is `scratchBytes` long and 64-byte
  /// aligned. Each thread has its own scratch and keeps it for later runs, with whatever the last block wrote there.
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
