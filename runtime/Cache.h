//===- Cache.h - Compiled kernels, in memory and on disk --------------------===//
//
//     Expected<Kernel> kernel = KernelCache::process().getOrCompile(key, device,
//         [&] { return compileImage(...); },                      // a miss
//         [&](KernelImage image) { return loadCudaKernel(std::move(image), 0); });
//
// Content-addressed: `key` is a text that holds everything the compiled code depends on, and the entry's
// name is the SHA-256 of that text. Memory is asked first, then disk. A disk hit does no MLIR work.
//
// One file per entry, "<sha-256 of the key>.attune", of at most maxEntryBytes:
//
//     | bytes   | content                                                        |
//     |---------|----------------------------------------------------------------|
//     | 8       | "attune\r\n"                                                   |
//     | 4, 4    | format version, number of sections (4)                         |
//     | 32      | SHA-256 of everything after it                                 |
//     | 8 each  | sizes of the sections, which fill the rest of the file         |
//     | ...     | the sections: key, metadata (JSON), CUDA source, binary        |
//
// A key may leave open what an image decides, as the schedule: the entry then stands under a key that says so, and
// "<sha-256 of the first key>.choice", a file of the same form whose metadata is that other key, leads there.
//
// A file appears by write-to-temporary and rename, so a reader sees a whole entry or none; the checksum and
// the key are compared when it is read. A bad entry, whatever is wrong with it, is a miss with a warning and is
// replaced by the next compilation. A folder that cannot be written gives one warning; everything works without it. A
// temporary file that a killed process left is removed by a later write, an hour after.
//
// Trust. Entries are executed. The checksum detects accidents only: whoever writes an entry writes its checksum too.
// What protects the user are owners and modes (CacheFolder.h): a folder that another user owns or may write to is
// neither read nor written, an entry like that is a miss, and one warning for each of the two says so. Folders are made
// with mode 0700, files with 0600, whatever the umask.
//
// Threads and processes. Every member may be called from any number of threads; concurrent requests for
// one key wait for one compilation and share its result, an error included (errors are not kept). Any
// number of processes may share a folder; two that miss at once both compile and the last rename stays.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/Kernel.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

/// SHA-256 (FIPS 180-4) of a text.
std::array<uint8_t, 32> sha256(std::string_view text);
/// The same as 64 lower-case hexadecimal digits.
std::string sha256Hex(std::string_view text);

/// The most that a file of the cache may have; nothing larger is read into memory or written. A kernel has about 0.2
/// MB.
inline constexpr size_t maxEntryBytes = size_t(64) << 20;
/// The most that its metadata may have: parsed, they take up to 30 times as much.
inline constexpr size_t maxMetadataBytes = size_t(4) << 20;

/// A description of one file of the cache, for `attune cache list`.
struct CacheEntry {
  std::string path;
  std::string hash; ///< of the key; the file's name
  std::string name; ///< the variant's; empty for a bad entry
  std::string arch;
  size_t bytes = 0;    ///< of the file
  int64_t written = 0; ///< seconds since 1970
  std::string problem; ///< why the entry is bad; empty for a good one
};

class KernelCache {
public:
  /// Receives one line per problem; may be called from any thread.
  using Warning = std::function<void(std::string_view)>;
  using Compile = std::function<Expected<KernelImage>()>;
  using Load = std::function<Expected<Kernel>(KernelImage)>;
  using Check = std::function<Expected<void>(const KernelImage &)>;
  /// The key under which an image is stored, where that is another than it was asked for by.
  using EntryKey = std::function<std::string(const KernelImage &)>;

  /// A cache in `directory`, made on first write; "" is memory only. Without `warning`, warnings go to
  /// standard error.
  explicit KernelCache(std::string directory, Warning warning = {});
  ~KernelCache();
  KernelCache(const KernelCache &) = delete;
  KernelCache &operator=(const KernelCache &) = delete;

  /// The cache of this process, in defaultDirectory() as it was at the first call.
  static KernelCache &process();
  /// $ATTUNE_CACHE_DIR, else $XDG_CACHE_HOME/attune, else ~/.cache/attune; "" when none is set.
  static std::string defaultDirectory();

  const std::string &directory() const;

  /// The kernel for `key` on `device` ("cpu", "cuda:0"; separate in memory, shared on disk): from memory,
  /// else `load` of the image on disk, else `load` of what `compile` gives, which is then stored.
  /// kernel.cacheHit() is false only in the last case, for the caller that compiled. An image from disk that
  /// does not load, or that `check` refuses, counts as a bad entry. No function may ask for the same key again.
  Expected<Kernel> getOrCompile(std::string_view key, std::string_view device, const Compile &compile, const Load &load,
                                const Check &check = {}, const EntryKey &entryKey = {});

  /// The image on disk for `key`, or nothing (a bad entry warns). An image that `check` refuses counts as a bad entry.
  std::optional<KernelImage> read(std::string_view key, const Check &check = {}) const;
  /// Stores an image on disk, under `entryKey` where there is one, and that `key` leads there; false, with a warning,
  /// when that fails.
  bool write(std::string_view key, const KernelImage &image, std::string_view entryKey = {}) const;

  /// Every entry of the folder, sorted by path; bad ones with their problem. None where there is no folder; an error
  /// for one that cannot be read or that others may write to.
  Expected<std::vector<CacheEntry>> list() const;
  /// The bad ones, and bad files that lead from a key to an entry.
  Expected<std::vector<CacheEntry>> verify() const;
  /// Forgets the kernels in memory, and removes every entry and left-over temporary file; returns the number
  /// of entries removed. Other files are left alone. Errors as list(), and one that says how many files are left where
  /// some cannot be removed.
  Expected<size_t> clear();

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace attune
