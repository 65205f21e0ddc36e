"""A score_mod, a mask_mod and what else makes a variant, traced once for as long as what they depend on stays."""
import functools
import operator
import sys
import types
import typing

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from .. import _core
from .. import expressions as ex
from ..errors import Error
from ..expressions import as_expr, cast, fail
from ..variant import Variant, line_of
from .functions import Reads
from .kinds import is_plain
from .numbers import RANGES, CannotCopy, computed, kind_of
from .ops import is_extent, kept, variants
from .tracing import CAPTURED, Own, Source, Trace, read_as


class Definition(typing.NamedTuple):
    """What a variant is of beside functions."""

    block_size: tuple  # of PyTorch's BlockMask whose blocks count, else None
    shared: tuple  # whether its batches, and its heads, have the same blocks
    attn_mask: torch.dtype  # of the attn_mask of scaled_dot_product_attention, else None
    sink: bool
    lengths: tuple  # the dtypes of key_lengths and query_lengths, or None
    is_packed: bool  # whether first_queries is given, and first_keys where there is no block_table
    page_size: int  # keys of a page where block_table is given, else None
    scale: object  # a float, None: by the head dimension, or RUNTIME
    dropout: bool
    normaliser: object


RUNTIME = "run-time"  # the scale, of which each call gives the value


class Program:
    """A variant, and where the tensors that it reads are found in a call.

    text       the variant as JSON on one line, which names it wherever Python objects cannot go
    names      of the captured tensors, in the variant's order
    learnable  (index, name) of those that a gradient may reach: that the score reads, or that are sinks
    inputs     a Source for each of them
    numbers    the sources of its run-time scalars, as numbers.py's computed() has them
    bases      indices of the numbers of which Python computes others
    lasting    whether it serves other calls
    are_leaves whether the captured tensors are the leaves as they are
    stopped    errors by the name of a captured tensor, "s" for the score, whose derivative the function stops
    """

    def __init__(self, variant, trace, of_score, own, leaves):
        self.text = variant.json().replace("\n", "")  # one line: PyTorch 2.11 copies arguments into comments of the code that it generates
        sources = {read.name: read.source for read in trace.reads.values()} | own
        self.names = tuple([name for name, _, _ in variant.tensors])
        self.learnable = tuple([(i, name) for i, name in enumerate(self.names) if name in of_score or name in ("attn_mask", "sink")])
        self.inputs = [sources[name] for name in self.names]
        self.are_leaves = all(leaf.dim() for leaf in leaves) and self.inputs == [Source("leaf", i) for i in range(len(leaves) + len(own))]
        self.steps = trace.steps
        sources = {name: source for source, (name, _) in trace.scalars.items()}
        self.numbers = [sources[name] for name in scalar_names(variant)]
        self.number_steps = trace.number_steps
        self.bases = {which for _, operands, _, _ in trace.number_steps for kind, which in operands if kind == "number"}
        self.by_shape = trace.by_shape
        self.stopped = trace.stopped
        self.lasting = not trace.foreign
        kept(variants, self.text, variant)

    def scalars(self, numbers):
        """The run-time scalars of a call that reads these numbers; after them the scale."""
        return computed(self.number_steps, self.numbers, numbers) if self.numbers else ()

    def captured(self, leaves):
        """The captured tensors of a call, whose leaves, and after them those of Own, these are."""
        results = []

        def place(x):
            if not isinstance(x, Source):
                return x
            kind, value = x
            if kind == "read":
                return read_as(place(value[0]), *value[1:])
            return leaves[value] if kind == "leaf" else results[value[0]][value[1]] if kind == "result" else value

        tree = torch.utils._pytree
        for function, args, kwargs, stops in self.steps:
            args, kwargs = tree.tree_map(place, (args, kwargs), is_leaf=lambda x: isinstance(x, Source))
            if isinstance(stops, Error) and torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in tree.tree_leaves((args, kwargs))):
                raise stops.again()
            with torch.set_grad_enabled(torch.is_grad_enabled() and not stops):
                results.append(tree.tree_leaves(function(*args, **kwargs)))
        return [place(source) for source in self.inputs]


def scalar_names(variant):
    """Of the scalars that a launch gives, beside extents of captured tensors."""
    return [name for name, _ in variant.scalars if not is_extent(name)]


