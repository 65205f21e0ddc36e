//===- Roofline.cpp - Time by unit, and the roofs above a plan ----------------===//

#include "tools/attune/Roofline.h"

#include "arch/ArchInfo.h"
#include "tools/attune/Output.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

Expected<Roofline> Roofline::of(const ordered_json &explained) {
  const ordered_json &plan = explained["plan"];
  if (!plan.contains("traffic") || !plan.contains("predicted"))
    return Error{"the model has no times for this plan; explain the variant or its attn text"};
  const std::string name = explained["arch"];
  Expected<const ArchInfo *> arch = archInfo(name);
  if (!arch)
    return arch.error();
  const ordered_json &traffic = plan["traffic"], &sizes = traffic["sizes"];
  Roofline line;
  line.title =
      fmt::format("{} head_dim {} x {} for {}, B {} H {} Sq {} Sk {}: {}", explained["variant"].get<std::string>(),
                  explained["headDim"].get<int>(), explained["headDimV"].get<int>(), name,
                  sizes["batch"].get<int64_t>(), sizes["heads"].get<int64_t>(), sizes["queries"].get<int64_t>(),
                  sizes["keys"].get<int64_t>(), plan["text"].get<std::string>());
  line.microseconds = plan["predicted"]["microseconds"];
  line.units = plan["predicted"]["unitMicroseconds"];
  line.flops = 2 * traffic["visitedTiles"].get<double>() * plan["tileQ"].get<double>() * plan["tileK"].get<double>() *
               (explained["headDim"].get<double>() + explained["headDimV"].get<double>());
  line.hbmBytes = traffic["hbmBytes"];
  line.standardBytes = traffic["standardAttentionBytes"];
  line.peakFlops = (*arch)->isCpu() ? 2e9 * (*arch)->fmaPerClockPerSM * (*arch)->smCount * (*arch)->clockGHz
                                    : (*arch)->mmaTflops * 1e12;
  line.peakBytes = (*arch)->memoryBytesPerSecond;
  return line;
}

std::string Roofline::text() const {
  std::string text = fmt::format("{}\n  {:<18} {:>10}\n", title, "unit", "us");
  auto row = [&](const std::string &unit, double time) {
    fmt::format_to(std::back_inserter(text), "  {:<18} {:>10.1f}  {:<40} {:>3.0f}%\n", unit, time,
                   std::string(size_t(std::clamp(std::round(40 * time / microseconds), 0.0, 40.0)), '#'),
                   100 * time / microseconds);
  };
  for (const auto &[unit, time] : units.items())
    row(unit, time.get<double>());
  row("all, as predicted", microseconds);
  const double ridge = peakFlops / peakBytes;
  fmt::format_to(std::back_inserter(text),
                 "  {:.3g} FLOP over {:.3g} bytes of HBM are {:.0f} a byte (standard attention {:.0f}); from {:.0f} on "
                 "the products are the roof\n  {:.0f} TFLOP/s predicted, {:.0f}% of the roof's {:.0f}\n",
                 flops, hbmBytes, intensity(), flops / standardBytes, ridge, rate() / 1e12,
                 100 * rate() / roof(intensity()), roof(intensity()) / 1e12);
  return text;
}

std::string Roofline::svg() const {
  constexpr double width = 720, left = 70, right = 20, top = 50, chart = 320, bar = 24;
  const double height = top + chart + 70 + bar * double(units.size() + 1) + 20;
  const double leastX = std::pow(10, std::floor(std::log10(std::min(flops / standardBytes, intensity()) / 2))),
               mostX = std::pow(10, std::ceil(std::log10(std::max(intensity(), peakFlops / peakBytes) * 2)));
  const double mostY = std::pow(10, std::ceil(std::log10(peakFlops))), leastY = std::min(rate() / 10, roof(leastX));
  auto across = [&](double x) {
    return left + (width - left - right) * std::log(x / leastX) / std::log(mostX / leastX);
  };
  auto down = [&](double y) { return top + chart - chart * std::log(y / leastY) / std::log(mostY / leastY); };
  std::string svg =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
                  "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                  "<text x=\"{}\" y=\"22\" font-size=\"13\">{}</text>\n",
                  width, height, left, xmlText(title));
  auto add = [&]<typename... Arguments>(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
    fmt::format_to(std::back_inserter(svg), format, std::forward<Arguments>(arguments)...);
  };
  for (double x = leastX; x <= mostX * 1.01; x *= 10)
    add("<path d=\"M{:.1f} {}v{}\" stroke=\"#ddd\"/><text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n",
        across(x), top, chart, across(x), top + chart + 16, x);
  for (double y = std::pow(10, std::ceil(std::log10(leastY))); y <= mostY * 1.01; y *= 10)
    add("<path d=\"M{} {:.1f}H{}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
        left, down(y), width - right, left - 6, down(y) + 4, y / 1e12);
  add("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">FLOP a byte of HBM; upwards TFLOP/s</text>\n", width / 2,
      top + chart + 36);
  const double ridge = peakFlops / peakBytes;
  add("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}\" fill=\"none\" stroke=\"#444\" stroke-width=\"2\"/>\n",
      across(leastX), down(roof(leastX)), across(ridge), down(peakFlops), across(mostX), down(peakFlops));
  auto point = [&](double x, double y, const char *color, const char *label) {
    add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        across(x), down(y), color, across(x) - 9, down(y) + 14, label);
  };
  point(intensity(), rate(), "#1f6feb", "this plan");
  const double standard = flops / standardBytes;
  point(standard, roof(standard), "#c2410c", "standard attention, at its roof");
  double y = top + chart + 60;
  auto unit = [&](const std::string &name, double time, const char *color) {
    const double length = (width - left - right - 160) * std::min(1.0, time / microseconds);
    add("<text x=\"{}\" y=\"{:.1f}\">{}</text><rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{:.1f} us</text>\n",
        left, y + 14, name, left + 120, y + 2, length, bar - 6, color, left + 126 + length, y + 14, time);
    y += bar;
  };
  for (const auto &[name, time] : units.items())
    unit(name, time.get<double>(), "#1f6feb");
  unit("predicted", microseconds, "#444");
  return svg + "</svg>\n";
}
