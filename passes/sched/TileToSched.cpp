//===- TileToSched.cpp - Tiles become what each lane does --------------------===//
//
// Register tiles become arrays of fragments (buffers; an op whose operand dies writes in place), tile ops loops over
// them, products one matrix instruction at a time. A lane finds itself by
//
//     g = lane / 4, c = lane % 4        fragment row and column pair
//     first_row = warp * rows of a warp
//
// and, where R warps split the rows and others the columns of V and O (#tile.plan's dv_warps),
//
//     first_row = warp % R * rows of a warp        first_dv = warp / R * columns of a warp
//
//===----------------------------------------------------------------------===//

#include "arch/ArchInfo.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/Cloning.h"
#include "passes/analysis/Dependences.h"
#include "passes/analysis/MapPatterns.h"

namespace attune {
#define GEN_PASS_DEF_TILETOSCHED
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::FragmentAttr;
using sched::FragmentRole;
using tile::MemorySpace;
using tile::TileType;

namespace {

FragmentAttr layoutOf(Value tile) { return cast<FragmentAttr>(cast<TileType>(tile.getType()).getLayout()); }
SmallVector<int64_t> laneShape(Value tile) { return layoutOf(tile).laneShape(cast<TileType>(tile.getType())); }
bool inShared(Value tile) { return cast<TileType>(tile.getType()).getSpace() == MemorySpace::Shared; }

class KernelExpander {
public:
  KernelExpander(tile::KernelOp kernel, StringRef arch)
      : kernel(kernel), arch(arch), plan(kernel.getPlan()), builder(kernel), loc(kernel.getLoc()),
        warps(plan.getWarps()), rowWarps(plan.getRowWarps()), warpRows(plan.getTileQ() / rowWarps) {}

  LogicalResult run() {
    auto target =
        sched::KernelOp::create(builder, loc, kernel.getSymName(), kernel.getOperandsAttr(), kernel.getGridAttr(), arch,
                                (warps + plan.getCopyWarps()) * 32, plan.getBlocksPerSm(), 0, kernel.getDtype(), plan,
                                kernel.getTensorsAttr(), kernel.getScalarsAttr(), kernel.getBoundsAttr(),
                                kernel.getPatternAttr(), kernel.getDropout(), kernel.getPrecise(), kernel.getQOffset());
    builder.createBlock(&target.getBody());
    // From sm_90 on a kernel may start beside the one that makes its bounds, and waits for it when its own preparations
    // are done.
    const ArchInfo *info = findArch(arch);
    bool waits = info && info->computeMajor >= 9 && !kernel.getBounds().empty();
    auto waitForBounds = [&] {
      if (std::exchange(waits, false))
        sched::WaitBoundsOp::create(builder, loc);
    };
    if (plan.getCopyWarps()) {
      for (Operation &op : kernel.getBody().front()) {
        if (isa<sched::RoleOp>(op))
          waitForBounds();
        if (failed(expand(&op)))
          return failure();
      }
    } else {
      waitForBounds();
      if (failed(expandWork(kernel.getBody().front())))
        return failure();
    }
    // Room for every buffer; sched-assign-shared-memory places them.
    int64_t bytes = 0;
    target.walk([&](sched::SharedOp shared) { bytes += shared.getResult().getType().bytes(); });
    target.setSharedBytes(bytes);
    kernel.erase();
    return success();
  }

private:
  /// The work of all warps.
  LogicalResult expandWork(Block &body) {
    auto work = sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Grid, plan.getTileQ(), plan.getLongestFirst());
    OpBuilder::InsertionGuard guard(builder);
    workBlock = &work.getBody().front();
    builder.setInsertionPointToStart(workBlock);
    slices.clear();
    writeLane();
    for (Operation &op : body)
      if (failed(expand(&op)))
        return failure();
    return success();
  }

  LogicalResult expandOp(sched::RoleOp op) {
    auto role = sched::RoleOp::create(builder, loc, op.getName(), op.getWarps(), op.getRegistersAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&role.getBody());
    for (Operation &inner : op.getBody().front())
      if (failed(expand(&inner)))
        return failure();
    // Shared memory is the block's until the last boxes have been read.
    if (plan.getPersistent() && !op.getBody().getOps<sched::ForWorkOp>().empty())
      waitForBoxes(sched::ThreadIdOp::create(builder, loc));
    return success();
  }

