"""FlashAttention's functions and PyTorch's varlen_attn on attune's kernels."""
import torch
from torch.nn.attention.flex_attention import and_masks

from ..expressions import fail
from .attention import _attend, _causal, _causal_bottom_right
from .packed import check_bounds, functions_of, rows_of
from .programs import Made, constant, graph_number
from .tracing import Own


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                    return_attn_probs=False):
    """Attention with the arguments and the meaning of flash_attn.flash_attn_func.

    q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv] of bfloat16, float16 or float32 and any strides; H is a multiple of Hkv. Returns
    [B, Sq, H, Dv]; with return_attn_probs (output, LSE float32 [B, H, Sq], None), for dropout_p 0 alone.

    causal and window_size = (left, right) are aligned to the bottom right: the last query's own key is the last one; -1 is no limit. softcap c > 0 makes scores
    c tanh(score / c). alibi_slopes, float32 [H] or [B, H], subtracts slope times the distance from scores. Gradients of q, k and v; of the slopes, too, where
    they require grad. Rows that see no key give 0.
    """
    _check_rank({"q": q, "k": k, "v": v}, 4, "[B, S, H, D]")
    _check_probabilities(return_attn_probs, dropout_p)
    left, right = _sides(window_size, causal)
    shift = k.shape[1] - q.shape[1]
    mask = _dense_mask(left, right, shift, q.device)
    score = _score(softcap, alibi_slopes, q.shape[2], q.shape[0], graph_number(shift, q.device) if alibi_slopes is not None else None)
    output, lse = _attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), score, mask, None, True, softmax_scale, dropout_p, deterministic,
                          return_attn_probs, None, Own())
    output = output.transpose(1, 2)
    return (output, lse, None) if return_attn_probs else output


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, dropout_p=0.0, softmax_scale=None, causal=False,
                           window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False, block_table=None, *,
                           seqused_k=None):
    """Attention of packed sequences with the arguments and the meaning of flash_attn.flash_attn_varlen_func.

    q [Tq, H, D], k [Tk, Hkv, D], v [Tk, Hkv, Dv]; cu_seqlens_q and cu_seqlens_k, int32 or int64 [N + 1] on their device: sequence n has the rows from
    cu_seqlens_q[n] to cu_seqlens_q[n + 1] and the keys from cu_seqlens_k[n] to cu_seqlens_k[n + 1], of which seqused_k, int32 or int64 [N], leaves so many.
    Sequences may be empty. The longest lengths are not needed and not read. Returns [Tq, H, Dv]; with return_attn_probs (output, LSE float32 [H, Tq], None),
    for dropout_p 0 alone. A row that sees no key, or belongs to no sequence, has output 0 and LSE -inf, and what k and v hold behind a sequence's keys
    reaches nothing, except where alibi_slopes [N, H] require grad: k and v must be finite then.

    The other arguments are flash_attn_func's, within each sequence.

    With block_table, int32 or int64 [N, pages], without gradients, k is [P, size, Hkv, D] and v [P, size, Hkv, Dv]: key i of sequence n is row i % size of page
    block_table[n, i // size]. Sequence n has seqused_k[n] keys, without seqused_k cu_seqlens_k[n + 1] - cu_seqlens_k[n].
    """
    _check_rank({"q": q}, 3, "[T, H, D]")
    _check_rank({"k": k, "v": v}, *((3, "[T, H, D]") if block_table is None else (4, "[P, size, H, D]")))
    _check_probabilities(return_attn_probs, dropout_p)
    check_bounds(cu_seqlens_q, seqused_k, *(() if block_table is not None and cu_seqlens_k is None else (cu_seqlens_k,)))
    shift = None  # what to add to a row's place for its place among the keys
    if block_table is not None:
        if seqused_k is None and cu_seqlens_k is None:
            raise ValueError("block_table is given without seqused_k and cu_seqlens_k, of which one says how many keys each sequence has")
        seqused_k = cu_seqlens_k.diff() if seqused_k is None else seqused_k
        cu_seqlens_k, shift = None, seqused_k.int().clamp(0, block_table.shape[-1] * k.shape[1]) - cu_seqlens_q.diff().int()
    elif cu_seqlens_q is not cu_seqlens_k or seqused_k is not None:
        keys = cu_seqlens_k.diff().int()
        shift = (keys if seqused_k is None else torch.minimum(seqused_k.int(), keys)) - cu_seqlens_q.diff().int()
    left, right = _sides(window_size, causal)
    mask = None
    if left >= 0 or right >= 0:
        mask = Made(_causal_of_sequences, (shift,)) if left < 0 and right == 0 else Made(_sequence_mask, (*_limits(left, right, q.device), shift, None))
    score = _score(softcap, alibi_slopes, q.shape[1], cu_seqlens_q.shape[0] - 1, shift)
    own = Own(key_lengths=seqused_k, first_queries=cu_seqlens_q, first_keys=cu_seqlens_k, block_table=block_table)
    if block_table is None and alibi_slopes is not None and alibi_slopes.dim() == 2 and alibi_slopes.requires_grad and torch.is_grad_enabled():
        (score, mask), own = _of_rows(score, mask, cu_seqlens_q, cu_seqlens_k, seqused_k, q.shape[0]), Own()
    keys = [x.transpose(0, 1).unsqueeze(0) if block_table is None else x.transpose(1, 2) for x in (k, v)]
    output, lse = _attend(q.transpose(0, 1).unsqueeze(0), *keys, score, mask, None, True, softmax_scale, dropout_p, deterministic, return_attn_probs, None, own)
    output = output.squeeze(0).transpose(0, 1)
    return (output, lse.squeeze(0), None) if return_attn_probs else output


