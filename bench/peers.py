#!/usr/bin/env python3
"""Times PyTorch's attention on the cases of `attune-bench --list`, one JSON object a row, as attune-bench prints them.

    attune-bench --list | peers.py > peers.jsonl
    attune-bench --list | peers.py --peers fa2,cudnn --filter plain
    peers.py --ceilings

Peers: fa2 and cudnn (scaled_dot_product_attention with that backend alone), flex (FlexAttention, compiled), and with --cpu
torch-cpu. A case that a peer does not support gives a row with "unsupported" and the reason. The L2 cache is cleared before
every timed call, as attune-bench does, and no time of the host's counts (launch_timer.py). --ceilings: what the GPU reaches, a
matrix product by cuBLAS and a copy. backward.py times backward passes.
"""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from launch_timer import LaunchTimer

DROPOUT = 0.1
REST_SECONDS = 0.3  # as in Gpu.cpp
WINDOW, PREFIX, CAP, DOCUMENT, BLOCK = 1024, 2048, 30.0, 1000, 128


def median_ms(call, milliseconds, empty):
    """Median of CUDA-event times behind `empty`, without the host's time; the first calls warm up and estimate. Every row starts on a GPU that
    has rested as long: near its power limit it runs slower the longer it has been busy, by up to a tenth."""
    time.sleep(REST_SECONDS)
    timer = LaunchTimer(torch.cuda, empty)
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    (estimate,), = timer.milliseconds([call], 1)
    return statistics.median(timer.milliseconds([call], max(10, min(200, int(milliseconds / max(estimate, 1e-3)))))[0])


def tensors(case, device, dtype):
    torch.manual_seed(7)
    shape = lambda heads: (case["batch"], heads, case["length"], case["headDim"])
    return [torch.randn(shape(heads), device=device, dtype=dtype)
            for heads in (case["heads"], case["headsKv"], case["headsKv"])]


