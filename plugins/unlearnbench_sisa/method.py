"""SISA as a choice of parts."""

from __future__ import annotations

from unlearnbench.component import Spec, part
from unlearnbench.unlearning import Sharded


class Sisa(Sharded):
    """Random shards, mean of probabilities."""

    name = "sisa"
    version = 1
    summary = "Random shards, mean of the members' probabilities."
    reference = "Bourtoule et al., Machine Unlearning, IEEE S&P 2021, section IV"
    named_by_parts = False

    class Params(Sharded.Params):
        """The parts of SISA."""

        partitioner: Spec = part("partitioner", "random", "Deals training nodes into shards.")
        aggregator: Spec = part("aggregator", "mean", "Combines the members' predictions.")
