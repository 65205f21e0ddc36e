//===- VerifyTile.cpp - Checks across tile ops, after all passes on the tile dialect ---===//
//
// Checks that no op of the attn dialect is left, that tiles and domains have the sizes of the plan, that the plan's
// buffers fit in shared memory, and that the kernel has the launch parameters that it reads.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/copies/LiveTiles.h"
#include "passes/analysis/products/WarpgroupRows.h"
#include "passes/analysis/score/MapPatterns.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include "arch/ArchInfo.h"
#include "ir/sched/Sched.h"

namespace attune {
#define GEN_PASS_DEF_VERIFYTILE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

struct VerifyTile : attune::impl::VerifyTileBase<VerifyTile> {
  using VerifyTileBase::VerifyTileBase;

  void runOnOperation() override {
    for (Operation &op : getOperation().getOps()) {
      if (isa<tile::LaunchOp>(op))
        continue;
      auto kernel = dyn_cast<tile::KernelOp>(op);
      if (!kernel) {
        op.emitOpError("is left; at the end of tile a module holds tile.kernel ops and a tile.launch only");
        return signalPassFailure();
      }
      if (failed(verify(kernel)))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }

  LogicalResult verify(tile::KernelOp kernel) {
    LogicalResult result = success();
    kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (succeeded(result))
        result = verifyOp(op, kernel);
    });
    return succeeded(result) ? verifyBudget(kernel) : failure();
  }

  /// scf.for is allowed only before the loop over tiles, and only with integer ops in its body: a thread block finds
  /// its sequence by such a loop over the sequence lengths in memory.
  static LogicalResult verifyCount(Operation *op) {
    auto isNumber = [](Type type) { return type.isSignlessInteger(); };
    bool counts = !isa<tile::ForBlocksOp>(op->getParentOp()) && llvm::all_of(op->getResultTypes(), isNumber);
    for (Region &region : op->getRegions())
      for (Operation &inner : region.getOps())
        counts &= llvm::all_of(inner.getResultTypes(), isNumber) && inner.getNumRegions() == 0;
    return counts ? success()
                  : LogicalResult(op->emitOpError("is left; at the end of tile it counts integers in front of the loop "
                                                  "over tiles, and holds nothing else"));
  }

  /// Checks that tiles of rows in blocks begin with a block.
  LogicalResult verifyBlocks(tile::BlockedRowsOp rows) {
    for (Operation *user : rows.getResult().getUsers()) {
      const OperandRange indices =
          TypeSwitch<Operation *, OperandRange>(user).Case<tile::LoadOp, tile::StoreOp, tile::AccumulateOp>(
              [](auto access) { return OperandRange(access.getIndices()); });
      if (!isMultipleOf(indices.back(), tile::blockRows))
        return user->emitOpError(
            "begins at a row that is not known to be a multiple of 16, the rows of a block; take the "
            "origin of a tile");
    }
    return success();
  }

