#!/usr/bin/env python3
"""Runs PyTorch's own tests of FlexAttention, test/inductor/test_flex_attention.py, with attune.torch in its place, and counts.

    flex_tests.py --torch ~/pytorch                           the source tree of the release that is installed
    flex_tests.py --torch ~/pytorch --filter 'GQA|bias'       some of them
    flex_tests.py --torch ~/pytorch --shard 1/4 --seconds 540 a quarter, and what is left after nine minutes counts as not run
    flex_tests.py --torch ~/pytorch --block-mask torch        attune's flex_attention with PyTorch's BlockMask
    flex_tests.py --torch ~/pytorch --device cpu

The tests compare a compiled call with the same call uncompiled, in the same dtype and in float64. So what a test compiles computes with
attune, torch.compile itself doing nothing, and what it calls uncompiled stays PyTorch's reference; in a test that compiles nothing, attune
computes all that is not float64. Masks come from attune's create_block_mask, and the reference gets PyTorch's of the same arguments.

A test that passed without a call of attune is counted apart. Tests of what is FlexAttention's alone are not run: EXCLUDED says which, and
why. Each message stands for all that differ from it in numbers alone. A test that ends the process, or leaves CUDA with an error, counts as
errored, and the rest runs in a new process.

Tests that are skipped where Triton has faults run. It needs expecttest and numpy beside PyTorch, as PyTorch's tests do, and on a CPU psutil. Exit code 1 where a test failed, errored or was not run.
"""
import argparse
import ast
import collections
import functools
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from shards import add_shard

MODULE = "test_flex_attention"
FILE = f"test/inductor/{MODULE}.py"

# What a test's name or text (with that of the methods it calls) shows -> why it is not run.
EXCLUDED = [
    (r"run_and_get_code|FileCheck|metrics\.num_", "reads Inductor's Triton code or metrics"),
    (r"CompileCounter|frame_count|utils\.counters", "counts Dynamo's graphs and recompilations"),
    (r"print_readable|make_fx|EagerAndRecordGraphs", "compares the graphs of Dynamo and AOTAutograd"),
    (r"higher_order\.|flex_attention_hop\(|flex_attention_fwd\(|import \(?\s*flex_attention as", "calls FlexAttention's operator itself"),
    (r"TritonTemplate|_inductor\.kernel|_inductor import|flex_attention_log", "looks into Inductor"),
    (r"assertRaisesRegex|assertWarns|_WARNINGS_SHOWN|_apply_kernel_options", "expects FlexAttention's own errors and warnings"),
    (r"gradcheck|test_document_masking_edge_case", "computes in float64 alone, which attune does not"),
    (r"test_selective_ac_ops_to_save", "checkpoints FlexAttention's operator by its name"),
]
POISONED = re.compile(r"CUDA error|CUDA_ERROR|illegal memory access|device-side assert")


class Source:
    """The text of the file's test methods."""

    def __init__(self, path):
        self.methods = {}       # (class, method) -> text
        text = path.read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef):
                        self.methods[node.name, item.name] = ast.get_source_segment(text, item)

    def of(self, class_name, test):
        """The text of an instantiated test, as TestFlexAttentionCUDA.test_GQA_score_mod0_cuda_float16, and of what it calls by self."""
        homes = [(c, m) for c, m in self.methods if class_name.startswith(c) and (test == m or test.startswith(m + "_"))]
        if not homes:
            return ""
        home = max(homes, key=lambda key: (len(key[1]), len(key[0])))
        seen, open_methods = set(), [home[1]]
        while open_methods:
            method = open_methods.pop()
            if method not in seen and (home[0], method) in self.methods:
                seen.add(method)
                open_methods += re.findall(r"self\.(\w+)\(", self.methods[home[0], method])
        return "\n".join(self.methods[home[0], method] for method in seen)


def why_excluded(name, text):
    return next((reason for pattern, reason in EXCLUDED if re.search(pattern, name) or re.search(pattern, text)), None)


def skip_unless(original):
    """unittest.skipUnless, which skips nothing for the faults of Triton on some GPUs: attune computes what Triton would."""
    return lambda condition, reason: (lambda test: test) if reason.startswith("Requires Triton") else original(condition, reason)


def attend(*arguments, **keywords):
    return replacement.attend(*arguments, **keywords)


def make_mask(*arguments, **keywords):
    return replacement.make_mask(*arguments, **keywords)


