"""Ints and floats that a function reads, as run-time scalars of its variant.

A function is traced with a Number in place of each. Where it meets a traced value it is a scalar, of which a new value does not recompile:

    window = 1024                                          # Number 0: window
    def mask_mod(b, h, q_idx, kv_idx):
        return q_idx - kv_idx < window // 2                # scalar of `window // 2`, which Python computes in each call

Python's own arithmetic of numbers stays Python's, with its precision and range. Where the value itself is asked for (a branch, a shape, range(), an
index of a list, a power's exponent) the kernel is compiled for it. So it is for the first few values of what divides integers, takes a
remainder or shifts, as kernels are much quicker with constants there.
"""
import functools
import math
import operator
import types

import torch

from .. import expressions as ex

_SMALL = 1 << 28  # sums of a position and a few such numbers fit in int32, which the analysis of masks relies on
_MOST = torch.finfo(torch.float32).max
# Kinds of integers, the first that has a value being its own; Lookups.cpp has the same.
RANGES = {"count": (0, _SMALL), "offset": (-_SMALL, -1), "i64": (-2**63, 2**63 - 1)}


def kind_of(value):
    """How a number is passed to kernels, each of which serves all numbers of a kind: a key of RANGES, or "f32". None where int64 and float32 cannot
    hold it."""
    if type(value) is float:
        return "f32" if not math.isfinite(value) or abs(value) <= _MOST else None
    return next((kind for kind, (low, high) in RANGES.items() if low <= value <= high), None)


class Changed(Exception):
    """A number that Python computes is of another kind than when its function was traced."""


class Number:
    """`source` is ("number", i) for the i-th that the function reads, ("step", i) for what the i-th step computes; `bases` are the former."""

    __slots__ = ("trace", "value", "source", "bases")
    __array_ufunc__ = None  # NumPy's scalars leave operators to it

    def __init__(self, trace, value, source, bases):
        self.trace = trace
        self.value = value
        self.source = source
        self.bases = bases

    def constant(self):
        """The value, for which the kernel is then compiled."""
        self.trace.constant_numbers |= self.bases
        return self.value

    def expr(self):
        """The scalar. Of its bounds the analysis of masks knows that sums with it do not wrap."""
        scalar = self.trace.scalar(self)
        kind = kind_of(self.value)
        if kind not in ("count", "offset"):
            return scalar
        low = 0 if kind == "count" else -_SMALL
        bounded = ex.minimum(ex.maximum(scalar, low), _SMALL)
        return ex.Expr(bounded.node, kind == "count")

    @property
    def __class__(self):  # isinstance(number, int)
        return type(self.value)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.constant(), name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def is_number(value):
    return type(value) is Number


def plain(value):
    """The value of a Number, for which the kernel is then compiled; others as they are."""
    return value.constant() if is_number(value) else value


def _computed(function, *operands):
    """function(*operands): with a tensor PyTorch's, else a Number that each call computes anew."""
    first = next(x for x in operands if is_number(x))
    trace = first.trace
    if any(isinstance(x, torch.Tensor) for x in operands if not is_number(x)):
        return function(*trace.without_numbers(function.__name__, operands))
    values = [x.value if is_number(x) else x for x in operands]
    if not all(is_number(x) or type(x) in (int, float, bool) for x in operands):
        return function(*[plain(x) for x in operands])
    value = function(*values)
    if type(value) not in (int, float) or kind_of(value) is None:
        return function(*[plain(x) for x in operands])
    trace.number_steps.append((function, tuple([x.source if is_number(x) else ("value", x) for x in operands]), type(value), kind_of(value)))
    return Number(trace, value, ("step", len(trace.number_steps) - 1), frozenset().union(*[x.bases for x in operands if is_number(x)]))


def _compared(function, a, b):
    if any(isinstance(x, torch.Tensor) for x in (a, b) if not is_number(x)):
        return _computed(function, a, b)
    if not all(is_number(x) or isinstance(x, (int, float, complex)) for x in (a, b)):
        return NotImplemented
    return function(plain(a), plain(b))


def _define():
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"):
        function = getattr(operator, name)
        method = name.rstrip("_")
        setattr(Number, f"__{method}__", lambda self, other, function=function: _computed(function, self, other))
        setattr(Number, f"__r{method}__", lambda self, other, function=function: _computed(function, other, self))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(Number, f"__{name}__", lambda self, function=getattr(operator, name): _computed(function, self))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Number, f"__{name}__", lambda self, other, function=getattr(operator, name): _compared(function, self, other))
    for name, function in {"bool": bool, "int": int, "float": float, "complex": complex, "index": operator.index, "round": round, "trunc": math.trunc,
                           "floor": math.floor, "ceil": math.ceil, "hash": hash, "str": str, "repr": repr, "format": format, "divmod": divmod,
                           "rdivmod": lambda value, other: divmod(other, value)}.items():
        setattr(Number, f"__{name}__", lambda self, *others, function=function: function(self.constant(), *others))
    Number.__array__ = lambda self, *args, **kwargs: __import__("numpy").asarray(self.constant(), *args, **kwargs)


