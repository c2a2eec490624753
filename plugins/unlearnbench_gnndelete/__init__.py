"""GNNDelete: operators after frozen layers, trained to make deleted edges look like non-edges."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce GNNDelete."""
    register(
        "gnndelete",
        "unlearnbench_gnndelete.method:GNNDelete",
        summary="A frozen network with trained operators on the rows near what was deleted.",
        look=("#56B4E9", "left"),
    )
