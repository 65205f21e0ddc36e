//===- WorkOrderTest.cpp - Each place once, in the order that is documented ---===//

#include "passes/sched/WorkOrder.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace mlir;
using namespace attune;
using sched::LongTiles;

using Place = std::vector<uint32_t>;

namespace {

/// A launch: the extents of axes, the blocks of the grid, and one of these.
struct Launch {
  std::map<std::string, uint32_t> extents;
  uint32_t blocks = 1, block = 0;
};

/// What the arithmetic of a kernel's work gives.
class Arithmetic {
public:
  Arithmetic(ArrayRef<tile::AxisAttr> axes, MLIRContext &context, WorkOrder::Options options)
      : module(ModuleOp::create(UnknownLoc::get(&context))), builder(&context) {
    const Type i32 = builder.getI32Type();
    Block &block = *module->getBody();
    number = block.addArgument(i32, module->getLoc());
    count = block.addArgument(i32, module->getLoc());
    builder.setInsertionPointToStart(&block);
    SmallVector<Attribute> grid(axes.begin(), axes.end());
    WorkOrder order(builder, module->getLoc(), builder.getArrayAttr(grid), options);
    order.prepare();
    total = order.total();
    first = order.first();
    next = order.next(count);
    place = order.place(number);
  }

  uint32_t totalOf(const Launch &launch) const { return evaluate(launch, 0, 0).lookup(total); }
  uint32_t firstOf(const Launch &launch) const { return evaluate(launch, 0, 0).lookup(first); }
  uint32_t nextOf(const Launch &launch, uint32_t before) const { return evaluate(launch, 0, before).lookup(next); }
  Place placeOf(const Launch &launch, uint32_t tile) const {
    const llvm::DenseMap<Value, uint32_t> values = evaluate(launch, tile, 0);
    Place result;
    for (Value along : place)
      result.push_back(values.lookup(along));
    return result;
  }

private:
  llvm::DenseMap<Value, uint32_t> evaluate(const Launch &launch, uint32_t tile, uint32_t before) const {
    llvm::DenseMap<Value, uint32_t> values{{number, tile}, {count, before}};
    for (Operation &op : *module.get().getBody())
      values[op.getResult(0)] = resultOf(&op, launch, values);
    return values;
  }

  static uint32_t resultOf(Operation *op, const Launch &launch, const llvm::DenseMap<Value, uint32_t> &values) {
    auto of = [&](unsigned i) { return values.lookup(op->getOperand(i)); };
    auto by = [&] {
      REQUIRE(of(1) != 0);
      return of(1);
    };
    return TypeSwitch<Operation *, uint32_t>(op)
        .Case([&](arith::ConstantIntOp constant) { return uint32_t(constant.value()); })
        .Case([&](tile::AxisExtentOp axis) { return launch.extents.at(axis.getAxis().str()); })
        .Case([&](sched::BlockIdOp) { return launch.block; })
        .Case([&](sched::GridSizeOp) { return launch.blocks; })
        .Case([&](sched::OpaqueOp) { return of(0); })
        .Case([&](sched::NonnegativeOp) {
          CHECK(int32_t(of(0)) >= 0);
          return of(0);
        })
        .Case([&](arith::AddIOp) { return of(0) + of(1); })
        .Case([&](arith::SubIOp) { return of(0) - of(1); })
        .Case([&](arith::MulIOp) { return of(0) * of(1); })
        .Case([&](arith::DivUIOp) { return of(0) / by(); })
        .Case([&](arith::RemUIOp) { return of(0) % by(); })
        .Case([&](arith::CeilDivUIOp) { return (of(0) + by() - 1) / by(); })
        .Case([&](arith::MinUIOp) { return std::min(of(0), of(1)); })
        .Case([&](arith::MaxUIOp) { return std::max(of(0), of(1)); })
        .Case([&](arith::SelectOp) { return of(0) ? of(1) : of(2); })
        .Case([&](arith::CmpIOp compare) -> uint32_t {
          return arith::applyCmpPredicate(compare.getPredicate(), APInt(32, of(0)), APInt(32, of(1)));
        });
  }

