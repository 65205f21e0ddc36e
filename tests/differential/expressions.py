"""Typed expressions of attune's text form: a random generator, a printer, and an evaluator in NumPy.

Nothing here is made from the compiler's code: the grammar and the typing rules are those of include/attune/Variant.h and Expr.h, the
meaning of the operations that of docs/inside/decisions-numerics.md ("Semantics that the tests hold").

A float is known as an interval. `value` is the float32 that the formula gives with IEEE arithmetic; `low` and `high` (float64) hold every
result that an implementation may have, which may contract, reorder sums and use functions of a few units in the last place. What a
decision makes of such a value (a comparison, a cast to an integer) may not be determined: the element is then `unknown`, and so is all that
follows from it. Integers are exact.
"""
import dataclasses

import numpy as np

F32, I32, I64, BOOL = "f32", "i32", "i64", "bool"
INTEGERS = {I32: np.int32, I64: np.int64}
COORDINATES = ("b", "h", "q", "k")
EXTENTS = ("B", "H", "Sq", "Sk")

# Relative errors that an implementation is granted. Sums and products: contraction and another order of two operands.
ARITHMETIC = 2.0**-22
FUNCTION = 2.0**-20
SMALLEST_NORMAL = 2.0**-126
LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(eq=False)
class Node:
    """An operation of the text form: its operator, function or leaf, and its operands before promotion."""

    op: str
    type: str
    operands: tuple = ()
    payload: object = None  # a literal's value; the name of a leaf or a tensor


# ----------------------------------------------------------------------------------------------------------------------------------
# Printing
# ----------------------------------------------------------------------------------------------------------------------------------

STRENGTH = {"||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<=": 8, ">=": 8, "<": 8, ">": 8, "<<": 9, ">>": 9,
            "+": 10, "-": 10, "*": 11, "/": 11, "%": 11}
LOWEST, UNARY, PRIMARY = 0, 12, 13


class Printer:
    """Text of a graph. `shared` nodes become `let`s; spellings of one meaning alternate by `random`."""

    def __init__(self, random=None, shared=()):
        self.random, self.shared = random, {id(node) for node in shared}
        self.names, self.definitions = {}, []

    def text(self, root):
        body = self.at(root, LOWEST)
        return "".join(self.definitions) + body

    def either(self, first, second):
        return second if self.random and self.random.random() < 0.3 else first

    def at(self, node, strength):
        if id(node) in self.shared and node.operands:
            if id(node) not in self.names:
                text, _ = self.operation(node)
                self.names[id(node)] = f"v{len(self.names)}"
                self.definitions.append(f"let {self.names[id(node)]} = {text}; ")
            return self.names[id(node)]
        text, own = self.operation(node)
        return f"({text})" if own < strength or (self.random and self.random.random() < 0.03) else text

    def operation(self, node):
        op, operands = node.op, node.operands
        if op == "literal":
            text = literal(node)
            return text, UNARY if text.startswith("-") else PRIMARY
        if op == "name":
            return node.payload, PRIMARY
        arguments = lambda: ", ".join(self.at(x, LOWEST) for x in operands)
        if op == "load":
            if not operands:
                return f"{node.payload}()", PRIMARY
            # Indices are drawn of any size: a launch would refuse those that are plain.
            if self.either(0, 1):
                return f"clamped({node.payload}({arguments()}))", PRIMARY
            if self.either(0, 1):
                return f"clamped({node.payload}" + "".join(f"[{self.at(x, LOWEST)}]" for x in operands) + ")", PRIMARY
            return f"clamped({node.payload}[{arguments()}])", PRIMARY
        if op in ("negate", "!", "~"):
            operand = self.at(operands[0], UNARY)
            # -5 is a literal, and - 5 as well.
            if op == "negate" and operands[0].op == "literal":
                operand = f"({operand})"
            return ("-" if op == "negate" else op) + operand, UNARY
        if op in STRENGTH:
            strength = STRENGTH[op]
            return f"{self.at(operands[0], strength)} {op} {self.at(operands[1], strength + 1)}", strength
        if op == "cast":
            text = self.at(operands[0], LOWEST)
            return self.either(f"{node.type}({text})", f"cast({text}, {node.type})"), PRIMARY
        if op == "select" and self.either(0, 1):
            return f"{self.at(operands[0], LOWEST + 1)} ? {self.at(operands[1], LOWEST)} : {self.at(operands[2], LOWEST)}", LOWEST
        return f"{op}({arguments()})", PRIMARY


