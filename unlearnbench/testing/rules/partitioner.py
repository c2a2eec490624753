"""What a partitioner must keep to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Task
from unlearnbench.testing.graphs import EQUAL, PLAIN, TOYS, Toy
from unlearnbench.testing.rules.base import UNEQUAL, Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.purity import changed, check_chance, copies, describe, same_chance
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
    yield from _told_of_sets(answer, n)
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


def _told_of_sets(answer: Any, n: int) -> Iterator[Fault]:
    """Read an answer that lists the nodes of each shard, or marks them, and say whether nodes are in two."""
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


def _gives_the_same_answer(case: Case, toy: Toy) -> Iterator[Fault]:
    answers = []
    for _ in range(2):
        with same_chance(0):
            answers.append(_shards(case, toy))
    if not torch.equal(*answers):
        case.memory[UNEQUAL] = True
        yield Fault(
            "Two calls with the same task give different answers.",
            'Draw from task.generator("role", ...) alone, and keep nothing in the class or the module.',
        )


def _leaves_chance_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    def run(seed: int) -> tuple[Tensor, list[str]]:
        with same_chance(seed) as used:
            answer = _shards(case, toy)
        return answer, used

    yield from check_chance(case, run, lambda one, other: "" if torch.equal(one, other) else "other shards")


def _leaves_inputs_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    task = case.task(toy)
    before = copies(task.graph)
    _ask(case, toy, task)
    yield from changed({"task.graph": task.graph}, before, "partition()")


def _uses_what_it_says(case: Case, toy: Toy) -> Iterator[Fault]:
    if case.spec.cls.uses_data:
        raise Skipped("it says that it uses data")
    graph = toy.graph
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    other = Graph(graph.x[order] + 1, graph.y[order], graph.edge_index[:, ::2], graph.ids, graph.num_classes)
    whole = case.task(toy)
    moved = Task(other, whole.model, whole.training, whole.device, whole.seed)
    if not torch.equal(_shards(case, toy, whole), _shards(case, toy, moved)):
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
    Rule("same-answer", "the same task gives the same answer", _gives_the_same_answer, (PLAIN, EQUAL)),
    Rule("own-chance", "the global random generators are neither read nor changed", _leaves_chance_alone),
    Rule("inputs-unchanged", "the graph of the task stays as it was", _leaves_inputs_alone),
    Rule("balance", "shards have between (1 - slack) n/S and (1 + slack) n/S nodes", _is_balanced, TOYS),
    Rule("uses-data", "uses_data = False: features, labels and edges make no difference", _uses_what_it_says),
    Rule("node-by-node", "node_by_node = True: a node's shard depends on no other node", _is_node_by_node),
)