def varlen_attn(query, key, value, cu_seq_q, cu_seq_k=None, max_q=None, max_k=None, *, return_aux=None, scale=None, window_size=(-1, -1), enable_gqa=False,
                seqused_k=None, block_table=None, num_splits=None):
    """Attention of packed sequences with the arguments and the meaning of torch.nn.attention.varlen.varlen_attn.

    Shapes and sequences are flash_attn_varlen_func's. Returns [Tq, H, Dv]; with return_aux=AuxRequest(lse=True) (output, LSE float32 [H, Tq]). num_splits
    may be 1: the order of sums does not depend on other sequences.
    """
    if query.dim() == 3 and key.dim() > 2 and query.shape[1] != key.shape[-2] and not enable_gqa:
        raise ValueError(f"query and key have {query.shape[1]} and {key.shape[-2]} heads, but must have the same number without enable_gqa=True")
    if num_splits not in (None, 1):
        fail(f"num_splits is {num_splits}, but packed sequences are not split; leave it out")
    with_lse = return_aux is not None and return_aux.lse
    found = flash_attn_varlen_func(query, key, value, cu_seq_q, cu_seq_k, softmax_scale=scale, window_size=window_size, return_attn_probs=with_lse,
                                   block_table=block_table, seqused_k=seqused_k)
    return found[:2] if with_lse else found


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None, cache_batch_idx=None,
                            cache_leftpad=None, block_table=None, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                            rotary_interleaved=True, alibi_slopes=None, num_splits=0, return_softmax_lse=False):
    """Attention to a cache of keys with the arguments and the meaning of flash_attn.flash_attn_with_kvcache.

    q [B, Sq, H, D], k_cache [B, Sc, Hkv, D], v_cache [B, Sc, Hkv, Dv]. k and v, [B, Sn, Hkv, D and Dv], are first written to the caches behind
    the first cache_seqlens[b] keys, in place. cache_seqlens is an int or int32 or int64 [B]; without it the caches are full. cache_leftpad, the same,
    hides the first keys. Returns [B, Sq, H, Dv], with return_softmax_lse (output, LSE float32 [B, H, Sq]). The other arguments are flash_attn_func's; how
    keys are split is chosen by the cost model, and num_splits is not read.

    With block_table, int32 or int64 [B, N], the caches are [P, size, Hkv, D and Dv], and key k of sequence b is row k % size of page block_table[b, k // size].

    Refused: rotary_cos and rotary_sin (rotate q and k before the call), cache_batch_idx (index the caches).
    """
    for name, given, instead in (("rotary_cos", rotary_cos, "rotate q and k before the call"), ("rotary_sin", rotary_sin, "rotate q and k before the call"),
                                 ("cache_batch_idx", cache_batch_idx, "pass k_cache[cache_batch_idx] and v_cache[cache_batch_idx]")):
        if given is not None:
            fail(f"{name} is not supported; {instead}")
    _check_rank({"q": q, "k_cache": k_cache, "v_cache": v_cache}, 4, "[B, S, H, D]")
    batch, rows, heads, _ = q.shape
    if (k is None) != (v is None):
        raise ValueError("k and v must be given together")
    new = k.shape[1] if k is not None else 0
    if new and (k.shape[0] != batch or (*k.shape[2:],) != (*k_cache.shape[2:],) or v.shape[:3] != k.shape[:3] or v.shape[3:] != v_cache.shape[3:]):
        raise ValueError(f"k and v have shapes {list(k.shape)} and {list(v.shape)}, but must have [{batch}, Sn, {k_cache.shape[2]}, {k_cache.shape[3]}] and "
                         f"[{batch}, Sn, {k_cache.shape[2]}, {v_cache.shape[3]}]: the heads and columns of the caches")
    if cache_seqlens is None:
        if new:
            raise ValueError("k and v are given without cache_seqlens, which says where they are written")
        cache_seqlens = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    cache_seqlens = _lengths(cache_seqlens, "cache_seqlens", batch, q.device)
    cache_leftpad = _lengths(cache_leftpad, "cache_leftpad", batch, q.device) if cache_leftpad is not None else None
    if new:
        places = cache_seqlens.long().unsqueeze(1) + torch.arange(new, device=q.device)
        rows_of_caches = torch.arange(batch, device=q.device).unsqueeze(1), places
        if block_table is not None:
            rows_of_caches = block_table.long().gather(1, places // k_cache.shape[1]), places % k_cache.shape[1]
        k_cache[rows_of_caches], v_cache[rows_of_caches] = k, v
    lengths = cache_seqlens + new
    shift = lengths - rows
    left, right = _sides(window_size, causal)
    mask = Made(_sequence_mask, (*_limits(left, right, q.device), shift, cache_leftpad)) if left >= 0 or right >= 0 or cache_leftpad is not None else None
    score = _score(softcap, alibi_slopes, heads, batch, shift)
    output, lse = _attend(q.transpose(1, 2), k_cache.transpose(1, 2), v_cache.transpose(1, 2), score, mask, None, True, softmax_scale, 0.0, False,
                          return_softmax_lse, None, Own(key_lengths=lengths, block_table=block_table))
    output = output.transpose(1, 2)
    return (output, lse) if return_softmax_lse else output


def _check_rank(tensors, rank, axes):
    for name, x in tensors.items():
        if x.dim() != rank:
            raise ValueError(f"{name} has shape {list(x.shape)}, but must have {rank} dimensions: {axes}")


def _check_probabilities(asked, dropout_p):
    if asked and dropout_p:
        fail("return_attn_probs is given with dropout_p, but the kernels do not store the probabilities that dropout leaves; ask for them without dropout, which "
             "gives the LSE")


def _lengths(given, name, batch, device):
    """An int or integer tensor [B] as int32 [B]."""
    if isinstance(given, int):
        return torch.full((batch,), given, dtype=torch.int32, device=device)
    if given.shape != (batch,) or given.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} is {given.dtype} of shape {list(given.shape)}, but must be int32 or int64 of shape [{batch}], or an int")
    return given.int()


