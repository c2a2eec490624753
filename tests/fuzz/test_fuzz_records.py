"""Records whose bytes were flipped, cut or replaced: the record that was written, or an error that names the file."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import fuzz, odd_floats, odd_integers, odd_texts, told
from hypothesis import assume, given
from hypothesis import strategies as st
from record_samples import make_record

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError
from unlearnbench.records.record import Record, read_record
from unlearnbench.records.store import Store
from unlearnbench.report import load_records
from unlearnbench.report.tables.core import EVERY_GROUP
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import FORMATS, render

pytestmark = pytest.mark.slow

ARRAYS = {"forgotten": np.array([3, 2**62]), "after/test/shard": np.linspace(-5, 0, 12, dtype=np.float32).reshape(4, 3)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("records"), "m-0001")


@pytest.fixture(scope="module")
def written(store: Store) -> tuple[Record, Path, bytes, bytes]:
    record = make_record("graphrevoker", 3, shards_hit=8, params={"num_shards": 20, "ä": 0.5})
    path = store.save(record, ARRAYS)
    return record, path, path.read_bytes(), path.with_suffix(".npz").read_bytes()


# Where, as a share of the length; how many bytes; what comes in their place.
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 40),
        st.one_of(
            st.binary(min_size=1, max_size=1),
            st.binary(max_size=12),
            st.sampled_from([b"", b"0", b"-", b"e9", b"null"]),
        ),
    ),
    min_size=1,
    max_size=3,
)


def damaged(content: bytes, how: str, changes: list[tuple[float, int, bytes]]) -> bytes:
    for where, length, new in changes:
        at = int(where * len(content))
        if how == "flip":
            content = content[:at] + bytes([content[at] ^ (1 << length % 8)]) + content[at + 1 :]
        elif how == "cut":
            return content[:at]
        elif how == "digit":
            digits = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
            at = digits[int(where * len(digits))]
            content = content[:at] + b"%d" % ((content[at] + 1 + length % 9) % 10) + content[at + 1 :]
        else:
            content = content[:at] + new + content[at + length :]
    return content


WAYS = ["flip", "cut", "digit", "replace"]


@given(st.sampled_from(WAYS), edits)
@fuzz(0.15)
def test_a_damaged_record_is_the_one_written_or_refused_by_name(
    written: tuple[Record, Path, bytes, bytes], how: str, changes: list[tuple[float, int, bytes]]
) -> None:
    record, path, content, _ = written
    path.write_bytes(damaged(content, how, changes))
    with told("damaged records") as errors:
        assert read_record(path) == record
    if errors:
        assert str(path) in errors[0].message
        assert errors[0].hint


@given(st.sampled_from(WAYS), edits)
@fuzz(0.05)
def test_damaged_arrays_are_those_written_or_refused_by_name(
    store: Store, written: tuple[Record, Path, bytes, bytes], how: str, changes: list[tuple[float, int, bytes]]
) -> None:
    record, path, _, content = written
    archive = path.with_suffix(".npz")
    archive.write_bytes(damaged(content, how, changes))
    with told("damaged arrays") as errors:
        found = store.arrays(record)
        for name in found:
            assert found[name].dtype == ARRAYS[name].dtype
            np.testing.assert_array_equal(found[name], ARRAYS[name])
    if errors:
        assert str(archive) in errors[0].message


def places(value: Any, head: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the way to every value inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*head, key)
        yield from places(one, (*head, key))


PLAIN = json.loads(make_record("sisa", 1, params={"num_shards": 4}, shards_hit=2).to_json())
PLAIN.pop("checksum", None)


def original(way: tuple[Any, ...]) -> Any:
    found = PLAIN
    for key in way:
        found = found[key]
    return found


replacements = st.one_of(
    st.none(), st.booleans(), odd_integers, odd_floats, odd_texts, st.just([]), st.just({}), st.just([[1], "a"]),
    st.just({"a": {"b": 1}}),
)  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(list(places(PLAIN))), replacements), min_size=1, max_size=2),
    st.booleans(),
    st.sampled_from(sorted(EVERY_GROUP)),
    st.sampled_from(FORMATS),
)
@fuzz(0.10)
def test_a_record_of_any_values_is_shown_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[tuple[Any, ...], Any]],
    drop: bool,
    table: str,
    style: str,
) -> None:
    plain = json.loads(json.dumps(PLAIN))
    for way, value in changes:
        holder = plain
        for key in way[:-1]:
            try:
                holder = holder[key]
            except (TypeError, LookupError):  # an earlier change took it away
                holder = None
        if isinstance(holder, dict) and drop:
            holder.pop(way[-1], None)
        elif type(holder) is type(original(way[:-1])):
            holder[way[-1]] = value
    root = tmp_path_factory.mktemp("any")
    # Whoever makes a record up can make its key up as well.
    if isinstance(plain.get("cell"), dict):
        try:
            plain["key"] = hashlib.sha256(canonical_json(plain["cell"]).encode()).hexdigest()[:32]
        except ValueError:  # a number that is not finite, or of thousands of digits
            assume(False)
    key = plain.get("key")
    assume(isinstance(key, str) and key.isalnum())
    path = root / "records/m-0001/cora/sisa" / f"{key}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(plain, allow_nan=True))
    with told("odd records") as errors:
        read_record(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = load_records(root)
        render(build_tables(frame, table, str(root)), style).encode("utf-8")
    if errors:
        # A record need not say how nodes were split; a comparison that must know it names the cell and the key.
        lacks_split = "the split of the records is" in errors[0].message
        assert str(path) in errors[0].message or lacks_split or isinstance(errors[0], NothingMatchedError)
