"""Tables of one row a method whose columns are means over its repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.errors import DataError
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import MICRO_F1, long_name, short_name, unit, writer
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import UNIT, first_of_each
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.comparison import FEWEST, MARKED, compare, noop_notes
from unlearnbench.report.tables.notes import Note, details
from unlearnbench.report.tables.sameness import metric_notes
from unlearnbench.report.tables.sentences import of_costs
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, shown_statuses, with_facets
from unlearnbench.statistics.averages import mean

BUSY_MARK = " *"
BUSY = "* may have met a busy machine."


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Args:
        title: Its head.
        value: The column of the raw data.
        show: Turns a number, and its spread if there is one, into text.
        spread: The column of the sample standard deviation.
        is_time: Whether the number suffers from a busy machine.
        quiet: Where it stands how many of the numbers it is made of are of a quiet machine.
        made_of: Where it stands of how many it is made.
        absent: What stands where records with status ok have no number.
    """

    title: str
    value: str
    show: Callable[[float, float | None], str]
    spread: str = ""
    is_time: bool = False
    quiet: str = "quiet_n"
    made_of: str = "timed"
    absent: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the raw data that `text` reads beside `n`."""
        return tuple(filter(None, (self.value, self.spread, *((self.quiet, self.made_of) if self.is_time else ()))))

    def text(self, row: Row | pd.Series[Any]) -> str:
        """Return the text of one cell; empty where there is no number."""
        value = row[self.value]
        if pd.isna(value):
            return self.absent if row["n"] else ""
        spread = row[self.spread] if self.spread else None
        text = self.show(float(value), None if spread is None or pd.isna(spread) else float(spread))
        return text + (BUSY_MARK if self.is_time and row[self.quiet] < row[self.made_of] else "")


@dataclass(frozen=True)
class ColumnTable:
    """A kind of table that is told by its columns.

    Args:
        title: Begins the caption.
        columns: Those behind the method and n; one that the records know nothing of is left out.
        counted: The column of the raw data that n is read from.
        ranks: Whether the best score after the request is marked in each view, with whatever is
            not significantly below it.
        in_words: Whether a sentence a method follows.
        scores: Makes the columns of a metric, which stand in front; `title` then has a place for its name.
    """

    title: str
    columns: tuple[Column, ...]
    counted: str = "n"
    ranks: bool = False
    in_words: bool = False
    scores: Callable[[str], tuple[Column, ...]] | None = None

    def build(self, name: str, averages: Aggregate) -> Table:
        """Build the table of one group."""
        data = _with_peaks(averages)
        scores = [column for metric in averages.shown_metrics for column in (self.scores or _no_columns)(metric)]
        columns = [column for column in (*scores, *self.columns) if column.value in data]
        has_times = any(column.is_time or "peak" in column.value for column in columns)
        title = self.title if self.scores is None else self.title.format(metric=long_name(averages.metric))
        caption = f"{title}: {averages.group.name}"
        if has_times and averages.machine:
            caption += f"; times and memory of machine {averages.machine}"
        read = dict.fromkeys(["n", "expected", self.counted, *(name for column in columns for name in column.reads)])
        rows, shown = plain_rows(data, read), pd.DataFrame({"method": shown_names(averages)})
        shown["n"] = [shown_count(int(row[self.counted]), int(row["expected"])) for row in rows]
        for column in columns:
            shown[column.title] = [column.text(row) for row in rows]
        status = shown_statuses(data)
        if any(status):
            shown["status"] = status
        raw = data.drop(columns=["gpu_reason", "rss_reason"])
        marked, reasons = _ranking(averages) if self.ranks else (frozenset[tuple[int, str]](), ())
        notes = (*_notes(averages, data, columns, has_times, bool(scores)), *reasons)
        facets = with_facets(name, averages, raw, time_machine=averages.machine)
        sentences = tuple(filter(None, of_costs(averages))) if self.in_words else ()
        return Table(name, caption + ".", shown, facets, notes, marked, sentences)


def _no_columns(metric: str) -> tuple[Column, ...]:
    return ()


def _of_metric(metric: str, head: str, place: str, has_spread: bool = True) -> tuple[Column, ...]:
    """Make the columns of both views; `head` and `place` say where the name of the view stands."""
    absent = "" if metric == MICRO_F1 else "-"
    return tuple(
        Column(
            head.format(view=view) + unit(metric),
            f"{place}_{view}_mean",
            writer(metric),
            f"{place}_{view}_sd" if has_spread else "",
            absent=absent,
        )
        for view in VIEWS
    )


def after(metric: str) -> tuple[Column, ...]:
    """Make the columns of a metric after the request, one a view."""
    return _of_metric(metric, short_name(metric) + " {view}", metric)


def _after_and_before(metric: str) -> tuple[Column, ...]:
    before = _of_metric(metric, short_name(metric) + " {view} before", f"{metric}_before", has_spread=False)
    return (*after(metric), *before)


def _validation(metric: str) -> tuple[Column, ...]:
    return _of_metric(metric, f"validation {short_name(metric)} {{view}}", f"val_{metric}")


UNLEARN = Column("unlearn s", "unlearn_seconds_mean", formatting.seconds, "unlearn_seconds_sd", is_time=True)
TRAIN = Column("train s", "train_seconds_mean", formatting.seconds, "train_seconds_sd", is_time=True)
PARTITION = Column("partition s", "partition_seconds_mean", formatting.seconds, "partition_seconds_sd", is_time=True)
RATIO = Column(
    "relative to Retrain", "times_retrain", formatting.ratio, "", True, quiet="ratio_quiet_n", made_of="times_retrain_n"
)
PREDICT = Column(
    "predict full s", "full_predict_seconds_mean", formatting.seconds, "full_predict_seconds_sd", is_time=True
)
HIT = Column("shards hit", "shards_hit", formatting.tenths)
SUMMARY = ColumnTable(
    "Results", (UNLEARN, RATIO, HIT, Column("peak MiB", "peak_mib", formatting.whole)), in_words=True, scores=after
)
UTILITY = ColumnTable("{metric} on the test nodes after the request", (), ranks=True, scores=_after_and_before)
VALIDATION = ColumnTable(
    "{metric} on the validation nodes after the request, which defaults are chosen by", (), scores=_validation
)
TIME = ColumnTable(
    "Time to unlearn",
    (UNLEARN, RATIO, HIT, Column("node-epochs", "node_epochs", formatting.whole), TRAIN, PARTITION, PREDICT),
    counted="time_n",
)
MEMORY = ColumnTable(
    "Peak of memory",
    (Column("unlearn MiB", "peak_mib", formatting.whole), Column("fit MiB", "fit_peak_mib", formatting.whole)),
    counted="time_n",
)


def _ranking(averages: Aggregate) -> tuple[frozenset[tuple[int, str]], tuple[str, ...]]:
    """Find the cells to mark, and say by what rule; --table comparison shows the tests themselves."""
    try:
        ratio, _ = overlap(averages)
    except DataError as error:
        return frozenset(), (f"Nothing is marked: {error.message}",)
    families = [compare(averages, view, ratio) for view in VIEWS]
    marked = frozenset(
        (at, f"{short_name(averages.metric)} {family.view}{unit(averages.metric)}")
        for family in families
        for at, row in enumerate(averages.data["method"])
        if row in family.marked
    )
    notes = [MARKED] if marked else []
    if averages.group.units < FEWEST:
        notes.append(f"Nothing is marked: fewer than {FEWEST} common repetitions.")
    return marked, (*notes, *noop_notes(averages, ratio))


def _with_peaks(averages: Aggregate) -> pd.DataFrame:
    data = averages.data.copy()
    kind = "gpu" if data["unlearn_peak_gpu_mib"].notna().any() else "rss"
    data["peak_kind"] = kind
    data["peak_mib"], data["fit_peak_mib"] = data[f"unlearn_peak_{kind}_mib"], data[f"fit_peak_{kind}_mib"]
    data["peak_reason"] = data[f"{kind}_reason"]
    return data


def _notes(
    averages: Aggregate, data: pd.DataFrame, columns: Sequence[Column], has_times: bool, has_scores: bool
) -> Iterator[str]:
    yield Note(
        f"n: repetitions of {averages.group.units} with status ok, mean ± sample standard deviation (none for n = 1);"
        " a method with fewer is not ranked.",
        "n: repetitions; mean ± standard deviation.",
    )
    yield from origin_notes(averages, has_views=has_scores or any("f1_" in column.value for column in columns))
    if has_scores:
        yield from metric_notes(averages)
    if has_times:
        yield from time_notes(averages, data, columns)
    yield from details(averages.notes)
    yield from averages.time_notes
    validation = [column.value for column in columns if column.value.startswith("val_")]
    if validation and bool(data.loc[data["n"] > 0, validation].isna().to_numpy().any()):
        yield "Empty: the split has no validation nodes, or the metric failed; the notes of the records say which."


def _retired(averages: Aggregate) -> Iterator[str]:
    """Name rows with shards that were hit and have no member any more: all of their nodes were forgotten."""
    cells = first_of_each(averages.ok, ["row", *UNIT])
    retired = rows_by(cells[cells["shards_retired"] > 0], "row", ["shards_retired"])
    for row, records in sorted(retired.items()):
        number = formatting.tenths(mean(one["shards_retired"] for one in records) or 0.0, None)
        yield Note(
            f"{row}: of the shards hit, {number} were retired, all of their nodes being forgotten, on average over"
            f" {len(records)} repetitions with such shards."
        )


def time_notes(averages: Aggregate, data: pd.DataFrame, columns: Sequence[Column]) -> Iterator[str]:
    """List what must be known of the times and the memory in some rows and columns."""
    if any(column is HIT for column in columns):
        yield from _retired(averages)
    if any(column is RATIO for column in columns):
        yield Note(
            "relative to Retrain: unlearning time over Retrain's, geometric mean of the ratios within repetitions.",
            "relative to Retrain: time over Retrain's; 0.5 is twice as fast.",
        )
        for row in plain_rows(data, ["method", "n", "times_retrain_n"]):
            if 0 < row["times_retrain_n"] < row["n"]:
                yield Note(f"{row['method']}: its ratio is over {row['times_retrain_n']} repetitions.")
    if any(column is PREDICT for column in columns):
        text = (
            "predict full s: one prediction of the test nodes in view full, after the request; not part of unlearn s."
        )
        yield Note(text)
    busy = [row for row in plain_rows(data, ["method", "timed", "quiet_n"]) if row["quiet_n"] < row["timed"]]
    if busy and any(column.is_time for column in columns):
        counts = ", ".join(f"{row['method']} {row['timed'] - row['quiet_n']}/{row['timed']}" for row in busy)
        mark = BUSY_MARK.strip()
        yield Note(f"{mark} records that may have met a busy machine: {counts}.", BUSY)
    if any("peak" in column.value for column in columns):
        yield Note(
            "Memory: mean of the peaks of "
            + ("memory that torch allocated on the GPU." if data["peak_kind"].iloc[0] == "gpu" else "resident memory.")
        )
        for row in plain_rows(data, ["method", "peak_mib", "peak_reason"]):
            if pd.isna(row["peak_mib"]):
                yield Note(f"{row['method']}: no peak of memory: {row['peak_reason'] or 'not measured'}.")
