//===- TensorMapsTest.cpp - What a tensor map says, and that it is made once ---===//

#include "runtime/TensorMaps.h"
#include "runtime/Launch.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>

using namespace attune;

namespace {

TensorMapKey keyOf(uint64_t address, uint64_t map = 0) { return {map, address, {64, 100, 4, 2}, {128, 12800, 51200}}; }

/// Writes the address and then its complement, so that a torn copy shows.
int encode(const TensorMapKey &key, std::byte *out) {
  uint64_t words[tensorMapBytes / 8];
  for (size_t i = 0; i < std::size(words); ++i)
    words[i] = i % 2 ? ~key.address : key.address + key.map;
  std::memcpy(out, words, tensorMapBytes);
  return 0;
}

bool isMapOf(const TensorMapKey &key, const std::byte *bytes) {
  std::byte expected[tensorMapBytes];
  encode(key, expected);
  return std::memcmp(expected, bytes, tensorMapBytes) == 0;
}

} // namespace

TEST_CASE("a tensor map is encoded once", "[tensor-maps]") {
  auto cache = std::make_unique<TensorMapCache>();
  std::byte out[tensorMapBytes];
  int encoded = 0;
  auto counted = [&](const TensorMapKey &key, std::byte *to) { return ++encoded, encode(key, to); };
  auto get = [&](const TensorMapKey &key) {
    std::memset(out, 0, sizeof out);
    CHECK(cache->get(key, out, counted) == 0);
    CHECK(isMapOf(key, out));
    return encoded;
  };
  CHECK(get(keyOf(4096)) == 1);
  CHECK(get(keyOf(4096)) == 1);
  CHECK(get(keyOf(8192)) == 2);
  CHECK(get(keyOf(4096, 1)) == 3); // the same tensor in other boxes
  for (int i = 0; i < 4; ++i) {
    TensorMapKey other = keyOf(4096);
    ++other.dimensions[i];
    CHECK(get(other) == 4 + i);
  }
  for (int i = 0; i < 3; ++i) {
    TensorMapKey other = keyOf(4096);
    other.strides[i] += 16;
    CHECK(get(other) == 8 + i);
  }
  CHECK(get(keyOf(4096)) == 10);
  CHECK(get(keyOf(8192)) == 10);

  SECTION("the layers of a model keep theirs") {
    encoded = 0;
    for (int round = 0; round < 3; ++round)
      for (uint64_t layer = 0; layer < 32; ++layer)
        for (uint64_t map = 0; map < 4; ++map)
          get(keyOf((layer * 4 + map) << 24, map));
    CHECK(encoded < 32 * 4 * 5 / 4); // a few sets are asked for more than they hold
  }
  SECTION("more than it holds") {
    for (int round = 0; round < 2; ++round)
      for (uint64_t i = 1; i <= 4 * TensorMapCache::capacity; ++i)
        get(keyOf(i << 12));
    CHECK(encoded > int(4 * TensorMapCache::capacity));
  }
}

TEST_CASE("a tensor map that the driver rejects is not held", "[tensor-maps]") {
  auto cache = std::make_unique<TensorMapCache>();
  std::byte out[tensorMapBytes];
  CHECK(cache->get(keyOf(4096), out, [](const TensorMapKey &, std::byte *) { return 1; }) == 1);
  CHECK(cache->get(keyOf(4096), out, encode) == 0);
  CHECK(isMapOf(keyOf(4096), out));
}

