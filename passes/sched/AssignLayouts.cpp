//===- AssignLayouts.cpp - Assign fragment layouts to register tiles, swizzles to shared tiles ---===//
//
// In the layouts of mma.sync, which wgmma shares (`#sched.fragment`): accumulators are `c` fragments; vectors over q
// and k are laid out along the rows and columns of the accumulators; the left operand of a product is an `a` fragment
// (converted from `c` in registers: both hold the same rows, so no lane exchanges anything); and shared tiles are cut
// into swizzled panels that ldmatrix reads without bank conflicts.
//
// Where the plan has `dv_warps` N, the warps form N groups. The groups split the columns of tiles with an axis dv. Each
// group holds a copy of the whole of every other tile ("twice" below, where N is 2):
//
//     warps 8, dv_warps 2   S, P: q over 4 warps, twice   O: q over 4 warps x dv over 2   m, l: q over 4 warps, twice
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"

#include "llvm/ADT/EquivalenceClasses.h"

namespace attune {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::FragmentAttr;
using sched::FragmentRole;
using tile::MemorySpace;
using tile::TileType;

namespace {

/// Decides for each register vector whether it lies along the rows or the columns of two-dimensional register tiles,
/// from the maps that read the vector and the reductions that compute it. All vectors that a map reads and computes, or
/// that are values of one loop-carried vector, lie the same way.
class VectorRoles {
public:
  explicit VectorRoles(tile::KernelOp kernel) {
    kernel.walk([&](Operation *op) {
      if (auto loop = dyn_cast<tile::ForBlocksOp>(op)) {
        for (auto [result, init, carried, next] :
             llvm::zip(loop.getResults(), loop.getInits(), loop.getCarried(), loop.getYield().getValues()))
          tie({init, carried, next}, result);
      } else if (isa<tile::MapOp, tile::CombineLanesOp>(op)) {
        for (Value operand : op->getOperands())
          tie({operand}, op->getResult(0));
      } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
        if (reduce.getInit())
          tie({reduce.getInit()}, reduce.getResult());
      }
    });
    kernel.walk([&](tile::ReduceOp reduce) { ask(reduce.getResult(), givesRows(reduce)); });
    kernel.walk([&](Operation *op) {
      for (OpOperand &use : op->getOpOperands())
        if (std::optional<bool> rows = wanted(use))
          ask(use.get(), *rows);
    });
  }

  static bool isPlain(TileType type) {
    auto layout = dyn_cast_or_null<FragmentAttr>(type.getLayout());
    return !layout || layout.getRole() == FragmentRole::Rows || layout.getRole() == FragmentRole::Columns;
  }

  /// Whether a value is a vector in registers without a layout, or with a layout along rows or columns.
  static bool isVector(Value value) {
    auto type = dyn_cast<TileType>(value.getType());
    return type && type.rank() == 1 && type.getSpace() == MemorySpace::Register && isPlain(type);
  }

  static bool isUnassignedOr(TileType type, FragmentAttr layout) {
    return !isPlain(type) || type.getLayout() == layout;
  }

  /// Whether a map over two axes, or a scatter of a tile, reads the vector along the tile's rows (true) or along its
  /// columns (false). Returns nullopt for any other use.
  static std::optional<bool> wanted(OpOperand &use) {
    TileType tile;
    if (auto map = dyn_cast<tile::MapOp>(use.getOwner()))
      tile = map.getResult().getType();
    else if (auto scatter = dyn_cast<tile::ScatterOp>(use.getOwner()))
      tile = scatter.getTile().getType();
    if (!tile || !isVector(use.get()) || tile.rank() != 2)
      return std::nullopt;
    return cast<TileType>(use.get().getType()).axis(0) == tile.axis(0);
  }

  static bool givesRows(tile::ReduceOp reduce) { return reduce.getTile().getType().axis(0) != reduce.getAxis(); }

  /// Whether the vector lies along rows. The first use that the constructor registered decides. A vector that no use
  /// combines with a two-axis tile lies along rows if its size is a multiple of 16, the rows of a fragment.
  bool isRows(Value value) {
    auto leader = classes.findLeader(key(value));
    if (leader != classes.member_end())
      if (auto found = roles.find(*leader); found != roles.end())
        return found->second;
    return cast<TileType>(value.getType()).getShape()[0] % 16 == 0;
  }

private:
  using Key = void *;
  static Key key(Value value) { return value.getAsOpaquePointer(); }

  void tie(std::initializer_list<Value> values, Value with) {
    for (Value value : values)
      if (isVector(value) && isVector(with))
        classes.unionSets(key(value), key(with));
  }

