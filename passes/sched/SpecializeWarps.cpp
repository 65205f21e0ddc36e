//===- SpecializeWarps.cpp - One role copies, the other computes -------------===//
//
// The kernel's loads become rings that a producer role fills by the copy engine and a consumer role reads:
//
//     producer (4 warps, of which the first copies)      consumers (the plan's warps)
//     -------------------------------------------        ------------------------------------
//     copy Q, say whose it is                            wait Q, read whose it is
//     for tiles n:                                       for tiles n:
//       acquire K stage; copy K(n)                         wait K stage; S = Q K(n); release it
//       acquire V stage; copy V(n)                         softmax
//                                                          wait V stage; O += P V(n); release it
//
// What the loop computes by distance and converts to shared memory is a ring too: the producer's second warp computes
// it, or all from the second on, and stores it to the ring's stages. What it reads by key, as ids, the first warp
// stores beside K, and both are one stage. Windows of captured tensors are rings too, which the first warp copies to
// between K and V where the launch has described the tensors to the copy engine, and else the last two warps.
//
// All walk the same tiles and the same stages; a warpgroup passes over those that show its own rows nothing
// (tile.for_blocks, within). Where the next tile follows from a search, the producer's first warp searches, ahead of
// its copies, and sends all others what it found: with Q the first tile, with K(n) the tile after n and whether the
// mask decides within n. Warps of the producer that follow it so empty the rings of Q and K with the consumers. One of
// them then copies V: between K(n) and K(n+1) the first warp would wait for the consumers to be done with V, and the
// search for the next tile of work would begin only when they are nearly out of tiles. Registers move from the producer
// to the consumers. Persistent blocks do this for one tile of work after another: the rings of K and V go on where they
// stopped, Q is a ring too, and the producer runs ahead.
//
// Which tiles of work a block has follows from its index where arithmetic says how long each takes: every warp of the
// producer finds them for itself. Where the tiles of keys follow from a search, it is in memory, and blocks that are
// free claim the next tile. One warp of a block must do so, and its first warp sends its tiles of work to all others
// anyway. The claim stands where a tile of work begins, as what is sent says whether another one follows; it is beside
// the search, which waits for memory too.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Cloning.h"
#include "passes/analysis/CostModel.h"
#include "passes/analysis/Dependences.h"
#include "passes/analysis/TileSequence.h"
#include "passes/analysis/WarpgroupRows.h"
#include "passes/sched/NamedBarriers.h"
#include "passes/sched/WorkOrder.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace attune {
#define GEN_PASS_DEF_SPECIALIZEWARPS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

class WarpSpecializer {
public:
  WarpSpecializer(tile::KernelOp kernel, tile::ForBlocksOp loop)
      : kernel(kernel), loop(loop), builder(kernel), loc(loop.getLoc()), plan(kernel.getPlan()) {}

  LogicalResult run() {
    Block &body = kernel.getBody().front();
    SmallVector<Operation *> original;
    for (Operation &op : body)
      original.push_back(&op);
    for (auto load : body.getOps<tile::LoadOp>())
      if (isCopied(load))
        once.push_back({load});
    for (auto load : loop.getBody().front().getOps<tile::LoadOp>())
      if (isCopied(load))
        streamed.push_back({load});
    if (once.empty() || streamed.empty())
      return kernel.emitError() << "copies " << once.size() << " tiles before its loop over tiles and "
                                << streamed.size() << " in it; warps are specialised around one of each at least";
    for (auto convert : loop.getBody().front().getOps<tile::ConvertOp>())
      if (tile::isStaged(convert))
        (tile::isByDistance(convert.getResult().getType()) ? staged : columns).push_back({convert});
    for (auto window : loop.getBody().front().getOps<tile::WindowOp>())
      windows.push_back({window});
    sharesWindows = !windows.empty() && llvm::none_of(windows, [](const Ring &ring) {
      return followsBatch(cast<tile::WindowOp>(ring.tile));
    });

    auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
    claims = plan.getPersistent() && tile::findOperand(kernel, tile::workCounter);
    if (!staged.empty()) // all by the same warps
      storingWarps =
          cast<sched::FragmentAttr>(cast<tile::ConvertOp>(staged.front().tile).getTile().getType().getLayout())
              .getWarps();
    valuesApart = domain.skips() && staged.empty();
    const int64_t followers =
        domain.skips() ? valuesApart + storingWarps + (windows.empty() ? 0 : plan.getCopyWarps() - firstWindowWarp) : 0;

    builder.setInsertionPointToStart(&body);
    for (Ring &ring : once) // what follows the tiles of work reads the messages with the first
      declare(ring, plan.getQStages(), /*filledBy=*/1,
              /*emptiedBy=*/plan.getWarps() + (&ring == &once.front() ? followers : 0));
    for (Ring &ring : streamed) {
      const bool ofKeys = &ring == &streamed.front(), withColumns = ofKeys && !columns.empty();
      const int64_t readers = plan.getWarps() + (ofKeys ? followers : 0);
      declare(ring, plan.getStages(), /*filledBy=*/withColumns ? 33 : 1,
              /*emptiedBy=*/withColumns ? 32 * readers : readers);
    }
    // Every lane arrives for what it has written.
    for (Ring &ring : staged)
      declare(ring, plan.getStages(), /*filledBy=*/32 * storingWarps, plan.getWarps());
    for (Ring &ring : windows)
      declare(ring, plan.getStages(), /*filledBy=*/1, plan.getWarps());
    for (Ring &ring : columns) {
      ring.buffer = declareBuffer(ring, plan.getStages());
      ring.barriers = streamed.front().barriers;
    }
    describeWindows();
    if (!loop.getWithin().empty())
      ownBegin = loop.getWithin()[0].getDefiningOp<tile::FirstVisibleOp>();
    if (ownBegin && ownBegin.getDomain() == loop.getDomain())
      return ownBegin.emitError("asks the domain of the block's tiles, which says nothing about a part of the rows; "
                                "ask one that follows from tile.part_row");
    if (plan.getPersistent() || domain.skips())
      tasks =
          declareMessages("tasks", plan.getQStages(), taskPlaceFields() + (domain.skips() ? 1 : 0) + searchedParts());
    if (domain.skips())
      visits = declareMessages("visits", plan.getStages(), 2);
    initialise();
    RoleRegisters registers = roleRegisters(int(plan.getWarps()), int(plan.getCopyWarps()), domain.skips(),
                                            int(staged.size() + 2 * windows.size()),
                                            warpgroupTileRegisters(plan.getTileK(), tile::storedColumns(kernel)));
    Block *producer = role("producer", plan.getCopyWarps(), registers.producer);
    Block *consumer = role("consumer", plan.getWarps(), registers.consumer);
    if (failed(writeProducer(producer, original)))
      return failure();
    // When the consumers' ops run says nothing of what the producer computes for them.
    producer->walk([](Operation *op) { op->removeAttr(sched::atAttr); });
    builder.setInsertionPointToStart(consumer);
    auto [work, numbers] = plan.getPersistent() ? receivedWork() : numberedWork(WorkOrder::Deal::Once);
    for (Operation *op : original)
      op->moveBefore(&work.getBody().front(), work.getBody().front().end());
    return writeConsumer(work, numbers, original);
  }

private:
  /// A load, or the conversion of what is computed to a shared tile.
  struct Ring {
    Operation *tile;
    Value buffer = {}, barriers = {}, map = {};

