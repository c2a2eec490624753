"""How figures are written: as PNG, PDF or SVG, the same bytes for the same figure, with fonts that journals take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlearnbench.report.extra import import_extra

FORMATS = (".png", ".pdf", ".svg")
# Type 42 keeps letters whole; publishers refuse Type 3. Ids in an SVG come from a digest, not from chance.
_SETTINGS = {"pdf.fonttype": 42, "svg.hashsalt": "unlearnbench"}
# No date and no version: the same records give the same bytes.
_STAMPS = {".png": {"Software": None}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure in the format that the file's name ends in, one of `FORMATS`."""
    ending = path.suffix.lower()
    with import_extra("matplotlib", "A figure needs matplotlib").rc_context(_SETTINGS):
        figure.savefig(path, format=ending[1:], dpi=dpi, metadata=_STAMPS[ending])
