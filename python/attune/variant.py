"""attune.Variant: Python functions traced into a variant."""
import functools
import inspect
import json
import math
import types

from . import _core
from .errors import Error, public
from .expressions import Element, Expr, Tensor, as_expr, dtype_name, fail, here, is_array, tensor_name

_UNPLACED = ("", 0, 0)


class Normaliser:
    """How the scores of a row become weights, as attune/Normaliser.h describes it, its expressions in attune's text form:

        attune.Normaliser("exp2", statistics={"m": ("max", -math.inf), "l": ("sum", 0)}, base="m == -inf ? 0 : m",
                          rescale="exp2(m - base)", p="exp2(x - base)", divisor="l")

    `tensors` and `scalars` are the attune.tensor(...) and attune.scalar(...) that the expressions read.
    """

    def __init__(self, name, *, p, statistics=None, base="", rescale="", divisor="", lse="", tensors=(), scalars=None):
        number = lambda value: value if math.isfinite(value) else str(value)
        self.definition = {
            "name": name, "p": p,
            "statistics": {key: {"reduce": kind, "initial": number(initial)} for key, (kind, initial) in (statistics or {}).items()},
            **{key: text for key, text in (("base", base), ("rescale", rescale), ("divisor", divisor), ("lse", lse)) if text},
            "tensors": {tensor.name: {"dtype": tensor.dtype, "rank": tensor.rank} for tensor in tensors},
            "scalars": {key: {"dtype": dtype} for key, dtype in (scalars or {}).items()}}
        for empty in ("statistics", "tensors", "scalars"):
            if not self.definition[empty]:
                del self.definition[empty]


class _CapturedArray(Tensor):
    """An array that a function reads: the tensor, and what a call binds to it by default."""

    __slots__ = ("array",)

    def __init__(self, name, array):
        dtype = dtype_name(array.dtype)
        if dtype is None:
            fail(f"captured array \"{name}\" is {array.dtype}, but must be float32, float16, bfloat16, int32, int64 or bool; convert it")
        super().__init__(name, dtype, len(array.shape))
        self.array = array


def captured_tensor(name, value):
    """The tensor that an argument of a built-in means."""
    if isinstance(value, Tensor):
        return value
    if is_array(value):
        return _CapturedArray(name, value)
    fail(f"{name} is of type {type(value).__name__}, but must be an array or attune.tensor(name, dtype, rank)")


class _Captures:
    """Functions whose arrays are tensors. An array has the name of the variable that holds it, as tensor_name gives it."""

    def __init__(self):
        self.tensors = {}  # by name
        self.functions = {}  # by id: the function itself, which keeps the id in use, and its replacement

    def tensor(self, variable, array):
        name = tensor_name(variable)
        while name != variable and name in self.tensors and self.tensors[name].array is not array:
            name += "_"
        known = self.tensors.get(name)
        if known is None:
            known = self.tensors[name] = _CapturedArray(name, array)
        elif known.array is not array:
            fail(f"two captured arrays are called \"{name}\"; give one of the variables another name")
        return known

    def add(self, tensors):
        for tensor in tensors:
            if isinstance(tensor, _CapturedArray):
                if self.tensors.setdefault(tensor.name, tensor).array is not tensor.array:
                    fail(f"two captured arrays are called \"{tensor.name}\"; give one of the variables another name")

    def replaced(self, name, value):
        """What a function reads in place of a variable's value."""
        if is_array(value):
            return self.tensor(name, value)
        return self.function(value)

    def function(self, value):
        self.add(getattr(value, "tensors", ()) if isinstance(value, types.FunctionType) else ())
        if isinstance(value, types.MethodType):
            function = self.function(value.__func__)
            return value if function is value.__func__ else types.MethodType(function, value.__self__)
        if isinstance(value, functools.partial):
            return functools.partial(self.function(value.func), *value.args, **{k: self.replaced(k, v) for k, v in value.keywords.items()})
        if not isinstance(value, types.FunctionType) or (value.__module__ or "").partition(".")[0] == "attune":
            return value
        if id(value) not in self.functions:
            self.functions[id(value)] = (value, value)  # of a function that refers to itself
            self.functions[id(value)] = (value, self._rewritten(value))
        return self.functions[id(value)][1]

    def _rewritten(self, function):
        code = function.__code__
        cells = [(name, cell, self._cell(name, cell)) for name, cell in zip(code.co_freevars, function.__closure__ or ())]
        names = _global_names(code) & function.__globals__.keys()
        changed = {name: self.replaced(name, function.__globals__[name]) for name in names}
        changed = {name: value for name, value in changed.items() if value is not function.__globals__[name]}
        arguments = code.co_varnames[:code.co_argcount]
        defaults = function.__defaults__ or ()
        new_defaults = tuple(self.replaced(name, value) for name, value in zip(arguments[len(arguments) - len(defaults):], defaults))
        if not changed and all(old is new for _, old, new in cells) and all(a is b for a, b in zip(defaults, new_defaults)):
            return function
        scope = {**function.__globals__, **changed} if changed else function.__globals__
        result = types.FunctionType(code, scope, function.__name__, new_defaults or None, tuple(new for _, _, new in cells) or None)
        result.__kwdefaults__ = {k: self.replaced(k, v) for k, v in function.__kwdefaults__.items()} if function.__kwdefaults__ else None
        return result

    def _cell(self, name, cell):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return cell
        replaced = self.replaced(name, value)
        return cell if replaced is value else types.CellType(replaced)


