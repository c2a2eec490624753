"""From records to a data frame: one row per record and view, nothing averaged, nothing left out."""

from __future__ import annotations

import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError, UnlearnbenchError
from unlearnbench.measure.request_time import answers_like_training, holds_first_answers
from unlearnbench.records.reading import read_evidence, read_records
from unlearnbench.records.record import FAILURES, Record
from unlearnbench.records.shapes import Phase
from unlearnbench.report.frame.aliases import NO_ALIASES, aliased
from unlearnbench.report.frame.names import shown_forget, shown_method, shown_protocol
from unlearnbench.report.frame.stream import stream_steps
from unlearnbench.report.frame.tuned_rows import is_tuned, method_of, training_of

VIEWS = ("shard", "full")

# Parts of `fit` are named alone or below it, depending on who opened the phase.
PHASE_SECONDS = {
    "fit_seconds": ("fit",),
    "partition_seconds": ("partition", "fit/partition"),
    "train_seconds": ("train", "fit/train"),
    "aggregate_seconds": ("aggregate", "fit/aggregate"),
    "unlearn_locate_seconds": ("unlearn/locate",),
    "unlearn_retrain_seconds": ("unlearn/retrain",),
    "unlearn_update_seconds": ("unlearn/update",),
    "unlearn_aggregate_seconds": ("unlearn/aggregate",),
    "first_predict_seconds": ("predict-first",),
    "second_predict_seconds": ("predict-second",),
    "full_predict_seconds": ("predict-full",),
}
CELL_PARTS = ("protocol", "dataset", "model", "method", "training", "repetition", "seed", "device")
FIT_PHASES = ("fit", "partition", "train", "aggregate")
_MEMBER = re.compile("train/member-([0-9]+)")
MEMORY = ("peak_rss_mib", "peak_gpu_mib", "peak_gpu_reserved_mib")

TEXT = (
    *("key", "status", "machine", "device", "protocol", "protocol_config", "forget"),
    *("dataset", "dataset_sha256", "dataset_config", "model", "model_config", "training_config", "other_config"),
    *("method", "method_name", "method_config", "label", "preset", "claim", "view", "alias"),
    *("unlearn_gpu_reason", "unlearn_rss_reason", "rss_source", "backend", "started", "git", "torch", "unlearnbench"),
    *("packages", "plugins", "instructions", "error_type", "notes", "deployed", "stream"),
)
NUMBERS = (
    *("unlearn_seconds", "shards_hit", "shards_retired", "node_epochs", "steps", *PHASE_SECONDS),
    *(f"unlearn_{name}" for name in MEMORY),
    *(f"fit_{name}" for name in MEMORY),
    *("serial_seconds", "longest_seconds", "expected_seconds", "parameter_bytes", "deletions"),
    *("edges_kept", "label_entropy", "graph_entropy"),
    *("f1_micro", "f1_micro_before", "f1_macro", "f1_macro_before"),
)
TRUTHS = ("unchanged", "exclusive", "answers_charged", "answers_like_training")
ORDER = ("protocol_config", "dataset", "dataset_sha256", "dataset_config", "model_config", "training_config", "device")
ROW_ORDER = (*ORDER, "other_config", "method", "method_config", "seed", "repetition", "machine", "status", "view")


def load_records(path: str | Path) -> pd.DataFrame:
    """Read a results folder into a data frame: one row per record and view.

    Args:
        path: A folder with a folder `records` in it, or that folder.

    Returns:
        Columns: what the cell was (`dataset`, `model`, `method`, `method_name`, `preset`,
        `repetition`, `seed`, `device`, ... and `*_config`, the canonical JSON of each part), the
        method's `alias`, which is then its name in `method`, and `claim` (both empty where the record
        has none), the cell's `status`, the `view`, each metric after the request (`f1_micro`) and
        before it (`f1_micro_before`), times in seconds, peaks of memory in MiB, counts, and where it
        ran; `deployed`, a digest of the deployed parameters, and whether forgetting left them `unchanged`.
        What was not measured is missing, never 0. A failure has one row per view as well,
        without metrics. `frame.attrs["problems"]` lists files that could not be read; each is
        warned about, too.

    Raises:
        NothingMatchedError: There is no readable record.
    """
    everything, problems = read_results(Path(path))
    for problem in problems:
        warnings.warn(str(problem), stacklevel=2)
    return frame_of_runs(path, everything, problems)


def read_results(path: Path) -> tuple[list[Record], list[UnlearnbenchError]]:
    """Return the records of a results folder, those of audits too, and what could not be read."""
    problems: list[UnlearnbenchError] = []
    return list(read_records(results_root(path), problems)), problems


