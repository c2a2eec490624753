"""What comes of one run of a method, and how two runs differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from unlearnbench.audits.exactness.bits import answer_differences, equal_bits, state_differences
from unlearnbench.audits.exactness.graph_access import Log

Result = TypeVar("Result")


@dataclass(frozen=True)
class Run:
    """The result of one run.

    Args:
        before: State before the request.
        state: State after it, before any query.
        after_asking: State after all queries.
        answers: Log-probabilities by query.
        kept: What the method keeps apart from its state.
        log: Which graphs were read, in the sections `fit`, `unlearn` and `predict`.
        again: The answers to the same queries repeated; empty unless the run was `thorough`.
        noop: Answers before the request, over the graph without D; empty unless `thorough`.
        kept_before: What the method kept apart from its state before the request.
        stages: Its state, answers over the graph without all of D, and what it keeps after each of several requests
            but the last.
    """

    before: Mapping[str, Tensor]
    state: Mapping[str, Tensor]
    after_asking: Mapping[str, Tensor]
    answers: Mapping[str, Tensor]
    kept: Mapping[str, Tensor]
    log: Log
    again: Mapping[str, Tensor] = field(default_factory=dict)
    noop: Mapping[str, Tensor] = field(default_factory=dict)
    kept_before: Mapping[str, Tensor] = field(default_factory=dict)
    stages: tuple[Self, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as dicts and lists of tensors, as `in_own_process` returns them."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return own | {"log": self.log.plain(), "stages": [stage.plain() for stage in self.stages]}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """Return the run whose `plain` these are."""
        stages = tuple(cls.from_plain(stage) for stage in values["stages"])
        return cls(**{**values, "log": Log.from_plain(values["log"]), "stages": stages})

    def whole(self) -> dict[str, Tensor]:
        """Return the state and the kept partition."""
        return {**self.state, **{name: value for name, value in self.kept.items() if name == "partition"}}


def attempted(run: Callable[[], Result]) -> Result | str:
    """Run, or return why it fails: a faulty method may not cope with another order or other content."""
    try:
        return run()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a method may fail in any way
        return f"fails: {type(error).__name__}: {error}"


def outcome_of(other: Run | str, unlearned: Run) -> list[str]:
    """Describe how `unlearned` differs from a run, or that this one fails; empty: they are equal bit for bit."""
    return [other] if isinstance(other, str) else run_differences(unlearned, other)


def outcome(run: Callable[[], Run], unlearned: Run) -> list[str]:
    """Describe how `unlearned` differs from a run, or that the run fails; empty: they are equal bit for bit."""
    return outcome_of(attempted(run), unlearned)


def run_differences(one: Run, other: Run) -> list[str]:
    """Describe how two runs differ bit for bit: state and kept partition, then answers; empty: not at all."""
    state = state_differences(one.whole(), other.whole(), one.before)
    answers = answer_differences(one.answers, other.answers)
    if answers and not state:
        stale = [name for name in one.answers if name in one.noop and equal_bits(one.answers[name], one.noop[name])]
        answers += ", though the state is equal"
        if stale:
            answers += f", and are stale, those from before the request ({'; '.join(stale)})"
    return [text for text in (state, answers) if text]
