//===- Variant.h - What an attention kernel computes ------------------------===//
//
// A Variant says what is computed, for any shape and architecture; compile() decides how.
//
//     auto slopes  = captured("slopes", f32, rank(1));
//     auto variant = Variant("gemma_local")
//         .scale(1.0f / std::sqrt(128.0f))
//         .score([&](Score s, Index b, Index h, Index q, Index k) { return softcap(s, 50.0f) + slopes[h] * (k - q); })
//         .mask([](Index b, Index h, Index q, Index k) { return q >= k && q - k < 4096; })
//         .dropout(0.1f);
//
// For each batch b, head h, query q and key k:
//
//     s  = scale * <Q[b,h,q,:], K[b,h/group,k,:]>
//     s' = score(s, b, h, q, k)
//     x  = mask(b, h, q, k) ? s' : -inf
//     p  = softmax over k of x, or another normaliser of Normaliser.h
//     O[b,h,q,:] = sum over k of dropout(p) * V[b,h/group,k,:]
//
// A second .score sees the result of the first; several .mask are combined with and. Both accept the
// built-ins of Builtins.h: .mask(causal() && documents(ids)).score(alibi(slopes)).
//
// TEXT. The same variant, for the command line, files and other languages:
//
//     Variant::parse("gemma_local", {.score = "softcap(s, 50) + slopes[h] * (k - q)",
//                                    .mask = "q >= k && q - k < 4096"});
//
// The grammar is C's, with its precedence, over the names s (score only) b h q k B H Sq Sk, the declared
// scalars and tensors, and the earlier `let`s:
//
//     text    = { "let" NAME "=" expr ";" } expr
//     expr    = c ? a : b | a || b | && | '|' | ^ | & | == != | < <= > >= | << >> | + - | * / % | - ! ~ + x
//     primary = literal | NAME | NAME "[" i, j "]" { "[" i "]" } | NAME "(" a, b ")" | "(" expr ")"
//     literal = 1 | 0xff | 5L (i64) | 1.5 | 1e-3 | 2.0f | true | false | inf | nan
//
//     functions: min max abs exp exp2 log log2 tanh sin cos tan sqrt rsqrt pow sigmoid select(c, a, b)
//                softcap(s, c), the casts f32(x) i32(x) i64(x) bool(x), cast(x, i32)
//     of an element of a tensor: clamped(t[i]), broadcast(t[i]): what an index outside of it means (Expr.h)
//     in masks:  causal() causalBottomRight() slidingWindow(l, r) prefixLm(n) chunked(n) documents(ids)
//                keyPadding(lengths)
//     in scores: alibi(slopes) relativeBias(table) bias(t), of the incoming s
//
// An integer literal is i32 where it fits, else i64. A name that is indexed but not declared is a captured
// tensor of f32 with as many dimensions as it has indices; as the argument of a built-in it is what that
// built-in expects (documents and keyPadding: i32 of rank 1; alibi: f32 of rank 1; relativeBias: rank 2;
// bias: rank 3).
//
// MISTAKES. A Variant with a mistake can be passed on; error() holds the first one with the user's file and
// line, and compile() reports it. parse() and fromJson() report it at once, with a caret in the text.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Expr.h"
#include "attune/Normaliser.h"

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// A block-sparse pattern: bool tensor [H or 1, ceil(Sq/rows), ceil(Sk/columns)], or without the first
/// dimension one that all heads share. Element (h, q / rows, k / columns) false hides that block of the score
/// matrix (FlashAttention, Algorithm 5). Query rows count from the first row of Q, without the q offset.
struct BlockPattern {
  TensorDecl tensor;
  int rows = 0;    ///< a positive multiple of 16
  int columns = 0; ///< a positive multiple of 16
  bool operator==(const BlockPattern &) const = default;
};

/// K and V that lie in pages of `size` keys: i32 tensor [B, N] of page numbers, key k of sequence b being row k % size of
/// page pages[b, k / size]. k and v of a launch are [pages, Hkv, size, D], of any strides.
struct KeyPages {
  TensorDecl tensor;
  int size = 0; ///< a positive multiple of 16
  bool operator==(const KeyPages &) const = default;
};

/// The arguments of Variant::parse. Empty text means: score s, everything visible.
struct TextVariant {
  /// A block-sparse pattern by name; an undeclared tensor is bool of rank 3.
  struct Blocks {
    std::string tensor;
    int rows = 0;
    int columns = 0;
  };

  /// Pages of keys by name; an undeclared tensor is i32 of rank 2.
  struct Pages {
    std::string tensor;
    int size = 0;
  };

  std::string score = {};
  std::string mask = {};
  std::vector<TensorDecl> tensors = {}; ///< those that are not used are ignored
  std::vector<ScalarDecl> scalars = {};
  std::optional<float> scale = {};
  std::optional<float> dropout = {};
  bool precise = false;
  bool qOffset = false;
  std::optional<Blocks> blocks = {};
  std::string keyLengths = {};   ///< the lengths of sequences by name; an undeclared tensor is i32 of rank 1
  std::string queryLengths = {}; ///< the same of their queries
  std::optional<Pages> pages = {};
  std::optional<Normaliser> normaliser = {}; ///< unset: softmax
};

