//===- HoistInvariants.cpp - Compute each value once per thread block, row or column ---===//
//
// - A quotient coordinate / c that is the same for all rows (columns) of a tile is computed from the first coordinate.
// - Ops of a map that vary along no axis of the tile move before the map, and before the loop if their operands are
//   defined before the loop.
// - Ops that vary along one axis only become a map over that axis, which also moves before the loop if its operands are
//   defined there. Row and column values that cost less to compute than to keep in a register stay in the map.
// - If all iterations of a loop run a map on the same tile (a domain with `times` repeats the tile), a map before the
//   loop loads the elements of captured tensors.
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/score/Distances.h"
#include "passes/analysis/score/MapPatterns.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include <algorithm>

namespace attune {
#define GEN_PASS_DEF_HOISTINVARIANTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

using Axes = llvm::SmallSetVector<StringAttr, 2>;

/// The axes along which each value of a map's region varies. Values that the region reads from the body of the
/// enclosing loop vary from iteration to iteration, which is recorded as the pseudo-axis `loopVariant`.
class Dependence {
public:
  explicit Dependence(tile::MapOp map) : map(map), loopVariant(StringAttr::get(map.getContext(), "")) {
    for (auto [i, input] : llvm::enumerate(map.getInputs()))
      for (StringAttr axis : cast<TileType>(input.getType()).getAxes())
        axes[map.getElement(i)].insert(axis);
    for (auto [axis, argument] : llvm::zip(map.getAxes().getAsRange<StringAttr>(),
                                           map.getBody().getArguments().drop_front(map.getInputs().size())))
      axes[argument].insert(axis);
    auto loop = map->getParentOfType<tile::ForBlocksOp>();
    for (Operation &op : map.getBody().front().without_terminator())
      for (Value operand : op.getOperands()) {
        if (loop && operand.getParentBlock() == &loop.getBody().front())
          axes[operand].insert(loopVariant);
        if (auto known = axes.find(operand); known != axes.end())
          for (Value result : op.getResults())
            for (StringAttr axis : Axes(known->second))
              axes[result].insert(axis);
      }
  }

  Axes of(Value value) const {
    auto known = axes.find(value);
    return known == axes.end() ? Axes() : known->second;
  }

  bool isUniform(Value value) const {
    return llvm::all_of(of(value), [&](StringAttr axis) { return axis == loopVariant; });
  }

  /// The only axis of the map along which `value` varies; null if there is none or more than one. A value that varies
  /// along the loop's own axis varies from iteration to iteration anyway, so `loopVariant` is ignored for it.
  StringAttr only(Value value, StringAttr loopAxis) const {
    Axes known = of(value);
    if (known.contains(loopAxis))
      known.remove(loopVariant);
    return known.size() == 1 && known[0] != loopVariant ? known[0] : StringAttr();
  }

private:
  tile::MapOp map;
  StringAttr loopVariant;
  llvm::DenseMap<Value, Axes> axes;
};

/// Whether it pays to keep the result of `op` in a register per row or column instead of recomputing it: loads,
/// divisions, special functions.
bool isCostly(Operation *op) {
  return isa<tile::ElementOp, tile::SearchOp, arith::DivFOp, arith::DivSIOp, arith::RemSIOp, arith::DivUIOp,
             arith::RemUIOp>(op) ||
         (isa<math::MathDialect>(op->getDialect()) && !isa<math::FmaOp, math::AbsFOp, math::AbsIOp>(op));
}

struct HoistInvariants : attune::impl::HoistInvariantsBase<HoistInvariants> {
  using HoistInvariantsBase::HoistInvariantsBase;

  void runOnOperation() override {
    SmallVector<tile::MapOp> maps;
    getOperation().walk([&](tile::MapOp map) { maps.push_back(map); });
    SmallVector<tile::ForBlocksOp> loops;
    getOperation().walk([&](tile::ForBlocksOp loop) { loops.push_back(loop); });
    for (tile::MapOp map : maps) {
      takeQuotientsOfTile(map);
      hoistBlockValues(map);
    }
    for (tile::ForBlocksOp loop : loops)
      hoistFromLoop(loop);
    for (tile::MapOp map : maps) {
      splitByAxis(map);
      splitInvariantLoads(map);
    }
    for (tile::ForBlocksOp loop : loops)
      hoistFromLoop(loop);
  }

  /// Replaces coordinate / c by origin / c where c is a multiple of the tile's size and so is the tile's origin.
  void takeQuotientsOfTile(tile::MapOp map) {
    for (auto division : llvm::make_early_inc_range(map.getBody().front().getOps<arith::DivSIOp>()))
      if (std::optional<CoordinateQuotient> of = quotientOfCoordinate(division)) {
        Value origin = map.getOrigins()[of->coordinate];
        if (of->divisor % of->size == 0 && isMultipleOf(origin, of->size))
          division.getLhsMutable().assign(origin);
      }
  }

