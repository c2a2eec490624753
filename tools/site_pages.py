"""Pages of the documentation that are made of the code when the site is built: mkdocs calls it by `mkdocs.yml`.

Components give a page each for methods and one for every other kind, public names the reference, the
record its JSON Schema. Links out of `docs/` become the page that shows the same text, or plain text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import unlearnbench
import unlearnbench.gnn
import unlearnbench.unlearning
from unlearnbench.cli.show import claim_text, describe, forgotten
from unlearnbench.hookspecs import PROJECT
from unlearnbench.records.record import json_schema
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.report import load_records
from unlearnbench.report.page import page_text
from unlearnbench.report.page.content import PageSource
from unlearnbench.report.tables.audits import load_audits

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
# Kinds that have one page together; datasets have a written one.
KINDS = {
    "partitioner": "Partitioners",
    "aggregator": "Aggregators",
    "model": "Base models",
    "metric": "Metrics",
    "audit": "Audits",
}
# Public names that have no docstring of their own.
HOOKS = {"hookimpl": "Marks a function as a hook", "Register": "The type of a hook's argument"}
LEADERBOARD = "leaderboard/index.html"
# Guides are found before what is made of the code.
BOOSTS = {"datasets.md": 4.0, "python_api.md": 2.0, "reference.md": 0.2}
OUTWARD = re.compile(r"\[(?P<label>[^\]]+)\]\((?P<target>\.\./[^)\s]*)\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def pages() -> dict[str, str]:
    """Write the pages.

    Returns:
        The Markdown, or the JSON, of each by its path below `docs/`.
    """
    catalogue = load_catalogue(strict=True)
    methods = {entry.name: _described(catalogue, "unlearner", entry.name) for entry in _own(catalogue, "unlearner")}
    homes = {entry.name: _readme(entry.target) for entry in _own(catalogue, "unlearner")}
    pages = {"methods/index.md": _index(methods)}
    pages |= {f"methods/{name}.md": method_page(info, homes[name]) for name, info in methods.items()}
    shown = {path for path in homes.values() if path}
    for kind, title in KINDS.items():
        entries = _own(catalogue, kind)
        parts = [f"# {title}\n"]
        parts += [_section(_described(catalogue, kind, entry.name)) for entry in entries]
        others = sorted({path for entry in entries if (path := _readme(entry.target))} - shown)
        parts += [_included(path) for path in others]
        shown |= set(others)
        pages[f"methods/{kind}s.md"] = "\n".join(parts)
    return {**pages, "reference.md": _reference(), "record.schema.json": json.dumps(json_schema(), indent=1) + "\n"}


def method_page(info: Mapping[str, Any], readme: Path | None) -> str:
    """Write the page of a method.

    Args:
        info: The output of `unlearnbench show --json`.
        readme: The README of the package that brings it, if there is one.
    """
    page = [f"# {info['name']}\n", *_body(info)]
    page.append(f"## Run it\n\n```bash\nunlearnbench run --methods {info['name']}\n```\n")
    if readme is not None:
        page.append(_included(readme))
    return "\n".join(page)


def leaderboard() -> str:
    """Make the report page of the committed records."""
    results = ROOT / "results"
    return page_text(load_records(results), load_audits(results), PageSource())


def _own(catalogue: Catalogue, kind: str) -> list[Any]:
    """List what this distribution brings: what else happens to be installed is not its documentation."""
    return [entry for entry in catalogue.all(kind) if entry.distribution == PROJECT]


def _described(catalogue: Catalogue, kind: str, name: str) -> dict[str, Any]:
    return describe(resolve(catalogue, kind, name))


def _readme(target: Any) -> Path | None:
    """Find the README of the package that brings a component; the core has none."""
    package = str(target).partition(":")[0].partition(".")[0]
    path = ROOT / "plugins" / package / "README.md"
    return path if path.is_file() else None


def _index(methods: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        f"| [{name}]({name}.md) | {_cell(info['summary'])} | {info.get('claim') or ''} | {', '.join(forgotten(info))} |"
        for name, info in methods.items()
    ]
    head = "| method | what it does | claim | forgets |\n|---|---|---|---|"
    intro = "What a claim means: [protocol](../protocol.md#what-exactness-means). Any partitioner goes with any"
    parts = "aggregator: `sharded[partitioner=gpa,aggregator=mean]`; see [partitioners](partitioners.md) and"
    return "\n".join(["# Methods\n", f"{intro} {parts} [aggregators](aggregators.md).\n", head, *rows, ""])


def _section(info: Mapping[str, Any]) -> str:
    return "\n".join([f"## {info['name']}\n", *_body(info, "###")])


def _body(info: Mapping[str, Any], heading: str = "##") -> Iterator[str]:
    """Yield the description of a component: facts, parameters, presets."""
    yield f"{info['summary']}\n"
    facts = [("version", info["version"]), ("reference", info["reference"])]
    if "claim" in info:
        claim = claim_text(f"`{info['claim']}`", info["claim_reason"])
        facts += [("claim", claim), ("forgets", ", ".join(forgotten(info)))]
        facts.append(("base models", ", ".join(info["models"]) if info["models"] else "any"))
    facts += [("needs", f"the module `{need['module']}`") for need in info["needs"]]
    yield "| | |\n|---|---|"
    yield from (f"| {name} | {_cell(value)} |" for name, value in facts if value)
    yield ""
    rows = list(_parameters(info["parameters"]))
    if rows:
        yield f"{heading} Parameters\n"
        yield "| parameter | default | meaning |\n|---|---|---|"
        yield from rows
        yield ""
    if info["presets"]:
        yield f"{heading} Presets\n\nThe default is `{info['default_preset']}`; ask for another with `preset=NAME`.\n"
        for name, values in info["presets"].items():
            settings = ", ".join(f"`{key}={value}`" for key, value in values.items()) or "the defaults above"
            yield f"- `{name}`: {settings}"
        yield ""


def _parameters(rows: list[dict[str, Any]], before: str = "") -> Iterator[str]:
    for row in rows:
        yield f"| `{before}{row['name']}` | `{_cell(row['value'])}` | {_cell(row['description'])} |"
        yield from _parameters(row.get("parameters", []), f"{before}{row['name']}.")


def _cell(value: Any) -> str:
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value)
    return text.replace("|", "\\|").replace("\n", " ")


def _included(readme: Path) -> str:
    """Take a README over below a heading of its own, its headings one step lower."""
    text = readme.read_text(encoding="utf-8")
    body = _outside_code(text.partition("\n")[2], lambda part: re.sub(r"^#", "##", part, flags=re.M))
    return f"## The package `{readme.parent.name}`\n{body}"


def _reference() -> str:
    """List the public names: each is described from its docstring."""
    parts = ["# Python reference\n\nThe public names, by the package that they come from.\n"]
    for name in unlearnbench.__all__:
        value = getattr(unlearnbench, name)
        if name in HOOKS:
            parts.append(f"## {name}\n\n{HOOKS[name]}: [plugin hooks](plugin_hooks.md).\n")
        else:
            home = value.__name__ if isinstance(value, ModuleType) else f"{value.__module__}.{value.__qualname__}"
            parts.append(f"::: {home}\n")
    for package in (unlearnbench.gnn, unlearnbench.unlearning):
        parts.append(f"# What methods are built from: `{package.__name__}`\n")
        own = {name: getattr(package, name) for name in package.__all__ if name not in unlearnbench.__all__}
        parts += [
            f"::: {value.__module__}.{value.__qualname__}\n"
            for value in own.values()
            if isinstance(value, FunctionType | type)
        ]
    return "\n".join(parts)


def relinked(text: str) -> str:
    """Turn links out of `docs/` into links to the method's page, or into plain text.

    Args:
        text: Markdown of a page that lies in `docs/` itself.
    """

    def link(match: re.Match[str]) -> str:
        package = re.fullmatch(r"\.\./plugins/unlearnbench_(\w+)/README\.md", match["target"])
        return f"[{match['label']}](methods/{package[1]}.md)" if package else match["label"]

    return _outside_code(text, lambda part: OUTWARD.sub(link, part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what stands outside fenced code."""
    parts, at = [], 0
    for match in FENCED.finditer(text):
        parts += [change(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, change(text[at:])])


# What mkdocs calls


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, and name in the navigation what it does not name yet."""
    from mkdocs.structure.files import File

    made = pages()
    # Where only links and pages are checked, the page of all records, which takes longest, is not needed.
    is_check = os.environ.get("SITE") == "check"
    files.append(File.generated(config, LEADERBOARD, content="not made" if is_check else leaderboard()))
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    assert config.nav is not None
    (methods,) = [section["Methods"] for section in config.nav if "Methods" in section]
    methods += [path for path in made if path.startswith("methods/") and path not in methods]
    named = set(_named(config.nav))
    config.nav += [file.src_uri for file in files.documentation_pages() if file.src_uri not in named]
    return files


def _named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for item in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _named(item)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Keep links within the site, leave out what is there for tests and for cog, and weigh the page in a search."""
    if page.file.src_uri in BOOSTS:
        page.meta.setdefault("search", {"boost": BOOSTS[page.file.src_uri]})
    text = relinked(markdown) if "/" not in page.file.src_uri else markdown
    return _outside_code(text, lambda part: re.sub(r"<!--.*?-->\n?", "", part, flags=re.S))
