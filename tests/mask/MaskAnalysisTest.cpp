//===- MaskAnalysisTest.cpp - The mask analysis against every element ---------===//

#include "passes/analysis/mask/MaskAnalysis.h"
#include "ir/attn/Attn.h"
#include "ir/attn/FromVariant.h"
#include "ir/tile/Tile.h"
#include "tests/Sample.h"
#include "tests/attn/RegionInterpreter.h"

#include "attune/Builtins.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

using namespace attune;
using attune::testing::RegionInterpreter;
using attune::testing::Scalar;

namespace {

/// The launch that a mask is tested with.
struct Sizes {
  int64_t Sq = 1, Sk = 1, qOffset = 0, tileQ = 16, tileK = 16;
  int64_t b = 0, h = 0, B = 2, H = 3;
  std::map<std::string, int64_t> scalars;
  /// Captured tensors of integers or bool: element at clamped flat index of the last index, first index times 8.
  std::map<std::string, std::vector<int64_t>> tensors;
};

std::ostream &operator<<(std::ostream &out, const Sizes &s) {
  out << "Sq " << s.Sq << " Sk " << s.Sk << " qOffset " << s.qOffset << " tile " << s.tileQ << " x " << s.tileK << " b "
      << s.b << " h " << s.h;
  for (auto &[name, value] : s.scalars)
    out << " " << name << " " << value;
  return out;
}

Scalar load(const Sizes &sizes, const std::string &name, llvm::ArrayRef<Scalar> indices) {
  const std::vector<int64_t> &values = sizes.tensors.at(name);
  return Scalar::of(values[std::clamp<int64_t>(indices.back().integer, 0, int64_t(values.size()) - 1)]);
}

/// The number of elements of a captured vector that are < x, or <= x if `right`, by bisection.
Scalar search(const Sizes &sizes, const std::string &name, int64_t x, bool right) {
  const std::vector<int64_t> &values = sizes.tensors.at(name);
  const auto end =
      right ? std::upper_bound(values.begin(), values.end(), x) : std::lower_bound(values.begin(), values.end(), x);
  return Scalar::of(int64_t(end - values.begin()));
}

constexpr int64_t notANumber = INT64_MIN;

/// A run-time scalar; floats in thousandths, or not a number.
Scalar scalarOf(const Sizes &sizes, llvm::StringRef name, mlir::Type type) {
  const int64_t value = sizes.scalars.at(name.str());
  if (value == notANumber && mlir::isa<mlir::FloatType>(type))
    return Scalar::of(std::numeric_limits<float>::quiet_NaN());
  return mlir::isa<mlir::FloatType>(type) ? Scalar::of(float(value) / 1000) : Scalar::of(value);
}

/// Of a mask's region, with the captured tensors and scalars of `load` and `sizes`.
RegionInterpreter regionInterpreter(const Sizes &sizes) {
  return RegionInterpreter([&sizes](mlir::Operation *inner, llvm::ArrayRef<Scalar> x) -> Scalar {
    if (auto extent = mlir::dyn_cast<attn::ExtentOp>(inner)) {
      llvm::StringRef name = extent.getName();
      return Scalar::of(name == "B" ? sizes.B : name == "H" ? sizes.H : name == "Sq" ? sizes.Sq : sizes.Sk);
    }
    if (auto scalar = mlir::dyn_cast<attn::ScalarOp>(inner))
      return scalarOf(sizes, scalar.getName(), scalar.getType());
    if (auto searched = mlir::dyn_cast<attn::SearchOp>(inner))
      return search(sizes, searched.getName().str(), x[0].integer, searched.getRight());
    return load(sizes, mlir::cast<attn::LoadOp>(inner).getName().str(), x);
  });
}

std::string nameOf(MaskAxis fixed) { return fixed == MaskAxis::Keys ? "keys" : "queries"; }

/// What the analysis emits for a tile of one axis: the domain, its hull, and the cuts. A tile is full where what the
/// domain counts holds for all of it, and no cut goes through it.
class Loop {
public:
  Loop(attn::AttentionOp op, int64_t tileQ, int64_t tileK, MaskAxis fixed, FullBy fullBy)
      : fixed(fixed), fullBy(fullBy) {
    mlir::OpBuilder builder(op.getContext());
    bool keysFixed = fixed == MaskAxis::Keys;
    auto begin = [&](mlir::Block &block) {
      for (int i = 0; i < 10; ++i)
        block.addArgument(builder.getI32Type(), builder.getUnknownLoc());
      builder.setInsertionPointToStart(&block);
      auto x = block.getArguments();
      mlir::Value none;
      return BlockValues{x[0],  x[1],  keysFixed ? none : x[2], op.getQOffset() ? x[3] : none, x[4], x[5], x[6], x[7],
                         tileQ, tileK, /*part=*/false,          keysFixed ? x[2] : none};
    };
    // A hull is of rows that follow from an op.
    BlockValues part = begin(hullBlock);
    part.part = true;
    part.mayFollow = true;
    (keysFixed ? part.k0 : part.q0) =
        mlir::arith::MaxSIOp::create(builder, builder.getUnknownLoc(), part.first(), part.first());
    hull = emitHull(builder, op, part);
    ofPart = splitMask(builder, op, part, boundsOfPart);
    BlockValues values = begin(block);
    domain = buildDomain(builder, op, values, bounds, fullBy).getDefiningOp<tile::DomainOp>();
    if (fullBy == FullBy::Rest) {
      MaskSplit split = splitMask(builder, op, values, bounds);
      cuts = split.cuts;
      unions = split.unions;
      isCuts = split.rest.empty();
    }
    ops = llvm::count_if(block,
                         [](mlir::Operation &op) { return !mlir::isa<mlir::arith::ConstantOp, tile::DomainOp>(op); });
    for (const MaskCut &cut : cuts)
      rowSees.push_back(
          emitCut(builder, op, values.atRow(values.first()), cut, block.getArgument(8), block.getArgument(9)));
    for (const Conjunct &conjunct : unions)
      rowSees.push_back(
          emitUnion(builder, op, values.atRow(values.first()), conjunct, block.getArgument(8), block.getArgument(9)));
    // tile.param wants its kernel, which this block stands for.
    for (mlir::Block *each : {&block, &hullBlock})
      for (mlir::Operation &inner : *each)
        if (!mlir::isa<tile::ParamOp>(inner))
          REQUIRE(mlir::succeeded(mlir::verify(&inner)));
  }
  ~Loop() {
    for (mlir::Block *each : {&block, &hullBlock}) {
      each->dropAllReferences();
      each->clear();
    }
  }

  struct Segment {
    int64_t begin, end;
    bool full;
  };

  /// Forgets the tables' entries, which follow from the launch.
  void beginLaunch() { entries.clear(); }

