"""What is asked of a method's answers, and whether it left alone what it was given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from unlearnbench.errors import RefusedError
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import update
from unlearnbench.task import Query


class BrokenContractError(Exception):
    """A method gave something that is not what its kind promises."""


def check_predictions(answer: object, query: Query) -> Tensor:
    """Check what `predict` gave.

    Returns:
        The answer: floating point [len(query.targets), C], on the query's device.

    Raises:
        BrokenContractError: It is anything else.
    """
    shape = [len(query.targets), query.graph.num_classes]
    if not isinstance(answer, Tensor):
        raise BrokenContractError(f"predict() gave a {type(answer).__name__}, expected a tensor {shape}.")
    if list(answer.shape) != shape:
        raise BrokenContractError(f"predict() gave a tensor {list(answer.shape)}, expected {shape}.")
    if not answer.dtype.is_floating_point:
        raise BrokenContractError(f"predict() gave {answer.dtype}, expected log-probabilities in floating point.")
    if answer.device != query.targets.device:
        raise BrokenContractError(f"predict() gave a tensor on {answer.device}, expected {query.targets.device}.")
    return answer.detach()


def check_state(state: object, device: torch.device) -> Mapping[str, Tensor]:
    """Check what `state` gave.

    Returns:
        The state: tensors by name, on the device of the cell or the CPU.

    Raises:
        BrokenContractError: It is anything else.
    """
    if not isinstance(state, Mapping):
        raise BrokenContractError(f"state() gave a {type(state).__name__}, expected tensors by name.")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise BrokenContractError(f"state() has {name!r}: a {type(value).__name__}, expected a tensor by its name.")
        if value.device.type not in ("cpu", device.type):
            raise BrokenContractError(f"state() has {name!r} on {value.device}, expected {device}.")
    return state


class Given:
    """What a method was given in one part of a cell, and whether it is still the same."""

    def __init__(self) -> None:
        self._known: list[tuple[str, Graph | Tensor, str]] = []

    def add(self, what: str, value: Graph | Tensor) -> None:
        """Take note of a graph or a tensor before the method sees it."""
        self._known.append((what, value, _digest(value)))

    def check(self) -> None:
        """Look at all of it again, and forget it.

        Raises:
            RefusedError: The method wrote into one of them.
        """
        for what, value, digest in self._known:
            if _digest(value) != digest or not _agrees(value):
                raise RefusedError(f"The method changed {what} in place.", "Work on a copy: x = graph.x.clone().")
        self._known.clear()


def _digest(value: Graph | Tensor) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for tensor in [value] if isinstance(value, Tensor) else _tensors(value):
        update(digest, tensor)
    return digest.hexdigest()


def _tensors(graph: Graph) -> list[Tensor]:
    """List what a graph holds; features once, as sparse where it has them so: making them dense takes long."""
    rows = graph.__dict__.get("sparse_rows")
    features = [graph.x] if rows is None else [rows.starts, rows.columns, rows.values]
    return [*features, graph.y, graph.edge_index, graph.ids]


def _agrees(value: Graph | Tensor) -> bool:
    """Tell whether dense features that were read are still those of the sparse ones."""
    if isinstance(value, Tensor) or "x" not in value.__dict__:
        return True
    rows = value.__dict__.get("sparse_rows")
    return rows is None or torch.equal(value.x, rows.dense())
