"""Reading a user's own graph: torch files, archives of arrays, folders of tables; nothing in them is run."""

from __future__ import annotations

import pickle
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench.datasets.own.splits import PARTS
from unlearnbench.datasets.own.tables import EDGES, LABELS, NODES, read_tables
from unlearnbench.errors import DataError
from unlearnbench.records.files import wrong_checksum

ARRAYS = ("x", "y", "edge_index", "ids", *PARTS, "num_classes")
# Used where it is asked for.
WEIGHT = "edge_weight"


def _cache(*_: Any) -> dict[Any, Any]:
    """Stand in for the `defaultdict` of names that accessors and transforms leave in a storage.

    Torch fills no `defaultdict` from a file; what was in it is not used.
    """
    return {}


def _value_of_enumeration(enumeration: Any, name: Any) -> Any:
    """Stand in for `getattr`, by which Python up to 3.11.3 pickles values of enumerations; nothing else is got."""
    from torch_geometric.data.graph_store import EdgeLayout
    from torch_geometric.data.storage import AttrType
    from torch_geometric.edge_index import SortOrder

    if enumeration not in (AttrType, EdgeLayout, SortOrder):
        raise pickle.UnpicklingError("GLOBAL getattr was asked for something else than PyG's enumerations.")
    return enumeration[name]


def _allowed() -> list[Any]:
    """List what a file may hold; PyG, which takes as long to import as torch, is imported where a file is read."""
    from torch_geometric import EdgeIndex, Index, edge_index, index
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.graph_store import EdgeLayout
    from torch_geometric.data.storage import AttrType, EdgeStorage, GlobalStorage, NodeStorage
    from torch_geometric.edge_index import SortOrder

    return [
        Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, NodeStorage, EdgeStorage, AttrType, EdgeLayout, set,
        EdgeIndex, Index, SortOrder, edge_index.CatMetadata, index.CatMetadata,
        (_cache, "collections.defaultdict"), (_value_of_enumeration, "builtins.getattr"),
    ]  # fmt: skip


_SAVE_TENSORS = "Save a dictionary of tensors, or a torch_geometric.data.Data of tensors."
# What to do about a class in a file, by a part of its name.
_INSTEAD = {
    "SparseTensor": "It is from ToSparseTensor: save the graph with edge_index, as it was before.",
    "HeteroData": "Save a graph with nodes of one kind: data.to_homogeneous().",
    "data.batch": "Save one graph: torch.save(batch[0], PATH).",
    "torch_geometric.datasets": "Save one graph, not the dataset: torch.save(dataset[0], PATH).",
    "numpy": "Save tensors: torch.from_numpy(array).",
}
# Where else edges may be, and what makes edge_index of them.
_EDGES_ELSEWHERE = {
    "adj_t": "Its edges are in adj_t: edge_index = torch_geometric.utils.to_edge_index(adj_t)[0].flip(0).",
    "adj": "Its edges are in adj: edge_index = torch_geometric.utils.dense_to_sparse(adj)[0].",
}
# Bytes; a smaller file is read at once, so that nothing depends on what becomes of it afterwards.
MAPPED_FROM = 2**28
_GLOBAL = re.compile(r"GLOBAL ([A-Za-z_]\w*(?:\.\w+)+)")


def read_graph_file(path: Path, names: Sequence[str] = ARRAYS) -> tuple[dict[str, Any], list[str]]:
    """Read a `.pt`, `.pth` or `.npz` file or a folder.

    Args:
        path: The file or folder.
        names: What is used of it: `ARRAYS`, and perhaps `WEIGHT`.

    Returns:
        Tensors by these names, `y` and `edge_index` among them, and what else the file holds;
        and what a user should know of how it was read.

    Raises:
        DataError: It does not exist, is damaged, of another kind, or lacks labels or edges.
    """
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # a name too long, a loop of links
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Name another path.") from None
    if is_folder:
        return read_tables(path, WEIGHT in names)
    if not is_file:
        raise DataError(f"{path} does not exist.", "Name a .pt or .npz file, or a folder with edges.csv.")
    readers = {".pt": read_torch_file, ".pth": read_torch_file, ".npz": read_archive}
    if path.suffix.lower() not in readers:
        raise DataError(
            f"{path} is neither a .pt nor an .npz file nor a folder.",
            f"A folder holds {EDGES}, {NODES} and {LABELS}.",
        )
    found = readers[path.suffix.lower()](path, names)
    check_complete(found, str(path))
    return found, []


