"""Raw files of a dataset: where they lie, and getting those that are missing, once and whole."""

from __future__ import annotations

import http.client
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from unlearnbench.datasets.base import cache_root
from unlearnbench.errors import DataError

ANSWER_SECONDS = 15
DOWNLOAD_SECONDS = 300
CHUNK_BYTES = 2**20
USER_AGENT = "unlearnbench"

Check = Callable[[str, bytes], None]


@dataclass(frozen=True)
class RawFiles:
    """The files a dataset is made of.

    Args:
        dataset: The dataset's name, for messages.
        folder: Where they lie under a data root: `Planetoid/Cora/raw`.
        urls: File name to the address it can be had from.
        check: Looks at a file's name and content; raises `DataError` for one that is not what
            it should be.
    """

    dataset: str
    folder: str
    urls: Mapping[str, str]
    check: Check

    def find(self, root: Path) -> Path:
        """Give the folder that holds all files, after a download if some are missing.

        A root that holds all files is only read, and no network is used. Files that are
        missing go to the root, or to the user's cache where the root cannot be written. Jobs
        that share a root wait for each other; a file appears under its name only when whole.

        Raises:
            DataError: Files are missing and cannot be had: which, and where to put them.
        """
        places = self.places(root)
        for place in places:
            if not self.missing(place):
                return place
        target = next((place for place in places if _is_writable(place)), None)
        if target is None:
            raise self._cannot(places[0], self.missing(places[0]), "no folder to download them to can be written")
        try:
            with FileLock(target / ".download.lock", timeout=DOWNLOAD_SECONDS):
                # Another job may have brought them while this one waited.
                for name in self.missing(target):
                    self._download(name, target)
        except Timeout:
            reason = f"another process has held {target / '.download.lock'} for {DOWNLOAD_SECONDS} s"
            raise self._cannot(target, self.missing(target), reason) from None
        return target

    def places(self, root: Path) -> list[Path]:
        """List the folders that are looked into, in order: the root's, then the user's cache."""
        return list(dict.fromkeys((root / self.folder, cache_root() / self.folder)))

    def read(self, root: Path) -> dict[str, bytes]:
        """Read all files, checked.

        Raises:
            DataError: A file is missing or is not what it should be.
        """
        folder = self.find(root)
        contents = {}
        for name in self.urls:
            path = folder / name
            try:
                contents[name] = path.read_bytes()
            except OSError as error:
                raise DataError(f"Dataset {self.dataset}: {path} cannot be read: {error.strerror}.") from None
            self.check_file(path, contents[name])
        return contents

    def check_file(self, path: Path, content: bytes) -> None:
        """Check one file that lies on the disk.

        Raises:
            DataError: Names the file, what is wrong with it and the way out.
        """
        try:
            self.check(path.name, content)
        except DataError as error:
            raise DataError(
                f"Dataset {self.dataset}: {path} is damaged or not the right file: {error.message}",
                f"Delete it and run again to download it, or put the file from {self.urls[path.name]} in its place.",
            ) from None

    def missing(self, place: Path) -> list[str]:
        """List the files that a folder lacks."""
        return [name for name in self.urls if not (place / name).is_file()]

    def _download(self, name: str, target: Path) -> None:
        url = self.urls[name]
        try:
            content = fetch(url)
            self.check(name, content)
        except (OSError, http.client.HTTPException) as error:
            raise self._cannot(target, self.missing(target), f"{url}: {error}") from None
        except DataError as error:
            raise self._cannot(target, self.missing(target), f"{url} sent something else: {error.message}") from None
        write_whole(target / name, content)

    def _cannot(self, place: Path, missing: list[str], reason: str) -> DataError:
        source = self.urls[missing[0]].rpartition("/")[0]
        return DataError(
            f"Dataset {self.dataset}: {len(missing)} of {len(self.urls)} files are missing and could not be downloaded"
            f" ({reason.rstrip('.')}).",
            f"Put {', '.join(missing)} (from {source}) into {place}, or name a folder that has"
            f" {self.folder} with --data-root.",
        )


def fetch(url: str) -> bytes:
    """Get what lies at an address: one try, with a limit to every wait and to the whole.

    Raises:
        OSError: No answer, a refusal, or too slow.
        http.client.HTTPException: The answer breaks off.
    """
    deadline = time.monotonic() + DOWNLOAD_SECONDS
    parts = []
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
        while part := answer.read(CHUNK_BYTES):
            parts.append(part)
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {DOWNLOAD_SECONDS} s")
        expected = answer.headers.get("Content-Length")
    content = b"".join(parts)
    if expected is not None and len(content) != int(expected):
        raise http.client.IncompleteRead(content, int(expected) - len(content))
    return content


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
