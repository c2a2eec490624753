"""Members of large cells are kept group by group: a killed run goes on, and nothing stale is ever taken."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ONCE, Process, command, install, records_of

from unlearnbench.protocol import Request
from unlearnbench.records.unfinished import is_finished, unfinished_folder
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running import checkpoints
from unlearnbench.running.checkpoints import CellCheckpoints
from unlearnbench.task import Task, Training
from unlearnbench.task.task import ShardGroup, TrainedGroup
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import Sharded, group_training

__all__ = ["command", "install"]

# Every member is a group of its own; after so many groups of a phase it says so, and waits to be killed.
STOPS = """
import os
import time
from pathlib import Path

from unlearnbench.running import checkpoints
from unlearnbench import hookimpl
from unlearnbench.unlearning import group_training

group_training.MOST_TRAINED = 1
keep = checkpoints.PhaseCheckpoints.keep


def stop(self, task, group, trained):
    keep(self, task, group, trained)
    phase, count, told = os.environ.get("TOY_STOP", "never,0,").split(",")
    if phase == self._phase and len(list(self._folder.glob(f"{phase}-*.pt"))) == int(count):
        Path(told).touch()
        while True:
            time.sleep(0.01)


checkpoints.PhaseCheckpoints.keep = stop


@hookimpl
def register_metrics(register):
    pass
