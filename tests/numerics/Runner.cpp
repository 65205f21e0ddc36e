#include "tests/numerics/Runner.h"

#include "tests/numerics/CompileToRun.h"
#include "tests/numerics/Placement.h"
#include "tools/reference/Pages.h"
#include "tools/reference/Program.h"

#include "runtime/CudaDriver.h"
#include "tools/reference/Philox.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

namespace {

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

} // namespace

std::string Case::describe() const {
  const std::vector<int64_t> &q = problem.q.shape, &k = problem.k.shape, &v = problem.v.shape;
  std::string text = fmt::format("{} {} B {} H {}/{} S {} x {} D {} x {}", label, name(problem.q.dtype), q[0], q[1],
                                 k[1], q[2], k[2], q[3], v[3]);
  if (layout.rowsBeforeHeads)
    text += " [B, S, H, D]";
  if (layout.padColumns)
    text += fmt::format(" pad {}", layout.padColumns);
  auto field = [&](const char *label, const auto &value) {
    if (value)
      text += fmt::format(" {} {}", label, int(*value));
  };
  field("tile_q", options.tileQ);
  field("tile_k", options.tileK);
  field("warps", options.warps);
  field("stages", options.stages);
  field("q_registers", options.qRegisters);
  field("dv_warps", options.dvWarps);
  return text;
}

Case attune::tests::makeCase(std::string label, std::shared_ptr<const Variant> variant, reference::Problem problem) {
  Case test;
  test.label = std::move(label);
  test.variant = std::move(variant);
  test.problem = std::move(problem);
  test.problem.variant = test.variant.get();
  return test;
}

