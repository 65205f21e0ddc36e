"""FlashAttention's functions and varlen_attn on the CPU target, against float64 through autograd."""
import importlib.util
import math
import sys
import unittest

if importlib.util.find_spec("torch") is None:
    print("PyTorch is missing: pip install torch to run what concerns it")
    sys.exit(77)

import torch

import attune
import attune.torch as at
from attune.torch import ops, programs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
H, D = 4, 16


def dense(q, k, v, causal=False, window=(-1, -1), softcap=0.0, slopes=None, scale=None, hidden=0):
    """One sequence, [S, H, D], in float64: output and LSE [H, Sq]. The first `hidden` keys are hidden."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.double().transpose(0, 1) for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    s = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    place = torch.arange(q.shape[1], device=q.device)[:, None] + k.shape[1] - q.shape[1]
    key = torch.arange(k.shape[1], device=q.device)[None]
    if slopes is not None:
        s = s - slopes.double()[:, None, None] * (place - key).abs()
    left, right = window
    visible = key >= hidden
    if causal or right >= 0:
        visible = visible & (key <= place + (0 if causal else right))
    if left >= 0:
        visible = visible & (key >= place - left)
    s = s.masked_fill(~visible, -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.where(lse[..., None] == -math.inf, 0.0, torch.exp(s - torch.where(lse == -math.inf, 0.0, lse)[..., None]))
    return (p @ v).transpose(0, 1), lse


def packed(lengths_q, lengths_k, heads_kv=H, extra=0, dtype=torch.float32, columns=D, dv=D):
    """q, k, v of sequences of these lengths, and their bounds; `extra` rows are behind the last."""
    q = torch.randn(sum(lengths_q) + extra, H, columns, device=DEVICE, dtype=dtype).requires_grad_()
    k = torch.randn(sum(lengths_k), heads_kv, columns, device=DEVICE, dtype=dtype).requires_grad_()
    v = torch.randn(sum(lengths_k), heads_kv, dv, device=DEVICE, dtype=dtype).requires_grad_()
    bounds = [torch.tensor([0, *torch.tensor(x, dtype=torch.int64).cumsum(0).tolist()], dtype=torch.int32, device=DEVICE) for x in (lengths_q, lengths_k)]
    return q, k, v, *bounds


def by_sequence(q, k, v, cu_q, cu_k, slopes=None, used=None, **options):
    output, lse = torch.zeros(*q.shape[:2], v.shape[2], dtype=torch.float64, device=DEVICE), torch.full((q.shape[1], q.shape[0]), -math.inf,
                                                                                                       dtype=torch.float64, device=DEVICE)
    outputs, sums = [], []
    for n in range(len(cu_q) - 1):
        rows, keys = slice(cu_q[n], cu_q[n + 1]), slice(cu_k[n], cu_k[n + 1] if used is None else cu_k[n] + used[n])
        o, l = dense(q[rows], k[keys], v[keys], slopes=slopes[n] if slopes is not None and slopes.dim() == 2 else slopes, **options)
        outputs.append(o)
        sums.append(l)
    done = int(cu_q[-1])
    return torch.cat([*outputs, output[done:]]), torch.cat([*sums, lse[:, done:]], 1)


class Flash(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def close(self, got, want, limit=2e-5):
        self.assertEqual(got.shape, want.shape)
        finite = torch.isfinite(want)
        self.assertTrue(torch.equal(finite, torch.isfinite(got)))
        error = (got.double() - want)[finite].abs().max().item() if finite.any() else 0.0
        self.assertLessEqual(error, limit)

    def gradients(self, output, want, leaves, limit=5e-5):
        grad = torch.randn_like(want)
        got = torch.autograd.grad(output, leaves, grad.to(output.dtype))
        for a, b in zip(got, torch.autograd.grad(want, leaves, grad)):
            self.close(a, b.double(), limit)

    LENGTHS = (([5, 0, 37, 1, 64], [5, 0, 37, 1, 64]), ([5, 3, 0, 17], [9, 3, 12, 70]), ([40, 7], [11, 0]), ([130], [130]), ([0, 0], [0, 0]))
    OPTIONS = ({}, {"causal": True}, {"window": (4, 0)}, {"window": (3, 2)}, {"window": (-1, 5)}, {"window": (6, -1)}, {"causal": True, "window": (8, 9)},
               {"causal": True, "softcap": 5.0}, {"scale": 0.3})

    def test_packed_sequences(self):
        for lengths in self.LENGTHS:
            for options in self.OPTIONS:
                with self.subTest(lengths=lengths, options=options):
                    q, k, v, cu_q, cu_k = packed(*lengths, heads_kv=2, dv=24)
                    want, lse = by_sequence(q, k, v, cu_q, cu_k, **options)
                    given = {{"window": "window_size", "scale": "softmax_scale"}.get(name, name): value for name, value in options.items()}
                    got, got_lse, none = at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, max(lengths[0]), max(lengths[1]), return_attn_probs=True, **given)
                    self.assertIsNone(none)
                    self.close(got, want)
                    self.close(got_lse, lse)
                    if q.numel():
                        self.gradients(got, want, (q, k, v))

    def test_rows_behind_the_last_sequence(self):
        q, k, v, cu_q, cu_k = packed([5, 9], [5, 9], extra=7)
        with torch.no_grad():
            q[14:] = math.nan
        got = at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, causal=True)
        self.assertTrue((got[14:] == 0).all())
        self.close(got[:14], by_sequence(q[:14], k, v, cu_q, cu_k, causal=True)[0])

    def test_slopes_have_gradients(self):
        for shape in ((H,), (3, H)):
            slopes = torch.rand(shape, device=DEVICE).requires_grad_()
            q, k, v, cu_q, cu_k = packed([9, 0, 40], [12, 3, 40])
            want, _ = by_sequence(q, k, v, cu_q, cu_k, slopes=slopes, causal=True)
            got = at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, causal=True, alibi_slopes=slopes)
            self.close(got, want)
            self.gradients(got, want, (q, k, v, slopes), 2e-4)

    def test_lengths_that_change_in_place(self):
        q, k, v, cu, _ = packed([8, 24], [8, 24])
        for bound in (8, 16, 20):
            cu.data[1] = bound  # which changes no version
            self.close(at.flash_attn_varlen_func(q, k, v, cu, cu), by_sequence(q, k, v, cu, cu)[0])

    def test_what_no_sequence_has_reaches_nothing(self):
        """NaN behind seqused_k and behind the last sequence, forward and backward."""
        q, k, v = [x.detach() for x in self.inputs_for_nan()]
        cu, used = torch.tensor([0, 40, 41, 90], dtype=torch.int32, device=DEVICE), torch.tensor([33, 1, 20], dtype=torch.int32, device=DEVICE)
        want = at.flash_attn_varlen_func(q, k, v, cu, cu, seqused_k=used, causal=True)
        for begin, end in ((33, 40), (61, 100)):
            k[begin:end] = v[begin:end] = float("nan")
        inputs = [x.requires_grad_() for x in (q, k, v)]
        got = at.flash_attn_varlen_func(*inputs, cu, cu, seqused_k=used, causal=True)
        self.assertTrue((got == want).all())
        self.assertTrue((got[90:] == 0).all())
        dq, dk, dv = torch.autograd.grad(got, inputs, torch.randn_like(got))
        self.assertTrue(all(x.isfinite().all() for x in (dq, dk[:33], dv[:33], dk[40:61], dv[40:61])))

    def test_masks_that_intervals_do_not_follow(self):
        """Kernels of packed sequences refuse them, and rows load their sequence; the second call knows."""
        q, k, v = [torch.randn(1, 2, 24, 16, device=DEVICE) for _ in range(3)]
        cu, i = torch.tensor([0, 8, 24], dtype=torch.int32, device=DEVICE), torch.arange(16, device=DEVICE)
        for mask_mod in (lambda b, h, q, k: ((k & 3) == 0) | (k == q), lambda b, h, q, k: q * q >= k):
            mask = at.create_block_mask(mask_mod, 1, 1, 24, 24, device=DEVICE)
            scores = (q[0, :, 8:] @ k[0, :, 8:].transpose(-1, -2) / 4).masked_fill(~mask_mod(0, 0, i[:, None], i[None]), -torch.inf)
            for _ in range(2):
                got = at.flex_attention(q, k, v, block_mask=mask, cu_seqlens_q=cu)
                self.assertLess((got[0, :, 8:] - scores.softmax(-1) @ v[0, :, 8:]).abs().max().item(), 1e-4)

    def test_functions_that_read_the_head_and_the_sequence(self):
        """They run on kernels of packed sequences, where NaN between sequences reaches nothing; what is read at q or k, and what learns, runs by rows."""
        q, k, v = [torch.randn(1, H, 30, D, device=DEVICE) for _ in range(3)]
        cu = torch.tensor([0, 10, 24], dtype=torch.int32, device=DEVICE)
        slopes, caps, places = torch.rand(H, device=DEVICE), torch.tensor([5, 9], dtype=torch.int32, device=DEVICE), torch.rand(30, device=DEVICE)

        def by_head(score, b, h, i, j):
            return score - slopes[h] * (i - j).abs()

        def by_place(score, b, h, i, j):
            return score - places[j]
        mask = at.create_block_mask(lambda b, h, i, j: j < caps[b], 1, 1, 30, 30, device=DEVICE)
        for score_mod in (None, by_head, by_place):
            for block_mask in (None, mask):
                rows = [x.clone() for x in (q, k, v)]
                if score_mod is not by_place:
                    for x in rows[1:]:
                        x[:, :, 24:] = math.nan
                got = at.flex_attention(*rows, score_mod, block_mask, cu_seqlens_q=cu)
                for b, (begin, end) in enumerate(((0, 10), (10, 24))):
                    i = torch.arange(end - begin, device=DEVICE)
                    s = q[0, :, begin:end] @ k[0, :, begin:end].transpose(-1, -2) / math.sqrt(D)
                    s = s if score_mod is None else torch.stack([score_mod(s[h], b, h, i[:, None], i[None]) for h in range(H)])
                    s = s if block_mask is None else s.masked_fill(i >= caps[b], -math.inf)
                    self.close(got[0, :, begin:end], (s.softmax(-1) @ v[0, :, begin:end]).double())
        class Causal:
            def __call__(self, b, h, i, j):
                return i >= j
        class Odd:
            def __call__(self, b, h, i, j):
                return (j & 1 == 0) | (i == j)
        def masked(mask_mod):
            return at.flex_attention(*rows, block_mask=at.create_block_mask(mask_mod, 1, 1, 30, 30, device=DEVICE), cu_seqlens_q=cu)
        rows = [q, *[x.clone() for x in (k, v)]]
        masked(Odd())  # which kernels of packed sequences refuse; another object is another function
        for x in rows[1:]:
            x[:, :, 24:] = math.nan
        self.assertTrue(masked(Causal())[:, :, :24].isfinite().all())
        slopes.requires_grad_()
        at.flex_attention(q, k, v, by_head, cu_seqlens_q=cu).sum().backward()
        self.assertTrue(slopes.grad.isfinite().all() and slopes.grad.abs().sum() > 0)

    def test_nested_tensors_of_unlike_numbers(self):
        of = lambda *lengths: torch.nested.nested_tensor([torch.randn(n, 2, 16, device=DEVICE) for n in lengths], layout=torch.jagged).transpose(1, 2)
        k = of(4, 5, 6, 3)
        with self.assertRaisesRegex(ValueError, "are of 3 and 4 sequences"):
            at.scaled_dot_product_attention(of(4, 5, 6), k, k)

    def inputs_for_nan(self):
        return [torch.randn(100, heads, 64, device=DEVICE) for heads in (4, 2, 2)]

    def test_rows_before_the_first_sequence(self):
        q, k, v, cu, _ = packed([20], [20])
        cu = torch.tensor([3, 8, 20], dtype=torch.int32, device=DEVICE)
        got = at.flash_attn_varlen_func(q, k, v, cu, cu, causal=True)
        self.assertTrue((got[:3] == 0).all())
        self.close(got[3:], by_sequence(q, k, v, cu, cu, causal=True)[0])

    def test_windows_and_lengths_share_kernels(self):
        q, k, v, cu, _ = packed([60], [60])
        x = torch.randn(1, 60, H, D, device=DEVICE)
        before = len(ops.variants)
        for i in range(12):
            at.flash_attn_func(x[:, :1], x[:, :i + 1], x[:, :i + 1], window_size=(4, 0))
            at.flash_attn_varlen_func(q, k, v, cu, cu, window_size=(i, 0))
        self.assertLessEqual(len(ops.variants), before + 2)

    def test_varlen_attn(self):
        q, k, v, cu_q, cu_k = packed([5, 33], [20, 41], heads_kv=1)
        used = torch.tensor([20, 17], dtype=torch.int32, device=DEVICE)
        got, lse = at.varlen_attn(q, k, v, cu_q, cu_k, 33, 41, return_aux=at.AuxRequest(lse=True), window_size=(-1, 0), enable_gqa=True, seqused_k=used)
        want, sums = by_sequence(q, k, v, cu_q, cu_k, used=used, causal=True)
        self.close(got, want)
        self.close(lse, sums)
        with self.assertRaisesRegex(ValueError, "enable_gqa"):
            at.varlen_attn(q, k, v, cu_q, cu_k, 33, 41)
        with self.assertRaisesRegex(attune.Error, "num_splits is 4"):
            at.varlen_attn(q, k, v, cu_q, cu_k, 33, 41, enable_gqa=True, num_splits=4)

    def test_dense(self):
        for rows, keys in ((37, 37), (5, 40), (20, 9)):
            for options in self.OPTIONS:
                with self.subTest(rows=rows, keys=keys, options=options):
                    q, k, v = (torch.randn(2, n, heads, D, device=DEVICE).requires_grad_() for n, heads in ((rows, H), (keys, 2), (keys, 2)))
                    slopes = torch.rand(2, H, device=DEVICE).requires_grad_()
                    given = {{"window": "window_size", "scale": "softmax_scale"}.get(name, name): value for name, value in options.items()}
                    got, lse, _ = at.flash_attn_func(q, k, v, alibi_slopes=slopes, return_attn_probs=True, **given)
                    pairs = [dense(q[b], k[b], v[b], slopes=slopes[b], **options) for b in range(2)]
                    want = torch.stack([o for o, _ in pairs])
                    self.close(got, want)
                    self.close(lse, torch.stack([l for _, l in pairs]))
                    self.gradients(got, want, (q, k, v, slopes), 5e-4)

    def test_dropout_and_determinism(self):
        q, k, v, cu_q, cu_k = packed([30, 50], [30, 50])
        torch.manual_seed(3)
        first = at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, dropout_p=0.3, deterministic=True)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(first, at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, dropout_p=0.3, deterministic=True)))
        self.assertFalse(torch.equal(first, at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, dropout_p=0.3)))

    def test_cache(self):
        caches = [torch.randn(3, 64, 2, D, device=DEVICE) for _ in range(2)]
        lengths = torch.tensor([10, 0, 59], dtype=torch.int32, device=DEVICE)
        leftpad = torch.tensor([3, 0, 7], dtype=torch.int32, device=DEVICE)
        for rows, options in ((1, {}), (5, {"causal": True}), (5, {"window": (7, 0)})):
            k_cache, v_cache = (x.clone() for x in caches)
            q = torch.randn(3, rows, H, D, device=DEVICE)
            k, v = (torch.randn(3, rows, 2, D, device=DEVICE) for _ in range(2))
            given = {{"window": "window_size"}.get(name, name): value for name, value in options.items()}
            got, lse = at.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=lengths, cache_leftpad=leftpad, return_softmax_lse=True, **given)
            for b, length in enumerate(lengths.tolist()):
                keys = [torch.cat([cache[b, :length], new[b]]) for cache, new in zip(caches, (k, v))]
                self.assertTrue(torch.equal(k_cache[b, :length + rows], keys[0]) and torch.equal(v_cache[b, length + rows:], caches[1][b, length + rows:]))
                want, sums = dense(q[b], *keys, hidden=int(leftpad[b]), **options)
                self.close(got[b], want)
                self.close(lse[b], sums)
        full = at.flash_attn_with_kvcache(q, *caches, causal=True)
        self.close(full[1], dense(q[1], caches[0][1], caches[1][1], causal=True)[0])
        padded = at.flash_attn_with_kvcache(q, *caches, cache_leftpad=9, window_size=None)
        self.close(padded[2], dense(q[2], caches[0][2], caches[1][2], hidden=9)[0])
        part = at.flash_attn_with_kvcache(q, *caches, cache_seqlens=20, causal=True)
        self.close(part[1], dense(q[1], caches[0][1, :20], caches[1][1, :20], causal=True)[0])

    def test_pages(self):
        """A cache in pages, which sequences share in any order; entries behind a length are no pages."""
        size, pages = 16, 11
        caches = [torch.randn(pages, size, 2, columns, device=DEVICE) for columns in (D, 24)]
        table = torch.tensor([[3, 7, 0, -9], [10, 10 ** 6, -1, 7], [4, 5, 6, 2]], dtype=torch.int32, device=DEVICE)
        lengths = torch.tensor([30, 3, 55], dtype=torch.int32, device=DEVICE)
        for rows, new, options in ((1, 1, {}), (5, 5, {"causal": True}), (3, 0, {"window": (20, 0)}), (1, 1, {"causal": True, "softcap": 4.0})):
            for dtype in (torch.int32, torch.int64):
                k_cache, v_cache = (x.clone() for x in caches)
                q = torch.randn(3, rows, H, D, device=DEVICE)
                k, v = (torch.randn(3, new, 2, columns, device=DEVICE) for columns in (D, 24))
                given = {{"window": "window_size"}.get(name, name): value for name, value in options.items()}
                got, lse = at.flash_attn_with_kvcache(q, k_cache, v_cache, *((k, v) if new else ()), cache_seqlens=lengths, block_table=table.to(dtype),
                                                      return_softmax_lse=True, **given)
                for b, length in enumerate(lengths.tolist()):
                    used = table[b, :-(-(length + new) // size)].long()
                    keys = [torch.cat([cache[used].flatten(0, 1)[:length], fresh[b]]) for cache, fresh in zip(caches, (k, v))]
                    want, sums = dense(q[b], *keys, **options)
                    self.close(got[b], want)
                    self.close(lse[b], sums)
                    self.assertTrue(torch.equal(k_cache[used].flatten(0, 1)[:length + new], keys[0]))
        whole = table.clamp(0, pages - 1)
        self.close(at.flash_attn_with_kvcache(q, *caches, block_table=whole)[2], dense(q[2], *[x[whole[2].long()].flatten(0, 1) for x in caches])[0])

        def mask_mod(b, h, q_idx, kv_idx):
            return kv_idx % 3 != 1
        mask = at.create_block_mask(mask_mod, None, None, rows, 4 * size, device=DEVICE)
        got = at.flex_attention(q.transpose(1, 2), *[x.transpose(1, 2) for x in caches], block_mask=mask, enable_gqa=True, key_lengths=lengths, block_table=table)
        keys = [x[table[0, :2].long()].flatten(0, 1)[:30][torch.arange(30, device=DEVICE) % 3 != 1] for x in caches]
        self.close(got[0].transpose(0, 1), dense(q[0], *keys)[0])
        compiled = torch.compile(lambda *x: at.flash_attn_with_kvcache(*x, cache_seqlens=lengths, block_table=table, causal=True), fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, *caches), at.flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, block_table=table, causal=True)))
        with self.assertRaisesRegex(ValueError, r"block_table is torch.int32 of shape \[2, 4\], but must be int32 or int64 of shape \[3, N\]"):
            at.flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, block_table=table[:2])
        with self.assertRaisesRegex(attune.Error, "no backward pass"):
            at.flash_attn_with_kvcache(q.requires_grad_(), *caches, cache_seqlens=lengths, block_table=table)

    def test_packed_queries_with_pages(self):
        """Prompts and single tokens over a cache in pages, which sequences share; entries behind a length are no pages."""
        size, pages = 16, 11
        k_cache, v_cache = (torch.randn(pages, size, 2, columns, device=DEVICE) for columns in (D, 24))
        table = torch.tensor([[3, 7, 0, -9], [10, 10 ** 6, -1, 7], [4, 5, 6, 2], [1, 3, 0, 0]], dtype=torch.int32, device=DEVICE)
        used = torch.tensor([30, 3, 55, 20], dtype=torch.int32, device=DEVICE)
        cu_q = torch.tensor([0, 9, 10, 10, 30], dtype=torch.int32, device=DEVICE)
        q = torch.randn(33, H, D, device=DEVICE)
        q[30:] = math.nan
        slopes = torch.rand(4, H, device=DEVICE)
        keys = [[cache[table[n, :-(-count // size)].long()].flatten(0, 1)[:count] for cache in (k_cache, v_cache)] for n, count in enumerate(used.tolist())]
        for options in ({}, {"causal": True}, {"window": (7, 0)}, {"causal": True, "softcap": 4.0, "slopes": slopes}):
            given = {{"window": "window_size", "slopes": "alibi_slopes"}.get(name, name): value for name, value in options.items()}
            for dtype in (torch.int32, torch.int64):
                got, lse, _ = at.flash_attn_varlen_func(q, k_cache, v_cache, cu_q.to(dtype), seqused_k=used.to(dtype), block_table=table.to(dtype),
                                                        return_attn_probs=True, **given)
                for n in range(4):
                    rows = slice(cu_q[n], cu_q[n + 1])
                    want, sums = dense(q[rows], *keys[n], **{**options, **({"slopes": slopes[n]} if "slopes" in options else {})})
                    self.close(got[rows], want)
                    self.close(lse[:, rows], sums)
                self.assertTrue((got[30:] == 0).all() and (lse[:, 30:] == -math.inf).all())
        cu_k = torch.nn.functional.pad(used.cumsum(0, dtype=torch.int32), (1, 0))
        self.assertTrue(torch.equal(at.flash_attn_varlen_func(q, k_cache, v_cache, cu_q, cu_k, causal=True, block_table=table),
                                    at.varlen_attn(q, k_cache, v_cache, cu_q, window_size=(-1, 0), enable_gqa=True, seqused_k=used, block_table=table)))

        def mask_mod(b, h, q_idx, kv_idx):
            return (kv_idx + b) % 3 != 1
        mask = at.create_block_mask(mask_mod, None, None, 33, 4 * size, device=DEVICE)
        got = at.flex_attention(q.transpose(0, 1)[None], *[x.transpose(1, 2) for x in (k_cache, v_cache)], block_mask=mask, enable_gqa=True, cu_seqlens_q=cu_q,
                                key_lengths=used, block_table=table)
        visible = (torch.arange(20, device=DEVICE) + 3) % 3 != 1
        self.close(got[0, :, 10:30].transpose(0, 1), dense(q[10:30], *[x[visible] for x in keys[3]])[0])
        compiled = torch.compile(lambda *x: at.flash_attn_varlen_func(*x, causal=True, seqused_k=used, block_table=table), fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k_cache, v_cache, cu_q), at.flash_attn_varlen_func(q, k_cache, v_cache, cu_q, causal=True, seqused_k=used,
                                                                                                  block_table=table)))
        with self.assertRaisesRegex(attune.Error, "cu_seqlens_k is given with block_table"):
            at.flex_attention(q.transpose(0, 1)[None], *[x.transpose(1, 2) for x in (k_cache, v_cache)], enable_gqa=True, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k,
                              block_table=table)

    def test_compile(self):
        q, k, v, cu_q, cu_k = packed([9, 31], [9, 31])

        def step(q, k, v, cu_q, cu_k):
            return at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, causal=True, softcap=8.0) * 2
        want, _ = by_sequence(q, k, v, cu_q, cu_k, causal=True, softcap=8.0)
        got = torch.compile(step, fullgraph=True, backend="aot_eager")(q, k, v, cu_q, cu_k)
        self.close(got, 2 * want)
        self.gradients(got, 2 * want, (q, k, v), 1e-4)

    def test_functions_within_sequences(self):
        """flex_attention's functions see the sequence and places within it."""
        table = torch.randn(3, 80, device=DEVICE).requires_grad_()

        def score_mod(score, b, h, q_idx, kv_idx):
            return score + table[b, q_idx] * kv_idx / 50 - 0.1 * (q_idx - kv_idx)

        def mask_mod(b, h, q_idx, kv_idx):
            return (q_idx >= kv_idx) & (kv_idx % 5 != 2) | (kv_idx < 1)
        for lengths in (([5, 0, 64], [5, 0, 64]), ([9, 30, 7], [20, 11, 7])):
            q, k, v, cu_q, cu_k = packed(*lengths, heads_kv=2)
            outputs, sums = [], []
            for n in range(3):
                rows, keys = (torch.arange(x[n], device=DEVICE) for x in lengths)
                qs, ks, vs = (x.double().transpose(0, 1) for x in (q[cu_q[n]:cu_q[n + 1]], *[x[cu_k[n]:cu_k[n + 1]].repeat_interleave(2, 1) for x in (k, v)]))
                s = score_mod(qs @ ks.transpose(-1, -2) / math.sqrt(D), n, 0, rows[:, None], keys[None]).masked_fill(~mask_mod(n, 0, rows[:, None], keys[None]), -math.inf)
                outputs.append((s.softmax(-1) @ vs).transpose(0, 1))
                sums.append(s.logsumexp(-1))
            want = torch.cat(outputs)
            block_mask = at.create_block_mask(mask_mod, None, None, q.shape[0], k.shape[0], device=DEVICE)
            got, lse = at.flex_attention(*[x.transpose(0, 1)[None] for x in (q, k, v)], score_mod, block_mask, enable_gqa=True, return_lse=True, cu_seqlens_q=cu_q,
                                         cu_seqlens_k=None if lengths[0] == lengths[1] else cu_k)
            self.close(got[0].transpose(0, 1), want)
            self.close(lse[0], torch.cat(sums, 1))
            self.gradients(got[0].transpose(0, 1), want, (q, k, v, table), 2e-4)

    def test_nested_tensors(self):
        lengths = [5, 33, 12]
        parts = [[torch.randn(n, H, D, device=DEVICE) for n in lengths] for _ in range(3)]
        q, k, v = (torch.nested.nested_tensor(x, layout=torch.jagged, requires_grad=True) for x in parts)
        offsets = q.offsets()
        k, v = (torch.nested.nested_tensor_from_jagged(x.values().detach(), offsets).requires_grad_() for x in (k, v))

        def mask_mod(b, h, q_idx, kv_idx):
            return q_idx >= kv_idx
        wants = [dense(*x, causal=True) for x in zip(*parts)]
        views = [x.transpose(1, 2) for x in (q, k, v)]
        got, lse = at.flex_attention(*views, block_mask=at.create_block_mask(mask_mod, None, None, 50, 50, device=DEVICE), return_lse=True)
        causal = at.scaled_dot_product_attention(*views, is_causal=True)
        for given in (got, causal):
            self.assertTrue(given.is_nested)
            for part, (want, _) in zip(given.transpose(1, 2).unbind(), wants):
                self.close(part, want)
        for part, (_, want) in zip(lse.unbind(), wants):
            self.close(part, want)
        for part, want in zip(at.scaled_dot_product_attention(*views).transpose(1, 2).unbind(), [dense(*x)[0] for x in zip(*parts)]):
            self.close(part, want)
        causal.values().square().sum().backward()
        leaves = [[x.clone().requires_grad_() for x in of] for of in parts]
        sum(dense(*x, causal=True)[0].square().sum() for x in zip(*leaves)).backward()
        for given, of in zip((q, k, v), leaves):
            self.close(given.grad.values(), torch.cat([x.grad for x in of]).double(), 1e-4)
        apart = torch.nested.nested_tensor([x.detach() for x in parts[2]], layout=torch.jagged).transpose(1, 2)
        for part, want in zip(at.scaled_dot_product_attention(views[0], views[1], apart).transpose(1, 2).unbind(), [dense(*x)[0] for x in zip(*parts)]):
            self.close(part, want)
        other = torch.nested.nested_tensor([torch.randn(n, H, D, device=DEVICE) for n in (5, 32, 13)], layout=torch.jagged).transpose(1, 2)
        with self.assertRaisesRegex(ValueError, "unlike lengths"):
            at.scaled_dot_product_attention(views[0], views[1], other)
        with self.assertRaisesRegex(attune.Error, "key_lengths and query_lengths are given with nested"):
            at.scaled_dot_product_attention(*views, key_lengths=offsets[1:])
        with self.assertRaisesRegex(attune.Error, "key is no nested tensor"):
            at.flex_attention(views[0], torch.zeros(3, H, 33, D), views[2])
        with self.assertRaisesRegex(attune.Error, "jagged dimension at 1"):
            at.flex_attention(q, k, v)
        with self.assertRaisesRegex(attune.Error, "attn_mask is given with nested"):
            at.scaled_dot_product_attention(*views, torch.ones(1, 1, 1, 1, dtype=torch.bool))

    def test_errors(self):
        q, k, v, cu_q, cu_k = packed([9, 31], [9, 31])
        x = [each.transpose(0, 1)[None] for each in (q, k, v)]
        with self.assertRaisesRegex(ValueError, "a batch of 1"):
            at.flex_attention(*[each.expand(2, -1, -1, -1) for each in x], cu_seqlens_q=cu_q)
        with self.assertRaisesRegex(attune.Error, "key_lengths and query_lengths are given with cu_seqlens"):
            at.flex_attention(*x, cu_seqlens_q=cu_q, key_lengths=cu_q[1:2])
        with self.assertRaisesRegex(attune.Error, "block_mask is PyTorch's"):
            at.flex_attention(*x, block_mask=torch.nn.attention.flex_attention.create_block_mask(lambda b, h, i, j: i >= j, None, None, 40, 40, device=DEVICE), cu_seqlens_q=cu_q)

    def test_compiled_lengths(self):
        """One graph for lengths and windows of all sizes, or few."""
        x = torch.randn(2, 40, H, D, device=DEVICE)
        slopes = torch.rand(H, device=DEVICE)
        for options in ({}, {"causal": True}, {"window_size": (5, 0)}, {"window_size": (3, 4), "alibi_slopes": slopes}, {"causal": True, "alibi_slopes": slopes, "softcap": 5.0}):
            torch._dynamo.reset()
            compiled = torch.compile(lambda q, k, v: at.flash_attn_func(q, k, v, **options), fullgraph=True, backend="aot_eager")
            for keys in range(10, 30):
                args = x[:, :5], x[:, :keys], x[:, :keys]
                self.close(compiled(*args), at.flash_attn_func(*args, **options).double())
        q, k, v, cu_q, cu_k = packed([9, 31], [20, 31])
        torch._dynamo.reset()
        compiled = torch.compile(lambda left: at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, window_size=(left, 1)), fullgraph=True, backend="aot_eager")
        for left in (3, 4, 7):
            self.close(compiled(left), at.flash_attn_varlen_func(q, k, v, cu_q, cu_k, window_size=(left, 1)).double())
        if programs._CAN_READ_CODE:
            def within(q, k, v, cu):
                return at.flex_attention(q, k, v, lambda s, b, h, i, j: s - 0.1 * (i - j), cu_seqlens_q=cu)
            packed_ = [each.transpose(0, 1)[None].contiguous() for each in (q, q, q)]
            self.close(torch.compile(within, fullgraph=True, backend="aot_eager")(*packed_, cu_q), within(*packed_, cu_q).double())

    def test_errors_of_flash(self):
        q, k, v, cu_q, cu_k = packed([9, 31], [9, 31])
        wrong = ((ValueError, "3 dimensions", (q[None], k, v, cu_q, cu_k), {}),
                 (ValueError, "cu_seqlens_q is torch.float32", (q, k, v, cu_q.float(), cu_k), {}),
                 (ValueError, "cu_seqlens_k is None", (q, k, v, cu_q, None), {}),
                 (ValueError, "of 2 and 1 sequences", (q, k, v, cu_q, cu_k[:2]), {}),
                 (ValueError, "no sequence", (q, k, v, cu_q[:1], cu_k[:1]), {}),
                 (ValueError, "alibi_slopes has shape", (q, k, v, cu_q, cu_k), {"alibi_slopes": torch.ones(3, device=DEVICE)}),
                 (ValueError, "seqused_k", (q, k, v, cu_q, cu_k), {"seqused_k": cu_k}),
                 (ValueError, "k has shape .*, but must have 4 dimensions", (q, k, v, cu_q), {"block_table": cu_k[None]}),
                 (ValueError, "without seqused_k and cu_seqlens_k", (q, k[None], v[None], cu_q), {"block_table": cu_k[None]}),
                 (ValueError, r"block_table is torch.int32 of shape \[3\], but", (q, k[None], v[None], cu_q, cu_k), {"block_table": cu_k}),
                 (attune.Error, "no backward pass", (q, k[None, :32], v[None, :32], cu_q, cu_k), {"block_table": cu_k[:2, None]}),
                 (attune.Error, "return_attn_probs", (q, k, v, cu_q, cu_k), {"dropout_p": 0.1, "return_attn_probs": True}))
        for kind, text, args, options in wrong:
            with self.assertRaisesRegex(kind, text):
                at.flash_attn_varlen_func(*args, **options)
        x = torch.randn(2, 8, H, D, device=DEVICE)
        for name in ("rotary_cos", "rotary_sin", "cache_batch_idx"):
            with self.assertRaisesRegex(attune.Error, name):
                at.flash_attn_with_kvcache(x, x, x, **{name: x})
        for options in ({"k": x}, {"k": x, "v": x}, {"cache_seqlens": cu_q}, {"cache_seqlens": torch.ones(2, device=DEVICE)}, {"cache_leftpad": cu_q[:1]},
                        {"k": x, "v": x[:, :1], "cache_seqlens": 0}, {"k": x[:1], "v": x[:1], "cache_seqlens": 0}, {"k": x[:, :, :1], "v": x[:, :, :1], "cache_seqlens": 0}):
            with self.assertRaises(ValueError):
                at.flash_attn_with_kvcache(x, x, x, **options)


if __name__ == "__main__":
    unittest.main()
