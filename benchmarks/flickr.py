"""The four methods with mini-batches on a made graph of Flickr's size, and the paper's ratios beside ours.

The graph is `sbm` with 89,250 nodes, 899,756 directed edges, 500 features, 7 classes, and one split of 50, 25 and 25 %;
GCN and SAGE, 20 epochs of batches of 512, 0.5 % of the nodes forgotten, one repetition, by the command of any user.

    python benchmarks/flickr.py [--threads 2] [--scale 0.01]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import torch

from unlearnbench.datasets.sbm import StochasticBlockModel
from unlearnbench.records.reading import read_records
from unlearnbench.records.record import Record

NODES, EDGES, FEATURES, CLASSES = 89_250, 449_878, 500, 7
METHODS = ("retrain", "sisa", "grapheraser", "graphrevoker")
PAPER = Path(__file__).parents[1] / "results" / "paper" / "time.csv"


def save_graph(path: Path, scale: float) -> None:
    """Write the graph, or a smaller one of its kind, as a file of one's own, with masks."""
    size = {"num_nodes": round(NODES * scale), "num_edges": round(EDGES * scale)}
    graph = StochasticBlockModel(StochasticBlockModel.Params(**size, num_features=FEATURES, num_classes=CLASSES)).load(
        path.parent
    )
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    masks = {}
    for name, part in zip(
        ("train", "val", "test"), order.tensor_split([len(order) // 2, 3 * len(order) // 4]), strict=True
    ):
        masks[f"{name}_mask"] = torch.zeros(graph.num_nodes, dtype=torch.bool)
        masks[f"{name}_mask"][part] = True
    torch.save({"x": graph.x, "y": graph.y, "edge_index": graph.edge_index, **masks}, path)


def published() -> dict[tuple[str, str], float]:
    """Return the paper's seconds on Flickr, by model and method (Table 3)."""
    rows = pd.read_csv(PAPER)
    rows = rows[rows["dataset"] == "flickr"]
    return {(row["model"], row["method"]): float(row["unlearn_seconds"]) for _, row in rows.iterrows()}


def table(records: Sequence[Record], paper: Mapping[tuple[str, str], float]) -> list[str]:
    """Write a Markdown table, a line a cell; ratios are to Retrain of the same model."""
    by_model_and_method = {(one.cell["model"]["name"], one.cell["method"]["name"]): one for one in records}
    lines = [
        "| model | method | fit s | unlearn s | relative to Retrain | the paper's | hit | F1 shard % | F1 full %"
        " | peak MiB |",
        f"|{'---|' * 10}",
    ]
    for (model, method), one in sorted(
        by_model_and_method.items(), key=lambda item: (item[0][0], METHODS.index(item[0][1]))
    ):
        base = by_model_and_method[model, "retrain"].unlearn_seconds or math.nan
        fit = next(row["seconds"] for row in one.phases if row["name"] == "fit")
        scores = [100 * one.metrics["f1_micro"][view]["after"] for view in ("shard", "full")]
        ratio = paper[model, method] / paper[model, "retrain"] if (model, method) in paper else math.nan
        peak = max(row["peak_rss_mib"] or 0 for row in one.phases)
        seconds = one.unlearn_seconds or math.nan
        lines.append(
            f"| {model} | {method} | {fit:.1f} | {seconds:.1f} | {seconds / base:.2f} | {ratio:.2f} |"
            f" {one.counts.get('shards_hit', '')} | {scores[0]:.1f} | {scores[1]:.1f} | {peak:.0f} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every cell and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--models", nargs="+", default=["gcn", "sage"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS[1:]))
    parser.add_argument("--num-shards", type=int, default=20)
    parser.add_argument("--scale", type=float, default=1.0, help="a smaller graph, to try it out")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), time.perf_counter()
        save_graph(folder / "flickr-size.pt", options.scale)
        command = [
            *(sys.executable, "-m", "unlearnbench", "run", "--repetitions", "1", "--device", "cpu"),
            *(
                "--datasets",
                f"file:{folder / 'flickr-size.pt'}",
                "--data-root",
                str(folder),
                "--out",
                str(folder / "out"),
            ),
            *("--methods", ",".join(options.methods), "--models", ",".join(options.models)),
            *("--threads", str(options.threads), "--num-shards", str(options.num_shards)),
            *("--epochs", str(options.epochs), "--batch-size", str(options.batch_size)),
        ]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: ended with {done.returncode}; what went wrong stands above.")
        records = list(read_records(folder / "out"))
    quiet = sum(bool(one.provenance.get("exclusive")) for one in records)
    settings = json.dumps({key: str(value) for key, value in vars(options).items()})
    print(
        f"{settings}\n{time.perf_counter() - start:.0f} s in all; {quiet} of {len(records)} cells on a quiet machine\n"
    )
    print("\n".join(table(records, published())))


if __name__ == "__main__":
    main()