  /// Calls `tell` for each tile of the segments.
  std::vector<Segment> segments(const Sizes &sizes, int64_t first,
                                const std::function<void(int64_t tile, bool visited, bool full)> &tell) {
    RegionInterpreter interpreter = run(block, sizes, first);
    std::vector<Segment> result;
    for (auto [begin, end, full] : llvm::zip_equal(domain.getBegins(), domain.getEnds(), domain.getFull()))
      result.push_back({interpreter.get(begin).integer, interpreter.get(end).integer, full});
    int64_t step = domain.getStep();
    for (Segment segment : result)
      for (int64_t t = segment.begin; t < segment.end; ++t) {
        bool visited = true, full = segment.full;
        if (!domain.getWhere().empty()) {
          interpreter.set(domain.getWhere().getArgument(0), Scalar::of(t));
          for (mlir::Operation &inner : domain.getWhere().front().without_terminator())
            interpreter.run(inner);
          visited = mayHoldVisible(interpreter, t) && interpreter.get(domain.getVisible()).integer;
          full &= interpreter.get(domain.getFullWhere()).integer != 0;
        }
        for (const MaskCut &cut : cuts) {
          full &= !cut.fullBegin || t * step >= interpreter.get(cut.fullBegin).integer;
          full &= !cut.fullEnd || (t + 1) * step <= interpreter.get(cut.fullEnd).integer;
        }
        tell(t, visited, full);
      }
    return result;
  }

  /// What the group of a tile is asked.
  bool mayHoldVisible(RegionInterpreter &interpreter, int64_t tile) {
    if (domain.getGroups().empty())
      return true;
    interpreter.set(domain.getGroups().getArgument(0), Scalar::of(tile / tile::DomainOp::groupTiles));
    for (mlir::Operation &inner : domain.getGroups().front().without_terminator())
      interpreter.run(inner);
    const bool may = interpreter.get(domain.getAnyVisible()).integer;
    groupsLeftOut += !may;
    return may;
  }

  /// The tiles of emitHull; nothing where the rows have no end of their own.
  std::optional<std::pair<int64_t, int64_t>> hullOf(const Sizes &sizes, int64_t first) {
    if (hull.empty())
      return std::nullopt;
    RegionInterpreter interpreter = run(hullBlock, sizes, first);
    return std::pair(interpreter.get(hull[0]).integer, interpreter.get(hull[1]).integer);
  }

  /// Of each tile, whether it is full by what the rows of a part know without tables, and by their cuts.
  std::vector<bool> fullOfPart(const Sizes &sizes, int64_t first, int64_t tiles) {
    std::vector<bool> result(static_cast<size_t>(tiles));
    if (!boundsOfPart.empty() || ofPart.full.empty())
      return result;
    RegionInterpreter interpreter = run(hullBlock, sizes, first);
    const int64_t step = domain.getStep();
    for (int64_t t = 0; t < tiles; ++t) {
      bool full = llvm::any_of(ofPart.full, [&](const auto &positions) {
        return t * step >= interpreter.get(positions.first).integer &&
               t * step < interpreter.get(positions.second).integer;
      });
      for (const MaskCut &cut : ofPart.cuts) {
        full &= !cut.fullBegin || t * step >= interpreter.get(cut.fullBegin).integer;
        full &= !cut.fullEnd || (t + 1) * step <= interpreter.get(cut.fullEnd).integer;
      }
      result[size_t(t)] = full;
    }
    return result;
  }

  /// Whether all cuts show the row an element of the looped axis.
  bool seesByCuts(const Sizes &sizes, int64_t row, int64_t index) {
    int64_t column = index % int64_t(domain.getStep());
    RegionInterpreter interpreter = run(block, sizes, row, index - column, column);
    return llvm::all_of(rowSees, [&](mlir::Value sees) { return interpreter.get(sees).integer != 0; });
  }

  const MaskAxis fixed;
  const FullBy fullBy;
  bool isCuts = false;       ///< cuts and unions are the whole mask
  int64_t ops = 0;           ///< of the domain and of the cuts' ends
  int64_t groupsLeftOut = 0; ///< how often a tile's group cannot hold what is visible
  mlir::Region holder;
  mlir::Block &block = holder.emplaceBlock(), &hullBlock = holder.emplaceBlock();
  tile::DomainOp domain;
  llvm::SmallVector<MaskCut> cuts;
  llvm::SmallVector<Conjunct> unions;
  MaskSplit ofPart;
  llvm::SmallVector<mlir::Value> rowSees, hull;
  llvm::SmallVector<BoundsTable> bounds, boundsOfPart;

private:
  RegionInterpreter run(mlir::Block &block, const Sizes &sizes, int64_t first, int64_t origin = 0, int64_t column = 0) {
    RegionInterpreter interpreter([this, &sizes](mlir::Operation *inner, llvm::ArrayRef<Scalar> x) -> Scalar {
      if (auto element = mlir::dyn_cast<tile::ElementOp>(inner)) {
        auto parameter = element.getView().getDefiningOp<tile::ParamOp>();
        for (const auto *tables : {&bounds, &boundsOfPart})
          for (const BoundsTable &table : *tables)
            if (table.name == parameter.getName()) {
              const size_t before = 2 + table.byBatch + table.byHead;
              return bound(sizes, table, x[1].integer, x.drop_front(before),
                           element.getInRange().drop_front(before - 1));
            }
        return load(sizes, parameter.getOwnName().str(), x.drop_front());
      }
      if (auto searched = mlir::dyn_cast<tile::SearchOp>(inner))
        return search(sizes, searched.getView().getDefiningOp<tile::ParamOp>().getOwnName().str(), x[1].integer,
                      searched.getRight());
      if (auto parameter = mlir::dyn_cast<tile::ParamOp>(inner);
          parameter && inner->getResult(0).getType().isIntOrFloat())
        return scalarOf(sizes, parameter.getOwnName(), inner->getResult(0).getType());
      return {};
    });
    for (auto [argument, value] :
         llvm::zip_equal(block.getArguments(), std::array<int64_t, 10>{sizes.b, sizes.h, first, sizes.qOffset, sizes.B,
                                                                       sizes.H, sizes.Sq, sizes.Sk, origin, column}))
      interpreter.set(argument, Scalar::of(value));
    for (mlir::Operation &inner : block)
      if (&inner != domain.getOperation())
        interpreter.run(inner);
    return interpreter;
  }

