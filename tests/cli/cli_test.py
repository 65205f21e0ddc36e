#!/usr/bin/env python3
"""Runs `attune` as a user would. Needs only Python's standard library.

    python3 tests/cli/cli_test.py build/bin/attune [Cli.test_NAME]
"""
import json
import math
import os
import re
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
import zlib

ATTUNE = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "build/bin/attune"


def read_npy(path):
    """Shape and flat values of a float32, int32 or bool .npy file."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:6] == b"\x93NUMPY"
    size = struct.unpack_from("<H", data, 8)[0]
    header = eval(data[10 : 10 + size])
    code = {"<f4": "f", "<i4": "i", "|b1": "?"}[header["descr"]]
    count = math.prod(header["shape"])
    return header["shape"], struct.unpack_from(f"<{count}{code}", data, 10 + size)


def read_json(path):
    with open(path) as file:
        return json.load(file)


def read_text(path):
    with open(path) as file:
        return file.read()


def write_npy(path, shape, values, descr="<f4"):
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * ((64 - (len(header) + 11) % 64) % 64) + b"\n"
    code = {"<f4": "f", "<f8": "d", "<i4": "i"}[descr]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{len(values)}{code}", *values))


def attention(folder, score, visible):
    """O and LSE of a dump, recomputed here. Returns the largest differences."""
    meta = read_json(os.path.join(folder, "meta.json"))
    e = meta["extents"]
    load = lambda name: read_npy(os.path.join(folder, name + ".npy"))[1]
    q, k, v, o, lse = map(load, ["q", "k", "v", "o", "lse"])
    keep = load("keep") if "dropout" in meta else None
    worst, worst_lse = 0.0, 0.0
    group = e["H"] // e["Hkv"]
    for b in range(e["B"]):
        for h in range(e["H"]):
            for i in range(e["Sq"]):
                row = (b * e["H"] + h) * e["Sq"] + i
                scores = []
                for j in range(e["Sk"]):
                    key = (b * e["Hkv"] + h // group) * e["Sk"] + j
                    s = meta["scale"] * sum(
                        q[row * e["D"] + d] * k[key * e["D"] + d] for d in range(e["D"])
                    )
                    scores.append(score(s, b, h, i, j) if visible(b, h, i, j) else -math.inf)
                top = max(scores, default=-math.inf)
                if top == -math.inf:
                    assert lse[row] == -math.inf
                    expected = [0.0] * e["Dv"]
                else:
                    total = sum(math.exp(x - top) for x in scores)
                    worst_lse = max(worst_lse, abs(lse[row] - top - math.log(total)))
                    expected = [0.0] * e["Dv"]
                    for j, x in enumerate(scores):
                        p = math.exp(x - top) / total
                        if keep is not None:
                            p = p * meta["dropout"]["keepScale"] if keep[row * e["Sk"] + j] else 0.0
                        key = (b * e["Hkv"] + h // group) * e["Sk"] + j
                        for d in range(e["Dv"]):
                            expected[d] += p * v[key * e["Dv"] + d]
                for d in range(e["Dv"]):
                    worst = max(worst, abs(o[row * e["Dv"] + d] - expected[d]))
    return worst, worst_lse


def without_places(cuda):
    """CUDA text without what it says of where its variant was written."""
    return "\n".join(line for line in cuda.splitlines() if not line.startswith("//"))


def without_locations(text):
    return re.sub(r" loc\(.*?\)$|^#loc.*\n", "", text, flags=re.M)


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        cls.environment = dict(os.environ, ATTUNE_CACHE_DIR=os.path.join(cls.folder, "cache"))

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)
        return self.path(name)

    def attune(self, *args, code=0, environment={}, **options):
        done = subprocess.run([ATTUNE, *map(str, args)], capture_output=True, env={**self.environment, **environment}, timeout=300, **options)
        self.out, self.err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"{args}\n{self.out}\n{self.err}")
        if code:
            self.assertIn("error: ", self.err)
        return self.out

    def json(self, *args, code=0):
        return json.loads(self.attune(*args, "--json", code=code))

    def has_nvrtc(self):
        return subprocess.run([ATTUNE, "compile", "causal", "--arch", "sm_80", "--head-dim", "64", "--emit", "ptx"], capture_output=True, env=self.environment,
                              timeout=300).returncode == 0

    # ---- verbs, help, version

    def test_version(self):
        self.assertTrue(self.attune("--version").startswith("attune 0.2.0 (build "))
        self.assertEqual(self.json("--version")["version"], "0.2.0")

    def test_demo_prints_what_can_be_pasted(self):
        demo = read_text(os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "demo"))
        show = re.search(r"(?ms)^show\(\) \{.*?^\}", demo).group()
        words = ["softcap(s, 50) + slopes[h] * (k - q)", "it's", "a  b", "$HOME", "slopes=f32:x.npy", "", "*", "--arch", "q >= k", "\\"]
        shown = subprocess.run(["bash", "-c", show + "\nshow true \"$@\"", "-", *words], capture_output=True, text=True, check=True).stdout
        self.assertTrue(shown.startswith("$ true "))
        again = subprocess.run(["bash", "-c", "printf '%s\\0' " + shown[len("$ true "):]], capture_output=True, text=True, check=True).stdout
        self.assertEqual(again.split("\0")[:-1], words)

    def test_help(self):
        for verb in [["list"], ["compile"], ["run"], ["explain"], ["show"], ["tune"], ["export"], ["cache"], ["cache", "list"], ["cache", "clear"],
                     ["cache", "verify"], ["cache", "plans"], ["cache", "show"], ["cache", "remove"], ["cache", "export"], ["cache", "import"]]:
            self.assertIn("Example", self.attune(*verb, "--help"))
        self.assertIn("Exit codes", self.attune("--help"))

    def test_help_verb(self):
        self.assertEqual(self.attune("help"), self.attune("--help"))
        for verb in [["list"], ["compile"], ["run"], ["explain"], ["cache"], ["completion"], ["help"], ["cache", "verify"]]:
            with self.subTest(verb=verb):
                # --help alone names the verb without attune.
                self.assertEqual(self.attune("help", *verb), self.attune(*verb, "--help"))
        table = dict(line.split(None, 1) for line in self.attune("help", "environment").splitlines())
        self.assertEqual(sorted(table), ["ATTUNE_CACHE_DIR", "ATTUNE_LOG", "ATTUNE_NUM_THREADS", "ATTUNE_NVRTC_PATH", "CUDA_HOME", "CUDA_PATH", "HOME",
                                         "NVTX_INJECTION64_PATH", "TMPDIR", "VIRTUAL_ENV", "XDG_CACHE_HOME"])
        self.attune("help", "paint", code=2)
        self.assertIn("error: topic: paint not in {list,compile,run,explain,show,tune,export,cache,clear,verify,plans,remove,import,completion,help,environment}\n", self.err)
        self.attune("help", "run", "list", code=2)
        self.assertIn("error: help: attune run has no verb list\n", self.err)

    def completions(self, *words):
        """What bash offers behind these words, the last of which is begun."""
        script = ('source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _attune; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "-", ATTUNE, "attune", *words], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_completion(self):
        variants = [entry["name"] for entry in self.json("list")["variants"]]
        self.assertEqual(self.completions(""), ["list", "compile", "run", "explain", "show", "tune", "export", "cache", "completion", "help"])
        self.assertEqual(self.completions("c"), ["compile", "cache", "completion"])
        self.assertEqual(self.completions("run", ""), variants)
        self.assertEqual(self.completions("compile", "--no-cache", "caus"), ["causal", "causal-bottom-right"])
        self.assertEqual(self.completions("run", "causal", "--ta"), ["--target"])
        self.assertEqual(self.completions("run", "causal", "--target", ""), ["cpu", "gpu"])
        self.assertEqual(self.completions("run", "causal", "--target", "=", "g"), ["gpu"])
        self.assertEqual(self.completions("run", "causal", "--target", "="), ["cpu", "gpu"])
        self.assertEqual(self.completions("compile", "--arch", "sm_9"), ["sm_90", "sm_90a"])
        self.assertEqual(self.completions("compile", "--emit", "c"), ["cuda", "cubin"])
        self.assertEqual(self.completions("compile", "-o", "x"), []) # files follow
        self.assertEqual(self.completions("compile", "--emit", "cuda", "--json", "--bu"), [])
        self.assertEqual(self.completions("cache", ""), ["list", "clear", "verify", "plans", "show", "remove", "export", "import"])
        self.assertEqual(self.completions("cache", "list", "-"), ["--help", "-h", "--cache-dir", "--json"])
        self.assertEqual(self.completions("help", "env"), ["environment"])
        self.assertEqual(self.completions("completion", ""), ["bash", "zsh", "fish"])
        # Every option that --help shows is offered, once.
        for verb in ["compile", "run", "explain", "tune"]:
            offered = self.completions(verb, "--")
            shown = re.findall(r"^ +(?:-\w,)?(--[\w-]+)", self.attune(verb, "--help"), re.M)
            self.assertEqual(sorted(offered), sorted(set(shown)))
            self.assertEqual(len(offered), len(set(offered)))
        registered = subprocess.run(["bash", "-c", f"source <({ATTUNE} completion bash); complete -p attune"], capture_output=True, text=True)
        self.assertEqual(registered.stdout, "complete -o default -F _attune attune\n")
        zsh = self.attune("completion", "zsh")
        self.assertTrue(zsh.startswith("#compdef attune\nautoload -U +X bashcompinit && bashcompinit\n_attune() {\n"))
        fish = self.attune("completion", "fish")
        self.assertIn("complete -c attune -n '__attune_at run' -l target -x -a 'cpu gpu' -d 'cpu or gpu; the GPU where there is one'\n", fish)
        self.assertIn("complete -c attune -n '__attune_at cache' -f -a verify\n", fish)
        for shell, text in [("zsh", zsh), ("fish", fish)]:
            if shutil.which(shell):
                checked = subprocess.run([shell, "-n", self.write(f"completion.{shell}", text)], capture_output=True, text=True)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.attune("completion", "tcsh", code=2)
        self.assertIn("error: shell: tcsh not in {bash,zsh,fish}\n", self.err)

    def logged(self, level, *args):
        self.environment["ATTUNE_LOG"] = level
        try:
            self.attune(*args)
        finally:
            del self.environment["ATTUNE_LOG"]
        return self.err.splitlines()

    def test_log(self):
        compiling = ["compile", "causal", "--arch", "cpu", "--dtype", "f32", "--head-dim", 40]
        missed, llvm = self.logged("info", *compiling)
        self.assertRegex(missed, rf"^attune: info: not in the cache: {self.path('cache')}/[0-9a-f]{{64}}\.attune$")
        self.assertRegex(llvm, r"^attune: info: LLVM compiled causal in [0-9.]+ ms: [0-9]+ bytes$")
        (hit,) = self.logged("info", *compiling)
        # By the plan that was chosen.
        entry = re.fullmatch(rf"attune: info: causal for cpu from the cache: ({self.path('cache')}/[0-9a-f]{{64}}\.attune)", hit).group(1)
        self.assertTrue(os.path.exists(entry))
        for level in ["", "off", "warning"]:
            self.assertEqual(self.logged(level, *compiling), [])
        passes = [re.fullmatch(r"attune: debug: pass ([a-z-]+): [0-9]+\.[0-9]{2} ms", line) for line in self.logged("debug", *compiling, "--no-cache")]
        self.assertIn("attn-tile-size", [line.group(1) for line in passes if line])
        launches = self.logged("debug", "run", "causal", "--target", "cpu", "--shape", "2,4,2,100,70,16,16", "--repeats", 1)
        self.assertIn("attune: debug: launch causal for cpu: tiles 64 x 128, 16 blocks of 1 threads, B 2 H 4 Hkv 2 Sq 100 Sk 70", launches)
        self.assertEqual(self.logged("loud", *compiling), ["attune: warning: ATTUNE_LOG is 'loud'; use off, warning, info or debug"])
        # A bad entry is a warning, which off silences.
        for level, lines in [("off", 0), ("warning", 1)]:
            with open(entry, "r+b") as file:
                file.seek(200)
                file.write(b"damage")
            self.assertEqual(len(self.logged(level, *compiling)), lines)

    def test_print_after_all(self):
        compiling = ["compile", "causal", "--head-dim", 64, "--print-after-all"]
        out = self.attune(*compiling, "--arch", "cpu")
        self.assertNotIn("IR Dump", out)
        dumps = re.findall(r"IR Dump After \w+ \(([a-z-]+)\)", self.err)
        self.assertEqual(dumps.count("attn-tile-size"), 1)
        self.assertEqual(dumps[-1], "tile-schedule-blocks")
        self.assertIn("attn.attention @causal", self.err)
        self.assertIn("tile.kernel @causal", self.err)
        tile = self.attune(*compiling, "--arch", "sm_80", "--emit", "tile")
        dumps = re.findall(r"IR Dump After \w+ \(([a-z-]+)\)", self.err)
        self.assertEqual(dumps.count("attn-tile-size"), 1)
        self.assertEqual(tile, self.attune("compile", "causal", "--head-dim", 64, "--arch", "sm_80", "--emit", "tile"))
        self.assertEqual(self.err, "")

    def test_tile_text_of_parts_runs_on_the_cpu(self):
        """Text for a GPU whose mask is computed by parts of a tile gives right gradients on the CPU."""
        self.attune("compile", "bigbird", "--block", 32, "--backward", "--head-dim", 64, "--arch", "sm_80", "--emit", "tile",
                    "-o", self.path("parts.mlir"))
        with open(self.path("parts.mlir")) as text:
            self.assertTrue("tile.bits" in text.read())
        self.attune("run", self.path("parts.mlir"), "--target", "cpu", "--shape", "1,2,1,200,200,64,64")

    def test_list(self):
        self.assertIn("sliding-window", self.attune("list"))
        names = [entry["name"] for entry in self.json("list")["variants"]]
        self.assertIn("causal", names)

    # ---- usage errors: exit code 2, nothing on standard output

    def test_usage(self):
        cases = {
            (): "no verb",
            ("paint",): "paint",
            ("run", "paint"): "'paint' is neither a built-in variant nor a file; the built-ins are plain, causal,",
            ("run", "--dtype", "f64"): "error: --dtype: f64 is not one of f16 bf16 f32, which Q, K and V may be; write f32 and convert the data: "
                                       "kernels compute in float32\n",
            ("run", "--dtype", "float16"): "error: --dtype: float16 is not one of f16 bf16 f32, which Q, K and V may be; write f16\n",
            ("run", "--dtype", "i32"): "error: --dtype: i32 is not one of f16 bf16 f32, which Q, K and V may be\n",
            ("run", "--shape", "1,2,3"): "--shape 1,2,3 has 3 sizes, required are 7",
            ("run", "--shape", "1,3,2,8,8,64,64"): "H 3 is not a multiple of Hkv 2",
            ("run", "--shape", "1,2,2,8,8,64,64", "--head-dim", "32"): "--head-dim 32 contradicts the shape, which has 64",
            ("run", "causal", "--cap", "30"): '"cap" is not a parameter of causal',
            ("run", "--cap", "30"): "--cap is a parameter of a built-in variant",
            ("run", "--tensor", "q=f32[4]:random"): 'tensor name "q" is reserved; use a name other than s b h q k B H Sq Sk',
            ("run", "--tensor", "x=f32:random"): "random needs [DIMS]",
            ("run", "--tensor", "x=f64[4]:random"): "'f64' is not one of f32 bf16 f16 i32 i64 bool; write f32 and convert the data: kernels compute in float32; write NAME=",
            ("run", "--tensor", "x"): "there is no '='",
            ("run", "--tensor", "x=f32[4]:noise"): "error: --tensor x=f32[4]:noise: 'noise' is not random, zeros, ones, a range or a .npy file; write "
                                                   "NAME=DTYPE[DIMS]:random|zeros|ones|LO..HI|PATH.npy, for example slopes=f32[8]:random\n",
            ("run", "--tensor", "x=f32:ones"): "--tensor x=f32:ones: ones needs [DIMS]; write",
            ("run", "--tensor", "x=f32:0..1"): "--tensor x=f32:0..1: 0..1 needs [DIMS]; write",
            ("run", "--tensor", "x=f32[4]:a..1"): ": 'a..1' is not a range of two numbers, such as -1..1; write",
            ("run", "--tensor", "x=f32[4]:0.."): ": '0..' is not a range of two numbers, such as -1..1; write",
            ("run", "--tensor", "x=f32[4]:0..inf"): ": '0..inf' is not a range of two numbers, such as -1..1; write",
            ("run", "--tensor", "x=f32[4]:2..-2"): ": the range 2..-2 is empty; its lesser end comes first; write",
            ("run", "--tensor", "x=i32[4]:0..1.5"): ": the range 0..1.5 ends at fractions, but i32 holds whole numbers; write",
            ("run", "--tensor", "x=i32[4]:0..3000000000"): ": the range 0..3000000000 goes beyond -2147483648..2147483647, the widest of i32; write",
            ("run", "--tensor", "x=i64[4]:0..9e18"): ": the range 0..9e18 goes beyond -4503599627370496..4503599627370495, the widest of i64; write",
            ("run", "--tensor", "x=f16[4]:0..1e5"): ": the range 0..1e5 goes beyond -65504..65504, the widest of f16; write",
            ("run", "--tensor", "x=bool[4]:0..2"): ": the range 0..2 goes beyond 0..1, the widest of bool; write",
            ("run", "--q", "q.npy"): "--q, --k and --v go together",
            ("run", "documents", "--tensor", "foo=i32[8]:zeros"): "--tensor foo: documents reads no captured tensor of that name; it reads ids",
            ("run", "causal", "--scalar", "n=5"): "--scalar n: causal reads no run-time scalar of that name; it reads none",
            ("run", "--dropout", "1.5"): "error: --dropout 1.5 is outside [0, 1); use the fraction to drop, for example 0.1",
            ("run", "--seed", "-1"): "--seed: -1 is not a whole number from 0 to 18446744073709551615",
            ("run", "--offset", "1e3"): "--offset: 1e3 is not a whole number from 0 to",
            ("run", "--repeats", "0"): "--repeats: 0 is not a whole number from 1 to 1000000",
            ("run", "--simulate", "0"): "--simulate: 0 is not a whole number from 1 to 1000000",
            ("explain", "causal", "--tuning", "measure"): "--tuning: measure is not one of off cached",
            ("explain", "causal", "--measure"): "--measure runs the kernel, and needs its sizes; add --shape",
            ("explain", "causal", "--svg", "x.svg"): "--svg draws a sweep or a roofline; add --sweep or --roofline",
            ("explain", "causal", "--sweep", "density"): "--sweep density needs a block pattern; explain block-sparse, or a variant with one",
            ("explain", "causal", "--sweep", "length", "--roofline"): "--sweep and --roofline are two pictures; ask for one at a time",
            ("show", "causal"): "a mask has tiles for sizes; add --shape",
            ("show", "causal", "--shape", "1,2,2,64,64,64,64", "--head", "2"): "--batch 0 and --head 2 are not within 1 batches and 2 heads",
            ("show", "causal", "--shape", "1,2,2,64,64,64,64", "-o", "mask.gif"): "mask.gif is no picture; use a name that ends in .txt, .svg or .png",
            ("show", "causal", "--shape", "1,2,2,64,64,64,64", "--tile-q", "8"): "--tile-q: 8 is not a whole number from 16 to 1048576",
            ("explain", "--candidates", "-2"): "--candidates: -2 is not a whole number from 0 to 1000000",
            ("run", "--scale", "1e50"): "--scale 1e+50 is not finite; write a number, for example 0.125",
            ("run", "softcap", "--cap", "nan"): "error: parameter cap of softcap is nan, but must be a number; write one\n",
            ("run", "--head-dim", "abc"): "error: --head-dim: abc is not a whole number of 32 bits\n",
            ("run", "--paged", "99999999999"): "error: --paged: 99999999999 is not a whole number of 32 bits\n",
            ("run", "--dropout", "abc"): "error: --dropout: abc is not a number\n",
            ("run", "softcap", "--cap", "x"): "error: --cap: x is not a number\n",
            ("run", "--persistent", "maybe"): "error: --persistent: maybe is not true or false\n",
            ("compile", "--dropout"): "error: --dropout has no value; write --dropout P\n",
            ("compile", "--emit"): "error: --emit has no value; write --emit TEXT\n",
            ("run", "--scale", "nan"): "--scale nan is not finite; write a number, for example 0.125",
            ("run", "causal", "--q", "/", "--k", "x.npy", "--v", "x.npy"): "/: is a directory; name a .npy file",
            ("run", "missing.json"): "missing.json cannot be read: No such file or directory",
            ("compile", "causal", "--emit", "cubin"): "--emit cubin needs -o PATH; a cubin is binary",
            ("compile", "causal", "-o", "x"): "-o needs --emit",
            ("compile", "causal", "--arch", "sm_12"): "sm_12",
            ("cache",): "subcommand",
            ("export", "causal", "-o", "x"): "--arch is required",
            ("export", "causal", "--arch", "sm_80"): "--output is required",
            ("export", "causal", "--arch", "sm_80,cpu", "-o", "x"): "--arch cpu: only CUDA kernels can be exported; name architectures such as sm_80,sm_90a",
            ("export", "causal", "--arch", "sm_80,sm_80", "-o", "x", "--no-cache"): "there are two kernels for sm_80; name each architecture once",
            ("export", "causal", "--arch", "sm_80", "-o", "x", "--name", "my kernel"): "'my kernel' is not a name in C; use letters, digits and _, and no keyword or macro",
        }
        for args, text in cases.items():
            with self.subTest(args=args):
                self.assertEqual(self.attune(*args, code=2), "")
                self.assertIn(text, self.err)

    def test_tune(self):
        cache = ["--cache-dir", self.path("tuned")]
        shape = ["--target", "cpu", "--dtype", "f32", "--shape", "1,2,1,64,64,16,16"]
        # Where standard error is no terminal there is a line each five seconds.
        text = self.attune("tune", "causal", *shape, "--candidates", 4, "--top", 0, *cache)
        self.assertRegex(text, r"^1,2,1,64,64,16,16  class h2 q64 k64\n  timed          4 of [0-9]+ legal plans in [0-9.]+ s\n +[0-9.]+ us [0-9x ]+"
                               r"(, last rows first)?; the cost model's choice for any size\n  best           [01]\.[0-9]{3} of the time of the cost model's choice\n$")
        self.assertEqual(self.err, "")
        measured = self.json("tune", "causal", *shape, "--candidates", 4, *cache)["results"][0]
        self.assertEqual((measured["sizeClass"], measured["resumed"], len(measured["candidates"])), ("h2 q64 k64", False, 4))
        self.assertEqual([c["text"] for c in measured["candidates"] if c["chosenByModel"]].__len__(), 1)
        again = self.json("tune", "causal", *shape, "--resume", *cache)["results"][0]
        self.assertTrue(again["resumed"])
        self.assertEqual([c["microseconds"] for c in again["candidates"]], [c["microseconds"] for c in measured["candidates"]])
        # Captured tensors as run takes them.
        self.attune("tune", "alibi", *shape, "--candidates", 2, *cache)
        plans = self.json("cache", "plans", *cache)
        self.assertEqual(sorted(entry["provenance"]["variant"] for entry in plans["entries"]), ["alibi", "causal"])
        name = plans["entries"][0]["id"]
        self.assertIn("  device         ", self.attune("cache", "show", name[:10], *cache))
        self.attune("cache", "export", self.path("plans.json"), *cache)
        self.assertIn("removed 1 measured sizes", self.attune("cache", "remove", name, *cache))
        self.attune("cache", "show", name, *cache, code=1)
        self.assertIn(f"error: no measured plan in {self.path('tuned')}/plans has a name that begins with {name}; attune cache plans lists them\n", self.err)
        self.assertIn("2 measured sizes to ", self.attune("cache", "import", self.path("plans.json"), *cache))
        self.assertEqual(len(self.json("cache", "plans", *cache)["entries"]), 2)
        self.write("other.json", "{}")
        self.attune("cache", "import", self.path("other.json"), *cache, code=1)
        self.assertIn("other.json: it is not what attune cache plans export writes", self.err)
        # The backward pass, whose plan names both loops.
        text = self.attune("tune", "causal", "--backward", "--deterministic", *shape, "--candidates", 2, "--budget", 1, "--top", 0, *cache)
        self.assertRegex(text, r"\n +[0-9.]+ us dK, dV [0-9x ]+, first keys first; dQ [0-9x ]+, last rows first; the cost model's choice for any size\n")
        backward = self.json("tune", "causal", "--backward", "--deterministic", *shape, "--resume", *cache)
        self.assertEqual((backward["pass"], backward["results"][0]["resumed"]), ("backward", True))
        line = next(line for line in self.attune("cache", "plans", *cache).splitlines() if "causal, backward" in line)
        self.assertIn("  dK, dV ", line)
        self.assertIn("  program        backward deterministic 1 ", self.attune("cache", "show", line.split()[0], *cache))
        self.assertIn("removed 1 measured sizes", self.attune("cache", "remove", line.split()[0], *cache))
        self.attune("tune", "causal", "--deterministic", *shape, *cache, code=2)
        # What run starts.
        best = measured["candidates"][0]["text"].removesuffix(", last rows first")
        self.assertEqual(self.json("run", "causal", *shape, *cache)["plan"]["text"], best)
        self.json("run", "causal", *shape, *cache, "--prepare", "--tuning", "off")
        self.json("run", "causal", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,32,32,16,16", *cache, "--tuning", "measure")
        self.assertEqual(len(self.json("cache", "plans", *cache)["entries"]), 3)

    def test_show_elements(self):
        shape = ["--shape", "1,2,2,300,300,64,64"]
        shown = self.attune("show", "--mask", "q >= k && (q - k < 20 || k < 4)", *shape, "--at", "130,120").splitlines()
        self.assertEqual(shown[1], "  query 130, key 120 is visible, in a tile of 128 x 128 from query 128 and key 0 that is partial")
        rows = dict(line.split()[:2] for line in shown[3:])
        self.assertEqual(rows["130"], "." * (111 - 88) + "#" * 20 + "." * (152 - 131))
        at = self.json("show", "documents", "--tensor", "ids=i32[300]:0..1", *shape, "--at", "299,0", "--seed", 5)
        self.assertEqual((at["firstQuery"], at["firstKey"], at["queries"], at["keys"], at["tile"]), (268, 0, 32, 64, "partial"))
        with tempfile.TemporaryDirectory() as folder:
            self.attune("show", "causal", *shape, "--at", "5,5", "-o", os.path.join(folder, "x.svg"))
            self.assertIn("<svg", pathlib.Path(folder, "x.svg").read_text())
        for bad in ["5", "5,", "300,0", "0,300", "-1,0", "5,5,5"]:
            self.attune("show", "causal", *shape, "--at", bad, code=2)
            self.assertIn("is no element; it takes Q,K of queries below 300 and keys below 300", self.err)

    def test_show(self):
        shape = ["--shape", "2,2,2,256,320,64,64", "--tile-q", 64, "--tile-k", 64]
        shown = self.attune("show", "causal", *shape).splitlines()
        self.assertEqual(shown, ["causal, B 2 H 2 Sq 256 Sk 320, tiles of 64 x 64", "  visits 40 of 80 tiles (50.0%), 16 masked",
                                 "  every head: # full, + partial, . empty; first query, tiles visited in a row",
                                 "          0 +.... 1", "         64 #+... 2", "        128 ##+.. 3", "        192 ###+. 4"])
        shown = self.json("show", "block-sparse", "--rows", 64, "--columns", 64, *shape, "--head", 1, "--tensor", "pattern=bool[2,4,5]:random", "--seed", 3)
        self.assertEqual([len(row) for row in shown["rows"]], [5] * 4)
        self.assertEqual((shown["all"], shown["h"], shown["partial"]), (80, 1, 0))
        self.assertTrue(0 < shown["visited"] < 80)
        with tempfile.TemporaryDirectory() as folder:
            text, svg, png = (os.path.join(folder, "mask." + suffix) for suffix in ["txt", "svg", "png"])
            for path in [text, svg, png]:
                self.assertIn(f"every head: {path}", self.attune("show", "causal", *shape, "-o", path))
            self.assertEqual(pathlib.Path(text).read_text().splitlines()[1], "         64 #+... 2")
            xml.etree.ElementTree.parse(svg)
            image = pathlib.Path(png).read_bytes()
            self.assertEqual(image[:8], b"\x89PNG\r\n\x1a\n")
            width, height = struct.unpack(">II", image[16:24])
            at, pixels = 8, b""
            while at < len(image):
                length, kind = struct.unpack(">I4s", image[at:at + 8])
                content = image[at + 8:at + 8 + length]
                self.assertEqual(struct.unpack(">I", image[at + 8 + length:at + 12 + length])[0], zlib.crc32(kind + content))
                pixels += content if kind == b"IDAT" else b""
                at += 12 + length
            lines = zlib.decompress(pixels)
            self.assertEqual(len(lines), height * (width + 1))
            square = width // 5
            grey = lambda row, column: lines[row * square * (width + 1) + 1 + column * square]
            self.assertEqual([grey(1, column) for column in range(5)], [30, 145, 255, 255, 255])
        self.attune("show", "documents", "--shape", "1,1,1,64,64,64,64", "--tensor", "ids=i32", code=1)
        self.assertIn("error: captured tensor ids has no data; add --tensor ids=i32[N]:random or a .npy file\n", self.err)

    def test_searchsorted(self):
        """Packed documents by the offsets at which they begin."""
        offsets, mask = self.path("offsets.npy"), "searchsorted(offsets, q, right) == searchsorted(offsets, k, right)"
        write_npy(offsets, (5,), [0, 64, 100, 100, 192], "<i4")
        given = ["--mask", mask, "--tensor", f"offsets=i32:{offsets}"]
        folder = self.path("searched")
        result = self.json("run", *given, "--dtype", "f32", "--target", "cpu", "--shape", "1,2,1,150,150,16,16", "--dump", folder)
        self.assertTrue(result["check"]["o"]["pass"] and result["check"]["lse"]["pass"])
        document = lambda i: sum(begin <= i for begin in [0, 64, 100, 100, 192])
        o, lse = attention(folder, lambda s, b, h, q, k: s, lambda b, h, q, k: document(q) == document(k))
        self.assertLess(max(o, lse), 1e-4)
        shown = self.attune("show", *given, "--shape", "1,1,1,256,256,64,64", "--tile-q", 32, "--tile-k", 32)
        self.assertIn("visits 20 of 64 tiles", shown)
        write_npy(offsets, (3,), [0, 64, 32], "<i4")
        self.attune("run", "--mask", "searchsorted(offsets, q) > 0", "--checked", "--tensor", f"offsets=i32:{offsets}", "--target", "cpu", "--shape", "1,1,1,64,64,64,64", code=1)
        self.assertIn("mask:1:1: error: searchsorted(offsets, q) searches a vector in ascending order, but element 2 of captured tensor 'offsets' is less "
                      "than element 1; sort the vector\nsearchsorted(offsets, q) > 0\n^", self.err)
        self.attune("run", "--mask", "searchsorted(offset, q) == 0", "--tensor", f"offsets=i32:{offsets}", "--shape", "1,1,1,64,64,64,64", code=1)
        self.assertIn("mask:1:14: error: unknown tensor \"offset\"; did you mean offsets?\nsearchsorted(offset, q) == 0\n             ^", self.err)
        self.attune("run", "--mask", "searchsorted(offsets, 1.5) == 0", "--tensor", f"offsets=i32:{offsets}", "--shape", "1,1,1,64,64,64,64", code=1)
        self.assertIn("searchsorted of \"offsets\", whose elements are i32, takes an i32, but got f32; convert with cast(x, i32)", self.err)
        for arch in ("sm_80", "sm_90a"):
            cuda = self.attune("compile", *given[:2], "--tensor", "offsets=i32[5]", "--arch", arch, "--head-dim", 64, "--emit", "cuda")
            self.assertIn("search_sorted<load_i32, true>(", cuda)

    def test_scalar(self):
        shape = ["--shape", "1,1,1,512,512,64,64"]
        def visited(width, *scalar):
            return self.json("show", "--mask", f"q >= k && q - k < {width}", *scalar, *shape)["visited"]
        # Loops are bounded by a scalar as by a literal, a float too.
        self.assertEqual(visited("W", "--scalar", "W=128"), visited(128))
        self.assertEqual(visited("W", "--scalar", "W=i64:128"), visited(128))
        self.assertEqual(visited("W", "--scalar", "W=128.0"), visited(128))
        self.assertEqual(visited("W", "--scalar", "W=127.5"), visited(128))
        self.assertEqual(self.json("show", "--mask", "q / n == k / n", "--scalar", "n=128", *shape)["visited"], 4)
        run = ["run", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,64,64,16,16"]
        warning = ("warning: period is an i32, as 7 is, and is divided as integers are, towards 0; write --scalar period=7.0 for a float, or period=i32:7 "
                   "where that is meant\n")
        for value, warns in [("7", True), ("7.0", False), ("i32:7", False), ("f32:7", False)]:
            with self.subTest(value=value):
                self.attune(*run, "--score", "s * (1 / period)", "--scalar", f"period={value}")
                self.assertEqual(warning in self.err, warns)
        self.attune(*run, "--score", "s / period", "--scalar", "period=7") # a float over an integer is a float
        self.assertEqual(self.err, "")
        # A variant that declares its scalar converts to its dtype, and takes no other value.
        file = self.path("scaled.json")
        pathlib.Path(file).write_text(json.dumps({"name": "scaled", "score": "s * (1 / period)", "scalars": {"period": {"dtype": "f32"}}}))
        self.attune(*run, file, "--scalar", "period=7")
        self.assertEqual(self.err, "")
        self.attune(*run, file, "--scalar", "period=i32:7", code=2)
        self.assertIn("error: --scalar period=i32:7 contradicts the variant, which declares f32; leave out the dtype\n", self.err)
        for scalar, text in [("W=i16:3", "a scalar is f32, i32, i64 or bool, not i16"), ("W=i32:2.5", "W is no i32, whose values are whole numbers from -2147483648 to 2147483647"),
                             ("W=3000000000", "W is no i32"), ("W=", "is not NAME=VALUE or NAME=DTYPE:VALUE"), ("1W=3", "'1W' is no name"), ("W=x", "is not NAME=VALUE")]:
            with self.subTest(scalar=scalar):
                self.attune("show", "--mask", "q - k < W", "--scalar", scalar, *shape, code=2)
                self.assertIn(text, self.err)
        self.attune("show", "--mask", "q - k < W", "--scalar", "W=3", "--scalar", "W=4", *shape, code=2)
        self.assertIn("error: --scalar W is given twice; leave out one\n", self.err)

    def test_masks_that_intervals_do_not_follow(self):
        explain = ["--arch", "sm_90a", "--head-dim", 64, "--shape", "1,2,2,1024,1024,64,64", "--tile-q", 128, "--tile-k", 128]
        visited = sum((q ^ k) % 7 == 0 for q in range(8) for k in range(8))
        # What follows from quotients is computed for each part of a tile, without a kernel that evaluates elements.
        mask = "((q / 128) ^ (k / 128)) % 7 == 0 && (q - k) % 4 == 0"
        plan = self.json("explain", "--mask", mask, *explain)["plan"]
        self.assertEqual(plan["traffic"]["visitedTiles"], 2 * visited)
        self.assertEqual([remark[:45] for remark in plan["remarks"]], ["the condition at mask:1:49 leaves out no tile"])
        mask = "((q ^ k) / 128) % 7 == 0 && (q - k) % 4 == 0"
        plan = self.json("explain", "--mask", mask, *explain)["plan"]
        self.assertEqual(plan["traffic"]["visitedTiles"], 2 * visited)
        remarks = " ".join(plan["remarks"])
        self.assertIn("the condition at mask:1:21 is of queries and keys in a way that intervals do not follow", remarks)
        self.assertIn("the condition at mask:1:41 leaves out no tile", remarks)
        # A few keys at an end are no table worth, also where the end is a sequence's own.
        for lengths in [], ["--lengths"]:
            plan = self.json("explain", "--mask", "k < Sk - 8 || ((parents[q] >> (k - Sk + 8)) & 1) == 1", "--tensor", "parents=i32[1024]:0..255", *lengths, *explain)["plan"]
            self.assertEqual(plan["remarks"], ["the condition at mask:1:12 leaves out no tile: it holds for all but a few, which are visited"])
        plan = self.json("explain", "--mask", "k < Sk - 8 * 128 || ((parents[q] >> (k & 7)) & 1) == 1", "--tensor", "parents=i32[1024]:0..255", *explain)["plan"]
        self.assertIn("in a way that intervals do not follow", plan["remarks"][0])
        # What a run visits is by its own data.
        run = self.json("run", "--mask", "table[q, k]", "--tensor", "table=bool[256,256]:zeros", "--target", "cpu", "--shape", "1,1,1,256,256,64,64")
        self.assertEqual(run["plan"]["traffic"]["visitedTiles"], 0)
        self.json("run", "--mask", "table[q, k]", "--tensor", "table=bool[256,256]:random", "--target", "cpu", "--shape", "1,1,1,256,256,64,64", "--keep-tables")

    def test_sparse_patterns_visit_what_they_need(self):
        def mixed(x):
            for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b), (16, 1)):
                x = (x ^ x >> shift) * factor % 2**32
            return x

        def tiles(visible, blocks, ratio):
            """How many squares of `ratio` x `ratio` blocks hold a visible one."""
            return len({(i // ratio, j // ratio) for i in range(blocks) for j in range(blocks) if visible(i, j)})

        def window(place, of, side, extent):
            first = min(max(place - side // 2, 0), extent - side)
            return first <= of < first + side

        shape = ["--shape", "1,2,2,2048,2048,64,64"]
        for size in 64, 128:
            visited = lambda *pattern: int(re.search(r"visits (\d+) of", self.attune("show", *pattern, *shape, "--tile-q", size, "--tile-k", size))[1])
            self.assertEqual(visited("butterfly", "--block", 64), 2 * tiles(lambda i, j: bin(i ^ j).count("1") < 2, 32, size // 64))
            for draws in 0, 3, 5, 16:
                drawn = [{(i, mixed(mixed(mixed(i + 9) + h) + n) % 2**31 % 32) for i in range(32) for n in range(draws)} for h in range(2)]
                needed = sum(tiles(lambda i, j: abs(i - j) <= 1 or i < 1 or j < 1 or (i, j) in drawn[h], 32, size // 64) for h in range(2))
                self.assertEqual(visited("bigbird", "--block", 64, "--random", draws, "--pattern-seed", 9), needed)
            video = lambda i, j: window(i // 16, j // 16, 1, 2) and window(i // 4 % 4, j // 4 % 4, 3, 4) and window(i % 4, j % 4, 1, 4)
            self.assertEqual(visited("sta", "--tiles-t", 2, "--window-t", 1, "--window-w", 1), 2 * tiles(video, 32, size // 64))

    def test_explain_names_splits(self):
        explain = ["explain", "--arch", "sm_90a", "--pack-gqa", "true", "--split-keys", "true", "--tile-k", 64, "--blocks-per-sm", 2, "--shape", "8,32,8,1,8192,128,128"]
        # 64 tiles of rows and 264 places for blocks.
        self.assertEqual(self.json(*explain)["plan"]["traffic"]["keySplits"], 4)
        self.attune(*explain)
        self.assertIn("  splits         4 blocks share the keys of a tile of rows\n", self.out)
        self.attune(*explain, "--lengths")
        self.assertIn("  splits         blocks share the keys of all sequences evenly, by the lengths that a launch finds\n", self.out)

    def test_explain_counts_tiles_by_values(self):
        explain = ["explain", "documents", "--arch", "sm_90a", "--head-dim", 64, "--shape", "1,8,8,4096,4096,64,64", "--tile-q", 128, "--tile-k", 128]
        # Four documents are what the built-in has without a --tensor.
        traffic = self.json(*explain)["plan"]["traffic"]
        self.assertEqual((traffic["visitedTiles"], traffic["maskedTiles"], traffic["allTiles"]), (8 * 4 * 64, 0, 8 * 1024))
        one = self.json(*explain, "--tensor", "ids=i32[4096]:zeros")["plan"]["traffic"]
        self.assertEqual((one["visitedTiles"], one["maskedTiles"]), (8 * 1024, 0))
        # Without values half of the tiles are taken to be visible.
        unknown = self.json(*explain, "--tensor", "ids=i32")["plan"]["traffic"]
        self.assertEqual(unknown["visitedTiles"], 8 * 1024 / 2)
        self.assertIn("  tiles          visits 2048 of 8192, 0 masked\n", self.attune(*explain))

    def test_roofline(self):
        explain = ["explain", "causal", "--arch", "sm_90a", "--head-dim", 128, "--shape", "4,16,16,4096,4096,128,128", "--roofline"]
        line = self.json(*explain)
        self.assertEqual(line["flops"], 64 * (32 * 33 / 2) * 2 * 128 * 128 * 256)
        units = line["unitMicroseconds"]
        self.assertEqual(set(units), {"tensor cores", "shared memory", "special functions", "arithmetic", "HBM"})
        self.assertEqual(list(units.values()), sorted(units.values(), reverse=True))
        self.assertLess(max(units.values()), line["microseconds"])
        text = self.attune(*explain)
        self.assertRegex(text, r"  tensor cores +[0-9.]+  #+ +[0-9]+%\n")
        self.assertRegex(text, r"[0-9]+ TFLOP/s predicted, [0-9]+% of the roof's 989\n$")
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "roofline.svg")
            self.attune(*explain, "--svg", picture)
            xml.etree.ElementTree.parse(picture)

    def test_density(self):
        points = self.json("explain", "block-sparse", "--arch", "sm_90a", "--head-dim", 64, "--sweep", "density")["points"]
        self.assertEqual([point["x"] for point in points], [0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0])
        self.assertEqual(points[-1]["readBytes"], points[-1]["lawBytes"])
        for point in points[3:]:
            self.assertLess(abs(point["readBytes"] / point["lawBytes"] - 1), 0.02)

    def test_sweep(self):
        explain = ["explain", "causal", "--arch", "sm_90a", "--head-dim", 128, "--shape", "4,16,16,4096,4096,128,128"]
        for kind, least in [("sram-budget", 5), ("tile-k", 9), ("length", 7)]:
            with self.subTest(kind=kind):
                picture = self.path(f"{kind}.svg")
                swept = self.json(*explain, "--sweep", kind, "--svg", picture)
                points = [point for point in swept["points"] if "failure" not in point]
                self.assertGreaterEqual(len(points), least)
                self.assertEqual([p["x"] for p in swept["points"]], sorted(p["x"] for p in swept["points"]))
                self.assertEqual(points[-1]["lawBytes"], points[-1]["readBytes"])
                lines = [path.get("d") for path in xml.etree.ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}path")]
                self.assertEqual(sum(line.count("L") == len(points) - 1 for line in lines), 3)
                text = self.attune(*explain, "--sweep", kind).splitlines()
                self.assertEqual(text[0], "causal head_dim 128 x 128 for sm_90a, B 4 H 16 Hkv 16 Sq 4096 Sk 4096")
                self.assertEqual(len(text), len(swept["points"]) + 3)
        # With less shared memory tiles of fewer rows, and more bytes; the law is inverse to the budget.
        swept = [point for point in self.json(*explain, "--sweep", "sram-budget")["points"] if "failure" not in point]
        self.assertGreater(swept[0]["readBytes"], 1.5 * swept[-1]["readBytes"])
        for point in swept:
            self.assertAlmostEqual(point["lawBytes"] * point["x"] / (swept[-1]["lawBytes"] * swept[-1]["x"]), 1)
        # A budget bounds the sweep, and what does not fit says why.
        bounded = self.json(*explain, "--sweep", "sram-budget", "--sram-budget", 65536)["points"]
        self.assertEqual(bounded[-1]["x"], 65536)
        self.assertIn("above the budget of 4096 bytes", bounded[0]["failure"])
        self.attune(*explain, "--sweep", "sram-budget", "--sram-budget", 8192, code=1)
        self.assertIn("above the budget of 8192 bytes", self.err)
        self.attune(*explain, "--svg", "x.svg", code=2)
        self.assertIn("error: --svg draws a sweep or a roofline; add --sweep or --roofline\n", self.err)
        self.attune(*explain, "--sweep", "tile-q", code=2)
        self.assertIn("--sweep: tile-q is not one of sram-budget tile-k length", self.err)
        self.attune(*explain, "--sweep", "tile-k", "--svg", "/nowhere/x.svg", code=1)
        self.assertIn("/nowhere/x.svg", self.err)
        self.attune("compile", "causal", "--arch", "sm_90a", "--emit", "tile", "-o", self.path("swept.mlir"))
        self.attune("explain", self.path("swept.mlir"), "--sweep", "tile-k", code=2)
        self.assertIn("error: --sweep asks the cost model, which has nothing to say of text that holds its schedule; explain its attn text\n", self.err)

    def test_tune_usage(self):
        cases = {
            ("tune", "causal"): "--shape is required",
            ("tune", "causal", "--target", "cpu", "--shape", "1,2,1,0,64,16,16"): "error: --shape 1,2,1,0,64,16,16 has no work to measure; use positive sizes",
            ("tune", "causal", "--target", "cpu", "--shape", "1,2,1,8,8,16,16", "--shape", "1,2,1,8,8,24,24"):
                "error: --shape 1,2,1,8,8,16,16 and 1,2,1,8,8,24,24 have different head dims, and a kernel has one; tune each in a run of its own",
            ("tune", "causal", "--shape", "1,2,1,8,8,16,16", "--budget", "-1"): "--budget",
            ("tune", "causal", "--shape", "1,2,1,8,8,16,16", "--candidates", "0"): "--candidates: 0 is not a whole number from 1 to",
        }
        for args, text in cases.items():
            with self.subTest(args=args):
                self.attune(*args, code=2)
                self.assertIn(text, self.err)
        self.attune("tune", "causal", "--score", "s + w[h]", "--tensor", "w=f32", "--target", "cpu", "--shape", "1,2,1,8,8,16,16", code=1)
        self.assertIn("captured tensor w has no data; add --tensor w=f32[N]:random or a .npy file", self.err)

    def test_tune_keeps_what_was_measured_when_interrupted(self):
        command = [ATTUNE, "tune", "causal", "--target", "cpu", "--shape", "1,8,8,1024,1024,64,64", "--shape", "1,8,8,2048,2048,64,64", "--budget", "300",
                   "--cache-dir", self.path("interrupted")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        while ", best " not in process.stderr.readline():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertTrue(err.endswith("error: interrupted; what was measured is kept\n"))
        self.assertIn("ended early", out)
        # The first shape's; of the second what came before the signal.
        self.assertIn(len(self.json("cache", "plans", "--cache-dir", self.path("interrupted"))["entries"]), (1, 2))

    def test_names_that_are_nearly_right(self):
        cases = {
            ("compil", "causal"): "error: 'compil' is not a verb of attune; did you mean compile?\nfor help: attune --help\n",
            ("cahce", "list"): "error: 'cahce' is not a verb of attune; did you mean cache?\nfor help: attune --help\n",
            ("cache", "lst"): "error: 'lst' is not a verb of attune cache; did you mean list?\nfor help: attune cache --help\n",
            ("cache", "paint"): "error: 'paint' is not a verb of attune cache; use list, clear, verify, plans, show, remove, export, import\nfor help: attune cache --help\n",
            ("list", "causal"): "error: 'causal' is one argument more than attune list takes; leave it out\nfor help: attune list --help\n",
            ("--verison",): "error: --verison is not an option of attune; did you mean --version?\nfor help: attune --help\n",
            ("run", "causal", "--head-dm", "64"): "error: --head-dm is not an option of attune run; did you mean --head-dim?\nfor help: attune run --help\n",
            ("run", "--head_dim=64"): "error: --head_dim is not an option of attune run; did you mean --head-dim?\nfor help: attune run --help\n",
            ("cache", "list", "--jsn"): "error: --jsn is not an option of attune cache list; did you mean --json?\nfor help: attune cache list --help\n",
            ("compile", "--target", "cpu"): "error: --target is not an option of attune compile\nfor help: attune compile --help\n",
            ("compile", "causal", "--emit", "cudda"):
                "error: --emit: cudda is not one of dsl attn tile sched llvm cuda ptx cubin sass; did you mean cuda?\nfor help: attune compile --help\n",
            ("compile", "causal", "--emit", "x"): "error: --emit: x is not one of dsl attn tile sched llvm cuda ptx cubin sass\nfor help: attune compile --help\n",
            ("run", "--target", "gup"): "error: --target: gup is not one of cpu gpu; did you mean gpu?\nfor help: attune run --help\n",
            ("run", "casual"): "error: 'casual' is neither a built-in variant nor a file; did you mean causal?\n",
            ("run", "slidingwindow"): "error: 'slidingwindow' is neither a built-in variant nor a file; did you mean sliding-window?\n",
        }
        for args, text in cases.items():
            with self.subTest(args=args):
                self.assertEqual(self.attune(*args, code=2), "")
                self.assertEqual(self.err, text)
        self.attune("compile", "causal", "--arch", "sm90a", code=2)
        self.assertRegex(self.err, "^error: architecture 'sm90a' is unknown; valid are sm_80, .*, cpu; did you mean sm_90a\\?\n$")

    def test_empty_arguments(self):
        for args, number in [(("run", ""), 2), (("compile", "plain", "", "--no-cache"), 3), (("", "run"), 1), (("list", ""), 2),
                             (("explain", "", "--arch", "sm_80"), 2), (("cache", "list", ""), 3), (("cache", "", "list"), 2),
                             (("run", "causal", "--score", ""), 4), (("compile", "causal", "--emit", "cuda", "-o", ""), 6)]:
            with self.subTest(args=args):
                self.assertEqual(self.attune(*args, code=2), "")
                self.assertEqual(self.err, f"error: argument {number} is empty; leave it out, or write what was meant\n")
        # CLI11 gives such a flag the argument that follows.
        self.assertEqual(self.attune("run", "--score=", "--mask", "q >= k", code=2), "")
        self.assertEqual(self.err, "error: --score= has no value; leave it out, or write one\n")

    # ---- export

    def test_export(self):
        folder = self.path("exported")
        files = self.json("export", "sliding-window", "--arch", "sm_80,sm_90a", "--head-dim", 64, "--name", "local", "-o", folder)["files"]
        names = ["local.h", "local.c", "local.json", "local.sm_90a.cubin", "local.sm_80.cubin"]
        self.assertEqual([os.path.basename(file["path"]) for file in files], names)
        self.assertEqual(sorted(os.listdir(folder)), sorted(names))
        plans = read_json(os.path.join(folder, "local.json"))
        self.assertEqual([kernel["arch"] for kernel in plans["kernels"]], ["sm_90a", "sm_80"])
        for kernel in plans["kernels"]:
            self.assertEqual(kernel["plan"]["arch"], kernel["arch"])
            with open(os.path.join(folder, kernel["cubin"]), "rb") as file:
                self.assertEqual(file.read(4), b"\x7fELF")
        self.attune("export", "causal", "--arch", "sm_80", "--head-dim", 64, "-o", os.path.join(self.write("file", ""), "x"), code=1)
        self.assertIn("file/x cannot be made: Not a directory", self.err)

    def test_export_backward(self):
        folder = self.path("exported")
        # What the forward pass saves is a member of both; a schedule is the forward pass's.
        files = self.json("export", "softcap", "--cap", 5, "--arch", "sm_80,sm_90a", "--head-dim", 64, "--tile-k", 64, "--backward", "--recompute", "score=save",
                          "-o", folder)["files"]
        passes = ["softcap", "softcap_backward"]
        names = [f"{name}.{end}" for name in passes for end in ("h", "c", "json", "sm_90a.cubin", "sm_80.cubin")]
        self.assertEqual([os.path.basename(file["path"]) for file in files], names)
        for name in passes:
            header = read_text(os.path.join(folder, name + ".h"))
            self.assertIn("saved_score;", header)
            self.assertEqual("*dq;" in header, name == "softcap_backward")
        tiles = [kernel["plan"]["tileK"] for kernel in read_json(os.path.join(folder, "softcap.json"))["kernels"]]
        self.assertEqual(tiles, [64, 64])
        # Both stand in one program.
        with open(os.path.join(folder, "both.c"), "w") as file:
            file.write('#include "softcap.h"\n#include "softcap_backward.h"\n'
                       "int main(void) { return softcap_load() != softcap_ok && softcap_backward_load() != softcap_backward_ok ? 0 : 1; }\n")
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{folder}", *(os.path.join(folder, name) for name in
                        ("both.c", "softcap.c", "softcap_backward.c")), "-lm", "-ldl", "-lpthread", "-o", os.path.join(folder, "both")], check=True)
        attn = self.write("attn.mlir", self.attune("compile", "causal", "--head-dim", 64, "--emit", "attn"))
        self.attune("export", attn, "--backward", "--arch", "sm_80", "-o", folder, code=2)
        self.assertIn("--backward contradicts", self.err)
        self.attune("export", "alibi", "--grad", "slopes", "--arch", "sm_80", "-o", folder, code=2)
        self.assertIn("--grad requires --backward", self.err)

    # ---- failures: exit code 1

    def limited(self, bytes, *args):
        """Runs with a limit on its address space."""
        done = subprocess.run([ATTUNE, *map(str, args)], capture_output=True, env=self.environment, timeout=300,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes)))
        return done.returncode, done.stderr.decode(errors="replace")

    def test_memory(self):
        shape = ["--shape", "1,1,1,1073741824,1,64,64"]
        remedy = "make the shape smaller, or leave out the reference's part by --no-check"
        for mode in [["--target", "cpu"], ["--arch", "sm_80", "--simulate", 1]]:
            code, error = self.limited(8 << 30, "run", "plain", *mode, *shape)
            self.assertEqual(code, 1)
            self.assertRegex(error, r"^error: this run needs 1971389990208 bytes \(the reference's o 1099511627776, the reference's q "
                                    r"549755813888, o 137438953472, \.\.\.\), available are [0-9]+; " + remedy + "\n$")
            self.assertLess(int(re.search(r"available are (\d+)", error).group(1)), 8 << 30)
        code, error = self.limited(8 << 30, "run", "plain", "--target", "cpu", "--no-check", *shape)
        self.assertEqual(code, 1)
        self.assertRegex(error, r"^error: this run needs 279172874496 bytes \(o 137438953472, q 137438953472, lse 4294967296, \.\.\.\), "
                                r"available are [0-9]+; make the shape smaller\n$")
        # Products above 2^64, of extents and of captured tensors; a dense bias for long sequences.
        self.attune("run", "--target", "cpu", "--shape", "1073741824,1,1,1073741824,1073741824,64,64", code=1)
        self.assertIn("error: this run needs 2^64 or more bytes (k 2^64 or more, o 2^64 or more, q 2^64 or more, ...), available are ", self.err)
        self.attune("run", "documents", "--tensor", "ids=i32[4611686018427387904,4]:zeros", "--target", "cpu", code=1)
        self.assertIn("error: captured tensor ids of [4611686018427387904, 4] needs 2^64 or more bytes ", self.err)
        self.attune("run", "bias", "--target", "cpu", "--shape", "1,8,8,1000000,1000000,64,64", code=1)
        self.assertIn("error: captured tensor bias of [8, 1000000, 1000000] needs 64000000000000 bytes ", self.err)
        # A file larger than memory, of which the disk holds nothing; one without an end.
        large = self.path("large.npy")
        header = b"{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 8589934592, 64), }".ljust(117) + b"\n"
        with open(large, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        os.truncate(large, (1 << 40) + 128)
        self.attune("run", *[f"--{n}={large}" for n in "qkv"], "--target", "cpu", code=2)
        self.assertRegex(self.err, f"^error: {large} needs 2199023255808 bytes \\(the tensor 1099511627904, the text 1099511627904\\), "
                                   "available are [0-9]+; save a smaller array\n$")
        os.remove(large)
        self.attune("run", *[f"--{n}=/dev/zero" for n in "qkv"], "--target", "cpu", code=2)
        self.assertIn("/dev/zero: not a .npy file", self.err)

    def test_long_reference_is_announced(self):
        cores = os.cpu_count()
        process = subprocess.Popen([ATTUNE, "run", "causal", "--target", "cpu", "--shape", "2,32,32,32768,32768,64,64"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=self.environment)
        line = process.stderr.readline().decode()
        process.kill()
        process.communicate()
        self.assertRegex(line, rf"^note: the check against the float64 reference takes about \d+ (s|minutes) on {cores} cores; --no-check leaves it out$")
        self.attune("run", "causal", "--target", "cpu", "--shape", "1,1,1,256,256,64,64")
        self.assertEqual(self.err, "")

    def test_memory_that_no_check_foresees(self):
        large = self.write("large.json", '{"score": [' + "0," * 30_000_000 + "0]}")
        code, error = self.limited(512 << 20, "compile", large, "--emit", "attn")
        os.remove(large)
        self.assertEqual((code, error), (1, "error: memory ran out; make the problem smaller, or raise the limit on memory\n"))

    def test_lost_output(self):
        full = "No space left on device"
        run = ["run", "causal", "--target", "cpu", "--shape", "1,1,1,16,16,32,32"]
        verbs = [["compile", "causal", "--arch", "sm_80", "--emit", "cuda"], ["compile", "causal", "--arch", "sm_80", "--emit", "attn", "--json"],
                 ["compile", "causal", "--arch", "cpu"], run, [*run, "--json"], ["explain", "causal", "--arch", "sm_80"],
                 ["list"], ["list", "--json"], ["cache", "list"], ["cache", "verify", "--json"], ["--version"], ["--help"],
                 ["run", "causal", "--arch", "sm_80", "--shape", "1,1,1,16,16,32,32", "--simulate", 1]]
        for verb in verbs:
            with self.subTest(verb=verb), open("/dev/full", "w") as out:
                done = subprocess.run([ATTUNE, *map(str, verb)], stdout=out, stderr=subprocess.PIPE, env=self.environment, timeout=300)
                self.assertEqual((done.returncode, done.stderr.decode()), (1, f"error: standard output cannot be written: {full}\n"))
        self.attune("compile", "causal", "--arch", "sm_80", "--emit", "cuda", "-o", "/dev/full", code=1)
        self.assertEqual(self.err, f"error: /dev/full cannot be written: {full}\n")
        folder = self.path("lost")
        os.mkdir(folder)
        for name in ["q.npy", "meta.json"]:
            os.symlink("/dev/full", os.path.join(folder, name))
            self.attune(*run, "--dump", folder, code=1)
            self.assertRegex(self.err, f"^error: {folder}/{name}: ?cannot be written: {full}\n$|^error: {folder}/{name} cannot be written: {full}\n$")
            os.remove(os.path.join(folder, name))
        # Standard error that is full changes no exit code.
        with open("/dev/full", "w") as lost:
            self.assertEqual(subprocess.run([ATTUNE, "run", "casual"], stderr=lost, timeout=300).returncode, 2)

    def test_caret(self):
        self.attune("run", "--mask", "q >= kk", code=1)
        self.assertIn("mask:1:6: error: unknown name \"kk\"", self.err)
        self.assertIn("q >= kk\n     ^\n", self.err)
        self.attune("compile", "--score", "s + ", "--emit", "dsl", code=1)
        self.assertIn("score:1:", self.err)

    def test_failures(self):
        self.attune("compile", "causal", "--head-dim", "100", "--emit", "attn", code=1)
        self.assertIn("error: head_dim 100 is not a multiple of 8; pad the last dimension to 104", self.err)
        self.attune("compile", "causal", "--arch", "cpu", "--emit", "cuda", code=1)
        self.assertIn("target cpu has no stage cuda", self.err)
        self.attune("compile", "causal", "--arch", "sm_80", "--sram-budget", "100", "--emit", "tile", code=1)
        self.attune("run", "--mask", "ids[q] == ids[k]", "--tensor", "ids=i32[8]", "--target", "cpu", "--shape",
                    "1,1,1,8,8,32,32", code=1)
        self.assertIn("captured tensor ids has no data; add --tensor ids=i32[N]:random or a .npy file", self.err)
        self.attune("run", "documents", "--tensor", "ids=i32[99999999999999]:zeros", "--target", "cpu", code=1)
        self.assertIn("error: captured tensor ids of [99999999999999] needs 799999999999992 bytes (for the kernel 399999999999996, for the "
                      "reference 399999999999996), available are ", self.err)
        for end in ["json", "mlir"]:
            folder, empty = self.path("folder." + end), self.write("empty." + end, "")
            os.mkdir(folder)
            self.attune("compile", folder, "--emit", "attn", code=2)
            self.assertIn(f"{folder} is a directory; name a file", self.err)
            self.attune("compile", empty, "--emit", "attn", code=2)
            self.assertEqual(self.err, f"error: {empty} is empty; --emit dsl, attn, tile or sched with -o writes a file that is read back\n")
        self.attune("compile", "--score", "s + NULL[k]", "--tensor", "NULL=f32", "--arch", "sm_80", "--head-dim", 64, "--emit", "cuda")
        self.assertNotIn("*NULL;", self.out)

    # ---- stages

    def test_stages(self):
        base = ["--arch", "sm_80", "--head-dim", 64]
        variant = ["--score", "softcap(s, 20)", "--mask", "q >= k"]
        dsl = json.loads(self.attune("compile", *variant, *base, "--emit", "dsl"))
        self.assertEqual(dsl["mask"], "q >= k")
        cuda = self.attune("compile", *variant, *base, "--emit", "cuda")
        self.assertIn("__global__", cuda)
        for stage in ["attn", "tile", "sched"]:
            file = self.path(f"x.{stage}.mlir")
            self.assertEqual(self.attune("compile", *variant, *base, "--emit", stage, "-o", file), "")
            self.assertEqual(self.attune("compile", file, "--arch", "sm_80", "--emit", "cuda"), cuda)
            self.attune("compile", file, "--head-dim", 128, "--emit", "cuda", code=2)
            self.assertIn(f"--head-dim 128 contradicts {file}, which has 64", self.err)
            self.attune("compile", file, "--dtype", "f16", "--emit", "cuda", code=2)
            self.attune("compile", file, "--mask", "q >= k", "--emit", "cuda", code=2)
        self.attune("compile", self.path("x.sched.mlir"), "--arch", "sm_90", "--emit", "cuda", code=2)
        # A file at attn takes a schedule; later ones hold theirs.
        other = self.attune("compile", self.path("x.attn.mlir"), "--arch", "sm_80", "--tile-q", 64, "--emit", "cuda")
        self.assertNotEqual(other, cuda)
        self.attune("compile", self.path("x.tile.mlir"), "--arch", "sm_80", "--tile-q", 64, "--emit", "cuda", code=1)
        wrapped = self.json("compile", *variant, *base, "--emit", "cuda")
        self.assertEqual(wrapped["text"], cuda)

    def test_files_are_read_back_whatever_their_suffix_is(self):
        base = ["--arch", "sm_80", "--head-dim", 64]
        cuda = self.attune("compile", "softcap", *base, "--emit", "cuda")
        for stage, suffixes in {"dsl": ["txt", "mlir", ""], "attn": ["txt", "json"], "tile": ["txt", "cu"], "sched": ["txt", ""]}.items():
            for suffix in suffixes:
                with self.subTest(stage=stage, suffix=suffix):
                    file = self.path(f"read_back_{stage}" + ("." + suffix if suffix else ""))
                    self.attune("compile", "softcap", *base, "--emit", stage, "-o", file)
                    again = self.attune("compile", file, *base, "--emit", "cuda")
                    self.assertEqual(without_places(again), without_places(cuda))
        with open(self.path("read_back_dsl"), "rb") as file:
            piped = subprocess.run([ATTUNE, "compile", "/dev/stdin", *map(str, base), "--emit", "cuda"], input=file.read(), capture_output=True,
                                   env=self.environment, timeout=300)
        self.assertEqual(without_places(piped.stdout.decode()), without_places(cuda))
        written = {"cuda": "CUDA C++", "llvm": "LLVM IR"}
        if self.has_nvrtc():
            written.update(ptx="PTX", cubin="a cubin")
        for stage, name in written.items():
            file = self.path("read_back.mlir")
            self.attune("compile", "softcap", *(("--arch", "cpu", "--head-dim", 64) if stage == "llvm" else base), "--emit", stage, "-o", file)
            self.assertEqual(self.attune("compile", file, "--emit", "cuda", code=2), "")
            remedy = ", and --cuda FILE takes this together with the variant" if stage == "cuda" else ""
            self.assertEqual(self.err, f"error: {file} holds {name}, which is not read back; what --emit dsl, attn, tile or sched writes is{remedy}\n")
        # Of text in neither form the suffix says what was meant.
        file = self.write("neither.json", "name: x\n")
        self.attune("compile", file, "--emit", "cuda", code=1)
        self.assertEqual(self.err, f"{file}:1:2: error: variant is not valid JSON from here on\nname: x\n ^\n")
        for text in ["name: x\n", "s + bias[h, q, k]\n", "int main() {}\n", "Plan of the tile. The schedule\n", "\0" * 100]:
            file = self.write("neither.txt", text)
            self.attune("compile", file, "--emit", "cuda", code=2)
            self.assertEqual(self.err, f"error: {file} is not a variant file: expected JSON or attn, tile or sched text, as --emit dsl, attn, tile or sched writes it\n")
        self.attune("compile", "no/such/file", code=2)
        self.assertEqual(self.err, "error: no/such/file cannot be read: No such file or directory\n")

    # ---- what cannot be written, and what has no end

    def test_failed_outputs(self):
        """A file limit ends each write, as a full disk does: what was there stays, and nothing is left beside it."""
        shape = ["--shape", "1,1,1,256,256,64,64"]
        commands = [["compile", "causal", "--arch", "sm_80", "--head-dim", 64, "--emit", "tile", "-o", "out"],
                    ["show", "causal", *shape, "-o", "out.svg"], ["show", "causal", *shape, "-o", "out.png"], ["show", "causal", *shape, "-o", "out.txt"],
                    ["explain", "causal", "--arch", "sm_80", "--head-dim", 64, "--roofline", "--svg", "out.svg"],
                    ["cache", "export", "out.json", "--cache-dir", self.tuned()]]
        for command in commands:
            for before in [None, "before"]:
                with self.subTest(command=command, before=before), tempfile.TemporaryDirectory() as folder:
                    name = next(word for word in command if str(word).startswith("out"))
                    if before:
                        pathlib.Path(folder, name).write_text(before)
                    self.attune(*command, code=1, cwd=folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)))
                    self.assertIn(f"error: {name} cannot be written: File too large\n", self.err)
                    self.assertEqual(os.listdir(folder), [name] if before else [])
                    if before:
                        self.assertEqual(pathlib.Path(folder, name).read_text(), before)
        with tempfile.TemporaryDirectory() as folder:
            self.attune("run", "causal", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,64,64,16,16", "--no-cache", "--dump", folder, code=1,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)))
            self.assertEqual((self.err, os.listdir(folder)), (f"error: {folder}/q.npy cannot be written: File too large\n", []))
            if self.has_nvrtc(): # all of its files or none
                self.attune("export", "causal", "--arch", "sm_80", "--head-dim", 64, "-o", folder, code=1,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000)))
                self.assertEqual(os.listdir(folder), [])
        self.attune("compile", "causal", "--emit", "dsl", "-o", "/dev/full", code=1)
        self.assertEqual(self.err, "error: /dev/full cannot be written: No space left on device\n")

    def test_outputs(self):
        """A device or a pipe is written as it is, a link is followed, a file keeps its mode."""
        emit = ["compile", "causal", "--emit", "dsl", "-o"]
        text = self.attune(*emit[:-1])
        self.assertEqual(self.attune(*emit, "/dev/stdout"), text)
        with tempfile.TemporaryDirectory() as folder:
            target, link = os.path.join(folder, "target"), os.path.join(folder, "link")
            os.symlink("target", link)
            self.attune(*emit, link)
            self.assertTrue(os.path.islink(link))
            self.assertEqual(read_text(target), text)
            os.chmod(target, 0o640)
            self.write(target, "before")
            self.attune(*emit, link)
            self.assertEqual((read_text(target), os.stat(target).st_mode & 0o777), (text, 0o640))
            os.link(target, os.path.join(folder, "other"))
            self.attune("compile", "plain", *emit[2:], target)
            self.assertEqual(read_text(os.path.join(folder, "other")), self.attune("compile", "plain", "--emit", "dsl"))
            self.assertEqual(sorted(os.listdir(folder)), ["link", "other", "target"])
        self.attune(*emit, "/", code=1)
        self.assertEqual(self.err, "error: / cannot be written: Is a directory\n")
        self.attune(*emit, "/nowhere/x", code=1)
        self.assertEqual(self.err, "error: /nowhere/x cannot be written: No such file or directory\n")

    def test_endless_inputs(self):
        link = self.path("zero.npy")
        os.symlink("/dev/zero", link)
        shape = ["--shape", "1,1,1,64,64,64,64"]
        bound = "error: {} has more than 67108864 bytes, the most that is read; name a file of attune's\n"
        for code, text, command in [(2, bound.format("/dev/zero"), ["compile", "/dev/zero"]), (2, bound.format("/dev/full"), ["show", "/dev/full", *shape]),
                                    (2, bound.format("/dev/zero"), ["cache", "import", "/dev/zero"]),
                                    (2, bound.format("/dev/zero"), ["compile", "causal", "--head-dim", 64, "--cuda", "/dev/zero"])]:
            with self.subTest(command=command):
                self.attune(*command, code=code)
                self.assertEqual(self.err, text)
        npy = f"error: {link}: not a .npy file: it does not start with \\x93NUMPY; write it with numpy.save\n"
        self.attune("run", "causal", "--target", "cpu", "--q", link, "--k", link, "--v", link, code=2)
        self.assertEqual(self.err, npy)
        self.attune("run", "alibi", "--target", "cpu", *shape, "--tensor", f"slopes=f32:{link}", code=1)
        self.assertEqual(self.err, npy)

    # ---- what was meant

    def test_flags_have_no_line_of_source(self):
        for flag, value, text in [("--paged", 3, "page size 3 is not a positive multiple of 16; use 16, 64 or 128"),
                                  ("--sink", "q", "tensor name \"q\" is reserved; use a name other than s b h q k B H Sq Sk")]:
            for variant in [[], ["causal"]]:
                with self.subTest(flag=flag, variant=variant):
                    self.attune("compile", *variant, flag, value, "--arch", "sm_80", "--head-dim", 64, code=1)
                    self.assertTrue(self.err.startswith("error: "), self.err)
                    self.assertTrue(self.err.endswith(text + "\n"), self.err)

    def test_threads(self):
        run = ["run", "causal", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,16,16,16,16"]
        for threads in ["abc", "0", "-1", "1025", "4x", "1e3", " 2"]:
            with self.subTest(threads=threads):
                self.attune(*run, code=1, environment={"ATTUNE_NUM_THREADS": threads})
                self.assertEqual(self.err, f"error: ATTUNE_NUM_THREADS is '{threads}', but must be a whole number from 1 to 1024; correct or unset it\n")
        self.attune(*run, environment={"ATTUNE_NUM_THREADS": "3"})
        self.attune(*run, environment={"ATTUNE_NUM_THREADS": ""})

    def test_missing_data(self):
        run = ["run", "--score", "(s + slopes[h]) * gain + table[h, k]", "--target", "cpu", "--shape", "1,2,2,64,64,16,16"]
        declared = ["--tensor", "slopes=f32", "--tensor", "table=bf16"]
        self.attune(*run, *declared, "--scalar", "gain=1.5", code=1)
        self.assertEqual(self.err, "error: captured tensor slopes, captured tensor table have no data; add --tensor slopes=f32[N]:random "
                                   "--tensor table=bf16[M,N]:random, or .npy files in the place of random\n")
        self.attune("tune", *run[1:], *declared, "--scalar", "gain=1.5", code=1)
        self.assertIn("captured tensor slopes, captured tensor table have no data", self.err)

    def test_names(self):
        cache = ["--cache-dir", self.path("named")]
        compiling = ["--arch", "cpu", "--dtype", "f32", "--head-dim", 16, *cache]
        bias = ["--tensor", "bias=f32"]
        variants = {"plain": [], "causal": ["causal"], "score_s_plus_bias_h_q_k": ["--score", "s + bias[h,q,k]", *bias],
                    "score_s_minus_bias_h_q_k": ["--score", "s - bias[h,q,k]", *bias], "mask_q_ge_k": ["--mask", "q >= k"],
                    "causal_mask_q_minus_k_lt_256": ["causal", "--mask", "q - k < 256"],
                    "score_30_times_tanh_s_over_30_mask_q_gt_k": ["--score", "softcap(s, 30)", "--mask", "q > k"],
                    "causal_sink_sinks_dropout": ["causal", "--sink", "sinks", "--dropout", 0.1], "plain_sigmoid_scale_0_125": ["--normaliser", "sigmoid", "--scale", 0.125],
                    "plain_precise_q_offset": ["--precise", "--with-q-offset"], "mine": ["--score", "s * 2", "--name", "mine"], "ours": ["causal", "--name", "ours"]}
        for name, flags in variants.items():
            with self.subTest(name=name):
                self.assertEqual(self.json("compile", *flags, *compiling)["variant"], name)
        self.assertEqual(sorted(entry["name"] for entry in self.json("cache", "list", *cache)["entries"]), sorted(variants))
        # The spelling does not count, nor what a launch gives.
        for flags in [["--mask", "q>=k"], ["causal", "--sink", "sinks", "--dropout", 0.3], ["--normaliser", "softmax"]]:
            self.assertTrue(self.json("compile", *flags, *compiling)["cacheHit"])
        # A long one is cut, and told from another by its digest.
        names = [self.json("compile", "--mask", " || ".join(f"q - k == {i}" for i in range(first, 40)), *compiling)["variant"] for first in (0, 1)]
        self.assertRegex(names[0], r"^mask_q_minus_k_eq_0_or_q_minus_k_eq_1_or_[0-9a-f]{6}$")
        self.assertRegex(names[1], r"^mask_q_minus_k_eq_1_or_q_minus_k_eq_2_or_[0-9a-f]{6}$")
        self.attune("compile", "causal", "--name", "two words", *compiling, code=2)
        self.assertEqual(self.err, "error: variant name \"two words\" is not an identifier; use letters, digits and underscores, and no digit first\n")
        for verb in [["compile", "--emit", "tile", "--arch", "sm_80", "--head-dim", 64], ["run", "--target", "cpu", "--shape", "1,1,1,16,16,16,16"],
                     ["explain", "--arch", "sm_80", "--head-dim", 64], ["show", "--shape", "1,1,1,64,64,64,64"]]:
            self.assertIn("mine", self.attune(verb[0], "causal", "--name", "mine", *verb[1:]))
        tile = self.path("named.mlir")
        self.attune("compile", "causal", "--emit", "tile", "--head-dim", 64, "-o", tile)
        self.attune("compile", tile, "--name", "mine", code=2)
        self.assertEqual(self.err, f"error: --name contradicts {tile}, which holds the variant; edit the file or leave out the flag\n")

    def tuned(self):
        """A cache folder with a measured plan."""
        folder = self.path("tuned_once")
        if not os.path.exists(folder):
            self.attune("tune", "causal", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,16,16,16,16", "--candidates", 1, "--budget", 0.1, "--cache-dir", folder)
        return folder

    def test_errors_of_text(self):
        file = self.write("bad.mlir", "module {\n  attn.atention @x\n}\n")
        self.attune("compile", file, "--emit", "cuda", code=1)
        self.assertIn("bad.mlir:2:3: error: ", self.err)
        self.assertIn("  attn.atention @x\n  ^", self.err)

    def test_llvm(self):
        llvm = self.attune("compile", "causal", "--head-dim", 64, "--emit", "llvm")
        self.assertIn("target triple = ", llvm)
        self.assertRegex(llvm, r"define .*@causal\(ptr noalias")
        self.assertEqual(self.attune("compile", "causal", "--head-dim", 64, "--arch", "cpu", "--emit", "llvm"), llvm)
        self.attune("compile", "causal", "--head-dim", 64, "--arch", "cpu", "--emit", "tile", "-o", self.path("cpu.tile.mlir"))
        again = self.attune("compile", self.path("cpu.tile.mlir"), "--arch", "cpu", "--emit", "llvm")
        self.assertRegex(again, r"define .*@causal\(ptr noalias")
        self.attune("compile", "causal", "--arch", "sm_90", "--emit", "llvm", "--head-dim", 64, code=1)
        self.assertEqual(self.err, "error: target sm_90 has no stage llvm; emit cuda or ptx, or choose the cpu target\n")

    def test_sass(self):
        # A stand-in for nvdisasm says what it is asked; without any the error says what to do.
        tools = self.path("tools")
        os.mkdir(tools)
        program = os.path.join(tools, "nvdisasm")
        with open(program, "w") as file:
            file.write('#!/bin/sh\necho "$1 $(head -c 4 "$2" | tail -c 3)"\n')
        os.chmod(program, 0o755)
        command = ["compile", "causal", "--arch", "sm_80", "--head-dim", 64, "--emit", "sass"]
        home = dict(self.environment, PATH=tools + ":/usr/bin:/bin")
        outer, self.environment = self.environment, home
        try:
            self.assertEqual(self.attune(*command), "--print-code ELF\n")
            with open(program, "w") as file:
                file.write("#!/bin/sh\necho 'no such option' >&2\nexit 3\n")
            self.attune(*command, code=1)
            self.assertEqual(self.err, f"error: {program} fails with code 3: no such option\n")
            if not any(os.path.exists(f"/usr/local/{name}/bin/nvdisasm") for name in os.listdir("/usr/local") if name.startswith("cuda")):
                home["PATH"] = "/usr/bin:/bin"
                home["CUDA_HOME"] = tools # no bin in it
                home["HOME"] = tools
                # Before NVRTC is looked for.
                home["ATTUNE_NVRTC_PATH"] = "/nowhere"
                self.attune(*command, code=1)
                self.assertEqual(self.err, "error: stage sass needs nvdisasm, which is neither on PATH nor in a CUDA toolkit ($CUDA_HOME, $CUDA_PATH, /usr/local/cuda) "
                                           "or a Python package; pip install nvidia-cuda-nvdisasm, or emit ptx\n")
                self.attune("compile", "causal", "--arch", "sm_80", "--head-dim", 64, "--emit", "ptx", code=1)
                self.assertEqual(self.err, "error: ATTUNE_NVRTC_PATH is '/nowhere', where no NVRTC opens; correct it, or unset it to look in CUDA toolkits and Python packages\n")
                del home["ATTUNE_NVRTC_PATH"]
                # Those of NVIDIA's and Triton's Python packages.
                for number, place in enumerate(["nvidia/cu13/bin", "nvidia/cuda_nvdisasm/bin", "triton/backends/nvidia/bin"]):
                    environment = os.path.join(tools, f"environment{number}")
                    folder = os.path.join(environment, "lib/python3.11/site-packages", place)
                    os.makedirs(folder)
                    shutil.copy(program, folder)
                    home["VIRTUAL_ENV"] = environment
                    self.attune(*command, code=1)
                    self.assertEqual(self.err, f"error: {folder}/nvdisasm fails with code 3: no such option\n")
        finally:
            self.environment = outer

    def test_names_of_hand_written_text(self):
        cuda = self.attune("compile", str(pathlib.Path(__file__).parent.parent / "kernels/attention_backward.mlir"), "--arch", "sm_80", "--emit", "cuda")
        for text in ["// attention_backward for sm_80, generated by attune", "// S = K Q^T", "// DV1 += P16 DO", "// DQ = DS16^T K", "float dk0["]:
            self.assertIn(text, cuda)

    def test_explain_of_scheduled_text(self):
        program = str(pathlib.Path(__file__).parent.parent / "kernels/attention_backward.mlir")
        text = self.attune("explain", program, "--arch", "sm_80")
        self.assertIn("goes through shared memory", text)
        self.assertIn("ranking        none: the text holds its schedule", text)
        explained = self.json("explain", program, "--arch", "sm_80")
        self.assertEqual(explained["candidates"], [])
        self.assertIn("lse is loaded to registers, element by element", explained["plan"]["remarks"])

    def test_comments_of_folds(self):
        cuda = self.attune("compile", "alibi", "--arch", "sm_80", "--head-dim", 64, "--emit", "cuda")
        for text in ["// S = Q K^T", "// ACC += P V", "the bias is divided by the score's factor, which multiplies the sum", "the term of the row cancels in the softmax",
                     "// with the term of the row, which cancelled in the softmax"]:
            self.assertIn(text, cuda)

    def test_edited_cuda(self):
        base = ["compile", "documents", "--arch", "sm_80", "--head-dim", 64]
        cuda = self.attune(*base, "--emit", "cuda")

        def compile(text, code=0, flags=()):
            file = self.write("edited.cu", text)
            out = self.attune(*base, *flags, "--cuda", file, "--json", code=code)
            return json.loads(out) if code == 0 else self.err.splitlines()[0].replace(self.folder + "/", "")

        before = self.json("cache", "list")["entries"]
        generated = self.json(*base)
        # What was not edited is the same kernel; what was edited is another one, and neither gets into the cache.
        self.assertEqual(compile(cuda)["registers"], generated["registers"])
        empty = re.sub(r"(\ndocuments\(const __grid_constant__ Params params\) \{)", r"\1\n  return;", cuda)
        self.assertNotEqual(empty, cuda)
        self.assertLess(compile(empty)["registers"], generated["registers"])
        self.assertEqual(self.json("cache", "list")["entries"], before)
        self.assertEqual(self.json(*base)["registers"], generated["registers"])
        ptx = self.attune(*base, "--cuda", self.path("edited.cu"), "--emit", "ptx")
        self.assertNotEqual(ptx, self.attune(*base, "--emit", "ptx"))
        # Tensor maps, which are aligned among the parameters.
        hopper = ["compile", "causal", "--arch", "sm_90a", "--head-dim", 64]
        file = self.write("hopper.cu", self.attune(*hopper, "--emit", "cuda"))
        self.assertEqual(self.json(*hopper, "--cuda", file)["registers"], self.json(*hopper)["registers"])
        # Comments, white space and the least number of blocks are the user's.
        free = re.sub(r"__launch_bounds__\((\d+), \d+\)", r"/* mine */ __launch_bounds__( \1 )", "\n\n" + re.sub(r"^//.*\n", "", cuda, flags=re.M))
        self.assertGreater(compile(free.replace("struct Params {", "struct Params {  // as it was\n /* and\n again */"))["binaryBytes"], 0)

        self.assertEqual(compile(cuda.replace("documents(const", "papers(const"), 1),
                         'error: edited.cu has no kernel extern "C" __global__ void __launch_bounds__(128, ...) documents(const __grid_constant__ Params params), which is what a launch '
                         "calls; restore it as --emit cuda prints it")
        self.assertEqual(compile(cuda.replace("documents_bounds(const", "bounds(const"), 1),
                         'error: edited.cu has no kernel extern "C" __global__ void __launch_bounds__(256, ...) documents_bounds(const __grid_constant__ Params params), which is what a '
                         "launch calls; restore it as --emit cuda prints it")
        self.assertEqual(compile(cuda.replace("__launch_bounds__(128", "__launch_bounds__(64"), 1),
                         "error: kernel documents in edited.cu is for blocks of 64 threads, and a launch has 128; restore __launch_bounds__, or change --warps and emit the CUDA again")
        self.assertEqual(compile(cuda.replace("int mapped;", "int mapped, more;"), 1),
                         "error: struct Params in edited.cu is not what a launch passes; restore it as --emit cuda prints it")
        self.assertRegex(compile(cuda.replace("struct Params {", "struct Wide { long long a[99]; };\nstruct Params {").replace("Params params)", "Params params, Wide w)"), 1),
                         r"error: kernel documents(_bounds)? in edited.cu takes \d+ bytes of parameters, and a launch passes \d+; restore it as --emit cuda prints it")
        self.assertEqual(compile("", 1)[:31], "error: edited.cu has no kernel ")
        self.assertRegex(compile(cuda, 1, ["--tile-q", 64]), r'^edited.cu:\d+:1: error: the text was emitted for "(plan|block) .*", and these options give "(plan|block) .*"; '
                                                             "pass the options that it was emitted with$")
        self.assertRegex(compile(cuda, 1, ["--dtype", "f16"]), r'^edited.cu:3:1: error: the text was emitted for "variant  documents(_bounds)?, bf16, .*", and these options give "variant  documents(_bounds)?, f16')
        self.assertIn("edited.cu", compile(cuda.replace("const int thread", "const imt thread"), 1))
        file = self.write("edited.cu", cuda)
        self.attune("compile", "documents", "--arch", "sm_90", "--head-dim", 64, "--cuda", file, code=1)
        self.assertIn("edited.cu:1:1: error: the text was emitted for \"documents_bounds for sm_80, generated by attune\", and these", self.err)
        self.attune(*base, "--cuda", file, "--emit", "tile", code=1)
        self.assertEqual(self.err, f"error: stage tile is not made from {file}, which takes the place of the CUDA; emit ptx, cubin or sass\n")
        self.attune("run", "documents", "--target", "cpu", "--cuda", file, code=1)
        self.assertEqual(self.err, f"error: {file} is CUDA, which the cpu target does not run; name a GPU architecture such as sm_90\n")
        self.attune("run", "documents", "--arch", "sm_80", "--simulate", 1, "--cuda", file, code=2)
        self.assertEqual(self.err, "error: --simulate runs the schedule, which CUDA text does not change; leave out --cuda\n")
        self.attune("run", "documents", "--arch", "sm_80", "--cuda", self.path("no.cu"), code=2)
        self.assertIn("no.cu cannot be read: No such file or directory", self.err)

    def test_order_of_text(self):
        # A probability chain is written where it ends: what it reads is not to be overwritten by ops that stand before that, whatever its values are called.
        text = self.attune("compile", "causal", "--arch", "sm_90a", "--head-dim", 64, "--tile-q", 64, "--tile-k", 32, "--warps", 4, "--emit", "tile")
        text = without_locations(text).replace(' {tile.name = "m_base"}', "")
        alpha, rescaled, exponentials = (re.search(r"( *%\w+ = tile\.map\((?:(?!tile\.map)[^~])*?\} \{(?:tile\.comment = \"[^\"]*\", )?tile\.name = \"" + name + r"\"\}\n)", text).group(1) for name in ["alpha", "acc", "p"])
        self.assertLess(text.index(alpha), text.index(exponentials))
        swapped = re.sub(r"\((%\w+), (%\w+) :", r"(\2, \1 :", alpha, count=1)
        swapped = re.sub(r"\^bb0\((%\w+): f32, (%\w+): f32\)", r"^bb0(\2: f32, \1: f32)", swapped)
        self.assertNotEqual(swapped, alpha)
        file = self.write("order.tile.mlir", text.replace(alpha, "").replace(rescaled, "").replace(exponentials, exponentials + swapped + rescaled))
        self.attune("run", file, "--arch", "sm_90a", "--simulate", 1, "--shape", "1,1,1,200,200,64,64")

    def test_tiles_that_text_swaps(self):
        # Two more carried tiles, 0 and 1, that each of two tiles of keys swaps; what is 0 again in the end is added to the row sums.
        text = self.attune("compile", "plain", "--arch", "sm_80", "--head-dim", 64, "--tile-q", 64, "--tile-k", 32, "--warps", 4, "--emit", "tile")
        vector = "!tile.tile<q 64, f32, register>"
        text = without_locations(text)

        def replaced(pattern, replacement, text):
            text, count = re.subn(pattern, replacement, text)
            self.assertEqual(count, 1, pattern)
            return text

        text = replaced(r"( *)(%m_end, %l_end, %acc_end) = (tile\.for_blocks.*)\) \{", r"""\1%zero = arith.constant 0.0 : f32
