"""Traced values: what a score or a mask computes with.

A function of a variant is called once, with values that remember what is done to them. Operators are Python's; where they differ from those of
attune's text and C++ (attune/Expr.h), the difference is translated:

    | Python      | on           | means                                                             |
    |-------------|--------------|-------------------------------------------------------------------|
    | a // b      | integers     | rounds towards minus infinity; by zero 0                          |
    | a % b       | integers     | has the sign of b; by zero 0                                      |
    | a / b       | any numbers  | a float32, of integers too; by zero an infinity or NaN, as floats |
    | a & b, |, ^ | bools        | and, or, either; of integers bitwise                              |
    | ~a          | bools        | not; of integers bitwise                                          |
    | a ** b      | any numbers  | a float32                                                         |

Integers are int32, and wrap; of int64 tensors and literals beyond int32 they are int64.
"""
from . import _core
from .errors import Error, here

_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "bool": "bool", "uint16": "bf16"}


def fail(message, where=()):
    raise Error(message, *where)


def dtype_name(dtype):
    """"f32" of "f32", "float32", numpy.float32, torch.float32; None where attune has no such type."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    text = text.rpartition(".")[2].rstrip("_")
    return text if text in _DTYPES.values() else _DTYPES.get(text)


def tensor_name(variable):
    """What a variable's tensor is called: as the variable, but where expressions have another meaning for its name or cannot spell it."""
    if _core.is_tensor_name(variable):
        return variable
    return "captured_" + "".join(c for c in variable if c.isascii() and (c.isalnum() or c == "_"))


def is_array(value):
    return hasattr(type(value), "__dlpack__") and not isinstance(value, type)


_UFUNCS = {
    "add": "+", "subtract": "-", "multiply": "*", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==",
    "not_equal": "!=", "bitwise_and": "&", "logical_and": "&", "bitwise_or": "|", "logical_or": "|", "bitwise_xor": "^", "left_shift": "<<",
    "right_shift": ">>", "minimum": "min", "maximum": "max", "power": "pow", "absolute": "abs", "negative": "-"}  # and FUNCTIONS


class Operators:
    """The operators of whatever has a value: expressions, and tensors with all their indices."""

    __slots__ = ()
    __hash__ = None

    def __add__(self, other): return _binary("+", self, other)
    def __radd__(self, other): return _binary("+", other, self)
    def __sub__(self, other): return _binary("-", self, other)
    def __rsub__(self, other): return _binary("-", other, self)
    def __mul__(self, other): return _binary("*", self, other)
    def __rmul__(self, other): return _binary("*", other, self)
    def __truediv__(self, other): return _true_divide(self, other)
    def __rtruediv__(self, other): return _true_divide(other, self)
    def __floordiv__(self, other): return _floor_divide(self, other)
    def __rfloordiv__(self, other): return _floor_divide(other, self)
    def __mod__(self, other): return _modulo(self, other)
    def __rmod__(self, other): return _modulo(other, self)
    def __pow__(self, other): return _binary("pow", self, other)
    def __rpow__(self, other): return _binary("pow", other, self)
    def __and__(self, other): return _binary("&", self, other)
    def __rand__(self, other): return _binary("&", other, self)
    def __or__(self, other): return _binary("|", self, other)
    def __ror__(self, other): return _binary("|", other, self)
    def __xor__(self, other): return _binary("^", self, other)
    def __rxor__(self, other): return _binary("^", other, self)
    def __lshift__(self, other): return _binary("<<", self, other)
    def __rlshift__(self, other): return _binary("<<", other, self)
    def __rshift__(self, other): return _binary(">>", self, other)
    def __rrshift__(self, other): return _binary(">>", other, self)
    def __lt__(self, other): return _binary("<", self, other)
    def __le__(self, other): return _binary("<=", self, other)
    def __gt__(self, other): return _binary(">", self, other)
    def __ge__(self, other): return _binary(">=", self, other)
    def __eq__(self, other): return _binary("==", self, other)
    def __ne__(self, other): return _binary("!=", self, other)
    def __neg__(self): return _unary("-", self)
    def __pos__(self): return as_expr(self)
    def __abs__(self): return _unary("abs", self)

    def __invert__(self):
        value = as_expr(self)
        return _unary("!" if value.dtype == "bool" else "~", value)

    def __bool__(self):
        fail("a traced value is neither true nor false before the kernel runs, so that if, and, or, not, min, max and a < b < c cannot decide by "
             "it; write (a < b) & (b < c), |, ~, attune.where(condition, a, b), attune.minimum or attune.maximum")

    def _no_number(self):
        fail("a traced value has no number before the kernel runs; use attune's functions, such as attune.exp(x), and attune.cast(x, \"i32\")")

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = _no_number

    def __array__(self, *_args, **_keywords):
        fail("a traced value cannot become an array, nor index one that attune does not know; index arrays of the function's own variables, "
             "closure or module by it, or attune.tensor(name, dtype, rank)")

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        name = ufunc.__name__
        if method == "__call__" and not keywords:
            if name in ("divide", "true_divide"):
                return _true_divide(*inputs)
            if name == "floor_divide":
                return _floor_divide(*inputs)
            if name in ("remainder", "mod"):
                return _modulo(*inputs)
            if name in ("logical_not", "invert"):
                return ~as_expr(inputs[0])
            if name in _UFUNCS:
                return (_unary if len(inputs) == 1 else _binary)(_UFUNCS[name], *inputs)
        fail(f"numpy.{name} is not part of expressions; use operators and attune's functions")


