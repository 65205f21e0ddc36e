//===- Cache.h - Compiled kernels, in memory and on disk --------------------===//
//
//     Expected<Kernel> kernel = KernelCache::process().getOrCompile(key, device,
//         [&] { return compileImage(...); },                      // a miss
//         [&](KernelImage image) { return loadCudaKernel(std::move(image), 0); });
//
// The cache is content-addressed: `key` is a text that contains everything the compiled code depends on, and the
// entry's name is the SHA-256 of that text. A lookup tries memory first, then disk. A disk hit does no MLIR work.
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
// A request's key may leave open a decision that the compilation takes, such as the schedule. The entry is then stored
// under a second key that includes the decision, and a file "<sha-256 of the first key>.choice" refers to the entry: it
// has the same format, and its metadata section is the second key.
//
// Files are written under a temporary name and then renamed, so a reader sees a whole entry or none. A read verifies
// the checksum and the key. A bad entry counts as a miss with a warning, and the next compilation replaces it. A folder
// that cannot be written causes one warning, and kernels are then kept in memory only. The first write through a
// KernelCache removes temporary files that are more than an hour old, which killed processes have left.
//
// Trust. Entries are executed. The checksum detects accidents only, because an attacker would write a matching
// checksum. Owners and modes protect the user (CacheFolder.h): a folder that another user owns or may write to is
// neither read nor written, and an entry that another user owns or may write to is a miss. Each of the two cases is
// warned about once. Folders are made with mode 0700 and files with 0600, whatever the umask.
//
// Threads and processes. Every member may be called from any number of threads. Concurrent requests for one key wait
// for one compilation and share its result; a failed compilation's error goes to all of them and is not kept for later
// requests. Any number of processes may share a folder. Two processes that miss at the same time both compile, and the
// entry that is renamed last remains.
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
/// SHA-256 of a text as 64 lower-case hexadecimal digits.
std::string sha256Hex(std::string_view text);

/// The size limit of a cache file; larger files are neither read nor written. A kernel has about 0.2 MB.
inline constexpr size_t maxEntryBytes = size_t(64) << 20;
/// The size limit of an entry's metadata section. Parsed JSON takes up to 30 times as much memory as its text.
inline constexpr size_t maxMetadataBytes = size_t(4) << 20;

/// One file of the cache, as `attune cache list` shows it.
struct CacheEntry {
  std::string path;
  std::string hash; ///< SHA-256 of the key; also the file's name without extension
  std::string name; ///< the variant's name; empty for a bad entry
  std::string arch;
  size_t bytes = 0;    ///< size of the file
  int64_t written = 0; ///< when the file was written, in seconds since 1970
  std::string problem; ///< why the entry is bad; empty for a good entry
};

class KernelCache {
public:
  /// Receives one line per problem; may be called from any thread.
  using Warning = std::function<void(std::string_view)>;
  using Compile = std::function<Expected<KernelImage>()>;
  using Load = std::function<Expected<Kernel>(KernelImage)>;
  using Check = std::function<Expected<void>(const KernelImage &)>;
  /// The key under which an image is stored, where it differs from the key of the request.
  using EntryKey = std::function<std::string(const KernelImage &)>;

  /// A cache in `directory`, which the first write creates; "" keeps kernels in memory only. Without `warning`,
  /// warnings go to standard error.
  explicit KernelCache(std::string directory, Warning warning = {});
  ~KernelCache();
  KernelCache(const KernelCache &) = delete;
  KernelCache &operator=(const KernelCache &) = delete;

  /// The cache of this process, in defaultDirectory() as it was at the first call.
  static KernelCache &process();
  /// $ATTUNE_CACHE_DIR, else $XDG_CACHE_HOME/attune, else ~/.cache/attune; "" when none is set.
  static std::string defaultDirectory();

  const std::string &directory() const;

  /// The kernel for `key` on `device` ("cpu", "cuda:0"; devices have separate kernels in memory and share files). The
  /// kernel comes from memory, else from the image on disk by `load`, else from a new image by `compile` and `load`; a
  /// new image is then stored. kernel.cacheHit() is false only for the caller that compiled. An image from disk that
  /// does not load, or that `check` refuses, counts as a bad entry. None of the functions may call getOrCompile for the
  /// same key and device: the call would wait for itself.
  Expected<Kernel> getOrCompile(std::string_view key, std::string_view device, const Compile &compile, const Load &load,
                                const Check &check = {}, const EntryKey &entryKey = {});

  /// The image on disk for `key`, or nothing. Warns about a bad entry, and about an image that `check` refuses.
  std::optional<KernelImage> read(std::string_view key, const Check &check = {}) const;
  /// Stores an image on disk under `key`. Where `entryKey` is given, stores it under `entryKey`, with a .choice file
  /// that refers from `key` to that entry. On failure returns false and warns.
  bool write(std::string_view key, const KernelImage &image, std::string_view entryKey = {}) const;

  /// Every entry of the folder, good or bad, sorted by path. Empty where there is no folder; an error for a folder that
  /// cannot be read or that others may write to.
  Expected<std::vector<CacheEntry>> list() const;
  /// The bad entries and the bad .choice files. Fails for a folder that cannot be read or that others may write to.
  Expected<std::vector<CacheEntry>> verify() const;
  /// Drops the kernels in memory and removes all entries, .choice files and temporary files; other files stay. Returns
  /// the number of entries removed. Fails for a folder that cannot be read or that others may write to, and where some
  /// files cannot be removed; the error then gives the number of files that remain.
  Expected<size_t> clear();

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace attune
