//===- Parse.cpp - Parser of expressions and of variants in text form -------===//
//
// A recursive-descent parser that calls the public operators and built-ins, so that text and C++ give the
// same graph. The grammar is in Variant.h.
//
//===----------------------------------------------------------------------===//
#include "attune/Builtins.h"
#include "attune/Patterns.h"
#include "attune/Variant.h"

#include "dsl/ExpressionText.h"
#include "dsl/ForeignSyntax.h"
#include "dsl/NearestName.h"
#include "dsl/TextPlace.h"
#include "dsl/Trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>

namespace attune {

namespace {

using dsl::Scope;

enum class TokenKind { End, Integer, Float, Name, Symbol };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  size_t begin = 0;
};

struct InfixOperator {
  std::string_view symbol;
  int strength;
  Expr (*apply)(Operand, Operand);
};

/// Infix operators with C's precedence; a higher strength binds tighter.
constexpr InfixOperator infixOperators[] = {
    {"||", 2, [](Operand a, Operand b) { return a || b; }}, {"&&", 3, [](Operand a, Operand b) { return a && b; }},
    {"|", 4, [](Operand a, Operand b) { return a | b; }},   {"^", 5, [](Operand a, Operand b) { return a ^ b; }},
    {"&", 6, [](Operand a, Operand b) { return a & b; }},   {"==", 7, [](Operand a, Operand b) { return a == b; }},
    {"!=", 7, [](Operand a, Operand b) { return a != b; }}, {"<=", 8, [](Operand a, Operand b) { return a <= b; }},
    {">=", 8, [](Operand a, Operand b) { return a >= b; }}, {"<", 8, [](Operand a, Operand b) { return a < b; }},
    {">", 8, [](Operand a, Operand b) { return a > b; }},   {"<<", 9, [](Operand a, Operand b) { return a << b; }},
    {">>", 9, [](Operand a, Operand b) { return a >> b; }}, {"+", 10, [](Operand a, Operand b) { return a + b; }},
    {"-", 10, [](Operand a, Operand b) { return a - b; }},  {"*", 11, [](Operand a, Operand b) { return a * b; }},
    {"/", 11, [](Operand a, Operand b) { return a / b; }},  {"%", 11, [](Operand a, Operand b) { return a % b; }},
};

using Arguments = std::vector<Expr>;

/// A function whose arguments are expressions.
struct Function {
  std::string_view name;
  size_t arity; ///< the arguments, without optional ones
  Expr (*apply)(const Arguments &);
  size_t most = arity; ///< the arguments, with all optional ones
};

Expr evaluate(const Mask &mask) {
  return mask(coordinate(Coordinate::B), coordinate(Coordinate::H), coordinate(Coordinate::Q),
              coordinate(Coordinate::K));
}

Expr evaluate(const ScoreModifier &score) {
  return score(inputScore(), coordinate(Coordinate::B), coordinate(Coordinate::H), coordinate(Coordinate::Q),
               coordinate(Coordinate::K));
}

constexpr Function functions[] = {
    {"min", 2, [](const Arguments &x) { return min(x[0], x[1]); }},
    {"max", 2, [](const Arguments &x) { return max(x[0], x[1]); }},
    {"abs", 1, [](const Arguments &x) { return abs(x[0]); }},
#define ATTUNE_FUNCTION1(op, name, ...) {#name, 1, [](const Arguments &x) { return name(x[0]); }},
#define ATTUNE_FUNCTION2(op, name, ...) {#name, 2, [](const Arguments &x) { return name(x[0], x[1]); }},
#define ATTUNE_EXPANDED1(op, name, ...) {#name, 1, [](const Arguments &x) { return name(x[0]); }},
#define ATTUNE_COMPOSITE1(name, ...) {#name, 1, [](const Arguments &x) { return name(x[0]); }},
#define ATTUNE_COMPOSITE2(name, ...) {#name, 2, [](const Arguments &x) { return name(x[0], x[1]); }},
#define ATTUNE_COMPOSITE3(name, ...) {#name, 3, [](const Arguments &x) { return name(x[0], x[1], x[2]); }},
#include "attune/Functions.def"
    {"select", 3, [](const Arguments &x) { return select(x[0], x[1], x[2]); }},
    {"clamped", 1, [](const Arguments &x) { return clamped(x[0]); }},
    {"broadcast", 1, [](const Arguments &x) { return broadcast(x[0]); }},
    {"f32", 1, [](const Arguments &x) { return cast(x[0], f32); }},
    {"i32", 1, [](const Arguments &x) { return cast(x[0], i32); }},
    {"i64", 1, [](const Arguments &x) { return cast(x[0], i64); }},
    {"bool", 1, [](const Arguments &x) { return cast(x[0], boolean); }},
    {"causal", 0, [](const Arguments &) { return evaluate(causal()); }},
    {"causalBottomRight", 0, [](const Arguments &) { return evaluate(causalBottomRight()); }},
    {"slidingWindow", 2, [](const Arguments &x) { return evaluate(slidingWindow(x[0], x[1])); }},
    {"prefixLm", 1, [](const Arguments &x) { return evaluate(prefixLm(x[0])); }},
    {"chunked", 1, [](const Arguments &x) { return evaluate(chunked(x[0])); }},
    {"localGlobal", 2,
     [](const Arguments &x) {
       return evaluate(x.size() < 3 ? localGlobal(x[0], x[1]) : localGlobal(x[0], x[1], x[2]));
     },
     3},
    {"strided", 1, [](const Arguments &x) { return evaluate(strided(x[0])); }},
    {"fixed", 2, [](const Arguments &x) { return evaluate(fixed(x[0], x[1])); }},
    {"butterfly", 1, [](const Arguments &x) { return evaluate(butterfly(x[0])); }},
    {"bigbird", 4,
     [](const Arguments &x) {
       return evaluate(x.size() < 5 ? bigbird(x[0], x[1], x[2], x[3]) : bigbird(x[0], x[1], x[2], x[3], x[4]));
     },
     5},
    {"natten", 3, [](const Arguments &x) { return evaluate(natten(x[0], x[1], x[2])); }},
    {"sta", 7, [](const Arguments &x) { return evaluate(sta(x[0], {x[1], x[2], x[3]}, {x[4], x[5], x[6]})); }},
};

/// A built-in mask or score whose argument is the name of a captured tensor.
struct TensorFunction {
  std::string_view name;
  bool isScore;
  TensorDecl expected; ///< dtype and rank of an undeclared argument
  Expr (*apply)(const Captured &);
};

const TensorFunction tensorFunctions[] = {
    {"documents", false, {"", i32, 1}, [](const Captured &t) { return evaluate(documents(t)); }},
    {"keyPadding", false, {"", i32, 1}, [](const Captured &t) { return evaluate(keyPadding(t)); }},
    {"alibi", true, {"", f32, 1}, [](const Captured &t) { return evaluate(alibi(t)); }},
    {"relativeBias", true, {"", f32, 2}, [](const Captured &t) { return evaluate(relativeBias(t)); }},
    {"bias", true, {"", f32, 3}, [](const Captured &t) { return evaluate(bias(t)); }},
};

template <typename Table> auto find(const Table &table, std::string_view name) -> decltype(&table[0]) {
  for (const auto &entry : table)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isNameCharacter(char c) { return isNameStart(c) || isDigit(c); }

class Parser {
public:
  Parser(std::string_view text, std::string_view role, Scope &scope) : source(text), role(role), scope(scope) {
    for (size_t newline = text.find('\n'); newline != std::string_view::npos; newline = text.find('\n', newline + 1))
      lineStarts.push_back(newline + 1);
  }

  Expected<Expr> parse() {
    advance();
    while (!failure && isName("let"))
      definition();
    Expr result = expression();
    if (!failure && token.kind != TokenKind::End)
      unexpected("the end of the text");
    if (failure)
      return *failure;
    return result;
  }

  /// The error at byte `position` of the text.
  Error errorAt(size_t position, std::string message) const {
    return dsl::errorAt(source, position, std::string(role), std::move(message));
  }

private:
  // An operation nests at most three levels, as in x - (...). With this limit text(expr) of the deepest graph can be
  // parsed, and the recursion fits a thread's stack.
  static constexpr int maxNesting = 3 * int(Node::maxDepth) + 100;

  struct Nesting {
    explicit Nesting(Parser &parser) : parser(parser) {
      if (++parser.nesting > maxNesting)
        parser.fail(parser.token.begin, "expression is nested too deeply; name its parts with let");
    }
    ~Nesting() { --parser.nesting; }
    Parser &parser;
  };

  //===--- Errors ---===//

  SourceLocation locate(size_t position) const {
    auto next = std::ranges::upper_bound(lineStarts, position);
    return {std::string(role), unsigned(next - lineStarts.begin()), unsigned(position - *std::prev(next)) + 1};
  }

  Expr none() const { return dsl::constant(0.0f); }

  Expr fail(size_t position, std::string message) {
    if (!failure)
      failure = errorAt(position, std::move(message));
    return none();
  }

  /// Whether `written` is syntax of another language; if so, fails with the remedy.
  bool failForeign(size_t position, std::string_view written) {
    const dsl::ForeignSyntax *foreign = dsl::foreignSyntax(written);
    if (foreign)
      fail(position, fmt::format("\"{}\" is not part of expressions; write {}", written, foreign->remedy));
    return foreign != nullptr;
  }

  Expr unexpected(std::string_view expected) {
    if (failForeign(token.begin, token.text))
      return none();
    std::string found = token.kind == TokenKind::End ? "the end of the text" : fmt::format("\"{}\"", token.text);
    return fail(token.begin, fmt::format("expected {}, but found {}", expected, found));
  }

  /// The expression that `build` returns, with the source location of `position`.
  template <typename Build> Expr built(size_t position, Build &&build) {
    if (failure)
      return none();
    LocationScope here(scope.ofNormaliser ? SourceLocation() : locate(position));
    Expr result = build();
    if (result.error())
      return fail(position, result.error()->message);
    return result;
  }

  //===--- Tokens ---===//

  bool isSymbol(std::string_view text) const { return token.kind == TokenKind::Symbol && token.text == text; }
  bool isName(std::string_view text) const { return token.kind == TokenKind::Name && token.text == text; }

  bool accept(std::string_view symbol) {
    if (!isSymbol(symbol))
      return false;
    advance();
    return true;
  }

  void expect(std::string_view symbol) {
    if (!failure && !accept(symbol))
      unexpected(fmt::format("\"{}\"", symbol));
  }

  void advance() {
    token = {};
    while (next < source.size() && std::string_view(" \t\r\n").find(source[next]) != std::string_view::npos)
      ++next;
    token.begin = next;
    if (next >= source.size() || failure)
      return;
    char c = source[next];
    if (isNameStart(c)) {
      token.kind = TokenKind::Name;
      while (next < source.size() && isNameCharacter(source[next]))
        ++next;
    } else if (isDigit(c) || (c == '.' && next + 1 < source.size() && isDigit(source[next + 1]))) {
      number();
    } else {
      symbol();
    }
    token.text = source.substr(token.begin, next - token.begin);
  }

  void symbol() {
    token.kind = TokenKind::Symbol;
    auto take = [&](std::string_view sign) {
      const bool here = source.substr(next, sign.size()) == sign;
      next += here ? sign.size() : 0;
      return here;
    };
    for (std::string_view two : {"||", "&&", "==", "!=", "<=", ">=", "<<", ">>"})
      if (take(two))
        return;
    for (const dsl::ForeignSyntax &foreign : dsl::foreignSigns())
      if (take(foreign.written))
        return;
    if (std::string_view("+-*/%<>!~&|^?:,;()[]=").find(source[next]) == std::string_view::npos) {
      bool printable = source[next] > ' ' && source[next] <= '~';
      fail(next, printable ? fmt::format("unexpected character '{}'", source[next])
                           : fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(source[next])));
    }
    ++next;
  }

  void number() {
    token.kind = TokenKind::Integer;
    auto digits = [&] {
      while (next < source.size() && isDigit(source[next]))
        ++next;
    };
    auto at = [&](size_t offset, std::string_view set) {
      return next + offset < source.size() && set.find(source[next + offset]) != std::string_view::npos;
    };
    if (at(0, "0") && at(1, "xX")) {
      next += 2;
    } else {
      digits();
      if (at(0, ".")) {
        token.kind = TokenKind::Float;
        ++next;
        digits();
      }
      if (at(0, "eE") && (at(1, "0123456789") || (at(1, "+-") && at(2, "0123456789")))) {
        token.kind = TokenKind::Float;
        next += 2;
        digits();
      }
    }
    // The token includes suffixes, hexadecimal digits and malformed characters; literal() checks them.
    while (next < source.size() && (isNameCharacter(source[next]) || source[next] == '.'))
      ++next;
  }

  //===--- Grammar ---===//

  void definition() {
    advance();
    size_t position = token.begin;
    std::string name(token.text);
    if (token.kind != TokenKind::Name) {
      unexpected("a name after let");
      return;
    }
    if (auto fault = dsl::nameFault("let name", name)) {
      fail(position, *fault);
      return;
    }
    if (bound.contains(name)) {
      fail(position, fmt::format("let name \"{}\" is already defined; use another name", name));
      return;
    }
    advance();
    expect("=");
    Expr value = expression();
    expect(";");
    bound.emplace(std::move(name), value);
  }

  Expr expression() {
    if (failure)
      return none();
    Nesting level(*this);
    Expr condition = binary(0);
    if (failure || !isSymbol("?"))
      return condition;
    size_t position = token.begin;
    advance();
    Expr a = expression();
    expect(":");
    Expr b = expression();
    return built(position, [&] { return select(condition, a, b); });
  }

  Expr binary(int weakest) {
    if (failure)
      return none();
    Nesting level(*this);
    Expr left = unary();
    while (!failure && token.kind == TokenKind::Symbol) {
      size_t position = token.begin;
      if (token.text == "=")
        return fail(position, "\"=\" is not an operator of expressions; write == to compare");
      const InfixOperator *infix = nullptr;
      for (const InfixOperator &candidate : infixOperators)
        if (candidate.symbol == token.text)
          infix = &candidate;
      if (!infix || infix->strength < weakest)
        break;
      advance();
      Expr right = binary(infix->strength + 1);
      left = built(position, [&] { return infix->apply(left, right); });
    }
    return left;
  }

  Expr unary() {
    std::vector<std::pair<char, size_t>> prefixes; // a loop instead of recursion: many prefixes need no stack
    while (!failure && (isSymbol("-") || isSymbol("!") || isSymbol("~") || isSymbol("+"))) {
      prefixes.emplace_back(token.text[0], token.begin);
      advance();
    }
    // As in C++, "-5" is the constant -5.
    bool isNumber =
        token.kind == TokenKind::Integer || token.kind == TokenKind::Float || isName("inf") || isName("nan");
    bool negative = isNumber && !prefixes.empty() && prefixes.back().first == '-';
    if (negative)
      prefixes.pop_back();
    Expr value = isNumber ? literal(negative) : postfix();
    for (auto prefix = prefixes.rbegin(); prefix != prefixes.rend() && !failure; ++prefix)
      value = built(prefix->second, [&] {
        switch (prefix->first) {
        case '-':
          return -value;
        case '!':
          return !value;
        case '~':
          return ~value;
        default:
          return value;
        }
      });
    return value;
  }

  Expr literal(bool negative) {
    if (failure)
      return none();
    Token number = token;
    advance();
    std::string_view digits = number.text;
    auto malformed = [&] {
      return fail(number.begin,
                  fmt::format("malformed number \"{}\"; write for example 1, 0xff, 5L, 1.5 or 1e-3", number.text));
    };
    auto place = [&](auto value) { return built(number.begin, [&] { return Expr(value); }); };

    if (number.kind == TokenKind::Name) {
      float value = digits == "inf" ? INFINITY : NAN;
      return place(negative ? -value : value);
    }

    if (number.kind == TokenKind::Float) {
      if (digits.ends_with('f') || digits.ends_with('F'))
        digits.remove_suffix(1);
      float value = 0;
      auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (status == std::errc::result_out_of_range)
        return fail(number.begin, fmt::format("float literal {} does not fit in f32; use inf or 0.0", number.text));
      if (status != std::errc() || end != digits.data() + digits.size())
        return malformed();
      return place(negative ? -value : value);
    }

    bool isWide = digits.ends_with('L') || digits.ends_with('l');
    if (isWide)
      digits.remove_suffix(1);
    bool isHexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
    if (isHexadecimal)
      digits.remove_prefix(2);
    else if (digits.size() > 1 && digits[0] == '0' && std::all_of(digits.begin(), digits.end(), isDigit))
      return fail(number.begin,
                  fmt::format("integer literal {} starts with 0, which is octal in C++; leave the 0 out", number.text));
    uint64_t magnitude = 0;
    auto [end, status] =
        std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, isHexadecimal ? 16 : 10);
    uint64_t limit = uint64_t(INT64_MAX) + (negative ? 1 : 0);
    if (status == std::errc::result_out_of_range || (status == std::errc() && magnitude > limit))
      return fail(number.begin, fmt::format("integer literal {} does not fit in i64; use a float literal, for example "
                                            "1e20",
                                            number.text));
    if (status != std::errc() || end != digits.data() + digits.size())
      return malformed();
    int64_t value = negative ? int64_t(0 - magnitude) : int64_t(magnitude);
    if (!isWide && value == int32_t(value))
      return place(int32_t(value));
    return place(value);
  }

