# Every .mlir file below tests/ that has RUN lines. CTest runs this (tests/lit/CMakeLists.txt); by hand:
#   lit-22 -sv --param bin=build/bin tests/ir
import os

import lit.formats

tests = os.path.dirname(__file__)
llvm = lit_config.params.get("llvm", "/usr/lib/llvm-22/bin")
binaries = os.path.abspath(lit_config.params.get("bin", os.path.join(tests, "..", "build", "bin")))

config.name = "attune"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
# Files without RUN lines are inputs of other tests.
config.excludes = ["Inputs"]
for folder, _, names in os.walk(tests):
    if folder != tests and "lit.cfg.py" in names:
        config.excludes.append(os.path.basename(folder))  # a suite of its own
    for name in names:
        if name.endswith(".mlir"):
            with open(os.path.join(folder, name), errors="replace") as source:
                if "RUN:" not in source.read():
                    config.excludes.append(name)
config.test_source_root = tests
config.test_exec_root = os.path.join(os.path.dirname(binaries), "tests", "lit")
config.environment["PATH"] = os.pathsep.join([binaries, llvm, config.environment.get("PATH", "")])
for name in ["HOME", "CUDA_HOME", "CUDA_PATH", "ATTUNE_NVRTC_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"]:
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Tests that compile do not see the user's cache, nor each other's run before.
config.environment["ATTUNE_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
for tool in ["attune-opt", "attune"]:
    if os.path.exists(os.path.join(binaries, tool)):
        config.available_features.add(tool)
config.substitutions.append(("%tests", tests))
