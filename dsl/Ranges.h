//===- Ranges.h - Interval analysis of expressions in a launch --------------===//
#pragma once

#include "dsl/FloatRange.h"
#include "dsl/Program.h"

#include <array>
#include <unordered_map>

namespace attune::dsl {

/// Interval arithmetic over the operations of a program. A range contains every value that an operation has in the
/// launch, and possibly more. Where an operation could wrap, the range is the whole range of its type. The range of a
/// load is the minimum and maximum of the tensor's elements. Nothing is known of the incoming score.
class Ranges {
public:
  /// `coordinates` are the ranges of b, h, q and k; q includes the q offset. The program must outlive this object.
  Ranges(const Program &program, const std::array<Range, 4> &coordinates)
      : program(program), coordinates(coordinates) {}

  /// The range of the operation at `position`, which has an integer type or bool.
  Range of(int position);
  /// The range of the operation at `position`, which has type f32.
  FloatRange ofFloat(int position);

private:
  Range make(const Instruction &instruction);
  Range arithmetic(const Instruction &instruction);
  Range cast(const Instruction &instruction);
  FloatRange makeFloat(const Instruction &instruction);

  const Program &program;
  std::array<Range, 4> coordinates;
  std::unordered_map<int, Range> known;
  std::unordered_map<int, FloatRange> knownFloats;
};

} // namespace attune::dsl
