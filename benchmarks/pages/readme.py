"""README's table of methods: what the records say of each beside what people say of it."""

from __future__ import annotations

import re

from pages.evidence import LARGE, SMALL, Evidence, Row
from pages.tables import fixed, number, table

DATASET = "cora"
METHODS = (
    ("retrain", "training from scratch", "n e f"),
    ("tally", "ours", "n e f"),
    ("smoothed[method=sisa[partitioner=hash]]", "ours", "n e f"),
    ("sisa[partitioner=hash]", "Bourtoule, S&P 2021", "n e f"),
    ("sisa", "the same, random shards", "n e f"),
    ("graphrevoker", "Zhang, WWW 2024", "n e f"),
    ("grapheraser", "Chen, CCS 2022", "n e f"),
    ("finetune", "baseline", "n e f"),
    ("neggrad-plus", "baseline", "n e"),
    ("scrub", "Kurmanji, NeurIPS 2023", "n e"),
    ("ssd", "Foster, AAAI 2024", "n e"),
    ("gif", "Wu, WWW 2023", "n e f"),
    ("megu", "Li, AAAI 2024", "n e"),
    ("bad-teacher", "Chundawat, AAAI 2023", "n e"),
    ("gnndelete", "Cheng, ICLR 2023", "n e"),
    ("noop", "control: nothing is done", "n e f"),
)
"""Each method, its paper, and what it forgets: nodes, edges, features."""
HEAD = ("method", "paper", "forgets", "audit `exactness`", "recognised, %", "F1, %", "time")


def methods(evidence: Evidence) -> list[str]:
    """Return the table of methods on Cora: audits after 5 % of the nodes, F1 and time after 0.5 %."""
    forgetting, runs = evidence.rows("forgetting", LARGE), evidence.rows("summary", SMALL)
    rows = []
    for method, paper, kinds in METHODS:
        audited, run = forgetting.get((DATASET, method), {}), runs.get((DATASET, method), {})
        recognised, f1 = number(audited, "membership_tpr"), number(run, "f1_micro_full_mean")
        numbers = [fixed(value and 100 * value, 1) for value in (recognised, f1)]
        rows.append([f"`{method}`", paper, kinds, _verdict(audited), *numbers, _time(method, run)])
    return table(HEAD, rows)


def _verdict(row: Row) -> str:
    """Return the verdict of the requests, where they differ that of most and of how many, and the distance left."""
    text = str(row.get("exactness") or "").replace("exact-given-partition", "given partition")
    text = re.sub(r" \((ids|content)\)", "", text)
    counts = {verdict: int(count) for verdict, count in re.findall(r"([^,]+?) \(([0-9]+)\)(?:, )?", text)}
    if counts:
        most = max(counts, key=lambda verdict: counts[verdict])
        text = f"{most}, {counts[most]} of {sum(counts.values())}"
    distance = number(row, "exactness_effect")
    return text if distance is None else f"{text} ({distance:.2f})"


def _time(method: str, row: Row) -> str:
    return "1" if method == "retrain" else fixed(number(row, "times_retrain"), 2)