  OwningOpRef<ModuleOp> module;
  OpBuilder builder;
  Value number, count, total, first, next;
  SmallVector<Value> place;
};

/// A grid, with extents that leave ragged tiles.
struct Grid {
  std::vector<std::pair<std::string, int64_t>> axes; ///< name and step
  Launch launch;
};

class WorkOrders {
public:
  WorkOrders() { context.loadDialect<arith::ArithDialect, tile::TileDialect, sched::SchedDialect>(); }

  Arithmetic of(const Grid &grid, WorkOrder::Options options) {
    SmallVector<tile::AxisAttr> axes;
    for (const auto &[name, by] : grid.axes)
      axes.push_back(tile::AxisAttr::get(&context, StringAttr::get(&context, name), 0, by));
    return Arithmetic(axes, context, options);
  }

  MLIRContext context;
};

uint32_t countOf(const Grid &grid, size_t axis) {
  const auto &[name, by] = grid.axes[axis];
  return uint32_t((grid.launch.extents.at(name) + by - 1) / by);
}

uint32_t tilesOf(const Grid &grid) {
  uint32_t tiles = 1;
  for (size_t i = 0; i < grid.axes.size(); ++i)
    tiles *= countOf(grid, i);
  return tiles;
}

std::vector<Grid> grids() {
  return {{{{"b", 1}, {"h", 1}, {"q", 128}}, {{{"b", 2}, {"h", 3}, {"q", 700}}}},
          {{{"b", 1}, {"h", 1}, {"q", 64}}, {{{"b", 1}, {"h", 7}, {"q", 64}}}},
          {{{"b", 1}, {"h", 1}, {"q", 192}}, {{{"b", 3}, {"h", 2}, {"q", 500}}}},
          {{{"b", 1}, {"h", 1}, {"k", 64}}, {{{"b", 2}, {"h", 2}, {"k", 257}}}},
          {{{"b", 1}, {"h", 1}, {"split", 1}, {"q", 16}}, {{{"b", 2}, {"h", 2}, {"split", 3}, {"q", 75}}}},
          {{{"h", 1}, {"q", 128}}, {{{"h", 5}, {"q", 300}}}},
          {{{"b", 2}, {"q", 128}}, {{{"b", 5}, {"q", 300}}}},
          {{{"q", 128}}, {{{"q", 1000}}}}};
}

std::vector<WorkOrder::Options> allOptions() {
  std::vector<WorkOrder::Options> all;
  for (auto deal : {WorkOrder::Assignment::Once, WorkOrder::Assignment::Rounds, WorkOrder::Assignment::Claims})
    for (LongTiles longest : {LongTiles::None, LongTiles::First, LongTiles::Last})
      for (bool across : {false, true})
        if (!across || deal != WorkOrder::Assignment::Claims)
          for (int64_t rows : {0, 64, 1024, 1 << 20})
            all.push_back({deal, longest, across, rows});
  return all;
}

/// The numbers of (head, tile) in turn, of a grid with two axes.
std::vector<std::pair<uint32_t, uint32_t>> pingPong(WorkOrders &orders, const Grid &grid, WorkOrder::Options options) {
  const Arithmetic work = orders.of(grid, options);
  std::vector<std::pair<uint32_t, uint32_t>> places;
  for (uint32_t number = 0; number < tilesOf(grid); ++number) {
    const Place place = work.placeOf(grid.launch, number);
    places.push_back({place[0], place[1] / uint32_t(grid.axes[1].second)});
  }
  return places;
}

} // namespace

TEST_CASE("each number below the total is another place of the grid") {
  WorkOrders orders;
  for (Grid grid : grids())
    for (const WorkOrder::Options &options : allOptions())
      for (uint32_t blocks : {1u, 2u, 5u, 16u, 200u}) {
        grid.launch.blocks = blocks;
        const Arithmetic work = orders.of(grid, options);
        CHECK(work.totalOf(grid.launch) == tilesOf(grid));
        std::set<Place> places;
        for (uint32_t number = 0; number < tilesOf(grid); ++number) {
          const Place place = work.placeOf(grid.launch, number);
          for (size_t i = 0; i < place.size(); ++i) {
            CHECK(place[i] % grid.axes[i].second == 0);
            CHECK(place[i] / grid.axes[i].second < countOf(grid, i));
          }
          places.insert(place);
        }
        CHECK(places.size() == tilesOf(grid));
      }
}

