"""Submitting results: what passes is laid out, what does not is named with the reason; cells are run again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import (
    ONCE,
    SHARDS,
    command,
    computed_here,
    files_of,
    install,
    of_committed_source,
    records_of,
    shared_folder,
)

from unlearnbench.records.record import Record, read_record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report.publish import recompute as recomputing
from unlearnbench.report.publish.recompute import compare
from unlearnbench.running.cell_codec import cell_of_record, json_differences

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

RUN = ("run", "-m", "sisa,steady", *ONCE, *SHARDS, "--isolate", "--out", "mine")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_folder(tmp_path_factory, "submission")


@pytest.fixture
def mine(command: Any, made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a results folder of three records, Retrain's too, made from source that is committed."""
    return of_committed_source(command, RUN, made, monkeypatch)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change a record as its author could: its checksum and its key fit."""
    plain = json.loads(path.read_text())
    plain.pop("checksum")
    change(plain)
    path.write_text(Record.model_validate(plain).to_json())
    return path


def path_of(out: Path, method: str) -> Path:
    (path,) = out.glob(f"records/*/*/{method}/*.json")
    return path


def laid_out(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_records_and_machines_are_laid_out_and_nothing_else(command: Any, mine: Path, tmp_path: Path) -> None:
    told = command("leaderboard", "submit", "mine")
    assert told.code == 0, told.err
    expected = [
        *(path.relative_to(mine).as_posix() for path in mine.glob("machines/*.json")),
        *(path.relative_to(mine).as_posix() for path in mine.glob("records/*/*/*/*.json")),
    ]
    assert laid_out(tmp_path / "submission") == sorted(expected)
    assert all((tmp_path / "submission" / name).read_bytes() == (mine / name).read_bytes() for name in expected)
    assert told.out.splitlines()[-1].startswith("submission/machines/")
    assert "3 archives of predictions (.npz) stay where they are" in told.err
    assert "4 files laid out, 0 there already, 0 left out." in told.err
    before = files_of(tmp_path / "submission")
    told = command("leaderboard", "submit", "mine/records", "--out", "submission")
    assert (told.code, told.out) == (0, "")
    assert "0 files laid out, 4 there already" in told.err
    assert files_of(tmp_path / "submission") == before


def test_nothing_is_written_over(command: Any, mine: Path, tmp_path: Path) -> None:
    assert command("leaderboard", "submit", "mine").code == 0
    (machine,) = tmp_path.glob("submission/machines/*.json")
    earlier = machine.read_text().replace('"os_release": "', '"os_release": "earlier than ')
    machine.write_text(earlier)
    assert command("leaderboard", "submit", "mine").code == 0
    assert machine.read_text() == earlier
    path = path_of(tmp_path / "submission", "sisa")
    path.write_text("another")
    told = command("leaderboard", "submit", "mine")
    assert told.code == 1
    assert "is there already and differs: nothing is written over" in told.err
    assert path.read_text() == "another"


def no_digests(plain: dict[str, Any]) -> None:
    plain["digests"] = {}


def other_members(plain: dict[str, Any]) -> None:
    plain["digests"]["members_changed"] = [99]


def no_share(plain: dict[str, Any]) -> None:
    plain["metrics"]["f1_micro"]["full"]["after"] = 1.5


def dirty(plain: dict[str, Any]) -> None:
    plain["provenance"]["dirty"] = True


def no_torch(plain: dict[str, Any]) -> None:
    del plain["provenance"]["packages"]["torch"]


def other_request(plain: dict[str, Any]) -> None:
    plain["requests"][0]["ids_sha256"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_digests, "no digests of the parameters before"),
        (other_members, "contradict each other"),
        (no_share, "f1_micro of the view full after the request is 1.5"),
        (dirty, "made from a dirty tree"),
        (no_torch, "which version of torch made it"),
        (other_request, "its request is not the one that the protocol draws"),
    ],
)
def test_a_record_that_does_not_hold_is_left_out_with_the_reason(
    command: Any, mine: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    path = rewritten(path_of(mine, "sisa"), change)
    told = command("leaderboard", "submit", "mine")
    assert told.code == 1
    (line,) = [line for line in told.err.splitlines() if line.startswith(f"left out: {path.relative_to(tmp_path)}: ")]
    assert said in line
    assert path.relative_to(mine).as_posix() not in laid_out(tmp_path / "submission")
    if change is dirty:
        assert command("leaderboard", "submit", "mine", "--allow-dirty").code == 0
        assert path.relative_to(mine).as_posix() in laid_out(tmp_path / "submission")


def test_other_versions_files_machines_and_failures_are_left_out(
    command: Any, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sisa, steady = path_of(mine, "sisa"), path_of(mine, "steady")
    catalogue = load_catalogue()
    cls = catalogue.load(catalogue.find("unlearner", "sisa"))
    monkeypatch.setattr(cls, "version", cls.version + 1)
    steady.with_name("notes.txt").write_text("by hand")
    plain = json.loads(steady.read_text())
    moved = mine / "records" / "m-000000" / "toy" / "steady" / steady.name
    moved.parent.mkdir(parents=True)
    shutil.copy(steady, moved)
    failure = {**plain, "status": "error", "error": {"type": "E", "message": "no", "traceback": ""}}
    failure.pop("checksum")
    steady.with_name(f"{plain['key']}.error.json").write_text(Record.model_validate(failure).to_json())
    del plain["checksum"]
    steady.write_text(json.dumps(plain))
    told = command("leaderboard", "submit", "mine")
    assert told.code == 1
    for path, said in (
        (sisa, f"cell.method.version is {cls.version - 1}, here it is {cls.version}"),
        (steady, "it has no checksum"),
        (steady.with_name("notes.txt"), "not the place or the name of a record"),
        (steady.with_name(f"{plain['key']}.error.json"), "a failure (error), not an outcome"),
        (moved, "it lies in a folder of another machine, dataset or method"),
    ):
        assert f"left out: {path.relative_to(tmp_path)}: {said}" in told.err
    assert [name.split("/")[3:-1] for name in laid_out(tmp_path / "submission")] == [[], ["retrain"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is missing"),
        ({"cpu": "none"}, "is no description"),
        ({"user": "somebody"}, "says more than a machine's description does: user"),
        ({"cores": 4096}, "describes another machine"),
    ],
)
def test_a_machine_must_be_described_and_by_nothing_else(
    command: Any, mine: Path, content: dict[str, Any] | None, said: str
) -> None:
    (path,) = mine.glob("machines/*.json")
    plain = json.loads(path.read_text())
    path.unlink()
    if content is not None:
        path.write_text(json.dumps(content if "cpu" in content else {**plain, **content}))
    told = command("leaderboard", "submit", "mine")
    assert told.code == 1
    assert told.err.count(said) == 3


def test_nothing_to_submit_and_nothing_to_compute_again(command: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments in (("submit", "empty"), ("verify", "empty", "--recompute", "1")):
        told = command("leaderboard", *arguments)
        assert told.code == 3
        assert "no records" in told.err


# Running cells again


def test_cells_run_again_give_the_same(command: Any, mine: Path) -> None:
    before = files_of(mine)
    told = command("leaderboard", "verify", "mine", "--recompute", "5", "--seed", "1")
    assert told.code == 0, told.out
    assert sum(line.startswith("the same: ") for line in told.out.splitlines()) == 3
    assert told.out.splitlines()[-1] == ("3 cells, drawn with --seed 1: 3 the same, 0 different, 0 not computed.")
    assert files_of(mine) == before


def test_what_differs_is_named_and_why_it_may(command: Any, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def better(plain: dict[str, Any]) -> None:
        plain["metrics"]["f1_micro"]["shard"]["after"] = 0.999
        plain["provenance"]["packages"]["torch"] = "1.0"
        plain["unlearn_seconds"] = 1e-6

    path = rewritten(path_of(mine, "sisa"), better)
    catalogue = load_catalogue()
    cls = catalogue.load(catalogue.find("unlearner", "steady"))
    monkeypatch.setattr(cls, "version", 99)
    monkeypatch.setattr(recomputing, "run_in_processes", computed_here)
    told = command("leaderboard", "verify", "mine", "--recompute", "3")
    assert told.code == 1
    assert f"different: {path.stem} toy gcn sisa[num_shards=3] repetition 0" in told.out
    assert "  metrics.f1_micro.shard.after: 0.999, here 0." in told.out
    assert "another torch (1.0, here 2." in told.out
    assert "unlearn_seconds" not in told.out
    assert "not computed: " in told.out
    assert "cell.method.version is 1, here it is 99" in told.out
    assert "1 the same, 1 different, 1 not computed" in told.out


def test_machines_commits_and_changed_source_are_reasons(mine: Path) -> None:
    record = read_record(path_of(mine, "sisa"))
    assert compare(record, record).agrees
    told = {
        **record.provenance,
        "machine": "m-000000",
        "git": "f00",
        "threads": 9,
        "dirty": True,
        "instructions": "AVX512",
    }
    other = record.model_copy(update={"provenance": told, "counts": {"steps": 1}})
    found = compare(other, record)
    assert {place for place, _, _ in found.different} >= {"counts.steps"}
    text = " ".join(found.lines())
    for reason in ("another kind of machine (m-000000", "another commit (f00", "threads (9, here 1)", "changed source"):
        assert reason in text
    assert f"other vector instructions (AVX512, here {record.provenance['instructions']})" in text
    alone = compare(record.model_copy(update={"counts": {}}), record)
    assert "nothing that is recorded explains it" in " ".join(alone.lines())


def test_a_cell_is_the_same_when_made_of_its_record(mine: Path) -> None:
    catalogue = load_catalogue()
    for record in records_of(mine).values():
        cell = cell_of_record(record, catalogue)
        assert (cell.key, cell.method.label) == (record.key, record.label)


def test_differences_name_the_place() -> None:
    one, other = {"a": [1, {"b": 2}], "c": 1}, {"a": [1, {"b": 3}], "d": 1}
    assert [place for place, _, _ in json_differences(one, other)] == ["a.1.b", "c", "d"]
    assert list(json_differences(one, one)) == []
    assert [place for place, _, _ in json_differences({"a": [1]}, {"a": [1, 2]})] == ["a"]
