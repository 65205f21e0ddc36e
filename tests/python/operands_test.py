"""What attune.torch's operands may be beside tensors of their own memory, and derivatives that are not lost, against PyTorch in float64.

Operands that share memory or are one tensor, eagerly and under torch.compile; tensors whose value is not their memory; gradients that are stopped, asked
for twice, or of arguments that have none.
"""
import importlib.util
import itertools
import math
import sys
import unittest

if importlib.util.find_spec("torch") is None:
    print("PyTorch is missing: pip install torch to run what concerns it")
    sys.exit(77)

import torch
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import attune
import attune.torch as at

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
B, H, S, D = 2, 3, 19, 8
TABLE = WEIGHTS = None  # captured tensors that score_mods find as globals


def shared_score(s, b, h, q, k):
    return s + 0.1 * TABLE[b, h, k, 0] * WEIGHTS[b, h, q, 1]


def causal(b, h, q, k):
    return q >= k


def dense(q, k, v, table=None, weights=None, bias=None):
    """Causal attention with shared_score in the dtype of its operands."""
    s = q @ k.transpose(-1, -2) / math.sqrt(D)
    if table is not None:
        s = s + 0.1 * table[..., :S, 0].unsqueeze(-2) * weights[..., :S, 1].unsqueeze(-1)
    s = s if bias is None else s + bias
    hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
    return s.masked_fill(hidden, -math.inf).softmax(-1) @ v


