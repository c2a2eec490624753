"""Checks of side effects and outputs, and the rules that are the same for several kinds of components."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.graph import Graph
from unlearnbench.task import Task
from unlearnbench.testing.graphs import PLAIN, Toy
from unlearnbench.testing.rules.base import UNEQUAL, Case, Fault, Rule, Skipped

# Computes an answer of the component on a toy graph.
Answer = Callable[[Case, Toy], Any]
# Describes the difference between two answers; empty if they are equal.
Difference = Callable[[Any, Any], str]
OWN_GENERATOR = 'Draw from task.generator("role", ...) alone, and keep nothing in the class or the module.'
# The two seeds of the global generators that answers are compared for.
_SEED, _OTHER_SEED = 0, 2


@contextmanager
def seeded_generators(seed: int) -> Iterator[list[str]]:
    """Seed the global generators of torch, numpy and random; restore their states afterwards.

    Yields:
        A list, filled at the end with the names of the generators that were used.
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


def seeded_answer(case: Case, toy: Toy, answer: Answer, seed: int = _SEED) -> tuple[Any, list[str]]:
    """Return an answer and the names of the global generators it used, computed once for all rules of a case."""

    def compute() -> tuple[Any, list[str]]:
        with seeded_generators(seed) as used:
            value = answer(case, toy)
        return value, used

    return case.remembered(f"{answer.__name__} with seed {seed}, {toy.name}", compute)


def reproducible(
    promise: str,
    answer: Answer,
    differ: Difference,
    fault: str,
    remedy: str = OWN_GENERATOR,
    toys: Sequence[str] = (PLAIN,),
    other_seed_first: bool = False,
    own_promise: str = "the global random generators are neither read nor changed",
) -> tuple[Rule, Rule]:
    """Make the rules `same-answer` (equal random states, equal answers) and `own-generator` (no global generator).

    Promise, fault, remedy and toys are those of `same-answer`, but for `own_promise`; `{}` in the
    fault stands for the difference. `other_seed_first`: an equal answer with the other seed, which
    `own-generator` computes anyway, is enough; this saves a call where one takes long.
    """
    own_remedy = 'Draw from task.generator("role", ...) alone, and never seed globally.'

    def same(case: Case, toy: Toy) -> Iterator[Fault]:
        first, _ = seeded_answer(case, toy, answer)
        if other_seed_first and not differ(first, seeded_answer(case, toy, answer, _OTHER_SEED)[0]):
            return
        with seeded_generators(_SEED):
            again = answer(case, toy)
        if differs := differ(first, again):
            case.memory[UNEQUAL] = True
            yield Fault(fault.format(differs), remedy)

    def own(case: Case, toy: Toy) -> Iterator[Fault]:
        first, used = seeded_answer(case, toy, answer)
        if used:
            yield Fault(f"It uses the global generator of {' and '.join(used)}.", own_remedy)
        differs = differ(first, seeded_answer(case, toy, answer, _OTHER_SEED)[0])
        if differs and not used:
            if case.memory.get(UNEQUAL):
                raise Skipped("it differs with equal random states, too")
            yield Fault(f"Its answer depends on the global random state: {differs}.", own_remedy)

    return Rule("same-answer", promise, same, toys), Rule("own-generator", own_promise, own)


def unchanged_graph(
    promise: str, task_of: Callable[[Case, Toy], Task], call: Callable[[Case, Toy, Task], object], name: str
) -> Rule:
    """Make the rule `inputs-unchanged` of a component that gets a task; messages name its call."""

    def check(case: Case, toy: Toy) -> Iterator[Fault]:
        task = task_of(case, toy)
        before = copies(task.graph)
        call(case, toy, task)
        yield from changed({"task.graph": task.graph}, before, name)

    return Rule("inputs-unchanged", promise, check)


def copies(*graphs: Graph) -> list[dict[str, Tensor]]:
    """Copy the tensors of graphs."""
    tensors = [
        {name: getattr(graph, name) for name in ("x", "y", "edge_index", "ids", "edge_weight")} for graph in graphs
    ]
    return [{name: value.clone() for name, value in each.items() if value is not None} for each in tensors]


def changed(graphs: Mapping[str, Graph], before: Sequence[Mapping[str, Tensor]], call: str) -> Iterator[Fault]:
    """Yield a fault for every tensor of a graph that was changed since its `copies`."""
    for (label, graph), old in zip(graphs.items(), before, strict=True):
        for name, value in old.items():
            if not torch.equal(getattr(graph, name), value):
                yield Fault(
                    f"{call} changed {label}.{name}.",
                    "Graphs are shared by all methods: clone() a tensor, then change it.",
                )


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors, detached.

    Raises:
        UnlearnbenchError: There is no mapping of them.
    """
    if not isinstance(state, Mapping):
        raise UnlearnbenchError(
            f"state() or kept() returned a {type(state).__name__}, expected tensors by name.",
            "Return a dictionary; an empty one where there is nothing.",
        )
    return {name: value.detach().clone() for name, value in state.items()}


def describe(value: object) -> str:
    """Describe a value: dtype and shape of a tensor, otherwise its type."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return f"a {type(value).__name__}"


def check_log_probabilities(value: Any, toy: Toy, call: str, count: int | None = None) -> Iterator[Fault]:
    """Yield the faults of log-probabilities [count, classes], by default of the toy's nodes to predict."""
    count, num_classes = len(toy.asked) if count is None else count, toy.whole.num_classes
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.shape != (count, num_classes):
        yield Fault(
            f"{call} gave {describe(value)}, expected float [{count}, {num_classes}].",
            "Return a row per node, in their order, and a column per class: num_classes, whether or not each occurs.",
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
            "Return log-probabilities: torch.log_softmax(scores, dim=1).",
        )


def difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> str:
    """Describe the difference between two mappings of tensors, bit for bit; empty if they are equal.

    What is not a number equals itself here: that it is none is another rule's matter.
    """
    if one.keys() != other.keys():
        return f"names {sorted(one.keys() ^ other.keys())[:3]} are in only one of the two"
    unequal = [name for name, value in one.items() if not _equal(value, other[name])]
    shown = ", ".join([*unequal[:3], *(["..."] if len(unequal) > 3 else [])])
    return f"{shown} differ{'s' if len(unequal) == 1 else ''}" if unequal else ""


def _equal(one: Tensor, other: Tensor) -> bool:
    if torch.equal(one, other):
        return True
    alike = one.shape == other.shape and one.dtype == other.dtype and one.is_floating_point()
    return alike and torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())
