"""GraphEraser: shards by balanced embedding k-means, members pooled with learned weights."""

from __future__ import annotations

from unlearnbench import Paper, Sharded, Spec, part


class GraphEraser(Sharded):
    """GraphEraser (Chen et al., CCS 2022) for node deletion.

    The partition is computed from features and edges before the request and is kept: retraining
    is exact given that partition, but not exact.
    """

    name = "grapheraser"
    title = "GraphEraser"
    version = 1
    summary = "Shards by balanced embedding k-means, members pooled with learned weights."
    reference = 'Chen et al., "Graph Unlearning", CCS 2022'
    paper = Paper(
        "Chen, Min and Zhang, Zhikun and Wang, Tianhao and Backes, Michael and Humbert, Mathias and Zhang, Yang",
        "Graph Unlearning",
        "ACM SIGSAC Conference on Computer and Communications Security",
        2022,
        "https://doi.org/10.1145/3548606.3559352",
    )
    default_preset = "repaired"
    named_by_parts = False
    presets = {
        "paper": {
            "partitioner.embedding": "logits",
            "partitioner.capacity": "paper",
            "aggregator.pool": "prob",
            "aggregator.normalise": "step",
            # The paper's penalty, the sum of |w_i|, is 1 for all non-negative weights of sum 1.
            "aggregator.norm_weight": 0.0,
        },
        "released": {
            "partitioner.embedding": "logits",
            "partitioner.capacity": "paper",
            "aggregator.pool": "legacy",
            "aggregator.lr": 0.001,
            "aggregator.epochs": 50,
        },
    }

    class Params(Sharded.Params):
        """Parameters of `grapheraser`."""

        partitioner: Spec = part("partitioner", "bekm", "Deals the training nodes into shards.")
        aggregator: Spec = part("aggregator", "weighted", "Combines the members' predictions.")
