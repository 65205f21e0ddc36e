#!/usr/bin/env python3
"""Random schedules of attention's tile text, run in the simulator.

    schedules_test.py build/bin/attune [FIRST [COUNT]]

Ops of the loop get random orders, stages and turns, its loads rings of random depths and, where a role fills them, but for the first of random warps, as do the ids that it reads by key. A schedule is right in the simulator, or refused, at the op, for what a loop does
not carry from one stage to the other, for warps that two rings share in part, or for rings that are too shallow. A seed that fails prints the text.
"""
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile

VARIANTS = [["--normaliser", "none"], ["plain"], ["causal"], ["sliding-window"], ["documents"]]
IDS = ["--tensor", "ids=i32[330]:0..3"]
REFUSED = ("later; give it stage", "where a loop carries tiles in registers and i32; give it stage",
           "of warps that fill another one with others", "while the next tile is copied; give it")
ARCHS = ["sm_90a", "sm_80"]
OP = re.compile(r"      (%\S+ = |} {tile\.name).*tile\.name = ")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def scheduled(text, rng, roles):
    """`text` with annotations: mostly with the product with V, or with it and its load, of a later stage."""
    share, turns = rng.choice([0.3, 0.6, 1.0]), rng.random() < 0.3
    deferred = rng.choice([{}, {"%acc_next": 1}, {"%acc_next": 1, "%v_tile": 1}, {"%acc_next": 2}, {"%acc_next": 2, "%v_tile": rng.choice([1, 2])},
                           {"%x": 1, "%p": 1, "%p_bf16": 1, "%acc_next": 2, "%v_tile": 2}, {"%acc_next": 3, "%v_tile": 3}])
    lines, inside = [], False
    for line in text.split("\n"):
        if "tile.for_blocks" in line:
            inside = True
        elif line.startswith("      tile.yield"):
            inside = False
        elif inside and OP.match(line) and rng.random() < share:
            stage = next((stage for name, stage in deferred.items() if name + " = " in line), 0) if deferred else int(rng.random() < 0.2)
            product = "tile.mma" in line
            place = f"order {rng.randrange(8)}" + (f", stage {stage}" if stage else "") + (', ping_pong "products"' if turns and product else "")
            starts = "sched.async, " if product and rng.random() < 0.8 else ""
            at = line.rindex("tile.name")
            line = line[:at] + starts + f"sched.at = #sched.at<{place}>, " + line[at:]
        if inside and " = tile.load" in line and rng.random() < 0.5:
            warp = 0 if "%k_tile" in line else rng.randrange(4)
            line = line.replace("<stages 2>", f'<stages {rng.choice("22345")}' + (f', "producer" warp {warp}>' if roles else ">"))
        if roles and "%column_ids_tile = " in line and rng.random() < 0.5:
            warps = rng.choice(["warp 1", "warp 2", "warp 3", "warps 1 to 2", "warps 2 to 3", "warps 1 to 3"])
            line = line.replace("{", f'{{sched.ring = #sched.ring<stages {rng.choice("123")}, "producer" {warps}>, ', 1)
        lines.append(line)
    return "\n".join(lines)


def is_shallow(text):
    """Whether a ring has less stages than tiles of it may be under way, between the wait for one and its last reader."""

    def stage_of(name):
        place = re.search(rf"^ *{name} = .*?#sched\.at<([^>]*)>", text, re.MULTILINE)
        stage = re.search(r"stage (\d)", place[1]) if place else None
        return int(stage[1]) if stage else 0

    for load, reader in (("%k_tile", "%s"), ("%v_tile", "%acc_next")):
        line = re.search(rf"^ *{load} = .*", text, re.MULTILINE)[0]
        # What one warp copies it copies tile by tile, as stage 0 waits for them.
        first = stage_of(load) if re.search('"producer" warp [1-9]', line) else 0
        if int(re.search(r"<stages (\d)", line)[1]) < stage_of(reader) - first + 1:
            return True
    return False


def main():
    attune = sys.argv[1]
    first, count = [int(number) for number in sys.argv[2:4] + ["0", "120"][len(sys.argv) - 2 :]]
    texts = {arch: [] for arch in ARCHS}
    for arch, variant in itertools.product(ARCHS, VARIANTS):
        done = run(attune, "compile", *variant, "--arch", arch, "--head-dim", "64", "--tile-q", "128", "--tile-k", "64", "--stages", "2", "--emit", "tile")
        assert done.returncode == 0, done.stderr
        texts[arch].append(re.sub(r" loc\(#?loc\d*\)", "", done.stdout))
    right = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "scheduled.tile.mlir")
        for seed in range(first, first + count):
            rng = random.Random(seed)
            arch = rng.choice(ARCHS)
            text = scheduled(rng.choice(texts[arch]), rng, roles=arch == "sm_90a")
            with open(file, "w") as out:
                out.write(text)
            done = run(attune, "run", file, "--arch", arch, "--simulate", "2", "--shape", "1,2,1,289,330,64,64", *IDS * ("documents" in text))
            if done.returncode == 0:
                right += 1
            elif done.returncode == 1 and (any(reason in done.stderr for reason in REFUSED) or "waits for ever" in done.stderr and is_shallow(text)):
                refused += 1
            else:
                sys.exit(f"{text}\nseed {seed}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"{right} schedules are right, {refused} are refused")
    sys.exit(0 if right > count // 2 else 1)


if __name__ == "__main__":
    main()
