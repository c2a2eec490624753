"""What every audit gets and what becomes of its finding: cells, records, tables, resuming."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command, files_of, install
from plugin_samples import Write
from record_samples import make_record

from unlearnbench.audits.base import Audit
from unlearnbench.audits.running import chosen_audits
from unlearnbench.records.record import Record, read_record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import load_records
from unlearnbench.report.tables.audits import audit_frame_of, audit_tables, load_audits
from unlearnbench.running.cell import Cell

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

SAMPLE = """
import torch

from unlearnbench import Audit, Finding, Score, hookimpl


class Sample(Audit):
    name = "sample"
    summary = "Asks how many nodes are forgotten."
    question = "How many?"
    order = 1

    def unfit(self, method):
        return "it has no shards" if method.name == "retrain" else ""

    def effort(self, method):
        return {method.label: 1, "retrain": 2}

    def examine(self, subject):
        task = subject.task()
        method = subject.fit(method_of(subject), task)
        retained = subject.forget(method, task)
        query = subject.query(subject.request.ids, retained.graph.ids)
        assert not bool(torch.isin(retained.graph.ids, subject.request.ids).any())
        answer = method.predict(query)
        count = len(subject.request.ids)
        score = Score("count", "forgotten", float(count), floor=0.0, controls={"noop": 1.0}, p=0.5, state="valid")
        return Finding(
            "counted", (score,), {"rows": len(answer)}, ("a note",), {"answers": answer.detach().cpu().numpy()}
        )


class Broken(Sample):
    name = "broken"

    def examine(self, subject):
        raise RuntimeError("no")


def method_of(subject):
    return subject.cell.method


@hookimpl
def register_audits(register):
    register(Sample)
    register(Broken)
