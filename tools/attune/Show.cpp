//===- Show.cpp - attune show ------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/TileMaps.h"
#include "tools/attune/Usage.h"

#include <charconv>
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
  std::string at; ///< Q,K
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

/// Q,K of a shape.
Result<std::pair<int64_t, int64_t>> readElement(const std::string &text, const Shape &shape) {
  int64_t q = 0, k = 0;
  const char *end = text.data() + text.size();
  const auto [comma, badQ] = std::from_chars(text.data(), end, q);
  if (badQ == std::errc() && comma != end && *comma == ',')
    if (const auto [rest, badK] = std::from_chars(comma + 1, end, k); badK == std::errc() && rest == end)
      if (q >= 0 && q < shape.queries && k >= 0 && k < shape.keys)
        return std::pair(q, k);
  return usageError(fmt::format("--at {} is no element; it takes Q,K of queries below {} and keys below {}", text,
                                shape.queries, shape.keys));
}

/// The elements around one, and what its tile is.
int showElements(const ShowFlags &flags, const Request &request, const TileMapHead &tiles, const std::string &suffix) {
  const Shape &shape = *request.shape;
  Result<std::pair<int64_t, int64_t>> element = readElement(flags.at, shape);
  if (!element)
    return report(element.failure());
  const auto [q, k] = *element;
  const bool letters = suffix.empty() || suffix == ".txt";
  Expected<ElementMap> around = makeElementMap(request, shape, flags.b, flags.h, q, k, letters ? 32 : 256,
                                               letters ? 64 : 256, flags.qOffsetValue, flags.seed);
  if (!around)
    return report({around.error()});
  const TileMap &map = tiles.map, &elements = around->map;
  const int64_t row = q / map.tileQ, column = k / map.tileK;
  const char *const words[] = {"empty", "partial", "full"};
  const std::string of = words[size_t(tiles.at(row, column))];
  const std::string title = fmt::format("{}, batch {}, head {}: queries {} to {}, keys {} to {}", request.label,
                                        flags.b, flags.h, around->firstQuery, around->firstQuery + elements.queries - 1,
                                        around->firstKey, around->firstKey + elements.keys - 1);
  const TileMapHead head{elements, 0, 0, around->firstQuery};
  if (!flags.output.empty()) {
    const std::string picture = suffix == ".svg"   ? tileMapSvg(head, title)
                                : suffix == ".png" ? tileMapPng(head)
                                                   : tileMapText(head);
    if (Expected<void> written = writeFile(flags.output, picture); !written)
      return report({written.error()});
  }
  if (flags.json) {
    ordered_json json = jsonOf(head, request.label);
    for (const char *key : {"tileQ", "tileK", "all", "visited", "partial"})
      json.erase(key);
    json["b"] = flags.b;
    json["h"] = flags.h;
    json["firstQuery"] = around->firstQuery;
    json["firstKey"] = around->firstKey;
    json["tile"] = of;
    print("{}\n", json.dump(2));
    return done;
  }
  print("{}\n  query {}, key {} is {}, in a tile of {} x {} from query {} and key {} that is {}\n", title, q, k,
        elements.at(0, 0, q - around->firstQuery, k - around->firstKey) == TileClass::Full ? "visible" : "hidden",
        map.tileQ, map.tileK, row * map.tileQ, column * map.tileK, of);
  if (flags.output.empty())
    print("  # visible, . hidden; query, keys of the picture that it sees\n{}", tileMapText(head));
  else
    print("  {}\n", flags.output);
  return done;
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
  if (!flags.at.empty())
    return showElements(flags, *request, head, suffix);
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
  verb->add_option("--at", flags->at, "the elements around query Q and key K instead, and what their tile is")
      ->type_name("Q,K");
  verb->add_option("--seed", flags->seed, "of random captured tensors (0)");
  verb->add_option("--q-offset", flags->qOffsetValue, "added to q in expressions");
  verb->add_option("-o,--output", flags->output, "a picture: .txt, .svg or .png; without, letters on standard output")
      ->type_name("FILE");
  verb->add_flag("--json", flags->json, "print one JSON object");
  verb->callback([flags, &exitCode] { exitCode = showVerb(*flags); });
}
