#!/usr/bin/env python3
"""refused_test.py INCLUDE COMPILER...: C++ that is no variant is refused, with a text that says what to write.

Each snippet stands in a function of its own file; a compiler's first error must be the text, and the error's trail must name the snippet's line.
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

SNIPPETS = [
    ("v.score([](Score s, Index, Index, Index q, Index k) { if (q >= k) return s; return s + 1; });", NO_VALUE),
    ("v.score([](Score s, Index, Index, Index q, Index k) { return q >= k && k > 0 ? s : s + 1; });", NO_VALUE),
    ("v.mask([](Index, Index, Index q, Index k) { while (!(q >= k)) q -= 1; return q >= k; });", NO_VALUE),
    ("v.score([](Score s, Index, Index, Index) { return s; });", SCORE_TAKES),
    ("v.score([](float s, int, int, int, int) { return s; });", SCORE_TAKES),
    ("v.score(softcap(inputScore(), 30));", SCORE_TAKES),
    ("v.score([](Score, Index, Index, Index, Index) {});", SCORE_GIVES),
    ("v.mask([](Index q, Index k) { return q >= k; });", MASK_TAKES),
    ("v.mask([](Score s, Index, Index, Index, Index) { return s > 0; });", MASK_TAKES),
    ("v.mask([](Index, Index, Index, Index) { return \"q >= k\"; });", MASK_GIVES),
    # What is right stays right.
    ("v.score([](Score s, Index, Index, Index q, Index) { return select(flag && true || !(q > 0), s, 0); }).mask(causal());", None),
    ("v.mask([](Index, Index, Index q, Index k) { return t[k] && !t[q] || false || (t[q] > 0 && t[k]); }).score([](auto s, auto...) { return s; });", None),
    ("auto seen = inputScore() > 0; seen = flag; seen = plain ? seen : true; seen = seen || seen;", None),
]

FILE = """#include "attune/attune.h"
using namespace attune;
extern Captured t;
extern Expr flag;
extern bool plain;
void snippet(Variant v) {{
#line 1 "snippet"
{}
}}
"""


def fault(compiler, include, snippet, expected):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file.cpp")
        with open(path, "w") as out:
            out.write(FILE.format(snippet))
        run = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-fno-color-diagnostics" if "clang" in compiler else "-fdiagnostics-color=never",
                              "-I", include, path], capture_output=True, text=True)
    errors = re.findall(r"error: (?:static assertion failed(?: due to requirement '[^\n]*?')?: )?(.*)", run.stderr)
    if errors != ([expected] if expected else []) or (expected and "snippet:1:" not in run.stderr):
        return f"{compiler}: {snippet}\nexpected: {expected}\n{run.stderr}"
    return None


def main():
    include, compilers = sys.argv[1], sys.argv[2:]
    cases = [(compiler, include, *case) for compiler in compilers for case in SNIPPETS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = [text for text in pool.map(lambda case: fault(*case), cases) if text]
    print("\n".join(faults) if faults else f"{len(cases)} snippets as expected")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
