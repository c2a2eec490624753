"""Rows are written as a list for each name, and come back as they were."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_samples import make_record

from unlearnbench.records.columns import rows_of, written_columns
from unlearnbench.records.record import DamagedRecordError, read_record

VALUES = st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
ROWS = st.lists(
    st.builds(
        lambda value, others: {"value": value, **others},
        st.none() | st.integers(),
        st.dictionaries(st.sampled_from(["low", "high", "where"]), VALUES),
    ),
    max_size=5,
)


@given(ROWS)
def test_rows_come_back_without_what_they_never_had(rows: list[dict[str, Any]]) -> None:
    columns = written_columns(rows)
    assert rows_of(json.loads(json.dumps(columns)), always="value") == rows
    assert all(len(column) == len(rows) for column in columns.values())
    assert rows_of(rows, always="value") == rows


def test_a_name_is_written_once() -> None:
    rows = [{"name": "fit", "seconds": 2.0}, {"name": "unlearn", "seconds": None, "peak_rss_mib": 3.5}]
    columns = {"name": ["fit", "unlearn"], "seconds": [2.0, None], "peak_rss_mib": [None, 3.5]}
    assert written_columns(rows) == columns
    assert rows_of(columns, always="seconds") == rows
    assert written_columns([]) == {}
    assert rows_of({}, always="seconds") == []


@pytest.mark.parametrize("columns", [{"name": ["fit"], "seconds": []}, {"name": "fit", "seconds": [1.0]}])
def test_columns_that_do_not_fit_are_refused_with_their_place(columns: dict[str, Any], tmp_path: Path) -> None:
    record = make_record()
    plain = json.loads(record.to_json()) | {"phases": columns}
    del plain["checksum"]
    path = tmp_path / record.file_name
    path.write_text(json.dumps(plain))
    with pytest.raises(DamagedRecordError, match=r"phases: .*its columns are not lists of one length"):
        read_record(path)
