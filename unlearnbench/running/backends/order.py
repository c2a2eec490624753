"""Orders to other processes and machines: what to compute, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Order:
    """What all orders have in common; plain JSON values only.

    Args:
        cell: The cell, as `cell_codec.cell_to_plain` writes it.
        disable_plugins: Plugins that are not loaded.
        provenance: Python, packages, plugins and commit of the process that gives the order.
        device: The device to compute on.
        threads: Number of torch's threads.
        deterministic: Whether torch refuses operations whose results may vary from call to call.
    """

    cell: Mapping[str, Any]
    disable_plugins: Sequence[str]
    provenance: Mapping[str, Any]
    device: str
    threads: int
    deterministic: bool

    def to_json(self) -> str:
        """Return the order as one line of JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True, kw_only=True)
class CellOrder(Order):
    """Compute a cell and save its record.

    Args:
        data_root: The folder of datasets; None: the default.
        out: The results folder.
        save_state: The folder of deployed states; None: none is saved.
        machine: Id of the machine, as records have it.
        backend: How cells are run, as records have it.
    """

    data_root: str | None
    out: str
    save_state: str | None
    machine: str
    backend: str


@dataclass(frozen=True, kw_only=True)
class MemberOrder(Order):
    """Train the members of some shards of a cell.

    Args:
        training: The training settings of the task.
        seed: The seed of the task.
        shards: The shards.
    """

    training: Mapping[str, Any]
    seed: int
    shards: Sequence[int]
