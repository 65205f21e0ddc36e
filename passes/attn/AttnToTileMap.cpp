//===- AttnToTileMap.cpp - A kernel that writes the class of each tile that a mask leaves ---===//
//
// The kernel loops over the same tiles of keys as a forward kernel (MaskAnalysis.h), and stores the class of each
// visited tile: full or partial. The CPU target runs the kernel on captured tensors. The counts of tiles that attune
// prints are therefore those of a forward kernel.
//
//===----------------------------------------------------------------------===//

#include "ir/attn/Attn.h"
#include "ir/attn/FromVariant.h"
#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/mask/MaskAnalysis.h"
#include "passes/attn/BoundsKernel.h"
#include "passes/attn/TileWriter.h"

#include "attune/TileMap.h"

namespace attune {
#define GEN_PASS_DEF_ATTNTOTILEMAP
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

constexpr int64_t storedColumns = 8; // elements of one store; the store's limit lets only the first be written

class TileMapWriter : TileWriter {
public:
  TileMapWriter(attn::AttentionOp op, int64_t tileQ, int64_t tileK) : TileWriter(op), tileQ(tileQ), tileK(tileK) {}

  void write() {
    auto sizes =
        tile::PlanAttr::make(builder.getContext(), {{"q", tileQ}, {"k", tileK}}, /*warps=*/1, /*blocksPerSm=*/1);
    auto kernel =
        tile::KernelOp::create(builder, op.getSymName(), builder.getArrayAttr({}),
                               builder.getArrayAttr({axis("b"), axis("h"), axis("q", 0, tileQ)}), op.getDtype(), sizes,
                               read<attn::CapturedTensorAttr, attn::LoadOp, attn::SearchOp>(op.getTensorsAttr()),
                               read<attn::RuntimeScalarAttr, attn::ScalarOp>(op.getScalarsAttr()), op.getPatternAttr(),
                               /*dropout=*/false, /*precise=*/false, op.getQOffset());
    builder.createBlock(&kernel.getBody());
    SmallVector<BoundsTable> bounds;
    writeBlock(bounds);
    SmallVector<Attribute> operands = {declare("queries", OperandRole::In, {"b", "h", "q"}),
                                       declare("keys", OperandRole::In, {"k"}),
                                       declare("classes", OperandRole::Out, {"b", "h", "row", "column"})};
    for (const BoundsTable &table : bounds)
      operands.push_back(table.declaration());
    kernel.setOperandsAttr(builder.getArrayAttr(operands));
    if (bounds.empty())
      return;
    tile::KernelOp inFront = writeBoundsKernel(builder, op, kernel, bounds);
    builder.setInsertionPoint(kernel);
    writeLaunch(builder, {inFront, kernel});
  }

private:
  tile::OperandAttr declare(StringRef name, OperandRole role, ArrayRef<StringRef> axes) {
    return tile::OperandAttr::get(op.getContext(), builder.getStringAttr(name), role, /*optional=*/false,
                                  llvm::map_to_vector(axes, [&](StringRef name) { return axis(name); }), i32);
  }

  /// Returns those of the declared captured tensors or scalars on which the visited tiles depend.
  template <typename Attr, typename... ReadOps> ArrayAttr read(ArrayAttr declared) {
    llvm::DenseSet<StringRef> names;
    (op.getMask().walk([&](ReadOps read) { names.insert(read.getName()); }), ...);
    if (attn::BlockPatternAttr pattern = op.getPatternAttr())
      names.insert(pattern.getName().getValue());
    for (std::optional<StringRef> lengths : {op.getKeyLengths(), op.getQueryLengths()})
      if (lengths)
        names.insert(*lengths);
    return builder.getArrayAttr(llvm::filter_to_vector(
        declared, [&](Attribute each) { return names.contains(cast<Attr>(each).getName().getValue()); }));
  }

  void writeBlock(SmallVectorImpl<BoundsTable> &bounds) {
    b = blockIndex("b", "b");
    h = blockIndex("h", "h");
    Value q0 = blockIndex("q", "q");
    Value Sq = lengthOfSequence(builder, op, op.getQueryLengths(), b, axisExtent("q", "Sq"), "own_queries"),
          Sk = lengthOfSequence(builder, op, op.getKeyLengths(), b, axisExtent("k", "Sk"), "own_keys"),
          H = axisExtent("h", "H"), B = axisExtent("b", "B");
    readQueryOffset();
    Value row = tile::named(divide(q0, number(tileQ)), "row");
    Value classes = param("classes", view(4, i32));
    Value domain = buildDomain(builder, op, {b, h, q0, qOffset, B, H, Sq, Sk, tileQ, tileK}, bounds, FullBy::Mask);
    loopOver(domain, {}, [&](tile::ForBlocksOp loop) -> Carried {
      Value column = tile::named(divide(loop.getOrigin(), number(tileK)), "column"), end = add(column, number(1));
      Value of = tile::named(
          select(loop.getPartial(), number(int64_t(TileClass::Partial)), number(int64_t(TileClass::Full))), "class");
      store(tile::SplatOp::create(builder, shape({{"column", storedColumns}}, i32), of), classes,
            ValueRange{b, h, row, column}, end);
      return {};
    });
  }

  int64_t tileQ, tileK;
};

struct AttnToTileMap : attune::impl::AttnToTileMapBase<AttnToTileMap> {
  using AttnToTileMapBase::AttnToTileMapBase;

  void runOnOperation() override {
    for (auto op : llvm::make_early_inc_range(getOperation().getOps<attn::AttentionOp>())) {
      TileMapWriter(op, tileQ, tileK).write();
      op.erase();
    }
  }
};

} // namespace
