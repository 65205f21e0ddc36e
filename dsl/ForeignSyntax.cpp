#include "dsl/ForeignSyntax.h"

using namespace attune;
using dsl::ForeignSyntax;

static constexpr ForeignSyntax signs[] = {
    {"=>", ">="}, {"=<", "<="}, {"<>", "!="}, {"**", "pow(x, y)"}, {"//", "/, which truncates integers towards zero"},
};

static constexpr ForeignSyntax words[] = {
    {"and", "&&"},
    {"or", "||"},
    {"not", "!"},
    {"xor", "^"},
    {"mod", "%"},
    {"is", "=="},
    {"if", "select(c, a, b) for a if c else b"},
    {"else", "select(c, a, b) for a if c else b"},
    {"elif", "select(c, a, b), where b may be another select"},
    {"where", "select(c, a, b)"},
    {"lambda", "its body alone, in which the names have their meaning"},
    {"return", "the value alone"},
    {"True", "true"},
    {"False", "false"},
    {"None", "-inf for the score of a hidden key, or leave the text out"},
    {"float", "f32(x)"},
    {"int", "i32(x)"},
};

static constexpr ForeignSyntax dtypes[] = {
    {"float32", "f32"},
    {"float", "f32"},
    {"fp32", "f32"},
    {"float16", "f16"},
    {"half", "f16"},
    {"fp16", "f16"},
    {"bfloat16", "bf16"},
    {"int32", "i32"},
    {"int", "i32"},
    {"int64", "i64"},
    {"long", "i64"},
    {"bool_", "bool"},
    {"f64", "f32 and convert the data: kernels compute in float32"},
    {"float64", "f32 and convert the data: kernels compute in float32"},
    {"double", "f32 and convert the data: kernels compute in float32"},
};

std::span<const ForeignSyntax> dsl::foreignSigns() { return signs; }

static const ForeignSyntax *entryFor(std::span<const ForeignSyntax> table, std::string_view written) {
  for (const ForeignSyntax &entry : table)
    if (entry.written == written)
      return &entry;
  return nullptr;
}

const ForeignSyntax *dsl::foreignSyntax(std::string_view written) {
  const ForeignSyntax *sign = entryFor(signs, written);
  return sign ? sign : entryFor(words, written);
}

std::string dsl::dtypeRemedy(std::string_view written) {
  const ForeignSyntax *entry = entryFor(dtypes, written);
  return entry ? "; write " + std::string(entry->remedy) : "";
}
