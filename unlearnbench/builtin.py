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
    convolutional, attentive = "unlearnbench.gnn.convolutional", "unlearnbench.gnn.attentive"
    propagating = "unlearnbench.gnn.propagating"
    register("gcn", "unlearnbench.gnn.models:GCN", summary="Two graph convolutions of 64, MLP head.")
    register("gat", f"{attentive}:GAT", summary="Attention with 8 heads of 8, then one head of 64, MLP head.")
    register("sage", f"{convolutional}:SAGE", summary="Two GraphSAGE layers of 64, mean, MLP head.")
    register("appnp", f"{propagating}:APPNP", summary="Two linear layers, personalised PageRank, MLP head.")
    register("jknet", f"{convolutional}:JKNet", summary="Three graph convolutions of 64, concatenated, MLP head.")
    register("gin", f"{convolutional}:GIN", summary="Two graph isomorphism layers of 64, MLP head.")
    register("gatv2", f"{attentive}:GATv2", summary="As gat, with attention of the second kind.")
    register("sgc", f"{propagating}:SGC", summary="Features propagated twice, linear layer to 64, MLP head.")
    register("mlp", f"{convolutional}:MLP", summary="Two linear layers of 64, MLP head: no graph, the control.")


@hookimpl
def register_datasets(register: Register) -> None:
    """Announce the datasets."""
    pyg = "unlearnbench.datasets.pyg"
    register("digits", "unlearnbench.datasets.digits:Digits", summary="Handwritten digits, 5 nearest neighbours.")
    register("sbm", "unlearnbench.datasets.sbm:StochasticBlockModel", summary="A made-up graph of any size.")
    register("cora", f"{pyg}:Cora", summary="Citations, 2,708 papers, 7 classes.")
    register("citeseer", f"{pyg}:CiteSeer", summary="Citations, 3,327 papers, 6 classes.")
    register("pubmed", f"{pyg}:PubMed", summary="Citations, 19,717 papers, 3 classes.")
    register("amazon-photo", f"{pyg}:AmazonPhoto", summary="Goods bought together, 7,650 goods, 8 classes.")


@hookimpl
def register_metrics(register: Register) -> None:
    """Announce the metrics."""
    where = "unlearnbench.metrics.utility"
    register("f1_micro", f"{where}:MicroF1", summary="Micro-averaged F1: the share of right predictions.")
    register("f1_macro", f"{where}:MacroF1", summary="Macro-averaged F1: the mean over classes.")
