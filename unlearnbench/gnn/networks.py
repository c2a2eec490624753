"""S trained networks: their outputs, and replacing some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.gnn.dropout import Noise
from unlearnbench.gnn.layout import Layout, Ragged, Shared
from unlearnbench.gnn.matrices import Matrices
from unlearnbench.gnn.models import Stack
from unlearnbench.graph import Graph

# On one graph, networks are evaluated a few at a time, so that the concatenated outputs of a layer
# have about this many numbers and stay in the cache.
_SHARED_NUMBERS = 2**20

Answers = list[tuple[Tensor, Tensor]]
# From a layer's output, [rows of all networks, columns], to what is passed on instead.
Change = Callable[[Tensor], Tensor]


class Answering(Protocol):
    """Networks bound to graphs, for repeated evaluation."""

    def __call__(self, changes: Mapping[str, Change] | None = None) -> Answers:
        """Evaluate as `Networks.answers` does."""
        ...


class Networks:
    """S networks of one base model.

    Args:
        make: Builds a stack of a number of networks, all parameters zero.
        stack: The parameters.
        num_networks: S.
    """

    def __init__(self, make: Callable[[int], Stack], stack: Stack, num_networks: int) -> None:
        self._make = make
        self._stack = stack
        self.num_networks = num_networks

    def predict(self, graphs: Sequence[Graph], networks: Sequence[int] | None = None) -> list[tuple[Tensor, Tensor]]:
        """Evaluate networks, each on its own graph.

        Args:
            graphs: One per network.
            networks: Which networks; default: all.

        Returns:
            For each network, embeddings [n_i, d] and logits [n_i, C] of all nodes of its graph.
        """
        if networks is None or list(networks) == list(range(self.num_networks)):
            return self._evaluate(Ragged(graphs))
        return self._only(networks).predict(graphs)

    def answers(
        self, graphs: Sequence[Graph], noise: Noise | None = None, changes: Mapping[str, Change] | None = None
    ) -> Answers:
        """Evaluate all networks, each on its own graph, differentiably by `parameters`, to second order too.

        Args:
            graphs: One per network.
            noise: Source of dropout, one stream per network, its `step` set by the caller: the
                networks are evaluated as in training. None: as in `predict`, without dropout, with the same bits.
            changes: For layers of `convolutions`, by name: a function applied to the layer's output
                before its activation.

        Returns:
            As `predict`, with gradients.
        """
        return self.answering(graphs, noise)(changes)

    def answering(self, graphs: Sequence[Graph], noise: Noise | None = None) -> Answering:
        """Return a function that evaluates as `answers` does, with the same bits, for repeated use of the same graphs.

        What depends on the graphs alone is computed once. Parameters and `noise.step` are read at each call.
        """
        # Without buffers, so that one pass may be differentiated again and again and all results kept.
        layout = Ragged(graphs, noise, buffered=False)

        def evaluate(changes: Mapping[str, Change] | None = None) -> Answers:
            return self._answer(layout, changes or {})

        return evaluate

    def convolutions(self) -> dict[str, int]:
        """Return the layers whose outputs `changes` can modify, with their columns: see `Stack.convolutions`."""
        return self._stack.convolutions()

    def parameters(self) -> list[Tensor]:
        """Return the trained tensors, to differentiate by and to change in place under `torch.no_grad`.

        Those of stacked models hold all networks, [S, ...], and are padded with zeros. Gradients
        are zero in the padding, so that gradient steps leave it unchanged; anything else that is
        added must be zero there too, which `entries` shows.
        """
        return [parameter for parameter in self._stack.parameters() if parameter.requires_grad]

    def entries(self) -> list[Tensor]:
        """Return masks of the same shapes as `parameters`: bool, False in the padding."""
        full = Networks(self._make, self._make(self.num_networks), self.num_networks)
        for network in range(self.num_networks):
            for view in full._stack.own(network).values():
                view.fill_(1)
        return [parameter.detach() > 0 for parameter in full.parameters()]

    def copy(self) -> Networks:
        """Return networks with copies of the parameters."""
        return self._only(range(self.num_networks))

    def _only(self, networks: Sequence[int]) -> Networks:
        chosen = Networks(self._make, self._make(len(networks)), len(networks))
        for place, network in enumerate(networks):
            chosen.put(place, self._stack.own(network))
        return chosen

    def predict_shared(self, graph: Graph, at: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate all networks on one graph.

        Args:
            graph: The graph to pass messages over.
            at: int64 [n], positions of the nodes to predict.

        Returns:
            Embeddings [S, n, d] and logits [S, n, C] of these nodes.
        """
        answers = list(self.each_shared(graph, at))
        return torch.stack([embedding for embedding, _ in answers]), torch.stack([logits for _, logits in answers])

    def each_shared(self, graph: Graph, at: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Evaluate all networks on one graph and yield the outputs of each in turn: [n, d] and [n, C]."""
        width = max(self._stack.embedding_size, 0) * graph.num_nodes
        at_once = min(max(_SHARED_NUMBERS // width, 1), self.num_networks) if width else self.num_networks
        matrices = Matrices(graph.edge_index, graph.num_nodes, graph.edge_weight)
        for networks in torch.arange(self.num_networks).split(at_once):
            part = self if len(networks) == self.num_networks else self._only(networks.tolist())
            yield from part._evaluate_shared(Shared(graph, len(networks), matrices), at)

    @torch.no_grad()
    def _evaluate(self, layout: Ragged) -> list[tuple[Tensor, Tensor]]:
        return self._answer(layout)

    def _answer(self, layout: Ragged, changes: Mapping[str, Change] | None = None) -> Answers:
        stack = self._stack.fresh().train(layout.noise is not None)
        with _changed(stack, changes or {}):
            rows = stack.embed(layout)
        return _answers(stack, rows, layout)

    @torch.no_grad()
    def _evaluate_shared(self, layout: Shared, at: Tensor) -> Answers:
        stack = self._stack.fresh().eval()
        # A head passes no messages: it is needed only for the nodes to predict.
        return _answers(stack, *layout.only(stack.embed(layout), at))

    def state(self, network: int) -> dict[str, Tensor]:
        """Return copies of one network's parameters and running statistics, by name."""
        return {name: view.clone() for name, view in self._stack.own(network).items()}

    def replace(self, networks: Sequence[int], others: Networks) -> None:
        """Replace the named networks by those of `others`, in their order."""
        for place, network in enumerate(networks):
            self.put(network, others._stack.own(place))

    def put(self, network: int, values: Mapping[str, Tensor]) -> None:
        """Copy parameters and running statistics, as `state` returns them, into one network."""
        for name, view in self._stack.own(network).items():
            view.copy_(values[name])

    def erase(self, networks: Sequence[int]) -> None:
        """Set every parameter of the named networks to zero."""
        for network in networks:
            for view in self._stack.own(network).values():
                view.zero_()


def _answers(stack: Stack, rows: Tensor, layout: Layout) -> Answers:
    width = stack.embedding_size if stack.embedding_size > 0 else None
    embeddings = layout.split(rows, width)
    logits = layout.split(stack.head(rows, layout), stack.num_classes)
    return list(zip(embeddings, logits, strict=True))


@contextmanager
def _changed(stack: Stack, changes: Mapping[str, Change]) -> Iterator[None]:
    columns = stack.convolutions()

    def hook(width: int, change: Change) -> Callable[..., Tensor]:
        return lambda module, inputs, rows: functional.pad(change(rows[:, :width]), (0, rows.shape[1] - width))

    handles = [
        stack.get_submodule(name).register_forward_hook(hook(columns[name], change)) for name, change in changes.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
