"""Cognac: affected nodes are pushed away from the request, then steps up its loss and down that of the rest."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "cognac",
        "unlearnbench_cognac.method:Cognac",
        summary="Pushes neighbours away from the request; up its loss, down that of the rest.",
        look=("#FFAABB", "pentagon"),
    )


@hookimpl
def register_experiments(register: Register) -> None:
    """Announce the paper's setting."""
    register(
        "corrective",
        "unlearnbench_cognac.paper:corrective.toml",
        summary="Corrective unlearning: labels or edges are manipulated, a part of them is known",
    )
