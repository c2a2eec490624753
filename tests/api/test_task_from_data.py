"""What `task_from_data` ignores or assumes is a warning, as a run prints it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import user_graph
from torch_geometric.data import Data
from torch_geometric.nn.models import GAT, GCN

import unlearnbench

EDGES = user_graph()["edge_index"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_weight": torch.ones(EDGES.shape[1])}, r"ignored: edge_weight \(weighted=True uses it\)\. A dictionary"),
        ({"edge_attr": torch.ones(EDGES.shape[1], 2)}, r"ignored: edge_attr\."),
        (
            {"edge_index": torch.cat([EDGES, EDGES[:, :2]], dim=1)},
            "2 edges repeat others and count again; undirected=True",
        ),
        ({"edge_index": EDGES[:, EDGES[0] < EDGES[1]]}, "used as directed; undirected=True adds it"),
        ({"y": user_graph()["y"].float()}, "labels are float32"),
        ({"train_mask": torch.arange(40) < 20, "test_mask": torch.arange(40) >= 20}, "no validation nodes"),
    ],
)
def test_what_is_ignored_or_assumed_is_a_warning(changes: dict[str, Any], message: str) -> None:
    for data in (Data(**user_graph(**changes)), user_graph(**changes)):
        with pytest.warns(UserWarning, match=f"^task_from_data: .*{message}") as caught:
            unlearnbench.task_from_data(data, epochs=1)
        assert [each.filename for each in caught] == [__file__]
        text = str(caught[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # As the warning says.
            assert 'warnings.filterwarnings("ignore", "task_from_data")' in text
            warnings.filterwarnings("ignore", "task_from_data")
            unlearnbench.task_from_data(data, epochs=1)


def test_usual_data_and_data_made_undirected_need_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unlearnbench.task_from_data(Data(**user_graph(), num_nodes=40), epochs=1)
        unlearnbench.task_from_data(user_graph(edge_index=EDGES[:, EDGES[0] < EDGES[1]]), undirected=True, epochs=1)


def test_a_task_is_described_in_a_line_and_takes_a_device_of_torch() -> None:
    task = unlearnbench.task_from_data(user_graph(), epochs=1, device=torch.device("cpu"))
    train, features = len(task.split.train), task.graph.num_features
    assert (
        repr(task) == f"OwnTask({train} of 40 nodes train, {features} features, 2 classes, model gcn, inductive, cpu)"
    )
    edges = f"{train} nodes, {task.graph.num_edges} directed edges"
    assert repr(task.graph) == f"Graph({edges}, {features} features, 2 classes)"


def test_weights_are_used_where_that_is_asked_for(tmp_path: Path) -> None:
    weights = 1 + EDGES.sum(dim=0) / 8
    data = Data(**user_graph(edge_weight=weights))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task = unlearnbench.task_from_data(data, epochs=1, weighted=True)
        assert torch.equal(task.full_graph.edge_weight, weights)
        method = unlearnbench.method("retrain")
        method.fit(task)
        method.save(tmp_path / "state.pt")
        again = unlearnbench.load_method(tmp_path / "state.pt", data)
        assert torch.equal(again.predict(), method.predict())
        # PyG's networks take weights, and those that only seem to say so.
        unlearnbench.task_from_data(data, model=GCN(4, 8, 2, out_channels=2), weighted=True)
    with pytest.raises(unlearnbench.UsageError, match="takes no edge weights, and the data has some"):
        unlearnbench.task_from_data(data, model=GAT(4, 8, 2, out_channels=2), weighted=True)
    with pytest.raises(unlearnbench.UsageError, match="The model gat takes no edge weights"):
        unlearnbench.task_from_data(data, model="gat", weighted=True)
    with pytest.raises(unlearnbench.UsageError, match=r"tally\[hops=1\] takes no edge weights"):
        unlearnbench.method("tally[hops=1]").fit(task)
    other = Data(**user_graph(edge_weight=2 * weights))
    with pytest.raises(unlearnbench.UsageError, match="belongs to other data"):
        unlearnbench.load_method(tmp_path / "state.pt", other)


def test_a_network_of_the_users_own_gets_the_weights() -> None:
    states = []
    for weights in (1 + EDGES.sum(dim=0) / 8, torch.ones(EDGES.shape[1])):
        data = Data(**user_graph(edge_weight=weights))
        task = unlearnbench.task_from_data(data, model=GCN(4, 8, 2, out_channels=2), epochs=2, weighted=True)
        method = unlearnbench.method("retrain")
        method.fit(task)
        states.append(method.predict())
    assert not torch.allclose(*states)
