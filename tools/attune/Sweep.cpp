//===- Sweep.cpp - The cost model over one parameter -------------------------===//

#include "tools/attune/Sweep.h"

#include "arch/ArchInfo.h"
#include "driver/Lowering.h"
#include "tools/attune/Output.h"
#include "tools/attune/Usage.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

namespace {
/// One value of the parameter.
struct Point {
  double x = 0;
  std::string failure = {}; ///< why nothing fits; empty where a plan does
  Plan plan = {};
  PlanCost cost = {};
  double inputs = 0; ///< bytes that the law has at every x
  double law = 0;    ///< bytes between L2 and shared memory by the paper
};

struct Sweep {
  const char *name;
  const char *axis; ///< what x counts
  const char *law;  ///< in words
  /// The values, for a request without them.
  std::vector<double> (*values)(const PlanRequest &request);
  void (*set)(PlanRequest &request, double x);
  /// The law's bytes at x, over those at x0.
  double (*scale)(double x, double x0);
  bool withInputs = false; ///< whether the law also has a term N d, for Q, which is read once
};

std::vector<double> budgets(const PlanRequest &request) {
  const double most =
      double(request.sramBudget ? size_t(request.sramBudget) : findArch(request.arch)->sharedBytesPerBlock);
  std::vector<double> values;
  for (double part : {1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125, 0.09375, 0.0625})
    values.push_back(std::max(1.0, std::floor(most * part))); // 0 would be the limit
  std::ranges::reverse(values);
  return values;
}
std::vector<double> keyTiles(const PlanRequest &) { return {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256}; }
std::vector<double> lengths(const PlanRequest &request) {
  std::vector<double> values;
  for (double factor : {0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0})
    values.push_back(std::max(1.0, std::round(double(request.keys) * factor)));
  return values;
}

std::vector<double> densities(const PlanRequest &) { return {0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0}; }

/// A block pattern of which each row sees about as many blocks, evenly spread, from a place of its own on.
std::shared_ptr<const TileMap> patternOf(const PlanRequest &request, double density) {
  TileMap map = {.tileQ = int(request.patternRows), .tileK = int(request.patternColumns)};
  map.queries = request.queries;
  map.keys = request.keys;
  map.batches = map.heads = 1;
  map.sameBatches = request.batch;
  map.sameHeads = request.heads;
  map.rows = (map.queries + map.tileQ - 1) / map.tileQ;
  map.columns = (map.keys + map.tileK - 1) / map.tileK;
  constexpr double goldenRatio = 0.6180339887498949;
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; ++column) {
      const double at = double(column) * density + std::fmod(double(row) * goldenRatio, 1);
      map.tiles.push_back(std::floor(at + density) > std::floor(at) ? TileClass::Full : TileClass::Empty);
    }
  return std::make_shared<const TileMap>(std::move(map));
}

const Sweep sweeps[] = {
    {"sram-budget", "bytes of shared memory a block, M", "Theorem 2: N^2 d^2 / M", budgets,
     [](PlanRequest &request, double x) { request.sramBudget = int64_t(x); },
     [](double x, double x0) { return x0 / x; }},
    {"tile-k", "keys of a tile", "Theorem 2: the same for every tile of keys", keyTiles,
     [](PlanRequest &request, double x) { request.fixed.tileK = int(x); }, [](double, double) { return 1.0; }},
    {"length", "keys, N", "Theorem 2: N^2 d^2 / M", lengths,
     [](PlanRequest &request, double x) {
       request.queries = std::max<int64_t>(1, int64_t(std::round(double(request.queries) * x / double(request.keys))));
       request.keys = int64_t(x);
     },
     [](double x, double x0) { return x * x / (x0 * x0); }},
    {"density", "visible share of the blocks, s", "Proposition 4: N d + s N^2 d^2 / M", densities,
     [](PlanRequest &request, double x) { request.tiles = patternOf(request, x); },
     [](double x, double x0) { return x / x0; }, /*withInputs=*/true},
};

