#!/usr/bin/env python3
"""decode.py --attune PATH [--flex] [--flashinfer]: few queries over many keys, attune beside PyTorch's attention (cuDNN, FA2, FlexAttention) and FlashInfer's
(0.7, of PYTHONPATH), as markdown tables. --only paged,variants,... leaves out tables.

attune is the command line's `attune run --prepare`: the plan that its cost model chooses for the sizes. Both sides are timed by CUDA events, the
median of launches behind a read of 256 MiB of other memory and without the host's time (launch_timer.py), in bf16: the L2 cache then has nothing of K and V, nor lines that are still to be
written back, which cost the launch behind them as much as 10 us. Bytes are those of K and V, against what a copy of 1 GiB reads and writes;
variants are held against attune's own plain time.
"""
import argparse
import json
import math
import random
import statistics
import subprocess
import tempfile

import numpy
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from launch_timer import LaunchTimer

TABLES = ["large", "small", "paged", "variants", "lengths"]

LARGE = [(8, 32, 8, 1, 8192, 128), (1, 32, 8, 1, 65536, 128), (64, 32, 8, 1, 4096, 128), (128, 32, 8, 1, 1024, 128), (16, 64, 8, 1, 8192, 128), (16, 64, 8, 4, 8192, 128),
         (32, 32, 8, 8, 4096, 128), (16, 32, 8, 1, 8192, 64), (64, 64, 8, 2, 4096, 64)]
SMALL = [(1, 32, 8, 1, 512, 128), (1, 32, 8, 1, 2048, 128), (1, 32, 8, 1, 8192, 128), (4, 32, 8, 1, 2048, 128), (16, 32, 8, 1, 512, 128), (16, 32, 8, 1, 2048, 128), (8, 64, 8, 4, 1024, 128),
         (1, 32, 8, 1, 4096, 64), (4, 32, 8, 1, 2048, 64), (16, 32, 8, 1, 1024, 64)]
VARIANTS = {"softcap": ["softcap"], "alibi": ["alibi"], "sliding window": ["sliding-window", "--left", "4095", "--with-q-offset", "--q-offset", "8191"],
            "tree": ["--mask", "k < Sk - 8 || ((parents[q] >> (k - Sk + 8)) & 1) == 1", "--tensor", "parents=i32[1]:0..255"]}


def milliseconds(call, launches=40):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    timer = LaunchTimer(torch.cuda, torch.zeros(64 << 20, dtype=torch.float32, device="cuda").max)
    return statistics.median(timer.milliseconds([call], 1)[0][0] for _ in range(launches))


