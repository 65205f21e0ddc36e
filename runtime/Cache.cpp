#include "runtime/Cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>

using namespace attune;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// The file format; the table in Cache.h
//===----------------------------------------------------------------------===//

namespace {

constexpr char magic[8] = {'a', 't', 't', 'u', 'n', 'e', '\r', '\n'};
constexpr uint32_t formatVersion = 1;
constexpr uint32_t sectionCount = 4;
constexpr size_t checksumOffset = 16;
constexpr size_t checkedOffset = checksumOffset + 32; // the checksum covers the file from here on
constexpr size_t headerBytes = checkedOffset + 8 * sectionCount;
constexpr std::string_view extension = ".attune";
constexpr std::string_view temporaryMark = ".attune.tmp.";

struct Sections {
  std::string_view key, metadata, source, binary;
};

std::string encode(std::string_view key, const KernelImage &image) {
  std::string metadata = image.metadata();
  const std::string_view sections[sectionCount] = {
      key, metadata, image.cudaSource, std::string_view(image.binary.data(), image.binary.size())};
  std::string file(headerBytes, '\0');
  std::memcpy(file.data(), magic, 8);
  std::memcpy(file.data() + 8, &formatVersion, 4);
  std::memcpy(file.data() + 12, &sectionCount, 4);
  for (uint32_t i = 0; i < sectionCount; ++i) {
    uint64_t size = sections[i].size();
    std::memcpy(file.data() + checkedOffset + 8 * i, &size, 8);
    file += sections[i];
  }
  std::array<uint8_t, 32> checksum = sha256(std::string_view(file).substr(checkedOffset));
  std::memcpy(file.data() + checksumOffset, checksum.data(), 32);
  return file;
}

/// Splits a file into its sections, or says why it is bad.
Expected<Sections> decode(std::string_view file) {
  if (file.size() < headerBytes)
    return Error{fmt::format("it is cut off at {} bytes", file.size())};
  if (std::memcmp(file.data(), magic, 8) != 0)
    return Error{"it is not a cache entry"};
  uint32_t version = 0, count = 0;
  std::memcpy(&version, file.data() + 8, 4);
  std::memcpy(&count, file.data() + 12, 4);
  if (version != formatVersion || count != sectionCount)
    return Error{fmt::format("it has format version {}, required is {}", version, formatVersion)};
  std::array<uint8_t, 32> checksum = sha256(file.substr(checkedOffset));
  if (std::memcmp(checksum.data(), file.data() + checksumOffset, 32) != 0)
    return Error{"its checksum does not match"};
  std::string_view sections[sectionCount];
  std::string_view rest = file.substr(headerBytes);
  for (uint32_t i = 0; i < sectionCount; ++i) {
    uint64_t size = 0;
    std::memcpy(&size, file.data() + checkedOffset + 8 * i, 8);
    if (size > rest.size())
      return Error{"its sections reach beyond its end"};
    sections[i] = rest.substr(0, size);
    rest.remove_prefix(size);
  }
  if (!rest.empty())
    return Error{"its sections end before the file does"};
  return Sections{sections[0], sections[1], sections[2], sections[3]};
}

/// A whole file; errno says why there is none.
std::optional<std::string> readFile(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return std::nullopt;
  struct stat info = {};
  std::optional<std::string> content;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
    content.emplace(size_t(info.st_size), '\0');
    size_t done = 0;
    while (done < content->size()) {
      ssize_t got = ::read(file, content->data() + done, content->size() - done);
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        break;
      done += size_t(got);
    }
    content->resize(done);
  } else {
    errno = EINVAL;
  }
  int problem = errno;
  ::close(file);
  errno = problem;
  return content;
}

bool writeWhole(int file, std::string_view content) {
  while (!content.empty()) {
    ssize_t put = ::write(file, content.data(), content.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    content.remove_prefix(size_t(put));
  }
  return true;
}

/// One kernel in memory, or the compilation that will give it.
struct Slot {
  std::mutex mutex = {};
  std::condition_variable finished = {};
  bool done = false;
  std::optional<Expected<Kernel>> result = {};
};

} // namespace

struct KernelCache::State {
  std::string directory;
  Warning warning;
  std::mutex mutex; // guards kernels
  std::unordered_map<std::string, std::shared_ptr<Slot>> kernels;
  mutable std::atomic<bool> warnedUnwritable = false;