Case attune::tests::makeCase(std::string label, Variant variant, DType dtype, const Shape &shape, uint64_t seed) {
  auto shared = std::make_shared<const Variant>(std::move(variant));
  int64_t dv = shape.headDimV ? shape.headDimV : shape.headDim;
  reference::Problem problem;
  const int64_t rowBatch = shared->sequences() ? 1 : shape.batch;
  problem.q = HostTensor::random(dtype, {rowBatch, shape.heads, shape.queries, shape.headDim}, seed * 100 + 1);
  problem.k = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, shape.headDim}, seed * 100 + 2);
  problem.v = HostTensor::random(dtype, {shape.batch, shape.headsKv, shape.keys, dv}, seed * 100 + 3);
  problem.seed = 0x123456789abcdefULL + seed;
  problem.offset = 0x7700000055ULL;
  for (const TensorDecl &decl : shared->tensors()) {
    HostTensor tensor;
    if (decl.name == "ids") {
      // Documents of 37 tokens; of rank 2, another length for each batch.
      int64_t length = std::max<int64_t>({shape.queries, shape.keys, 1});
      tensor = HostTensor::zeros(decl.dtype, decl.rank == 1 ? std::vector<int64_t>{length}
                                                            : std::vector<int64_t>{shape.batch, length});
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.setInt(i, i % length / (37 + 5 * (i / length)));
    } else if (decl.name == "lengths") {
      tensor = HostTensor::zeros(decl.dtype, {shape.batch}); // the last batch, of two or more, has no keys
      for (int64_t b = 0; b < shape.batch; ++b)
        tensor.setInt(b, shape.batch == 1 ? shape.keys - shape.keys / 3
                                          : shape.keys * (shape.batch - 1 - b) / (shape.batch - 1));
    } else if (decl.name == "new_tokens") {
      tensor = HostTensor::zeros(decl.dtype, {shape.batch}); // a chunk of a prompt, then fewer, at last none or one
      for (int64_t b = 0; b < shape.batch; ++b)
        tensor.setInt(b, b == 0 ? shape.queries : (shape.queries * 2 / 3) / (b * b));
    } else if (decl.name == "first_queries" || decl.name == "first_keys") {
      // Rows of no sequence at both ends, two sequences without queries, and one of them and another without keys.
      const bool isOfKeys = decl.name == "first_keys";
      const int64_t rows = isOfKeys ? shape.keys : shape.queries;
      const int64_t ends[] = {std::min<int64_t>(rows, 1),
                              rows / 9,
                              rows / 9 + (isOfKeys ? rows / 9 : 0),
                              rows * 2 / 5,
                              rows * 2 / 5 + (isOfKeys ? 0 : rows / 5),
                              rows * 9 / 10,
                              std::max<int64_t>(rows - 1, 0)};
      int64_t before = 0;
      tensor = HostTensor::zeros(decl.dtype, {std::ssize(ends)});
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.setInt(i, before = std::max(before, ends[i]));
    } else if (decl.name == "slopes") {
      tensor = HostTensor::zeros(decl.dtype, {shape.heads});
      for (int64_t h = 0; h < shape.heads; ++h)
        tensor.set(h, std::exp2(-8.0 * double(h + 1) / double(shape.heads)));
    } else if (decl.name == "sinks") {
      tensor = HostTensor::random(decl.dtype, {shape.heads}, seed * 100 + 7);
    } else if (decl.name == "table") {
      tensor = HostTensor::random(decl.dtype, {shape.heads, std::max<int64_t>(shape.queries + shape.keys - 1, 1)},
                                  seed * 100 + 4);
    } else if (decl.name == "bias") {
      std::vector<int64_t> dims = {shape.batch, shape.heads, shape.queries, shape.keys};
      dims.erase(dims.begin(), dims.end() - decl.rank);
      tensor = HostTensor::random(decl.dtype, dims, seed * 100 + 5);
      for (int64_t i = 0; i < tensor.size(); i += 7)
        tensor.set(i, -std::numeric_limits<double>::infinity());
    } else if (decl.name == "pattern" && shared->blockPattern()) {
      const BlockPattern &blocks = *shared->blockPattern();
      std::vector<int64_t> dims = {shape.heads, (shape.queries + blocks.rows - 1) / blocks.rows,
                                   (shape.keys + blocks.columns - 1) / blocks.columns};
      dims.erase(dims.begin(), dims.end() - decl.rank);
      tensor = HostTensor::random(decl.dtype, dims, seed * 100 + 6);
    } else {
      continue;
    }
    problem.tensors[decl.name] = std::move(tensor);
  }
  const std::optional<TensorDecl> &lengths = shared->keyLengths();
  const HostTensor *ofKeys = lengths ? &problem.tensors.at(lengths->name) : nullptr;
  if (ofKeys)
    for (HostTensor *rows : {&problem.k, &problem.v})
      reference::poisonAfter(*rows, *ofKeys);
  if (const std::optional<KeyPages> &pages = shared->keyPages()) {
    HostTensor &table = problem.tensors[pages->tensor.name];
    table = reference::pageTable(shape.batch, shape.keys, pages->size, ofKeys, seed * 100 + 8);
    // The first page is the same for all sequences that have one: a common prefix.
    for (int64_t b = 1; b < shape.batch && table.shape[1]; ++b)
      if (reference::keysOf(ofKeys, b, shape.keys) > 0 && reference::keysOf(ofKeys, 0, shape.keys) > 0)
        table.setInt(b * table.shape[1], table.intAt(0));
    for (HostTensor *rows : {&problem.k, &problem.v})
      (void)reference::toPages(*rows, table, pages->size, ofKeys);
  }
  for (const ScalarDecl &decl : shared->scalars())
    if (decl.name == "top")
      problem.scalars[decl.name] = reference::scalarOf(decl.dtype, 20);
  return makeCase(std::move(label), std::move(shared), std::move(problem));
}

Expected<Results> attune::tests::run(const Kernel &kernel, const Case &test) {
  Expected<Launcher> launcher = launcherOf(kernel);
  return launcher ? run(*launcher, test) : launcher.error();
}

