# FileCheck tests of the CUDA printer: lit with --param tools=DIR, the folder of attune-print-cuda.
import os
import lit.formats

config.name = "attune-cuda"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["exec"]
config.environment["PATH"] = os.pathsep.join([lit_config.params["tools"], "/usr/lib/llvm-22/bin", os.environ["PATH"]])
