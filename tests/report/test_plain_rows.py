"""Rows of frames as dictionaries of plain values."""

from __future__ import annotations

import pandas as pd

from unlearnbench.report.frame.plain_rows import plain_rows, rows_by
from unlearnbench.report.frame.record_groups import first_of_each

FRAME = pd.DataFrame({"row": ["b", "a", "b"], "seed": [1, 2, 1], "quiet": pd.array([True, None, False], "boolean")})


def test_values_are_those_of_python_and_missing_ones_stay_missing() -> None:
    first, second, _ = plain_rows(FRAME)
    assert first == {"row": "b", "seed": 1, "quiet": True}
    assert [type(value) for value in first.values()] == [str, int, bool]
    assert second["quiet"] is pd.NA
    assert plain_rows(FRAME, ["seed"]) == [{"seed": 1}, {"seed": 2}, {"seed": 1}]
    assert plain_rows(FRAME.iloc[:0]) == []


def test_rows_of_a_value_stay_in_their_order() -> None:
    found = rows_by(FRAME, "row", ["quiet"])
    assert list(found) == ["b", "a"]
    assert [row["quiet"] for row in found["b"]] == [True, False]


def test_the_first_row_of_each_combination_is_kept_with_all_columns() -> None:
    assert first_of_each(FRAME, ["row", "seed"]).index.tolist() == [0, 1]
    assert list(first_of_each(FRAME.iloc[:0], ["row"])) == list(FRAME)
