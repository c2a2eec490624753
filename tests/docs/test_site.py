"""The site: what is made of the code when it is built, and code on its pages that is marked to be run."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from command_line import command, install
from repository import ROOT

import unlearnbench
from unlearnbench.registry.loading import load_catalogue

__all__ = ["command", "install"]

RUN = re.compile(r"<!-- run -->\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
# What needs other packages has a test of its own.
ALONE = {"trackers.md"}
RUN_PAGES = sorted(
    path.name for path in (ROOT / "docs").glob("*.md") if path.name not in ALONE and RUN.search(path.read_text("utf-8"))
)


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """Give the module that mkdocs calls; it needs no mkdocs until it is called by it."""
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "tools" / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(site: ModuleType) -> dict[str, str]:
    found: dict[str, str] = site.pages()
    return found


def test_every_method_has_a_page_with_its_parameters_claim_and_readme(pages: dict[str, str]) -> None:
    catalogue = load_catalogue()
    entries = [entry for entry in catalogue.all("unlearner") if entry.distribution == "unlearnbench"]
    assert len(entries) > 10
    for entry in entries:
        page, cls = pages[f"methods/{entry.name}.md"], catalogue.load(entry)
        assert cls.reference in page
        for key, info in cls.Params.model_fields.items():
            assert f"| `{key}` |" in page
            assert str(info.description) in page
        assert all(f"- `{preset}`: " in page for preset in cls.presets)
        assert f"[{entry.name}]({entry.name}.md)" in pages["methods/index.md"]
        package = str(entry.target).partition(".")[0]
        readme = ROOT / "plugins" / package / "README.md"
        if readme.exists():
            assert readme.read_text("utf-8").rstrip().splitlines()[-1] in page
    assert "| claim | `exact-given-partition`, the partition depends on content |" in pages["methods/graphrevoker.md"]
    assert "| `partitioner.sem_weight` | `10` |" in pages["methods/graphrevoker.md"]


def test_every_other_component_is_on_the_page_of_its_kind(pages: dict[str, str]) -> None:
    catalogue = load_catalogue()
    for kind in ("partitioner", "aggregator", "model", "metric", "audit"):
        for entry in catalogue.all(kind):
            if entry.distribution == "unlearnbench":
                assert f"\n## {entry.name}\n" in pages[f"methods/{kind}s.md"]


def test_every_public_name_is_in_the_reference(pages: dict[str, str]) -> None:
    for name in unlearnbench.__all__:
        assert re.search(rf"^(::: \S+\.|## ){name}$", pages["reference.md"], re.M), name
    for name in ("gnn.networks.Networks", "unlearning.influence.influence_step"):
        assert f"::: unlearnbench.{name}\n" in pages["reference.md"]


def test_links_out_of_the_docs_become_pages_or_text_but_not_in_code(site: ModuleType) -> None:
    text = "[A](../plugins/unlearnbench_sisa/README.md) [B](../examples/x/README.md) [C](audits.md#a)\n"
    code = "```text\n[B](../examples/x)\n```"
    assert site.relinked(text + code) == "[A](methods/sisa.md) B [C](audits.md#a)\n" + code


def test_navigation_names_every_page_once_and_settings_ask_for_strictness() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    named = re.findall(r"^ +- (?:.+: )?([\w/]+\.md)$", text, re.M)
    assert len(named) == len(set(named))
    # No written page is left to hang at the end.
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert set(named) - {"reference.md", "methods/index.md"} == pages
    assert "\nstrict: true\n" in text
    # With --quiet mkdocs does not count warnings.
    builds = re.findall(r"mkdocs build(.*)", (ROOT / "Makefile").read_text("utf-8"))
    assert builds == [" --strict --site-dir build/checked-site", " --strict"]
    # No font and no script from elsewhere.
    assert "font: false" in text
    assert "http" not in text


def test_guides_are_found_before_the_reference(site: ModuleType) -> None:
    def boost(name: str) -> float:
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={})
        site.on_page_markdown("", page)
        return float(page.meta.get("search", {"boost": 1.0})["boost"])

    assert boost("datasets.md") > boost("concepts.md") > boost("reference.md")
    assert "# Your own graph" in (ROOT / "docs" / "datasets.md").read_text("utf-8")


def test_committed_records_keep_to_the_schema_and_others_do_not(pages: dict[str, str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(pages["record.schema.json"])
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    files = sorted((ROOT / "results" / "records").rglob("*.json"))
    assert len(files) > 100
    for path in files[:: len(files) // 40]:
        check.validate(json.loads(path.read_text("utf-8")))
    whole = json.loads(files[0].read_text("utf-8"))
    for wrong in ({"schema": 2}, {"status": "fine"}, {"more": 1}, {"label": None}, {"checksum": "abc"}):
        assert not check.is_valid({**whole, **wrong}), wrong
    assert not check.is_valid({key: value for key, value in whole.items() if key != "cell"})


@pytest.mark.parametrize("name", RUN_PAGES)
def test_marked_code_runs(command: Any, name: str) -> None:
    for match in RUN.finditer((ROOT / "docs" / name).read_text("utf-8")):
        if match["language"] == "python":
            exec(compile(match["text"], name, "exec"), {"__name__": "page"})
            continue
        for line in match["text"].splitlines():
            program, *arguments = shlex.split(line)
            assert program == "unlearnbench"
            told = command(*arguments)
            assert told.code == 0, (line, told.err)
            if "--json" in arguments:
                json.loads(told.out, parse_constant=lambda token: pytest.fail(f"{token} is not strict JSON"))


def test_pages_with_marked_code_are_found() -> None:
    assert {"index.md", "machines.md", "results_format.md"} <= set(RUN_PAGES)
    assert "mkdocs" not in sys.modules