Expected<Results> attune::tests::run(const Launcher &launcher, const Case &test) {
  const Device device = launcher.device;
  const reference::Problem &problem = test.problem;
  const std::array<int64_t, 4> outShape = {problem.q.shape[0], problem.q.shape[1], problem.q.shape[2],
                                           problem.v.shape[3]};
  PlacedInputs inputs(test);
  Placed o = arrange(problem.q.dtype, outShape, test.layout, false);
  Placed lse = arrange(DType::F32, {outShape[0], outShape[1], outShape[2], 1}, test.layout, false, true);
  if (Expected<void> done = inputs.place(device); !done)
    return done.error();
  for (Placed *placed : {&o, &lse})
    if (Expected<void> done = placed->place(device); !done)
      return done.error();
  LaunchArgs args = inputs.args(device);
  args.o = o.view(device);
  if (test.wantsLse())
    args.lse = lse.view(device);
  Expected<std::string> aroundWorkspace = launchInWorkspace(launcher, args);
  if (!aroundWorkspace)
    return aroundWorkspace.error();

  Results results;
  results.outside = *aroundWorkspace;
  Expected<int64_t> outside = o.take(results.o);
  if (!outside)
    return outside.error();
  if (*outside >= 0)
    results.outside = fmt::format("memory around O was written at element {}", *outside);
  Expected<int64_t> outsideLse = lse.take(results.lse);
  if (!outsideLse)
    return outsideLse.error();
  if (*outsideLse >= 0)
    results.outside += fmt::format("memory around LSE was written at element {}", *outsideLse);
  if (!test.wantsLse())
    results.lse = {};
  return results;
}

Expected<Expectation> attune::tests::expect(const Case &test) {
  Expected<reference::Output> exact = reference::attention(test.problem);
  if (!exact)
    return exact.error();
  Expected<reference::Output> plain = reference::plainLowPrecision(test.problem);
  if (!plain)
    return plain.error();
  return Expectation{std::move(*exact), std::move(*plain)};
}

Verdict attune::tests::judge(const Case &test, const Expectation &expected, const Expected<Results> &results) {
  if (!results)
    return {false, test.describe() + ": " + oneLine(results.error().text()), 0};
  reference::Comparison o = reference::compareO(results->o, expected.exact, expected.plain);
  Verdict verdict{o.pass && results->outside.empty(), fmt::format("{}: {}", test.describe(), oneLine(o.describe())), 0};
  verdict.ratio = o.ratio();
  if (test.wantsLse()) {
    reference::Comparison lse = reference::compareLse(results->lse, expected.exact, expected.plain);
    verdict.pass &= lse.pass;
    verdict.text += "; " + oneLine(lse.describe());
    verdict.ratio = std::max(verdict.ratio, lse.ratio());
  }
  if (!results->outside.empty())
    verdict.text += "; " + results->outside;
  return verdict;
}

CompileOptions attune::tests::optionsOf(const Case &test) {
  CompileOptions options = test.options;
  options.dtype = test.problem.q.dtype;
  options.headDim = int(test.problem.q.shape[3]);
  options.headDimV = int(test.problem.v.shape[3]);
  return options;
}

Verdict attune::tests::check(const Case &test, const Target &target) {
  Expected<Kernel> kernel = compileToRun(*test.variant, optionsOf(test), target);
  if (!kernel)
    return {false, test.describe() + ": " + oneLine(kernel.error().text()), 0};
  Expected<Expectation> expected = expect(test);
  if (!expected)
    return {false, test.describe() + ": reference: " + oneLine(expected.error().text()), 0};
  return judge(test, *expected, run(*kernel, test));
}

