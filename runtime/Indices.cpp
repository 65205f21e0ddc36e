//===- Indices.cpp - Finding out-of-bounds reads of captured tensors --------===//
//
// findIndexFault evaluates the variant's index expressions on the host. Interval arithmetic first excludes the loads
// whose indices are surely within bounds. Class Search then evaluates the indices of the other loads element by
// element.
//
//===----------------------------------------------------------------------===//

#include "attune/Indices.h"

#include "dsl/Elements.h"
#include "dsl/Ranges.h"
#include "runtime/Launch.h"
#include "runtime/ThreadPool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>

using namespace attune;
using dsl::Evaluator;
using dsl::Instruction;
using dsl::Program;

Error IndexFault::error() const {
  if (tensor.empty())
    return Error{fmt::format("{} is page {} at b {}, k {}, and k has {} page{}; correct the table", element, indices[0],
                             b, k, extent, extent == 1 ? "" : "s")};
  if (outOfOrder)
    return Error{
        fmt::format("{} searches a vector in ascending order, but element {} of captured tensor '{}' is less than "
                    "element {}; sort the vector",
                    element, indices[0], tensor, indices[0] - 1),
        where};
  return Error{fmt::format("{} reads {}[{}] at b {}, h {}, q {}{}, k {}, but captured tensor '{}' has {} element{} in "
                           "dimension {}; correct or "
                           "guard the index, or write clamped({}) where reading the nearest element is meant",
                           element, tensor, fmt::join(indices, ", "), b, h, q,
                           q == row ? "" : fmt::format(" (row {})", row), k, tensor, extent, extent == 1 ? "" : "s",
                           dim, element),
               where};
}

namespace {

/// The sizes of a launch that class Search needs.
struct Problem {
  launch_sizes sizes;
  int64_t qOffset = 0;
};

/// Checks the arguments as a launch of the variant's forward kernel would, except for what depends on the kernel's plan
/// (workspace and tensor maps). Further operands of a backward pass (do, dq, saved values, ...) are dropped first,
/// because no index expression reads them.
Expected<Problem> checkArguments(const Variant &variant, LaunchArgs args) {
  args.operands = {};
  if (variant.error())
    return *variant.error();
  KernelImage image;
  image.name = variant.name();
  image.tileQ = image.main().threads = 1;
  KernelSignature &signature = image.signature;
  signature.dtype = args.q.dtype;
  signature.headDim = args.q.rank == 4 ? int(args.q.shape[3]) : 0;
  signature.headDimV = args.v.rank == 4 ? int(args.v.shape[3]) : 0;
  const std::optional<KeyPages> &pages = variant.keyPages();
  signature.operands = forwardOperands(signature.dtype, signature.headDim, signature.headDimV, variant.hasLse(),
                                       pages ? pages->size : 0);
  if (pages)
    signature.derived = {{.name = "k",
                          .rule = DerivedAxis::Rule::Pages,
                          .by = pages->size,
                          .of = fmt::format("tensors.{}.1", pages->tensor.name)}};
  if (const std::optional<Sequences> &packed = variant.sequences()) {
    packOperands(signature.operands, packed->keys.has_value());
    signature.derived.insert(
        signature.derived.begin(),
        {.name = "b", .rule = DerivedAxis::Rule::Sequences, .of = fmt::format("tensors.{}.0", packed->queries.name)});
  }
  signature.dropout = variant.hasDropout();
  signature.qOffset = variant.hasQOffset();
  for (const ScalarDecl &scalar : variant.scalars())
    signature.scalars.push_back({scalar.name, scalar.dtype});
  for (const TensorDecl &tensor : variant.tensors())
    signature.tensors.push_back({tensor.name, tensor.dtype, tensor.rank});
  if (const std::optional<BlockPattern> &pattern = variant.blockPattern())
    signature.blockPattern = {pattern->tensor.name, pattern->rows, pattern->columns};
  if (Expected<void> good = checkSignature(image); !good)
    return good.error();
  PackedLaunch packed;
  if (Expected<void> good = packLaunch(LaunchTables(image), Device{}, 1, 0, args, packed); !good)
    return good.error();
  return Problem{packed.sizes, packed.block.params.q_offset};
}

/// The lengths of packed sequences, i32 [B], in host memory.
struct OwnLengths {
  std::vector<int32_t> values;
  Tensor tensor;