  /// The least (end 0) or the greatest (end 1) that the table's value has in a tile of queries, of keys or of both. A
  /// tile that is not known to be `inRange` may lie behind the last and reads it.
  Scalar bound(const Sizes &sizes, const BoundsTable &table, int64_t end, llvm::ArrayRef<Scalar> tiles,
               llvm::ArrayRef<bool> inRange) {
    REQUIRE(tiles.size() == size_t(table.queries > 0) + size_t(table.keys > 0));
    REQUIRE(inRange.size() == tiles.size());
    auto span = [](int64_t tile, int64_t size, int64_t count, bool inRange) {
      if (!inRange)
        tile = std::min(tile, (count - 1) / size);
      REQUIRE(size * tile < count);
      return std::pair(size * tile, std::min(size * (tile + 1), count));
    };
    std::pair<int64_t, int64_t> q = {0, 1}, k = {0, 1};
    if (table.queries) {
      REQUIRE(table.queries == sizes.tileQ * (table.keys ? 1 : table.tiles));
      q = span(tiles.front().integer, table.queries, sizes.Sq, inRange.front());
    }
    if (table.keys) {
      REQUIRE(table.keys == sizes.tileK * (table.queries ? 1 : table.tiles));
      k = span(tiles.back().integer, table.keys, sizes.Sk, inRange.back());
    }
    const auto [known, isNew] = entries.try_emplace(std::tuple(table.name, end, q, k));
    if (isNew)
      known->second = computedBound(sizes, table.value, end, q, k);
    return known->second;
  }

  using Range = std::pair<int64_t, int64_t>;
  static Scalar computedBound(const Sizes &sizes, mlir::Value tabled, int64_t end, Range q, Range k) {
    std::optional<Scalar> result;
    RegionInterpreter interpreter = regionInterpreter(sizes);
    mlir::Block &region = *tabled.getParentBlock();
    interpreter.set(region.getArgument(0), Scalar::of(sizes.b));
    interpreter.set(region.getArgument(1), Scalar::of(sizes.h));
    for (int64_t row = q.first; row < q.second; ++row)
      for (int64_t column = k.first; column < k.second; ++column) {
        interpreter.set(region.getArgument(2), Scalar::of(row + sizes.qOffset));
        interpreter.set(region.getArgument(3), Scalar::of(column));
        interpreter.run(region);
        Scalar value = interpreter.get(tabled);
        if (std::isnan(value.real))
          value.real = end ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
        auto order = [](const Scalar &x) { return std::pair(x.integer, x.real); };
        if (!result || (end ? order(value) > order(*result) : order(value) < order(*result)))
          result = value;
        if (tabled.getType().isInteger(1) && value.integer == end)
          return value;
      }
    return *result;
  }

  std::map<std::tuple<std::string, int64_t, Range, Range>, Scalar> entries; ///< of tables, for the current launch
};

/// One mask as attn, and what is emitted for it in either direction.
class Case {
public:
  Case(mlir::MLIRContext &context, const Variant &variant, int64_t tileQ, int64_t tileK, bool canonical) {
    context.loadDialect<tile::TileDialect>();
    auto built = buildAttention(context, variant, bf16, 64, 64);
    if (!built)
      FAIL(built.error().text());
    module = std::move(*built);
    if (canonical) {
      mlir::PassManager manager(&context);
      manager.addPass(mlir::createCanonicalizerPass());
      manager.addPass(mlir::createCSEPass());
      REQUIRE(mlir::succeeded(manager.run(*module)));
    }
    op = *module->getOps<attn::AttentionOp>().begin();
    for (MaskAxis fixed : {MaskAxis::Queries, MaskAxis::Keys})
      for (FullBy fullBy : {FullBy::Rest, FullBy::Mask})
        loops.push_back(std::make_unique<Loop>(op, tileQ, tileK, fixed, fullBy));
  }

  Loop &overKeys() { return *loops[0]; }
  Loop &overQueries() { return *loops[2]; }

  /// Row-major Sq x Sk.
  std::vector<bool> visible(const Sizes &sizes) {
    std::vector<bool> result(sizes.Sq * sizes.Sk, true);
    if (op.getMask().empty())
      return result;
    RegionInterpreter interpreter = regionInterpreter(sizes);
    mlir::Block &body = op.getMask().front();
    interpreter.set(body.getArgument(0), Scalar::of(sizes.b));
    interpreter.set(body.getArgument(1), Scalar::of(sizes.h));
    for (int64_t q = 0; q < sizes.Sq; ++q)
      for (int64_t k = 0; k < sizes.Sk; ++k) {
        interpreter.set(body.getArgument(2), Scalar::of(q + sizes.qOffset));
        interpreter.set(body.getArgument(3), Scalar::of(k));
        result[q * sizes.Sk + k] = interpreter.run(body).integer != 0;
      }
    return result;
  }

  /// Of b and h a numeric evaluation knows nothing.
  bool dependsOnHeads() {
    bool result = false;
    op.getMask().walk([&](mlir::Operation *inner) {
      if (auto extent = mlir::dyn_cast<attn::ExtentOp>(inner))
        result |= extent.getName() == "B" || extent.getName() == "H";
    });
    if (!op.getMask().empty())
      result |= !op.getMask().getArgument(0).use_empty() || !op.getMask().getArgument(1).use_empty();
    return result;
  }

