"""Rows of the protocol `tuned`: one table although recipes differ, each row marked, beside those of `www24`."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_samples import make_record

from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.frame.record_groups import group_records, reference_row
from unlearnbench.report.frame.selection import Selection, select
from unlearnbench.report.publish.grids import grid_problems
from unlearnbench.report.tables.index import build_tables

LABEL = "scrub[epochs=30]"


def tuned(method: str, lr: float, **more):
    record = make_record(method, protocol={"name": "tuned"}, **more)
    return record.model_copy(update={"cell": {**record.cell, "training": {"epochs": 100, "lr": lr}}})


@pytest.fixture(scope="module")
def records():
    fixed = [make_record("retrain", seconds=1.0), make_record("scrub", seconds=1.1)]
    values = {"label": LABEL, "params": {"epochs": 30}}
    return [*fixed, tuned("retrain", 0.003, seconds=1.2), tuned("scrub", 0.02, seconds=1.3, **values)]


def test_recipes_of_tuned_methods_do_not_part_a_table(records):
    fixed, other = sorted(group_records(frame_of(records)), key=lambda group: group.facets["protocol"], reverse=True)
    assert fixed.rows == ("retrain", "scrub")
    assert other.rows == ("retrain (tuned)", f"{LABEL} (tuned)")
    assert other.name.endswith(", tuned")
    assert not fixed.name.endswith("tuned")
    assert reference_row(other) == ("retrain (tuned)", "")


def test_every_table_says_that_its_rows_are_tuned(records):
    fixed, other = sorted(
        build_tables(frame_of(records), "utility", "results"), key=lambda table: "tuned" in table.caption
    )
    assert [name for name in other.shown["method"] if "(tuned)" not in name] == []
    assert "(tuned)" not in "".join(fixed.shown["method"])
    assert any("Protocol tuned version 1" in note and "recipe tuned for each method" in note for note in other.notes)


def test_a_method_of_another_recipe_is_another_row(records):
    again = tuned("scrub", 0.001, label=LABEL, params={"epochs": 30})
    (group,) = [each for each in group_records(frame_of([*records, again])) if each.facets["protocol"] == "tuned"]
    assert len(group.rows) == 3


def test_a_tuned_row_is_selected_by_the_name_of_its_method(records):
    chosen = select(frame_of(records), Selection(methods=("scrub",)), load_catalogue())
    assert set(chosen["method"]) == {"retrain", "retrain (tuned)", "scrub", f"{LABEL} (tuned)"}


def test_an_alias_of_a_tuned_method_is_marked_too(records):
    named = [record.model_copy(update={"alias": "mine"}) if record.label == LABEL else record for record in records]
    (other,) = [table for table in build_tables(frame_of(named), "utility", "results") if "tuned" in table.caption]
    assert list(other.shown["method"]) == ["retrain (tuned)", "mine (tuned)"]


def test_retrain_is_found_beside_a_method_of_another_recipe(records):
    mine = {Path(f"{number}.json"): record for number, record in enumerate(records)}
    assert grid_problems(mine, []) == {}
