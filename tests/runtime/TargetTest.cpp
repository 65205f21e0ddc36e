#include "attune/Target.h"
#include "arch/ArchInfo.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace attune;

TEST_CASE("target text round-trips", "[target]") {
  for (const char *text : {"cpu", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120", "sm_90:1", "sm_80:7"}) {
    Expected<Target> target = Target::parse(text);
    REQUIRE(target);
    CHECK(target->text() == text);
    CHECK(target->isCuda() == (std::string(text) != "cpu"));
  }
  CHECK(Target::parse("sm_90:1")->device == 1);
  CHECK(*Target::parse("sm_90") == Target::cuda("sm_90"));
  CHECK(*Target::parse("cpu") == Target::cpu());
}

TEST_CASE("target errors", "[target]") {
  auto message = [](const char *text) { return Target::parse(text).error().message; };
  const std::string valid = archNames();
  CHECK(valid.starts_with("sm_80, sm_86, sm_89, sm_90, sm_90a, "));
  CHECK(valid.ends_with(", cpu"));
  // sm_70 is no slip, but another architecture.
  for (const char *unknown : {"sm_77", "sm_70", "sm_75", ""})
    CHECK(message(unknown) == fmt::format("architecture '{}' is unknown; valid are {}", unknown, valid));
  for (auto [written, meant] : {std::pair("sm_12", "sm_120"), {"sm90a", "sm_90a"}, {"SM_90", "sm_90"}, {"CPU", "cpu"}})
    CHECK(message(written) ==
          fmt::format("architecture '{}' is unknown; valid are {}; did you mean {}?", written, valid, meant));
  for (const char *own : {"sm_120a", "sm_120f"})
    CHECK(message(own) == fmt::format("architecture {} is not supported yet; compile for sm_120, whose kernels run "
                                      "there, valid are {}",
                                      own, valid));
  for (const char *text : {"sm_90:x", "sm_90:", "sm_90:-1", "sm_90:1x", "cpu:0", "sm_90:99999999999"})
    CHECK(message(text) ==
          "target '" + std::string(text) + "' is not an architecture with a device; write for example sm_90:1");
}

TEST_CASE("architecture for a device", "[target]") {
  auto archName = [](int major, int minor) -> std::string_view {
    const ArchInfo *arch = archForDevice(major, minor);
    return arch ? arch->name : "";
  };
  CHECK(archName(8, 0) == "sm_80");
  CHECK(archName(8, 6) == "sm_86");
  CHECK(archName(8, 7) == "");
  CHECK(archName(8, 9) == "sm_89");
  CHECK(archName(9, 0) == "sm_90a");
  CHECK(archName(12, 0) == "sm_120");
  CHECK(archName(12, 1) == "sm_121");
  CHECK(archName(7, 5) == "");
  CHECK(archName(10, 0) == "sm_100");
  CHECK(archName(10, 3) == "sm_103");
  CHECK(archName(11, 0) == "sm_110");
  CHECK(archName(12, 2) == "sm_121");
  CHECK(archName(0, 0) == "");
  CHECK(runsOn(*findArch("sm_80"), 8, 9));
  CHECK_FALSE(runsOn(*findArch("sm_89"), 8, 6));
  CHECK_FALSE(runsOn(*findArch("sm_80"), 9, 0));
  CHECK_FALSE(runsOn(*findArch("cpu"), 0, 0));
  CHECK(runsOn(*findArch("sm_90"), 9, 0)); // by name
  CHECK_FALSE(runsOn(*findArch("sm_90a"), 9, 1));
}

TEST_CASE("architecture limits", "[target]") {
  struct Row {
    const char *name;
    size_t perBlock, perSM;
    int threads, sms;
  };
  for (Row row : {Row{"sm_80", 166912, 167936, 2048, 108}, Row{"sm_86", 101376, 102400, 1536, 84},
                  Row{"sm_89", 101376, 102400, 1536, 128}, Row{"sm_90", 232448, 233472, 2048, 132},
                  Row{"sm_120", 101376, 102400, 1536, 170}}) {
    const ArchInfo *arch = findArch(row.name);
    REQUIRE(arch);
    CHECK(arch->sharedBytesPerBlock == row.perBlock);
    CHECK(arch->sharedBytesPerSM == row.perSM);
    CHECK(arch->sharedReservedPerBlock == 1024);
    CHECK(arch->maxThreadsPerSM == row.threads);
    CHECK(arch->smCount == row.sms);
    CHECK(arch->registersPerSM == 65536);
  }
  CHECK(findArch("cpu")->isCpu());
}

TEST_CASE("blocks per SM", "[target]") {
  const ArchInfo *arch = findArch("sm_90");
  // 65536 registers hold 8 warps of 255 (rounded to 256) registers; 128 threads are 4 warps.
  CHECK(arch->blocksPerSM(128, 255, 0) == 2);
  CHECK(arch->blocksPerSM(128, 128, 0) == 4);
  CHECK(arch->blocksPerSM(128, 32, 232448) == 1);
  CHECK(arch->blocksPerSM(128, 32, 113 * 1024) == 2);
  CHECK(arch->blocksPerSM(128, 32, 232449) == 0);
  CHECK(arch->blocksPerSM(32, 16, 0) == 32); // the most blocks
  CHECK(arch->blocksPerSM(96, 168, 0) == 4); // 12 warps of 168 registers
  CHECK(arch->blocksPerSM(1024, 32, 0) == 2);
  CHECK(arch->blocksPerSM(1025, 32, 0) == 0);
  CHECK(arch->blocksPerSM(0, 32, 0) == 0);
  CHECK(arch->blocksPerSM(128, 256, 0) == 0);
}
