"""Packed sequences: rows of all sequences one after another."""
import typing

import torch

from ..expressions import fail
from .programs import Made, functions, made


def packed(score_mod, mask_mod, cu_q, cu_k, rows):
    """What _attend takes for functions of the sequence's number and of places within the sequence: score_mod, mask_mod, and fields of Own.

    If the functions read tensors at the sequence and the head alone, kernels take cu_q and cu_k themselves. Otherwise, where kernels refuse the mask, and for
    gradients of what the functions read, q and k are rows of all sequences, and tensors give the sequence of each row (by_rows).
    """
    check_bounds(cu_q, None, cu_k)
    has_functions = score_mod is not None or mask_mod is not None
    if has_functions and (torch.compiler.is_compiling() or _code(score_mod, mask_mod) in _refused or _learns(score_mod, mask_mod)):
        return *functions_of(score_mod, mask_mod, rows_of(cu_q, cu_k, rows)), {}
    return score_mod, mask_mod, {"first_queries": cu_q, "first_keys": cu_k}


_refused = set()  # the code of functions that kernels of packed sequences do not take


def _code(*functions):
    return tuple([getattr(function, "__code__", None) for function in functions])


def by_rows(score_mod, mask_mod, cu_q, cu_k, rows):
    """The functions of the rows of all sequences, after kernels of packed sequences have refused them."""
    if all(function is None or hasattr(function, "__code__") for function in (score_mod, mask_mod)):
        _refused.add(_code(score_mod, mask_mod))
    return functions_of(score_mod, mask_mod, rows_of(cu_q, cu_k, rows))


def _learns(score_mod, mask_mod):
    """Whether a gradient of what the functions read is asked for: kernels of packed sequences may not have it."""
    return torch.is_grad_enabled() and any(leaf.requires_grad for leaf in functions(score_mod, mask_mod)[1].leaves)


class Rows(typing.NamedTuple):
    """What each row of queries has to know of its sequence, int32 [T]: its first key and the one behind its last; its first row; and its number."""

    low: torch.Tensor
    end: torch.Tensor
    begin: torch.Tensor
    sequence: torch.Tensor


def rows_of(cu_q, cu_k, count):
    """The Rows of `count` queries, in a few operations of PyTorch. They are not kept: bounds may change in ways that no version counts."""
    cu_q, cu_k = cu_q.int(), cu_k.int()
    row = torch.arange(count, dtype=torch.int32, device=cu_q.device)
    sequence = (torch.searchsorted(cu_q, row, right=True, out_int32=True) - 1).clamp(0, cu_q.shape[0] - 2)
    low = cu_k[sequence]
    return Rows(low, torch.where((row >= cu_q[0]) & (row < cu_q[-1]), cu_k[sequence + 1], low), cu_q[sequence], sequence)


def check_bounds(cu_q, used, *cu_k, name_of_used="seqused_k"):
    for name, given in (("cu_seqlens_q", cu_q), *[("cu_seqlens_k", bounds) for bounds in cu_k]):
        if given is None or given.dim() != 1 or given.dtype not in (torch.int32, torch.int64) or not given.shape[0]:
            what = "None" if given is None else f"{given.dtype} of shape {list(given.shape)}"
            raise ValueError(f"{name} is {what}, but must be int32 or int64 of shape [N + 1]: where each of N sequences begins, and the end")
    sequences = cu_q.shape[0] - 1
    for bounds in cu_k:
        if bounds.shape[0] - 1 != sequences:
            raise ValueError(f"cu_seqlens_q and cu_seqlens_k are of {sequences} and {bounds.shape[0] - 1} sequences, but must be of the same number")
    if used is not None and (tuple(used.shape) != (sequences,) or used.dtype not in (torch.int32, torch.int64)):
        raise ValueError(f"{name_of_used} is {used.dtype} of shape {list(used.shape)}, but must be int32 or int64 of shape [{sequences}]: a length for each sequence")
    if not sequences:
        raise ValueError("cu_seqlens_q has one element, and so no sequence; give it a sequence of no rows")


def functions_of(score_mod, mask_mod, rows):
    """score_mod and mask_mod of the rows of all sequences."""
    low, end, begin, sequence = rows
    score = Made(_score_of_rows, (score_mod, low, begin, sequence)) if score_mod is not None else None
    return score, Made(_mask_of_rows, (mask_mod, low, end, begin, sequence))


def _score_of_rows(score_mod, low, begin, sequence):
    score_mod = made(score_mod)

    def score(s, b, h, q_idx, kv_idx):
        return score_mod(s, sequence[q_idx], h, q_idx - begin[q_idx], kv_idx - low[q_idx])
    return score


def _mask_of_rows(mask_mod, low, end, begin, sequence):
    mask_mod = made(mask_mod)

    def mask(b, h, q_idx, kv_idx):
        visible = (kv_idx >= low[q_idx]) & (kv_idx < end[q_idx])
        if mask_mod is not None:
            visible = visible & mask_mod(sequence[q_idx], h, q_idx - begin[q_idx], kv_idx - low[q_idx])
        return visible
    return mask


def jagged(query, key, value):
    """Nested tensors [B, H, j, E] of the jagged layout as ([1, H, T, E] of each, cu_seqlens_q, cu_seqlens_k)."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not x.is_nested or x.layout != torch.jagged:
            fail(f"{name} is {'a nested tensor of the strided layout' if x.is_nested else 'no nested tensor'}, but query, key and value must be nested tensors of "
                 "torch.jagged all three, or none; make it by torch.nested.nested_tensor(..., layout=torch.jagged)")
        if x.dim() != 4 or x._ragged_idx != 2:
            fail(f"{name} has its jagged dimension at {x._ragged_idx} of {x.dim()}, but must be [B, H, j, E]; transpose it")
        if x.lengths() is not None:
            fail(f"{name} has holes between its sequences; call its contiguous()")
    if key.offsets() is not value.offsets() and not torch.equal(key.offsets(), value.offsets()):
        raise ValueError("key and value are of unlike lengths, but each sequence must have as many rows of value as of key")
    return [x.values().unsqueeze(0) for x in (query, key, value)], query.offsets(), key.offsets()


def nested(x, like):
    """[1, H, T, ...] as a nested tensor of the sequences of `like`."""
    return torch.nested.nested_tensor_from_jagged(x.squeeze(0), like.offsets(), jagged_dim=2)
