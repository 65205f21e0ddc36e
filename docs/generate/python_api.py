#!/usr/bin/env python3
"""python_api.py python/attune OUT: the docstrings and signatures of the Python package as a page.

The names are those that attune/__init__.py and attune/torch/__init__.py import from modules of the package.
"""
import ast
import os
import re
import sys

from pages import escaped, note, wrapped, write

INTRODUCTION = """# Python

`import attune` gives the names of the first part, `import attune.torch` those of the second. The functions of floats
(`attune.exp`, `attune.softcap`, ...) are on a [page of their own](functions.md). The guide leads through both:
[Use attune from Python](../guide/python.md), [Use attune in PyTorch](../guide/pytorch.md).
"""


def parsed(path):
    with open(path) as file:
        return ast.parse(file.read())


def imported(folder):
    """(name, module file) of what a package's __init__.py imports from its own modules, in order."""
    for node in parsed(os.path.join(folder, "__init__.py")).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in node.names:
                if not (alias.asname or alias.name).startswith("_"):
                    yield alias.asname or alias.name, alias.name, os.path.join(folder, *node.module.split(".")) + ".py"


def signature(name, node):
    """`def name(...)`, broken at parameters where it is long."""
    arguments = ast.unparse(node.args)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({arguments}){result}"
    if len(line) <= 110:
        return line
    lines, current = [], name + "("
    for part in re.split(r"(?<=,) (?![^(\[{]*[)\]}])", arguments):
        if len(current) + len(part) > 108:
            lines.append(current.rstrip())
            current = "    "
        current += part + " "
    return "\n".join(lines + [current.rstrip() + ")" + result])


def without_self(node):
    copy = ast.parse(ast.unparse(node)).body[0]
    every = copy.args.posonlyargs + copy.args.args
    if every and every[0].arg in ("self", "cls"):
        (copy.args.posonlyargs or copy.args.args).pop(0)
    return copy


def documented(text):
    """A docstring as Markdown: prose wrapped, indented blocks and tables as code."""
    parts, code, paragraph = [], [], []

    def flush():
        if paragraph:
            listed = paragraph[0].startswith("- ")
            parts.append(wrapped(escaped(" ".join(paragraph)), "    " if listed else ""))
            paragraph.clear()
        while code and not code[-1].strip():
            code.pop()
        if code:
            parts.append("```python\n" + "\n".join(code) + "\n```")
            code.clear()

    text = re.sub(r"\n*docs/\S+ is the guide\.\n*", "\n", text or "").rstrip()
    item = False  # of a list of parameters: `name   what it is`, continued by lines that are indented
    for line in text.split("\n"):
        parameter = re.match(r" {0,3}(\w+) {2,}(\S.*)", line)
        if parameter and (not code or not line.startswith(" ")):
            flush()
            paragraph.append(f"- `{parameter[1]}`: {parameter[2]}")
            item = True
        elif item and line.startswith("    "):
            paragraph.append(line.strip())
        elif line.startswith("    ") or (code and not line.strip()):
            if paragraph:
                flush()
            code.append(line[4:])
        else:
            if code or not line.strip():
                flush()
            item = False
            if line.strip():
                paragraph.append(line.strip())
    flush()
    joined = "\n\n".join(parts) + "\n\n" if parts else ""
    return re.sub(r"(?m)^(- `.*(?:\n {4}.*)*)\n\n(?=- `)", r"\1\n", joined)


def class_text(module, name, node):
    init = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    text = f"### {name}\n\n```python\nclass {module}.{signature(name, without_self(init)) if init else name}\n```\n\n" + documented(ast.get_docstring(node))
    if init and ast.get_docstring(init):
        text += documented(ast.get_docstring(init))
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    if fields:
        text += "```python\n" + "\n".join(ast.unparse(each) for each in fields) + "\n```\n\n"
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and (not each.name.startswith("_") or each.name == "__call__") and ast.get_docstring(each):
            is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in each.decorator_list)
            shown = each.name if is_property else signature(each.name, without_self(each)).replace("__call__", name.lower(), 1)
            text += f"```python\n{name.lower() + '.' if each.name != '__call__' else ''}{shown}\n```\n\n" + documented(ast.get_docstring(each))
    return text


def package(folder, module):
    tree = parsed(os.path.join(folder, "__init__.py"))
    text = f"## {module}\n\n" + documented(ast.get_docstring(tree))
    for name, original, path in imported(folder):
        for node in parsed(path).body:
            if getattr(node, "name", None) != original:
                continue
            if isinstance(node, ast.ClassDef):
                text += class_text(module, name, node)
            elif isinstance(node, ast.FunctionDef):
                text += f"### {name}\n\n```python\n{signature(f'{module}.{name}', node)}\n```\n\n" + documented(ast.get_docstring(node))
    return text


def main():
    folder, target = sys.argv[1:]
    write(target, note("the docstrings of python/attune") + INTRODUCTION + "\n" + package(folder, "attune") +
          package(os.path.join(folder, "torch"), "attune.torch"))


if __name__ == "__main__":
    main()