  attn::AttentionOp op;
  std::vector<std::unique_ptr<Loop>> loops;

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Whether no tile is visited or partial without need: never, over keys only, or over either axis.
enum class Tight { No, OverKeys, Yes };

/// How much of a mask the analysis found, over everything checked, by the fixed axis.
struct Found {
  int64_t visited[2] = {}, full[2] = {}, tiles[2] = {}, visible[2] = {}, allVisible[2] = {};
  int64_t byGroup[2] = {};    ///< tiles that are left out because of their group
  int64_t fullOfPart[2] = {}; ///< tiles that a part's rows know to be full
};

/// 0 skipped, 1 partial, 2 full.
std::vector<int> kindsByNumbers(attn::AttentionOp op, const MaskSizes &sizes, int64_t first, MaskAxis fixed,
                                int64_t tiles) {
  std::vector<int> kinds(tiles);
  for (const TileSegments &part : evaluateDomain(op, sizes, first, looseConjuncts(op, fixed), fixed))
    for (int64_t t = part.begin; t < part.end; ++t)
      kinds[t] = t >= part.fullBegin && t < part.fullEnd ? 2 : 1;
  return kinds;
}

/// The tiles of the looped axis for one tile of the fixed one, against every element.
void checkTiles(Case &mask, Loop &loop, const Sizes &sizes, int64_t first, const std::vector<bool> &visible,
                Tight tight, Found &found) {
  bool keysFixed = loop.fixed == MaskAxis::Keys;
  int64_t count = keysFixed ? sizes.Sq : sizes.Sk, step = keysFixed ? sizes.tileQ : sizes.tileK;
  int64_t rows = keysFixed ? sizes.Sk : sizes.Sq, rowStep = keysFixed ? sizes.tileK : sizes.tileQ;
  int64_t tiles = (count + step - 1) / step, last = 0;
  bool isTight = tight == Tight::Yes || (tight == Tight::OverKeys && !keysFixed);
  std::vector<int> kind(tiles, 0); // 0 skipped, 1 partial, 2 full
  auto tell = [&](int64_t t, bool visited, bool full) {
    REQUIRE(t >= 0);
    REQUIRE(t < tiles);
    kind[t] = !visited ? 0 : full ? 2 : 1;
  };
  for (auto [begin, end, full] : loop.segments(sizes, first, tell)) {
    if (begin >= end)
      continue;
    REQUIRE(begin >= last);
    REQUIRE(end <= tiles);
    last = end;
  }
  auto hull = loop.hullOf(sizes, first);
  const std::vector<bool> fullOfPart = loop.fullOfPart(sizes, first, tiles);
  // Without launch values, the numeric evaluation gives the same.
  std::vector<int> numbers;
  if (sizes.scalars.empty() && sizes.tensors.empty() && !mask.dependsOnHeads())
    numbers = kindsByNumbers(mask.op, {sizes.Sq, sizes.Sk, sizes.tileQ, sizes.tileK, sizes.qOffset}, first, loop.fixed,
                             tiles);
  for (int64_t t = 0; t < tiles; ++t) {
    int64_t seen = 0, elements = 0;
    for (int64_t row = first; row < std::min(first + rowStep, rows); ++row)
      for (int64_t i = t * step; i < std::min((t + 1) * step, count); ++i, ++elements)
        seen += visible[keysFixed ? i * sizes.Sk + row : row * sizes.Sk + i];
    bool crosses = (t + 1) * step > count;
    INFO("tile " << t << " has " << seen << " of " << elements << " visible");
    if (seen > 0 && kind[t] == 0)
      FAIL("a visible element is not visited");
    if (seen > 0 && hull && (t < hull->first || t >= hull->second))
      FAIL("a visible element is outside of the hull");
    if (kind[t] == 2 && (seen != elements || crosses))
      FAIL("a full tile is not full");
    if (fullOfPart[size_t(t)] && (seen != elements || crosses))
      FAIL("a tile that is full by a part's rows is not full");
    found.fullOfPart[keysFixed] += fullOfPart[size_t(t)];
    if (isTight && kind[t] != 0 && seen == 0)
      FAIL("an empty tile is visited");
    if (isTight && kind[t] == 1 && seen == elements && !crosses)
      FAIL("a full tile counts as partial");
    if (!numbers.empty()) {
      // Numbers may tell more of a tile that counts as partial.
      CHECK((kind[t] == numbers[t] || kind[t] == 1));
      CHECK((numbers[t] != 0 || seen == 0));
      CHECK((numbers[t] != 2 || (seen == elements && !crosses)));
    }
    ++found.tiles[keysFixed];
    found.visited[keysFixed] += kind[t] != 0;
    found.full[keysFixed] += kind[t] == 2;
    found.visible[keysFixed] += seen > 0;
    found.allVisible[keysFixed] += seen == elements && !crosses;
  }
}

/// The cuts against some elements: they hide nothing that is visible, and what is not where they are all of the mask.
void checkCuts(Loop &loop, const Sizes &sizes, const std::vector<bool> &visible, std::mt19937_64 &random) {
  for (int i = 0; i < 8; ++i) {
    int64_t q = int64_t(random() % uint64_t(sizes.Sq)), k = int64_t(random() % uint64_t(sizes.Sk));
    bool keysFixed = loop.fixed == MaskAxis::Keys, seen = visible[q * sizes.Sk + k];
    INFO(sizes << " q " << q << " k " << k << ", " << nameOf(loop.fixed) << " fixed");
    bool byCuts = loop.seesByCuts(sizes, keysFixed ? k : q, keysFixed ? q : k);
    if (seen && !byCuts)
      FAIL("a cut hides a visible element");
    if (loop.isCuts && byCuts && !seen)
      FAIL("the cuts show a hidden element");
  }
}

void check(Case &mask, const Sizes &sizes, Tight tight, Found &found, std::mt19937_64 &random) {
  std::vector<bool> visible = mask.visible(sizes);
  for (auto &loop : mask.loops) {
    loop->beginLaunch();
    bool keysFixed = loop->fixed == MaskAxis::Keys;
    int64_t rows = keysFixed ? sizes.Sk : sizes.Sq, step = keysFixed ? sizes.tileK : sizes.tileQ;
    for (int64_t first = 0; first < rows; first += step) {
      INFO(sizes << ", fixed " << nameOf(loop->fixed) << " from " << first << ", full by "
                 << (loop->fullBy == FullBy::Rest ? "the rest" : "the mask"));
      checkTiles(mask, *loop, sizes, first, visible, tight, found);
    }
    // A tile that begins past the end of its axis visits nothing.
    if (auto past = loop->hullOf(sizes, (rows + step - 1) / step * step))
      CHECK(past->first >= past->second);
    checkCuts(*loop, sizes, visible, random);
  }
}

constexpr int64_t tileSizes[] = {16, 32, 48, 64, 128};
/// Of which groups of 32 are a part of the lengths that are checked.
constexpr int64_t smallTileSizes[] = {1, 2, 3, 5};

/// Checks the variant for many sizes, before and after canonicalisation.
Found checkVariant(const Variant &variant, Tight tight, uint64_t seed, int rounds,
                   const std::function<void(Sizes &, std::mt19937_64 &)> &launch = {},
                   llvm::ArrayRef<int64_t> tiles = tileSizes) {
  mlir::MLIRContext context;
  std::mt19937_64 random(seed);
  auto draw = [&](int64_t lo, int64_t hi) { return lo + int64_t(random() % uint64_t(hi - lo + 1)); };
  auto length = [&] {
    static const int64_t common[] = {1, 15, 16, 17, 63, 64, 65, 128, 255};
    return random() % 2 ? common[random() % 9] : draw(1, 300);
  };
  Found found;
  INFO((variant.maskExpr() ? text(*variant.maskExpr()) : "no mask") << "; seed " << seed);
  for (bool canonical : {false, true}) {
    int64_t tileQ = tiles[random() % tiles.size()], tileK = tiles[random() % tiles.size()];
    Case mask(context, variant, tileQ, tileK, canonical);
    for (int round = 0; round < rounds; ++round) {
      Sizes sizes;
      sizes.Sq = length();
      sizes.Sk = length();
      sizes.tileQ = tileQ;
      sizes.tileK = tileK;
      sizes.b = draw(0, 1);
      sizes.h = draw(0, 2);
      if (variant.hasQOffset())
        sizes.qOffset = draw(-400, 400);
      if (launch)
        launch(sizes, random);
      check(mask, sizes, tight, found, random);
    }
    for (auto &loop : mask.loops)
      found.byGroup[loop->fixed == MaskAxis::Keys] += loop->groupsLeftOut;
  }
  return found;
}

Variant masked(Mask mask) { return Variant("mask").mask(mask); }
Variant parsed(const std::string &mask, bool qOffset = false) {
  auto variant = Variant::parse(
      "mask",
      {.mask = mask,
       .tensors = {{"lengths", i32, 1}, {"wide", i64, 1}, {"ids", i32, 1}, {"flags", boolean, 1}, {"offsets", i32, 1}},
       .scalars = {{"w", i32}, {"n", i32}, {"x", i64}, {"on", boolean}, {"y", f32}},
       .qOffset = qOffset});
  if (!variant)
    FAIL(variant.error().text());
  return *variant;
}

void drawLaunch(Sizes &sizes, std::mt19937_64 &random) {
  auto draw = [&](int64_t lo, int64_t hi) { return lo + int64_t(random() % uint64_t(hi - lo + 1)); };
  auto value = [&]() -> int64_t {
    static const int64_t edges[] = {0, 1, -1, INT32_MAX, INT32_MIN, INT32_MAX - 1, INT32_MIN + 1, 1 << 30, -(1 << 30)};
    return random() % 4 == 0 ? edges[random() % 9] : draw(-40, 340);
  };
  sizes.scalars = {
      {"w", value()}, {"n", value()}, {"x", random() % 8 ? value() : int64_t(random())}, {"on", draw(0, 1)}};
  sizes.tensors = {{"lengths", {value(), value()}},
                   {"wide", {random() % 4 ? value() : int64_t(random()), random() % 4 ? value() : INT64_MIN}}};
  for (int64_t begin = 0; begin < 300; begin += draw(1, 90))
    sizes.tensors["offsets"].push_back(begin);
  for (int64_t i = 0; i < 300; ++i) {
    sizes.tensors["ids"].push_back(i / draw(20, 60));
    sizes.tensors["flags"].push_back(draw(0, 1));
  }
  // In thousandths: now and then a whole number.
  const int64_t w = sizes.scalars["w"], thousandths = (w * 37 + sizes.scalars["n"]) % 1000;
  sizes.scalars["y"] = w % 8 == 7 ? notANumber : w * 1000 + (w % 2 ? thousandths : 0);
}

/// Documents whose rows follow each other.
void drawDocuments(Sizes &sizes, std::mt19937_64 &random) {
  drawLaunch(sizes, random);
  std::vector<int64_t> &ids = sizes.tensors["ids"];
  ids.assign(300, 0);
  for (size_t i = 1; i < ids.size(); ++i)
    ids[i] = ids[i - 1] + (random() % 50 == 0);
}

} // namespace

TEST_CASE("built-in masks: sound, and no tile too many") {
  for (uint64_t seed = 1; seed <= 3; seed += tests::sampleStep(3)) {
    checkVariant(Variant("plain"), Tight::Yes, seed, 10);
    checkVariant(masked(causal()), Tight::Yes, seed, 20);
    checkVariant(masked(causalBottomRight()), Tight::Yes, seed, 20);
    for (int left : {0, 1, 20, 64, 1000})
      for (int right : {0, 5, 100})
        checkVariant(masked(slidingWindow(left, right)), Tight::Yes, seed, 5);
    for (int n : {-5, 0, 1, 30, 64, 200, 1000})
      checkVariant(masked(prefixLm(n)), Tight::Yes, seed, 8);
    for (int n : {1, 7, 16, 64, 100, 1000})
      checkVariant(masked(chunked(n)), Tight::Yes, seed, 8);
    checkVariant(parsed("keyPadding(lengths)"), Tight::Yes, seed, 30, drawLaunch);
    checkVariant(parsed("k < wide[b]"), Tight::Yes, seed, 30, drawLaunch);
    checkVariant(parsed("prefixLm(w)"), Tight::Yes, seed, 30, drawLaunch);
    checkVariant(parsed("documents(ids)"), Tight::No, seed, 5, drawLaunch);
    checkVariant(parsed("ids[q] == ids[k]"), Tight::Yes, seed, 20, drawDocuments);
    checkVariant(parsed("ids[q] == ids[k]", true), Tight::Yes, seed, 20, drawDocuments);
    checkVariant(parsed("searchsorted(offsets, q, right) == searchsorted(offsets, k, right)"), Tight::Yes, seed, 20,
                 drawDocuments);
    // Numbers that tanh bounds neither wrap nor keep sums from intervals.
    checkVariant(parsed("q - k <= 8 + i32(8.0 * tanh(y)) && k <= q"), Tight::Yes, seed, 10, drawLaunch);
    checkVariant(parsed("q - k <= ids[q] && k <= q"), Tight::No, seed, 20, drawDocuments);
    checkVariant(parsed("causal()", true), Tight::Yes, seed, 20);
    checkVariant(parsed("causalBottomRight()", true), Tight::Yes, seed, 20);
    checkVariant(parsed("slidingWindow(50, 3)", true), Tight::Yes, seed, 20);
    checkVariant(parsed("chunked(64)", true), Tight::No, seed, 20);
  }
}

// Scalars are drawn so that visited tiles are not compared with those that numbers alone predict, which follow no bit
// operations.
TEST_CASE("sparse patterns: sound, and no tile too many") {
  for (uint64_t seed = 1; seed <= 3; seed += tests::sampleStep(3)) {
    for (const char *pattern : {"butterfly(32)", "butterfly(64)", "butterfly(48)"})
      checkVariant(parsed(pattern), Tight::Yes, seed, 8, drawLaunch);
    for (const char *pattern :
         {"bigbird(32, 1, 1, 2)", "bigbird(64, 1, 1, 3, 7)", "bigbird(64, 0, 2, 5)", "bigbird(48, 1, 0, 4)"})
      checkVariant(parsed(pattern), Tight::No, seed, 8, drawLaunch);
    for (const char *pattern :
         {"localGlobal(40, 16)", "localGlobal(40, 16, 3)", "localGlobal(9, 2, 64)", "strided(64)", "strided(50)",
          "fixed(64, 16)", "fixed(70, 9)", "natten(16, 20, 7)", "natten(50, 9, 3)", "sta(64, 2, 2, 3, 1, 1, 3)",
          "sta(32, 1, 4, 4, 1, 3, 3)", "causal() && bigbird(32, 1, 1, 2)"})
      checkVariant(parsed(pattern), Tight::No, seed, 8, drawLaunch);
    for (const char *pattern : {"butterfly(64)", "bigbird(32, 1, 1, 2)", "strided(64)"})
      checkVariant(parsed(pattern, true), Tight::No, seed, 8, drawLaunch);
  }
}

TEST_CASE("masks that are recognised exactly") {
  for (const char *mask : {
           "q - k < 100 && q >= k",
           "k - q <= w",
           "k - q <= x",
           "x >= k - q",
           "k + 5 > q",
           "!(k > q)",
           "!(k > q || q - k >= 70)",
           "k < lengths[b] && q >= k",
           "abs(q - k) <= 33",
           "max(k - 40, q - 100) <= 0",
           "min(q, 100) >= k",
           "select(h < 1, true, k <= q)",
           "on && causal()",
           "on || causal()",
           "!on || k < w",
           "select(on, q >= k, q >= k)",
           "true",
           "false",
           "on",
           "q < 40",
           "q >= w",
           "k < Sk - 10",
           "k >= Sk - w / 2",
           "2 * k <= q",
           "cast(k, i64) * 3 >= cast(q, i64) * 2 - 50",
           "k - q * 2 <= 5",
           "(k >> 4) <= (q >> 4)",
           "k / 4 / 8 >= q / 32",
           "k / 64 * 64 <= q",
           "cast(k, i64) * 30000000 <= cast(q, i64) * 30000000",
           "(q >= k) == true",
           "(q >= k) != true",
           "k >= n && k < w",
           "q - k + k >= k",
           "k <= (q - q) + 50",
           "k < w * w",
           "k < w + n",
           "k < 2147483647 - w",
       }) {
    INFO(mask);
    checkVariant(parsed(mask), Tight::Yes, 7, 12, drawLaunch);
  }
}

TEST_CASE("several intervals are recognised over keys") {
  for (const char *mask : {
           "k < 10 || k >= 200",
           "(k >= 20 && k < 60) || (k >= 60 && k < 100)",
           "(k >= 180 && k < 230) || (k >= 20 && k < 60)",
           "(k >= w && k < w + 40) || k >= 250",
           "abs(k - q) > 64",
           "(k < w && k > 20) || k == n || k > 280",
           "q >= k && (k - 9 < n || k < 4)",
           "k < q - 100 || (k >= q && k < q + 30) || k >= q + 150",
           "!(k >= 40 && k < 90) && !(k >= 120 && k < 200) && causal()",
       }) {
    INFO(mask);
    checkVariant(parsed(mask), Tight::OverKeys, 7, 12, drawLaunch);
  }
}

TEST_CASE("nearly all tiles of windows with sinks are recognised") {
  // A tile of the sinks alone may be full and count as partial.
  for (const char *mask : {"q >= k && (q - k < 50 || k < 4)", "q >= k && (q - k < w || k < n)",
                           "abs(q - k) <= 40 || k < 16 || k >= Sk - 8"}) {
    INFO(mask);
    const Found found = checkVariant(parsed(mask), Tight::No, 7, 40, drawLaunch);
    for (int axis : {0, 1}) {
      CHECK(found.visited[axis] - found.visible[axis] <= (found.tiles[axis] - found.visible[axis]) / 50);
      CHECK(2 * found.full[axis] >= found.allVisible[axis]);
    }
    CHECK(10 * found.fullOfPart[0] >= 9 * found.full[0]);
  }
}

TEST_CASE("what tables and counts tell of tiles is exact") {
  for (const char *mask : {
           // Floats that integers are compared with.
           "cast(q - k, f32) < y",
           "cast(q - k, f32) <= y && q >= k",
           "cast(abs(q - k), f32) < y",
           "!(cast(k - q, f32) >= y)",
           "y > cast(k, f32)",
           "y <= cast(q - k, f32)",
           "cast(k, f32) < 30.5",
           // Of one axis.
           "k * w <= q",
           "k / w <= q",
           "k % w < 5",
           "(k & 31) <= q",
           "cast(sqrt(cast(q, f32)), i32) >= k",
           "sin(cast(k, f32)) > 0.5",
           "cast(q, f32) * 0.3 >= cast(k, f32)",
           "exp(cast(q, f32) * 0.01) > sqrt(cast(k, f32))",
           "ids[k] * 3 + 5 < q",
           "ids[k + 3] < ids[q / 2]",
           "flags[k] && ids[q] > 3",
           // Of both.
           "(k ^ q) < 50",
           "((q / 16) ^ (k / 16)) % 50 == 0",
           "k * q < 1000",
           "flags[q + k]",
           "k < 10 || flags[q + k]",
           "ids[(q + k) / 2] > 4 || q - k < w",
           "!(cast(q, f32) - cast(k, f32) < y)",
           "select(flags[q], (k ^ q) % 64 < 20, k < 40)",
       }) {
    INFO(mask);
    // Of a window of less than nothing two ends are known, and not that they have passed each other.
    auto launch = [](Sizes &sizes, std::mt19937_64 &random) {
      drawLaunch(sizes, random);
      sizes.scalars["y"] = std::max<int64_t>(sizes.scalars["y"], 1);
    };
    checkVariant(parsed(mask), Tight::Yes, 7, 12, launch);
    checkVariant(parsed(mask, true), Tight::No, 8, 6, drawLaunch);
  }
}

TEST_CASE("groups of tiles without a visible element are left out") {
  // And whether tiles of keys, or of queries, have tables by which they are left out.
  const std::tuple<const char *, bool, bool> masks[] = {{"ids[q] == ids[k]", true, true},
                                                        {"documents(ids) && causal()", true, true},
                                                        {"ids[q] == ids[k] && (flags[k] || q - k < w)", true, true},
                                                        {"ids[q] == ids[k] || k < 20", true, true},
                                                        {"ids[q] == ids[k] && (k ^ q) < 50", true, true},
                                                        {"!(ids[k] != ids[q / 2]) && k % 64 <= q % 64", true, true},
                                                        {"ids[k] * 3 + 5 < q", true, false},
                                                        {"k * w <= q", true, false},
                                                        {"cast(q, f32) * 0.3 >= cast(k, f32)", false, true}};
  for (auto [mask, ofKeys, ofQueries] : masks) {
    INFO(mask);
    const Found found = checkVariant(parsed(mask), Tight::No, 7, 6, drawDocuments, smallTileSizes);
    CHECK((found.byGroup[0] > 0) == ofKeys);
    CHECK((found.byGroup[1] > 0) == ofQueries);
    if (tests::isFullGrid())
      checkVariant(parsed(mask, true), Tight::No, 8, 3, drawDocuments, smallTileSizes);
  }
  // Without tables by the looped axis there is nothing that groups would spare.
  for (const char *mask : {"q >= k", "q / 64 == k / 64", "k % 64 <= q % 64", "flags[q]", "(k ^ q) < 50"}) {
    mlir::MLIRContext context;
    Case built(context, parsed(mask), 128, 64, true);
    INFO(mask);
    CHECK(built.overKeys().domain.getGroups().empty());
  }
}

TEST_CASE("masks that are only bounded stay sound") {
  for (const char *mask : {
           "k % 8 == 0",
           "3 * k >= 2 * q - 50",  // 3 * k may wrap
           "q - w <= k && k <= q", // q - w may wrap
           "abs(k - q) < w",       // with w <= 0 empty for each query, but not the hull over the queries
           "(k ^ q) < 50",
           "k * q < 1000",
           "k - q + 2147483647 > 0",
           "k + 2147483647 < q",
           "k * 2147483647 < q",
           "k * w <= q",
           "k / w <= q",
           "q / n == k / n",
           "k + w <= q",
           "-w <= k - q && k - q <= n",
           "ids[k] == ids[q]",
           "ids[k] <= 3 && causal()",
           "flags[k]",
           "flags[k] && k < w",
           "flags[q] || k < w",
           "k != q",
           "k != w",
           "!(k == q)",
           "(k < w) != (k < n)",
           "(k < w) == (q < n)",
           "select(k < w, q >= k, k > n)",
           "select(flags[k], 5, 9) >= k - q",
           "select(on, k, q) >= 10",
           "min(k, w) <= q && max(k, n) > 3",
           "abs(k - w) <= 50",
           "k < 10 || k >= 200",
           "(k >= 20 && k < 60) || (k >= w && k < n)",
           "(k >= 20 && k < 60) || (k >= 60 && k < 100)",
           "k % 64 <= q % 64",
           "k & 31",
           "(k & 31) <= q",
           "(k << 3) <= q << 2",
           "(k << 30) >= 0",
           "q << 31 < k",
           "k - k / 16 * 16 < 8",
           "cast(sqrt(cast(q, f32)), i32) >= k",
           "cast(k, f32) < 30.5",
           "cast(on, i32) * 50 > k",
           "cast(q >= k, i32) == 1",
           "x + k < x + q",
           "cast(x, i32) > k",
           "x * cast(k, i64) < 5000L",
           "wide[b] <= cast(k, i64) || wide[h] > cast(q, i64)",
           "abs(x) > cast(k, i64)",
           "b * 1000000 + k < h * 1000000 + q",
           "k < 2147483647 && k > -2147483647 - 1",
           "q - 2147483647 <= k",
           "q - k <= -2147483647",
           "k / -3 >= -20",
           "k % w < 5",
           "k / 1073741824 * 1000000 <= q",
           "documents(ids) && slidingWindow(60, 0)",
           "ids[q] - 1 < ids[k] && !(ids[k] < w || flags[k])",
           "wide[q] == wide[k] || k < 20",
           "wide[k] < cast(q, i64) || x <= wide[q]",
           "max(wide[q], wide[k]) > cast(k, i64)",
           "abs(q - k) <= ids[k] && q + ids[k] > k + q",
           "k / 7 * 3 - q <= ids[k] * 2",
           "flags[q] != flags[k]",
           "select(flags[k], ids[q], ids[k]) % 4 == 1",
           "-ids[k] <= w && ids[q] + 2147483647 < ids[k]",
           "ids[q + 1] == ids[k]",
           "lengths[k] - lengths[q] < n",
           "-wide[k] < wide[q]",
           "max(max(k, q), max(k + 1, q - 3)) < min(w, n)",
           "searchsorted(offsets, q, right) == searchsorted(offsets, k, right)",
           "searchsorted(offsets, q) - searchsorted(offsets, k, right) <= w",
           "searchsorted(ids, k) <= q && searchsorted(offsets, h) != searchsorted(offsets, w)",
           "k - i32(8.0 * sigmoid(cast(ids[q], f32))) <= q",
           "q - k < 40 + i32(8.0 * tanh(y))",
           "exp(y) >= 0.0 && tanh(cast(ids[q] - k, f32)) < 2.0",
           "sin(y) > 1.5 || k < 20",
           "i32(100.0 * erf(cast(q - k, f32) * 0.01)) < ids[k]",
           "Sq - q + k > 2147483647", // a row knows that it sees nothing
       }) {
    std::string expression = mask;
    if (expression == "k & 31")
      expression = "(k & 31) != 0";
    INFO(expression);
    checkVariant(parsed(expression), Tight::No, 11, 6, drawLaunch);
    checkVariant(parsed(expression, true), Tight::No, 12, 3, drawLaunch);
  }
}

namespace {

/// Random masks, most of them affine in q and k, some not.
class MaskGenerator {
public:
  explicit MaskGenerator(uint64_t seed) : random(seed) {}

