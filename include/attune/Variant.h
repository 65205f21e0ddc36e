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
// A second .score receives the result of the first; several .mask are combined by `and`. Both accept the
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
//     of a captured vector in ascending order: searchsorted(t, x), searchsorted(t, x, right) (Expr.h)
//     for indices outside of a tensor: clamped(t[i]), broadcast(t[i]) (Expr.h)
//     in masks:  causal() causalBottomRight() slidingWindow(l, r) prefixLm(n) chunked(n) documents(ids)
//                keyPadding(lengths) localGlobal(w, g) strided(l) fixed(l, c) butterfly(n)
//                bigbird(n, w, g, r, seed) natten(height, width, window)
//                sta(tile, 3 extents in tiles, 3 sides of the window) (Patterns.h)
//     in scores: alibi(slopes) relativeBias(table) bias(t), applied to the incoming s
//
// An integer literal is i32 where it fits, else i64. A name that is indexed but not declared is a captured
// tensor of f32 with as many dimensions as it has indices. An undeclared argument of a built-in gets the dtype and
// rank that the built-in expects (documents and keyPadding: i32 of rank 1; alibi: f32 of rank 1; relativeBias: rank 2;
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

/// A block-sparse pattern: a bool tensor [H or 1, ceil(Sq/rows), ceil(Sk/columns)]. A pattern that all heads share may
/// be a tensor of rank 2, without the first dimension. Where element (h, q / rows, k / columns) is false, that block of
/// the score matrix is masked (FlashAttention, Algorithm 5). Query rows count from the first row of Q, without the q
/// offset.
struct BlockPattern {
  TensorDecl tensor;
  int rows = 0;    ///< a positive multiple of 16
  int columns = 0; ///< a positive multiple of 16
  bool operator==(const BlockPattern &) const = default;
};

/// Packed sequences: the rows of all sequences follow each other. Both tensors are i32 [B + 1] and ascend. Sequence b
/// has the rows of Q from queries[b] to queries[b + 1], and the rows of K and V from keys[b] to keys[b + 1]. Without
/// `keys` only the rows of Q are packed, and K and V are those of a batch or in pages.
struct Sequences {
  TensorDecl queries;
  std::optional<TensorDecl> keys = {};
  bool operator==(const Sequences &) const = default;
};

/// A paged cache of K and V, with pages of `size` keys. `tensor` is i32 [B, N] and contains page numbers: key k of
/// sequence b is row k % size of page tensor[b, k / size]. A launch passes k as [pages, Hkv, size, D] and v as [pages,
/// Hkv, size, Dv], with any strides.
struct KeyPages {
  TensorDecl tensor;
  int size = 0; ///< a positive multiple of 16
  bool operator==(const KeyPages &) const = default;
};

/// The arguments of Variant::parse. An empty score means s; an empty mask means that every key is visible.
struct TextVariant {
  /// A block-sparse pattern, given by its tensor's name; an undeclared tensor is bool of rank 3.
  struct Blocks {
    std::string tensor;
    int rows = 0;
    int columns = 0;
  };

  /// A paged cache, given by the name of the tensor of page numbers; an undeclared tensor is i32 of rank 2.
  struct Pages {
    std::string tensor;
    int size = 0;
  };

  std::string score = {};
  std::string mask = {};
  std::vector<TensorDecl> tensors = {}; ///< unused declarations are ignored
  std::vector<ScalarDecl> scalars = {};
  std::optional<float> scale = {};
  std::optional<float> dropout = {};
  bool precise = false;
  bool qOffset = false;
  std::optional<Blocks> blocks = {};
  std::string keyLengths = {};   ///< name of the tensor of key lengths; an undeclared tensor is i32 of rank 1
  std::string queryLengths = {}; ///< name of the tensor of query lengths; likewise
  std::optional<Pages> pages = {};
  /// Names of the tensors of the packed sequences' first queries and first keys; undeclared ones are i32 of rank 1. The
  /// second is empty where the keys are not packed.
  std::optional<std::pair<std::string, std::string>> sequences = {};
  std::optional<Normaliser> normaliser = {}; ///< unset: softmax
};

/// The declaration of an attention variant. A value type: copies share the immutable expressions.
class Variant {
public:
  /// `name` is an identifier; the kernel carries it.
  explicit Variant(std::string name, std::source_location where = std::source_location::current());

  /// The factor of the dot products; must be finite. The default is 1 / sqrt(head dim of Q and K).
  Variant &scale(float factor, std::source_location where = std::source_location::current());

  /// f(Score s, Index b, Index h, Index q, Index k) -> number: the new score, a float32. `s` is the result of
  /// earlier calls. Finite scores of any magnitude give correct results: a key whose score is the lowest finite float
  /// has weight 0 next to keys with larger scores, and a row in which all keys have that score gives the mean of V. A
  /// score of -infinity masks its key. A score of +infinity or NaN makes the row NaN.
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

  /// f(Index b, Index h, Index q, Index k) -> bool: whether query q sees key k. Combined with earlier calls by `and`.
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

  /// Dropout with probability p in [0, 1). Whether a kernel has dropout is decided at compile time. p is only the
  /// default of the launch value, and no part of the cache key.
  Variant &dropout(float p, std::source_location where = std::source_location::current());

  /// Masks the blocks of the score matrix for which `pattern` is false (BlockPattern). `pattern` is bool of rank 3, or
  /// of rank 2 if all heads share the pattern.
  Variant &blocks(const Captured &pattern, int rows, int columns,
                  std::source_location where = std::source_location::current());

