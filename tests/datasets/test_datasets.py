from __future__ import annotations

import errno
import http.server
import io
import pickle
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from graph_samples import (
    CLASSES,
    FEATURES,
    NODES,
    ROWS,
    SMALL,
    Bomb,
    npz,
    planetoid_files,
    small,
    small_planetoid,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch_geometric.datasets import Amazon, Planetoid

from unlearnbench.datasets import pyg, raw
from unlearnbench.datasets.base import Dataset, cache_root, data_root, edge_statistics, graph_size, load_graph
from unlearnbench.datasets.catalogue_of_graphs import GraphSize
from unlearnbench.datasets.digits import Digits, nearest_neighbour_edges
from unlearnbench.datasets.published import PublishedGraph, published_graph
from unlearnbench.datasets.raw import RawFiles
from unlearnbench.datasets.sbm import StochasticBlockModel
from unlearnbench.errors import DataError, UsageError, WriteError
from unlearnbench.graph import Graph

Cora, CiteSeer, PubMed, AmazonPhoto, BlogCatalog = (
    published_graph(ROWS[name]) for name in ("cora", "citeseer", "pubmed", "amazon-photo", "blogcatalog")
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(folder))
    return folder


# Where data lies


def test_the_root_named_comes_first_then_the_variable_then_the_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNLEARNBENCH_DATA", str(tmp_path / "variable"))
    assert data_root(tmp_path / "named") == tmp_path / "named"
    assert data_root() == tmp_path / "variable"
    monkeypatch.setenv("UNLEARNBENCH_DATA", "")
    assert own_cache in data_root().parents


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="not a folder"):
        data_root(tmp_path / "file")


@pytest.mark.skipif(sys.platform != "linux", reason="the folder of Linux")
def test_the_cache_lies_where_linux_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "unlearnbench" / "data"
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_root() == tmp_path / "home" / ".cache" / "unlearnbench" / "data"
    assert list(tmp_path.iterdir()) == []


# Checks on entry


class Given(Dataset):
    name = "given"

    def __init__(self, graph: Any) -> None:
        super().__init__()
        self.graph = graph

    def load(self, root: Path) -> Graph:
        return self.graph  # type: ignore[no-any-return]


def tiny(**changes: Any) -> Graph:
    fields: dict[str, Any] = {
        "x": torch.ones(4, 2),
        "y": torch.tensor([0, 1, 0, 1]),
        "edge_index": torch.tensor([[0, 1], [1, 0]]),
        "ids": torch.arange(4),
        "num_classes": 2,
    }
    return Graph(**{**fields, **changes})