/// The plan at each value, and the law through the first point of the greatest value that has one: there the rows of a
/// tile, which the law takes to grow with M, are as many as fit.
std::vector<Point> pointsOf(const Sweep &sweep, const std::function<Expected<PlanRequest>(double)> &requestAt,
                            const std::vector<double> &values) {
  std::vector<Point> points;
  for (double x : values) {
    Point &point = points.emplace_back(Point{.x = x});
    Expected<PlanRequest> request = requestAt(x);
    if (request && sweep.withInputs)
      point.inputs =
          double(request->batch * request->heads * request->queries * request->headDim * request->elementBytes);
    Expected<RankedPlan> plan = request ? choosePlan(*request) : Expected<RankedPlan>(request.error());
    if (!plan) {
      point.failure = plan.error().message;
      continue;
    }
    point.plan = plan->plan;
    point.cost = plan->cost;
  }
  const auto last =
      std::ranges::find_if(points.rbegin(), points.rend(), [](const Point &p) { return p.failure.empty(); });
  if (last != points.rend())
    for (Point &point : points)
      point.law = point.inputs + (last->cost.readBytes - last->inputs) * sweep.scale(point.x, last->x);
  return points;
}

//===----------------------------------------------------------------------===//
// The picture
//===----------------------------------------------------------------------===//

/// Logarithmic axes, a line for each of bytes from L2, their law, and bytes from HBM.
std::string pictureOf(const Sweep &sweep, const std::string &title, std::vector<Point> points) {
  std::erase_if(points, [](const Point &point) { return !point.failure.empty(); });
  constexpr double width = 720, height = 440, left = 80, right = 20, top = 50, bottom = 60;
  struct Line {
    const char *label, *style;
    double (*value)(const Point &);
  };
  const Line lines[] = {
      {"read from L2", "stroke=\"#1f6feb\" stroke-width=\"2\"", [](const Point &p) { return p.cost.readBytes; }},
      {sweep.law, "stroke=\"#1f6feb\" stroke-dasharray=\"5 4\"", [](const Point &p) { return p.law; }},
      {"read from HBM", "stroke=\"#c2410c\" stroke-width=\"2\"", [](const Point &p) { return p.cost.hbmReadBytes; }}};
  double least = INFINITY, most = 0;
  for (const Point &point : points)
    for (const Line &line : lines) {
      least = std::min(least, line.value(point));
      most = std::max(most, line.value(point));
    }
  least = std::pow(10, std::floor(std::log10(least)));
  most = std::pow(10, std::ceil(std::log10(most)));
  const double first = points.front().x, last = std::max(points.back().x, first * 1.01);
  auto across = [&](double x) { return left + (width - left - right) * std::log(x / first) / std::log(last / first); };
  auto down = [&](double bytes) {
    return height - bottom - (height - top - bottom) * std::log(bytes / least) / std::log(most / least);
  };
  std::string svg =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
                  "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                  "<text x=\"{}\" y=\"22\" font-size=\"14\">{}</text>\n",
                  width, height, left, xmlText(title));
  for (double bytes = least; bytes <= most * 1.01; bytes *= 10)
    svg += fmt::format(
        "<path d=\"M{} {:.1f}H{}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left,
        down(bytes), width - right, left - 8, down(bytes) + 4, bytesText(bytes));
  for (const Point &point : points)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\">{:.8g}</text>\n",
                       across(point.x), height - bottom + 16, point.x);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (left + width - right) / 2,
                     height - bottom + 40, sweep.axis);
  double legend = left;
  for (const Line &line : lines) {
    std::string path;
    for (const Point &point : points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across(point.x), down(line.value(point)));
    svg += fmt::format("<path d=\"{}\" fill=\"none\" {}/>\n<path d=\"M{} 38h24\" fill=\"none\" {}/>"
                       "<text x=\"{}\" y=\"42\">{}</text>\n",
                       path, line.style, legend, line.style, legend + 30, line.label);
    legend += 50 + 7.0 * double(std::string_view(line.label).size());
  }
  return svg + "</svg>\n";
}