class Functions:
    """What is kept for functions of one key."""

    __slots__ = ("programs", "cases", "by_shape", "walked", "scales")

    def __init__(self):
        self.programs = {}  # by definition, kind of device, and shapes()
        self.cases = {}  # attention.py's, by layouts, options, and shapes()
        self.by_shape = False
        self.walked = set()  # types of leaves with which the functions are known to `walks`
        self.scales = {}  # by head dimension: the first scale, for which kernels are compiled; others are run-time scalars

    def shapes(self, leaves):
        """Those of the leaves, where programs differ by them."""
        return [leaf.shape for leaf in leaves] if self.by_shape else ()


class _Constants:
    """Which numbers of functions kernels are compiled for."""

    most = 8  # values of a number of which a constant is better than a run-time scalar

    def __init__(self, given=()):
        self._needed = set(given)  # where tracing needs the value
        self._values = {}  # by index: those that were better constants so far
        self.variable = set()  # of which there were too many
        self.indices = tuple(sorted(given))

    def key(self, numbers):
        return tuple([_exactly(numbers[i]) for i in self.indices])

    def begin(self, numbers):
        """Before functions with these numbers are traced."""
        self.variable.update([i for i, values in self._values.items() if len(values) >= self.most and _exactly(numbers[i]) not in values])
        self._update(numbers)

    def add(self, needed, preferred, numbers):
        self._needed |= needed
        for i in preferred:
            self._values.setdefault(i, set())
        self._update(numbers)

    def _update(self, numbers):
        preferred = self._values.keys() - self.variable
        for i in preferred:
            self._values[i].add(_exactly(numbers[i]))
        self.indices = tuple(sorted(self._needed | preferred))


def _exactly(number):
    """Equal where the numbers are the same: a zero has a sign, and NaN is NaN."""
    return number if number and number == number else repr(number)


_functions = {}  # by key
_constants = {}  # _Constants by the key without numbers
walks = _core.Walks()  # to the cases of Functions, where what they depend on can be looked up as before
_ROOTS = ((None, "root", 0), (None, "root", 1))  # score_mod, mask_mod


def functions(score_mod, mask_mod):
    """The Functions of both, and what they read."""
    reads, key = _read(score_mod, mask_mod)
    constants = _constants.get(key)
    known = _functions.get((key, constants.key(reads.numbers))) if constants is not None and reads.is_certain else None
    if known is None:
        return Functions(), reads
    kinds = tuple([type(leaf) for leaf in reads.leaves])
    if kinds not in known.walked and not known.by_shape:
        known.walked.add(kinds)
        steps = reads.walk(constants.indices)
        if steps is not None and is_plain(reads.leaves):
            walks.add(score_mod, mask_mod, steps, known.cases)
    return known, reads


def program(score_mod, mask_mod, definition, device):
    """The Program of the functions."""
    known, reads = functions(score_mod, mask_mod)
    return known.programs.get((definition, device.type, *known.shapes(reads.leaves))) or _added(score_mod, mask_mod, definition, device)


def _added(score_mod, mask_mod, definition, device):
    reads, key = _read(score_mod, mask_mod)
    constants = _constants.get(key) or _Constants(reads.constants())
    constants.begin(reads.numbers)
    found = _traced(score_mod, mask_mod, reads, constants, definition, device)
    found.lasting &= reads.is_certain
    if found.lasting:
        kept(_constants, key, constants)
        known = kept(_functions, (key, constants.key(reads.numbers)), Functions())
        known.by_shape |= found.by_shape
        kept(known.programs, (definition, device.type, *known.shapes(reads.leaves)), found)
    return found


def changed(score_mod, mask_mod, found):
    """After the Program does not serve numbers that Python computes of others, as they have left their type or range."""
    reads, key = _read(score_mod, mask_mod)
    constants = _constants.get(key)
    if constants is not None:
        constants.add(found.bases, (), reads.numbers)


def settings():
    """What of PyTorch's own state a trace depends on."""
    dtype = torch.get_default_dtype()
    if not torch._C._len_torch_function_stack() and not torch._C._is_any_autocast_enabled():
        return dtype
    devices = [mode.device for mode in _get_current_function_mode_stack() if isinstance(mode, DeviceContext)]
    casts = [torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None for kind in ("cpu", "cuda")]
    return (dtype, *devices, *casts)


def _read(score_mod, mask_mod):
    """The Reads of both, and their key."""
    reads = Reads()
    key = (settings(), reads.key(score_mod, _ROOTS[0]), reads.key(mask_mod, _ROOTS[1]))
    reads.is_certain &= all(isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack())
    return reads, key


