"""PyTorch functions as attune's expressions.

A function is called once with scalar tensors that hold expressions. A function mode sees what never becomes an operation (indexing by a scalar
tensor, reads of a shape, `if`), a dispatch mode the ATen operations; both know the real tensors that the function reads. What PyTorch computes
from those alone is recorded, and computed by PyTorch again in each call.
"""
import itertools
import sys
import typing

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .. import expressions as ex
from ..errors import Error
from ..expressions import Expr, as_expr, cast, fail, tensor_name, where
from ..variant import line_of
from . import vectors
from .aten import OPERATIONS, SEARCHES
from .kinds import check_kind
from .numbers import Number, is_number, kind_of, plain
from .ops import is_extent
from .vectors import Vector, check_size, is_vector

DTYPES = {"f32": torch.float32, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool}
# What captured tensors are read as where that is another dtype: integers as they are, and float64 rounded, as scores are float32.
CONVERTED = {torch.uint8: torch.int32, torch.int8: torch.int32, torch.int16: torch.int32, torch.float64: torch.float32}
_NARROW = {torch.uint8: lambda x: x & 255, torch.int8: lambda x: x << 24 >> 24, torch.int16: lambda x: x << 16 >> 16}  # how they wrap
_MOST_DIMS = 4
CAPTURED = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool"}



class Own(typing.NamedTuple):
    """Tensors that arguments give, by the names that their captured tensors have; None of what is not given."""

    blocks: torch.Tensor = None
    attn_mask: torch.Tensor = None
    sink: torch.Tensor = None
    key_lengths: torch.Tensor = None
    query_lengths: torch.Tensor = None
    first_queries: torch.Tensor = None  # of packed sequences
    first_keys: torch.Tensor = None  # None where keys are in pages
    block_table: torch.Tensor = None


_SCALARS = {"i64": "i64", "f32": "f32"}  # by a number's kind


class Traced(torch.Tensor):
    """A scalar tensor with an expression, a Vector of some, or a tensor that the function reads, of which some indices are given. `carries` is what its
    derivative leads to: "s" for the score, names of captured tensors, and a Stopped where it would lead there."""

    @staticmethod
    def __new__(cls, shape, dtype, device, **_):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)

    def __init__(self, shape, dtype, device, expr=None, read=None, indices=(), vector=None):
        self.expr = expr
        self.vector = vector
        self.read = read
        self.indices = indices
        self.carries = frozenset()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        fail(f"{func} meets a traced scalar outside of the function that attune traces; keep what score_mod and mask_mod compute inside of them")

    def __repr__(self, **_):
        if self.expr is not None:
            return f"<traced {self.expr!r}>"
        return f"<traced part of {self.read.name}>" if self.read is not None else f"<traced vector of shape {list(self.shape)}>"


class Source(typing.NamedTuple):
    """Where a tensor is found in each call: "leaf" i of the function's variables, the output (step, i) of a step, or "held", the tensor itself; or
    "read" (Source, dtype, number of first dimensions that are one) of how it is read where that is not as it is."""

    kind: str
    value: object


def read_as(tensor, dtype, joined):
    """The tensor as expressions read it: of another dtype, and of its first `joined` dimensions one."""
    return tensor.to(dtype).flatten(0, joined - 1)


class Stopped(typing.NamedTuple):
    """A derivative by `name` that an operation stops, which attune's expressions cannot; the error is raised where it is asked for."""

    name: str
    error: Error


def _stopping_error(what):
    function = _function_that_runs()
    if function is not None:
        return Error(f"{what} is in torch.autograd.Function \"{function.__name__}\", whose backward attune does not follow; write its formula in the score "
                     "itself, or call it outside and index the result")
    return Error(f"{what} stops the gradient inside of a score, which attune cannot; detach the tensors that the function reads outside of it, "
                 "or call under torch.no_grad() where no gradient is wanted")


def _forwards():
    """The classes that have torch.autograd.Function.forward overridden, by its code."""
    found, open_classes = {}, [torch.autograd.Function]
    while open_classes:
        cls = open_classes.pop()
        open_classes += cls.__subclasses__()
        forward = getattr(cls.__dict__.get("forward"), "__func__", None)
        if hasattr(forward, "__code__"):
            found[forward.__code__] = cls
    return found


