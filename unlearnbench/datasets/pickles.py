"""Reading pickles of strangers: only arrays, sparse matrices, lists and dictionaries come out.

A pickle is a program: it may name any function of Python and call it. This reader looks every
name up in a short list and refuses all others, before anything of them is imported or called.
"""

from __future__ import annotations

import collections
import io
import pickle
from typing import Any

import numpy as np
import scipy.sparse

from unlearnbench.errors import DataError

# The second name of each is the one newer versions of the library write.
ALLOWED: dict[tuple[str, str], Any] = {
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


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise DataError(f"it asks for {module}.{name}, which no such file needs; it was not run.") from None


def read_pickle(content: bytes) -> Any:
    """Read a pickle that may come from anyone.

    Args:
        content: The whole file, written by Python 2 or 3.

    Raises:
        DataError: It is not a pickle, breaks off, or asks for anything but arrays, sparse
            matrices, lists and dictionaries.
    """
    try:
        return _Reader(io.BytesIO(content), encoding="latin1").load()
    except DataError:
        raise
    except Exception as error:
        # A damaged pickle can fail in any way its instructions can: all mean the same here.
        raise DataError(f"it cannot be read as a pickle ({type(error).__name__}: {error}).") from None
