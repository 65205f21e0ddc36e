//===- Reference.cpp - Attention in float64, the plain way --------------------===//
#include "tools/reference/Reference.h"

#include "tools/reference/Philox.h"
#include "tools/reference/Program.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <type_traits>

namespace attune::reference {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A checked problem: extents, the programs, and what dropout does.
struct Prepared {
  const Problem *problem = nullptr;
  int64_t batch = 0, heads = 0, kvHeads = 0, queryLength = 0, keyLength = 0, headDim = 0, headDimV = 0;
  double scale = 1;
  uint32_t threshold = 0; ///< T
  std::optional<Program> score, mask;
  const HostTensor *pattern = nullptr;
  int64_t patternRows = 0, patternColumns = 0;

  int64_t kvHead(int64_t h) const { return h / (heads / kvHeads); }

  /// The blocks of a row, one byte each; null without a pattern.
  const uint8_t *blocksOf(int64_t b, int64_t h, int64_t q) const {
    if (!pattern)
      return nullptr;
    size_t rank = pattern->shape.size();
    int64_t columns = pattern->shape[rank - 1], rows = pattern->shape[rank - 2];
    int64_t headExtent = rank > 2 ? pattern->shape[rank - 3] : 1,
            batchExtent = rank > 3 ? pattern->shape[0] : 1;
    int64_t plane = (batchExtent == 1 ? 0 : b) * headExtent + (headExtent == 1 ? 0 : h);
    return pattern->as<uint8_t>() + (plane * rows + q / patternRows) * columns;
  }
};

std::string shapeText(const HostTensor &tensor) {
  std::string text(name(tensor.dtype));
  text += "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

Expected<void> checkShapes(const Problem &problem) {
  const HostTensor &q = problem.q, &k = problem.k, &v = problem.v;
  for (auto [tensor, label] : {std::pair{&q, "q"}, std::pair{&k, "k"}, std::pair{&v, "v"}}) {
    if (tensor->shape.size() != 4)
      return Error{std::string(label) + " is " + shapeText(*tensor) + ", but must have 4 dimensions"};
    if (!isFloat(tensor->dtype) || tensor->dtype != q.dtype)
      return Error{std::string(label) + " is " + shapeText(*tensor) +
                   ", but q, k and v must share one of f32, f16, bf16"};
  }
  std::string texts = "q is " + shapeText(q) + ", k is " + shapeText(k) + ", v is " + shapeText(v) + ", but ";
  if (k.shape[0] != q.shape[0] || v.shape[0] != q.shape[0])
    return Error{texts + "the batch must be the same"};
  if (k.shape[1] != v.shape[1] || k.shape[2] != v.shape[2])
    return Error{texts + "k and v must have the same heads and length"};
  if (k.shape[3] != q.shape[3])
    return Error{texts + "q and k must have the same head dim"};
  if (q.shape[1] != 0 && (k.shape[1] == 0 || q.shape[1] % k.shape[1] != 0))
    return Error{texts + "the heads of q must be a multiple of those of k"};
  return {};
}

Expected<void> preparePattern(Prepared &prepared, const BlockPattern &pattern) {
  auto found = prepared.problem->tensors.find(pattern.tensor.name);
  if (found == prepared.problem->tensors.end())
    return Error{"tensor " + pattern.tensor.name + " is not bound"};
  const HostTensor &tensor = found->second;
  size_t rank = tensor.shape.size();
  auto blocks = [](int64_t length, int64_t size) { return (length + size - 1) / size; };
  if (tensor.dtype != DType::Bool || rank < 2 || rank > 4 || pattern.rows <= 0 || pattern.columns <= 0 ||
      tensor.shape[rank - 2] < blocks(prepared.queryLength, pattern.rows) ||
      tensor.shape[rank - 1] < blocks(prepared.keyLength, pattern.columns) ||
      (rank > 2 && tensor.shape[rank - 3] != 1 && tensor.shape[rank - 3] != prepared.heads) ||
      (rank > 3 && tensor.shape[0] != 1 && tensor.shape[0] != prepared.batch))
    return Error{"block pattern " + pattern.tensor.name + " is " + shapeText(tensor) +
                 ", but must be bool of [H or 1, ceil(Sq / " + std::to_string(pattern.rows) +
                 "), ceil(Sk / " + std::to_string(pattern.columns) + ")]"};
  prepared.pattern = &tensor;
  prepared.patternRows = pattern.rows;
  prepared.patternColumns = pattern.columns;
  return {};
}

Expected<Prepared> prepare(const Problem &problem) {
  if (!problem.variant)
    return Error{"the problem has no variant"};
  const Variant &variant = *problem.variant;
  if (variant.error())
    return *variant.error();
  if (Expected<void> checked = checkShapes(problem); !checked)
    return checked.error();
  Prepared prepared;
  prepared.problem = &problem;
  prepared.batch = problem.q.shape[0];
  prepared.heads = problem.q.shape[1];
  prepared.queryLength = problem.q.shape[2];
  prepared.headDim = problem.q.shape[3];
  prepared.kvHeads = problem.k.shape[1];
  prepared.keyLength = problem.k.shape[2];
  prepared.headDimV = problem.v.shape[3];
  prepared.scale = problem.scale     ? *problem.scale
                   : variant.scale() ? double(*variant.scale())
                                     : 1 / std::sqrt(double(prepared.headDim));
  double probability = problem.dropout.value_or(variant.dropoutProbability());
  if (!(probability >= 0 && probability < 1))
    return Error{"dropout probability " + std::to_string(probability) + " is not in [0, 1)"};
  if (probability > 0 && !variant.hasDropout())
    return Error{"a dropout probability is given, but the variant has no dropout"};
  prepared.threshold = dropThreshold(probability);
  if (problem.qOffset != 0 && !variant.hasQOffset())
    return Error{"a q offset is given, but the variant has none; call .qOffset()"};

  Bindings bindings{&problem.tensors, &problem.scalars,     prepared.batch,
                    prepared.heads,   prepared.queryLength, prepared.keyLength};
  if (variant.scoreExpr()) {
    Expected<Program> program = Program::compile(*variant.scoreExpr(), bindings);
    if (!program)
      return program.error();
    prepared.score = std::move(*program);
  }
  if (variant.maskExpr()) {
    Expected<Program> program = Program::compile(*variant.maskExpr(), bindings);
    if (!program)
      return program.error();
    prepared.mask = std::move(*program);
  }
  if (variant.blockPattern())
    if (Expected<void> checked = preparePattern(prepared, *variant.blockPattern()); !checked)
      return checked.error();
  return prepared;
}

template <typename Real> std::vector<Real> valuesOf(const HostTensor &tensor) {
  if constexpr (std::is_same_v<Real, double>)
    return tensor.doubles();
  else
    return tensor.floats();
}

/// [planes, rows, columns] to [planes, columns, rows].
template <typename Real>
std::vector<Real> transposed(const std::vector<Real> &values, int64_t planes, int64_t rows, int64_t columns) {
  std::vector<Real> result(values.size());
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        result[size_t((plane * columns + c) * rows + r)] = values[size_t((plane * rows + r) * columns + c)];
  return result;
}

/// Calls work(worker, begin, end) until [0, count) is covered.
void parallelFor(int64_t count, unsigned threads, const std::function<void(int64_t, int64_t)> &work) {
  constexpr int64_t grain = 8;
  std::atomic<int64_t> next = 0;
  auto loop = [&] {
    for (int64_t begin; (begin = next.fetch_add(grain)) < count;)
      work(begin, std::min(begin + grain, count));
  };
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  threads = unsigned(std::min<int64_t>(threads, (count + grain - 1) / grain));
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back(loop);
  loop();
  for (std::thread &other : others)
    other.join();
}

/// The formula with the sums over d and k and the softmax in Real, s and the score in float32. `dtype` is
/// what S, P' and O are rounded to in the plain computation, f32 (that is, not at all but s) otherwise.
template <typename Real> class RowLoop {
public:
  RowLoop(const Prepared &prepared, DType dtype, Output &output)
      : prepared(prepared), dtype(dtype), output(output), queries(valuesOf<Real>(prepared.problem->q)),
        keys(transposed(valuesOf<Real>(prepared.problem->k), prepared.batch * prepared.kvHeads,
                        prepared.keyLength, prepared.headDim)),
        values(valuesOf<Real>(prepared.problem->v)) {}

  void rows(int64_t begin, int64_t end) const {
    Scratch scratch(prepared);
    for (int64_t row = begin; row < end; ++row)
      attend(row, scratch);
    std::lock_guard lock(mutex);
    for (const auto &[name, count] : scratch.clampedReads)
      output.clampedReads[name] += count;
  }

private:
  static constexpr int64_t maxRun = RowInterpreter::maxRun;
  static constexpr Real hidden = -std::numeric_limits<Real>::infinity();

  struct Scratch {
    explicit Scratch(const Prepared &prepared) : x(size_t(prepared.keyLength)), o(size_t(prepared.headDimV)) {
      if (prepared.score)
        score.emplace(*prepared.score);
      if (prepared.mask)
        mask.emplace(*prepared.mask);
    }
    std::vector<Real> x, o;
    std::optional<RowInterpreter> score, mask;
    std::map<std::string, int64_t> clampedReads = {};
  };

  Real rounded(Real value) const {
    if constexpr (std::is_same_v<Real, float>)
      return roundTo(dtype, value);
    else
      return value;
  }

  /// x of keys [begin, begin + count) of a row.
  void logits(int64_t begin, int64_t count, const Real *query, const Real *keyColumns, const uint8_t *blocks,
              Scratch &scratch) const {
    std::array<bool, size_t(maxRun)> visible;
    bool any = false;
    if (scratch.mask)
      scratch.mask->run(begin, count, nullptr);
    for (int64_t i = 0; i < count; ++i) {
      visible[size_t(i)] = (!scratch.mask || scratch.mask->ints()[i]) &&
                           (!blocks || blocks[(begin + i) / prepared.patternColumns]);
      any |= visible[size_t(i)];
    }
    if (scratch.mask && scratch.mask->anyClamped()) {
      std::vector<uint8_t> shown(size_t(count), 1);
      for (int64_t i = 0; blocks && i < count; ++i)
        shown[size_t(i)] = blocks[(begin + i) / prepared.patternColumns];
      scratch.mask->countClamped(shown, scratch.clampedReads);
    }
    Real *x = scratch.x.data() + begin;
    if (!any) {
      std::fill_n(x, count, hidden);
      return;
    }
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
  }

  void attend(int64_t row, Scratch &scratch) const {
    const Problem &problem = *prepared.problem;
    int64_t q = row % prepared.queryLength, plane = row / prepared.queryLength;
    int64_t b = plane / prepared.heads, h = plane % prepared.heads;
    int64_t kvPlane = b * prepared.kvHeads + prepared.kvHead(h);
    int64_t length = prepared.keyLength;
    if (scratch.score)
      scratch.score->startRow(b, h, q + problem.qOffset);
    if (scratch.mask)
      scratch.mask->startRow(b, h, q + problem.qOffset);
    const uint8_t *blocks = prepared.blocksOf(b, h, q);
    for (int64_t begin = 0; begin < length; begin += maxRun)
      logits(begin, std::min(maxRun, length - begin), queries.data() + row * prepared.headDim,
             keys.data() + kvPlane * prepared.headDim * length, blocks, scratch);

    Real m = hidden;
    bool anyVisible = false;
    for (Real x : scratch.x) {
      anyVisible |= x != hidden; // NaN is visible
      m = x > m ? x : m;
    }
    Real l = 0;
    double spread = 0;
    m = m == hidden ? 0 : m;
    std::vector<Real> &p = scratch.x;
    for (Real &x : p) {
      if (x == hidden)
        continue;
      Real e = std::exp(x - m);
      l += e;
      spread += double(e) * std::fabs(double(x));
      x = e;
    }
    std::fill(scratch.o.begin(), scratch.o.end(), Real(0));
    Real keepScale = Real(65536.0 / (65536.0 - prepared.threshold));
    const Real *value = values.data() + kvPlane * length * prepared.headDimV;
    for (int64_t k = 0; k < length; ++k, value += prepared.headDimV) {
      bool keep = prepared.threshold == 0 || (needsKeep(p[size_t(k)]) && keeps(b, h, q, k));
      if (problem.wantKeep)
        output.keep[size_t(row * length + k)] = keep;
      if (p[size_t(k)] == hidden)
        continue;
      Real weight = keep ? p[size_t(k)] / l : 0;
      if (prepared.threshold != 0)
        weight *= keepScale;
      weight = rounded(weight);
      for (int64_t d = 0; d < prepared.headDimV; ++d)
        scratch.o[size_t(d)] += weight * value[d];
    }
    for (int64_t d = 0; d < prepared.headDimV; ++d)
      output.o[size_t(row * prepared.headDimV + d)] = double(rounded(scratch.o[size_t(d)]));
    output.lse[size_t(row)] = anyVisible ? double(m + std::log(l)) : -infinity;
    output.spread[size_t(row)] = anyVisible ? spread / double(l) : 0;
  }

  /// Whether anyone asks for keep at a key with this p.
  bool needsKeep(Real p) const { return prepared.problem->wantKeep || p != hidden; }
  bool keeps(int64_t b, int64_t h, int64_t q, int64_t k) const {
    const Problem &problem = *prepared.problem;
    return dropoutBits(problem.seed, problem.offset, prepared.heads, b, h, q, k) >= prepared.threshold;
  }

  const Prepared &prepared;
  DType dtype;
  Output &output;
  mutable std::mutex mutex; ///< guards output.clampedReads
  std::vector<Real> queries; ///< [B, H, Sq, D]
  std::vector<Real> keys;    ///< [B, Hkv, D, Sk]
  std::vector<Real> values;  ///< [B, Hkv, Sk, Dv]
};

template <typename Real> Expected<Output> compute(const Problem &problem, DType dtype) {
  Expected<Prepared> prepared = prepare(problem);
  if (!prepared)
    return prepared.error();
  Output output{prepared->batch,
                prepared->heads,
                prepared->queryLength,
                prepared->keyLength,
                prepared->headDimV,
                {},
                {},
                {},
                {}};
  int64_t rows = prepared->batch * prepared->heads * prepared->queryLength;
  output.o.resize(size_t(rows * prepared->headDimV));
  output.lse.resize(size_t(rows));
  output.spread.resize(size_t(rows));
  if (problem.wantKeep)
    output.keep.resize(size_t(rows * prepared->keyLength));
  RowLoop<Real> loop(*prepared, dtype, output);
  parallelFor(rows, problem.threads, [&](int64_t begin, int64_t end) { loop.rows(begin, end); });
  return output;
}

} // namespace

HostTensor scalarOf(DType dtype, double value) {
  return HostTensor::fromDoubles(dtype, {}, std::span(&value, 1));
}

Expected<Output> attention(const Problem &problem) { return compute<double>(problem, DType::F32); }

Expected<Output> plainLowPrecision(const Problem &problem) {
  return compute<float>(problem, problem.q.dtype);
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

namespace {

/// The largest error over the elements that are finite on both sides.
double maxFiniteError(std::span<const double> expected, std::span<const double> actual) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected[i]) && std::isfinite(actual[i]))
      largest = std::max(largest, std::fabs(actual[i] - expected[i]));
  return largest;
}

