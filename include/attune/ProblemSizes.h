//===- ProblemSizes.h - The sizes of an attention problem -------------------===//
//
// A kernel is right for every size, but not the quickest for every size. Which of several kernels a launch starts is a
// function of the class that its sizes fall in:
//
//     SizeClass of(const ProblemSizes &)          // 1 x 8 heads, 1000 queries, 1000 keys: "h8 q1024 k1024"
//
//     | of            | classes                                                                              |
//     |---------------|--------------------------------------------------------------------------------------|
//     | lengths       | up to 512 multiples of 16, as tiles count them; beyond, four to each doubling        |
//     | batch * heads | four to each doubling; one for all that give 1024 blocks of 128 queries and more,    |
//     |               | whose last wave is a small part of the time                                          |
//
// The upper end of a class stands for it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// Sizes to predict, to tune or to prepare a kernel for. Where predictions take defaults, 0 stands for: 16384 tokens of
/// hidden size 2048 in sequences of 4096.
struct ProblemSizes {
  int64_t batch = 0, heads = 0, headsKv = 0, queries = 0, keys = 0;
  friend bool operator==(const ProblemSizes &, const ProblemSizes &) = default;
};

/// See the table above. 0 rows stand for as many as fill the device.
struct SizeClass {
  int64_t rows = 0, queries = 0, keys = 0;

  static SizeClass of(const ProblemSizes &sizes);
  /// "h8 q1024 k1024", or "h* q4096 k4096" where the device is full.
  std::string text() const;
  /// text() read back.
  static std::optional<SizeClass> parse(std::string_view text);
  /// How many classes lie between this and `other`, where what is best for the one is a good choice for the other: not
  /// between lengths of which one is at most 512, nor between numbers of rows, nor beyond half a doubling.
  std::optional<int> distance(const SizeClass &other) const;
  friend bool operator==(const SizeClass &, const SizeClass &) = default;
};

/// Which kernel a launch of few queries over many keys starts, as generation makes them.
enum class FewQueries : uint8_t {
  No,    ///< the one for every size
  Whole, ///< one whose tiles hold the queries of all heads of a group; a block has all keys of its tile
  Split, ///< the same, and several blocks split the keys of a tile
};

/// The kernel for these sizes on a device of so many multiprocessors. `packs`: whether the heads of a group can share a
/// tile. Five eighths of the multiprocessors take all that memory gives: where there are fewer tiles of 64 rows, keys are split,
/// unless they are so few that a second kernel, which combines the splits, takes longer than what is saved.
FewQueries fewQueriesOf(const ProblemSizes &sizes, bool packs, int64_t multiprocessors);

} // namespace attune
#pragma GCC visibility pop
