"""Where the time of one cell goes: the method, the evaluation, and what the harness itself takes.

Each method's cell is run a few times by the runner, after a warm-up; the cells of all methods in turn.

    python benchmarks/cell.py --data-root DIR [--dataset cora] [--model gcn] [--methods retrain sisa ...] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import Plan, make_plan
from unlearnbench.running.runner import run_cell, warm_up

METHODS = ("retrain", "sisa", "grapheraser", "graphrevoker")
# Predictions before and after the request, with the making of queries; the doubled calls are part of it.
EVALUATION = ("evaluate", "predict-first", "predict-second")


def measure(cell: Cell, plan: Plan) -> dict[str, float]:
    """Run a cell once; in seconds."""
    start = time.perf_counter()
    record, _, _ = run_cell(cell, plan.graphs[cell.dataset_label], plan.context)
    total = time.perf_counter() - start
    if record.status != "ok":
        raise SystemExit(f"{cell.describe()}: {record.status} {record.error or record.notes}")
    method, evaluation = (
        sum(row["seconds"] or 0.0 for row in record.phases if row["name"] in names)
        for names in (("fit", "unlearn"), EVALUATION)
    )
    return {"cell": total, "method": method, "evaluation": evaluation, "rest": total - method - evaluation}


def main() -> None:
    """Print a line a method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    steady_allocator()
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "methods": options.methods,
            "datasets": [options.dataset],
            "models": [options.model],
            "repetitions": 1,
            "reference": False,
            "data_root": options.data_root,
            "out": folder,
        }
        plan = make_plan(make_config(settings, "cell.py"), load_catalogue())
    rounds_of: dict[str, list[dict[str, float]]] = {}
    for cell in plan.cells:
        warm_up(cell, plan.context.device)
    for round_number in range(options.rounds + 1):
        for cell in plan.cells:
            seconds = measure(cell, plan)
            if round_number:
                rounds_of.setdefault(cell.method.label, []).append(seconds)
    print(f"{options.dataset}, {options.model}, one thread; medians of {options.rounds} rounds after one, seconds")
    print(f"{'method':<14} {'cell':>7} {'fit + unlearn':>14} {'evaluation':>11} {'rest':>7} {'rest, %':>8}")
    for label, rounds in rounds_of.items():
        median = {name: statistics.median(seconds[name] for seconds in rounds) for name in rounds[0]}
        share = statistics.median(100 * seconds["rest"] / seconds["cell"] for seconds in rounds)
        print(
            f"{label:<14} {median['cell']:7.3f} {median['method']:14.3f} {median['evaluation']:11.3f}"
            f" {median['rest']:7.3f} {share:8.1f}"
        )


if __name__ == "__main__":
    main()