def literal(node):
    value = node.payload
    if node.type == BOOL:
        return "true" if value else "false"
    if node.type == I32:
        return str(value)
    if node.type == I64:
        return str(value) + ("L" if -2**31 <= value < 2**31 else "")
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = np.format_float_scientific(np.float32(value), unique=True)
    return text if "e" in text else text + "e0"


# ----------------------------------------------------------------------------------------------------------------------------------
# Generating
# ----------------------------------------------------------------------------------------------------------------------------------

FUNCTIONS = ("exp", "exp2", "log", "log2", "tanh", "sin", "cos", "tan", "sqrt", "rsqrt", "sigmoid")
INT_LITERALS = (0, 1, -1, 2, 3, -3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, -64, 100, 128, 2**30, 2**31 - 1, -2**31, -2**31 + 1)
WIDE_LITERALS = INT_LITERALS + (2**31, 2**32, -2**32 - 1, 2**53, 2**63 - 1, -2**63, -2**63 + 1)
FLOAT_LITERALS = (0.0, -0.0, 1.0, -1.0, 0.5, 0.25, -2.0, 3.0, 10.0, 50.0, 0.1, 3.7, 1e-3, 1e5, 1e10, LARGEST, -LARGEST, float("inf"),
                  float("-inf"), float("nan"))


def promoted(a, b):
    """The type of an operation on numbers of types a and b."""
    return F32 if F32 in (a, b) else I64 if I64 in (a, b) else I32


