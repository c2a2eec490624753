"""Which trial wins: the least loss over several graphs among those that keep validation F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unlearnbench.component import Spec
from unlearnbench.running.tuned import ANY_OTHER, Point, recipe_of
from unlearnbench.tuning.objective import Outcome
from unlearnbench.tuning.space import is_posthoc
from unlearnbench.tuning.studies import Trial


@dataclass(frozen=True)
class Study:
    """All trials of a method with a base model on one graph.

    Args:
        method: With its defaults.
        model: The base model.
        graph: The identity of the dataset.
        own_split: Whether the graph has a split of its own: its validation nodes are then test nodes nowhere.
        trials: By number.
    """

    method: Spec
    model: Spec
    graph: str
    own_split: bool
    trials: Mapping[int, Trial]

    @property
    def objective(self) -> str:
        """What the loss is."""
        return "distance" if is_posthoc(self.method) else "validation error"


@dataclass(frozen=True)
class Choice:
    """What is used on a graph.

    Args:
        study: One of the studies that it was chosen from: its method and base model.
        graph: The graph that it is for; empty: any that took no part.
        chosen_on: The graphs whose trials decided.
        trial: The number of the trial that won.
        point: Its values.
        loss: Its mean loss over `chosen_on`.
        default_loss: That of the defaults; None: they failed.
        within_margin: Whether it keeps validation F1 on each of them.
        trials: Trials a graph.
        failed: How many of them failed on some graph.
    """

    study: Study
    graph: str
    chosen_on: tuple[str, ...]
    trial: int
    point: Point
    loss: float
    default_loss: float | None
    within_margin: bool
    trials: int
    failed: int


def choices(studies: Sequence[Study], margin: float) -> list[Choice]:
    """Choose for each method and base model: for any other graph, and for each graph that took part.

    Validation nodes of a graph that is split by folds are test nodes of other repetitions: what is used on such a
    graph is chosen without it. A post-hoc method gets the recipe of Retrain that is chosen from the same graphs.

    Args:
        studies: Of one tuning.
        margin: How much lower than Retrain's validation F1 may be, in [0, 1].
    """
    made: list[Choice] = []
    retrain: dict[tuple[str, str], Point] = {}
    # Retrain goes first: others need its recipe.
    ordered = sorted(studies, key=lambda study: study.method.name != "retrain")
    for pair in dict.fromkeys((study.method.label, study.model.label) for study in ordered):
        those = [study for study in ordered if (study.method.label, study.model.label) == pair]
        for graph in (ANY_OTHER, *(study.graph for study in those)):
            pool = [study for study in those if study.graph != graph or study.own_split]
            one = choose(pool, margin, graph)
            if one is None:
                continue
            if pair[0] == "retrain":
                retrain[pair[1], graph] = one.point
            recipe = retrain.get((pair[1], graph), {}) if is_posthoc(one.study.method) else {}
            point = {**one.point, **{f"training.{name}": value for name, value in recipe_of(recipe).items()}}
            made.append(Choice(**{**one.__dict__, "point": point}))
    return made


def choose(pool: Sequence[Study], margin: float, graph: str = ANY_OTHER) -> Choice | None:
    """Choose one trial from studies of one method; None: there is no study, or every trial failed.

    Among trials within the margin on every graph the least mean loss wins, the earlier one of equals. If there is
    none, the one that falls short least.
    """
    if not pool:
        return None
    numbers = sorted(set.intersection(*(set(study.trials) for study in pool)))
    outcomes = {number: [study.trials[number].outcome for study in pool] for number in numbers}
    done = {n: [one for one in several if one is not None] for n, several in outcomes.items() if None not in several}
    if not done:
        return None
    losses = {number: float(np.mean([one.loss for one in several])) for number, several in done.items()}
    short = {number: max(map(_shortfall, several)) for number, several in done.items()}
    within = [number for number in done if short[number] <= margin]
    best = min(within, key=lambda n: (losses[n], n)) if within else min(done, key=lambda n: (short[n], n))
    return Choice(
        study=pool[0],
        graph=graph,
        chosen_on=tuple(study.graph for study in pool),
        trial=best,
        point=pool[0].trials[best].point,
        loss=losses[best],
        default_loss=losses.get(0),
        within_margin=bool(within),
        trials=len(numbers),
        failed=len(numbers) - len(done),
    )


def _shortfall(outcome: Outcome) -> float:
    return 0.0 if outcome.retrain_f1 is None else outcome.retrain_f1 - outcome.f1
