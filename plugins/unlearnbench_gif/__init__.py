"""GIF: one step by a graph-aware influence function."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "gif",
        "unlearnbench_gif.gif:Gif",
        summary="A step by the influence of the request and its neighbourhood.",
        look=("#882255", "down"),
    )
