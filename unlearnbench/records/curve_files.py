"""Learning curves beside a record: `KEY.curves.npz`, one row for each network and epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlearnbench.component import canonical_json
from unlearnbench.records.files import leads_out, make_folder, write_whole
from unlearnbench.records.record import DamagedRecordError, Record

HEAD = "curves/"
"""How the names of these arrays begin among those of a cell."""
COLUMNS = ("phase", "role", "step", "network", "epoch", "loss", "val_f1")
_DEPLOYED = "deployed"

Arrays = dict[str, NDArray[Any]]


def split_off(arrays: Mapping[str, NDArray[Any]]) -> tuple[Arrays, Arrays]:
    """Return the columns of the learning curves among the arrays of a cell, and the other arrays."""
    columns = {name.removeprefix(HEAD): array for name, array in arrays.items() if name.startswith(HEAD)}
    return columns, {name: array for name, array in arrays.items() if not name.startswith(HEAD)}


def write_curves(folder: Path, record: Record, columns: Mapping[str, NDArray[Any]]) -> Path:
    """Write the curves of a record into its folder.

    Raises:
        WriteError: They cannot be written.
    """
    path = make_folder(folder) / f"{record.key}.curves.npz"
    content = {**columns, _DEPLOYED: np.array(deployed_digest(record))}
    write_whole(path, lambda file: np.savez_compressed(file, **content))  # type: ignore[arg-type]
    return path


def read_curves(folder: Path, record: Record, root: Path) -> Arrays | None:
    """Read the curves beside a record; None: there are none, or they are of a training that gave other parameters.

    Raises:
        DamagedRecordError: They cannot be read.
    """
    path = folder / f"{record.key}.curves.npz"
    if not path.is_file():
        return None
    if leads_out(path, root):
        raise DamagedRecordError(f"{path}: a link leads out of {root}; it is not followed.", "Remove the link.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
            content = {name: loaded[name] for name in loaded.files}
        deployed = str(content.pop(_DEPLOYED))
        (rows,) = {len(content[name]) for name in content}
        content = {name: content[name] for name in content if len(content[name]) == rows}
    except Exception as error:  # numpy raises a different class for each kind of damage
        raise DamagedRecordError(
            f"{path}: cannot be read ({type(error).__name__}: {error}).",
            "Delete it, and run the cell again with `log` curves.",
        ) from None
    return content if deployed == deployed_digest(record) else None


def deployed_digest(record: Record) -> str:
    """Return a digest of the deployed parameters, by which curves know their record."""
    return hashlib.sha256(canonical_json(record.digests.get("after") or {}).encode()).hexdigest()
