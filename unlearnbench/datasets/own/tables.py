"""Reading a folder of tables: `features.csv`, `labels.csv` and `edges.csv`."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from unlearnbench.datasets.own.headings import CLASS, ID, SOURCE, TARGET, WEIGHT, Role, choose_columns
from unlearnbench.errors import DataError

NODES, LABELS, EDGES = "features.csv", "labels.csv", "edges.csv"
# Without skipping, a row of the frame is a row of the file.
_CSV: dict[str, Any] = {
    "encoding": "utf-8-sig",
    "skip_blank_lines": False,
    "skipinitialspace": True,
    "index_col": False,
}
_ID = re.compile(r"\s*([-+]?[0-9]{1,20})(\.0*)?\s*")
_COMMENT = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])[ \t]*#")
_LINE_ENDS = (b"", b"\n", b"\r\n", b"\r")


def read_tables(folder: Path, weighted: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Read `features.csv`, `labels.csv` and `edges.csv`, of this with `weighted` the weights too.

    Each has a heading, which says what a column is (see `headings`). Without features the nodes are
    those of the labels. Nodes keep the order of their file; edges come out as positions.

    Returns:
        Tensors by name, and what was ignored or decided without a heading that says so.

    Raises:
        DataError: A file is missing, its columns cannot be told apart, or a row cannot be used: names
            file and row.
    """
    labels = _Table.read(folder / LABELS, (ID, CLASS))
    edges = _Table.read(folder / EDGES, (SOURCE, TARGET, WEIGHT) if weighted else (SOURCE, TARGET))
    features = _Table.read(folder / NODES, (ID,), features=True) if (folder / NODES).exists() else None
    home = labels if features is None else features
    ids, label_ids = home.ids(0), labels.ids(0)
    index = pd.Index(ids)
    home.check_distinct(ids)
    labels.check_distinct(label_ids)
    y = np.full(len(ids), np.nan)
    y[labels.positions(index, label_ids, home.path)] = labels.numbers(labels.places[1])
    ends = [edges.positions(index, edges.ids(which), home.path) for which in (0, 1)]
    found: dict[str, Any] = {}
    if features is not None:
        columns = [features.numbers(at) for at in features.rest]
        found["x"] = torch.from_numpy(np.stack(columns, axis=1))
    whole = bool((np.abs(y) < 2**53).all()) and np.array_equal(y, np.rint(y))
    found["y"] = torch.from_numpy(y.astype(np.int64) if whole else y)
    found |= {"edge_index": torch.from_numpy(np.stack(ends)), "ids": torch.from_numpy(ids)}
    if weighted:
        found["edge_weight"] = torch.from_numpy(edges.numbers(edges.places[2]).copy())
    others = sorted(path.name for path in folder.glob("*.csv") if path.name not in (NODES, LABELS, EDGES))
    notes = [f"ignored: {', '.join(others)}."] if others else []
    return found, [*(features.notes if features else []), *labels.notes, *edges.notes, *notes]