  /// Sequences of different lengths: sequence b consists of the first lengths[b] of the Sk keys. `lengths` is i32 [B],
  /// and its values are clamped to [0, Sk]. In expressions, Sk is the sequence's own length: k - Sk <= q - Sq is a
  /// causal mask for the last queries of each sequence. Memory of K and V after a sequence's end never affects a
  /// result, not even if it contains NaN.
  Variant &keyLengths(const Captured &lengths, std::source_location where = std::source_location::current());

  /// Sequence b consists of the first lengths[b] of the Sq rows of Q; `lengths` is as in keyLengths. In expressions, Sq
  /// is the sequence's own number of rows. One launch can thus contain decoding steps and chunks of prompts. Rows of O
  /// and LSE after a sequence's end are not written.
  Variant &queryLengths(const Captured &lengths, std::source_location where = std::source_location::current());

  /// Packed sequences (Sequences): Q, O and LSE are [1, H, rows, ...], K and V [1, Hkv, rows, ...]. In expressions b is
  /// the number of the sequence, q and k are positions in it, and B, Sq and Sk are the number of sequences and the
  /// sequence's own lengths. Sequences may be empty, and see nothing of each other. Rows of no sequence
  /// have O = 0 and LSE = -inf, and gradients 0. With .keyLengths a sequence has the first of its keys alone.
  Variant &sequences(const Captured &queries, const Captured &keys,
                     std::source_location where = std::source_location::current());

  /// Packed queries alone: K and V are [B, Hkv, Sk, ...], or in pages with .keyPages. Prompts and single tokens can thus
  /// attend to their caches in one launch. With .keyLengths sequence b has the first keyLengths[b] keys of its cache.
  Variant &sequences(const Captured &queries, std::source_location where = std::source_location::current());

  /// K and V are in pages of `size` keys (KeyPages). `pages` is i32 [B, N] and contains page numbers; Sk is N * size. A
  /// page number out of range is replaced by the nearest page. Entries after a sequence's end are not used.
  Variant &keyPages(const Captured &pages, int size, std::source_location where = std::source_location::current());

  /// How the scores of a row become weights p: normalisers::sigmoid(), or a definition of your own (Normaliser.h). The
  /// default is softmax.
  Variant &normaliser(const Normaliser &definition, std::source_location where = std::source_location::current());

  /// Uses functions that are accurate to float32 instead of fast approximations, and computes the score as written.
  /// Without `precise`, 16-bit kernels may divide the slope u of a relative-position bias u * (k - q), as in ALiBi, by
  /// the scale. The magnitude of u is then limited to 2^96 * scale.
  Variant &precise();

  /// Adds the launch's q offset to q in expressions: the rows of Q are queries qOffset, qOffset + 1, ...
  Variant &qOffset();

  /// A copy of the variant with another name, an identifier.
  Variant named(std::string name, std::source_location where = std::source_location::current()) const;

  const std::string &name() const { return variantName; }
  const std::optional<float> &scale() const { return factor; }
  /// The score, f32; none means s itself.
  const std::optional<Expr> &scoreExpr() const { return scoreRoot; }
  /// The mask, bool; none means that every key is visible.
  const std::optional<Expr> &maskExpr() const { return maskRoot; }
  bool hasDropout() const { return dropoutDefault.has_value(); }
  /// The run-time default of p, 0 without dropout.
  float dropoutProbability() const { return dropoutDefault.value_or(0.0f); }
  const std::optional<BlockPattern> &blockPattern() const { return pattern; }
  /// The tensor of key lengths; none means that all sequences have Sk keys.
  const std::optional<TensorDecl> &keyLengths() const { return lengths; }
  /// The tensor of query lengths; none means that all sequences have Sq rows.
  const std::optional<TensorDecl> &queryLengths() const { return rowLengths; }
  const std::optional<Sequences> &sequences() const { return packed; }
  const std::optional<KeyPages> &keyPages() const { return pages; }
  /// The normaliser; softmax by default.
  const Normaliser &normaliser() const;
  /// The parsed expressions of normaliser(); none for softmax.
  const std::optional<NormaliserExpressions> &normaliserExpressions() const { return expressions; }
  /// Whether the kernel computes the LSE.
  bool hasLse() const { return !normaliser().lse.empty(); }
  bool isPrecise() const { return preciseMath; }
  bool hasQOffset() const { return offsetQueries; }
  /// Captured tensors in order of first use: score, then mask (each read from left to right), then the
  /// pattern, lengths, sequences and pages, then the normaliser's.
  const std::vector<TensorDecl> &tensors() const { return tensorList; }
  /// Run-time scalars in order of first use.
  const std::vector<ScalarDecl> &scalars() const { return scalarList; }
  /// The first mistake, if any. The accessors above then return the state before the mistake.
  const std::optional<Error> &error() const { return failure; }

  /// The part of the cache key that identifies the variant: deterministic text, equal for the text form and C++,
  /// without source locations and without the value of the dropout probability. The length is linear in the size of the
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
  ///       "sequences": {"queries": "cu_q", "keys": "cu_k"},  // "keys" may be left out
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

  /// Reads the JSON that toJson writes. Errors name the path: "/tensors/slopes/rank is "x", but must be ...".
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
  Variant &setSequences(const Captured &queries, const Captured *keys, std::source_location where);
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
  std::optional<Sequences> packed;
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
