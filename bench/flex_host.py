#!/usr/bin/env python3
"""flex_host.py [--device cuda]: what calls of attune.torch.flex_attention cost the host, outside of graphs.

Tensors are so small that a GPU waits; on the CPU they have no elements, so that kernels do nothing. Beside attune: an autograd function that makes
the same tensors and computes nothing, and on a GPU compiled FlexAttention. A time is the least mean of 100 calls.
"""
import argparse
import gc
import timeit

import torch
from torch.nn.attention import flex_attention as flex

import attune.torch


class Allocations(torch.autograd.Function):
    """What autograd itself costs."""

    @staticmethod
    def forward(ctx, q, k, v, captured):
        o, lse = torch.empty_like(q), torch.empty_like(q[..., 0], dtype=torch.float32)
        ctx.save_for_backward(q, k, v, o, lse, captured)
        ctx.set_materialize_grads(False)
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, *_ = ctx.saved_tensors
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), None


def microseconds(call, wait, rounds=30, calls=100):
    def prepare():
        gc.enable()  # which timeit turns off, and users do not
        wait()
    for _ in range(calls):
        call()
    return min(timeit.repeat(call, prepare, repeat=rounds, number=calls)) / calls * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = parser.parse_args().device
    on_gpu = device != "cpu"
    heads, length = 4, 64 if on_gpu else 0
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    slopes = torch.ones(heads, device=device)

    def alibi(score, b, h, q, k):
        return score + slopes[h] * (k - q)

    def causal(b, h, q, k):
        return q >= k
    q, k, v, do = (torch.zeros(1, heads, length, 64, dtype=torch.bfloat16, device=device) for _ in range(4))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]

    def rows(name, attention, causal_mask):
        calls = {"forward": lambda: attention(q, k, v), "forward, causal": lambda: attention(q, k, v, None, causal_mask),
                 "forward, causal and ALiBi": lambda: attention(q, k, v, alibi, causal_mask),
                 "the same, and backward()": lambda: torch.autograd.backward(attention(*leaves, alibi, causal_mask), do),
                 "the same, and grad()": lambda: torch.autograd.grad(attention(*leaves, alibi, causal_mask), leaves, do)}
        for what, call in calls.items():
            print(f"{name}, {what}: {microseconds(call, wait):.1f} us", flush=True)
    rows("attune", attune.torch.flex_attention, attune.torch.create_block_mask(causal, None, None, length, length, device=device))
    print(f"allocations alone, forward: {microseconds(lambda: Allocations.apply(q, k, v, slopes), wait):.1f} us")
    print(f"allocations alone, and backward(): {microseconds(lambda: torch.autograd.backward(Allocations.apply(*leaves, slopes), do), wait):.1f} us")
    if on_gpu:
        rows("FlexAttention", torch.compile(flex.flex_attention), flex.create_block_mask(causal, None, None, length, length, device=device))


main()
