"""The nodes or edges that `forget` names: a list, a text, or a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from unlearnbench.errors import UsageError

_PAIR = re.compile(r"\s*(-?\d+)\s*-\s*(-?\d+)\s*")
_EXAMPLE = "Example: 3,17; edges: 3-17,4-5; @FILE: those in a text, .npy or .json file."


def read_forget(value: Any) -> Any:
    """Read what to forget.

    Args:
        value: `3,17`, edges as `3-17,4-5`, or `@FILE`; several such texts, which are one request; an array or
            tensor. Anything else is returned as it is.

    Returns:
        Ids, or pairs of ids.

    Raises:
        UsageError: The text or the file holds anything else; names the item.
    """
    if isinstance(value, list | tuple) and value and all(isinstance(text, str) for text in value):
        parts = [read_forget(text) for text in value]
        if len({isinstance(part[0], int) for part in parts if part}) > 1:
            raise UsageError("`forget` names both nodes and edges.", "Ask for one kind in a request.")
        return [one for part in parts for one in part]
    if not isinstance(value, str):
        return value.tolist() if hasattr(value, "tolist") else value
    if value.startswith("@"):
        return _of_file(Path(value[1:]).expanduser())
    return _items(value.split(","), "")


def _of_file(path: Path) -> Any:
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
            if array.dtype.kind in "iu" and (array.ndim == 1 or array.shape[1:] == (2,)):
                return array.tolist()
            raise UsageError(
                f"`forget` @{path}: {array.dtype} of shape {list(array.shape)}.",
                "Save whole numbers: ids [t], or edges [t, 2].",
            )
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            return _of_json(json.loads(text), path)
    except OSError as error:
        raise UsageError(f"`forget` @{path}: {error.strerror or error}.", _EXAMPLE) from None
    except (ValueError, EOFError, RecursionError) as error:
        raise UsageError(f"`forget` @{path} cannot be read: {error}.", _EXAMPLE) from None
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return _items([item for line in lines for item in line.rstrip().rstrip(",").split(",")], f"@{path}: ")


def _of_json(items: Any, path: Path) -> Any:
    if isinstance(items, list):
        wrong = [one for one in items if type(one) is not int and not _is_pair(one)]
        if not wrong:
            return items
        items = wrong[0]
    raise UsageError(
        f"`forget` @{path}: {_short(items)} is no id and no edge.", "Example: [3, 17], or [[3, 17], [4, 5]]."
    )


def _is_pair(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(type(end) is int for end in one)


def _items(items: list[str], where: str) -> Any:
    """Read numbers, or pairs of them joined by a hyphen."""
    if not any(_PAIR.fullmatch(item) for item in items[:1]):
        try:
            return [int(item) for item in items]
        except ValueError:
            wrong = next(item for item in items if not re.fullmatch(r"\s*[-+]?\d+\s*", item))
            raise UsageError(f"`forget` {where}{_short(wrong.strip())} is not a whole number.", _EXAMPLE) from None
    pairs = []
    for item in items:
        match = _PAIR.fullmatch(item)
        if match is None:
            raise UsageError(f"`forget` {where}{_short(item.strip())} is not an edge.", _EXAMPLE)
        pairs.append((int(match[1]), int(match[2])))
    return pairs


def _short(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 60 else f"{text[:60]}..."
