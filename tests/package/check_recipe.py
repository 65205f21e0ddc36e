#!/usr/bin/env python3
"""check_recipe.py ROOT CXX WORK: the recipe in CONTRIBUTING.md for a function of scores and masks is all that a function needs.

The line of the recipe is added to a copy of the sources in the folder WORK. The language's library is compiled there with a
program that uses the function in text and in C++. With ATTUNE_FULL_GRID set, the command is built, too, and runs the
function forward and backward on the CPU against the reference.
"""
import os
import re
import shutil
import sys

from command import run

PROGRAM = r"""
#include "attune/Variant.h"
#include <cstdio>
int main() {
  using namespace attune;
  const Expected<Variant> text = Variant::parse("v", {.score = "NAME(s)"});
  if (!text) {
    std::puts(text.error().text().c_str());
    return 1;
  }
  const Variant code = Variant("v").score([](Score s, Index, Index, Index, Index) { return NAME(s); });
  std::puts(code.toJson() == text->toJson() ? "same" : code.toJson().c_str());
  std::puts(Variant::parse("v", {.score = "NAMEs(s)"}).error().text().c_str());
}
"""


def main():
    root, compiler, work = sys.argv[1:]
    recipe = open(os.path.join(root, "CONTRIBUTING.md")).read()
    line, name = re.search(r"^(ATTUNE_COMPOSITE1\((\w+), .*\))$", recipe, re.MULTILINE).groups()
    shutil.rmtree(work, ignore_errors=True)
    full = bool(os.environ.get("ATTUNE_FULL_GRID"))
    folders = [name for name in os.listdir(root) if full and not name.startswith((".", "build"))] or ["include", "dsl"]
    for path in [os.path.join(root, folder) for folder in folders]:
        copy = os.path.join(work, os.path.basename(path))
        if os.path.isdir(path):
            shutil.copytree(path, copy)
        else:
            os.makedirs(work, exist_ok=True)
            shutil.copy(path, copy)
    table = os.path.join(work, "include/attune/Functions.def")
    lines = open(table).read().split("\n")
    last = max(i for i, text in enumerate(lines) if text.startswith("ATTUNE_COMPOSITE1("))
    lines.insert(last + 1, line)
    with open(table, "w") as out:
        out.write("\n".join(lines))

    # The library as one source.
    main_source = os.path.join(work, "main.cpp")
    with open(main_source, "w") as out:
        for source in sorted(os.listdir(os.path.join(work, "dsl"))):
            if source.endswith(".cpp"):
                out.write(f'#include "dsl/{source}"\n')
        out.write(PROGRAM.replace("NAME", name))
    program = os.path.join(work, "main")
    run([compiler, "-std=c++20", "-O0", f"-I{work}", f"-I{work}/include", main_source, "-o", program, "-lfmt"])
    printed = run([program]).splitlines()
    assert printed[0] == "same", printed
    assert f"did you mean {name}?" in printed[1], printed
    if full:
        run(["cmake", "--preset", "release", "-DATTUNE_TESTS=OFF"], cwd=work)
        run(["cmake", "--build", "--preset", "release", "--target", "attune"], cwd=work)
        attune = os.path.join(work, "build/bin/attune")
        for each in ((), ("--backward",)):
            run([attune, "run", "--score", f"{name}(s)", *each, "--target", "cpu", "--shape", "1,2,1,64,80,64,64"])
        assert name in run([attune, "list", "--functions"])


main()
