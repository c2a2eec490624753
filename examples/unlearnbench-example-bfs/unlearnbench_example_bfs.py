"""A partitioner that walks the graph breadth first and cuts the walk into equal parts."""

from collections import deque

import torch
from torch import Tensor
from unlearnbench import Graph, Partitioner, Register, Task, hookimpl
from unlearnbench.unlearning import neighbours


class BreadthFirst(Partitioner):
    """Cut a breadth-first walk into parts whose sizes differ by one at most.

    Nodes that are near each other are mostly in one shard, so that few edges are lost.
    """

    name = "bfs"
    version = 1
    summary = "A breadth-first walk, cut into equal parts."
    reference = "an example"

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Give each node of task.graph a shard: int64 [num_nodes]."""
        walk = breadth_first(task.graph)
        shard = torch.empty_like(walk)
        shard[walk] = torch.arange(len(walk)) * num_shards // len(walk)
        return shard


def breadth_first(graph: Graph) -> Tensor:
    """List all nodes in the order of a walk from the lowest one; each part of the graph in its turn.

    Returns:
        int64 [num_nodes], positions.
    """
    starts, adjacent = (part.tolist() for part in neighbours(graph))
    walk: list[int] = []
    met = [False] * graph.num_nodes
    for start in range(graph.num_nodes):
        waiting = deque([] if met[start] else [start])
        met[start] = True
        while waiting:
            node = waiting.popleft()
            walk.append(node)
            for other in adjacent[starts[node] : starts[node + 1]]:
                if not met[other]:
                    met[other] = True
                    waiting.append(other)
    return torch.tensor(walk, dtype=torch.int64)


@hookimpl
def register_partitioners(register: Register) -> None:
    """Register it."""
    register(BreadthFirst)
