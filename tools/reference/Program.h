//===- Program.h - Expressions as a flat list of instructions ----------------===//
//
// The reference's own interpreter. A variant's score or mask becomes a list of instructions in evaluation
// order, each node computed once. RowInterpreter runs it for one row (b, h, q): what does not depend on k
// or s is computed once per row, the rest for a run of up to `maxRun` keys at a time.
//
//     Expected<Program> score = Program::compile(*variant.scoreExpr(), bindings);
//     RowInterpreter row(*score);
//     row.startRow(b, h, q);
//     row.run(keyBegin, count, scores);               // s of keys [keyBegin, keyBegin + count)
//     const float *result = row.floats();             // s' of the same keys
//
// Floats are float32 and every operation rounds to it, as the formula says of s': `s + 1e10` is 1e10 for all
// keys. Integers are exact: int32 and int64 wrap, division truncates, x / 0 and x % 0 give 0, the lowest
// integer / -1 wraps, shift counts are taken modulo the width, and an index into a captured tensor is clamped
// per dimension (a tensor without elements reads as 0).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Expr.h"
#include "tools/reference/Npy.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace attune::reference {

/// What the free names of an expression stand for. The maps outlive the program.
struct Bindings {
  const std::map<std::string, HostTensor> *tensors = nullptr;
  const std::map<std::string, HostTensor> *scalars = nullptr; ///< rank-0 tensors
  int64_t batch = 0, heads = 0, queryLength = 0, keyLength = 0;
  const HostTensor *keyLengths = nullptr, *queryLengths = nullptr; ///< [B]: Sk and Sq are those of b
};

/// How many of `all` keys or queries sequence b has.
int64_t keysOf(const HostTensor *lengths, int64_t b, int64_t all);

struct Instruction {
  Op op = Op::Invalid;
  DType type = DType::F32;        ///< of the result
  DType operandType = DType::F32; ///< of the first operand
  std::vector<int> operands;      ///< positions of earlier instructions
  bool perKey = false;            ///< depends on k or s
  bool widened = false;           ///< the same for every key of a row, but read by a perKey instruction
  double floatValue = 0;          ///< Constant and Scalar
  int64_t intValue = 0;           ///< Constant, Scalar and Extent
  Coordinate coordinate = Coordinate::B;
  const HostTensor *tensor = nullptr; ///< Load and Search; the lengths of Extent Sk or Sq
  const Node *node = nullptr;         ///< Load: its name, and what an index outside means; Search: its side
  std::vector<int64_t> strides;       ///< Load, in elements
};

/// The instructions of one expression; the last one is its value.
struct Program {
  std::vector<Instruction> instructions;

  /// Errors: a mistake in the expression, a tensor or scalar that is not bound, or bound with another dtype
  /// or rank.
  static Expected<Program> compile(const Expr &root, const Bindings &bindings);

  /// Whether it calls one of exp to sigmoid, which hardware approximates.
  bool callsFunctions() const;
};

class RowInterpreter {
public:
  static constexpr int64_t maxRun = 256;

  /// `program` outlives the interpreter. Results of exp to sigmoid are multiplied by 1 + functionError or
  /// 1 - functionError, as a hash of instruction and key has it: what functions of that accuracy may give.
  explicit RowInterpreter(const Program &program, float functionError = 0);

  /// Sets b, h and q (with the q offset) for the runs that follow.
  void startRow(int64_t b, int64_t h, int64_t q);
  /// Evaluates keys [keyBegin, keyBegin + count), 0 < count <= maxRun; `scores` holds their s (null for a
  /// mask).
  void run(int64_t keyBegin, int64_t count, const float *scores);

  /// The value at each key of the last run, for an f32 root.
  const float *floats() const { return results.back().floats.data(); }
  /// The same for an i32, i64 or bool root.
  const int64_t *ints() const { return results.back().ints.data(); }

  /// What an instruction gave for a key of the last run, counted from its first: of any type.
  double valueAt(int position, int64_t key) const;

  /// Reads outside of captured tensors, by name.
  bool anyClamped() const { return clampedInRun; } ///< in the last run, evaluated by the formula or not
  using ClampedReads = std::map<std::string, int64_t>;
  /// Adds those of the last run that the formula evaluates: of select the branch taken, of && and || the right side
  /// where the left one does not decide, and of keys those that are `visible`. Elements that say clamped do not count.
  /// Precondition: anyClamped().
  void countClamped(const std::vector<uint8_t> &visible, ClampedReads &reads) const;

private:
  /// One of the two is used, by type.
  struct Register {
    std::vector<float> floats;
    std::vector<int64_t> ints;
  };

  struct Lanes;

  void evaluate(size_t position, int64_t keyBegin, int64_t count, const float *scores);
  /// Instructions without operands, and loads.
  void leaf(const Lanes &lanes, int64_t keyBegin, const float *scores);
  void load(const Lanes &lanes);
  /// An integer or bool of the last run, at one of its keys.
  int64_t intAt(int position, int64_t key) const;
  bool isClamped(const Instruction &load, int64_t key) const;

  void disturb(size_t position, int64_t keyBegin, int64_t count);

  const Program &program;
  float functionError;
  std::vector<Register> results;
  std::array<int64_t, 3> row = {};
  bool clampedInRow = false, clampedInRun = false; ///< whether any index was, evaluated or not
};

} // namespace attune::reference
