"""What PyG makes of a `Data` on the way to a file: caches, transforms, other classes, other places of edges."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.transforms
from graph_samples import user_graph
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.graph_store import EdgeLayout

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.datasets.own.reading import read_torch_file, tensors_by_name
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph

# What transforms need to be made.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Compose": {"transforms": [torch_geometric.transforms.ToUndirected(), torch_geometric.transforms.AddSelfLoops()]},
    "ComposeFilters": {"filters": [lambda data: True]},
    "ToDevice": {"device": "cpu"},
    "SVDFeatureReduction": {"out_channels": 2},
    "RemoveTrainingClasses": {"classes": [0]},
    "RandomNodeSplit": {"num_val": 5, "num_test": 5},
    "Pad": {"max_num_nodes": 50},
    "OneHotDegree": {"max_degree": 5},
    "NodePropertySplit": {"property_name": "density", "ratios": [0.3, 0.1, 0.1, 0.2, 0.3]},
    "RadiusGraph": {"r": 0.5},
    "SIGN": {"K": 1},
    "RootedEgoNets": {"num_hops": 1},
    "RootedRWSubgraph": {"walk_length": 2},
    "AddLaplacianEigenvectorPE": {"k": 2},
    "AddRandomWalkPE": {"walk_length": 2},
    "FeaturePropagation": {"missing_mask": torch.zeros(40, 4, dtype=torch.bool)},
    "RandomJitter": {"translate": 0.1},
    "RandomFlip": {"axis": 0},
    "LinearTransformation": {"matrix": torch.eye(3)},
    "RandomScale": {"scales": (0.9, 1.1)},
    "RandomRotate": {"degrees": 10},
    "RandomShear": {"shear": 0.1},
    "FixedPoints": {"num": 10},
    "GridSampling": {"size": 0.5},
}
# Of images, meshes, several kinds of nodes or lists of graphs, or made of a network: there is no plain Data to save.
OTHERS = {
    *("BaseTransform", "AddGPSE", "SamplePoints", "RandomLinkSplit", "ToSLIC", "FaceToEdge", "GenerateMeshNormals"),
    *("AddMetaPaths", "AddRandomMetaPaths"),
}
ACCESSORS: list[Callable[[Data], Any]] = [
    Data.node_attrs,
    Data.edge_attrs,
    Data.connected_components,
    Data.get_all_tensor_attrs,
    Data.get_all_edge_attrs,
    Data.sort,
    lambda data: data.subgraph(torch.arange(10)),
    lambda data: data.is_node_attr("x") or data.is_edge_attr("edge_index"),
    lambda data: data.to_heterogeneous(),
    lambda data: data.num_nodes,
]


def load(path: Path) -> Graph:
    return load_graph(File(File.Params(path=str(path))), path)


def data(**changes: Any) -> Any:
    return Data(**user_graph(**changes))


def check_saved(saved: Any, path: Path) -> None:
    torch.save(saved, path)
    read = read_torch_file(path)
    for name, value in tensors_by_name(saved, "memory").items():
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            assert torch.equal(read[name], value), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(torch_geometric.transforms.__all__) - OTHERS))
def test_data_can_be_saved_after_any_transform(name: str, tmp_path: Path) -> None:
    start = data(
        pos=torch.rand(40, 3), normal=torch.rand(40, 3), norm=torch.rand(40, 3), train_mask=torch.arange(40) < 20
    )
    if name == "Polar":
        start.pos = start.pos[:, :2]
    try:
        made = getattr(torch_geometric.transforms, name)(**ARGUMENTS.get(name, {}))(start)
    except (ImportError, AttributeError) as error:
        if isinstance(error, AttributeError) and "'pyg' object" not in str(error):
            raise
        pytest.skip(f"needs another package: {error}")
    if type(made) is not Data:
        pytest.skip(f"gives a {type(made).__name__}")
    check_saved(made, tmp_path / "g.pt")


@pytest.mark.parametrize("accessor", ACCESSORS)
def test_data_can_be_saved_after_any_accessor(accessor: Callable[[Data], Any], tmp_path: Path) -> None:
    used = data()
    for one in (accessor(used), used):
        if type(one) is Data:
            check_saved(one, tmp_path / "g.pt")
            load(tmp_path / "g.pt")
    wanted = load(tmp_path / "g.pt").checksum()
    torch.save(user_graph(), tmp_path / "h.pt")
    assert load(tmp_path / "h.pt").checksum() == wanted


def test_data_with_edges_of_a_class_of_their_own_is_read(tmp_path: Path) -> None:
    torch.save(user_graph(), tmp_path / "plain.pt")
    torch.save(data(edge_index=EdgeIndex(user_graph()["edge_index"]).sort_by("row").values), tmp_path / "own.pt")
    found = load(tmp_path / "own.pt")
    assert type(found.edge_index) is torch.Tensor
    assert sorted(found.edge_index.T.tolist()) == sorted(load(tmp_path / "plain.pt").edge_index.T.tolist())


def test_data_of_pyg_1_is_read(tmp_path: Path) -> None:
    old = Data.__new__(Data)
    empty = dict.fromkeys(("edge_attr", "pos", "normal", "face"))
    vars(old).update({**user_graph(), **empty, "__num_nodes__": 40})
    torch.save(old, tmp_path / "g.pt")
    torch.save(user_graph(), tmp_path / "h.pt")
    dataset = File(File.Params(path=str(tmp_path / "g.pt")))
    assert load_graph(dataset, tmp_path).checksum() == load(tmp_path / "h.pt").checksum()
    assert dataset.notes == []


def test_a_broken_storage_is_named(tmp_path: Path) -> None:
    broken = data()
    vars(broken)["_store"] = 3
    torch.save(broken, tmp_path / "g.pt")
    with pytest.raises(DataError, match=r"g\.pt holds a broken Data"):
        load(tmp_path / "g.pt")


def hetero() -> HeteroData:
    made = HeteroData()
    made["author"].x = torch.rand(3, 2)
    return made


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (lambda: torch_geometric.transforms.ToSparseTensor()(data()), "has no edge_index", "adj_t"),
        (lambda: torch_geometric.transforms.ToDense()(data()), "has no edge_index", "dense_to_sparse"),
        (lambda: data(edge_index=torch.eye(40, dtype=torch.int64)), r"shape \[40, 40\]", "dense_to_sparse"),
        (lambda: data(edge_index=torch.eye(40).to_sparse()), r"shape \[40, 40\]", "dense_to_sparse"),
        (lambda: data(edge_index=user_graph()["edge_index"].T), r"shape \[76, 2\]", r"edge_index\.t\(\)"),
        (lambda: data(y=torch.eye(2)[user_graph()["y"]]), "one-hot", r"y\.argmax\(dim=1\)"),
        (lambda: data(y=torch.ones(40, 2)), "multi-label", "one class"),
        (hetero, "HeteroData", "to_homogeneous"),
        (lambda: Batch.from_data_list([data()]), "batch", r"batch\[0\]"),
        (lambda: {**user_graph(), "x": user_graph()["x"].numpy()}, "numpy", "from_numpy"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_what_stands_in_another_place_is_named_with_what_to_do(
    make: Callable[[], Any], message: str, hint: str, tmp_path: Path
) -> None:
    torch.save(make(), tmp_path / "g.pt")
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path / "g.pt")
    assert "g.pt" in caught.value.message
    assert re.search(hint, caught.value.hint)


def test_the_hint_about_edges_elsewhere_is_right() -> None:
    plain = data()
    row, column = plain.edge_index
    plain.edge_index = torch.stack([row, column])[:, row < column]
    sparse = torch_geometric.transforms.ToSparseTensor()(plain.clone())
    edges = torch_geometric.utils.to_edge_index(sparse.adj_t)[0].flip(0)
    assert sorted(edges.T.tolist()) == sorted(plain.edge_index.T.tolist())


def test_only_our_classes_are_allowed_in_files_and_the_process_keeps_its_own(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    torch.save(hetero(), tmp_path / "g.pt")
    with torch.serialization.safe_globals([HeteroData]), pytest.raises(DataError, match="HeteroData; it was not run"):
        load(tmp_path / "g.pt")
    assert set(torch.serialization.get_safe_globals()) >= before - {HeteroData}


class _Attribute:
    """A value that is pickled as a call of `getattr`."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __reduce__(self) -> Any:
        return getattr, self.arguments


def test_values_of_enumerations_are_read_as_older_pythons_write_them(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2, 1), "layout": _Attribute(EdgeLayout, "COO")}, tmp_path / "g.pt")
    assert read_torch_file(tmp_path / "g.pt")["layout"] is EdgeLayout.COO


@pytest.mark.parametrize("arguments", [(EdgeLayout, "__class__"), (Data, "size"), (set, "pop")])
def test_no_other_attribute_is_got(tmp_path: Path, arguments: Any) -> None:
    torch.save({"x": _Attribute(*arguments)}, tmp_path / "g.pt")
    with pytest.raises(DataError, match=r"cannot be read safely|is damaged"):
        read_torch_file(tmp_path / "g.pt")
