"""The allocator of this process, made steady: times must not depend on what was allocated before."""

from __future__ import annotations

import ctypes
import sys

# Blocks up to the first come from the heap, of which up to the second stays when they are freed.
KEEP_BELOW = 32 * 2**20
KEEP = 64 * 2**20
# Numbers of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def steady_allocator() -> str:
    """Make glibc's malloc keep freed memory, up to 64 MiB, instead of handing every block back at once.

    By default glibc learns from the blocks it has seen which ones to hand back, so that the same
    step takes a third longer or shorter by what ran before: each intermediate result is paid
    for with page faults anew. Readings of resident memory hold what is kept.

    Returns:
        What was set, or why nothing was.
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
