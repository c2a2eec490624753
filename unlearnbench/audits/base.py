"""`Audit`, the interface of all audits, and their findings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray
from torch import Tensor

from unlearnbench.audits.subject import Memory, Subject
from unlearnbench.component import Component, Spec
from unlearnbench.graph import Graph
from unlearnbench.protocol.requests import Kind
from unlearnbench.records.record import Record
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.running.execute import Compute
from unlearnbench.running.outcome import Arrays, Outcome, RunContext, measured

State = Literal["valid", "cannot tell", ""]


@dataclass(frozen=True)
class Score:
    """One number of an audit with what is needed to interpret it.

    Args:
        measure: What was measured, such as `disagreement` or `auc`.
        where: On which nodes or in which setting, such as `forgotten`, `hop 1` or `test`.
        value: The number; None: it could not be computed, see `note`.
        low: Lower end of its 95 % interval.
        high: Upper end.
        floor: The value of a second retraining, below which no method is expected.
        controls: Values of the control methods, by their label.
        effect: The value in units of that of `noop`.
        p: p-value of the test that the value differs from the floor.
        runs: Number of runs per side.
        state: `valid`: the control that must be rejected is rejected; `cannot tell`: it is not, and the
            number is uninformative; empty: no control had to be rejected.
        note: A remark, if needed.
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
    """The finding of an audit for one cell.

    Args:
        verdict: One or a few words: `exact`, `valid`, `cannot tell`.
        scores: Its numbers.
        details: Plain JSON values that explain the verdict.
        notes: Remarks for the reader.
        arrays: Arrays of plain numbers to store with the record.
        measured: Plain JSON values that no two runs share, such as times and memory.
    """

    verdict: str
    scores: tuple[Score, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)


class Audit(Component, ABC):
    """Answers one question about the forgetting of a method.

    Attributes:
        question: The question, one sentence.
        order: Position in `audit all`; the lowest first.
        kinds: Kinds of requests that it can be asked about.
    """

    kind = "audit"
    question: ClassVar[str] = ""
    order: ClassVar[int] = 100
    kinds: ClassVar[frozenset[Kind]] = frozenset({"node"})

    def unfit(self, method: Spec) -> str:
        """Return why the audit does not apply to a method; empty: it does."""
        return ""

    @abstractmethod
    def effort(self, method: Spec) -> Mapping[str, float]:
        """Return how often methods are trained and unlearned: for the estimate before a run.

        Returns:
            By the label of a method, its own or a control's, how many times it does both.
        """

    def ready(self) -> None:
        """Start what the audit uses in all cells, before the first is measured."""

    def partitions(self, method: Spec) -> float:
        """Return how many partitions are made without training: also for the estimate."""
        return 0.0

    @staticmethod
    def auditor(catalogue: Catalogue, folder: Path | None = None) -> Compute:
        """Return the function that computes the record of a cell with an audit; consecutive cells share predictions.

        Args:
            catalogue: Where references and controls are found.
            folder: As in `Memory`.
        """
        memory = Memory(folder)
        last: list[str] = []

        def compute(cell: Cell, graph: Graph, context: RunContext) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
            subject = Subject(cell, graph, context.device, lambda name: resolve(catalogue, "unlearner", name), memory)
            # Predictions for one graph at a time: those for all would fill the memory of a long run.
            if last != [cell.dataset_label]:
                memory.forget()
                last[:] = [cell.dataset_label]
            assert cell.audit is not None
            cell.audit.build().ready()
            return measured(cell, context, lambda outcome: _examine(subject, outcome))

        return compute

    @abstractmethod
    def examine(self, subject: Subject) -> Finding:
        """Carry out the audit.

        Args:
            subject: The cell, its data, and how to train and evaluate methods on it.
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
        **({"measured": dict(finding.measured)} if finding.measured else {}),
    }
    outcome.arrays |= finding.arrays
    return "ok"