  LogicalResult verifyOp(Operation *op, tile::KernelOp kernel) {
    if (isa<scf::ForOp, scf::YieldOp>(op))
      return verifyCount(op);
    if (!isa<tile::TileDialect, arith::ArithDialect, math::MathDialect>(op->getDialect()) || isa<tile::KernelOp>(op))
      return op->emitOpError("is left; at the end of tile there are tile ops and scalar arithmetic only");
    for (Type type : op->getResultTypes())
      if (auto tile = dyn_cast<TileType>(type); tile && failed(verifySizes(op, tile, kernel.getPlan())))
        return failure();
    if (const ArchInfo *info = findArch(arch); info && info->isCpu() && isForGpu(op))
      return op->emitOpError(
          "is for a GPU's warps and shared memory, which the CPU target lacks; start from attn text or "
          "the variant");
    if (auto rows = dyn_cast<tile::BlockedRowsOp>(op))
      return verifyBlocks(rows);
    if (auto domain = dyn_cast<tile::DomainOp>(op))
      return verifyDomain(domain, kernel.getPlan());
    if (auto loop = dyn_cast<tile::ForBlocksOp>(op); loop && !loop.getDomain().getDefiningOp<tile::DomainOp>())
      return loop.emitOpError("goes over a domain that is not the result of tile.domain");
    if (auto convert = dyn_cast<tile::ConvertOp>(op);
        convert && convert.getResult().getType().getSpace() == tile::MemorySpace::Shared)
      return verifyStaged(convert, kernel);
    if (auto window = dyn_cast<tile::WindowOp>(op);
        window && (!kernel->hasAttr(sched::stageBiasesAttr) || !isa<tile::ForBlocksOp>(op->getParentOp())))
      return op->emitOpError("is for loops of kernels with sched.stage_biases; read the tensor element by element");
    if (isa<tile::ScaleOp>(op) && !sched::producerWarps(kernel))
      return op->emitOpError("multiplies in shared memory, which is for warpgroups of a kernel with producer warps; "
                             "give sched.roles, or multiply the scores");
    if (auto map = dyn_cast<tile::MapOp>(op); map && (map.getColumns() || map.getInterleaved()))
      return map.emitOpError(
          "is interleaved or computes some columns only, which schedules do; at the end of tile a map "
          "computes all, as they come");
    if (auto part = dyn_cast<tile::WarpgroupRowOp>(op))
      return verifyPart(part, kernel);
    if (auto touches = dyn_cast<tile::TouchesOp>(op))
      return verifyTouches(touches, kernel.getPlan());
    if (auto param = dyn_cast<tile::ParamOp>(op))
      return verifyParameter(param, kernel);
    return success();
  }

  /// Whether `op` is for a GPU alone: producer warps write its result, its result is the first row of a warpgroup, or it
  /// names elements by the lanes that hold them.
  static bool isForGpu(Operation *op) {
    auto convert = dyn_cast<tile::ConvertOp>(op);
    return isa<tile::ScaleOp, tile::WindowOp, tile::WarpgroupRowOp, tile::BlockedRowsOp>(op) ||
           (convert && tile::isRelative(convert.getResult().getType()));
  }

  /// The remedy in errors about tile sizes. The plan and every op state the sizes, so a user who edits a size must
  /// change all of them.
  static std::string sizesRemedy(StringRef axis, int64_t size) {
    std::string remedy = "; the plan and all ops have one size";
    if (axis == "q" || axis == "k")
      remedy += (", for another start from attn with --tile-" + axis + " " + Twine(size)).str();
    return remedy;
  }

  static LogicalResult verifySizes(Operation *op, TileType type, tile::PlanAttr plan) {
    for (auto [axis, size] : llvm::zip(plan.getAxes(), plan.getSizes()))
      if (type.hasAxis(axis) && type.size(axis) != size)
        return op->emitOpError() << "has " << type.size(axis) << " of " << axis.getValue() << ", the plan has " << size
                                 << sizesRemedy(axis, size);
    return success();
  }

  /// Checks a conversion that writes a computed tile to shared memory: relative-position values need a kernel with
  /// producer warps.
  static LogicalResult verifyStaged(tile::ConvertOp convert, tile::KernelOp kernel) {
    auto map = convert.getTile().getDefiningOp<tile::MapOp>();
    TileType type = convert.getResult().getType();
    if (!sched::producerWarps(kernel) && !tile::isRelative(type)) // all warps compute the shared tile together
      return success();
    if (!sched::producerWarps(kernel))
      return convert.emitOpError("copies relative-position values to shared memory, which a role that fills rings "
                                 "computes; give sched.roles, or compute them element by element");
    // Producer warps compute relative-position vectors, and other vectors that depend on no tile. The computing warps
    // write all other shared tiles themselves.
    if (tile::isRelative(type) &&
        (!map || !map.getInputs().empty() || map.getOnlyIf() || !isa<tile::ForBlocksOp>(convert->getParentOp())))
      return convert.emitOpError("copies relative-position values to shared memory that are not a map without inputs "
                                 "and condition, in the loop over tiles");
    return success();
  }

