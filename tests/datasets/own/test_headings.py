"""Tables whose columns lie elsewhere than usual: the right ones, and that is said, or an error that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from graph_samples import tables

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph

IDS = list(range(100, 160))
FEATURES = pd.DataFrame({"id": IDS, "f0": range(60), "f1": 1.5})
LABELS = pd.DataFrame({"id": IDS, "label": [number % 3 for number in IDS]})
EDGES = pd.DataFrame({"source": IDS[:-1], "target": IDS[1:]})
PLAIN_EDGES = EDGES.rename(columns={"source": "a", "target": "b"})


def written(frame: pd.DataFrame, **how: Any) -> str:
    return frame.to_csv(**{"index": False, **how})


def load(folder: Path, **changes: str) -> tuple[Graph, list[str]]:
    texts = {"features": written(FEATURES), "labels": written(LABELS), "edges": written(EDGES), **changes}
    dataset = File(File.Params(path=str(tables(folder / "t", **texts))))
    return load_graph(dataset, folder), dataset.notes


def check(graph: Graph) -> None:
    assert graph.ids.tolist() == IDS
    assert graph.x.tolist() == [[number, 1.5] for number in range(60)]
    assert graph.y.tolist() == LABELS["label"].tolist()
    assert graph.ids[graph.edge_index].T.tolist() == EDGES.to_numpy().tolist()
    assert graph.num_classes == 3


def test_the_usual_headings_need_no_word(tmp_path: Path) -> None:
    graph, notes = load(tmp_path)
    check(graph)
    assert notes == []


def test_row_numbers_that_pandas_writes_are_no_ids_and_that_is_said(tmp_path: Path) -> None:
    how = {"index": True}
    texts = {"features": FEATURES, "labels": LABELS, "edges": EDGES}
    graph, notes = load(tmp_path, **{name: written(frame, **how) for name, frame in texts.items()})
    check(graph)
    for name in ("features", "labels", "edges"):
        assert f"{name}.csv: ignored: column 1, which has no heading." in notes
    # Read and written once more.
    again = {name: written(frame.reset_index(names="Unnamed: 0"), **how) for name, frame in texts.items()}
    graph, notes = load(tmp_path, **again)
    check(graph)
    assert "edges.csv: ignored: column 1, which has no heading, column 2, which has no heading." in notes


@pytest.mark.parametrize("heading", ["index", "Unnamed: 0", "", "level_0", "Unnamed: 0.1"])
def test_row_numbers_under_any_heading_are_no_feature(heading: str, tmp_path: Path) -> None:
    text = written(FEATURES.reset_index(names="numbers"))
    graph, notes = load(tmp_path, features=text.replace("numbers", heading, 1))
    check(graph)
    assert "features.csv: ignored: " in notes[1]


@pytest.mark.parametrize(
    ("table", "text", "said"),
    [
        ("edges", written(EDGES[["target", "source"]]), "the source of an edge is 'source'"),
        ("edges", written(PLAIN_EDGES), "the source of an edge is 'a'"),
        ("edges", written(EDGES.rename(columns={"target": "b"})), "the target of an edge is 'b'"),
        ("edges", written(EDGES.assign(weight=2)), "edges.csv: ignored: weight (weighted=true uses it)."),
        ("edges", written(EDGES.assign(Id=7)[["Id", "source", "target"]]), "edges.csv: ignored: Id."),
        ("labels", written(LABELS[["label", "id"]]), "the node's id is 'id', the label is 'label'"),
        ("labels", written(LABELS.rename(columns={"label": "topic"})), "the label is 'topic'"),
        ("labels", written(LABELS.assign(year=1, split="train")), "labels.csv: ignored: year, split."),
        ("features", written(FEATURES[["f0", "f1", "id"]]), "features.csv: the node's id is 'id'."),
        ("features", written(FEATURES.rename(columns={"id": "paper"})), "features.csv: the node's id is 'paper'."),
    ],
)
def test_headings_decide_and_what_they_leave_open_is_said(table: str, text: str, said: str, tmp_path: Path) -> None:
    graph, notes = load(tmp_path, **{table: text})
    check(graph)
    assert said in "\n".join(notes)


@pytest.mark.parametrize(
    "heading", ["Source,Target", "src,dst", "from,to", "u,v", "FromNodeId,ToNodeId", "node1,node2"]
)
def test_known_pairs_of_headings_are_read_in_either_order(heading: str, tmp_path: Path) -> None:
    first, _, second = heading.partition(",")
    renamed = EDGES.rename(columns={"source": first, "target": second})
    check(load(tmp_path, edges=written(renamed))[0])
    check(load(tmp_path, edges=written(renamed[[second, first]]))[0])


def test_features_of_one_name_are_kept_and_named(tmp_path: Path) -> None:
    graph, notes = load(tmp_path, features=written(FEATURES).replace("f1", "f0", 1))
    check(graph)
    assert notes == ["features.csv: several features are called 'f0'."]


def test_a_comma_at_the_end_of_each_line_makes_no_column(tmp_path: Path) -> None:
    texts = {"features": FEATURES, "labels": LABELS, "edges": EDGES}
    graph, notes = load(tmp_path, **{name: written(one).replace("\n", ",\n") for name, one in texts.items()})
    check(graph)
    assert notes == []


@pytest.mark.parametrize(
    ("table", "text", "message"),
    [
        ("edges", written(PLAIN_EDGES, index=True), "without a heading, 'a', 'b'"),
        ("edges", written(PLAIN_EDGES.assign(c=1)), "'a', 'b', 'c'"),
        ("edges", written(EDGES.rename(columns={"source": "id"})), "'id', 'target'"),
        ("edges", written(EDGES.assign(dst=1)), "each of 'target', 'dst' could be the target of an edge"),
        ("edges", written(EDGES).replace("source", "target", 1), "each of 'target', 'target' could be"),
        ("labels", written(LABELS.set_index("id")["label"].rename_axis(None), index=True), "heading, 'label'"),
        ("labels", written(LABELS.rename(columns={"label": "a"}).assign(b=1)), "'id', 'a', 'b'; which is the label"),
        ("labels", written(LABELS.assign(y=1)), "each of 'label', 'y' could be the label"),
        ("labels", written(LABELS.rename(columns={"label": "split"})), "'id', 'split'; which is the label"),
        ("labels", written(LABELS.assign(node_id=1)), "each of 'id', 'node_id' could be the node's id"),
        ("features", written(FEATURES.set_index("id").rename_axis(None), index=True), "without a heading, 'f0', 'f1'"),
        ("features", written(FEATURES.assign(Class=1)), "'Class' among the features"),
        ("features", written(FEATURES.assign(train_mask=1)), "'train_mask' among the features"),
        ("features", written(FEATURES).replace("f1", "", 1), "one without a heading among the features"),
        ("features", written(FEATURES.drop(columns="id").assign(label=1)[["label", "f0"]]), "which is the node's id"),
    ],
)  # fmt: skip
def test_headings_that_leave_a_choice_are_named(table: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path, **{table: text})
    assert f"{table}.csv" in caught.value.message
    assert caught.value.hint


def test_other_tables_of_the_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "splits.csv").write_text("id,split\n100,train\n")
    assert load(tmp_path)[1] == ["ignored: splits.csv."]


def test_ids_taken_for_labels_are_noticed(tmp_path: Path) -> None:
    text = written(LABELS.assign(label=LABELS["id"]))
    assert load(tmp_path, labels=text)[1] == [
        "160 classes, 60 of them with a node, for 60 nodes with a label: are these classes?"
    ]


# What need not be refused


def test_comments_blank_last_lines_and_ids_with_a_point_are_read(tmp_path: Path) -> None:
    graph, notes = load(
        tmp_path,
        features="# mine\n" + written(FEATURES) + "\n\n",
        labels=written(LABELS.astype(float)).replace("\n105.", "\n# five\n105."),
        edges="  # all\r\n" + written(EDGES).replace("\n", "\r\n") + "# end\r\n  \r\n",
    )
    check(graph)
    assert notes == []
    graph, _ = load(tmp_path, labels=written(LABELS).replace(",", ".000,"))
    assert torch.equal(graph.ids, torch.tensor(IDS))


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("# a\n# b\nid,label\n# c\n100,0\n101.5,1\n", 6),
        ('id,label,text\n100,0,"one\n# no comment\n"\n101.5,1,two\n', 3),
        ("id,label\n100,0\n\n101,1\n", 3),
    ],
)
def test_a_comment_moves_no_row_and_a_blank_line_between_rows_is_no_end(text: str, row: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"labels\.csv, row {row}: .* is not the id"):
        load(tmp_path, labels=text)
