//===- Signature.h - What a kernel takes, and in which order -----------------===//
//
// The operands, captured tensors, run-time scalars, block pattern and derived axes of a kernel, as a launch checks and
// packs them. KernelImage::signature has it for a compiled kernel (attune/Kernel.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/LaunchParams.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// Declares a run-time scalar of a kernel.
struct ScalarParam {
  std::string name;
  DType dtype = DType::F32; ///< F32, I32, I64 or Bool
  friend bool operator==(const ScalarParam &, const ScalarParam &) = default;
};

/// An index that is linear in coordinates and extents: constant + the sum of coordinates[i] * (b, h, q, k)[i] + the sum
/// of extents[i] * (B, H, Sq, Sk)[i]. q includes the q offset.
struct LinearIndex {
  static constexpr int64_t maxFactor = 1 << 16;            ///< largest magnitude of a factor
  static constexpr int64_t maxConstant = int64_t(1) << 40; ///< largest magnitude of `constant`; no sum overflows

  int64_t constant = 0;
  std::array<int64_t, 4> coordinates = {};
  std::array<int64_t, 4> extents = {};

  constexpr bool withinLimits() const {
    bool within = constant >= -maxConstant && constant <= maxConstant;
    for (size_t i = 0; i < 4; ++i)
      within = within && coordinates[i] >= -maxFactor && coordinates[i] <= maxFactor && extents[i] >= -maxFactor &&
               extents[i] <= maxFactor;
    return within;
  }
  friend bool operator==(const LinearIndex &, const LinearIndex &) = default;
};

/// Says that the kernel reads a captured tensor at `index` along dimension `dim`, for every (b, h, q, k) of a launch at
/// which all of `guards` are at least 0. The launch fails if such an index is outside of the tensor.
struct IndexParam {
  int dim = 0;
  LinearIndex index = {};
  std::vector<LinearIndex> guards = {};
  bool broadcast = false; ///< an extent of 1 serves every index
  std::string text = {};  ///< the index as the variant writes it: "q - k + Sk - 1"
  /// The element that is read: "table[h, q - k + Sk - 1]". Empty where a clamped index is no remedy, because each
  /// element has its own gradient.
  std::string element = {};
  friend bool operator==(const IndexParam &, const IndexParam &) = default;
};

/// One dimension of an operand or of a kernel's grid.
struct AxisParam {
  std::string name; ///< shared by all operands that have it: "b", "h", "hkv", "q", "k", "d", "dv", ...; or a captured
                    ///< tensor's dimension: "tensors.ids.1"
  int size = 0;     ///< the extent where it is known when the kernel is compiled, else 0
  int by = 1;       ///< the dimension counts blocks of `by` elements: ceil(extent / by) of them
  /// Whether all operands with this axis have the same extent: its size is not fixed, and it is no captured tensor's
  /// axis.
  bool isShared() const;
  friend bool operator==(const AxisParam &, const AxisParam &) = default;
};

/// A dimension of a captured tensor.
struct TensorDimension {
  std::string_view tensor;
  int dim;
};
/// The dimension of a captured tensor that an axis called tensors.NAME.DIM denotes; nothing for any other axis.
std::optional<TensorDimension> tensorDimension(std::string_view axis);

/// What a kernel does with an operand.
enum class OperandRole {
  In,         ///< reads it
  Out,        ///< writes all of it
  Accumulate, ///< adds to what the caller left there
  Workspace,  ///< keeps intermediate values there, in the launch's workspace
};
/// "in", "out", "accumulate" or "workspace"
const char *name(OperandRole role);
std::optional<OperandRole> parseOperandRole(std::string_view text);

/// Declares an operand of a kernel: a tensor whose axes have names. An axis without a fixed size has the same extent in
/// all operands of a launch. An operand whose last axis has a fixed size is read and written by tiles: the last axis
/// has stride 1, and the address and the other strides are multiples of 16 bytes.
struct OperandParam {
  std::string name; ///< "q", "k", "v", "o", "lse": the member of LaunchArgs; any other: one of LaunchArgs::operands
  DType dtype = DType::F32;
  OperandRole role = OperandRole::In;
  bool optional = false; ///< may be left out
  std::vector<AxisParam> axes = {};

  int rank() const { return int(axes.size()); }
  bool isTiled() const { return !axes.empty() && axes.back().size > 0; }
  friend bool operator==(const OperandParam &, const OperandParam &) = default;
};

