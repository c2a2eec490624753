"""What is tuned: the ranges that parameters declare, and the points of them that are tried."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import qmc

from unlearnbench import seeds
from unlearnbench.component import Range, Spec, search_ranges
from unlearnbench.errors import UsageError
from unlearnbench.running.tuned import Point
from unlearnbench.unlearning import PostHoc

RECIPE = {
    "training.epochs": Range(50, 300, log=True),
    "training.lr": Range(0.001, 0.03, log=True),
    "training.weight_decay": Range(1e-5, 5e-3, log=True),
}


def is_posthoc(method: Spec) -> bool:
    """Whether a method changes the network that Retrain's recipe trains, so that its distance to Retrain is tuned."""
    return issubclass(method.cls, PostHoc)


def space_of(method: Spec) -> dict[str, Range]:
    """Return what is tuned of a method: its own parameters, and the recipe of the networks that it trains itself.

    Raises:
        UsageError: It has nothing to tune.
    """
    space = dict(_declared(method))
    if not is_posthoc(method) and method.innermost().cls.uses_training:
        space |= RECIPE
    if not space:
        raise UsageError(
            f"{method.label} has nothing to tune.",
            "Leave it out, or declare ranges: `json_schema_extra=search(LOW, HIGH)` in its Params.",
        )
    return space


def points(method: Spec, seed: int, count: int) -> list[Point]:
    """Return the points to try: the defaults, the released values if there are any, and some that fill the space.

    They depend on the space, the seed and their place alone, never on results: more of them begin with the same
    ones, and what one graph showed cannot reach the choice for another one through them.

    Args:
        method: With its defaults.
        seed: Another seed, another sequence.
        count: How many, the defaults included.
    """
    space = space_of(method)
    first: list[Point] = [{}, *([dict(method.cls.released)] if method.cls.released else [])]
    rng = np.random.default_rng(seeds.seed(seed, "tuning", *space))
    shares = qmc.Halton(len(space), scramble=True, seed=rng).random(max(0, count - len(first)))
    filled = [{name: space[name].at(share) for name, share in zip(space, row, strict=True)} for row in shares.tolist()]
    return [*first, *filled][:count]


def _declared(spec: Spec, head: str = "") -> Mapping[str, Range]:
    found = {f"{head}{name}": values for name, values in search_ranges(type(spec.params)).items()}
    for name, chosen in spec.parts():
        found |= _declared(chosen, f"{head}{name}.")
    return found
