"""The table of what is known of forgetting: which records count, and that nothing missing becomes a number."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from page_samples import audited

from unlearnbench.cli import cli
from unlearnbench.component import canonical_json
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.report import frame_of
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.index import build_tables

LEAKAGE = {"measure": "auc", "state": "valid"}


def leakage(version: int = 2, repetition: int = 0, machine: str = "m-0001", **score: Any) -> Record:
    record = audited("partition-leakage", "sisa", "leaks", [{**LEAKAGE, "where": "per target", **score}])
    audit = {"name": "partition-leakage", "version": version, "params": {}}
    cell = {**record.cell, "audit": audit, "repetition": repetition}
    provenance = {**record.provenance, "machine": machine}
    return record.model_copy(update={"cell": cell, "key": f"{version:032x}{repetition:032x}", "provenance": provenance})


def row(*records: Record) -> dict[str, Any]:
    (table,) = build_tables(frame_of([]), "forgetting", audits=audit_frame_of(records))
    return {**table.data.iloc[0], "shown": table.shown.iloc[0]["partition leakage"]}


def test_an_older_attack_is_named_and_gives_way_to_a_later_one() -> None:
    old = leakage(1, where="independent seeds, calibrated", value=0.6, low=0.55, high=0.65)
    alone = row(old)
    assert alone["shown"] == "0.600 [0.550, 0.650] (older attack)"
    assert (alone["leakage_auc"], alone["leakage_auc_n"], alone["leakage_auc_state"]) == (0.6, 1, "older attack")
    both = row(old, leakage(value=0.79, low=0.76, high=0.82))
    assert (both["leakage_auc"], both["leakage_auc_low"], both["leakage_auc_state"]) == (0.79, 0.76, "")


def test_repetitions_are_averaged_with_students_interval_and_a_cell_of_two_machines_counts_once() -> None:
    values = [leakage(repetition=r, value=value) for r, value in enumerate((0.6, 0.7, 0.8))]
    found = row(*values, leakage(value=0.1, machine="m-0002"))
    # Standard error .1 / sqrt(3); quantile of t with two degrees of freedom 4.3027.
    assert found["leakage_auc"] == pytest.approx(0.7)
    assert found["leakage_auc_low"] == pytest.approx(0.7 - 4.3027 * 0.1 / 3**0.5, abs=1e-4)
    assert found["leakage_auc_n"] == 3


def test_an_interval_does_not_go_beyond_what_the_measure_can_be() -> None:
    values = [leakage(repetition=r, value=value) for r, value in enumerate((0.6, 0.9, 0.9))]
    # Student's interval would end at 1.23.
    assert row(*values)["leakage_auc_high"] == 1
    low = [leakage(repetition=r, value=value) for r, value in enumerate((0.01, 0.02, 0.3))]
    assert row(*low)["leakage_auc_low"] == 0


def test_what_is_missing_is_empty_and_what_is_no_evidence_is_no_number() -> None:
    unsure = row(leakage(value=0.9, state="cannot tell"))
    assert (unsure["shown"], unsure["leakage_auc"], unsure["leakage_auc_n"]) == ("cannot tell", None, 0)
    # The record has another number: its verdict says nothing about this column.
    assert row(leakage(measure="ari", value=0.5))["shown"] == ""
    assert row(leakage(value=None))["shown"] == "cannot tell"
    for name in ("distance", "membership_tpr", "relearning", "f1_micro_shard", "times_retrain"):
        assert unsure[name] is None
        assert unsure[f"{name}_n"] == 0


def test_a_verdict_stands_with_its_counts_and_the_mean_distance_behind_it() -> None:
    def judged(repetition: int, verdict: str, **score: Any) -> Record:
        one = audited("exactness", "gif", verdict, [{"measure": "energy", "where": "forgotten", **score}])
        return one.model_copy(update={"cell": {**one.cell, "repetition": repetition}, "key": f"{repetition:064x}"})

    records = [judged(0, "approximate", value=0.4, effect=0.5, controls={"noop": 0.8}, state="valid")]
    records += [judged(1, "none", value=0.2, effect=1.0, controls={"noop": 0.2}, state="valid")]
    records += [judged(2, "cannot tell", value=0.7, effect=7.0, controls={"noop": 0.1}, state="cannot tell")]
    (table,) = build_tables(frame_of([]), "forgetting", audits=audit_frame_of(records))
    verdict = "approximate (1), none (1), cannot tell (1)"
    assert table.shown.iloc[0]["exactness"] == f"{verdict}, 0.60"
    found = table.data.iloc[0]
    assert (found["exactness"], found["exactness_effect"], found["exactness_n"]) == (verdict, pytest.approx(0.6), 3)


def test_a_distance_without_the_gate_says_so() -> None:
    score = {"measure": "js", "where": "forgotten, own", "value": 0.1, "effect": 0.4, "state": "valid"}
    score["controls"] = {"noop": 0.25}
    (table,) = build_tables(
        frame_of([]), "forgetting", audits=audit_frame_of([audited("distance", "gif", "differs", [score])])
    )
    assert table.shown.iloc[0]["distance on D"] == "0.400 (no gate)"
    assert any(note.startswith("no gate: ") for note in table.notes)
    (missing,) = (note for note in table.notes if note.startswith("F1 and time: "))
    assert "`unlearnbench run --methods gif --datasets " in missing
    assert " --out" not in missing


def test_a_folder_of_audits_alone_has_the_table(tmp_path: Path) -> None:
    record = audited("exactness", "sisa", "exact")
    key = hashlib.sha256(canonical_json(record.cell).encode()).hexdigest()
    Store(tmp_path, "m-0001").save(record.model_copy(update={"key": key}))
    result = CliRunner().invoke(cli, ["report", str(tmp_path), "--table", "forgetting", "--format", "csv"])
    assert result.exit_code == 0, result.output
    head, line = result.output.splitlines()
    found = dict(zip(head.split(","), line.split(","), strict=False))
    assert (found["method"], found["exactness"], found["distance"]) == ("sisa", "exact", "")
