"""Methods used by hand on one's own graph: the bits of a run, and errors that say what is wrong."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from graph_samples import user_graph
from torch_geometric.data import Data, HeteroData

import unlearnbench
from unlearnbench.api.method import Method
from unlearnbench.api.task_from_data import OwnTask
from unlearnbench.errors import DataError, UsageError
from unlearnbench.measure.digests import digests
from unlearnbench.running.progress import is_notebook

IDS = torch.arange(40) * 10
TINY: dict[str, Any] = {"epochs": 2, "seed": 3}


def data(**changes: Any) -> Data:
    return Data(**user_graph(**{"ids": IDS, **changes}))


def fitted(bracket: str = "sisa[num_shards=3]", **settings: Any) -> tuple[Method, OwnTask]:
    task = unlearnbench.task_from_data(data(), **{**TINY, **settings})
    method = unlearnbench.method(bracket)
    method.fit(task)
    return method, task


def masks(nodes: int = 40) -> dict[str, torch.Tensor]:
    part = torch.arange(nodes) % 4
    return {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}


@pytest.mark.filterwarnings("ignore:task_from_data")
@pytest.mark.parametrize(
    ("bracket", "more"),
    [
        ("graphrevoker[num_shards=3,partitioner.epochs=2,aggregator.epochs=1]", {}),
        ("gif[iterations=2]", masks()),
    ],
)
def test_what_is_deployed_is_what_a_run_deploys(bracket: str, more: dict[str, Any], tmp_path: Path) -> None:
    """Bit for bit: parameters, partition, and what is said of the test nodes, before and after, in both views."""
    task = unlearnbench.task_from_data(data(**more), **TINY)
    method = unlearnbench.method(bracket)
    method.fit(task)
    before = {view: method.predict(view=view) for view in ("shard", "full")}
    forgotten = task.split.train[:2].tolist()
    method.forget(forgotten[::-1])
    torch.save(user_graph(ids=IDS, **more), tmp_path / "g.pt")
    (record,) = unlearnbench.run(
        [bracket], datasets=[f"file:{tmp_path / 'g.pt'}"], repetitions=1, epochs=2, set={"seed": 3}, device="cpu",
        forget=forgotten, reference=False, out=tmp_path / "out", save_state=tmp_path / "states",
    )  # fmt: skip
    assert record.status == "ok"
    state = method.state()
    assert digests(state.weights) == record.digests["after"] != record.digests["before"]
    other = unlearnbench.load_state(tmp_path / "states" / f"{record.key}.pt")
    assert torch.equal(state.forgotten, other.forgotten)
    assert state.cell["method"] == other.cell["method"]
    assert (state.partition is None) == (other.partition is None)
    if state.partition is not None and other.partition is not None:
        assert torch.equal(state.partition, other.partition)
    (path,) = (tmp_path / "out").rglob("*.npz")
    with np.load(path) as kept:
        assert np.array_equal(kept["test"], task.split.test.numpy())
        for view in ("shard", "full"):
            for moment, answer in (("before", before[view]), ("after", method.predict(view=view))):
                assert np.array_equal(torch.from_numpy(kept[f"{moment}/test/{view}"]).exp().numpy(), answer.numpy())
    method.save(tmp_path / "mine.pt")
    assert digests(unlearnbench.load_state(tmp_path / "mine.pt").weights) == record.digests["after"]


def test_probabilities_come_in_the_order_asked_for_and_sum_to_one() -> None:
    method, task = fitted()
    asked = [*task.split.test.tolist(), int(task.split.train[0])]
    answer = method.predict(asked)
    assert answer.shape == (len(asked), 2)
    assert torch.allclose(answer.sum(dim=1), torch.ones(len(asked)))
    assert torch.equal(method.predict([*asked[::-1], asked[0]]), torch.cat([answer.flip(0), answer[:1]]))


def test_requests_follow_each_other_and_forgotten_nodes_are_gone() -> None:
    method, task = fitted()
    first, second = (int(node) for node in task.split.train[:2])
    method.forget([first])
    method.forget(torch.tensor([second]))
    state = method.state()
    assert state.forgotten.tolist() == [first, second]
    assert state.cell["protocol"]["forget"]["requests"] == [[first], [second]]
    assert state.partition is not None
    assert not {first, second} & set(state.partition[:, 0].tolist())
    for call in (method.predict, method.forget):
        with pytest.raises(UsageError, match=f"Node {first} was forgotten"):
            call([first])
    # Fitted again, it is as new.
    method.fit(task)
    assert method.state().forgotten.tolist() == []
    assert method.predict([first]).shape == (1, 2)


def test_edges_are_forgotten_and_all_nodes_stay() -> None:
    method, task = fitted()
    pair = task.graph.pairs()[0].tolist()
    method.forget(edges=[pair[::-1]])
    assert method.state().forgotten.tolist() == [pair]
    assert method.predict(pair).shape == (2, 2)
    with pytest.raises(UsageError, match="edges were forgotten before"):
        method.forget(pair[:1])
    with pytest.raises(UsageError, match="no edge between training nodes"):
        method.forget(edges=[pair])


def test_a_method_is_given_the_training_nodes_and_nothing_else() -> None:
    _, task = fitted()
    bare = task.bare()
    assert type(bare) is unlearnbench.Task
    assert torch.equal(bare.graph.ids, task.split.train)
    assert not hasattr(bare, "whole")


def test_what_becomes_of_the_data_later_changes_nothing() -> None:
    mine = data()
    task = unlearnbench.task_from_data(mine, **TINY)
    checksum = task.full_graph.checksum()
    mine.x += 1
    mine.y.zero_()
    assert task.full_graph.checksum() == checksum


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": None}, "has no y"),
        ({"edge_index": torch.tensor([[0, 40], [1, 2]])}, "edge 1 joins 40 and 2, but there are 40 nodes"),
        ({"x": torch.full((40, 2), math.nan)}, "feature of node 0, column 0, is not finite"),
        ({"x": None}, "there are no features"),
        ({"ids": torch.zeros(40, dtype=torch.int64)}, "node ids occur twice"),
        ({"y": torch.zeros(40, 3)}, "multi-label"),
        ({"train_mask": torch.ones(40, dtype=torch.bool)}, "without test_mask"),
        ({"y": "labels"}, "y is a str, not a tensor"),
    ],
)
def test_bad_data_is_the_error_of_a_file(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said) as caught:
        unlearnbench.task_from_data(data(**changes))
    torch.save(user_graph(**{"ids": IDS, **changes}), tmp_path / "data")
    (tmp_path / "data").rename(tmp_path / "data.pt")
    with pytest.raises(DataError, match=said) as other:
        unlearnbench.run(["sisa"], datasets=[f"file:{tmp_path / 'data.pt'}"], out=tmp_path / "out")
    assert caught.value.hint == other.value.hint


def test_other_values_are_refused_by_name() -> None:
    with pytest.raises(DataError, match="The data holds a HeteroData"):
        unlearnbench.task_from_data(HeteroData())
    with pytest.raises(UsageError, match="Dataset data: there are 9 labelled nodes"):
        unlearnbench.task_from_data(user_graph(9))
    with pytest.raises(UsageError, match="Unknown model 'gnc'"):
        unlearnbench.task_from_data(data(), model="gnc")
    with pytest.raises(UsageError, match=r"unlearnbench.task_from_data: epochs = 0"):
        unlearnbench.task_from_data(data(), epochs=0)
    with pytest.raises(UsageError, match="split 0 was asked for, but there are no masks"):
        unlearnbench.task_from_data(data(), split=0)
    with pytest.raises(UsageError, match="no such device"):
        unlearnbench.task_from_data(data(), device="cuda:99")


def test_calls_that_cannot_be_served_say_why() -> None:
    method = unlearnbench.method("sisa[num_shards=3]")
    with pytest.raises(UsageError, match="holds no model"):
        method.predict()
    task = unlearnbench.task_from_data(data(), **TINY)
    with pytest.raises(UsageError, match="without the full graph"):
        method.fit(task.bare())
    with pytest.raises(UsageError, match="99 shards for the 28 training nodes of data"):
        unlearnbench.method("sisa[num_shards=99]").fit(task)
    with pytest.raises(UsageError, match="cgu cannot be used with the model gcn"):
        unlearnbench.method("cgu").fit(task)
    method.fit(task)
    test, train = int(task.split.test[0]), task.split.train.tolist()
    for nodes, said in (
        ([test], f"Node {test} is not a training node"),
        ([7], "Node 7 is not in the graph"),
        ([], "No node is named"),
        ([0.5], "does not list ids"),
        (task.full_graph.ids < 9, "A mask does not name nodes"),
        ([True], "A mask does not name nodes"),
        ([train[0], train[0]], "twice"),
        (train, "leaves none"),
    ):
        with pytest.raises(UsageError, match=said):
            method.forget(nodes)
    with pytest.raises(UsageError, match="edges or features"):
        method.forget()
    with pytest.raises(UsageError, match="no view 'targets'"):
        method.predict(view="targets")
    assert method.state().forgotten.tolist() == []


def test_a_request_that_failed_in_the_middle_leaves_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    method, task = fitted()
    node = task.split.train[:1]
    monkeypatch.setattr(method.unlearner, "unlearn", lambda request, retained: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        method.forget(node)
    with pytest.raises(UsageError, match="again if fit"):
        method.predict()
    method.fit(task)
    method.forget(node)


# Progress


def test_progress_is_shown_when_asked_for_and_not_otherwise(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    torch.save(user_graph(), tmp_path / "g.pt")
    settings: dict[str, Any] = {"datasets": [f"file:{tmp_path / 'g.pt'}"], "epochs": 1, "repetitions": 1}
    settings |= {"reference": False, "forget_count": 1}
    unlearnbench.run(["retrain"], out=tmp_path / "a", **settings)
    assert "1/1" not in capfd.readouterr().err
    unlearnbench.run(["retrain"], out=tmp_path / "b", progress=True, **settings)
    shown = capfd.readouterr()
    assert "1/1" in shown.err
    assert "retrain repetition 0" in shown.err
    assert shown.out == ""


def test_a_notebook_is_known_by_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_notebook()
    shells: dict[str, Any] = {"terminal": SimpleNamespace(), "notebook": SimpleNamespace(kernel=1)}
    for name, shell in shells.items():
        module = ModuleType("IPython")
        module.get_ipython = lambda shell=shell: shell  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert is_notebook() == (name == "notebook")
