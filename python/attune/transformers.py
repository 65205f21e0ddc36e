"""attune in Hugging Face transformers, whose models then take attn_implementation="attune".

    import attune.transformers
    attune.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="attune", dtype=torch.bfloat16)

docs/guide/transformers.md is the guide.
"""
import typing

import torch
from torch.utils._pytree import tree_map_only
from transformers import AttentionInterface, masking_utils

from .expressions import fail
from .torch.attention import _attend
from .torch.masks import create_block_mask, mask_of
from .torch.programs import Made, graph_number
from .torch.tracing import Own

# Arguments of models' own that change which keys are visible, or that want probabilities, with what to do instead.
_REFUSED = {"output_attentions": "load the model with attn_implementation=\"eager\" to see probabilities", "head_mask": "scale the rows of the output projection",
            "layer_head_mask": "scale the rows of the output projection", "indices": "load the model with attn_implementation=\"sdpa\", which gets a mask of them",
            "block_indices": "load the model with attn_implementation=\"sdpa\", which gets a mask of them",
            "sinks": "load the model with attn_implementation=\"eager\""}


def register(name="attune"):
    """Makes attn_implementation=name run on attune, in models of transformers 5 that leave attention and its mask to the interfaces. It may be called again."""
    AttentionInterface.register(name, attention)
    masking_utils.AttentionMaskInterface.register(name, mask)


def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, softcap=None, s_aux=None, position_bias=None, is_causal=None, **options):
    """The attention of a layer, as transformers calls it.

    query [B, H, L, E], key [B, Hkv, S, E], value [B, Hkv, S, Ev]. attention_mask is what mask() gives, a bool tensor (True is visible) or a float tensor (added
    to scores) that broadcasts to [B, H, L, S], or None: causal where the module is and there is more than one query. Scores are softcap tanh(score / softcap)
    before position_bias and float masks are added; s_aux [H] are sinks. Returns ([B, L, H, Ev], None), as probabilities are not stored.
    """
    for name, instead in _REFUSED.items():
        if options.get(name) is not None and options[name] is not False:
            fail(f"{name} is not supported by attune; {instead}")
    if attention_mask is None:
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        attention_mask = Known(True if causal and query.shape[2] > 1 else False, None, None)
    mask_mod = block_mask = blocks = visible = None
    biases = [position_bias]
    if isinstance(attention_mask, Mask):
        block_mask = attention_mask.block_mask
    elif isinstance(attention_mask, Known):
        mask_mod = Made(_causal, (attention_mask.q_offset, attention_mask.kv_offset)) if attention_mask.is_causal else None
    elif isinstance(attention_mask, torch.Tensor):
        attention_mask = attention_mask[..., :key.shape[2]]
        if attention_mask.dtype == torch.bool:
            visible = attention_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        elif attention_mask.dtype.is_floating_point:
            biases.append(attention_mask)
        else:
            fail(f"attention_mask of four dimensions is {attention_mask.dtype}, but must be torch.bool (True is visible) or floating (added to scores)")
    else:
        block_mask = attention_mask
    if block_mask is not None:
        mask_mod, blocks = mask_of(block_mask)
    biases = [x for x in biases if x is not None]
    score = None
    if softcap is not None or biases:
        axes = [tuple([True if size > 1 else False for size in x.shape]) for x in biases]
        score = Made(_score, (softcap, len(biases), *biases, *[is_along for of in axes for is_along in of]))
    output, _ = _attend(query, key, value, score, mask_mod, block_mask, True, scaling, dropout, False, False, None, Own(blocks=blocks, attn_mask=visible, sink=s_aux))
    return output.transpose(1, 2).contiguous(), None


def _causal(q_offset, kv_offset):
    def mask_mod(b, h, q_idx, kv_idx):
        return (kv_idx if kv_offset is None else kv_idx + kv_offset) <= (q_idx if q_offset is None else q_idx + q_offset)
    return mask_mod


def _score(softcap, count, *values):
    biases, axes = values[:count], [values[count + 4 * i:count + 4 * i + 4] for i in range(count)]

    def score_mod(score, *index):
        if softcap is not None:
            score = softcap * torch.tanh(score / softcap)
        for bias, of in zip(biases, axes):
            b, h, q, k = [i if is_along else 0 for i, is_along in zip(index, of)]
            score = score + bias[b, h, q, k]
        return score
    return score_mod


class Known(typing.NamedTuple):
    """A mask under torch.compile, where functions cannot be kept: key k + kv_offset is visible to query q + q_offset if not behind it, or always. None is 0."""

    is_causal: bool
    q_offset: object
    kv_offset: object


class Mask(torch.Tensor):
    """A bool mask [B, 1, L, S], True is visible, of which attention() reads the function alone. Operations on it, as models do them that look at their
    mask, get its elements, which are computed then; those that add it to scores are an error, as it says what is visible."""

    @staticmethod
    def __new__(cls, block_mask, shape, device, elements):
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=device)
        made.block_mask, made.elements = block_mask, elements
        return made

    def __repr__(self, **_):
        return f"Mask({list(self.shape)}, {self.block_mask})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.overloadpacket.__name__ in ("add", "sub", "rsub", "mul") or func is torch.ops.aten._to_copy.default and kwargs.get("dtype", torch.bool).is_floating_point:
            fail("this model computes with its mask outside of transformers' attention interface; load it with attn_implementation=\"eager\"")
        args, kwargs = tree_map_only(cls, lambda mask: mask.elements(), (args, kwargs))
        return func(*args, **kwargs)


def mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=masking_utils.causal_mask_function, attention_mask=None, device="cpu",
         use_vmap=False, **_):
    """The mask of a forward pass, as transformers calls for it: a Mask of the function.

    Under torch.compile it is Known, or, of other functions than the causal one, a bool tensor [B, 1, q_length, kv_length], whose empty and full tiles the kernels
    find.
    """
    if isinstance(q_offset, torch.Tensor):
        q_offset = q_offset.clone()  # a static cache counts on in place before layers read it

    def elements():
        return masking_utils.sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, allow_is_causal_skip=False,
                                       allow_is_bidirectional_skip=False, use_vmap=use_vmap, device=device)
    if torch.compiler.is_compiling():
        if attention_mask is None and mask_function in (masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function):
            return Known(mask_function is masking_utils.causal_mask_function, _recorded(q_offset, device), _recorded(kv_offset, device))
        return elements()
    function = mask_function
    if attention_mask is not None and (attention_mask.shape[-1] < kv_length + kv_offset or not _is_full(attention_mask)):
        padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
        function = masking_utils.and_masks(function, masking_utils.padding_mask_function(padding))
    function = masking_utils.add_offsets_to_mask_function(function, q_offset, kv_offset)
    shape = (batch_size, 1, q_length, kv_length)
    return Mask(create_block_mask(function, batch_size, None, q_length, kv_length, device), shape, device, elements)


def _recorded(offset, device):
    """An offset as a graph holds it, which need not be recorded again for another: a tensor, or None for the number 0."""
    if isinstance(offset, torch.Tensor):
        return offset
    return graph_number(offset, device) if offset != 0 else None


def _is_full(attention_mask):
    """Whether nothing is padding. While a CUDA graph is captured nobody can tell."""
    return not (attention_mask.is_cuda and torch.cuda.is_current_stream_capturing()) and masking_utils.fast_all(attention_mask)
