"""Records that are whole and hold values of another type: each is named and left out, and costs nothing else."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from command_line import command, install
from record_samples import make_record

from unlearnbench.component import canonical_json
from unlearnbench.errors import EXIT_FAILED_CELLS
from unlearnbench.records.columns import rows_of
from unlearnbench.records.record import DamagedRecordError, Record, read_record
from unlearnbench.records.store import Store
from unlearnbench.report import frame_of, load_records
from unlearnbench.report.page import write_page

__all__ = ["command", "install"]

FULL = {
    "claim": {"claim": "exact", "reason": "shards"},
    "digests": {
        "before": {"members/000": "aa"},
        "after": {"members/000": "ab"},
        "members_changed": [0],
        "relative_change": 0.5,
        "unchanged": False,
    },
    "partition": {"sizes": [3, 4], "edges_kept": 0.5, "label_entropy": 0.25, "graph_entropy": 0.125},
    "requests": [{"ids_sha256": "aa" * 32, "count": 3, "file": "x.npz"}],
}
READINGS = {"sources": {"rss": "vmhwm", "gpu": None}, "reasons": {"peak_gpu_mib": "computed on cpu"}}
FINDING = {
    "verdict": "exact",
    "scores": [{"measure": "auc", "where": "test", "value": 0.5, "controls": {"noop": 0.75}, "runs": 3}],
    "details": {"auc": {"valid": True}},
    "notes": ["of one run"],
}


def plain(audit: bool = False) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(make_record("sisa", **FULL).to_json())
    content["phases"] = rows_of(content["phases"])
    content["provenance"]["readings"] = json.loads(json.dumps(READINGS))
    if audit:
        content["cell"]["audit"] = {"name": "distance", "version": 1, "params": {}}
        content["audit"] = json.loads(json.dumps(FINDING))
    return content


def changed(content: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    holder: Any = content
    *head, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    for key in head:
        holder = holder[key]
    holder[last] = value
    return content


def write(root: Path, content: dict[str, Any]) -> Path:
    """Write a record whose key and checksum are right, where it belongs."""
    content.pop("checksum", None)
    content["key"] = hashlib.sha256(canonical_json(content["cell"]).encode()).hexdigest()
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    folder = root / "records/m-0001/cora/sisa"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content['key']}.json"
    path.write_text(json.dumps(content))
    return path


def test_the_record_that_is_changed_below_is_sound(tmp_path: Path) -> None:
    for audit in (False, True):
        assert read_record(write(tmp_path, plain(audit))).digests == FULL["digests"]


ODD = [
    *((f"digests.{name}", value) for name in ("before", "after") for value in ("aa", ["aa"], {"members/000": 1})),
    *(("digests.before", {name: value}) for name, value in (("aggregator", ["aa"]), ("members", [1]), ("members", []))),
    ("digests.before", {"members": ["aa"], "members/000": "bb"}),
    ("digests.after", {}),
    *(("digests.unchanged", value) for value in ("yes", 1, None, {})),
    ("digests.members_changed", {"0": 1}),
    ("digests.relative_change", "0.5"),
    *((f"provenance.readings.{name}", value) for name in ("sources", "reasons") for value in (1, ["x"], {"rss": 5})),
    ("provenance.packages.torch", ["2.13"]),
    ("provenance.threads", "1"),
    ("provenance.exclusive", "true"),
    ("claim", {"reason": "no claim"}),
    ("partition.sizes", [3, "4"]),
    ("partition.edges_kept", "half"),
    ("requests.0.count", "3"),
    ("requests.0", [3]),
    ("phases.0", {"seconds": 1.0}),
    ("phases.0.seconds", "1.0"),
    ("unlearn_seconds", "1.0"),
    ("unlearn_seconds", True),
    ("metrics.f1_micro.shard.after", "0.9"),
    ("metrics.f1_micro.shard.after", True),
    ("counts.steps", "100"),
    *((name, f"half{odd}") for name in ("label", "provenance.git", "claim.reason") for odd in ("\udc80", "\0")),
    ("cell.dataset.params.path", "\udc80"),
]
ODD_AUDITS = [
    ("audit", None),
    ("audit.scores", {"auc": 1}),
    ("audit.scores.0", "auc"),
    ("audit.scores", {"value": [0.5, 0.6], "where": ["node"]}),
    ("audit.scores", {"value": ["0.5"], "where": ["node"]}),
    ("audit.scores.0.value", "0.5"),
    ("audit.scores.0.controls", [0.75]),
    ("audit.details", ["auc"]),
    ("audit.notes", [1]),
    ("audit.verdict", 1),
    ("cell.audit", {"version": 1}),
]


@pytest.mark.parametrize(("place", "value"), [*ODD, *ODD_AUDITS])
def test_a_value_of_another_type_costs_its_record_alone(place: str, value: Any, tmp_path: Path) -> None:
    store = Store(tmp_path, "m-0001")
    store.save(make_record("retrain"))
    sound = load_records(tmp_path)
    path = write(tmp_path, changed(plain((place, value) in ODD_AUDITS), place, value))
    with pytest.raises(DamagedRecordError) as caught:
        read_record(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    with pytest.warns(UserWarning, match=path.name):
        assert load_records(tmp_path).equals(sound)
    assert not store.has(path.stem)


@pytest.mark.slow
def test_commands_name_an_odd_record_and_show_the_others(command: Any, tmp_path: Path) -> None:
    Store(tmp_path, "m-0001").save(make_record("retrain"))
    expected = command("report", str(tmp_path), "--format", "csv").out
    path = write(tmp_path, changed(plain(), "digests.unchanged", "yes"))
    told = command("report", str(tmp_path), "--format", "csv")
    assert (told.code, told.out) == (0, expected)
    assert f"warning: {path}: digests.unchanged: " in told.err
    for arguments in (("report", str(tmp_path), "--html", "page"), ("report", str(tmp_path), "--figures", "figures")):
        told = command(*arguments)
        assert told.code == 0
        assert f"warning: {path}: digests.unchanged: " in told.err
    # Evidence is whole or it is none.
    told = command("leaderboard", "build", str(tmp_path))
    assert told.code == EXIT_FAILED_CELLS
    assert told.err.startswith(f"error: {path}: digests.unchanged: ")
    assert not (tmp_path / "leaderboard").exists()


def test_characters_that_no_file_takes_are_escaped_when_a_record_is_made(tmp_path: Path) -> None:
    made = make_record(label="a\0b\udc80", status="error", error={"type": "E", "message": "\udcff", "traceback": "\0"})
    assert made.label == "a\\u0000b\\udc80"
    assert made.error == {"type": "E", "message": "\\udcff", "traceback": "\\u0000"}
    assert len(made.notes) == 3
    assert read_record(Store(tmp_path, "m-0001").save_failure(made)) == made


@pytest.mark.parametrize("deep", [60, 400, 600])
def test_values_that_are_nested_too_deep_are_damage(deep: int, tmp_path: Path) -> None:
    nested: Any = 1
    for _ in range(deep):
        nested = [nested]
    path = write(tmp_path, changed(plain(), "provenance.newer", nested))
    with pytest.raises(DamagedRecordError, match="nested"):
        read_record(path)
    shallow = write(tmp_path, changed(plain(), "provenance.newer", [[[1]]]))
    assert read_record(shallow).provenance["newer"] == [[[1]]]


def test_more_keys_than_are_known_are_kept(tmp_path: Path) -> None:
    content = changed(plain(), "digests.newer", {"a": [1]})
    assert read_record(write(tmp_path, content)).digests["newer"] == {"a": [1]}


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"cpu": "\\udc80"}', b"\xff", b"[" * 100_000])
def test_a_damaged_description_of_a_machine_costs_the_page_nothing_else(content: bytes, tmp_path: Path) -> None:
    store = Store(tmp_path, "m-0001")
    store.save(make_record("retrain"))
    frame = load_records(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = write_page(tmp_path, frame, None, tmp_path / "page").read_bytes()
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines/m-0001.json").write_bytes(content)
    with pytest.warns(UserWarning, match=r"m-0001\.json"):
        assert write_page(tmp_path, frame, None, tmp_path / "page").read_bytes() == expected


def test_members_without_numbers_have_no_costs_by_member() -> None:
    for phases, sizes in (([{"name": "train/member-x", "seconds": 1.0}], [3]), ([{"name": "train"}], [0])):
        record: Record = make_record("sisa", phases=phases, partition={"sizes": sizes})
        record.cell["training"]["one_by_one"] = True
        assert frame_of([record])["expected_seconds"].isna().all()
