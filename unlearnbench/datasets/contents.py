"""Is a raw file what it should be? Told from its content, before any parser sees it."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable

import numpy as np

from unlearnbench.errors import DataError

_NUMBERS = re.compile(rb"[0-9eE+\-.,\s]+")


def check_arrays(content: bytes, arrays: Iterable[str]) -> None:
    """Check an archive of arrays (`.npz`).

    Published archives also hold pickled objects (names of nodes, say). Those are never opened:
    only the arrays named here are, and the parsers open no others.

    Args:
        content: The whole file.
        arrays: Those it must hold.

    Raises:
        DataError: It is damaged, lacks an array, or one of them is a pickled object.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            missing = [array for array in arrays if array not in archive.files]
            for array in arrays:
                if array not in missing:
                    archive[array]
    except (ValueError, KeyError, OSError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"it cannot be read as an archive of arrays ({type(error).__name__}: {error}).") from None
    if missing:
        raise DataError(f"it lacks the array {missing[0]}.")


def check_array(content: bytes) -> None:
    """Check one array (`.npy`).

    Raises:
        DataError: It is damaged or a pickled object.
    """
    try:
        np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"it cannot be read as an array ({type(error).__name__}: {error}).") from None


def check_numbers(content: bytes, header: bool = False) -> None:
    """Check a text of numbers.

    Args:
        content: The whole file.
        header: Whether its first line is a heading.

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
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"it cannot be read as JSON ({error}).") from None
    if not isinstance(value, dict):
        raise DataError(f"it holds a {type(value).__name__}, not an object.")
