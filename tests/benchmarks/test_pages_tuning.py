"""Tables of tuning: from the defaults to what was chosen, on each graph."""

from __future__ import annotations

import importlib
import math
from types import SimpleNamespace

import pandas as pd
import pytest
from repository import ROOT


@pytest.fixture
def tuned(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("pages.tuning")


def chosen(objective, values, trial=1, losses=(0.5, 0.25)):
    return SimpleNamespace(
        objective=objective,
        values=values,
        trial=trial,
        default_loss=losses[0],
        loss=losses[1],
        chosen_on=["digits", "pubmed"],
    )


class Known:
    """Trials and runs that are made up."""

    def __init__(self, **rows):
        self.chosen = rows

    def trial(self, method, graph, number):
        loss = {"digits": (0.6, 0.3), "pubmed": (0.4, 0.4)}[graph][number]
        return {"loss": loss, "neighbours": 2 * loss, "f1": 0.9 - loss / 100, "retrain_f1": 0.9}

    def f1(self, method, dataset, protocol):
        return {("ssd", "cora", "www24"): 80.0, ("ssd", "cora", "tuned"): 81.04}.get((method, dataset, protocol))


def test_each_graph_goes_from_the_defaults_to_what_is_used(tuned):
    recipe = {"training.epochs": 268}
    rows = Known(
        ssd=chosen("distance", {"alpha": 3.2, **recipe}),
        scrub=chosen("distance", recipe, trial=0, losses=(0.5, 0.5)),
        sisa=chosen("validation error", {**recipe, "training.lr": 0.01}),
    )
    assert tuned.distances(rows)[2:] == [
        "| `ssd` | 0.50 | 0.25 | 0.60 to 0.30 | 0.40 | 1.2 to 0.6 | 0.8 | -0.6 to -0.3 | -0.4 | alpha 3.2 |",
        "| `scrub` | 0.50 | 0.50 | 0.60 | 0.40 | 1.2 | 0.8 | -0.6 | -0.4 | defaults |",
    ]
    assert tuned.errors(rows)[2:] == ["| `sisa` | 0.5000 | 0.2500 | 0.6000 to 0.3000 | 0.4000 | epochs 268, lr 0.01 |"]


def test_defaults_that_failed_on_a_graph_say_so(tuned, monkeypatch):
    rows = Known(ceu=chosen("distance", {"std": 0.02}, losses=(None, 0.35)))
    trial = rows.trial
    monkeypatch.setattr(
        rows, "trial", lambda *of: {**trial(*of), **({"loss": math.nan} if of[1:] == ("pubmed", 0) else {})}
    )
    assert tuned.distances(rows)[2].startswith("| `ceu` | failed | 0.35 | 0.60 to 0.30 | failed to 0.40 |")


def test_a_method_that_did_not_run_with_tuned_values_has_no_row(tuned):
    rows = Known(ssd=chosen("distance", {}), scrub=chosen("distance", {}))
    assert tuned.elsewhere(rows)[2:] == ["| `ssd` | 80.0 | 81.0 |  |  |"]


def test_a_mean_is_of_all_repetitions_of_the_method_itself(tuned):
    evidence = object.__new__(tuned.Tuning)
    evidence.chosen = {"sisa": None, "sisa[partitioner=hash]": None, "ssd": None}
    runs = [("www24", "sisa", number, 0.5 + number / 10) for number in range(3)]
    runs += [("tuned", "sisa[partitioner=hash]", number, 0.9) for number in range(3)]
    runs += [("tuned", "ssd[alpha=3.2]", number, 0.8) for number in range(2)]
    evidence.runs = pd.DataFrame(runs, columns=["protocol", "label", "repetition", "f1_micro"]).assign(dataset="cora")
    assert evidence.f1("sisa", "cora", "www24") == pytest.approx(60)
    assert evidence.f1("sisa[partitioner=hash]", "cora", "tuned") == pytest.approx(90)
    assert evidence.f1("sisa", "cora", "tuned") is None
    assert evidence.f1("ssd", "cora", "tuned") is None


def test_distances_stand_beside_those_of_the_defaults_the_nearest_first(tuned):
    tuning = Known(
        ssd=chosen("distance", {}),
        gif=chosen("distance", {}),
        scrub=chosen("distance", {}),
        sisa=chosen("validation error", {}),
    )
    tuning.distances = {
        "www24": {("cora", "ssd"): {"forgotten": 0.9, "forgotten_n": 5}, ("cora", "sisa"): {"forgotten": 0.1}},
        "tuned": {
            ("cora", "ssd[alpha=3.2] (tuned)"): {"forgotten": 0.8, "forgotten_n": 5},
            ("cora", "scrub (tuned)"): {"forgotten": 0.5, "forgotten_n": 2},
            ("cora", "gif (tuned)"): {"forgotten": None, "forgotten_state": "cannot tell"},
            ("citeseer", "ssd[alpha=3.2] (tuned)"): {"forgotten": None, "forgotten_state": "cannot tell"},
        },
    }
    assert tuned.near(tuning)[2:] == [
        "| `scrub` |  | 0.50, n = 2 |  |  |",
        "| `ssd` | 0.90 | 0.80 |  | ? |",
        "| `gif` |  | ? |  |  |",
    ]


@pytest.mark.parametrize(
    ("label", "base"),
    [
        ("ssd", "ssd"),
        ("ssd[alpha=3.2,lam=0.25]", "ssd"),
        ("sisa[partitioner=hash]", "sisa[partitioner=hash]"),
        ("smoothed[method=retrain,share=0.5]", "smoothed[method=retrain]"),
        ("smoothed", None),
        ("ssd-plus", None),
    ],
)
def test_values_in_a_label_do_not_hide_whose_they_are(tuned, label, base):
    assert tuned._base(label, ["ssd", "sisa", "sisa[partitioner=hash]", "smoothed[method=retrain]"]) == base
