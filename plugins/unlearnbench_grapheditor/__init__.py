"""GraphEditor: ridge regression on propagated features, whose inverse is updated row by row."""

from __future__ import annotations

from unlearnbench import Register, hookimpl


@hookimpl
def register_unlearners(register: Register) -> None:
    """Announce the method."""
    register(
        "graph-editor",
        "unlearnbench_grapheditor.method:GraphEditor",
        summary="Ridge regression on propagated features; a request exchanges rows in its inverse.",
        look=("#661100", "up"),
    )