def _function_that_runs():
    """The torch.autograd.Function of the score whose forward runs, without gradients as under torch.no_grad(); None where there is none."""
    forwards = _forwards()
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not Trace.__call__.__code__:
        if frame.f_code in forwards:
            return forwards[frame.f_code]
        frame = frame.f_back
    return None


class Read:
    """A real tensor that expressions read. `sizes` are those of the first dimensions, which are read as one."""

    def __init__(self, name, tensor, source):
        self.name = name
        self.tensor = tensor
        self.sizes = tensor.shape[:max(1, tensor.dim() - _MOST_DIMS + 1)]
        dtype = CONVERTED.get(tensor.dtype, tensor.dtype)
        as_it_is = dtype == tensor.dtype and len(self.sizes) <= 1
        self.source = source if as_it_is else Source("read", (source, dtype, max(1, len(self.sizes))))
        self.declared = None

    def declare(self):
        """The tensor that expressions read."""
        if self.declared is None:
            dtype = CAPTURED.get(CONVERTED.get(self.tensor.dtype, self.tensor.dtype))
            if dtype is None:
                fail(f"tensor \"{self.name}\" is {self.tensor.dtype}, but captured tensors are float32, float16, bfloat16, float64, int8, int16, int32, int64, uint8 or bool; "
                     "convert it")
            self.declared = ex.tensor(self.name, dtype, min(max(1, self.tensor.dim()), _MOST_DIMS))  # a scalar is passed as a vector of one element
        return self.declared

    def element(self, indices):
        """An element, where PyTorch's negative indices count from the end. `indices` are expressions or Python's integers."""
        self.declare()
        if not indices:
            return self.declared[0]
        wrapped, known = [], True
        indices = [as_expr(index) for index in indices]
        if len(self.sizes) > 1:
            indices = [self._joined(indices[:len(self.sizes)]), *indices[len(self.sizes):]]
        for dim, index in enumerate(indices):
            self._check_index(index)
            if not index.nonnegative:
                known = False
                index = where(index < 0, index + ex.scalar(f"{self.name}_size{dim}", "i32"), index)
            wrapped.append(index)
        element = self.declared[tuple(wrapped)]
        return element if known else Expr(ex.clamped(element).node)

    def _joined(self, indices):
        """The index along the first dimensions as one, of each of which the nearest element is meant where an index lies outside."""
        place = 0
        for index, size in zip(indices, self.sizes):
            self._check_index(index)
            index = index if index.nonnegative else where(index < 0, index + size, index)
            place = place * size + ex.minimum(ex.maximum(index, 0), max(size - 1, 0))
        return Expr(place.node, True)

    def _check_index(self, index):
        if index.dtype not in ("i32", "i64"):
            fail(f"tensor \"{self.name}\" is indexed by {index.dtype}, but indices are integers; write .to(torch.int32)")