def attune(path, shape, variant=("plain",)):
    name = variant if variant[0][0] != "-" else ("plain", *variant)
    command = [path, "run", *name, "--no-check", "--prepare", "--json", "--repeats", "40", "--target", "gpu", "--shape", ",".join(map(str, (*shape, shape[-1])))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return result["milliseconds"], result["plan"]["text"]


def of_lengths(path, shape, lengths, *more):
    """Sequences of these lengths, in a cache for the longest."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        numpy.save(file, numpy.array(lengths, numpy.int32))
        file.flush()
        return attune(path, shape, ("--lengths", file.name, *more))[0]


def flashinfer_decode(shape, page, lengths):
    """The best of FlashInfer's ways for one query: its wrapper with and without tensor cores, planned before, and XQA."""
    import flashinfer
    from flashinfer.decode import xqa_batch_decode_with_kv_cache
    batch, heads, heads_kv, queries, keys, dim = shape
    assert queries == 1
    counts = [-(-length // page) for length in lengths]
    columns = -(-keys // page)
    table = torch.randperm(batch * columns, device="cuda", dtype=torch.int64).to(torch.int32).view(batch, columns)
    q = torch.randn(batch, heads, dim, device="cuda", dtype=torch.bfloat16)
    times = {}
    for layout in "NHD", "HND":
        kv = tuple(torch.randn(batch * columns, *((page, heads_kv) if layout == "NHD" else (heads_kv, page)), dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        starts = torch.tensor([0, *numpy.cumsum(counts)], dtype=torch.int32, device="cuda")
        used = torch.cat([table[b, :count] for b, count in enumerate(counts)])
        last = torch.tensor([length - (count - 1) * page for length, count in zip(lengths, counts)], dtype=torch.int32, device="cuda")
        for cores in False, True:
            space = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, layout, use_tensor_cores=cores)
            wrapper.plan(starts, used, last, heads, heads_kv, dim, page, pos_encoding_mode="NONE", q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16)
            times[f"{'tensor' if cores else 'CUDA'} cores {layout}"] = milliseconds(lambda: wrapper.run(q, kv))
        if heads // heads_kv in (4, 8):
            space = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
            of = torch.tensor(lengths, dtype=torch.int32, device="cuda")
            times[f"XQA {layout}"] = milliseconds(lambda: xqa_batch_decode_with_kv_cache(q, kv, space, table, of, keys, bmm1_scale=dim ** -0.5, bmm2_scale=1.0, kv_layout=layout))
    best = min(times, key=times.get)
    return times[best], best


def paged(options):
    """Caches in pages, with lengths of their own, beside rows in one piece."""
    shapes = [shape for shape in LARGE + SMALL if shape[3] == 1]
    print("| caches in pages: B, H, Hkv, Sq, Sk, D | page | attune ms | in one piece | ratio | FlashInfer ms | ratio |\n|---|---|---|---|---|---|---|")
    for title, some in ("large", [s for s in shapes if s in LARGE]), ("small", [s for s in shapes if s in SMALL]):
        against, beside = {64: [], 16: []}, []
        for shape in some:
            dense = attune(options.attune, shape)[0]
            for page in 64, 16:
                own = attune(options.attune, shape, ("--paged", str(page)))[0]
                lengths = [shape[4] - 3] * shape[0]
                told = of_lengths(options.attune, shape, lengths, "--paged", str(page))
                against[page].append(dense / own)
                peer = "- | -"
                if options.flashinfer:
                    time, way = flashinfer_decode(shape, page, lengths)
                    beside.append(time / told)
                    peer = f"{time:.4f} {way} | {time / told:.2f}"
                print(f"| {', '.join(map(str, shape))} | {page} | {own:.4f}, with lengths {told:.4f} | {dense:.4f} | {dense / own:.2f} | {peer} |", flush=True)
        means = ", ".join(f"page {page} {math.exp(statistics.mean(map(math.log, ratios))):.2f} (least {min(ratios):.2f})" for page, ratios in against.items())
        print(f"\n{title}: against one piece {means}" + (f"; against FlashInfer, both with lengths, {math.exp(statistics.mean(map(math.log, beside))):.2f} (least {min(beside):.2f})" if beside else "") + "\n", flush=True)


def peers(shape, with_flex):
    batch, heads, heads_kv, queries, keys, dim = shape
    q = torch.randn(batch, heads, queries, dim, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch, heads_kv, keys, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    times = {}
    for name, backend in ("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FA2", SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            times[name] = milliseconds(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    if with_flex:
        from torch.nn.attention.flex_attention import flex_attention
        torch.compiler.reset()
        flex = torch.compile(flex_attention, dynamic=False)
        times["FlexAttention"] = milliseconds(lambda: flex(q, k, v, enable_gqa=True))
    return times


def copy_rate():
    x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    return 2 * x.numel() / milliseconds(lambda: y.copy_(x)) / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attune", default="attune", help="the attune executable")
    parser.add_argument("--flex", action="store_true", help="time FlexAttention, too, which compiles for each shape")
    parser.add_argument("--flashinfer", action="store_true", help="time FlashInfer's decoding beside paged caches")
    parser.add_argument("--only", default=",".join(TABLES), help="tables, of " + ",".join(TABLES))
    options = parser.parse_args()
    rate = copy_rate()
    print(f"{torch.cuda.get_device_name()}, a copy {rate:.2f} TB/s\n")
    only = options.only.split(",")
    for table, title, shapes in ("large", "K and V of 128 MiB at least", LARGE), ("small", "smaller", SMALL):
        if table not in only:
            continue
        ratios = []
        print(f"| {title}: B, H, Hkv, Sq, Sk, D | attune ms | best peer ms | ratio | bytes / copy | plan |\n|---|---|---|---|---|---|")
        for shape in shapes:
            times = peers(shape, options.flex)
            best = min(times, key=times.get)
            own, plan = attune(options.attune, shape)
            of_bytes = 2 * shape[0] * shape[2] * shape[4] * shape[5] * 2 / own / 1e9 / rate
            ratios.append(times[best] / own)
            print(f"| {', '.join(map(str, shape))} | {own:.4f} | {times[best]:.4f} {best} | {ratios[-1]:.2f} | {of_bytes:.2f} | {plan} |", flush=True)
        print(f"\ngeometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}, least {min(ratios):.2f}\n", flush=True)
    if "paged" in only:
        paged(options)
    if "variants" in only:
        variants(options)
    if "lengths" in only:
        lengths(options)


def variants(options):
    print("| variant of 16, 32, 8, 1, 8192, D | D | attune ms | plain / variant |\n|---|---|---|---|")
    for dim in 128, 64:
        plain, _ = attune(options.attune, (16, 32, 8, 1, 8192, dim))
        for name, variant in VARIANTS.items():
            keys = 4096 if name == "sliding window" else 8192
            of, _ = attune(options.attune, (16, 32, 8, 1, 8192, dim), variant)
            base = plain if keys == 8192 else attune(options.attune, (16, 32, 8, 1, keys, dim))[0]
            print(f"| {name} | {dim} | {of:.4f} | {base / of:.2f} |", flush=True)


def lengths(options):
    """The same bytes in sequences of one length and of many."""
    print("\n| lengths of 16 sequences, 32 over 8 heads, D 128 | attune ms | even / uneven |" + (" FlashInfer ms | ratio |" if options.flashinfer else "") + "\n|---|---|---|" + ("---|---|" if options.flashinfer else ""))
    for most in 2048, 32768:
        random.seed(most)
        uneven = [random.randint(1, most) for _ in range(15)] + [most]
        shape = (16, 32, 8, 1, most, 128)
        for paged in [], ["--paged", "64"]:
            even, of = (of_lengths(options.attune, shape, each, *paged) for each in ([sum(uneven) // 16] * 16, uneven))
            peer = ""
            if options.flashinfer and paged:
                time, way = flashinfer_decode(shape, 64, uneven)
                peer = f" {time:.4f} {way} | {time / of:.2f} |"
            print(f"| 1 to {most}{', pages of 64' if paged else ''} | {of:.4f} | {even / of:.2f} |{peer}", flush=True)


if __name__ == "__main__":
    main()