/// The operands of the forward pass of a variant: Q [b, h, q, d], K [b, hkv, k, d], V [b, hkv, k, dv], O [b, h, q, dv],
/// and the optional LSE [b, h, q]. If keys are in pages (Variant::keyPages), K is [page, hkv, slot, d] and V is
/// [page, hkv, slot, dv], with `pageSize` slots.
std::vector<OperandParam> forwardOperands(DType dtype, int headDim, int headDimV, bool withLse = true,
                                          int pageSize = 0);
/// Changes operands of a batch to those of packed sequences: [1, h, rows, ...] in place of [b, h, rows, ...]. Operands
/// that have rows of keys alone are changed where `packsKeys`.
void packOperands(std::vector<OperandParam> &operands, bool packsKeys);

/// Declares a captured tensor of a kernel.
struct TensorParam {
  std::string name;
  DType dtype = DType::F32;
  int rank = 0;                         ///< 0 to 4
  std::vector<IndexParam> indices = {}; ///< indices that a launch checks against the tensor's extents
  friend bool operator==(const TensorParam &, const TensorParam &) = default;
};

/// The operand of a captured tensor's gradient is called "grads." and the tensor's name.
inline constexpr std::string_view gradientPrefix = "grads.";

/// The operand of a captured tensor's gradient, with the tensor's dtype and extents.
OperandParam gradientOperand(const TensorParam &tensor);

/// The operands of the backward pass without workspace operands: Q, K, V, dO, and the outputs dQ, dK, dV and the
/// gradients of captured tensors. If rows have `statistics` (softmax), also O and LSE, and dLSE if `withGradientOfLse`
/// holds.
std::vector<OperandParam> backwardOperands(DType dtype, int headDim, int headDimV, bool statistics,
                                           bool withGradientOfLse, const std::vector<TensorParam> &gradients = {});

/// The operand of a value that the forward pass saves for the backward pass is called "saved." and the value's name.
inline constexpr std::string_view savedPrefix = "saved.";

/// The operand of a saved value (Saving, attune/Compile.h): Out in the forward pass, In in the backward pass. "dropout"
/// is a bit and "score" a float32 for each query and key. Elements are in blocks of 16 x 16, in an order that only this
/// kernel's two passes know: memory that another kernel or another launch wrote cannot be used.
OperandParam savedOperand(std::string_view what, OperandRole role);
/// The shape of a saved operand for a launch of these sizes: [batch, heads, ceil(queries / 16), ceil(keys / 16), n], n
/// bytes or floats.
std::array<int64_t, 5> savedShape(const OperandParam &operand, int64_t batch, int64_t heads, int64_t queries,
                                  int64_t keys);

/// An axis whose extent a launch computes. Workspace operands and grids may have it.
struct DerivedAxis {
  enum class Rule : uint8_t {
    Rows, ///< queries of all query heads of a key head: the extent of q times LaunchParams::group
    /// Splits of the keys of a tile of rows (split-KV): keySplits() of LaunchParams.h, for the kernel whose grid has
    /// the axis.
    Splits,
    Pages, ///< keys of a paged cache: the extent of `of` times `by`
    Slots, ///< blocks that are resident at a time: blocksPerSm on each multiprocessor
    /// The most work items that sequences with lengths in device memory can have: one for each block that is resident
    /// at a time, and one for each tile of `by` rows (of the axis `of`) of each sequence. This number applies to each
    /// index of the grid's other axes.
    WorkItems,
    TileRows,  ///< rows of a tile: the extent of the axis `of`, at most `by`
    Sequences, ///< packed sequences: the extent of `of`, a vector of their first rows and the end, minus 1
    /// Rows where each packed sequence begins at a multiple of `by` rows: `by` times the extent of the axis `of` over
    /// `by` plus the number of sequences and 2, for the rows before the first and after the last. 0 without rows.
    SequenceRows,
  };
  std::string name;
  Rule rule = Rule::Rows;
  int by = 1; ///< Splits: keys of a tile; Pages: keys of a page; WorkItems, TileRows, SequenceRows: rows of a tile
  int blocksPerSm = 1; ///< Splits, Slots, WorkItems: resident blocks of a multiprocessor
  /// Pages and Sequences: the dimension of a captured tensor that counts a sequence's pages (tensors.NAME.1), or
  /// sequences (tensors.NAME.0). WorkItems, TileRows and SequenceRows: the axis of rows, which is an operand's axis or a
  /// derived axis before this one.
  std::string of = {};
  friend bool operator==(const DerivedAxis &, const DerivedAxis &) = default;
};
/// "rows", "splits", "pages", "slots", "work_items", "tile_rows", "sequences" or "sequence_rows"
const char *name(DerivedAxis::Rule rule);
/// Whether DerivedAxis::of is a dimension of a captured tensor, and whether it is an axis of rows.
bool isOfTensor(DerivedAxis::Rule rule);
bool isOfRows(DerivedAxis::Rule rule);
std::optional<DerivedAxis::Rule> parseDerivedRule(std::string_view text);

