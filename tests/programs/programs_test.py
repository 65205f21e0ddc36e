#!/usr/bin/env python3
"""Runs programs in tile text, planned by the compiler, and compares them with NumPy in float64: on the CPU target, in the simulator of
schedules for several architectures, and on the GPU where there is one.

    programs_test.py build/bin/attune
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ATTUNE = sys.argv.pop(1)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIMULATED = ("sm_80", "sm_90a")


def bf16(values):
    """`values` rounded to bfloat16, as float32."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def attention_inputs(random, batch, heads, tokens):
    return {name: bf16(random.standard_normal((batch, heads, tokens, 64))) for name in "qkv"}


def linear_attention(data, decay=0.0):
    q, k, v = (data[name].astype(float) for name in "qkv")
    distance = np.arange(q.shape[2])[:, None] - np.arange(k.shape[2])
    weights = np.where(distance >= 0, np.exp(np.where(distance >= 0, distance, 0) * np.reshape(decay, (1, -1, 1, 1))), 0)
    return (q @ k.swapaxes(2, 3) * weights) @ v


def softmax_attention(data):
    q, k, v = (data[name].astype(float) for name in "qkv")
    scores = q @ k.swapaxes(2, 3) * 0.125
    weights = np.exp(scores - scores.max(3, keepdims=True))
    return weights / weights.sum(3, keepdims=True) @ v


