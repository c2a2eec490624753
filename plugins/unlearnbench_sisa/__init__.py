"""SISA: random shards, members combined without learning."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_partitioners(register: Register) -> None:
    """Announce the partitioners that use no data."""
    where = "unlearnbench_sisa.partitioners"
    register("random", f"{where}:Random", summary="A shuffle cut into near-equal shards.")
    register("hash", f"{where}:Hash", summary="A keyed hash of each node's id; sizes vary.")


@hookimpl
def register_aggregators(register: Register) -> None:
    """Announce the aggregators that learn nothing."""
    where = "unlearnbench_sisa.aggregators"
    register("mean", f"{where}:Mean", summary="Mean of the members' probabilities.")
    register("mean_log", f"{where}:MeanLog", summary="Mean of the members' log-probabilities.")
    register("majority", f"{where}:Majority", summary="One vote a member; ties go to the lowest class.")
    register("proportional", f"{where}:Proportional", summary="Mean of probabilities, weighted by shard size.")


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce SISA."""
    register(
        "sisa",
        "unlearnbench_sisa.method:Sisa",
        summary="Random shards, mean of the members' probabilities.",
        look=("#0072B2", "circle"),
    )
