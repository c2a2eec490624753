"""How far each phase of a method is from its matrix products alone.

One run counts the products of every phase, dense and sparse, by shape; other runs, without the
counter, time the phases (medians). Each product is then timed by itself, in a tight loop (the best
of as many rounds), and the sum over a phase is its limit. Products are all that is counted:
activations, dropout, softmax, Adam, sorting and distances are 0 operations here. Seconds are
processor time of this process on one thread: on an idle machine what a clock on the wall shows, on
a busy one less misleading.

    python benchmarks/limit.py --data-root DIR [--dataset cora] [--model gcn] [--methods sisa ...] [--rounds 5]
"""

from __future__ import annotations

import argparse
import collections
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from loop import training_task
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unlearnbench.component import Spec
from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.measure.clock import Instruments, Meter
from unlearnbench.measure.load import LoadWatch
from unlearnbench.protocol import Request, protocol
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task
from unlearnbench.task.training import Listener

METHODS = ("sisa", "grapheraser", "graphrevoker", "retrain")
PHASES = ("partition", "train", "aggregate", "unlearn/retrain", "unlearn/aggregate")
# Where the first factor stands among the arguments of each operation that is a product.
FACTORS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "sparse_sampled_addmm": 1}
LOOKS_LIKE_A_PRODUCT = re.compile(r"(mm|mv|dot|matmul|linear|convolution)$")
BATCH_SECONDS = 2e-3


@dataclass(frozen=True)
class Product:
    """What the time of a product depends on: [batch, rows, inner] times [batch, inner, columns].

    Args:
        kind: `mm`, `bmm`, `mv`, `sparse` (a CSR matrix times a dense one) or `sampled` (a dense
            product at the places of a CSR pattern).
        batch: 1 but for `bmm`.
        rows: Of the first factor.
        inner: Its columns.
        columns: Of the second factor.
        stored: Entries of the CSR matrix or pattern; 0 for dense products.
        dtype: Of both factors.
    """

    kind: str
    batch: int
    rows: int
    inner: int
    columns: int
    stored: int
    dtype: torch.dtype

    @property
    def operations(self) -> int:
        """Count a multiplication and an addition for each pair of entries that meet."""
        if self.kind == "sparse":
            return 2 * self.stored * self.columns
        if self.kind == "sampled":
            return 2 * self.stored * self.inner
        return 2 * self.batch * self.rows * self.inner * self.columns


def product_of(operation: str, arguments: tuple[Any, ...]) -> tuple[Product, Tensor | None] | None:
    """Recognise a product.

    Args:
        operation: Its name in torch, `mm`; in place or not is the same.
        arguments: What it was called with.

    Returns:
        The product, and its CSR matrix or pattern if it has one; None for anything else.

    Raises:
        NotImplementedError: It looks like a product that is not known here: no count would be right.
    """
    name = operation.rstrip("_")
    if name not in FACTORS:
        if LOOKS_LIKE_A_PRODUCT.search(name):
            raise NotImplementedError(f"{operation} looks like a product: teach it to FACTORS of {__file__}.")
        return None
    left, right = arguments[FACTORS[name] : FACTORS[name] + 2]
    if right.layout != torch.strided or left.layout not in (torch.strided, torch.sparse_csr):
        raise NotImplementedError(f"{operation} of {left.layout} and {right.layout} factors is not counted.")
    batch = left.shape[0] if left.dim() == 3 else 1
    columns = right.shape[-1] if right.dim() > 1 else 1
    csr: Tensor | None = None
    kind = "mv" if right.dim() == 1 else "bmm" if left.dim() == 3 else "mm"
    if name == "sparse_sampled_addmm":
        kind, csr = "sampled", arguments[0]
    elif left.layout == torch.sparse_csr:
        kind, csr = "sparse", left
    stored = 0 if csr is None else csr.values().numel()
    return Product(kind, batch, left.shape[-2], left.shape[-1], columns, stored, right.dtype), csr


class ProductCounter(TorchDispatchMode):
    """Counts products by phase, as the listener of a task.

    Attributes:
        counts: For each phase, how often each product occurred.
        matrices: For each product with a CSR matrix, the first one seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, collections.Counter[Product]] = collections.defaultdict(collections.Counter)
        self.matrices: dict[Product, Tensor] = {}
        self._phase = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = product_of(func.overloadpacket.__name__, args)
        if known is not None:
            product, csr = known
            self.counts[self._phase][product] += 1
            if csr is not None:
                self.matrices.setdefault(product, csr.detach())
        return func(*args, **(kwargs or {}))

    def follow(self, role: str, step: int, networks: Sequence[int], answer: Any) -> None:
        """Follow no training: its products are counted as they are made."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside under this name; inside another phase, under `outer/name`."""
        outer = self._phase
        self._phase = f"{outer}/{name}" if outer else name
        try:
            yield
        finally:
            self._phase = outer

    def count(self, **amounts: int) -> None:
        """Do nothing: the harness's own counts are not needed here."""

    def epoch(self, number: int, total: int) -> None:
        """Do nothing: the products of all epochs count alike."""


