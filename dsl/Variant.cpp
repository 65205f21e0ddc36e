//===- Variant.cpp - The setters of Variant and its declarations ------------===//
#include "attune/Variant.h"

#include "dsl/Canonical.h"
#include "dsl/Trace.h"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <unordered_set>

namespace attune {

using dsl::place;

Variant::Variant(std::string name, std::source_location where) { setName(std::move(name), where); }

Variant Variant::named(std::string name, std::source_location where) const {
  Variant result = *this;
  result.setName(std::move(name), where);
  return result;
}

void Variant::setName(std::string name, std::source_location where) {
  variantName = std::move(name);
  if (!dsl::isIdentifier(variantName))
    fail({fmt::format("variant name \"{}\" is not an identifier; use letters, digits and underscores, and no digit "
                      "first",
                      variantName),
          place(where)});
}

void Variant::fail(Error error) {
  if (!failure)
    failure = std::move(error);
}

Expr Variant::scoreSoFar() const { return scoreRoot ? *scoreRoot : inputScore(); }

Variant &Variant::scale(float value, std::source_location where) {
  if (!std::isfinite(value))
    fail({fmt::format("scale {} is not finite; leave it out for 1 / sqrt(head dim)", value), place(where)});
  else
    factor = value;
  return *this;
}

Variant &Variant::dropout(float p, std::source_location where) {
  if (!(p >= 0.0f && p < 1.0f))
    fail({fmt::format("dropout probability {} is outside [0, 1); use the fraction to drop, for example 0.1", p),
          place(where)});
  else
    dropoutDefault = p;
  return *this;
}

Variant &Variant::precise() {
  preciseMath = true;
  return *this;
}

Variant &Variant::qOffset() {
  offsetQueries = true;
  return *this;
}

/// The error, with the location of the call if the error has no location of its own.
static Error placed(Error error, const std::source_location &where) {
  if (!error.where.known())
    error.where = place(where);
  return error;
}

Variant &Variant::setScore(const Expr &result, std::source_location where) {
  if (result.error()) {
    fail(placed(*result.error(), where));
  } else if (result.type() == DType::Bool) {
    fail({fmt::format("score of variant \"{}\" is bool, but must be a number; use mask, or select(c, a, b)",
                      variantName),
          place(where)});
  } else {
    // An integer score is converted to f32, as by s + 0. A literal is converted without a cast node.
    scoreRoot = result.type() == DType::F32   ? result
                : result.op() == Op::Constant ? dsl::constant(float(result.node().intValue))
                                              : cast({result, where}, DType::F32);
    if (scoreRoot->error())
      fail(placed(*scoreRoot->error(), where));
    collect();
  }
  return *this;
}

namespace {

bool usesInput(const Node &node, std::unordered_set<const Node *> &visited) {
  if (!visited.insert(&node).second)
    return false;
  if (node.op == Op::Input)
    return true;
  for (const NodeRef &operand : node.operands)
    if (usesInput(*operand, visited))
      return true;
  return false;
}

} // namespace

Variant &Variant::addMask(const Expr &result, std::source_location where) {
  std::unordered_set<const Node *> visited;
  if (result.error()) {
    fail(placed(*result.error(), where));
  } else if (result.type() != DType::Bool) {
    fail({fmt::format("mask of variant \"{}\" is {}, but must be bool; compare it, for example x != 0", variantName,
                      attune::name(result.type())),
          place(where)});
  } else if (usesInput(result.node(), visited)) {
    fail({fmt::format("mask of variant \"{}\" reads the score s, but a mask sees b, h, q and k only; give such keys "
                      "the score -inf by select(c, s, -inf)",
                      variantName),
          place(where)});
  } else {
    maskRoot = maskRoot ? Operand(*maskRoot, where) && Operand(result, where) : result;
    if (maskRoot->error())
      fail(placed(*maskRoot->error(), where));
    collect();
  }
  return *this;
}

Variant &Variant::blocks(const Captured &tensor, int rows, int columns, std::source_location where) {
  const TensorDecl &decl = tensor.decl();
  if (auto fault = dsl::nameFault("tensor name", decl.name))
    fail({*fault, place(where)});
  else if (decl.dtype != DType::Bool)
    fail({fmt::format("block pattern \"{}\" is {}, but must be bool; declare captured(\"{}\", boolean, rank(3))",
                      decl.name, attune::name(decl.dtype), decl.name),
          place(where)});
  else if (decl.rank != 2 && decl.rank != 3)
    fail({fmt::format("block pattern \"{}\" has rank {}, but must have rank 3 [H or 1, ceil(Sq/rows), "
                      "ceil(Sk/columns)] or 2; declare captured(\"{}\", boolean, rank(3))",
                      decl.name, decl.rank, decl.name),
          place(where)});
  else if (rows <= 0 || rows % 16 != 0)
    fail({fmt::format("block rows {} is not a positive multiple of 16; use 64 or 128", rows), place(where)});
  else if (columns <= 0 || columns % 16 != 0)
    fail({fmt::format("block columns {} is not a positive multiple of 16; use 64 or 128", columns), place(where)});
  else if (pattern)
    fail({fmt::format("variant \"{}\" has a second block pattern \"{}\", but takes one; combine them into one tensor",
                      variantName, decl.name),
          place(where)});
  else
    pattern = BlockPattern{decl, rows, columns};
  collect();
  return *this;
}

std::optional<std::string> Variant::faultOfLengths(const char *what, const TensorDecl &decl,
                                                   const std::optional<TensorDecl> &before) const {
  if (auto fault = dsl::nameFault("tensor name", decl.name))
    return fault;
  if (decl.dtype != DType::I32 || decl.rank != 1)
    return fmt::format(
        "{} lengths \"{}\" are {} of rank {}, but must be i32 of rank 1 [B]; declare captured(\"{}\", i32, "
        "rank(1))",
        what, decl.name, attune::name(decl.dtype), decl.rank, decl.name);
  if (before)
    return fmt::format("variant \"{}\" has second {} lengths \"{}\", but takes one tensor; pass the lesser ones",
                       variantName, what, decl.name);
  return std::nullopt;
}

Variant &Variant::keyLengths(const Captured &tensor, std::source_location where) {
  if (auto fault = faultOfLengths("key", tensor.decl(), lengths))
    fail({*fault, place(where)});
  else
    lengths = tensor.decl();
  collect();
  return *this;
}

Variant &Variant::queryLengths(const Captured &tensor, std::source_location where) {
  if (auto fault = faultOfLengths("query", tensor.decl(), rowLengths))
    fail({*fault, place(where)});
  else
    rowLengths = tensor.decl();
  collect();
  return *this;
}

Variant &Variant::sequences(const Captured &queries, const Captured &keys, std::source_location where) {
  return setSequences(queries, &keys, where);
}

Variant &Variant::sequences(const Captured &queries, std::source_location where) {
  return setSequences(queries, nullptr, where);
}

Variant &Variant::setSequences(const Captured &queries, const Captured *keys, std::source_location where) {
  std::optional<std::string> fault;
  for (const TensorDecl *decl : {&queries.decl(), keys ? &keys->decl() : nullptr}) {
    if (!decl)
      continue;
    if (!fault)
      fault = dsl::nameFault("tensor name", decl->name);
    if (!fault && (decl->dtype != DType::I32 || decl->rank != 1))
      fault = fmt::format("sequences \"{}\" are {} of rank {}, but must be i32 of rank 1 [B + 1]; declare "
                          "captured(\"{}\", i32, rank(1))",
                          decl->name, attune::name(decl->dtype), decl->rank, decl->name);
  }
  if (!fault && packed)
    fault = fmt::format("variant \"{}\" has second sequences \"{}\", but takes sequences once", variantName,
                        queries.decl().name);
  if (fault)
    fail({*fault, place(where)});
  else
    packed = Sequences{queries.decl(), keys ? std::optional(keys->decl()) : std::nullopt};
  collect();
  return *this;
}

Variant &Variant::keyPages(const Captured &tensor, int size, std::source_location where) {
  const TensorDecl &decl = tensor.decl();
  if (auto fault = dsl::nameFault("tensor name", decl.name))
    fail({*fault, place(where)});
  else if (decl.dtype != DType::I32 || decl.rank != 2)
    fail({fmt::format(
              "key pages \"{}\" are {} of rank {}, but must be i32 of rank 2 [B, N]; declare captured(\"{}\", i32, "
              "rank(2))",
              decl.name, attune::name(decl.dtype), decl.rank, decl.name),
          place(where)});
  else if (size <= 0 || size % 16 != 0)
    fail({fmt::format("page size {} is not a positive multiple of 16; use 16, 64 or 128", size), place(where)});
  else if (pages)
    fail({fmt::format("variant \"{}\" has second key pages \"{}\", but takes one table", variantName, decl.name),
          place(where)});
  else
    pages = KeyPages{decl, size};
  collect();
  return *this;
}

Variant &Variant::normaliser(const Normaliser &given, std::source_location where) {
  Expected<NormaliserExpressions> read = parseExpressions(given);
  if (!read) {
    fail(placed(read.error(), where));
  } else if (definition) {
    fail({fmt::format("variant \"{}\" has a second normaliser \"{}\", but takes one; leave out \"{}\"", variantName,
                      given.name, definition->name),
          place(where)});
  } else if (given != normalisers::softmax()) {
    definition = given;
    expressions = *read;
    collect();
  }
  return *this;
}

const Normaliser &Variant::normaliser() const {
  static const Normaliser softmax = normalisers::softmax();
  return definition ? *definition : softmax;
}

namespace {

/// Collects tensors and scalars in the order in which the text form names them: an operation before its operands.
class DeclarationCollector {
public:
  std::vector<TensorDecl> tensors;
  std::vector<ScalarDecl> scalars;
  std::optional<Error> failure;

