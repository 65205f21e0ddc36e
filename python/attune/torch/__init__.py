"""attune for PyTorch: FlexAttention's interface on attune's kernels, with autograd.

    from attune.torch import create_block_mask, flex_attention

docs/pytorch.md is the guide.
"""
import os

import torch

from ..errors import library

library(os.path.dirname(torch.__file__))

from .attention import flex_attention, scaled_dot_product_attention  # noqa: E402
from .masks import BlockMask, create_block_mask  # noqa: E402

__all__ = ["BlockMask", "create_block_mask", "flex_attention", "scaled_dot_product_attention"]
