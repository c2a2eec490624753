"""Which times may be compared: one machine's, of cells run one after the other, of quiet moments if enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from unlearnbench.report.frame.note import Note
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import UNIT, RecordGroup, busiest_machine, first_of_each

QUIET_ENOUGH = 3
"""From so many quiet repetitions on, those that met a busy machine are left out of times."""


def timed_records(group: RecordGroup) -> tuple[str, pd.DataFrame, list[str]]:
    """Choose the records whose times and memory may be compared: one machine's, run serially.

    A machine whose processor has other vector instructions counts as another one.

    Returns:
        The machine with the most such records (the first id of equals; empty if there is none),
        one row per record, and notes on what was left out.
    """
    ok = first_of_each(group.frame[group.frame["status"] == "ok"], ["row", *UNIT, "machine"])
    serial = ok[ok["backend"] == "serial"]
    pairs = zip(serial["machine"], serial["instructions"], strict=True)
    clocks = pd.Series([f"{machine} with {how}" if how else machine for machine, how in pairs], serial.index, dtype=str)
    clock = busiest_machine(clocks)
    timed = serial[clocks == clock]
    machine = "" if timed.empty else str(timed["machine"].iloc[0])
    notes: list[str] = []
    watched = int((ok["backend"] == "watched").sum())
    if len(ok) > len(serial) + watched:
        notes.append(f"{len(ok) - len(serial) - watched} records give no times: they did not run one after the other.")
    if watched:
        notes.append(Note(f"{watched} records give no times: callbacks were made or learning curves kept meanwhile."))
    if len(serial) > len(timed):
        others = ", ".join(sorted(set(clocks) - {clock}))
        notes.append(Note(f"{len(serial) - len(timed)} records of other machines give no times ({others})."))
    return machine, timed, notes


def is_quiet(record: Row) -> bool:
    """Whether the machine of a record is known to have been quiet."""
    return record["exclusive"] is True


def quiet_records(records: Sequence[Row]) -> Sequence[Row]:
    """Leave out of one method's records those of a busy machine, if `QUIET_ENOUGH` others remain."""
    quiet = [record for record in records if is_quiet(record)]
    return quiet if len(quiet) >= QUIET_ENOUGH else records


class Pair(NamedTuple):
    """The unlearning times of two methods in one repetition, and whether the machine was quiet both times."""

    mine: float
    other: float
    quiet: bool


Times = Mapping[tuple[int, int], tuple[float, bool]]
"""Seed and repetition to the unlearning time of a method, and whether its machine was quiet."""


def times_of(records: Iterable[Row]) -> Times:
    """Return the times of one method's records; 0 never stands for a time."""
    return {
        (record["seed"], record["repetition"]): (record["unlearn_seconds"], is_quiet(record))
        for record in records
        if record["unlearn_seconds"] > 0
    }


def pairs_of(mine: Times, others: Times) -> list[Pair]:
    """Pair the times of two methods by repetition, in order; quiet ones alone if there are `QUIET_ENOUGH`."""
    pairs = [
        Pair(mine[unit][0], others[unit][0], mine[unit][1] and others[unit][1])
        for unit in sorted(mine.keys() & others.keys())
    ]
    quiet = [pair for pair in pairs if pair.quiet]
    return quiet if len(quiet) >= QUIET_ENOUGH else pairs


def paired_times(cells: pd.DataFrame, others: pd.DataFrame) -> list[Pair]:
    """Pair the unlearning times in the records of two methods: see `pairs_of`."""
    mine, theirs = (times_of(plain_rows(one, [*UNIT, "unlearn_seconds", "exclusive"])) for one in (cells, others))
    return pairs_of(mine, theirs)


def quiet_notes(cells: pd.DataFrame) -> list[str]:
    """Report how many of several methods' timed records `quiet_records` leaves out."""
    left = sum(len(records) - len(quiet_records(records)) for records in rows_by(cells, "row", ["exclusive"]).values())
    if not left:
        return []
    return [
        Note(
            f"{left} of {len(cells)} records met a busy machine and give no times: their methods have {QUIET_ENOUGH}"
            " quiet repetitions or more."
        )
    ]


def charge_notes(cells: pd.DataFrame) -> Iterator[str]:
    """Name methods that may train when they are asked, and say where times of two meanings stand in one table."""
    for label, number in Counter(cells.loc[cells["answers_like_training"].fillna(False), "method"]).items():
        yield f"{label}: state() or predict() takes about as long as the first training, in {number} records."
    charged = cells["answers_charged"].dropna().astype(bool)
    if charged.any() and not charged.all():
        yield Note(
            f"{int((~charged).sum())} of {len(cells)} records are from before the first answers were charged to the"
            " request: their times are of unlearn() alone. `run --overwrite always` measures them anew."
        )
