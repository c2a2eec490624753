"""Splits of users' graphs: without validation nodes, and as lists of positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import saved, user_graph

import unlearnbench
from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph
from unlearnbench.records.states import load_state
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import load_records
from unlearnbench.report.tables.index import build_tables
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import make_plan

NODES = 40
TRAIN, TEST = torch.arange(28), torch.arange(28, 40)
REASON = "validation scores are empty"


def mask(positions: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(NODES, dtype=torch.bool)
    made[positions] = True
    return made


NONE = mask(torch.arange(0))
WITHOUT: list[dict[str, torch.Tensor]] = [
    {"train_mask": mask(TRAIN), "test_mask": mask(TEST)},
    {"train_mask": mask(TRAIN), "val_mask": NONE, "test_mask": mask(TEST)},
    {"train_idx": TRAIN, "test_idx": TEST},
    {"train_index": TRAIN.flip(0), "test_mask": mask(TEST)},
    {"train_idx": mask(TRAIN), "test_indices": TEST, "valid_idx": TEST[:0]},
]


def load(folder: Path, **changes: Any) -> tuple[Graph, list[str]]:
    dataset = File(File.Params(path=str(saved(folder / "g.pt", nodes=NODES, **changes))))
    return load_graph(dataset, folder), dataset.notes


@pytest.mark.parametrize("parts", WITHOUT)
def test_a_split_without_validation_nodes_is_used_and_that_is_said(
    parts: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    graph, notes = load(tmp_path, **parts)
    assert graph.split is not None
    assert [ids.tolist() for ids in graph.split.parts().values()] == [TRAIN.tolist(), [], TEST.tolist()]
    assert notes == [f"its split has no validation nodes: {REASON}."]
    with pytest.warns(UserWarning, match=REASON):
        task = unlearnbench.task_from_data(user_graph(NODES, **parts), model="gcn[hidden=4]", epochs=1)
    assert task.split.val.tolist() == []


@pytest.mark.parametrize("name", ["val_idx", "valid_idx", "validation_index", "dev_indices", "valid_mask", "dev_mask"])
def test_parts_are_read_under_their_usual_names(name: str, tmp_path: Path) -> None:
    value = TEST[:5] if "mask" not in name else mask(TEST[:5])
    graph, notes = load(tmp_path, train_idx=TRAIN.to(torch.uint8), test_idx=TEST[5:], **{name: value})
    assert graph.split is not None
    assert graph.split.val.tolist() == TEST[:5].tolist()
    assert notes == []
    # What PyG's IndexToMask leaves: both.
    both, _ = load(tmp_path, train_idx=TRAIN, train_mask=mask(TRAIN), test_idx=TEST[5:], **{name: value})
    assert both.checksum() == graph.checksum()


def test_positions_are_rows_and_not_ids(tmp_path: Path) -> None:
    graph, _ = load(tmp_path, ids=torch.arange(NODES) + 100, train_idx=TRAIN, test_idx=TEST)
    assert graph.split is not None
    assert graph.split.train.tolist() == (TRAIN + 100).tolist()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train_mask": mask(TRAIN)}, "train_mask without test_mask"),
        ({"train_idx": TRAIN}, "train_mask without test_mask"),
        ({"train_idx": TRAIN, "train_mask": mask(TRAIN[1:]), "test_idx": TEST}, "train_mask and train_idx name other"),
        ({"train_idx": TRAIN, "test_idx": TEST + 1}, "test_idx holds 40, but there are 40 nodes"),
        ({"train_idx": TRAIN, "test_idx": -TEST}, "test_idx holds -28"),
        ({"train_idx": TRAIN.float(), "test_idx": TEST}, "train_idx is torch.float32"),
        ({"train_idx": TRAIN[:, None], "test_idx": TEST}, r"train_idx is torch.int64 of shape \[28, 1\]"),
        ({"train_idx": TRAIN, "test_idx": TRAIN}, "both a training and a test node"),
    ],
)
def test_a_split_that_cannot_be_is_refused(parts: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, **parts)


@pytest.mark.slow
def test_a_run_without_validation_nodes_has_every_other_score(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", nodes=NODES, **WITHOUT[0])
    methods = ["retrain", "sisa", "graphrevoker"]
    config = make_config(
        {"methods": methods, "datasets": [f"file:{path}"], "num_shards": 2, "epochs": 2, "forget_count": 2,
         "repetitions": 2, "device": "cpu", "out": tmp_path / "out", "save_state": tmp_path / "states"}
    )  # fmt: skip
    plan = make_plan(config, load_catalogue())
    assert any(REASON in notice for notice in plan.notices)
    records = execute(plan)
    assert [record.status for record in records] == ["ok"] * 6
    for record in records:
        assert record.metrics["val_f1_micro"] == {view: {"before": None, "after": None} for view in ("shard", "full")}
        assert all(value is not None for scores in record.metrics["f1_micro"].values() for value in scores.values())
        assert any(REASON in note for note in record.notes)
        assert load_state(tmp_path / "states" / f"{record.key}.pt").split.val.tolist() == []
    frame = load_records(tmp_path / "out")
    assert frame["val_f1_micro"].isna().all()
    assert frame["f1_micro"].notna().all()
    (table,) = build_tables(frame, "validation")
    assert (table.shown.iloc[:, 2:] == "").all().all()
    assert any(note.startswith("Empty: the split has no validation nodes") for note in table.notes)
