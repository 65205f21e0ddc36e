//===- CacheTest.cpp - The cache against damage, races and bad folders ------===//

#include "runtime/Cache.h"
#include "tests/runtime/CacheSetup.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace attune;
namespace fs = std::filesystem;

using namespace attune::cachetest;

TEST_CASE("SHA-256 of the standard's examples", "[cache]") {
  CHECK(sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256Hex(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("memory, then disk, then the compiler", "[cache]") {
  Setup s;
  Expected<Kernel> first = s.get("a");
  REQUIRE(first);
  CHECK_FALSE(first->cacheHit());
  CHECK(s.compiles == 1);
  Expected<Kernel> second = s.get("a");
  REQUIRE(second);
  CHECK(second->cacheHit());
  CHECK(s.loads == 1);
  CHECK(&second->image() == &first->image());
  s.restart();
  Expected<Kernel> third = s.get("a");
  REQUIRE(third);
  CHECK(third->cacheHit());
  CHECK(s.compiles == 1);
  CHECK(s.loads == 2);
  CHECK(third->image().binary == first->image().binary);
  CHECK(third->image().cudaSource == "// source of a");
  CHECK(third->image().signature == first->image().signature);
  REQUIRE(s.get("b"));
  CHECK(s.compiles == 2);
  CHECK(s.warnings.empty());
  CHECK(fs::status(s.cache->directory()).permissions() == fs::perms::owner_all);
}

TEST_CASE("devices share the disk, not the memory", "[cache]") {
  Setup s;
  auto compile = [&]() -> Expected<KernelImage> { return ++s.compiles, imageOf("a"); };
  auto load = [&](KernelImage image) -> Expected<Kernel> {
    return ++s.loads, makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr);
  };
  REQUIRE(s.cache->getOrCompile("a", "cuda:0", compile, load));
  REQUIRE(s.cache->getOrCompile("a", "cuda:1", compile, load));
  CHECK(s.compiles == 1);
  CHECK(s.loads == 2);
}

TEST_CASE("a bad file is a miss with a warning, and is replaced", "[cache]") {
  Setup s;
  REQUIRE(s.get("a"));
  std::string good = s.content("a");
  REQUIRE(good.size() > 1000);
  auto retry = [&](const std::string &bytes) {
    s.overwrite("a", bytes);
    CHECK(s.cache->verify()->size() == 1);
    s.restart();
    s.warnings.clear();
    int before = s.compiles;
    Expected<Kernel> kernel = s.get("a");
    REQUIRE(kernel);
    CHECK_FALSE(kernel->cacheHit());
    CHECK(s.compiles == before + 1);
    CHECK(s.content("a") == good);
    REQUIRE(s.warnings.size() == 1);
    return s.warnings[0];
  };
  std::string start = "cache entry " + s.pathOf("a") + " is bad: ";
  CHECK(retry("") == start + "it is cut off at 0 bytes; compiling again");
  CHECK(retry(good.substr(0, 79)) == start + "it is cut off at 79 bytes; compiling again");
  CHECK(retry(good.substr(0, 80)) == start + "its sections reach beyond its end; compiling again");
  CHECK(retry(good.substr(0, good.size() - 1)) == start + "its sections reach beyond its end; compiling again");
  CHECK(retry(good + "x") == start + "its sections end before the file does; compiling again");
  std::string other = good;
  other.back() = char(other.back() ^ 1);
  CHECK(retry(other) == start + "its checksum does not match; compiling again");
  CHECK(retry(std::string(5000, 'x')) == start + "it is not a cache entry; compiling again");
  std::string version = good;
  version[8] = 9;
  CHECK(retry(version) == start + "it has format version 9, required is 1; compiling again");
  for (size_t at = 0; at < good.size(); at += 41) {
    std::string flipped = good;
    flipped[at] = char(flipped[at] ^ 0x10);
    CHECK(retry(flipped).find(start) == 0);
  }
  // Sizes that lie, under a checksum that holds.
  auto withSize = [&](int section, uint64_t size) {
    std::string lying = good;
    std::memcpy(lying.data() + 48 + 8 * section, &size, 8);
    std::array<uint8_t, 32> checksum = sha256(std::string_view(lying).substr(48));
    std::memcpy(lying.data() + 16, checksum.data(), 32);
    return lying;
  };
  CHECK(retry(withSize(0, ~uint64_t(0))) == start + "its sections reach beyond its end; compiling again");
  CHECK(retry(withSize(3, 1001)) == start + "its sections reach beyond its end; compiling again");
  CHECK(retry(withSize(3, 999)) == start + "its sections end before the file does; compiling again");
}

TEST_CASE("an entry of another key is not used", "[cache]") {
  Setup s;
  REQUIRE(s.get("a"));
  REQUIRE(s.get("b"));
  s.overwrite("b", s.content("a"));
  s.restart();
  Expected<Kernel> kernel = s.get("b");
  REQUIRE(kernel);
  CHECK_FALSE(kernel->cacheHit());
  CHECK(kernel->image().name == "b");
  REQUIRE(s.warnings.size() == 1);
  CHECK(s.warnings[0] == "cache entry " + s.pathOf("b") + " is bad: it belongs to another key; compiling again");
}

TEST_CASE("an entry that does not load is compiled again", "[cache]") {
  Setup s;
  REQUIRE(s.get("a"));
  s.restart();
  int loads = 0;
  Expected<Kernel> kernel = s.cache->getOrCompile(
      "a", "cpu", [&]() -> Expected<KernelImage> { return imageOf("a"); },
      [&](KernelImage image) -> Expected<Kernel> {
        if (++loads == 1)
          return Error{"no"};
        return makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr);
      });
  REQUIRE(kernel);
  CHECK_FALSE(kernel->cacheHit());
  REQUIRE(s.warnings.size() == 1);
  CHECK(s.warnings[0] == "cache entry " + s.pathOf("a") + " does not load: no; compiling again");
}

TEST_CASE("a key that leaves something open leads to the entry by what was chosen", "[cache]") {
  Setup s;
  auto ask = [&](const std::string &key) {
    s.restart();
    return s.cache->getOrCompile(
        key, "cpu",
        [&]() -> Expected<KernelImage> {
          ++s.compiles;
          return imageOf("of " + key);
        },
        [&](KernelImage image) { return makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr); }, {},
        [](const KernelImage &) { return "chosen"; });
  };
  const std::string choice = s.cache->directory() + "/" + sha256Hex("open") + ".choice";
  REQUIRE(ask("open"));
  CHECK(fs::exists(s.pathOf("chosen")));
  CHECK(fs::exists(choice));
  CHECK_FALSE(fs::exists(s.pathOf("open")));
  for (const char *key : {"open", "chosen"}) {
    Expected<Kernel> kernel = ask(key);
    REQUIRE(kernel);
    CHECK(kernel->cacheHit());
    CHECK(kernel->image().name == "of open");
  }
  REQUIRE(s.cache->list());
  CHECK(s.cache->list()->size() == 1);
  // A bad choice is a miss with a warning, and is written again.
  for (const std::string &content : {std::string("junk"), s.content("chosen")}) {
    std::ofstream(choice, std::ios::binary | std::ios::trunc) << content;
    s.warnings.clear();
    CHECK_FALSE(ask("open")->cacheHit());
    REQUIRE(s.warnings.size() == 1);
    CHECK(s.warnings[0].find("cache entry " + choice + " is bad: it ") == 0);
    CHECK(ask("open")->cacheHit());
  }
  // One that leads nowhere is a miss.
  fs::remove(s.pathOf("chosen"));
  s.warnings.clear();
  CHECK_FALSE(ask("open")->cacheHit());
  CHECK(s.warnings.empty());
  CHECK(s.compiles == 4);
  CHECK(*s.cache->clear() == 1);
  CHECK_FALSE(fs::exists(choice));
}