def _with_numbers(score_mod, mask_mod, reads, constants, trace):
    """Both with Numbers in place of those that are not constants."""
    numbers = {i: trace.number(i, value) for i, value in enumerate(reads.numbers) if i not in constants.indices}
    if not numbers:
        return score_mod, mask_mod
    copies = reads.copies(numbers)
    try:
        return copies.of(score_mod), copies.of(mask_mod)
    except (CannotCopy, TypeError):
        constants.add(numbers.keys(), (), reads.numbers)
        return score_mod, mask_mod


def _traced(score_mod, mask_mod, reads, constants, definition, device):
    trace = Trace(reads.leaves, reads.names(), device, [*reads.number_names(), "scale"], constants.variable)
    with_numbers = _with_numbers(score_mod, mask_mod, reads, constants, trace)
    has_scale = definition.scale == RUNTIME
    has_blocks = definition.block_size is not None
    hides = definition.attn_mask is torch.bool
    adds_bias = definition.attn_mask is not None and not hides
    attn_mask = ex.tensor("attn_mask", CAPTURED[definition.attn_mask], 4) if hides or adds_bias else None
    is_packed = definition.is_packed
    is_paged = definition.page_size is not None
    given = Own(has_blocks, hides or adds_bias, definition.sink, *definition.lengths, is_packed, is_packed and not is_paged, is_paged)
    own = [name for name, has in zip(Own._fields, given) if has]
    of_score = []

    def score(s, b, h, q, k):
        result = s * trace.number(len(reads.numbers), 1.0).expr() if has_scale else s
        if adds_bias:
            result = result + attn_mask[b, h, q, k]
        if score_mod is not None:
            result = trace(with_numbers[0], (result, b, h, q, k), "score_mod")
        of_score.extend([read.name for read in trace.reads.values()])
        return result if result.dtype == "f32" else cast(result, "f32")

    def mask(b, h, q, k):
        result = as_expr(attn_mask[b, h, q, k] if hides else True)
        if mask_mod is not None:
            result = trace(with_numbers[1], (b, h, q, k), "mask_mod")
            if result.dtype != "bool":
                fail(f"mask_mod returns {result.dtype}, but must return bool; compare it, for example x != 0", line_of(mask_mod))
        if has_blocks:
            rows, columns = definition.block_size
            of_all = definition.shared
            block = ex.tensor("blocks", "i32", 4)[0 if of_all[0] else b, 0 if of_all[1] else h, q // rows, k // columns]
            result = (block == 2) | ((block == 1) & result)
        for name, dtype, index in zip(("key_lengths", "query_lengths"), definition.lengths, (k, q)):  # of which the compiler finds that they end what is read
            if dtype is not None:
                result = (index < ex.tensor(name, CAPTURED[dtype], 1)[b]) & result
        return result

    for traced, function in ((score, score_mod), (mask, mask_mod)):
        if function is not None:
            functools.update_wrapper(traced, function, assigned=("__name__",), updated=())
    has_score = score_mod is not None or has_scale or adds_bias
    has_mask = mask_mod is not None or has_blocks or hides or any(definition.lengths)
    variant = Variant(score if has_score else None, mask if has_mask else None, scale=1.0 if has_scale else definition.scale,
                      sink=ex.tensor("sink", "f32", 1) if definition.sink else None, dropout=0.0 if definition.dropout else None,
                      normaliser=definition.normaliser,
                      sequences=_sequences(is_paged) if is_packed else None,
                      key_pages=(ex.tensor("block_table", "i32", 2), definition.page_size) if is_paged else None)
    if is_packed and not is_paged:
        for read in trace.reads.values():
            if variant._core.reads_rows(read.name):  # of which launches check the indices by the rows of all sequences
                fail("packed sequences do not take functions that read tensors at q or k")
    if trace.exact:
        variant._core.precise()
    constants.add(trace.constant_numbers, trace.preferred, reads.numbers)
    return Program(variant, trace, of_score, {name: Source("leaf", len(reads.leaves) + i) for i, name in enumerate(own)},
                   reads.leaves)


def _sequences(is_paged):
    queries = ex.tensor("first_queries", "i32", 1)
    return queries if is_paged else (queries, ex.tensor("first_keys", "i32", 1))


# Under torch.compile -----------------------------------------------------
# Dynamo cannot follow the tracing of a function, which is a constant of its graph. It does follow the way from the function to the tensors and
# numbers that it reads: the tensors become inputs of the graph, the numbers guards of it.


class Recipe(typing.NamedTuple):
    """A Program without Python objects. `reads` say how its leaves are reached, `again` how once more, with their indices, `number_reads` its numbers,
    `values` what counts by value, with what they were: steps (kind, name), the first ("root", 0) for score_mod or 1 for mask_mod. `inputs` are indices
    of the leaves, and after them of those of Own that are given, `read_as` the other arguments of tracing.py's read_as for each, or None;
    `kinds` are those of the numbers, and `number_steps` name functions of the module operator."""

    text: str
    names: tuple
    learnable: tuple
    inputs: tuple
    read_as: tuple
    reads: tuple
    again: tuple
    number_reads: tuple
    kinds: tuple
    number_steps: tuple
    numbers: tuple
    values: tuple
    refused: str
    are_leaves: bool = False
    stopped: dict = None

    def captured(self, leaves):
        return [leaves[i] if how is None else read_as(leaves[i], *how) for i, how in zip(self.inputs, self.read_as)]


def _recipe(score_mod, mask_mod, definition, device):
    reads, key = _read(score_mod, mask_mod)
    constants = kept(_constants, key, _Constants(reads.constants()))
    constants.begin(reads.numbers)
    found = _traced(score_mod, mask_mod, reads, constants, Definition(*definition), torch.device(device))
    refused = ""
    has_others = any(of.kind == "held" for of in found.inputs)
    if found.steps or found.by_shape or found.stopped or has_others or not found.lasting or not reads.is_certain:
        refused = ("score_mod or mask_mod computes of whole tensors or of their shapes, makes tensors of its own, stops gradients, or reads what only running it "
                   "tells, which attune follows outside of torch.compile alone")
    values = [(_steps(place), value) for place, value in reads.values if place[0] is not None and isinstance(value, (bool, int, float, str, type(None), torch.dtype))]
    values += [(_steps(reads.number_places[i]), reads.numbers[i]) for i in constants.indices]
    sources = [of.value if of.kind == "read" else (of,) for of in found.inputs]
    inputs = tuple([of[0].value if of[0].kind == "leaf" else -1 for of in sources])
    again = tuple([(_steps(place), index) for place, index in reads.again])
    run_time = sorted(found.bases | {which for kind, which in found.numbers if kind == "number"})

    def source(kind, which):
        return (kind, run_time.index(which)) if kind == "number" else (kind, which)
    number_steps = tuple([(function.__name__, tuple([source(*operand) for operand in operands]), of) for function, operands, _, of in found.number_steps])
    reached = [i for i in run_time if i < len(reads.numbers)]  # the scale is an argument
    return tuple(Recipe(found.text, found.names, found.learnable, inputs, tuple([of[1:] or None for of in sources]), tuple([_steps(place) for place in reads.places]),
                        again, tuple([_steps(reads.number_places[i]) for i in reached]), tuple([kind_of(reads.numbers[i]) for i in reached]), number_steps,
                        tuple([source(*of) for of in found.numbers]), tuple(values), refused))


_recipe._dynamo_marked_constant = True  # as torch.compiler.assume_constant_result does, which would import Dynamo


def _steps(place):
    if place is None:
        return ()
    parent, kind, name = place
    kind, _, index = kind.partition(" ")
    return (*_steps(parent), (kind, int(index) if index.isdigit() else name))


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
        elif kind in ("item", "argument", "named"):
            value = value[name]
        else:
            value = getattr(value, name)
    return value


def recorded_program(score_mod, mask_mod, definition, scale, device):
    """The Recipe, the leaves of the functions and the run-time scalars, in a graph that Dynamo records. `scale` is one of these where the definition
    says so. None where Dynamo cannot follow the functions: the graph breaks there, and the caller computes outside of Dynamo."""
    given = [of for of in (score_mod, mask_mod) if of is not None]
    if all([isinstance(of, Made) or _CAN_READ_CODE and isinstance(of, types.FunctionType) and _is_outlined(of) for of in given]) and any(
            [isinstance(of, Made) or of.__closure__ is not None for of in given]):
        return outlined_program(score_mod, mask_mod, definition, scale, device)
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
    return recipe, leaves, _recorded_scalars(recipe, roots, scale)


def constant(number):
    """A number that a kernel is compiled for, which torch.compile may hold as a symbol."""
    return torch.fx.experimental.symbolic_shapes.guard_scalar(number) if torch.compiler.is_dynamo_compiling() else number


def graph_number(value, device):
    """A number that graphs of torch.compile need not be recorded again for: a tensor there."""
    return torch.full((), value, dtype=torch.int32, device=device) if torch.compiler.is_dynamo_compiling() else value


class Made(typing.NamedTuple):
    """A score_mod or mask_mod that `make(*values)` gives, of tensors, numbers, truth values and None."""

    make: types.FunctionType
    values: tuple


def made(function):
    """The function of a Made; others as they are."""
    return function.make(*function.values) if isinstance(function, Made) else function


_CAN_READ_CODE = torch.torch_version.TorchVersion(torch.__version__) >= (2, 15)  # of functions that a graph makes
_CONSTANTS = (bool, int, float, str, torch.dtype, type(None))


def _is_outlined(value):
    """Whether _outline describes a function and all that it reads by itself."""
    if not isinstance(value, types.FunctionType):
        return isinstance(value, (torch.Tensor, Made, *_CONSTANTS))
    if value.__kwdefaults__ is not None:
        return False
    return all([_is_outlined(x) for x in value.__defaults__ or ()]) and all([_is_outlined(cell.cell_contents) for cell in value.__closure__ or ()])


def _outline(value, tensors):
    """A function, or what it reads, as constants of a graph; tensors as their place in `tensors`, dtype and rank. Of a function that a graph makes Dynamo
    has the code and what it closes over, but no object."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return ("tensor", len(tensors) - 1, value.dtype, value.dim())
    if isinstance(value, Made):
        return ("made", value.make, tuple([_outline(x, tensors) for x in value.values]))
    if isinstance(value, types.FunctionType) and (value.__closure__ or value.__defaults__):
        defaults = tuple([_outline(x, tensors) for x in value.__defaults__ or ()])
        return ("function", value.__code__, value.__module__, defaults, tuple([_outline(cell.cell_contents, tensors) for cell in value.__closure__ or ()]))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = constant(value)
    return ("constant", value)


def _rebuilt(outline, tensors, device):
    """What an outline describes; tensors of one element take the place of those of the graph, and are put in `tensors` by their index."""
    kind, first, *rest = outline
    if kind == "constant":
        return first
    if kind == "tensor":
        return tensors.setdefault(first, torch.empty((1,) * rest[1], dtype=rest[0], device=device))
    if kind == "made":
        return first(*[_rebuilt(x, tensors, device) for x in rest[0]])
    module, defaults, cells = rest
    return types.FunctionType(first, sys.modules[module].__dict__, first.co_name, tuple([_rebuilt(x, tensors, device) for x in defaults]) or None,
                              tuple([types.CellType(_rebuilt(x, tensors, device)) for x in cells]) or None)


def outlined_program(score_mod, mask_mod, definition, scale, device):
    """recorded_program of functions of which _outline tells all, or which are None."""
    tensors = []
    outlines = [_outline(of, tensors) for of in (score_mod, mask_mod)]
    recipe, leaves, numbers = _outlined_recipe(*outlines, tuple(definition), device)
    recipe = Recipe(*recipe)
    if recipe.refused:
        torch._dynamo.graph_break(recipe.refused)
        return None
    return recipe, [tensors[i] for i in leaves], _scalars(recipe, [*numbers, scale])


def _outlined_recipe(score_mod, mask_mod, definition, device):
    """The fields of the Recipe of two outlines, the index of each leaf among their tensors, and the values of their numbers, constants of the graph."""
    tensors = {}
    functions = [_rebuilt(of, tensors, device) for of in (score_mod, mask_mod)]
    reads, _ = _read(*functions)
    recipe = Recipe(*_recipe(*functions, definition, device))
    indices = tuple([next(i for i, x in tensors.items() if x is leaf) for leaf in reads.leaves]) if not recipe.refused else ()
    return tuple(recipe), indices, tuple([_reached(functions, steps) for steps in recipe.number_reads])


_outlined_recipe._dynamo_marked_constant = True


def _recorded_scalars(recipe, roots, scale):
    numbers = [_reached(roots, steps) for steps in recipe.number_reads]
    for number, kind in zip(numbers, recipe.kinds):
        _check_kind(number, kind)
    return _scalars(recipe, [*numbers, scale])


def _scalars(recipe, numbers):
    results = []
    for name, operands, kind in recipe.number_steps:
        results.append(getattr(operator, name)(*[_recorded_number(operand, numbers, results) for operand in operands]))
        _check_kind(results[-1], kind)
    return [_recorded_number(source, numbers, results) for source in recipe.numbers]


def _recorded_number(source, numbers, results):
    kind, which = source
    return numbers[which] if kind == "number" else results[which] if kind == "step" else which


def _check_kind(number, kind):
    """A guard where Dynamo holds the number as a symbol."""
    if kind in RANGES and not RANGES[kind][0] <= number <= RANGES[kind][1]:
        raise AssertionError("a number that score_mod or mask_mod reads changed while it was traced")
