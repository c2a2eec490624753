"""A graph of ogbn-products' size: its partitions, the training of members, forgetting; time and peak memory of each.

The graph is `sbm` with 2,449,029 nodes, 61,859,140 undirected edges, 100 features and 47 classes. It is made once
and saved; every later step is a process of its own and maps what it needs into memory. A step whose result lies in
the folder already is not repeated, and members are kept group by group, so that a run that was broken off goes on.
It prints a Markdown table.

    python benchmarks/products.py [--scale 0.1] [--folder runs/products] [--partitioners hash ldg metis ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unlearnbench.graph import Graph
    from unlearnbench.task import Task

NODES, EDGES, FEATURES, CLASSES = 2_449_029, 61_859_140, 100, 47
PARTITIONERS = ("hash", "ldg", "metis", 'gpa[batch_nodes=8192,fanouts="2,2",epochs=1]')
SEED, REPETITION = 0, 0
METHOD, MODEL = "sisa[partitioner=hash]", "gcn"
FORGOTTEN = (1, 100)
WHOLE, TRAINING = "graph.pt", "training.pt"
# The largest peak that is wanted.
WANTED_GIB = 20

# What a step found; every step has "seconds" and "cpu" of the step alone, and once it is measured, "gib".
Found = dict[str, Any]


def save(graph: Graph, path: Path) -> None:
    """Write a graph as `load` reads it."""
    import torch

    names = ("x", "y", "edge_index", "ids")
    torch.save({name: getattr(graph, name) for name in names} | {"num_classes": graph.num_classes}, path)


def load(path: Path) -> Graph:
    """Map a graph into memory: only what is read of it is there."""
    import torch

    from unlearnbench.graph import Graph

    return Graph(**torch.load(path, mmap=True, weights_only=True))


def training_task(folder: Path) -> Task:
    """Make the task of partitioners: the training subgraph. Base model and training play no part."""
    import torch

    from unlearnbench.protocol.protocol import task_seed
    from unlearnbench.task import Task, Training

    seed = task_seed(SEED, "sbm", REPETITION)
    return Task(load(folder / TRAINING), None, Training(), torch.device("cpu"), seed)  # type: ignore[arg-type]


def partition_path(folder: Path, partitioner: str) -> Path:
    """Return the path of a partition: int64 [training nodes], in the order of the training subgraph."""
    return folder / f"partition-{partitioner.partition('[')[0]}.pt"


class Watch:
    """Measures seconds from its making on, of the clock and of the processor: on a shared machine they differ."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def read(self) -> Found:
        """Return both."""
        return {"seconds": time.perf_counter() - self.start[0], "cpu": time.process_time() - self.start[1]}


def make(folder: Path, scale: float) -> Found:
    """Make the graph, by the door that all graphs come in."""
    from unlearnbench.datasets.base import describe, load_graph
    from unlearnbench.datasets.sbm import StochasticBlockModel

    params = StochasticBlockModel.Params(
        num_nodes=round(NODES * scale), num_edges=round(EDGES * scale), num_features=FEATURES, num_classes=CLASSES
    )
    watch = Watch()
    graph = load_graph(StochasticBlockModel(params), Path())
    readings = {"what": describe(graph), **watch.read()}
    save(graph, folder / WHOLE)
    return readings


def cut(folder: Path) -> Found:
    """Cut the training subgraph of the protocol's first repetition."""
    from unlearnbench.protocol.protocol import split

    graph = load(folder / WHOLE)
    watch = Watch()
    training = graph.induced(split(graph, SEED, "sbm", REPETITION).train)
    readings = {"nodes": training.num_nodes, "edges": training.num_edges, **watch.read()}
    save(training, folder / TRAINING)
    return readings


def partition(folder: Path, partitioner: str, shards: int) -> Found:
    """Deal the training nodes into shards."""
    import torch

    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.registry.resolve import resolve
    from unlearnbench.unlearning.partitioning import checked_partition, partition_statistics

    task = training_task(folder)
    component = resolve(load_catalogue(), "partitioner", partitioner).build()
    watch = Watch()
    shard = checked_partition(component, task, shards)
    cost = watch.read()
    torch.save(shard, partition_path(folder, partitioner))
    return {**cost, **partition_statistics(task.graph, shard, shards)}


