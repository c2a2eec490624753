"""Values of JSON as a record holds them: finite numbers, printable text, nothing nested too deep."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

ESCAPED = "held characters that no file takes: they are escaped."
"""How a note on escaped characters ends."""
DEPTH = 50
"""How deep values may be nested: no component needs ten, and what writes JSON ends at some hundreds."""
_SURROGATE, _UNPRINTABLE = re.compile("[\ud800-\udfff]"), re.compile("[\0\ud800-\udfff]")


def is_plain(value: Any, depth: int = DEPTH) -> bool:
    """Whether `made_plain` would return a value as it is, as nearly all of them: nothing has to be named then."""
    if depth < 0:
        return False
    kind = type(value)
    if kind is str:
        return not _UNPRINTABLE.search(value)
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return bool(-(2**63) <= value < 2**63)
    if kind is list:
        return all(map(is_plain, value, itertools.repeat(depth - 1)))
    if kind is dict:
        return not _UNPRINTABLE.search("".join(value)) and all(
            map(is_plain, value.values(), itertools.repeat(depth - 1))
        )
    return value is None or kind is bool


def made_plain(value: Any, where: str, notes: list[str], depth: int = DEPTH) -> Any:
    """Replace non-finite numbers by None, numpy scalars by Python numbers, and characters that no file takes.

    Args:
        value: A value of JSON, or nearly one.
        where: Its place in the record, for notes and errors; `cell` and what is in it must be right as they are.
        notes: Takes a line for each value that is replaced.
        depth: How deep it may be nested.

    Raises:
        ValueError: A number is too large, values are nested too deep, or a part of the cell would have to be replaced.
    """
    if depth < 0:
        raise ValueError(f"{where.split('.')[0]} is nested more than {DEPTH} deep")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{where} is too large a number")
    if isinstance(value, float) and not math.isfinite(value):
        if where.split(".")[0] == "cell":
            raise ValueError(f"{where} is {value}: a cell holds finite numbers only")
        notes.append(f"{where} was {value}; stored as null.")
        return None
    if isinstance(value, str):
        return _printable(value, where, notes)
    if isinstance(value, Mapping):
        return {
            _printable(name, where, notes): made_plain(inner, f"{where}.{name}", notes, depth - 1)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [made_plain(inner, f"{where}.{at}", notes, depth - 1) for at, inner in enumerate(value)]
    return value


def _printable(text: Any, where: str, notes: list[str]) -> Any:
    """Escape null characters and halves of surrogate pairs, which no file in UTF-8 and no figure takes."""
    if not isinstance(text, str) or not _UNPRINTABLE.search(text):
        return text
    if where.split(".")[0] == "cell":
        # What a cell is decides its key: nothing in it is changed.
        if _SURROGATE.search(text):
            raise ValueError(f"{where.encode('ascii', 'backslashreplace').decode()} holds half a surrogate pair")
        return text
    notes.append(f"{where.encode('ascii', 'backslashreplace').decode()} {ESCAPED}")
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", text)