class Replacement:
    """Puts attune's functions in the place of torch.nn.attention.flex_attention's, before the test module imports them."""

    def __init__(self, options):
        import torch
        from torch.nn.attention import flex_attention as flex
        from torch.nn.attention.experimental import _paged_attention as paged
        module = importlib.import_module(options.module)
        self.attune, self.attune_mask = module.flex_attention, module.create_block_mask
        self.torch, self.torch_mask = flex.flex_attention, flex.create_block_mask
        self.real_compile, self.options, self.float64 = torch.compile, options, torch.float64
        self.begin("")
        global replacement
        replacement = self
        flex.flex_attention, flex.create_block_mask = functools.wraps(self.torch)(attend), functools.wraps(self.torch_mask)(make_mask)
        torch.compile = self.compile
        convert = paged.PagedAttention.convert_logical_block_mask
        paged.PagedAttention.convert_logical_block_mask = lambda cache, mask, *a, **k: convert(cache, self.reference_mask(mask), *a, **k)

    def begin(self, text):
        """Before each test: forgets the last one's masks and counts."""
        self.depth, self.calls, self.twins = 0, 0, {}
        self.compiles = "torch.compile" in text or ".compile(" in text

    def attend(self, query, key, value, *arguments, **keywords):
        if query.dtype is not self.float64 and (self.depth or not self.compiles):
            self.calls += 1
            return self.attune(query, key, value, *arguments, **keywords)
        bound = inspect.signature(self.torch).bind(query, key, value, *arguments, **keywords)
        if "block_mask" in bound.arguments:
            bound.arguments["block_mask"] = self.reference_mask(bound.arguments["block_mask"])
        return self.torch(*bound.args, **bound.kwargs)

    def make_mask(self, *arguments, **keywords):
        reference = self.torch_mask(*arguments, **keywords)
        by_attune = sys._getframe(2).f_globals.get("__name__", "").startswith("attune")     # which makes PyTorch's of its own
        if self.options.block_mask == "torch" or by_attune:
            return reference
        self.calls += 1
        mask = self.attune_mask(*arguments, **keywords)
        self.twins[id(mask)] = mask, reference
        return mask

    def reference_mask(self, mask):
        return self.twins.get(id(mask), (mask, mask))[1]

    def compile(self, model=None, **keywords):
        """torch.compile. PyTorch's own modules keep the real one: the reference compiles its dense computation."""
        caller = sys._getframe(1).f_globals.get("__name__")
        if caller not in (MODULE, "torch.nn.modules.module"):
            return self.real_compile(model, **keywords)
        if model is None:
            return self.counted
        return self.counted(model)

    def counted(self, model):
        """`model`, inside of which attune computes."""
        def call(*arguments, **keywords):
            self.depth += 1
            try:
                return model(*arguments, **keywords)
            finally:
                self.depth -= 1
        return functools.wraps(model)(call) if inspect.isfunction(model) else call


def first_line(error):
    lines = [line.strip() for line in str(error[1]).splitlines() if line.strip()]
    name = "" if error[0] is AssertionError else f"{error[0].__module__.split('.')[0]}.{error[0].__name__}: ".replace("builtins.", "")
    return name + (lines[0] if lines else "no message")


class Result(unittest.TestResult):
    """Notes the one outcome of each test."""

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("passed", "")

    def addFailure(self, test, error):
        self.outcome = ("failed", first_line(error))

    def addError(self, test, error):
        self.outcome = ("errored", first_line(error))

    def addSkip(self, test, reason):
        self.outcome = ("skipped", reason.splitlines()[0] if reason else "")

    def addExpectedFailure(self, test, error):
        self.outcome = ("passed", "")

    def addUnexpectedSuccess(self, test):
        self.outcome = ("passed", "computes what FlexAttention does not")


