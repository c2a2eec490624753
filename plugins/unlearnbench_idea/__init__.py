"""IDEA: an influence step with noise, and a bound on the remaining influence of the request."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "idea",
        "unlearnbench_idea.idea:Idea",
        summary="An influence step and noise that is to hide the rest.",
        look=("#999933", "pentagon"),
    )
