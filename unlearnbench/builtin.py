"""What the core itself brings, announced by the same hooks as any plugin's components."""

from __future__ import annotations

from unlearnbench.hookspecs import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the combination of any partitioner with any aggregator."""
    register("sharded", "unlearnbench.unlearning:Sharded", summary="Any partitioner with any aggregator.")


@hookimpl
def register_models(register: Register) -> None:
    """Announce the base models."""
    register("gcn", "unlearnbench.gnn.models:GCN", summary="Two graph convolutions of 64, MLP head.")


@hookimpl
def register_datasets(register: Register) -> None:
    """Announce the datasets."""


@hookimpl
def register_metrics(register: Register) -> None:
    """Announce the metrics."""
