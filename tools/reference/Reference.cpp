//===- Reference.cpp - Attention in float64, the plain way --------------------===//
#include "tools/reference/Reference.h"

#include "tools/reference/ParallelFor.h"
#include "tools/reference/Philox.h"
#include "tools/reference/Prepared.h"
#include "tools/reference/Sequences.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <type_traits>

namespace attune::reference {

namespace {

/// Gigabytes, which the threads that fill them touch first.
template <typename Real> using Values = std::vector<Real, UninitializedAllocator<Real>>;

template <typename Real> Values<Real> valuesOf(const HostTensor &tensor, unsigned threads) {
  constexpr int64_t block = 1 << 14;
  Values<Real> values(size_t(tensor.size()));
  parallelFor((tensor.size() + block - 1) / block, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * block; i < std::min(end * block, tensor.size()); ++i)
      values[size_t(i)] = Real(tensor.at(i));
  });
  return values;
}

constexpr int64_t keyBlock = 64; // keys that a thread takes at once

/// Calls work(plane, begin, end) for blocks of the keys of each plane.
void forKeyBlocks(int64_t planes, int64_t keys, unsigned threads,
                  const std::function<void(int64_t, int64_t, int64_t)> &work) {
  const int64_t blocks = (keys + keyBlock - 1) / keyBlock;
  parallelFor(planes * blocks, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      work(i / blocks, i % blocks * keyBlock, std::min((i % blocks + 1) * keyBlock, keys));
  });
}

/// [planes, keys, columns] to [planes, columns, keys].
template <typename Real>
Values<Real> transposedValuesOf(const HostTensor &tensor, int64_t planes, int64_t keys, int64_t columns,
                                unsigned threads) {
  Values<Real> result(size_t(tensor.size()));
  forKeyBlocks(planes, keys, threads, [&](int64_t plane, int64_t begin, int64_t end) {
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t k = begin; k < end; ++k)
        result[size_t((plane * columns + c) * keys + k)] = Real(tensor.at((plane * keys + k) * columns + c));
  });
  return result;
}