def test_what_a_dataset_gives_is_checked(tmp_path: Path) -> None:
    assert graph_size(load_graph(Given(tiny()), tmp_path)) == GraphSize(4, 2, 2, 2)
    empty = torch.empty(2, 0, dtype=torch.int64)
    assert load_graph(Given(tiny(edge_index=empty)), tmp_path).num_edges == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": 1}, "gave a dict"),
        (tiny(x=torch.ones(4, 2, dtype=torch.float64)), "x is torch.float64"),
        (tiny(y=torch.tensor([0.0, 1.0, 0.0, 1.0])), "y is torch.float32"),
        (tiny(edge_index=torch.empty(2, 0)), "edge_index is torch.float32"),
        (tiny(edge_index=torch.tensor([[0], [4]])), "edge 0 joins 0 and 4"),
        (tiny(x=torch.tensor([[1.0, 1.0], [torch.nan, 0.0], [0.0, 0.0], [1.0, 1.0]])), "node 1, column 0"),
    ],
)
def test_what_is_no_proper_graph_is_refused_by_name(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_graph(Given(value), tmp_path)
    assert "given" in caught.value.message


def test_edges_are_described_as_they_are() -> None:
    columns = [(0, 1), (0, 1), (1, 2), (2, 2), (2, 0), (3, 3)]
    assert edge_statistics(tiny(edge_index=torch.tensor(columns).T)) == {
        "pairs": 3,
        "directed": True,
        "duplicates": 1,
        "self_loops": 2,
        "isolated": 1,
    }
    assert edge_statistics(tiny())["directed"] is False


# Pickles of strangers


@pytest.mark.usefixtures("no_network")
def test_a_pickle_that_is_not_the_published_one_is_never_run(small_root: Path, tmp_path: Path) -> None:
    content = pickle.dumps([np.ones(3), Bomb(tmp_path / "pwned")])
    (small_root / "Planetoid" / "Small" / "raw" / "ind.small.allx").write_bytes(content)
    unpinned = replace(SMALL, files={**SMALL.files, "ind.small.allx": None})
    for row, message in ((SMALL, "its SHA-256 is"), (unpinned, "allx .* can run any code.*; it was not read")):
        with pytest.raises(DataError, match=message) as caught:
            small_planetoid(row).load(small_root)
        assert not (tmp_path / "pwned").exists()
    assert sha256(content).hexdigest() in caught.value.hint
    pickle.loads(content)
    assert (tmp_path / "pwned").exists()


def test_no_pickle_is_read_that_has_no_hash() -> None:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph")
    for content in (b"", pickle.dumps({}), planetoid_files()["ind.small.graph"]):
        for part in parts:
            with pytest.raises(DataError, match="it was not read"):
                pyg.PLANETOID.check(f"ind.small.{part}", content)
    pickled = {f"{row.name}/{file}": known for row in ROWS.values() for file, known in row.files.items()
               if Path(file).suffix.removeprefix(".") in parts}  # fmt: skip
    assert len(pickled) == 21
    assert all(pickled.values())


# Planetoid: small files made in the same format


@pytest.fixture
def small_root(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "Planetoid" / "Small" / "raw"
    folder.mkdir(parents=True)
    for name, content in planetoid_files().items():
        (folder / name).write_bytes(content)
    return tmp_path / "root"


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.usefixtures("no_network")
def test_files_in_place_are_read_without_network_and_nothing_is_written(small_root: Path, own_cache: Path) -> None:
    before = listing(small_root)
    graph = load_graph(small_planetoid(), small_root)
    assert torch.equal(graph.x[:, 0], torch.arange(NODES).float())
    assert torch.equal(graph.y, torch.arange(NODES) % CLASSES)
    assert torch.equal(graph.ids, torch.arange(NODES))
    assert graph.num_classes == CLASSES
    neighbours = graph.edge_index[1][graph.edge_index[0] == 650]
    assert neighbours.sort().values.tolist() == [649, 651]
    assert listing(small_root) == before
    assert listing(own_cache) == []


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("x", b"<html>rate limited</html>\n"),
        ("allx", b""),
        ("graph", pickle.dumps([1, 2])),
        ("test.index", b"\x80\x02"),
        ("tx", pickle.dumps(print)),
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(small_root: Path, part: str, content: bytes) -> None:
    path = small_root / "Planetoid" / "Small" / "raw" / f"ind.small.{part}"
    path.write_bytes(content)
    with pytest.raises(DataError, match="its SHA-256 is") as caught:
        small_planetoid().load(small_root)
    assert str(path) in caught.value.message
    assert f"{Planetoid.url}/ind.small.{part}" in caught.value.hint
    assert path.read_bytes() == content


@pytest.mark.usefixtures("no_network")
def test_files_that_do_not_fit_together_are_refused(small_root: Path) -> None:
    path = small_root / "Planetoid" / "Small" / "raw" / "ind.small.tx"
    content = pickle.dumps(np.ones((5, FEATURES + 1), dtype=np.float32))
    path.write_bytes(content)
    with pytest.raises(DataError, match="do not make this graph") as caught:
        small_planetoid(replace(SMALL, files={**SMALL.files, path.name: sha256(content).hexdigest()})).load(small_root)
    assert str(path.parent) in caught.value.message


@pytest.mark.usefixtures("no_network")
def test_another_graph_under_the_name_is_refused(small_root: Path) -> None:
    larger = replace(SMALL, size=SMALL.size._replace(edges=2 * NODES + 2))
    with pytest.raises(DataError, match=f"{2 * NODES} directed edges.*published.*{2 * NODES + 2} directed"):
        small_planetoid(larger).load(small_root)


# Amazon: small archives


@pytest.mark.usefixtures("no_network")
def test_an_archive_is_read_as_pyg_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "Amazon" / "Photo" / "raw"
    folder.mkdir(parents=True)
    (folder / "amazon_electronics_photo.npz").write_bytes(npz())
    graph = load_graph(small(AmazonPhoto, GraphSize(3, 4, 2, 2)), tmp_path)
    assert graph.x.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert sorted(graph.edge_index.T.tolist()) == [[0, 1], [1, 0], [1, 2], [2, 1]]
    with pytest.raises(DataError, match="published: 7650 nodes"):
        AmazonPhoto().load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npz()[:200], "as an archive"),
        (b"<html></html>", "as an archive"),
        (npz(labels=np.array([{}, 1, 2], dtype=object)), "as an archive"),
        (npz(labels=None), "lacks the array labels"),
    ],
)
def test_a_damaged_archive_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pyg.AMAZON.check("a.npz", content)


