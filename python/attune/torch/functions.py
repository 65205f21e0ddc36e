"""What a Python function depends on, so that a trace serves as long as that stays.

The key of a function holds its code, and of what it reads (defaults, closure, globals, attributes that it names, functions that it calls): texts
by value, numbers by their kind (numbers.py), tensors by dtype and rank alone. The tensors themselves are its leaves, found anew in each call, as
are its numbers. Where the code may read what this does not see, the key is not certain, and a trace serves for its call alone. A key keeps none of
what it describes: objects are in it as weak references.
"""
import contextvars
import functools
import hashlib
import sys
import types
import weakref

import torch
from torch.nn.modules import module as torch_module

from .numbers import Copies, can_have, kind_of

_BY_VALUE = (bool, complex, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.Size)
_OPAQUE = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
           torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_LIBRARIES = frozenset(("torch", "numpy", "math", "operator", "functools", "builtins", "attune", "inspect", "enum", "typing", "collections",
                        "contextlib", "dataclasses", "warnings", "itertools", "copy", "re", "weakref"))
# Whose built-in functions give the same for the same arguments.
_PURE = frozenset(("torch", "numpy", "math", "cmath", "_operator", "operator", "_functools", "builtins", "itertools", "_collections"))
_UNSEEN = frozenset(("getattr", "vars", "globals", "locals", "eval", "exec", "__import__", "__dict__", "input", "open"))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_MISSING = object()


def _package(value):
    """Of a class, function or module."""
    name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    return (name or "").partition(".")[0]


def _is_library(value):
    """Of a class, function or module: whether what it reads stays."""
    return _package(value) in _LIBRARIES


