//===- Counters.cpp - Memory traffic of a launch by hardware counters --------===//

#include "driver/Counters.h"

#include "driver/Timing.h"
#include "driver/ToolkitProgram.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

using namespace attune;
using namespace attune::driver;

namespace {
struct Counter {
  const char *metric;
  double CountedBytes::*to;
  double factor; ///< from ncu's base unit
};
} // namespace

static constexpr Counter counters[] = {
    {"l1tex__m_xbar2l1tex_read_bytes.sum", &CountedBytes::readBytes, 1},
    {"l1tex__m_l1tex2xbar_write_bytes.sum", &CountedBytes::writtenBytes, 1},
    {"dram__bytes_read.sum", &CountedBytes::hbmReadBytes, 1},
    {"dram__bytes_write.sum", &CountedBytes::hbmWrittenBytes, 1},
    {"gpu__time_duration.sum", &CountedBytes::microseconds, 1e-3}, // nanoseconds
};
/// Counters of the timer's kernel, which reads other memory until L2 holds nothing of the previous launch.
static constexpr Counter evictionCounters[] = {{"dram__bytes_write.sum", &CountedBytes::hbmWrittenBytes, 1}};

/// The fields of a CSV line such as "a","b, c","1,234".
static std::vector<std::string> fieldsOf(const std::string &line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (char letter : line) {
    if (letter == '"')
      quoted = !quoted;
    else if (letter == ',' && !quoted)
      fields.emplace_back();
    else if (letter != '\r')
      fields.back() += letter;
  }
  return fields;
}

/// Parses the counters `wanted` from the output of ncu --csv --print-units base.
static Expected<CountedBytes> parseBytes(const std::string &csv, std::span<const Counter> wanted) {
  CountedBytes counted;
  std::vector<const char *> missing;
  for (const Counter &counter : wanted)
    missing.push_back(counter.metric);
  size_t name = 0, value = 0;
  for (size_t begin = 0; begin < csv.size();) {
    const size_t end = std::min(csv.find('\n', begin), csv.size());
    const std::vector<std::string> fields = fieldsOf(csv.substr(begin, end - begin));
    begin = end + 1;
    // The table starts after the output of the program itself.
    if (const auto at = std::ranges::find(fields, "Metric Name"); at != fields.end()) {
      name = size_t(at - fields.begin());
      value = size_t(std::ranges::find(fields, "Metric Value") - fields.begin());
      continue;
    }
    if (name == 0 || fields.size() <= std::max(name, value))
      continue;
    for (const Counter &counter : wanted) {
      if (fields[name] != counter.metric)
        continue;
      std::string number = fields[value];
      std::erase(number, ','); // thousands separators
      char *rest = nullptr;
      const double read = std::strtod(number.c_str(), &rest);
      if (number.empty() || *rest)
        return Error{fmt::format("ncu gives '{}' for {}, which is no number", fields[value], counter.metric)};
      counted.*counter.to = read * counter.factor;
      std::erase(missing, counter.metric);
    }
  }
  if (!missing.empty())
    return Error{fmt::format("ncu counted no launch: its output lacks {}", fmt::join(missing, ", "))};
  return counted;
}

Expected<CountedBytes> attune::driver::readCounters(const std::string &csv) { return parseBytes(csv, counters); }

/// The counters `wanted` of one launch of the kernel `symbol`, after `skipped` earlier launches. `options` are passed
/// to ncu.
static Expected<CountedBytes> countLaunch(const std::vector<std::string> &command, const std::string &symbol,
                                          int skipped, std::span<const Counter> wanted,
                                          const std::vector<std::string> &options) {
  std::optional<std::string> ncu = findToolkitProgram("ncu");
  if (!ncu)
    return Error{"counting bytes needs ncu, which is neither on PATH nor in a CUDA toolkit ($CUDA_HOME, $CUDA_PATH, "
                 "/usr/local/cuda); install the toolkit's package cuda-nsight-compute"};
  std::string metrics;
  for (const Counter &counter : wanted)
    metrics += (metrics.empty() ? "" : ",") + std::string(counter.metric);
  std::vector<std::string> whole = {*ncu,
                                    "--csv",
                                    "--print-units",
                                    "base",
                                    "--clock-control",
                                    "none",
                                    "--kernel-name",
                                    symbol,
                                    "--launch-skip",
                                    std::to_string(skipped),
                                    "--launch-count",
                                    "1",
                                    "--metrics",
                                    metrics};
  whole.insert(whole.end(), options.begin(), options.end());
  whole.insert(whole.end(), command.begin(), command.end());
  Expected<std::string> output = outputOf(whole, "counting bytes");
  return output ? parseBytes(*output, wanted) : output.error();
}

Expected<CountedBytes> attune::driver::countBytes(const std::vector<std::string> &command, const std::string &symbol) {
  return countLaunch(command, symbol, 2, counters, {});
}

Expected<double> attune::driver::countLeftBytes(const std::vector<std::string> &command, int launchesBefore) {
  // By default ncu flushes L2 before the kernel, which would leave nothing to count.
  Expected<CountedBytes> behind =
      countLaunch(command, timerKernel, launchesBefore + 2, evictionCounters, {"--cache-control", "none"});
  return behind ? Expected<double>(behind->hbmWrittenBytes) : behind.error();
}
