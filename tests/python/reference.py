"""The formula of attune.Variant in NumPy float64, for its own sake: forward, and gradients by hand.

Nothing here knows attune; scores and masks are given as arrays [B, H, Sq, Sk] and functions of such.
"""
import numpy as np


def heads(x, count):
    """K or V with a head for each head of Q."""
    return np.repeat(x.astype(np.float64), count // x.shape[1], axis=1)


def indices(B, H, Sq, Sk):
    return np.ogrid[:B, :H, :Sq, :Sk]


def attention(q, k, v, score=lambda s: s, mask=True, normaliser="softmax", sinks=None, keep=None):
    """O, LSE, and what gradients() needs."""
    B, H, Sq, D = q.shape
    s = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), heads(k, H)) / np.sqrt(D)
    x = np.where(mask, score(s), -np.inf)
    if normaliser == "sigmoid":
        p, lse = 1 / (1 + np.exp(-x)), None
    else:
        m = x.max(-1, keepdims=True, initial=-np.inf)
        base = np.where(np.isinf(m), 0, m)
        l = np.exp(x - base).sum(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            lse = (base + np.log(l))[..., 0]
        total = l if sinks is None else l + np.exp(sinks.reshape(1, -1, 1, 1).astype(np.float64) - base)
        p = np.exp(x - base) / np.where(total == 0, 1, total)
    dropped = p if keep is None else p * keep
    return np.einsum("bhqk,bhkd->bhqd", dropped, heads(v, H)), lse, (s, x, p, dropped)


def gradients(q, k, v, do, saved, score_derivative=lambda s: 1.0, normaliser="softmax", keep=None):
    """dq, dk, dv, and dx, the gradient of the score [B, H, Sq, Sk]."""
    B, H, Sq, D = q.shape
    s, x, p, dropped = saved
    do = do.astype(np.float64)
    group = lambda full, like: full.reshape(B, like.shape[1], H // like.shape[1], *full.shape[2:]).sum(2)
    dv = group(np.einsum("bhqk,bhqd->bhkd", dropped, do), v)
    dp = np.einsum("bhqd,bhkd->bhqk", do, heads(v, H))
    if keep is not None:
        dp = dp * keep
    dx = p * (1 - p) * dp if normaliser == "sigmoid" else p * (dp - (p * dp).sum(-1, keepdims=True))
    dx = np.where(np.isinf(x), 0, dx)
    ds = dx * score_derivative(s) / np.sqrt(D)
    dq = np.einsum("bhqk,bhkd->bhqd", ds, heads(k, H))
    dk = group(np.einsum("bhqk,bhqd->bhkd", ds, q.astype(np.float64)), k)
    return dq, dk, dv, dx


def kept(p_drop, seed, offset, B, H, Sq, Sk):
    """The factor of dropout, 0 or 65536 / (65536 - T), by Philox 4x32 with 7 rounds (docs/guide/python.md)."""
    threshold = min(65535, round(65536 * p_drop))
    b, h, q, k = np.broadcast_arrays(*indices(B, H, Sq, Sk))
    u32 = lambda x: np.asarray(x, dtype=np.uint64) & np.uint64(0xFFFFFFFF)
    counter = [u32((q >> 4) * 8 + (q & 7)), u32((k >> 4) * 4 + ((k & 7) >> 1)), u32(b * H + h), u32(np.full(q.shape, offset & 0xFFFFFFFF))]
    key = [u32(seed & 0xFFFFFFFF), u32((seed >> 32) ^ (offset >> 32))]
    for _ in range(7):
        first, second = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [(second >> np.uint64(32)) ^ counter[1] ^ key[0], u32(second), (first >> np.uint64(32)) ^ counter[3] ^ key[1], u32(first)]
        key = [u32(key[0] + np.uint64(0x9E3779B9)), u32(key[1] + np.uint64(0xBB67AE85))]
    word = np.choose(2 * (k & 1) + ((k >> 3) & 1), counter)
    r = (word >> (16 * ((q >> 3) & 1)).astype(np.uint64)) & np.uint64(0xFFFF)
    return np.where(r >= threshold, 65536 / (65536 - threshold), 0.0)
