"""Records on disk: one strict JSON file per cell, written atomically.

Layout under a results folder:

    records/<machine>/<dataset>/<method>/<key>.json         the outcome of a cell
    records/<machine>/<dataset>/<method>/<key>.error.json   a failure, never counted as done
    records/<machine>/<dataset>/<method>/<key>.npz          predictions, ids
    records/<machine>/<dataset>/<method>/<key>.curves.npz   learning curves, where they were asked for
    machines/<machine>.json                                 the description of the machine
    unfinished/<machine>/<key>/*.pt                         members of an unfinished cell: see `unfinished`

Several processes, on one machine or many, may write into one folder: every file has one
writer at a time, appears by a rename, and the last writer of a cell wins.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unlearnbench.errors import UnlearnbenchError, UsageError, WriteError
from unlearnbench.records.curve_files import deployed_digest, read_curves, split_off, write_curves
from unlearnbench.records.files import (
    TEMPORARY,
    cannot_write,
    inside,
    leads_out,
    make_folder,
    remove,
    safe_name,
    write_whole,
)
from unlearnbench.records.reading import may_be_written_over, read_in_place, read_machine, read_records, record_place
from unlearnbench.records.record import KEY, DamagedRecordError, MisplacedRecordError, Record
from unlearnbench.records.unfinished import remove_all_unfinished, remove_unfinished, unfinished_folder

Policy = Literal["only-missing", "busy", "never", "always"]

STALE_SECONDS = 3600.0
_ARRAY = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")


def temporaries(root: Path) -> list[Path]:
    """List the temporary files under a results folder, in the order of their paths; links are not followed."""
    return sorted(
        Path(folder, name) for folder, _, names in os.walk(root) for name in names if TEMPORARY.fullmatch(name)
    )


def remove_temporaries(root: Path, older_than: float = STALE_SECONDS) -> list[Path]:
    """Remove and list temporary files that killed writers left behind; what cannot be removed stays.

    Those last written less than `older_than` seconds ago may still be in use and stay.
    """
    removed = []
    for path in temporaries(root):
        with contextlib.suppress(OSError):  # its writer has just renamed it, or it may not be looked at
            if time.time() - path.stat().st_mtime >= older_than and remove(path):
                removed.append(path)
    return removed


class Store:
    """The records of one results folder, made at the first write, as one machine writes them.

    `problems` collects the errors of damaged records, which `has` counted as not done.
    """

    def __init__(self, root: Path, machine: str) -> None:
        self.root = Path(root)
        self.machine = machine
        self.problems: list[UnlearnbenchError] = []

    def folder(self, record: Record) -> Path:
        """Return the folder of a record's files.

        Raises:
            UsageError: A link leads out of the results folder.
        """
        return inside((self.root / record_place(record)).parent, self.root)

    def path(self, record: Record) -> Path:
        """Return the path of a record."""
        return self.folder(record) / record.file_name

    def has(self, key: str) -> bool:
        """Whether this machine has a readable record of a cell; failures do not count.

        A damaged record counts as not done, and its error is added to `problems`.

        Raises:
            SchemaVersionError: The record is of another schema: it must not be written over.
        """
        return self._readable(key) is not None

    def find(self, key: str) -> Record | None:
        """Read this machine's record of a cell, if it has one.

        Raises:
            DamagedRecordError: It has one that cannot be read.
            SchemaVersionError: It has one of another schema.
        """
        return self._read(key)

    def find_failure(self, key: str) -> Record | None:
        """Read the record of this machine's last failure of a cell, if there is one.

        Raises:
            DamagedRecordError: It cannot be read.
            SchemaVersionError: It is of another schema.
        """
        return self._read(key, ".error.json")

    def wanted(self, key: str, policy: Policy) -> bool:
        """Whether a policy has a cell run.

        `only-missing` wants cells without a readable record of this machine, failed ones included; `busy` those, and
        cells timed while other work kept the machine busy; `never` only cells without any file, so that nothing is
        overwritten; `always` every cell.

        Raises:
            UsageError: An unknown policy, or a link leads out of the results folder.
        """
        inside(self.root / "records" / safe_name(self.machine), self.root)
        if policy == "always":
            return True
        if policy == "never":
            files = (*self._files(key), *self._files(key, ".error.json"))
            return not any(may_be_written_over(path, self.root) for path in files)
        if policy not in get_args(Policy):
            raise UsageError(f"Unknown `overwrite` {policy!r}.", f"Known: {', '.join(get_args(Policy))}.")
        record = self._readable(key)
        if record is None or policy == "only-missing":
            return record is None
        # The time of a refused or diverged cell is not compared anyway.
        return record.status == "ok" and record.provenance.get("exclusive") is not True

    def records(self, problems: list[UnlearnbenchError] | None = None) -> Iterator[Record]:
        """Read the records of all machines: see `read_records`."""
        return read_records(self.root, problems)

    def save(self, record: Record, arrays: Mapping[str, NDArray[Any]] | None = None) -> Path:
        """Write the outcome of a cell and return its path; remove checkpoints and the record of an earlier failure.

        The arrays, of plain numbers, are written beside the record and before it, so that no record is without them;
        learning curves, whose names begin with `curves.HEAD`, into a file of their own.

        Raises:
            UsageError: A failure, another machine's record, or an array that holds objects.
            WriteError: It cannot be written; an earlier record is intact.
        """
        self._check(record, failure=False)
        folder = make_folder(self.folder(record))
        if arrays is not None:
            for name, array in arrays.items():
                _check_array(name, array)
            columns, others = split_off(arrays)
            write_whole(folder / f"{record.key}.npz", lambda file: np.savez(file, **others))  # type: ignore[arg-type]
            if columns:
                write_curves(folder, record, columns)
        path = folder / record.file_name
        write_whole(path, record.to_json().encode("ascii"))
        remove(folder / f"{record.key}.error.json")
        remove_unfinished(unfinished_folder(self.root, self.machine, record.key))
        return path

    def save_failure(self, record: Record) -> Path:
        """Write the failure of a cell; an earlier outcome of the same cell stays.

        Raises:
            UsageError: An outcome, or another machine's record.
            WriteError: It cannot be written.
        """
        self._check(record, failure=True)
        path = make_folder(self.folder(record)) / record.file_name
        write_whole(path, record.to_json().encode("ascii"))
        return path

    def arrays(self, record: Record) -> dict[str, NDArray[Any]]:
        """Read the arrays beside a record of this machine.

        Raises:
            DamagedRecordError: They are missing or cannot be read.
        """
        path = self.folder(record) / f"{record.key}.npz"
        if leads_out(path, self.root):
            raise DamagedRecordError(
                f"{path}: a link leads out of {self.root}; it is not followed.", "Remove the link."
            )
        try:
            # numpy leaves a file it opened itself open when the archive turns out to be damaged.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
                return {name: loaded[name] for name in loaded.files}
        except Exception as error:  # numpy raises a different class for each kind of damage
            raise DamagedRecordError(
                f"{path}: cannot be read ({type(error).__name__}: {error}).",
                "Run the cell again with `overwrite` always.",
            ) from None

    def curves(self, record: Record) -> dict[str, NDArray[Any]] | None:
        """Read the learning curves beside a record: see `read_curves`."""
        return read_curves(self.folder(record), record, self.root)

    def has_curves(self, key: str) -> bool:
        """Whether this machine has a readable record of a cell with its learning curves."""
        record = self._readable(key)
        try:
            return record is not None and self.curves(record) is not None
        except DamagedRecordError as error:
            self.problems.append(error)
            return False

    def add_curves(self, key: str, record: Record, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Write the learning curves of a cell computed again beside its record that is there and stays as it is.

        Returns:
            Whether they were written: not if the record that is there deployed other parameters.

        Raises:
            WriteError: They cannot be written.
        """
        standing = self._readable(key)
        if standing is None or deployed_digest(standing) != deployed_digest(record):
            return False
        write_curves(self.folder(standing), standing, split_off(arrays)[0])
        return True

    def save_machine(self, description: Mapping[str, Any]) -> Path:
        """Write the description of the machine, unless the same one is there already.

        Raises:
            WriteError: It cannot be written, and there is none of this machine.
        """
        path = make_folder(inside(self.root / "machines", self.root)) / f"{safe_name(self.machine)}.json"
        plain = {**description, "id": self.machine}
        text = json.dumps(plain, allow_nan=False, sort_keys=True, indent=1, ensure_ascii=True) + "\n"
        if not path.is_file() or path.read_bytes() != text.encode("ascii"):
            try:
                write_whole(path, text.encode("ascii"))
            except WriteError:
                # Another user's in a shared folder: what makes up the id is the same in it.
                with contextlib.suppress(DamagedRecordError):
                    if read_machine(path, self.root).get("id") == self.machine:
                        return path
                raise
        return path

    def check_writable(self) -> None:
        """Try whether records can be written, before any work.

        Raises:
            UsageError: A link leads out of the results folder.
            WriteError: They cannot.
        """
        folder = make_folder(inside(self.root / "records" / safe_name(self.machine), self.root))
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise cannot_write(folder, error) from error

    def clean(self, older_than: float = STALE_SECONDS) -> list[Path]:
        """Remove what killed runs left behind: temporary files, and members of cells that are finished."""
        return remove_temporaries(self.root, older_than) + remove_all_unfinished(self.root, older_than)

    def _readable(self, key: str) -> Record | None:
        """Read a cell's record; the error of a damaged or misplaced one is added to `problems`."""
        for path in self._files(key):
            try:
                return read_in_place(path, self.root)
            except DamagedRecordError as error:
                self.problems.append(error)
        return None

    def _read(self, key: str, ending: str = ".json") -> Record | None:
        for path in self._files(key, ending):
            with contextlib.suppress(MisplacedRecordError):
                return read_in_place(path, self.root)
        return None

    def _files(self, key: str, ending: str = ".json") -> list[Path]:
        if not KEY.fullmatch(key):
            raise UsageError(f"{key!r} is not the key of a cell.", "A key is 8 to 64 hexadecimal digits.")
        return sorted((self.root / "records" / safe_name(self.machine)).glob(f"*/*/{key}{ending}"))

    def _check(self, record: Record, failure: bool) -> None:
        if record.is_failure is not failure:
            raise UsageError(
                f"A record with status {record.status} cannot be saved as {'a failure' if failure else 'an outcome'}."
            )
        if record.machine != self.machine:
            raise UsageError(f"A record of machine {record.machine} cannot be saved as one of {self.machine}.")


def _check_array(name: str, array: NDArray[Any]) -> None:
    # `file` is a parameter of numpy.savez itself.
    if not _ARRAY.fullmatch(name) or name in ("file", "allow_pickle"):
        raise UsageError(
            f"{name!r} cannot be the name of an array.", "Use lower-case letters, digits, _ and / between parts."
        )
    if np.asarray(array).dtype.hasobject:
        raise UsageError(f"Array {name} holds objects.", "Keep arrays of plain numbers only.")