  std::string pathOf(std::string_view key) const {
    return fmt::format("{}/{}{}", directory, sha256Hex(key), extension);
  }

  template <typename... Args> void warn(fmt::format_string<Args...> text, Args &&...args) const {
    std::string line = fmt::format(text, std::forward<Args>(args)...);
    if (warning)
      warning(line);
    else
      fmt::print(stderr, "attune: warning: {}\n", line);
  }

  /// One warning for a folder that takes no files, however often it is tried.
  template <typename... Args> void warnUnwritable(fmt::format_string<Args...> text, Args &&...args) const {
    if (!warnedUnwritable.exchange(true))
      warn(text, std::forward<Args>(args)...);
  }

  /// Calls visit(path, file name) for every regular file whose name holds `mark`.
  template <typename Visit> void forEachFile(std::string_view mark, Visit &&visit) const {
    std::error_code code;
    if (directory.empty())
      return;
    for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
      std::string name = at->path().filename().string();
      std::error_code ignored;
      if (name.find(mark) != std::string::npos && at->is_regular_file(ignored))
        visit(at->path(), name);
    }
  }
};

KernelCache::KernelCache(std::string directory, Warning warning) : state(std::make_unique<State>()) {
  state->directory = std::move(directory);
  state->warning = std::move(warning);
}
KernelCache::~KernelCache() = default;

KernelCache &KernelCache::process() {
  // Never destroyed: kernels may be used while static objects are being destroyed.
  static auto *cache = new KernelCache(defaultDirectory());
  return *cache;
}

std::string KernelCache::defaultDirectory() {
  auto environment = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string chosen = environment("ATTUNE_CACHE_DIR"); !chosen.empty())
    return chosen;
  if (std::string base = environment("XDG_CACHE_HOME"); !base.empty())
    return base + "/attune";
  if (std::string home = environment("HOME"); !home.empty())
    return home + "/.cache/attune";
  return "";
}

const std::string &KernelCache::directory() const { return state->directory; }

//===----------------------------------------------------------------------===//
// Disk
//===----------------------------------------------------------------------===//

std::optional<KernelImage> KernelCache::read(std::string_view key) const {
  if (state->directory.empty())
    return std::nullopt;
  std::string path = state->pathOf(key);
  std::optional<std::string> file = readFile(path);
  if (!file) {
    if (errno != ENOENT && errno != ENOTDIR)
      state->warn("cache entry {} cannot be read: {}; compiling again", path, std::strerror(errno));
    return std::nullopt;
  }
  Expected<Sections> sections = decode(*file);
  if (!sections) {
    state->warn("cache entry {} is bad: {}; compiling again", path, sections.error().message);
    return std::nullopt;
  }
  if (sections->key != key) {
    state->warn("cache entry {} is bad: it belongs to another key; compiling again", path);
    return std::nullopt;
  }
  Expected<KernelImage> image = KernelImage::fromMetadata(sections->metadata);
  if (!image) {
    state->warn("cache entry {} is bad: {}", path, image.error().message);
    return std::nullopt;
  }
  image->cudaSource = sections->source;
  image->binary.assign(sections->binary.begin(), sections->binary.end());
  return std::move(*image);
}

bool KernelCache::write(std::string_view key, const KernelImage &image) const {
  if (state->directory.empty())
    return false;
  std::error_code code;
  if (fs::create_directories(state->directory, code))
    fs::permissions(state->directory, fs::perms::owner_all, code); // entries are code that will run
  std::string path = state->pathOf(key);
  static std::atomic<unsigned> counter = 0;
  std::string temporary = fmt::format("{}/{}{}{}.{}", state->directory, sha256Hex(key).substr(0, 16),
                                      temporaryMark, getpid(), counter.fetch_add(1));
  int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) {
    state->warnUnwritable("cache folder {} cannot be written: {}; kernels are not kept", state->directory,
                          std::strerror(errno));
    return false;
  }
  // Without fsync a crash of the machine may leave a file without content; its checksum then fails.
  bool written = writeWhole(file, encode(key, image));
  int problem = errno;
  if (::close(file) != 0 && written) {
    written = false;
    problem = errno;
  }
  if (written && std::rename(temporary.c_str(), path.c_str()) != 0) {
    written = false;
    problem = errno;
  }
  if (!written) {
    ::unlink(temporary.c_str());
    state->warnUnwritable("cache entry {} cannot be written: {}; the kernel is not kept", path,
                          std::strerror(problem));
  }
  return written;
}

