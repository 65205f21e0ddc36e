"""flex_attention and scaled_dot_product_attention on attune's kernels."""
import math
import typing
import warnings

import torch
from torch.nn.attention import flex_attention as torch_flex
from torch.nn.attention.bias import CausalBias, CausalVariant

from .. import _core
from ..errors import Error
from ..expressions import fail
from ..masks_and_scores import causal_bottom_right
from .kinds import check_kind, is_plain
from .masks import UNLIMITED, mask_of
from .numbers import Changed
from .ops import Layout, attend, is_recorded, kept, layout_of
from .packed import by_rows, check_bounds, jagged, nested, packed
from .programs import RUNTIME, Definition, Program, changed, constant, functions, made, program, recorded_program, settings, walks
from .tracing import Own

_warned = set()


def _warn_once(text):
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, kernel_options=None, *,
                   return_aux=None, dropout_p=0.0, deterministic=False, normaliser=None, sink=None, key_lengths=None, query_lengths=None, cu_seqlens_q=None,
                   cu_seqlens_k=None, block_table=None):
    """Attention, as torch.nn.attention.flex_attention.flex_attention computes it, and with the same arguments.

    query [B, Hq, L, E], key [B, Hkv, S, E], value [B, Hkv, S, Ev], of bfloat16, float16 or float32 and any strides; E and Ev up to 576. Returns
    [B, Hq, L, Ev]; with return_lse (output, LSE), with return_aux (output, AuxOutput); LSE is float32 [B, Hq, L] and differentiable.

    score_mod(score, b, h, q_idx, kv_idx) and block_mask's mask_mod(b, h, q_idx, kv_idx) are traced once for as long as what they depend on stays.
    Tensors that score_mod reads and that require grad have their gradients.

    Beyond FlexAttention:
    dropout_p       probability, drawn by PyTorch's generator of the device
    deterministic   gradients are bit-equal in each run
    normaliser      "softmax", "sigmoid", "none", or an attune.Normaliser, as attune.Variant takes it
    sink            float32 [Hq]: a logit of each head in softmax's denominator
    key_lengths     int32 or int64 [B]: sequence b has so many of the S keys. What key and value hold behind them, NaN too, reaches nothing
    query_lengths   the same of the rows of query; behind them output is 0, LSE -inf, and gradients are 0
    block_table     int32 or int64 [B, N], without gradients: key k of sequence b is row k % size of page block_table[b, k // size]; key [P, Hkv, size, E] and value
                    [P, Hkv, size, Ev] hold the pages, and there are N size keys, of which key_lengths leaves some. Entries behind a length may hold anything
    cu_seqlens_q    int32 or int64 [N + 1], for a batch of 1: N packed sequences, of which number n has the rows of query from cu_seqlens_q[n] to
                    cu_seqlens_q[n + 1]. The functions get n as b, and q_idx and kv_idx within the sequence; sequences see nothing of each other. Rows of all must be finite where the
                    functions read tensors at q_idx or kv_idx, or gradients of what they read are asked for
    cu_seqlens_k    the same of the keys, without it those of the rows. Left out with block_table [N, pages], where key_lengths [N] says how many keys there are

    Nested tensors [B, H, j, E] of the jagged layout are packed sequences, too; what it returns is nested then.

    kernel_options are Triton's and ignored. Errors are attune.Error with the user's line, what shapes do not fit ValueError.
    """
    if kernel_options:
        _warn_once("attune ignores kernel_options, which choose Triton's schedules; attune's are chosen by its cost model and by attune tune")
    if return_lse and return_aux is not None:
        raise ValueError("return_lse and return_aux are both given; return_aux=AuxRequest(lse=True) asks for LSE, too")
    if return_aux is not None and return_aux.max_scores:
        fail("return_aux asks for max_scores, which attune's kernels do not give, as their maxima are of rescaled scores; ask for lse alone, which is at least a row's "
             "maximum and at most log(S) above it, or compute the maxima by torch.nn.attention.flex_attention")
    with_lse = return_lse or return_aux is not None and return_aux.lse
    mask_mod, blocks = (None, None) if block_mask is None else mask_of(block_mask)
    own = Own(blocks=blocks, sink=sink, key_lengths=key_lengths, query_lengths=query_lengths, block_table=block_table)
    like = query if query.is_nested or key.is_nested or value.is_nested else None
    if like is not None:
        if cu_seqlens_q is not None or cu_seqlens_k is not None:
            raise ValueError("query is nested, and cu_seqlens are given, too; leave them out")
        (query, key, value), cu_seqlens_q, cu_seqlens_k = jagged(query, key, value)
    if cu_seqlens_q is not None or cu_seqlens_k is not None:
        _check_packed(query, blocks, key_lengths, query_lengths, cu_seqlens_k, block_table)
        if block_table is None:
            score_mod, mask_mod, bounds = packed(score_mod, mask_mod, cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k, query.shape[2])
            own = Own(sink=sink, **bounds)
        else:
            check_bounds(cu_seqlens_q, key_lengths, name_of_used="key_lengths")
            own = own._replace(first_queries=cu_seqlens_q)
        block_mask = None
    try:
        output, lse = _attend(query, key, value, score_mod, mask_mod, block_mask, enable_gqa, scale, dropout_p, deterministic, with_lse, normaliser, own)
    except Error as error:
        if own.first_keys is None or "packed sequences do not take" not in str(error):
            raise
        score_mod, mask_mod = by_rows(score_mod, mask_mod, own.first_queries, own.first_keys, query.shape[2])
        output, lse = _attend(query, key, value, score_mod, mask_mod, None, enable_gqa, scale, dropout_p, deterministic, with_lse, normaliser, Own(sink=sink))
    if like is not None:
        output, lse = nested(output, like), nested(lse, like) if with_lse else None
    if return_aux is not None:
        return output, torch_flex.AuxOutput(lse=lse if with_lse else None, max_scores=None)
    return (output, lse) if return_lse else output


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *, key_lengths=None,
                                 query_lengths=None):
    """torch.nn.functional.scaled_dot_product_attention on attune's kernels, with the same arguments and meaning.

    attn_mask is bool (True is visible), a bias of float32 or query's dtype, broadcastable to [B, Hq, L, S], or a CausalBias of torch.nn.attention.bias; a
    bias that requires grad has its gradient. Of query, key and value of rank 3 the batch is 1. key_lengths and query_lengths are as flex_attention takes
    them: a mask in memory hides keys, but says nothing of lengths before a kernel reads it. Nested tensors [B, H, j, E] of the jagged layout are taken without
    attn_mask and give a nested tensor.
    """
    if query.is_nested:
        if key_lengths is not None or query_lengths is not None:
            fail("key_lengths and query_lengths are given with nested tensors, which have their lengths; leave them out")
        if attn_mask is not None:
            fail("attn_mask is given with nested tensors; write the mask as a mask_mod of flex_attention, which sees places within a sequence")
        rows, cu_q, cu_k = jagged(query, key, value)
        check_bounds(cu_q, None, cu_k)
        output, _ = _attend(*rows, None, _causal if is_causal else None, None, enable_gqa, scale, dropout_p, False, False, None,
                            Own(first_queries=cu_q, first_keys=cu_k))
        return nested(output, query)
    if query.dim() == 3:
        return scaled_dot_product_attention(*[x.unsqueeze(0) for x in (query, key, value)], attn_mask, dropout_p, is_causal, scale, enable_gqa,
                                            key_lengths=key_lengths, query_lengths=query_lengths).squeeze(0)
    mask_mod = _causal if is_causal else None
    if attn_mask is not None:
        if is_causal:
            raise ValueError("attn_mask and is_causal are both given; leave one out")
        if isinstance(attn_mask, CausalBias):
            mask_mod, attn_mask = _of_causal_bias(attn_mask, query, key), None
        else:
            check_kind(attn_mask, "attn_mask")
            if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
                fail(f"attn_mask is {attn_mask.dtype}, but must be torch.bool, torch.float32 or query's {query.dtype}; write attn_mask.bool() where it says "
                     "what is visible")
            attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return _attend(query, key, value, None, mask_mod, None, enable_gqa, scale, dropout_p, False, False, None,
                   Own(attn_mask=attn_mask, key_lengths=key_lengths, query_lengths=query_lengths))[0]


