"""How time and memory of sharded methods grow with the graph: phases on made graphs of 10^4, 10^5 and 10^6 nodes.

Graphs are `sbm`, average degree 10, 64 features. Each case is a method's life in a process of its own: it is trained,
answers for the test nodes in the shard view, and forgets 0.5 % of the nodes, which are in every shard. What the harness
adds (both views, before and after, validation nodes too) takes several times what `predict` does.
It prints a Markdown table and, for each phase, the slope of time in a log-log plot between the two largest sizes.

    python benchmarks/growth.py [--large] [--methods sisa ...] [--shards 20 200] [--kept FILE] [--figure FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

METHODS = ("sisa", "grapheraser", "graphrevoker")
SHARDS = (20, 200)
SIZES = (10**4, 10**5)
LARGE = 10**6
DEGREE, FEATURES = 10, 64
# The largest acceptable slope.
WANTED = 1.05
# What of a cell is shown, in this order; members and heads are trained inside `train`.
PHASES = ("partition", "train", "aggregate", "predict", "unlearn")
WHOLE = "all of these"

# The phases of one case, by name: seconds and peak resident memory.
Case = dict[str, dict[str, float]]


def measure(method: str, nodes: int, shards: int, epochs: int, threads: int) -> Case:
    """Fit a method, let it forget and predict, and return its phases."""
    import torch

    from unlearnbench.measure.allocator import steady_allocator
    from unlearnbench.measure.clock import Meter
    from unlearnbench.protocol import protocol
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.running.config import make_config
    from unlearnbench.running.plan import make_plan
    from unlearnbench.running.runner import warm_up
    from unlearnbench.task import Task, View, make_query

    torch.set_num_threads(threads)
    steady_allocator()
    edges = nodes * DEGREE // 2
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "methods": [method],
            "datasets": [f"sbm[num_nodes={nodes},num_edges={edges},num_features={FEATURES}]"],
            "num_shards": shards,
            "epochs": epochs,
            "repetitions": 1,
            "reference": False,
            "device": "cpu",
            "threads": threads,
            "out": folder,
        }
        plan = make_plan(make_config(settings, "growth.py"), load_catalogue())
    (cell,) = plan.cells
    warm_up(cell, plan.context.device)
    setting = protocol.repetition_data(
        cell.protocol, plan.graphs[cell.dataset_label], cell.seed, cell.dataset_identity, cell.repetition
    )
    graph, split, meter = setting.graph, setting.split, Meter(plan.context.device)
    task = Task(graph.induced(split.train), cell.model, cell.training, plan.context.device, cell.seed, listener=meter)
    unlearner = cell.method.build()
    with meter.phase("fit"):
        unlearner.fit(task)
    query = make_query(graph, split.train, split.test, View.SHARD, plan.context.device)
    with meter.phase("predict"):
        unlearner.predict(query)
    del query
    retained = task.without(setting.request)
    del task
    with meter.phase("unlearn"):
        unlearner.unlearn(setting.request, retained)
    phases: Case = {}
    for row in meter.phases:
        name = row["name"].removeprefix("fit/")
        if name in PHASES:
            phases[name] = {"seconds": row["seconds"], "mib": row["peak_rss_mib"] or 0.0}
    phases[WHOLE] = {
        "seconds": sum(case["seconds"] for case in phases.values()),
        "mib": max(case["mib"] for case in phases.values()),
    }
    return phases


def measure_elsewhere(*case: Any, kept: Path | None = None) -> Case:
    """Run one case in a process of its own, so that no memory of another is counted.

    Args:
        case: As `measure` takes them.
        kept: A file of cases that were run, which is looked into and written to.
    """
    known: dict[str, Case] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    asked = json.dumps(case)
    if asked in known:
        return known[asked]
    arguments = [sys.executable, __file__, "--one", *map(str, case)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case}: ended with {done.returncode}; what went wrong stands above.")
    case: Case = json.loads(done.stdout.splitlines()[-1])
    if kept is not None:
        kept.write_text(json.dumps(known | {asked: case}, indent=1))
    return case


def slope(seconds: Mapping[int, float]) -> float:
    """Return the slope of time between the two largest sizes, in a log-log plot; NaN if it took no time at one of them.

    Args:
        seconds: By number of nodes, at least two.
    """
    small, large = sorted(seconds)[-2:]
    if seconds[small] <= 0 or seconds[large] <= 0:
        return math.nan
    return math.log(seconds[large] / seconds[small]) / math.log(large / small)


def table(results: Mapping[tuple[str, int], Mapping[int, Case]]) -> list[str]:
    """Write a Markdown table: a line for each method, number of shards and phase."""
    sizes = sorted({nodes for cases in results.values() for nodes in cases})
    heads = [f"{nodes:,} nodes: s, MiB" for nodes in sizes]
    lines = [f"| method | shards | phase | {' | '.join(heads)} | slope |", f"|{'---|' * (len(sizes) + 4)}"]
    for (method, shards), cases in results.items():
        for phase in (*PHASES, WHOLE):
            seconds = {nodes: case[phase]["seconds"] for nodes, case in cases.items() if phase in case}
            if len(seconds) < 2:
                continue
            cells = [
                f"{case[phase]['seconds']:.2f}, {case[phase]['mib']:.0f}" if phase in case else "-"
                for case in (cases[nodes] for nodes in sizes)
            ]
            lines.append(f"| {method} | {shards} | {phase} | {' | '.join(cells)} | {slope(seconds):.2f} |")
    return lines


def draw(results: Mapping[tuple[str, int], Mapping[int, Case]], path: Path) -> None:
    """Draw time and peak memory over the number of nodes, a line for each phase, a column for each case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, len(results), figsize=(3 * len(results), 6), sharex=True, sharey="row", squeeze=False
    )
    for column, ((method, shards), cases) in enumerate(results.items()):
        for phase in PHASES:
            sizes = [nodes for nodes in sorted(cases) if phase in cases[nodes]]
            for row, what in enumerate(("seconds", "mib")):
                axes[row, column].plot(sizes, [cases[nodes][phase][what] for nodes in sizes], marker="o", label=phase)
        axes[0, column].set_title(f"{method.partition('[')[0]}, {shards} shards", fontsize="medium")
        axes[1, column].set_xlabel("nodes")
    for row, label in enumerate(("seconds", "peak resident memory, MiB")):
        axes[row, 0].set_ylabel(label)
        axes[row, 0].set_yscale("log")
    axes[0, 0].set_xscale("log")
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncols=len(PHASES), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--shards", nargs="+", type=int, default=list(SHARDS))
    parser.add_argument("--nodes", nargs="+", type=int, default=list(SIZES), help="at least two sizes")
    parser.add_argument("--large", action="store_true", help="10^6 nodes as well: hours")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kept", type=Path, help="a file of cases: those in it are not run again")
    parser.add_argument("--figure", type=Path, help="where to write a figure; its ending says which kind")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        method, *numbers = options.one
        print(json.dumps(measure(method, *map(int, numbers))))
        return
    sizes = sorted({*options.nodes, *([LARGE] if options.large else [])})
    if len(sizes) < 2:
        parser.error("--nodes: a slope needs at least two sizes")
    results: dict[tuple[str, int], dict[int, Case]] = {}
    for method in options.methods:
        for shards in options.shards:
            for nodes in sizes:
                case = measure_elsewhere(method, nodes, shards, options.epochs, options.threads, kept=options.kept)
                results.setdefault((method, shards), {})[nodes] = case
                print(
                    f"{method}, {shards} shards, {nodes:,} nodes: {case[WHOLE]['seconds']:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    print(f"sbm, average degree {DEGREE}, {FEATURES} features, {options.epochs} epochs, {options.threads} thread(s)")
    print(f"slope: of time between {sizes[-2]:,} and {sizes[-1]:,} nodes, log-log; at most {WANTED} is wanted\n")
    print("\n".join(table(results)))
    if options.figure:
        draw(results, options.figure)


if __name__ == "__main__":
    main()
