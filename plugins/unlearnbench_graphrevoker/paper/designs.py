"""Ablations: methods that differ in nothing but weights set to 0, told by their canonical parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from unlearnbench.report import RecordGroup, canonical_json

METHOD = "graphrevoker"
WHOLE = "all losses"


@dataclass(frozen=True)
class Ablated:
    """What an ablation takes away.

    Args:
        part: The component that has the weights.
        losses: Weight to the loss it scales, in the order of the rows.
    """

    part: str
    losses: Mapping[str, str]

    def design(self, zero: frozenset[str]) -> str:
        """Name the design whose weights in `zero` are 0."""
        without = [loss for weight, loss in self.losses.items() if weight in zero]
        return f"without {' and '.join(without)}" if without else WHOLE


ABLATIONS = {
    "partition-ablation": Ablated("partitioner", {"sem_weight": "L_sem", "time_weight": "L_time"}),
    "aggregation-ablation": Ablated("aggregator", {"contra_weight": "L_contra", "recon_weight": "L_recon"}),
}


@dataclass(frozen=True)
class Designs:
    """A whole method and what is left of it without one or more of its losses.

    Args:
        whole: The row with all losses.
        rows: Weights that are 0 to the row, the whole method first, then fewer before more.
    """

    whole: str
    rows: Mapping[frozenset[str], str]


def weights(config: str, ablated: Ablated) -> dict[str, float] | None:
    """Read the weights of an ablation from the canonical JSON of a method; None where it lacks them."""
    part = json.loads(config).get("params", {}).get(ablated.part)
    params = part.get("params", {}) if isinstance(part, dict) else {}
    if not all(isinstance(params.get(name), int | float) for name in ablated.losses):
        return None
    return {name: float(params[name]) for name in ablated.losses}


def lacks(config: str) -> frozenset[str]:
    """Name the weights of any ablation that a method sets to 0."""
    return frozenset(
        name for ablated in ABLATIONS.values() for name, value in (weights(config, ablated) or {}).items() if value == 0
    )


def find_designs(group: RecordGroup, ablated: Ablated) -> list[Designs]:
    """Find each whole method in a group, with the rows that differ from it in weights set to 0 alone.

    A whole method without any such row is left out.
    """
    methods = group.frame[group.frame["method_name"] == METHOD].drop_duplicates("method_config")
    known: dict[str, list[tuple[dict[str, float], str]]] = {}
    for config, row in zip(methods["method_config"], methods["row"], strict=True):
        weighted = weights(config, ablated)
        if weighted is not None:
            known.setdefault(_rest(config, ablated), []).append((weighted, row))
    designs = []
    for alike in known.values():
        for whole, name in (one for one in alike if all(one[0].values())):
            rows = {
                frozenset(key for key in whole if not mine[key]): row
                for mine, row in alike
                if all(mine[key] in (0, whole[key]) for key in whole)
            }
            if len(rows) > 1:
                order = sorted(rows, key=lambda zero: (len(zero), [key not in zero for key in ablated.losses]))
                designs.append(Designs(name, {zero: rows[zero] for zero in order}))
    return sorted(designs, key=lambda one: group.rows.index(one.whole))


def _rest(config: str, ablated: Ablated) -> str:
    """Write a method's configuration without the weights."""
    tree = json.loads(config)
    for name in ablated.losses:
        del tree["params"][ablated.part]["params"][name]
    return canonical_json(tree)
