#include "runtime/Launch.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <span>
#include <string>
#include <vector>

using namespace attune;

#define RETURN_IF_ERROR(expression)                                                                                    \
  do {                                                                                                                 \
    if (Expected<void> checked = (expression); !checked)                                                               \
      return checked;                                                                                                  \
  } while (false)

static constexpr size_t maxAxes = 16;

const Tensor *LaunchArgs::operand(std::string_view name) const {
  if (name.size() == 1)
    switch (name[0]) {
    case 'q':
      return &q;
    case 'k':
      return &k;
    case 'v':
      return &v;
    case 'o':
      return &o;
    }
  if (name == "lse")
    return lse ? &*lse : nullptr;
  for (const NamedTensor &named : operands)
    if (named.name == name)
      return &named.tensor;
  return nullptr;
}

Error attune::launchError() { return Error{launcher_text()}; }

Expected<void> attune::checkSignature(const KernelImage &image) {
  size_t bytes = image.signature.packedBytes();
  if (bytes > maxPackedBytes)
    return Error{fmt::format("kernel '{}' takes {} bytes of parameters, the most is {}; capture fewer tensors and "
                             "scalars",
                             image.name, bytes, maxPackedBytes)};
  if (image.entries.empty() || image.entries.size() > maxKernels)
    return Error{fmt::format("kernel '{}' has {} entry points, required are 1 to {}; the image is damaged", image.name,
                             image.entries.size(), maxKernels)};
  if (image.signature.axes().size() > maxAxes)
    return Error{fmt::format("the kernel's operands have more than {} axes; compile a kernel of fewer", maxAxes)};
  for (const KernelEntry &entry : image.entries)
    if (entry.grid.size() > maxGridAxes)
      return Error{
          fmt::format("kernel '{}' has a grid of {} axes, the most is {}", image.name, entry.grid.size(), maxGridAxes)};
  if (image.main().threads < 1)
    return Error{fmt::format("kernel '{}' has {} threads, required is one at least; the image is damaged", image.name,
                             image.main().threads)};
  return {};
}

//===----------------------------------------------------------------------===//
// Texts of errors. They are built in cold functions, to keep a valid launch quick.
//===----------------------------------------------------------------------===//

namespace {

/// The extent of an axis for messages: "4 heads", "batch 2", "length 100".
std::string extentText(const AxisWords &words, int64_t extent) {
  const std::string_view noun = words.noun;
  return noun == "heads" || noun == "pages" ? fmt::format("{} {}", extent, noun) : fmt::format("{} {}", noun, extent);
}

/// The operand's axes for messages: "[B, H, Sq, D]".
std::string layoutText(const OperandParam &operand) {
  std::string text;
  for (const AxisParam &axis : operand.axes)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", wordsFor(axis).extent);
  return "[" + text + "]";
}

/// An error with a text formatted by fmt. Never inlined, so that the code that a valid launch runs stays small.
template <typename... Args>
[[gnu::cold, gnu::noinline]] Error failure(fmt::format_string<Args...> text, Args &&...args) {
  return Error{fmt::format(text, std::forward<Args>(args)...)};
}

std::string shapeText(const int64_t *shape, int rank) {
  return fmt::format("[{}]", fmt::join(shape, shape + rank, ", "));
}

[[gnu::cold, gnu::noinline]] Error wrongDType(const OperandParam &operand, DType given) {
  if (!operand.isTiled())
    return failure("{} is {}, required is {}; allocate it as {}", operand.name, name(given), name(operand.dtype),
                   name(operand.dtype));
  if (isFloat(given))
    return failure("{} is {}, the kernel was compiled for {}; convert {} or compile with .dtype = {}", operand.name,
                   name(given), name(operand.dtype), operand.name, name(given));
  return failure("{} is {}, the kernel was compiled for {}; convert {}", operand.name, name(given), name(operand.dtype),
                 operand.name);
}

template <typename Param> [[gnu::cold, gnu::noinline]] std::string namesOf(const std::vector<Param> &params) {
  if (params.empty())
    return "none";
  std::string names;
  for (const Param &param : params)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", param.name);
  return names;
}

/// The argument in `args` for the parameter at `index`, or null. Arguments in declaration order are found by one
/// comparison.
template <typename Param, typename List>
auto findArgument(const Param &param, size_t index, const List &args) -> decltype(args.begin()) {
  if (index < args.size() && args[index].name == param.name)
    return &args[index];
  for (const auto &arg : args)
    if (arg.name == param.name)
      return &arg;
  return nullptr;
}

/// The error for more arguments than parameters, where every parameter has an argument: some argument has an unknown
/// name, or a name is given twice.
template <typename Param, typename List>
[[gnu::cold, gnu::noinline]] Error surplus(const std::vector<Param> &params, const List &args, const char *kind) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (std::none_of(params.begin(), params.end(), [&](const Param &param) { return param.name == args[i].name; }))
      return failure("the kernel has no {} '{}'; it has {}", kind, args[i].name, namesOf(params));
    for (size_t j = 0; j < i; ++j)
      if (args[j].name == args[i].name)
        return failure("{} '{}' is passed twice; pass it once", kind, args[i].name);
  }
  assert(false && "more arguments than parameters, yet none unknown or repeated");
  return Error{};
}

