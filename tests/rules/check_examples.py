#!/usr/bin/env python3
"""check_examples.py ATTUNE_OPT PAGE...: the examples of the dialects' pages match the grammar.

Each ```mlir block is parsed as the body of a module. Values that it does not define are errors of their own kind, which the
parser reports last and which are left aside; every other error fails. Blocks that leave something out ("...") are skipped.
"""
import re
import subprocess
import sys

MISSING = "use of undeclared SSA value name"


def as_module(example):
    if example.startswith("!"):
        return "\n".join(f"func.func private @type{i}({line})" for i, line in enumerate(example.splitlines()))
    if example.startswith("#"):
        return "\n".join(f"func.func private @attribute{i}() attributes {{test.attribute = {line}}}" for i, line in enumerate(example.splitlines()))
    return example


def main():
    tool, pages = sys.argv[1], sys.argv[2:]
    examples = []
    for page in pages:
        text = open(page).read()
        for match in re.finditer(r"^```mlir\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            if "..." not in match.group(1):
                examples.append((page, text[:match.start()].count("\n") + 2, match.group(1).strip()))
    if len(examples) < 60:
        sys.exit(f"only {len(examples)} examples found")
    faults = 0
    for page, line, example in examples:
        module = as_module(example)
        run = subprocess.run([tool, "-allow-unregistered-dialect"], input=module, capture_output=True, text=True)
        errors = [l for l in run.stderr.splitlines() if "error:" in l and MISSING not in l]
        parsed = run.returncode == 0 or MISSING in run.stderr
        # Verifiers see ops outside a kernel; only the grammar counts here.
        errors = [l for l in errors if not re.search(r"error: '[\w.]+' op ", l)]
        if errors or not (parsed or "' op " in run.stderr):
            faults += 1
            print(f"{page}:{line}: {example}\n  " + "\n  ".join(errors or [run.stderr]))
    print(f"{len(examples)} examples, {faults} do not parse")
    sys.exit(faults > 0)


main()
