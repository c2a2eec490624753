from __future__ import annotations

import ast
import inspect
import re
import shlex
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from cogapp import Cog
from packaging.requirements import Requirement
from repository import ROOT

import unlearnbench
from unlearnbench import hookspecs
from unlearnbench.audits.base import Audit
from unlearnbench.audits.running import make_audit_plan
from unlearnbench.cli import cli, main
from unlearnbench.errors import UsageError
from unlearnbench.measure.provenance import provenance
from unlearnbench.registry.brackets import split_names
from unlearnbench.registry.catalogue import Catalogue, Entry
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.report.tables.index import find_table
from unlearnbench.running import plan as planning
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.options import OPTIONS
from unlearnbench.running.plan import make_plan

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = ["README.md", "CONTRIBUTING.md"]
PAGES += [
    f"docs/{name}.md"
    for name in (
        *("cli", "plugin_hooks", "protocol", "datasets", "statistics", "tables", "audits", "graphrevoker"),
        *(
            "report_page",
            "index",
            "concepts",
            "reproduce",
            "findings",
            "results_format",
            "machines",
            "models",
            "performance",
        ),
        *("python_api", "submitting", "trackers"),
    )
]
# Pages that exist in the built site alone.
MADE_WITH_THE_SITE = {"methods/index.md", "leaderboard/index.html", "methods/audits.md", "reference.md"}
BLOCK = re.compile(r"(?:<!-- example: (?P<role>\w+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
PLUGINS = sorted(path for path in (ROOT / "plugins").iterdir() if (path / "__init__.py").exists())


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    role: str
    text: str


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[Block]:
    found = [Block(name, match["language"], match["role"] or "", match["text"]) for match in BLOCK.finditer(page(name))]
    return [block for block in found if block.language == language]


@dataclass
class Distribution:
    name: str
    version: str = "0.1"


@dataclass
class Point:
    """An entry point whose module is a block of a page."""

    name: str
    text: str

    @property
    def value(self) -> str:
        return self.name

    @property
    def dist(self) -> Any:
        return Distribution(f"example-{self.name}")

    def load(self) -> ModuleType:
        module = ModuleType(self.name)
        exec(compile(self.text, self.name, "exec"), module.__dict__)
        return module


EXAMPLES = [block for block in blocks("docs/plugin_hooks.md", "python") if "@hookimpl" in block.text]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    points = [Point(f"example{number}", block.text) for number, block in enumerate(EXAMPLES)]
    return load_catalogue(strict=True, entry_points=[*metadata.entry_points(group="unlearnbench"), *points])


# Hooks


@pytest.mark.parametrize("hook", sorted(hookspecs.HOOKS.values()))
def test_every_hook_has_its_exact_signature_as_a_heading(hook: str) -> None:
    function = getattr(hookspecs, hook)
    arguments = ", ".join(
        f"{name}: {value}" for name, value in inspect.get_annotations(function).items() if name != "return"
    )
    assert list(inspect.signature(function).parameters) == ["register"]
    assert f"\n### `{hook}({arguments}) -> None`\n" in page("docs/plugin_hooks.md")


def test_every_marked_hook_is_a_kind_and_no_page_names_another() -> None:
    marked = {name for name, value in vars(hookspecs).items() if hasattr(value, "unlearnbench_spec")}
    assert marked == set(hookspecs.HOOKS.values())
    for name in PAGES:
        assert set(re.findall(r"\bregister_[a-z]+", page(name))) <= marked


def test_examples_announce_every_kind() -> None:
    announced = {hook for block in EXAMPLES for hook in re.findall(r"def (register_\w+)", block.text)}
    assert announced == set(hookspecs.HOOKS.values())


def test_the_example_of_an_audit_is_run(catalogue: Catalogue, tmp_path: Path) -> None:
    settings = {"methods": ["noop"], "datasets": ["ring"], "repetitions": 1, "epochs": 3, "forget_ratio": 0.1}
    config = make_config({**settings, "out": tmp_path, "device": "cpu"})
    plan = make_audit_plan(config, ["sureness"], catalogue)
    reference, noop = execute(plan, compute=Audit.auditor(catalogue))
    assert reference.status == noop.status == "ok"
    assert reference.audit is not None
    assert noop.audit is not None
    assert reference.audit["verdict"] == "not more sure"
    assert noop.audit["scores"][0]["value"] != reference.audit["scores"][0]["value"]


def test_the_example_plugin_is_short_and_named_as_its_project_says() -> None:
    for role, language, most in (("module", "python", 30), ("project", "toml", 8)):
        (docs,) = [block for block in blocks("docs/plugin_hooks.md", language) if block.role == role]
        assert len(docs.text.splitlines()) <= most
    project = tomllib.loads(docs.text)["project"]
    (module,) = project["entry-points"]["unlearnbench"].values()
    assert f"`{module}.py`" in page("docs/plugin_hooks.md")
    assert project["dependencies"] == [PROJECT["project"]["name"]]


def test_examples_run_side_by_side(catalogue: Catalogue, tmp_path: Path) -> None:
    methods = ["sharded[partitioner=degree,aggregator=largest,num_shards=5]", "from-scratch"]
    settings = {"methods": methods, "datasets": ["ring"], "models": ["one-layer"], "repetitions": 1, "epochs": 20}
    records = execute(make_plan(make_config({**settings, "out": tmp_path, "device": "cpu"}), catalogue))
    assert [(record.label, record.status) for record in records] == [
        ("retrain", "ok"),
        ("sharded[partitioner=degree,aggregator=largest,num_shards=5]", "ok"),
        ("from-scratch", "ok"),
    ]
    retrain, sharded, again = records
    assert sharded.partition is not None
    assert sharded.partition["sizes"] == [14] * 5
    assert sharded.counts["shards_hit"] == 1
    # The example of a whole method is Retrain in other words.
    assert again.digests["after"] == retrain.digests["after"]
    assert again.metrics == retrain.metrics
    assert all(score["after"] > 0 for score in sharded.metrics["log_loss"].values() if score["after"] is not None)
    assert set(sharded.metrics["val_log_loss"]) == {"shard", "full"}


# Arguments of `run` that are no options.
CALL_ALONE = ("progress", "on_phase", "on_epoch", "on_record")


@pytest.mark.parametrize(
    "text", [b.text for name in PAGES for b in blocks(name, "python") if "@hookimpl" not in b.text]
)
def test_other_python_is_valid_and_uses_public_names(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "unlearnbench":
            assert {alias.name for alias in node.names} <= set(unlearnbench.__all__)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            function = node.func
            if isinstance(function.value, ast.Name) and function.value.id == "unlearnbench":
                assert function.attr in unlearnbench.__all__
                if function.attr == "run":
                    assert {keyword.arg for keyword in node.keywords if keyword.arg} <= {*OPTIONS, *CALL_ALONE}


@pytest.mark.slow
def test_the_page_of_the_python_api_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks("docs/python_api.md", "python"):
        exec(compile(block.text, block.page, "exec"), names)
    assert names["state"].key == names["method"].state().key


@pytest.mark.slow
def test_the_page_of_submitting_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_signals: None
) -> None:
    monkeypatch.chdir(tmp_path)
    # The checkout that is tested may have changes.
    monkeypatch.setattr(planning, "provenance", lambda: {**provenance(), "dirty": False})
    for block in blocks("docs/submitting.md", "bash"):
        for line in block.text.splitlines():
            with pytest.raises(SystemExit) as ended:
                main(shlex.split(line)[1:])
            assert ended.value.code == 0, line
    assert len(list(tmp_path.glob("submission/records/*/digits/*/*.json"))) == 2


# Commands


def parse(arguments: list[str]) -> click.Context:
    """Read a command line as click would, without running it."""
    command: click.Command = cli
    context = click.Context(cli, info_name="unlearnbench", **cli.context_settings)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name!r}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    if isinstance(command, click.Group):
        known = {option for parameter in command.get_params(context) for option in parameter.opts}
        assert set(arguments) <= known, f"unknown among {arguments}"
        return context
    return command.make_context(context.info_name, arguments, parent=context.parent)