def _check_packed(query, blocks, key_lengths, query_lengths, cu_k, block_table):
    if query.dim() != 4 or query.shape[0] != 1:
        raise ValueError(f"query has shape {list(query.shape)}, but with cu_seqlens must have a batch of 1: [1, H, T, E]")
    if blocks is not None:
        fail("block_mask is PyTorch's, whose blocks are not of packed sequences; make it by attune.torch.create_block_mask")
    if block_table is not None and cu_k is not None:
        fail("cu_seqlens_k is given with block_table, whose pages hold the keys of each sequence; give their numbers as key_lengths")
    if query_lengths is not None or (key_lengths is not None and block_table is None):
        fail("key_lengths and query_lengths are given with cu_seqlens, which say the lengths; leave them out, or hide keys in mask_mod by their place")


def _of_causal_bias(bias, query, key):
    """The mask_mod that a CausalBias stands for. Rows that see no key are 0."""
    lengths, given = (bias.seq_len_q, bias.seq_len_kv), (query.shape[2], key.shape[2])
    if lengths != given:
        raise ValueError(f"attn_mask is a CausalBias of {lengths[0]} queries and {lengths[1]} keys, but query and key have {given[0]} and {given[1]}; make "
                         "one of these lengths")
    return _causal if bias.variant == CausalVariant.UPPER_LEFT else _causal_bottom_right


