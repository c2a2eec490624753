"""Learning curves of a results folder as a data frame."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd

from unlearnbench.errors import NothingMatchedError, UnlearnbenchError
from unlearnbench.records.curve_files import COLUMNS
from unlearnbench.records.reading import read_records
from unlearnbench.records.store import Store
from unlearnbench.report.frame.frame import frame_of, results_root

_CELL = ("key", "machine", "dataset", "model", "method", "repetition")


def load_curves(path: str | Path, key: str = "") -> pd.DataFrame:
    """Read the learning curves in a results folder: one row for each network and epoch.

    Args:
        path: A folder with a folder `records` in it, or that folder.
        key: Read those of this record alone.

    Returns:
        Columns: `key`, `machine`, `dataset`, `model`, `method`, `repetition` as in `load_records`; the `phase` of the
        training, such as `fit/train`; the `role` of the networks (`member`) and the `step`, the number of the
        training in a sequence; `network`, their number; `epoch`, from 1; `loss`, the mean cross-entropy over the
        epoch; and `val_f1`, the micro-F1 on the validation nodes after it, where messages pass over all retained
        training nodes and the validation nodes; missing where there are none.

    Raises:
        NothingMatchedError: There are no curves.
    """
    root = results_root(Path(path))
    problems: list[UnlearnbenchError] = []
    parts = []
    for record in read_records(root, problems):
        if record.is_failure or key not in ("", record.key):
            continue
        try:
            columns = Store(root, record.machine).curves(record)
        except UnlearnbenchError as error:
            problems.append(error)
            continue
        if columns is not None:
            cell = frame_of([record]).iloc[0]
            rows = pd.DataFrame({name: columns[name] for name in COLUMNS})
            parts.append(rows.assign(**{name: cell[name] for name in _CELL})[[*_CELL, *COLUMNS]])
    for problem in problems:
        warnings.warn(str(problem), stacklevel=2)
    if not parts:
        raise NothingMatchedError(f"{path}: no learning curves.", "Keep some with `unlearnbench run --log curves`.")
    return pd.concat(parts, ignore_index=True)
