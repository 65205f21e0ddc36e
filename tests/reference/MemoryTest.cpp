#include "tools/reference/Memory.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace attune;
using namespace attune::reference;

namespace {

constexpr uint64_t most = UINT64_MAX;

std::string refusal(const MemoryNeed &need, uint64_t available) {
  Expected<void> fits = need.fits("this run", "make it smaller", available);
  return fits ? "fits" : fits.error().message;
}

} // namespace

TEST_CASE("sizes in bytes stay where they overflow") {
  CHECK(bytesOf(2, std::vector<int64_t>{3, 5}) == 30);
  CHECK(bytesOf(4, std::vector<int64_t>{}) == 4);
  CHECK(bytesOf(4, std::vector<int64_t>{0, 7}) == 28); // strides span the others
  CHECK(bytesOf(1, std::vector<int64_t>{int64_t(1) << 62, 3}) == uint64_t(3) << 62);
  CHECK(bytesOf(1, std::vector<int64_t>{int64_t(1) << 62, 4}) == most);
  CHECK(bytesOf(2, std::vector<int64_t>{int64_t(1) << 62, int64_t(1) << 62, 0}) == most);
}

TEST_CASE("what does not fit is an error with its largest parts") {
  MemoryNeed need;
  CHECK(refusal(need, 0) == "fits");
  need.add("q", 100);
  need.add("k", 2, std::vector<int64_t>{10, 15});
  CHECK(refusal(need, 400) == "fits");
  CHECK(refusal(need, 399) == "this run needs 400 bytes (k 300, q 100), available are 399; make it smaller");
  need.add("v", 1);
  need.add("o", 2);
  CHECK(refusal(need, 0) == "this run needs 403 bytes (k 300, q 100, o 2, ...), available are 0; make it smaller");
  need.add("bias", most);
  CHECK(need.total() == most);
  CHECK(refusal(need, 7) == "this run needs 2^64 or more bytes (bias 2^64 or more, k 300, q 100, ...), "
                            "available are 7; make it smaller");
}

TEST_CASE("limits of the process bound what is available") {
  constexpr uint64_t room = 100 << 20;
  REQUIRE(availableMemory() > 2 * room);
  for (int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      uint64_t total = 0, other = 0, data = 0; // pages: total resident shared text 0 data
      std::ifstream statm("/proc/self/statm");
      statm >> total >> other >> other >> other >> other >> data;
      const rlim_t limit = (resource == RLIMIT_AS ? total : data) * uint64_t(sysconf(_SC_PAGESIZE)) + room;
      rlimit both{limit, limit};
      if (setrlimit(resource, &both) != 0)
        _exit(2);
      const uint64_t available = availableMemory();
      _exit(available > room / 2 && available < room + room / 2 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}
