#include "runtime/LaunchTables.h"

#include "arch/ArchInfo.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

using namespace attune;

static_assert(most_kernels == maxKernels && most_packed_bytes == maxPackedBytes);
static_assert(sizeof(launch_params) == sizeof(LaunchParams));

static constexpr int64_t greatestInt32 = std::numeric_limits<int32_t>::max();

static constexpr AxisWords knownAxes[] = {
    {"b", "B", "batch", "batch", "", greatestInt32, "split the batch"},
    {"pack", "1", "batch", "batch", "", 1, "pass the rows of all sequences one after another"},
    {"h", "H", "heads", "head", "", greatestInt32, "split the heads"},
    {"hkv", "Hkv", "heads", "head", "", greatestInt32, "split the heads"},
    {"q", "Sq", "length", "row", "", most_length, "split the sequence"},
    {"k", "Sk", "length", "row", "", most_length, "split the sequence"},
    {"page", "P", "pages", "page", "", greatestInt32, "pass fewer pages"},
    {"slot", "N", "page size", "slot", "the size of Variant::keyPages", greatestInt32, ""},
    {"d", "D", "head_dim", "head", ".headDim", greatestInt32, ""},
    {"dv", "Dv", "head_dim", "head", ".headDimV", greatestInt32, ""},
};

AxisWords attune::wordsFor(const AxisParam &axis) {
  for (const AxisWords &known : knownAxes)
    if (axis.name == known.axis)
      return known;
  const char *name = axis.name.c_str();
  return {name, name, name, name, "", most_length, "pass a smaller tensor"};
}

static constexpr wording_table libraryWording = {
    ".workspace",      ".workspaceBytes", "Kernel::workspaceBytes(args) bytes",
    "signature packs", "compile",         "set ATTUNE_NVRTC_PATH to"};

/// The index of the entry of `params` named `name`, or -1.
template <typename Param> static int numberOf(const std::vector<Param> &params, std::string_view name) {
  const auto found = std::ranges::find(params, name, &Param::name);
  return found == params.end() ? -1 : int(found - params.begin());
}

static linear_index tableOf(const LinearIndex &index) {
  linear_index table = {index.constant, {}, {}};
  std::ranges::copy(index.coordinates, table.coordinates);
  std::ranges::copy(index.extents, table.extents);
  return table;
}

LaunchTables::LaunchTables(const KernelImage &image) : source(image) {
  const KernelSignature &signature = image.signature;
  this->image.arch = image.arch.c_str();
  if (const ArchInfo *arch = findArch(image.arch)) {
    this->image.major = arch->computeMajor;
    for (int minor = 0; minor < 10; ++minor)
      this->image.minors |= unsigned(runsOn(*arch, arch->computeMajor, minor)) << minor;
  }
  this->image.cubin = image.binary.data();
  this->image.nvrtc = image.nvrtcVersion;
  this->image.packed_bytes = signature.packedBytes();
  this->image.maps_at = signature.tensorMapOffset();
  kernel.name = image.name.c_str();
  kernel.wording = &libraryWording;
  kernel.has_dropout = signature.dropout;
  kernel.scalar_count = int(signature.scalars.size());
  kernel.image_count = 1;
  kernel.images = &this->image;
  addAxes();
  addOperands();
  addTensors();
  addEntries();
  addMaps();
  addDerived();
}

void LaunchTables::addAxes() {
  std::vector<AxisParam> params;
  for (const std::string &name : source.signature.axes())
    params.push_back({name});
  kernel.axis_count = int(params.size());
  std::vector<axis_table> axes;
  const AxisParam *named = keep(std::move(params));
  for (int i = 0; i < kernel.axis_count; ++i) {
    const AxisWords words = wordsFor(named[i]);
    axes.push_back({named[i].name.c_str(), words.noun, words.most, words.remedy});
  }
  kernel.axes = keep(std::move(axes));
  kernel.batch = axisNumber("b");
  kernel.heads = axisNumber("h");
  kernel.kv_heads = axisNumber("hkv");
  kernel.query_length = axisNumber("q");
  kernel.key_length = axisNumber("k");
}

int LaunchTables::axisNumber(std::string_view name) const {
  for (int i = 0; i < kernel.axis_count; ++i)
    if (kernel.axes[i].name == name)
      return i;
  return -1;
}

dimension_table LaunchTables::dimensionOf(const AxisParam &axis) const {
  const AxisWords words = wordsFor(axis);
  dimension_table table = {
      axis.size ? -1 : axisNumber(axis.name), -1, -1, axis.size, axis.by, words.extent, words.stride};
  if (const std::optional<TensorDimension> of = tensorDimension(axis.name)) {
    table.tensor = numberOf(source.signature.tensors, of->tensor);
    table.dim = of->dim;
  }
  return table;
}

const dimension_table *LaunchTables::keepDimensions(const std::vector<AxisParam> &axes) {
  std::vector<dimension_table> dimensions;
  for (const AxisParam &axis : axes)
    dimensions.push_back(dimensionOf(axis));
  return keep(std::move(dimensions));
}

