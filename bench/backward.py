#!/usr/bin/env python3
"""backward.py --attune PATH: backward passes of attune beside those of PyTorch's attention (FA2, cuDNN, FlexAttention), in bf16, as markdown tables.

    backward.py --attune build/bin/attune                            every table, attune for sm_90a
    backward.py --attune build/bin/attune --arch sm_90 --peers fa2   the mma.sync kernels
    backward.py --attune build/bin/attune --tables plain --only 'D 128, causal'
    backward.py --self-test                                          of the tables, without a GPU

A row times attune (`attune run --backward`), then each peer by torch.autograd.grad of an output that was computed before. The host's time counts
for nobody: attune's launches are queued behind a kernel that reads twice what level 2 holds, and the peers' behind a read of 256 MiB and, where
the host takes longer than that, a kernel that spins (launch_timer.py). Level 2 then has nothing of what a pass reads. Times are medians in ms,
ratios the peers' times over attune's.
"""
import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import typing

PEERS = {"fa2": "FA2", "cudnn": "cuDNN", "flex": "FlexAttention"}
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


class Row(typing.NamedTuple):
    name: str
    case: dict              # as attune-bench --list prints one
    variant: list           # of attune's command line


def row(title, kind, batch, heads, length, dim):
    """`kind`: none, causal or dropout."""
    case = dict(variant=kind, batch=batch, heads=heads, headsKv=heads, length=length, headDim=dim)
    variant = {"none": ["plain"], "causal": ["causal"], "dropout": ["plain", "--dropout", "0.1"]}[kind]
    return Row(title, case, variant)


MASKS = {"none": "full", "causal": "causal"}
TABLES = {
    "plain": ("16,384 tokens of hidden size 2,048",
              [row(f"D {dim}, {mask}, S {length}", kind, 16384 // length, 2048 // dim, length, dim)
               for dim in (64, 128, 256) for kind, mask in MASKS.items() for length in LENGTHS]),
    "dropout": ("Dropout 0.1",
                [row(f"B {batch}, H {heads}, D {dim}, S {length}", "dropout", batch, heads, length, dim)
                 for batch, heads, dim, length in ((16, 8, 64, 1024), (16, 8, 64, 4096), (16, 8, 64, 16384), (4, 16, 128, 4096))]),
    "dims": ("Other head dims, B 4, S 4096",
             [row(f"D {dim}, H {heads}, {mask}", kind, 4, heads, 4096, dim) for dim, heads in ((80, 25), (96, 21)) for kind, mask in MASKS.items()]),
}


def command(options, of):
    case = of.case
    shape = [case[key] for key in ("batch", "heads", "headsKv", "length", "length", "headDim", "headDim")]
    return [options.attune, "run", *of.variant, "--backward", "--arch", options.arch, "--shape", ",".join(map(str, shape)), "--no-check", "--json",
            "--repeats", str(options.repeats)]


def attune_ms(options, of):
    line = command(options, of)
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["milliseconds"]


def peer_ms(case, peer, options, empty):
    """The median time of a peer's backward pass, or the reason why there is none."""
    import torch

    import peers
    try:
        attention = peers.attention(case, peer)
        if isinstance(attention, str):
            return attention
        q, k, v = (x.requires_grad_() for x in peers.tensors(case, "cuda", torch.bfloat16))
        out = attention(q, k, v)
        d_out = torch.randn_like(out)
        return peers.median_ms(lambda: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True), options.milliseconds, empty)
    except Exception as error:  # what a peer cannot run is a result
        return peers.reason(error)
    finally:
        q = k = v = out = d_out = None
        torch.cuda.empty_cache()
        torch.compiler.reset()


