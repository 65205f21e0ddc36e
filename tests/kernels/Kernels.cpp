//===- Kernels.cpp - Programs that are not attention's forward pass ---------===//

#include "kernels/Kernels.h"

#include "KernelTexts.h"
#include "runtime/ThreadPool.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <random>

using namespace attune;
using namespace attune::tests;

static float roundBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

Tensor HostOperand::tensor(void *data, Device device) const { return Tensor::contiguous(data, dtype, shape, device); }

int64_t HostOperand::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

/// The integers that an operand may hold, by dtype; the floats have other bits.
template <typename Visit> static bool onInteger(DType dtype, Visit visit) {
  if (dtype == DType::I32)
    return visit(int32_t()), true;
  return dtype == DType::I64 && (visit(int64_t()), true);
}

float HostOperand::get(int64_t index) const {
  float integer = 0;
  auto read = [&](auto value) {
    std::memcpy(&value, bytes.data() + size_t(index) * sizeof value, sizeof value);
    integer = float(value);
  };
  if (onInteger(dtype, read))
    return integer;
  if (dtype == DType::F16) {
    uint16_t half;
    std::memcpy(&half, bytes.data() + size_t(index) * 2, 2);
    return float(std::bit_cast<_Float16>(half));
  }
  uint32_t bits = 0;
  const size_t size = dtype == DType::F32 ? 4 : 2;
  std::memcpy(reinterpret_cast<std::byte *>(&bits) + (4 - size), bytes.data() + size_t(index) * size, size);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void HostOperand::set(int64_t index, float value) {
  auto write = [&](auto integer) {
    integer = std::isnan(value) ? -1 : static_cast<decltype(integer)>(value);
    std::memcpy(bytes.data() + size_t(index) * sizeof integer, &integer, sizeof integer);
  };
  if (onInteger(dtype, write))
    return;
  if (dtype == DType::F16) {
    const auto half = _Float16(value);
    std::memcpy(bytes.data() + size_t(index) * 2, &half, 2);
    return;
  }
  const size_t size = dtype == DType::F32 ? 4 : 2;
  if (size == 2 && !std::isnan(value))
    value = roundBf16(value);
  std::memcpy(bytes.data() + size_t(index) * size, reinterpret_cast<const std::byte *>(&value) + (4 - size), size);
}

LaunchArgs attune::tests::bindOperands(const std::vector<HostOperand> &operands, const std::vector<void *> &data,
                                       Device device) {
  LaunchArgs args;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string &name = operands[i].name;
    Tensor tensor = operands[i].tensor(data[i], device);
    if (name == "q" || name == "k" || name == "v" || name == "o")
      (name == "q" ? args.q : name == "k" ? args.k : name == "v" ? args.v : args.o) = tensor;
    else if (name == "lse")
      args.lse = tensor;
    else
      args.operands.push_back({name, tensor});
  }
  return args;
}

LaunchArgs attune::tests::bindOperands(std::vector<HostOperand> &operands) {
  std::vector<void *> data;
  for (HostOperand &operand : operands)
    data.push_back(operand.bytes.data());
  return bindOperands(operands, data);
}

std::string Sizes::text() const { return fmt::format("B {} H {} Sq {} Sk {}", batch, heads, queries, keys); }