/// Says that the captured bool tensor `tensor` is a mask of blocks of rows x columns: its last two extents
/// cover ceil(Sq / rows) x ceil(Sk / columns), the one before (rank 3 and 4) is 1 or H, and the first of
/// rank 4 is 1 or B.
struct BlockPatternParam {
  std::string tensor;
  int rows = 0;
  int columns = 0;
  friend bool operator==(const BlockPatternParam &, const BlockPatternParam &) = default;
};

/// Says that the kernel takes a tensor map of an operand or a captured tensor: the launch describes the tensor to
/// TMA in boxes of rows x columns, stored in shared memory in panels of `swizzle` bytes (32, 64 or 128). If strides
/// or extents of a captured tensor or its gradient do not allow a map (LaunchParams::mapped), the launch starts a
/// fallback kernel (MapCondition). Boxes of a `limited` map end at a row that each copy gives.
struct TensorMapParam {
  std::string tensor; ///< the name of the operand or captured tensor
  int rows = 0;
  int columns = 0;
  int swizzle = 0;
  bool captured = false; ///< whether it is a captured tensor
  bool limited = false;
  /// Whether a launch may run without the map, because captured tensors and their gradients may have any strides.
  bool isOptional() const { return captured || tensor.starts_with(gradientPrefix); }
  friend bool operator==(const TensorMapParam &, const TensorMapParam &) = default;
};

/// What a kernel takes. The order of `scalars`, `operands` and `tensors` is the order of the packed parameters
/// (LaunchParams.h); a block pattern's tensor is among `tensors`.
struct KernelSignature {
  DType dtype = DType::F32;
  int headDim = 0;
  int headDimV = 0;
  std::vector<OperandParam> operands = {};
  bool dropout = false; ///< the kernel has dropout; the probability is a run-time value
  bool qOffset = false; ///< the kernel adds LaunchArgs::qOffset to q
  std::vector<ScalarParam> scalars = {};
  std::vector<TensorParam> tensors = {};
  std::optional<BlockPatternParam> blockPattern = {};
  std::vector<TensorMapParam> tensorMaps = {};
  std::vector<DerivedAxis> derived = {};

  /// Names of the axes without a fixed size, each once: first the operands' axes in the order of the operands, then the
  /// derived axes that no operand has.
  std::vector<std::string> axes() const;

  /// Byte offsets in the packed parameters (LaunchParams.h): of the extent of the n-th of axes(), of the n-th scalar,
  /// operand and captured tensor, and of the first tensor map. packedBytes() is the size of all parameters.
  size_t extentOffset(size_t axis) const;
  size_t scalarOffset(size_t scalar) const;
  size_t operandOffset(size_t operand) const;
  size_t tensorOffset(size_t tensor) const;
  size_t tensorMapOffset() const;
  size_t packedBytes() const;
  friend bool operator==(const KernelSignature &, const KernelSignature &) = default;
};

/// The most kernels of a module, and the most axes of a kernel's grid or of a workspace operand.
inline constexpr size_t maxKernels = 24, maxGridAxes = 6;

/// The most bytes that packedBytes() may be.
inline constexpr size_t maxPackedBytes = 4096;

/// Whether a launch starts a kernel, depending on the optional tensor maps that it can make (LaunchParams::mapped).
struct MapCondition {
  int32_t reads = 0;      ///< bits of the maps that the kernel uses, all of which it needs
  int32_t fallbackOf = 0; ///< the maps of the kernel that this one is the fallback of: at least one is missing; or 0
  bool holds(int32_t mapped) const {
    return (reads & ~mapped) == 0 && (fallbackOf == 0 || (fallbackOf & ~mapped) != 0);
  }
  friend bool operator==(const MapCondition &, const MapCondition &) = default;
};

/// The condition that the extent of `axis` is at least 1 and at most the extent of the axis `most`, or 1 if `most` is
/// "".
struct ExtentBound {
  std::string axis, most;
  friend bool operator==(const ExtentBound &, const ExtentBound &) = default;
};

} // namespace attune
#pragma GCC visibility pop
