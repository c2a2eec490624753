"""The rules of aggregators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.task import Task, View
from unlearnbench.testing.graphs import EQUAL, ISOLATED, NO_EDGES, ONE_CLASS, ONE_NODE_SHARDS, ONE_SHARD, PLAIN, Toy
from unlearnbench.testing.rules.base import TOLERANCE, Case, Fault, Rule
from unlearnbench.testing.rules.purity import (
    changed,
    check_log_probabilities,
    copied,
    copies,
    difference,
    reproducible,
)
from unlearnbench.unlearning.aggregation import Aggregator, Members

_WIDTH = 8


@dataclass(frozen=True)
class _Trial:
    """A fitted aggregator, with the subgraph of U and members' outputs on U (`sample`) and on the nodes to predict."""

    aggregator: Aggregator
    task: Task
    sample: Members
    graph: Graph
    asked: Members

    def answer(self) -> Tensor:
        return self.aggregator.combine(self.asked)


def _members(ids: Tensor, shard: Tensor, num_shards: int, num_classes: int, empty: tuple[int, ...]) -> Members:
    """Make up outputs of members: a node's rows depend on its id alone."""
    rngs = [torch.Generator().manual_seed(node) for node in ids.tolist()]
    outputs = torch.stack([torch.randn(num_shards, _WIDTH + num_classes, generator=rng) for rng in rngs], dim=1)
    sizes = torch.full((num_shards,), 5)
    sizes[: num_shards // 2] = 3
    sizes[list(empty)] = outputs[list(empty)] = 0
    return Members(outputs[..., :_WIDTH].clone(), outputs[..., _WIDTH:].clone(), shard, sizes)


def _inputs(toy: Toy, empty: tuple[int, ...] = ()) -> tuple[Graph, Members, Members]:
    """Return the subgraph of U and the members' outputs on U and on the nodes to predict."""
    train_graph, num_shards = toy.graph, toy.num_shards
    graph = train_graph.induced(train_graph.ids[: max(2, len(toy.train) // 2)])
    filled = torch.tensor([shard for shard in range(num_shards) if shard not in empty])
    shard = filled[torch.arange(graph.num_nodes) % len(filled)]
    sample = _members(graph.ids, shard, num_shards, graph.num_classes, empty)
    return graph, sample, _members(toy.asked, torch.full_like(toy.asked, -1), num_shards, graph.num_classes, empty)


def _made(case: Case, toy: Toy, empty: tuple[int, ...] = (), times: int = 1) -> _Trial:
    task = case.task(toy)
    graph, sample, asked = _inputs(toy, empty)
    aggregator: Aggregator = case.build()
    for _ in range(times):
        if aggregator.sample is not None:
            aggregator.fit(task, sample, graph)
    return _Trial(aggregator, task, sample, graph, asked)


def _gives_log_probabilities(case: Case, toy: Toy) -> Iterator[Fault]:
    yield from check_log_probabilities(_made(case, toy).answer(), toy, "combine()")


def _bears_empty_shards(case: Case, toy: Toy) -> Iterator[Fault]:
    for empty in ((0,), (1, 3), (0, 1, 2)):
        trial = _made(case, toy, empty)
        answer = trial.answer()
        yield from check_log_probabilities(answer, toy, "combine()")
        outputs = [trial.asked.embeddings.clone(), trial.asked.logits.clone()]
        for part in outputs:
            part[list(empty)] = 7 * torch.randn(part[0].shape, generator=torch.Generator().manual_seed(1))
        other = trial.aggregator.combine(replace(trial.asked, embeddings=outputs[0], logits=outputs[1]))
        if answer.shape == other.shape and not torch.allclose(answer, other, atol=TOLERANCE, equal_nan=True):
            yield Fault(
                f"A retired member still counts: with {len(empty)} of {toy.num_shards} shards empty, the outputs of"
                " their members change the answer.",
                "Use members.voting: a member of size 0 has no parameters.",
            )
            return


def _works_row_by_row(case: Case, toy: Toy) -> Iterator[Fault]:
    trial = _made(case, toy)
    together = trial.answer()
    alone = torch.cat([trial.aggregator.combine(trial.asked.chunk(at, at + 1)) for at in range(len(toy.asked))])
    if together.shape == alone.shape and not torch.allclose(together, alone, atol=TOLERANCE, equal_nan=True):
        yield Fault(
            "A row depends on other rows: combine() of all nodes at once is not that of each alone.",
            "Use no statistic over nodes in combine(): the harness works in chunks.",
        )


def _learned(case: Case, toy: Toy, times: int = 1) -> dict[str, Tensor]:
    trial = _made(case, toy, times=times)
    return {**copied(trial.aggregator.state()), "the answer": trial.answer().detach()}


def _learns_from_scratch(case: Case, toy: Toy) -> Iterator[Fault]:
    aggregator: Aggregator = case.build()
    learns = type(aggregator).fit is not Aggregator.fit
    if aggregator.sample is None:
        if learns:
            yield Fault("It defines fit() and leaves sample = None: fit() is never called.", "Set sample.")
        return
    if not aggregator.sample > 0:
        yield Fault(f"Its sample is {aggregator.sample!r}.", "Use a count of at least 1, a share above 0, or None.")
    if not learns:
        yield Fault("It sets sample and does not define fit().", "Define fit(), or leave sample = None.")
    if aggregator.view not in (View.TARGETS, View.SHARD):
        yield Fault(f"Its view is {aggregator.view!r}.", "Use View.TARGETS or View.SHARD.")
    if differs := difference(_learned(case, toy), _learned(case, toy, times=2)):
        yield Fault(
            f"A second fit() differs from the first: {differs}.",
            "Start from scratch in fit(): what was learned from forgotten nodes must not survive.",
        )


def _only_looks(case: Case, toy: Toy) -> Iterator[Fault]:
    trial, other = _made(case, toy), _inputs(toy)
    graphs = {"task.graph": trial.task.graph, "graph": trial.graph}
    yield from changed(graphs, copies(toy.graph, other[0]), "fit()")
    before = copied(trial.aggregator.state())
    trial.answer()
    for call, members, fresh in (("fit()", trial.sample, other[1]), ("combine()", trial.asked, other[2])):
        if difference(vars(members), vars(fresh)):
            yield Fault(f"{call} changed the outputs of members.", "Members are read-only: clone() first.")
    if differs := difference(before, trial.aggregator.state()):
        yield Fault(f"combine() changed its state(): {differs}.", "Only fit() may learn.")
    if any(not bool(torch.isfinite(value).all()) for value in before.values()):
        yield Fault("Its state() is not finite after fit().", "Look at the learning rate and at divisions by 0.")


def _bears_more_shards_than_nodes(case: Case, toy: Toy) -> Iterator[Fault]:
    many = replace(toy, num_shards=len(toy.train) + 7)
    trial = _made(case, many, tuple(range(3, many.num_shards, 2)))
    yield from check_log_probabilities(trial.answer(), toy, "combine()")


_TOYS = (PLAIN, ISOLATED, NO_EDGES, ONE_CLASS, EQUAL, ONE_SHARD, ONE_NODE_SHARDS)
RULES = (
    Rule(
        "answers",
        "combine() returns finite log-probabilities, a row per node, a column per class",
        _gives_log_probabilities,
        _TOYS,
    ),
    Rule("empty-shards", "a retired member, of an empty shard, does not count", _bears_empty_shards),
    Rule("more-shards-than-nodes", "it works with more members than nodes", _bears_more_shards_than_nodes),
    Rule("row-by-row", "a row of combine() depends on no other row", _works_row_by_row),
    *reproducible(
        "the same task and members give the same answer",
        _learned,
        difference,
        "Two aggregators of the same task differ: {}.",
    ),
    Rule("from-scratch", "fit() starts from scratch, and is there if and only if sample is", _learns_from_scratch),
    Rule("only-looks", "graphs and members stay as they were, combine() learns nothing", _only_looks),
)