namespace {

/// Numbers of a normal distribution, or one number everywhere.
HostOperand random(std::string name, DType dtype, std::vector<int64_t> shape, uint64_t seed, float scale = 1) {
  HostOperand operand{std::move(name), dtype, std::move(shape), {}};
  operand.bytes.resize(size_t(operand.elements()) * byteSize(dtype));
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  for (int64_t i = 0; i < operand.elements(); ++i)
    operand.set(i, normal(generator));
  return operand;
}

HostOperand filled(std::string name, DType dtype, std::vector<int64_t> shape, float value) {
  HostOperand operand = random(std::move(name), dtype, std::move(shape), 0);
  for (int64_t i = 0; i < operand.elements(); ++i)
    operand.set(i, value);
  return operand;
}

const HostOperand &named(const std::vector<HostOperand> &operands, const std::string &name) {
  for (const HostOperand &operand : operands)
    if (operand.name == name)
      return operand;
  throw std::out_of_range(name);
}

/// Expected values, and what is compared with them.
struct Expected64 {
  std::string name;
  std::vector<double> values;
};

/// Each element within `limit` of the largest expected magnitude. NaN fails.
std::string compare(const std::vector<HostOperand> &operands, const Expected64 &expected, double limit) {
  const HostOperand &given = named(operands, expected.name);
  double largest = 1e-6;
  for (double value : expected.values)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double got = given.get(int64_t(i)), wanted = expected.values[i];
    if (got == wanted || std::abs(got - wanted) <= limit * largest)
      continue;
    return fmt::format("{}[{}] is {}, not {} (largest {})", expected.name, i, got, wanted, largest);
  }
  return "";
}

