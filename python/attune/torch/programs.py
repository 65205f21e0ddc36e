"""A score_mod, a mask_mod and what else makes a variant, traced once for as long as what they depend on stays."""
import functools
import types
import typing

import torch

from .. import _core
from .. import expressions as ex
from ..errors import Error
from ..expressions import as_expr, cast, fail
from ..variant import Variant, line_of
from .functions import Reads
from .ops import kept, variants
from .tracing import CAPTURED, OWN, Source, Trace


class Definition(typing.NamedTuple):
    """What a variant is of beside functions."""

    block_size: tuple  # of PyTorch's BlockMask whose blocks count, else None
    shared: tuple  # whether its batches, and its heads, have the same blocks
    attn_mask: torch.dtype  # of the attn_mask of scaled_dot_product_attention, else None
    sink: bool
    scale: float  # None: by the head dimension
    dropout: bool
    normaliser: object


class Program:
    """A variant, and where the tensors that it reads are found in a call.

    text       the variant as JSON, which names it wherever Python objects cannot go
    names      of the captured tensors, in the variant's order
    learnable  (index, name) of those that a gradient may reach: that the score reads, or that are sinks
    inputs     a Source for each of them
    lasting    whether it serves other calls
    are_leaves whether the captured tensors are the leaves as they are
    stopped    errors by the name of a captured tensor, "s" for the score, whose derivative the function stops
    """

    def __init__(self, variant, trace, of_score, own, leaves):
        self.text = variant.json()
        sources = {read.name: read.source for read in trace.reads.values()} | own
        self.names = tuple([name for name, _, _ in variant.tensors])
        self.learnable = tuple([(i, name) for i, name in enumerate(self.names) if name in of_score or name in ("attn_mask", "sink")])
        self.inputs = [sources[name] for name in self.names]
        self.are_leaves = all(leaf.dim() for leaf in leaves) and self.inputs == [Source("leaf", i) for i in range(len(leaves) + len(own))]
        self.steps = trace.steps
        self.by_shape = trace.by_shape
        self.stopped = trace.stopped
        self.lasting = not trace.foreign
        variants.setdefault(self.text, variant)

    def captured(self, leaves):
        """The captured tensors of a call, whose leaves, and after them those of OWN, these are."""
        if not self.steps:
            return [leaves[value] if kind == "leaf" else value for kind, value in self.inputs]
        results = []

        def place(x):
            return x if not isinstance(x, Source) else leaves[x.value] if x.kind == "leaf" else results[x.value[0]][x.value[1]] if x.kind == "result" else x.value

        tree = torch.utils._pytree
        for function, args, kwargs, stops in self.steps:
            args, kwargs = tree.tree_map(place, (args, kwargs), is_leaf=lambda x: isinstance(x, Source))
            if isinstance(stops, Error) and torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in tree.tree_leaves((args, kwargs))):
                raise stops.again()
            with torch.set_grad_enabled(torch.is_grad_enabled() and not stops):
                results.append(tree.tree_leaves(function(*args, **kwargs)))
        return [place(source) for source in self.inputs]


class Functions:
    """What is kept for functions of one key."""

    __slots__ = ("programs", "cases", "by_shape", "walked")

    def __init__(self):
        self.programs = {}  # by definition, kind of device, and shapes()
        self.cases = {}  # attention.py's, by layouts, options, and shapes()
        self.by_shape = False
        self.walked = set()  # types of leaves with which the functions are known to `walks`

    def shapes(self, leaves):
        """Those of the leaves, where programs differ by them."""
        return [leaf.shape for leaf in leaves] if self.by_shape else ()


_functions = {}  # by key
walks = _core.Walks()  # to the cases of Functions, where what they depend on can be looked up as before
_ROOTS = ((None, "root", 0), (None, "root", 1))  # score_mod, mask_mod


def functions(score_mod, mask_mod):
    """The Functions of both, and their leaves."""
    reads, key = _read(score_mod, mask_mod)
    known = _functions.get(key)
    if known is None:
        return Functions(), reads.leaves
    kinds = tuple([type(leaf) for leaf in reads.leaves])
    if kinds not in known.walked and not known.by_shape:
        known.walked.add(kinds)
        steps = reads.walk()
        if steps is not None:
            walks.add(score_mod, mask_mod, steps, known.cases)
    return known, reads.leaves


def program(score_mod, mask_mod, definition, device):
    """The Program of the functions."""
    known, leaves = functions(score_mod, mask_mod)
    return known.programs.get((definition, device.type, *known.shapes(leaves))) or _added(score_mod, mask_mod, definition, device)


def _added(score_mod, mask_mod, definition, device):
    reads, key = _read(score_mod, mask_mod)
    found = _traced(score_mod, mask_mod, reads, definition, device)
    found.lasting &= reads.is_certain
    if found.lasting:
        found.held = (score_mod, mask_mod, reads)  # what the key knows by its id stays
        known = kept(_functions, key, Functions())
        known.by_shape |= found.by_shape
        kept(known.programs, (definition, device.type, *known.shapes(reads.leaves)), found)
    return found


def _read(score_mod, mask_mod):
    """The Reads of both, and their key."""
    reads = Reads()
    return reads, (reads.key(score_mod, _ROOTS[0]), reads.key(mask_mod, _ROOTS[1]))