  std::string mask(int depth) {
    switch (depth > 0 ? draw(0, 9) : 0) {
    case 1:
    case 2:
      return "(" + mask(depth - 1) + " && " + mask(depth - 1) + ")";
    case 3:
    case 4:
      return "(" + mask(depth - 1) + " || " + mask(depth - 1) + ")";
    case 5:
      return "!" + mask(depth - 1);
    case 6:
      return "(" + mask(depth - 1) + " != " + mask(depth - 1) + ")";
    case 7:
      return "select(" + mask(depth - 1) + ", " + mask(depth - 1) + ", " + mask(depth - 1) + ")";
    default:
      break;
    }
    static const char *const whole[] = {"causal()",
                                        "causalBottomRight()",
                                        "slidingWindow(30, 10)",
                                        "prefixLm(w)",
                                        "chunked(48)",
                                        "documents(ids)",
                                        "keyPadding(lengths)",
                                        "on",
                                        "flags[k]",
                                        "flags[q]",
                                        "(ids[q] <= ids[k])",
                                        "(wide[q] < wide[k])"};
    if (draw(0, 4) == 0)
      return whole[draw(0, 11)];
    static const char *const comparisons[] = {"<", "<=", ">", ">=", "==", "!="};
    if (draw(0, 7) == 0)
      return "(" + real() + " " + comparisons[draw(0, 5)] + " " + real() + ")";
    return "(" + integer(2) + " " + comparisons[draw(0, 5)] + " " + integer(2) + ")";
  }

private:
  int64_t draw(int64_t lo, int64_t hi) { return lo + int64_t(random() % uint64_t(hi - lo + 1)); }

