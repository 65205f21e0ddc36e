"""Which tensors are what their memory holds, and which are refused by name.

A kernel reads memory. Of a torch.Tensor or torch.nn.Parameter with strides that is the tensor's value, up to a lazy negation, which a launch resolves
(Core.cpp). Other types (FakeTensor, DTensor, subclasses of users) go through PyTorch's dispatcher, which knows what they mean or refuses them.
"""
import torch
from torch.nn.attention.bias import CausalBias

from ..expressions import fail

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


def is_plain(tensors):
    """Whether each is what its memory holds."""
    return all([type(x) in _PLAIN for x in tensors])


def check_kind(tensor, what):
    """Refuses a tensor that no strides describe, or that is only a description of a mask."""
    if isinstance(tensor, CausalBias):
        fail(f"{what} is a CausalBias, which stands for a mask; pass it as attn_mask of attune.torch.scaled_dot_product_attention, or write the mask_mod "
             "q_idx >= kv_idx")
    if tensor.is_nested:
        fail(f"{what} is a nested tensor; pass torch.nested.to_padded_tensor(x, 0.0), and hide the padding by a mask_mod")
    if tensor.layout is not torch.strided:
        fail(f"{what} has layout {tensor.layout}, but must be dense; write x.to_dense()")
    if tensor.is_quantized:
        fail(f"{what} is quantised, {tensor.dtype}; write x.dequantize()")
