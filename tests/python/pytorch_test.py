"""attune.torch on the CPU target, against PyTorch in float64 through autograd."""
import importlib.util
import math
import sys
import unittest
import warnings

if importlib.util.find_spec("torch") is None:
    print("PyTorch is missing: pip install torch to run what concerns it")
    sys.exit(77)

import torch
from torch.nn.attention import flex_attention as flex
from torch.utils.checkpoint import checkpoint

import attune
import attune.torch as at
from attune.torch import ops, programs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
B, H, SQ, SK, D = 2, 4, 37, 53, 16
CAP = 3.0  # a global that score_mods read


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def inputs(sq=SQ, sk=SK, heads_kv=H, columns=D, dv=D, dtype=torch.float32, grad=True):
    shapes = ((B, H, sq, columns), (B, heads_kv, sk, columns), (B, heads_kv, sk, dv))
    return [torch.randn(shape, device=DEVICE, dtype=dtype).requires_grad_(grad) for shape in shapes]


def dense(q, k, v, score_mod=None, mask_mod=None, visible=None, scale=None):
    """The formula in float64. The functions get index tensors that broadcast to [B, H, Sq, Sk]."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    s = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    at_ = [torch.arange(n, device=q.device, dtype=torch.int32).view([-1 if i == j else 1 for j in range(4)]) for i, n in enumerate(s.shape)]
    if score_mod is not None:
        s = score_mod(s, *at_)
    seen = torch.ones_like(s, dtype=torch.bool) if mask_mod is None else mask_mod(*at_).expand(s.shape)
    if visible is not None:
        seen = visible(seen)
    p = torch.where(seen.any(-1, keepdim=True), s.masked_fill(~seen, -math.inf).softmax(-1), 0)
    return p @ v


class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def near(self, actual, expected, tolerance=3e-5):
        self.assertEqual(actual.shape, expected.shape)
        self.assertTrue(torch.isfinite(actual).all())
        self.assertLessEqual((actual.double() - expected).abs().max().item(), tolerance * max(1, expected.abs().max().item()))

    def check(self, score_mod=None, mask_mod=None, learned=(), tolerance=3e-5, reference=None, **shape):
        """Output and gradients; `reference` is a score_mod that broadcasts, where score_mod does not."""
        q, k, v = inputs(**shape)
        mask = None if mask_mod is None else at.create_block_mask(mask_mod, B, H, q.shape[2], k.shape[2], device=DEVICE)
        output = at.flex_attention(q, k, v, score_mod, mask, enable_gqa=True)
        expected = dense(q, k, v, reference or score_mod, mask_mod)
        self.near(output, expected, tolerance)
        do = torch.randn_like(output)
        wanted = (q, k, v, *learned)
        for got, right in zip(torch.autograd.grad(output, wanted, do), torch.autograd.grad(expected, wanted, do.double())):
            self.near(got, right, tolerance)

    def test_plain_and_causal(self):
        self.check()
        self.check(mask_mod=causal)
        self.check(flex._identity, flex.noop_mask)

    def test_shapes(self):
        self.check(mask_mod=causal, heads_kv=2)
        self.check(mask_mod=causal, dv=24)
        self.check(mask_mod=causal, columns=20, dv=12)
        self.check(mask_mod=causal, sq=1, sk=1)
        self.check(mask_mod=causal, sq=300, sk=200, dtype=torch.bfloat16, tolerance=3e-2)

    def test_scores(self):
        slopes = torch.rand(H, device=DEVICE)
        self.check(lambda s, b, h, q, k: s + slopes[h] * (k - q), causal)
        self.check(lambda s, b, h, q, k: s + torch.exp2(-((h + 1) * 8.0 / H)) * (k - q), causal)
        self.check(lambda s, b, h, q, k: 3 * torch.tanh(s / 3))
        self.check(lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")))
        self.check(lambda s, b, h, q, k: torch.where((q - k) % 3 == 0, s * 2, torch.abs(s)))
        self.check(lambda s, b, h, q, k: s.clamp(-1, 1) + torch.clamp(q - k, max=5) * 0.1)
        self.check(lambda s, b, h, q, k: torch.relu(s) + torch.sigmoid(s) * torch.pow(s, 2) + torch.nn.functional.silu(s))
        self.check(lambda s, b, h, q, k: torch.nn.functional.gelu(s) + torch.nn.functional.gelu(s, approximate="tanh"))
        self.check(lambda s, b, h, q, k: torch.erf(s) + torch.erfc(s * 0.5) + torch.log1p(s.abs()) + torch.nn.functional.logsigmoid(s))
        self.check(lambda s, b, h, q, k: torch.atan(s) + torch.atan2(s, s * 0 + 2.0) + torch.logaddexp(s, s * 0.5) + torch.lerp(s, s * 2, 0.3))
        self.check(lambda s, b, h, q, k: torch.copysign(s, q - k - 0.5) + torch.nan_to_num(torch.log(s), nan=0.5, neginf=-3.0) + torch.nan_to_num(s))

    def test_searchsorted(self):
        offsets = torch.tensor([0, 7, 20, 20, 41], dtype=torch.int32, device=DEVICE)
        limits = torch.tensor([1.0, 4.0, 30.0], device=DEVICE)
        document = lambda i: torch.searchsorted(offsets, i.to(torch.int32), right=True)
        self.check(mask_mod=lambda b, h, q, k: document(q) == document(k))
        self.check(mask_mod=lambda b, h, q, k: torch.bucketize((q - k).abs().float(), limits) <= 1)
        self.check(lambda s, b, h, q, k: s - 0.1 * torch.searchsorted(limits, (q - k).abs().float(), side="right", out_int32=True))

    def test_integers_are_pythons(self):
        for divisor in (3, -3, 7):
            self.check(lambda s, b, h, q, k: s + ((k - q) // divisor) * 0.01 + ((k - q) % divisor) * 0.1)
        # Of quotients that floats hold: on a GPU PyTorch's own (q - k) / 7 is a product, and its floor one too little at times.
        self.check(lambda s, b, h, q, k: s + torch.floor((q - k) / 8) + torch.round((q - k) / 4) + torch.ceil((q - k) / 16) * 0.5)
        self.check(lambda s, b, h, q, k: s + torch.div(q - k, 5, rounding_mode="trunc") + torch.fmod(q - k, 4) * 0.1 + torch.sign(q - k))
        self.check(mask_mod=lambda b, h, q, k: ((q ^ k) & 3) < 3)

    def test_learned_tensors(self):
        slopes = torch.rand(H, device=DEVICE, requires_grad=True)
        table = torch.randn(H, SQ + SK, device=DEVICE, requires_grad=True)
        bias = torch.randn(SQ, SK, device=DEVICE, requires_grad=True)
        cap = torch.tensor(2.0, device=DEVICE, requires_grad=True)
        self.check(lambda s, b, h, q, k: s + slopes[h] * (k - q), causal, [slopes])
        self.check(lambda s, b, h, q, k: s + table[h, q - k + SK], None, [table])
        self.check(lambda s, b, h, q, k: s + table[h, q - k], None, [table])  # a negative index counts from the end
        self.check(lambda s, b, h, q, k: s + table[h][q - k + SK], None, [table], reference=lambda s, b, h, q, k: s + table[h, q - k + SK])
        self.check(lambda s, b, h, q, k: s + bias[q, k], None, [bias])
        self.check(lambda s, b, h, q, k: cap * torch.tanh(s / cap), None, [cap])

    def test_rows_of_tensors(self):
        places = torch.randn(max(SQ, SK), 3, device=DEVICE, requires_grad=True)
        weights, length = torch.randn(3, device=DEVICE, requires_grad=True), torch.rand(H, device=DEVICE) + 1
        self.check(lambda s, b, h, q, k: s * torch.exp(-((places[q] - places[k]).pow(2).sum(-1) + 0.1).sqrt() / length[h]), None, [places])
        self.check(lambda s, b, h, q, k: s + torch.dot(places[q], places[k]), None, [places],
                   reference=lambda s, b, h, q, k: s + (places[q] * places[k]).sum(-1))
        self.check(lambda s, b, h, q, k: s + (places[q] * weights).mean(-1) + places[k][..., 1:].amax(-1) - places[k].amin(-1), causal, [places, weights])
        self.check(lambda s, b, h, q, k: s + torch.linalg.vector_norm(places[k], dim=-1) + torch.cat([places[q], weights.expand(places[q].shape)], -1).prod(-1) * 0.1,
                   None, [places, weights])
        self.check(lambda s, b, h, q, k: s + (s.unsqueeze(-1) * torch.tensor([1.0, -2.0], device=DEVICE)).sum(-1) + torch.stack([s, s * s], -1).sum(-1))
        self.check(lambda s, b, h, q, k: s + (places[q].unsqueeze(-1) * places[k].unsqueeze(-2)).transpose(-1, -2)[..., 0].sum(-1), None, [places])
        def of_rows(rows):
            return lambda s, b, h, q, k: s + (rows[q] * rows[k]).sum(-1) / rows[q].shape[0]
        for columns in (3, 5, 2, 3):  # one function, rows of several lengths
            rows = torch.randn(max(SQ, SK), columns, device=DEVICE, requires_grad=True)
            self.check(of_rows(rows), None, [rows], reference=lambda s, b, h, q, k: s + (rows[q] * rows[k]).sum(-1) / rows.shape[1])
        q, k, v = inputs()
        apart = at.flex_attention(q, k, v, lambda s, b, h, i, j: s - (places[i] - places[j]).norm(dim=-1))  # 0 where i = j
        self.assertTrue(torch.autograd.grad(apart.sum(), places)[0].isfinite().all())
        chosen = torch.randint(0, 8, (B, H, -(-SQ // 16), 3), device=DEVICE)
        self.check(mask_mod=lambda b, h, q, k: (chosen[b, h, q // 16] == (k // 8).unsqueeze(-1)).any(dim=-1) | (q == k))
        self.check(mask_mod=lambda b, h, q, k: (chosen[b, h, q // 16] != (k // 8).unsqueeze(-1)).all(-1) | ((chosen[b, h, 0] > 3).sum(-1) > 1))

    def test_what_is_computed_of_whole_tensors(self):
        slopes = torch.rand(H, device=DEVICE, requires_grad=True)
        self.check(lambda s, b, h, q, k: s + (slopes * 2)[h], None, [slopes])
        self.check(lambda s, b, h, q, k: s + slopes.view(2, H // 2)[h // (H // 2), h % (H // 2)], None, [slopes])
        offsets = torch.tensor([0, 10, 30, SK], device=DEVICE)
        self.check(mask_mod=lambda b, h, q, k: (k < offsets[1:][h % 3]) & (k >= offsets[:-1][h % 3]))

    def test_functions_of_functions(self):
        def window(b, h, q, k):
            return q - k < 10
        self.check(mask_mod=flex.and_masks(causal, window))
        self.check(mask_mod=flex.or_masks(causal, lambda b, h, q, k: k < 10))

        class Slopes(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.rand(H, device=DEVICE))

            def forward(self, s, b, h, q, k):
                return s * self.weight[h]
        module = Slopes()
        self.check(module, None, [module.weight])
        self.check(module.forward, None, [module.weight])

        def in_place(s, b, h, q, k):
            s += h
            s *= 0.5
            return s
        self.check(in_place, reference=lambda s, b, h, q, k: (s + h) * 0.5)

    def test_what_a_function_reads_is_read_in_each_call(self):
        global CAP
        q, k, v = inputs(grad=False)

        def run(score_mod):
            return at.flex_attention(q, k, v, score_mod)
        slopes, cap = torch.rand(H, device=DEVICE), 2.0
        def local(s, b, h, i, j):
            return s * cap + slopes[h] * j
        def globally(s, b, h, i, j):
            return s * CAP
        first = len(programs._functions)
        self.near(run(local), dense(q, k, v, local))
        slopes = torch.rand(H, device=DEVICE)
        self.near(run(local), dense(q, k, v, local))
        self.assertEqual(len(programs._functions), first + 1)  # another tensor: the same trace
        cap = 5.0
        self.near(run(local), dense(q, k, v, local))
        self.assertEqual(len(programs._functions), first + 1)  # another number: the same, too
        self.near(run(globally), dense(q, k, v, globally))
        CAP = 0.5
        self.near(run(globally), dense(q, k, v, globally))
        traced, kernels = len(programs._functions), len(ops._kernels)
        for _ in range(3):  # defined again in each step: one trace
            def again(s, b, h, i, j):
                return s + slopes[h] * i
            run(again)
        self.assertEqual((len(programs._functions), len(ops._kernels)), (traced + 1, kernels + 1))

    def test_changes_are_noticed_wherever_they_are_read(self):
        class Layer(torch.nn.Module):
            shared = 1.0

            def __init__(self, window):
                super().__init__()
                self.window = window

            def inside(self, q, k):
                return q - k < self.window

            def mask(self, b, h, q, k):
                return (q >= k) & self.inside(q, k)

            def score(self, s, b, h, q, k):
                return s * Layer.shared

        class Factor:
            def __init__(self, by):
                self.by = by

            def __mul__(self, other):
                return other * self.by
        layers = Layer(5), Layer(9)
        factor, functions, named, listed = Factor(2.0), {"f": lambda x: x * 2}, {"get": 2.0}, {3.0}
        def attributed(s, b, h, q, k):
            return s * attributed.by
        attributed.by = 2.0
        get = named.get
        cases = [
            (lambda s, b, h, q, k: factor * s, lambda: setattr(factor, "by", 3.0)),
            (lambda s, b, h, q, k: functions["f"](s), lambda: functions.update(f=lambda x: x * 3)),
            (lambda s, b, h, q, k: s * getattr(factor, "by"), lambda: setattr(factor, "by", 4.0)),
            (lambda s, b, h, q, k: s * get("get"), lambda: named.update(get=5.0)),
            (lambda s, b, h, q, k: s * max(listed), lambda: listed.add(7.0)),
            (layers[0].score, lambda: setattr(Layer, "shared", 2.0)),
            (attributed, lambda: setattr(attributed, "by", 3.0)),
        ]
        q, k, v = inputs(grad=False)
        for score_mod, change in cases:
            for _ in range(2):
                self.near(at.flex_attention(q, k, v, score_mod), dense(q, k, v, score_mod))
                change()
        for layer in layers:
            mask = at.create_block_mask(layer.mask, None, None, SQ, SK, device=DEVICE)
            self.near(at.flex_attention(q, k, v, block_mask=mask), dense(q, k, v, None, layer.mask))
        self.assertTrue(torch.equal(mask.to_dense(), at.create_block_mask(layers[1].mask, None, None, SQ, SK, device=DEVICE).to_dense()))
        mask.mask_mod = flex.noop_mask
        self.assertTrue(mask.to_dense().all())
        scale = torch.tensor(0.5)
        for value in (0.5, 2.0):
            scale.fill_(value)
            self.near(at.flex_attention(q, k, v, scale=scale), dense(q, k, v, scale=value))

    def test_what_is_looked_up_again_is_what_a_walk_finds(self):
        """Of one function object that changes between calls: each change twice, as the second call of a state looks up what the first walked through."""
        q, k, v = inputs(grad=False)
        box = {"by": 2.0}
        slopes, other, window = torch.rand(H, device=DEVICE), None, 9
        numbers = [1.0, 2.0]
        def inner(x):
            return x * 2
        def score(s, b, h, i, j, by=1.5):
            return inner(s) * by + slopes[h] * j * numbers[1] + (0 if other is None else other[h])
        def mask(b, h, i, j):
            return i - j < window

        def check(cached=True):
            block_mask = at.create_block_mask(mask, None, None, SQ, SK, device=DEVICE)
            for _ in range(3):
                self.near(at.flex_attention(q, k, v, score, block_mask), dense(q, k, v, score, mask))
            found = programs.walks.find(score, mask, (programs.settings(), None, ((1, 1, SQ, SK), (128, 128)), True, False, None), q, k, v, programs.Own())
            self.assertEqual(found is not None, cached)
        check()
        slopes = torch.rand(H, device=DEVICE)
        check()
        slopes = torch.nn.Parameter(slopes)
        check()
        slopes = torch.arange(H, device=DEVICE)  # another dtype, another kernel
        check()
        slopes = torch.rand(1, H, device=DEVICE).expand(2, H)[1]
        check()
        other = slopes  # the same tensor once more
        check()
        other = torch.rand(H, device=DEVICE)
        check()
        window = 5
        check()
        score.__defaults__ = (0.5, )
        check()
        numbers[1] = 0.25
        check()
        numbers = (1.0, 0.5)
        check()
        def inner(x):
            return x * 3
        check()
        inner = lambda x: x * box["by"]
        check(cached=False)  # of a dict it is the walk that tells
        box["by"] = 5.0
        check(cached=False)
        inner = torch.abs
        check()
        score.slopes = torch.zeros(H, device=DEVICE)  # an attribute with the name of what it reads
        check(cached=False)
        del score.slopes
        check()

    def test_cases_of_one_function(self):
        slopes = torch.rand(H, device=DEVICE)
        def score(s, b, h, i, j):
            return s + slopes[h] * (j - i)
        def run(*tensors, tolerance=3e-5, scale=None):
            for _ in range(2):
                self.near(at.flex_attention(*tensors, score, scale=scale), dense(*tensors, score, scale=scale), tolerance)
        q, k, v = inputs(grad=False)
        run(q, k, v)
        run(*inputs(grad=False, dtype=torch.bfloat16), tolerance=3e-2)
        run(q, k, v, scale=0.5)
        run(q, k, v, scale=0.25)
        run(*inputs(20, 30, grad=False))
        run(*[x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)])
        run(*[torch.nn.functional.pad(x, (1, 0))[..., 1:] for x in (q, k, v)])
        for x in (q, k, v):  # gradients begin to be wanted, and of what the function reads
            x.requires_grad_()
        for wanted in ((q, k, v), (q, k, v, slopes)):
            for x in wanted:
                x.requires_grad_()
            outputs = at.flex_attention(q, k, v, score), dense(q, k, v, score)
            for a, b in zip(*[torch.autograd.grad(x.sum(), wanted) for x in outputs]):
                self.near(a, b)
        with self.assertRaisesRegex(ValueError, "enable_gqa"):
            at.flex_attention(q, k[:, :2], v[:, :2], score)
        at.flex_attention(q, k[:, :2], v[:, :2], score, enable_gqa=True)
        with self.assertRaisesRegex(ValueError, "enable_gqa"):
            at.flex_attention(q, k[:, :2], v[:, :2], score)

    def test_powers_and_activations(self):
        functional = torch.nn.functional
        self.check(lambda s, b, h, q, k: s + 2.0**(-(h + 1)) + 3.0**(s * 0.1) + (s * s + 1)**0.5 + s**2)
        self.check(lambda s, b, h, q, k: functional.softplus(s) + functional.elu(s) + functional.leaky_relu(s))
        self.check(lambda s, b, h, q, k: s.masked_fill(q < k, -1e9))

    def test_tensors_that_a_mask_reads_have_no_gradient(self):
        weights = torch.rand(SK, device=DEVICE, requires_grad=True)
        self.check(mask_mod=lambda b, h, q, k: weights[k] > 0.1)

    def test_derivatives_that_are_refused(self):
        q, k, v = inputs()
        output = at.flex_attention(q, k, v)
        gradient, = torch.autograd.grad(output.sum(), q, create_graph=True)
        self.assertRaisesRegex(attune.Error, "no second derivatives", (output.sum() + gradient.square().sum()).backward)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(q.detach(), torch.ones_like(q))
            self.assertRaisesRegex(attune.Error, "forward-mode", at.flex_attention, dual, k, v)
        self.assertRaisesRegex(attune.Error, "torch.func", torch.func.vmap(lambda q: at.flex_attention(q, k, v)), torch.stack([q, q]))
        self.assertRaisesRegex(ValueError, "one logit", at.flex_attention, q, k, v, sink=torch.zeros(H + 1, device=DEVICE))

    def test_inference_mode(self):
        with torch.inference_mode():
            mask = flex.create_block_mask(causal, None, None, SQ, SK, device=DEVICE, BLOCK_SIZE=16)
            q, k, v = inputs(grad=False)
            self.near(at.flex_attention(q, k, v, block_mask=mask), dense(q, k, v, None, causal))

    def test_compiled_graphs_of_any_size(self):
        torch._dynamo.reset()
        compiled = torch.compile(lambda q, k, v, scale, p: at.flex_attention(q, k, v, scale=scale, dropout_p=p), backend="eager", dynamic=True)
        for length, scale in ((30, 0.5), (40, 0.25), (50, 0.125)):
            q, k, v = inputs(length, length)
            self.near(compiled(q, k, v, scale, 0.0), dense(q, k, v, scale=scale))

    def test_block_masks_of_pytorch(self):
        ids = torch.randint(0, 3, (B, 256), device=DEVICE).sort(-1).values
        def documents(b, h, q, k):
            return (ids[b, q] == ids[b, k]) & (q >= k)
        for size in (16, 128, (32, 64)):
            q, k, v = inputs(256, 256)
            mask = flex.create_block_mask(documents, B, None, 256, 256, device=DEVICE, BLOCK_SIZE=size)
            self.near(at.flex_attention(q, k, v, block_mask=mask), dense(q, k, v, None, documents))
        # Edited: of rows of blocks the first alone; of a full list mask_mod is not asked; slices without a function are refused.
        counts, columns = torch.tensor([[[1, 1]]], dtype=torch.int32), torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
        q, k, v = inputs(256, 256)
        def partly(seen):
            result = torch.zeros_like(seen)
            result[..., :128, :128] = seen[..., :128, :128]
            result[..., 128:, 128:] = seen[..., 128:, 128:]
            return result
        mask = flex.BlockMask.from_kv_blocks(counts.to(DEVICE), columns.to(DEVICE), BLOCK_SIZE=128, mask_mod=causal)
        self.near(at.flex_attention(q, k, v, block_mask=mask), dense(q, k, v, None, causal, partly))
        none = torch.zeros_like(counts)
        mask = flex.BlockMask.from_kv_blocks(none.to(DEVICE), columns.to(DEVICE), counts.to(DEVICE), columns.to(DEVICE), BLOCK_SIZE=128, mask_mod=causal)
        self.near(at.flex_attention(q, k, v, block_mask=mask), dense(q, k, v, None, None, partly))
        mask.full_kv_num_blocks.copy_(none)  # noticed: nothing is left
        self.assertEqual(at.flex_attention(q, k, v, block_mask=mask).abs().max().item(), 0)
        with self.assertRaises(RuntimeError):
            at.flex_attention(q, k, v, block_mask=flex.create_block_mask(causal, 1, 1, 256, 256, device=DEVICE)[:, :1])

    def test_block_mask(self):
        mask = at.create_block_mask(causal, None, None, 256, 256, device=DEVICE)
        self.assertEqual(mask.shape, (1, 1, 256, 256))
        self.assertTrue(torch.equal(mask.kv_num_blocks, mask.torch().kv_num_blocks))
        self.assertTrue(torch.equal(mask.to_dense(), mask.torch().to_dense()))
        self.assertRaises(AttributeError, lambda: mask.nothing)
        self.assertIsInstance(mask, flex.BlockMask)
        self.assertEqual(str(mask), str(mask.torch()))
        self.assertEqual(mask[0].shape, mask.torch()[0].shape)
        moved = mask.to("cpu")
        self.assertTrue(moved.kv_indices.is_cpu and torch.equal(moved.kv_indices, mask.kv_indices.cpu()))
        self.assertIs(type(at.BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices)), flex.BlockMask)
        q, k, v = inputs(10, 10, grad=False)
        self.assertRaisesRegex(ValueError, "256 queries", at.flex_attention, q, k, v, block_mask=mask)
        self.assertRaisesRegex(attune.Error, "block_mask is of type", at.flex_attention, q, k, v, block_mask=causal)

    def test_lse_and_its_gradient(self):
        q, k, v = inputs()
        lse = at.flex_attention(q, k, v, return_aux=flex.AuxRequest(lse=True))[1].lse
        right = torch.logsumexp(q.double() @ k.double().transpose(-1, -2) / math.sqrt(D), -1)
        self.near(lse, right)
        both = at.flex_attention(q, k, v, return_lse=True)
        got = torch.autograd.grad(both[0].sum() + (both[1] * 2).sum(), (q, k, v))
        wanted = torch.autograd.grad(dense(q, k, v).sum() + (right * 2).sum(), (q, k, v))
        for a, b in zip(got, wanted):
            self.near(a, b)
        self.assertRaisesRegex(attune.Error, "max_scores", at.flex_attention, q, k, v, return_aux=flex.AuxRequest(max_scores=True))

    def test_beyond_flex_attention(self):
        q, k, v = inputs()
        sink = torch.randn(H, device=DEVICE, requires_grad=True)
        s = q.double() @ k.double().transpose(-1, -2) / math.sqrt(D)
        right = torch.cat([s, sink.double().view(1, H, 1, 1).expand(B, H, SQ, 1)], -1).softmax(-1)[..., :-1] @ v.double()
        output = at.flex_attention(q, k, v, sink=sink)
        self.near(output, right)
        self.near(*[torch.autograd.grad(x.sum(), sink)[0] for x in (output, right)])
        self.near(at.flex_attention(q, k, v, normaliser="sigmoid"), torch.sigmoid(s) @ v.double())
        runs = [torch.autograd.grad(at.flex_attention(q, k, v, deterministic=True).sum(), (q, k, v)) for _ in range(2)]
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(*runs)))

    def test_dropout_follows_the_generator(self):
        q, k, v = inputs(256, 256)
        def run():
            return at.flex_attention(q, k, v, dropout_p=0.25)
        torch.manual_seed(3)
        first, second = run(), run()
        torch.manual_seed(3)
        self.assertTrue(torch.equal(first, run()))
        self.assertFalse(torch.equal(first, second))
        ones = torch.ones_like(v)
        kept = at.flex_attention(torch.zeros_like(q), k, ones, dropout_p=0.25)
        self.assertAlmostEqual(kept.mean().item(), 1, delta=0.01)
        def loss(x):
            return at.flex_attention(x, k, v, dropout_p=0.25).square().sum()
        gradients = []
        for how in (loss, lambda x: checkpoint(loss, x, use_reentrant=False)):
            torch.manual_seed(7)
            gradients.append(torch.autograd.grad(how(q), q)[0])
        self.assertTrue(torch.equal(*gradients))

    def test_scaled_dot_product_attention(self):
        bias = torch.randn(B, 1, SQ, SK, device=DEVICE, requires_grad=True)
        for given in ({}, {"is_causal": True}, {"attn_mask": bias}, {"attn_mask": bias.detach() > 0}, {"scale": 0.3}):
            q, k, v = inputs()
            output = at.scaled_dot_product_attention(q, k, v, **given)
            right = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), **{
                name: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for name, x in given.items()})
            self.near(output, right)
            wanted = (q, k, v, bias) if given.get("attn_mask") is bias else (q, k, v)
            for a, b in zip(*[torch.autograd.grad(x.sum(), wanted) for x in (output, right)]):
                self.near(a, b.double())

    def test_layouts(self):
        q, k, v = [torch.randn(B, n, H, D, device=DEVICE).transpose(1, 2) for n in (SQ, SK, SK)]
        output = at.flex_attention(q, k, v)
        self.near(output, dense(q, k, v))
        self.assertEqual(output.stride(), q.stride())
        odd = torch.randn(B, H, SK, D + 1, device=DEVICE)[..., 1:]  # neither aligned nor of strides of 16 bytes
        self.near(at.flex_attention(q, odd, odd), dense(q, odd, odd))
        turned = torch.randn(B, H, D, SK, device=DEVICE).transpose(2, 3)
        self.near(at.flex_attention(q, turned, v), dense(q, turned, v))
        one = [x[:1] for x in (k, v)]
        self.near(at.flex_attention(q, *one), dense(q, *[x.expand(B, -1, -1, -1) for x in one]))

    def test_autocast(self):
        q, k, v = inputs(64, 64)
        with torch.autocast(DEVICE, torch.bfloat16):
            output = at.flex_attention(q, k, v, block_mask=at.create_block_mask(causal, None, None, 64, 64, device=DEVICE))
        self.assertEqual(output.dtype, torch.bfloat16)
        self.assertEqual(torch.autograd.grad(output.float().sum(), q)[0].dtype, torch.float32)
        self.near(output, dense(q, k, v, None, causal), 3e-2)
        with torch.autocast(DEVICE, torch.bfloat16):
            mixed = at.flex_attention(q.bfloat16(), k, v)
        self.assertEqual(mixed.dtype, torch.bfloat16)
        self.near(mixed, dense(q, k, v), 3e-2)

    def test_operations(self):
        slopes = torch.rand(H, device=DEVICE)
        for dropout in (0.0, 0.3):
            definition = programs.Definition(None, None, None, False, (None, None), False, None, None, bool(dropout), None)
            found, captured = programs.program(lambda s, b, h, q, k: s + slopes[h] * (k - q), causal, definition, torch.device(DEVICE)), [slopes]
            q, k, v = inputs(grad=False)
            seeds = torch.randint(0, 2**62, (2,), device=DEVICE) if dropout else None
            arguments = (q, k, v, captured, seeds, found.text, dropout, "", False)
            torch.library.opcheck(torch.ops.attune.attention.default, arguments)
            turned = torch.randn(B, H, D, SQ, device=DEVICE).transpose(2, 3)
            torch.library.opcheck(torch.ops.attune.attention.default, (turned, *arguments[1:]))
            o, lse = torch.ops.attune.attention(*arguments)
            torch.library.opcheck(torch.ops.attune.attention_backward.default,
                                  (o, None, q, k, v, o, lse, captured, seeds, found.text, dropout, "slopes", False))
        # What another process has loaded: the text alone.
        saved = dict(ops.variants), dict(ops._kernels)
        ops.variants.clear(), ops._kernels.clear()
        self.assertTrue(torch.equal(torch.ops.attune.attention(*arguments)[0], o))
        ops.variants.update(saved[0]), ops._kernels.update(saved[1])

    def test_compiled_graphs(self):
        slopes = torch.rand(H, device=DEVICE, requires_grad=True)
        def score(s, b, h, q, k):
            return s + slopes[h] * (k - q)
        mine = at.create_block_mask(causal, None, None, 64, 64, device=DEVICE)
        theirs = flex.create_block_mask(causal, None, None, 64, 64, device=DEVICE, BLOCK_SIZE=16)
        q, k, v = inputs(64, 64)
        for mask in (mine, theirs):
            def model(q, k, v):
                return at.flex_attention(q * 2, k, v, score, mask).sin()
            plain = model(q, k, v)
            for backend in ("eager", "aot_eager"):
                torch._dynamo.reset()
                compiled = torch.compile(model, backend=backend, fullgraph=True)(q, k, v)
                self.near(compiled, plain.double())
                for a, b in zip(*[torch.autograd.grad(x.sum(), (q, k, v, slopes), retain_graph=True) for x in (compiled, plain)]):
                    self.near(a, b.double())

    def test_compiled_graphs_guard_numbers(self):
        global CAP
        CAP = 2.0
        def score(s, b, h, q, k):
            return s * CAP
        q, k, v = inputs(grad=False)
        torch._dynamo.reset()
        compiled = torch.compile(lambda q, k, v: at.flex_attention(q, k, v, score), backend="eager", fullgraph=True)
        for CAP in (2.0, 3.0, 2.0):
            self.near(compiled(q, k, v), dense(q, k, v, score))
        def of_the_graph(q, k, v):
            mean = q.mean()
            return at.flex_attention(q, k, v, lambda s, b, h, i, j: s + mean * j)
        torch._dynamo.reset()
        self.near(torch.compile(of_the_graph, backend="eager")(q, k, v), of_the_graph(q, k, v).double())

    def test_block_sparse_masks(self):
        """Layouts of blocks in memory, dense, CSR and BSR, of one or all heads and batches, with another mask, lengths that end in a block."""
        torch.manual_seed(1)
        for size, dims in ((8, (5, 7)), ((8, 16), (H, 5, 4)), (16, (B, H, 3, 4)), (32, (B, 1, 2, 2))):
            rows, columns = (size, size) if isinstance(size, int) else size
            layout = torch.rand(dims, device=DEVICE) < 0.5
            layout[..., 0] = True
            table = layout.reshape((1,) * (4 - layout.dim()) + dims)

            def visible(b, h, q, k):
                return table[b % table.shape[0], h % table.shape[1], q // rows, k // columns]
            for mask_mod in (None, causal):
                mask = at.create_block_sparse_mask(layout, SQ, SK, size, mask_mod)
                want = visible if mask_mod is None else lambda b, h, q, k: visible(b, h, q, k) & causal(b, h, q, k)
                q, k, v = inputs()
                output = at.flex_attention(q, k, v, block_mask=mask)
                expected = dense(q, k, v, mask_mod=want)
                self.near(output, expected)
                grad = torch.randn_like(expected)
                for a, b in zip(torch.autograd.grad(output, (q, k, v), grad.float()), torch.autograd.grad(expected, (q, k, v), grad)):
                    self.near(a, b.double())
                self.near(at.flex_attention(q, k, v, block_mask=mask.torch()), expected)
                self.near(at.flex_attention(q, k, v, block_mask=mask.to(DEVICE)), expected)
        layout = torch.rand(5, 7, device=DEVICE) < 0.4
        q, k, v = inputs(grad=False)
        want = at.flex_attention(q, k, v, block_mask=at.create_block_sparse_mask(layout, SQ, SK, 8))
        csr = layout.float().to_sparse_csr()
        bsr = layout.repeat_interleave(8, 0).repeat_interleave(8, 1).float().to_sparse_bsr((8, 8))
        for given in (csr, bsr):
            self.assertTrue(torch.equal(at.flex_attention(q, k, v, block_mask=at.create_block_sparse_mask(given, SQ, SK, 8)), want))
        with self.assertRaisesRegex(ValueError, "layout has 5 rows and 7 columns of blocks, but 37 queries and 53 keys in blocks of 16 and 16 have 3 and 4"):
            at.create_block_sparse_mask(layout, SQ, SK, 16)
        with self.assertRaisesRegex(ValueError, r"blocks of shape \[7\]"):
            at.create_block_sparse_mask(layout[0], SQ, SK)
        with self.assertRaisesRegex(attune.Error, "torch.sparse_coo"):
            at.create_block_sparse_mask(layout.to_sparse(), SQ, SK, 8)

    @unittest.skipUnless(programs._CAN_READ_CODE, "needs a PyTorch whose Dynamo tells the code of functions that a graph makes")
    def test_functions_that_a_graph_makes(self):
        """torch.compile in one graph, where the compiled code makes the functions: closures of tensors that it computes, of numbers and of functions."""
        def step(q, k, v, slopes, cap):
            scaled, limit = slopes * 2, q.shape[2] // 2

            def capped(x, by=cap):
                return by * torch.tanh(x / by)

            def score(s, b, h, i, j, other=scaled + 1):
                return capped(s) + scaled[h] * other[h] * (i - j)

            def mask(b, h, i, j):
                return (i >= j) | (j < limit)
            return at.flex_attention(q, k, v, score, at.create_block_mask(mask, None, None, SQ, SK, device=DEVICE))
        torch._dynamo.reset()
        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        for cap in (2.0, 3.0):
            q, k, v = inputs()
            slopes = torch.rand(H, device=DEVICE).requires_grad_()
            want = dense(
                q, k, v, lambda s, b, h, i, j: cap * torch.tanh(s / cap) + slopes.double()[h] * 2 * (slopes.double()[h] * 2 + 1) * (i - j),
                lambda b, h, i, j: (i >= j) | (j < SQ // 2))
            got = compiled(q, k, v, slopes, cap)
            self.near(got, want)
            grad = torch.randn_like(want)
            for a, b in zip(torch.autograd.grad(got, (q, k, v, slopes), grad.float()), torch.autograd.grad(want, (q, k, v, slopes), grad)):
                self.near(a, b.double(), 1e-4)

    def test_refusals(self):
        q, k, v = inputs()
        vectors, long = torch.randn(SK, 8, device=DEVICE), torch.randn(SK, 65, device=DEVICE)
        refused = [
            (lambda s, b, h, i, j: s if i > j else s * 2, "has no value before the kernel runs"),
            (lambda s, b, h, i, j: s + torch.dot(long[i], long[j]), "has 65 elements.*concatenate the rows"),
            (lambda s, b, h, i, j: s + vectors[j].sort().values[0], "takes vectors inside of a score or mask no further"),
            (lambda s, b, h, i, j: s + (vectors[j] * 2)[i], "takes constant indices"),
            (lambda s, b, h, i, j: s + vectors[j].max(-1).values, "aten.max.dim takes vectors"),
            (lambda s, b, h, i, j: s + vectors[j].norm(p=3), "of order 3"),
            (lambda s, b, h, i, j: s + vectors[None, j].sum(), "indexed by None"),
            (lambda s, b, h, i, j: s + (vectors[j] * 2)[8], "has no element"),
            (lambda s, b, h, i, j: s + vectors[j].sum(1), "reduces dimension 1"),
            (lambda s, b, h, i, j: s + torch.cat([vectors[j], s], -1).sum(), "cannot take these vectors"),
            (lambda s, b, h, i, j: s + vectors[j].expand(3, 8).sum(), "has 24 elements"),
            (lambda s, b, h, i, j: s + vectors[j], "must return a scalar|is no scalar"),
            (lambda s, b, h, i, j: s + torch.rand(()).item(), "random numbers"),
            (lambda s, b, h, i, j: s.detach(), "stops the gradient"),
            (lambda s, b, h, i, j: None, "returns nothing"),
            (lambda s, b, h, i, j: s + vectors.to(torch.float8_e5m2)[i, 0], "float8_e5m2"),
        ]
        for score_mod, message in refused:
            with self.assertRaisesRegex(attune.Error, message) as raised:
                at.flex_attention(q, k, v, score_mod)
            self.assertEqual(raised.exception.file, __file__)
            self.assertGreater(raised.exception.line, 0)
        self.assertRaisesRegex(ValueError, "enable_gqa", at.flex_attention, q, k[:, :2], v[:, :2])
        self.assertRaisesRegex(ValueError, "one dtype", at.flex_attention, q, k.half(), v)
        self.assertRaisesRegex(ValueError, "columns", at.flex_attention, q, k[..., :8], v)
        self.assertRaisesRegex(attune.Error, "float64|bfloat16, float16 or float32", at.flex_attention, q.double(), k.double(), v.double())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                at.flex_attention(q, k, v, kernel_options={"BLOCK_M": 64})
        self.assertEqual(len([w for w in caught if "kernel_options" in str(w.message)]), 1)


if __name__ == "__main__":
    unittest.main()
