import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.datasets.checks import checked_graph
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph
from unlearnbench.testing.graphs import toy_graph


def path_graph(n=7):
    ends = torch.arange(n - 1)
    edges = torch.stack([torch.cat([ends, ends + 1]), torch.cat([ends + 1, ends])])
    return Graph(torch.arange(n).float()[:, None], torch.arange(n) % 2, edges, torch.arange(n), 2)


def pairs(graph):
    return sorted((int(graph.ids[a]), int(graph.ids[b])) for a, b in graph.edge_index.t())


def test_an_unsorted_subset_keeps_features_and_edges_in_step():
    cut = path_graph().induced(torch.tensor([5, 4, 3]))
    assert cut.ids.tolist() == [5, 4, 3]
    assert cut.x[:, 0].tolist() == [5.0, 4.0, 3.0]
    assert pairs(cut) == [(3, 4), (4, 3), (4, 5), (5, 4)]


def test_forgetting_keeps_nodes_that_become_isolated():
    graph = Graph(
        torch.ones(5, 1), torch.zeros(5, dtype=torch.int64), torch.tensor([[0, 1], [1, 0]]), torch.arange(5), 1
    )
    left = graph.without(torch.tensor([1]))
    assert left.ids.tolist() == [0, 2, 3, 4]
    assert left.num_edges == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 5))
def test_induced_subgraphs_hold_exactly_the_edges_inside(seed, n, factor):
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randperm(10 * n, generator=rng)[:n]
    edges = torch.randint(n, (2, factor * n), generator=rng)
    graph = Graph(ids[:, None].float(), ids % 3, edges, ids, 3)
    chosen = ids[torch.randperm(n, generator=rng)[: int(torch.randint(1, n + 1, (1,), generator=rng))]]
    cut = graph.induced(chosen)
    inside = set(chosen.tolist())
    assert pairs(cut) == [pair for pair in pairs(graph) if set(pair) <= inside]
    assert torch.equal(cut.x[:, 0].long(), chosen)
    assert torch.equal(cut.y, chosen % 3)
    assert sorted(graph.without(chosen).ids.tolist()) == sorted(set(ids.tolist()) - inside)


def test_an_id_that_is_no_node_is_named():
    with pytest.raises(DataError, match="the first is 99"):
        path_graph().positions(torch.tensor([1, 99]))
    assert path_graph().contains(torch.tensor([1, 99, -1])).tolist() == [True, False, False]


def test_the_checksum_sees_every_part():
    graph = toy_graph()
    sums = {graph.checksum(), toy_graph(first_id=1).checksum(), toy_graph(seed=1).checksum()}
    changed = graph.x.clone()
    changed[3, 1] += 1e-3
    sums.add(Graph(changed, graph.y, graph.edge_index, graph.ids, 3).checksum())
    sums.add(Graph(graph.x, graph.y, graph.edge_index, graph.ids, 4).checksum())
    assert len(sums) == 5
    assert graph.checksum() == toy_graph().checksum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y, e, i: (x[:, :0], y, e, i), "at least 1"),
        (lambda x, y, e, i: (x, y[:-1], e, i), "labels have shape"),
        (
            lambda x, y, e, i: (torch.where(torch.arange(60)[:, None] == 1, float("nan"), x), y, e, i),
            "node 1, column 0",
        ),
        (lambda x, y, e, i: (x, y + 1, e, i), "label 3 with 3 classes"),
        (lambda x, y, e, i: (x, y, torch.tensor([[0], [60]]), i), "joins 0 and 60"),
        (lambda x, y, e, i: (x, y, e, i * 0), "occur twice"),
    ],
)
def test_a_broken_graph_is_refused_by_name(change, message):
    graph = toy_graph()
    broken = Graph(*change(graph.x, graph.y, graph.edge_index, graph.ids), 3)
    with pytest.raises(DataError, match=message) as error:
        checked_graph(broken, "mine")
    assert "mine" in str(error.value)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6), st.booleans())
def test_parts_are_what_is_induced_group_by_group(seed, n, groups, with_common):
    rng = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, n, (2, 4 * n), generator=rng)
    graph = Graph(torch.rand(n, 2, generator=rng), torch.arange(n) % 2, edge_index, 10 * torch.arange(n) + 3, 2)
    ids = graph.ids[torch.randperm(n, generator=rng)][: 1 + 2 * n // 3]
    group = torch.randint(0, groups, (len(ids),), generator=rng)
    # Nodes that stand in every part: some in a group, some in none.
    common = graph.ids[torch.randperm(n, generator=rng)][: n // 3] if with_common else None
    wanted = list(range(groups))[::-1][:3]
    for number, part in zip(wanted, graph.parts(ids, group, wanted, common), strict=True):
        own = ids[group == number]
        others = own[:0] if common is None else common[~torch.isin(common, own)]
        alone = graph.induced(torch.cat([own, others]))
        for name in ("ids", "x", "y", "edge_index"):
            assert torch.equal(getattr(part, name), getattr(alone, name))
