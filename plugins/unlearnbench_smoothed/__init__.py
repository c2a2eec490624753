"""Smoothing over the retained graph, for any method."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the wrapper."""
    register(
        "smoothed",
        "unlearnbench_smoothed.method:Smoothed",
        summary="Any method, its full view smoothed over the retained graph.",
        look=("#332288", "pentagon"),
    )
