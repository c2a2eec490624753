"""Which records were computed again, by which machine: `recomputed/<machine>.json` in a results folder.

`leaderboard verify --recompute` writes it, `leaderboard build` reads it, and `submit` never takes it along:
whoever receives records makes it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.measure.machine import STABLE, machine_id
from unlearnbench.records.files import inside, leads_out, make_folder, write_whole
from unlearnbench.records.record import Record
from unlearnbench.report.publish.submitted import Machine, MachineId, Sha256

FOLDER = "recomputed"
_REMEDY = "Delete it, and compute the cells again: unlearnbench leaderboard verify --recompute N."


RecordName = tuple[str, str]


class Mark(BaseModel):
    """What came of computing the cell of a record again; `checksum` is that of the record then."""

    model_config = ConfigDict(extra="forbid", strict=True)

    machine: MachineId
    key: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8,64}\z")]
    checksum: Sha256
    agrees: bool


# Machine and key of a record to the machines that computed it again, and what came of it.
Marks = Mapping[RecordName, Sequence[tuple[str, Mark]]]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    schema_version: Literal[1]
    machine: Machine
    records: list[Mark]


def checksum_of(record: Record) -> str:
    """Return the checksum of a record, of an old one that holds none too."""
    return str(json.loads(record.to_json())["checksum"])


def write_marks(root: Path, machine: Mapping[str, Any], done: Iterable[tuple[Record, bool]]) -> Path | None:
    """Add what this machine computed again, and whether it agrees, to its file; None: there is nothing to add.

    Raises:
        UnlearnbenchError: An earlier file cannot be read, or it cannot be written.
    """
    path = inside(root / FOLDER / f"{machine['id']}.json", root)
    marks = {(one.machine, one.key): one for one in (_read(path, root).records if path.exists() else ())}
    new = {
        (record.machine, record.key): Mark(
            machine=record.machine, key=record.key, checksum=checksum_of(record), agrees=agrees
        )
        for record, agrees in done
    }
    if not new:
        return None
    marks |= new
    plain = {
        "schema_version": 1,
        "machine": dict(machine),
        "records": [marks[name].model_dump() for name in sorted(marks)],
    }
    make_folder(path.parent)
    write_whole(path, (json.dumps(plain, sort_keys=True, indent=1, allow_nan=False) + "\n").encode("ascii"))
    return path


def read_marks(root: Path) -> Marks:
    """Read the files of all machines.

    Raises:
        UnlearnbenchError: A file is no list of such marks, or that of another machine.
    """
    marks: defaultdict[RecordName, list[tuple[str, Mark]]] = defaultdict(list)
    for path in sorted((root / FOLDER).glob("*.json")):
        if not path.name.startswith("."):
            for mark in _read(path, root).records:
                marks[mark.machine, mark.key].append((path.stem, mark))
    return dict(marks)


def _read(path: Path, root: Path) -> _File:
    try:
        if leads_out(path, root):
            raise ValueError("a link leads out of the folder")
        marks = _File.model_validate_json(path.read_bytes())
        names = [(mark.machine, mark.key) for mark in marks.records]
        if len(names) != len(set(names)):
            raise ValueError("a record is named twice")
        facts = marks.machine.model_dump()
        if not marks.machine.id == path.stem == machine_id({key: facts[key] for key in STABLE}):
            raise ValueError("it describes another machine than its name says")
    except (OSError, ValueError) as error:
        text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise UnlearnbenchError(f"{path}: cannot be read: {text}.", _REMEDY) from None
    return marks


def recomputed_columns(records: Iterable[Record], marks: Marks) -> dict[str, Any]:
    """Count the records that were computed again and name the machines; marks of earlier contents do not count.

    A record counts as `recomputed_n` if every machine that computed it again agrees, else as `recomputed_differ`.
    """
    agree = differ = 0
    machines: set[str] = set()
    for record in records:
        known = marks.get((record.machine, record.key))
        if known is None:
            continue
        checksum = checksum_of(record)
        valid = [(machine, mark) for machine, mark in known if mark.checksum == checksum]
        machines |= {machine for machine, _ in valid}
        agree += bool(valid) and all(mark.agrees for _, mark in valid)
        differ += any(not mark.agrees for _, mark in valid)
    return {"recomputed_n": agree, "recomputed_differ": differ, "recomputed_by": " ".join(sorted(machines))}
