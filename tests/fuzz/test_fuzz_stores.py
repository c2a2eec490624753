"""Stores with copied, renamed and edited records: every row is one of the untouched store, or the file is named."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fuzzing import fuzz, odd_floats, odd_integers, odd_texts, told
from hypothesis import given
from hypothesis import strategies as st
from record_samples import make_record

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError, UnlearnbenchError
from unlearnbench.records.reading import read_records
from unlearnbench.records.record import FAILURES, Record
from unlearnbench.records.store import Store
from unlearnbench.report import load_records
from unlearnbench.report.publish.leaderboard import contents

pytestmark = pytest.mark.slow

MACHINES = ("m-0001", "m-0002")
DIGESTS = {"before": {"members/000": "aa"}, "after": {"members/000": "ab"}, "members_changed": [0], "unchanged": False}


def originals() -> list[Record]:
    made = []
    for machine in MACHINES:
        for at, method in enumerate(("retrain", "sisa")):
            for repetition in range(2):
                score = 0.5 + 0.1 * at + 0.01 * repetition + 0.001 * MACHINES.index(machine)
                made.append(make_record(method, repetition, shard=score, machine=machine, digests=DIGESTS))
    failed = make_record("gif", 0, status="error", machine=MACHINES[0])
    return [*made, failed]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pristine")
    for record in originals():
        store = Store(root, record.machine)
        (store.save_failure if record.is_failure else store.save)(record)
    return root


@cache
def sound_rows(pristine: Path) -> frozenset[str]:
    """Not a fixture: hypothesis would print it whole."""
    return frozenset(rows_of(pristine))


def rows_of(root: Path) -> list[str]:
    """Load a store and write its rows as text; columns that only edited records bring are no rows of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            frame = load_records(root)
        except NothingMatchedError:
            return []
    return [row.to_json() for _, row in frame.iterrows()]


# What is done, to which entry below `records` and to which place; numbers are taken modulo what there is.
names = st.one_of(
    st.sampled_from(["sisa", "sisa.bak", "retrain", "cora", "cora copy", "m-0001", "m-0003", "old", "a.json", ".hid"]),
    st.sampled_from(["{}.bak", "{} (copy)", "copy of {}", "{}~", "0{}", "{}.json", "{}.error.json", ".{}"]),
)
numbers = st.integers(0, 10**6)
values = st.one_of(
    st.none(), st.booleans(), odd_integers, odd_floats, odd_texts, st.just([]), st.just({}), st.just({"a": [1]}),
)  # fmt: skip
steps = st.one_of(
    st.tuples(st.sampled_from(["copy", "move"]), numbers, numbers, names),
    st.tuples(st.just("edit"), numbers, numbers, values),
    st.tuples(st.just("drop"), numbers, numbers, st.none()),
    st.tuples(st.just("cut"), numbers, numbers, st.none()),
)


def entries(root: Path) -> list[Path]:
    return sorted((root / "records").rglob("*"))


def files(root: Path) -> list[Path]:
    return [path for path in entries(root) if path.is_file()]


def places(value: Any, head: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*head, key)
        yield from places(one, (*head, key))


def apply(root: Path, step: tuple[Any, ...]) -> None:
    """Copy, move, edit, shorten or delete one entry of a store."""
    how, which, where, what = step
    if how in ("copy", "move"):
        there = entries(root)
        if not there:
            return
        source = there[which % len(there)]
        folders = [root / "records", *(path for path in there if path.is_dir())]
        target = folders[where % len(folders)] / what.format(source.name)
        if target.exists() or target.is_relative_to(source):
            return
        if how == "move":
            source.rename(target)
        elif source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        return
    there = files(root)
    if not there:
        return
    path = there[which % len(there)]
    if how == "drop":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[: where % (path.stat().st_size + 1)])
    else:
        edit(path, where, what)


def edit(path: Path, where: int, value: Any) -> None:
    """Change one value of a record and leave key and checksum, as an editor does."""
    try:
        plain = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    ways = list(places(plain))
    if not ways:
        return
    *head, last = ways[where % len(ways)]
    holder = plain
    for key in head:
        holder = holder[key]
    holder[last] = value
    path.write_text(json.dumps(plain))


@given(st.lists(steps, min_size=1, max_size=4))
@fuzz(0.4)
def test_every_row_is_one_of_the_untouched_store_and_what_is_not_read_is_named(
    pristine: Path, tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[Any, ...]]
) -> None:
    rows, root = sound_rows(pristine), tmp_path_factory.mktemp("store", numbered=True)
    shutil.copytree(pristine, root, dirs_exist_ok=True)
    for change in changes:
        apply(root, change)
    with told("edited stores") as errors:
        problems: list[UnlearnbenchError] = []
        records = list(read_records(root, problems))
        cells = [(record.machine, record.key, record.status in FAILURES) for record in records]
        assert len(set(cells)) == len(cells)
        shown = rows_of(root)
        assert len(shown) == len(set(shown))
        assert set(shown) <= rows
        named = " ".join(problem.message for problem in problems)
        for path in files(root):
            if ".json" in path.name and not path.name.startswith("."):
                assert path in {root / place(record) for record in records} or str(path) in named
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            contents(root)
    shutil.rmtree(root)
    if errors and not isinstance(errors[0], NothingMatchedError):
        assert str(root) in errors[0].message


def place(record: Record) -> Path:
    names = (record.machine, record.cell["dataset"]["name"], record.cell["method"]["name"])
    return Path("records", *names, record.file_name)


FORGED = json.loads(originals()[2].to_json())


@given(st.sampled_from(list(places(FORGED))), values)
@fuzz(0.25)
def test_an_edit_that_mends_key_and_checksum_is_its_own_row_or_named_and_changes_no_other(
    pristine: Path, tmp_path_factory: pytest.TempPathFactory, way: tuple[Any, ...], value: Any
) -> None:
    rows, root = sound_rows(pristine), tmp_path_factory.mktemp("forged", numbered=True)
    shutil.copytree(pristine, root, dirs_exist_ok=True)
    plain = json.loads(json.dumps(FORGED))
    holder = plain
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    plain.pop("checksum", None)
    with suppress(KeyError, TypeError, ValueError):
        plain["key"] = hashlib.sha256(canonical_json(plain["cell"]).encode()).hexdigest()
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    plain["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path = root / "records/m-0001/cora/sisa" / f"{plain['key']}.json"
    try:
        path.write_text(json.dumps(plain))
    except (OSError, ValueError):  # what was changed is the key, to no name of a file
        shutil.rmtree(root)
        return
    with told("forged records"):
        problems: list[UnlearnbenchError] = []
        records = list(read_records(root, problems))
        own = [record for record in records if root / place(record) == path]
        assert own or str(path) in " ".join(problem.message for problem in problems)
        assert len([row for row in rows_of(root) if row not in rows]) <= 2 * len(own)
    shutil.rmtree(root)
