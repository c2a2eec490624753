"""Tables of a run file stand for several brackets: their lists are multiplied out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import Bracket, parse_bracket
from unlearnbench.running.options import Name


def depth(value: Any) -> int:
    """Count how deep lists and tables are nested."""
    deepest, level = 0, [value]
    while level:
        deepest += 1
        tables = [one.values() if isinstance(one, Mapping) else one for one in level if isinstance(one, Mapping | list)]
        level = list(itertools.chain.from_iterable(tables))
    return deepest


def count(names: Sequence[Name]) -> int:
    """Count the brackets that names and tables stand for, without making any; an empty list counts as one value.

    Where one list is empty there is no bracket, but the others would be multiplied out all the same.
    """
    return sum(map(_count, names))


def brackets(names: Sequence[Name]) -> list[Bracket]:
    """Read names and tables; multiply lists out.

    Raises:
        UsageError: A name does not follow the grammar, or a table has no name or a key twice.
    """
    return [one for name in names for one in ([parse_bracket(name)] if isinstance(name, str) else _multiplied(name))]


def _count(value: Any) -> int:
    if not isinstance(value, Mapping):
        return 1
    return math.prod(max(1, count(_listed(values))) for key, values in value.items() if key != "name")


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _multiplied(table: Mapping[str, Any]) -> list[Bracket]:
    if not isinstance(table.get("name"), str):
        raise UsageError(f"A table of a run file has no name: {dict(table)!r}.", 'Write {name = "...", key = value}.')
    name = parse_bracket(table["name"])
    twice = next((key for key in table if key in name.arguments), None)
    if twice is not None:
        raise UsageError(
            f"{table['name']!r}: {twice!r} is given twice, in the bracket and in the table.", "Leave one out."
        )
    axes = [
        [(key, argument) for value in _listed(values) for argument in _arguments(value)]
        for key, values in table.items()
        if key != "name"
    ]
    return [replace(name, arguments={**name.arguments, **dict(point)}) for point in itertools.product(*axes)]


def _arguments(value: Any) -> Sequence[str | Bracket]:
    """Read one value of a table; a table may stand for several brackets, as its own lists are multiplied out too."""
    if isinstance(value, Mapping):
        return _multiplied(value)
    return [parse_bracket(value) if isinstance(value, str) and "[" in value else str(value)]