def members(folder: Path, shards: int, epochs: int) -> Found:
    """Train the members of all shards, in groups; forget a few nodes, then more."""
    import torch

    from unlearnbench import seeds
    from unlearnbench.measure.allocator import steady_allocator
    from unlearnbench.measure.clock import Meter
    from unlearnbench.protocol import Request
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.registry.resolve import resolve
    from unlearnbench.running.checkpoints import CellCheckpoints
    from unlearnbench.task import Task, Training

    steady_allocator()
    catalogue, meter, task = load_catalogue(), Meter(torch.device("cpu")), training_task(folder)
    checkpoints = CellCheckpoints(folder / "members", {"shards": shards, "epochs": epochs})
    model, training = resolve(catalogue, "model", MODEL), Training(epochs=epochs)
    task = Task(task.graph, model, training, task.device, task.seed, listener=meter, checkpoints=checkpoints.of("fit"))
    method = resolve(catalogue, "unlearner", METHOD.replace("]", f",num_shards={shards}]")).build()
    watch, rows = Watch(), {}
    with meter.phase("train members"):
        method.fit(task)
    order = torch.randperm(task.graph.num_nodes, generator=seeds.generator(SEED, "products", "request"))
    first = 0
    for count in FORGOTTEN:
        ids, first = task.graph.ids[order[first : first + count]].sort().values, first + count
        name = f"forget {count} node{'' if count == 1 else 's'}"
        with meter.phase(f"cut what is retained, {count} fewer"):
            # The graph from before goes as soon as it can: both at once are much.
            task = task.without(Request(ids))
        hit = meter.counts.get("shards_hit", 0)
        with meter.phase(name):
            method.unlearn(Request(ids), task)
        rows[name] = {"hit": meter.counts["shards_hit"] - hit}
    phases = {
        row["name"]: {"seconds": row["seconds"], "gib": (row["peak_rss_mib"] or 0) / 2**10, **rows.get(row["name"], {})}
        for row in meter.phases
        if "/" not in row["name"]
    }
    return {"rows": phases, "taken": checkpoints.taken, **watch.read()}


STEPS: Mapping[str, Callable[..., Found]] = {"make": make, "cut": cut, "partition": partition, "members": members}


def peak_gib() -> float:
    """Return the largest resident memory of this process so far, mapped pages of files included."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)


def run_here(step: str, folder: Path, threads: int, arguments: Sequence[Any]) -> Found:
    """Run a step in this process and measure its memory."""
    import torch

    torch.set_num_threads(threads)
    readings = STEPS[step](folder, *arguments)
    return {**readings, "gib": peak_gib()}


def run_elsewhere(step: str, folder: Path, threads: int, *arguments: Any) -> Found:
    """Run a step in a process of its own, unless it was run with these arguments before.

    Raises:
        SystemExit: It ended badly; what went wrong was printed by it.
    """
    asked = json.dumps([step, str(folder), threads, arguments])
    known = folder / "done.json"
    done: dict[str, Found] = json.loads(known.read_text()) if known.exists() else {}
    if asked not in done:
        print(f"{step} {' '.join(map(str, arguments))} ...", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, "--step", asked]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if answer.returncode:
            raise SystemExit(f"{asked}: ended with {answer.returncode}; what went wrong stands above.")
        # Whatever was made of an earlier graph or cut is no longer true.
        done = {} if step == "make" else done
        done[asked] = json.loads(answer.stdout.splitlines()[-1])
        known.write_text(json.dumps(done, indent=1))
    return done[asked]


def table(steps: Mapping[str, Found]) -> list[str]:
    """Write a Markdown table, a line for each step; what a step does not have is a dash."""
    lines = [
        "| step | seconds | CPU seconds | peak GiB | edges kept | smallest shard | largest shard | shards hit |",
        f"|{'---|' * 8}",
    ]
    for name, found in steps.items():
        sizes = found.get("sizes")
        kept = found.get("edges_kept")
        cells = [
            name,
            f"{found['seconds']:.1f}",
            f"{found['cpu']:.1f}" if "cpu" in found else "-",
            f"{found['gib']:.2f}",
            "-" if kept is None else f"{kept:.3f}",
            f"{min(sizes):,}" if sizes else "-",
            f"{max(sizes):,}" if sizes else "-",
            str(found.get("hit", "-")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every step and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of ogbn-products' nodes and edges")
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--partitioners", nargs="*", default=list(PARTITIONERS))
    parser.add_argument("--epochs", type=int, default=5, help="of the members; 0: none is trained")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where results are kept; without it they are deleted in the end")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        step, place, threads, rest = json.loads(options.step)
        print(json.dumps(run_here(step, Path(place), threads, rest)))
        return
    with tempfile.TemporaryDirectory(prefix="products-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        steps = {
            "make the graph": run_elsewhere("make", folder, options.threads, options.scale),
            "cut the training subgraph": run_elsewhere("cut", folder, options.threads),
        }
        for name in options.partitioners:
            steps[name] = run_elsewhere("partition", folder, options.threads, name, options.shards)
        if options.epochs:
            trained = run_elsewhere("members", folder, options.threads, options.shards, options.epochs)
            steps |= trained["rows"]
    graph, training = steps["make the graph"], steps["cut the training subgraph"]
    print(graph["what"])
    print(f"training: {training['nodes']} nodes, {training['edges']} directed edges; {options.threads} thread(s)")
    if options.epochs:
        print(f"members: {METHOD}, {MODEL}, {options.epochs} epochs; {trained['taken']} groups of an earlier run taken")
    print(f"peak: resident memory of the step's process; at most {WANTED_GIB} GiB is wanted\n")
    print("\n".join(table(steps)))


if __name__ == "__main__":
    main()
