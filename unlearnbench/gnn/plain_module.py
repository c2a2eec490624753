"""S copies of a plugin's plain PyG module, behind the interface of a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from unlearnbench.errors import RefusedError
from unlearnbench.gnn.dropout import Noise
from unlearnbench.gnn.layout import Layout
from unlearnbench.gnn.models import Stack
from unlearnbench.graph import Graph
from unlearnbench.seeds import seed


def _inputs(graph: Graph) -> list[Tensor]:
    """Return what a module passes messages with: features, edges, and the weights of these if they have some."""
    return [graph.x, graph.edge_index, *([] if graph.edge_weight is None else [graph.edge_weight])]


@contextmanager
def global_random_state(key: int, device: torch.device) -> Iterator[None]:
    """Set the global random state, which PyG's layers and `F.dropout` read, and restore it afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices, device_type="cuda"):
        # `torch.manual_seed` would also seed GPUs whose state is not restored.
        torch.default_generator.manual_seed(key)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(key)
        yield


class OneRowError(RefusedError):
    """A module normalises over the rows of a graph, and there is one.

    Args:
        network: Its place in the stack.
    """

    def __init__(self, network: int) -> None:
        super().__init__(f"Network {network} is trained on one node, and its normalisation needs more.")
        self.network = network


class PlainStack(Stack):
    """S copies of a plugin's module, evaluated one after the other.

    Args:
        build: Builds one module from a generator.
        num_networks: S.
        num_classes: C.
    """

    def __init__(self, build: Callable[[torch.Generator], nn.Module], num_networks: int, num_classes: int) -> None:
        super().__init__(-1, num_classes)
        self._build = build
        self.copies = nn.ModuleList(self._blank() for _ in range(num_networks))

    def _blank(self) -> nn.Module:
        module = self._built(torch.Generator().manual_seed(0))
        for tensor in module.state_dict().values():
            tensor.zero_()
        return module

    def _built(self, generator: torch.Generator) -> nn.Module:
        with global_random_state(generator.initial_seed(), torch.device("cpu")):
            module = self._build(generator)
        for name in ("embed", "head"):
            if not callable(getattr(module, name, None)):
                raise RefusedError(
                    f"A model's module of class {type(module).__name__} has no method {name!r}.",
                    "Give it embed(x, edge_index) and head(h).",
                )
        return module

    def draw(self, generators: Sequence[torch.Generator]) -> None:
        """Build every network again, each from its own generator."""
        self.copies = nn.ModuleList(self._built(generator) for generator in generators)

    def fresh(self) -> Stack:
        """Return new copies that share the parameter tensors.

        A PyG layer with `cached=True` keeps the adjacency it first saw, of another graph, perhaps
        with nodes that have been forgotten.
        """
        copies = PlainStack(self._build, len(self.copies), self.num_classes)
        for copy, module in zip(copies.copies, self.copies, strict=True):
            copy.load_state_dict(module.state_dict(keep_vars=True), assign=True)
        return copies.to(next(self.parameters()).device)

    def own(self, network: int) -> dict[str, Tensor]:
        """Return views of one network's parameters and running statistics."""
        return dict(self.copies[network].state_dict())

    def embed(self, layout: Layout) -> Tensor:
        """Evaluate each copy on its graph."""
        return layout.join(
            [
                self._run(layout.noise, index, 0, module.embed, *_inputs(graph))
                for index, (module, graph) in enumerate(zip(self.copies, layout.graphs(), strict=True))
            ]
        )

    def head(self, rows: Tensor, layout: Layout) -> Tensor:
        """Evaluate each copy's head on its rows."""
        return layout.join(
            [
                self._run(layout.noise, index, 1, module.head, part)
                for index, (module, part) in enumerate(zip(self.copies, layout.split(rows, None), strict=True))
            ]
        )

    def _run(self, noise: Noise | None, index: int, stage: int, call: Any, *arguments: Tensor) -> Tensor:
        result: Tensor
        try:
            if noise is None:
                result = call(*arguments)
            else:
                with global_random_state(seed(noise.keys[index], noise.step, stage), noise.device):
                    result = call(*arguments)
        except ValueError as error:  # what torch's normalisations raise while they are trained
            if len(arguments[0]) != 1 or "more than 1" not in str(error):
                raise
            raise OneRowError(index) from error
        return result
