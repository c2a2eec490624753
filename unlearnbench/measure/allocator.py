"""Stabilises the memory allocator: times must not depend on what was allocated before."""

from __future__ import annotations

import ctypes
import sys

# Blocks up to the first size come from the heap, which keeps up to the second size when they are freed.
KEEP_BELOW = 32 * 2**20
KEEP = 64 * 2**20
# Numbers of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def steady_allocator() -> str:
    """Make glibc's malloc keep freed memory, up to 64 MiB, instead of returning every block at once.

    By default glibc adapts to earlier blocks which ones it returns to the system, so that the same
    step takes up to a third more or less time depending on what ran before: every intermediate
    result costs page faults again. Readings of resident memory include what is kept.

    Returns:
        What was set, or why nothing was set.
    """
    if not sys.platform.startswith("linux"):
        return f"as {sys.platform} has it"
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return "not glibc's malloc: left as it is"
    if not (mallopt(_M_MMAP_THRESHOLD, KEEP_BELOW) and mallopt(_M_TRIM_THRESHOLD, KEEP)):
        return "glibc's malloc refused: left as it is"
    return f"glibc's malloc keeps {KEEP // 2**20} MiB; blocks above {KEEP_BELOW // 2**20} MiB are handed back"