TEST_CASE("failures are reported and not kept", "[cache]") {
  Setup s;
  auto load = [](KernelImage image) -> Expected<Kernel> {
    return makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr);
  };
  Expected<Kernel> failed =
      s.cache->getOrCompile("a", "cpu", []() -> Expected<KernelImage> { return Error{"no tile fits"}; }, load);
  REQUIRE(!failed);
  CHECK(failed.error().message == "no tile fits");
  Expected<Kernel> notLoaded = s.cache->getOrCompile(
      "a", "cpu", []() -> Expected<KernelImage> { return imageOf("a"); },
      [](KernelImage) -> Expected<Kernel> { return Error{"no driver"}; });
  REQUIRE(!notLoaded);
  CHECK(s.cache->list()->empty());
  REQUIRE(s.get("a"));
  CHECK_THROWS(s.cache->getOrCompile("b", "cpu", []() -> Expected<KernelImage> { throw 1; }, load));
  CHECK(s.get("b"));
}

TEST_CASE("threads that ask for one key wait for one compilation", "[cache]") {
  Setup s;
  std::atomic<int> misses = 0, failures = 0;
  std::vector<std::thread> threads;
  auto ask = [&](const std::string &key, bool fail) {
    Expected<Kernel> kernel = s.cache->getOrCompile(
        key, "cpu",
        [&]() -> Expected<KernelImage> {
          ++s.compiles;
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          if (fail)
            return Error{"no"};
          return imageOf(key);
        },
        [&](KernelImage image) -> Expected<Kernel> {
          return makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr);
        });
    if (!kernel)
      ++failures;
    else if (!kernel->cacheHit())
      ++misses;
  };
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { ask("a", false); });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(s.compiles == 1);
  CHECK(misses == 1);
  threads.clear();
  s.compiles = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { ask("bad", true); });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(failures == 4);
  CHECK(s.compiles >= 1);
  CHECK(s.compiles < 4); // sharing happened
}

