"""GraphRevoker: shards from a learned partition, members fused by a learned aggregator."""

from __future__ import annotations

from unlearnbench import Paper, Sharded, Spec, part


class GraphRevoker(Sharded):
    """Retrains the members of the affected shards and refits the aggregator.

    Presets: `repaired` (the default) corrects errors of the paper's formulas and the public code,
    `paper` follows the printed formulas to the letter, `released` the public code as far as a
    full-batch partition allows. The README of the plugin lists every difference.
    """

    name = "graphrevoker"
    title = "GraphRevoker"
    version = 1
    summary = "Retrains the shards hit: property-aware shards, contrastive aggregation."
    reference = "Zhang et al., GraphRevoker, WWW 2024"
    paper = Paper(
        "Zhang, Jiahao and Wang, Lin and Wang, Shijie and Fan, Wenqi",
        "Graph Unlearning with Efficient Partial Retraining",
        "Companion Proceedings of the ACM Web Conference",
        2024,
        "https://arxiv.org/abs/2403.07353",
    )
    default_preset = "repaired"
    named_by_parts = False
    presets = {
        "paper": {
            "partitioner.epochs": 30,
            "partitioner.clip": 0,
            "partitioner.time_form": "paper",
            "partitioner.time_weight": 1e-3,
            "partitioner.sem_sign": "paper",
            "partitioner.sem_form": "mean",
            "partitioner.sem_weight": 1e-3,
            "partitioner.balance": "none",
            "aggregator.attention": "paper",
            "aggregator.attention_temperature": 1,
            "aggregator.fused": "paper",
            "aggregator.contra_form": "paper",
            "aggregator.negatives": "random",
            "aggregator.keep": 0.5,
            "aggregator.mask_form": "paper",
            "aggregator.recon_sign": "paper",
            "aggregator.lr": 1e-2,
            "aggregator.weight_decay": 1e-5,
            "aggregator.epochs": 20,
        },
        "released": {
            "partitioner.features": "posterior",
            "partitioner.epochs": 40,
            "partitioner.time_form": "released",
            "partitioner.time_weight": 1e-3,
            "partitioner.sem_sign": "paper",
            "partitioner.sem_form": "released",
            "partitioner.sem_weight": 1e-3,
            "partitioner.balance": "released",
            "partitioner.delta": 0.005,
            "aggregator.contra_form": "released",
            "aggregator.negatives": "other-label",
            "aggregator.mask": "released",
            "aggregator.resample": False,
            "aggregator.recon_alone": "self",
            "aggregator.lr": 1e-3,
            "aggregator.weight_decay": 1e-4,
            "aggregator.epochs": 20,
            "aggregator.initial": "normal",
        },
    }

    class Params(Sharded.Params):
        """Number of shards, partitioner and aggregator."""

        partitioner: Spec = part("partitioner", "gpa", "Deals training nodes into shards.")
        aggregator: Spec = part("aggregator", "contrastive", "Combines the members' predictions.")
