"""Graphs of the Open Graph Benchmark, read from its own raw files without its package.

The package fails with torch 2.6 and newer. The files are compressed tables without headings.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from unlearnbench.datasets.base import GraphSize
from unlearnbench.datasets.published import PublishedGraph
from unlearnbench.datasets.raw import RawFiles
from unlearnbench.errors import DataError

TABLES = ("edge", "node-feat", "node-label", "num-node-list")
PARTS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
GZIP = b"\x1f\x8b"


class OgbDataset(PublishedGraph):
    """A graph for node property prediction, with its own split.

    Attributes:
        title: The name of its archive.
        split_type: The folder of its split.
        add_inverse: Whether the benchmark adds the reverse of every edge in the file.
        seconds: How long the download may take.
    """

    title: ClassVar[str]
    split_type: ClassVar[str]
    add_inverse: ClassVar[bool]
    seconds: ClassVar[float]
    own_split = True
    reference = "Hu et al., Open graph benchmark: Datasets for machine learning on graphs, NeurIPS 2020."

    def raw_files(self) -> RawFiles:
        """Name the tables and the three lists of its split, which come in one archive."""
        names = [f"raw/{table}.csv.gz" for table in TABLES]
        names += [f"split/{self.split_type}/{part}.csv.gz" for part in PARTS]
        archive = f"https://snap.stanford.edu/ogb/data/nodeproppred/{self.title}.zip"
        urls = {name: f"{archive}#{self.title}/{name}" for name in names}
        return RawFiles(self.name, f"OGB/{self.name.replace('-', '_')}", urls, check_compressed_file, self.seconds)

    def _read(self, contents: Mapping[str, bytes]) -> Any:
        num_nodes = int(_table(contents, "raw/num-node-list.csv.gz", np.int64)[0, 0])
        edges = torch.from_numpy(_table(contents, "raw/edge.csv.gz", np.int64).T.copy())
        if self.add_inverse:
            edges = torch.cat([edges, edges.flip(0)], dim=1)
        x = torch.from_numpy(_table(contents, "raw/node-feat.csv.gz", np.float32))
        y = torch.from_numpy(_table(contents, "raw/node-label.csv.gz", np.int64)[:, 0].copy())
        if len(x) != num_nodes or len(y) != num_nodes:
            raise ValueError(f"{len(x)} rows of features and {len(y)} labels for {num_nodes} nodes")
        masks = {}
        for part, mask in PARTS.items():
            positions = _table(contents, f"split/{self.split_type}/{part}.csv.gz", np.int64)[:, 0]
            masks[mask] = _mask(torch.from_numpy(positions.copy()), num_nodes, part)
        return Data(x=x, y=y, edge_index=edges, **masks)


def check_compressed_file(name: str, content: bytes) -> None:
    """Check that a file is compressed as gzip does; a damaged one is found out when it is read.

    Raises:
        DataError: It is something else.
    """
    if not content.startswith(GZIP):
        raise DataError("it is not a gzip file.")


def _table(contents: Mapping[str, bytes], name: str, dtype: Any) -> Any:
    """Read a compressed table of numbers: [rows, columns]."""
    try:
        frame = pd.read_csv(io.BytesIO(contents[name]), header=None, compression="gzip", dtype=dtype)
    except (ValueError, OSError, EOFError, OverflowError, zlib.error) as error:
        raise ValueError(f"{name} cannot be read: {error}") from None
    return frame.to_numpy()


def _mask(positions: Tensor, num_nodes: int, part: str) -> Tensor:
    if bool(((positions < 0) | (positions >= num_nodes)).any()):
        raise ValueError(f"the {part} list of its split names a node outside 0..{num_nodes - 1}")
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[positions] = True
    return mask


class OgbnArxiv(OgbDataset):
    """ogbn-arxiv: papers of arXiv on computer science that cite each other, in forty fields.

    Citations are directed. Trained on papers until 2017, tested on those since 2019.
    """

    name = "ogbn-arxiv"
    summary = "Citations among 169,343 papers of arXiv; comes with its own split."
    license = "ODC-BY"
    source = "https://ogb.stanford.edu/docs/nodeprop/#ogbn-arxiv"
    title, split_type, add_inverse, seconds = "arxiv", "time", False, 1800.0
    size = GraphSize(169343, 1166243, 128, 40)


class OgbnProducts(OgbDataset):
    """ogbn-products: goods often bought together, in 47 categories; split by sales."""

    name = "ogbn-products"
    summary = "2,449,029 goods bought together; comes with its own split."
    license = "Amazon license"
    source = "https://ogb.stanford.edu/docs/nodeprop/#ogbn-products"
    title, split_type, add_inverse, seconds = "products", "sales_ranking", True, 7200.0
    size = GraphSize(2449029, 123718280, 100, 47)
