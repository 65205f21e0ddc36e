#include "runtime/Cache.h"

#include "runtime/CacheFolder.h"
#include "runtime/Environment.h"
#include "runtime/Log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <mutex>
#include <unordered_map>

using namespace attune;

//===----------------------------------------------------------------------===//
// The file format (see the table in Cache.h)
//===----------------------------------------------------------------------===//

namespace {

constexpr char magic[8] = {'a', 't', 't', 'u', 'n', 'e', '\r', '\n'};
constexpr uint32_t formatVersion = 1;
constexpr uint32_t sectionCount = 4;
constexpr size_t checksumOffset = 16;
constexpr size_t checkedOffset = checksumOffset + 32; // the checksum covers the file from here on
constexpr size_t headerBytes = checkedOffset + 8 * sectionCount;
constexpr std::string_view extension = ".attune", choiceExtension = ".choice";
constexpr int64_t leftOverSeconds = 3600; // a temporary file of this age is abandoned; writing takes milliseconds

struct Sections {
  std::string_view key, metadata, source, binary;
};

std::string encode(const Sections &of) {
  const std::string_view sections[sectionCount] = {of.key, of.metadata, of.source, of.binary};
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

/// Splits a file into its sections; fails with the reason where the file is bad.
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
  if (sections[1].size() > maxMetadataBytes)
    return Error{fmt::format("its metadata has {} bytes, the most is {}", sections[1].size(), maxMetadataBytes)};
  std::array<uint8_t, 32> checksum = sha256(file.substr(checkedOffset));
  if (std::memcmp(checksum.data(), file.data() + checksumOffset, 32) != 0)
    return Error{"its checksum does not match"};
  return Sections{sections[0], sections[1], sections[2], sections[3]};
}

/// Splits a file into its sections like decode(file), and also checks that the file's key section is `key`.
Expected<Sections> decode(std::string_view file, std::string_view key) {
  Expected<Sections> sections = decode(file);
  if (sections && sections->key != key)
    return Error{"it belongs to another key"};
  return sections;
}

Expected<KernelImage> imageOf(const Sections &sections) {
  Expected<KernelImage> image = KernelImage::fromMetadata(sections.metadata);
  if (!image)
    return image;
  image->cudaSource = sections.source;
  image->binary.assign(sections.binary.begin(), sections.binary.end());
  return image;
}

std::string nameOf(std::string_view key) { return sha256Hex(key).append(extension); }
std::string choiceNameOf(std::string_view key) { return sha256Hex(key).append(choiceExtension); }
bool isEntry(std::string_view name) { return name.ends_with(extension); }
bool isChoice(std::string_view name) { return name.ends_with(choiceExtension); }
bool isTemporary(std::string_view name) { return name.find(CacheFolder::temporaryMark) != std::string_view::npos; }

/// One kernel in memory, or a running compilation that other threads wait for.
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
  std::mutex mutex; // guards `kernels`
  std::unordered_map<std::string, std::shared_ptr<Slot>> kernels;
  mutable std::atomic<bool> warnedUnwritable = false, warnedFolder = false, warnedEntry = false, swept = false;

  /// The slot of a key in memory. Sets `owner` to whether this call created the slot; the caller then has to load or
  /// compile the kernel.
  std::shared_ptr<Slot> slotOf(const std::string &memoryKey, bool &owner) {
    std::lock_guard lock(mutex);
    std::shared_ptr<Slot> &entry = kernels[memoryKey];
    owner = !entry;
    if (owner)
      entry = std::make_shared<Slot>();
    return entry;
  }

  /// The result of the thread that created `slot` and then loads or compiles the kernel for all threads that wait at
  /// the slot. The destructor hands the result to the waiting threads on every exit from the scope of the creating
  /// thread, so that no thread waits for ever.
  struct Publication {
    State &state;
    const std::string &memoryKey;
    std::shared_ptr<Slot> slot;
    Expected<Kernel> result = Error{"the compilation that this one waited for did not finish"};
    ~Publication() {
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
  };

  std::string pathOf(std::string_view name) const { return fmt::format("{}/{}", directory, name); }

  template <typename... Args> void warn(fmt::format_string<Args...> text, Args &&...args) const {
    std::string line = fmt::format(text, std::forward<Args>(args)...);
    if (warning)
      return warning(line);
    logLine(LogLevel::Warning, "{}", line);
  }

