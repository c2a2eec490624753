"""GUIDE: fair and balanced shards whose cut edges are repaired, members weighted by similarity (Wang et al., 2023)."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_partitioners(register: Register) -> None:
    """Announce the guided partition."""
    register(
        "guided",
        "unlearnbench_guide.guided:Guided",
        summary="Spectral shards of equal size and equal shares of classes (GUIDE's).",
    )


@hookimpl
def register_aggregators(register: Register) -> None:
    """Announce the weights by similarity."""
    register(
        "similarity",
        "unlearnbench_guide.similarity:Similarity",
        summary="Members weighted by how alike their shard's graph is to a sample (GUIDE's).",
    )


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method made of both."""
    register(
        "guide",
        "unlearnbench_guide.method:Guide",
        summary="Retrains the shards hit: fair spectral shards, repaired cut edges, weights by similarity.",
        look=("#7A3B00", "up"),
    )
