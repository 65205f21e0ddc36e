"""attune::attention and attune::attention_backward, operations of PyTorch's that any variant runs as, and their autograd.

The variant is their argument as text (attune.Variant.json), so that graphs can hold, save and load them. Where nothing records operations they are
called without PyTorch's dispatcher.
"""
import functools

import torch
from torch.utils import flop_counter

from .. import _core
from ..expressions import fail
from ..kernel import compiled
from ..variant import Variant
from .kinds import is_plain

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}

variants = {}  # by text
_kernels = {}
_layouts = {}
_MOST_KEPT = 4096  # of what comes with shapes and functions; the oldest go


def is_extent(name):
    """Whether it names a scalar that is the extent of a captured tensor, as "slopes_size0" of slopes."""
    return name[:-1].endswith("_size") and name[-1].isdigit()


def kept(table, key, value):
    """The value of the key, this one where there was none."""
    if key not in table and len(table) >= _MOST_KEPT:
        del table[next(iter(table))]
    return table.setdefault(key, value)


class _Kernel:
    """The launches of a variant for tensors of PyTorch: launch(operands by name, captured tensors, with dropout its probability and the address of two
    seeds, else zeros, and the values of scalars). The backward pass is there where `gradients` is not None."""

    __slots__ = ("name", "names", "has_lse", "forward", "backward", "backward_reads_rows")

    def __init__(self, variant, dtype, head_dim, head_dim_v, device, gradients, lse_gradient, deterministic):
        target = "cpu" if device.type == "cpu" else _architecture(device)
        options = {} if gradients is None else {"gradients": gradients, "lse_gradient": lse_gradient, "deterministic": deterministic}
        kernel, _ = compiled(variant, head_dim=head_dim, head_dim_v=head_dim_v, dtype=DTYPES[dtype], target=target, **options)
        self.name = f"attune::attention: {variant.name}"
        self.names = [name for name, _, _ in variant.tensors]
        sizes = [(name, self.names.index(name[:-6]), int(name[-1])) for name, _ in variant.scalars if is_extent(name)]
        scalars = [name for name, _ in variant.scalars if not is_extent(name)]

        def launches(core):
            return _core.Launcher(core, self.names, sizes, scalars, functools.partial(_workspace, device), _contiguous).launch
        self.has_lse = "lse" in kernel.operands
        self.forward = launches(kernel)
        if gradients is not None:
            backward = kernel.backward()
            self.backward = launches(backward)
            self.backward_reads_rows = "lse" in backward.operands


