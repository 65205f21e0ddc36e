#!/usr/bin/env python3
"""Random typed variants on the CPU target against NumPy.

    differential.py ATTUNE                        # --count 100 --seed 1
    differential.py ATTUNE --seed 7 --count 1000
    differential.py ATTUNE --seed 4711 --count 1 --keep out    # one case again: its files, and the command
    differential.py --self-test                   # shows that wrong semantics would be found

A case is a score and a mask over all types and operations (expressions.py), captured tensors of every dtype, run-time scalars,
dropout, block patterns, grouped heads, a q offset, ragged lengths. It goes through `attune run` as JSON. V is a selector, V[k, j] = (k mod
Dv == j), so that O shows the probabilities themselves, and a wrong element cannot hide in a mean.

What NumPy cannot say of a row, since a decision hangs on the last digit of a float, is left out; the run fails where that is more than half.
A case that fails is made smaller before it is printed.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from unittest import mock

try:
    import numpy as np
except ImportError:
    sys.exit(f"{sys.executable} has no NumPy; run scripts/install-dependencies, or configure with -DATTUNE_NUMPY_PYTHON=PYTHON")

import expressions
from expressions import BOOL, F32, I32, I64, Evaluator, Generator, Node, Printer, exactly

# What the softmax may add to an exponent's error, relative to its distance from the row's greatest score.
SOFTMAX_ERROR = 2.0**-22
# Of LSE, relative to 1 + |LSE|: a float32 sum over some hundred keys.
LSE_ERROR = 2.0**-18

# dtype: relative and absolute error of an element of O.
ROUNDING = {"f32": (2.0**-17, 2e-6), "bf16": (2.0**-6.5, 2.0**-14), "f16": (2.0**-9.5, 2.0**-13)}
PHILOX_ROUNDS = 7


# ----------------------------------------------------------------------------------------------------------------------------------
# Cases
# ----------------------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    seed: int
    dtype: str = "f32"
    sizes: dict = None  # B H Hkv Sq Sk D Dv
    scale: float = None
    score: Node = None
    mask: Node = None
    shared: tuple = ()
    tensors: dict = None  # name: (dtype, array); bf16 as float32 that bf16 can hold
    scalars: dict = None  # name: (dtype, value)
    dropout: float = None
    offset: int = 0
    q_offset: int = None
    pattern: tuple = None  # rows, columns, array
    precise: bool = False


def make_case(seed):
    draw = random.Random(seed)
    chance = lambda percent: draw.random() * 100 < percent
    case = Case(seed)
    case.dtype = draw.choice(("f32",) * 6 + ("bf16", "f16"))
    case.precise = case.dtype != "f32" or chance(20)
    length = lambda: draw.choice((1, draw.randint(2, 20), 16 * draw.randint(1, 8), draw.choice((63, 65, 127, 129, 257)), draw.randint(1, 200)))
    heads = draw.choice((1, 2, 3))
    case.sizes = {"B": draw.randint(1, 2), "H": heads * draw.choice((1, 2, 3)), "Hkv": heads, "Sq": length(), "Sk": length(),
                  "D": 8 * draw.randint(1, 4), "Dv": 8 * draw.randint(1, 10)}
    # By powers of two the score is exact, and comparisons of it decided.
    case.scale = draw.choice((None, 0.25, 0.5, -0.125, 1.0, 0.3))
    case.tensors = {f"t{i}": make_tensor(draw, case.sizes) for i in range(draw.randint(0, 3))}
    case.scalars = {f"c{i}": make_scalar(draw) for i in range(draw.randint(0, 2))}
    if chance(20):
        case.dropout = draw.choice((0.1, 0.5, 0.99))
        case.offset = draw.choice((0, 3, 2**40 + 1))
    if chance(25):
        case.q_offset = draw.choice((1, 5, 100, -3, -200, 2**30, -(2**30)))
    generator = Generator(draw, {name: (dtype, array.ndim) for name, (dtype, array) in case.tensors.items()},
                          {name: dtype for name, (dtype, _) in case.scalars.items()})
    if chance(80):
        case.score = generator.scores(draw.randint(2, 6), case.sizes["H"] if chance(60) else 1)
    if chance(70):
        case.mask = generator.mask(draw.randint(0, 6))
    nodes = [node for root in (case.score, case.mask) if root for node in expressions.walk(root)]
    case.shared = tuple(node for node in nodes if chance(10))
    if chance(15):
        rows, columns = draw.choice((16, 32, 64)), draw.choice((16, 32, 128))
        shape = (draw.choice((1, case.sizes["H"])), -(-case.sizes["Sq"] // rows), -(-case.sizes["Sk"] // columns))
        case.pattern = (rows, columns, numbers(draw).integers(0, 2, shape).astype(bool))
    return case


def numbers(draw):
    return np.random.default_rng(draw.randrange(2**32))


def make_tensor(draw, sizes):
    dtype = draw.choice(("f32", "f16", "bf16", "i32", "i64", "bool"))
    shape = tuple(draw.choice((1, 3, sizes["B"], sizes["H"], sizes["Sq"], sizes["Sk"], sizes["Sk"])) for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3))))
    if np.prod(shape) > 100000:
        shape = shape[:1]
    rng = numbers(draw)
    if dtype == "bool":
        return dtype, rng.integers(0, 2, shape).astype(bool)
    if dtype in ("i32", "i64"):
        kind = {"i32": np.int32, "i64": np.int64}[dtype]
        if draw.random() < 0.5:
            return dtype, np.sort(rng.integers(0, 4, shape), axis=-1).astype(kind) if shape else np.asarray(kind(2))
        extremes = np.array([0, 1, -1, np.iinfo(kind).max, np.iinfo(kind).min, 64, 17], kind)
        return dtype, np.asarray(rng.choice(extremes, shape))
    values = np.asarray(rng.integers(-32, 33, shape) / 8, np.float32)
    if draw.random() < 0.25:
        values = np.where(rng.random(shape) < 0.1, rng.choice(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32), shape), values)
    return dtype, np.asarray(values, np.float32)


def make_scalar(draw):
    dtype = draw.choice((F32, I32, I64, BOOL))
    pools = {F32: (0.0, -0.0, 1.5, -30.0, 1e-3), I32: (0, 1, -1, 7, 64, 2**31 - 1, -(2**31)), I64: (0, 3, -1, 2**40, -(2**53)), BOOL: (0, 1)}
    return dtype, draw.choice(pools[dtype])


def inputs(case):
    """q, k (multiples of 1/16, whose products have exact sums in float32) and v."""
    sizes, rng = case.sizes, np.random.default_rng(case.seed)
    draw = lambda heads, length: (rng.integers(-32, 33, (sizes["B"], heads, length, sizes["D"])) / 16).astype(np.float32)
    q, k = draw(sizes["H"], sizes["Sq"]), draw(sizes["Hkv"], sizes["Sk"])
    selector = np.arange(sizes["Sk"])[:, None] % sizes["Dv"] == np.arange(sizes["Dv"])
    v = np.broadcast_to(selector.astype(np.float32), (sizes["B"], sizes["Hkv"], sizes["Sk"], sizes["Dv"]))
    return q, k, np.ascontiguousarray(v)


def used_names(case):
    nodes = [node for root in (case.score, case.mask) if root for node in expressions.walk(root)]
    return {node.payload for node in nodes if node.op in ("name", "load")}


# ----------------------------------------------------------------------------------------------------------------------------------
# attune
# ----------------------------------------------------------------------------------------------------------------------------------


def definition(case):
    draw = random.Random(case.seed)
    used = used_names(case)
    variant = {"name": f"case_{case.seed}"}
    if case.scale is not None:
        variant["scale"] = case.scale
    if case.score:
        variant["score"] = Printer(draw, case.shared).text(case.score)
    if case.mask:
        variant["mask"] = Printer(draw, case.shared).text(case.mask)
    if case.dropout is not None:
        variant["dropout"] = case.dropout
    if case.precise:
        variant["precise"] = True
    if case.q_offset is not None:
        variant["qOffset"] = True
    tensors = {name: {"dtype": dtype, "rank": array.ndim} for name, (dtype, array) in case.tensors.items() if name in used}
    if case.pattern:
        variant["blocks"] = {"tensor": "pattern", "rows": case.pattern[0], "columns": case.pattern[1]}
        tensors["pattern"] = {"dtype": "bool", "rank": 3}
    if tensors:
        variant["tensors"] = tensors
    scalars = {name: {"dtype": dtype} for name, (dtype, _) in case.scalars.items() if name in used}
    if scalars:
        variant["scalars"] = scalars
    return variant


def save(path, array, dtype):
    if dtype == "bf16":
        bits = np.array(array, np.float32).view(np.uint32) >> 16
        array = np.frombuffer(bits.astype(np.uint16).tobytes(), "V2").reshape(array.shape)
    elif dtype == "f16":
        array = array.astype(np.float16)
    np.save(path, array)


def command(attune, case, folder):
    """Writes the case's files into `folder`; the command that runs it."""
    q, k, v = inputs(case)
    arguments = [attune, "run", f"{folder}/variant.json", "--target", "cpu", "--dtype", case.dtype, "--no-cache", "--no-check", "--repeats", "1",
                 "--seed", str(case.seed), "--offset", str(case.offset), "--dump", f"{folder}/out"]
    with open(f"{folder}/variant.json", "w") as out:
        json.dump(definition(case), out, indent=1)
    for name, array in (("q", q), ("k", k), ("v", v)):
        np.save(f"{folder}/{name}.npy", array)
        arguments += [f"--{name}", f"{folder}/{name}.npy"]
    used = used_names(case)
    tensors = {name: value for name, value in case.tensors.items() if name in used}
    if case.pattern:
        tensors["pattern"] = ("bool", case.pattern[2])
    for name, (dtype, array) in tensors.items():
        save(f"{folder}/{name}.npy", array, dtype)
        arguments += ["--tensor", f"{name}={dtype}:{folder}/{name}.npy"]
    for name, (_, value) in case.scalars.items():
        if name in used:
            arguments += ["--scalar", f"{name}={value!r}"]
    if case.q_offset is not None:
        arguments += ["--q-offset", str(case.q_offset)]
    return arguments