def _traced(score_mod, mask_mod, reads, definition, device):
    trace = Trace(reads.leaves, reads.names(), device)
    has_blocks = definition.block_size is not None
    hides = definition.attn_mask is torch.bool
    adds_bias = definition.attn_mask is not None and not hides
    attn_mask = ex.tensor("attn_mask", CAPTURED[definition.attn_mask], 4) if hides or adds_bias else None
    own = [name for name, has in zip(OWN, (has_blocks, hides or adds_bias, definition.sink)) if has]
    of_score = []

    def score(s, b, h, q, k):
        if adds_bias:
            return s + attn_mask[b, h, q, k]
        result = trace(score_mod, (s, b, h, q, k), "score_mod")
        of_score.extend([read.name for read in trace.reads.values()])
        return result if result.dtype == "f32" else cast(result, "f32")

    def mask(b, h, q, k):
        result = as_expr(attn_mask[b, h, q, k] if hides else True)
        if mask_mod is not None:
            result = trace(mask_mod, (b, h, q, k), "mask_mod")
            if result.dtype != "bool":
                fail(f"mask_mod returns {result.dtype}, but must return bool; compare it, for example x != 0", line_of(mask_mod))
        if not has_blocks:
            return result
        rows, columns = definition.block_size
        of_all = definition.shared
        block = ex.tensor("blocks", "i32", 4)[0 if of_all[0] else b, 0 if of_all[1] else h, q // rows, k // columns]
        return (block == 2) | ((block == 1) & result)

    for traced, function in ((score, score_mod), (mask, mask_mod)):
        if function is not None:
            functools.update_wrapper(traced, function, assigned=("__name__",), updated=())
    variant = Variant(score if score_mod is not None or adds_bias else None, mask if mask_mod is not None or has_blocks or hides else None, scale=definition.scale,
                      sink=ex.tensor("sink", "f32", 1) if definition.sink else None, dropout=0.0 if definition.dropout else None,
                      normaliser=definition.normaliser)
    if trace.exact:
        variant._core.precise()
    return Program(variant, trace, of_score, {name: Source("leaf", len(reads.leaves) + i) for i, name in enumerate(own)},
                   reads.leaves)


# Under torch.compile -----------------------------------------------------
# Dynamo cannot follow the tracing of a function, which is a constant of its graph. It does follow the way from the function to the tensors and
# numbers that it reads: the tensors become inputs of the graph, the numbers guards of it.


class Recipe(typing.NamedTuple):
    """A Program without Python objects. `reads` say how its leaves are reached, `again` how once more, with their indices, `values` the numbers and texts,
    with what they were: steps (kind, name), the first ("root", 0) for score_mod or 1 for mask_mod. `inputs` are indices of the leaves, and after them of `own`."""

    text: str
    names: tuple
    learnable: tuple
    inputs: tuple
    reads: tuple
    again: tuple
    values: tuple
    refused: str
    are_leaves: bool = False
    stopped: dict = None

    def captured(self, leaves):
        return [leaves[i] for i in self.inputs]


def _recipe(score_mod, mask_mod, definition, device):
    reads = _read(score_mod, mask_mod)[0]
    found = _traced(score_mod, mask_mod, reads, Definition(*definition), torch.device(device))
    refused = ""
    if found.steps or found.by_shape or found.stopped or not found.lasting or not reads.is_certain:
        refused = ("score_mod or mask_mod computes of whole tensors or of their shapes, makes tensors of its own, stops gradients, or reads what only running it "
                   "tells, which attune follows outside of torch.compile alone")
    values = [(_steps(place), value) for place, value in reads.values if place[0] is not None and isinstance(value, (bool, int, float, str, type(None), torch.dtype))]
    inputs = tuple([source.value if source.kind == "leaf" else -1 for source in found.inputs])
    again = tuple([(_steps(place), index) for place, index in reads.again])
    return tuple(Recipe(found.text, found.names, found.learnable, inputs, tuple([_steps(place) for place in reads.places]), again, tuple(values), refused))


_recipe._dynamo_marked_constant = True  # as torch.compiler.assume_constant_result does, which would import Dynamo


def _steps(place):
    if place is None:
        return ()
    parent, kind, name = place
    kind, _, index = kind.partition(" ")
    return (*_steps(parent), (kind, int(index) if index else name))


def _reached(roots, steps):
    value = roots[steps[0][1]]
    for kind, name in steps[1:]:
        if kind == "cell":
            value = value.__closure__[name].cell_contents
        elif kind == "global":
            value = value.__globals__[name]
        elif kind == "default":
            value = value.__defaults__[name]
        elif kind == "keyword":
            value = value.__kwdefaults__[name]
        elif kind == "item":
            value = value[name]
        else:
            value = getattr(value, name)
    return value


def recorded_program(score_mod, mask_mod, definition, device):
    """The Recipe, and the leaves of the functions, in a graph that Dynamo records. None where Dynamo cannot follow the functions: the graph breaks there, and
    the caller computes outside of Dynamo."""
    for function in (score_mod, mask_mod):
        if function is not None and not isinstance(function, types.FunctionType):
            torch._dynamo.graph_break("score_mod and mask_mod must be plain functions inside of torch.compile; wrap methods, modules and partial objects in one")
            return None
        if function is not None and function.__closure__:
            function.__closure__[0].cell_contents  # of a function that the graph itself makes Dynamo breaks the graph here
    recipe = Recipe(*_recipe(score_mod, mask_mod, tuple(definition), device))
    if recipe.refused:
        torch._dynamo.graph_break(recipe.refused)
        return None
    roots = (score_mod, mask_mod)
    for steps, value in recipe.values:
        if _reached(roots, steps) != value:  # a guard
            raise AssertionError("a number that score_mod or mask_mod reads changed while it was traced")
    leaves = [_reached(roots, steps) for steps in recipe.reads]
    for steps, index in recipe.again:
        if _reached(roots, steps) is not leaves[index]:  # a guard, too
            raise AssertionError("a tensor that score_mod or mask_mod reads twice changed while it was traced")
    return recipe, leaves
