//===- CpuTest.cpp - The CPU target against plain loops in double -----------===//

#include "codegen/cpu/Cpu.h"
#include "TileText.h"
#include "ir/tile/Tile.h"
#include "mlir/Parser/Parser.h"
#include "passes/Pipeline.h"

#include <array>
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

using namespace attune;
using namespace attune::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

mlir::MLIRContext &context() {
  static mlir::MLIRContext made;
  static bool loaded = [] {
    made.loadDialect<attn::AttnDialect, tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect>();
    made.disableMultithreading();
    return true;
  }();
  (void)loaded;
  return made;
}

HostCode compileText(const std::string &text, size_t &scratchBytes) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context());
  REQUIRE(module);
  mlir::PassManager passes(&context());
  addTileToCpu(passes);
  REQUIRE(mlir::succeeded(passes.run(*module)));
  Expected<HostObject> object = compileHost(*module);
  if (!object)
    FAIL(object.error().message);
  scratchBytes = object->functions.front().scratchBytes;
  Expected<HostCode> code = loadHost(object->bytes, std::array{object->functions.front().symbol});
  if (!code)
    FAIL(code.error().message);
  return *code;
}

/// A value rounded to the dtype, and its bits.
struct Rounder {
  std::string dtype;
  size_t bytes() const { return dtype == "f32" ? 4 : 2; }
  void store(char *to, float value) const {
    if (dtype == "f32") {
      std::memcpy(to, &value, 4);
    } else if (dtype == "f16") {
      _Float16 half = _Float16(value);
      std::memcpy(to, &half, 2);
    } else {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      uint16_t half =
          std::isnan(value) ? uint16_t(bits >> 16 | 0x40) : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      std::memcpy(to, &half, 2);
    }
  }
  float load(const char *from) const {
    if (dtype == "f32") {
      float value;
      std::memcpy(&value, from, 4);
      return value;
    }
    uint16_t half;
    std::memcpy(&half, from, 2);
    if (dtype == "f16") {
      _Float16 value;
      std::memcpy(&value, &half, 2);
      return float(value);
    }
    uint32_t bits = uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
};

/// [B, H, S, D] with rows of NaN after each sequence.
struct Buffer {
  Rounder rounder;
  int64_t heads, rows, columns, gap; ///< `gap` elements of NaN after each row
  static constexpr int64_t poison = 3;
  std::vector<char> bytes;

  Buffer(std::string dtype, int64_t batch, int64_t heads, int64_t rows, int64_t columns, int64_t gap = 0)
      : rounder{std::move(dtype)}, heads(heads), rows(rows), columns(columns), gap(gap) {
    bytes.resize(batch * heads * (rows + poison) * (columns + gap) * rounder.bytes());
    for (size_t i = 0; i < bytes.size(); i += rounder.bytes())
      rounder.store(&bytes[i], std::numeric_limits<float>::quiet_NaN());
  }
  char *at(int64_t b, int64_t h, int64_t row, int64_t column) {
    return &bytes[(((b * heads + h) * (rows + poison) + row) * (columns + gap) + column) * rounder.bytes()];
  }
  void set(int64_t b, int64_t h, int64_t row, int64_t column, float value) {
    rounder.store(at(b, h, row, column), value);
  }
  float get(int64_t b, int64_t h, int64_t row, int64_t column) { return rounder.load(at(b, h, row, column)); }
  void strides(int64_t *to) const {
    to[2] = columns + gap;
    to[1] = (rows + poison) * to[2];
    to[0] = heads * to[1];
  }
};

uint32_t philoxBits(uint64_t seed, uint64_t offset, uint32_t q, uint32_t k, uint32_t head) {
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32) ^ uint32_t(offset >> 32)};
  uint32_t c[4] = {(q >> 4) * 8 + (q & 7), (k >> 4) * 4 + ((k & 7) >> 1), head, uint32_t(offset)};
  for (int round = 0; round < 7; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53) * c[0], p1 = uint64_t(0xCD9E8D57) * c[2];
    uint32_t next[4] = {uint32_t(p1 >> 32) ^ c[1] ^ key[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ key[1],
                        uint32_t(p0)};
    std::memcpy(c, next, sizeof c);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c[2 * (k & 1) + ((k >> 3) & 1)] >> (16 * ((q >> 3) & 1)) & 0xffff;
}

