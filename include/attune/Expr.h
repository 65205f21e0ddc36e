//===- Expr.h - The expressions a variant is made of ------------------------===//
//
// A score or a mask is an ordinary C++ lambda. attune calls the lambda once, with symbolic arguments. The operators
// build an immutable graph of nodes. The compiler lowers the graph, an interpreter evaluates it, and it prints as text
// and JSON.
//
//     auto slopes = captured("slopes", f32, rank(1));        // bound to memory at launch
//     auto cap    = scalar("cap", f32);                      // a launch value; a new one does not recompile
//     auto score  = [&](Score s, Index b, Index h, Index q, Index k) {
//       return softcap(s, cap) + slopes[h] * (k - q);        // graph: add(mul(cap, tanh(div(s, cap))), ...)
//     };
//
// TYPES. A value is f32, i32, i64 or bool. Loads of f16 and bf16 give f32.
//
//     | operands                     | result                                              |
//     |------------------------------|-----------------------------------------------------|
//     | integer op f32               | f32 (the integer is cast)                           |
//     | i32 op i64                   | i64                                                 |
//     | literal op f32, literal i64  | the literal itself becomes f32 or i64, without cast |
//     | exp, tanh, pow, ... of int   | f32                                                 |
//     | comparison                   | bool; of bools only == and !=                       |
//     | bool with a number           | an error: use cast(x, i32) or select(c, a, b)       |
//
// C++ literals: integers of at most 32 bits are i32 (unsigned ones that do not fit, i64), wider ones i64,
// float and double f32.
//
// MEANING. Integers wrap; / and % truncate towards zero, and by zero give 0; shift counts are taken modulo
// the width and >> is arithmetic. min and max of a NaN and a number give the number. A cast from f32 to an
// integer truncates towards zero, saturates at the ends of the type, and gives 0 for NaN; a cast to bool is x
// != 0; a cast from bool gives 0 or 1.
//
// An index outside a captured tensor reads the nearest element, never other memory. Such an index is a mistake unless
// the variant says that it is intended. A launch reports the mistakes that follow from the extents alone (Kernel.h);
// findIndexFault (Indices.h) reports all. clamped(t[q - k]) says that reading the nearest element is intended,
// broadcast(t[h][q][k]) says that a dimension of extent 1 serves every index. Neither changes a value.
//
// ERRORS are values. A mistake (types that do not mix, a wrong number of indices) gives an expression whose
// node is Op::Invalid and holds the first Error with the user's file and line. Every operation on such an expression
// returns the same error, and Variant::error() and compile() report the error. Nothing throws.
//
// Expressions are immutable and may be shared between threads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

/// What a node computes. "num" is f32, i32 or i64; both operands of a binary node have the same type.
enum class Op : uint8_t {
  Constant,   ///< a literal: floatValue (f32) or intValue (i32, i64, bool)
  Coordinate, ///< b, h, q or k, i32; q includes the launch's q offset where the variant has one
  Extent,     ///< B, H, Sq or Sk, i32
  Scalar,     ///< the run-time scalar `name`
  Input,      ///< the incoming score s, f32
  Load,       ///< element of captured tensor `name`; the operands are its `rank` indices (i32 or i64)
  Search,     ///< number of elements of captured vector `name` that come before the operand, by `side`, i32
  Add,        ///< (num, num) -> num, also Sub to Max
  Sub,
  Mul,
  Div,
  Rem, ///< integers only
  Min,
  Max,
  Neg, ///< num -> num, also Abs
  Abs,
// Functions of Functions.def: f32 -> f32, or (f32, f32) -> f32.
#define ATTUNE_FUNCTION1(op, ...) op,
#define ATTUNE_FUNCTION2(op, ...) op,
#define ATTUNE_EXPANDED1(op, ...) op,
#include "attune/Functions.def"
  Select, ///< (bool, T, T) -> T
  Lt,     ///< (num, num) -> bool, to Ge
  Le,
  Gt,
  Ge,
  Eq, ///< (T, T) -> bool, also Ne
  Ne,
  And, ///< (bool, bool) -> bool, also Or
  Or,
  Not,    ///< bool -> bool
  BitAnd, ///< (int, int) -> int, to BitXor
  BitOr,
  BitXor,
  BitNot, ///< int -> int
  Shl,    ///< (int, int) -> int, also Shr
  Shr,    ///< arithmetic
  Cast,   ///< any type -> type
  Invalid ///< a mistake: `error` says which
};

