"""Small vectors inside of a score or mask: the rows of a captured tensor, what is computed of them element by element, and their sums.

A vector is a list of expressions and a tensor of places in it, of the vector's shape. What moves elements about (view, unsqueeze, t[1:]) PyTorch
does to the places; arithmetic is done once for each place; a reduction adds up the expressions of a row as a tree.
"""
import math
import operator

import torch

from .. import expressions as ex
from ..expressions import cast, fail, where
from .aten import OPERATIONS, _truth

MOST = 16  # elements: each one is a load, and arithmetic of its own, for every score

MOVES = frozenset(("alias", "clone", "contiguous", "expand", "flatten", "flip", "movedim", "permute", "reshape", "select", "slice", "squeeze", "t",
                   "transpose", "unflatten", "unsqueeze", "view", "_unsafe_view"))
JOINS = frozenset(("stack", "cat", "concat"))


class Vector:
    """exprs[i] for each place i of `places`, an int64 tensor of the vector's shape."""

    __slots__ = ("places", "exprs")

    def __init__(self, places, exprs):
        self.places = places
        self.exprs = exprs

    @staticmethod
    def of(shape, exprs):
        return Vector(torch.arange(len(exprs), device="cpu").reshape(shape), exprs)


def check_size(count, what):
    if count > MOST:
        fail(f"{what} has {count} elements, each of which would be computed for every score; at most {MOST} are. A product of rows belongs to query and key: "
             "concatenate the rows to them (torch.cat, with scale given)")


def is_vector(value):
    return isinstance(value, torch.Tensor) and value.dim() > 0


def apply(trace, func, name, handler, args, kwargs):
    """The Vector, or the expression, of an operation one of whose operands is a vector."""
    if name in MOVES:
        vector = trace.vector(args[0])
        if any(isinstance(x, torch.dtype) for x in (*args[1:], *kwargs.values())):
            fail(f"{func} would read a vector's bits as another dtype, which attune does not; write .to(dtype)")
        places = func(vector.places, *args[1:], **kwargs)
        check_size(places.numel(), f"what {func} gives")
        return scalar(Vector(places, vector.exprs))
    if name in JOINS:
        return _joined(trace, func, *args, **kwargs)
    if name in _REDUCTIONS:
        return _reduced(trace, func, name, *args, **kwargs)
    if name in ("dot", "vdot", "inner"):
        if args[0].shape != args[1].shape:
            fail(f"{func} takes vectors of one length, but got {list(args[0].shape)} and {list(args[1].shape)}")
        product = apply(trace, torch.ops.aten.mul.Tensor, "mul", OPERATIONS["mul"], args, {})
        return _reduced(trace, func, "sum", trace.wrapped(product))
    if handler is None:
        fail(f"{func} takes vectors inside of a score or mask no further; compute it outside of the function and index the result")
    return _by_element(trace, func, handler, args, kwargs)


def scalar(vector):
    """The expression, where there is one alone and no dimension."""
    return vector if vector.places.dim() else vector.exprs[vector.places.item()]


def _by_element(trace, func, handler, args, kwargs):
    leaves, tree = torch.utils._pytree.tree_flatten((args, kwargs))
    vectors = {i: trace.vector(leaf) for i, leaf in enumerate(leaves) if is_vector(leaf)}
    shape = torch.broadcast_shapes(*[vector.places.shape for vector in vectors.values()])
    check_size(math.prod(shape), f"what {func} gives")
    places = {i: vector.places.expand(shape).flatten().tolist() for i, vector in vectors.items()}
    exprs = []
    for element in range(math.prod(shape)):
        operands = [trace.traced(vectors[i].exprs[places[i][element]]) if i in vectors else leaf for i, leaf in enumerate(leaves)]
        arguments, keywords = torch.utils._pytree.tree_unflatten(operands, tree)
        exprs.append(handler(trace, func, *arguments, **keywords))
    return Vector.of(shape, exprs)


def _joined(trace, func, tensors, dim=0):
    vectors, exprs = [], []
    for tensor in tensors:
        vector = trace.vector(tensor)
        vectors.append(vector.places + len(exprs))
        exprs += vector.exprs
    places = func(vectors, dim)
    check_size(places.numel(), f"what {func} gives")
    return Vector(places, exprs)


def _summand(x):
    """Integers and bools add up to int64."""
    return x if x.dtype == "f32" else cast(x, "i64")


def _limit(further, is_float):
    """The greater or lesser of two; of floats NaN stays."""
    def limit(a, b):
        return where((a != a) | further(a, b), a, b) if is_float else where(further(a, b), a, b)
    return limit


# Of an operation what each element becomes, and what joins two of them.
_REDUCTIONS = {"sum": (_summand, operator.add), "prod": (_summand, operator.mul), "mean": (lambda x: x, operator.add),
               "any": (_truth, operator.or_), "all": (_truth, operator.and_), "amax": (lambda x: x, operator.gt), "amin": (lambda x: x, operator.lt),
               "linalg_vector_norm": (lambda x: x * x, operator.add)}


def _reduced(trace, func, name, x, *given, **keywords):
    order = None
    if name == "linalg_vector_norm":
        order, given = (given[0], given[1:]) if given else (keywords.pop("ord", 2), given)
        if order != 2:
            fail(f"{func} of order {order} is not part of attune's expressions; order 2 is")
    dim = given[0] if given else keywords.get("dim")
    keeps = given[1] if len(given) > 1 else keywords.get("keepdim", False)
    vector = trace.vector(x)
    rank = vector.places.dim()
    dims = range(rank) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    if any(not -max(rank, 1) <= d < max(rank, 1) for d in dims):
        fail(f"{func} reduces dimension {dim} of a vector of shape {list(vector.places.shape)}")
    if keywords.get("dtype") is not None:
        fail(f"{func} with a dtype is not part of attune's expressions; convert the vector before, by .to(dtype)")
    if name == "mean" and vector.exprs[0].dtype != "f32":
        fail(f"{func} takes floats; write .float() before")
    dims = [d % rank for d in dims] if rank else []
    kept = [d for d in range(rank) if d not in dims]
    rows = vector.places.permute(*kept, *dims).flatten(len(kept)) if dims else vector.places.unsqueeze(-1)
    element, join = _REDUCTIONS[name]
    if name in ("amax", "amin"):
        join = _limit(join, vector.exprs[0].dtype == "f32")
    if not rows.shape[-1]:
        fail(f"{func} reduces a vector without elements")
    exprs = []
    for row in rows.reshape(-1, rows.shape[-1]).tolist():
        total = _tree([element(vector.exprs[place]) for place in row], join)
        if name == "mean":
            total = total * (1 / len(row))
        exprs.append(_root(total) if order else total)
    result = Vector.of(rows.shape[:-1], exprs)
    if keeps:
        for d in sorted(dims):
            result.places = result.places.unsqueeze(d)
    return scalar(result)


def _root(square):
    """Whose derivative at 0 is 0, as that of a norm is."""
    is_zero = square == 0
    return where(is_zero, 0.0, ex.sqrt(where(is_zero, 1.0, square)))


def _tree(exprs, join):
    while len(exprs) > 1:
        exprs = [join(*exprs[i:i + 2]) if i + 1 < len(exprs) else exprs[i] for i in range(0, len(exprs), 2)]
    return exprs[0]
