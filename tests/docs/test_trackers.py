"""The examples for trackers: the code on the page runs, and the tracker has what it was given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT

import unlearnbench

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"^## (?P<tracker>\w+)\n.*?<!-- run -->\n```python\n(?P<text>.*?)^```$", re.M | re.S)
BLOCKS = {match["tracker"]: match["text"] for match in BLOCK.finditer((ROOT / "docs/trackers.md").read_text("utf-8"))}
TAGS = {f"{phase}/{name}" for phase in ("fit/train", "unlearn/retrain") for name in ("loss", "val_f1")}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def example(tracker: str) -> dict[str, Any]:
        names = {"__name__": "page"}
        exec(compile(BLOCKS[tracker], "docs/trackers.md", "exec"), names)
        return names

    return example


# What the trackers themselves warn of is theirs to mend.
@pytest.mark.filterwarnings("default")
def test_mlflow_has_a_run_for_each_cell_with_curves_and_scores(run: Any) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra trackers is not installed")
    run("MLflow")
    runs = mlflow.search_runs(experiment_names=["unlearning"])
    records = unlearnbench.load_records("runs/with-mlflow")
    assert sorted(runs["params.method"]) == sorted(set(records["method"]))
    client = mlflow.tracking.MlflowClient()
    for _, one in runs.iterrows():
        row = records[(records["key"] == one["params.key"]) & (records["view"] == "full")].iloc[0]
        assert one["metrics.f1/full"] == pytest.approx(row["f1_micro"])
        for tag in TAGS:
            history = client.get_metric_history(one["run_id"], tag)
            assert sorted(point.step for point in history) == [1, 2, 3], tag


@pytest.mark.filterwarnings("default")
def test_tensorboard_has_a_curve_for_each_cell_and_phase(run: Any) -> None:
    pytest.importorskip("tensorboard", reason="the extra trackers is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writers = run("TensorBoard")["writers"]
    assert len(writers) == 2
    for cell in writers:
        events = EventAccumulator(str(Path("runs/tensorboard", cell)))
        events.Reload()
        assert set(events.Tags()["scalars"]) >= TAGS
        assert [point.step for point in events.Scalars("fit/train/loss")] == [1, 2, 3]


def test_the_page_has_both() -> None:
    assert set(BLOCKS) == {"MLflow", "TensorBoard"}
