"""Raw files of a dataset: where they lie, what their SHA-256 is, and getting those that are missing, once and whole."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
import time
import warnings
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import pooch
from filelock import FileLock, Timeout

from unlearnbench.datasets.base import cache_root
from unlearnbench.errors import DataError, MissingDataError
from unlearnbench.records.files import write_whole
from unlearnbench.registry.environment import OFFLINE, switch

ANSWER_SECONDS = 15
DOWNLOAD_SECONDS = 300
CHUNK_BYTES = 2**20
HASH_SUFFIX = ".sha256"
_SHA256 = re.compile(r"[0-9a-f]{64}")

_offline: ContextVar[bool] = ContextVar("offline", default=False)


@contextmanager
def offline(wanted: bool = True) -> Iterator[None]:
    """Forbid downloads inside, if wanted; `UNLEARNBENCH_OFFLINE` forbids them everywhere.

    Raises:
        UsageError: The variable is neither on nor off.
    """
    token = _offline.set(_offline.get() or wanted or switch(OFFLINE))
    try:
        yield
    finally:
        _offline.reset(token)


def is_offline() -> bool:
    """Return whether downloads are forbidden."""
    return _offline.get() or switch(OFFLINE)


@dataclass(frozen=True)
class RawFiles:
    """The files that a dataset is made of, in `folder` under a data root.

    `urls` maps file names, perhaps with folders, to their addresses: `URL#NAME` is the file NAME inside the zip
    archive at URL. `check` looks at a file's name and content and raises `DataError` for one that is not what it
    should be; one download may take `seconds`. `sha256` maps file names to the SHA-256 of the published file, None
    where it is not known: the first download of such a file writes its hash beside it, `NAME.sha256`, and the file
    is compared with that from then on.
    """

    dataset: str
    folder: str
    urls: Mapping[str, str]
    check: Callable[[str, bytes], None]
    seconds: float = DOWNLOAD_SECONDS
    sha256: Mapping[str, str | None] = field(default_factory=dict)

    def find(self, root: Path) -> Path:
        """Return the folder that holds all files, after a download if some are missing.

        A root that holds all files is only read, and no network is used. Missing files go to the root, or to the
        user's cache where the root cannot be written. Jobs that share a root wait for each other; a file appears
        under its name only when whole.

        Raises:
            DataError: Files are missing and cannot be had: which, and where to put them.
        """
        places = self.places(root)
        for place in places:
            if not self.missing(place):
                return place
        if is_offline():
            raise self._cannot(places[0], f"downloads are forbidden by `offline` or {OFFLINE}")
        target = next((place for place in places if _is_writable(place)), None)
        if target is None:
            raise self._cannot(places[0], "no folder to download them to can be written")
        lock = target / ".download.lock"
        try:
            with _locked(lock, self.seconds):
                # Another job may have brought them while this one waited.
                names_at = defaultdict(list)
                for name in self.missing(target):
                    names_at[self.urls[name].partition("#")[0]].append(name)
                for url, names in names_at.items():
                    self._download(url, names, target)
        except Timeout:
            raise self._cannot(target, f"another process has held {lock} for {self.seconds:g} s") from None
        return target

    def places(self, root: Path) -> list[Path]:
        """List the folders that are looked into, in order: the root's, then the user's cache, if there is one."""
        places = [root / self.folder]
        with suppress(DataError):
            places.append(cache_root() / self.folder)
        return list(dict.fromkeys(places))

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
            try:
                self._check(name, path, contents[name])
            except DataError as error:
                remedy = f"Delete it and run again to download it, or put the file from {self.urls[name]} in its place."
                raise DataError(
                    f"Dataset {self.dataset}: {path} is damaged or not the right file: {error.message}",
                    f"{remedy} {error.hint}".rstrip(),
                ) from None
        return contents

    def _check(self, name: str, path: Path, content: bytes) -> None:
        """Compare the content with the file's hash, and look into it unless the hash is the published one."""
        published = self.sha256.get(name)
        expected = published or recorded_hash(path)
        if expected is not None:
            found = hashlib.sha256(content).hexdigest()
            if found != expected:
                origin = "published file" if published else "first download"
                hint = "" if published else f"If the new file is the right one, delete {path}{HASH_SUFFIX}."
                raise DataError(f"its SHA-256 is {found}, that of the {origin} {expected}.", hint)
        if published is None:
            self.check(name, content)

    def missing(self, place: Path) -> list[str]:
        """List the files that a folder lacks."""
        return [name for name in self.urls if not (place / name).is_file()]

    def _download(self, url: str, names: list[str], target: Path) -> None:
        try:
            answer = fetch(url, self.seconds)
            for name in names:
                member = self.urls[name].partition("#")[2]
                content = _extract(answer, member) if member else answer
                path = target / name
                self._check(name, path, content)
                path.parent.mkdir(parents=True, exist_ok=True)
                if self.sha256.get(name) is None:
                    # Before the file: one that was downloaded is never there without its hash.
                    line = f"{hashlib.sha256(content).hexdigest()}  {path.name}\n"
                    write_whole(path.with_name(path.name + HASH_SUFFIX), line.encode())
                write_whole(path, content)
        except OSError as error:
            raise self._cannot(target, f"{url}: {error}") from None
        except DataError as error:
            raise self._cannot(target, f"{url} sent something else: {error.message}", error.hint) from None

    def _cannot(self, place: Path, reason: str, remedy: str = "") -> MissingDataError:
        missing = self.missing(place)
        url, archive, _ = self.urls[missing[0]].partition("#")
        source = url if archive or "?" in url else url.rpartition("/")[0]
        return MissingDataError(
            f"Dataset {self.dataset}: {len(missing)} of {len(self.urls)} files are missing and could not be downloaded"
            f" ({reason.rstrip('.')}).",
            f"Put {', '.join(missing)} (from {source}) into {place}, or name a folder that has"
            f" {self.folder} with `data_root`.{f' {remedy}' if remedy else ''}"
            f"{'' if is_offline() else ' With `offline` no download is tried.'}",
        )