  Expr postfix() {
    Expr value = primary();
    if (!failure && isSymbol("["))
      return fail(token.begin, "an expression cannot be indexed; only captured tensors can");
    if (!failure && isSymbol("("))
      return fail(token.begin, "an expression cannot be called; write an operator before \"(\"");
    return value;
  }

  Expr primary() {
    if (failure)
      return none();
    if (accept("(")) {
      Expr value = expression();
      expect(")");
      return value;
    }
    if (token.kind != TokenKind::Name)
      return unexpected("an expression");

    std::string name(token.text);
    size_t position = token.begin;
    advance();
    if (failure)
      return none();
    if (isSymbol("[") && !bound.contains(name))
      return element(name, position);
    if (isSymbol("(") && !bound.contains(name))
      return call(name, position);
    return lookUp(name, position);
  }

  Expr lookUp(const std::string &name, size_t position) {
    if (auto definition = bound.find(name); definition != bound.end())
      return definition->second;
    if (name == "true" || name == "false")
      return built(position, [&] { return Expr(name == "true"); });
    if (name == "s" && !scope.ofNormaliser) {
      if (role == "mask")
        return fail(position, "s is not visible in a mask, which sees b, h, q and k; give such keys the score -inf by "
                              "select(c, s, -inf)");
      return inputScore();
    }
    if (scope.ofNormaliser && (name == "s" || name == "q" || name == "k"))
      return fail(position, fmt::format("{} is not visible in a normaliser, which sees {}; what depends on positions "
                                        "belongs in the score",
                                        name, fmt::join(visibleNames(), " ")));
    for (Coordinate which : {Coordinate::B, Coordinate::H, Coordinate::Q, Coordinate::K})
      if (name == attune::name(which))
        return coordinate(which);
    for (Extent which : {Extent::B, Extent::H, Extent::Sq, Extent::Sk})
      if (name == attune::name(which))
        return built(position, [&] { return extent(which); });
    if (auto known = scope.scalars.find(name); known != scope.scalars.end())
      return built(position, [&] { return scalar(name, known->second); });
    if (auto known = scope.tensors.find(name); known != scope.tensors.end())
      return load(known->second, {}, position);
    if (find(functions, name) || find(tensorFunctions, name) || name == "cast" || name == attune::name(Op::Search))
      return fail(position, fmt::format("\"{}\" is a function; write {}(...)", name, name));
    if (failForeign(position, name))
      return none();
    if (std::string meant = dsl::nearestName(name, visibleNames()); !meant.empty())
      return fail(position, fmt::format("unknown name \"{}\"; did you mean {}?", name, meant));
    if (std::string meant = dsl::nearestName(name, visibleFunctions()); !meant.empty())
      return fail(position, fmt::format("unknown name \"{}\"; did you mean {}(...)?", name, meant));
    return fail(position, fmt::format("unknown name \"{0}\"; declare it as a scalar, index it as a tensor as in "
                                      "{0}[h], or use {1}",
                                      name,
                                      scope.ofNormaliser ? fmt::format("{}", fmt::join(visibleNames(), " "))
                                      : role == "mask"   ? "b h q k B H Sq Sk"
                                                         : "s b h q k B H Sq Sk"));
  }

