"""Runs one cell, phase by phase, and makes its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.component import Spec
from unlearnbench.graph import Graph
from unlearnbench.metrics.scoring import Scores, class_accuracies, one_class_notes, score
from unlearnbench.metrics.wording import moments_after
from unlearnbench.protocol import Request, protocol
from unlearnbench.records.record import Record
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_run import VIEWS, Answers, CellRun, answers_of, questions_of
from unlearnbench.running.learning_curves import Curves, scored_curves
from unlearnbench.running.outcome import Arrays, Outcome, RunContext, measured
from unlearnbench.task import Task, surroundings
from unlearnbench.unlearning import Unlearner

# Features and classes.
WARM_UP_SIZES = (8, 3)


def run_cell(cell: Cell, graph: Graph, context: RunContext) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
    """Fit, forget, predict and score; any fault of the method becomes the record's status.

    Returns:
        The record, the arrays to store beside it (predictions, ids), and the deployed state.
    """
    return _computed(cell, cell_data(cell, graph), context, scored_curves)


def run_unscored(
    cell: Cell, data: protocol.RepetitionData, context: RunContext
) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
    """Do what `run_cell` does, on data that need not have the labels to score with, and give no score."""
    return _computed(cell, data, replace(context, metrics=()), lambda arrays, _: arrays)


def _computed(
    cell: Cell,
    data: protocol.RepetitionData,
    context: RunContext,
    finish: Callable[[Arrays, protocol.RepetitionData], Arrays],
) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
    """Compute a cell; learning curves pass through `finish`."""
    curves = Curves(context.on_values)
    is_followed = context.log or context.on_values is not None

    def work(outcome: Outcome) -> str:
        try:
            return _run(cell, data, context, outcome, curves)
        finally:
            if context.log:
                outcome.arrays |= finish(curves.arrays(), data)

    return measured(cell, replace(context, follow=curves.follow) if is_followed else context, work)


def cell_data(cell: Cell, graph: Graph) -> protocol.RepetitionData:
    """Return the split and the request of a cell."""
    return protocol.repetition_data(cell.protocol, graph, cell.seed, cell.dataset_identity, cell.repetition)


def score_arrays(
    arrays: Mapping[str, NDArray[Any]], data: protocol.RepetitionData, metrics: Sequence[Spec]
) -> tuple[Scores, list[str]]:
    """Score the stored predictions of a cell: see `score`."""
    graph, split = data.graph, data.split
    labels = {part: graph.y[graph.positions(ids)] for part, ids in (("test", split.test), ("val", split.val))}
    keys = [name.split("/") for name in arrays if name.count("/") == 2]
    answers = {(moment, part, view): torch.from_numpy(arrays[f"{moment}/{part}/{view}"]) for moment, part, view in keys}
    scores, problems = score(answers, labels, metrics)
    if data.affected is not None and metrics:
        scores |= class_accuracies(answers, labels, data.affected)
    return scores, [*one_class_notes(answers, labels), *problems]


def _run(cell: Cell, data: protocol.RepetitionData, context: RunContext, outcome: Outcome, curves: Curves) -> str:
    run = CellRun(cell, data, context.device, outcome, curves)
    run.train()
    for number, moment in enumerate(moments_after(len(data.requests))):
        run.serve(number, moment)
    if data.clean is not None:
        run.answers |= _clean_answers(cell, data, context.device)
    if not run.conclude():
        return "diverged"
    outcome.fields["metrics"], problems = score_arrays(outcome.arrays, data, context.metrics)
    outcome.notes += problems
    return "ok"


def _clean_answers(cell: Cell, data: protocol.RepetitionData, device: torch.device) -> Answers:
    """Predict with the method trained on the clean graph, with the cell's own seed and with another.

    `clean` are the predictions where nothing was wrong, without injected or mislabelled nodes and spurious edges; in
    place of injected features there are zeros.
    `fresh` are those of training from scratch after the request, the partition included, with another seed.
    """
    assert data.clean is not None
    assert data.wrong is not None
    graph = data.graph if data.wrong.kind == "node" else data.wrong.apply(data.graph)
    answers: Answers = {}
    seed = protocol.task_seed(cell.seed, cell.dataset_identity, cell.repetition)
    for moment, chosen in (("clean", seed), ("fresh", seeds.seed(seed, "fresh"))):
        outside = surroundings(graph, data.unlabelled, device)
        task = Task(
            graph.induced(data.clean).to(device), cell.model, cell.training, device, chosen, surroundings=outside
        )
        method: Unlearner = cell.method.build()
        method.fit(task)
        answers |= answers_of(moment, method, questions_of(data, graph, data.clean, device))
    return answers


def warm_up(cell: Cell, device: torch.device, sizes: tuple[int, int] = WARM_UP_SIZES) -> None:
    """Run a method once, untimed, on a small graph, so that no cell is timed with start-up costs.

    Args:
        cell: The method and the model.
        device: Where to compute.
        sizes: The graph's number of features and of classes.
    """
    num_shards = getattr(cell.method.innermost().params, "num_shards", 1)
    rng = seeds.generator(0, "warm-up")
    n, (features, classes) = max(200, 4 * num_shards), sizes
    edges = torch.randint(n, (2, 4 * n), generator=rng)
    x, y = torch.randn(n, features, generator=rng), torch.arange(n) % classes
    graph = Graph(x, y, torch.cat([edges, edges.flip(0)], dim=1), torch.arange(n), classes).to(device)
    task = Task(graph, cell.model, replace(cell.training, epochs=2), device, seed=0)
    request = Request(torch.arange(2, device=device))
    method: Unlearner = cell.method.build()
    method.fit(task)
    retained = task.without(request)
    method.unlearn(request, retained)
    held = retained if method.deletes_at_inference else task
    for view in VIEWS:
        method.predict(held.query(retained.graph.ids[:10], view))
