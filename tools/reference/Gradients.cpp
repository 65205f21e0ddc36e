#include "tools/reference/Gradients.h"

#include "tools/reference/ParallelFor.h"
#include "tools/reference/Philox.h"
#include "tools/reference/Prepared.h"
#include "tools/reference/ProgramGradient.h"
#include "tools/reference/Sequences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

namespace attune::reference {

namespace {

constexpr double leastFloat = 0x1p-126; // below it, float32 may be 0
constexpr int64_t maxRun = RowInterpreter::maxRun;

/// A matrix of rows beside each other.
struct Rows {
  std::vector<double> values;
  int64_t columns = 0;

  explicit Rows(const HostTensor &tensor) : values(tensor.doubles()), columns(tensor.shape.back()) {}
  const double *operator[](int64_t row) const { return values.data() + row * columns; }
};

double dot(const double *a, const double *b, int64_t count) { return std::inner_product(a, a + count, b, 0.0); }

/// A gradient that grows, and the variances of its rows.
struct Sum {
  std::vector<double> values, variance, mass;
  int64_t columns = 0;

  Sum() = default;
  Sum(int64_t rows, int64_t columns)
      : values(size_t(rows * columns)), variance(size_t(rows)), mass(size_t(rows)), columns(columns) {}
  /// Adds factor * x, where the factor errs by `error`.
  void add(int64_t row, double factor, double error, const double *x) {
    double squares = 0;
    if (std::isnan(factor) || std::isnan(error))
      error = infinity;
    for (int64_t i = 0; i < columns; ++i) {
      values[size_t(row * columns + i)] += factor * x[i];
      squares += x[i] * x[i];
    }
    if (squares != 0)
      variance[size_t(row)] += error * error * squares;
    mass[size_t(row)] += std::fabs(factor) * std::sqrt(squares);
  }
  GradientOf finished(std::vector<int64_t> shape, double scale, const Accuracy &accuracy) && {
    for (double &value : values)
      value *= scale;
    std::vector<double> errors(variance.size());
    for (size_t row = 0; row < errors.size(); ++row) {
      const double *first = values.data() + int64_t(row) * columns;
      const double last = accuracy.unit * accuracy.unit * dot(first, first, columns) +
                          accuracy.smallest * accuracy.smallest * double(columns);
      const double sums = accuracy.sum * scale * mass[row];
      if (!std::isfinite(variance[row])) {
        errors[row] = infinity;
        continue;
      }
      errors[row] =
          std::sqrt((variance[row] * scale * scale + last + sums * sums) / double(std::max<int64_t>(columns, 1)));
    }
    return {std::move(shape), std::move(values), std::move(errors)};
  }
};

/// The gradients of captured tensors, with their variances element by element.
using TensorSums = std::map<std::string, Sum>;

class BackwardLoop {
public:
  BackwardLoop(const BackwardProblem &problem, const Prepared &prepared, const Output &forward)
      : problem(problem), prepared(prepared), forward(forward),
        accuracy(accuracyOf(problem.forward.q.dtype, problem.forward.variant->isPrecise())), q(problem.forward.q),
        k(problem.forward.k), v(problem.forward.v), dO(problem.dO),
        dq(prepared.batch * prepared.heads * prepared.queryLength, prepared.headDim),
        dk(prepared.batch * prepared.kvHeads * prepared.keyLength, prepared.headDim),
        dv(prepared.batch * prepared.kvHeads * prepared.keyLength, prepared.headDimV), tensors(emptySums()) {}

  /// All rows of the query heads that share heads [begin, end) of K and V, of all batches.
  void planes(int64_t begin, int64_t end) {
    Scratch scratch(*this);
    const int64_t group = prepared.kvHeads ? prepared.heads / prepared.kvHeads : 0;
    for (int64_t plane = begin; plane < end; ++plane)
      for (int64_t i = 0; i < group; ++i)
        for (int64_t row = 0; row < prepared.queriesOf(plane / prepared.kvHeads); ++row)
          attend(plane / prepared.kvHeads, plane % prepared.kvHeads * group + i, row, plane, scratch);
    std::lock_guard lock(mutex);
    for (auto &[name, sum] : tensors)
      for (size_t i = 0; i < sum.values.size(); ++i) {
        sum.values[i] += scratch.tensors[name].values[i];
        sum.variance[i] += scratch.tensors[name].variance[i];
        sum.mass[i] += scratch.tensors[name].mass[i];
      }
  }