def frame_of_runs(
    path: str | Path, everything: Sequence[Record], problems: Sequence[UnlearnbenchError]
) -> pd.DataFrame:
    """Make the data frame of what `read_results` returned: see `load_records`; `path` is for messages."""
    records = [record for record in everything if not record.is_audit]
    if not records:
        unread = f" ({len(problems)} files could not be read; first: {problems[0].message})" if problems else ""
        unread += " of runs, only of audits" if everything else ""
        raise NothingMatchedError(
            f"{path}: no records{unread}.", "Make some with `unlearnbench run --out`, or name the folder they are in."
        )
    return frame_of(records, [problem.message for problem in problems])


def load_evidence(results: Path) -> list[Record]:
    """Read the records of a results folder, of which none may be damaged; what lies elsewhere than it says is named.

    Raises:
        UnlearnbenchError: A record cannot be read.
    """
    records, misplaced = read_evidence(results_root(results))
    for error in misplaced:
        warnings.warn(str(error), stacklevel=2)
    return records


def results_root(path: Path) -> Path:
    """Return the results folder, whether it is named itself or the folder `records` in it."""
    return path.parent if path.name == "records" and not (path / "records").is_dir() else path


def frame_of(
    records: Iterable[Record], problems: Sequence[str] = (), aliases: Mapping[str, str] = NO_ALIASES
) -> pd.DataFrame:
    """Make the data frame of records at hand: see `load_records`.

    `aliases`, by the canonical JSON of methods, go before those in the records.
    """
    rows = [row for record in records for row in _rows(record)]
    metrics = sorted(
        {name for row in rows for name in row} - {*TEXT, *NUMBERS, *TRUTHS, "repetition", "seed", "threads"}
    )
    kinds = (
        (TEXT, "object", ""),
        (("repetition", "seed"), "int64", None),
        ((*NUMBERS, *metrics), "float64", None),
        (TRUTHS, "boolean", None),
        (("threads",), "Int64", None),
    )
    parts = [
        pd.DataFrame(
            [[lacking if (value := row.get(name)) is None else value for name in names] for row in rows],
            columns=list(names),
            dtype=kind,
        )
        for names, kind, lacking in kinds
    ]
    frame = aliased(pd.concat(parts, axis=1), aliases)
    # One block of memory a type: a frame put together column by column is slow to take rows from.
    frame = frame.sort_values(list(ROW_ORDER), kind="stable", ignore_index=True).copy()
    if problems:  # pandas copies what is here in every operation
        frame.attrs["problems"] = list(problems)
    return frame


def _rows(record: Record) -> list[dict[str, Any]]:
    common = {**_cell(record), **_costs(record), **_provenance(record)}
    views = sorted({view for views in record.metrics.values() for view in views}) or list(VIEWS)
    rows = []
    for view in views:
        steps = stream_steps(record, view)
        row = {**common, "view": view, "stream": canonical_json(steps) if steps else ""}
        for metric, by_view in record.metrics.items():
            values = by_view.get(view, {})
            row[metric] = values.get("after")
            row |= {f"{metric}_{moment}": value for moment, value in values.items() if not moment.startswith("after")}
        rows.append(row)
    return rows


def _cell(record: Record) -> dict[str, Any]:
    cell = record.cell
    method, preset = cell["method"], str(cell["method"].get("preset", ""))
    return {
        "key": record.key,
        "status": record.status,
        "machine": record.machine,
        "device": str(cell.get("device", "")),
        "protocol": shown_protocol(cell["protocol"]),
        "protocol_config": canonical_json(cell["protocol"]),
        "forget": shown_forget(cell["protocol"].get("forget", {})),
        "dataset": cell["dataset"]["name"],
        "dataset_sha256": str(cell["dataset"].get("sha256", "")),
        "dataset_config": canonical_json({name: value for name, value in cell["dataset"].items() if name != "sha256"}),
        "model": cell["model"]["name"],
        "model_config": canonical_json(cell["model"]),
        "training_config": canonical_json(training_of(cell)),
        "other_config": canonical_json({name: value for name, value in cell.items() if name not in CELL_PARTS}),
        "method": shown_method(record.label, preset, is_tuned(cell)),
        "method_name": method["name"],
        "method_config": canonical_json(method_of(cell)),
        "label": record.label,
        "alias": record.alias,
        "preset": preset,
        "claim": (record.claim or {}).get("claim", ""),
        "repetition": cell["repetition"],
        "seed": cell["seed"],
    }


