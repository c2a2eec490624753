"""What `report` answered before, so that the same question about the same records is answered at once.

An answer lies in the user's cache folder, with a digest of what it was made from: name, size, inode and times of
every file of the records, of the package and of each plugin. It is read only where all of that is still so; an
answer that is damaged or older is made anew.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

import unlearnbench

MOST = 60
"""Answers that are kept; the oldest go first."""
_SOURCES = (".py", ".csv", ".toml", ".html", ".css", ".js")


@dataclass(frozen=True)
class Answer:
    """What a command printed.

    Args:
        text: On standard output.
        problems: Warnings, on standard error.
    """

    text: str
    problems: tuple[str, ...]


def state_of_files(folders: Iterable[Path], endings: tuple[str, ...] = ()) -> tuple[str, int]:
    """Digest name, size, inode and times of every file below some folders; links are not followed.

    Args:
        folders: Those that are not there count as empty.
        endings: Only files whose names end so; empty: all.

    Returns:
        The digest, in hexadecimal digits, and the number of files.
    """
    digest, count = hashlib.sha256(), 0
    for folder in folders:
        for path, stat in sorted(_files(os.fspath(folder))):
            if not endings or path.endswith(endings):
                facts = (path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_mode)
                digest.update(repr(facts).encode("utf-8", "surrogateescape"))
                count += 1
        digest.update(b"\0")
    return digest.hexdigest(), count


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:  # what cannot be read now and can later is a change
        if os.path.lexists(folder):
            yield f"{folder}: {error.strerror}", os.lstat(folder)
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        else:
            yield entry.path, entry.stat(follow_symlinks=False)


def state_of_code() -> str:
    """Digest what tables are made by: this package, every plugin, Python and what is installed."""
    points = sorted({(point.name, point.value) for point in metadata.entry_points(group="unlearnbench")})
    tops = {value.partition(":")[0].partition(".")[0] for _, value in points}
    folders = [Path(unlearnbench.__file__).parent]
    for top in sorted(tops):
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.origin:
            origin = Path(spec.origin)
            folders.append(origin.parent if spec.submodule_search_locations else origin)
    # A folder of packages changes when one is installed, upgraded or taken away.
    places = [(path, os.stat(path).st_mtime_ns) for path in sys.path if os.path.isdir(path)]
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith("UNLEARNBENCH_"))
    files = state_of_files([folder for folder in folders if folder.is_dir()], _SOURCES)
    single = [(str(folder), folder.stat().st_mtime_ns) for folder in folders if folder.is_file()]
    return _digest([points, places, settings, files, single, sys.version])


class Answers:
    """The answers about one results folder.

    Args:
        results: The folder.
        question: What was asked, as plain JSON values: everything that the answer depends on beside the records.
    """

    def __init__(self, results: Path, question: Any) -> None:
        self._folder = user_cache_path("unlearnbench", appauthor=False, opinion=False) / "answers"
        root = results.parent if results.name == "records" else results
        # Taken before any record is read: what changes meanwhile is seen the next time.
        state, self.records = state_of_files([root / "records"])
        self._state = _digest([state, state_of_code()])
        self._path = self._folder / f"{_digest([str(results.absolute()), question])}.json"

    def find(self) -> Answer | None:
        """Return the answer if there is one of exactly these files."""
        try:
            found = json.loads(self._path.read_text("utf-8"))
            if found["state"] != self._state or found["digest"] != _digest([found["text"], found["problems"]]):
                return None
            return Answer(found["text"], tuple(found["problems"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, answer: Answer) -> None:
        """Keep an answer; where it cannot be written, the next question takes longer, and that is all."""
        problems = list(answer.problems)
        kept = {"state": self._state, "text": answer.text, "problems": problems}
        text = json.dumps({**kept, "digest": _digest([answer.text, problems])})
        from unlearnbench.records.files import write_whole

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, text.encode("ascii"))
            by_age = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            for path in by_age[:-MOST]:
                path.unlink(missing_ok=True)
        except Exception:  # the disk may be full or the folder another's: the table is printed already
            return


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
