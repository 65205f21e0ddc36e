#!/usr/bin/env python3
"""decode.py --attune PATH [--flex]: few queries over many keys, attune beside PyTorch's attention (cuDNN, FA2, FlexAttention), as a markdown table.

attune is the command line's `attune run --prepare`: the plan that its cost model chooses for the sizes. Both sides are timed by CUDA events, the
median of launches behind a write that empties the L2 cache, in bf16. Bytes are those of K and V, against what a copy of 1 GiB reads and writes;
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

LARGE = [(8, 32, 8, 1, 8192, 128), (1, 32, 8, 1, 65536, 128), (64, 32, 8, 1, 4096, 128), (128, 32, 8, 1, 1024, 128), (16, 64, 8, 1, 8192, 128), (16, 64, 8, 4, 8192, 128),
         (32, 32, 8, 8, 4096, 128), (16, 32, 8, 1, 8192, 64), (64, 64, 8, 2, 4096, 64)]
SMALL = [(1, 32, 8, 1, 512, 128), (1, 32, 8, 1, 2048, 128), (1, 32, 8, 1, 8192, 128), (4, 32, 8, 1, 2048, 128), (16, 32, 8, 1, 512, 128), (16, 32, 8, 1, 2048, 128), (8, 64, 8, 4, 1024, 128),
         (1, 32, 8, 1, 4096, 64), (4, 32, 8, 1, 2048, 64), (16, 32, 8, 1, 1024, 64)]
VARIANTS = {"softcap": ["softcap"], "alibi": ["alibi"], "sliding window": ["sliding-window", "--left", "4095", "--with-q-offset", "--q-offset", "8191"],
            "tree": ["--mask", "k < 8184 || ((parents[q] >> (k - 8184)) & 1) == 1", "--tensor", "parents=i32[1]:0..255"]}


def milliseconds(call, launches=40):
    for _ in range(5):
        call()
    empty = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    times = []
    for _ in range(launches):
        empty.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def attune(path, shape, variant=("plain",)):
    name = variant if variant[0][0] != "-" else ("plain", *variant)
    command = [path, "run", *name, "--no-check", "--prepare", "--json", "--repeats", "40", "--target", "gpu", "--shape", ",".join(map(str, (*shape, shape[-1])))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return result["milliseconds"], result["plan"]["text"]


def of_lengths(path, most, lengths):
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        numpy.save(file, numpy.array(lengths, numpy.int32))
        file.flush()
        return attune(path, (len(lengths), 32, 8, 1, most, 128), ("key-padding", "--tensor", f"lengths=i32[{len(lengths)}]:{file.name}"))[0]


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
    options = parser.parse_args()
    rate = copy_rate()
    print(f"{torch.cuda.get_device_name()}, a copy {rate:.2f} TB/s\n")
    for title, shapes in ("K and V of 128 MiB at least", LARGE), ("smaller", SMALL):
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
    print("| variant of 16, 32, 8, 1, 8192, D | D | attune ms | plain / variant |\n|---|---|---|---|")
    for dim in 128, 64:
        plain, _ = attune(options.attune, (16, 32, 8, 1, 8192, dim))
        for name, variant in VARIANTS.items():
            keys = 4096 if name == "sliding window" else 8192
            of, _ = attune(options.attune, (16, 32, 8, 1, 8192, dim), variant)
            base = plain if keys == 8192 else attune(options.attune, (16, 32, 8, 1, keys, dim))[0]
            print(f"| {name} | {dim} | {of:.4f} | {base / of:.2f} |", flush=True)
    print("\n| lengths of 16 sequences, 32 over 8 heads, D 128 | attune ms | even / uneven |\n|---|---|---|")
    for most in 2048, 32768:
        random.seed(most)
        uneven = [random.randint(1, most) for _ in range(15)] + [most]
        even, of = ((of_lengths(options.attune, most, lengths)) for lengths in ([sum(uneven) // 16] * 16, uneven))
        print(f"| 1 to {most} | {of:.4f} | {even / of:.2f} |", flush=True)


if __name__ == "__main__":
    main()
