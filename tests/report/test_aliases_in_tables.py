"""Tables show aliases in place of full names, and say below what they stand for."""

from __future__ import annotations

from typing import Any

import pytest
from record_samples import make_record

from unlearnbench.component import canonical_json
from unlearnbench.records.record import Record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import build_tables, frame_of, render
from unlearnbench.report.frame.aliases import without_aliases
from unlearnbench.report.frame.selection import Selection, select

LONG = "sharded[partitioner=bekm,aggregator=mean]"


def mine(repetition: int = 0, alias: str = "mine", **more: Any) -> Record:
    more = {"params": {"num_shards": 20}, "label": LONG, **more}
    return make_record("sharded", repetition, alias=alias, **more)


def names(*records: Record) -> set[str]:
    return set(frame_of(records)["method"])


def test_the_alias_is_the_name_of_the_row_and_is_explained_once() -> None:
    frame = frame_of([make_record(), mine(), mine(1), make_record(repetition=1)])
    for name in ("summary", "time", "comparison"):
        (table,) = build_tables(frame, name)
        assert "mine" in set(table.shown["method"]), name
        assert [note for note in table.notes if "stands for" in note] == [f"mine stands for {LONG}."], name
    assert LONG in render(build_tables(frame), "md").replace("\\", "")
    assert set(frame.loc[frame["alias"] == "mine", "label"]) == {LONG}


def test_a_table_without_the_method_does_not_explain_its_alias() -> None:
    (table,) = build_tables(select(frame_of([make_record(), mine()]), Selection(methods=["retrain"]), load_catalogue()))
    assert not any("stands for" in note for note in table.notes)


@pytest.mark.parametrize(
    ("records", "shown"),
    [
        ((mine(), mine(1, "")), {"mine"}),
        ((mine(), mine(1, "other")), {LONG}),
        ((mine(), mine(params={"num_shards": 5}, label="sharded[num_shards=5]")), {LONG, "sharded[num_shards=5]"}),
        ((mine(alias="sisa"), make_record("sisa")), {LONG, "sisa"}),
    ],
    ids=["some records have none", "records disagree", "two methods share it", "it is a method here"],
)
def test_an_alias_that_is_not_clear_is_not_shown(records: tuple[Record, ...], shown: set[str]) -> None:
    assert names(*records) == shown


def test_a_report_selects_by_an_alias_and_gives_one() -> None:
    frame = frame_of([make_record(), mine(), make_record("sisa")])
    catalogue = load_catalogue()
    assert set(select(frame, Selection(methods=["mine"]), catalogue)["method"]) == {"retrain", "mine"}
    config = canonical_json(mine().cell["method"])
    assert set(frame_of([mine(), mine(1, "other")], aliases={config: "best"})["method"]) == {"best"}


def test_a_leaderboard_names_methods_by_what_they_are() -> None:
    assert set(frame_of(without_aliases([mine()]))["method"]) == {LONG}