    Value value() const { return tile->getResult(0); }
  };
  /// Where a role is in a ring: the stage, and the parity of its walks over the stages.
  struct Position {
    Value stage, phase;
  };

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  static bool isCopied(tile::LoadOp load) { return load.getResult().getType().getSpace() == tile::MemorySpace::Shared; }

  /// Where the producer tells what is in each stage of a ring.
  Value declareMessages(StringRef name, int64_t stages, int64_t fields) {
    const int64_t room = fields <= 2 ? 2 : int64_t(llvm::alignTo(fields, 4));
    auto type = TileType::make(builder.getContext(), {{"stage", stages}, {"message", 1}, {"field", room}},
                               builder.getI32Type(), tile::MemorySpace::Shared);
    return sched::SharedOp::create(builder, loc, type, name);
  }

  /// Room for `stages` of what the ring holds.
  Value declareBuffer(const Ring &ring, int64_t stages) {
    auto type = cast<TileType>(ring.value().getType());
    SmallVector<StringAttr> axes{builder.getStringAttr("stage")};
    SmallVector<int64_t> shape{stages};
    llvm::append_range(axes, type.getAxes());
    llvm::append_range(shape, type.getShape());
    auto ringType =
        TileType::get(type.getContext(), axes, shape, type.getElementType(), type.getSpace(), type.getLayout());
    return sched::SharedOp::create(builder, ring.tile->getLoc(), ringType,
                                   (stages > 1 ? stemOf(ring) + "_ring" : tile::nameOf(ring.value())).str());
  }

  static StringRef stemOf(const Ring &ring) {
    StringRef stem = tile::nameOf(ring.value());
    stem.consume_back("_tile");
    return stem;
  }

  void declare(Ring &ring, int64_t stages, int64_t filledBy, int64_t emptiedBy) {
    ring.buffer = declareBuffer(ring, stages);
    ring.barriers =
        sched::RingOp::create(builder, ring.tile->getLoc(), sched::RingType::get(builder.getContext(), stages),
                              (stemOf(ring) + "_barriers").str(), 0, filledBy, emptiedBy);
  }

  /// Whether the place along the grid's first axis, of batches, decides what a window shows.
  static bool followsBatch(tile::WindowOp window) {
    auto isBatch = [](Operation *op) {
      auto index = dyn_cast<tile::BlockIndexOp>(op);
      return index && index.getPosition() == 0;
    };
    return llvm::any_of(window.getIndices(), [&](Value index) { return followsFrom(index, isBatch); });
  }

  /// The tensor maps of windows, and whether all are mapped: then the copy engine copies them.
  void describeWindows() {
    for (Ring &ring : windows) {
      auto window = cast<tile::WindowOp>(ring.tile);
      TileType type = window.getResult().getType();
      ring.map = sched::describe(builder, window.getLoc(), window.getView().getDefiningOp<tile::ParamOp>(),
                                 type.getShape()[0], cast<sched::SwizzleAttr>(type.getLayout()));
      Value is = sched::IsMappedOp::create(builder, window.getLoc(), builder.getI1Type(), ring.map);
      mapped = mapped ? Value(arith::AndIOp::create(builder, window.getLoc(), mapped, is)) : is;
    }
    if (mapped)
      tile::named(mapped, "mapped");
  }