def read_torch_file(path: Path, names: Sequence[str] = ARRAYS) -> dict[str, Any]:
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
        with _only(_allowed()), warnings.catch_warnings():
            # What torch says of unusual pickles is said below, in an error, or does not matter.
            warnings.simplefilter("ignore")
            value = torch.load(path, map_location="cpu", weights_only=True, mmap=_is_mapped(path))
    except pickle.UnpicklingError as error:
        culprit = _GLOBAL.search(str(error))
        asked = f"it asks for {culprit[1]}" if culprit else "it holds more than tensors and plain values, or is damaged"
        hint = next((hint for part, hint in _INSTEAD.items() if culprit and part in culprit[1]), _SAVE_TENSORS)
        raise DataError(f"{path} cannot be read safely: {asked}; it was not run.", hint) from None
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the file's permissions.") from None
    except Exception as error:  # a damaged file can fail in any way its instructions can
        raise DataError(f"{path} is damaged ({type(error).__name__}).", "Save it again.") from None
    if isinstance(value, tuple) and value:
        # PyG keeps (data, slices, class); without slices there is one graph.
        if any(value[1:2]):
            raise DataError(f"{path} holds several graphs.", "Save one graph: torch.save(dataset[0], PATH).")
        value = value[0]
    return tensors_by_name(value, str(path), names)


@contextmanager
def _only(allowed: list[Any]) -> Iterator[None]:
    """Allow these classes in files, and no others that some library allows for the whole process."""
    others = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        with torch.serialization.safe_globals(allowed):
            yield
    finally:
        torch.serialization.add_safe_globals(others)


def _is_mapped(path: Path) -> bool:
    # The map is private: what is written into such a tensor never reaches the file. Files of old versions
    # of torch are no archives and cannot be mapped.
    return path.stat().st_size >= MAPPED_FROM and zipfile.is_zipfile(path)


def is_pyg_data(value: Any) -> bool:
    """Whether it is a PyG `Data`: nothing is before PyG was imported."""
    pyg = sys.modules.get("torch_geometric.data")
    return pyg is not None and isinstance(value, pyg.Data)


def tensors_by_name(value: Any, where: str, names: Sequence[str] = ARRAYS) -> dict[str, Any]:
    """Return the tensors of a PyG `Data` or a dictionary by name; `where` it comes from is for messages.

    Raises:
        DataError: It is anything else, or something under one of the `names` that are used is no tensor.
    """
    if is_pyg_data(value):
        try:
            # PyG 1 kept the tensors in the object itself.
            value = value.to_dict() if "_store" in vars(value) else vars(value)
        except Exception as error:  # what a file holds in place of a storage can fail in any way
            raise DataError(f"{where} holds a broken Data ({type(error).__name__}).", _SAVE_TENSORS) from None
    if not isinstance(value, Mapping):
        raise DataError(f"{where} holds a {type(value).__name__}.", "Save a dictionary of tensors or a PyG Data.")
    found = {str(key): entry for key, entry in value.items() if entry is not None}
    for name in names:
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
            there = f"It holds: {', '.join(sorted(found)) or 'nothing'}."
            hints = [hint for key, hint in _EDGES_ELSEWHERE.items() if key in found and name == "edge_index"]
            raise DataError(f"{where} has no {name}.", hints[0] if hints else there)


def read_archive(path: Path, names: Sequence[str] = ARRAYS) -> dict[str, Any]:
    """Read arrays by name.

    Raises:
        DataError: The file is damaged or holds pickled objects under one of the `names` that are used.
    """
    try:
        # numpy leaves a file it opened itself open when the archive turns out to be damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: torch.from_numpy(archive[name]) for name in archive.files if name in names}
            others: dict[str, Any] = {name: None for name in archive.files if name not in names}
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the file's permissions.") from None
    except Exception as error:  # a damaged archive can fail in any way: its zip, its headers, their sizes
        raise DataError(
            f"{path} cannot be read as an archive of arrays ({type(error).__name__}: {error}).",
            "Save plain arrays: numpy.savez(PATH, x=..., y=..., edge_index=...).",
        ) from None
    return {**others, **arrays}