  /// The names of values in scope: coordinates, extents, constants, scalars, tensors and let definitions.
  std::vector<std::string> visibleNames() const {
    std::vector<std::string> names = {"b", "h", "B", "H", "Sq", "Sk", "true", "false", "inf", "nan"};
    if (!scope.ofNormaliser)
      names.insert(names.begin() + 2, {"q", "k"});
    if (role == "score")
      names.push_back("s");
    auto append = [&](const auto &table) {
      for (const auto &entry : table)
        names.push_back(entry.first);
    };
    append(bound);
    append(scope.scalars);
    append(scope.tensors);
    return names;
  }

  /// The names of all functions.
  std::vector<std::string> visibleFunctions() const {
    std::vector<std::string> names;
    for (const Function &each : functions)
      names.emplace_back(each.name);
    for (const TensorFunction &each : tensorFunctions)
      names.emplace_back(each.name);
    names.insert(names.end(), {"cast", std::string(attune::name(Op::Search))});
    return names;
  }

  /// The declared tensor `name`, or a new declaration with `dtype` and `rank`. A rank that was left open becomes
  /// `rank`.
  TensorDecl &tensor(const std::string &name, DType dtype, int rank) {
    TensorDecl &known = scope.tensors.try_emplace(name, TensorDecl{name, dtype, rank}).first->second;
    if (known.rank == inferRank)
      known.rank = rank;
    return known;
  }

