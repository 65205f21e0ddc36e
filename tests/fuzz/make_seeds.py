#!/usr/bin/env python3
"""Seeds that are made rather than written: .npy files, and the IR of a few variants.

    make_seeds.py ATTUNE            write them anew, after a change of the dialects' grammar
    make_seeds.py --check ATTUNE_OPT    the committed IR still parses; seeds of faults (fault-*) need not
"""
import glob
import os
import struct
import subprocess
import sys

SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")

# Name, stage and arguments of `attune compile`. Small tiles keep the text short.
KERNELS = [
    ("plain", "attn", ["plain"]),
    ("window", "attn", ["sliding-window"]),
    ("documents", "attn", ["documents", "--dropout", "0.1"]),
    ("pattern", "attn", ["block-sparse"]),
    ("score", "attn", ["--score", "softcap(s, cap) + slopes[h] * f32(i64(k - q) % 3L) + f32(seen[q])",
                       "--tensor", "slopes=f32[H]", "--tensor", "seen=bool[Sq]", "--scalar", "cap=50"]),
    ("plain", "tile", ["plain"]),
    ("documents", "tile", ["documents"]),
    ("alibi", "tile", ["alibi", "--mask", "q >= k"]),
    ("hopper", "tile", ["causal", "--arch", "sm_90a"]),
    ("plain", "sched", ["plain", "--arch", "sm_80", "--tile-q", "64", "--tile-k", "16", "--warps", "4", "--stages", "2"]),
    ("dropout", "sched", ["causal", "--dropout", "0.1", "--arch", "sm_80", "--tile-q", "64", "--tile-k", "16", "--warps", "4", "--stages", "1"]),
    ("hopper", "sched", ["documents", "--arch", "sm_90a", "--tile-q", "128", "--tile-k", "16", "--warps", "8", "--stages", "2"]),
]


def make_ir(attune):
    for name, stage, arguments in KERNELS:
        if "--arch" not in arguments:
            arguments = arguments + ["--arch", "sm_80"]
        command = [attune, "compile", *arguments, "--dtype", "f16", "--head-dim", "16", "--no-cache", "--emit", stage]
        text = subprocess.run(command, capture_output=True, text=True)
        if text.returncode:
            sys.exit(f"{' '.join(command)}:\n{text.stderr}")
        # Without locations: they change nothing but comments.
        lines = [line for line in text.stdout.splitlines() if not line.startswith("#loc")]
        with open(os.path.join(SEEDS, "ir", f"{name}.{stage}.mlir"), "w") as out:
            out.write("\n".join(drop_locations(line) for line in lines).strip() + "\n")


def drop_locations(line):
    at = line.rfind(" loc(")
    return line[:at] if at >= 0 and line.endswith(")") else line


def npy(descr, shape, data, version=1, order="False", pad=None):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    length = 2 if version == 1 else 4
    header += b" " * (63 - (8 + length + len(header)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(length, "little") + header + data


def make_npy():
    files = {
        "f4": npy("<f4", "(2, 3)", struct.pack("<6f", 0, -1.5, float("inf"), float("nan"), 1e-45, 3.4e38)),
        "f2": npy("<f2", "(4,)", struct.pack("<4H", 0, 0x3C00, 0x7C01, 0x8001)),
        "f8": npy("<f8", "(3,)", struct.pack("<3d", 1e300, -1e-320, 0.1)),
        "i4": npy("<i4", "(1, 2)", struct.pack("<2i", -2**31, 7)),
        "i8": npy("<i8", "()", struct.pack("<q", -2**63), version=2),
        "b1": npy("|b1", "(3,)", bytes([0, 1, 255]), version=3),
        "bf16": npy("|V2", "(2, 1)", struct.pack("<2H", 0x3F80, 0xFF81)),
        "empty": npy("<f4", "(0, 9223372036854775807)", b""),
        "fortran": npy("<f4", "(1,)", bytes(4), order="True"),
        "big-endian": npy(">f4", "(1,)", bytes(4)),
        "python2": npy("<i4", "(1L, 1L)", bytes(4)),
        "overflow": npy("<f4", "(4294967296, 4294967296, 4)", b""),
        "truncated": npy("<f4", "(100,)", bytes(12)),
        "long": npy("<f4", "(1,)", bytes(5)),
        "structured": npy("<f4", "(1,)", bytes(4)).replace(b"'<f4'", b"[('a', '<f4')]")[:-10],
        "header-end": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    }
    for name, data in files.items():
        with open(os.path.join(SEEDS, "npy", name), "wb") as out:
            out.write(data)


def check(attune_opt):
    faults = 0
    for path in sorted(glob.glob(os.path.join(SEEDS, "ir", "*"))):
        if os.path.basename(path).startswith("fault-"):
            continue
        run = subprocess.run([attune_opt, path], capture_output=True, text=True)
        if run.returncode:
            faults += 1
            print(run.stderr)
    if faults:
        sys.exit(f"{faults} seeds do not parse, so they lead nowhere; run tests/fuzz/make_seeds.py build/bin/attune")


if len(sys.argv) == 3 and sys.argv[1] == "--check":
    check(sys.argv[2])
elif len(sys.argv) == 2:
    make_npy()
    make_ir(sys.argv[1])
else:
    sys.exit(__doc__)