def _causal(b, h, q, k):
    return q >= k


def _causal_bottom_right(b, h, q, k):
    return causal_bottom_right()(b.expr, h.expr, q.expr, k.expr)


class _Case(typing.NamedTuple):
    """What follows from the options of a call, its functions, and the dtypes, devices, extents and strides of its tensors."""

    program: Program
    fits: bool  # whether _fitted leaves query, key and value as they are
    layout: Layout  # of what it gives; None where PyTorch sees the operation


def _attend(query, key, value, score_mod, mask_mod, block_mask, enable_gqa, scale, dropout_p, deterministic, with_lse, normaliser, own):
    """O, and LSE or None. score_mod and mask_mod may be Made, then both or the other None. """
    is_compiling = torch.compiler.is_compiling()
    if is_compiling or torch._C._is_any_autocast_enabled():
        kind = query.device.type
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
            query, key, value = [x if x.dtype == dtype else x.to(dtype) for x in (query, key, value)]
    if not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p is {dropout_p}, but must be at least 0 and below 1")
    if isinstance(scale, torch.Tensor) and scale.requires_grad and torch.is_grad_enabled():
        fail("scale is a tensor that requires grad, and would have no gradient; multiply query by it, or the score in score_mod, with scale=1.0")
    own = own._replace(sink=own.sink.float() if own.sink is not None else None,
                       **{name: of.int() if of is not None else None for name, of in zip(own._fields[5:], own[5:])})
    given = [x for x in own if x is not None]
    has_dropout = True if dropout_p else False
    if torch.compiler.is_dynamo_compiling():
        call = _Call(query, key, value, score_mod, mask_mod, block_mask, enable_gqa, scale, has_dropout, normaliser, own)
        compiled_for = constant(scale) if scale is not None else None
        recorded = recorded_program(score_mod, mask_mod, _definition(call, compiled_for), compiled_for, query.device.type)
        if recorded is None:  # after a graph break
            return torch._dynamo.disable(_attend)(query, key, value, score_mod, mask_mod, block_mask, enable_gqa, scale, dropout_p, deterministic, with_lse,
                                                  normaliser, own)
        found, captured, scalars = recorded
        case = _Case(found, False, None)
    else:
        score_mod, mask_mod = made(score_mod), made(mask_mod)
        scale = float(scale) if scale is not None else None
        mask = (block_mask.shape, tuple(block_mask.BLOCK_SIZE)) if block_mask is not None else None
        options = (settings(), scale, mask, not enable_gqa, has_dropout, normaliser)
        is_direct = not is_recorded((query, key, value, *given), is_compiling)
        known = None
        if is_direct:
            known = walks.find(score_mod, mask_mod, options, query, key, value, own)
            if known is None and scale is not None:
                known = walks.find(score_mod, mask_mod, _with_scale(options, RUNTIME), query, key, value, own)
        call = None if known else _Call(query, key, value, score_mod, mask_mod, block_mask, enable_gqa, scale, has_dropout, normaliser, own)
        case, captured, numbers = known or _case(call, options, is_direct)
        scalars = ()
        if case.program.numbers:
            try:
                scalars = case.program.scalars([*numbers, scale])
            except Changed:
                changed(score_mod, mask_mod, case.program)
                call = _Call(query, key, value, score_mod, mask_mod, block_mask, enable_gqa, scale, has_dropout, normaliser, own)
                case, captured, numbers = _case(call, options, is_direct)
                scalars = case.program.scalars([*numbers, scale])
    found, fits, layout = case
    captured = captured + given
    if not found.are_leaves:
        captured = _placed(found.captured(captured), found.names, query.device)
    if fits:
        return attend(found, layout, query, key, value, captured, scalars, dropout_p, deterministic, with_lse)
    columns = constant(value.shape[3])
    output, lse = attend(found, layout, *_fitted(query, key, value, own.block_table is not None), captured, scalars, dropout_p, deterministic, with_lse)
    return output[..., :columns] if columns % 8 else output, lse