class Generator:
    """Draws expressions of a wanted type over the names of a case: tensors {name: (dtype, rank)} and scalars {name: dtype}."""

    def __init__(self, random, tensors, scalars):
        self.random, self.tensors, self.scalars = random, tensors, scalars
        self.made = {F32: [], I32: [], I64: [], BOOL: []}
        self.with_score = True

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def pick(self, choices):
        return self.random.choice(choices)

    def make(self, type, depth):
        if depth <= 0 or self.chance(6):
            return self.leaf(type, depth)
        if self.made[type] and self.chance(12):
            return self.pick(self.made[type])
        node = {F32: self.real, BOOL: self.condition}.get(type, lambda depth: self.integer(type, depth))(depth - 1)
        if self.with_score or not reads_score(node):
            self.made[type].append(node)
        return node

    def leaf(self, type, depth=0):
        tensors = [name for name, (dtype, _) in self.tensors.items() if value_type(dtype) == type]
        scalars = [name for name, dtype in self.scalars.items() if dtype == type]
        if tensors and depth > -2 and self.chance(30):
            return self.load(self.pick(tensors), depth)
        if scalars and self.chance(25):
            return Node("name", type, payload=self.pick(scalars))
        if type == I32 and self.chance(75):
            return Node("name", I32, payload=self.pick(COORDINATES[2:] * 3 + COORDINATES + EXTENTS))
        if type == I64 and self.chance(40):
            return Node("cast", I64, (self.leaf(I32, -2),))
        if type == F32 and self.with_score and self.chance(60):
            return Node("name", F32, payload="s")
        if type == F32 and self.chance(30):
            return Node("cast", F32, (self.leaf(self.pick((I32, I64, BOOL)), -2),))
        if type == BOOL and self.chance(80):
            return self.affine()
        return self.literal(type)

    def literal(self, type):
        if type == BOOL:
            return Node("literal", BOOL, payload=self.chance(50))
        if type == I32:
            value = self.random.randrange(-2**31, 2**31) if self.chance(10) else self.pick(INT_LITERALS)
        elif type == I64:
            value = self.random.randrange(-2**63, 2**63) if self.chance(10) else self.pick(WIDE_LITERALS)
        else:
            value = self.random.uniform(-8, 8) if self.chance(40) else self.pick(FLOAT_LITERALS)
            value = float(np.float32(value))
        return Node("literal", type, payload=value)

    def load(self, name, depth):
        dtype, rank = self.tensors[name]
        # Mostly plain coordinates, as programs have them, else anything: an index is clamped.
        index = lambda: (self.leaf(I32, -2) if self.chance(70) else self.make(self.pick((I32, I32, I64)), min(depth, 2) - 1))
        return Node("load", value_type(dtype), tuple(index() for _ in range(rank)), name)

    def narrower(self, type):
        """A type that promotion makes `type` beside an operand of `type`."""
        if self.chance(75):
            return type
        return self.pick((F32, I32, I64) if type == F32 else (I32, I64) if type == I64 else (I32,))

    def pair(self, type, depth):
        operands = [self.make(type, depth), self.make(self.narrower(type), depth)]
        self.random.shuffle(operands)
        return tuple(operands)

    def integer(self, type, depth):
        kind = self.random.randrange(10)
        if kind < 6:
            return Node(self.pick(("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "min", "max")), type, self.pair(type, depth))
        if kind == 6:
            return Node(self.pick(("negate", "~", "abs")), type, (self.make(type, depth),))
        if kind == 7:
            return Node("select", type, (self.make(BOOL, depth), *self.pair(type, depth)))
        return Node("cast", type, (self.make(self.pick((F32, I32, I64, BOOL)), depth),))

    def real(self, depth):
        kind = self.random.randrange(12)
        if kind == 11:
            special = Node("literal", F32, payload=float(self.pick(("nan", "inf", "-inf"))))
            return Node("select", F32, (self.make(BOOL, depth), special, self.make(F32, depth)))
        if kind < 5:
            return Node(self.pick(("+", "+", "-", "*", "*", "/", "min", "max")), F32, self.pair(F32, depth))
        if kind == 5:
            return Node(self.pick(("negate", "abs")), F32, (self.make(F32, depth),))
        if kind == 6:
            return Node("select", F32, (self.make(BOOL, depth), *self.pair(F32, depth)))
        if kind == 7:
            return Node("cast", F32, (self.make(self.pick((I32, I64, BOOL)), depth),))
        if kind == 8:
            return Node("pow" if self.chance(50) else "softcap", F32, (self.make(F32, depth), self.make(F32, depth)))
        return Node(self.pick(FUNCTIONS), F32, (self.make(self.narrower(F32), depth),))

    def affine(self):
        """What masks are made of: coordinates with constants, which become loop bounds."""
        coordinate = lambda name: Node("name", I32, payload=name)
        near = lambda: Node("literal", I32, payload=self.random.randint(-40, 40))
        distance = lambda: self.pick((near, near, lambda: self.leaf(I32, -2), lambda: self.literal(I32)))()
        plus = lambda node: Node(self.pick("+-"), I32, (node, distance())) if self.chance(50) else node
        sides = [plus(coordinate("q")), plus(coordinate("k"))]
        if self.chance(30):
            sides = [Node("-", I32, tuple(sides)), distance()]
        elif self.chance(20):
            divisor = Node("literal", I32, payload=self.pick((-7, 0, 1, 3, 16, 48, 64)))
            sides = [Node(self.pick("/%"), I32, (side, divisor)) for side in sides]
        if self.chance(50):
            sides.reverse()
        return Node(self.pick(("<", "<=", ">", ">=", ">=", "==", "!=")), BOOL, tuple(sides))

    def condition(self, depth):
        kind = self.random.randrange(11)
        if kind < 3:
            return Node(self.pick(("&&", "||", "&&", "||", "&", "|", "^", "==", "!=")), BOOL, (self.make(BOOL, depth), self.make(BOOL, depth)))
        if kind == 3:
            return Node("!", BOOL, (self.make(BOOL, depth),))
        if kind == 4:
            return Node("select", BOOL, tuple(self.make(BOOL, depth) for _ in range(3)))
        if kind == 5:
            return Node("cast", BOOL, (self.make(self.pick((F32, I32, I64)), depth),))
        if kind == 6:
            return self.affine()
        if kind == 7:  # whether it is a NaN, for floats
            return Node(self.pick(("==", "!=", "<=")), BOOL, (self.make(F32, depth),) * 2)
        return Node(self.pick(("<", "<=", ">", ">=", "==", "!=")), BOOL, self.pair(self.pick((F32, I32, I32, I64)), depth))

    def scores(self, depth, heads):
        """A score for each head: one compilation shows several expressions."""
        result = self.score(depth)
        for head in range(1, heads):
            self.made = {type: [] for type in self.made}  # those of one head
            this = Node("==", BOOL, (Node("name", I32, payload="h"), Node("literal", I32, payload=head)))
            result = Node("select", F32, (this, self.score(depth), result))
        return result

    def score(self, depth):
        """A score; most of them bounded by min and max, so that rows keep more than one key."""
        self.with_score = True
        number = lambda value: Node("literal", F32, payload=value)
        inner = self.make(self.pick((F32, F32, F32, I32, I64)), depth)
        s = Node("name", F32, payload="s")
        kind = self.random.randrange(8)
        if kind < 5:
            inner = Node("max", F32, (Node("min", F32, (inner, number(8.0))), number(-8.0)))
            if kind < 2:
                inner = Node("+", F32, (s, inner))
        elif kind == 5:
            inner = Node("select", F32, (self.make(BOOL, depth), s, number(float("-inf"))))
        elif kind == 6:
            inner = Node("select", F32, (self.make(BOOL, depth), s, number(self.pick((-LARGEST, -1e4, 1e5)))))
        return inner

    def mask(self, depth):
        self.with_score = False
        self.made = {type: [node for node in nodes if not reads_score(node)] for type, nodes in self.made.items()}
        return self.make(BOOL, depth)


def value_type(dtype):
    return F32 if dtype in ("f16", "bf16") else dtype


def walk(node, seen=None):
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    for operand in node.operands:
        yield from walk(operand, seen)
    yield node


def reads_score(node):
    return any(each.op == "name" and each.payload == "s" for each in walk(node))


# ----------------------------------------------------------------------------------------------------------------------------------
# Evaluating
# ----------------------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Value:
    """What a node is at each (b, h, q, k): integers and bools in `value` alone, floats as an interval."""

    type: str
    value: np.ndarray
    unknown: np.ndarray
    low: np.ndarray = None
    high: np.ndarray = None

    @property
    def exact(self):
        return (self.low == self.high) | np.isnan(self.value)


def exactly(type, value, unknown=False):
    unknown = np.asarray(unknown)
    if type == F32:
        value = np.asarray(value, np.float32)
        wide = value.astype(np.float64)
        return Value(F32, value, unknown, wide, wide)
    return Value(type, np.asarray(value, {BOOL: np.bool_, **INTEGERS}[type]), unknown)


def around(value, low, high, exact, unknown, overflow=False):
    """The float `value`, where `exact` alone, else within [low, high]; what may be infinite or NaN is unknown, unless exact."""
    value = np.asarray(value, np.float32)
    wide = value.astype(np.float64)
    finite = np.isfinite(low) & np.isfinite(high) & np.isfinite(wide) & (np.abs(low) < LARGEST) & (np.abs(high) < LARGEST)
    unknown = unknown | (~exact & ~finite) | overflow
    keep = exact | ~finite
    return Value(F32, value, unknown, np.where(keep, wide, np.minimum(low, wide)), np.where(keep, wide, np.maximum(high, wide)))


class Evaluator:
    """Evaluates nodes over the coordinates of a problem.

    `names` gives the leaves (b, h, q, k, B, H, Sq, Sk, s and the scalars) as Values, `tensors` the captured ones as (dtype, array).
    """

    def __init__(self, names, tensors):
        self.names, self.tensors, self.values = names, tensors, {}

    def __call__(self, node):
        with np.errstate(all="ignore"):
            for each in walk(node):
                if id(each) not in self.values:
                    self.values[id(each)] = (each, self.evaluate(each))  # the node too: an id is unique while it lives
            return self.values[id(node)][1]

    def evaluate(self, node):
        operands = [self.values[id(operand)][1] for operand in node.operands]
        op = node.op
        if op == "literal":
            return exactly(node.type, node.payload)
        if op == "name":
            return self.names[node.payload]
        if op == "load":
            return self.load(node, operands)
        if op == "cast":
            return cast(operands[0], node.type)
        if op in FUNCTIONS:
            return FUNCTION_VALUES[op](cast(operands[0], F32))
        if op == "pow":
            return power(cast(operands[0], F32), cast(operands[1], F32))
        if op == "softcap":
            score, cap = (cast(operand, F32) for operand in operands)
            return FLOAT_BINARY["*"](cap, FUNCTION_VALUES["tanh"](FLOAT_BINARY["/"](score, cap)))
        if op == "select":
            return select(operands[0], *unified(operands[1:]))
        if len(operands) == 1:
            return unary(op, operands[0])
        a, b = unified(operands)
        if op in COMPARISONS and a.type == F32:
            return compare_floats(op, a, b)
        if op in COMPARISONS:
            return exactly(BOOL, COMPARISONS[op](a.value, b.value), a.unknown | b.unknown)
        if a.type == BOOL:
            return logical(op, a, b)
        if a.type == F32:
            return FLOAT_BINARY[op](a, b)
        return exactly(a.type, INTEGER_BINARY[op](a.value, b.value), a.unknown | b.unknown)

    def load(self, node, indices):
        dtype, array = self.tensors[node.payload]
        unknown = np.asarray(False)
        for index in indices:
            unknown = unknown | index.unknown
        inside = tuple(clamped(index.value.astype(np.int64), extent) for index, extent in zip(indices, array.shape))
        return exactly(value_type(dtype), array[inside], unknown)


def clamped(index, extent):
    return np.clip(index, 0, extent - 1)


def unified(operands):
    """Operands of one operation in the type that promotion gives them."""
    types = [operand.type for operand in operands]
    if BOOL in types:
        assert types[0] == types[1]
        return operands
    type = promoted(*types)
    return [cast(operand, type) for operand in operands]


def cast(x, type):
    if x.type == type:
        return x
    if type == BOOL:
        if x.type != F32:
            return exactly(BOOL, x.value != 0, x.unknown)
        spans = (x.low <= 0) & (x.high >= 0) & ~x.exact
        return exactly(BOOL, x.value != 0, x.unknown | spans)
    if x.type == F32:
        low, value, high = (truncated(each, type) for each in (x.low, x.value.astype(np.float64), x.high))
        return exactly(type, value, x.unknown | (~x.exact & (low != high)))
    return exactly(type, x.value.astype(np.float32 if type == F32 else INTEGERS[type]), x.unknown)


def truncated(x, type):
    """Towards zero, saturated at the ends of the type, 0 for NaN."""
    bits = 31 if type == I32 else 63
    inside = np.where(np.abs(x) < 2.0**bits, x, 0).astype(np.int64)
    ends = np.where(x >= 2.0**bits, 2**bits - 1, np.where(x <= -(2.0**bits), -(2**bits), inside))
    return ends.astype(INTEGERS[type])


# --- Integers: NumPy's wrap, too. ---


def quotient(a, b):
    plain = (b != 0) & (b != -1)
    divisor = np.where(plain, b, 1).astype(a.dtype)
    floor = a // divisor
    inexact = floor * divisor != a
    truncating = floor + (inexact & ((a < 0) != (divisor < 0)))
    return np.where(plain, truncating, np.where(b == -1, np.zeros((), a.dtype) - a, 0)).astype(a.dtype)


def shift_count(a, b):
    return b & np.array(8 * a.dtype.itemsize - 1, a.dtype)


INTEGER_BINARY = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": quotient,
    "%": lambda a, b: np.where(b == 0, 0, a - quotient(a, b) * b).astype(a.dtype),  # wraps to 0 for -1
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "min": np.minimum, "max": np.maximum,
    "<<": lambda a, b: np.left_shift(a, shift_count(a, b)),
    ">>": lambda a, b: np.right_shift(a, shift_count(a, b)),
}
COMPARISONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}


def logical(op, a, b):
    value = {"&&": np.logical_and, "&": np.logical_and, "||": np.logical_or, "|": np.logical_or, "^": np.logical_xor}[op](a.value, b.value)
    unknown = a.unknown | b.unknown
    if op in ("&&", "&", "||", "|"):  # one side may decide
        decides = op in ("||", "|")
        unknown = unknown & ~(~a.unknown & (a.value == decides)) & ~(~b.unknown & (b.value == decides))
    return exactly(BOOL, value, unknown)


def unary(op, x):
    if op == "!":
        return exactly(BOOL, ~x.value, x.unknown)
    if op == "~":
        return exactly(x.type, ~x.value, x.unknown)
    if x.type != F32:
        negative = np.zeros((), x.value.dtype) - x.value
        return exactly(x.type, negative if op == "negate" else np.where(x.value < 0, negative, x.value), x.unknown)
    if op == "negate":
        return Value(F32, -x.value, x.unknown, -x.high, -x.low)
    spans = (x.low < 0) & (x.high > 0)
    least = np.where(spans, 0, np.minimum(np.abs(x.low), np.abs(x.high)))
    return Value(F32, np.abs(x.value), x.unknown, least, np.maximum(np.abs(x.low), np.abs(x.high)))


def select(condition, a, b):
    pick = lambda first, second: np.where(condition.value, first, second)
    unknown = condition.unknown | pick(a.unknown, b.unknown)
    if a.type != F32:
        return exactly(a.type, pick(a.value, b.value), unknown)
    return Value(F32, pick(a.value, b.value), unknown, pick(a.low, b.low), pick(a.high, b.high))


def compare_floats(op, a, b):
    decided = (a.exact & b.exact) | (a.high < b.low) | (b.high < a.low)
    return exactly(BOOL, COMPARISONS[op](a.value, b.value), a.unknown | b.unknown | ~decided)


# --- Floats ---


def widened(value, low, high, magnitude, exact, unknown, relative=ARITHMETIC, absolute=0.0, overflow=False):
    slack = magnitude * relative + absolute
    return around(value, low - slack, high + slack, exact, unknown, overflow)


def finite_operands(*operands):
    result = True
    for x in operands:
        result = result & np.isfinite(x.value)
    return result


def binary(operation, corners, magnitude=None):
    """A float operation: `corners` gives its values at the ends of both intervals."""

    def apply(a, b):
        value = operation(a.value, b.value)
        ends = corners(a, b)
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        wide = value.astype(np.float64)
        both = a.exact & b.exact
        # Rounding to float32 changes nothing, or the operands are no finite numbers: nothing that implementations could do otherwise.
        exact = both & ((low == wide) | ~finite_operands(a, b) | ~np.isfinite(wide))
        # A contraction may keep a product or a sum that overflows.
        overflow = finite_operands(a, b) & (np.abs(low) > LARGEST)
        size = np.maximum(np.abs(low), np.abs(high))
        if magnitude:
            size = np.maximum(size, magnitude(a, b))
        return widened(value, low, high, size, exact, a.unknown | b.unknown, absolute=2.0**-148, overflow=overflow & ~np.isnan(wide))

    return apply


def largest(a, b):
    return np.maximum(np.maximum(np.abs(a.low), np.abs(a.high)), np.maximum(np.abs(b.low), np.abs(b.high)))


def outer(operation):
    return lambda a, b: np.broadcast_arrays(operation(a.low, b.low), operation(a.low, b.high), operation(a.high, b.low), operation(a.high, b.high))


def quotient_float(a, b):
    result = binary(np.divide, outer(np.divide))(a, b)
    spans = (b.low <= 0) & (b.high >= 0) & ~b.exact
    zero = (b.value == 0) & b.exact & a.exact
    # x / 0 is an infinity or NaN in every implementation.
    unknown = a.unknown | b.unknown | spans | (~zero & result.unknown) | ((b.value == 0) & ~a.exact)
    return dataclasses.replace(result, unknown=unknown)


def extreme(operation):
    def apply(a, b):
        value = operation(a.value, b.value)
        # Which zero min(-0, 0) gives is left open.
        open_zero = (a.value == 0) & (b.value == 0) & (np.signbit(a.value) != np.signbit(b.value))
        return Value(F32, value, a.unknown | b.unknown | open_zero, operation(a.low, b.low), operation(a.high, b.high))

    return apply


FLOAT_BINARY = {
    "+": binary(np.add, lambda a, b: np.broadcast_arrays(a.low + b.low, a.high + b.high), largest),
    "-": binary(np.subtract, lambda a, b: np.broadcast_arrays(a.low - b.high, a.high - b.low), largest),
    "*": binary(np.multiply, outer(np.multiply)),
    "/": quotient_float,
    "min": extreme(np.fmin),
    "max": extreme(np.fmax),
}


def increasing(function, domain=lambda x: True, absolute=SMALLEST_NORMAL):
    """A function that grows with its argument, on intervals within its domain."""

    def apply(x):
        low, high = function(x.low), function(x.high)
        wide = function(x.value.astype(np.float64))
        value = wide.astype(np.float32)
        # At the ends of the range, and outside the domain, all implementations agree: 0, 1, an infinity, NaN.
        exact = x.exact & (~np.isfinite(x.value) | ~np.isfinite(wide) | (x.value == 0))
        beyond = ~exact & ~np.isnan(low) & (low > 1.01 * LARGEST)  # infinite, however it is rounded
        value = np.where(beyond, np.float32(np.inf), value)
        unknown = x.unknown | (~x.exact & ~domain(x.low))
        size = np.maximum(np.abs(low), np.abs(high))
        return widened(value, low, high, size, exact | beyond, unknown, FUNCTION, absolute)

    return apply


def wave(function):
    def apply(x):
        value = function(x.value.astype(np.float64))
        reach = x.high - x.low + 2.0**-20
        exact = x.exact & ~np.isfinite(x.value)
        return around(value, value - reach, value + reach, exact, x.unknown | (np.isfinite(x.value) & (np.abs(x.value) > 1e4)))

    return apply


def tangent(x):
    value = np.tan(x.value.astype(np.float64))
    reach = (x.high - x.low + np.abs(x.value) * 2.0**-22 + 2.0**-40) * (1 + value * value) * 1.5 + np.abs(value) * FUNCTION
    exact = x.exact & ~np.isfinite(x.value)
    far = np.isfinite(x.value) & ((np.abs(x.value) > 1e4) | (reach > 0.1 + 0.1 * np.abs(value)))
    return around(value, value - reach, value + reach, exact, x.unknown | far)


def reciprocal_root(x):
    function = lambda value: 1 / np.sqrt(value)
    low, high = function(x.high), function(x.low)
    exact = x.exact & (~np.isfinite(x.value) | (x.value <= 0))
    return widened(function(x.value.astype(np.float64)), low, high, high, exact, x.unknown | (~x.exact & ~(x.low > 0)), FUNCTION, SMALLEST_NORMAL)


def power(a, b):
    value = np.power(a.value.astype(np.float64), b.value.astype(np.float64))
    whole = b.exact & (b.value == np.trunc(b.value))
    both = a.exact & b.exact
    special = both & (~np.isfinite(value) | (a.value == 0) | ~finite_operands(a, b) | (value == 1))
    ends = outer(np.power)(a, b)
    low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    # Monotone in both operands only for a positive base.
    unknown = a.unknown | b.unknown | ~(special | (a.low > 0) | (both & whole))
    # |y| log x decides how errors grow.
    growth = 1 + np.abs(b.value * np.log(np.maximum(np.abs(a.value.astype(np.float64)), 1e-300)))
    size = np.maximum(np.abs(low), np.abs(high)) * np.where(np.isfinite(growth), growth, 1)
    result = widened(value, low, high, size, special, unknown, FUNCTION, SMALLEST_NORMAL)
    return dataclasses.replace(result, unknown=result.unknown | (finite_operands(a, b) & (a.value != 0) & (np.abs(value) > 0.99 * LARGEST)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTION_VALUES = {
    "exp": increasing(np.exp),
    "exp2": increasing(np.exp2),
    "log": increasing(np.log, lambda low: low > 0, 2.0**-22),
    "log2": increasing(np.log2, lambda low: low > 0, 2.0**-22),
    "tanh": increasing(np.tanh),
    "sin": wave(np.sin),
    "cos": wave(np.cos),
    "tan": tangent,
    "sqrt": increasing(np.sqrt, lambda low: low > 0),
    "rsqrt": reciprocal_root,
    "sigmoid": increasing(sigmoid),
}
