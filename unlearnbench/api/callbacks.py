"""Callbacks of a run, for trackers of experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from unlearnbench.errors import StoppedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.records.record import Record
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import RunConfig
from unlearnbench.running.execute import Compute
from unlearnbench.running.learning_curves import means, validation_labels
from unlearnbench.running.outcome import Arrays, RunContext
from unlearnbench.running.runner import cell_data, run_cell

# The cell as a short text, and the phase.
OnPhase = Callable[[str, str], None]
# The cell as a short text, the phase, the epoch counted from 1, how many there are, and the values of this one:
# `loss` and `val_f1`, means over the networks trained together; empty in a method's own loop.
OnEpoch = Callable[[str, str, int, int, dict[str, float]], None]
OnRecord = Callable[[Record], None]


def watched(on_phase: OnPhase | None, on_epoch: OnEpoch | None, config: RunConfig) -> Compute:
    """Return what computes a cell and calls back as phases begin and epochs end; without callbacks it is `run_cell`.

    Raises:
        UsageError: Cells are computed in other processes, where there is nothing to call.
    """
    if on_phase is None and on_epoch is None:
        return run_cell
    if config.is_isolated or config.backend != "local":
        raise UsageError(
            "on_phase and on_epoch are called in this process, and cells are computed in others.",
            "Leave `jobs`, `isolate`, `cell_timeout` and `backend` out, or use on_record alone.",
        )

    def compute(cell: Cell, graph: Graph, context: RunContext) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
        name = cell.describe()
        labels = validation_labels(cell_data(cell, graph))
        running: list[tuple[str, int, int]] = []
        values: dict[str, float] = {}

        def end_epoch() -> None:
            # That an epoch has ended is known when the next thing begins.
            while running and on_epoch is not None:
                _called(on_epoch, "on_epoch", name, *running.pop(), dict(values))
            values.clear()

        def watch(phase: str, epoch: int, epochs: int) -> None:
            context.watch(phase, epoch, epochs)
            end_epoch()
            if epochs:
                running[:] = [(phase, epoch, epochs)]
            elif on_phase is not None:
                _called(on_phase, "on_phase", name, phase)

        watched = replace(context, watch=watch, is_timed=False)
        if on_epoch is not None:
            watched = replace(watched, on_values=lambda losses, said: values.update(means(losses, said, labels)))
        computed = run_cell(cell, graph, watched)
        end_epoch()
        return computed

    return compute


def _called(callback: Callable[..., None], what: str, *arguments: Any) -> None:
    """Call back; what is raised there is no failure of the method that happens to run."""
    try:
        callback(*arguments)
    except Exception as error:
        raise StoppedError(
            f"{what} failed: {type(error).__name__}: {error}",
            "Finished cells are saved; the same run goes on from there.",
        ) from error
