//===- Show.cpp - attune show ------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/TileMaps.h"
#include "tools/attune/Usage.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

namespace {
struct ShowFlags : Flags {
  int rows = 128, columns = 128; ///< of a tile
  int64_t b = 0, h = 0;
  uint64_t seed = 0;
  std::string output;
};

ordered_json jsonOf(const TileMapHead &head, const std::string &name) {
  const TileMap &map = head.map;
  ordered_json rows = ordered_json::array();
  for (int64_t row = 0; row < map.rows; ++row) {
    std::string classes;
    for (int64_t column = 0; column < map.columns; ++column)
      classes += ".+#"[size_t(head.at(row, column))];
    rows.push_back(classes);
  }
  return {{"variant", name},
          {"tileQ", map.tileQ},
          {"tileK", map.tileK},
          {"queries", map.queries},
          {"keys", map.keys},
          {"all", map.all()},
          {"visited", map.visited()},
          {"partial", map.partial()},
          {"b", head.b},
          {"h", head.h},
          {"rows", rows}};
}

int showVerb(const ShowFlags &flags) {
  Result<Request> request = resolve(flags);
  if (!request)
    return report(request.failure());
  if (!request->shape)
    return report(usageError("a mask has tiles for sizes; add --shape"));
  const Shape &shape = *request->shape;
  if (flags.b >= shape.batch || flags.h >= shape.heads)
    return report(usageError(fmt::format("--batch {} and --head {} are not within {} batches and {} heads", flags.b,
                                         flags.h, shape.batch, shape.heads)));
  const std::string suffix = std::filesystem::path(flags.output).extension();
  if (!flags.output.empty() && suffix != ".txt" && suffix != ".svg" && suffix != ".png")
    return report(
        usageError(fmt::format("{} is no picture; use a name that ends in .txt, .svg or .png", flags.output)));
  Expected<TileMap> map = makeTileMap(*request, shape, flags.rows, flags.columns, flags.qOffsetValue, flags.seed);
  if (!map)
    return report({map.error()});
  const TileMapHead head{*map, flags.b, flags.h};
  const std::string title = fmt::format("{}, B {} H {} Sq {} Sk {}, tiles of {} x {}", request->label, shape.batch,
                                        shape.heads, shape.queries, shape.keys, map->tileQ, map->tileK);
  const std::string counts = fmt::format("visits {} of {} tiles ({:.1f}%), {} masked", map->visited(), map->all(),
                                         100 * double(map->visited()) / double(map->all()), map->partial());
  const bool one = map->batches * map->heads == 1;
  const std::string of = one ? "every head" : fmt::format("batch {}, head {}", flags.b, flags.h);
  if (!flags.output.empty()) {
    const std::string picture = suffix == ".svg"   ? tileMapSvg(head, title + ": " + counts)
                                : suffix == ".png" ? tileMapPng(head)
                                                   : tileMapText(head);
    if (Expected<void> written = writeFile(flags.output, picture); !written)
      return report({written.error()});
  }
  if (flags.json) {
    print("{}\n", jsonOf(head, request->label).dump(2));
    return done;
  }
  print("{}\n  {}\n", title, counts);
  if (flags.output.empty())
    print("  {}: # full, + partial, . empty; first query, tiles visited in a row\n{}", of, tileMapText(head));
  else
    print("  {}: {}\n", of, flags.output);
  return done;
}
} // namespace

void attune::cli::addShow(CLI::App &app, int &exitCode) {
  auto *verb = app.add_subcommand("show", "a picture of a mask: which tiles are visited, and which of them are masked");
  verb->footer("Example: attune show documents --shape 1,8,8,4096,4096,64,64 -o mask.svg\n"
               "Exit codes: 0 done, 1 failed, 2 usage.");
  auto flags = std::make_shared<ShowFlags>();
  flags->arch = "cpu"; // the mask is the same for all
  flags->addVariant(*verb);
  flags->addShape(*verb);
  verb->add_option("--tile-q", flags->rows, "queries of a tile, a multiple of 16 (128)")
      ->check(wholeNumber(16, 1 << 20));
  verb->add_option("--tile-k", flags->columns, "keys of a tile, a multiple of 16 (128)")
      ->check(wholeNumber(16, 1 << 20));
  verb->add_option("--batch", flags->b, "the batch to draw (0)")->check(wholeNumber(0, 1 << 30));
  verb->add_option("--head", flags->h, "the head to draw (0)")->check(wholeNumber(0, 1 << 30));
  verb->add_option("--seed", flags->seed, "of random captured tensors (0)");
  verb->add_option("--q-offset", flags->qOffsetValue, "added to q in expressions");
  verb->add_option("-o,--output", flags->output, "a picture: .txt, .svg or .png; without, letters on standard output")
      ->type_name("FILE");
  verb->add_flag("--json", flags->json, "print one JSON object");
  verb->callback([flags, &exitCode] { exitCode = showVerb(*flags); });
}
