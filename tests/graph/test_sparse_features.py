import copy
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.gnn.sparse import block_diagonal, from_entries
from unlearnbench.graph import Graph
from unlearnbench.graph.sparse_features import SPARSE_BELOW, SparseRows, compressed, is_sparse_enough
from unlearnbench.task import View, make_query

CPU = torch.device("cpu")


def random_graph(seed, n, columns, density):
    """Every entry that is not zero is another number, so that each tells where it comes from."""
    rng = torch.Generator().manual_seed(seed)
    numbers = 1 + torch.arange(n * columns, dtype=torch.float32).reshape(n, columns)
    x = numbers * (torch.rand(n, columns, generator=rng) < density)
    ids = 10**6 + torch.randperm(10 * n, generator=rng)[:n]
    return Graph(x, ids % 3, torch.randint(n, (2, 3 * n), generator=rng), ids, 3)


def some(graph, seed, count):
    rng = torch.Generator().manual_seed(seed + 1)
    return graph.ids[torch.randperm(graph.num_nodes, generator=rng)[:count]]


def assert_same_rows(one: SparseRows, other: SparseRows):
    assert one.num_columns == other.num_columns
    for name in ("starts", "columns", "values"):
        found, expected = getattr(one, name), getattr(other, name)
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected), name


sizes = st.integers(1, 25)
densities = st.sampled_from([0.0, 0.02, 0.1, 0.14, 0.3, 1.0])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), sizes, st.integers(1, 12), densities, st.integers(0, 25))
def test_rows_picked_are_those_of_the_dense_rows(seed, n, columns, density, count):
    graph = random_graph(seed, n, columns, density)
    rows = compressed(graph.x)
    assert torch.equal(rows.dense(), graph.x)
    assert rows.is_sparse_enough() == is_sparse_enough(graph.x)
    at = graph.positions(some(graph, seed, count))
    assert_same_rows(rows.take(at), compressed(graph.x[at]))
    assert torch.equal(rows.take(at).dense(), graph.x[at])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), sizes, st.integers(1, 12), densities, st.integers(0, 25))
def test_a_subgraph_of_a_subgraph_has_the_rows_of_its_dense_features(seed, n, columns, density, count):
    graph = random_graph(seed, n, columns, density)
    left = graph.without(some(graph, seed, n // 3))
    chosen = some(left, seed, count)
    cut = left.induced(chosen).without_labels().to(CPU)
    expected = graph.x[graph.positions(chosen)]
    assert cut.num_features == columns
    assert (cut.sparse_rows is not None) == is_sparse_enough(expected)
    if cut.sparse_rows is not None:
        assert_same_rows(cut.sparse_rows, compressed(expected))
    assert torch.equal(cut.x, expected)
    assert bool((cut.y == -1).all())


def test_dense_features_are_made_when_they_are_read_and_not_before():
    graph = random_graph(0, 30, 40, 0.05)
    cut = graph.induced(graph.ids[:10]).without_labels()
    assert (cut.num_features, cut.num_nodes) == (40, 10)
    assert not any(tensor.shape == (10, 40) for tensor in vars(cut).values() if isinstance(tensor, torch.Tensor))
    assert torch.equal(cut.x, graph.x[:10])
    assert cut.x is cut.x
    for again in (copy.deepcopy(cut), pickle.loads(pickle.dumps(cut))):
        assert torch.equal(again.x, cut.x)
        assert_same_rows(again.sparse_rows, cut.sparse_rows)


def test_each_subgraph_decides_by_its_own_features():
    x = torch.zeros(20, 10)
    x[:4] = 1 + torch.rand(4, 10)
    ids = torch.arange(20)
    dense = Graph(x, ids % 2, torch.zeros(2, 0, dtype=torch.int64), ids, 2)
    assert dense.sparse_rows is None
    sparse = dense.without(ids[:2])
    assert sparse.sparse_rows is not None
    assert sparse.induced(ids[2:4]).sparse_rows is None
    assert torch.equal(sparse.induced(ids[2:4]).x, x[2:4])


@pytest.mark.parametrize("density", [0.05, 1.0])
def test_other_features_in_place_of_sparse_ones_are_used(density):
    graph = random_graph(3, 30, 20, 0.05)
    cut = graph.induced(graph.ids[:12])
    assert cut.sparse_rows is not None
    other = replace(cut, x=random_graph(4, 12, 7, density).x)
    assert (other.sparse_rows is not None) == (density < SPARSE_BELOW)
    assert other.num_features == other.without_labels().num_features == other.to(CPU).num_features == 7
    assert torch.equal(other.without_labels().x, other.x)


def test_nothing_of_forgotten_nodes_can_be_reached_from_what_is_left():
    graph = random_graph(5, 60, 30, 0.1)
    forgotten = some(graph, 5, 20)
    entries = graph.x[graph.positions(forgotten)]
    left = graph.without(forgotten)
    targets = left.ids[:5]
    query = make_query(left, left.ids[5:], targets, View.SHARD, CPU)
    member = query.context(left.ids[10:30])
    for held in (left, left.without_labels(), query, member):
        found = list(reachable_tensors(held))
        assert any(bool(torch.isin(tensor.double(), left.x[left.x > 0].double()).any()) for tensor in found)
        for tensor in found:
            assert not bool(torch.isin(tensor.double(), entries[entries > 0].double()).any())
            assert not bool(torch.isin(tensor.double(), forgotten.double()).any())
    # The search would find them: it does in the graph they were cut from.
    assert any(bool(torch.isin(t.double(), forgotten.double()).any()) for t in reachable_tensors(graph))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 8), min_size=1, max_size=4), densities)
def test_a_block_diagonal_matrix_is_that_of_the_dense_features(seed, heights, density):
    blocks = [random_graph(seed + number, height, 5, density).x for number, height in enumerate(heights)]
    # Every second place is left empty: there stand networks whose features count as dense.
    places, num_places = [2 * number for number in range(len(blocks))], 2 * len(blocks)
    matrix = block_diagonal([compressed(block) for block in blocks], places, num_places)
    dense = torch.zeros(sum(heights), 5 * num_places)
    at = 0
    for place, block in zip(places, blocks, strict=True):
        dense[at : at + len(block), 5 * place : 5 * place + 5] = block
        at += len(block)
    row, column = torch.nonzero(dense, as_tuple=True)
    expected = from_entries(row, column, dense[row, column], (len(dense), dense.shape[1])).csr
    assert matrix.shape == tuple(dense.shape)
    for part in ("crow_indices", "col_indices", "values"):
        assert getattr(matrix.csr, part)().dtype == getattr(expected, part)().dtype
        assert torch.equal(getattr(matrix.csr, part)(), getattr(expected, part)())
