"""Published graphs whose files are not at hand: sizes and names as PyG has them, small files in the same formats."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from graph_samples import SAMPLES, X, Y, archive, npz, put, small
from repository import ROOT
from torch_geometric import datasets as pyg

from unlearnbench.datasets import raw
from unlearnbench.datasets.base import edge_homophily, edge_statistics, load_graph
from unlearnbench.datasets.catalogue_of_graphs import GraphSize
from unlearnbench.datasets.contents import check_array, check_arrays, check_json, check_numbers
from unlearnbench.datasets.published import PublishedGraph
from unlearnbench.datasets.raw import RawFiles
from unlearnbench.errors import DataError
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.testing.graphs import toy_graph

CATALOGUE = load_catalogue()


def published() -> dict[str, type[PublishedGraph]]:
    classes = {entry.name: CATALOGUE.load(entry) for entry in CATALOGUE.all("dataset")}
    return {name: cls for name, cls in classes.items() if issubclass(cls, PublishedGraph)}


PUBLISHED = published()
LOADERS: dict[str, tuple[Any, str]] = {
    "cora": (pyg.Planetoid, "Cora"),
    "citeseer": (pyg.Planetoid, "CiteSeer"),
    "pubmed": (pyg.Planetoid, "PubMed"),
    "cora-ml": (pyg.CitationFull, "Cora_ML"),
    "dblp": (pyg.CitationFull, "DBLP"),
    "amazon-photo": (pyg.Amazon, "Photo"),
    "amazon-computers": (pyg.Amazon, "Computers"),
    "coauthor-cs": (pyg.Coauthor, "CS"),
    "coauthor-physics": (pyg.Coauthor, "Physics"),
    "blogcatalog": (pyg.AttributedGraphDataset, "BlogCatalog"),
    "lastfm-asia": (pyg.LastFMAsia, ""),
    "flickr": (pyg.Flickr, ""),
    "roman-empire": (pyg.HeterophilousGraphDataset, "Roman-empire"),
    "amazon-ratings": (pyg.HeterophilousGraphDataset, "Amazon-ratings"),
    "minesweeper": (pyg.HeterophilousGraphDataset, "Minesweeper"),
    "tolokers": (pyg.HeterophilousGraphDataset, "Tolokers"),
    "questions": (pyg.HeterophilousGraphDataset, "Questions"),
    "actor": (pyg.Actor, ""),
    "chameleon": (pyg.WikipediaNetwork, "chameleon"),
    "squirrel": (pyg.WikipediaNetwork, "squirrel"),
}
# PyG's page counts an undirected edge of these once, its loader twice.
COUNTED_ONCE = {"roman-empire", "amazon-ratings", "minesweeper", "tolokers", "questions"}
OF_OGB = {"ogbn-arxiv", "ogbn-products"}
ROW = re.compile(r"\* - (\S+)\n\s+- ([\d,]+)\n\s+- ([\d,]+)\n\s+- ([\d,]+)\n\s+- ([\d,]+)")
NAMELESS = re.compile(r"\* - ([\d,]+)\n\s+- ([\d,]+)\n\s+- ([\d,]+)\n\s+- ([\d,]+)\n")


def number(text: str) -> int:
    return int(text.replace(",", ""))


def size_on_page(loader: Any, title: str) -> GraphSize | None:
    text = loader.__doc__
    if title:
        for row in ROW.finditer(text):
            if row[1] == title:
                return GraphSize(*(number(value) for value in row.groups()[1:]))
        return None
    row = NAMELESS.search(text)
    if row is None:
        row = re.search(r"contains ([\d,]+) nodes, ([\d,]+) edges, (\d+) node features and (\d+) classes", text)
    return None if row is None else GraphSize(*(number(value) for value in row.groups()))


def test_every_published_graph_is_accounted_for() -> None:
    assert set(PUBLISHED) == set(LOADERS) | OF_OGB
    assert set(PUBLISHED) - set(SAMPLES) == {name for name in LOADERS if LOADERS[name][0] in NPZ | {pyg.Planetoid}}
    for name, cls in PUBLISHED.items():
        assert cls.summary
        assert cls.reference
        assert cls.source.startswith("https://")
        assert cls.own_split == (name in {"flickr", *OF_OGB})


@pytest.mark.parametrize("name", sorted(set(LOADERS) - {"chameleon", "squirrel"}))
def test_sizes_are_those_on_the_page_of_pyg(name: str) -> None:
    found = size_on_page(*LOADERS[name])
    assert found is not None
    if name in COUNTED_ONCE:
        found = found._replace(edges=2 * found.edges)
    assert PUBLISHED[name].size == found


@pytest.mark.parametrize("name", sorted(LOADERS))
def test_files_and_folders_are_those_of_pyg(name: str, tmp_path: Path) -> None:
    loader, title = LOADERS[name]
    plain = title.lower().replace("-", "_") if loader is not pyg.Coauthor else title
    stub: Any = SimpleNamespace(name=plain, root=str(tmp_path), geom_gcn_preprocess=True, split="public")
    if loader is pyg.Planetoid:
        stub.name = title
    names = loader.raw_file_names.fget(stub)
    files = PUBLISHED[name]().raw_files()
    assert list(files.urls) == ([names] if isinstance(names, str) else list(names))
    folder = Path(files.folder)
    assert folder.parts[0] == loader.__name__
    assert tmp_path.joinpath(*folder.parts[1:]) == Path(loader.raw_dir.fget(stub))
    assert all(url.startswith("https://") for url in files.urls.values())


NPZ = {pyg.Amazon, pyg.Coauthor, pyg.CitationFull}


def edges_of(graph: Any) -> list[list[int]]:
    return sorted(graph.edge_index.T.tolist())


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", sorted(name for name in LOADERS if LOADERS[name][0] in NPZ))
def test_archives_of_sparse_matrices_are_read(name: str, tmp_path: Path) -> None:
    dataset = small(PUBLISHED[name], GraphSize(3, 4, 2, 2))
    files = dataset.raw_files()
    # The published archives hold names of nodes too, as a pickled dictionary that nothing opens.
    put(tmp_path, files.folder, {next(iter(files.urls)): npz(idx_to_node=np.array({0: "a"}, dtype=object))})
    graph = load_graph(dataset, tmp_path)
    assert graph.x.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert graph.y.tolist() == [0, 1, 1]
    assert edges_of(graph) == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph.split is None


ONE_WAY = {"actor", "chameleon", "squirrel", "ogbn-arxiv"}


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_small_files_in_the_published_format_are_read(name: str, tmp_path: Path) -> None:
    edges = [[0, 1], [1, 2]] if name in ONE_WAY else [[0, 1], [1, 0], [1, 2], [2, 1]]
    dataset = small(PUBLISHED[name], GraphSize(4, len(edges), 2, 2))
    folder = put(tmp_path, dataset.raw_files().folder, SAMPLES[name])
    before = sorted(tmp_path.rglob("*"))
    graph = load_graph(dataset, tmp_path)
    assert graph.x.tolist() == ([[1, 0], [0, 1], [1, 1], [0, 1]] if name == "actor" else X.tolist())
    assert graph.y.tolist() == Y.tolist()
    assert edges_of(graph) == edges
    assert graph.ids.tolist() == [0, 1, 2, 3]
    if dataset.own_split:
        assert graph.split is not None
        assert [ids.tolist() for ids in graph.split.parts().values()] == [[0, 3], [1], [2]]
    else:
        assert graph.split is None
    assert sorted(tmp_path.rglob("*")) == before
    assert dataset.presence(tmp_path) == f"in {folder}"
    with pytest.raises(DataError, match=r"4 nodes.*published"):
        PUBLISHED[name]().load(tmp_path)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name in sorted(SAMPLES) for file in sorted(SAMPLES[name])[:4]]
)
def test_a_page_in_place_of_a_file_is_named(name: str, file: str, tmp_path: Path) -> None:
    dataset = PUBLISHED[name]()
    folder = put(tmp_path, dataset.raw_files().folder, SAMPLES[name])
    (folder / file).write_bytes(b"<html>rate limited</html>\n")
    with pytest.raises(DataError, match="damaged or not the right file") as caught:
        dataset.load(tmp_path)
    assert str(folder / file) in caught.value.message


def test_lastfm_with_pickled_objects_is_not_opened(tmp_path: Path) -> None:
    content = archive(edges=np.array([[0, 1]]), features=np.array([{}, {}], dtype=object), target=np.array([0, 1]))
    put(tmp_path, "LastFMAsia/raw", {"lastfm_asia.npz": content})
    with pytest.raises(DataError, match="allow_pickle=False"):
        PUBLISHED["lastfm-asia"]().load(tmp_path)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("raw/edge.csv.gz", SAMPLES["ogbn-arxiv"]["raw/edge.csv.gz"][:-12], "raw/edge.csv.gz cannot be read"),
        ("raw/num-node-list.csv.gz", SAMPLES["ogbn-arxiv"]["split/time/valid.csv.gz"], "4 rows of features"),
        (
            "split/time/test.csv.gz",
            SAMPLES["ogbn-arxiv"]["raw/num-node-list.csv.gz"],
            "test.csv.gz names a node outside 0..3",
        ),
    ],
)
def test_tables_of_ogb_that_do_not_fit_are_refused(file: str, content: bytes, message: str, tmp_path: Path) -> None:
    dataset = small(PUBLISHED["ogbn-arxiv"], GraphSize(4, 2, 2, 2))
    put(tmp_path, dataset.raw_files().folder, {**SAMPLES["ogbn-arxiv"], file: content})
    with pytest.raises(DataError, match=message):
        dataset.load(tmp_path)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda content: check_arrays(content, ["a"]), archive(a=np.ones(2)), archive(b=np.ones(2))),
        (check_numbers, b"1 2\n-3.5e1,4\n", b"1 two\n"),
        (lambda content: check_numbers(content, header=True), b"id\tid\n0\t1\n", b"id\tid\n"),
        (check_json, b'{"0": 1}', b"[1]"),
        (check_json, b"{}", b"\xff"),
    ],
)
def test_contents_are_told_apart(check: Any, good: bytes, bad: bytes) -> None:
    check(good)
    with pytest.raises(DataError):
        check(bad)


def test_an_array_is_told_from_a_pickle() -> None:
    for dtype, sound in ((float, True), (object, False)):
        buffer = io.BytesIO()
        np.save(buffer, np.ones(2, dtype=dtype), allow_pickle=True)
        if sound:
            check_array(buffer.getvalue())
        else:
            with pytest.raises(DataError, match="cannot be read as an array"):
                check_array(buffer.getvalue())


# Downloads of archives


def accept(name: str, content: bytes) -> None:
    assert content in (b"one", b"two")


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name, content in members.items():
            opened.writestr(f"d/{name}", content)
    return buffer.getvalue()


TWO = RawFiles(
    "two", "Two/raw", {"a": "https://example.org/d.zip#d/a", "sub/b": "https://example.org/d.zip#d/b"}, accept
)


def test_files_of_one_archive_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(url: str, seconds: float) -> bytes:
        fetched.append(url)
        return zipped(a=b"one", b=b"two")

    monkeypatch.setattr(raw, "fetch", fetch)
    for _ in range(2):
        assert TWO.read(tmp_path) == {"a": b"one", "sub/b": b"two"}
    assert fetched == ["https://example.org/d.zip"]


@pytest.mark.parametrize(
    ("answer", "message"), [(zipped(a=b"one"), "the archive has no d/b"), (b"<html>", "cannot be read as a zip")]
)
def test_another_archive_is_refused(
    answer: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "fetch", lambda url, seconds: answer)
    with pytest.raises(DataError, match=message) as caught:
        TWO.read(tmp_path)
    assert "https://example.org/d.zip" in caught.value.hint


def test_homophily_is_the_share_of_edges_within_classes() -> None:
    graph = toy_graph(num_nodes=4, num_classes=2)
    # Labels 0 1 0 1: one of the three edges that count joins equals; a loop and an unlabelled end do not count.
    edges = torch.tensor([[0, 0, 2, 1, 3], [1, 2, 1, 1, 0]])
    y = torch.tensor([0, 1, 0, -1])
    assert edge_homophily(type(graph)(graph.x, y, edges, graph.ids, 2)) == pytest.approx(1 / 3)
    assert edge_homophily(type(graph)(graph.x, y, edges[:, :0], graph.ids, 2)) is None


def test_pyg_reads_and_ogb_does_not_need_its_package() -> None:
    assert {name: cls.row.loader.partition(":")[0] for name, cls in PUBLISHED.items()} == {
        **dict.fromkeys(LOADERS, "pyg"),
        **dict.fromkeys(OF_OGB, "ogb"),
    }


# The table in the docs

PAGE = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("`"): cells[1:]
    for cells in re.findall(r"^\| (`[^|]+`) \| " + r"(.*?) \| " * 8 + r"(.*) \|$", PAGE, re.M)
}


def test_the_table_has_the_published_numbers_and_says_where_they_are_from() -> None:
    assert set(ROWS) == {*PUBLISHED, "digits"}
    for name, cls in PUBLISHED.items():
        size, split, licence, source = ROWS[name][:4], ROWS[name][6], ROWS[name][7], ROWS[name][8]
        assert list(size) == [f"{value:,}" for value in cls.size]
        assert split == ("own" if cls.own_split else "folds")
        assert licence == (cls.license or "not known")
        assert source == f"<{cls.source}>"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name, row in ROWS.items() if row[4]))
def test_measured_columns_are_what_is_measured(name: str, request: pytest.FixtureRequest) -> None:
    dataset = CATALOGUE.load(CATALOGUE.find("dataset", name))()
    root = Path("unused")
    if isinstance(dataset, PublishedGraph):
        root = request.getfixturevalue("real_data")
        if dataset.raw_files().missing(root / dataset.raw_files().folder):
            pytest.skip(f"the files of {name} are not at hand")
    graph = load_graph(dataset, root)
    assert ROWS[name][4] == f"{edge_homophily(graph):.3f}"
    assert ROWS[name][5] == f"{edge_statistics(graph)['isolated']:,}"
