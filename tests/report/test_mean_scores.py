"""Scores of several requests as means: which of them count."""

from __future__ import annotations

import math
from typing import Any

import pytest
from page_samples import audited

from unlearnbench.report.tables.audits import audit_frame_of, audit_tables
from unlearnbench.report.tables.mean_scores import mean_scores

SCORE = {
    "method_config": "m",
    "measure": "js",
    "where": "forgotten",
    "seed": "0",
    "machine": "m-0001",
    "state": "valid",
}
NUMBERS = ("low", "high", "floor", "noop", "effect", "p", "runs")


def scores(*values: float, **more: Any) -> list[dict[str, Any]]:
    rows = [{**SCORE, **dict.fromkeys(NUMBERS, math.nan), "repetition": at, "value": v} for at, v in enumerate(values)]
    return [{**row, **more} for row in rows]


def test_the_mean_has_students_interval_and_no_p() -> None:
    rows = scores(0.6, 0.7, 0.8, floor=0.5, noop=1.0, p=0.01, runs=20)
    rows[0]["floor"] = 0.2
    (found,) = mean_scores(rows)
    # Standard error .1 / sqrt(3); quantile of t with two degrees of freedom 4.3027.
    assert found["value"] == pytest.approx(0.7)
    assert found["high"] == pytest.approx(0.7 + 4.3027 * 0.1 / 3**0.5, abs=1e-4)
    assert (found["n"], found["noop"], found["floor"]) == ("3", 1.0, pytest.approx(0.4))
    assert math.isnan(found["p"])


def test_effects_over_noop_are_averaged_together_and_others_each_for_itself() -> None:
    def effect(*rows: dict[str, Any], **more: Any) -> float:
        (found,) = mean_scores([{**row, "repetition": at, **more} for at, row in enumerate(rows)])
        return float(found["effect"])

    rows = [*scores(0.5, effect=0.5, noop=1.0), *scores(0.004, effect=40.0, noop=0.0001)]
    assert effect(*rows, where="forgotten, own") == effect(*rows, measure="energy") == pytest.approx(0.504 / 1.0001)
    # Relative to a floor: the area of an attack, steps that neither model needs.
    assert effect(*rows, measure="auc") == effect(*rows, where="forgotten, retrain") == 20.25
    assert effect(*scores(0.0, effect=1.0, noop=0.0), *scores(0.0, effect=0.5, noop=0.0), measure="steps") == 0.75
    # Of a plugin's audit that has no untouched model.
    assert effect(*scores(0.5, 0.7, effect=0.4), where="forgotten, own") == pytest.approx(0.4)


def test_what_is_no_evidence_counts_only_where_nothing_else_is_there() -> None:
    rows = scores(0.1, 0.2, 0.6)
    rows[2]["state"] = "cannot tell"
    (found,) = mean_scores(rows)
    assert (found["value"], found["n"]) == (pytest.approx(0.15), "2/3")
    (blind,) = mean_scores(scores(0.1, 0.3, state="cannot tell"))
    assert (blind["value"], blind["n"]) == (pytest.approx(0.2), "0/2")
    (missing,) = mean_scores(scores(math.nan, 0.3))
    assert (missing["value"], missing["n"]) == (0.3, "1/2")
    (nothing,) = mean_scores(scores(math.nan, math.nan))
    assert math.isnan(nothing["value"])
    assert nothing["n"] == "0/2"


def test_a_single_score_keeps_its_interval_and_a_cell_of_two_machines_counts_once() -> None:
    one = scores(0.4, low=0.3, high=0.5, p=0.02)
    other = scores(0.9, machine="m-0002")
    (found,) = mean_scores([*other, *one])
    assert (found["value"], found["low"], found["high"], found["n"]) == (0.4, 0.3, 0.5, "1")


def test_the_table_of_audits_shows_means_and_its_data_every_request() -> None:
    records = []
    for repetition, value in enumerate((0.2, 0.4)):
        score = {"measure": "auc", "where": "node", "value": value, "state": "valid", "p": 0.5, "runs": 64}
        one = audited("membership", "gif", "leaks", [score])
        cell = {**one.cell, "repetition": repetition}
        audit = {**(one.audit or {}), "notes": [f"once {repetition}"]}
        records.append(one.model_copy(update={"cell": cell, "key": f"{repetition:064x}", "audit": audit}))
    verdicts, table = audit_tables(audit_frame_of(records))
    (line,) = table.shown.to_dict("records")
    assert line["value"].startswith("0.300 [")
    assert line["n"] == "2"
    assert not {"p", "runs", "state", "repetition"} & set(line)
    assert len(table.data) == 2
    assert any(note.startswith("n: ") for note in table.notes)
    # Each request was told something else.
    assert not any("once" in note for note in verdicts.notes)
    (alone, _) = audit_tables(audit_frame_of(records[:1]))
    assert any("once 0" in note for note in alone.notes)