/// Lower-case name of an operation: "add", "bitand", "load", ...
std::string_view name(Op op);

enum class Coordinate : uint8_t { B, H, Q, K };
enum class Extent : uint8_t { B, H, Sq, Sk };

/// Whether an index outside a captured tensor is a mistake. The nearest element is read in any case.
enum class IndexRange : uint8_t {
  Checked,   ///< a mistake, which attune reports
  Broadcast, ///< intended in a dimension of extent 1, else a mistake
  Clamped    ///< intended
};

/// Which elements of a vector in ascending order searchsorted counts.
enum class SearchSide : uint8_t {
  Left, ///< those < x
  Right ///< those <= x
};

/// "b", "h", "q", "k".
std::string_view name(Coordinate coordinate);
/// "B", "H", "Sq", "Sk".
std::string_view name(Extent extent);
/// "left", "right".
std::string_view name(SearchSide side);

struct Node;
using NodeRef = std::shared_ptr<const Node>;

/// One node of the graph: plain data, reached only through pointers to const. Fields that an operation does
/// not name above keep their defaults. Nodes are shared (the graph is a DAG), so a walk keeps a table of
/// visited nodes; a recursive walk is safe, as no path is longer than maxDepth.
struct Node {
  static constexpr unsigned maxDepth = 500;
  static constexpr int maxRank = 4;

  Op op = Op::Invalid;
  DType type = DType::F32; ///< F32, I32, I64 or Bool: the type of the value
  std::vector<NodeRef> operands;

  float floatValue = 0;                        ///< Constant of type f32
  int64_t intValue = 0;                        ///< Constant of type i32, i64 or bool (0 or 1)
  Coordinate coordinate = Coordinate::B;       ///< Coordinate
  Extent extent = Extent::B;                   ///< Extent
  std::string name;                            ///< Scalar, Load, Search
  DType elementType = DType::F32;              ///< Load, Search: the tensor's type in memory
  int rank = 0;                                ///< Load: equals operands.size(); Search: 1
  IndexRange indexRange = IndexRange::Checked; ///< Load
  SearchSide side = SearchSide::Left;          ///< Search

  SourceLocation where;       ///< the user's line; for text the file is "score" or "mask"
  unsigned depth = 1;         ///< nodes on the longest path down to a leaf
  std::optional<Error> error; ///< Invalid
};

/// C++ types whose values become constants of the graph.
template <typename T>
concept Literal = std::integral<T> || std::floating_point<T>;

/// A symbolic value: a reference to a node. Copying is cheap. Integer, floating and bool values convert to
/// a constant; no expression converts to bool, so `if (q >= k)` does not compile: use select.
class Expr {
public:
  explicit Expr(NodeRef node) : root(std::move(node)) {}
  template <Literal T> Expr(T literal, std::source_location where = std::source_location::current());

  /// Exists only to give a clear compile error.
  template <std::same_as<bool> T> explicit operator T() const {
    static_assert(
        !std::same_as<T, bool>,
        "an expression has no value before the kernel runs, so that if, ?: and loops cannot decide by it; write "
        "select(condition, a, b)");
    return false;
  }

  const Node &node() const { return *root; }
  const NodeRef &ref() const { return root; }
  Op op() const { return root->op; }
  DType type() const { return root->type; }
  const SourceLocation &where() const { return root->where; }
  /// The first mistake made while building this expression.
  const std::optional<Error> &error() const { return root->error; }

private:
  NodeRef root;
};

