"""Writes the page: one file, with style, script and data inside, and a policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import warnings
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.records.files import make_folder, write_whole
from unlearnbench.records.reading import read_machine
from unlearnbench.records.record import DamagedRecordError
from unlearnbench.report.extra import check_folder, import_extra
from unlearnbench.report.figures.colours import HEAT, SHADES, ink_on
from unlearnbench.report.figures.series import OTHER, PHASES
from unlearnbench.report.frame.frame import results_root
from unlearnbench.report.page.content import PageSource, build_content, table_rows

NAME = "index.html"
_BREAKS = re.compile(r"(?<=[\[=,])(?=\w)")
SCRIPTS = ("svg.js", "stats.js", "board.js", "detail.js", "export.js", "matrix.js", "figures.js", "state.js")


def check_page(folder: Path) -> None:
    """Refuse a page that could not be written, before anything is computed.

    Raises:
        UsageError: The folder is a file, or jinja2 is not installed.
    """
    check_folder(folder, "the page")
    _jinja()


def write_page(results: Path, frame: pd.DataFrame, audits: pd.DataFrame | None, folder: Path, source: str = "") -> Path:
    """Write the page of a results folder, and return its path; a page that stands there is replaced.

    Records are linked where the page lies in the results folder or above it, so that both can be moved together;
    elsewhere they are named. `source` is the results folder and what was selected of it, as on a command line.

    Raises:
        UsageError: See `check_page`.
    """
    check_page(folder)
    root = results_root(results)
    machines = {}
    for path in sorted(root.glob("machines/*.json")):
        try:
            machines[path.stem] = read_machine(path, root)
        except DamagedRecordError as error:  # the page lacks the machine, and nothing else
            warnings.warn(str(error), stacklevel=2)
    text = page_text(frame, audits, PageSource(source or str(results), _way(folder, root), machines))
    write_whole(make_folder(folder) / NAME, text.encode("utf-8"))
    return folder / NAME


def page_text(frame: pd.DataFrame, audits: pd.DataFrame | None, source: PageSource) -> str:
    """Make the page: the same text of the same records."""
    jinja, style, script = _jinja(), _style(), _script()
    environment = jinja.Environment(
        loader=jinja.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = partial(_breakable, jinja.utils.markupsafe)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    content = build_content(frame, audits, source)
    phases = {moment: [*parts, OTHER] for moment, (_, parts) in PHASES.items()}
    content["drawn"] |= {"shades": SHADES, "phases": phases}
    text: str = environment.get_template("page.html").render(
        content,
        style=jinja.utils.markupsafe.Markup(style),
        script=jinja.utils.markupsafe.Markup(script),
        digests={"style": _digest(style), "script": _digest(script)},
        table_rows=table_rows,
    )
    return text


def _breakable(markup: Any, text: Any) -> Any:
    """Let a long name of a method end its line where a parameter begins, not in the midst of a word."""
    return markup.Markup("<wbr>").join(markup.escape(part) for part in _BREAKS.split(str(text)))


def _way(folder: Path, root: Path) -> str | None:
    """Return what leads from the page to the results folder, unless that would name folders outside of both."""
    here, there = folder.resolve(), root.resolve()
    if not (here.is_relative_to(there) or there.is_relative_to(here)):
        return None
    way = Path(os.path.relpath(there, here)).as_posix()
    return "" if way == "." else f"{way}/"


def _style() -> str:
    steps = [f".heat-{at} {{ background: {colour}; color: {ink_on(colour)}; }}" for at, colour in enumerate(HEAT)]
    return _read("page.css") + "\n".join(steps) + "\n"


def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(_read(name) for name in SCRIPTS) + "})();\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _jinja() -> Any:
    return import_extra("jinja2", "The page needs jinja2")