class Operands(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def near(self, actual, expected, tolerance=2e-5):
        self.assertEqual(actual.shape, expected.shape)
        self.assertTrue(torch.isfinite(actual).all())
        self.assertLessEqual((actual.double() - expected.double()).abs().max().item(), tolerance * max(1, expected.abs().max().item()))

    def refused(self, message, action, kind=attune.Error):
        with self.assertRaises(kind) as caught:
            action()
        if isinstance(caught.exception, attune.Error):
            self.assertEqual(caught.exception.message, message)
        else:
            self.assertIn(message, str(caught.exception))

    # One tensor as several operands, and views that share memory -----------------

    def agree(self, model, reference, leaves, backends, what):
        """Output and gradients of leaves, of a function of them and, of `model`, compiled by each backend ("" is eager)."""
        wide = [x.detach().double().requires_grad_() for x in leaves]
        expected = reference(*wide)
        do = torch.randn_like(expected)
        right = torch.autograd.grad(expected, wide, do)
        for backend in backends:
            with self.subTest(what, backend=backend or "eagerly"):
                torch._dynamo.reset()
                run = torch.compile(model, backend=backend, fullgraph=True) if backend else model
                output = run(*leaves)
                self.near(output, expected)
                for got, wanted in zip(torch.autograd.grad(output, leaves, do.float()), right):
                    self.near(got, wanted)

    def test_one_tensor_as_several_operands(self):
        """Every way in which query, key, value and two captured tensors are among three tensors, at least two of them one."""
        global TABLE, WEIGHTS
        mask = at.create_block_mask(causal, None, None, S, S, device=DEVICE)
        ways = [way for way in itertools.product(range(3), repeat=5) if way == tuple(sorted(set(way), key=way.index).index(x) for x in way)]
        for way in ways:
            tensors = [torch.randn(B, H, S, D, device=DEVICE, requires_grad=True) for _ in range(max(way) + 1)]

            def model(*tensors):
                q, k, v = (tensors[i] for i in way[:3])
                return at.flex_attention(q, k, v, shared_score, mask)
            TABLE, WEIGHTS = tensors[way[3]], tensors[way[4]]
            backends = ["", "eager"] if way in ((0, 0, 0, 0, 0), (0, 1, 1, 0, 2), (0, 0, 1, 1, 0), (0, 1, 0, 2, 2)) else [""]
            self.agree(model, lambda *x: dense(*[x[i] for i in way]), tensors, backends + ["aot_eager"] * (len(backends) - 1), way)

    def test_views_that_share_memory(self):
        """Of one leaf: the same view twice, overlapping slices, a broadcast dimension, a transposition."""
        global TABLE, WEIGHTS
        TABLE, WEIGHTS = torch.zeros(B, H, S, D, device=DEVICE), torch.zeros(B, H, S, D, device=DEVICE)
        mask = at.create_block_mask(causal, None, None, S, S, device=DEVICE)
        cases = {"one view": lambda x: [x[:, :, :S, :D]] * 3,
                 "equal views": lambda x: [x[:, :, :S, :D], x[:, :, :S, :D], x[:, :, :S, :D]],
                 "overlapping slices": lambda x: [x[:, :, :S, :D], x[:, :, 3:S + 3, 4:D + 4], x[:, :, 1:S + 1, :D]],
                 "broadcast": lambda x: [x[:, :, :S, :D], x[:, :1, :S, :D].expand(-1, H, -1, -1), x[:, :1, :1, :D].expand(-1, H, S, -1)],
                 "transposed": lambda x: [x[:, :, :S, :D], x.transpose(-1, -2)[:, :, :S, :D], x[:, :, :S, :D].flip(-2)]}
        for what, views in cases.items():
            leaf = torch.randn(B, H, 24, 24, device=DEVICE, requires_grad=True)
            self.agree(lambda x: at.flex_attention(*views(x), None, mask), lambda x: dense(*views(x)), [leaf],
                       ["", "aot_eager"], what)

    def test_a_tensor_that_is_read_twice_and_then_is_two(self):
        """What was one tensor in the first call is guarded."""
        global TABLE, WEIGHTS
        q, k, v, first, second = (torch.randn(B, H, S, D, device=DEVICE) for _ in range(5))
        mask = at.create_block_mask(causal, None, None, S, S, device=DEVICE)
        torch._dynamo.reset()
        compiled = torch.compile(lambda q, k, v: at.flex_attention(q, k, v, shared_score, mask), backend="eager", fullgraph=True)
        for TABLE, WEIGHTS in ((first, first), (first, second), (second, second), (second, first)):
            self.near(compiled(q, k, v), dense(*[x.double() for x in (q, k, v, TABLE, WEIGHTS)]))

    def test_masks_and_sinks_that_are_operands(self):
        x = torch.randn(B, H, S, S, device=DEVICE, requires_grad=True)
        model = lambda x: at.scaled_dot_product_attention(x[..., :D], x[..., :D], x[..., :D], attn_mask=x)
        self.agree(model, lambda x: torch.nn.functional.scaled_dot_product_attention(x[..., :D], x[..., :D], x[..., :D], attn_mask=x), [x],
                   ["", "eager", "aot_eager"], "attn_mask")
        slopes = torch.rand(H, device=DEVICE, requires_grad=True)

        def score(s, b, h, q, k):
            return s * slopes[h]

        def model(q, slopes):
            return at.flex_attention(q, q, q, score, sink=slopes)

        def reference(q, slopes):
            s = (q @ q.transpose(-1, -2) / math.sqrt(D)) * slopes.view(-1, 1, 1)
            return torch.cat([s, slopes.view(-1, 1, 1).expand(B, H, S, 1)], -1).softmax(-1)[..., :-1] @ q
        q = torch.randn(B, H, S, D, device=DEVICE, requires_grad=True)
        self.agree(model, reference, [q, slopes], ["", "eager", "aot_eager"], "sink")

    # Tensors whose value is not their memory -----------------------------------------

    def test_negative_views(self):
        """Of query, key, value, captured tensors, sinks, block masks and the gradient of the output."""
        global TABLE, WEIGHTS
        def imaginary(shape):
            x = torch.view_as_complex(torch.randn(*shape, 2, device=DEVICE)).conj().imag
            self.assertTrue(x.is_neg())
            return x
        shape = (B, H, S, D)
        mask = at.create_block_mask(causal, None, None, S, S, device=DEVICE)
        for kinds in ((imaginary, torch._neg_view), (torch._neg_view, imaginary)):
            make = [kinds[0] if kinds[0] is imaginary else lambda shape: kinds[0](torch.randn(shape, device=DEVICE)),
                    kinds[1] if kinds[1] is imaginary else lambda shape: kinds[1](torch.randn(shape, device=DEVICE))]
            q, k, v = make[0](shape), make[1](shape), make[0](shape)
            TABLE, WEIGHTS = make[1](shape), make[0](shape)
            leaves = [x.detach().requires_grad_() for x in (q, k, v, TABLE, WEIGHTS)]
            self.assertTrue(all(x.is_neg() for x in leaves))
            TABLE, WEIGHTS = leaves[3:]
            output = at.flex_attention(*leaves[:3], shared_score, mask)
            wide = [x.detach().double().requires_grad_() for x in leaves]
            expected = dense(*wide)
            self.near(output, expected)
            do = make[1](shape)
            for got, right in zip(torch.autograd.grad(output, leaves, do), torch.autograd.grad(expected, wide, do.double())):
                self.near(got, right)
        q, k, v = (torch.randn(shape, device=DEVICE) for _ in range(3))
        for sink in (torch._neg_view(torch.randn(H, device=DEVICE)),):
            self.near(at.flex_attention(q, k, v, sink=sink), at.flex_attention(q, k, v, sink=sink.resolve_neg()))
        bias = torch._neg_view(torch.randn(B, H, S, S, device=DEVICE))
        self.near(at.scaled_dot_product_attention(q, k, v, bias), torch.nn.functional.scaled_dot_product_attention(q, k, v, bias.resolve_neg()))
        blocks = flex.create_block_mask(causal, None, None, S, S, device=DEVICE, BLOCK_SIZE=16)
        blocks.kv_indices = torch._neg_view(-blocks.kv_indices)
        self.near(at.flex_attention(q, k, v, None, blocks), dense(q, k, v))

    def test_negative_views_in_compiled_graphs(self):
        shape = (B, H, S, D)
        leaf = torch.randn(shape, device=DEVICE, requires_grad=True)
        mask = at.create_block_mask(causal, None, None, S, S, device=DEVICE)
        self.agree(lambda x: at.flex_attention(torch._neg_view(x), x, torch._neg_view(x), None, mask), lambda x: dense(-x, x, -x), [leaf],
                   ["", "eager", "aot_eager"], "negative")

    def test_kernels_of_the_python_layer_read_values(self):
        kernel = attune.compile(attune.Variant(mask=attune.causal()), head_dim=D, dtype="f32", target="cpu", gradients=[])
        q, k, v, do = (torch._neg_view(torch.randn(B, H, S, D)) for _ in range(4))
        o, lse = kernel(q, k, v, return_lse=True)
        wide = [x.double().requires_grad_() for x in (q, k, v)]
        self.near(o, dense(*wide))
        for got, right in zip(kernel.backward(q, k, v, o, lse, do)[:3], torch.autograd.grad(dense(*wide), wide, do.double())):
            self.near(got, right)
        for out in (torch._neg_view(torch.empty(B, H, S, D)), torch._efficientzerotensor((B, H, S, D))):
            self.refused("o is written, but is a tensor whose values are not in its memory; pass a plain one", lambda: kernel(q, k, v, out=out))

    def test_causal_bias(self):
        for lengths in ((S, S), (7, S), (S, 7)):
            q, k, v = (torch.randn(B, H, n, D, device=DEVICE, requires_grad=True) for n in (lengths[0], lengths[1], lengths[1]))
            for make, diagonal in ((causal_upper_left, 0), (causal_lower_right, lengths[1] - lengths[0])):
                visible = torch.ones(lengths, dtype=torch.bool, device=DEVICE).tril(diagonal)
                output = at.scaled_dot_product_attention(q, k, v, make(*lengths))
                s = (q.double() @ k.double().transpose(-1, -2) / math.sqrt(D)).masked_fill(~visible, -math.inf)
                expected = torch.where(visible.any(-1, keepdim=True), s.softmax(-1).nan_to_num(), 0) @ v.double()
                self.near(output, expected)
                if visible.any(-1).all():
                    for got, right in zip(torch.autograd.grad(output.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v))):
                        self.near(got, right)
        with self.assertRaisesRegex(ValueError, "attn_mask is a CausalBias of 5 queries and 6 keys, but query and key have 19 and 7; make one of these lengths"):
            at.scaled_dot_product_attention(q, k, v, causal_lower_right(5, 6))
        with self.assertRaisesRegex(ValueError, "both given"):
            at.scaled_dot_product_attention(q, k, v, causal_lower_right(S, 7), is_causal=True)
        bias = causal_lower_right(S, 7)
        self.refused('captured tensor "bias" is a CausalBias, which stands for a mask; pass it as attn_mask of attune.torch.scaled_dot_product_attention, or '
                     "write the mask_mod q_idx >= kv_idx", lambda: at.flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[i, j]))

    def test_subclasses(self):
        """Plain ones are memory, wrappers are asked by the dispatcher, others are refused by name: as operands, captured tensors, sinks, masks, gradients."""
        class Marked(torch.Tensor):
            pass

        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, held):
                return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=held.device)

            def __init__(self, held):
                self.held = held

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                args, kwargs = torch.utils._pytree.tree_map_only(Wrapper, lambda x: x.held, (args, kwargs or {}))
                return torch.utils._pytree.tree_map_only(torch.Tensor, Wrapper, func(*args, **kwargs))

        class Doubled(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return super().__torch_function__(func, types, args, kwargs or {})
        q, k, v, do = (torch.randn(B, H, S, D, device=DEVICE) for _ in range(4))
        slopes, bias, learned = torch.rand(H, device=DEVICE), torch.randn(S, S, device=DEVICE), q.clone().requires_grad_()
        box = [slopes]

        def score(s, b, h, i, j):
            return s * box[0][h]

        def with_slopes(tensor):
            box[0] = tensor
            return at.flex_attention(q, k, v, score)

        def gradient(do):
            return torch.autograd.grad(at.flex_attention(learned, k, v), learned, do)[0]
        calls = [("q", q, lambda x: at.flex_attention(x, k, v)), ("k", k, lambda x: at.flex_attention(q, x, v)), ("v", v, lambda x: at.flex_attention(q, k, x)),
                 ("captured tensor 'slopes'", slopes, with_slopes), ("captured tensor 'sink'", slopes, lambda x: at.flex_attention(q, k, v, sink=x)),
                 ("captured tensor 'attn_mask'", bias, lambda x: at.scaled_dot_product_attention(q, k, v, x)), ("do", do, gradient)]
        for what, tensor, call in calls:
            expected = call(tensor)
            for make in (lambda x: x.as_subclass(Marked), Wrapper):
                got = call(make(tensor))
                self.assertIs(type(got), type(make(tensor)))
                self.assertTrue(torch.equal(getattr(got, "held", got), expected))
            what = what.replace("slopes", "captured_0")
            self.refused(f"{what} is a Doubled, a tensor with a __torch_function__ of its own; pass array.as_subclass(torch.Tensor) where its memory holds its values",
                         lambda: call(tensor.as_subclass(Doubled)))
        kernel = attune.compile(attune.Variant(), head_dim=D, dtype="f32", target="cpu")
        q, k, v = (x.cpu() for x in (q, k, v))
        self.assertTrue(torch.equal(kernel(q, k.as_subclass(Marked), v), kernel(q, k, v)))
        self.refused("k is a Wrapper, a tensor whose values PyTorch computes in its __torch_dispatch__; pass the torch.Tensor that holds them",
                     lambda: kernel(q, Wrapper(k), v))

    def test_tensors_without_values(self):
        """FakeTensors and meta tensors give their own kind; beside real ones PyTorch refuses them."""
        from torch._subclasses.fake_tensor import FakeTensorMode
        q, k, v = (torch.randn(B, H, S, D) for _ in range(3))
        mode = FakeTensorMode()
        fake = [mode.from_tensor(x) for x in (q, k, v)]
        self.assertIsInstance(at.flex_attention(*fake), type(fake[0]))
        with mode:
            self.assertIsInstance(at.flex_attention(*fake, lambda s, b, h, i, j: s * 2), type(fake[0]))
        self.assertRaisesRegex(AssertionError, "FakeTensor", at.flex_attention, q, fake[1], v)
        slopes, meta = mode.from_tensor(torch.rand(H)), torch.rand(H, device="meta")
        self.assertRaisesRegex(AssertionError, "FakeTensor", at.flex_attention, q, k, v, lambda s, b, h, i, j: s * slopes[h])
        self.assertEqual(at.flex_attention(*[x.to("meta") for x in (q, k, v)]).device.type, "meta")
        self.refused('captured tensor "meta" is on meta, but query is on cpu; move it there', lambda: at.flex_attention(q, k, v, lambda s, b, h, i, j: s * meta[h]))

    def test_tensors_without_plain_memory(self):
        q, k, v, table = (torch.randn(B, H, S, D) for _ in range(4))
        box = [table[0, 0]]

        def score(s, b, h, i, j):
            return s + box[0][i, j % 8]
        at.flex_attention(q, k, v, score)  # of a dense one first
        for name, kind in (("to_sparse", "layout torch.sparse_coo"), ("to_mkldnn", "layout torch._mkldnn")):
            def made(x):
                return getattr(x, name)()
            for at_, what in enumerate(("query", "key", "value")):
                self.refused(f"{what} has {kind}, but must be dense; write x.to_dense()", lambda: at.flex_attention(*[made(x) if i == at_ else x for i, x in enumerate((q, k, v))]))
            box[0] = made(table[0, 0])
            self.refused(f'captured tensor "captured_0" has {kind}, but must be dense; write x.to_dense()', lambda: at.flex_attention(q, k, v, score))
            self.refused(f"attn_mask has {kind}, but must be dense; write x.to_dense()", lambda: at.scaled_dot_product_attention(q, k, v, made(torch.rand(S, S))))
        quantised = torch.quantize_per_tensor(q, 0.1, 0, torch.quint8)
        self.refused("query is quantised, torch.quint8; write x.dequantize()", lambda: at.flex_attention(quantised, k, v))
        for layout, what in ((torch.strided, "query is a nested tensor of the strided layout"), (torch.jagged, "key is no nested tensor")):
            nested = torch.nested.nested_tensor([x.transpose(0, 1) for x in q], layout=layout).transpose(1, 2)
            self.refused(f"{what}, but query, key and value must be nested tensors of torch.jagged all three, or none; make it by torch.nested.nested_tensor(..., "
                         "layout=torch.jagged)", lambda: at.flex_attention(nested, k, v))
        kernel = attune.compile(attune.Variant(), head_dim=D, dtype="f32", target="cpu")
        learned = q.clone().requires_grad_()
        rest = (", which has no memory that kernels can read; pass a dense one of the CPU or a GPU, and leave out torch.func's transforms, is_grads_batched and "
                "vectorize")
        for kind, tensor in (("of layout torch.sparse_coo", k.to_sparse()), ("on device meta", k.to("meta")), ("of functionalization", torch._to_functional_tensor(k)),
                             ("of quantised elements", torch.quantize_per_tensor(k, 0.1, 0, torch.quint8))):
            self.refused(f"k is a tensor {kind}{rest}", lambda: kernel(q, tensor, v))
        self.refused(f"k is a tensor of functionalization{rest}", lambda: at.flex_attention(q, torch._to_functional_tensor(k), v))
        self.refused(f"do is a tensor of a batch of calls{rest}",
                     lambda: torch.autograd.grad(at.flex_attention(learned, k, v), learned, torch.stack([q, k]), is_grads_batched=True))
        zeros = torch._efficientzerotensor((B, H, S, D))
        self.assertTrue(torch.equal(at.flex_attention(q, zeros, v), at.flex_attention(q, torch.zeros(B, H, S, D), v)))
        self.assertTrue(torch.equal(kernel(q, zeros, v), kernel(q, torch.zeros(B, H, S, D), v)))
        self.assertEqual(torch.autograd.grad(at.flex_attention(learned, k, v), learned, zeros)[0].abs().max().item(), 0)

    # Masks and captured tensors of any dtype, extent and name -----------------------------

    def test_masks_that_are_no_bools(self):
        """PyTorch refuses them, too."""
        q, k, v = (torch.randn(B, H, S, D, device=DEVICE) for _ in range(3))
        for dtype in (torch.int64, torch.int32, torch.uint8, torch.float64, torch.float16, torch.bfloat16):
            mask = torch.ones(S, S, device=DEVICE).to(dtype)
            self.refused(f"attn_mask is {dtype}, but must be torch.bool, torch.float32 or query's torch.float32; write attn_mask.bool() where it says what is "
                         "visible", lambda: at.scaled_dot_product_attention(q, k, v, mask))
            self.assertRaises(RuntimeError, torch.nn.functional.scaled_dot_product_attention, q, k, v, mask)
        for mask_mod, dtype in ((lambda b, h, q, k: (q >= k).int(), "i32"), (lambda b, h, q, k: q - k, "i32"), (lambda b, h, q, k: (q - k) * 0.5, "f32"),
                                (lambda b, h, q, k: 1, "i32")):
            message = f"mask_mod returns {dtype}, but must return bool; compare it, for example x != 0"
            self.refused(message, lambda: at.flex_attention(q, k, v, None, at.create_block_mask(mask_mod, None, None, S, S, device=DEVICE)))
        blocks = flex.create_block_mask(causal, None, None, S, S, device=DEVICE)
        blocks.mask_mod = lambda b, h, q, k: (q >= k).long()
        self.refused("mask_mod returns i64, but must return bool; compare it, for example x != 0", lambda: at.flex_attention(q, k, v, None, blocks))
        true = at.create_block_mask(lambda b, h, q, k: True, None, None, S, S, device=DEVICE)
        self.assertTrue(torch.equal(at.flex_attention(q, k, v, None, true), at.flex_attention(q, k, v)))

    def test_masks_of_whole_graphs(self):
        """attn_mask of any shape that broadcasts, and CausalBias, under fullgraph."""
        q, k, v = (torch.randn(B, H, S, D, device=DEVICE, requires_grad=True) for _ in range(3))
        torch._dynamo.reset()
        for shape in ((S, S), (B, 1, 1, S), (H, S, 1)):
            bias = torch.randn(shape, device=DEVICE, requires_grad=True)
            for mask in (bias, bias.detach() > -1):
                leaves = [q, k, v] + [mask] * mask.requires_grad
                wide = [x.detach().double().requires_grad_() for x in leaves]
                run = torch.compile(at.scaled_dot_product_attention, backend="aot_eager", fullgraph=True)
                output = run(q, k, v, mask)
                right = torch.nn.functional.scaled_dot_product_attention(*wide[:3], attn_mask=wide[3] if mask.requires_grad else mask)
                self.near(output, right)
                for got, wanted in zip(torch.autograd.grad(output.sum(), leaves), torch.autograd.grad(right.sum(), wide)):
                    self.near(got, wanted)
        for bias in (causal_lower_right(7, S), causal_upper_left(7, S)):
            run = torch.compile(at.scaled_dot_product_attention, backend="eager", fullgraph=True)
            self.near(run(q[:, :, :7], k, v, bias), at.scaled_dot_product_attention(q[:, :, :7], k, v, bias))

    def test_whole_tensors_break_graphs(self):
        """What a graph cannot hold is computed outside of it."""
        slopes = torch.rand(H, device=DEVICE)

        def score(s, b, h, q, k):
            return s + (slopes * 2)[h] * k

        class Module(torch.nn.Module):
            def forward(self, s, b, h, q, k):
                return s * slopes[h]
        q, k, v = (torch.randn(B, H, S, D, device=DEVICE) for _ in range(3))
        for score_mod in (score, Module()):
            torch._dynamo.reset()
            compiled = torch.compile(lambda q, k, v: at.flex_attention(q, k, v, score_mod), backend="eager")
            self.assertTrue(torch.equal(compiled(q, k, v), at.flex_attention(q, k, v, score_mod)))

    def test_captured_tensors_without_elements(self):
        for batch, heads, queries, keys in ((0, H, S, S), (B, 0, S, S), (B, H, 0, S), (B, H, S, 0)):
            q = torch.randn(batch, heads, queries, D, device=DEVICE, requires_grad=True)
            k, table = (torch.randn(batch, heads, keys, n, device=DEVICE, requires_grad=True) for n in (D, queries))
            for run in (lambda: at.flex_attention(q, k, k, lambda s, b, h, i, j: s + table[b, h, j, i]),
                        lambda: at.scaled_dot_product_attention(q, k, k, table.transpose(2, 3))):
                output = run()
                self.assertEqual(output.shape, q.shape)
                for x, gradient in zip((q, k, table), torch.autograd.grad(output.sum(), (q, k, table))):
                    self.assertEqual(gradient.shape, x.shape)
                    self.assertFalse(gradient.any() or output.any())
        q = torch.randn(B, H, S, D, device=DEVICE)
        empty = torch.zeros(0, device=DEVICE)
        self.refused("captured tensor 'empty' has extent 0 in dimension 0; every extent is at least 1",
                     lambda: at.flex_attention(q, q, q, lambda s, b, h, i, j: s + empty[h]))

    def test_captured_tensors_of_any_name(self):
        q, k, v = (torch.randn(B, H, S, D, device=DEVICE) for _ in range(3))
        table = torch.rand(H, device=DEVICE, requires_grad=True)
        right = at.flex_attention(q, k, v, lambda s, b, h, i, j: s + table[h] * j)
        for name in "s b h q k B H Sq Sk true inf nan let o v lse do exp float blocks sink attn_mask α x_size0".split():
            scope = {}
            exec(f"def made({name}):\n return lambda s_, b_, h_, q_, k_: s_ + {name}[h_] * k_", scope)
            output = at.flex_attention(q, k, v, scope["made"](table))
            self.assertTrue(torch.equal(output, right))
            self.assertTrue(torch.equal(*[torch.autograd.grad(x.sum(), table, retain_graph=True)[0] for x in (output, right)]))

    # Gradients that are not lost --------------------------------------------------

    def test_scales_that_require_grad(self):
        q, k, v = (torch.randn(B, H, S, D, device=DEVICE) for _ in range(3))
        scale = torch.tensor(0.5, device=DEVICE, requires_grad=True)
        message = "scale is a tensor that requires grad, and would have no gradient; multiply query by it, or the score in score_mod, with scale=1.0"
        self.refused(message, lambda: at.flex_attention(q, k, v, scale=scale))
        self.refused(message, lambda: at.scaled_dot_product_attention(q, k, v, scale=scale))
        torch._dynamo.reset()
        with self.assertRaisesRegex(Exception, "scale is a tensor that requires grad"):
            torch.compile(lambda q, k, v, scale: at.flex_attention(q, k, v, scale=scale), backend="eager")(q, k, v, scale)
        with torch.no_grad():
            self.near(at.flex_attention(q, k, v, scale=scale), at.flex_attention(q, k, v, scale=0.5))
        wide = scale.detach().double().requires_grad_()
        output = at.flex_attention(q, k, v, lambda s, b, h, i, j: s * scale, scale=1.0)
        expected = (q.double() @ k.double().transpose(-1, -2) * wide).softmax(-1) @ v.double()
        self.near(output, expected)
        self.near(*[torch.autograd.grad(x.square().sum(), of)[0] for x, of in ((output, scale), (expected, wide))])

    SECOND = "attune.torch has no second derivatives; leave create_graph=True out, or write this attention with PyTorch's operations"

    def test_second_derivatives(self):
        """However they are asked for: of query, key, value, captured tensors, the output's gradient, LSE's."""
        slopes = torch.rand(H, device=DEVICE, requires_grad=True)

        def score(s, b, h, q, k):
            return s * slopes[h]
        leaves = [torch.randn(1, H, 5, D, device=DEVICE, requires_grad=True) for _ in range(3)] + [slopes]
        model = lambda q, k, v, slopes=None: at.flex_attention(q, k, v, score)
        compiled = {backend: torch.compile(model, backend=backend) for backend in ("eager",)}
        for run in (model, *compiled.values()):
            torch._dynamo.reset()
            for wanted in leaves:
                output = run(*leaves)
                gradient, = torch.autograd.grad(output.square().sum(), wanted, create_graph=True)
                for again in leaves:
                    self.refused(self.SECOND, lambda: torch.autograd.grad(gradient.sum(), again, allow_unused=True, retain_graph=True))
                    self.refused(self.SECOND, lambda: gradient.sum().backward(inputs=[again], retain_graph=True))
                self.refused(self.SECOND, lambda: (gradient.sum() + output.sum()).backward())
        do = torch.randn(1, H, 5, D, device=DEVICE, requires_grad=True)
        gradient, = torch.autograd.grad(model(*leaves), leaves[0], do, create_graph=True)
        self.refused(self.SECOND, lambda: torch.autograd.grad(gradient.sum(), do))
        lse = at.flex_attention(*leaves[:3], return_lse=True)[1]
        gradient, = torch.autograd.grad(lse.sum(), leaves[0], create_graph=True)
        self.refused(self.SECOND, lambda: torch.autograd.grad(gradient.sum(), leaves[1]))
        loss = lambda q: model(q, leaves[1], leaves[2]).square().sum()
        functional = torch.autograd.functional
        q, tangent = leaves[0].detach(), torch.ones_like(leaves[0])
        for action in (lambda: functional.hessian(loss, q), lambda: functional.hvp(loss, q, tangent), lambda: functional.vhp(loss, q, tangent),
                       lambda: functional.jvp(loss, q, tangent),
                       lambda: torch.autograd.gradgradcheck(lambda q: model(q, leaves[1], leaves[2]), (leaves[0],), atol=1e9)):
            self.refused(self.SECOND, action)
        # Of one derivative create_graph changes nothing.
        for create_graph in (False, True):
            gradient = torch.autograd.grad(model(*leaves).square().sum(), leaves, create_graph=create_graph)
            for got, right in zip(gradient, torch.autograd.grad(model(*leaves).square().sum(), leaves)):
                self.assertTrue(torch.equal(got, right))

    def test_second_derivatives_of_compiled_graphs(self):
        x = torch.randn(1, H, 5, D, device=DEVICE, requires_grad=True)
        torch._dynamo.reset()
        gradient, = torch.autograd.grad(torch.compile(lambda x: at.flex_attention(x, x, x), backend="aot_eager")(x).square().sum(), x, create_graph=True)
        self.assertRaisesRegex(RuntimeError, "does not currently support double backward", lambda: torch.autograd.grad(gradient.sum(), x))

    def test_a_derivative_that_is_not_asked_for_may_be_refused(self):
        """Stopped gradients inside of a score: computed where nothing needs them, refused where something does."""
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 5

        class Apart(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, g):
                return g * 5
        slopes = torch.rand(H, device=DEVICE)

        def under_no_grad(s, b, h, q, k):
            with torch.no_grad():
                return s * 2

        def under_set_grad_enabled(s, b, h, q, k):
            with torch.set_grad_enabled(False):
                doubled = s * 2
            return doubled

        def under_inference_mode(s, b, h, q, k):
            with torch.inference_mode():
                return s * 2

        def in_place(s, b, h, q, k):
            with torch.no_grad():
                s *= 2
            return s

        def of_function(s, b, h, q, k):
            return Double.apply(s)

        def enabled_again(s, b, h, q, k):
            with torch.no_grad():
                with torch.enable_grad():
                    return s * 2
        stops = "mul.Tensor stops the gradient inside of a score, which attune cannot; detach the tensors that the function reads outside of it, or call under torch.no_grad() where no gradient is wanted"
        detaches = stops.replace("mul.Tensor", "detach.default")
        follows = ('aten.mul.Tensor is in torch.autograd.Function "{}", whose backward attune does not follow; write its formula in the score itself, or call it '
                   "outside and index the result")
        q, k, v = (torch.randn(B, H, S, D, device=DEVICE) for _ in range(3))
        twice = at.flex_attention(q, k, v, lambda s, b, h, i, j: s * 2)
        for score, message in ((under_no_grad, "aten." + stops), (under_set_grad_enabled, "aten." + stops), (under_inference_mode, "aten." + stops),
                               (in_place, "aten." + stops.replace("mul", "mul_")), (lambda s, b, h, q, k: s.detach() * 2, "aten." + detaches),
                               (lambda s, b, h, q, k: s.data * 2, "aten." + detaches), (of_function, follows.format("Double")), (lambda s, b, h, q, k: Apart.apply(s), follows.format("Apart"))):
            self.near(at.flex_attention(q, k, v, score), twice)
            wanting = [x.clone().requires_grad_() for x in (q, k, v)]
            self.refused(message, lambda: at.flex_attention(*wanting, score))
            self.refused(message, lambda: at.flex_attention(*wanting, score))  # what is kept refuses, too
            if score in (under_no_grad, of_function):
                torch._dynamo.reset()
                self.refused(message, lambda: torch.compile(lambda q, k, v: at.flex_attention(q, k, v, score), backend="eager")(*wanting))
            with torch.no_grad():
                self.near(at.flex_attention(*wanting, score), twice)
            # Value has its gradient still.
            output = at.flex_attention(q, k, wanting[2], score)
            self.near(torch.autograd.grad(output.sum(), wanting[2])[0], torch.autograd.grad(at.flex_attention(q, k, wanting[2], lambda s, b, h, i, j: s * 2).sum(), wanting[2])[0])
        wanting = [x.clone().requires_grad_() for x in (q, k, v)]
        for got, right in zip(*[torch.autograd.grad(at.flex_attention(*wanting, score).sum(), wanting) for score in (enabled_again, lambda s, b, h, i, j: s * 2)]):
            self.near(got, right)
        # What only a condition reads has no gradient to stop; nor have coordinates.
        def by_condition(s, b, h, q, k):
            with torch.no_grad():
                steep, distance = s > 0, (q - k) * 0.5
            return torch.where(steep, s, s * 0.1) + distance
        for got, right in zip(*[torch.autograd.grad(at.flex_attention(*wanting, score).sum(), wanting)
                                for score in (by_condition, lambda s, b, h, q, k: torch.where(s > 0, s, s * 0.1) + (q - k) * 0.5)]):
            self.near(got, right)

    def test_stopped_gradients_of_captured_tensors(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 5
        slopes, others = (torch.rand(H, device=DEVICE, requires_grad=True) for _ in range(2))

        def partly(s, b, h, q, k):
            with torch.no_grad():
                stopped = slopes[h] * 2
            return s + stopped + others[h] * k

        def of_whole_tensors(s, b, h, q, k):
            with torch.no_grad():
                stopped = slopes * 2
            return s + stopped[h] + slopes[h] * k + slopes.detach()[h] * q

        def of_a_function(s, b, h, q, k):
            return s + Double.apply(slopes)[h] * k
        q, k, v = (torch.randn(B, H, S, D, device=DEVICE, requires_grad=True) for _ in range(3))
        self.refused("an index stops the gradient inside of a score, which attune cannot; detach the tensors that the function reads outside of it, or call "
                     "under torch.no_grad() where no gradient is wanted", lambda: at.flex_attention(q, k, v, partly))
        self.refused('aten.mul.Tensor is in torch.autograd.Function "Double", whose backward attune does not follow; write its formula in the score itself, or '
                     "call it outside and index the result", lambda: at.flex_attention(q, k, v, of_a_function))
        output = at.flex_attention(q, k, v, of_whole_tensors)
        wide = slopes.detach().double().requires_grad_()
        i, j = torch.arange(S, device=DEVICE).view(-1, 1), torch.arange(S, device=DEVICE)
        s = (q @ k.transpose(-1, -2)).double() / math.sqrt(D)
        expected = (s + (wide.detach() * 2).view(-1, 1, 1) + wide.view(-1, 1, 1) * j + wide.detach().view(-1, 1, 1) * i).softmax(-1) @ v.double()
        self.near(output, expected)
        do = torch.randn_like(output)
        self.near(torch.autograd.grad(output, slopes, do)[0], torch.autograd.grad(expected, wide, do.double())[0])
        slopes.requires_grad_(False)
        for score in (partly, of_a_function):
            output = at.flex_attention(q, k, v, score)
            torch.autograd.grad(output.sum(), (q, k, v, *([others] if score is partly else [])))


if __name__ == "__main__":
    unittest.main()
