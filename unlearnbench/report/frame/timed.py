"""Which times may be compared: one machine's, of cells run one after the other, of quiet moments if enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from unlearnbench.report.frame.record_groups import UNIT, RecordGroup, busiest_machine, first_of_each

QUIET_ENOUGH = 3
"""From so many quiet repetitions on, those that met a busy machine are left out of times."""


def timed_records(group: RecordGroup) -> tuple[str, pd.DataFrame, list[str]]:
    """Choose the records whose times and memory may be compared: one machine's, run serially.

    Returns:
        The machine with the most such records (the first id of equals; empty if there is none),
        one row per record, and notes on what was left out.
    """
    ok = first_of_each(group.frame[group.frame["status"] == "ok"], ["row", *UNIT, "machine"])
    serial = ok[ok["backend"] == "serial"]
    machine = busiest_machine(serial)
    timed = serial[serial["machine"] == machine]
    notes = []
    watched = int((ok["backend"] == "watched").sum())
    if len(ok) > len(serial) + watched:
        notes.append(f"{len(ok) - len(serial) - watched} records {BESIDE_OTHERS}.")
    if watched:
        notes.append(f"{watched} records give no times: callbacks were made or learning curves kept meanwhile.")
    if len(serial) > len(timed):
        others = ", ".join(sorted(set(serial["machine"]) - {machine}))
        notes.append(f"{len(serial) - len(timed)} records of other machines give no times ({others}).")
    return machine, timed, notes


def is_quiet(cells: pd.DataFrame) -> pd.Series[bool]:
    """Return for each record whether its machine is known to have been quiet."""
    return pd.Series(cells["exclusive"].to_numpy(bool, na_value=False), index=cells.index)


def quiet_records(cells: pd.DataFrame) -> pd.DataFrame:
    """Leave out of one method's records those of a busy machine, if `QUIET_ENOUGH` others remain."""
    quiet = cells[is_quiet(cells)]
    return quiet if len(quiet) >= QUIET_ENOUGH else cells


class Pair(NamedTuple):
    """The unlearning times of two methods in one repetition, and whether the machine was quiet both times."""

    mine: float
    other: float
    quiet: bool


def paired_times(cells: pd.DataFrame, others: pd.DataFrame) -> list[Pair]:
    """Pair the unlearning times of two methods by repetition, quiet ones alone if there are `QUIET_ENOUGH`.

    Returns:
        In the order of repetitions; 0 never stands for a time.
    """
    mine, theirs = _by_unit(cells), _by_unit(others)
    pairs = [
        Pair(mine[unit][0], theirs[unit][0], mine[unit][1] and theirs[unit][1])
        for unit in sorted(mine.keys() & theirs.keys())
    ]
    quiet = [pair for pair in pairs if pair.quiet]
    return quiet if len(quiet) >= QUIET_ENOUGH else pairs


def quiet_notes(cells: pd.DataFrame) -> list[str]:
    """Report how many of several methods' timed records `quiet_records` leaves out."""
    left = sum(len(part) - len(quiet_records(part)) for _, part in cells[["row", "exclusive"]].groupby("row"))
    if not left:
        return []
    return [
        f"{left} of {len(cells)} records met a busy machine and give no times: their methods have {QUIET_ENOUGH} quiet"
        " repetitions or more."
    ]


# What the note on a method says that may unlearn only when it is asked: no table leaves it out.
POSTPONED = "takes about as long as the first training"
BESIDE_OTHERS = "give no times: they did not run one after the other"


def charge_notes(cells: pd.DataFrame) -> Iterator[str]:
    """Name methods that may train when they are asked, and say where times of two meanings stand in one table."""
    for label, part in cells[cells["answers_like_training"].fillna(False).astype(bool)].groupby("method", sort=False):
        yield f"{label}: state() or predict() {POSTPONED}, in {len(part)} records."
    charged = cells["answers_charged"].dropna().astype(bool)
    if charged.any() and not charged.all():
        yield (
            f"{int((~charged).sum())} of {len(cells)} records are from before the first answers were charged to the"
            " request: their times are of unlearn() alone. `run --overwrite always` measures them anew."
        )


def _by_unit(cells: pd.DataFrame) -> dict[tuple[int, int], tuple[float, bool]]:
    values: list[list[Any]] = [cells[name].tolist() for name in (*UNIT, "unlearn_seconds")]
    return {
        (int(seed), int(repetition)): (float(seconds), bool(quiet))
        for seed, repetition, seconds, quiet in zip(*values, is_quiet(cells).tolist(), strict=True)
        if seconds > 0
    }