std::vector<CacheEntry> KernelCache::list() const {
  std::vector<CacheEntry> entries;
  state->forEachFile(extension, [&](const fs::path &path, const std::string &name) {
    if (!name.ends_with(extension))
      return;
    CacheEntry &entry = entries.emplace_back();
    entry.path = path.string();
    entry.hash = name.substr(0, name.size() - extension.size());
    struct stat info = {};
    if (stat(entry.path.c_str(), &info) == 0) {
      entry.bytes = size_t(info.st_size);
      entry.written = info.st_mtime;
    }
    std::optional<std::string> file = readFile(entry.path);
    if (!file) {
      entry.problem = fmt::format("it cannot be read: {}", std::strerror(errno));
      return;
    }
    Expected<Sections> sections = decode(*file);
    if (!sections) {
      entry.problem = sections.error().message;
      return;
    }
    if (sha256Hex(sections->key) != entry.hash) {
      entry.problem = "its name does not match its key";
      return;
    }
    Expected<KernelImage> image = KernelImage::fromMetadata(sections->metadata);
    if (!image) {
      entry.problem = image.error().message;
      return;
    }
    entry.name = image->name;
    entry.arch = image->arch;
  });
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntry &a, const CacheEntry &b) { return a.path < b.path; });
  return entries;
}

std::vector<CacheEntry> KernelCache::verify() const {
  std::vector<CacheEntry> entries = list();
  std::erase_if(entries, [](const CacheEntry &entry) { return entry.problem.empty(); });
  return entries;
}

size_t KernelCache::clear() {
  {
    std::lock_guard lock(state->mutex);
    state->kernels.clear();
  }
  size_t removed = 0;
  state->forEachFile(extension, [&](const fs::path &path, const std::string &name) {
    std::error_code code;
    if (name.ends_with(extension))
      removed += fs::remove(path, code);
    else if (name.find(temporaryMark) != std::string::npos)
      fs::remove(path, code);
  });
  return removed;
}

//===----------------------------------------------------------------------===//
// Memory, and one compilation per key
//===----------------------------------------------------------------------===//

Expected<Kernel> KernelCache::getOrCompile(std::string_view key, std::string_view device,
                                           const Compile &compile, const Load &load) {
  std::string memoryKey;
  memoryKey.reserve(device.size() + 1 + key.size());
  memoryKey.append(device).append("\n").append(key);

  std::shared_ptr<Slot> slot;
  bool owner = false;
  {
    std::lock_guard lock(state->mutex);
    std::shared_ptr<Slot> &entry = state->kernels[memoryKey];
    if (!entry) {
      entry = std::make_shared<Slot>();
      owner = true;
    }
    slot = entry;
  }
  if (!owner) {
    std::unique_lock lock(slot->mutex);
    slot->finished.wait(lock, [&] { return slot->done; });
    if (!*slot->result)
      return slot->result->error();
    return (**slot->result).withCacheHit(true);
  }

  // Publishes the result however this scope is left, so that nobody waits for ever.
  struct Publish {
    State &state;
    const std::string &memoryKey;
    std::shared_ptr<Slot> slot;
    Expected<Kernel> result = Error{"the compilation that this one waited for did not finish"};
    ~Publish() {
      if (!result) {
        std::lock_guard lock(state.mutex);
        if (auto entry = state.kernels.find(memoryKey); entry != state.kernels.end() && entry->second == slot)
          state.kernels.erase(entry);
      }
      std::lock_guard lock(slot->mutex);
      slot->result = result;
      slot->done = true;
      slot->finished.notify_all();
    }
  } publish{*state, memoryKey, slot};

  if (std::optional<KernelImage> image = read(key)) {
    Expected<Kernel> kernel = load(std::move(*image));
    if (kernel) {
      publish.result = kernel->withCacheHit(true);
      return publish.result;
    }
    state->warn("cache entry {} does not load: {}; compiling again", state->pathOf(key),
                kernel.error().message);
  }
  Expected<KernelImage> image = compile();
  if (!image) {
    publish.result = image.error();
    return publish.result;
  }
  Expected<Kernel> kernel = load(std::move(*image));
  if (kernel) {
    write(key, kernel->image());
    kernel = kernel->withCacheHit(false);
  }
  publish.result = kernel;
  return kernel;
}
