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

VALUES = st.integers() | st.booleans() | st.just(1.0) | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
CONTROLS = st.dictionaries(st.sampled_from(["noop", "over-forget"]), st.none() | st.floats(0, 1), min_size=1)
ROWS = st.lists(
    st.builds(
        lambda value, others, controls: {"value": value, **others, **({"controls": controls} if controls else {})},
        st.none() | st.integers(0, 2),
        st.dictionaries(st.sampled_from(["low", "high", "where"]), VALUES),
        st.none() | CONTROLS,
    ),
    max_size=5,
)


@given(ROWS)
def test_rows_come_back_without_what_they_never_had(rows: list[dict[str, Any]]) -> None:
    columns = written_columns(rows)
    read = rows_of(json.loads(json.dumps(columns)), always="value")
    assert json.dumps(read, sort_keys=True) == json.dumps(rows, sort_keys=True)
    assert json.dumps(written_columns(read), sort_keys=True) == json.dumps(columns, sort_keys=True)
    assert rows_of(rows, always="value") == rows


def test_a_name_is_written_once() -> None:
    rows = [{"name": "fit", "seconds": 2.0}, {"name": "unlearn", "seconds": None, "peak_rss_mib": 3.5}]
    columns = {"name": ["fit", "unlearn"], "seconds": [2.0, None], "peak_rss_mib": [None, 3.5]}
    assert written_columns(rows) == columns
    assert rows_of(columns, always="seconds") == rows
    assert written_columns([]) == {}
    assert rows_of({}, always="seconds") == []


def test_what_all_rows_share_is_written_once_and_what_is_in_groups_as_columns() -> None:
    rows = [
        {"where": "node", "value": 0.5, "runs": 64, "controls": {"noop": 0.75, "half": 0.625}},
        {"where": "edge", "value": 0.5, "runs": 64, "controls": {"noop": 0.25}},
        {"where": "none", "value": 0.5, "runs": 64},
    ]
    columns = {"where": ["node", "edge", "none"], "value": 0.5, "runs": 64}
    columns["controls"] = {"noop": [0.75, 0.25, None], "half": [0.625, None, None]}
    assert written_columns(rows) == columns
    assert rows_of(columns, always="value") == rows
    assert written_columns([{"value": 1}, {"value": 1}]) == {"value": [1, 1]}
    assert written_columns([{"where": "a", "value": 1}, {"where": "b", "value": True}])["value"] == [1, True]


@pytest.mark.parametrize(
    "columns",
    [
        {"name": ["fit"], "seconds": []},
        {"name": "fit", "seconds": 1.0},
        {"name": ["fit", "unlearn"], "seconds": {"odd": [1.0]}},
    ],
)
def test_columns_that_do_not_fit_are_refused_with_their_place(columns: dict[str, Any], tmp_path: Path) -> None:
    record = make_record()
    plain = json.loads(record.to_json()) | {"phases": columns}
    del plain["checksum"]
    path = tmp_path / record.file_name
    path.write_text(json.dumps(plain))
    with pytest.raises(DamagedRecordError, match=r"phases: .*its columns are not lists of one length"):
        read_record(path)
