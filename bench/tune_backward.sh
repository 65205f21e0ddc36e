#!/bin/bash
# Tunes 20 backward passes on one GPU and prints the times of the cost model's choice and of the best plan.
#
#     bench/tune_backward.sh build/bin/attune [CANDIDATES [SECONDS]]     about 4 minutes on an H200 with 16 cores
#
# TARGET=cpu measures on the CPU. CACHE=DIR keeps the measured plans in DIR; otherwise they are discarded. JSON results go to $OUT, if OUT is set.
set -u
attune=${1:?usage: tune_backward.sh ATTUNE [CANDIDATES [SECONDS]]}
candidates=${2:-48}
seconds=${3:-9}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=${CACHE:-$work/cache}
results=${OUT:-$work/results}
mkdir -p "$results"
begin=$SECONDS
# name | variant and its flags | B,H,Hkv,Sq,Sk,D,Dv
cases='
d64-512-causal|causal|32,32,32,512,512,64,64
d64-2048-causal|causal|8,32,32,2048,2048,64,64
d64-8192-causal|causal|2,32,32,8192,8192,64,64
d64-2048-full|plain|8,32,32,2048,2048,64,64
d64-2048-causal-deterministic|causal --deterministic|8,32,32,2048,2048,64,64
d64-2048-causal-dropout|causal --dropout 0.1|8,32,32,2048,2048,64,64
d64-2048-alibi|alibi|8,32,32,2048,2048,64,64
d64-8192-documents|documents|2,32,32,8192,8192,64,64
d96-2048-causal|causal|8,16,16,2048,2048,96,96
d96-8192-window|sliding-window --left 1024|2,16,16,8192,8192,96,96
d128-512-causal|causal|32,16,16,512,512,128,128
d128-2048-causal|causal|8,16,16,2048,2048,128,128
d128-8192-causal|causal|2,16,16,8192,8192,128,128
d128-2048-full|plain|8,16,16,2048,2048,128,128
d128-2048-causal-gqa|causal|8,32,8,2048,2048,128,128
d128-8192-window-gqa|sliding-window --left 1024|2,32,8,8192,8192,128,128
d128-2048-causal-deterministic|causal --deterministic|8,16,16,2048,2048,128,128
d128-2048-softcap-dropout|softcap --dropout 0.1|8,16,16,2048,2048,128,128
d256-2048-causal|causal|8,8,8,2048,2048,256,256
d256-2048-full-deterministic|plain --deterministic|8,8,8,2048,2048,256,256
'
while IFS='|' read -r name flags shape; do
  [ -n "$name" ] || continue
  # shellcheck disable=SC2086
  "$attune" tune $flags --backward --target "${TARGET:-gpu}" --dtype bf16 --shape "$shape" --candidates "$candidates" --budget "$seconds" \
    --cache-dir "$cache" --json >"$results/$name.json" 2>"$results/$name.err" </dev/null
  python3 - "$name" "$results" <<'P'
import json, sys
name, folder = sys.argv[1:]
try:
    result = json.load(open(f"{folder}/{name}.json"))["results"][0]
    model = next(c for c in result["candidates"] if c["chosenByModel"])
    best = result["candidates"][0]
except (ValueError, KeyError, IndexError, StopIteration):
    print(f"{name:<32} failed: {open(f'{folder}/{name}.err').read().strip()[:300]}", flush=True)
    sys.exit()
print(f"{name:<32} model {model['microseconds']:9.1f} us  best {best['microseconds']:9.1f} us  "
      f"ratio {best['microseconds'] / model['microseconds']:.3f}  rank {best['rank']:>3}  "
      f"{len(result['candidates'])} of {result['space']} timed, {result['failed']} failed, {result['seconds']:.1f} s", flush=True)
print(f"{'':<32} model {model['text']}\n{'':<32} best  {best['text']}", flush=True)
P
done <<<"$cases"
python3 - "$results" <<'P'
import glob, json, math, sys
ratios = []
for path in sorted(glob.glob(sys.argv[1] + "/*.json")):
    try:
        found = json.load(open(path))["results"][0]["candidates"]
        ratios.append(found[0]["microseconds"] / next(c for c in found if c["chosenByModel"])["microseconds"])
    except (ValueError, KeyError, IndexError, StopIteration):
        pass
if ratios:
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} cases, geometric mean of best / model {mean:.4f}, {sum(r < 0.98 for r in ratios)} cases more than 2% faster")
P
echo "$((SECONDS - begin)) s"