def test_a_sound_archive_passes() -> None:
    pyg.AMAZON.check("a.npz", npz())
    assert set(np.load(io.BytesIO(npz())).files) == {*pyg.MATRICES, "labels"}


# Missing files


@pytest.mark.parametrize("dataset", [Cora(), CiteSeer(), PubMed(), AmazonPhoto()])
def test_file_names_and_folders_are_those_of_pyg(dataset: PublishedGraph) -> None:
    files = dataset.raw_files()
    if files.folder.startswith("Planetoid"):
        stub: Any = SimpleNamespace(name=Path(files.folder).parent.name, root="Planetoid", split="public")
        names, folder = Planetoid.raw_file_names.fget(stub), Planetoid.raw_dir.fget(stub)
    else:
        stub = SimpleNamespace(name="photo", root="Amazon")
        names, folder = [Amazon.raw_file_names.fget(stub)], Amazon.raw_dir.fget(stub)
    assert set(files.urls) == set(names)
    assert files.folder == Path(folder).as_posix()
    assert all(url.startswith("https://") and url.endswith(name) for name, url in files.urls.items())


def accept(name: str, content: bytes) -> None:
    if content.startswith(b"<html"):
        raise DataError("it is a page.")


def two_files(**sha256: str | None) -> RawFiles:
    urls = {name: f"https://example.org/data/{name}" for name in "ab"}
    return RawFiles("two", "Two/raw", urls, accept, sha256=sha256)


def shown(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_only_what_is_missing_is_fetched_and_then_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(url: str, seconds: float) -> bytes:
        fetched.append(url)
        return b"fetched"

    monkeypatch.setattr(raw, "fetch", fetch)
    (tmp_path / "Two" / "raw").mkdir(parents=True)
    (tmp_path / "Two" / "raw" / "a").write_bytes(b"placed by hand")
    for _ in range(2):
        assert two_files().read(tmp_path) == {"a": b"placed by hand", "b": b"fetched"}
    assert fetched == ["https://example.org/data/b"]


def test_a_page_sent_instead_of_data_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "fetch", lambda url, seconds: b"<html>" if url.endswith("b") else b"data")
    with pytest.raises(DataError, match="/data/b sent something else: it is a page") as caught:
        two_files().read(tmp_path)
    assert "1 of 2 files are missing" in caught.value.message
    assert shown(tmp_path / "Two" / "raw") == ["a", "a.sha256"]


