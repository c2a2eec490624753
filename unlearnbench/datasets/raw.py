"""Raw files of a dataset: where they lie, and getting those that are missing, once and whole."""

from __future__ import annotations

import http.client
import io
import os
import tempfile
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from unlearnbench.datasets.base import cache_root
from unlearnbench.errors import DataError, MissingDataError
from unlearnbench.records.files import write_whole

OFFLINE_VARIABLE = "UNLEARNBENCH_OFFLINE"
ANSWER_SECONDS = 15
DOWNLOAD_SECONDS = 300
CHUNK_BYTES = 2**20
USER_AGENT = "unlearnbench"

Check = Callable[[str, bytes], None]

_offline: ContextVar[bool] = ContextVar("offline", default=False)


@contextmanager
def offline(wanted: bool = True) -> Iterator[None]:
    """Forbid downloads inside, if wanted; `UNLEARNBENCH_OFFLINE` forbids them everywhere."""
    token = _offline.set(_offline.get() or wanted)
    try:
        yield
    finally:
        _offline.reset(token)


def is_offline() -> bool:
    """Tell whether downloads are forbidden."""
    return _offline.get() or os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


@dataclass(frozen=True)
class RawFiles:
    """The files a dataset is made of.

    Args:
        dataset: The dataset's name, for messages.
        folder: Where they lie under a data root: `Planetoid/Cora/raw`.
        urls: File name, perhaps with folders, to the address it can be had from. `URL#NAME` is
            the file NAME inside the zip archive at URL.
        check: Looks at a file's name and content; raises `DataError` for one that is not what
            it should be.
        seconds: How long one download may take.
    """

    dataset: str
    folder: str
    urls: Mapping[str, str]
    check: Check
    seconds: float = DOWNLOAD_SECONDS

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
        if is_offline():
            reason = f"downloads are forbidden by --offline or {OFFLINE_VARIABLE}"
            raise self._cannot(places[0], self.missing(places[0]), reason)
        target = next((place for place in places if _is_writable(place)), None)
        if target is None:
            raise self._cannot(places[0], self.missing(places[0]), "no folder to download them to can be written")
        try:
            with FileLock(target / ".download.lock", timeout=self.seconds):
                # Another job may have brought them while this one waited.
                missing = self.missing(target)
                for url in dict.fromkeys(self.urls[name].partition("#")[0] for name in missing):
                    names = [name for name in missing if self.urls[name].partition("#")[0] == url]
                    self._download(url, names, target)
        except Timeout:
            reason = f"another process has held {target / '.download.lock'} for {self.seconds:g} s"
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
            self.check_file(name, path, contents[name])
        return contents

    def check_file(self, name: str, path: Path, content: bytes) -> None:
        """Check one file that lies on the disk.

        Args:
            name: A key of `urls`.
            path: Where it lies.
            content: What it holds.

        Raises:
            DataError: Names the file, what is wrong with it and the way out.
        """
        try:
            self.check(name, content)
        except DataError as error:
            raise DataError(
                f"Dataset {self.dataset}: {path} is damaged or not the right file: {error.message}",
                f"Delete it and run again to download it, or put the file from {self.urls[name]} in its place.",
            ) from None

    def missing(self, place: Path) -> list[str]:
        """List the files that a folder lacks."""
        return [name for name in self.urls if not (place / name).is_file()]

    def _download(self, url: str, names: list[str], target: Path) -> None:
        try:
            answer = fetch(url, self.seconds)
            for name in names:
                member = self.urls[name].partition("#")[2]
                content = _extract(answer, member) if member else answer
                self.check(name, content)
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                write_whole(target / name, content)
        except (OSError, http.client.HTTPException) as error:
            raise self._cannot(target, self.missing(target), f"{url}: {error}") from None
        except DataError as error:
            raise self._cannot(target, self.missing(target), f"{url} sent something else: {error.message}") from None

    def _cannot(self, place: Path, missing: list[str], reason: str) -> MissingDataError:
        url, archive, _ = self.urls[missing[0]].partition("#")
        source = url if archive or "?" in url else url.rpartition("/")[0]
        return MissingDataError(
            f"Dataset {self.dataset}: {len(missing)} of {len(self.urls)} files are missing and could not be downloaded"
            f" ({reason.rstrip('.')}).",
            f"Put {', '.join(missing)} (from {source}) into {place}, or name a folder that has"
            f" {self.folder} with --data-root.{'' if is_offline() else ' With --offline no download is tried.'}",
        )


def fetch(url: str, seconds: float = DOWNLOAD_SECONDS) -> bytes:
    """Get what lies at an address: one try, with a limit to every wait and to the whole.

    Args:
        url: The address.
        seconds: How long the whole may take.

    Raises:
        OSError: No answer, a refusal, or too slow.
        http.client.HTTPException: The answer breaks off.
    """
    deadline = time.monotonic() + seconds
    parts = []
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
        while part := answer.read(CHUNK_BYTES):
            parts.append(part)
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {seconds:g} s")
        expected = answer.headers.get("Content-Length")
    content = b"".join(parts)
    if expected is not None and len(content) != int(expected):
        raise http.client.IncompleteRead(content, int(expected) - len(content))
    return content


def _extract(archive: bytes, member: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return opened.read(member)
    except KeyError:
        raise DataError(f"the archive has no {member}.") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise DataError(f"it cannot be read as a zip archive ({error}).") from None


def _is_writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