def dense_bias(case):
    """[H, S, S] in bf16, with the values of biasOf in Cases.cpp."""
    H, S = case["heads"], case["length"]
    period = (torch.arange(31, device="cuda") / 16.0 - 1.0).bfloat16()
    return period.repeat(H * S * S // 31 + 1)[:H * S * S].view(H, S, S)


def block_pattern(case):
    """[S / 128, S / 128] bool, as patternOf in Cases.cpp."""
    count, blocks = case["visibleBlocks"], case["length"] // BLOCK
    index = torch.arange(blocks, device="cuda")
    return (index[None, :] + 5 * index[:, None]) * count % blocks < count


def sdpa(case, backend):
    """scaled_dot_product_attention of q, k and v, or the reason why there is none."""
    if case["variant"] not in ("none", "causal", "dropout", "bias"):
        return "scaled_dot_product_attention has no such score or mask without an S x S bias"
    options = dict(is_causal=case["variant"] == "causal", dropout_p=DROPOUT if case["variant"] == "dropout" else 0.0)
    if case["heads"] != case["headsKv"]:
        options["enable_gqa"] = True
    if case["variant"] == "bias":
        options["attn_mask"] = dense_bias(case)[None]

    def call(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, **options)
    return call


def flex(case):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    name, S, H = case["variant"], case["length"], case["heads"]
    if name == "dropout":
        return "FlexAttention has no dropout"
    slopes = torch.exp2(-8.0 * torch.arange(1, H + 1, device="cuda") / H).float()
    table = ((torch.arange(H * 2 * S, device="cuda") % 17) / 8.0 - 1.0).float().view(H, 2 * S)
    ids = (torch.arange(S, device="cuda") // DOCUMENT).int()
    bias = dense_bias(case) if name == "bias" else None
    pattern = block_pattern(case) if name == "blocks" else None

    def causal(b, h, q, k):
        return q >= k
    masks = {
        "none": None,
        "relbias": None,
        "bias": None,
        "blocks": lambda b, h, q, k: pattern[q // BLOCK, k // BLOCK],
        "window1024": lambda b, h, q, k: (q >= k) & (q - k < WINDOW),
        "prefix2048": lambda b, h, q, k: (q >= k) | (k < PREFIX),
        "documents": lambda b, h, q, k: (q >= k) & (ids[q] == ids[k]),
    }
    scores = {
        "alibi": lambda s, b, h, q, k: s + slopes[h] * (k - q),
        "softcap": lambda s, b, h, q, k: CAP * torch.tanh(s / CAP),
        "softcap_alibi": lambda s, b, h, q, k: CAP * torch.tanh(s / CAP) + slopes[h] * (k - q),
        "relbias": lambda s, b, h, q, k: s + table[h, q - k + S],
        "bias": lambda s, b, h, q, k: s + bias[h, q, k],
    }
    mask = masks.get(name, causal)
    block_mask = create_block_mask(mask, None, None, S, S, device="cuda") if mask else None
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, score_mod=scores.get(name), block_mask=block_mask,
                                    enable_gqa=case["heads"] != case["headsKv"])


def attention(case, peer):
    """What a peer computes of q, k and v, or the reason why it does not."""
    if peer == "flex":
        return flex(case)
    return sdpa(case, {"fa2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[peer])


def reason(error):
    """The first line of an error, which is the result of a peer that cannot run a case."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def ceiling_rows(milliseconds, empty):
    """The rate of a bf16 product of 8192 x 8192 matrices, and the bytes that a copy of 1 GiB reads and writes a second."""
    name, cudnn = torch.cuda.get_device_name(), torch.backends.cudnn.version()
    machine = f"{name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn // 10000}.{cudnn // 100 % 100}"
    side = 8192
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    ms = median_ms(lambda: torch.mm(a, b, out=c), milliseconds, empty)
    yield {"name": "ceiling/matmul/s8192", "group": "ceiling", "peer": "cublas", "path": "torch.mm", "machine": machine, "ms": ms,
           "tflops": 2 * side ** 3 / ms / 1e9}
    source = torch.zeros(1 << 30, device="cuda", dtype=torch.int8)
    to = torch.empty_like(source)
    ms = median_ms(lambda: to.copy_(source), milliseconds, empty)
    yield {"name": "ceiling/copy/1gib", "group": "ceiling", "peer": "copy", "path": "device to device", "machine": machine, "ms": ms,
           "bytesPerMs": 2 * source.numel() / ms}


def cpu_rows(threads):
    torch.set_num_threads(threads)
    case = dict(batch=1, heads=8, headsKv=8, length=1024, headDim=64)
    q, k, v = tensors(case, "cpu", torch.float32)
    F.scaled_dot_product_attention(q, k, v)
    times = []
    while len(times) < 3 or (len(times) < 50 and sum(times) < 2):
        begin = time.perf_counter()
        F.scaled_dot_product_attention(q, k, v)
        times.append(time.perf_counter() - begin)
    ms = statistics.median(times) * 1e3
    flops = 4 * case["heads"] * case["length"] ** 2 * case["headDim"]
    return {"name": "cpu/none/d64/s1024", "group": "cpu", "peer": "torch-cpu", "path": f"torch {torch.__version__}",
            "threads": threads, "ms": ms, "tflops": flops / ms / 1e9}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peers", default="fa2,cudnn,flex")
    arguments.add_argument("--filter", default="", help="only cases whose name holds this text")
    arguments.add_argument("--cpu", type=int, default=0, metavar="THREADS", help="only the CPU row, with this many threads")
    arguments.add_argument("--ceilings", action="store_true", help="only the ceilings")
    arguments.add_argument("--keep-l2", action="store_true")
    arguments.add_argument("--milliseconds", type=float, default=200, help="to spend on timing a row")
    options = arguments.parse_args()
    if options.cpu:
        print(json.dumps(cpu_rows(options.cpu)))
        return
    if not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch can use; --cpu THREADS runs the CPU row")
    other = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    empty = (lambda: None) if options.keep_l2 else other.zero_
    if options.ceilings:
        for row in ceiling_rows(options.milliseconds, empty):
            print(json.dumps(row), flush=True)
        return
    for case in map(json.loads, sys.stdin):
        if options.filter not in case["name"]:
            continue
        for peer in options.peers.split(","):
            row = {"name": case["name"], "group": case["group"], "peer": peer}
            try:
                call = attention(case, peer)
                if isinstance(call, str):
                    row["unsupported"] = call
                else:
                    row["path"] = {"fa2": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "flex": "flex_attention"}[peer]
                    q, k, v = tensors(case, "cuda", torch.bfloat16)
                    with torch.no_grad():
                        row["ms"] = median_ms(lambda: call(q, k, v), options.milliseconds, empty)
                    row["tflops"] = case["flops"] / row["ms"] / 1e9
            except Exception as error:  # a peer that cannot run a case is a result
                row["unsupported"] = reason(error)
            print(json.dumps(row), flush=True)
            call = q = k = v = None
            torch.cuda.empty_cache()
        torch.compiler.reset()


if __name__ == "__main__":
    main()
