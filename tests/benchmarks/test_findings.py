"""The tables of docs/findings.md are what the records say."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest
from repository import ROOT

PAGE = ROOT / "docs" / "findings.md"


@pytest.fixture
def findings(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("findings")


class Known:
    """Rows that are made up."""

    def __init__(self, rows: dict[tuple[str, str], dict[str, Any]]) -> None:
        self.found = rows

    def rows(self, table: str, forget: str) -> dict[tuple[str, str], dict[str, Any]]:
        return {place: row for place, row in self.found.items() if row.get("forget", forget) == forget}


@pytest.mark.slow
def test_the_committed_page_is_what_the_committed_records_say(findings):
    text = PAGE.read_text("utf-8")
    assert len(findings.BLOCK.findall(text)) == text.count("<!-- table ") >= 2
    assert findings.written(text, findings.Evidence(ROOT / "results")) == text


def test_a_number_says_how_many_requests_it_is_of_and_how_sure_it_is(findings):
    recognised = {"membership_tpr": 0.0104, "membership_tpr_low": -0.002, "membership_tpr_high": 0.0131}
    rows = {
        ("cora", "retrain"): {"exactness": "exact", "relearning": 1.0, **recognised, "membership_tpr_n": 5},
        ("cora", "sisa"): {"exactness": "exact-given-partition (ids)", **recognised, "membership_tpr_n": 1},
        ("cora", "b"): {"exactness": "none", "membership_tpr": 0.5, "membership_tpr_n": 4, "relearning": math.nan},
        ("cora", "a"): {"exactness": "none (2), approximate (3)", "exactness_effect": 0.931, "membership_tpr": 0.25},
        ("citeseer", "a"): {"relearning": 0.061, "relearning_low": 0.02, "relearning_high": 0.1, "relearning_n": 5},
    }
    table = findings.forgetting(Known(rows))
    assert table[0] == (
        "| | exactness, Cora | CiteSeer | recognised, %, Cora | CiteSeer | relearning, Cora | CiteSeer |"
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


def test_a_page_keeps_its_text_and_takes_the_numbers_of_the_records(findings):
    rows = {("cora", "retrain"): {"exactness": "exact"}}
    page = "Before.\n\n<!-- table forgetting -->\n\n| old |\n\n<!-- end -->\n\nAfter.\n"
    anew = findings.written(page, Known(rows))
    assert anew.startswith("Before.\n\n<!-- table forgetting -->\n\n| | exactness, Cora |")
    assert anew.endswith("| retrain | exact |  |  |  |  |  |\n\n<!-- end -->\n\nAfter.\n")
    assert findings.written(anew, Known(rows)) == anew
    with pytest.raises(KeyError):
        findings.written(page.replace("forgetting", "unknown"), Known(rows))


def test_a_stale_table_is_named(findings, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table forgetting -->\n\n| old |\n\n<!-- end -->\n")
    monkeypatch.setattr(findings, "Evidence", lambda folder: Known({("cora", "retrain"): {"exactness": "exact"}}))
    monkeypatch.setattr("sys.argv", ["findings.py", "--page", str(page), "--check"])
    with pytest.raises(SystemExit, match="not what the records say: forgetting"):
        findings.main()
    assert "old" in page.read_text()
    monkeypatch.setattr("sys.argv", ["findings.py", "--page", str(page)])
    findings.main()
    assert "old" not in page.read_text()
