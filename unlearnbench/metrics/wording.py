"""The words of scores in records: scoring writes them and tables read them, without importing torch."""

from __future__ import annotations

FAILED = "The metric"
"""How the note on a metric that failed begins; its name follows."""

ONE_CLASS = "one class:"
"""How the note on predictions of one class begins."""


def moments_after(requests: int) -> list[str]:
    """Name the moments after each request of a cell: after the last one it is `after`, with a stream or without."""
    return [*(f"after_{number}" for number in range(1, requests)), "after"]
