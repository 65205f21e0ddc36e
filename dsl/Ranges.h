//===- Ranges.h - Interval analysis of integer expressions in a launch ------===//
#pragma once

#include "dsl/Program.h"

#include <array>
#include <unordered_map>

namespace attune::dsl {

/// A minimum and a maximum, both inclusive.
struct Range {
  int64_t low = 0, high = 0;
  bool within(int64_t least, int64_t greatest) const { return low >= least && high <= greatest; }
};

/// Interval arithmetic over the operations of a program. A range contains every value that an operation has in the
/// launch, and possibly more. Where an operation could wrap, the range is the whole range of its type. The range of a
/// load from an integer tensor is the minimum and maximum of the tensor's elements.
class Ranges {
public:
  /// `coordinates` are the ranges of b, h, q and k; q includes the q offset. The program must outlive this object.
  Ranges(const Program &program, const std::array<Range, 4> &coordinates)
      : program(program), coordinates(coordinates) {}

  /// The range of the operation at `position`, which has an integer type or bool.
  Range of(int position);

private:
  Range make(const Instruction &instruction);
  Range arithmetic(const Instruction &instruction);
  Range cast(const Instruction &instruction);

  const Program &program;
  std::array<Range, 4> coordinates;
  std::unordered_map<int, Range> known;
};

} // namespace attune::dsl