def _costs(record: Record) -> dict[str, Any]:
    values: dict[str, Any] = {"unlearn_seconds": record.unlearn_seconds}
    phases: defaultdict[str, list[Phase]] = defaultdict(list)
    for phase in record.phases:
        phases[phase["name"]].append(phase)
    for column, names in PHASE_SECONDS.items():
        seconds = [phase.get("seconds") for name in names for phase in phases.get(name, ())]
        known = [value for value in seconds if value is not None]
        values[column] = math.fsum(known) if known and len(known) == len(seconds) else None
    for kind, heads in (("unlearn", ("unlearn",)), ("fit", FIT_PHASES)):
        inside = [phase for name, alike in phases.items() if name.partition("/")[0] in heads for phase in alike]
        values |= {f"{kind}_{name}": _peak(inside, name) for name in MEMORY}
    for name in ("shards_hit", "shards_retired", "node_epochs", "steps", "parameter_bytes"):
        values[name] = record.counts.get(name)
    values |= _by_member(record)
    outer = [phase for phase in record.phases if "/" not in phase["name"]]
    if record.unlearn_seconds is not None:
        values["answers_charged"] = holds_first_answers(record.unlearn_seconds, outer)
    values["answers_like_training"] = any(answers_like_training(outer))
    counts = [request.get("count") for request in record.requests]
    values["deletions"] = sum(counts) if counts and all(isinstance(count, int) for count in counts) else None
    for name in ("edges_kept", "label_entropy", "graph_entropy"):
        value = (record.partition or {}).get(name)
        values[name] = value if isinstance(value, int | float) else None
    return values


def _by_member(record: Record) -> dict[str, float]:
    """Return what the first training cost member by member, where members were trained one by one.

    `serial_seconds`: all of them; `longest_seconds`: what is left with as many machines as members;
    `expected_seconds`: retraining for one deletion, uniform over nodes: sum of n_i/N t_i; unknown
    where a member was trained in several steps, the later of which may be all that a deletion costs.
    """
    if not record.cell.get("training", {}).get("one_by_one"):
        return {}
    matched = ((_MEMBER.fullmatch(phase["name"]), phase.get("seconds")) for phase in record.phases)
    rows = [(match[1], seconds) for match, seconds in matched if match]
    if not rows:
        # One network is not timed apart from its training.
        rows = [("000", next((p.get("seconds") for p in record.phases if p["name"] == "train"), None))]
    steps: dict[int, list[float]] = {}
    for member, value in rows:
        if value is not None:
            steps.setdefault(int(member), []).append(value)
    sizes = (record.partition or {}).get("sizes") or [1]
    if sum(map(len, steps.values())) < len(rows) or max(steps, default=0) >= len(sizes) or sum(sizes) <= 0:
        return {}
    times = {member: math.fsum(values) for member, values in steps.items()}
    spans = {"serial_seconds": math.fsum(times.values()), "longest_seconds": max(times.values())}
    if len(rows) == len(times):
        spans["expected_seconds"] = sum(sizes[member] * value for member, value in times.items()) / sum(sizes)
    return spans


def _peak(phases: Iterable[Mapping[str, Any]], reading: str) -> float | None:
    """Find the highest reading."""
    readings = (phase.get(reading) for phase in phases)
    return max((float(value) for value in readings if isinstance(value, int | float)), default=None)


def _provenance(record: Record) -> dict[str, Any]:
    source = record.provenance
    packages = source.get("packages") or {}
    memory = source.get("readings") or {}
    reasons = memory.get("reasons") or {}
    exclusive, threads = source.get("exclusive"), source.get("threads")
    return {
        "unlearn_gpu_reason": record.gpu_reason,
        "unlearn_rss_reason": reasons.get("peak_rss_mib", ""),
        "rss_source": (memory.get("sources") or {}).get("rss", ""),
        "backend": str(source.get("backend") or ""),
        "exclusive": exclusive if isinstance(exclusive, bool) else None,
        "threads": threads if isinstance(threads, int) else None,
        "started": str(source.get("started") or ""),
        "git": str(source.get("git") or "") + ("+dirty" if source.get("dirty") else ""),
        "torch": str(packages.get("torch") or ""),
        "unlearnbench": str(packages.get("unlearnbench") or ""),
        "packages": canonical_json(packages),
        "plugins": canonical_json(source.get("plugins") or {}),
        "instructions": str(source.get("instructions") or ""),
        "deployed": canonical_json(record.digests["after"]) if record.digests.get("after") else "",
        "unchanged": record.digests.get("unchanged"),
        "error_type": record.error["type"] if record.error and record.status in FAILURES else "",
        "notes": " ".join(record.notes),
    }
