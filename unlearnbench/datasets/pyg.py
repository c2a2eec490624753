"""Citation networks and a product network, read by PyG from their raw files.

PyG's parsers do the reading, on a private copy of the raw files. Nothing processed is kept:
each of these graphs is read in about a second, so that a cache would only bring its own
troubles (jobs that share a root, files of other versions of PyG, settings it was made with).

PyG's own download is not used: it waits without limit, leaves half-written files behind and
does not check certificates. The addresses and file names are PyG's.
"""

from __future__ import annotations

import io
import tempfile
import warnings
import zipfile
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch
from torch_geometric.datasets import Amazon, Planetoid
from torch_geometric.io import read_npz, read_planetoid_data

from unlearnbench.datasets.base import Dataset, GraphSize, graph_size
from unlearnbench.datasets.pickles import read_pickle
from unlearnbench.datasets.raw import RawFiles
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph, checked

PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
NPZ_ARRAYS = (
    "adj_data",
    "adj_indices",
    "adj_indptr",
    "adj_shape",
    "attr_data",
    "attr_indices",
    "attr_indptr",
    "attr_shape",
    "labels",
)


class PygDataset(Dataset):
    """A graph that PyG reads from raw files under `<root>/<loader>/<name>/raw`.

    Attributes:
        size: How large the published graph is; files that give another size are refused.
    """

    size: ClassVar[GraphSize]

    def load(self, root: Path) -> Graph:
        """Load the graph: see `Dataset.load`. Node ids are 0..n-1, features as PyG gives them."""
        files = self.raw_files()
        contents = files.read(root)
        try:
            with tempfile.TemporaryDirectory(prefix="unlearnbench-") as private, warnings.catch_warnings():
                # Their pickles name modules that numpy and scipy have moved since.
                warnings.simplefilter("ignore")
                for name, content in contents.items():
                    (Path(private) / name).write_bytes(content)
                data = self._parse(Path(private))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
            raise self._unfit(files, root, f"{type(error).__name__}: {error}") from None
        y = data.y.to(torch.int64)
        graph = Graph(data.x, y, data.edge_index, torch.arange(len(y)), self.size.classes)
        if int(y.max()) + 1 != self.size.classes or graph_size(graph) != self.size:
            found = graph_size(graph)._replace(classes=int(y.max()) + 1)
            raise self._unfit(files, root, f"they give {found}; published: {self.size}")
        return checked(graph, self.name)

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
    def _parse(self, folder: Path) -> Any:
        """Let PyG read a folder of checked files."""

    def _unfit(self, files: RawFiles, root: Path, reason: str) -> DataError:
        folder = files.find(root)
        return DataError(
            f"Dataset {self.name}: the files in {folder} do not make this graph: {reason}.",
            f"Delete {', '.join(files.urls)} there and run again to download them.",
        )


class PlanetoidDataset(PygDataset):
    """A citation network: papers, bags of words, citations.

    Attributes:
        title: How PyG spells the name.
    """

    title: ClassVar[str]
    license = "MIT (repository)"
    source = "https://github.com/kimiyoung/planetoid/tree/master/data"
    reference = "Yang, Cohen and Salakhutdinov, Revisiting semi-supervised learning with graph embeddings, ICML 2016."

    def raw_files(self) -> RawFiles:
        """Name the eight files `ind.<name>.*`."""
        names = [f"ind.{self.title.lower()}.{part}" for part in PLANETOID_PARTS]
        urls = {name: f"{Planetoid.url}/{name}" for name in names}
        return RawFiles(self.name, f"Planetoid/{self.title}/raw", urls, check_planetoid_file)

    def _parse(self, folder: Path) -> Any:
        return read_planetoid_data(str(folder), self.title)


def check_planetoid_file(name: str, content: bytes) -> None:
    """Check one file `ind.<name>.<part>`, without letting it run anything.

    Raises:
        DataError: It is damaged, or is not what this part should be.
    """
    if name.endswith(".index"):
        lines = content.split()
        if not lines or not all(line.isdigit() for line in lines):
            raise DataError("it is not a list of node numbers.")
        return
    value = read_pickle(content)
    wanted: tuple[type[Any], ...] = (dict,) if name.endswith(".graph") else (np.ndarray, scipy.sparse.csr_matrix)
    if not isinstance(value, wanted):
        raise DataError(f"it holds a {type(value).__name__}, not a {wanted[-1].__name__}.")


class Cora(PlanetoidDataset):
    """Cora: papers on machine learning in seven fields."""

    name = "cora"
    summary = "Citations among 2,708 papers on machine learning."
    title = "Cora"
    size = GraphSize(2708, 10556, 1433, 7)


class CiteSeer(PlanetoidDataset):
    """CiteSeer: papers on computer science in six fields.

    Fifteen of its 48 isolated nodes have neither features nor a label in the raw files; PyG
    gives them zeros and class 0.
    """

    name = "citeseer"
    summary = "Citations among 3,327 papers on computer science."
    title = "CiteSeer"
    size = GraphSize(3327, 9104, 3703, 6)


class PubMed(PlanetoidDataset):
    """PubMed: papers on three kinds of diabetes."""

    name = "pubmed"
    summary = "Citations among 19,717 papers on diabetes."
    title = "PubMed"
    size = GraphSize(19717, 88648, 500, 3)


class AmazonPhoto(PygDataset):
    """Amazon Photo: goods often bought together, words of their reviews, eight categories."""

    name = "amazon-photo"
    summary = "Goods bought together: 7,650 photo products."
    reference = "Shchur, Mumme, Bojchevski and Guennemann, Pitfalls of graph neural network evaluation, 2018."
    license = "MIT (repository)"
    source = "https://github.com/shchur/gnn-benchmark/tree/master/data/npz"
    size = GraphSize(7650, 238162, 745, 8)

    def raw_files(self) -> RawFiles:
        """Name the one file."""
        name = "amazon_electronics_photo.npz"
        return RawFiles(self.name, "Amazon/Photo/raw", {name: Amazon.url + name}, check_npz_file)

    def _parse(self, folder: Path) -> Any:
        return read_npz(str(folder / "amazon_electronics_photo.npz"), to_undirected=True)


def check_npz_file(name: str, content: bytes) -> None:
    """Check an archive of arrays in the form of Shchur et al.

    Raises:
        DataError: It is damaged, holds pickled objects, or lacks an array.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            missing = [array for array in NPZ_ARRAYS if array not in archive.files]
            for array in archive.files:
                archive[array]
    except (ValueError, KeyError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"it cannot be read as an archive of arrays ({type(error).__name__}: {error}).") from None
    if missing:
        raise DataError(f"it lacks the array {missing[0]}.")
