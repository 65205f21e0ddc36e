#!/usr/bin/env python3
"""refused_test.py INCLUDE COMPILER...: C++ that is no variant is refused, with a text that says what to write.

The errors of a compiler must be these texts and no others, and their trails must name each refused snippet's line.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

NO_VALUE = "an expression has no value before the kernel runs, so that if, ?: and loops cannot decide by it; write select(condition, a, b)"
SCORE_TAKES = ".score takes a function of (Score s, Index b, Index h, Index q, Index k), which are expressions"
SCORE_GIVES = "the function of .score gives the new score, an expression or a number"
MASK_TAKES = ".mask takes a function of (Index b, Index h, Index q, Index k), which are expressions; the score is not among them"
MASK_GIVES = "the function of .mask gives whether q sees k, a bool expression such as q >= k"

# Snippets of one list are compiled together, each with its error. A conversion to bool is one template, whose error is given once a file.
FILES = [
    [
        ("v.score([](Score s, Index, Index, Index q, Index k) { if (q >= k) return s; return s + 1; });", NO_VALUE),
        ("v.score([](Score s, Index, Index, Index) { return s; });", SCORE_TAKES),
        ("v.score([](float s, int, int, int, int) { return s; });", SCORE_TAKES),
        ("v.score(softcap(inputScore(), 30));", SCORE_TAKES),
        ("v.score([](Score, Index, Index, Index, Index) {});", SCORE_GIVES),
        ("v.mask([](Index q, Index k) { return q >= k; });", MASK_TAKES),
        ("v.mask([](Score s, Index, Index, Index, Index) { return s > 0; });", MASK_TAKES),
        ("v.mask([](Index, Index, Index, Index) { return \"q >= k\"; });", MASK_GIVES),
    ],
    [("v.score([](Score s, Index, Index, Index q, Index k) { return q >= k && k > 0 ? s : s + 1; });", NO_VALUE)],
    # What is right stays right.
    [
        ("v.score([](Score s, Index, Index, Index q, Index) { return select(flag && true || !(q > 0), s, 0); }).mask(causal());", None),
        ("v.mask([](Index, Index, Index q, Index k) { return t[k] && !t[q] || false || (t[q] > 0 && t[k]); }).score([](auto s, auto...) { return s; });", None),
        ("auto seen = inputScore() > 0; seen = flag; seen = plain ? seen : true; seen = seen || seen;", None),
    ],
]

HEAD = """#include "attune/attune.h"
using namespace attune;
extern Captured t;
extern Expr flag;
extern bool plain;
"""


def fault(compiler, include, snippets):
    body = "".join(f'#line {number} "snippet"\nvoid snippet{number}(Variant v) {{ (void)v; {snippet} }}\n'
                   for number, (snippet, _) in enumerate(snippets, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file.cpp")
        with open(path, "w") as out:
            out.write(HEAD + body)
        colorless = "-fno-color-diagnostics" if "clang" in compiler else "-fdiagnostics-color=never"
        run = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", colorless, "-I", include, path], capture_output=True, text=True)
    errors = re.findall(r"error: (?:static assertion failed(?: due to requirement '[^\n]*?')?: )?(.*)", run.stderr)
    refused = [(number, text) for number, (_, text) in enumerate(snippets, 1) if text]
    unnamed = [number for number, _ in refused if f"snippet:{number}:" not in run.stderr]
    if sorted(errors) != sorted(text for _, text in refused) or unnamed or (run.returncode == 0) != (not refused):
        return f"{compiler}: errors {errors}, lines without one {unnamed}\n{run.stderr}"
    return None


def main():
    include, compilers = sys.argv[1], sys.argv[2:]
    cases = [(compiler, include, snippets) for compiler in compilers for snippets in FILES]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = [text for text in pool.map(lambda case: fault(*case), cases) if text]
    print("\n".join(faults) if faults else f"{len(cases)} files as expected")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
