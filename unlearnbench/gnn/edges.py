"""Edges of attention: gathers, sums, softmax and weighted sums, each row by its own edges alone.

The bits of a row depend on this row's edges and nothing else, and every operation can be
differentiated any number of times.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from unlearnbench.graph.neighbours import row_starts

# Keeps the denominator of a softmax from zero, as `torch_geometric.utils.softmax` does.
_TINY = 1e-16


class Ends:
    """One end of every edge, its target or its source, as rows.

    Args:
        index: int64 [E], the row of each edge.
        num_rows: n.
    """

    def __init__(self, index: Tensor, num_rows: int) -> None:
        self.index = index
        self.num_rows = num_rows
        self.order = torch.sort(index, stable=True).indices
        self.starts = row_starts(torch.bincount(index, minlength=num_rows))
        # MKL takes 32-bit indices; others would be converted at every product.
        self.short_starts = self.starts.to(torch.int32)
        self.short_order = self.order.to(torch.int32)

    def take(self, rows: Tensor) -> Tensor:
        """Gather for each edge the values of its row: [n, ...] to [E, ...]."""
        gathered: Tensor = _Take.apply(rows, self)  # type: ignore[no-untyped-call]
        return gathered

    def add(self, values: Tensor) -> Tensor:
        """Sum the values of each row's edges: [E] or [E, k] to [n] or [n, k]."""
        total: Tensor = _Add.apply(values, self)  # type: ignore[no-untyped-call]
        return total


class Edges:
    """Edges ordered by target, then by source; duplicates are kept.

    Args:
        target: int64 [E].
        source: int64 [E].
        num_rows: n, for targets and sources alike.
    """

    def __init__(self, target: Tensor, source: Tensor, num_rows: int) -> None:
        order = torch.sort(target * num_rows + source, stable=True).indices
        self.targets = Ends(target[order], num_rows)
        self.sources = Ends(source[order], num_rows)
        self.ones = torch.ones(len(order), device=target.device)
        self._columns = (
            self.sources.index.to(torch.int32),
            self.targets.index[self.sources.order].to(torch.int32),
        )
        with warnings.catch_warnings():
            # torch warns once per process.
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            self.matrix(self.ones, False)

    def matrix(self, values: Tensor, turned: bool) -> Tensor:
        """Return the matrix with these values at (target, source), or its transpose.

        Args:
            values: float [E].
            turned: Whether to return the transpose.
        """
        ends, ordered = (self.sources, values.index_select(0, self.sources.order)) if turned else (self.targets, values)
        return _compressed(ends, self._columns[turned], ordered, ends.num_rows)

    def softmax(self, scores: Tensor) -> Tensor:
        """Compute the softmax of scores over the edges of each target: float [E]."""
        shares: Tensor = _Softmax.apply(scores, self)  # type: ignore[no-untyped-call]
        return shares

    def weighted_sum(self, values: Tensor, rows: Tensor, turned: bool = False) -> Tensor:
        """Sum, for each target, its sources' rows times the edges' values.

        Args:
            values: float [E].
            rows: float [n, k].
            turned: Sum for each source its targets' rows instead.

        Returns:
            float [n, k].
        """
        total: Tensor = _WeightedSum.apply(values, rows, self, turned)  # type: ignore[no-untyped-call]
        return total

    def dots(self, targets: Tensor, sources: Tensor) -> Tensor:
        """Return for each edge the dot product of its target's row in one tensor and its source's in the other.

        Returns:
            float [E].
        """
        products: Tensor = _Dots.apply(targets, sources, self)  # type: ignore[no-untyped-call]
        return products


def attention_edges(edge_index: Tensor, num_rows: int, heads: int) -> Edges:
    """Build the edges of attention: every self-loop removed, then one added for each node.

    Each head has its own row: row `node * heads + head` attends to the same head of its neighbours.
    """
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    node = torch.arange(num_rows, device=edge_index.device)
    head = torch.arange(heads, device=edge_index.device)
    rows = [(torch.cat([end, node]).unsqueeze(1) * heads + head).flatten() for end in (target, source)]
    return Edges(rows[0], rows[1], num_rows * heads)


def _compressed(ends: Ends, columns: Tensor, values: Tensor, width: int) -> Tensor:
    return torch.sparse_csr_tensor(ends.short_starts, columns, values, (ends.num_rows, width), check_invariants=False)


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, ends: Ends) -> Tensor:
        ctx.ends = ends
        return rows.index_select(0, ends.index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.ends.add(grads[0].contiguous()), None


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ends: Ends) -> Tensor:
        ctx.ends = ends
        if values.dim() == 1 and not values.is_cuda:
            return values.new_zeros(ends.num_rows).scatter_add_(0, ends.index, values)
        ones = torch.ones(len(values), dtype=values.dtype, device=values.device)
        total = _compressed(ends, ends.short_order, ones, len(values)) @ values.reshape(len(values), -1)
        return total.view(ends.num_rows, *values.shape[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.ends.take(grads[0]), None


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, edges: Edges) -> Tensor:
        ends = edges.targets
        highest = torch.segment_reduce(scores, "max", offsets=ends.starts, unsafe=True)
        shares = scores.sub(highest.index_select(0, ends.index)).exp_()
        shares.div_(ends.add(shares).add_(_TINY).index_select(0, ends.index))
        ctx.save_for_backward(shares)
        ctx.edges = edges
        return shares

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (shares,) = ctx.saved_tensors
        ends = ctx.edges.targets
        weighted = shares * grads[0]
        return weighted - shares * ends.take(ends.add(weighted)), None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor, edges: Edges, turned: bool) -> Tensor:
        ctx.save_for_backward(values, rows)
        ctx.edges, ctx.turned = edges, turned
        return edges.matrix(values, turned) @ rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        values, rows = ctx.saved_tensors
        grad = grads[0].contiguous()
        pair = (rows, grad) if ctx.turned else (grad, rows)
        return ctx.edges.dots(*pair), ctx.edges.weighted_sum(values, grad, not ctx.turned), None, None


class _Dots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, targets: Tensor, sources: Tensor, edges: Edges) -> Tensor:
        ctx.save_for_backward(targets, sources)
        ctx.edges = edges
        pattern = edges.matrix(edges.ones.to(targets.dtype), False)
        products: Tensor = torch.sparse.sampled_addmm(pattern, targets, sources.t(), beta=0.0).values()
        return products

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        targets, sources = ctx.saved_tensors
        grad = grads[0].contiguous()
        return ctx.edges.weighted_sum(grad, sources), ctx.edges.weighted_sum(grad, targets, True), None
