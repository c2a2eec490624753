"""D2DGN: distilled from the trained network where it is retained, from an untrained one where it is deleted."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "d2dgn",
        "unlearnbench_d2dgn.method:D2DGN",
        summary="Distils outputs and embeddings: its own on what is retained, an untrained network's on the request.",
        look=("#EEDD88", "diamond"),
    )