/// Inputs that tests change before they run.
struct Inputs {
  std::function<float(int b, int h, int q, int d)> query;
  std::function<float(int b, int h, int k, int d)> key, value;
  std::vector<float> slopes, bias;
  std::vector<uint8_t> keep, pattern;
  float cap = 5;
  uint32_t threshold = 0;
  uint64_t seed = 0x123456789abcdefULL, offset = 0x77000000055ULL;
  bool pointers = false; ///< seed and offset by pointer
  bool noLse = false;
};

void check(const Case &t, const std::function<void(Inputs &)> &change = {}) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Inputs in;
  in.query = in.key = in.value = [&](int, int, int, int) { return normal(random); };
  for (int h = 0; h < t.heads; ++h)
    in.slopes.push_back(0.1f * (h + 1));
  in.bias.resize(size_t(t.heads) * t.queries * t.keys);
  for (float &x : in.bias)
    x = random() % 4 ? normal(random) : -infinity;
  in.keep.resize(size_t(t.queries) * t.keys);
  for (uint8_t &x : in.keep)
    x = random() % 3 ? uint8_t(1 + random() % 255) : 0;
  int patternRows = (t.queries + t.tileQ - 1) / t.tileQ, patternColumns = (t.keys + t.tileK - 1) / t.tileK;
  in.pattern.resize(size_t(t.heads) * patternRows * patternColumns);
  for (uint8_t &x : in.pattern)
    x = random() % 2;
  in.threshold = t.dropout ? 6554 : 0;
  if (change)
    change(in);

  int kvHeads = t.heads / t.group;
  Buffer q(t.dtype, t.batch, t.heads, t.queries, t.headDim, t.gap),
      k(t.dtype, t.batch, kvHeads, t.keys, t.headDim, t.gap), v(t.dtype, t.batch, kvHeads, t.keys, t.headDimV, t.gap),
      o(t.dtype, t.batch, t.heads, t.queries, t.headDimV, t.gap);
  std::vector<float> lse(size_t(t.batch) * t.heads * t.queries * 2, 12345.0f); // every second element
  auto fill = [&](Buffer &buffer, auto &value) {
    for (int b = 0; b < t.batch; ++b)
      for (int h = 0; h < buffer.heads; ++h)
        for (int row = 0; row < buffer.rows; ++row)
          for (int d = 0; d < buffer.columns; ++d)
            buffer.set(b, h, row, d, value(b, h, row, d));
  };
  fill(q, in.query);
  fill(k, in.key);
  fill(v, in.value);

  struct Packed {
    LaunchParams params = {};
    int64_t rest[128] = {};
  } packed;
  LaunchParams &p = packed.params;
  p.seed = in.pointers ? 0 : in.seed;
  p.offset = in.pointers ? 0 : in.offset;
  p.seedPointer = in.pointers ? &in.seed : nullptr;
  p.offsetPointer = in.pointers ? &in.offset : nullptr;
  p.group = t.group;
  p.dropThreshold = in.threshold;
  p.keepScale = 65536.0f / float(65536 - in.threshold);
  size_t slot = 0;
  auto address = [&](const void *pointer) { packed.rest[slot++] = int64_t(reinterpret_cast<uintptr_t>(pointer)); };
  auto put = [&](const std::vector<int64_t> &values) {
    for (int64_t x : values)
      packed.rest[slot++] = x;
  };
  auto tensor = [&](const void *pointer, std::vector<int64_t> extents) {
    address(pointer);
    std::vector<int64_t> strides(extents.size(), 1);
    for (size_t i = extents.size() - 1; i-- > 0;)
      strides[i] = strides[i + 1] * extents[i + 1];
    put(strides);
    put(extents);
  };
  auto operand = [&](const Buffer &buffer, std::vector<int64_t> extents) {
    std::vector<int64_t> strides(4, 1);
    buffer.strides(strides.data());
    address(buffer.bytes.data());
    put(strides);
    put(extents);
  };
  // attune/LaunchParams.h: extents of b, h, q, hkv, k; the scalar; operands; captured tensors.
  put({t.batch, t.heads, t.queries, kvHeads, t.keys});
  if (t.softcap)
    std::memcpy(&packed.rest[slot++], &in.cap, 4);
  operand(q, {t.batch, t.heads, t.queries, t.headDim});
  operand(k, {t.batch, kvHeads, t.keys, t.headDim});
  operand(v, {t.batch, kvHeads, t.keys, t.headDimV});
  operand(o, {t.batch, t.heads, t.queries, t.headDimV});
  address(in.noLse ? nullptr : lse.data());
  put({int64_t(2) * t.queries * t.heads, 2 * t.queries, 2});
  put({t.batch, t.heads, t.queries});
  if (t.alibi)
    tensor(in.slopes.data(), {t.heads});
  if (t.bias)
    tensor(in.bias.data(), {t.heads, t.queries, t.keys});
  if (t.keep)
    tensor(in.keep.data(), {t.queries, t.keys});
  if (t.pattern)
    tensor(in.pattern.data(), {t.heads, patternRows, patternColumns});

  size_t scratchBytes = 0;
  HostCode code = compileText(tileText(t), scratchBytes);
  // Scratch holds anything at entry, and nothing behind it is touched.
  std::vector<float> memory(scratchBytes / 4 + 64, std::numeric_limits<float>::quiet_NaN());
  auto *scratch = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  std::memset(scratch + scratchBytes, 0x5a, 64);
  const int blocks = t.batch * t.heads * ((t.queries + t.tileQ - 1) / t.tileQ);
  for (int block = 0; block < blocks; ++block)
    code.functions.front()(&p, block, scratch);
  for (int i = 0; i < 64; ++i)
    REQUIRE(scratch[scratchBytes + i] == 0x5a);

  double tolerance = t.dtype == "f32" ? 2e-5 : t.dtype == "f16" ? 2e-3 : 1.6e-2;
  double worst = 0;
  std::vector<double> x(t.keys);
  for (int b = 0; b < t.batch; ++b)
    for (int h = 0; h < t.heads; ++h)
      for (int i = 0; i < t.queries; ++i) {
        double most = -INFINITY, sum = 0;
        for (int j = 0; j < t.keys; ++j) {
          double s = 0;
          for (int d = 0; d < t.headDim; ++d)
            s += double(q.get(b, h, i, d)) * k.get(b, h / t.group, j, d);
          s *= t.scale();
          if (t.alibi)
            s += double(in.slopes[h]) * (j - i);
          if (t.softcap)
            s = in.cap * std::tanh(s / in.cap);
          if (t.bias)
            s += in.bias[(size_t(h) * t.queries + i) * t.keys + j];
          bool visible =
              (!t.causal || i >= j) && (!t.keep || in.keep[size_t(i) * t.keys + j]) &&
              (!t.pattern || in.pattern[(size_t(h) * patternRows + i / t.tileQ) * patternColumns + j / t.tileK]);
          x[j] = visible ? s : -INFINITY;
          most = std::max(most, x[j]);
        }
        double base = std::isinf(most) ? 0 : most;
        for (double &value : x)
          sum += value = std::exp(value - base);
        double expectedLse = sum > 0 ? base + std::log(sum) : -INFINITY;
        if (!in.noLse) {
          float got = lse[size_t((b * t.heads + h) * t.queries + i) * 2];
          if (std::isinf(expectedLse))
            REQUIRE(got == -infinity);
          else if (!(std::abs(got - expectedLse) < 2e-5 * (1 + std::abs(expectedLse))))
            FAIL("lse " << got << " expected " << expectedLse << " at " << b << " " << h << " " << i);
          REQUIRE((lse.empty() || lse[size_t((b * t.heads + h) * t.queries + i) * 2 + 1] == 12345.0f));
        }
        for (int d = 0; d < t.headDimV; ++d) {
          double expected = 0;
          for (int j = 0; j < t.keys; ++j) {
            double weight = sum > 0 ? x[j] / sum : 0;
            if (t.dropout)
              weight = philoxBits(in.seed, in.offset, i, j, b * t.heads + h) >= in.threshold ? weight * p.keepScale : 0;
            if (weight != 0)
              expected += weight * v.get(b, h / t.group, j, d);
          }
          float got = o.get(b, h, i, d);
          double error = std::abs(got - expected) / (1 + std::abs(expected));
          if (!(error <= tolerance))
            FAIL("o " << got << " expected " << expected << " at " << b << " " << h << " " << i << " " << d);
          worst = std::max(worst, error);
        }
        // Rows behind the sequence are left alone.
      }
  for (int b = 0; b < t.batch; ++b)
    for (int h = 0; h < t.heads; ++h)
      for (int row = t.queries; row < t.queries + Buffer::poison; ++row)
        for (int d = 0; d < t.headDimV; ++d)
          REQUIRE(std::isnan(o.get(b, h, row, d)));
}

} // namespace