def test_jobs_that_share_a_root_fetch_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    both_asked = threading.Barrier(2)

    def fetch(url: str, seconds: float) -> bytes:
        fetched.append(url)
        return b"data"

    lists = RawFiles.missing

    def missing(self: RawFiles, place: Path) -> list[str]:
        found = lists(self, place)
        # Both jobs find the files missing before either gets the lock.
        if threading.current_thread().name.startswith("job") and place == tmp_path / "Two" / "raw":
            name = threading.current_thread().name
            if name not in waited:
                waited.add(name)
                both_asked.wait(10)
        return found

    waited: set[str] = set()
    results: list[Any] = []
    monkeypatch.setattr(raw, "fetch", fetch)
    monkeypatch.setattr(RawFiles, "missing", missing)
    jobs = [
        threading.Thread(target=lambda: results.append(two_files().read(tmp_path)), name=f"job{i}") for i in range(2)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(30)
    assert results == [{"a": b"data", "b": b"data"}] * 2
    assert sorted(fetched) == ["https://example.org/data/a", "https://example.org/data/b"]


def test_what_a_root_that_cannot_be_written_lacks_goes_to_the_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "fetch", lambda url, seconds: b"data")
    # A folder cannot be made below a file, whoever asks.
    (tmp_path / "root").write_text("")
    folder = two_files().find(tmp_path / "root")
    assert own_cache in folder.parents
    assert shown(folder) == ["a", "a.sha256", "b", "b.sha256"]
    monkeypatch.setattr(raw, "fetch", lambda url, seconds: pytest.fail("fetched again"))
    assert two_files().find(tmp_path / "root") == folder


def test_with_nowhere_to_write_the_message_names_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "file"))
    with pytest.raises(DataError, match="no folder to download them to can be written") as caught:
        two_files().find(tmp_path / "file" / "root")
    assert str(tmp_path / "file" / "root" / "Two" / "raw") in caught.value.hint


class Answers(http.server.BaseHTTPRequestHandler):
    content = b"0123456789" * 300_000

    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/absent" else 200)
        # A server that breaks off announces more than it sends.
        self.send_header("Content-Length", str(len(self.content) + (5 if self.path == "/broken" else 0)))
        self.end_headers()
        # A client that gives up closes the connection while this writes.
        with suppress(OSError):
            self.wfile.write(self.content)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serve(monkeypatch: pytest.MonkeyPatch, context: ssl.SSLContext | None = None) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as served:
        if context is not None:
            served.socket = context.wrap_socket(served.socket, server_side=True)
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve(monkeypatch) as address:
        yield f"http://{address}"