\1%one = arith.constant 1.0 : f32
\1%zeros = tile.splat %zero {tile.name = "x"} : f32 -> <q 64, f32, register>
\1%ones = tile.splat %one {tile.name = "y"} : f32 -> <q 64, f32, register>
\1\2, %x_end, %y_end = \3, %swapped_x = %zeros : VECTOR, %swapped_y = %ones : VECTOR) {""", text)
        text = replaced(r"(tile\.yield %m_next, %l_next, %acc_next)( : .*)", r"\1, %swapped_y, %swapped_x\2, VECTOR, VECTOR", text)
        text = replaced(r"( *)(%l_total = tile\.combine_lanes +sum )%l_end", r"""\1%sum = tile.map(%l_end, %x_end : VECTOR, VECTOR) -> VECTOR {
\1^bb0(%one_sum: f32, %other_sum: f32):
\1  %added = arith.addf %one_sum, %other_sum : f32
\1  tile.yield %added : f32
\1} {tile.name = "l"}
\1\2%sum""", text)
        file = self.write("swap.tile.mlir", text.replace("VECTOR", vector))
        self.attune("run", file, "--arch", "sm_80", "--simulate", 1, "--shape", "1,1,1,64,64,64,64")

    def test_text_that_warps_are_not_specialised_for(self):
        def refused(text, message):
            self.attune("compile", self.write("refused.tile.mlir", text), "--arch", "sm_90a", "--emit", "sched", code=1)
            self.assertRegex(self.err, r"refused\.tile\.mlir:\d+:\d+: error: ")
            self.assertIn(message, self.err)

        text = self.attune("compile", "causal", "--arch", "sm_90a", "--head-dim", 64, "--emit", "tile")
        load = re.search(r"\n *%q_tile = tile\.load .*", text).group(0)
        other = load.replace("%q_tile =", "%other =")
        refused(re.sub(r"(\n *tile\.store )", lambda store: other + store.group(0), text, count=1),
                "cannot be scheduled around producer warps, for which some of its ops are: it copies a tile neither before its loops nor in one")
        # A tile that nothing reads is copied, waited for and released.
        file = self.write("two.tile.mlir", text.replace(load, load + other, 1))
        self.attune("run", file, "--arch", "sm_90a", "--simulate", 1, "--shape", "1,1,1,200,200,64,64")
        text = self.attune("compile", "documents", "--arch", "sm_90a", "--head-dim", 64, "--emit", "tile")
        domain = re.search(r"tile\.for_blocks \(.*?\) in (%\w+)", text).group(1)
        refused(re.sub(r"tile\.first_visible %\w+", "tile.first_visible " + domain, text),
                "asks the domain of the block's tiles, which says nothing about a part of the rows; ask one that follows from tile.warpgroup_row")

    def test_text_whose_maxima_move_in_every_tile(self):
        # The product with V starts among the ops that follow from the maximum.
        text = self.attune("compile", "plain", "--arch", "sm_90a", "--head-dim", 64, "--tile-q", 128, "--tile-k", 64, "--stages", 2, "--emit", "tile")
        for name, place in [("%p", "order 1"), ("%p_bf16", "order 4"), ("%v_tile", "order 3, stage 1"), ("%acc_next", "order 3, stage 1")]:
            text, count = re.subn(r"(\n *" + name + r" = (?:.*\n)*?.*){(tile\.name)", r"\1{sched.at = #sched.at<" + place + r">, \2", text, count=1)
            self.assertEqual(count, 1, name)
        product = '{sched.at = #sched.at<order 3, stage 1>, tile.name = "acc"}'
        self.assertEqual(text.count(product), 1)
        text = text.replace(product, "{sched.async, " + product[1:])
        out = self.attune("compile", self.write("moves.tile.mlir", text), "--arch", "sm_90a")
        self.assertIn("rows take the maximum of every tile: the schedule has other ops among those that follow from it, which read them, or are waited for", out)

    def test_json_variant(self):
        file = self.write("variant.json", json.dumps({"name": "mine", "score": "s + w[h]", "scale": 0.25,
                                                      "tensors": {"w": {"dtype": "f32", "rank": 1}}}))
        self.attune("run", file, "--mask", "q >= k", code=2)
        self.attune("run", file, "--scale", 0.5, code=2)
        self.assertIn("--scale 0.5 contradicts", self.err)
        self.attune("run", file, "--tensor", "w=i32[2]:random", code=2)
        result = self.json("run", file, "--target", "cpu", "--dtype", "f32", "--shape", "1,2,2,20,20,32,32",
                           "--tensor", "w=f32[2]:random")
        self.assertEqual(result["scale"], 0.25)
        self.assertTrue(result["check"]["o"]["pass"])

    def test_normalisers(self):
        shape = ["--shape", "1,2,1,9,12,8,8", "--target", "cpu", "--dtype", "f32"]
        out = self.path("sigmoid")
        text = self.attune("run", "--normaliser", "sigmoid", "--mask", "q >= k", "--dump", out, *shape)
        self.assertNotIn("lse", text)
        self.assertFalse(os.path.exists(os.path.join(out, "lse.npy")))
        meta = read_json(os.path.join(out, "meta.json"))
        self.assertEqual(meta["definition"]["normaliser"], "sigmoid")
        self.assertIsNone(meta["check"]["lse"])
        q, k, v, o = (read_npy(os.path.join(out, name + ".npy"))[1] for name in "qkvo")
        for h in range(2):
            for i in range(9):
                row = h * 9 + i
                s = [meta["scale"] * sum(q[row * 8 + d] * k[j * 8 + d] for d in range(8)) for j in range(i + 1)]
                for d in range(8):
                    expected = sum(v[j * 8 + d] / (1 + math.exp(-x)) for j, x in enumerate(s))
                    self.assertAlmostEqual(o[row * 8 + d], expected, places=4)
        self.assertIn("lse", self.attune("run", "causal", "--sink", "sinks", *shape))
        self.attune("run", "--sink", "sinks", "--tensor", "sinks=f32[H]:1000..1000", *shape)
        self.attune("run", "causal", "--normaliser", "none", "--score", "max(s, 0) * max(s, 0)", "--dropout", "0.5", *shape)
        # The variant's JSON, and text at a stage, carry it.
        files = {}
        for stage in ["dsl", "attn", "tile", "sched"]:
            files[stage] = self.path(f"sink.{stage}")
            self.attune("compile", "causal", "--sink", "sinks", "--arch", "sm_80", "--emit", stage, "-o", files[stage])
        texts = {stage: without_places(self.attune("compile", file, "--arch", "sm_80", "--emit", "cuda"))
                 for stage, file in files.items()}
        self.assertEqual(len(set(texts.values())), 1)
        self.assertEqual(read_json(files["dsl"])["sink"], "sinks")
        mistakes = [
            (["--sink", "sinks", "--normaliser", "none"], 2,
             "error: --sink contradicts --normaliser none, which has none; leave out one\n"),
            ([files["dsl"], "--normaliser", "sigmoid"], 2,
             f"error: --normaliser contradicts {files['dsl']}, which has normaliser softmax_sink; leave out the flag\n"),
            ([files["attn"], "--sink", "sinks"], 2,
             f"error: --sink contradicts {files['attn']}, which holds the variant; edit the file or leave out the flag\n"),
        ]
        for arguments, code, message in mistakes:
            self.attune("compile", *arguments, code=code)
            self.assertEqual(self.err, message)

    def test_nvrtc(self):
        base = ["--arch", "sm_90", "--head-dim", 64]
        probe = subprocess.run([ATTUNE, "compile", "causal", *map(str, base), "--json"], capture_output=True,
                               env=self.environment)
        if b"NVRTC was not found" in probe.stderr:
            self.skipTest("no NVRTC")
        summary = self.json("compile", "causal", *base)
        self.assertEqual(summary["path"], "mma.sync")
        self.assertGreater(summary["registers"], 0)
        self.assertIn(".target sm_90", self.attune("compile", "causal", *base, "--emit", "ptx"))
        file = self.path("x.cubin")
        self.attune("compile", "causal", *base, "--emit", "cubin", "-o", file)
        with open(file, "rb") as cubin:
            self.assertEqual(cubin.read(4), b"\x7fELF")

    def test_nvrtc_finds_its_builtins(self):
        """They lie next to NVRTC, in a folder that the loader's cache need not name: that of a Python package, for example."""
        loader = "/lib64/ld-linux-x86-64.so.2"
        if not os.path.exists(loader):
            self.skipTest("no loader of x86-64 Linux")
        compile = [loader, "--inhibit-cache", ATTUNE, "compile", "causal", "--arch", "sm_90", "--head-dim", "64", "--no-cache"]
        environment = {name: value for name, value in self.environment.items() if name != "LD_LIBRARY_PATH"}
        done = subprocess.run(compile, capture_output=True, env=environment, text=True, timeout=300)
        if "NVRTC was not found" in done.stderr:
            self.skipTest("no NVRTC")
        self.assertEqual(done.returncode, 0, done.stderr)

    # ---- run

    def test_run_and_dump(self):
        folder = self.path("dump")
        result = self.json("run", "--score", "s + slopes[h] * (k - q)", "--mask", "q >= k", "--tensor",
                           "slopes=f32[H]:random", "--dtype", "f32", "--target", "cpu", "--shape", "2,4,2,19,23,16,24",
                           "--dump", folder, "--seed", 5)
        self.assertEqual(result["path"], "cpu")
        self.assertTrue(result["check"]["o"]["pass"] and result["check"]["lse"]["pass"])
        slopes = read_npy(os.path.join(folder, "tensors", "slopes.npy"))[1]
        o, lse = attention(folder, lambda s, b, h, q, k: s + slopes[h] * (k - q), lambda b, h, q, k: q >= k)
        self.assertLess(o, 1e-5)
        self.assertLess(lse, 1e-5)
        meta = read_json(os.path.join(folder, "meta.json"))
        for field in ["scale", "extents", "dtype", "variant", "target", "path", "plan", "seed", "offset"]:
            self.assertIn(field, meta)
        self.assertEqual(read_npy(os.path.join(folder, "o.npy"))[0], (2, 4, 19, 24))

    def test_visible_keys(self):
        """What a window hides is no work, whether the results are checked or not."""
        run = ["run", "--mask", "abs(q - k) < 4", "--target", "cpu", "--dtype", "f32", "--shape", "2,3,3,100,100,16,24"]
        visible = 6 * sum(abs(q - k) < 4 for q in range(100) for k in range(100))
        for extra in [[], ["--no-check"]]:
            result = self.json(*run, *extra)
            self.assertEqual(result["visibleKeys"], visible)
            self.assertAlmostEqual(result["gflopsPerSecond"] * result["milliseconds"] * 1e6, 2 * visible * (16 + 24), delta=1)
        self.assertRegex(self.attune(*run, "--no-check"), r"(?m)^  time           [0-9.]+ ms, median \([0-9.]+ GFLOP/s of the 6.88% of keys that are visible\)$")
        self.assertRegex(self.attune("run", "--target", "cpu", "--shape", "1,1,1,20,20,16,16"), r"median \([0-9.]+ GFLOP/s\)\n")
        file = self.path("anonymous.mlir")
        self.attune("compile", "causal", "--arch", "cpu", "--head-dim", 16, "--emit", "tile", "-o", file)
        self.write("anonymous.mlir", read_text(file).replace("attn.variant = #variant", ""))
        unknown = ["run", file, "--target", "cpu", "--shape", "1,1,1,20,20,16,16"]
        self.assertRegex(self.attune(*unknown), r"median \([0-9.]+ GFLOP/s, hidden keys counted\)\n")
        self.assertIsNone(self.json(*unknown)["visibleKeys"])

    def test_dropout_dump(self):
        folder = self.path("dropout")
        self.attune("run", "causal-bottom-right", "--dropout", 0.3, "--dtype", "f32", "--target", "cpu", "--shape",
                    "1,2,1,20,33,16,16", "--dump", folder, "--seed", 7)
        shape, keep = read_npy(os.path.join(folder, "keep.npy"))
        self.assertEqual(shape, (1, 2, 20, 33))
        self.assertTrue(0.6 < sum(keep) / len(keep) < 0.8)
        o, lse = attention(folder, lambda s, b, h, q, k: s, lambda b, h, q, k: k - 33 <= q - 20)
        self.assertLess(o, 1e-5)
        self.assertLess(lse, 1e-5)

    def test_indices(self):
        base = ["--target", "cpu", "--dtype", "f32", "--shape", "1,4,2,64,80,16,16"]
        # Plain: the launch says it.
        self.attune("run", "documents", "--tensor", "ids=i32[5]:zeros", *base, code=1)
        self.assertEqual(self.err, "error: captured tensor 'ids' has 5 elements in dimension 0 and is indexed by q, but Sq is 64; pass at least "
                                   "64, or write clamped(ids[q]) where reading the last element is meant\n")
        self.attune("run", "alibi", "--tensor", "slopes=f32[1]:random", *base, code=1)
        self.assertIn("captured tensor 'slopes' has 1 element in dimension 0 and is indexed by h, but H is 4; pass at least 4,", self.err)
        self.attune("run", "bias", "--tensor", "bias=f32[1,64,80]:random", *base)
        self.attune("run", "--score", "s + clamped(w[k])", "--tensor", "w=f32[5]:random", "--checked", *base)
        # Computed: run counts, --checked says where.
        computed = ["--score", "s + w[k / 2]", "--mask", "q >= k", "--tensor", "w=f32[20]:random", *base]
        text = self.attune("run", *computed)
        # Keys 40 to 63, seen by 24, 23, ..., 1 queries of 4 heads.
        self.assertIn("  note           1200 reads of w were clamped; --checked says where the first one is\n", text)
        self.assertEqual(self.json("run", *computed)["check"]["clampedReads"], {"w": 1200})
        self.attune("run", *computed, "--checked", code=1)
        self.assertEqual(self.err, "score:1:5: error: w[k / 2] reads w[20] at b 0, h 0, q 40, k 40, but captured tensor 'w' has 20 elements in "
                                   "dimension 0; correct or guard the index, or write clamped(w[k / 2]) where reading the nearest element is "
                                   "meant\ns + w[k / 2]\n    ^\n")
        file = self.write("indexed.json", json.dumps({"name": "mine", "score": "s\n\t+ w[k / 2]", "tensors": {"w": {"dtype": "f32", "rank": 1}}}))
        self.attune("run", file, "--tensor", "w=f32[20]:random", *base, "--checked", code=1)
        self.assertRegex(self.err, r"(?s)^score:2:4: error: .* at b 0, h 0, q 0, k 40, .*\n\t\+ w\[k / 2\]\n\t  \^\n$")
        within = ["--score", "s + w[k / 2]", "--tensor", "w=f32[40]:random", *base]
        self.assertIn("  indices        all within their tensors\n", self.attune("run", *within, "--checked"))
        self.assertNotIn("clamped", self.attune("run", *within))
        # Of a backward pass as of the one whose outputs it takes.
        backward = ["--score", "s + w[k / 2]", "--backward", "--grad", "w", "--checked", *base]
        self.assertIn("  indices        all within their tensors\n", self.attune("run", *backward, "--tensor", "w=f32[40]:random"))
        self.attune("run", *backward, "--tensor", "w=f32[20]:random", code=1)
        self.assertIn("score:1:5: error: w[k / 2] reads w[20] at b 0, h 0, q 0, k 40, but captured tensor 'w' has 20 elements", self.err)
        self.attune("run", "alibi", "--score", "s", "--tensor", "slopes=f32[4]:random", *base, code=2)
        # Of text that names no variant nothing is known.
        text = self.attune("compile", "--score", "s + w[k]", "--arch", "cpu", "--dtype", "f32", "--head-dim", 16, "--emit", "tile")
        bare = self.write("bare.tile.mlir", re.sub(r"module attributes \{attn\.variant = .*?\} \{", "module {", text, count=1))
        self.assertIn("  indices        not checked: the text does not say which variant it is\n",
                      self.attune("run", bare, "--tensor", "w=f32[5]:random", "--target", "cpu", "--shape", "1,4,2,64,80,16,16", "--checked"))
        named = self.write("named.tile.mlir", text)
        self.attune("run", named, "--tensor", "w=f32[5]:random", "--target", "cpu", "--shape", "1,4,2,64,80,16,16", code=1)
        self.assertIn("captured tensor 'w' has 5 elements in dimension 0 and is indexed by k, but Sk is 80;", self.err)

    def test_ones_and_ranges(self):
        folder = self.path("ranges")

        def drawn(*specs, seed=1):
            tensors = [word for spec in specs for word in ("--tensor", spec)]
            score = "s + one[h] + real[h, k] + half[k] + f32(whole[k])"
            result = self.json("run", "--score", score, "--mask", "flags[k] || k == 0", *tensors, "--dtype", "f32", "--target", "cpu", "--shape",
                               "1,2,2,4,400,16,16", "--seed", seed, "--dump", folder)
            self.assertTrue(result["check"]["o"]["pass"])
            return {name: read_npy(os.path.join(folder, "tensors", name + ".npy"))[1] for name in ["one", "real", "half", "whole", "flags"]}

        specs = ["one=bf16[H]:ones", "real=f32[H,Sk]:-1.5..-.5", "half=f16[Sk]:2..2", "whole=i32[Sk]:-1..2", "flags=bool[Sk]:0..1"]
        values = drawn(*specs)
        self.assertEqual(values["one"], (1.0, 1.0))
        self.assertEqual(set(values["half"]), {2.0})
        self.assertEqual(set(values["whole"]), {-1, 0, 1, 2})
        self.assertEqual(set(values["flags"]), {False, True})
        real = values["real"]
        self.assertTrue(-1.5 <= min(real) < -1.49 and -0.51 < max(real) <= -0.5)
        self.assertLess(abs(sum(real) / len(real) + 1), 0.05)
        for low in [-1.5, -1.25, -1, -0.75]:
            self.assertLess(abs(sum(low <= x < low + 0.25 for x in real) - 200), 60)
        self.assertEqual(drawn(*specs), values)
        self.assertNotEqual(drawn(*specs, seed=2)["real"], real)
        # What the help says of random.
        random = drawn("one=f32[H]:ones", "real=f32[H,Sk]:random", "half=f16[Sk]:zeros", "whole=i32[Sk]:random", "flags=bool[Sk]:random")
        self.assertEqual(set(random["whole"]), set(range(8)))
        self.assertEqual(set(random["flags"]), {False, True})
        self.assertEqual(set(random["half"]), {0.0})
        self.assertLess(abs(sum(random["real"]) / 800), 0.15)
        self.assertLess(abs(sum(x * x for x in random["real"]) / 800 - 1), 0.2)

    def test_own_inputs(self):
        count = 2 * 5 * 8
        values = [math.sin(i) for i in range(count)]
        for name in "qkv":
            write_npy(self.path(f"own_{name}.npy"), (1, 2, 5, 8), values)
        folder = self.path("own")
        files = [f"--{n}={self.path(f'own_{n}.npy')}" for n in "qkv"]
        self.attune("run", *files, "--dtype", "f32", "--target", "cpu", "--scale", 0.5, "--dump", folder)
        self.assertEqual(read_json(os.path.join(folder, "meta.json"))["scale"], 0.5)
        o, _ = attention(folder, lambda s, b, h, q, k: s, lambda b, h, q, k: True)
        self.assertLess(o, 1e-5)
        # The same shape beside the files is no contradiction, another one is.
        self.assertTrue(self.json("run", *files, "--shape", "1,2,2,5,5,8,8", "--dtype", "f32", "--target", "cpu")["check"]["o"]["pass"])
        self.attune("run", *files, "--shape", "1,2,2,5,6,8,8", code=2)
        q, k, v = (self.path(f"own_{n}.npy") for n in "qkv")
        self.assertEqual(self.err, f"error: --shape 1,2,2,5,6,8,8 contradicts {q}, {k} and {v}, which hold 1,2,2,5,5,8,8; leave out the flag\n")
        slopes = self.path("slopes.npy")
        write_npy(slopes, (2,), [0.5, 0.25])
        self.attune("run", "alibi", *files, "--tensor", f"slopes=f32[2]:{slopes}", "--shape", "1,2,2,5,5,8,8", "--target", "cpu")
        self.attune("run", "alibi", *files, "--tensor", f"slopes=f32[3]:{slopes}", "--target", "cpu", code=1)
        self.assertEqual(self.err, f"error: --tensor slopes has shape [3], {slopes} holds [2]; leave out the shape\n")
        write_npy(q, (1, 2, 5, 8), values, "<f8")
        self.attune("run", *files, "--target", "cpu", code=2)
        self.assertEqual(self.err, f"error: {q}: the elements are float64, but must be float16, bfloat16 or float32; save a.astype('float32') instead\n")
        write_npy(q, (1, 2, 5, 8), range(count), "<i4")
        self.attune("run", *files, "--target", "cpu", code=2)
        self.assertEqual(self.err, f"error: {q} holds i32, required is float32, float16 or bfloat16; convert it in NumPy\n")
        write_npy(q, (1, 2, 5, 8), values)
        self.attune("run", *files, "--head-dim", 16, code=2)

    def test_hidden_keys_that_are_not_finite(self):
        # Rows of NaN in K and V behind the keys that a padding mask shows.
        values = [math.sin(i) for i in range(20 * 16)]
        poisoned = values[: 12 * 16] + [math.nan] * (8 * 16)
        for name, data in [("q", values), ("k", poisoned), ("v", poisoned)]:
            write_npy(self.path(f"padded_{name}.npy"), (1, 1, 20, 16), data)
        files = [f"--{n}={self.path(f'padded_{n}.npy')}" for n in "qkv"]
        for dtype in ["f32", "bf16"]:
            result = self.json("run", *files, "--mask", "k < 12", "--dtype", dtype, "--target", "cpu")
            for check in [result["check"]["o"], result["check"]["lse"]]:
                self.assertTrue(check["pass"])
                self.assertEqual((check["rows"], check["badRows"]), (20, 0))
            unchecked = result["check"]["o"]["uncheckedRows"]
            text = self.attune("run", *files, "--mask", "k < 12", "--dtype", dtype, "--target", "cpu")
            counted = f"{unchecked} of 20 rows not checked, keys hidden from them hold NaN or infinities"
            self.assertEqual(counted in text, unchecked > 0)
            # At visible keys NaN has to arrive.
            self.assertTrue(self.json("run", *files, "--dtype", dtype, "--target", "cpu")["check"]["o"]["pass"])

    def test_builtins_have_data(self):
        for entry in self.json("list")["variants"]:
            with self.subTest(variant=entry["name"]):
                result = self.json("run", entry["name"], "--target", "cpu", "--dtype", "f32", "--shape",
                                   "2,2,1,40,40,32,32")
                self.assertTrue(result["check"]["o"]["pass"])

    def test_pages_and_lengths(self):
        on_cpu = ["--target", "cpu", "--dtype", "f32", "--mask", "causalBottomRight()"]
        shape = ["--shape", "3,4,2,5,96,32,32"]
        for flags in ["--paged", "32"], ["--lengths"], ["--paged", "16", "--lengths", "--query-lengths"]:
            result = self.json("run", *on_cpu, *shape, *flags)
            self.assertTrue(result["check"]["o"]["pass"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lengths.npy")
            with open(path, "wb") as file:
                header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"
                header += " " * (-(10 + len(header) + 1) % 64) + "\n"
                file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<3i", 96, 0, 7))
            self.assertTrue(self.json("run", *on_cpu, *shape, "--paged", "16", "--lengths", path)["check"]["o"]["pass"])
            self.attune("run", *on_cpu, "--shape", "2,4,2,5,96,32,32", "--lengths", path, code=1)
            self.assertIn("captured tensor lengths has [3], a run of batch 2 needs a length for each", self.err)
            self.attune("run", *on_cpu, "--shape", "3,4,2,5,90,32,32", "--paged", "16", "--lengths", path, code=1)
            self.assertEqual(self.err, "error: lengths[0] is 96, the shape has 90 keys; pass 0 to 90\n")
        self.attune("run", *on_cpu, "--shape", "3,4,2,5,100,32,32", "--paged", "16", code=1)
        self.assertEqual(self.err, "error: 100 keys are no whole pages of 16; run with 112, or with --lengths\n")
        self.attune("run", *on_cpu, *shape, "--paged", "20", code=1)
        self.assertIn("page size 20 is not a positive multiple of 16; use 16, 64 or 128", self.err)
        self.attune("run", *on_cpu, *shape, "--paged", "16", "--backward", code=1)
        self.assertIn("keys in pages have no backward pass; gather the pages into rows in one piece, with .keyLengths", self.err)
        self.assertTrue(self.json("run", *on_cpu, *shape, "--lengths", "--query-lengths", "--backward")["check"]["dk"]["pass"])
        self.assertTrue(self.json("run", *on_cpu, "--shape", "3,4,2,70,96,32,32", "--packed", "--paged", "16", "--lengths")["check"]["o"]["pass"])

    def test_without_a_gpu(self):
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"}  # on a machine with one, too
        shape = ["--shape", "1,1,1,40,40,32,32"]
        why = r"note: (no CUDA driver: .*|the CUDA driver has no device; .*|.*CUDA.*)\n$"
        self.assertIn(" on cpu\n", self.attune("run", "causal", *shape, environment=hidden))
        self.assertRegex(self.err, "^note: there is no GPU to run on, the CPU runs this; --target cpu asks for that, --simulate 4 runs a GPU's schedule without "
                                   "one\n" + why)
        self.attune("run", "causal", *shape, "--target", "cpu", environment=hidden)
        self.assertEqual(self.err, "")
        for asked in [["--target", "gpu"], ["--arch", "sm_90a"]]:
            self.assertEqual(self.attune("run", "causal", *shape, *asked, code=1, environment=hidden), "")
            self.assertRegex(self.err, "^error: there is no GPU to run on; --target cpu runs on the CPU, --simulate 4 runs a GPU's schedule without one\n" + why)
        # The simulator needs none, and takes the architecture that attune compile takes.
        self.assertIn("1 orders of events of causal for sm_90a, no finding\n", self.attune("run", "causal", *shape, "--simulate", 1, environment=hidden))
        self.assertEqual(self.err, "")

    def test_edited_tile_text_runs(self):
        file = self.path("edit.mlir")
        self.attune("compile", "causal", "--arch", "cpu", "--dtype", "f32", "--head-dim", 32, "--tile-q", 64, "--emit",
                    "attn", "-o", file)
        result = self.json("run", file, "--target", "cpu", "--shape", "1,2,2,50,50,32,32", "--tile-q", 32)
        self.assertTrue(result["check"]["o"]["pass"])
        self.assertEqual(result["plan"]["tileQ"], 32)
        text = self.attune("compile", "causal", "--arch", "sm_80", "--head-dim", 64, "--tile-q", 128, "--tile-k", 64, "--emit", "tile")
        for field, size, found in [("q", 64, "'tile.load' op has 128 of q"), ("k", 32, "'tile.domain' op steps by 64 of k")]:
            edited = self.write("plan.tile.mlir", re.sub(rf"(plan <[^,]*\b{field}) \d+", rf"\1 {size}", text, count=1))
            self.attune("compile", edited, "--arch", "sm_80", "--emit", "cuda", code=1)
            self.assertRegex(self.err, rf"plan\.tile\.mlir:\d+:\d+: error: {found}, the plan has {size}; the plan and all ops have one size, for "
                                       rf"another start from attn with --tile-{field} {size}\n")

    def test_simulate_finds_a_stage_of_q_that_never_moves(self):
        # It shows where the producer is a tile of work ahead: with 6 tiles of keys or 16 it never is.
        for variant, rows, keys, line in [
                ("causal", 192, 128, "'sched.send' op writes tasks, stage 1, which another warp may still read"),
                ("softcap", 256, 64, "'sched.expect_bytes' op arrives at q_barriers, stage 1, more often than the 1 that fill it")]:
            text = self.attune("compile", variant, "--arch", "sm_90a", "--head-dim", 64, "--tile-q", rows, "--tile-k", keys, "--emit", "sched")
            mutant = re.sub(r"sched.acquire %q_barriers\[%\w+\]", "sched.acquire %q_barriers[%c0_i32]", text, count=1)
            self.assertNotEqual(mutant, text)
            file = self.write("stage.mlir", mutant)
            self.attune("run", file, "--arch", "sm_90a", "--simulate", 1, code=1)
            self.assertIn(line, self.err)

    def test_simulate(self):
        schedule = ["--tile-q", 64, "--tile-k", 32, "--warps", 4, "--stages", 2, "--q-registers", "false"]
        shape = ["--shape", "1,2,1,100,130,64,64"]
        for arch in ["sm_80", "sm_90a"]:
            text = self.attune("run", "causal", "--dropout", 0.1, "--arch", arch, *shape, *schedule, "--simulate", 3)
            self.assertIn(f"3 orders of events of causal_dropout for {arch}, no finding\n", text)
            self.assertIn("o: rms ", text)
        text = self.attune("compile", "causal", "--arch", "sm_80", "--head-dim", 64, *schedule, "--emit", "sched")
        file = self.write("broken.mlir", text.replace("sched.wait_copies pending 0\n", "\n", 1))
        self.attune("run", file, "--arch", "sm_80", *shape, "--simulate", 4, code=1)
        self.assertIn("'sched.load_matrix' op reads q_tile", self.err)
        self.assertIn("note: the other is 'sched.copy_async' op at", self.err)
        # Without a shape: several tiles of work a block, of several segments and of one tile, all ragged.
        text = self.attune("run", "causal", "--arch", "sm_80", "--head-dim", 64, *schedule, "--simulate", 1)
        self.assertIn("  shape          2,4,2,145,105,64,64\n", text)
        self.assertIn("  shape          2,4,2,145,9,64,64\n", text)
        self.attune("run", "causal", "--target", "cpu", *shape, "--simulate", 2, code=2)
        self.assertIn("--simulate is for a GPU's schedule", self.err)
        self.attune("run", "causal", "--arch", "sm_80", *shape, *schedule, "--simulate", 2, "--json", code=2)
        self.assertIn("leave out --json", self.err)

    # ---- explain and cache

    def test_explain(self):
        text = self.attune("explain", "causal", "--arch", "sm_80", "--head-dim", 64, "--sram-budget", 65536)
        for word in ["sram", "of 65536 bytes", "registers", " between L2 and shared memory, ", " between HBM and L2, of these ", "ranking", "limited by"]:
            self.assertIn(word, text)
        explained = self.json("explain", "causal", "--arch", "sm_80", "--head-dim", 64)
        self.assertEqual(sum(candidate["chosen"] for candidate in explained["candidates"]), 1)
        self.assertLessEqual(explained["plan"]["shared"]["bytes"], explained["plan"]["shared"]["budget"])
        self.assertEqual(explained["plan"]["dvWarps"], 1)
        self.assertNotIn("dv split", text)

    def test_ranking(self):
        """The order is that of the number shown, but for what says why it stands elsewhere; every candidate says why it is not taken."""
        for args, by in [(["causal", "--arch", "sm_90", "--head-dim", 128], "microseconds"), (["causal", "--arch", "cpu"], "microseconds"),
                         (["alibi", "--arch", "sm_90a", "--head-dim", 128], "meanMicroseconds"),
                         (["block-sparse", "--arch", "sm_80", "--head-dim", 64, "--shape", "2,8,8,1000,1000,64,64"], "microseconds")]:
            with self.subTest(args=args):
                explained = self.json("explain", *args)
                self.assertEqual(explained["rankedBy"], by)
                fit = [each for each in explained["candidates"] if not each["rejected"]]
                chosen = next(i for i, each in enumerate(fit) if each["chosen"])
                self.assertEqual(fit[chosen]["passedOver"], "")
                for each in fit[:chosen]:
                    self.assertRegex(each["passedOver"], "^compiled: spills [1-9][0-9]* bytes$|^not compiled: a plan ahead of it spills, and|"
                                                         r"slower at the sizes that compile\(\) ranks for$")
                behind = [each for each in fit[chosen + 1:] if each["passedOver"] not in ("expected to spill registers",
                                                                                          "the tile does not divide the block pattern")]
                for each in behind:
                    slower = 100 * (each[by] / fit[chosen][by] - 1)
                    self.assertEqual(each["passedOver"], f"{slower:.1f}% slower" if slower >= 0.05 else "no quicker")
                self.assertEqual(behind, sorted(behind, key=lambda each: each[by]))
                self.assertGreater(len(behind), 1)
                for each in fit:
                    self.assertEqual(each["limitedBy"], re.match("(.*?) [0-9]+%", each["busy"]).group(1))
        head = self.attune("explain", "causal", "--arch", "sm_90a", "--head-dim", 64, "--candidates", 2).split("ranking of ")[1].splitlines()
        self.assertRegex(head[0], r"^[0-9]+ schedules that fit \([0-9]+ do not\) by mean us for B 4 H 32 Hkv 32 Sq 4096 Sk 4096; the mean is the geometric one$")
        self.assertEqual(head[1], "of the times of as many tokens in sequences of an eighth to four times this length")
        self.assertRegex(head[2], r"^  rank    mean us         us    traffic      sram regs  schedule; limited by; why it is passed over \(\* the")
        cpu = self.attune("explain", "causal", "--arch", "cpu", "--candidates", 3)
        for text in ["  plan           64 x 128\n", " between the shared cache and the core's, ", "  limited by     products\n", "  busy           products "]:
            self.assertIn(text, cpu)
        for text in ["per SM", "warp", "stage", "regs"]:
            self.assertNotIn(text, cpu)

    def test_plans_that_spill_are_passed_over(self):
        """What the compiler makes of the plans that it tries stands in the ranking."""
        variant = ["--mask", " || ".join(f"(q - k) % {i + 2} == {i % 2}" for i in range(12)), "--arch", "sm_80"]
        explained = self.json("explain", *variant)
        plan = self.json("compile", *variant)["plan"]
        self.assertGreater(len(plan["attempts"]), 1)
        for attempt in plan["attempts"]:
            ranked = next(each for each in explained["candidates"] if each["text"] == attempt["text"])
            self.assertEqual(ranked["passedOver"], "" if attempt["text"] == plan["text"] else f"compiled: spills {attempt['spillBytes']} bytes")
        self.assertIn(f"; compiled: spills {plan['attempts'][0]['spillBytes']} bytes\n", self.attune("explain", *variant, "--candidates", 1))
        ahead = explained["candidates"][: next(i for i, each in enumerate(explained["candidates"]) if each["chosen"])]
        for each in ahead:
            self.assertRegex(each["passedOver"], "^(compiled: spills [0-9]+ bytes|not compiled: a plan ahead of it spills, and it leaves no more registers free)$")
        # Where each of them spills, the least is taken, and says so.
        spills = ["--mask", " && ".join(f"((q & {i + 1}) != (k & {i + 3}))" for i in range(8)), "--arch", "sm_90a", "--head-dim", 64]
        plan = self.json("compile", *spills)["plan"]
        self.assertEqual(plan["spills"], f"the least of {len(plan['attempts'])} plans that were compiled")
        self.assertEqual(plan["registers"]["spillBytes"], min(attempt["spillBytes"] for attempt in plan["attempts"]))

    def test_explain_schedule(self):
        """Each decision about the schedule, with what was chosen."""
        self.assertIn("ping-pong: the products of one warpgroup overlap with the softmax of another; its product with V overlaps with half of its own softmax\n", self.attune("explain", "causal", "--arch", "sm_90a", "--head-dim", 128))
        hopper = self.attune("explain", "causal", "--arch", "sm_90a", "--head-dim", 64)
        ring = r"\(\d stages, 128-byte swizzle\)"
        for line in ["masks +one loop; partial tiles are masked under a uniform branch",
                     f"copies +q_[a-z]+ \\(.*\\), k_ring {ring}, v_ring {ring} by TMA",
                     "roles +producer 4 warps of [0-9]+ registers, consumer (8|12|16) warps of [0-9]+ registers \\(setmaxnreg\\)",
                     "products +wgmma, P from registers", "overlap +ping-pong: the products of one warpgroup overlap with the softmax of another",
                     "order +(one tile per block, the longest rows of many heads first|persistent blocks, static: pairs of tiles from both ends of a head)",
                     "epilogue +O through o_tile by TMA"]:
            self.assertRegex(hopper, f"(?m)^  {line}$")
        self.assertIn("  parts          a warpgroup skips tiles of keys that are masked for all of its rows\n", hopper)
        self.assertNotIn("  search ", hopper)
        reverse = "  tiles          from the last one, which is near the queries, so that row maxima change early\n"
        self.assertNotIn(reverse, hopper)
        self.assertIn(reverse, self.attune("explain", "sliding-window", "--arch", "sm_90a", "--head-dim", 64))
        self.assertIn(reverse, self.attune("explain", "alibi", "--tensor", "slopes=f32[8]:zeros", "--arch", "sm_90a", "--head-dim", 128))
        self.assertNotIn(reverse, self.attune("explain", "sliding-window", "--arch", "sm_80", "--head-dim", 64))
        dense = self.attune("explain", "bias", "--tensor", "bias=bf16[2,64,64]:zeros", "--arch", "sm_90a", "--head-dim", 64)
        self.assertRegex(dense, rf"(?m)^  copies +.*bias_ring {ring}, v_ring {ring} by TMA$")
        self.assertRegex(dense, r"(?m)^  kernel +bias_elements .*\n  kernel +bias  ")
        documents = self.attune("explain", "documents", "--arch", "sm_90a", "--head-dim", 64)
        self.assertIn("  search         one warp searches for the next visible tile, 32 at a time; another copies V\n", documents)
        self.assertIn("  parts          a warpgroup skips tiles of keys that are masked for all of its rows\n", documents)
        self.assertIn("  order          persistent blocks, dynamic: a free block claims the next tile, the longest rows of many heads first\n", documents)
        maxima = "  maxima         lazy rescaling: a row keeps its maximum until a lane's sum of exponentials reaches 2^15\n"
        self.assertIn(maxima, self.attune("explain", "causal", "--arch", "sm_90a", "--head-dim", 256))
        self.assertIn(maxima, documents)
        self.assertNotIn(maxima, self.attune("explain", "plain", "--dropout", 0.1, "--arch", "sm_90a", "--head-dim", 64))
        functions = "  functions      tanh or exp2 of 16 columns is interleaved with the arithmetic of the next 16\n"
        self.assertIn(functions, self.attune("explain", "softcap", "--arch", "sm_90a", "--head-dim", 64))
        self.assertIn(functions, self.attune("explain", "plain", "--arch", "sm_90a", "--head-dim", 128))
        self.assertNotIn(functions, self.attune("explain", "plain", "--arch", "sm_90a", "--head-dim", 64))
        # Maxima that do not stay: the wait comes after the whole softmax.
        searched = self.attune("explain", "--arch", "sm_90a", "--head-dim", 128, "--score", "s + slopes[h] * (k - q)", "--mask", "ids[q] == ids[k]",
                               "--tensor", "slopes=f32[1]:random", "--tensor", "ids=i32[4096]:zeros")
        self.assertIn("ping-pong: the products of one warpgroup overlap with the softmax of another; its product with V overlaps with its own softmax\n", searched)
        self.assertNotIn(maxima, searched)
        for head_dim, overlap in ((64, "the product of the tile that warpgroups exchange overlaps with the softmax of the next tile; other products overlap with each other"),
                                  (128, "products overlap with each other and with the arithmetic between them")):
            self.assertIn(f"  overlap        {overlap}\n", self.attune("explain", "causal", "--backward", "--arch", "sm_90a", "--head-dim", head_dim))
        self.assertNotIn("  parts ", self.attune("explain", "block-sparse", "--arch", "sm_90a", "--head-dim", 64))
        ampere = self.json("explain", "causal", "--arch", "sm_80", "--head-dim", 64)["plan"]["schedule"]
        self.assertRegex(ampere.pop("copies"), r"^q_tile .* by cp.async$")
        self.assertEqual(ampere, {"masks": "one loop; partial tiles are masked under a uniform branch", "roles": "none: every warp copies and computes",
                                  "products": "mma.sync", "overlap": "copies overlap with products and softmax",
                                  "order": "one tile per block, the longest rows of many heads first",
                                  "epilogue": "O through o_tile, 16 bytes a thread"})

    def test_masks_of_many_clauses(self):
        """The compiler's time grows with a mask's clauses no more than linearly, up to budgets of which it says what they left out."""
        def compiled(clauses, *args, join=" || ", clause=lambda i: f"(q - k) % {i + 2} == {i % 2}"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.attune("compile", "--mask", join.join(clause(i) for i in range(clauses)), "--no-cache", "--head-dim", 64, *args)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

        tables, bits = {"clause": lambda i: f"t[q] == {i} && u[k] < {i}"}, {"join": " && ", "clause": lambda i: f"(q & {i + 1}) != (k & {i + 3})"}
        for args, more in [(["--emit", "tile", "--arch", "sm_80"], {}), (["--emit", "tile", "--arch", "sm_90a"], {"join": " && "}),
                           (["--emit", "tile", "--arch", "sm_80"], tables), (["--emit", "cuda", "--arch", "sm_90a"], bits),
                           (["--emit", "sched", "--arch", "sm_80"], {}), (["--emit", "tile", "--arch", "sm_80", "--backward"], {})]:
            with self.subTest(args=args):
                few, many = compiled(60, *args, **more), compiled(240, *args, **more)
                self.assertLess(many, 6 * few)
                self.assertLess(many, 10) # a second, where nothing slows the process down

    def test_explain_what_a_large_mask_leaves_out(self):
        mask = ["--mask", " && ".join(f"(q & {i + 1}) != (k & {i + 3})" for i in range(100)), "--arch", "sm_80", "--head-dim", 64]
        explained = self.attune("explain", *mask)
        for remark in [r"the mask computes [0-9]+ values of an element: the cost model evaluates larger tiles of it, and counts all of one as visited where it "
                       "cannot prove that nothing of it is visible",
                       "tiles have bounds of 32 values of the mask, which is the most; conditions of others leave out no tile"]:
            self.assertRegex(explained, f"(?m)^  remark +{remark}$")
            self.assertTrue(any(re.fullmatch(remark, each) for each in self.json("compile", *mask)["plan"]["remarks"]))

    def test_masks_of_many_clauses_are_right(self):
        """Conditions of many ops are computed in a loop over a thread's elements, of which about half are visible here."""
        tensors = ["--tensor", "t=i32[100]:random", "--tensor", "u=i32[130]:random"]
        masks = {" || ".join(f"(q + {i} * k) % 97 == {i}" for i in range(70)): [], " && ".join(f"(q + {i} * k) % 97 != {i}" for i in range(70)): [],
                 " || ".join(f"(t[q] + {i} * u[k]) % 97 == {i}" for i in range(70)): tensors,
                 " && ".join(f"t[q] != u[k] + {i}" for i in range(50)): tensors}
        for arch in ["sm_80", "sm_90a"]:
            for mask, more in masks.items():
                for backward in [[], ["--backward"]]:
                    with self.subTest(arch=arch, mask=mask[:40], backward=backward):
                        run = ["--mask", mask, *more, "--arch", arch, *backward]
                        if "%" in mask: # else what the keys alone decide stands in vectors
                            self.assertRegex(self.attune("compile", *run, "--head-dim", 64, "--emit", "cuda"), r"#pragma unroll 1\n +for \(int column = ")
                        self.attune("run", *run, "--shape", "1,1,1,100,130,64,64", "--simulate", 1)

    def test_explain_dv_split(self):
        wide = ["explain", "causal", "--arch", "sm_86", "--head-dim", 512]
        text = self.attune(*wide, "--candidates", 2)
        self.assertIn("64 x 16, 8 warps (2 split dv), 1 stage", text)
        self.assertIn("dv split       2 warps share the same rows: each computes their S and has 1/2 of the columns of V and O\n", text)
        self.assertEqual(self.json(*wide)["plan"]["dvWarps"], 2)
        self.assertEqual(self.json(*wide, "--dv-warps", 4)["plan"]["dvWarps"], 4)
        self.attune("explain", "--arch", "sm_80", "--head-dim", 512, "--dv-warps", 3, code=1)
        self.assertIn("dv-warps 3 is not supported; use 1, 2 or 4", self.err)

    def test_schedule_fields(self):
        hopper = ["explain", "causal", "--arch", "sm_90a", "--head-dim", 64]
        free = self.json(*hopper)["plan"]
        for flag, name, other in (("--ping-pong", "pingPong", not free["pingPong"]), ("--overlap", "overlap", not free["overlap"]),
                                  ("--persistent", "persistent", not free["persistent"]), ("--query-stages", "queryStages", 1),
                                  ("--longest-first", "longestFirst", not free["longestFirst"])):
            self.assertNotEqual(free[name], other)
            self.assertEqual(self.json(*hopper, flag, str(other).lower())["plan"][name], other)
        marks = self.attune("compile", "causal", "--arch", "sm_90a", "--head-dim", 64, "--ping-pong", "false", "--longest-first", "false", "--emit", "tile")
        self.assertNotIn("sched.ping_pong", marks)
        self.assertNotIn("sched.longest_first", marks)
        self.assertIn("sched.persistent", marks)
        self.assertEqual(self.json("explain", "--arch", "sm_80", "--head-dim", 64, "--blocks-per-sm", 1)["plan"]["blocksPerSm"], 1)
        self.attune("explain", "--arch", "sm_80", "--head-dim", 64, "--ping-pong", "true", code=1)
        self.assertIn("ping-pong is not available for these inputs on sm_80", self.err)

    def test_cache(self):
        cache = self.path("own_cache")
        run = ["run", "causal", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,16,16,32,32", "--cache-dir", cache]
        self.assertFalse(self.json(*run)["compile"]["cacheHit"])
        self.assertTrue(self.json(*run)["compile"]["cacheHit"])
        self.assertRegex(self.attune(*run), rf"(?m)^  compile        from the cache \({cache}\) in [0-9.]+ ms, load [0-9.]+ ms; compiled then in "
                                            r"[0-9]+ ms: trace [0-9.]+ ms, IR [0-9.]+ ms, LLVM [0-9]+ ms$")
        entries = self.json("cache", "list", "--cache-dir", cache)["entries"]
        self.assertEqual([entry["name"] for entry in entries], ["causal"])
        # compile says the same of its own run.
        compiling = ["compile", "causal", "--arch", "cpu", "--dtype", "f32", "--head-dim", 32, "--cache-dir"]
        other = self.path("other_cache")
        self.assertRegex(self.attune(*compiling, other), r"(?m)^  compile        [0-9]+ ms: trace [0-9.]+ ms, IR [0-9.]+ ms, LLVM [0-9]+ ms$")
        then = "compiled then in [0-9]+ ms: trace [0-9.]+ ms, IR [0-9.]+ ms, LLVM [0-9]+ ms$"
        self.assertRegex(self.attune(*compiling, other), rf"(?m)^  compile        from the cache \({other}\) in [0-9.]+ ms; {then}")
        hit = self.json(*compiling, other)
        self.assertTrue(hit["cacheHit"])
        self.assertLess(hit["totalMilliseconds"], hit["milliseconds"]["nvrtc"])
        self.assertFalse(self.json(*compiling, other, "--no-cache")["cacheHit"])
        self.attune("cache", "verify", "--cache-dir", cache)
        with open(entries[0]["path"], "r+b") as entry:
            entry.seek(200)
            entry.write(b"damage")
        bad = subprocess.run([ATTUNE, "cache", "verify", "--cache-dir", cache], capture_output=True)
        self.assertEqual(bad.returncode, 1)
        self.assertIn(b"its checksum does not match", bad.stdout)
        # A bad entry is a miss with a warning.
        self.assertFalse(self.json(*run)["compile"]["cacheHit"])
        self.assertIn("is bad: its checksum does not match; compiling again", self.err)
        self.assertEqual(self.json("cache", "clear", "--cache-dir", cache)["removed"], 1)
        self.assertEqual(self.json("cache", "list", "--cache-dir", cache)["entries"], [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
