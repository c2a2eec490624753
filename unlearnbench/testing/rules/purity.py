"""What is watched while a component is called: chance, inputs, and what it gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.testing.rules.base import UNEQUAL, Case, Fault, Skipped


@contextmanager
def same_chance(seed: int) -> Iterator[list[str]]:
    """Seed the global generators of torch, numpy and random; afterwards put them back as they were.

    Args:
        seed: Of all three.

    Yields:
        A list, filled at the end with those of the three that were used.
    """
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 - the one that is watched
    used: list[str] = []
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = _states()
        try:
            yield used
            used += [name for name, state in _states().items() if state != before[name]]
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def _states() -> dict[str, object]:
    _, keys, *place = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (np.asarray(keys).tobytes(), place),
        "random": random.getstate(),
    }


def check_chance(
    case: Case, run: Callable[[int], tuple[Any, list[str]]], equal: Callable[[Any, Any], str]
) -> Iterator[Fault]:
    """Yield faults of a call that must neither read nor change the global generators.

    Args:
        case: What is under test.
        run: Makes the call with the global generators seeded so; gives its answer and which of them were used.
        equal: Says how two answers differ; empty: they do not.
    """
    remedy = 'Draw from task.generator("role", ...) alone, and never seed globally.'
    first, used = run(1)
    if used:
        yield Fault(f"It uses the global generator of {' and '.join(used)}.", remedy)
    other, _ = run(2)
    differs = equal(first, other)
    if differs and not used and case.memory.get(UNEQUAL):
        raise Skipped("it differs with equal random states, too")
    if differs and not used:
        yield Fault(f"Its answer depends on the global random state: {differs}.", remedy)


def copies(*graphs: Graph) -> list[dict[str, Tensor]]:
    """Copy the tensors of graphs."""
    return [{name: getattr(graph, name).clone() for name in ("x", "y", "edge_index", "ids")} for graph in graphs]


def changed(graphs: Mapping[str, Graph], before: Sequence[Mapping[str, Tensor]], call: str) -> Iterator[Fault]:
    """Yield a fault for every tensor of a graph that is not as it was.

    Args:
        graphs: By what a plugin calls them.
        before: What `copies` gave of them.
        call: What was called in between.
    """
    for (label, graph), old in zip(graphs.items(), before, strict=True):
        for name, value in old.items():
            if not torch.equal(getattr(graph, name), value):
                yield Fault(
                    f"{call} changed {label}.{name}.",
                    "Graphs are shared by all methods: clone() a tensor, then change it.",
                )


def describe(value: object) -> str:
    """Say what a value is: dtype and shape of a tensor, else its type."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return f"a {type(value).__name__}"


def check_log_probabilities(value: Any, count: int, num_classes: int, call: str) -> Iterator[Fault]:
    """Yield faults of what should be log-probabilities [count, num_classes]."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.shape != (count, num_classes):
        yield Fault(
            f"{call} gave {describe(value)}, expected float [{count}, {num_classes}].",
            "Give one row a node, in their order, and one column a class: num_classes, whether or not each occurs.",
        )
        return
    bad = ~torch.isfinite(value)
    if bool(bad.any()):
        rows = int(bad.any(dim=1).sum())
        yield Fault(
            f"{call} gave values that are not finite (NaN or infinite) in {rows} of {count} rows.",
            "Do not divide by a count that can be 0; use torch.log_softmax, or clamp probabilities before log().",
        )
        return
    sums = value.double().exp().sum(dim=1)
    if count and float((sums - 1).abs().max()) > 1e-3:
        yield Fault(
            f"{call} gave rows whose probabilities sum to {float(sums.min()):.3g} to {float(sums.max()):.3g}, not 1.",
            "Give log-probabilities: torch.log_softmax(scores, dim=1).",
        )


def difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> str:
    """Say in what two mappings of tensors differ, bit for bit; empty: in nothing."""
    if one.keys() != other.keys():
        return f"names {sorted(one.keys() ^ other.keys())[:3]} are in one of the two alone"
    apart = [name for name, value in one.items() if not torch.equal(value, other[name])]
    return f"{', '.join(apart[:3])}{', ...' if len(apart) > 3 else ''} differ" if apart else ""
