#!/usr/bin/env python3
"""The rules of the source tree that a compiler does not check.

    check_rules.py ROOT          check the checkout at ROOT
    check_rules.py --self-test   show that each rule finds a file that breaks it

Data flows from left to right, and a folder includes only itself and what is left of it:

    include/attune -> dsl -> arch -> ir -> passes -> codegen        (compiling)
    include/attune -> dsl -> arch -> runtime                        (running: no MLIR, no LLVM)
    driver joins both; the float64 reference sees public headers only
"""
import os
import re
import sys
import tempfile

# Folder: the first components of the quoted includes that its files may have.
MAY_INCLUDE = {
    "include": {"attune"},
    "dsl": {"attune", "dsl"},
    "arch": {"attune", "dsl", "arch"},
    "runtime": {"attune", "dsl", "arch", "runtime"},
    "ir": {"attune", "dsl", "arch", "ir"},
    "passes": {"attune", "dsl", "arch", "ir", "passes"},
    "codegen": {"attune", "dsl", "arch", "ir", "passes", "codegen"},
    "driver": {"attune", "dsl", "arch", "ir", "passes", "codegen", "runtime", "driver"},
    "tools/reference": {"attune", "tools"},
}
WITHOUT_MLIR = ["include", "dsl", "arch", "runtime", "tools/reference"]
# The interface in C: its header, and where exceptions end, as none may leave it.
IN_C, C_LIBRARY = {"include/attune/c.h"}, {"stddef.h", "stdint.h", "string.h"}
EXCEPTIONS_END_IN = {"driver/CApi.cpp"}
COMPILER = ["include", "dsl", "arch", "runtime", "ir", "passes", "codegen", "driver"]
# The folders of passes/ that hold passes.
STAGES = ["attn", "tile", "sched"]
TREE = COMPILER + ["python", "tools", "examples", "bench", "tests"]
VAGUE_NAMES = {"fast", "optimized", "new", "v2", "helper", "helpers", "util", "utils", "manager"}

# What of Python's C interface is not in its stable part, which the wheel is built with; the interpreter that tests use may have no header of it.
UNSTABLE_PYTHON = re.compile(r"\b(_Py\w+|Py[A-Z]\w*_[A-Z][A-Z_]+|PyObject_Call(?:MethodNoArgs|MethodOneArg|OneArg))\b(?=\()")

