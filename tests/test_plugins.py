"""Loading plugins: one that is broken harms no other, and nothing goes wrong in silence."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from plugin_samples import FakePoint, Write, component, install, plugin_of, write_distribution

from unlearnbench import hookspecs
from unlearnbench.cli import main
from unlearnbench.errors import UsageError
from unlearnbench.hookspecs import hookimpl
from unlearnbench.plugins import Catalogue, PluginError, load_catalogue, report_problems

__all__ = ["install"]

ANNOUNCES = """
from unlearnbench.hookspecs import hookimpl

@hookimpl
def register_partitioners(register):
    register("{name}", "{module}:{cls}", summary="One line.")
"""


def load(*points: FakePoint, **settings: Any) -> Catalogue:
    return load_catalogue(entry_points=points, **settings)


def status_of(catalogue: Catalogue, name: str) -> tuple[str, str]:
    (found,) = (plugin for plugin in catalogue.plugins if plugin.name == name)
    return found.status, found.reason


def raising(error: BaseException) -> ModuleType:
    plugin = ModuleType("raising")

    def register_partitioners(register: Any) -> None:
        raise error

    plugin.register_partitioners = hookimpl(register_partitioners)  # type: ignore[attr-defined]
    return plugin


def failing_points() -> dict[str, FakePoint]:
    return {
        "ImportError: No module named 'not_there'": FakePoint("bad", ImportError("No module named 'not_there'")),
        "SyntaxError: invalid syntax": FakePoint("bad", SyntaxError("invalid syntax")),
        "SystemExit: 3": FakePoint("bad", SystemExit(3)),
        "ZeroDivisionError: in a hook": FakePoint("bad", raising(ZeroDivisionError("in a hook"))),
        "SystemExit: from a hook": FakePoint("bad", raising(SystemExit("from a hook"))),
    }


@pytest.mark.parametrize("reason", failing_points())
def test_broken_plugin_is_told_and_the_others_load(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = [FakePoint(f"good-{d}", plugin_of(partitioners=[component(f"cut-{d}")]), f"ub-{d}") for d in "az"]
    bad = FakePoint("bad", failing_points()[reason].plugin, "ub-m")
    catalogue = load(good[0], bad, good[1])
    assert status_of(catalogue, "bad") == ("failed", reason)
    assert {"cut-a", "cut-z"} <= set(catalogue.names("partitioner"))
    report_problems(catalogue)
    said = capsys.readouterr().err
    assert all(part in said for part in ("bad", "ub-m", reason, "--disable-plugin bad"))


def test_interruption_while_a_plugin_loads_is_no_failure_of_the_plugin() -> None:
    with pytest.raises(KeyboardInterrupt):
        load(FakePoint("slow", KeyboardInterrupt()))


def test_asking_for_a_component_of_a_broken_plugin_gives_the_reason() -> None:
    catalogue = load(FakePoint("bad", ImportError("No module named 'not_there'"), "ub-bad"))
    with pytest.raises(UsageError) as caught:
        catalogue.find("unlearner", "bad")
    assert caught.value.exit_code == 2
    assert all(part in str(caught.value) for part in ("'bad'", "ub-bad", "not_there"))


def test_what_was_half_registered_is_rolled_back() -> None:
    plugin = plugin_of(partitioners=[component("early")])
    later = raising(RuntimeError("late")).register_partitioners
    plugin.register_unlearners = later  # type: ignore[attr-defined]
    catalogue = load(FakePoint("half", plugin))
    assert status_of(catalogue, "half") == ("failed", "RuntimeError: late")
    assert catalogue.names("partitioner") == []
    assert "ub-a" not in catalogue.versions()


def test_hook_with_an_extra_argument_names_it_and_no_hook_is_called() -> None:
    called = []
    plugin = ModuleType("extra")

    def register_partitioners(register: Any) -> None:
        called.append("first")

    def register_unlearners(register: Any, extra: Any) -> None:
        called.append("second")

    plugin.register_partitioners = hookimpl(register_partitioners)  # type: ignore[attr-defined]
    plugin.register_unlearners = hookimpl(register_unlearners)  # type: ignore[attr-defined]
    catalogue = load(FakePoint("extra", plugin), FakePoint("good", plugin_of(partitioners=[component("cut")]), "ub-z"))
    status, reason = status_of(catalogue, "extra")
    assert status == "failed"
    assert all(part in reason for part in ("register_unlearners", "'extra'", "`register`"))
    assert called == []
    assert catalogue.names("partitioner") == ["cut"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("register_partitoners", "register_partitioners"), ("register_unlearner", "register_unlearners")],
)
def test_misspelt_hook_is_told_with_the_nearest(wrong: str, right: str) -> None:
    plugin = plugin_of(aggregators=[component("vote")])
    setattr(plugin, wrong, hookimpl(lambda register: None))
    catalogue = load(FakePoint("misspelt", plugin))
    status, reason = status_of(catalogue, "misspelt")
    assert status == "failed"
    assert repr(wrong) in reason
    assert repr(right) in reason
    assert catalogue.names("aggregator") == []


def test_hook_like_none_of_ours_lists_all() -> None:
    plugin = ModuleType("odd")
    plugin.zzz = hookimpl(lambda register: None)  # type: ignore[attr-defined]
    assert all(hook in status_of(load(FakePoint("odd", plugin)), "odd")[1] for hook in hookspecs.KINDS.values())


def test_hook_without_the_marker_is_told() -> None:
    plugin = ModuleType("bare")
    plugin.register_models = lambda register: None  # type: ignore[attr-defined]
    status, reason = status_of(load(FakePoint("bare", plugin)), "bare")
    assert status == "failed"
    assert "'register_models'" in reason
    assert "@hookimpl" in reason


def test_hook_without_its_argument_is_told() -> None:
    plugin = ModuleType("deaf")
    plugin.register_models = hookimpl(lambda: None)  # type: ignore[attr-defined]
    status, reason = status_of(load(FakePoint("deaf", plugin)), "deaf")
    assert status == "failed"
    assert "'register_models'" in reason
    assert "`register`" in reason


@pytest.mark.parametrize(
    "target", [object(), component, type("Nameless", (), {}), ("name", ""), ("name", "module without colon")]
)
def test_registering_what_is_no_component_fails_with_what_is_wanted(target: Any) -> None:
    status, reason = status_of(load(FakePoint("odd", plugin_of(models=[target]))), "odd")
    assert status == "failed"
    assert "register(" in reason


def test_two_distributions_with_one_name_are_both_named_and_one_can_be_picked() -> None:
    versions = {"ub-a": 1, "ub-b": 2}
    plugins = {name: plugin_of(unlearners=[component("gif", version=version)]) for name, version in versions.items()}
    catalogue = load(*(FakePoint("gif", plugin, distribution) for distribution, plugin in plugins.items()))
    with pytest.raises(UsageError) as caught:
        catalogue.find("unlearner", "gif")
    assert "ub-a:gif or ub-b:gif" in str(caught.value)
    assert catalogue.find("unlearner", "ub-b:gif").distribution == "ub-b"
    assert catalogue.load(catalogue.find("unlearner", "UB_A:gif")).version == 1
    with pytest.raises(UsageError, match="Unknown unlearner 'ub-c:gif'"):
        catalogue.find("unlearner", "ub-c:gif")


def test_one_name_in_two_kinds_is_no_clash() -> None:
    plugin = plugin_of(partitioners=[component("metis")], aggregators=[component("metis")])
    assert status_of(load(FakePoint("metis", plugin)), "metis") == ("ok", "")


@pytest.mark.parametrize("name", ["sharded", "retrain"])
def test_first_party_names_cannot_be_taken(name: str) -> None:
    ours = FakePoint("retrain", plugin_of(unlearners=[component("retrain")]), "unlearnbench")
    theirs = FakePoint("aaa", plugin_of(unlearners=[component("other"), component(name)]), "aaa")
    catalogue = load(theirs, ours)
    status, reason = status_of(catalogue, "aaa")
    assert status == "failed"
    assert all(part in reason for part in (repr(name), "aaa", "unlearnbench"))
    assert catalogue.find("unlearner", name).distribution == "unlearnbench"
    assert "other" not in catalogue.names("unlearner")


def test_a_name_twice_in_one_plugin_is_an_error() -> None:
    plugin = plugin_of(unlearners=[component("gif"), component("gif")])
    status, reason = status_of(load(FakePoint("gif", plugin)), "gif")
    assert status == "failed"
    assert "'gif'" in reason


def test_one_distribution_found_twice_counts_once_with_a_notice() -> None:
    first = FakePoint("gif", plugin_of(unlearners=[component("gif")]), "ub-gif", "1.0")
    second = FakePoint("gif", ImportError("must not be loaded"), "UB_gif", "2.0")
    catalogue = load(first, second)
    assert [(p.version, p.status) for p in catalogue.plugins if p.name == "gif"] == [("1.0", "ok")]
    (notice,) = catalogue.notices
    assert all(part in notice for part in ("ub-gif", "twice", "1.0", "2.0"))


def test_installed_twice_is_found_twice(install: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("ub-twice", ANNOUNCES.format(name="twice", module="ub_twice", cls="Cut"), version="1.0")
    write_distribution(tmp_path / "other", "ub-twice", "", version="2.0")
    monkeypatch.syspath_prepend(tmp_path / "other")
    monkeypatch.syspath_prepend(tmp_path / "site")
    catalogue = load_catalogue()
    assert [p.version for p in catalogue.plugins if p.distribution == "ub-twice"] == ["1.0"]
    assert sum("ub-twice was found twice" in notice for notice in catalogue.notices) == 1


def test_distribution_without_metadata_harms_nobody(install: Write, tmp_path: Path) -> None:
    install("ub-fine", ANNOUNCES.format(name="fine", module="ub_fine", cls="Cut"))
    info = tmp_path / "site" / "broken-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[unlearnbench]\nbroken = not_there_at_all\n")
    catalogue = load_catalogue()
    assert status_of(catalogue, "fine") == ("ok", "")
    assert status_of(catalogue, "broken")[0] == "failed"


def test_entry_points_that_cannot_be_read_harm_nobody(install: Write, tmp_path: Path) -> None:
    install("ub-fine", ANNOUNCES.format(name="fine", module="ub_fine", cls="Cut"))
    info = tmp_path / "site" / "ub_garbled-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ub-garbled\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[unlearnbench]\nno equals sign here\n")
    catalogue = load_catalogue()
    assert status_of(catalogue, "fine") == ("ok", "")
    (garbled,) = (plugin for plugin in catalogue.plugins if plugin.distribution == "ub-garbled")
    assert garbled.status == "failed"
    assert garbled.reason


def test_disabled_plugin_is_not_even_imported(install: Write, tmp_path: Path) -> None:
    written = tmp_path / "imported"
    source = f"open({str(written)!r}, 'w').close()\n" + ANNOUNCES.format(name="loud", module="ub_loud", cls="Cut")
    install("ub-loud", source)
    for name in ("loud", "ub-loud", "UB_Loud"):
        catalogue = load_catalogue(disable=[name])
        assert status_of(catalogue, "loud") == ("disabled", "asked for")
        assert not written.exists()
        with pytest.raises(UsageError, match=r"loud \(ub-loud\): asked for"):
            catalogue.find("partitioner", "loud")
    assert status_of(load_catalogue(), "loud") == ("ok", "")
    assert written.exists()


def test_disabling_an_unknown_plugin_is_told() -> None:
    (notice,) = load(FakePoint("gif", plugin_of()), disable=["gfi", "gif"]).notices
    assert "--disable-plugin gfi" in notice


@pytest.mark.parametrize("value", ["one", "ub-a", " one , three "])
def test_environment_limits_loading(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLEARNBENCH_PLUGINS", value)
    catalogue = load(FakePoint("one", plugin_of(), "ub-a"), FakePoint("two", ImportError("unseen"), "ub-b"))
    assert status_of(catalogue, "one") == ("ok", "")
    assert status_of(catalogue, "two") == ("disabled", "not in UNLEARNBENCH_PLUGINS")
    assert ["UNLEARNBENCH_PLUGINS three" in notice for notice in catalogue.notices] == [True] * ("three" in value)


def test_empty_environment_variable_leaves_the_core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLEARNBENCH_PLUGINS", "")
    catalogue = load(FakePoint("one", plugin_of(unlearners=[component("one")]), "ub-a"))
    assert catalogue.names("unlearner") == ["sharded"]
    assert "gcn" in catalogue.names("model")


@pytest.mark.parametrize("reason", failing_points())
def test_strict_raises_at_the_first_failure(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLEARNBENCH_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError) as caught:
        load(failing_points()[reason])
    assert all(part in str(caught.value) for part in ("bad", "ub-a", reason))
    assert caught.value.exit_code == 2
    monkeypatch.setenv("UNLEARNBENCH_STRICT_PLUGINS", "0")
    assert status_of(load(failing_points()[reason]), "bad") == ("failed", reason)


LAZY = """
import abc
from unlearnbench.component import Component