/// The incoming score, scale * <Q[b,h,q,:], K[b,h/group,k,:]>, f32.
using Score = Expr;
/// A coordinate b, h, q or k, i32.
using Index = Expr;

//===----------------------------------------------------------------------===//
// Captured tensors and run-time scalars
//===----------------------------------------------------------------------===//

/// Number of dimensions of a captured tensor, as in captured("slopes", f32, rank(1)).
struct Rank {
  int value;
};
constexpr Rank rank(int value) { return {value}; }

/// A captured tensor as an expression sees it: name, element type, rank.
struct TensorDecl {
  std::string name;
  DType dtype = DType::F32;
  int rank = 1; ///< 0 to 4; in text, inferRank takes the number of indices of the first use
  bool operator==(const TensorDecl &) const = default;
};
inline constexpr int inferRank = -1;

/// A run-time scalar: name and type (f32, i32, i64 or bool).
struct ScalarDecl {
  std::string name;
  DType dtype = DType::F32;
  bool operator==(const ScalarDecl &) const = default;
};

struct Operand;
class Captured;

/// The number of elements of a captured vector that are < x, or <= x with SearchSide::Right, i32. The vector holds
/// numbers in ascending order; x has the type of its elements (f32 for f16 and bf16). NaN comes after all numbers, as in
/// NumPy. Of a vector in another order the result is what bisection finds, a number from 0 to the vector's length.
///
///     searchsorted(offsets, q, SearchSide::Right) == searchsorted(offsets, k, SearchSide::Right)   // packed documents
Expr searchsorted(const Captured &vector, Operand x, SearchSide side = SearchSide::Left);

/// A captured tensor with some of its indices given, such as the table[h] in table[h][q]. Converts to the
/// loaded element; a wrong number of indices is an error that names the tensor, its rank and the number.
class Access {
public:
  Access operator[](const Operand &index) const;
  /// The element, placed where the last index was given.
  operator Expr() const;

private:
  friend class Captured;
  TensorDecl tensor;
  std::vector<NodeRef> indices;
  std::source_location declared, used;
};

/// A tensor that expressions read and that a launch binds to memory by name. Elements are
/// table[h][q] or table(h, q); a tensor of rank 0 is read as t(). Indices are i32 or i64 expressions.
///
/// Names are identifiers. Reserved: s b h q k v o lse keep do dq dk dv B H Sq Sk, and the words of the text
/// form true false inf nan let. A bad name, or a rank outside 0 to 4, is reported where the tensor is used.
class Captured {
public:
  Captured(TensorDecl tensor, std::source_location where) : tensor(std::move(tensor)), where(where) {}

  const std::string &name() const { return tensor.name; }
  DType dtype() const { return tensor.dtype; }
  int rank() const { return tensor.rank; }
  const TensorDecl &decl() const { return tensor; }

  Access operator[](const Operand &index) const;
  Expr operator()(std::source_location where = std::source_location::current()) const;
  Expr operator()(Operand i) const;
  Expr operator()(Operand i, Operand j) const;
  Expr operator()(Operand i, Operand j, Operand l) const;
  Expr operator()(Operand i, Operand j, Operand l, Operand m) const;
  Expr operator()(Operand i, Operand j, Operand l, Operand m, Operand n) const;
  /// The element at any number of indices.
  Expr at(std::vector<Expr> indices, std::source_location where = std::source_location::current()) const;

private:
  friend Expr searchsorted(const Captured &vector, Operand x, SearchSide side);
  TensorDecl tensor;
  std::source_location where;
};

/// Names a tensor that a launch binds: captured("bias", bf16, rank(3)).
Captured captured(std::string name, DType dtype, Rank rank,
                  std::source_location where = std::source_location::current());

/// A value that a launch supplies: scalar("cap", f32). A new value does not recompile.
Expr scalar(std::string name, DType dtype, std::source_location where = std::source_location::current());

