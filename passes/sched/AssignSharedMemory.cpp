//===- AssignSharedMemory.cpp - Offsets of the shared buffers ----------------===//
//
// Each buffer gets the lowest offset at which it overlaps no buffer that is alive at the same time. The output tile can
// thus reuse the memory of Q. A buffer is alive from its first to its last access, counted in ops of the IR block that
// declares the buffer (Lifetimes.h).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/dataflow/Lifetimes.h"

namespace attune {
#define GEN_PASS_DEF_ASSIGNSHAREDMEMORY
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

int64_t alignmentOf(sched::SharedOp buffer) { return sharedAlignment(buffer.getResult().getType()); }

struct AssignSharedMemory : attune::impl::AssignSharedMemoryBase<AssignSharedMemory> {
  using AssignSharedMemoryBase::AssignSharedMemoryBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<sched::KernelOp>()) {
      SmallVector<Lifetime> placed;
      int64_t total = 0;
      for (Lifetime &lifetime : inOrder(kernel)) {
        if (sched::SharedOp over = lifetime.over())
          lifetime.buffer.setOffset(over.getOffset());
        else
          place(lifetime, placed);
        total = std::max(total, lifetime.end());
        placed.push_back(lifetime);
      }
      // The barriers of rings are alive during the whole kernel and are placed after all buffers.
      total = llvm::alignTo(total, 16);
      kernel.walk([&](sched::RingOp ring) {
        ring.setOffset(total);
        total += ring.getResult().getType().bytes();
      });
      kernel.setSharedBytes(llvm::alignTo(total, 16));
    }
  }

  /// The order of placement: swizzled tiles first, because a vector between two swizzled tiles would leave a gap up to
  /// the next multiple of their alignment; then other buffers; last the buffers that reuse another buffer's memory.
  static SmallVector<Lifetime> inOrder(sched::KernelOp kernel) {
    SmallVector<Lifetime> swizzled, plain, over;
    kernel.walk([&](sched::SharedOp buffer) {
      const Lifetime lifetime = Lifetime::of(buffer);
      (lifetime.over() ? over : alignmentOf(buffer) == sched::swizzledAlignment ? swizzled : plain).push_back(lifetime);
    });
    SmallVector<Lifetime> lifetimes = llvm::to_vector(llvm::concat<Lifetime>(swizzled, plain, over));
    return lifetimes;
  }

  /// Places a buffer at the lowest offset at which it overlaps no buffer that is alive at the same time.
  static void place(Lifetime &lifetime, ArrayRef<Lifetime> placed) {
    const SmallVector<Lifetime> met =
        llvm::filter_to_vector(placed, [&](const Lifetime &other) { return lifetime.meets(other); });
    SmallVector<int64_t> candidates{0};
    for (const Lifetime &other : met)
      candidates.push_back(llvm::alignTo(other.end(), alignmentOf(lifetime.buffer)));
    llvm::sort(candidates);
    for (int64_t offset : candidates) {
      lifetime.buffer.setOffset(offset);
      if (llvm::none_of(met, [&](const Lifetime &other) { return lifetime.sharesBytes(other); }))
        return;
    }
    llvm_unreachable("past every other buffer there is room");
  }
};

} // namespace
