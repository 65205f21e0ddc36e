#!/usr/bin/env python3
"""host_time.py [--limit US]: what a call costs on the host, beside the kernel's own work: tensors so small that there is none."""
import argparse
import gc
import sys
import timeit

try:
    import numpy as np
except ImportError:
    print("NumPy is missing: pip install -r python/requirements.txt")
    sys.exit(77)

import attune


def microseconds(call, rounds=7, calls=300):
    # timeit turns garbage collection off, which users do not.
    return min(timeit.repeat(call, gc.enable, repeat=rounds, number=calls)) / calls * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, help="fail where a call takes longer, in us")
    limit = parser.parse_args().limit
    slopes = np.ones(1, np.float32)
    kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: s + slopes[h] * (k - q)), head_dim=8, dtype="f32", target="cpu", gradients=["slopes"])
    q, k, v, do = (np.ones((1, 1, 0, 8), np.float32) for _ in range(4))  # no query: nothing runs
    o, lse = kernel(q, k, v, return_lse=True)
    times = {"forward": microseconds(lambda: kernel(q, k, v)), "forward with LSE": microseconds(lambda: kernel(q, k, v, return_lse=True)),
             "backward": microseconds(lambda: kernel.backward(q, k, v, o, lse, do))}
    for name, taken in times.items():
        print(f"{name}: {taken:.1f} us")
    sys.exit(limit is not None and max(times.values()) > limit)


main()