TEST_CASE("plain attention in every dtype") {
  for (const char *dtype : {"f32", "f16", "bf16"}) {
    INFO(dtype);
    check({.dtype = dtype, .queries = 128, .keys = 192});
    check({.dtype = dtype, .causal = true, .batch = 2, .heads = 4, .group = 2, .queries = 100, .keys = 77});
  }
}

TEST_CASE("lengths that no tile divides") {
  for (int queries : {1, 15, 63, 65, 129})
    for (int keys : {1, 17, 64, 100}) {
      INFO(queries << " x " << keys);
      check({.tileQ = 32, .tileK = 64, .heads = 1, .queries = queries, .keys = keys});
    }
}

TEST_CASE("head dims") {
  for (int d : {8, 16, 24, 40, 72, 96, 128, 256, 512}) {
    INFO(d);
    check({.headDim = d, .headDimV = d, .heads = 1, .queries = 70, .keys = 90});
  }
  check({.headDim = 192, .headDimV = 128, .heads = 1, .queries = 70, .keys = 90});
  check({.dtype = "bf16", .headDim = 24, .headDimV = 136, .heads = 1, .queries = 70, .keys = 90});
}

TEST_CASE("tile sizes") {
  for (auto [tileQ, tileK] : {std::pair{16, 16}, {32, 128}, {64, 48}, {128, 64}, {128, 128}, {48, 80}, {80, 112}}) {
    INFO(tileQ << " x " << tileK);
    check({.tileQ = tileQ, .tileK = tileK, .causal = true, .heads = 1, .queries = 150, .keys = 150});
  }
}