/// The error "captured tensors 'a', 'b' are missing; pass them in .tensors".
template <typename Param>
Error missingText(const std::vector<Param> &absent, std::string_view kind, std::string_view field) {
  const bool one = absent.size() == 1;
  return failure("{}{} {} {} missing; pass {} in .{}", kind, one ? "" : "s", namesOf(absent), one ? "is" : "are",
                 one ? "it" : "them", field);
}

/// The error for missing arguments. Where an argument has no parameter, its name is probably a misspelling, and the
/// error names that argument instead.
template <typename Param, typename List>
[[gnu::cold, gnu::noinline]] Error missing(const std::vector<Param> &params, const List &args, const char *kind,
                                           const char *field) {
  for (const auto &arg : args)
    if (std::none_of(params.begin(), params.end(), [&](const Param &param) { return param.name == arg.name; }))
      return failure("the kernel has no {} '{}'; it has {}", kind, arg.name, namesOf(params));
  std::vector<Param> absent;
  for (const Param &param : params)
    if (!findArgument(param, 0, args))
      absent.push_back(param);
  return missingText(absent, kind, field);
}

//===----------------------------------------------------------------------===//
// The arguments of a launch, checked and put in the order of the LaunchTables
//===----------------------------------------------------------------------===//

tensor_view launcherView(const Tensor &tensor) { return {tensor.data, tensor.shape, tensor.strides}; }

/// The arguments of a launch in the order of the tables, which is the signature's order. An operand or captured tensor
/// that the arguments lack, or have with a wrong rank, is left out. The checks here are those that need more than the
/// tables contain: names, ranks, dtypes, devices and fixed extents, and whether operands agree on an extent.
class Binding {
public:
  Binding(const LaunchTables &tables, const LaunchArgs &args);

  Expected<void> checkOperands(Device device) const;
  /// Checks that operands have the extent of the first operand with the same axis.
  Expected<void> checkSharedExtents() const;
  Expected<void> checkTensors(Device device) const;
  Expected<void> bindScalars();
  Expected<void> bindValues(float defaultDropout);
  /// Checks that all bounds of packed sequences, and operands with an axis of sequences, have the same number of them.
  Expected<void> checkSequences() const;
  /// Computes the extents of derived axes from those of operands and captured tensors.
  void deriveExtents(int64_t multiprocessors);
  /// Checks a launch with paged K and V: the rows of the page table cover at most most_length keys, and K has at least
  /// one page unless the page table has no columns.
  Expected<void> checkPages() const;
  /// Whether the extent of a dimension is known.
  bool has(const dimension_table &dimension) const;

  launch_problem problem = {};

private:
  Expected<void> checkOperand(size_t number, const Tensor &tensor, Device device) const;
  Expected<void> checkTensorAxes(size_t number, const Tensor &tensor) const;
  Error missingOperands() const;
  Error differs(int number, int dim) const;
  int64_t tilesOfOtherAxes(const DerivedTable &axis) const;
  int64_t derivedExtent(const DerivedTable &axis, int64_t multiprocessors) const;

  /// Each operand, captured tensor and scalar takes at least 8 bytes of the parameters.
  static constexpr size_t most = (maxPackedBytes - sizeof(LaunchParams)) / 8;

  const LaunchTables &tables;
  const KernelSignature &signature;
  const LaunchArgs &args;
  // Of each array only the first elements are initialised, one for each axis, tensor or scalar of the LaunchTables.
  int64_t extents[maxAxes];
  const OperandParam *holders[maxAxes]; ///< the first operand that has the axis, or null
  tensor_view views[most];              ///< operands, then captured tensors
  uint64_t scalars[most];
};

