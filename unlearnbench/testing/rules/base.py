"""What a rule is, what a broken one says, and the watch that is kept over a component's calls."""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

import unlearnbench
from unlearnbench.catalogue import reason_of
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError, UnlearnbenchError
from unlearnbench.graph import Graph
from unlearnbench.plugins import Catalogue
from unlearnbench.task import Task
from unlearnbench.testing.graphs import PLAIN, Toy, toy_task

TOLERANCE = 1e-4
MODEL = "gcn"
EPOCHS = 2
# Set in a case's memory once two equal calls are seen to differ.
UNEQUAL = "unequal"
CORE = Path(unlearnbench.__file__).parent

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Fault:
    """One thing that a component does wrong.

    Args:
        what: What happened.
        remedy: What to do about it.
        where: On which toy graph; empty: it has to do with none.
        traceback: Of a crash.
    """

    what: str
    remedy: str
    where: str = ""
    traceback: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Write both, with the graph in front."""
        return f"{f'On {self.where}: ' if self.where else ''}{self.what} {self.remedy}"


@dataclass(frozen=True)
class Case:
    """What is under test.

    Args:
        spec: The component.
        catalogue: Where models, references and controls are found.
        model: The base model of tasks: a bracket.
        data_root: Where datasets lie.
        memory: What several rules need and is made once.
    """

    spec: Spec
    catalogue: Catalogue
    model: str = MODEL
    data_root: Path | None = None
    memory: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Give the component's name, for messages."""
        return self.spec.name

    def build(self) -> Any:
        """Make the component."""
        return self.spec.build()

    def task(self, toy: Toy) -> Task:
        """Make a task of a toy graph's training nodes."""
        return toy_task(toy.graph, self.model, EPOCHS, catalogue=self.catalogue)

    def remembered(self, key: str, make: Callable[[], Kept]) -> Kept:
        """Give what was made under a key; make it first if it was not."""
        if key not in self.memory:
            self.memory[key] = make()
        found: Kept = self.memory[key]
        return found


class Skipped(Exception):  # noqa: N818 - it is no error
    """A rule has nothing to ask of a component, or of a graph."""


@dataclass(frozen=True)
class Rule:
    """One promise of a contract.

    Args:
        name: A few words with hyphens.
        promise: What must hold, one sentence.
        check: Yields faults on one toy graph.
        toys: The names of the graphs it is tried on.
        needs: Rules without which this one could only tell the same again.
    """

    name: str
    promise: str
    check: Callable[[Case, Toy], Iterable[Fault]]
    toys: Sequence[str] = (PLAIN,)
    needs: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """What came of a rule.

    Args:
        rule: Its name.
        promise: What it asks for.
        faults: What is wrong; none: it holds.
        skipped: Why it was not tried; empty: it was.
        refused: Settings that the component refused with a reason, which it may.
    """

    rule: str
    promise: str
    faults: tuple[Fault, ...] = ()
    skipped: str = ""
    refused: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """Give `ok`, `failed` or `skipped`."""
        return "failed" if self.faults else "skipped" if self.skipped else "ok"


@dataclass
class Crashes:
    """Where a component has crashed so far: one crash is told once, not under every rule that meets it."""

    seen: set[str] = field(default_factory=set)


def try_rule(rule: Rule, case: Case, toys: Mapping[str, Toy], crashes: Crashes) -> Result:
    """Try a rule on its graphs; whatever the component raises becomes a fault.

    A refusal of the component's own, on a graph that is out of the ordinary, is an answer: the user would read it.
    """
    faults: list[Fault] = []
    skipped: list[str] = []
    refused: list[str] = []
    for name in rule.toys:
        toy = toys[name]
        try:
            for fault in rule.check(case, toy):
                faults.append(replace(fault, where=name) if len(rule.toys) > 1 else fault)
        except Skipped as reason:
            skipped.append(str(reason))
        except UnlearnbenchError as error:
            if name == PLAIN or (isinstance(error, RefusedError) and _is_of_harness(error)):
                text = f"The harness or the component refuses: {error.message}"
                skipped += _once(crashes, text, faults, Fault(text, error.hint or "See the message.", name))
            else:
                refused.append(f"{name}: {error.message}")
        except (Exception, SystemExit) as error:  # a stranger's code may fail in any way
            text = f"{reason_of(error)}{_place(error, case)}."
            fault = Fault(f"It crashes: {text}", _remedy(name), name, "".join(traceback.format_exception(error)))
            skipped += _once(crashes, text, faults, fault)
    tried = len(skipped) < len(rule.toys)
    why = "" if faults or tried else "; ".join(dict.fromkeys(skipped))
    return Result(rule.name, rule.promise, tuple(_merged(faults)), why, tuple(refused))


def _once(crashes: Crashes, text: str, faults: list[Fault], fault: Fault) -> list[str]:
    """Add a fault the first time it is met under any rule; else give the reason why nothing could be tried."""
    mine = any(text in other.what for other in faults)
    if text in crashes.seen and not mine:
        return [f"not tried: {text}"]
    crashes.seen.add(text)
    faults.append(fault)
    return []


def _merged(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Tell a fault that was met on several graphs once."""
    alike: dict[str, list[Fault]] = {}
    for fault in faults:
        alike.setdefault(fault.what, []).append(fault)
    for first, *others in alike.values():
        where = dict.fromkeys(fault.where for fault in (first, *others) if fault.where)
        yield replace(first, where=", ".join(where))


def _is_of_harness(error: BaseException) -> bool:
    """Tell whether it was the core that raised."""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(CORE)


def _place(error: BaseException, case: Case) -> str:
    """Name the line of the component's own file that raised, else the last line of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(sys.modules.get(case.spec.cls.__module__), "__file__", None)
    mine = [frame for frame in frames if frame.filename == own] or frames[-1:]
    return f" (line {mine[-1].lineno} of {Path(mine[-1].filename).name}, in {mine[-1].name})" if mine else ""


def _remedy(where: str) -> str:
    if where == PLAIN:
        return "Mend it; unlearnbench plugin check --debug shows the traceback."
    return f"Handle {where}, or raise UsageError with what a user can do; --debug shows the traceback."


# What is watched while a component is called


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
