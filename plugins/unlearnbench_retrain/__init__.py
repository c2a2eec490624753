"""Retrain: training from scratch on the retained graph, the reference of every table."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce Retrain."""
    register(
        "retrain",
        "unlearnbench_retrain.method:Retrain",
        summary="One network, trained from scratch each time.",
        look=("#5A5A5A", "star"),
    )
