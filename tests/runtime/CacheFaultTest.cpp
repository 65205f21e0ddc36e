//===- CacheFaultTest.cpp - The cache under attack --------------------------===//
//
// Other users, odd files, truncations, forgeries, killed processes and full disks. Whatever lies in the folder, a
// request gives the right kernel, and says what it did not use. The tests mean the same for root and for a user; each
// says what it leaves out where the system does not let it be tried.
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
#include <nlohmann/json.hpp>
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
using nlohmann::json;

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
    const std::string problem = fmt::format("cache folder {} is not used: its mode {:04o} lets others write to it, "
                                            "required is {:04o}; correct that, or choose a folder of "
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
    const std::string problem =
        fmt::format("its mode {:04o} lets others write to it, required is {:04o}", mode, mode & ~022u);
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
    return !opened && problem.kind == FileProblem::Kind::Untrusted && problem.text.starts_with("it belongs to user ")
               ? 0
               : 1;
  });
  if (code == impossible)
    WARN("left out: this system gives users no namespaces");
  else
    CHECK(code == 0);
}

TEST_CASE("what is exchanged while it is read is not used", "[cache-faults]") {
  Setup s;
  REQUIRE(s.get("a"));
  const std::string path = s.pathOf("a"), forged = s.folder + "/forged", good = s.folder + "/good",
                    fifo = s.folder + "/fifo";
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
  constexpr int rounds = 4000, most = 1000000; // until both kinds have been met, however seldom the other process runs
  const int code = inChild([&] {               // it may hang
    int found = 0, wrong = 0, round = 0;
    for (; round < rounds || ((found == 0 || found == round) && round < most); ++round)
      if (std::optional<KernelImage> image = s.cache->read("a")) {
        ++found;
        wrong += image->name != "a";
      }
    return wrong > 0 ? 2 : found > 0 && found < round ? 0 : 1;
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
  return statvfs(".", &system) == 0 && !(system.f_flag & ST_NODEV) &&
         mknod(path.c_str(), type | 0600, makedev(major, minor)) == 0;
}

bool makeSparse(const std::string &path, off_t bytes) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT, 0600));
  return ftruncate(file.get(), bytes) == 0;
}

