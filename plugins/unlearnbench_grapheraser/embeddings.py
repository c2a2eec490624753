"""Node embeddings for `bekm` to cluster: propagated features, or outputs of a trained network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from unlearnbench import Task, UnlearnbenchError, train_networks
from unlearnbench.gnn import normalised, sparse

Embedding = Literal["propagated", "logits", "hidden"]
Product = Callable[[Tensor], Tensor]

# Oversampling and number of subspace iterations (Halko, Martinsson and Tropp 2011, algorithms 4.4
# and 5.3): the spectrum of propagated word counts decays slowly, so both are generous.
OVERSAMPLING = 16
ITERATIONS = 6


def embed(task: Task, embedding: Embedding, components: int) -> Tensor:
    """Embed the training nodes of a task.

    Args:
        task: The task; only its graph is embedded.
        embedding: `propagated`: the principal components of A A X, where A is the adjacency
            matrix with self-loops, normalised as in GCN. `logits`: log-probabilities of one
            network of the task's base model, trained on the whole training graph. `hidden`:
            the output of the last message-passing layer of that network.
        components: Largest number of principal components of `propagated`.

    Returns:
        float32 [n, d].

    Raises:
        UnlearnbenchError: An embedding is not finite.
    """
    if embedding == "propagated":
        graph, generator = task.graph, task.generator("bekm", "components")
        result = propagated(graph.x, graph.edge_index, components, generator, graph.edge_weight)
    else:
        networks = train_networks(task, [task.graph], [0], role="embedder")
        hidden, logits = networks.predict([task.graph])[0]
        result = hidden if embedding == "hidden" else torch.log_softmax(logits, dim=-1)
    return _finite(result.detach())


def _finite(values: Tensor) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise UnlearnbenchError(
            "bekm: a node's embedding is not finite, so there are no distances to cluster by.",
            "Scale the features, lower the learning rate, or choose another embedding.",
        )
    return values


def propagated(
    x: Tensor, edge_index: Tensor, components: int, generator: torch.Generator, edge_weight: Tensor | None = None
) -> Tensor:
    """Return the leading principal components of the features after two propagations.

    The propagated matrix itself is never formed: the cost is a few dozen products with A and X, the
    memory O(E + n + F) times the number of components.

    Args:
        x: float32 [n, F].
        edge_index: int64 [2, E].
        components: Largest number to keep; fewer if n or F is smaller.
        generator: Draws the initial subspace.
        edge_weight: float32 [E]; None: every edge counts 1.

    Returns:
        float32 [n, min(components, n, F)].
    """
    adjacency = normalised(edge_index, x.shape[0], edge_weight)
    backward = adjacency.t()
    if sparse.is_sparse_enough(x):
        features = sparse.from_dense(x)
        flipped = features.t()
        forward, transposed = features.__matmul__, flipped.__matmul__
    else:
        forward, transposed = x.__matmul__, x.t().__matmul__
    return principal_scores(
        lambda right: adjacency @ (adjacency @ forward(right)),
        lambda left: transposed(backward @ (backward @ left)),
        (x.shape[0], x.shape[1]),
        components,
        generator,
        x.device,
    )


def principal_scores(
    forward: Product,
    transposed: Product,
    shape: tuple[int, int],
    components: int,
    generator: torch.Generator,
    device: torch.device,
) -> Tensor:
    """Return the scores of a matrix B on its leading principal components, by subspace iteration.

    Exact, up to rounding, if `components` plus the oversampling reaches min(n, F).

    Args:
        forward: Multiplies B by a dense [F, k].
        transposed: Multiplies the transpose of B by a dense [n, k].
        shape: (n, F).
        components: Number of components.
        generator: A CPU generator.
        device: The device of B.

    Returns:
        float32 [n, min(components, n, F)], columns by descending variance, each of mean 0.

    Raises:
        UnlearnbenchError: The products overflow.
    """
    n, num_features = shape
    kept = min(components, n, num_features)
    width = min(kept + OVERSAMPLING, n, num_features)
    mean = transposed(torch.full((n, 1), 1.0 / n, device=device))

    def centred(right: Tensor) -> Tensor:
        return forward(right) - mean.t() @ right

    def centred_transposed(left: Tensor) -> Tensor:
        return transposed(left) - mean * left.sum(dim=0)

    basis = torch.randn(num_features, width, generator=generator).to(device)
    left = torch.linalg.qr(centred(basis)).Q
    for _ in range(ITERATIONS):
        right = torch.linalg.qr(centred_transposed(left)).Q
        left = torch.linalg.qr(centred(right)).Q
    # B B' restricted to the subspace is small: its eigenvectors rotate the basis to the principal directions.
    within = _finite(centred_transposed(left)).double()
    values, vectors = torch.linalg.eigh(within.t() @ within)
    leading = vectors[:, -kept:].flip(1) * values[-kept:].flip(0).clamp(min=0).sqrt()
    scores: Tensor = left.double() @ leading
    return scores.float()
