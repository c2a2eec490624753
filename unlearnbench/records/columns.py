"""Rows as a file holds them: a list for each name, so that no name is written once per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import GenericAlias
from typing import Any, get_type_hints

import typing_extensions
from pydantic import BeforeValidator, ConfigDict, with_config

Columns = dict[str, list[Any]]


def written_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Return a list for each name of any row, in the order in which names first appear; null where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def rows_of(value: Any, always: str = "") -> Any:
    """Return the rows of columns; rows, as older files hold them, are returned as they are.

    Args:
        value: The columns.
        always: What every row has, if only as null; of other names, null means that the row has none.

    Raises:
        ValueError: The columns are not lists of one length.
    """
    if not isinstance(value, dict):
        return value
    columns = list(value.values())
    if not all(isinstance(column, list) for column in columns) or len({len(column) for column in columns}) > 1:
        raise ValueError("its columns are not lists of one length")
    rows = (zip(value, row, strict=True) for row in zip(*columns, strict=True))
    return [{name: item for name, item in row if item is not None or name == always} for row in rows]


def rows_or_columns(row: Any, always: str) -> BeforeValidator:
    """Annotate a list of rows of a `TypedDict`: a file may hold it as columns."""
    hints: dict[str, Any] = get_type_hints(row)
    kinds = {name: GenericAlias(list, kind | None) for name, kind in hints.items()}
    made: Any = typing_extensions.TypedDict
    columns = with_config(ConfigDict(extra="allow"))(made(f"{row.__name__}Columns", kinds, total=False))
    return BeforeValidator(partial(rows_of, always=always), json_schema_input_type=list[row] | columns)
