"""attune.compile and attune.Kernel."""
import json
import typing

from . import _core
from .arrays import contiguous, current_stream, empty_like, exported, readable, returned
from .errors import public
from .expressions import dtype_name, fail
from .variant import Variant

_SCHEDULE = ("tile_q", "tile_k", "warps", "stages", "q_registers", "dv_warps", "blocks_per_sm", "longest_first", "persistent", "query_stages", "ping_pong",
             "overlap", "stage_biases", "pack_gqa", "split_keys")
_FLAGS = ("q_registers", "longest_first", "persistent", "ping_pong", "overlap", "stage_biases", "pack_gqa", "split_keys")


class Gradients(typing.NamedTuple):
    """What a backward pass gives; `captured` has the gradients of captured tensors by name."""

    dq: object
    dk: object
    dv: object
    captured: dict


def _gradients(variant, names, lse, deterministic):
    gradients = _core.Gradients()
    names = [] if names is True else list(names)
    known = [name for name, _, _ in variant.tensors]
    for name in names:
        if name not in known:
            fail(f"the gradient of \"{name}\" is asked for, but variant \"{variant.name}\" reads {_listed(known)}")
    gradients.tensors = names
    gradients.lse = lse
    gradients.deterministic = deterministic
    return gradients


def _listed(names):
    return "no captured tensors" if not names else ", ".join(f'"{name}"' for name in names)


def _options(variant, *, head_dim, head_dim_v=0, dtype="bf16", gradients=None, lse_gradient=False, deterministic=False, sram_budget=0, shapes=(),
             tuning="cached", cache_dir="", use_cache=True, **schedule):
    if not isinstance(variant, Variant):
        fail(f"what is compiled is of type {type(variant).__name__}, but must be an attune.Variant")
    options = _core.CompileOptions()
    options.dtype = dtype_name(dtype) or str(dtype)
    try:
        options.shapes = [_core.ProblemSizes(*sizes) for sizes in shapes]
    except TypeError:
        fail(f"shapes is {shapes!r}, but must be a list of (batch, heads, heads_kv, queries, keys)")
    fields = {"head_dim": head_dim, "head_dim_v": head_dim_v, "sram_budget": sram_budget, "tuning": tuning, "cache_dir": str(cache_dir),
              "use_cache": bool(use_cache)}
    if gradients is None or gradients is False:
        if lse_gradient or deterministic:
            fail("lse_gradient and deterministic are of the backward pass; pass gradients=[], or the names of captured tensors")
    else:
        options.gradients = _gradients(variant, gradients, lse_gradient, deterministic)
    for name in schedule:
        if name not in _SCHEDULE:
            fail(f"attune.compile has no option \"{name}\"; schedules are fixed by {', '.join(_SCHEDULE)}")
    for name, value in {**fields, **schedule}.items():
        try:
            setattr(options, name, value)
        except TypeError:
            kind = {"tuning": "a text"}.get(name, "True or False" if name in _FLAGS else "an integer of 32 bits")
            fail(f"{name} is {value!r}, but must be {kind}")
    return options


@public
def compile(variant, *, head_dim, target=None, **options):
    """The Kernel for a variant.

    head_dim       D, columns of Q and K: a multiple of 8 up to 576
    head_dim_v     Dv, columns of V and O; D where it is left out
    dtype          of Q, K, V and O: "bf16" (the default), "f16" or "f32"
    target         "cpu", "gpu" (this machine's), "sm_90a", "sm_90:1" (device 1); None: this machine's GPU, else the CPU
    gradients      compiles the backward pass, too: [] for dq, dk and dv, and the names of captured tensors whose gradients are wanted
    lse_gradient   backward() takes the gradient of LSE
    deterministic  backward() gives the same bits for the same arguments
    shapes         [(batch, heads, heads_kv, queries, keys), ...] that get kernels of their own where others are better there
    sram_budget, tuning, cache_dir, use_cache, and the schedule's fields (tile_q, warps, ...): as CompileOptions in attune/Compile.h

    Raises attune.Error: of the variant at the user's line; of what the target lacks; of NVRTC.
    """
    return Kernel(variant, *compiled(variant, head_dim=head_dim, target=target, **options))


