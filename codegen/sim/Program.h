//===- Program.h - A kernel as a flat list of steps -------------------------===//
//
// Decoder.h builds a Program from a sched.kernel. The files *Steps.cpp implement the steps, and Machine.cpp runs them.
// Control flow becomes jumps between steps. In the table `E:` labels the next step, and `-> E` is the target to which
// the step before it may jump:
//
//     | IR                        | steps                                                                  |
//     |---------------------------|------------------------------------------------------------------------|
//     | scf.if, uniform condition | skipUnless c -> E; then; jump -> F; E: else; F:                        |
//     | scf.if, per-lane cond.    | maskIf c -> E; then; E: maskElse c -> F; else; F: maskEnd              |
//     | loop, uniform bounds      | i = lower; H: loopTest i < n -> F; body; i = next; jump -> H; F:       |
//     | loop, per-lane bounds     | the same between maskBegin and maskEnd; lanes leave independently      |
//     | for_work grid             | blockId; body                                                          |
//     | for_work persistent       | i = init; workBegin -> F; H: body; i = next; workNext -> H; F:         |
//     | for_work received         | i = init; receiveBegin; H: body; i = next; receiveNext -> H            |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attune::sim {

struct Machine;
struct Warp;
struct Step;

constexpr int lanes = 32;
/// The greatest rank of a view: a workspace operand has up to maxGridAxes dimensions.
constexpr size_t maxRank = maxGridAxes;
constexpr uint32_t allLanes = 0xffffffffu;
/// Agents (components of vector clocks) of a warp: one per lane, and one for the whole warp.
constexpr int agentsOfWarp = lanes + 1;
/// The content of unwritten memory and registers. As f32 it is a NaN; as a pair of f16 or bf16, both are NaN.
constexpr uint32_t poison = 0x7ffd7ffdu;

/// The position of an SSA value in Warp::values.
struct Slot {
  uint32_t at = 0;     ///< byte offset
  bool varies = false; ///< true: the slot holds 32 values, one per lane; false: one uniform value
};

/// What the interpreter does after a step of a warp.
enum class Go : uint8_t {
  Next,  ///< continue with the next step
  Jump,  ///< continue at the position that the step has set
  Pause, ///< continue with the next step, but the scheduler may run another warp first
  Block, ///< suspend the warp until its barrier or ring phase completes, or for good at its end
  Stop,  ///< end the simulation: the step has reported an error in the kernel
};

using Run = Go (*)(Machine &, Warp &, const Step &);

struct Step {
  Run run = nullptr;
  uint32_t op = 0;              ///< index in Program::ops
  uint32_t target = 0;          ///< index of the step to continue with after a jump
  std::array<Slot, 13> in = {}; ///< sched.send has the most inputs: a stage and 12 fields
  std::array<Slot, 12> out = {};
  uint8_t inputs = 0;                 ///< number of inputs
  bool flag = false;                  ///< a property such as `transpose`; see the end of Machine.h
  std::array<int32_t, 3> at = {};     ///< indices of shared tiles, register buffers, rings, tensor maps or views
  std::array<int64_t, 4> number = {}; ///< constants; see the end of Machine.h
};

enum class Element : uint8_t { F32, BF16, F16, I32, I64, Bool };
inline int64_t bytesOf(Element element) {
  return element == Element::I64                              ? 8
         : element == Element::Bool                           ? 1
         : element == Element::F32 || element == Element::I32 ? 4
                                                              : 2;
}

/// A tile in shared memory. `panel` is the width in bytes of the swizzle's panels, or 0 without a swizzle. Rows are
/// padded to whole panels.
struct SharedBuffer {
  std::string name;
  int64_t offset = 0, stages = 1, rows = 0, columns = 0, panel = 0;
  Element element = Element::F32;

