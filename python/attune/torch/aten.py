"""ATen's operations on scalars as attune's expressions.

Each handler of OPERATIONS takes the trace, the overload and ATen's arguments, and gives an expression. Integers and bools promote as PyTorch's do;
float16 and bfloat16 are computed in float32, as compiled FlexAttention computes them.
"""
import math
import operator

import torch

from .. import expressions as ex
from ..expressions import as_expr, cast, fail, where

NAMES = {torch.float16: "f32", torch.bfloat16: "f32", torch.float32: "f32", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool"}

OPERATIONS = {}


def _operation(*names):
    def register(handler):
        for name in names:
            OPERATIONS[name] = handler
        return handler
    return register


def _number(expr):
    """Of a bool 0 or 1."""
    return cast(expr, "i32") if expr.dtype == "bool" else expr


def _float(expr):
    return expr if expr.dtype == "f32" else cast(expr, "f32")


def _truth(expr):
    return expr if expr.dtype == "bool" else expr != 0


def _alike(a, b):
    """Both of the type that PyTorch promotes them to."""
    order = ("bool", "i32", "i64", "f32")
    dtype = max(a.dtype, b.dtype, key=order.index)
    return tuple(x if x.dtype == dtype else cast(x, dtype) for x in (a, b))


def _arithmetic(function):
    def handler(trace, func, a, b, alpha=1):
        a, b = _number(trace.expr(a)), _number(trace.expr(b))
        trace.exact |= function in _STEPS and not _integers(a, b)
        return function(*_alike(a, b if alpha == 1 else b * alpha))
    return handler


def _unary(function, floating=True, steps=False):
    def handler(trace, func, x):
        x = trace.expr(x)
        trace.exact |= steps and x.dtype == "f32"
        return function(_float(x) if floating else _number(x))
    return handler


def _floats(function, parameters):
    """A function of Functions.def: of as many numbers, which it takes as floats."""
    def handler(trace, func, *operands):
        if len(operands) != parameters:
            fail(f"{func} takes {len(operands)} arguments here, of which attune.{function.__name__} knows {parameters}")
        return function(*(_float(_number(trace.expr(x))) for x in operands))
    return handler


def _comparison(function):
    def handler(trace, func, a, b):
        a, b = trace.expr(a), trace.expr(b)
        if a.dtype == "bool" or b.dtype == "bool":
            a, b = _number(a), _number(b)
        return function(*_alike(a, b))
    return handler


def _logic(function):
    return lambda trace, func, a, b: function(_truth(trace.expr(a)), _truth(trace.expr(b)))


def _bits(function):
    return lambda trace, func, a, b: function(*_alike(trace.expr(a), trace.expr(b)))


def _floor(x):
    """A float beyond 2^23 is whole."""
    whole = cast(cast(x, "i32"), "f32")
    return where(abs(x) < 2.0**23, whole - cast(whole > x, "f32"), x)


def _trunc(x):
    return where(abs(x) < 2.0**23, cast(cast(x, "i32"), "f32"), x)


def _round(x):
    """To the nearest, ties to even: adding 2^23 leaves no bits below one."""
    return x - (x - _floor(x)) + cast((x - _floor(x) > 0.5) | ((x - _floor(x) == 0.5) & (_floor(x) - 2 * _floor(_floor(x) * 0.5) == 1)), "f32")


def _integers(a, b):
    return a.dtype != "f32" and b.dtype != "f32"


def _floor_divide(a, b):
    return a // b if _integers(a, b) else _floor(a / b)


def _remainder(a, b):
    return a % b if _integers(a, b) else a - _floor(a / b) * b


def _fmod(a, b):
    return ex._binary("%", a, b) if _integers(a, b) else a - _trunc(a / b) * b


# Of a quotient that is a little less than a whole number they give the one below.
_STEPS = (_floor_divide, _remainder, _fmod)


def _truncating(a, b):
    return ex._binary("/", a, b) if _integers(a, b) else _trunc(a / b)


for _name, _function in {"add": operator.add, "sub": operator.sub, "subtract": operator.sub, "mul": operator.mul, "multiply": operator.mul,
                         "rsub": lambda a, b: b - a, "floor_divide": _floor_divide, "remainder": _remainder, "fmod": _fmod,
                         "maximum": ex.maximum, "minimum": ex.minimum, "fmax": ex.maximum, "fmin": ex.minimum}.items():
    OPERATIONS[_name] = _arithmetic(_function)
_OWN_ARGUMENTS = ("pow", "gelu", "logsigmoid", "nan_to_num", "softcap")  # below, or none of PyTorch's
for _name, _parameters, _, _ in ex._core.functions():
    if _name not in _OWN_ARGUMENTS:
        OPERATIONS[_name] = _floats(ex.FUNCTIONS[_name], _parameters)
for _name, _meant in {"arctan": "atan", "arctan2": "atan2"}.items():
    OPERATIONS[_name] = OPERATIONS[_meant]
for _name, _function in {"reciprocal": lambda x: 1.0 / x, "expm1": lambda x: ex.exp(x) - 1, "log10": lambda x: ex.log2(x) * math.log10(2),
                         "sinh": lambda x: (ex.exp(x) - ex.exp(-x)) * 0.5, "cosh": lambda x: (ex.exp(x) + ex.exp(-x)) * 0.5,
                         "silu": lambda x: x * ex.sigmoid(x), "erfc": lambda x: 1 - ex.erf(x)}.items():
    OPERATIONS[_name] = _unary(_function)
for _name, _function in {"neg": operator.neg, "abs": abs, "square": lambda x: x * x, "positive": lambda x: x,
                         "relu": lambda x: where(x <= 0, 0, x) if x.dtype == "f32" else ex.maximum(x, 0),
                         "sign": lambda x: cast(x > 0, x.dtype) - cast(x < 0, x.dtype)}.items():
    OPERATIONS[_name] = _unary(_function, floating=False)
for _name, _function in {"floor": _floor, "ceil": lambda x: -_floor(-x), "trunc": _trunc, "round": _round}.items():
    OPERATIONS[_name] = _unary(lambda x, of_float=_function: of_float(x) if x.dtype == "f32" else x, floating=False, steps=True)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    OPERATIONS[_name] = _comparison(getattr(operator, _name))
for _name, _function in {"logical_and": operator.and_, "logical_or": operator.or_, "logical_xor": operator.xor}.items():
    OPERATIONS[_name] = _logic(_function)
for _name, _function in {"bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "bitwise_left_shift": operator.lshift,
                         "bitwise_right_shift": operator.rshift, "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor,
                         "__lshift__": operator.lshift, "__rshift__": operator.rshift}.items():
    OPERATIONS[_name] = _bits(_function)
for _name, _function in {"isnan": lambda x: x != x, "isinf": lambda x: abs(x) == math.inf, "isfinite": lambda x: abs(x) < math.inf}.items():
    OPERATIONS[_name] = _unary(_function)


@_operation("bitwise_not", "logical_not")
def _not(trace, func, x):
    x = trace.expr(x)
    return ~(_truth(x) if func.overloadpacket.__name__ == "logical_not" else x)


@_operation("div", "divide", "true_divide")
def _divide(trace, func, a, b, rounding_mode=None):
    a, b = _number(trace.expr(a)), _number(trace.expr(b))
    if rounding_mode is None:
        return _float(a) / _float(b)
    trace.exact |= not _integers(a, b)
    return (_floor_divide if rounding_mode == "floor" else _truncating)(*_alike(a, b))


@_operation("pow")
def _power(trace, func, a, b):
    base, exponent = _number(trace.expr(a)), _number(trace.expr(b))
    if isinstance(b, (int, float)) and b in (0, 1, 2, 3, 4) and (base.dtype == "f32" or isinstance(b, int)):
        result = base * 0 + 1 if b == 0 else base
        for _ in range(int(b) - 1):
            result = result * base
        return result if not isinstance(b, float) else _float(result)
    if _integers(base, exponent):
        fail("integers are raised to constant powers from 0 to 4 alone; write x.float() ** y")
    if isinstance(b, float) and b == 0.5:
        return ex.sqrt(_float(base))
    return ex.exp2(_float(exponent)) if isinstance(a, (int, float)) and a == 2 else _float(base)**_float(exponent)


@_operation("gelu")
def _gelu(trace, func, x, approximate="none"):
    x = _float(trace.expr(x))
    return 0.5 * x * (1 + ex.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))) if approximate == "tanh" else ex.gelu(x)


