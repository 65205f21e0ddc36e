"""Masks and scores that users expect, as functions for attune.Variant; attune/Builtins.h and attune/Patterns.h define each.

    attune.Variant(mask=[attune.causal(), attune.documents(ids)], score=attune.alibi(slopes))

A tensor is attune.tensor(...) or an array, which is then called as the parameter is.
"""
from . import _core
from .expressions import Expr, Tensor, as_expr, fail, here
from .variant import captured_tensor


def _mask(name, *arguments, tensors=()):
    where = here()

    def mask(b, h, q, k):
        nodes = [as_expr(x).node for x in arguments]
        declared = [tensor.declared() for tensor in tensors]
        return Expr(_core.builtin_mask(name, nodes, declared, [as_expr(x).node for x in (b, h, q, k)], where))

    mask.tensors = tensors
    return mask


def _score(name, tensor):
    where = here()

    def score(s, b, h, q, k):
        return Expr(_core.builtin_score(name, tensor.declared(), [as_expr(x).node for x in (s, b, h, q, k)], where))

    score.tensors = (tensor,)
    return score


def causal():
    """q >= k: no query sees a later key."""
    return _mask("causal")


def causal_bottom_right():
    """k - Sk <= q - Sq: causal with the last query beside the last key."""
    return _mask("causal_bottom_right")


def sliding_window(left, right):
    """-left <= k - q and k - q <= right."""
    return _mask("sliding_window", left, right)


def prefix_lm(n):
    """q >= k or k < n: the first n keys are visible to all; n is an integer, a scalar, or a tensor [B]."""
    if isinstance(n, Tensor) or not isinstance(n, (int, Expr)):
        return _mask("prefix_lm", tensors=(captured_tensor("n", n),))
    return _mask("prefix_lm", n)


def chunked(n):
    """q // n == k // n: only keys of the query's own chunk of n."""
    return _mask("chunked", n)


def local_global(window, global_tokens, dilation=1):
    """Longformer (arXiv 2004.05150): `window` keys to each side, at distances that are multiples of `dilation`, and the first `global_tokens` queries and keys."""
    return _mask("local_global", window, global_tokens, dilation)


def strided(stride):
    """Sparse Transformer (arXiv 1904.10509): q >= k and (q - k < stride or (q - k) % stride == 0)."""
    return _mask("strided", stride)


def fixed(length, summary):
    """Sparse Transformer (arXiv 1904.10509): q >= k and (q // length == k // length or k % length >= length - summary)."""
    return _mask("fixed", length, summary)


def butterfly(block):
    """Pixelated Butterfly (arXiv 2112.00029): q // block and k // block differ in at most one binary digit."""
    return _mask("butterfly", block)


def bigbird(block, window, global_blocks, random, seed=0):
    """BigBird (arXiv 2007.14062), in blocks: `window` to each side, the first `global_blocks`, and `random` (0 to 16) drawn for each head and row of blocks."""
    return _mask("bigbird", block, window, global_blocks, random, seed)


def natten(height, width, window):
    """Neighbourhood attention (arXiv 2204.07143) of an image with q = y * width + x: the `window` x `window` pixels around a query; `window` is odd."""
    return _mask("natten", height, width, window)


def sta(tile, tiles, window):
    """Sliding tile attention (arXiv 2502.04507) of a video whose tiles of `tile` tokens are in row-major order of (time, height, width).

    tiles   the extents of the video in tiles: (time, height, width)
    window  the tiles around its own that a query sees, along each axis; odd
    """
    if len(tiles) != 3 or len(window) != 3:
        fail(f"tiles and window of sta are (time, height, width), but got {len(tiles)} and {len(window)} numbers", here())
    return _mask("sta", tile, *tiles, *window)


def documents(ids):
    """ids[q] == ids[k]: only keys of the query's own document; ids: int32 [S] or [B, S]."""
    return _mask("documents", tensors=(captured_tensor("ids", ids),))


def key_padding(lengths):
    """k < lengths[b]: keys past their batch's length are padding; lengths: int32 [B]."""
    return _mask("key_padding", tensors=(captured_tensor("lengths", lengths),))


def alibi(slopes):
    """s + slopes[h] * (k - q) (Press et al. 2022); slopes: [H]."""
    return _score("alibi", captured_tensor("slopes", slopes))


def relative_bias(table):
    """s + table[h, q - k + Sk - 1]; table: [H, Sq + Sk - 1]."""
    return _score("relative_bias", captured_tensor("table", table))


def bias(t):
    """s + broadcast(t[h, q, k]); t: [H, Sq, Sk], [Sq, Sk] or [B, H, Sq, Sk]."""
    return _score("bias", captured_tensor("bias", t))
