#!/usr/bin/env python3
"""The rules of pages that people read.

    check_pages.py ROOT          check README.md, CONTRIBUTING.md, CHANGELOG.md, SECURITY.md and docs/ of the checkout at ROOT
    check_pages.py --self-test   show that each rule finds a page that breaks it

- No line is longer than 200 characters, in code, tables and generated pages too.
- In docs/start and docs/guide no paragraph has more than six sentences.
- A relative link leads to a file or folder of the checkout, and its #anchor to a heading of that page.
- A path in code exists, where its folder is one of the checkout's. CHANGELOG.md and docs/log are exempt, as they name
  files of earlier versions.
"""
import glob
import os
import re
import sys
import tempfile

LONGEST, SENTENCES = 200, 6
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")

# A path in code, as CONTRIBUTING's recipes name files; `passes/Pipeline.cpp` and `ir/*/*.td`.
PATH = re.compile(r"`([\w.-]+/[\w./*-]*)`")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]*)\)|<(?:a|img)[^>]* (?:href|src)=\"([^\"]*)\"")
SENTENCE_END = re.compile(r"[.!?][)\"'`*]*(?=\s+[\"'`(*\[]*[A-Z]|\s*$)")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|Fig|Sec)\.")


def pages(root):
    for page in PAGES:
        if os.path.exists(os.path.join(root, page)):
            yield page
    for folder, folders, names in os.walk(os.path.join(root, "docs")):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def prose(text):
    """(number, line) of the lines outside of code, fenced or indented."""
    fence, previous, in_item = None, "", False
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            fence = None if mark and line.strip().startswith(fence) and line.strip() == mark[1] else fence
            yield number, ""
        elif mark:
            fence = mark[1]
            yield number, ""
        elif line.startswith("    ") and not previous.strip() and not in_item:
            yield number, ""
            continue  # the block goes on: `previous` stays blank
        else:
            in_item = bool(re.match(r"\s*([-*]|\d+\.) ", line)) or (in_item and (not line.strip() or line.startswith("  ")))
            yield number, line
        previous = line


def paragraphs(text):
    """(number of its first line, its text) of each paragraph or list item; no headings, tables, comments."""
    begin, lines = 0, []
    for number, line in [*prose(text), (0, "")]:
        starts = re.match(r"\s*([-*]|\d+\.) ", line)
        if lines and (starts or not line.strip() or re.match(r"\s*[#|<]", line)):
            yield begin, " ".join(lines)
            lines = []
        if line.strip() and not re.match(r"\s*[#|<]", line):
            begin = begin if lines else number
            lines.append(line.strip())


def anchors(text):
    """The anchors of a page's headings, as GitHub and mkdocs.yml make them."""
    found, count = set(), {}
    for _, line in prose(text):
        heading = re.match(r"#+ +(.*?)\s*#*$", line)
        if heading:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("\\", "")
            slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
            count[slug] = count.get(slug, -1) + 1
            found.add(slug if count[slug] == 0 else f"{slug}_{count[slug]}")
        found |= set(re.findall(r'<a (?:id|name)="([^"]*)"', line))
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def violations(root):
    folders = {name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))} - {"build"}
    for page in pages(root):
        text = read(os.path.join(root, page))
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > LONGEST:
                yield f"{page}:{number}: the line has {len(line)} characters, more than {LONGEST}; break it"
        if page.startswith(("docs/start/", "docs/guide/")):
            for number, paragraph in paragraphs(text):
                count = len(SENTENCE_END.findall(ABBREVIATION.sub(r"\1", re.sub(r"`[^`]*`", "code", paragraph))))
                if count > SENTENCES:
                    yield f"{page}:{number}: the paragraph has {count} sentences, more than {SENTENCES}; divide it"
        of_the_past = page == "CHANGELOG.md" or page.startswith("docs/log/")
        for number, line in prose(text):
            for path in () if of_the_past else PATH.findall(line):
                if path.split("/")[0] in folders and not glob.glob(os.path.join(root, path)):
                    yield f"{page}:{number}: {path} is no file or folder of the checkout"
            for link in LINK.finditer(re.sub(r"`[^`]*`", lambda code: "x" * len(code.group()), line)):
                target = link[1] if link[1] is not None else link[2]
                if re.match(r"[a-z][a-z+.-]*:", target):
                    continue
                path, _, anchor = target.partition("#")
                full = os.path.normpath(os.path.join(root, os.path.dirname(page), path)) if path else os.path.join(root, page)
                if not os.path.exists(full):
                    yield f"{page}:{number}: the link {target} leads to no file or folder of the checkout"
                elif anchor and full.endswith(".md") and anchor not in anchors(read(full)):
                    yield f"{page}:{number}: the link {target} names an anchor that {os.path.relpath(full, root)} has no heading for"


def self_test():
    seven = " ".join(["A fact."] * 7)
    cases = (
        ("README.md", "x" * 201, "README.md:1: the line has 201 characters, more than 200; break it"),
        ("docs/log/a.md", "```\n" + "x" * 201 + "\n```", "docs/log/a.md:2: the line has 201 characters, more than 200; break it"),
        ("docs/guide/a.md", f"# T\n\n{seven}", "docs/guide/a.md:3: the paragraph has 7 sentences, more than 6; divide it"),
        ("docs/start/a.md", f"- b\n- {seven}", "docs/start/a.md:2: the paragraph has 7 sentences, more than 6; divide it"),
        ("docs/a.md", "See [b](b.md).", "docs/a.md:1: the link b.md leads to no file or folder of the checkout"),
        ("docs/a.md", "![b](pictures/b.svg)", "docs/a.md:1: the link pictures/b.svg leads to no file or folder of the checkout"),
        ("docs/a.md", "# One two\n\n[c](#one)", "docs/a.md:3: the link #one names an anchor that docs/a.md has no heading for"),
        ("docs/a.md", "[c](../README.md#x)", "docs/a.md:1: the link ../README.md#x names an anchor that README.md has no heading for"),
        ("docs/a.md", "# One, two\n\n[c](#one-two) [d](../README.md) `[e](f.md)`\n\n    [g](h.md)\n\n```\n[i](j.md)\n```", None),
        ("docs/a.md", "`docs/b.md`, `docs/*.md` and `other/b.md`", "docs/a.md:1: docs/b.md is no file or folder of the checkout"),
        ("docs/log/a.md", "`docs/b.md`", None),
        ("docs/inside/a.md", seven, None),
        ("docs/guide/a.md", "A number 0.5 and a.b.c. " * 6 + "\n\n| " + seven + " |", None),
        ("CHANGELOG.md", "x" * 200, None))
    for page, text, expected in cases:
        with tempfile.TemporaryDirectory() as root:
            for path, content in (("README.md", ""), (page, text)):
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w") as file:
                    file.write(content)
            found = list(violations(root))
            assert found == ([expected] if expected else []), (page, text, found)
    print(f"{len(cases)} pages are judged as they should be")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found = list(violations(sys.argv[1]))
    print("\n".join(found) if found else "no page breaks a rule")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