class Trace:
    """What tracing found beside expressions: the tensors that are read, and what PyTorch computes of them in each call; the same of numbers."""

    def __init__(self, leaves, names, device, number_names=(), variable=frozenset()):
        self.device = device
        self.leaves = {id(leaf): (index, leaf) for index, leaf in reversed(list(enumerate(leaves)))}
        self.names = names
        self.steps = []  # (function, arguments, keywords, whether gradients stop there, or the Error of one), whose tensors are Sources
        self.results = {}  # by id: the Source of what a step gave, and the tensor
        self.constants = {}  # by id: tensors that the function makes of numbers
        self.foreign = {}  # by id: tensors that none of the function's variables leads to
        self.reads = {}  # by id: Read
        self.exact = False  # a whole number is taken of a float
        self.by_shape = False  # a Python number may have come of a tensor's shape
        self.stopped = {}  # by "s" or a captured tensor's name: the Error of a score that stops its derivative
        self.number_names = number_names
        self.number_steps = []  # (function, sources of its operands, type and kind of its result)
        self.scalars = {}  # by a Number's source: its name and expression
        self.constant_numbers = set()  # indices of those that kernels are compiled for
        self.preferred = set()  # the same of those that might be scalars, of which kernels are slower
        self.variable = variable  # indices of those that are not to be preferred

    # Tensors -------------------------------------------------------------

    def source(self, tensor):
        if id(tensor) in self.results:
            return self.results[id(tensor)][0]
        if id(tensor) in self.leaves:
            return Source("leaf", self.leaves[id(tensor)][0])
        if id(tensor) not in self.constants:
            self.foreign[id(tensor)] = tensor
        return Source("held", tensor)

    def read(self, tensor):
        if id(tensor) not in self.reads:
            source = self.source(tensor)
            name = self.names[source.value] if source.kind == "leaf" else "computed"
            check_kind(tensor, f"captured tensor \"{name}\"")
            self.reads[id(tensor)] = Read(self.named(name), tensor, source)
            self.by_shape |= tensor.dim() > _MOST_DIMS
        return self.reads[id(tensor)]

    def whole_vector(self, func, vector):
        """The Read of a vector that an operation takes as a whole."""
        if isinstance(vector, Traced) or vector.dim() != 1 or id(vector) in self.constants:
            fail(f"{func} searches a tensor of rank 1 that the function reads, but got one of shape {list(vector.shape)} that is a part of another, or is made "
                 "in the function; make it outside")
        return self.read(vector)

    def named(self, name):
        """A name that the variant does not have yet."""
        name = tensor_name(name)
        taken = {*Own._fields, *[read.name for read in self.reads.values()], *[known for known, _ in self.scalars.values()]}
        while name in taken or is_extent(name):
            name += "_"
        return name

    # Numbers -------------------------------------------------------------

    def number(self, index, value):
        """The Number in place of the index-th that the functions read."""
        return Number(self, value, ("number", index), frozenset((index,)))

    def scalar(self, number):
        """The run-time scalar of a Number."""
        if number.source not in self.scalars:
            kind, index = number.source
            name = self.named(self.number_names[index] if kind == "number" else "number")
            self.scalars[number.source] = name, ex.scalar(name, _SCALARS.get(kind_of(number.value), "i32"))
        return self.scalars[number.source][1]

    def without_numbers(self, name, operands, keywords=None):
        """The operands of a function of this name, with what it takes in place of Numbers: (operands, keywords), or the operands alone."""
        tree = torch.utils._pytree
        leaves, structure = tree.tree_flatten((tuple(operands), {} if keywords is None else {key: x for key, x in keywords.items() if key in _OPERANDS}))
        rest = {} if keywords is None else {key: tree.tree_map(plain, x) for key, x in keywords.items() if key not in _OPERANDS}
        name = name.strip("_")
        tensors = [x for x in leaves if not is_number(x) and isinstance(x, Traced)]
        takes = tensors and not any(x.dtype in _NARROW for x in tensors)  # a Python number does not widen narrow integers
        better = name in _BETTER_CONSTANT or rest.get("rounding_mode") is not None

        def replaced(place, x):
            if not is_number(x):
                return self.traced(as_expr(x)) if takes and name in _CLAMPS and type(x) in (int, float) else x
            if not takes or not (better or name in _OF_NUMBERS) or (name == "pow" and place == 1):
                return x.constant()
            if better and not x.bases <= self.variable:
                self.preferred |= x.bases
                return x.value
            return self.traced(x.expr())
        given, named = tree.tree_unflatten([replaced(place, x) for place, x in enumerate(leaves)], structure)
        return given if keywords is None else (given, {**named, **rest})

    def traced(self, expr, dtype=None):
        """The scalar tensor of an expression; `dtype` is that of narrow integers, which are computed as int32."""
        return Traced((), dtype if dtype in _NARROW else DTYPES[expr.dtype], self.device, expr=expr)

    def wrapped(self, result, dtype=None):
        """Of an expression or a Vector."""
        if not isinstance(result, Vector):
            return self.traced(result, dtype)
        return Traced(result.places.shape, dtype if dtype in _NARROW else DTYPES[result.exprs[0].dtype], self.device, vector=result)

    @staticmethod
    def narrow_result(func, args, kwargs):
        """The dtype of the function's result where it has an operand of narrow integers and gives such, as PyTorch finds it, else None."""
        tree = torch.utils._pytree
        if not any(isinstance(x, Traced) and x.dtype in _NARROW for x in tree.tree_leaves((args, kwargs))):
            return None
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            operands = tree.tree_map(lambda x: torch.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, torch.Tensor) else x, (args, kwargs))
            dtype = func(*operands[0], **operands[1]).dtype
        return dtype if dtype in _NARROW else None

    def vector(self, value):
        """The Vector of an operand."""
        if isinstance(value, Traced) and value.vector is not None:
            return value.vector
        if not is_vector(value):
            return Vector.of((), [self.expr(value)])
        if id(value) in self.constants:
            return Vector.of(value.shape, [as_expr(x) for x in value.flatten().tolist()])
        read, before = (value.read, list(value.indices)) if isinstance(value, Traced) else (self.read(value), [None] * value.dim())
        self.by_shape = True  # of another length it is another program
        check_size(value.shape.numel(), f"a part of tensor \"{read.name}\" of shape {list(value.shape)}")
        free = [dim for dim, index in enumerate(before) if index is None]
        exprs = []
        for place in itertools.product(*map(range, value.shape)):
            for dim, index in zip(free, place):
                before[dim] = index
            exprs.append(as_expr(read.element(before)))
        return Vector.of(value.shape, exprs)

    def expr(self, value):
        """The expression of an operand."""
        if is_number(value):
            return value.expr()
        if isinstance(value, Traced):
            if value.expr is None:
                what = f"a part of tensor \"{value.read.name}\"" if value.read is not None else "a vector"
                fail(f"{what} of shape {list(value.shape)} is no scalar; index its other dimensions, too, or add it up")
            return value.expr
        if isinstance(value, torch.Tensor):
            if value.dim():
                fail(f"a tensor of shape {list(value.shape)} is no scalar; index it by b, h, q_idx or kv_idx")
            if id(value) in self.constants:
                return as_expr(value.item())
            return self.read(value).element(())
        return as_expr(value)

    # Modes ---------------------------------------------------------------

    def __call__(self, function, exprs, what):
        """The expression that the function returns for arguments with these expressions."""
        arguments = [self.traced(expr) for expr in exprs]
        if what == "score_mod":
            arguments[0].carries = frozenset("s")
        with torch.enable_grad(), _disable_current_modes(), _Functions(self), _Operations(self):
            result = function(*arguments)
        if result is None:
            fail(f"{what} returns nothing, but must return a scalar tensor; add return", line_of(function))
        if isinstance(result, torch.Tensor) and result.dim():
            fail(f"{what} returns a tensor of shape {list(result.shape)}, but must return a scalar; index it", line_of(function))
        if isinstance(result, Traced):
            self.stopped = {x.name: x.error for x in result.carries if isinstance(x, Stopped)} | self.stopped
        return self.expr(result)

    def real(self, func, args, kwargs):
        """An operation without traced operands: PyTorch's, now and in each call."""
        tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if torch.Tag.nondeterministic_seeded in func.tags:
            fail(f"{func} draws random numbers, which would be the same in each call; draw them outside of the function")
        if func._schema.is_mutable and any(id(x) not in self.constants for x in tensors):
            fail(f"{func} changes a tensor that the function reads; change it outside of the function")
        result = func(*args, **kwargs)
        outputs = torch.utils._pytree.tree_leaves(result)
        if all(id(x) in self.constants for x in tensors):
            self.constants.update((id(x), x) for x in outputs)
            return result
        self.by_shape = True
        place = lambda x: self.source(x) if isinstance(x, torch.Tensor) else x
        stops = not torch.is_grad_enabled() and (_function_that_runs() is None or _stopping_error(func))
        self.steps.append((func, *torch.utils._pytree.tree_map(place, (args, kwargs)), stops))
        for index, x in enumerate(outputs):
            if isinstance(x, torch.Tensor):
                self.results[id(x)] = (Source("result", (len(self.steps) - 1, index)), x)
        return result

    def operation(self, func, args, kwargs):
        operands = torch.utils._pytree.tree_leaves((args, kwargs))
        if not any(isinstance(x, Traced) for x in operands):
            return self.real(func, args, kwargs)
        return self.carrying(self.of_traced(func, args, kwargs), operands, func)

    def carrying(self, result, operands, what):
        """The result of an operation, with what its derivative leads to."""
        if not isinstance(result, Traced) or not result.dtype.is_floating_point:
            return result
        carries = set().union(*[x.carries for x in operands if isinstance(x, Traced)])
        carries |= {self.reads[id(x)].name for x in operands if id(x) in self.reads and x.dtype.is_floating_point}
        if not torch.is_grad_enabled() or what is torch.ops.aten.detach.default:
            error = _stopping_error(what) if carries else None
            carries = {x if isinstance(x, Stopped) else Stopped(x, error) for x in carries}
        result.carries = frozenset(carries)
        return result

    def of_traced(self, func, args, kwargs):
        name = func.overloadpacket.__name__
        if func.namespace != "aten":
            return self.foreign_operation(func, args, kwargs)
        if name == "index":
            return self.index(args[0], args[1])
        if name in SEARCHES:
            return self.traced(SEARCHES[name](self, func, *args, **kwargs))
        changes = func._schema.is_mutable and name.endswith("_")
        handler = OPERATIONS.get(name[:-1] if changes else name)
        narrow = self.narrow_result(func, args, kwargs)
        if not changes and (name in vectors.MOVES or name in vectors.JOINS or any(map(is_vector, torch.utils._pytree.tree_leaves((args, kwargs))))):
            try:
                result = vectors.apply(self, func, name, handler, args, kwargs)
                if narrow is not None and name not in vectors.MOVES:
                    exprs = [_NARROW[narrow](x) for x in (result.exprs if isinstance(result, Vector) else [result])]
                    result = Vector(result.places, exprs) if isinstance(result, Vector) else exprs[0]
                return self.wrapped(result, narrow)
            except (IndexError, RuntimeError, TypeError, ValueError) as error:
                fail(f"{func} cannot take these vectors: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        if handler is None:
            fail(f"{func} is not part of attune's expressions; write it with arithmetic, comparisons, torch.where, exp, log, tanh, sigmoid, sqrt, sin, cos "
                 "and the like, or compute it outside of the function and index the result")
        try:
            expr = handler(self, func, *args, **kwargs)
        except TypeError:
            fail(f"{func} with these arguments is not part of attune's expressions; write it with others")
        expr, *others = expr if isinstance(expr, tuple) else (expr,)
        if narrow is not None:
            expr = _NARROW[narrow](cast(expr, "i32") if expr.dtype == "bool" else expr)
        if others:
            return self.traced(expr, narrow), *map(self.traced, others)
        if not changes:
            return self.traced(expr, narrow)
        if not isinstance(args[0], Traced) or (narrow or DTYPES[expr.dtype]) != args[0].dtype:
            fail(f"{func} would change a {args[0].dtype} tensor to {expr.dtype}; write x = x + y")
        args[0].expr = expr
        return args[0]

    def foreign_operation(self, func, args, kwargs):
        """An operation of another library, where it is made of PyTorch's."""
        for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
            if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key):
                with torch._C.DisableTorchFunction(), _Operations(self):
                    return func._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)
        fail(f"{func} is not part of attune's expressions; write it with PyTorch's scalar operations")

    def indices(self, tensor, given):
        """Those of tensor[given], of which some are Numbers: run-time scalars where the index is of an element."""
        indices = given if isinstance(given, tuple) else (given,)
        is_computed = isinstance(tensor, Traced) and tensor.read is None
        is_element = any(isinstance(x, Traced) for x in (tensor, *indices)) or len(indices) == tensor.dim() and all(type(x) in (int, Number) for x in indices)

        takes = is_element and not is_computed
        return tuple([x if not is_number(x) else self.traced(x.expr()) if takes and type(x.value) is int else x.constant() for x in indices])

    def index(self, tensor, indices):
        """tensor[indices]: integers and traced scalars; others are whole dimensions. Of a vector integers and slices."""
        indices = list(indices) if isinstance(indices, (tuple, list)) else [indices]
        if isinstance(tensor, Traced):
            if tensor.expr is not None and any(index is not None and index is not Ellipsis for index in indices):
                fail("a scalar has no dimension to index")
            is_constant = all(index is None or index is Ellipsis or isinstance(index, (int, slice)) for index in indices)
            if tensor.read is None and not is_constant:
                fail("a vector that was computed takes constant indices; index the tensor that it comes of")
            if tensor.read is None or is_constant and any(index is None or isinstance(index, slice) and index != slice(None) for index in indices):
                vector = self.vector(tensor)
                try:
                    with _disable_current_modes():
                        places = vector.places[tuple(indices)]
                except (IndexError, ValueError) as error:
                    fail(f"a vector of shape {list(tensor.shape)} has no element at {indices}: {error}")
                vectors.check_size(places.numel(), "a part of a vector")
                return self.wrapped(vectors.scalar(Vector(places, vector.exprs)), tensor.dtype)
            read, before = tensor.read, list(tensor.indices)
        else:
            read = self.read(tensor)
            before = [None] * tensor.dim()
        free = [dim for dim, index in enumerate(before) if index is None]
        if any(index is Ellipsis for index in indices):
            at = next(i for i, index in enumerate(indices) if index is Ellipsis)
            indices[at:at + 1] = [slice(None)] * (len(free) - len(indices) + 1)
        if len(indices) > len(free):
            fail(f"tensor \"{read.name}\" takes {len(free)} more indices, but got {len(indices)}")
        for dim, index in zip(free, indices):
            if isinstance(index, slice) and index == slice(None) or index is None and not isinstance(tensor, Traced):
                continue
            if isinstance(index, (slice, bool)) or index is None:
                fail(f"tensor \"{read.name}\" is indexed by {index!r} beside a traced scalar; slice it outside of the function")
            if isinstance(index, torch.Tensor) and not isinstance(index, Traced) and index.dim():
                fail(f"tensor \"{read.name}\" is indexed by a tensor of shape {list(index.shape)}, but indices are scalars")
            expr = self.expr(index)
            before[dim] = cast(expr, "i32") if expr.dtype == "bool" else expr
        if all(index is not None for index in before):
            return self.traced(as_expr(read.element(before)), read.tensor.dtype)
        shape = [size for size, index in zip(read.tensor.shape, before) if index is None]
        return Traced(shape, read.tensor.dtype, self.device, read=read, indices=tuple(before))