class Expr(Operators):
    """A traced value. `nonnegative` says that it is known to be at least 0."""

    __slots__ = ("node", "dtype", "nonnegative")

    def __init__(self, node, nonnegative=False):
        self.node = node
        self.dtype = node.type
        self.nonnegative = nonnegative

    def __repr__(self):
        return f"<attune.Expr {self.dtype}: {self.node.text()}>"


class Element(Operators):
    """A tensor with some of its indices given: table[h] on the way to table[h][q]."""

    __slots__ = ("tensor", "indices")
    __iter__ = None

    def __init__(self, tensor, indices):
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, index):
        return self.tensor._at(self.indices + (index if isinstance(index, tuple) else (index,)))

    def value(self):
        tensor = self.tensor
        where = here()
        return Expr(_core.load(tensor.name, tensor.dtype, tensor.rank, [as_expr(index).node for index in self.indices], where))

    def __repr__(self):
        return f"<attune.Element of {self.tensor!r}>"


class Tensor(Element):
    """A tensor that expressions read, and that a call binds by its name: table[h, q] or table[h][q]; of rank 0 the tensor itself."""

    __slots__ = ("name", "dtype", "rank")

    def __init__(self, name, dtype, rank):
        if not isinstance(rank, int):
            fail(f"tensor \"{name}\" has rank {rank!r}, but must have rank 0 to 4; pass the number of its dimensions")
        self.name = name
        self.dtype = dtype_name(dtype) or fail(f"tensor \"{name}\" is {dtype}, but must be f32, f16, bf16, i32, i64 or bool; convert it")
        self.rank = rank
        super().__init__(self, ())

    def _at(self, indices):
        element = Element(self, indices)
        return element.value() if len(indices) >= self.rank else element

    def declared(self):
        return _core.Declared(self.name, self.dtype, self.rank)

    def __repr__(self):
        return f"attune.tensor({self.name!r}, {self.dtype!r}, {self.rank})"


def tensor(name, dtype="f32", rank=1):
    """A tensor that a call binds by its name: attune.tensor("slopes", "f32", 1), then kernel(q, k, v, slopes=array)."""
    return Tensor(name, dtype, rank)


def scalar(name, dtype="f32"):
    """A number that a call binds by its name, f32, i32, i64 or bool; a new value does not recompile."""
    where = here()
    return Expr(_core.scalar(name, dtype_name(dtype) or str(dtype), where))


