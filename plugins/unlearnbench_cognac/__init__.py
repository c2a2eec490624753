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
