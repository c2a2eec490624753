"""ScaleGUN: certified unlearning on propagated features that are updated near a request only (Yi and Wei, 2025)."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "scalegun",
        "unlearnbench_scalegun.method:ScaleGun",
        summary="Certified as cgu; propagated features are updated locally and lazily.",
        look=("#225522", "left"),
    )
