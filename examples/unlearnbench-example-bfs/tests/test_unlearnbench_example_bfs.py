"""Whether the partitioner keeps to its contract, and whether its walk is breadth first."""

import torch
from unlearnbench import Graph
from unlearnbench.testing import PartitionerConformance

from unlearnbench_example_bfs import breadth_first


class TestBreadthFirst(PartitionerConformance):
    """`unlearnbench plugin check bfs` tells the same."""

    spec = "bfs"


def test_a_walk_worked_by_hand() -> None:
    """0 is joined to 3 and 4, 3 to 1; 2 stands alone."""
    pairs = torch.tensor([[0, 3], [0, 4], [3, 1]]).T
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    graph = Graph(torch.ones(5, 1), torch.zeros(5, dtype=torch.int64), edges, torch.arange(5), 2)
    assert breadth_first(graph).tolist() == [0, 3, 4, 1, 2]
