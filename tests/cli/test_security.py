"""Names, files and folders of strangers: nothing in them runs, nothing is written outside the folder named."""

from __future__ import annotations

import csv
import io
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import ONCE, SHARDS, command, install, records_of
from graph_samples import Bomb, user_graph
from plugin_samples import TOYS, Write
from record_samples import make_record

from unlearnbench.errors import UsageError
from unlearnbench.records.reading import read_records
from unlearnbench.records.record import DamagedRecordError
from unlearnbench.records.store import Store
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import load_records
from unlearnbench.report.publish.leaderboard import build
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import FORMATS, render
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import make_plan
from unlearnbench.running.progress import compute_with_bar
from unlearnbench.running.runner import run_cell

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

NAMES = [
    "../../evil", "..", ".", "/etc/evil", "C:\\evil", "c:/evil", "\\\\server\\evil", "con", "NUL", "nul.txt",
    "com1.npz", "a\0b", "x" * 300, "~/evil", "~nobody-at-all/evil", "a/../../../evil", "%2e%2e%2fevil", "-evil", "a b",
    "ä", "$(touch evil)", "`touch evil`", "; touch evil", "{0}", "%s",
]  # fmt: skip


def tree(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


# Names as paths


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_a_path_is_a_usage_error_and_writes_nothing(command: Any, tmp_path: Path, name: str) -> None:
    before, context = tree(tmp_path), set(tmp_path.parent.iterdir())
    tried = [
        ("run", "-m", name, "-d", "toy"),
        ("run", "-m", "steady", "-d", name),
        ("run", "-m", "steady", "-d", f"file:{name}"),
        ("run", "-m", "steady", "-d", "toy", "--models", name),
        ("run", "-m", f"sisa[partitioner={name}]", "-d", "toy"),
        ("run", "-m", f'sisa[num_shards="{name}"]', "-d", "toy"),
        ("run", "--experiment", name),
        ("audit", name, "-m", "steady", "-d", "toy"),
        ("show", name),
        ("report", "--table", name),
    ]
    for arguments in tried:
        told = command(*arguments)
        assert told.code == 2, (arguments, told.err)
        assert told.err.strip()
        assert "Traceback" not in told.err
    assert tree(tmp_path) == before
    assert set(tmp_path.parent.iterdir()) == context


@pytest.mark.parametrize("name", NAMES)
def test_a_plugin_of_any_name_is_left_out_and_no_file_is_looked_for(command: Any, tmp_path: Path, name: str) -> None:
    before = tree(tmp_path)
    told = command("ls", "unlearner", "--disable-plugin", name)
    assert told.code == 0
    assert "there is no such plugin" in told.err
    assert tree(tmp_path) == before


NAMED = """
from ub_toys import Steady, Toy
from unlearnbench import Model, hookimpl

NAMES = {names!r}

@hookimpl
def register_unlearners(register):
    for name in NAMES:
        register(type("Evil", (Steady,), {{"name": name}}))

@hookimpl
def register_datasets(register):
    for name in NAMES:
        register(type("Evil", (Toy,), {{"name": name}}))
"""


def test_components_whose_names_are_paths_stay_in_the_folder(command: Any, install: Write, tmp_path: Path) -> None:
    names = ["a/../../../evil", "con", "nul.txt", "x" * 300, "C+.exe", "a//b"]
    install("ub-evil", NAMED.format(names=names))
    before, context, out = tree(tmp_path), set(tmp_path.parent.iterdir()), tmp_path / "out"
    listed = ",".join(names)
    once = ("--epochs", "1", "--repetitions", "1", "--no-reference")
    told = command("run", "-m", listed, "-d", listed, *once, "--out", str(out))
    assert told.code == 0, told.err
    records = list(read_records(out))
    assert len(records) == len(names) ** 2
    assert {record.cell["method"]["name"] for record in records} == set(names)
    assert set(tmp_path.parent.iterdir()) == context
    assert all(path.is_relative_to(out) for path in tree(tmp_path) - before)
    for path in out.glob("records/*/*/*/*"):
        assert len(path.relative_to(out).parts) == 5
        assert all(len(part) <= 100 for part in path.relative_to(out).parts)
    for path in build(out, out / "leaderboard"):
        assert path.resolve().is_relative_to(out.resolve())


# Pickles that run something


def bomb(tmp_path: Path) -> Any:
    return Bomb(tmp_path / "pwned")


def test_no_file_that_is_read_runs_what_is_in_it(command: Any, tmp_path: Path) -> None:
    out, states = tmp_path / "out", tmp_path / "states"
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--out", str(out), "--save-state", str(states))
    assert command(*arguments).code == 0
    kept = {path: path.read_bytes() for path in [*out.rglob("*.*"), *states.rglob("*")] if path.is_file()}
    torches = io.BytesIO()
    torch.save(bomb(tmp_path), torches)
    archives = io.BytesIO()
    np.savez(archives, forgotten=np.array([bomb(tmp_path)], dtype=object))
    for path in kept:
        path.write_bytes(
            {".npz": archives, ".pt": torches}.get(path.suffix, io.BytesIO(pickle.dumps(bomb(tmp_path)))).getvalue()
        )
    record = next(path for path in kept if path.suffix == ".json" and "records" in path.parts)
    told = command("report", str(out))
    assert told.code == 3
    assert record.name in told.err
    with pytest.raises(DamagedRecordError, match="not a whole record"):
        list(read_records(out))
    told = command("run", "-m", "sisa", *ONCE, *SHARDS, "--out", str(out), "--save-state", str(states))
    assert told.code == 0
    assert "computed anew" in told.err
    assert records_of(out).keys() == {("retrain", 0), ("sisa", 0)}
    assert not (tmp_path / "pwned").exists()


def test_arrays_beside_a_record_are_not_unpickled(tmp_path: Path) -> None:
    store = Store(tmp_path / "out", "m-0001")
    record = make_record()
    path = store.save(record, {"forgotten": np.arange(3)}).with_suffix(".npz")
    for content in (np.array([bomb(tmp_path)], dtype=object), bomb(tmp_path)):
        np.savez(path, forgotten=content)
        with pytest.raises(DamagedRecordError, match=path.name):
            store.arrays(record)
    path.write_bytes(pickle.dumps(bomb(tmp_path)))
    with pytest.raises(DamagedRecordError, match=path.name):
        store.arrays(record)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("ending", ["pt", "pth", "npz"])
def test_a_dataset_that_would_run_something_ends_the_run(command: Any, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"g.{ending}"
    if ending == "npz":
        np.savez(path, **{**user_graph(), "x": np.array([bomb(tmp_path)], dtype=object)})
    else:
        torch.save({**user_graph(), "x": bomb(tmp_path)}, path)
    told = command("run", "-m", "sisa", "-d", f"file:{path}", "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert path.name in told.err
    assert not (tmp_path / "pwned").exists()
    assert not (tmp_path / "out").exists()


# Markup, formulas and terminals

LABELS = [
    "<script>alert(1)</script>", "=1+2", "@SUM(A1)", "-1+2", "a|b", "[x](javascript:alert)", "\\input{/etc/passwd}",
    "a%b", "\x1b]0;evil\x07\x1b[2J", "a\u202eb", "a\r\nb", "\ue000x\ue001", "{{7*7}}",
]  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("style", FORMATS)
def test_a_label_is_shown_and_never_acts(label: str, style: str, tmp_path: Path) -> None:
    store = Store(tmp_path, "m-0001")
    for repetition in range(2):
        store.save(make_record("retrain", repetition, dataset=label, model=label))
        store.save(make_record("sisa", repetition, label=label, dataset=label, model=label))
    text = render(build_tables(load_records(tmp_path), "summary", label), style)
    assert text.encode("utf-8")
    if style == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == 2
        for row in rows:
            assert all(
                not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or is_number(cell) for cell in row.values()
            )
        assert {row["dataset"].removeprefix("'") for row in rows} == {label}
        return
    assert all(char.isprintable() or char == "\n" for char in text)
    if style == "md":
        for place in [at for at, char in enumerate(text) if char in "<[" and "script" in text[at:]]:
            assert text[place - 1] == "\\"
        assert "<script" not in text.replace("\\<", "")
        assert "](" not in text.replace("\\]", "")
    if style == "latex":
        # Behind a percent sign LaTeX reads nothing.
        assert all("\\input" not in line for line in text.splitlines() if not line.startswith("% "))
        assert "\ue000" not in text


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_a_progress_bar_reads_no_markup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, install: Write) -> None:
    install("ub-toys", TOYS)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    config = make_config({"methods": ["diverging"], "datasets": ["toy"], "repetitions": 1, "epochs": 1,
                          "out": tmp_path / "out", "reference": False, "device": "cpu"})  # fmt: skip
    plan = make_plan(config, load_catalogue())
    (cell,) = plan.wanted
    plan.wanted = [replace(cell, dataset=replace(cell.dataset, label="x[/b]"))]
    plan.graphs["x[/b]"] = plan.graphs["toy"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert [record.status for record in compute_with_bar(plan, run_cell)] == ["diverged"]
    assert "x[/b]" in said.getvalue()


# Links


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
@pytest.mark.parametrize("place", ["records", "records/m-0001", "records/m-0001/cora", "records/m-0001/cora/retrain"])
def test_nothing_is_written_or_read_through_a_folder_that_is_a_link(place: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    record = make_record()
    Store(outside, "m-0001").save(record, {"ids": np.arange(3)})
    before = tree(outside)
    store = Store(tmp_path / "out", "m-0001")
    link = store.root / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / place)
    for write in (
        lambda: store.save(record),
        lambda: store.save_failure(make_record(status="error")),
        lambda: store.arrays(record),
    ):
        with pytest.raises(UsageError, match="a link leads out") as caught:
            write()
        assert "Remove the link" in caught.value.hint
    with pytest.raises(DamagedRecordError, match="a link leads out"):
        list(read_records(store.root))
    if place.count("/") < 2:
        with pytest.raises(UsageError, match="a link leads out"):
            store.wanted(record.key, "only-missing")
    else:
        assert not store.has(record.key)
        with pytest.raises(DamagedRecordError, match="a link leads out"):
            store.find(record.key)
    assert store.clean(older_than=-1) == []
    assert tree(outside) == before


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_record_that_is_a_link_is_not_read_and_is_replaced_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.json"
    record = make_record()
    store = Store(tmp_path / "out", "m-0001")
    path = store.save(record, {"ids": np.arange(3)})
    outside.write_bytes(path.read_bytes())
    secret = tmp_path / "secret.npz"
    secret.write_bytes(path.with_suffix(".npz").read_bytes())
    for name, target in ((path, outside), (path.with_suffix(".npz"), secret)):
        name.unlink()
        name.symlink_to(target)
    with pytest.raises(DamagedRecordError, match="a link leads out"):
        list(store.records())
    with pytest.raises(DamagedRecordError, match="a link leads out"):
        store.arrays(record)
    assert not store.has(record.key)
    kept = outside.read_bytes(), secret.read_bytes()
    store.save(record, {"ids": np.arange(9)})
    assert not path.is_symlink()
    assert (outside.read_bytes(), secret.read_bytes()) == kept
    assert len(store.arrays(record)["ids"]) == 9
    assert store.has(record.key)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_other_folders_of_results_are_not_left_through_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    store = Store(tmp_path / "out", "m-0001")
    store.save(make_record())
    (store.root / "machines").symlink_to(outside)
    with pytest.raises(UsageError, match="a link leads out"):
        store.save_machine({"cores": 2})
    (store.root / "leaderboard").mkdir()
    (store.root / "leaderboard" / "www24").symlink_to(outside)
    with pytest.raises(UsageError, match="a link leads out"):
        build(store.root, store.root / "leaderboard")
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_results_folder_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "scratch")
    store = Store(tmp_path / "results", "m-0001")
    record = make_record()
    store.save(record)
    store.save_machine({"cores": 2})
    assert store.has(record.key)
    assert list(store.records()) == [record]


# Modules in the current folder

SHADOWS = [
    "torch",
    "json",
    "click",
    "numpy",
    "pluggy",
    "unlearnbench_sisa",
    "unlearnbench_retrain",
    "secrets",
    "ub_evil",
]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["script", "module"])
def test_modules_in_the_current_folder_are_not_imported(how: str, tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("unlearnbench.exe" if os.name == "nt" else "unlearnbench")
    if how == "script" and not script.is_file():
        pytest.skip(f"no console script beside this Python: {script}")
    for name in [*SHADOWS, *(["unlearnbench"] if how == "script" else [])]:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    info = tmp_path / "ub_evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ub-evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[unlearnbench]\nevil = ub_evil\n")
    command = [str(script)] if how == "script" else [sys.executable, "-m", "unlearnbench"]
    done = subprocess.run(
        [*command, "show", "sisa"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sisa, method")
    assert "Claim: " in done.stdout
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
