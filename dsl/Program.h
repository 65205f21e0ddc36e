//===- Program.h - A variant as a flat list of operations -------------------===//
//
// What looks at the values of a variant's expressions on the host: the indices of captured tensors. The CPU and GPU
// targets compile the graph instead; the reference has an interpreter of its own.
//
//     Program program(variant, bindings);
//     Evaluator row(program, program.needsOf({program.mask}));
//     row.startRow(b, h, q);
//     row.run(keyBegin, count, nullptr);               // of keys [keyBegin, keyBegin + count)
//     row.integers(program.mask)[i]                    // of key keyBegin + i
//
// Numbers are those of Expr.h, floats in float32. All operands of an operation are evaluated; what is evaluated by the
// meaning of select, && and || is asked of Evaluator::evaluated.
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

/// What the names in a variant stand for; all of them are there, with the declared types and ranks.
struct Bindings {
  std::map<std::string, Tensor, std::less<>> tensors = {};   ///< in host memory, no extent 0
  std::map<std::string, uint64_t, std::less<>> scalars = {}; ///< the value's bits, in the low bytes
  std::array<int64_t, 4> extents = {};                       ///< B, H, Sq, Sk
  const Tensor *keyLengths = nullptr,
               *queryLengths = nullptr; ///< of each b, where they differ: Sk and Sq are those of b

  /// Keys and queries of sequence b.
  int64_t keysOf(int64_t b) const;
  int64_t queriesOf(int64_t b) const;
};

/// One operation.
struct Instruction {
  const Node *node = nullptr;
  std::vector<int> operands = {}; ///< positions of earlier ones
  bool perKey = false;            ///< depends on k or s
  int64_t integer = 0;            ///< Constant, Extent and Scalar
  float real = 0;                 ///< the same of type f32
  Tensor tensor = {};             ///< Load; Extent Sk where sequences have lengths of their own
};

/// The operations of a variant's mask and score, operands first, each once. The variant and the bindings outlive it.
class Program {
public:
  Program(const Variant &variant, const Bindings &bindings);

  std::vector<Instruction> instructions;
  int mask = -1, score = -1; ///< the last operations, -1 where the variant has none

  const Instruction &operator[](int position) const { return instructions[size_t(position)]; }
  int size() const { return int(instructions.size()); }
  /// Whether operand `i` of `user` is evaluated only where the first operand says so, and if so, where that is `*when`.
  static bool guards(const Node &user, size_t i, bool *when);
  /// Which operations the values of `positions` need, these included.
  std::vector<bool> needsOf(std::span<const int> positions) const;

private:
  int add(const Node &node, const Bindings &bindings);
  std::unordered_map<const Node *, int> positions;
};

/// Evaluates the needed operations of a program, for one row (b, h, q) at a time and up to `maxRun` of its keys. One
/// thread's.
class Evaluator {
public:
  static constexpr int64_t maxRun = 256;

  Evaluator(const Program &program, std::vector<bool> needed);

  /// Sets the coordinates that the expressions see: q has the q offset.
  void startRow(int64_t b, int64_t h, int64_t q);
  /// Evaluates keys [keyBegin, keyBegin + count), 0 < count <= maxRun. `scores` holds their s where the score's Input
  /// is needed.
  void run(int64_t keyBegin, int64_t count, const float *scores);

  /// Values of the last run, for each key.
  const int64_t *integers(int position) const { return results[size_t(position)].integers.data(); }
  const float *reals(int position) const { return results[size_t(position)].reals.data(); }

  /// For each key of the last run, whether the operation is evaluated by the meaning of select, && and ||. `wanted` are
  /// the operations to ask about and those between them and a root, whose conditions are needed; `isVisible` says of a
  /// key whether anything is.
  const std::vector<uint8_t> &evaluated(int position) const { return marks[size_t(position)]; }
  void markEvaluated(const std::vector<bool> &wanted, const uint8_t *isVisible);

private:
  /// One of the two is used, by type.
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

  const Program &program;
  std::vector<bool> needed;
  std::vector<Register> results;
  std::vector<std::vector<uint8_t>> marks;
  std::array<int64_t, 3> row = {};
  int64_t begin = 0, lanes = 1;
  const float *scores = nullptr;
};

} // namespace attune::dsl
