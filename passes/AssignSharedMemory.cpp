//===- AssignSharedMemory.cpp - Offsets of the shared buffers ----------------===//
//
// Each buffer lies at the lowest offset where it overlaps no buffer that is alive at the same time; so the output tile
// takes the place of Q. A buffer lives from its first to its last use among the ops of its block.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_ASSIGNSHAREDMEMORY
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

constexpr int64_t alignment = 1024;

struct Lifetime {
  sched::SharedOp buffer;
  Operation *first, *last;
  int64_t begin = 0;
  int64_t end() const { return begin + sched::SharedOp(buffer).getResult().getType().bytes(); }

  bool overlaps(const Lifetime &other) const {
    return !last->isBeforeInBlock(other.first) && !other.last->isBeforeInBlock(first);
  }
};

struct AssignSharedMemory : attune::impl::AssignSharedMemoryBase<AssignSharedMemory> {
  using AssignSharedMemoryBase::AssignSharedMemoryBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<sched::KernelOp>()) {
      SmallVector<Lifetime> placed;
      int64_t total = 0;
      kernel.walk([&](sched::SharedOp buffer) {
        Block *block = buffer->getBlock();
        Lifetime lifetime{buffer, buffer, buffer};
        for (Operation *user : buffer.getResult().getUsers())
          if (Operation *ancestor = block->findAncestorOpInBlock(*user); lifetime.last->isBeforeInBlock(ancestor))
            lifetime.last = ancestor;
        auto over = buffer.getOver() ? buffer.getOver().getDefiningOp<sched::SharedOp>() : nullptr;
        lifetime.begin = over ? int64_t(over.getOffset()) : lowestOffset(lifetime, placed);
        buffer.setOffset(lifetime.begin);
        total = std::max(total, lifetime.end());
        placed.push_back(lifetime);
      });
      // Barriers live as long as the kernel.
      kernel.walk([&](sched::RingOp ring) {
        ring.setOffset(total);
        total += ring.getResult().getType().bytes();
      });
      kernel.setSharedBytes(llvm::alignTo(total, 16));
    }
  }

  static int64_t lowestOffset(Lifetime lifetime, ArrayRef<Lifetime> placed) {
    SmallVector<int64_t> candidates{0};
    for (const Lifetime &other : placed)
      candidates.push_back(llvm::alignTo(other.end(), alignment));
    llvm::sort(candidates);
    for (int64_t offset : candidates) {
      lifetime.begin = offset;
      bool free = llvm::none_of(placed, [&](const Lifetime &other) {
        return lifetime.overlaps(other) && lifetime.begin < other.end() && other.begin < lifetime.end();
      });
      if (free)
        return offset;
    }
    llvm_unreachable("past every other buffer there is room");
  }
};

} // namespace
