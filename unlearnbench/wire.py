"""What crosses the border between processes: cells as plain JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from unlearnbench.cells import Cell
from unlearnbench.component import Spec
from unlearnbench.errors import UsageError
from unlearnbench.plugins import Catalogue
from unlearnbench.poison import Poison
from unlearnbench.protocol import Protocol
from unlearnbench.requests import Forget
from unlearnbench.task import Training

Plain = dict[str, Any]


def cell_to_plain(cell: Cell) -> Plain:
    """Write a cell as JSON values; its key stands beside it, so that whoever reads it can compare."""
    return {
        "key": cell.key,
        "protocol": asdict(cell.protocol),
        "dataset": _spec_to_plain(cell.dataset),
        "checksum": cell.checksum,
        "model": _spec_to_plain(cell.model),
        "method": _spec_to_plain(cell.method),
        "training": cell.training.canonical(),
        "repetition": cell.repetition,
        "seed": cell.seed,
        "device": cell.device,
        "audit": None if cell.audit is None else _spec_to_plain(cell.audit),
    }


def cell_from_plain(plain: Plain, catalogue: Catalogue) -> Cell:
    """Make a cell of JSON values.

    Args:
        plain: What `cell_to_plain` gave.
        catalogue: Where components are found here.

    Raises:
        UsageError: A component is not there, or is another version than where the cell comes from.
    """
    rules = dict(plain["protocol"])
    forget, poison = dict(rules.pop("forget")), rules.pop("poison")
    if forget["ids"] is not None:
        forget["ids"] = tuple(tuple(one) if isinstance(one, list) else one for one in forget["ids"])
    cell = Cell(
        Protocol(**rules, forget=Forget(**forget), poison=None if poison is None else Poison(**poison)),
        _spec_from_plain(plain["dataset"], catalogue),
        plain["checksum"],
        _spec_from_plain(plain["model"], catalogue),
        _spec_from_plain(plain["method"], catalogue),
        Training.of(plain["training"]),
        plain["repetition"],
        plain["seed"],
        plain["device"],
        None if plain["audit"] is None else _spec_from_plain(plain["audit"], catalogue),
    )
    if cell.key != plain["key"]:
        raise UsageError(
            f"{cell.describe()}: here it is cell {cell.key}, where it comes from it is {plain['key']}.",
            "Components have other versions here: install the same ones and run the same command again.",
        )
    return cell


def _spec_to_plain(spec: Spec) -> Plain:
    parts = {key: _spec_to_plain(chosen) for key, chosen in spec.parts()}
    return {
        "kind": spec.kind,
        "name": f"{spec.distribution}:{spec.name}" if spec.distribution else spec.name,
        "preset": spec.preset,
        "label": spec.label,
        "params": spec.params.model_dump(mode="json", exclude=set(parts)),
        "parts": parts,
    }


def _spec_from_plain(plain: Mapping[str, Any], catalogue: Catalogue) -> Spec:
    entry = catalogue.find(plain["kind"], plain["name"])
    cls = catalogue.load(entry)
    parts = {key: _spec_from_plain(inner, catalogue) for key, inner in plain["parts"].items()}
    return Spec(
        kind=entry.kind,
        name=entry.name,
        version=cls.version,
        cls=cls,
        params=cls.Params(**plain["params"], **parts),
        preset=plain["preset"],
        distribution=entry.distribution,
        label=plain["label"],
    )
