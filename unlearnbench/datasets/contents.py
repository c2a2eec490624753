"""Is a raw file what it should be? Told from its content, before any parser sees it.

A pickle is a program: it may name any function of Python and call it. So pickled objects in archives are never
opened, and the pickles that some graphs are published as may name nothing but what is on a short list.
"""

from __future__ import annotations

import collections
import io
import json
import pickle
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse

from unlearnbench.errors import DataError

_NUMBERS = re.compile(rb"[0-9eE+\-.,\s]+")
# The second name of each is the one newer versions of the library write.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("numpy._core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("scipy.sparse.csr", "csr_matrix"): scipy.sparse.csr_matrix,
    ("scipy.sparse._csr", "csr_matrix"): scipy.sparse.csr_matrix,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


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


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise DataError(f"it asks for {module}.{name}, which no such file needs; it was not run.") from None


def read_pickle(content: bytes) -> Any:
    """Read a pickle that may come from anyone, written by Python 2 or 3.

    Raises:
        DataError: It is not a pickle, breaks off, or asks for anything but arrays, sparse
            matrices, lists and dictionaries.
    """
    with _reading("a pickle"):
        return _Unpickler(io.BytesIO(content), encoding="latin1").load()


def check_pickle(content: bytes, types: tuple[type[Any], ...]) -> None:
    """Check that a pickle holds an object of one of these types.

    Raises:
        DataError: It holds another, which the message compares with the last type, or cannot be read.
    """
    value = read_pickle(content)
    if not isinstance(value, types):
        raise DataError(f"it holds a {type(value).__name__}, not a {types[-1].__name__}.")
