"""Block masks: attune's, which keeps the function, and PyTorch's, which is honoured block by block."""
import types

import torch
from torch.nn.attention import flex_attention as torch_flex

from ..expressions import fail

UNLIMITED = 1 << 30  # PyTorch's block size of a mask that hides nothing


class BlockMask(torch_flex.BlockMask):
    """A mask for flex_attention, made of a mask_mod alone: no blocks are computed, the kernel finds out which it visits.

    `shape` is (B, H, Q_LEN, KV_LEN), B and H 1 where they were None. It is an instance of PyTorch's BlockMask, whose lists of blocks (kv_indices, ...),
    and what follows from them (to_dense, sparsity, slices, ...), come of one that is made when they are asked for; `torch()` gives it.
    """

    def __init__(self, mask_mod, shape, device, block_size, made_on=None):
        self.mask_mod = mask_mod
        self._shape = shape
        self.seq_lengths = shape[2:]
        self.device = device
        self.BLOCK_SIZE = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
        self._made_on = made_on or device  # where its blocks are computed

    # Of lists of blocks they make PyTorch's.
    from_kv_blocks = torch_flex.BlockMask.from_kv_blocks
    _unflatten = getattr(torch_flex.BlockMask, "_unflatten", None)

    @property
    def shape(self):
        return self._shape

    def torch(self):
        """torch.nn.attention.flex_attention.BlockMask of the same function."""
        function, mask = self.__dict__.get("_torch", (None, None))
        if function is not self.mask_mod:
            function = self.mask_mod
            if not isinstance(function, types.FunctionType):  # PyTorch takes plain functions alone
                def function(b, h, q_idx, kv_idx, called=self.mask_mod):
                    return called(b, h, q_idx, kv_idx)
            mask = torch_flex.create_block_mask(function, *self.shape, device=self._made_on, BLOCK_SIZE=self.BLOCK_SIZE)
            if self._made_on != self.device:
                mask = mask.to(self.device)
            self._torch = self.mask_mod, mask
        return mask

    def to(self, device):
        """The mask for another device; tensors that its function reads stay where they are."""
        return BlockMask(self.mask_mod, self.shape, torch.device(device), self.BLOCK_SIZE, made_on=self._made_on)

    def __getitem__(self, index):
        return self.torch()[index]

    def __getattr__(self, name):
        if name not in _FIELDS:
            raise AttributeError(f"BlockMask has no attribute '{name}'")
        return getattr(self.torch(), name)

    def __str__(self):
        return str(self.torch())

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)})"


_FIELDS = frozenset(("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices", "full_q_num_blocks",
                     "full_q_indices"))


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=128, _compile=False):
    """A BlockMask of mask_mod(b, h, q_idx, kv_idx), as torch.nn.attention.flex_attention.create_block_mask takes it. It costs nothing."""
    if not callable(mask_mod):
        fail(f"mask_mod is of type {type(mask_mod).__name__}, but must be a function of (b, h, q_idx, kv_idx)")
    device = torch.device(device) if device is not None else torch.accelerator.current_accelerator() or torch.device("cpu")
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), device, BLOCK_SIZE)


def mask_of(block_mask):
    """The mask_mod of any block mask, and of PyTorch's the tensor of what its blocks are: int32 [B or 1, H or 1, rows, columns], of each block 0 where
    it is hidden, 1 where mask_mod decides, 2 where all of it is visible."""
    if isinstance(block_mask, BlockMask):
        return block_mask.mask_mod, None
    if not isinstance(block_mask, torch_flex.BlockMask):
        fail(f"block_mask is of type {type(block_mask).__name__}, but must be a BlockMask; make one by create_block_mask")
    if min(block_mask.BLOCK_SIZE) >= UNLIMITED:
        return block_mask.mask_mod, None
    return block_mask.mask_mod, _blocks(block_mask)


def _blocks(block_mask):
    lists = (block_mask.kv_num_blocks, block_mask.kv_indices, block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    if torch.compiler.is_dynamo_compiling() or any([x is not None and x.is_inference() for x in lists]):
        return _table(block_mask, lists)
    state = (block_mask.seq_lengths, block_mask.BLOCK_SIZE, *[(id(x), x._version) for x in lists if x is not None])
    known = block_mask.__dict__.get("_attune_blocks")
    if known is not None and known[0] == state:
        return known[1]
    blocks = _table(block_mask, lists)
    block_mask._attune_blocks = (state, blocks, lists)  # the lists keep their ids in use
    return blocks


def _table(block_mask, lists):
    counts, columns = lists[0], -(-block_mask.seq_lengths[1] // block_mask.BLOCK_SIZE[1])
    if counts.dim() != 3:
        fail(f"block_mask has counts of shape {list(counts.shape)}, but they must have the dimensions [B, H, rows]; slice with i:i+1 instead of i")
    blocks = torch.zeros((*counts.shape, columns + 1), dtype=torch.int32, device=counts.device)
    for value, number, indices in ((1, *lists[:2]), (2, *lists[2:])):
        if number is not None:
            listed = (torch.arange(indices.shape[-1], device=counts.device) < number[..., None]) & (indices < columns)
            blocks.scatter_(-1, torch.where(listed, indices, columns).long(), value)
    return blocks[..., :columns].contiguous()
