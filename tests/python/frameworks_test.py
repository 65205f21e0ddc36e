"""Arrays of PyTorch and JAX, where they are importable: results are of their kind, and right. bf16 in NumPy, where ml_dtypes is."""
import importlib.util
import sys
import unittest

there = {name: importlib.util.find_spec(name) is not None for name in ("torch", "jax", "ml_dtypes", "numpy")}
if not there["numpy"] or not any(there[name] for name in ("torch", "jax", "ml_dtypes")):
    print("none of PyTorch, JAX and ml_dtypes is there; install one to run what concerns it")
    sys.exit(77)

import numpy as np

import attune
import reference

B, H, S, D = 2, 4, 33, 16
CPU = {"target": "cpu", "dtype": "f32"}


def inputs():
    random = np.random.default_rng(0)
    return [random.standard_normal((B, H, S, D), dtype=np.float32) for _ in range(4)]


class Frameworks(unittest.TestCase):
    def near(self, actual, expected, tolerance=2e-5):
        self.assertLessEqual(np.abs(np.asarray(actual, dtype=np.float64) - expected).max(), tolerance * max(1, np.abs(expected).max()))

    def check(self, kind, slopes, convert, numpy_of):
        """ALiBi, whose slopes the function reads, forward and backward."""
        q, k, v, do = inputs()
        kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: s + slopes[h] * (k - q), attune.causal()), head_dim=D, gradients=["slopes"], **CPU)
        arrays = [convert(x) for x in (q, k, v)]
        o, lse = kernel(*arrays, return_lse=True)
        result = kernel.backward(*arrays, o, lse, convert(do))
        for array in (o, lse, *result[:3], result.captured["slopes"]):
            self.assertIsInstance(array, kind)
        b, h, i, j = reference.indices(B, H, S, S)
        plain = numpy_of(slopes).reshape(1, H, 1, 1)
        expected, expected_lse, saved = reference.attention(q, k, v, lambda s: s + plain * (j - i), i >= j)
        self.near(numpy_of(o), expected)
        self.near(numpy_of(lse), expected_lse)
        dq, dk, dv, dx = reference.gradients(q, k, v, do, saved)
        for actual, wanted in zip((*result[:3], result.captured["slopes"]), (dq, dk, dv, (dx * (j - i)).sum((0, 2, 3)))):
            self.near(numpy_of(actual), wanted)

    @unittest.skipUnless(there["torch"], "PyTorch is missing")
    def test_torch(self):
        import torch
        slopes = torch.nn.Parameter(torch.tensor([0.5, 0.25, 0.125, 1.0]))
        self.check(torch.Tensor, slopes, lambda x: torch.from_numpy(x).requires_grad_(), lambda x: x.detach().numpy())
        q = torch.randn(B, S, H, D, dtype=torch.bfloat16).transpose(1, 2)
        o = attune.compile(attune.Variant(), head_dim=D, target="cpu")(q, q, q)
        self.assertEqual((o.dtype, o.stride()), (torch.bfloat16, q.stride()))
        self.near(o.float().numpy(), reference.attention(*[q.float().numpy()] * 3)[0], 2e-2)

    @unittest.skipUnless(there["jax"], "JAX is missing")
    def test_jax(self):
        import jax
        import jax.numpy as jnp
        self.check(jax.Array, jnp.asarray([0.5, 0.25, 0.125, 1.0], jnp.float32), jnp.asarray, np.asarray)
        q = jnp.asarray(inputs()[0]).astype(jnp.bfloat16)
        o = attune.compile(attune.Variant(), head_dim=D, target="cpu")(q, q, q)
        self.assertIsInstance(o, jax.Array)
        self.assertEqual(o.dtype, jnp.bfloat16)
        self.near(o.astype(jnp.float32), reference.attention(*[np.asarray(q.astype(jnp.float32))] * 3)[0], 2e-2)

    @unittest.skipUnless(there["ml_dtypes"], "ml_dtypes is missing")
    def test_bfloat16_in_numpy(self):
        import ml_dtypes
        slopes = np.asarray([0.5, 0.25, 0.125, 1.0], ml_dtypes.bfloat16)
        q = inputs()[0].astype(ml_dtypes.bfloat16)
        kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: s + slopes[h] * (k - q)), head_dim=D, target="cpu", gradients=["slopes"])
        o, lse = kernel(q, q, q, return_lse=True)
        result = kernel.backward(q, q, q, o, lse, o)
        for array in (o, *result[:3], result.captured["slopes"]):
            self.assertEqual(array.dtype, ml_dtypes.bfloat16)
        b, h, i, j = reference.indices(B, H, S, S)
        plain = slopes.astype(np.float64).reshape(1, H, 1, 1)
        self.near(o, reference.attention(*[q.astype(np.float32)] * 3, lambda s: s + plain * (j - i))[0], 2e-2)


if __name__ == "__main__":
    unittest.main()
