"""Reading records of a results folder: each counts once, at the place that follows from its content."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.records.files import leads_out, safe_name
from unlearnbench.records.record import KEY, DamagedRecordError, MisplacedRecordError, Record, read_record

_NAME = re.compile(KEY.pattern + r"(\.error)?\.json")


def read_records(root: Path, problems: list[UnlearnbenchError] | None = None) -> Iterator[Record]:
    """Read the records of all machines, outcomes and failures, in the order of their paths.

    Errors of unreadable files are added to `problems`; without it, the first one is raised.

    Raises:
        DamagedRecordError: A file is damaged, or lies behind a link out of the folder, and no list was given.
        SchemaVersionError: A file has another schema and no list was given.
    """
    if (top := root / "records").exists() and not top.is_dir():
        error = DamagedRecordError(f"{top} is a file, not the folder of the records.", "Move it away.")
        if problems is None:
            raise error
        problems.append(error)
    paths = _record_paths(root)
    longer = _longer_keys(paths)
    for path in paths:
        try:
            record = read_in_place(path, root)
            if any(_is_record(other, root) for other in longer.get(path, ())):
                raise MisplacedRecordError(
                    f"{path}: left out: its cell has a record with more digits of the key.",
                    "Delete the one with the shorter name.",
                )
            yield record
        except UnlearnbenchError as error:
            if problems is None:
                raise
            problems.append(error)


def read_evidence(root: Path) -> tuple[list[Record], list[MisplacedRecordError]]:
    """Read the records of all machines where none may be damaged.

    Returns:
        The records in the order of their paths, and an error for each that lies elsewhere than it says: it is left out.

    Raises:
        DamagedRecordError: A file is damaged.
        SchemaVersionError: A file has another schema.
    """
    problems: list[UnlearnbenchError] = []
    records = list(read_records(root, problems))
    misplaced = [error for error in problems if isinstance(error, MisplacedRecordError)]
    for error in problems:
        if error not in misplaced:
            raise error
    return records, misplaced


def read_in_place(path: Path, root: Path) -> Record:
    """Read a record of a results folder; it counts only at the place that follows from its content.

    Raises:
        MisplacedRecordError: It lies elsewhere, as in a copied or renamed folder.
        DamagedRecordError: It is damaged, or lies behind a link out of the folder.
        SchemaVersionError: It has another schema.
    """
    if leads_out(path, root):
        raise DamagedRecordError(
            f"{path}: a link leads out of {root}; it is not followed.", "Put the record itself there."
        )
    name = path.relative_to(root)
    if len(name.parts) != 5 or not _NAME.fullmatch(name.name):
        raise MisplacedRecordError(
            f"{path}: left out: not the place or the name of a record.", "Give it its own name back, or take it away."
        )
    record = read_record(path)
    place = record_place(record)
    if name != place:
        raise MisplacedRecordError(
            f"{path}: left out: it lies in a folder of another machine, dataset or method; its place is {place}.",
            "Move it there, or delete it if it is a copy.",
        )
    return record


def record_place(record: Record) -> Path:
    """Return the place of a record in a results folder."""
    names = (record.machine, record.cell["dataset"]["name"], record.cell["method"]["name"])
    return Path("records", *(safe_name(name) for name in names), record.file_name)


def read_machine(path: Path, root: Path) -> dict[str, Any]:
    """Read the description of a machine.

    Raises:
        DamagedRecordError: It cannot be read, or lies behind a link out of the folder.
    """
    remedy = "Delete it: the next run there writes it anew."
    try:
        plain = None if leads_out(path, root) else json.loads(path.read_bytes())
        json.dumps(plain, ensure_ascii=False).encode("utf-8")
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedRecordError(f"{path}: cannot be read ({error}).", remedy) from None
    if not isinstance(plain, dict):
        raise DamagedRecordError(f"{path}: no description of a machine.", remedy)
    return plain


def _record_paths(root: Path) -> list[Path]:
    """List the files that are records or were ones, in the order of their paths; elsewhere links are not followed."""
    paths = {*(root / "records").glob("*/*/*/*.json*"), *(root / "records").rglob("*.json*")}
    return sorted(
        (path for path in paths if not path.name.startswith(".")), key=lambda path: path.relative_to(root).parts
    )


def _longer_keys(paths: Iterable[Path]) -> dict[Path, list[Path]]:
    """Map the files whose key begins that of others to those: both are of one cell if both are records."""
    keys: dict[tuple[Path, str], dict[str, Path]] = {}
    for path in paths:
        if _NAME.fullmatch(path.name):
            key, _, ending = path.name.partition(".")
            keys.setdefault((path.parent, ending), {})[key] = path
    longer: dict[Path, list[Path]] = {}
    for files in keys.values():
        lengths = {len(key) for key in files}
        for key, path in files.items():
            for length in lengths:
                if length < len(key) and key[:length] in files:
                    longer.setdefault(files[key[:length]], []).append(path)
    return longer


def may_be_written_over(path: Path, root: Path) -> bool:
    """Whether a file, readable or not, may lie where the record of its key goes."""
    try:
        read_in_place(path, root)
    except MisplacedRecordError:
        return False
    except UnlearnbenchError:
        return True
    return True


def _is_record(path: Path, root: Path) -> bool:
    with contextlib.suppress(UnlearnbenchError):
        read_in_place(path, root)
        return True
    return False
