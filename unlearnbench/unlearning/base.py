"""`Unlearner`, the interface of all methods, and the claims they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from torch import Tensor

from unlearnbench.component import Component
from unlearnbench.protocol import Request, Setting
from unlearnbench.protocol.requests import Kind
from unlearnbench.task import Query, Task


class Claim(Enum):
    """What a method claims about its forgetting.

    `EXACT`: the state is that of a run that never saw the data. `EXACT_GIVEN_PARTITION`: the
    same, given the partition that was kept. `CERTIFIED`: it is close, within a proven bound.
    `APPROXIMATE`: it is meant to be close. `NONE`: nothing is forgotten.
    """

    EXACT = "exact"
    EXACT_GIVEN_PARTITION = "exact-given-partition"
    CERTIFIED = "certified"
    APPROXIMATE = "approximate"
    NONE = "none"


class Unlearner(Component, ABC):
    """Trains on a task, forgets a part of it on request, and predicts.

    After `unlearn` it may hold nothing of the former task except what `kept` names.

    Attributes:
        claim: What it claims about its forgetting.
        forgets: Kinds of requests that it serves; a run with another kind stops before any training.
        settings: Settings that it supports; a run in another one stops before any training. In the transductive
            setting it trains on `Task.seen`, or `Task.parts`, and leaves nodes with the label -1 out of losses.
        uses_training: Whether its networks are trained as `task.training` says; where not, `tune` leaves the
            recipe alone.
        released: Parameters of the authors' code where they are not the defaults; `tune` tries them first.
        models: Names of the base models that it supports; None: any. A run with none of them stops
            before any training; in a run with some of them, each other model becomes a record of a refusal.
        claim_reason: What qualifies the claim. Of a kept partition what it depends on, `ids` or `content`; else a
            bound or a condition in a few words, such as `epsilon 1, delta 0.0001`.
        supports_edge_weight: Whether it uses the weights of edges where they have some, or passes graphs on to models
            that do; a run on a graph with weights stops before any training otherwise.
        deletes_at_inference: Whether the forgotten nodes and their edges are removed from the graph it
            passes messages over. False is for a control that does nothing at all: it is scored with
            the graph as it was before the request, and its record notes this.
    """

    kind = "unlearner"
    claim: Claim = Claim.NONE
    claim_reason: str = ""
    forgets: ClassVar[frozenset[Kind]] = frozenset({"node"})
    settings: ClassVar[frozenset[Setting]] = frozenset({"inductive"})
    models: ClassVar[frozenset[str] | None] = None
    uses_training: ClassVar[bool] = True
    released: ClassVar[Mapping[str, Any]] = {}
    supports_edge_weight: bool = False
    deletes_at_inference: bool = True

    @classmethod
    def references(cls, params: Any) -> Sequence[str]:
        """Return brackets of methods that a run adds to this one, as it adds Retrain, for tables to compare with.

        Args:
            params: An instance of the class's own `Params`.
        """
        return ()

    @abstractmethod
    def fit(self, task: Task) -> None:
        """Train from scratch.

        Args:
            task: The training nodes and the edges among them.

        Raises:
            RefusedError: The model or the graph does not suit the method.
        """

    @abstractmethod
    def unlearn(self, request: Request, retained: Task) -> None:
        """Forget the nodes, edges or features of a request. Afterwards no tensor of the former task may be held.

        Args:
            request: What to forget: `request.kind` says which.
            retained: The task without it; forgotten features are zero.

        Raises:
            RefusedError: It cannot be served.
        """

    @abstractmethod
    def predict(self, query: Query) -> Tensor:
        """Return log-probabilities, floating point [len(query.targets), C], on the query's device; changes no state."""

    @abstractmethod
    def state(self) -> Mapping[str, Tensor]:
        """Return the deployed parameters by name, such as `members/003/conv1.weight`, on the task's device or the CPU.

        What is not listed is not deployed.
        """

    def kept(self) -> Mapping[str, Tensor]:
        """Return what is kept between requests apart from the state.

        At most `{"partition": int64 [[node id, shard], ...]}` of the retained nodes.
        """
        return {}

    def memory(self) -> Mapping[str, Tensor]:
        """Return what else it needs to go on in another process: tensors by name, for `resume`."""
        return {}

    def resume(
        self, task: Task, state: Mapping[str, Tensor], kept: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> None:
        """Go on where another instance stopped, so that nothing later shows that it is another one.

        A subclass that overrides `unlearn`, `state` or `kept`, or keeps anything more, overrides this too. One that
        does not is trained again and served every former request, for which all former data must be there.

        Args:
            task: What is retained.
            state: What the other one's `state` returned.
            kept: What its `kept` returned.
            memory: What its `memory` returned.
        """
        raise NotImplementedError

    def can_resume(self) -> bool:
        """Whether `resume` fits the class: no subclass of the one that defines it overrides what it must know of."""
        names, mro = ("resume", "unlearn", "state", "kept"), type(self).__mro__
        depths = [next(place for place, base in enumerate(mro) if name in vars(base)) for name in names]
        return depths[0] == min(depths) and mro[depths[0]] is not Unlearner


def of_member(state: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    """Return the parameters of one member by name, from what `Unlearner.state` returned."""
    prefix = f"members/{number:03d}/"
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
