"""H10: phases are the harness's: the same for every method, each with a time that was measured."""

from __future__ import annotations

import math

import pytest
from cell_samples import GRAPH, cell, surroundings
from command_line import command, install

from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.runner import run_cell

__all__ = ["command", "install"]


# What the harness times of every method; what a method names inside `fit` and `unlearn` is its own.
HARNESS = [
    "fit", "evaluate", "unlearn", "state-first", "state-second", "evaluate",
    "predict-first", "predict-second", "predict-full", "evaluate",
]  # fmt: skip
CATALOGUE = load_catalogue(only=["unlearnbench"])
INSIDE_FIT = {"partition", "train", "aggregate"}


@pytest.mark.parametrize("name", CATALOGUE.names("unlearner"))
def test_every_method_has_the_same_phases_and_no_time_is_zero(name: str) -> None:
    cls = CATALOGUE.load(CATALOGUE.find("unlearner", name))
    sharded = "num_shards" in cls.Params.model_fields
    model = "gcn" if cls.models is None else min(cls.models)
    made = cell(f"{name}[num_shards=5]" if sharded else name, model=resolve(CATALOGUE, "model", model))
    record, _, _ = run_cell(made, GRAPH, surroundings())
    assert record.status == "ok"
    rows = [(row["name"], row["seconds"]) for row in record.phases]
    outer = [name for name, _ in rows if "/" not in name and name not in INSIDE_FIT]
    assert outer == HARNESS
    assert all(seconds > 0 for _, seconds in rows)
    assert "train" in {name for name, _ in rows} or not any(
        part.startswith("members") for part in record.digests["before"]
    )
    fit = dict(rows)["fit"]
    assert fit >= math.fsum(seconds for name, seconds in rows if name in INSIDE_FIT) * 0.999
    (unlearn,) = (seconds for name, seconds in rows if name == "unlearn")
    assert (
        unlearn
        >= math.fsum(seconds for name, seconds in rows if name.startswith("unlearn/") and name.count("/") == 1) * 0.999
    )
    assert record.unlearn_seconds >= unlearn


@pytest.mark.parametrize(
    "name", ["retrain", *(f"{name}[num_shards=5]" for name in ("sisa", "grapheraser", "graphrevoker"))]
)
def test_partition_training_and_aggregator_are_timed_apart_in_every_sharded_method(name: str) -> None:
    record, _, _ = run_cell(cell(name), GRAPH, surroundings())
    inside = [row["name"] for row in record.phases if row["name"] in INSIDE_FIT]
    again = [row["name"] for row in record.phases if row["name"].startswith("unlearn/")]
    if name == "retrain":
        assert (inside, again) == (["train"], ["unlearn/retrain"])
    else:
        assert inside == ["partition", "train", "aggregate"]
        assert again == ["unlearn/locate", "unlearn/retrain", "unlearn/aggregate"]
