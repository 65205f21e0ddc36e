//===- HoistParts.cpp - Compute a condition once for each part of a tile -----===//
//
// A mask of blocks, such as q / 64 == table(k / 64), is the same for all elements of a block. Where tiles are larger than
// blocks, a tile consists of parts in each of which the condition is constant. The condition is computed for the first
// element of each part, and an element reads the bit of its part:
//
//     before                                     after (128 x 128 tile, blocks of 64)
//     --------------------------------------     ------------------------------------------------
//                                                parts = bits 4 (i) {
//                                                  f((q0 + i / 2 * 64) / 64, (k0 + i % 2 * 64) / 64)
//                                                }
//     map(p) at(q = q0, k = k0) {                map(p) at(q = q0, k = k0) {
//       f(q / 64, k / 64) ? p : 0                  parts >> ((q - q0) / 64 * 2 + (k - k0) / 64) & 1 ? p : 0
//     }                                          }
//
//===----------------------------------------------------------------------===//

#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/score/MapPatterns.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

namespace attune {
#define GEN_PASS_DEF_HOISTPARTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

/// The maximum number of parts of a tile: the lanes of a warp.
constexpr int64_t mostParts = 32;
/// The least number of operations that a condition takes for each element, if it is to be computed by parts. Parts have
/// fewer operations, but no other work is there to issue while each waits for the one before it: 11 operations were 2%
/// slower by parts, 22 were 10 to 30% faster (sliding tile attention, forward and backward, sm_90a).
constexpr int64_t leastOperations = 16;

/// The conditions of a map that depend on coordinates through quotients by constants alone.
class PartConditions {
public:
  explicit PartConditions(tile::MapOp map) : map(map), body(map.getBody().front()) {
    for (Operation &op : body.without_terminator())
      if (std::optional<Steps> steps = stepsOf(op))
        known[op.getResult(0)] = *steps;
  }

  /// Replaces the conditions that other operations of the map read.
  void hoist() {
    SmallVector<Value> roots;
    for (Operation &op : body.without_terminator())
      if (known.contains(op.getResult(0)) && op.getResult(0).getType().isInteger(1) &&
          llvm::any_of(op.getUsers(), [&](Operation *user) { return !isKnown(user); }))
        roots.push_back(op.getResult(0));
    for (Value root : roots)
      hoist(root);
  }

private:
  /// The greatest common divisors of the constants by which a value divides the coordinates, one for each of the map's
  /// coordinates; 0 if the value does not depend on the coordinate.
  using Steps = SmallVector<int64_t, 2>;

  bool isKnown(Operation *op) { return op->getNumResults() == 1 && known.contains(op->getResult(0)); }

  int64_t sizeOf(unsigned coordinate) {
    return cast<TileType>(map.getResult().getType()).size(cast<StringAttr>(map.getAxes()[coordinate]).getValue());
  }

  std::optional<Steps> stepsOf(Operation &op) {
    if (op.getNumResults() != 1 || op.getNumRegions() || !isMemoryEffectFree(&op) ||
        isa<tile::ElementOp, tile::SearchOp>(op))
      return std::nullopt;
    Steps steps(map.getOrigins().size(), 0);
    if (std::optional<CoordinateQuotient> of = quotientOfCoordinate(&op)) {
      // A part has to begin where the tile begins, or at a multiple of the divisor from there.
      if (!isMultipleOf(map.getOrigins()[of->coordinate], of->size) ||
          (of->divisor % of->size && of->size % of->divisor))
        return std::nullopt;
      steps[of->coordinate] = of->divisor;
      return steps;
    }
    for (Value operand : op.getOperands())
      if (auto found = known.find(operand); found != known.end())
        for (auto [step, other] : llvm::zip(steps, found->second))
          step = std::gcd(step, other);
      else if (operand.getParentBlock() == &body)
        return std::nullopt;
    return steps;
  }

