"""GraphRevoker: graph property-aware sharding and contrastive sub-model aggregation (Zhang et al., WWW 2024)."""

from __future__ import annotations

from unlearnbench import Register, hookimpl

WHERE = "unlearnbench_graphrevoker.paper"
EXPERIMENTS = (
    ("cost", "What forgetting costs against the number of deletions"),
    ("defaults", "What the defaults are chosen from: one setting changed at a time, judged on validation nodes"),
    ("factorial", "Which module earns the gain: every partitioner with every aggregator"),
    (
        "graphrevoker-www24",
        "The comparison of utility and time in 'Graph Unlearning with Efficient Partial Retraining' (WWW 2024)",
    ),
    ("www24-aggregation-ablation", "GraphRevoker without the auxiliary losses of its aggregator"),
    ("www24-partition-ablation", "GraphRevoker without the losses of its partition"),
    ("www24-poison", "Unlearning power: wrong nodes are injected, then forgotten"),
)
"""The paper's comparisons, and others of the same methods."""


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
        look=("#009E73", "diamond"),
    )


@hookimpl
def register_tables(register: Register) -> None:
    """Announce the paper's tables, and ours set against its numbers."""
    register("claims", f"{WHERE}.claims:tables", summary="The paper's claims, a line for each cell.", against="paper")
    register(
        "characteristics",
        f"{WHERE}.characteristics:measured",
        summary="What is removed, what shards keep, what the aggregator adds.",
        reads="both",
    )
    for part in ("partition", "aggregation"):
        register(f"{part}-ablation", f"{WHERE}.ablation:ablation", summary="What GraphRevoker loses without a loss.")
    # In the order in which an error lists them.
    register("utility", f"{WHERE}.against:f1", summary="F1 beside the paper's.", against="paper", printed="Table 2")
    register(
        "time",
        f"{WHERE}.against_time:time",
        summary="Ratios to Retrain beside the paper's.",
        against="paper",
        printed="Table 3",
    )
    register(
        "datasets", f"{WHERE}.sizes:against", summary="Sizes beside the paper's.", against="paper", printed="Table 4"
    )
    register(
        "partition-ablation",
        f"{WHERE}.against_time:f1_and_time",
        summary="F1 and ratios of times beside the paper's.",
        against="paper",
        printed="Table 5",
    )
    register(
        "aggregation-ablation",
        f"{WHERE}.against:f1",
        summary="F1 beside the paper's.",
        against="paper",
        printed="Table 6",
    )
    register(
        "characteristics",
        f"{WHERE}.characteristics:against",
        summary="Measured beside the paper's marks.",
        against="paper",
        printed="Table 1",
        reads="both",
    )


@hookimpl
def register_experiments(register: Register) -> None:
    """Announce the paper's comparisons, and others of the same methods."""
    for name, summary in EXPERIMENTS:
        register(name, f"{WHERE}:{name}.toml", summary=summary)
