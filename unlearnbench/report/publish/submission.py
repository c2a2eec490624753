"""Submitting results: records are checked one by one, and those that pass are laid out for a pull request."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError, UnlearnbenchError, UsageError
from unlearnbench.hookspecs import SESSION
from unlearnbench.measure.machine import STABLE, TOLD, machine_id
from unlearnbench.records.files import inside, make_folder, write_whole
from unlearnbench.records.reading import read_in_place, read_machine, read_records
from unlearnbench.records.record import DamagedRecordError, Record
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.session import REMEDY
from unlearnbench.report.frame.frame import results_root
from unlearnbench.report.publish.evidence import Evidence, Graphs, digest_problem
from unlearnbench.report.publish.grids import grid_problems
from unlearnbench.report.publish.submitted import content_problem, machine_problem
from unlearnbench.report.publish.timing import timing_problem
from unlearnbench.running.cell_codec import cell_of_record


@dataclass
class Submission:
    """What became of each file: laid out, there already (the same to the byte), or left out and why.

    `arrays` counts the archives of predictions and ids beside the records; they are not submitted.
    """

    written: list[Path] = field(default_factory=list)
    there: list[Path] = field(default_factory=list)
    left_out: list[tuple[Path, str]] = field(default_factory=list)
    arrays: int = 0


@dataclass(frozen=True)
class _Checks:
    """What all records of a folder are checked with."""

    root: Path
    catalogue: Catalogue
    allow_dirty: bool
    evidence: Evidence
    machines: Mapping[str, tuple[Mapping[str, Any], str]]
    now: datetime.datetime


def submit(
    results: Path,
    out: Path,
    catalogue: Catalogue,
    allow_dirty: bool = False,
    data: Path | None = None,
    forbid_downloads: bool = False,
) -> Submission:
    """Check the records of a results folder and lay out those that pass; nothing in `out` is written over.

    Records must be of the versions of the catalogue's components, and fit those that are in `out` already;
    `allow_dirty` takes those of changed source. Datasets are looked for in `data`.

    Raises:
        NothingMatchedError: There is no file of a record.
        WriteError: Something cannot be written.
    """
    root = results_root(results)
    files = sorted(path for path in (root / "records").rglob("*") if not path.is_dir())
    plain = [path for path in files if path.suffix != ".npz"]
    done = Submission(arrays=len(files) - len(plain))
    found: dict[Path, Record] = {}
    for path in plain:
        try:
            found[path] = _read(path, root)
        except UnlearnbenchError as error:
            done.left_out.append((path, error.message.removeprefix(f"{path}: ").removeprefix("left out: ")))
    if not found and not done.left_out:
        raise NothingMatchedError(f"{results}: no records.", "Name the folder they are in.")
    machines = {machine: _read_machine(root, machine) for machine in {record.machine for record in found.values()}}
    evidence = Evidence(root, catalogue, Graphs(data, forbid_downloads))
    checks = _Checks(root, catalogue, allow_dirty, evidence, machines, datetime.datetime.now(datetime.UTC))
    reasons = {path: _problem(record, path, checks) for path, record in found.items()}
    standing = list(read_records(out, problems=[]))
    # What does not hold by itself proves nothing about the rest, but for failures.
    sound = {path: record for path, record in found.items() if record.is_failure or not reasons[path]}
    apart = grid_problems(sound, standing)
    for path in found:
        reason = reasons[path] or apart.get(path) or _lay(path, path.relative_to(root), out, done)
        if reason:
            done.left_out.append((path, reason))
    taken = {path.relative_to(out).parts[1] for path in [*done.written, *done.there]}
    for machine in sorted(taken):
        path = Path("machines", f"{machine}.json")
        if (out / path).exists():
            # The identity follows from what does not change; versions of the system may be others by now.
            done.there.append(out / path)
        elif reason := _lay(root / path, path, out, done):
            done.left_out.append((root / path, reason))
    return done


def _read(path: Path, root: Path) -> Record:
    record = read_in_place(path, root)
    content = path.read_bytes()
    lacks = {
        "checksum": "checksum" not in json.loads(content),
        "digest of its predictions": bool(record.digests) and record.predictions_digest is None,
        "list of the repetitions of its run": not record.is_audit and "repetitions" not in record.provenance,
    }
    for what, is_lacking in lacks.items():
        if is_lacking and not record.is_failure:
            raise UsageError(f"it has no {what}: make it again with this version.")
    if content != record.to_json().encode("ascii"):
        raise UsageError("it is not written as this version writes records: make it again with this version.")
    return record


def _problem(record: Record, path: Path, checks: _Checks) -> str:
    """Return why a record cannot be submitted; empty: it can be."""
    if record.is_failure:
        return f"a failure ({record.status}), not an outcome."
    if f'"distribution":"{SESSION}"' in canonical_json(record.cell):
        return f"its code is of a session alone, where nobody else finds it. {REMEDY}"
    machine, reason = checks.machines[record.machine]
    if reason := reason or content_problem(record):
        return reason
    packages = record.provenance["packages"]
    for name in ("unlearnbench", "torch"):
        if not packages.get(name):
            return f"it does not say which version of {name} made it."
    if record.provenance["git"] and record.provenance["dirty"] is None:
        return "it does not say whether its source is that of its commit."
    if record.provenance["dirty"] and not checks.allow_dirty:
        return "made from a dirty tree: source that no commit has. Commit and run again, or state it: --allow-dirty."
    try:
        cell = cell_of_record(record, checks.catalogue)
    except UsageError as error:
        return f"{error.message} {error.hint}"
    unnamed = sorted(cell.distributions() - set(record.provenance["plugins"]))
    if unnamed:
        return f"it does not say which version of {', '.join(unnamed)} made it."
    if cell.runs_foreign_code() and not record.is_audit and not record.provenance.get("scored_outside"):
        return "code of another package was scored in its own process, where it can read labels: run it isolated."
    return (
        timing_problem(record, machine, checks.now) or digest_problem(record) or checks.evidence.problem(record, cell)
    )


def _read_machine(root: Path, machine: str) -> tuple[Mapping[str, Any], str]:
    """Read the description of a machine; return it and what is wrong with it, empty: nothing."""
    name = f"machines/{machine}.json"
    try:
        described = read_machine(root / name, root)
    except DamagedRecordError:
        described = {}
    if any(key not in described for key in TOLD):
        return {}, f"{name} is missing or is no description of a machine."
    if more := sorted(set(described) - set(TOLD)):
        return {}, f"{name} says more than a machine's description does: {', '.join(more)}."
    if not described["id"] == machine == machine_id({key: described[key] for key in STABLE}):
        return {}, f"{name} describes another machine than its name says."
    if problem := machine_problem(described):
        return {}, f"{name}: {problem}"
    return described, ""


def _lay(path: Path, name: Path, out: Path, done: Submission) -> str:
    """Copy a file; return why not, if there is another one already."""
    target, content = out / name, path.read_bytes()
    inside(target, out)
    if not target.exists():
        make_folder(target.parent)
        write_whole(target, content)
        done.written.append(target)
    elif target.is_file() and target.read_bytes() == content:
        done.there.append(target)
    else:
        return f"{target} is there already and differs: nothing is written over."
    return ""