  Expr load(TensorDecl &tensor, const Arguments &indices, size_t position) {
    if (tensor.rank == inferRank)
      tensor.rank = int(indices.size());
    return built(position, [&] { return Captured(tensor, std::source_location::current()).at(indices); });
  }

  Expr element(const std::string &name, size_t position) {
    if (scope.scalars.contains(name))
      return fail(position, fmt::format("\"{}\" is a scalar, but is indexed; leave the indices out", name));
    Arguments indices;
    while (!failure && accept("[")) {
      list(indices, "]");
    }
    if (failure)
      return none();
    return load(tensor(name, f32, int(indices.size())), indices, position);
  }

  /// Parses comma-separated expressions and the closing symbol `close`.
  void list(Arguments &into, std::string_view close) {
    if (accept(close))
      return;
    do
      into.push_back(expression());
    while (!failure && accept(","));
    expect(close);
  }

  Expr call(const std::string &name, size_t position) {
    advance(); // "("
    if (const TensorFunction *function = find(tensorFunctions, name))
      return tensorCall(*function, position);
    if (name == "cast")
      return castCall(position);
    if (name == attune::name(Op::Search))
      return searchCall(position);
    const Function *function = find(functions, name);
    auto known = scope.tensors.find(name);
    if (!function && known == scope.tensors.end())
      return unknownFunction(name, position);

    // As in C++, the argument of prefixLm may be a tensor instead of an expression.
    if (name == "prefixLm" && token.kind == TokenKind::Name && !bound.contains(std::string(token.text)))
      if (auto prefix = scope.tensors.find(token.text); prefix != scope.tensors.end()) {
        size_t restart = next;
        Token first = token;
        advance();
        if (accept(")"))
          return built(position, [&] {
            Captured lengths(tensor(prefix->first, prefix->second.dtype, 1), std::source_location::current());
            return evaluate(prefixLm(lengths));
          });
        next = restart;
        token = first;
      }

    Arguments arguments;
    list(arguments, ")");
    if (failure)
      return none();
    if (!function)
      return load(known->second, arguments, position);
    if (arguments.size() < function->arity || arguments.size() > function->most) {
      const std::string least = function->most > function->arity ? fmt::format("{} or ", function->arity) : "";
      return fail(position, fmt::format("{} takes {}{}, but got {}", name, least,
                                        dsl::count(function->most, "argument", "arguments"), arguments.size()));
    }
    return built(position, [&] { return function->apply(arguments); });
  }

