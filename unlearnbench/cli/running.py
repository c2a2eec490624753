"""Runs a grid in a terminal: progress to standard error, tables to standard output."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import click

from unlearnbench import messages
from unlearnbench.audits.base import Audit
from unlearnbench.audits.running import estimate, make_audit_plan, start_longest_first
from unlearnbench.cli.flags import with_flags
from unlearnbench.cli.options import printed
from unlearnbench.cli.program import program
from unlearnbench.component import Spec, canonical_json
from unlearnbench.errors import EXIT_FAILED_CELLS, EXIT_OK, NothingMatchedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.messages import broken, columns
from unlearnbench.metrics.wording import ONE_CLASS
from unlearnbench.protocol import Protocol
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_and_report
from unlearnbench.registry.resolve import resolve
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import RunConfig
from unlearnbench.running.execute import Compute, identical, split_by_place
from unlearnbench.running.plan import Plan, make_plan, take_shard
from unlearnbench.running.progress import execute_with_progress
from unlearnbench.running.runner import run_cell
from unlearnbench.task import Training

# What can be asked of `unlearnbench report` after a run, and what it shows.
NEXT = {
    "--format latex": "the same tables for a paper",
    "--table time": "where the time went",
    "--table audits": "the same tables again; --format md, latex, csv",
}


def run_with_progress(
    configs: Sequence[RunConfig],
    dry_run: bool = False,
    tolerate_failures: bool = False,
    tables: Sequence[str] = ("summary",),
    as_json: bool = False,
) -> int:
    """Run grids that go into one store, print tables and what to type next, and return the exit code."""
    catalogue = _checked_catalogue(configs[0])
    plan = take_shard(make_plan(configs, catalogue), configs[0].shard)
    _show_settings(plan)
    if dry_run:
        return _list_cells(plan, as_json)
    records = _compute(plan)
    if not as_json and any(not record.is_failure for record in records):
        frame = frame_of((record for record in records if not record.is_failure), aliases=_aliases(plan))
        built = []
        for table in tables:
            try:
                built += build_tables(frame, table, shlex.quote(str(plan.store.root)), catalogue=catalogue)
            except NothingMatchedError as error:  # a part of an experiment, or its first repetitions alone
                messages.note(error.message)
        if built:
            print(printed(built))
    for notice in [*_unchanged(records), *identical(records), *_one_class(records)]:
        messages.note(notice)
    return _conclude(plan, records, ["--format latex", "--table time"], tolerate_failures, as_json)


def _checked_catalogue(config: RunConfig) -> Catalogue:
    if not config.methods:
        raise UsageError("No method is named.", "Add --methods NAMES; they are listed by: unlearnbench ls method.")
    return load_and_report(config.disable_plugins)


def _show_settings(plan: Plan) -> None:
    """Print the notices and the settings that follow from the options and the run file."""
    for notice in plan.notices:
        messages.note(with_flags(notice, click.get_current_context().find_root().command))
    for heading, text in _settings(plan):
        line = f"{heading:<12} {text}"
        print(broken(line, columns(), " " * 13) if sys.stderr.isatty() else line, file=sys.stderr)


def _compute(plan: Plan, compute: Compute = run_cell) -> list[Record]:
    ready = len(plan.cells) - len(plan.wanted)
    there = f", {ready} of them there already" if ready else ""
    print(f"{len(plan.cells)} cells{there}; records go to {plan.store.root}.", file=sys.stderr)
    plan.isolate_foreign = plan.config.backend == "local"
    apart = [] if plan.config.is_isolated else split_by_place(plan)[1]
    if apart:
        labels = ", ".join(dict.fromkeys(cell.method.shown for cell in apart))
        messages.note(f"cells with code of other packages get own processes (--no-isolate): {labels}.")
    done, tell = [ready], plan.on_record

    def count(record: Record) -> None:
        done[0] += not record.is_failure
        tell(record)

    plan.on_record = count
    try:
        records = execute_with_progress(plan, compute)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted: {done[0]} of {len(plan.cells)} cells done and saved.") from None
    left = len(plan.cells) - len(records)
    if left:
        messages.note(f"{left} of them failed before; --overwrite only-missing runs them again.")
    return records


def _conclude(
    plan: Plan,
    records: list[Record],
    reports: Sequence[str],
    tolerate_failures: bool,
    as_json: bool = False,
    refuted: Sequence[str] = (),
) -> int:
    """Print counts of outcomes and what to type next, `reports` of `NEXT`, and return the exit code.

    It is that of a failure if the claims of some methods are `refuted`.
    """
    failed = any(record.is_failure for record in records)
    left = len(plan.cells) - len(records)
    ready = len(plan.cells) - len(plan.wanted) - left
    code = EXIT_FAILED_CELLS if (failed or left) and not tolerate_failures else EXIT_OK
    if refuted:
        code = EXIT_FAILED_CELLS
        print(f"--strict: claims that do not hold: {', '.join(refuted)}.", file=sys.stderr)
    counts = Counter("failed" if record.is_failure else record.status for record in records)
    # A cell that failed before and was left alone has no record of an outcome either.
    counts["failed"] += left
    shown = {status: counts[status] for status in ("ok", "failed", "refused", "diverged")}
    text = ", ".join(f"{count} {status}" for status, count in shown.items())
    print(f"{len(plan.cells)} cells: {text}; {ready} were there already.", file=sys.stderr)
    _show_next(records, plan.store, reports)
    if as_json:
        by_key = {record.key: record for record in records}
        cells = [_plain_cell(cell) | _plain_outcome(plan, by_key.get(cell.key)) for cell in plan.cells]
        head = {"out": str(plan.store.root), "exit_code": code, "there_already": ready, **shown}
        print(json.dumps({**head, "cells": cells}, indent=1))
    return code


def _plain_cell(cell: Cell) -> dict[str, Any]:
    return {
        "key": cell.key,
        "dataset": cell.dataset_label,
        "model": cell.model.label,
        "method": cell.method.label,
        "alias": cell.method.alias or None,
        "repetition": cell.repetition,
        "audit": None if cell.audit is None else cell.audit.label,
    }


def _plain_outcome(plan: Plan, record: Record | None) -> dict[str, Any]:
    """Describe the outcome of a cell; one that failed in an earlier run and was left alone has no record."""
    if record is None:
        return {"status": "failed before", "record": None, "error": None}
    error = record.error and {"type": record.error["type"], "message": record.error["message"]}
    place = plan.store.path(record).relative_to(plan.store.root).as_posix()
    return {"status": record.status, "record": place, "error": error}


def _settings(plan: Plan) -> list[tuple[str, str]]:
    """Write out what the options and the run file came to, defaults included."""
    first = plan.cells[0]
    datasets = [
        f"{label} ({_amounts({c.protocol for c in plan.cells if c.dataset_label == label}, graph)})"
        for label, graph in plan.graphs.items()
    ]
    ways = {
        f"{cell.training.epochs} epochs, lr {cell.training.lr:g}, weight decay {cell.training.weight_decay:g},"
        f" {'one-by-one' if cell.training.one_by_one else 'lockstep'}{_batches(cell.training)}": None
        for cell in plan.cells
    }
    audits = dict.fromkeys(cell.audit.label for cell in plan.cells if cell.audit is not None)
    repetitions = dict.fromkeys(cell.repetition for cell in plan.cells)
    return [
        ("datasets", ", ".join(datasets)),
        ("models", ", ".join(dict.fromkeys(cell.model.label for cell in plan.cells))),
        ("methods", ", ".join(dict.fromkeys(_named(cell.method) for cell in plan.cells))),
        *([("audits", ", ".join(audits))] if audits else []),
        ("repetitions", f"{len(repetitions)}, numbered {', '.join(map(str, repetitions))}; seed {first.seed}"),
        ("training", "; ".join(ways)),
        (
            "machine",
            f"{plan.context.machine}, {plan.context.device}, threads {plan.context.threads}"
            + (", deterministic" if plan.context.deterministic else ""),
        ),
    ]


def _batches(training: Training) -> str:
    if not training.batch_size:
        return ""
    return f", batches of {training.batch_size} with {', '.join(map(str, training.fanouts))} neighbours a hop"


def _amounts(protocols: Iterable[Protocol], graph: Graph) -> str:
    """Describe how much of a graph is forgotten, in one run or in several of an experiment."""
    numbers: dict[tuple[str, str], set[int]] = {}
    for rules in protocols:
        numbers.setdefault(_around(rules, graph), set()).add(rules.number_of(graph))
    parts = sorted((sorted(several), before, behind) for (before, behind), several in numbers.items())
    return "; ".join(f"{before}{', '.join(map(str, several))} {behind}" for several, before, behind in parts)


def _around(rules: Protocol, graph: Graph) -> tuple[str, str]:
    """Return what stands before and behind the number of what is forgotten."""
    is_feature = rules.forget.kind == "feature"
    before = "features of " if is_feature else ""
    if rules.forget.stream is not None:
        before += f"{rules.forget.stream} times "
    if rules.poison is not None and rules.poison.manipulation is None:
        return before, "nodes injected and forgotten"
    if rules.poison is not None:
        what = "edges" if rules.poison.manipulation == "edge" else "nodes"
        return before, f"of {rules.poison.amount} {what} manipulated and forgotten"
    if rules.forget.kind == "edge":
        return before, f"of {len(graph.pairs())} edges forgotten"
    if is_feature and rules.forget.ids is not None and isinstance(rules.forget.ids[0], tuple):
        return before.removeprefix("features of "), f"of {graph.x.numel()} feature values forgotten"
    return before, f"of {graph.num_nodes} nodes forgotten"


def _named(method: Spec) -> str:
    """Write what a method is, behind its alias if it has one."""
    return f"{method.alias}={method.label}" if method.alias else method.label


def _aliases(plan: Plan) -> dict[str, str]:
    """Return the aliases of this run by configuration: records that were there already may have others."""
    methods = {cell.method.label: cell.method for cell in plan.cells if cell.method.alias}
    return {canonical_json(method.canonical()): method.alias for method in methods.values()}


def _unchanged(records: list[Record]) -> list[str]:
    """Name methods whose parameters were the same before and after a request, bit for bit."""
    labels = Counter(record.shown_name for record in records if record.digests.get("unchanged"))
    return [f"unchanged: {label} changed no parameter in {count} of its cells." for label, count in labels.items()]


def _one_class(records: list[Record]) -> list[str]:
    """Name methods that predict one class for all test nodes."""
    labels = Counter(
        record.shown_name for record in records if any(note.startswith(ONE_CLASS) for note in record.notes)
    )
    return [
        f"{ONE_CLASS} {label} predicts one class for all test nodes in {count} of its cells."
        for label, count in labels.items()
    ]


def _list_cells(plan: Plan, as_json: bool) -> int:
    wanted = {cell.key for cell in plan.wanted}
    if as_json:
        cells = [_plain_cell(cell) | {"wanted": cell.key in wanted} for cell in plan.cells]
        print(json.dumps({"out": str(plan.store.root), "cells": cells}, indent=1))
        return EXIT_OK
    for cell in plan.cells:
        print(f"{cell.key}  {'run ' if cell.key in wanted else 'done'}  {cell.describe()}")
    return EXIT_OK


def _show_next(records: list[Record], store: Store, reports: Sequence[str]) -> None:
    where = shlex.quote(str(store.root))
    print("Next:", file=sys.stderr)
    commands = {f"{program()} report {where} {options}": NEXT[options] for options in reports}
    commands[f"{program()} ls methods"] = "what else can be compared"
    width = max(map(len, commands))
    for command, meaning in commands.items():
        print(f"  {command:<{width}}  # {meaning}", file=sys.stderr)
    failed = next((record for record in records if record.error is not None), None)
    if failed is not None:
        print(f"The traceback of the first failure is under error in {store.path(failed)}", file=sys.stderr)


def audit_with_progress(
    config: RunConfig,
    names: Sequence[str],
    dry_run: bool,
    tolerate_failures: bool,
    with_estimate: bool,
    as_json: bool = False,
    strict: bool = False,
) -> int:
    """Run audits, print their tables and what to type next, and return the exit code.

    An estimate times each method once, to print how long the audits will take. If `strict`, a claim that does not
    hold is a failure.
    """
    catalogue = _checked_catalogue(config)
    plan = make_audit_plan(config, names, catalogue)
    _show_settings(plan)
    if dry_run:
        return _list_cells(plan, as_json)
    # What a run takes here says nothing of a cluster.
    if plan.wanted and with_estimate and config.backend == "local":
        seconds = estimate(
            plan,
            lambda name: resolve(catalogue, "unlearner", name),
            lambda what: print(f"timing one run: {what}", file=sys.stderr),
        )
        print(f"about {_duration(sum(seconds.values()))} to go.", file=sys.stderr)
        if config.jobs > 1:
            start_longest_first(plan, seconds)
    records = _compute(plan, Audit.auditor(catalogue))
    done = [record for record in records if not record.is_failure]
    if done and not as_json:
        source = shlex.quote(str(plan.store.root))
        print(
            printed(build_tables(audit_frame_of(done, aliases=_aliases(plan)), "audits", source, catalogue=catalogue))
        )
    return _conclude(plan, records, ["--table audits"], tolerate_failures, as_json, _refuted(done) if strict else [])


def _refuted(records: Sequence[Record]) -> list[str]:
    """Return the labels of the methods whose claims audits refuted, each once."""
    audits = [(record.shown_name, record.audit or {}) for record in records]
    return list(dict.fromkeys(label for label, audit in audits if audit["details"].get("claim_holds") is False))


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
