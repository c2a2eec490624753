"""Reading a user's own graph: torch files, archives of arrays, folders of tables; nothing in them is run."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

from unlearnbench.datasets.own.arrays import MASKS
from unlearnbench.errors import DataError
from unlearnbench.records.files import wrong_checksum

ARRAYS = ("x", "y", "edge_index", "ids", *MASKS, "num_classes")
PYG_CLASSES = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, NodeStorage, EdgeStorage]
# Bytes; a smaller file is read at once, so that nothing depends on what becomes of it afterwards.
MAPPED_FROM = 2**28
NODES, LABELS, EDGES = "features.csv", "labels.csv", "edges.csv"
# Without skipping, a row of the frame is a row of the file.
_CSV: dict[str, Any] = {
    "encoding": "utf-8-sig",
    "skip_blank_lines": False,
    "skipinitialspace": True,
    "index_col": False,
}
_ID = re.compile(r"\s*[-+]?[0-9]{1,20}\s*")
_GLOBAL = re.compile(r"GLOBAL ([A-Za-z_]\w*(?:\.\w+)+)")


def read_graph_file(path: Path) -> dict[str, Any]:
    """Read a `.pt`, `.pth` or `.npz` file or a folder.

    Returns:
        Tensors by the names in `ARRAYS`, `y` and `edge_index` among them, and what else the file holds.

    Raises:
        DataError: It does not exist, is damaged, of another kind, or lacks labels or edges.
    """
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # a name too long, a loop of links
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Name another path.") from None
    if is_folder:
        return read_tables(path)
    if not is_file:
        raise DataError(f"{path} does not exist.", "Name a .pt or .npz file, or a folder with edges.csv.")
    readers = {".pt": read_torch_file, ".pth": read_torch_file, ".npz": read_archive}
    if path.suffix.lower() not in readers:
        raise DataError(
            f"{path} is neither a .pt nor an .npz file nor a folder.",
            f"A folder holds {EDGES}, {NODES} and {LABELS}.",
        )
    found = readers[path.suffix.lower()](path)
    check_complete(found, str(path))
    return found


def read_torch_file(path: Path) -> dict[str, Any]:
    """Read tensors by name, a PyG `Data`, or what PyG keeps of a dataset of one graph.

    A file of `MAPPED_FROM` bytes or more is mapped into memory: rows are read when they are used, so
    that a subgraph of a graph that is larger than memory can be cut.

    Raises:
        DataError: The file is damaged, holds anything else, or would run something.
    """
    wrong = wrong_checksum(path)
    if wrong is not None:
        raise DataError(f"{path} is damaged: {wrong} in it has another checksum.", "Save it again: torch.save.")
    try:
        with torch.serialization.safe_globals(PYG_CLASSES), warnings.catch_warnings():
            # What torch says of unusual pickles is said below, in an error, or does not matter.
            warnings.simplefilter("ignore")
            value = torch.load(path, map_location="cpu", weights_only=True, mmap=_is_mapped(path))
    except pickle.UnpicklingError as error:
        culprit = _GLOBAL.search(str(error))
        asked = f"it asks for {culprit[1]}" if culprit else "it holds more than tensors and plain values, or is damaged"
        raise DataError(
            f"{path} cannot be read safely: {asked}; it was not run.",
            "Save a dictionary of tensors, or a torch_geometric.data.Data of tensors.",
        ) from None
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the file's permissions.") from None
    except Exception as error:  # a damaged file can fail in any way its instructions can
        raise DataError(f"{path} is damaged ({type(error).__name__}).", "Save it again.") from None
    if isinstance(value, tuple) and value:
        # PyG keeps (data, slices, class); without slices there is one graph.
        if any(value[1:2]):
            raise DataError(f"{path} holds several graphs.", "Save one graph: torch.save(dataset[0], PATH).")
        value = value[0]
    return tensors_by_name(value, str(path))


def _is_mapped(path: Path) -> bool:
    # The map is private: what is written into such a tensor never reaches the file. Files of old versions
    # of torch are no archives and cannot be mapped.
    return path.stat().st_size >= MAPPED_FROM and zipfile.is_zipfile(path)


def tensors_by_name(value: Any, where: str) -> dict[str, Any]:
    """Return the tensors of a PyG `Data` or a dictionary by name; `where` it comes from is for messages.

    Raises:
        DataError: It is anything else, or something under a name of `ARRAYS` is no tensor.
    """
    if isinstance(value, Data):
        value = value.to_dict()
    if not isinstance(value, Mapping):
        raise DataError(f"{where} holds a {type(value).__name__}.", "Save a dictionary of tensors or a PyG Data.")
    found = {str(key): entry for key, entry in value.items() if entry is not None}
    for name in ARRAYS:
        if name in found and not isinstance(found[name], Tensor) and name != "num_classes":
            raise DataError(
                f"{where}: {name} is a {type(found[name]).__name__}, not a tensor.", "Save tensors: torch.tensor(...)."
            )
    return found


def check_complete(found: Mapping[str, Any], where: str) -> None:
    """Check that labels and edges are there.

    Raises:
        DataError: One is not; lists what is.
    """
    for name in ("edge_index", "y"):
        if found.get(name) is None:
            raise DataError(f"{where} has no {name}.", f"It holds: {', '.join(sorted(found)) or 'nothing'}.")


def read_archive(path: Path) -> dict[str, Any]:
    """Read arrays by name.

    Raises:
        DataError: The file is damaged or holds pickled objects under a name of `ARRAYS`.
    """
    try:
        # numpy leaves a file it opened itself open when the archive turns out to be damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: torch.from_numpy(archive[name]) for name in archive.files if name in ARRAYS}
            others: dict[str, Any] = {name: None for name in archive.files if name not in ARRAYS}
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the file's permissions.") from None
    except Exception as error:  # a damaged archive can fail in any way: its zip, its headers, their sizes
        raise DataError(
            f"{path} cannot be read as an archive of arrays ({type(error).__name__}: {error}).",
            "Save plain arrays: numpy.savez(PATH, x=..., y=..., edge_index=...).",
        ) from None
    return {**others, **arrays}


def read_tables(folder: Path) -> dict[str, Any]:
    """Read `features.csv`, `labels.csv` and `edges.csv`.

    Each has a heading. The first column of features and labels is the node's id; edges are two
    columns of ids. Without features the nodes are those of the labels. Nodes keep the order of
    their file; edges come out as positions.

    Raises:
        DataError: A file is missing, or a row cannot be used: names file and row.
    """
    labels, edges = _table(folder / LABELS, 2), _table(folder / EDGES, 2)
    features = _table(folder / NODES, 2) if (folder / NODES).exists() else None
    label_ids = _whole(labels, 0, folder / LABELS)
    ids = label_ids if features is None else _whole(features, 0, folder / NODES)
    home = folder / (LABELS if features is None else NODES)
    index = pd.Index(ids)
    _check_distinct(index, home)
    y = np.full(len(ids), np.nan)
    at = _positions(index, label_ids, folder / LABELS, home)
    _check_distinct(pd.Index(label_ids), folder / LABELS)
    y[at] = _numbers(labels.iloc[:, 1], folder / LABELS)
    ends = [_positions(index, _whole(edges, column, folder / EDGES), folder / EDGES, home) for column in (0, 1)]
    found: dict[str, Any] = dict.fromkeys(edges.columns[2:])
    if features is not None:
        columns = [_numbers(features.iloc[:, at], folder / NODES) for at in range(1, features.shape[1])]
        found["x"] = torch.from_numpy(np.stack(columns, axis=1))
    whole = bool((np.abs(y) < 2**53).all()) and np.array_equal(y, np.rint(y))
    found["y"] = torch.from_numpy(y.astype(np.int64) if whole else y)
    return {**found, "edge_index": torch.from_numpy(np.stack(ends)), "ids": torch.from_numpy(ids)}


def _check_distinct(ids: pd.Index[Any], path: Path) -> None:
    if ids.has_duplicates:
        row = int(np.flatnonzero(ids.duplicated())[0])
        raise DataError(f"{path}, row {row + 2}: node {ids[row]} stands there twice.", "Keep one row for each node.")


def _table(path: Path, columns: int) -> pd.DataFrame:
    if not path.is_file():
        raise DataError(f"{path} does not exist.", f"A folder holds {EDGES}, {LABELS} and {NODES}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            frame: pd.DataFrame = pd.read_csv(path, **_CSV)
    except pd.errors.ParserWarning:  # pandas would drop what is too much
        raise DataError(f"{path}: rows have more fields than the heading.", "Name every column in row 1.") from None
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())}.", "It must be CSV in UTF-8.") from None
    if frame.shape[1] < columns:
        raise DataError(f"{path} has {frame.shape[1]} column, expected {columns} or more.", "Separate with commas.")
    if re.fullmatch(r"[-+]?\d+(\.\d*)?", str(frame.columns[0])):
        raise DataError(f"{path}, row 1: {frame.columns[0]!r} is no heading.", "Name the columns in row 1.")
    return frame


def _numbers(column: pd.Series[Any], path: Path) -> Any:
    """Read numbers, float64; an empty field is NaN."""
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
    if len(wrong):
        row = int(wrong[0])
        raise DataError(f"{path}, row {row + 2}: {column.iloc[row]!r} is not a number.", "Write numbers.")
    return numbers.to_numpy(dtype=np.float64)


def _whole(frame: pd.DataFrame, at: int, path: Path) -> Any:
    column = frame.iloc[:, at]
    if len(column) == 0 or (pd.api.types.is_integer_dtype(column) and column.dtype != np.uint64):
        return column.to_numpy(dtype=np.int64, copy=True)
    # pandas has made other things of the text: the file is asked again what stood there.
    texts = pd.read_csv(path, **_CSV, dtype=str, keep_default_na=False, usecols=[at]).iloc[:, 0]
    ids = [int(text) if _ID.fullmatch(text) else 2**63 for text in texts]
    row = next((row for row, number in enumerate(ids) if not -(2**63) <= number < 2**63), None)
    if row is not None:
        shown = repr(texts[row]) if texts[row].strip() else "an empty field"
        raise DataError(f"{path}, row {row + 2}: {shown} is not the id of a node.", "Ids are whole numbers of 64 bits.")
    return np.array(ids, dtype=np.int64)


def _positions(index: pd.Index[Any], ids: Any, path: Path, home: Path) -> Any:
    at = index.get_indexer(ids)
    unknown = np.flatnonzero(at < 0)
    if len(unknown):
        row = int(unknown[0])
        raise DataError(f"{path}, row {row + 2}: node {ids[row]} has no row in {home.name}.", f"Add it to {home.name}.")
    return at.astype(np.int64)
