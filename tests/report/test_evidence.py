"""What the scores of a submitted record may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unlearnbench.metrics.scoring import score
from unlearnbench.records.record import Record, read_record
from unlearnbench.report.publish.evidence import score_problem
from unlearnbench.report.publish.submitted import NOTES

COMMITTED = Path(__file__).parents[2] / "results/records"
METRICS = ("f1_micro", "f1_macro")


def record_with(validation: Any) -> Record:
    """Return a record of 10 test nodes, all validation scores alike."""
    record = next(
        one for path in sorted(COMMITTED.rglob("*/digits/sisa/*.json")) if not (one := read_record(path)).audit
    )
    of_view = {"before": 0.8, "after": 0.7}
    views = dict.fromkeys(("shard", "full"), of_view)
    of_val = {view: dict.fromkeys(of_view, validation) for view in views}
    metrics = dict.fromkeys(METRICS, views) | {f"val_{name}": of_val for name in METRICS}
    return record.model_copy(update={"metrics": metrics})


@pytest.mark.parametrize(
    ("validation", "nodes", "problem"),
    [
        (None, 0, ""),
        (0.5, 4, ""),
        (0.5, 0, "val_f1_micro of the view shard before the request is 0.5, not a share: there are no such nodes."),
        (None, 4, "val_f1_micro of the view shard before the request is None, not a share."),
        (0.5, 5, "val_f1_micro of the view shard before the request is 0.5: not of 5 nodes."),
        (1.5, 4, "val_f1_micro of the view shard before the request is 1.5, not a share."),
    ],
)
def test_validation_scores_are_empty_only_without_validation_nodes(
    validation: float | None, nodes: int, problem: str
) -> None:
    assert score_problem(record_with(validation), METRICS, 10, nodes) == problem


def test_the_note_on_missing_validation_nodes_is_a_sentence_of_the_harness() -> None:
    notes = score({}, {"val": ()}, ())[1]  # type: ignore[dict-item]
    assert [note for note in notes if not NOTES.fullmatch(note)] == []
    assert notes