def test_a_fetch_gives_the_whole_content_or_fails(server: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert raw.fetch(f"{server}/data") == Answers.content
    with pytest.raises(OSError, match="absent"):
        raw.fetch(f"{server}/absent")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(TimeoutError, match="not done"):
        raw.fetch(f"{server}/data", -1)


def test_an_answer_that_breaks_off_is_not_taken(server: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"[Bb]r(eaks|oke)"):
        raw.fetch(f"{server}/broken")
    files = RawFiles("one", "One/raw", {"broken": f"{server}/broken"}, accept)
    with pytest.raises(DataError, match="1 of 1 files are missing"):
        files.find(tmp_path)
    assert shown(tmp_path / "One" / "raw") == []


def test_an_answer_that_breaks_off_is_not_taken_where_requests_does_not_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Downloader:
        def __init__(self, progressbar: Any, **settings: Any) -> None:
            self.progressbar = progressbar

        def __call__(self, url: str, file: io.BytesIO, pooch: None) -> None:
            self.progressbar.total = 10
            file.write(b"01234")

    monkeypatch.setattr(raw.pooch, "HTTPDownloader", Downloader)
    with pytest.raises(OSError, match="breaks off after 5 of 10 bytes"):
        raw.fetch("https://example.org/data")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", key, "-out", own], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(variable, raising=False)
    with serve(monkeypatch, context) as address:
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            raw.fetch(f"https://{address}/data")
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
        assert raw.fetch(f"https://{address}/data") == Answers.content


# Hashes


HASH, OTHER = sha256(b"data").hexdigest(), sha256(b"other").hexdigest()


def answer_with(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "fetch", lambda url, seconds: content)


def test_the_first_download_writes_the_hash_where_none_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(b"data", monkeypatch)
    folder = two_files(a=HASH, b=None).find(tmp_path)
    assert shown(folder) == ["a", "b", "b.sha256"]
    assert (folder / "b.sha256").read_text() == f"{HASH}  b\n"


def test_what_was_downloaded_is_compared_with_its_first_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(b"data", monkeypatch)
    folder = two_files().find(tmp_path)
    (folder / "b").write_bytes(b"other")
    with pytest.raises(DataError, match=f"its SHA-256 is {OTHER}, that of the first download {HASH}") as caught:
        two_files().read(tmp_path)
    assert str(folder / "b") in caught.value.message
    assert f"delete {folder / 'b.sha256'}." in caught.value.hint
    # Deleted and had again, it must be the same file still.
    (folder / "b").unlink()
    answer_with(b"other", monkeypatch)
    with pytest.raises(DataError, match=f"sent something else: its SHA-256 is {OTHER}") as caught:
        two_files().read(tmp_path)
    assert f"delete {folder / 'b.sha256'}." in caught.value.hint
    (folder / "b.sha256").unlink()
    assert two_files().read(tmp_path) == {"a": b"data", "b": b"other"}


def test_a_record_that_is_no_hash_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(b"data", monkeypatch)
    folder = two_files().find(tmp_path)
    (folder / "a.sha256").write_bytes(b"\xff\x00")
    with pytest.raises(DataError, match=r"a\.sha256 holds no SHA-256"):
        two_files().read(tmp_path)
    (folder / "a.sha256").unlink()
    (folder / "a.sha256").mkdir()
    with pytest.raises(DataError, match=r"a\.sha256 cannot be read"):
        two_files().read(tmp_path)


@pytest.mark.usefixtures("no_network")
def test_a_file_put_in_place_needs_no_record_and_gets_none(tmp_path: Path) -> None:
    folder = tmp_path / "Two" / "raw"
    folder.mkdir(parents=True)
    for name in "ab":
        (folder / name).write_bytes(b"data")
    assert two_files(a=HASH).read(tmp_path) == {"a": b"data", "b": b"data"}
    assert shown(folder) == ["a", "b"]


@pytest.mark.usefixtures("no_network")
def test_a_file_with_another_hash_than_the_published_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "Two" / "raw" / "a"
    path.parent.mkdir(parents=True)
    for name in "ab":
        path.with_name(name).write_bytes(b"other")
    # What stands beside the file does not make it the published one.
    path.with_name("a.sha256").write_text(f"{OTHER}  a\n")
    with pytest.raises(DataError, match=f"its SHA-256 is {OTHER}, that of the published file {HASH}") as caught:
        two_files(a=HASH).read(tmp_path)
    assert str(path) in caught.value.message
    assert caught.value.hint.startswith("Delete it and run again")
    assert "https://example.org/data/a" in caught.value.hint
    assert path.read_bytes() == b"other"


def test_a_download_with_another_hash_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(b"other", monkeypatch)
    with pytest.raises(DataError, match=f"data/a sent something else: its SHA-256 is {OTHER}.*{HASH}"):
        two_files(a=HASH).find(tmp_path)
    assert shown(tmp_path / "Two" / "raw") == []


def test_the_content_is_looked_into_unless_the_hash_is_the_published_one(tmp_path: Path) -> None:
    page = b"<html>"
    folder = tmp_path / "Two" / "raw"
    folder.mkdir(parents=True)
    for name in "ab":
        (folder / name).write_bytes(page)
    pinned = sha256(page).hexdigest()
    (folder / "b.sha256").write_text(pinned)
    with pytest.raises(DataError, match="b is damaged or not the right file: it is a page"):
        two_files(a=pinned).read(tmp_path)


def test_hashes_in_the_catalogue_are_whole() -> None:
    known = {f"{row.folder}/{file}": known for row in ROWS.values() for file, known in row.files.items() if known}
    assert len(set(known.values())) == len(known) == 24
    assert {path.split("/")[0] for path in known} == {"Planetoid"}
    assert all(len(value) == 64 and set(value) <= set("0123456789abcdef") for value in known.values())


@pytest.mark.usefixtures("no_network")
def test_a_published_file_that_was_changed_is_refused(real_data: Path, tmp_path: Path) -> None:
    source, folder = (root / ROWS["cora"].folder for root in (real_data, tmp_path))
    folder.mkdir(parents=True)
    for name in ROWS["cora"].files:
        (folder / name).write_bytes((source / name).read_bytes())
    assert graph_size(load_graph(Cora(), tmp_path)) == Cora.size
    index = folder / "ind.cora.test.index"
    index.write_bytes(index.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(DataError, match=str(ROWS["cora"].files[index.name])) as caught:
        Cora().load(tmp_path)
    assert str(index) in caught.value.message
    assert sha256(index.read_bytes()).hexdigest() in caught.value.message


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw.write_whole(tmp_path / "a", b"old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(raw.os, "fsync", full)
    with pytest.raises(WriteError, match="disk full"):
        raw.write_whole(tmp_path / "a", b"new")
    assert listing(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.slow
@pytest.mark.parametrize("dataset", [Cora(), CiteSeer(), PubMed(), AmazonPhoto(), BlogCatalog()])
def test_published_graphs_have_their_published_size(dataset: PublishedGraph, real_data: Path) -> None:
    if dataset.raw_files().missing(real_data / dataset.raw_files().folder):
        pytest.skip(f"the files of {dataset.name} are not at hand")
    graph = load_graph(dataset, real_data)
    assert graph_size(graph) == dataset.size
    kinds = edge_statistics(graph)
    assert (kinds["directed"], kinds["duplicates"], kinds["self_loops"]) == (False, 0, 0)
    assert torch.bincount(graph.y, minlength=dataset.size.classes).min() > 0


# Digits


def slow_neighbours(points: list[list[int]], count: int) -> set[tuple[int, int]]:
    edges = set()
    for i, one in enumerate(points):
        ranked = sorted(
            (sum((a - b) ** 2 for a, b in zip(one, other, strict=True)), j) for j, other in enumerate(points) if j != i
        )
        for _, j in ranked[:count]:
            edges |= {(i, j), (j, i)}
    return edges


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=15),
    st.integers(1, 2),
)
def test_neighbours_equal_those_of_a_slow_search(points: list[tuple[int, int]], count: int) -> None:
    found = nearest_neighbour_edges(np.array(points), count)
    columns = [(int(a), int(b)) for a, b in found.T]
    assert columns == sorted(slow_neighbours([list(point) for point in points], count))


def test_ties_go_to_the_first_and_equal_points_are_neighbours() -> None:
    points = np.array([[0], [2], [4], [4]])
    assert nearest_neighbour_edges(points, 1).T.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_points_that_are_not_exact_are_refused() -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        nearest_neighbour_edges(np.array([[0.5], [1.0]]), 1)
    with pytest.raises(ValueError, match="too large"):
        nearest_neighbour_edges(np.array([[0], [2**27]]), 1)
    with pytest.raises(ValueError, match="2 points cannot have 2"):
        nearest_neighbour_edges(np.array([[0], [1]]), 2)


@pytest.mark.usefixtures("no_network")
def test_digits_need_no_files(tmp_path: Path) -> None:
    graph = load_graph(Digits(), tmp_path / "absent")
    assert graph_size(graph) == GraphSize(1797, 12618, 64, 10)
    assert edge_statistics(graph) == {
        "pairs": 6309,
        "directed": False,
        "duplicates": 0,
        "self_loops": 0,
        "isolated": 0,
    }
    assert torch.bincount(graph.edge_index[0]).min() >= 5
    assert [int(graph.x.min()), int(graph.x.max())] == [0, 16]
    assert torch.equal(graph.ids, torch.arange(1797))
    pixels, labels = load_digits(return_X_y=True)
    assert graph.x.tolist() == pixels.tolist()
    assert graph.y.tolist() == labels.tolist()
    assert graph.checksum() == Digits().load(tmp_path).checksum()


# The block model


def block_model(**parameters: Any) -> Graph:
    return load_graph(StochasticBlockModel(StochasticBlockModel.Params(**parameters)), Path("unused"))


@settings(max_examples=40)
@given(
    num_nodes=st.integers(30, 200),
    num_classes=st.integers(2, 5),
    degree=st.integers(0, 4),
    homophily=st.floats(0, 1),
    seed=st.integers(0, 5),
)
def test_a_block_model_is_simple_and_exactly_as_large_as_asked(
    num_nodes: int, num_classes: int, degree: int, homophily: float, seed: int
) -> None:
    num_edges = num_nodes * degree // 4
    graph = block_model(
        num_nodes=num_nodes, num_edges=num_edges, num_classes=num_classes, homophily=homophily, seed=seed
    )
    assert graph_size(graph) == GraphSize(num_nodes, 2 * num_edges, 32, num_classes)
    kinds = edge_statistics(graph)
    assert (kinds["pairs"], kinds["directed"], kinds["self_loops"]) == (num_edges, False, 0)
    sizes = torch.bincount(graph.y, minlength=num_classes)
    assert sizes.max() - sizes.min() <= 1
    same = graph.y[graph.edge_index[0]] == graph.y[graph.edge_index[1]]
    assert int(same.sum()) == 2 * round(homophily * num_edges)


def test_a_block_model_is_a_function_of_its_parameters() -> None:
    first = block_model(num_nodes=100, num_edges=200, seed=3)
    torch.manual_seed(1)
    assert block_model(num_nodes=100, num_edges=200, seed=3).checksum() == first.checksum()
    assert block_model(num_nodes=100, num_edges=200, seed=4).checksum() != first.checksum()


def test_edges_prefer_no_node() -> None:
    graph = block_model(num_nodes=2000, num_edges=200_000, num_classes=4, num_features=1, homophily=0.4)
    degree = torch.bincount(graph.edge_index[0], minlength=2000).double()
    # Mean 200, deviation near 14: the halves by number, and each class, must have the same mean.
    assert abs(float(degree[:1000].mean() - degree[1000:].mean())) < 4
    assert max(abs(float(degree[graph.y == label].mean()) - 200) for label in range(4)) < 4
    source, target = graph.edge_index
    between = graph.y[source] != graph.y[target]
    table = torch.zeros(4, 4).index_put_((graph.y[source[between]], graph.y[target[between]]), torch.tensor(1.0), True)
    off = table[~torch.eye(4, dtype=torch.bool)]
    assert off.min() / off.max() > 0.95


def test_a_few_edges_prefer_no_node_either() -> None:
    size: dict[str, Any] = {"num_nodes": 300, "num_edges": 1, "num_classes": 3, "num_features": 1}
    ends = torch.cat([block_model(**size, seed=seed).edge_index[0] for seed in range(300)]).double()
    # Mean 150; deviation of one end near 87, of the mean of 600 near 4.
    assert abs(float(ends.mean()) - 149.5) < 18


def test_the_signal_is_the_length_of_a_class_mean() -> None:
    for signal in (0.0, 3.0):
        graph = block_model(num_nodes=20_000, num_edges=0, num_features=8, num_classes=2, signal=signal)
        for label in range(2):
            mine = graph.x[graph.y == label]
            assert float(mine.mean(dim=0).norm()) == pytest.approx(signal, abs=0.1)
            assert float(mine.std(dim=0).mean()) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_nodes": 3, "num_classes": 4}, "num_nodes=3 is less than num_classes=4"),
        ({"num_nodes": 10, "num_classes": 2, "num_edges": 40, "homophily": 1.0}, "40 edges inside .* only 20 pairs"),
        ({"num_nodes": 10, "num_classes": 1, "num_edges": 5, "homophily": 0.0}, "5 edges between classes, but only 0"),
    ],
)
def test_an_impossible_block_model_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        block_model(**parameters)


def test_a_large_block_model_takes_no_square_of_memory() -> None:
    # A table of all pairs would have 40,000,000,000 entries.
    graph = block_model(num_nodes=200_000, num_edges=450_000, num_features=2, num_classes=7)
    assert (graph.num_nodes, graph.num_edges) == (200_000, 900_000)


def test_presence_says_where_files_lie_and_loads_nothing(tmp_path: Path) -> None:
    assert Digits().presence(tmp_path) == "needs no files"
    assert "not there" in Cora().presence(tmp_path)
    folder = tmp_path / "Planetoid" / "Cora" / "raw"
    folder.mkdir(parents=True)
    for name in Cora().raw_files().urls:
        (folder / name).write_bytes(b"anything")
    assert Cora().presence(tmp_path) == f"in {folder}"