  Expr unknownFunction(const std::string &name, size_t position) {
    if (failForeign(position, name))
      return none();
    std::vector<std::string> names = visibleFunctions();
    for (const auto &[tensor, unused] : scope.tensors) // table(h, q) is table[h, q]
      names.push_back(tensor);
    if (std::string meant = dsl::nearestName(name, names); !meant.empty())
      return fail(position, fmt::format("unknown function \"{}\"; did you mean {}?", name, meant));
    return fail(position,
                fmt::format("unknown function \"{}\"; the functions are {}", name, fmt::join(visibleFunctions(), " ")));
  }

  Expr tensorCall(const TensorFunction &function, size_t position) {
    if (function.isScore && role == "mask")
      return fail(position, fmt::format("{} is a score, but this is a mask; use it in the score", function.name));
    std::string name(token.text);
    if (token.kind != TokenKind::Name || bound.contains(name) || scope.scalars.contains(name))
      return unexpected(fmt::format("the name of a captured tensor as the argument of {}", function.name));
    advance();
    expect(")");
    if (failure)
      return none();
    TensorDecl decl = tensor(name, function.expected.dtype, function.expected.rank);
    return built(position, [&] { return function.apply(Captured(decl, std::source_location::current())); });
  }

  Expr castCall(size_t position) {
    Expr value = expression();
    expect(",");
    if (failure)
      return none();
    std::optional<DType> type = parseDType(token.text);
    if (!type)
      return unexpected("a type: f32, i32, i64 or bool");
    advance();
    expect(")");
    return built(position, [&] { return cast(value, *type); });
  }

