"""Converts a cell to JSON values and back: for records, for processes and for clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from unlearnbench.component import Spec, canonical_json, part_kinds
from unlearnbench.errors import UsageError
from unlearnbench.hookspecs import PROJECT
from unlearnbench.protocol import Forget, Protocol
from unlearnbench.protocol.poison import Poison
from unlearnbench.records.record import Record
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.resolve import labelled, spec_of
from unlearnbench.running.cell import Cell
from unlearnbench.task import Training

Plain = Mapping[str, Any]


def cell_to_plain(cell: Cell) -> dict[str, Any]:
    """Return a cell as JSON values for another process.

    Besides its canonical form they hold its key, for the reader to compare, the labels and the alias as the user
    wrote them, and the dataset with parameters that are no part of the canonical form, such as its location.
    """
    dataset = cell.dataset
    return {
        "key": cell.key,
        "cell": cell.canonical(),
        "dataset": {
            "name": f"{dataset.distribution}:{dataset.name}" if dataset.distribution else dataset.name,
            "params": dataset.params.model_dump(mode="json"),
        },
        "labels": {name: spec.label for name, spec in _specs(cell).items()},
        "alias": cell.method.alias,
    }


def cell_from_plain(plain: Plain, catalogue: Catalogue) -> Cell:
    """Rebuild the cell that `cell_to_plain` converted.

    Raises:
        UsageError: A component is missing here, or has another version than in the sending process.
    """
    entry = catalogue.find("dataset", plain["dataset"]["name"])
    cls = catalogue.load(entry)
    dataset = spec_of(entry, cls, cls.Params(**plain["dataset"]["params"]))
    cell = _cell(plain["cell"], dataset, catalogue)
    named: dict[str, Any] = {name: replace(spec, label=plain["labels"][name]) for name, spec in _specs(cell).items()}
    cell = replace(cell, **{**named, "method": replace(named["method"], alias=plain["alias"])})
    if cell.key != plain["key"]:
        raise UsageError(
            f"{cell.describe()}: here it is cell {cell.key}, where it comes from it is {plain['key']}.",
            "Components have other versions here: install the same ones and run the same command again.",
        )
    return cell


def cell_of_record(record: Record, catalogue: Catalogue) -> Cell:
    """Rebuild the cell of a record.

    Raises:
        UsageError: It cannot be rebuilt: a component is missing or has another version, the protocol
            differs, or the graph is a user's own. Names the first difference.
    """
    recorded = record.cell
    if ":" in recorded["dataset"]["name"]:
        raise UsageError(
            f"Its graph {recorded['dataset']['name']} is a user's own.", "Nobody else has it: publish it as a dataset."
        )
    cell = cell_of_canonical(recorded, catalogue)
    check_same_versions(recorded, cell.canonical())
    return cell


def cell_of_canonical(recorded: Plain, catalogue: Catalogue) -> Cell:
    """Rebuild a cell from its canonical form, with the versions that components have here.

    Raises:
        UsageError: A component is missing, or a value cannot be used.
    """
    try:
        return _cell(recorded, _spec("dataset", recorded["dataset"], catalogue), catalogue)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(item) for item in first["loc"])
        raise UsageError(
            f"A parameter cannot be used here: {where}: {first['msg']}.", "It is of another version."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"Its cell cannot be read ({type(error).__name__}: {error}).", "It is damaged.") from None


def check_same_versions(recorded: Plain, here: Plain) -> None:
    """Check that the parts of two canonical forms are the same.

    Raises:
        UsageError: They differ; names the first difference.
    """
    if canonical_json(here) != canonical_json(recorded):
        place, old, new = next(json_differences(recorded, here))
        raise UsageError(
            f"cell.{place} is {_short(old)}, here it is {_short(new)}.", "Install the versions it was made with."
        )


class Absent:
    """The placeholder for a key that one of two values lacks."""

    def __repr__(self) -> str:
        return "nothing"


def json_differences(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences between two JSON values: the dotted place and both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            inner = f"{place}.{key}" if place else str(key)
            yield from json_differences(one.get(key, Absent()), other.get(key, Absent()), inner)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from json_differences(left, right, f"{place}.{at}")
    elif isinstance(one, Absent) or isinstance(other, Absent) or canonical_json(one) != canonical_json(other):
        yield place, one, other


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _specs(cell: Cell) -> dict[str, Spec]:
    specs = {"dataset": cell.dataset, "model": cell.model, "method": cell.method}
    return specs if cell.audit is None else {**specs, "audit": cell.audit}


def _cell(canonical: Plain, dataset: Spec, catalogue: Catalogue) -> Cell:
    return Cell(
        _protocol(canonical["protocol"]),
        dataset,
        str(canonical["dataset"].get("sha256", "")),
        _spec("model", canonical["model"], catalogue),
        _spec("unlearner", canonical["method"], catalogue),
        Training.of(canonical["training"]),
        canonical["repetition"],
        canonical["seed"],
        str(canonical["device"]),
        _spec("audit", canonical["audit"], catalogue) if "audit" in canonical else None,
    )


def _protocol(canonical: Plain) -> Protocol:
    poison = canonical.get("poison")
    kind = canonical["forget"]["kind"]
    forget = Forget(kind=kind)
    if poison is None:
        ids = canonical["forget"].get("ids")
        if ids is not None:
            ids = tuple(tuple(one) if isinstance(one, list) else one for one in ids)
        amount = canonical["forget"]
        forget = Forget(amount.get("ratio"), amount.get("count"), ids, kind, amount.get("stream"))
    return Protocol(
        canonical["name"],
        Protocol().version,
        forget,
        canonical["split"] == "own",
        None if poison is None else Poison(**poison),
        canonical.get("setting", "inductive"),
    )


def _spec(kind: str, canonical: Plain, catalogue: Catalogue) -> Spec:
    return labelled(catalogue, _unlabelled(kind, canonical, catalogue))


def _unlabelled(kind: str, canonical: Plain, catalogue: Catalogue) -> Spec:
    entry = catalogue.find(kind, f"{canonical.get('distribution', PROJECT)}:{canonical['name']}")
    cls = catalogue.load(entry)
    kinds = part_kinds(cls.Params)
    values = {
        key: _unlabelled(kinds[key], value, catalogue) if key in kinds else value
        for key, value in canonical["params"].items()
    }
    return spec_of(entry, cls, cls.Params(**values), str(canonical.get("preset", "")))
