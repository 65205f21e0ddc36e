#!/usr/bin/env python3
"""check_format.py CLANG_FORMAT ROOT: every C and C++ file of the checkout is as .clang-format says.

    scripts/format      brings them there
"""
import os
import subprocess
import sys

FOLDERS = ["include", "arch", "dsl", "ir", "passes", "codegen", "runtime", "driver", "python", "tools", "examples", "bench", "tests", "cmake"]


def main():
    clang_format, root = sys.argv[1:]
    paths = [os.path.join(path, name)
             for folder in FOLDERS for path, _, names in os.walk(os.path.join(root, folder))
             for name in names if name.endswith((".h", ".c", ".cpp"))]
    if len(paths) < 300:
        sys.exit(f"only {len(paths)} files found")
    run = subprocess.run([clang_format, "--dry-run", "-ferror-limit=1", "--Werror", *paths], capture_output=True, text=True)
    faults = sorted({line.split(": error:")[0] for line in run.stderr.splitlines() if ": error:" in line})
    for fault in faults:
        print(f"{os.path.relpath(fault, root)}: not as .clang-format says; run scripts/format")
    if run.returncode and not faults:
        print(run.stderr)
    sys.exit(run.returncode != 0)


main()
