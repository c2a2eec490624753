from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_samples import make_record

from unlearnbench.errors import UsageError
from unlearnbench.records.files import safe_name
from unlearnbench.records.reading import read_records
from unlearnbench.records.record import DamagedRecordError, Record, SchemaVersionError, read_record
from unlearnbench.records.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "m-0001")


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_a_record_comes_back_equal_from_its_documented_path(store: Store) -> None:
    record = make_record("graphrevoker", 3, shards_hit=8)
    path = store.save(record, {"forgotten": np.array([3, 5])})
    assert path == store.root / "records/m-0001/cora/graphrevoker" / f"{record.key}.json"
    assert read_record(path) == record
    assert store.find(record.key) == record
    assert json.loads(path.read_text())["schema"] == 1
    assert files(store.root) == sorted(
        f"records/m-0001/cora/graphrevoker/{record.key}{end}" for end in (".json", ".npz")
    )


def test_readings_that_could_not_be_had_take_no_room_and_old_records_with_null_are_equal(store: Store) -> None:
    known = {"name": "unlearn", "seconds": None, "peak_rss_mib": 700.0}
    record = make_record(phases=[{**known, "peak_gpu_mib": None, "gpu_process_mib": None}])
    assert record.phases == [known]
    path = store.save(record)
    assert json.loads(path.read_text())["phases"] == {"name": ["unlearn"], "seconds": [None], "peak_rss_mib": [700.0]}
    assert read_record(path) == record
    old = json.loads(path.read_text())
    old["phases"] = [{**known, "peak_gpu_mib": None}]
    del old["checksum"]
    path.write_text(json.dumps(old))
    assert read_record(path) == record


def test_arrays_come_back_and_objects_are_refused(store: Store) -> None:
    record = make_record()
    arrays = {"forgotten": np.array([3, 5]), "after/test/shard": np.eye(2, dtype=np.float32)}
    store.save(record, arrays)
    found = store.arrays(record)
    assert {name: array.dtype for name, array in found.items()} == {name: a.dtype for name, a in arrays.items()}
    np.testing.assert_array_equal(found["after/test/shard"], arrays["after/test/shard"])
    with pytest.raises(UsageError, match="objects"):
        store.save(record, {"bad": np.array([object()])})
    for name in ("file", "", "../x", "/x", "x/", "x//y"):
        with pytest.raises(UsageError, match="name of an array"):
            store.save(record, {name: np.array([1])})


def test_arrays_that_are_missing_or_cut_short_are_named(store: Store) -> None:
    record = make_record()
    path = store.save(record, {"forgotten": np.arange(50)}).with_suffix(".npz")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DamagedRecordError, match=record.key):
        store.arrays(record)
    path.unlink()
    with pytest.raises(DamagedRecordError, match="FileNotFound"):
        store.arrays(record)


def test_pickled_arrays_are_never_unpickled(store: Store, tmp_path: Path) -> None:
    record = make_record()
    path = store.save(record).with_suffix(".npz")

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "pwned"),)

    np.savez(path, evil=np.array([Evil()], dtype=object))
    with pytest.raises(DamagedRecordError):
        store.arrays(record)
    assert not (tmp_path / "pwned").exists()


def test_only_an_outcome_of_this_machine_counts_as_done(store: Store) -> None:
    other = Store(store.root, "m-0002")
    ok, diverged, failed = make_record(), make_record("sisa", status="diverged"), make_record("gif", status="oom")
    other.save(make_record(machine="m-0002"))
    assert not store.has(ok.key)
    store.save(ok)
    store.save(diverged)
    store.save_failure(failed)
    assert [store.has(record.key) for record in (ok, diverged, failed)] == [True, True, False]
    assert [record.status for record in store.records()] == ["oom", "ok", "diverged", "ok"]


def test_a_success_removes_the_earlier_failure_and_a_failure_keeps_the_outcome(store: Store) -> None:
    ok, failed = make_record(), make_record(status="error")
    assert ok.key == failed.key
    failure = store.save_failure(failed)
    assert failure.name == f"{ok.key}.error.json"
    outcome = store.save(ok)
    assert not failure.exists()
    store.save_failure(failed)
    assert outcome.exists()
    assert store.has(ok.key)


def test_outcomes_and_failures_are_not_mixed_up(store: Store) -> None:
    with pytest.raises(UsageError, match="as an outcome"):
        store.save(make_record(status="killed"))
    with pytest.raises(UsageError, match="as a failure"):
        store.save_failure(make_record())
    with pytest.raises(UsageError, match="m-0009"):
        store.save(make_record(machine="m-0009"))
    assert files(store.root) == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("only-missing", [False, True, True, True]),
        ("busy", [False, True, True, True]),
        ("never", [False, False, False, True]),
        ("always", [True] * 4),
    ],
)
def test_policies(store: Store, policy: str, expected: list[bool]) -> None:
    done, failed, damaged, new = (
        make_record(),
        make_record("sisa", status="error"),
        make_record("gif"),
        make_record("x"),
    )
    store.save(done)
    store.save_failure(failed)
    store.save(damaged).write_text('{"schema": 1, "ke')
    assert [store.wanted(r.key, policy) for r in (done, failed, damaged, new)] == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (make_record(), False),
        (make_record(exclusive=False), True),
        (make_record(exclusive=None), True),
        (make_record(exclusive=False, backend="processes"), True),
        (make_record(exclusive=False, status="refused"), False),
        (make_record(exclusive=False, status="diverged"), False),
    ],
)
def test_what_was_timed_on_a_busy_machine_is_wanted_again(store: Store, record: Record, expected: bool) -> None:
    store.save(record)
    assert store.wanted(record.key, "busy") is expected