  /// Moves ops of the map's region that vary along no axis of the tile to before the map.
  void hoistBlockValues(tile::MapOp map) {
    Dependence dependence(map);
    for (Operation &op : llvm::make_early_inc_range(map.getBody().front().without_terminator()))
      // An op stays if one of its operands had to stay in the region (such as a division that may be by zero).
      if (isPure(&op) && !op.getNumRegions() && dependence.isUniform(op.getResult(0)) &&
          llvm::none_of(op.getOperands(), [&](Value v) { return map.getBody().isAncestor(v.getParentRegion()); }))
        op.moveBefore(map);
  }

  /// Moves costly values that vary along one axis of a two-axis map to a map over that axis. A value along the loop's
  /// own axis would then be computed in every iteration, which a conditional map avoids; such a value therefore stays
  /// in a conditional map, with two exceptions. With `conditionalColumns`, loads move to a map with the same condition.
  /// A search (tile.search) always moves, because repeating it for each element costs more than running it in every
  /// iteration.
  void splitByAxis(tile::MapOp map) {
    if (cast<TileType>(map.getResult().getType()).rank() < 2)
      return;
    Dependence dependence(map);
    StringAttr along = loopAxis(map);
    SmallVector<Value> roots, loads, outermost;
    for (Operation &op : map.getBody().front().without_terminator()) {
      if (op.getNumResults() != 1 || !dependence.only(op.getResult(0), along) || !isPure(&op))
        continue;
      // A root is the last value of a computation along one axis: a user of the root varies along another axis or with
      // the loop, or is the region's yield.
      Value value = op.getResult(0);
      if (map.getOnlyIf() && dependence.only(value, along) == along) {
        const bool isSearch = isa<tile::SearchOp>(op);
        if ((isSearch || (conditionalColumns && isa<tile::ElementOp>(op))) && followsFromCoordinate(map, value))
          loads.push_back(value);
        continue;
      }
      bool isRoot = llvm::any_of(value.getUsers(), [&](Operation *user) {
        return isa<tile::YieldOp>(user) || !dependence.only(user->getResult(0), along);
      });
      if (isRoot && isWorthKeeping(value))
        roots.push_back(value);
    }
    for (Value root : roots)
      extract(map, root, dependence.only(root, along), /*onlyIf=*/{});
    // A load whose index comes from another load is extracted together with that load.
    for (Value load : loads)
      if (llvm::none_of(loads,
                        [&](Value other) { return other != load && sliceOf(other).contains(load.getDefiningOp()); }))
        outermost.push_back(load);
    for (Value load : outermost)
      extract(map, load, along, conditionalColumns ? map.getOnlyIf() : Value());
  }

  /// Moves loads of a two-axis map that would be the same in every iteration to a map of their own before the loop. If
  /// the loop repeats its domain `times` times, the new map runs only if `times` is positive. Biases that producer
  /// warps copy stay in the map.
  void splitInvariantLoads(tile::MapOp map) {
    auto loop = map->getParentOfType<tile::ForBlocksOp>();
    auto type = cast<TileType>(map.getResult().getType());
    if (!loop || type.rank() != 2 || map.getOnlyIf() || llvm::any_of(map.getOrigins(), [&](Value origin) {
          return loop.getBody().isAncestor(origin.getParentRegion());
        }))
      return;
    Dependence dependence(map);
    const Axes both(type.getAxes().begin(), type.getAxes().end());
    for (tile::ElementOp load : llvm::to_vector(map.getBody().front().getOps<tile::ElementOp>()))
      if (dependence.of(load) == both && followsFromCoordinate(map, load) && !isWindow(load, map))
        extract(map, load, both.getArrayRef(), hasIterations(loop));
  }

  /// Whether `times` of the loop's domain is positive, computed before the loop; null where the domain has no `times`.
  static Value hasIterations(tile::ForBlocksOp loop) {
    auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
    Value times = domain ? domain.getTimes() : Value();
    if (!times)
      return {};
    OpBuilder builder(domain);
    Value zero = arith::ConstantIntOp::create(builder, domain.getLoc(), times.getType(), 0);
    return arith::CmpIOp::create(builder, domain.getLoc(), arith::CmpIPredicate::sgt, times, zero);
  }

  /// The axis of the loop around the map, or null.
  static StringAttr loopAxis(tile::MapOp map) {
    auto loop = map->getParentOfType<tile::ForBlocksOp>();
    auto domain = loop ? loop.getDomain().getDefiningOp<tile::DomainOp>() : tile::DomainOp();
    return domain ? domain.getAxisAttr() : StringAttr();
  }

