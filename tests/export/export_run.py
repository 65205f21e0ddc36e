#!/usr/bin/env python3
"""Exports run.c's kernels by the command line, compiles all as C99 and C++17, and runs the program where there is a GPU.

    python3 tests/export/export_run.py build/bin/attune       exit code 77: compiled, but no GPU to run on
"""
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.c")
KERNEL = ["--score", "softcap(s, 30) + slopes[h] * (k - q)", "--mask", "q >= k && ids[q] == ids[k]", "--tensor", "slopes=f32", "--tensor", "ids=i32",
          "--arch", "sm_80,sm_90a", "--head-dim", "64", "--backward", "--grad", "slopes", "--name", "demo"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "export", *KERNEL, "-o", folder], check=True)
        for compiler in (["gcc", "-std=c99", "-pedantic"], ["g++", "-x", "c++", "-std=c++17"]):
            subprocess.run([*compiler, "-O2", "-Wall", "-Wextra", "-Werror", f"-I{folder}", SOURCE, f"{folder}/demo.c", f"{folder}/demo_backward.c", "-lm", "-ldl", "-lpthread",
                            "-o", f"{folder}/run"], check=True)
        return subprocess.run([f"{folder}/run"]).returncode


if __name__ == "__main__":
    sys.exit(main())