/// One of B, H, Sq, Sk: the run-time extents, i32.
Expr extent(Extent which, std::source_location where = std::source_location::current());
/// B, H, Sq, Sk in words.
Expr batchSize(std::source_location where = std::source_location::current());
Expr headCount(std::source_location where = std::source_location::current());
Expr queryLength(std::source_location where = std::source_location::current());
Expr keyLength(std::source_location where = std::source_location::current());

/// The symbolic arguments of the lambdas: b, h, q and k (coordinate), and s (inputScore), for code that builds
/// expressions without a lambda.
Index coordinate(Coordinate which);
Score inputScore();

//===----------------------------------------------------------------------===//
// Operators and functions
//===----------------------------------------------------------------------===//

/// An operand of an operator, with the user's source line. An operator cannot have a default argument, so the source
/// line is the default argument of the implicit conversion to Operand.
struct Operand {
  Operand(const Expr &expr, std::source_location where = std::source_location::current())
      : node(expr.ref()), where(where) {}
  Operand(const Access &access, std::source_location where = std::source_location::current())
      : node(Expr(access).ref()), where(where) {}
  Operand(const Captured &tensor, std::source_location where = std::source_location::current())
      : node(tensor(where).ref()), where(where) {}
  template <Literal T>
  Operand(T literal, std::source_location where = std::source_location::current())
      : node(Expr(literal, where).ref()), where(where) {}

  NodeRef node;
  std::source_location where;
};

Expr operator+(Operand a, Operand b);
Expr operator-(Operand a, Operand b);
Expr operator*(Operand a, Operand b);
Expr operator/(Operand a, Operand b);
/// Integers only.
Expr operator%(Operand a, Operand b);
Expr operator-(Operand a);

Expr operator<(Operand a, Operand b);
Expr operator<=(Operand a, Operand b);
Expr operator>(Operand a, Operand b);
Expr operator>=(Operand a, Operand b);
Expr operator==(Operand a, Operand b);
Expr operator!=(Operand a, Operand b);

/// Logical operators on bools. As in C++, the right side counts as evaluated only where the left side does not decide.
/// That matters only for indices outside of a tensor (IndexRange).
Expr operator&&(Operand a, Operand b);
Expr operator||(Operand a, Operand b);
Expr operator!(Operand a);
/// The same operators, as better matches than C++'s built-in operators on types that convert to bool.
template <std::same_as<Expr> E> Expr operator&&(const E &a, Operand b) { return Operand(a, b.where) && b; }
template <std::same_as<Expr> E> Expr operator||(const E &a, Operand b) { return Operand(a, b.where) || b; }
template <std::same_as<Expr> E> Expr operator!(const E &a) { return !Operand(a, {}); }
template <std::same_as<Expr> E, Literal T> Expr operator&&(const E &a, T b) { return Operand(a, {}) && Operand(b, {}); }
template <std::same_as<Expr> E, Literal T> Expr operator||(const E &a, T b) { return Operand(a, {}) || Operand(b, {}); }
template <std::same_as<Expr> E, Literal T> Expr operator&&(T a, const E &b) { return Operand(a, {}) && Operand(b, {}); }
template <std::same_as<Expr> E, Literal T> Expr operator||(T a, const E &b) { return Operand(a, {}) || Operand(b, {}); }

/// Bitwise on integers. On bools the same as &&, || and !=.
Expr operator&(Operand a, Operand b);
Expr operator|(Operand a, Operand b);
Expr operator^(Operand a, Operand b);
/// On integers.
Expr operator~(Operand a);
Expr operator<<(Operand a, Operand b);
Expr operator>>(Operand a, Operand b);

inline Expr &operator+=(Expr &a, Operand b) { return a = Operand(a, b.where) + b; }
inline Expr &operator-=(Expr &a, Operand b) { return a = Operand(a, b.where) - b; }
inline Expr &operator*=(Expr &a, Operand b) { return a = Operand(a, b.where) * b; }
inline Expr &operator/=(Expr &a, Operand b) { return a = Operand(a, b.where) / b; }

