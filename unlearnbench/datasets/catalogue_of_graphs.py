"""The table of published graphs: one row each, read without loading torch.

Rows keep to what the sources publish. A file's SHA-256 is None where the published file was never at hand: its
first download then records the hash (see `raw.RawFiles`), and its content and the size of the graph are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple


class GraphSize(NamedTuple):
    """Size of a graph: isolated nodes count too, and an undirected edge counts twice."""

    nodes: int
    edges: int
    features: int
    classes: int

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.edges} directed edges, {self.features} features, {self.classes} classes"


@dataclass(frozen=True)
class GraphRow:
    """A published graph, whose files lie in `folder` under a data root; files that give another `size` are refused.

    `files` maps file names, perhaps with folders, to their SHA-256, None where that is not known. `loader` names the
    `published.Loader` that reads them, as `module:NAME` in this package; one download may take `seconds`. `license`
    is empty where the source says nothing about use. `own_split` is whether the graph comes with one split, which
    then every repetition uses; graphs with several splits are dealt into the harness's folds. `headline` is the
    metric that papers report of it.
    """

    name: str
    folder: str
    summary: str
    size: GraphSize
    files: Mapping[str, str | None]
    loader: str
    source: str
    reference: str
    license: str = "MIT (repository)"
    own_split: bool = False
    seconds: float = 300.0
    headline: str = "f1_micro"


_planetoid = partial(
    GraphRow,
    loader="pyg:PLANETOID",
    source="https://github.com/kimiyoung/planetoid/tree/master/data",
    reference="Yang, Cohen and Salakhutdinov, Revisiting semi-supervised learning with graph embeddings, ICML 2016.",
)
_shchur = partial(
    GraphRow,
    source="https://github.com/shchur/gnn-benchmark/tree/master/data/npz",
    reference="Shchur, Mumme, Bojchevski and Guennemann, Pitfalls of graph neural network evaluation, 2018.",
)


def _archive(
    family: str,
    loader: str,
    source: str,
    reference: str,
    name: str,
    summary: str,
    size: GraphSize,
    headline: str = "f1_micro",
) -> GraphRow:
    title = name.replace("-", "_")
    files, folder = {f"{title}.npz": None}, f"{family}/{title}/raw"
    return GraphRow(name, folder, summary, size, files, loader, source, reference, headline=headline)


_bojchevski = partial(
    _archive,
    "CitationFull",
    "pyg:CITATION_FULL",
    "https://github.com/abojchevski/graph2gauss/tree/master/data",
    "Bojchevski and Guennemann, Deep Gaussian embedding of graphs, ICLR 2018.",
)
_heterophilous = partial(
    _archive,
    "HeterophilousGraphDataset",
    "pyg:HETEROPHILOUS",
    "https://github.com/yandex-research/heterophilous-graphs",
    "Platonov et al., A critical look at the evaluation of GNNs under heterophily, ICLR 2023.",
)


def _geom_gcn(name: str, summary: str, size: GraphSize, title: str, folder: str, loader: str) -> GraphRow:
    tables = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
    # The ten splits are not used, but PyG's loader wants their files too.
    splits = (f"{title}_split_0.6_0.2_{number}.npz" for number in range(10))
    source = "https://github.com/graphdml-uiuc-jlu/geom-gcn"
    reference = "Pei et al., Geom-GCN: Geometric graph convolutional networks, ICLR 2020."
    files = dict.fromkeys([*tables, *splits])
    return GraphRow(name, folder, summary, size, files, loader, source, reference, license="")


def _wikipedia(name: str, summary: str, size: GraphSize) -> GraphRow:
    return _geom_gcn(name, summary, size, name, f"WikipediaNetwork/{name}/geom_gcn/raw", "pyg:WIKIPEDIA")


def _ogb(name: str, summary: str, size: GraphSize, split: str, license: str, seconds: float) -> GraphRow:
    tables = [f"raw/{table}.csv.gz" for table in ("edge", "node-feat", "node-label", "num-node-list")]
    split_lists = [f"split/{split}/{part}.csv.gz" for part in ("train", "valid", "test")]
    source = f"https://ogb.stanford.edu/docs/nodeprop/#{name}"
    reference = "Hu et al., Open graph benchmark: Datasets for machine learning on graphs, NeurIPS 2020."
    files = dict.fromkeys([*tables, *split_lists])
    folder = f"OGB/{name.replace('-', '_')}"
    return GraphRow(name, folder, summary, size, files, "ogb:OGB", source, reference, license, True, seconds)


GRAPHS = (
    _planetoid(
        "cora",
        "Planetoid/Cora/raw",
        "Citations among 2,708 papers on machine learning, 7 fields.",
        GraphSize(2708, 10556, 1433, 7),
        {
            "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
            "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
            "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
            "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
            "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
            "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
            "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
            "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
        },
    ),
    # Fifteen of its 48 isolated nodes have neither features nor a label in the raw files; PyG gives them zeros and
    # class 0.
    _planetoid(
        "citeseer",
        "Planetoid/CiteSeer/raw",
        "Citations among 3,327 papers on computer science, 6 fields.",
        GraphSize(3327, 9104, 3703, 6),
        {
            "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
            "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
            "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
            "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
            "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
            "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
            "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
            "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
        },
    ),
    _planetoid(
        "pubmed",
        "Planetoid/PubMed/raw",
        "Citations among 19,717 papers on 3 kinds of diabetes.",
        GraphSize(19717, 88648, 500, 3),
        {
            "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
            "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
            "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
            "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
            "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
            "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
            "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
            "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
        },
    ),
    _bojchevski(
        "cora-ml", "Citations among 2,995 papers on machine learning, 7 fields.", GraphSize(2995, 16316, 2879, 7)
    ),
    _bojchevski(
        "dblp", "Citations among 17,716 papers on computer science, 4 fields.", GraphSize(17716, 105734, 1639, 4)
    ),
    _shchur(
        "amazon-photo",
        "Amazon/Photo/raw",
        "Photo products bought together, 7,650, 8 categories.",
        GraphSize(7650, 238162, 745, 8),
        {"amazon_electronics_photo.npz": None},
        loader="pyg:AMAZON",
    ),
    _shchur(
        "amazon-computers",
        "Amazon/Computers/raw",
        "Computer products bought together, 13,752, 10 categories.",
        GraphSize(13752, 491722, 767, 10),
        {"amazon_electronics_computers.npz": None},
        loader="pyg:AMAZON",
    ),
    _shchur(
        "coauthor-cs",
        "Coauthor/CS/raw",
        "Joint papers of 18,333 authors in computer science, 15 fields.",
        GraphSize(18333, 163788, 6805, 15),
        {"ms_academic_cs.npz": None},
        loader="pyg:COAUTHOR",
    ),
    _shchur(
        "coauthor-physics",
        "Coauthor/Physics/raw",
        "Joint papers of 34,493 authors in physics, 5 fields.",
        GraphSize(34493, 495924, 8415, 5),
        {"ms_academic_phy.npz": None},
        loader="pyg:COAUTHOR",
    ),
    GraphRow(
        "blogcatalog",
        "AttributedGraphDataset/blogcatalog/raw",
        "Links among 5,196 bloggers, 6 interests.",
        GraphSize(5196, 343486, 8189, 6),
        {"attrs.npz": None, "edgelist.txt": None, "labels.txt": None},
        loader="pyg:ATTRIBUTED",
        source="https://arxiv.org/abs/2009.00826",
        reference="Yang et al., Scaling attributed network embedding to massive graphs, VLDB 2021.",
        license="",
    ),
    GraphRow(
        "lastfm-asia",
        "LastFMAsia/raw",
        "Friendships among 7,624 users of LastFM in Asia, 18 countries.",
        GraphSize(7624, 55612, 128, 18),
        {"lastfm_asia.npz": None},
        loader="pyg:LASTFM",
        source="https://github.com/benedekrozemberczki/FEATHER",
        reference="Rozemberczki and Sarkar, Characteristic functions on graphs, CIKM 2020.",
    ),
    GraphRow(
        "flickr",
        "Flickr/raw",
        "Pictures with common properties, 89,250, 7 kinds; own split.",
        GraphSize(89250, 899756, 500, 7),
        {"adj_full.npz": None, "feats.npy": None, "class_map.json": None, "role.json": None},
        loader="pyg:FLICKR",
        source="https://github.com/GraphSAINT/GraphSAINT",
        reference="Zeng et al., GraphSAINT: Graph sampling based inductive learning method, ICLR 2020.",
        own_split=True,
    ),
    _heterophilous(
        "roman-empire",
        "Words of an article joined by order and syntax, 22,662, 18 roles.",
        GraphSize(22662, 65854, 300, 18),
    ),
    _heterophilous(
        "amazon-ratings", "Goods bought together, 24,492, 5 classes of rating.", GraphSize(24492, 186100, 300, 5)
    ),
    _heterophilous(
        "minesweeper", "Cells of a board, 10,000, mine or not.", GraphSize(10000, 78804, 7, 2), headline="roc_auc"
    ),
    _heterophilous(
        "tolokers",
        "Workers with common tasks, 11,758, banned or not.",
        GraphSize(11758, 1038000, 10, 2),
        headline="roc_auc",
    ),
    _heterophilous(
        "questions",
        "Users who answer each other's questions, 48,921, active or not.",
        GraphSize(48921, 307080, 301, 2),
        headline="roc_auc",
    ),
    _geom_gcn(
        "actor",
        "Actors on one page, 7,600, 5 classes.",
        GraphSize(7600, 30019, 932, 5),
        "film",
        "Actor/raw",
        "pyg:ACTOR",
    ),
    _wikipedia(
        "chameleon", "Links among 2,277 pages on chameleons, 5 classes of traffic.", GraphSize(2277, 36101, 2325, 5)
    ),
    _wikipedia(
        "squirrel", "Links among 5,201 pages on squirrels, 5 classes of traffic.", GraphSize(5201, 217073, 2089, 5)
    ),
    # Citations are directed. Trained on papers until 2017, tested on those since 2019.
    _ogb(
        "ogbn-arxiv",
        "Citations among 169,343 papers of arXiv, 40 fields; own split.",
        GraphSize(169343, 1166243, 128, 40),
        split="time",
        license="ODC-BY",
        seconds=1800.0,
    ),
    _ogb(
        "ogbn-products",
        "Goods bought together, 2,449,029, 47 categories; own split.",
        GraphSize(2449029, 123718280, 100, 47),
        split="sales_ranking",
        license="Amazon license",
        seconds=7200.0,
    ),
)

HEADLINES = {row.name: row.headline for row in GRAPHS}
"""The metric that papers report of each graph."""
