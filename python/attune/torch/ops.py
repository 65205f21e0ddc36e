"""attune::attention and attune::attention_backward, operations of PyTorch's that any variant runs as, and their autograd.

The variant is their argument as text (attune.Variant.json), so that graphs can hold, save and load them. Where nothing records operations they are
called without PyTorch's dispatcher.
"""
import torch

from .. import _core
from ..expressions import fail
from ..kernel import compile
from ..variant import Variant

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}

variants = {}  # by text
_kernels = {}


class _Launcher:
    """A kernel for tensors of PyTorch."""

    def __init__(self, variant, dtype, head_dim, head_dim_v, device, gradients, lse_gradient, deterministic):
        target = "cpu" if device.type == "cpu" else _architecture(device)
        options = {} if gradients is None else {"gradients": gradients, "lse_gradient": lse_gradient, "deterministic": deterministic}
        kernel = compile(variant, head_dim=head_dim, head_dim_v=head_dim_v, dtype=DTYPES[dtype], target=target, **options)
        self.kernel = kernel  # keeps what follows
        self.forward = kernel._core
        self.backward = kernel._backward
        self.names = [name for name, _, _ in variant.tensors]
        self.has_lse = kernel._has_lse
        self.sizes = [(name, self.names.index(name.rpartition("_size")[0]), int(name.rpartition("_size")[2])) for name, _ in variant.scalars]
        self.backward_operands = kernel._backward.operands if kernel._backward is not None else ()
        self.plain = _core.LaunchValues(None, 0, 0, None, 0 if device.type == "cpu" else None)
        self.on_cpu = device.type == "cpu"
        self.device = device

    def launch(self, core, operands, captured, seeds, dropout):
        tensors = dict(zip(self.names, captured)) if captured else {}
        scalars = {name: captured[i].shape[dim] for name, i, dim in self.sizes} if self.sizes else {}
        values = self.plain
        if seeds is not None:
            address = seeds.data_ptr()
            values = _core.LaunchValues(dropout, address, address + 8, None, 0 if self.on_cpu else None, True)
        core.launch(operands, tensors, scalars, values, self._workspace)

    def _workspace(self, size):
        return torch.empty((size + 3) // 4, dtype=torch.int32, device=self.device)


def _architecture(device):
    major, minor = torch.cuda.get_device_capability(device)
    name = f"sm_{major}{minor}" + ("a" if (major, minor) == (9, 0) else "")
    return f"{name}:{device.index}" if device.index else name


def launcher(text, dtype, head_dim, head_dim_v, device, gradients=None, lse_gradient=False, deterministic=False):
    """The kernel of a variant. `gradients` are the names of captured tensors, None for a forward pass alone."""
    key = (text, dtype, head_dim, head_dim_v, device, gradients, lse_gradient, deterministic)
    found = _kernels.get(key)
    if found is None:
        if dtype not in DTYPES:
            fail(f"query is {dtype}, but must be bfloat16, float16 or float32; convert query, key and value")
        variant = variants.get(text)
        if variant is None:
            variant = variants[text] = Variant.from_json(text)
        found = _kernels[key] = _Launcher(variant, dtype, head_dim, head_dim_v, device, gradients, lse_gradient, deterministic)
    return found


def _has_rows(x):
    """Whether a kernel can read the rows of x: contiguous elements, and multiples of 16 bytes between rows."""
    b, h, s, d = x.stride()
    return d == 1 and not (b | h | s) & (16 // x.element_size() - 1)


def aligned(x):
    """x, or a copy whose rows a kernel can read."""
    return x if _has_rows(x) and not x.data_ptr() & 15 else x.clone(memory_format=torch.contiguous_format)


def like(x, columns):
    """Memory for [B, H, S, columns] with x's order of dimensions, where kernels can write that. It follows from x's strides alone, so that tensors
    without memory tell it, too."""
    if not _has_rows(x):
        return torch.empty((*x.shape[:3], columns), dtype=x.dtype, device=x.device)
    if x.shape[3] == columns:
        return torch.empty_like(x)
    order = sorted(range(3), key=lambda dim: -x.stride(dim))
    return torch.empty([x.shape[dim] for dim in order] + [columns], dtype=x.dtype, device=x.device).permute(*[order.index(dim) for dim in range(3)], 3)


def run_forward(kernel, q, k, v, captured, seeds, dropout, with_lse):
    """O, and LSE float32 [B, H, Sq] or None."""
    o = like(q, v.shape[3])
    operands = {"q": aligned(q), "k": aligned(k), "v": aligned(v), "o": o}
    lse = None
    if with_lse and kernel.has_lse:
        lse = operands["lse"] = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    kernel.launch(kernel.forward, operands, captured, seeds, dropout)
    return o, lse


def run_backward(kernel, gradients, q, k, v, o, lse, grad_o, grad_lse, captured, seeds, dropout):
    """dq, dk, dv, and those of the captured tensors in `gradients`."""
    results = [like(q, q.shape[3]), like(k, k.shape[3]), like(v, v.shape[3])]
    given = {"q": aligned(q), "k": aligned(k), "v": aligned(v), "o": aligned(o), "lse": lse, "do": aligned(grad_o), "dlse": grad_lse.contiguous() if grad_lse is not None else None, "dq": results[0], "dk": results[1], "dv": results[2]}
    for name in gradients:
        made = given["grads." + name] = torch.empty_like(captured[kernel.names.index(name)])
        results.append(made)
    kernel.launch(kernel.backward, {name: given[name] for name in kernel.backward_operands}, captured, seeds, dropout)
    return results


# Operations --------------------------------------------------------------

_FORWARD = "attention(Tensor q, Tensor k, Tensor v, Tensor[] captured, Tensor? seeds, str variant, float dropout_p) -> (Tensor, Tensor)"
_BACKWARD = ("attention_backward(Tensor grad_o, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor[] captured, Tensor? seeds, str variant, "
             "float dropout_p, str[] gradients, bool deterministic) -> Tensor[]")


def _attention(q, k, v, captured, seeds, variant, dropout_p):
    kernel = launcher(variant, q.dtype, q.shape[3], v.shape[3], q.device)
    o, lse = run_forward(kernel, q, k, v, captured, seeds, dropout_p, True)
    return o, lse if lse is not None else q.new_empty(0, dtype=torch.float32)


def _attention_fake(q, k, v, captured, seeds, variant, dropout_p):
    has_lse = (variants.get(variant) or Variant.from_json(variant))._core.has_lse
    return like(q, v.shape[3]), q.new_empty(q.shape[:3] if has_lse else (0,), dtype=torch.float32)


def _attention_backward(grad_o, grad_lse, q, k, v, o, lse, captured, seeds, variant, dropout_p, gradients, deterministic):
    kernel = launcher(variant, q.dtype, q.shape[3], v.shape[3], q.device, tuple(gradients), grad_lse is not None, deterministic)
    return run_backward(kernel, gradients, q, k, v, o, lse, grad_o, grad_lse, captured, seeds, dropout_p)


def _attention_backward_fake(grad_o, grad_lse, q, k, v, o, lse, captured, seeds, variant, dropout_p, gradients, deterministic):
    names = [name for name, _, _ in (variants.get(variant) or Variant.from_json(variant)).tensors]
    return [*[like(x, x.shape[3]) for x in (q, k, v)], *[torch.empty_like(captured[names.index(name)]) for name in gradients]]


for _schema, _run, _fake in ((_FORWARD, _attention, _attention_fake), (_BACKWARD, _attention_backward, _attention_backward_fake)):
    _name = "attune::" + _schema.partition("(")[0]
    torch.library.define("attune::" + _schema.partition("(")[0], _schema[_schema.index("("):])
    for _device in ("CPU", "CUDA"):
        torch.library.impl(_name, _device, _run)
    torch.library.register_fake(_name, _fake)


class Recorded(torch.autograd.Function):
    """The operations with their gradient, for graphs."""

    @staticmethod
    def forward(ctx, q, k, v, seeds, variant, names, dropout_p, gradients, deterministic, *captured):
        o, lse = torch.ops.attune.attention(q, k, v, captured, seeds, variant, dropout_p)
        ctx.save_for_backward(q, k, v, o, lse, seeds, *captured)
        ctx.rest = (variant, names, dropout_p, gradients, deterministic)
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx, grad_o, grad_lse):
        q, k, v, o, lse, seeds, *captured = ctx.saved_tensors
        variant, names, dropout_p, gradients, deterministic = ctx.rest
        if grad_o is None:
            grad_o = torch.zeros_like(o)
        made = torch.ops.attune.attention_backward(grad_o, grad_lse, q, k, v, o, lse, captured, seeds, variant, dropout_p, gradients, deterministic)
        return _by_argument(made, gradients, names)


class Direct(torch.autograd.Function):
    """The same, without PyTorch's dispatcher."""

    @staticmethod
    def forward(ctx, q, k, v, seeds, variant, names, dropout_p, gradients, deterministic, *captured):
        kernel = launcher(variant, q.dtype, q.shape[3], v.shape[3], q.device, gradients, False, deterministic)
        o, lse = run_forward(kernel, q, k, v, captured, seeds, dropout_p, True)
        ctx.save_for_backward(q, k, v, o, lse, seeds, *captured)
        ctx.rest = (kernel, variant, names, dropout_p, gradients, deterministic)
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx, grad_o, grad_lse):
        is_recorded = torch.is_grad_enabled()  # for second derivatives, which are refused when they are asked for
        with torch.no_grad():
            gradients = Direct._gradients(ctx, grad_o, grad_lse)
        if is_recorded:
            made = [x for x in gradients if x is not None]
            refused = iter(torch._C._functions.DelayedError("attune.torch has no second derivatives", len(made))(*[x.requires_grad_() for x in made]))
            gradients = [next(refused) if x is not None else None for x in gradients]
        return tuple(gradients)

    @staticmethod
    def _gradients(ctx, grad_o, grad_lse):
        q, k, v, o, lse, seeds, *captured = ctx.saved_tensors
        kernel, variant, names, dropout_p, gradients, deterministic = ctx.rest
        if grad_o is None:
            grad_o = torch.zeros_like(o)
        if grad_lse is not None:
            kernel = launcher(variant, q.dtype, q.shape[3], v.shape[3], q.device, gradients, True, deterministic)
        return _by_argument(run_backward(kernel, gradients, q, k, v, o, lse, grad_o, grad_lse, captured, seeds, dropout_p), gradients, names)


