#!/usr/bin/env python3
"""functions.py include/attune/Functions.def OUT: the table of functions of scores and masks as a page."""
import re
import sys

from pages import cell, note, wrapped, write

INTRODUCTION = """# Functions of scores and masks

A function takes numbers and gives a float32. Integer operands are converted to float32 first. The functions have the
same names in text, in C++ and in Python (`attune.exp`). `attune list --functions` prints the first table below.

Operators, `min`, `max`, `abs`, `select`, `cast` and the rules for types are not functions of this table: see
[Expressions](../guide/expressions.md). Nor is `searchsorted(t, x)`, which searches a captured vector: see
[Captured tensors](../guide/captured-tensors.md#search-a-vector).
"""


def split_arguments(text):
    """The arguments of a macro call: split at commas outside of parentheses and quotes."""
    parts, depth, quoted, begin = [], 0, False, 0
    for i, letter in enumerate(text):
        if letter == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and letter in "()":
            depth += 1 if letter == "(" else -1
        elif not quoted and letter == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return parts + [text[begin:].strip()]


def functions(text):
    """Of each function: name, parameters, summary, gradients by parameter (None: composite), bounds (None: composite), definition (None: an op)."""
    body = text[text.index("// clang-format off"):text.index("// clang-format on")]
    calls = re.split(r"^ATTUNE_(FUNCTION|EXPANDED|COMPOSITE)(\d)\(", body, flags=re.MULTILINE)[1:]
    for kind, count, rest in zip(calls[::3], calls[1::3], calls[2::3]):
        arguments = split_arguments(" ".join(rest.strip().rsplit(")", 1)[0].split()))
        parameters = ["x", "y", "z"][:int(count)]
        summary = arguments[-1].strip('"')
        if kind == "FUNCTION":
            yield arguments[1], parameters, summary, arguments[-2 - len(parameters):-2], arguments[-2], None
        elif kind == "EXPANDED":
            yield arguments[1], parameters, summary, None, arguments[-2], None
        else:
            yield arguments[0], parameters, summary, None, None, re.sub(r"(\d)f\b", r"\1", arguments[1])


def main():
    source, target = sys.argv[1:]
    with open(source) as file:
        table = list(functions(file.read()))
    text = note(source.split("/attune/")[-1]) + INTRODUCTION
    text += "\n| function | value |\n|---|---|\n"
    text += "".join(f"| `{name}({', '.join(parameters)})` | {cell(summary)} |\n" for name, parameters, summary, *_ in table)
    text += "\n## Derivatives\n\n" + wrapped(
        "The backward pass differentiates by these rules. `r` is the value of the function, `g` the gradient of `r`. `None` means that no "
        "gradient flows to the operand.") + "\n\n"
    text += "| function | gradient of x | gradient of y |\n|---|---|---|\n"
    for name, parameters, _, gradients, *_ in table:
        if gradients:
            cells = [f"`{cell(re.sub(r'([0-9])f' + chr(92) + 'b', chr(92) + '1', each))}`" for each in gradients]
            text += f"| `{name}({', '.join(parameters)})` | {' | '.join(cells + [''] * (2 - len(cells)))} |\n"
    text += "\n## Bounds\n\n" + wrapped(
        "Interval analysis takes the results of a function from these bounds, for operands in ranges `x` and `y`. `rising(a, b)` is a function that "
        "rises with x and lies between `a` and `b`, `falling(a, b)` one that falls, `between(a, b)` any other function between them. An end other than "
        "0 and infinity includes the error of the approximations.") + "\n\n"
    text += "| function | bounds |\n|---|---|\n"
    text += "".join(f"| `{name}({', '.join(parameters)})` | `{cell(bounds)}` |\n" for name, parameters, _, _, bounds, _ in table if bounds)
    text += "\n## Definitions\n\n" + wrapped(
        "These functions are compositions of other functions. Their derivatives and bounds follow from the definition.") + "\n\n"
    text += "| function | definition |\n|---|---|\n"
    for name, parameters, summary, gradients, _, definition in table:
        if not gradients:
            text += f"| `{name}({', '.join(parameters)})` | `{cell(definition or summary)}` |\n"
    write(target, text)


if __name__ == "__main__":
    main()
