"""Graphs whose neighbours often differ in class, read by PyG's own loaders.

Each comes with ten splits; the harness's folds are used instead, as for any graph without one
split of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from torch_geometric.datasets import Actor, HeterophilousGraphDataset, WikipediaNetwork

from unlearnbench.datasets.base import GraphSize
from unlearnbench.datasets.contents import check_arrays, check_numbers
from unlearnbench.datasets.pyg import PygDataset
from unlearnbench.datasets.raw import RawFiles

MASKS = ("train_mask", "val_mask", "test_mask")
HETEROPHILOUS_ARRAYS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")
NODES, EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"
SPLITS = 10


class Heterophilous(PygDataset):
    """A graph of the heterophilous benchmark; every edge stands in both directions."""

    license = "MIT (repository)"
    source = "https://github.com/yandex-research/heterophilous-graphs"
    reference = "Platonov et al., A critical look at the evaluation of GNNs under heterophily, ICLR 2023."

    def raw_files(self) -> RawFiles:
        """Name the one file."""
        title = self.name.replace("-", "_")
        urls = {f"{title}.npz": f"{HeterophilousGraphDataset.url}/{title}.npz"}
        return RawFiles(self.name, f"HeterophilousGraphDataset/{title}/raw", urls, check_heterophilous_file)

    def _parse(self, folder: Path) -> Any:
        return HeterophilousGraphDataset(str(folder.parents[1]), self.name)[0]


def check_heterophilous_file(name: str, content: bytes) -> None:
    """Check an archive of the heterophilous benchmark.

    Raises:
        DataError: It is damaged, lacks an array, or one of them is a pickled object.
    """
    check_arrays(content, HETEROPHILOUS_ARRAYS)


class RomanEmpire(Heterophilous):
    """Roman Empire: words of an article that follow or depend on each other, eighteen roles."""

    name = "roman-empire"
    summary = "22,662 words of an article, joined by order and syntax."
    size = GraphSize(22662, 65854, 300, 18)


class AmazonRatings(Heterophilous):
    """Amazon Ratings: goods often bought together, their mean rating in five classes."""

    name = "amazon-ratings"
    summary = "24,492 goods bought together, classed by rating."
    size = GraphSize(24492, 186100, 300, 5)


class Minesweeper(Heterophilous):
    """Minesweeper: the cells of a 100 x 100 board, a fifth of them mines."""

    name = "minesweeper"
    summary = "10,000 cells of a board, mine or not."
    size = GraphSize(10000, 78804, 7, 2)


class Tolokers(Heterophilous):
    """Tolokers: workers who did the same task, whether they were banned."""

    name = "tolokers"
    summary = "11,758 workers with common tasks, banned or not."
    size = GraphSize(11758, 1038000, 10, 2)


class Questions(Heterophilous):
    """Questions: users who answered each other's questions, whether they stayed."""

    name = "questions"
    summary = "48,921 users of a site of questions, active or not."
    size = GraphSize(48921, 307080, 301, 2)


class GeomGcn(PygDataset):
    """A graph in the form of Geom-GCN: two tables and ten splits; edges are directed."""

    source = "https://github.com/graphdml-uiuc-jlu/geom-gcn"
    reference = "Pei et al., Geom-GCN: Geometric graph convolutional networks, ICLR 2020."
    folder: ClassVar[str]
    tables: ClassVar[str]
    splits: ClassVar[str]

    def raw_files(self) -> RawFiles:
        """Name nodes, edges and the ten splits, which PyG's loader wants too."""
        urls = {name: f"{self.tables}/{name}" for name in (NODES, EDGES)}
        urls |= {name: f"{self.splits}/{name}" for name in self._split_names()}
        return RawFiles(self.name, self.folder, urls, check_geom_file)

    def _split_names(self) -> list[str]:
        return [f"{self.name}_split_0.6_0.2_{number}.npz" for number in range(SPLITS)]

    def _parse(self, folder: Path) -> Any:
        return WikipediaNetwork(str(folder.parents[2]), self.name)[0]


def check_geom_file(name: str, content: bytes) -> None:
    """Check one file in the form of Geom-GCN.

    Raises:
        DataError: It is damaged or something else.
    """
    if name.endswith(".npz"):
        check_arrays(content, MASKS)
    else:
        check_numbers(content, header=True)


class ActorNetwork(GeomGcn):
    """Actor: actors named on the same page of Wikipedia, keywords of their pages, five classes."""

    name = "actor"
    summary = "7,600 actors who occur on one page."
    folder = "Actor/raw"
    tables = f"{Actor.url}/new_data/film"
    splits = f"{Actor.url}/splits"
    size = GraphSize(7600, 30019, 932, 5)

    def _split_names(self) -> list[str]:
        return [f"film_split_0.6_0.2_{number}.npz" for number in range(SPLITS)]

    def _parse(self, folder: Path) -> Any:
        return Actor(str(folder.parent))[0]


class Chameleon(GeomGcn):
    """Chameleon: pages of Wikipedia on chameleons, linked, classed by their traffic."""

    name = "chameleon"
    summary = "Links among 2,277 pages on chameleons."
    folder = "WikipediaNetwork/chameleon/geom_gcn/raw"
    tables = f"{WikipediaNetwork.processed_url}/new_data/chameleon"
    splits = f"{WikipediaNetwork.processed_url}/splits"
    size = GraphSize(2277, 36101, 2325, 5)


class Squirrel(GeomGcn):
    """Squirrel: pages of Wikipedia on squirrels, linked, classed by their traffic."""

    name = "squirrel"
    summary = "Links among 5,201 pages on squirrels."
    folder = "WikipediaNetwork/squirrel/geom_gcn/raw"
    tables = f"{WikipediaNetwork.processed_url}/new_data/squirrel"
    splits = f"{WikipediaNetwork.processed_url}/splits"
    size = GraphSize(5201, 217073, 2089, 5)