def compiled(variant, *, target=None, **options):
    """The kernel without what Kernel adds, and its options."""
    options = _options(variant, **options)
    return _core.compile(variant._core, options, target), options


@public
def emit(variant, stage, *, target=None, **options):
    """The text of a stage of the compilation, "dsl", "attn", "tile", "sched", "llvm", "cuda" or "ptx"; of "cubin" the bytes."""
    options = _options(variant, **options)
    result = _core.emit(variant._core, options, target, stage)
    return result if stage == "cubin" else result.decode()


@public
def explain(variant, *, target=None, **options):
    """The cost model's ranking and the plan, as explain() in attune/Compile.h describes it."""
    options = _options(variant, **options)
    return json.loads(_core.explain(variant._core, options, target))


class Kernel:
    """A compiled variant: kernel(q, k, v). It serves every batch, number of heads, length and stride; may be used from any number of threads."""

    def __init__(self, variant, core, options):
        self._core = core
        self._backward = core.backward() if options.gradients is not None else None
        self._has_lse = "lse" in core.operands
        self._captured = {name: readable(array) for name, array in variant.arrays.items()}
        self._arrays = dict(variant.arrays)
        self._tensors = frozenset(name for name, _, _ in variant.tensors)
        self._scalars = frozenset(name for name, _ in variant.scalars)
        self._gradients = tuple(options.gradients.tensors) if options.gradients is not None else ()
        self._lse_gradient = options.gradients is not None and options.gradients.lse
        self._head_dim_v = options.head_dim_v or options.head_dim
        self._on_cpu = core.device == "cpu"
        self._plain = not (self._tensors or self._scalars)
        self._needs_view = options.dtype == "bf16" or any(dtype == "bf16" for _, dtype, _ in variant.tensors)
        self._values = _core.LaunchValues(None, 0, 0, None, 0 if self._on_cpu else None)

    @property
    def name(self):
        return self._core.name

    @property
    def device(self):
        """"cpu" or "cuda:0"."""
        return self._core.device

    @property
    def cache_hit(self):
        return self._core.cache_hit

    @property
    def cuda(self):
        """The generated CUDA C++; empty on the CPU."""
        return self._core.cuda

    @property
    def plan(self):
        """Tiles, buffers and cost, as `attune explain --json` has them."""
        return json.loads(self._core.plan)

    def __repr__(self):
        return f"<attune.Kernel {self.name} on {self.device}>"

    @public
    def __call__(self, q, k, v, *, return_lse=False, out=None, dropout=None, seed=0, offset=0, q_offset=None, stream=None, **captured):
        """O of q [B, H, Sq, D], k [B, Hkv, Sk, D] and v [B, Hkv, Sk, Dv]; with `return_lse` (O, LSE), LSE float32 [B, H, Sq].

        Arrays of NumPy, PyTorch, CuPy or JAX, of the kernel's dtype, with any strides whose last is 1; O is of q's kind and order of dimensions, or
        `out`. Captured tensors and run-time scalars go by name. `dropout` is the probability, of this call; the same `seed` and `offset` drop
        the same elements. On a GPU the work is enqueued on `stream` (a handle), or on the current stream of PyTorch or CuPy.
        """
        tensors, scalars = ({}, {}) if self._plain and not captured else self._bound(captured)
        o = self._output(q) if out is None else out
        operands = {"q": q, "k": k, "v": v, "o": o}
        lse = None
        if return_lse:
            if not self._has_lse:
                fail(f"kernel \"{self.name}\" has no LSE, as its normaliser has none; leave return_lse out")
            lse = operands["lse"] = empty_like(q, tuple(q.shape[:3]), "float32")
        self._launch(self._core, operands, tensors, scalars, self._values_of(q, dropout, seed, offset, q_offset, stream), q)
        if out is None:
            o = returned(o, q)
        return (o, returned(lse, q)) if return_lse else o

    @public
    def backward(self, q, k, v, o, lse, do, *, dlse=None, dropout=None, seed=0, offset=0, q_offset=None, stream=None, **captured):
        """The Gradients of a call with these arguments: `o` and `lse` as it gave them (`lse` None without softmax), `do` the gradient of O, and with
        lse_gradient `dlse` that of LSE. Captured tensors, scalars, dropout, seed and offset are those of the call."""
        if self._backward is None:
            fail(f"kernel \"{self.name}\" has no backward pass; pass gradients=[] to attune.compile, or the names of captured tensors")
        if (dlse is not None) != self._lse_gradient:
            fail("dlse is given, but the kernel does not take it; pass lse_gradient=True to attune.compile" if dlse is not None else
                 "dlse is missing, which attune.compile was told of by lse_gradient=True; pass the gradient of LSE")
        tensors, scalars = self._bound(captured)
        arrays = {**self._arrays, **captured}
        given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do, "dlse": dlse}
        made = {"dq": (q, empty_like(q)), "dk": (k, empty_like(k)), "dv": (v, empty_like(v))}
        for name in self._gradients:
            if name not in arrays:
                fail(f"captured tensor \"{name}\" is missing; pass {name}=array")
            made["grads." + name] = (arrays[name], empty_like(arrays[name]))
        operands = {}
        for name in self._backward.operands:
            value = made[name][1] if name in made else given.get(name)
            if value is None:
                fail(f"{name} is missing, which the backward pass of kernel \"{self.name}\" takes; call the kernel with return_lse=True")
            operands[name] = value
        self._launch(self._backward, operands, tensors, scalars, self._values_of(q, dropout, seed, offset, q_offset, stream), q)
        results = {name: returned(memory, like) for name, (like, memory) in made.items()}
        return Gradients(results["dq"], results["dk"], results["dv"], {name: results["grads." + name] for name in self._gradients})

    def _launch(self, core, operands, tensors, scalars, values, like):
        if type(like).__module__ != "numpy":
            operands = {name: exported(readable(array)) for name, array in operands.items()}
        elif self._needs_view:
            operands = {name: readable(array) for name, array in operands.items()}
        if tensors:
            tensors = {name: exported(array) for name, array in tensors.items()}
        core.launch(operands, tensors, scalars, values, lambda size: exported(empty_like(like, ((size + 3) // 4,), "int32")),
                    contiguous)

    def _output(self, q):
        if len(q.shape) != 4:
            fail(f"q has {len(q.shape)} dimensions, but must have 4: [B, H, Sq, D]")
        return empty_like(q, None if q.shape[3] == self._head_dim_v else (*q.shape[:3], self._head_dim_v))

    def _bound(self, captured):
        """Captured tensors and scalars of a call by name."""
        tensors, scalars = dict(self._captured), {}
        for name, value in captured.items():
            if name in self._tensors:
                tensors[name] = readable(value)
            elif name in self._scalars:
                scalars[name] = value
            else:
                fail(f"kernel \"{self.name}\" takes no \"{name}\"; it reads {_listed(sorted(self._tensors | self._scalars))}")
        return tensors, scalars

    def _values_of(self, q, dropout, seed, offset, q_offset, stream):
        if stream is None:
            stream = 0 if self._on_cpu else current_stream(q)
        if dropout is None and q_offset is None and not (seed or offset or stream):
            return self._values
        try:
            return _core.LaunchValues(dropout, seed, offset, q_offset, stream)
        except TypeError:
            fail(f"dropout {dropout!r}, seed {seed!r}, offset {offset!r}, q_offset {q_offset!r} and stream {stream!r} must be a number, two integers "
                 "from 0 to 2**64 - 1, an integer of 32 bits and a stream's handle")
