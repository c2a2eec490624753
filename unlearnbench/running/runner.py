"""Runs one cell, phase by phase, and makes its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError
from unlearnbench.gnn import Model
from unlearnbench.graph import Graph
from unlearnbench.measure.clock import Meter
from unlearnbench.measure.digests import (
    changed_names,
    digests,
    is_finite,
    members_of,
    predictions_digest,
    relative_change,
)
from unlearnbench.measure.request_time import answers_like_training, request_seconds
from unlearnbench.metrics.scoring import Scores, class_accuracies, one_class_notes, score
from unlearnbench.metrics.wording import moments_after
from unlearnbench.protocol import Request, protocol
from unlearnbench.records.record import Record
from unlearnbench.running.cell import Cell
from unlearnbench.running.contract import GuardedInputs, check_predictions, check_state
from unlearnbench.running.learning_curves import Curves, scored_curves
from unlearnbench.running.outcome import Arrays, Outcome, RunContext, measured
from unlearnbench.task import Query, Task, View, make_query, surroundings
from unlearnbench.unlearning import Unlearner
from unlearnbench.unlearning.partitioning import check_kept_partition, partition_statistics

VIEWS = (View.SHARD, View.FULL)
Answer = TypeVar("Answer")


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
    name, meter = cell.dataset_identity, outcome.meter
    graph, split, requests = data.graph, data.split, data.requests
    archive = f"{cell.key}.npz"
    outcome.fields["requests"] = [
        {"ids_sha256": request.sha256(), "count": len(request.ids), "file": archive} for request in requests
    ]
    outcome.arrays |= {
        "forgotten": data.request.ids.numpy(),
        "train": split.train.numpy(),
        "val": split.val.numpy(),
        "test": split.test.numpy(),
    }
    task = Task(
        graph=graph.induced(split.train).to(context.device),
        model=cell.model,
        training=cell.training,
        device=context.device,
        seed=protocol.task_seed(cell.seed, name, cell.repetition),
        listener=meter,
        checkpoints=outcome.checkpoints.of("fit"),
        surroundings=surroundings(graph, data.unlabelled, context.device),
    )
    method: Unlearner = cell.method.build()
    if cell.model.source and issubclass(cell.model.cls, Model):
        outcome.notes.append(f"{cell.model.label} is a module of the session: its networks are trained one by one.")
    inputs = GuardedInputs()
    _guard(task, inputs, "the training graph")
    curves.ask(_validation(data, graph, split.train, context.device))
    with meter.phase("fit"):
        method.fit(task)
    outcome.fields["claim"] = {"claim": method.claim.value, "reason": method.claim_reason}
    outcome.fields["partition"] = _partition(method, task.graph)
    fit_counts, counts = dict(meter.counts), dict[str, int]()
    # Copies: a method may return its own tensors and change them in place.
    before = {name: value.detach().clone() for name, value in check_state(method.state(), context.device).items()}
    digests_before = digests(before)
    with meter.phase("evaluate"):
        questions = _questions(data, graph, split.train, context.device, inputs)
        answers = _answers("before", method, questions)
    inputs.check()
    _check_unchanged(method, digests_before)

    if not method.deletes_at_inference:
        outcome.notes.append("scored with the graph as it was before the request.")
    for number, (moment, request) in enumerate(zip(moments_after(len(requests)), requests, strict=True)):
        counted = dict(meter.counts)
        task = replace(task.without(request), checkpoints=outcome.checkpoints.of("unlearn"))
        demand = Request(request.ids.clone().to(context.device), request.kind)
        _guard(task, inputs, "the retained graph")
        inputs.add("the ids of the request", demand.ids)
        after_request = graph if request.kind == "node" else request.apply(graph)
        curves.ask(_validation(data, after_request, task.graph.ids.cpu(), context.device))
        with meter.phase("unlearn"):
            method.unlearn(demand, task)
        spent = {name: amount - counted.get(name, 0) for name, amount in meter.counts.items()}
        counts |= {name: counts.get(name, 0) + amount for name, amount in spent.items()}
        outcome.fields["counts"] = {**counts, **{f"fit_{name}": amount for name, amount in fit_counts.items()}}
        after = outcome.state = check_state(_twice(meter, "state", method.state), context.device)
        size = sum(value.numel() * value.element_size() for value in after.values())
        outcome.fields["counts"]["parameter_bytes"] = size
        digests_after = digests(after)
        held = task.graph.ids.cpu() if method.deletes_at_inference else split.train
        kept = method.kept().get("partition") if method.deletes_at_inference else None
        if kept is not None:
            shard = check_kept_partition(kept, task.graph)
            outcome.arrays["partition"] = kept.cpu().numpy()
        if len(requests) > 1:
            num_shards = len((outcome.fields["partition"] or {}).get("sizes", ()))
            sizes = None if kept is None else torch.bincount(shard, minlength=num_shards).tolist()
            outcome.fields["requests"][number] |= {"counts": spent, "sizes": sizes}
        if request.kind != "node" and method.deletes_at_inference:
            graph = request.apply(graph)
        with meter.phase("evaluate"):
            questions = _questions(data, graph, held, context.device, inputs)
        answers |= _timed_answers(moment, method, questions, meter)
        inputs.check()
        _check_unchanged(method, digests_after)

    if data.clean is not None:
        answers |= _clean_answers(cell, data, context.device)
    if meter.clock_fault:
        raise RefusedError(f"The clock was changed: {meter.clock_fault}.", "A method must leave the clocks alone.")
    outcome.fields["unlearn_seconds"] = request_seconds(meter.phases)
    outcome.notes += [
        f"{call} took {seconds:.4f} s, fit() {fit:.4f} s: it may train anew what unlearn() left undone."
        for call, seconds, fit in answers_like_training(meter.phases)
    ]
    changed = changed_names(digests_before, digests_after)
    outcome.fields["digests"] = {
        "before": digests_before,
        "after": digests_after,
        "members_changed": members_of(changed),
        "relative_change": relative_change(before, after),
        "unchanged": not changed,
    }
    if not changed:
        outcome.notes.append("unchanged: forgetting changed no parameter.")
    finite = is_finite(after) and all(bool(torch.isfinite(answer).all()) for answer in answers.values())
    outcome.arrays |= {"/".join(key): answer.cpu().numpy().astype(np.float32) for key, answer in answers.items()}
    outcome.fields["predictions_digest"] = predictions_digest(outcome.arrays)
    if not finite:
        outcome.notes.append("diverged: parameters or predictions are not finite; no score is given.")
        return "diverged"
    outcome.fields["metrics"], problems = score_arrays(outcome.arrays, data, context.metrics)
    outcome.notes += problems
    return "ok"


def _guard(task: Task, inputs: GuardedInputs, name: str) -> None:
    """Remember the graphs of a task as they are, and make the one that training sees, so that it is in no time."""
    inputs.add(name, task.graph)
    if task.seen is not task.graph:
        inputs.add(f"{name} with its surroundings", task.seen)


def _questions(
    data: protocol.RepetitionData,
    graph: Graph,
    held: Tensor,
    device: torch.device,
    inputs: GuardedInputs | None = None,
) -> dict[tuple[str, str], Query]:
    """Return the queries that are scored: test and validation nodes (if any), separately, in both views."""
    queries: dict[tuple[str, str], Query] = {}
    for part, targets in (("test", data.split.test), ("val", data.split.val)):
        if len(targets) == 0:
            continue
        query = make_query(graph, held, targets, View.SHARD, device, data.unlabelled)
        queries |= {(part, view.value): replace(query, view=view) for view in VIEWS}
        if inputs is not None:  # the two views share these tensors
            inputs.add(f"the graph of the {part} query", query.graph)
            inputs.add(f"the targets of the {part} query", query.targets)
            inputs.add(f"the retained ids of the {part} query", query.retained)
    return queries


def _validation(data: protocol.RepetitionData, graph: Graph, held: Tensor, device: torch.device) -> Query | None:
    """Return the question that networks in training are asked; None without validation nodes."""
    if len(data.split.val) == 0:
        return None
    return make_query(graph, held, data.split.val, View.FULL, device, data.unlabelled)


def _answers(
    moment: str, method: Unlearner, questions: Mapping[tuple[str, str], Query]
) -> dict[tuple[str, str, str], Tensor]:
    return {(moment, *key): check_predictions(method.predict(query), query) for key, query in questions.items()}


def _timed_answers(
    moment: str, method: Unlearner, questions: Mapping[tuple[str, str], Query], meter: Meter
) -> dict[tuple[str, str, str], Tensor]:
    """Ask the first query twice, the second once, both timed, and then the others."""
    first, over_full, *others = questions.items()
    answer = _twice(meter, "predict", lambda: method.predict(first[1]))
    answers = {(moment, *first[0]): check_predictions(answer, first[1])}
    with meter.phase("predict-full"):
        full = method.predict(over_full[1])
    answers[moment, *over_full[0]] = check_predictions(full, over_full[1])
    with meter.phase("evaluate"):
        return answers | _answers(moment, method, dict(others))


def _clean_answers(
    cell: Cell, data: protocol.RepetitionData, device: torch.device
) -> dict[tuple[str, str, str], Tensor]:
    """Predict with the method trained on the clean graph, with the cell's own seed and with another.

    `clean` are the predictions where nothing was wrong, without injected or mislabelled nodes and spurious edges; in
    place of injected features there are zeros.
    `fresh` are those of training from scratch after the request, the partition included, with another seed.
    """
    assert data.clean is not None
    assert data.wrong is not None
    graph = data.graph if data.wrong.kind == "node" else data.wrong.apply(data.graph)
    answers: dict[tuple[str, str, str], Tensor] = {}
    seed = protocol.task_seed(cell.seed, cell.dataset_identity, cell.repetition)
    for moment, chosen in (("clean", seed), ("fresh", seeds.seed(seed, "fresh"))):
        outside = surroundings(graph, data.unlabelled, device)
        task = Task(
            graph.induced(data.clean).to(device), cell.model, cell.training, device, chosen, surroundings=outside
        )
        method: Unlearner = cell.method.build()
        method.fit(task)
        answers |= _answers(moment, method, _questions(data, graph, data.clean, device))
    return answers


def _twice(meter: Meter, name: str, call: Callable[[], Answer]) -> Answer:
    """Call a method twice after a request and time both calls; the first one is charged to the request."""
    with meter.phase(f"{name}-first"):
        answer = call()
    with meter.phase(f"{name}-second"):
        call()
    return answer


def _check_unchanged(method: Unlearner, known: Mapping[str, str]) -> None:
    if digests(method.state()) != known:
        raise RefusedError("predict() changed the deployed parameters.", "Only fit() and unlearn() may change them.")


def _partition(method: Unlearner, graph: Graph) -> dict[str, Any] | None:
    kept = method.kept().get("partition")
    if kept is None:
        return None
    shard = check_kept_partition(kept, graph)
    num_shards = max(getattr(method, "num_shards", 0), int(shard.max()) + 1)
    return partition_statistics(graph, shard, num_shards)


def warm_up(cell: Cell, device: torch.device) -> None:
    """Run a method once, untimed, on a small graph, so that no cell is timed with start-up costs."""
    num_shards = getattr(cell.method.innermost().params, "num_shards", 1)
    rng = seeds.generator(0, "warm-up")
    n, features = max(200, 4 * num_shards), 8
    edges = torch.randint(n, (2, 4 * n), generator=rng)
    x, y = torch.randn(n, features, generator=rng), torch.arange(n) % 3
    graph = Graph(x, y, torch.cat([edges, edges.flip(0)], dim=1), torch.arange(n), 3).to(device)
    task = Task(graph, cell.model, replace(cell.training, epochs=2), device, seed=0)
    request = Request(torch.arange(2, device=device))
    method: Unlearner = cell.method.build()
    method.fit(task)
    retained = task.without(request)
    method.unlearn(request, retained)
    held = retained if method.deletes_at_inference else task
    for view in VIEWS:
        method.predict(held.query(retained.graph.ids[:10], view))
