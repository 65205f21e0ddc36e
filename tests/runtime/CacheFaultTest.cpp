//===- CacheFaultTest.cpp - The cache under attack --------------------------===//
//
// Other users, odd files, truncations, forgeries, killed processes and full disks. Whatever lies in the folder, a request gives
// the right kernel, and says what it did not use. The tests mean the same for root and for a user; each says what it leaves out where
// the system does not let it be tried.
//
//===----------------------------------------------------------------------===//

#include "runtime/Cache.h"
#include "runtime/CacheFolder.h"
#include "tests/runtime/CacheSetup.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <random>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace attune;
using namespace attune::cachetest;

namespace {

constexpr uid_t otherUser = 65533, thirdUser = 65532;

unsigned modeOf(const std::string &path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

size_t filesIn(const std::string &folder) { return size_t(std::distance(fs::directory_iterator(folder), {})); }

/// A process without return: `body` gives its exit code. One that hangs is ended by a signal.
pid_t startChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  return child;
}

/// The exit code of `body` in a process of its own, which may give up privileges; -1 where a signal ended it.
int inChild(const std::function<int()> &body) {
  int status = 0;
  waitpid(startChild(body), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int impossible = 77;

/// Makes the calling process root of a mount namespace of its own, for a user in a user namespace, too.
bool enterOwnMounts() {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (geteuid() != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << fmt::format("0 {} 1", user);
    std::ofstream("/proc/self/gid_map") << fmt::format("0 {} 1", group);
  } else if (unshare(CLONE_NEWNS) != 0) {
    return false;
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

template <typename T> std::string errorOf(const Expected<T> &result) { return result ? "" : result.error().message; }

/// `s.get(key)` compiles, with these warnings since the last look.
void checkMiss(Setup &s, const std::string &key, const std::vector<std::string> &warnings) {
  const int before = s.compiles;
  Expected<Kernel> kernel = s.get(key);
  REQUIRE(kernel);
  CHECK_FALSE(kernel->cacheHit());
  CHECK(s.compiles == before + 1);
  CHECK(kernel->image().binary == imageOf(key).binary);
  CHECK(s.warnings == warnings);
  s.warnings.clear();
}

void checkHit(Setup &s, const std::string &key) {
  s.restart();
  Expected<Kernel> kernel = s.get(key);
  REQUIRE(kernel);
  CHECK(kernel->cacheHit());
  CHECK(kernel->image().name == key);
  CHECK(s.warnings.empty());
}

} // namespace

//===----------------------------------------------------------------------===//
// Other users
//===----------------------------------------------------------------------===//

TEST_CASE("folders have mode 0700 and files 0600, whatever the umask", "[cache-faults]") {
  for (mode_t mask : {0000, 0022, 0077, 0777}) {
    Setup s;
    s.cache = s.make(s.folder + "/a/b/cache");
    umask(mask);
    Expected<Kernel> kernel = s.get("x");
    umask(022);
    REQUIRE(kernel);
    CHECK(s.warnings.empty());
    for (const char *made : {"/a", "/a/b", "/a/b/cache"})
      CHECK(modeOf(s.folder + made) == 0700);
    CHECK(modeOf(s.pathOf("x")) == 0600);
  }
}

TEST_CASE("a folder that others may write to is neither read nor written", "[cache-faults]") {
  for (unsigned mode : {0777, 01777, 0770, 0702}) {
    Setup s;
    REQUIRE(s.get("a"));
    const std::string folder = s.cache->directory();
    chmod(folder.c_str(), mode);
    s.restart();
    const std::string problem =
        fmt::format("cache folder {} is not used: its mode {:04o} lets others write to it, required is {:04o}; correct that, or choose a folder of "
                    "your own, such as by ATTUNE_CACHE_DIR",
                    folder, mode, mode & ~022u);
    checkMiss(s, "a", {problem});
    checkMiss(s, "b", {}); // said once
    CHECK(errorOf(s.cache->list()) == problem);
    CHECK(errorOf(s.cache->verify()) == problem);
    CHECK(errorOf(s.cache->clear()) == problem);
    CHECK(filesIn(folder) == 1);
    chmod(folder.c_str(), 0755);
    checkHit(s, "a");
  }
}

TEST_CASE("an entry that others may write to is a miss and is replaced", "[cache-faults]") {
  for (unsigned mode : {0666, 0620, 0602}) {
    Setup s;
    REQUIRE(s.get("a"));
    REQUIRE(s.get("b"));
    for (const char *key : {"a", "b"})
      chmod(s.pathOf(key).c_str(), mode);
    const std::string problem = fmt::format("its mode {:04o} lets others write to it, required is {:04o}", mode, mode & ~022u);
    const std::vector<CacheEntry> bad = *s.cache->verify();
    CHECK(bad.size() == 2);
    for (const CacheEntry &entry : bad)
      CHECK(entry.problem == problem);
    s.restart();
    checkMiss(s, "a",
              {"cache entry " + s.pathOf("a") + " is not used: " + problem +
               "; compiling again (attune cache verify lists such entries, attune cache clear removes them)"});
    checkMiss(s, "b", {}); // said once
    CHECK(modeOf(s.pathOf("a")) == 0600);
    CHECK(s.cache->verify()->empty());
    checkHit(s, "a");
  }
}

TEST_CASE("files and folders of another user are not used", "[cache-faults]") {
  if (geteuid() != 0) {
    WARN("left out: only root gives files to another user");
    return;
  }
  Setup s;
  REQUIRE(s.get("a"));
  const std::string folder = s.cache->directory(), link = s.folder + "/link";
  const std::string problem = fmt::format("it belongs to user {}, required is user 0", otherUser);

  REQUIRE(chown(s.pathOf("a").c_str(), otherUser, otherUser) == 0);
  REQUIRE(s.cache->verify()->size() == 1);
  CHECK(s.cache->verify()->front().problem == problem);
  s.restart();
  checkMiss(s, "a",
            {"cache entry " + s.pathOf("a") + " is not used: " + problem +
             "; compiling again (attune cache verify lists such entries, attune cache clear removes them)"});
  checkHit(s, "a");

  const std::string remedy = "; correct that, or choose a folder of your own, such as by ATTUNE_CACHE_DIR";
  REQUIRE(chown(folder.c_str(), otherUser, otherUser) == 0);
  s.restart();
  checkMiss(s, "a", {"cache folder " + folder + " is not used: " + problem + remedy});
  checkMiss(s, "b", {});
  CHECK(filesIn(folder) == 1);
  REQUIRE(chown(folder.c_str(), 0, 0) == 0);
  checkHit(s, "a");

  // A link that another user made leads where the other wants.
  fs::create_directory_symlink(folder, link);
  s.cache = s.make(link);
  REQUIRE(s.get("a")->cacheHit());
  REQUIRE(lchown(link.c_str(), otherUser, otherUser) == 0);
  for (const std::string &name : {link, link + "/"}) {
    s.cache = s.make(name);
    checkMiss(s, "a", {"cache folder " + name + " is not used: " + problem + remedy});
  }
}

TEST_CASE("a user trusts root and no other user", "[cache-faults]") {
  if (geteuid() != 0) {
    WARN("left out: only root becomes another user");
    return;
  }
  Setup s;
  REQUIRE(s.get("a"));
  const std::string folder = s.cache->directory(), path = s.pathOf("a");
  chmod(s.folder.c_str(), 0755);
  chmod(folder.c_str(), 0755);
  chmod(path.c_str(), 0644);
  /// Whether a process of the user finds the entry, with so many warnings.
  auto finds = [&](bool found, size_t warnings) {
    return inChild([&] {
             if (setresgid(otherUser, otherUser, otherUser) != 0 || setresuid(otherUser, otherUser, otherUser) != 0)
               return 2;
             s.warnings.clear();
             return s.make(folder)->read("a").has_value() == found && s.warnings.size() == warnings ? 0 : 1;
           }) == 0;
  };
  CHECK(finds(true, 0)); // of root
  REQUIRE(chown(path.c_str(), otherUser, otherUser) == 0);
  CHECK(finds(true, 0)); // its own, in root's folder
  REQUIRE(chown(path.c_str(), thirdUser, thirdUser) == 0);
  CHECK(finds(false, 1));
  REQUIRE(chown(path.c_str(), 0, 0) == 0);
  REQUIRE(chown(folder.c_str(), otherUser, otherUser) == 0);
  CHECK(finds(true, 0));
  REQUIRE(chown(folder.c_str(), thirdUser, thirdUser) == 0);
  CHECK(finds(false, 1));
}

TEST_CASE("what root owns outside a user's namespace belongs to another user inside", "[cache-faults]") {
  if (geteuid() == 0) {
    SUCCEED("the test of ownership for a user, who cannot change owners; root has the two above");
    return;
  }
  int code = inChild([&] {
    if (!enterOwnMounts())
      return impossible;
    FileProblem problem;
    const bool opened = CacheFolder::open("/usr", problem).has_value();
    return !opened && problem.kind == FileProblem::Kind::Untrusted && problem.text.starts_with("it belongs to user ") ? 0 : 1;
  });
  if (code == impossible)
    WARN("left out: this system gives users no namespaces");
  else
    CHECK(code == 0);
}

TEST_CASE("what is exchanged while it is read is not used", "[cache-faults]") {
  Setup s;
  REQUIRE(s.get("a"));
  const std::string path = s.pathOf("a"), forged = s.folder + "/forged", good = s.folder + "/good", fifo = s.folder + "/fifo";
  fs::copy_file(path, good);
  REQUIRE(s.cache->write("a", imageOf("of another")));
  fs::rename(path, forged);
  chmod(forged.c_str(), 0666);
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const pid_t exchanging = startChild([&]() -> int {
    for (;;)
      for (const std::string &file : {forged, good, fifo}) {
        fs::create_hard_link(file, path + ".next");
        fs::rename(path + ".next", path); // in place at once
      }
  });
  constexpr int rounds = 4000;
  const int code = inChild([&] { // it may hang
    int found = 0, wrong = 0;
    for (int round = 0; round < rounds; ++round)
      if (std::optional<KernelImage> image = s.cache->read("a")) {
        ++found;
        wrong += image->name != "a";
      }
    return wrong > 0 ? 2 : found > 0 && found < rounds ? 0 : 1;
  });
  kill(exchanging, SIGKILL);
  waitpid(exchanging, nullptr, 0);
  CHECK(code == 0);
}

//===----------------------------------------------------------------------===//
// Odd files
//===----------------------------------------------------------------------===//

namespace {
struct Oddity {
  const char *name;
  std::function<bool(const std::string &path)> make; ///< false where the system does not allow it
  std::string problem;
};

bool makeSocket(const std::string &path) {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path)
    return false;
  std::strcpy(address.sun_path, path.c_str());
  Descriptor file(socket(AF_UNIX, SOCK_STREAM, 0));
  return bind(file.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
}

bool makeDevice(const std::string &path, mode_t type, unsigned major, unsigned minor) {
  struct statvfs system = {};
  return statvfs(".", &system) == 0 && !(system.f_flag & ST_NODEV) && mknod(path.c_str(), type | 0600, makedev(major, minor)) == 0;
}

bool makeSparse(const std::string &path, off_t bytes) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT, 0600));
  return ftruncate(file.get(), bytes) == 0;
}

std::vector<Oddity> oddities() {
  const std::string irregular = "it is not a regular file";
  auto link = [](const std::string &to) { return [to](const std::string &path) { return symlink(to.c_str(), path.c_str()) == 0; }; };
  return {
      {"FIFO", [](const std::string &path) { return mkfifo(path.c_str(), 0600) == 0; }, irregular},
      {"folder", [](const std::string &path) { return mkdir(path.c_str(), 0700) == 0; }, irregular},
      // By its own name: a socket's address is short.
      {"socket", [](const std::string &path) { return makeSocket("s") && rename("s", path.c_str()) == 0; }, irregular},
      {"null device", [](const std::string &path) { return makeDevice(path, S_IFCHR, 1, 3); }, irregular},
      {"endless device", [](const std::string &path) { return makeDevice(path, S_IFCHR, 1, 5); }, irregular},
      {"device without a driver", [](const std::string &path) { return makeDevice(path, S_IFBLK, 250, 250); }, irregular},
      {"link to a good entry", [](const std::string &path) { return symlink("good", path.c_str()) == 0; }, irregular},
      {"link to nothing", link("/nowhere"), irregular},
      {"link to a device", link("/dev/zero"), irregular},
      {"loop", [](const std::string &path) { return symlink(fs::path(path).filename().c_str(), path.c_str()) == 0; }, irregular},
      {"100 GB without content", [](const std::string &path) { return makeSparse(path, 100'000'000'000); },
       "it has 100000000000 bytes, the most is 67108864"},
      {"a byte too many", [](const std::string &path) { return makeSparse(path, off_t(maxEntryBytes) + 1); },
       "it has 67108865 bytes, the most is 67108864"},
      {"as large as allowed", [](const std::string &path) { return makeSparse(path, off_t(maxEntryBytes)); }, "it is not a cache entry"},
      {"empty", [](const std::string &path) { return makeSparse(path, 0); }, "it is cut off at 0 bytes"},
  };
}
} // namespace

TEST_CASE("an odd file in the place of an entry is a miss at once, and goes", "[cache-faults]") {
  for (const Oddity &odd : oddities()) {
    INFO(odd.name);
    Setup s;
    REQUIRE(s.get("a"));
    fs::copy_file(s.pathOf("a"), s.cache->directory() + "/good");
    fs::remove(s.pathOf("a"));
    const fs::path before = fs::current_path();
    fs::current_path(s.cache->directory());
    const bool made = odd.make(s.pathOf("a"));
    fs::current_path(before);
    if (!made) {
      WARN("left out: cannot make a " << odd.name);
      continue;
    }
    // A process that waits or runs out of memory is ended and fails here.
    const int code = inChild([&] {
      alarm(20);
#if !__has_feature(address_sanitizer)
      const rlimit limit = {.rlim_cur = size_t(8) << 30, .rlim_max = RLIM_INFINITY};
      setrlimit(RLIMIT_AS, &limit);
#endif
      return s.cache->list()->size() == 1 && s.cache->verify()->size() == 1 && !s.cache->read("a") ? 0 : 1;
    });
    REQUIRE(code == 0);
    CHECK(s.cache->verify()->front().problem == odd.problem);
    s.restart();
    const bool stays = fs::is_directory(fs::symlink_status(s.pathOf("a")));
    std::vector<std::string> warnings = {"cache entry " + s.pathOf("a") + " is bad: " + odd.problem + "; compiling again"};
    if (stays) // no file replaces a folder
      warnings.push_back("cache entry " + s.pathOf("a") + " cannot be written: Is a directory; the kernel is not kept");
    checkMiss(s, "a", warnings);
    if (!stays) {
      checkHit(s, "a");
      fs::remove(s.pathOf("a"));
      fs::current_path(s.cache->directory());
      REQUIRE(odd.make(s.pathOf("a")));
      fs::current_path(before);
    }
    CHECK(*s.cache->clear() == (stays ? 0 : 1));
    CHECK(filesIn(s.cache->directory()) == (stays ? 2 : 1));
  }
}

TEST_CASE("an entry that its owner may not read", "[cache-faults]") {
  if (geteuid() == 0) {
    SUCCEED("root reads every file");
    return;
  }
  Setup s;
  REQUIRE(s.get("a"));
  chmod(s.pathOf("a").c_str(), 0);
  s.restart();
  checkMiss(s, "a", {"cache entry " + s.pathOf("a") + " is bad: it cannot be read: Permission denied; compiling again"});
  checkHit(s, "a");
}

TEST_CASE("an odd file in the place of the folder", "[cache-faults]") {
  for (const Oddity &odd : oddities()) {
    if (std::string_view(odd.name) == "folder")
      continue;
    INFO(odd.name);
    Setup s;
    const fs::path before = fs::current_path();
    fs::current_path(s.folder);
    const bool made = odd.make(s.cache->directory());
    fs::current_path(before);
    if (!made)
      continue; // said above
    const int code = inChild([&] {
      alarm(20);
      Expected<Kernel> kernel = s.get("a");
      return kernel && !kernel->cacheHit() && s.warnings.size() == 1 ? 0 : 1;
    });
    CHECK(code == 0);
  }
}

TEST_CASE("an entry cut off at any byte is a miss", "[cache-faults]") {
  Setup s;
  s.cache->write("a", imageOf("a", 300));
  const std::string good = s.content("a");
  REQUIRE(good.size() > 700);
  size_t missed = 0;
  for (size_t size = 0; size < good.size(); ++size) {
    s.overwrite("a", good.substr(0, size));
    missed += !s.cache->read("a");
  }
  CHECK(missed == good.size());
  CHECK(s.warnings.size() == good.size());
  s.overwrite("a", good);
  CHECK(s.cache->read("a"));
}

//===----------------------------------------------------------------------===//
// Killed processes
//===----------------------------------------------------------------------===//

namespace {
/// What the processes say, in memory that they share.
struct Shared {
  std::atomic<bool> stop = false;
  std::atomic<int> reads = 0, wrong = 0, warnings = 0;
};

/// Reads and writes entries that all processes ask for and one of its own until told to stop.
int hammer(Setup &s, Shared &shared, unsigned seed) {
  std::minstd_rand random(seed);
  std::unique_ptr<KernelCache> cache = s.make();
  while (!shared.stop) {
    const std::string key = random() % 4 ? fmt::format("shared {}", random() % 3) : fmt::format("own {}", seed % 16);
    if (std::optional<KernelImage> image = cache->read(key)) {
      ++shared.reads;
      shared.wrong += image->binary != imageOf(key, 100000).binary || image->name != key;
    }
    if (random() % 2)
      cache->write(key, imageOf(key, 100000));
  }
  shared.warnings += int(s.warnings.size());
  return 0;
}
} // namespace

TEST_CASE("16 processes on one folder, some of them killed at random", "[cache-faults]") {
  constexpr unsigned processes = 16, kills = 60;
  Setup s;
  void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto &shared = *new (memory) Shared;
  std::vector<pid_t> children;
  for (unsigned i = 0; i < processes; ++i)
    children.push_back(startChild([&] { return hammer(s, shared, i); }));
  std::minstd_rand random(7);
  for (unsigned killed = 0; killed < kills; ++killed) {
    std::this_thread::sleep_for(std::chrono::microseconds(5000 + random() % 20000));
    pid_t &victim = children[random() % processes];
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    victim = startChild([&] { return hammer(s, shared, processes + killed); });
  }
  for (int waits = 0; shared.reads < 100 && waits < 4000; ++waits) // on a busy machine
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(shared.reads >= 100);
  shared.stop = true;
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(shared.wrong == 0);
  CHECK(shared.warnings == 0);

  std::vector<CacheEntry> entries = *s.cache->list();
  CHECK(entries.size() >= 3);
  CHECK(s.cache->verify()->empty());
  for (const CacheEntry &entry : entries) {
    std::optional<KernelImage> image = s.cache->read(entry.name);
    REQUIRE(image);
    CHECK(image->binary == imageOf(entry.name, 100000).binary);
  }
  // What the killed ones left goes once it is old.
  size_t leftOver = filesIn(s.cache->directory()) - entries.size();
  for (const auto &file : fs::directory_iterator(s.cache->directory()))
    if (file.path().extension() != ".attune") {
      CHECK(file.path().filename().string().find(".attune.tmp.") != std::string::npos);
      fs::last_write_time(file.path(), fs::file_time_type::clock::now() - std::chrono::hours(2));
    }
  CHECK(leftOver <= kills);
  REQUIRE(s.cache->write(entries[0].name, imageOf(entries[0].name)));
  CHECK(filesIn(s.cache->directory()) == entries.size());
  munmap(memory, sizeof(Shared));
}

TEST_CASE("a write removes the temporary files of killed processes, an hour after", "[cache-faults]") {
  Setup s;
  REQUIRE(s.get("a"));
  const std::string folder = s.cache->directory();
  auto leave = [&](const char *name, std::chrono::minutes age) {
    std::ofstream(folder + "/" + name) << "x";
    fs::last_write_time(folder + "/" + name, fs::file_time_type::clock::now() - age);
  };
  leave("0.attune.tmp.1", std::chrono::minutes(61));
  leave("1.attune.tmp.2", std::chrono::minutes(59));
  leave("README", std::chrono::minutes(1000));
  s.restart();
  REQUIRE(s.get("b"));
  CHECK_FALSE(fs::exists(folder + "/0.attune.tmp.1"));
  CHECK(fs::exists(folder + "/1.attune.tmp.2"));
  CHECK(fs::exists(folder + "/README"));
  CHECK(s.cache->list()->size() == 2);
}

//===----------------------------------------------------------------------===//
// Full disks
//===----------------------------------------------------------------------===//

namespace {
/// In a child: each check's line is its exit code.
#define REQUIRE_IN_CHILD(condition)                                                                                                                  \
  if (!(condition))                                                                                                                                  \
    return __LINE__ % 70 + 1

Expected<Kernel> getLarge(Setup &s, const std::string &key) {
  return s.cache->getOrCompile(
      key, "cpu", [&]() -> Expected<KernelImage> { return imageOf(key, 200000); },
      [](KernelImage image) -> Expected<Kernel> { return makeHostKernel(std::move(image), {&nothing, 0}, nullptr); });
}

/// Kernels come whatever the disk says, with one warning; nothing is left behind.
int useFullDisk(Setup &s, const std::string &reason) {
  REQUIRE_IN_CHILD(getLarge(s, "a"));
  REQUIRE_IN_CHILD(getLarge(s, "b"));
  REQUIRE_IN_CHILD(getLarge(s, "a")->cacheHit()); // in memory
  REQUIRE_IN_CHILD(s.warnings == std::vector<std::string>{"cache folder " + s.cache->directory() + " cannot be written: " + reason + "; kernels are not kept"});
  REQUIRE_IN_CHILD(filesIn(s.cache->directory()) == 0);
  return 0;
}
} // namespace

TEST_CASE("a full disk and a read-only one", "[cache-faults]") {
  Setup s;
  const int code = inChild([&] {
    fs::create_directory(s.folder + "/disk");
    if (!enterOwnMounts() || mount("none", (s.folder + "/disk").c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0)
      return impossible;
    const std::string folder = s.folder + "/disk/cache";
    fs::create_directory(folder);
    s.cache = s.make(folder);
    if (int failed = useFullDisk(s, "No space left on device"))
      return failed;
    // What fits is kept.
    REQUIRE_IN_CHILD(s.get("small"));
    s.cache = s.make(folder);
    REQUIRE_IN_CHILD(s.get("small")->cacheHit());
    REQUIRE_IN_CHILD(*s.cache->clear() == 1);
    REQUIRE_IN_CHILD(mount("none", (s.folder + "/disk").c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=64k") == 0);
    s.cache = s.make(folder);
    s.warnings.clear();
    return useFullDisk(s, "Read-only file system");
  });
  if (code == impossible)
    WARN("left out: this system lets nobody mount a small disk");
  else
    CHECK(code == 0);
}

TEST_CASE("a limit on the size of files does not end the process", "[cache-faults]") {
  Setup s;
  fs::create_directory(s.cache->directory());
  CHECK(inChild([&] {
          rlimit limit = {.rlim_cur = 10000, .rlim_max = 10000};
          REQUIRE_IN_CHILD(setrlimit(RLIMIT_FSIZE, &limit) == 0);
          return useFullDisk(s, "File too large");
        }) == 0);
}

TEST_CASE("a warning that cannot be printed", "[cache-faults]") {
  Setup s;
  REQUIRE(s.get("a"));
  s.overwrite("a", "damaged");
  for (const char *output : {"/dev/full", ""})
    CHECK(inChild([&] {
            close(2);
            REQUIRE_IN_CHILD(!*output || open(output, O_WRONLY) == 2);
            KernelCache quiet(s.cache->directory());
            return s.get(quiet, "a") && !quiet.read("none") ? 0 : 1;
          }) == 0);
}