LITERALS = re.compile(
    r'R"([^()\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.DOTALL)

# What one source alone sees: static functions, and those of its unnamed namespace.
UNNAMED_NAMESPACE = re.compile(r"^namespace \{$.*?^\} // namespace$", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?!public:|private:|return\b)[A-Za-z][^;{}=()#]*?[ *&](\w+)\([^{;]*\)[^;{()]*\{", re.MULTILINE)


def local_functions(text):
    unnamed = [space.span() for space in UNNAMED_NAMESPACE.finditer(text)]
    for match in FUNCTION.finditer(code_only(text)):
        if match.group().startswith("static ") or any(begin < match.start() < end for begin, end in unnamed):
            yield match.group(1)


def files(root, folder, endings=(".h", ".cpp", ".cuh")):
    for path, folders, names in os.walk(os.path.join(root, folder)):
        folders.sort()
        for name in sorted(names):
            if name.endswith(endings):
                full = os.path.join(path, name)
                yield os.path.relpath(full, root), open(full, errors="replace").read()


def code_only(text):
    """`text` with comments and literals blanked, line for line."""
    return LITERALS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def without_comments(text):
    """`text` with comments blanked, line for line; literals stay."""
    return LITERALS.sub(lambda match: match.group() if match.group()[0] != "/" else re.sub(r"[^\n]", " ", match.group()), text)


def violations(root):
    for folder, allowed in MAY_INCLUDE.items():
        for path, text in files(root, folder):
            for number, line in enumerate(text.splitlines(), 1):
                include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
                if not include:
                    continue
                quote, header = include.groups()
                first = header.split("/")[0]
                if first in ("mlir", "llvm"):
                    if folder in WITHOUT_MLIR:
                        yield f"{path}:{number}: {folder}/ builds without MLIR, but includes {header}"
                elif header.startswith(("cuda", "nvrtc")) and header.endswith(".h"):
                    yield f"{path}:{number}: {header} is a CUDA header; entry points are found by dlopen"
                elif quote == '"' and first not in allowed:
                    yield f"{path}:{number}: {folder}/ must not include {header}: data flows dsl -> arch -> ir -> passes -> codegen -> runtime"
                elif quote == "<" and folder == "include" and not re.fullmatch(r"[a-z_]+", header) and not (path in IN_C and header in C_LIBRARY):
                    yield f"{path}:{number}: a public header includes {header}, which is not of the standard library"

    for path, text in files(root, "include"):
        for number, line in enumerate(code_only(text).splitlines(), 1):
            foreign = re.search(r"\b(mlir|llvm|nlohmann|fmt)::|\b(CU[a-z]\w+|cuda\w+_t|nvrtc(?:Program|Result))\b", line)
            if foreign:
                yield f"{path}:{number}: a public header names {foreign.group()}; use std types only"

    for folder in COMPILER:
        for path, text in files(root, folder, (".h", ".cpp")):
            for number, line in enumerate(code_only(text).splitlines(), 1):
                word = re.search(r"\b(dynamic_cast|throw|try|catch)\b", line)
                if word and not (path in EXCEPTIONS_END_IN and word.group() in ("try", "catch")):
                    yield f"{path}:{number}: {word.group()}: compiler code uses isa/dyn_cast and returns errors as values"

    # What a pass does follows from the program and from capabilities in arch/ArchInfo.h, not from an architecture's name.
    for folder in ("ir", "passes", "codegen"):
        for path, text in files(root, folder, (".h", ".cpp")):
            for number, line in enumerate(without_comments(text).splitlines(), 1):
                name = re.search(r"\bsm_\d\w*|\bcompute(Major|Minor)\b|(?<=[.>])warpgroups\b|\bfillingWarps\b", line)
                if name:
                    yield f"{path}:{number}: {name.group()}: ask arch/ArchInfo.h for a capability"

    for folder in TREE:
        for path, _ in files(root, folder, (".h", ".cpp", ".td", ".py", ".mlir", ".cuh")):
            words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", os.path.splitext(os.path.basename(path))[0])
            for word in words:
                if word.lower() in VAGUE_NAMES:
                    yield f"{path}: the name says '{word}', which is not what the file is"

    for folder in TREE[:-1]:
        for path, text in files(root, folder, (".h", ".cpp")):
            for number, line in enumerate(code_only(text).splitlines(), 1):
                if re.search(r"\b(secure_)?getenv\b", line) and path != os.path.join("runtime", "Environment.cpp"):
                    yield f"{path}:{number}: getenv: list the variable in runtime/Environment.cpp and read it by valueOf"

    for path, text in files(root, "python", (".h", ".cpp")):
        for number, line in enumerate(code_only(text).splitlines(), 1):
            if name := UNSTABLE_PYTHON.search(line):
                yield f"{path}:{number}: {name.group()} is not of Python's limited API; wheels need a function that is"

    # A unity build compiles several sources as one: the second definition would overload the first, unseen.
    for folder in COMPILER + ["tools/attune", "tools/reference"]:
        defined = {}
        for path, text in files(root, folder, (".cpp",)):
            for name in local_functions(text):
                other = defined.setdefault(name, path)
                if other != path:
                    yield f"{path}: {other} defines a static function {name} too: share one, or name one of them anew"

    passes = os.path.join(root, "passes", "Passes.td")
    if os.path.exists(passes):
        for match in re.finditer(r'^def (\w+)\s*:\s*Pass<"([\w-]+)".*?^}', open(passes).read(), re.DOTALL | re.MULTILINE):
            name, flag = match.group(1), match.group(2)
            for part in ("Requires:", "Ensures:", "Why here:", "Before:", "After:"):
                if part not in match.group():
                    yield f"passes/Passes.td: {flag} does not say '{part}'"
            if not any(os.path.exists(os.path.join(root, "passes", stage, name + ".cpp")) for stage in STAGES):
                yield f"passes/Passes.td: {flag} is not in a file of its own, passes/STAGE/{name}.cpp"
            # A stage's verifier is VerifyAttn and attn-verify: flags begin with their stage.
            words = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
            if not flag.endswith(words) and "-".join(reversed(flag.split("-"))) != words:
                yield f"passes/Passes.td: {flag} and {name} do not share a name"


# One tree for each rule: path, text, and what must be found.
BROKEN = [
    ("dsl/A.cpp", '#include "ir/attn/Attn.h"\n', "dsl/ must not include ir/attn/Attn.h"),
    ("passes/A.cpp", '#include "codegen/cuda/Printer.h"\n', "passes/ must not include codegen/cuda/Printer.h"),
    ("arch/A.cpp", '#include "runtime/Cache.h"\n', "arch/ must not include runtime/Cache.h"),
    ("passes/tile/A.cpp", '#include "runtime/Cache.h"\n', "passes/ must not include runtime/Cache.h"),
    ("runtime/A.h", '#include "passes/Passes.h"\n', "runtime/ must not include passes/Passes.h"),
    ("tools/reference/A.cpp", '#include "ir/attn/Attn.h"\n', "tools/reference/ must not include"),
    ("runtime/A.h", '#include "llvm/ADT/StringRef.h"\n', "runtime/ builds without MLIR"),
    ("codegen/A.cpp", "#include <cuda.h>\n", "is a CUDA header"),
    ("include/attune/A.h", "#include <fmt/format.h>\n", "not of the standard library"),
    ("include/attune/A.h", "void launch(CUstream stream);\n", "names CUstream"),
    ("include/attune/A.h", "mlir::Value value();\n", "names mlir::"),
    ("ir/A.cpp", "auto *a = dynamic_cast<B *>(c);\n", "dynamic_cast:"),
    ("driver/A.cpp", "void f() { throw 1; }\n", "throw:"),
    ("tools/A.cpp", 'const char *home = std::getenv("HOME");\n', "getenv: list the variable"),
    ("passes/A.cpp", "static int sizeOf(long a) { return 1; }\n", "defines a static function sizeOf too"),
    ("passes/A.cpp", 'bool hasTma = arch == "sm_90a";\n', "sm_90a: ask arch/ArchInfo.h"),
    ("codegen/A.cpp", "bool hasTma = info->computeMajor >= 9;\n", "computeMajor: ask arch/ArchInfo.h"),
    ("python/A.cpp", "double x = PyFloat_AS_DOUBLE(number);\n", "PyFloat_AS_DOUBLE is not of Python's limited API"),
    ("python/A.cpp", "PyObject *x = PyObject_CallMethodNoArgs(a, b);\n", "PyObject_CallMethodNoArgs is not of"),
    ("dsl/ParserUtils.h", "", "the name says 'Utils'"),
    ("passes/Passes.td", 'def A : Pass<"tile-a"> {\n}\n', "does not say 'Requires:'"),
    ("passes/Passes.td", 'def A : Pass<"tile-a"> {\n}\n', "not in a file of its own"),
    ("passes/Passes.td", 'def CopyRings : Pass<"tile-rings"> {\n}\n', "do not share a name"),
]
# The same tree has this file too.
SAME_NAME = ("passes/B.cpp", "static int sizeOf(int a) { return a; }\n")
SOUND = [
    ("include/attune/A.h", '#include <string>\n#include "attune/Error.h"\n// llvm::StringRef, CUstream\n'),
    ("passes/A.cpp", '#include "arch/ArchInfo.h"\n#include "ir/tile/Tile.h"\nconst char *s = "throw"; // catch sm_90\n'),
    ("runtime/Environment.cpp", 'const char *home = std::getenv("HOME");\n'),
    ("tests/A.cpp", 'const char *home = std::getenv("HOME"); // what a test sets\n'),
    ("python/A.cpp", "Py_INCREF(x); double y = PyFloat_AsDouble(x);\n"),
    ("driver/A.cpp", '#include "passes/Passes.h"\n#include "runtime/Cache.h"\n#include "mlir/IR/Builders.h"\n'),
]


def self_test():
    def found(*tree):
        with tempfile.TemporaryDirectory() as root:
            for path, text in (tree, SAME_NAME):
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w") as out:
                    out.write(text)
            return list(violations(root))

    faults = [f"{path}: expected '{wanted}', found {found(path, text)}"
              for path, text, wanted in BROKEN if not any(wanted in line for line in found(path, text))]
    faults += [f"{path}: expected nothing, found {found(path, text)}" for path, text in SOUND if found(path, text)]
    return faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    faults = self_test() if sys.argv[1] == "--self-test" else list(violations(sys.argv[1]))
    print("\n".join(faults) if faults else "all rules hold")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