  std::string constant() {
    static const int64_t edges[] = {INT32_MAX, INT32_MAX - 1, -INT32_MAX, 1 << 30, -(1 << 30), 0, 1, -1};
    return "(" + std::to_string(draw(0, 5) == 0 ? edges[draw(0, 7)] : draw(-100, 300)) + ")";
  }

  std::string real() {
    switch (draw(0, 5)) {
    case 0:
      return "y";
    case 1:
      return "(y * 0.5)";
    case 2:
      return "sqrt(abs(cast(" + integer(1) + ", f32)))";
    case 3:
      return "(cast(" + integer(1) + ", f32) - 7.5)";
    default:
      return "cast(" + integer(1) + ", f32)";
    }
  }

  std::string integer(int depth) {
    static const char *const leaves[] = {"k", "k", "k",          "q", "q",         "q",      "Sk",    "Sq",
                                         "w", "n", "lengths[b]", "h", "b * H + h", "ids[q]", "ids[k]"};
    if (depth == 0)
      return draw(0, 3) == 0 ? constant() : leaves[draw(0, 14)];
    std::string x = integer(depth - 1), y = integer(depth - 1);
    switch (draw(0, 15)) {
    case 0:
    case 1:
    case 2:
      return "(" + x + " + " + y + ")";
    case 3:
    case 4:
    case 5:
      return "(" + x + " - " + y + ")";
    case 6:
      return "(" + x + " * " + std::to_string(draw(-4, 4)) + ")";
    case 7:
      return "(" + x + " / " + std::to_string(draw(-2, 70)) + ")";
    case 8:
      return "min(" + x + ", " + y + ")";
    case 9:
      return "max(" + x + ", " + y + ")";
    case 10:
      return "abs(" + x + ")";
    case 11: {
      static const char *const others[] = {" % 7", " & 15", " >> 2", " << 2", " ^ 3", " / w", " * w", " % n"};
      return "(" + x + others[draw(0, 7)] + ")";
    }
    case 12:
      return "select(" + mask(0) + ", " + x + ", " + y + ")";
    default:
      return draw(0, 2) == 0 ? constant() : x;
    }
  }