  void ask(Value value, bool rows) {
    if (!isVector(value))
      return;
    classes.insert(key(value));
    roles.try_emplace(*classes.findLeader(key(value)), rows);
  }

  llvm::EquivalenceClasses<Key> classes;
  llvm::DenseMap<Key, bool> roles; ///< leader of a class of tied vectors -> whether the vectors lie along rows
};

struct AssignLayouts : attune::impl::AssignLayoutsBase<AssignLayouts> {
  using AssignLayoutsBase::AssignLayoutsBase;

  FragmentAttr fragment(FragmentRole role, int64_t columnWarps = 1) {
    return FragmentAttr::get(&getContext(), role, warps, columnWarps);
  }

  FragmentAttr rowFragment(FragmentRole role, int64_t rows, int64_t columnWarps = 1) {
    return FragmentAttr::get(&getContext(), role, plan.getWarpsOfRows(rows), columnWarps);
  }

  /// How many warps split the last axis of `type`. Where a tile has fewer rows than all warpgroups together compute (64
  /// each), the warpgroups split the tile's columns.
  int64_t columnWarpsOf(TileType type) {
    const bool isFlat = producerWarps && type.rank() == 2 && type.getSpace() == MemorySpace::Register &&
                        type.getShape()[0] < 16 * warps && 16 * warps % type.getShape()[0] == 0;
    return isFlat ? 16 * warps / type.getShape()[0] : type.axis(type.rank() - 1) == "dv" ? dvWarps : 1;
  }

  /// The swizzle with the widest panel that divides the part of a row that one warp reads, so that each warp's columns
  /// start at a panel. Where TMA copies tiles, the panel has the width that TMA copies fastest.
  Attribute swizzle(TileType type) {
    int64_t shareBytes =
        type.getShape().back() / columnWarpsOf(type) * type.getElementType().getIntOrFloatBitWidth() / 8;
    return producerWarps ? sched::SwizzleAttr::forBoxes(&getContext(), shareBytes)
                         : sched::SwizzleAttr::widest(&getContext(), shareBytes);
  }

  /// The layout of a tile or vector. A vector in shared memory has no layout attribute: its values are contiguous, and
  /// each thread writes one of them.
  Attribute layoutFor(Value value) {
    auto type = cast<TileType>(value.getType());
    if (type.getSpace() == MemorySpace::Shared)
      return type.rank() == 1 ? Attribute() : swizzle(type);
    if (tile::isByPart(type))
      return FragmentAttr::get(&getContext(), FragmentRole::Distances, type.getShape()[0]);
    return rowFragment(FragmentRole::C, type.getShape()[0], columnWarpsOf(type));
  }

  /// Emits an error unless a sum along diagonals has one part for each warp, over the rows that the warp holds.
  static bool areOfWarps(tile::SumDiagonalsOp sum) {
    auto layout = dyn_cast<FragmentAttr>(sum.getTile().getType().getLayout());
    const int64_t parts = sum.getType().getShape()[0];
    if (layout && layout.getRole() == FragmentRole::C && layout.getWarps() == parts && layout.getColumnWarps() == 1)
      return true;
    sum.emitError() << "sums " << parts << " parts of the rows of " << sum.getTile().getType()
                    << "; a part has to be what a warp holds of whole rows";
    return false;
  }

  /// Emits an error if the sizes of a tile are not multiples of a fragment's size or, in shared memory, of a panel's.
  static bool isMadeOfFragments(Value value) {
    auto type = dyn_cast<TileType>(value.getType());
    if (!type || type.rank() > 2)
      return true;
    auto refuse = [&](unsigned axis, int64_t unit, StringRef why) {
      value.getDefiningOp()->emitError() << "has " << type.getShape()[axis] << " of " << type.axis(axis) << ", " << why
                                         << "; make it a multiple of " << unit;
      return false;
    };
    auto layout = dyn_cast_or_null<FragmentAttr>(type.getLayout());
    const unsigned last = type.rank() - 1;
    if (!layout) {
      // The number of elements in 32 bytes, the width of the narrowest panel.
      const int64_t columns = 256 / type.getElementType().getIntOrFloatBitWidth();
      return type.rank() == 1 || type.getShape()[last] % columns == 0 ||
             refuse(last, columns, "which lies along the rows of shared memory, in panels of 32 bytes");
    }
    const FragmentRole role = layout.getRole();
    if ((role == FragmentRole::C || role == FragmentRole::A || role == FragmentRole::Rows) && type.getShape()[0] % 16)
      return refuse(0, 16, "which matrix instructions take as rows, 16 at a time");
    if ((role == FragmentRole::C || role == FragmentRole::Columns) && type.getShape()[last] % 8)
      return refuse(last, 8, "which matrix instructions take as columns, 8 at a time");
    return true;
  }