_define()


def computed(steps, sources, numbers):
    """The numbers at the sources in a call that reads `numbers`."""
    results = []

    def at(source):
        kind, which = source
        return numbers[which] if kind == "number" else results[which] if kind == "step" else which

    for function, operands, kind, range_kind in steps:
        try:
            value = function(*[at(operand) for operand in operands])
        except ArithmeticError:
            raise Changed from None
        if type(value) is not kind or kind_of(value) != range_kind:
            raise Changed
        results.append(value)
    return [at(source) for source in sources]


# In place of numbers -----------------------------------------------------


class CannotCopy(Exception):
    """What a function reads cannot have Numbers in place of its own."""


class Copies:
    """Functions, and what they read on the way to numbers, with Numbers in place of these.

    `edges` are (owner, kind, name, value, index): the owner has the value there, as a place of functions.py says; `index` is that of a number, else
    None. `numbers` are by index.
    """

    def __init__(self, edges, numbers):
        self._numbers = numbers
        self._edges = {}
        leading = {}  # the owners of a value
        reaching = []
        for owner, kind, name, value, index in edges:
            self._edges.setdefault(id(owner), []).append((kind, name, value, index))
            leading.setdefault(id(value), []).append(id(owner))
            if index in numbers:
                reaching.append(id(owner))
        self._reaching = set()
        while reaching:
            one = reaching.pop()
            if one not in self._reaching:
                self._reaching.add(one)
                reaching += leading.get(one, ())
        self._made = {}
        self._pending = set()

    def of(self, value):
        if id(value) not in self._reaching:
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        if id(value) in self._pending:
            raise CannotCopy  # a tuple, method or partial object that leads to itself
        self._pending.add(id(value))
        return self._copied(value)

    def _parts(self, value):
        """(kind, name, replacement) of what changes."""
        for kind, name, child, index in self._edges.get(id(value), ()):
            if index is not None:
                if index in self._numbers:
                    yield kind, name, self._numbers[index]
            elif id(child) in self._reaching:
                yield kind, name, self.of(child)

    def _copied(self, value):
        kind = type(value)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is list or kind is dict:
            result = self._made[id(value)] = value.copy()
            for _, name, part in self._parts(value):
                result[name] = part
            return result
        if isinstance(value, tuple):
            items = list(value)
            for _, name, part in self._parts(value):
                items[name] = part
            result = kind(items) if kind is tuple else kind._make(items)
        elif kind is types.MethodType:
            result = types.MethodType(self.of(value.__func__), self.of(value.__self__))
        elif kind is functools.partial:
            function, args, keywords = value.func, list(value.args), dict(value.keywords)
            for where, name, part in self._parts(value):
                if where == "attribute":
                    function = part
                else:
                    (args if where == "argument" else keywords)[name] = part
            result = functools.partial(function, *args, **keywords)
        elif kind is types.ModuleType:
            result = types.ModuleType(value.__name__)
            return self._filled(value, result)
        else:
            return self._filled(value, kind() if kind is types.SimpleNamespace else object.__new__(kind))
        self._made[id(value)] = result
        return result

    def _filled(self, value, result):
        self._made[id(value)] = result
        result.__dict__.update(value.__dict__)
        for _, name, part in self._parts(value):
            result.__dict__[name] = part
        return result

    def _function(self, function):
        cells, scope = list(function.__closure__ or ()), dict(function.__globals__)
        indices = [i for i in range(len(cells)) if self._changes(function, f"cell {i}")]
        for i in indices:
            cells[i] = types.CellType()
        result = self._made[id(function)] = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, tuple(cells) or None)
        result.__kwdefaults__ = dict(function.__kwdefaults__) if function.__kwdefaults__ else None
        result.__dict__.update(function.__dict__)
        defaults = list(function.__defaults__ or ())
        for kind, name, part in self._parts(function):
            what, _, number = kind.partition(" ")
            if what == "cell":
                cells[int(number)].cell_contents = part
            elif what == "global":
                scope[name] = part
            elif what == "default":
                defaults[int(number)] = part
            elif what == "keyword":
                result.__kwdefaults__[name] = part
            else:
                result.__dict__[name] = part
        result.__defaults__ = tuple(defaults) or None
        return result

    def _changes(self, owner, kind):
        return any(of == kind and (index in self._numbers if index is not None else id(child) in self._reaching)
                   for of, _, child, index in self._edges.get(id(owner), ()))


def can_have(owner, kind, name):
    """Whether a copy of the owner can have another value there."""
    of = type(owner)
    if of in (types.FunctionType, types.MethodType, functools.partial, list, dict, tuple):
        return True
    if isinstance(owner, tuple):
        return hasattr(of, "_make")
    if of in (types.ModuleType, types.SimpleNamespace):
        return name in owner.__dict__
    if isinstance(owner, type) or of.__new__ is not object.__new__ or any(base.__dict__.get("__slots__") for base in of.__mro__):
        return False
    return name in getattr(owner, "__dict__", ()) and not hasattr(type(getattr(of, name, None)), "__set__")
