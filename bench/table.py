#!/usr/bin/env python3
"""Runs attune-bench and the peers on this machine, and prints one markdown table out of both, with ratios and the bars.

    table.py --bench build/bin/attune-bench               everything, into bench-results/
    table.py --bench ... --only ours,peers --groups plain,bias   a part of it
    table.py --bench ... --only peers --peers flex        one peer; the results of earlier parts stay in the table
    table.py --bench ... --rounds 3                       ours and the peers three times, each case's median counts
    table.py --bench ... --fa3 fa3.csv                    FlashAttention 3 beside them, which was timed in the same run by a program of its own
    table.py --results bench-results                      the table again, without running
    table.py --results bench-results --readme README.md --docs docs/measurements/sm_90a.md   writes the pages' generated blocks

Parts: ours, peers, candidates, cpu, host. Each part and each peer writes a file of its own into the folder of results, anew; with --filter or
--groups it appends to that file, and the later of two rows counts, so that a part can be run in pieces. A folder holds the results of one
architecture. The file of --fa3 has the columns mask (none or causal), head_dim, length and ms, of the plain cases. Exit code 1 when a part fails or a measured bar is missed.
"""
import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile

PEERS = ["fa2", "cudnn", "flex"]
PARTS = ["ours", "ceilings", *(f"peers-{peer}" for peer in PEERS), "peers-fa3", "candidates", "cpu", "host"]
GROUPS = {  # as in Cases.cpp: title, and what is measured
    "plain": ("Plain", "16,384 tokens of hidden size 2,048."),
    "dropout": ("Dropout", "Probability 0.1, B 16, H 8."),
    "variants": ("Variants", "B 2, hidden size 2,048; grouped queries 32 over 8 heads; at S 1152 B 14, as many queries and visited tiles as "
                             "a window of 1024 at S 8192 has."),
    "bias": ("Dense bias", "s + bias[h, q, k], a bf16 bias of [H, S, S], B 2, hidden size 2,048, and the same shapes without it."),
    "pattern": ("Block pattern", "B 2, hidden size 2,048, blocks of 128 x 128: as many of each row's 64 are visible as the name says."),
    "unlisted": ("Unlisted shape", "B 4, S 3000, H 12, D 96, a shape that nothing is tuned for.")}
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
BLOCKS = (1, 2, 4, 8, 16, 24, 32, 48)

