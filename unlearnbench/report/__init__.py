"""What tables are built from records with: for scripts that read results, and for plugins that bring tables."""

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError
from unlearnbench.registry.brackets import parse_bracket
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.contrasts import overlap, paired_differences, reason_notes, scores
from unlearnbench.report.frame.curve_rows import load_curves
from unlearnbench.report.frame.frame import VIEWS, frame_of, load_records
from unlearnbench.report.frame.record_groups import (
    REFERENCE,
    UNIT,
    RecordGroup,
    group_records,
    known,
    narrowed,
    reference_row,
)
from unlearnbench.report.frame.timed import paired_times, timed_records
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.against import (
    OUTSIDE,
    Comparison,
    Matched,
    compare_published,
    f1_against,
    matched_by_name,
)
from unlearnbench.report.tables.columns import PARTITION, TRAIN, UNLEARN, Column, ColumnTable, time_notes
from unlearnbench.report.tables.comparison import FEWEST
from unlearnbench.report.tables.datasets import dataset_tables
from unlearnbench.report.tables.evidence import latest_audits
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.published import Published, of_cell, read_published
from unlearnbench.report.tables.render import render
from unlearnbench.report.tables.source import Builder, TableSource, by_group
from unlearnbench.report.tables.table import (
    Table,
    origin_notes,
    shown_count,
    shown_names,
    shown_statuses,
    with_facets,
)
from unlearnbench.statistics import (
    ALPHA,
    Paired,
    Prediction,
    corrected_paired_t,
    detectable_difference,
    holm,
    prediction_interval,
)
from unlearnbench.statistics.averages import geometric_mean, mean, sample_sd

__all__ = [
    "ALPHA",
    "FEWEST",
    "OUTSIDE",
    "PARTITION",
    "REFERENCE",
    "TRAIN",
    "UNIT",
    "UNLEARN",
    "VIEWS",
    "Aggregate",
    "Builder",
    "Column",
    "ColumnTable",
    "Comparison",
    "Matched",
    "NothingMatchedError",
    "Paired",
    "Prediction",
    "Published",
    "RecordGroup",
    "Table",
    "TableSource",
    "aggregate",
    "build_tables",
    "by_group",
    "canonical_json",
    "compare_published",
    "corrected_paired_t",
    "dataset_tables",
    "detectable_difference",
    "f1_against",
    "formatting",
    "frame_of",
    "geometric_mean",
    "group_records",
    "holm",
    "known",
    "latest_audits",
    "load_curves",
    "load_records",
    "matched_by_name",
    "mean",
    "narrowed",
    "of_cell",
    "origin_notes",
    "overlap",
    "paired_differences",
    "paired_times",
    "parse_bracket",
    "prediction_interval",
    "read_published",
    "reason_notes",
    "reference_row",
    "render",
    "sample_sd",
    "scores",
    "shown_count",
    "shown_names",
    "shown_statuses",
    "time_notes",
    "timed_records",
    "with_facets",
]
