"""Methods and partitioners on edges with weights: they count, or the method is refused."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
import torch
from cell_samples import CATALOGUE, Constant, cell
from weight_samples import weighted, weighted_toy

from unlearnbench.component import Spec
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import neighbours
from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.lookup import check_cells
from unlearnbench.task import View
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench.unlearning import propagated, smooth
from unlearnbench_grapheraser.blpa import wishes
from unlearnbench_grapheraser.embeddings import propagated as components
from unlearnbench_graphrevoker import losses
from unlearnbench_graphrevoker.network import neighbour_mean
from unlearnbench_megu.influence import similarity
from unlearnbench_partitioners.streaming import place, release

GRAPH = weighted_toy(100, first_id=FIRST_ID)


def in_whole_numbers() -> tuple[Graph, Graph]:
    """A graph with weights 1 to 3, and one with as many edges in place of each."""
    graph = weighted(toy_graph(30), whole=True)
    times = graph.edge_weight.long()
    return graph, replace(graph, edge_index=graph.edge_index.repeat_interleave(times, dim=1), edge_weight=None)


def test_an_edge_of_a_whole_weight_counts_as_so_many_edges_in_the_formulas_of_methods() -> None:
    graph, several = in_whole_numbers()
    n, anchors = graph.num_nodes, torch.arange(0, 30, 4)
    start = torch.softmax(torch.arange(90.0).view(30, 3) % 7, dim=1)
    gone = torch.arange(n) < 3

    def values(each: Graph) -> list[torch.Tensor]:
        edges, weight = each.edge_index, each.edge_weight
        adjacency = losses.adjacency_matrix(edges, n, edge_weight=weight)
        smoothed = [smooth(start, edges, anchors, anchors % 3, 0.7, 3, at, weight) for at in (None, torch.arange(5))]
        return [
            *(propagated(each, 2, how) for how in ("mean", "symmetric")),
            propagated(each, 2, "symmetric", torch.tensor([7, 3])),
            *smoothed,
            similarity(each.x, edges, gone, 2, weight),
            components(each.x, edges, 4, torch.Generator().manual_seed(0), weight).abs(),
            losses.expected_edges(start, adjacency),
            neighbour_mean(edges, n, weight) @ each.x,
        ]

    for one, other, plain in zip(values(graph), values(several), values(replace(graph, edge_weight=None)), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(one, plain, atol=1e-3)


@pytest.mark.skipif(importlib.util.find_spec("pymetis") is None, reason="pymetis is not installed")
def test_metis_cuts_light_edges() -> None:
    # Everybody is joined to everybody; those of one half, dealt out in turn, heavily.
    n = 20
    source, target = torch.nonzero(~torch.eye(n, dtype=torch.bool), as_tuple=True)
    weight = torch.where(source % 2 == target % 2, 5.0, 0.5)
    graph = Graph(torch.eye(n), torch.arange(n) % 3, torch.stack([source, target]), torch.arange(n), 3, None, weight)
    shard = resolve(CATALOGUE, "partitioner", "metis").build().partition(toy_task(graph), 2)
    assert len({(int(node) % 2, int(part)) for node, part in enumerate(shard)}) == 2


def test_a_neighbour_of_a_whole_weight_counts_as_so_many_where_nodes_are_placed() -> None:
    starts, members = neighbours(toy_graph(60))
    weights = torch.randint(1, 9, members.shape, generator=torch.Generator().manual_seed(0))
    owner = torch.repeat_interleave(torch.arange(60), starts.diff())
    more = members.repeat_interleave(weights)
    ends = torch.cat([torch.zeros(1).long(), torch.bincount(owner.repeat_interleave(weights), minlength=60).cumsum(0)])
    order, unplaced = torch.arange(60).flip(0), torch.full((60,), -1)
    placed = place(order, starts, members, unplaced, 4, 13, 17, weights)
    assert torch.equal(placed, place(order, ends, more, unplaced, 4, 13, 17))
    assert not torch.equal(placed, place(order, starts, members, unplaced, 4, 13, 17))
    lopsided = torch.arange(60) // 55
    freed = release(starts, members, lopsided, 2, 25, 35, weights)
    assert torch.equal(freed, release(ends, more, lopsided, 2, 25, 35))
    assert not torch.equal(freed, release(starts, members, lopsided, 2, 25, 35))
    seeded = (torch.Generator().manual_seed(1) for _ in range(2))
    found = wishes(starts, members, lopsided, 2, next(seeded), weights)
    for one, other in zip(found, wishes(ends, more, lopsided, 2, next(seeded)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["ldg", "blpa", "bekm", "gpa[epochs=3]"])
def test_weights_change_the_partition(name: str) -> None:
    partitioner = resolve(CATALOGUE, "partitioner", name).build()
    shards = [partitioner.partition(toy_task(each), 4) for each in (GRAPH, replace(GRAPH, edge_weight=None))]
    assert not torch.equal(*shards)


@pytest.mark.parametrize("name", ["ldg", "blpa", "random", "hash"])
def test_equal_weights_change_no_partition(name: str) -> None:
    partitioner = resolve(CATALOGUE, "partitioner", name).build()
    graph = toy_graph()
    shards = [
        partitioner.partition(toy_task(replace(graph, edge_weight=weight)), 4)
        for weight in (None, torch.full((graph.num_edges,), 0.3))
    ]
    assert torch.equal(*shards)


@pytest.mark.parametrize(
    ("model", "method", "named"),
    [
        ("gat", "retrain", "The model gat takes no edge weights"),
        ("gcn", "tally[hops=1]", r"tally\[hops=1\] takes no edge weights"),
        ("gcn", "smoothed[method=tally[hops=1]]", r"takes no edge weights"),
        ("gcn", Spec("unlearner", "constant", 1, Constant, Constant.Params(), label="constant"), "constant takes no"),
    ],
)
def test_what_cannot_use_weights_is_refused_before_any_training(model: str, method: str | Spec, named: str) -> None:
    one = replace(cell(method, GRAPH), model=resolve(CATALOGUE, "model", model))
    with pytest.raises(UsageError, match=named) as caught:
        check_cells([one], {one.dataset_label: GRAPH})
    assert "leave weighted=true out" in caught.value.hint
    check_cells([one], {one.dataset_label: replace(GRAPH, edge_weight=None)})


@pytest.mark.parametrize(
    "method", ["sisa[num_shards=3,partitioner=hash]", "tally", "graph-editor", "megu[epochs=2]", "gnndelete[epochs=2]"]
)
def test_methods_forget_on_a_weighted_graph_and_weights_matter(method: str) -> None:
    model = "sgc" if method == "graph-editor" else "gcn"
    answers = []
    for graph in (GRAPH, replace(GRAPH, edge_weight=None)):
        task = toy_task(graph.induced(graph.ids[:70]), model=model, epochs=2)
        unlearner = resolve(CATALOGUE, "unlearner", method).build()
        assert unlearner.supports_edge_weight
        unlearner.fit(task)
        request = Request(task.graph.ids[:4])
        retained = task.without(request)
        unlearner.unlearn(request, retained)
        answers.append(unlearner.predict(retained.query(retained.graph.ids[:9], View.FULL)))
    assert bool(torch.isfinite(answers[0]).all())
    assert not torch.allclose(*answers, atol=1e-4)
