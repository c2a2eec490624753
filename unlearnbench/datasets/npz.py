"""Co-purchases, co-authors and citations, published as archives of sparse matrices and read by PyG.

PyG sets every feature above 0 to 1, drops self-loops and adds the reverse of every edge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from torch_geometric.datasets import Amazon, CitationFull, Coauthor
from torch_geometric.io import read_npz

from unlearnbench.datasets.base import GraphSize
from unlearnbench.datasets.contents import check_arrays
from unlearnbench.datasets.pyg import PygDataset
from unlearnbench.datasets.raw import RawFiles

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


class NpzDataset(PygDataset):
    """A graph of one archive.

    Attributes:
        folder: Where it lies under a data root.
        file: Its name.
        url: The address it can be had from.
    """

    folder: ClassVar[str]
    file: ClassVar[str]
    url: ClassVar[str]
    license = "MIT (repository)"

    def raw_files(self) -> RawFiles:
        """Name the one file."""
        return RawFiles(self.name, self.folder, {self.file: self.url}, check_npz_file)

    def _parse(self, folder: Path) -> Any:
        return read_npz(str(folder / self.file), to_undirected=True)


def check_npz_file(name: str, content: bytes) -> None:
    """Check an archive of arrays in the form of Shchur et al.

    Raises:
        DataError: It is damaged, lacks an array, or one it needs is a pickled object.
    """
    check_arrays(content, NPZ_ARRAYS)


class _Shchur(NpzDataset):
    reference = "Shchur, Mumme, Bojchevski and Guennemann, Pitfalls of graph neural network evaluation, 2018."
    source = "https://github.com/shchur/gnn-benchmark/tree/master/data/npz"


class AmazonPhoto(_Shchur):
    """Amazon Photo: goods often bought together, words of their reviews, eight categories."""

    name = "amazon-photo"
    summary = "Goods bought together: 7,650 photo products."
    folder = "Amazon/Photo/raw"
    file = "amazon_electronics_photo.npz"
    url = Amazon.url + file
    size = GraphSize(7650, 238162, 745, 8)


class AmazonComputers(_Shchur):
    """Amazon Computers: goods often bought together, words of their reviews, ten categories."""

    name = "amazon-computers"
    summary = "Goods bought together: 13,752 computer products."
    folder = "Amazon/Computers/raw"
    file = "amazon_electronics_computers.npz"
    url = Amazon.url + file
    size = GraphSize(13752, 491722, 767, 10)


class CoauthorCS(_Shchur):
    """Coauthor CS: authors who wrote a paper together, keywords of their papers, fifteen fields."""

    name = "coauthor-cs"
    summary = "Joint papers of 18,333 authors in computer science."
    folder = "Coauthor/CS/raw"
    file = "ms_academic_cs.npz"
    url = Coauthor.url + file
    size = GraphSize(18333, 163788, 6805, 15)


class CoauthorPhysics(_Shchur):
    """Coauthor Physics: authors who wrote a paper together, keywords of their papers, five fields."""

    name = "coauthor-physics"
    summary = "Joint papers of 34,493 authors in physics."
    folder = "Coauthor/Physics/raw"
    file = "ms_academic_phy.npz"
    url = Coauthor.url + file
    size = GraphSize(34493, 495924, 8415, 5)


class _Bojchevski(NpzDataset):
    reference = "Bojchevski and Guennemann, Deep Gaussian embedding of graphs, ICLR 2018."
    source = "https://github.com/abojchevski/graph2gauss/tree/master/data"


class CoraML(_Bojchevski):
    """Cora ML: the papers on machine learning of the full Cora, in seven fields."""

    name = "cora-ml"
    summary = "Citations among 2,995 papers on machine learning."
    folder = "CitationFull/cora_ml/raw"
    file = "cora_ml.npz"
    url = CitationFull.url.format("cora_ml")
    size = GraphSize(2995, 16316, 2879, 7)


class DBLP(_Bojchevski):
    """DBLP: papers on computer science in four fields."""

    name = "dblp"
    summary = "Citations among 17,716 papers on computer science."
    folder = "CitationFull/dblp/raw"
    file = "dblp.npz"
    url = CitationFull.url.format("dblp")
    size = GraphSize(17716, 105734, 1639, 4)
