"""A published graph: raw files that are checked, parsed, and compared with the size it was published with."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from unlearnbench.datasets.base import Dataset, GraphSize, graph_size
from unlearnbench.datasets.checks import checked_graph
from unlearnbench.datasets.raw import RawFiles
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph, Split


class PublishedGraph(Dataset):
    """A graph read from raw files under the data root.

    Attributes:
        size: How large the published graph is; files that give another size are refused.
        own_split: Whether it comes with one split, which then every repetition uses. Graphs
            with several splits are dealt into the harness's folds.
    """

    size: ClassVar[GraphSize]
    own_split: ClassVar[bool] = False

    def load(self, root: Path) -> Graph:
        """Load the graph: see `Dataset.load`. Node ids are 0..n-1, features as published."""
        files = self.raw_files()
        contents = files.read(root)
        try:
            with warnings.catch_warnings():
                # The pickles of old files name modules that numpy and scipy have moved since.
                warnings.simplefilter("ignore")
                data = self._read(contents)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
            raise self._unfit(files, root, f"{type(error).__name__}: {error}") from None
        y = data.y.to(torch.int64)
        split = mask_split(data.train_mask, data.val_mask, data.test_mask) if self.own_split else None
        x, edge_index = data.x.to(torch.float32), data.edge_index.to(torch.int64).contiguous()
        graph = Graph(x, y, edge_index, torch.arange(len(y)), self.size.classes, split)
        if int(y.max()) + 1 != self.size.classes or graph_size(graph) != self.size:
            found = graph_size(graph)._replace(classes=int(y.max()) + 1)
            raise self._unfit(files, root, f"they give {found}; published: {self.size}")
        return checked_graph(graph, self.name)

    def presence(self, root: Path) -> str:
        """Say whether the raw files lie under the root or in the cache."""
        files = self.raw_files()
        for place in files.places(root):
            if not files.missing(place):
                return f"in {place}"
        return f"not there; would be downloaded to {files.places(root)[0]}"

    @abstractmethod
    def raw_files(self) -> RawFiles:
        """Name the raw files and how each is checked."""

    @abstractmethod
    def _read(self, contents: Mapping[str, bytes]) -> Any:
        """Make a `torch_geometric.data.Data` of the checked files."""

    def _unfit(self, files: RawFiles, root: Path, reason: str) -> DataError:
        folder = files.find(root)
        return DataError(
            f"Dataset {self.name}: the files in {folder} do not make this graph: {reason}.",
            f"Delete {', '.join(files.urls)} there and run again to download them.",
        )


def mask_split(train: Tensor, val: Tensor, test: Tensor) -> Split:
    """Make a split of masks.

    Args:
        train: bool [n].
        val: bool [n].
        test: bool [n].

    Returns:
        Positions of the nodes where each mask is true.
    """
    return Split(*(torch.nonzero(mask).flatten() for mask in (train, val, test)))
