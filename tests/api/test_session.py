"""Classes and graphs of a notebook are taken as they are, and never for those of an installed version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import user_graph
from torch import Tensor
from torch_geometric.data import Data

import unlearnbench
from unlearnbench import Partitioner, PostHoc, Request, Task, UnlearnbenchError, UsageError
from unlearnbench.gnn import GCN, Networks
from unlearnbench.measure.digests import digests
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report.publish.submission import submit

FACTOR = 0.5
QUICK: dict[str, Any] = {"epochs": 2, "repetitions": 1, "forget_count": 2, "reference": False, "device": "cpu"}


def shrunk(parameter: Tensor) -> Tensor:
    return parameter.mul_(FACTOR)


class Shrink(PostHoc):
    name = "shrink"

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        with torch.no_grad():
            for parameter in network.parameters():
                shrunk(parameter)
        return network


class Turns(Partitioner):
    name = "turns"

    def partition(self, task: Task, num_shards: int) -> Tensor:
        return torch.arange(task.graph.num_nodes) % num_shards


class Wider(GCN):
    name = "wider"


def test_classes_and_data_are_run_as_they_are(tmp_path: Path) -> None:
    unlearnbench.register(Turns)
    data = Data(**user_graph())
    records = unlearnbench.run(
        [Shrink, "sisa[partitioner=turns]"], datasets=[data], models=[Wider], num_shards=3, out=tmp_path, **QUICK
    )
    assert [(record.label, record.status) for record in records] == [
        ("shrink", "ok"), ("sisa[partitioner=turns,num_shards=3]", "ok"),
    ]  # fmt: skip
    mine, sharded = (record.cell["method"] for record in records)
    for tree in (mine, sharded["params"]["partitioner"], records[0].cell["model"]):
        assert tree["distribution"] == "(session)"
        assert len(tree["source"]) == 32
    assert records[0].cell["dataset"]["name"].startswith("file:data-")
    frame = unlearnbench.load_records(tmp_path)
    assert len(frame) == 4
    # The bits are those of direct use on the same data.
    data.x += 0
    task = unlearnbench.task_from_data(data, model=Wider, epochs=2)
    method = unlearnbench.method(Shrink)
    method.fit(task)
    assert digests(method.state().weights) == records[0].digests["before"]


def test_a_changed_class_is_another_cell_and_the_same_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"datasets": [user_graph()], "out": tmp_path, **QUICK}
    (first,) = unlearnbench.run(Shrink, **settings)
    (again,) = unlearnbench.run([Shrink], **settings)
    assert again == first
    # What the class uses of its own module counts as well.
    monkeypatch.setitem(globals(), "FACTOR", 0.25)
    (other,) = unlearnbench.run([Shrink], **settings)
    assert other.key != first.key


@pytest.mark.parametrize("more", [{"jobs": 2}, {"isolate": True}, {"cell_timeout": 9.0}])
def test_other_processes_are_refused_with_the_remedy(more: dict[str, Any], tmp_path: Path) -> None:
    for methods, datasets, remedy in (
        ([Shrink], ["digits"], "unlearnbench plugin new"),
        (["retrain"], [Data(**user_graph())], "torch.save"),
    ):
        with pytest.raises(UsageError, match="of this session alone") as caught:
            unlearnbench.run(methods, datasets=datasets, out=tmp_path, **QUICK, **more)
        assert remedy in caught.value.hint
    with pytest.raises(UsageError, match="of this session alone"):
        unlearnbench.run([Shrink], backend="dask", scheduler="tcp://127.0.0.1:9", out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_records_of_a_session_are_not_submitted(tmp_path: Path) -> None:
    (record,) = unlearnbench.run([Shrink], datasets=[user_graph()], out=tmp_path / "out", **QUICK)
    done = submit(tmp_path / "out", tmp_path / "laid", load_catalogue(), allow_dirty=True)
    ((path, reason),) = done.left_out
    assert path.stem == record.key
    assert "plugin new" in reason


def test_registered_names_are_known_everywhere_and_the_last_class_counts() -> None:
    unlearnbench.register(user_graph(), name="mine")
    assert unlearnbench.register(Turns) is Turns
    assert "turns" in load_catalogue().names("partitioner")
    assert "shards=3" in repr(unlearnbench.method("sharded[partitioner=turns,num_shards=3]"))

    @unlearnbench.register
    class Other(Turns):
        uses_data = True

    catalogue: Catalogue = load_catalogue()
    assert catalogue.load(catalogue.find("partitioner", "turns")) is Other


def test_installed_classes_keep_their_names_and_nobody_takes_them() -> None:
    sisa = unlearnbench.method("sisa").spec.cls
    assert unlearnbench.method(sisa).spec == unlearnbench.method("sisa").spec

    class Thief(Shrink):
        name = "sisa"

    class Nameless(PostHoc):
        update = Shrink.update

    class Abstract(PostHoc):
        name = "abstract"

    wrong: list[tuple[Any, str]] = [
        (Thief, "'sisa' of the class Thief is taken by unlearnbench"),
        (Nameless, "expected a class with a `name`"),
        (Abstract, "does not define update"),
        (Turns, "is no unlearner"),
        (3, "3 is no unlearner"),
    ]
    for thing, said in wrong:
        with pytest.raises(UnlearnbenchError, match=said):
            unlearnbench.method(thing)
    with pytest.raises(UsageError, match="name for data alone"):
        unlearnbench.register(Turns, name="other")
    with pytest.raises(UsageError, match="cannot be called"):
        unlearnbench.register(user_graph(), name="../mine")


def test_what_a_run_ignores_or_assumes_of_data_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("unlearnbench.api.run.execute", lambda plan, compute=None: [])
    edges = user_graph()["edge_index"][:, :38]
    data = Data(**user_graph(edge_index=edges, edge_weight=torch.ones(38)))
    with pytest.warns(UserWarning, match="^unlearnbench.run: ") as caught:
        unlearnbench.run(["sisa"], datasets=[data], out=tmp_path, **QUICK)
    texts = [str(each.message) for each in caught]
    assert len(texts) == 2
    assert "ignored: edge_weight (weighted=true uses it)" in texts[0]
    assert "undirected=true adds it" in texts[1]
    assert {each.filename for each in caught} == {__file__}
    options = {"name": data, "weighted": True, "undirected": True}
    unlearnbench.run(["sisa"], datasets=[options], out=tmp_path, **QUICK)
