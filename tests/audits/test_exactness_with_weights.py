"""`exactness` on edges with weights: exact methods stay exact, and weights that are remembered are found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from audit_samples import runs_here
from weight_samples import weighted, weighted_toy

from unlearnbench.audits.exactness.counterfactuals import exchanged
from unlearnbench.audits.exactness.exactness import Exactness
from unlearnbench.audits.exactness.taint import Search, overwrite
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.datasets.sbm import StochasticBlockModel
from unlearnbench.protocol import Request
from unlearnbench.testing.audits import toy_subject
from unlearnbench.testing.graphs import FIRST_ID

GRAPH = weighted_toy(60, first_id=FIRST_ID)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kind"),
    [("retrain", "node"), ("sisa[num_shards=4,partitioner=hash]", "edge"), ("tally", "edge")],
)
def test_exact_methods_are_exact_on_weighted_edges(method, kind):
    graph = weighted(StochasticBlockModel(StochasticBlockModel.Params(num_nodes=300, num_edges=1500)).load(Path()))
    with runs_here():
        found = Exactness(Exactness.Params(runs=6, permutations=99)).examine(
            toy_subject(method, graph, epochs=3, kind=kind)
        )
    assert found.verdict == "exact"
    passed = {check["name"]: check["passed"] for check in found.details["checks"]}
    assert passed["content"] is True
    assert passed["taint"] is True


def test_weights_of_forgotten_edges_are_exchanged_and_marked():
    trials = Trials(toy_subject("retrain", GRAPH, kind="edge"))
    graph, request = trials.subject.train_graph, trials.request
    copies = graph.copies(request.ids)
    other = exchanged(trials, ["weights"])
    assert torch.equal(other.edge_index, graph.edge_index)
    assert torch.equal(other.edge_weight != graph.edge_weight, copies)
    nodes = Trials(toy_subject("retrain", GRAPH))
    ids = nodes.request.ids
    changed = exchanged(nodes, ["edges"])
    assert torch.equal(changed.without(ids).edge_weight, graph.without(ids).edge_weight)
    assert changed.edge_weight.shape == changed.edge_index.shape[1:]
    own = graph.with_edges(graph.edge_index, graph.edge_weight.clone())
    overwrite(own, Request(ids))
    touched = torch.isin(graph.ids[graph.edge_index], ids).any(dim=0)
    assert torch.equal(own.edge_weight.isnan(), touched)
    again = graph.with_edges(graph.edge_index, graph.edge_weight.clone())
    overwrite(again, request)
    assert torch.equal(again.edge_weight.isnan(), copies)
    search = Search(graph, ids, set())
    search({"kept": again.edge_weight})
    assert search.marked == ["['kept'] (features or weights)"]
