//===- LaunchTables.h - A kernel image as tables of the launcher ------------===//
//
//     const LaunchTables tables(image);                               // once for each kernel
//     packLaunch(tables, device, multiprocessors, 0, args, packed);   // for each launch (runtime/Launch.h)
//
// The tables contain what a launch reads of a KernelImage, with numbers instead of the names of axes and tensors. A
// kernel with one axis n, an input x of [n, 64] and an output y of [n] has these tables:
//
//     | table         | rows                                                         |
//     |---------------|--------------------------------------------------------------|
//     | axes          | n                                                            |
//     | operands      | x, tiled, of dimensions axis 0 and size 64; y, of axis 0     |
//     | entries       | the kernel, with a grid of one dimension, axis 0             |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Launcher.h"

#include "attune/Kernel.h"

#include <memory>
#include <string_view>
#include <vector>

namespace attune {

/// Words for an axis in error messages. For an axis that no operand of forwardOperands() has, the first four words are
/// the axis's name; these words point into the AxisParam that was passed to wordsFor(), which must outlive the words.
struct AxisWords {
  const char *axis;   ///< the axis's name: "q"
  const char *extent; ///< the extent in a shape: "Sq"
  const char *noun;   ///< what the extent is: "length"
  const char *stride; ///< word for the axis's stride: "row"
  const char *option; ///< for an axis of fixed size: the compile option that sets the size; else ""
  int64_t most;       ///< the greatest extent allowed
  const char *remedy; ///< advice where the extent is greater than `most`
};

AxisWords wordsFor(const AxisParam &axis);

/// A DerivedAxis (an axis whose extent a launch computes from other extents) with numbers instead of names.
struct DerivedTable {
  DerivedAxis::Rule rule;
  int axis;                ///< index of this axis in the table of axes
  dimension_table of;      ///< the dimension to compute the extent from: counts tiles for splits and work items
  int64_t by, blocksPerSm; ///< as in DerivedAxis
  const entry_table *grid; ///< the first kernel (entry) whose grid has the axis, or null
};

/// The tables of one kernel image. The image must satisfy checkSignature(), and must outlive the tables.
struct LaunchTables {
  explicit LaunchTables(const KernelImage &image);
  LaunchTables(const LaunchTables &) = delete;

  const KernelImage &source;
  image_table image = {};
  kernel_table kernel = {};
  std::vector<DerivedTable> derived = {};

  /// The index of the axis `name` in the table of axes, or -1.
  int axisNumber(std::string_view name) const;
  /// One dimension of an operand or a grid. The result points into `axis`.
  dimension_table dimensionOf(const AxisParam &axis) const;

private:
  /// Keeps an array as long as the tables, and returns its address.
  template <typename T> const T *keep(std::vector<T> values) {
    auto array = std::make_shared<const std::vector<T>>(std::move(values));
    kept.push_back(array);
    return array->data();
  }
  const dimension_table *keepDimensions(const std::vector<AxisParam> &axes);
  void addAxes();
  void addOperands();
  void addTensors();
  void addEntries();
  void addMaps();
  void addDerived();

  std::vector<std::shared_ptr<const void>> kept = {};
};

} // namespace attune