Binding::Binding(const LaunchTables &tables, const LaunchArgs &args)
    : tables(tables), signature(tables.source.signature), args(args) {
  const kernel_table &kernel = tables.kernel;
  std::fill_n(extents, kernel.axis_count, 0);
  std::fill_n(holders, kernel.axis_count, nullptr);
  for (int i = 0; i < kernel.operand_count; ++i) {
    const operand_table &operand = kernel.operands[i];
    const Tensor *tensor = args.operand(signature.operands[size_t(i)].name);
    views[i] = {};
    if (!tensor || tensor->rank != operand.rank)
      continue;
    views[i] = launcherView(*tensor);
    for (int dim = 0; dim < operand.rank; ++dim)
      if (const int axis = operand.dimensions[dim].axis;
          axis >= 0 && operand.dimensions[dim].by == 1 && !holders[axis]) {
        holders[axis] = &signature.operands[size_t(i)];
        extents[axis] = tensor->shape[dim];
      }
  }
  tensor_view *const captured = views + kernel.operand_count;
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const NamedTensor *arg = findArgument(signature.tensors[i], i, args.tensors);
    captured[i] = arg && arg->tensor.rank == signature.tensors[i].rank ? launcherView(arg->tensor) : tensor_view{};
  }
  problem.extents = extents;
  problem.operands = views;
  problem.tensors = captured;
  problem.scalars = scalars;
  problem.seed = args.seed;
  problem.offset = args.offset;
  problem.seed_pointer = args.seedPointer;
  problem.offset_pointer = args.offsetPointer;
  problem.q_offset = args.qOffset.value_or(0);
  problem.workspace = args.workspace;
  problem.workspace_bytes = args.workspaceBytes;
}

/// Checks that an operand with a captured tensor's axes, such as the tensor's gradient, has the tensor's extents.
Expected<void> Binding::checkTensorAxes(size_t number, const Tensor &tensor) const {
  const operand_table &table = tables.kernel.operands[number];
  for (int i = 0; i < table.rank; ++i) {
    const dimension_table &dimension = table.dimensions[i];
    if (dimension.tensor < 0 || !problem.tensors[dimension.tensor].shape)
      continue;
    const tensor_view &of = problem.tensors[dimension.tensor];
    const TensorParam &param = signature.tensors[size_t(dimension.tensor)];
    if (tensor.rank != table.rank || tensor.shape[i] != of.shape[dimension.dim])
      return failure("{} has shape {}, captured tensor '{}' has {}; allocate it in the tensor's shape", table.name,
                     shapeText(tensor.shape, tensor.rank), param.name, shapeText(of.shape, param.rank));
  }
  return {};
}

/// Checks rank, device, dtype, and the extents of axes whose size was fixed when the kernel was compiled.
Expected<void> Binding::checkOperand(size_t number, const Tensor &tensor, Device device) const {
  const OperandParam &operand = signature.operands[number];
  const std::string &name = operand.name;
  if (tensor.rank != operand.rank())
    return failure("{} has rank {}, required is {}; reshape it to {}", name, tensor.rank, operand.rank(),
                   layoutText(operand));
  if (tensor.device != device)
    return failure("{} is on {}, the kernel is on {}; move {} there or compile for its device", name,
                   tensor.device.text(), device.text(), name);
  if (tensor.dtype != operand.dtype)
    return wrongDType(operand, tensor.dtype);
  for (int i = 0; i < tensor.rank; ++i) {
    const AxisParam &axis = operand.axes[size_t(i)];
    // The launcher refuses negative extents.
    if (axis.size == 0 || tensor.shape[i] == axis.size || tensor.shape[i] < 0)
      continue;
    const AxisWords words = wordsFor(axis);
    return failure("{} has {}, the kernel was compiled for {}; {}", name, extentText(words, tensor.shape[i]), axis.size,
                   *words.option ? fmt::format("compile with {} = {}", words.option, tensor.shape[i])
                                 : fmt::format("pass {} of them", axis.size));
  }
  return {};
}

[[gnu::cold, gnu::noinline]] Error Binding::missingOperands() const {
  std::vector<OperandParam> absent;
  for (const OperandParam &operand : signature.operands)
    if (operand.role != OperandRole::Workspace && !operand.optional && !args.operand(operand.name))
      absent.push_back(operand);
  return missingText(absent, "operand", "operands");
}