  /// One thread makes the barriers; nobody goes on before.
  void initialise() {
    Value thread = sched::ThreadIdOp::create(builder, loc);
    Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, i32(0));
    onlyIf(first, [&] {
      for (Ring &ring : llvm::concat<Ring>(once, streamed, staged, windows))
        sched::InitRingOp::create(builder, loc, ring.barriers);
      sched::FenceInitOp::create(builder, loc);
    });
    sched::BarrierOp::create(builder, loc);
  }

  Block *role(StringRef name, int64_t warps, int64_t registers) {
    auto role = sched::RoleOp::create(builder, loc, name, warps, builder.getI64IntegerAttr(registers));
    return &role.getBody().emplaceBlock();
  }

  /// The next stage of a ring, and the phase that goes with it.
  Position advance(Position at, int64_t stages) {
    Value one = i32(1), flipped = arith::XOrIOp::create(builder, loc, at.phase, one);
    if (stages == 1)
      return {at.stage, tile::named(flipped, "next_phase")};
    Value following = arith::AddIOp::create(builder, loc, at.stage, one);
    Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, following, i32(stages));
    return {tile::named(arith::SelectOp::create(builder, loc, wraps, i32(0), following), "next_stage"),
            tile::named(arith::SelectOp::create(builder, loc, wraps, flipped, at.phase), "next_phase")};
  }

  /// The tiles of work of a role, and what computes where they are and which come next.
  struct Work {
    sched::ForWorkOp loop;
    WorkOrder numbers;
  };

  /// Persistent blocks carry where the rings of K and V are.
  SmallVector<Value> ringStart() { return plan.getPersistent() ? SmallVector<Value>(2, i32(0)) : SmallVector<Value>(); }

  WorkOrder workOrder(WorkOrder::Deal deal) {
    return {builder,
            loc,
            kernel.getGrid(),
            {deal, plan.getLongestFirst(), sharesWindows && deal != WorkOrder::Deal::Claims}};
  }

  Work numberedWork(WorkOrder::Deal deal) {
    WorkOrder numbers = workOrder(deal);
    if (deal == WorkOrder::Deal::Once)
      return {sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Grid), numbers};
    numbers.prepare();
    Value first = numbers.first();
    auto loop =
        sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Persistent, first, numbers.total(), ringStart());
    loop->setAttr(tile::namesAttr, builder.getStrArrayAttr({"number", "count", "first_stage", "first_phase"}));
    return {loop, numbers};
  }

  Work receivedWork() {
    auto loop = sched::ForWorkOp::create(builder, loc, sched::WorkOrder::Received, Value(), Value(), ringStart());
    loop->setAttr(tile::namesAttr, builder.getStrArrayAttr({"count", "first_stage", "first_phase"}));
    return {loop, workOrder(WorkOrder::Deal::Once)};
  }

  /// Where the rings of K and V are when a tile of work begins.
  Position start(sched::ForWorkOp work) {
    if (!plan.getPersistent())
      return {i32(0), i32(0)};
    return {work.getCarried()[0], work.getCarried()[1]};
  }

  /// Where the ring of Q is: count mod stages, and the parity of count / stages.
  Position queryPosition(sched::ForWorkOp work) {
    if (!plan.getPersistent())
      return {i32(0), i32(0)};
    Value count = work.getCount(), stages = i32(plan.getQStages());
    Value walks = arith::DivUIOp::create(builder, loc, count, stages);
    return {tile::named(arith::RemUIOp::create(builder, loc, count, stages), "q_stage"),
            tile::named(arith::AndIOp::create(builder, loc, walks, i32(1)), "q_phase")};
  }

  /// The end of a tile of work whose loop over K and V is `tiles`; `following` is the number of the next, or says
  /// whether a received one has a next.
  void nextWork(sched::ForWorkOp work, sched::ForTilesOp tiles, Value following) {
    if (!plan.getPersistent())
      return;
    builder.setInsertionPointToEnd(&work.getBody().front());
    SmallVector<Value> next{following};
    for (Value position : tiles.getKept().slice(1, 2))
      next.push_back(sched::UniformOp::create(builder, loc, position.getType(), position));
    sched::NextOp::create(builder, loc, next);
  }

  void nameCarried(sched::ForTilesOp tiles) {
    static constexpr StringRef names[] = {"tile", "stage", "phase", "origin", "visible", "full"};
    tiles->setAttr(tile::namesAttr, builder.getStrArrayAttr(ArrayRef(names).take_front(tiles.getInits().size())));
  }

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// The first warp copies; where tiles are computed, the next ones compute them; where the first one searches, the
  /// second copies V. All walk the same tiles.
  LogicalResult writeProducer(Block *block, ArrayRef<Operation *> original) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    Value thread = sched::ThreadIdOp::create(builder, loc);
    // Other warps, by a comparison of their number. They stand before the first, the one with the most to hold: it need
    // not keep the number for them.
    auto others = [&](arith::CmpIPredicate which, int64_t number, Value also, function_ref<LogicalResult()> walk) {
      OpBuilder::InsertionGuard guard(builder);
      Value warp = arith::DivUIOp::create(builder, loc, thread, i32(32));
      Value are = arith::CmpIOp::create(builder, loc, which, warp, i32(number));
      if (also)
        are = arith::AndIOp::create(builder, loc, are, also);
      LogicalResult result = success();
      onlyIf(are, [&] { result = walk(); });
      return result;
    };
    if (!staged.empty() &&
        failed(others(storingWarps == 1 ? arith::CmpIPredicate::eq : arith::CmpIPredicate::sge, 1, {}, [&] {
          return walkTiles(original, /*before=*/{},
                           [&](IRMapping &mapping, Position at, ArrayRef<Value>) { computeStaged(mapping, at); });
        })))
      return failure();
    if (valuesApart && failed(others(arith::CmpIPredicate::eq, 1, {}, [&] {
          Value one = tile::named(sched::ElectOp::create(builder, loc, builder.getI1Type()), "elected");
          return walkTiles(original, /*before=*/{}, [&](IRMapping &mapping, Position at, ArrayRef<Value>) {
            onlyIf(one, [&] {
              for (Ring &ring : MutableArrayRef<Ring>(streamed).drop_front())
                copyStreamed(ring, mapping, at);
            });
          });
        })))
      return failure();
    if (!windows.empty()) {
      Value unmapped = arith::XOrIOp::create(builder, loc, mapped, arith::ConstantIntOp::create(builder, loc, 1, 1));
      auto copyEach = [&](IRMapping &mapping, Position at, ArrayRef<Value>) {
        auto copyAll = [&] {
          for (Ring &ring : windows)
            copyWindow(ring, mapping, at, /*map=*/{});
        };
        if (visits)
          onlyIf(unmapped, copyAll);
        else
          copyAll();
      };
      // Warps that empty the rings of Q and K walk the tiles in any case.
      if (failed(others(arith::CmpIPredicate::sge, firstWindowWarp, visits ? Value() : unmapped,
                        [&] { return walkTiles(original, /*before=*/{}, copyEach); })))
        return failure();
    }
    Value firstWarp = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, thread, i32(32));
    auto copies = scf::IfOp::create(builder, loc, firstWarp, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(copies.thenBlock());
    Value one = tile::named(sched::ElectOp::create(builder, loc, builder.getI1Type()), "elected");
    auto copyOnce = [&](IRMapping &mapping, Position query, ArrayRef<Value> place, Value first,
                        ArrayRef<Value> begins) {
      SmallVector<Value> task(place);
      if (visits)
        task.push_back(first);
      llvm::append_range(task, begins);
      onlyIf(one, [&] {
        for (Ring &ring : once) {
          if (plan.getPersistent())
            sched::AcquireOp::create(builder, loc, ring.barriers, query.stage, query.phase);
          if (tasks && &ring == &once.front())
            sched::SendOp::create(builder, loc, task, tasks, query.stage);
          copy(ring, mapping, query.stage);
        }
      });
    };
    return walkTiles(original, copyOnce, [&](IRMapping &mapping, Position at, ArrayRef<Value> visit) {
      if (!columns.empty())
        copyWithColumns(mapping, at, visit, one);
      // In the order of their first use, which is that of their release.
      SmallVector<Ring *> rings;
      for (Ring &ring : llvm::concat<Ring>(streamed, windows))
        if (&ring == &streamed.front() ? columns.empty() : !valuesApart || isa<tile::WindowOp>(ring.tile))
          rings.push_back(&ring);
      if (rings.empty())
        return;
      onlyIf(one, [&] {
        llvm::sort(rings, [](Ring *a, Ring *b) { return a->tile->isBeforeInBlock(b->tile); });
        for (Ring *ring : rings) {
          if (ring->map)
            onlyIf(mapped, [&] { copyWindow(*ring, mapping, at, ring->map); });
          else
            copyStreamed(*ring, mapping, at, visit);
        }
      });
    });
  }

  /// A load of the loop; with K goes what is said of the tile.
  void copyStreamed(Ring &ring, IRMapping &mapping, Position at, ArrayRef<Value> visit = {}) {
    sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase);
    if (visits && &ring == &streamed.front())
      sched::SendOp::create(builder, loc, visit, visits, at.stage);
    copy(ring, mapping, at.stage);
  }

  /// K, and beside it what is read by key, where the mask decides within the tile: the stage is full when both are
  /// there. The wait stands with the copy, in the branch of one lane: a branch without a loop ptxas predicates, but for
  /// the copy, which all lanes then start.
  void copyWithColumns(IRMapping &mapping, Position at, ArrayRef<Value> visit, Value one) {
    Ring &keys = streamed.front();
    onlyIf(one, [&] { copyStreamed(keys, mapping, at, visit); });
    // Each lane stores what it has read once it has awaited the stage itself, and arrives for that itself: for
    // compute-sanitizer no lane speaks for another.
    auto store = [&] {
      sched::AcquireOp::create(builder, loc, keys.barriers, at.stage, at.phase);
      for (Ring &ring : columns) {
        Value loaded = cast<tile::ConvertOp>(ring.tile).getTile();
        cloneWithOperands(loaded.getDefiningOp(), &loop.getBody().front(), builder, mapping);
        sched::StoreTileOp::create(builder, ring.tile->getLoc(), mapping.lookup(loaded), ring.buffer, at.stage);
      }
    };
    if (visits)
      onlyIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, visit[1], i32(0)), store);
    else
      store();
    // Lanes that store nothing await nothing: they stay with the one that copies, as a stage is filled once by each.
    sched::SyncLanesOp::create(builder, loc);
    sched::CommitOp::create(builder, loc, keys.barriers, at.stage);
  }

  /// `visit`: of the warp that copies, what it sends about a tile that follows from a search.
  using AtStage = function_ref<void(IRMapping &mapping, Position at, ArrayRef<Value> visit)>;
  /// `place` says of a persistent block's tile of work where it is, and whether another one follows; `first` is the
  /// first tile of keys, `begins` are those of parts where they are searched.
  using AtWork = function_ref<void(IRMapping &mapping, Position query, ArrayRef<Value> place, Value first,
                                   ArrayRef<Value> begins)>;

  /// The loops over tiles of work and over their tiles of K and V; `before` the inner loop, at the stage of Q, and
  /// `each` in it. Without `before` a warp follows the first one, where that searches, by what it tells the consumers.
  LogicalResult walkTiles(ArrayRef<Operation *> original, AtWork before, AtStage each) {
    const bool follows = visits && !before, receives = follows && plan.getPersistent();
    auto [work, numbers] = receives ? receivedWork()
                                    : numberedWork(!plan.getPersistent() ? WorkOrder::Deal::Once
                                                   : claims              ? WorkOrder::Deal::Claims
                                                                         : WorkOrder::Deal::Rounds);
    builder.setInsertionPointToStart(&work.getBody().front());
    Value claimed, following;
    if (claims && before) {
      const Type view = tile::findOperand(kernel, tile::workCounter).getViewType();
      Value counter = tile::named(tile::ParamOp::create(builder, loc, view, tile::workCounter), tile::workCounter);
      claimed = tile::named(sched::ClaimWorkOp::create(builder, loc, builder.getI32Type(), counter), "claimed");
    }
    // What the tiles' places follow from is computed again here; what is not needed, canonicalisation drops.
    IRMapping mapping;
    TileSequence::Visit first;
    if (follows)
      std::tie(following, first.tile) =
          receiveTask(queryPosition(work), original,
                      [&](tile::BlockIndexOp index, Value at) { mapping.map(index.getResult(), at); });
    SmallVector<Value> place;
    if (!receives) {
      place = numbers.place(work.getNumber());
      for (Operation *op : original)
        if (auto index = dyn_cast<tile::BlockIndexOp>(op))
          mapping.map(index.getResult(), place[index.getPosition()]);
    }
    for (Operation *op : original) {
      if (op == loop)
        break;
      const bool computes = isMemoryEffectFree(op) && (op->getNumRegions() == 0 || isa<tile::DomainOp>(op)) &&
                            !isa<tile::LoadOp>(op) && llvm::none_of(op->getResultTypes(), llvm::IsaPred<TileType>);
      if (computes && !isOfOwnBegin(op) && !isa<tile::BlockIndexOp>(op))
        builder.clone(*op, mapping);
    }
    auto domain = cast<tile::DomainOp>(mapping.lookup(loop.getDomain()).getDefiningOp());
    FailureOr<TileSequence> sequence = TileSequence::create(domain);
    if (failed(sequence))
      return failure();
    Position entry = start(work);
    SmallVector<Value> begins;
    if (!follows) {
      SmallVector<tile::DomainOp> parts = before ? partDomains(mapping, original) : SmallVector<tile::DomainOp>();
      first = sequence->first(builder, parts, &begins);
      for (tile::DomainOp part : parts)
        part.erase();
    }
    if (claimed)
      following =
          tile::named(sched::ShuffleOp::create(builder, loc, claimed.getType(), claimed, i32(0)), "next_number");
    else if (plan.getPersistent() && !receives)
      following = numbers.next(work.getCount());
    if (plan.getPersistent() && before)
      place.push_back(hasNext(work, following));
    if (before)
      before(mapping, queryPosition(work), plan.getPersistent() ? place : ArrayRef<Value>(), first.tile, begins);
    SmallVector<Value> carried{first.tile, entry.stage, entry.phase};
    llvm::append_range(carried, first.window);
    auto tiles =
        sched::ForTilesOp::create(builder, loc, carried, sequence->bound, ValueRange(), /*keeps=*/plan.getPersistent());
    nameCarried(tiles);
    builder.setInsertionPointToStart(&tiles.getBody().front());
    auto arguments = tiles.getBody().getArguments();
    TileSequence::Visit visited{
        arguments[0],
        llvm::to_vector<3>(llvm::map_range(arguments.drop_front(3), [](BlockArgument a) -> Value { return a; }))};
    Position at{arguments[1], arguments[2]};
    mapping.map(loop.getOrigin(), sequence->origin(builder, visited.tile));
    // A search stands before the wait for a stage, and runs beside it.
    TileSequence::Visit after = follows ? TileSequence::Visit{followVisit(at), {}} : sequence->next(builder, visited);
    SmallVector<Value> visit;
    if (before && visits)
      visit = {after.tile,
               arith::ExtUIOp::create(builder, loc, builder.getI32Type(), sequence->partial(builder, visited))};
    each(mapping, at, visit);
    Position next = advance(at, plan.getStages());
    carried = {after.tile, next.stage, next.phase};
    llvm::append_range(carried, after.window);
    sched::NextOp::create(builder, loc, carried);
    if (receives) {
      builder.setInsertionPointAfter(tiles);
      sched::SyncLanesOp::create(builder, loc);
      sched::ReleaseOp::create(builder, loc, once.front().barriers, queryPosition(work).stage);
    }
    nextWork(work, tiles, following);
    domain.erase();
    return success();
  }

  /// Whether there is a tile of work of this number: 1 or 0.
  Value hasNext(sched::ForWorkOp work, Value number) {
    Value is = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number, work.getBound());
    return tile::named(arith::ExtUIOp::create(builder, loc, builder.getI32Type(), is), "more");
  }

  /// Fields of a message that say where a tile of work is, and whether another one follows.
  int64_t taskPlaceFields() { return plan.getPersistent() ? int64_t(kernel.getGrid().size()) + 1 : 0; }

  /// Parts of the tile's rows whose first tiles are searched.
  int64_t searchedParts() { return ownBegin ? plan.getTileQ() / rowsOfWarpgroup(plan) : 0; }

  /// What finds the first tile that shows a part's rows something.
  bool isOfOwnBegin(Operation *op) {
    return ownBegin && (op == ownBegin || op == ownBegin.getDomain().getDefiningOp());
  }

  /// Of each part of the tile's rows the domain; they are to be erased.
  SmallVector<tile::DomainOp> partDomains(const IRMapping &block, ArrayRef<Operation *> original) {
    SmallVector<tile::DomainOp> domains;
    auto isPart = [](Operation *op) { return isa<tile::PartRowOp>(op); };
    for (int64_t i = 0; i < searchedParts(); ++i) {
      IRMapping mapping(block);
      Value row = i32(i * rowsOfWarpgroup(plan));
      for (Operation *op : original) {
        if (op == ownBegin)
          break;
        if (auto part = dyn_cast<tile::PartRowOp>(op))
          mapping.map(part.getResult(), arith::AddIOp::create(builder, loc, block.lookup(part.getOrigin()), row,
                                                              arith::IntegerOverflowFlags::nsw));
        else if (isOfOwnBegin(op) ||
                 (op->getNumResults() == 1 && isMemoryEffectFree(op) && followsFrom(op->getResult(0), isPart)))
          builder.clone(*op, mapping);
      }
      domains.push_back(cast<tile::DomainOp>(mapping.lookup(ownBegin.getDomain()).getDefiningOp()));
    }
    return domains;
  }

  /// What is staged moves here from the consumers' loop. A stage is awaited before it is computed: what is loaded goes
  /// straight to shared memory, and a warp that holds nothing through a wait leaves its registers to the consumers.
  void computeStaged(IRMapping &mapping, Position at) {
    for (Ring &ring : staged) {
      Location loc = ring.tile->getLoc();
      sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase);
      cloneWithOperands(cast<tile::ConvertOp>(ring.tile).getTile().getDefiningOp(), &loop.getBody().front(), builder,
                        mapping);
      sched::StoreTileOp::create(builder, loc, mapping.lookup(cast<tile::ConvertOp>(ring.tile).getTile()), ring.buffer,
                                 at.stage);
      sched::CommitOp::create(builder, loc, ring.barriers, at.stage);
    }
  }

  /// By the copy engine where there is a map, else element by element.
  void copyWindow(Ring &ring, IRMapping &mapping, Position at, Value map) {
    auto window = cast<tile::WindowOp>(ring.tile);
    Location loc = window.getLoc();
    SmallVector<Value> indices;
    for (Value index : window.getIndices()) {
      if (Operation *producer = index.getDefiningOp())
        cloneWithOperands(producer, &loop.getBody().front(), builder, mapping);
      indices.push_back(mapping.lookupOrDefault(index));
    }
    sched::AcquireOp::create(builder, loc, ring.barriers, at.stage, at.phase);
    sched::CopyWindowOp::create(builder, loc, mapping.lookupOrDefault(window.getView()), indices, ring.buffer, at.stage,
                                ring.barriers, map);
  }

  void onlyIf(Value condition, function_ref<void()> body) {
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  void copy(Ring &ring, IRMapping &mapping, Value stage) {
    SmallVector<Value> indices;
    auto load = cast<tile::LoadOp>(ring.tile);
    for (Value index : load.getIndices())
      indices.push_back(mapping.lookupOrDefault(index));
    sched::CopyTileOp::create(builder, load.getLoc(), mapping.lookupOrDefault(load.getView()), indices,
                              mapping.lookupOrDefault(load.getLimit()), ring.buffer, stage, ring.barriers);
  }

  //===--------------------------------------------------------------------===//
  // The consumers
  //===--------------------------------------------------------------------===//

  /// The places of the block's tile of work along the axes of the grid take the place of the ops that ask for them.
  void placeWork(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original) {
    SmallVector<Value> place = numbers.place(work.getNumber());
    for (Operation *op : original)
      if (auto index = dyn_cast<tile::BlockIndexOp>(op)) {
        index.getResult().replaceAllUsesWith(place[index.getPosition()]);
        index.erase();
      }
  }

  LogicalResult writeConsumer(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original) {
    builder.setInsertionPoint(loop);
    auto domain = loop.getDomain().getDefiningOp<tile::DomainOp>();
    FailureOr<TileSequence> sequence = TileSequence::create(domain);
    if (failed(sequence))
      return failure();
    Position query, entry = start(work);
    Value more, first;
    SmallVector<Value> begins;
    {
      // What the producer says of the tile of work comes with the stage of Q.
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&work.getBody().front());
      query = queryPosition(work);
      if (tasks)
        std::tie(more, first) = receiveTask(
            query, original,
            [](tile::BlockIndexOp index, Value place) {
              index.getResult().replaceAllUsesWith(place);
              index.erase();
            },
            &begins);
      if (!plan.getPersistent())
        placeWork(work, numbers, original);
    }
    if (ownBegin)
      chooseOwnBegin(begins);
    if (!first)
      first = sequence->first(builder).tile;
    for (Ring &ring : once)
      readStage(ring, query, /*refilled=*/plan.getPersistent(), /*waited=*/tasks && &ring == &once.front());
    builder.setInsertionPoint(loop);
    Value bound = sequence->bound;
    SmallVector<Value, 3> from{first, entry.stage, entry.phase};
    bool endsApart = false;
    if (!loop.getWithin().empty()) {
      auto [begin, end] = sequence->within(builder, loop.getWithin()[0], loop.getWithin()[1]);
      endsApart = end != bound;
      if (endsApart)
        bound = tile::named(arith::MinSIOp::create(builder, loc, end, bound), "own_end");
      if (!matchPattern(begin, m_Zero()))
        from = passOver(*sequence, from, arith::MinSIOp::create(builder, loc, begin, bound)).getKept();
    }
    auto tiles = sched::ForTilesOp::create(builder, loc, from, bound, loop.getInits(),
                                           /*keeps=*/endsApart || plan.getPersistent());
    nameCarried(tiles);
    Block &body = tiles.getBody().front();
    builder.setInsertionPointToStart(&body);
    Value index = body.getArgument(0);
    Position at{body.getArgument(1), body.getArgument(2)};
    loop.getOrigin().replaceAllUsesWith(sequence->origin(builder, index));
    Value following;
    if (!visits)
      loop.getPartial().replaceAllUsesWith(sequence->partial(builder, {index, {}}));
    for (auto [old, argument] : llvm::zip(loop.getCarried(), body.getArguments().drop_front(3)))
      old.replaceAllUsesWith(argument);
    tile::YieldOp yield = loop.getYield();
    SmallVector<Value> carried(yield.getValues());
    yield.erase();
    body.getOperations().splice(body.end(), loop.getBody().front().getOperations());
    for (Ring &ring : llvm::concat<Ring>(streamed, staged, windows)) {
      const bool ofKeys = &ring == &streamed.front();
      auto readVisit = [&] {
        if (!visits || !ofKeys)
          return;
        // Behind the first product's start.
        sched::ReceiveOp visit = receiveVisit(at);
        following = field(visit, 0, "next_tile");
        Value partial =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, field(visit, 1, "partial"), i32(0));
        loop.getPartial().replaceAllUsesWith(tile::named(partial, "partial"));
      };
      readStage(ring, at, /*refilled=*/true, /*waited=*/false, readVisit,
                ofKeys ? MutableArrayRef<Ring>(columns) : MutableArrayRef<Ring>());
    }
    builder.setInsertionPointToEnd(&body);
    if (!following)
      following = sequence->next(builder, {index, {}}).tile;
    Position next = advance(at, plan.getStages());
    SmallVector<Value> values{following, next.stage, next.phase};
    llvm::append_range(values, carried);
    sched::NextOp::create(builder, loc, values);
    loop.replaceAllUsesWith(tiles.getResults().take_front(tiles.getTiles().size()));
    loop.erase();
    if (endsApart) {
      builder.setInsertionPointAfter(tiles);
      tiles = passOver(*sequence, tiles.getKept(), sequence->bound);
    }
    domain.erase();
    nextWork(work, tiles, more);
    return success();
  }

  /// Of what the producer has found for each part, that for the warpgroup's own.
  void chooseOwnBegin(ArrayRef<Value> begins) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(ownBegin);
    tile::PartRowOp own = *ownBegin->getBlock()->getOps<tile::PartRowOp>().begin();
    Value begin = begins.back();
    for (int64_t part = int64_t(begins.size()) - 2; part >= 0; --part) {
      Value row = arith::AddIOp::create(builder, loc, own.getOrigin(), i32(part * own.getRows()),
                                        arith::IntegerOverflowFlags::nsw);
      Value isOwn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, own.getResult(), row);
      begin = arith::SelectOp::create(builder, loc, isOwn, begins[part], begin);
    }
    begin = tile::named(sched::UniformOp::create(builder, loc, builder.getI32Type(), begin), "own_begin");
    auto domain = ownBegin.getDomain().getDefiningOp<tile::DomainOp>();
    ownBegin.replaceAllUsesWith(begin);
    ownBegin.erase();
    domain.erase();
  }

  /// Goes over tiles of the block that the warpgroup has no use for: each stage is awaited, as it may be filled again
  /// only then, and released.
  sched::ForTilesOp passOver(TileSequence &sequence, ValueRange from, Value bound) {
    auto tiles = sched::ForTilesOp::create(builder, loc, from, bound, ValueRange(), /*keeps=*/true);
    nameCarried(tiles);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&tiles.getBody().front());
    Position at{tiles.getBody().getArgument(1), tiles.getBody().getArgument(2)};
    Value following = visits ? Value() : sequence.next(builder, {tiles.getBody().getArgument(0), {}}).tile;
    for (Ring &ring : llvm::concat<Ring>(streamed, staged, windows)) {
      if (!following) {
        following = followVisit(at);
        continue;
      }
      sched::WaitOp::create(builder, loc, ring.barriers, at.stage, at.phase);
      release(ring, at.stage);
    }
    Position next = advance(at, plan.getStages());
    sched::NextOp::create(builder, loc, ValueRange{following, next.stage, next.phase});
    return tiles;
  }

  /// Field `i` of a message, the same in all lanes.
  Value field(sched::ReceiveOp message, unsigned i, StringRef name) {
    return tile::named(sched::UniformOp::create(builder, loc, builder.getI32Type(), message.getResult(i)), name);
  }

  /// Waits for Q and receives where its tile of work is, for those of `ops` that ask. Whether the producer sends
  /// another, and the first tile of keys, where these are sent.
  std::pair<Value, Value> receiveTask(Position query, ArrayRef<Operation *> ops,
                                      function_ref<void(tile::BlockIndexOp, Value)> tell,
                                      SmallVectorImpl<Value> *begins = nullptr) {
    sched::WaitOp::create(builder, loc, once.front().barriers, query.stage, query.phase);
    const unsigned place = taskPlaceFields(), parts = begins ? searchedParts() : 0;
    auto task = sched::ReceiveOp::create(
        builder, loc, SmallVector<Type>(place + (visits ? 1 : 0) + parts, builder.getI32Type()), tasks, query.stage);
    Value first = visits ? field(task, place, "first_tile") : Value();
    for (unsigned part = 0; part < parts; ++part)
      begins->push_back(task.getResult(place + 1 + part));
    if (!plan.getPersistent())
      return {{}, first};
    for (Operation *op : ops)
      if (auto index = dyn_cast<tile::BlockIndexOp>(op))
        tell(index, field(task, index.getPosition(), tile::nameOf(index.getResult())));
    return {task.getResult(place - 1), first};
  }

  /// Whether each lane arrives when it has read a stage. Where lanes store ids beside K, compute-sanitizer wants it so:
  /// for it, no lane speaks for another.
  bool byLanes(const Ring &ring) const { return !columns.empty() && ring.barriers == streamed.front().barriers; }
  void release(const Ring &ring, Value stage) {
    sched::ReleaseOp::create(builder, loc, ring.barriers, stage, byLanes(ring));
  }

  /// `op` runs when `as` does, an op of the loop as it is written; turns are for what is written.
  static void placeAs(Operation *as, Operation *op) {
    if (auto at = as->getAttrOfType<sched::AtAttr>(sched::atAttr))
      op->setAttr(sched::atAttr, sched::AtAttr::get(at.getContext(), at.getStage(), at.getOrder()));
  }

  /// What the producer has sent with K: the tile after this one, and whether this one is partial.
  sched::ReceiveOp receiveVisit(Position at) {
    Type type = builder.getI32Type();
    return sched::ReceiveOp::create(builder, loc, {type, type}, visits, at.stage);
  }

  /// The next tile, by what the producer has sent with K, of which nothing else is needed.
  Value followVisit(Position at) {
    const Ring &keys = streamed.front();
    sched::WaitOp::create(builder, loc, keys.barriers, at.stage, at.phase);
    Value following = field(receiveVisit(at), 0, "next_tile");
    release(keys, at.stage);
    return following;
  }

  /// The first and the last op of the ring's block that read its tile; null where none does.
  static std::pair<Operation *, Operation *> readersOf(const Ring &ring) {
    Operation *first = nullptr, *last = nullptr;
    SmallVector<Operation *> users(ring.value().getUsers());
    // What changes the tile in place is read in its stead.
    for (Operation *user : ring.value().getUsers())
      if (isa<tile::ScaleOp>(user))
        llvm::append_range(users, user->getUsers());
    for (Operation *user : users) {
      Operation *ancestor = ring.tile->getBlock()->findAncestorOpInBlock(*user);
      if (!first || ancestor->isBeforeInBlock(first))
        first = ancestor;
      if (!last || last->isBeforeInBlock(ancestor))
        last = ancestor;
    }
    return {first, last};
  }

  /// The ring's stage in place of the load or conversion, for its readers from the `first` on. Gives what they read: the
  /// stage, or what is changed in its place.
  Value replaceBySlot(Ring &ring, Value stage, Operation *first) {
    Value slot = sched::SlotOp::create(builder, ring.tile->getLoc(), ring.value().getType(), ring.buffer, stage);
    placeAs(first ? first : ring.tile, slot.getDefiningOp());
    Operation *computed = isa<tile::ConvertOp>(ring.tile) ? ring.tile->getOperand(0).getDefiningOp() : nullptr;
    ring.value().replaceAllUsesWith(slot);
    ring.tile->erase();
    if (computed && computed->use_empty())
      computed->erase();
    for (Operation *user : slot.getUsers())
      if (auto scale = dyn_cast<tile::ScaleOp>(user))
        return scale.getResult();
    return slot;
  }

  /// The load is the ring's stage: full from its wait on, as are those of `beside`; released after the last reader of
  /// these, and what `alsoRead` makes, where it is filled again.
  void readStage(Ring &ring, Position at, bool refilled, bool waited = false, function_ref<void()> alsoRead = {},
                 MutableArrayRef<Ring> beside = {}) {
    Location loc = ring.tile->getLoc();
    auto [first, last] = readersOf(ring);
    builder.setInsertionPoint(first ? first : ring.tile);
    if (!waited)
      placeAs(ring.tile, sched::WaitOp::create(builder, loc, ring.barriers, at.stage, at.phase));
    SmallVector<Value> read{replaceBySlot(ring, at.stage, first)};
    builder.setInsertionPointAfter(last ? last : read.front().getDefiningOp());
    if (alsoRead)
      alsoRead();
    bool later = false;
    for (Ring &other : beside) {
      auto [firstOther, lastOther] = readersOf(other);
      assert(firstOther && "what nothing reads has not been staged");
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(firstOther);
      read.push_back(replaceBySlot(other, at.stage, firstOther));
      if (!last || last->isBeforeInBlock(lastOther)) {
        last = lastOther;
        later = true;
      }
    }
    if (later)
      builder.setInsertionPointAfter(last);
    if (refilled) {
      // Products read by the warpgroup, maps by the lane.
      SmallVector<Operation *> ends;
      if (isa_and_nonnull<tile::MapOp>(last) && !byLanes(ring))
        ends.push_back(sched::SyncLanesOp::create(builder, loc));
      ends.push_back(sched::ReleaseOp::create(builder, loc, ring.barriers, at.stage, byLanes(ring), read));
      // Behind a product that only starts a stage is released with what follows, which waits for it.
      auto at = last ? last->getAttrOfType<sched::AtAttr>(sched::atAttr) : sched::AtAttr();
      if (at && (at.getStage() || !last->hasAttr(sched::asyncAttr)))
        for (Operation *end : ends)
          placeAs(last, end);
    }
  }

  tile::KernelOp kernel;
  tile::ForBlocksOp loop;
  OpBuilder builder;
  Location loc;
  tile::PlanAttr plan;
  SmallVector<Ring> once;     ///< copies before the loop: of Q
  SmallVector<Ring> streamed; ///< those in it: of K, and of V
  Value tasks; ///< messages about each stage of Q: persistent blocks' tiles of work, and the first tile of keys
  Value
      visits; ///< and, where tiles are searched, about each stage of K: the next tile, and whether this one is partial
  SmallVector<Ring> windows;  ///< of captured tensors in it
  Value mapped;               ///< where there are windows: whether the copy engine copies them
  bool sharesWindows = false; ///< all batches read the same windows
  tile::FirstVisibleOp
      ownBegin; ///< the first tile that shows a warpgroup's rows something, where that follows from a search
  SmallVector<Ring> staged; ///< what copy warps compute for the others in it
  int64_t storingWarps = 0; ///< how many of them, from the second on
  SmallVector<Ring>
      columns; ///< what maps read by key in it: in stages beside those of the first of `streamed`, by the same barriers
  bool valuesApart = false; ///< the second warp of the producer copies all but the first of `streamed`
  bool claims = false;      ///< blocks claim tiles of work when they are free; else these follow from their index
  static constexpr int64_t firstWindowWarp =
      2; ///< of the producer: from it on its warps copy windows that the copy engine cannot
};

struct SpecializeWarps : attune::impl::SpecializeWarpsBase<SpecializeWarps> {
  using SpecializeWarpsBase::SpecializeWarpsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel.getPlan().getCopyWarps())
        continue;
      if (const int64_t groups = kernel.getPlan().getWarps() / 4; groups > barriers::mostWarpgroups) {
        kernel.emitError() << "has " << groups
                           << " warpgroups, which need more barriers than a block has; plan at most "
                           << barriers::mostWarpgroups;
        return signalPassFailure();
      }
      SmallVector<tile::ForBlocksOp> loops(kernel.getBody().getOps<tile::ForBlocksOp>());
      if (loops.size() != 1) {
        kernel.emitError() << "has " << loops.size() << " loops over tiles; warps are specialised around one";
        return signalPassFailure();
      }
      if (failed(WarpSpecializer(kernel, loops.front()).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
