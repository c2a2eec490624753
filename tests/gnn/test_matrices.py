"""Matrices of propagation against PyG's, bit for bit."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops

from unlearnbench.gnn import normalised
from unlearnbench.gnn.matrices import with_loops

NODES = 6
PAIRS = st.lists(st.tuples(*[st.integers(0, NODES - 1)] * 2), max_size=20, unique=True)


def edges_of(pairs: list[tuple[int, int]], seed: int | None) -> tuple[Tensor, Tensor | None]:
    edge_index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t()
    weight = None if seed is None else torch.rand(len(pairs), generator=torch.Generator().manual_seed(seed))
    return edge_index, weight


@given(PAIRS, st.none() | st.integers(0, 99))
def test_the_matrix_of_a_gcn_is_pygs(pairs: list[tuple[int, int]], seed: int | None) -> None:
    edge_index, weight = edges_of(pairs, seed)
    index, values = gcn_norm(edge_index, weight, NODES, dtype=torch.float32)
    wanted = torch.zeros(NODES, NODES).index_put_((index[1], index[0]), values, accumulate=True)
    assert torch.equal(normalised(edge_index, NODES, weight) @ torch.eye(NODES), wanted)


@given(PAIRS, st.none() | st.integers(0, 99))
def test_every_row_has_one_loop_and_keeps_the_weight_of_its_own(pairs: list[tuple[int, int]], seed: int | None) -> None:
    edge_index, weight = edges_of(pairs, seed)
    edges, own = with_loops(edge_index, NODES, weight)
    index, values = add_remaining_self_loops(edge_index, weight, 1.0, NODES)
    assert torch.equal(edges, index)
    assert own is values is None or torch.equal(own, values)
