"""`unlearnbench forget`: a saved model serves a request and certifies it; nothing is lost when it cannot."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command, install
from graph_samples import user_graph
from repository import ROOT

import unlearnbench
from unlearnbench.api.method import data_digest
from unlearnbench.measure.digests import digests
from unlearnbench.records import files

__all__ = ["command", "install"]

IDS = torch.arange(40) * 10
FILES = ("--state", "s.pt", "--data", "g.pt", "--out", "new.pt", "--certificate", "c.json")


def save_service(bracket: str = "sisa[num_shards=2,partitioner=hash]", folder: str = ".") -> tuple[Any, list[int]]:
    """Save a fitted method and its graph in the current folder; return it and its training nodes."""
    tensors = user_graph(ids=IDS)
    task = unlearnbench.task_from_data(tensors, epochs=2)
    method = unlearnbench.method(bracket)
    method.fit(task)
    method.save(Path(folder, "s.pt"))
    torch.save(tensors, Path(folder, "g.pt"))
    return method, task.split.train.tolist()


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


def test_a_request_is_served_and_certified(command: Any) -> None:
    method, train = save_service()
    before = data_digest(method.graph), digests(method.state().weights)
    ended = command("forget", *FILES, "--forget", f"{train[1]},{train[0]}")
    assert ended.code == 0
    assert "forgot 2 nodes" in ended.out
    method.forget(train[:2])
    loaded = unlearnbench.load_state("new.pt")
    assert digests(loaded.weights) == digests(method.state().weights)
    told = json.loads(Path("c.json").read_text())
    assert told["forgotten"]["ids"] == train[:2]
    assert told["claim"] == {"claim": "exact", "reason": ""}
    assert (told["data"]["before"], told["state"]["before"]["digests"]) == before
    assert told["data"]["after"] == data_digest(method.graph)
    assert told["state"]["after"]["digests"] == digests(method.state().weights)
    assert [(check["check"], check["passed"]) for check in told["checks"]] == [("nodes", True), ("restart", True)]
    assert told["requests_served"] == 1


def test_edges_and_methods_that_are_trained_again_say_what_was_not_checked(command: Any) -> None:
    method, _ = save_service("tally")
    one, other = method.graph.induced(method.split.train).pairs()[0].tolist()
    ended = command("forget", *FILES, "--forget", f"{one}-{other}", "--json")
    assert ended.code == 0
    told = json.loads(ended.out)
    assert told == json.loads(Path("c.json").read_text())
    assert told["forgotten"] == {**told["forgotten"], "kind": "edge", "ids": [[one, other]]}
    assert [check["passed"] for check in told["checks"]] == [True, None]


@pytest.mark.slow
def test_features_are_forgotten_and_the_next_request_goes_on_from_there(command: Any) -> None:
    method, train = save_service("sisa[num_shards=2,partitioner=hash]")
    first = ("--forget", f"{train[0]}:0,{train[1]}:2", "--audit", "exactness")
    ended = command("forget", *FILES, *first)
    assert ended.code == 0, ended
    told = json.loads(Path("c.json").read_text())
    assert told["forgotten"] == {**told["forgotten"], "kind": "feature", "ids": [[train[0], 0], [train[1], 2]]}
    assert [(check["check"], check["passed"]) for check in told["checks"]] == [
        ("features", True),
        ("restart", True),
        ("exactness", True),
    ]
    later = ("--state", "new.pt", "--data", "g.pt", "--out", "new.pt", "--certificate", "d.json")
    assert command("forget", *later, "--forget", str(train[2]), "--forget-kind", "feature").code == 0
    method.forget(features=[(train[0], 0), (train[1], 2)])
    method.forget(features=[train[2]])
    assert digests(unlearnbench.load_state("new.pt").weights) == digests(method.state().weights)
    assert "features were forgotten before" in command("forget", *later[:-1], "e.json", "--forget", str(train[3])).err


def test_a_request_that_cannot_be_served_changes_no_file(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    method, train = save_service()
    torch.save(user_graph(ids=IDS + 1), "other.pt")
    Path("there.json").write_text("{}")
    test = int(method.split.test[0])
    node = ("--forget", str(train[0]))
    before = contents()
    wrong: list[tuple[tuple[str, ...], str]] = [
        ((*FILES, "--forget", str(test)), f"Node {test} is not a training node"),
        ((*FILES, "--forget", "7"), "Node 7 is not in the graph"),
        ((*FILES, "--forget", "a"), "--forget 'a' is not a whole number"),
        ((*FILES[:2], "--data", "other.pt", *FILES[4:], *node), "belongs to other data"),
        (("--state", "g.pt", *FILES[2:], *node), "is not a state"),
        ((*FILES[:6], "--certificate", "there.json", *node), "there.json is there already"),
        ((*FILES[:4], "--out", "other.pt", *FILES[6:], *node), "other.pt is there already"),
        ((*FILES[:6], "--certificate", "./new.pt", *node), "have one path"),
        ((*FILES, *node, "--audit", "exactnes"), "Did you mean exactness"),
        ((*FILES, *node, "--forget", "3-4"), "both nodes and pairs"),
    ]
    for arguments, said in wrong:
        ended = command("forget", *arguments)
        assert ended.code == 2, ended
        assert said in ended.err
        assert contents() == before

    # Nor does one that cannot be written down, though the state could be.
    def fail(source: Any, target: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", fail)
        ended = command("forget", *FILES, *node)
    assert ended.code == 1
    assert "No space left" in ended.err
    assert contents() == before


def test_a_state_that_another_request_changed_meanwhile_is_not_written_over(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, train = save_service()
    from unlearnbench.api import certificate

    serve = certificate.serve

    def slowly(*arguments: Any) -> certificate.Served:
        served = serve(*arguments)
        method.forget(train[1:2])
        method.save("s.pt")
        return served

    monkeypatch.setattr(certificate, "serve", slowly)
    in_place = (*FILES[:4], "--out", "s.pt", *FILES[6:], "--forget", str(train[0]))
    ended = command("forget", *in_place)
    assert ended.code == 1
    assert "was changed while the request was served" in ended.err
    assert not Path("c.json").exists()
    monkeypatch.setattr(certificate, "serve", serve)
    assert command("forget", *in_place).code == 0
    assert unlearnbench.load_state("s.pt").forgotten.tolist() == train[:2]


@pytest.mark.slow
def test_the_example_runs_as_its_page_says(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "delete_user_records", folder)
    monkeypatch.chdir(folder)
    (block,) = re.findall(r"^```bash\n(.*?)^```$", Path("README.md").read_text(), re.M | re.S)
    lines = [shlex.split(line) for line in block.splitlines()]
    for number, (program, *arguments) in enumerate(lines):
        if program == "python":
            monkeypatch.setattr("sys.argv", arguments)
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            audit = ["--audit", "exactness"] if number == 3 else []
            assert command(*arguments, *audit).code == 0
    second = json.loads(Path("second.json").read_text())
    assert second["checks"][-1]["check"] == "exactness"
    assert [check["passed"] for check in second["checks"]] == [True, True, True]
    assert second["requests_served"] == 2
    left = torch.load("graph.pt", weights_only=True)["ids"]
    assert not {1000, 1004, 1007} & set(left.tolist())
    assert len(left) == 297


def test_a_claim_that_an_audit_refutes_is_certified_as_refuted(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, train = save_service()
    finding = {"verdict": "refuted (approximate)", "details": {"claim_holds": False}}
    monkeypatch.setattr("unlearnbench.cli.forget._auditor", lambda catalogue: lambda cell, graph: finding)
    ended = command("forget", *FILES, "--forget", str(train[0]), "--audit", "exactness")
    assert ended.code == 1
    assert "failed: exactness: refuted" in ended.out
    told = json.loads(Path("c.json").read_text())
    assert told["checks"][-1] == {**told["checks"][-1], "passed": False, "audit": finding}
