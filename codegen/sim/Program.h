//===- Program.h - A kernel as a flat list of steps -------------------------===//
//
// Decoder.h makes it from sched IR, the files *Steps.cpp say what each step does, Machine.cpp runs them. Control flow
// is jumps between steps:
//
//     | IR                        | steps                                                                  |
//     |---------------------------|------------------------------------------------------------------------|
//     | scf.if, uniform condition | skipUnless c -> E; then; jump -> F; E: else; F:                        |
//     | scf.if, by lane           | maskIf c -> E; then; E: maskElse c -> F; else; F: maskEnd              |
//     | loop, uniform bounds      | i = lower; H: loopTest i < n -> F; body; i = next; jump -> H; F:       |
//     | loop, by lane             | the same between maskBegin and maskEnd: lanes leave one after another  |
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
/// Dimensions that a view has at most: those of a workspace operand.
constexpr size_t maxRank = maxGridAxes;
constexpr uint32_t allLanes = 0xffffffffu;
/// Who acts for a warp: each of its lanes, and the warp as one.
constexpr int agentsOfWarp = lanes + 1;
/// Fills memory and registers that hold nothing: a NaN as f32, and as a pair of f16 or bf16.
constexpr uint32_t poison = 0x7ffd7ffdu;

/// Where a value lies in a warp's values: one number, or one for each lane.
struct Slot {
  uint32_t at = 0; ///< bytes
  bool varies = false;
};

/// What a warp does after a step.
enum class Go : uint8_t {
  Next,  ///< the next step
  Jump,  ///< the step has set the warp's position
  Pause, ///< the next step; another warp may come first
  Block, ///< this step again, when what the warp waits for has come
  Stop,  ///< a finding
};

using Run = Go (*)(Machine &, Warp &, const Step &);

struct Step {
  Run run = nullptr;
  uint32_t op = 0;              ///< of Program::ops
  uint32_t target = 0;          ///< of a jump
  std::array<Slot, 13> in = {}; ///< a message of 12 fields and its stage are the most
  std::array<Slot, 12> out = {};
  uint8_t inputs = 0;
  bool flag = false;              ///< transpose, whether bounds are clamped, ...
  std::array<int32_t, 3> at = {}; ///< which shared or register buffers, ring, map, view
  std::array<int64_t, 4> number = {};
};

enum class Element : uint8_t { F32, BF16, F16, I32, I64, Bool };
inline int64_t bytesOf(Element element) {
  return element == Element::I64                              ? 8
         : element == Element::Bool                           ? 1
         : element == Element::F32 || element == Element::I32 ? 4
                                                              : 2;
}

/// A shared tile; `panel` is 0 without a swizzle. Its last panel is whole.
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
  /// Byte of (stage, row, column) in the block's shared memory: the table of #sched.swizzle.
  int64_t place(int64_t stage, int64_t row, int64_t column) const {
    int64_t at = column * bytesOf(element), start = offset + stage * stageBytes();
    if (!panel)
      return start + row * rowBytes() + at;
    int64_t exchange = row / (128 / panel) % (panel / 16) * 16;
    return start + at / panel * (rows * panel) + row * panel + (at % panel ^ exchange);
  }
};

/// A lane's array, as in the table of #sched.fragment; element e of the warp's lane l is word (first + e) * 32 + l.
struct RegisterBuffer {
  std::string name;
  std::vector<int64_t> shape;
  int64_t first = 0; ///< word of element 0, over 32
  int64_t words = 1; ///< of an element: 2 for i64
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
  int firstAgent = 0;    ///< copies into stage s are writes of agent firstAgent + s
  bool released = false; ///< whether any op releases its stages
};

struct TensorMap {
  int tensor = 0;
  unsigned number = 0; ///< among those of the launch
  int64_t rows = 0, columns = 0, panel = 0;
};

/// A parameter in global memory.
struct Tensor {
  std::string name;
  Element element = Element::F32;
  int rank = 0;
  size_t offset = 0; ///< of its address, strides and extents, in the packed parameters
};

/// A view: dimensions of `tensor` from `dropped` on, each from where it begins, if that is told.
struct View {
  int tensor = 0, dropped = 0;
  std::vector<Slot> begins = {};
};

struct Role {
  std::string name;
  int firstWarp = 0, warps = 0;
};

/// An op, for findings.
struct Op {
  std::string name;
  SourceLocation where;
};

/// A value that is known before the warps start.
struct Constant {
  Slot slot;
  Element type = Element::I32;
  int64_t bits = 0;
};
struct Parameter {
  Slot slot;
  std::string name;
  std::optional<size_t> offset = {}; ///< in the packed parameters, of a run-time scalar or an extent
  Element type = Element::I32;
};

/// An axis of the grid.
struct Axis {
  std::optional<size_t> offset; ///< of its extent in the packed parameters; nothing where no operand has it
  int64_t size = 0;             ///< its fixed extent, or 0
  int64_t by = 1;
};

/// An extent that is at least 1, and at most another one.
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
  int warps = 0, agents = 0; ///< agents: those of the warps, then the stages of the rings
  std::vector<Axis> grid;
  std::vector<Bound> skippedIf; ///< sizes that keep all of them leave the kernel out
  MapCondition mapped;          ///< where it does not hold another kernel does the work
  bool hasWork = false;
  bool persistent = false; ///< a block has several tiles of work
  bool claims = false;     ///< which it claims
};

} // namespace attune::sim
