#!/usr/bin/env python3
"""Runs attune-bench and the peers on this machine, and prints one markdown table out of both, with ratios and the bars.

    table.py --bench build/bin/attune-bench               everything, into bench-results/
    table.py --bench ... --only ours,peers --filter d128  a part of it
    table.py --bench ... --only peers --peers flex        one peer; the results of earlier parts stay in the table
    table.py --results bench-results                      the table again, without running

Parts: ours, peers, candidates, cpu, host. Each part and each peer writes a file of its own into the folder of results. Exit code
1 when a part fails or a bar is missed.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

PEERS = ["fa2", "cudnn", "flex"]


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def read(folder):
    rows = []
    for part in ("ours", *(f"peers-{peer}" for peer in PEERS), "candidates", "cpu", "host"):
        path = os.path.join(folder, part + ".jsonl")
        if os.path.exists(path):
            rows += [json.loads(line) for line in open(path) if line.strip()]
    return rows


class Table:
    """Rows by case and peer, and the lines of the report."""

    def __init__(self, rows):
        self.rows = {}
        for row in rows:
            self.rows.setdefault(row["name"], {})[row["peer"]] = row
        self.bars = []  # (text, value, bound, whether it is met)

    def time(self, name, peer):
        return self.rows.get(name, {}).get(peer, {}).get("ms")

    def bar(self, text, value, bound, at_least=True):
        if value is not None:
            self.bars.append((text, value, bound, value >= bound if at_least else value <= bound))

    def group(self, group):
        names = [name for name, peers in self.rows.items() if peers.get("attune", {}).get("group") == group]
        if not names:
            return []
        lines = [f"### {group}", "",
                 "| case | plan | attune ms | TFLOP/s | " + " | ".join(f"{p} TFLOP/s | vs {p}" for p in PEERS) + " |",
                 "|---|---|---|---|" + "---|---|" * len(PEERS)]
        ratios = {peer: [] for peer in PEERS}
        for name in names:
            ours = self.rows[name]["attune"]
            cells = [name, ours["plan"], f"{ours['ms']:.3f}", f"{ours['tflops']:.0f}"]
            for peer in PEERS:
                other = self.rows[name].get(peer, {})
                if other.get("ms"):
                    ratios[peer].append(other["ms"] / ours["ms"])
                    cells += [f"{other['tflops']:.0f}", f"{ratios[peer][-1]:.2f}"]
                else:
                    cells += ["-", "-"]
            lines.append("| " + " | ".join(cells) + " |")
        means = [f"{geomean(ratios[p]):.2f}" if ratios[p] else "-" for p in PEERS]
        lines.append("| geometric mean | | | | " + " | ".join(f"| {mean}" for mean in means) + " |")
        return lines + [""]

    def collect_bars(self):
        def ratios(group, chosen):
            for name, peers in self.rows.items():
                ours, fa2 = peers.get("attune"), self.time(name, "fa2")
                if ours and fa2 and ours.get("group") == group and chosen(name):
                    yield fa2 / ours["ms"]
        self.bar("plain and causal, D 64 and 128, S 1024 to 16384: geometric mean against FA2",
                 geomean(ratios("plain", lambda name: not name.endswith("/s512"))), 0.9)
        self.bar("dropout 0.1: geometric mean against FA2 with dropout", geomean(ratios("dropout", lambda name: True)), 0.9)
        # Variants against a plain kernel with as many visited tiles, by what the tensor cores do for a tile: causal at the same
        # shape, and for the window no mask at a length of as many tiles.
        for dim in ("d128", "d64"):
            shape = f"{dim}/s8192"
            plain = {name: self.rows.get(f"variants/{row}", {}).get("attune")
                     for name, row in (("causal", f"causal/{shape}"), ("none", f"none/{dim}/s1152"))}
            limits = {"alibi": 1.10, "window1024": 1.10, "prefix2048": 1.10, "softcap": 1.25 if "d128" in shape else 1.35}
            for variant, limit in limits.items():
                ours = self.rows.get(f"variants/{variant}/{shape}", {}).get("attune")
                mask = "none" if variant == "window1024" else "causal"
                if ours and plain[mask]:
                    self.bar(f"{variant} {shape}: time of a visited tile against {mask}",
                             plain[mask]["tileTflops"] / ours["tileTflops"], limit, at_least=False)
        summary = self.rows.get("candidates", {}).get("summary")
        if summary:
            self.bar("share of cases in which the chosen plan is within 10% of the best candidate", summary["share"], 0.8)
        cpu = "cpu/none/d64/s1024"
        for peer, bound in (("plain loops", 8), ("torch-cpu", 0.5)):
            if self.time(cpu, "attune") and self.time(cpu, peer):
                self.bar(f"CPU, float32, D 64, S 1024: against {peer}", self.time(cpu, peer) / self.time(cpu, "attune"), bound)
        for name, text, scale, bound in (("host/launch-checks", "checks of a launch, us", 1e3, 1),
                                         ("host/compile-again", "compiling again in one process, us", 1e3, 20),
                                         ("host/warm-disk", "kernel from a warm disk cache, new process, ms", 1, 60),
                                         ("host/cold", "cold compilation, ms", 1, 1000)):
            value = self.time(name, "attune")
            self.bar(text, value * scale if value is not None else None, bound, at_least=False)
        launch, driver = self.time("host/launch", "attune"), self.time("host/launch", "driver")
        if launch and driver:
            self.bar(f"host time of a launch beside the driver's {driver * 1e3:.1f} us, us", (launch - driver) * 1e3, 5, at_least=False)

    def report(self):
        lines = []
        for group in ("plain", "dropout", "variants", "unlisted"):
            lines += self.group(group)
        candidates = [peers["candidates"] for peers in self.rows.values()
                      if peers.get("candidates", {}).get("candidates")]
        if candidates:
            lines += ["### choice of the plan", "", "| case | rank of the chosen plan | its time over the best | best plan |",
                      "|---|---|---|---|"]
            for row in candidates:
                best = min(row["candidates"], key=lambda candidate: candidate["ms"])
                lines.append(f"| {row['name']} | {row['rank']} of {row['of']} | {row['slowdown']:.3f} | {best['plan']} |")
            lines.append("")
        for name in ("host/cold", "host/warm-disk"):
            row = self.rows.get(name, {}).get("attune")
            if row:
                split = ", ".join(f"{stage} {value:.1f}" for stage, value in row["split"].items())
                lines += [f"{name}: {row['ms']:.1f} ms ({split}); driver {row['driverMs']:.0f} ms, "
                          f"whole process {row['processMs']:.0f} ms", ""]
        self.collect_bars()
        if self.bars:
            lines += ["### bars", "", "| bar | measured | required | |", "|---|---|---|---|"]
            for text, value, bound, met in self.bars:
                lines.append(f"| {text} | {value:.3g} | {bound:g} | {'met' if met else '**missed**'} |")
            lines.append("")
        return "\n".join(lines)


def run(part, command, folder, source=None):
    path = os.path.join(folder, part + ".jsonl")
    print(f"{part}: {' '.join(command)}", file=sys.stderr)
    with open(path, "w") as out:
        return subprocess.run(command, stdout=out, input=source, text=True).returncode == 0


def measure(options):
    """Runs the parts that were asked for; the names of those that failed."""
    failed = []
    folder, filters = options.results, ["--filter", options.filter]
    target = ["--target", options.target] if options.target else []
    os.makedirs(folder, exist_ok=True)
    parts = options.only.split(",")
    peers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.py")
    torch = subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    if not torch:
        print("no PyTorch here: the peers are left out", file=sys.stderr)
    commands = {"ours": [options.bench, *filters, *target], "candidates": [options.bench, "--candidates", *filters, *target],
                "host": [options.bench, "--host", *target], "cpu": [options.bench, "--cpu"]}
    for part in ("ours", "peers", "candidates", "cpu", "host"):
        if part not in parts:
            continue
        if part == "peers":
            if torch:
                cases = subprocess.run([options.bench, "--list", *filters], stdout=subprocess.PIPE, text=True, check=True).stdout
                failed += [peer for peer in options.peers.split(",")
                           if not run(f"peers-{peer}", [sys.executable, peers, "--peers", peer], folder, cases)]
            continue
        else:
            good = run(part, commands[part], folder)
        if part == "cpu" and good and torch:
            path = os.path.join(folder, "cpu.jsonl")
            threads = str(json.loads(open(path).readline())["threads"])
            row = subprocess.run([sys.executable, peers, "--cpu", threads], stdout=subprocess.PIPE, text=True)
            open(path, "a").write(row.stdout)
            good = row.returncode == 0
        if not good:
            failed.append(part)
    return failed


def self_test():
    ours = {"group": "plain", "peer": "attune", "plan": "128 x 64", "ms": 1.0, "tflops": 100.0, "tileTflops": 100.0}
    rows = [dict(ours, name="plain/none/d64/s1024"), {"name": "plain/none/d64/s1024", "peer": "fa2", "ms": 0.95, "tflops": 105},
            dict(ours, name="plain/none/d64/s512"), {"name": "plain/none/d64/s512", "peer": "fa2", "ms": 0.1, "tflops": 1000},
            dict(ours, name="variants/causal/d64/s8192", group="variants"),
            dict(ours, name="variants/softcap/d64/s8192", group="variants", ms=1.4, tileTflops=70.0)]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "ours.jsonl"), "w") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
        table = Table(read(folder))
    text = table.report()
    assert "| plain/none/d64/s1024 | 128 x 64 | 1.000 | 100 | 105 | 0.95 | - | - | - | - |" in text, text
    met = {bar[0].split(":")[0]: bar[3] for bar in table.bars}
    assert met["plain and causal, D 64 and 128, S 1024 to 16384"] and not met["softcap d64/s8192"], table.bars


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bench", help="attune-bench; without it the results of an earlier run are read")
    arguments.add_argument("--results", default="bench-results", help="folder of the JSON lines")
    arguments.add_argument("--only", default="ours,peers,candidates,cpu,host")
    arguments.add_argument("--peers", default=",".join(PEERS))
    arguments.add_argument("--filter", default="")
    arguments.add_argument("--target", default="", help="architecture of our kernels, for example sm_90 (the machine's; sm_90a on an H200)")
    arguments.add_argument("--self-test", action="store_true")
    options = arguments.parse_args()
    if options.self_test:
        return self_test()
    if options.bench:
        options.bench = os.path.abspath(options.bench)
    failed = measure(options) if options.bench else []
    table = Table(read(options.results))
    print(table.report())
    if failed:
        sys.exit("failed: " + ", ".join(failed))
    if not all(bar[3] for bar in table.bars):
        sys.exit("some bars are missed")


if __name__ == "__main__":
    main()