  /// The ops of the region that `root` is computed from.
  static llvm::SetVector<Operation *> sliceOf(Value root) {
    llvm::SetVector<Operation *> slice;
    SmallVector<Operation *> work{root.getDefiningOp()};
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      if (!slice.insert(op))
        continue;
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && producer->getBlock() == op->getBlock())
          work.push_back(producer);
    }
    return slice;
  }

  static bool isWorthKeeping(Value root) { return llvm::any_of(sliceOf(root), isCostly); }

  /// Whether `value` is computed from coordinates and values outside of the map, and from no input of the map.
  static bool followsFromCoordinate(tile::MapOp map, Value value) {
    return llvm::none_of(sliceOf(value), [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        auto argument = dyn_cast<BlockArgument>(operand);
        return argument && argument.getOwner() == &map.getBody().front() &&
               argument.getArgNumber() < map.getInputs().size();
      });
    });
  }

  /// Moves the computation of `root` to a new map over `axes`, whose result becomes an input of `map`. If `onlyIf` is
  /// set, the new map runs only where this flag is true.
  void extract(tile::MapOp map, Value root, ArrayRef<StringAttr> axes, Value onlyIf) {
    // A map over both axes gives the same result in all iterations of the loop, so it is placed before the loop.
    OpBuilder builder(axes.size() > 1 ? map->getParentOp() : map.getOperation());
    SmallVector<Operation *> ordered(sliceOf(root).getArrayRef());
    llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });

    SmallVector<Value> inputs;
    SmallVector<BlockArgument> inputArguments;
    for (auto [i, input] : llvm::enumerate(map.getInputs()))
      if (!onlyIf && cast<TileType>(input.getType()).getAxes() == axes &&
          llvm::any_of(map.getElement(i).getUsers(),
                       [&](Operation *user) { return llvm::is_contained(ordered, user); })) {
        inputs.push_back(input);
        inputArguments.push_back(map.getElement(i));
      }
    auto resultType = cast<TileType>(map.getResult().getType());
    SmallVector<std::pair<StringRef, Value>> coordinates;
    SmallVector<std::pair<StringRef, int64_t>> sizes;
    for (StringAttr axis : axes) {
      sizes.push_back({axis.getValue(), resultType.size(axis.getValue())});
      if (BlockArgument coordinate = map.getCoordinate(axis.getValue()))
        coordinates.push_back({axis.getValue(), map.getOrigins()[coordinate.getArgNumber() - map.getInputs().size()]});
    }
    TileType type = TileType::make(map.getContext(), sizes, root.getType(), tile::MemorySpace::Register);
    if (onlyIf && axes.size() > 1)
      inputs.push_back(tile::SplatOp::create(
          builder, map.getLoc(), type,
          arith::ConstantOp::create(builder, map.getLoc(), root.getType(), builder.getZeroAttr(root.getType()))));
    auto values = tile::MapOp::create(builder, map.getLoc(), type, inputs, coordinates, onlyIf);
    const StringRef prefix = axes.size() > 1 ? "tile_" : axes[0].getValue() == "q" ? "row_" : "column_";
    tile::named(values.getResult(), (prefix + (tile::nameOf(root).empty() ? "value" : tile::nameOf(root))).str());
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&values.getBody().front());
      IRMapping mapping;
      for (auto [i, argument] : llvm::enumerate(inputArguments))
        mapping.map(argument, values.getElement(i));
      for (StringAttr axis : axes)
        if (BlockArgument coordinate = map.getCoordinate(axis.getValue()))
          mapping.map(coordinate, values.getCoordinate(axis.getValue()));
      for (Operation *op : ordered)
        builder.clone(*op, mapping);
      tile::YieldOp::create(builder, map.getLoc(), mapping.lookup(root));
    }
    root.replaceAllUsesWith(map.addInput(values.getResult(), root.getType()));
    for (Operation *op : llvm::reverse(ordered))
      if (op->use_empty())
        op->erase();
  }

  /// Moves scalar ops and one-axis maps to before the loop if they read no value that is defined in the loop.
  void hoistFromLoop(tile::ForBlocksOp loop) {
    auto outside = [&](Value value) { return !loop.getBody().isAncestor(value.getParentRegion()); };
    for (Operation &op : llvm::make_early_inc_range(loop.getBody().front().without_terminator())) {
      bool scalar = op.getNumRegions() == 0 && isPure(&op) && !isa<tile::LoadOp, tile::ConvertOp>(op) &&
                    llvm::none_of(op.getResultTypes(), llvm::IsaPred<TileType>);
      bool vector = isa<tile::MapOp>(op) && cast<TileType>(op.getResult(0).getType()).rank() == 1;
      if (!scalar && !vector)
        continue;
      bool invariant = true;
      op.walk([&](Operation *nested) {
        for (Value operand : nested->getOperands())
          invariant &= outside(operand) || op.isAncestor(operand.getParentRegion()->getParentOp());
      });
      if (invariant)
        op.moveBefore(loop);
    }
  }
};

} // namespace