def test_an_unknown_policy_and_a_key_that_is_none_are_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="only-missing, busy, never, always"):
        store.wanted(make_record().key, "sometimes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hexadecimal"):
        store.has("*")


@pytest.mark.parametrize(("schema", "word"), [(0, "older"), (2, "newer")])
def test_other_schemas_are_refused_and_never_written_over(store: Store, schema: int, word: str) -> None:
    record = make_record()
    path = store.save(record)
    path.write_text(path.read_text().replace('"schema": 1', f'"schema": {schema}'))
    with pytest.raises(SchemaVersionError, match=word) as caught:
        read_record(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    with pytest.raises(SchemaVersionError):
        store.wanted(record.key, "only-missing")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cell": None}, "cell"),
        ({"status": "fine"}, "status"),
        ({"error": {"type": "a", "message": "b", "traceback": "c"}}, "with an error"),
        ({"provenance": {}}, "machine"),
        ({"surprise": 1}, "surprise"),
        ({"schema": "1"}, "schema"),
    ],
)
def test_missing_and_wrong_keys_are_named(store: Store, change: dict[str, object], said: str) -> None:
    path = store.save(make_record())
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedRecordError, match=said):
        read_record(path)


@pytest.mark.parametrize("content", [b"[]", b"\xff\xfe", b"", b'{"schema": 1, "x": NaN}', b"[" * 100_000])
def test_what_is_no_record_is_refused(store: Store, content: bytes) -> None:
    path = store.save(make_record())
    path.write_bytes(content)
    with pytest.raises(DamagedRecordError, match=path.name):
        read_record(path)


def test_a_record_under_another_name_is_refused(store: Store) -> None:
    path = store.save(make_record())
    renamed = path.rename(path.with_name("0123456789abcdef.json"))
    with pytest.raises(DamagedRecordError, match="holds the record"):
        read_record(renamed)


AWKWARD = [
    "file:/tmp/x",
    "../../x",
    "..",
    ".",
    "",
    "a\0b",
    "con",
    "CON",
    "nul.txt",
    "lpt1",
    "x" * 5000,
    "x" * 5001,
    "a.",
]
AWKWARD += ["a", "A", "%41", "a/b", "a%2fb", "a\\b", "ä", "a\u0308", "\udc80", "a ", " a", "-x", "com1", "%63om1", "%"]
AWKWARD += [safe_name("x" * 5000), "*", "aux.", ".hidden"]


def windows_keeps(part: str) -> bool:
    reserved = {"con", "prn", "aux", "nul", *(f"{p}{n}" for p in ("com", "lpt") for n in range(10))}
    return part.split(".")[0] not in reserved and part[-1] not in ". " and not set(part) & set('<>:"/\\|?*')


@given(st.lists(st.one_of(st.sampled_from(AWKWARD), st.text(max_size=8)), min_size=2, max_size=20, unique=True))
def test_names_become_one_safe_path_part_each_and_never_share_one(names: list[str]) -> None:
    parts = [safe_name(name) for name in names]
    assert len({part.casefold() for part in parts}) == len(parts)
    for part in parts:
        assert PurePosixPath(part).parts == (part,)
        assert PureWindowsPath(part).parts == (part,)
        assert part not in (".", "..")
        assert part.isascii()
        assert part.isprintable()
        assert len(part) <= 100
        assert windows_keeps(part)


@pytest.mark.parametrize("name", AWKWARD)
def test_a_record_of_an_awkward_name_stays_in_the_store(store: Store, name: str) -> None:
    record = make_record(method=name.encode("utf-8", "replace").decode(), dataset="../../outside")
    path = store.save(record)
    assert path.resolve().is_relative_to(store.root.resolve() / "records" / "m-0001")
    assert len(path.relative_to(store.root).parts) == 5
    assert store.has(record.key)
    assert read_record(path) == record


def test_plain_names_are_kept() -> None:
    for name in ("cora", "amazon-photo", "graphrevoker", "m-4ad1", "sbm_2.0"):
        assert safe_name(name) == name


def test_arrays_are_on_disk_before_the_record(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed: list[str] = []
    replace = os.replace

    def watch(source: Path, target: Path) -> None:
        renamed.append(Path(target).suffix)
        assert Path(source).parent == Path(target).parent
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    store.save(make_record(), {"forgotten": np.arange(3)})
    assert renamed == [".npz", ".json"]


def test_clean_removes_old_temporaries_of_ours_and_nothing_else(store: Store) -> None:
    folder = store.save(make_record()).parent
    old = folder / ".abc.json.17-0123456789abcdef.unlearnbench-tmp"
    fresh = folder / ".abc.json.18-0123456789abcdef.unlearnbench-tmp"
    foreign = folder / ".nfs0001"
    for path in (old, fresh, foreign):
        path.write_text("half")
    for path in (old, foreign):
        os.utime(path, (time.time() - 1e6,) * 2)
    before = files(store.root)
    assert store.clean() == [old]
    assert files(store.root) == [name for name in before if not name.endswith(old.name)]


def test_a_machine_is_written_once(store: Store) -> None:
    path = store.save_machine({"cpu": "x", "cores": 2})
    assert path == store.root / "machines/m-0001.json"
    first = path.stat().st_ino
    store.save_machine({"cores": 2, "cpu": "x"})
    assert path.stat().st_ino == first
    store.save_machine({"cpu": "x", "cores": 4})
    assert json.loads(path.read_text()) == {"cpu": "x", "cores": 4, "id": "m-0001"}


def test_an_empty_folder_has_no_records(tmp_path: Path) -> None:
    assert list(read_records(tmp_path)) == []


def test_the_store_needs_neither_torch_nor_pandas() -> None:
    code = "import sys, unlearnbench.records.store; print([m for m in ('torch', 'pandas') if m in sys.modules])"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
