"""Runs audits in a terminal: an estimate first, progress to standard error, tables to standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from unlearnbench.audits.running import auditor, estimate, make_audit_plan
from unlearnbench.cli.options import width_of_tables
from unlearnbench.cli.progress import checked_catalogue, compute_with_progress, conclude, list_cells, show_settings
from unlearnbench.config import RunConfig
from unlearnbench.errors import EXIT_OK
from unlearnbench.report.audits import audit_frame_of, build_audit_tables
from unlearnbench.report.render import render
from unlearnbench.resolve import resolve


def audit_with_progress(
    config: RunConfig,
    names: Sequence[str],
    dry_run: bool,
    tolerate_failures: bool,
    with_estimate: bool,
    as_json: bool = False,
) -> int:
    """Run audits, print their tables and what to type next.

    Args:
        config: The grid.
        names: The audits.
        dry_run: List the cells and compute none.
        tolerate_failures: End with 0 although cells failed.
        with_estimate: Time each method once and say how long the audits will take.
        as_json: Print one JSON object in place of cells or tables.

    Returns:
        The exit code.
    """
    catalogue = checked_catalogue(config)
    plan = make_audit_plan(config, names, catalogue)
    show_settings(plan)
    if dry_run:
        list_cells(plan, as_json)
        return EXIT_OK
    # What a run takes here says nothing of a cluster.
    if plan.wanted and with_estimate and config.backend == "local":
        seconds = estimate(
            plan,
            lambda name: resolve(catalogue, "unlearner", name),
            lambda what: print(f"timing one run: {what}", file=sys.stderr),
        )
        print(f"about {_duration(seconds)} to go, rather less than more.", file=sys.stderr)
    records = compute_with_progress(plan, auditor(catalogue))
    done = [record for record in records if not record.is_failure]
    if done and not as_json:
        print(render(build_audit_tables(audit_frame_of(done), str(plan.store.root)), width=width_of_tables()))
    return conclude(plan, records, ["--table audits"], tolerate_failures, as_json)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
