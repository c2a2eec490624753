"""What methods are built from: their base classes, partitioning, aggregation, influence steps and smoothing."""

from unlearnbench.graph.neighbours import hop_distance, neighbour_weights, neighbours, row_entries, row_starts
from unlearnbench.unlearning import logistic
from unlearnbench.unlearning.aggregation import Aggregator, LearnedAggregator, Members, log_of_mean, out_of_fold
from unlearnbench.unlearning.base import Claim, Unlearner, of_member
from unlearnbench.unlearning.certified import CertifiedRegression
from unlearnbench.unlearning.importance import importance
from unlearnbench.unlearning.influence import InfluenceParams, Step, add, influence_step
from unlearnbench.unlearning.linear import (
    LINEAR_MODEL,
    Normalisation,
    averaging,
    changed_rows,
    conjugate_gradients,
    minimised,
    propagated,
    propagation_steps,
    softmax_regression,
    unit_rows,
)
from unlearnbench.unlearning.neumann import conjugate
from unlearnbench.unlearning.partitioning import (
    SLACK,
    Partitioner,
    assign_by_nodes,
    assign_by_pairs,
    shard_bounds,
)
from unlearnbench.unlearning.posthoc import PostHoc
from unlearnbench.unlearning.sharded import Sharded
from unlearnbench.unlearning.smoothing import smooth

__all__ = [
    "LINEAR_MODEL",
    "SLACK",
    "Aggregator",
    "CertifiedRegression",
    "Claim",
    "InfluenceParams",
    "LearnedAggregator",
    "Members",
    "Normalisation",
    "Partitioner",
    "PostHoc",
    "Sharded",
    "Step",
    "Unlearner",
    "add",
    "assign_by_nodes",
    "assign_by_pairs",
    "averaging",
    "changed_rows",
    "conjugate",
    "conjugate_gradients",
    "hop_distance",
    "importance",
    "influence_step",
    "log_of_mean",
    "logistic",
    "minimised",
    "neighbour_weights",
    "neighbours",
    "of_member",
    "out_of_fold",
    "propagated",
    "propagation_steps",
    "row_entries",
    "row_starts",
    "shard_bounds",
    "smooth",
    "softmax_regression",
    "unit_rows",
]