def _sides(window_size, causal):
    """How many keys to the left and to the right of a query's own place it sees; -1 is no limit."""
    left, right = window_size if window_size is not None else (-1, -1)
    left, right = -1 if left is None or left < 0 else left, -1 if right is None or right < 0 else right
    return left, 0 if causal else right


def _limits(left, right, device):
    """Whether there is a limit to the left, which, and the same to the right."""
    return True if left >= 0 else False, graph_number(left, device), True if right >= 0 else False, graph_number(right, device)


def _dense_mask(left, right, shift, device):
    """The mask of the keys from `left` before to `right` behind key q_idx + shift, or None."""
    if left < 0 and right < 0:
        return None
    if left < 0 and right == 0:
        return Made(_causal_mask, (True if shift != 0 else False,))
    has_left, _, has_right, _ = _limits(left, right, device)
    return Made(_window_mask, (has_left, graph_number(shift - left, device), has_right, graph_number(shift + right, device)))


def _causal_mask(is_shifted):
    return _causal_bottom_right if is_shifted else _causal


def _window_mask(has_left, first, has_right, last):
    """The mask of the keys from q_idx + first to q_idx + last, where there are limits."""
    if not has_left:
        return lambda b, h, q_idx, kv_idx: kv_idx <= q_idx + last
    if not has_right:
        return lambda b, h, q_idx, kv_idx: kv_idx >= q_idx + first
    return lambda b, h, q_idx, kv_idx: (kv_idx <= q_idx + last) & (kv_idx >= q_idx + first)


