"""General partitioners that cut few edges: a streaming one, and METIS."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_partitioners(register: Register) -> None:
    """Announce `ldg` and `metis`."""
    register(
        "ldg",
        "unlearnbench_partitioners.ldg:Ldg",
        summary="One pass over the nodes, each to the shard of most neighbours, full shards discounted.",
    )
    register(
        "metis",
        "unlearnbench_partitioners.metis:Metis",
        summary="METIS: multilevel k-way partition of few cut edges.",
    )
