"""Memory of the caller's kind: NumPy, PyTorch, CuPy, and on the CPU whatever has an array namespace, such as JAX."""
import sys

from .expressions import fail


def _numpy():
    import numpy
    return numpy


def _module(like):
    return sys.modules.get(type(like).__module__.partition(".")[0])


def _kind(like):
    name = type(like).__module__.partition(".")[0]
    return name if name in ("numpy", "torch", "cupy") else "other"


def empty_like(like, shape=None, dtype=None):
    """Memory without values, of the shape and dtype of `like`, and with its order of dimensions, unless others are given. `dtype` is a name of
    NumPy's."""
    kind = _kind(like)
    shape = tuple(like.shape) if shape is None else shape
    if kind == "torch":
        torch = _module(like)
        if shape == tuple(like.shape) and dtype is None:
            return torch.empty_like(like, requires_grad=False)
        return torch.empty(shape, dtype=getattr(torch, dtype) if dtype else like.dtype, device=like.device)
    if kind in ("numpy", "cupy"):
        module = _module(like)
        if len(shape) == len(like.shape):
            return module.empty_like(like, dtype=dtype, shape=shape)
        return module.empty(shape, dtype=dtype or like.dtype)
    if like.__dlpack_device__()[0] != 1:
        fail(f"outputs cannot be allocated for arrays of type {type(like).__module__}.{type(like).__name__} on a GPU; pass arrays of PyTorch or CuPy")
    numpy = _numpy()
    return numpy.empty(shape, dtype=dtype or numpy.dtype(like.dtype))


def returned(memory, like):
    """What empty_like gave, as an array of the caller's kind."""
    if type(memory) is type(like) or _kind(like) != "other":
        return memory
    return like.__array_namespace__().asarray(memory)


def readable(array):
    """The array, whose bf16 NumPy cannot export, as bits."""
    if type(array).__module__ == "numpy" and array.dtype.name == "bfloat16":
        return array.view("uint16")
    return array


def exported(array):
    """What a launch takes: an array that gives views of itself as it is; PyTorch's tensors before 2.10, whose __dlpack__ would wait for a stream, as
    capsules, each of which serves once."""
    if type(array).__module__.startswith("torch") and not hasattr(type(array), "__dlpack_c_exchange_api__"):
        return _module(array).utils.dlpack.to_dlpack(array.detach() if array.requires_grad else array)
    return array


def current_stream(like):
    """The handle of the stream that the caller's arrays belong to; None where the launch finds it."""
    if hasattr(type(like), "__dlpack_c_exchange_api__"):
        return None
    kind = _kind(like)
    if kind == "torch" and like.is_cuda:
        return _module(like).cuda.current_stream(like.device).cuda_stream
    if kind == "cupy":
        return _module(like).cuda.get_current_stream().ptr
    return 0