"""
METHOD = "sisa[num_shards=4,slices=2]"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a kill as POSIX has it")
def test_a_killed_run_goes_on_from_its_last_group_and_deploys_the_same_bits(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("run", "-m", METHOD, *ONCE, "--forget-count", "6", "--no-reference")

    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)

    def start(out: str, **environment: str) -> Process:
        return Process(place, *arguments, "--out", out, more={"ub-stops": STOPS}, **environment)

    kept_at = place / "killed" / "unfinished"
    kept = []
    for phase, count in (("fit", 2), ("unlearn", 1)):
        told = tmp_path / phase
        process = start("killed", TOY_STOP=f"{phase},{count},{told}")
        process.wait_for(told)
        process.send(signal.SIGKILL)
        process.end()
        kept.append(sorted(path.name.partition("-")[0] for path in kept_at.glob("*/*/*.pt")))
        assert records_of(place / "killed") == {}
    assert kept == [["fit"] * 2, ["fit"] * 4 + ["unlearn"]]
    told_of = command("store", "clean", "killed", "--older-than", "0")
    assert (told_of.code, told_of.out) == (0, "")
    assert "members of 1 unfinished cells are kept" in told_of.err
    done = start("killed").end()
    assert done.code == 0, done.err
    assert not kept_at.exists()
    with monkeypatch.context() as patch:
        patch.setattr(group_training, "MOST_TRAINED", 1)
        assert command(*arguments, "--out", "whole").code == 0
    assert not (place / "whole" / "unfinished").exists()
    ((_, one),), ((_, other),) = records_of(place / "killed").items(), records_of(place / "whole").items()
    for field in ("key", "digests", "counts", "metrics", "partition", "requests"):
        assert getattr(one, field) == getattr(other, field), field
    assert len(other.digests["members_changed"]) > 1
    assert one.provenance["backend"] == "resumed"
    assert one.provenance["exclusive"] is False
    assert "5 groups of members were trained by an earlier run" in " ".join(one.notes)
    assert other.provenance["backend"] == "serial"
    assert "earlier run" not in " ".join(other.notes)
    # Its time is that of a part of the work: no table shows it.
    assert "1 records give no times" in command("report", "killed", "--table", "time").out
    # And it is computed again where honest times are asked for.
    assert "  run   toy gcn" in command(*arguments, "--out", "killed", "--overwrite", "busy", "--dry-run").out


def cell_checkpoints(folder: Path, **facts: Any) -> CellCheckpoints:
    return CellCheckpoints(folder / "unfinished", {"cell": "aa", **facts})


def trained_with(task: Task, of: CellCheckpoints, request: Request | None = None) -> Sharded:
    method: Sharded = resolve(load_catalogue(), "unlearner", METHOD).build()
    method.fit(replace(task, checkpoints=of.of("fit")))
    if request is not None:
        method.unlearn(request, replace(task.without(request), checkpoints=of.of("unlearn")))
    return method


def assert_same(one: Sharded, other: Sharded) -> None:
    first, second = one.state(), other.state()
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.fixture
def each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_training, "MOST_TRAINED", 1)


def edge_request(task: Task) -> Request:
    """An edge inside each shard: no node goes, so that shards keep their ids."""
    partition = trained_with(task, CellCheckpoints()).kept()["partition"]
    pairs = task.graph.pairs()
    shards = dict(partition.tolist())
    inside = [pair for pair in pairs.tolist() if shards[pair[0]] == shards[pair[1]]]
    return Request(torch.tensor(inside[:6]), "edge")


@pytest.mark.usefixtures("each_alone")
@pytest.mark.parametrize("kind", ["node", "edge"])
def test_what_was_trained_before_a_request_is_never_taken_after_it(tmp_path: Path, kind: str) -> None:
    task = toy_task()
    request = Request(task.graph.ids[[1, 5, 22, 40]]) if kind == "node" else edge_request(task)
    plain = trained_with(task, CellCheckpoints(), request)
    first = cell_checkpoints(tmp_path)
    assert_same(trained_with(task, first, request), plain)
    assert first.taken == 0
    kept = len(list((tmp_path / "unfinished").glob("*.pt")))
    again = cell_checkpoints(tmp_path)
    assert_same(trained_with(task, again, request), plain)
    assert again.taken == kept > 4
    # Were the phases one, the graphs still differ; were the graphs one, the phases do.
    wrong = cell_checkpoints(tmp_path)
    method = trained_with(task, wrong)
    method.unlearn(request, replace(task.without(request), checkpoints=wrong.of("fit")))
    assert wrong.taken == 4
    assert_same(method, plain)
    empty = cell_checkpoints(tmp_path)
    method = resolve(load_catalogue(), "unlearner", METHOD).build()
    method.fit(replace(task, checkpoints=empty.of("unlearn")))
    assert empty.taken == 0


CHANGES: dict[str, Callable[[Task], Task]] = {
    "seed": lambda task: replace(task, seed=task.seed + 1),
    "training": lambda task: replace(task, training=Training(epochs=5, lr=0.02)),
    "model": lambda task: replace(task, model=resolve(load_catalogue(), "model", "gcn[hidden=32]")),
    "a feature": lambda task: replace(task, graph=replace(task.graph, x=task.graph.x + 1e-3)),
    "a label": lambda task: replace(task, graph=replace(task.graph, y=task.graph.y.roll(1))),
    "an edge": lambda task: replace(task, graph=task.graph.with_edges(task.graph.edge_index[:, 2:])),
    "ids": lambda task: replace(task, graph=toy_graph(first_id=7)),
}


@pytest.mark.usefixtures("each_alone")
@pytest.mark.parametrize("what", CHANGES)
def test_a_group_is_taken_only_if_all_it_depends_on_is_the_same(tmp_path: Path, what: str) -> None:
    task = toy_task()
    trained_with(task, cell_checkpoints(tmp_path))
    of = cell_checkpoints(tmp_path)
    changed = CHANGES[what](task)
    assert_same(trained_with(changed, of), trained_with(changed, CellCheckpoints()))
    assert of.taken == 0


@pytest.mark.usefixtures("each_alone")
def test_other_versions_and_cells_take_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = toy_task()
    trained_with(task, cell_checkpoints(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "source_digest", lambda: "other source")
        trained_with(task, of := cell_checkpoints(tmp_path))
        assert of.taken == 0
    for facts in ({"cell": "bb"}, {"packages": {"torch": "0"}}, {"threads": 2}):
        of = cell_checkpoints(tmp_path, **facts)
        trained_with(task, of)
        assert of.taken == 0


def test_groups_with_other_nodes_or_other_checkpoints_are_others(tmp_path: Path) -> None:
    task, checkpoints = toy_task(), cell_checkpoints(tmp_path).of("fit")
    ids = task.graph.ids
    group = ShardGroup((0,), (ids[:5],), {"0/0/w": torch.ones(2)})
    trained = TrainedGroup({"0/w": torch.ones(3)}, {"0/0/w": torch.zeros(2)}, {"steps": 3})
    assert checkpoints.begin(task, [group, group])
    checkpoints.keep(task, group, trained)
    found = checkpoints.find(task, group)
    assert found is not None
    assert torch.equal(found.members["0/w"], torch.ones(3))
    assert torch.equal(found.extra_state["0/0/w"], torch.zeros(2))
    assert found.counts == {"steps": 3}
    for other in (
        replace(group, ids=(ids[1:6],)),
        replace(group, ids=(ids[:5].flip(0),)),
        replace(group, shards=(1,)),
        replace(group, extra_state={}),
        replace(group, extra_state={"0/0/w": torch.zeros(2)}),
        replace(group, extra_state={"0/1/w": torch.ones(2)}),
    ):
        assert checkpoints.find(task, other) is None


@pytest.mark.usefixtures("each_alone")
@pytest.mark.parametrize("damage", ["cut", "flipped", "another", "a pickle"])
def test_a_damaged_group_is_told_and_trained_again(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    task = toy_task()
    plain = trained_with(task, cell_checkpoints(tmp_path))
    path, other, *_ = sorted((tmp_path / "unfinished").glob("*.pt"))
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "flipped":
        first = next(iter(torch.load(path, weights_only=True)["members"].values()))
        at = content.index(first.numpy().tobytes())
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif damage == "another":
        path.write_bytes(other.read_bytes())
    else:
        torch.save({"unlearnbench_group": os.system}, path)
    of = cell_checkpoints(tmp_path)
    assert_same(trained_with(task, of), plain)
    assert of.taken == 3
    assert f"note: {path} is damaged" in capsys.readouterr().err
    assert trained_with(task, again := cell_checkpoints(tmp_path))
    assert again.taken == 4


@pytest.mark.usefixtures("each_alone")
def test_a_method_that_does_not_tell_what_it_holds_is_trained_as_ever(tmp_path: Path) -> None:
    class Secretive(Sharded):
        def train_members(self, task: Task, graphs: Any, shards: Any) -> Any:
            return super().train_members(task, graphs, shards)

    class Open(Secretive):
        def extra_state(self, shards: Any) -> dict[str, torch.Tensor]:
            return {}

    params = resolve(load_catalogue(), "unlearner", "sharded[num_shards=4]").params
    for kind, kept in ((Secretive, 0), (Open, 4)):
        method = kind(params)
        method.fit(replace(toy_task(), checkpoints=cell_checkpoints(tmp_path).of("fit")))
        assert len(list((tmp_path / "unfinished").glob("*.pt"))) == kept


def test_a_small_cell_touches_no_disk(tmp_path: Path, each_alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    task = toy_task()
    monkeypatch.setattr(group_training, "MOST_TRAINED", 2**28)
    trained_with(task, cell_checkpoints(tmp_path), Request(task.graph.ids[[1, 5, 22, 40]]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("each_alone")
def test_a_disk_that_takes_no_group_costs_no_more_than_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "unfinished").write_text("a file")
    task = toy_task()
    assert_same(trained_with(task, cell_checkpoints(tmp_path)), trained_with(task, CellCheckpoints()))
    assert "cannot be written" in capsys.readouterr().err


def test_store_clean_removes_groups_of_finished_cells_and_others_if_asked(command: Any, tmp_path: Path) -> None:
    assert command("run", "-m", "steady", *ONCE, "--no-reference", "--out", "out").code == 0
    out = tmp_path / "out"
    (record,) = records_of(out).values()
    finished, going = (unfinished_folder(out, record.machine, key) for key in (record.key, "ab" * 8))
    for folder in (finished, going):
        folder.mkdir(parents=True)
        (folder / "fit-1.pt").write_bytes(b"x")
    assert is_finished(finished, out)
    assert not is_finished(going, out)
    assert command("store", "clean", "out").out == ""
    told = command("store", "clean", "out", "--older-than", "0")
    assert told.out.splitlines() == [str(finished.relative_to(tmp_path))]
    assert "members of 1 unfinished cells are kept in out/unfinished" in told.err
    told = command("store", "clean", "out", "--older-than", "0", "--unfinished")
    assert told.out.splitlines() == [str(going.relative_to(tmp_path))]
    assert not (out / "unfinished").exists()
    assert records_of(out).keys() == {("steady", 0)}
