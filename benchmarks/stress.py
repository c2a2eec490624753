"""Does memory grow with the number of cells? Many small cells in one process, and its resident memory on the way.

    python benchmarks/stress.py                 200 cells, after 200 against after 20
    python benchmarks/stress.py --cells 60      fewer

Ends with 1 if the memory after the last cell is more than 5 % above that after the first ones.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from pathlib import Path

import psutil

from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import Progress, make_plan

METHODS = ("sisa", "graphrevoker", "gif", "megu")
DATASET = "sbm[num_nodes=120,num_edges=300,num_features=8,num_classes=3]"
ALLOWED = 1.05


def main() -> int:
    options = argparse.ArgumentParser(description="Memory after many cells against memory after few.")
    options.add_argument("--cells", type=int, default=200)
    options.add_argument("--first", type=int, default=20)
    options.add_argument("--epochs", type=int, default=5)
    given = options.parse_args()
    process = psutil.Process()
    readings: dict[int, float] = {}

    def tell(progress: Progress) -> None:
        if progress.record is None:
            return
        assert progress.record.status == "ok", progress.record.error
        if progress.number in (given.first, given.cells) or progress.number % 20 == 0:
            gc.collect()
            readings[progress.number] = process.memory_info().rss / 2**20
            print(f"after {progress.number} cells: {readings[progress.number]:.1f} MiB", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        repetitions = -(-given.cells // (len(METHODS) + 1))
        config = make_config(
            {"methods": list(METHODS), "datasets": [DATASET], "models": ["gcn"], "repetitions": repetitions,
             "epochs": given.epochs, "num_shards": 3, "forget_count": 3, "device": "cpu", "out": Path(folder)}
        )  # fmt: skip
        plan = make_plan(config, load_catalogue())
        plan.wanted = plan.wanted[: given.cells]
        execute(plan, tell)
    ratio = readings[given.cells] / readings[given.first]
    print(f"{100 * (ratio - 1):+.1f} % from {given.first} to {given.cells} cells, at most +5 % is allowed")
    return int(ratio > ALLOWED)


if __name__ == "__main__":
    raise SystemExit(main())