TEST_CASE("threads share tensor maps", "[tensor-maps]") {
  auto cache = std::make_unique<TensorMapCache>();
  std::atomic<int> wrong = 0, encoded = 0;
  std::vector<std::thread> threads;
  constexpr int calls = 50000;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 generator(seed);
      std::byte out[tensorMapBytes];
      for (int i = 0; i < calls; ++i) {
        // Half of the calls meet in a few places.
        TensorMapKey key = keyOf(uint64_t(generator() % (i % 2 ? 4 : 2000)) << 12);
        wrong +=
            cache->get(key, out, [&](const TensorMapKey &k, std::byte *to) { return ++encoded, encode(k, to); }) != 0;
        wrong += !isMapOf(key, out);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(encoded < 4 * calls * 3 / 4);
}

TEST_CASE("what a tensor map says", "[tensor-maps]") {
  const KernelSignature signature = {
      .dtype = bf16,
      .headDim = 64,
      .headDimV = 40,
      .operands = forwardOperands(bf16, 64, 40),
      .tensorMaps = {{"q", 64, 64, 128}, {"k", 128, 64, 128}, {"v", 128, 40, 64}, {"o", 64, 40, 64}}};
  alignas(LaunchParams) std::byte packed[1024] = {};
  const auto &params = *new (packed) LaunchParams();
  auto put = [&](size_t operand, std::initializer_list<int64_t> slots) {
    std::copy(slots.begin(), slots.end(), reinterpret_cast<int64_t *>(packed + signature.operandOffset(operand)));
  };
  put(0, {0x1000, 51200, 64, 512, 1, 2, 8, 100, 64});
  CHECK(TensorMapKey::of(TensorMapPlace::of(signature, 0), 0, params) ==
        TensorMapKey{0, 0x1000, {64, 100, 8, 2}, {1024, 128, 102400}});
  put(2, {0x3000, 0, 0, 40, 1, 1, 1, 70, 40}); // strides along one element mean nothing, and are valid all the same
  CHECK(TensorMapKey::of(TensorMapPlace::of(signature, 2), 2, params) ==
        TensorMapKey{2, 0x3000, {40, 70, 1, 1}, {80, 80, 80}});
  put(2, {0x3000, 0, 0, 40, 1, 1, 1, 0, 40});
  CHECK(TensorMapKey::of(TensorMapPlace::of(signature, 2), 2, params) ==
        TensorMapKey{2, 0x3000, {40, 1, 1, 1}, {80, 80, 80}});
}

TEST_CASE("tensor maps of captured tensors", "[tensor-maps]") {
  const KernelSignature signature = {
      .dtype = bf16,
      .headDim = 64,
      .headDimV = 64,
      .operands = forwardOperands(bf16, 64, 64),
      .scalars = {{"cap", f32}},
      .tensors = {{"slopes", f32, 1}, {"wide", f32, 2}, {"bias", f16, 4}},
      .tensorMaps = {{"k", 64, 64, 128}, {"bias", 128, 64, 128, true}, {"wide", 128, 32, 128, true}}};
  struct {
    LaunchParams fixed = {};
    int64_t extents[5] = {2, 8, 100, 4, 70};
    int64_t cap = 0, operands[4 * 9 + 7] = {};
    struct {
      int64_t address = 0x1004, strides[1] = {1}, extents[1] = {8};
    } slopes;
    struct {
      int64_t address = 0x2000, strides[2] = {80, 1}, extents[2] = {100, 80};
    } wide;
    struct {
      int64_t address = 0x3010, strides[4] = {8 * 100 * 72, 100 * 72, 72, 1}, extents[4] = {2, 8, 100, 70};
    } bias;
  } packed;
  static_assert(sizeof packed == sizeof(LaunchParams) + 40 + 8 + 43 * 8 + 24 + 40 + 72);
  LaunchParams &params = packed.fixed;
  LaunchSizes sizes = {.batch = 2, .heads = 8, .kvHeads = 4, .queryLength = 100, .keyLength = 70};

  CHECK(TensorMapKey::of(TensorMapPlace::of(signature, 1), 1, params) ==
        TensorMapKey{1, 0x3010, {70, 100, 8, 2}, {144, 14400, 115200}});
  CHECK(TensorMapKey::of(TensorMapPlace::of(signature, 2), 2, params) ==
        TensorMapKey{2, 0x2000, {80, 100, 1, 1}, {320, 320, 320}});
  CHECK(TensorMapPlace::of(signature, 0).dtype == bf16);
  CHECK(TensorMapPlace::of(signature, 1).dtype == f16);
  CHECK(TensorMapPlace::of(signature, 2).dtype == f32);

  // k is always mapped, as the first; each change takes the bias, the second, from TMA, and its end gives
  // it back.
  CHECK(mappedTensors(signature, params, sizes) == 7);
  auto without = [&](auto &field, std::remove_reference_t<decltype(field)> value) {
    const auto before = std::exchange(field, value);
    const int32_t mapped = mappedTensors(signature, params, sizes);
    field = before;
    return mapped;
  };
  CHECK(without(packed.bias.address, 0x3008) == 5);
  CHECK(without(packed.bias.strides[3], 2) == 5);
  CHECK(without(packed.bias.strides[2], 76) == 5);
  CHECK(without(packed.bias.strides[0], -8) == 5);
  CHECK(without(packed.bias.strides[0], int64_t(1) << 39) == 5); // elements, of two bytes
  CHECK(without(packed.bias.strides[0], 0) == 7);
  CHECK(without(packed.bias.extents[2], 99) == 5);
  CHECK(without(packed.bias.extents[3], 69) == 5);
  CHECK(without(params.qOffset, 1) == 1);
  CHECK(without(params.qOffset, -1) == 1);
  CHECK(without(sizes.keyLength, 81) == 1);
  CHECK(without(sizes.queryLength, 99) == 7);
  CHECK(without(packed.wide.strides[0], 78) == 3);
}