  /// Parses the arguments of searchsorted: the name of a captured vector, x, and optionally the side.
  Expr searchCall(size_t position) {
    const size_t begin = token.begin;
    const std::string name(token.text);
    if (token.kind != TokenKind::Name || bound.contains(name))
      return unexpected("the name of a captured tensor as the first argument of searchsorted");
    const auto known = scope.tensors.find(name);
    if (known == scope.tensors.end())
      return fail(begin, unknownVector(name));
    advance();
    if (isSymbol("["))
      return fail(token.begin, fmt::format("searchsorted takes the whole tensor \"{0}\", not an element; write "
                                           "searchsorted({0}, x)",
                                           name));
    expect(",");
    const Expr x = expression();
    SearchSide side = SearchSide::Left;
    if (!failure && accept(",")) {
      if (!isName("left") && !isName("right"))
        return unexpected("left or right");
      side = isName("right") ? SearchSide::Right : SearchSide::Left;
      advance();
      if (isSymbol("="))
        return fail(token.begin, fmt::format("arguments have no names; write searchsorted({}, x, right)", name));
    }
    expect(")");
    if (known->second.rank == inferRank)
      known->second.rank = 1;
    return built(position,
                 [&] { return searchsorted(Captured(known->second, std::source_location::current()), x, side); });
  }

