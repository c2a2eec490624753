"""A1: files that are missing and cannot be downloaded stop a run before any training, with one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graph_samples import ROWS
from torch_geometric.datasets import Planetoid

from unlearnbench.cli import main
from unlearnbench.datasets import raw
from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.published import published_graph
from unlearnbench.errors import DataError
from unlearnbench.registry.environment import OFFLINE
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import make_plan

Cora = published_graph(ROWS["cora"])
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def test_missing_files_without_network_give_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(DataError) as caught:
        Cora().load(tmp_path)
    folder = tmp_path / "Planetoid" / "Cora" / "raw"
    assert "cora" in caught.value.message
    assert "8 of 8 files are missing" in caught.value.message
    assert f"{Planetoid.url}/ind.cora.x" in caught.value.message
    assert str(folder) in caught.value.hint
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        assert f"ind.cora.{part}" in caught.value.hint
    assert [path.name for path in folder.iterdir() if not path.name.startswith(".")] == []
    assert caught.value.exit_code == 2


@pytest.mark.usefixtures("same_signals")
def test_a_run_stops_before_any_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UNLEARNBENCH_OFFLINE", "1")
    with pytest.raises(SystemExit) as caught:
        main(["run", "-m", "retrain", "-d", "digits,cora", "--data-root", str(tmp_path), "--out", str(tmp_path / "r")])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "Dataset cora: 8 of 8 files are missing" in said
    assert "Traceback" not in said
    assert not (tmp_path / "r").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_network")
def test_with_the_files_in_place_no_network_is_asked(real_data: Path) -> None:
    assert sorted(Cora().raw_files().urls) == sorted(f"ind.cora.{part}" for part in PARTS)
    assert load_graph(Cora(), real_data).num_nodes == 2708


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("way", ["variable", "setting", "context"])
def test_the_switch_forbids_every_download(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"methods": ["retrain"], "datasets": ["cora"], "data_root": tmp_path, "device": "cpu"}
    if way == "variable":
        monkeypatch.setenv(OFFLINE, "1")
    with raw.offline(way == "context"), pytest.raises(DataError, match="forbidden by `offline` or UNLEARNBENCH_OFF"):
        make_plan(make_config({**settings, "offline": way == "setting"}), load_catalogue())
    assert list(tmp_path.iterdir()) == []


def test_the_switch_is_off_by_itself_and_off_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not raw.is_offline()
    with raw.offline():
        assert raw.is_offline()
        with raw.offline(False):
            assert raw.is_offline()
    for value, forbidden in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(OFFLINE, value)
        assert raw.is_offline() is forbidden
