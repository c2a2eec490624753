"""`file:PATH`: a user's own graph, from the command line to the record."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_samples import saved, tables, user_graph
from torch_geometric.data import Data

from unlearnbench.cli import main
from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.records.files import safe_name
from unlearnbench.records.record import read_record
from unlearnbench.registry.brackets import Bracket, parse_bracket, split_names
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.config import RunConfig, make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import Plan, make_plan

ROOT = Path("unused")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


def load(path: Path, **parameters: Any) -> Graph:
    return load_graph(File(File.Params(path=str(path), **parameters)), ROOT)


def three_masks(*columns: tuple[range, range, range], nodes: int = 40) -> dict[str, torch.Tensor]:
    """Masks [n] of one split, or [n, K] of several."""
    found = {}
    for at, part in enumerate(("train", "val", "test")):
        mask = torch.zeros(nodes, len(columns), dtype=torch.bool)
        for column, split in enumerate(columns):
            mask[list(split[at]), column] = True
        found[f"{part}_mask"] = mask[:, 0] if len(columns) == 1 else mask
    return found


ONE = (range(20), range(20, 30), range(30, 40))
OTHER = (range(20, 40), range(10, 20), range(10))


# How a path is written


@pytest.mark.parametrize(
    ("text", "bracket"),
    [
        ("file:g.pt", Bracket("file", {"path": "g.pt"})),
        ("file:/a b/~x%/g-1=2.npz", Bracket("file", {"path": "/a b/~x%/g-1=2.npz"})),
        (r"file:C:\graphs\g.pt", Bracket("file", {"path": r"C:\graphs\g.pt"})),
        ("file:../grüße", Bracket("file", {"path": "../grüße"})),
        ('file:"a,b[1].pt"', Bracket("file", {"path": "a,b[1].pt"})),
        ("file:g.pt[features=degree]", Bracket("file", {"path": "g.pt", "features": "degree"})),
        ("file[path=g.pt]", Bracket("file", {"path": "g.pt"})),
    ],
)
def test_a_path_is_read_as_it_is_written_and_back(text: str, bracket: Bracket) -> None:
    assert parse_bracket(text) == bracket
    assert parse_bracket(str(bracket)) == bracket
    assert split_names([f"digits,{text},cora"]) == ["digits", text, "cora"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file:", "a path"),
        ("file:[split=1]", "a path"),
        ("file:a[path=b]", "two paths"),
        ("file:a,b", "',' or the end"),
    ],
)
def test_what_is_no_path_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_bracket(text)


def test_a_path_is_no_part_of_what_a_graph_is(catalogue: Catalogue) -> None:
    one, other = (resolve(catalogue, "dataset", f"file:/{folder}/my graph.pt[split=1]") for folder in "ab")
    assert one.canonical() == other.canonical()
    assert one.canonical()["name"] == "file:my graph.pt"
    assert one.canonical()["params"] == {"features": "given", "split": 1, "undirected": False}
    assert one.label == "file[path=/a/my graph.pt,split=1]" != other.label
    assert resolve(catalogue, "dataset", one.label) == one
    with pytest.raises(UsageError, match="no path is named"):
        resolve(catalogue, "dataset", "file").build().load(ROOT)


# What is read


def test_every_form_of_a_file_gives_the_same_graph(tmp_path: Path) -> None:
    tensors = user_graph(**three_masks(ONE))
    arrays = {key: value.numpy() for key, value in tensors.items()}
    torch.save(tensors, tmp_path / "a.pt")
    torch.save(Data(**tensors), tmp_path / "b.pt")
    # What PyG keeps of a dataset of one graph.
    torch.save((Data(**tensors).to_dict(), None, Data), tmp_path / "c.pt")
    np.savez(tmp_path / "d.npz", **arrays)
    graphs = [load(tmp_path / name) for name in ("a.pt", "b.pt", "c.pt", "d.npz")]
    assert len({graph.checksum() for graph in graphs}) == 1
    first = graphs[0]
    assert torch.equal(first.x, tensors["x"])
    assert torch.equal(first.edge_index, tensors["edge_index"])
    assert first.split is not None
    assert [ids.tolist() for ids in first.split.parts().values()] == [list(part) for part in ONE]


def test_ids_name_rows_and_edges_name_positions(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1], [1, 2]])
    graph = load(saved(tmp_path / "g.pt", nodes=3, edge_index=edges, ids=torch.tensor([10, 37, 20])), undirected=True)
    assert graph.ids.tolist() == [10, 37, 20]
    pairs = {(int(graph.ids[a]), int(graph.ids[b])) for a, b in graph.edge_index.T}
    assert pairs == {(10, 37), (37, 10), (37, 20), (20, 37)}
    with pytest.raises(DataError, match="ids occur twice"):
        load(saved(tmp_path / "g.pt", nodes=3, edge_index=edges, ids=torch.tensor([10, 10, 20])))
    with pytest.raises(DataError, match="joins 1 and 37, but there are 3") as caught:
        load(saved(tmp_path / "g.pt", nodes=3, edge_index=torch.tensor([[1], [37]])))
    assert "positions" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "has no y"),
        ({"edge_index": None}, "has no edge_index"),
        ({"x": [[1.0]] * 40}, "x is a list"),
        ({"edge_index": torch.tensor([[0.5], [1.0]])}, "not whole"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.int64)}, r"shape \[3, 2\]"),
        ({"ids": torch.arange(40.0)}, "ids are torch.float32"),
        ({"num_classes": 1}, "label 1 with 1 classes"),
        ({"num_classes": "many"}, "not a whole number"),
        ({"train_mask": torch.ones(40, dtype=torch.bool)}, "without test_mask"),
        ({**three_masks(ONE), "val_mask": torch.ones(39)}, r"val_mask has shape \[39\]"),
        ({**three_masks(ONE), "val_mask": torch.full((40,), 2)}, "other values than true and false"),
        ({**three_masks(ONE), "val_mask": torch.ones(40, 2)}, r"numbers of splits: \[1, 2\]"),
        ({**three_masks((range(20), range(20, 30), range(0)))}, "no test nodes"),
        ({**three_masks((range(0), range(20, 30), range(30, 40)))}, "no training nodes"),
        ({**three_masks((range(20), range(19, 30), range(30, 40)))}, "node 19 is both a training and a validation"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load(saved(tmp_path / "mine.pt", **changes))
    assert "mine.pt" in caught.value.message


def test_declared_classes_count_even_if_none_is_seen(tmp_path: Path) -> None:
    assert load(saved(tmp_path / "g.pt", num_classes=5)).num_classes == 5
    assert load(saved(tmp_path / "g.pt", num_classes=torch.tensor(4))).num_classes == 4


def test_what_a_file_holds_besides_is_ignored_and_said(tmp_path: Path) -> None:
    dataset = File(File.Params(path=str(saved(tmp_path / "g.pt", edge_weight=torch.ones(76), num_nodes=40))))
    load_graph(dataset, ROOT)
    assert dataset.notes == ["ignored: edge_weight (weighted=true uses it)."]


@pytest.mark.parametrize("name", ["absent.pt", "g.txt", "folder"])
def test_what_is_no_graph_file_says_what_is(name: str, tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("0 1")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=name) as caught:
        load(tmp_path / name)
    assert "edges.csv" in caught.value.hint


@pytest.mark.parametrize("old_form", [False, True])
def test_a_large_file_is_mapped_and_never_written_to(old_form: bool, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "graph.pt"
    whole = user_graph()
    torch.save(whole, path, _use_new_zipfile_serialization=not old_form)
    content = path.read_bytes()
    read = load(path)
    monkeypatch.setattr("unlearnbench.datasets.own.reading.MAPPED_FROM", 1)
    mapped = load(path)
    assert mapped.checksum() == read.checksum()
    in_maps = str(path) in Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else not old_form
    assert in_maps is not old_form
    # Rows that are picked are copies.
    cut = mapped.induced(mapped.ids[:5])
    cut.x.add_(1)
    assert mapped.checksum() == read.checksum()
    mapped.x.add_(1)
    mapped.edge_index.zero_()
    assert path.read_bytes() == content
    assert load(path).checksum() == read.checksum()


# Tables

FEATURES = "id,a,b\n10,1,0.5\n37,2,\n20,3,1.5\n"
LABELS = "id,class\n20,1\n10,0\n37,\n"
EDGES = "from,to\n10,20\n20,37\n"


def test_tables_become_a_graph_in_the_order_of_the_features(tmp_path: Path) -> None:
    graph = load(tables(tmp_path / "t", FEATURES.replace("37,2,\n", "37,2,-1\n"), LABELS, EDGES))
    assert graph.ids.tolist() == [10, 37, 20]
    assert graph.x.tolist() == [[1, 0.5], [2, -1], [3, 1.5]]
    assert graph.y.tolist() == [0, -1, 1]
    assert graph.edge_index.tolist() == [[0, 2], [2, 1]]
    bare = load(tables(tmp_path / "u", "", LABELS, EDGES), features="degree", undirected=True)
    assert bare.ids.tolist() == [20, 10, 37]
    assert bare.x.tolist() == [[2], [1], [1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": EDGES + "20,99\n"}, r"edges.csv, row 4: node 99 has no row in features.csv"),
        ({"edges": EDGES + "20,x\n"}, r"edges.csv, row 4: 'x' is not the id of a node"),
        ({"edges": EDGES + "\n20,10\n"}, r"edges.csv, row 4: an empty field is not the id"),
        ({"edges": "10,20\n20,37\n"}, r"edges.csv, row 1: '10' is no heading"),
        ({"edges": "from\n10\n"}, "has 1 column, expected 2"),
        ({"edges": "from,to\n10,20,30,4\n"}, "more fields"),
        ({"edges": ""}, r"edges.csv does not exist"),
        ({"labels": LABELS + "5,0\n"}, r"labels.csv, row 5: node 5 has no row in features.csv"),
        ({"labels": LABELS + "10,1\n"}, r"labels.csv, row 5: node 10 stands there twice"),
        ({"labels": "id,class\n10,cat\n"}, r"labels.csv, row 2: 'cat' is not a number"),
        ({"features": FEATURES + "10,1,1\n"}, r"features.csv, row 5: node 10 stands there twice"),
        ({"features": FEATURES + "1.5,1,1\n"}, r"features.csv, row 5: '1.5' is not the id"),
        ({"features": FEATURES.replace("0.5", "red")}, r"features.csv, row 2: 'red' is not a number"),
        ({}, "feature of node 37, column 1, is not finite"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    texts = {"features": FEATURES, "labels": LABELS, "edges": EDGES, **changes}
    with pytest.raises(DataError, match=message):
        load(tables(tmp_path / "t", **texts))


def test_large_ids_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    big = 2**62 + 1
    folder = tables(
        tmp_path / "t", f"id,a\n{big},1\n{big + 1},1\n", f"id,c\n{big},0\n{big + 1},1\n", f"a,b\n{big},{big + 1}\n"
    )
    assert load(folder).ids.tolist() == [big, big + 1]


# Splits and runs


def plan(catalogue: Catalogue, dataset: str, out: Path, **settings: Any) -> Plan:
    values = {"methods": ["retrain"], "datasets": [dataset], "out": out, "epochs": 2, "device": "cpu"}
    return make_plan(make_config({"repetitions": 2, "forget_count": 3, **values, **settings}), catalogue)


def test_the_split_of_a_file_is_used_by_every_repetition(catalogue: Catalogue, tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", **three_masks(ONE))
    made = plan(catalogue, f"file:{path}", tmp_path / "r")
    records = execute(made)
    assert [record.status for record in records] == ["ok", "ok"]
    for record in records:
        assert record.cell["protocol"]["split"] == "own"
        assert record.cell["dataset"]["name"] == "file:g.pt"
        arrays = np.load(next((tmp_path / "r").rglob(f"{record.key}.npz")))
        assert [arrays[part].tolist() for part in ("train", "val", "test")] == [list(part) for part in ONE]
    assert len({record.requests[0]["ids_sha256"] for record in records}) == 2
    assert len({record.cell["repetition"] for record in records}) == 2
    (folder,) = (tmp_path / "r" / "records").glob("*/*")
    assert folder.name == safe_name("file:g.pt")


def test_one_of_several_splits_must_be_chosen(catalogue: Catalogue, tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", **three_masks(ONE, OTHER))
    with pytest.raises(UsageError, match="2 splits and none was chosen") as caught:
        plan(catalogue, f"file:{path}", tmp_path)
    assert "`split` 0 to 1" in caught.value.hint
    splits = {}
    for choice in (0, 1, "folds"):
        made = plan(catalogue, f"file:{path}", tmp_path, split=choice)
        graph = made.graphs[made.cells[0].dataset_label]
        splits[choice] = None if graph.split is None else graph.split.train.tolist()
        expected: Any = [0.7, 0.2, 0.1] if choice == "folds" else "own"
        assert made.cells[0].canonical()["protocol"]["split"] == expected
    assert splits == {0: list(ONE[0]), 1: list(OTHER[0]), "folds": None}
    with pytest.raises(UsageError, match="split 2 does not exist"):
        plan(catalogue, f"file:{path}", tmp_path, split=2)
    inside = plan(catalogue, f"file:{path}[split=1]", tmp_path, split=0)
    assert inside.cells[0].dataset.params.split == 1  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="no masks"):
        plan(catalogue, f"file:{saved(tmp_path / 'h.pt')}", tmp_path, split=0)
    with pytest.raises(UsageError, match="no dataset has several splits"):
        plan(catalogue, "digits", tmp_path, split=0)


def test_a_moved_file_is_the_same_graph_and_another_under_its_name_is_not(catalogue: Catalogue, tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt")
    (tmp_path / "a").mkdir()
    moved = shutil.copy(path, tmp_path / "a" / "g.pt")
    keys = {name: [cell.key for cell in plan(catalogue, f"file:{name}", tmp_path).cells] for name in (path, moved)}
    assert keys[path] == keys[moved]
    both = make_plan(
        make_config({"methods": ["retrain"], "datasets": [f"file:{path}", f"file:{saved(moved, nodes=50)}"],
                     "forget_count": 3, "repetitions": 1, "out": tmp_path, "device": "cpu"}), catalogue
    )  # fmt: skip
    assert len({cell.key for cell in both.cells}) == 2
    assert sorted(graph.num_nodes for graph in both.graphs.values()) == [40, 50]


def test_a_run_file_can_name_a_file_and_its_parameters(catalogue: Catalogue, tmp_path: Path) -> None:
    table = {"name": f"file:{tmp_path / 'g.pt'}", "features": ["given", "degree"]}
    config = RunConfig(datasets=[table])
    specs = [resolve(catalogue, "dataset", bracket) for bracket in config.brackets(config.datasets)]
    assert [spec.params.features for spec in specs] == ["given", "degree"]  # type: ignore[attr-defined]
    assert {spec.params.path for spec in specs} == {str(tmp_path / "g.pt")}  # type: ignore[attr-defined]


def test_presence_says_whether_the_path_exists(tmp_path: Path) -> None:
    assert File().presence(ROOT) == "needs a path: file:PATH"
    there = File(File.Params(path=str(saved(tmp_path / "g.pt"))))
    assert there.presence(ROOT) == f"in {tmp_path / 'g.pt'}"
    assert File(File.Params(path="no/g.pt")).presence(ROOT).startswith("not there")


def test_a_split_stays_with_the_whole_graph(tmp_path: Path) -> None:
    whole = load(saved(tmp_path / "g.pt", **three_masks(ONE)))
    assert whole.to(torch.device("cpu")).split is whole.split is not None
    assert whole.induced(whole.ids[:20]).split is None
    assert whole.without_labels().split is None
    assert whole.checksum() != load(saved(tmp_path / "h.pt")).checksum()
    assert whole.checksum() != load(saved(tmp_path / "h.pt", **three_masks(OTHER))).checksum()
    assert (
        load(saved(tmp_path / "h.pt", **three_masks(ONE)), split="folds").checksum()
        == load(saved(tmp_path / "i.pt")).checksum()
    )


@pytest.mark.usefixtures("same_signals")
@pytest.mark.parametrize(
    ("choice", "said"), [("1", "2 cells"), ("folds", "2 cells"), ("x", "neither a number nor folds")]
)
def test_the_command_line_takes_a_split(
    choice: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "my graph.pt", **three_masks(ONE, OTHER))
    small = ["--forget-count", "2", "--epochs", "2", "--num-shards", "2", "--repetitions", "1", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as caught:
        main(["run", "-m", "sisa", "-d", f"file:{path}", "--split", choice, *small])
    out, err = capsys.readouterr()
    assert said in err
    assert caught.value.code == (2 if choice == "x" else 0)
    assert ("Results: file:my graph.pt" in out) == (choice != "x")
    splits = [read_record(path).cell["protocol"]["split"] for path in tmp_path.glob("records/*/*/*/*.json")]
    assert ("own" in splits) == (choice == "1")