  int64_t rowBytes() const {
    const int64_t bytes = columns * bytesOf(element);
    return panel ? (bytes + panel - 1) / panel * panel : bytes;
  }
  int64_t stageBytes() const { return rows * rowBytes(); }
  bool holds(int64_t stage, int64_t row, int64_t column, int64_t count) const {
    return stage >= 0 && stage < stages && row >= 0 && row < rows && column >= 0 && column + count <= columns;
  }
  /// The byte address of (stage, row, column) in the shared memory of the thread block, by the table of #sched.swizzle
  /// (docs/reference/dialects/sched.md).
  int64_t place(int64_t stage, int64_t row, int64_t column) const {
    int64_t at = column * bytesOf(element), start = offset + stage * stageBytes();
    if (!panel)
      return start + row * rowBytes() + at;
    int64_t exchange = row / (128 / panel) % (panel / 16) * 16;
    return start + at / panel * (rows * panel) + row * panel + (at % panel ^ exchange);
  }
};

/// A register tile: each lane holds an array, by the table of #sched.fragment. Element e of lane l is word
/// (first + e) * 32 + l of Warp::registers.
struct RegisterBuffer {
  std::string name;
  std::vector<int64_t> shape;
  int64_t first = 0; ///< element 0 of lane 0 is word 32 * first
  int64_t words = 1; ///< 32-bit words of an element: 2 for i64, else 1
  Element element = Element::F32;

  int64_t size() const {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    return count;
  }
};

struct Ring {
  std::string name;
  int64_t offset = 0, stages = 1, filledBy = 1, emptiedBy = 1;
  int firstAgent = 0;    ///< vector-clock component of the TMA writes to stage 0; firstAgent + s is that of stage s
  bool released = false; ///< whether any op in the kernel releases the ring's stages
};

struct TensorMap {
  int tensor = 0;
  unsigned number = 0; ///< index among the tensor maps of the launch
  int64_t rows = 0, columns = 0, panel = 0;
};

/// A tensor parameter, in global memory.
struct Tensor {
  std::string name;
  Element element = Element::F32;
  int rank = 0;
  size_t offset = 0; ///< byte offset of the address, strides and extents in the packed parameters
};

/// A view of a tensor after the first `dropped` dimensions were sliced away.
struct View {
  int tensor = 0, dropped = 0;
  std::vector<Slot> begins = {}; ///< offsets to add to the indices of the remaining dimensions; may be empty
};

struct Role {
  std::string name;
  int firstWarp = 0, warps = 0;
};

/// The name and location of an op, for error messages.
struct Op {
  std::string name;
  SourceLocation where;
};

/// A constant, written to its slot before the warps start.
struct Constant {
  Slot slot;
  Element type = Element::I32;
  int64_t bits = 0;
};
struct Parameter {
  Slot slot;
  std::string name;
  std::optional<size_t> offset = {}; ///< byte offset in the packed parameters, for a run-time scalar or an extent
  Element type = Element::I32;
};

/// An axis of the grid.
struct Axis {
  std::optional<size_t> offset; ///< byte offset of the extent in the packed parameters; nullopt if no operand has it
  int64_t size = 0;             ///< the extent where it is fixed, else 0
  int64_t by = 1;               ///< elements of the axis in one tile
};

/// The condition 1 <= extent of `axis` <= extent of `most`.
struct Bound {
  Axis axis, most;
};

struct Program {
  std::string name;
  std::vector<Step> steps;
  std::vector<Op> ops;
  std::vector<SharedBuffer> shared;
  std::vector<RegisterBuffer> registers;
  std::vector<Ring> rings;
  std::vector<TensorMap> maps;
  std::vector<Tensor> tensors;
  std::vector<View> views;
  std::vector<Role> roles;
  std::vector<Constant> constants;
  std::vector<Parameter> parameters;
  size_t valueBytes = 0, registerWords = 0, sharedBytes = 0;
  int warps = 0, agents = 0; ///< agents of vector clocks: agentsOfWarp for each warp, then one for each ring stage
  std::vector<Axis> grid;
  std::vector<Bound> skippedIf; ///< the launch skips the kernel where all of these conditions hold
  MapCondition mapped;          ///< the launch skips the kernel where this condition on tensor maps fails
  bool hasWork = false;         ///< whether the kernel has a for_work loop
  bool persistent = false;      ///< whether a thread block computes several tiles of work
  bool claims = false;          ///< whether thread blocks claim tiles of work from a counter
};

} // namespace attune::sim
