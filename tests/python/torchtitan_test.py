"""attune.torchtitan on the CPU target: inner attention and small random models against eager attention in float32.

Where torchtitan is installed, its own modules, configs and overrides are used, and its models are run. Elsewhere a stand-in has the names that
attune.torchtitan takes from it: classes, fields and signatures, as of torchtitan's main of November 2026, which renamed those of 0.3.0 and passes packed rows.
"""
import dataclasses
import importlib
import importlib.util
import inspect
import math
import sys
import types
import typing
import unittest
from unittest import mock

if importlib.util.find_spec("torch") is None:
    print("PyTorch is missing: pip install torch to run what concerns it")
    sys.exit(77)

import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.attention import flex_attention as torch_flex

import attune
import attune.torch as at

HAS_TITAN = importlib.util.find_spec("torchtitan") is not None


def stand_in():
    """Modules with torchtitan's names."""
    config, attention, spmd_types = types.ModuleType("torchtitan.config"), types.ModuleType("torchtitan.models.common.attention"), types.ModuleType("spmd_types")

    class Inner(torch.nn.Module):
        def __init_subclass__(cls):
            cls.Config.build = lambda self: cls(self)

    def module(name, forward, **fields):
        made = dataclasses.make_dataclass("Config", [(key, object, value) for key, value in fields.items()], kw_only=True, slots=True)
        cls = type(name, (Inner,), {"Config": made, "forward": forward})
        cls.__init__ = lambda self, config: super(cls, self).__init__()
        setattr(attention, name, cls)

    def varlen(self, q_THK, k_THK, v_THV, *, attention_metadata, scale=None, out_transform=None, **kwargs): ...
    def flex(self, q_THK, k_THK, v_THV, *, attention_metadata, score_mod=None, scale=None, enable_gqa=False, out_transform=None, **kwargs): ...
    def sdpa(self, q_BLHK, k_BLHK, v_BLHV, *, attention_metadata=None, scale=None, enable_gqa=False, is_causal=True, **kwargs): ...
    module("VarlenInnerAttention", varlen, window_size=(-1, 0))
    module("FlexInnerAttention", flex, block_size=128, kernel_options=None)
    module("ScaledDotProductInnerAttention", sdpa)
    attention.VarlenAttentionMetadata = typing.NamedTuple("VarlenAttentionMetadata", [(name, object) for name in ("cu_seq_q", "cu_seq_k", "max_q", "max_k")])
    config.derive = lambda source, target: target(**{x.name: getattr(source, x.name) for x in dataclasses.fields(source)})
    config.override = lambda target, exact, description: lambda factory: factory
    spmd_types.is_type_checking = lambda: False
    for name in ("torchtitan", "torchtitan.models", "torchtitan.models.common"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["torchtitan.models.common"].attention = attention
    for made in (config, attention, spmd_types):
        sys.modules[made.__name__] = made


if not HAS_TITAN:
    stand_in()

import attune.torchtitan
from torchtitan.models.common import attention

DEVICE = "cuda" if torch.cuda.is_available() and HAS_TITAN else "cpu"
THEIRS = {name: getattr(attention, f"{name}InnerAttention", None) or getattr(attention, f"{name}Attention") for name in ("Varlen", "Flex", "ScaledDotProduct")}
Metadata = getattr(attention, "VarlenAttentionMetadata", None) or attention.VarlenMetadata
PARAMETERS = list(inspect.signature(THEIRS["Varlen"].forward).parameters)
GIVEN = PARAMETERS[4]  # attention_masks in 0.3.0, later attention_metadata
IS_PACKED = PARAMETERS[1].startswith("q_T")  # rows of all documents, else [B, L, H, D]
H, HKV, D = 4, 2, 16
LENGTHS = (5, 1, 20, 14)


def eager(q, k, v, visible, scale=None, sinks=None):
    """Rows [T, H, D] that see the keys which visible [T, T] says, in float32; the LSE [T, H], too."""
    q, k, v = [x.float().repeat_interleave(H // x.shape[1], 1).transpose(0, 1) for x in (q, k, v)]
    score = (q @ k.transpose(-1, -2) * (scale or q.shape[-1]**-0.5)).masked_fill(~visible, -math.inf)
    if sinks is not None:
        score = torch.cat((score, sinks[:, None, None].expand(-1, len(visible), 1)), -1)
    return (score.softmax(-1)[..., :len(visible)] @ v).transpose(0, 1), torch.logsumexp(score, -1).transpose(0, 1)


def documents(lengths=LENGTHS):
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(DEVICE)


def visible_of(document, left=-1, right=0):
    place = torch.arange(len(document), device=DEVICE)
    ahead = place[None] - place[:, None]
    return (document[:, None] == document[None]) & (ahead <= (right if right >= 0 else len(document))) & (ahead >= (-left if left >= 0 else -len(document)))


def varlen_metadata(lengths=LENGTHS):
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device=DEVICE)
    return Metadata(bounds, bounds, max(lengths), max(lengths))


def operands(columns=(D, D), rows=sum(LENGTHS)):
    return [torch.randn(rows, heads, size, device=DEVICE).requires_grad_() for heads, size in ((H, columns[0]), (HKV, columns[0]), (HKV, columns[1]))]


def shaped(rows, batches=1):
    """[T, H, D] as this torchtitan has them."""
    return rows if IS_PACKED else rows.unflatten(0, (batches, -1))


def rescaled(sinks):
    """The out_transform by which GPT-OSS has its sinks."""
    return lambda output, lse: output * torch.sigmoid(lse - sinks)[..., None]


class Titan(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def close(self, got, want, limit=1e-4):
        self.assertEqual(got.shape, want.shape)
        self.assertLessEqual((got.float() - want).abs().max().item(), limit * max(1.0, want.abs().max().item()))

    def both(self, module, given, tensors, visible, batches=1, out_transform=None, transform=lambda output, lse: output, parameters=(), **options):
        """Outputs and gradients of the module and of eager attention."""
        more = {"out_transform": out_transform} if out_transform is not None else {}
        got = module(*[shaped(x, batches) for x in tensors], **{GIVEN: given}, enable_gqa=True, **options, **more)
        weight = torch.randn_like(got)
        gradients = torch.autograd.grad((got * weight).sum(), [*tensors, *parameters])
        want = transform(*eager(*tensors, visible, options.get("scale")))
        self.close(got, shaped(want, batches))
        for got_gradient, gradient in zip(gradients, torch.autograd.grad((shaped(want, batches) * weight).sum(), [*tensors, *parameters])):
            self.close(got_gradient, gradient)

    def test_varlen(self):
        for window in ((-1, 0), (6, 0), (-1, -1), (3, 2)):
            for columns in ((D, D), (24, 16)):
                with self.subTest(window=window, columns=columns):
                    module = attune.torchtitan.varlen(THEIRS["Varlen"].Config(window_size=window)).build()
                    self.assertIs(type(module), attune.torchtitan.VarlenAttention)
                    self.both(module, varlen_metadata(), operands(columns), visible_of(documents(), *window), batches=2, scale=0.3)

    def test_flex(self):
        document, rows = documents(), sum(LENGTHS)

        def mask_mod(b, h, q_idx, kv_idx):
            return (document[q_idx] == document[kv_idx]) & (q_idx >= kv_idx)
        module = attune.torchtitan.flex(THEIRS["Flex"].Config()).build()
        self.assertIs(type(module), attune.torchtitan.FlexAttention)
        for create in (at.create_block_mask, torch_flex.create_block_mask):
            with self.subTest(create=create.__module__):
                self.both(module, create(mask_mod, 1, None, rows, rows, device=DEVICE), operands(), visible_of(document), scale=0.3)

    def test_epilogues(self):
        """out_transform gets the LSE, whose gradient flows."""
        sinks = torch.randn(H, device=DEVICE).requires_grad_()
        rows = sum(LENGTHS)
        mask = at.create_block_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, 1, None, rows, rows, device=DEVICE)
        for name, given, visible in (("varlen", varlen_metadata(), visible_of(documents())), ("flex", mask, visible_of(documents((rows,))))):
            with self.subTest(module=name):
                theirs = THEIRS[name.capitalize()].Config()
                self.both(getattr(attune.torchtitan, name)(theirs).build(), given, operands(), visible, out_transform=rescaled(sinks), transform=rescaled(sinks),
                          parameters=[sinks])
        tensors = operands()
        self.close(rescaled(sinks)(*eager(*tensors, visible_of(documents()))), eager(*tensors, visible_of(documents()), sinks=sinks)[0])

    def test_sdpa(self):
        module = attune.torchtitan.sdpa(THEIRS["ScaledDotProduct"].Config()).build()
        tensors = operands()
        for is_causal in (True, False):
            got = module(*[x[None] for x in tensors], is_causal=is_causal, enable_gqa=True)
            self.close(got, eager(*tensors, visible_of(documents((sum(LENGTHS),)), -1, 0 if is_causal else -1))[0][None])
        with self.assertRaisesRegex(attune.Error, "a mask is given to ScaledDotProductAttention, which has is_causal alone; take VarlenAttention or FlexAttention"):
            module(*[x[None] for x in tensors], **{GIVEN: varlen_metadata()})

    def test_compiled(self):
        """Another number of documents records a second graph, which is for all numbers."""
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(attune.torchtitan.varlen(THEIRS["Varlen"].Config()).build(), fullgraph=True, backend=counter)
        for lengths in (LENGTHS, (10, 10, 10, 10), (1, 2, 37), (20, 20), (4,) * 10):
            self.both(compiled, varlen_metadata(lengths), operands(), visible_of(documents(lengths)))
        self.assertLessEqual(counter.frame_count, 2)
        document, rows = documents(), sum(LENGTHS)
        mask = torch_flex.create_block_mask(lambda b, h, q, k: (document[q] == document[k]) & (q >= k), 1, None, rows, rows, device=DEVICE)
        self.both(torch.compile(attune.torchtitan.flex(THEIRS["Flex"].Config()).build(), fullgraph=True, backend="aot_eager"), mask, operands(), visible_of(document))

    def test_what_is_refused(self):
        module = attune.torchtitan.varlen(THEIRS["Varlen"].Config()).build()
        tensors = [shaped(x) for x in operands()]
        with self.assertRaisesRegex(attune.Error, "the metadata is of type NoneType, but must be what torchtitan makes for VarlenAttention, with cu_seq_q and cu_seq_k"):
            module(*tensors, **{GIVEN: None})
        with mock.patch("spmd_types.is_type_checking", lambda: True), self.assertRaisesRegex(
                attune.Error, "spmd_types checks types, but has none for attune's operations; leave out --debug.spmd_typechecking"):
            module(*tensors, **{GIVEN: varlen_metadata()})

    def test_names_of_arguments(self):
        """torchtitan's shardings are by name."""
        for ours, theirs in zip((attune.torchtitan.VarlenAttention, attune.torchtitan.FlexAttention, attune.torchtitan.ScaledDotProductAttention), THEIRS.values()):
            self.assertEqual(inspect.signature(ours.forward), inspect.signature(theirs.forward))
            self.assertTrue(issubclass(ours, theirs) and issubclass(ours.Config, theirs.Config))


@unittest.skipUnless(HAS_TITAN, "torchtitan is not installed")
class Models(unittest.TestCase):
    """Small models of torchtitan with --override.imports, against the same with eager attention."""

    def model(self, config, override):
        from torchtitan.config.override import OverrideConfig, apply_overrides
        lines = apply_overrides(OverrideConfig(imports=[override]), config) if override else []
        self.assertEqual(len(lines), len(config.layers) if override else 0)
        torch.manual_seed(0)
        model = config.build()
        model.init_states(buffer_device=torch.device("cpu"))
        return model.to(DEVICE)

    def compare(self, family, backend):
        from torchtitan.models.common import decoder
        registry = importlib.import_module(f"torchtitan.models.{family}").model_registry
        positions = torch.cat([torch.arange(n) for n in LENGTHS]).to(DEVICE)
        positions = positions if IS_PACKED else positions[None].repeat(2, 1)
        tokens = torch.randint(0, 97, positions.shape, device=DEVICE)
        results = []
        for override in (f"attune.torchtitan.{backend}", None):
            model = self.model(registry("debugmodel", attn_backend=backend).model, override)
            with mock.patch.object(decoder, "create_attention_mask", torch_flex.create_block_mask):
                masks = model.get_attention_masks(positions)
            if override is None:
                for layer in model.layers.values():
                    layer.attention.inner_attention.forward = eager_module(getattr(layer.attention.inner_attention, "window_size", None))
            logits = model(tokens, positions=positions, attention_masks=masks)
            torch.nn.functional.cross_entropy(logits.flatten(0, -2), tokens.flatten()).backward()
            results.append((logits, {name: x.grad for name, x in model.named_parameters() if x.grad is not None}))
        for got, want in [results[0][:1] + results[1][:1], *[(results[0][1][key], results[1][1][key]) for key in results[1][1]]]:
            self.assertLessEqual((got - want).abs().max().item(), 1e-4 * max(1.0, want.abs().max().item()))

    def test_llama(self):
        for backend in ("varlen", "flex"):
            with self.subTest(backend=backend):
                self.compare("llama3", backend)

    def test_qwen(self):
        self.compare("qwen3", "varlen")

    def test_deepseek(self):
        """Values have fewer columns than keys."""
        self.compare("deepseek_v3", "flex")


def eager_module(window):
    """forward of an inner attention, in plain PyTorch."""
    def forward(q, k, v, *, attention_masks=None, attention_metadata=None, scale=None, enable_gqa=False, out_transform=None, **_):
        given = attention_metadata if attention_masks is None else attention_masks
        q, k, v = [x.unsqueeze(0) if IS_PACKED else x for x in (q, k, v)]
        batch, rows = q.shape[:2]
        if hasattr(given, "cu_seq_q"):
            document = torch.searchsorted(given.cu_seq_q.long(), torch.arange(batch * rows, device=q.device), right=True)
            q, k, v = [x.flatten(0, 1)[None] for x in (q, k, v)]
            visible = visible_of(document, *window)[None, None]
        else:
            index = [torch.arange(n, device=q.device) for n in (batch, 1, rows, rows)]
            visible = given.mask_mod(index[0][:, None, None, None], index[1][None, :, None, None], index[2][None, None, :, None], index[3][None, None, None])
        k, v = [x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v)]
        score = (torch.einsum("bqhd,bkhd->bhqk", q, k) * (scale or q.shape[-1]**-0.5)).masked_fill(~visible, -math.inf)
        output, lse = torch.einsum("bhqk,bkhd->bqhd", score.softmax(-1), v), torch.logsumexp(score, -1).transpose(1, 2)
        output, lse = [x.flatten(0, 1) if IS_PACKED else x.reshape(batch, rows, *x.shape[2:]) for x in (output, lse)]
        return output if out_transform is None else out_transform(output, lse)
    return forward


if __name__ == "__main__":
    unittest.main()