ordered_json pointJson(const Point &point) {
  ordered_json json = {{"x", point.x}};
  if (!point.failure.empty()) {
    json["failure"] = point.failure;
    return json;
  }
  json.update({{"text", point.plan.text()},
               {"readBytes", point.cost.readBytes},
               {"lawBytes", point.law},
               {"writtenBytes", point.cost.writtenBytes},
               {"hbmReadBytes", point.cost.hbmReadBytes},
               {"microseconds", point.cost.totalSeconds * 1e6},
               {"limitedBy", point.cost.limitedBy}});
  return json;
}
} // namespace

const std::vector<std::string> &attune::cli::sweepNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Sweep &each : sweeps)
      result.emplace_back(each.name);
    return result;
  }();
  return names;
}

int attune::cli::sweep(const Request &request, const ProblemSizes &sizes, const std::string &name,
                       const std::string &svg, bool json) {
  const Sweep &of = *std::ranges::find_if(sweeps, [&](const Sweep &each) { return name == each.name; });
  const driver::Source source = sourceOf(request);
  IrSummary summary;
  Expected<PlanRequest> base = driver::requestOf(source, request.options, request.target, sizes, summary);
  if (!base)
    return report({base.error()});
  if (of.withInputs && !base->patternRows)
    return report(usageError("--sweep density needs a block pattern; explain block-sparse, or a variant with one"));
  const std::vector<double> values = of.values(*base);
  // Lengths decide what a mask leaves.
  auto requestAt = [&](double x) -> Expected<PlanRequest> {
    PlanRequest at = *base;
    of.set(at, x);
    if (at.queries != base->queries || at.keys != base->keys) {
      const ProblemSizes sized = {at.batch, at.heads, at.headsKv, at.queries, at.keys};
      Expected<PlanRequest> again = driver::requestOf(source, request.options, request.target, sized, summary);
      if (!again)
        return again;
      at = *again;
    }
    at.theseSizes = true;
    return at;
  };
  const std::vector<Point> points = pointsOf(of, requestAt, values);
  const std::string title = fmt::format("{} head_dim {} x {} for {}, B {} H {} Hkv {} Sq {} Sk {}", summary.name,
                                        base->headDim, base->headDimV, request.target.arch, base->batch, base->heads,
                                        base->headsKv, base->queries, base->keys);
  if (std::ranges::all_of(points, [](const Point &point) { return !point.failure.empty(); }))
    return report({Error{points.back().failure}});
  if (!svg.empty())
    if (Expected<void> written = writeFile(svg, pictureOf(of, title, points)); !written)
      return report({written.error()});
  if (json) {
    ordered_json list = ordered_json::array();
    for (const Point &point : points)
      list.push_back(pointJson(point));
    print("{}\n", ordered_json{{"variant", summary.name},
                               {"arch", request.target.arch},
                               {"sweep", of.name},
                               {"law", of.law},
                               {"points", list}}
                      .dump(2));
    return done;
  }
  print("{}\n  {:>12} {:>12} {:>12} {:>12} {:>10}  schedule; limited by\n", title, of.name, "from L2", "law",
        "from HBM", "us");
  for (const Point &point : points)
    if (point.failure.empty())
      print("  {:>12.8g} {:>12} {:>12} {:>12} {:>10.1f}  {}; {}\n", point.x, bytesText(point.cost.readBytes),
            bytesText(point.law), bytesText(point.cost.hbmReadBytes), point.cost.totalSeconds * 1e6, point.plan.text(),
            point.cost.limitedBy);
    else
      print("  {:>12.8g} {}\n", point.x, point.failure);
  print("  law: {}, through the last row\n", of.law);
  return done;
}
