"""A published graph: raw files that are checked, parsed, and compared with the size it was published with."""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar

import torch

from unlearnbench.datasets.base import Dataset, graph_size
from unlearnbench.datasets.catalogue_of_graphs import GRAPHS, GraphRow, GraphSize
from unlearnbench.datasets.raw import RawFiles
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph, Split


@dataclass(frozen=True)
class Loader:
    """How the graphs of one family are downloaded and read.

    `url` maps a graph and one of its files to an address as in `RawFiles.urls`, `checks` the suffix of a file's name
    to the check of its content; `read` makes a `torch_geometric.data.Data` of a graph's checked files.
    """

    url: Callable[[GraphRow, str], str]
    checks: Mapping[str, Callable[[bytes], None]]
    read: Callable[[GraphRow, Mapping[str, bytes]], Any]

    def check(self, name: str, content: bytes) -> None:
        """Check the content of a file by its name.

        Raises:
            DataError: It is damaged, or is not what it should be.
        """
        self.checks[PurePath(name).suffix](content)


class PublishedGraph(Dataset):
    """A graph of the catalogue, read from raw files under the data root; its attributes are those of its row too."""

    row: ClassVar[GraphRow]
    size: ClassVar[GraphSize]
    own_split: ClassVar[bool]

    def load(self, root: Path) -> Graph:
        """Load the graph: see `Dataset.load`. Node ids are 0..n-1, features as published."""
        files = self.raw_files()
        contents = files.read(root)
        try:
            with warnings.catch_warnings():
                # The pickles of old files name modules that numpy and scipy have moved since.
                warnings.simplefilter("ignore")
                data = _loader(self.row).read(self.row, contents)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
            raise self._unfit(files, root, f"{type(error).__name__}: {error}") from None
        y = data.y.to(torch.int64)
        masks = (data.train_mask, data.val_mask, data.test_mask) if self.own_split else ()
        split = Split(*(torch.nonzero(mask).flatten() for mask in masks)) if masks else None
        x, edge_index = data.x.to(torch.float32), data.edge_index.to(torch.int64).contiguous()
        graph = Graph(x, y, edge_index, torch.arange(len(y)), self.size.classes, split)
        found = graph_size(graph)._replace(classes=int(y.max()) + 1)
        if found != self.size:
            raise self._unfit(files, root, f"they give {found}; published: {self.size}")
        return graph

    def presence(self, root: Path) -> str:
        """Report whether the raw files lie under the root or in the cache."""
        files = self.raw_files()
        places = files.places(root)
        found = (f"in {place}" for place in places if not files.missing(place))
        return next(found, f"not there; would be downloaded to {places[0]}")

    def raw_files(self) -> RawFiles:
        """Return the raw files, where they can be had and how each is checked."""
        row, loader = self.row, _loader(self.row)
        urls = {file: loader.url(row, file) for file in row.files}
        return RawFiles(row.name, row.folder, urls, loader.check, row.seconds, row.files)

    def _unfit(self, files: RawFiles, root: Path, reason: str) -> DataError:
        folder = files.find(root)
        return DataError(
            f"Dataset {self.name}: the files in {folder} do not make this graph: {reason}.",
            f"Delete {', '.join(files.urls)} there and run again to download them.",
        )


def _loader(row: GraphRow) -> Loader:
    # Imported by name and late: PyG's loaders take a second to import, and lists and descriptions need none.
    loader: Loader = pkgutil.resolve_name(f"unlearnbench.datasets.{row.loader}")
    return loader


def published_graph(row: GraphRow) -> type[PublishedGraph]:
    """Make the component class of a row of the catalogue."""
    attributes = {"__module__": __name__, "__doc__": row.summary, "row": row, **vars(row)}
    return type(row.name, (PublishedGraph,), attributes)


# Each class is an attribute of this module under the graph's name, so that `published:cora` finds it, and pickle too.
globals().update({row.name: published_graph(row) for row in GRAPHS})
