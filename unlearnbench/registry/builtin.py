"""What the core itself brings, announced by the same hooks as any plugin's components."""

from __future__ import annotations

from unlearnbench.hookspecs import Register, hookimpl

PUBLISHED = (
    ("cora", "pyg:Cora", "Citations, 2,708 papers, 7 classes."),
    ("citeseer", "pyg:CiteSeer", "Citations, 3,327 papers, 6 classes."),
    ("pubmed", "pyg:PubMed", "Citations, 19,717 papers, 3 classes."),
    ("cora-ml", "npz:CoraML", "Citations, 2,995 papers, 7 classes."),
    ("dblp", "npz:DBLP", "Citations, 17,716 papers, 4 classes."),
    ("amazon-photo", "npz:AmazonPhoto", "Goods bought together, 7,650 goods, 8 classes."),
    ("amazon-computers", "npz:AmazonComputers", "Goods bought together, 13,752 goods, 10 classes."),
    ("coauthor-cs", "npz:CoauthorCS", "Joint papers, 18,333 authors, 15 classes."),
    ("coauthor-physics", "npz:CoauthorPhysics", "Joint papers, 34,493 authors, 5 classes."),
    ("blogcatalog", "social:BlogCatalog", "Links, 5,196 bloggers, 6 classes."),
    ("lastfm-asia", "social:LastFM", "Friendships, 7,624 users, 18 classes."),
    ("flickr", "social:FlickrImages", "Pictures with common properties, 89,250, 7 classes; own split."),
    ("roman-empire", "heterophilous:RomanEmpire", "Words of an article, 22,662, 18 classes."),
    ("amazon-ratings", "heterophilous:AmazonRatings", "Goods bought together, 24,492, 5 classes of rating."),
    ("minesweeper", "heterophilous:Minesweeper", "Cells of a board, 10,000, 2 classes."),
    ("tolokers", "heterophilous:Tolokers", "Workers with common tasks, 11,758, 2 classes."),
    ("questions", "heterophilous:Questions", "Users who answer each other, 48,921, 2 classes."),
    ("actor", "heterophilous:ActorNetwork", "Actors on one page, 7,600, 5 classes."),
    ("chameleon", "heterophilous:Chameleon", "Links, 2,277 pages, 5 classes."),
    ("squirrel", "heterophilous:Squirrel", "Links, 5,201 pages, 5 classes."),
    ("ogbn-arxiv", "ogb:OgbnArxiv", "Citations, 169,343 papers, 40 classes; own split."),
    ("ogbn-products", "ogb:OgbnProducts", "Goods bought together, 2,449,029, 47 classes; own split."),
)


AUDITS = (
    ("exactness", "exactness.exactness:Exactness", "Is the state that of a run that never saw the data?"),
    ("controls", "distance.controls:Controls", "Which measures of forgetting can be trusted here."),
    ("distance", "distance.distance:Distance", "How far models are from retrained ones."),
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
    ("factorial", "Every partitioner with every aggregator."),
    ("cost", "Stages, and time against the number of deletions."),
    ("audits", "Verdicts and scores of the audits."),
)


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
    for name, place, summary in PUBLISHED:
        register(name, f"unlearnbench.datasets.{place}", summary=summary)


@hookimpl
def register_metrics(register: Register) -> None:
    """Announce the metrics."""
    where = "unlearnbench.metrics.utility"
    register("f1_micro", f"{where}:MicroF1", summary="Micro-averaged F1: the share of right predictions.")
    register("f1_macro", f"{where}:MacroF1", summary="Macro-averaged F1: the mean over classes.")


@hookimpl
def register_audits(register: Register) -> None:
    """Announce the audits."""
    for name, place, summary in AUDITS:
        register(name, f"unlearnbench.audits.{place}", summary=summary)


@hookimpl
def register_tables(register: Register) -> None:
    """Announce the tables that any records can give."""
    for name, summary in TABLES:
        reads = "audits" if name == "audits" else "records"
        register(name, f"unlearnbench.report.tables.core:{name}", summary=summary, reads=reads)
