"""`tally` on a made graph of any size: fit, answers for ten nodes, then deletions of 1, 100 and 10,000 nodes.

The graph is `sbm`, by default with 10^6 nodes of 128 features. Requests follow each other; the first ones are of one
node, of which the median is printed. With --check the method is also fitted to what is left: its state must have the
same bits. It prints a Markdown table; peaks are of the resident memory of the process, the graph included.

    python benchmarks/tally_scale.py [--nodes 1000000] [--products] [--methods tally "tally[hops=1]"] [--check]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Nodes, edges, features and classes of ogbn-products.
PRODUCTS = (2_449_029, 61_859_140, 100, 47)
DEGREE, FEATURES, CLASSES = 10, 128, 10
SINGLE = 9
REQUESTS = (1,) * SINGLE + (100, 10_000)
SEED, ASKED = 0, 10
# What forgetting one of 10^6 nodes may take, and the memory that is wanted.
WANTED_MS, WANTED_GIB = 50, 16


def measure(method: str, shape: Sequence[int], check: bool) -> Iterator[str]:
    """Yield the lines of the table of one method."""
    import torch

    from unlearnbench import seeds
    from unlearnbench.datasets.base import load_graph
    from unlearnbench.datasets.sbm import StochasticBlockModel
    from unlearnbench.measure.allocator import steady_allocator
    from unlearnbench.measure.clock import Meter
    from unlearnbench.protocol import Request
    from unlearnbench.protocol.protocol import split, task_seed
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.registry.resolve import resolve
    from unlearnbench.task import Task, Training, View, make_query

    torch.set_num_threads(1)
    steady_allocator()
    catalogue, device = load_catalogue(), torch.device("cpu")
    names = ("num_nodes", "num_edges", "num_features", "num_classes")
    whole = load_graph(
        StochasticBlockModel(StochasticBlockModel.Params(**dict(zip(names, shape, strict=True)))), Path()
    )
    parts = split(whole, SEED, "sbm", 0)
    query = make_query(whole, parts.train, parts.test[:ASKED], View.FULL, device)
    graph = whole.induced(parts.train)
    del whole
    meter = Meter(device)
    task = Task(
        graph, resolve(catalogue, "model", "gcn"), Training(), device, task_seed(SEED, "sbm", 0), listener=meter
    )
    del graph
    spec = resolve(catalogue, "unlearner", method)
    unlearner = spec.build()
    cpu: dict[str, list[float]] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        start = time.process_time()
        with meter.phase(name):
            yield
        cpu.setdefault(name, []).append(time.process_time() - start)

    def row(label: str, name: str) -> str:
        """Return the line of a step: the medians of its times, and its largest peak."""
        rows = [phase for phase in meter.phases if phase["name"] == name]
        seconds = [statistics.median(times) for times in ([phase["seconds"] for phase in rows], cpu[name])]
        peak = max(phase["peak_rss_mib"] or 0.0 for phase in rows) / 2**10
        return f"| {method} | {label} | {1000 * seconds[0]:,.1f} | {1000 * seconds[1]:,.1f} | {peak:.1f} |"

    with step("fit"):
        unlearner.fit(task)
    yield row("fit", "fit")
    with step("predict"):
        unlearner.predict(query)
    yield row(f"answer for {ASKED} nodes", "predict")
    del query
    for number, count in enumerate(REQUESTS):
        drawn = torch.randperm(task.graph.num_nodes, generator=seeds.generator(SEED, "tally", number))[:count]
        request = Request(task.graph.ids[drawn].sort().values)
        task = task.without(request)
        with step(f"unlearn {count}"):
            unlearner.unlearn(request, task)
    for count in dict.fromkeys(REQUESTS):
        yield row(f"forget {count:,}", f"unlearn {count}")
    if check:
        fresh = spec.build()
        fresh.fit(task)
        one, other = unlearner.state(), fresh.state()
        same = one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
        yield f"| {method} | the bits of a fresh fit | {'yes' if same else 'NO'} | | |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10**6, help="Number of nodes.")
    parser.add_argument("--products", action="store_true", help="The size of ogbn-products instead.")
    parser.add_argument("--methods", nargs="+", default=["tally"], help="Brackets.")
    parser.add_argument("--check", action="store_true", help="Compare with a fresh fit.")
    asked = parser.parse_args(arguments)
    shape = PRODUCTS if asked.products else (asked.nodes, asked.nodes * DEGREE // 2, FEATURES, CLASSES)
    print(f"{shape[0]:,} nodes, {shape[1]:,} edges, {shape[2]} features, {shape[3]} classes; one thread.")
    print(f"Wanted at 10^6 nodes: one node within {WANTED_MS} ms; {WANTED_GIB} GiB.\n")
    print("| method | step | ms | CPU ms | peak GiB |\n|---|---|---|---|---|")
    for method in asked.methods:
        for line in measure(method, shape, asked.check):
            print(line, flush=True)


if __name__ == "__main__":
    main()