std::vector<double> numbers(const HostOperand &operand) {
  std::vector<double> values(size_t(operand.elements()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = operand.get(int64_t(i));
  return values;
}

//===----------------------------------------------------------------------===//
// The gradients of causal attention
//===----------------------------------------------------------------------===//

struct Plane {
  int64_t queries, keys, d;
  const double *q, *k, *v, *gradient;
};

/// Of one head: LSE and delta, and the three gradients of `scale * q k^T`, causal.
void backwardOfHead(const Plane &of, double scale, double *lse, double *delta, double *dq, double *dk, double *dv) {
  auto dot = [&](const double *a, const double *b) {
    double sum = 0;
    for (int64_t i = 0; i < of.d; ++i)
      sum += a[i] * b[i];
    return sum;
  };
  std::vector<double> p(size_t(of.keys)), o(size_t(of.d));
  for (int64_t row = 0; row < of.queries; ++row) {
    const double *query = of.q + row * of.d, *gradient = of.gradient + row * of.d;
    const int64_t seen = std::min(row + 1, of.keys);
    double sum = 0;
    for (int64_t key = 0; key < seen; ++key)
      sum += p[key] = std::exp(scale * dot(query, of.k + key * of.d));
    lse[row] = std::log(sum);
    std::fill(o.begin(), o.end(), 0);
    for (int64_t key = 0; key < seen; ++key) {
      p[key] /= sum;
      for (int64_t i = 0; i < of.d; ++i)
        o[i] += p[key] * of.v[key * of.d + i];
    }
    delta[row] = dot(o.data(), gradient);
    for (int64_t key = 0; key < seen; ++key) {
      const double ds = p[key] * (dot(gradient, of.v + key * of.d) - delta[row]) * scale;
      for (int64_t i = 0; i < of.d; ++i) {
        dv[key * of.d + i] += p[key] * gradient[i];
        dk[key * of.d + i] += ds * query[i];
        dq[row * of.d + i] += ds * of.k[key * of.d + i];
      }
    }
  }
}

Problem attentionBackward(const Sizes &sizes) {
  constexpr int64_t d = 64;
  const auto [batch, heads, queries, keys] = sizes;
  Problem problem;
  HostOperand q = random("q", DType::BF16, {batch, heads, queries, d}, 1),
              k = random("k", DType::BF16, {batch, heads, keys, d}, 2),
              v = random("v", DType::BF16, {batch, heads, keys, d}, 3),
              gradient = random("d_o", DType::BF16, {batch, heads, queries, d}, 4);
  const size_t rows = size_t(batch * heads * queries), columns = size_t(batch * heads * keys);
  std::vector<double> lse(rows), delta(rows), dq(rows * d), dk(columns * d), dv(columns * d);
  const std::vector<double> values[] = {numbers(q), numbers(k), numbers(v), numbers(gradient)};
  const int64_t queryCount = queries, keyCount = keys; // a lambda captures no structured binding
  ThreadPool::process().run(size_t(batch * heads), 0, [&](size_t head, void *) {
    const int64_t row = int64_t(head) * queryCount, key = int64_t(head) * keyCount;
    backwardOfHead({queryCount, keyCount, d, &values[0][row * d], values[1].data() + key * d,
                    values[2].data() + key * d, &values[3][row * d]},
                   0.125, &lse[row], &delta[row], &dq[row * d], dk.data() + key * d, dv.data() + key * d);
  });
  HostOperand rowsOf = filled("lse", DType::F32, {batch, heads, queries}, 0);
  HostOperand deltas = rowsOf;
  deltas.name = "delta";
  for (size_t i = 0; i < rows; ++i) {
    rowsOf.set(int64_t(i), float(lse[i]));
    deltas.set(int64_t(i), float(delta[i]));
  }
  // What is added to what is there.
  for (double &value : dq)
    value += 0.5;
  problem.operands = {q,
                      k,
                      v,
                      gradient,
                      rowsOf,
                      deltas,
                      filled("dq", DType::F32, {batch, heads, queries, d}, 0.5f),
                      filled("dk", DType::F32, {batch, heads, keys, d}, NAN),
                      filled("dv", DType::BF16, {batch, heads, keys, d}, NAN)};
  problem.check = [=](const std::vector<HostOperand> &operands) {
    for (const Expected64 &expected : {Expected64{"dv", dv}, {"dk", dk}, {"dq", dq}})
      if (std::string fault = compare(operands, expected, 1.5e-2); !fault.empty())
        return fault;
    return std::string();
  };
  return problem;
}

//===----------------------------------------------------------------------===//
// K^T V
//===----------------------------------------------------------------------===//

Problem keyValue(const Sizes &sizes) {
  constexpr int64_t d = 64, dv = 32;
  const auto [batch, heads, queries, keys] = sizes;
  HostOperand k = random("k", DType::BF16, {batch, heads, keys, d}, 5),
              v = random("v", DType::BF16, {batch, heads, keys, dv}, 6);
  std::vector<double> state(size_t(batch * heads * d * dv)), sums(size_t(batch * heads * d));
  for (int64_t row = 0; row < batch * heads * keys; ++row) {
    const int64_t head = row / keys;
    for (int64_t i = 0; i < d; ++i) {
      const double key = k.get(row * d + i);
      sums[size_t(head * d + i)] += key;
      for (int64_t j = 0; j < dv; ++j)
        state[size_t((head * d + i) * dv + j)] += key * v.get(row * dv + j);
    }
  }
  return {{k, v, filled("state", DType::F32, {batch, heads, d, dv}, NAN),
           filled("sums", DType::F32, {batch, heads, d}, NAN)},
          [=](const std::vector<HostOperand> &operands) {
            std::string fault = compare(operands, {"state", state}, 1e-5);
            return fault.empty() ? compare(operands, {"sums", sums}, 1e-5) : fault;
          }};
}

//===----------------------------------------------------------------------===//
// Attention with split keys
//===----------------------------------------------------------------------===//

Problem splitKeysOf(const Sizes &sizes, DType dtype, int64_t d, int64_t dv, double scale, double tolerance) {
  const auto [batch, heads, queries, keys] = sizes;
  HostOperand q = random("q", dtype, {batch, heads, queries, d}, 7), k = random("k", dtype, {batch, heads, keys, d}, 8),
              v = random("v", dtype, {batch, heads, keys, dv}, 9);
  auto formula = [=] {
    std::vector<double> o(size_t(batch * heads * queries * dv)), lse(size_t(batch * heads * queries));
    for (int64_t row = 0; row < batch * heads * queries; ++row) {
      const int64_t first = row / queries * keys;
      double sum = 0;
      for (int64_t key = first; key < first + keys; ++key) {
        double s = 0;
        for (int64_t i = 0; i < d; ++i)
          s += double(q.get(row * d + i)) * k.get(key * d + i);
        sum += std::exp(scale * s);
        for (int64_t i = 0; i < dv; ++i)
          o[size_t(row * dv + i)] += std::exp(scale * s) * v.get(key * dv + i);
      }
      lse[size_t(row)] = std::log(sum);
      for (int64_t i = 0; i < dv; ++i)
        o[size_t(row * dv + i)] = keys ? o[size_t(row * dv + i)] / sum : 0;
    }
    return std::pair(o, lse);
  };
  return {{q, k, v, filled("o", DType::F32, {batch, heads, queries, dv}, NAN),
           filled("lse", DType::F32, {batch, heads, queries}, NAN)},
          [=](const std::vector<HostOperand> &operands) {
            const auto [o, lse] = formula();
            std::string fault = compare(operands, {"o", o}, tolerance);
            return fault.empty() ? compare(operands, {"lse", lse}, tolerance) : fault;
          }};
}

Problem splitKeys(const Sizes &sizes) { return splitKeysOf(sizes, DType::F32, 16, 24, 0.25, 1e-5); }
Problem splitKeysWarpgroups(const Sizes &sizes) { return splitKeysOf(sizes, DType::BF16, 64, 64, 0.125, 2e-2); }

//===----------------------------------------------------------------------===//
// Ends of tiles
//===----------------------------------------------------------------------===//

Problem tileEnds(const Sizes &sizes) {
  constexpr int64_t rows = 48;
  const auto [batch, heads, queries, keys] = sizes;
  const int64_t tiles = (queries + rows - 1) / rows;
  HostOperand x = random("x", DType::I32, {batch, queries}, 11, 1000);
  std::vector<double> least, greatest;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < tiles; ++t) {
      auto [low, high] = std::pair(1e9, -1e9);
      for (int64_t row = t * rows; row < std::min(queries, (t + 1) * rows); ++row) {
        low = std::min(low, double(x.get(b * queries + row)));
        high = std::max(high, double(x.get(b * queries + row)));
      }
      least.push_back(low);
      greatest.push_back(std::ldexp(high, 33));
    }
  return {{x, filled("least", DType::I32, {batch, tiles}, NAN), filled("greatest", DType::I64, {batch, tiles}, NAN)},
          [=](const std::vector<HostOperand> &operands) {
            std::string fault = compare(operands, {"least", least}, 0);
            return fault.empty() ? compare(operands, {"greatest", greatest}, 0) : fault;
          }};
}

//===----------------------------------------------------------------------===//
// Sums by way of shared memory
//===----------------------------------------------------------------------===//

Problem sharedSums(const Sizes &sizes) {
  constexpr int64_t d = 64;
  const auto [batch, heads, queries, keys] = sizes;
  HostOperand q = random("q", DType::BF16, {batch, heads, queries, d}, 12),
              k = random("k", DType::BF16, {batch, heads, keys, d}, 13),
              v = random("v", DType::BF16, {batch, heads, queries, 64}, 14),
              w = random("w", DType::BF16, {batch, heads, queries, 40}, 15);
  const auto rows = size_t(batch * heads * keys);
  Expected64 ofV{"sum_v", std::vector<double>(rows * 64, 0.5)}, ofW{"sum_w", std::vector<double>(rows * 40, 0.25)},
      sums{"sums", std::vector<double>(rows, 1)};
  for (int64_t row = 0; row < int64_t(rows); ++row)
    for (int64_t query = row / keys * queries; query < (row / keys + 1) * queries; ++query) {
      double s = 0;
      for (int64_t i = 0; i < d; ++i)
        s += double(q.get(query * d + i)) * k.get(row * d + i);
      sums.values[size_t(row)] += s;
      for (int64_t i = 0; i < 64; ++i)
        ofV.values[size_t(row * 64 + i)] += s * v.get(query * 64 + i);
      for (int64_t i = 0; i < 40; ++i)
        ofW.values[size_t(row * 40 + i)] += s * w.get(query * 40 + i);
    }
  return {{q, k, v, w, filled("sum_v", DType::F32, {batch, heads, keys, 64}, 0.5f),
           filled("sum_w", DType::F32, {batch, heads, keys, 40}, 0.25f),
           filled("sums", DType::F32, {batch, heads, keys}, 1)},
          [=](const std::vector<HostOperand> &operands) {
            for (const Expected64 &expected : {ofV, ofW, sums})
              if (std::string fault = compare(operands, expected, 1e-2); !fault.empty())
                return fault;
            return std::string();
          }};
}

//===----------------------------------------------------------------------===//
// A product for each head
//===----------------------------------------------------------------------===//

Problem headProducts(const Sizes &sizes) {
  constexpr int64_t d = 64, e = 96;
  const auto [batch, heads, queries, keys] = sizes;
  HostOperand x = random("x", DType::BF16, {batch, heads, queries, d}, 19),
              w = random("w", DType::BF16, {batch, heads, d, e}, 20);
  Expected64 y{"y", std::vector<double>(size_t(batch * heads * queries * e))}, z{"z", y.values};
  for (int64_t row = 0; row < batch * heads * queries; ++row)
    for (int64_t column = 0; column < e; ++column) {
      double &product = y.values[size_t(row * e + column)];
      for (int64_t i = 0; i < d; ++i)
        product += double(x.get(row * d + i)) * w.get((row / queries * d + i) * e + column);
      z.values[size_t(row * e + column)] = 0.25 + product / 2;
    }
  return {{x, w, filled("y", DType::BF16, {batch, heads, queries, e}, NAN),
           filled("z", DType::F32, {batch, heads, queries, e}, 0.25f)},
          [=](const std::vector<HostOperand> &operands) {
            std::string fault = compare(operands, y, 4e-3);
            return fault.empty() ? compare(operands, z, 1e-5) : fault;
          }};
}

//===----------------------------------------------------------------------===//
// Sums over heads that see other tiles each
//===----------------------------------------------------------------------===//

/// Whether head_sums.mlir shows a query of a head to the keys: by segments, by `where`, by what partial tiles hide.
bool isShown(int64_t query, int64_t head) {
  const int64_t tile = query / 64;
  const bool inFirst = tile >= 1 && tile < 3, isPartial = !inFirst || tile % 2;
  return (inFirst || tile >= 5) && (tile + head) % 3 != 0 && (head != 1 || tile >= 32) &&
         !(isPartial && query % 3 == 1);
}

Problem headSums(const Sizes &sizes) {
  constexpr int64_t d = 64;
  const auto [batch, heads, queries, keys] = sizes;
  HostOperand q = random("q", DType::BF16, {batch, heads, queries, d}, 16),
              k = random("k", DType::BF16, {batch, keys, d}, 17),
              v = random("v", DType::BF16, {batch, heads, queries, d}, 18);
  Expected64 sums{"sums", std::vector<double>(size_t(batch * keys * d))};
  for (int64_t row = 0; row < batch * keys; ++row)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t query = 0; query < queries; ++query) {
        if (!isShown(query, head))
          continue;
        const int64_t at = (row / keys * heads + head) * queries + query;
        double s = 0;
        for (int64_t i = 0; i < d; ++i)
          s += double(q.get(at * d + i)) * k.get(row * d + i);
        for (int64_t i = 0; i < d; ++i)
          sums.values[size_t(row * d + i)] += s * v.get(at * d + i);
      }
  return {{q, k, v, filled("sums", DType::F32, {batch, keys, d}, NAN)},
          [=](const std::vector<HostOperand> &operands) { return compare(operands, sums, 1e-2); }};
}