  /// Emits an error if an op other than a map or scatter takes a tile of sums along diagonals: only these ops read such
  /// a tile element by element.
  static bool isTaken(Operation *op) {
    for (Value value : llvm::concat<Value>(op->getOperands(), op->getResults())) {
      auto type = dyn_cast<TileType>(value.getType());
      if (!type || !tile::isByPart(type) ||
          isa<tile::SumDiagonalsOp, tile::MapOp, tile::SplatOp, tile::ScatterOp, tile::YieldOp>(op))
        continue;
      op->emitError() << "has " << type << " in registers; distances of parts are taken by tile.map and tile.scatter";
      return false;
    }
    return true;
  }

  FragmentAttr vectorLayout(TileType type, bool isRows) {
    return isRows ? rowFragment(FragmentRole::Rows, type.getShape()[0])
                  : fragment(FragmentRole::Columns, columnWarpsOf(type));
  }

  /// Whether all readers of a shared tile are ops that add the tile to global memory. Such a tile has no swizzle: its
  /// rows are contiguous, as TMA's bulk reduction reads them.
  static bool isAddedAlone(Value value) {
    return value.getDefiningOp<tile::ConvertOp>() &&
           cast<TileType>(value.getType()).getSpace() == MemorySpace::Shared && !value.use_empty() &&
           llvm::all_of(value.getUsers(), [](Operation *user) { return isa<tile::AccumulateOp>(user); });
  }

  void assign(Value value) {
    if (auto type = dyn_cast<TileType>(value.getType()); type && !type.getLayout() && !isAddedAlone(value))
      value.setType(type.withLayout(layoutFor(value)));
  }

  /// Gives register vectors a layout along the rows or the columns of the tiles that they are combined with.
  void assignVectors(tile::KernelOp kernel) {
    VectorRoles roles(kernel);
    auto assignVector = [&](Value value) {
      if (VectorRoles::isVector(value))
        value.setType(cast<TileType>(value.getType())
                          .withLayout(vectorLayout(cast<TileType>(value.getType()), roles.isRows(value))));
    };
    kernel.walk([&](Block *block) { llvm::for_each(block->getArguments(), assignVector); });
    kernel.walk([&](Operation *op) { llvm::for_each(op->getResults(), assignVector); });
    // A vector may be combined with some tiles along rows and with others along columns. It is converted for each use
    // that needs another layout than the vector has.
    kernel.walk([&](Operation *op) {
      for (OpOperand &use : op->getOpOperands())
        if (std::optional<bool> rows = VectorRoles::wanted(use))
          exchange(use, vectorLayout(cast<TileType>(use.get().getType()), *rows));
    });
    kernel.walk([&](tile::ReduceOp reduce) {
      TileType type = reduce.getResult().getType();
      FragmentAttr layout = vectorLayout(type, VectorRoles::givesRows(reduce));
      if (!VectorRoles::isUnassignedOr(type, layout))
        exchangeResult(reduce, layout);
    });
  }

  void exchange(OpOperand &use, FragmentAttr layout) {
    auto type = cast<TileType>(use.get().getType());
    if (type.getLayout() == layout || !VectorRoles::isPlain(type))
      return;
    OpBuilder builder(use.getOwner());
    auto convert = tile::ConvertOp::create(builder, use.getOwner()->getLoc(), type.withLayout(layout), use.get());
    use.set(tile::named(convert.getResult(), tile::nameOf(use.get())));
  }

  /// Gives the result of `reduce` the layout that the layout of the reduced tile implies. Readers that need another
  /// layout get a conversion of the result.
  void exchangeResult(tile::ReduceOp reduce, FragmentAttr layout) {
    TileType wanted = reduce.getResult().getType();
    reduce.getResult().setType(wanted.withLayout(layout));
    OpBuilder builder(reduce);
    builder.setInsertionPointAfter(reduce);
    auto convert = tile::ConvertOp::create(builder, reduce.getLoc(), wanted, reduce.getResult());
    reduce.getResult().replaceAllUsesExcept(convert, convert);
    tile::named(convert.getResult(), tile::nameOf(reduce.getResult()));
    if (reduce.getInit())
      exchange(reduce.getInitMutable()[0], layout);
  }

