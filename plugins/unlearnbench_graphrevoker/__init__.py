"""GraphRevoker: graph property-aware sharding and contrastive sub-model aggregation (Zhang et al., WWW 2024)."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_partitioners(register: Register) -> None:
    """Announce the learned partition."""
    register(
        "gpa",
        "unlearnbench_graphrevoker.gpa:GraphPropertyAware",
        summary="Shards from a network trained on expected retraining time, edge cut and label entropy.",
    )


@hookimpl
def register_aggregators(register: Register) -> None:
    """Announce the learned fusion of the members."""
    register(
        "contrastive",
        "unlearnbench_graphrevoker.contrastive:Contrastive",
        summary="Attention over projected member embeddings, learned with contrastive and reconstruction losses.",
    )


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method made of both."""
    register(
        "graphrevoker",
        "unlearnbench_graphrevoker.method:GraphRevoker",
        summary="Retrains the shards hit: property-aware shards, contrastive aggregation.",
    )
