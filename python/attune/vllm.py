"""attune in vLLM, whose attention layers then take --attention-backend CUSTOM.

    import attune.vllm
    attune.vllm.register()
    model = LLM(name, attention_backend="CUSTOM")

Where the package is installed, vLLM's processes call register() themselves: it is a plugin of vLLM. docs/guide/serving.md is the guide.
"""
import dataclasses

import torch
from vllm.v1.attention.backend import AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadataBuilder, AttentionType, MultipleOf
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from .expressions import fail
from .torch.flash import flash_attn_varlen_func, flash_attn_with_kvcache

_ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)
_INSTEAD = "choose another backend with --attention-backend"


def register():
    """Makes vLLM's backend CUSTOM this one, in this process. It may be called again."""
    register_backend(AttentionBackendEnum.CUSTOM, f"{__name__}.{Backend.__qualname__}")


class Backend(AttentionBackend):
    """What vLLM asks a backend before it takes it. vLLM raises the error where the answer to one of its questions is no."""

    supported_dtypes = [torch.bfloat16, torch.float16, torch.float32]
    supported_kv_cache_dtypes = ["auto"]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name():
        return AttentionBackendEnum.CUSTOM.name  # vLLM looks the member up by it

    @staticmethod
    def get_impl_cls():
        return Impl

    @staticmethod
    def get_builder_cls():
        return MetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        return [MultipleOf(16)]

    @classmethod
    def supports_head_size(cls, head_size):
        return head_size % 8 == 0 and head_size <= 576

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major >= 8

    @classmethod
    def supports_attn_type(cls, attn_type):
        return attn_type == AttentionType.DECODER or attn_type in _ENCODERS

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_sliding_window(cls):
        return True

    @classmethod
    def supports_non_causal(cls):
        return True


@dataclasses.dataclass
class Metadata:
    """The sequences of one step. Sequence n has rows query_start_loc[n] to query_start_loc[n + 1] and the first seq_lens[n] keys in pages block_table[n]."""

    num_actual_tokens: int  # rows of all sequences
    max_query_len: int
    query_start_loc: torch.Tensor  # int32 [N + 1]
    seq_lens: torch.Tensor  # int32 [N]
    block_table: torch.Tensor  # int32 [N, pages]
    causal: bool


class MetadataBuilder(AttentionMetadataBuilder):
    # Kernels read lengths and pages on the device, so that a graph of a step with one query a sequence replays. Other steps run other kernels.
    _cudagraph_support = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        common = common_attn_metadata
        if isinstance(common.causal, torch.Tensor):
            fail(f"causal is a tensor, one flag for each sequence, but all sequences of a step must have the same; {_INSTEAD}")
        return Metadata(common.num_actual_tokens, common.max_query_len, common.query_start_loc, common.seq_lens, common.block_table_tensor, common.causal)