bool sameSpecial(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

/// `limitOf(i)` is the limit of element i. Where the reference is not finite, a special value that the plain
/// computation has there serves as well.
template <typename Limit>
Comparison compare(std::string name, const HostTensor &actual, std::span<const double> exact,
                   std::span<const double> plain, std::vector<int64_t> shape, Limit limitOf) {
  Comparison result;
  result.name = std::move(name);
  result.plainError = maxFiniteError(exact, plain);
  if (actual.shape != shape) {
    result.pass = false;
    result.badCount = int64_t(exact.size());
    result.name += " has the wrong shape";
    return result;
  }
  double squares = 0, worstRatio = -1;
  int64_t finite = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    double value = actual.at(int64_t(i));
    bool good;
    if (std::isfinite(exact[i]) && std::isfinite(value)) {
      double error = std::fabs(value - exact[i]), limit = limitOf(i);
      good = error <= limit;
      result.maxError = std::max(result.maxError, error);
      squares += error * error;
      ++finite;
      if (error / limit > worstRatio) {
        worstRatio = error / limit;
        result.limit = limit;
      }
    } else if (std::isfinite(exact[i])) {
      good = false;
      result.maxError = infinity;
    } else if (exact[i] == -infinity && result.name == "lse") {
      good = value == exact[i];
    } else {
      good = sameSpecial(value, exact[i]) || (!std::isfinite(value) && sameSpecial(value, plain[i]));
    }
    if (good)
      continue;
    result.pass = false;
    if (result.badCount++ == 0) {
      result.badExpected = exact[i];
      result.badActual = value;
      int64_t rest = int64_t(i);
      result.badIndex.resize(shape.size());
      for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
        result.badIndex[d] = rest % shape[d];
    }
  }
  result.rmsError = finite ? std::sqrt(squares / double(finite)) : 0;
  return result;
}

} // namespace