Expected<void> Binding::checkOperands(Device device) const {
  for (size_t i = 0; i < size_t(tables.kernel.operand_count); ++i) {
    const OperandParam &operand = signature.operands[i];
    if (const Tensor *tensor = args.operand(operand.name)) {
      RETURN_IF_ERROR(checkTensorAxes(i, *tensor));
      RETURN_IF_ERROR(checkOperand(i, *tensor, device));
    } else if (!operand.optional) {
      return missingOperands();
    }
  }
  if (args.lse && std::ranges::find(signature.operands, "lse", &OperandParam::name) == signature.operands.end())
    return failure("the kernel has no operand 'lse', as its normaliser gives none; leave .lse unset");
  for (const NamedTensor &named : args.operands)
    if (std::ranges::find(signature.operands, named.name, &OperandParam::name) == signature.operands.end())
      return failure("the kernel has no operand '{}'; it has {}", named.name, namesOf(signature.operands));
  return {};
}

/// The error for an extent that differs from an earlier operand's extent of the same axis. For an output the text has
/// the whole required shape.
[[gnu::cold, gnu::noinline]] Error Binding::differs(int number, int dim) const {
  const OperandParam &operand = signature.operands[size_t(number)];
  const dimension_table &dimension = tables.kernel.operands[number].dimensions[dim];
  const AxisParam &axis = operand.axes[size_t(dim)];
  const int64_t *const given = problem.operands[number].shape, wanted = extents[dimension.axis];
  const std::string &holder = holders[dimension.axis]->name;
  if (axis.by > 1)
    return failure("{} has {} blocks in dimension {}, required is {}: ceil({} / {}), as {} has {} of {}; savedShape() "
                   "gives its shape",
                   operand.name, given[dim], dim, launcher_count(&dimension, &problem), wanted, axis.by, holder, wanted,
                   axis.name);
  const AxisWords words = wordsFor(axis);
  if (operand.role == OperandRole::In)
    return failure("{} has {}, {} has {}; pass the same {}", operand.name, extentText(words, given[dim]), holder,
                   wanted, words.noun == std::string_view("heads") ? "number of heads" : words.noun);
  std::string shape;
  for (const AxisParam &one : operand.axes) {
    const int other = tables.axisNumber(one.name);
    shape += fmt::format("{}{}", shape.empty() ? "" : ", ", other >= 0 ? extents[other] : int64_t(one.size));
  }
  return failure("{} has shape {}, required is [{}]; allocate it as {}", operand.name, shapeText(given, operand.rank()),
                 shape, layoutText(operand));
}

Expected<void> Binding::checkSharedExtents() const {
  for (int i = 0; i < tables.kernel.operand_count; ++i)
    for (int dim = 0; problem.operands[i].shape && dim < tables.kernel.operands[i].rank; ++dim) {
      const dimension_table &dimension = tables.kernel.operands[i].dimensions[dim];
      if (dimension.axis >= 0 && holders[dimension.axis] &&
          problem.operands[i].shape[dim] != launcher_count(&dimension, &problem))
        return differs(i, dim);
    }
  return {};
}

Expected<void> Binding::checkTensors(Device device) const {
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const TensorParam &param = signature.tensors[i];
    const char *kind = tables.kernel.tensors[i].pattern_rows ? "block pattern" : "captured tensor";
    const NamedTensor *arg = findArgument(param, i, args.tensors);
    if (!arg)
      return missing(signature.tensors, args.tensors, "captured tensor", "tensors");
    const Tensor &tensor = arg->tensor;
    if (tensor.dtype != param.dtype)
      return failure("{} '{}' is {}, the variant declares {}; convert it", kind, param.name, name(tensor.dtype),
                     name(param.dtype));
    if (tensor.rank != param.rank)
      return failure("{} '{}' has rank {}, the variant declares {}; reshape it", kind, param.name, tensor.rank,
                     param.rank);
    if (tensor.device != device)
      return failure("{} '{}' is on {}, the kernel is on {}; move it there or compile for its device", kind, param.name,
                     tensor.device.text(), device.text());
  }
  if (args.tensors.size() > signature.tensors.size())
    return surplus(signature.tensors, args.tensors, "captured tensor");
  return {};
}

