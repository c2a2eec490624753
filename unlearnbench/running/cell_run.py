"""A cell while it is computed: what a method is asked, in which order, and what is measured and checked meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from unlearnbench.errors import RefusedError
from unlearnbench.gnn import Model
from unlearnbench.graph import Graph
from unlearnbench.measure.clock import Meter
from unlearnbench.measure.digests import (
    changed_names,
    digests,
    is_finite,
    predictions_digest,
    relative_change,
)
from unlearnbench.measure.request_time import answers_like_training, request_seconds
from unlearnbench.protocol import Request, protocol
from unlearnbench.records.digits import what_follows
from unlearnbench.running.cell import Cell
from unlearnbench.running.contract import GuardedInputs, check_predictions, check_state
from unlearnbench.running.learning_curves import Curves
from unlearnbench.running.outcome import Outcome
from unlearnbench.task import Query, Task, View, make_query, surroundings
from unlearnbench.unlearning import Unlearner
from unlearnbench.unlearning.partitioning import check_kept_partition, partition_statistics

VIEWS = (View.SHARD, View.FULL)
Answer = TypeVar("Answer")
Answers = dict[tuple[str, str, str], Tensor]
"""Probabilities by moment, part of the split and view."""


class CellRun:
    """A cell while it is computed: the first training, the requests one after the other, and what came of them.

    `outcome` holds what is found, from the moment it is known.
    """

    def __init__(
        self, cell: Cell, data: protocol.RepetitionData, device: torch.device, outcome: Outcome, curves: Curves
    ) -> None:
        self.data, self.device, self.outcome, self.curves = data, device, outcome, curves
        self.meter = outcome.meter
        self.answers: Answers = {}
        self.counts: dict[str, int] = {}
        self.inputs = GuardedInputs()
        split, self.graph = data.split, data.graph
        outcome.fields["requests"] = [
            {"ids_sha256": request.sha256(), "count": len(request.ids)} for request in data.requests
        ]
        outcome.arrays |= {
            "forgotten": data.request.ids.numpy(),
            "train": split.train.numpy(),
            "val": split.val.numpy(),
            "test": split.test.numpy(),
        }
        self.task = Task(
            graph=self.graph.induced(split.train).to(self.device),
            model=cell.model,
            training=cell.training,
            device=self.device,
            seed=protocol.task_seed(cell.seed, cell.dataset_identity, cell.repetition),
            listener=self.meter,
            checkpoints=outcome.checkpoints.of("fit"),
            surroundings=surroundings(self.graph, data.unlabelled, self.device),
        )
        self.method: Unlearner = cell.method.build()
        if cell.model.source and issubclass(cell.model.cls, Model):
            outcome.notes.append(f"{cell.model.label} is a module of the session: its networks are trained one by one.")

    def train(self) -> None:
        """Train for the first time, and answer before any request."""
        outcome, method, train = self.outcome, self.method, self.data.split.train
        _guard(self.task, self.inputs, "the training graph")
        self.curves.ask(_validation(self.data, self.graph, train, self.device))
        with self.meter.phase("fit"):
            method.fit(self.task)
        outcome.fields["claim"] = {"claim": method.claim.value, "reason": method.claim_reason}
        outcome.fields["partition"] = _partition(method, self.task.graph)
        self.fit_counts = dict(self.meter.counts)
        # Copies: a method may return its own tensors and change them in place.
        state = check_state(method.state(), self.device)
        self.before = {name: value.detach().clone() for name, value in state.items()}
        self.digests_before = digests(self.before)
        with self.meter.phase("evaluate"):
            questions = questions_of(self.data, self.graph, train, self.device, self.inputs)
            self.answers |= answers_of("before", method, questions)
        self.inputs.check()
        _check_unchanged(method, self.digests_before)
        if not method.deletes_at_inference:
            outcome.notes.append("scored with the graph as it was before the request.")

    def serve(self, number: int, moment: str) -> None:
        """Serve a request and answer after it."""
        method, request = self.method, self.data.requests[number]
        self.task = replace(self.task.without(request), checkpoints=self.outcome.checkpoints.of("unlearn"))
        spent = self._unlearn(request)
        self._count(spent)
        self.after = self.outcome.state = check_state(_twice(self.meter, "state", method.state), self.device)
        size = sum(value.numel() * value.element_size() for value in self.after.values())
        self.outcome.fields["counts"]["parameter_bytes"] = size
        self.digests_after = digests(self.after)
        sizes = self._keep_partition()
        if len(self.data.requests) > 1:
            self.outcome.fields["requests"][number] |= {"counts": spent, "sizes": sizes}
        held = self.data.split.train
        if method.deletes_at_inference:
            held = self.task.graph.ids.cpu()
            if request.kind != "node":
                self.graph = request.apply(self.graph)
        with self.meter.phase("evaluate"):
            questions = questions_of(self.data, self.graph, held, self.device, self.inputs)
        self.answers |= _timed_answers(moment, method, questions, self.meter)
        self.inputs.check()
        _check_unchanged(method, self.digests_after)

    def _unlearn(self, request: Request) -> dict[str, int]:
        """Call `unlearn()` and return what it counted."""
        demand = Request(request.ids.clone().to(self.device), request.kind)
        _guard(self.task, self.inputs, "the retained graph")
        self.inputs.add("the ids of the request", demand.ids)
        after_request = self.graph if request.kind == "node" else request.apply(self.graph)
        self.curves.ask(_validation(self.data, after_request, self.task.graph.ids.cpu(), self.device))
        counted = dict(self.meter.counts)
        with self.meter.phase("unlearn"):
            self.method.unlearn(demand, self.task)
        return {name: amount - counted.get(name, 0) for name, amount in self.meter.counts.items()}

    def _count(self, spent: Mapping[str, int]) -> None:
        """Add up what all requests so far counted, beside what the first training did."""
        self.counts |= {name: self.counts.get(name, 0) + amount for name, amount in spent.items()}
        of_fit = {f"fit_{name}": amount for name, amount in self.fit_counts.items()}
        self.outcome.fields["counts"] = {**self.counts, **of_fit}

    def _keep_partition(self) -> list[int] | None:
        """Store the partition that the method keeps and return the sizes of its shards; None where it keeps none."""
        kept = self.method.kept().get("partition") if self.method.deletes_at_inference else None
        if kept is None:
            return None
        shard = check_kept_partition(kept, self.task.graph)
        self.outcome.arrays["partition"] = kept.cpu().numpy()
        num_shards = len((self.outcome.fields["partition"] or {}).get("sizes", ()))
        sizes: list[int] = torch.bincount(shard, minlength=num_shards).tolist()
        return sizes

    def conclude(self) -> bool:
        """Fill in what the whole run tells but its scores, and return whether all of it is finite."""
        outcome, phases = self.outcome, self.meter.phases
        if self.meter.clock_fault:
            raise RefusedError(
                f"The clock was changed: {self.meter.clock_fault}.", "A method must leave the clocks alone."
            )
        outcome.fields["unlearn_seconds"] = request_seconds(phases)
        outcome.notes += [
            f"{call} took {seconds:.4f} s, fit() {fit:.4f} s: it may train anew what unlearn() left undone."
            for call, seconds, fit in answers_like_training(phases)
        ]
        changed = changed_names(self.digests_before, self.digests_after)
        outcome.fields["digests"] = {
            "before": self.digests_before,
            "after": self.digests_after,
            "relative_change": relative_change(self.before, self.after),
            **what_follows(changed),
        }
        if not changed:
            outcome.notes.append("unchanged: forgetting changed no parameter.")
        answers = self.answers
        finite = is_finite(self.after) and all(bool(torch.isfinite(answer).all()) for answer in answers.values())
        outcome.arrays |= {"/".join(key): answer.cpu().numpy().astype(np.float32) for key, answer in answers.items()}
        outcome.fields["predictions_digest"] = predictions_digest(outcome.arrays)
        if not finite:
            outcome.notes.append("diverged: parameters or predictions are not finite; no score is given.")
        return finite


def _guard(task: Task, inputs: GuardedInputs, name: str) -> None:
    """Remember the graphs of a task as they are, and make the one that training sees, so that it is in no time."""
    inputs.add(name, task.graph)
    if task.seen is not task.graph:
        inputs.add(f"{name} with its surroundings", task.seen)


def questions_of(
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


def answers_of(moment: str, method: Unlearner, questions: Mapping[tuple[str, str], Query]) -> Answers:
    """Ask a method, untimed, and check what it answers."""
    return {(moment, *key): check_predictions(method.predict(query), query) for key, query in questions.items()}


def _timed_answers(moment: str, method: Unlearner, questions: Mapping[tuple[str, str], Query], meter: Meter) -> Answers:
    """Ask the first query twice, the second once, both timed, and then the others."""
    first, over_full, *others = questions.items()
    answer = _twice(meter, "predict", lambda: method.predict(first[1]))
    answers = {(moment, *first[0]): check_predictions(answer, first[1])}
    with meter.phase("predict-full"):
        full = method.predict(over_full[1])
    answers[moment, *over_full[0]] = check_predictions(full, over_full[1])
    with meter.phase("evaluate"):
        return answers | answers_of(moment, method, dict(others))


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
