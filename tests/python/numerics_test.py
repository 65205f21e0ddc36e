"""Kernels that are compiled from Python functions, on the CPU, against NumPy in float64."""
import itertools
import json
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("NumPy is missing: pip install -r python/requirements.txt")
    sys.exit(77)

import attune
import reference

B, H, HKV, SQ, SK, D = 2, 4, 2, 37, 53, 16
CPU = {"target": "cpu", "dtype": "f32"}


def inputs(seed=0, heads_kv=HKV, dv=D, sq=SQ, sk=SK):
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape, dtype=np.float32)
    return draw(B, H, sq, D), draw(B, heads_kv, sk, D), draw(B, heads_kv, sk, dv), draw(B, H, sq, dv)


SLOPES = np.float32(2) ** -np.arange(1, H + 1, dtype=np.float32)
IDS = np.sort(np.random.default_rng(5).integers(0, 4, max(SQ, SK))).astype(np.int32)


class Numerics(unittest.TestCase):
    def near(self, actual, expected, tolerance=2e-5):
        actual, expected = np.asarray(actual, dtype=np.float64), np.broadcast_to(expected, actual.shape)
        self.assertEqual(np.isneginf(actual).tolist(), np.isneginf(expected).tolist())
        finite = ~np.isneginf(expected)
        error = np.abs(actual[finite] - expected[finite]).max(initial=0)
        self.assertLessEqual(error, tolerance * max(1, np.abs(expected[finite]).max(initial=0)))

    def check(self, variant, score=lambda s: s, mask=True, derivative=lambda s: 1.0, gradients=(), arrays=None, captured=None, dv=D, **given):
        """Forward and backward of a variant; `captured` maps names to their gradients by dx."""
        q, k, v, do = inputs(dv=dv)
        kernel = attune.compile(variant, head_dim=D, head_dim_v=dv, gradients=list(gradients), **CPU)
        arrays = arrays or {}
        o, lse = kernel(q, k, v, return_lse=True, **arrays)
        expected, expected_lse, saved = reference.attention(q, k, v, score, mask, **given)
        self.near(o, expected)
        self.near(lse, expected_lse)
        result = kernel.backward(q, k, v, o, lse, do, **arrays)
        dq, dk, dv_, dx = reference.gradients(q, k, v, do, saved, derivative)
        for actual, wanted in zip(result[:3], (dq, dk, dv_)):
            self.near(actual, wanted)
        for name, gradient in (captured or {}).items():
            self.near(result.captured[name], gradient(dx))

    def test_plain(self):
        self.check(attune.Variant())

    def test_patterns(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        near = np.abs(q - k)
        self.check(attune.Variant(mask=attune.local_global(6, 3)), mask=(near <= 6) | (q < 3) | (k < 3))
        self.check(attune.Variant(mask=attune.local_global(3, 2, 4)), mask=np.isin(q - k, 4 * np.arange(-3, 4)) | (q < 2) | (k < 2))
        self.check(attune.Variant(mask=attune.strided(7)), mask=(q >= k) & ((q - k < 7) | np.isin(q - k, 7 * np.arange(SQ))))
        self.check(attune.Variant(mask=attune.fixed(8, 2)), mask=(q >= k) & ((q // 8 == k // 8) | np.isin(k % 8, (6, 7))))
        powers = [0] + [1 << n for n in range(8)]
        self.check(attune.Variant(mask=attune.butterfly(4)), mask=np.isin((q // 4) ^ (k // 4), powers))

        def mixed(x):
            for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b), (16, 1)):
                x = (x ^ x >> shift) * factor % 2**32
            return x

        blocks, drawn = -(-SK // 8), np.zeros((1, H, SQ, SK), bool)
        for head, row, n in itertools.product(range(H), range(-(-SQ // 8)), range(2)):
            column = mixed((mixed((mixed(row + 5) + head) % 2**32) + n) % 2**32) % 2**31 % blocks
            drawn[0, head, row * 8:row * 8 + 8, column * 8:column * 8 + 8] = True
        self.assertGreater(len({head.tobytes() for head in drawn[0]}), 1)
        self.check(attune.Variant(mask=attune.bigbird(8, 1, 1, 2, seed=5)),
                   mask=drawn | (np.abs(q // 8 - k // 8) <= 1) | (q < 8) | (k < 8))

        def window(place, of, side, extent):
            first = np.clip(place - side // 2, 0, extent - side)
            return (of >= first) & (of < first + side)

        self.check(attune.Variant(mask=attune.natten(5, 9, 3)),
                   mask=window(q // 9, k // 9, 3, 5) & window(q % 9, k % 9, 3, 9))
        places = lambda x: np.unravel_index(np.minimum(x // 2, 26), (3, 3, 3))
        visible = np.ones((1, 1, SQ, SK), bool)
        for side, extent, place, of in zip((1, 3, 1), (3, 3, 3), places(q), places(k)):
            visible &= window(place, of, side, extent)
        self.check(attune.Variant(mask=attune.sta(2, (3, 3, 3), (1, 3, 1))), mask=visible)

    def test_causal(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        self.check(attune.Variant(mask=lambda b, h, q, k: q >= k), mask=q >= k)
        self.check(attune.Variant(mask=attune.causal()), mask=q >= k)

    def test_masks_that_are_lengths(self):
        """What lies behind a length is NaN, and reaches nothing."""
        keys, queries = np.array([0, 29], dtype=np.int32), np.array([SQ, 18], dtype=np.int32)
        n, limit = attune.tensor("n", "i32", 1), attune.scalar("limit", "i32")
        b_, h_, q_, k_ = reference.indices(B, H, SQ, SK)
        last = keys[b_]
        masks = [(lambda b, h, q, k: k < n[b], k_ < last), (lambda b, h, q, k: n[b] > k, k_ < last), (lambda b, h, q, k: k <= n[b] - 1, k_ < last),
                 (lambda b, h, q, k: ~(k >= n[b]) & (q >= k), (k_ < last) & (q_ >= k_)), (lambda b, h, q, k: (k < limit) & (k < n[b]), (k_ < last) & (k_ < 21)),
                 (lambda b, h, q, k: (k < n[b]) & (q < m[b]), (k_ < last) & (q_ < queries[b_])), (lambda b, h, q, k: k < n[b] - h, k_ < last - h_)]
        m = attune.tensor("m", "i32", 1)
        for index, (mask, visible) in enumerate(masks):
            q, k, v, do = inputs()
            kernel = attune.compile(attune.Variant(mask=mask), head_dim=D, gradients=[], **CPU)
            expected, _, saved = reference.attention(q, k, v, lambda s: s, visible)
            wanted = reference.gradients(q, k, v, do, saved, lambda s: 1.0)[:3]
            for b in range(B):
                k[b, :, max(keys[b], 0):] = v[b, :, max(keys[b], 0):] = np.nan
                if index == 5:
                    q[b, :, queries[b]:] = do[b, :, queries[b]:] = np.nan
            given = {"n": keys, **({"limit": 21} if index == 4 else {}), **({"m": queries} if index == 5 else {})}
            o, lse = kernel(q, k, v, return_lse=True, **given)
            self.near(o, expected)
            for actual, right in zip(kernel.backward(q, k, v, o, lse, do, **given)[:3], wanted):
                self.near(actual, right)

    def test_functions_are_those_of_text(self):
        for name, parameters, _, summary in attune._core.functions():
            arguments = ["s", "q + 1.5", "0.25"][:parameters]
            traced = attune.Variant(lambda s, b, h, q, k: getattr(attune, name)(*(s, q + 1.5, 0.25)[:parameters]))
            text = attune.Variant.from_json(f'{{"name": "v", "score": "{name}({", ".join(arguments)})"}}')
            scores = [json.loads(attune.emit(variant, "dsl", head_dim=D, **CPU))["score"] for variant in (traced, text)]
            self.assertEqual(*scores, name)
            self.assertIn(summary, getattr(attune, name).__doc__)
        self.check(attune.Variant(lambda s, b, h, q, k: np.arctan2(s, 2.0) + np.logaddexp(s, 1.0) + np.copysign(s, q - k)),
                   score=lambda s: np.arctan2(s, 2.0) + np.logaddexp(s, 1.0) + np.copysign(s, np.arange(SQ)[:, None] - np.arange(SK) + 0.0),
                   derivative=lambda s: 2 / (4 + s * s) + 1 / (1 + np.exp(1 - s)) + np.sign(s) * np.where(np.arange(SQ)[:, None] >= np.arange(SK), 1, -1))

    def test_alibi_of_a_closure_and_its_gradient(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        slopes = SLOPES.copy()
        self.check(attune.Variant(score=lambda s, b, h, q, k: s + slopes[h] * (k - q)), gradients=["slopes"],
                   score=lambda s: s + slopes.reshape(1, H, 1, 1) * (k - q), captured={"slopes": lambda dx: (dx * (k - q)).sum((0, 2, 3))})

    def test_alibi_of_a_global(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        self.check(attune.Variant(score=lambda s, b, h, q, k: s + SLOPES[h] * (k - q)), score=lambda s: s + SLOPES.reshape(1, H, 1, 1) * (k - q))

    def test_arrays_of_functions_that_are_called_and_of_defaults(self):
        def bias(h, distance, weight=SLOPES):
            return weight[h] * distance
        b, h, q, k = reference.indices(B, H, SQ, SK)
        self.check(attune.Variant(score=lambda s, b, h, q, k: s + bias(h, k - q)), score=lambda s: s + SLOPES.reshape(1, H, 1, 1) * (k - q))

    def test_another_array_by_name(self):
        slopes = SLOPES
        other = np.linspace(-1, 1, H, dtype=np.float32)
        b, h, q, k = reference.indices(B, H, SQ, SK)
        self.check(attune.Variant(score=lambda s, b, h, q, k: s + slopes[h] * (k - q)), arrays={"slopes": other},
                   score=lambda s: s + other.reshape(1, H, 1, 1) * (k - q))

    def test_declared_tensor_and_dense_bias(self):
        bias = np.random.default_rng(1).standard_normal((H, SQ, SK)).astype(np.float32)
        table = attune.tensor("table", "f32", 3)
        for score in (lambda s, b, h, q, k: s + table[h, q, k], lambda s, b, h, q, k: s + table[h][q][k], attune.bias(table)):
            self.check(attune.Variant(score=score), gradients=["table"], arrays={"table": bias}, score=lambda s: s + bias,
                       captured={"table": lambda dx: dx.sum(0)})

    def test_strided_captured_tensor(self):
        bias = np.random.default_rng(1).standard_normal((SK, H, SQ)).astype(np.float32).transpose(1, 2, 0)
        self.check(attune.Variant(score=lambda s, b, h, q, k: s + bias[h, q, k]), score=lambda s: s + bias)

    def test_softcap(self):
        self.check(attune.Variant(score=lambda s, b, h, q, k: attune.softcap(s, 2.0)), score=lambda s: 2 * np.tanh(s / 2),
                   derivative=lambda s: 1 - np.tanh(s / 2) ** 2)
        self.check(attune.Variant(score=lambda s, b, h, q, k: 2 * np.tanh(s / 2)), score=lambda s: 2 * np.tanh(s / 2),
                   derivative=lambda s: 1 - np.tanh(s / 2) ** 2)

    def test_scores_in_a_row_and_masks_together(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        double = lambda s, b, h, q, k: s * 2
        add = lambda s, b, h, q, k: s + h
        self.check(attune.Variant([double, add], [attune.causal(), lambda b, h, q, k: k % 3 != 1]), score=lambda s: s * 2 + h,
                   mask=(q >= k) & (k % 3 != 1), derivative=lambda s: 2.0)

    def test_run_time_scalar(self):
        cap = attune.scalar("cap", "f32")
        kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: attune.softcap(s, cap)), head_dim=D, **CPU)
        q, k, v, _ = inputs()
        for value in (1.5, np.float32(3), 7):
            self.near(kernel(q, k, v, cap=value), reference.attention(q, k, v, lambda s: value * np.tanh(s / value))[0])

    def test_documents(self):
        ids = IDS
        b, h, q, k = reference.indices(B, H, SQ, SK)
        same = ids[q] == ids[k]
        self.check(attune.Variant(mask=lambda b, h, q, k: ids[q] == ids[k]), mask=same)
        self.check(attune.Variant(mask=[attune.causal(), attune.documents(IDS)]), mask=same & (q >= k))

    def test_window(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        window = (q - k < 7) & (k - q <= 3)
        self.check(attune.Variant(mask=lambda b, h, q, k: (q - k < 7) & (k - q <= 3)), mask=window)
        self.check(attune.Variant(mask=attune.sliding_window(6, 3)), mask=window)

    def test_rows_without_a_key(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        self.check(attune.Variant(mask=lambda b, h, q, k: (q > 5) & (k <= q)), mask=(q > 5) & (k <= q))

    def test_sigmoid(self):
        q, k, v, do = inputs()
        kernel = attune.compile(attune.Variant(score=lambda s, b, h, q, k: s - 2, normaliser="sigmoid"), head_dim=D, gradients=[], **CPU)
        expected, _, saved = reference.attention(q, k, v, lambda s: s - 2, normaliser="sigmoid")
        o = kernel(q, k, v)
        self.near(o, expected)
        for actual, wanted in zip(kernel.backward(q, k, v, o, None, do)[:3], reference.gradients(q, k, v, do, saved, normaliser="sigmoid")):
            self.near(actual, wanted)

    def test_sink(self):
        sinks = np.linspace(-1, 2, H, dtype=np.float32)
        kernel = attune.compile(attune.Variant(sink=sinks), head_dim=D, **CPU)
        q, k, v, _ = inputs()
        o, lse = kernel(q, k, v, return_lse=True)
        expected, expected_lse, _ = reference.attention(q, k, v, sinks=sinks)
        self.near(o, expected)
        self.near(lse, expected_lse)

    def test_normaliser_of_ones_own(self):
        base2 = attune.Normaliser("exp2", statistics={"m": ("max", -np.inf), "l": ("sum", 0)}, base="m == -inf ? 0 : m", rescale="exp2(m - base)",
                                  p="exp2(x - base)", divisor="l")
        kernel = attune.compile(attune.Variant(normaliser=base2), head_dim=D, **CPU)
        q, k, v, _ = inputs()
        self.near(kernel(q, k, v), reference.attention(q, k, v, lambda s: s * np.log(2))[0])

    def test_dropout(self):
        q, k, v, do = inputs()
        kernel = attune.compile(attune.Variant(dropout=0.25), head_dim=D, gradients=[], **CPU)
        seed, offset = 2**40 + 17, 2**33 + 3
        keep = reference.kept(0.25, seed, offset, B, H, SQ, SK)
        self.assertTrue(0.7 < (keep > 0).mean() < 0.8)
        o, lse = kernel(q, k, v, return_lse=True, seed=seed, offset=offset)
        expected, _, saved = reference.attention(q, k, v, keep=keep)
        self.near(o, expected)
        again = kernel(q, k, v, seed=seed, offset=offset)
        self.assertTrue((again == o).all())
        self.assertFalse((kernel(q, k, v, seed=seed + 1, offset=offset) == o).all())
        self.near(kernel(q, k, v, dropout=0.0), reference.attention(q, k, v)[0])
        result = kernel.backward(q, k, v, o, lse, do, seed=seed, offset=offset)
        for actual, wanted in zip(result[:3], reference.gradients(q, k, v, do, saved, keep=keep)):
            self.near(actual, wanted)

    def test_head_dims_that_differ(self):
        self.check(attune.Variant(), dv=24)

    def test_gradient_of_lse(self):
        q, k, v, do = inputs()
        kernel = attune.compile(attune.Variant(), head_dim=D, gradients=[], lse_gradient=True, deterministic=True, **CPU)
        o, lse = kernel(q, k, v, return_lse=True)
        _, _, saved = reference.attention(q, k, v)
        # LSE's derivative by x is p: of the sum of all LSE alone, dq = p K / sqrt(D).
        result = kernel.backward(q, k, v, o, lse, np.zeros_like(do), dlse=np.ones_like(lse))
        self.near(result.dq, np.einsum("bhqk,bhkd->bhqd", saved[2], reference.heads(k, H)) / np.sqrt(D))

    def test_strides(self):
        q, k, v, do = (np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in inputs())
        kernel = attune.compile(attune.Variant(), head_dim=D, gradients=[], **CPU)
        o, lse = kernel(q, k, v, return_lse=True)
        self.assertEqual(o.strides, q.strides)
        expected, _, saved = reference.attention(q, k, v)
        self.near(o, expected)
        result = kernel.backward(q, k, v, o, lse, do)
        self.assertEqual(result.dk.strides, k.strides)
        for actual, wanted in zip(result[:3], reference.gradients(q, k, v, do, saved)):
            self.near(actual, wanted)
        sliced = np.zeros((B, H, SQ, 3 * D), np.float32)
        sliced[..., D:2 * D] = q
        self.near(kernel(sliced[..., D:2 * D], k, v), expected)
        out = np.empty_like(q)
        self.assertIs(kernel(q, k, v, out=out), out)
        self.near(out, expected)

    def test_broadcast_operands(self):
        """Of stride 0 along any dimension, of the batch to the head dimension; and rows that kernels read as copies."""
        kernel = attune.compile(attune.Variant(), head_dim=D, gradients=[], **CPU)
        q, k, v, do = inputs()
        for dims in ((0,), (1,), (2,), (3,), (0, 1), (1, 3), (0, 1, 2, 3)):
            def broadcast(x):
                return np.broadcast_to(x[tuple(slice(0, 1) if dim in dims else slice(None) for dim in range(4))], x.shape)
            for given in ((broadcast(q), k, v), (q, broadcast(k), broadcast(v)), tuple(map(broadcast, (q, k, v)))):
                o, lse = kernel(*given, return_lse=True)
                self.assertEqual(o.strides[3], o.itemsize)
                expected, _, saved = reference.attention(*given)
                self.near(o, expected)
                results = kernel.backward(*given, o, lse, broadcast(do))
                for actual, wanted in zip(results[:3], reference.gradients(*given, broadcast(do), saved)):
                    self.near(actual, wanted)
        odd = [np.repeat(q, 2, 3)[..., ::2], k[..., ::-1], np.zeros((*v.shape[:3], D + 1), np.float32)[..., 1:]]
        self.near(kernel(*odd), reference.attention(*odd)[0])
        self.near(kernel(q[:, :, ::-1], k[::-1], v[:, ::-1]), reference.attention(q[:, :, ::-1], k[::-1], v[:, ::-1])[0])

    def test_broadcast_captured_arrays(self):
        slopes = np.broadcast_to(np.float32(0.5), (H,))
        b, h, q, k = reference.indices(B, H, SQ, SK)
        self.check(attune.Variant(lambda s, b, h, q, k: s + slopes[h] * k), gradients=["slopes"], score=lambda s: s + 0.5 * k,
                   captured={"slopes": lambda dx: (dx * k).sum((0, 2, 3))})

    def test_launches_of_nothing(self):
        """No batch, head, query or key, with captured tensors that are as empty."""
        bias = np.zeros((H, SQ, SK), np.float32)
        kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: s + bias[h, q, k], lambda b, h, q, k: IDS[q] == IDS[k]), head_dim=D, gradients=["bias"], **CPU)
        plain = attune.compile(attune.Variant(), head_dim=D, gradients=[], **CPU)
        for batch, heads, sq, sk in itertools.product((0, B), (0, H), (0, SQ), (0, SK)):
            if batch and heads and sq and sk:
                continue
            q, k = np.ones((batch, heads, sq, D), np.float32), np.ones((batch, heads, sk, D), np.float32)
            for run, given, captured in ((plain, {}, None), (kernel, {"bias": bias[:heads, :sq, :sk], "IDS": IDS[:max(sq, sk)]}, (heads, sq, sk))):
                o, lse = run(q, k, k, return_lse=True, **given)
                results = run.backward(q, k, k, o, lse, o, **given)
                self.assertEqual([x.shape for x in (o, lse, *results[:3])], [q.shape, q.shape[:3], q.shape, k.shape, k.shape])
                for result in (o, *results[:3], *results.captured.values()):
                    self.assertFalse(result.any())
                if captured:
                    self.assertEqual(results.captured["bias"].shape, captured)

    def test_arrays_of_any_name(self):
        """What expressions, C++ or calls know by another meaning."""
        random = np.random.default_rng(4)
        words = "s b h q k B H Sq Sk true false inf nan let".split()
        b, h, i, j = reference.indices(B, H, SQ, SK)
        plain = "o v lse do dq exp max select float int template m p out seed offset dropout sink blocks main x_size0".split()
        for name in (*words, *plain, "\u03b1", "\u03b2x"):
            scope = {"array": random.standard_normal(H, dtype=np.float32)}
            exec(f"def made({name}):\n return lambda s_, b_, h_, q_, k_: s_ + {name}[h_] * k_ * 0.1", scope)
            variant = attune.Variant(scope["made"](scope["array"]))
            ascii_name = "".join(c for c in name if c.isascii())
            called = name if name in plain else "captured_" + ascii_name
            self.assertEqual([tensor for tensor, _, _ in variant.tensors], [called])
            if name in ("q", "s", "\u03b1", "float", "lse"):
                self.check(variant, gradients=[called], score=lambda s: s + scope["array"].reshape(1, H, 1, 1) * j * np.float32(0.1),
                           captured={called: lambda dx: (dx * j * np.float32(0.1)).sum((0, 2, 3))})
        α, β = np.ones(H, np.float32), np.full(H, 2, np.float32)
        self.check(attune.Variant(lambda s, b, h, q, k: s * α[h] + s * β[h]), score=lambda s: 3 * s, derivative=lambda s: 3)

    def test_subclasses_of_arrays(self):
        class Marked(np.ndarray):
            pass
        q, k, v, do = inputs()
        kernel = attune.compile(attune.Variant(), head_dim=D, gradients=[], **CPU)
        expected, _, saved = reference.attention(q, k, v)
        for given in ((q.view(Marked), k, v), (q, k.view(Marked), v)):
            o, lse = kernel(*given, return_lse=True)
            self.assertIsInstance(o, type(given[0]))
            self.near(o, expected)
            self.near(kernel.backward(*given, o, lse, do.view(Marked)).dk, reference.gradients(q, k, v, do, saved)[1])

    def test_read_only_memory(self):
        q, k, v, _ = inputs()
        slopes = SLOPES.copy()
        for array in (q, k, v, slopes):
            array.flags.writeable = False
        b, h, i, j = reference.indices(B, H, SQ, SK)
        kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: s + slopes[h] * k), head_dim=D, **CPU)
        self.near(kernel(q, k, v), reference.attention(q, k, v, lambda s: s + slopes.reshape(1, H, 1, 1) * j)[0])

    def test_half_precision(self):
        q, k, v, _ = (x.astype(np.float16) for x in inputs())
        o = attune.compile(attune.Variant(), head_dim=D, dtype="f16", target="cpu")(q, k, v)
        self.assertEqual(o.dtype, np.float16)
        self.near(o, reference.attention(q, k, v)[0], 2e-3)

    def test_bfloat16_as_bits(self):
        wide = [np.round(x * 4) / 4 for x in inputs()]
        q, k, v, _ = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in wide)
        o = attune.compile(attune.Variant(), head_dim=D, target="cpu")(q, k, v)
        self.assertEqual(o.dtype, np.uint16)
        self.near((o.astype(np.uint32) << 16).view(np.float32), reference.attention(*wide[:3])[0], 1e-2)

    def test_q_offset_and_blocks(self):
        q, k, v, _ = inputs()
        b, h, i, j = reference.indices(B, H, SQ, SK)
        pattern = np.random.default_rng(3).integers(0, 2, (H, -(-SQ // 16), -(-SK // 16))).astype(bool)
        kernel = attune.compile(attune.Variant(mask=attune.causal(), q_offset=True, blocks=(pattern, 16, 16)), head_dim=D, **CPU)
        visible = np.repeat(np.repeat(pattern, 16, 1), 16, 2)[:, :SQ, :SK] & (i + 9 >= j)
        self.near(kernel(q, k, v, q_offset=9), reference.attention(q, k, v, mask=visible)[0])

    def test_lengths_of_sequences_and_pages(self):
        page, lengths, rows = 16, np.array([53, 20], np.int32), np.array([SQ, 3], np.int32)
        q, k, v, _ = inputs()
        table = np.random.default_rng(9).permutation(2 * 4).reshape(2, 4).astype(np.int32)
        paged_k, paged_v = (np.full((8, HKV, page, D), np.nan, np.float32) for _ in range(2))
        for b in range(B):
            for key in range(lengths[b]):
                for paged, of in (paged_k, k), (paged_v, v):
                    paged[table[b, key // page], :, key % page] = of[b, :, key]
        table[1, 2:] = -5
        variant = attune.Variant(mask=attune.causal_bottom_right(), key_lengths=attune.tensor("lengths", "i32", 1),
                                 query_lengths=attune.tensor("rows", "i32", 1), key_pages=(table, page))
        kernel = attune.compile(variant, head_dim=D, **CPU)
        o, lse = kernel(q, paged_k, paged_v, return_lse=True, lengths=lengths, rows=rows)
        for b in range(B):
            n, m = rows[b], lengths[b]
            mask = np.arange(m) - m <= np.arange(n)[:, None] - n
            expected, expected_lse, _ = reference.attention(q[b:b + 1, :, :n], k[b:b + 1, :, :m], v[b:b + 1, :, :m], lambda s: s, mask)
            self.near(o[b:b + 1, :, :n], expected)
            self.near(lse[b:b + 1, :, :n], expected_lse)
        with self.assertRaisesRegex(attune.Error, "page size 20 is not a positive multiple of 16"):
            attune.Variant(key_pages=(table, 20))
        with self.assertRaisesRegex(attune.Error, "key_pages must be"):
            attune.Variant(key_pages=table)
        with self.assertRaisesRegex(attune.Error, "keys in pages have no backward pass"):
            attune.compile(variant, head_dim=D, gradients=[], **CPU)

    def test_gradients_of_lengths(self):
        """Each sequence as a call of its own; rows behind its end have gradient 0, whatever is there."""
        lengths, rows = np.array([SK - 6, 5], np.int32), np.array([7, SQ], np.int32)
        q, k, v, do = inputs()
        for b in range(B):
            for x, n in (q, rows[b]), (do, rows[b]), (k, lengths[b]), (v, lengths[b]):
                x[b, :, n:] = np.nan
        variant = attune.Variant(mask=attune.causal_bottom_right(), key_lengths=attune.tensor("lengths", "i32", 1), query_lengths=attune.tensor("rows", "i32", 1))
        kernel = attune.compile(variant, head_dim=D, gradients=[], **CPU)
        o, lse = kernel(q, k, v, return_lse=True, lengths=lengths, rows=rows)
        for b in range(B):
            o[b, :, rows[b]:] = lse[b, :, rows[b]:] = np.nan
        made = kernel.backward(q, k, v, o, lse, do, lengths=lengths, rows=rows)
        own = attune.compile(attune.Variant(mask=attune.causal_bottom_right()), head_dim=D, gradients=[], **CPU)
        for b in range(B):
            n, m = rows[b], lengths[b]
            of = [np.ascontiguousarray(x[b:b + 1, :, :count]) for x, count in ((q, n), (k, m), (v, m), (do, n))]
            expected, expected_lse = own(*of[:3], return_lse=True)
            gradients = own.backward(*of[:3], expected, expected_lse, of[3])
            for got, want, count in ((made.dq, gradients.dq, n), (made.dk, gradients.dk, m), (made.dv, gradients.dv, m)):
                self.near(got[b:b + 1, :, :count], want)
                self.assertTrue((got[b, :, count:] == 0).all())

    def test_packed_sequences(self):
        """Each sequence as a call of its own, forward and backward; rows of no sequence are 0."""
        first_q, first_k = np.array([2, 2, 30, 31, SQ - 1], np.int32), np.array([1, 9, 9, 40, SK - 3], np.int32)
        q, k, v, do = [x[:1] for x in inputs()]
        v[:, :, SK - 3:] = np.nan
        bounds = attune.tensor("first_q", "i32"), attune.tensor("first_k", "i32")
        kernel = attune.compile(attune.Variant(mask=attune.causal_bottom_right(), sequences=bounds), head_dim=D, gradients=[], **CPU)
        o, lse = kernel(q, k, v, return_lse=True, first_q=first_q, first_k=first_k)
        made = kernel.backward(q, k, v, o, lse, do, first_q=first_q, first_k=first_k)
        own = attune.compile(attune.Variant(mask=attune.causal_bottom_right()), head_dim=D, gradients=[], **CPU)
        outside = np.ones(SQ, bool)
        for b in range(len(first_q) - 1):
            rows, keys = slice(first_q[b], first_q[b + 1]), slice(first_k[b], first_k[b + 1])
            outside[rows] = False
            of = [np.ascontiguousarray(x) for x in (q[:, :, rows], k[:, :, keys], v[:, :, keys])]
            want, want_lse = own(*of, return_lse=True)
            self.near(o[:, :, rows], want)
            self.near(lse[:, :, rows], want_lse)
            gradients = own.backward(*of, want, want_lse, np.ascontiguousarray(do[:, :, rows]))
            for got, x, among in ((made.dq, gradients.dq, rows), (made.dk, gradients.dk, keys), (made.dv, gradients.dv, keys)):
                self.near(got[:, :, among], x)
        self.assertTrue((o[:, :, outside] == 0).all() and (lse[:, :, outside] == -np.inf).all() and (made.dq[:, :, outside] == 0).all())
        with self.assertRaisesRegex(attune.Error, "sequences must be \\(queries, keys\\), or queries"):
            attune.Variant(sequences=(*bounds, bounds[0]))
        with self.assertRaisesRegex(attune.Error, "captured tensor 'first_q' has the bounds of 4 sequences, captured tensor 'first_k' has the bounds of 3"):
            kernel(q, k, v, first_q=first_q, first_k=first_k[:-1])
        with self.assertRaisesRegex(attune.Error, "packed sequences go with no block pattern, query offset"):
            attune.compile(attune.Variant(sequences=bounds, q_offset=True), head_dim=D, **CPU)
        with self.assertRaisesRegex(attune.Error, "packed sequences do not take a mask whose visible tiles follow from \"ids.q\""):
            attune.compile(attune.Variant(mask=attune.documents(attune.tensor("ids", "i32")), sequences=bounds), head_dim=D, **CPU)
        with self.assertRaisesRegex(attune.Error, "q has batch 2, the kernel was compiled for 1"):
            kernel(*inputs()[:3], first_q=first_q, first_k=first_k)

    def test_gradients_that_lengths_refuse(self):
        rows = attune.tensor("rows", "i32", 1)
        with self.assertRaisesRegex(attune.Error, "query lengths with a query offset have no backward pass"):
            attune.compile(attune.Variant(mask=attune.causal(), query_lengths=rows, q_offset=True), head_dim=D, gradients=[], **CPU)
        with self.assertRaisesRegex(attune.Error, "the gradient of captured tensor \"sinks\" is added up over all rows of Q"):
            attune.compile(attune.Variant(sink=attune.tensor("sinks", "f32", 1), query_lengths=rows), head_dim=D, gradients=["sinks"], **CPU)

    def test_packed_queries_and_a_cache(self):
        """Prompts and single tokens beside caches of a batch, and in pages."""
        page, first_q, lengths = 16, np.array([1, 8, 8, 9, SQ - 1], np.int32), np.array([21, 5, 40, 30], np.int32)
        q = inputs()[0][:1]
        rng = np.random.default_rng(4)
        k, v = (rng.standard_normal((4, HKV, 48, D)).astype(np.float32) for _ in range(2))
        for b in range(4):
            k[b, :, lengths[b]:] = v[b, :, lengths[b]:] = np.nan
        table = rng.permutation(12).reshape(4, 3).astype(np.int32)
        pages = [np.ascontiguousarray(x.reshape(4, HKV, 3, page, D).transpose(0, 2, 1, 3, 4).reshape(12, HKV, page, D)[np.argsort(table.ravel())]) for x in (k, v)]
        options = {"mask": attune.causal_bottom_right(), "sequences": attune.tensor("first_q", "i32"), "key_lengths": attune.tensor("lengths", "i32")}
        own = attune.compile(attune.Variant(mask=attune.causal_bottom_right()), head_dim=D, **CPU)
        for variant, keys, given in ((attune.Variant(**options), (k, v), {}), (attune.Variant(**options, key_pages=(table, page)), pages, {})):
            kernel = attune.compile(variant, head_dim=D, **CPU)
            o, lse = kernel(q, *keys, return_lse=True, first_q=first_q, lengths=lengths, **given)
            outside = np.ones(SQ, bool)
            for b in range(4):
                rows, n = slice(first_q[b], first_q[b + 1]), lengths[b]
                outside[rows] = False
                want, want_lse = own(*[np.ascontiguousarray(x) for x in (q[:, :, rows], k[b:b + 1, :, :n], v[b:b + 1, :, :n])], return_lse=True)
                self.near(o[:, :, rows], want)
                self.near(lse[:, :, rows], want_lse)
            self.assertTrue((o[:, :, outside] == 0).all() and (lse[:, :, outside] == -np.inf).all())
        with self.assertRaisesRegex(attune.Error, "captured tensor 'first_q' has the bounds of 4 sequences, k has batch 3"):
            attune.compile(attune.Variant(**options), head_dim=D, **CPU)(q, k[:3], v[:3], first_q=first_q, lengths=lengths)
        with self.assertRaisesRegex(attune.Error, "keys are packed and in pages"):
            attune.compile(attune.Variant(sequences=(options["sequences"],) * 2, key_pages=(table, page)), head_dim=D, **CPU)

    def test_lengths_of_one_kernel(self):
        kernel = attune.compile(attune.Variant(mask=attune.causal()), head_dim=D, **CPU)
        for sq, sk in ((1, 1), (5, 200), (64, 3), (3, 0)):
            q, k, v, _ = inputs(sq=sq, sk=sk)
            b, h, i, j = reference.indices(B, H, sq, sk)
            self.near(kernel(q, k, v), reference.attention(q, k, v, mask=i >= j)[0])

    def test_integers_are_pythons(self):
        """a // b and a % b of all signs, by zero 0; a / b is a float."""
        numbers = np.array([-9, -8, -7, -4, -1, 0, 1, 3, 4, 7, 8, 9], np.int32)
        divisors = np.array([-4, -3, -1, 0, 1, 3, 4], np.int32)
        n, m = len(numbers), len(divisors)
        a, c = numbers, divisors
        q, k, v = np.zeros((1, 1, n, 8), np.float32), np.zeros((1, 1, m, 8), np.float32), np.eye(m, 8, dtype=np.float32)[None, None]
        operations = {
            "floor": (lambda x, y: x // y, lambda x, y: x // y if y else 0),
            "modulo": (lambda x, y: x % y, lambda x, y: x % y if y else 0),
            "of a literal": (lambda x, y: 5 // y + 7 % y, lambda x, y: 5 // y + 7 % y if y else 0),
            "by a literal": (lambda x, y: x // 4 + x % 4 * 100, lambda x, y: x // 4 + x % 4 * 100),
            "by a negative literal": (lambda x, y: x // -4 + x % -4 * 100, lambda x, y: x // -4 + x % -4 * 100),
            "division": (lambda x, y: x / attune.where(y == 0, 1, y), lambda x, y: x / (y or 1)),
            "divmod": (lambda x, y: np.floor_divide(x, y) * 10 + np.remainder(x, y), lambda x, y: x // y * 10 + x % y if y else 0)}
        for what, (traced, plain) in operations.items():
            with self.subTest(what):
                variant = attune.Variant(lambda s, b, h, q, k: attune.cast(traced(a[q], c[k]), "f32"), normaliser="none")
                o = attune.compile(variant, head_dim=8, **CPU)(q, k, v)
                self.near(o[0, 0, :, :m], np.array([[plain(int(x), int(y)) for y in c] for x in a]), 1e-6)

    def test_coordinates_divide_without_a_correction(self):
        """Coordinates are not negative: chunks stay what mask analysis knows, unless an offset may make them so."""
        chunks = lambda b, h, q, k: q // 64 == k // 64
        self.assertIn('"mask": "q / 64 == k / 64"', attune.Variant(mask=chunks).json())
        self.assertIn("q % 64 < 0", attune.Variant(mask=chunks, q_offset=True).json())

    def test_bits_and_selection(self):
        b, h, q, k = reference.indices(B, H, SQ, SK)
        self.check(attune.Variant(mask=lambda b, h, q, k: ~((q ^ k) & 1 == 1) | (k == 0)), mask=((q ^ k) & 1 == 0) | (k == 0))
        self.check(attune.Variant(lambda s, b, h, q, k: s + attune.where(k < q, 1.0, -1.0) + attune.minimum(q, 3) + np.maximum(k, 2) * 0.5),
                   score=lambda s: s + np.where(k < q, 1.0, -1.0) + np.minimum(q, 3) + np.maximum(k, 2) * 0.5)

    def test_searchsorted(self):
        """As NumPy's: packed documents, one of them empty, and buckets of distances."""
        b, h, q, k = reference.indices(B, H, SQ, SK)
        offsets, limits = np.array([0, 7, 20, 20, 41], np.int32), np.array([1, 4, 4, 30], np.float16)
        document = lambda i: np.searchsorted(offsets, i, side="right")
        self.check(attune.Variant(mask=lambda b, h, q, k: attune.searchsorted(offsets, q, right=True) == attune.searchsorted(offsets, k, side="right")),
                   mask=document(q) == document(k))
        self.check(attune.Variant(lambda s, b, h, q, k: s * 0.5 ** attune.searchsorted(limits, attune.cast(abs(q - k), "f32"))),
                   score=lambda s: s * 0.5 ** np.searchsorted(limits, abs(q - k)), derivative=lambda s: 0.5 ** np.searchsorted(limits, abs(q - k)))
        self.assertIn("searchsorted(offsets, q, right)", attune.Variant(mask=lambda b, h, q, k: attune.searchsorted(offsets, q, right=True) > 0).json())

    def test_arrays_through_dlpack(self):
        class Foreign:
            """An array of a library that attune does not know."""
            def __init__(self, array): self.array, self.shape, self.dtype = array, array.shape, array.dtype
            def __dlpack__(self, **keywords): return self.array.__dlpack__()
            def __dlpack_device__(self): return self.array.__dlpack_device__()
            def __array_namespace__(self): return type("namespace", (), {"asarray": staticmethod(Foreign)})
        q, k, v, _ = inputs()
        kernel = attune.compile(attune.Variant(), head_dim=D, **CPU)
        o = kernel(*map(Foreign, (q, k, v)))
        self.assertIsInstance(o, Foreign)
        self.near(o.array, reference.attention(q, k, v)[0])


if __name__ == "__main__":
    unittest.main()
