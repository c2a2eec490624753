"""GraphEraser (Chen et al., CCS 2022): balanced embedding k-means, and learned weights for the members."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_partitioners(register: Register) -> None:
    """Announce `bekm` and `blpa`."""
    register(
        "bekm",
        "unlearnbench_grapheraser.bekm:Bekm",
        summary="Balanced k-means on node embeddings (GraphEraser's BEKM).",
    )
    register(
        "blpa",
        "unlearnbench_grapheraser.blpa:Blpa",
        summary="Balanced label propagation over edges (GraphEraser's BLPA).",
    )


@hookimpl
def register_aggregators(register: Register) -> None:
    """Announce `weighted`."""
    register(
        "weighted",
        "unlearnbench_grapheraser.weighted:Weighted",
        summary="One learned weight a member (GraphEraser's LBAggr).",
    )


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce `grapheraser`."""
    register(
        "grapheraser",
        "unlearnbench_grapheraser.method:GraphEraser",
        summary="Shards by balanced embedding k-means, members pooled with learned weights.",
        look=("#E69F00", "square"),
    )