TEST_CASE("each tile is in one round of one block") {
  WorkOrders orders;
  for (Grid grid : grids())
    for (LongTiles longest : {LongTiles::None, LongTiles::First, LongTiles::Last})
      for (uint32_t blocks = 1; blocks <= tilesOf(grid) + 1; ++blocks) {
        grid.launch.blocks = blocks;
        const Arithmetic work = orders.of(grid, {WorkOrder::Assignment::Rounds, longest});
        std::set<uint32_t> numbers;
        for (uint32_t block = 0; block < blocks; ++block) {
          grid.launch.block = block;
          uint32_t number = work.firstOf(grid.launch);
          for (uint32_t count = 0; number < tilesOf(grid); ++count) {
            CHECK(numbers.insert(number).second);
            number = work.nextOf(grid.launch, count);
          }
        }
        INFO(blocks << " blocks, " << (longest == LongTiles::None ? "in order" : "longest first"));
        CHECK(numbers.size() == tilesOf(grid));
      }
}

TEST_CASE("the orders of the header's table") {
  WorkOrders orders;
  using Places = std::vector<std::pair<uint32_t, uint32_t>>;
  const Grid grid{{{"h", 1}, {"q", 128}}, {{{"h", 2}, {"q", 300}}, /*blocks=*/6}};
  using Assignment = WorkOrder::Assignment;
  CHECK(pingPong(orders, grid, {}) == Places{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
  CHECK(pingPong(orders, grid, {Assignment::Once, LongTiles::Last}) ==
        Places{{0, 2}, {0, 1}, {0, 0}, {1, 2}, {1, 1}, {1, 0}});
  CHECK(pingPong(orders, grid, {Assignment::Rounds, LongTiles::Last}) ==
        Places{{0, 2}, {0, 0}, {0, 1}, {1, 2}, {1, 0}, {1, 1}});
  CHECK(pingPong(orders, grid, {Assignment::Claims, LongTiles::Last}) ==
        Places{{0, 2}, {1, 2}, {0, 1}, {1, 1}, {0, 0}, {1, 0}});
  CHECK(pingPong(orders, grid, {Assignment::Once, LongTiles::First}) ==
        Places{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
  CHECK(pingPong(orders, grid, {Assignment::Rounds, LongTiles::First}) ==
        Places{{0, 0}, {0, 2}, {0, 1}, {1, 0}, {1, 2}, {1, 1}});
  CHECK(pingPong(orders, grid, {Assignment::Claims, LongTiles::First}) ==
        Places{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}});
  // Of the first axis' places side by side: single tiles, as pairs would be of two of them, or pairs.
  CHECK(pingPong(orders, grid, {Assignment::Once, LongTiles::None, true}) ==
        Places{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}});
  CHECK(pingPong(orders, grid, {Assignment::Rounds, LongTiles::Last, true}) ==
        Places{{0, 2}, {1, 2}, {0, 0}, {1, 0}, {0, 1}, {1, 1}});
  const Grid even{{{"h", 1}, {"q", 128}}, {{{"h", 2}, {"q", 512}}}};
  CHECK(pingPong(orders, even, {Assignment::Rounds, LongTiles::Last, true}) ==
        Places{{0, 3}, {0, 0}, {1, 3}, {1, 0}, {0, 2}, {0, 1}, {1, 2}, {1, 1}});
}

TEST_CASE("heads whose rows fit together start together, longest first") {
  WorkOrders orders;
  // 5 heads of 8 tiles of 16 rows. Of 300 rows, 256 are two heads: 2, 2 and 1.
  const Grid grid{{{"h", 1}, {"q", 16}}, {{{"h", 5}, {"q", 128}}}};
  const WorkOrder::Options two{.longest = LongTiles::Last, .rowsTogether = 300},
      all{.longest = LongTiles::Last, .rowsTogether = 1 << 20}, unordered{.rowsTogether = 300},
      across{.longest = LongTiles::Last, .acrossFirstAxis = true, .rowsTogether = 300};
  const auto places = pingPong(orders, grid, two);
  CHECK(std::vector(places.begin(), places.begin() + 5) ==
        std::vector<std::pair<uint32_t, uint32_t>>{{0, 7}, {1, 7}, {0, 6}, {1, 6}, {0, 5}});
  CHECK(places[16] == std::pair(2u, 7u));
  CHECK(places[32] == std::pair(4u, 7u));
  CHECK(places[33] == std::pair(4u, 6u));
  CHECK(pingPong(orders, grid, all)[4] == std::pair(4u, 7u));
  // Not in order of rows, nor where tiles of the first axis' places stand side by side already.
  CHECK(pingPong(orders, grid, unordered) == pingPong(orders, grid, {}));
  CHECK(pingPong(orders, grid, across) ==
        pingPong(orders, grid, {.longest = LongTiles::Last, .acrossFirstAxis = true}));
  // Heads of 7 tiles stand alone.
  const Grid few{{{"h", 1}, {"q", 16}}, {{{"h", 5}, {"q", 112}}}};
  CHECK(pingPong(orders, few, all) == pingPong(orders, few, {.longest = LongTiles::Last}));
}

TEST_CASE("what half of level 2 holds follows from the operands that are streamed") {
  MLIRContext context;
  context.loadDialect<tile::TileDialect>();
  auto rows = [&](const char *operands, const char *grid) {
    return rowsInHalfOfLevel2(cast<ArrayAttr>(parseAttribute(operands, &context)),
                              cast<ArrayAttr>(parseAttribute(grid, &context)));
  };
  const char *attention =
      "[#tile.operand<q: in [b, h, q, d 64] bf16>, #tile.operand<k: in [b, hkv, k, d 64] bf16>, "
      "#tile.operand<v: in [b, hkv, k, dv 192] bf16>, #tile.operand<o: out [b, h, q, dv 192] bf16>, "
      "#tile.operand<lse: optional out [b, h, q] f32>]";
  CHECK(rows(attention, "[#tile.axis<b>, #tile.axis<h>, #tile.axis<q by 128>]") == (16 << 20) / 512);
  CHECK(rows(attention, "[#tile.axis<b>, #tile.axis<h>, #tile.axis<k by 64>]") == (16 << 20) / 128);
  CHECK(rows("[]", "[]") == 0);
}

TEST_CASE("three blocks of 128 rows claim tiles of one head at a time") {
  WorkOrders orders;
  // 5 heads in groups of at most 6 * 128 / 384 = 2: 2, 2 and 1.
  const Grid grid{{{"h", 1}, {"q", 128}}, {{{"h", 5}, {"q", 256}}, /*blocks=*/6}};
  using Places = std::vector<std::pair<uint32_t, uint32_t>>;
  CHECK(pingPong(orders, grid, {WorkOrder::Assignment::Claims, LongTiles::None}) ==
        Places{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {3, 0}, {2, 1}, {3, 1}, {4, 0}, {4, 1}});
}

TEST_CASE("pairs of rounds are neighbours, shifted by the golden section") {
  WorkOrders orders;
  Grid grid{{{"h", 1}, {"q", 128}}, {{{"h", 8}, {"q", 1024}}, /*blocks=*/8}};
  const Arithmetic work = orders.of(grid, {WorkOrder::Assignment::Rounds, LongTiles::Last});
  // Block 1: pair 1 of the first 8 pairs; then 1 + 5 of the next.
  grid.launch.block = 1;
  CHECK(work.firstOf(grid.launch) == 2);
  CHECK(work.nextOf(grid.launch, 0) == 3);
  CHECK(work.nextOf(grid.launch, 1) == (8 + 6) * 2);
  CHECK(work.nextOf(grid.launch, 2) == (8 + 6) * 2 + 1);
}
