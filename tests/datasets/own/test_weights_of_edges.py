"""Weights of a user's edges: used where that is asked for, else ignored aloud, and what cannot be used is one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_samples import saved, tables, user_graph
from torch_geometric.data import Data

from unlearnbench.api.session import name_of
from unlearnbench.datasets.base import describe, load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.lookup import load_graphs

EDGES = user_graph()["edge_index"]
WEIGHTS = 1 + EDGES.sum(dim=0) / 8
# The edges 0-1, in both directions, and 1-2.
FEW = torch.tensor([[0, 1, 1], [1, 0, 2]])


def load(path: Path, **parameters: Any) -> tuple[Graph, list[str]]:
    dataset = File(File.Params(path=str(path), **parameters))
    return load_graph(dataset, path), dataset.notes


@pytest.mark.parametrize("weights", [WEIGHTS, WEIGHTS.double()[:, None], (8 * WEIGHTS).long()])
def test_weights_of_any_real_type_are_read_from_every_kind_of_file(weights: torch.Tensor, tmp_path: Path) -> None:
    torch.save(Data(**user_graph(edge_weight=weights)), tmp_path / "data.pt")
    arrays = {key: value.numpy() for key, value in user_graph(edge_weight=weights).items()}
    np.savez(tmp_path / "g.npz", **arrays)
    for path in (saved(tmp_path / "g.pt", edge_weight=weights), tmp_path / "data.pt", tmp_path / "g.npz"):
        graph, notes = load(path, weighted=True)
        assert notes == []
        assert torch.equal(graph.edge_weight, weights.float().flatten())
        assert "edges with weights" in describe(graph)
        plain, notes = load(path)
        assert notes == ["ignored: edge_weight (weighted=true uses it)."]
        assert plain.edge_weight is None
        assert plain.checksum() == load(saved(tmp_path / "plain.pt"))[0].checksum() != graph.checksum()


def test_the_column_weight_of_a_table_is_used(tmp_path: Path) -> None:
    nodes, labels = "id,a\n10,1\n20,2\n37,3\n", "id,label\n10,0\n20,1\n37,0\n"
    folder = tables(tmp_path / "t", nodes, labels, "source,Weight,target\n10,0.5,20\n20,2,37\n")
    graph, notes = load(folder, weighted=True, undirected=True)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.edge_weight.tolist() == [0.5, 0.5, 2, 2]
    assert notes == [
        "edges.csv: the source of an edge is 'source', the target of an edge is 'target',"
        " the weight of an edge is 'Weight'."
    ]
    _, notes = load(folder)
    assert "edges.csv: ignored: Weight (weighted=true uses it)." in notes
    bare = tables(tmp_path / "u", nodes, labels, "source,target\n10,20\n")
    with pytest.raises(DataError, match="which is the weight of an edge"):
        load(bare, weighted=True)
    with pytest.raises(DataError, match="the weight of edge 0, from 10 to 20, is nan"):
        load(tables(tmp_path / "v", nodes, labels, "source,target,weight\n10,20,\n20,37,1\n"), weighted=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "there are no edge weights, and weighted=true asks for them"),
        ({"edge_weight": WEIGHTS[:5]}, r"edge_weight has shape \[5\], expected \[76\]"),
        ({"edge_weight": WEIGHTS[:, None].expand(-1, 2)}, r"edge_weight has shape \[76, 2\]"),
        ({"edge_weight": WEIGHTS > 2}, "edge_weight is torch.bool"),
        ({"edge_weight": WEIGHTS + 0j}, "edge_weight is torch.complex64"),
        ({"edge_weight": list(WEIGHTS)}, "edge_weight is a list, not a tensor"),
        ({"edge_weight": WEIGHTS - WEIGHTS.min()}, "the weight of edge 0, from 0 to 2, is 0"),
        ({"edge_weight": torch.where(WEIGHTS > 5, torch.inf, WEIGHTS)}, "is inf"),
        ({"edge_weight": 1e-60 * WEIGHTS.double()}, "is 0"),
        ({"edge_weight": 1 + torch.arange(76)}, "the edge between 0 and 2 has the weight 1 in one direction and 39"),
    ],
)
def test_weights_that_cannot_be_used_are_one_error_that_names_the_first(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / "mine.pt", **changes)
    with pytest.raises(DataError, match=message) as caught:
        load(path, weighted=True)
    assert "mine.pt" in caught.value.message
    assert caught.value.hint
    # They hurt nobody who does not ask for them.
    load(path)


def test_directions_of_a_directed_graph_have_weights_of_their_own(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", edge_index=FEW, edge_weight=torch.tensor([1.0, 2.0, 3.0]))
    assert load(path, weighted=True)[0].edge_weight.tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="the edge between 0 and 1 has the weights 2 and 1"):
        load(path, weighted=True, undirected=True)


def test_parallel_edges_are_compared_by_their_sum(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 0, 1], [1, 1, 0]])
    load(saved(tmp_path / "g.pt", edge_index=edges, edge_weight=torch.tensor([1.0, 2.0, 3.0])), weighted=True)
    with pytest.raises(DataError, match="the weight 3 in one direction and 4 in the other"):
        load(saved(tmp_path / "h.pt", edge_index=edges, edge_weight=torch.tensor([1.0, 2.0, 4.0])), weighted=True)


def test_a_run_says_what_it_ignores_and_assumes_and_the_options_that_change_it(tmp_path: Path) -> None:
    catalogue = load_catalogue()
    path = saved(tmp_path / "g.pt", edge_index=FEW, edge_weight=torch.tensor([1.0, 2.0, 3.0]))
    for options, said in (("", True), ("[undirected=true]", False)):
        spec = resolve(catalogue, "dataset", f"file:{path}{options}")
        _, notices = load_graphs([spec], tmp_path, True)
        assert "file:g.pt: ignored: edge_weight (weighted=true uses it)." in notices
        one_way = "file:g.pt: some edges lack their reverse and are used as directed; undirected=true adds it."
        assert (one_way in notices) is said


def test_data_of_a_session_are_named_by_what_is_used_of_them() -> None:
    one, other = (Data(**user_graph(edge_weight=weights)) for weights in (WEIGHTS, 2 * WEIGHTS))
    assert name_of(one, "dataset") == name_of(other, "dataset")
    tables = [name_of({"name": data, "weighted": True}, "dataset") for data in (one, other)]
    assert tables[0]["name"] != tables[1]["name"]
    graphs = [
        File(File.Params(path=table["name"].removeprefix("file:"), weighted=True)).load(Path()) for table in tables
    ]
    assert torch.equal(2 * graphs[0].edge_weight, graphs[1].edge_weight)


def test_the_option_is_in_the_key_of_a_cell_only_if_it_is_set() -> None:
    catalogue = load_catalogue()
    plain, weighted = (
        resolve(catalogue, "dataset", f"file:g.pt{options}").canonical() for options in ("", "[weighted=true]")
    )
    assert "weighted" not in plain["params"]
    assert weighted["params"] == {**plain["params"], "weighted": True}
