"""Sampled neighbourhoods of batches of nodes, for graphs too large for full-batch training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import row_entries, row_starts


class NeighbourSampler:
    """Samples subgraphs around nodes, hop by hop (Hamilton et al., Inductive Representation Learning, NeurIPS 2017).

    A batch is the subgraph that its nodes and their sampled neighbours induce: all edges among them, in both
    directions, so that every layer sees an ordinary graph.

    Args:
        graph: The graph to sample from; its neighbour lists take 8 bytes per edge.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        source, target = graph.edge_index
        self._order = torch.argsort(target, stable=True)
        self._sources = source[self._order]
        self._starts = row_starts(torch.bincount(target, minlength=graph.num_nodes))
        # Position of each node in the current batch, -1 outside it; reset after each.
        self._place = torch.full((graph.num_nodes,), -1, dtype=torch.int64, device=source.device)

    def sample(self, seeds: Tensor, fanouts: Sequence[int], generator: torch.Generator) -> Graph:
        """Sample the neighbourhood of nodes.

        Args:
            seeds: int64 [b], positions in the graph, all distinct.
            fanouts: For each hop, the largest number of neighbours of a node to draw, without replacement.
            generator: The random generator, on the CPU.

        Returns:
            The induced subgraph; the seeds are its first b nodes, in their order.
        """
        nodes = self._reached(seeds, fanouts, generator)
        self._place[nodes] = torch.arange(len(nodes), device=nodes.device)
        try:
            entries, target = self._incoming(nodes)
            source = self._place[self._sources[entries]]
        finally:
            self._place[nodes] = -1
        inside = source >= 0
        weight = self.graph.weights_of(self._order[entries[inside]])
        return self.graph.cut_out(nodes, torch.stack([source[inside], target[inside]]), weight)

    def batches(self, size: int, fanouts: Sequence[int], generator: torch.Generator) -> Iterator[tuple[Graph, int]]:
        """Yield batches of all nodes with a label in random order.

        Args:
            size: Seeds of a batch; the last one may have fewer.
            fanouts: As in `sample`.
            generator: The random generator, on the CPU.

        Yields:
            The subgraph of a batch and its number of seeds.
        """
        labelled = torch.nonzero(self.graph.y >= 0)[:, 0]
        order = labelled[torch.randperm(len(labelled), generator=generator).to(labelled.device)]
        for seeds in order.split(size):
            yield self.sample(seeds, fanouts, generator), len(seeds)

    def _reached(self, seeds: Tensor, fanouts: Sequence[int], generator: torch.Generator) -> Tensor:
        """Return the seeds and, hop by hop, the new nodes drawn, ascending within a hop."""
        parts, frontier = [seeds], seeds
        self._place[seeds] = 0
        try:
            for fanout in fanouts:
                drawn = self._drawn(frontier, fanout, generator).unique()
                frontier = drawn[self._place[drawn] < 0]
                self._place[frontier] = 0
                parts.append(frontier)
        finally:
            nodes = torch.cat(parts)
            self._place[nodes] = -1
        return nodes

    def _drawn(self, nodes: Tensor, fanout: int, generator: torch.Generator) -> Tensor:
        """Draw neighbours of each node: those with the smallest random numbers, one per edge."""
        entries, owner = self._incoming(nodes)
        source = self._sources[entries]
        keys = torch.rand(len(source), generator=generator, dtype=torch.float64).to(source.device)
        # The random keys are below one, so that each node's edges stay together.
        order = torch.argsort(owner + keys)
        first = row_starts(torch.bincount(owner, minlength=len(nodes)))
        rank = torch.arange(len(order), device=nodes.device) - first[owner[order]]
        chosen: Tensor = source[order[rank < fanout]]
        return chosen

    def _incoming(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges into nodes, by their places in `_sources`, and the index in `nodes` of their targets."""
        entries, starts = row_entries(self._starts, nodes)
        owner = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), starts.diff())
        return entries, owner
