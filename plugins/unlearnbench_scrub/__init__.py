"""Baselines that are not specific to graphs: SCRUB and gradient ascent."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce both."""
    where = "unlearnbench_scrub"
    register(
        "scrub",
        f"{where}.scrub:SCRUB",
        summary="A student that leaves its teacher on the request and follows it elsewhere.",
        look=("#AA4499", "plus"),
    )
    register(
        "gradient-ascent",
        f"{where}.ascent:GradientAscent",
        summary="A few steps up the loss of the request.",
        look=("#6657B5", "cross"),
    )
