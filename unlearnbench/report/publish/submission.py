"""Submitting results: records are checked one by one, and those that pass are laid out for a pull request."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError, UnlearnbenchError, UsageError
from unlearnbench.measure.machine import STABLE, TOLD, machine_id
from unlearnbench.records.files import inside, make_folder, write_whole
from unlearnbench.records.reading import read_in_place, read_machine
from unlearnbench.records.record import DamagedRecordError, Record
from unlearnbench.records.store import Store
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.report.frame.frame import VIEWS, results_root
from unlearnbench.running.cell_codec import cell_of_record

_DIGEST = re.compile(r"[0-9a-f]{32}")


@dataclass
class Submission:
    """What became of each file: laid out, there already (the same to the byte), or left out and why.

    `arrays` counts the archives of predictions and ids beside the records; they are not submitted.
    """

    written: list[Path] = field(default_factory=list)
    there: list[Path] = field(default_factory=list)
    left_out: list[tuple[Path, str]] = field(default_factory=list)
    arrays: int = 0


def submit(results: Path, out: Path, catalogue: Catalogue, allow_dirty: bool = False) -> Submission:
    """Check the records of a results folder and lay out those that pass; nothing in `out` is written over.

    Records must be of the versions of the catalogue's components; `allow_dirty` takes those of changed source.

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
    machines = {machine: _machine_problem(root, machine) for machine in {record.machine for record in found.values()}}
    apart = _requests_apart(found.values())
    for path, record in found.items():
        reason = (
            _problem(record, path, root, catalogue, allow_dirty)
            or machines[record.machine]
            or apart.get(_setting(record))
            or _lay(path, path.relative_to(root), out, done)
        )
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
    if "checksum" not in json.loads(path.read_bytes()):
        raise UsageError("it has no checksum: make it again with this version.")
    return record


def _problem(record: Record, path: Path, root: Path, catalogue: Catalogue, allow_dirty: bool) -> str:
    """Return why a record cannot be submitted; empty: it can be."""
    if record.is_failure:
        return f"a failure ({record.status}), not an outcome."
    packages = record.provenance.get("packages") or {}
    for name in ("unlearnbench", "torch"):
        if not packages.get(name):
            return f"it does not say which version of {name} made it."
    if record.provenance.get("dirty") and not allow_dirty:
        return "made from a dirty tree: source that no commit has. Commit and run again, or state it: --allow-dirty."
    try:
        cell_of_record(record, catalogue)
    except UsageError as error:
        return f"{error.message} {error.hint}"
    if record.is_audit:
        return ""
    return _digest_problem(record) or _metric_problem(record) or _array_problem(record, path, root)


def _digest_problem(record: Record) -> str:
    request = record.requests[0].get("ids_sha256") if record.requests else None
    if not isinstance(request, str) or not re.fullmatch(r"[0-9a-f]{64}", request):
        return "it has no digest of its request."
    if record.status != "ok":
        return ""
    before, after = (record.digests.get(moment) for moment in ("before", "after"))
    for moment, digests in (("before", before), ("after", after)):
        if not isinstance(digests, dict) or not all(
            isinstance(one, str) and _DIGEST.fullmatch(one) for one in digests.values()
        ):
            return f"it has no digests of the parameters {moment} the request."
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    members = [int(name.split("/")[1]) for name in changed if name.startswith("members/")]
    if record.digests.get("unchanged") is not (not changed) or record.digests.get("members_changed") != members:
        return "its digests and what it says of changed members contradict each other."
    return ""


def _metric_problem(record: Record) -> str:
    if record.status != "ok":
        return ""
    for name in ("f1_micro", "f1_macro"):
        for view in VIEWS:
            value = record.metrics.get(name, {}).get(view, {}).get("after")
            if value is None or not 0 <= value <= 1:
                return f"{name} of the view {view} after the request is {value}, not a share."
    return ""


def _array_problem(record: Record, path: Path, root: Path) -> str:
    """Compare the ids that were forgotten with the request's digest, where they are kept beside the record."""
    if not path.with_suffix(".npz").exists():
        return ""
    try:
        forgotten = Store(root, record.machine).arrays(record)["forgotten"]
        found = hashlib.sha256(forgotten.astype("<i8").tobytes()).hexdigest()
    except (UnlearnbenchError, KeyError, ValueError, TypeError):
        return f"{path.with_suffix('.npz').name} beside it cannot be read."
    if found != record.requests[0]["ids_sha256"]:
        return f"{path.with_suffix('.npz').name} beside it holds another request."
    return ""


def _setting(record: Record) -> str:
    """Name what must have the same request for every method and model."""
    parts = ("protocol", "dataset", "repetition", "seed")
    return canonical_json([record.is_audit, *(record.cell[part] for part in parts)])


def _requests_apart(records: Any) -> dict[str, str]:
    """Find settings whose records were not made with one request."""
    drawn: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        drawn[_setting(record)] |= {str(request.get("ids_sha256")) for request in record.requests}
    reason = "records of the same dataset, protocol, seed and repetition have different requests."
    return {key: reason for key, digests in drawn.items() if len(digests) > 1}


def _machine_problem(root: Path, machine: str) -> str:
    """Return what is wrong with the description of a machine; empty: nothing."""
    name = f"machines/{machine}.json"
    try:
        told = read_machine(root / name, root)
    except DamagedRecordError:
        told = {}
    if any(key not in told for key in TOLD):
        return f"{name} is missing or is no description of a machine."
    if more := sorted(set(told) - set(TOLD)):
        return f"{name} says more than a machine's description does: {', '.join(more)}."
    if not told["id"] == machine == machine_id({key: told[key] for key in STABLE}):
        return f"{name} describes another machine than its name says."
    return ""


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
