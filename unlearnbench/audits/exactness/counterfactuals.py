"""Would the method have come out the same without D? The checks that compare runs bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.audits.exactness.bits import answer_differences, state_differences
from unlearnbench.audits.exactness.graph_access import faults, listed, unlike
from unlearnbench.audits.exactness.trials import Run, Trials, outcome, run_differences
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request

_GRAPHS_NAMED = 3
CONTENT = ("features", "labels", "edges")


@dataclass(frozen=True)
class Check:
    """What came of one check.

    Args:
        name: Which.
        passed: Whether it did; None: it was not made, `differs` says why.
        differs: Names what differs, or what was found.
        more: What follows from it.
    """

    name: str
    passed: bool | None
    differs: str = ""
    more: str = ""


def make_check(name: str, unlearned: Sequence[str], more: Sequence[str] = ()) -> Check:
    """Make a check that failed if there is something to tell."""
    return Check(name, not unlearned, "; ".join(unlearned), "; ".join(more))


def check_repeats(unlearned: Run, again: Run) -> Check:
    """(0) The same run twice, and the same question twice: equal bits?"""
    asked = answer_differences(unlearned.answers, unlearned.again)
    return make_check("repeats", run_differences(unlearned, again) + ([f"asked twice, its {asked}"] if asked else []))


def check_graphs(unlearned: Run, counterfactual: Run | str, trials: Trials) -> Check:
    """(0) No edge of D, and every other edge, is in each graph read after the request."""
    fitted, asked = (
        ([], [])
        if isinstance(counterfactual, str)
        else (counterfactual.log.reads("fit"), counterfactual.log.reads("predict"))
    )
    differs = []
    for section, right, others in (
        ("unlearn", trials.retained, fitted),
        ("predict", trials.queries["test"].graph, asked),
    ):
        found = faults(unlearned.log.reads(section), right, trials.request, others)
        differs += [f"graphs read in {section}(): {'; '.join(found)}"] if found else []
    return make_check("graphs", differs)


def check_predict(unlearned: Run) -> Check:
    """`predict` changes no parameter."""
    changed = state_differences(unlearned.after_asking, unlearned.state, {})
    return make_check("predict", [f"predict() did work of forgetting: its {changed}"] if changed else [])


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
    return make_check("kept", differs), given


def check_counterfactual(unlearned: Run, counterfactual: Run | str, trials: Trials) -> Check:
    """(a) Does a run that never saw D, with the same partition given, give equal bits?"""
    if isinstance(counterfactual, str):
        return Check("counterfactual", False, f"a run without the forgotten nodes {counterfactual}")
    first, *others = run_differences(unlearned, counterfactual) or [""]
    if not first:
        return Check("counterfactual", True)
    orders = [trials.subject.train_graph.ids, trials.retained.ids]
    graphs = unlike(unlearned.log.reads("unlearn"), counterfactual.log.reads("fit"), orders)
    read = [f"unlearn() read {graph}" for graph in graphs[:_GRAPHS_NAMED]]
    return make_check("counterfactual", [first, *read], others)


def check_content(unlearned: Run, trials: Trials, name_parts: bool) -> Check:
    """(b2) Does it come out the same had D held other features, labels and edges?

    Args:
        unlearned: What came out.
        trials: Runs the method.
        name_parts: If it does not: find out, in up to three more runs, on which of the three it depends.
    """
    differs = outcome(lambda: trials.unlearned(exchanged(trials, CONTENT)), unlearned)
    if not differs:
        return Check("content", True)
    what = "content"
    if name_parts:
        parts = [part for part in CONTENT if outcome(partial(trials.unlearned, exchanged(trials, [part])), unlearned)]
        what = " and ".join([*[", ".join(parts[:-1])] * (len(parts) > 1), *parts[-1:]]) or "content as a whole"
    return make_check("content", [f"still depends on the {what} of forgotten nodes"], differs)


def check_order(unlearned: Run, trials: Trials) -> Check:
    """(s) Do two halves of D, in either order, give what both at once give?"""
    ids = trials.request.ids
    if len(ids) < 2:
        return Check("order", None, "a request of one node has no halves")
    halves = [Request(ids[0::2]), Request(ids[1::2])]
    differs = []
    for name, order in (("one half after the other", halves), ("the halves exchanged", halves[::-1])):
        found = outcome(partial(trials.unlearned, requests=order), unlearned)
        differs += [f"{name}: {found[0]}"] if found else []
    return make_check("order", differs)


def exchanged(trials: Trials, parts: Collection[str]) -> Graph:
    """Give the training graph with other content for the nodes of D; ids and everything among others stay.

    Args:
        trials: Names the graph and D.
        parts: `features`: those of other training nodes. `labels`: each another class.
            `edges`: as many, at least one, to other retained nodes.
    """
    graph, ids = trials.subject.train_graph, trials.request.ids
    rng = seeds.generator(trials.task().seed, "audit", "exchanged")
    at = graph.positions(ids).cpu()
    gone = torch.zeros(graph.num_nodes, dtype=torch.bool)
    gone[at] = True
    others = torch.nonzero(~gone)[:, 0]
    x, y, edges = graph.x.clone(), graph.y.clone(), graph.edge_index.cpu()
    drawn = others[torch.randint(len(others), (len(at),), generator=rng)]
    step = torch.randint(1, max(graph.num_classes, 2), (len(at),), generator=rng)
    if "features" in parts:
        x[at] = graph.x[drawn]
    if "labels" in parts:
        y[at] = (graph.y[at] + step.to(y.device)) % graph.num_classes
    if "edges" in parts:
        touches = gone[edges].any(dim=0)
        degree = torch.bincount(edges[0], minlength=graph.num_nodes)[at].clamp(min=1, max=len(others))
        pairs = [
            torch.stack([node.expand(int(count)), others[torch.randperm(len(others), generator=rng)[: int(count)]]])
            for node, count in zip(at, degree, strict=True)
        ]
        new = torch.cat(pairs, dim=1)
        edges = torch.cat([edges[:, ~touches], new, new.flip(0)], dim=1)
    return Graph(x, y, edges.to(graph.edge_index.device), graph.ids, graph.num_classes)
