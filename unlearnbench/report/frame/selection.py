"""Which of the records at hand a table is made of: those of an experiment, or of some datasets, models and methods."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError, UsageError, unknown_name
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.report.frame.aliases import aliased
from unlearnbench.report.frame.record_groups import GROUP, REFERENCE
from unlearnbench.running.options import TUNED


@dataclass(frozen=True)
class Selection:
    """What a user asks for; empty: everything.

    Args:
        experiment: Name of an experiment: the cells that `run --experiment` makes.
        datasets: Names of datasets.
        models: Names of models, or brackets.
        methods: Methods as `run --methods` takes them, or aliases; Retrain and their own references stay.
        protocol: Name of a protocol.
        forget: What a request has of `kind`, `ratio` and `count`.
    """

    experiment: str = ""
    datasets: Sequence[str] = ()
    models: Sequence[str] = ()
    methods: Sequence[str] = ()
    protocol: str = ""
    forget: Sequence[tuple[str, Any]] = ()

    def options(self) -> str:
        """Write it as on a command line, with a space in front; empty where everything is asked for."""
        lists = {"datasets": self.datasets, "models": self.models, "methods": self.methods}
        given = {
            "experiment": self.experiment,
            **{name: ",".join(names) for name, names in lists.items()},
            "protocol": self.protocol,
            **{f"forget-{name}": str(value) for name, value in self.forget},
        }
        return "".join(f" --{name} {shlex.quote(text)}" for name, text in given.items() if text)


def select(frame: pd.DataFrame, wanted: Selection, catalogue: Catalogue) -> pd.DataFrame:
    """Keep the rows that are asked for.

    Args:
        frame: What `load_records` or `load_audits` gave.
        wanted: What is asked for.
        catalogue: Where names are looked up; a method that nobody brings here is told by its name
            in the records.

    Raises:
        UsageError: There is no such experiment.
        NothingMatchedError: A name stands in no record, or no record is left; says what there is.
    """
    selected = frame
    if wanted.experiment:
        from unlearnbench.report.frame.planned import of_experiment  # imports torch

        selected = frame[of_experiment(frame, wanted.experiment, catalogue)]
        if selected.empty:
            raise NothingMatchedError(
                f"No record is of experiment {wanted.experiment}.",
                f"Make some: `unlearnbench run --experiment {wanted.experiment}`.",
            )
    if wanted.protocol or wanted.forget:
        selected = selected[_requested(selected, wanted)]
    for column, names in (("dataset", wanted.datasets), ("model", wanted.models), ("method", wanted.methods)):
        if names:
            selected = selected[_named(selected, column, names, catalogue)]
    if selected.empty:
        raise NothingMatchedError("No record is of all that was asked for.", "Ask for less.")
    selected = aliased(selected.reset_index(drop=True), _aliases(wanted.methods, catalogue))
    selected.attrs = frame.attrs
    return selected


def _requested(frame: pd.DataFrame, wanted: Selection) -> pd.Series[bool]:
    """Mark the rows of a protocol and of a kind and size of requests."""

    def fits(config: str) -> bool:
        protocol = json.loads(config)
        forget = {"kind": "node", **protocol.get("forget", {})}
        named = wanted.protocol in ("", protocol.get("name"))
        return named and all(forget.get(name) == value for name, value in wanted.forget)

    fitting = {config for config in frame["protocol_config"].unique() if fits(config)}
    rows = frame["protocol_config"].isin(fitting)
    if not rows.any():
        there = dict.fromkeys(
            f"{forget} with {name}" for forget, name in zip(frame["forget"], frame["protocol"], strict=True)
        )
        raise NothingMatchedError("No record is of this request and protocol.", f"There are: {', '.join(there)}.")
    return rows


def _aliases(methods: Sequence[str], catalogue: Catalogue) -> dict[str, str]:
    """Return the aliases that methods are asked for with, by their configurations."""
    given: dict[str, str] = {}
    for method in methods:
        with contextlib.suppress(UsageError):  # a name in the records alone
            spec = resolve(catalogue, "unlearner", method)
            given |= {canonical_json(spec.canonical()): spec.alias} if spec.alias else {}
    return given


def _named(frame: pd.DataFrame, column: str, names: Sequence[str], catalogue: Catalogue) -> pd.Series[bool]:
    """Mark the rows that any of the names means, with what methods are measured by; every name must mean one."""
    keep = pd.Series(False, index=frame.index)
    for name in names:
        rows = _meant(frame, column, name, catalogue)
        if not rows.any():
            hint = unknown_name(column, name, set(frame[column])).hint.replace("Known:", "There are:")
            raise NothingMatchedError(f"No record is of {column} {name!r}.", hint)
        keep |= rows
    if column != "method" or "method_name" not in frame:
        return keep
    from unlearnbench.report.frame.planned import references  # imports torch

    # What others are measured by stays where there are others.
    beside = (frame["method_name"] == REFERENCE) | frame["method_config"].isin(references(names, catalogue))
    group = frame.groupby(list(GROUP), sort=False).ngroup()
    return keep | (beside & group.isin(group[keep].unique()))


def _meant(frame: pd.DataFrame, column: str, name: str, catalogue: Catalogue) -> pd.Series[bool]:
    if column == "dataset":
        return frame["dataset"] == name
    kind = "unlearner" if column == "method" else "model"
    same = frame[column] == name
    if column == "method":  # a tuned row is named with its values
        same |= frame["method"].str.fullmatch(rf"{re.escape(name)}(\[.*\])? \({TUNED}\)")
    try:
        return same | (frame[f"{column}_config"] == canonical_json(resolve(catalogue, kind, name).canonical()))
    except UsageError:
        return same