class Programs(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(7)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def attune(self, *args, code=0):
        done = subprocess.run([ATTUNE, *args], capture_output=True, text=True, env=dict(os.environ, ATTUNE_CACHE_DIR=self.folder))
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def save(self, name, values):
        path = os.path.join(self.folder, name + ".npy")
        np.save(path, values)
        return path

    def check(self, program, operands, tensors, expected):
        """`program`: a path in the sources, or text. `expected`: name and values of what the program writes."""
        path = os.path.join(ROOT, program)
        if "\n" in program:
            path = os.path.join(self.folder, "program.mlir")
            with open(path, "w") as file:
                file.write(program)
        flags = []
        for name, values in operands.items():
            flags += ["--operand", f"{name}={self.save(name, values)}"]
        for name, (dtype, values) in tensors.items():
            flags += ["--tensor", f"{name}={dtype}:{self.save(name, values)}"]
        name, values = expected
        flags += ["--expect", f"{name}={self.save(name, values)}", "--tolerance", "0.004"]
        targets = [("--target", "cpu", "--repeats", "1")] + [("--arch", arch, "--simulate", "3") for arch in SIMULATED]
        if os.environ.get("ATTUNE_EXPECT_GPU"):
            targets += [("--target", "gpu"), ("--arch", "sm_90")]
        for target in targets:
            with self.subTest(program=program, target=target):
                self.assertIn(f"right          {name}", self.attune("run", path, *target, *flags))
        # What is compared decides: a wrong value fails.
        self.save(name, values + 0.1 * np.abs(values).max())
        self.assertIn(f"error: {name} differs from what is expected", self.attune("run", path, *targets[0], *flags, code=1))

    def test_linear_attention(self):
        for batch, heads, tokens in ((1, 2, 1), (1, 2, 65), (2, 1, 200)):
            data = attention_inputs(self.random, batch, heads, tokens)
            self.check("examples/programs/linear_attention.mlir", data, {}, ("o", linear_attention(data)))

    def test_retention(self):
        data = attention_inputs(self.random, 1, 2, 200)
        rate = np.array([-0.01, -0.2], np.float32)
        self.check("tests/programs/retention.mlir", data, {"rate": ("f32", rate)}, ("o", linear_attention(data, rate.astype(float))))

    def test_two_passes(self):
        data = attention_inputs(self.random, 1, 2, 150)
        self.check("tests/programs/two_passes.mlir", data, {}, ("o", softmax_attention(data)))

    def test_two_passes_with_roles(self):
        """Two loops over the tiles of keys that a search finds; persistent blocks; rings of different depths."""
        with open(os.path.join(ROOT, "tests/programs/two_passes.mlir")) as file:
            text = file.read()
        roles = 'sched.roles = [#sched.role<"producer", warps 4>, #sched.role<"consumer", warps 4>]'
        plan = " dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {%s"
        searched = text.replace("[%c0, %tiles) full\n", """[%c0, %tiles) full where {
  ^bb0(%n: i32):
    %there = tile.element %list[%n] in_range [false] : !tile.view<1, i8> (i32) -> i1
    tile.yield %there, %full : i1, i1
  }
""").replace("  %c0 =", '  %full = arith.constant true\n  %list = tile.param "tensors.list" : !tile.view<1, i8>\n  %c0 =', 1)
        deep = text.split("iter_args(%sum")
        deep = deep[0] + "iter_args(%sum" + deep[1].replace("limit %tokens :", "limit %tokens {sched.ring = #sched.ring<stages 3>} :", 1)
        data = attention_inputs(self.random, 2, 3, 330)
        there = np.array([1, 0, 1, 0, 0, 1], bool)
        keys = np.repeat(there, 64)[:330]
        masked = softmax_attention({"q": data["q"], "k": data["k"][:, :, keys], "v": data["v"][:, :, keys]})
        # Both loops pass over the first tile, and nothing is over the domain of all tiles.
        late = text.replace("  %least =", "  %c1 = arith.constant 1 : i32\n  %late = tile.domain k by 64 [%c1, %tiles) full\n  %least =").replace("in %domain", "in %late")
        without_first = softmax_attention({"q": data["q"], "k": data["k"][:, :, 64:], "v": data["v"][:, :, 64:]})
        tensors = "tensors = [#attn.tensor<list, i8, rank 1>]"
        for program, given, expected in (
            (late.replace(" dtype bf16", plan % ("sched.persistent, " + roles + "}")), {}, without_first),
            (deep.replace(" dtype bf16", plan % ("sched.persistent, " + roles + "}")), {}, softmax_attention(data)),
            (searched.replace(" dtype bf16", " dtype bf16 attributes {" + tensors + "}"), {"list": ("bool", there)}, masked),
            (searched.replace(" dtype bf16", plan % ("sched.persistent, " + roles + ", " + tensors + "}")), {"list": ("bool", there)}, masked),
            (text.replace(" dtype bf16", " dtype bf16 attributes {" + roles + "}"), {}, softmax_attention(data)),  # planned around the roles
        ):
            self.check(program, data, given, ("o", expected))
            self.assertIn("wgmma", self.attune("compile", os.path.join(self.folder, "program.mlir"), "--arch", "sm_90a", "--emit", "cuda"))

    def test_products_outside_loops(self):
        """A product after the loop, and a projection of the queries before two loops."""
        x, w, u = (bf16(0.2 * self.random.standard_normal(shape)) for shape in ((2, 3, 100, 64), (2, 3, 64, 64), (2, 2, 64, 64)))
        hidden = np.maximum(np.einsum("bnqr,bnre->bqe", x.astype(float), w.astype(float)), 0)
        self.check("tests/programs/two_layers.mlir", {"x": x, "w": w, "u": u}, {}, ("y", np.einsum("bqe,bcef->bcqf", hidden, u.astype(float))))
        with open(os.path.join(ROOT, "tests/programs/two_passes.mlir")) as file:
            text = file.read()
        for old, new in (
            ("q: in [b, h, q, d 64]", "w: in [b, h, r 64, d 64] bf16, q: in [b, h, q, r 64]"),
            ('  %K = tile.param "k"', '  %W = tile.param "w" : !tile.view<4, bf16>\n  %K = tile.param "k"'),
            ("%queries = tile.load %Q[%b, %h, %row] limit %rows : !tile.view<4, bf16> -> !tile.tile<q 64 x d 64, bf16, shared>", """%inputs = tile.load %Q[%b, %h, %row] limit %rows : !tile.view<4, bf16> -> !tile.tile<q 64 x r 64, bf16, shared>
  %w = tile.load %W[%b, %h, %c0] limit %c64 : !tile.view<4, bf16> -> !tile.tile<r 64 x d 64, bf16, shared>
  %projected = tile.mma %inputs, %w : !tile.tile<q 64 x r 64, bf16, shared>, !tile.tile<r 64 x d 64, bf16, shared> -> !tile.tile<q 64 x d 64, f32, register>
  %queries = tile.convert %projected : !tile.tile<q 64 x d 64, f32, register> -> !tile.tile<q 64 x d 64, bf16, register>"""),
            ("%queries, %keys : !tile.tile<q 64 x d 64, bf16, shared>", "%queries, %keys : !tile.tile<q 64 x d 64, bf16, register>"),
        ):
            self.assertIn(old, text)
            text = text.replace(old, new)
        data = attention_inputs(self.random, 1, 2, 150)
        data["w"] = bf16(0.1 * self.random.standard_normal((1, 2, 64, 64)))
        self.check(text, data, {}, ("o", softmax_attention({**data, "q": bf16(data["q"].astype(float) @ data["w"])})))
        self.assertIn("wgmma", self.attune("compile", os.path.join(self.folder, "program.mlir"), "--arch", "sm_90a", "--emit", "cuda"))

    def test_block_sparse_product(self):
        x = bf16(self.random.standard_normal((2, 5, 100, 64)))
        w = bf16(0.1 * self.random.standard_normal((5, 3, 64, 64)))
        blocks = self.random.random((5, 3)) < 0.6
        blocks[:, 1] = False  # a column of the result without any block
        y = np.maximum(np.einsum("bnqr,nmre,nm->bmqe", x.astype(float), w.astype(float), blocks.astype(float)), 0)
        self.check("examples/programs/block_sparse_product.mlir", {"x": x, "w": w}, {"blocks": ("bool", blocks)}, ("y", y))

    def test_plans(self):
        """Programs without a plan use the products that the architecture has."""
        for program in ("examples/programs/linear_attention.mlir", "examples/programs/block_sparse_product.mlir", "tests/programs/retention.mlir", "tests/programs/two_passes.mlir", "tests/programs/two_layers.mlir"):
            for arch, product in (("sm_80", "mma.sync"), ("sm_90", "mma.sync"), ("sm_90a", "wgmma"), ("sm_100", "mma.sync"), ("sm_121", "mma.sync")):
                with self.subTest(program=program, arch=arch):
                    cuda = self.attune("compile", os.path.join(ROOT, program), "--arch", arch, "--emit", "cuda")
                    self.assertEqual("wgmma" in cuda, product == "wgmma")

    def test_explain(self):
        """Counts of a launch follow from the sizes: four products of 64 x 64 x 64 a chunk, and every tensor read or written once."""
        explained = self.attune("explain", os.path.join(ROOT, "examples/programs/linear_attention.mlir"), "--arch", "sm_90a", "--extents", "b=2,h=3,q=640,k=640")
        self.assertRegex(explained, r"blocks +6 ")
        self.assertRegex(explained, r"products +%s GFLOP" % f"{6 * 10 * 4 * 2 * 64**3 / 1e9:.4g}")
        self.assertRegex(explained, r"read +%s MB" % f"{3 * 6 * 640 * 64 * 2 / 1e6:.4g}")
        self.assertRegex(explained, r"written +%s MB" % f"{6 * 640 * 64 * 2 / 1e6:.4g}")
        ranking = json.loads(self.attune("explain", os.path.join(ROOT, "tests/programs/two_passes.mlir"), "--arch", "sm_90a", "--extents", "b=4,h=16,q=2048,k=2048", "--json"))["plans"]
        self.assertTrue(all(plan["microseconds"] > 0 for plan in ranking))
        self.assertIn("producer", ranking[0]["plan"])

    def test_tune(self):
        path, tuned = os.path.join(ROOT, "examples/programs/linear_attention.mlir"), os.path.join(self.folder, "tuned.mlir")
        extents = ("--extents", "b=1,h=2,q=130,k=130")
        timed = json.loads(self.attune("tune", path, "--target", "cpu", *extents, "--output", tuned, "--json"))["candidates"]
        self.assertEqual([plan["chosenByModel"] for plan in timed], [True])
        data = attention_inputs(self.random, 1, 2, 130)
        with open(tuned) as file:
            text = file.read()
        self.assertIn("plan <", text)
        self.check(text, data, {}, ("o", linear_attention(data)))
        times = os.path.join(self.folder, "times.json")
        self.assertIn(f"written        {times}", self.attune("tune", path, "--target", "cpu", *extents, "--times", times))
        with open(times) as file:
            written = json.load(file)
        self.assertEqual(written["extents"], {"b": 1, "h": 2, "k": 130, "q": 130})
        self.assertEqual(written["plans"][0]["kernels"], {"linear_attention": {"warps": 1, "producerWarps": 0, "stages": 0, "blocksPerSm": 1}})
        self.assertGreater(written["plans"][0]["seconds"], 0)
        with open(path) as file:
            self.assertEqual(written["text"], file.read())
        self.assertIn("the text gives the plans of all its kernels", self.attune("tune", tuned, "--target", "cpu", *extents, code=1))
        self.assertIn("a program's sizes are --extents; leave out --shape", self.attune("tune", path, "--target", "cpu", *extents, "--shape", "1,1,1,1,1,64,64", code=2))
        self.assertIn("axis h of operand q has no extent", self.attune("tune", path, "--target", "cpu", "--extents", "b=1,q=3,k=3", code=2))
        self.assertIn("--output is for programs in tile text", self.attune("tune", "causal", "--target", "cpu", "--shape", "1,1,1,8,8,8,8", "--output", tuned, code=2))
        self.assertIn("--times is for programs in tile text", self.attune("tune", "causal", "--target", "cpu", "--shape", "1,1,1,8,8,8,8", "--times", times, code=2))
        self.assertIn("--extents is for programs in tile text", self.attune("explain", "causal", "--arch", "sm_80", "--extents", "b=1", code=2))

    def test_errors(self):
        path = os.path.join(ROOT, "examples/programs/block_sparse_product.mlir")
        x = self.save("x", np.zeros((2, 5, 100, 64), np.float32))
        short = self.save("short", np.zeros((2, 5, 64), np.float32))
        cases = {
            ("run", path, "--target", "cpu", "--extents", "z=3"): "--extents z=3: the program's axes without a fixed size are b, n, q, m\n",
            ("run", path, "--target", "cpu", "--extents", "b=-1"): "--extents b=-1: -1 is not a whole number from 0 to 2147483647\n",
            ("run", path, "--target", "cpu", "--extents", "b"): "--extents b: write for example b=2,k=1024\n",
            ("run", path, "--target", "cpu", "--operand", "z=random"): "--operand z=random: the program has the operands x, w, y\n",
            ("run", path, "--target", "cpu", "--operand", "y=random"): "--operand y=random: the program writes y; compare it by --expect y=PATH.npy\n",
            ("run", path, "--target", "cpu", "--operand", "x=some"): "--operand x=some: 'some' is not random, zeros, ones, LO..HI or a .npy file\n",
            ("run", path, "--target", "cpu", "--operand", f"x={short}"): f"{short} holds [2, 5, 64], operand x has 4 axes\n",
            ("run", path, "--target", "cpu", "--operand", f"x={x}", "--extents", "b=3"): f"{x} holds [2, 5, 100, 64], axis b of operand x is 3\n",
            ("run", path, "--target", "cpu", "--operand", f"x={x}"):
                "axis m of operand w has no extent; add --extents m=N, or data by --operand w=PATH.npy\n",
            ("run", path, "--target", "cpu", "--operand", f"x={x}", "--extents", "m=2", "--tensor", "blocks=bool[5,2]:ones", "--expect", f"y={short}"):
                f"{short} holds [2, 5, 64], y is [2, 2, 100, 64]\n",
            ("run", path, "--target", "cpu", "--shape", "1,1,1,1,1,8,8"): f"{path} is a program without head dims; give the extents of its axes by --extents, and leave out --shape and --head-dim\n",
            ("run", os.path.join(ROOT, "examples/programs/linear_attention.mlir"), "--target", "cpu", "--extents", "b=1,h=1,q=64,k=64", "--shape", "1,1,1,64,64,64,64"):
                "a program's sizes and inputs are --extents and --operand; leave out",
            ("run", "causal", "--target", "cpu", "--extents", "b=1"): "--extents, --operand, --expect and --tolerance are for programs in tile or sched text",
        }
        for args, text in cases.items():
            with self.subTest(args=args):
                self.assertIn("error: " + text, self.attune(*args, code=2))
        self.assertIn("captured tensor blocks has no data", self.attune("run", path, "--target", "cpu", "--operand", f"x={x}", "--extents", "m=2", code=1))


if __name__ == "__main__":
    unittest.main()