TEST_CASE("processes that share a folder see whole entries only", "[cache]") {
  Setup s;
  s.cache.reset();
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    pid_t pid = fork();
    if (pid == 0) {
      int bad = 0;
      for (int round = 0; round < 60; ++round) {
        std::unique_ptr<KernelCache> cache = s.make();
        std::string key = "key " + std::to_string(round % 3);
        std::optional<KernelImage> image = cache->read(key);
        if (image && image->binary != imageOf(key, 200000).binary)
          ++bad;
        cache->write(key, imageOf(key, 200000));
      }
      bad += int(s.warnings.size());
      _exit(bad == 0 ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  s.restart();
  CHECK(s.cache->list()->size() == 3);
  CHECK(s.cache->verify()->empty());
  for (const auto &entry : fs::directory_iterator(s.folder + "/cache"))
    CHECK(entry.path().extension() == ".attune"); // no temporary file stays
}

TEST_CASE("a folder that cannot be written", "[cache]") {
  Setup s;
  std::ofstream(s.folder + "/file") << "x";
  s.cache = s.make(s.folder + "/file/cache"); // a file in place of a folder, which stops root as well
  REQUIRE(s.get("a"));
  REQUIRE(s.get("b"));
  CHECK(s.get("a")->cacheHit());
  CHECK(s.compiles == 2);
  REQUIRE(s.warnings.size() == 1);
  CHECK(s.warnings[0] == "cache folder " + s.folder +
                             "/file/cache cannot be written: Not a directory; kernels are not "
                             "kept");
  CHECK(s.cache->list().error().message ==
        "cache folder " + s.folder +
            "/file/cache cannot be read: Not a directory; choose another one, such as by ATTUNE_CACHE_DIR");
  CHECK(s.cache->clear().error().message == s.cache->list().error().message);

  s.warnings.clear();
  s.cache = s.make("");
  REQUIRE(s.get("c"));
  CHECK(s.get("c")->cacheHit());
  CHECK(s.warnings.empty());

  if (geteuid() != 0) {
    s.restart();
    fs::create_directories(s.folder + "/cache");
    fs::permissions(s.folder + "/cache", fs::perms::owner_read | fs::perms::owner_exec);
    REQUIRE(s.get("d"));
    CHECK(s.warnings.size() == 1);
    fs::permissions(s.folder + "/cache", fs::perms::owner_all);
  }
}

TEST_CASE("a folder in the place of an entry", "[cache]") {
  Setup s;
  fs::create_directories(s.pathOf("a") + "/inside");
  REQUIRE(s.get("a"));
  CHECK(s.warnings.size() == 2); // cannot be read, cannot be written
  CHECK(s.get("a")->cacheHit());
}

TEST_CASE("list, verify and clear", "[cache]") {
  Setup s;
  REQUIRE(s.get("a"));
  REQUIRE(s.get("b"));
  REQUIRE(s.get("c"));
  std::ofstream(s.folder + "/cache/README") << "mine";
  std::ofstream(s.folder + "/cache/0123.attune.tmp.1.2") << "left over";
  std::ofstream(s.folder + "/cache/0123.attune") << "bad";
  std::string bytes = s.content("c");
  std::rename(s.pathOf("c").c_str(), (s.folder + "/cache/ffff.attune").c_str());
  std::vector<CacheEntry> entries = *s.cache->list();
  REQUIRE(entries.size() == 4);
  int good = 0;
  for (const CacheEntry &entry : entries)
    if (entry.problem.empty()) {
      ++good;
      CHECK((entry.name == "a" || entry.name == "b"));
      CHECK(entry.arch == "cpu");
      CHECK(entry.hash == sha256Hex(entry.name));
      CHECK(entry.bytes > 1000);
      CHECK(entry.written > 1600000000);
    }
  CHECK(good == 2);
  std::vector<CacheEntry> bad = *s.cache->verify();
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].problem == "it is cut off at 3 bytes");
  CHECK(bad[1].problem == "its name does not match its key");
  CHECK(*s.cache->clear() == 4);
  CHECK(s.cache->list()->empty());
  CHECK(fs::exists(s.folder + "/cache/README"));
  CHECK_FALSE(fs::exists(s.folder + "/cache/0123.attune.tmp.1.2"));
  CHECK_FALSE(s.get("a")->cacheHit());
}

