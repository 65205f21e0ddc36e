//===- PlaceOperands.cpp - Choose the row axis of register tiles, copy operands to shared memory ---===//
//
// A matrix instruction reads its left operand from registers, in which a lane holds the rows of the result, or from
// shared memory. It reads its right operand from shared memory. So the order of a register tile's axes matters (S or
// S^T):
//
//     O  += P V      contracts k: registers hold P with rows q
//     dV += P^T dO   contracts q: registers hold P with rows k
//     dK += dS^T Q   contracts q: registers hold dS with rows k
//     dQ += dS K     contracts k: dS, whose rows are k for dK, is read from shared memory
//
// Register tiles that maps, products and loops tie together get one order of axes: the order in which the fewest
// products and reductions exchange elements between lanes. An operand that does not have the required order is copied
// to shared memory by a `tile.convert`; products read shared memory in either order. In a kernel with
// producer and consumer roles, dS may also be stored to global memory as the gradient of a captured bias[h, q, k]. Such
// a tile has the tensor's order in shared memory, so that TMA can store it from there. Where TMA cannot, because the tensor's rows do not start at multiples of 16 bytes, the launch starts
// the fallback kernel (`tile.fallback_of`).
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/TilesInEights.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace attune {
#define GEN_PASS_DEF_PLACEOPERANDS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::MemorySpace;
using tile::TileType;

namespace {

/// Whether the pass can choose the order of the axes of `value`. Tiles of sums along diagonals (tile.sum_diagonals),
/// which have one row for each warp, have a fixed order.
bool isRegisterTile(Value value) {
  auto type = dyn_cast<TileType>(value.getType());
  return type && type.rank() == 2 && type.getSpace() == MemorySpace::Register && !tile::isByPart(type);
}

/// `type` with its axes in the order in which `rows` comes first.
TileType withRows(TileType type, StringAttr rows) {
  const int first = type.getAxes()[0] == rows ? 0 : 1, second = 1 - first;
  return TileType::get(type.getContext(), {type.getAxes()[first], type.getAxes()[second]},
                       {type.getShape()[first], type.getShape()[second]}, type.getElementType(), type.getSpace(),
                       type.getLayout());
}

/// Groups of two-axis register tiles that must have the same order of axes, and the cost of either order for each
/// group.
class RowChoice {
public:
  explicit RowChoice(tile::KernelOp kernel) {
    kernel.walk([&](Operation *op) {
      TypeSwitch<Operation *>(op)
          .Case([&](tile::MapOp map) { tieAll(map->getOperands(), map.getResult()); })
          .Case([&](tile::DropoutOp dropout) {
            tieAll(dropout->getOperands(), dropout.getResult());
            if (dropout.getKept())
              tieAll({dropout.getKept()}, dropout.getResult());
          })
          .Case<tile::LoadBlocksOp>([](auto) {}) // can return a tile with either order of axes
          .Case([&](tile::ConvertOp convert) {
            if (goesToMemory(convert.getResult()))
              keepOrder(convert.getTileMutable(), convert.getResult().getType().getAxes()[0]);
            else
              tieAll(convert->getOperands(), convert.getResult());
          })
          .Case([&](tile::ForBlocksOp loop) {
            for (auto [result, init, carried, next] :
                 llvm::zip(loop.getResults(), loop.getInits(), loop.getCarried(), loop.getYield().getValues()))
              tieAll({init, carried, next}, result);
          })
          .Case([&](tile::MmaOp mma) { weigh(mma); })
          .Case([&](tile::ReduceOp reduce) { weigh(reduce.getTile(), reduce.getAxis(), 1); })
          // A scatter stores each element at the indices that belong to the element: either order of axes will do.
          .Case([&](tile::ScatterOp scatter) { tieAll(scatter.getIndices(), scatter.getTile()); })
          .Case<tile::SplatOp, tile::YieldOp>([](auto) {})
          .Default([&](Operation *other) { keepOrder(other); });
    });
  }

  /// Gives each group of tiles the order of axes that costs least. An op that accesses memory and so has a fixed order
  /// of axes gets a conversion where the group's order differs.
  void apply(tile::KernelOp kernel) {
    SmallVector<std::pair<Value, StringAttr>> turned;
    auto collect = [&](Value value) {
      if (!isRegisterTile(value))
        return;
      if (StringAttr rows = rowsOf(value); rows != cast<TileType>(value.getType()).getAxes()[0])
        turned.push_back({value, rows});
    };
    kernel.walk([&](Block *block) { llvm::for_each(block->getArguments(), collect); });
    kernel.walk([&](Operation *op) { llvm::for_each(op->getResults(), collect); });
    for (auto [value, rows] : turned)
      value.setType(withRows(cast<TileType>(value.getType()), rows));
    for (auto [use, rows] : takenInOrder)
      if (cast<TileType>(use->get().getType()).getAxes()[0] != rows)
        use->set(reordered(OpBuilder(use->getOwner()), use->get(), rows));
    for (auto [value, rows] : givenInOrder)
      if (StringAttr chosen = cast<TileType>(value.getType()).getAxes()[0]; chosen != rows) {
        OpBuilder builder(value.getContext());
        builder.setInsertionPointAfterValue(value);
        value.setType(withRows(cast<TileType>(value.getType()), rows));
        Value convert = reordered(builder, value, chosen);
        value.replaceAllUsesExcept(convert, convert.getDefiningOp());
      }
  }

private:
  using Key = void *;

  static Key key(Value value) { return value.getAsOpaquePointer(); }
  static StringAttr firstAxis(Value value) { return cast<TileType>(value.getType()).getAxes()[0]; }

  static Value reordered(OpBuilder builder, Value value, StringAttr rows) {
    auto type = cast<TileType>(value.getType());
    auto convert = tile::ConvertOp::create(builder, value.getLoc(), withRows(type, rows), value);
    return tile::named(convert.getResult(), tile::nameOf(value));
  }

  void tieAll(ValueRange values, Value with) {
    if (!isRegisterTile(with))
      return;
    classes.insert(key(with));
    for (Value value : values)
      if (isRegisterTile(value))
        classes.unionSets(key(with), key(value));
  }

  void tieAll(std::initializer_list<Value> values, Value with) { tieAll(ValueRange(ArrayRef(values)), with); }

  /// Whether a shared tile is stored to global memory, row by row. All other ops read a shared tile in either order.
  static bool goesToMemory(Value tile) {
    auto type = cast<TileType>(tile.getType());
    return type.rank() == 2 && type.getSpace() == MemorySpace::Shared &&
           llvm::any_of(tile.getUsers(), [](Operation *user) { return isa<tile::StoreOp, tile::AccumulateOp>(user); });
  }

  /// Fixes the order of axes of the op's operands and results to their order in the input IR. An op that accesses
  /// memory, for example, needs that order.
  void keepOrder(Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      if (isRegisterTile(use.get()))
        keepOrder(use, firstAxis(use.get()));
    for (Value value : op->getResults())
      if (isRegisterTile(value)) {
        weighOrder(value, firstAxis(value));
        givenInOrder.push_back({value, firstAxis(value)});
      }
  }

  void keepOrder(OpOperand &use, StringAttr rows) {
    if (!isRegisterTile(use.get()))
      return;
    weighOrder(use.get(), rows);
    takenInOrder.push_back({&use, rows});
  }

  /// Adds the cost of an exchange between lanes to the order in which `rows` is not the row axis of `value`.
  void weighOrder(Value value, StringAttr rows) {
    constexpr int exchange = 4;
    auto type = cast<TileType>(value.getType());
    classes.insert(key(value));
    costs[key(value)][type.getAxes()[type.getAxes()[0] == rows]] += exchange;
  }

  /// Adds `cost` to the order in which `axis`, which an op reduces or contracts, is the row axis of `value`.
  void weigh(Value value, StringRef axis, int cost) {
    if (!isRegisterTile(value))
      return;
    classes.insert(key(value));
    costs[key(value)][StringAttr::get(value.getContext(), axis)] += cost;
  }

  void weigh(tile::MmaOp mma) {
    classes.insert(key(mma.getResult()));
    if (mma.getAcc())
      classes.unionSets(key(mma.getResult()), key(mma.getAcc()));
    auto lhs = cast<TileType>(mma.getLhs().getType()), rhs = cast<TileType>(mma.getRhs().getType());
    StringRef contracted = rhs.hasAxis(lhs.axis(0)) ? lhs.axis(0) : lhs.axis(1);
    weigh(mma.getLhs(), contracted, 4);
    weigh(mma.getRhs(), contracted, 4);
  }

  StringAttr rowsOf(Value value) {
    auto leader = classes.findLeader(key(value));
    if (leader == classes.member_end())
      return firstAxis(value);
    auto [known, isNew] = decided.try_emplace(*leader, StringAttr());
    if (!isNew)
      return known->second;
    // The input IR's order of axes is kept unless the other order costs less.
    auto type = cast<TileType>(value.getType());
    int asWritten = 0, other = 0;
    for (auto member = leader; member != classes.member_end(); ++member)
      if (auto found = costs.find(*member); found != costs.end()) {
        asWritten += found->second.lookup(type.getAxes()[0]);
        other += found->second.lookup(type.getAxes()[1]);
      }
    // If fragments of 16 rows and 8 columns fill the tile in one order only, that order is chosen.
    auto fills = [&](unsigned rows) { return type.getShape()[rows] % 16 == 0 && type.getShape()[1 - rows] % 8 == 0; };
    const bool turn = fills(0) == fills(1) ? other < asWritten : fills(1);
    return known->second = type.getAxes()[turn];
  }

  llvm::EquivalenceClasses<Key> classes;
  llvm::DenseMap<Key, llvm::SmallDenseMap<StringAttr, int, 2>>
      costs;                               ///< leader of a group -> the cost of each axis as the row axis
  llvm::DenseMap<Key, StringAttr> decided; ///< leader of a group -> the chosen row axis
  SmallVector<std::pair<OpOperand *, StringAttr>> takenInOrder;
  SmallVector<std::pair<Value, StringAttr>> givenInOrder;
};

/// Moves or converts the operands of products so that matrix instructions can read them.
class OperandPlacer {
public:
  void run(tile::KernelOp kernel) {
    SmallVector<tile::MmaOp> products;
    kernel.walk([&](tile::MmaOp mma) { products.push_back(mma); });
    for (tile::MmaOp mma : products)
      place(mma);
  }

private:
  void place(tile::MmaOp mma) {
    const unsigned before = copies.size();
    placeOperands(mma);
    if (copies.size() > before)
      tile::remark(tile::kernelAround(mma),
                   "an operand of the product " + textOf(mma) +
                       " goes through shared memory: its order of axes in registers is another product's");
  }

  /// The axes of a product as text, such as "(q, d) = (q, k) (k, d)".
  static std::string textOf(tile::MmaOp mma) {
    auto text = [](Value tile) {
      auto type = cast<TileType>(tile.getType());
      return ("(" + type.axis(0) + ", " + type.axis(1) + ")").str();
    };
    return text(mma.getResult()) + " = " + text(mma.getLhs()) + " " + text(mma.getRhs());
  }

  void placeOperands(tile::MmaOp mma) {
    auto lhs = cast<TileType>(mma.getLhs().getType());
    StringRef rows = mma.getResult().getType().axis(0);
    if (!lhs.hasAxis(rows)) {
      Value left = mma.getRhs();
      mma.getRhsMutable().assign(mma.getLhs());
      mma.getLhsMutable().assign(left);
    }
    if (isRegisterTile(mma.getLhs()) && cast<TileType>(mma.getLhs().getType()).axis(0) != rows)
      mma.getLhsMutable().assign(inShared(mma.getLhs()));
    if (isRegisterTile(mma.getRhs()))
      mma.getRhsMutable().assign(inShared(mma.getRhs()));
    keepToItself(mma);
  }

  /// Returns the copy of a register tile in shared memory. The first call for a tile creates the copy, right after the
  /// tile's definition.
  Value inShared(Value tile) {
    Value &copy = copies[tile];
    if (copy)
      return copy;
    Value source = tile;
    auto type = cast<TileType>(tile.getType());
    if (auto convert = tile.getDefiningOp<tile::ConvertOp>(); convert && isRegisterTile(convert.getTile()))
      source = convert.getTile(); // the conversion to shared memory also rounds
    OpBuilder builder(tile.getContext());
    builder.setInsertionPointAfterValue(tile);
    auto convert = tile::ConvertOp::create(builder, tile.getLoc(), type.withSpace(MemorySpace::Shared), source);
    copy = tile::named(convert.getResult(), tile::nameOf(tile));
    return copy;
  }

  /// Clones the conversion of a left operand that has other readers: each product needs a fragment layout of its own.
  static void keepToItself(tile::MmaOp mma) {
    auto convert = mma.getLhs().getDefiningOp<tile::ConvertOp>();
    if (!convert || !isRegisterTile(mma.getLhs()) || convert.getResult().hasOneUse())
      return;
    OpBuilder builder(mma);
    auto own = cast<tile::ConvertOp>(builder.clone(*convert));
    mma.getLhsMutable().assign(own.getResult());
  }

  llvm::DenseMap<Value, Value> copies;
};

/// Whether `tile`, rounded to `element`, is scattered to a dense tensor whose last dimension is the tile's row axis.
bool isGradient(Value tile, Type element) {
  return llvm::any_of(tile.getUsers(), [&](Operation *user) {
    auto scatter = dyn_cast<tile::ScatterOp>(user);
    return scatter && scatter.getView().getType().getElementType() == element && countsInEights(scatter, 0);
  });
}

/// Gives the shared copy of a register tile the same row axis as the register tile, except for a copy that TMA stores
/// to a dense tensor with the other order of axes.
void orderShared(tile::KernelOp kernel) {
  const bool leaveByEngine = kernel->hasAttr(sched::rolesAttr) && tile::hasFallback(kernel);
  kernel.walk([&](tile::ConvertOp convert) {
    TileType type = convert.getResult().getType();
    if (type.rank() != 2 || type.getSpace() != MemorySpace::Shared || !isRegisterTile(convert.getTile()))
      return;
    const bool turned = leaveByEngine && isGradient(convert.getTile(), type.getElementType());
    convert.getResult().setType(withRows(type, convert.getTile().getType().getAxes()[turned]));
  });
}

struct PlaceOperands : attune::impl::PlaceOperandsBase<PlaceOperands> {
  using PlaceOperandsBase::PlaceOperandsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      RowChoice(kernel).apply(kernel);
      OperandPlacer().run(kernel);
      orderShared(kernel);
      kernel.walk([](tile::ConvertOp convert) {
        if (convert->use_empty())
          convert.erase();
      });
    }
  }
};

} // namespace