  /// The operations from which `root` is computed, in their order.
  SmallVector<Operation *> sliceOf(Value root) {
    llvm::SetVector<Operation *> slice;
    slice.insert(root.getDefiningOp());
    for (size_t i = 0; i < slice.size(); ++i)
      for (Value operand : slice[i]->getOperands())
        if (known.contains(operand))
          slice.insert(operand.getDefiningOp());
    SmallVector<Operation *> ordered(slice.begin(), slice.end());
    llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return ordered;
  }

  /// The operations of a slice that an element takes: those that vary along the axis of the loop around the map.
  /// tile-hoist-invariants computes the others once for each row.
  int64_t operationsOfElement(ArrayRef<Operation *> slice) {
    auto loop = map->getParentOfType<tile::ForBlocksOp>();
    auto domain = loop ? loop.getDomain().getDefiningOp<tile::DomainOp>() : tile::DomainOp();
    return llvm::count_if(slice, [&](Operation *op) {
      return llvm::any_of(llvm::enumerate(known[op->getResult(0)]), [&](auto each) {
        return each.value() && (!domain || map.getAxes()[each.index()] == domain.getAxisAttr());
      });
    });
  }

  void hoist(Value root) {
    const Steps steps = known[root];
    SmallVector<int64_t> parts;
    for (auto [i, step] : llvm::enumerate(steps))
      parts.push_back(step && step < sizeOf(i) ? sizeOf(i) / step : 1);
    const int64_t all = std::accumulate(parts.begin(), parts.end(), int64_t(1), std::multiplies<>());
    const SmallVector<Operation *> slice = sliceOf(root);
    if (all == 1 || all > mostParts || operationsOfElement(slice) < leastOperations)
      return;
    OpBuilder builder(map);
    Location loc = root.getLoc();
    auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    auto times = [&](Value a, int64_t b) -> Value { return arith::MulIOp::create(builder, loc, a, constant(b)); };
    auto add = [&](Value a, Value b) -> Value { return a ? arith::AddIOp::create(builder, loc, a, b) : b; };

    auto bits = tile::BitsOp::create(builder, loc, builder.getI32Type(), uint32_t(all));
    tile::named(bits.getResult(), "parts");
    builder.createBlock(&bits.getBody(), {}, builder.getI32Type(), loc);
    // Parts are numbered along the last coordinate first.
    Value rest = bits.getBody().getArgument(0);
    IRMapping mapping;
    for (int i = int(parts.size()) - 1; i >= 0; --i) {
      Value origin = map.getOrigins()[i], count = constant(parts[size_t(i)]);
      if (parts[size_t(i)] > 1) {
        origin = add(origin, times(arith::RemUIOp::create(builder, loc, rest, count), steps[size_t(i)]));
        rest = arith::DivUIOp::create(builder, loc, rest, count);
      }
      mapping.map(coordinate(size_t(i)), origin);
    }
    for (Operation *op : slice)
      builder.clone(*op, mapping);
    tile::YieldOp::create(builder, loc, mapping.lookup(root));

    builder.setInsertionPoint(slice.back());
    Value place;
    for (auto [i, count] : llvm::enumerate(parts)) {
      if (count == 1)
        continue;
      Value inTile = arith::SubIOp::create(builder, loc, coordinate(i), map.getOrigins()[i]);
      Value number = arith::DivSIOp::create(builder, loc, inTile, constant(steps[i]));
      place = add(place ? times(place, count) : Value(), number);
    }
    Value bit =
        arith::AndIOp::create(builder, loc, arith::ShRUIOp::create(builder, loc, bits.getResult(), place), constant(1));
    Value holds = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bit, constant(0));
    root.replaceUsesWithIf(holds, [&](OpOperand &use) { return !isKnown(use.getOwner()); });
  }

  Value coordinate(size_t i) { return map.getBody().getArgument(map.getInputs().size() + unsigned(i)); }

  tile::MapOp map;
  Block &body;
  llvm::DenseMap<Value, Steps> known;
};

struct HoistParts : attune::impl::HoistPartsBase<HoistParts> {
  void runOnOperation() override {
    getOperation().walk([](tile::MapOp map) {
      if (map.getResult().getType().rank() == 2 && !map.getOrigins().empty())
        PartConditions(map).hoist();
    });
  }
};

} // namespace