class Impl(AttentionImpl):
    """The attention of one layer."""

    def __init__(self, num_heads, head_size, scale, num_kv_heads=None, alibi_slopes=None, sliding_window=None, kv_cache_dtype="auto", logits_soft_cap=None,
                 attn_type=AttentionType.DECODER, kv_sharing_target_layer_name=None, sinks=None, **others):
        if not Backend.supports_attn_type(attn_type):
            fail(f"attn_type is {getattr(attn_type, 'value', attn_type)}, but must be decoder, encoder or encoder_only; {_INSTEAD}")
        if kv_cache_dtype != "auto":
            fail(f"kv_cache_dtype is {kv_cache_dtype}, but must be auto: the dtype of the model; leave out --kv-cache-dtype")
        if not Backend.supports_head_size(head_size):
            fail(f"head_size is {head_size}, but must be a multiple of 8 up to 576; {_INSTEAD}")
        for name, given in others.items():
            if given not in (None, False, -1):
                fail(f"{name} of this model's attention is not supported by attune; {_INSTEAD}")
        self.num_heads, self.head_size, self.num_kv_heads = num_heads, head_size, num_kv_heads or num_heads
        self.scale, self.attn_type, self.kv_cache_dtype = float(scale), attn_type, kv_cache_dtype
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.alibi_slopes = torch.tensor(alibi_slopes, dtype=torch.float32) if alibi_slopes is not None else None
        self.window = -1 if sliding_window is None else sliding_window - 1  # keys before a query's own that it sees
        self.logits_soft_cap = logits_soft_cap or 0.0
        self.sinks = sinks

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        """Writes key and value [T, Hkv, D] to their slots: slot s is row s % size of page s // size. Rows of a negative slot are not written."""
        if self.attn_type in _ENCODERS:
            return
        keys, values = self._pages(kv_cache)
        if key.is_cuda:  # one kernel, which a CUDA graph may hold
            torch.ops._C_cache_ops.reshape_and_cache_flash(key, value, keys, values, slot_mapping, self.kv_cache_dtype, layer._k_scale, layer._v_scale)
            return
        is_written = slot_mapping >= 0
        slots = slot_mapping[is_written]
        for pages, rows in ((keys, key), (values, value)):
            pages[slots // pages.shape[1], slots % pages.shape[1]] = rows[:len(slot_mapping)][is_written]

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None, output_block_scale=None):
        """Writes the attention of query [T, H, D] to output [T, H, D], and returns it. A decoder's key and value are in the cache already."""
        if output_scale is not None or output_block_scale is not None:
            fail("output_scale is given, but kernels do not quantise their output; turn off the fusion of attention and quantisation, fuse_attn_quant")
        if attn_metadata is None:  # a run that measures memory
            return output.fill_(0)
        count, bounds, lengths = attn_metadata.num_actual_tokens, attn_metadata.query_start_loc, attn_metadata.seq_lens
        if self.alibi_slopes is not None:
            self.alibi_slopes = self.alibi_slopes.to(query.device)
        options = {"softmax_scale": self.scale, "softcap": self.logits_soft_cap, "alibi_slopes": self.alibi_slopes}
        query, has_sinks = query[:count], self.sinks is not None
        if self.attn_type in _ENCODERS:
            found = flash_attn_varlen_func(query, key[:count], value[:count], bounds, bounds, window_size=(self.window, self.window), return_attn_probs=has_sinks,
                                           **options)
        elif attn_metadata.max_query_len == 1 and count == len(lengths):
            # The only query of a sequence is its last: a causal mask hides no key from it. These kernels split the keys among blocks.
            found = flash_attn_with_kvcache(query.unsqueeze(1), *self._pages(kv_cache), cache_seqlens=lengths, block_table=attn_metadata.block_table,
                                            window_size=(self.window, -1), return_softmax_lse=has_sinks, **options)
        else:
            found = flash_attn_varlen_func(query, *self._pages(kv_cache), bounds, seqused_k=lengths, block_table=attn_metadata.block_table,
                                           causal=attn_metadata.causal, window_size=(self.window, self.window), return_attn_probs=has_sinks, **options)
        if has_sinks:
            # A sink s adds exp(s) to the denominator, which is exp(LSE) without it: O is multiplied by exp(LSE) / (exp(LSE) + exp(s)).
            found = found[0] * torch.sigmoid(found[1].transpose(-1, -2) - self.sinks.float()).unsqueeze(-1)
        output[:count].copy_(found.reshape(output[:count].shape))
        return output

    def _pages(self, kv_cache):
        """The pages of keys and of values, [pages, size, Hkv, D], as views of vLLM's cache."""
        if kv_cache.dim() != 4 or kv_cache.shape[1] != self.num_kv_heads or kv_cache.shape[3] != 2 * self.head_size:
            fail(f"the cache has shape {list(kv_cache.shape)}, but must have [pages, {self.num_kv_heads}, size, {2 * self.head_size}], the columns of K before "
                 f"those of V, as vLLM 0.32 and 0.33 lay it out; {_INSTEAD}")
        pages = kv_cache.transpose(1, 2)
        return pages[..., :self.head_size], pages[..., self.head_size:]
