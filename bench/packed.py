#!/usr/bin/env python3
"""packed.py: packed sequences, causal, bf16, forward and backward: attune.torch beside PyTorch's varlen_attn and beside sequences of one length.

    packed.py                                        every row, on the GPU
    packed.py --only '64 x 1..2048'
    packed.py --heads 4 --device cpu --scale 64      that it runs: sequences of a 64th of the length, on the CPU target; the times say nothing

A row of unlike lengths draws them uniformly, seed 0. TFLOP/s count the pairs that are visible, 4 D forward and 10 D backward. `dense` is
attune.torch's flash_attn_func on a batch of as many sequences of one length, and its ratio is what packing costs. PyTorch's function counts elements
by int32, and is left out where it cannot. Times are the least of --repeats on a GPU that does nothing else, without the host's time.
"""
import argparse
import time

import torch
from launch_timer import LaunchTimer

from attune.torch import flash_attn_func, flash_attn_varlen_func

# Name: number of sequences, the least and the greatest length.
ROWS = {"1024 x 1..2048": (1024, 1, 2048), "64 x 1..2048": (64, 1, 2048), "64 x 1..8192": (64, 1, 8192), "512 x 512": (512, 512, 512),
        "128 x 2048": (128, 2048, 2048), "32 x 8192": (32, 8192, 8192)}


def timed(options, calls):
    """The milliseconds of each call."""
    for call in calls:
        call()
    if options.device == "cuda":
        other = torch.empty(128 << 20, dtype=torch.int32, device="cuda")
        return [min(times) for times in LaunchTimer(torch.cuda, other.max).milliseconds(calls, options.repeats)]
    times = [[] for _ in calls]
    for _ in range(options.repeats):
        for call, of_call in zip(calls, times):
            begin = time.perf_counter()
            call()
            of_call.append(1e3 * (time.perf_counter() - begin))
    return [min(of_call) for of_call in times]


def passes(function, operands, grad):
    """The forward pass, and the backward pass of an output that is computed before."""
    output = function(*operands)

    def forward():
        with torch.no_grad():
            function(*operands)
    return forward, lambda: torch.autograd.grad(output, operands, grad, retain_graph=True)


def row(options, name):
    count, least, most = ROWS[name]
    lengths = torch.randint(least, most + 1, (count,), generator=torch.Generator().manual_seed(0)) // options.scale
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int().to(options.device)
    longest, tokens = int(lengths.max()), int(lengths.sum())
    pairs = float((lengths.double() * (lengths + 1)).sum()) / 2 * options.heads * options.head_dim

    def made(*shape):
        return torch.randn(*shape, options.heads, options.head_dim, device=options.device, dtype=torch.bfloat16)
    operands, grad = [made(tokens).requires_grad_() for _ in range(3)], made(tokens)
    functions = {"attune": (lambda q, k, v: flash_attn_varlen_func(q, k, v, bounds, bounds, causal=True), operands, grad)}
    if options.device == "cuda" and tokens * options.heads * options.head_dim < 2**31:
        from torch.nn.attention.varlen import varlen_attn
        functions["PyTorch"] = (lambda q, k, v: varlen_attn(q, k, v, bounds, bounds, longest, longest, window_size=(-1, 0)), operands, grad)
    if least == most:
        batch = [x.detach().view(count, longest, options.heads, options.head_dim).requires_grad_() for x in operands]
        functions["dense"] = (lambda q, k, v: flash_attn_func(q, k, v, causal=True), batch, grad.view_as(batch[0]))
    calls = [passes(*of) for of in functions.values()]
    forward, backward = (timed(options, [of[i] for of in calls]) for i in range(2))
    cells = [f"| {name} | {tokens:,} "]
    for times, flops in ((forward, 4), (backward, 10)):
        by_name = dict(zip(functions, times))
        ratios = [f"{by_name[peer] / by_name['attune']:.2f}" if peer in by_name else "-" for peer in ("PyTorch", "dense")]
        cells.append(f"| {by_name['attune']:.3f} | {flops * pairs / by_name['attune'] / 1e9:.0f} | {ratios[0]} | {ratios[1]} ")
    print("".join(cells) + "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ROWS, help="one row")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--scale", type=int, default=1, help="divides the lengths")
    options = parser.parse_args()
    titles = "ms | TFLOP/s | PyTorch / attune | dense / attune"
    print(f"Causal, bf16, H {options.heads}, D {options.head_dim}: forward, then backward\n\n| sequences | tokens | {titles} | {titles} |\n|{'---|' * 10}")
    for name in [options.only] if options.only else ROWS:
        row(options, name)


if __name__ == "__main__":
    main()