def recorded_hash(path: Path) -> str | None:
    """Return the SHA-256 that the first download of a file wrote beside it, None where there is no such record.

    Raises:
        DataError: The record cannot be read.
    """
    record = path.with_name(path.name + HASH_SUFFIX)
    try:
        text = record.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{record} cannot be read: {error.strerror}.") from None
    sha256 = text.partition(" ")[0].strip()
    if _SHA256.fullmatch(sha256) is None:
        raise DataError(f"{record} holds no SHA-256.", f"Delete {record} if you trust the file.")
    return sha256


@contextmanager
def _locked(lock: Path, seconds: float) -> Iterator[None]:
    """Wait for other jobs; where a file system has no locks, files may be downloaded twice, each whole.

    Raises:
        Timeout: Another process holds the lock for longer.
    """
    held = FileLock(lock, timeout=seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a file stands for the lock
            held.acquire()
    except Timeout:
        raise
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            held.release()


class _Deadline:
    """The end of a download that takes too long, as a progress bar: pooch calls nothing else while bytes arrive."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self.total = 0  # pooch sets it to the length that the server announced

    def update(self, size: int) -> None:
        if time.monotonic() > self.end:
            raise TimeoutError(f"not done after {self.seconds:g} s")

    def close(self) -> None:
        """Do nothing: pooch calls it at the end, and `reset` too."""

    reset = close


def fetch(url: str, seconds: float = DOWNLOAD_SECONDS) -> bytes:
    """Download what lies at an address: one try, with a limit to every wait and one in seconds to the whole.

    Raises:
        OSError: No answer, a refusal, too slow, or an answer that breaks off.
    """
    deadline = _Deadline(seconds)
    downloader = pooch.HTTPDownloader(
        progressbar=deadline,
        chunk_size=CHUNK_BYTES,
        timeout=ANSWER_SECONDS,
        # Without compression on the way, the length announced is that of the content.
        headers={"User-Agent": "unlearnbench", "Accept-Encoding": "identity"},
        # The one variable for certificates that OpenSSL knows and requests does not.
        verify=os.environ.get("SSL_CERT_FILE") or True,
    )
    content = io.BytesIO()
    downloader(url, content, None)
    if content.tell() < deadline.total:
        raise OSError(f"the answer breaks off after {content.tell()} of {deadline.total} bytes")
    return content.getvalue()


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