Verdict attune::tests::checkSkippedTiles(const Target &target, DType dtype, int headDim) {
  auto variant = Variant("skipped").mask(documents(captured("ids", i32, rank(1))));
  Expected<Kernel> kernel = compileToRun(variant, {.dtype = dtype, .headDim = headDim}, target);
  if (!kernel)
    return {false, "skipped tiles: " + oneLine(kernel.error().text()), 0};
  const int64_t length = std::lcm(int64_t(kernel->image().tileQ), int64_t(kernel->image().tileK)), total = 3 * length;
  Case test = makeCase("skipped tiles", variant, dtype, {.queries = total, .keys = total, .headDim = headDim}, 3);
  HostTensor ids = HostTensor::zeros(DType::I32, {total});
  for (int64_t i = 0; i < total; ++i)
    ids.setInt(i, 5 - i / length * 2);
  test.problem.tensors["ids"] = ids;
  Expected<Results> clean = run(*kernel, test);
  for (HostTensor *tensor : {&test.problem.k, &test.problem.v})
    for (int64_t head = 0; head < tensor->shape[1]; ++head)
      for (int64_t i = length * headDim; i < 2 * length * headDim; ++i)
        tensor->set(head * total * headDim + i, std::nan(""));
  Expected<Results> poisoned = run(*kernel, test);
  if (!clean || !poisoned)
    return {false, test.describe() + ": " + oneLine((clean ? poisoned : clean).error().text()), 0};
  int64_t changed = 0, finite = 0;
  for (int64_t i = 0; i < clean->o.size(); ++i) {
    const bool hidden = i / headDim % total / length == 1;
    changed += !hidden && clean->o.at(i) != poisoned->o.at(i);
    finite += hidden && !std::isnan(poisoned->o.at(i));
  }
  return {changed == 0 && finite == 0,
          fmt::format("{}: {} elements of O differ where the NaN is hidden, {} lack it where it is not",
                      test.describe(), changed, finite),
          0};
}

Expected<std::vector<uint8_t>> attune::tests::recoverKeep(const Kernel &kernel, Case test) {
  return recoverKeep([&](const Case &each) { return run(kernel, each); }, std::move(test));
}

Expected<std::vector<uint8_t>> attune::tests::recoverKeep(const std::function<Expected<Results>(const Case &)> &run,
                                                          Case test) {
  reference::Problem &problem = test.problem;
  int64_t batch = problem.q.shape[0], heads = problem.q.shape[1], queries = problem.q.shape[2];
  int64_t headsKv = problem.k.shape[1], keys = problem.k.shape[2], columns = problem.v.shape[3];
  problem.q = HostTensor::zeros(problem.q.dtype, problem.q.shape);
  std::vector<uint8_t> keep(size_t(batch * heads * queries * keys));
  for (int64_t begin = 0; begin < keys; begin += columns) {
    problem.v = HostTensor::zeros(problem.v.dtype, problem.v.shape);
    int64_t count = std::min(columns, keys - begin);
    for (int64_t i = 0; i < batch * headsKv; ++i)
      for (int64_t d = 0; d < count; ++d)
        problem.v.set((i * keys + begin + d) * columns + d, 1);
    Expected<Results> results = run(test);
    if (!results)
      return results.error();
    for (int64_t row = 0; row < batch * heads * queries; ++row)
      for (int64_t d = 0; d < count; ++d)
        keep[size_t(row * keys + begin + d)] = results->o.at(row * columns + d) != 0;
  }
  return keep;
}

std::vector<uint8_t> attune::tests::formulaKeep(const Case &test) {
  const reference::Problem &problem = test.problem;
  int64_t batch = problem.q.shape[0], heads = problem.q.shape[1], queries = problem.q.shape[2],
          keys = problem.k.shape[2];
  uint32_t threshold = reference::dropThreshold(problem.dropout.value_or(test.variant->dropoutProbability()));
  std::vector<uint8_t> keep;
  keep.reserve(size_t(batch * heads * queries * keys));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t q = 0; q < queries; ++q)
        for (int64_t k = 0; k < keys; ++k)
          keep.push_back(reference::dropoutBits(problem.seed, problem.offset, heads, b, h, q, k) >= threshold);
  return keep;
}
