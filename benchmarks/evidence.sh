#!/usr/bin/env bash
# Every record in results/, made by the committed code, serially: run it on one idle machine. It first says how much is
# missing and about how long that takes, resumes where it was interrupted, and makes the leaderboard anew at the end.
# What is asked for first is what others are compared with.
#
#     make evidence                      (datasets under UNLEARNBENCH_DATA)
#     OVERWRITE=busy make evidence       what was timed while other work ran is made again
#     ONLY=plan make evidence            says how long it would take, and computes nothing
set -euo pipefail

UB="${UB:-unlearnbench}"
OUT="${OUT:-results}"
OVERWRITE="${OVERWRITE:-only-missing}"
SHARDED=sisa,grapheraser,graphrevoker
APPROXIMATE=gif,gnndelete,megu,scrub
BASELINES=finetune,neggrad-plus,bad-teacher,ssd
EXACT="sisa[partitioner=hash],tally"
NEWER_POSTHOC=etr,cognac,ceu,d2dgn
NEWER="$NEWER_POSTHOC,guide"
POSTHOC="retrain,noop,$APPROXIMATE,idea,gradient-ascent,$BASELINES,$NEWER_POSTHOC"

# It plans, so unlearnbench must be installed in it.
PYTHON="${PYTHON:-python3}"

