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
//     | entries       | its grid, of dimension axis 0                                |
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
/// the axis's name. They then point into the AxisParam that was passed to wordsFor(), which must outlive them.
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

/// An axis whose extent a launch computes, as DerivedAxis.
struct DerivedTable {
  DerivedAxis::Rule rule;
  int axis;                ///< its number among the axes
  dimension_table of;      ///< what the extent follows from: counts tiles for splits and work items, else elements
  int64_t by, blocksPerSm; ///< as in DerivedAxis
  const entry_table *grid; ///< the first entry whose grid has the axis, or null
};

/// The tables of one kernel image. The image must satisfy checkSignature(), and must outlive the tables.
struct LaunchTables {
  explicit LaunchTables(const KernelImage &image);
  LaunchTables(const LaunchTables &) = delete;

  const KernelImage &source;
  image_table image = {};
  kernel_table kernel = {};
  std::vector<DerivedTable> derived = {};

  /// The number of an axis among the axes, or -1.
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