def geomean(values):
    """None where a value is missing."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values and None not in values else None


def least(values):
    values = list(values)
    return min(values) if values and None not in values else None


def quotient(a, b):
    return a / b if a is not None and b is not None else None


def fit_line(points):
    """a and b of y = a + b x by least squares."""
    n, mx, my = len(points), sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    b = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
    return my - b * mx, b


def spread_per_tile(points):
    """Greatest over least time a tile: 1 where time is proportional to tiles."""
    rates = [y / x for x, y in points]
    return max(rates) / min(rates)


def read(folder):
    rows = []
    for part in PARTS:
        path = os.path.join(folder, part + ".jsonl")
        if os.path.exists(path):
            rows += [json.loads(line) for line in open(path) if line.strip()]
    return rows


def fa3_speed(mask, length, ms):
    """TFLOP/s of a plain case: 16,384 tokens of hidden size 2,048."""
    return 4 * 16384 * 2048 * length / (2 if mask == "causal" else 1) / ms / 1e9


def fa3_rows(path):
    """A row a line of the file, as those of peers.py."""
    def fail(what):
        sys.exit(f"{path}: {what}; the columns are mask (none or causal), head_dim, length and ms")
    rows = []
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        if set(reader.fieldnames or ()) != {"mask", "head_dim", "length", "ms"}:
            fail(f"has the columns {', '.join(reader.fieldnames or ()) or 'none'}")
        for line in reader:
            try:
                dim, length, ms = int(line["head_dim"]), int(line["length"]), float(line["ms"])
            except (TypeError, ValueError):
                fail(f"line {reader.line_num} is not of numbers")
            if line["mask"] not in ("none", "causal") or not (ms > 0 and dim > 0 and length > 0):
                fail(f"line {reader.line_num} is not of a plain case and its time")
            rows.append({"name": f"plain/{line['mask']}/d{dim}/s{length}", "peer": "fa3", "ms": ms, "tflops": fa3_speed(line["mask"], length, ms)})
    return rows


def arch_of(rows):
    archs = {row["arch"] for row in rows if "arch" in row}
    if len(archs) > 1:
        sys.exit(f"results of {' and '.join(sorted(archs))} in one folder; name another with --results")
    return archs.pop() if archs else None


class Bar:
    """Values that all have to reach a bound; None among them: not measured."""

    def __init__(self, text, values, bound, at_least, aim):
        self.text, self.values, self.bound, self.at_least, self.aim = text, list(values), bound, at_least, aim
        self.measured = bool(self.values) and None not in self.values
        self.met = self.measured and all(value >= bound if at_least else value <= bound for value in self.values)

    def line(self):
        sign = "at least" if self.at_least else "at most"
        values = ", ".join(f"{value:.0f}" if value >= 1000 else f"{value:.3g}" for value in self.values) if self.measured else "-"
        state = "not measured" if not self.measured else "met" if self.met else "**missed**"
        return f"| {self.text} | {values} | {sign} {self.bound:g} | {self.aim or ''} | {state} |"


class Table:
    """Rows by case and peer, the bars that hold for their architecture, and the lines of the report."""

    def __init__(self, rows):
        self.rows = {}
        for row in rows:
            self.rows.setdefault(row["name"], {})[row["peer"]] = row
        self.arch = arch_of(rows) or "sm_90a"
        self.peers = PEERS + (["fa3"] if any("fa3" in peers for peers in self.rows.values()) else [])
        self.bars, self.notes = [], []
        self.collect_bars()

    # What was measured, or None.
    def value(self, name, peer, field):
        return self.rows.get(name, {}).get(peer, {}).get(field)

    def time(self, name, peer="attune"):
        return self.value(name, peer, "ms")

    def speed(self, name):
        return self.value(name, "attune", "tflops")

    def against(self, peer, names):
        return [quotient(self.time(name, peer), self.time(name)) for name in names]

    def tile_speed(self, name, plain):
        """What the tensor cores do in visited tiles a second, over the same of another case."""
        return quotient(self.value(name, "attune", "tileTflops"), self.value(plain, "attune", "tileTflops"))

    def cublas(self):
        return self.value("ceiling/matmul/s8192", "cublas", "tflops")

    # Bars.
    def bar(self, text, values, bound, at_least=True, aim=None):
        self.bars.append(Bar(text, values, bound, at_least, aim))

    def collect_bars(self):
        self.hopper_bars() if self.arch == "sm_90a" else self.mma_sync_bars()
        candidates = [peers["candidates"]["slowdown"] for peers in self.rows.values() if peers.get("candidates")]
        within = sum(slowdown <= 1.1 for slowdown in candidates) / len(candidates) if candidates else None
        self.bar("share of cases in which the chosen plan is within 10% of the best candidate", [within], 0.8)
        cpu = "cpu/none/d64/s1024"
        for peer, bound in (("plain loops", 8), ("torch-cpu", 0.5)):
            self.bar(f"CPU, float32, D 64, S 1024: against {peer}", self.against(peer, [cpu]), bound)
        for name, text, scale, bound in (("host/launch-checks", "checks of a launch, us", 1e3, 1),
                                         ("host/compile-again", "compiling again in one process, us", 1e3, 20),
                                         ("host/warm-disk", "kernel from a warm disk cache, new process, ms", 1, 60),
                                         ("host/cold", "cold compilation, ms", 1, 1500 if self.arch == "sm_90a" else 1000)):
            value = self.time(name)
            self.bar(text, [value * scale if value is not None else None], bound, at_least=False)
        launch, driver = self.time("host/launch"), self.time("host/launch", "driver")
        step = self.time("host/launch-step")
        if step:
            self.bar("host time of a launch that shares keys in pages, us", [step * 1e3], 6, at_least=False)
        if self.arch == "sm_90a":
            self.bar("host time of a launch, us", [launch * 1e3 if launch else None], 5, at_least=False)
        else:
            self.bar("host time of a launch above the driver's, us", [(launch - driver) * 1e3 if launch and driver else None], 5,
                     at_least=False)

    def hopper_bars(self):
        plain = lambda dims, lengths, masks=("none", "causal"): [f"plain/{mask}/d{dim}/s{length}" for dim in dims for mask in masks
                                                                 for length in lengths]
        long, short = self.against("cudnn", plain((64, 128), LENGTHS[2:])), self.against("cudnn", plain((64, 128), LENGTHS[:2]))
        self.bar("plain, D 64 and 128, S 2048 to 16384, causal and not, against cuDNN: geometric mean", [geomean(long)], 1.05, aim=1.15)
        self.bar("the same at S 512 and 1024: geometric mean", [geomean(short)], 0.95, aim=1)
        self.bar("the same at S 512 and 1024: least", [least(short)], 0.85)
        if "fa3" in self.peers:
            self.bar("D 256 against FA3 in the same run: least", [least(self.against("fa3", plain((256,), LENGTHS)))], 1)
        self.bar("D 128 causal, S 8192 and 16384, over the cuBLAS rate of the run",
                 [quotient(self.speed(name), self.cublas()) for name in plain((128,), LENGTHS[4:], ("causal",))], 0.8, aim=0.86)
        self.flex_bars()
        self.tile_bars()
        self.bias_bar()
        self.bar("dropout 0.1, B 16, H 8, D 64, S 4096 to 16384, against FA2 with dropout: geometric mean",
                 [geomean(self.against("fa2", [f"dropout/dropout/d64/s{length}" for length in LENGTHS[3:]]))], 1.4, aim=1.7)
        self.pattern_bar()

    def flex_bars(self):
        names = [f"variants/{variant}/d{dim}/s8192" for dim in (128, 64)
                 for variant in ("causal", "alibi", "softcap", "relbias", "softcap_alibi", "window1024", "documents", "prefix2048")]
        names.remove("variants/relbias/d64/s8192")  # FlexAttention has no valid configuration for it
        ratios = self.against("flex", [*names, "variants/causal_gqa32_8/d128/s8192"])
        self.bar("the 16 variants that FlexAttention runs, B 2, S 8192, against it: geometric mean", [geomean(ratios)], 1.6)
        self.bar("the same: least", [least(ratios)], 1.2)
        self.bar("relative bias, D 64, S 8192, against no bias",
                 [quotient(self.time("variants/none/d64/s8192"), self.time("variants/relbias/d64/s8192"))], 0.85)

    def tile_bars(self):
        """Variants against a plain kernel with as many visible tiles, by what the tensor cores do for a tile."""
        # 16,384 queries each. A window of 1024 visits as many tiles as no mask at S 1152. Documents of 1000 under a causal mask visit five
        # tiles of 128 x 128 for a tile of queries, and causal at S 1024 visits four and a half; each side counts its own tiles, of 64 queries.
        plain = {"window1024": "variants/none/{}/s1152", "relbias": "variants/none/{}/s8192", "documents": "plain/causal/{}/s1024"}
        texts = {"alibi": "ALiBi against causal", "window1024": "window 1024 against no mask at S 1152",
                 "documents": "documents of 1000 against causal at S 1024", "prefix2048": "prefix 2048 against causal",
                 "causal_gqa32_8": "grouped queries, 32 over 8 heads, against causal", "relbias": "relative table against no table"}
        def ratios(variant, dims):
            return [self.tile_speed(f"variants/{variant}/{dim}/s8192", plain.get(variant, "variants/causal/{}/s8192").format(dim))
                    for dim in dims]
        for variant, text in texts.items():
            dims = ("d128",) if "gqa" in variant else ("d128", "d64")
            self.bar(f"speed of a visible tile, {text}, {'D 128' if len(dims) == 1 else 'D 128 and 64'}", ratios(variant, dims), 0.9)
        self.bar("speed of a visible tile, softcap against causal, D 128", ratios("softcap", ["d128"]), 0.75)
        self.bar("the same, D 64", ratios("softcap", ["d64"]), 0.6)

    def bias_bar(self):
        """Time over what bounds it: the products, or reading the bias once."""
        def over_bound(shape):
            copying = quotient(self.value(f"bias/bias/{shape}", "attune", "capturedBytes"), self.value("ceiling/copy/1gib", "copy", "bytesPerMs"))
            plain = self.time(f"bias/none/{shape}")
            return quotient(self.time(f"bias/bias/{shape}"), max(plain, copying) if plain and copying else None)
        self.bar("dense bias [H, S, S], D 128 S 4096, D 128 S 8192, D 64 S 4096: time over max(no bias, bias bytes / copy rate)",
                 map(over_bound, ("d128/s4096", "d128/s8192", "d64/s4096")), 1.15, at_least=False)

    def pattern_bar(self):
        spreads = []
        for dim in (128, 64):
            points = [(blocks, self.time(f"pattern/blocks{blocks}/d{dim}/s8192")) for blocks in BLOCKS]
            if any(time is None for _, time in points):
                spreads.append(None)
                continue
            spreads.append(spread_per_tile([point for point in points if point[0] >= 16]))
            a, b = fit_line(points)
            off = max(abs(time / (a + b * blocks) - 1) for blocks, time in points)
            self.notes.append(f"Block pattern, D {dim}, 1 to 48 visible blocks of 128 x 128 a row: T = {a * 1e3:.1f} us + {b * 1e3:.2f} us * blocks; "
                              f"the farthest point is {off:.0%} away from it.")
        self.bar("block pattern, 16 to 48 visible blocks a row, D 128 and 64: time of a block, greatest over least", spreads, 1.1, at_least=False)

    def mma_sync_bars(self):
        plain = [f"plain/{mask}/d{dim}/s{length}" for dim in (64, 128) for mask in ("none", "causal") for length in LENGTHS[1:]]
        self.bar("plain and causal, D 64 and 128, S 1024 to 16384, against FA2: geometric mean", [geomean(self.against("fa2", plain))], 0.9)
        self.bar("dropout 0.1 against FA2 with dropout: geometric mean",
                 [geomean(self.against("fa2", [f"dropout/dropout/d64/s{length}" for length in LENGTHS[1:]]))], 0.9)
        # The window visits as many tiles as no mask at S 1152.
        for variant, limits in (("alibi", (1.10, 1.10)), ("window1024", (1.10, 1.10)), ("prefix2048", (1.10, 1.10)), ("softcap", (1.25, 1.35))):
            for dim, limit in zip((128, 64), limits):
                mask, length = ("none", 1152) if variant == "window1024" else ("causal", 8192)
                speed = self.tile_speed(f"variants/{variant}/d{dim}/s8192", f"variants/{mask}/d{dim}/s{length}")
                self.bar(f"{variant} D {dim}: time of a visited tile against {mask} at S {length}", [quotient(1, speed)], limit, at_least=False)

    # Text.
    def machine(self):
        found = [row["machine"] for peers in self.rows.values() for row in peers.values() if "machine" in row]
        return f"One {found[0]}; attune for {self.arch}." if found else f"attune for {self.arch}."

    def group(self, group):
        names = [name for name, peers in self.rows.items() if peers.get("attune", {}).get("group") == group]
        if not names:
            return []
        title, text = GROUPS[group]
        lines = [f"### {title}", "", text, "",
                 "| case | plan | attune ms | TFLOP/s | " + " | ".join(f"{p} TFLOP/s | vs {p}" for p in self.peers) + " |",
                 "|---|---|---|---|" + "---|---|" * len(self.peers)]
        ratios = {peer: [] for peer in self.peers}
        for name in names:
            ours = self.rows[name]["attune"]
            cells = [name, ours["plan"], f"{ours['ms']:.3f}", f"{ours['tflops']:.0f}"]
            for peer in self.peers:
                other = self.rows[name].get(peer, {})
                if other.get("ms"):
                    ratios[peer].append(other["ms"] / ours["ms"])
                    cells += [f"{other['tflops']:.0f}", f"{ratios[peer][-1]:.2f}"]
                else:
                    cells += ["-", "-"]
            lines.append("| " + " | ".join(cells) + " |")
        means = [f"{geomean(ratios[p]):.2f}" if ratios[p] else "-" for p in self.peers]
        lines.append("| geometric mean | | | | " + " | ".join(f"| {mean}" for mean in means) + " |")
        return lines + [""]

    def tables(self):
        return [line for group in GROUPS for line in self.group(group)]

    def bar_lines(self):
        lines = [self.machine(), "", "| bar | measured | required | aim | |", "|---|---|---|---|---|", *(bar.line() for bar in self.bars), ""]
        cublas, copy = self.cublas(), self.value("ceiling/copy/1gib", "copy", "bytesPerMs")
        if cublas and copy:
            lines += [f"Ceilings in the same run: {cublas:.0f} TFLOP/s in a bf16 product of 8192 x 8192 matrices by cuBLAS, "
                      f"{copy / 1e9:.2f} TB/s in a copy (read and write).", ""]
        for note in self.notes:
            lines += [note, ""]
        return lines

    def compact(self):
        """Plain shapes against cuDNN, a row a head dim."""
        lines = ["| | " + " | ".join(f"S {length}" for length in LENGTHS) + " |", "|---|" + "---|" * len(LENGTHS)]
        for dim in (64, 128, 256):
            for mask in ("none", "causal"):
                cells = []
                for length in LENGTHS:
                    name = f"plain/{mask}/d{dim}/s{length}"
                    ours, cudnn = self.speed(name), self.value(name, "cudnn", "tflops")
                    cells.append("-" if not ours else f"{ours:.0f} / {cudnn:.0f} = {ours / cudnn:.2f}" if cudnn else f"{ours:.0f}")
                lines.append(f"| D {dim}{', causal' if mask == 'causal' else ''} | " + " | ".join(cells) + " |")
        return lines + [""]

    def choices(self):
        candidates = [peers["candidates"] for peers in self.rows.values() if peers.get("candidates")]
        if not candidates:
            return []
        lines = ["### Choice of the plan", "", "| case | rank of the chosen plan | its time over the best | best plan |", "|---|---|---|---|"]
        for row in candidates:
            best = min(row["candidates"], key=lambda candidate: candidate["ms"])
            lines.append(f"| {row['name']} | {row['rank']} of {row['of']} | {row['slowdown']:.3f} | {best['plan']} |")
        return lines + [""]

    def report(self):
        lines = self.tables() + self.choices()
        for name in ("host/cold", "host/warm-disk"):
            row = self.rows.get(name, {}).get("attune")
            if row:
                split = ", ".join(f"{stage} {value:.1f}" for stage, value in row["split"].items())
                lines += [f"{name}: {row['ms']:.1f} ms ({split}); driver {row['driverMs']:.0f} ms, "
                          f"whole process {row['processMs']:.0f} ms", ""]
        return "\n".join(lines + ["### Bars", "", *self.bar_lines()])


def marks(block):
    return f"<!-- bench {block}: written by table.py -->\n", f"<!-- /bench {block} -->"


def replace_block(page, block, lines):
    """The page with `lines` between the block's marks."""
    begin, end = marks(block)
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(end) < page.index(begin):
        sys.exit(f"the page has no {begin.strip()} ... {end}")
    return page[:page.index(begin) + len(begin)] + "\n".join(lines) + "\n" + page[page.index(end):]


