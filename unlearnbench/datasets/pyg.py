"""Graphs that PyG reads from their raw files; here the citation networks of the Planetoid repository.

PyG's parsers do the reading, on a private copy of the raw files. Nothing processed is kept: most
of these graphs are read in about a second, so that a cache would only bring its own troubles
(jobs that share a root, files of other versions of PyG, settings it was made with).

PyG's own download is not used: it waits without limit, leaves half-written files behind and
does not check certificates. The addresses and file names are PyG's.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from torch_geometric.datasets import Planetoid
from torch_geometric.io import read_planetoid_data

from unlearnbench.datasets.base import GraphSize
from unlearnbench.datasets.pickles import read_pickle
from unlearnbench.datasets.published import PublishedGraph
from unlearnbench.datasets.raw import RawFiles
from unlearnbench.errors import DataError

PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


class PygDataset(PublishedGraph):
    """A graph that PyG reads from raw files under `<root>/<loader>/<name>/raw`."""

    def _read(self, contents: Mapping[str, bytes]) -> Any:
        folder = self.raw_files().folder
        # PyG tells the standard error stream that it processes.
        with (
            tempfile.TemporaryDirectory(prefix="unlearnbench-") as private,
            contextlib.redirect_stderr(io.StringIO()),
        ):
            place = Path(private) / folder
            place.mkdir(parents=True)
            for name, content in contents.items():
                (place / name).write_bytes(content)
            return self._parse(place)

    @abstractmethod
    def _parse(self, folder: Path) -> Any:
        """Let PyG read a folder of checked files, which lies as `RawFiles.folder` says."""


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
