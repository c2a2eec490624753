"""What is known of each method's forgetting, one row a method: audits, F1 and time side by side, and no total."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.commands import run_command
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import MICRO_F1, short_name, unit
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import REFERENCE, distinguish, retrains
from unlearnbench.report.tables.audits import FACETS, NO_GATE, PLACE, joined, place_name, provenance
from unlearnbench.report.tables.columns import RATIO, time_notes
from unlearnbench.report.tables.evidence import (
    DISTANCE,
    EVIDENCE,
    OLDER,
    Cell,
    Evidence,
    audited,
    audits_of,
    latest_rows,
    scored,
    timed,
)
from unlearnbench.report.tables.notes import Note, details
from unlearnbench.report.tables.sentences import gains, sentence
from unlearnbench.report.tables.table import Table

NAME = "forgetting"
EMPTY = (
    "Empty: no record. cannot tell: the audit ran, and its controls say that its number is no evidence, or it has none."
)
GATELESS = "no gate: `unlearnbench audit controls` was not run here, so the distance stands on its own control alone."
SEVERAL = (
    "In brackets 95 % intervals: of a single record its own, of several that of their mean, which allows"
    " neither for splits that overlap nor for the uncertainty of each."
)
LATEST = "{method}, {audit}: of {count} settings of the audit the latest version with the most records is shown."
SCORE = "mean on the test nodes after the request ± sample standard deviation, in view {view}."
TIME = "unlearning time over Retrain's, geometric mean of the ratios within repetitions."


@dataclass(frozen=True)
class Head:
    """A column of numbers or verdicts: its name in raw data, its head, and what a cell of it says."""

    name: str
    title: str
    meaning: str


@dataclass(frozen=True, eq=False)
class Place:
    """All that is known of the methods audited with one protocol, dataset, model, training and device.

    Args:
        audits: The part of `load_audits`.
        runs: The group of runs with the same request; None where there are none.
        configs: The methods, by canonical configuration, in the order of rows.
        names: Their names.
    """

    audits: pd.DataFrame
    runs: Aggregate | None
    configs: tuple[str, ...]
    names: dict[str, str]

    @property
    def metric(self) -> str:
        """The metric of the columns of F1."""
        return self.runs.metric if self.runs else MICRO_F1

    def heads(self) -> tuple[Head, ...]:
        """Return the columns behind method and claim."""
        title = f"{short_name(self.metric)} {{view}}{unit(self.metric)}"
        of_runs = (Head(f"{self.metric}_{v}", title.format(view=v), SCORE.format(view=v)) for v in VIEWS)
        of_audits = (Head(one.name, one.title, one.meaning) for one in EVIDENCE)
        return (*of_audits, *of_runs, Head("times_retrain", RATIO.title, TIME))

    def claim(self, config: str) -> str:
        """Return what a method claims."""
        return joined(self._claims.get(config, ()))

    @cached_property
    def _claims(self) -> dict[str, list[str]]:
        """The claims in records, by configuration; those of audits, which have reasons, before those of runs."""
        seen = [self.audits] if self.runs is None else [self.audits, self.runs.chosen]
        names, claims = ["method_config", "claim", "machine", "key"], dict[str, list[str]]()
        for one in seen:
            known = set(claims)
            for config, claim, *_ in dict.fromkeys(one[names].itertuples(index=False)):
                if claim and config not in known:
                    claims.setdefault(config, []).append(claim)
        return claims

    @cached_property
    def rows(self) -> dict[str, tuple[Cell, ...]]:
        """The cells of each row, by configuration, in the order of `heads`."""
        return {config: self._row(config) for config in self.configs}

    @cached_property
    def _by_config(self) -> dict[str, list[Row]]:
        return rows_by(self.audits, "method_config", self.audits.columns)

    def _row(self, config: str) -> tuple[Cell, ...]:
        columns, rows = dict[str, list[Evidence]](), self._by_config.get(config, [])
        for one in EVIDENCE:
            columns.setdefault(one.audit, []).append(one)
        found = {
            one.name: cell
            for name, of_audit in columns.items()
            for one, cell in zip(of_audit, audited(of_audit, latest_rows(rows, name)), strict=True)
        }
        return (
            *(found[one.name] for one in EVIDENCE),
            *(scored(self.runs, config, view) for view in VIEWS),
            timed(self.runs, config),
        )


def forgetting_places(groups: Sequence[Aggregate], audits: pd.DataFrame | None) -> Iterator[Place]:
    """Yield every place where an audit ran, with the runs that have the same request."""
    if audits is None:
        return
    by_place = {tuple(one.group.facets[name] for name in PLACE): one for one in groups}
    for place, part in audits.groupby(list(PLACE), sort=False):
        runs = by_place.get(tuple(map(str, place)))
        methods = part[["method_config", "method"]]
        if runs is not None:
            methods = pd.concat([methods, runs.group.frame[["method_config", "method"]]])
        names = distinguish(dict(zip(methods["method_config"], methods["method"], strict=True)))
        order = sorted(names, key=lambda config: (not retrains(config), names[config]))
        yield Place(part, runs, tuple(order), names)


def forgetting_table(place: Place) -> Table:
    """Build the table of a place."""
    heads, first = place.heads(), place.audits.iloc[0]
    shown, data = [], []
    for config, cells in place.rows.items():
        line = {"table": NAME, **first[list(FACETS)], "method": place.names[config], "claim": place.claim(config)}
        shown.append({name: line[name] for name in ("method", "claim")})
        for head, cell in zip(heads, cells, strict=True):
            shown[-1][head.title] = cell.text
            line |= _raw(head, cell)
        data.append({**line, "method_config": config, **first[[name for name in PLACE if name not in FACETS]]})
    sentences = tuple(filter(None, (_sentence(place, config) for config in place.configs)))
    return Table(
        NAME,
        f"What is known of each method's forgetting: {place_name(place.audits)}.",
        pd.DataFrame(shown),
        pd.DataFrame(data),
        tuple(_notes(place, heads, [cell for cells in place.rows.values() for cell in cells])),
        sentences=sentences,
    )


def _sentence(place: Place, config: str) -> str:
    """Say in one sentence what is known of a method; nothing of Retrain, which others are measured by."""
    if retrains(config):
        return ""
    cells = dict(zip((head.name for head in place.heads()), place.rows[config], strict=True))
    gained = {} if place.runs is None else gains(place.runs)
    verdict, distance = cells["exactness"].state, cells[DISTANCE.name]
    ratio = cells["times_retrain"].value
    known = None if NO_GATE in distance.state else distance.value
    return sentence(place.names[config], verdict, known, gained.get(config), place.metric, ratio)


def _run_of(audits: pd.DataFrame) -> str:
    """Write the run whose cells have the requests of audits; empty where no command line says them."""
    rows = plain_rows(audits, [*PLACE, "seed", "repetition"])
    units = sorted({(int(row["seed"]), row["repetition"]) for row in rows})
    labels = ",".join(dict.fromkeys(label for label in audits["label"] if label != REFERENCE))
    return run_command(rows[0], labels or REFERENCE, units, out="")


def _raw(head: Head, cell: Cell) -> dict[str, Any]:
    if head.name == "exactness":
        return {head.name: cell.state, f"{head.name}_effect": cell.value, f"{head.name}_n": cell.n}
    more = {name: getattr(cell, name) for name in ("low", "high", "n", "state")}
    return {head.name: cell.value, **{f"{head.name}_{name}": value for name, value in more.items()}}


def _notes(place: Place, heads: Sequence[Head], cells: Sequence[Cell]) -> Iterator[str]:
    # The notes of the time say what it is relative to.
    yield from details(f"{head.title}: {head.meaning}" for head in heads if head.meaning != TIME)
    yield Note(EMPTY, "Empty: not measured. cannot tell: the controls say that the number is no evidence.")
    states = {state for cell in cells for state in cell.state.split(", ")}
    if NO_GATE in states:
        yield Note(GATELESS)
    if OLDER in states:
        yield f"{OLDER}: the record is of an earlier version of the audit, whose weaker attack sees less."
    yield Note(SEVERAL, "In brackets: 95 % intervals.")
    settings = place.audits.drop_duplicates(["method_config", "audit_config"])
    settings = settings.assign(plain=audits_of(settings))
    for (config, audit), part in settings.groupby(["method_config", "plain"], sort=True):
        if len(part) > 1:
            yield Note(LATEST.format(method=place.names[str(config)], audit=audit, count=len(part)))
    if place.runs is None:
        command = _run_of(place.audits)
        make = f"make them in the same folder: `{command}`" if command else "make them"
        yield f"F1 and time: no run has this request; {make}."
    else:
        yield from time_notes(place.runs, place.runs.data, [RATIO])
    yield Note("The columns measure different things, and no sum of them is taken.")
    yield Note(f"Audits: {provenance(place.audits)}")
