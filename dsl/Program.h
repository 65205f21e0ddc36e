//===- Program.h - A variant as a flat list of operations -------------------===//
//
// An interpreter of a variant's expressions on the host, which checks the indices of captured tensors before a launch.
// The CPU and GPU targets compile the graph instead; the float64 reference has an interpreter of its own.
//
//     Program program(variant, bindings);
//     Evaluator row(program, program.needsOf({program.mask}));
//     row.startRow(b, h, q);
//     row.run(keyBegin, count, nullptr);               // of keys [keyBegin, keyBegin + count)
//     row.integers(program.mask)[i]                    // of key keyBegin + i
//
// Arithmetic follows Expr.h, with floats in float32. The interpreter evaluates all operands of an operation.
// Evaluator::evaluated says which operands the semantics of select, && and || would evaluate.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Tensor.h"
#include "attune/Variant.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace attune::dsl {

/// The values of all names in a variant, with the declared types and ranks.
struct Bindings {
  std::map<std::string, Tensor, std::less<>> tensors = {};   ///< in host memory, no extent 0
  std::map<std::string, uint64_t, std::less<>> scalars = {}; ///< the value's bits, in the low bytes
  std::array<int64_t, 4> extents = {};                       ///< B, H, Sq, Sk
  /// Lengths of each sequence b, where these differ: Sk and Sq are then the lengths of sequence b.
  const Tensor *keyLengths = nullptr, *queryLengths = nullptr;

  /// Keys and queries of sequence b.
  int64_t keysOf(int64_t b) const;
  int64_t queriesOf(int64_t b) const;
};

/// One operation.
struct Instruction {
  const Node *node = nullptr;
  std::vector<int> operands = {}; ///< positions of earlier instructions
  bool perKey = false;            ///< depends on k or s
  int64_t integer = 0;            ///< value of a Constant, Extent or Scalar of integer type
  float real = 0;                 ///< value of a Constant or Scalar of type f32
  Tensor tensor = {}; ///< tensor of a Load or Search; lengths of an Extent Sq or Sk that differs between sequences
};

/// The operations of a variant's mask and score, each once, operands first. The variant and the bindings must outlive
/// the program.
class Program {
public:
  Program(const Variant &variant, const Bindings &bindings);

  std::vector<Instruction> instructions;
  int mask = -1, score = -1; ///< the last operations, -1 where the variant has none

  const Instruction &operator[](int position) const { return instructions[size_t(position)]; }
  int size() const { return int(instructions.size()); }
  /// Whether operand `i` of `user` is evaluated only for one value of the first operand (select, && and ||). `*when` is
  /// set to that value.
  static bool guards(const Node &user, size_t i, bool *when);
  /// A flag for each operation: whether the values at `positions` depend on it. The operations at `positions` are
  /// included.
  std::vector<bool> needsOf(std::span<const int> positions) const;

private:
  int add(const Node &node, const Bindings &bindings);
  std::unordered_map<const Node *, int> positions;
};

/// Evaluates the needed operations of a program for one row (b, h, q) at a time and up to `maxRun` of its keys. An
/// Evaluator is for use by one thread.
class Evaluator {
public:
  static constexpr int64_t maxRun = 256;

  Evaluator(const Program &program, std::vector<bool> needed);

  /// Sets the coordinates of a row as the expressions see them: q includes the q offset.
  void startRow(int64_t b, int64_t h, int64_t q);
  /// Evaluates keys [keyBegin, keyBegin + count), 0 < count <= maxRun. `scores` holds the incoming score s of each key;
  /// it may be null if no needed operation reads s.
  void run(int64_t keyBegin, int64_t count, const float *scores);

  /// Values of the last run, for each key.
  const int64_t *integers(int position) const { return results[size_t(position)].integers.data(); }
  const float *reals(int position) const { return results[size_t(position)].reals.data(); }

  /// For each key of the last run, whether the semantics of select, && and || evaluate the operation at `position`.
  /// markEvaluated computes these flags. `wanted` contains the operations of interest and all operations between them
  /// and a root, whose conditions must be needed. For a key that is not `isVisible` no operation counts as evaluated.
  const std::vector<uint8_t> &evaluated(int position) const { return marks[size_t(position)]; }
  void markEvaluated(const std::vector<bool> &wanted, const uint8_t *isVisible);

private:
  /// The values of one operation for each key; the operation's type selects one of the two vectors.
  struct Register {
    std::vector<int64_t> integers;
    std::vector<float> reals;
  };

  void evaluate(int position);
  void integerOperation(const Instruction &instruction, int64_t *to);
  void realOperation(const Instruction &instruction, float *to);
  bool comparison(const Instruction &instruction, int64_t *to);
  void castOperation(const Instruction &instruction, Register &to);
  void load(const Instruction &instruction, Register &to);
  void search(const Instruction &instruction, Register &to);

  const Program &program;
  std::vector<bool> needed;
  std::vector<Register> results;
  std::vector<std::vector<uint8_t>> marks;
  std::array<int64_t, 3> row = {};
  int64_t begin = 0, lanes = 1;
  const float *scores = nullptr;
};

} // namespace attune::dsl