/// The declaration of an attention variant. A value type: copies share the immutable expressions.
class Variant {
public:
  /// `name` is an identifier; the kernel carries it.
  explicit Variant(std::string name, std::source_location where = std::source_location::current());

  /// Factor on the dot products, finite. Without a call it is 1 / sqrt(head dim of Q and K).
  Variant &scale(float factor, std::source_location where = std::source_location::current());

  /// f(Score s, Index b, Index h, Index q, Index k) -> number: the new score, a float32. Sees the result of
  /// earlier calls. Every finite score is right, however large: keys masked by the least finite float weigh
  /// nothing beside others, and a row masked in full that way gives the mean of V. What is -infinity counts as
  /// hidden; +infinity and NaN make a row NaN.
  template <typename F> Variant &score(F &&f, std::source_location where = std::source_location::current()) {
    constexpr bool takes = std::is_invocable_v<F, Score, Index, Index, Index, Index>;
    static_assert(takes,
                  ".score takes a function of (Score s, Index b, Index h, Index q, Index k), which are expressions");
    if constexpr (takes) {
      constexpr bool gives = std::is_convertible_v<std::invoke_result_t<F, Score, Index, Index, Index, Index>, Operand>;
      static_assert(gives, "the function of .score gives the new score, an expression or a number");
      if constexpr (gives)
        setScore(traced(f(scoreSoFar(), coordinate(Coordinate::B), coordinate(Coordinate::H), coordinate(Coordinate::Q),
                          coordinate(Coordinate::K)),
                        where),
                 where);
    }
    return *this;
  }

  /// f(Index b, Index h, Index q, Index k) -> bool: whether query q sees key k. And-ed with earlier calls.
  template <typename F> Variant &mask(F &&f, std::source_location where = std::source_location::current()) {
    constexpr bool takes = std::is_invocable_v<F, Index, Index, Index, Index>;
    static_assert(takes, ".mask takes a function of (Index b, Index h, Index q, Index k), which are expressions; the "
                         "score is not among them");
    if constexpr (takes) {
      constexpr bool gives = std::is_convertible_v<std::invoke_result_t<F, Index, Index, Index, Index>, Operand>;
      static_assert(gives, "the function of .mask gives whether q sees k, a bool expression such as q >= k");
      if constexpr (gives)
        addMask(traced(f(coordinate(Coordinate::B), coordinate(Coordinate::H), coordinate(Coordinate::Q),
                         coordinate(Coordinate::K)),
                       where),
                where);
    }
    return *this;
  }

  /// Dropout with probability p in [0, 1). That there is dropout is decided at compile time; p is the default
  /// of the launch value and no part of the cache key.
  Variant &dropout(float p, std::source_location where = std::source_location::current());

  /// Hides the blocks that `pattern` (bool, rank 3, or rank 2 if shared by the heads) leaves out.
  Variant &blocks(const Captured &pattern, int rows, int columns,
                  std::source_location where = std::source_location::current());

  /// Sequence b has the first lengths[b] of the Sk keys (i32, rank 1, [B]; beyond [0, Sk] it counts as the nearer end), and
  /// Sk in expressions is its own length: k - Sk <= q - Sq is causal for the last queries of each. What memory holds of
  /// keys behind it never reaches a result, NaN neither.
  Variant &keyLengths(const Captured &lengths, std::source_location where = std::source_location::current());

  /// Sequence b has the first lengths[b] of the Sq rows of Q (as keyLengths), and Sq in expressions is its own number: steps of
  /// generation and chunks of prompts in one launch. Rows of O and LSE behind it are not written.
  Variant &queryLengths(const Captured &lengths, std::source_location where = std::source_location::current());

  /// Keys lie in pages of `size`, of which `pages` (i32, rank 2, [B, N]) has the numbers: see KeyPages. Sk is N * size. A number
  /// out of range counts as the nearest page; entries behind a sequence's length are not read as numbers of pages.
  Variant &keyPages(const Captured &pages, int size, std::source_location where = std::source_location::current());

  /// What p is of the scores of a row: normalisers::sigmoid(), a definition of one's own (Normaliser.h). Without a call
  /// it is softmax.
  Variant &normaliser(const Normaliser &definition, std::source_location where = std::source_location::current());

  /// Functions accurate to float32 instead of fast approximations, and the score's arithmetic as written.
  /// Without it 16-bit kernels may divide the slope of a bias by distance (ALiBi's u of u * (k - q)) by the scale:
  /// beyond 2^96 * scale in magnitude it counts as that.
  Variant &precise();

  /// Adds the launch's q offset to q in expressions: the rows of Q are queries qOffset, qOffset + 1, ...
  Variant &qOffset();

  /// The same variant under another name, an identifier.
  Variant named(std::string name, std::source_location where = std::source_location::current()) const;

