"""Models that call torch.nn.functional.scaled_dot_product_attention, on attune's kernels."""
import collections
import threading

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .attention import scaled_dot_product_attention

_original = functional.scaled_dot_product_attention
_lock = threading.Lock()
_active = collections.Counter()  # by thread: how many contexts it is in


def _replaced(*args, **kwargs):
    """What torch.nn.functional calls while any thread is in a context."""
    of = scaled_dot_product_attention if torch.compiler.is_dynamo_compiling() or threading.get_ident() in _active else _original
    return of(*args, **kwargs)


class sdpa_kernel(TorchFunctionMode):
    """Runs torch.nn.functional.scaled_dot_product_attention on attune in this thread while it is active:

        with attune.torch.sdpa_kernel():
            images = pipeline(prompt)

    It reaches calls in Python, such as those of torch.nn.MultiheadAttention, timm and diffusers, under torch.compile, too; not those of PyTorch's C++, which
    torch.nn.TransformerEncoderLayer makes in eval mode. A call that attune does not support raises an error; there is no fallback. The backward pass may run outside.
    """

    # The mode sees the function under any name. It is off within a function that it has seen, such as multi_head_attention_forward, so that the name
    # in torch.nn.functional changes as well.

    def __enter__(self):
        if not torch.compiler.is_dynamo_compiling():
            with _lock:
                _active[threading.get_ident()] += 1
                functional.scaled_dot_product_attention = _replaced
        return super().__enter__()

    def __exit__(self, *raised):
        super().__exit__(*raised)
        if not torch.compiler.is_dynamo_compiling():
            with _lock:
                thread = threading.get_ident()
                _active[thread] -= 1
                if not _active[thread]:
                    del _active[thread]
                if not _active:
                    functional.scaled_dot_product_attention = _original

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is _original:
            func = scaled_dot_product_attention
        return func(*args, **(kwargs or {}))
