//===- ProblemSizes.h - The sizes of an attention problem -------------------===//
//
// A kernel is correct for every size, but not the fastest for every size. Sizes form classes, and the class of a
// launch's sizes determines which of several kernels the launch starts:
//
//     SizeClass of(const ProblemSizes &)          // 1 x 8 heads, 1000 queries, 1000 keys: "h8 q1024 k1024"
//
//     | of            | classes                                                                              |
//     |---------------|--------------------------------------------------------------------------------------|
//     | lengths       | up to 512, the multiples of 16; above, four classes for each doubling                |
//     | batch * heads | four classes for each doubling; one class for all sizes with at least 1024 blocks of |
//     |               | 128 queries, where the last wave is a small part of the time                         |
//
// A class is named by its upper end.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// Sizes to predict, to tune or to prepare a kernel for. In predictions, 0 means the default: 16384 tokens of hidden
/// size 2048, in sequences of 4096.
struct ProblemSizes {
  int64_t batch = 0, heads = 0, headsKv = 0, queries = 0, keys = 0;
  friend bool operator==(const ProblemSizes &, const ProblemSizes &) = default;
};

/// A class of sizes (table above). `rows` is batch * heads; 0 rows are the class of all sizes that fill the device.
struct SizeClass {
  int64_t rows = 0, queries = 0, keys = 0;

  static SizeClass of(const ProblemSizes &sizes);
  /// "h8 q1024 k1024", or "h* q4096 k4096" where the device is full.
  std::string text() const;
  /// Reads the result of text().
  static std::optional<SizeClass> parse(std::string_view text);
  /// The number of classes from this class to `other`, if the best plan of one is a good choice for the other. Nothing
  /// if the rows differ, if a length differs and is at most 512 in one class, or if lengths differ by more than half a
  /// doubling.
  std::optional<int> distance(const SizeClass &other) const;
  friend bool operator==(const SizeClass &, const SizeClass &) = default;
};

/// Which kernel a launch with few queries and many keys starts, such as a decoding step of generation.
enum class FewQueries : uint8_t {
  No,    ///< the kernel for every size
  Whole, ///< a kernel whose tiles contain the queries of all heads of a group; a block processes all keys of its tile
  Split, ///< as Whole, but several blocks split the keys of a tile (split-KV)
};

/// The kernel for these sizes on a device with `multiprocessors`. `packs` says whether the heads of a group can share a
/// tile. Blocks on five eighths of the multiprocessors saturate the memory bandwidth. If there are fewer tiles of 64
/// rows, keys are split, unless keys are so few that the second kernel, which combines the splits, takes longer than is
/// saved.
FewQueries fewQueriesOf(const ProblemSizes &sizes, bool packs, int64_t multiprocessors);

} // namespace attune
#pragma GCC visibility pop
