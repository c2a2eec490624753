"""Tables of pages that are of runs: the paper's cells and parts, graphs and models, what is repaired, and cost."""

from __future__ import annotations

from collections.abc import Iterable

from pages.evidence import DATASETS, MODEL, PRESETS, PROTOCOL, SMALL, Evidence, Row, method_of
from pages.tables import fixed, table
from unlearnbench.report.tables.cost import break_even, shown_even
from unlearnbench.report.tables.poison import MOMENTS

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
POISONED = ("gcn", "gat", "appnp")
PARTITIONS = {
    "random": "random",
    "hash": "hash",
    "gpa": "`gpa`",
    "gpa[balance=released]": "`gpa[balance=released]`",
    "bekm": "GraphEraser's clusters (`bekm`)",
}
COST_REPETITIONS = 3


def paper(evidence: Evidence) -> list[str]:
    """Return the table of the cells of GraphRevoker's paper: our F1 less the published one and less other methods'."""
    runs = evidence.runs
    wanted = (runs["protocol"] == PROTOCOL) & (runs["forget"] == SMALL) & runs["dataset"].isin(DATASETS)
    wanted &= runs["model"].isin(MODELS) & runs["label"].isin([*SHARDED, "retrain"])
    rows = evidence.built("claims", runs[wanted & runs["preset"].isin(PRESETS)])
    cells = {(row["dataset"], row["model"], row["view"]): row for row in rows}
    assert len(cells) == len(rows), "two rows for one cell"
    lines = []
    for dataset, name in DATASETS.items():
        for model in MODELS:
            shard, full = (cells[dataset, model, view] for view in ("shard", "full"))
            published = fixed(100 * shard["published_f1_micro"], 1)
            leads = [_interval(full, f"to_{method}_", "mean") for method in ("retrain", "sisa", "grapheraser")]
            lines.append([f"{name}, {model}", published, _interval(shard, "", "difference"), *leads])
    head = ["", "published", "ours - published, shard", "- Retrain, full", "- SISA, full", "- GraphEraser, full"]
    return table(head, lines)


def _interval(row: Row, before: str, centre: str) -> str:
    middle, low, high = (fixed(100 * row[f"{before}{name}"], 1) for name in (centre, "low", "high"))
    return f"{middle} ({low} to {high})"


def gains(evidence: Evidence) -> list[str]:
    """Return the table of what the contrastive aggregator gains over a mean, by partition, and on average."""
    runs = evidence.runs
    wanted = (runs["protocol"] == PROTOCOL) & (runs["forget"] == SMALL) & runs["dataset"].isin(DATASETS)
    wanted &= (runs["model"] == MODEL) & (runs["method_name"] == "sharded")
    rows = [row for row in evidence.built("factorial", runs[wanted]) if row.get("level") == "contrastive"]
    average = "average"
    found = {(row.get("with", average), row["dataset"], row["view"]): row for row in rows}
    assert len(found) == len(rows), "two rows for one gain"
    assert {place[0] for place in found} == {*PARTITIONS, average}, "other partitions than those of the table"
    columns = [(dataset, view) for dataset in DATASETS for view in ("shard", "full")]
    names = {**PARTITIONS, average: f"average of {len(PARTITIONS)}"}
    lines = [[name, *(_interval(found[one, *column], "", "mean") for column in columns)] for one, name in names.items()]
    return table(["partition", *(f"{DATASETS[dataset]}, {view} view" for dataset, view in columns)], lines)


