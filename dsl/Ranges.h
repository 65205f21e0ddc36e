//===- Ranges.h - Which values an integer can have in a launch --------------===//
#pragma once

#include "dsl/Program.h"

#include <array>
#include <unordered_map>

namespace attune::dsl {

/// Least and greatest value, both included.
struct Range {
  int64_t low = 0, high = 0;
  bool within(int64_t least, int64_t greatest) const { return low >= least && high <= greatest; }
};

/// Interval arithmetic over the operations of a program: a range holds every value of the launch, and maybe more. Where
/// an operation could wrap, it is that of the type. The elements of an integer tensor are looked at when an index is
/// made of them.
class Ranges {
public:
  /// `coordinates` are those of b, h, q and k, with the q offset in q. The program outlives this object.
  Ranges(const Program &program, const std::array<Range, 4> &coordinates)
      : program(program), coordinates(coordinates) {}

  /// Of an operation of integers or bool.
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
