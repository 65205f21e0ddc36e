"""Memory of the caller's kind: NumPy, PyTorch, CuPy, and on the CPU whatever has an array namespace, such as JAX."""
import functools
import sys

from .expressions import fail


def _numpy():
    import numpy
    return numpy


@functools.lru_cache(maxsize=64)
def _library(kind):
    """That whose arrays a type's are, subclasses of users included."""
    names = [base.__module__.partition(".")[0] for base in kind.__mro__]
    return next((name for name in names if name in ("numpy", "torch", "cupy")), "other")


def _kind(like):
    return _library(type(like))


def _module(like):
    return sys.modules[_kind(like)]


def empty_like(like, shape=None, dtype=None):
    """Memory without values, of the shape and dtype of `like`, and with its order of dimensions, unless others are given. `dtype` is a name of
    NumPy's."""
    kind = _kind(like)
    shape = tuple(like.shape) if shape is None else shape
    if kind == "other":
        return _on_cpu(like, shape, dtype)
    strides = like.stride() if kind == "torch" else like.strides
    if len(shape) != len(strides):
        return _dense(like, shape, dtype)
    if 0 in strides:
        return _ordered(like, shape, dtype, strides)
    if kind == "torch":
        same = shape == tuple(like.shape) and dtype is None
        return _module(like).empty_like(like, requires_grad=False) if same else _dense(like, shape, dtype)
    return _module(like).empty_like(like, dtype=dtype, shape=shape)


def _dense(like, shape, dtype):
    module = _module(like)
    if _kind(like) == "torch":
        return module.empty(shape, dtype=getattr(module, dtype) if dtype else like.dtype, device=like.device)
    return module.empty(shape, dtype=dtype or like.dtype)


def _ordered(like, shape, dtype, strides):
    """Of a broadcast array: its broadcast dimensions are the outermost, the last one is the innermost."""
    last = len(shape) - 1
    order = [*sorted(range(last), key=lambda dim: (strides[dim] != 0, -abs(strides[dim]))), last]
    back = [order.index(dim) for dim in range(len(shape))]
    memory = _dense(like, tuple(shape[dim] for dim in order), dtype)
    return memory.permute(back) if _kind(like) == "torch" else memory.transpose(back)


def _on_cpu(like, shape, dtype):
    if like.__dlpack_device__()[0] != 1:
        fail(f"outputs cannot be allocated for arrays of type {type(like).__module__}.{type(like).__name__} on a GPU; pass arrays of PyTorch or CuPy")
    numpy = _numpy()
    return numpy.empty(shape, dtype=dtype or numpy.dtype(like.dtype))


def returned(memory, like):
    """What empty_like gave, as an array of the caller's kind."""
    if type(memory) is type(like) or _kind(like) != "other":
        return memory
    return like.__array_namespace__().asarray(memory)


def contiguous(array):
    """A dense copy; the array itself where its library has no function for that."""
    kind = _kind(array)
    if kind == "torch":
        return array.detach().clone(memory_format=_module(array).contiguous_format)
    if kind == "other":
        return array.__array_namespace__().asarray(array, copy=True) if hasattr(array, "__array_namespace__") else array
    return array.copy(order="C")


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


_DTYPES = "float32, float16, bfloat16, int32, int64 or bool"


def check_type(array, what):
    """Refuses arrays whose values are not what their memory holds, by their type."""
    kind, torch = type(array), sys.modules.get("torch")
    numpy = sys.modules.get("numpy")
    name = f"{what} is a {kind.__name__}"
    if numpy is not None and isinstance(array, numpy.ma.MaskedArray):
        fail(f"{name}, whose mask kernels do not read; pass array.filled(value), and say by the variant's mask what is hidden")
    if torch is None or not isinstance(array, torch.Tensor):
        return
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        fail(f"{name}, a tensor whose values PyTorch computes in its __torch_dispatch__; pass the torch.Tensor that holds them")
    own = kind.__torch_function__
    if own not in (torch.Tensor.__torch_function__, torch.nn.Parameter.__torch_function__) and getattr(own, "__func__", own) is not torch.Tensor.__torch_function__.__func__:
        fail(f"{name}, a tensor with a __torch_function__ of its own; pass array.as_subclass(torch.Tensor) where its memory holds its values")


def with_memory(array, what):
    """An array with memory of the values of one that has none; refuses what has no values, by name."""
    dtype = getattr(array, "dtype", None)
    if _kind(array) == "torch":
        if array._is_zerotensor():
            return _module(array).zeros(array.shape, dtype=dtype, device=array.device)
        fail(f"{what} is a tensor {_torch_kind(_module(array), array)}, which has no memory that kernels can read; pass a dense one of the CPU or a GPU, and leave out "
             "torch.func's transforms, is_grads_batched and vectorize")
    if _kind(array) != "numpy":
        fail(f"{what} is of type {type(array).__name__}, but must be an array of NumPy, PyTorch, CuPy or JAX, or have __dlpack__")
    if not dtype.isnative:
        fail(f"{what} is {dtype.name} with its bytes swapped, but must be of this machine's order; write array.astype(array.dtype.newbyteorder(\"=\"))")
    fail(f"{what} is {dtype}, but arrays are {_DTYPES}; convert it")


def _torch_kind(torch, tensor):
    transforms = torch._C._functorch
    if transforms.is_batchedtensor(tensor) or transforms.is_legacy_batchedtensor(tensor):
        return "of a batch of calls"
    if torch._is_functional_tensor(tensor):
        return "of functionalization"
    if tensor.is_quantized:
        return "of quantised elements"
    return f"of layout {tensor.layout}" if tensor.layout is not torch.strided else f"on device {tensor.device}"


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
