#!/usr/bin/env python3
"""Runs every score_mod and mask_mod of attention-gym through PyTorch's FlexAttention and through attune.torch, and prints a markdown table.

    attention_gym.py --gym ~/attention-gym                        all of them: checked at S 1024, timed at B 2, H 16, S 8192, D 128 in bf16
    attention_gym.py --gym ~/attention-gym --only 'natten|sta'    some of them
    attention_gym.py --gym ~/attention-gym --shard 2/3            every third, from the second; Inductor compiles for minutes
    attention_gym.py --gym ~/attention-gym --no-time --check flex,attune
    attention_gym.py --list --gym ~/attention-gym                 what there is and what is left out, without running

Both sides get the same functions: FlexAttention under torch.compile with its create_block_mask, attune with its own. Forward and backward
(dq, dk, dv and the gradients of learned parameters) are timed apart in this process, the two sides in turn, each launch behind a write that
empties the L2 cache and without the host's time (launch_timer.py); medians of CUDA events. A ratio is FlexAttention's time by attune's.

The check is FlashAttention's: the largest error of an output or gradient, against a dense computation in float64, is at most twice that of
the same computation in bf16 by PyTorch's operators, plus EPSILON of the largest value. Dense means that all scores are in memory. The column
is the greatest quotient of these errors over out, dq, dk, dv and gradients of learned parameters; up to 2 passes.

Exit code 1 where a check fails, or where attune refuses or fails at what FlexAttention computes.
"""
import argparse
import ast
import dataclasses
import importlib
import json
import math
import pathlib
import re
import statistics
import sys
import time
import types
import typing

import torch
import torch._functorch.config
import torch._inductor.config
import torch.nn.functional as F
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.nn.attention import flex_attention as flex

from launch_timer import LaunchTimer
from shards import add_shard

EPSILON = 1e-4
DOCUMENTS = 8
ROPE_DIM = 64
UNROLL = {"unroll_reductions_threshold": ROPE_DIM + 1}  # Inductor computes a sum within a score or mask only where it unrolls it
REST_SECONDS = 0.3  # as in peers.py


@dataclasses.dataclass
class Case:
    """What one call of flex_attention gets. Lengths of None are S."""
    score: typing.Callable = None
    mask: typing.Callable = None
    block_mask: flex.BlockMask = None       # made by attention-gym itself, without create_block_mask
    dense_mask: typing.Callable = None      # the mask_mod that computes densely what block_mask says with its blocks
    q_len: int = None
    kv_len: int = None
    per_head: bool = False                  # the mask depends on batch and head
    parameters: tuple = ()                  # learned tensors, whose gradients are computed, too
    inductor: dict = dataclasses.field(default_factory=dict)   # settings that FlexAttention needs for it


