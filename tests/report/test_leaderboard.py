from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from record_samples import make_record

from unlearnbench.errors import EXIT_FAILED_CELLS, NothingMatchedError, UnlearnbenchError
from unlearnbench.records.record import DamagedRecordError, Record
from unlearnbench.records.store import Store
from unlearnbench.report.publish.leaderboard import build, contents, verify


def save(root: Path, records: list[Record]) -> Path:
    for record in records:
        store = Store(root, record.machine)
        (store.save_failure if record.is_failure else store.save)(record)
    return root


def evidence() -> list[Record]:
    records = []
    for dataset in ("cora", "citeseer"):
        for repetition in range(2):
            for method, shard in (("retrain", 0.85), ("sisa", 0.7), ("gif", 0.8)):
                record = make_record(method, repetition, dataset=dataset, shard=shard + repetition / 37, seconds=1 / 3)
                records.append(record)
    return records


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_one_file_a_dataset_and_one_overall(tmp_path: Path) -> None:
    save(tmp_path, evidence())
    out = tmp_path / "leaderboard"
    files = [path.relative_to(out).as_posix() for path in build(tmp_path, out)]
    assert files == ["all.csv", "www24/citeseer.csv", "www24/cora.csv"]
    rows = read(out / "www24/cora.csv")
    assert [(row["method"], row["view"]) for row in rows] == [
        (method, view) for method in ("retrain", "gif", "sisa") for view in ("shard", "full")
    ]
    first = rows[0]
    assert float(first["f1_micro_mean"]) == pytest.approx(0.85 + 0.5 / 37)
    assert (first["n"], first["expected"], first["times_retrain"], first["time_machine"]) == ("2", "2", "1", "m-0001")
    assert b"\r" not in (out / "all.csv").read_bytes()


def test_the_same_records_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    records = evidence()
    first = contents(save(tmp_path / "a", records))
    random.Random(3).shuffle(records)
    assert contents(save(tmp_path / "b", records)) == first
    assert contents(tmp_path / "b" / "records") == first


def test_verify_accepts_what_build_wrote_and_names_what_differs(tmp_path: Path) -> None:
    save(tmp_path, evidence())
    out = tmp_path / "leaderboard"
    build(tmp_path, out)
    verify(tmp_path, out)
    path = out / "www24/cora.csv"
    good = path.read_text()
    lines = good.splitlines()
    path.write_text("\n".join([*lines[:2], lines[2].replace("0.8", "0.9", 1), *lines[3:]]) + "\n")
    with pytest.raises(UnlearnbenchError, match=r"cora\.csv, line 3: has") as caught:
        verify(tmp_path, out)
    assert caught.value.exit_code == EXIT_FAILED_CELLS
    path.write_text(good[:-1])
    with pytest.raises(UnlearnbenchError, match=r"cora\.csv, line 8: has the end of the file"):
        verify(tmp_path, out)
    path.write_text(good)
    verify(tmp_path, out)


def test_verify_names_missing_and_extra_files(tmp_path: Path) -> None:
    save(tmp_path, evidence())
    out = tmp_path / "leaderboard"
    build(tmp_path, out)
    (out / "www24/extra.csv").write_text("a\n")
    with pytest.raises(UnlearnbenchError, match=r"extra\.csv is not made of any record"):
        verify(tmp_path, out)
    (out / "www24/extra.csv").unlink()
    (out / "all.csv").unlink()
    with pytest.raises(UnlearnbenchError, match=r"all\.csv is missing"):
        verify(tmp_path, out)


def test_build_removes_its_own_old_files_and_no_others(tmp_path: Path) -> None:
    save(tmp_path, evidence())
    out = tmp_path / "leaderboard"
    build(tmp_path, out)
    mine, other = out / "www24/gone.csv", out / "notes.csv"
    mine.write_bytes((out / "www24/cora.csv").read_bytes())
    other.write_text("by hand\n")
    build(tmp_path, out)
    assert not mine.exists()
    assert other.exists()


def test_a_new_record_makes_verify_fail(tmp_path: Path) -> None:
    save(tmp_path, evidence())
    out = tmp_path / "leaderboard"
    build(tmp_path, out)
    save(tmp_path, [make_record("new", 0)])
    with pytest.raises(UnlearnbenchError, match=r"all\.csv, line"):
        verify(tmp_path, out)


def test_damaged_evidence_is_no_evidence(tmp_path: Path) -> None:
    save(tmp_path, evidence())
    next(tmp_path.rglob("records/*/cora/sisa/*.json")).write_text("{")
    with pytest.raises(DamagedRecordError):
        build(tmp_path, tmp_path / "leaderboard")


def test_no_records_is_nothing_matched(tmp_path: Path) -> None:
    with pytest.raises(NothingMatchedError):
        verify(tmp_path, tmp_path / "leaderboard")


def test_names_of_datasets_stay_in_the_folder(tmp_path: Path) -> None:
    save(tmp_path, [make_record(dataset="../../x"), make_record(dataset="all")])
    out = tmp_path / "leaderboard"
    for path in build(tmp_path, out):
        assert path.resolve().is_relative_to(out.resolve())
    verify(tmp_path, out)