/// The formula with the sums over d and k and the softmax in Real, s and the score in float32. In float64 it
/// also says what rounding is expected to leave in each row. `dtype` is what S, P' and O are rounded to in
/// the plain computation, f32 (that is, not at all but s) in float64.
template <typename Real> class RowLoop {
public:
  RowLoop(const Prepared &prepared, Output &output)
      : prepared(prepared), dtype(isExact ? DType::F32 : prepared.problem->q.dtype), output(output),
        accuracy(accuracyOf(prepared.problem->q.dtype, prepared.problem->variant->isPrecise())),
        queries(valuesOf<Real>(prepared.problem->q, prepared.problem->threads)),
        keys(transposedValuesOf<Real>(prepared.problem->k, prepared.batch * prepared.kvHeads, prepared.keyLength,
                                      prepared.headDim, prepared.problem->threads)),
        values(valuesOf<Real>(prepared.problem->v, prepared.problem->threads)) {
    if constexpr (isExact)
      describeKeys();
  }

  void rows(int64_t begin, int64_t end) const {
    Scratch scratch(prepared, accuracy);
    for (int64_t row = begin; row < end; ++row)
      attend(row, scratch);
    std::lock_guard lock(mutex);
    for (const auto &[name, count] : scratch.clampedReads)
      output.clampedReads[name] += count;
  }

private:
  static constexpr bool isExact = std::is_same_v<Real, double>;
  static constexpr int64_t maxRun = RowInterpreter::maxRun;
  static constexpr Real hidden = -std::numeric_limits<Real>::infinity();

  struct Scratch {
    Scratch(const Prepared &prepared, const Accuracy &accuracy)
        : x(size_t(prepared.keyLength)), p(x.size()), weight(x.size()), o(size_t(prepared.headDimV)) {
      if (prepared.mask)
        mask.emplace(*prepared.mask);
      if (prepared.score)
        score.emplace(*prepared.score);
      if constexpr (!isExact)
        return;
      shift.resize(x.size());
      variance.resize(o.size());
      mass.resize(o.size());
      if (prepared.score)
        shiftedScore.emplace(*prepared.score, float(accuracy.function));
    }
    void startRow(int64_t b, int64_t h, int64_t q) {
      for (std::optional<RowInterpreter> *each : {&mask, &score, &shiftedScore})
        if (*each)
          (*each)->startRow(b, h, q);
    }
    std::vector<Real> x, p;   ///< p before the division by l
    std::vector<Real> weight; ///< p'
    std::vector<Real> o;
    std::optional<RowInterpreter> mask, score, shiftedScore;
    std::vector<double> shift;          ///< how far x may be off
    std::vector<double> variance, mass; ///< of o; of sum_k p' * |v|
    std::map<std::string, int64_t> clampedReads = {};
  };

  /// A row of Q and where it is.
  struct Row {
    int64_t index, b, h, q, kvPlane;
  };

  float rounded(float value) const { return roundTo(dtype, value); }
  double rounded(double value) const { return value; }

  /// |k| of each key, and which keys hold NaN or infinities.
  void describeKeys() {
    const Prepared &p = prepared;
    const int64_t planes = p.batch * p.kvHeads;
    keyNorms.resize(size_t(planes * p.keyLength));
    std::vector<uint8_t> where(keyNorms.size());
    forKeyBlocks(planes, p.keyLength, p.problem->threads, [&](int64_t plane, int64_t begin, int64_t end) {
      double *norms = keyNorms.data() + plane * p.keyLength;
      for (int64_t d = 0; d < p.headDim; ++d)
        for (int64_t k = begin; k < end; ++k) {
          double value = keys[size_t((plane * p.headDim + d) * p.keyLength + k)];
          norms[k] += value * value;
        }
      for (int64_t k = begin; k < end; ++k) {
        const int64_t key = plane * p.keyLength + k;
        const double *value = values.data() + key * p.headDimV;
        norms[k] = std::sqrt(norms[k]);
        const bool finite = std::all_of(value, value + p.headDimV, [](double each) { return std::isfinite(each); });
        where[size_t(key)] = uint8_t((std::isfinite(norms[k]) ? 0 : Output::InKeys) | (finite ? 0 : Output::InValues));
      }
    });
    for (size_t key = 0; key < where.size(); ++key)
      if (where[key])
        nonFiniteKeys.emplace_back(int64_t(key), where[key]);
  }

  /// x of keys [begin, begin + count) of a row.
  void logits(const Row &row, int64_t begin, int64_t count, const uint8_t *blocks, Scratch &scratch) const {
    std::array<bool, size_t(maxRun)> visible;
    bool any = false;
    if (scratch.mask)
      scratch.mask->run(begin, count, nullptr);
    for (int64_t i = 0; i < count; ++i) {
      visible[size_t(i)] = prepared.shows(scratch.mask, blocks, row.b, begin, i);
      any |= visible[size_t(i)];
    }
    if (scratch.mask && scratch.mask->anyClamped()) {
      std::vector<uint8_t> shown(size_t(count), 1);
      for (int64_t i = 0; i < count; ++i)
        shown[size_t(i)] =
            begin + i < prepared.keysOf(row.b) && (!blocks || blocks[(begin + i) / prepared.patternColumns]);
      scratch.mask->countClamped(shown, scratch.clampedReads);
    }
    Real *x = scratch.x.data() + begin;
    if (!any) {
      std::fill_n(x, count, hidden);
      return;
    }
    const Real *query = queries.data() + row.index * prepared.headDim;
    const Real *keyColumns = keys.data() + row.kvPlane * prepared.headDim * prepared.keyLength;
    std::array<Real, size_t(maxRun)> dots = {};
    for (int64_t d = 0; d < prepared.headDim; ++d) {
      const Real *column = keyColumns + d * prepared.keyLength + begin;
      Real factor = query[d];
      for (int64_t i = 0; i < count; ++i)
        dots[size_t(i)] += factor * column[i];
    }
    // s is a float32 in any computation: what the score makes of it then differs by s alone.
    std::array<float, size_t(maxRun)> s;
    Real scale = Real(prepared.scale);
    for (int64_t i = 0; i < count; ++i)
      s[size_t(i)] = roundTo(dtype, float(scale * dots[size_t(i)]));
    const float *score = s.data();
    if (scratch.score) {
      scratch.score->run(begin, count, score);
      if (scratch.score->anyClamped())
        scratch.score->countClamped({visible.begin(), visible.begin() + count}, scratch.clampedReads);
      score = scratch.score->floats();
    }
    for (int64_t i = 0; i < count; ++i)
      x[i] = visible[size_t(i)] ? Real(score[i]) : hidden;
    if constexpr (isExact)
      shifts(row, begin, count, s.data(), scratch);
  }

  /// How far x of these keys is off where s and the score's functions are as far off as `accuracy` has it.
  void shifts(const Row &row, int64_t begin, int64_t count, float *s, Scratch &scratch) const {
    const double *query = queries.data() + row.index * prepared.headDim;
    double norm = std::sqrt(std::inner_product(query, query + prepared.headDim, query, 0.0));
    const double *norms = keyNorms.data() + row.kvPlane * prepared.keyLength + begin;
    double *shift = scratch.shift.data() + begin;
    const double *x = scratch.x.data() + begin;
    for (int64_t i = 0; i < count; ++i)
      shift[i] = accuracy.score * std::fabs(prepared.scale) * norm * norms[i];
    if (!scratch.shiftedScore)
      return;
    for (int64_t i = 0; i < count; ++i) {
      bool up = uint32_t(begin + i) * 0x9E3779B9u >> 31;
      s[i] = float(double(s[i]) + (up ? shift[i] : -shift[i]));
    }
    scratch.shiftedScore->run(begin, count, s);
    const float *shifted = scratch.shiftedScore->floats();
    for (int64_t i = 0; i < count; ++i)
      shift[i] = std::isfinite(shifted[i]) ? std::fabs(double(shifted[i]) - x[i]) : infinity;
  }

  void attend(int64_t index, Scratch &scratch) const {
    const Problem &problem = *prepared.problem;
    int64_t plane = index / prepared.queryLength;
    Row row{index, plane / prepared.heads, plane % prepared.heads, index % prepared.queryLength, 0};
    row.kvPlane = row.b * prepared.kvHeads + prepared.kvHead(row.h);
    if (row.q >= prepared.queriesOf(row.b))
      return leaveOut(row);
    scratch.startRow(row.b, row.h, row.q + problem.qOffset);
    const uint8_t *blocks = prepared.blocksOf(row.b, row.h, row.q);
    for (int64_t begin = 0; begin < prepared.keyLength; begin += maxRun)
      logits(row, begin, std::min(maxRun, prepared.keyLength - begin), blocks, scratch);

    const RowScale scale = prepared.weights == Weights::Softmax ? softmax(row, scratch) : pointwise(scratch);
    weigh(row, Real(scale.l), scratch);
    if constexpr (isExact)
      expectErrors(row, scale, scratch);
  }

  /// A row behind its sequence's, which a kernel leaves as it is: NaN, as results are before a launch.
  void leaveOut(const Row &row) const {
    std::fill_n(output.o.begin() + row.index * prepared.headDimV, prepared.headDimV, std::nan(""));
    if (!output.lse.empty())
      output.lse[size_t(row.index)] = std::nan("");
  }

  /// p = exp(x - m), to be divided by l; of others than softmax p itself, and l = 1.
  struct RowScale {
    Real m, l;
  };

  RowScale softmax(const Row &row, Scratch &scratch) const {
    Real m = hidden;
    bool anyVisible = false;
    for (Real x : scratch.x) {
      anyVisible |= x != hidden; // NaN is visible
      m = x > m ? x : m;
    }
    Real l = 0;
    m = m == hidden ? 0 : m;
    for (size_t k = 0; k < scratch.x.size(); ++k)
      l += scratch.p[k] = scratch.x[k] == hidden ? 0 : std::exp(scratch.x[k] - m);
    output.lse[size_t(row.index)] = anyVisible ? double(m + std::log(l)) : -infinity;
    if (prepared.sinks)
      l += std::exp(Real(prepared.sinks->at(row.h)) - m);
    return {m, l};
  }

  RowScale pointwise(Scratch &scratch) const {
    for (size_t k = 0; k < scratch.x.size(); ++k) {
      const Real x = scratch.x[k];
      scratch.p[k] = x == hidden ? 0 : weightOf(x);
    }
    return {0, 1};
  }

  /// p of a visible key where no other key has a part in it.
  Real weightOf(Real x) const { return prepared.weights == Weights::None ? x : 1 / (1 + std::exp(-x)); }

  /// O from p.
  void weigh(const Row &row, Real l, Scratch &scratch) const {
    const Problem &problem = *prepared.problem;
    std::fill(scratch.o.begin(), scratch.o.end(), Real(0));
    Real keepScale = Real(65536.0 / (65536.0 - prepared.threshold));
    const Real *value = values.data() + row.kvPlane * prepared.keyLength * prepared.headDimV;
    for (int64_t k = 0; k < prepared.keyLength; ++k, value += prepared.headDimV) {
      bool isMaskedOut = scratch.x[size_t(k)] == hidden;
      bool keep = prepared.threshold == 0 || ((problem.wantKeep || !isMaskedOut) && keeps(row, k));
      if (problem.wantKeep)
        output.keep[size_t(row.index * prepared.keyLength + k)] = keep;
      if (isMaskedOut)
        continue;
      Real weight = keep ? scratch.p[size_t(k)] / l : 0;
      if (prepared.threshold != 0)
        weight *= keepScale;
      weight = scratch.weight[size_t(k)] = rounded(weight);
      for (int64_t d = 0; d < prepared.headDimV; ++d)
        scratch.o[size_t(d)] += weight * value[d];
    }
    for (int64_t d = 0; d < prepared.headDimV; ++d)
      output.o[size_t(row.index * prepared.headDimV + d)] = double(rounded(scratch.o[size_t(d)]));
  }

  /// How far p of a key may be off, before the division by l, where x is off by `shift`; of softmax never above 1.
  double changeOf(double x, double m, double p, double shift) const {
    if (prepared.weights != Weights::Softmax)
      return std::max(std::fabs(weightOf(x + shift) - p), std::fabs(weightOf(x - shift) - p));
    if (shift < 1e-3)
      return p * shift;
    return std::max(std::exp(std::min(x - m + shift, 0.0)) - p, p * (1 - std::exp(-shift)));
  }

  /// Fills oError and lseError of Output, by error propagation to first order with independent errors:
  ///
  ///     var(O[d]) = sum_k change_k^2 * (p'_k / p_k * V[k,d] - O[d])^2      s and the score; without O[d] where the
  ///                                                                        keys of a row have no part in each other
  ///               + sum_k (unit * p'_k * V[k,d])^2 + (unit * O[d])^2       P' and O rounded
  ///               + (sum * sum_k p'_k * |V[k,d]|)^2                        sums in float32
  void expectErrors(const Row &row, RowScale scale, Scratch &scratch) const {
    const double m = scale.m, l = scale.l;
    const bool shared = prepared.weights == Weights::Softmax;
    std::fill(scratch.variance.begin(), scratch.variance.end(), 0);
    std::fill(scratch.mass.begin(), scratch.mass.end(), 0);
    const double keepScale = 65536.0 / (65536.0 - prepared.threshold);
    const double *value = values.data() + row.kvPlane * prepared.keyLength * prepared.headDimV;
    double lseShift = 0, spread = 0, visible = 0;
    for (size_t k = 0; k < scratch.x.size(); ++k, value += prepared.headDimV) {
      double x = scratch.x[k], p = scratch.p[k], weight = scratch.weight[k];
      if (x == hidden)
        continue;
      double change = changeOf(x, m, p, scratch.shift[k]) / l;
      lseShift += p == 0 ? 0 : p / l * scratch.shift[k];
      spread += p / l * std::fabs(x);
      ++visible;
      double rounding =
          std::max(accuracy.unit * std::fabs(weight), weight != 0 ? accuracy.smallest * keepScale / l : 0);
      if (change == 0 && rounding == 0)
        continue;
      double factor = weight != 0 ? keepScale : 0, change2 = change * change, rounding2 = rounding * rounding;
      for (size_t d = 0; d < scratch.o.size(); ++d) {
        double distance = factor * value[d] - (shared ? scratch.o[d] : 0);
        scratch.variance[d] += change2 * distance * distance + rounding2 * value[d] * value[d];
        scratch.mass[d] += std::fabs(weight * value[d]);
      }
    }
    double sum = 0;
    int64_t finite = 0;
    for (size_t d = 0; d < scratch.o.size(); ++d) {
      double last = std::max(accuracy.unit * std::fabs(scratch.o[d]), accuracy.smallest);
      double sums = accuracy.sum * scratch.mass[d], variance = scratch.variance[d] + last * last + sums * sums;
      if (std::isfinite(scratch.o[d])) {
        sum += variance;
        ++finite;
      }
    }
    size_t at = size_t(row.index);
    output.oError[at] = finite ? std::sqrt(sum / double(finite)) : 0;
    bool fast = accuracy.function > 0x1p-20 && prepared.score, functions = fast && prepared.score->callsFunctions();
    // Products that start from a bias, of some tens where it matters, are truncated there by tensor cores for each 16
    // of D.
    const double truncated = 0x1p-18 * (fast ? std::max(1.0, double(prepared.headDim) / 64) : 1);
    // l is rescaled at each tile, of 64 keys say, by exp2 of a difference that is rounded where m is.
    output.maskedNonFinite[at] = maskedNonFinite(row, scratch);
    if (output.lse.empty())
      return;
    output.lseError[at] = lseShift + 0x1p-20 * spread + 0x1p-25 * std::fabs(m) * visible / 64 +
                          (visible ? 0x1p-22 * std::fabs(output.lse[at]) : 0) + (functions ? 5e-5 : truncated);
  }

  /// Where NaN or infinities stand at keys that the row does not see.
  uint8_t maskedNonFinite(const Row &row, const Scratch &scratch) const {
    int64_t first = row.kvPlane * prepared.keyLength, last = first + prepared.keysOf(row.b);
    uint8_t found = 0;
    for (auto each = std::lower_bound(nonFiniteKeys.begin(), nonFiniteKeys.end(), std::pair(first, uint8_t(0)));
         each != nonFiniteKeys.end() && each->first < last; ++each)
      if (scratch.x[size_t(each->first - first)] == hidden)
        found |= each->second;
    return found;
  }

  bool keeps(const Row &row, int64_t k) const {
    const Problem &problem = *prepared.problem;
    return dropoutBits(problem.seed, problem.offset, prepared.heads, row.b, row.h, row.q, k) >= prepared.threshold;
  }

  const Prepared &prepared;
  DType dtype;
  Output &output;
  mutable std::mutex mutex; ///< guards output.clampedReads
  Accuracy accuracy;
  Values<Real> queries;                                   ///< [B, H, Sq, D]
  Values<Real> keys;                                      ///< [B, Hkv, D, Sk]
  Values<Real> values;                                    ///< [B, Hkv, Sk, Dv]
  std::vector<double> keyNorms;                           ///< [B, Hkv, Sk]
  std::vector<std::pair<int64_t, uint8_t>> nonFiniteKeys; ///< positions in keyNorms, ascending, and where
};

