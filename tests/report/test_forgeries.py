"""Forged submissions: each is refused with the reason, and an honest folder passes.

Every forger knows this package: checksum, key and name of the file fit, unless they are what is forged.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SHARDS, SMALL, command, install, of_committed_source, shared_folder

from unlearnbench.measure.digests import predictions_digest
from unlearnbench.measure.machine import STABLE, machine_id
from unlearnbench.measure.request_time import request_seconds
from unlearnbench.records import record as records
from unlearnbench.records.columns import rows_of
from unlearnbench.records.record import Record, read_record
from unlearnbench.report.publish import recompute as recomputing
from unlearnbench.report.publish.grids import grid_problems
from unlearnbench.report.publish.submitted import NOTES
from unlearnbench.running.backends.received import record_lost
from unlearnbench.running.cell import key_of

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

RUN = ("run", "-m", "sisa,steady", *SMALL, "--repetitions", "2", *SHARDS, "--isolate", "--out", "mine")
OUTERMOST = (
    *("fit", "evaluate", "unlearn", "state-first", "state-second"),
    *("predict-first", "predict-second", "predict-full"),
)
COMMITTED = Path(__file__).parents[2] / "results"

Plain = dict[str, Any]
Change = Callable[[Plain], None]
Forgery = Callable[[Path], None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_folder(tmp_path_factory, "forgeries")


@pytest.fixture
def mine(command: Any, made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a results folder: Retrain, sisa and steady, two repetitions each, made from committed source."""
    return of_committed_source(command, RUN, made, monkeypatch)


def path_of(folder: Path, method: str = "sisa", repetition: int = 0) -> Path:
    paths = folder.glob(f"records/*/*/{method}/*.json")
    (path,) = (one for one in paths if json.loads(one.read_text())["cell"]["repetition"] == repetition)
    return path


def write(path: Path, plain: Plain) -> None:
    plain.pop("checksum", None)
    path.write_text(Record.model_validate(plain).to_json())


def forged(change: Change, method: str = "sisa") -> Forgery:
    """Change one record; its checksum fits."""

    def forge(folder: Path) -> None:
        path = path_of(folder, method)
        plain = json.loads(path.read_text())
        plain["phases"] = rows_of(plain["phases"])
        change(plain)
        write(path, plain)

    return forge


def put(place: str, value: Any) -> Forgery:
    """Set what stands at a place, such as `phases.0.seconds`."""
    *outer, last = (int(part) if part.isdigit() else part for part in place.split("."))

    def change(plain: Plain) -> None:
        reduce(lambda inner, part: inner[part], outer, plain)[last] = value  # type: ignore[index]

    return forged(change)


def cell(place: str, value: Any) -> Forgery:
    """Set a part of the cell; the key and what is named after it fit."""

    def forge(folder: Path) -> None:
        put(f"cell.{place}", value)(folder)
        path = path_of(folder, repetition=value if place == "repetition" else 0)
        plain = json.loads(path.read_text())
        plain["key"] = key_of(plain["cell"])
        write(path, plain)
        path.with_suffix(".npz").rename(path.with_name(f"{plain['key']}.npz"))
        path.rename(path.with_name(f"{plain['key']}.json"))

    return forge


def phase(name: str, key: str, value: Any) -> Forgery:
    def change(plain: Plain) -> None:
        next(one for one in plain["phases"] if one["name"] == name)[key] = value

    return forged(change)


def all_faster(plain: Plain) -> None:
    for one in plain["phases"]:
        one["seconds"] = 1e-9 if one["name"] in OUTERMOST else 0.0
    plain["unlearn_seconds"] = 3e-9
    plain["counts"]["steps"] = 4


def all_slower(plain: Plain) -> None:
    for one in plain["phases"]:
        one["seconds"] *= 2_000_000
    # Anew: a product would multiply what was rounded, too.
    plain["unlearn_seconds"] = request_seconds(plain["phases"])
    plain["phases"][0]["seconds"] = 1e7 - 1
    plain["provenance"]["process_seconds"] = 1e9


