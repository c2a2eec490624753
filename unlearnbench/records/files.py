"""Atomic writes, and file names that are safe on every file system."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from unlearnbench.errors import UsageError, WriteError

LONGEST_NAME = 100
_CHUNK = 2**20
TEMPORARY = re.compile(r"\..+\.[0-9]+-[0-9a-f]{16}\.unlearnbench-tmp")
# What fsync and its like say of a disk that lost or refused the content, or is not there any more.
_LOST = frozenset(
    number
    for name in ("EIO", "ENOSPC", "EDQUOT", "EFBIG", "EROFS", "ENODEV", "ENXIO", "ESTALE", "ETIMEDOUT", "EREMOTEIO")
    if (number := getattr(errno, name, None)) is not None
)
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")


def safe_name(name: str) -> str:
    """Turn any name into one path part; different names give different parts.

    Lower-case letters, digits, `_`, `-` and inner dots stay; every other byte of the UTF-8
    form becomes `%xx`, capitals too, because some file systems ignore case. Names that Windows
    reserves get their first letter escaped. A long name is cut and ends in a digest of all of it.
    """
    if not name:
        return "%"
    encoded = name.encode("utf-8", errors="surrogatepass")
    parts = [chr(byte) if chr(byte) in _PLAIN else f"%{byte:02x}" for byte in encoded]
    if parts[0] == "." or _RESERVED.fullmatch("".join(parts)):
        parts[0] = f"%{ord(parts[0]):02x}"
    if parts[-1] == ".":
        parts[-1] = "%2e"
    text = "".join(parts)
    if len(text) > LONGEST_NAME:
        # '~' is escaped in short names, so a cut name never equals one of them.
        return f"{text[:40]}~{hashlib.sha256(encoded).hexdigest()[:40]}"
    return text


def leads_out(path: Path, root: Path) -> bool:
    """Whether a link on a path below `root`, there or not, leads out of it; `root` itself may be a link."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def inside(path: Path, root: Path) -> Path:
    """Return a path below a folder that is to be written, once no link leads out of it.

    Raises:
        UsageError: A link leads out of the folder.
    """
    if leads_out(path, root):
        raise UsageError(
            f"{path}: a link leads out of {root}; nothing is written there.",
            "Remove the link, or name its target itself.",
        )
    return path


def wrong_checksum(path: Path) -> str | None:
    """Return the name of the first member of a zip file (`.pt`, `.npz`) that is damaged; torch compares no checksum.

    None if all are whole, or if the file is no zip: reading it then fails.
    """
    try:
        archive = zipfile.ZipFile(path)
    except Exception:  # zipfile raises whatever the damage leads to
        return None
    with archive:
        for name in archive.namelist():
            try:
                with archive.open(name) as member:
                    while member.read(_CHUNK):
                        pass
            except Exception:  # as above
                return name
    return None


def write_whole(path: Path, content: bytes | Callable[[IO[bytes]], object]) -> None:
    """Write bytes, or what a function writes, atomically: readers see all of it or none, whoever else writes it.

    Raises:
        WriteError: It cannot be written; an earlier file of this name is intact.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes | Callable[[IO[bytes]], object]]) -> None:
    """Write several files as `write_whole` does: none is put in its place before all are on disk.

    Raises:
        WriteError: One cannot be written.
    """
    staged: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in contents.items():
            staged[path] = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.unlearnbench-tmp")
            with staged[path].open("xb") as file:
                if callable(content):
                    content(file)
                else:
                    file.write(content)
                file.flush()
                _sync(file.fileno())
        for path, temporary in staged.items():
            os.replace(temporary, path)
            sync_folder(path.parent)
    except BaseException as error:
        for temporary in staged.values():
            remove(temporary)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def make_folder(folder: Path) -> Path:
    """Make a folder and those above it, so that they survive a power cut.

    Raises:
        WriteError: It cannot be made.
    """
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def cannot_write(path: Path, error: OSError) -> WriteError:
    """Make the error for a file or a folder that cannot be written."""
    return WriteError(
        f"{path} cannot be written: {error.strerror or error}.",
        "Make room and see that you may write there, or name another folder; then run the same command again."
        " Nothing written before is lost.",
    )


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a rename or a new folder survives a power cut; Windows has no such call."""
    if os.name == "nt":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:  # a folder that may be written and not read
        _raise_if_lost(error)
        return
    try:
        _sync(handle)
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    """Flush a file or a folder to disk, where its file system can: some know no such call, least of all for folders."""
    try:
        os.fsync(handle)
    except OSError as error:
        _raise_if_lost(error)


def _raise_if_lost(error: OSError) -> None:
    """Raise an error that says that content is lost; any other says that a call is not to be had here."""
    if error.errno in _LOST:
        raise error


def remove(path: Path) -> bool:
    """Remove a file that is not needed any more, and return whether it is gone; where that fails nothing else does."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # another user's in a shared folder, or a folder that is read-only
        return False
    return True