  void visit(const Node &node) {
    if (!visited.insert(&node).second)
      return;
    if (node.op == Op::Load || node.op == Op::Search)
      add(TensorDecl{node.name, node.elementType, node.rank}, node.where);
    if (node.op == Op::Scalar)
      add(ScalarDecl{node.name, node.type}, node.where);
    for (const NodeRef &operand : node.operands)
      visit(*operand);
  }

  void add(const TensorDecl &decl, const SourceLocation &where) {
    for (const TensorDecl &known : tensors)
      if (known.name == decl.name)
        return require(known == decl, describe(decl), describe(known), decl.name, where);
    for (const ScalarDecl &known : scalars)
      if (known.name == decl.name)
        return require(false, describe(decl), describe(known), decl.name, where);
    tensors.push_back(decl);
  }

  void add(const ScalarDecl &decl, const SourceLocation &where) {
    for (const ScalarDecl &known : scalars)
      if (known.name == decl.name)
        return require(known == decl, describe(decl), describe(known), decl.name, where);
    for (const TensorDecl &known : tensors)
      if (known.name == decl.name)
        return require(false, describe(decl), describe(known), decl.name, where);
    scalars.push_back(decl);
  }

private:
  static std::string describe(const TensorDecl &decl) {
    return fmt::format("a tensor of {} and rank {}", attune::name(decl.dtype), decl.rank);
  }
  static std::string describe(const ScalarDecl &decl) {
    return fmt::format("a scalar of {}", attune::name(decl.dtype));
  }
  void require(bool same, const std::string &now, const std::string &before, const std::string &name,
               const SourceLocation &where) {
    if (!same && !failure)
      failure = Error{
          fmt::format("\"{}\" is {} here, but {} elsewhere; use one name per tensor or scalar", name, now, before),
          where};
  }

