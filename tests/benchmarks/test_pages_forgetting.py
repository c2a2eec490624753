"""Tables of what forgets say of how many requests they are, and how sure they are."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pandas as pd
import pytest
from repository import ROOT


@pytest.fixture
def findings(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("pages.forgetting")


class Known:
    """Rows that are made up."""

    def __init__(self, rows: dict[tuple[str, str], dict[str, Any]]) -> None:
        self.known = rows

    def rows(self, table: str, forget: str) -> dict[tuple[str, str], dict[str, Any]]:
        return {place: row for place, row in self.known.items() if row.get("forget", forget) == forget}


def test_a_number_says_how_many_requests_it_is_of_and_how_sure_it_is(findings):
    recognised = {"membership_tpr": 0.0104, "membership_tpr_low": 0.0, "membership_tpr_high": 0.0131}
    rows = {
        ("cora", "retrain"): {"exactness": "exact", "relearning": 1.0, **recognised, "membership_tpr_n": 5},
        ("cora", "sisa"): {"exactness": "exact-given-partition (ids)", **recognised, "membership_tpr_n": 1},
        ("cora", "b"): {"exactness": "none", "membership_tpr": 0.5, "membership_tpr_n": 4, "relearning": math.nan},
        ("cora", "a"): {"exactness": "none (2), approximate (3)", "exactness_effect": 0.931, "membership_tpr": 0.25},
        ("citeseer", "a"): {"relearning": 0.061, "relearning_low": 0.02, "relearning_high": 0.1, "relearning_n": 5},
    }
    table = findings.forgetting(Known(rows))
    assert table[0] == (
        "| method | exactness, Cora | CiteSeer | recognised, %, Cora | CiteSeer | relearning, Cora | CiteSeer |"
    )
    assert table[2:] == [
        "| retrain | exact |  | 1.0 (0.0 to 1.3) |  | 1 |  |",
        "| sisa | exact, partition by ids |  | 1.0 (0.0 to 1.3), n = 1 |  |  |  |",
        "| a | none 2, approximate 3 (0.93) |  | 25.0 |  |  | 0.06 (0.02 to 0.10) |",
        "| b | none |  | 50.0, n = 4 |  |  |  |",
    ]


def test_a_place_says_of_how_many_requests_it_gives_a_number(findings):
    near = {"forget": findings.LARGE, "requests": 5, "forgotten": -0.001, "forgotten_n": 5, "hop_1": 0.2, "hop_1_n": 4}
    far = {"forget": findings.LARGE, "requests": 5, "forgotten": None, "test": math.nan}
    far |= {"forgotten_state": "cannot tell", "test_state": "cannot tell"}
    table = findings.distances(Known({("cora", "near"): near, ("citeseer", "near"): far}))
    assert table[2:] == ["| near |  |  | 0.00 | ? | 0.20 [4] |  |  | ? |"]


def test_a_larger_graph_has_a_table_of_its_own(findings):
    sure = {"forget": findings.LARGE, "requests": 5, "forgotten_n": 5, "hop_1_n": 5, "test_n": 4}
    near = sure | {
        "forgotten": 0.2,
        "forgotten_low": 0.1,
        "forgotten_high": 0.3,
        "hop_1": 0.4,
        "test": 0.5,
        "membership_tpr": 0.125,
    }
    near["membership_tpr_n"] = 1
    far = sure | {"forgotten": 0.9, "hop_1": 3.0, "test": 2.0, "membership_tpr_state": "cannot tell"}
    rows = {("pubmed", "far"): far, ("pubmed", "near"): near, ("cora", "near"): far, ("cora", "other"): near}
    table = findings.on_pubmed(Known(rows))
    assert table == [
        "| method | forgotten | neighbours | test nodes | recognised, % | relearning |",
        "|---|---|---|---|---|---|",
        "| near | 0.20 (0.10 to 0.30) | 0.40 | 0.50 [4] | 12.5, n = 1 |  |",
        "| far | 0.90 | 3.00 | 2.00 [4] | ? |  |",
    ]


def test_what_a_partition_reveals_is_shown_for_both_attackers(findings):
    score = {
        "dataset": "cora",
        "model": "gcn",
        "audit": "partition-leakage {version=2}",
        "method": "graphrevoker (repaired)",
    }
    scores = [
        {**score, "measure": "auc", "where": "per target", "value": 0.79, "low": 0.763, "high": 0.817},
        {**score, "measure": "tpr", "where": "per target, 1% false alarms", "value": 0.108},
        {**score, "measure": "auc", "where": "per target, both versions", "value": 0.853, "low": 0.834, "high": 0.872},
        {**score, "measure": "tpr", "where": "per target, both versions, 1% false alarms", "value": 0.141},
        {**score, "measure": "auc", "where": "independent seeds", "value": 0.556},
    ]
    known = Known({})
    known.audits = pd.DataFrame(scores)
    assert findings.leakage(known) == [
        "|  | area | recognised, % | both versions: area | recognised, % |",
        "|---|---|---|---|---|",
        "| Cora, graphrevoker | 0.79 (0.76 to 0.82) | 11 | 0.85 (0.83 to 0.87) | 14 |",
    ]
    known.audits = pd.DataFrame([*scores, scores[0]])
    with pytest.raises(AssertionError, match="two rows"):
        findings.leakage(known)
