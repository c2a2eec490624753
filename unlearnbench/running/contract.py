"""Checks of what a method returns, and that it does not change its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from unlearnbench.errors import BrokenContractError, RefusedError
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import update
from unlearnbench.task import Query

# How far the logarithm of a row's sum may be from 0.
_SLACK = 1e-3


def check_predictions(answer: object, query: Query) -> Tensor:
    """Check that `predict` returned log-probabilities, floating point [len(query.targets), C], on the query's device.

    Raises:
        BrokenContractError: It did not.
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
    answer = answer.detach()
    totals = answer.double().logsumexp(dim=1)
    # Rows that are not finite are another matter: the cell has diverged.
    wrong = totals[answer.isfinite().all(dim=1) & (totals.abs() > _SLACK)]
    if len(wrong):
        raise BrokenContractError(
            f"predict() gave rows that are no log-probabilities: of one the probabilities sum to"
            f" {float(wrong[0].exp()):.3g}. Return log_softmax."
        )
    return answer


def check_state(state: object, device: torch.device) -> Mapping[str, Tensor]:
    """Check that `state` returned tensors by name, on the device of the cell or the CPU.

    Raises:
        BrokenContractError: It did not.
    """
    if not isinstance(state, Mapping):
        raise BrokenContractError(f"state() gave a {type(state).__name__}, expected tensors by name.")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise BrokenContractError(f"state() has {name!r}: a {type(value).__name__}, expected a tensor by its name.")
        if value.device.type not in ("cpu", device.type):
            raise BrokenContractError(f"state() has {name!r} on {value.device}, expected {device}.")
    return state


class GuardedInputs:
    """The inputs of a method in one part of a cell, to check that they stay unchanged."""

    def __init__(self) -> None:
        self._inputs: list[tuple[str, Graph | Tensor, str]] = []

    def add(self, what: str, value: Graph | Tensor) -> None:
        """Store the digest of a graph or a tensor before the method gets it."""
        self._inputs.append((what, value, _digest(value)))

    def check(self) -> None:
        """Compare all inputs with their digests, and clear them.

        Raises:
            RefusedError: The method changed one of them.
        """
        for what, value, digest in self._inputs:
            if _digest(value) != digest or not _agrees(value):
                raise RefusedError(f"The method changed {what} in place.", "Work on a copy: x = graph.x.clone().")
        self._inputs.clear()


def _digest(value: Graph | Tensor) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for tensor in [value] if isinstance(value, Tensor) else _tensors(value):
        update(digest, tensor)
    return digest.hexdigest()


def _tensors(graph: Graph) -> list[Tensor]:
    """Return the tensors of a graph; sparse features stay sparse, since converting them is slow."""
    # Computed here if need be: a method that is the first to ask for them must not seem to change the graph.
    rows = graph.sparse_rows
    features = [graph.x] if rows is None else [rows.starts, rows.columns, rows.values]
    weights = [] if graph.edge_weight is None else [graph.edge_weight]
    return [*features, graph.y, graph.edge_index, graph.ids, *weights]


def _agrees(value: Graph | Tensor) -> bool:
    """Whether dense features, where they were read, still equal the sparse ones."""
    if isinstance(value, Tensor) or "x" not in value.__dict__:
        return True
    rows = value.__dict__.get("sparse_rows")
    return rows is None or torch.equal(value.x, rows.dense())
