"""The keys of `--set KEY=VALUE`: training, poison and seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from unlearnbench.errors import UsageError, nearest
from unlearnbench.protocol.poison import Manipulation, Poison
from unlearnbench.task import Training

_TRAINING = {"lr": float, "weight_decay": float, "epochs": int, "batch_size": int, "fanouts": tuple}
_POISON = ("poison.nodes", "poison.edges", "poison.manipulation", "poison.known")
# Fewer of a graph's own thousands would do no harm.
_SPURIOUS_EDGES = 1000


def training(given: Mapping[str, Any], *, one_by_one: bool, epochs: int | None, batch_size: int | None) -> Training:
    """Return how networks are trained, by the values of `--set` and the options of the same names, None if not given.

    Raises:
        UsageError: An unknown key, a value out of range, or a setting given twice.
    """
    values: dict[str, Any] = {"one_by_one": one_by_one}
    for key, value in given.items():
        scope, _, name = key.partition(".")
        if scope == "training":
            if name not in _TRAINING:
                raise unknown_setting(key, [f"training.{name}" for name in _TRAINING])
            values[name] = _fanouts(key, value) if name == "fanouts" else _number(key, value, _TRAINING[name])
        elif scope not in ("model", "poison") and key != "seed":
            known = [*(f"training.{name}" for name in _TRAINING), "model.PARAMETER", *_POISON, "seed"]
            raise unknown_setting(key, known)
    for name, value in (("epochs", epochs), ("batch_size", batch_size)):
        if value is not None and name in values:
            raise UsageError(
                f"training.{name} is given twice, by `{name}` and by `set`.", f"Use one of `{name}` and `set`."
            )
        if value is not None:
            values[name] = value
    if values.get("epochs") == 0:
        raise UsageError("`set` training.epochs=0: out of range.", "Train for at least one epoch.")
    if "fanouts" in values and not values.get("batch_size"):
        raise UsageError("`set` training.fanouts: there are no batches.", "Add `batch_size` 512.")
    return Training(**values)


def poison(given: Mapping[str, Any]) -> Poison:
    """Return what is made wrong.

    Raises:
        UsageError: No setting of the poison, or a value out of range.
    """
    values: dict[str, Any] = {}
    for key, value in _of_poison(given).items():
        if key not in _POISON:
            raise unknown_setting(key, list(_POISON))
        name = key.partition(".")[2]
        if name == "manipulation":
            values[name] = _manipulation(key, value)
            continue
        number = values[name] = _number(key, value, float if name == "known" else int)
        if number <= 0:
            raise UsageError(f"`set` {key}={value}: out of range.", "Give a positive number.")
        if name == "known" and number > 1:
            raise UsageError(f"`set` {key}={value}: out of range.", "Give a share of at most 1; 25 % is 0.25.")
    unused = {"label": "edges", "edge": "nodes"}.get(values.get("manipulation", ""))
    if unused in values:
        raise UsageError(
            f"`set` poison.{unused}: nothing is said of {unused} where {values['manipulation']}s are manipulated.",
            "Leave it out.",
        )
    if unused == "nodes":
        values.setdefault("edges", _SPURIOUS_EDGES)
    return Poison(**values)


def check_no_poison(given: Mapping[str, Any]) -> None:
    """Raise a UsageError if there are settings of a poison, where nothing is injected."""
    for key in _of_poison(given):
        raise UsageError(f"`set` {key}: nothing is injected.", "Add `protocol` poison.")


def base_seed(given: Mapping[str, Any]) -> int:
    """Return the seed that every other one is derived from.

    Raises:
        UsageError: It is no number below 2^63.
    """
    number = int(_number("seed", given.get("seed", 0), int))
    if number >= 2**63:
        raise UsageError(f"`set` seed={number}: out of range.", "Give a number below 2^63.")
    return number


def unknown_setting(key: str, known: list[str]) -> UsageError:
    """Make the error for a key of `--set` that means nothing."""
    close = nearest(key, known, 1)
    guess = f"Did you mean {close[0]}? " if close else ""
    return UsageError(f"`set` {key}: no such setting.", f"{guess}Known: {', '.join(known)}.")


def _of_poison(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key.partition(".")[0] == "poison"}


def _manipulation(key: str, value: Any) -> str:
    known = get_args(Manipulation)
    if value not in known:
        raise UsageError(f"`set` {key}={value}: unknown.", f"Give one of: {', '.join(known)}.")
    return str(value)


def _fanouts(key: str, value: Any) -> tuple[int, ...]:
    """Read numbers of neighbours, hop by hop: 10,7 or a list."""
    parts = value if isinstance(value, list | tuple) else str(value).split(",")
    numbers = tuple(_number(key, part, int) for part in parts)
    if not numbers or 0 in numbers:
        raise UsageError(f"`set` {key}={value}: out of range.", "Example: `set` training.fanouts=10,7, one a hop.")
    return numbers


def _number(key: str, value: Any, kind: type[Any]) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"`set` {key}={value}: not a number.", "Give a number.") from None
    if isinstance(value, bool) or (isinstance(value, float) and number != value):
        raise UsageError(f"`set` {key}={value}: not a whole number.", "Give a whole number.")
    if not 0 <= number < float("inf"):
        raise UsageError(f"`set` {key}={value}: out of range.", "Give a finite number that is not negative.")
    return number
