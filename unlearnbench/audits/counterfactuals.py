"""Would the method have come out the same without D? The checks that compare runs bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.audits.bits import answer_differences, state_differences
from unlearnbench.audits.trials import Run, Trials, differences
from unlearnbench.audits.witness import faults, listed, unlike
from unlearnbench.graph import Graph
from unlearnbench.requests import Request

_GRAPHS_NAMED = 3
CONTENT = ("features", "labels", "edges")


@dataclass(frozen=True)
class Check:
    """What came of one check.

    Args:
        name: Which.
        passed: Whether it did; None: it was not made, `differs` says why.
        differs: Names what differs, or what was found.
    """

    name: str
    passed: bool | None
    differs: str = ""


def check_repeats(told: Run, again: Run) -> Check:
    """(0) The same run twice, and the same question twice: equal bits?"""
    differs = [differences(told, again)]
    asked = answer_differences(told.answers, told.again)
    differs += [f"asked twice, its {asked}"] if asked else []
    return _check("repeats", differs)


def check_graphs(told: Run, never: Run | None, trials: Trials) -> Check:
    """(0) No edge of D, and every other edge, is in each graph read after the request."""
    fitted, asked = ([], []) if never is None else (never.log.sights("fit"), never.log.sights("predict"))
    differs = []
    for chapter, right, others in (
        ("unlearn", trials.retained, fitted),
        ("predict", trials.queries["test"].graph, asked),
    ):
        found = faults(told.log.sights(chapter), right, trials.request, others)
        differs += [f"graphs read in {chapter}(): {'; '.join(found)}"] if found else []
    return _check("graphs", differs)


def check_predict(told: Run) -> Check:
    """`predict` changes no parameter."""
    changed = state_differences(told.after_asking, told.state, {})
    return _check("predict", [f"predict() did work of forgetting: {changed} before and after it"] if changed else [])


def check_kept(kept: Mapping[str, Tensor], retained: Tensor, request: Request) -> tuple[Check, dict[str, Tensor]]:
    """Sort what a method keeps: the integer shard of every retained node, and all that should not be there.

    Args:
        kept: What `kept()` gave after the request.
        retained: int64 [m], ids of the retained nodes.
        request: D.

    Returns:
        The check, and what may be given to a run that never saw D.
    """
    differs, given = [], {}
    for name, value in kept.items():
        what = f"kept() names {name} ({str(value.dtype).removeprefix('torch.')} {list(value.shape)})"
        if name != "partition" or value.dtype is not torch.int64 or value.dim() != 2 or value.shape[1] != 2:
            differs.append(f"{what}, which is no partition")
            continue
        gone = torch.isin(value[:, 0], request.ids)
        strange = ~gone & ~torch.isin(value[:, 0], retained)
        differs += [f"{what}, with forgotten nodes: {listed(value[gone, 0].tolist())}"] if bool(gone.any()) else []
        differs += [f"{what}, with unknown ids: {listed(value[strange, 0].tolist())}"] if bool(strange.any()) else []
        given[name] = value[~gone & ~strange].clone()
    return _check("kept", differs), given


def check_counterfactual(told: Run, never: Run, trials: Trials) -> Check:
    """(a) Does a run that never saw D, with the same partition given, give equal bits?"""
    differs = [differences(told, never)]
    if differs[0]:
        orders = [trials.subject.train_graph.ids, trials.retained.ids]
        graphs = unlike(told.log.sights("unlearn"), never.log.sights("fit"), orders)
        differs += [f"unlearn() read {graph}" for graph in graphs[:_GRAPHS_NAMED]]
    return _check("counterfactual", differs)


def check_content(told: Run, trials: Trials, name_parts: bool) -> Check:
    """(b2) Does it come out the same had D held other features, labels and edges?

    Args:
        told: What came out.
        trials: Runs the method.
        name_parts: If it does not: find out, in up to three more runs, on which of the three it depends.
    """
    differs = differences(told, trials.told(exchanged(trials, CONTENT)))
    if not differs:
        return Check("content", True)
    if not name_parts:
        return Check("content", False, f"depends on the content of forgotten nodes: {differs}")
    parts = [part for part in CONTENT if differences(told, trials.told(exchanged(trials, [part])))]
    what = " and ".join(parts) or "features, labels and edges together"
    return Check("content", False, f"still depends on the {what} of forgotten nodes: {differs}")


def check_order(told: Run, trials: Trials) -> Check:
    """(s) Do two halves of D, in either order, give what both at once give?"""
    ids = trials.request.ids
    if len(ids) < 2:
        return Check("order", None, "a request of one node has no halves")
    halves = [Request(ids[0::2]), Request(ids[1::2])]
    differs = []
    for name, order in (("one half after the other", halves), ("the halves exchanged", halves[::-1])):
        found = differences(trials.told(requests=order), told)
        differs += [f"{name}: {found}"] if found else []
    return _check("order", differs)


def exchanged(trials: Trials, parts: Collection[str]) -> Graph:
    """Give the training graph with other content for the nodes of D; ids and everything among others stay.

    Args:
        trials: Names the graph and D.
        parts: `features`: those of other training nodes. `labels`: each another class.
            `edges`: as many, at least one, to other retained nodes.
    """
    graph, ids = trials.subject.train_graph, trials.request.ids
    chance = seeds.generator(trials.task().seed, "audit", "exchanged")
    at = graph.positions(ids).cpu()
    gone = torch.zeros(graph.num_nodes, dtype=torch.bool)
    gone[at] = True
    others = torch.nonzero(~gone)[:, 0]
    x, y, edges = graph.x.clone(), graph.y.clone(), graph.edge_index.cpu()
    drawn = others[torch.randint(len(others), (len(at),), generator=chance)]
    step = torch.randint(1, max(graph.num_classes, 2), (len(at),), generator=chance)
    if "features" in parts:
        x[at] = graph.x[drawn]
    if "labels" in parts:
        y[at] = (graph.y[at] + step.to(y.device)) % graph.num_classes
    if "edges" in parts:
        touches = gone[edges].any(dim=0)
        degree = torch.bincount(edges[0], minlength=graph.num_nodes)[at].clamp(min=1, max=len(others))
        pairs = [
            torch.stack([node.expand(int(count)), others[torch.randperm(len(others), generator=chance)[: int(count)]]])
            for node, count in zip(at, degree, strict=True)
        ]
        new = torch.cat(pairs, dim=1)
        edges = torch.cat([edges[:, ~touches], new, new.flip(0)], dim=1)
    return Graph(x, y, edges.to(graph.edge_index.device), graph.ids, graph.num_classes)


def _check(name: str, differs: list[str]) -> Check:
    text = "; ".join(part for part in differs if part)
    return Check(name, not text, text)