  LogicalResult expandOp(sched::ForWorkOp op) {
    // The same in all lanes, and known to be: descriptors of shared tiles then stay in uniform registers.
    group = tile::named(
        sched::UniformOp::create(builder, loc, builder.getI32Type(), div(sched::ThreadIdOp::create(builder, loc), 128)),
        "warpgroup");
    SmallVector<Value> inits;
    for (Value init : op.getInits())
      inits.push_back(mapping.lookup(init));
    auto work = sched::ForWorkOp::create(builder, loc, op.getOrder(), op.getTileQ(), op.getLongestFirst(), inits);
    work.setAcrossBatches(op.getAcrossBatches());
    work->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    OpBuilder::InsertionGuard guard(builder);
    Block &body = op.getBody().front();
    workBlock = &work.getBody().front();
    builder.setInsertionPointToStart(workBlock);
    for (auto [old, fresh] : llvm::zip(body.getArguments(), workBlock->getArguments()))
      mapping.map(old, fresh);
    slices.clear();
    writeLane();
    for (Operation &inner : body)
      if (&inner != op.getNext().getOperation() && failed(expand(&inner)))
        return failure();
    if (op.getNext()) {
      SmallVector<Value> next; // of all carried values, and whether more comes
      for (Value value : op.getNext().getValues())
        next.push_back(mapping.lookup(value));
      sched::NextOp::create(builder, loc, next);
    }
    workBlock = nullptr;
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Small builders
  //===--------------------------------------------------------------------===//

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value f32(float value) { return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value)); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b, arith::IntegerOverflowFlags::nsw); }
  Value add(Value a, int64_t b) { return b ? add(a, i32(b)) : a; }
  Value mul(Value a, int64_t b) {
    return b == 1 ? a : Value(arith::MulIOp::create(builder, loc, a, i32(b), arith::IntegerOverflowFlags::nsw));
  }
  Value div(Value a, int64_t b) { return b == 1 ? a : Value(arith::DivUIOp::create(builder, loc, a, i32(b))); }
  Value rem(Value a, int64_t b) { return arith::RemUIOp::create(builder, loc, a, i32(b)); }
  Value below(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b); }

  /// From `begin` to before `end`.
  struct Range {
    int64_t begin, end;
    /// In units of so many.
    Range by(int64_t unit) const { return {begin / unit, end / unit}; }
  };

  /// An unrolled loop over 0 .. count - 1; a single pass needs no loop.
  void repeat(int64_t count, StringRef name, function_ref<void(Value)> body) { repeat(Range{0, count}, name, body); }

  void repeat(Range range, StringRef name, function_ref<void(Value)> body) {
    if (range.end - range.begin <= 1)
      return range.begin < range.end ? body(i32(range.begin)) : void();
    auto loop = scf::ForOp::create(builder, loc, i32(range.begin), i32(range.end), i32(1));
    loop->setAttr(sched::unrollAttr, builder.getUnitAttr());
    loop->setAttr(tile::nameAttr, builder.getStringAttr(name));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  /// An if without else.
  void onlyIf(Value condition, function_ref<void()> body) {
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  Value get(Value buffer, ValueRange indices) {
    Type element = cast<TileType>(buffer.getType()).getElementType();
    return sched::GetOp::create(builder, loc, element, buffer, indices);
  }
  void set(Value value, Value buffer, ValueRange indices) {
    sched::SetOp::create(builder, loc, value, buffer, indices);
  }

  Value loadShared(Type type, Value shared, Value stage, Value row, Value column, Value rowStep = {},
                   Value columnStep = {}) {
    return sched::LoadSharedOp::create(builder, loc, type, shared, stage, row, column, rowStep, columnStep);
  }

  Value registers(StringRef name, TileType type) { return sched::RegistersOp::create(builder, loc, type, name); }

  TileType fragmentType(std::initializer_list<std::pair<StringRef, int64_t>> axes, Type element, FragmentRole role,
                        int64_t warpCount) {
    return TileType::make(kernel.getContext(), axes, element, MemorySpace::Register,
                          FragmentAttr::get(kernel.getContext(), role, warpCount));
  }

  //===--------------------------------------------------------------------===//
  // Where a lane is
  //===--------------------------------------------------------------------===//

  void writeLane() {
    thread = tile::named(sched::ThreadIdOp::create(builder, loc), "thread");
    lane = tile::named(rem(thread, 32), "lane");
    Value warp = tile::named(div(thread, 32), "warp");
    laneRow = tile::named(div(lane, 4), "lane_row");
    Value quadLane = tile::named(rem(lane, 4), "quad_lane");
    quad = quadLane;
    laneColumn = tile::named(mul(quadLane, 2), "lane_column");
    Value rowWarp = rowWarps == warps ? warp : rem(warp, rowWarps);
    firstRow = rowWarps == 1 ? i32(0) : tile::named(mul(rowWarp, warpRows), "warp_row");
    dvWarp = rowWarps == warps ? Value() : tile::named(div(warp, rowWarps), "dv_warp");
  }

  /// Row within the tile of fragment i, half r: first_row + 16 i + g + 8 r.
  Value rowInTile(Value i, Value r) { return add(add(add(firstRow, laneRow), mul(i, 16)), mul(r, 8)); }
  /// Column within the warp's share of fragment j, element c: 8 j + 2 (lane % 4) + c.
  Value columnInShare(Value j, Value c) { return add(add(laneColumn, mul(j, 8)), c); }
  /// The same within the tile that `layout` holds.
  Value columnInTile(TileType type, Value j, Value c) {
    Value first = firstColumn(type);
    return first ? add(first, columnInShare(j, c)) : columnInShare(j, c);
  }
  /// First column of the warp's share of a register tile; null where each warp has all columns.
  Value firstColumn(TileType type) {
    int64_t columnWarps = cast<FragmentAttr>(type.getLayout()).getColumnWarps();
    if (columnWarps == 1)
      return {};
    assert(columnWarps == plan.getDvWarps() && "layouts follow the plan");
    OpBuilder::InsertionGuard guard(builder); // once, before any loop
    builder.setInsertionPointAfterValue(dvWarp);
    return tile::named(mul(dvWarp, type.getShape().back() / columnWarps), "warp_column");
  }

  /// Column pairs that a lane has of a tile.
  static int64_t columnsOfLane(Value buffer) { return cast<TileType>(buffer.getType()).getShape()[1] / 8; }

  /// The element of `tile` that belongs to place (i, r, j, c) of a `c` fragment.
  Value element(Value tile, Value i, Value r, Value j, Value c) {
    Value buffer = buffers.lookup(tile);
    switch (layoutOf(buffer).getRole()) {
    case FragmentRole::C:
      return get(buffer, {i, j, add(mul(r, 2), c)});
    case FragmentRole::Rows:
      return get(buffer, {i, r});
    case FragmentRole::Lanes:
      return columnElement(tile, j, c);
    case FragmentRole::Diagonals: {
      Value along = i32(laneShape(buffer)[0] - columnsOfLane(buffer));
      Value steps = add(mul(i, 2), r);
      return get(buffer,
                 {add(j, arith::SubIOp::create(builder, loc, along, steps, arith::IntegerOverflowFlags::nsw)), c});
    }
    default:
      assert(layoutOf(buffer).getRole() == FragmentRole::Columns && "operand fragments have no elements here");
      return get(buffer, {j, c});
    }
  }

  using PlaceBody = function_ref<void(Value i, Value r, Value j, Value c, SmallVector<Value> indices)>;

  /// Calls `body` for each place of a lane's share of `buffer`, row by row, and `row` in front of each row of a tile;
  /// unused coordinates are null. Of an accumulator those of `within` alone, where it is given: column pairs.
  void forEachPlace(Value buffer, PlaceBody body, function_ref<void(Value i, Value r)> row = {},
                    std::optional<Range> within = {}) {
    SmallVector<int64_t> shape = laneShape(buffer);
    FragmentRole role = layoutOf(buffer).getRole();
    if (isByThread(role)) {
      const int64_t whole = cast<TileType>(buffer.getType()).getShape()[0] / threadsOf(buffer);
      auto pass = [&](Value i) { body(i, {}, {}, {}, {i}); };
      repeat(whole, "i", pass);
      if (whole < shape[0])
        pass(i32(whole));
      return;
    }
    auto columns = [&](Range pairs, Value i, Value r) {
      repeat(pairs, "j", [&](Value j) {
        repeat(2, "e", [&](Value c) {
          if (role == FragmentRole::C)
            body(i, r, j, c, {i, j, add(mul(r, 2), c)});
          else
            body(i, r, j, c, {j, c});
        });
      });
    };
    if (role == FragmentRole::Columns)
      return columns({0, shape[0]}, {}, {});
    repeat(shape[0], "i", [&](Value i) {
      repeat(2, "r", [&](Value r) {
        if (role == FragmentRole::Rows)
          return body(i, r, {}, {}, {i, r});
        if (row)
          row(i, r);
        columns(within.value_or(Range{0, shape[1]}), i, r);
      });
    });
  }

  /// The same of an accumulator, column by column: `column` in front of each pair of them, and `sixteen`, where it is
  /// given, of each 16; `after` behind them.
  void forEachColumn(Value buffer, std::optional<Range> within, PlaceBody body, function_ref<void(Value j)> column,
                     function_ref<void(Value jj)> sixteen, function_ref<void(Value jj)> after) {
    SmallVector<int64_t> shape = laneShape(buffer);
    const Range pairs = within.value_or(Range{0, shape[1]});
    auto pair = [&](Value j) {
      column(j);
      repeat(2, "e", [&](Value c) {
        repeat(shape[0], "i",
               [&](Value i) { repeat(2, "r", [&](Value r) { body(i, r, j, c, {i, j, add(mul(r, 2), c)}); }); });
      });
    };
    if (!sixteen && !after)
      return repeat(pairs, "j", pair);
    repeat(pairs.by(2), "jj", [&](Value jj) {
      if (sixteen)
        sixteen(jj);
      repeat(2, "n", [&](Value n) { pair(add(mul(jj, 2), n)); });
      if (after)
        after(jj);
    });
  }

  //===--------------------------------------------------------------------===//
  // Buffers
  //===--------------------------------------------------------------------===//

  /// Whether something reads `value` behind `op`. What stands on the other side of a branch around `op` does not; a
  /// chain reads where it ends.
  bool isReadBehind(Value value, Operation *op) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (Operation *end = chainEnds.lookup(user))
        user = end;
      Operation *at = op; // in the innermost block that holds both
      while (!at->getBlock()->findAncestorOpInBlock(*user))
        at = at->getParentOp();
      Operation *reader = at->getBlock()->findAncestorOpInBlock(*user);
      return reader != at && !reader->isBeforeInBlock(at);
    });
  }

  /// Whether nothing reads `value` after `op`, so that `op` may overwrite its buffer.
  bool diesAt(Value value, Operation *op) {
    return value.getParentBlock() == op->getBlock() && !isReadBehind(value, op);
  }

  /// A buffer for `result` of `op`: that of an operand that dies here and has the same type, else a new one.
  Value bufferFor(Operation *op, Value result, ValueRange reusable) {
    for (Value operand : reusable)
      if (operand.getType() == result.getType() && buffers.contains(operand) && diesAt(operand, op) &&
          (cast<TileType>(result.getType()).rank() > 1 || tile::nameOf(operand).empty() ||
           tile::nameOf(operand) == tile::nameOf(result)))
        return buffers.lookup(operand);
    return newBuffer(result);
  }

  /// Where `result` goes, if nothing reads what lies there any more: to the loop's carried tile whose next value it is,
  /// or to what a branch yields on its other side.
  Value destination(Value result) {
    Operation *op = result.getDefiningOp();
    if (!op || !result.hasOneUse())
      return {};
    OpOperand *use = &*result.getUses().begin();
    while (auto branch = dyn_cast<scf::IfOp>(use->getOwner()->getParentOp())) {
      if (use->getOwner() == branch.thenYield())
        return unlessRead(branch.elseYield().getOperand(use->getOperandNumber()), op);
      Value left = branch.getResult(use->getOperandNumber());
      if (use->getOwner() != branch.elseYield() || !left.hasOneUse())
        return {};
      use = &*left.getUses().begin();
    }
    auto loop = dyn_cast<sched::ForTilesOp>(use->getOwner()->getParentOp());
    return loop && use->getOwner() == loop.getNext()
               ? unlessRead(loop.getBody().getArgument(use->getOperandNumber()), op)
               : Value();
  }

  /// The buffer of `value`, unless it is of another type than the result of `op` or read behind `op`.
  Value unlessRead(Value value, Operation *op) {
    return value.getType() == op->getResult(0).getType() && !isReadBehind(value, op) ? buffers.lookupOrNull(value)
                                                                                     : Value();
  }

  Value newBuffer(Value result) {
    if (Value place = destination(result))
      return place;
    StringRef name = tile::nameOf(result);
    return registers(name.empty() ? "fragment" : name, cast<TileType>(result.getType()));
  }

  /// Each tile to its buffer, all at once: one whose buffer is another's is read before that is written.
  void moveAll(ValueRange tiles, ArrayRef<Value> to) {
    SmallVector<Value> from(llvm::map_range(tiles, [&](Value tile) { return buffers.lookup(tile); }));
    for (size_t i = 1; i < from.size(); ++i)
      if (from[i] != to[i] && llvm::is_contained(to.take_front(i), from[i])) {
        Value kept = registers("kept", cast<TileType>(tiles[i].getType()));
        copyBuffer(from[i], kept);
        from[i] = kept;
      }
    for (auto [source, destination] : llvm::zip(from, to))
      copyBuffer(source, destination);
  }

  void fillBuffer(Value value, Value buffer) {
    forEachPlace(buffer, [&](Value, Value, Value, Value, SmallVector<Value> at) { set(value, buffer, at); });
  }

  /// All of it, or the column pairs `within` of an accumulator.
  void copyBuffer(Value from, Value to, std::optional<Range> within = {}) {
    assert((from == to || layoutOf(to).getRole() != FragmentRole::A) && "a product's left operand stays where it is");
    if (from != to)
      forEachPlace(
          to, [&](Value, Value, Value, Value, SmallVector<Value> at) { set(get(from, at), to, at); }, {}, within);
  }

  /// Column pairs of a lane that a map computes; nothing where these are all.
  static std::optional<Range> pairsOf(tile::MapOp map) {
    if (std::optional<ArrayRef<int64_t>> columns = map.getColumns())
      return Range{columns->front(), columns->back()}.by(8);
    return std::nullopt;
  }

  /// What `map` leaves as its first input has it, if it computes columns alone.
  void copyOtherColumns(tile::MapOp map, Value to) {
    if (std::optional<Range> computed = pairsOf(map))
      for (Range others : {Range{0, computed->begin}, Range{computed->end, laneShape(to)[1]}})
        copyBuffer(buffers.lookup(map.getInputs().front()), to, others);
  }

  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  LogicalResult expand(Operation *op) {
    loc = op->getLoc();
    if (auto chain = chains.find(op); chain != chains.end()) {
      expandChain(chain->second);
      return success();
    }
    if (chainEnds.contains(op))
      return success();
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case<sched::SendOp, sched::ReceiveOp>([&](auto message) {
          IRMapping with = mapping;
          with.map(message.getShared(), buffers.lookup(message.getShared()));
          Operation *copy = builder.clone(*message, with);
          mapping.map(message->getResults(), copy->getResults());
          return success();
        })
        .Case<tile::BlockIndexOp>([&](auto index) {
          mapping.map(index.getResult(), workBlock->getArgument(index.getPosition()));
          return success();
        })
        .Case<tile::SplatOp, tile::MapOp, tile::ReduceOp, tile::CombineLanesOp, tile::ConvertOp, tile::MmaOp,
              tile::DropoutOp, tile::AnyOp, tile::ScaleOp, tile::StoreOp, sched::SlotOp, sched::CopyTileOp,
              sched::StoreTileOp, sched::CopyWindowOp, sched::ForTilesOp, sched::RoleOp, sched::ForWorkOp,
              sched::MmaWaitOp, scf::IfOp>([&](auto tileOp) { return expandOp(tileOp); })
        .Case<sched::SharedOp>([&](auto shared) {
          Operation *buffer = builder.clone(*shared);
          buffer->getResult(0).setType(inPairs(shared.getResult().getType()));
          buffers.map(shared.getResult(), buffer->getResult(0));
          return success();
        })
        .Case<sched::ThreadIdOp>([&](auto id) {
          mapping.map(id.getResult(), workBlock ? thread : sched::ThreadIdOp::create(builder, loc).getResult());
          return success();
        })
        .Case<tile::PartRowOp>([&](auto part) {
          mapping.map(part.getResult(),
                      tile::named(add(mapping.lookup(part.getOrigin()), mul(group, part.getRows())), "own_row"));
          return success();
        })
        .Case<sched::NextVisibleOp>([&](auto search) {
          // Its region computes with scalars alone.
          builder.clone(*search, mapping);
          return success();
        })
        .Default([&](Operation *other) -> LogicalResult {
          if (other->getNumRegions() || llvm::any_of(other->getResultTypes(), llvm::IsaPred<TileType>))
            return other->emitError("cannot be scheduled for the mma.sync family");
          builder.clone(*other, mapping);
          return success();
        });
  }

  /// A tile that leaves the branch lies where it does on the other side, which computes nothing of its own.
  LogicalResult expandOp(scf::IfOp op) {
    if (op.elseBlock() && llvm::range_size(*op.elseBlock()) != 1)
      return op.emitError("computes on its other side, which is not supported here");
    const ValueRange stay = op.elseBlock() ? ValueRange(op.elseYield().getResults()) : ValueRange();
    LogicalResult result = success();
    onlyIf(mapping.lookup(op.getCondition()), [&] {
      for (Operation &inner : op.thenBlock()->without_terminator())
        if (failed(expand(&inner)))
          result = failure();
      if (failed(result))
        return;
      moveAll(op.thenYield().getResults(),
              llvm::map_to_vector(stay, [&](Value stays) { return buffers.lookup(stays); }));
    });
    for (auto [stays, left] : llvm::zip(stay, op.getResults()))
      buffers.map(left, buffers.lookup(stays));
    return result;
  }

  LogicalResult expandOp(tile::SplatOp op) {
    Value buffer = newBuffer(op.getResult()), value = mapping.lookup(op.getValue());
    fillBuffer(value, buffer);
    buffers.map(op.getResult(), buffer);
    return success();
  }

  /// (origin + the lane's part) + the place's part: the first sum is the same for all places, the second part a
  /// constant once loops are unrolled.
  Value floatCoordinate(Value origin, Value lanePart, Value placePart) {
    return arith::AddFOp::create(builder, loc, floatStart(origin, lanePart), toFloat(placePart));
  }
  Value floatStart(Value origin, Value lanePart) {
    Value start = toFloat(lanePart);
    return matchPattern(origin, m_AnyZeroFloat()) ? start : arith::AddFOp::create(builder, loc, origin, start);
  }
  Value toFloat(Value value) { return arith::SIToFPOp::create(builder, loc, builder.getF32Type(), value); }

  /// Element of column 8 j + 2 (lane % 4) + c of a vector that is spread over lanes; outside the loops over rows.
  Value columnElement(Value tile, Value j, Value c) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(cast<BlockArgument>(c).getOwner());
    StringRef name = tile::nameOf(tile);
    name.consume_front("column_");
    Value source = add(add(mul(rem(j, 4), 8), c), laneColumn);
    Value held = get(buffers.lookup(tile), div(j, 4));
    Value element = sched::ShuffleOp::create(builder, loc, held.getType(), held, source);
    return name.empty() ? element : tile::named(element, name);
  }

  /// The region of a map over one axis for the thread's element of pass i.
  void mapLane(tile::MapOp op, Value i, IRMapping &inner) {
    for (auto [axis, origin, argument] :
         llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(), op.getBody().getArguments()))
      inner.map(argument, tile::named(add(mapping.lookup(origin), laneElement(op.getResult(), i)), axis));
    for (Operation &nested : op.getBody().front().without_terminator())
      builder.clone(nested, inner);
  }

  /// Whether each thread holds elements of its own of a vector.
  static bool isByThread(FragmentRole role) { return role == FragmentRole::Lanes || role == FragmentRole::Threads; }

  /// Threads that hold a vector together: the lanes of a warp, or those of several.
  static int64_t threadsOf(Value buffer) {
    FragmentAttr layout = layoutOf(buffer);
    return layout.getRole() == FragmentRole::Threads ? 32 * layout.getWarps() : 32;
  }

  /// The thread's place among those that hold a vector. Several warps follow the role's first.
  Value threadAmong(int64_t threads) {
    return threads == 32 ? lane : tile::named(arith::SubIOp::create(builder, loc, thread, i32(32)), "storer");
  }

  /// The thread's element of the vector in pass i; in a ragged last one the vector's last in the threads beyond it.
  Value laneElement(Value vector, Value i) {
    const int64_t threads = threadsOf(vector), count = cast<TileType>(vector.getType()).getShape()[0];
    Value at = add(threadAmong(threads), mul(i, threads));
    const bool ragged = count % threads && getConstantIntValue(i) == count / threads;
    return ragged ? arith::MinSIOp::create(builder, loc, at, i32(count - 1)).getResult() : at;
  }

  /// Where warpgroups take turns, what is read by distance lies in pairs: beside the element of each distance that of
  /// the distance before, which belongs to the next column. A lane then reads its two columns of a row by one load; it
  /// reads before its turn, and others wait for it. Elsewhere the room is worth more.
  TileType inPairs(TileType type) {
    if (!type.hasAxis(tile::distanceAxis) || !plan.getTurns())
      return type;
    return TileType::make(
        type.getContext(),
        {{"stage", type.size("stage")}, {tile::distanceAxis, type.size(tile::distanceAxis) + 1}, {"pair", 2}},
        type.getElementType(), type.getSpace());
  }
  static bool isInPairs(Value shared) { return cast<TileType>(shared.getType()).hasAxis("pair"); }

  /// A tile that is read by distance, as the registers of a lane: on each column the lane meets new diagonals, as many
  /// as it has rows 8 apart on the first, one on each that follows.
  struct Diagonals {
    Value buffer, ring, stage, start;
  };

  /// The inputs that `op` reads by distance, with the diagonals before the first column.
  SmallVector<Diagonals> openDiagonals(tile::MapOp op) {
    SmallVector<Diagonals> all;
    for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments())) {
      auto type = cast<TileType>(input.getType());
      if (!tile::isByDistance(type) || argument.use_empty())
        continue;
      auto result = cast<TileType>(op.getResult().getType());
      auto [ring, stage] = slotOf(input);
      TileType held = fragmentType({{"q", result.size("q")}, {"k", result.size("k")}}, type.getElementType(),
                                   FragmentRole::Diagonals, rowWarps);
      StringRef name =
          cast<TileType>(ring.getType()).hasAxis("stage") ? ring.getDefiningOp<sched::SharedOp>().getName() : "";
      name.consume_back("_ring");
      Diagonals one{registers(("near_" + name).str(), held), ring, stage, {}};
      // row - column + columns - 1, of the lane's first row and column.
      Value first =
          arith::SubIOp::create(builder, loc, add(firstRow, laneRow), laneColumn, arith::IntegerOverflowFlags::nsw);
      one.start = tile::named(add(first, result.size("k") - 1), "first_distance");
      buffers.map(input, one.buffer);
      const int64_t before = laneShape(one.buffer)[0] - columnsOfLane(one.buffer);
      repeat(before, "n", [&](Value n) { loadDiagonal(one, n, before); });
      all.push_back(one);
    }
    return all;
  }

  /// The n-th of a lane's diagonals, from the least row of `before` + 1 in steps of 8, for both columns of the pair.
  void loadDiagonal(const Diagonals &of, Value n, int64_t before) {
    Value first =
        arith::SubIOp::create(builder, loc, add(of.start, 8 * before), mul(n, 8), arith::IntegerOverflowFlags::nsw);
    if (isInPairs(of.ring))
      return loadPair(of.ring, of.stage, first, i32(0), of.buffer, n);
    Type type = cast<TileType>(of.ring.getType()).getElementType();
    repeat(2, "e", [&](Value c) {
      Value distance = arith::SubIOp::create(builder, loc, first, c, arith::IntegerOverflowFlags::nsw);
      set(loadShared(type, of.ring, of.stage, i32(0), distance), of.buffer, {n, c});
    });
  }

  /// Two elements side by side, into [place][0] and [place][1].
  void loadPair(Value shared, Value stage, Value row, Value column, Value buffer, Value place) {
    Type type = cast<TileType>(shared.getType()).getElementType();
    auto pair = sched::LoadPairOp::create(builder, loc, type, type, shared, stage, row, column);
    for (auto [c, element] : llvm::enumerate(pair->getResults()))
      set(element, buffer, {place, i32(int64_t(c))});
  }

  /// What lies by column in shared memory, as the pair of a lane's columns beside each other.
  struct ColumnPair {
    Value buffer, ring, stage;
  };

  /// The inputs that `op` reads by column, each with registers for a pair.
  SmallVector<ColumnPair> openColumns(tile::MapOp op) {
    SmallVector<ColumnPair> all;
    for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments())) {
      auto type = cast<TileType>(input.getType());
      if (!inShared(input) || type.rank() != 1 || tile::isByDistance(type) || argument.use_empty())
        continue;
      auto [ring, stage] = slotOf(input);
      StringRef name = ring.getDefiningOp<sched::SharedOp>().getName();
      name.consume_front("column_");
      name.consume_back("_ring");
      TileType held = fragmentType({{type.axis(0), 8}}, type.getElementType(), FragmentRole::Columns, rowWarps);
      all.push_back({registers((name + "_pair").str(), held), ring, stage});
      columnPairs[input] = all.back().buffer;
    }
    return all;
  }

  void loadColumns(const ColumnPair &of, Value j) {
    loadPair(of.ring, of.stage, i32(0), columnInShare(j, i32(0)), of.buffer, i32(0));
  }

  /// A window of 16-bit elements, as `a` fragments of 16 columns: their pairs are those of a `c` fragment's place.
  struct Window {
    Value input, buffer;
  };

  SmallVector<Window> openWindows(tile::MapOp op) {
    SmallVector<Window> all;
    for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments())) {
      auto type = cast<TileType>(input.getType());
      if (!inShared(input) || type.rank() != 2 || type.getElementType().getIntOrFloatBitWidth() != 16 ||
          argument.use_empty())
        continue;
      TileType held =
          fragmentType({{"q", type.size("q")}, {"k", 16}}, type.getElementType(), FragmentRole::A, rowWarps);
      StringRef name = slotOf(input).first.getDefiningOp<sched::SharedOp>().getName();
      name.consume_back("_ring");
      all.push_back({input, registers((name + "_fragment").str(), held)});
      windows[input] = all.back().buffer;
    }
    return all;
  }

  /// The element of an input of a map at place (i, r, j, c).
  Value inputElement(Value input, Value i, Value r, Value j, Value c) {
    auto type = cast<TileType>(input.getType());
    if (!inShared(input) || tile::isByDistance(type))
      return element(input, i, r, j, c);
    if (type.rank() == 1)
      return get(columnPairs.lookup(input), {i32(0), c});
    if (Value fragment = windows.lookup(input)) {
      Value pair = sched::GetOp::create(builder, loc, builder.getI32Type(), fragment,
                                        ValueRange{i, i32(0), add(mul(rem(j, 2), 2), r)});
      return sched::UnpackOp::create(builder, loc, builder.getF32Type(), pair, c, type.getElementType());
    }
    auto [ring, stage] = slotOf(input);
    return loadShared(type.getElementType(), ring, stage, add(firstRow, laneRow), add(laneColumn, c),
                      add(mul(i, 16), mul(r, 8)), mul(j, 8));
  }

  /// What `region` takes of `mapping`, which holds as many values as the kernel has maps: a copy of all for each map is
  /// quadratic in a mask's terms.
  IRMapping mappingFor(Region &region) {
    IRMapping inner;
    region.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Value known = mapping.lookupOrNull(operand))
          inner.map(operand, known);
    });
    return inner;
  }

  /// The element of `op` at place (i, r, j, c).
  Value mapElement(tile::MapOp op, Value i, Value r, Value j, Value c) {
    IRMapping inner = mappingFor(op.getBody());
    for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments()))
      if (!argument.use_empty())
        inner.map(argument, inputElement(input, i, r, j, c));
    if (isByThread(layoutOf(op.getResult()).getRole())) {
      mapLane(op, i, inner);
      return inner.lookupOrDefault(op.getYield().getValues().front());
    }
    for (auto [axis, origin, argument] : llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(),
                                                   op.getBody().getArguments().drop_front(op.getInputs().size()))) {
      if (argument.use_empty())
        continue;
      if (origin.getType().isF32())
        inner.map(argument, axis == "q" ? floatCoordinate(mapping.lookup(origin), add(firstRow, laneRow),
                                                          add(mul(i, 16), mul(r, 8)))
                                        : floatCoordinate(mapping.lookup(origin), laneColumns(op), add(mul(j, 8), c)));
      else
        inner.map(argument,
                  tile::named(add(mapping.lookup(origin),
                                  axis == "q" ? rowInTile(i, r) : columnInTile(op.getResult().getType(), j, c)),
                              axis));
    }
    if (pacing)
      inner.map(pacing->operand.value, get(pacing->values, pacedAt(i, r)));
    for (Operation &nested : op.getBody().front().without_terminator()) {
      if (pacing && pacing->operand.value.getDefiningOp() == &nested)
        continue;
      if (auto compare = dyn_cast<arith::CmpIOp>(nested); compare && comparesColumn(op, compare))
        inner.map(compare.getResult(), columnComparison(op, compare, inner, j, c));
      else if (auto line = lineThroughColumns(op, nested))
        inner.map(nested.getResult(0), lineElement(op, *line, inner, j, c));
      else
        builder.clone(nested, inner);
    }
    return inner.lookupOrDefault(op.getYield().getValues().front());
  }

  /// The part of the columns' coordinate that differs from lane to lane.
  Value laneColumns(tile::MapOp op) {
    Value first = firstColumn(cast<TileType>(op.getResult().getType()));
    return first ? add(first, laneColumn) : laneColumn;
  }

  /// slope * (origin + column), `slope` being the same for all elements.
  struct Line {
    Value slope, origin;
  };

  std::optional<Line> lineThroughColumns(tile::MapOp op, Operation &nested) {
    auto product = dyn_cast<arith::MulFOp>(nested);
    if (!product || kernel.getPrecise() || layoutOf(op.getResult()).getRole() != FragmentRole::C)
      return std::nullopt;
    Block *body = &op.getBody().front();
    for (auto [axis, origin, argument] : llvm::zip(op.getAxes().getAsValueRange<StringAttr>(), op.getOrigins(),
                                                   body->getArguments().drop_front(op.getInputs().size())))
      for (auto [factor, other] :
           {std::pair(product.getLhs(), product.getRhs()), std::pair(product.getRhs(), product.getLhs())})
        if (other == argument && axis == "k" && factor.getParentBlock() != body)
          return Line{factor, origin};
    return std::nullopt;
  }

  /// One multiply-add, whose addend is the same for all columns of the lane.
  Value lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c) {
    Value slope = inner.lookupOrDefault(line.slope);
    Value addend = arith::MulFOp::create(builder, loc, slope, floatStart(mapping.lookup(line.origin), laneColumns(op)));
    return math::FmaOp::create(builder, loc, slope, toFloat(add(mul(j, 8), c)), addend);
  }

  /// Whether `compare` is one of a column of the tile, from 0 on, with a number of them in [0, tile_k].
  static bool comparesColumn(tile::MapOp op, arith::CmpIOp compare) {
    auto column = dyn_cast<BlockArgument>(compare.getLhs());
    if (!column || column != op.getCoordinate("k") || !matchPattern(op.originOf(column), m_Zero()) ||
        layoutOf(op.getResult()).getRole() != FragmentRole::C)
      return false;
    auto atLeast = compare.getRhs().getDefiningOp<arith::MaxSIOp>();
    auto atMost = atLeast && matchPattern(atLeast.getRhs(), m_Zero()) ? atLeast.getLhs().getDefiningOp<arith::MinSIOp>()
                                                                      : arith::MinSIOp();
    APInt most;
    return atMost && matchPattern(atMost.getRhs(), m_ConstantInt(&most)) &&
           most.getSExtValue() <= cast<TileType>(op.getResult().getType()).size("k");
  }

  /// The comparison with the lane's part on the side of the row, for all columns at once: what is left of a column is a
  /// constant, or a bit of the row's word.
  Value columnComparison(tile::MapOp op, arith::CmpIOp compare, const IRMapping &inner, Value j, Value c) {
    Location loc = compare.getLoc();
    if (Value below = columnsBelow.lookup(compare)) {
      Value is = sched::TestBitOp::create(builder, loc, builder.getI1Type(), below, add(mul(j, 2), c));
      return compare.getPredicate() == arith::CmpIPredicate::slt
                 ? is
                 : arith::XOrIOp::create(builder, loc, is, arith::ConstantIntOp::create(builder, loc, 1, 1));
    }
    return arith::CmpIOp::create(builder, loc, compare.getPredicate(), add(mul(j, 8), c),
                                 lanePart(op, compare, inner.lookupOrDefault(compare.getRhs())));
  }

  Value lanePart(tile::MapOp op, arith::CmpIOp compare, Value columns) {
    return arith::SubIOp::create(builder, compare.getLoc(), columns, laneColumns(op), arith::IntegerOverflowFlags::nsw);
  }

  /// Whether `user` cuts a row of `op` in two, and a word has a bit for each column of a lane.
  bool isCut(tile::MapOp op, Operation *user) {
    auto compare = dyn_cast<arith::CmpIOp>(user);
    return compare && plan.getCopyWarps() && cast<TileType>(op.getResult().getType()).size("k") <= 128 &&
           comparesColumn(op, compare) &&
           (compare.getPredicate() == arith::CmpIPredicate::slt ||
            compare.getPredicate() == arith::CmpIPredicate::sge) &&
           followsFromRow(op, compare.getRhs());
  }

  /// Whether a value of the map's body is the same for all columns.
  bool followsFromRow(tile::MapOp op, Value value) {
    return followsOnlyFrom(value, op.getBody().front(), [&](BlockArgument argument) {
      const unsigned index = argument.getArgNumber();
      if (index < op.getInputs().size())
        return !inShared(op.getInputs()[index]) &&
               layoutOf(buffers.lookup(op.getInputs()[index])).getRole() == FragmentRole::Rows;
      return argument == op.getCoordinate("q") && argument.getType().isInteger();
    });
  }

  /// What the region of `op` takes that is the same along a row, of row (i, r).
  IRMapping rowOf(tile::MapOp op, Value i, Value r) {
    IRMapping inner = mappingFor(op.getBody());
    for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments()))
      if (!argument.use_empty() && followsFromRow(op, argument))
        inner.map(argument, element(input, i, r, {}, {}));
    if (BlockArgument q = op.getCoordinate("q"); q && q.getType().isInteger())
      inner.map(q, tile::named(add(mapping.lookup(op.originOf(q)), rowInTile(i, r)), "q"));
    return inner;
  }

  /// The words of the cuts of `op` for row (i, r).
  void openCuts(tile::MapOp op, Value i, Value r) {
    Block *body = &op.getBody().front();
    auto compares = llvm::make_filter_range(body->getOps<arith::CmpIOp>(),
                                            [&](arith::CmpIOp compare) { return isCut(op, compare); });
    if (compares.empty())
      return;
    IRMapping inner = rowOf(op, i, r);
    for (arith::CmpIOp compare : compares) {
      if (Operation *row = compare.getRhs().getDefiningOp())
        cloneWithOperands(row, body, builder, inner);
      Value below = lanePart(op, compare, inner.lookupOrDefault(compare.getRhs()));
      columnsBelow[compare] =
          tile::named(sched::ColumnsBelowOp::create(builder, compare.getLoc(), builder.getI32Type(), below), "columns");
    }
  }

  //===--------------------------------------------------------------------===//
  // Paced maps
  //===--------------------------------------------------------------------===//

  /// What a paced map's elements follow from beside themselves, in registers: a value for each row, or one for all, in
  /// the place of the first.
  struct Pacing {
    PacedOperand operand;
    Value values;
  };

  SmallVector<Value> pacedAt(Value i, Value r) {
    return pacing->operand.byRow ? SmallVector<Value>{i, r} : SmallVector<Value>{i32(0), i32(0)};
  }

  void forEachPaced(function_ref<void(Value i, Value r)> body) {
    if (!pacing->operand.byRow)
      return body(i32(0), i32(0));
    forEachPlace(pacing->values, [&](Value i, Value r, Value, Value, SmallVector<Value>) { body(i, r); });
  }

  void openPacing(tile::MapOp op, const PacedOperand &operand) {
    const int64_t rows = cast<TileType>(op.getResult().getType()).getShape()[0];
    pacing = Pacing{
        operand, registers("paced", fragmentType({{"q", rows}}, builder.getF32Type(), FragmentRole::Rows, rowWarps))};
    forEachPaced([&](Value i, Value r) {
      IRMapping inner = rowOf(op, i, r);
      if (Operation *producer = operand.value.getDefiningOp())
        cloneWithOperands(producer, &op.getBody().front(), builder, inner);
      set(inner.lookupOrDefault(operand.value), pacing->values, {i, r});
    });
  }

  /// The next 16 columns behind the first element of columns 16 jj and on, or the first of each row.
  void pace(Value buffer, Value jj) {
    forEachPaced([&](Value i, Value r) {
      Value first = get(buffer, {i, mul(jj, 2), mul(r, 2)});
      set(sched::BehindOp::create(builder, loc, builder.getF32Type(), get(pacing->values, {i, r}), first),
          pacing->values, {i, r});
    });
  }

  //===--------------------------------------------------------------------===//
  // P on its way to the next product
  //===--------------------------------------------------------------------===//

  /// exp, its row sum, dropout and the conversion to an `a` fragment run block by block of 16 columns, so that each
  /// block's floats are free before the next block's fragment is needed. Not where the conversion stands behind a wait
  /// for an asynchronous product: the exponentials run beside that.
  struct ProbabilityChain {
    tile::MapOp exponent;
    tile::ReduceOp sum;
    tile::DropoutOp dropout;
    tile::ConvertOp convert;
  };

  /// The chain that starts at `map`, if what leaves it is the fragment and a carried sum alone.
  std::optional<ProbabilityChain> chainFrom(tile::MapOp map) {
    ProbabilityChain chain{map, {}, {}, {}};
    auto type = cast<TileType>(map.getResult().getType());
    if (type.rank() != 2 || map.getOnlyIf() || map.getPaced() ||
        cast<FragmentAttr>(type.getLayout()).getRole() != FragmentRole::C)
      return std::nullopt;
    for (Operation *user : map.getResult().getUsers()) {
      if (user->getBlock() != map->getBlock())
        return std::nullopt;
      if (auto sum = dyn_cast<tile::ReduceOp>(user); sum && sum.getPerLane() && !chain.sum)
        chain.sum = sum;
      else if (auto dropout = dyn_cast<tile::DropoutOp>(user); dropout && !chain.dropout)
        chain.dropout = dropout;
      else if (auto convert = dyn_cast<tile::ConvertOp>(user); convert && !chain.convert)
        chain.convert = convert;
      else
        return std::nullopt;
    }
    if (chain.dropout) {
      if (chain.convert || !chain.dropout.getResult().hasOneUse())
        return std::nullopt;
      chain.convert = dyn_cast<tile::ConvertOp>(*chain.dropout.getResult().getUsers().begin());
    }
    if (!chain.sum || !chain.convert || chain.sum.getResult().getType().getElementType() != builder.getF32Type() ||
        cast<TileType>(chain.convert.getResult().getType()).getElementType().isF32() ||
        !chain.sum->isBeforeInBlock(chain.convert))
      return std::nullopt;
    for (Operation *user : chain.sum.getResult().getUsers())
      if (user->getBlock() != map->getBlock() || user->isBeforeInBlock(chain.convert))
        return std::nullopt;
    for (Operation *op = map; op != chain.convert; op = op->getNextNode())
      if (isa<sched::MmaWaitOp>(op))
        return std::nullopt;
    return chain;
  }

  void expandChain(const ProbabilityChain &chain) {
    tile::MapOp map = chain.exponent;
    tile::ReduceOp sum = chain.sum;
    tile::ConvertOp convert = chain.convert;
    Value scores = bufferFor(convert, map.getResult(), map.getInputs());
    Value init = sum.getInit(), total = bufferFor(convert, sum.getResult(), init ? ValueRange(init) : ValueRange());
    if (init)
      copyBuffer(buffers.lookup(init), total);
    else
      fillBuffer(f32(0), total);
    Value fragment = newBuffer(convert.getResult());
    SmallVector<int64_t> shape = laneShape(fragment);
    std::optional<DropoutState> dropout;
    if (chain.dropout)
      dropout = prepareDropout(chain.dropout);
    auto blocks = [&](Range sixteens, bool computes) {
      repeat(sixteens, "kk", [&](Value kk) {
        repeat(shape[0], "i", [&](Value i) {
          repeat(2, "half", [&](Value half) {
            repeat(2, "r", [&](Value r) {
              repeat(2, "e", [&](Value c) {
                Value j = add(mul(kk, 2), half);
                SmallVector<Value> at{i, j, add(mul(r, 2), c)};
                Value p = computes ? mapElement(map, i, r, j, c) : get(scores, at);
                if (computes)
                  set(p, scores, at);
                set(combine(tile::Reduction::Sum, get(total, {i, r}), p), total, {i, r});
              });
            });
          });
          if (dropout)
            dropBlock(*dropout, scores, scores, i, kk);
          packBlock(convert, scores, fragment, i, kk);
        });
      });
    };
    const std::optional<Range> pairs = pairsOf(map);
    const Range computed = pairs ? pairs->by(2) : Range{0, shape[1]};
    copyOtherColumns(map, scores);
    blocks({0, computed.begin}, false);
    blocks(computed, true);
    blocks({computed.end, shape[1]}, false);
    buffers.map(map.getResult(), scores);
    buffers.map(sum.getResult(), total);
    buffers.map(convert.getResult(), fragment);
    if (chain.dropout)
      buffers.map(tile::DropoutOp(chain.dropout).getResult(), scores);
  }

  /// Whether a vector has an element of every 32 columns in each lane.
  bool isSpread(Value vector) {
    return !inShared(vector) && layoutOf(buffers.lookup(vector)).getRole() == FragmentRole::Lanes;
  }

  /// Whether an element depends on its column, and on more than which side of a cut it is on: on the coordinate or on a
  /// vector along the columns.
  bool readsColumns(tile::MapOp op) {
    const unsigned inputs = op.getInputs().size();
    return llvm::any_of(op.getBody().getArguments(), [&](BlockArgument argument) {
      const unsigned index = argument.getArgNumber();
      if (argument.use_empty())
        return false;
      if (index < inputs)
        return inShared(op.getInputs()[index]) ||
               layoutOf(buffers.lookup(op.getInputs()[index])).getRole() == FragmentRole::Columns;
      return cast<StringAttr>(op.getAxes()[index - inputs]) != "q" &&
             !llvm::all_of(argument.getUsers(), [&](Operation *user) { return isCut(op, user); });
    });
  }

  LogicalResult expandOp(tile::MapOp op) {
    if (std::optional<ProbabilityChain> chain = chainFrom(op)) {
      // Written where the chain ends: what it needs stands before, and nothing reads its parts until then.
      for (Operation *part : {chain->exponent.getOperation(), chain->sum.getOperation(), chain->dropout.getOperation()})
        if (part)
          chainEnds[part] = chain->convert;
      chains[chain->convert] = *chain;
      return success();
    }
    const std::optional<PacedOperand> paced = op.getPaced() ? pacedOperand(op) : std::nullopt;
    if (op.getPaced() && !paced)
      return op.emitError("is paced, for which it needs one tanh or exp2 of its element, by way of an op of that and "
                          "of what is the same along a row, and a multiple of 16 columns");
    // What it leaves as it is comes from the first input, which another one's place is not free for.
    Value buffer = bufferFor(op, op.getResult(),
                             op.isWhole() ? ValueRange(op.getInputs()) : ValueRange(op.getInputs()).take_front(1));
    if (op.getOnlyIf() && !op.getInputs().empty())
      copyBuffer(buffers.lookup(op.getInputs().front()), buffer);
    else
      copyOtherColumns(op, buffer);
    // A load's offset along a column serves four rows at once and dies, where row by row all columns' offsets stay
    // alive. So does what a score or mask makes of a column, beside warpgroup-level products; beside others, ptxas puts
    // row by row to better use. What lanes exchange serves four rows too.
    const bool exchanges = llvm::any_of(op.getInputs(), [&](Value input) { return isSpread(input); });
    const bool columnsOutside = !op.getBody().getOps<tile::ElementOp>().empty() || exchanges || paced ||
                                (plan.getCopyWarps() && readsColumns(op));
    auto write = [&] {
      if (paced)
        openPacing(op, *paced);
      SmallVector<Diagonals> byDistance = openDiagonals(op);
      SmallVector<ColumnPair> byColumn = openColumns(op);
      SmallVector<Window> read = openWindows(op);
      auto loadWindows = [&](Value jj) {
        for (const Window &one : read)
          loadLeftFragments(one.input, one.buffer, jj, i32(0));
      };
      auto loadColumn = [&](Value j) {
        for (const ColumnPair &one : byColumn)
          loadColumns(one, j);
        for (const Diagonals &one : byDistance) {
          const int64_t before = laneShape(one.buffer)[0] - columnsOfLane(one.buffer);
          loadDiagonal(one, add(j, before), before);
        }
      };
      auto element = [&](Value i, Value r, Value j, Value c, SmallVector<Value> at) {
        set(mapElement(op, i, r, j, c), buffer, at);
      };
      auto paceNext = [&](Value jj) { pace(buffer, jj); };
      if (columnsOutside && layoutOf(buffer).getRole() == FragmentRole::C)
        forEachColumn(buffer, pairsOf(op), element, loadColumn,
                      read.empty() ? function_ref<void(Value)>() : loadWindows,
                      pacing ? paceNext : function_ref<void(Value)>());
      else
        forEachPlace(buffer, element, [&](Value i, Value r) { openCuts(op, i, r); }, pairsOf(op));
      columnsBelow.clear();
      pacing.reset();
    };
    if (op.getOnlyIf())
      onlyIf(mapping.lookup(op.getOnlyIf()), write);
    else
      write();
    buffers.map(op.getResult(), buffer);
    return success();
  }

  /// Flags are or-ed over a lane's share, then voted on by the warp.
  LogicalResult expandOp(tile::AnyOp op) {
    Value buffer = buffers.lookup(op.getTile());
    Value any = arith::ConstantIntOp::create(builder, loc, 0, 1);
    // A vector over rows is short: its places are written out, not looped over.
    SmallVector<int64_t> shape = laneShape(buffer);
    if (layoutOf(buffer).getRole() != FragmentRole::Rows)
      return op.emitError("only vectors over q are supported here");
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t r = 0; r < shape[1]; ++r) {
        IRMapping inner = mappingFor(op.getBody());
        inner.map(op.getBody().getArgument(0), get(buffer, {i32(i), i32(r)}));
        for (Operation &nested : op.getBody().front().without_terminator())
          builder.clone(nested, inner);
        Value flag =
            inner.lookupOrDefault(cast<tile::YieldOp>(op.getBody().front().getTerminator()).getValues().front());
        any = arith::OrIOp::create(builder, loc, any, flag);
      }
    mapping.map(op.getResult(), tile::named(sched::AnyLaneOp::create(builder, loc, builder.getI1Type(), any),
                                            tile::nameOf(op.getResult())));
    return success();
  }

  Value combine(tile::Reduction kind, Value a, Value b) {
    if (kind == tile::Reduction::Max)
      return arith::MaxNumFOp::create(builder, loc, a, b);
    return arith::AddFOp::create(builder, loc, a, b);
  }

  /// Combines `value` over the four lanes of a quad, which share a row.
  Value combineQuad(tile::Reduction kind, Value value) {
    for (int64_t mask : {1, 2})
      value = combine(kind, value, sched::ShuffleXorOp::create(builder, loc, value.getType(), value, mask));
    return value;
  }

  LogicalResult expandOp(tile::ReduceOp op) {
    if (op.getAxis() != "k" || layoutOf(buffers.lookup(op.getTile())).getRole() != FragmentRole::C)
      return op.emitError("only reductions over k of an accumulator are supported here");
    bool isMax = op.getKind() == tile::Reduction::Max;
    Value source = buffers.lookup(op.getTile());
    Value buffer = bufferFor(op, op.getResult(), op.getInit() ? ValueRange(op.getInit()) : ValueRange());
    int64_t columns = laneShape(source)[1];
    forEachPlace(buffer, [&](Value i, Value r, Value, Value, SmallVector<Value> at) {
      // A sum over all lanes takes its initial value once: after the lanes are combined.
      bool initFirst = op.getInit() && (isMax || op.getPerLane());
      Value init = op.getInit() ? get(buffers.lookup(op.getInit()), at) : Value();
      Value neutral = f32(isMax ? -std::numeric_limits<float>::infinity() : 0.0f);
      set(initFirst ? init : neutral, buffer, at);
      // A column pair first, then the running value: half as long a chain of dependent ops.
      repeat(columns, "j", [&](Value j) {
        Value first = get(source, {i, j, mul(r, 2)}), second = get(source, {i, j, add(mul(r, 2), 1)});
        set(combine(op.getKind(), get(buffer, at), combine(op.getKind(), first, second)), buffer, at);
      });
      if (op.getPerLane())
        return;
      Value total = combineQuad(op.getKind(), get(buffer, at));
      if (init && !initFirst)
        total = combine(op.getKind(), total, init);
      set(total, buffer, at);
    });
    buffers.map(op.getResult(), buffer);
    return success();
  }

  LogicalResult expandOp(tile::CombineLanesOp op) {
    Value buffer = bufferFor(op, op.getResult(), op.getTile()), source = buffers.lookup(op.getTile());
    forEachPlace(buffer, [&](Value, Value, Value, Value, SmallVector<Value> at) {
      set(combineQuad(op.getKind(), get(source, at)), buffer, at);
    });
    buffers.map(op.getResult(), buffer);
    return success();
  }

  LogicalResult expandOp(tile::ConvertOp op) {
    auto type = cast<TileType>(op.getResult().getType());
    Value buffer = newBuffer(op.getResult());
    buffers.map(op.getResult(), buffer);
    if (layoutOf(buffer).getRole() != FragmentRole::A)
      return op.emitError("only conversions to an a fragment are supported here");
    SmallVector<int64_t> shape = laneShape(buffer);
    if (inShared(op.getTile())) {
      if (type.getElementType().isF32())
        loadLeftFloats(op.getTile(), buffer);
      else
        repeat(shape[1], "kk", [&](Value kk) { loadLeftFragments(op.getTile(), buffer, kk, kk); });
      return success();
    }
    Value source = buffers.lookup(op.getTile());
    repeat(shape[0], "i",
           [&](Value i) { repeat(shape[1], "kk", [&](Value kk) { packBlock(op, source, buffer, i, kk); }); });
    return success();
  }

  /// Columns 16 kk and on (8 kk for f32) of rows i, from a `c` to an `a` fragment.
  void packBlock(tile::ConvertOp op, Value source, Value fragment, Value i, Value kk) {
    Type element = cast<TileType>(op.getResult().getType()).getElementType();
    repeat(4, "e", [&](Value e) {
      Value row = rem(e, 2), half = div(e, 2);
      if (element.isF32()) {
        set(get(source, {i, kk, add(mul(row, 2), half)}), fragment, {i, kk, e});
        return;
      }
      Value j = add(mul(kk, 2), half);
      Value low = get(source, {i, j, mul(row, 2)}), high = get(source, {i, j, add(mul(row, 2), 1)});
      set(sched::PackOp::create(builder, loc, builder.getI32Type(), low, high, element), fragment, {i, kk, e});
    });
  }

  /// Stage of a slot's ring, and the ring's buffer.
  std::pair<Value, Value> slotOf(Value tile) {
    if (auto scale = tile.getDefiningOp<tile::ScaleOp>())
      tile = scale.getTile();
    auto slot = tile.getDefiningOp<sched::SlotOp>();
    assert(slot && "shared tiles are slots of rings once copies are pipelined");
    return {buffers.lookup(slot.getRing()), mapping.lookup(slot.getStage())};
  }

  /// ldmatrix of the warp's rows of a left operand: columns 16 kk and on, into fragment column `to`.
  void loadLeftFragments(Value tile, Value fragment, Value kk, Value to) {
    auto [ring, stage] = slotOf(tile);
    repeat(warpRows / 16, "i", [&](Value i) {
      Value row = add(firstRow, rem(lane, 16)), column = mul(div(lane, 16), 8);
      sched::LoadMatrixOp::create(builder, loc, ring, stage, row, column, mul(i, 16), mul(kk, 16), fragment, i, to,
                                  false);
    });
  }

  /// The float of a shared left operand at place (i, kk, e) of an `a` fragment.
  Value leftFloat(Value tile, Value i, Value kk, Value e) {
    auto [ring, stage] = slotOf(tile);
    return loadShared(builder.getF32Type(), ring, stage, rowInTile(i, rem(e, 2)), columnInShare(kk, div(e, 2)));
  }

  void loadLeftFloats(Value tile, Value fragment) {
    SmallVector<int64_t> shape = laneShape(fragment);
    repeat(shape[0], "i", [&](Value i) {
      repeat(shape[1], "kk", [&](Value kk) {
        repeat(shape[2], "e", [&](Value e) { set(leftFloat(tile, i, kk, e), fragment, {i, kk, e}); });
      });
    });
  }

  LogicalResult expandOp(tile::MmaOp op) {
    auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
    // The right operand is read as stored when its last axis is contracted (K), transposed when its first is (V).
    bool transpose = lhs.hasAxis(rhs.axis(0));
    if (!inShared(op.getRhs()) || lhs.axis(1) != rhs.axis(transpose ? 0 : 1))
      return op.emitError("needs a right operand in shared memory and a left operand contracted along its second axis");
    Value acc = op.getAcc() ? bufferFor(op, op.getResult(), op.getAcc()) : newBuffer(op.getResult());
    buffers.map(op.getResult(), acc);
    if (plan.getCopyWarps()) {
      if (op.getAcc())
        copyBuffer(buffers.lookup(op.getAcc()), acc);
      multiplyAsync(op, acc, transpose);
      return success();
    }
    if (op.getAcc())
      copyBuffer(buffers.lookup(op.getAcc()), acc);
    else
      fillBuffer(f32(0), acc);
    if (lhs.getElementType().isF32())
      multiplyTf32(op, acc, transpose);
    else
      multiply16(op, acc, transpose);
    return success();
  }

  /// m64nNk16 by each warpgroup: one instruction for each 16 of the contracted axis, all columns at once.
  void multiplyAsync(tile::MmaOp op, Value acc, bool transpose) {
    auto lhs = cast<TileType>(op.getLhs().getType());
    auto [ring, stage] = slotOf(op.getRhs());
    bool leftShared = inShared(op.getLhs());
    Value isTrue = arith::ConstantIntOp::create(builder, loc, 1, 1);
    sched::MmaFenceOp::create(builder, loc);
    repeat(lhs.getShape()[1] / 16, "kk", [&](Value kk) {
      Value along = mul(kk, 16), left;
      SmallVector<Value> at;
      if (leftShared) {
        auto [leftRing, leftStage] = slotOf(op.getLhs());
        left = queryBuffer = leftRing;
        at = {leftStage, warpgroupRow(), along};
      } else {
        left = buffers.lookup(op.getLhs());
        at = {i32(0), kk};
      }
      Value more =
          op.getAcc() ? isTrue : Value(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, kk, i32(0)));
      Value zero = i32(0);
      sched::MmaAsyncOp::create(builder, loc, acc, left, at, ring, stage, transpose ? along : zero,
                                transpose ? zero : along, more, transpose);
    });
    sched::MmaCommitOp::create(builder, loc);
    if (!op->hasAttr(sched::asyncAttr))
      sched::MmaWaitOp::create(builder, loc, 0,
                               leftShared ? ValueRange(acc) : ValueRange({acc, buffers.lookup(op.getLhs())}));
  }

  /// First row of the warpgroup's 64.
  /// The named barrier of a warpgroup's own.
  Value warpgroupBarrier() { return add(group, 1); }
  Value warpgroupRow() { return tile::named(mul(group, 64), "warpgroup_row"); }

  LogicalResult expandOp(sched::MmaWaitOp op) {
    SmallVector<Value> complete;
    for (Value tile : op.getCompletes())
      complete.push_back(buffers.lookup(tile));
    sched::MmaWaitOp::create(builder, loc, op.getPending(), complete);
    return success();
  }

  /// m16n8k16: for each 16 of the contracted axis, the left fragments, then 16 columns of the right operand at a time.
  void multiply16(tile::MmaOp op, Value acc, bool transpose) {
    auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
    auto [ring, stage] = slotOf(op.getRhs());
    // The warp's share of the columns starts with a panel: the swizzle of a step from there is an exclusive or.
    auto accType = cast<TileType>(acc.getType());
    int64_t columns = accType.getShape()[1] / layoutOf(acc).getColumnWarps();
    Value first = firstColumn(accType);
    bool leftShared = inShared(op.getLhs());
    std::string name = tile::nameOf(op.getRhs()).take_until([](char c) { return c == '_'; }).str();
    if (name.empty())
      name = transpose ? "v" : "k";
    Value left = leftShared ? registers("q_fragment", fragmentType({{"q", plan.getTileQ()}, {"d", 16}},
                                                                   lhs.getElementType(), FragmentRole::A, rowWarps))
                            : buffers.lookup(op.getLhs());
    Value right =
        registers(name + "_fragment", fragmentType({{"n", 16}, {"d", 16}}, rhs.getElementType(), FragmentRole::B, 1));
    repeat(lhs.getShape()[1] / 16, "kk", [&](Value kk) {
      if (leftShared)
        loadLeftFragments(op.getLhs(), left, kk, i32(0));
      repeat(columns / 16, "nn", [&](Value nn) {
        // Rows and columns of the four 8 x 8 matrices: see ldmatrix; r0 r1 are the first eight columns, r2 r3 the next.
        Value low = rem(lane, 8), second = rem(div(lane, 8), 2), upper = div(lane, 16);
        Value row = add(mul(transpose ? second : upper, 8), low), column = mul(transpose ? upper : second, 8);
        if (first)
          (transpose ? column : row) = add(first, transpose ? column : row);
        sched::LoadMatrixOp::create(builder, loc, ring, stage, row, column, mul(transpose ? kk : nn, 16),
                                    mul(transpose ? nn : kk, 16), right, i32(0), i32(0), transpose);
        repeat(2, "n", [&](Value n) {
          repeat(warpRows / 16, "i", [&](Value i) {
            sched::MmaOp::create(builder, loc, acc, i, add(mul(nn, 2), n), left, i, leftShared ? i32(0) : kk, right, n,
                                 i32(0));
          });
        });
      });
    });
  }

  /// Three m16n8k8 products of tf32 halves: big x small, small x big, big x big. The instruction truncates when it
  /// accumulates, so that each eight products are summed on their own and added to the accumulator with rounding.
  void multiplyTf32(tile::MmaOp op, Value acc, bool transpose) {
    auto lhs = cast<TileType>(op.getLhs().getType());
    auto [ring, stage] = slotOf(op.getRhs());
    auto accType = cast<TileType>(acc.getType());
    int64_t columns = accType.getShape()[1] / layoutOf(acc).getColumnWarps();
    Value first = firstColumn(accType);
    Type bits = builder.getI32Type();
    TileType leftType = fragmentType({{"q", plan.getTileQ()}, {"d", 8}}, bits, FragmentRole::A, rowWarps);
    TileType rightType = fragmentType({{"n", 8}, {"d", 8}}, bits, FragmentRole::B, 1);
    Value leftBig = registers("a_big", leftType), leftSmall = registers("a_small", leftType);
    Value rightBig = registers("b_big", rightType), rightSmall = registers("b_small", rightType);
    Value partial = registers(
        "partial", fragmentType({{"q", 16 * rowWarps}, {"n", 8}}, builder.getF32Type(), FragmentRole::C, rowWarps));
    Value zero = f32(0);
    auto split = [&](Value value, Value big, Value small, ValueRange at) {
      auto parts = sched::SplitTf32Op::create(builder, loc, bits, bits, value);
      set(parts.getBig(), big, at);
      set(parts.getSmall(), small, at);
    };
    repeat(lhs.getShape()[1] / 8, "kk", [&](Value kk) {
      repeat(warpRows / 16, "i", [&](Value i) {
        repeat(4, "e", [&](Value e) {
          Value value =
              inShared(op.getLhs()) ? leftFloat(op.getLhs(), i, kk, e) : get(buffers.lookup(op.getLhs()), {i, kk, e});
          split(value, leftBig, leftSmall, {i, i32(0), e});
        });
      });
      repeat(columns / 8, "nn", [&](Value nn) {
        repeat(2, "e", [&](Value e) {
          Value across = add(mul(nn, 8), laneRow), along = columnInShare(kk, e);
          if (first)
            across = add(first, across);
          Value row = transpose ? along : across, column = transpose ? across : along;
          Value value = loadShared(builder.getF32Type(), ring, stage, row, column);
          split(value, rightBig, rightSmall, {i32(0), i32(0), e});
        });
        repeat(warpRows / 16, "i", [&](Value i) {
          repeat(4, "e", [&](Value e) { set(zero, partial, {i32(0), i32(0), e}); });
          for (auto [a, b] :
               {std::pair(leftBig, rightSmall), std::pair(leftSmall, rightBig), std::pair(leftBig, rightBig)})
            sched::MmaOp::create(builder, loc, partial, i32(0), i32(0), a, i, i32(0), b, i32(0), i32(0));
          repeat(4, "e", [&](Value e) {
            Value sum = arith::AddFOp::create(builder, loc, get(acc, {i, nn, e}), get(partial, {i32(0), i32(0), e}));
            set(sum, acc, {i, nn, e});
          });
        });
      });
    });
  }

  /// What all blocks of a tile share.
  struct DropoutState {
    Value key0, key1, offsetLow, head, highThreshold, rowBlock, columnBlock;
  };

  DropoutState prepareDropout(tile::DropoutOp op) {
    Value seed = mapping.lookup(op.getSeed()), offset = mapping.lookup(op.getOffset());
    Type word = builder.getI32Type();
    auto low = [&](Value v) { return arith::TruncIOp::create(builder, loc, word, v); };
    auto high = [&](Value v) {
      Value shift = arith::ConstantIntOp::create(builder, loc, 32, 64);
      return arith::TruncIOp::create(builder, loc, word, arith::ShRUIOp::create(builder, loc, v, shift));
    };
    DropoutState state;
    Value key0 = low(seed), key1 = arith::XOrIOp::create(builder, loc, high(seed), high(offset));
    if (tile::storedColumns(kernel) > 64) {
      // A zero that the device compiler does not see through: beside a wide O it shall compute Philox's 14 round keys
      // for each tile, not keep them in registers through the loop.
      Value zero = tile::named(div(sched::ReadThreadIdOp::create(builder, loc, word), 1024), "zero");
      key0 = arith::AddIOp::create(builder, loc, key0, zero);
      key1 = arith::AddIOp::create(builder, loc, key1, zero);
    }
    state.key0 = tile::named(key0, "key0");
    state.key1 = tile::named(key1, "key1");
    state.offsetLow = tile::named(low(offset), "offset_low");
    state.head = mapping.lookup(op.getHead());
    state.highThreshold =
        tile::named(arith::ShLIOp::create(builder, loc, mapping.lookup(op.getThreshold()), i32(16)), "high_threshold");
    // q / 16 and k / 16 are whole: origins and a warp's rows are multiples of 16.
    state.rowBlock = div(add(mapping.lookup(op.getQ0()), firstRow), 16);
    state.columnBlock = div(mapping.lookup(op.getK0()), 16);
    return state;
  }

  /// One Philox call serves the eight elements that a lane holds of the 16 x 16 block (i, jj) (see tile.dropout).
  void dropBlock(const DropoutState &state, Value source, Value buffer, Value i, Value jj) {
    Type word = builder.getI32Type();
    Value zero = f32(0);
    Value c0 = add(mul(add(state.rowBlock, i), 8), laneRow);
    Value c1 = add(mul(add(state.columnBlock, jj), 4), quad);
    auto random = sched::PhiloxOp::create(builder, loc, word, word, word, word, c0, c1, state.head, state.offsetLow,
                                          state.key0, state.key1);
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t n = 0; n < 2; ++n)
        for (int64_t r = 0; r < 2; ++r) {
          Value bits = random->getResult(2 * c + n);
          // The half is compared in the high bits: low bits below an equal high half do not decide r >= T.
          Value number = r ? bits : Value(arith::ShLIOp::create(builder, loc, bits, i32(16)));
          Value keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, number, state.highThreshold);
          SmallVector<Value> at{i, add(mul(jj, 2), n), i32(2 * r + c)};
          set(arith::SelectOp::create(builder, loc, keep, get(source, at), zero), buffer, at);
        }
  }

  LogicalResult expandOp(tile::DropoutOp op) {
    Value source = buffers.lookup(op.getTile()), buffer = bufferFor(op, op.getResult(), op.getTile());
    DropoutState state = prepareDropout(op);
    SmallVector<int64_t> shape = laneShape(buffer);
    repeat(shape[0], "i",
           [&](Value i) { repeat(shape[1] / 2, "jj", [&](Value jj) { dropBlock(state, source, buffer, i, jj); }); });
    buffers.map(op.getResult(), buffer);
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  LogicalResult expandOp(sched::SlotOp op) {
    return success(op.getResult().getType().getSpace() == MemorySpace::Shared);
  }

  /// A view without its leading dimensions, made once for each head, before any loop.
  Value slice(Value view, ValueRange indices, StringRef name) {
    SmallVector<Value> leading;
    for (Value index : indices.drop_back())
      leading.push_back(mapping.lookup(index));
    Value source = mapping.lookup(view);
    for (auto &[key, known] : slices)
      if (key.first == source && key.second == leading)
        return known;
    OpBuilder::InsertionGuard guard(builder);
    Operation *anchor = builder.getInsertionBlock()->getParentOp();
    while (builder.getInsertionBlock() != workBlock) {
      builder.setInsertionPoint(anchor);
      anchor = anchor->getParentOp();
    }
    auto type = cast<tile::ViewType>(source.getType());
    auto resultType = tile::ViewType::get(type.getContext(), type.getRank() - leading.size(), type.getElementType());
    Value result = tile::named(sched::SliceOp::create(builder, loc, resultType, source, leading), name);
    slices.push_back({{source, leading}, result});
    return result;
  }

  /// Calls `body(row, column, inside)` for each of this thread's 16-byte chunks of a tile of `rows` x `columns`
  /// elements; `inside` is null unless the last pass is ragged.
  void forEachChunk(int64_t rows, int64_t columns, int64_t elementBytes, function_ref<void(Value, Value, Value)> body) {
    int64_t perChunk = 16 / elementBytes, chunks = columns / perChunk, threads = warps * 32, total = rows * chunks;
    repeat(llvm::divideCeil(total, threads), "copy", [&](Value pass) {
      Value row, chunk, inside;
      if (threads % chunks == 0) {
        row = add(div(thread, chunks), mul(pass, threads / chunks));
        chunk = chunks == 1 ? i32(0) : rem(thread, chunks);
        if (rows % (threads / chunks))
          inside = below(row, i32(rows));
      } else {
        Value flat = add(thread, mul(pass, threads));
        row = div(flat, chunks);
        chunk = rem(flat, chunks);
        if (total % threads)
          inside = below(flat, i32(total));
      }
      body(tile::named(add(row, i32(0)), "row"), tile::named(mul(chunk, perChunk), "column"), inside);
    });
  }

  LogicalResult expandOp(sched::CopyTileOp op) {
    Value ring = buffers.lookup(op.getShared()), stage = mapping.lookup(op.getStage());
    auto type = cast<TileType>(ring.getType());
    if (op.getRing())
      return copyByEngine(op, ring, stage);
    int64_t rows = type.getShape()[1], columns = type.getShape()[2];
    int64_t viewColumns = tile::operandOf(op.getView()).getColumns();
    Value view = slice(op.getView(), op.getIndices(), (tile::nameOf(op.getView()) + "_head").str());
    Value row0 = mapping.lookup(op.getIndices().back()), limit = mapping.lookup(op.getLimit());
    forEachChunk(rows, columns, type.getElementType().getIntOrFloatBitWidth() / 8,
                 [&](Value row, Value column, Value inside) {
                   auto copy = [&] {
                     Value viewRow = add(row0, row);
                     Value valid = below(viewRow, limit);
                     if (viewColumns < columns)
                       valid = arith::AndIOp::create(builder, loc, valid, below(column, i32(viewColumns)));
                     sched::CopyAsyncOp::create(builder, loc, view, viewRow, column, ring, stage, row, valid);
                   };
                   inside ? onlyIf(inside, copy) : copy();
                 });
    return success();
  }

  /// By the copy engine or element by element; leading indices are clamped.
  LogicalResult expandOp(sched::CopyWindowOp op) {
    Value view = mapping.lookup(op.getView()), stage = mapping.lookup(op.getStage());
    const int64_t rank = op.getView().getType().getRank();
    SmallVector<Value> leading;
    for (int64_t dim = 0; dim < rank - 2; ++dim) {
      Value extent = sched::ExtentOp::create(builder, loc, builder.getI32Type(), view, dim);
      Value last = arith::SubIOp::create(builder, loc, extent, i32(1), arith::IntegerOverflowFlags::nsw);
      Value nearest = arith::MinSIOp::create(builder, loc, mapping.lookup(op.getIndices()[dim]), last);
      leading.push_back(arith::MaxSIOp::create(builder, loc, nearest, i32(0)));
    }
    Value row = mapping.lookup(op.getIndices()[rank - 2]), column = mapping.lookup(op.getIndices()[rank - 1]);
    Value buffer = buffers.lookup(op.getShared()), ring = mapping.lookup(op.getRing());
    if (!op.getMap()) {
      copyByElements(view, leading, row, column, buffer, stage, ring);
      return success();
    }
    leading.insert(leading.begin(), 4 - rank, i32(0));
    loadBoxes(mapping.lookup(op.getMap()), leading[0], leading[1], row, column, buffer, stage, ring);
    return success();
  }

  /// By the role's threads from 64 on, with clamped rows and columns; one of them arrives for all.
  void copyByElements(Value view, ArrayRef<Value> leading, Value row0, Value column0, Value shared, Value stage,
                      Value ring) {
    constexpr int64_t copiers = 64, unrolled = 4, copiersBarrier = 15;
    auto type = cast<TileType>(shared.getType());
    Type element = type.getElementType();
    const int64_t rows = type.getShape()[1], columns = type.getShape()[2];
    auto plane =
        sched::SliceOp::create(builder, loc, tile::ViewType::get(builder.getContext(), 2, element), view, leading);
    Value copier = tile::named(rem(thread, copiers), "copier");
    // Words of the copiers, some of them unrolled.
    const int64_t width = 32 / element.getIntOrFloatBitWidth(), words = columns / width,
                  passes = rows * words / copiers;
    const int64_t inner = passes % unrolled ? 1 : unrolled;
    auto outer = scf::ForOp::create(builder, loc, i32(0), i32(passes / inner), i32(1));
    outer->setAttr(tile::nameAttr, builder.getStringAttr("copy"));
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(outer.getBody());
      repeat(inner, "n", [&](Value n) {
        Value flat = add(mul(add(mul(outer.getInductionVar(), inner), n), copiers), copier);
        Value row = div(flat, words), column = mul(rem(flat, words), width);
        SmallVector<Value> values;
        for (int64_t c = 0; c < width; ++c)
          values.push_back(tile::ElementOp::create(builder, loc, builder.getF32Type(), plane,
                                                   ValueRange{add(row0, row), add(column0, add(column, c))},
                                                   ArrayRef<bool>{false, false}));
        Value word =
            width == 1
                ? values[0]
                : Value(sched::PackOp::create(builder, loc, builder.getI32Type(), values[0], values[1], element));
        sched::StoreSharedOp::create(builder, loc, word, shared, stage, row, column);
      });
    }
    sched::SyncWarpsOp::create(builder, loc, i32(copiersBarrier), copiers);
    onlyIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, copier, i32(0)),
           [&] { sched::CommitOp::create(builder, loc, ring, stage); });
  }

  /// A tile that the threads of copy warps hold.
  LogicalResult expandOp(sched::StoreTileOp op) {
    Value source = buffers.lookup(op.getTile()), shared = buffers.lookup(op.getShared()),
          stage = mapping.lookup(op.getStage());
    const int64_t count = op.getTile().getType().getShape()[0], threads = threadsOf(op.getTile());
    // The last pass is ragged.
    const bool pairs = isInPairs(shared);
    Value own = threadAmong(threads);
    auto store = [&](Value i) {
      Value element = get(source, i), place = add(own, mul(i, threads));
      if (!pairs)
        return void(sched::StoreSharedOp::create(builder, loc, element, shared, stage, i32(0), place));
      sched::StoreSharedOp::create(builder, loc, element, shared, stage, place, i32(0));
      sched::StoreSharedOp::create(builder, loc, element, shared, stage, add(place, 1), i32(1));
    };
    repeat(count / threads, "i", store);
    if (count % threads)
      onlyIf(below(own, i32(count % threads)), [&] { store(i32(count / threads)); });
    return success();
  }

  /// The launch's description of `view`, once a kernel: boxes of `rows` x a panel of `swizzle`.
  Value tensorMap(Value view, int64_t rows, sched::SwizzleAttr swizzle) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(
        &builder.getInsertionBlock()->getParent()->getParentOfType<sched::KernelOp>().getBody().front());
    return sched::describe(builder, loc, view.getDefiningOp<tile::ParamOp>(), rows, swizzle);
  }

  /// One box for each panel of the tile; the stage is full when all of their bytes are there.
  LogicalResult copyByEngine(sched::CopyTileOp op, Value buffer, Value stage) {
    auto type = cast<TileType>(buffer.getType());
    auto swizzle = cast<sched::SwizzleAttr>(type.getLayout());
    Value map = tensorMap(op.getView(), type.getShape()[1], swizzle), ring = mapping.lookup(op.getRing());
    SmallVector<Value> at;
    for (Value index : op.getIndices())
      at.push_back(mapping.lookup(index));
    loadBoxes(map, at[0], at[1], at[2], /*column0=*/{}, buffer, stage, ring);
    return success();
  }

  /// The boxes of a stage's panels, from column `column0` of the tensor on or, where that is null, its first.
  void loadBoxes(Value map, Value batch, Value head, Value row, Value column0, Value buffer, Value stage, Value ring) {
    auto type = cast<TileType>(buffer.getType());
    const int64_t columns = cast<sched::TensorMapType>(map.getType()).getColumns();
    sched::ExpectBytesOp::create(builder, loc, type.bytes() / type.getShape()[0], ring, stage);
    for (int64_t column = 0; column < type.getShape()[2]; column += columns)
      sched::LoadBoxOp::create(builder, loc, map, batch, head, row, i32(column), buffer, stage, ring,
                               column0 ? add(column0, column) : Value());
  }

  /// In place, each warpgroup the rows that its products read.
  LogicalResult expandOp(tile::ScaleOp op) {
    auto [shared, stage] = slotOf(op.getTile());
    const int64_t columns = cast<TileType>(shared.getType()).getShape()[2], chunks = columns / 8;
    Value own = rem(thread, 128), row0 = warpgroupRow();
    repeat(64 * chunks / 128, "n", [&](Value n) {
      Value flat = add(mul(n, 128), own);
      sched::ScaleSharedOp::create(builder, loc, shared, stage, add(row0, div(flat, chunks)), mul(rem(flat, chunks), 8),
                                   op.getExponent());
    });
    sched::FenceAsyncOp::create(builder, loc);
    sched::SyncWarpsOp::create(builder, loc, warpgroupBarrier(), 128);
    return success();
  }

  LogicalResult expandOp(tile::StoreOp op) {
    if (cast<TileType>(op.getTile().getType()).rank() == 1)
      return storeRows(op);
    return plan.getCopyWarps() ? storeByEngine(op) : storeThroughShared(op);
  }

  /// The thread of a warpgroup that copies boxes waits until they have been read.
  void waitForBoxes(Value threadId) {
    Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(threadId, 128), i32(0));
    onlyIf(first, [&] { sched::WaitBoxesOp::create(builder, loc, 0); });
  }

  /// Through shared memory, where each warpgroup writes its own rows: over those of Q that it alone has read, or, in a
  /// persistent block, over those of the tile before once they have been read.
  LogicalResult storeByEngine(tile::StoreOp op) {
    Value buffer = buffers.lookup(op.getTile());
    auto type = cast<TileType>(op.getTile().getType());
    Type element = cast<tile::ViewType>(op.getView().getType()).getElementType();
    TileType sharedType = stagedType(type, element);
    auto queries = cast<TileType>(queryBuffer.getType());
    Value shared;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfterValue(queryBuffer);
      shared = sched::SharedOp::create(builder, loc, sharedType, "o_tile",
                                       !plan.getPersistent() && sharedType.bytes() <= queries.bytes() &&
                                               sharedType.getLayout() == queries.getLayout()
                                           ? queryBuffer
                                           : Value());
    }
    Value barrier = warpgroupBarrier();
    if (plan.getPersistent()) {
      waitForBoxes(thread);
      sched::SyncWarpsOp::create(builder, loc, barrier, 128);
    }
    writeMatrices(buffer, shared);
    sched::FenceAsyncOp::create(builder, loc);
    sched::SyncWarpsOp::create(builder, loc, barrier, 128);
    Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rem(thread, 128), i32(0));
    Value map = tensorMap(op.getView(), 64, cast<sched::SwizzleAttr>(sharedType.getLayout()));
    SmallVector<Value> at;
    for (Value index : op.getIndices())
      at.push_back(mapping.lookup(index));
    onlyIf(first, [&] {
      Value row = warpgroupRow();
      for (int64_t column = 0; column < tile::operandOf(op.getView()).getColumns();
           column += cast<sched::TensorMapType>(map.getType()).getColumns())
        sched::StoreBoxOp::create(builder, loc, shared, i32(0), row, map, at[0], at[1], add(at[2], row), i32(column));
      sched::CommitBoxesOp::create(builder, loc);
      if (!plan.getPersistent())
        sched::WaitBoxesOp::create(builder, loc, 0);
    });
    return success();
  }

  /// An output tile in shared memory.
  TileType stagedType(TileType type, Type element) {
    int64_t rowBytes = type.getShape()[1] * element.getIntOrFloatBitWidth() / 8;
    return TileType::make(kernel.getContext(),
                          {{"stage", 1}, {type.axis(0), type.getShape()[0]}, {type.axis(1), type.getShape()[1]}},
                          element, MemorySpace::Shared, sched::SwizzleAttr::widest(kernel.getContext(), rowBytes));
  }

  /// The 16-bit elements of a `c` fragment into a staged tile: of two j, four matrices of 8 x 8 by one
  /// `sched.store_matrix`. Lane l gives a place in row l % 16, of the first j in lanes 0 to 15. What is left of an odd
  /// number of j goes by pairs.
  void writeMatrices(Value buffer, Value shared) {
    Type element = cast<TileType>(shared.getType()).getElementType();
    SmallVector<int64_t> shape = laneShape(buffer);
    Value half = div(lane, 16), rowOfLane = rem(lane, 16);
    repeat(shape[0], "i", [&](Value i) {
      repeat(shape[1] / 2, "jj", [&](Value jj) {
        Value matrices[4];
        for (int m = 0; m < 4; ++m) {
          Value j = add(mul(jj, 2), m / 2), low = get(buffer, {i, j, i32(m % 2 * 2)}),
                high = get(buffer, {i, j, i32(m % 2 * 2 + 1)});
          matrices[m] = sched::PackOp::create(builder, loc, builder.getI32Type(), low, high, element);
        }
        Value row = add(add(firstRow, rowOfLane), mul(i, 16)), column = add(mul(jj, 16), mul(half, 8));
        sched::StoreMatrixOp::create(builder, loc, matrices[0], matrices[1], matrices[2], matrices[3], shared, i32(0),
                                     row, column);
      });
    });
    if (shape[1] % 2)
      writeFragments(buffer, shared, shape[1] - 1);
  }

  /// A `c` fragment into a staged tile, two columns at a time, from one j on.
  void writeFragments(Value buffer, Value shared, int64_t firstJ = 0) {
    Type element = cast<TileType>(shared.getType()).getElementType();
    Value stage = i32(0);
    SmallVector<int64_t> shape = laneShape(buffer);
    repeat(shape[0], "i", [&](Value i) {
      repeat(2, "r", [&](Value r) {
        repeat(shape[1] - firstJ, "j", [&](Value fromFirst) {
          Value j = add(fromFirst, firstJ);
          Value row = rowInTile(i, r), column = columnInTile(cast<TileType>(buffer.getType()), j, i32(0));
          Value first = get(buffer, {i, j, mul(r, 2)}), second = get(buffer, {i, j, add(mul(r, 2), 1)});
          if (element.isF32()) {
            sched::StoreSharedOp::create(builder, loc, first, shared, stage, row, column);
            sched::StoreSharedOp::create(builder, loc, second, shared, stage, row, add(column, 1));
            return;
          }
          Value pair = sched::PackOp::create(builder, loc, builder.getI32Type(), first, second, element);
          sched::StoreSharedOp::create(builder, loc, pair, shared, stage, row, column);
        });
      });
    });
  }

  /// One float a row, by the first lane of its quad.
  LogicalResult storeRows(tile::StoreOp op) {
    Value buffer = buffers.lookup(op.getTile());
    Value view = mapping.lookup(op.getView());
    auto write = [&] {
      Value rows = slice(op.getView(), op.getIndices(), (tile::nameOf(op.getView()) + "_head").str());
      Value firstLane = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, quad, i32(0));
      // Warps that split the columns of O hold the same rows: the first of them writes.
      if (dvWarp)
        firstLane = arith::AndIOp::create(
            builder, loc, firstLane, arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, dvWarp, i32(0)));
      forEachPlace(buffer, [&](Value i, Value r, Value, Value, SmallVector<Value> at) {
        Value row = tile::named(add(mapping.lookup(op.getIndices().back()), rowInTile(i, r)), "row");
        Value inside = below(row, mapping.lookup(op.getLimit()));
        onlyIf(arith::AndIOp::create(builder, loc, firstLane, inside),
               [&] { sched::StoreElementOp::create(builder, loc, get(buffer, at), rows, row); });
      });
    };
    if (!op.getOptional()) {
      write();
      return success();
    }
    Value present =
        arith::XOrIOp::create(builder, loc, sched::IsNullOp::create(builder, loc, builder.getI1Type(), view),
                              arith::ConstantIntOp::create(builder, loc, 1, 1));
    onlyIf(present, write);
    return success();
  }

  /// Fragments hold pairs of columns; through shared memory each thread writes 16 contiguous bytes.
  LogicalResult storeThroughShared(tile::StoreOp op) {
    Value buffer = buffers.lookup(op.getTile());
    auto type = cast<TileType>(op.getTile().getType());
    Type element = cast<tile::ViewType>(op.getView().getType()).getElementType();
    int64_t rows = type.getShape()[0], bytes = element.getIntOrFloatBitWidth() / 8;
    Value shared = sched::SharedOp::create(builder, loc, stagedType(type, element), "o_tile");
    writeFragments(buffer, shared);
    sched::BarrierOp::create(builder, loc);
    Value view = slice(op.getView(), op.getIndices(), (tile::nameOf(op.getView()) + "_head").str());
    Value row0 = mapping.lookup(op.getIndices().back()), limit = mapping.lookup(op.getLimit());
    forEachChunk(rows, tile::operandOf(op.getView()).getColumns(), bytes, [&](Value row, Value column, Value inside) {
      Value viewRow = add(row0, row);
      Value valid = below(viewRow, limit);
      if (inside)
        valid = arith::AndIOp::create(builder, loc, inside, valid);
      onlyIf(valid, [&] { sched::CopyToGlobalOp::create(builder, loc, shared, row, column, view, viewRow); });
    });
    return success();
  }

  LogicalResult expandOp(sched::ForTilesOp op) {
    SmallVector<Value> inits, carried;
    for (Value init : op.getInits())
      inits.push_back(mapping.lookup(init));
    for (Value tile : op.getTiles()) {
      Value buffer = buffers.lookup(tile);
      if (!tile.hasOneUse()) {
        Value copy = newBuffer(tile);
        copyBuffer(buffer, copy);
        buffer = copy;
      }
      carried.push_back(buffer);
    }
    auto loop =
        sched::ForTilesOp::create(builder, loc, inits, mapping.lookup(op.getBound()), ValueRange{}, op.getKeeps());
    loop->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    mapping.map(op.getKept(), loop.getKept());
    auto arguments = op.getBody().getArguments();
    for (auto [old, fresh] : llvm::zip(arguments, loop.getBody().getArguments()))
      mapping.map(old, fresh);
    for (auto [argument, buffer] : llvm::zip(arguments.drop_front(inits.size()), carried))
      buffers.map(argument, buffer);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&loop.getBody().front());
      for (Operation &inner : op.getBody().front().without_terminator())
        if (failed(expand(&inner)))
          return failure();
      OperandRange values = op.getNext().getValues();
      moveAll(values.drop_front(inits.size()), carried);
      SmallVector<Value> next;
      for (Value value : values.take_front(inits.size()))
        next.push_back(mapping.lookup(value));
      sched::NextOp::create(builder, loc, next);
    }
    for (auto [result, buffer] : llvm::zip(op.getResults().take_front(carried.size()), carried))
      buffers.map(result, buffer);
    return success();
  }

  tile::KernelOp kernel;
  StringRef arch;
  tile::PlanAttr plan;
  OpBuilder builder;
  Location loc;
  int64_t warps, rowWarps, warpRows;
  Block *workBlock = nullptr;
  Value queryBuffer; ///< shared memory of Q, once a product has read it
  Value thread, lane, laneRow, laneColumn, quad, firstRow, dvWarp;
  Value group;       ///< warpgroup of the role
  IRMapping mapping; ///< scalars and views
  IRMapping buffers; ///< tiles to the buffers that hold them
  SmallVector<std::pair<std::pair<Value, SmallVector<Value>>, Value>> slices;
  llvm::DenseMap<Operation *, Operation *> chainEnds; ///< of the other parts of chains: where they are written
  std::optional<Pacing> pacing;                       ///< of the map at hand
  llvm::DenseMap<Operation *, Value> columnsBelow; ///< comparisons of columns, to the word of the row that is at hand
  llvm::DenseMap<Value, Value> columnPairs;        ///< what is read by column, to the pair that is at hand
  llvm::DenseMap<Value, Value> windows;            ///< of 16-bit elements, to the fragments that they are read by
  llvm::DenseMap<Operation *, ProbabilityChain> chains; ///< by the op that ends them
};

struct TileToSched : attune::impl::TileToSchedBase<TileToSched> {
  using TileToSchedBase::TileToSchedBase;

  void runOnOperation() override {
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>()))
      if (failed(KernelExpander(kernel, arch).run()))
        return signalPassFailure();
  }
};

} // namespace
