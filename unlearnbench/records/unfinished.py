"""Folders of checkpoints: members of large cells that are not finished yet.

Layout under a results folder:

    unfinished/<machine>/<key>/<phase>-<digest>.pt      the members of one group: see `checkpoints`

The folder of a cell is removed once its record exists.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from unlearnbench.records.files import inside, remove, safe_name


def unfinished_folder(root: Path, machine: str, key: str) -> Path:
    """Return the folder of a cell's groups.

    Raises:
        UsageError: A link leads out of the results folder.
    """
    return inside(root / "unfinished" / safe_name(machine) / key, root)


def unfinished_folders(root: Path) -> list[Path]:
    """List the folders of groups under a results folder, in the order of their paths; none that may not be read."""
    try:
        return sorted(path for path in (root / "unfinished").glob("*/*") if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def is_finished(folder: Path, root: Path) -> bool:
    """Whether the cell of such a folder has a record: then its groups are not needed any more."""
    machine, key = folder.parent.name, folder.name
    return any((root / "records" / machine).glob(f"*/*/{key}.json"))


def last_written(folder: Path) -> float:
    """Return when a file of the folder was last written, in seconds since the epoch; 0 if it is gone."""
    times = [0.0]
    for path in (folder, *folder.glob("*")):
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def remove_unfinished(folder: Path) -> None:
    """Remove a cell's groups, if there are any, and the parent folders that are then empty; what cannot be stays."""
    with contextlib.suppress(OSError):
        if not folder.is_dir() or folder.is_symlink():
            return
        for path in folder.iterdir():
            remove(path)
    for empty in (folder, folder.parent, folder.parent.parent):
        with contextlib.suppress(OSError):  # not empty: other cells have groups there
            empty.rmdir()


def remove_all_unfinished(root: Path, older_than: float, all_of_them: bool = False) -> list[Path]:
    """Remove groups of cells that have their record, and return their folders.

    Those last written less than `older_than` seconds ago may be in use and stay. With `all_of_them`, groups of
    unfinished cells go as well: a run then starts those cells from the beginning.
    """
    removed = []
    for folder in unfinished_folders(root):
        with contextlib.suppress(OSError):  # folders of others that may not be looked into
            if (all_of_them or is_finished(folder, root)) and time.time() - last_written(folder) >= older_than:
                remove_unfinished(folder)
                if not os.path.lexists(folder):
                    removed.append(folder)
    return removed