template <typename Real> Expected<Output> compute(const Problem &problem) {
  Expected<Prepared> prepared = prepare(problem);
  if (!prepared)
    return prepared.error();
  Output output;
  output.batch = prepared->batch;
  output.heads = prepared->heads;
  output.queryLength = prepared->queryLength;
  output.keyLength = prepared->keyLength;
  output.headDimV = prepared->headDimV;
  int64_t rows = prepared->batch * prepared->heads * prepared->queryLength;
  output.o.resize(size_t(rows * prepared->headDimV));
  const size_t lses = problem.variant->hasLse() ? size_t(rows) : 0;
  output.lse.resize(lses);
  if (std::is_same_v<Real, double>) {
    output.oError.resize(size_t(rows));
    output.lseError.resize(lses);
    output.maskedNonFinite.resize(size_t(rows));
  }
  if (problem.wantKeep)
    output.keep.resize(size_t(rows * prepared->keyLength));
  RowLoop<Real> loop(*prepared, output);
  parallelFor(rows, problem.threads, [&](int64_t begin, int64_t end) { loop.rows(begin, end); });
  return output;
}

} // namespace

HostTensor scalarOf(DType dtype, double value) { return HostTensor::fromDoubles(dtype, {}, std::span(&value, 1)); }

ScalarValue scalarValue(const HostTensor &value) {
  switch (value.dtype) {
  case DType::I32:
    return ScalarValue(int32_t(value.intAt(0)));
  case DType::I64:
    return ScalarValue(int64_t(value.intAt(0)));
  case DType::Bool:
    return ScalarValue(value.intAt(0) != 0);
  default:
    return ScalarValue(float(value.at(0)));
  }
}