@dataclass(frozen=True, eq=False)
class _Table:
    """A table with its columns told apart.

    Args:
        path: The file.
        frame: Its content; the index holds the lines of the file, the heading is 1.
        places: The column of each role.
        rest: The columns of features.
        notes: What a user should know.
    """

    path: Path
    frame: pd.DataFrame
    places: list[int]
    rest: list[int]
    notes: list[str]

    @classmethod
    def read(cls, path: Path, roles: tuple[Role, ...], *, features: bool = False) -> _Table:
        if not path.is_file():
            raise DataError(f"{path} does not exist.", f"A folder holds {EDGES}, {LABELS} and {NODES}.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                warnings.simplefilter("ignore", pd.errors.DtypeWarning)
                source, lines = _source(path)
                frame: pd.DataFrame = pd.read_csv(source, **_CSV)
                # As it is written: pandas numbers empty and repeated headings.
                head = pd.read_csv(_source(path)[0], **_CSV, header=None, nrows=1, dtype=str, keep_default_na=False)
        except pd.errors.ParserWarning:  # pandas would drop what is too much
            raise DataError(f"{path}: rows have more fields than the heading.", "Name every column in row 1.") from None
        except (ValueError, OSError) as error:
            raise DataError(
                f"{path} cannot be read: {' '.join(str(error).split())}.", "It must be CSV in UTF-8."
            ) from None
        headings = [str(heading).strip() for heading in head.iloc[0]]
        if frame.shape[1] < 2:
            raise DataError(f"{path} has {frame.shape[1]} column, expected 2 or more.", "Separate with commas.")
        if _is_number(headings[0]):
            raise DataError(f"{path}, row 1: {headings[0]!r} is no heading.", "Name the columns in row 1.")
        # A field in quotes may have several lines; then the rows of the frame are counted instead.
        frame.index = pd.Index(lines[1:]) if lines and len(lines) == len(frame) + 1 else frame.index + 2
        empty = np.flatnonzero(frame.isna().all().to_numpy()).tolist()
        columns = choose_columns(path, headings, roles, empty=empty, features=features)
        return cls(path, frame, columns.places, columns.rest, columns.notes)

    def numbers(self, at: int) -> Any:
        """Read a column of numbers, float64; an empty field is NaN."""
        column = self.frame.iloc[:, at]
        numbers = pd.to_numeric(column, errors="coerce")
        wrong = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
        if len(wrong):
            raise self._error(wrong[0], f"{column.iloc[wrong[0]]!r} is not a number", "Write numbers.")
        return numbers.to_numpy(dtype=np.float64)

    def ids(self, which: int) -> Any:
        """Read ids, int64, in the column of a role."""
        column = self.frame.iloc[:, self.places[which]]
        if len(column) == 0 or (pd.api.types.is_integer_dtype(column) and column.dtype != np.uint64):
            return column.to_numpy(dtype=np.int64, copy=True)
        # pandas has made other things of the text: the file is asked again what stood there.
        asked: dict[str, Any] = {"dtype": str, "keep_default_na": False, "usecols": [self.places[which]]}
        texts = pd.read_csv(_source(self.path)[0], **_CSV, **asked).iloc[:, 0].tolist()
        matches = [_ID.fullmatch(text) for text in texts]
        ids = [int(match[1]) if match else 2**63 for match in matches]
        row = next((row for row, number in enumerate(ids) if not -(2**63) <= number < 2**63), None)
        if row is not None:
            shown = repr(texts[row]) if texts[row].strip() else "an empty field"
            raise self._error(row, f"{shown} is not the id of a node", "Ids are whole numbers of 64 bits.")
        return np.array(ids, dtype=np.int64)

    def check_distinct(self, ids: Any) -> None:
        """Check that no node has two rows."""
        index = pd.Index(ids)
        if index.has_duplicates:
            row = int(np.flatnonzero(index.duplicated())[0])
            raise self._error(row, f"node {ids[row]} stands there twice", "Keep one row for each node.")

    def positions(self, index: pd.Index[Any], ids: Any, home: Path) -> Any:
        """Return the positions of ids among the nodes, which are those of `home`."""
        at = index.get_indexer(ids)
        unknown = np.flatnonzero(at < 0)
        if len(unknown):
            row = int(unknown[0])
            raise self._error(row, f"node {ids[row]} has no row in {home.name}", f"Add it to {home.name}.")
        return at.astype(np.int64)

    def _error(self, row: int, what: str, hint: str) -> DataError:
        return DataError(f"{self.path}, row {self.frame.index[row]}: {what}.", hint)


def _is_number(heading: str) -> bool:
    try:
        float(heading)
    except ValueError:
        return False
    return True


def _source(path: Path) -> tuple[Any, list[int]]:
    """Return what pandas is to read: the file, or its text without comments and blank lines at the end.

    Returns:
        The source, and the numbers of the lines in it where some were left out.
    """
    content = path.read_bytes()
    if not _COMMENT.search(content) and content[len(content.rstrip()) :] in _LINE_ENDS:
        return path, []
    kept: list[tuple[int, str]] = []
    is_quoted = False
    for number, line in enumerate(io.StringIO(content.decode("utf-8-sig"), newline=""), start=1):
        if is_quoted or not line.lstrip(" \t").startswith("#"):
            kept.append((number, line))
            is_quoted ^= line.count('"') % 2 == 1
    while kept and not kept[-1][1].strip():
        kept.pop()
    return io.StringIO("".join(line for _, line in kept), newline=""), [number for number, _ in kept]
