"""Tables of docs/findings.md that are of runs: six graphs and five models, and what is repaired."""

from __future__ import annotations

from collections.abc import Iterable

from pages.evidence import PROTOCOL, SMALL, Evidence, Row, method_of
from pages.tables import fixed, table

SHARDED = ("sisa", "grapheraser", "graphrevoker")
MODELS = ("gcn", "gat", "sage", "appnp", "jknet")
GRAPHS = {
    "digits": "digits",
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "amazon-photo": "Amazon Photo",
    "blogcatalog": "BlogCatalog",
}
WRONG = {
    "25 % of 250 mislabelled nodes": "labels, a quarter known",
    "250 mislabelled nodes": "all",
    "25 % of 1000 spurious edges": "edges, a quarter known",
    "1000 spurious edges": "all",
}
REPAIRED_ON = ("cora", "citeseer")


def six_graphs(evidence: Evidence) -> list[str]:
    """Return the table of F1 less Retrain's: the mean over five models, and for how many it is surely lower."""
    runs = evidence.runs
    wanted = (runs["protocol"] == PROTOCOL) & (runs["forget"] == SMALL) & runs["dataset"].isin(GRAPHS)
    wanted &= runs["model"].isin(MODELS) & runs["label"].isin([*SHARDED, "retrain"])
    rows = evidence.built("equivalence", runs[wanted & runs["preset"].isin(["", "repaired"])])
    lines = []
    for dataset, name in GRAPHS.items():
        cells = [name]
        for view in ("shard", "full"):
            cells += [_over_models(rows, dataset, view, method) for method in SHARDED]
        lines.append(cells)
    first, *others = SHARDED
    return table(["graph", f"shard view: {first}", *others, f"full view: {first}", *others], lines)


def _over_models(rows: Iterable[Row], dataset: str, view: str, method: str) -> str:
    place = (dataset, view, method)
    found = [row for row in rows if (row["dataset"], row["view"], method_of(row)) == place]
    if sorted(row["model"] for row in found) != sorted(MODELS):
        return ""
    mean = 100 * sum(row["difference"] for row in found) / len(found)
    return f"{fixed(mean, 1)} ({sum(row['high'] < 0 for row in found)})"


def corrective(evidence: Evidence) -> list[str]:
    """Return the table of the damage that is undone, on both graphs; Retrain first, what does nothing last."""
    runs = evidence.runs
    rows = evidence.built("corrective", runs[runs["forget"].isin(WRONG) & (runs["model"] == "gcn")])
    undone = {(method_of(row), row["forget"], row["dataset"]): row["recovery"] for row in rows if row["view"] == "full"}
    methods = sorted({method for method, *_ in undone}, key=lambda name: (name != "retrain", name == "noop", name))
    lines = []
    for method in methods:
        shares = [[undone.get((method, wrong, dataset)) for dataset in REPAIRED_ON] for wrong in WRONG]
        lines.append([method, *(", ".join(fixed(value, 2, "?") for value in pair) for pair in shares)])
    return table(["method", *WRONG.values()], lines)
