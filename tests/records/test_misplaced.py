"""Records that lie twice, or elsewhere than their content says: one row for each cell of a machine, the rest named."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import command, install
from record_samples import make_record

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError
from unlearnbench.records.reading import read_records
from unlearnbench.records.record import MisplacedRecordError, Record
from unlearnbench.records.store import Store
from unlearnbench.report import load_records
from unlearnbench.report.page import write_page
from unlearnbench.report.publish import leaderboard
from unlearnbench.report.tables.audits import load_audits

__all__ = ["command", "install"]
SCORES = {"retrain": (0.80, 0.60), "sisa": (0.50, 0.70)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "out", "m-0001")
    for method, scores in SCORES.items():
        for repetition, score in enumerate(scores):
            store.save(make_record(method, repetition, shard=score, full=score))
    return store


def folder(store: Store, method: str = "sisa") -> Path:
    return store.root / "records/m-0001/cora" / method


def copied_method(store: Store) -> list[Path]:
    copy = folder(store).with_name("sisa.bak")
    shutil.copytree(folder(store), copy)
    return sorted(copy.iterdir())


def copied_dataset(store: Store) -> list[Path]:
    copy = folder(store).parent.with_name("cora (copy)")
    shutil.copytree(folder(store).parent, copy)
    return sorted(copy.glob("*/*"))


def copied_machine(store: Store) -> list[Path]:
    copy = folder(store).parents[1].with_name("m-0002")
    shutil.copytree(folder(store).parents[1], copy)
    return sorted(copy.glob("*/*/*"))


def copied_too_deep(store: Store) -> list[Path]:
    copy = folder(store) / "old"
    shutil.copytree(folder(store), copy)
    return sorted(copy.iterdir())


def copied_too_high(store: Store) -> list[Path]:
    copies = [store.root / "records" / path.name for path in folder(store).iterdir()]
    for copy in copies:
        shutil.copy(folder(store) / copy.name, copy)
    return sorted(copies)


def copied_files(store: Store) -> list[Path]:
    path = min(folder(store).iterdir())
    names = (f"{path.name}.bak", f"{path.stem} (copy).json", f"{'0' * 32}.json", f"{path.stem}.error.json")
    return sorted(Path(shutil.copy(path, path.with_name(name))) for name in names)


def shortened_key(store: Store) -> list[Path]:
    path = min(folder(store).iterdir())
    plain = json.loads(path.read_text())
    del plain["checksum"]
    record = Record.model_validate({**plain, "key": plain["key"][:8]})
    return [store.save(record)]


COPIES = [
    copied_method,
    copied_dataset,
    copied_machine,
    copied_too_deep,
    copied_too_high,
    copied_files,
    shortened_key,
]


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_left_out_and_named_and_every_number_stays(
    copy: Callable[[Store], list[Path]], store: Store, tmp_path: Path
) -> None:
    records, frame = list(store.records()), load_records(store.root)
    board = leaderboard.contents(store.root)
    page = write_page(store.root, frame, None, tmp_path / "page").read_text()
    copies = copy(store)
    problems: list[Any] = []
    assert list(read_records(store.root, problems)) == records
    assert sorted(problem.message.partition(": ")[0] for problem in problems) == [str(path) for path in copies]
    assert all(isinstance(problem, MisplacedRecordError) and problem.hint for problem in problems)
    with pytest.warns(UserWarning, match="left out") as caught:
        again = load_records(store.root)
    assert len(caught) == len(copies)
    assert again.equals(frame)
    with pytest.warns(UserWarning, match="left out"):
        assert leaderboard.contents(store.root) == board
    again.attrs["problems"] = []
    assert write_page(store.root, again, None, tmp_path / "page").read_text() == page
    with pytest.raises(MisplacedRecordError):
        list(read_records(store.root))


def test_copies_of_audits_are_left_out_too(tmp_path: Path) -> None:
    store = Store(tmp_path, "m-0001")
    record = make_record("sisa", metrics={})
    plain = {
        **record.model_dump(by_alias=True),
        "audit": {"verdict": "exact", "scores": [], "details": {}, "notes": []},
    }
    plain["cell"]["audit"] = {"name": "exactness", "version": 1, "params": {}}
    plain["key"] = hashlib.sha256(canonical_json(plain["cell"]).encode()).hexdigest()
    store.save(Record.model_validate(plain))
    copied_method(store)
    with pytest.warns(UserWarning, match=r"sisa\.bak.*left out"):
        assert len(load_audits(tmp_path)) == 1


def test_a_folder_that_was_renamed_holds_no_cell_and_is_named(store: Store) -> None:
    record = make_record("sisa", 0, shard=0.5, full=0.5)
    folder(store).rename(folder(store).with_name("sisa2"))
    assert not store.has(record.key)
    (problem,) = store.problems
    assert problem.message.startswith(f"{folder(store).with_name('sisa2')}")
    assert str(Path("records/m-0001/cora/sisa", record.file_name)) in problem.message
    assert store.find(record.key) is None
    for policy in ("only-missing", "never", "busy", "always"):
        assert store.wanted(record.key, policy)
    with pytest.warns(UserWarning, match="sisa2"):
        assert set(load_records(store.root)["method"]) == {"retrain"}
    # The cell goes to its own place, and what was renamed stays as it is.
    store.save(record)
    with pytest.warns(UserWarning, match="sisa2"):
        assert load_records(store.root)["method"].value_counts()["sisa"] == 2


def test_of_misplaced_records_alone_nothing_is_shown_and_the_first_is_named(store: Store) -> None:
    (store.root / "records/m-0001").rename(store.root / "records/m-0002")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(NothingMatchedError, match=r"4 files could not be read; first: .*m-0002"):
            load_records(store.root)


def test_commands_say_what_they_left_out(command: Any, store: Store) -> None:
    plain = command("report", str(store.root), "--format", "csv").out
    copies = copied_method(store)
    told = command("report", str(store.root), "--format", "csv")
    assert (told.code, told.out) == (0, plain)
    assert [line for line in told.err.splitlines() if line.startswith("warning: ")] == [
        f"warning: {path}: left out: it lies in a folder of another machine, dataset or method; its place is"
        f" records/m-0001/cora/sisa/{path.name}."
        for path in copies
    ]
    for what in ("build", "verify"):
        told = command("leaderboard", what, str(store.root))
        assert told.code == 0
        assert told.err.count("warning: ") == 2
        assert str(copies[0]) in told.err
