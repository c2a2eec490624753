"""Social networks and pictures, read by PyG's own loaders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch_geometric.datasets import AttributedGraphDataset, Flickr, LastFMAsia

from unlearnbench.datasets.base import GraphSize
from unlearnbench.datasets.contents import check_array, check_arrays, check_json, check_numbers
from unlearnbench.datasets.pyg import PygDataset
from unlearnbench.datasets.raw import RawFiles

DRIVE = "https://drive.usercontent.google.com/download?id={}&confirm=t"
CSR_ARRAYS = ("indices", "indptr", "data", "shape")


class BlogCatalog(PygDataset):
    """BlogCatalog: bloggers who follow each other, keywords of their blogs, six interests."""

    name = "blogcatalog"
    summary = "Links among 5,196 bloggers."
    reference = "Yang et al., Scaling attributed network embedding to massive graphs, VLDB 2021."
    source = "https://arxiv.org/abs/2009.00826"
    size = GraphSize(5196, 343486, 8189, 6)

    def raw_files(self) -> RawFiles:
        """Name features, edges and labels, which come in one archive."""
        archive = DRIVE.format(AttributedGraphDataset.datasets["blogcatalog"])
        names = ("attrs.npz", "edgelist.txt", "labels.txt")
        urls = {name: f"{archive}#blogcatalog.attr/{name}" for name in names}
        return RawFiles(self.name, "AttributedGraphDataset/blogcatalog/raw", urls, check_attributed_file)

    def _parse(self, folder: Path) -> Any:
        return AttributedGraphDataset(str(folder.parents[1]), "BlogCatalog")[0]


def check_attributed_file(name: str, content: bytes) -> None:
    """Check one file of an attributed graph.

    Raises:
        DataError: It is damaged or something else.
    """
    if name.endswith(".npz"):
        check_arrays(content, CSR_ARRAYS)
    else:
        check_numbers(content)


class LastFM(PygDataset):
    """LastFM Asia: users of LastFM who are friends, artists they like, eighteen countries."""

    name = "lastfm-asia"
    summary = "Friendships among 7,624 users of LastFM in Asia."
    reference = "Rozemberczki and Sarkar, Characteristic functions on graphs, CIKM 2020."
    license = "MIT (repository)"
    source = "https://github.com/benedekrozemberczki/FEATHER"
    size = GraphSize(7624, 55612, 128, 18)

    def raw_files(self) -> RawFiles:
        """Name the one file."""
        return RawFiles(self.name, "LastFMAsia/raw", {"lastfm_asia.npz": LastFMAsia.url}, check_lastfm_file)

    def _parse(self, folder: Path) -> Any:
        return LastFMAsia(str(folder.parent))[0]


def check_lastfm_file(name: str, content: bytes) -> None:
    """Check the archive of LastFM Asia; PyG would unpickle what is in it.

    Raises:
        DataError: It is damaged, lacks an array, or one of them is a pickled object.
    """
    check_arrays(content, ("edges", "features", "target"))


class FlickrImages(PygDataset):
    """Flickr: pictures that share a place, a gallery or tags, bags of words, seven kinds; its own split."""

    name = "flickr"
    summary = "89,250 pictures with common properties; comes with its own split."
    reference = "Zeng et al., GraphSAINT: Graph sampling based inductive learning method, ICLR 2020."
    license = "MIT (repository)"
    source = "https://github.com/GraphSAINT/GraphSAINT"
    size = GraphSize(89250, 899756, 500, 7)
    own_split = True

    def raw_files(self) -> RawFiles:
        """Name edges, features, classes and roles."""
        addresses = {
            "adj_full.npz": Flickr.adj_full_id,
            "feats.npy": Flickr.feats_id,
            "class_map.json": Flickr.class_map_id,
            "role.json": Flickr.role_id,
        }
        urls = {name: DRIVE.format(address) for name, address in addresses.items()}
        return RawFiles(self.name, "Flickr/raw", urls, check_flickr_file)

    def _parse(self, folder: Path) -> Any:
        return Flickr(str(folder.parent))[0]


def check_flickr_file(name: str, content: bytes) -> None:
    """Check one file in the form of GraphSAINT.

    Raises:
        DataError: It is damaged or something else.
    """
    if name.endswith(".npz"):
        check_arrays(content, CSR_ARRAYS)
    elif name.endswith(".npy"):
        check_array(content)
    else:
        check_json(content)