Expected<void> Binding::bindScalars() {
  for (size_t i = 0; i < signature.scalars.size(); ++i) {
    const ScalarParam &param = signature.scalars[i];
    const NamedScalar *arg = findArgument(param, i, args.scalars);
    if (!arg)
      return missing(signature.scalars, args.scalars, "scalar", "scalars");
    if (arg->value.dtype() != param.dtype)
      return failure("scalar '{}' is {}, the variant declares {}; cast the value", param.name, name(arg->value.dtype()),
                     name(param.dtype));
    scalars[i] = arg->value.slot();
  }
  if (args.scalars.size() > signature.scalars.size())
    return surplus(signature.scalars, args.scalars, "scalar");
  return {};
}

Expected<void> Binding::bindValues(float defaultDropout) {
  problem.dropout = args.dropout.value_or(defaultDropout);
  if (!signature.dropout && args.dropout.value_or(0) != 0)
    return failure("the kernel was compiled without dropout but .dropout is {}; add .dropout to the variant",
                   *args.dropout);
  if (!signature.qOffset && problem.q_offset != 0)
    return failure("the kernel was compiled without a query offset but .qOffset is {}; add .qOffset to the variant",
                   problem.q_offset);
  return {};
}

/// The number of tiles along the other axes of the grid that contains `axis`.
int64_t Binding::tilesOfOtherAxes(const DerivedTable &axis) const {
  int64_t tiles = 1;
  for (int i = 0; axis.grid && i < axis.grid->grid_count; ++i)
    if (axis.grid->grid[i].axis != axis.axis)
      tiles = launcher_product(tiles, launcher_count(&axis.grid->grid[i], &problem));
  return tiles;
}

int64_t Binding::derivedExtent(const DerivedTable &axis, int64_t multiprocessors) const {
  using Rule = DerivedAxis::Rule;
  const launch_sizes sizes = launcher_sizes(&tables.kernel, extents);
  const int64_t of = launcher_count(&axis.of, &problem),
                slots = axis.blocksPerSm * std::max<int64_t>(multiprocessors, 1);
  switch (axis.rule) {
  case Rule::Rows:
    return launcher_product(of, sizes.group);
  case Rule::Pages:
    return launcher_product(of, axis.by);
  case Rule::Slots:
    return slots;
  case Rule::TileRows:
    return std::min(of, axis.by);
  case Rule::Splits:
    return keySplits(tilesOfOtherAxes(axis), of, slots);
  case Rule::Sequences:
    return std::max<int64_t>(of - 1, 0);
  case Rule::SequenceRows:
    return of ? launcher_product(axis.by, of / axis.by + sizes.batch + 2) : 0;
  case Rule::WorkItems:
    break;
  }
  const int64_t beside = tilesOfOtherAxes(axis), atOnce = beside ? slots / beside : 0;
  const int64_t rowTiles = launcher_product(sizes.batch, of);
  return rowTiles ? rowTiles + atOnce : 0;
}

void Binding::deriveExtents(int64_t multiprocessors) {
  using Rule = DerivedAxis::Rule;
  // Splits and work items come last, because their numbers depend on the other axes of the grid.
  for (const bool ofGrid : {false, true})
    for (const DerivedTable &axis : tables.derived)
      if (ofGrid == (axis.rule == Rule::Splits || axis.rule == Rule::WorkItems))
        extents[axis.axis] = derivedExtent(axis, multiprocessors);
}

Expected<void> Binding::checkSequences() const {
  const DerivedTable *first = nullptr;
  for (const DerivedTable &axis : tables.derived) {
    if (axis.rule != DerivedAxis::Rule::Sequences)
      continue;
    auto bounds = [&](const DerivedTable &of) {
      return fmt::format("captured tensor '{}' has the bounds of {} sequences",
                         tables.kernel.tensors[of.of.tensor].name, derivedExtent(of, 1));
    };
    first = first ? first : &axis;
    if (const int64_t own = derivedExtent(axis, 1); own != derivedExtent(*first, 1))
      return failure("{}, {}; pass the same number of bounds", bounds(*first), bounds(axis));
    else if (holders[axis.axis] && extents[axis.axis] != own)
      return failure("{}, {} has batch {}; pass bounds [batch + 1]", bounds(axis), holders[axis.axis]->name,
                     extents[axis.axis]);
  }
  return {};
}