class _Code:
    """The names that a code object and those within it read, and whether it may read others. In keys it is the code."""

    __slots__ = ("names", "is_certain", "_code")
    known = {}

    def __init__(self, code):
        self._code = weakref.ref(code, lambda _, key=id(code), known=_Code.known: known.pop(key, None))
        names = set(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                names |= set(_Code.of(constant).names)
        self.names = tuple(sorted(names))
        self.is_certain = not names & _UNSEEN

    @classmethod
    def of(cls, code):
        found = cls.known.get(id(code))
        if found is None:
            found = cls.known[id(code)] = cls(code)
        return found


class Reads:
    """The key, the leaves and the numbers of functions.

    A place says how a value is reached: (place, kind, name), where kind is "cell i", "global", "default i" or "keyword" of a function, "attribute",
    "item", or "root" for what was given first.
    """

    __slots__ = ("leaves", "places", "again", "numbers", "number_places", "values", "steps", "is_certain", "_edges", "_fixed", "_known", "_seen", "_held")

    def __init__(self):
        self.leaves = []
        self.places = []  # of each leaf
        self.again = []  # (place, index of the leaf) where a leaf is met once more
        self.numbers = []
        self.number_places = []
        self.values = []  # (place, value) of what counts by value
        self.steps = []  # (place, what is there, the value), as Lookups.cpp has them; None where it cannot make them
        self.is_certain = True
        self._edges = []  # (owner, kind, name, value, index of a number or None), where a copy of the owner can have a Number
        self._fixed = []  # (value, index or None) where it cannot
        self._known = {}
        self._seen = {}
        self._held = []  # what was made on the way, whose id must not be used again

    def names(self):
        """The variables that hold the leaves."""
        return [str(place[2]) for place in self.places]

    def number_names(self):
        return [str(place[2]) for place in self.number_places]

    def constants(self):
        """Indices of the numbers that functions read where no Number can be."""
        below = {}
        for owner, _, _, value, index in self._edges:
            below.setdefault(id(owner), []).append((value, index))
        found, seen, open_ = set(), set(), list(self._fixed)
        while open_:
            value, index = open_.pop()
            if index is not None:
                found.add(index)
            elif id(value) not in seen:
                seen.add(id(value))
                open_ += below.get(id(value), ())
        return found

    def copies(self, numbers):
        """The functions' Copies with these Numbers, by index."""
        return Copies(self._edges, numbers)

    def _step(self, place, what, value):
        if self.steps is not None:
            self.steps.append((place, what, value))

    def walk(self, constants):
        """The steps as attune._core.Walks takes them: (by, index of the step that it goes from, name or index, what is there, the value). None where
        what was found cannot be looked up again. `constants` are the indices of the numbers that count by value."""
        if self.steps is None or not self.is_certain:
            return None
        index = {id(place): i for i, (place, _, _) in enumerate(self.steps)}
        by_value = {id(self.number_places[i]) for i in constants}
        walk = []
        for place, what, value in self.steps:
            parent, kind, name = place
            kind, _, number = kind.partition(" ")
            if id(place) in by_value:
                what = "constant"
                if value != value:
                    return None
            walk.append((kind, index[id(parent)] if parent is not None else -1, int(number) if number else name, what, value))
        return walk

    def key(self, value, place, attributes=()):
        kind = type(value)
        if kind is int or kind is float:
            return self._number(value, kind, place)
        if kind in _BY_VALUE:
            self.values.append((place, value))
            self._step(place, "equal", value)
            return (kind, value)
        if kind is types.FunctionType:
            return self._function(value, place)
        if isinstance(value, torch.Tensor):
            known = self._known.get(id(value))
            if known is None:
                known = self._known[id(value)] = len(self.leaves)
                self.leaves.append(value)
                self.places.append(place)
                self._step(place, "tensor", value)
                return (value.dtype, value.dim(), value.device.type)
            self._step(place, "leaf", known)
            self.again.append((place, known))
            return known
        if isinstance(value, types.ModuleType) and _is_library(value):
            return self._library(value, place, attributes)
        if isinstance(value, (type, types.ModuleType)):
            if not _is_library(value):
                return self._compound(value, place, attributes)
            self._step(place, "same", value)
            return value
        if isinstance(value, (types.BuiltinMethodType, types.MethodWrapperType)):
            return self._builtin(value, place, attributes)
        if isinstance(value, _OPAQUE):
            self._step(place, "same", value)
            return value
        if kind.__module__ == "numpy" and getattr(value, "shape", None) == () and type(value.item()) in (int, float):
            self.steps = None
            return self._number(value.item(), kind, place)
        return self._compound(value, place, attributes)

    def part(self, owner, value, place, attributes=(), fixed=False):
        """The key of what the owner has at the place."""
        index = len(self.numbers)
        key = self.key(value, place, attributes)
        index = index if len(self.numbers) > index and self.number_places[index] is place else None
        if fixed or not can_have(owner, *place[1:]):
            self._fixed.append((value, index))
        else:
            self._edges.append((owner, place[1], place[2], value, index))
        return key

    def _number(self, value, kind, place):
        of = kind_of(value)
        if of is None:
            self.values.append((place, value))
            self._step(place, "equal", value)
            return (kind, value)
        self.numbers.append(value)
        self.number_places.append(place)
        self._step(place, "number", value)
        return of

    def _library(self, module, place, attributes):
        """A library's module, and of its functions those that the code names: others may stand in their place."""
        known = self._seen.get(id(module))
        if known is None:
            known = self._seen[id(module)] = (len(self._seen), set())
            self._step(place, "module", module)
        else:
            self._step(place, "seen", known[0])
        parts = [module.__name__, known[0]]
        members, added = vars(module), set(attributes) - known[1]
        known[1].update(added)
        for name in sorted(added):
            value = members.get(name, _MISSING)
            if isinstance(value, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)):
                parts.append((name, self.part(module, value, (place, "member", name), attributes, fixed=True)))
        return tuple(parts)

    def _builtin(self, value, place, attributes):
        of = value.__self__
        if isinstance(value, types.BuiltinMethodType) and isinstance(of, (types.ModuleType, type, type(None))):
            if (_package(of) if of is not None else _package(value)) not in _PURE:
                self.is_certain = False  # such as time.time
            self._step(place, "same", value)
            return value
        self.steps = None
        at = (place, "attribute", "__self__")
        if value.__name__ == "get" and isinstance(of, contextvars.ContextVar):
            return self.part(value, of, at)
        return (value.__name__, self.part(value, of, at, attributes, fixed=True))  # such as d.get

    def _function(self, function, place):
        seen = self._seen.get(id(function))
        if seen is not None:
            self._step(place, "seen", seen)
            return ("seen", seen)
        self._seen[id(function)] = len(self._seen)
        if function.__code__.co_freevars in ((), ("__class__",)) and _is_library(function):
            self._step(place, "library function", function)
            return function
        self._step(place, "function", function)
        if function.__dict__ or function.__kwdefaults__ is not None:
            self.steps = None
        code = function.__code__
        read = _Code.of(code)
        self.is_certain &= read.is_certain
        names = read.names
        fixed = "type" in names  # type(number) is int
        parts = [read]
        scope = function.__globals__
        for name in names:
            value = scope.get(name, _MISSING)
            is_imported = value is _MISSING
            if is_imported:
                value = sys.modules.get(name, _MISSING)  # which the function itself may import
            at = (place, "global", name)
            if value is _MISSING:
                self._step(at, "missing", None)
            else:
                parts.append((name, self.part(function, value, at, names, fixed or is_imported)))
            if name in function.__dict__:
                parts.append((name, self.part(function, function.__dict__[name], (place, "attribute", name), names, fixed)))
        if function.__closure__:
            for i, (name, cell) in enumerate(zip(code.co_freevars, function.__closure__)):
                try:
                    value = cell.cell_contents
                except ValueError:  # not assigned yet
                    value = self.steps = None
                parts.append(self.part(function, value, (place, "cell " + str(i), name), names, fixed))
        if function.__defaults__:
            arguments = code.co_varnames[code.co_argcount - len(function.__defaults__):code.co_argcount]
            for i, (name, value) in enumerate(zip(arguments, function.__defaults__)):
                parts.append(self.part(function, value, (place, "default " + str(i), name), names, fixed))
        if function.__kwdefaults__:
            for name, value in function.__kwdefaults__.items():
                parts.append((name, self.part(function, value, (place, "keyword", name), names, fixed)))
        return tuple(parts)

    def _compound(self, value, place, attributes):
        kind = type(value)
        attributes = frozenset((*attributes, *_names_of_methods(kind)))
        known = self._seen.get(id(value))
        is_new = known is None
        if is_new:
            known = self._seen[id(value)] = (len(self._seen), set())
            self._held.append(value)
            self._step(place, "sequence", value)
        elif attributes <= known[1]:
            self._step(place, "seen", known[0])
            return ("seen", known[0])
        else:
            self.steps = None
        if kind not in (tuple, list):
            self.steps = None  # of which more counts than its length
        attributes -= known[1]
        known[1].update(attributes)
        of = kind if kind in (tuple, list, dict) else _Same(kind)
        if isinstance(value, (tuple, list)):
            return (of, *[self.part(value, item, (place, "item", i), attributes) for i, item in enumerate(value)])
        if isinstance(value, dict):
            return (of, *[(repr(key), self.part(value, item, (place, "item", key), attributes)) for key, item in value.items()])
        if kind is types.MethodType:
            names = _Code.of(value.__func__.__code__).names if isinstance(value.__func__, types.FunctionType) else attributes
            return (kind, self.part(value, value.__func__, (place, "attribute", "__func__")),
                    self.part(value, value.__self__, (place, "attribute", "__self__"), names))
        if kind is functools.partial:
            return (kind, self.part(value, value.func, (place, "attribute", "func")),
                    *[self.part(value, item, ((place, "attribute", "args"), "argument", i)) for i, item in enumerate(value.args)],
                    *[(key, self.part(value, item, ((place, "attribute", "keywords"), "named argument", key))) for key, item in value.keywords.items()])
        if kind is contextvars.ContextVar:
            return (kind, self.part(value, value.get(None), (place, "context", value.name), attributes, fixed=True))
        if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
            return (kind, value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).digest())
        return self._object(value, place, attributes, is_new)

    def _object(self, value, place, attributes, is_new):
        """What it is by its type, and what of it the code names. A method of it is a function with the object."""
        kind = type(value)
        is_object = not isinstance(value, (type, types.ModuleType))
        parts = [_Same(kind if is_object else value)]
        is_followed = not is_object or not is_new
        if is_object and is_new:
            names = self._called(value, kind, place, parts)
            is_followed = names is not None
            attributes = attributes.union(names or ())
        for attribute in sorted(attributes):
            try:
                found = getattr(value, attribute, _MISSING)
            except Exception:  # a property that does not apply
                continue
            if found is _MISSING:
                continue
            self._held.append(found)
            is_followed = True
            at = (place, "attribute", attribute)
            if isinstance(found, types.MethodType) and found.__self__ is value:
                # A copy's method reads the copy, but runs this function.
                parts.append((attribute, types.MethodType, self.part(value, found.__func__, (at, "attribute", "__func__"), attributes, fixed=True)))
                names = _Code.of(found.__func__.__code__).names if isinstance(found.__func__, types.FunctionType) else attributes
                parts.append(self.key(value, (at, "attribute", "__self__"), names))
            else:
                parts.append((attribute, self.part(value, found, at, attributes)))
        self.is_certain &= is_followed
        return tuple(parts)

    def _called(self, value, kind, place, parts):
        """The names that a call of the object reads, None of what cannot be called; to `parts` the functions of that and of its operators."""
        names = None
        functions = [(name, function) for base in kind.__mro__ if not _is_library(base) for name, function in vars(base).items()
                     if isinstance(function, types.FunctionType) and _is_operator(name)]
        is_module = isinstance(value, torch.nn.Module)
        call = kind.forward if is_module else getattr(kind, "__call__", None)
        if isinstance(call, types.FunctionType):
            functions.append(("__call__", call))
            names = set(_Code.of(call.__code__).names)
            if is_module and _is_library(call):
                names.update(name for name in vars(value) if name not in _HOOKS)  # its forward may call what reads any
        elif callable(value):
            self.is_certain = False
        if is_module and (any(value.__dict__.get(hooks) for hooks in _HOOKS) or torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks):
            self.is_certain = False
        for name, function in functions:
            parts.append((name, self.part(value, function, (place, "attribute", name), fixed=True)))
        return names


def _is_operator(name):
    return name.startswith("__") and name.endswith("__") and name not in ("__init__", "__repr__", "__eq__", "__hash__", "__call__")


def _names_of_methods(kind):
    """What the operators of a user's class read of its objects, in which no name says so."""
    return [name for base in kind.__mro__ if not _is_library(base) for method, function in vars(base).items()
            if isinstance(function, types.FunctionType) and method.startswith("__") and method not in ("__init__", "__repr__", "__eq__", "__hash__")
            for name in _Code.of(function.__code__).names]


class _Same:
    """A value that is equal to itself alone, for as long as it lives."""

    __slots__ = ("_value", "_hash")

    def __init__(self, value):
        self._value = weakref.ref(value)
        self._hash = id(value)

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        value = self._value()
        return isinstance(other, _Same) and value is not None and other._value() is value
