"""The rules of partitioners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Task
from unlearnbench.testing.graphs import EQUAL, PLAIN, TOYS, Toy
from unlearnbench.testing.rules.base import Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.purity import describe, reproducible, unchanged_graph
from unlearnbench.unlearning.partitioning import SLACK, Partitioner, shard_bounds

_FORM = "Return int64 [task.graph.num_nodes], the shard of each node in the order of task.graph, from 0 to S - 1."


def _ask(case: Case, toy: Toy, task: Task | None = None) -> Any:
    partitioner: Partitioner = case.build()
    return partitioner.partition(task or case.task(toy), toy.num_shards)


def _shards(case: Case, toy: Toy, task: Task | None = None) -> Tensor:
    answer = _ask(case, toy, task)
    if not isinstance(answer, Tensor):
        raise Skipped(f"it gave {describe(answer)}")
    return answer


def _places_every_node(case: Case, toy: Toy) -> Iterator[Fault]:
    answer, n, num_shards = _ask(case, toy), len(toy.train), toy.num_shards
    yield from _faults_of_sets(answer, n)
    if not isinstance(answer, Tensor) or answer.dtype != torch.int64 or answer.dim() != 1:
        yield Fault(f"partition() gave {describe(answer)}, expected int64 [{n}].", _FORM)
    elif len(answer) != n:
        verb = "loses" if len(answer) < n else "adds"
        yield Fault(f"It {verb} nodes: partition() gave {len(answer)} shards for {n} nodes.", _FORM)
    else:
        lost = (answer < 0) | (answer >= num_shards)
        if bool(lost.any()):
            yield Fault(
                f"It loses nodes: {int(lost.sum())} of {n} are in no shard from 0 to {num_shards - 1}"
                f" (the first is in {int(answer[lost][0])}).",
                _FORM,
            )
            return
        sizes = torch.bincount(answer, minlength=num_shards)
        empty = torch.nonzero(sizes == 0)[:, 0].tolist()
        if empty and not case.spec.cls.may_be_empty:
            yield Fault(
                f"It leaves {len(empty)} of {num_shards} shards empty (the first is {empty[0]}).",
                "Fill every shard, with a single node if need be, or declare may_be_empty = True.",
            )


def _faults_of_sets(answer: Any, n: int) -> Iterator[Fault]:
    """Check an answer that lists or marks the nodes of each shard: whether a node is in two shards or in none."""
    if isinstance(answer, Tensor) and answer.dim() == 2 and n in answer.shape:
        times = (answer != 0).sum(dim=1 if answer.shape[0] == n else 0)
    elif isinstance(answer, Sequence) and answer and all(isinstance(part, Tensor | Sequence) for part in answer):
        nodes = torch.cat([torch.as_tensor(part).reshape(-1).long() for part in answer])
        times = torch.bincount(nodes.clamp(min=0, max=n - 1), minlength=n)
    else:
        return
    sets = (("Shards overlap", "more than one shard", times > 1), ("It loses nodes", "no shard", times == 0))
    for verb, what, some in sets:
        if bool(some.any()):
            yield Fault(
                f"{verb}: {int(some.sum())} of {n} nodes are in {what}.",
                "A node is in one shard: an edge or node in two could not be forgotten by retraining one of them.",
            )


def _is_balanced(case: Case, toy: Toy) -> Iterator[Fault]:
    if case.spec.cls.may_be_empty:
        raise Skipped("it says that shards may be empty, and so of any size")
    answer = _shards(case, toy)
    if answer.dtype != torch.int64 or answer.shape != toy.train.shape or int(answer.min()) < 0:
        raise Skipped("it does not place every node")
    slack = float(getattr(case.spec.params, "slack", SLACK))
    low, high = shard_bounds(len(answer), toy.num_shards, slack)
    sizes = torch.bincount(answer, minlength=toy.num_shards)
    if int(sizes.min()) < low or int(sizes.max()) > high:
        yield Fault(
            f"Shards have {int(sizes.min())} to {int(sizes.max())} nodes; the protocol wants {low} to {high}"
            f" (slack {slack:g}).",
            "Use assign_by_pairs or assign_by_nodes of unlearnbench.unlearning.partitioning with shard_bounds.",
        )


def _difference(one: Tensor, other: Tensor) -> str:
    return "" if torch.equal(one, other) else "other shards"


def _uses_what_it_says(case: Case, toy: Toy) -> Iterator[Fault]:
    if case.spec.cls.uses_data:
        raise Skipped("it says that it uses data")
    graph = toy.graph
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    other = Graph(graph.x[order] + 1, graph.y[order], graph.edge_index[:, ::2], graph.ids, graph.num_classes)
    task = case.task(toy)
    changed = Task(other, task.model, task.training, task.device, task.seed)
    if not torch.equal(_shards(case, toy, task), _shards(case, toy, changed)):
        yield Fault(
            "It says uses_data = False, but other features, labels and edges give other shards.",
            "Set uses_data = True: a claim of exactness is made of it.",
        )


def _is_node_by_node(case: Case, toy: Toy) -> Iterator[Fault]:
    if not case.spec.cls.node_by_node:
        raise Skipped("it does not say node_by_node")
    task = case.task(toy)
    gone = task.graph.ids[::5]
    kept = ~torch.isin(task.graph.ids, gone)
    if not torch.equal(_shards(case, toy, task)[kept], _shards(case, toy, task.without(Request(gone)))):
        yield Fault(
            "It says node_by_node = True, but without some nodes others change their shard.",
            "Set node_by_node = False: the claim to be exact is made of it.",
        )


RULES = (
    Rule("places-every-node", "every node is in one shard, and no shard is empty", _places_every_node, TOYS),
    *reproducible(
        "the same task gives the same answer",
        _shards,
        _difference,
        "Two calls with the same task give different answers.",
        toys=(PLAIN, EQUAL),
    ),
    unchanged_graph("the graph of the task stays as it was", Case.task, _ask, "partition()"),
    Rule("balance", "shards have between (1 - slack) n/S and (1 + slack) n/S nodes", _is_balanced, TOYS),
    Rule("uses-data", "uses_data = False: features, labels and edges make no difference", _uses_what_it_says),
    Rule("node-by-node", "node_by_node = True: a node's shard depends on no other node", _is_node_by_node),
)