  GradientValues finished() && {
    const double scale = prepared.scale;
    GradientValues result;
    result.q = std::move(dq).finished(problem.forward.q.shape, scale, accuracy);
    result.k = std::move(dk).finished(problem.forward.k.shape, scale, accuracy);
    result.v = std::move(dv).finished(problem.forward.v.shape, 1, accuracy);
    for (auto &[name, sum] : tensors) {
      const HostTensor &tensor = problem.forward.tensors.at(name);
      const Accuracy ofTensor = accuracyOf(tensor.dtype, /*precise=*/true);
      Accuracy own = accuracy;
      own.unit = ofTensor.unit;
      own.smallest = ofTensor.smallest;
      GradientOf &gradient = result.tensors[name] = std::move(sum).finished(tensor.shape, 1, own);
      // Each element is a row, whose error does not average: 3 times it has to be 5 standard deviations.
      for (double &error : gradient.rowError)
        error = 5.0 / 3 * std::hypot(error, leastFloat);
    }
    return result;
  }

private:
  /// How the score changes with an element of a captured tensor.
  struct LoadSlope {
    const Instruction *load;
    int64_t element;
    double slope;
  };

  struct Scratch {
    explicit Scratch(const BackwardLoop &loop) : tensors(loop.emptySums()) {
      const Prepared &prepared = loop.prepared;
      ofSum.resize(size_t(prepared.headDim));
      if (prepared.mask)
        mask.emplace(*prepared.mask);
      if (!prepared.score)
        return;
      score.emplace(*prepared.score);
      shifted.emplace(*prepared.score, float(loop.accuracy.function));
      gradient.emplace(*prepared.score, ProgramGradient::Slopes::Exact);
      shiftedGradient.emplace(*prepared.score, ProgramGradient::Slopes::OfResults);
    }
    std::optional<RowInterpreter> mask, score, shifted;
    std::optional<ProgramGradient> gradient, shiftedGradient;
    std::vector<double> ofSum; ///< of a row: how dQ changes with rowsum(dO * O)
    TensorSums tensors;
    std::map<std::pair<std::string, int64_t>, double> tensorsOfSum; ///< the same of elements of captured tensors
    std::vector<LoadSlope> loads, shiftedLoads;                     ///< of the key
  };

  struct Row {
    int64_t index, b, h, q, kvPlane;
    double rowSum, rowSumError; ///< rowsum(dO * O)
    double lse, logDivisor;     ///< L = LSE, with the sink in it
    double dLse;
  };

  TensorSums emptySums() const {
    TensorSums sums;
    for (const std::string &name : problem.tensors)
      sums.emplace(name, Sum(problem.forward.tensors.at(name).size(), 1));
    return sums;
  }

  bool isWanted(const std::string &name) const {
    return std::ranges::find(problem.tensors, name) != problem.tensors.end();
  }

  /// By how much rowsum(dO * O) of the given O differs from that of the reference's.
  double rowSumOffset(int64_t index) const {
    double offset = 0;
    for (int64_t d = 0; problem.o && d < prepared.headDimV; ++d) {
      const int64_t at = index * prepared.headDimV + d;
      offset += dO[index][d] * (problem.o->at(at) - forward.o[size_t(at)]);
    }
    return offset;
  }

  void attend(int64_t b, int64_t h, int64_t query, int64_t kvPlane, Scratch &scratch) {
    const int64_t index = (b * prepared.heads + h) * prepared.queryLength + query, columns = prepared.headDimV;
    Row row{index, b, h, query, kvPlane, 0, 0, -infinity, -infinity, 0};
    for (int64_t d = 0; d < columns; ++d) {
      const double product = dO[index][d] * forward.o[size_t(index * columns + d)];
      row.rowSum += product;
      const double error = std::hypot(accuracy.unit * product, accuracy.smallest * dO[index][d]);
      row.rowSumError += error * error;
    }
    // It is one for all keys, so that their errors do not average: 3 times it has to be 5 standard deviations.
    row.rowSumError = 5.0 / 3 * std::sqrt(row.rowSumError);
    if (const double known = rowSumOffset(index); std::isfinite(known))
      row.rowSumError = std::hypot(row.rowSumError, known);
    if (prepared.weights == Weights::Softmax) {
      row.lse = row.logDivisor = forward.lse[size_t(index)];
      if (row.lse == -infinity)
        return;
      if (prepared.sinks)
        addSink(row, scratch);
      row.dLse = problem.dLse ? problem.dLse->at(index) : 0;
    }
    for (std::optional<RowInterpreter> *each : {&scratch.mask, &scratch.score, &scratch.shifted})
      if (*each)
        (*each)->startRow(b, h, query + problem.forward.qOffset);
    std::fill(scratch.ofSum.begin(), scratch.ofSum.end(), 0);
    scratch.tensorsOfSum.clear();
    for (int64_t begin = 0; begin < prepared.keyLength; begin += maxRun)
      keys(row, begin, std::min(maxRun, prepared.keyLength - begin), scratch);
    dq.variance[size_t(index)] +=
        row.rowSumError * row.rowSumError * dot(scratch.ofSum.data(), scratch.ofSum.data(), prepared.headDim);
    for (const auto &[element, ofSum] : scratch.tensorsOfSum)
      scratch.tensors[element.first].variance[size_t(element.second)] +=
          row.rowSumError * row.rowSumError * ofSum * ofSum;
  }

