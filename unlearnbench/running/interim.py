"""Scores of the cells that are done, while others still run."""

from __future__ import annotations

from unlearnbench.records.record import Record
from unlearnbench.running.cell import Cell

METRIC, VIEW = "f1_micro", "full"


def score_of(record: Record) -> float | None:
    """Return micro-F1 after the request in view full, if the record has it."""
    value = record.metrics.get(METRIC, {}).get(VIEW, {}).get("after")
    return None if value is None else float(value)


class InterimScores:
    """Mean scores by method, for each dataset and model."""

    def __init__(self) -> None:
        self._scores: dict[tuple[str, str], dict[str, list[float]]] = {}

    def add(self, cell: Cell, record: Record) -> None:
        """Add a cell that is done; one without a score changes nothing."""
        score = score_of(record)
        if score is not None and record.status == "ok":
            by_method = self._scores.setdefault(_place(cell), {})
            by_method.setdefault(cell.method.label, []).append(score)

    def text(self, cell: Cell) -> str:
        """Write the means of the cell's dataset and model, best first; empty where nothing is done there yet."""
        by_method = self._scores.get(_place(cell), {})
        means = {label: sum(values) / len(values) for label, values in by_method.items()}
        ordered = sorted(means, key=lambda label: (-means[label], label))
        return "F1 so far, %: " + ", ".join(f"{label} {100 * means[label]:.1f}" for label in ordered) if means else ""


def _place(cell: Cell) -> tuple[str, str]:
    return cell.dataset_label, cell.model.label
