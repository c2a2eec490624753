"""The loader of graphs of the Open Graph Benchmark, from its own raw files without its package.

The package fails with torch 2.6 and newer. The files are compressed tables without headings.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from unlearnbench.datasets.catalogue_of_graphs import GraphRow
from unlearnbench.datasets.published import Loader
from unlearnbench.errors import DataError

MASKS = {"train.csv.gz": "train_mask", "valid.csv.gz": "val_mask", "test.csv.gz": "test_mask"}
# The benchmark adds the reverse of every edge in these files.
ONE_WAY_FILES = {"ogbn-products"}
GZIP = b"\x1f\x8b"


def _url(row: GraphRow, file: str) -> str:
    title = row.name.removeprefix("ogbn-")
    return f"https://snap.stanford.edu/ogb/data/nodeproppred/{title}.zip#{title}/{file}"


def _check_gzip(content: bytes) -> None:
    # A damaged file is found out when it is read.
    if not content.startswith(GZIP):
        raise DataError("it is not a gzip file.")


def _read(row: GraphRow, contents: Mapping[str, bytes]) -> Data:
    num_nodes = int(_table(contents, "raw/num-node-list.csv.gz", np.int64)[0, 0])
    edges = torch.from_numpy(_table(contents, "raw/edge.csv.gz", np.int64).T.copy())
    if row.name in ONE_WAY_FILES:
        edges = torch.cat([edges, edges.flip(0)], dim=1)
    x = torch.from_numpy(_table(contents, "raw/node-feat.csv.gz", np.float32))
    y = torch.from_numpy(_table(contents, "raw/node-label.csv.gz", np.int64)[:, 0].copy())
    if len(x) != num_nodes or len(y) != num_nodes:
        raise ValueError(f"{len(x)} rows of features and {len(y)} labels for {num_nodes} nodes")
    parts = [file for file in contents if file.startswith("split/")]
    masks = {MASKS[PurePath(file).name]: _mask(contents, file, num_nodes) for file in parts}
    return Data(x=x, y=y, edge_index=edges, **masks)


def _table(contents: Mapping[str, bytes], name: str, dtype: Any) -> Any:
    try:
        frame = pd.read_csv(io.BytesIO(contents[name]), header=None, compression="gzip", dtype=dtype)
    except (ValueError, OSError, EOFError, OverflowError, zlib.error) as error:
        raise ValueError(f"{name} cannot be read: {error}") from None
    return frame.to_numpy()


def _mask(contents: Mapping[str, bytes], file: str, num_nodes: int) -> Tensor:
    positions = torch.from_numpy(_table(contents, file, np.int64)[:, 0].copy())
    if bool(((positions < 0) | (positions >= num_nodes)).any()):
        raise ValueError(f"{file} names a node outside 0..{num_nodes - 1}")
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[positions] = True
    return mask


OGB = Loader(_url, {".gz": _check_gzip}, _read)
