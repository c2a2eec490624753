"""B4: a model that forgetting left as it was, and two methods that deploy one model, are named; the model scored is
the one deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import ONCE, command, install, records_of
from plugin_samples import Write

import unlearnbench
from unlearnbench.running.execute import identical

__all__ = ["command", "install"]

MORE = """
import torch
from ub_toys import Steady

from unlearnbench import hookimpl


class OneWeight(Steady):
    '''Changes the last bit of one weight of a thousand.'''

    name = "one-weight"

    def fit(self, task):
        self.weight = torch.ones(1000)

    def unlearn(self, request, retained):
        self.weight[617] = torch.nextafter(self.weight[617], torch.tensor(2.0))


class Second(OneWeight):
    '''Deploys the same numbers in another layout: they are other parameters.'''

    name = "second"

    def state(self):
        return {"members/000/weight": self.weight.view(10, 100)}


class Turning(Steady):
    '''Says class 0 before the request and class 1 after it.'''

    name = "turning"

    def predict(self, query):
        answer = torch.full((len(query.targets), query.graph.num_classes), -9.0)
        answer[:, int(self.weight)] = 0
        return torch.log_softmax(answer, dim=1)


@hookimpl
def register_unlearners(register):
    for cls in (OneWeight, Second, Turning):
        register(cls)
"""


def notes(text: str, word: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if word in line]


def test_a_model_that_was_not_touched_is_flagged_everywhere(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = command("run", "-m", "steady,frozen", *ONCE, "--out", str(out))
    assert told.code == 0
    records = records_of(out)
    assert {name: record.digests["unchanged"] for (name, _), record in records.items()} == {
        "retrain": False,
        "steady": False,
        "frozen": True,
    }
    frozen = records["frozen", 0]
    assert frozen.digests["before"] == frozen.digests["after"] != {}
    assert frozen.digests["relative_change"] == 0
    assert [note for note in frozen.notes if note.startswith("unchanged")]
    assert notes(told.err, "unchanged") == ["note: unchanged: frozen changed no parameter in 1 of its cells."]
    said = "frozen: unchanged: forgetting changed no parameter in 1 of 1 repetitions."
    assert notes(told.out, "unchanged") == [said]
    for table in ("summary", "utility", "time"):
        assert notes(command("report", str(out), "--table", table).out, "unchanged") == [said]


def test_two_names_of_one_method_are_flagged_whenever_they_ran(command: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    told = command("run", "-m", "steady,twin", *ONCE, "--out", out)
    assert notes(told.err, "same_as") == [
        "note: same_as: twin and steady deployed the same parameters in repetition 0 on toy."
    ]
    said = "twin: same_as steady: both deployed the same parameters in 1 of {} repetitions."
    assert notes(told.out, "same_as") == [said.format(1)]
    # Methods that ran one by one, in repetitions of their own, meet in the report.
    for method, seeds in (("steady", "1"), ("twin", "2"), ("frozen", "1")):
        told = command("run", "-m", method, "-d", "toy", "--epochs", "2", "--seeds", seeds, "--out", out)
        assert notes(told.err, "same_as") == []
    assert notes(command("report", out).out, "same_as") == [said.format(2)]


def test_one_bit_of_one_weight_is_a_change(command: Any, install: Write, tmp_path: Path) -> None:
    install("ub-more", MORE)
    out = tmp_path / "out"
    told = command("run", "-m", "one-weight,second", *ONCE, "--no-reference", "--out", str(out))
    assert told.code == 0
    for record in records_of(out).values():
        assert record.digests["unchanged"] is False
        assert record.digests["members_changed"] == [0]
        assert 0 < record.digests["relative_change"] < 1e-6
    assert "unchanged" not in told.err + told.out
    assert "same_as" not in told.err + told.out


@pytest.mark.slow
def test_two_names_of_one_sharded_method_are_flagged_and_two_methods_are_not(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"out": tmp_path, "epochs": 3, "repetitions": 1}
    records = unlearnbench.run(["sisa[num_shards=3]", "sharded[num_shards=3]"], reference=False, **settings)
    ((notice),) = identical(records)
    assert all(word in notice for word in ("same_as", "sisa", "sharded"))
    assert identical(unlearnbench.run(["sisa[num_shards=4]"], **settings)) == []


@pytest.mark.parametrize("view", ["shard", "full"])
def test_what_is_scored_and_kept_is_what_the_method_holds_after_the_request(
    command: Any, install: Write, tmp_path: Path, view: str
) -> None:
    install("ub-more", MORE)
    kept = ("--save-state", str(tmp_path / "state"), "--no-reference", "--out", str(tmp_path / "out"))
    assert command("run", "-m", "turning", *ONCE, *kept).code == 0
    ((_, record),) = records_of(tmp_path / "out").items()
    (path,) = (tmp_path / "out").rglob(f"{record.key}.npz")
    with np.load(path) as arrays:
        assert set(arrays[f"before/test/{view}"].argmax(axis=1).tolist()) == {0}
        assert set(arrays[f"after/test/{view}"].argmax(axis=1).tolist()) == {1}
    state = unlearnbench.load_state(tmp_path / "state" / f"{record.key}.pt")
    assert state.weights["members/000/weight"].tolist() == [1.0]
    scores = record.metrics["f1_micro"][view]
    # Ten test nodes of three classes: the shares of the classes 0 and 1.
    assert scores["before"] is not None
    assert scores["after"] is not None
    assert 0 < scores["before"] + scores["after"] < 1
