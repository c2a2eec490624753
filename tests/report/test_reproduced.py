"""A paper's table in its layout, with ours below each printed line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import command, install
from page_samples import WOBBLE
from record_samples import make_record

from unlearnbench import experiments
from unlearnbench.errors import UsageError
from unlearnbench.records.store import Store
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import Table, build_tables, frame_of
from unlearnbench.report.tables.notes import Command
from unlearnbench.report.tables.reproduced import laid_out, printed_tables

__all__ = ["command", "install"]

CATALOGUE = load_catalogue(only=["unlearnbench"])


MADE_BY = Command("Made by: it")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return records of the paper's cells with SAGE and GCN: both views of Retrain are one, those of SISA differ."""
    return frame_of(
        make_record(method, repetition, shard=shard + by, full=full + by, seconds=seconds, model=model)
        for model in ("sage", "gcn")
        for repetition, by in enumerate(WOBBLE)
        for method, shard, full, seconds in (("retrain", 0.86, 0.86, 1.0), ("sisa", 0.76, 0.82, 0.5))
    )


def laid(frame: pd.DataFrame, name: str) -> list[Table]:
    entry = printed_tables(CATALOGUE, "graphrevoker")[name]
    return laid_out(entry, build_tables(frame, entry.name, against=entry.against, catalogue=CATALOGUE), MADE_BY)


def test_every_table_of_the_paper_is_listed_with_what_makes_its_records(command: Any) -> None:
    told = command("reproduce", "graphrevoker")
    assert [line.split("  ")[0] for line in told.out.splitlines()] == [f"Table {n}" for n in range(1, 7)]
    assert "Table 2  F1 beside the paper's; records: unlearnbench run --experiment graphrevoker-www24" in told.out


def test_a_column_is_a_model_as_in_the_paper_and_ours_stands_below_what_is_printed(frame: pd.DataFrame) -> None:
    (table,) = laid(frame, "Table 2")
    assert list(table.shown) == ["in the paper", "", "gcn", "sage"]
    rows = table.shown.to_numpy().tolist()
    assert [row[:2] for row in rows] == [
        ["Cora, Retrain", "published"],
        ["", "ours"],
        ["Cora, SISA", "published"],
        ["", "ours, shard view"],
        ["", "ours, full view"],
    ]
    assert [row[2].partition(" ")[0] for row in rows] == ["84.46", "86.00", "55.02", "76.00", "82.00"]
    assert [row[3] for row in rows if row[1] == "published"] == ["82.84 ± 0.73", "58.82 ± 4.87"]
    assert len(table.data) == 2 * 2 * 2
    assert table.notes[-1] == MADE_BY
    assert sum(isinstance(note, Command) for note in table.notes) == 1


def test_times_are_seconds_and_ratios(frame: pd.DataFrame) -> None:
    seconds, ratios = laid(frame, "Table 3")
    assert seconds.shown["gcn"].tolist() == ["24.93", "1.00", "5.04", "0.50"]
    assert ratios.shown["gcn"].tolist() == ["1.00", "1.00", "0.20", "0.50"]


def test_a_table_without_such_numbers_stays_as_it_is(frame: pd.DataFrame) -> None:
    (table,) = laid(frame, "Table 4")
    assert "nodes in the paper" in table.shown


def test_what_is_not_there_is_told(command: Any, tmp_path: Path, frame: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="No tables of a paper 'sisa' are known") as caught:
        printed_tables(CATALOGUE, "sisa")
    assert caught.value.hint == "There are those of: graphrevoker."
    Store(tmp_path, "m-0001").save(make_record())
    told = command("reproduce", "graphrevoker", str(tmp_path), "--table", "9")
    assert told.code == 2
    assert "has no table '9' here" in told.err
    told = command("reproduce", "graphrevoker", str(tmp_path), "--table", "5")
    assert told.code == 3
    assert "unlearnbench run --experiment www24-partition-ablation" in told.err


def test_of_the_experiments_those_of_the_paper_are_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    find = experiments.find_experiment
    monkeypatch.setattr(experiments, "find_experiment", lambda name, *more: read.append(name) or find(name, *more))
    assert next(experiments.experiments_with("utility", CATALOGUE, "graphrevoker")) == "graphrevoker-www24"
    assert {CATALOGUE.find("experiment", name).plugin for name in read} == {"graphrevoker"}
