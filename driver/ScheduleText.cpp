#include "driver/ScheduleText.h"
#include "ir/NestedOps.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

using namespace mlir;
using namespace attune;
using namespace attune::driver;

/// The shared tiles that copies of one kind fill or drain, in the kernel's order.
template <typename Op> static llvm::SetVector<sched::SharedOp> sharedOf(sched::KernelOp kernel) {
  llvm::SetVector<sched::SharedOp> tiles;
  kernel.walk([&](Op copy) {
    if (auto shared = copy.getShared().template getDefiningOp<sched::SharedOp>())
      tiles.insert(shared);
  });
  return tiles;
}

template <typename Range, typename Function>
static std::string joined(const Range &range, llvm::StringRef separator, Function text) {
  std::vector<std::string> parts;
  for (auto element : range)
    parts.push_back(text(element));
  return llvm::join(parts, separator);
}

static std::string copiesText(sched::KernelOp kernel) {
  auto text = [](sched::SharedOp shared) {
    auto type = shared.getResult().getType();
    const int64_t stages = type.hasAxis("stage") ? type.size("stage") : 1;
    auto swizzle = dyn_cast_or_null<sched::SwizzleAttr>(type.getLayout());
    return fmt::format("{} ({} stage{}{})", shared.getName().str(), stages, stages == 1 ? "" : "s",
                       swizzle ? fmt::format(", {}-byte swizzle", swizzle.getPanel()) : "");
  };
  std::vector<std::string> kinds;
  if (auto boxes = sharedOf<sched::LoadBoxOp>(kernel); !boxes.empty())
    kinds.push_back(joined(boxes, ", ", text) + " by TMA");
  if (auto tiles = sharedOf<sched::CopyAsyncOp>(kernel); !tiles.empty())
    kinds.push_back(joined(tiles, ", ", text) + " by cp.async");
  return llvm::join(kinds, "; ");
}

static std::string rolesText(sched::KernelOp kernel) {
  auto roles = kernel.getBody().getOps<sched::RoleOp>();
  if (roles.empty())
    return "none: every warp copies and computes";
  bool split = false;
  std::string text = joined(roles, ", ", [&](sched::RoleOp role) {
    split |= role.getRegisters().has_value();
    return fmt::format("{} {} warps{}", role.getName().str(), role.getWarps(),
                       role.getRegisters() ? fmt::format(" of {} registers", *role.getRegisters()) : "");
  });
  return text + (split ? " (setmaxnreg)" : "");
}

static std::string productsText(sched::KernelOp kernel) {
  if (!holds<sched::MmaAsyncOp>(kernel))
    return "mma.sync";
  const bool registers = holds<sched::MmaAsyncOp>(
      kernel, [](sched::MmaAsyncOp mma) { return mma.getA().getType().getSpace() == tile::MemorySpace::Register; });
  return registers ? "wgmma, P from registers" : "wgmma, P from shared memory";
}

/// Whether the kernel uses lazy rescaling: rows keep their running maxima.
static bool rescalesLazily(sched::KernelOp kernel) {
  return holds<sched::MmaAsyncOp>(kernel) && holds<sched::AnyLaneOp>(kernel);
}

/// Whether the warps of a role fill stages of a ring and wait for them themselves: they exchange a tile, which a product
/// of the next iteration reads.
static bool exchangesForNextTile(sched::KernelOp kernel) {
  return holds<sched::RingOp>(kernel, [](sched::RingOp ring) {
    llvm::SmallDenseSet<Operation *> filling, waiting;
    for (Operation *user : ring.getResult().getUsers()) {
      if (isa<sched::CommitOp>(user))
        filling.insert(user->getParentOfType<sched::RoleOp>());
      else if (isa<sched::WaitOp>(user))
        waiting.insert(user->getParentOfType<sched::RoleOp>());
    }
    return llvm::any_of(filling, [&](Operation *role) { return role && waiting.contains(role); });
  });
}

/// The most asynchronous products that an iteration of a loop over tiles starts.
static int64_t productsOfIteration(sched::KernelOp kernel) {
  int64_t most = 0;
  kernel.walk([&](sched::ForTilesOp loop) {
    auto commits = loop.getBody().front().getOps<sched::MmaCommitOp>();
    most = std::max<int64_t>(most, std::distance(commits.begin(), commits.end()));
  });
  return most;
}

