"""What attune.torch keeps of score_mod and mask_mod: their numbers as run-time scalars, none of their tensors, and nothing that is stale."""
import contextvars
import dataclasses
import functools
import gc
import importlib.util
import math
import sys
import types
import unittest
import weakref

if importlib.util.find_spec("torch") is None:
    print("PyTorch is missing: pip install torch to run what concerns it")
    sys.exit(77)

import numpy
import torch
from torch.nn.attention import flex_attention as flex
from torch.utils.flop_counter import FlopCounterMode

import attune
import attune.torch as at
from attune.torch import ops, programs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
B, H, SQ, SK, D = 1, 2, 9, 17, 16
WINDOW = 4  # globals that functions read
CONTEXT = contextvars.ContextVar("CONTEXT", default=2.0)


def inputs(sq=SQ, sk=SK, grad=False):
    return [torch.randn(B, H, n, D, device=DEVICE).requires_grad_(grad) for n in (sq, sk, sk)]


def dense(q, k, v, score_mod=None, mask_mod=None, scale=None):
    """The formula in float64. The functions get index tensors that broadcast to [B, H, Sq, Sk]."""
    s = q.double() @ k.double().transpose(-1, -2) * (1 / math.sqrt(D) if scale is None else scale)
    at_ = [torch.arange(n, device=q.device, dtype=torch.int64).view([-1 if i == j else 1 for j in range(4)]) for i, n in enumerate(s.shape)]
    s = s if score_mod is None else score_mod(s, *at_)
    seen = torch.ones_like(s, dtype=torch.bool) if mask_mod is None else mask_mod(*at_).expand(s.shape)
    return torch.where(seen.any(-1, keepdim=True), s.masked_fill(~seen, -math.inf).softmax(-1), 0) @ v.double()


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.tensors = inputs()

    def near(self, actual, expected, tolerance=3e-5):
        self.assertEqual(actual.shape, expected.shape)
        self.assertTrue(torch.isfinite(actual).all())
        self.assertLessEqual((actual.double() - expected).abs().max().item(), tolerance * max(1, expected.abs().max().item()))

    def check(self, score_mod=None, mask_mod=None, reference=None, **options):
        """Against float64; `reference` is a score_mod for that where score_mod takes scalars alone."""
        mask = None if mask_mod is None else at.create_block_mask(mask_mod, None, None, SQ, SK, device=DEVICE)
        output = at.flex_attention(*self.tensors, score_mod, mask, **options)
        self.near(output, dense(*self.tensors, reference or score_mod, mask_mod, options.get("scale")))

    def compilations(self, run):
        """How many kernels are compiled while `run` runs."""
        made, compiled = [], ops.compiled
        def counted(*args, **kwargs):
            made.append(args)
            return compiled(*args, **kwargs)
        ops.compiled = counted
        try:
            run()
        finally:
            ops.compiled = compiled
        return len(made)