  /// L, and the gradient of the sink.
  void addSink(Row &row, Scratch &scratch) {
    const double sink = prepared.sinks->at(row.h), most = std::max(sink, row.lse);
    row.logDivisor = most + std::log(std::exp(row.lse - most) + std::exp(sink - most));
    for (const TensorDecl &tensor : problem.forward.variant->normaliser().tensors)
      if (isWanted(tensor.name)) {
        const double weight = std::exp(sink - row.logDivisor), one = 1,
                     off = 0x1p-23 * (std::fabs(row.logDivisor) + std::fabs(sink)),
                     ofWeight = off <= 0.5 ? weight * std::expm1(off) + leastFloat : infinity;
        scratch.tensors[tensor.name].add(row.h, -weight * row.rowSum,
                                         std::hypot(weight * row.rowSumError, ofWeight * row.rowSum), &one);
      }
  }

  void keys(const Row &row, int64_t begin, int64_t count, Scratch &scratch) {
    std::array<float, size_t(maxRun)> s;
    std::array<double, size_t(maxRun)> shift;
    const uint8_t *blocks = prepared.blocksOf(row.b, row.h, row.q);
    if (scratch.mask)
      scratch.mask->run(begin, count, nullptr);
    for (int64_t i = 0; i < count; ++i) {
      const double *key = k[row.kvPlane * prepared.keyLength + begin + i], *query = q[row.index];
      s[size_t(i)] = float(prepared.scale * dot(query, key, prepared.headDim));
      shift[size_t(i)] = accuracy.score * std::fabs(prepared.scale) *
                         std::sqrt(dot(query, query, prepared.headDim) * dot(key, key, prepared.headDim));
    }
    std::array<float, size_t(maxRun)> moved = s;
    if (scratch.score) {
      for (int64_t i = 0; i < count; ++i)
        moved[size_t(i)] += float(uint32_t(begin + i) * 0x9E3779B9u >> 31 ? shift[size_t(i)] : -shift[size_t(i)]);
      scratch.score->run(begin, count, s.data());
      scratch.shifted->run(begin, count, moved.data());
    }
    for (int64_t i = 0; i < count; ++i)
      if (prepared.shows(scratch.mask, blocks, row.b, begin, i)) {
        double x = s[size_t(i)], off = shift[size_t(i)];
        if (scratch.score) {
          x = scratch.score->floats()[i];
          off = std::fabs(double(scratch.shifted->floats()[i]) - x);
        }
        if (x != -infinity)
          visit(row, begin + i, i, x, std::isfinite(off) ? off : 0, scratch);
      }
  }

  /// A weight, its slope by x, and the gradient that its row gives to it.
  struct Weight {
    double p, slope, error;
  };
  Weight weightOf(const Row &row, double x, double shift) const {
    if (prepared.weights == Weights::None)
      return {x, 1, shift + leastFloat};
    if (prepared.weights == Weights::Sigmoid) {
      const double p = 1 / (1 + std::exp(-x)), slope = p / (1 + std::exp(x));
      return {p, slope, slope * shift + p * accuracy.function + leastFloat};
    }
    // L is a float32, and the exponent a difference. Scores so large that a rounding changes the weight by much leave
    // nothing to compare with.
    const double exponent = x - row.logDivisor, off = shift + 0x1p-23 * (std::fabs(row.logDivisor) + std::fabs(x)),
                 p = std::exp(exponent);
    if (!(off <= 0.5))
      return {p, p, exponent + off <= -80 ? leastFloat : infinity};
    return {p, p, p * std::expm1(off) + leastFloat};
  }

