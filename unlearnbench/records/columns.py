"""Rows as a file holds them: a list for each name, so that no name is written once per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

import typing_extensions
from pydantic import BeforeValidator, ConfigDict, with_config

Columns = dict[str, Any]
_MISFIT = "its columns are not lists of one length"


def written_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Return a list for each name of any row, in the order in which names first appear; null where a row has none.

    What all of several rows share is written once, without a list; a list of dictionaries is written as columns too.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    written = {name: _written(column) for name, column in columns.items()}
    # A list tells how many rows there are.
    return written if any(isinstance(column, list) for column in written.values()) else columns


def _written(column: list[Any]) -> Any:
    groups = [value for value in column if value is not None]
    if groups and all(isinstance(group, dict) and group and None not in group.values() for group in groups):
        inner = dict.fromkeys(name for group in groups for name in group)
        return {name: _shared([(group or {}).get(name) for group in column]) for name in inner}
    return _shared(column)


def _shared(column: list[Any]) -> Any:
    first = column[0]
    # repr tells 1 from True and from 1.0, which are equal.
    alike = len(column) > 1 and not isinstance(first, list | dict) and len({repr(value) for value in column}) == 1
    return first if alike else column


def rows_of(value: Any, always: str = "") -> Any:
    """Return the rows of columns; rows, as older files hold them, are returned as they are.

    Args:
        value: The columns.
        always: What every row has, if only as null; of other names, null means that the row has none.

    Raises:
        ValueError: The lists are not of one length, or there is none.
    """
    if not isinstance(value, dict):
        return value
    lists = [column for column in value.values() if isinstance(column, list)]
    if value and not lists:
        raise ValueError(_MISFIT)
    count = len(lists[0]) if lists else 0
    columns = [_read(column, count) for column in value.values()]
    rows = (zip(value, row, strict=True) for row in zip(*columns, strict=True))
    return [{name: item for name, item in row if item is not None or name == always} for row in rows]


def _read(column: Any, count: int) -> list[Any]:
    if not isinstance(column, dict):
        return _spread(column, count)
    inner = {name: _spread(values, count) for name, values in column.items()}
    groups = ({name: values[row] for name, values in inner.items() if values[row] is not None} for row in range(count))
    return [group or None for group in groups]


def _spread(column: Any, count: int) -> list[Any]:
    if not isinstance(column, list):
        return [column] * count
    if len(column) != count:
        raise ValueError(_MISFIT)
    return column


def rows_or_columns(row: Any, always: str) -> BeforeValidator:
    """Annotate a list of rows of a `TypedDict`: a file may hold it as columns."""
    hints: dict[str, Any] = get_type_hints(row)
    kinds = {name: _column(kind) for name, kind in hints.items()}
    made: Any = typing_extensions.TypedDict
    columns = with_config(ConfigDict(extra="allow"))(made(f"{row.__name__}Columns", kinds, total=False))
    return BeforeValidator(partial(rows_of, always=always), json_schema_input_type=list[row] | columns)


def _column(kind: Any) -> Any:
    shared_or_list = kind | None | GenericAlias(list, kind | None)
    if get_origin(kind) is not dict:
        return shared_or_list
    name, value = get_args(kind)
    return shared_or_list | GenericAlias(dict, (name, value | None | GenericAlias(list, value | None)))
