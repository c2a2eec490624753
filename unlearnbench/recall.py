"""From a record back to the cell it is of, so that it can be checked and computed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from unlearnbench.cells import Cell, canonical_json
from unlearnbench.component import Spec, part_kinds
from unlearnbench.errors import UsageError
from unlearnbench.hookspecs import PROJECT
from unlearnbench.plugins import Catalogue
from unlearnbench.poison import Poison
from unlearnbench.protocol import Protocol
from unlearnbench.record import Record
from unlearnbench.requests import Forget
from unlearnbench.resolve import labelled
from unlearnbench.task import Training

Plain = Mapping[str, Any]


def cell_of_record(record: Record, catalogue: Catalogue) -> Cell:
    """Make the cell of a record again.

    Args:
        record: Of a run or an audit.
        catalogue: Where components are found here.

    Raises:
        UsageError: It cannot be made here: a component is not installed or has another version, the
            protocol is another, the graph is the user's own. Names the first difference.
    """
    told = record.cell
    if ":" in told["dataset"]["name"]:
        raise UsageError(
            f"Its graph {told['dataset']['name']} is a user's own.", "Nobody else has it: publish it as a dataset."
        )
    try:
        cell = Cell(
            _protocol(told["protocol"]),
            _spec("dataset", told["dataset"], catalogue),
            str(told["dataset"].get("sha256", "")),
            _spec("model", told["model"], catalogue),
            _spec("unlearner", told["method"], catalogue),
            Training.of(told["training"]),
            told["repetition"],
            told["seed"],
            str(told["device"]),
            _spec("audit", told["audit"], catalogue) if record.is_audit else None,
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(item) for item in first["loc"])
        raise UsageError(
            f"A parameter cannot be used here: {where}: {first['msg']}.", "It is of another version."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"Its cell cannot be read ({type(error).__name__}: {error}).", "It is damaged.") from None
    here = cell.canonical()
    if canonical_json(here) != canonical_json(told):
        place, old, new = next(differences(told, here))
        raise UsageError(
            f"cell.{place} is {_short(old)}, here it is {_short(new)}.", "Install the versions it was made with."
        )
    return cell


class Absent:
    """What stands where one of two values has nothing."""

    def __repr__(self) -> str:
        return "nothing"


def differences(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """List where two JSON values differ: the dotted place and both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            inner = f"{place}.{key}" if place else str(key)
            yield from differences(one.get(key, Absent()), other.get(key, Absent()), inner)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{place}.{at}")
    elif isinstance(one, Absent) or isinstance(other, Absent) or canonical_json(one) != canonical_json(other):
        yield place, one, other


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _protocol(told: Plain) -> Protocol:
    poison = told.get("poison")
    forget = Forget()
    if poison is None:
        ids, kind = told["forget"].get("ids"), told["forget"]["kind"]
        if ids is not None:
            ids = tuple(tuple(one) if isinstance(one, list) else one for one in ids)
        forget = Forget(told["forget"].get("ratio"), told["forget"].get("count"), ids, kind)
    version = Protocol().version
    return Protocol(told["name"], version, forget, told["split"] == "own", None if poison is None else Poison(**poison))


def _spec(kind: str, told: Plain, catalogue: Catalogue) -> Spec:
    return labelled(catalogue, _bare(kind, told, catalogue))


def _bare(kind: str, told: Plain, catalogue: Catalogue) -> Spec:
    entry = catalogue.find(kind, f"{told.get('distribution', PROJECT)}:{told['name']}")
    cls = catalogue.load(entry)
    kinds = part_kinds(cls.Params)
    values = {
        key: _bare(kinds[key], value, catalogue) if key in kinds else value for key, value in told["params"].items()
    }
    return Spec(
        kind=kind,
        name=entry.name,
        version=cls.version,
        cls=cls,
        params=cls.Params(**values),
        preset=str(told.get("preset", "")),
        distribution=entry.distribution,
    )
