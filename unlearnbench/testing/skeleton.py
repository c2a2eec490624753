"""Writes a package that works, with one component or one table: what `unlearnbench plugin new` does."""

from __future__ import annotations

import keyword
import re
from importlib import resources
from pathlib import Path
from string import Template

import unlearnbench
from unlearnbench.audits.running import ALL
from unlearnbench.errors import UsageError
from unlearnbench.hookspecs import HOOKS, KINDS, PROJECT, shown_kind
from unlearnbench.registry.brackets import FILE
from unlearnbench.registry.catalogue import Catalogue, normal_name
from unlearnbench.testing import conformance

PREFIX = f"{PROJECT}-"
# Of PEP 508; beginning with a letter, for a class is called after it.
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?")
# Words that stand for something else on the command line, or would hide what the module imports.
_WORDS = {ALL, FILE, PROJECT, "core", "preset", "method", "member", "test", "network", "tensor", "path", "field"}
_USES = {
    "partitioner": 'unlearnbench run --methods "sharded[partitioner=$name,aggregator=mean]"',
    "aggregator": 'unlearnbench run --methods "sharded[partitioner=random,aggregator=$name]"',
    "unlearner": "unlearnbench run --methods $name",
    "dataset": "unlearnbench run --methods sharded --datasets $name",
    "model": "unlearnbench run --methods sharded --models $name",
    "metric": "unlearnbench run --methods sharded",
    "audit": "unlearnbench audit $name --methods sharded",
}


def write_package(name: str, kind: str, out: Path, catalogue: Catalogue) -> Path:
    """Write a package with one component, or with published numbers and the table that is set against them.

    Args:
        name: Its name, or that of the numbers, with `unlearnbench-` in front or without.
        kind: One of `hookspecs.KINDS`, `posthoc` for a method that updates a trained network, or `table`.
        out: Where the package's folder is made.
        catalogue: Whose names are taken.

    Returns:
        The folder, `OUT/unlearnbench-NAME`.

    Raises:
        UsageError: The name cannot be used or is taken, or the folder exists or cannot be made.
    """
    component = checked_name(name, catalogue)
    distribution = PREFIX + component
    words = {
        "name": component,
        "kind": "unlearner" if kind == "posthoc" else kind,
        "cls": "".join(word[:1].upper() + word[1:] for word in component.split("-")),
        "distribution": distribution,
        "module": distribution.replace("-", "_"),
    }
    files = _files_of_table(words["module"]) if kind == "table" else _files_of_component(words, kind)
    texts = {place: _filled(template, words) for place, template in files.items()}
    folder = out / distribution
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        for place, text in texts.items():
            (folder / place).parent.mkdir(exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageError(
            f"{folder} exists already; nothing was written.", "Choose another name or --out, or move it away."
        ) from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}.", "Choose another --out.") from None
    return folder


def _files_of_component(words: dict[str, str], template: str) -> dict[str, str]:
    """Map each file to its template, that of the module as it is named, and fill in what only components have."""
    kind = words["kind"]
    words["base"] = next(cls for cls in vars(conformance) if cls.lower() == f"{kind}conformance")
    words["shown_kind"] = shown_kind(kind)
    words["use"] = Template(_USES[kind]).substitute(words)
    return {
        "pyproject.toml": "project",
        "README.md": "readme",
        f"{words['module']}.py": template,
        f"tests/test_{words['module']}.py": "test",
    }


def _files_of_table(module: str) -> dict[str, str]:
    return {
        "pyproject.toml": "table_project",
        "README.md": "table_readme",
        f"{module}/__init__.py": "table_plugin",
        f"{module}/tables.py": "table",
        f"{module}/published.csv": "table_csv",
        f"tests/test_{module}.py": "table_test",
    }


def checked_name(name: str, catalogue: Catalogue) -> str:
    """Return a name, with `unlearnbench-` in front or without, the one way that equal names are written (PEP 503).

    Raises:
        UsageError: It cannot be used or is taken.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a package and of a component.",
            "Use letters, digits and hyphens, beginning with a letter: degree-cards. --out says where it is written.",
        )
    plain = normal_name(name).removeprefix(PREFIX)
    taken = {*_WORDS, *HOOKS, *(word.lower() for word in (*keyword.kwlist, *unlearnbench.__all__, "Register"))}
    if plain.replace("-", "") in taken:
        raise UsageError(f"{plain!r} is a reserved word.", "Say what it does: degree-cards, not partitioner.")
    for kind in KINDS:
        for entry in catalogue.entries[kind].get(plain, []):
            raise UsageError(
                f"There is a {shown_kind(kind)} {plain!r} already, of {entry.distribution}.", "Choose another name."
            )
    for entry in catalogue.all("table"):
        if plain in (entry.name, entry.against):
            raise UsageError(
                f"There are a table or published numbers {plain!r} already, of {entry.distribution}.",
                "Choose another name.",
            )
    for plugin in catalogue.plugins:
        if plain == normal_name(plugin.name) or PREFIX + plain == plugin.distribution:
            raise UsageError(
                f"There is a plugin {plugin.name!r} of {plugin.distribution} already.",
                "Choose another name, or uninstall it.",
            )
    return plain


def _filled(template: str, words: dict[str, str]) -> str:
    text = resources.files("unlearnbench.testing").joinpath("skeletons", f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(words)