Expr min(Operand a, Operand b);
Expr max(Operand a, Operand b);
Expr abs(Operand x);
/// condition ? a : b. The operand that is not selected counts as not evaluated.
Expr select(Operand condition, Operand a, Operand b);
/// x as f32, i32, i64 or bool. A cast to x's own type is x.
Expr cast(Operand x, DType type);
/// Functions of f32 with an f32 result; integer arguments are cast. Functions.def defines each: exp, tanh, erf, pow,
/// gelu, softcap, ...
#define ATTUNE_FUNCTION1(op, name, ...) Expr name(Operand x);
#define ATTUNE_FUNCTION2(op, name, ...) Expr name(Operand x, Operand y);
#define ATTUNE_EXPANDED1(op, name, ...) Expr name(Operand x);
#define ATTUNE_COMPOSITE1(name, ...) Expr name(Operand x);
#define ATTUNE_COMPOSITE2(name, ...) Expr name(Operand x, Operand y);
#define ATTUNE_COMPOSITE3(name, ...) Expr name(Operand x, Operand y, Operand z);
#include "attune/Functions.def"

/// A line of Functions.def.
struct FunctionInfo {
  std::string_view name;
  int parameters = 1;          ///< number of parameters; they are called x, y and z
  std::string_view definition; ///< the C++ definition of a composite function; "" for other functions
  std::string_view summary;
};
/// All functions, in the order of Functions.def.
const std::vector<FunctionInfo> &functions();

/// Says that an index outside of the captured tensor is intended to read the nearest element:
/// clamped(table[h][q - k + 128]). The operand must be an element of a captured tensor.
Expr clamped(Operand element);
/// Says that in a dimension of extent 1 the single element serves every index: broadcast(t[b][h][q][k]). The operand
/// must be an element of a captured tensor.
Expr broadcast(Operand element);

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// The expression in the text form (Variant.h), with the fewest parentheses and casts that parse back to the same
/// graph; f32 constants are preserved to the bit. In large graphs, shared subexpressions get names:
/// "let v0 = ...; v0 * v0".
std::string text(const Expr &expr);

/// The canonical form: one numbered line per distinct operation, without source locations. Two expressions
/// compute the same thing in the same way iff their canonical forms are equal.
///
///     %0 = input f32
///     %1 = constant f32 0x40000000
///     %2 = mul f32 %0 %1
std::string canonical(const Expr &expr);

//===----------------------------------------------------------------------===//
// Implementation
//===----------------------------------------------------------------------===//

namespace detail {
/// A literal of type f32, i32, i64 or bool; an error if it does not fit.
NodeRef floatConstant(double value, std::source_location where);
NodeRef intConstant(DType type, int64_t value, std::source_location where);
NodeRef unfitConstant(uint64_t value, std::source_location where);
} // namespace detail

template <Literal T> Expr::Expr(T literal, std::source_location where) {
  if constexpr (std::floating_point<T>) {
    root = detail::floatConstant(double(literal), where);
  } else if constexpr (std::same_as<T, bool>) {
    root = detail::intConstant(DType::Bool, literal, where);
  } else if constexpr (std::signed_integral<T>) {
    root = detail::intConstant(sizeof(T) <= 4 ? DType::I32 : DType::I64, int64_t(literal), where);
  } else {
    bool small = sizeof(T) <= 4 && uint64_t(literal) <= uint64_t(std::numeric_limits<int32_t>::max());
    if (uint64_t(literal) > uint64_t(std::numeric_limits<int64_t>::max()))
      root = detail::unfitConstant(uint64_t(literal), where);
    else
      root = detail::intConstant(small ? DType::I32 : DType::I64, int64_t(literal), where);
  }
}

} // namespace attune
#pragma GCC visibility pop