std::vector<Oddity> oddities() {
  const std::string irregular = "it is not a regular file";
  auto link = [](const std::string &to) {
    return [to](const std::string &path) { return symlink(to.c_str(), path.c_str()) == 0; };
  };
  return {
      {"FIFO", [](const std::string &path) { return mkfifo(path.c_str(), 0600) == 0; }, irregular},
      {"folder", [](const std::string &path) { return mkdir(path.c_str(), 0700) == 0; }, irregular},
      // By its own name: a socket's address is short.
      {"socket", [](const std::string &path) { return makeSocket("s") && rename("s", path.c_str()) == 0; }, irregular},
      {"null device", [](const std::string &path) { return makeDevice(path, S_IFCHR, 1, 3); }, irregular},
      {"endless device", [](const std::string &path) { return makeDevice(path, S_IFCHR, 1, 5); }, irregular},
      {"device without a driver", [](const std::string &path) { return makeDevice(path, S_IFBLK, 250, 250); },
       irregular},
      {"link to a good entry", [](const std::string &path) { return symlink("good", path.c_str()) == 0; }, irregular},
      {"link to nothing", link("/nowhere"), irregular},
      {"link to a device", link("/dev/zero"), irregular},
      {"loop", [](const std::string &path) { return symlink(fs::path(path).filename().c_str(), path.c_str()) == 0; },
       irregular},
      {"100 GB without content", [](const std::string &path) { return makeSparse(path, 100'000'000'000); },
       "it has 100000000000 bytes, the most is 67108864"},
      {"a byte too many", [](const std::string &path) { return makeSparse(path, off_t(maxEntryBytes) + 1); },
       "it has 67108865 bytes, the most is 67108864"},
      {"as large as allowed", [](const std::string &path) { return makeSparse(path, off_t(maxEntryBytes)); },
       "it is not a cache entry"},
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
    std::vector<std::string> warnings = {"cache entry " + s.pathOf("a") + " is bad: " + odd.problem +
                                         "; compiling again"};
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
    const Expected<size_t> cleared = s.cache->clear();
    REQUIRE(bool(cleared) == !stays);
    if (stays)
      CHECK(cleared.error().message == "1 files of cache folder " + s.cache->directory() +
                                           " cannot be removed, one is " + s.pathOf("a") +
                                           ": Is a directory; 0 entries were removed");
    else
      CHECK(*cleared == 1);
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
  checkMiss(s, "a",
            {"cache entry " + s.pathOf("a") + " is bad: it cannot be read: Permission denied; compiling again"});
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
// Forgeries: the checksum holds
//===----------------------------------------------------------------------===//

namespace {
/// An entry with these sections, under the right checksum. `sizes` may lie.
std::string forgedEntry(const std::vector<std::string> &sections, std::vector<uint64_t> sizes = {}) {
  std::string file = "attune\r\n";
  auto put = [&](const auto &value) { file.append(reinterpret_cast<const char *>(&value), sizeof value); };
  put(uint32_t(1));
  put(uint32_t(4));
  file.resize(48);
  for (size_t i = 0; i < 4; ++i)
    put(uint64_t(i < sizes.size() ? sizes[i] : sections[i].size()));
  for (const std::string &section : sections)
    file += section;
  std::array<uint8_t, 32> checksum = sha256(std::string_view(file).substr(48));
  std::memcpy(file.data() + 16, checksum.data(), 32);
  return file;
}

/// What a cache says about entry "a" with this metadata; "" where it reads it.
std::string problemOf(Setup &s, const std::string &metadata) {
  s.overwrite("a", forgedEntry({"a", metadata, "source", "binary"}));
  s.warnings.clear();
  if (s.cache->read("a"))
    return "";
  REQUIRE(s.warnings.size() == 1);
  const std::string start = "cache entry " + s.pathOf("a") + " is bad: ", end = "; compiling again",
                    &text = s.warnings[0];
  REQUIRE(text.starts_with(start));
  REQUIRE(text.ends_with(end));
  return text.substr(start.size(), text.size() - start.size() - end.size());
}

KernelImage fullImage() {
  KernelImage image = imageOf("a");
  image.signature.scalars = {{"cap", f32}};
  image.signature.tensors = {{"slopes", f32, 2}, {"blocks", boolean, 3}, {"ids", i32, 1}};
  image.signature.blockPattern = {{"blocks", 64, 32}};
  image.signature.operands.push_back({"ids.k", i32, OperandRole::Workspace, false, {{"end", 2}, {"tensors.ids.0"}}});
  image.signature.tensorMaps = {{"k", 64, 64, 128}, {"slopes", 64, 32, 64, true}};
  image.main().claimsWork = image.main().dependent = true;
  image.planJson = "{}";
  return image;
}

/// What reads an image may rely on this.
bool isUsable(const KernelImage &image) {
  const KernelSignature &signature = image.signature;
  auto within = [](int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; };
  bool usable = within(image.tileQ, 0, 1 << 30) && within(image.tileK, 0, 1 << 30) &&
                within(image.main().threads, 1, 1024) && image.main().sharedBytes <= size_t(1) << 30 &&
                within(signature.headDim, 8, 512) && within(signature.headDimV, 8, 512) &&
                signature.packedBytes() <= maxPackedBytes && signature.tensorMaps.size() <= 31;
  for (const TensorParam &tensor : signature.tensors)
    usable &= within(tensor.rank, 0, 4);
  for (const TensorMapParam &map : signature.tensorMaps)
    usable &= within(map.rows, 1, 256) && within(map.columns, 1, 256) && !map.tensor.empty();
  return usable;
}

/// The launch is checked with tensors of the right names, whose shapes may not be what the image asks for.
void tryLaunch(KernelImage image) {
  image.main().sharedBytes = std::min<size_t>(image.main().sharedBytes, 4096);
  std::vector<float> memory(1 << 20);
  auto view = [&](DType type, std::initializer_list<int64_t> shape) {
    return Tensor::contiguous(memory.data(), type, shape);
  };
  LaunchArgs args{.q = view(f32, {1, 1, 16, 64}),
                  .k = view(f32, {1, 1, 16, 64}),
                  .v = view(f32, {1, 1, 16, 64}),
                  .o = view(f32, {1, 1, 16, 64})};
  args.tensors = {{"slopes", view(f32, {16, 16})}, {"blocks", view(boolean, {1, 1, 1})}, {"ids", view(i32, {16})}};
  args.scalars = {{"cap", 1.0f}};
  args.workspace = memory.data();
  args.workspaceBytes = memory.size() * sizeof(float);
  Kernel kernel = makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr);
  (void)kernel.workspaceBytes(args);
  (void)bool(kernel.launch(nullptr, args));
}
} // namespace

TEST_CASE("a forged number is named with its range", "[cache-faults]") {
  Setup s;
  s.cache->write("a", imageOf("a"));
  const json good = json::parse(fullImage().metadata());
  CHECK(problemOf(s, good.dump()) == "");
  struct Forgery {
    const char *path;
    json value;
    std::string problem;
  };
  const Forgery forgeries[] = {
      {"/entries/0/sharedBytes", uint64_t(1) << 60, "has sharedBytes 1152921504606846976, required is 0 to 1073741824"},
      {"/entries/0/sharedBytes", ~uint64_t(0), "has sharedBytes 18446744073709551615, required is 0 to 1073741824"},
      {"/entries/0/grid", json::array({{{"name", "x"}, {"size", 0}, {"by", 1}}}),
       "has a grid over axis 'x', which no tensor has"},
      {"/tileQ", -1, "has tileQ -1, required is 0 to 1073741824"},
      {"/tileQ", int64_t(1) << 32 | 16, "has tileQ 4294967312, required is 0 to 1073741824"},
      {"/entries/0/threads", -1, "has threads -1, required is 1 to 1024"},
      {"/signature/headDim", 1 << 20, "has headDim 1048576, required is 8 to 576"},
      {"/signature/dtype", "i64", "has dtype i64, required is f16, bf16 or f32"},
      {"/signature/tensors/0/rank", 5, "has rank 5, required is 0 to 4"},
      {"/signature/tensors/0/rank", 1, "has tensorMaps of 'slopes', which is not such a tensor"},
      {"/signature/tensorMaps/0/tensor", "", "has tensorMaps of '', which is not such a tensor"},
      {"/signature/tensorMaps/0/captured", true, "has tensorMaps of 'k', which is not such a tensor"},
      {"/signature/operands/1/axes/3/size", 0, "has tensorMaps of 'k', which is not such a tensor"},
      {"/signature/operands/1/role", "in out", "lacks 'role' or has it with another type"},
      {"/signature/tensorMaps/0/rows", 0, "has rows 0, required is 1 to 256"},
      {"/signature/operands/5/axes/1/name", "tensors.ids.1",
       "has operand 'ids.k' over axis 'tensors.ids.1', which no tensor has"},
      {"/signature/blockPattern/tensor", "ids", "has blockPattern of 'ids', which is not such a tensor"},
      {"/signature/blockPattern/rows", 0, "has rows 0, required is 1 to 1073741824"},
      {"/signature/scalars", std::vector<int>(513, 0), "has 513 elements of 'scalars', the most is 512"},
      {"/signature/tensorMaps", std::vector<int>(32, 0), "has 32 elements of 'tensorMaps', the most is 31"},
      {"/name", 5, "lacks 'name' or has it with another type"},
  };
  for (const Forgery &forgery : forgeries) {
    json forged = good;
    forged[json::json_pointer(forgery.path)] = forgery.value;
    CHECK(problemOf(s, forged.dump()) == "kernel metadata " + forgery.problem + "; compile the kernel again");
  }
  json crowded = good;
  crowded["signature"]["scalars"] = std::vector<json>(500, {{"name", "x"}, {"dtype", "f32"}});
  CHECK(problemOf(s, crowded.dump()) ==
        "kernel 'a' takes 4864 bytes of parameters, the most is 4096; capture fewer tensors and scalars");
}

TEST_CASE("any value in any field of the metadata is read in range or refused", "[cache-faults]") {
  Setup s;
  s.cache->write("a", imageOf("a"));
  const json good = json::parse(fullImage().metadata());
  const std::vector<json> values = {nullptr,
                                    true,
                                    "",
                                    "q",
                                    std::string(100000, 'x'),
                                    0,
                                    1,
                                    2,
                                    -1,
                                    5,
                                    7,
                                    300,
                                    65537,
                                    int64_t(1) << 31,
                                    int64_t(1) << 32,
                                    std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max(),
                                    ~uint64_t(0),
                                    0.5,
                                    1e308,
                                    json::array(),
                                    json::object(),
                                    json::array({nullptr}),
                                    json::array({json::object()})};
  size_t read = 0, refused = 0;
  bool usable = true;
  const json fields = good.flatten();
  for (const auto &[path, old] : fields.items()) {
    // The value itself, and each that holds it.
    for (json::json_pointer at(path); !at.empty(); at = at.parent_pointer())
      for (const json &value : values) {
        json forged = good;
        forged[at] = value;
        s.overwrite("a", forgedEntry({"a", forged.dump(), "source", "binary"}));
        std::optional<KernelImage> image = s.cache->read("a");
        ++(image ? read : refused);
        if (!image)
          continue;
        usable &= isUsable(*image);
        tryLaunch(std::move(*image));
      }
  }
  CHECK(usable);
  CHECK(refused > 1000);
  CHECK(read > 100);
}

TEST_CASE("metadata that would take much memory or depth", "[cache-faults]") {
  Setup s;
  s.cache->write("a", imageOf("a"));
  auto repeated = [](std::string_view text, size_t bytes) {
    std::string result;
    while (result.size() + text.size() <= bytes)
      result += text;
    return result;
  };
  CHECK(problemOf(s, repeated("[", maxMetadataBytes)) ==
        "kernel metadata is not a JSON object; compile the kernel again");
  const std::string nested = repeated(R"({"":)", maxMetadataBytes / 2);
  CHECK(problemOf(s, nested + "0" + std::string(nested.size() / 4, '}')) ==
        "kernel metadata lacks 'name' or has it with another type; compile the kernel again");
  CHECK(problemOf(s, std::string(maxMetadataBytes + 1, ' ')) == "its metadata has 4194305 bytes, the most is 4194304");
  CHECK(problemOf(s, "\xff\xfe") == "kernel metadata is not a JSON object; compile the kernel again");
  CHECK(problemOf(s, R"({"tileQ": 1e999})") == "kernel metadata is not a JSON object; compile the kernel again");

  // What could not be read is not written.
  KernelImage large = imageOf("large", maxEntryBytes);
  s.warnings.clear();
  CHECK_FALSE(s.cache->write("large", large));
  REQUIRE(s.warnings.size() == 1);
  CHECK(s.warnings[0].starts_with("kernel 'large' is not kept: its cache entry has 671"));
  CHECK(s.warnings[0].ends_with(" bytes, the most is 67108864"));
  KernelImage verbose = imageOf("verbose");
  verbose.log.assign(maxMetadataBytes, 'x');
  CHECK_FALSE(s.cache->write("verbose", verbose));
  CHECK(s.warnings[1].starts_with(
      "kernel 'verbose' is not kept: its cache entry could not be read again: its metadata has 419"));
  CHECK(filesIn(s.cache->directory()) == 1);
}

TEST_CASE("forged sizes of sections", "[cache-faults]") {
  Setup s;
  s.cache->write("a", imageOf("a"));
  const std::vector<std::string> sections = {"a", imageOf("a").metadata(), "source", "binary"};
  const uint64_t sizes[] = {
      0, 1, 2, 6, uint64_t(1) << 31, uint64_t(1) << 32, uint64_t(1) << 63, ~uint64_t(0), ~uint64_t(0) - 79};
  size_t missed = 0, tried = 0;
  for (size_t section = 0; section < 4; ++section)
    for (uint64_t size : sizes)
      for (uint64_t next : sizes) { // two that make up for each other, too
        std::vector<uint64_t> lying = {1, sections[1].size(), 6, 6};
        lying[section] = size;
        lying[(section + 1) % 4] = next;
        if (lying == std::vector<uint64_t>{1, sections[1].size(), 6, 6})
          continue;
        s.overwrite("a", forgedEntry(sections, lying));
        ++tried;
        std::optional<KernelImage> image = s.cache->read("a");
        missed += !image || (image->binary.size() == size_t(lying[3]) && image->cudaSource.size() == size_t(lying[2]));
      }
  CHECK(tried > 300);
  CHECK(missed == tried);
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
#define REQUIRE_IN_CHILD(condition)                                                                                    \
  if (!(condition))                                                                                                    \
  return __LINE__ % 70 + 1

Expected<Kernel> getLarge(Setup &s, const std::string &key) {
  return s.cache->getOrCompile(
      key, "cpu", [&]() -> Expected<KernelImage> { return imageOf(key, 200000); },
      [](KernelImage image) -> Expected<Kernel> { return makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr); });
}

/// Kernels come whatever the disk says, with one warning; nothing is left behind.
int useFullDisk(Setup &s, const std::string &reason) {
  REQUIRE_IN_CHILD(getLarge(s, "a"));
  REQUIRE_IN_CHILD(getLarge(s, "b"));
  REQUIRE_IN_CHILD(getLarge(s, "a")->cacheHit()); // in memory
  REQUIRE_IN_CHILD(s.warnings == std::vector<std::string>{"cache folder " + s.cache->directory() +
                                                          " cannot be written: " + reason + "; kernels are not kept"});
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