void LaunchTables::addOperands() {
  std::vector<operand_table> passed, workspaces;
  for (const OperandParam &operand : source.signature.operands) {
    const bool ofWorkspace = operand.role == OperandRole::Workspace;
    assert((ofWorkspace || workspaces.empty()) && "workspace operands come last");
    (ofWorkspace ? workspaces : passed)
        .push_back({operand.name.c_str(), int(byteSize(operand.dtype)), operand.role != OperandRole::In,
                    operand.optional, operand.isTiled(), operand.rank(), keepDimensions(operand.axes)});
  }
  kernel.operand_count = int(passed.size());
  kernel.operands = keep(std::move(passed));
  image.workspace_count = int(workspaces.size());
  image.workspaces = keep(std::move(workspaces));
}

void LaunchTables::addTensors() {
  const std::optional<BlockPatternParam> &pattern = source.signature.blockPattern;
  std::vector<tensor_table> tensors;
  for (const TensorParam &tensor : source.signature.tensors) {
    std::vector<index_table> indices;
    for (const IndexParam &index : tensor.indices) {
      std::vector<linear_index> guards;
      std::ranges::transform(index.guards, std::back_inserter(guards), tableOf);
      indices.push_back({index.dim, tableOf(index.index), int(guards.size()), keep(guards), index.broadcast,
                         index.text.c_str(), index.element.c_str()});
    }
    const bool isPattern = pattern && pattern->tensor == tensor.name;
    tensors.push_back({tensor.name.c_str(), int(byteSize(tensor.dtype)), tensor.rank, isPattern ? pattern->rows : 0,
                       isPattern ? pattern->columns : 0, int(indices.size()), keep(indices)});
  }
  kernel.tensor_count = int(tensors.size());
  kernel.tensors = keep(std::move(tensors));
}

void LaunchTables::addEntries() {
  std::vector<entry_table> entries;
  for (const KernelEntry &entry : source.entries) {
    std::vector<bound_table> bounds;
    for (const ExtentBound &bound : entry.skippedIf) {
      const AxisParam *of = keep<AxisParam>({{bound.axis}, {bound.most, bound.most.empty()}});
      bounds.push_back({dimensionOf(of[0]), dimensionOf(of[1])});
    }
    entries.push_back({entry.symbol.c_str(), int(entry.grid.size()), keepDimensions(entry.grid), entry.threads,
                       unsigned(entry.sharedBytes), entry.persistent, entry.claimsWork, entry.dependent,
                       entry.preparation, int(bounds.size()), keep(bounds), entry.maps.reads, entry.maps.fallbackOf});
  }
  image.entry_count = int(entries.size());
  image.entries = keep(std::move(entries));
}

void LaunchTables::addMaps() {
  // CUtensorMapDataType and CUtensorMapSwizzle of cuda.h.
  auto type = [](DType dtype) { return dtype == DType::F32 ? 7 : dtype == DType::BF16 ? 9 : 6; };
  auto swizzle = [](int bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : 1; };
  const KernelSignature &signature = source.signature;
  std::vector<map_table> maps;
  for (const TensorMapParam &map : signature.tensorMaps) {
    const int number =
        map.captured ? numberOf(signature.tensors, map.tensor) : numberOf(signature.operands, map.tensor);
    assert(number >= 0 && "a tensor map is of an operand or a captured tensor");
    const auto n = size_t(number);
    const DType dtype = map.captured ? signature.tensors[n].dtype : signature.operands[n].dtype;
    maps.push_back({map.tensor.c_str(), map.isOptional(),
                    map.captured ? signature.tensorOffset(n) : signature.operandOffset(n),
                    map.captured ? signature.tensors[n].rank : signature.operands[n].rank(), int(byteSize(dtype)),
                    type(dtype), map.rows, map.columns, swizzle(map.swizzle), map.limited});
  }
  image.map_count = int(maps.size());
  image.maps = keep(std::move(maps));
}

void LaunchTables::addDerived() {
  using Rule = DerivedAxis::Rule;
  for (const DerivedAxis &axis : source.signature.derived) {
    const std::string of = axis.rule == Rule::Rows ? "q" : axis.rule == Rule::Splits ? "k" : axis.of;
    const bool countsTiles = axis.rule == Rule::Splits || axis.rule == Rule::WorkItems;
    const AxisParam *param = keep<AxisParam>({{of, 0, countsTiles ? axis.by : 1}});
    const auto grid = std::ranges::find_if(
        source.entries, [&](const KernelEntry &entry) { return numberOf(entry.grid, axis.name) >= 0; });
    derived.push_back({axis.rule, axisNumber(axis.name), dimensionOf(*param), axis.by, axis.blocksPerSm,
                       grid == source.entries.end() ? nullptr : image.entries + (grid - source.entries.begin())});
  }
}