TEST_CASE("no keys: O is 0, LSE is -inf") { check({.queries = 40, .keys = 0}); }

TEST_CASE("scores with captured tensors and scalars") {
  check({.alibi = true, .softcap = true, .queries = 90, .keys = 70});
  check({.bias = true, .queries = 90, .keys = 70});
  check({.dtype = "f16", .causal = true, .alibi = true, .dropout = true, .queries = 90, .keys = 70});
}

TEST_CASE("rows without visible keys") {
  check({.keep = true, .queries = 90, .keys = 70}, [](Inputs &in) {
    for (int j = 0; j < 70; ++j)
      in.keep[5 * 70 + j] = in.keep[89 * 70 + j] = 0;
  });
  check({.bias = true, .queries = 70, .keys = 70}, [](Inputs &in) {
    for (int j = 0; j < 70; ++j)
      in.bias[3 * 70 + j] = in.bias[69 * 70 + j] = -infinity;
  });
}

TEST_CASE("dropout follows the formula to the bit") {
  for (bool pointers : {false, true})
    check({.dropout = true, .batch = 2, .heads = 3, .queries = 130, .keys = 150}, [&](Inputs &in) {
      in.pointers = pointers;
      in.threshold = 30000;
    });
  check({.tileQ = 16, .tileK = 16, .dropout = true, .queries = 40, .keys = 40});
}

TEST_CASE("block patterns skip tiles") { check({.pattern = true, .queries = 300, .keys = 400}); }

TEST_CASE("reversed domains") { check({.causal = true, .reverse = true, .queries = 200, .keys = 200}); }

TEST_CASE("rescaling only where a maximum changes") {
  check({.skipRescale = true, .queries = 100, .keys = 300});
  check({.causal = true, .skipRescale = true, .queries = 100, .keys = 300},
        [](Inputs &in) { in.key = [](int, int, int, int) { return 1.0f; }; });
}

TEST_CASE("hard logits") {
  check({.queries = 70, .keys = 200}, [](Inputs &in) {
    in.key = [](int, int, int k, int) { return float(k); }; // row maxima rise along k
    in.query = [](int, int, int q, int d) { return d == 0 ? 8.0f * ((q % 5) - 2) : 0.0f; };
  });
  check({.softcap = true, .queries = 70, .keys = 100},
        [](Inputs &in) { in.query = [](int, int, int q, int d) { return 100.0f * ((q + d) % 7 - 3); }; });
}

TEST_CASE("LSE may be left out") {
  check({.queries = 70, .keys = 70}, [](Inputs &in) { in.noLse = true; });
}

TEST_CASE("rows apart in memory") {
  check({.queries = 130, .keys = 200, .gap = 8});
  check({.dtype = "bf16", .headDim = 40, .queries = 130, .keys = 200, .gap = 24});
}

