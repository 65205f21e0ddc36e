#include "dsl/ForeignSyntax.h"

using namespace attune;
using dsl::ForeignSyntax;

static constexpr ForeignSyntax signs[] = {
    {"=>", ">="},        {"=<", "<="}, {"<>", "!="},
    {"**", "pow(x, y)"}, {"//", "/, which truncates integers towards zero"},
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

std::span<const ForeignSyntax> dsl::foreignSigns() { return signs; }

const ForeignSyntax *dsl::foreignSyntax(std::string_view written) {
  for (std::span<const ForeignSyntax> table : {std::span<const ForeignSyntax>(signs), std::span<const ForeignSyntax>(words)})
    for (const ForeignSyntax &entry : table)
      if (entry.written == written)
        return &entry;
  return nullptr;
}