  /// Warns unless `warned` is set, and sets `warned`.
  template <typename... Args>
  void warnOnce(std::atomic<bool> &warned, fmt::format_string<Args...> text, Args &&...args) const {
    if (!warned.exchange(true))
      warn(text, std::forward<Args>(args)...);
  }

  /// Warns about a file that exists but cannot be used.
  void warnBad(std::string_view name, std::string_view problem) const {
    warn("cache entry {} is bad: {}; compiling again", pathOf(name), problem);
  }

  std::string distrust(const FileProblem &problem) const {
    return fmt::format(
        "cache folder {} is not used: {}; correct that, or choose a folder of your own, such as by ATTUNE_CACHE_DIR",
        directory, problem.text);
  }

  /// Opens the folder for reading; nullopt on failure. Warns where another user may have written to the folder.
  std::optional<CacheFolder> open() const {
    FileProblem problem;
    std::optional<CacheFolder> folder = CacheFolder::open(directory, problem);
    if (!folder && problem.kind == FileProblem::Kind::Untrusted)
      warnOnce(warnedFolder, "{}", distrust(problem));
    return folder;
  }

  /// Opens the folder for writing and creates it where it is missing. On failure returns nullopt and warns.
  std::optional<CacheFolder> make() const {
    FileProblem problem;
    std::optional<CacheFolder> folder = CacheFolder::make(directory, problem);
    if (!folder && problem.kind == FileProblem::Kind::Untrusted)
      warnOnce(warnedFolder, "{}", distrust(problem));
    else if (!folder)
      warnUnwritable(problem);
    return folder;
  }

  void warnUnwritable(const FileProblem &problem) const {
    warnOnce(warnedUnwritable, "cache folder {} cannot be written: {}; kernels are not kept", directory, problem.text);
  }

  /// Opens the folder for the members that visit all entries (list, verify, clear). Returns an empty optional where
  /// there is no folder, and an error where the folder exists but cannot be used.
  Expected<std::optional<CacheFolder>> openAll() const {
    FileProblem problem;
    if (directory.empty())
      return std::optional<CacheFolder>();
    std::optional<CacheFolder> folder = CacheFolder::open(directory, problem);
    if (folder || problem.kind == FileProblem::Kind::Missing)
      return std::move(folder);
    if (problem.kind == FileProblem::Kind::Untrusted)
      return Error{distrust(problem)};
    return Error{fmt::format("cache folder {} cannot be read: {}; choose another one, such as by ATTUNE_CACHE_DIR",
                             directory, problem.text)};
  }

  /// A file's content, or nullopt. Warns where the file exists but cannot be used.
  std::optional<std::string> read(const CacheFolder &folder, const std::string &name) const {
    FileProblem problem;
    std::optional<std::string> file = folder.read(name, maxEntryBytes, problem);
    if (!file && problem.kind == FileProblem::Kind::Untrusted)
      warnOnce(warnedEntry,
               "cache entry {} is not used: {}; compiling again (attune cache verify lists such entries, attune cache "
               "clear removes them)",
               pathOf(name), problem.text);
    else if (!file && problem.kind == FileProblem::Kind::Unusable)
      warnBad(name, problem.text);
    return file;
  }

  /// The key under which the entry for `key` is stored: the key in the .choice file of `key`, or `key` itself where
  /// there is no such file.
  std::string entryKeyOf(const CacheFolder &folder, std::string_view key) const {
    std::optional<std::string> file = read(folder, choiceNameOf(key));
    if (!file)
      return std::string(key);
    Expected<Sections> sections = decode(*file, key);
    if (sections)
      return std::string(sections->metadata);
    warnBad(choiceNameOf(key), sections.error().message);
    return std::string(key);
  }

  /// Writes a file by way of a temporary name and rename. On failure returns false and warns.
  bool write(const CacheFolder &folder, const std::string &name, std::string_view content) const {
    FileProblem problem;
    const std::string temporary = CacheFolder::temporaryName(name);
    if (!folder.create(temporary, content, problem)) {
      warnUnwritable(problem);
      return false;
    }
    if (!folder.rename(temporary, name, problem)) {
      warn("cache entry {} cannot be written: {}; the kernel is not kept", pathOf(name), problem.text);
      return false;
    }
    return true;
  }

