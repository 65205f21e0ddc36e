#!/usr/bin/env python3
"""`attune` with a cache folder that holds anything: each command ends, says what it did not use, and results are right.

    python3 tests/cli/cache_test.py build/bin/attune [Cache.test_NAME]
"""
import hashlib
import json
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ATTUNE = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "build/bin/attune"
RUN = ["run", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,16,16,32,32", "--json"]
REMEDY = "; correct that, or choose a folder of your own, such as by ATTUNE_CACHE_DIR"
SECTIONS = ["key", "metadata", "source", "binary"]


def read_sections(path):
    with open(path, "rb") as file:
        data = file.read()
    at, sections = 80, {}
    for name, size in zip(SECTIONS, struct.unpack_from("<4Q", data, 48)):
        sections[name] = data[at : at + size]
        at += size
    return sections


def write_sections(path, sections):
    """An entry under the right checksum."""
    parts = [sections[name] for name in SECTIONS]
    checked = struct.pack("<4Q", *map(len, parts)) + b"".join(parts)
    with open(path, "wb") as file:
        file.write(b"attune\r\n" + struct.pack("<2I", 1, 4) + hashlib.sha256(checked).digest() + checked)


class Cache(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.home = holder.name
        self.folder = os.path.join(self.home, "cache")
        self.environment = dict(os.environ, ATTUNE_CACHE_DIR=self.folder)
        self.addCleanup(os.umask, os.umask(0o022))

    def attune(self, *args, code=0, **options):
        """What hangs fails after a minute, what is ended by a signal has a negative exit code."""
        done = subprocess.run([ATTUNE, *map(str, args)], capture_output="stderr" not in options, env=self.environment, timeout=60,
                              **(options if "stderr" not in options else dict(stdout=subprocess.PIPE, **options)))
        self.out, self.err = done.stdout.decode(errors="replace"), (done.stderr or b"").decode(errors="replace")
        self.assertEqual(done.returncode, code, f"{args}\n{self.out}\n{self.err}")
        return self.out

    def hits(self, *args, **options):
        """Whether `attune run`, which checks its result, took the kernel from the cache."""
        return json.loads(self.attune(*RUN, *args, **options))["compile"]["cacheHit"]

    def entry(self):
        paths = [os.path.join(self.folder, name) for name in os.listdir(self.folder) if name.endswith(".attune")]
        self.assertEqual(len(paths), 1)
        return paths[0]

    def warnings(self):
        return [line for line in self.err.splitlines() if line.startswith("attune: warning: ")]

    def bad(self, path, problem):
        return [f"attune: warning: cache entry {path} is bad: {problem}; compiling again"]

    def test_modes(self):
        os.umask(0)
        self.assertFalse(self.hits())
        self.assertEqual(os.stat(self.folder).st_mode & 0o7777, 0o700)
        self.assertEqual(os.stat(self.entry()).st_mode & 0o7777, 0o600)

    def test_folder_of_others(self):
        self.assertFalse(self.hits())
        os.chmod(self.folder, 0o777)
        problem = f"cache folder {self.folder} is not used: its mode 0777 lets others write to it, required is 0755{REMEDY}"
        self.assertFalse(self.hits("--score", "s * 2"))
        self.assertEqual(self.warnings(), [f"attune: warning: {problem}"])
        self.assertFalse(self.hits())
        self.entry()  # nothing came to it
        for verb in ["list", "verify", "clear"]:
            self.attune("cache", verb, code=1)
            self.assertEqual(self.err, f"error: {problem}\n")
        os.chmod(self.folder, 0o700)
        self.assertTrue(self.hits())
        self.attune("cache", "list", "--cache-dir", self.entry(), code=1)
        self.assertEqual(self.err, f"error: cache folder {self.entry()} cannot be read: Not a directory; choose another one, such as by ATTUNE_CACHE_DIR\n")

    def test_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files to another user")
        self.assertFalse(self.hits())
        os.chown(self.entry(), 65533, 65533)
        self.assertIn("bad: it belongs to user 65533, required is user 0\n", self.attune("cache", "verify", code=1))
        self.assertFalse(self.hits())
        self.assertEqual(len(self.warnings()), 1)
        self.assertIn(f"cache entry {self.entry()} is not used: it belongs to user 65533, required is user 0; compiling again", self.err)
        self.assertTrue(self.hits())
        os.chown(self.folder, 65533, 65533)
        self.assertFalse(self.hits())
        self.assertEqual(self.warnings(), [f"attune: warning: cache folder {self.folder} is not used: it belongs to user 65533, required is user 0{REMEDY}"])

    def test_odd_files(self):
        self.assertFalse(self.hits())
        path = self.entry()

        def sparse(bytes):
            with open(path, "wb") as file:
                file.truncate(bytes)

        oddities = [(lambda: os.mkfifo(path), "it is not a regular file"),
                    (lambda: os.symlink(path, path), "it is not a regular file"),
                    (lambda: sparse(100 * 10**9), "it has 100000000000 bytes, the most is 67108864"),
                    (lambda: open(path, "w").close(), "it is cut off at 0 bytes")]
        for make, problem in oddities:
            with self.subTest(problem):
                os.remove(path)
                make()
                self.assertIn(f"bad: {problem}\n1 entries in", self.attune("cache", "list"))
                self.assertEqual(json.loads(self.attune("cache", "verify", "--json", code=1))["entries"][0]["problem"], problem)
                self.assertFalse(self.hits())
                self.assertEqual(self.warnings(), self.bad(path, problem))
                self.assertTrue(self.hits())
        os.remove(path)
        os.mkfifo(path)
        self.attune("cache", "clear")
        self.assertEqual(os.listdir(self.folder), [])

    def test_odd_names_and_dates(self):
        os.mkdir(self.folder, 0o700)
        with open(os.path.join(os.fsencode(self.folder), b"\xff\n.attune"), "wb") as file:
            file.write(b"x")
            try:
                os.utime(file.fileno(), (2**60, 2**60))
            except OSError:
                pass  # a file system without such dates
        self.assertIn("bad: it is cut off at 1 bytes", self.attune("cache", "list"))
        self.assertEqual(len(json.loads(self.attune("cache", "list", "--json"))["entries"]), 1)
        self.assertEqual(json.loads(self.attune("cache", "clear", "--json"))["removed"], 1)

    def forge(self, path, field, value):
        """The entry with a field of its metadata changed; "plan" is a text of JSON, "plan.FIELD" a field of that."""
        sections = read_sections(path)
        metadata = json.loads(sections["metadata"])
        plan = json.loads(metadata["plan"])
        *outer, last = field.split(".")
        holder = metadata
        for part in outer:
            part = int(part) if part.isdigit() else part
            holder = plan if holder is metadata and part == "plan" else holder[part]
        holder[last] = value
        if outer[:1] == ["plan"]:
            metadata["plan"] = json.dumps(plan)
        write_sections(path, dict(sections, metadata=json.dumps(metadata).encode()))

    def test_forgeries(self):
        metadata = "kernel metadata has {}; compile the kernel again"
        forgeries = [
            ("entries.0.sharedBytes", 2**60, metadata.format("sharedBytes 1152921504606846976, required is 0 to 1073741824")),
            ("tileQ", -1, metadata.format("tileQ -1, required is 0 to 1073741824")),
            ("arch", "sm_90", "its kernel is for sm_90, required is cpu"),
            ("signature.headDim", 64, "its kernel is for f32 of head_dim 64 x 32, required is f32 of 32 x 32"),
            ("signature.dtype", "bf16", "its kernel is for bf16 of head_dim 32 x 32, required is f32 of 32 x 32"),
            ("plan", "[" * 100000, "its plan is not a JSON object"),
            ("plan.text", 5, "its plan lacks 'text' or has it with another type"),
            ("plan.shared.buffers", [{"name": "x"}], "its plan lacks 'shared.buffers.bytes' or has it with another type"),
        ]
        self.assertFalse(self.hits())
        path = self.entry()
        good = read_sections(path)
        for field, value, problem in forgeries:
            with self.subTest(field=field):
                write_sections(path, good)
                self.forge(path, field, value)
                self.assertFalse(self.hits())
                self.assertEqual(self.warnings(), self.bad(path, problem))
        # A symbol that the code lacks: found when it is linked.
        self.forge(path, "entries.0.symbol", "nowhere")
        self.assertFalse(self.hits())
        self.assertIn(f"cache entry {path} does not load: cannot link a kernel for the CPU: ", self.err)
        for binary in [b"", b"\x7fELF", good["binary"][:1000], b"x" * 5000]:
            write_sections(path, dict(good, binary=binary))
            self.assertFalse(self.hits())
            self.assertEqual(len(self.warnings()), 1)

    def test_forged_plan_of_a_gpu_kernel(self):
        compiling = ["compile", "causal", "--arch", "sm_80", "--head-dim", 64]
        probe = subprocess.run([ATTUNE, *map(str, compiling)], capture_output=True, env=self.environment)
        if b"NVRTC was not found" in probe.stderr:
            self.skipTest("no NVRTC")
        path = self.entry()
        expected = self.attune(*compiling, "--emit", "sched")
        for field, value in [("plan", "{}"), ("plan.warps", "4"), ("plan.schedule", {"roles": None}), ("plan.traffic.sizes", 3)]:
            with self.subTest(field=field):
                self.forge(path, field, value)
                self.assertEqual(self.attune(*compiling, "--emit", "sched"), expected)
                self.assertIn(f"cache entry {path} is bad: its plan lacks '", self.err)
                self.assertEqual(len(self.warnings()), 1)
                self.attune(*compiling, "--emit", "sched")
                self.assertEqual(self.warnings(), [])

    TUNE = ["tune", "causal", "--target", "cpu", "--dtype", "f32", "--shape", "1,1,1,16,16,32,32", "--candidates", "1", "--budget", "0.1"]

    def test_what_cannot_be_removed(self):
        self.assertFalse(self.hits())
        stuck = os.path.join(self.folder, "0.attune")
        os.mkdir(stuck)  # which, as a file of a read-only folder, no user can unlink
        self.attune("cache", "clear", code=1)
        self.assertEqual(self.err, f"error: 1 files of cache folder {self.folder} cannot be removed, one is {stuck}: Is a directory; 1 entries were removed\n")
        self.assertEqual(os.listdir(self.folder), ["0.attune"])

    def test_plans_that_are_not_kept(self):
        os.mkdir(self.folder, 0o700)
        plans = os.path.join(self.folder, "plans")
        open(plans, "w").close()
        error = f"error: measured plans are not kept: folder {plans} cannot be written: Not a directory\n"
        self.assertIn("timed          1 of", self.attune(*self.TUNE, code=1))
        self.assertTrue(self.err.endswith(error), self.err)
        self.attune(*self.TUNE, "--json", code=1)
        self.assertTrue(self.err.endswith(error), self.err)
        self.attune(*self.TUNE, "--no-cache")
        os.remove(plans)
        self.attune(*self.TUNE, code=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.assertIn(f"error: measured plans are not kept: folder {plans} cannot be written: File too large\n", self.err)

    def test_bad_plans(self):
        self.attune(*self.TUNE)
        self.attune("cache", "verify")
        self.assertEqual(self.out, f"0 bad entries and 0 bad measured plans in {self.folder}\n")
        (good,) = os.listdir(os.path.join(self.folder, "plans"))
        bad = os.path.join(self.folder, "plans", "bad.json")
        with open(bad, "w") as file:
            file.write("{}")
        problem = "it lacks 'format' or has it with another type"
        self.assertEqual(self.attune("cache", "verify", code=1), f"bad  bad: {problem}\n0 bad entries and 1 bad measured plans in {self.folder}\n")
        self.assertEqual(json.loads(self.attune("cache", "verify", "--json", code=1))["plans"], [{"id": "bad", "path": bad, "problem": problem}])
        exported = os.path.join(self.home, "plans.json")
        self.attune("cache", "export", exported, code=1)
        self.assertEqual(self.err, f"error: measured plans {bad} are bad: {problem}; remove them by attune cache remove --bad, then export\n")
        self.assertFalse(os.path.exists(exported))
        self.attune("cache", "remove", code=2)
        self.assertEqual(self.err, "error: nothing is named; write names of attune cache plans, or --bad\n")
        self.assertEqual(self.attune("cache", "remove", "--bad"), f"removed 1 measured sizes from {self.folder}/plans\n")
        self.attune("cache", "export", exported)
        self.assertEqual(os.listdir(os.path.join(self.folder, "plans")), [good])
        self.assertEqual(self.attune("cache", "import", exported), f"1 measured sizes to {self.folder}/plans\n")

    def test_bad_choices(self):
        self.assertFalse(self.hits())
        choices = [name for name in os.listdir(self.folder) if name.endswith(".choice")]
        for name in choices or ["0" * 64 + ".choice"]:
            with open(os.path.join(self.folder, name), "w") as file:
                file.write("x")
        self.attune("cache", "verify", code=1)
        self.assertIn("bad: it is cut off at 1 bytes\n", self.out)

    def test_full_disk(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        self.assertFalse(self.hits(preexec_fn=limit))
        self.assertEqual(self.warnings(), [f"attune: warning: cache folder {self.folder} cannot be written: File too large; kernels are not kept"])
        self.assertEqual(os.listdir(self.folder), [])
        # Nor is a warning that cannot be printed the end.
        with open("/dev/full", "w") as full:
            self.assertFalse(self.hits(preexec_fn=limit, stderr=full))

    def test_processes(self):
        """16 at once on 7 kernels, a third of them killed while they compile or write."""
        chance = random.Random(20)
        scores = [f"s + {i % 7}.5" for i in range(16)]
        children = [subprocess.Popen([ATTUNE, *RUN, "--score", score], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
                    for score in scores]
        killed = chance.sample(range(16), 5)
        for i in killed:
            time.sleep(chance.random() * 0.15)
            children[i].kill()
        for i, child in enumerate(children):
            out, err = child.communicate(timeout=120)
            if i not in killed:
                self.assertEqual(child.returncode, 0, err)
                self.assertEqual(err, b"")
        for score in scores[:7]:
            self.hits("--score", score)
            self.assertEqual(self.err, "")
            self.assertTrue(self.hits("--score", score))
        self.attune("cache", "verify")
        self.assertEqual(len(json.loads(self.attune("cache", "list", "--json"))["entries"]), 7)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
