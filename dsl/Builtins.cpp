//===- Builtins.cpp - Built-in masks, scores and variants -------------------===//
#include "attune/Builtins.h"

#include "attune/Patterns.h"
#include "dsl/MaskAt.h"
#include "dsl/Trace.h"

#include <cmath>
#include <fmt/format.h>
#include <unordered_map>

namespace attune {

using dsl::maskAt;
using dsl::place;

//===----------------------------------------------------------------------===//
// Combination
//===----------------------------------------------------------------------===//

Mask operator&&(const Mask &a, const Mask &b) {
  return Mask([=](Index bi, Index h, Index q, Index k) {
    Expr left = a(bi, h, q, k), right = b(bi, h, q, k);
    LocationScope scope(left.where());
    return left && right;
  });
}

Mask operator||(const Mask &a, const Mask &b) {
  return Mask([=](Index bi, Index h, Index q, Index k) {
    Expr left = a(bi, h, q, k), right = b(bi, h, q, k);
    LocationScope scope(left.where());
    return left || right;
  });
}

Mask operator!(const Mask &a) {
  return Mask([=](Index b, Index h, Index q, Index k) {
    Expr inner = a(b, h, q, k);
    LocationScope scope(inner.where());
    return !inner;
  });
}

ScoreModifier operator|(const ScoreModifier &first, const ScoreModifier &second) {
  return ScoreModifier(
      [=](Score s, Index b, Index h, Index q, Index k) { return second(first(s, b, h, q, k), b, h, q, k); });
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

namespace {

ScoreModifier scoreAt(std::source_location where, ScoreModifier::Function definition) {
  return ScoreModifier(
      [at = place(where), definition = std::move(definition)](Score s, Index b, Index h, Index q, Index k) {
        LocationScope scope(at);
        return definition(s, b, h, q, k);
      });
}

/// The error for a tensor that does not have the rank that a built-in requires.
Expr rankError(std::string_view builtin, const Captured &tensor, std::string_view required) {
  return dsl::invalid(fmt::format("tensor \"{}\" of {} has rank {}, but must have rank {}; declare it with that rank",
                                  tensor.name(), builtin, tensor.rank(), required),
                      place(std::source_location::current()));
}

} // namespace

Mask causal(std::source_location where) {
  return maskAt(where, [](Index, Index, Index q, Index k) { return q >= k; });
}

Mask causalBottomRight(std::source_location where) {
  return maskAt(where, [](Index, Index, Index q, Index k) { return k - keyLength() <= q - queryLength(); });
}

Mask slidingWindow(Operand left, Operand right) {
  return maskAt(left.where, [=](Index, Index, Index q, Index k) {
    // The negation of a literal is folded to a literal, as in C++ and in the text form.
    Expr l = Expr(left.node);
    Expr low =
        l.op() == Op::Constant && l.type() == DType::I32 && l.node().intValue != std::numeric_limits<int32_t>::min()
            ? dsl::constant(DType::I32, -l.node().intValue)
            : -l;
    return low <= k - q && k - q <= right;
  });
}

Mask prefixLm(Operand n) {
  return maskAt(n.where, [=](Index, Index, Index q, Index k) { return q >= k || k < n; });
}

Mask prefixLm(const Captured &n, std::source_location where) {
  return maskAt(where, [=](Index b, Index, Index q, Index k) {
    if (n.rank() == 0)
      return q >= k || k < n();
    if (n.rank() == 1)
      return q >= k || k < n[b];
    return rankError("prefixLm", n, "0 or 1");
  });
}

Mask chunked(Operand n) {
  return maskAt(n.where, [=](Index, Index, Index q, Index k) { return q / n == k / n; });
}

Mask documents(const Captured &ids, std::source_location where) {
  return maskAt(where, [=](Index b, Index, Index q, Index k) {
    if (ids.rank() == 1)
      return ids[q] == ids[k];
    if (ids.rank() == 2)
      return ids[b][q] == ids[b][k];
    return rankError("documents", ids, "1 or 2");
  });
}

Mask keyPadding(const Captured &lengths, std::source_location where) {
  return maskAt(where, [=](Index b, Index, Index, Index k) {
    return lengths.rank() == 1 ? k < lengths[b] : rankError("keyPadding", lengths, "1");
  });
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

ScoreModifier softcap(Operand c) {
  return scoreAt(c.where, [=](Score s, Index, Index, Index, Index) { return softcap(s, c); });
}

ScoreModifier alibi(const Captured &slopes, std::source_location where) {
  return scoreAt(where, [=](Score s, Index, Index h, Index q, Index k) {
    return slopes.rank() == 1 ? s + slopes[h] * (k - q) : rankError("alibi", slopes, "1");
  });
}

ScoreModifier relativeBias(const Captured &table, std::source_location where) {
  return scoreAt(where, [=](Score s, Index, Index h, Index q, Index k) {
    return table.rank() == 2 ? s + table[h][q - k + keyLength() - 1] : rankError("relativeBias", table, "2");
  });
}

ScoreModifier bias(const Captured &t, std::source_location where) {
  return scoreAt(where, [=](Score s, Index b, Index h, Index q, Index k) {
    if (t.rank() == 2)
      return s + broadcast(t[q][k]);
    if (t.rank() == 3)
      return s + broadcast(t[h][q][k]);
    if (t.rank() == 4)
      return s + broadcast(t[b][h][q][k]);
    return rankError("bias", t, "2, 3 or 4");
  });
}

//===----------------------------------------------------------------------===//
// Registry
//===----------------------------------------------------------------------===//

const std::vector<BuiltinVariant> &builtinVariants() {
  using Type = BuiltinParameter::Type;
  using Arguments = BuiltinVariant::Arguments;
  using Tensors = BuiltinVariant::Tensors;
  auto integer = [](const Arguments &values, const char *name) { return int64_t(values.at(name)); };
  // A side outside the range of int becomes 1, which is invalid too: sides must be multiples of 16.
  auto blockSide = [=](const Arguments &values, const char *name) {
    int64_t value = integer(values, name);
    return value == int32_t(value) ? int(value) : 1;
  };
  // An integer literal is i32 if it fits, as in the text form.
  auto literal = [=](const Arguments &values, const char *name) {
    int64_t value = integer(values, name);
    return value == int32_t(value) ? Expr(int32_t(value)) : Expr(value);
  };
  static const std::vector<BuiltinVariant> entries = {
      {"plain",
       "softmax attention without mask or score",
       {},
       {},
       [](Variant v, const Arguments &, const Tensors &) { return v; }},
      {"causal", "q >= k", {}, {}, [](Variant v, const Arguments &, const Tensors &) { return v.mask(causal()); }},
      {"causal-bottom-right",
       "k - Sk <= q - Sq: causal with the last query beside the last key",
       {},
       {},
       [](Variant v, const Arguments &, const Tensors &) { return v.mask(causalBottomRight()); }},
      {"sliding-window",
       "-left <= k - q <= right",
       {{"left", Type::Int, 256, "keys visible before the query"},
        {"right", Type::Int, 0, "keys visible after the query"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) {
         return v.mask(slidingWindow(literal(a, "left"), literal(a, "right")));
       }},
      {"prefix-lm",
       "q >= k || k < prefix",
       {{"prefix", Type::Int, 128, "keys at the start that every query sees"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) { return v.mask(prefixLm(literal(a, "prefix"))); }},
      {"chunked",
       "q / chunk == k / chunk",
       {{"chunk", Type::Int, 128, "length of a chunk"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) { return v.mask(chunked(literal(a, "chunk"))); }},
      {"local-global",
       "abs(q - k) <= window * dilation, at multiples of dilation, || q < global || k < global (Longformer)",
       {{"window", Type::Int, 128, "keys visible to each side of the query"},
        {"global", Type::Int, 64, "queries and keys at the start that see, and are seen by, all"},
        {"dilation", Type::Int, 1, "distance of the keys in the window"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) {
         return v.mask(localGlobal(literal(a, "window"), literal(a, "global"), literal(a, "dilation")));
       }},
      {"strided",
       "q >= k && (q - k < stride || (q - k) % stride == 0) (Sparse Transformer)",
       {{"stride", Type::Int, 128, "length of the window, and distance of the keys before it"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) { return v.mask(strided(literal(a, "stride"))); }},
      {"fixed",
       "q >= k && (q / length == k / length || k % length >= length - summary) (Sparse Transformer)",
       {{"length", Type::Int, 128, "length of a section"},
        {"summary", Type::Int, 16, "keys at the end of a section that later queries see"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) {
         return v.mask(fixed(literal(a, "length"), literal(a, "summary")));
       }},
      {"butterfly",
       "q / block and k / block differ in at most one binary digit (Pixelated Butterfly)",
       {{"block", Type::Int, 64, "queries and keys of a block"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) { return v.mask(butterfly(literal(a, "block"))); }},
      {"bigbird",
       "blocks of a window, global blocks and random blocks (BigBird)",
       {{"block", Type::Int, 64, "queries and keys of a block"},
        {"window", Type::Int, 1, "blocks visible to each side of the query's"},
        {"global", Type::Int, 1, "blocks at the start that see, and are seen by, all"},
        {"random", Type::Int, 3, "blocks drawn for each row of blocks and head, 0 to 16"},
        {"pattern-seed", Type::Int, 0, "seed of the draws"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) {
         return v.mask(bigbird(literal(a, "block"), literal(a, "window"), literal(a, "global"), literal(a, "random"),
                               literal(a, "pattern-seed")));
       }},
      {"natten",
       "the pixels around a pixel: neighbourhood attention of an image with q = y * width + x",
       {{"height", Type::Int, 32, "rows of the image"},
        {"width", Type::Int, 32, "columns of the image"},
        {"window", Type::Int, 7, "side of the neighbourhood, odd"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) {
         return v.mask(natten(literal(a, "height"), literal(a, "width"), literal(a, "window")));
       }},
      {"sta",
       "the tiles of a video around the query's tile: sliding tile attention, tokens of a tile follow each other",
       {{"tile", Type::Int, 64, "tokens of a tile"},
        {"tiles-t", Type::Int, 4, "tiles along time"},
        {"tiles-h", Type::Int, 4, "tiles along the height"},
        {"tiles-w", Type::Int, 4, "tiles along the width"},
        {"window-t", Type::Int, 3, "tiles of a window along time, odd"},
        {"window-h", Type::Int, 3, "tiles of a window along the height, odd"},
        {"window-w", Type::Int, 3, "tiles of a window along the width, odd"}},
       {},
       [=](Variant v, const Arguments &a, const Tensors &) {
         return v.mask(sta(literal(a, "tile"), {literal(a, "tiles-t"), literal(a, "tiles-h"), literal(a, "tiles-w")},
                           {literal(a, "window-t"), literal(a, "window-h"), literal(a, "window-w")}));
       }},
      {"documents",
       "ids[q] == ids[k]: packed documents",
       {},
       {{"ids", DType::I32, 1}},
       [](Variant v, const Arguments &, const Tensors &t) { return v.mask(documents(t.at("ids"))); }},
      {"key-padding",
       "k < lengths[b]",
       {},
       {{"lengths", DType::I32, 1}},
       [](Variant v, const Arguments &, const Tensors &t) { return v.mask(keyPadding(t.at("lengths"))); }},
      {"softcap",
       "cap * tanh(s / cap)",
       {{"cap", Type::Float, 50, "bound on the magnitude of a score"}},
       {},
       [](Variant v, const Arguments &a, const Tensors &) { return v.score(softcap(a.at("cap"))); }},
      {"alibi",
       "s + slopes[h] * (k - q)",
       {},
       {{"slopes", DType::F32, 1}},
       [](Variant v, const Arguments &, const Tensors &t) { return v.score(alibi(t.at("slopes"))); }},
      {"relative-bias",
       "s + table[h, q - k + Sk - 1]",
       {},
       {{"table", DType::F32, 2}},
       [](Variant v, const Arguments &, const Tensors &t) { return v.score(relativeBias(t.at("table"))); }},
      {"bias",
       "s + broadcast(bias[h, q, k])",
       {},
       {{"bias", DType::F32, 3}},
       [](Variant v, const Arguments &, const Tensors &t) { return v.score(bias(t.at("bias"))); }},
      {"block-sparse",
       "only blocks (rows x columns) that pattern[h, q / rows, k / columns] allows",
       {{"rows", Type::Int, 128, "queries per block, a multiple of 16"},
        {"columns", Type::Int, 128, "keys per block, a multiple of 16"}},
       {{"pattern", DType::Bool, 3}},
       [=](Variant v, const Arguments &a, const Tensors &t) {
         return v.blocks(t.at("pattern"), blockSide(a, "rows"), blockSide(a, "columns"));
       }},
      {"decode",
       "k - Sk <= q - Sq, sequence b of lengths[b] keys, which lie in pages: a step of generation, or a chunk of a "
       "prompt",
       {{"page", Type::Int, 64, "keys per page, a multiple of 16"}},
       {{"lengths", DType::I32, 1}, {"pages", DType::I32, 2}},
       [=](Variant v, const Arguments &a, const Tensors &t) {
         return v.mask(causalBottomRight()).keyLengths(t.at("lengths")).keyPages(t.at("pages"), blockSide(a, "page"));
       }},
  };
  return entries;
}

const BuiltinVariant *findBuiltin(std::string_view name) {
  for (const BuiltinVariant &entry : builtinVariants())
    if (entry.name == name)
      return &entry;
  return nullptr;
}

Expected<Variant> BuiltinVariant::make(const std::map<std::string, double> &values,
                                       const std::vector<TensorDecl> &declared) const {
  Arguments arguments;
  for (const BuiltinParameter &parameter : parameters)
    arguments[parameter.name] = parameter.defaultValue;
  for (const auto &[key, value] : values) {
    const BuiltinParameter *known = nullptr;
    std::vector<std::string> names;
    for (const BuiltinParameter &parameter : parameters) {
      names.push_back(parameter.name);
      if (parameter.name == key)
        known = &parameter;
    }
    if (!known)
      return Error{parameters.empty()
                       ? fmt::format("\"{}\" is not a parameter of {}; it has none", key, name)
                       : fmt::format("\"{}\" is not a parameter of {}; it has {}", key, name, fmt::join(names, " "))};
    // A double represents integers up to 2^53 exactly.
    if (known->type == BuiltinParameter::Type::Int && (std::trunc(value) != value || std::abs(value) > 0x1p53))
      return Error{
          fmt::format("parameter {} of {} is {}, but must be an integer; write a whole number", key, name, value)};
    if (std::isnan(value))
      return Error{fmt::format("parameter {} of {} is nan, but must be a number; write one", key, name)};
    arguments[key] = value;
  }
  Tensors captures;
  for (TensorDecl tensor : tensors) {
    for (const TensorDecl &other : declared)
      if (other.name == tensor.name)
        tensor = {other.name, other.dtype, other.rank == inferRank ? tensor.rank : other.rank};
    captures.emplace(tensor.name, Captured(tensor, std::source_location::current()));
  }
  std::string identifier = name;
  for (char &c : identifier)
    if (c == '-')
      c = '_';
  // Lines of this file mean nothing to a user, so errors have the name of the built-in as location.
  LocationScope scope({name, 1, 0});
  Variant variant = apply(Variant(identifier), arguments, captures);
  if (variant.error())
    return Error{variant.error()->message, {}};
  return variant;
}

} // namespace attune
