"""What an audit is, and what it finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray
from torch import Tensor

from unlearnbench.audits.subject import Memory, Subject
from unlearnbench.component import Component, Spec
from unlearnbench.graph import Graph
from unlearnbench.records.record import Record
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.running.execute import Compute
from unlearnbench.running.outcome import Arrays, Outcome, RunContext, measured

State = Literal["valid", "cannot tell", ""]


@dataclass(frozen=True)
class Score:
    """One number of an audit, beside what makes it readable.

    Args:
        measure: What was measured: `disagreement`, `auc`.
        where: On which nodes or in which setting: `forgotten`, `hop 1`, `test`.
        value: The number; None: it could not be had, `note` says why.
        low: Lower end of its 95 % interval.
        high: Upper end.
        floor: What a second retraining gives: no method can be asked for less.
        controls: What the control methods give, by their label.
        effect: The value in units of what `noop` gives.
        p: Of the test that the value differs from the floor.
        runs: How many runs a side it is made of.
        state: `valid`: the control that must be rejected is; `cannot tell`: it is not, the number
            says nothing; empty: nothing had to be rejected.
        note: One sentence, where there is something to say.
    """

    measure: str
    where: str
    value: float | None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    controls: Mapping[str, float | None] = field(default_factory=dict)
    effect: float | None = None
    p: float | None = None
    runs: int | None = None
    state: State = ""
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """What an audit found of one cell.

    Args:
        verdict: One or a few words: `exact`, `valid`, `cannot tell`.
        scores: Its numbers.
        details: Plain JSON values that explain the verdict.
        notes: Sentences a reader should know.
        arrays: Arrays of plain numbers to keep beside the record.
    """

    verdict: str
    scores: tuple[Score, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Audit(Component, ABC):
    """Asks one question about the forgetting of a method.

    Attributes:
        question: What it asks, one sentence.
        order: Where it stands in `audit all`; the lowest first.
    """

    question: ClassVar[str] = ""
    order: ClassVar[int] = 100

    def unfit(self, method: Spec) -> str:
        """Say why the audit has nothing to ask of a method; empty: it has."""
        return ""

    @abstractmethod
    def effort(self, method: Spec) -> Mapping[str, float]:
        """Say how often methods are trained and told to forget: for the estimate before a run.

        Returns:
            By the label of a method, its own or a control's, how many times it does both.
        """

    def partitions(self, method: Spec) -> float:
        """Say how many partitions of the method are made and no more: for the estimate as well."""
        return 0.0

    @staticmethod
    def auditor(catalogue: Catalogue) -> Compute:
        """Make what computes the record of a cell with an audit; cells that follow each other share answers.

        Args:
            catalogue: Where audits find references and controls.
        """
        memory = Memory()
        last: list[str] = []

        def compute(cell: Cell, graph: Graph, context: RunContext) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
            subject = Subject(cell, graph, context.device, lambda name: resolve(catalogue, "unlearner", name), memory)
            # One graph's answers at a time: those of all would fill the memory of a long run.
            if last != [cell.dataset_label]:
                memory.forget()
                last[:] = [cell.dataset_label]
            return measured(cell, context, lambda outcome: _examine(subject, outcome))

        return compute

    @abstractmethod
    def examine(self, subject: Subject) -> Finding:
        """Ask.

        Args:
            subject: The cell, its data, and how to train and ask methods on it.
        """


def _examine(subject: Subject, outcome: Outcome) -> str:
    cell = subject.cell
    assert cell.audit is not None
    audit: Audit = cell.audit.build()
    outcome.fields["requests"] = [{"ids_sha256": subject.request.sha256(), "count": len(subject.request.ids)}]
    method = cell.method.build()
    outcome.fields["claim"] = {"claim": method.claim.value, "reason": method.claim_reason}
    with outcome.meter.phase("audit"):
        finding = audit.examine(subject)
    outcome.fields["audit"] = {
        "verdict": finding.verdict,
        "scores": [asdict(score) for score in finding.scores],
        "details": dict(finding.details),
        "notes": list(finding.notes),
    }
    outcome.arrays |= finding.arrays
    return "ok"
