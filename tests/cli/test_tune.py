"""`tune` and `--protocol tuned` on the command line."""

from __future__ import annotations

import csv
import re
import tomllib

import pytest
from command_line import Told, command, install

from unlearnbench.records.reading import read_records

__all__ = ["command", "install"]

ON = "sbm[num_nodes=80,num_edges=250,num_features=6,num_classes=3]"
OTHER = "sbm[num_nodes=90,num_edges=250,num_features=6,num_classes=3]"
TUNE = ("tune", "--methods", "gradient-ascent", "--datasets", ON, "--repetitions", "1", "--forget-ratio", "0.2")
RUN = (
    "run",
    "--methods",
    "gradient-ascent",
    "--repetitions",
    "1",
    "--protocol",
    "tuned",
    "--forget-count",
    "4",
    "--out",
    "runs/own",
)


def test_nothing_is_tuned_without_a_method_nor_where_there_is_nothing_to_tune(command):
    assert (command("tune").code, "No method is named" in command("tune").err) == (2, True)
    refused: Told = command("tune", "--methods", "noop")
    assert refused.code == 2
    assert "noop has nothing to tune" in refused.err


def test_a_method_that_was_not_tuned_is_refused_by_name(command):
    refused = command("run", "--methods", "noop", "--protocol", "tuned", "--datasets", ON)
    assert refused.code == 2
    assert "has no tuned values for noop with gcn" in refused.err
    assert "unlearnbench tune --methods noop" in refused.err


@pytest.mark.slow
def test_what_was_tuned_on_one_graph_is_used_on_another(command, tmp_path):
    assert command(*TUNE, "--trials", "2", "--epochs", "5").code == 2  # the recipe is tuned, not set
    assert command(*TUNE, "--trials", "1").code == 0
    done = command(*TUNE, "--trials", "2")
    assert "retrain trial 1 of 2" not in done.err
    said = " ".join(done.err.split())
    assert "alone serves other graphs, and not sbm[" in said
    assert "unlearnbench run --methods gradient-ascent --datasets GRAPH --protocol tuned --tuned" in said
    assert re.search(r"where GRAPH is any but sbm\[\S+$", said)
    assert done.err.count("trial 2 of 2") == 2
    rows = list(csv.DictReader((tmp_path / "runs/tuning/trials.csv").read_text().splitlines()))
    assert [(row["method"], row["trial"]) for row in rows] == [
        ("retrain", "0"), ("retrain", "1"), ("gradient-ascent", "0"), ("gradient-ascent", "1"),
    ]  # fmt: skip
    values = tomllib.loads((tmp_path / "runs/tuning/tuned.toml").read_text())
    assert values["origin"]["command"].startswith("unlearnbench tune --methods gradient-ascent")
    told = command(*RUN, "--tuned", "runs/tuning/tuned.toml", "--datasets", OTHER)
    assert told.code == 0
    assert "retrain (tuned)" in told.out
    chosen = {row["method"]: row["values"] for row in values["tuned"]}
    for record in read_records(tmp_path / "runs/own", []):
        wanted = chosen[record.cell["method"]["name"]]
        assert record.cell["protocol"]["name"] == "tuned"
        found = {f"training.{key}": value for key, value in record.cell["training"].items()}
        assert {**found, **record.cell["method"]["params"]}.items() >= wanted.items()
    assert "chosen on this graph" in command(*RUN, "--tuned", "runs/tuning/tuned.toml", "--datasets", ON).err
