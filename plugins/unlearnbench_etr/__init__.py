"""ETR: parameters that matter to the request are made smaller, then one gradient step on what is retained."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "etr",
        "unlearnbench_etr.method:ETR",
        summary="Parameters that matter to the request are made smaller; one gradient step repairs the rest.",
        look=("#EE8866", "star"),
    )
