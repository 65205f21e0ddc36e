//===- PlaceOperands.cpp - Which axis is rows, and what goes through shared memory ---===//
//
// A matrix instruction takes its left operand from registers, where a lane holds the rows of the result, or from shared
// memory; its right operand comes from shared memory. So the order of a register tile's axes matters (S or S^T):
//
//     O  += P V        contracts k: P = (q, k) is read as it lies         dS = (k, q):  dK += dS Q     as it lies
//     dV += P^T dO     contracts q: P = (k, q) is read as it lies                       dQ += dS^T K   by way of shared
//     memory
//
// Register tiles that maps, products and loops tie together get one order, the one in which fewest products and
// reductions must exchange elements between lanes. What then does not fit goes to shared memory by a `tile.convert`,
// from where an operand is read in either order.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

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

bool isRegisterTile(Value value) {
  auto type = dyn_cast<TileType>(value.getType());
  return type && type.rank() == 2 && type.getSpace() == MemorySpace::Register;
}

/// Register tiles of two axes that have one order, and what the orders cost.
class RowChoice {
public:
  explicit RowChoice(tile::KernelOp kernel) {
    kernel.walk([&](Operation *op) {
      TypeSwitch<Operation *>(op)
          .Case([&](tile::MapOp map) { tieAll(map->getOperands(), map.getResult()); })
          .Case([&](tile::ConvertOp convert) { tieAll(convert->getOperands(), convert.getResult()); })
          .Case([&](tile::DropoutOp dropout) {
            tieAll(dropout->getOperands(), dropout.getResult());
            pin(dropout.getResult());
          })
          .Case([&](tile::ForBlocksOp loop) {
            for (auto [result, init, carried, next] :
                 llvm::zip(loop.getResults(), loop.getInits(), loop.getCarried(), loop.getYield().getValues()))
              if (isRegisterTile(result))
                tieAll({init, carried, next}, result);
          })
          .Case([&](tile::MmaOp mma) { weigh(mma); })
          .Case([&](tile::ReduceOp reduce) { weigh(reduce.getTile(), reduce.getAxis(), 1); })
          .Case<tile::SplatOp, tile::YieldOp>([](auto) {})
          // What has the order of memory keeps it.
          .Default([&](Operation *other) {
            llvm::for_each(other->getOperands(), [&](Value value) { pin(value); });
            llvm::for_each(other->getResults(), [&](Value value) { pin(value); });
          });
    });
  }

  /// Turns the tiles whose other order costs less.
  void apply(tile::KernelOp kernel) {
    auto turn = [&](Value value) {
      if (isRegisterTile(value) && isTurned(value)) {
        auto type = cast<TileType>(value.getType());
        value.setType(TileType::get(type.getContext(), {type.getAxes()[1], type.getAxes()[0]},
                                    {type.getShape()[1], type.getShape()[0]}, type.getElementType(), type.getSpace(),
                                    type.getLayout()));
      }
    };
    kernel.walk([&](Block *block) { llvm::for_each(block->getArguments(), turn); });
    kernel.walk([&](Operation *op) { llvm::for_each(op->getResults(), turn); });
  }

private:
  using Key = void *;
  struct Cost {
    int asWritten = 0, turned = 0;
    bool pinned = false;
  };

  static Key key(Value value) { return value.getAsOpaquePointer(); }

  void tieAll(ValueRange values, Value with) {
    if (!isRegisterTile(with))
      return;
    classes.insert(key(with));
    for (Value value : values)
      if (isRegisterTile(value))
        classes.unionSets(key(value), key(with));
  }

  void tieAll(std::initializer_list<Value> values, Value with) { tieAll(ValueRange(ArrayRef(values)), with); }

  void pin(Value value) {
    if (isRegisterTile(value))
      costs[key(value)].pinned = true;
  }

  /// `weight` where `axis`, which is run along or contracted, is rows.
  void weigh(Value value, StringRef axis, int weight) {
    if (!isRegisterTile(value))
      return;
    Cost &cost = costs[key(value)];
    (cast<TileType>(value.getType()).axis(0) == axis ? cost.asWritten : cost.turned) += weight;
  }

  void weigh(tile::MmaOp mma) {
    classes.insert(key(mma.getResult()));
    if (mma.getAcc())
      classes.unionSets(key(mma.getAcc()), key(mma.getResult()));
    auto lhs = cast<TileType>(mma.getLhs().getType()), rhs = cast<TileType>(mma.getRhs().getType());
    StringRef contracted = rhs.hasAxis(lhs.axis(0)) ? lhs.axis(0) : lhs.axis(1);
    weigh(mma.getLhs(), contracted, 4);
    weigh(mma.getRhs(), contracted, 4);
  }

  bool isTurned(Value value) {
    auto leader = classes.findLeader(key(value));
    if (leader == classes.member_end())
      return false;
    auto [known, isNew] = decided.try_emplace(*leader, false);
    if (isNew) {
      Cost total;
      for (auto member = leader; member != classes.member_end(); ++member) {
        const Cost cost = costs.lookup(*member);
        total.asWritten += cost.asWritten, total.turned += cost.turned, total.pinned |= cost.pinned;
      }
      known->second = !total.pinned && total.turned < total.asWritten;
    }
    return known->second;
  }

  llvm::EquivalenceClasses<Key> classes;
  llvm::DenseMap<Key, Cost> costs;
  llvm::DenseMap<Key, bool> decided;
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

struct PlaceOperands : attune::impl::PlaceOperandsBase<PlaceOperands> {
  using PlaceOperandsBase::PlaceOperandsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      // Warpgroup-level products are scheduled as they stand.
      if (kernel.getPlan().getCopyWarps())
        continue;
      RowChoice(kernel).apply(kernel);
      OperandPlacer().run(kernel);
      kernel.walk([](tile::ConvertOp convert) {
        if (convert->use_empty())
          convert.erase();
      });
    }
  }
};

} // namespace
