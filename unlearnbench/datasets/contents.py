"""Is a raw file what it should be? Told from its content, before any parser sees it.

A pickle is a program: it may name any function of Python and call it. So pickled objects in archives are never
opened, and a file that is a pickle is read only if it is, byte for byte, the published one.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from unlearnbench.errors import DataError

_NUMBERS = re.compile(rb"[0-9eE+\-.,\s]+")


@contextmanager
def _reading(kind: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # damage can lead to any error: all mean the same here
        raise DataError(f"it cannot be read as {kind} ({type(error).__name__}: {error}).") from None


def check_arrays(content: bytes, arrays: Iterable[str]) -> None:
    """Check that an archive (`.npz`) holds these arrays; the parsers open no others, which may be pickled objects.

    Raises:
        DataError: It is damaged, lacks an array, or one of them is a pickled object.
    """
    with _reading("an archive of arrays"), np.load(io.BytesIO(content), allow_pickle=False) as archive:
        for array in arrays:
            if array not in archive.files:
                raise DataError(f"it lacks the array {array}.")
            archive[array]


def check_array(content: bytes) -> None:
    """Check one array (`.npy`).

    Raises:
        DataError: It is damaged or a pickled object.
    """
    with _reading("an array"):
        np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def check_numbers(content: bytes, header: bool = False) -> None:
    """Check a text of numbers, whose first line may be a heading.

    Raises:
        DataError: It holds anything but numbers, or nothing.
    """
    text = content.partition(b"\n")[2] if header else content
    if not text.strip() or _NUMBERS.fullmatch(text) is None:
        raise DataError("it is not a table of numbers.")


def check_json(content: bytes) -> None:
    """Check a JSON object.

    Raises:
        DataError: It is damaged or something else.
    """
    try:
        value = json.loads(content)
    except ValueError as error:
        raise DataError(f"it cannot be read as JSON ({error}).") from None
    if not isinstance(value, dict):
        raise DataError(f"it holds a {type(value).__name__}, not an object.")


def refuse_pickle(content: bytes) -> None:
    """Refuse a pickle; one whose SHA-256 is in the catalogue is never looked into.

    Raises:
        DataError: Always.
    """
    raise DataError(
        "it would be unpickled, which can run any code, and its SHA-256 is not in the catalogue; it was not read.",
        f"If you trust it, add its SHA-256 to the catalogue: {hashlib.sha256(content).hexdigest()}.",
    )