@_operation("log_sigmoid_forward")
def _log_sigmoid(trace, func, x):
    """Its second result is a buffer for ATen's own backward pass, which nothing here reads."""
    return ex.logsigmoid(_float(_number(trace.expr(x)))), as_expr(0.0)


@_operation("nan_to_num")
def _nan_to_num(trace, func, x, nan=None, posinf=None, neginf=None):
    x = trace.expr(x)
    if x.dtype != "f32":
        return x
    if nan is None and posinf is None and neginf is None:
        return ex.nan_to_num(x)
    most = 3.40282347e38
    finite = where(x == math.inf, most if posinf is None else posinf, where(x == -math.inf, -most if neginf is None else neginf, x))
    return where(x == x, finite, 0.0 if nan is None else nan)


@_operation("where")
def _where(trace, func, condition, a, b):
    return where(_truth(trace.expr(condition)), *_alike(trace.expr(a), trace.expr(b)))


@_operation("masked_fill")
def _masked_fill(trace, func, x, mask, value):
    return where(_truth(trace.expr(mask)), *_alike(trace.expr(value), trace.expr(x)))


@_operation("leaky_relu")
def _leaky_relu(trace, func, x, negative_slope=0.01):
    x = _float(trace.expr(x))
    return where(x > 0, x, x * negative_slope)


