"""What users do wrong, to the letter: text, file and line."""
import inspect
import math
import os
import pathlib
import signal
import subprocess
import sys
import traceback
import unittest

try:
    import numpy as np
except ImportError:
    print("NumPy is missing: pip install -r python/requirements.txt")
    sys.exit(77)

import attune

NO_TRUTH = ("a traced value is neither true nor false before the kernel runs, so that if, and, or, not, min, max and a < b < c cannot decide by it; "
            "write (a < b) & (b < c), |, ~, attune.where(condition, a, b), attune.minimum or attune.maximum")
NO_NUMBER = "a traced value has no number before the kernel runs; use attune's functions, such as attune.exp(x), and attune.cast(x, \"i32\")"
LINES = pathlib.Path(__file__).read_text().splitlines()
Q = np.zeros((1, 2, 4, 8), np.float32)


class Errors(unittest.TestCase):
    def refused(self, message, action, at=None):
        """`at`: the text of the line of this file that the error points at."""
        with self.assertRaises(attune.Error) as caught:
            action()
        error = caught.exception
        self.assertEqual(error.message, message)
        if at is not None:
            self.assertEqual(error.file, __file__)
            self.assertIn(at, LINES[error.line - 1])
            self.assertTrue(str(error).startswith(f"{__file__}:{error.line}"))
            self.assertIn(f": error: {message}\n", str(error))
        return error

    def test_truth(self):
        def mask(b, h, q, k):
            return q >= k and q - k < 5
        error = self.refused(NO_TRUTH, lambda: attune.Variant(mask=mask), "q >= k and q - k < 5")
        if sys.version_info >= (3, 11):
            line = inspect.getsource(mask).splitlines()[1]
            self.assertEqual(str(error), f"{__file__}:{error.line}:{error.column}: error: {NO_TRUTH}\n{line}\n{' ' * (error.column - 1)}^")
            self.assertEqual(line[error.column - 1:].split(" ")[0], "q")
        for wrong in (lambda b, h, q, k: 0 <= q - k < 5, lambda b, h, q, k: q >= k or k < 2, lambda b, h, q, k: not q >= k):
            self.refused(NO_TRUTH, lambda: attune.Variant(mask=wrong), "for wrong in")
        self.refused(NO_TRUTH, lambda: attune.Variant(lambda s, b, h, q, k: max(s, 0)), "max(s, 0)")

    def test_patterns(self):
        self.refused("tiles and window of sta are (time, height, width), but got 3 and 2 numbers", lambda: attune.sta(4, (2, 2, 2), (1, 1)), "attune.sta(4")
        self.refused("window of natten is 4, but must be odd and positive; use 5", lambda: attune.Variant(mask=attune.natten(8, 8, 4)), "attune.natten(8")

    def test_searchsorted(self):
        offsets, table = np.zeros(5, np.int64), np.zeros((2, 5), np.float32)
        self.refused("searchsorted of \"offsets\", whose elements are i64, takes an i64, but got i32; convert with cast(x, i64)",
                     lambda: attune.Variant(mask=lambda b, h, q, k: attune.searchsorted(offsets, q) > 0), "lambda: attune.Variant(mask=")
        self.refused("searchsorted takes a tensor of rank 1, but \"table\" has rank 2; bind the vector as a tensor of its own",
                     lambda: attune.Variant(mask=lambda b, h, q, k: attune.searchsorted(table, 1.0) > 0), "lambda: attune.Variant(mask=")
        whole = "searchsorted takes a whole tensor, then x: searchsorted(offsets, q), of an array of the function's own variables or attune.tensor(name, dtype)"
        self.refused(whole, lambda: attune.Variant(mask=lambda b, h, q, k: attune.searchsorted(q, 1) > 0), "attune.searchsorted(q, 1)")
        self.refused(whole, lambda: attune.Variant(mask=lambda b, h, q, k: attune.searchsorted(table[h], 1.0) > 0), "attune.searchsorted(table[h], 1.0)")
        self.refused("side 'up' names no side; write side=\"left\" or side=\"right\"",
                     lambda: attune.Variant(mask=lambda b, h, q, k: attune.searchsorted(offsets, 1, side="up") > 0), "side=\"up\"")

    def frames(self, action):
        """Of the traceback of the error: the function and whether its file is this one."""
        try:
            action()
        except Exception as error:
            return [(frame.name, frame.filename == __file__) for frame in traceback.extract_tb(error.__traceback__)]
        self.fail("nothing is raised")

    def test_tracebacks(self):
        def helper(q):
            return 1 if q > 3 else 2

        def score(s, b, h, q, k):
            return s + helper(q)

        def misspelt(s, b, h, q, k):
            return s + slops[h]  # noqa: F821
        user = [("frames", True), ("<lambda>", True), ("call", False)]
        self.assertEqual(self.frames(lambda: attune.Variant(score)), [*user, ("score", True), ("helper", True)])
        self.assertEqual(self.frames(lambda: attune.Variant(misspelt)), [*user, ("misspelt", True)])
        variant = attune.Variant(mask=attune.causal())
        self.assertEqual(self.frames(lambda: attune.compile(variant, head_dim=100, target="cpu")), user)
        kernel = attune.compile(variant, head_dim=8, dtype="f32", target="cpu")
        self.assertEqual(self.frames(lambda: kernel(Q, Q, Q[:, :1].astype(np.float16))), user)

    def test_command_into_head(self):
        command = [sys.executable, "-c", "import attune.__main__, sys; sys.argv = ['attune', 'run', '--help']; sys.exit(attune.__main__.main())"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            child.stdout.close()  # as head does when it has its lines
            self.assertEqual(child.stderr.read(), b"")
        self.assertEqual(child.returncode, -signal.SIGPIPE)

    def test_numbers(self):
        self.refused(NO_NUMBER, lambda: attune.Variant(lambda s, b, h, q, k: math.exp(s)), "math.exp(s)")
        self.refused("numpy.arcsin is not part of expressions; use operators and attune's functions",
                     lambda: attune.Variant(lambda s, b, h, q, k: np.arcsin(s)), "np.arctan(s)")
        self.refused("'x' is of type str, but expressions are made of numbers, bools, attune.tensor and attune.scalar",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + "x"), "s + \"x\"")
        self.refused("constant 9223372036854775808 does not fit in i64; use one from -2**63 to 2**63 - 1",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + 2**63), "s + 2**63")

    def test_types(self):
        self.refused("types that do not mix: bool + f32; convert the bool with cast(x, i32) or choose by select(c, a, b)",
                     lambda: attune.Variant(lambda s, b, h, q, k: (q < k) + s), "(q < k) + s")
        self.refused("operator // takes integers, but got f32 // i32; convert with attune.cast(x, \"i32\"), which rounds towards zero",
                     lambda: attune.Variant(lambda s, b, h, q, k: s // 2), "s // 2")
        self.refused("operator % takes integers, but got f32 % i32; convert with attune.cast(x, \"i32\"), which rounds towards zero",
                     lambda: attune.Variant(lambda s, b, h, q, k: s % 2), "s % 2")
        self.refused("mask of variant \"variant\" is i32, but must be bool; compare it, for example x != 0",
                     lambda: attune.Variant(mask=lambda b, h, q, k: q - k), "mask=lambda b, h, q, k: q - k")

    def test_functions(self):
        def score(s, b, h, q, k):
            s + 1
        self.refused("score returns nothing, but must return an expression; add return", lambda: attune.Variant(score), "def score(s, b, h, q, k)")
        self.refused("mask takes 2 arguments, but is called with 4: b, h, q, k", lambda: attune.Variant(mask=lambda q, k: q >= k), "lambda q, k: q >= k")
        self.refused("score is of type int, but must be a function of (s, b, h, q, k)", lambda: attune.Variant(3), "attune.Variant(3)")

    def test_tensors(self):
        table = attune.tensor("table", "f32", 2)
        self.refused("tensor \"table\" has rank 2, but is used with 1 index; write table[i][j]",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + table[h]), "s + table[h]")
        self.refused("index 1 of tensor \"table\" is f32, but must be i32 or i64; convert with cast(x, i32)",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + table[s, k]), "s + table[s, k]")
        self.refused("tensor name \"q\" is reserved; use a name other than s b h q k B H Sq Sk",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + attune.tensor("q")[h]), "attune.tensor(\"q\")[h]")
        self.refused("tensor \"t\" is float64, but must be f32, f16, bf16, i32, i64 or bool; convert it",
                     lambda: attune.tensor("t", "float64"), "attune.tensor(\"t\", \"float64\")")
        wide = np.zeros(2)
        self.refused("captured array \"wide\" is float64, but must be float32, float16, bfloat16, int32, int64 or bool; convert it",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + wide[h]))
        slopes = np.zeros(2, np.float32)
        self.refused("an array is no value of an expression; index it, for example slopes[h], or declare it by attune.tensor(name, dtype, rank)",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + np.float32([1, 2])), "np.float32([1, 2])")
        self.refused("tensor \"slopes\" has rank 1, but is used with 0 indices; write slopes[i]",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + slopes), "s + slopes)")

        class Model:
            slopes = np.zeros(2, np.float32)
        self.refused("a traced value cannot become an array, nor index one that attune does not know; index arrays of the function's own variables, "
                     "closure or module by it, or attune.tensor(name, dtype, rank)",
                     lambda: attune.Variant(lambda s, b, h, q, k: s + Model.slopes[h]), "Model.slopes[h]")
        self.refused(NO_NUMBER, lambda: attune.Variant(lambda s, b, h, q, k: s + [1, 2][h]), "[1, 2][h]")

    def test_two_arrays_of_one_name(self):
        def score():
            ids = np.zeros(4, np.int32)
            return lambda s, b, h, q, k: s + ids[q]

        def mask():
            ids = np.zeros(4, np.int32)
            return lambda b, h, q, k: ids[q] == ids[k]
        self.refused("two captured arrays are called \"ids\"; give one of the variables another name", lambda: attune.Variant(score(), mask()), "attune.Variant(score(), mask())")

    def test_variants(self):
        self.refused("dropout probability 1.5 is outside [0, 1); use the fraction to drop, for example 0.1", lambda: attune.Variant(dropout=1.5), "dropout=1.5")
        self.refused("scale is 'x', but must be a number", lambda: attune.Variant(scale="x"), "scale=\"x\"")
        self.refused("blocks must be (pattern, rows, columns): a bool array or attune.tensor(...), and the rows and columns of a block",
                     lambda: attune.Variant(blocks=np.ones((1, 1), bool)), "blocks=np.ones")
        self.refused("variant name \"a b\" is not an identifier; use letters, digits and underscores, and no digit first",
                     lambda: attune.Variant(name="a b"), "name=\"a b\"")
        self.refused("sink \"sink\" is i32 of rank 1, but must be f32 of rank 1, a logit for each head",
                     lambda: attune.Variant(sink=np.zeros(2, np.int32)), "sink=np.zeros(2, np.int32)")

    def test_compiling(self):
        variant = attune.Variant(name="plain")
        self.refused("head_dim 20 is not a multiple of 8; pad the last dimension to 24", lambda: attune.compile(variant, head_dim=20, target="cpu"), "head_dim=20")
        self.refused("head_dim is 'a', but must be an integer of 32 bits", lambda: attune.compile(variant, head_dim="a", target="cpu"), "head_dim=\"a\"")
        self.refused("persistent is 2, but must be True or False", lambda: attune.compile(variant, head_dim=8, target="cpu", persistent=2), "persistent=2")
        self.refused("shapes is [3], but must be a list of (batch, heads, heads_kv, queries, keys)",
                     lambda: attune.compile(variant, head_dim=8, target="cpu", shapes=[3]), "shapes=[3]")
        with self.assertRaises(attune.Error) as caught:
            attune.compile(variant, head_dim=8, target="sm_77")
        valid = caught.exception.message.removeprefix("architecture 'sm_77' is unknown; valid are ")
        self.assertRegex(valid, "^sm_80, .*, cpu$")
        self.refused(f"architecture 'SM_90' is unknown; valid are {valid}; did you mean sm_90?", lambda: attune.compile(variant, head_dim=8, target="SM_90"), "target=\"SM_90\"")
        self.refused("dtype \"f8\" is none of f32, f16, bf16, i32, i64 and bool", lambda: attune.compile(variant, head_dim=8, dtype="f8", target="cpu"), "dtype=\"f8\"")
        self.refused("attune.compile has no option \"tiles\"; schedules are fixed by tile_q, tile_k, warps, stages, q_registers, dv_warps, "
                     "blocks_per_sm, longest_first, persistent, query_stages, ping_pong, overlap, stage_biases, pack_gqa, split_keys",
                     lambda: attune.compile(variant, head_dim=8, target="cpu", tiles=3), "tiles=3")
        self.refused("the gradient of \"slopes\" is asked for, but variant \"plain\" reads no captured tensors",
                     lambda: attune.compile(variant, head_dim=8, gradients=["slopes"], target="cpu"), "gradients=[\"slopes\"]")
        self.refused("lse_gradient and deterministic are of the backward pass; pass gradients=[], or the names of captured tensors",
                     lambda: attune.compile(variant, head_dim=8, deterministic=True, target="cpu"), "deterministic=True, target")

    def test_a_compilers_error(self):
        ids = np.zeros(4, np.int32)
        variant = attune.Variant(lambda s, b, h, q, k: s + ids[q])
        self.refused("the gradient of 'ids' is asked for, whose elements are i32; only tensors of floats have one",
                     lambda: attune.compile(variant, head_dim=8, gradients=["ids"], target="cpu"), "gradients=[\"ids\"], target")

    def test_lines_in_the_ir(self):
        def score(s, b, h, q, k):
            doubled = s * 2
            return doubled + h
        line = score.__code__.co_firstlineno
        text = attune.emit(attune.Variant(score), "attn", head_dim=8, target="cpu")
        for offset in (1, 2):
            self.assertIn(f"loc(\"{__file__}\":{line + offset}:", text)

    def test_calls(self):
        slopes = np.zeros(2, np.float32)
        kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: s + slopes[h] * k, name="alibi"), head_dim=8, dtype="f32", target="cpu")
        self.refused("captured tensor 'slopes' has 2 elements in dimension 0 and is indexed by h, but H is 4; pass at least 4, or write "
                     "clamped(slopes[h]) where reading the last element is meant", lambda: kernel(*[np.zeros((1, 4, 4, 8), np.float32)] * 3), "[np.zeros(")
        self.refused("kernel \"alibi\" takes no \"slope\"; it reads \"slopes\"", lambda: kernel(Q, Q, Q, slope=slopes), "slope=slopes")
        self.refused("kernel \"alibi\" has no backward pass; pass gradients=[] to attune.compile, or the names of captured tensors",
                     lambda: kernel.backward(Q, Q, Q, Q, None, Q), "kernel.backward")
        self.refused("q has 3 dimensions, but must have 4: [B, H, Sq, D]", lambda: kernel(Q[0], Q[0], Q[0]), "Q[0], Q[0]")
        self.refused("k is float64, but arrays are float32, float16, bfloat16, int32, int64 or bool; convert it", lambda: kernel(Q, Q.astype(np.float64), Q))
        self.refused("k is of type list, but must be an array of NumPy, PyTorch, CuPy or JAX, or have __dlpack__", lambda: kernel(Q, Q.tolist(), Q), "Q.tolist()")
        plain = attune.compile(attune.Variant(normaliser="sigmoid", name="weights"), head_dim=8, dtype="f32", target="cpu", gradients=[])
        self.refused("kernel \"weights\" has no LSE, as its normaliser has none; leave return_lse out", lambda: plain(Q, Q, Q, return_lse=True))
        self.refused("dlse is given, but the kernel does not take it; pass lse_gradient=True to attune.compile",
                     lambda: plain.backward(Q, Q, Q, Q, None, Q, dlse=Q[..., 0]))
        self.refused("dropout None, seed -1, offset 0, q_offset None and stream 0 must be a number, two integers from 0 to 2**64 - 1, an integer of "
                     "32 bits and a stream's handle", lambda: kernel(Q, Q, Q, seed=-1), "seed=-1")
        count = attune.scalar("count", "i32")
        scalar = attune.compile(attune.Variant(lambda s, b, h, q, k: s + count), head_dim=8, dtype="f32", target="cpu")
        self.refused("scalar 'count' is 2.5, but must be an integer", lambda: scalar(Q, Q, Q, count=2.5), "count=2.5")
        self.refused("scalar 'count' is 2147483648, but must be an integer of 32 bits", lambda: scalar(Q, Q, Q, count=2**31))

    def test_arrays_whose_values_are_not_their_memory(self):
        slopes = np.ones(2, np.float32)
        kernel = attune.compile(attune.Variant(lambda s, b, h, q, k: s + slopes[h] * k), head_dim=8, dtype="f32", target="cpu")
        masked, swapped = Q.view(np.ma.MaskedArray), Q.astype(">f4")
        of_masks = " is a MaskedArray, whose mask kernels do not read; pass array.filled(value), and say by the variant's mask what is hidden"
        of_bytes = " is float32 with its bytes swapped, but must be of this machine's order; write array.astype(array.dtype.newbyteorder(\"=\"))"
        for at, name in enumerate("qkv"):
            self.refused(name + of_masks, lambda: kernel(*[masked if i == at else Q for i in range(3)]), "[masked if i == at")
            self.refused(name + of_bytes, lambda: kernel(*[swapped if i == at else Q for i in range(3)]), "[swapped if i == at")
        self.refused("captured tensor 'slopes'" + of_masks, lambda: kernel(Q, Q, Q, slopes=np.ma.masked_array(slopes)), "np.ma.masked_array(slopes)")
        self.refused("captured tensor 'slopes'" + of_bytes, lambda: kernel(Q, Q, Q, slopes=slopes.astype(">f4")), "slopes.astype")
        for dtype in ("datetime64[s]", "object", "complex64"):
            self.refused(f"k is {dtype}, but arrays are float32, float16, bfloat16, int32, int64 or bool; convert it", lambda: kernel(Q, Q.astype(dtype), Q))
        self.refused("captured tensor 'slopes' has extent 0 in dimension 0; every extent is at least 1", lambda: kernel(Q, Q, Q, slopes=slopes[:0]))

    def test_command_line(self):
        run = lambda *words: subprocess.run([sys.executable, "-m", "attune", *words], capture_output=True, text=True, env=os.environ)
        done = run("compile", "--mask", "q >= k and k > 2", "--head-dim", "64")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("mask:1:8: error: \"and\" is not part of expressions; write &&\n"), done.stderr)
        self.assertEqual(run("--version").stdout.split()[1], attune.__version__)


if __name__ == "__main__":
    unittest.main()