class _Call(typing.NamedTuple):
    """The arguments of a call that a program depends on."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    score_mod: object
    mask_mod: object
    block_mask: object
    enable_gqa: bool
    scale: object
    dropout: bool
    normaliser: object
    own: Own


def _with_scale(options, scale):
    return (options[0], scale, *options[2:])


def _case(call, options, is_direct):
    """The case of a call, the leaves of its functions, and their numbers. `is_direct` says that no graph or mode sees the operation."""
    known, reads = functions(call.score_mod, call.mask_mod)
    scale = call.scale
    if scale is not None and known.scales.get(call.query.shape[3], scale) != scale:
        scale = RUNTIME
    options = _with_scale(options, scale)
    layouts = _core.layouts(call.query, call.key, call.value, call.own) if is_direct and is_plain(reads.leaves) else None
    case = known.cases.get((layouts, options, *known.shapes(reads.leaves)))
    if case is not None:
        if case.program.are_leaves:
            _placed(reads.leaves, case.program.names, call.query.device)
        return case, reads.leaves, reads.numbers
    found = program(call.score_mod, call.mask_mod, _definition(call, scale), call.query.device)
    if found.lasting:
        known, _ = functions(call.score_mod, call.mask_mod)
        if scale is not None:
            known.scales.setdefault(call.query.shape[3], call.scale)
    if layouts is None:
        return _Case(found, False, None), reads.leaves, reads.numbers
    if found.are_leaves:
        _placed(reads.leaves + [x for x in call.own if x is not None], found.names, call.query.device)
    fitted = _fitted(call.query, call.key, call.value, call.own.block_table is not None)
    fits = fitted[0] is call.query and fitted[1] is call.key and fitted[2] is call.value
    case = _Case(found, fits, layout_of(*fitted))
    if found.lasting:
        kept(known.cases, (layouts, options, *known.shapes(reads.leaves)), case)
    return case, reads.leaves, reads.numbers


def _placed(tensors, names, device):
    """Captured tensors as kernels take them: of one dimension at least."""
    placed = tensors
    for i, tensor in enumerate(tensors):
        check_kind(tensor, f"captured tensor \"{names[i]}\"")
        if tensor.dim() == 0:
            placed = [*placed[:i], tensor.to(device, non_blocking=True).reshape(1), *placed[i + 1:]]
        elif tensor.device != device:
            fail(f"captured tensor \"{names[i]}\" is on {tensor.device}, but query is on {device}; move it there")
    return placed


def _definition(call, scale):
    """The Definition for these arguments, which are checked. `scale` is a constant, None or RUNTIME."""
    query, key, value, _, _, block_mask, enable_gqa, _, dropout, normaliser, (blocks, attn_mask, sink, *lengths, first_queries, _, block_table) = call
    sequences = query.shape[0] if first_queries is None else first_queries.shape[0] - 1
    _check(query, key, value, sequences, enable_gqa, block_table)
    for what, given in zip(("key_lengths", "query_lengths"), lengths):
        if given is not None and (given.dtype not in (torch.int32, torch.int64) or tuple(given.shape) != (sequences,)):
            raise ValueError(f"{what} is {given.dtype} of shape {list(given.shape)}, but must be int32 or int64 of shape [{sequences}]: a length for each sequence")
    if block_mask is not None:
        _check_lengths(block_mask, query, key.shape[2] if block_table is None else key.shape[2] * block_table.shape[1])
    if sink is not None and sink.shape != query.shape[1:2]:
        raise ValueError(f"sink has shape {list(sink.shape)}, but must have one logit for each of query's {query.shape[1]} heads")
    head_dim = constant(query.shape[3])
    if scale is None and head_dim % 8:
        scale = 1 / math.sqrt(head_dim)
    elif scale == 1 / math.sqrt(head_dim) and not head_dim % 8:
        scale = None
    block_size = tuple([constant(size) for size in block_mask.BLOCK_SIZE]) if blocks is not None else None
    shared = (blocks.shape[0] == 1, blocks.shape[1] == 1) if blocks is not None else None
    return Definition(block_size, shared, attn_mask.dtype if attn_mask is not None else None, sink is not None,
                      tuple([given.dtype if given is not None else None for given in lengths]),
                      first_queries is not None, constant(key.shape[2]) if block_table is not None else None, scale, dropout, normaliser)


def _fitted(query, key, value, is_paged):
    """The three, of one batch and of columns that kernels have."""
    batch, columns, columns_v = query.shape[0], constant(query.shape[3]), constant(value.shape[3])
    if key.shape[0] != batch and not is_paged:
        key, value = key.expand(batch, -1, -1, -1), value.expand(batch, -1, -1, -1)
    if columns % 8:
        query, key = (torch.nn.functional.pad(x, (0, -columns % 8)) for x in (query, key))
    if columns_v % 8:
        value = torch.nn.functional.pad(value, (0, -columns_v % 8))
    return query, key, value


def _check(query, key, value, sequences, enable_gqa, block_table):
    for tensor, what in ((query, "query"), (key, "key"), (value, "value")):
        check_kind(tensor, what)
    shapes = query.shape, key.shape, value.shape
    if not len(shapes[0]) == len(shapes[1]) == len(shapes[2]) == 4:
        raise ValueError(f"query, key and value have {len(shapes[0])}, {len(shapes[1])} and {len(shapes[2])} dimensions, but must have 4: [B, H, S, E]")
    (batch, heads, _, columns), (key_batch, key_heads, keys, key_columns), (value_batch, value_heads, values, _) = shapes
    if columns != key_columns:
        raise ValueError(f"query and key have {columns} and {key_columns} columns, but must have the same")
    if keys != values or key_heads != value_heads or key_batch != value_batch:
        raise ValueError(f"key and value are {list(shapes[1])} and {list(shapes[2])}, but must have the same batch, heads and length")
    if heads != key_heads:
        if not enable_gqa:
            raise ValueError(f"query and key have {heads} and {key_heads} heads, but must have the same number without enable_gqa=True")
        if not key_heads or heads % key_heads:
            raise ValueError(f"query has {heads} heads and key {key_heads}, but the heads of query must be a multiple of those of key")
    if block_table is not None and (block_table.dim() != 2 or block_table.shape[0] != sequences or block_table.dtype.is_floating_point or block_table.dtype.is_complex):
        raise ValueError(f"block_table is {block_table.dtype} of shape {list(block_table.shape)}, but must be int32 or int64 of shape [{sequences}, N]: the pages of each "
                         "sequence")
    if block_table is None and batch != key_batch and key_batch != 1:
        raise ValueError(f"query and key have batches {batch} and {key_batch}, but must have the same, or key and value 1")
    if not query.device == key.device == value.device:
        raise ValueError(f"query, key and value are on {query.device}, {key.device} and {value.device}, but must be on one device")
    for what, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dtype.itemsize == 1 and tensor.dtype.is_floating_point:
            fail(f"{what} is {tensor.dtype}, but attune has no kernels for 8-bit floats yet; convert query, key and value to bfloat16, times their scales")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(f"query, key and value are {query.dtype}, {key.dtype} and {value.dtype}, but must be of one dtype")


def _check_lengths(block_mask, query, keys):
    lengths = block_mask.shape[-2:]
    if tuple(lengths) != (query.shape[2], keys) and min(block_mask.BLOCK_SIZE) < UNLIMITED:
        raise ValueError(f"block_mask is of {lengths[0]} queries and {lengths[1]} keys, but query and key have {query.shape[2]} and {keys}; make a mask "
                         "of these lengths")
    for what, extent, size in (("batch", block_mask.shape[0], query.shape[0]), ("number of heads", block_mask.shape[1], query.shape[1])):
        if len(block_mask.shape) == 4 and extent not in (1, size):
            raise ValueError(f"block_mask has a {what} of {extent}, but query has {size}; give create_block_mask the same, or None")