  /// The step of a domain must be the plan's tile size along the domain's axis, if the plan has one.
  static LogicalResult verifyDomain(tile::DomainOp domain, tile::PlanAttr plan) {
    const int64_t size = plan.getSize(domain.getAxis());
    if (!size || int64_t(domain.getStep()) == size)
      return success();
    return domain.emitOpError() << "steps by " << domain.getStep() << " of " << domain.getAxis() << ", the plan has "
                                << size << sizesRemedy(domain.getAxis(), size);
  }

  /// tile.warpgroup_row must name as many rows as a warpgroup of the plan holds.
  static LogicalResult verifyPart(tile::WarpgroupRowOp part, tile::KernelOp kernel) {
    const int64_t rows = rowsOfWarpgroup(kernel);
    if (!rows)
      return part.emitOpError("names a part of the tile, which is for warpgroups of a kernel with producer warps; give "
                              "sched.roles, or use the tile's own rows");
    if (int64_t(part.getRows()) != rows)
      return part.emitOpError() << "has parts of " << part.getRows() << " rows, a warpgroup of the plan holds " << rows;
    return success();
  }

  static LogicalResult verifyTouches(tile::TouchesOp touches, tile::PlanAttr plan) {
    if (int64_t(touches.getTileRows()) == plan.getSize("q") && int64_t(touches.getTileColumns()) == plan.getSize("k"))
      return success();
    return touches.emitOpError() << "looks at a tile of " << touches.getTileRows() << " x " << touches.getTileColumns()
                                 << ", the plan's is " << plan.getSize("q") << " x " << plan.getSize("k");
  }

  static LogicalResult verifyParameter(tile::ParamOp param, tile::KernelOp kernel) {
    bool ofDropout = llvm::is_contained({"seed", "offset", "drop_threshold", "keep_scale"}, param.getName());
    if (ofDropout && !kernel.getDropout())
      return param.emitOpError() << "reads " << param.getName()
                                 << ", which only a kernel with `dropout` is launched with";
    if (param.getName() == "q_offset" && !kernel.getQOffset())
      return param.emitOpError("reads q_offset, which only a kernel with `q_offset` is launched with");
    return success();
  }

  /// Checks that the shared tiles that are live at the same time fit in shared memory. A tile that is loaded in a loop
  /// takes one buffer for each stage of its ring. The output reuses the memory of a tile that is no longer live, except
  /// in persistent kernels.
  LogicalResult verifyBudget(tile::KernelOp kernel) {
    const ArchInfo *info = findArch(arch);
    if (!info || info->isCpu())
      return success();
    const int64_t budget = sramBudget ? int64_t(sramBudget) : int64_t(info->sharedBytesPerBlock);
    int64_t total = 0;
    std::string buffers;
    auto count = [&](StringRef name, int64_t stages, int64_t bytes) {
      total += stages * bytes;
      buffers += (buffers.empty() ? "" : ", ") + (name.empty() ? "tile" : name.str()) + " " +
                 (stages > 1 ? std::to_string(stages) + " x " : "") + std::to_string(bytes);
    };
    for (Operation *op : largestLiveTiles(kernel))
      count(tile::nameOf(op->getResult(0)), ringDepth(op), cast<TileType>(op->getResult(0).getType()).bytes());
    if (kernel->hasAttr(sched::persistentAttr))
      kernel.walk([&](tile::StoreOp store) {
        tile::OperandAttr operand = tile::operandOf(store.getView());
        if (operand && operand.isTiled() && !store.getView().getDefiningOp<tile::BlockedRowsOp>())
          count(operand.getName(), 1,
                store.getTile().getType().getShape()[0] * operand.getColumns() *
                    operand.getElementType().getIntOrFloatBitWidth() / 8);
      });
    if (total <= budget)
      return success();
    return kernel.emitOpError() << "needs " << total << " bytes of shared memory (" << buffers
                                << "), above the budget of " << budget << "; lower stages, tile_k or tile_q";
  }
};

} // namespace