everything() {
    # First what the README shows, then the paper's grid, then what explains it, then what the paper does not have.
    run --methods "$SHARDED" --datasets digits,cora,citeseer,pubmed --repetitions 10
    run --experiment graphrevoker-www24 --datasets cora,citeseer
    run --methods "$SHARDED" --datasets digits,pubmed,amazon-photo,blogcatalog --models gcn,gat,sage,appnp,jknet \
        --repetitions 10
    run --methods tally --datasets digits,cora,citeseer,pubmed,amazon-photo,blogcatalog --repetitions 10
    run --experiment www24-partition-ablation --datasets cora
    run --experiment www24-aggregation-ablation --datasets cora
    run --experiment factorial
    run --experiment www24-poison
    run --experiment cost
    run --experiment defaults
    run --methods "noop,$APPROXIMATE" --datasets cora,citeseer --repetitions 10
    run --methods idea,gradient-ascent --datasets cora,citeseer --repetitions 10
    run --methods "$NEWER" --datasets cora,citeseer --repetitions 10
    run --experiment corrective --repetitions 3
    run --methods cgu,scalegun,projector,graph-editor,noop --models sgc --datasets cora,citeseer --repetitions 3
    run --methods "$SHARDED" --datasets cora --repetitions 10 --forget-count 1
    run --methods "$SHARDED,$EXACT,smoothed[method=sisa[partitioner=hash]],$APPROXIMATE,idea,gradient-ascent,$BASELINES,noop" \
        --datasets cora,citeseer --repetitions 10
    run --methods "sisa[partitioner=hash],grapheraser[partitioner=blpa]" --datasets cora,citeseer --repetitions 10
    audit exactness --methods "retrain,sisa[partitioner=hash],$SHARDED,noop,$APPROXIMATE,idea,gradient-ascent" \
        --datasets digits,cora --models gcn,sage
    audit exactness --methods "$EXACT,$BASELINES" --datasets cora
    audit exactness --methods cgu,noop-full,random-init,over-forget --datasets digits --models sgc
    audit all --methods sisa,graphrevoker --datasets digits
    audit controls --methods "$SHARDED,noop,$APPROXIMATE,idea,gradient-ascent" --datasets cora,citeseer
    audit distance --methods cgu,noop --models sgc --datasets cora,citeseer
    audit membership,relearning --methods "retrain,$EXACT,noop,$APPROXIMATE,idea,gradient-ascent,$BASELINES,$SHARDED" \
        --datasets cora,citeseer
    audit exactness --methods "retrain,$EXACT,$SHARDED,noop,$APPROXIMATE,idea,gradient-ascent,$BASELINES" --datasets citeseer
    audit streams --methods "retrain,$EXACT,$SHARDED,noop,$APPROXIMATE,idea,gradient-ascent,$BASELINES" --datasets cora,citeseer
    run --methods "$SHARDED,$EXACT,smoothed[method=sisa[partitioner=hash]],$APPROXIMATE,idea,gradient-ascent,$BASELINES,noop,$NEWER" \
        --datasets cora,citeseer --forget-ratio 0.05 --repetitions 3
    audit distance --methods "noop,$APPROXIMATE,idea,gradient-ascent,$BASELINES,$EXACT,$SHARDED,$NEWER" \
        --datasets cora,citeseer --repetitions 5
    audit controls --methods "noop,$APPROXIMATE" --datasets pubmed
    audit distance --methods "noop,$APPROXIMATE,idea,gradient-ascent,$BASELINES" --datasets pubmed --repetitions 5
    audit relearning,membership --methods "retrain,noop,$APPROXIMATE,idea,gradient-ascent,$BASELINES" --datasets pubmed
    run --methods "noop,utu,$APPROXIMATE,idea,gradient-ascent,$BASELINES,$NEWER_POSTHOC,sisa,sisa[partitioner=hash]" \
        --datasets cora,citeseer --forget-kind edge --forget-ratio 0.05 --repetitions 5
    run --methods cgu,scalegun,noop --models sgc --datasets cora,citeseer --forget-kind edge --forget-ratio 0.05 \
        --repetitions 5
    audit exactness --methods "$EXACT,sisa,noop,utu,$APPROXIMATE,idea,gradient-ascent,$BASELINES,$NEWER_POSTHOC" --datasets cora \
        --forget-kind edge
    run --methods "$SHARDED,$EXACT,smoothed[method=sisa[partitioner=hash]],$APPROXIMATE,idea,gradient-ascent,$BASELINES,$NEWER" \
        --datasets cora,citeseer --protocol tuned --repetitions 3
    audit controls --methods "$APPROXIMATE" --datasets cora,citeseer --protocol tuned
    audit distance --methods "$BASELINES,$APPROXIMATE,idea,gradient-ascent,$NEWER_POSTHOC" --datasets cora,citeseer \
        --protocol tuned --repetitions 5
    audit membership --methods cognac,finetune,neggrad-plus,scrub --datasets cora --protocol tuned
    audit exactness,membership --methods "$NEWER" --datasets cora,citeseer
    audit membership,relearning,exactness --datasets cora,citeseer --repetitions 5 --methods "$POSTHOC"
    audit controls --methods noop --datasets cora,citeseer --forget-ratio 0.005
    audit distance,membership,relearning,exactness --datasets cora,citeseer --repetitions 5 --methods "$POSTHOC" \
        --forget-ratio 0.005
    audit exactness --methods "$EXACT,$SHARDED,guide" --datasets cora,citeseer --repetitions 5
    audit exactness,membership --methods "smoothed[method=sisa[partitioner=hash]]" --datasets cora,citeseer
    audit membership,relearning --methods "$EXACT,$SHARDED,guide" --datasets cora,citeseer --repetitions 5
    run --methods "cgu[constant=tight],cgu,scalegun,noop" --models sgc --datasets cora,citeseer --repetitions 3 --forget-count 1
    run --methods "gif[iterations=5],gif" --datasets cora,citeseer --repetitions 3
    audit partition-leakage --methods "sisa[partitioner=hash],$SHARDED" --datasets cora,citeseer
    audit partition-leakage --methods "sisa,sisa[partitioner=hash]" --datasets digits --seeds 1,2,3,4,5,6,7,8
    # Whichever of these the machine has files of; digits is always there, and done.
    run --methods "$SHARDED" --datasets digits,coauthor-cs,coauthor-physics,dblp,lastfm-asia,roman-empire,ogbn-arxiv \
        --repetitions 3 --skip-missing --offline
}

echo "== looking for what is missing in $OUT"
run() { printf '%q ' run "$@" --overwrite "$OVERWRITE" --out "$OUT" && echo; }
audit() { printf '%q ' audit "$@" --out "$OUT" && echo; }
everything | "$PYTHON" "$(dirname "$0")/evidence_time.py" "$OUT"
if [ "${ONLY:-}" = plan ]; then exit; fi

run() { echo "== run $*"; "$UB" run "$@" --overwrite "$OVERWRITE" --out "$OUT" > /dev/null; }
audit() { echo "== audit $*"; "$UB" audit "$@" --out "$OUT" > /dev/null; }
everything
"$UB" leaderboard build "$OUT"
