"""MEGU: fine-tuning that forgets the deleted nodes and preserves predictions near them."""

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
