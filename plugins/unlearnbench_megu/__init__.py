"""MEGU: one fine-tuning that drives away what was deleted and holds what stood near it."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce MEGU."""
    register(
        "megu",
        "unlearnbench_megu.method:MEGU",
        summary="Fine-tuning that drives the deleted nodes away and holds those they had influence on.",
        look=("#D55E00", "right"),
    )