def _global_names(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _functions(given):
    return () if given is None else tuple(given) if isinstance(given, (list, tuple)) else (given,)


def line_of(function):
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return (code.co_filename, code.co_firstlineno, 0) if code else here()


def _result(function, arguments, what):
    if not callable(function):
        fail(f"{what} is of type {type(function).__name__}, but must be a function of ({', '.join(arguments)})")
    try:
        inspected = function.__code__ if isinstance(function, types.FunctionType) else None
        if inspected and not inspected.co_flags & 0x04:
            required = inspected.co_argcount - len(function.__defaults__ or ())
            if not required <= len(arguments) <= inspected.co_argcount:
                fail(f"{what} takes {inspected.co_argcount} arguments, but is called with {len(arguments)}: {', '.join(arguments)}", line_of(function))
        result = function(*arguments.values())
    except RecursionError:
        raise Error(f"{what} calls itself without end; a traced value cannot end it", *line_of(function)) from None
    if result is None:
        fail(f"{what} returns nothing, but must return an expression; add return", line_of(function))
    return result


class Variant:
    """What attention computes. For each batch b, head h, query q and key k:

        s  = scale * <Q[b,h,q,:], K[b,h/group,k,:]>
        s' = score(s, b, h, q, k)
        x  = s' where mask(b, h, q, k), else -inf
        p  = softmax over k of x, or another normaliser
        O[b,h,q,:] = sum over k of dropout(p) * V[b,h/group,k,:]

    score        a function of (s, b, h, q, k) that returns the new score, or a list of them, each of which sees the result of the one before
    mask         a function of (b, h, q, k) that returns whether query q sees key k, or a list of them, which are and-ed
    normaliser   "softmax", "sigmoid", "none" (the score is the weight), or an attune.Normaliser
    sink         softmax's logit in the denominator: float32 [H], an array or attune.tensor(...)
    dropout      the default probability, in [0, 1); that there is dropout is compiled, its probability is a value of each call
    scale        1 / sqrt(head dim) where it is left out
    precise      functions accurate to float32
    q_offset     the q_offset of each call is added to q
    blocks       (pattern, rows, columns): bool [H or 1, ceil(Sq / rows), ceil(Sk / columns)], False hides a block
    key_lengths  int32 [B]: sequence b has so many of the Sk keys, and Sk in functions is its own length
    query_lengths  int32 [B], the same of the rows of q: rows of the results behind them are not written
    sequences    (queries, keys), each int32 [B + 1]: B packed sequences, of which b has the rows of q from queries[b] to queries[b + 1] and those of
                 k and v from keys[b] to keys[b + 1]; q is [1, H, rows, D] then, and positions, Sq and Sk in functions are within the sequence. queries
                 alone: k and v are of a batch, or in pages
    key_pages    (pages, size): int32 [B, N], key k of sequence b lies in row k % size of page pages[b, k / size]; k and v of a call are
                 [pages, Hkv, size, D] (of any strides)
    name         an identifier, which the kernel carries

    Functions are called once, here. They may read numbers and functions as they are, and arrays of their own variables, closure, defaults and
    module: an array becomes a captured tensor of the variable's name, which calls bind to the array unless they are given another by that name. Of a
    variable that expressions know as something else (s, b, h, q, k, B, H, Sq, Sk, true, false, inf, nan, let) it is captured_s and so on.
    Mistakes raise attune.Error at the user's line.
    """

    @public
    def __init__(self, score=None, mask=None, *, normaliser=None, sink=None, dropout=None, scale=None, precise=False, q_offset=False, blocks=None,
                 key_lengths=None, query_lengths=None, sequences=None, key_pages=None, name=None):
        where = here()
        captures = _Captures()
        scores, masks = _functions(score), _functions(mask)
        if name is None:
            name = next((f.__name__ for f in (*scores, *masks) if getattr(f, "__name__", "<lambda>").isidentifier()), "variant")
        self._core = _core.Variant(name, where)
        self.name = name
        arguments = {key: Expr(_core.argument(key), key != "s" and not (key == "q" and q_offset)) for key in "sbhqk"}
        self._trace(scores, masks, arguments, captures)
        for what, number in (("scale", scale), ("dropout", dropout)):
            if number is None:
                continue
            if not isinstance(number, (int, float)) and not hasattr(number, "__float__") or isinstance(number, (bool, Expr)):
                fail(f"{what} is {number!r}, but must be a number", where)
            getattr(self._core, what)(float(number), where)
        if precise:
            self._core.precise()
        if q_offset:
            self._core.q_offset()
        if blocks is not None:
            if not (isinstance(blocks, tuple) and len(blocks) == 3 and all(isinstance(n, int) for n in blocks[1:])):
                fail("blocks must be (pattern, rows, columns): a bool array or attune.tensor(...), and the rows and columns of a block", where)
            pattern, rows, columns = blocks
            pattern = captured_tensor("blocks", pattern)
            captures.add((pattern,))
            self._core.blocks(pattern.declared(), rows, columns, where)
        for what, given in (("key_lengths", key_lengths), ("query_lengths", query_lengths)):
            if given is None:
                continue
            lengths = captured_tensor(what, given)
            captures.add((lengths,))
            getattr(self._core, what)(lengths.declared(), where)
        if sequences is not None:
            if isinstance(sequences, (tuple, list)) and len(sequences) != 2:
                fail("sequences must be (queries, keys), or queries: int32 arrays [B + 1] or attune.tensor(...), where each sequence begins, and the end", where)
            given = sequences if isinstance(sequences, (tuple, list)) else (sequences,)
            bounds = [captured_tensor(what, bound) for what, bound in zip(("first_queries", "first_keys"), given)]
            captures.add(tuple(bounds))
            self._core.sequences(*[each.declared() for each in bounds], where)
        if key_pages is not None:
            if not (isinstance(key_pages, tuple) and len(key_pages) == 2 and isinstance(key_pages[1], int)):
                fail("key_pages must be (pages, size): an int32 array [B, N] or attune.tensor(...), and the keys of a page", where)
            pages = captured_tensor("key_pages", key_pages[0])
            captures.add((pages,))
            self._core.key_pages(pages.declared(), key_pages[1], where)
        self._normalise(normaliser, sink, captures, where)
        used = {tensor for tensor, _, _ in self._core.tensors}
        self.arrays = {key: tensor.array for key, tensor in captures.tensors.items() if key in used}

    @classmethod
    @public
    def from_json(cls, text):
        """The variant of which json() gave the text; calls bind all of its tensors by name."""
        variant = cls.__new__(cls)
        variant._core = _core.Variant.from_json(text)
        variant.name = json.loads(text)["name"]
        variant.arrays = {}
        return variant

    def _trace(self, scores, masks, arguments, captures):
        for function in scores:
            result = as_expr(_result(captures.function(function), arguments, "score"))
            self._core.score(result.node, line_of(function))
            arguments = {**arguments, "s": result}
        coordinates = {key: value for key, value in arguments.items() if key != "s"}
        for function in masks:
            result = as_expr(_result(captures.function(function), coordinates, "mask"))
            self._core.mask(result.node, line_of(function))

    def _normalise(self, normaliser, sink, captures, where):
        if isinstance(normaliser, Normaliser):
            if sink is not None:
                fail("a sink belongs to softmax; write it into the normaliser's divisor", where)
            self._core.definition(json.dumps(normaliser.definition), where)
        elif normaliser is not None or sink is not None:
            if sink is not None:
                sink = captured_tensor("sink", sink)
                if sink.dtype != "f32" or sink.rank != 1:
                    fail(f"sink \"{sink.name}\" is {sink.dtype} of rank {sink.rank}, but must be f32 of rank 1, a logit for each head", where)
                captures.add((sink,))
            self._core.normaliser(normaliser or "softmax", sink.name if sink is not None else "", where)

    @property
    def tensors(self):
        """(name, dtype, rank) of each captured tensor, in order of first use."""
        return self._core.tensors

    @property
    def scalars(self):
        """(name, dtype) of each run-time scalar."""
        return self._core.scalars

    def json(self):
        """The form that the command line takes as a file."""
        return self._core.json()

    def __repr__(self):
        return f"<attune.Variant {self.name}>"