/// Its text with a schedule for warpgroups.
std::string headSumsWarpgroupsText() {
  const std::string plan = "blocks_per_sm = 1> {";
  std::string text = headSumsText;
  text.replace(text.find(plan), plan.size(),
               "blocks_per_sm = 1> attributes {sched.roles = [#sched.role<\"producer\", warps 4>, "
               "#sched.role<\"consumer\", warps 8>]} {");
  return text;
}

/// attention_backward_warpgroups.mlir with three roles: what other warps of the producer role do there, a role of its own does.
std::string attentionBackwardRolesText() {
  const std::pair<std::string_view, std::string_view> changes[] = {
      {"@attention_backward_warpgroups", "@attention_backward_roles"},
      {"#sched.role<\"producer\", warps 4, registers 32>, #sched.role<\"consumer\", warps 8, registers 232>",
       "#sched.role<\"producer\", warps 4, registers 24>, #sched.role<\"rows\", warps 4, registers 32>, "
       "#sched.role<\"consumer\", warps 8, registers 216>"},
      {"\"producer\" warps 2 to 3", "\"rows\" warps 0 to 1"},
      {"\"producer\" warp 1", "\"rows\" warp 3"}};
  std::string text = attentionBackwardWarpgroupsText;
  for (auto [from, to] : changes)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

} // namespace