  /// One visible key.
  void visit(const Row &row, int64_t key, int64_t inRun, double x, double shift, Scratch &scratch) {
    const bool isSoftmax = prepared.weights == Weights::Softmax;
    const int64_t at = row.kvPlane * prepared.keyLength + key, columns = prepared.headDimV;
    const Weight weight = weightOf(row, x, shift);
    const bool keeps =
        prepared.threshold == 0 || dropoutBits(problem.forward.seed, problem.forward.offset, prepared.heads, row.b,
                                               row.h, row.q, key) >= prepared.threshold;
    const double keepScale = keeps ? 65536.0 / (65536.0 - prepared.threshold) : 0;
    const double *value = v[at], *gradient = dO[row.index];
    const double dp = keepScale * dot(gradient, value, columns);
    double mass = 0;
    for (int64_t d = 0; d < columns; ++d)
      mass += std::fabs(gradient[d] * value[d]);
    const double used = weight.p * keepScale;
    dv.add(at, used,
           keeps ? std::hypot(std::hypot(accuracy.unit * used, accuracy.smallest), keepScale * weight.error) : 0,
           gradient);

    double dx = weight.slope * dp;
    if (isSoftmax)
      dx = weight.p * (dp - row.rowSum) + std::exp(x - row.lse) * row.dLse;
    const double fromWeight = isSoftmax ? std::fabs(dp - row.rowSum) + std::fabs(row.dLse) : std::fabs(dp);
    const double ofWeight = prepared.weights == Weights::None ? 0
                            : std::isinf(weight.error)        ? infinity
                                                              : fromWeight * weight.error,
                 error = std::hypot(ofWeight, weight.slope * 0x1p-21 * keepScale * mass);
    double ds = dx, dsError = error, slope = 1;
    if (scratch.score) {
      std::tie(ds, dsError, slope) = scoreGradient(dx, error, inRun, scratch);
      addTensors(dx, error, isSoftmax ? weight.p : 0, scratch);
    }
    dsError = std::hypot(dsError, std::hypot(accuracy.unit * ds, accuracy.smallest));
    // That of the row's sum is one for all keys: it does not average.
    const double ofSum = isSoftmax && slope != 0 && std::isfinite(slope) ? weight.p * slope : 0;
    for (int64_t d = 0; d < prepared.headDim; ++d)
      scratch.ofSum[size_t(d)] += ofSum * k[at][d];
    dq.add(row.index, ds, dsError, k[at]);
    dk.add(at, ds, std::hypot(dsError, ofSum * row.rowSumError), q[row.index]);
  }

  /// dS, its error, and the slope. Leaves the slopes of loads.
  std::tuple<double, double, double> scoreGradient(double dx, double error, int64_t inRun, Scratch &scratch) {
    auto collect = [&](std::vector<LoadSlope> &loads) {
      loads.clear();
      return [this, &loads](const Instruction &load, int64_t element, double slope) {
        if (isWanted(load.node->name))
          loads.push_back({&load, element, slope});
      };
    };
    const double slope = scratch.gradient->run(*scratch.score, inRun, 1, collect(scratch.loads));
    const double off = scratch.shiftedGradient->run(*scratch.shifted, inRun, 1, collect(scratch.shiftedLoads)) - slope;
    // 0 whatever the slope is.
    if (dx == 0)
      return {0, std::isfinite(slope) && slope != 0 ? slope * error : 0, slope};
    return {slope * dx, std::hypot(slope == 0 ? 0 : slope * error, std::isfinite(off) ? off * dx : 0), slope};
  }

  /// What a key adds to the gradients of captured tensors; `ofSum` is how dX changes with rowsum(dO * O).
  void addTensors(double dx, double error, double ofSum, Scratch &scratch) {
    const double one = 1;
    for (const LoadSlope &at : scratch.loads) {
      const auto moved = std::ranges::find_if(scratch.shiftedLoads, [&](const LoadSlope &other) {
        return other.load == at.load && other.element == at.element;
      });
      const double off = moved == scratch.shiftedLoads.end() ? 0 : moved->slope - at.slope;
      const double ofSlope = at.slope == 0 || !std::isfinite(at.slope) ? 0 : at.slope * error;
      scratch.tensors[at.load->node->name].add(at.element, dx == 0 ? 0 : dx * at.slope,
                                               std::hypot(ofSlope, std::isfinite(off) ? off * dx : 0), &one);
      if (ofSum != 0 && std::isfinite(at.slope))
        scratch.tensorsOfSum[{at.load->node->name, at.element}] += ofSum * at.slope;
    }
  }

