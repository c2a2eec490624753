"""Orders to other processes and machines: what to compute, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Order:
    """What all orders have in common; plain JSON values only.

    `cell` is as `cell_codec.cell_to_plain` writes it, `provenance` is that of the process that gives the order,
    and `device`, `threads` and `deterministic` are as in `RunContext`.
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
    """Compute a cell and save its record in the results folder `out`.

    Checkpoints of an unfinished cell are in `unfinished`; None: in `out`. `sealed` bytes of data follow the order,
    and the record has no scores; 0: the dataset is loaded, and the cell is scored. `data_root` and `save_state` are
    as in `RunOptions`; `log` as in `RunContext`; `machine` and `backend` as records have them. `python_path` is the
    run's own PYTHONPATH, None where there is none: that of the cell's process is the search path of the run. `shared`
    is a folder where audits leave what they know of Retrain and the controls for each other; None: nowhere.
    """

    data_root: str | None
    out: str
    unfinished: str | None
    log: bool
    sealed: int
    save_state: str | None
    machine: str
    backend: str
    python_path: str | None
    shared: str | None = None


@dataclass(frozen=True, kw_only=True)
class MemberOrder(Order):
    """Train the members of some shards of a cell; `training` and `seed` are those of the task."""

    training: Mapping[str, Any]
    seed: int
    shards: Sequence[int]