void addReferenceMemory(MemoryNeed &need, std::span<const int64_t> q, std::span<const int64_t> k,
                        std::span<const int64_t> v, bool wantKeep) {
  // In float64; the float32 copies of the plain computation come when these are gone.
  need.add("the reference's q", 8, q);
  need.add("the reference's k", 8, k);
  need.add("the reference's v", 8, v);
  const std::array<int64_t, 4> o = {q[0], q[1], q[2], v[3]}, keep = {q[0], q[1], q[2], k[2]};
  need.add("the reference's o", 2 * 8, o);
  need.add("the reference's rows", 5 * 8, std::span(o).first(3));
  const std::array<int64_t, 2> scratch = {std::thread::hardware_concurrency(), k[2]};
  need.add("the reference's scores", 4 * 8, scratch);
  if (wantKeep)
    need.add("keep", 1, keep);
}

/// Calls tell(visible) for each of the keys [begin, end) of a row: what the mask, whose interpreter `mask` is, and the
/// pattern show of them.
template <typename Tell>
static void tellVisible(const Prepared &p, std::optional<RowInterpreter> &mask, int64_t b, int64_t h, int64_t q,
                        int64_t begin, int64_t end, Tell &&tell) {
  const uint8_t *blocks = p.blocksOf(b, h, q);
  if (q >= p.queriesOf(b)) {
    for (int64_t key = begin; key < end; ++key)
      tell(false);
    return;
  }
  if (mask)
    mask->startRow(b, h, q + p.problem->qOffset);
  for (int64_t first = begin; first < end; first += RowInterpreter::maxRun) {
    const int64_t keys = std::min(RowInterpreter::maxRun, end - first);
    if (mask)
      mask->run(first, keys, nullptr);
    for (int64_t i = 0; i < keys; ++i)
      tell(p.shows(mask, blocks, b, first, i));
  }
}

