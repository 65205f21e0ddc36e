"""What a Python function depends on, so that a trace serves as long as that stays.

The key of a function holds its code, and of what it reads (defaults, closure, globals, attributes that it names, functions that it calls):
numbers and texts by value, tensors by dtype and rank alone. The tensors themselves are its leaves, found anew in each call.
"""
import functools
import types

import torch

_BY_VALUE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.Size)
_OPAQUE = (type, types.BuiltinFunctionType, types.BuiltinMethodType, types.MethodDescriptorType, types.WrapperDescriptorType, torch._ops.OpOverload,
           torch._ops.OpOverloadPacket)
_LIBRARIES = frozenset(("torch", "numpy", "math", "operator", "functools", "builtins", "attune"))
_MISSING = object()


class _Code:
    """The names that a code object and those within it read."""

    known = {}

    def __init__(self, code):
        self.code = code  # keeps the id in use
        names = set(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                names |= set(_Code.of(constant).names)
        self.names = tuple(sorted(names))

    @classmethod
    def of(cls, code):
        found = cls.known.get(id(code))
        if found is None:
            found = cls.known[id(code)] = cls(code)
        return found


class Reads:
    """The key, leaves and their names of functions."""

    __slots__ = ("leaves", "names", "_places", "_seen", "_held")

    def __init__(self):
        self.leaves = []
        self.names = []
        self._places = {}
        self._seen = {}
        self._held = []  # what was made on the way, whose id must not be used again

    def key(self, value, name="value", attributes=()):
        kind = type(value)
        if kind in _BY_VALUE:
            return (kind, value)
        if kind is types.FunctionType:
            return self._function(value)
        if isinstance(value, torch.Tensor):
            place = self._places.get(id(value))
            if place is None:
                place = self._places[id(value)] = len(self.leaves)
                self.leaves.append(value)
                self.names.append(name)
                return (value.dtype, value.dim(), value.device.type)
            return place
        if isinstance(value, _OPAQUE) or isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in _LIBRARIES:
            return value
        return self._compound(value, name, attributes)

    def _function(self, function):
        seen = self._seen.get(id(function))
        if seen is not None:
            return ("seen", seen)
        self._seen[id(function)] = len(self._seen)
        if function.__module__ is not None and function.__module__.partition(".")[0] in ("torch", "math", "numpy") and function.__closure__ is None:
            return function
        code = _Code.of(function.__code__)
        scope = function.__globals__
        parts = [id(function.__code__)]
        for name in code.names:
            value = scope.get(name, _MISSING)
            if value is not _MISSING:
                parts.append((name, self.key(value, name, code.names)))
        if function.__closure__:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__):
                try:
                    value = cell.cell_contents
                except ValueError:  # not assigned yet
                    value = _MISSING
                parts.append(self.key(value, name, code.names))
        if function.__defaults__:
            arguments = function.__code__.co_varnames[:function.__code__.co_argcount]
            parts += [self.key(value, name, code.names) for name, value in zip(arguments[-len(function.__defaults__):], function.__defaults__)]
        if function.__kwdefaults__:
            parts += [(name, self.key(value, name, code.names)) for name, value in function.__kwdefaults__.items()]
        return tuple(parts)

    def _compound(self, value, name, attributes):
        seen = self._seen.get(id(value))
        if seen is not None:
            return ("seen", seen)
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)
        kind = type(value)
        if kind in (tuple, list) or isinstance(value, tuple):
            return (kind, *[self.key(item, name, attributes) for item in value])
        if kind is dict:
            return (kind, *[(repr(key), self.key(item, str(key), attributes)) for key, item in value.items()])
        if kind is types.MethodType:
            return (kind, self.key(value.__func__), self.key(value.__self__, name, _Code.of(value.__func__.__code__).names))
        if kind is functools.partial:
            return (kind, self.key(value.func), *[self.key(item, name) for item in value.args],
                    *[(key, self.key(item, key)) for key, item in value.keywords.items()])
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            return (kind, self.key(wrapped, name, attributes))
        # An object: what it is by its type, and what of it the code names. A method of it is a function with the object.
        parts = [kind]
        call = getattr(kind, "__call__", None)
        if isinstance(value, torch.nn.Module):
            call = kind.forward
        if isinstance(call, types.FunctionType):
            attributes = tuple(dict.fromkeys((*attributes, *_Code.of(call.__code__).names)))
            parts.append(self.key(call))
        for attribute in attributes:
            try:
                found = getattr(value, attribute, _MISSING)
            except Exception:  # a property that does not apply
                continue
            if found is not _MISSING:
                self._held.append(found)
                parts.append((attribute, self.key(found, attribute, attributes)))
        return tuple(parts) if len(parts) > 1 else (kind, self._identity(value))

    def _identity(self, value):
        try:
            hash(value)
            return value
        except TypeError:
            return _Same(value)


class _Same:
    """A value without a hash, equal to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return id(self.value)

    def __eq__(self, other):
        return isinstance(other, _Same) and other.value is self.value
