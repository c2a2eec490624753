"""Loaders of the graphs that PyG reads from their raw files.

PyG's parsers do the reading, on a private copy of the raw files. Nothing processed is kept: most
of these graphs are read in about a second, so that a cache would only bring its own troubles
(jobs that share a root, files of other versions of PyG, settings it was made with).

PyG's own download is not used: it waits without limit, leaves half-written files behind and
does not check certificates. The addresses and file names are PyG's.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

from torch_geometric.datasets import (
    Actor,
    Amazon,
    AttributedGraphDataset,
    CitationFull,
    Coauthor,
    Flickr,
    HeterophilousGraphDataset,
    LastFMAsia,
    Planetoid,
    WikipediaNetwork,
)
from torch_geometric.io import read_npz, read_planetoid_data

from unlearnbench.datasets.catalogue_of_graphs import GraphRow
from unlearnbench.datasets.contents import check_array, check_arrays, check_json, check_numbers, refuse_pickle
from unlearnbench.datasets.published import Loader

DRIVE = "https://drive.usercontent.google.com/download?id={}&confirm=t"
CSR_ARRAYS = ("indices", "indptr", "data", "shape")
MATRICES = tuple(f"{matrix}_{array}" for matrix in ("adj", "attr") for array in CSR_ARRAYS)


def _with_pyg(parse: Callable[[Path], Any]) -> Callable[[GraphRow, Mapping[str, bytes]], Any]:
    """Return a reader that lets PyG parse a private folder of checked files, which lies as the row's folder says."""

    def read(row: GraphRow, contents: Mapping[str, bytes]) -> Any:
        # PyG tells the standard error stream that it processes.
        with tempfile.TemporaryDirectory(prefix="unlearnbench-") as private, redirect_stderr(io.StringIO()):
            place = Path(private) / row.folder
            place.mkdir(parents=True)
            for name, content in contents.items():
                (place / name).write_bytes(content)
            return parse(place)

    return read


PLANETOID = Loader(
    url=lambda row, file: f"{Planetoid.url}/{file}",
    checks={
        ".index": check_numbers,
        **dict.fromkeys((".x", ".tx", ".allx", ".y", ".ty", ".ally", ".graph"), refuse_pickle),
    },
    read=_with_pyg(lambda folder: read_planetoid_data(str(folder), folder.parent.name)),
)

# PyG sets every feature above 0 to 1, drops self-loops and adds the reverse of every edge.
_NPZ_CHECKS = {".npz": partial(check_arrays, arrays=(*MATRICES, "labels"))}
_read_npz = _with_pyg(lambda folder: read_npz(str(next(folder.iterdir())), to_undirected=True))
AMAZON = Loader(lambda row, file: Amazon.url + file, _NPZ_CHECKS, _read_npz)
COAUTHOR = Loader(lambda row, file: Coauthor.url + file, _NPZ_CHECKS, _read_npz)
CITATION_FULL = Loader(lambda row, file: CitationFull.url.format(file.removesuffix(".npz")), _NPZ_CHECKS, _read_npz)

ATTRIBUTED = Loader(
    url=lambda row, file: f"{DRIVE.format(AttributedGraphDataset.datasets[row.name])}#{row.name}.attr/{file}",
    checks={".npz": partial(check_arrays, arrays=CSR_ARRAYS), ".txt": check_numbers},
    read=_with_pyg(lambda folder: AttributedGraphDataset(str(folder.parents[1]), folder.parent.name)[0]),
)

LASTFM = Loader(
    url=lambda row, file: LastFMAsia.url,
    # PyG would unpickle what is in the archive.
    checks={".npz": partial(check_arrays, arrays=("edges", "features", "target"))},
    read=_with_pyg(lambda folder: LastFMAsia(str(folder.parent))[0]),
)

_FLICKR_IDS = {
    "adj_full.npz": Flickr.adj_full_id,
    "feats.npy": Flickr.feats_id,
    "class_map.json": Flickr.class_map_id,
    "role.json": Flickr.role_id,
}
FLICKR = Loader(
    url=lambda row, file: DRIVE.format(_FLICKR_IDS[file]),
    checks={".npz": partial(check_arrays, arrays=CSR_ARRAYS), ".npy": check_array, ".json": check_json},
    read=_with_pyg(lambda folder: Flickr(str(folder.parent))[0]),
)

# Edges of the file stand in one direction; PyG adds the other.
_HETEROPHILOUS_ARRAYS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")
HETEROPHILOUS = Loader(
    url=lambda row, file: f"{HeterophilousGraphDataset.url}/{file}",
    checks={".npz": partial(check_arrays, arrays=_HETEROPHILOUS_ARRAYS)},
    read=_with_pyg(lambda folder: HeterophilousGraphDataset(str(folder.parents[1]), folder.parent.name)[0]),
)


def _geom_gcn_url(base: str, title: str, file: str) -> str:
    return f"{base}/splits/{file}" if file.endswith(".npz") else f"{base}/new_data/{title}/{file}"


# Edges are directed.
_GEOM_GCN_CHECKS = {
    ".npz": partial(check_arrays, arrays=("train_mask", "val_mask", "test_mask")),
    ".txt": partial(check_numbers, header=True),
}
ACTOR = Loader(
    url=lambda row, file: _geom_gcn_url(Actor.url, "film", file),
    checks=_GEOM_GCN_CHECKS,
    read=_with_pyg(lambda folder: Actor(str(folder.parent))[0]),
)
WIKIPEDIA = Loader(
    url=lambda row, file: _geom_gcn_url(WikipediaNetwork.processed_url, row.name, file),
    checks=_GEOM_GCN_CHECKS,
    read=_with_pyg(lambda folder: WikipediaNetwork(str(folder.parents[2]), folder.parents[1].name)[0]),
)
