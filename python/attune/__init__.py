"""attune compiles attention variants, written as Python functions, to CUDA kernels, and for the CPU.

    slopes = numpy.float32(2) ** -numpy.arange(1, 9, dtype=numpy.float32)
    variant = attune.Variant(score=lambda s, b, h, q, k: attune.softcap(s, 50) + slopes[h] * (k - q),
                             mask=lambda b, h, q, k: (q >= k) & (q - k < 128))
    kernel = attune.compile(variant, head_dim=64, dtype="f32", gradients=["slopes"])
    o, lse = kernel(q, k, v, return_lse=True)
    dq, dk, dv, captured = kernel.backward(q, k, v, o, lse, do)

docs/guide/python.md is the guide.
"""
from . import _core
from .errors import Error
from .expressions import FUNCTIONS as _functions, batch_size, broadcast, cast, clamped, head_count, key_length, maximum, minimum, query_length, scalar, searchsorted, select, tensor, where
from .kernel import Gradients, Kernel, compile, emit, explain
from .masks_and_scores import (alibi, bias, bigbird, butterfly, causal, causal_bottom_right, chunked, documents, fixed, key_padding, local_global, natten, prefix_lm,
                               relative_bias, sliding_window, sta, strided)
from .variant import Normaliser, Variant

globals().update(_functions)  # exp, tanh, erf, gelu, softcap, ...: `attune list --functions`
__version__ = _core.version()