class Cut(Component):
    name = "other"

class Nameless(Component):
    pass

class Stranger:
    name = "cut"

class Unfinished(Component, abc.ABC):
    name = "cut"
    @abc.abstractmethod
    def partition(self, task, num_shards): ...

def function(params): ...
"""


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("ub_lazy:Cut", "calls itself 'other'"),
        ("ub_lazy:Nameless", "calls itself None"),
        ("ub_lazy:Stranger", "not a class derived from unlearnbench.Component"),
        ("ub_lazy:function", "not a class derived from unlearnbench.Component"),
        ("ub_lazy:Unfinished", "does not define partition"),
        ("ub_lazy:Missing", "has no attribute 'Missing'"),
        ("ub_nowhere:Cut", "No module named 'ub_nowhere'"),
        ("ub_exits:Cut", "SystemExit: 3"),
    ],
)
def test_lazily_announced_class_is_checked_when_it_is_used(target: str, said: str, install: Write) -> None:
    install("ub-lazy", LAZY)
    install("ub-exits", "raise SystemExit(3)")
    catalogue = load(FakePoint("lazy", plugin_of(partitioners=[("cut", target)]), "ub-l"))
    assert status_of(catalogue, "lazy") == ("ok", "")
    with pytest.raises(UsageError) as caught:
        catalogue.load(catalogue.find("partitioner", "cut"))
    assert all(part in str(caught.value) for part in ("'cut'", "ub-l", said))


def test_class_announced_directly_keeps_its_own_name_and_summary() -> None:
    catalogue = load(FakePoint("cut", plugin_of(partitioners=[component("cut")])))
    entry = catalogue.find("partitioner", "cut")
    assert (entry.name, entry.summary, entry.distribution_version) == ("cut", "A cut.", "1.0")
    assert catalogue.load(entry).name == "cut"


@pytest.mark.parametrize(("name", "close"), [("retrian", "retrain"), ("sharde", "sharded")])
def test_unknown_name_gives_near_matches_and_where_to_look(name: str, close: str) -> None:
    catalogue = load(FakePoint("retrain", plugin_of(unlearners=[component("retrain")]), "unlearnbench"))
    with pytest.raises(UsageError, match=f"Did you mean {close}.*unlearnbench ls unlearner"):
        catalogue.find("unlearner", name)


def test_every_hook_belongs_to_a_kind_and_takes_register_alone() -> None:
    hooks = {name: f for name, f in inspect.getmembers(hookspecs, inspect.isfunction) if name.startswith("register_")}
    assert set(hooks) == set(hookspecs.KINDS.values())
    assert all(list(inspect.signature(hook).parameters) == ["register"] for hook in hooks.values())


def test_first_party_plugins_enter_by_entry_points_with_a_version() -> None:
    catalogue = load_catalogue()
    ours = {plugin.name: plugin for plugin in catalogue.plugins if plugin.distribution == "unlearnbench"}
    assert {"core", "retrain", "sisa", "grapheraser", "graphrevoker", "controls", "partitioners", "aggregators"} <= set(
        ours
    )
    assert {plugin.status for plugin in ours.values()} == {"ok"}
    assert {plugin.version for plugin in ours.values()} == {ours["core"].version}
    for kind in hookspecs.KINDS:
        for entry in catalogue.all(kind):
            cls = catalogue.load(entry)
            assert cls.version >= 1
            assert cls.summary
            assert "\n" not in cls.summary
            assert entry.summary
            assert all(info.description for info in cls.Params.model_fields.values()), entry.name


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0)


def test_plugins_command_lists_what_became_of_each(install: Write, capsys: pytest.CaptureFixture[str]) -> None:
    install("ub-bad", "import not_there")
    install("ub-exit", "import sys; sys.exit(3)")
    install("ub-typo", "def broken(:")
    install("ub-good", ANNOUNCES.format(name="good", module="ub_good", cls="Cut"))
    assert run_main("plugins", "--json", "--disable-plugin", "sisa") == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["good"]["components"] == ["partitioner good"]
    assert {name: listed[name]["status"] for name in ("good", "bad", "exit", "typo", "sisa")} == {
        "good": "ok", "bad": "failed", "exit": "failed", "typo": "failed", "sisa": "disabled",
    }  # fmt: skip
    assert "not_there" in listed["bad"]["reason"]
    assert run_main("plugins") == 0
    assert "bad  (ub-bad 1.0)  failed  ModuleNotFoundError: No module named 'not_there'" in capsys.readouterr().out


def test_listing_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom unlearnbench.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "heavy = {'torch', 'torch_geometric', 'pandas', 'pydantic', 'sklearn'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy), 'code:', code)\n"
    )
    for arguments in (["--help"], ["--version"], ["run", "--help"], ["runs"], ["run", "--nope"], ["ls", "method"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=60
        )
        expected = 2 if arguments in (["runs"], ["run", "--nope"]) else 0
        assert done.stdout.splitlines()[-1] == f"heavy: [] code: {expected}", (arguments, done.stdout, done.stderr)
