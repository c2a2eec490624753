"""A method goes on after a restart as if it had never been stopped, on its own data alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import user_graph
from torch_geometric.data import Data

import unlearnbench
from unlearnbench import PostHoc, Request, Task, UsageError
from unlearnbench.api.method import Method
from unlearnbench.api.task_from_data import OwnTask
from unlearnbench.gnn import Networks
from unlearnbench.measure.digests import digests

IDS = torch.arange(40) * 10
RESUMED = [
    "retrain",
    "sisa[num_shards=3,slices=3]",
    "sharded[num_shards=3,partitioner=hash,aggregator=contrastive[sample=20]]",
    "guide[num_shards=3]",
    "gif[iterations=2]",
    "gnndelete[epochs=3]",
    "smoothed[method=sisa[num_shards=3]]",
]
REPLAYED = ["cgu", "scalegun", "graph-editor", "tally"]
NO_GNN = {"cgu", "scalegun", "graph-editor"}


def data(**changes: Any) -> Data:
    return Data(**user_graph(**{"ids": IDS, **changes}))


def without(graph: Data, nodes: list[int]) -> Data:
    kept = graph.subgraph(~torch.isin(graph.ids, torch.tensor(nodes)))
    assert isinstance(kept, Data)
    return kept


def fitted(bracket: str, **masks: Any) -> tuple[Method, OwnTask]:
    model = "sgc" if bracket in NO_GNN else "gcn"
    task = unlearnbench.task_from_data(data(**masks), model=model, epochs=3, seed=3)
    method = unlearnbench.method(bracket)
    method.fit(task)
    return method, task


def assert_same(one: Method, other: Method) -> None:
    first, second = one.state(), other.state()
    assert digests(first.weights) == digests(second.weights)
    assert first.cell == second.cell
    assert first.key == second.key
    assert torch.equal(first.forgotten, second.forgotten)
    assert (first.partition is None) == (second.partition is None)
    if first.partition is not None and second.partition is not None:
        assert torch.equal(first.partition, second.partition)
    for view in ("shard", "full"):
        assert torch.equal(one.predict(view=view), other.predict(view=view))


@pytest.mark.parametrize("bracket", [*RESUMED, *REPLAYED])
def test_requests_go_on_with_the_same_bits(bracket: str, tmp_path: Path) -> None:
    method, task = fitted(bracket)
    first, second, third = ([int(node)] for node in task.split.train[:3])
    method.save(tmp_path / "0.pt")
    assert_same(unlearnbench.load_method(tmp_path / "0.pt", data()), method)
    method.forget(first)
    method.forget(second)
    method.save(tmp_path / "2.pt")
    retained = without(data(), [*first, *second])
    method.forget(third)
    # The graph as it was at first, or without what was forgotten.
    again = unlearnbench.load_method(str(tmp_path / "2.pt"), data())
    again.forget(third)
    assert_same(again, method)
    if bracket in REPLAYED:
        with pytest.raises(UsageError, match="only with the graph as it was at first"):
            unlearnbench.load_method(tmp_path / "2.pt", retained)
    else:
        later = unlearnbench.load_method(tmp_path / "2.pt", retained)
        later.forget(third)
        assert_same(later, method)
        # A restart after a restart.
        later.save(tmp_path / "3.pt")
        assert_same(unlearnbench.load_method(tmp_path / "3.pt", without(retained, third)), method)


def test_a_network_that_the_file_does_not_belong_to_is_named(tmp_path: Path) -> None:
    from torch_geometric.nn import GCN

    method = unlearnbench.method("retrain")
    method.fit(unlearnbench.task_from_data(data(), model=GCN(4, 4, 2, 2), epochs=1))
    method.save(tmp_path / "net.pt")
    other = GCN(4, 6, 2, 2)
    with pytest.raises(UsageError, match=r"(?s)cell.model.source is.*Name the network, model=net, with the layers"):
        unlearnbench.load_method(tmp_path / "net.pt", data(), model=other)


def test_edges_own_masks_and_files_go_on_too(tmp_path: Path) -> None:
    part = torch.arange(40) % 4
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    # Between nodes of one class that are two apart; with these masks neighbours are trained on.
    edges = torch.stack([torch.arange(39), torch.arange(1, 40)])
    masks["edge_index"] = torch.cat([edges, edges.flip(0)], dim=1)
    method, task = fitted("sisa[num_shards=2]", **masks)
    one, other = task.graph.pairs()[:2].tolist()
    method.forget(edges=[one])
    method.save(tmp_path / "s.pt")
    method.forget(edges=[other])
    torch.save(data(**masks).to_dict(), tmp_path / "g.pt")
    again = unlearnbench.load_method(tmp_path / "s.pt", tmp_path / "g.pt")
    again.forget(edges=[other])
    assert_same(again, method)


@pytest.mark.parametrize("name", ["sisa[num_shards=2]", "tally"])
def test_features_go_on_too(name: str, tmp_path: Path) -> None:
    method, task = fitted(name)
    one, other, last = task.split.train[:3].tolist()
    method.forget(features=[one])
    method.forget(features=[(other, 1)])
    method.save(tmp_path / "s.pt")
    method.forget(features=[last])
    again = unlearnbench.load_method(tmp_path / "s.pt", data())
    again.forget(features=[last])
    assert_same(again, method)


def test_other_data_and_other_files_are_refused(tmp_path: Path) -> None:
    method, task = fitted("sisa[num_shards=3]")
    node = int(task.split.train[0])
    method.forget([node])
    method.save(tmp_path / "s.pt")
    for other in (data(x=torch.rand(40, 4)), data(ids=IDS + 1), without(data(), [node, 0 if node else 10])):
        with pytest.raises(UsageError, match="belongs to other data"):
            unlearnbench.load_method(tmp_path / "s.pt", other)
    plain = torch.load(tmp_path / "s.pt", weights_only=True)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"service": None}, "Method.save"),
        ({"service": {**plain["service"], "memory": {"a": 1}}}, "plain tensors by name"),
        ({"service": {"data": "a"}}, "how to go on"),
        ({"weights": {name: value + 1 for name, value in plain["weights"].items()}}, "does not go on as it was"),
        ({"cell": {**plain["cell"], "method": {**plain["cell"]["method"], "version": 9}}}, "cell.method.version is 9"),
    ]
    for change, said in changes[:3] + changes[4:]:
        torch.save({**plain, **change}, tmp_path / "other.pt")
        with pytest.raises(UsageError) as caught:
            unlearnbench.load_method(tmp_path / "other.pt", data())
        assert said in str(caught.value)


def test_what_a_method_hides_is_served_again_or_refused(tmp_path: Path) -> None:
    """A class that keeps more than `resume` knows of is not taken for whole."""

    class Counting(PostHoc):
        name = "counting"

        def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
            self.served = getattr(self, "served", 0) + 1
            with torch.no_grad():
                network.parameters()[0].add_(self.served)
            return network

    method, task = fitted_class(Counting)
    first, second = ([int(node)] for node in task.split.train[:2])
    method.forget(first)
    method.save(tmp_path / "s.pt")
    method.forget(second)
    again = unlearnbench.load_method(tmp_path / "s.pt", data())
    again.forget(second)
    assert_same(again, method)
    with pytest.raises(UsageError, match="only with the graph as it was at first"):
        unlearnbench.load_method(tmp_path / "s.pt", without(data(), first))


def fitted_class(cls: type[PostHoc]) -> tuple[Method, OwnTask]:
    task = unlearnbench.task_from_data(data(), epochs=3, seed=3)
    method = unlearnbench.method(cls)
    method.fit(task)
    return method, task
