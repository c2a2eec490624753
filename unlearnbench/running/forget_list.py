"""The nodes, edges or features that `forget` names: a list, a text, or a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from unlearnbench.errors import UsageError

_PAIRS = {
    "edge": re.compile(r"\s*(-?\d+)\s*-\s*(-?\d+)\s*"),
    "feature": re.compile(r"\s*(-?\d+)\s*:\s*(\d+)\s*"),
}
_EXAMPLE = "Example: 3,17; edges: 3-17,4-5; features: 3:0,17:2; @FILE: those in a text, .npy or .json file."


def read_forget(value: Any, kind: str = "node") -> Any:
    """Read what to forget.

    Args:
        value: `3,17`, edges as `3-17,4-5`, features as `3:0,17:2`, or `@FILE`; several such texts, which are one
            request; an array or tensor. Anything else is returned as it is.
        kind: What is forgotten: whether a text with hyphens or colons fits it.

    Returns:
        Ids, or pairs of ids.

    Raises:
        UsageError: The text or the file holds anything else; names the item.
    """
    if isinstance(value, list | tuple) and value and all(isinstance(text, str) for text in value):
        parts = [read_forget(text, kind) for text in value]
        if len({isinstance(part[0], int) for part in parts if part}) > 1:
            raise UsageError("`forget` names both nodes and pairs.", "Ask for one kind in a request.")
        return [one for part in parts for one in part]
    if not isinstance(value, str):
        return value.tolist() if hasattr(value, "tolist") else value
    if value.startswith("@"):
        return _of_file(Path(value[1:]).expanduser(), kind)
    return _items(value.split(","), "", kind)


def _of_file(path: Path, kind: str) -> Any:
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
            if array.dtype.kind in "iu" and (array.ndim == 1 or array.shape[1:] == (2,)):
                return array.tolist()
            raise UsageError(
                f"`forget` @{path}: {array.dtype} of shape {list(array.shape)}.",
                "Save whole numbers: ids [t], or edges or features [t, 2].",
            )
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            return _of_json(json.loads(text), path)
    except OSError as error:
        raise UsageError(f"`forget` @{path}: {error.strerror or error}.", _EXAMPLE) from None
    except (ValueError, EOFError, RecursionError) as error:
        raise UsageError(f"`forget` @{path} cannot be read: {error}.", _EXAMPLE) from None
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return _items([item for line in lines for item in line.rstrip().rstrip(",").split(",")], f"@{path}: ", kind)


def _of_json(items: Any, path: Path) -> Any:
    if isinstance(items, list):
        wrong = [one for one in items if type(one) is not int and not _is_pair(one)]
        if not wrong:
            return items
        items = wrong[0]
    raise UsageError(
        f"`forget` @{path}: {_short(items)} is no id and no pair.", "Example: [3, 17], or [[3, 17], [4, 5]]."
    )


def _is_pair(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(type(end) is int for end in one)


def _items(items: list[str], where: str, kind: str) -> Any:
    """Read numbers, or pairs of them joined by a hyphen or a colon."""
    of_pairs = next((name for name, form in _PAIRS.items() if items and form.fullmatch(items[0])), "")
    if not of_pairs:
        try:
            return [int(item) for item in items]
        except ValueError:
            wrong = next(item for item in items if not re.fullmatch(r"\s*[-+]?\d+\s*", item))
            raise UsageError(f"`forget` {where}{_short(wrong.strip())} is not a whole number.", _EXAMPLE) from None
    if "feature" in (of_pairs, kind) and of_pairs != kind:
        one = f"`forget` {where}{_short(items[0].strip())} names {'an edge' if of_pairs == 'edge' else 'a feature'}"
        raise UsageError(f"{one}, but `forget_kind` is {kind}.", _EXAMPLE)
    pairs = []
    for item in items:
        match = _PAIRS[of_pairs].fullmatch(item)
        if match is None:
            what = "an edge" if of_pairs == "edge" else "a node and a column"
            raise UsageError(f"`forget` {where}{_short(item.strip())} is not {what}.", _EXAMPLE)
        pairs.append((int(match[1]), int(match[2])))
    return pairs


def _short(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 60 else f"{text[:60]}..."
