"""Checks of `exactness` that compare runs bit for bit: whether the result would be the same without D."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.audits.exactness.bits import answer_differences, state_differences, unequal
from unlearnbench.audits.exactness.graph_access import faults, listed, unlike
from unlearnbench.audits.exactness.run import Run, outcome, run_differences
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request

_GRAPHS_NAMED = 3
CONTENT = ("features", "labels", "edges")


@dataclass(frozen=True)
class Check:
    """The result of one check: what differs first, and further differences that follow.

    `passed` is None if the check was not made, for the reason in `differs`.
    """

    name: str
    passed: bool | None
    differs: str = ""
    more: str = ""


def make_check(name: str, differences: Sequence[str], more: Sequence[str] = ()) -> Check:
    """Return a check that fails if there are differences."""
    return Check(name, not differences, "; ".join(differences), "; ".join(more))


def check_repeats(unlearned: Run, again: Run) -> Check:
    """(0) Whether repeating a run, or a query, gives equal bits."""
    asked = answer_differences(unlearned.answers, unlearned.again)
    return make_check("repeats", run_differences(unlearned, again) + ([f"asked twice, its {asked}"] if asked else []))


def check_graphs(unlearned: Run, counterfactual: Run | str, trials: Trials) -> Check:
    """(0) Whether each graph read after the request has no edge of D and every other edge."""
    differs = []
    sections = [
        ("unlearn", "fit", trials.task(trials.retained).seen),
        ("predict", "predict", trials.queries["test"].graph),
    ]
    for section, without_request, expected in sections:
        others = [] if isinstance(counterfactual, str) else counterfactual.log.reads(without_request)
        found = faults(unlearned.log.reads(section), expected, trials.request, others)
        differs += [f"graphs read in {section}(): {'; '.join(found)}"] if found else []
    return make_check("graphs", differs)


def check_predict(unlearned: Run) -> Check:
    """Whether `predict` leaves all parameters unchanged."""
    changed = state_differences(unlearned.after_asking, unlearned.state, {})
    return make_check("predict", [f"predict() did work of forgetting: its {changed}"] if changed else [])


def check_change(unlearned: Run) -> Check:
    """Whether the request changed a bit of the parameters or of the answers over the graph without D."""
    changed = unequal(unlearned.before, unlearned.after_asking) or unequal(unlearned.noop, unlearned.answers)
    return make_check("change", [] if changed else ["parameters and answers are those from before the request"])


def check_memory(never: Run | str, after: Run | str) -> Check:
    """Whether a run that never saw D gives equal bits in a process that trained on D, and forgot it, before.

    Args:
        never: The first run, in a process of its own.
        after: The later one.
    """
    if isinstance(never, str) or isinstance(after, str):
        return Check("memory", None, "a run without the forgotten nodes fails")
    found = run_differences(after, never)
    return make_check("memory", [f"a later run in the same process remembers: {found[0]}"] if found else [])


def check_kept(kept: Mapping[str, Tensor], retained: Tensor, request: Request) -> tuple[Check, dict[str, Tensor]]:
    """Check that a method keeps nothing but the shard of every retained node.

    Returns:
        The check, and what of `kept` may be passed to a run that never saw D.
    """
    differs, given = [], {}
    for name, value in kept.items():
        what = f"kept() names {name} ({str(value.dtype).removeprefix('torch.')} {list(value.shape)})"
        if name != "partition" or value.dtype is not torch.int64 or value.dim() != 2 or value.shape[1] != 2:
            differs.append(f"{what}, which is no partition")
            continue
        gone = torch.isin(value[:, 0], request.ids if request.kind == "node" else request.ids[:0])
        unknown = ~gone & ~torch.isin(value[:, 0], retained)
        differs += [f"{what}, with forgotten nodes: {listed(value[gone, 0].tolist())}"] if bool(gone.any()) else []
        differs += [f"{what}, with unknown ids: {listed(value[unknown, 0].tolist())}"] if bool(unknown.any()) else []
        given[name] = value[~gone & ~unknown].clone()
    return make_check("kept", differs), given


def check_counterfactual(unlearned: Run, counterfactual: Run | str, trials: Trials) -> Check:
    """(a) Whether a run that never saw D, with the same partition given, has equal bits."""
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
    """(b2) Whether the result would be the same if D had other features, labels and edges; of edges: other weights.

    If not, and if `name_parts`, up to three more runs find on which of the three it depends.
    """
    if trials.of_edges and trials.subject.graph.edge_weight is None:
        return Check("content", None, "an edge has no content but its ends")
    of_nodes = trials.request.kind == "node"
    what = {"node": "content", "edge": "weights", "feature": "features"}[trials.request.kind]
    differs = outcome(partial(_with_exchanged, trials, CONTENT if of_nodes else [what]), unlearned)
    if not differs:
        return Check("content", True)
    if name_parts and of_nodes:
        parts = [part for part in CONTENT if outcome(partial(_with_exchanged, trials, [part]), unlearned)]
        what = " and ".join([*[", ".join(parts[:-1])] * (len(parts) > 1), *parts[-1:]]) or "content as a whole"
    forgotten = "edges" if trials.of_edges else "nodes"
    return make_check("content", [f"still depends on the {what} of forgotten {forgotten}"], differs)


def exchanged(trials: Trials, parts: Collection[str]) -> Graph:
    """Return the training graph with other content for the nodes of D; ids and all else are unchanged.

    `features`: those of other training nodes; where D are features, in their columns alone. `labels`: another
    class for each. `edges`: as many, at least one, to other retained nodes, with weights of other edges. `weights`:
    of D, which are edges, twice what they are.
    """
    graph, request, ids = trials.subject.train_graph, trials.request, trials.request.nodes
    rng = seeds.generator(trials.task().seed, "audit", "exchanged")
    at = graph.positions(ids).cpu()
    gone = torch.zeros(graph.num_nodes, dtype=torch.bool)
    gone[at] = True
    # Features of all nodes may be forgotten.
    others = torch.nonzero(~gone if not bool(gone.all()) else gone)[:, 0]
    x, y, edges, weight = graph.x.clone(), graph.y.clone(), graph.edge_index.cpu(), graph.edge_weight
    drawn = others[torch.randint(len(others), (len(at),), generator=rng)]
    step = torch.randint(1, max(graph.num_classes, 2), (len(at),), generator=rng)
    if "features" in parts:
        x[at] = graph.x[drawn]
        x = torch.where(request.feature_mask(graph), x, graph.x) if request.kind == "feature" else x
    if "labels" in parts:
        y[at] = (graph.y[at] + step.to(y.device)) % graph.num_classes
    if "edges" in parts:
        touches = gone[edges].any(dim=0)
        degree = torch.bincount(edges[0], minlength=graph.num_nodes)[at].clamp(min=1, max=len(others))
        pairs = [
            torch.stack([node.expand(count), others[torch.randperm(len(others), generator=rng)[:count]]])
            for node, count in zip(at, degree.tolist(), strict=True)
        ]
        new = torch.cat(pairs, dim=1)
        edges = torch.cat([edges[:, ~touches], new, new.flip(0)], dim=1)
        if weight is not None:
            known = weight if len(weight) else weight.new_ones(1)
            given = known[torch.randint(len(known), (new.shape[1],), generator=rng).to(weight.device)]
            weight = torch.cat([weight[~touches.to(weight.device)], given, given])
    if "weights" in parts and weight is not None:
        weight = torch.where(graph.copies(request.ids), 2 * weight, weight)
    return Graph(x, y, edges.to(graph.edge_index.device), graph.ids, graph.num_classes, edge_weight=weight)


def _with_exchanged(trials: Trials, parts: Sequence[str]) -> Run:
    return Run.from_plain(trials.apart(_unlearned_with_exchanged, list(parts)))


def _unlearned_with_exchanged(trials: Trials, parts: Sequence[str]) -> dict[str, Any]:
    return trials.unlearned(exchanged(trials, parts)).plain()
