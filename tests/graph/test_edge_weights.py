"""Edge weights stay with their edges, whatever is cut out of a graph, and count in digests if there are some."""

from dataclasses import replace

import pytest
import torch
from weight_samples import by_ends, weighted, weighted_toy

from unlearnbench.errors import RefusedError
from unlearnbench.gnn import NeighbourSampler
from unlearnbench.graph import Split
from unlearnbench.graph.neighbours import neighbour_weights, neighbours
from unlearnbench.protocol import Request
from unlearnbench.protocol.poison import Poison, inject
from unlearnbench.protocol.protocol import RepetitionData
from unlearnbench.running.backends.dask_members import _graph_to_arrays
from unlearnbench.running.backends.dask_worker import _graph_of
from unlearnbench.running.backends.sealed import seal, unseal
from unlearnbench.running.checkpoints import _checksum
from unlearnbench.running.contract import GuardedInputs
from unlearnbench.task import surroundings
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task

GRAPH = weighted_toy(first_id=FIRST_ID)
ALL = by_ends(GRAPH)
CPU = torch.device("cpu")


def sparse():
    """The same with features that are mostly zero, so that subgraphs hold compressed rows."""
    return replace(GRAPH, x=torch.eye(60))


def test_every_subgraph_has_the_weights_of_its_edges():
    rng = torch.Generator().manual_seed(1)
    for graph in (GRAPH, sparse()):
        some = graph.ids[torch.randperm(60, generator=rng)[:40]]
        gone = graph.pairs()[:5]
        sampled = NeighbourSampler(graph).sample(torch.arange(4), [3, 3], rng)
        parts = list(graph.parts(some, torch.arange(40) % 3, [0, 2], graph.ids[:3]))
        cuts = [graph.induced(some), graph.without(some), graph.unlinked(gone), sampled, *parts]
        cuts += [graph.without_labels(), graph.with_features(graph.x + 1), Request(gone, "edge").apply(graph)]
        for cut in cuts:
            own = by_ends(cut)
            assert len(own) > 0
            assert own == {ends: ALL[ends] for ends in own}
        assert not {tuple(pair) for pair in gone.tolist()} & by_ends(cuts[2]).keys()
        assert graph.nodes_alone(torch.arange(3)).edge_weight.shape == (0,)


def test_a_weight_for_each_edge_or_none_at_all():
    with pytest.raises(ValueError, match=r"\[3\] edge weights for"):
        replace(GRAPH, edge_weight=torch.ones(3))
    with pytest.raises(ValueError, match="edge weights for"):
        replace(GRAPH, edge_index=GRAPH.edge_index[:, 1:])
    for graph, weight in ((GRAPH, None), (toy_graph(), torch.ones(2))):
        with pytest.raises(ValueError, match="all edges have weights or none"):
            graph.with_edges(graph.edge_index[:, :2], weight)
    with pytest.raises(ValueError, match="edge weights for"):
        GRAPH.extended(toy_graph(), torch.empty(2, 0, dtype=torch.int64))


def test_digests_count_weights_only_where_there_are_some():
    plain = toy_graph(first_id=FIRST_ID)
    # As it was before there were weights.
    assert plain.checksum() == "15e0bde0cfb3302abf06ef9e57996018fc886de9bea0c60115b08027ae1bba5a"
    other = replace(GRAPH, edge_weight=GRAPH.edge_weight * 2)
    for digest in (lambda graph: graph.checksum(), lambda graph: _checksum(replace(graph, x=torch.eye(60)))):
        assert len({digest(graph) for graph in (plain, GRAPH, other)}) == 3
        assert digest(replace(GRAPH, edge_weight=None)) == digest(plain)


def test_weights_reach_other_processes_and_transductive_training():
    for graph in (GRAPH, sparse()):
        split = Split(graph.ids[:40], graph.ids[40:50], graph.ids[50:])
        back = unseal(seal(RepetitionData(graph, split, [Request(graph.ids[:1])], "inductive"))).graph
        assert by_ends(back) == ALL
        assert by_ends(_graph_of(_graph_to_arrays(graph))) == ALL
        around = surroundings(graph, split.test, CPU)
        task = replace(toy_task(graph.induced(graph.ids[:50])), surroundings=around)
        assert by_ends(task.seen) == ALL
        left = by_ends(task.without(Request(graph.ids[:5])).seen)
        assert left == {ends: ALL[ends] for ends in ALL if min(ends) >= FIRST_ID + 5}


def test_a_method_that_changes_weights_is_refused():
    inputs, graph = GuardedInputs(), weighted(toy_graph())
    inputs.add("its graph", graph)
    graph.edge_weight[0] = 9
    with pytest.raises(RefusedError, match="its graph"):
        inputs.check()


def test_injected_edges_have_weights_of_edges_that_are_there():
    poisoned, ids = inject(GRAPH, GRAPH.ids, Poison(3, 2), torch.Generator().manual_seed(0))
    own = by_ends(poisoned)
    new = {ends: weight for ends, weight in own.items() if max(ends) >= int(ids[0])}
    assert len(new) == 12
    assert all(own[b, a] == weight and weight in ALL.values() for (a, b), weight in new.items())


def test_weights_of_neighbour_lists_are_whole_numbers():
    assert neighbour_weights(toy_graph()) is None
    edges = torch.tensor([[0, 1, 0, 2, 2], [1, 0, 2, 0, 2]])
    graph = replace(toy_graph(3), edge_index=edges, edge_weight=torch.tensor([1.0, 1.0, 4.0, 4.0, 9.0]))
    _, members = neighbours(graph)
    assert members.tolist() == [1, 2, 0, 0]
    assert neighbour_weights(graph).tolist() == [250, 1000, 250, 1000]
    tiny = replace(graph, edge_weight=torch.tensor([1e-9, 1e-9, 4.0, 4.0, 9.0]))
    assert neighbour_weights(tiny).tolist() == [1, 1000, 1, 1000]