def lines_of_bash() -> list[tuple[str, str]]:
    fenced = [
        (name, line) for name in PAGES for b in blocks(name, "bash") for line in b.text.splitlines() if line.strip()
    ]
    inline = [
        (name, command)
        for name in PAGES
        for command in re.findall(r"`((?:unlearnbench|make) [^`\n]+)`", re.sub(BLOCK, "", page(name)))
    ]
    return list(dict.fromkeys([*fenced, *inline]))


@pytest.mark.parametrize(("name", "line"), lines_of_bash())
def test_every_command_on_a_page_exists(name: str, line: str, catalogue: Catalogue) -> None:
    program, *arguments = shlex.split(line)
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+):", page("Makefile"), re.M))
        assert arguments
        assert set(arguments) <= targets
    elif program == "pip":
        assert arguments[0] == "install"
        files = {arguments[at + 1] for at, argument in enumerate(arguments) if argument == "-c"}
        assert set(arguments[1:]) <= {"-c", ".", "torch", *files}
        assert all((ROOT / file).is_file() for file in files)
    elif program in ("python3", "."):
        assert line in ("python3 -m venv .venv", ". .venv/bin/activate")
    else:
        assert program == "unlearnbench"
        context = parse(arguments)
        for method in split_names(context.params.get("methods") or []):
            resolve(catalogue, "unlearner", method)
        for dataset in split_names(context.params.get("datasets") or []):
            resolve(catalogue, "dataset", dataset)


@pytest.mark.parametrize("wrong", ["rum", "run --method sisa", "leaderboard check", "--versions"])
def test_a_command_that_does_not_exist_is_found_out(wrong: str) -> None:
    with pytest.raises((AssertionError, click.ClickException, UsageError)):
        parse(wrong.split())


def test_bracket_examples_resolve(catalogue: Catalogue) -> None:
    examples = [line for block in blocks("docs/plugin_hooks.md", "text") for line in block.text.splitlines()]
    inline = re.findall(
        r"`((?:sharded|graphrevoker|grapheraser|sisa)\[[^`]+\])`", "".join(page(name) for name in PAGES)
    )
    written = [*examples, *inline]
    assert len(written) > 6
    for text in written:
        # Here the example is brought by another distribution than in the text.
        degree = catalogue.find("partitioner", "degree").distribution
        spec = resolve(catalogue, "unlearner", text.replace("unlearnbench-degree:", f"{degree}:"))
        assert spec.kind == "unlearner"