  const BackwardProblem &problem;
  const Prepared &prepared;
  const Output &forward;
  Accuracy accuracy;
  Rows q, k, v, dO;
  Sum dq, dk, dv;
  std::mutex mutex; ///< guards tensors
  TensorSums tensors;
};

Expected<void> checkBackwardShapes(const BackwardProblem &problem) {
  const HostTensor &q = problem.forward.q, &v = problem.forward.v;
  const std::vector<int64_t> o = {q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
  if (problem.dO.shape != o)
    return Error{"dO must have the shape of O"};
  if (problem.o && problem.o->shape != o)
    return Error{"the given O must have the shape of O"};
  if (problem.dLse && problem.dLse->shape != std::vector(o.begin(), o.end() - 1))
    return Error{"dLSE must have the shape of LSE"};
  for (const std::string &name : problem.tensors)
    if (!problem.forward.tensors.contains(name))
      return Error{"tensor " + name + " is not bound"};
  return {};
}

} // namespace

/// The gradients of packed sequences, by those of the batch that they are.
static Expected<GradientValues> gradientsOfPacked(const BackwardProblem &problem, Unpacked &batch) {
  BackwardProblem ofBatch{
      .forward = std::move(batch.problem), .dO = batch.queries.unpack(problem.dO), .tensors = problem.tensors};
  ofBatch.forward.variant = &batch.variant;
  if (problem.o)
    ofBatch.o = batch.queries.unpack(*problem.o);
  if (problem.dLse)
    ofBatch.dLse = batch.queries.unpack(*problem.dLse);
  Expected<GradientValues> values = gradients(ofBatch);
  if (!values)
    return values;
  GradientValues result;
  result.q = packed(batch.queries, std::move(values->q));
  auto ofKeys = [&](GradientOf &of) { return batch.keys ? packed(*batch.keys, std::move(of)) : std::move(of); };
  result.k = ofKeys(values->k);
  result.v = ofKeys(values->v);
  result.tensors = std::move(values->tensors);
  result.forward = packed(batch, std::move(values->forward));
  return result;
}

Expected<GradientValues> gradients(const BackwardProblem &problem) {
  Expected<std::optional<Unpacked>> batch = unpacked(problem.forward);
  if (!batch)
    return batch.error();
  if (*batch)
    return gradientsOfPacked(problem, **batch);
  Expected<Output> forward = attention(problem.forward);
  if (!forward)
    return forward.error();
  if (Expected<void> good = checkBackwardShapes(problem); !good)
    return good.error();
  Expected<Prepared> prepared = prepare(problem.forward);
  if (!prepared)
    return prepared.error();
  BackwardLoop loop(problem, *prepared, *forward);
  parallelFor(prepared->batch * prepared->kvHeads, problem.forward.threads,
              [&](int64_t begin, int64_t end) { loop.planes(begin, end); });
  GradientValues result = std::move(loop).finished();
  result.forward = std::move(*forward);
  return result;
}

Comparison compareGradient(std::string name, const HostTensor &actual, const GradientOf &exact) {
  Comparison result;
  result.name = std::move(name);
  if (actual.shape != exact.shape) {
    result.pass = false;
    result.worstError = infinity;
    result.worstValue = "has another shape than the reference";
    return result;
  }
  result.rows = int64_t(exact.rowError.size());
  const int64_t columns = result.rows ? int64_t(exact.values.size()) / result.rows : 0;
  double squares = 0, allowed = 0, worst = -1;
  for (int64_t row = 0; row < result.rows; ++row) {
    const double expected = exact.rowError[size_t(row)], limit = 3 * expected;
    if (std::isinf(expected)) {
      ++result.uncheckedRows;
      continue;
    }
    double error = 0;
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double right = exact.values[size_t(i)], value = actual.at(i), difference = std::fabs(value - right);
      // What is not finite in the formula may be so in another way.
      if (!std::isfinite(right) && !std::isfinite(value))
        continue;
      error += difference * difference;
      if (std::isfinite(difference))
        result.maxError = std::max(result.maxError, difference);
    }
    squares += error;
    allowed += expected * expected * double(columns);
    error = std::sqrt(error / double(std::max<int64_t>(columns, 1)));
    result.badRows += !(error <= limit);
    const double ratio = std::isnan(error) ? infinity : limit > 0 ? error / limit : error > 0 ? infinity : 0;
    if (ratio <= worst)
      continue;
    worst = ratio;
    result.worstError = std::isnan(error) ? infinity : error;
    result.worstLimit = limit;
    result.worstRow.clear();
    int64_t rest = row;
    for (size_t d = exact.shape.size() - 1; d-- > 0; rest /= exact.shape[d])
      result.worstRow.insert(result.worstRow.begin(), rest % exact.shape[d]);
  }
  const double elements = double(std::max<size_t>(exact.values.size(), 1));
  result.rmsError = std::sqrt(squares / elements);
  result.limit = (2 + 1 / std::sqrt(double(std::max<int64_t>(result.rows, 1)))) * std::sqrt(allowed / elements);
  result.pass = result.badRows == 0 && result.rmsError <= result.limit;
  return result;
}

} // namespace attune::reference
