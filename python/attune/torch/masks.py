"""Block masks: attune's, which keeps the function, and PyTorch's, which is honoured block by block."""
import types
import typing

import torch
from torch.nn.attention import flex_attention as torch_flex

from ..expressions import fail

UNLIMITED = 1 << 30  # PyTorch's block size of a mask that hides nothing


class BlockMask(torch_flex.BlockMask):
    """A mask for flex_attention, made of a mask_mod alone: no blocks are computed, the kernel finds out which it visits.

    `shape` is (B, H, Q_LEN, KV_LEN), B and H 1 where they were None. It is an instance of PyTorch's BlockMask, whose lists of blocks (kv_indices, ...),
    and what follows from them (to_dense, sparsity, slices, ...), come of one that is made when they are asked for; `torch()` gives it.
    """

    def __init__(self, mask_mod, shape, device, block_size, made_on=None, layout=None):
        self.mask_mod = mask_mod
        self._layout = layout  # of a block-sparse mask: a _Layout
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
        """The mask for another device; tensors that its function reads stay where they are, a block-sparse layout moves."""
        if self._layout is not None:
            blocks, mask_mod = self._layout
            return _of_blocks(blocks.to(device), self.seq_lengths, self.BLOCK_SIZE, mask_mod)
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


def create_block_sparse_mask(layout, Q_LEN=None, KV_LEN=None, BLOCK_SIZE=128, mask_mod=None):
    """A BlockMask of a block-sparse layout: which blocks of BLOCK_SIZE (a number, or those of queries and keys) are visible.

    layout      a tensor [rows, columns], [H, rows, columns] or [B, H, rows, columns], bool or of numbers, visible where it is not 0; of torch.strided,
                torch.sparse_csr (its entries are visible, whatever their values), or torch.sparse_bsr, whose blocks of its block size, in place of
                BLOCK_SIZE, are visible
    Q_LEN, KV_LEN   lengths of the sequences, by default all rows and columns of blocks
    mask_mod    what else hides keys in visible blocks: a function (b, h, q_idx, kv_idx)

    The blocks need not be tiles of the kernel. Blocks that no row sees are not computed. ValueError where the layout does not have the blocks of the lengths.
    """
    is_bsr = layout.layout == torch.sparse_bsr
    if is_bsr:
        BLOCK_SIZE = tuple(layout.values().shape[-2:])
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    if is_bsr or layout.layout == torch.sparse_csr:
        dims = (*layout.shape[:-2], *[length // by for length, by in zip(layout.shape[-2:], size if is_bsr else (1, 1))])
        visible = _dense_blocks(layout.crow_indices(), layout.col_indices(), dims)
    elif layout.layout == torch.strided:
        visible = layout != 0
    else:
        fail(f"layout is of {layout.layout}, but must be of torch.strided, torch.sparse_csr or torch.sparse_bsr; call its to_sparse_csr()")
    if not 2 <= visible.dim() <= 4:
        raise ValueError(f"layout has blocks of shape {list(visible.shape)}, but must have [rows, columns], [H, rows, columns] or [B, H, rows, columns]")
    lengths = (visible.shape[-2] * size[0] if Q_LEN is None else Q_LEN, visible.shape[-1] * size[1] if KV_LEN is None else KV_LEN)
    wanted = [-(-length // by) for length, by in zip(lengths, size)]
    if list(visible.shape[-2:]) != wanted:
        raise ValueError(f"layout has {visible.shape[-2]} rows and {visible.shape[-1]} columns of blocks, but {lengths[0]} queries and {lengths[1]} keys in blocks of "
                         f"{size[0]} and {size[1]} have {wanted[0]} and {wanted[1]}")
    blocks = visible.reshape((1,) * (4 - visible.dim()) + tuple(visible.shape)).to(torch.int32) * (2 if mask_mod is None else 1)
    return _of_blocks(blocks, lengths, size, mask_mod)


class _Layout(typing.NamedTuple):
    """A block-sparse mask: its table as mask_of gives it, and what else hides keys in visible blocks, or None."""

    blocks: torch.Tensor
    mask_mod: object


def _of_blocks(blocks, lengths, size, mask_mod):
    batches, heads = blocks.shape[:2]

    def visible(b, h, q_idx, kv_idx):
        is_visible = blocks[b if batches > 1 else 0, h if heads > 1 else 0, q_idx // size[0], kv_idx // size[1]] != 0
        return is_visible if mask_mod is None else is_visible & mask_mod(b, h, q_idx, kv_idx)
    return BlockMask(visible, (batches, heads, *lengths), blocks.device, size, layout=_Layout(blocks, mask_mod))


def _dense_blocks(starts, columns, dims):
    """The bool tensor of a CSR pattern: the entries of row i are columns[starts[i]:starts[i + 1]]."""
    rows, width = dims[-2:]
    entry = torch.arange(columns.shape[-1], device=columns.device).expand(columns.shape).contiguous()
    row = torch.searchsorted(starts.contiguous(), entry.to(starts.dtype), right=True) - 1
    visible = torch.zeros((*dims[:-2], rows * width), dtype=torch.bool, device=columns.device)
    return visible.scatter_(-1, row * width + columns, True).reshape(dims)


def mask_of(block_mask):
    """The mask_mod of any block mask, and of PyTorch's the tensor of what its blocks are: int32 [B or 1, H or 1, rows, columns], of each block 0 where
    it is hidden, 1 where mask_mod decides, 2 where all of it is visible."""
    if isinstance(block_mask, BlockMask):
        layout = block_mask._layout
        return (layout.mask_mod, layout.blocks) if layout is not None else (block_mask.mask_mod, None)
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