TEST_CASE("where the cache lies", "[cache]") {
  auto value = [](const char *name) { return std::getenv(name) ? std::string(std::getenv(name)) : std::string(); };
  std::string chosen = value("ATTUNE_CACHE_DIR"), base = value("XDG_CACHE_HOME"), home = value("HOME");
  setenv("ATTUNE_CACHE_DIR", "/x/y", 1);
  setenv("XDG_CACHE_HOME", "/x/cache", 1);
  setenv("HOME", "/x/home", 1);
  CHECK(KernelCache::defaultDirectory() == "/x/y");
  unsetenv("ATTUNE_CACHE_DIR");
  CHECK(KernelCache::defaultDirectory() == "/x/cache/attune");
  unsetenv("XDG_CACHE_HOME");
  CHECK(KernelCache::defaultDirectory() == "/x/home/.cache/attune");
  unsetenv("HOME");
  CHECK(KernelCache::defaultDirectory() == "");
  if (!chosen.empty())
    setenv("ATTUNE_CACHE_DIR", chosen.c_str(), 1);
  if (!base.empty())
    setenv("XDG_CACHE_HOME", base.c_str(), 1);
  if (!home.empty())
    setenv("HOME", home.c_str(), 1);
}

TEST_CASE("a memory hit takes under 20 microseconds", "[cache][timing]") {
  Setup s;
  std::string key(8000, 'k');
  REQUIRE(s.get(key));
  constexpr int rounds = 2000;
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i)
      if (!s.get(key))
        FAIL();
    std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / rounds);
  }
  s.restart();
  auto begin = std::chrono::steady_clock::now();
  REQUIRE(s.get(key));
  std::chrono::duration<double, std::micro> disk = std::chrono::steady_clock::now() - begin;
  fmt::print("cache: memory hit {:.2f} us with a key of 8000 bytes, disk hit {:.0f} us\n", best, disk.count());
#if defined(NDEBUG) && !__has_feature(address_sanitizer)
  CHECK(best < 20);
#endif
}
