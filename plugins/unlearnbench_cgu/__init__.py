"""CGU: certified unlearning for a linear model of propagated features."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "cgu",
        "unlearnbench_cgu.cgu:Cgu",
        summary="Certified: a Newton step on a noisy linear SGC, with a budget.",
        look=("#44AA99", "hexagon"),
    )
