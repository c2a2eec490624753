"""The values that come with the package: made by the trials in `results/`, usable here, and as the page shows them."""

from __future__ import annotations

import hashlib
import tomllib

import pytest
from repository import ROOT
from tuning_samples import CATALOGUE, spec, unlearner

from unlearnbench.running.tuned import ANY_OTHER, read_tuned
from unlearnbench.task import Training

ROWS = read_tuned(None).rows


def test_they_are_of_the_trials_that_are_committed():
    origin = tomllib.loads((ROOT / "unlearnbench/running/tuned.toml").read_text())["origin"]
    assert hashlib.sha256((ROOT / "results/tuning/trials.csv").read_bytes()).hexdigest() == origin["trials_sha256"]
    assert {row.trials for row in ROWS} == {origin["trials"]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.model} {row.graph}")
def test_every_row_can_be_used(row):
    graph = row.graph or "a graph that took no part"
    read_tuned(None).of(CATALOGUE, unlearner(row.method), spec("model", row.model), graph, Training())


def test_the_page_shows_them():
    page = (ROOT / "docs/tuning.md").read_text()
    for row in ROWS:
        digits = 2 if row.objective == "distance" else 4
        if row.graph == ANY_OTHER:
            defaults = "failed" if row.default_loss is None else f"{row.default_loss:.{digits}f}"
            assert f"| `{row.method}` | {defaults} | {row.loss:.{digits}f} |" in page