  std::string unknownVector(const std::string &name) const {
    std::vector<std::string> tensors;
    for (const auto &[tensor, unused] : scope.tensors)
      tensors.push_back(tensor);
    if (std::string meant = dsl::nearestName(name, tensors); !meant.empty())
      return fmt::format("unknown tensor \"{}\"; did you mean {}?", name, meant);
    return fmt::format(
        "unknown tensor \"{}\"; declare the vector that searchsorted reads, for example as i32 of rank 1", name);
  }

  std::string_view source;
  std::vector<size_t> lineStarts = {0}; ///< offsets of lines: locate() searches them once for each operation
  std::string_view role;                ///< "score", "mask" or the name of a normaliser's expression
  Scope &scope;
  std::map<std::string, Expr> bound;
  Token token;
  size_t next = 0;
  int nesting = 0;
  std::optional<Error> failure;
};

} // namespace

bool dsl::isBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

Expected<Expr> dsl::parseExpression(std::string_view text, std::string_view role, Scope &scope) {
  return Parser(text, role, scope).parse();
}

Error dsl::errorInText(std::string_view text, std::string_view role, std::string message) {
  Scope scope;
  return Parser(text, role, scope).errorAt(text.find_first_not_of(" \t\r\n"), std::move(message));
}

std::optional<Error> dsl::declare(Scope &scope, const std::vector<TensorDecl> &tensors,
                                  const std::vector<ScalarDecl> &scalars) {
  for (const TensorDecl &tensor : tensors) {
    if (auto fault = dsl::nameFault("tensor name", tensor.name))
      return Error{*fault};
    if (tensor.rank != inferRank && (tensor.rank < 0 || tensor.rank > Node::maxRank))
      return Error{fmt::format("tensor \"{}\" has rank {}, but must have rank 0 to {}; merge some of its dimensions",
                               tensor.name, tensor.rank, Node::maxRank)};
    if (!scope.tensors.try_emplace(tensor.name, tensor).second)
      return Error{fmt::format("tensor \"{}\" is declared twice; leave one declaration out", tensor.name)};
  }
  for (const ScalarDecl &decl : scalars) {
    if (Expr probe = scalar(decl.name, decl.dtype); probe.error())
      return Error{probe.error()->message};
    if (scope.tensors.contains(decl.name))
      return Error{fmt::format("\"{}\" is declared as a tensor and as a scalar; use one name for each", decl.name)};
    if (!scope.scalars.try_emplace(decl.name, decl.dtype).second)
      return Error{fmt::format("scalar \"{}\" is declared twice; leave one declaration out", decl.name)};
  }
  return std::nullopt;
}