"""
ARGUMENTS = ("-m", "sisa", "-d", "toy", "--num-shards", "3", "--epochs", "2", "--out", "out")


@pytest.fixture
def sample(install: Write) -> None:
    install("ub-sample", SAMPLE)


@pytest.mark.usefixtures("sample")
def test_an_audit_is_a_cell_with_a_record_of_its_own(command: Any, tmp_path: Path) -> None:
    told = command("audit", "sample", *ARGUMENTS, "--forget-ratio", "0.1")
    assert told.code == 0, told.err
    (path,) = tmp_path.glob("out/records/*/toy/sisa/*.json")
    record = read_record(path)
    assert record.is_audit
    assert record.status == "ok"
    assert record.cell["audit"] == {"name": "sample", "version": 1, "params": {}, "distribution": "ub-sample"}
    assert record.audit is not None
    assert record.audit["verdict"] == "counted"
    assert record.audit["scores"][0]["value"] == 10.0
    assert record.audit["details"] == {"rows": 10}
    assert record.audit["notes"] == ["a note"]
    assert record.claim == {"claim": "exact-given-partition", "reason": "ids"}
    assert path.with_suffix(".npz").is_file()
    assert "counted" in told.out
    assert "sample is not for retrain: it has no shards" in told.err
    assert "about" in told.err
    assert "to go" in told.err


@pytest.mark.usefixtures("sample")
def test_the_default_request_of_an_audit_is_five_per_cent(command: Any, tmp_path: Path) -> None:
    command("audit", "sample", *ARGUMENTS)
    (path,) = tmp_path.glob("out/records/*/toy/sisa/*.json")
    assert read_record(path).cell["protocol"]["forget"] == {"kind": "node", "ratio": 0.05}


@pytest.mark.usefixtures("sample")
def test_an_audit_that_is_there_is_not_made_again(command: Any, tmp_path: Path) -> None:
    command("audit", "sample", *ARGUMENTS)
    before = files_of(tmp_path / "out")
    told = command("audit", "sample", *ARGUMENTS)
    assert files_of(tmp_path / "out") == before
    assert "1 of them there already" in told.err
    assert "timing" not in told.err


@pytest.mark.usefixtures("sample")
def test_runs_and_audits_share_a_store_and_no_table(command: Any, tmp_path: Path) -> None:
    command("run", *ARGUMENTS, "--repetitions", "1", "--forget-ratio", "0.05")
    before = load_records("out")
    leaderboard = command("leaderboard", "build", "out")
    assert leaderboard.code == 0
    command("audit", "sample", *ARGUMENTS)
    assert len(files_of(tmp_path / "out")) == 6
    assert load_records("out").equals(before)
    audits = load_audits("out")
    assert list(audits["method"]) == ["sisa[num_shards=3]"]
    assert list(audits["verdict"]) == ["counted"]
    assert list(audits["value"]) == [5.0]
    assert list(audits["noop"]) == [1.0]
    told = command("report", "out", "--table", "audits")
    assert told.code == 0
    assert "counted" in told.out
    assert "exact-given-partition (ids)" in told.out
    csv = command("report", "out", "--table", "audits", "--format", "csv").out
    assert csv.splitlines()[0].startswith("protocol,forget,dataset,model,device,audit,method")


@pytest.mark.usefixtures("sample")
def test_an_audit_that_fails_is_a_failure_and_the_others_go_on(command: Any, tmp_path: Path) -> None:
    told = command("audit", "broken,sample", *ARGUMENTS)
    assert told.code == 1
    failures = list(tmp_path.glob("out/records/*/toy/sisa/*.error.json"))
    assert len(failures) == 1
    assert "RuntimeError" in failures[0].read_text()
    assert "counted" in told.out


@pytest.mark.usefixtures("sample")
def test_all_names_every_audit_in_their_order() -> None:
    chosen = chosen_audits(["all"], load_catalogue())
    orders = [spec.cls.order for spec in chosen]
    assert orders == sorted(orders)
    assert {"sample", "broken"} <= {spec.name for spec in chosen}


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("audit", "smaple", *ARGUMENTS), 2, "sample"),
        (("audit", "sample"), 2, "No method is named"),
        (("audit", "sample", "-m", "retrain", "-d", "toy"), 3, "it has no shards"),
    ],
)
def test_what_cannot_be_asked_is_told_before_any_training(
    command: Any, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    told = command(*arguments)
    assert told.code == code
    assert message in told.err
    assert not list(tmp_path.glob("*/records"))


@pytest.mark.usefixtures("sample")
def test_only_audits_in_a_folder_is_said_when_a_run_is_asked_for(command: Any) -> None:
    command("audit", "sample", *ARGUMENTS)
    told = command("report", "out")
    assert told.code == 3
    assert "only of audits" in told.err


@pytest.mark.usefixtures("sample")
def test_a_dry_run_lists_the_cells(command: Any, tmp_path: Path) -> None:
    told = command("audit", "sample", *ARGUMENTS, "--dry-run")
    assert told.code == 0
    assert "sample: toy gcn sisa[num_shards=3] repetition 0" in told.out
    assert not (tmp_path / "out").exists()


def test_the_record_of_a_run_has_no_word_of_audits(command: Any, tmp_path: Path) -> None:
    command("run", *ARGUMENTS, "--repetitions", "1")
    for path in tmp_path.glob("out/records/*/*/*/*.json"):
        plain = json.loads(path.read_text())
        assert "audit" not in plain
        assert "audit" not in plain["cell"]


def test_forgotten_nodes_are_asked_about_without_the_edges_among_them() -> None:
    from unlearnbench.testing.audits import toy_subject

    subject = toy_subject("sisa[num_shards=3]", forget=0.3)
    gone, retained = subject.request.ids, subject.task().without(subject.request).graph.ids
    query = subject.query(gone, retained)
    source, target = query.graph.ids[query.graph.edge_index]
    assert not bool((torch.isin(source, gone) & torch.isin(target, gone)).any())
    linked = subject.query(gone, retained, unlink=False)
    assert linked.graph.num_edges > query.graph.num_edges
    between = subject.graph.induced(torch.cat([retained, gone]))
    a, b = between.ids[between.edge_index]
    both = torch.isin(a, gone) & torch.isin(b, gone)
    assert query.graph.num_edges == between.num_edges - int(both.sum())


def test_run_zero_has_the_seed_of_the_cell_and_sides_are_independent() -> None:
    from unlearnbench.testing.audits import toy_subject

    subject = toy_subject("retrain")
    seeds = {subject.task(run, side).seed for run in range(3) for side in ("", "other")}
    assert len(seeds) == 6
    from unlearnbench.protocol import protocol

    cell: Cell = subject.cell
    assert subject.task().seed == protocol.task_seed(cell.seed, cell.dataset_identity, cell.repetition)


@pytest.mark.usefixtures("sample")
def test_the_estimate_counts_runs_and_partitions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from unlearnbench.audits import running
    from unlearnbench.registry.resolve import resolve
    from unlearnbench.running.config import make_config

    catalogue = load_catalogue()
    config = make_config({"methods": "sisa", "num_shards": 3, "epochs": 1, "repetitions": 1, "out": tmp_path})
    plan = running.make_audit_plan(config, ["sample"], catalogue)
    (sample,) = {cell.audit.cls for cell in plan.wanted if cell.audit is not None}
    monkeypatch.setattr(sample, "partitions", lambda self, method: 10)
    took = {"sisa[num_shards=3]": (5.0, 0.5), "retrain": (3.0, 0.0)}
    monkeypatch.setattr(running, "_timed", lambda subject: took[subject.cell.method.label])
    told: list[str] = []
    seconds = running.estimate(plan, lambda name: resolve(catalogue, "unlearner", name), told.append)
    # Its effort is one run of the method and two of Retrain.
    assert list(seconds.values()) == [1 * 5.0 + 10 * 0.5 + 2 * 3.0]
    assert told == ["digits gcn sisa[num_shards=3]", "digits gcn retrain"]
    # Another method is compared with the same two runs.
    (cell,) = plan.wanted
    plan.wanted.append(replace(cell, method=resolve(catalogue, "unlearner", "noop")))
    took["noop"] = (2.0, 0.0)
    seconds = running.estimate(plan, lambda name: resolve(catalogue, "unlearner", name), told.append)
    assert list(seconds.values()) == [16.0, 1 * 2.0]
    plan.wanted.reverse()
    running.start_longest_first(plan, seconds)
    assert plan.wanted[0] is cell


def test_an_audit_must_say_what_it_asks() -> None:
    for spec in chosen_audits(["all"], load_catalogue()):
        audit: Audit = spec.build()
        assert audit.question.endswith("?"), spec.name
        assert audit.summary, spec.name
        assert audit.reference, spec.name


@pytest.mark.usefixtures("sample")
def test_the_leaderboard_has_what_audits_found(command: Any, tmp_path: Path) -> None:
    command("audit", "sample", *ARGUMENTS)
    assert command("leaderboard", "build", "out").code == 0
    path = tmp_path / "out" / "leaderboard" / "audits.csv"
    head, row = path.read_text().splitlines()
    found = dict(zip(head.split(","), next(csv.reader([row])), strict=True))
    assert (found["verdict"], found["measure"], found["value"], found["noop"]) == ("counted", "count", "5", "1")
    assert command("leaderboard", "verify", "out").code == 0
    path.write_text(path.read_text().replace("counted", "exact"))
    assert command("leaderboard", "verify", "out").code == 1


def audited(name: str, measure: str, state: str, details: dict[str, Any], runs: int = 10) -> Record:
    """Make the record of an audit with one score."""
    record = make_record("sisa")
    audit = {"name": name, "version": 1, "params": {"runs": runs}}
    found = {"verdict": "v", "scores": [{"measure": measure, "where": "forgotten", "value": 1.0, "state": state}]}
    cell = {**record.cell, "audit": audit}
    return record.model_copy(update={"cell": cell, "audit": {**found, "details": details, "notes": []}})


@pytest.mark.parametrize(
    ("name", "measure", "state", "gate", "shown"),
    [
        ("distance", "js", "valid", {"js": {"valid": True}}, "valid"),
        ("distance", "js", "valid", {"js": {"valid": False}}, "cannot tell"),
        ("distance", "js", "valid", None, "no gate"),
        ("distance", "js", "cannot tell", {"js": {"valid": True}}, "cannot tell"),
        ("distance", "other", "valid", {"js": {"valid": False}}, "valid"),
        ("partition-leakage", "auc", "valid", None, "valid"),
    ],
)
def test_a_score_is_valid_where_its_control_is_rejected_and_the_gate_lets_the_measure_through(
    name: str, measure: str, state: str, gate: dict[str, Any] | None, shown: str
) -> None:
    records = [audited(name, measure, state, {})]
    if gate is not None:
        records.append(audited("controls", "js", "", gate))
    frame = audit_frame_of(records)
    assert list(frame[frame["audit"] == name]["state"]) == [shown]


def test_two_settings_of_one_audit_stand_apart() -> None:
    frame = audit_frame_of([audited("distance", "js", "", {}), audited("distance", "js", "", {}, runs=20)])
    assert sorted(frame["audit"]) == ["distance {params.runs=10}", "distance {params.runs=20}"]
    verdicts = audit_tables(frame)[0]
    assert list(verdicts.shown.columns) == ["method", "claim", *sorted(frame["audit"])]


CLAIMS = """
from unlearnbench import Claim, hookimpl
from unlearnbench.unlearning import PostHoc


