"""attune for PyTorch: FlexAttention's interface on attune's kernels, with autograd.

    from attune.torch import create_block_mask, flex_attention

docs/guide/pytorch.md is the guide.
"""
import os

import torch

from ..errors import library

library(os.path.dirname(torch.__file__))

from torch.nn.attention.flex_attention import AuxOutput, AuxRequest, and_masks, create_mask, noop_mask, or_masks  # noqa: E402

from .attention import flex_attention, scaled_dot_product_attention  # noqa: E402
from .flash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache, varlen_attn  # noqa: E402
from .masks import BlockMask, create_block_mask, create_block_sparse_mask  # noqa: E402
from .sdpa import sdpa_kernel  # noqa: E402

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_block_sparse_mask", "create_mask", "flash_attn_func", "flash_attn_varlen_func",
           "flash_attn_with_kvcache", "flex_attention", "noop_mask", "or_masks", "scaled_dot_product_attention", "sdpa_kernel", "varlen_attn"]
