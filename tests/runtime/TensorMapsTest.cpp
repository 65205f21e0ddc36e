//===- TensorMapsTest.cpp - What a tensor map says, and that it is made once ---===//

#include "runtime/TensorMaps.h"
#include "runtime/LaunchTables.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>

using namespace attune;

namespace {

bool operator==(const map_key &a, const map_key &b) { return std::memcmp(&a, &b, sizeof a) == 0; }

map_key keyOf(uint64_t address, uint64_t map = 0) { return {map, address, {64, 100, 4, 2}, {128, 12800, 51200}}; }

/// Writes the address and then its complement, so that a torn copy shows.
int encode(const map_key &key, void *out) {
  uint64_t words[tensor_map_bytes / 8];
  for (size_t i = 0; i < std::size(words); ++i)
    words[i] = i % 2 ? ~key.address : key.address + key.map;
  std::memcpy(out, words, tensor_map_bytes);
  return 0;
}

bool isMapOf(const map_key &key, const std::byte *bytes) {
  std::byte expected[tensor_map_bytes];
  encode(key, expected);
  return std::memcmp(expected, bytes, tensor_map_bytes) == 0;
}

} // namespace

TEST_CASE("a tensor map is encoded once", "[tensor-maps]") {
  auto cache = std::make_unique<TensorMapCache>();
  std::byte out[tensor_map_bytes];
  int encoded = 0;
  auto counted = [&](const map_key &key, void *to) { return ++encoded, encode(key, to); };
  auto get = [&](const map_key &key) {
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
    map_key other = keyOf(4096);
    ++other.dimensions[i];
    CHECK(get(other) == 4 + i);
  }
  for (int i = 0; i < 3; ++i) {
    map_key other = keyOf(4096);
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
  std::byte out[tensor_map_bytes];
  CHECK(cache->get(keyOf(4096), out, [](const map_key &, void *) { return 1; }) == 1);
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
      std::byte out[tensor_map_bytes];
      for (int i = 0; i < calls; ++i) {
        // Half of the calls meet in a few places.
        map_key key = keyOf(uint64_t(generator() % (i % 2 ? 4 : 2000)) << 12);
        wrong += cache->get(key, out, [&](const map_key &k, void *to) { return ++encoded, encode(k, to); }) != 0;
        wrong += !isMapOf(key, out);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(encoded < 4 * calls * 3 / 4);
}

namespace {

/// The tables of a signature, and the parameters of a launch as a test sets them.
struct Packed {
  KernelImage kernel;
  LaunchTables tables;
  packed_problem problem = {};

  explicit Packed(KernelSignature signature) : tables((kernel.signature = std::move(signature), kernel)) {}

  void putOperand(size_t operand, std::initializer_list<int64_t> slots) {
    put(kernel.signature.operandOffset(operand), slots);
  }
  void putTensor(size_t tensor, std::initializer_list<int64_t> slots) {
    put(kernel.signature.tensorOffset(tensor), slots);
  }
  bool isKey(const map_key &key) { return launcher_map_key(&tables.image, int(key.map), &problem.block) == key; }
  int32_t mapped() { return launcher_mapped(&tables.image, &problem); }

private:
  void put(size_t offset, std::initializer_list<int64_t> slots) {
    std::copy(slots.begin(), slots.end(),
              reinterpret_cast<int64_t *>(reinterpret_cast<char *>(&problem.block) + offset));
  }
};

} // namespace

TEST_CASE("what a tensor map says", "[tensor-maps]") {
  Packed packed({.dtype = bf16,
                 .headDim = 64,
                 .headDimV = 40,
                 .operands = forwardOperands(bf16, 64, 40),
                 .tensorMaps = {{"q", 64, 64, 128}, {"k", 128, 64, 128}, {"v", 128, 40, 64}, {"o", 64, 40, 64}}});
  packed.putOperand(0, {0x1000, 51200, 64, 512, 1, 2, 8, 100, 64});
  CHECK(packed.isKey({0, 0x1000, {64, 100, 8, 2}, {1024, 128, 102400}}));
  // Strides along one element mean nothing, and are valid all the same.
  packed.putOperand(2, {0x3000, 0, 0, 40, 1, 1, 1, 70, 40});
  CHECK(packed.isKey({2, 0x3000, {40, 70, 1, 1}, {80, 80, 80}}));
  packed.putOperand(2, {0x3000, 0, 0, 40, 1, 1, 1, 0, 40});
  CHECK(packed.isKey({2, 0x3000, {40, 1, 1, 1}, {80, 80, 80}}));
}

TEST_CASE("tensor maps of captured tensors", "[tensor-maps]") {
  Packed packed({.dtype = bf16,
                 .headDim = 64,
                 .headDimV = 64,
                 .operands = forwardOperands(bf16, 64, 64),
                 .scalars = {{"cap", f32}},
                 .tensors = {{"slopes", f32, 1}, {"wide", f32, 2}, {"bias", f16, 4}},
                 .tensorMaps = {{"k", 64, 64, 128}, {"bias", 128, 64, 128, true}, {"wide", 128, 32, 128, true}}});
  std::array<int64_t, 5> wide = {0x2000, 80, 1, 100, 80};
  std::array<int64_t, 9> bias = {0x3010, 8 * 100 * 72, 100 * 72, 72, 1, 2, 8, 100, 70};
  auto put = [&] {
    packed.putTensor(1, {wide[0], wide[1], wide[2], wide[3], wide[4]});
    packed.putTensor(2, {bias[0], bias[1], bias[2], bias[3], bias[4], bias[5], bias[6], bias[7], bias[8]});
  };
  int32_t &qOffset = packed.problem.block.params.q_offset;
  launch_sizes &sizes = packed.problem.sizes;
  sizes = {.batch = 2, .heads = 8, .kv_heads = 4, .query_length = 100, .key_length = 70, .group = 2};

  put();
  CHECK(packed.isKey({1, 0x3010, {70, 100, 8, 2}, {144, 14400, 115200}}));
  CHECK(packed.isKey({2, 0x2000, {80, 100, 1, 1}, {320, 320, 320}}));
  // CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, FLOAT16 and FLOAT32
  CHECK(packed.tables.image.maps[0].type == 9);
  CHECK(packed.tables.image.maps[1].type == 6);
  CHECK(packed.tables.image.maps[2].type == 7);

  // k is always mapped, as the first; each change takes the bias, the second, from TMA, and its end gives
  // it back.
  CHECK(packed.mapped() == 7);
  auto without = [&](auto &field, std::remove_reference_t<decltype(field)> value) {
    const auto before = std::exchange(field, value);
    put();
    const int32_t mapped = packed.mapped();
    field = before;
    return mapped;
  };
  CHECK(without(bias[0], 0x3008) == 5);
  CHECK(without(bias[4], 2) == 5);
  CHECK(without(bias[3], 76) == 5);
  CHECK(without(bias[1], -8) == 5);
  CHECK(without(bias[1], int64_t(1) << 39) == 5); // elements, of two bytes
  CHECK(without(bias[1], 0) == 7);
  CHECK(without(bias[7], 99) == 5);
  CHECK(without(bias[8], 69) == 5);
  CHECK(without(qOffset, 1) == 1);
  CHECK(without(qOffset, -1) == 1);
  CHECK(without(sizes.key_length, 81) == 1);
  CHECK(without(sizes.query_length, 99) == 7);
  CHECK(without(wide[1], 78) == 3);
}
