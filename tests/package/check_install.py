#!/usr/bin/env python3
"""README's `pip install .`, as a user runs it: the wheel is installed into a virtual environment that has nothing else, and README's lines and the
command run in it. With ATTUNE_FULL_GRID (scripts/test --all) the system's compiler builds every source of the library first; otherwise it builds the
layers without MLIR, and the package links the library of this build, installed, as docs/start/install.md shows.

    check_install.py --source . --build build --work build/tests/package/install

Three things differ from the user's: the packages that build the wheel are those of this interpreter, so that no registry is asked; -O0, which takes a
third of the time and compiles the same sources; and the folder of the build stays, so that a second run compiles what has changed.
"""
import argparse
import os
import pathlib
import re
import shutil
import sys

from command import run

try:
    import nanobind  # noqa: F401
    import numpy
    import scikit_build_core  # noqa: F401
except ImportError:
    print("nanobind, NumPy or scikit-build-core is missing: pip install -r python/requirements.txt")
    sys.exit(77)

CHECK = """
import numpy
q, k, v, do = (numpy.random.default_rng(i).standard_normal((1, 8, 64, 128), dtype=numpy.float32) for i in range(4))
{snippet}
assert numpy.isfinite(o).all() and gradients.captured["slopes"].shape == slopes.shape
print(attune.__file__)
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    given = parser.parse_args()
    source, work = given.source.resolve(), given.work.resolve()
    environment = work / "environment"
    shutil.rmtree(environment, ignore_errors=True)
    run([sys.executable, "-m", "venv", "--without-pip", environment])
    python = environment / "bin" / "python"
    packages = next((environment / "lib").glob("python3*/site-packages"))
    # What chooses a compiler for this test chooses none for the user.
    clean = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "PYTHONPATH", "CMAKE_PREFIX_PATH")}
    settings = ["--config-settings", "cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0"]
    folder = work / "build"
    if not os.environ.get("ATTUNE_FULL_GRID"):
        folder = work / "linked"
        prefix, layers = work / "prefix", work / "layers"
        run(["cmake", "--install", given.build, "--prefix", prefix])
        settings += ["--config-settings", f"cmake.define.CMAKE_PREFIX_PATH={prefix}"]
        run(["cmake", "-G", "Ninja", "-S", source / "python", "-B", layers, "-DCMAKE_CXX_FLAGS_RELEASE=-O0", f"-DPython_EXECUTABLE={sys.executable}"],
            env=clean)
        run(["cmake", "--build", layers, "--target", "attune_dsl", "attune_arch", "attune_runtime", "attune_cost"], env=clean)
    run([sys.executable, "-m", "pip", "install", source, "--no-deps", "--no-build-isolation", "--target", packages, "--config-settings", f"build-dir={folder}",
         *settings], env=clean)
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M).group(1)
    version = run([compiler, "--version"]).splitlines()[0]
    if "clang" in version:
        sys.exit(f"the default compiler is {version}, but g++ is what this test is for")
    snippet = re.search(r"^```python\n(import attune\n.*?)^```", (source / "README.md").read_text(), re.M | re.S).group(1)
    program = work / "readme.py"
    program.write_text(CHECK.format(snippet=snippet))
    inside = {**clean, "ATTUNE_CACHE_DIR": str(work / "cache"), "PYTHONPATH": str(pathlib.Path(numpy.__file__).parents[1])}  # NumPy alone is this environment's
    found = run([python, program], env=inside, cwd=work).strip()
    if not found.startswith(str(packages)):
        sys.exit(f"README's lines import {found}, not what is installed in {packages}")
    version_text = run([python, "-m", "attune", "--version"], env=inside, cwd=work).strip()
    for variant in ("causal", "bigbird", "softcap"):
        for options in ((), ("--backward",)):
            compiling = ["compile", variant, *options, "--arch", "sm_90a", "--head-dim", "64", "--emit", "cuda"]
            if run([python, "-m", "attune", *compiling], env=inside, cwd=work) != run([pathlib.Path(given.build) / "bin" / "attune", *compiling], env=inside, cwd=work):
                sys.exit(f"attune {' '.join(compiling)} prints other CUDA where {version} built it")
    print(f"{version_text}, built by {version}")


main()