class Claims(PostHoc):
    name = "claims"
    summary = "Claims to be exact and does nothing."
    claim = Claim.EXACT

    def update(self, network, task, request, retained):
        return network


@hookimpl
def register_unlearners(register):
    register(Claims)
"""


def test_a_claim_that_does_not_hold_ends_a_strict_audit_with_one(command: Any, install: Write) -> None:
    install("ub-claims", CLAIMS)
    arguments = ("audit", "exactness", "-m", "claims", "-d", "toy", "--epochs", "2", "--out", "out", "--no-estimate")
    told = command(*arguments)
    assert told.code == 0, told.err
    assert "refuted (none)" in told.out
    assert "--strict" not in told.err
    told = command(*arguments, "--strict", "--json")
    assert told.code == 1
    assert "--strict: claims that do not hold: claims.\n" in told.err
    assert json.loads(told.out)["exit_code"] == 1
    assert command("audit", "exactness", "-m", "retrain", *arguments[4:], "--strict").code == 0
    (record,) = [one for path in Path("out").glob("records/*/*/claims/*.json") if (one := read_record(path))]
    assert not [note for note in record.notes if "processes running" in note]


def test_audits_that_ask_about_nodes_are_left_out_for_edges(command: Any) -> None:
    arguments = ("-m", "sisa", "-d", "toy", "--forget-kind", "edge", "--dry-run", "--num-shards", "3")
    told = command("audit", "exactness,distance", *arguments)
    assert told.code == 0, told.err
    left_out = "distance is not for retrain, sisa[num_shards=3]: it asks about requests of nodes"
    assert left_out in told.err
    nothing = command("audit", "distance", *arguments)
    assert nothing.code == 3
    assert f"hint: {left_out}." in nothing.err
