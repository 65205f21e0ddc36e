#!/usr/bin/env python3
"""The public headers as pages, of C++ (`///` and `//` comments) or of C (`/* */`).

    headers.py OUT HEADER               one header
    headers.py --index OUT HEADER...    the list of the headers' pages

A header's opening comment becomes prose with its examples and tables. Every declaration follows as it stands in the header, without
private members and without namespace detail, after the comment that precedes the declaration.
"""
import os
import re
import sys

from pages import escaped, note, wrapped, write

INDEX = """# C++

`#include <attune/attune.h>` gives all of these headers. A page opens with what the header is for. Declarations
follow as they stand in the header. [Use attune from C++](../../guide/cpp.md) leads through the interface by tasks.

| header | |
|---|---|
"""


def prose(lines):
    """Markdown of a comment's lines: paragraphs, tables, and examples (indented by four spaces) as code."""
    text, paragraph, code = "", [], []

    def flush():
        nonlocal text, paragraph, code
        if paragraph:
            text += wrapped(escaped(" ".join(paragraph))) + "\n\n"
        while code and not code[-1].strip():
            code.pop()
        if code:
            language = "text" if code[0].startswith("|") else "cpp"
            text += f"```{language}\n" + "\n".join(code) + "\n```\n\n"
        paragraph, code = [], []

    for line in lines:
        if line.startswith("    ") or (code and not line.strip()):
            if not code:
                flush()
            code.append(line[4:])
        elif not line.strip():
            flush()
        else:
            if code:
                flush()
            if re.match(r"- ", line):
                flush()
                paragraph = [line]
            else:
                paragraph.append(line.strip())
    flush()
    return text


def opening(lines):
    """(title, lines of the opening comment, the rest) of a header."""
    first = next(i for i, line in enumerate(lines) if "===- " in line)
    title = re.search(r"===- \S+ - (.*?) -*===", lines[first]).group(1)
    end = next((i for i in range(first + 1, len(lines)) if re.match(r"^(//| \*)===-+===", lines[i]) or not re.match(r"^(//| \*)", lines[i])))
    body = [re.sub(r"^(//| \*) ?", "", line) for line in lines[first + 1:end]]
    return title, body, lines[end + 1:]


def without_private(lines):
    """A class without what is private."""
    kept, hidden = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if re.match(r"\s*private:", line):
            hidden = indent
            while kept and not kept[-1].strip():
                kept.pop()
            continue
        if hidden is not None and (re.match(r"\s*(public|protected):", line) or re.match(r"\s*\};?", line)) and indent <= hidden:
            hidden = None
        if hidden is None:
            kept.append(line)
    return kept


def chunks(lines):
    """Runs of lines between blank lines at the level of the namespace; nothing of the preprocessor, of namespace detail."""
    chunk, depth, skipping, comment, directive = [], 0, None, False, False
    for line in lines:
        code = re.sub(r'"(\\.|[^"\\])*"|//.*', "", line)
        if directive or re.match(r"\s*#", line):
            directive = line.endswith("\\")
            continue
        if skipping is None and line.startswith("namespace detail {"):
            skipping, depth = True, 0
        elif re.match(r"(namespace \w+|extern \"C\") \{|^\} // namespace \w+$", line):
            continue
        if re.match(r"\s*/\*", code):
            comment = True
        if not comment:
            depth += code.count("{") - code.count("}")
        if "*/" in code:
            comment = False
        if skipping is not None:
            if depth == 0:
                skipping = None
            continue
        if not line.strip() and depth <= 0 and not comment:
            if chunk:
                yield chunk
            chunk = []
        else:
            chunk.append(line)
    if chunk:
        yield chunk


def name_of(code):
    """The name that a chunk of declarations is about, for its heading."""
    text = re.sub(r"///.*|//.*|/\*.*?\*/", "", "\n".join(code))
    text = re.sub(r"(?m)^\s*template <.*?>\s*(requires .*)?$", "", text)
    text = re.sub(r"template <[^>]*(<[^>]*>)?[^>]*>", "", text)
    text = re.sub(r"\[\[.*?\]\]|ATTUNE_C_API", "", text).strip()
    type_ = re.match(r"(?:typedef )?(?:enum class|struct|class|concept|enum)\s+(\w+)", text)
    alias = re.match(r"using (\w+) =", text)
    function = re.search(r"\b(operator\s*[^\s(]+|~?\w+)\s*\(", text)
    constant = re.match(r"(?:inline |static |constexpr |const |extern )+[\w:<>]+\s+(\w+)", text)
    found = type_ or alias or function or constant
    return found.group(1) if found else None


def entry(chunk, in_c):
    """A chunk as Markdown: its heading, its comment, its declarations."""
    comment = []
    if in_c:
        text = "\n".join(chunk)
        head = re.match(r"\s*/\*(?!===)(.*?)\*/\n?", text, re.DOTALL)
        # A comment of one declaration among several stays with it.
        if head and len(re.findall(r"^/\*", text, re.MULTILINE)) == 1:
            comment = [re.sub(r"^\s*\* ?", "", line).strip() for line in head.group(1).split("\n")]
            chunk = text[head.end():].split("\n")
    else:
        i = 0
        while i < len(chunk) and chunk[i].startswith("//"):
            comment.append(re.sub(r"^///? ?", "", chunk[i]))
            i += 1
        if any(line.startswith("///") for line in chunk[i:]):  # several declarations, each with its comment
            comment, i = [], 0
        chunk = without_private(chunk[i:])
    if not any(line.strip() for line in chunk):
        return prose(comment)
    name = name_of(chunk)
    if name in (None, "static_assert"):
        return ""
    return f"### {escaped(name)}\n\n" + prose(comment) + f"```{'c' if in_c else 'cpp'}\n" + "\n".join(chunk) + "\n```\n\n"


def header(path):
    with open(path) as file:
        title, body, rest = opening(file.read().split("\n"))
    in_c = path.endswith("/c.h")
    text = f"# {os.path.basename(path)}: {title[0].lower() + title[1:]}\n\n" if not in_c else "# C\n\n"
    text += f"`#include <attune/{os.path.basename(path)}>`\n\n" + prose(body)
    rest = [line for line in rest if not re.match(r"^//===-+===//$", line)]
    for chunk in chunks(rest):
        section = re.match(r"/\*===--- (.*?) -*===\*/$|// (\w[\w ,'-]*)$", chunk[0])
        if section and len(chunk) == 1:
            text += f"## {section.group(1) or section.group(2)}\n\n"
        else:
            text += entry(chunk, in_c)
    return text


def index(paths):
    text = INDEX
    for path in paths:
        with open(path) as file:
            title, _, _ = opening(file.read().split("\n"))
        name = os.path.basename(path)
        text += f"| [{name}]({name[:-2]}.md) | {title[0].lower() + title[1:]} |\n"
    return text


def main():
    listing = sys.argv[1] == "--index"
    target, *paths = sys.argv[2 if listing else 1:]
    source = "include/attune" if listing else f"include/attune/{os.path.basename(paths[0])}"
    write(target, note(source) + (index(paths) if listing else header(paths[0])))


if __name__ == "__main__":
    main()