# ----------------------------------------------------------------------------------------------------------------------------------
# NumPy
# ----------------------------------------------------------------------------------------------------------------------------------


def scores(case):
    """s, exact where the scale is a power of two."""
    q, k, _ = inputs(case)
    k = np.repeat(k, case.sizes["H"] // case.sizes["Hkv"], axis=1)
    dot = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k.astype(np.float64))
    scale = float(np.float32(case.scale if case.scale is not None else 1 / np.sqrt(case.sizes["D"])))
    wide = dot * scale
    value = wide.astype(np.float32)
    slack = np.zeros_like(wide) if np.frexp(scale)[0] in (0.5, -0.5) else np.abs(wide) * 2.0**-21
    return expressions.around(value, wide - slack, wide + slack, slack == 0, np.asarray(False))


def leaves(case):
    sizes = case.sizes
    axis = lambda count, position: np.arange(count, dtype=np.int32).reshape([-1 if i == position else 1 for i in range(4)])
    names = {name: exactly(I32, axis(sizes[extent], i)) for i, (name, extent) in enumerate((("b", "B"), ("h", "H"), ("q", "Sq"), ("k", "Sk")))}
    names["q"] = exactly(I32, names["q"].value + np.int32(case.q_offset or 0))
    names |= {extent: exactly(I32, np.int32(sizes[extent])) for extent in ("B", "H", "Sq", "Sk")}
    names |= {name: exactly(dtype, np.asarray(value)) for name, (dtype, value) in case.scalars.items()}
    names["s"] = scores(case)
    return names