def no_phase(plain: Plain) -> None:
    plain["phases"] = [one for one in plain["phases"] if one["name"] != "predict-second"]


def note(text: str) -> Forgery:
    return forged(lambda plain: plain.setdefault("notes", []).append(text))


def arrays(change: Callable[[dict[str, Any]], None], digest: bool = False) -> Forgery:
    """Change the archive beside a record; if wished, the record's digest fits."""

    def forge(folder: Path) -> None:
        path = path_of(folder).with_suffix(".npz")
        with np.load(path) as loaded:
            values = {name: loaded[name] for name in loaded.files}
        change(values)
        np.savez(path, **values)
        if digest:
            put("predictions_digest", predictions_digest(values))(folder)

    return forge


def turned(values: dict[str, Any]) -> None:
    values["after/test/shard"] = values["after/test/shard"][:, ::-1].copy()


def without_archive(forge: Forgery) -> Forgery:
    def both(folder: Path) -> None:
        forge(folder)
        path_of(folder).with_suffix(".npz").unlink()

    return both


def better(plain: Plain) -> None:
    """Raise F1 by one node of the ten that are tested."""
    views = plain["metrics"]["f1_micro"]
    views["full"]["after"] += 0.1 if views["full"]["after"] < 0.95 else -0.1


def raw(change: Change, written: str = "Infinity") -> Forgery:
    """Write what no record of this package holds, such as infinity, written as JSON has it or not."""

    def forge(folder: Path) -> None:
        path = path_of(folder)
        plain = json.loads(path.read_text())
        del plain["checksum"]
        change(plain)
        plain["checksum"] = records._checksum(plain)
        path.write_text(json.dumps(plain, indent=1, sort_keys=True).replace("Infinity", written) + "\n")

    return forge


def infinite(plain: Plain) -> None:
    plain["digests"]["relative_change"] = float("inf")


def shortened(folder: Path) -> None:
    forged(lambda plain: plain.update(key=plain["key"][:8]))(folder)
    path = path_of(folder)
    path.rename(path.with_name(f"{path.stem[:8]}.json"))


def other_text(folder: Path) -> None:
    path = path_of(folder)
    path.write_text(path.read_text().replace('"schema": 1', '"schema":  1'))


def second_machine(seconds: float = 1.0, started: str = "", **facts: Any) -> Forgery:
    """Copy a record to a machine with a description of its own."""

    def forge(folder: Path) -> None:
        (known,) = folder.glob("machines/*.json")
        described = {**json.loads(known.read_text()), "cpu": "Another CPU", **facts}
        described["id"] = machine_id({key: described[key] for key in STABLE})
        known.with_name(f"{described['id']}.json").write_text(json.dumps(described))
        path = path_of(folder)
        plain = json.loads(path.read_text())
        plain["provenance"]["machine"] = described["id"]
        plain["provenance"]["started"] = started or plain["provenance"]["started"]
        plain["phases"]["seconds"] = [one * seconds for one in plain["phases"]["seconds"]]
        # Anew: a product would multiply what was rounded, too.
        plain["unlearn_seconds"] = request_seconds(rows_of(plain["phases"]))
        target = folder / "records" / described["id"] / path.parent.relative_to(path.parents[2]) / path.name
        target.parent.mkdir(parents=True)
        write(target, plain)

    return forge


def moved(folder: Path) -> None:
    path = path_of(folder)
    target = path.parent.with_name("sisa.bak") / path.name
    shutil.copytree(path.parent, target.parent)
    plain = json.loads(target.read_text())
    plain["unlearn_seconds"] *= 1.01
    write(target, plain)


def deleted(method: str, *repetitions: int) -> Forgery:
    def forge(folder: Path) -> None:
        for path in [path_of(folder, method, repetition) for repetition in repetitions]:
            path.unlink()

    return forge