def test_run_files_are_valid(catalogue: Catalogue) -> None:
    texts = [
        block.text for name in PAGES for block in blocks(name, "toml") if block.role not in ("project", "experiment")
    ]
    assert texts
    for text in texts:
        config = make_config(tomllib.loads(text))
        specs = [resolve(catalogue, "unlearner", bracket) for bracket in config.brackets(config.methods)]
        assert len({spec.label for spec in specs}) == len(specs) > len(config.methods)


def test_the_example_of_an_experiment_is_valid(catalogue: Catalogue) -> None:
    (text,) = [block.text for block in blocks("docs/plugin_hooks.md", "toml") if block.role == "experiment"]
    found = tomllib.loads(text)
    assert set(found) == {"source", "tables", "grid"}
    assert {find_table(catalogue, name).kind for name in found["tables"]} == {"table"}
    for grid in found["grid"]:
        assert make_config(grid).datasets


def commands(command: click.Command, context: click.Context) -> list[tuple[click.Command, click.Context]]:
    found = [(command, context)]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += commands(child, click.Context(child, parent=context, info_name=name))
    return found


COMMANDS = commands(cli, click.Context(cli, info_name="unlearnbench", **cli.context_settings))


@pytest.mark.parametrize(("command", "context"), [pytest.param(c, x, id=x.command_path) for c, x in COMMANDS])
def test_every_command_and_option_is_on_the_page(command: click.Command, context: click.Context) -> None:
    heading = f"## {context.command_path}\n"
    sections = re.split(r"^(?=## )", page("docs/cli.md"), flags=re.M)
    (section,) = [section for section in sections if section.startswith(heading)]
    for parameter in command.get_params(context):
        for option in parameter.opts if isinstance(parameter, click.Option) else ():
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", section), option


@pytest.mark.parametrize("name", ["cli", "results_format"])
def test_a_page_that_a_program_writes_into_is_fresh(name: str) -> None:
    assert Cog().main(["cog", "--check", str(ROOT / f"docs/{name}.md")]) == 0


def test_a_stale_page_of_commands_is_found_out(tmp_path: Path) -> None:
    stale = tmp_path / "cli.md"
    stale.write_text(page("docs/cli.md").replace("--repetitions INTEGER", "--repeats INTEGER"), encoding="utf-8")
    assert Cog().main(["cog", "--check", str(stale)]) != 0


# Plugins' own pages


def entries_of(catalogue: Catalogue, package: str) -> list[Entry]:
    return [e for kind in hookspecs.KINDS for e in catalogue.all(kind) if str(e.target).startswith(f"{package}.")]


@pytest.mark.parametrize("folder", PLUGINS, ids=[path.name for path in PLUGINS])
def test_every_plugin_says_where_its_methods_come_from(folder: Path, catalogue: Catalogue) -> None:
    text = page(f"plugins/{folder.name}/README.md")
    entries = entries_of(catalogue, folder.name)
    assert entries
    for entry in entries:
        cls = catalogue.load(entry)
        assert cls.reference
        assert cls.summary
        assert f"`{entry.name}`" in text
        if entry.kind == "unlearner":
            (year,) = re.findall(r"\b20\d\d\b", cls.reference)
            authors = re.findall(r"\b([A-Z][a-z]+)(?= et al\.|,)", cls.reference)
            assert authors
            assert authors[0] in text
            assert year in text
    assert re.search(r"deviat|choice|differ", text, re.I)


# The house


# Beside the pages: what has a test of its own for its commands.
OTHERS = ["docs/tutorial_plugin.md", "docs/tutorial_posthoc.md", "tests/pains/README.md"]
OTHERS += ["examples/unlearnbench-example-bfs/README.md"]


@pytest.mark.parametrize("name", [*PAGES, *OTHERS, *(f"plugins/{path.name}/README.md" for path in PLUGINS)])
def test_links_lead_somewhere(name: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(#[^)\s]+)?\)", re.sub(BLOCK, "", page(name))):
        path = (ROOT / name).parent / target if target else ROOT / name
        assert target in MADE_WITH_THE_SITE or path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor[1:] in slugs, anchor


def test_every_dependency_is_pinned_within_its_range() -> None:
    lines = [line for line in page("constraints.txt").splitlines() if line and not line.startswith("#")]
    pins = dict(line.lower().replace("_", "-").split("==") for line in lines)
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [Requirement(text) for texts in (PROJECT["project"]["dependencies"], *extras.values()) for text in texts]
    for requirement in wanted:
        if requirement.name != "unlearnbench":
            assert requirement.specifier.contains(pins[requirement.name.lower().replace("_", "-")]), requirement


def test_the_citation_names_this_version() -> None:
    assert re.findall(r"^version: (.+)$", page("CITATION.cff"), re.M) == [PROJECT["project"]["version"]]