class Numbers(Case):
    def changing(self, values, at_most, score_mod=None, mask_mod=None, change=None, **more):
        """The functions with each of the values, which `change` sets: right, by so many kernels."""
        def run():
            for value in values:
                change(value)
                self.check(score_mod, mask_mod, **more)
        self.assertLessEqual(self.compilations(run), at_most)

    def test_a_thousand_steps_compile_once(self):
        global WINDOW
        offset, temperature = 0, 1.0
        def score(s, b, h, q, k):
            return s / temperature
        def causal(b, h, q, k):
            return q + offset >= k
        def window(b, h, q, k):
            return (q - k < WINDOW) & (k - q < WINDOW // 2)
        def run():
            nonlocal offset, temperature
            global WINDOW
            for step in range(1000):
                offset, WINDOW, temperature = step % 40, 1 + step % 23, 0.5 + step / 100
                mask_mod = causal if step % 2 else window
                self.check(score, mask_mod)
        self.assertEqual(self.compilations(run), 2)  # one for each mask

    def test_scales_compile_twice(self):
        def run():
            for step in range(1000):
                self.check(scale=0.1 + step / 1000)
        self.assertEqual(self.compilations(run), 2)  # the first is a constant, as a kernel is quicker with one
        slopes = torch.rand(H, device=DEVICE)
        def score(s, b, h, q, k):
            return s + slopes[h] * (k - q)
        def run():
            for scale in (0.5, 0.25, 0.125, torch.tensor(0.75), 1, 1 / math.sqrt(D), None):
                self.check(score, scale=scale)
        self.assertEqual(self.compilations(run), 3)

    def test_gradients_of_scores_with_numbers(self):
        tensors, cap, slopes = inputs(grad=True), 1.0, torch.rand(H, device=DEVICE, requires_grad=True)
        def score(s, b, h, q, k):
            return cap * torch.tanh(s / cap) + slopes[h] * (k - q) * cap
        def run():
            nonlocal cap
            for cap in (1.0, 2.5, 0.75):
                for scale in (0.5, 0.25):
                    outputs = at.flex_attention(*tensors, score, scale=scale), dense(*tensors, score, scale=scale)
                    for a, b in zip(*[torch.autograd.grad(x.square().sum(), (*tensors, slopes)) for x in outputs]):
                        self.near(a, b, 1e-4)
        self.assertEqual(self.compilations(run), 2)

    def test_what_needs_the_value_is_compiled_for_it(self):
        n, table = 1, [0.5, 1.0, 2.0]
        def looped(s, b, h, q, k):
            for _ in range(n):
                s = s * 2
            return s
        def branched(s, b, h, q, k):
            return s * 2 if n > 1 else s
        def listed(s, b, h, q, k):
            return s * table[n]
        def powered(s, b, h, q, k):
            return s + (s * 0.1)**n
        def cubed(s, b, h, q, k):
            return s * math.sqrt(n) + f"{n}".count("1")
        def typed(s, b, h, q, k):
            return s * n if type(n) is int else s
        for score in (looped, branched, listed, powered, cubed, typed):
            for n in (1, 2, 1, 0):
                self.check(score)

    def test_integers_of_any_size_and_sign(self):
        offset = 0
        def causal(b, h, q, k):
            return q + offset >= k
        def change(value):
            nonlocal offset
            offset = value
        self.changing((0, 3, 2**28, 1), 1, None, causal, change)
        self.changing((-3, -1, -7, -2**28), 1, None, causal, change)
        self.changing((2**28 + 1, 2**31 - 1, 2**30, 2**31 - 17), 1, lambda s, b, h, q, k: s + (q + k) * (offset * 1e-9), None, change)
        self.changing((2**31, 2**40, -2**40), 1, lambda s, b, h, q, k: s + (q + offset) * 1e-12, None, change)
        offset = 2**31 - 1
        self.check(None, causal)
        offset = 2**63
        with self.assertRaisesRegex(attune.Error, "constant 9223372036854775808 does not fit in i64"):
            at.flex_attention(*self.tensors, lambda s, b, h, q, k: s + k * offset)

    def test_floats_of_any_size(self):
        factor = 0.5
        def score(s, b, h, q, k):
            return s * factor
        for factor in (0.5, -0.25, 0.0, -0.0, 1e-30, 3):
            self.check(score)
        def hidden(s, b, h, q, k):
            return torch.where(q >= k, s, factor)
        for factor in (-math.inf, -1e30, -3.4e38):
            self.check(hidden)
        for factor in (math.nan, math.nan):
            self.assertTrue(at.flex_attention(*self.tensors, score).isnan().all())

    def test_python_computes_with_its_own_precision_and_range(self):
        n, x = 5, 0.1
        def score(s, b, h, q, k):
            return s * (x * 3) + (n * 2**40 // 2**40) * (k - q) * 0.01 + (n % 3) + abs(-n) * x
        def run():
            nonlocal n, x
            for n, x in ((5, 0.1), (7, 0.2), (100, 0.3), (4, 1e-3)):
                self.check(score)
        self.assertEqual(self.compilations(run), 1)
        def powers(s, b, h, q, k):
            return s + 2**n * (k - q)
        for n in (1, 2, -1, -2, 3):  # an int or a float
            self.check(powers)
        def inverse(s, b, h, q, k):
            return s * (1 / n)
        for n in (1, 4, 2):
            self.check(inverse)
        n = 0
        self.assertRaises(ZeroDivisionError, at.flex_attention, *self.tensors, inverse)
        n = 8
        self.check(inverse)
        def large(s, b, h, q, k):
            return s + 10**n * 1e-30
        for n in (1, 2, 20, 3, 25):
            self.check(large)

    def test_wherever_numbers_are(self):
        @dataclasses.dataclass(frozen=True)
        class Config:
            window: int

        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.window, self.config = 3, Config(3)

            def inside(self, q, k):
                return q - k < self.window

            def mask(self, b, h, q, k):
                return (q >= k) & self.inside(q, k) & (q - k < self.config.window)

            def forward(self, s, b, h, q, k):
                return s * self.window
        layer, config, listed, named, spaced = Layer(), Config(3), [3, 0], {"window": 3, "rest": [1]}, types.SimpleNamespace(inner=types.SimpleNamespace(window=3))
        window = 3
        def nested(b, h, q, k):
            def inner():
                return q - k < window
            return (q >= k) & inner()
        def by_default(b, h, q, k, n=3):
            return q - k < n
        def by_keyword(b, h, q, k, *, n=3):
            return q - k < n
        def of_window(b, h, q, k, n):
            return q - k < n
        def recursive(b, h, q, k, depth=2):
            return q - k < window if depth is None else recursive(b, h, q, k, None)
        def set_window(n):
            nonlocal window
            window = n
        def set_layer(n):
            layer.window, layer.config = n, Config(n)
        partial = [functools.partial(of_window, n=3)]
        cases = [
            (lambda b, h, q, k: q - k < listed[0], lambda n: listed.__setitem__(0, n)),
            (lambda b, h, q, k: q - k < named["window"], lambda n: named.update(window=n)),
            (lambda b, h, q, k: q - k < spaced.inner.window, lambda n: setattr(spaced.inner, "window", n)),
            (lambda b, h, q, k: q - k < config.window, lambda n: object.__setattr__(config, "window", n)),
            (lambda b, h, q, k: partial[0](b, h, q, k), lambda n: partial.__setitem__(0, functools.partial(of_window, n=n))),
            (by_default, lambda n: setattr(by_default, "__defaults__", (n,))),
            (by_keyword, lambda n: by_keyword.__kwdefaults__.update(n=n)),
            (nested, set_window),
            (recursive, set_window),
            (lambda b, h, q, k: nested(b, h, q, k), set_window),
            (lambda b, h, q, k: q - k < window, lambda n: set_window(numpy.int64(n))),
            (layer.mask, set_layer),
            (at.and_masks(nested, layer.mask), lambda n: (set_window(n), set_layer(n + 1))),
        ]
        for index, (mask, change) in enumerate(cases):
            with self.subTest(index):
                self.changing((3, 5, 1, 2, 4), 1, None, mask, change)
        self.changing((3, 5, 2), 1, layer, None, set_layer)

    def test_of_what_divides_integers_the_first_values_are_constants(self):
        size = 1
        def same(b, h, q, k):
            return (q // size == k // size) | ((q + k) % size == 1)
        def change(value):
            nonlocal size
            size = value
        most = programs._Constants.most
        self.changing((*range(1, most + 1), 3, 1), most, None, same, change)
        self.changing((11, 12, 13, 2, 14, 15), 1, None, same, change)

    def test_uses_of_tensors_and_numbers(self):
        step, table, factor = 1, torch.rand(12, device=DEVICE), 2.0
        def element(s, b, h, q, k):
            return s + table[step] + table[k % 4 + step]
        def change(value):
            nonlocal step
            step = value
        self.changing((1, 3, 5), 1, element, None, change)
        self.changing((-1, -3, -5), 1, lambda s, b, h, q, k: s + table[step], None, change)
        def whole(s, b, h, q, k):
            return s + (table * factor)[h]
        def set_factor(value):
            nonlocal factor
            factor = value
        self.changing((1.0, 2.0, 3.0), 1, whole, None, set_factor)
        def bounded(s, b, h, q, k):
            return torch.clamp(s, -factor, 1) + s.clamp(max=factor) + torch.where(q > k, factor, s) + torch.add(s, factor, alpha=2) + torch.maximum(s, s * factor)
        self.changing((1.0, 2.0, 0.5), 3, bounded, None, set_factor)  # alpha is a constant

    def test_numbers_in_graphs(self):
        global WINDOW
        def mask(b, h, q, k):
            return (q >= k) & (q - k < WINDOW)
        q, k, v = self.tensors
        block_mask = at.create_block_mask(mask, None, None, SQ, SK, device=DEVICE)
        torch._dynamo.reset()
        compiled = torch.compile(lambda q, k, v: at.flex_attention(q, k, v, block_mask=block_mask), backend="eager", fullgraph=True)
        def run():
            global WINDOW
            for WINDOW in (3, 5, 2, 7):
                self.near(compiled(q, k, v), dense(q, k, v, None, mask))
        self.assertEqual(self.compilations(run), 1)  # Dynamo records anew, and the kernel is the same


class Kept(Case):
    def test_dropped_tensors_and_functions_are_freed(self):
        def run():
            table, values, layer = torch.rand(H, SK, device=DEVICE), [torch.rand(SK, device=DEVICE)], torch.nn.Linear(2, 2).to(DEVICE)
            def score(s, b, h, q, k):
                return s + table[h, k] + values[0][k] + layer.bias[0]
            def mask(b, h, q, k):
                return table[h, k] >= 0
            mask_of = at.create_block_mask(mask, None, None, SQ, SK, device=DEVICE)
            for _ in range(3):
                at.flex_attention(*self.tensors, score, mask_of)
                at.flex_attention(*self.tensors, layer_score(layer))
            return [weakref.ref(x) for x in (table, values[0], layer, score, mask)]
        def layer_score(layer):
            return lambda s, b, h, q, k: s * layer.weight[0, 0]
        alive = run()
        gc.collect()
        self.assertEqual([x() for x in alive], [None] * len(alive))

    def test_classes_and_code_are_freed(self):
        def run(number):
            scope = {}
            exec(f"def score(s, b, h, q, k):\n    return s * factor.by + {number}", scope)
            class Factor:
                def __init__(self):
                    self.by = 2.0
            scope["factor"] = Factor()
            for _ in range(2):
                at.flex_attention(*self.tensors, scope["score"])
            return [weakref.ref(Factor), weakref.ref(scope["score"])]
        alive = run(1) + run(2)
        gc.collect()
        self.assertEqual([x() for x in alive], [None] * len(alive))

    def test_caches_are_bounded(self):
        most, ops._MOST_KEPT = ops._MOST_KEPT, 4
        tables = programs._functions, programs._constants, ops.variants, ops._kernels
        sizes = [max(4, len(table)) for table in tables]
        try:
            for number in range(12):
                scope = {}
                exec(f"def mask(b, h, q, k):\n    return q - k < {number}", scope)
                self.check(None, scope["mask"])
            for table, size in zip(tables, sizes):
                self.assertLessEqual(len(table), size)
        finally:
            ops._MOST_KEPT = most


def scaled(s):
    return s * 2


class Stale(Case):
    def differs(self, run, change):
        """That what `change` changes is noticed: the output, and that it stays."""
        before = [run() for _ in range(3)]
        change()
        after = [run() for _ in range(3)]
        for x in before[1:]:
            self.assertTrue(torch.equal(x, before[0]))
        for x in after[1:]:
            self.assertTrue(torch.equal(x, after[0]))
        self.assertFalse(torch.equal(before[0], after[0]))

    def test_context_variables(self):
        def score(s, b, h, q, k):
            return s * CONTEXT.get()
        get = CONTEXT.get
        for score_mod in (score, lambda s, b, h, q, k: s * get()):
            for value in (2.0, 3.0, 0.5):
                token = CONTEXT.set(value)
                self.check(score_mod)
                self.check(score_mod)
                CONTEXT.reset(token)

    def test_hooks_of_modules(self):
        class Double(torch.nn.Module):
            def forward(self, s, b=None, h=None, q=None, k=None):
                return s * 2
        module = Double()
        for score_mod in (module, lambda s, b, h, q, k: module(s)):
            handles = []
            self.differs(lambda: at.flex_attention(*self.tensors, score_mod), lambda: handles.append(module.register_forward_hook(lambda m, args, s: s * 3)))
            handles[0].remove()
            self.differs(lambda: at.flex_attention(*self.tensors, score_mod), lambda: handles.append(module.register_forward_pre_hook(lambda m, args: (args[0] * 3, *args[1:]))))
            handles[1].remove()
            self.differs(lambda: at.flex_attention(*self.tensors, score_mod),
                         lambda: handles.append(torch.nn.modules.module.register_module_forward_hook(lambda m, args, s: s * 3)))
            handles[2].remove()

    def test_attributes_of_modules(self):
        inner = torch.nn.Sequential(torch.nn.LeakyReLU(0.5), torch.nn.Hardtanh(-1, 1))
        def score(s, b, h, q, k):
            return inner(s)
        self.differs(lambda: at.flex_attention(*self.tensors, score), lambda: setattr(inner[1], "max_val", 0.25))
        self.differs(lambda: at.flex_attention(*self.tensors, score), lambda: setattr(inner[0], "negative_slope", 0.125))
        self.differs(lambda: at.flex_attention(*self.tensors, score), lambda: inner.append(torch.nn.Tanh()))
        module = types.ModuleType("settings")
        module.factor, module.helper = 2.0, scaled
        def of_module(s, b, h, q, k):
            return module.helper(s) * module.factor
        self.differs(lambda: at.flex_attention(*self.tensors, of_module), lambda: setattr(module, "factor", 3.0))
        self.differs(lambda: at.flex_attention(*self.tensors, of_module), lambda: setattr(module, "helper", lambda s: s))

    def test_functions_in_the_place_of_others(self):
        global scaled
        class Factor:
            def __mul__(self, other):
                return other * 2
        factor = Factor()
        def score(s, b, h, q, k):
            return scaled(s)
        def exponential(s, b, h, q, k):
            return torch.nn.functional.softplus(s) + math.sqrt(4)
        before, softplus, root = scaled, torch.nn.functional.softplus, math.sqrt
        try:
            self.differs(lambda: at.flex_attention(*self.tensors, score), lambda: globals().update(scaled=lambda s: s * 5))
            self.differs(lambda: at.flex_attention(*self.tensors, exponential), lambda: setattr(torch.nn.functional, "softplus", lambda s: s * 7))
            self.differs(lambda: at.flex_attention(*self.tensors, lambda s, b, h, q, k: s * math.sqrt(4)), lambda: setattr(math, "sqrt", lambda x: 3.0))
        finally:
            scaled, torch.nn.functional.softplus, math.sqrt = before, softplus, root
        self.differs(lambda: at.flex_attention(*self.tensors, lambda s, b, h, q, k: factor * s), lambda: setattr(Factor, "__mul__", lambda self, other: other * 3))

    def test_defaults_of_pytorch(self):
        def score(s, b, h, q, k):
            return s + torch.tensor(0.1).double() * (torch.tensor(0.1).dtype == torch.float64)
        try:
            self.differs(lambda: at.flex_attention(*self.tensors, lambda s, b, h, q, k: s * (2 if torch.get_default_dtype() == torch.float32 else 3)),
                         lambda: torch.set_default_dtype(torch.float64))
        finally:
            torch.set_default_dtype(torch.float32)
        seen = []
        def of_device(s, b, h, q, k):
            seen.append(torch.empty(()).device.type)
            return s * (2 if seen[-1] == "cpu" else 3)
        try:
            self.differs(lambda: at.flex_attention(*self.tensors, of_device), lambda: torch.set_default_device("meta"))
        finally:
            torch.set_default_device(None)

    def test_clocks_and_files_are_read_in_each_call(self):
        import time
        times = []
        def score(s, b, h, q, k):
            times.append(None)
            return s * (1 + time.monotonic() * 0)
        for _ in range(3):
            at.flex_attention(*self.tensors, score)
        self.assertEqual(len(times), 3)


class Names(Case):
    def test_the_names_of_flex_attention(self):
        missing = [name for name in flex.__all__ if not hasattr(at, name) and name != "FlexKernelOptions"]
        self.assertEqual(missing, [])
        mask = at.or_masks(at.and_masks(at.noop_mask, lambda b, h, q, k: q >= k), lambda b, h, q, k: k < 3)
        self.check(None, mask)
        self.assertTrue(torch.equal(at.create_mask(mask, 1, 1, SQ, SK, device=DEVICE), flex.create_mask(mask, 1, 1, SQ, SK, device=DEVICE)))
        lse = at.flex_attention(*self.tensors, return_aux=at.AuxRequest(lse=True))[1].lse
        self.assertEqual(lse.shape, (B, H, SQ))

    def test_what_is_refused_by_name(self):
        with self.assertRaisesRegex(attune.Error, "return_aux asks for max_scores.*or compute the maxima by torch.nn.attention.flex_attention"):
            at.flex_attention(*self.tensors, return_aux=at.AuxRequest(max_scores=True))
        with self.assertRaisesRegex(attune.Error, "key is torch.float8_e4m3fn, but attune has no kernels for 8-bit floats yet; convert query, key and value to bfloat16"):
            at.flex_attention(self.tensors[0], *[x.to(torch.float8_e4m3fn) for x in self.tensors[1:]])
        table = torch.zeros(SK, device=DEVICE).to(torch.float8_e4m3fn)
        with self.assertRaisesRegex(attune.Error, 'tensor "table" is torch.float8_e4m3fn, but captured tensors are'):
            at.flex_attention(*self.tensors, lambda s, b, h, q, k: s + table[k])

    def test_captured_tensors_of_all_dtypes(self):
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float64, torch.float16, torch.bool):
            table = torch.randint(-100 if dtype.is_signed else 0, 100, (SK,), device=DEVICE).to(dtype)
            exact = table.double()
            self.check(lambda s, b, h, q, k: s + table[k] * 0.1, lambda b, h, q, k: (table[k] > 3) | (q >= k), lambda s, b, h, q, k: s + exact[k] * 0.1)
        learned = torch.rand(SK, device=DEVICE, dtype=torch.float64, requires_grad=True)
        score = lambda s, b, h, q, k: s + learned[k]
        outputs = at.flex_attention(*self.tensors, score), dense(*self.tensors, score)
        got, right = [torch.autograd.grad(x.square().sum(), learned)[0] for x in outputs]
        self.assertEqual(got.dtype, torch.float64)
        self.near(got, right)

    def test_narrow_integers_wrap_as_pytorchs(self):
        for dtype in (torch.uint8, torch.int8, torch.int16):
            info = torch.iinfo(dtype)
            table = torch.tensor([info.max, info.max - 1, info.min, 5] * 5, device=DEVICE, dtype=dtype)[:SK]
            rows = torch.stack([table, table], 1)
            for score_mod in (lambda s, b, h, q, k: s + (table[k] + table[k]) * 0.01, lambda s, b, h, q, k: s + (table[k] * 2 + 3) * 0.01,
                              lambda s, b, h, q, k: s - (-table[k]) * 0.01, lambda s, b, h, q, k: s + (table[k] + k) * 0.01,
                              lambda s, b, h, q, k: s + (table[k] << 1) * 0.01):
                # Of 0-dimensional tensors, as in score_mod; float64's reference has others.
                expected = torch.tensor([[score_mod(torch.tensor(0.0), None, None, torch.tensor(0), torch.tensor(j, dtype=torch.int32)).item() for j in range(SK)]])
                self.near(at.flex_attention(torch.zeros_like(self.tensors[0]), *self.tensors[1:], score_mod),
                          (expected.to(DEVICE).double().softmax(-1) @ self.tensors[2].double()).expand(B, H, SQ, D))
            of_rows = lambda s, b, h, q, k: s + (rows[k] + rows[k]).sum(-1) * 0.01
            expected = ((rows + rows).sum(-1) * 0.01).double()
            self.near(at.flex_attention(torch.zeros_like(self.tensors[0]), *self.tensors[1:], of_rows),
                      torch.einsum("k,bhkd->bhd", expected.softmax(-1), self.tensors[2].double())[:, :, None].expand(B, H, SQ, D))

    def test_five_dimensions(self):
        table = torch.rand(2, 3, H, SQ, SK, device=DEVICE, requires_grad=True)
        def score(s, b, h, q, k):
            return s + table[b + 1, k % 3, h, q, k]
        outputs = at.flex_attention(*self.tensors, score), dense(*self.tensors, score)
        self.near(*outputs)
        self.near(*[torch.autograd.grad(x.square().sum(), table)[0] for x in outputs])
        self.check(lambda s, b, h, q, k: s + table[-1, k % 3, h, q, k])


class Lengths(Case):
    """Keys and queries behind a length are poisoned: nothing of them reaches results."""

    def poisoned(self, lengths, query_lengths=None):
        q, k, v = [torch.randn(len(lengths), H, n, D, device=DEVICE) for n in (40, 70, 70)]
        clean = [x.clone() for x in (q, k, v)]
        for b, n in enumerate(lengths):
            k[b, :, n:] = v[b, :, n:] = math.nan
            clean[1][b, :, n:] = clean[2][b, :, n:] = 0
        do = torch.randn_like(q)
        for b, n in enumerate(query_lengths or []):
            q[b, :, n:] = do[b, :, n:] = math.nan
            clean[0][b, :, n:] = 0
        return [x.requires_grad_() for x in (q, k, v)], [x.requires_grad_() for x in clean], do

    def compare(self, run, mask_mod, lengths, query_lengths=None):
        tensors, clean, do = self.poisoned(lengths, query_lengths)
        output, expected = run(*tensors), dense(*clean, None, mask_mod)
        self.near(output, expected)
        right = torch.autograd.grad(expected, clean, do.nan_to_num().double())
        for a, b in zip(torch.autograd.grad(output, tensors, do), right):
            self.near(a, b, 1e-4)

    def test_masks_that_are_lengths(self):
        lengths = [33, 70, 1, 0, 64]
        n = torch.tensor(lengths, device=DEVICE, dtype=torch.int32)
        wide, ids = n.long(), torch.zeros(70, device=DEVICE, dtype=torch.int32)
        masks = [lambda b, h, q, k: k < n[b], lambda b, h, q, k: n[b] > k, lambda b, h, q, k: k <= n[b] - 1, lambda b, h, q, k: ~(k >= n[b]),
                 lambda b, h, q, k: (q + 3 >= k) & (k < n[b]), lambda b, h, q, k: (k < wide[b]) & (q - k < 20),
                 lambda b, h, q, k: (k < n[b]) & (ids[q] == ids[k])]
        for index, mask_mod in enumerate(masks):
            with self.subTest(index):
                mask = at.create_block_mask(mask_mod, None, None, 40, 70, device=DEVICE)
                self.compare(lambda q, k, v: at.flex_attention(q, k, v, block_mask=mask), mask_mod, lengths)

    def test_lengths_as_arguments(self):
        lengths, queries = [33, 70, 1, 0, 64], [40, 0, 17, 5, 32]
        n, m = torch.tensor(lengths, device=DEVICE, dtype=torch.int32), torch.tensor(queries, device=DEVICE)
        causal = lambda b, h, q, k: q >= k
        mask = at.create_block_mask(causal, None, None, 40, 70, device=DEVICE)
        self.compare(lambda q, k, v: at.flex_attention(q, k, v, key_lengths=n), lambda b, h, q, k: k < n[b], lengths)
        self.compare(lambda q, k, v: at.flex_attention(q, k, v, block_mask=mask, key_lengths=n, query_lengths=m),
                     lambda b, h, q, k: (q >= k) & (k < n[b]) & (q < m[b]), lengths, queries)
        q, k, v = self.poisoned(lengths)[0]
        with self.assertRaisesRegex(ValueError, r"key_lengths is torch.float32 of shape \[5\], but must be int32 or int64 of shape \[5\]: a length for each sequence"):
            at.flex_attention(q, k, v, key_lengths=n.float())
        with self.assertRaisesRegex(ValueError, r"query_lengths is torch.int32 of shape \[4\], but must be"):
            at.flex_attention(q, k, v, query_lengths=n[:4])

    def test_a_cache_that_ends_at_an_offset(self):
        end = 21
        def mask_mod(b, h, q, k):
            return (k < end) & (q + 10 >= k)
        mask = at.create_block_mask(mask_mod, None, None, 40, 70, device=DEVICE)
        for end in (21, 64, 3):
            self.compare(lambda q, k, v: at.flex_attention(q, k, v, block_mask=mask), mask_mod, [end])

    def test_lengths_of_scaled_dot_product_attention(self):
        lengths = [33, 70, 1, 0]
        n = torch.tensor(lengths, device=DEVICE)
        self.compare(lambda q, k, v: at.scaled_dot_product_attention(q, k, v, key_lengths=n), lambda b, h, q, k: k < n[b], lengths)
        self.compare(lambda q, k, v: at.scaled_dot_product_attention(q, k, v, is_causal=True, key_lengths=n), lambda b, h, q, k: (k < n[b]) & (q >= k), lengths)


class Counted(Case):
    def test_flops(self):
        q, k, v = inputs(grad=True)
        for function in (at.flex_attention, at.scaled_dot_product_attention, torch.compile(at.flex_attention, backend="aot_eager")):
            with FlopCounterMode(display=False) as counter:
                output = function(q, k, v)
            forward = 2 * B * H * SQ * SK * 2 * D
            self.assertEqual(counter.get_total_flops(), forward)
            with FlopCounterMode(display=False) as counter:
                function(q, k, v).sum().backward()
            self.assertEqual(counter.get_total_flops(), forward + 2 * B * H * SQ * SK * 5 * D)

    def test_the_profiler_names_kernels(self):
        def score(s, b, h, q, k):
            return s * 2
        q, k, v = inputs(grad=True)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            at.flex_attention(q, k, v, score).sum().backward()
        names = [event.key for event in profile.key_averages()]
        self.assertIn("attune::attention: score", names)
        self.assertIn("attune::attention: score, backward", names)


if __name__ == "__main__":
    unittest.main()