static std::string overlapText(sched::KernelOp kernel) {
  const bool overlaps = kernel->hasAttr(sched::overlapAttr);
  if (kernel->hasAttr(sched::pingPongAttr)) {
    std::string text = "ping-pong: the products of one warpgroup overlap with the softmax of another";
    if (overlaps && !rescalesLazily(kernel))
      text += "; its product with V overlaps with its own softmax";
    else if (overlaps && kernel.getPlan().getSize("k") >= 32) // half of the columns must be whole blocks of 16
      text += "; its product with V overlaps with half of its own softmax";
    return text;
  }
  if (!holds<sched::MmaWaitOp>(kernel, [](sched::MmaWaitOp wait) { return wait.getPending() > 0; }))
    return "copies overlap with products and softmax";
  if (exchangesForNextTile(kernel))
    return "the product of the tile that warpgroups exchange overlaps with the softmax of the next tile; other "
           "products overlap with each other";
  return productsOfIteration(kernel) > 2 ? "products overlap with each other and with the arithmetic between them"
                                         : "the product with V of a tile overlaps with the softmax of the next";
}

static std::string orderText(sched::KernelOp kernel) {
  // If a role receives its tiles of work, the order is in the role that sends them.
  sched::ForWorkOp work;
  kernel.walk([&](sched::ForWorkOp op) {
    if (op.getOrder() != sched::WorkOrder::Received)
      work = op;
  });
  if (!work)
    return "";
  const sched::LongTiles longest = sched::longTilesOf(kernel);
  const std::string order = longest == sched::LongTiles::None    ? ""
                            : longest == sched::LongTiles::First ? ", the first tiles of many heads first"
                                                                 : ", the longest rows of many heads first";
  if (work.getOrder() == sched::WorkOrder::Grid)
    return "one tile per block" + order;
  if (!work.getBody().getOps<sched::ClaimWorkOp>().empty())
    return "persistent blocks, dynamic: a free block claims the next tile" + order;
  return order.empty() ? "persistent blocks" : "persistent blocks, static: pairs of tiles from both ends of a head";
}

static std::string epilogueText(sched::KernelOp kernel) {
  auto name = [](sched::SharedOp shared) { return shared.getName().str(); };
  if (auto tiles = sharedOf<sched::StoreBoxOp>(kernel); !tiles.empty())
    return "O through " + joined(tiles, ", ", name) + " by TMA";
  if (auto tiles = sharedOf<sched::CopyToGlobalOp>(kernel); !tiles.empty())
    return "O through " + joined(tiles, ", ", name) + ", 16 bytes a thread";
  return "O from registers";
}

std::vector<ScheduleLine> attune::driver::describeTiles(tile::KernelOp kernel) {
  std::vector<ScheduleLine> lines;
  if (holds<tile::MapOp>(kernel, [](tile::MapOp map) { return bool(map.getOnlyIf()); }))
    lines.push_back({"masks", "one loop; partial tiles are masked under a uniform branch"});
  if (holds<tile::DomainOp>(kernel, [](tile::DomainOp domain) { return domain.getReverse(); }))
    lines.push_back({"tiles", "from the last one, which is near the queries, so that row maxima change early"});
  return lines;
}

/// Whether consumers skip tiles: they have loops over tiles that only wait and release, besides the loop that computes.
static bool passesOver(sched::KernelOp kernel) {
  return holds<sched::ForWorkOp>(kernel, [](sched::ForWorkOp work) {
    return llvm::count_if(work.getBody().getOps<sched::ForTilesOp>(),
                          [](sched::ForTilesOp tiles) { return holds<sched::WaitOp>(tiles); }) > 1;
  });
}

/// Whether a producer warp copies tiles of keys whose indices it receives from another warp.
static bool copiesWhatItIsTold(sched::KernelOp kernel) {
  return holds<sched::ForTilesOp>(kernel, [](sched::ForTilesOp tiles) {
    return holds<sched::LoadBoxOp>(tiles) && !tiles.getBody().getOps<sched::ReceiveOp>().empty();
  });
}

std::vector<ScheduleLine> attune::driver::describeSchedule(sched::KernelOp kernel) {
  std::vector<ScheduleLine> lines;
  for (auto &[label, text] :
       {ScheduleLine{"copies", copiesText(kernel)}, ScheduleLine{"roles", rolesText(kernel)},
        ScheduleLine{"products", productsText(kernel)}, ScheduleLine{"overlap", overlapText(kernel)},
        ScheduleLine{"order", orderText(kernel)}, ScheduleLine{"epilogue", epilogueText(kernel)}})
    if (!text.empty())
      lines.push_back({label, text});
  if (passesOver(kernel))
    lines.push_back({"parts", "a warpgroup skips tiles of keys that are masked for all of its rows"});
  if (holds<sched::BallotOp>(kernel))
    lines.push_back({"search", copiesWhatItIsTold(kernel)
                                   ? "one warp searches for the next visible tile, 32 at a time; another copies V"
                                   : "one warp searches for the next visible tile, 32 at a time"});
  if (rescalesLazily(kernel))
    lines.push_back(
        {"maxima", "lazy rescaling: a row keeps its maximum until a lane's sum of exponentials reaches 2^15"});
  if (holds<sched::AfterOp>(kernel))
    lines.push_back({"functions", "tanh or exp2 of 16 columns is interleaved with the arithmetic of the next 16"});
  return lines;
}
