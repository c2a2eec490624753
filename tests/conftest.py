"""What every test gets: folders of its own, one thread, and the published graphs where they are at hand."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from repository import ROOT

from unlearnbench.datasets.own import held
from unlearnbench.registry import session

VARIABLES = ("UNLEARNBENCH_DATA", "UNLEARNBENCH_PLUGINS", "UNLEARNBENCH_STRICT_PLUGINS", "UNLEARNBENCH_OFFLINE")
LOADERS = ("Planetoid", "Amazon", "AttributedGraphDataset")
BESIDE = ROOT.parent / "shared" / "data"
# Read before any test takes the variable away.
NAMED = os.environ.get("UNLEARNBENCH_DATA", "")

torch.set_num_threads(1)
# Of processes that tests start too: several at once would wait for each other's threads.
os.environ["OMP_NUM_THREADS"] = "1"
# No test looks at the clock: on a busy machine an example may take any time.
hypothesis.settings.register_profile("without a deadline", deadline=None)
hypothesis.settings.load_profile("without a deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first: one that starts last would keep all other cores waiting."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Spare collections of garbage, of which every cell has one, a look at all modules of the tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder at every `next`; `mktemp` would list all of thousands each time to find the next number."""
    root = tmp_path_factory.mktemp("own")
    folders = (root / str(number) for number in itertools.count())
    return map(made, folders)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def tmp_path(numbered: Iterator[Path]) -> Path:
    """Give an empty folder, as pytest's fixture of this name does, without a look at those of all other tests."""
    return next(numbered)


@pytest.fixture(autouse=True)
def own_folders(numbered: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Send caches and results to a temporary folder, and let no variable of the user's reach a test."""
    folder = next(numbered)
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(folder / "cache"))
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(folder)


@pytest.fixture(autouse=True)
def own_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no class or graph that another test registered reach a test."""
    monkeypatch.setattr(session, "_entries", {})
    monkeypatch.setattr(held, "_held", {})


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **settings: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def same_signals() -> Iterator[None]:
    """Put the handler back that a command sets."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def real_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a data root with a copy of the published graphs that may be written to, or skip."""
    source = Path(NAMED).expanduser() if NAMED else BESIDE
    if not (source / "Planetoid" / "Cora" / "raw").is_dir():
        pytest.skip(
            f"published graphs are not at hand: no Planetoid/Cora/raw in {source}; name a root in UNLEARNBENCH_DATA"
        )
    root = tmp_path_factory.mktemp("real-data")
    for raw in [
        *source.glob("Planetoid/*/raw"),
        *source.glob("Amazon/*/raw"),
        *source.glob("AttributedGraphDataset/*/raw"),
    ]:
        shutil.copytree(raw, root / raw.relative_to(source))
    return root