Expected<void> Binding::checkPages() const {
  for (const DerivedTable &axis : tables.derived) {
    if (axis.rule != DerivedAxis::Rule::Pages)
      continue;
    const int64_t keys = extents[axis.axis];
    const char *const table = tables.kernel.tensors[axis.of.tensor].name;
    if (keys > most_length)
      return failure("captured tensor '{}' has pages for {} keys a sequence, the most is {}; pass fewer columns", table,
                     keys, most_length);
    const int pages = tables.axisNumber("page");
    if (keys && pages >= 0 && holders[pages] && extents[pages] == 0)
      return failure("{} has no pages, captured tensor '{}' names some; pass at least one", holders[pages]->name,
                     table);
  }
  return {};
}

bool Binding::has(const dimension_table &dimension) const {
  return dimension.size || (dimension.axis >= 0 && holders[dimension.axis]) ||
         (dimension.tensor >= 0 && problem.tensors[dimension.tensor].shape);
}

/// Implements LaunchArgs::keepTables: the launch reuses the per-tile tables of an earlier launch, so preparation
/// kernels need not run. But block 0 of a preparation kernel also resets the counter from which blocks claim work. If a
/// kernel claims work, that one block still runs.
void leaveOutPreparation(const image_table &image, packed_problem &packed) {
  const std::span entries(image.entries, size_t(image.entry_count));
  const bool claims = std::ranges::any_of(entries, &entry_table::claims_work);
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].is_preparation)
      packed.tiles[i] = std::min<int64_t>(packed.tiles[i], claims);
}

} // namespace

int64_t attune::keysIn(const KernelSignature &signature, const LaunchArgs &args) {
  for (const DerivedAxis &axis : signature.derived) {
    const std::optional<TensorDimension> of = tensorDimension(axis.of);
    if (axis.rule != DerivedAxis::Rule::Pages || !of)
      continue;
    for (const NamedTensor &named : args.tensors)
      if (of->tensor == named.name && of->dim < named.tensor.rank)
        return launcher_product(named.tensor.shape[of->dim], axis.by);
    return 0;
  }
  return args.k.shape[2];
}

Expected<Tensor> attune::denseOperand(const KernelImage &image, const OperandParam &operand, Device device,
                                      const LaunchArgs &args) {
  const LaunchTables tables(image);
  const Binding binding(tables, args);
  std::vector<int64_t> shape;
  for (const AxisParam &axis : operand.axes) {
    const dimension_table dimension = tables.dimensionOf(axis);
    if (!binding.has(dimension) && dimension.tensor >= 0)
      return failure("{} has the shape of captured tensor '{}', which is missing; pass it in .tensors", operand.name,
                     tables.kernel.tensors[dimension.tensor].name);
    if (!binding.has(dimension))
      return failure("{} has shape {}, and no tensor of the arguments has {}; pass q, k and v", operand.name,
                     layoutText(operand), wordsFor(axis).extent);
    shape.push_back(launcher_count(&dimension, &binding.problem));
  }
  return Tensor::contiguous(nullptr, operand.dtype, shape, device);
}

size_t attune::workspaceSize(const LaunchTables &tables, int64_t multiprocessors, const LaunchArgs &args) {
  Binding binding(tables, args);
  binding.deriveExtents(multiprocessors);
  return launcher_workspace(&tables.image, &binding.problem);
}

Expected<void> attune::packLaunch(const LaunchTables &tables, Device device, int64_t multiprocessors,
                                  float defaultDropout, const LaunchArgs &args, PackedLaunch &packed) {
  Binding binding(tables, args);
  RETURN_IF_ERROR(binding.checkOperands(device));
  if (launcher_check_operands(&tables.kernel, &binding.problem) != result_ok)
    return launchError();
  RETURN_IF_ERROR(binding.checkSharedExtents());
  RETURN_IF_ERROR(binding.bindValues(defaultDropout));
  RETURN_IF_ERROR(binding.bindScalars());
  RETURN_IF_ERROR(binding.checkTensors(device));
  RETURN_IF_ERROR(binding.checkSequences());
  binding.deriveExtents(multiprocessors);
  RETURN_IF_ERROR(binding.checkPages());
  if (launcher_pack(&tables.kernel, &tables.image, &binding.problem, &packed) != result_ok)
    return launchError();
  if (args.keepTables)
    leaveOutPreparation(tables.image, packed);
  return {};
}
