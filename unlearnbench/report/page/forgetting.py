"""What audits say of the rows of the leaderboard: the cells of the table `forgetting`, whatever was requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from unlearnbench.report.frame.plain_rows import Row, rows_by
from unlearnbench.report.frame.record_groups import UNIT, units_by
from unlearnbench.report.tables.audits import PLACE, joined
from unlearnbench.report.tables.evidence import EVIDENCE, Cell, latest_rows
from unlearnbench.report.tables.forgetting import Place
from unlearnbench.report.tables.verdicts import FORGETS, shown_to_forget

YES, NO, UNKNOWN = "yes", "no", "unknown"
WORDS = {YES: "shown to forget", NO: "not shown to forget", UNKNOWN: "not audited here"}


@dataclass(frozen=True, eq=False)
class Forgetting:
    """What is known of the forgetting of each method on a graph with a model.

    Args:
        audits: The part of `load_audits` with one request; empty where nothing was audited.
        rows: Canonical configuration to a cell for each of `EVIDENCE`.
        shown: See `shown_to_forget`.
        verdicts: Canonical configuration to the verdict that decides.
        claims: Canonical configuration to the claim, where the records of audits say it.
        names: Canonical configuration to the name of the method.
        units: Canonical configuration to the audits it had, each with seed and repetition of its records.
    """

    audits: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    rows: Mapping[str, tuple[Cell, ...]] = field(default_factory=dict)
    shown: Mapping[str, bool] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]] = field(default_factory=dict)

    @property
    def forget(self) -> str:
        """What the audits forgot."""
        return str(self.audits.iloc[0]["forget"]) if len(self.audits) else ""

    def state(self, config: str) -> str:
        """Return whether a method was shown to forget: `YES`, `NO` or `UNKNOWN`."""
        return UNKNOWN if config not in self.shown else YES if self.shown[config] else NO

    def cells(self, config: str) -> tuple[Cell, ...]:
        """Return a cell for each of `EVIDENCE`."""
        return self.rows.get(config, (Cell(),) * len(EVIDENCE))


class ForgettingIndex:
    """Finds what audits say of a group; each place is worked out once, whatever number of groups shares it."""

    def __init__(self, audits: pd.DataFrame | None) -> None:
        """Split the audits by place."""
        self._audits = audits
        parts = [] if audits is None else [part for _, part in audits.groupby(list(PLACE), sort=False)]
        self._parts = parts
        self._known: dict[int, Forgetting] = {}

    def of_group(self, facets: Mapping[str, str]) -> Forgetting:
        """Return what is known on the group's graph with its model.

        Requests of any size count; of several, one that is the group's own goes first, then that with
        the most audits.
        """
        here = [
            (part["protocol_config"].iloc[0] != facets["protocol_config"], -len(part), at)
            for at, part in enumerate(self._parts)
            if all(part[name].iloc[0] == facets[name] for name in ("dataset_sha256", "model_config"))
        ]
        if not here:
            return Forgetting()
        *_, at = min(here)
        if at not in self._known:
            self._known[at] = self._read(self._parts[at], facets)
        return self._known[at]

    def _read(self, part: pd.DataFrame, facets: Mapping[str, str]) -> Forgetting:
        methods = part[["method_config", "method"]].drop_duplicates("method_config")
        names = dict(zip(methods["method_config"], methods["method"], strict=True))
        place = Place(part, None, tuple(names), names)
        rows = {config: cells[: len(EVIDENCE)] for config, cells in place.rows.items()}
        by_method = rows_by(part, "method_config", ["audit", "audit_config", "key", "verdict", *UNIT])
        return Forgetting(
            part,
            rows,
            shown_to_forget(self._audits, facets),
            {config: _verdict(audits) for config, audits in by_method.items()},
            {config: place.claim(config) for config in names},
            names,
            {
                config: units_by((row["audit"].partition(" ")[0], row["seed"], row["repetition"]) for row in audits)
                for config, audits in by_method.items()
            },
        )


def _verdict(audits: Sequence[Row]) -> str:
    """Return the verdict of the first audit that decides."""
    texts = (joined(row["verdict"] for row in latest_rows(audits, audit) if row["verdict"]) for audit in FORGETS)
    return next(filter(None, texts), "")