  /// Reads and checks one file of the cache folder for a listing of the folder: a kernel's entry, or a .choice file,
  /// which maps a key to the key of the entry that is used for it.
  CacheEntry entryOf(const CacheFolder &folder, const std::string &name) const {
    CacheEntry entry;
    entry.path = pathOf(name);
    entry.hash = name.substr(0, name.rfind('.'));
    const CacheFolder::Facts facts = folder.facts(name);
    entry.bytes = facts.bytes;
    entry.written = facts.written;
    FileProblem problem;
    std::optional<std::string> file = folder.read(name, maxEntryBytes, problem);
    Expected<Sections> sections = file ? decode(*file) : Error{problem.text};
    if (sections && isEntry(name)) {
      if (Expected<KernelImage> image = imageOf(*sections)) {
        entry.name = image->name;
        entry.arch = image->arch;
      } else {
        sections = image.error();
      }
    }
    if (!sections)
      entry.problem = sections.error().message;
    else if (sha256Hex(sections->key) != entry.hash)
      entry.problem = "its name does not match its key";
    return entry;
  }

  /// Removes temporary files that killed processes left. Only the first call has an effect.
  void sweep(const CacheFolder &folder) const {
    if (swept.exchange(true))
      return;
    const int64_t now = std::time(nullptr);
    FileProblem left; // ignored: the next process tries again to remove the file
    for (const std::string &name : folder.names())
      if (isTemporary(name) && folder.facts(name).written < now - leftOverSeconds)
        folder.remove(name, left);
  }
};

KernelCache::KernelCache(std::string directory, Warning warning) : state(std::make_unique<State>()) {
  state->directory = std::move(directory);
  state->warning = std::move(warning);
}
KernelCache::~KernelCache() = default;

KernelCache &KernelCache::process() {
  // Leaked on purpose: kernels may still be used while static objects are being destroyed.
  static auto *cache = new KernelCache(defaultDirectory());
  return *cache;
}

std::string KernelCache::defaultDirectory() {
  if (std::string chosen = valueOf(EnvironmentVariable::CacheDir); !chosen.empty())
    return chosen;
  if (std::string base = valueOf(EnvironmentVariable::XdgCacheHome); !base.empty())
    return base + "/attune";
  if (std::string home = valueOf(EnvironmentVariable::Home); !home.empty())
    return home + "/.cache/attune";
  return "";
}

const std::string &KernelCache::directory() const { return state->directory; }

//===----------------------------------------------------------------------===//
// The cache on disk
//===----------------------------------------------------------------------===//

std::optional<KernelImage> KernelCache::read(std::string_view key, const Check &check) const {
  if (state->directory.empty())
    return std::nullopt;
  auto missed = [&] {
    logLine(LogLevel::Info, "not in the cache: {}", state->pathOf(nameOf(key)));
    return std::nullopt;
  };
  std::optional<CacheFolder> folder = state->open();
  if (!folder)
    return missed();
  const std::string entryKey = state->entryKeyOf(*folder, key), name = nameOf(entryKey);
  std::optional<std::string> file = state->read(*folder, name);
  if (!file)
    return missed();
  Expected<KernelImage> image = [&]() -> Expected<KernelImage> {
    Expected<Sections> sections = decode(*file, entryKey);
    if (!sections)
      return sections.error();
    Expected<KernelImage> decoded = imageOf(*sections);
    if (decoded && check)
      if (Expected<void> good = check(*decoded); !good)
        return good.error();
    return decoded;
  }();
  if (image) {
    image->cacheHit = true;
    logLine(LogLevel::Info, "{} for {} from the cache: {}", image->name, image->arch, state->pathOf(name));
    return std::move(*image);
  }
  state->warnBad(name, image.error().message);
  return std::nullopt;
}

bool KernelCache::write(std::string_view key, const KernelImage &image, std::string_view entryKey) const {
  if (state->directory.empty())
    return false;
  if (entryKey.empty())
    entryKey = key;
  const std::string metadata = image.metadata(), name = nameOf(entryKey),
                    content =
                        encode({entryKey, metadata, image.cudaSource, {image.binary.data(), image.binary.size()}});
  if (content.size() > maxEntryBytes) {
    state->warn("kernel '{}' is not kept: its cache entry has {} bytes, the most is {}", image.name, content.size(),
                maxEntryBytes);
    return false;
  }
  // Read the entry back before writing it: a file that no process can decode must not be stored.
  Expected<Sections> sections = decode(content);
  if (Expected<KernelImage> readable = sections ? imageOf(*sections) : sections.error(); !readable) {
    state->warn("kernel '{}' is not kept: its cache entry could not be read again: {}", image.name,
                readable.error().message);
    return false;
  }
  std::optional<CacheFolder> folder = state->make();
  if (!folder)
    return false;
  state->sweep(*folder);
  return state->write(*folder, name, content) &&
         (entryKey == key || state->write(*folder, choiceNameOf(key), encode({key, entryKey, {}, {}})));
}

Expected<std::vector<CacheEntry>> KernelCache::list() const {
  Expected<std::optional<CacheFolder>> folder = state->openAll();
  if (!folder)
    return folder.error();
  std::vector<CacheEntry> entries;
  if (!*folder)
    return entries;
  for (const std::string &name : (*folder)->names())
    if (isEntry(name))
      entries.push_back(state->entryOf(**folder, name));
  std::ranges::sort(entries, {}, &CacheEntry::path);
  return entries;
}

Expected<std::vector<CacheEntry>> KernelCache::verify() const {
  Expected<std::optional<CacheFolder>> folder = state->openAll();
  if (!folder)
    return folder.error();
  std::vector<CacheEntry> bad;
  if (*folder)
    for (const std::string &name : (*folder)->names())
      if (isEntry(name) || isChoice(name))
        if (CacheEntry entry = state->entryOf(**folder, name); !entry.problem.empty())
          bad.push_back(std::move(entry));
  std::ranges::sort(bad, {}, &CacheEntry::path);
  return bad;
}

Expected<size_t> KernelCache::clear() {
  {
    std::lock_guard lock(state->mutex);
    state->kernels.clear();
  }
  Expected<std::optional<CacheFolder>> folder = state->openAll();
  if (!folder)
    return folder.error();
  size_t removed = 0, left = 0;
  std::string reason;
  if (*folder)
    for (const std::string &name : (*folder)->names()) {
      if (!isEntry(name) && !isChoice(name) && !isTemporary(name))
        continue;
      if (FileProblem problem; (*folder)->remove(name, problem)) {
        removed += isEntry(name);
      } else if (problem.kind != FileProblem::Kind::Missing) {
        ++left;
        reason = fmt::format("{}: {}", state->pathOf(name), problem.text);
      }
    }
  if (left)
    return Error{fmt::format("{} files of cache folder {} cannot be removed, one is {}; {} entries were removed", left,
                             state->directory, reason, removed)};
  return removed;
}

//===----------------------------------------------------------------------===//
// The cache in memory; concurrent requests for a key share one compilation
//===----------------------------------------------------------------------===//

Expected<Kernel> KernelCache::getOrCompile(std::string_view key, std::string_view device, const Compile &compile,
                                           const Load &load, const Check &check, const EntryKey &entryKey) {
  std::string memoryKey;
  memoryKey.reserve(device.size() + 1 + key.size());
  memoryKey.append(device).append("\n").append(key);

  bool owner = false;
  const std::shared_ptr<Slot> slot = state->slotOf(memoryKey, owner);
  if (!owner) {
    std::unique_lock lock(slot->mutex);
    slot->finished.wait(lock, [&] { return slot->done; });
    if (!*slot->result)
      return slot->result->error();
    logLine(LogLevel::Debug, "{} for {} from this process's memory", (**slot->result).image().name, device);
    return (**slot->result).withCacheHit(true);
  }

  State::Publication publication{*state, memoryKey, slot};
  if (std::optional<KernelImage> image = read(key, check)) {
    Expected<Kernel> kernel = load(std::move(*image));
    if (kernel) {
      publication.result = kernel->withCacheHit(true);
      return publication.result;
    }
    std::optional<CacheFolder> folder = state->open();
    state->warn("cache entry {} does not load: {}; compiling again",
                state->pathOf(nameOf(folder ? state->entryKeyOf(*folder, key) : std::string(key))),
                kernel.error().message);
  }
  Expected<KernelImage> image = compile();
  if (!image) {
    publication.result = image.error();
    return publication.result;
  }
  Expected<Kernel> kernel = load(std::move(*image));
  if (kernel) {
    write(key, kernel->image(), entryKey ? entryKey(kernel->image()) : "");
    kernel = kernel->withCacheHit(false);
  }
  publication.result = kernel;
  return kernel;
}