  /// Assigns the layouts of maps that each lane computes for other lanes: maps that producer warps store to shared
  /// memory, and conditional vectors that the lanes of a warp load for one another.
  void assignLanes(tile::MapOp map) {
    TileType type = map.getResult().getType();
    const bool stored =
        producerWarps && !map.getResult().use_empty() && llvm::all_of(map.getResult().getUsers(), [](Operation *user) {
          auto convert = dyn_cast<tile::ConvertOp>(user);
          return convert && tile::isStaged(convert);
        });
    if (stored) {
      sched::RingAttr ring = sched::ringOf(*map.getResult().user_begin());
      map.getResult().setType(
          type.withLayout(FragmentAttr::get(&getContext(), FragmentRole::Threads, ring ? ring.getWarps() : 1)));
    } else if (type.rank() == 1 && map.getOnlyIf() && map.getInputs().empty() &&
               llvm::none_of(map.getResult().getUses(),
                             [](OpOperand &use) { return VectorRoles::wanted(use) == true; }))
      map.getResult().setType(type.withLayout(fragment(FragmentRole::Lanes)));
  }

  /// Converts a vector in shared memory to registers before the first map that reads the vector along the map's rows,
  /// so that a lane reads a value of the vector once per row, not once per element.
  static void holdRows(tile::KernelOp kernel) {
    SmallVector<OpOperand *> uses;
    kernel.walk([&](tile::MapOp map) {
      TileType tile = map.getResult().getType();
      for (OpOperand &use : map->getOpOperands())
        if (auto type = dyn_cast<TileType>(use.get().getType());
            type && type.getSpace() == MemorySpace::Shared && type.rank() == 1 && tile.rank() == 2 &&
            type.axis(0) == tile.axis(0) && type.getElementType().getIntOrFloatBitWidth() == 32)
          uses.push_back(&use);
    });
    llvm::DenseMap<std::pair<Value, Block *>, Value> held;
    for (OpOperand *use : uses) {
      Value vector = use->get();
      Operation *reader = use->getOwner();
      Value &rows = held[{vector, reader->getBlock()}];
      if (!rows) {
        OpBuilder builder(reader);
        TileType type = cast<TileType>(vector.getType()).withSpace(MemorySpace::Register);
        rows = tile::ConvertOp::create(builder, reader->getLoc(), type, vector);
        tile::named(rows, tile::nameOf(vector));
      }
      use->set(rows);
    }
  }

  /// Makes the left operand of `mma` an `a` fragment if it is in registers: P always, Q if the tile IR converts Q to
  /// registers.
  void assignLeftOperand(tile::MmaOp mma) {
    Value lhs = mma.getLhs();
    auto type = cast<TileType>(lhs.getType());
    // If the operand is in shared memory, its second axis may be the row axis of the product.
    const int rows = type.findAxis(mma.getResult().getType().axis(0)) == 0 ? 0 : 1, along = 1 - rows;
    auto wanted = TileType::get(&getContext(), {type.getAxes()[rows], type.getAxes()[along]},
                                {type.getShape()[rows], type.getShape()[along]}, type.getElementType(),
                                MemorySpace::Register, rowFragment(FragmentRole::A, type.getShape()[rows]));
    if (type.getSpace() == MemorySpace::Shared)
      return;
    if (auto convert = lhs.getDefiningOp<tile::ConvertOp>(); convert && lhs.hasOneUse()) {
      lhs.setType(wanted);
      return;
    }
    OpBuilder builder(mma);
    auto convert = tile::ConvertOp::create(builder, mma.getLoc(), wanted, lhs);
    tile::named(convert.getResult(), (tile::nameOf(lhs) + "_fragment").str());
    mma.getLhsMutable().assign(convert);
  }

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      plan = kernel.getPlan();
      warps = plan.getRowWarps();
      dvWarps = kernel.getPlan().getDvWarps();
      producerWarps = sched::producerWarps(kernel);
      SmallVector<tile::MmaOp> products;
      kernel.walk([&](tile::MmaOp mma) { products.push_back(mma); });
      for (tile::MmaOp mma : products)
        assignLeftOperand(mma);
      kernel.walk([&](tile::MapOp map) { assignLanes(map); });
      holdRows(kernel);
      assignVectors(kernel);
      kernel.walk([&](Block *block) { llvm::for_each(block->getArguments(), [&](Value v) { assign(v); }); });
      kernel.walk([&](Operation *op) { llvm::for_each(op->getResults(), [&](Value v) { assign(v); }); });
      WalkResult whole = kernel.walk([&](Operation *op) {
        auto sum = dyn_cast<tile::SumDiagonalsOp>(op);
        const bool good = isTaken(op) && llvm::all_of(op->getResults(), isMadeOfFragments) && (!sum || areOfWarps(sum));
        return good ? WalkResult::advance() : WalkResult::interrupt();
      });
      if (whole.wasInterrupted())
        return signalPassFailure();
    }
  }

  tile::PlanAttr plan;
  int64_t warps = 0, dvWarps = 1, producerWarps = 0;
};

} // namespace
