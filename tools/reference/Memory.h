//===- Memory.h - Will it fit? --------------------------------------------------===//
//
// Sizes that users give are added up before anything is allocated: an error with the bytes needed and
// available in place of an abort, or of a machine that swaps.
//
//     MemoryNeed need;
//     need.add("q", byteSize(bf16), q.shape);
//     if (Expected<void> fits = need.fits("the inputs", "make --shape smaller"); !fits)
//       return fits.error();
//     // the inputs need 549755813888 bytes (q 549755813888), available are 8145190912; make --shape smaller
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace attune::reference {

/// Bytes that this process may still take: the least of what the machine has (MemAvailable), what its cgroups
/// leave, and what RLIMIT_AS and RLIMIT_DATA leave.
uint64_t availableMemory();

/// The product, or UINT64_MAX where it is larger. An extent of 0 counts as 1: strides span the others.
uint64_t bytesOf(uint64_t elementBytes, std::span<const int64_t> shape);

class MemoryNeed {
public:
  void add(std::string what, uint64_t bytes);
  void add(std::string what, uint64_t elementBytes, std::span<const int64_t> shape) {
    add(std::move(what), bytesOf(elementBytes, shape));
  }

  /// UINT64_MAX: that, or more.
  uint64_t total() const;
  /// The error names `what`, the largest parts and `remedy`.
  Expected<void> fits(const std::string &what, const std::string &remedy, uint64_t available = availableMemory()) const;

private:
  std::vector<std::pair<std::string, uint64_t>> parts;
};

} // namespace attune::reference