  std::mt19937_64 random;
};

} // namespace

TEST_CASE("random masks are sound") {
  // ATTUNE_MASK_SEEDS=N tries N of them.
  const char *wanted = std::getenv("ATTUNE_MASK_SEEDS");
  uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 200 / tests::sampleStep(8);
  auto check = [](uint64_t seed) {
    std::string mask = MaskGenerator(seed).mask(seed % 4);
    INFO("seed " << seed << ": " << mask);
    checkVariant(parsed(mask, seed % 3 == 0), Tight::No, seed, 3, drawLaunch);
    if (seed % 4 == 0)
      checkVariant(parsed(mask, seed % 3 == 0), Tight::No, seed, 1, drawLaunch, smallTileSizes);
  };
  for (uint64_t seed = 1; seed <= count; ++seed)
    check(seed);
  check(606); // a part past the last query asks a table
}

TEST_CASE("extents and offsets at their limits do not overflow") {
  // Too large to enumerate: the ends of the segments are compared with the formulas.
  constexpr int64_t most = int64_t(1) << 30;
  mlir::MLIRContext context;
  auto ends = [&](const std::string &mask, Sizes sizes, int64_t q0, bool qOffset) {
    Case built(context, parsed(mask, qOffset), 128, 64, true);
    auto segments = built.overKeys().segments(sizes, q0, [](int64_t, bool, bool) {});
    return std::pair(segments.front().begin, segments.back().end);
  };
  auto expect = [&](int64_t lo, int64_t hi) {
    lo = std::clamp<int64_t>(lo, 0, most);
    hi = std::clamp<int64_t>(hi, 0, most);
    return std::pair(lo / 64, (hi + 63) / 64);
  };
  int64_t last = most - 128;
  for (int64_t offset : {-most, int64_t(0), most}) {
    Sizes sizes;
    sizes.Sq = sizes.Sk = most;
    sizes.qOffset = offset;
    for (int64_t q0 : {int64_t(0), last}) {
      int64_t first = q0 + offset, end = q0 + 128 + offset;
      INFO("offset " << offset << " q0 " << q0);
      auto same = [](std::pair<int64_t, int64_t> a, std::pair<int64_t, int64_t> b) {
        return a == b || (a.first >= a.second && b.first >= b.second);
      };
      CHECK(same(ends("k <= q", sizes, q0, true), expect(0, end)));
      CHECK(same(ends("k - q <= 0", sizes, q0, true), expect(0, end)));
      CHECK(same(ends("k - Sk <= q - Sq", sizes, q0, true), expect(0, end)));
      CHECK(same(ends("q - k <= 1000", sizes, q0, true), expect(first - 1000, most)));
      for (int64_t w : {int64_t(INT32_MIN), int64_t(INT32_MAX)}) {
        sizes.scalars = {{"w", w}};
        CHECK(same(ends("k - q <= w", sizes, q0, true), expect(0, end + w)));
        CHECK(same(ends("k - q >= w", sizes, q0, true), expect(first + w, most)));
      }
    }
  }
}

TEST_CASE("few ops are emitted") {
  mlir::MLIRContext context;
  auto count = [&](const Variant &variant) {
    Case mask(context, variant, 128, 64, true);
    return std::max(mask.overKeys().ops, mask.overQueries().ops);
  };
  // The domain's, and the cuts' ends.
  CHECK(count(Variant("plain")) <= 3);
  CHECK(count(masked(causal())) <= 9);
  CHECK(count(masked(slidingWindow(100, 0))) <= 24);
}

TEST_CASE("a causal mask visits about half of the tiles") {
  mlir::MLIRContext context;
  Case mask(context, masked(causal()), 128, 64, true);
  int64_t full = 0, partial = 0;
  for (int64_t first = 0; first < 1024; first += 128)
    for (int kind : kindsByNumbers(mask.op, {1024, 1024, 128, 64}, first, MaskAxis::Queries, 16)) {
      full += kind == 2;
      partial += kind == 1;
    }
  CHECK(full == 2 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7));
  CHECK(partial == 8 * 2);
}