TEST_CASE("float functions keep float32 accuracy and the special cases") {
  struct Function {
    const char *name;
    double (*exact)(double);
    double bound;
  };
  const Function functions[] = {{"exp", std::exp, 2e-7},
                                {"exp2", std::exp2, 2e-7},
                                {"log", std::log, 2e-7},
                                {"log2", std::log2, 3e-7},
                                {"log1p", std::log1p, 3e-7},
                                {"tanh", std::tanh, 3e-7},
                                {"erf", std::erf, 3e-7},
                                {"atan", std::atan, 3e-7},
                                {"sin", std::sin, 3e-7},
                                {"cos", std::cos, 3e-7},
                                {"tan", std::tan, 5e-7},
                                {"sqrt", std::sqrt, 1e-7},
                                {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 2e-7},
                                {"absf", [](double x) { return std::fabs(x); }, 0},
                                {"floor", std::floor, 0}};
  std::vector<float> x = {0.0f,    -0.0f,           1.0f,    -1.0f,    infinity, -infinity, std::nanf(""), 1e-40f,
                          1e-45f,  1.17549435e-38f, 88.7f,   89.5f,    -87.5f,   -100.0f,   -103.9f,       -104.5f,
                          127.99f, 128.0f,          -126.5f, -149.0f,  -151.0f,  0.624999f, 0.625f,        9.0f,
                          -50.0f,  8191.9f,         3.4e38f, -3.4e38f, 1e10f};
  std::mt19937 random(3);
  while (x.size() < 640)
    x.push_back(std::uniform_real_distribution<float>(-10, 10)(random));
  while (x.size() < 960)
    x.push_back(std::exp(std::uniform_real_distribution<float>(-80, 80)(random)));
  while (x.size() < 1024)
    x.push_back(std::uniform_real_distribution<float>(-8000, 8000)(random));
  for (const Function &function : functions)
    for (int rows : {64, 1}) {
      std::string text = R"(
tile.kernel @f(lse: optional out [b, h, q] f32) grid [b, h, q by ROWS] dtype f32 plan <q 64 x k 64, warps = 4, blocks_per_sm = 2> attributes {sched.longest_first, tensors = [#attn.tensor<x, f32, rank 1>]} {
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %Sq = tile.axis_extent "q" : i32
  %X = tile.param "tensors.x" : !tile.view<1, f32>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %t = tile.load %X[%q0] limit %Sq : !tile.view<1, f32> -> !tile.tile<q ROWS, f32, register>
  %y = tile.map(%t : !tile.tile<q ROWS, f32, register>) -> !tile.tile<q ROWS, f32, register> {
  ^bb0(%a: f32):
    %0 = math.FUNCTION %a : f32
    tile.yield %0 : f32
  }
  tile.store %y, %LSE[%b, %h, %q0] limit %Sq : !tile.tile<q ROWS, f32, register>, !tile.view<3, f32>
})";
      auto replace = [&](const std::string &from, const std::string &to) {
        for (size_t at; (at = text.find(from)) != std::string::npos;)
          text.replace(at, from.size(), to);
      };
      replace("ROWS", std::to_string(rows));
      replace("FUNCTION", function.name);
      size_t scratchBytes = 0;
      HostCode code = compileText(text, scratchBytes);
      struct {
        LaunchParams params = {};
        int64_t extents[3]; // of b, h and q
        float *lse;
        int64_t strides[3] = {0, 0, 1}, lseExtents[3];
        const float *base;
        int64_t stride = 1, extent;
      } packed;
      std::vector<float> y(x.size());
      const auto rowCount = int64_t(x.size());
      for (int64_t *extents : {packed.extents, packed.lseExtents})
        extents[0] = extents[1] = 1, extents[2] = rowCount;
      packed.lse = y.data();
      packed.base = x.data();
      packed.extent = rowCount;
      std::vector<char> memory(scratchBytes + 64);
      void *scratch = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
      for (int block = 0; block < int((x.size() + rows - 1) / rows); ++block)
        code.functions.front()(&packed.params, block, scratch);
      for (size_t i = 0; i < x.size(); ++i) {
        double exact = function.exact(x[i]);
        INFO(function.name << "(" << x[i] << ") = " << y[i] << ", exactly " << exact);
        if (std::isnan(exact))
          REQUIRE(std::isnan(y[i]));
        else if (std::isinf(float(exact)))
          REQUIRE(y[i] == float(exact));
        else
          REQUIRE(std::abs(y[i] - exact) <= function.bound * std::abs(exact) + 1.5e-45 +
                                                (std::abs(x[i]) > 1 && std::abs(exact) <= 1 ? 1.2e-7 : 0));
      }
    }
}

TEST_CASE("a damaged object is an error") {
  std::vector<char> bytes(100, 'x');
  CHECK_FALSE(loadHost(bytes, std::array<std::string, 1>{"kernel"}));
  CHECK(hostCpuKey() == hostCpuKey());
}
