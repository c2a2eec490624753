"""Several amounts to forget in one run: a grid each, one table and one figure of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, SHARDS, command, install
from record_samples import make_record

from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.records.record import Record
from unlearnbench.report.figures.figures import find_figures
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.running.config import make_configs

__all__ = ["command", "install"]


def forgetting(method: str, ratio: float, repetition: int = 0, **more: Any) -> Record:
    """Make a record of a request of a share of 1,000 nodes."""
    record = make_record(method, repetition, protocol={"forget": {"kind": "node", "ratio": ratio}}, **more)
    key = f"{record.key[:20]}{round(1000 * ratio):04d}"
    return record.model_copy(update={"key": key, "requests": [{"count": round(1000 * ratio)}]})


def distant(method: str, ratio: float, effect: float, version: int = 1, state: str = "valid") -> Record:
    """Make the record of an audit of distance for such a request."""
    record = forgetting(method, ratio)
    cell = {**record.cell, "audit": {"name": "distance", "version": version, "params": {}}}
    score = {"measure": "js", "where": "forgotten, own", "value": effect, "effect": effect, "state": state}
    score["controls"] = {"noop": 1.0}
    return record.model_copy(update={"cell": cell, "audit": {"verdict": "differs", "scores": [score], "details": {}}})


RECORDS = [
    *(forgetting("retrain", ratio, r, seconds=2.0, full=0.9) for ratio in (0.2, 0.005) for r in (0, 1)),
    *(forgetting("sisa", 0.005, r, seconds=1.0, full=0.8) for r in (0, 1)),
    *(forgetting("sisa", 0.2, r, seconds=4.0, full=0.7) for r in (0, 1)),
]


def test_one_row_a_method_and_amount_the_least_first() -> None:
    (table,) = build_tables(frame_of(RECORDS), "sweep")
    shown = table.shown
    assert list(shown["method"]) == ["retrain", "retrain", "sisa", "sisa"]
    assert list(shown["forgotten"]) == ["5 (0.5 %)", "200 (20 %)"] * 2
    assert list(shown["F1 full %"]) == ["90.00 ± 0.00", "90.00 ± 0.00", "80.00 ± 0.00", "70.00 ± 0.00"]
    assert list(shown["relative to Retrain"]) == ["1.00", "1.00", "0.50", "2.00"]
    assert "distance" not in shown
    assert any("0.5 % of nodes, 20 % of nodes forgotten" in note for note in table.notes)
    assert sorted(table.data["deletions"]) == [5, 5, 200, 200]


def test_distances_stand_beside_the_amount_they_were_measured_with() -> None:
    audits = audit_frame_of([distant("sisa", 0.2, 0.25)])
    (table,) = build_tables(frame_of(RECORDS), "sweep", audits=audits)
    assert list(table.shown["distance"]) == ["", "", "", "0.25"]


def test_a_later_version_of_the_audit_counts_and_what_is_no_evidence_is_no_number() -> None:
    older, later = distant("sisa", 0.2, 0.25), distant("sisa", 0.2, 0.75, version=2)
    audits = audit_frame_of([older, later.model_copy(update={"key": "f" * 32})])
    (table,) = build_tables(frame_of(RECORDS), "sweep", audits=audits)
    assert list(table.shown["distance"]) == ["", "", "", "0.75"]
    unsure = audit_frame_of([distant("sisa", 0.2, 0.25, state="cannot tell")])
    (table,) = build_tables(frame_of(RECORDS), "sweep", audits=unsure)
    assert "distance" not in table.shown


def test_one_amount_alone_has_no_such_table() -> None:
    with pytest.raises(NothingMatchedError, match="sweep"):
        build_tables(frame_of(RECORDS[:2]), "sweep")


@pytest.mark.slow
def test_the_figure_has_a_panel_for_each_number_that_is_known() -> None:
    pytest.importorskip("matplotlib")
    for audits, titles in (
        (None, ["micro-F1 % (view full)", "unlearning time relative to Retrain"]),
        (
            audit_frame_of([distant("sisa", ratio, 0.5) for ratio in (0.005, 0.2)]),
            [
                "micro-F1 % (view full)",
                "unlearning time relative to Retrain",
                "distance from Retrain on the forgotten",
            ],
        ),
    ):
        (draw,) = (draw for name, draw in find_figures(frame_of(RECORDS), audits) if name.startswith("sweep"))
        panels = draw(7.0).axes
        assert [panel.get_title() for panel in panels] == titles
        assert {panel.get_xlabel() for panel in panels} == {"nodes forgotten"}
        drawn = [line.get_ydata().tolist() for line in panels[0].lines]
        assert sorted(drawn) == [pytest.approx([80.0, 70.0]), pytest.approx([90.0, 90.0])]


def test_each_amount_is_a_grid_of_its_own() -> None:
    configs = make_configs({"methods": ["sisa"], "forget_ratio": [0.1, 0.2]})
    assert [config.forget_ratio for config in configs] == [0.1, 0.2]
    (config,) = make_configs({"methods": ["sisa"], "forget_count": [3]})
    assert config.forget_count == 3


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"forget_ratio": [0.1, 0.1]}, "0.1 is named twice"),
        ({"forget_count": []}, "no amount is named"),
        ({"forget_count": [1, True]}, "true is no number"),
        ({"forget_ratio": [0.1, 2]}, "2 is not between 0 and 1"),
        ({"forget_ratio": [0.1], "forget_count": [1, 2]}, "in one way"),
        ({"forget_count": list(range(1, 200)), "repetitions": 1000}, "amounts to forget 199"),
    ],
)
def test_wrong_amounts_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_configs({"methods": ["sisa"], **values})
    assert reason in str(caught.value)


def test_a_run_of_several_amounts_ends_with_their_table(command: Any, tmp_path: Path) -> None:
    amounts = ("--forget-count", "1,2", "--forget-count", "3")
    told = command("run", "-m", "sisa", *ONCE, *SHARDS, *amounts, "--out", "out")
    assert told.code == 0, told.err
    assert "F1 and time against what is forgotten: toy" in told.out
    assert len(list(tmp_path.glob("out/records/*/*/*/*.json"))) == 6
    told = command("audit", "exactness", "-m", "sisa", *ONCE, "--forget-count", "1,2")
    assert told.code == 2
    assert "--forget-count names several amounts" in told.err