Expected<Variant> Variant::parse(std::string name, const TextVariant &source) {
  LocationScope nowhere({});
  Scope scope;
  if (auto error = dsl::declare(scope, source.tensors, source.scalars))
    return *error;

  Variant variant(std::move(name));
  if (source.scale)
    variant.scale(*source.scale);
  if (source.dropout)
    variant.dropout(*source.dropout);
  if (source.precise)
    variant.precise();
  if (source.qOffset)
    variant.qOffset();
  if (variant.error())
    return *variant.error();

  for (std::string_view role : {"score", "mask"}) {
    std::string_view text = role == "score" ? source.score : source.mask;
    if (dsl::isBlank(text))
      continue;
    Expected<Expr> root = dsl::parseExpression(text, role, scope);
    if (!root)
      return root.error();
    if (role == "score")
      variant.setScore(*root, std::source_location::current());
    else
      variant.addMask(*root, std::source_location::current());
    if (variant.error())
      return dsl::errorInText(text, role, variant.error()->message);
  }

  if (source.normaliser)
    variant.normaliser(*source.normaliser);
  /// The declared tensor `name`, or one with `dtype` and `rank` if `name` is not declared.
  auto tensor = [&](const std::string &name, DType dtype, int rank) {
    TensorDecl decl{name, dtype, rank};
    if (auto known = scope.tensors.find(name); known != scope.tensors.end())
      decl = {name, known->second.dtype, known->second.rank == inferRank ? rank : known->second.rank};
    return Captured(decl, std::source_location::current());
  };
  if (source.blocks)
    variant.blocks(tensor(source.blocks->tensor, boolean, 3), source.blocks->rows, source.blocks->columns);
  if (!source.keyLengths.empty())
    variant.keyLengths(tensor(source.keyLengths, i32, 1));
  if (!source.queryLengths.empty())
    variant.queryLengths(tensor(source.queryLengths, i32, 1));
  if (source.sequences)
    source.sequences->second.empty()
        ? variant.sequences(tensor(source.sequences->first, i32, 1))
        : variant.sequences(tensor(source.sequences->first, i32, 1), tensor(source.sequences->second, i32, 1));
  if (source.pages)
    variant.keyPages(tensor(source.pages->tensor, i32, 2), source.pages->size);
  if (variant.error())
    return *variant.error();
  return variant;
}

} // namespace attune