def _workspace(device, size):
    return torch.empty_strided(((size + 3) // 4,), (1,), dtype=torch.int32, device=device)


def _contiguous(x):
    return x.clone(memory_format=torch.contiguous_format)


def _architecture(device):
    major, minor = torch.cuda.get_device_capability(device)
    name = f"sm_{major}{minor}" + ("a" if (major, minor) == (9, 0) else "")
    return f"{name}:{device.index}" if device.index else name


def variant_of(text):
    found = variants.get(text)
    if found is None:
        found = kept(variants, text, Variant.from_json(text))
    return found


def launcher(text, dtype, head_dim, head_dim_v, device, gradients=None, lse_gradient=False, deterministic=False):
    """The kernel of a variant. `gradients` are the names of captured tensors, None for a forward pass alone."""
    key = (text, dtype, head_dim, head_dim_v, device, gradients, lse_gradient, deterministic)
    found = _kernels.get(key)
    if found is None:
        if dtype not in DTYPES:
            fail(f"query is {dtype}, but must be bfloat16, float16 or float32; convert query, key and value")
        found = kept(_kernels, key, _Kernel(variant_of(text), dtype, head_dim, head_dim_v, device, gradients, lse_gradient, deterministic))
    return found


def like(x, columns):
    """How memory for [B, H, S, columns] is made with x's order of dimensions, where kernels can write that: a function of x, or of any other of its dtype,
    device, extents and strides. It follows from these alone, so that tensors without memory tell it, too."""
    *strides, last = x.stride()
    of_16_bytes = 16 // x.element_size()
    if last != 1 or any(stride % of_16_bytes for stride in strides):
        shape = (*x.shape[:3], columns)
        return lambda x: torch.empty(shape, dtype=x.dtype, device=x.device)
    if x.shape[3] == columns:
        return torch.empty_like
    order = sorted(range(3), key=lambda dim: -x.stride(dim))
    shape, back = [x.shape[dim] for dim in order] + [columns], [order.index(dim) for dim in range(3)]
    return lambda x: torch.empty(shape, dtype=x.dtype, device=x.device).permute(*back, 3)


class Layout:
    """What follows from the dtypes, devices, extents and strides of q, k and v: memory for results, and kernels."""

    def __init__(self, q, k, v):
        self._kind = (q.dtype, q.shape[3], v.shape[3], q.device)
        self._kernels = {}
        self.o = like(q, v.shape[3])
        self.gradients = (like(q, q.shape[3]), like(k, k.shape[3]), like(v, v.shape[3]))
        batch, heads, queries = q.shape[:3]
        rows = max(queries, 1)
        self.lse = functools.partial(torch.empty_strided, (batch, heads, queries), (max(heads, 1) * rows, rows, 1), dtype=torch.float32, device=q.device)

    def kernel(self, text, gradients=None, lse_gradient=False, deterministic=False):
        """As launcher() finds it."""
        key = (text, gradients, lse_gradient, deterministic)
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = launcher(text, *self._kind, gradients, lse_gradient, deterministic)
        return found


def layout_of(q, k, v):
    key = _core.layouts(q, k, v)
    return _layouts.get(key) or (kept(_layouts, key, Layout(q, k, v)) if key is not None else Layout(q, k, v))


def run_forward(kernel, layout, q, k, v, captured, scalars, seeds, dropout, with_lse):
    """O, and LSE float32 [B, H, Sq] or None."""
    o = layout.o(q)
    operands = {"q": q, "k": k, "v": v, "o": o}
    lse = None
    if with_lse and kernel.has_lse:
        lse = operands["lse"] = layout.lse()
    _launched(kernel.forward, kernel.name, operands, captured, dropout, seeds, scalars)
    return o, lse


def _launched(launch, name, operands, captured, dropout, seeds, scalars):
    """The launch, which PyTorch's profiler shows by this name."""
    seeds = 0 if seeds is None else seeds.data_ptr()
    if not torch.autograd.profiler._is_profiler_enabled:
        return launch(operands, captured, dropout, seeds, scalars)
    with torch.autograd.profiler.record_function(name):
        launch(operands, captured, dropout, seeds, scalars)


def run_backward(kernel, layout, gradients, q, k, v, o, lse, grad_o, grad_lse, captured, scalars, seeds, dropout):
    """dq, dk, dv, and those of the captured tensors in `gradients`."""
    of_q, of_k, of_v = layout.gradients
    results = [of_q(q), of_k(k), of_v(v)]
    operands = {"q": q, "k": k, "v": v, "do": grad_o, "dq": results[0], "dk": results[1], "dv": results[2]}
    if kernel.backward_reads_rows:
        operands["o"], operands["lse"] = o, lse
        if grad_lse is not None:
            operands["dlse"] = grad_lse.contiguous()
    for name in gradients:
        made = operands["grads." + name] = torch.empty_like(captured[kernel.names.index(name)])
        results.append(made)
    _launched(kernel.backward, kernel.name + ", backward", operands, captured, dropout, seeds, scalars)
    return results


# Operations --------------------------------------------------------------
# `gradients` are the names of captured tensors that have one, a space between them: of a list of texts PyTorch would expect gradients, too.

# `integers` and `floats` are the run-time scalars of the variant, each in its order.

_FORWARD = ("attention(Tensor q, Tensor k, Tensor v, Tensor[] captured, Tensor? seeds, str variant, float dropout_p, str gradients, bool deterministic, "
            "SymInt[] integers=[], float[] floats=[]) -> (Tensor, Tensor)")
_BACKWARD = ("attention_backward(Tensor grad_o, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor[] captured, Tensor? seeds, str variant, "
             "float dropout_p, str gradients, bool deterministic, SymInt[] integers=[], float[] floats=[]) -> Tensor[]")


def _scalars_of(variant, integers, floats):
    """Those of a launch, in the variant's order."""
    if not integers and not floats:
        return ()
    integers, floats = iter(integers), iter(floats)
    return [next(floats if dtype == "f32" else integers) for name, dtype in variant_of(variant).scalars if not is_extent(name)]


def _attention(q, k, v, captured, seeds, variant, dropout_p, gradients, deterministic, integers=(), floats=()):
    layout = layout_of(q, k, v)
    o, lse = run_forward(layout.kernel(variant), layout, q, k, v, captured, _scalars_of(variant, integers, floats), seeds, dropout_p, True)
    return o, lse if lse is not None else q.new_empty(0, dtype=torch.float32)


def _attention_fake(q, k, v, captured, seeds, variant, dropout_p, gradients, deterministic, integers=(), floats=()):
    return like(q, v.shape[3])(q), q.new_empty(q.shape[:3] if variant_of(variant)._core.has_lse else (0,), dtype=torch.float32)


def _attention_saves(ctx, inputs, output):
    q, k, v, captured, seeds, *ctx.rest = inputs
    ctx.save_for_backward(q, k, v, *output, seeds, *captured)
    ctx.set_materialize_grads(False)


def _attention_gradients(ctx, grad_o, grad_lse):
    variant, _, gradients, *_ = ctx.rest
    made = _dispatched_gradients(grad_o, grad_lse, ctx.saved_tensors, *ctx.rest)
    of_captured = dict(zip(gradients.split(), made[3:]))
    # The dispatcher leaves out what equals its default; PyTorch takes None of a list of numbers, but an empty list of one that is empty.
    others = [[] if isinstance(needs, list) else None for needs in ctx.needs_input_grad[4:]]
    return (*made[:3], [of_captured.get(name) for name in _names(variant)], *others)


def _dispatched_gradients(grad_o, grad_lse, saved, variant, dropout_p, gradients, deterministic, integers, floats):
    q, k, v, o, lse, seeds, *captured = saved
    if grad_o is None:
        grad_o = torch.zeros_like(o)
    return torch.ops.attune.attention_backward(grad_o, grad_lse, q, k, v, o, lse, captured, seeds, variant, dropout_p, gradients, deterministic, integers, floats)


def _attention_backward(grad_o, grad_lse, q, k, v, o, lse, captured, seeds, variant, dropout_p, gradients, deterministic, integers=(), floats=()):
    layout = layout_of(q, k, v)
    gradients = tuple(gradients.split())
    kernel = layout.kernel(variant, gradients, grad_lse is not None, deterministic)
    return run_backward(kernel, layout, gradients, q, k, v, o, lse, grad_o, grad_lse, captured, _scalars_of(variant, integers, floats), seeds, dropout_p)


def _attention_backward_fake(grad_o, grad_lse, q, k, v, o, lse, captured, seeds, variant, dropout_p, gradients, deterministic, integers=(), floats=()):
    names = _names(variant)
    return [*[like(x, x.shape[3])(x) for x in (q, k, v)], *[torch.empty_like(captured[names.index(name)]) for name in gradients.split()]]


def _second_derivatives(ctx, *_):
    fail("attune.torch has no second derivatives; leave create_graph=True out, or write this attention with PyTorch's operations")


def _names(text):
    return [name for name, _, _ in variant_of(text).tensors]


for _schema, _run, _fake in ((_FORWARD, _attention, _attention_fake), (_BACKWARD, _attention_backward, _attention_backward_fake)):
    _name = "attune::" + _schema.partition("(")[0]
    torch.library.define(_name, _schema[_schema.index("("):])
    for _device in ("CPU", "CUDA"):
        torch.library.impl(_name, _device, _run)
    torch.library.register_fake(_name, _fake)
torch.library.register_autograd("attune::attention", _attention_gradients, setup_context=_attention_saves)
torch.library.register_autograd("attune::attention_backward", _second_derivatives)


def _forward_flops(q, k, v, *_, **__):
    """Of the shapes: two products of all queries and keys, as PyTorch counts its own attention, whatever a mask hides."""
    batch, heads, queries, columns = q
    return 2 * batch * heads * queries * k[2] * (columns + v[3])


def _backward_flops(grad_o, grad_lse, q, k, v, *_, **__):
    """S again, dP, dV, dQ and dK."""
    batch, heads, queries, columns = q
    return 2 * batch * heads * queries * k[2] * (3 * columns + 2 * v[3])


def _count_flops():
    for operation, flops in ((torch.ops.attune.attention, _forward_flops), (torch.ops.attune.attention_backward, _backward_flops)):
        flop_counter.register_flop_formula(operation)(lambda *args, out_shape=None, count=flops, **kwargs: count(*args, **kwargs))


_count_flops()


class Direct(torch.autograd.Function):
    """The same, without PyTorch's dispatcher. `call` is (kernel, layout, variant, scalars, dropout_p, gradients, deterministic, with_lse); `wanted` are those of the
    captured tensors that have gradients."""

    @staticmethod
    def forward(ctx, q, k, v, captured, seeds, call, *wanted):
        kernel, layout, _, scalars, dropout_p, _, _, with_lse = ctx.call = call
        o, lse = run_forward(kernel, layout, q, k, v, captured, scalars, seeds, dropout_p, True)
        ctx.save_for_backward(q, k, v, o, lse, seeds, *captured)
        ctx.set_materialize_grads(False)
        return (o, lse) if with_lse else o

    @staticmethod
    def backward(ctx, grad_o, grad_lse=None):
        kernel, layout, variant, scalars, dropout_p, gradients, deterministic, _ = ctx.call
        # Of a graph of the backward pass the dispatcher makes nodes that lead to q, k and v, so that a second derivative is refused however it is asked for.
        if torch.is_grad_enabled() or not is_plain([x for x in (grad_o, grad_lse) if x is not None]):
            made = _dispatched_gradients(grad_o, grad_lse, ctx.saved_tensors, variant, dropout_p, " ".join(gradients), deterministic, *_by_type(scalars))
            return (*made[:3], None, None, None, *made[3:])
        q, k, v, o, lse, seeds, *captured = ctx.saved_tensors
        if grad_o is None:
            grad_o = torch.zeros_like(o)
        if grad_lse is not None:
            kernel = layout.kernel(variant, gradients, True, deterministic)
        made = run_backward(kernel, layout, gradients, q, k, v, o, lse, grad_o, grad_lse, captured, scalars, seeds, dropout_p)
        return (*made[:3], None, None, None, *made[3:])


def refuse_stopped(stopped, of_scores, wanted):
    """Raises the error of a derivative that is asked for and that the score stops; `stopped` has errors by the names of captured tensors, "s" for those of
    query and key."""
    for name in (["s"] if of_scores else []) + [name for name, _ in wanted]:
        if name in stopped:
            raise stopped[name].again()


# Function.apply would ask again for the transforms that is_recorded refuses.
_apply = super(torch.autograd.Function, Direct).apply


def attend(program, layout, q, k, v, captured, scalars, dropout_p, deterministic, with_lse):
    """O, and LSE or None, of a Program or Recipe, its captured tensors and the values of its scalars. `layout` is that of q, k and v; None for operations that PyTorch sees."""
    seeds = None
    if dropout_p:
        seeds = torch.randint(-2**63, 2**63 - 1, (2,), dtype=torch.int64, device=q.device)
    wanted, needs = (), False
    if torch.is_grad_enabled():
        if program.learnable:
            wanted = [(name, captured[i]) for i, name in program.learnable if captured[i].requires_grad]
        needs = q.requires_grad or k.requires_grad or v.requires_grad or len(wanted) > 0
        if program.stopped:
            refuse_stopped(program.stopped, q.requires_grad or k.requires_grad, wanted)
    if not needs and layout is not None:
        return run_forward(layout.kernel(program.text), layout, q, k, v, captured, scalars, seeds, dropout_p, with_lse)
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
    gradients = tuple([name for name, _ in wanted])
    if layout is None:
        return torch.ops.attune.attention(q, k, v, captured, seeds, program.text, dropout_p, " ".join(gradients), deterministic, *_by_type(scalars))
    call = layout.kernel(program.text, gradients, False, deterministic), layout, program.text, scalars, dropout_p, gradients, deterministic, with_lse
    result = _apply(q, k, v, captured, seeds, call, *[tensor for _, tensor in wanted])
    return result if with_lse else (result, None)


def _by_type(scalars):
    """The integers and the floats of scalars."""
    return [x for x in scalars if not isinstance(x, (float, torch.SymFloat))], [x for x in scalars if isinstance(x, (float, torch.SymFloat))]


def is_recorded(tensors, is_compiling):
    """Whether a graph, a mode or a tensor that is more than memory has to see each operation."""
    if is_compiling and torch.compiler.is_dynamo_compiling():
        return True
    if torch._C._are_functorch_transforms_active():
        fail("attune.torch cannot run under torch.func (vmap, grad, vjp, jvp); use torch.autograd, and batches as a dimension")
    if is_compiling or torch._C._len_torch_dispatch_stack() or not is_plain(tensors):
        return True
    if torch.autograd.forward_ad._current_level >= 0:
        fail("attune.torch has no forward-mode derivatives; use torch.autograd.grad or backward()")
    return False
