"""attune.vllm on the CPU target: schedules of prefill, chunks of prompts and decode, against eager attention in float32.

Where vLLM is installed, its own classes are used, and its Attention layer is run. Elsewhere a stand-in has the names that attune.vllm takes from vLLM:
classes, fields and signatures, as of vLLM 0.33.
"""
import dataclasses
import enum
import importlib.util
import math
import sys
import types
import unittest

if importlib.util.find_spec("torch") is None:
    print("PyTorch is missing: pip install torch to run what concerns it")
    sys.exit(77)

import torch

import attune

HAS_VLLM = importlib.util.find_spec("vllm") is not None


def stand_in():
    """Modules with vLLM's names."""
    backend, registry = types.ModuleType("vllm.v1.attention.backend"), types.ModuleType("vllm.v1.attention.backends.registry")
    for name in ("AttentionBackend", "AttentionMetadataBuilder", "AttentionImpl"):
        setattr(backend, name, type(name, (), {}))
    backend.AttentionMetadataBuilder.__init__ = lambda self, kv_cache_spec, layer_names, vllm_config, device: None
    backend.AttentionCGSupport = enum.Enum("AttentionCGSupport", ["NEVER", "UNIFORM_SINGLE_TOKEN_DECODE", "UNIFORM_BATCH", "ALWAYS"])
    backend.AttentionType = enum.Enum("AttentionType", {x.upper(): x for x in ("decoder", "encoder", "encoder_only", "encoder_decoder")}, type=str)
    backend.MultipleOf = dataclasses.make_dataclass("MultipleOf", ["base"])
    fields = ("query_start_loc", "query_start_loc_cpu", "seq_lens", "num_reqs", "num_actual_tokens", "max_query_len", "max_seq_len", "block_table_tensor", "slot_mapping")
    backend.CommonAttentionMetadata = dataclasses.make_dataclass("CommonAttentionMetadata", [*fields, ("causal", bool, True)])
    paths = {}

    class AttentionBackendEnum(enum.Enum):
        CUSTOM = None

        def get_path(self):
            return paths[self]

        def get_class(self):
            module, name = paths[self].rsplit(".", 1)
            return getattr(sys.modules[module], name)
    registry.AttentionBackendEnum, registry.register_backend = AttentionBackendEnum, paths.__setitem__
    for name in ("vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[backend.__name__], sys.modules[registry.__name__] = backend, registry


if not HAS_VLLM:
    stand_in()

import attune.vllm
from attune.torch import ops
from vllm.v1.attention.backend import AttentionCGSupport, AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.registry import AttentionBackendEnum

DEVICE = "cuda" if torch.cuda.is_available() and HAS_VLLM else "cpu"
H, HKV, D = 4, 2, 16
MODELS = {
    "llama": {},
    "mistral": {"sliding_window": 8},
    "gemma 2": {"sliding_window": 24, "logits_soft_cap": 5.0, "scale": 0.3},
    "mpt": {"alibi_slopes": [0.5, 0.25, 0.125, 0.0625]},
    "gpt-oss": {"sliding_window": 8, "sinks": torch.tensor([0.5, -1.0, 2.0, 0.0], device=DEVICE)},
    "gpt-oss, full": {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0], device=DEVICE)},
}
# The number of queries of each sequence in each step, 0 where it is not in the batch. Steps are prefill, chunks of a prompt with decode, and decode.
SCHEDULE = [(5, 40, 0, 0), (1, 1, 16, 0), (1, 1, 16, 33), (1, 0, 7, 1), (1, 1, 1, 1), (0, 1, 1, 1)]


