"""What is not finite is no result: a cell with such parameters or predictions is `diverged` and has no score."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, command, install, records_of
from plugin_samples import Write

__all__ = ["command", "install"]

ODD = """
import math

import torch
from ub_toys import Steady

from unlearnbench import hookimpl


class OneWeight(Steady):
    name = "one-weight"

    def fit(self, task):
        self.weight = torch.zeros(50)

    def unlearn(self, request, retained):
        self.weight[17] = VALUE


class Posteriors(Steady):
    '''Sound parameters; one prediction of one node is not finite, and an argmax would hide it.'''

    name = "posteriors"
    after = False

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        self.after = True

    def predict(self, query):
        answer = super().predict(query)
        if self.after:
            answer[3, 0] = VALUE
        return answer


@hookimpl
def register_unlearners(register):
    register(OneWeight)
    register(Posteriors)
"""


@pytest.mark.parametrize("value", ["math.nan", "math.inf", "-math.inf"])
@pytest.mark.parametrize("name", ["one-weight", "posteriors"])
def test_one_number_that_is_not_finite_is_enough(
    command: Any, install: Write, tmp_path: Path, value: str, name: str
) -> None:
    install("ub-odd", ODD.replace("VALUE", value))
    told = command("run", "-m", name, *ONCE, "--no-reference", "--out", str(tmp_path / "out"))
    (record,) = records_of(tmp_path / "out").values()
    assert record.status == "diverged"
    assert record.metrics == {}
    assert any("not finite" in note for note in record.notes)
    assert "1 cells: 0 ok, 0 failed, 0 refused, 1 diverged" in told.err


def test_the_run_goes_on_and_nothing_that_diverged_is_ranked(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = command("run", "-m", "diverging,steady", *ONCE, "--out", str(out))
    assert told.code == 0
    assert {name: record.status for (name, _), record in records_of(out).items()} == {
        "retrain": "ok",
        "diverging": "diverged",
        "steady": "ok",
    }
    assert "diverging repetition 0: diverged" in told.err
    assert "3 cells: 2 ok, 0 failed, 0 refused, 1 diverged; 0 were there already." in told.err
    table = list(csv.DictReader(io.StringIO(command("report", str(out), "--format", "csv").out)))
    (row,) = (row for row in table if row["method"] == "diverging")
    scores = {heading: text for heading, text in row.items() if "f1_" in heading and heading.endswith("_mean")}
    assert len(scores) == 12
    assert set(scores.values()) == {""}
    assert command("leaderboard", "build", str(out)).code == 0
    with (out / "leaderboard" / "all.csv").open(encoding="utf-8") as file:
        ranks = {row["method"]: row["rank"] for row in csv.DictReader(file) if row["view"] == "shard"}
    assert ranks["diverging"] == ""
    assert {ranks["retrain"], ranks["steady"]} == {"1", "2"}


def test_a_cell_that_diverged_is_done(command: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "diverging", *ONCE, "--no-reference", "--out", str(tmp_path / "out"))
    command(*arguments)
    told = command(*arguments)
    assert told.code == 0
    assert "1 diverged; 1 were there already." in told.err