TEST_CASE("a block pattern becomes the domain's where, and full tiles need whole blocks") {
  mlir::MLIRContext context;
  auto pattern = captured("pattern", boolean, rank(3));
  auto variant = [&](int rows, int columns) { return masked(causal()).blocks(pattern, rows, columns); };
  {
    Case mask(context, variant(128, 64), 128, 64, true);
    CHECK_FALSE(patternNeedsElementMask(mask.op, 128, 64));
    CHECK(mask.overKeys().domain.skips());
    CHECK(mask.overKeys().domain.getVisible().getDefiningOp<tile::TouchesOp>().getIndices().size() == 3);
    CHECK(llvm::is_contained(mask.overKeys().domain.getFull(), true));
  }
  for (auto [rows, columns] : {std::pair(64, 64), std::pair(128, 32), std::pair(192, 64)}) {
    Case mask(context, variant(rows, columns), 128, 64, true);
    CHECK(patternNeedsElementMask(mask.op, 128, 64));
    CHECK_FALSE(llvm::is_contained(mask.overKeys().domain.getFull(), true));
  }
  Case shared(context, masked(causal()).blocks(captured("pattern", boolean, rank(2)), 128, 128), 128, 64, true);
  CHECK(shared.overKeys().domain.getVisible().getDefiningOp<tile::TouchesOp>().getIndices().size() == 2);
}