def machine(**facts: Any) -> Forgery:
    def forge(folder: Path) -> None:
        (path,) = folder.glob("machines/*.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))

    return forge


FORGERIES: dict[str, tuple[Forgery, str]] = {
    # Times
    "negative time": (put("unlearn_seconds", -1.0), "unlearn_seconds is '-1.0'"),
    "negative phase": (phase("fit", "seconds", -0.1), "phases.0.seconds is '-0.1'"),
    "time below its phase": (put("unlearn_seconds", 1e-5), "unlearn_seconds is 1e-05, and the phases"),
    "time above all phases": (put("unlearn_seconds", 999.0), "unlearn_seconds is 999.0, and the phases"),
    "absurd time": (put("unlearn_seconds", 1e12), "unlearn_seconds is '1000000000000.0'"),
    "no time": (put("unlearn_seconds", None), "unlearn_seconds is None"),
    "no seconds of a phase": (phase("unlearn", "seconds", None), "seconds is 'None'"),
    "text for a time": (
        raw(lambda plain: plain["phases"].update(seconds=["0.5"] * len(plain["phases"]["name"]))),
        "phases.0.seconds: Input should be a valid number",
    ),
    "parts longer than their phase": (phase("train", "seconds", 50.0), "the parts of its phase `fit` took"),
    "faster than any machine": (forged(all_faster), "no machine is as fast"),
    "longer than its process": (
        forged(lambda plain: plain["provenance"].update(process_seconds=1e-3)),
        "its phases took longer than its process",
    ),
    "scored where labels can be read": (
        forged(lambda plain: plain["provenance"].update(scored_outside=False), "steady"),
        "run it isolated",
    ),
    "longer than there was time": (forged(all_slower), "ends in the future"),
    "a phase left out": (forged(no_phase), "its phases are not those of a cell"),
    "a phase twice": (forged(lambda plain: plain["phases"].append(plain["phases"][-1])), "its phases are not those"),
    "a failed phase": (phase("unlearn", "failed", True), "a phase of it failed"),
    "text in a phase": (phase("fit", "comment", "trust me"), "comment is 'trust me'"),
    # Load, backend, threads
    "exclusive on a busy machine": (
        forged(lambda plain: plain["provenance"].update(exclusive=True, other_cores=1.5)),
        "exclusive is True",
    ),
    "exclusive beside other cells": (
        forged(lambda plain: plain["provenance"].update(exclusive=True, other_cores=0.0, backend="processes")),
        "exclusive is True, with backend processes",
    ),
    "exclusive of an unknown load": (
        forged(lambda plain: plain["provenance"].update(exclusive=True, other_cores=None)),
        "exclusive is True",
    ),
    "exclusive that is no truth": (
        raw(lambda plain: plain["provenance"].update(exclusive="yes")),
        "provenance.exclusive: Input should be a valid boolean",
    ),
    "negative load": (put("provenance.other_cores", -1.0), "provenance.other_cores is '-1.0'"),
    "more load than cores": (
        forged(lambda plain: plain["provenance"].update(exclusive=False, other_cores=60000.0)),
        "the machine has",
    ),
    "text as load": (put("provenance.load", ["none", 0.0]), "provenance.load.0"),
    "unknown backend": (put("provenance.backend", "by hand"), "provenance.backend is 'by hand'"),
    "threads of 10^18": (put("provenance.threads", 10**18), "provenance.threads is '1000000000000000000'"),
    "no thread": (put("provenance.threads", 0), "provenance.threads is '0'"),
    "a device that is not the cell's": (put("provenance.device", "cuda:0"), "provenance.device is cuda:0"),
    # Versions
    "version with markup": (put("provenance.packages.torch", "2<b>"), "provenance.packages.torch is '2<b>'"),
    "version that is no version": (put("provenance.packages.numpy", "latest"), "provenance.packages.numpy"),
    "no version of the plugins": (put("provenance.plugins", {}), "which version of ub-toys, unlearnbench made it"),
    "plugin version of words": (put("provenance.plugins", {"unlearnbench": "the best"}), "plugins.unlearnbench"),
    "python of words": (put("provenance.python", "three"), "provenance.python is 'three'"),
    "commit of words": (put("provenance.git", "HEAD"), "provenance.git is 'HEAD'"),
    "source of which nothing is known": (
        forged(lambda plain: plain["provenance"].update(git="a" * 40, dirty=None)),
        "whether its source is that",
    ),
    # Predictions and scores
    "digest of other predictions": (put("predictions_digest", "0" * 64), "other predictions than its"),
    "other predictions": (arrays(turned), "other predictions than its `predictions_digest`"),
    "other predictions with their digest": (arrays(turned, digest=True), "of its predictions"),
    "no digest of predictions": (forged(lambda plain: plain.pop("predictions_digest")), "no digest of its predictions"),
    "better than its predictions": (forged(better), "f1_micro of the view full after the request is"),
    "F1 of no number of nodes": (
        without_archive(put("metrics.f1_micro.shard.after", 0.8123)),
        "is 0.8123: not of 10 nodes",
    ),
    "F1 above 1": (put("metrics.f1_macro.shard.before", 1.5), "before the request is 1.5, not a share"),
    "no F1": (put("metrics.f1_micro.full.after", None), "after the request is None, not a share"),
    "a metric of its own": (put("metrics.<b>best</b>", {}), "metrics.<b>best</b>"),
    "a metric that is not here": (put("metrics.glory", {"full": {"after": 1.0}}), "no metric here is called glory"),
    "a moment of its own": (put("metrics.f1_micro.full.later", 1.0), "metrics.f1_micro.full.later"),
    "scores without an outcome": (put("status", "diverged"), "scores without an outcome"),
    "another split": (arrays(lambda values: values.update(test=values["test"] + 1)), "another split (test)"),
    "another request in the archive": (
        arrays(lambda values: values.update(forgotten=values["forgotten"][::-1] + 1)),
        "holds another request",
    ),
    # Memory
    "negative memory": (phase("fit", "peak_rss_mib", -5.0), "peak_rss_mib is '-5.0'"),
    "no memory": (phase("fit", "peak_rss_mib", 0.0), "peak_rss_mib of `fit` is 0.0"),
    "more memory than there is": (phase("fit", "peak_rss_mib", 1e8), "peak_rss_mib of `fit` is 100000000.0"),
    "a peak below its start": (phase("fit", "peak_rss_mib", 2.0), "less than the"),
    "memory of a GPU on a CPU": (phase("fit", "peak_gpu_mib", 8.0), "peak_gpu_mib of `fit` is 8.0"),
    # Text
    "a path in a note": (note("see /home/somebody/notes"), "a note holds a path"),
    "markup in a note": (note("<script>alert(1)</script>"), "a note holds markup"),
    "control characters in a note": (note("good\x1b[31m"), "a note holds control characters"),
    "free text in a note": (note("The best method there is."), "a note is none of the harness's sentences"),
    "an address in a note": (note("more: https://example.org"), "a note holds a path or an address"),
    "another label": (put("label", "sisa (ours)"), "its label is 'sisa (ours)'"),
    "an alias with markup": (put("alias", "<b>best</b>"), "alias is '<b>best</b>'"),
    "a field of its own": (put("provenance.author", "me"), "provenance.author is 'me'"),
    "a path in a reason": (
        put("provenance.readings.reasons", {"peak_gpu_mib": "C:\\Users\\me"}),
        "holds a path or an address",
    ),
    "a reason of its own": (
        put("provenance.readings.reasons", {"hello": "world"}),
        "provenance.readings.reasons.hello",
    ),
    "a path as allocator": (put("provenance.allocator", "/opt/lib"), "provenance.allocator is '/opt/lib'"),
    # Cell and key
    "a shortened key": (shortened, "key is '"),
    "a cell that is not its key's": (put("cell.training.epochs", 3), "its key is that of another cell"),
    "another seed": (cell("seed", 7), "cell.seed is 7, that of the protocol 0"),
    "epochs of 10^9": (cell("training.epochs", 10**9), "cell.training.epochs is 1000000000, more than 1000000"),
    "a repetition of 10^9": (cell("repetition", 10**9), "cell.repetition is 1000000000, more than 10000"),
    "shards of 10^9": (cell("method.params.num_shards", 10**9), "cell.method.params.num_shards is 1000000000"),
    "another graph": (cell("dataset.sha256", "0" * 64), "has the checksum 000000000000..., here it is"),
    "a split that is not the dataset's": (cell("protocol.split", "own"), "splits the graph in another way"),
    "a better claim": (put("claim", {"claim": "exact", "reason": ""}), "the method declares exact-given-partition"),
    "a claim for another reason": (put("claim.reason", "content"), "it claims exact-given-partition (content)"),
    "no claim": (put("claim", None), "it has no claim"),
    "another request": (put("requests.0.ids_sha256", "0" * 64), "its request is not the one that the protocol draws"),
    "another number of nodes": (put("requests.0.count", 77), "its request counts 77"),
    "a request elsewhere": (put("requests.0.path", "../../secret"), "requests.0.path is '../../secret'"),
    "shards of other sizes": (put("partition.sizes", [1, 1, 1]), "partition.sizes add up to 3"),
    "shards left out": (put("partition.sizes", [70]), "its method has 3 shards"),
    "more shards hit than there are": (put("counts.shards_hit", 9), "counts.shards_hit is 9, of 3 shards"),
    "a share above 1": (put("partition.edges_kept", 2.0), "partition.edges_kept"),
    "negative steps": (put("counts.steps", -1), "counts.steps"),
    "steps of 10^14": (put("counts.steps", 10**14), "no machine is as fast"),
    "digests of its own": (put("digests.comment", "mine"), "digests"),
    "no change of what changed": (put("digests.unchanged", True), "contradict each other"),
    # Dates
    "a date in the future": (put("provenance.started", "2999-01-01T00:00:00+00:00"), "ends in the future"),
    "a date before the benchmark": (put("provenance.started", "1999-01-01T00:00:00+00:00"), "before there was"),
    "no date": (put("provenance.started", "2026-02-31T00:00:00+00:00"), "no date"),
    "a date in words": (put("provenance.started", "yesterday"), "provenance.started is 'yesterday'"),
    # Numbers that are not finite, and files that two readers read differently
    "NaN": (raw(infinite, "NaN"), "NaN is not strict JSON"),
    "1e999": (raw(infinite, "1e999"), "it is not written as this version writes records"),
    "another layout": (other_text, "it is not written as this version writes records"),
    # Grids and copies
    "a repetition left out": (deleted("sisa", 1), "its method lacks repetition 1 of its grid"),
    "the first repetition left out": (deleted("sisa", 0), "its method lacks repetition 0 of its grid"),
    "a repetition of Retrain left out": (deleted("retrain", 1), "Retrain is missing in repetition 1"),
    "Retrain left out": (deleted("retrain", 0, 1), "Retrain is missing in repetition 0"),
    "no list of repetitions": (
        forged(lambda plain: plain["provenance"].pop("repetitions")),
        "no list of the repetitions of its run",
    ),
    "a second machine": (second_machine(), "one is a copy"),
    "a second machine with other times": (second_machine(1.03), "one is a copy"),
    "a second machine that started later": (second_machine(started="2026-11-01T00:00:00+00:00"), "one is a copy"),
    "a second time with other times": (moved, "it lies in a folder of another machine, dataset or method"),
    # Machines
    "more usable cores than cores": (machine(usable_cores=60000), "usable_cores are more than cores"),
    "a path in a machine": (machine(os_release="/etc/release"), "os_release is '/etc/release'"),
    "threads of a machine": (machine(torch_threads=10**18), "torch_threads is '1000000000000000000'"),
    "markup in a machine": (second_machine(cpu="<b>fast</b>"), "cpu is '<b>fast</b>'"),
    "a machine without memory": (second_machine(memory_gib=-4), "memory_gib is '-4'"),
}


def test_an_honest_folder_passes(command: Any, mine: Path) -> None:
    told = command("leaderboard", "submit", "mine")
    assert told.code == 0, told.err
    assert "7 files laid out, 0 there already, 0 left out." in told.err


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused_with_the_reason(command: Any, mine: Path, name: str) -> None:
    forge, reason = FORGERIES[name]
    forge(mine)
    told = command("leaderboard", "submit", "mine")
    assert told.code == 1
    lines = [line for line in told.err.splitlines() if line.startswith("left out: mine/")]
    assert any(reason in line for line in lines), told.err
    assert all(line.isprintable() for line in lines)


def test_what_was_submitted_before_counts_for_the_grid(command: Any, mine: Path) -> None:
    assert command("leaderboard", "submit", "mine").code == 0
    deleted("retrain", 0, 1)(mine)
    assert command("leaderboard", "submit", "mine").code == 0
    second_machine()(mine)
    shutil.rmtree(next(path for path in mine.glob("records/*") if path.name not in str(path_of(mine, "steady"))))
    assert command("leaderboard", "submit", "mine").code == 0


def test_all_notes_of_committed_records_are_sentences_of_the_harness() -> None:
    texts = {note for path in COMMITTED.rglob("*.json") for note in json.loads(path.read_text()).get("notes", ())}
    assert texts
    assert [text for text in texts if not NOTES.fullmatch(text)] == []


def test_audits_of_one_repetition_have_one_request() -> None:
    first, *_ = (path for path in COMMITTED.rglob("*.json") if '"audit"' in path.read_text())
    record = read_record(first)
    other = record.model_copy(update={"key": "0" * 32, "requests": [{"ids_sha256": "0" * 64}]})
    problems = grid_problems({Path("a"): record, Path("b"): other}, [])
    assert sorted(map(str, problems)) == ["a", "b"]
    assert all("different requests" in reason for reason in problems.values())


# Running cells again


@pytest.mark.parametrize("forge", [put("provenance.threads", 10**18), cell("training.epochs", 10**9)])
def test_numbers_without_end_are_not_computed_again(command: Any, mine: Path, forge: Forgery) -> None:
    forge(mine)
    # Each record that is left is computed again, in a process of its own.
    for path in mine.glob("records/*/*/*/*.json"):
        cell = json.loads(path.read_text())["cell"]
        if cell["method"]["name"] == "retrain" or cell["repetition"] > 0:
            path.unlink()
    told = command("leaderboard", "verify", "mine", "--recompute", "9")
    assert told.code == 1
    assert re.search(
        r"not computed: .* sisa.*(threads is 10{18}|epochs is 10{9}), (not 1 to 1024|more than 10{6})", told.out
    )
    assert "1 the same, 0 different, 1 not computed" in told.out


def test_a_cell_may_take_so_many_times_its_recorded_seconds(
    command: Any, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def too_slow(plan: Any, report: Any) -> Any:
        limits.append(plan.config.cell_timeout)
        yield record_lost(plan, plan.cells[0], "timeout", "TimeoutError", "Its process was ended.")

    monkeypatch.setattr(recomputing, "run_in_processes", too_slow)
    record = read_record(path_of(mine))
    seconds = sum(one["seconds"] or 0.0 for one in record.phases if one["name"] in OUTERMOST)
    assert recomputing.time_limit(record) == pytest.approx(20 * seconds + 120)
    told = command("leaderboard", "verify", "mine", "--recompute", "1")
    assert told.code == 1
    assert "it fails here: timeout: TimeoutError: Its process was ended." in told.out
    assert 120 < limits[0] < 86_400
    assert command("leaderboard", "verify", "mine", "--recompute", "1", "--cell-timeout", "7").code == 1
    assert limits[1] == 7
