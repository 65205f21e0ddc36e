//===- PlaceOperands.cpp - Which axis is rows, and what goes through shared memory ---===//
//
// A matrix instruction takes its left operand from registers, where a lane holds the rows of the result, or from shared
// memory; its right operand comes from shared memory. So the order of a register tile's axes matters (S or S^T):
//
//     O  += P V      contracts k: P = (q, k) is read as it lies   dS = (k, q):  dK += dS Q     as it lies
//     dV += P^T dO   contracts q: P = (k, q) is read as it lies                 dQ += dS^T K   by way of shared memory
//
// Register tiles that maps, products and loops tie together get one order, the one in which fewest products and
// reductions must exchange elements between lanes. What then does not fit goes to shared memory by a `tile.convert`,
// from where an operand is read in either order. A tile that is the gradient of a dense tensor, too, lies there as that
// does, in a kernel with roles: TMA takes it from there. Where it cannot, as the tensor's rows lie at no
// multiples of 16 bytes, another kernel starts (`tile.fallback_of`).
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/TilesInEights.h"

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

/// Whether `value` is one whose axes have an order to choose: distances are those of their part.
bool isRegisterTile(Value value) {
  auto type = dyn_cast<TileType>(value.getType());
  return type && type.rank() == 2 && type.getSpace() == MemorySpace::Register && !tile::isByPart(type);
}

/// The order of the axes of `type` in which `rows` comes first.
TileType withRows(TileType type, StringAttr rows) {
  const int first = type.getAxes()[0] == rows ? 0 : 1, second = 1 - first;
  return TileType::get(type.getContext(), {type.getAxes()[first], type.getAxes()[second]},
                       {type.getShape()[first], type.getShape()[second]}, type.getElementType(), type.getSpace(),
                       type.getLayout());
}

/// Register tiles of two axes that have one order, and what the orders cost.
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
          .Case<tile::LoadBlocksOp>([](auto) {}) // gives what is asked for
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
          // Each element goes to its own place, in any order.
          .Case([&](tile::ScatterOp scatter) { tieAll(scatter.getIndices(), scatter.getTile()); })
          .Case<tile::SplatOp, tile::YieldOp>([](auto) {})
          .Default([&](Operation *other) { keepOrder(other); });
    });
  }

  /// Gives each tile the order that costs least. What takes or gives a tile in the order of memory gets it by a
  /// conversion where that is another.
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

  /// A shared tile that is written to global memory, row by row; all else reads one in either order.
  static bool goesToMemory(Value tile) {
    auto type = cast<TileType>(tile.getType());
    return type.rank() == 2 && type.getSpace() == MemorySpace::Shared &&
           llvm::any_of(tile.getUsers(), [](Operation *user) { return isa<tile::StoreOp, tile::AccumulateOp>(user); });
  }

  /// Memory: what it takes and gives has the order that is written.
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

  /// What it costs where something else than `rows` is rows.
  void weighOrder(Value value, StringAttr rows) {
    constexpr int exchange = 4;
    auto type = cast<TileType>(value.getType());
    classes.insert(key(value));
    costs[key(value)][type.getAxes()[type.getAxes()[0] == rows]] += exchange;
  }

  /// `cost` where `axis`, which is run along or contracted, is rows.
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
    // As written, unless the other order costs less.
    auto type = cast<TileType>(value.getType());
    int asWritten = 0, other = 0;
    for (auto member = leader; member != classes.member_end(); ++member)
      if (auto found = costs.find(*member); found != costs.end()) {
        asWritten += found->second.lookup(type.getAxes()[0]);
        other += found->second.lookup(type.getAxes()[1]);
      }
    // Nothing costs as much as rows that fragments do not fill.
    auto fills = [&](unsigned rows) { return type.getShape()[rows] % 16 == 0 && type.getShape()[1 - rows] % 8 == 0; };
    const bool turn = fills(0) == fills(1) ? other < asWritten : fills(1);
    return known->second = type.getAxes()[turn];
  }

  llvm::EquivalenceClasses<Key> classes;
  llvm::DenseMap<Key, llvm::SmallDenseMap<StringAttr, int, 2>> costs; ///< where an axis is rows
  llvm::DenseMap<Key, StringAttr> decided;                            ///< rows, by leader
  SmallVector<std::pair<OpOperand *, StringAttr>> takenInOrder;
  SmallVector<std::pair<Value, StringAttr>> givenInOrder;
};

/// Makes each operand of the products one that an instruction can read.
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

  /// (q, d) = (q, k) (k, d), by its axes.
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

  /// A copy of a register tile in shared memory, made where the tile is.
  Value inShared(Value tile) {
    Value &copy = copies[tile];
    if (copy)
      return copy;
    Value source = tile;
    auto type = cast<TileType>(tile.getType());
    if (auto convert = tile.getDefiningOp<tile::ConvertOp>(); convert && isRegisterTile(convert.getTile()))
      source = convert.getTile(); // rounded on its way
    OpBuilder builder(tile.getContext());
    builder.setInsertionPointAfterValue(tile);
    auto convert = tile::ConvertOp::create(builder, tile.getLoc(), type.withSpace(MemorySpace::Shared), source);
    copy = tile::named(convert.getResult(), tile::nameOf(tile));
    return copy;
  }

  /// The left operand's fragment is for one product: another reader of the rounded tile gets its own.
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

/// Whether `tile`, rounded to `element`, is stored to a dense tensor whose rows are its columns.
bool isGradient(Value tile, Type element) {
  return llvm::any_of(tile.getUsers(), [&](Operation *user) {
    auto scatter = dyn_cast<tile::ScatterOp>(user);
    return scatter && scatter.getView().getType().getElementType() == element && countsInEights(scatter, 0);
  });
}

/// Shared copies have their rows where registers do, but where TMA takes them to a dense tensor that has not.
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