@dataclasses.dataclass
class Sizes:
    B: int
    H: int
    S: int      # a power of two, 512 at least
    D: int
    device: str

    def random(self, *shape):
        return torch.randn(*shape, device=self.device)

    def integers(self, end, *shape):
        return torch.randint(0, end, shape, device=self.device, dtype=torch.int32)

    def offsets(self):
        """[DOCUMENTS + 1] int32: random document boundaries, the same in every call."""
        cuts = torch.randperm(self.S - 1, generator=torch.Generator().manual_seed(1))[:DOCUMENTS - 1] + 1
        return torch.cat([torch.tensor([0]), cuts.sort().values, torch.tensor([self.S])]).int().to(self.device)

    def tiles(self, tile):
        """[B, H, S / tile, K] int32: each query tile's selected key tiles, itself among them, an eighth of all or two."""
        count = self.S // tile
        weight = torch.rand(self.B, self.H, count, count, device=self.device) + 2 * torch.eye(count, device=self.device)
        return weight.topk(max(2, count // 8)).indices.sort().values.int()

    def tile_sizes(self, tile):
        """[S / tile] int32: how many keys of each tile are real."""
        sizes = torch.full((self.S // tile,), tile, device=self.device, dtype=torch.int32)
        sizes[::4] = tile * 3 // 4
        return sizes


def power_below_root(n):
    """The greatest power of two whose square is at most n."""
    return 1 << (n.bit_length() - 1) // 2


def natten_kernel(side):
    return max(3, side // 7 | 1)


def tree(gym, f, s):
    nodes = s.S // 16
    choose = torch.Generator().manual_seed(2)
    parents = [-1] + [int(torch.randint(0, node, (1,), generator=choose)) for node in range(1, nodes)]
    ancestors = gym("build_tree_ancestor_matrix")(parents, device=s.device)
    return Case(mask=f(s.S - nodes, ancestors), q_len=nodes)


def natten(gym, f, s):
    side = math.isqrt(s.S)
    return Case(mask=f(side, side, natten_kernel(side), natten_kernel(side)), q_len=side ** 2, kv_len=side ** 2)


def tiled_natten(gym, f, s):
    side = math.isqrt(s.S) // 8 * 8
    return Case(mask=f(side, side, natten_kernel(side), natten_kernel(side), 8, 8), q_len=side ** 2, kv_len=side ** 2)


def morton_natten(gym, f, s):
    side = power_below_root(s.S)
    return Case(mask=f(side, side, natten_kernel(side), natten_kernel(side)), q_len=side ** 2, kv_len=side ** 2)


def sta_2d(gym, f, s):
    """Three quarters of the sequence are an image, the rest is text."""
    width = power_below_root(s.S)
    height = s.S * 3 // 4 // width
    return Case(mask=f((height, width), (min(24, height), min(24, width)), (8, 8), s.S // 4))


def sta_3d(gym, f, s):
    height = power_below_root(s.S // 16)
    width = s.S // 16 // height
    return Case(mask=f((12, height, width), (12, min(12, height), min(12, width)), (4, 4, 4), s.S // 4))


def global_window(gym, f, s):
    is_global = torch.zeros(s.S, dtype=torch.bool, device=s.device)
    is_global[:16] = True
    is_global[::s.S // 4] = True
    return Case(mask=f(s.S // 16, is_global))


def cross_attention(gym, f, s):
    """Eight images of S / 8 tokens; each is seen by an eighth of the text."""
    starts = torch.arange(8, device=s.device, dtype=torch.int32) * (s.S // 8)
    return Case(mask=f(torch.stack([starts, starts + s.S // 8], 1), s.S // 8))


def shared_prefix(gym, f, s):
    owners = torch.tensor([0, 0, 0, 0, 4, 4, 4, 4], device=s.device, dtype=torch.int32)
    return Case(mask=f(s.offsets(), owners))


def video(gym, f, s, **options):
    """A prompt of S / 16 tokens and 15 frames of as many."""
    return Case(mask=f(prompt_length=s.S // 16, num_frames=15, token_per_frame=s.S // 16, width=2, **options))


def block_map(gym, f, s):
    tile = 64
    selected = torch.zeros(s.B, s.H, s.S // tile, s.S // tile, dtype=torch.bool, device=s.device)
    selected.scatter_(-1, s.tiles(tile).long(), True)
    return Case(mask=f(selected, tile, s.tile_sizes(tile)), per_head=True)


def tile_blocks(gym, f, s, tile):
    selected, sizes = s.tiles(tile), s.tile_sizes(tile)
    block_mask = f(selected, tile, s.S // tile, variable_block_sizes=sizes)
    return Case(block_mask=block_mask, dense_mask=gym("generate_vsa_mask_mod")(selected, tile, sizes), per_head=True)


def spatial_bias(gym, f, s, learned=False):
    table = s.random(s.H, 10).requires_grad_(learned)
    return Case(score=f(table, s.integers(10, s.B, s.S, s.S)), parameters=(table,) if learned else ())


def edge_bias(gym, f, s):
    hops, kinds = 3, 8
    return Case(score=f(s.random(s.H, hops, kinds), s.integers(kinds, s.B, s.S, s.S, hops), s.integers(hops + 1, s.B, s.S, s.S)))


def rope(gym, f, s):
    """The bias is a dot product of ROPE_DIM values."""
    query, key = s.random(s.B, s.H, s.S, ROPE_DIM).bfloat16(), s.random(s.B, 1, s.S, ROPE_DIM).bfloat16()
    return Case(score=f(query, key, s.H, scale=ROPE_DIM ** -0.5), inductor=UNROLL)


# The function of attention-gym -> its cases, each a label and what makes it of (gym, the function, sizes).
CASES = {
    "causal_mask": [("causal", lambda gym, f, s: Case(mask=f))],
    "create_causal_block_mask_fast": [("causal, its own blocks", lambda gym, f, s: Case(
        block_mask=f(None, None, s.S, s.S, torch.device(s.device)), dense_mask=gym("causal_mask")))],
    "batchify_mask_mod": [("batchified causal", lambda gym, f, s: Case(mask=f(gym("causal_mask"), s.S // 8)))],
    "generate_block_diffusion_mask": [("block diffusion", lambda gym, f, s: Case(mask=f(s.S // 2, 16)))],
    "generate_dilated_sliding_window": [("dilated window", lambda gym, f, s: Case(mask=f(s.S // 8, 4)))],
    "generate_doc_mask_mod": [("documents, causal", lambda gym, f, s: Case(mask=f(gym("causal_mask"), s.offsets())))],
    "generate_packed_causal_doc_mask_mod": [("packed documents", lambda gym, f, s: Case(mask=f(s.offsets())))],
    "generate_vision_cross_attention_mask_mod": [("vision cross attention", cross_attention)],
    "generate_global_sliding_window": [("global and window", global_window)],
    "generate_jetspec_tree_causal_mask_mod": [("JetSpec tree", tree)],
    "generate_jetspec_training_mask_mod": [("JetSpec training", lambda gym, f, s: Case(mask=f(s.S // 2, 16), q_len=s.S // 2))],
    "generate_natten": [("NATTEN", natten)],
    "generate_tiled_natten": [("NATTEN, tiled", tiled_natten)],
    "generate_morton_natten": [("NATTEN, Morton order", morton_natten)],
    "generate_prefix_lm_mask": [("prefix LM", lambda gym, f, s: Case(mask=f(s.S // 4)))],
    "generate_shared_prefix_mask_mod": [("shared prefix", shared_prefix)],
    "generate_sliding_window": [("sliding window", lambda gym, f, s: Case(mask=f(s.S // 8)))],
    "generate_sta_mask_mod_2d": [("STA 2D", sta_2d)],
    "generate_sta_mask_mod_3d": [("STA 3D", sta_3d)],
    "generate_spatial_head_mask_mod": [("SVG spatial head", lambda gym, f, s: video(gym, f, s, attn_sink=True))],
    "generate_temporal_head_mask_mod": [("SVG temporal head", video)],
    "generate_vsa_mask_mod": [("VSA top-k", lambda gym, f, s: Case(mask=f(s.tiles(64), 64, s.tile_sizes(64)), per_head=True,
                                                                   inductor=UNROLL))],
    "generate_vsa_block_map_mask_mod": [("VSA block map", block_map)],
    "generate_vsa_padding_mask_mod": [("VSA padding", lambda gym, f, s: Case(mask=f(s.tile_sizes(64), 64)))],
    "create_vsa_block_mask": [("VSA, its own blocks", lambda gym, f, s: tile_blocks(gym, f, s, 128))],
    "create_vsa_flash_block_mask": [("VSA, its own 256 x 128 blocks", lambda gym, f, s: tile_blocks(gym, f, s, 256))],
    "generate_activation_score_mod": [("activation, gelu", lambda gym, f, s: Case(score=f(F.gelu))),
                                      ("activation, sigmoid", lambda gym, f, s: Case(score=f(torch.sigmoid)))],
    "generate_alibi_bias": [("ALiBi", lambda gym, f, s: Case(score=f(s.H)))],
    "generate_graphormer_spatial_bias": [("Graphormer spatial", spatial_bias),
                                         ("Graphormer spatial, learned", lambda gym, f, s: spatial_bias(gym, f, s, learned=True))],
    "generate_graphormer_edge_bias": [("Graphormer edge", edge_bias)],
    "generate_mla_rope_score_mod": [("MLA rotary", rope)],
    "generate_sandwich_bias": [("Sandwich", lambda gym, f, s: Case(score=f(s.H, s.S, device=s.device)))],
    "generate_tanh_softcap": [("tanh softcap", lambda gym, f, s: Case(score=f(30))),
                              ("tanh softcap, approximate", lambda gym, f, s: Case(score=f(30, approx=True)))],
}

# What attention-gym defines that is no score_mod or mask_mod of a plain call, and why.
LEFT_OUT = {
    "undo_softmax": "works on the output and LSE of a call, after it",
    "lift_vsa_tile_output": "expands the coarse output of VSA, no attention",
}


def load(path):
    """gym(name), a function of attn_gym.masks or attn_gym.mods, and the names of all that make a score_mod, mask_mod or BlockMask. The
    package's own __init__ is passed by: it imports the parts that need more than PyTorch."""
    root = pathlib.Path(path).expanduser() / "attn_gym"
    if not (root / "masks").is_dir():
        sys.exit(f"{root} has no masks; --gym is the source tree of attention-gym")
    package = types.ModuleType("attn_gym")
    package.__path__ = [str(root)]
    sys.modules["attn_gym"] = package
    homes, makers = {}, []
    for file in sorted([*root.glob("masks/*.py"), *root.glob("mods/*.py")]):
        for node in ast.parse(file.read_text()).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            homes[node.name] = f"attn_gym.{file.parent.name}.{file.stem}"
            returned = ast.unparse(node.returns) if node.returns else ""
            is_mod = [argument.arg for argument in node.args.args][-2:] == ["q_idx", "kv_idx"]
            if is_mod or returned in ("_mask_mod_signature", "_score_mod_signature", "BlockMask"):
                makers.append(node.name)
    return lambda name: getattr(importlib.import_module(homes[name]), name), makers


def message(error):
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.strip().endswith("raised:")]
    text = lines[0] if lines else "no message"
    return f"{type(error).__name__}: {text[:200]}"


class Side:
    """One implementation: its flex_attention and create_block_mask."""

    def __init__(self, name, attention, create_block_mask):
        self.name, self.attention, self.create_block_mask = name, attention, create_block_mask

    def bind(self, case, sizes):
        """The call (q, k, v) -> out."""
        mask = case.block_mask
        if mask is None and case.mask is not None:
            batch, heads = (sizes.B, sizes.H) if case.per_head else (None, None)
            mask = self.create_block_mask(case.mask, batch, heads, case.q_len or sizes.S, case.kv_len or sizes.S, device=sizes.device)
        return lambda q, k, v: self.attention(q, k, v, score_mod=case.score, block_mask=mask)


def sides(options):
    module = importlib.import_module(options.module)
    compiled = torch.compile(flex.flex_attention, dynamic=False)

    def compiled_mask(*arguments, **keywords):    # without _compile it materialises the whole mask, gigabytes at S 8192
        return flex.create_block_mask(*arguments, **keywords, _compile=options.device == "cuda")
    return [Side("flex", compiled, compiled_mask), Side("attune", module.flex_attention, module.create_block_mask)]


def inputs(case, sizes, dtype):
    """q, k, v that require gradients, and the gradient of the output."""
    torch.manual_seed(7)
    q_len, kv_len = case.q_len or sizes.S, case.kv_len or sizes.S
    make = lambda length: torch.randn(sizes.B, sizes.H, length, sizes.D, device=sizes.device).to(dtype)
    return [x.requires_grad_() for x in (make(q_len), make(kv_len), make(kv_len))], make(q_len)


def results(call, qkv, d_out, parameters):
    """[out, dq, dk, dv, gradients of parameters...] of a call."""
    out = call(*qkv)
    return [out.detach(), *torch.autograd.grad(out, [*qkv, *parameters], d_out)]


def over_scores(score):
    """score_mod over all of [B, H, Q, K]. The mode is FlexAttention's own: under vmap it makes t[q_idx] a gather."""
    for places in ((0, None, None, None, 0), (0, None, None, 0, None), (0, None, 0, None, None), (0, 0, None, None, None)):
        score = torch.vmap(score, in_dims=places)
    return score


def dense(case, sizes):
    """The call (q, k, v) -> out with all scores in memory; they are float32 or, of float64 tensors, float64."""
    mask_mod = case.dense_mask or case.mask

    def call(q, k, v):
        B, H, q_len, kv_len = *q.shape[:3], k.shape[2]
        scores = (q @ k.transpose(-1, -2)).to(torch.promote_types(q.dtype, torch.float32)) * q.shape[-1] ** -0.5
        if case.score is not None:
            with TransformGetItemToIndex():
                scores = over_scores(case.score)(scores, *(torch.arange(n, device=q.device) for n in (B, H, q_len, kv_len)))
        if mask_mod is None:
            return scores.softmax(-1).to(q.dtype) @ v
        per_head = (B, H) if case.per_head else (None, None)
        mask = flex.create_mask(mask_mod, *per_head, q_len, kv_len, device=sizes.device)
        seen = mask.any(-1, keepdim=True)           # a row that sees nothing gives 0
        weights = torch.where(mask | ~seen, scores, -math.inf).softmax(-1) * seen
        return weights.to(q.dtype) @ v
    return call


def check(side, case, sizes):
    """(greatest quotient of errors, what fails or None) of FlashAttention's criterion."""
    qkv, d_out = inputs(case, sizes, torch.bfloat16)
    ours = results(side.bind(case, sizes), qkv, d_out, case.parameters)
    reference = dense(case, sizes)
    rounded = results(reference, qkv, d_out, case.parameters)
    exact = results(reference, [x.detach().double().requires_grad_() for x in qkv], d_out.double(), case.parameters)
    names = ["out", "dq", "dk", "dv", *(f"d_parameter{index}" for index in range(len(case.parameters)))]
    worst, failures = 0.0, []
    for name, our, low, gold in zip(names, ours, rounded, exact):
        error, low_error = ((x.double() - gold).abs().max().item() for x in (our, low))
        allowed = 2 * low_error + EPSILON * gold.abs().max().item()
        worst = max(worst, 2 * error / allowed if allowed else 0.0)
        if not error <= allowed:    # a NaN fails, too
            failures.append(f"{name}: error {error:.2e}, PyTorch's in bf16 {low_error:.2e}")
    return worst, "; ".join(failures) or None


class HostClock:
    """A LaunchTimer of calls on the CPU."""

    def milliseconds(self, calls, count):
        times = [[] for _ in calls]
        for _ in range(count):
            for call, of_call in zip(calls, times):
                begin = time.perf_counter()
                call()
                of_call.append(1e3 * (time.perf_counter() - begin))
        return times


def medians(calls, options, empty):
    """{name: median ms} of calls that take turns."""
    every = list(calls.values())
    for call in every * 2:
        call()
    timer = HostClock()
    if options.device == "cuda":
        torch.cuda.synchronize()
        time.sleep(REST_SECONDS)
        timer = LaunchTimer(torch.cuda, empty)
    slowest = max(times[0] for times in timer.milliseconds(every, 1))
    measured = timer.milliseconds(every, max(5, min(100, int(options.milliseconds / max(slowest, 1e-3)))))
    return {name: statistics.median(times) for name, times in zip(calls, measured)}


def timed(every, case, sizes, options, empty, errors):
    """({side: forward ms}, {side: backward ms}); what cannot be run goes to `errors`."""
    qkv, d_out = inputs(case, sizes, torch.bfloat16)
    constants = [x.detach() for x in qkv]
    forward, backward = {}, {}
    for side in every:
        try:
            call = side.bind(case, sizes)
            with torch.no_grad():
                call(*constants)
            forward[side.name] = lambda call=call: call(*constants)
            out = call(*qkv)
            d_inputs = lambda out=out: torch.autograd.grad(out, [*qkv, *case.parameters], d_out, retain_graph=True)
            d_inputs()
            backward[side.name] = d_inputs
        except Exception as error:  # what a side cannot run is a result
            errors.setdefault(side.name, message(error))
    with torch.no_grad():
        forward_ms = medians(forward, options, empty) if forward else {}
    return forward_ms, medians(backward, options, empty) if backward else {}


def number(value, digits=3):
    return f"{value:.{digits}f}" if value is not None else "-"


def quotient(times):
    return times["flex"] / times["attune"] if {"flex", "attune"} <= times.keys() else None


def run_case(name, label, factory, gym, options, every, empty):
    """One row as a dictionary."""
    B, H, S, D = options.shape

    def make(length):
        torch.manual_seed(7)
        return factory(gym, gym(name), Sizes(B, H, length, D, options.device))
    row = {"function": name, "name": label, "errors": {}, "checks": {}, "failures": {}}
    torch.compiler.reset()
    for side in every:
        if side.name not in options.check:
            continue
        try:
            case = make(options.check_length)
            with torch._inductor.config.patch(**case.inductor):
                quotient_of_errors, failure = check(side, case, Sizes(B, H, options.check_length, D, options.device))
            row["checks"][side.name] = quotient_of_errors
            if failure:
                row["failures"][side.name] = failure
        except Exception as error:
            row["errors"][side.name] = message(error)
    row["forward"], row["backward"] = {}, {}
    if options.time:
        try:
            case = make(S)
            row["lengths"] = [case.q_len or S, case.kv_len or S]
            with torch._inductor.config.patch(**case.inductor):
                row["forward"], row["backward"] = timed(every, case, Sizes(B, H, S, D, options.device), options, empty, row["errors"])
        except Exception as error:
            row["errors"]["attention-gym"] = message(error)
    if options.device == "cuda":
        torch.cuda.empty_cache()
    return row


def print_row(row):
    forward, backward = row["forward"], row["backward"]
    lengths = row.get("lengths")
    cells = [row["name"], "x".join(map(str, lengths)) if lengths else "-"]
    for times in (forward, backward):
        cells += [number(times.get("flex")), number(times.get("attune")), number(quotient(times), 2)]
    checks = [f"{'' if len(row['checks']) == 1 else name + ' '}{value:.2f}{' FAILS' if name in row['failures'] else ''}"
              for name, value in row["checks"].items()]
    print("| " + " | ".join([*cells, ", ".join(checks) or "-"]) + " |", flush=True)


def print_summary(rows, options):
    for part in ("forward", "backward"):
        ratios = {row["name"]: quotient(row[part]) for row in rows if quotient(row[part])}
        if ratios:
            least = min(ratios, key=ratios.get)
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            print(f"{part}: geometric mean {mean:.2f} over {len(ratios)}, least {ratios[least]:.2f} ({least})")
    checked = [row for row in rows if "attune" in row["checks"]]
    if options.check:
        passed = sum("attune" not in row["failures"] for row in checked)
        print(f"checks of attune: {passed} of {len(checked)} pass")
    for row in rows:
        for side, text in row["failures"].items():
            print(f"- {row['name']}: {side} is inexact: {text}")
        for side, text in row["errors"].items():
            print(f"- {row['name']}: {side} {'refuses' if text.startswith('Error:') else 'fails'}: {text}")


def print_left_out(makers):
    for name, reason in LEFT_OUT.items():
        print(f"- left out: {name}: {reason}")
    for name in makers:
        if name not in CASES and name not in LEFT_OUT:
            print(f"- left out: {name}: this program's table has no parameters for it")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = arguments.add_argument
    add("--gym", required=True, metavar="PATH", help="source tree of attention-gym")
    add("--shape", default="2,16,8192,128", metavar="B,H,S,D", help="of the times; S a power of two")
    add("--check-length", type=int, default=1024, help="S of the checks; a power of two, 512 at least")
    add("--check", default="attune", metavar="SIDES", help="flex, attune, both by a comma, or nothing")
    add("--no-time", dest="time", action="store_false")
    add("--only", default="", metavar="REGEX", help="cases whose name or function it finds")
    add_shard(arguments, "case")
    add("--milliseconds", type=float, default=300, help="to spend on timing one direction of a case")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu is for trials; FlexAttention has no compiled backward there")
    add("--module", default="attune.torch", help="where attune's flex_attention and create_block_mask come from")
    add("--json", metavar="FILE", help="rows as JSON, too")
    add("--list", action="store_true", help="names alone")
    options = arguments.parse_args()
    options.shape = tuple(map(int, options.shape.split(",")))
    options.check = [name for name in options.check.split(",") if name]
    for length in (options.shape[2], options.check_length):
        if length < 512 or length & (length - 1):
            sys.exit(f"length {length} is not a power of two from 512 on, which the parameters of images and tiles are made for")
    gym, makers = load(options.gym)
    chosen = [(name, label, factory) for name, cases in CASES.items() if name in makers for label, factory in cases
              if re.search(options.only, f"{label} {name}")][options.shard]
    if options.list:
        for name, label, _ in chosen:
            print(f"{label}: {name}")
        print_left_out(makers)
        return
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch can use; --device cpu --shape 1,2,512,64 --check-length 512 tries the program")
    torch._functorch.config.donated_buffer = False      # so that a compiled backward can be called again
    every = sides(options)
    empty = torch.empty(256 << 20, dtype=torch.int8, device="cuda").zero_ if options.device == "cuda" else None
    B, H, S, D = options.shape
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{machine}, PyTorch {torch.__version__}; B {B}, H {H}, S {S}, D {D}, bf16; times in ms, check at S {options.check_length}\n")
    print("| name | q x k | forward flex | attune | ratio | backward flex | attune | ratio | check |\n|---|---|---|---|---|---|---|---|---|")
    rows = []
    for name, label, factory in chosen:
        rows.append(run_case(name, label, factory, gym, options, every, empty))
        print_row(rows[-1])
    print()
    print_summary(rows, options)
    print_left_out(makers)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"machine": machine, "shape": options.shape, "rows": rows}))
    bad = [row for row in rows if "attune" in row["failures"] or ("attune" in row["errors"] and "flex" not in row["errors"])]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
