#!/usr/bin/env bash
# Every record in results/, made by the committed code, serially: run it on one idle machine. It resumes where it was
# interrupted; the leaderboard is made anew at the end. What is asked for first is what others are compared with.
#
#     make evidence            (datasets under UNLEARNBENCH_DATA)
set -euo pipefail

UB="${UB:-unlearnbench}"
OUT="${OUT:-results}"
SHARDED=sisa,grapheraser,graphrevoker

run() { echo "== run $*"; "$UB" run "$@" --out "$OUT" > /dev/null; }
audit() { echo "== audit $*"; "$UB" audit "$@" --out "$OUT" > /dev/null; }

# First what the README shows, then the paper's grid, then what explains it.
run --methods "$SHARDED" --datasets digits,cora,citeseer,pubmed --repetitions 10
run --experiment graphrevoker-www24 --datasets cora,citeseer
run --methods "$SHARDED" --datasets digits,pubmed,amazon-photo,blogcatalog --models gcn,gat,sage,appnp,jknet \
    --repetitions 1
run --methods "$SHARDED" --datasets pubmed,amazon-photo,blogcatalog --models gcn,sage --repetitions 3
run --experiment www24-partition-ablation --datasets cora
run --experiment www24-aggregation-ablation --datasets cora
run --experiment factorial
run --experiment www24-poison
run --experiment cost
audit exactness --methods "retrain,$SHARDED,sisa[partitioner=hash]" --datasets digits,cora --models gcn,sage
audit controls,distance --methods "$SHARDED" --datasets digits,cora
audit partition-leakage --methods "sisa[partitioner=hash],$SHARDED" --datasets cora,citeseer
"$UB" leaderboard build "$OUT"