  const std::string &name() const { return variantName; }
  const std::optional<float> &scale() const { return factor; }
  /// The score, f32; none means s itself.
  const std::optional<Expr> &scoreExpr() const { return scoreRoot; }
  /// The mask, bool; none means that all is visible.
  const std::optional<Expr> &maskExpr() const { return maskRoot; }
  bool hasDropout() const { return dropoutDefault.has_value(); }
  /// The run-time default of p, 0 without dropout.
  float dropoutProbability() const { return dropoutDefault.value_or(0.0f); }
  const std::optional<BlockPattern> &blockPattern() const { return pattern; }
  /// Null where all sequences have Sk keys.
  const std::optional<TensorDecl> &keyLengths() const { return lengths; }
  /// Null where all sequences have Sq rows.
  const std::optional<TensorDecl> &queryLengths() const { return rowLengths; }
  const std::optional<KeyPages> &keyPages() const { return pages; }
  /// softmax where none was given.
  const Normaliser &normaliser() const;
  /// Those of normaliser() where one other than softmax was given.
  const std::optional<NormaliserExpressions> &normaliserExpressions() const { return expressions; }
  /// Whether a kernel gives the LSE.
  bool hasLse() const { return !normaliser().lse.empty(); }
  bool isPrecise() const { return preciseMath; }
  bool hasQOffset() const { return offsetQueries; }
  /// Captured tensors in order of first use: score, then mask (each read from left to right), then the
  /// pattern, lengths and pages, then the normaliser's.
  const std::vector<TensorDecl> &tensors() const { return tensorList; }
  /// Run-time scalars in order of first use.
  const std::vector<ScalarDecl> &scalars() const { return scalarList; }
  /// The first mistake. Where there is one, the accessors above hold what was right before it.
  const std::optional<Error> &error() const { return failure; }

  /// The cache key's view of the variant: deterministic text, the same for text and C++, without source
  /// locations and without the value of the dropout probability. Its length is linear in the size of the
  /// graph.
  std::string canonical() const;

  /// The variant as JSON, with expressions as text; fromJson(toJson()) has the same canonical form.
  ///
  ///     {
  ///       "name": "gemma_local",
  ///       "scale": 0.088388346,
  ///       "score": "50.0 * tanh(s / 50.0) + slopes[h] * (k - q)",
  ///       "mask": "q >= k && q - k < 4096",
  ///       "dropout": 0.1,
  ///       "precise": true,
  ///       "qOffset": true,
  ///       "blocks": {"tensor": "pattern", "rows": 64, "columns": 64},
  ///       "keyLengths": "lengths",
  ///       "queryLengths": "new_tokens",
  ///       "keyPages": {"tensor": "pages", "size": 64},
  ///       "normaliser": "softmax",
  ///       "sink": "sinks",
  ///       "tensors": {"slopes": {"dtype": "f32", "rank": 1}},
  ///       "scalars": {"cap": {"dtype": "f32"}}
  ///     }
  ///
  /// Only "name" is required. "normaliser" may be softmax, sigmoid, none, or an object that holds a definition:
  ///
  ///     {"name": "exp2", "statistics": {"m": {"reduce": "max", "initial": "-inf"}, "l": {"reduce": "sum"}},
  ///      "base": "m == -inf ? 0 : m", "rescale": "exp2(m - base)", "p": "exp2(x - base)", "divisor": "l",
  ///      "tensors": {...}, "scalars": {...}}
  ///
  /// Precondition: !error().
  std::string toJson() const;

  /// Reads toJson's form. Errors name the path: "/tensors/slopes/rank is "x", but must be ...".
  static Expected<Variant> fromJson(std::string_view json);

  /// Reads the text form described at the top.
  static Expected<Variant> parse(std::string name, const TextVariant &source);

private:
  template <typename T> static Expr traced(T &&result, std::source_location where) {
    return Expr(Operand(std::forward<T>(result), where).node);
  }
  Expr scoreSoFar() const;
  Variant &setScore(const Expr &result, std::source_location where);
  Variant &addMask(const Expr &result, std::source_location where);
  std::optional<std::string> faultOfLengths(const char *what, const TensorDecl &decl,
                                            const std::optional<TensorDecl> &before) const;
  void setName(std::string name, std::source_location where);
  void fail(Error error);
  void collect();

  std::string variantName;
  std::optional<float> factor;
  std::optional<Expr> scoreRoot;
  std::optional<Expr> maskRoot;
  std::optional<float> dropoutDefault;
  std::optional<BlockPattern> pattern;
  std::optional<TensorDecl> lengths, rowLengths;
  std::optional<KeyPages> pages;
  std::optional<Normaliser> definition; ///< unset: softmax
  std::optional<NormaliserExpressions> expressions;
  bool preciseMath = false;
  bool offsetQueries = false;
  std::vector<TensorDecl> tensorList;
  std::vector<ScalarDecl> scalarList;
  std::optional<Error> failure;
};

} // namespace attune
#pragma GCC visibility pop
