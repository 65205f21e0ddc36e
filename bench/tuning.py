#!/usr/bin/env python3
"""How good tuning and the cost model are: sizes and variants that no plan was made for, each against all legal plans.

    tuning.py ATTUNE [--cases FIRST:LAST] [--candidates N] [--out FILE.json]      on a GPU

For each case `attune tune` runs twice in caches of their own: as a user would, and over the whole space of plans (at most
--candidates). The second race gives the best plan; what the first one chose, the model's choice for these sizes (rank 1 of the
space) and its choice for any size are looked up there.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

# name: variant and flags, dtype, B, H, Hkv, Sq, Sk, D, Dv
CASES = {
    "causal short": (["causal"], "bf16", 1, 8, 8, 1024, 1024, 64, 64),
    "plain patches": ([], "bf16", 128, 12, 12, 197, 197, 64, 64),
    "causal 40": (["causal"], "bf16", 4, 16, 16, 1500, 1500, 40, 40),
    "plain 72": ([], "bf16", 8, 16, 16, 1157, 1157, 72, 72),
    "causal 80": (["causal"], "bf16", 2, 25, 25, 3333, 3333, 80, 80),
    "causal 96": (["causal"], "bf16", 3, 12, 12, 3000, 3000, 96, 96),
    "plain 112": ([], "f16", 2, 10, 10, 2111, 2111, 112, 112),
    "GQA 7": (["causal"], "bf16", 2, 28, 4, 2500, 2500, 128, 128),
    "GQA 7 short": (["causal"], "bf16", 1, 14, 2, 515, 515, 128, 128),
    "causal 144": (["causal"], "bf16", 2, 12, 12, 1777, 1777, 144, 144),
    "causal 160": (["causal"], "bf16", 4, 8, 8, 1900, 1900, 160, 160),
    "MLA 192 x 128": (["causal"], "bf16", 2, 16, 16, 2750, 2750, 192, 128),
    "plain 176": ([], "bf16", 1, 16, 16, 4001, 4001, 176, 176),
    "one head": ([], "bf16", 1, 1, 1, 8192, 8192, 128, 128),
    "few heads": (["causal"], "bf16", 1, 4, 4, 2048, 2048, 128, 128),
    "batch 64": (["causal"], "bf16", 64, 16, 16, 333, 333, 64, 64),
    "tiny": ([], "bf16", 16, 8, 8, 77, 77, 64, 64),
    "cross": ([], "bf16", 4, 16, 16, 4096, 77, 64, 64),
    "few queries": ([], "bf16", 4, 16, 16, 100, 9000, 128, 128),
    "window": (["sliding-window", "--left", "500"], "bf16", 2, 16, 16, 5000, 5000, 128, 128),
    "window 64": (["sliding-window", "--left", "200"], "bf16", 1, 24, 24, 9000, 9000, 64, 64),
    "ALiBi": (["alibi"], "bf16", 2, 20, 20, 2600, 2600, 128, 128),
    "softcap": (["softcap"], "bf16", 2, 16, 8, 3100, 3100, 128, 128),
    "softcap 192": (["softcap"], "bf16", 1, 12, 6, 3100, 3100, 192, 192),
    "relative bias": (["relative-bias"], "bf16", 4, 12, 12, 1200, 1200, 64, 64),
    "dense bias": (["bias"], "bf16", 4, 12, 12, 900, 900, 64, 64),
    "documents": (["documents"], "bf16", 2, 16, 16, 3500, 3500, 128, 128),
    "key padding": (["key-padding"], "bf16", 16, 12, 12, 512, 512, 64, 64),
    "dropout": (["causal", "--dropout", "0.1"], "bf16", 8, 12, 12, 1300, 1300, 64, 64),
    "dropout 128": (["--dropout", "0.2"], "f16", 4, 8, 8, 2200, 2200, 128, 128),
    "sigmoid": (["--normaliser", "sigmoid"], "bf16", 4, 16, 16, 1800, 1800, 64, 64),
    "prefix": (["prefix-lm", "--prefix", "300"], "bf16", 4, 16, 16, 1600, 1600, 128, 128),
    "random score": (["--score", "s + 0.1 * sin(q - k)", "--mask", "q >= k"], "bf16", 2, 16, 16, 2000, 2000, 96, 96),
    "random mask": (["--mask", "(q + k) % 3 != 0"], "bf16", 2, 12, 12, 1500, 1500, 64, 64),
    "chunks": (["--mask", "q / 256 == k / 256 && q >= k"], "bf16", 2, 16, 16, 4000, 4000, 128, 128),
    "slopes by key": (["--score", "s + w[h, k]", "--tensor", "w=f32[H,Sk]:random"], "bf16", 2, 16, 16, 2300, 2300, 64, 64),
    "cos of distance": (["--score", "s * cos(0.01 * (q - k))"], "f16", 1, 16, 16, 3000, 3000, 128, 128),
    "causal 256": (["causal"], "bf16", 2, 8, 8, 2222, 2222, 256, 256),
    "plain 56": ([], "bf16", 6, 14, 14, 1111, 1111, 56, 56),
    "causal 136": (["causal"], "bf16", 5, 9, 9, 1010, 1010, 136, 136),
    # No constant of the cost model was fitted on these.
    "causal 48": (["causal"], "bf16", 3, 20, 20, 1111, 1111, 48, 48),
    "plain 88": ([], "f16", 2, 12, 12, 2600, 2600, 88, 88),
    "causal 104": (["causal"], "bf16", 1, 20, 20, 4500, 4500, 104, 104),
    "GQA 4": (["causal"], "bf16", 2, 32, 8, 3100, 3100, 64, 64),
    "plain 120": ([], "bf16", 4, 8, 8, 1350, 1350, 120, 120),
    "one long": (["causal"], "bf16", 1, 6, 6, 12000, 12000, 128, 128),
    "window 96": (["sliding-window", "--left", "700"], "bf16", 2, 16, 16, 6000, 6000, 96, 96),
    "ALiBi 64": (["alibi"], "bf16", 2, 16, 16, 2800, 2800, 64, 64),
    "prefix 64": (["prefix-lm", "--prefix", "700"], "bf16", 2, 24, 24, 1900, 1900, 64, 64),
    "table 128": (["relative-bias"], "bf16", 2, 16, 16, 1700, 1700, 128, 128),
    "sigmoid 128": (["--normaliser", "sigmoid"], "bf16", 2, 16, 16, 2400, 2400, 128, 128),
    "plain 192": ([], "bf16", 2, 10, 10, 2222, 2222, 192, 192),
    "cross 128": ([], "bf16", 8, 16, 16, 512, 3000, 128, 128),
    "sinks": (["--mask", "q >= k && (q - k < 600 || k < 8)"], "bf16", 2, 16, 16, 5000, 5000, 64, 64),
    "softcap 64": (["softcap"], "bf16", 4, 16, 16, 1500, 1500, 64, 64),
}


def tune(attune, case, cache, *flags):
    variant, dtype, *sizes = case
    command = [attune, "tune", *variant, "--dtype", dtype, "--shape", ",".join(map(str, sizes)), "--json", *flags]
    run = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, ATTUNE_CACHE_DIR=cache))
    if run.returncode:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return json.loads(run.stdout)["results"][0]


def measure(attune, case, most):
    with tempfile.TemporaryDirectory() as cache:
        quick = tune(attune, case, cache)
    with tempfile.TemporaryDirectory() as cache:
        whole = tune(attune, case, cache, "--candidates", str(most), "--budget", "120")
    times = {candidate["text"]: candidate["microseconds"] for candidate in whole["candidates"]}
    best = whole["candidates"][0]
    choice = min(whole["candidates"], key=lambda candidate: candidate["rank"] or math.inf)
    default = next(candidate for candidate in whole["candidates"] if candidate["chosenByModel"])
    chosen = quick["candidates"][0]
    return {"space": whole["space"], "timed": len(times), "seconds": quick["seconds"], "wholeSeconds": whole["seconds"],
            "best": best["text"], "bestMicroseconds": best["microseconds"], "bestRank": best["rank"],
            "tuned": chosen["text"], "tunedOverBest": times[chosen["text"]] / best["microseconds"],
            "model": choice["text"], "modelOverBest": choice["microseconds"] / best["microseconds"],
            "any": default["text"], "anyOverBest": default["microseconds"] / best["microseconds"],
            "candidates": whole["candidates"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attune")
    parser.add_argument("--cases", default=f"0:{len(CASES)}")
    parser.add_argument("--candidates", type=int, default=300)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    first, last = map(int, arguments.cases.split(":"))
    rows = {}
    for name, case in list(CASES.items())[first:last]:
        rows[name] = row = measure(arguments.attune, case, arguments.candidates)
        print(f"{name:16} {row['timed']:3}/{row['space']:3} plans  tuned {row['tunedOverBest']:.3f}  model {row['modelOverBest']:.3f}  "
              f"any size {row['anyOverBest']:.3f}  of best {row['bestMicroseconds']:.1f} us ({row['best']}, rank {row['bestRank']}); "
              f"tuned in {row['seconds']:.1f} s, all in {row['wholeSeconds']:.1f} s", flush=True)
        if arguments.out:
            with open(arguments.out, "w") as file:
                json.dump(rows, file, indent=1)
    def within(key, bound):
        return sum(row[key] <= bound for row in rows.values())
    print(f"{len(rows)} cases: tuned within 2% of the best in {within('tunedOverBest', 1.02)}, the model's choice within 10% in "
          f"{within('modelOverBest', 1.10)}, its choice for any size in {within('anyOverBest', 1.10)}")


if __name__ == "__main__":
    main()