Comparison compareO(const HostTensor &o, const Output &exact, const Output &plain, DType inputs) {
  double limit = 2 * maxFiniteError(exact.o, plain.o) + (inputs == DType::F32 ? 1e-5 : 1e-3);
  Comparison result =
      compare("o", o, exact.o, plain.o, {exact.batch, exact.heads, exact.queryLength, exact.headDimV},
              [=](size_t) { return limit; });
  result.limit = limit;
  return result;
}

Comparison compareLse(const HostTensor &lse, const Output &exact, const Output &plain, DType inputs,
                      bool precise) {
  double relative = 1e-4, constant = 1e-4;
  if (inputs == DType::F32)
    constant += 2 * maxFiniteError(exact.lse, plain.lse);
  else if (!precise)
    relative = 1.25 * (inputs == DType::BF16 ? 0x1p-9 : 0x1p-12);
  return compare("lse", lse, exact.lse, plain.lse, {exact.batch, exact.heads, exact.queryLength},
                 [&](size_t i) { return constant + relative * exact.spread[i]; });
}

std::string Comparison::describe() const {
  char line[256];
  std::snprintf(line, sizeof line, "%s: max error %.3g (limit %.3g, plain %.3g), rms %.3g", name.c_str(),
                maxError, limit, plainError, rmsError);
  std::string text = line;
  if (pass)
    return text;
  text += "; " + std::to_string(badCount) + " bad";
  if (badIndex.empty())
    return text;
  text += ", first at [";
  for (size_t i = 0; i < badIndex.size(); ++i)
    text += (i ? ", " : "") + std::to_string(badIndex[i]);
  std::snprintf(line, sizeof line, "]: expected %.9g, got %.9g", badExpected, badActual);
  return text + line;
}

} // namespace attune::reference
