//===- TileMap.cpp - The class of each tile under a mask ---------------------===//

#include "attune/TileMap.h"

#include "driver/Lowering.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attune;
using namespace attune::driver;

static constexpr int64_t mostTiles = int64_t(1) << 28, mostLength = int64_t(1) << 30, mostTile = int64_t(1) << 20;

static Expected<void> checkArgs(const TileMapArgs &args) {
  const ProblemSizes &sizes = args.sizes;
  for (auto [what, value] :
       {std::pair("batch", sizes.batch), {"heads", sizes.heads}, {"queries", sizes.queries}, {"keys", sizes.keys}})
    if (value < 1 || value > mostLength)
      return Error{fmt::format("a tile map with {} = {} has no tiles, or too many; required is 1 to {}", what, value,
                               mostLength)};
  for (auto [what, value] : {std::pair("tileQ", args.tileQ), {"tileK", args.tileK}})
    if (value < 16 || value % 16 || value > mostTile)
      return Error{fmt::format("a tile map with {} = {} is none of a kernel's, whose tiles are multiples of 16; use 16 "
                               "to {}",
                               what, value, mostTile)};
  return {};
}

static Expected<TileMap> mapOf(const Source &source, const TileMapArgs &args) {
  if (Expected<void> good = checkArgs(args); !good)
    return good.error();
  Expected<TileMapText> text = tileMapText(source, args.tileQ, args.tileK);
  if (!text)
    return text.error();
  const ProblemSizes &sizes = args.sizes;
  TileMap map = {.tileQ = args.tileQ, .tileK = args.tileK, .queries = sizes.queries, .keys = sizes.keys};
  map.batches = text->byBatch ? sizes.batch : 1;
  map.heads = text->byHead ? sizes.heads : 1;
  map.sameBatches = sizes.batch / map.batches;
  map.sameHeads = sizes.heads / map.heads;
  map.rows = (sizes.queries + args.tileQ - 1) / args.tileQ;
  map.columns = (sizes.keys + args.tileK - 1) / args.tileK;
  const double tiles = double(map.batches) * double(map.heads) * double(map.rows) * double(map.columns);
  if (tiles > double(mostTiles))
    return Error{fmt::format("the map has {:.3g} tiles, the most is {}; ask for larger tiles, or fewer heads", tiles,
                             mostTiles)};

  Expected<Kernel> kernel = compileFromText(text->text, {.useCache = false}, Target::cpu());
  if (!kernel)
    return kernel.error();
  const KernelSignature &signature = kernel->image().signature;
  std::vector<int32_t> classes(size_t(map.batches * map.heads * map.rows * map.columns));
  // The kernel reads only the lengths of `queries` and `keys`, so strides of 0 and one element of memory suffice.
  const int32_t nothing = 0;
  const Tensor queries = Tensor::strided(&nothing, i32, {map.batches, map.heads, sizes.queries}, {0, 0, 0});
  const Tensor keys = Tensor::strided(&nothing, i32, {sizes.keys}, {0});
  LaunchArgs launch;
  launch.operands = {
      {"queries", queries},
      {"keys", keys},
      {"classes", Tensor::contiguous(classes.data(), i32, {map.batches, map.heads, map.rows, map.columns})}};
  auto takes = [](const auto &declared, std::string_view name) {
    return std::ranges::any_of(declared, [&](const auto &each) { return each.name == name; });
  };
  for (const NamedTensor &tensor : args.tensors)
    if (takes(signature.tensors, tensor.name))
      launch.tensors.push_back(tensor);
  for (const NamedScalar &scalar : args.scalars)
    if (takes(signature.scalars, scalar.name))
      launch.scalars.push_back(scalar);
  launch.qOffset = args.qOffset;
  std::vector<std::max_align_t> workspace(kernel->workspaceBytes(launch) / sizeof(std::max_align_t) + 1);
  launch.workspace = workspace.data();
  launch.workspaceBytes = workspace.size() * sizeof(std::max_align_t);
  if (Expected<void> ran = kernel->launch(nullptr, launch); !ran)
    return ran.error();
  map.tiles.resize(classes.size());
  std::ranges::transform(classes, map.tiles.begin(), [](int32_t of) { return TileClass(of); });
  return map;
}

Expected<TileMap> attune::tileMap(const Variant &variant, const TileMapArgs &args) {
  return mapOf({.variant = &variant}, args);
}
Expected<TileMap> attune::tileMapOfText(const IrText &text, const TileMapArgs &args) {
  return mapOf({.text = &text}, args);
}