def visible(case, evaluate):
    """(visible, unknown), both [B, H, Sq, Sk]."""
    sizes = case.sizes
    shape = tuple(sizes[name] for name in ("B", "H", "Sq", "Sk"))
    seen, unknown = np.ones(shape, bool), np.zeros(shape, bool)
    if case.mask:
        mask = evaluate(case.mask)
        seen, unknown = seen & mask.value, unknown | mask.unknown
    if case.pattern:
        rows, columns, blocks = case.pattern
        elements = blocks.repeat(rows, axis=1)[:, :sizes["Sq"]].repeat(columns, axis=2)[:, :, :sizes["Sk"]]
        seen, unknown = seen & elements, unknown & elements
    return seen, unknown


def keep(case):
    """The factor of each probability: 0, or what makes up for those dropped. Philox 4x32-7 as in the paper (Salmon et al. 2011)."""
    sizes = case.sizes
    threshold = min(65535, int(np.floor(65536 * float(np.float32(case.dropout)) + 0.5)))
    b, h, q, k = np.ogrid[:sizes["B"], :sizes["H"], :sizes["Sq"], :sizes["Sk"]]
    low = np.uint64(0xFFFFFFFF)
    counter = [(q >> 4) * 8 + (q & 7), (k >> 4) * 4 + ((k & 7) >> 1), b * sizes["H"] + h, np.asarray(case.offset & 0xFFFFFFFF)]
    counter = [part.astype(np.uint64) for part in np.broadcast_arrays(*counter)]
    keys = [case.seed & 0xFFFFFFFF, (case.seed >> 32) ^ (case.offset >> 32)]
    for _ in range(PHILOX_ROUNDS):
        first, second = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [(second >> np.uint64(32)) ^ counter[1] ^ np.uint64(keys[0]), second & low,
                   (first >> np.uint64(32)) ^ counter[3] ^ np.uint64(keys[1]), first & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    word = np.choose((2 * (k & 1) + ((k >> 3) & 1)) + 0 * q, counter)
    drawn = (word >> (16 * ((q >> 3) & 1)).astype(np.uint64)) & np.uint64(0xFFFF)
    return (drawn >= threshold) * (65536 / (65536 - threshold))


@dataclasses.dataclass
class Expected:
    """Bounds on LSE [B, H, Sq] and O [B, H, Sq, Dv]; NaN bounds mean NaN. Only rows that are `known` count."""

    known: np.ndarray
    lse: tuple
    o: tuple


def attention(case):
    evaluate = Evaluator(leaves(case), case.tensors)
    seen, unknown = visible(case, evaluate)
    score = expressions.cast(evaluate(case.score), F32) if case.score else evaluate.names["s"]
    shape = seen.shape
    value, low, high, open_score = (np.broadcast_to(part, shape) for part in (score.value, score.low, score.high, score.unknown))
    with np.errstate(all="ignore"):
        candidates = seen | unknown
        nan = (seen & (np.isnan(value) | (value == np.inf))).any(-1)
        known = ~((candidates & open_score) | unknown).any(-1)
        hidden = ~seen | (value == -np.inf)
        greatest = np.where(hidden, -np.inf, value.astype(np.float64)).max(-1, keepdims=True)
        slack = np.where(hidden, 0, greatest - value) * SOFTMAX_ERROR + 2e-6
        # From the greatest: a float64 of the magnitude of a large score has no digits for the sum of exponentials.
        base = np.where(np.isfinite(greatest), greatest, 0)
        low, high = np.where(hidden, -np.inf, low - base - slack), np.where(hidden, -np.inf, high - base + slack)
        sum_low, sum_high = log_sum(low), log_sum(high)
        p_low = np.where(hidden, 0, np.exp(low - sum_high[..., None]))
        p_high = np.where(hidden, 0, np.exp(np.minimum(high - sum_low[..., None], 0)))
        lse_low, lse_high = base[..., 0] + sum_low, base[..., 0] + sum_high
        factor = keep(case) if case.dropout is not None else 1
        o_low, o_high = select_columns(case, p_low * factor), select_columns(case, p_high * factor)
        relative, absolute = ROUNDING[case.dtype]
        o_low, o_high = o_low * (1 - relative) - absolute, o_high * (1 + relative) + absolute
        nan_o = nan[..., None]
        o = np.where(nan_o, np.nan, o_low), np.where(nan_o, np.nan, o_high)
        rounded = LSE_ERROR * (1 + np.abs(np.where(np.isfinite(lse_low), lse_low, 0)))
        lse = np.where(nan, np.nan, lse_low - rounded), np.where(nan, np.nan, lse_high + rounded)
    return Expected(known, lse, o)


def log_sum(x):
    most = x.max(-1)
    base = np.where(np.isfinite(most), most, 0)
    return base + np.log(np.exp(x - base[..., None]).sum(-1))


def select_columns(case, p):
    columns = case.sizes["Dv"]
    padded = np.pad(p, [(0, 0)] * 3 + [(0, -p.shape[-1] % columns)])
    return padded.reshape(*p.shape[:-1], -1, columns).sum(-2)


def within(actual, bounds):
    low, high = bounds
    return np.where(np.isnan(low), np.isnan(actual), (actual >= low) & (actual <= high) | (actual == low))


# ----------------------------------------------------------------------------------------------------------------------------------
# Comparing
# ----------------------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Verdict:
    fault: str = None  # None: nothing found
    rows: int = 0
    known: int = 0


def run(attune, case, folder):
    """Compiles, runs and compares one case."""
    arguments = command(attune, case, folder)
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return Verdict("no answer in 120 s")
    if done.returncode:
        return Verdict(f"exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    expected = attention(case)
    o, lse = np.load(f"{folder}/out/o.npy").astype(np.float64), np.load(f"{folder}/out/lse.npy").astype(np.float64)
    verdict = Verdict(rows=expected.known.size, known=int(expected.known.sum()))
    with np.errstate(all="ignore"):
        for name, actual, bounds, known in (("LSE", lse, expected.lse, expected.known), ("O", o, expected.o, expected.known[..., None])):
            wrong = ~within(actual, bounds) & known
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                verdict.fault = (f"{name}{list(at)} is {actual[at]!r}, but must be from {bounds[0][at]!r} to {bounds[1][at]!r} "
                                 f"({int(wrong.sum())} of {int(np.broadcast_to(known, wrong.shape).sum())} elements are wrong)")
                break
    return verdict


def fails(attune, case):
    with tempfile.TemporaryDirectory(prefix="attune-differential-") as folder:
        return run(attune, case, folder).fault


def smaller(case):
    """Cases with less in them, the greatest steps first."""
    for field in ("mask", "score", "dropout", "pattern", "q_offset", "scale"):
        if getattr(case, field) is not None:
            yield dataclasses.replace(case, **{field: None})
    for extents in ({"B": 1}, {"H": 1, "Hkv": 1}, {"D": 8}, {"Dv": 8}, {"Sq": 1}, {"Sk": 1},
                    {"Sq": case.sizes["Sq"] // 2 or 1}, {"Sk": case.sizes["Sk"] // 2 or 1}):
        if case.pattern is None and any(case.sizes[name] != extent for name, extent in extents.items()):
            yield dataclasses.replace(case, sizes=case.sizes | extents)
    for field in ("score", "mask"):
        root = getattr(case, field)
        for node in reversed(list(expressions.walk(root)) if root else []):
            for operand in node.operands:
                if operand.type == node.type:
                    yield dataclasses.replace(case, **{field: replaced(root, node, operand)})
            simplest = Node("literal", node.type, payload={BOOL: True, F32: 1.0}.get(node.type, 1))
            if node.operands:
                yield dataclasses.replace(case, **{field: replaced(root, node, simplest)})


def replaced(root, old, new, made=None):
    made = {} if made is None else made
    if root is old:
        return new
    if id(root) not in made:
        operands = tuple(replaced(operand, old, new, made) for operand in root.operands)
        made[id(root)] = root if all(a is b for a, b in zip(operands, root.operands)) else dataclasses.replace(root, operands=operands)
    return made[id(root)]


def reduced(attune, case, seconds):
    """The smallest case found that still fails."""
    end = time.monotonic() + seconds
    case = dataclasses.replace(case, shared=())
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in smaller(case):
            if time.monotonic() > end:
                break
            if fails(attune, candidate):
                case, progress = candidate, True
                break
    return case


def report(options, case, fault):
    print(f"seed {case.seed}: {fault}")
    if fails(options.attune, dataclasses.replace(case, shared=())):
        case = reduced(options.attune, case, options.reduce)
    folder = options.keep or tempfile.mkdtemp(prefix=f"attune-differential-{case.seed}-")
    os.makedirs(folder, exist_ok=True)
    arguments = command(options.attune, case, folder)
    fault = run(options.attune, case, folder).fault
    print(f"  reduced: {json.dumps(definition(case))}\n  {case.dtype} {case.sizes}: {fault}\n  {shlex.join(arguments)}", flush=True)


# Semantics that are nearly right: what the operations of other languages and devices give.
WRONG = {
    "division rounds down": ("INTEGER_BINARY", "/", lambda a, b: np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(a.dtype)),
    "a remainder by zero is the dividend": ("INTEGER_BINARY", "%", lambda a, b: np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype)),
    "shift counts beyond the width give 0": ("INTEGER_BINARY", "<<", lambda a, b: np.where((b < 0) | (b >= 8 * a.dtype.itemsize), 0, a << (b & 31)).astype(a.dtype)),
    ">> is logical": ("INTEGER_BINARY", ">>", lambda a, b: (a.view(f"u{a.dtype.itemsize}") >> (b & 31).astype(f"u{a.dtype.itemsize}")).view(a.dtype)),
    "integers saturate": ("INTEGER_BINARY", "+", lambda a, b: np.clip(a.astype(float) + b, -2.0**31, 2.0**31 - 1).astype(a.dtype)),
    "the greater of integers is the one without sign": ("INTEGER_BINARY", "max", lambda a, b: np.where(np.abs(a) > np.abs(b), a, b)),
    "min of NaN and a number is NaN": ("FLOAT_BINARY", "min", expressions.extreme(np.minimum)),
    "max of NaN and a number is NaN": ("FLOAT_BINARY", "max", expressions.extreme(np.maximum)),
    "NaN equals NaN": ("COMPARISONS", "!=", lambda a, b: (a != b) & ~((a != a) & (b != b))),
    "casts of floats to integers wrap": (None, "truncated", lambda x, type: np.where(np.abs(x) < 2.0**62, x, -(2.0**63)).astype(np.int64).astype(expressions.INTEGERS[type])),
    "an index beyond the end wraps": (None, "clamped", lambda index, extent: index % extent),
    "q >= k is q > k": ("COMPARISONS", ">=", np.greater),
    "dropout takes ten rounds": (None, "PHILOX_ROUNDS", 10),
}


def self_test(most=1000):
    """For each wrong semantics, the first seed whose expectations differ beyond all tolerances."""
    exact = {}
    missed = []
    for wrong, (table, name, value) in WRONG.items():
        module = sys.modules[__name__] if name == "PHILOX_ROUNDS" else expressions
        patch = mock.patch.dict(getattr(module, table), {name: value}) if table else mock.patch.object(module, name, value)
        for seed in range(1, most + 1):
            case = make_case(seed)
            if seed not in exact:
                exact[seed] = attention(case)
            with patch:
                other = attention(case)
            if differ(exact[seed], other):
                print(f"{wrong}: found by seed {seed}")
                break
        else:
            missed.append(wrong)
    if missed:
        sys.exit(f"not found within {most} seeds: {', '.join(missed)}")


def differ(a, b):
    """Whether a result that satisfies `b` would be a fault by `a`, in a row that both know."""
    known = a.known & b.known
    for first, second, rows in ((a.lse, b.lse, known), (a.o, b.o, known[..., None])):
        with np.errstate(all="ignore"):
            apart = (first[0] > second[1]) | (second[0] > first[1]) | (np.isnan(first[0]) != np.isnan(second[0]))
        if (apart & rows).any():
            return True
    return False


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attune")
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--faults", type=int, default=3, help="end after so many")
    parser.add_argument("--reduce", type=float, default=60, help="seconds for making a case smaller")
    parser.add_argument("--keep", help="folder for the files of the last fault")
    options = parser.parse_args()

    def one(seed):
        case = make_case(seed)
        with tempfile.TemporaryDirectory(prefix="attune-differential-") as folder:
            return case, run(options.attune, case, folder)

    rows = known = done = faults = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        pending = [pool.submit(one, seed) for seed in range(options.seed, options.seed + options.count)]
        for future in pending:
            case, verdict = future.result()
            done, rows, known = done + 1, rows + verdict.rows, known + verdict.known
            if verdict.fault:
                faults += 1
                report(options, case, verdict.fault)
                if faults >= options.faults:
                    for each in pending:
                        each.cancel()
                    break
    share = known / rows if rows else 0
    print(f"{done} variants, seeds {options.seed} to {options.seed + done - 1}: {faults} faults; {known} of {rows} rows compared ({share:.0%})")
    if not faults and share < 0.5:
        sys.exit("less than half of the rows could be compared; the generator makes too many undetermined floats")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
