"""Writes the page: one file, with style, script and data inside, and a policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.errors import UsageError
from unlearnbench.records.files import write_whole
from unlearnbench.registry.requirements import require_module
from unlearnbench.report.figures.colours import HEAT, SHADES, ink_on
from unlearnbench.report.figures.series import OTHER, PHASES
from unlearnbench.report.frame.frame import results_root
from unlearnbench.report.page.content import PageSource, build_content, table_rows

NAME = "index.html"
SCRIPTS = ("svg.js", "figures.js", "records.js", "state.js")


def check_page(folder: Path) -> None:
    """Refuse a page that could not be written, before anything is computed.

    Raises:
        UsageError: The folder is a file, or jinja2 is not installed.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", "Name a folder for the page; it is made if it is not there.")
    _jinja()


def write_page(results: Path, frame: pd.DataFrame, audits: pd.DataFrame | None, folder: Path, source: str = "") -> Path:
    """Write the page of a results folder.

    Records are linked where the page lies in the results folder or above it, so that both can be moved together;
    elsewhere they are named.

    Args:
        results: The results folder.
        frame: What `load_records` gave of it.
        audits: What `load_audits` gave, if there are any.
        folder: Where the page goes; made if it is not there. A page that stands there is replaced.
        source: The folder and what was selected of it, as on a command line.

    Returns:
        The file.

    Raises:
        UsageError: See `check_page`.
    """
    check_page(folder)
    root = results_root(results)
    machines = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(root.glob("machines/*.json"))}
    text = page_text(frame, audits, PageSource(source or str(results), _way(folder, root), machines))
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / NAME, text.encode("utf-8"))
    return folder / NAME


def page_text(frame: pd.DataFrame, audits: pd.DataFrame | None, source: PageSource) -> str:
    """Make the page: the same text of the same records.

    Args:
        frame: What `load_records` gave.
        audits: What `load_audits` gave, if there are any.
        source: Where both come from.
    """
    jinja, style, script = _jinja(), _style(), _script()
    environment = jinja.Environment(
        loader=jinja.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    content = build_content(frame, audits, source)
    content["drawn"] |= {"shades": SHADES, "phases": _phases()}
    text: str = environment.get_template("page.html").render(
        content,
        style=jinja.utils.markupsafe.Markup(style),
        script=jinja.utils.markupsafe.Markup(script),
        digests={"style": _digest(style), "script": _digest(script)},
        table_rows=table_rows,
    )
    return text


def _breakable(text: Any) -> Any:
    """Let a long name of a method end its line where a parameter begins, not in the midst of a word."""
    markup = _jinja().utils.markupsafe
    return markup.Markup("<wbr>").join(markup.escape(part) for part in re.split(r"(?<=[\[=,])(?=\w)", str(text)))


def _phases() -> dict[str, list[str]]:
    return {moment: [*parts, OTHER] for moment, (_, parts) in PHASES.items()}


def _way(folder: Path, root: Path) -> str | None:
    """Give what leads from the page to the results folder, unless that would name folders outside of both."""
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
    need = require_module("jinja2", "unlearnbench[report]")
    if not need.is_met:
        why = f"cannot be imported: {need.reason}" if need.reason else "is not installed"
        raise UsageError(f"The page needs jinja2, which {why}.", f"Install it: {need.remedy}")
    return import_module(need.module)
