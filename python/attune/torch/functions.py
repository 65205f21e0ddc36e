"""What a Python function depends on, so that a trace serves as long as that stays.

The key of a function holds its code, and of what it reads (defaults, closure, globals, attributes that it names, functions that it calls):
numbers and texts by value, tensors by dtype and rank alone. The tensors themselves are its leaves, found anew in each call. Where the code may read
what this does not see, the key is not certain, and a trace serves for its call alone.
"""
import functools
import sys
import types

import torch

_BY_VALUE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.Size)
_OPAQUE = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType,
           torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_LIBRARIES = frozenset(("torch", "numpy", "math", "operator", "functools", "builtins", "attune", "inspect", "enum", "typing", "collections",
                        "contextlib", "dataclasses", "warnings", "itertools", "copy", "re", "weakref"))
_UNSEEN = frozenset(("getattr", "vars", "globals", "locals", "eval", "exec", "__import__", "__dict__"))
_MISSING = object()


def _is_library(value):
    """Of a class, function or module: whether what it reads stays."""
    name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    return (name or "").partition(".")[0] in _LIBRARIES


class _Code:
    """The names that a code object and those within it read, and whether it may read others."""

    known = {}

    def __init__(self, code):
        self.code = code  # keeps the id in use
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
    """The key and the leaves of functions.

    A place says how a value is reached: (place, kind, name), where kind is "cell i", "global", "default i" or "keyword" of a function, "attribute",
    "item", or "root" for what was given first.
    """

    __slots__ = ("leaves", "places", "again", "values", "steps", "is_certain", "_known", "_seen", "_held")

    def __init__(self):
        self.leaves = []
        self.places = []  # of each leaf
        self.again = []  # (place, index of the leaf) where a leaf is met once more
        self.values = []  # (place, value) of what counts by value
        self.steps = []  # (place, what is there, the value), as Lookups.cpp has them; None where it cannot make them
        self.is_certain = True
        self._known = {}
        self._seen = {}
        self._held = []  # what was made on the way, whose id must not be used again

    def names(self):
        """The variables that hold the leaves."""
        return [str(place[2]) for place in self.places]

    def _step(self, place, what, value):
        if self.steps is not None:
            self.steps.append((place, what, value))

    def walk(self):
        """The steps as attune._core.Walks takes them: (by, index of the step that it goes from, name or index, what is there, the value). None where
        what was found cannot be looked up again."""
        if self.steps is None or not self.is_certain:
            return None
        index = {id(place): i for i, (place, _, _) in enumerate(self.steps)}
        walk = []
        for (parent, kind, name), what, value in self.steps:
            kind, _, number = kind.partition(" ")
            walk.append((kind, index[id(parent)] if parent is not None else -1, int(number) if number else name, what, value))
        return walk

    def key(self, value, place, attributes=()):
        kind = type(value)
        if kind in _BY_VALUE:
            self.values.append((place, value))
            if value != value:
                self.steps = None
                return (kind, "nan")
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
        if isinstance(value, (type, types.ModuleType)):
            if not _is_library(value):
                return self._compound(value, place, attributes)
            self._step(place, "same", value)
            return value
        if isinstance(value, types.BuiltinMethodType) and not isinstance(value.__self__, (types.ModuleType, type, type(None))):
            self.steps = None
            return (value.__name__, self.key(value.__self__, (place, "attribute", "__self__"), attributes))  # such as d.get
        if not isinstance(value, _OPAQUE):
            return self._compound(value, place, attributes)
        self._step(place, "same", value)
        return value

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
        parts = [id(code)]
        scope = function.__globals__
        for name in names:
            value = scope.get(name, _MISSING)
            if value is _MISSING:
                value = sys.modules.get(name, _MISSING)  # which the function itself may import
            at = (place, "global", name)
            if value is _MISSING:
                self._step(at, "missing", None)
            else:
                parts.append((name, self.key(value, at, names)))
            if name in function.__dict__:
                parts.append((name, self.key(function.__dict__[name], (place, "attribute", name), names)))
        if function.__closure__:
            for i, (name, cell) in enumerate(zip(code.co_freevars, function.__closure__)):
                try:
                    value = cell.cell_contents
                except ValueError:  # not assigned yet
                    value = self.steps = None
                parts.append(self.key(value, (place, "cell " + str(i), name), names))
        if function.__defaults__:
            arguments = code.co_varnames[code.co_argcount - len(function.__defaults__):code.co_argcount]
            for i, (name, value) in enumerate(zip(arguments, function.__defaults__)):
                parts.append(self.key(value, (place, "default " + str(i), name), names))
        if function.__kwdefaults__:
            for name, value in function.__kwdefaults__.items():
                parts.append((name, self.key(value, (place, "keyword", name), names)))
        return tuple(parts)

    def _compound(self, value, place, attributes):
        kind = type(value)
        attributes = frozenset((*attributes, *_names_of_methods(kind)))
        known = self._seen.get(id(value))
        if known is None:
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
        if isinstance(value, (tuple, list)):
            return (kind, *[self.key(item, (place, "item", i), attributes) for i, item in enumerate(value)])
        if isinstance(value, dict):
            return (kind, *[(repr(key), self.key(item, (place, "item", key), attributes)) for key, item in value.items()])
        if kind is types.MethodType:
            names = _Code.of(value.__func__.__code__).names if isinstance(value.__func__, types.FunctionType) else attributes
            return (kind, self.key(value.__func__, (place, "attribute", "__func__")), self.key(value.__self__, (place, "attribute", "__self__"), names))
        if kind is functools.partial:
            return (kind, self.key(value.func, (place, "attribute", "func")),
                    *[self.key(item, ((place, "attribute", "args"), "item", i)) for i, item in enumerate(value.args)],
                    *[(key, self.key(item, ((place, "attribute", "keywords"), "item", key))) for key, item in value.keywords.items()])
        if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
            return (kind, value.dtype.str, value.shape, value.tobytes())
        # An object: what it is by its type, and what of it the code names. A method of it is a function with the object.
        parts = [value if isinstance(value, (type, types.ModuleType)) else kind]
        call = kind.forward if isinstance(value, torch.nn.Module) else getattr(kind, "__call__", None)
        if isinstance(call, types.FunctionType):
            attributes = attributes.union(_Code.of(call.__code__).names)
            parts.append(self.key(call, (place, "attribute", "__call__")))
        for attribute in sorted(attributes):
            try:
                found = getattr(value, attribute, _MISSING)
            except Exception:  # a property that does not apply
                continue
            if found is not _MISSING:
                self._held.append(found)
                parts.append((attribute, self.key(found, (place, "attribute", attribute), attributes)))
        if len(parts) == 1 and not isinstance(value, (type, types.ModuleType)):
            self.is_certain = False
            return (kind, _Same(value))
        return tuple(parts)


@functools.lru_cache(maxsize=None)
def _names_of_methods(kind):
    """What the operators of a user's class read of its objects, in which no name says so."""
    return frozenset([name for base in kind.__mro__ if not _is_library(base) for method, function in vars(base).items()
                      if isinstance(function, types.FunctionType) and method.startswith("__") and method not in ("__init__", "__repr__", "__eq__", "__hash__")
                      for name in _Code.of(function.__code__).names])


class _Same:
    """A value that is equal to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return id(self.value)

    def __eq__(self, other):
        return isinstance(other, _Same) and other.value is self.value
