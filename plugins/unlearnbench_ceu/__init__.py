"""CEU: training with a random linear term, and one influence step for edges."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "ceu",
        "unlearnbench_ceu.method:CEU",
        summary="Trained with noise; one influence step for edges, a node being all of its edges.",
        look=("#004488", "square"),
    )
