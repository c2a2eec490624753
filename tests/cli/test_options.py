"""One meaning an option: what contradicts, is out of range, unknown or reaches nothing is refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import SHARDS, command, install, records_of

from unlearnbench.cli.running import _amounts
from unlearnbench.errors import UsageError
from unlearnbench.protocol import Forget, Protocol
from unlearnbench.protocol.poison import Poison
from unlearnbench.running.config import make_config
from unlearnbench.testing import toy_graph

__all__ = ["command", "install"]

NUMBERS = ("repetitions", "forget_ratio", "forget_count", "num_shards", "epochs", "threads")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-m", "sisa[num_shrads=3]"), ("sisa has no parameter 'num_shrads'", "num_shards")),
        (("-m", "sisa[num_shards=0]"), ("sisa[num_shards=0]",)),
        (("-m", "sisa", "--num-shards", "0"), ("num_shards = 0",)),
        (("-m", "sisa", "--epochs", "0"), ("epochs = 0",)),
        (("-m", "sisa", "--epochs", "many"), ("'many'", "--epochs")),
        (("-m", "sisa", "--seeds", "3,4,3"), ("3 is named twice",)),
        (("-m", "sisa", "--seeds", "3,x"), ("--seeds 3,x", "'x'")),
        (("-m", "sisa", "--seeds", "1", "--repetitions", "2"), ("--repetitions", "--seeds")),
        (("-m", "sisa", "--repetitions", "0"), ("repetitions = 0",)),
        (("-m", "sisa", "--forget-ratio", "5"), ("--forget-ratio 5", "0.05")),
        (("-m", "sisa", "--forget-ratio", "0"), ("--forget-ratio 0",)),
        (("-m", "sisa", "--forget-ratio", "-0.1"), ("--forget-ratio -0.1",)),
        (("-m", "sisa", "--forget-ratio", "1"), ("--forget-ratio 1",)),
        (("-m", "sisa", "--forget-ratio", "nan"), ("--forget-ratio nan",)),
        (("-m", "sisa", "--forget-ratio", "0.004"), ("rounds to none",)),
        (("-m", "sisa", "--forget-count", "0"), ("--forget-count 0",)),
        (("-m", "sisa", "--forget-count", "-3"), ("--forget-count -3",)),
        (("-m", "sisa", "--forget-count", "70"), ("70 nodes", "70 training nodes")),
        (("-m", "sisa", "--forget-count", "2", "--forget-ratio", "0.1"), ("one way", "ratio, count")),
        (("-m", "sisa", "--forget", "5000", "--forget-count", "1"), ("count, ids",)),
        (("-m", "sisa", "--forget", "5000,5000"), ("5000", "twice")),
        (("-m", "sisa", "--forget", "12"), ("--forget 12", "not a training node")),
        (("-m", "sisa", "--forget-ratio", "5%"), ("'5%'", "--forget-ratio")),
        (("-m", "sisa", "--forget-count", "0.1"), ("'0.1'", "--forget-count")),
        (("-m", "sisa", "--forget", "5000", "--forget-ratio", "0.1"), ("ratio, ids",)),
        (("-m", "sisa", "--seeds", "-1"), ("repetitions are numbers from 0",)),
        (("-m", "sisa", "--epochs", "3", "--set", "training.epochs=4"), ("given twice", "--epochs")),
        (("-m", "sisa", "--train", "sometimes"), ("--train", "one-by-one")),
        (("-m", "steady", "--num-shards", "3"), ("--num-shards 3 reaches no method",)),
        (("-m", "sisa[num_shards=4]", "--num-shards", "3"), ("--num-shards 3 reaches no method", "bracket wins")),
        (("-m", "sisa[num_shards=3,num_shards=4]"), ("num_shards", "twice")),
        (("-m", "sisa[num_shards=3.5]"), ("sisa[num_shards=3.5]",)),
        (("-m", "graphrevoker[resample=maybe]"), ("resample=maybe",)),
        (("-m", "sisa", "--no-reference", "false"), ("false",)),
        (("-m", "sisa", "--no-reference=false"), ("--no-reference",)),
        (("-m", "sisa", "--set", "training.lr"), ("--set training.lr", "KEY=VALUE")),
        (("-m", "sisa", "--set", "training.lrr=1"), ("--set training.lrr", "Did you mean training.lr?")),
        (("-m", "sisa", "--set", "training.lr=fast"), ("--set training.lr=fast", "not a number")),
        (("-m", "sisa", "--set", "training.lr=-1"), ("--set training.lr=-1", "out of range")),
        (("-m", "sisa", "--set", "training.lr=nan"), ("--set training.lr=nan", "out of range")),
        (("-m", "sisa", "--set", "seed=1.5"), ("--set seed=1.5",)),
        (("-m", "sisa", "--set", "seed=1", "--set", "seed=2"), ("--set seed is given twice",)),
        (("-m", "sisa", "--set", "model.hiddn=16"), ("--set model.hiddn", "hidden")),
        (("-m", "sisa", "--threads", "0"), ("threads = 0",)),
        (("-m", "sisa", "--overwrite", "sometimes"), ("--overwrite", "only-missing")),
        (("-m", "sisa", "--reptitions", "2"), ("--reptitions", "--repetitions")),
        (("-m", "sisa", "stray"), ("stray",)),
    ],
)  # fmt: skip
def test_wrong_usage_is_told_before_any_work(
    command: Any, tmp_path: Path, arguments: tuple[str, ...], said: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    small = [] if {"--seeds", "--repetitions"} & {*arguments} else ["--repetitions", "1"]
    epochs = [] if "--epochs" in arguments else ["--epochs", "1"]
    # What is tried comes last, where a stray word is still seen as one.
    told = command("run", *small, *epochs, "-d", "toy", "--out", str(out), *arguments)
    assert told.code == 2
    assert all(part in told.err for part in said), told.err
    assert told.out == ""
    assert "Traceback" not in told.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"seeds": [1], "repetitions": 3}, "both given"),
        ({"epochs": 3, "set": {"training.epochs": 4}}, "given twice"),
        ({"forget_ratio": 0.1, "forget_count": 3}, "in one way"),
        ({"set": {"training.epochs": 2.5}}, "not a whole number"),
        ({"set": {"training.epochs": 0}}, "out of range"),
        ({"set": {"training.lr": float("inf")}}, "out of range"),
        ({"set": {"training.lr": True}}, "not a whole number|not a number"),
        *(({key: True}, f"{key} = True: .*true is no number") for key in NUMBERS),
        *(({key: [3, False]}, f"{key} = .*false is no number") for key in ("seeds", "forget")),
        ({"reference": "perhaps"}, "reference = 'perhaps'"),
        ({"reptitions": 2}, "unknown key 'reptitions'"),
        ({"methods": ["sisa"], "forget_ratio": 5}, "not between 0 and 1"),
    ],
)
def test_settings_that_contradict_or_make_no_sense_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_config({"methods": ["sisa"], **values}).training_settings()


def test_an_amount_to_forget_is_given_once_and_within_range() -> None:
    for ratio in (5, 0, -0.1, 3.0, 1.0, float("nan")):
        with pytest.raises(UsageError, match="not between 0 and 1"):
            Forget(ratio)
    with pytest.raises(UsageError, match="one way"):
        Forget(0.1, 3)
    with pytest.raises(UsageError, match="positive"):
        Forget(None, 0)
    with pytest.raises(UsageError, match="7 twice"):
        Forget(None, None, (7, 7))


def test_a_text_that_says_false_is_false(command: Any, tmp_path: Path) -> None:
    assert make_config({"reference": "false"}).reference is False
    listed = ("-d", "toy", "--repetitions", "1", "--no-reference", "--out", str(tmp_path / "out"), "--dry-run")
    default = command("run", "-m", "graphrevoker", *listed).out.split()[0]
    for text in ("false", "False", "0"):
        changed = command("run", "-m", f"graphrevoker[resample={text}]", *listed)
        assert "graphrevoker[resample=false]" in changed.out
        assert changed.out.split()[0] != default


def test_amounts_of_an_experiment_stand_with_what_they_are_of() -> None:
    labels = [Poison(nodes=12, manipulation="label", known=known) for known in (0.25, 0.5)]
    edges = Poison(edges=20, manipulation="edge", known=0.5)
    poisoned = [Protocol("poison", poison=poison) for poison in (*labels, edges)]
    graph = toy_graph()
    text = "3, 6 of 12 nodes manipulated and forgotten; 10 of 20 edges manipulated and forgotten"
    assert _amounts(poisoned, graph) == text
    assert _amounts([Protocol(forget=Forget(ratio=None, count=2))], graph) == f"2 of {graph.num_nodes} nodes forgotten"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_the_settings_came_to_is_printed(command: Any, tmp_path: Path, dry: tuple[str, ...]) -> None:
    arguments = ("-m", "sisa,steady", "-d", "toy", "--seeds", "4,2", "--set", "training.lr=0.02", "--set", "seed=7")
    told = command("run", *arguments, *SHARDS, "--epochs", "2", "--out", str(tmp_path / "out"), *dry)
    assert told.code == 0
    lines = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in told.err.splitlines() if " " in line}
    assert lines["datasets"] == "toy (1 of 100 nodes forgotten)"
    assert lines["models"] == "gcn"
    assert lines["methods"] == "retrain, sisa[num_shards=3], steady"
    assert lines["repetitions"] == "2, numbered 4, 2; seed 7"
    assert lines["training"] == "2 epochs, lr 0.02, weight decay 0.0005, lockstep"
    assert lines["machine"].endswith(", threads 1")
    records = records_of(tmp_path / "out")
    assert len(records) == (0 if dry else 6)
    assert {record.cell["training"]["lr"] for record in records.values()} == (set() if dry else {0.02})