# Functions by name, without underlines.
_CLAMPS = frozenset(("clamp", "clip", "clamp_min", "clamp_max"))
_OF_NUMBERS = _CLAMPS | frozenset((
    "add", "radd", "iadd", "sub", "rsub", "isub", "subtract", "mul", "rmul", "imul", "multiply", "div", "truediv", "rtruediv", "rdiv", "itruediv", "divide",
    "true_divide", "lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal", "greater", "greater_equal", "not_equal", "where", "masked_fill"))
# Of which a number is better a constant: what divides integers or picks their bits, and powers.
_BETTER_CONSTANT = frozenset((
    "floordiv", "rfloordiv", "ifloordiv", "floor_divide", "mod", "rmod", "imod", "remainder", "fmod", "pow", "rpow", "and", "rand", "iand", "or", "ror", "ior",
    "xor", "rxor", "ixor", "lshift", "rlshift", "ilshift", "rshift", "rrshift", "irshift", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
    "bitwise_right_shift"))
_OPERANDS = frozenset(("input", "self", "other", "min", "max", "value", "condition"))
_DECIDES = {torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__, torch.Tensor.__index__, torch.Tensor.item, torch.Tensor.tolist,
            torch.Tensor.__contains__, torch.Tensor.numpy}
_SHAPES = {torch.Tensor.shape.__get__, torch.Tensor.size, torch.Tensor.__len__, torch.Tensor.numel, torch.Tensor.nelement, torch.Tensor.stride}