def _causal_of_sequences(shift):
    return _causal if shift is None else lambda b, h, q_idx, kv_idx: kv_idx - q_idx <= shift[b]


def _sequence_mask(has_left, left, has_right, right, shift, leftpad):
    """The mask of keys from `left` before to `right` behind a query's own place, q_idx + shift[b], where there are limits, without the first leftpad[b]."""
    conditions = []
    if has_right:
        conditions.append(lambda b, h, q_idx, kv_idx: kv_idx - q_idx <= (right if shift is None else shift[b] + right))
    if has_left:
        conditions.append(lambda b, h, q_idx, kv_idx: q_idx - kv_idx <= (left if shift is None else left - shift[b]))
    if leftpad is not None:
        conditions.append(lambda b, h, q_idx, kv_idx: kv_idx >= leftpad[b])
    return and_masks(*conditions) if len(conditions) > 1 else conditions[0]


def _of_rows(score, mask, cu_q, cu_k, used, count):
    """The functions of the rows of all sequences: gradients of tensors of sequences need them."""
    rows = rows_of(cu_q, cu_k, count)
    if used is not None:
        rows = rows._replace(end=torch.minimum(rows.end, rows.low + used.int()[rows.sequence]))
    return functions_of(score, mask, rows)


def _score(softcap, slopes, heads, sequences, shift):
    """The score_mod of softcap and ALiBi, or None. `shift` is what to add to a row's number for its own place among the keys: a number, which may be a tensor of
    rank 0, one of each sequence, or None."""
    softcap, heads = constant(softcap), constant(heads)
    if slopes is not None and tuple(slopes.shape) not in ((heads,), (sequences, heads)):
        raise ValueError(f"alibi_slopes has shape {list(slopes.shape)}, but must have [{heads}] or [{sequences}, {heads}]: a slope for each head")
    if slopes is None:
        return Made(_softcap, (softcap,)) if softcap > 0.0 else None
    return Made(_alibi, (softcap, slopes, shift, slopes.dim() == 2, not isinstance(shift, torch.Tensor) or shift.dim() == 0))


def _softcap(cap):
    return lambda score, b, h, q_idx, kv_idx: cap * torch.tanh(score / cap)


def _alibi(cap, slopes, shift, has_sequences, is_number):
    def score_mod(score, b, h, q_idx, kv_idx):
        if cap > 0.0:
            score = cap * torch.tanh(score / cap)
        own = q_idx if shift is None else q_idx + (shift if is_number else shift[b])
        return score - (slopes[b, h] if has_sequences else slopes[h]) * abs(own - kv_idx)
    return score_mod