const std::vector<Program> &attune::tests::programs() {
  static const std::vector<Program> all = {
      {"attention_backward",
       attentionBackwardText,
       {{1, 2, 128, 128}, {2, 1, 100, 77}, {1, 1, 1, 1}, {1, 2, 65, 190}, {1, 1, 200, 64}},
       attentionBackward},
      {"attention_backward_warpgroups",
       attentionBackwardWarpgroupsText,
       {{1, 2, 128, 128}, {2, 1, 100, 77}, {1, 1, 1, 1}, {1, 2, 300, 190}, {1, 1, 500, 256}},
       attentionBackward,
       /*isForWarpgroups=*/true,
       /*timed=*/Sizes{2, 16, 4096, 4096}},
      {"attention_backward_roles",
       attentionBackwardRolesText(),
       {{1, 2, 128, 128}, {2, 1, 100, 77}, {1, 1, 1, 1}, {1, 1, 500, 256}},
       attentionBackward,
       /*isForWarpgroups=*/true},
      // Tiles that leave in the loop; none, and a ragged last one.
      {"head_products",
       headProductsText,
       {{2, 3, 1, 0}, {1, 1, 0, 0}, {1, 2, 128, 0}, {2, 1, 300, 0}, {1, 1, 1000, 0}},
       headProducts,
       /*isForWarpgroups=*/true},
      // No query, tiles that no head sees, rounds without a tile; more groups of tiles than a search looks at one by one.
      {"head_sums",
       headSumsText,
       {{1, 1, 0, 3}, {2, 2, 60, 130}, {1, 3, 700, 40}, {1, 1, 130, 128}, {1, 5, 2300, 5}},
       headSums},
      {"head_sums_warpgroups",
       headSumsWarpgroupsText(),
       {{1, 1, 0, 3}, {2, 2, 60, 130}, {1, 3, 700, 40}, {1, 1, 130, 128}, {1, 5, 2300, 5}},
       headSums,
       /*isForWarpgroups=*/true},
      {"key_value",
       keyValueText,
       {{1, 2, 0, 64}, {2, 1, 0, 100}, {1, 1, 0, 1}, {1, 1, 0, 0}, {2, 3, 0, 333}},
       keyValue},
      // Fewer keys than shares, ragged ones, none; queries of one row and of more than a tile.
      {"split_keys",
       splitKeysText,
       {{2, 3, 1, 1}, {1, 2, 16, 128}, {2, 1, 37, 301}, {1, 1, 5, 40}, {1, 3, 20, 0}},
       splitKeys},
      {"split_keys_warpgroups",
       splitKeysWarpgroupsText,
       {{2, 3, 1, 1}, {1, 2, 16, 128}, {2, 1, 300, 1301}, {1, 1, 5, 40}, {1, 3, 20, 0}},
       splitKeysWarpgroups,
       /*isForWarpgroups=*/true,
       /*timed=*/Sizes{2, 16, 4096, 4096}},
      {"shared_sums", sharedSumsText, {{1, 2, 64, 64}, {2, 1, 1, 1}, {1, 1, 130, 77}, {1, 3, 40, 33}}, sharedSums},
      // Integers: tiles of 48, the last ragged; more of them than a block has.
      {"tile_ends", tileEndsText, {{1, 0, 1, 0}, {2, 0, 48, 0}, {3, 0, 500, 0}, {2, 0, 1600, 0}}, tileEnds},
  };
  return all;
}

const Program &attune::tests::program(const std::string &name) {
  for (const Program &one : programs())
    if (one.name == name)
      return one;
  throw std::out_of_range(name);
}
