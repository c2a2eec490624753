"""Copies of the retained nodes' rows, laid out so that a forgotten node leaves no trace, not even a gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlearnbench import Graph
from unlearnbench.unlearning import neighbours, row_entries, row_starts
from unlearnbench_tally.features import Features
from unlearnbench_tally.whole import integer_type

# A request rewrites the blocks of its nodes.
_NUM_BLOCKS = 256


@dataclass(frozen=True, eq=False)
class Block:
    """Nodes in the order of their ids.

    Args:
        ids: int64 [m], ascending.
        labels: int64 [m].
        rows: Whole numbers [m, w].
        starts: int64 [m + 1], where each node's neighbours begin.
        adjacent: int64 [k], ids of neighbours.
    """

    ids: Tensor
    labels: Tensor
    rows: Tensor
    starts: Tensor
    adjacent: Tensor

    def without(self, at: Tensor) -> Block:
        """Return the block without the nodes at some positions."""
        kept = torch.ones(len(self.ids), dtype=torch.bool, device=at.device)
        kept[at] = False
        entries, starts = row_entries(self.starts, torch.nonzero(kept)[:, 0])
        return Block(self.ids[kept], self.labels[kept], self.rows[kept], starts, self.adjacent[entries])

    def unlinked(self, at: Tensor, others: Tensor) -> Block:
        """Return the block without some neighbours.

        Args:
            at: int64 [k], positions of nodes.
            others: int64 [k], the id of a neighbour of each.
        """
        names = others.unique()
        row = torch.repeat_interleave(torch.arange(len(self.ids), device=at.device), self.starts.diff())
        place = torch.searchsorted(names, self.adjacent).clamp(max=len(names) - 1)
        gone = torch.isin(row * len(names) + place, at * len(names) + torch.searchsorted(names, others))
        kept = ~(gone & (names[place] == self.adjacent))
        starts = row_starts(torch.bincount(row[kept], minlength=len(self.ids)))
        return Block(self.ids, self.labels, self.rows, starts, self.adjacent[kept])


class Held:
    """Rows, labels and neighbours by id, in blocks of ids that are equal modulo a constant.

    A block depends on the nodes in it alone, so that blocks that are cut are those of a run that never saw what
    was cut: the layout has no history.
    """

    def __init__(self, graph: Graph, features: Features, with_neighbours: bool) -> None:
        """Copy the nodes of a graph, their neighbours only if asked for."""
        starts, adjacent = neighbours(graph) if with_neighbours else (graph.ids.new_zeros(graph.num_nodes + 1),) * 2
        order = torch.argsort(graph.ids)
        self._blocks = {}
        for number, which in _by_block(graph.ids[order]):
            at = order[which]
            entries, of_node = row_entries(starts, at)
            rows = features.dense(graph, at).to(integer_type(features.bits))
            self._blocks[number] = Block(graph.ids[at], graph.y[at], rows, of_node, graph.ids[adjacent[entries]])

    @property
    def blocks(self) -> list[Block]:
        """The blocks, each with at least one node."""
        return list(self._blocks.values())

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the rows of nodes: whole numbers [m, w]."""
        return self._gathered(nodes, "rows")

    def labels(self, nodes: Tensor) -> Tensor:
        """Return the labels of nodes: int64 [m]."""
        return self._gathered(nodes, "labels")

    def lists(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many neighbours each node has, int64 [m], and these one list after the other, int64 [k]."""
        counts, pieces, places = torch.zeros_like(nodes), [nodes[:0]], [nodes[:0]]
        for number, which, at in self._located(nodes):
            entries, starts = row_entries(self._blocks[number].starts, at)
            counts[which] = starts.diff()
            pieces.append(self._blocks[number].adjacent[entries])
            places.append(torch.repeat_interleave(which, starts.diff()))
        return counts, torch.cat(pieces)[torch.argsort(torch.cat(places), stable=True)]

    def drop(self, nodes: Tensor) -> None:
        """Remove nodes; their neighbours must be unlinked, too."""
        for number, _, at in self._located(nodes):
            block = self._blocks[number].without(at)
            if len(block.ids):
                self._blocks[number] = block
            else:
                del self._blocks[number]

    def unlink(self, nodes: Tensor, others: Tensor) -> None:
        """Remove a neighbour from the list of each node."""
        for number, which, at in self._located(nodes):
            self._blocks[number] = self._blocks[number].unlinked(at, others[which])

    def exchange(self, nodes: Tensor, rows: Tensor) -> None:
        """Replace the rows of nodes by whole numbers [m, w]."""
        for number, which, at in self._located(nodes):
            block = self._blocks[number]
            own = block.rows.clone()
            own[at] = rows[which].to(own.dtype)
            self._blocks[number] = replace(block, rows=own)

    def _gathered(self, nodes: Tensor, name: str) -> Tensor:
        like: Tensor = getattr(self.blocks[0], name)
        result = like.new_empty(len(nodes), *like.shape[1:])
        for number, which, at in self._located(nodes):
            result[which] = getattr(self._blocks[number], name)[at]
        return result

    def _located(self, nodes: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield for each block that has some of the nodes: its number, which nodes, and their positions in it."""
        for block, which in _by_block(nodes):
            yield block, which, torch.searchsorted(self._blocks[block].ids, nodes[which])


def _by_block(ids: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield the number of each block that has some of the ids, ascending, and their positions in their order."""
    order = torch.argsort(ids % _NUM_BLOCKS, stable=True)
    numbers, sizes = (ids[order] % _NUM_BLOCKS).unique_consecutive(return_counts=True)
    yield from zip(numbers.tolist(), order.split(sizes.tolist()), strict=True)
