"""Tables of docs/tuning.md: what was tried, what was chosen, and what it does elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from pages.evidence import DATASETS, LARGE, MODEL, PRESETS, PROTOCOL, SMALL, Evidence
from pages.forgetting import on_forgotten
from pages.tables import fixed, number, table
from unlearnbench.report.frame.record_groups import busiest_machine
from unlearnbench.running.tuned import ANY_OTHER, read_tuned

TUNED_ON = {"digits": "digits", "pubmed": "PubMed"}
REPETITIONS = 3
TUNED = "tuned"


class Tuning:
    """The trials that were made, what was chosen, and the first runs with it and with the defaults."""

    def __init__(self, evidence: Evidence) -> None:
        trials = evidence.trials[evidence.trials["model"] == MODEL].to_dict("records")
        self.trials = {(row["method"], row["graph"], row["trial"]): row for row in trials}
        chosen = [row for row in read_tuned(None).rows if row.graph == ANY_OTHER and row.model == MODEL]
        self.chosen = {row.method: row for row in chosen}
        runs = evidence.runs
        wanted = (runs["model"] == MODEL) & (runs["forget"] == SMALL) & (runs["view"] == "full")
        runs = runs[wanted & (runs["repetition"] < REPETITIONS) & runs["preset"].isin(PRESETS)]
        # Where several machines ran a cell, that of most cells counts, as in every table.
        first = runs["machine"] == busiest_machine(runs["machine"])
        self.runs = pd.concat([runs[first], runs[~first]]).drop_duplicates("key")
        self.distances = {protocol: evidence.rows("distances", LARGE, protocol) for protocol in (PROTOCOL, TUNED)}

    def trial(self, method: str, graph: str, number: int) -> Any:
        """Return a trial's loss, F1, Retrain's F1 and distance of the neighbours."""
        return self.trials[method, graph, number]

    def f1(self, method: str, dataset: str, protocol: str) -> float | None:
        """Return the mean F1 in percent over the repetitions; None where they are not all there."""
        runs = self.runs[(self.runs["dataset"] == dataset) & (self.runs["protocol"] == protocol)]
        of = [label == method if protocol != TUNED else _base(label, self.chosen) == method for label in runs["label"]]
        of_method = runs[of]
        if sorted(of_method["repetition"]) != list(range(REPETITIONS)):
            return None
        return 100 * float(of_method["f1_micro"].mean())


def distances(tuning: Tuning) -> list[str]:
    """Return the table of post-hoc methods: what was tried, and what is used on other graphs."""
    head = ["method", "distance, defaults", "tuned"]
    for kind in ("", "neighbours, ", "F1 less Retrain's, "):
        first, *others = TUNED_ON.values()
        head += [f"{kind}{first}", *others]
    rows = []
    for method, row in tuning.chosen.items():
        if row.objective != "distance":
            continue
        pairs = [(tuning.trial(method, graph, 0), tuning.trial(method, graph, row.trial)) for graph in row.chosen_on]
        cells = [f"`{method}`", _loss(row.default_loss, 2), _loss(row.loss, 2)]
        cells += [_change([trial["loss"] for trial in pair], 2) for pair in pairs]
        cells += [_change([trial["neighbours"] for trial in pair], 1) for pair in pairs]
        cells += [_change([100 * (trial["f1"] - trial["retrain_f1"]) for trial in pair], 1) for pair in pairs]
        # The recipe is Retrain's: what they start from.
        own = {name: value for name, value in row.values.items() if not name.startswith("training.")}
        rows.append([*cells, _values(own)])
    return table([*head, "values"], rows)


def errors(tuning: Tuning) -> list[str]:
    """Return the table of methods that train: the share of wrong validation nodes."""
    rows = []
    for method, row in tuning.chosen.items():
        if row.objective != "validation error":
            continue
        cells = [f"`{method}`", _loss(row.default_loss, 4), _loss(row.loss, 4)]
        for graph in row.chosen_on:
            losses = [tuning.trial(method, graph, number)["loss"] for number in (0, row.trial)]
            cells.append(_change(losses, 4))
        rows.append([*cells, _values(row.values)])
    return table(["method", "validation error, defaults", "tuned", *TUNED_ON.values(), "values"], rows)


def elsewhere(tuning: Tuning) -> list[str]:
    """Return the table of F1 on graphs that nothing was tuned on."""
    rows = []
    for method in tuning.chosen:
        means = [tuning.f1(method, dataset, protocol) for dataset in DATASETS for protocol in (PROTOCOL, TUNED)]
        if any(value is not None for value in means[1::2]):
            rows.append([f"`{method}`", *(fixed(value, 1) for value in means)])
    return table(_beside_defaults(), rows)


def near(tuning: Tuning) -> list[str]:
    """Return the table of distances from Retrain on graphs that nothing was tuned on; the nearest first."""
    chosen = {
        (dataset, _base(method.removesuffix(" (tuned)"), tuning.chosen)): row
        for (dataset, method), row in tuning.distances[TUNED].items()
    }
    first = next(iter(DATASETS))
    methods = [method for method, row in tuning.chosen.items() if row.objective == "distance"]
    lines = []
    nearest = {method: number(chosen.get((first, method), {}), "forgotten") for method in methods}
    for method in sorted(methods, key=lambda name: (nearest[name] is None, nearest[name])):
        cells = []
        for dataset in DATASETS:
            cells += [on_forgotten(rows.get((dataset, method), {})) for rows in (tuning.distances[PROTOCOL], chosen)]
        if any(cells[1::2]):
            lines.append([f"`{method}`", *cells])
    return table(_beside_defaults(), lines)


def _beside_defaults() -> list[str]:
    return ["method", *(heading for name in DATASETS.values() for heading in (f"{name}, defaults", "tuned"))]


def _base(label: str, methods: Iterable[str]) -> str | None:
    """Return which of the methods a row with tuned values is: `ssd[alpha=3.2]` is `ssd`."""
    bases = [
        name
        for name in methods
        if label == name or label.startswith(f"{name[:-1]}," if name.endswith("]") else f"{name}[")
    ]
    return max(bases, key=len, default=None)


def _change(values: Iterable[float], digits: int) -> str:
    """Write a number before and after, or once where both look alike."""
    return " to ".join(dict.fromkeys(_loss(value, digits) for value in values))


def _loss(value: float | None, digits: int) -> str:
    """Write a number; a trial that failed has none."""
    return fixed(value, digits, "failed")


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.removeprefix('training.')} {value}" for name, value in values.items()) or "defaults"
