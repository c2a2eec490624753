"""How networks are trained, and the listener that follows the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from torch import Tensor

from unlearnbench.graph import Graph

# From a graph and positions in it to the logits [S, n, C] of the networks in training as they are; None if the graph
# has other columns than those they are trained on.
Answer = Callable[[Graph, Tensor], Tensor | None]
# Takes the loss of each network over the epoch that has ended: float32 [S].
AfterEpoch = Callable[[Tensor], None]


@dataclass(frozen=True)
class Training:
    """How every network is trained: Adam on the mean cross-entropy.

    Args:
        epochs: Passes over the whole shard: one step each, unless there are batches.
        lr: Learning rate.
        weight_decay: L2 penalty added to the gradient, as Adam (not AdamW) does.
        one_by_one: Train networks one after the other instead of in lockstep: slower, the same
            bits on a CPU, and each network's time is measured.
        batch_size: Nodes of a step, in a new random order in each epoch; the subgraph of a step is induced by
            them and their sampled neighbours. 0: the whole shard in one step.
        fanouts: With batches: how many neighbours of a node are sampled at most, for each hop.
    """

    epochs: int = 100
    lr: float = 0.01
    weight_decay: float = 5e-4
    one_by_one: bool = False
    batch_size: int = 0
    fanouts: tuple[int, ...] = (5, 5)

    def canonical(self) -> dict[str, Any]:
        """Return plain JSON values; without batches the settings of batches are left out."""
        values = asdict(self)
        if not self.batch_size:
            del values["batch_size"], values["fanouts"]
        return values

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Training:
        """Create it from what `canonical` returned.

        Raises:
            KeyError: A value is missing.
            TypeError: A value is unknown, or is not a list of numbers.
        """
        with_batches = {"fanouts": tuple(plain["fanouts"])} if plain.get("batch_size") else {}
        needed = {name: plain[name] for name in ("epochs", "lr", "weight_decay", "one_by_one")}
        return cls(**{**plain, **needed, **with_batches})


class Listener(Protocol):
    """The harness's side of a task: its clock, memory readings and counts."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return a context that is measured."""
        ...

    def count(self, **amounts: int) -> None:
        """Add to named counts."""
        ...

    def epoch(self, number: int, total: int) -> None:
        """Note that an epoch begins, counted from 1."""
        ...

    def follow(self, role: str, step: int, networks: Sequence[int], answer: Answer) -> AfterEpoch | None:
        """Return what to call after each epoch of a training; None: nobody follows it, and nothing is computed.

        Args:
            role: What the networks are for, as in `train_networks`.
            step: Number of this training in a sequence.
            networks: The networks' numbers.
            answer: Evaluates the networks as they are at the time of the call.
        """
        ...


class Silent:
    """A listener that measures nothing."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def count(self, **amounts: int) -> None:
        """Do nothing."""

    def epoch(self, number: int, total: int) -> None:
        """Do nothing."""

    def follow(self, role: str, step: int, networks: Sequence[int], answer: Answer) -> AfterEpoch | None:
        """Return None."""
        return None
