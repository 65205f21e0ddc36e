//===- TestMaskDomain.cpp - Print the tiles that a mask visits ---------------===//

#include "tests/mask/TestMaskDomain.h"
#include "passes/analysis/mask/MaskAnalysis.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace attune;

namespace {

struct TestMaskDomain : PassWrapper<TestMaskDomain, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestMaskDomain)

  TestMaskDomain() = default;
  TestMaskDomain(const TestMaskDomain &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "test-mask-domain"; }
  StringRef getDescription() const override {
    return "print the tiles that each tile of an axis visits, for given sizes";
  }

  Option<int64_t> tileQ{*this, "tile-q", llvm::cl::desc("rows of a tile"), llvm::cl::init(128)};
  Option<int64_t> tileK{*this, "tile-k", llvm::cl::desc("keys of a tile"), llvm::cl::init(64)};
  Option<int64_t> queries{*this, "sq", llvm::cl::desc("queries"), llvm::cl::init(512)};
  Option<int64_t> keys{*this, "sk", llvm::cl::desc("keys"), llvm::cl::init(512)};
  Option<int64_t> qOffset{*this, "q-offset", llvm::cl::desc("added to q, for variants with a query offset"),
                          llvm::cl::init(0)};
  Option<std::string> axis{*this, "axis", llvm::cl::desc("fixed axis, q or k; the tiles are of the other"),
                           llvm::cl::init("q")};

  void runOnOperation() override {
    for (auto op : getOperation().getOps<attn::AttentionOp>()) {
      llvm::outs() << "@" << op.getSymName() << "\n";
      bool keysFixed = axis == "k";
      const MaskAxis fixed = keysFixed ? MaskAxis::Keys : MaskAxis::Queries;
      const SmallVector<Conjunct> loose = looseConjuncts(op, fixed);
      int64_t rows = keysFixed ? keys : queries, step = keysFixed ? tileK : tileQ;
      for (int64_t first = 0; first < rows; first += step) {
        llvm::outs() << "  " << axis << " " << first << ":";
        bool none = true;
        auto segment = [&](int64_t begin, int64_t end, StringRef kind) {
          if (begin < end)
            llvm::outs() << " [" << begin << ", " << end << ") " << kind;
          none &= begin >= end;
        };
        for (const TileSegments &part :
             evaluateDomain(op, {queries, keys, tileQ, tileK, qOffset}, first, loose, fixed)) {
          segment(part.begin, part.fullBegin, "partial");
          segment(part.fullBegin, part.fullEnd, "full");
          segment(part.fullEnd, part.end, "partial");
        }
        llvm::outs() << (none ? " none\n" : "\n");
      }
    }
  }
};

} // namespace

void attune::registerTestMaskDomain() { PassRegistration<TestMaskDomain>(); }
