"""What the core itself brings, announced by the same hooks as any plugin's components."""

from __future__ import annotations

import importlib

from unlearnbench.hookspecs import Register, hookimpl

AUDITS = (
    ("exactness", "exactness.exactness:Exactness", "Is the state that of a run that never saw the data?"),
    ("controls", "distance.controls:Controls", "Which measures of forgetting can be trusted here."),
    ("distance", "distance.distance:Distance", "How far models are from retrained ones."),
    ("membership", "membership.membership:Membership", "Can an attacker tell that a node was trained on?"),
    ("relearning", "relearning.relearning:Relearning", "Does the model relearn what it forgot faster than Retrain?"),
    ("streams", "streams.streams:Streams", "Does forgetting hold over many requests?"),
    ("partition-leakage", "leakage.leakage:PartitionLeakage", "Does a partition tell who was there?"),
)


TABLES = (
    ("summary", "F1, time and memory in short."),
    ("utility", "Micro-F1 after and before the request."),
    ("time", "Seconds, ratio to Retrain, counts."),
    ("memory", "Peaks of memory."),
    ("validation", "Micro-F1 on the validation nodes, which defaults are chosen by."),
    ("comparison", "Which methods are best: every test against the best mean."),
    ("equivalence", "Which methods are equivalent to Retrain."),
    ("datasets", "Sizes of the datasets that the records name."),
    ("poison", "How much forgetting wrong nodes brings back."),
    ("corrective", "What forgetting a known part of wrong labels or edges mends."),
    ("factorial", "Every partitioner with every aggregator."),
    ("stream", "F1, time and shards after each request of a stream."),
    ("cost", "Stages, and time against the number of deletions."),
    ("sweep", "F1, time and forgetting against how much is forgotten."),
    ("audits", "Verdicts and scores of the audits."),
    ("distances", "Distance from Retrain's predictions by place, means over requests."),
    ("forgetting", "What is known of each method's forgetting: audits, F1 and time."),
)
FIGURES = (
    ("f1-time", "F1 against unlearning time; hollow: not shown to forget."),
    ("phases", "Time per phase, the first training beside unlearning."),
    ("parts", "F1 of every partitioner with every aggregator."),
    ("stream", "F1 and time along a stream of requests."),
    ("cost", "Time against the number of deletions."),
    ("sweep", "F1, time and distance against how much is forgotten."),
)
"""The figures that `report --figures` draws, where there are records for them."""


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the combination of any partitioner with any aggregator."""
    register(
        "sharded",
        "unlearnbench.unlearning:Sharded",
        summary="Any partitioner with any aggregator.",
        look=("#CC79A7", "up"),
    )


@hookimpl
def register_models(register: Register) -> None:
    """Announce the base models."""
    where = "unlearnbench.gnn.zoo"
    register("gcn", f"{where}:GCN", summary="Two graph convolutions of 64, MLP head.")
    register("gat", f"{where}:GAT", summary="Attention with 8 heads of 8, then one head of 64, MLP head.")
    register("sage", f"{where}:SAGE", summary="Two GraphSAGE layers of 64, mean, MLP head.")
    register("appnp", f"{where}:APPNP", summary="Two linear layers, personalised PageRank, MLP head.")
    register("jknet", f"{where}:JKNet", summary="Three graph convolutions of 64, concatenated, MLP head.")
    register("gin", f"{where}:GIN", summary="Two graph isomorphism layers of 64, MLP head.")
    register("gatv2", f"{where}:GATv2", summary="As gat, with attention of the second kind.")
    register("sgc", f"{where}:SGC", summary="Features propagated twice, linear layer to 64, MLP head.")
    register("mlp", f"{where}:MLP", summary="Two linear layers of 64, MLP head: no graph, the control.")


@hookimpl
def register_datasets(register: Register) -> None:
    """Announce the datasets."""
    register("digits", "unlearnbench.datasets.digits:Digits", summary="Handwritten digits, 5 nearest neighbours.")
    register("sbm", "unlearnbench.datasets.sbm:StochasticBlockModel", summary="A made-up graph of any size.")
    register("file", "unlearnbench.datasets.own.file:File", summary="Your own graph: file:PATH.")
    # Imported by name: the registry lies below what it announces.
    table = importlib.import_module("unlearnbench.datasets.catalogue_of_graphs")
    for row in table.GRAPHS:
        register(row.name, f"unlearnbench.datasets.published:{row.name}", summary=row.summary)


@hookimpl
def register_metrics(register: Register) -> None:
    """Announce the metrics."""
    where = "unlearnbench.metrics.utility"
    register("f1_micro", f"{where}:MicroF1", summary="Micro-averaged F1: the share of right predictions.")
    register("f1_macro", f"{where}:MacroF1", summary="Macro-averaged F1: the mean over classes.")
    where = "unlearnbench.metrics.ranking"
    register("roc_auc", f"{where}:RocAuc", summary="Area under the ROC curve, of two classes.")
    register("average_precision", f"{where}:AveragePrecision", summary="Average precision of class 1, of two classes.")


@hookimpl
def register_audits(register: Register) -> None:
    """Announce the audits."""
    for name, place, summary in AUDITS:
        register(name, f"unlearnbench.audits.{place}", summary=summary)


@hookimpl
def register_tables(register: Register) -> None:
    """Announce the tables that any records can give."""
    for name, summary in TABLES:
        reads = {"audits": "audits", "distances": "audits", "forgetting": "both", "sweep": "both"}.get(name, "records")
        register(name, f"unlearnbench.report.tables.core:{name}", summary=summary, reads=reads)