def print_table(title, rows, chosen, time_of_ours, time_of_peer):
    """Prints the rows as they are measured, the means, and the reasons of what was not."""
    names = [PEERS[peer] for peer in chosen]
    print(f"{title}\n\n| | {' | '.join(['attune', *names, *(f'{name} / attune' for name in names)])} |\n|{'---|' * (2 + 2 * len(names))}")
    ratios, reasons = {peer: [] for peer in chosen}, []
    for of in rows:
        ours = time_of_ours(of)
        cells, quotients = [f"{ours:.4g}"], []
        for peer in chosen:
            time = time_of_peer(of, peer)
            if isinstance(time, str):
                reasons.append(f"- {of.name}: {PEERS[peer]}: {time}")
            else:
                ratios[peer].append(time / ours)
            cells.append("-" if isinstance(time, str) else f"{time:.4g}")
            quotients.append("-" if isinstance(time, str) else f"{time / ours:.2f}")
        print(f"| {' | '.join([of.name, *cells, *quotients])} |", flush=True)
    means = [f"{math.exp(statistics.mean(map(math.log, values))):.2f} of {PEERS[peer]} (least {min(values):.2f})" for peer, values in ratios.items() if values]
    print("\n" + ("Geometric means: " + ", ".join(means) + ".\n" if means else "") + "".join(line + "\n" for line in reasons), flush=True)


def self_test():
    import contextlib
    import io
    options = argparse.Namespace(attune="attune", arch="sm_90a", repeats=9)
    rows = TABLES["plain"][1]
    assert len(rows) == 36 and all(of.case["batch"] * of.case["length"] == 16384 and of.case["heads"] * of.case["headDim"] == 2048 for of in rows)
    causal = next(of for of in rows if of.name == "D 128, causal, S 2048")
    assert " ".join(command(options, causal)) == ("attune run causal --backward --arch sm_90a --shape 8,16,16,2048,2048,128,128 --no-check --json "
                                                  "--repeats 9")
    assert command(options, TABLES["dropout"][1][0])[2:5] == ["plain", "--dropout", "0.1"]
    printed = io.StringIO()
    times = {"fa2": 2.0, "cudnn": 0.5, "flex": "FlexAttention has no dropout"}
    with contextlib.redirect_stdout(printed):
        print_table("Title", rows[:2], list(times), lambda of: 0.5 if of is rows[0] else 1.0, lambda of, peer: times[peer])
    assert printed.getvalue() == (
        "Title\n\n| | attune | FA2 | cuDNN | FlexAttention | FA2 / attune | cuDNN / attune | FlexAttention / attune |\n|---|---|---|---|---|---|---|---|\n"
        "| D 64, full, S 512 | 0.5 | 2 | 0.5 | - | 4.00 | 1.00 | - |\n| D 64, full, S 1024 | 1 | 2 | 0.5 | - | 2.00 | 0.50 | - |\n\n"
        "Geometric means: 2.83 of FA2 (least 2.00), 0.71 of cuDNN (least 0.50).\n"
        "- D 64, full, S 512: FlexAttention: FlexAttention has no dropout\n- D 64, full, S 1024: FlexAttention: FlexAttention has no dropout\n\n"), printed.getvalue()


def part_of(known):
    """The type of an option that names some of `known`, by commas."""
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(known)}")
        return names
    return parse


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--attune", default="attune", help="the attune executable")
    arguments.add_argument("--arch", default="sm_90a", help="architecture of attune's kernels")
    arguments.add_argument("--peers", type=part_of(PEERS), default=list(PEERS), help="of " + ",".join(PEERS))
    arguments.add_argument("--tables", type=part_of(TABLES), default=list(TABLES), help="of " + ",".join(TABLES))
    arguments.add_argument("--only", default="", metavar="REGEX", help="rows whose name it finds")
    arguments.add_argument("--repeats", type=int, default=15, help="timed launches of attune's")
    arguments.add_argument("--milliseconds", type=float, default=200, help="to spend on timing a peer's row")
    arguments.add_argument("--self-test", action="store_true")
    options = arguments.parse_args()
    if options.self_test:
        return self_test()
    import torch
    import torch._functorch.config
    if not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch can use; --self-test tries the program without one")
    torch._functorch.config.donated_buffer = False      # so that a compiled backward can be called again
    empty = torch.zeros(64 << 20, dtype=torch.float32, device="cuda").max
    cudnn = torch.backends.cudnn.version()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn // 10000}.{cudnn // 100 % 100}; "
          f"attune for {options.arch}; ms\n")
    for title, rows in (TABLES[name] for name in options.tables):
        rows = [of for of in rows if re.search(options.only, of.name)]
        if rows:
            print_table(title, rows, options.peers, lambda of: attune_ms(options, of), lambda of, peer: peer_ms(of.case, peer, options, empty))


if __name__ == "__main__":
    main()