  std::unordered_set<const Node *> visited;
};

} // namespace

void Variant::collect() {
  DeclarationCollector collector;
  if (scoreRoot)
    collector.visit(scoreRoot->node());
  if (maskRoot)
    collector.visit(maskRoot->node());
  if (pattern)
    collector.add(pattern->tensor, {});
  if (lengths)
    collector.add(*lengths, {});
  if (rowLengths)
    collector.add(*rowLengths, {});
  if (packed) {
    collector.add(packed->queries, {});
    if (packed->keys)
      collector.add(*packed->keys, {});
  }
  if (pages)
    collector.add(pages->tensor, {});
  if (definition) {
    for (const TensorDecl &tensor : definition->tensors)
      collector.add(tensor, {});
    for (const ScalarDecl &scalar : definition->scalars)
      collector.add(scalar, {});
  }
  if (collector.failure)
    fail(*collector.failure);
  tensorList = std::move(collector.tensors);
  scalarList = std::move(collector.scalars);
}

std::string Variant::canonical() const {
  std::string result = fmt::format("attune variant 1\nname {}\n", variantName);
  if (factor)
    result += fmt::format("scale 0x{:08x}\n", std::bit_cast<uint32_t>(*factor));
  if (hasDropout())
    result += "dropout\n";
  if (preciseMath)
    result += "precise\n";
  if (offsetQueries)
    result += "qoffset\n";
  if (pattern)
    result += fmt::format("blocks {} {} {}\n", pattern->tensor.name, pattern->rows, pattern->columns);
  if (lengths)
    result += fmt::format("key lengths {}\n", lengths->name);
  if (rowLengths)
    result += fmt::format("query lengths {}\n", rowLengths->name);
  if (packed)
    result += fmt::format("sequences {} {}\n", packed->queries.name, packed->keys ? packed->keys->name : "-");
  if (pages)
    result += fmt::format("key pages {} {}\n", pages->tensor.name, pages->size);
  for (const TensorDecl &tensor : tensorList)
    result += fmt::format("tensor {} {} {}\n", tensor.name, attune::name(tensor.dtype), tensor.rank);
  for (const ScalarDecl &scalar : scalarList)
    result += fmt::format("scalar {} {}\n", scalar.name, attune::name(scalar.dtype));

  dsl::Numbering numbering;
  std::string roots;
  if (scoreRoot)
    roots += fmt::format("score %{}\n", numbering.number(scoreRoot->node()));
  if (maskRoot)
    roots += fmt::format("mask %{}\n", numbering.number(maskRoot->node()));
  if (definition) {
    roots += fmt::format("normaliser {}\n", definition->name);
    for (const RowStatistic &statistic : definition->statistics)
      roots += fmt::format("statistic {} {} 0x{:08x}\n", statistic.name, attune::name(statistic.reduction),
                           std::bit_cast<uint32_t>(statistic.initial));
    for (auto [role, root] : {std::pair("base", &expressions->base), std::pair("rescale", &expressions->rescale),
                              std::pair("p", &expressions->p), std::pair("divisor", &expressions->divisor),
                              std::pair("lse", &expressions->lse)})
      if (*root)
        roots += fmt::format("{} %{}\n", role, numbering.number((*root)->node()));
  }
  return result + numbering.lines() + roots;
}

} // namespace attune
