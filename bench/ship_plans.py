#!/usr/bin/env python3
"""Tunes the plans that attune ships for this GPU.

    ship_plans.py ATTUNE CACHE_DIR OUT.json      arch/plans/nvidia_h200.json is made by this on an H200

Resumable: sizes that CACHE_DIR has measured are left out. To keep the plans that are shipped now, import them first:

    attune cache import arch/plans/nvidia_h200.json --cache-dir CACHE_DIR

At most 90 problems; the three quickest plans of each are kept.
"""
import subprocess
import sys


def tokens(dim, length, count=16384, hidden=2048):
    """The sizes of the FlashAttention papers: 16,384 tokens of hidden size 2,048."""
    heads = max(1, hidden // dim)
    return f"{max(1, count // length)},{heads},{heads},{length},{length},{dim},{dim}"


# Variant, and sizes of one head dim: of the forward pass, and of the backward pass.
PROBLEMS = [
    ("causal", [*(tokens(64, length) for length in (512, 1024, 2048, 4096, 8192, 16384)), "1,8,8,1024,1024,64,64", "1,8,8,4096,4096,64,64"]),
    ("plain", [*(tokens(64, length) for length in (512, 1024, 2048, 4096)), "1,8,8,1024,1024,64,64", "128,12,12,197,197,64,64"]),
    ("causal", [*(tokens(128, length) for length in (512, 1024, 2048, 4096)), "1,8,8,1024,1024,128,128", "1,8,8,4096,4096,128,128"]),
    ("plain", [*(tokens(128, length) for length in (512, 1024)), "1,8,8,1024,1024,128,128"]),
    ("causal", [tokens(256, length) for length in (512, 1024, 2048, 4096, 8192)]),
    ("plain", [tokens(256, length) for length in (512, 1024, 2048, 4096)]),
    *((mask, [tokens(dim, length) for length in lengths])
      for dim, lengths in ((72, (1024, 4096, 16384)), (80, (4096,)), (112, (4096,)), (136, (1024, 4096, 16384)), (144, (1024, 4096, 16384)), (160, (4096,)),
                           (176, (4096,)))
      for mask in ("causal", "plain")),
]
BACKWARD = [(mask, [tokens(dim, length) for length in (512, 1024, 2048, 4096, 8192, 16384)]) for dim in (64, 128) for mask in ("causal", "plain")]


def main():
    attune, cache, out = sys.argv[1:]
    problems = [(variant, shapes, []) for variant, shapes in PROBLEMS]
    problems += [(variant, shapes, ["--backward", "--candidates", "9", "--budget", "6"]) for variant, shapes in BACKWARD]
    assert sum(len(shapes) for _, shapes, _ in problems) <= 90
    for variant, shapes, flags in problems:
        command = [attune, "tune", variant, *flags, "--cache-dir", cache, "--resume", "--top", "1"]
        for shape in shapes:
            command += ["--shape", shape]
        print(" ".join(command), flush=True)
        subprocess.run(command, check=True)
    subprocess.run([attune, "cache", "export", out, "--cache-dir", cache, "--keep", "3"], check=True)


if __name__ == "__main__":
    main()
