"""Learned aggregators of general use: attention as in RecEraser, and stacking."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_aggregators(register: Register) -> None:
    """Announce `attention` and `stacking`."""
    register(
        "attention",
        "unlearnbench_aggregators.attention:Attention",
        summary="Attention over linearly mapped member embeddings (RecEraser's aggregation).",
    )
    register(
        "stacking",
        "unlearnbench_aggregators.stacking:Stacking",
        summary="Multinomial logistic regression on the members' log-probabilities.",
    )
