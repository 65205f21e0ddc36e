"""attune compiles attention variants, written as Python functions, to CUDA kernels, and for the CPU.

    slopes = numpy.float32(2) ** -numpy.arange(1, 9, dtype=numpy.float32)
    variant = attune.Variant(score=lambda s, b, h, q, k: attune.softcap(s, 50) + slopes[h] * (k - q),
                             mask=lambda b, h, q, k: (q >= k) & (q - k < 128))
    kernel = attune.compile(variant, head_dim=64, dtype="f32", gradients=["slopes"])
    o, lse = kernel(q, k, v, return_lse=True)
    dq, dk, dv, captured = kernel.backward(q, k, v, o, lse, do)

docs/python.md is the guide.
"""
from . import _core
from .errors import Error
from .expressions import (batch_size, broadcast, cast, clamped, cos, exp, exp2, head_count, key_length, log, log2, maximum, minimum, query_length, rsqrt,
                          scalar, select, sigmoid, sin, softcap, sqrt, tan, tanh, tensor, where)
from .kernel import Gradients, Kernel, compile, emit, explain
from .masks_and_scores import (alibi, bias, causal, causal_bottom_right, chunked, documents, key_padding, prefix_lm, relative_bias, sliding_window)
from .variant import Normaliser, Variant

__version__ = _core.version()