def worker(options):
    """Runs the tests that `results` has no line of, and appends two lines a test: that it begins, and its outcome."""
    results = pathlib.Path(options.results)
    done = {json.loads(line)["test"] for line in results.read_text().splitlines()}
    path = pathlib.Path(options.torch).expanduser() / FILE
    source, replacement = Source(path), Replacement(options)
    unittest.skipUnless = skip_unless(unittest.skipUnless)
    sys.path.insert(0, str(path.parents[1]))
    spec = importlib.util.spec_from_file_location(MODULE, path)
    module = sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cases = [case for case in vars(module).values() if inspect.isclass(case) and issubclass(case, unittest.TestCase)
             and case.__module__ == MODULE]
    names = [(case, name) for case in cases for name in unittest.defaultTestLoader.getTestCaseNames(case)]
    chosen = [(case, name) for case, name in names if re.search(options.filter, f"{case.__name__}.{name}")]
    chosen = chosen[options.shard]
    with results.open("a") as out:
        def say(test, **line):
            print(json.dumps({"test": test, **line}), file=out, flush=True)
        for index, (case, name) in enumerate(chosen):
            test = f"{case.__name__}.{name}"
            if test in done:
                continue
            text = source.of(case.__name__, name)
            reason = why_excluded(name, text)
            if reason:
                say(test, status="excluded", message=reason)
                continue
            if time.time() > options.deadline:
                say(test, status="not run", message="--seconds were over")
                continue
            say(test, status="begun")
            replacement.begin(text)
            result = Result()
            case(name).run(result)
            status, message = result.outcome
            if status == "passed" and not replacement.calls:
                status = "passed without attune"
            say(test, status=status, message=message)
            if options.verbose or (index + 1) % 50 == 0:
                print(f"{index + 1} of {len(chosen)}: {test} {status} {message}", file=sys.stderr, flush=True)
            if POISONED.search(message):
                os._exit(3)
    os._exit(0)     # an exit handler of a library must not count as a crash of the tests


def run_all(arguments, results):
    """Starts workers until every test has an outcome; {test: (status, message)}."""
    while True:
        code = subprocess.run([sys.executable, __file__, *arguments, "--results", str(results)], stdout=sys.stderr).returncode
        outcomes, last = {}, None
        for line in map(json.loads, results.read_text().splitlines()):
            last = line["test"]
            outcomes[last] = line["status"], line.get("message", "")
        if code == 0:
            return outcomes
        if last is not None and outcomes[last][0] == "begun":
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            with results.open("a") as out:
                print(json.dumps({"test": last, "status": "errored", "message": f"ended the process: {how}"}), file=out)
        elif code != 3:
            sys.exit(f"the tests cannot be loaded (exit code {code}); see above")


def print_tables(outcomes):
    counts = collections.Counter(status for status, _ in outcomes.values())
    columns = ["passed", "failed", "errored", "skipped", "passed without attune", "excluded", "not run"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    print("| " + " | ".join(str(counts[column]) for column in columns) + " |\n")
    groups = collections.defaultdict(list)
    for test, (status, message) in outcomes.items():
        if status != "passed":
            groups[status, re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "#", message)[:200]].append(test)
    print("| status | tests | message | for example |\n|---|---|---|---|")
    for (status, message), tests in sorted(groups.items(), key=lambda item: (columns.index(item[0][0]), -len(item[1]))):
        print(f"| {status} | {len(tests)} | {message.replace('|', '/')} | {tests[0]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--torch", required=True, metavar="PATH", help="source tree of PyTorch")
    add("--filter", default="", metavar="REGEX", help="tests whose Class.name it finds")
    add("--device", choices=("cuda", "cpu"), help="default: cuda where there is one")
    add("--block-mask", choices=("attune", "torch"), default="attune", help="whose create_block_mask attune's calls get masks from")
    add("--module", default="attune.torch", help="where attune's flex_attention and create_block_mask come from")
    add_shard(parser, "test")
    add("--seconds", type=float, default=float("inf"), help="starts no test after so long")
    add("--json", metavar="FILE", help="every test's outcome as JSON, too")
    add("--verbose", action="store_true", help="a line for each test")
    add("--results", help=argparse.SUPPRESS)
    add("--deadline", type=float, default=float("inf"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    tree = pathlib.Path(options.torch).expanduser()
    if not (tree / FILE).is_file():
        sys.exit(f"{tree / FILE} does not exist; --torch is the source tree of PyTorch")
    if options.results:
        worker(options)
    for needed in ("expecttest", "numpy"):
        if importlib.util.find_spec(needed) is None:
            sys.exit(f"PyTorch's tests need {needed}; pip install {needed}")
    import torch
    version = (tree / "version.txt").read_text().strip() if (tree / "version.txt").is_file() else "unknown"
    if version.split("a")[0] != torch.__version__.split("+")[0]:
        print(f"warning: the tree is of version {version}, and {torch.__version__} is installed", file=sys.stderr)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = device
    machine = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results"
        results.touch()
        outcomes = run_all([*sys.argv[1:], "--deadline", str(time.time() + options.seconds)], results)
    print(f"{machine}, PyTorch {torch.__version__}, tests of {version}, masks of {options.block_mask}\n")
    print_tables(outcomes)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(outcomes, indent=1))
    bad = {"failed", "errored", "not run"}
    sys.exit(1 if any(status in bad for status, _ in outcomes.values()) else 0)


if __name__ == "__main__":
    main()
