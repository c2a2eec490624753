"""C5: the spread over repetitions is the sample standard deviation; n is shown; of one repetition there is none."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from command_line import command, csv_rows, install
from hypothesis import given
from hypothesis import strategies as st
from plugin_samples import SCORED, Write
from record_samples import make_record

from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.tables.core import EVERY_GROUP
from unlearnbench.report.tables.cost import cost_tables
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import csv_text, render
from unlearnbench.statistics.averages import geometric_mean, mean, sample_sd

__all__ = ["command", "install"]

STYLES = ("text", "md", "latex", "csv")
RUN = ("-d", "one-class", "--epochs", "1", "--no-reference")


def test_statistics_by_hand() -> None:
    assert mean([0.80, 0.82, 0.84]) == pytest.approx(0.82)
    assert sample_sd([0.80, 0.82, 0.84]) == pytest.approx(0.02)
    assert geometric_mean([0.25, 1.0]) == pytest.approx(0.5)
    assert (mean([]), sample_sd([0.5]), geometric_mean([])) == (None, None, None)
    assert sample_sd([0.1] * 3) == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12))
def test_the_divisor_is_one_less_than_the_number(values: list[float]) -> None:
    middle = math.fsum(values) / len(values)
    wanted = math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))
    assert sample_sd(values) == pytest.approx(wanted, abs=1e-6)
    assert statistics.pstdev(values) <= wanted + 1e-6


def test_the_example_from_run_to_table(command: Any, install: Write, tmp_path: Path) -> None:
    install("ub-scored", SCORED)
    out = str(tmp_path / "out")
    told = command("run", "-m", "scored[first=0.8,step=0.02]", *RUN, "--repetitions", "3", "--out", out)
    assert told.code == 0, told.err
    # The population's deviation would be 1.63.
    assert "82.00 ± 2.00" in told.out
    (row,) = csv_rows(command("report", out, "--format", "csv").out)
    assert row["n"] == "3"
    assert float(row["f1_micro_shard_mean"]) == pytest.approx(0.82)
    assert float(row["f1_micro_shard_sd"]) == pytest.approx(0.02)
    assert command("leaderboard", "build", out).code == 0
    (board,) = csv_rows((tmp_path / "out" / "leaderboard" / "www24" / "one-class.csv").read_text())[:1]
    assert float(board["f1_micro_sd"]) == pytest.approx(0.02)


def test_repetitions_that_failed_or_diverged_are_in_no_number(command: Any, install: Write, tmp_path: Path) -> None:
    install("ub-scored", SCORED)
    out = str(tmp_path / "out")
    method = "scored[first=0.8,step=0.02,fails=3,diverges=4]"
    told = command("run", "-m", method, *RUN, "--repetitions", "5", "--tolerate-failures", "--out", out)
    assert "5 cells: 3 ok, 1 failed, 0 refused, 1 diverged" in told.err
    (row,) = csv_rows(command("report", out, "--format", "csv").out)
    assert (row["n"], row["expected"], row["failed"], row["diverged"]) == ("3", "5", "1", "1")
    assert float(row["f1_micro_shard_mean"]) == pytest.approx(0.82)
    assert float(row["f1_micro_shard_sd"]) == pytest.approx(0.02)
    shown = command("report", out).out
    assert "82.00 ± 2.00" in shown
    assert "3/5" in shown


@pytest.mark.slow
def test_one_repetition_has_no_spread_anywhere(command: Any, install: Write, tmp_path: Path) -> None:
    install("ub-scored", SCORED)
    out = str(tmp_path / "out")
    # The second fails, so that one is left.
    method = "scored[first=0.8,step=0.02,fails=1]"
    command("run", "-m", method, *RUN, "--repetitions", "2", "--tolerate-failures", "--out", out)
    for table in EVERY_GROUP:
        # Comparisons have no row without a second method.
        rows = csv_rows(command("report", out, "--table", table, "--format", "csv").out)
        assert {row[name] for row in rows for name in row if name.endswith("_sd")} <= {""}, table
        for style in STYLES:
            said = command("report", out, "--table", table, "--format", style).out
            assert not re.search(r"\bnan\b|± 0\.0|± *(\||$)", said, re.IGNORECASE), (table, style)
    assert command("leaderboard", "build", out).code == 0
    texts = {path.name: path.read_text() for path in (tmp_path / "out" / "leaderboard").rglob("*.csv")}
    assert not any("nan" in text.lower() for text in texts.values())
    spreads = [text for row in csv_rows(texts["one-class.csv"]) for name, text in row.items() if name.endswith("_sd")]
    assert len(spreads) > 10
    assert set(spreads) == {""}


def test_equal_scores_have_a_spread_of_zero_which_is_no_absence() -> None:
    (table,) = build_tables(frame_of([make_record(repetition=number, shard=0.5) for number in range(2)]))
    assert "50.00 ± 0.00" in render([table], "text")
    assert csv_rows(csv_text(table.data))[0]["f1_micro_shard_sd"] == "0"


def test_the_ledger_of_costs_has_the_same_deviation() -> None:
    def record(number: int, seconds: float) -> Any:
        return make_record(repetition=number, seconds=seconds, requests=[{"count": 5}])

    (table,) = cost_tables(frame_of([record(number, seconds) for number, seconds in enumerate((1.0, 2.0, 3.0))]))
    assert float(table.data["sd"].iloc[0]) == 1.0
    (table,) = cost_tables(frame_of([record(0, 1.0)]))
    assert csv_rows(csv_text(table.data))[0]["sd"] == ""