@_operation("elu")
def _elu(trace, func, x, alpha=1, scale=1, input_scale=1):
    x = _float(trace.expr(x))
    return where(x > 0, x * scale, (ex.exp(x * input_scale) - 1) * (alpha * scale))


@_operation("softplus")
def _softplus(trace, func, x, beta=1, threshold=20):
    x = _float(trace.expr(x))
    return where(x * beta > threshold, x, ex.log(1 + ex.exp(x * beta)) * (1 / beta))


@_operation("clamp", "clip", "clamp_min", "clamp_max", "hardtanh")
def _clamp(trace, func, x, low=None, high=None, *, min=None, max=None):
    name = func.overloadpacket.__name__
    if name == "clamp_max":
        low, high = None, low if low is not None else max
    if name == "hardtanh":
        low, high = -1 if low is None else low, 1 if high is None else high
    low, high = low if low is not None else min, high if high is not None else max
    x = _number(trace.expr(x))
    for bound, clamped, beyond in ((low, ex.maximum, operator.lt), (high, ex.minimum, operator.gt)):
        if bound is not None:
            a, limit = _alike(x, _number(trace.expr(bound)))
            # Of floats NaN stays, and the gradient on a bound is that of x.
            x = where(beyond(a, limit), limit, a) if a.dtype == "f32" else clamped(a, limit)
    return x


def _search(trace, func, vector, x, *, out_int32=False, right=False, side=None, sorter=None):
    """torch.searchsorted of a vector that the function reads."""
    if sorter is not None:
        fail(f"{func} takes a sorter, which attune does not; sort the vector outside of the function")
    x, tensor = trace.expr(x), trace.whole_vector(func, vector).declare()
    wanted = tensor.dtype if tensor.dtype in ("i32", "i64") else "f32"
    if wanted == "i64" and x.dtype == "i32":
        x = cast(x, "i64")
    found = ex.searchsorted(tensor, x, right=right or side == "right")
    return found if out_int32 else cast(found, "i64")


def _bucketize(trace, func, x, boundaries, *, out_int32=False, right=False):
    return _search(trace, func, boundaries, x, out_int32=out_int32, right=right)


SEARCHES = {"searchsorted": _search, "bucketize": _bucketize}


@_operation("_to_copy", "to", "type_as")
def _to(trace, func, x, dtype=None, **_):
    x = trace.expr(x)
    if dtype is None:
        return x
    if dtype not in NAMES:
        fail(f"a traced scalar cannot become {dtype}; it may become float32, int32, int64 or bool")
    return _truth(x) if dtype is torch.bool else cast(x, NAMES[dtype]) if x.dtype != NAMES[dtype] else x


@_operation("lift_fresh", "lift_fresh_copy", "detach")
def _same(trace, func, x):
    return trace.expr(x)


@_operation("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
def _full(trace, func, x, *given, dtype=None, **_):
    name = func.overloadpacket.__name__
    shape = given[0] if name.startswith("new") else ()
    if len(shape):
        fail(f"{func} makes a tensor of shape {list(shape)}; score_mod and mask_mod compute with scalars")
    value = 0 if "zeros" in name else 1 if "ones" in name else given[-1]
    dtype = NAMES.get(dtype or x.dtype) or fail(f"a traced scalar cannot be {dtype}; it may be float32, int32, int64 or bool")
    return _truth(as_expr(value)) if dtype == "bool" else as_expr(value) if as_expr(value).dtype == dtype else cast(as_expr(value), dtype)