def plain_call(product: Product, matrix: Tensor | None) -> Callable[[], object]:
    """Make the plain call of a product: contiguous factors, a result that is there already.

    Args:
        product: What to multiply.
        matrix: The CSR matrix or pattern of a `sparse` or `sampled` one.
    """
    batch, rows, inner, columns = product.batch, product.rows, product.inner, product.columns
    left, right, out = (
        torch.ones(batch, *shape, dtype=product.dtype) for shape in ((rows, inner), (inner, columns), (rows, columns))
    )
    if product.kind == "bmm":
        return lambda: torch.bmm(left, right, out=out)
    left, right, out = left[0], right[0], out[0]
    if product.kind == "mm":
        return lambda: torch.mm(left, right, out=out)
    if product.kind == "mv":
        return lambda: torch.mv(left, right[:, 0], out=out[:, 0])
    assert matrix is not None
    if product.kind == "sparse":
        return lambda: out.addmm_(matrix, right, beta=0)
    return lambda: torch.sparse.sampled_addmm(matrix, left, right, beta=0.0)


@torch.no_grad()
def batch_seconds(call: Callable[[], object]) -> float:
    """Time one batch of calls, per call, after two that do not count."""
    call()
    start = time.process_time()
    call()
    calls = max(1, round(BATCH_SECONDS / max(time.process_time() - start, 1e-7)))
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls


def plain_seconds(products: Iterable[Product], matrices: Mapping[Product, Tensor], rounds: int) -> dict[Product, float]:
    """Time each product by itself: the best of several rounds through all of them.

    The best, not the median: what a busy machine adds is no part of a limit, and would flatter the ratio.
    """
    best = dict.fromkeys(products, float("inf"))
    for _ in range(rounds):
        for product in best:
            best[product] = min(best[product], batch_seconds(plain_call(product, matrices.get(product))))
    return best


def perform(method: Spec, task: Task, request: Request, listener: Listener) -> None:
    """Fit a method and make it forget, with a listener."""
    task = replace(task, listener=listener)
    unlearner = method.build()
    unlearner.fit(task)
    retained = task.without(request)
    with listener.phase("unlearn"):
        unlearner.unlearn(request, retained)


def count(method: Spec, task: Task, request: Request) -> ProductCounter:
    """Count the products of every phase of a method."""
    counter = ProductCounter()
    with counter:
        perform(method, task, request, counter)
    return counter


def phase_seconds(method: Spec, task: Task, request: Request, rounds: int) -> dict[str, float]:
    """Time the phases of a method with the harness's meter: medians over rounds; phases it lacks are left out."""
    seconds_of: dict[str, list[float]] = collections.defaultdict(list)
    for _ in range(rounds):
        meter = Meter(task.device, replace(Instruments.of(task.device), clock=time.process_time))
        perform(method, task, request, meter)
        for phase in PHASES:
            seconds = meter.seconds(phase)
            if seconds is not None:
                seconds_of[phase].append(seconds)
    return {phase: statistics.median(values) for phase, values in seconds_of.items()}


def limit(products: Mapping[Product, int], plain: Mapping[Product, float]) -> float:
    """Sum how often each product occurred times its plain seconds."""
    return sum(number * plain[product] for product, number in products.items())


def row(
    method: str, phase: str, seconds: float, products: Mapping[Product, int], plain: Mapping[Product, float]
) -> str:
    """Make a row of the table; a phase without a product has no limit to be compared with."""
    operations = sum(number * product.operations for product, number in products.items())
    least = limit(products, plain)
    ratio = f"{seconds / least:.1f}" if least else "-"
    return f"| {method} | {phase} | {seconds:.4f} | {operations / 1e9:.3f} | {least:.4f} | {ratio} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    steady_allocator()
    watch = LoadWatch()
    task, graph = training_task(options.dataset, options.data_root, torch.device("cpu"), options.model)
    request = protocol.request(protocol.Protocol(), graph, task.graph.ids, 0, options.dataset, 0)
    timed: list[tuple[str, str, float, Mapping[Product, int]]] = []
    matrices: dict[Product, Tensor] = {}
    for name in options.methods:
        method = resolve(load_catalogue(), "unlearner", name)
        counter = count(method, task, request)
        matrices |= counter.matrices
        seconds = phase_seconds(method, task, request, options.rounds)
        timed += [(name, phase, spent, counter.counts[phase]) for phase, spent in seconds.items()]
    plain = plain_seconds({product for *_, products in timed for product in products}, matrices, options.rounds)
    print(
        f"{options.dataset}, {options.model}, {len(request.ids)} nodes to forget, one thread, {options.rounds} rounds"
    )
    print("| method | phase | seconds | GFLOP | limit, s | seconds / limit |\n|---|---|---|---|---|---|")
    for name, phase, spent, products in timed:
        print(row(name, phase, spent, products, plain))
    load = watch.finish()
    if not load.is_exclusive():
        others = "an unknown number of" if load.other_cores is None else f"{load.other_cores:.1f}"
        print(f"The machine was not idle: others kept {others} cores busy, every figure may be too high.")


if __name__ == "__main__":
    main()