def poison(evidence: Evidence) -> list[str]:
    """Return the table of F1 before, with, and without nodes that have wrong labels, in the shard view."""
    runs = evidence.runs
    wanted = (runs["protocol"] == "poison") & runs["forget"].str.fullmatch(r"\d+ injected nodes")
    rows = [row for row in evidence.built("poison", runs[wanted]) if row["view"] == "shard"]
    found = {(method_of(row), row["dataset"], row["model"]): row for row in rows}
    assert len(found) == len(rows), "two rows for one cell"
    columns = [(dataset, model) for dataset in DATASETS for model in POISONED]
    lines = []
    for method in ("retrain", *SHARDED, "noop"):
        cells = [[100 * found[method, *column][f"{moment}_mean"] for moment in MOMENTS] for column in columns]
        lines.append([method, *(" / ".join(fixed(value, 1) for value in of_cell) for of_cell in cells)])
    return table(["shard view", *(f"{DATASETS[dataset]} {model.upper()}" for dataset, model in columns)], lines)


def six_graphs(evidence: Evidence) -> list[str]:
    """Return the table of F1 less Retrain's: the mean over five models, and for how many it is surely lower."""
    runs = evidence.runs
    wanted = (runs["protocol"] == PROTOCOL) & (runs["forget"] == SMALL) & runs["dataset"].isin(GRAPHS)
    wanted &= runs["model"].isin(MODELS) & runs["label"].isin([*SHARDED, "retrain"])
    rows = evidence.built("equivalence", runs[wanted & runs["preset"].isin(PRESETS)])
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
    of_models = [row for row in rows if (row["dataset"], row["view"], method_of(row)) == place]
    if sorted(row["model"] for row in of_models) != sorted(MODELS):
        return ""
    mean = 100 * sum(row["difference"] for row in of_models) / len(of_models)
    return f"{fixed(mean, 1)} ({sum(row['high'] < 0 for row in of_models)})"


def corrective(evidence: Evidence) -> list[str]:
    """Return the table of the damage that is undone, on both graphs; Retrain first, what does nothing last."""
    runs = evidence.runs
    wanted = (runs["protocol"] == "poison") & runs["forget"].isin(WRONG) & (runs["model"] == MODEL)
    rows = [row for row in evidence.built("corrective", runs[wanted]) if row["view"] == "full"]
    undone = {(method_of(row), row["forget"], row["dataset"]): row["recovery"] for row in rows}
    assert len(undone) == len(rows), "two rows for one cell"
    methods = sorted({method for method, *_ in undone}, key=lambda name: (name != "retrain", name == "noop", name))
    lines = []
    for method in methods:
        shares = [[undone.get((method, wrong, dataset)) for dataset in DATASETS] for wrong in WRONG]
        lines.append([method, *(", ".join(fixed(value, 2, "?") for value in pair) for pair in shares)])
    return table(["method", *WRONG.values()], lines)


def cost(evidence: Evidence) -> list[str]:
    """Return the table of times relative to Retrain's against the number of deletions."""
    runs = evidence.runs
    wanted = runs["forget"].str.fullmatch(r"\d+ nodes?") & runs["dataset"].isin(DATASETS) & (runs["model"] == MODEL)
    wanted &= runs["preset"].isin(PRESETS) & (runs["repetition"] < COST_REPETITIONS)
    rows = [row for row in evidence.built("cost", runs[wanted]) if "ratio" in row]
    counts = sorted({row["deletions"] for row in rows})
    lines = []
    for dataset, name in DATASETS.items():
        of_graph = [row for row in rows if row["dataset"] == dataset]
        seconds: dict[str, dict[int, float]] = {}
        for row in of_graph:
            seconds.setdefault(method_of(row), {})[row["deletions"]] = row["seconds"]
        reference = seconds.pop("retrain", {})
        for method in [name for name in (*SHARDED, "tally") if name in seconds]:
            ratios = {row["deletions"]: row["ratio"] for row in of_graph if method_of(row) == method}
            even = break_even(seconds[method], reference)
            cells = [fixed(ratios.get(count), 2) for count in counts]
            lines.append([f"{name}, {method}", *cells, shown_even(even)])
    first, *others = counts
    head = ["time relative to Retrain", f"{first} deletion", *map(str, others), "Retrain is as fast from"]
    return table(head, lines)
