//===- CountersTest.cpp - What ncu says, and what becomes of it --------------===//

#include "driver/Counters.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

using namespace attune;
using namespace attune::driver;
namespace fs = std::filesystem;

namespace {
/// What ncu prints of a launch, behind what the program itself prints.
std::string csvOf(const std::string &value = "2281700000") {
  std::string text =
      "causal bf16 B 4, H 16\n==PROF== Connected to process 7 (/usr/bin/attune)\n"
      "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block "
      "Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric "
      "Value\"\r\n";
  auto row = [&](const char *metric, const char *unit, const std::string &number) {
    text +=
        fmt::format("\"0\",\"7\",\"attune\",\"127.0.0.1\",\"causal\",\"1\",\"7\",\"(384, 1, 1)\",\"(132, 1, 1)\",\"0\","
                    "\"9.0\",\"Command line profiler metrics\",\"{}\",\"{}\",\"{}\"\r\n",
                    metric, unit, number);
  };
  row("dram__bytes_read.sum", "byte", "205,250,048");
  row("dram__bytes_write.sum", "byte", "57,654,016");
  row("gpu__time_duration.sum", "nsecond", "812,345");
  row("l1tex__m_l1tex2xbar_write_bytes.sum", "byte", "68157440");
  row("l1tex__m_xbar2l1tex_read_bytes.sum", "byte", value);
  return text;
}

/// A program called ncu, the first on PATH, that runs `script`.
struct FakeNcu {
  std::string folder, path = std::getenv("PATH");
  explicit FakeNcu(const std::string &script) {
    std::string name = (fs::temp_directory_path() / "attune-ncu-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    folder = name;
    std::ofstream(folder + "/ncu") << "#!/bin/sh\n" << script;
    fs::permissions(folder + "/ncu", fs::perms::owner_all);
    setenv("PATH", (folder + ":" + path).c_str(), 1);
  }
  ~FakeNcu() {
    setenv("PATH", path.c_str(), 1);
    fs::remove_all(folder);
  }
  /// What `printing` was called with.
  std::vector<std::string> words() const {
    std::ifstream file(folder + "/words");
    return {std::istream_iterator<std::string>(file), {}};
  }
};

/// A script that notes its arguments and prints `text`.
std::string printing(const std::string &text) {
  return "for word; do echo \"$word\" >> \"$(dirname \"$0\")/words\"; done\ncat <<'END'\n" + text + "END\n";
}

/// The word behind an option.
std::string behind(const std::vector<std::string> &words, const char *option) {
  const auto found = std::ranges::find(words, option);
  return found == words.end() ? "none" : *(found + 1);
}
} // namespace

TEST_CASE("counters are read from ncu's table") {
  Expected<CountedBytes> counted = readCounters(csvOf());
  REQUIRE(counted);
  CHECK(counted->readBytes == 2281700000);
  CHECK(counted->writtenBytes == 68157440);
  CHECK(counted->hbmReadBytes == 205250048);
  CHECK(counted->hbmWrittenBytes == 57654016);
  CHECK(counted->microseconds == Approx(812.345));
}

TEST_CASE("output that is no such table is an error") {
  auto failure = [](const std::string &csv) {
    Expected<CountedBytes> counted = readCounters(csv);
    return counted ? "no error" : counted.error().message;
  };
  CHECK(failure("") == "ncu counted no launch: its output lacks l1tex__m_xbar2l1tex_read_bytes.sum, "
                       "l1tex__m_l1tex2xbar_write_bytes.sum, dram__bytes_read.sum, dram__bytes_write.sum, "
                       "gpu__time_duration.sum");
  const std::string whole = csvOf();
  CHECK(failure(whole.substr(0, whole.find("\"0\",\"7\""))) == failure(""));
  CHECK(failure(csvOf("n/a")) == "ncu gives 'n/a' for l1tex__m_xbar2l1tex_read_bytes.sum, which is no number");
  for (size_t cut = 0; cut < whole.size(); cut += 37)
    (void)failure(whole.substr(0, cut));
}

TEST_CASE("ncu counts the third launch of the kernel") {
  {
    const FakeNcu ncu(printing(csvOf()));
    Expected<CountedBytes> counted = countBytes({"/usr/bin/attune", "run", "causal"}, "causal");
    REQUIRE(counted);
    CHECK(counted->hbmReadBytes == 205250048);
    const std::vector<std::string> words = ncu.words();
    const std::vector<std::string> last(words.end() - 3, words.end());
    CHECK(last == std::vector<std::string>{"/usr/bin/attune", "run", "causal"});
    CHECK(behind(words, "--kernel-name") == "causal");
    CHECK(behind(words, "--launch-skip") == "2");
    CHECK(behind(words, "--launch-count") == "1");
  }
  const FakeNcu ncu("echo 'ERR_NVGPUCTRPERM'\nexit 9\n");
  Expected<CountedBytes> counted = countBytes({"/usr/bin/attune"}, "causal");
  REQUIRE_FALSE(counted);
  CHECK(counted.error().message == ncu.folder + "/ncu fails with code 9: ERR_NVGPUCTRPERM");
}

TEST_CASE("what a launch leaves in level 2 is counted of the timer's kernel behind it") {
  const FakeNcu ncu(printing(csvOf()));
  Expected<double> left = countLeftBytes({"/usr/bin/attune", "run", "causal"});
  REQUIRE(left);
  CHECK(*left == 57654016);
  const std::vector<std::string> words = ncu.words();
  CHECK(behind(words, "--kernel-name") == "read_all");
  CHECK(behind(words, "--cache-control") == "none");
  CHECK(behind(words, "--metrics") == "dram__bytes_write.sum");
}