Expected<std::optional<int64_t>> countVisible(const Problem &problem, int64_t mostEvaluations) {
  Expected<std::optional<Unpacked>> batch = unpacked(problem);
  if (!batch)
    return batch.error();
  if (*batch) {
    (*batch)->problem.variant = &(*batch)->variant;
    return countVisible((*batch)->problem, mostEvaluations);
  }
  Expected<Prepared> prepared = prepare(problem, /*maskAlone=*/true);
  if (!prepared)
    return prepared.error();
  const Prepared &p = *prepared;
  const int64_t all = p.batch * p.heads * p.queryLength * p.keyLength;
  if ((!p.mask && !p.pattern && !p.keyLengths && !p.queryLengths) || all == 0)
    return std::optional(all);
  auto reads = [&](Coordinate coordinate) {
    return p.mask &&
           std::any_of(p.mask->instructions.begin(), p.mask->instructions.end(), [&](const Instruction &each) {
             return each.op == Op::Coordinate && each.coordinate == coordinate;
           });
  };
  const int64_t batches = p.pattern || p.keyLengths || p.queryLengths || reads(Coordinate::B) ? p.batch : 1,
                heads = p.pattern || reads(Coordinate::H) ? p.heads : 1,
                queries = p.pattern || p.queryLengths || reads(Coordinate::Q) ? p.queryLength : 1;
  const int64_t evaluations = batches * heads * queries * p.keyLength;
  if (evaluations > mostEvaluations)
    return std::optional<int64_t>();
  std::atomic<int64_t> visible = 0;
  parallelFor(batches * heads * queries, problem.threads, [&](int64_t begin, int64_t end) {
    std::optional<RowInterpreter> mask;
    if (p.mask)
      mask.emplace(*p.mask);
    int64_t count = 0;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / queries / heads, h = row / queries % heads, q = row % queries;
      tellVisible(p, mask, b, h, q, 0, p.keyLength, [&](bool sees) { count += sees; });
    }
    visible += count;
  });
  return std::optional<int64_t>(visible * (all / evaluations));
}

