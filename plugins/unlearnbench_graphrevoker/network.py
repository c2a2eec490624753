"""The partition network psi: two SAGE convolutions, two linear layers, a softmax over shards."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from unlearnbench.gnn import SparseMatrix, sparse

Features = Tensor | SparseMatrix


def neighbour_mean(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> SparseMatrix:
    """Return the matrix whose product with h averages h over the sources of each node's incoming edges.

    Args:
        edge_index: int64 [2, E].
        num_nodes: N.
        edge_weight: float32 [E], weights of the average; None: all 1.

    Returns:
        [N, N], float32; the row of a node without neighbours is empty.
    """
    target = edge_index[1]
    if edge_weight is None:
        degree = torch.bincount(target, minlength=num_nodes).to(torch.float32)
        return sparse.from_edges(edge_index, num_nodes, degree.reciprocal()[target])
    total = edge_weight.new_zeros(num_nodes).index_add_(0, target, edge_weight)
    return sparse.from_edges(edge_index, num_nodes, edge_weight / total[target])


def uniform_parameter(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> nn.Parameter:
    """Draw a weight or bias uniformly from +-1/sqrt(fan_in), the rule of PyG's and torch's linear layers."""
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))


class Linear(nn.Module):
    """A linear layer with its weight stored as [in, out].

    Args:
        fan_in: Number of inputs.
        fan_out: Number of outputs.
        generator: Draws the initial weights.
        bias: Whether to add a bias.
    """

    def __init__(self, fan_in: int, fan_out: int, generator: torch.Generator, bias: bool = True) -> None:
        super().__init__()
        self.weight = uniform_parameter((fan_in, fan_out), fan_in, generator)
        self.bias = uniform_parameter((fan_out,), fan_in, generator) if bias else None

    def forward(self, h: Features) -> Tensor:
        """Map [n, in] to [n, out]; the input may be sparse."""
        if isinstance(h, Tensor) and self.bias is not None:
            return torch.addmm(self.bias, h, self.weight)
        product: Tensor = h @ self.weight
        return product if self.bias is None else product + self.bias


class MeanConvolution(nn.Module):
    """GraphSAGE with mean aggregation, equal to PyG's `SAGEConv` given the same weights.

    Neighbours are mapped before averaging, which is equivalent, and nothing but the input has to be
    kept for the backward pass.

    Args:
        fan_in: Number of inputs.
        fan_out: Number of outputs.
        generator: Draws the initial weights.
    """

    def __init__(self, fan_in: int, fan_out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.neighbours = Linear(fan_in, fan_out, generator, bias=False)
        self.own = Linear(fan_in, fan_out, generator)

    def forward(self, h: Features, mean: SparseMatrix, averaged: Tensor | None = None) -> Tensor:
        """Map [n, in] to [n, out].

        Args:
            h: float32 [n, in], dense or sparse.
            mean: [n, n], from `neighbour_mean`.
            averaged: float32 [n, in], `mean @ h`, if it is known already.
        """
        of_neighbours: Tensor = mean @ self.neighbours(h) if averaged is None else self.neighbours(averaged)
        of_itself: Tensor = self.own(h)
        return of_neighbours + of_itself


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of the network at every step.

    Args:
        x: [n, F], dense or sparse.
        mean: [n, n], from `neighbour_mean`.
        averaged: float32 [n, F], `mean @ x`, or None where it is not faster.
    """

    x: Features
    mean: SparseMatrix
    averaged: Tensor | None = None


def prepare_inputs(x: Tensor, edge_index: Tensor, hidden: int, edge_weight: Tensor | None = None) -> Inputs:
    """Return the fastest form of the first layer's inputs.

    Args:
        x: float32 [n, F].
        edge_index: int64 [2, E].
        hidden: Width of the first layer.
        edge_weight: float32 [E]; None: all 1.
    """
    mean = neighbour_mean(edge_index, x.shape[0], edge_weight)
    if sparse.is_sparse_enough(x):
        return Inputs(sparse.from_dense(x), mean)
    # Averaging narrow features once before training saves the first layer its products with the adjacency;
    # for wide ones there is no measurable gain and the copy takes memory.
    return Inputs(x, mean, mean @ x if x.shape[1] <= hidden else None)


class PartitionNetwork(nn.Module):
    """The network psi, which outputs the probabilities of the shards for each node.

    Args:
        num_features: Number of inputs.
        hidden: Width of the three hidden layers.
        num_shards: S.
        generator: Draws the initial weights.
        temperature: Divides the outputs before the softmax.
        mix: Share of the uniform distribution in the result.
    """

    def __init__(
        self,
        num_features: int,
        hidden: int,
        num_shards: int,
        generator: torch.Generator,
        temperature: float = 1.0,
        mix: float = 0.0,
    ) -> None:
        super().__init__()
        self.first = MeanConvolution(num_features, hidden, generator)
        self.second = MeanConvolution(hidden, hidden, generator)
        self.third = Linear(hidden, hidden, generator)
        self.last = Linear(hidden, num_shards, generator)
        self.num_shards = num_shards
        self.temperature = temperature
        self.mix = mix

    def forward(self, inputs: Inputs) -> Tensor:
        """Return P: float32 [n, S], rows sum to one."""
        h = gelu(self.first(inputs.x, inputs.mean, inputs.averaged))
        return self.shares(gelu(self.second(h, inputs.mean)))

    def shares(self, h: Tensor) -> Tensor:
        """Return P, float32 [n, S], from the outputs of the convolutions, float32 [n, hidden]."""
        h = gelu(self.third(h))
        assignment = torch.softmax(self.last(h) / self.temperature, dim=1)
        return assignment if self.mix == 0 else (1 - self.mix) * assignment + self.mix / self.num_shards


@torch.no_grad()
def assignment_in_chunks(
    network: PartitionNetwork, x: Tensor, edge_index: Tensor, chunk: int = 2**16, edge_weight: Tensor | None = None
) -> Tensor:
    """Return P of all nodes, layer by layer and chunk by chunk; equal to `forward` up to rounding.

    Only the first hidden layer is held for all nodes at once.

    Args:
        network: The network.
        x: float32 [n, F].
        edge_index: int64 [2, E].
        chunk: Number of nodes computed together.
        edge_weight: float32 [E]; None: all 1.

    Returns:
        float32 [n, S].
    """
    n = x.shape[0]
    mean = neighbour_mean(edge_index, n, edge_weight)
    places = [(start, min(start + chunk, n)) for start in range(0, n, chunk)]
    hidden = x.new_empty(n, network.third.weight.shape[0])
    for first, last in places:
        rows = mean.rows(first, last)
        hidden[first:last] = gelu(network.first(x[first:last], rows, rows @ x))
    result = x.new_empty(n, network.num_shards)
    for first, last in places:
        rows = mean.rows(first, last)
        result[first:last] = network.shares(gelu(network.second(hidden[first:last], rows, rows @ hidden)))
    return result
