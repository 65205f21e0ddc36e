"""attune in torchtitan, whose models then take its modules as their inner attention.

    torchtitan_train ... --override.imports attune.torchtitan.varlen attune.torchtitan.flex

docs/guide/serving.md is the guide.
"""
import inspect
from dataclasses import dataclass

import spmd_types
from torchtitan.config import derive, override
from torchtitan.models.common import attention

from .expressions import fail
from .torch.attention import flex_attention, scaled_dot_product_attention
from .torch.flash import flash_attn_varlen_func


def _theirs(*names):
    """The first of these classes that this torchtitan has."""
    for name in names:
        if hasattr(attention, name):
            return getattr(attention, name)
    fail(f"torchtitan has none of {', '.join(names)}; install 0.3.0, with which attune was tested")


_Varlen = _theirs("VarlenInnerAttention", "VarlenAttention")
_Flex = _theirs("FlexInnerAttention", "FlexAttention")
_Sdpa = _theirs("ScaledDotProductInnerAttention", "ScaledDotProductAttention")


def _called_as(theirs):
    """A decorator: forward has the names of theirs, by which torchtitan's shardings find its arguments."""
    def decorate(forward):
        forward.__signature__ = inspect.signature(theirs.forward)
        return forward
    return decorate


class VarlenAttention(_Varlen):
    """Attention of packed documents: query [T, H, D], or [B, L, H, D] of B L = T rows, key and value of the same rank, and bounds of the documents.

    window_size is torchtitan's: how many keys before and after its own a query sees; -1 is no limit. The dtype is query's, float32 too. `out_transform` gets
    the output and the LSE [T, H] or [B, L, H], float32 and differentiable.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(_Varlen.Config):
        pass

    def __init__(self, config):
        super(_Varlen, self).__init__()  # theirs chooses PyTorch's kernels
        self.window_size = config.window_size

    @_called_as(_Varlen)
    def forward(self, query, key, value, *, attention_masks=None, attention_metadata=None, scale=None, out_transform=None, **_):
        _refuse_typechecking()
        bounds = attention_metadata if attention_masks is None else attention_masks
        if not hasattr(bounds, "cu_seq_q"):
            fail(f"the metadata is of type {type(bounds).__name__}, but must be what torchtitan makes for VarlenAttention, with cu_seq_q and cu_seq_k")
        rows = [x.flatten(0, -3) for x in (query, key, value)]
        found = flash_attn_varlen_func(*rows, bounds.cu_seq_q, bounds.cu_seq_k, softmax_scale=scale, window_size=self.window_size,
                                       return_attn_probs=out_transform is not None)
        if out_transform is None:
            return found.unflatten(0, query.shape[:-2])
        return out_transform(found[0].unflatten(0, query.shape[:-2]), found[1].transpose(0, 1).unflatten(0, query.shape[:-2]))


class FlexAttention(_Flex):
    """Attention with a mask, query [T, H, D] or [B, L, H, D]: a BlockMask of torchtitan's, which are PyTorch's, or of attune.torch.create_block_mask.

    block_size is of the masks that torchtitan makes; kernel_options, which are Triton's, are not read.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(_Flex.Config):
        pass

    @_called_as(_Flex)
    def forward(self, query, key, value, *, attention_masks=None, attention_metadata=None, score_mod=None, scale=None, enable_gqa=False, out_transform=None, **_):
        _refuse_typechecking()
        block_mask = attention_metadata if attention_masks is None else attention_masks
        is_packed = query.dim() == 3
        operands = [(x.unsqueeze(0) if is_packed else x).transpose(1, 2) for x in (query, key, value)]
        output, lse = flex_attention(*operands, score_mod, block_mask, scale, enable_gqa, return_lse=True) if out_transform is not None else (
            flex_attention(*operands, score_mod, block_mask, scale, enable_gqa), None)
        output, lse = [x.transpose(1, 2) if x is not None else None for x in (output, lse)]
        if is_packed:
            output, lse = [x.squeeze(0) if x is not None else None for x in (output, lse)]
        return output if out_transform is None else out_transform(output, lse)


class ScaledDotProductAttention(_Sdpa):
    """Attention without documents, [B, L, H, D], as Flux has it: is_causal is torchtitan's."""

    @dataclass(kw_only=True, slots=True)
    class Config(_Sdpa.Config):
        pass

    @_called_as(_Sdpa)
    def forward(self, query, key, value, *, attention_masks=None, attention_metadata=None, scale=None, enable_gqa=False, is_causal=True, **_):
        _refuse_typechecking()
        if attention_masks is not None or attention_metadata is not None:
            fail("a mask is given to ScaledDotProductAttention, which has is_causal alone; take VarlenAttention or FlexAttention")
        return scaled_dot_product_attention(*[x.transpose(1, 2) for x in (query, key, value)], scale=scale, is_causal=is_causal,
                                            enable_gqa=enable_gqa).transpose(1, 2)


@override(target=_Varlen.Config, exact=True, description="attune's kernels of packed documents")
def varlen(config):
    """torchtitan's override of VarlenAttention."""
    return derive(config, VarlenAttention.Config)


@override(target=_Flex.Config, exact=True, description="attune's kernels of any mask")
def flex(config):
    """torchtitan's override of FlexAttention."""
    return derive(config, FlexAttention.Config)


@override(target=_Sdpa.Config, exact=True, description="attune's kernels of attention without documents")
def sdpa(config):
    """torchtitan's override of ScaledDotProductAttention."""
    return derive(config, ScaledDotProductAttention.Config)


def _refuse_typechecking():
    if spmd_types.is_type_checking():
        fail("spmd_types checks types, but has none for attune's operations; leave out --debug.spmd_typechecking")