  /// Those of the sequences that begin at `bounds`, at most those of `most` where that is given.
  void set(const Tensor &bounds, int64_t sequences, int64_t rows, const Tensor *most) {
    auto at = [](const Tensor &of, int64_t i) { return int64_t(of.as<int32_t>()[i * of.strides[0]]); };
    int64_t begin = std::clamp<int64_t>(at(bounds, 0), 0, rows);
    for (int64_t b = 0; b < sequences; ++b) {
      const int64_t end = std::clamp(at(bounds, b + 1), begin, rows);
      values.push_back(int32_t(most ? std::clamp<int64_t>(at(*most, b), 0, end - begin) : end - begin));
      begin = end;
    }
    tensor = Tensor::contiguous(values.data(), DType::I32, {sequences});
  }
};

/// `own` is the memory of packed sequences' lengths of queries and keys.
dsl::Bindings bindingsOf(const Variant &variant, const launch_sizes &sizes, const LaunchArgs &args,
                         std::array<OwnLengths, 2> &own) {
  dsl::Bindings bindings;
  for (const NamedTensor &named : args.tensors)
    bindings.tensors.emplace(named.name, named.tensor);
  for (const NamedScalar &named : args.scalars)
    bindings.scalars.emplace(named.name, named.value.slot());
  bindings.extents = {sizes.batch, sizes.heads, sizes.query_length, sizes.key_length};
  if (variant.keyLengths())
    bindings.keyLengths = &bindings.tensors.at(variant.keyLengths()->name);
  if (variant.queryLengths())
    bindings.queryLengths = &bindings.tensors.at(variant.queryLengths()->name);
  if (const std::optional<Sequences> &packed = variant.sequences()) {
    own[0].set(bindings.tensors.at(packed->queries.name), sizes.batch, sizes.query_length, bindings.queryLengths);
    bindings.queryLengths = &own[0].tensor;
    if (packed->keys) {
      own[1].set(bindings.tensors.at(packed->keys->name), sizes.batch, sizes.key_length, bindings.keyLengths);
      bindings.keyLengths = &own[1].tensor;
    }
  }
  return bindings;
}

/// The first entry of the page table whose page number is out of bounds, among the entries that a sequence's keys use.
std::optional<IndexFault> findPageFault(const Variant &variant, const LaunchArgs &args, const dsl::Bindings &bindings) {
  const std::optional<KeyPages> &pages = variant.keyPages();
  if (!pages)
    return std::nullopt;
  const std::string &name = pages->tensor.name;
  const Tensor &table = bindings.tensors.at(name);
  for (int64_t b = 0; b < bindings.extents[0]; ++b)
    for (int64_t k = 0; k < bindings.keysOf(b); k += pages->size) {
      const int64_t entry = k / pages->size;
      const int32_t page = table.as<int32_t>()[b * table.strides[0] + entry * table.strides[1]];
      if (page < 0 || page >= args.k.shape[0])
        return IndexFault{.b = b,
                          .k = k,
                          .indices = {page},
                          .dim = 0,
                          .extent = args.k.shape[0],
                          .element = fmt::format("{}[{}, {}]", name, b, entry)};
    }
  return std::nullopt;
}

/// The first element that is less than the element before it, in a vector that the variant searches (Op::Search: the
/// vector must be in ascending order). NaN counts as greater than all numbers.
std::optional<IndexFault> findOrderFault(const Program &program) {
  for (int i = 0; i < program.size(); ++i) {
    const Instruction &search = program[i];
    if (search.node->op != Op::Search)
      continue;
    const Tensor &vector = search.tensor;
    for (int64_t n = 1; n < vector.shape[0]; ++n) {
      const int64_t before = (n - 1) * vector.strides[0], at = n * vector.strides[0];
      const bool inOrder = isFloat(vector.dtype)
                               ? dsl::isBefore(dsl::realAt(vector, before), dsl::realAt(vector, at), true)
                               : dsl::integerAt(vector, before) <= dsl::integerAt(vector, at);
      if (!inOrder)
        return IndexFault{.tensor = search.node->name,
                          .indices = {n},
                          .extent = vector.shape[0],
                          .outOfOrder = true,
                          .element = text(Expr(std::make_shared<const Node>(*search.node))),
                          .where = search.node->where};
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Loads that may be out of bounds
//===----------------------------------------------------------------------===//

/// The loads that interval arithmetic cannot prove to be in bounds, and the instructions that class Search evaluates.
struct Doubts {
  std::vector<int> loads;   ///< indices in the program of the loads that may be out of bounds, in evaluation order
  std::vector<bool> leads;  ///< per instruction: whether the instruction is in `loads` or uses a result of `loads`
  std::vector<bool> needed; ///< per instruction: whether class Search needs the instruction's value
};

bool mayLieOutside(const Instruction &load, dsl::Ranges &ranges) {
  if (load.node->op != Op::Load || load.node->indexRange == IndexRange::Clamped)
    return false;
  for (int dim = 0; dim < load.tensor.rank; ++dim) {
    const int64_t extent = load.tensor.shape[dim];
    const bool repeats = load.node->indexRange == IndexRange::Broadcast && extent == 1;
    if (!repeats && !ranges.of(load.operands[size_t(dim)]).within(0, extent - 1))
      return true;
  }
  return false;
}

Doubts doubtsOf(const Program &program, const Problem &problem) {
  const int64_t q = problem.qOffset;
  const launch_sizes &sizes = problem.sizes;
  dsl::Ranges ranges(program, {dsl::Range{0, sizes.batch - 1},
                               {0, sizes.heads - 1},
                               {q, q + sizes.query_length - 1},
                               {0, sizes.key_length - 1}});
  Doubts doubts;
  doubts.leads.resize(size_t(program.size()));
  std::vector<int> values;
  for (int i = 0; i < program.size(); ++i) {
    const Instruction &instruction = program[i];
    const bool inDoubt = mayLieOutside(instruction, ranges);
    bool leads = inDoubt;
    for (size_t n = 0; n < instruction.operands.size(); ++n) {
      const int operand = instruction.operands[n];
      leads = leads || doubts.leads[size_t(operand)];
      bool when = false;
      if (doubts.leads[size_t(operand)] && Program::guards(*instruction.node, n, &when))
        values.push_back(instruction.operands[0]);
    }
    doubts.leads[size_t(i)] = leads;
    if (inDoubt) {
      doubts.loads.push_back(i);
      values.insert(values.end(), instruction.operands.begin(), instruction.operands.end());
    }
  }
  if (program.score >= 0 && program.mask >= 0 && doubts.leads[size_t(program.score)])
    values.push_back(program.mask);
  doubts.needed = program.needsOf(values);
  return doubts;
}

//===----------------------------------------------------------------------===//
// Scores, for index expressions that depend on them
//===----------------------------------------------------------------------===//

/// The position of a key in operand k: the batch index (the page number where K is paged), and the row in that batch or
/// page.
struct KeyRow {
  int64_t place, row;
};

/// Computes scale * (q . k) for one row of Q and keys [begin, begin + count). `group` is the number of query heads of a
/// key head; `findKey` returns the position of a key in K.
template <typename Find>
void scoresOf(const LaunchArgs &args, int64_t group, float scale, int64_t b, int64_t h, int64_t row, int64_t begin,
              int64_t count, float *to, Find &&findKey) {
  const int64_t headDim = args.q.shape[3], *const q = args.q.strides, *const k = args.k.strides;
  const int64_t query = b * q[0] + h * q[1] + row * q[2];
  for (int64_t i = 0; i < count; ++i) {
    const KeyRow at = findKey(b, begin + i);
    const int64_t key = at.place * k[0] + h / group * k[1] + at.row * k[2];
    float sum = 0;
    for (int64_t d = 0; d < headDim; ++d)
      sum += dsl::realAt(args.q, query + d) * dsl::realAt(args.k, key + d);
    to[i] = scale * sum;
  }
}

//===----------------------------------------------------------------------===//
// The search for the first out-of-bounds read
//===----------------------------------------------------------------------===//

class Search {
public:
  Search(const Variant &variant, const LaunchArgs &args, const Problem &problem, const dsl::Bindings &bindings,
         const Program &program, const Doubts &doubts)
      : args(args), problem(problem), sizes(problem.sizes), bindings(bindings), program(program), doubts(doubts),
        rows(sizes.batch * sizes.heads * sizes.query_length),
        scale(variant.scale().value_or(float(1 / std::sqrt(double(args.q.shape[3]))))), firstRow(rows) {
    for (int i = 0; i < program.size(); ++i)
      needsScores |= doubts.needed[size_t(i)] && program[i].node->op == Op::Input;
    if (const std::optional<BlockPattern> &blocks = variant.blockPattern())
      for (const NamedTensor &named : args.tensors)
        if (named.name == blocks->tensor.name)
          pattern = {&named.tensor, blocks->rows, blocks->columns};
    if (const std::optional<KeyPages> &pages = variant.keyPages()) {
      table = &bindings.tensors.at(pages->tensor.name);
      pageSize = pages->size;
    }
  }

  std::optional<IndexFault> run() {
    // Each block of the thread pool searches consecutive rows of queries, about 2^16 elements. A block is skipped if it
    // begins after the first row with a fault that is known so far.
    constexpr int64_t elements = 1 << 16;
    const int64_t perBlock = std::max<int64_t>(1, elements / sizes.key_length);
    ThreadPool::process().run(size_t((rows + perBlock - 1) / perBlock), 0, [&](size_t block, void *) {
      const int64_t begin = int64_t(block) * perBlock;
      if (begin > firstRow.load(std::memory_order_relaxed))
        return;
      Evaluator evaluator(program, doubts.needed);
      for (int64_t row = begin; row < std::min(begin + perBlock, rows); ++row)
        if (searchRow(evaluator, row))
          return;
    });
    return fault;
  }

private:
  struct Pattern {
    const Tensor *tensor = nullptr;
    int64_t rows = 1, columns = 1;
  };

  /// Whether the block pattern leaves key `k` visible to query `row` of head `h`.
  bool shows(int64_t h, int64_t row, int64_t k) const {
    const Tensor &blocks = *pattern.tensor;
    const int64_t head = blocks.rank == 3 && blocks.shape[0] > 1 ? h * blocks.strides[0] : 0;
    const int64_t block = head + row / pattern.rows * blocks.strides[blocks.rank - 2] +
                          k / pattern.columns * blocks.strides[blocks.rank - 1];
    return blocks.as<uint8_t>()[block] != 0;
  }

  /// Searches one row of scores for an out-of-bounds read (`number` counts the rows of all batches and heads).
  /// Records the first such read and returns true, or returns false if there is none.
  bool searchRow(Evaluator &evaluator, int64_t number) {
    const int64_t row = number % sizes.query_length, plane = number / sizes.query_length, b = plane / sizes.heads,
                  h = plane % sizes.heads;
    evaluator.startRow(b, h, row + problem.qOffset);
    std::array<float, size_t(Evaluator::maxRun)> scores;
    std::array<uint8_t, size_t(Evaluator::maxRun)> visible;
    auto findKey = [&](int64_t b, int64_t k) -> KeyRow {
      if (!table)
        return {b, k};
      const int64_t page = table->as<int32_t>()[b * table->strides[0] + k / pageSize * table->strides[1]];
      return {page, k % pageSize};
    };
    const int64_t keys = row < bindings.queriesOf(b) ? bindings.keysOf(b) : 0;
    for (int64_t begin = 0; begin < keys; begin += Evaluator::maxRun) {
      const int64_t count = std::min(Evaluator::maxRun, keys - begin);
      if (needsScores)
        scoresOf(args, sizes.group, scale, b, h, row, begin, count, scores.data(), findKey);
      for (int64_t i = 0; i < count; ++i)
        visible[size_t(i)] = !pattern.tensor || shows(h, row, begin + i);
      evaluator.run(begin, count, scores.data());
      const int64_t lane = firstFault(evaluator, count, visible.data());
      if (lane < count) {
        record(evaluator, number, {.b = b, .h = h, .row = row, .k = begin + lane, .q = row + problem.qOffset}, lane);
        return true;
      }
    }
    return false;
  }

  /// The first dimension of `load` whose index is out of bounds in lane `lane`; the tensor's rank if there is none.
  int badDimension(const Evaluator &evaluator, const Instruction &load, int64_t lane) const {
    int dim = 0;
    for (; dim < load.tensor.rank; ++dim) {
      const int64_t index = evaluator.integers(load.operands[size_t(dim)])[lane], extent = load.tensor.shape[dim];
      const bool repeats = load.node->indexRange == IndexRange::Broadcast && extent == 1;
      if (!repeats && (index < 0 || index >= extent))
        break;
    }
    return dim;
  }

  /// The position of the first out-of-bounds read among the `count` keys of the evaluator's last run; `count` if there
  /// is none. The first loop ignores masks and conditions: it tests every index, even one that the kernel would not
  /// evaluate. Most runs have no index out of bounds, and the function returns after that loop.
  int64_t firstFault(Evaluator &evaluator, int64_t count, const uint8_t *visible) const {
    bool any = false;
    for (int load : doubts.loads)
      for (int64_t lane = 0; lane < count && !any; ++lane)
        any = badDimension(evaluator, program[load], lane) < program[load].tensor.rank;
    if (!any)
      return count;
    evaluator.markEvaluated(doubts.leads, visible);
    for (int64_t lane = 0; lane < count; ++lane)
      if (faultAt(evaluator, lane))
        return lane;
    return count;
  }

  const Instruction *faultAt(const Evaluator &evaluator, int64_t lane) const {
    for (int load : doubts.loads)
      if (evaluator.evaluated(load)[size_t(lane)] &&
          badDimension(evaluator, program[load], lane) < program[load].tensor.rank)
        return &program[load];
    return nullptr;
  }

  void record(const Evaluator &evaluator, int64_t number, IndexFault found, int64_t lane) {
    std::lock_guard lock(mutex);
    if (number >= firstRow)
      return;
    firstRow = number;
    const Instruction &load = *faultAt(evaluator, lane);
    Node shown = *load.node;
    shown.indexRange = IndexRange::Checked;
    found.tensor = load.node->name;
    for (int operand : load.operands)
      found.indices.push_back(evaluator.integers(operand)[lane]);
    found.dim = badDimension(evaluator, load, lane);
    found.extent = load.tensor.shape[found.dim];
    found.element = text(Expr(std::make_shared<const Node>(std::move(shown))));
    found.where = load.node->where;
    fault = std::move(found);
  }

  const LaunchArgs &args;
  const Problem &problem;
  const launch_sizes &sizes;
  const dsl::Bindings &bindings;
  const Program &program;
  const Doubts &doubts;
  int64_t rows;
  float scale;
  bool needsScores = false;
  Pattern pattern;
  const Tensor *table = nullptr; ///< the page table, or null; findPageFault has checked its entries
  int64_t pageSize = 0;          ///< keys of a page
  std::atomic<int64_t> firstRow; ///< the least row with a fault found so far; the number of rows while there is none
  std::mutex mutex;              ///< guards `fault` and writes to `firstRow`
  std::optional<IndexFault> fault;
};

} // namespace

Expected<std::optional<IndexFault>> attune::findIndexFault(const Variant &variant, const LaunchArgs &args) {
  Expected<Problem> problem = checkArguments(variant, args);
  if (!problem)
    return problem.error();
  if (!problem->sizes.batch || !problem->sizes.heads || !problem->sizes.query_length || !problem->sizes.key_length)
    return std::optional<IndexFault>();
  std::array<OwnLengths, 2> own;
  const dsl::Bindings bindings = bindingsOf(variant, problem->sizes, args, own);
  if (std::optional<IndexFault> fault = findPageFault(variant, args, bindings))
    return fault;
  const Program program(variant, bindings);
  if (std::optional<IndexFault> fault = findOrderFault(program))
    return fault;
  const Doubts doubts = doubtsOf(program, *problem);
  if (doubts.loads.empty())
    return std::optional<IndexFault>();
  return Search(variant, args, *problem, bindings, program, doubts).run();
}