class _Functions(TorchFunctionMode):
    def __init__(self, trace):
        super().__init__()
        self.trace = trace

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if any(map(is_number, torch.utils._pytree.tree_leaves((args, kwargs)))):
            if func is torch.Tensor.__getitem__:
                args = (args[0], self.trace.indices(*args))
            else:
                args, kwargs = self.trace.without_numbers(func.__name__, args, kwargs or {})
        if func is torch.Tensor.__getitem__ and isinstance(args[0], torch.Tensor):
            indices = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
            if isinstance(args[0], Traced) or any(isinstance(index, Traced) for index in indices):
                if not isinstance(args[0], Traced) and any(index is None for index in indices):
                    fail("a tensor is indexed by None beside a traced scalar; index it without, and write .unsqueeze(dim) behind")
                return self.trace.carrying(self.trace.index(args[0], indices), (args[0], *indices), "an index")
        elif func in _DECIDES and any(isinstance(x, Traced) for x in args):
            fail("a traced scalar has no value before the kernel runs, so that if, and, or, not, min, max, a < b < c, int() and .item() cannot read it; "
                 "write (a < b) & (b < c), |, ~, torch.where(condition, a, b), torch.minimum or torch.maximum")
        elif func in _DECIDES and any(isinstance(x, torch.Tensor) and id(x) not in self.trace.constants for x in args):
            fail("a tensor's value would become a constant of the kernel; use the tensor itself, or read the number outside of the function")
        elif func in _SHAPES and (not isinstance(args[0], Traced) or args[0].dim()):
            self.trace.by_shape = True
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __init__(self, trace):
        super().__init__()
        self.trace = trace

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.trace.operation(func, args, kwargs or {})