def eager(q, k, v, scale, sliding_window=None, logits_soft_cap=None, alibi_slopes=None, sinks=None, causal=True):
    """The last queries [Sq, H, D] of a sequence of keys [Sk, Hkv, D], in float32."""
    q, k, v = q.float().transpose(0, 1), *[x.float().repeat_interleave(q.shape[1] // x.shape[1], 1).transpose(0, 1) for x in (k, v)]
    score = q @ k.transpose(-1, -2) * scale
    if logits_soft_cap:
        score = logits_soft_cap * torch.tanh(score / logits_soft_cap)
    key, place = torch.arange(k.shape[1], device=q.device), torch.arange(q.shape[1], device=q.device)[:, None] + k.shape[1] - q.shape[1]
    if alibi_slopes is not None:
        score = score - torch.tensor(alibi_slopes, device=q.device)[:, None, None] * (place - key).abs()
    visible = key <= place if causal else torch.ones_like(key <= place)
    if sliding_window is not None:
        visible = visible & ((place - key).abs() < sliding_window)
    score = score.masked_fill(~visible, -math.inf)
    if sinks is not None:
        score = torch.cat((score, sinks[:, None, None].expand(-1, q.shape[1], 1)), -1)
    return (score.softmax(-1)[..., :k.shape[1]] @ v).transpose(0, 1)


class Layer:
    """What vLLM's op that writes the cache reads of a layer."""

    _k_scale = _v_scale = torch.ones((), device=DEVICE)


class Server:
    """One layer's cache and its sequences, with random queries, keys and values. Page 0 is vLLM's page of nothing."""

    def __init__(self, size=16, pages=32, heads=(H, HKV), columns=D, dtype=torch.float32, is_by_head=False, sequences=4):
        self.size, self.heads, self.columns, self.dtype = size, heads, columns, dtype
        shape = (pages, heads[1], size, 2 * columns) if is_by_head else (pages, size, heads[1], 2 * columns)
        self.cache = torch.full(shape, math.nan, dtype=dtype, device=DEVICE)
        self.cache[0] = 0
        if not is_by_head:
            self.cache = self.cache.transpose(1, 2)
        free = (torch.randperm(pages - 1) + 1).tolist()
        self.table = [[free.pop() for _ in range((pages - 1) // sequences)] for _ in range(sequences)]
        self.keys, self.values = [[torch.empty(0, heads[1], columns, dtype=dtype, device=DEVICE)] * sequences for _ in range(2)]

    def slots(self):
        return self.cache.transpose(1, 2).flatten(0, 1)

    def step(self, counts, padding=0, is_padded=False):
        """The metadata of a batch, its queries, new keys and new values, and for each sequence (rows, its number). `padding` rows, and where is_padded as many
        sequences, belong to nobody, as in a graph for more of them."""
        members = [i for i, count in enumerate(counts) if count]
        rows = sum(counts)
        query, key, value = [torch.randn(rows + padding, heads, self.columns, device=DEVICE).to(self.dtype) for heads in (self.heads[0], self.heads[1], self.heads[1])]
        bounds, slots, spans = [0], [], []
        for i in members:
            first, last = bounds[-1], bounds[-1] + counts[i]
            places = range(len(self.keys[i]), len(self.keys[i]) + counts[i])
            slots += [self.table[i][place // self.size] * self.size + place % self.size for place in places]
            self.keys[i], self.values[i] = torch.cat((self.keys[i], key[first:last])), torch.cat((self.values[i], value[first:last]))
            bounds.append(last)
            spans.append((slice(first, last), i))
        more = padding if is_padded else 0
        lengths = [len(self.keys[i]) for i in members] + [0] * more
        table = [self.table[i] for i in members] + [[0] * len(self.table[0])] * more
        bounds = torch.tensor(bounds + [rows] * more, dtype=torch.int32)
        slots = torch.tensor(slots + [-1] * padding, device=DEVICE)
        common = CommonAttentionMetadata(
            query_start_loc=bounds.to(DEVICE), query_start_loc_cpu=bounds, seq_lens=torch.tensor(lengths, dtype=torch.int32, device=DEVICE), num_reqs=len(lengths),
            num_actual_tokens=rows + more, max_query_len=max(counts), max_seq_len=max(lengths), slot_mapping=slots,
            block_table_tensor=torch.tensor(table, dtype=torch.int32, device=DEVICE))
        return common, query, key, value, spans


def made(heads=(H, HKV), columns=D, scale=None, **options):
    options = {"num_kv_heads": heads[1], "alibi_slopes": None, "sliding_window": None, "kv_cache_dtype": "auto", **options}
    return AttentionBackendEnum.CUSTOM.get_class().get_impl_cls()(heads[0], columns, scale or columns**-0.5, **options)


def metadata_of(common):
    return AttentionBackendEnum.CUSTOM.get_class().get_builder_cls()(None, ["layer"], None, torch.device(DEVICE)).build(0, common)


class Backend(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        attune.vllm.register()

    def close(self, got, want, limit=1e-4):
        self.assertLessEqual((got.float() - want).abs().max().item(), limit * max(1.0, want.abs().max().item()))

    def run_step(self, server, impl, step, limit=1e-4, scale=None, **options):
        common, query, key, value, spans = step
        output = torch.full((*query.shape[:2], value.shape[2]), 7.0, dtype=query.dtype, device=DEVICE)
        with torch.inference_mode():
            impl.do_kv_cache_update(Layer(), key, value, server.cache, common.slot_mapping)
            self.assertIs(impl.forward(Layer(), query, key, value, server.cache, metadata_of(common), output), output)
        for rows, i in spans:
            self.close(output[rows], eager(query[rows], server.keys[i], server.values[i], scale or query.shape[-1]**-0.5, **options), limit)
        return output

    def test_schedules(self):
        for name, options in MODELS.items():
            for size, is_by_head in ((16, False), (32, True)):
                with self.subTest(model=name, size=size, is_by_head=is_by_head):
                    server, impl = Server(size, is_by_head=is_by_head), made(**options)
                    for counts in SCHEDULE:
                        self.run_step(server, impl, server.step(counts), **options)

    def test_heads_and_columns(self):
        for heads, columns in (((4, 4), 16), ((8, 1), 24), ((3, 1), 64)):
            with self.subTest(heads=heads, columns=columns):
                server, impl = Server(heads=heads, columns=columns), made(heads, columns)
                for counts in SCHEDULE:
                    self.run_step(server, impl, server.step(counts))

    def test_bfloat16(self):
        server, impl = Server(dtype=torch.bfloat16), made(**MODELS["gpt-oss"])
        for counts in SCHEDULE:
            self.run_step(server, impl, server.step(counts), 2e-2, **MODELS["gpt-oss"])

    def test_padding(self):
        """Rows of nobody write nothing. In a graph for more sequences those without a query have no keys."""
        for counts, padding, is_padded, is_counted in (((5, 40, 2, 0), 3, False, False), ((1, 1, 1, 0), 5, True, True), ((1, 1, 1, 0), 5, True, False),
                                                       ((1, 1, 1, 9), 6, False, False)):
            with self.subTest(counts=counts, padding=padding, is_padded=is_padded, is_counted=is_counted):
                server, impl = Server(), made(sliding_window=8)
                self.run_step(server, impl, server.step((3, 20, 9, 0)), sliding_window=8)
                common, *rest = server.step(counts, padding, is_padded)
                before = server.slots().clone()
                common = dataclasses.replace(common, num_actual_tokens=sum(counts) + (padding if is_counted else 0))
                output = self.run_step(server, impl, (common, *rest), sliding_window=8)
                before[common.slot_mapping[:sum(counts)]] = server.slots()[common.slot_mapping[:sum(counts)]]
                self.assertTrue(torch.equal(before.nan_to_num(7.0), server.slots().nan_to_num(7.0)))
                self.assertTrue(torch.equal(output[sum(counts):], torch.full_like(output[sum(counts):], 0.0 if is_counted else 7.0)))

    def test_steps_compile_no_kernels(self):
        server, impl = Server(), made(sliding_window=8)
        for counts in SCHEDULE:
            self.run_step(server, impl, server.step(counts), sliding_window=8)
        known = len(ops.variants)
        for counts in ((3, 2, 0, 0), (1, 1, 1, 1), (0, 0, 0, 11), (1, 0, 0, 1)):
            self.run_step(server, impl, server.step(counts), sliding_window=8)
        self.assertEqual(len(ops.variants), known)

    def test_not_causal(self):
        """A decoder that sees what follows, and encoders, which have no cache."""
        for window in (None, 8):
            server, impl = Server(), made(sliding_window=window)
            for counts in ((9, 30, 0, 1), (12, 1, 7, 0), (1, 1, 1, 1)):
                common, *rest = server.step(counts)
                self.run_step(server, impl, (dataclasses.replace(common, causal=False), *rest), sliding_window=window, causal=False)
            for attn_type in (AttentionType.ENCODER_ONLY, AttentionType.ENCODER):
                impl, server = made(sliding_window=window, attn_type=attn_type), Server()
                common, *rest = server.step((9, 30, 0, 1), padding=2)
                server.cache = torch.empty(0)
                self.run_step(server, impl, (dataclasses.replace(common, causal=False), *rest), sliding_window=window, causal=False)

    def test_run_that_measures_memory(self):
        output = torch.full((3, H, D), 7.0)
        made().forward(Layer(), output, output, output, torch.empty(0), None, output)
        self.assertTrue(torch.equal(output, torch.zeros_like(output)))

    def test_what_is_refused(self):
        for options, text in (({"kv_cache_dtype": "fp8"}, "kv_cache_dtype is fp8, but must be auto: the dtype of the model; leave out --kv-cache-dtype"),
                              ({"attn_type": AttentionType.ENCODER_DECODER}, "attn_type is encoder_decoder, but must be decoder, encoder or encoder_only; choose another "
                                                                             "backend with --attention-backend"),
                              ({"chunk_lookback": 2}, "chunk_lookback of this model's attention is not supported by attune; choose another backend with "
                                                      "--attention-backend"),
                              ({"columns": 20}, "head_size is 20, but must be a multiple of 8 up to 576; choose another backend with --attention-backend")):
            with self.subTest(options=options), self.assertRaises(attune.Error) as caught:
                made(**options)
            self.assertIn(f"error: {text}\n", str(caught.exception))
        made(chunk_lookback=-1)
        server = Server()
        common, query, key, value, _ = server.step((3, 0, 0, 0))
        with self.assertRaisesRegex(attune.Error, "causal is a tensor, one flag for each sequence, but all sequences of a step must have the same; choose another "
                                                  "backend with --attention-backend"):
            metadata_of(dataclasses.replace(common, causal=torch.ones(1, dtype=torch.int32)))
        with self.assertRaisesRegex(attune.Error, "output_scale is given, but kernels do not quantise their output; turn off the fusion of attention and "
                                                  "quantisation, fuse_attn_quant"):
            made().forward(Layer(), query, key, value, server.cache, metadata_of(common), query, torch.ones(()))
        with self.assertRaisesRegex(attune.Error, r"the cache has shape \[2, 32, 16, 2, 16\], but must have \[pages, 2, size, 32\], the columns of K before those of V, as "
                                                  r"vLLM 0.32 and 0.33 lay it out; choose another backend with --attention-backend"):
            made().do_kv_cache_update(Layer(), key, value, torch.empty(2, 32, 16, 2, 16), common.slot_mapping)

    def test_registration(self):
        backend = AttentionBackendEnum.CUSTOM.get_class()
        self.assertEqual((AttentionBackendEnum.CUSTOM.get_path(), backend.get_name()), ("attune.vllm.Backend", "CUSTOM"))
        self.assertEqual(backend.get_builder_cls()._cudagraph_support, AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE)
        self.assertTrue(backend.supports_head_size(80) and not backend.supports_head_size(20) and not backend.supports_head_size(584))

    @unittest.skipUnless(HAS_VLLM, "vLLM is not installed")
    def test_what_vllm_asks(self):
        from vllm.platforms.interface import DeviceCapability
        backend = AttentionBackendEnum.CUSTOM.get_class()
        given = {"head_size": 128, "dtype": torch.bfloat16, "kv_cache_dtype": "auto", "block_size": 16, "use_mla": False, "has_sink": True, "use_sparse": False,
                 "use_mm_prefix": False, "use_per_head_quant_scales": False, "device_capability": DeviceCapability(9, 0), "attn_type": AttentionType.DECODER,
                 "has_sliding_window": True, "use_non_causal": True}
        self.assertEqual(backend.validate_configuration(**given), [])
        for changed in ({"use_mla": True}, {"kv_cache_dtype": "fp8"}, {"block_size": 8}, {"use_mm_prefix": True}, {"device_capability": DeviceCapability(7, 5)},
                        {"use_dcp": True}, {"use_batch_invariant": True}, {"attn_type": AttentionType.ENCODER_DECODER}, {"use_rswa": True}):
            with self.subTest(changed=changed):
                self.assertEqual(len(backend.validate_configuration(**{**given, **changed})), 1)

    @unittest.skipUnless(HAS_VLLM, "vLLM is not installed")
    def test_layer(self):
        """vLLM's Attention calls the backend through its own operations."""
        from vllm.config import VllmConfig, set_current_vllm_config
        from vllm.forward_context import set_forward_context
        from vllm.model_executor.layers.attention import Attention
        options = {"sliding_window": 8, "sinks": MODELS["gpt-oss"]["sinks"]}
        config = VllmConfig()
        with set_current_vllm_config(config):
            layer = Attention(H, D, D**-0.5, num_kv_heads=HKV, per_layer_sliding_window=8, prefix="layer", attn_backend=AttentionBackendEnum.CUSTOM.get_class(),
                              sinks=options["sinks"]).to(DEVICE)
        server = Server()
        layer.kv_cache = server.cache
        for counts in SCHEDULE:
            common, query, key, value, spans = server.step(counts)
            with torch.inference_mode(), set_forward_context({"layer": metadata_of(common)}, config, slot_mapping={"layer": common.slot_mapping}):
                output = layer(query.flatten(1), key.flatten(1), value.flatten(1)).view(-1, H, D)
            for rows, i in spans:
                self.close(output[rows], eager(query[rows], server.keys[i], server.values[i], D**-0.5, **options))


if __name__ == "__main__":
    unittest.main()
