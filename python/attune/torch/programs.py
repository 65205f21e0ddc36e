"""A score_mod, a mask_mod and what else makes a variant, traced once for as long as what they depend on stays."""
import functools

import torch

from .. import expressions as ex
from ..expressions import as_expr, cast, fail
from ..variant import Variant
from .functions import Reads
from .ops import variants
from .tracing import Source, Trace

_programs = {}


class Program:
    """A variant, and where the tensors that it reads are found in a call.

    text       the variant as JSON, which names it wherever Python objects cannot go
    inputs     a Source for each captured tensor, in the variant's order
    """

    def __init__(self, variant, trace, extra):
        self.variant = variant
        self.text = variant.json()
        by_name = {read.name: read.source for read in trace.reads.values()} | extra
        self.inputs = [by_name[name] for name, _, _ in variant.tensors]
        self.steps = trace.steps
        self.shape_key = trace.by_shape
        self.lasting = not trace.foreign
        self.tensors = variant.tensors
        variants.setdefault(self.text, variant)

    def captured(self, leaves):
        """The captured tensors of a call, whose leaves these are."""
        if not self.steps:
            return [leaves[value] if kind == "leaf" else value for kind, value in self.inputs]
        results = []

        def place(x):
            return x if not isinstance(x, Source) else leaves[x.value] if x.kind == "leaf" else results[x.value[0]][x.value[1]] if x.kind == "result" else x.value

        tree = torch.utils._pytree
        for function, args, kwargs in self.steps:
            args, kwargs = tree.tree_map(place, (args, kwargs), is_leaf=lambda x: isinstance(x, Source))
            results.append(tree.tree_leaves(function(*args, **kwargs)))
        return [place(source) for source in self.inputs]


def program(score_mod, mask_mod, blocks, block_size, device, **definition):
    """The Program, and its captured tensors of this call. `blocks` is the tensor that masks.mask_of gives, or None; `definition` are the hashable
    arguments of attune.Variant, of which a sink is a tensor."""
    sink = definition.pop("sink", None)
    reads = Reads()
    key = (reads.key(score_mod), reads.key(mask_mod), block_size if blocks is not None else None, device.type, sink is not None, *definition.items())
    leaves = reads.leaves
    own = {name: tensor for name, tensor in (("blocks", blocks), ("sink", sink)) if tensor is not None}
    sources = {name: Source("leaf", len(leaves) + i) for i, name in enumerate(own)}
    leaves += own.values()
    found = _programs.get(key)
    if type(found) is dict:  # of each shape of the leaves another
        found = found.get(tuple([leaf.shape for leaf in leaves]))
    if found is None:
        found = _traced(score_mod, mask_mod, reads, block_size, sources, device, definition)
        if not found.lasting:
            pass
        elif found.shape_key:
            _programs.setdefault(key, {})[tuple([leaf.shape for leaf in leaves])] = found
        else:
            _programs[key] = found
        found.held = (score_mod, mask_mod, reads)  # ids in the key stay in use
    return found, found.captured(leaves)


def _traced(score_mod, mask_mod, reads, block_size, sources, device, definition):
    trace = Trace(reads.leaves[:len(reads.names)], reads.names, device)

    def score(s, b, h, q, k):
        result = trace(score_mod, (s, b, h, q, k), "score_mod")
        return result if result.dtype == "f32" else cast(result, "f32")

    def mask(b, h, q, k):
        result = as_expr(True)
        if mask_mod is not None:
            result = trace(mask_mod, (b, h, q, k), "mask_mod")
            result = result if result.dtype == "bool" else result != 0
        if "blocks" not in sources:
            return result
        block = ex.broadcast(ex.tensor("blocks", "i32", 4)[b, h, q // block_size[0], k // block_size[1]])
        return (block == 2) | ((block == 1) & result)

    for own, function in ((score, score_mod), (mask, mask_mod)):
        if function is not None:
            functools.update_wrapper(own, function, assigned=("__name__",), updated=())
    variant = Variant(score if score_mod is not None else None, mask if mask_mod is not None or "blocks" in sources else None,
                      sink=ex.tensor("sink", "f32", 1) if "sink" in sources else None, **definition)
    return Program(variant, trace, sources)
