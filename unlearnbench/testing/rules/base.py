"""Rules, the faults they report, and how a rule is tried."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import unlearnbench
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError, UnlearnbenchError
from unlearnbench.registry.catalogue import Catalogue, reason_of
from unlearnbench.task import Task
from unlearnbench.testing.graphs import PLAIN, Toy, toy_task

TOLERANCE = 1e-4
MODEL = "gcn"
EPOCHS = 2
# Set in the memory of a case whose equal calls gave different answers.
UNEQUAL = "unequal"
CORE = Path(unlearnbench.__file__).parent

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Fault:
    """One thing that a component does wrong.

    Args:
        what: What happened.
        remedy: What to do about it.
        where: The toy graph; empty if it concerns no graph in particular.
        traceback: The traceback of a crash.
    """

    what: str
    remedy: str
    where: str = ""
    traceback: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Return the fault and its remedy, with the graph in front."""
        return f"{f'On {self.where}: ' if self.where else ''}{self.what} {self.remedy}"


@dataclass(frozen=True)
class Case:
    """The component under test; `memory` holds results that several rules share."""

    spec: Spec
    catalogue: Catalogue
    model: str = MODEL
    data_root: Path | None = None
    memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def build(self) -> Any:
        """Make the component."""
        return self.spec.build()

    def task(self, toy: Toy) -> Task:
        """Make a task of a toy graph's training nodes."""
        return toy_task(toy.graph, self.model, EPOCHS, catalogue=self.catalogue)

    def remembered(self, key: str, make: Callable[[], Kept]) -> Kept:
        """Return the shared result of a key; compute it the first time."""
        if key not in self.memory:
            self.memory[key] = make()
        result: Kept = self.memory[key]
        return result


class Skipped(Exception):  # noqa: N818 - it is no error
    """A rule does not apply to a component, or to a graph."""


@dataclass(frozen=True)
class Rule:
    """One promise of an interface; `check` yields the faults on one toy graph.

    It is not tried where one of the rules `needs` fails: it would only repeat their faults.
    """

    name: str
    promise: str
    check: Callable[[Case, Toy], Iterable[Fault]]
    toys: Sequence[str] = (PLAIN,)
    needs: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """The result of a rule.

    Args:
        rule: Its name.
        promise: What must hold.
        faults: What is wrong; none if the rule holds.
        skipped: Why it was not tried; empty if it was.
        refused: Graphs that the component refused with a reason, which it may.
    """

    rule: str
    promise: str
    faults: tuple[Fault, ...] = ()
    skipped: str = ""
    refused: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """The status: `ok`, `failed` or `skipped`."""
        return "failed" if self.faults else "skipped" if self.skipped else "ok"


def try_rule(rule: Rule, case: Case, toys: Mapping[str, Toy], crashes: set[str]) -> Result:
    """Try a rule on its graphs; whatever the component raises becomes a fault.

    A component may refuse an unusual graph with an error of its own, which its users would read.
    Each of the `crashes` is reported once, not under every rule that meets it.
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
        except (Exception, SystemExit) as error:  # third-party code may fail in any way
            text = f"{reason_of(error)}{_place(error, case)}."
            remedy = f"Handle {name}, or raise UsageError with what a user can do; --debug shows the traceback."
            if name == PLAIN:
                remedy = "Fix it; unlearnbench plugin check --debug shows the traceback."
            fault = Fault(f"It crashes: {text}", remedy, name, "".join(traceback.format_exception(error)))
            skipped += _once(crashes, text, faults, fault)
    tried = len(skipped) < len(rule.toys)
    why = "" if faults or tried else "; ".join(dict.fromkeys(skipped))
    return Result(rule.name, rule.promise, tuple(_merged(faults)), why, tuple(refused))


def _once(crashes: set[str], text: str, faults: list[Fault], fault: Fault) -> list[str]:
    """Add a fault the first time any rule meets it; otherwise return the reason why nothing could be tried."""
    if text in crashes and not any(text in other.what for other in faults):
        return [f"not tried: {text}"]
    crashes.add(text)
    faults.append(fault)
    return []


def _merged(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Merge equal faults of several graphs."""
    alike: dict[str, list[Fault]] = {}
    for fault in faults:
        alike.setdefault(fault.what, []).append(fault)
    for first, *others in alike.values():
        where = dict.fromkeys(fault.where for fault in (first, *others) if fault.where)
        yield replace(first, where=", ".join(where))


def _is_of_harness(error: BaseException) -> bool:
    """Whether the error was raised by the core."""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(CORE)


def _place(error: BaseException, case: Case) -> str:
    """Describe the last line in the component's own file, or else the line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(sys.modules.get(case.spec.cls.__module__), "__file__", None)
    shown = [frame for frame in frames if frame.filename == own] or frames[-1:]
    return f" (line {shown[-1].lineno} of {Path(shown[-1].filename).name}, in {shown[-1].name})" if shown else ""
