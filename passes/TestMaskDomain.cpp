//===- TestMaskDomain.cpp - Print the tiles that a mask visits ---------------===//

#include "passes/MaskAnalysis.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_TESTMASKDOMAIN
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct TestMaskDomain : attune::impl::TestMaskDomainBase<TestMaskDomain> {
  using TestMaskDomainBase::TestMaskDomainBase;

  void runOnOperation() override {
    for (auto op : getOperation().getOps<attn::AttentionOp>()) {
      llvm::outs() << "@" << op.getSymName() << "\n";
      for (int64_t q0 = 0; q0 < queries; q0 += tileQ) {
        TileSegments tiles = evaluateDomain(op, q0, qOffset, queries, keys, tileQ, tileK);
        llvm::outs() << "  q " << q0 << ":";
        auto segment = [](int64_t begin, int64_t end, StringRef kind) {
          if (begin < end)
            llvm::outs() << " [" << begin << ", " << end << ") " << kind;
        };
        segment(tiles.begin, tiles.fullBegin, "partial");
        segment(tiles.fullBegin, tiles.fullEnd, "full");
        segment(tiles.fullEnd, tiles.end, "partial");
        llvm::outs() << (tiles.begin < tiles.end ? "\n" : " none\n");
      }
    }
  }
};

} // namespace
