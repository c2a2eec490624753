"""Cells: the points of a grid, with their canonical JSON and key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unlearnbench.component import Spec, canonical_json
from unlearnbench.hookspecs import PROJECT
from unlearnbench.protocol import Protocol
from unlearnbench.task import Training

KEY_DIGITS = 32


@dataclass(frozen=True)
class Cell:
    """One point of the grid: a run, or an audit.

    `checksum` is that of the dataset's graph; `repetition` says which split and request; `seed` is the base of
    every seed; and `device` is `cpu` or `cuda`: each kind of device has cells of its own.
    """

    protocol: Protocol
    dataset: Spec
    checksum: str
    model: Spec
    method: Spec
    training: Training
    repetition: int
    seed: int
    device: str
    audit: Spec | None = None

    def canonical(self) -> dict[str, Any]:
        """Return plain JSON values: all parameters, including defaults, and every version."""
        values = {
            "protocol": self.protocol.canonical(),
            "dataset": {**self.dataset.canonical(), "sha256": self.checksum},
            "model": self.model.canonical(),
            "method": self.method.canonical(),
            "training": self.training.canonical(),
            "repetition": self.repetition,
            "seed": self.seed,
            "device": self.device,
        }
        return values if self.audit is None else {**values, "audit": self.audit.canonical()}

    @cached_property
    def key(self) -> str:
        """The hash of the canonical JSON."""
        return key_of(self.canonical())

    def distributions(self) -> set[str]:
        """Return the distributions of all its components."""
        specs = (self.dataset, self.model, self.method, *([] if self.audit is None else [self.audit]))
        return set().union(*(spec.distributions() for spec in specs))

    def runs_foreign_code(self) -> bool:
        """Whether its method or its model comes from another distribution than ours."""
        return not self.method.distributions() | self.model.distributions() <= {PROJECT}

    @property
    def dataset_identity(self) -> str:
        """The dataset as seeds are derived from it: its name and parameters."""
        return identity_of(self.dataset)

    @property
    def dataset_label(self) -> str:
        """The dataset as the user wrote it."""
        return self.dataset.label or self.dataset.name

    def describe(self) -> str:
        """Return a short description, for lines of progress."""
        what = f"{self.dataset_label} {self.model.label} {self.method.shown} repetition {self.repetition}"
        return what if self.audit is None else f"{self.audit.label}: {what}"


def key_of(canonical: Mapping[str, Any]) -> str:
    """Return the key of a cell with this canonical form."""
    return hashlib.sha256(canonical_json(canonical).encode()).hexdigest()[:KEY_DIGITS]


def identity_of(dataset: Spec) -> str:
    """Return a dataset as seeds are derived from it: its name and parameters, without its location."""
    params = dataset.canonical()["params"]
    return dataset.name + (canonical_json(params) if params else "")