Expected<std::vector<uint8_t>> visibleElements(const Problem &problem, const ElementRange &range) {
  Expected<Prepared> prepared = prepare(problem, /*maskAlone=*/true);
  if (!prepared)
    return prepared.error();
  const Prepared &p = *prepared;
  std::vector<uint8_t> visible;
  std::optional<RowInterpreter> mask;
  if (p.mask)
    mask.emplace(*p.mask);
  for (int64_t q = range.firstQuery; q < range.firstQuery + range.queries; ++q)
    tellVisible(p, mask, range.b, range.h, q, range.firstKey, range.firstKey + range.keys,
                [&](bool sees) { visible.push_back(sees); });
  return visible;
}

double expectedSeconds(const std::array<int64_t, 4> &q, const std::array<int64_t, 4> &v, unsigned threads) {
  const double planes = double(q[0]) * double(q[1]), columns = double(q[3] + v[3]);
  const double products = planes * double(q[2]) * double(v[2]) * columns,
               elements = double(v[0]) * double(v[1]) * double(v[2]) * columns;
  return (0.65e-9 * products + 10e-9 * elements) / threads;
}

/// compute() of a batch, or of packed sequences as one.
template <typename Real> static Expected<Output> computed(const Problem &problem) {
  Expected<std::optional<Unpacked>> batch = unpacked(problem);
  if (!batch)
    return batch.error();
  if (!*batch)
    return compute<Real>(problem);
  (*batch)->problem.variant = &(*batch)->variant;
  Expected<Output> output = compute<Real>((*batch)->problem);
  return output ? Expected<Output>(packed(**batch, std::move(*output))) : output;
}

Expected<Output> attention(const Problem &problem) { return computed<double>(problem); }

Expected<Output> plainLowPrecision(const Problem &problem) { return computed<float>(problem); }

} // namespace attune::reference
