#!/usr/bin/env python3
"""scripts/rename-ir: old text gets the new names, and text with the new names stays as it is.

    rename_ir_test.py ROOT
"""
import glob
import os
import subprocess
import sys

# Old text whose error a test checks.
REFUSED = ["tile.kernel @bad() grid [] dtype bf16 plan <tile_q = 128, tile_k = 64, warps = 4, blocks_per_sm = 2> {"]
OLD = """\
#tile.plan<tile_q = 128, tile_k = 64, warps = 4, blocks_per_sm = 2>
tile.kernel @k() plan <tile_q = 64, turns = true, copy_warps = 4, pack_groups = false> attributes {sched.turns, tile.instead_of = @j, attn.adds_queries,
    tile.derived = [#tile.derived<name = "piece", rule = "pieces", by = 64, of = "row">, #tile.derived<name = "split", rule = "shares">]} {
  %a = tile.mma %q, %k {sched.at = #sched.at<stage 1 order 2 turn "softmax">} : f32
  %b = tile.map %a {paced} : f32
  %c = tile.map %a {columns = 1, paced} : f32
  %d = sched.behind %b, %c : f32
  %e = sched.read_again %d : i32
  %f = sched.natural %e : i32
  %g = tile.part_row 64 : i32
  sched.write_tile %a to %s shares 2 : f32
  sched.store_elements %x, %y, %view[%i, %j] : !tile.view<2, f32>
  %h = tile.param "part_m" : workspace [piece, hkv] f32
}
// RUN: attune-opt -tile-hold-maxima -tile-alternate-warpgroups -tile-compute-again -attn-tile-size="turns=true pack-groups=true"
"""
NEW = """\
#tile.plan<q 128 x k 64, warps = 4, blocks_per_sm = 2>
tile.kernel @k() plan <tile_q = 64, ping_pong = true, producer_warps = 4, pack_gqa = false> attributes {sched.ping_pong, tile.fallback_of = @j, attn.accumulates_dq,
    tile.derived = [#tile.derived<name = "work_item", rule = "work_items", by = 64, of = "row">, #tile.derived<name = "split", rule = "splits">]} {
  %a = tile.mma %q, %k {sched.at = #sched.at<stage 1 order 2 ping_pong "softmax">} : f32
  %b = tile.map %a {interleaved} : f32
  %c = tile.map %a {columns = 1, interleaved} : f32
  %d = sched.after %b, %c : f32
  %e = sched.opaque %d : i32
  %f = sched.nonnegative %e : i32
  %g = tile.warpgroup_row 64 : i32
  sched.write_tile %a to %s column_splits 2 : f32
  sched.store_elements %x, %y to %view[%i, %j] : !tile.view<2, f32>
  %h = tile.param "part_m" : workspace [work_item, hkv] f32
}
// RUN: attune-opt -tile-lazy-rescale -tile-ping-pong -tile-recompute-maps -attn-tile-size="ping-pong=true pack-gqa=true"
"""


def main(root):
    def renamed(text):
        return subprocess.run([sys.executable, os.path.join(root, "scripts", "rename-ir"), "-"], input=text, capture_output=True,
                              text=True, check=True).stdout

    faults = []
    for text in (OLD, NEW):
        faults += [f"expected {wanted!r}, found {found!r}"
                   for wanted, found in zip(NEW.splitlines(), renamed(text).splitlines(), strict=True) if wanted != found]
    texts = [path for folder in ("attn", "ir", "passes", "fuzz/seeds/ir") for path in glob.glob(f"{root}/tests/{folder}/**/*.mlir", recursive=True)]
    assert len(texts) > 50
    whole = "\n".join(open(path, errors="replace").read() for path in texts)
    faults += [f"a test's text changes: {line!r} to {now!r}" for line, now in zip(whole.split("\n"), renamed(whole).split("\n"), strict=True)
               if line != now and line not in REFUSED]
    print("\n".join(faults[:20]) if faults else "old names become the new ones, and new ones stay")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main(sys.argv[1])
