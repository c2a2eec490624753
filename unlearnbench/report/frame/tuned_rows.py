"""Cells of the protocol `tuned`: their recipe is part of the method, for tables to set methods beside one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unlearnbench.running.options import TUNED


def is_tuned(cell: Mapping[str, Any]) -> bool:
    """Whether each method of a cell's protocol has values and a recipe of its own."""
    return bool(cell["protocol"]["name"] == TUNED)


def method_of(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row of a table is: the method, with its recipe where it is the method's own."""
    recipe = {"training": cell.get("training", {})} if is_tuned(cell) else {}
    return {**cell["method"], **recipe}


def training_of(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return how all methods of a table are trained."""
    return {"recipe": "tuned for each method"} if is_tuned(cell) else dict(cell.get("training", {}))
