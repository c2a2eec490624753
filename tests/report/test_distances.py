"""The table `distances`: means over requests by place, with what they rest on."""

from __future__ import annotations

import pandas as pd
import pytest
from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.distances import distance_tables
from unlearnbench.report.tables.table import Table


def distance(
    method: str, repetition: int, effects: dict[str, float | None], state: str = "valid", version: int = 2
) -> Record:
    record = make_record(method, repetition)
    scores = [
        {"measure": "js", "where": f"{place}, own", "value": None if effect is None else 0.1 * effect, "effect": effect}
        | {"state": "cannot tell" if effect is None else state, "controls": {"noop": 0.1}}
        for place, effect in effects.items()
    ]
    other = {"measure": "logits", "where": "forgotten, own", "value": 9.0, "effect": 9.0, "state": "valid"}
    audit = {"verdict": "differs", "scores": [*scores, other], "details": {}, "notes": []}
    cell = {**record.cell, "audit": {"name": "distance", "version": version, "params": {}}}
    return record.model_copy(update={"cell": cell, "audit": audit, "key": f"{method}{repetition}".encode().hex()})


def gate(repetition: int, valid: bool) -> Record:
    record = make_record("retrain", repetition)
    cell = {**record.cell, "audit": {"name": "controls", "version": 1, "params": {}}}
    audit = {"verdict": "valid", "scores": [], "details": {"js": {"valid": valid}}, "notes": []}
    return record.model_copy(update={"cell": cell, "audit": audit, "key": f"{repetition + 1:032x}"})


def table(*records: Record) -> Table:
    (found,) = distance_tables(audit_frame_of(records))
    return found


def test_places_are_means_over_requests_from_near_to_far() -> None:
    found = table(
        *(distance("noop", r, {"forgotten": 1.0, "hop 1": 1.0}) for r in range(3)),
        distance("gif", 0, {"forgotten": 0.2, "hop 1": 0.5}),
        *(distance("gif", r, {"forgotten": 0.2 + r / 10, "hop 1": None}) for r in (1, 2)),
        distance("retrain", 0, {"forgotten": -0.001, "hop 1": 0.0}),
    )
    # Standard error .1 / sqrt(3); quantile of t with two degrees of freedom 4.3027.
    assert found.shown.to_dict("records") == [
        {"method": "retrain", "n": "1", "forgotten": "0.00", "hop 1": "0.00"},
        {"method": "gif", "n": "3", "forgotten": "0.30 [0.05, 0.55]", "hop 1": "0.50 (1)"},
        {"method": "noop", "n": "3", "forgotten": "1.00 [1.00, 1.00]", "hop 1": "1.00"},
    ]
    row = found.data.set_index("method").loc["gif"]
    assert row[["forgotten", "forgotten_nats", "hop_1", "hop_1_n"]].tolist() == pytest.approx([0.3, 0.03, 0.5, 1])
    assert "1 is, in nats: forgotten 0.1, hop 1 0.1." in found.notes


def test_a_place_that_tells_nothing_has_no_number_and_the_latest_version_counts() -> None:
    found = table(distance("gif", 0, {"forgotten": None}), distance("gif", 1, {"forgotten": 0.4}, version=1))
    assert found.shown.to_dict("records") == [{"method": "gif", "n": "1", "forgotten": "cannot tell"}]
    assert pd.isna(found.data["forgotten"]).all()


@pytest.mark.parametrize(("gates", "shown"), [((), "0.40"), (((0, True),), "0.40"), (((0, False),), "cannot tell")])
def test_the_gate_of_another_repetition_stands_for_a_missing_one(
    gates: tuple[tuple[int, bool], ...], shown: str
) -> None:
    found = table(distance("gif", 3, {"forgotten": 0.4}), *(gate(*one) for one in gates))
    assert found.shown["forgotten"].tolist() == [shown]
    assert any("controls` was not run" in note for note in found.notes) is (not gates)


def test_the_gate_of_the_same_repetition_goes_first() -> None:
    found = table(distance("gif", 1, {"forgotten": 0.4}), gate(0, True), gate(1, False))
    assert found.shown["forgotten"].tolist() == ["cannot tell"]


def test_records_of_other_audits_have_no_such_table() -> None:
    assert list(distance_tables(audit_frame_of([gate(0, True)]))) == []
