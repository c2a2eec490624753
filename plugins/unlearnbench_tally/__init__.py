"""Tally: ridge regression from whole-number sums, unlearned exactly by subtracting rows."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce tally."""
    register(
        "tally",
        "unlearnbench_tally.tally:Tally",
        summary="Exact: ridge regression from whole-number sums, smoothed over the graph.",
        look=("#117733", "hexagon"),
    )