def as_expr(value):
    """A value that an expression may hold."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Element):
        return value.value()
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    where = here()
    if isinstance(value, bool):
        return Expr(_core.constant_bool(value, where))
    if isinstance(value, int):
        if not -2**63 <= value < 2**63:
            fail(f"constant {value} does not fit in i64; use one from -2**63 to 2**63 - 1", where)
        return Expr(_core.constant(value, where), value >= 0)
    if isinstance(value, float):
        return Expr(_core.constant_f32(value, where), value >= 0)
    if is_array(value):
        fail("an array is no value of an expression; index it, for example slopes[h], or declare it by attune.tensor(name, dtype, rank)", where)
    fail(f"{value!r} is of type {type(value).__name__}, but expressions are made of numbers, bools, attune.tensor and attune.scalar", where)


def _unary(op, x):
    where = here()
    return Expr(_core.unary(op, as_expr(x).node, where))  # abs of the least integer is itself


def _binary(op, a, b):
    a, b = as_expr(a), as_expr(b)
    both, either = a.nonnegative and b.nonnegative, a.nonnegative or b.nonnegative
    nonnegative = both if op in ("min", "&") else either if op == "max" else a.nonnegative and op == ">>"
    return Expr(_core.binary(op, a.node, b.node, here()), nonnegative)


def _is_integer(x):
    return x.dtype in ("i32", "i64")


def _integers(op, a, b):
    a, b = as_expr(a), as_expr(b)
    if not (_is_integer(a) and _is_integer(b)):
        fail(f"operator {op} takes integers, but got {a.dtype} {op} {b.dtype}; convert with attune.cast(x, \"i32\"), which rounds towards zero")
    return a, b


def _remainder(a, b):
    """Truncating remainder, and whether the floor of the quotient is one less."""
    remainder = _binary("%", a, b)
    if a.nonnegative and b.nonnegative:
        return remainder, None
    if b.nonnegative:
        return remainder, remainder < 0
    return remainder, (remainder != 0) & ((remainder < 0) != (b < 0))


def _floor_divide(a, b):
    a, b = _integers("//", a, b)
    below = _remainder(a, b)[1]
    quotient = _binary("/", a, b)
    result = quotient if below is None else quotient - cast(below, "i32")
    return Expr(result.node, a.nonnegative and b.nonnegative)


def _modulo(a, b):
    a, b = _integers("%", a, b)
    remainder, below = _remainder(a, b)
    result = remainder if below is None else where(below, remainder + b, remainder)
    return Expr(result.node, b.nonnegative)


def _true_divide(a, b):
    a, b = as_expr(a), as_expr(b)
    if _is_integer(a) and _is_integer(b):
        a = cast(a, "f32")
    return _binary("/", a, b)


def cast(x, dtype):
    """x as "f32", "i32", "i64" or "bool": floats round towards zero and saturate, NaN gives 0; a bool is x != 0."""
    value = as_expr(x)
    at = here()
    dtype = dtype_name(dtype) or str(dtype)
    keeps_sign = value.dtype != "i64" or dtype == "i64"  # int64 wraps
    return Expr(_core.cast(value.node, dtype, at), value.dtype == "bool" or (value.nonnegative and keeps_sign))


def where(condition, a, b):
    """a where the condition is true, else b."""
    condition, a, b = as_expr(condition), as_expr(a), as_expr(b)
    return Expr(_core.select(condition.node, a.node, b.node, here()), a.nonnegative and b.nonnegative)


select = where


def minimum(a, b): return _binary("min", a, b)
def maximum(a, b): return _binary("max", a, b)


def _function(name, parameters, definition, summary):
    """The Python function of a line of attune/Functions.def."""
    if parameters == 1:
        def function(x): return _unary(name, x)
    elif parameters == 2:
        def function(x, y): return _binary(name, x, y)
    else:
        def function(x, y, z): return Expr(_core.ternary(name, as_expr(x).node, as_expr(y).node, as_expr(z).node, here()))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{summary}; a float32." + (f" It is {definition}." if definition else "")
    return function


# exp, tanh, erf, pow, gelu, softcap, ...: one vocabulary with text and C++.
FUNCTIONS = {line[0]: _function(*line) for line in _core.functions()}
globals().update(FUNCTIONS)
_UFUNCS.update({name: name for name in FUNCTIONS}, arctan="atan", arctan2="atan2")


def searchsorted(vector, x, *, right=False, side=None):
    """The number of elements of a tensor of rank 1 in ascending order that are < x, or with right (side="right") <= x, an int32. x has the type of the
    elements, float32 for float16 and bfloat16; NaN comes after all numbers. Of a tensor in another order it is what bisection finds.

        mask = lambda b, h, q, k: attune.searchsorted(offsets, q, right=True) == attune.searchsorted(offsets, k, right=True)
    """
    at = here()
    if not isinstance(vector, Tensor):
        fail("searchsorted takes a whole tensor, then x: searchsorted(offsets, q), of an array of the function's own variables or attune.tensor(name, dtype)", at)
    if side not in (None, "left", "right") or (side == "left" and right):
        fail(f"side {side!r}{' with right=True' if right else ''} names no side; write side=\"left\" or side=\"right\"", at)
    return Expr(_core.searchsorted(vector.name, vector.dtype, vector.rank, as_expr(x).node, bool(right) or side == "right", at), True)


def clamped(element):
    """An element of a tensor, of which the nearest one is meant wherever an index lies outside: clamped(table[h, q - k + 128])."""
    return _unary("clamped", element)


def broadcast(element):
    """An element of a tensor of which a dimension of extent 1 stands for every index: broadcast(bias[h, q, k])."""
    return _unary("broadcast", element)


def batch_size(): return Expr(_core.extent("B", here()), True)
def head_count(): return Expr(_core.extent("H", here()), True)
def query_length(): return Expr(_core.extent("Sq", here()), True)
def key_length(): return Expr(_core.extent("Sk", here()), True)