def rewrite(path, blocks):
    with open(path) as file:
        page = file.read()
    for block, lines in blocks.items():
        page = replace_block(page, block, lines)
    with open(path, "w") as file:
        file.write(page)


def write_readme(path, table):
    if table.arch != "sm_90a" or not all(table.speed(f"plain/none/d{dim}/s{length}") for dim in (64, 128, 256) for length in LENGTHS):
        sys.exit(f"{path}: its table is that of sm_90a, with all of the group plain")
    rewrite(path, {"sm_90a": table.compact()})


def write_docs(path, table):
    blocks = {f"bars {table.arch}": table.bar_lines()}
    if table.tables():
        blocks[f"tables {table.arch}"] = [table.machine(), "", *table.tables()]
    rewrite(path, blocks)


def median_rows(rounds):
    """Of each case the row of median ms, of an even number the lower of two; a row without a time where a round has one, as it is a failure."""
    found = {}
    for rows in rounds:
        for row in rows:
            found.setdefault((row.get("name"), row.get("peer")), []).append(row)
    for rows in found.values():
        failures = [row for row in rows if "ms" not in row]
        yield failures[0] if failures else sorted(rows, key=lambda row: row["ms"])[(len(rows) - 1) // 2]


def run(part, command, folder, source=None, append=False, rounds=1):
    path = os.path.join(folder, part + ".jsonl")
    print(f"{part}: {' '.join(command)}", file=sys.stderr)
    with open(path, "a" if append else "w") as out:
        if rounds == 1:
            return subprocess.run(command, stdout=out, input=source, text=True).returncode == 0
        done = [subprocess.run(command, stdout=subprocess.PIPE, input=source, text=True) for _ in range(rounds)]
        for row in median_rows([json.loads(line) for line in one.stdout.splitlines() if line.strip()] for one in done):
            out.write(json.dumps(row) + "\n")
        return all(one.returncode == 0 for one in done)


def keep_fa3(folder, path, again):
    """Rows of `path` join the results; where ours are measured `again` without them, those of the run before go."""
    kept = os.path.join(folder, "peers-fa3.jsonl")
    if path:
        rows = fa3_rows(path)
        os.makedirs(folder, exist_ok=True)
        with open(kept, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    elif again and os.path.exists(kept):
        os.remove(kept)


def measure(options):
    """Runs the parts that were asked for; the names of those that failed."""
    failed = []
    folder, filters = options.results, ["--filter", options.filter] + (["--groups", options.groups] if options.groups else [])
    pieces = bool(options.filter or options.groups)
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
                if not run("ceilings", [sys.executable, peers, "--ceilings"], folder):
                    failed.append("ceilings")
                failed += [peer for peer in options.peers.split(",")
                           if not run(f"peers-{peer}", [sys.executable, peers, "--peers", peer], folder, cases, append=pieces, rounds=options.rounds)]
            continue
        good = run(part, commands[part], folder, append=pieces and part in ("ours", "candidates"), rounds=options.rounds if part == "ours" else 1)
        if part == "cpu" and good and torch:
            path = os.path.join(folder, "cpu.jsonl")
            threads = str(json.loads(open(path).readline())["threads"])
            row = subprocess.run([sys.executable, peers, "--cpu", threads], stdout=subprocess.PIPE, text=True)
            open(path, "a").write(row.stdout)
            good = row.returncode == 0
        if not good:
            failed.append(part)
    return failed


#===----------------------------------------------------------------------===#
# Self-test
#===----------------------------------------------------------------------===#

def example_rows():
    """One row a name and peer, by (name, peer): an imagined sm_90a that meets every bar that has rows."""
    rows = {}

    def add(name, ms, peers=(), **fields):
        rows[name, "attune"] = {"name": name, "peer": "attune", "arch": "sm_90a", "group": name.split("/")[0], "plan": "128 x 64", "ms": ms,
                                "tflops": 700.0 / ms, "tileTflops": 700.0 / ms, **fields}
        for peer, other in dict(peers).items():
            rows[name, peer] = {"name": name, "peer": peer, "ms": other, "tflops": 700.0 / other}
    for mask in ("none", "causal"):
        for length in LENGTHS:
            for dim in (64, 128):
                add(f"plain/{mask}/d{dim}/s{length}", 1.0, {"cudnn": 1.2, "fa2": 2.0})
            add(f"plain/{mask}/d256/s{length}", 1.0)
    for length in LENGTHS[1:]:
        add(f"dropout/dropout/d64/s{length}", 1.0, {"fa2": 1.5})
    for dim in ("d128", "d64"):
        for variant in ("none", "causal", "alibi", "softcap", "relbias", "softcap_alibi", "window1024", "documents", "prefix2048"):
            add(f"variants/{variant}/{dim}/s8192", 1.0, {} if (variant, dim) == ("relbias", "d64") else {"flex": 2.0})
        add(f"variants/none/{dim}/s1152", 1.0)
        for blocks in BLOCKS:
            add(f"pattern/blocks{blocks}/{dim}/s8192", 0.1 + 0.1 * blocks)
    add("variants/causal_gqa32_8/d128/s8192", 1.0, {"flex": 2.0})
    for shape in ("d128/s4096", "d128/s8192", "d64/s4096"):
        add(f"bias/none/{shape}", 1.0)
        add(f"bias/bias/{shape}", 1.1, capturedBytes=4.0e9)
    rows["ceiling/matmul/s8192", "cublas"] = {"name": "ceiling/matmul/s8192", "peer": "cublas", "tflops": 798.0, "machine": "GPU, PyTorch"}
    rows["ceiling/copy/1gib", "copy"] = {"name": "ceiling/copy/1gib", "peer": "copy", "bytesPerMs": 4.27e9, "machine": "GPU, PyTorch"}
    return rows


def test_bars():
    def table(changes=(), **fields):
        rows = example_rows()
        for key in changes:
            rows[key].update(fields)
        return Table(rows.values())

    def missed(changes, **fields):
        return [bar.text for bar in table(changes, **fields).bars if bar.measured and not bar.met]
    good = table()
    assert missed([]) == [] and sum(bar.measured for bar in good.bars) == 18, good.report()
    variants = lambda *names: [(f"variants/{name}/s8192", "attune") for name in names]
    for changes, fields, texts in (
            ([("plain/causal/d64/s4096", "cudnn")], {"ms": 0.1}, ["plain, D 64 and 128, S 2048"]),
            ([("plain/causal/d64/s512", "cudnn")], {"ms": 0.8}, ["the same at S 512 and 1024: least"]),
            ([(f"plain/{mask}/d{dim}/s512", "cudnn") for mask in ("none", "causal") for dim in (64, 128)], {"ms": 0.7},
             ["the same at S 512 and 1024: geometric mean", "the same at S 512 and 1024: least"]),
            ([("plain/none/d256/s512", "attune")], {"tflops": 1.0}, []),
            ([("plain/causal/d128/s8192", "attune")], {"tflops": 630.0}, ["D 128 causal"]),
            ([("ceiling/matmul/s8192", "cublas")], {"tflops": 900.0}, ["D 128 causal"]),
            ([("variants/alibi/d64/s8192", "flex")], {"ms": 1.1}, ["the same: least"]),
            ([("variants/alibi/d64/s8192", "flex")], {"ms": 0.01}, ["the 16 variants", "the same: least"]),
            (variants("relbias/d64"), {"ms": 1.2}, ["relative bias, D 64"]),
            (variants("alibi/d64"), {"tileTflops": 620.0}, ["speed of a visible tile, ALiBi"]),
            (variants("window1024/d64"), {"tileTflops": 620.0}, ["speed of a visible tile, window"]),
            (variants("documents/d128"), {"tileTflops": 620.0}, ["speed of a visible tile, documents"]),
            (variants("prefix2048/d64"), {"tileTflops": 620.0}, ["speed of a visible tile, prefix"]),
            (variants("causal_gqa32_8/d128"), {"tileTflops": 620.0}, ["speed of a visible tile, grouped"]),
            (variants("relbias/d128"), {"tileTflops": 620.0}, ["speed of a visible tile, relative"]),
            ([("variants/none/d64/s1152", "attune")], {"tileTflops": 800.0}, ["speed of a visible tile, window"]),
            ([("plain/causal/d64/s1024", "attune")], {"tileTflops": 800.0}, ["speed of a visible tile, documents"]),
            (variants("softcap/d128", "softcap/d64"), {"tileTflops": 500.0}, ["speed of a visible tile, softcap"]),
            (variants("softcap/d128", "softcap/d64"), {"tileTflops": 400.0}, ["speed of a visible tile, softcap", "the same, D 64"]),
            ([("bias/bias/d64/s4096", "attune")], {"ms": 1.2}, ["dense bias"]),
            ([("bias/bias/d64/s4096", "attune")], {"ms": 2.0, "capturedBytes": 8e9}, []),
            ([("dropout/dropout/d64/s1024", "fa2")], {"ms": 0.1}, []),
            ([("dropout/dropout/d64/s4096", "fa2")], {"ms": 1.0}, ["dropout"]),
            ([("pattern/blocks8/d64/s8192", "attune")], {"ms": 5.0}, []),
            ([("pattern/blocks16/d64/s8192", "attune")], {"ms": 2.0}, ["block pattern"])):
        found = missed(changes, **fields)
        assert len(found) == len(texts) and all(text.startswith(start) for text, start in zip(found, texts)), (changes, fields, found)
    assert "D 64, 1 to 48 visible blocks of 128 x 128 a row: T = 100.0 us + 100.00 us * blocks; the farthest point is 0% " in good.notes[1], good.notes

    # FlashAttention 3 where the run has it, and then all twelve of its cases at D 256.
    assert not any("FA3" in bar.text for bar in good.bars) and "fa3" not in good.report()
    cells = [(mask, length) for mask in ("none", "causal") for length in LENGTHS]
    for slow, met in ((None, True), (("none", 512), False)):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("mask,head_dim,length,ms\n" + "".join(f"{mask},256,{length},{0.9 if (mask, length) == slow else 1.1}\n" for mask, length in cells))
            file.flush()
            beside = Table([*example_rows().values(), *fa3_rows(file.name)])
        bar = next(bar for bar in beside.bars if "FA3" in bar.text)
        assert bar.measured and bar.met == met, bar.line()
        assert "| vs fa3 |" in beside.report()
    assert abs(fa3_speed("none", 16384, 1000) - 2.199) < 1e-3 and abs(fa3_speed("causal", 16384, 1000) - 1.0995) < 1e-3
    for text, error in (("mask,ms\n", "has the columns mask, ms"), ("mask,head_dim,length,ms\nnone,256,x,1\n", "line 2 is not of numbers"),
                        ("mask,head_dim,length,ms\nfull,256,512,1\n", "line 2 is not of a plain case"), ("", "has the columns none")):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(text)
            file.flush()
            try:
                fa3_rows(file.name)
                assert False, text
            except SystemExit as end:
                assert error in str(end), end

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fa3.csv")
        with open(path, "w") as file:
            file.write("mask,head_dim,length,ms\ncausal,64,512,0.5\n")
        keep_fa3(folder, path, True)
        assert [row["name"] for row in read(folder)] == ["plain/causal/d64/s512"]
        keep_fa3(folder, None, False)
        assert len(read(folder)) == 1
        keep_fa3(folder, None, True)
        assert read(folder) == []

    # A bar of which a case is missing is not measured.
    rows = example_rows()
    del rows["plain/none/d128/s2048", "cudnn"]
    bar = Table(rows.values()).bars[0]
    assert not bar.measured and bar.line().endswith("| - | at least 1.05 | 1.15 | not measured |"), bar.line()

    # Of every architecture: candidates, CPU, host.
    rows = [{"name": "a", "peer": "candidates", "slowdown": slowdown} for slowdown in (1.0,)] + \
           [{"name": "b", "peer": "candidates", "slowdown": 1.2}] + \
           [{"name": f"host/{name}", "peer": "attune", "arch": "sm_90", "ms": ms} for name, ms in (("cold", 1100), ("launch", 0.006))] + \
           [{"name": "host/launch", "peer": "driver", "ms": 0.002}]
    for arch, texts in (("sm_90", ["share", "cold"]), ("sm_90a", ["share", "host time"])):
        bars = Table([dict(row, arch=arch) for row in rows]).bars
        assert [bar.text.startswith(text) for bar in bars if bar.measured and not bar.met for text in texts].count(True) == 2, (arch, bars)

    # The mma.sync kernels against FA2 and their own plain.
    rows = [dict(row, arch="sm_90") if "arch" in row else row for row in example_rows().values()]
    bars = {bar.text: bar for bar in Table(rows).bars if bar.measured}
    assert len(bars) == 10 and all(bar.met for bar in bars.values()), list(bars)
    for row in rows:
        if row["name"] == "variants/softcap/d64/s8192":
            row["tileTflops"] = 500.0
        if row["peer"] == "fa2" and row["name"].startswith("plain"):
            row["ms"] = 0.8
    missed_bars = [bar.text for bar in Table(rows).bars if bar.measured and not bar.met]
    assert len(missed_bars) == 2 and missed_bars[1].startswith("softcap D 64: time"), missed_bars


def test_pages():
    rows = list(example_rows().values())
    table = Table(rows)
    text = table.report()
    assert "| plain/none/d64/s1024 | 128 x 64 | 1.000 | 700 | 350 | 2.00 | 583 | 1.20 | - | - |" in text, text
    assert "One GPU, PyTorch; attune for sm_90a." in text and "4.27 TB/s" in text, text
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "page.md")
        blocks = {name: "".join(marks(name)) for name in ("sm_90a", "bars sm_90a", "tables sm_90a")}
        with open(page, "w") as file:
            file.write("before\n" + "\nbetween\n".join(blocks.values()) + "\nafter\n")
        for _ in range(2):  # the second replaces what the first wrote
            write_readme(page, table)
            write_docs(page, table)
        with open(page) as file:
            text = file.read()
        assert text.startswith("before\n") and text.endswith("\nafter\n") and text.count("between") == 2, text
        assert text.count("| D 64, causal | 700 / 583 = 1.20 |") == 1 and text.count("| D 256 | 700 | 700 |") == 1, text
        assert text.count("### Block pattern") == 1 and text.count("| the same: least | 2 | at least 1.2 |  | met |") == 1, text
        for wrong in (lambda: write_readme(page, Table(rows[:5])), lambda: rewrite(page, {"bars sm_90": []}),
                      lambda: Table([*rows, {"name": "x", "peer": "attune", "arch": "sm_90"}])):
            try:
                wrong()
            except SystemExit:
                continue
            raise AssertionError("a mistake passed")
    # The pages of the checkout have their blocks.
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for page, blocks in (("README.md", ["sm_90a"]), ("docs/measurements/sm_90a.md", ["bars sm_90a", "tables sm_90a"]),
                         ("docs/measurements/sm_90.md", ["bars sm_90", "tables sm_90"])):
        if os.path.exists(os.path.join(root, page)):
            with open(os.path.join(root, page)) as file:
                text = file.read()
            for block in blocks:
                replace_block(text, block, [])


def test_pieces():
    with tempfile.TemporaryDirectory() as folder:
        row = lambda name, ms: json.dumps({"name": name, "peer": "attune", "ms": ms})
        for rows, append in (([row("a", 1)], False), ([row("b", 2)], False), ([row("b", 3), row("c", 4)], True)):
            assert run("ours", ["printf", "%s\\n", *rows], folder, append=append)
        table = Table(read(folder))
        assert [table.time(name) for name in "abc"] == [None, 3, 4], table.rows
        assert not run("host", ["false"], folder)
        # Of three rounds the median; a failure in one of them stays.
        clock = os.path.join(folder, "clock")
        count = f"echo >> {clock}; n=$(wc -l < {clock}); echo '{{\"name\": \"a\", \"peer\": \"attune\", \"ms\": '$((n * 7 % 5))'}}'"
        assert run("ours", ["sh", "-c", count], folder, rounds=3) and Table(read(folder)).time("a") == 2
        assert run("ours", ["sh", "-c", count], folder, rounds=3) and Table(read(folder)).time("a") == 2
    assert list(median_rows([[{"name": "a", "ms": 1}], [{"name": "a", "error": "x"}], [{"name": "a", "ms": 2}]])) == [{"name": "a", "error": "x"}]
    assert [row["ms"] for row in median_rows([[{"name": "a", "ms": 5}], [{"name": "a", "ms": 3}]])] == [3]
    assert fit_line([(1, 5), (2, 7), (4, 11)]) == (3.0, 2.0) and spread_per_tile([(2, 2), (4, 6)]) == 1.5
    assert geomean([2, 8]) == 4 and geomean([2, None]) is None and geomean([]) is None and least([3, 2]) == 2


def self_test():
    test_bars()
    test_pages()
    test_pieces()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bench", help="attune-bench; without it the results of an earlier run are read")
    arguments.add_argument("--results", default="bench-results", help="folder of the JSON lines")
    arguments.add_argument("--only", default="ours,peers,candidates,cpu,host")
    arguments.add_argument("--peers", default=",".join(PEERS))
    arguments.add_argument("--filter", default="", help="only cases whose name holds this text")
    arguments.add_argument("--groups", default="", help="only cases of these groups: " + ",".join(GROUPS))
    arguments.add_argument("--target", default="", help="architecture of our kernels, for example sm_90 (the machine's; sm_90a on an H200)")
    arguments.add_argument("--readme", metavar="FILE", help="rewrite the block of the page that holds the table of sm_90a")
    arguments.add_argument("--docs", metavar="FILE", help="rewrite the blocks of the page that hold the architecture's bars and tables")
    arguments.add_argument("--rounds", type=int, choices=range(1, 10), default=1, metavar="N", help="how often ours and the peers are measured: 1 to 9")
    arguments.add_argument("--fa3", metavar="FILE", help="FlashAttention 3's times of this run, as CSV")
    arguments.add_argument("--self-test", action="store_true")
    options = arguments.parse_args()
    if options.self_test:
        return self_test()
    if options.bench:
        options.bench = os.path.abspath(options.bench)
        found = arch_of(read(options.results))
        if options.target and found and found != options.target:
            sys.exit(f"{options.results} holds results of {found}; name another folder with --results")
    keep_fa3(options.results, options.fa3, options.bench and "ours" in options.only.split(","))
    failed = measure(options) if options.bench else []
    table = Table(read(options.results))
    print(table.report())
    if failed:
        sys.exit("failed: " + ", ".join(failed))
    if options.readme:
        write_readme(options.readme, table)
    if options.docs:
        write_docs(options.docs, table)
    if any(bar.measured and not bar.met for bar in table.bars):
        sys.exit("some bars are missed")


if __name__ == "__main__":
    main()
