"""Learning curves: what they hold, that nothing else changes, and that times are not taken from such a cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from graph_samples import user_graph

import unlearnbench
from unlearnbench import Record
from unlearnbench.cli import main
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.report import build_tables

QUICK: dict[str, Any] = {"epochs": 3, "repetitions": 1, "forget_count": 1, "device": "cpu", "num_shards": 2}


def run(out: Path, methods: Any = ("sisa", "finetune"), **more: Any) -> dict[str, Record]:
    records = unlearnbench.run(list(methods), datasets=[user_graph()], out=out, **{**QUICK, **more})
    return {record.cell["method"]["name"]: record for record in records}


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Record]]:
    out = tmp_path_factory.mktemp("logged")
    return out, run(out, log="curves")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Record]]:
    out = tmp_path_factory.mktemp("plain")
    return out, run(out)


def test_every_network_has_a_loss_and_an_f1_for_every_epoch(logged: tuple[Path, dict[str, Record]]) -> None:
    out, records = logged
    curves = unlearnbench.load_curves(out)
    assert set(curves["method"]) == {"retrain", "sisa[num_shards=2]", "finetune"}
    assert bool(curves["val_f1"].between(0, 1).all())
    assert bool((curves["loss"] >= 0).all())
    fit = curves[curves["phase"] == "fit/train"]
    sisa = fit[fit["method"] == "sisa[num_shards=2]"]
    assert sorted(zip(sisa["network"], sisa["epoch"], strict=True)) == [(n, e) for n in (0, 1) for e in (1, 2, 3)]
    assert set(curves.loc[curves["phase"] == "unlearn/retrain", "method"]) == {"retrain", "sisa[num_shards=2]"}
    update = curves[curves["phase"] == "unlearn/update"]
    assert set(update["method"]) == set(update["role"]) == {"finetune"}
    # The networks after the last epoch are those that are scored.
    last = fit[(fit["method"] == "retrain") & (fit["epoch"] == 3)]["val_f1"].item()
    assert last == pytest.approx(records["retrain"].metrics["val_f1_micro"]["full"]["before"], abs=1e-6)
    one = unlearnbench.load_curves(out, records["retrain"].key)
    assert set(one["key"]) == {records["retrain"].key}


def test_nothing_else_changes_and_the_record_gives_no_times(
    logged: tuple[Path, dict[str, Record]], plain: tuple[Path, dict[str, Record]]
) -> None:
    for name, record in plain[1].items():
        other = logged[1][name]
        assert (record.key, record.digests, record.metrics) == (other.key, other.digests, other.metrics)
        assert (record.requests, record.counts) == (other.requests, other.counts)
        assert (record.provenance["backend"], other.provenance["backend"]) == ("serial", "watched")
        assert other.provenance["exclusive"] is False
        assert any("Learning curves were kept" in note for note in other.notes)
    (table,) = build_tables(unlearnbench.load_records(logged[0]), "time")
    assert "3 records give no times: callbacks were made or learning curves kept meanwhile." in table.notes
    assert not list(plain[0].rglob("*.curves.npz"))
    with pytest.raises(NothingMatchedError, match="no learning curves"):
        unlearnbench.load_curves(plain[0])


def test_a_record_that_is_there_keeps_its_times_and_is_given_curves(
    plain: tuple[Path, dict[str, Record]], logged: tuple[Path, dict[str, Record]], tmp_path: Path
) -> None:
    before = run(tmp_path, ["sisa"], reference=False)
    (path,) = tmp_path.rglob(f"{before['sisa'].key}.json")
    content = path.read_bytes()
    assert run(tmp_path, ["sisa"], reference=False, log="curves") == before
    assert path.read_bytes() == content
    columns = ["phase", "network", "epoch", "loss", "val_f1"]
    whole = unlearnbench.load_curves(logged[0], before["sisa"].key)
    assert unlearnbench.load_curves(tmp_path)[columns].equals(whole[columns])
    written = path.with_name(f"{before['sisa'].key}.curves.npz").stat().st_mtime_ns
    run(tmp_path, ["sisa"], reference=False, log="curves")
    assert path.with_name(f"{before['sisa'].key}.curves.npz").stat().st_mtime_ns == written


def test_show_of_a_record_names_the_file(
    logged: tuple[Path, dict[str, Record]], capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = logged[0].rglob(f"{logged[1]['sisa'].key}.json")
    for arguments in ([], ["--json"]):
        with pytest.raises(SystemExit) as caught:
            main(["show", str(path), *arguments])
        assert not caught.value.code
    text = capsys.readouterr().out
    assert f"curves: {path.with_suffix('.curves.npz')}" in text
    described = json.loads(text[text.index("{\n") :])
    assert (described["method"], described["curves"]) == ("sisa[num_shards=2]", str(path.with_suffix(".curves.npz")))


def test_curves_and_times_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="`overwrite` busy makes times anew"):
        unlearnbench.run(["sisa"], log="curves", overwrite="busy")


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"models": ["gat"]}, {"models": ["gin"], "batch_size": 8}, {"train": "one-by-one"}])
def test_bits_are_the_same_for_other_networks_and_ways_to_train(tmp_path: Path, more: dict[str, Any]) -> None:
    plain = run(tmp_path / "plain", ["sisa"], reference=False, **more)
    logged = run(tmp_path / "logged", ["sisa"], reference=False, log="curves", **more)
    assert plain["sisa"].digests == logged["sisa"].digests
    curves = unlearnbench.load_curves(tmp_path / "logged")
    assert len(curves[curves["phase"].str.startswith("fit/")]) == 2 * QUICK["epochs"]


@pytest.mark.slow
def test_a_process_without_labels_gives_the_same_curves(tmp_path: Path) -> None:
    settings = {"datasets": ["digits"], "reference": False, "log": "curves", "methods": ["sisa"], **QUICK}
    for name, more in (("here", {}), ("apart", {"isolate": True})):
        unlearnbench.run(out=tmp_path / name, **settings, **more)
    here, apart = (unlearnbench.load_curves(tmp_path / name) for name in ("here", "apart"))
    assert here.equals(apart)
    assert here["val_f1"].notna().all()
