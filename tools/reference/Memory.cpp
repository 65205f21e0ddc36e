//===- Memory.cpp - Will it fit? ------------------------------------------------===//
#include "tools/reference/Memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace attune::reference {

namespace {

constexpr uint64_t most = std::numeric_limits<uint64_t>::max();

uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
uint64_t plus(uint64_t a, uint64_t b) { return a > most - b ? most : a + b; }

/// The number after `key` in a file of lines, or the first one where the key is empty; nothing for "max".
std::optional<uint64_t> numberIn(const std::string &path, const std::string &key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key))
      continue;
    uint64_t number = 0;
    if (std::istringstream(line.substr(key.size())) >> number)
      return number;
  }
  return std::nullopt;
}

/// What a limit of the process leaves; `used` is a line of /proc/self/status, in kB.
uint64_t leftOf(int resource, const char *used) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return most;
  return minus(limit.rlim_cur, numberIn("/proc/self/status", used).value_or(0) * 1024);
}

/// What one cgroup leaves; its page cache (inactive_file) can be taken back.
uint64_t leftOfGroup(const std::string &folder, const char *limitName, const char *usedName, const char *cacheKey) {
  std::optional<uint64_t> limit = numberIn(folder + limitName), used = numberIn(folder + usedName);
  if (!limit || !used)
    return most;
  return minus(*limit, minus(*used, numberIn(folder + "memory.stat", cacheKey).value_or(0)));
}

/// The least that the process's cgroup and those around it leave, of version 2 and of version 1.
uint64_t leftOfGroups() {
  uint64_t left = most;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) { // hierarchy:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos)
      continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string path = line.substr(second + 1);; path = path.substr(0, path.find_last_of('/'))) {
      const std::string folder = root + (path == "/" ? "" : path) + "/";
      left = std::min(left, unified ? leftOfGroup(folder, "memory.max", "memory.current", "inactive_file ")
                                    : leftOfGroup(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                                  "total_inactive_file "));
      if (path.empty() || path == "/")
        break;
    }
  }
  return left;
}

} // namespace

uint64_t availableMemory() {
  uint64_t machine = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  if (std::optional<uint64_t> available = numberIn("/proc/meminfo", "MemAvailable:"))
    machine = *available * 1024;
  return std::min({machine, leftOfGroups(), leftOf(RLIMIT_AS, "VmSize:"), leftOf(RLIMIT_DATA, "VmData:")});
}

uint64_t bytesOf(uint64_t elementBytes, std::span<const int64_t> shape) {
  uint64_t bytes = elementBytes;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, uint64_t(std::max<int64_t>(extent, 1)), &bytes))
      return most;
  return bytes;
}

void MemoryNeed::add(std::string what, uint64_t bytes) { parts.emplace_back(std::move(what), bytes); }

uint64_t MemoryNeed::total() const {
  return std::accumulate(parts.begin(), parts.end(), uint64_t(0),
                         [](uint64_t sum, const auto &part) { return plus(sum, part.second); });
}

Expected<void> MemoryNeed::fits(const std::string &what, const std::string &remedy, uint64_t available) const {
  const uint64_t needed = total();
  if (needed <= available)
    return {};
  auto number = [](uint64_t bytes) { return bytes == most ? "2^64 or more" : std::to_string(bytes); };
  std::vector<std::pair<std::string, uint64_t>> largest = parts;
  std::sort(largest.begin(), largest.end(), [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(largest.size(), 3); ++i)
    if (largest[i].second)
      list += (i ? ", " : "") + largest[i].first + " " + number(largest[i].second);
  return Error{what + " needs " + number(needed) + " bytes (" + list + (largest.size() > 3 ? ", ..." : "") +
               "), available are " + std::to_string(available) + "; " + remedy};
}

} // namespace attune::reference
