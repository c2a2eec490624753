"""Projector: weights of a linear model, projected onto the span of the remaining nodes' features."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "projector",
        "unlearnbench_projector.method:Projector",
        summary="A linear SGC whose weights are projected onto the span of the remaining features.",
        look=("#DDCC77", "plus"),
    )