def _by_argument(made, gradients, names):
    """What backward returns for forward's arguments: of q, k and v, of the six that have none, and of the captured tensors."""
    if not names:
        return (*made, None, None, None, None, None, None)
    by_name = dict(zip(gradients, made[3:]))
    return (*made[:3], None, None, None, None, None, None, *[by_name.get(name) for name in names])


def attend(text, names, learnable, q, k, v, captured, dropout_p, deterministic, with_lse):
    """O, and LSE or None, of the variant with this text, whose captured tensors have these names; of these the learnable have gradients."""
    seeds = None
    if dropout_p:
        seeds = torch.randint(-2**63, 2**63 - 1, (2,), dtype=torch.int64, device=q.device)
    gradients = tuple([name for name, x in zip(names, captured) if x.requires_grad and name in learnable]) if captured else ()
    needs = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or len(gradients) > 0)
    if needs:
        deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
    if torch.compiler.is_compiling() or _watched(q):
        _refuse_transforms()
        if needs:
            return Recorded.apply(q, k, v, seeds, text, names, dropout_p, gradients, deterministic, *captured)
        return torch.ops.attune.attention(q, k, v, captured, seeds, text, dropout_p)
    if torch.autograd.forward_ad._current_level >= 0:
        fail("attune.torch has no forward-mode derivatives; use torch.autograd.grad or backward()")
    if needs:
        return Direct.apply(q, k, v, seeds, text, names, dropout_p, gradients, deterministic, *captured)
    return run_forward(launcher(text, q.dtype, q.shape[3], v.shape[3], q.device), q, k, v, captured, seeds, dropout_p, with_lse)


def _watched(q):
    """Whether a mode or a tensor that is more than memory has to see each operation."""
    return type(q) not in (torch.Tensor, torch.nn.Parameter) or torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None


def _refuse_transforms():
    if not torch.compiler.is_dynamo_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
        fail("attune.torch cannot run under torch.func (vmap, grad, vjp, jvp); use torch.autograd, and batches as a dimension")
