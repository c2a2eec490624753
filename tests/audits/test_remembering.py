"""`exactness` names what remembers outside the object, puts off, or answers from memory; honest caches stay exact."""

from __future__ import annotations

import os
import re
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import remembering_methods as remembering
import torch
import wrong_methods as wrong
from audit_samples import runs_here
from plugin_samples import FakePoint, plugin_of

from unlearnbench.audits.exactness.exactness import Exactness
from unlearnbench.audits.exactness.own_process import NotImportableError, in_own_process
from unlearnbench.audits.exactness.sequences import parts_of
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.errors import RefusedError
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.audits import toy_subject
from unlearnbench.testing.graphs import toy_graph

pytestmark = pytest.mark.slow

SETTING = Exactness.Params(runs=5, permutations=99)


@pytest.fixture(scope="module")
def catalogue():
    methods = [*wrong.RIGHT, *wrong.WRONG, *remembering.HONEST, *remembering.DISHONEST]
    plugin = FakePoint("remembering", plugin_of(unlearners=methods))
    return load_catalogue(entry_points=[*entry_points(group="unlearnbench"), plugin])


@pytest.fixture
def here():
    with runs_here():
        yield


@pytest.fixture(scope="module")
def digits(catalogue):
    return resolve(catalogue, "dataset", "digits").build().load(Path())


def audited(text, catalogue, kind="node", forget=0.3):
    return Exactness(SETTING).examine(toy_subject(text, catalogue=catalogue, epochs=3, forget=forget, kind=kind))


def failed(finding):
    return {check["name"]: check["differs"] for check in finding.details["checks"] if check["passed"] is False}


HONEST = ["caches-by-content", pytest.param("caches-in-files[place=home]", marks=pytest.mark.slow)]


@pytest.mark.parametrize("text", HONEST)
def test_honest_caches_stay_exact(text, catalogue):
    finding = audited(text, catalogue)
    assert (finding.verdict, failed(finding), finding.notes) == ("exact", {}, ())


OUTSIDE = {
    "remembers-in-a-module": r"refuted \((none|distance unknown)\)",
    "remembers-in-a-module[aggregator=mean]": r"refuted \(none\)",
    "remembers-in-files": r"refuted \((none|distance unknown)\)",
    "remembers-in-files[place=home]": r"refuted \((none|distance unknown)\)",
    "remembers-in-files[place=working]": r"refuted \((none|distance unknown)\)",
    "remembers-for-later": r"refuted \(approximate\)",
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, marks=[pytest.mark.slow] * (text != "remembers-in-a-module[aggregator=mean]"))
        for text in OUTSIDE
    ],
)
def test_memory_outside_the_object_is_named(text, catalogue):
    finding = audited(text, catalogue)
    assert re.fullmatch(OUTSIDE[text], finding.verdict)
    assert finding.details["claim_holds"] is False
    assert finding.notes[0].startswith(f"It claims exact: {finding.verdict}. ")
    differs = failed(finding)
    assert differs["memory"].startswith("a later run in the same process remembers: state differs in ")
    assert ("counterfactual" in differs) == (text != "remembers-for-later")
    assert ("change" in differs) == ("mean" in text)


NAMED = {
    ("moves-a-node", "node"): {"small requests": r"^after 1 of 18: .*; after 9 of 18: state differs in .*members/001$"},
    ("seeds-by-how-many", "node"): {"small requests": r"after 9 of 18: .*members/000, members/002, members/004$"},
    ("postpones", "node"): {"small requests": r"^after 1 of 18: state differs in members/000$"},
    ("ignores-the-third", "node"): {"order": r"^one part after the other: .* before the last of 4 requests, state"},
    ("postpones-the-third", "node"): {"order": r"^put off or ignored: before the last of 4 requests, state differs"},
    ("remembers-numbers", "node"): {
        "counterfactual": r"^answers differ \(neighbours of forgotten: .* state is equal, and are stale, those"
    },
    ("answers-as-before", "node"): {
        "counterfactual": r"are stale, those from before the request \(test; test, full view"
    },
    ("one-shard-of-edges[num_shards=3]", "edge"): {
        "counterfactual": r"members/001 \(has the bits from before the request\), members/002 \(has the bits"
    },
    ("one-shard-of-features[num_shards=3]", "feature"): {
        "counterfactual": r"members/001 \(has the bits from before the request\), members/002 \(has the bits"
    },
    ("caches-a-row", "feature"): {"taint": r"holds copies: \._cache\['rows'\] \(features of \d+, "},
    ("warm-starts", "feature"): {"content": "^still depends on the features of forgotten nodes$", "order": "members/0"},
    ("noop-that-claims", "feature"): {"counterfactual": r"members/000 \(has the bits from before the request\)"},
}
ONLY_THERE = {"moves-a-node", "seeds-by-how-many", "postpones", "ignores-the-third", "postpones-the-third"}


@pytest.mark.parametrize(("text", "kind"), NAMED)
def test_what_a_single_request_does_not_show_is_named(text, kind, catalogue, here):
    finding = audited(text, catalogue, kind, 0.3 if kind == "node" else 0.2)
    assert finding.verdict.startswith("refuted (")
    differs = failed(finding)
    for check, pattern in NAMED[text, kind].items():
        assert re.search(pattern, differs[check]), differs[check]
    assert text not in ONLY_THERE or differs.keys() <= {"order", "small requests"}


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("retrain", "exact"),
        ("sisa[num_shards=3,partitioner=hash]", "exact"),
        ("shards[num_shards=3]", "exact"),
        ("linear", "exact"),
        ("grapheraser[num_shards=3,aggregator.epochs=1]", "exact-given-partition (content)"),
        ("noop", "none"),
    ],
)
def test_right_methods_forget_edges_as_they_claim(text, verdict, catalogue, here):
    finding = audited(text, catalogue, "edge", 0.2)
    assert (finding.verdict, finding.details["claim_holds"]) == (verdict, True)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("retrain", "exact"),
        ("sisa[num_shards=3,slices=2]", "exact"),
        ("tally", "exact"),
        ("tally[hops=1,normalisation=sym]", "exact"),
        ("linear", "exact"),
        ("grapheraser[num_shards=3,aggregator.epochs=1]", "exact-given-partition (content)"),
        ("noop-full", "none"),
    ],
)
def test_right_methods_forget_features_as_they_claim(text, verdict, catalogue, digits, here):
    # Those that the documentation names, on a real graph.
    graph = digits.induced(digits.ids[::6]) if text in ("retrain", "sisa[num_shards=3,slices=2]", "tally") else None
    subject = toy_subject(text, graph, 0.2, catalogue=catalogue, epochs=2, kind="feature")
    finding = Exactness(SETTING).examine(subject)
    assert (finding.verdict, finding.details["claim_holds"]) == (verdict, True)
    assert verdict == "none" or failed(finding).keys() <= {"own partition", "content"}


@pytest.mark.parametrize("text", ["retrain", "sisa[num_shards=3]", "tally"])
def test_features_of_some_columns_are_audited_and_forgotten_zeros_change_nothing(text, catalogue, here):
    graph = toy_graph()
    graph.x[:, 2] = 0
    subject = toy_subject(text, graph, catalogue=catalogue, epochs=2, kind="feature")
    train = subject.train_graph.ids[:6].tolist()
    for ids in ([[node, column] for node in train for column in (0, 5)], [[node, 2] for node in train]):
        subject.__dict__["request"] = Request(torch.tensor(ids), "feature")
        finding = Exactness(SETTING).examine(subject)
        assert (finding.verdict, finding.details["claim_holds"]) == ("exact", True)
        assert failed(finding).keys() == ({"change"} if ids[0][1] == 2 else set())


def test_a_control_that_keeps_the_graph_is_seen_to_read_forgotten_edges(catalogue, here):
    differs = failed(audited("noop-full", catalogue, "edge", 0.2))
    assert re.match(r"graphs read in predict\(\): \d+ forgotten edges are in it: 0-3, 3-0,", differs["graphs"])


def test_without_an_edge_between_shards_a_method_may_be_what_it_was(catalogue, here):
    subject = toy_subject("sisa[num_shards=2,partitioner=hash]", catalogue=catalogue, epochs=2, kind="edge")
    trials = Trials(subject)
    shard_of = dict(trials.unlearned().kept_before["partition"].tolist())
    between = next(pair for pair in subject.train_graph.pairs().tolist() if len({shard_of[end] for end in pair}) == 2)
    subject.__dict__["request"] = Request(torch.tensor([between]), "edge")
    finding = Exactness(SETTING).examine(subject)
    assert (finding.verdict, failed(finding).keys() - {"change"}) == ("exact", set())


def test_a_method_that_another_process_cannot_import_is_audited_here_and_the_record_says_so(catalogue):
    class Local(wrong.Linear):
        name = "local"

    plugin = FakePoint("local", plugin_of(unlearners=[Local]))
    known = load_catalogue(entry_points=[*entry_points(group="unlearnbench"), plugin])
    finding = Exactness(SETTING).examine(toy_subject(resolve(known, "unlearner", "local"), epochs=2))
    (memory,) = [check for check in finding.details["checks"] if check["name"] == "memory"]
    assert (finding.verdict, memory["passed"]) == ("exact", None)
    assert "no process of its own: " in memory["differs"]
    assert finding.notes[0].startswith("Memory outside the method was not looked for: ")


def test_a_request_is_split_so_that_two_parts_leave_half_of_the_shards():
    partition = torch.tensor([[node, node % 4] for node in range(20)])
    parts, leaves = parts_of(Request(torch.arange(12)), partition)
    assert [part.ids.tolist() for part in parts] == [[0], [1, 4, 5, 8, 9], [2, 6, 10], [3, 7, 11]]
    assert leaves
    parts, leaves = parts_of(Request(torch.arange(12)), None)
    assert [part.ids.tolist() for part in parts] == [[0], [1, 4, 7, 10], [2, 5, 8, 11], [3, 6, 9]]
    assert not leaves
    assert [part.ids.tolist() for part in parts_of(Request(torch.tensor([7])), partition)[0]] == [[7]]
    parts, leaves = parts_of(Request(torch.tensor([[0, 4], [0, 1], [1, 5], [4, 8], [2, 6]]), "edge"), partition)
    assert [part.ids.tolist() for part in parts] == [[[0, 4]], [[1, 5], [4, 8]], [[0, 1]], [[2, 6]]]
    assert leaves
    parts, leaves = parts_of(Request(torch.tensor([[0, 3], [1, 0], [2, 1], [2, 5], [4, 3]]), "feature"), partition)
    assert [part.ids.tolist() for part in parts] == [[[0, 3]], [[1, 0], [4, 3]], [[2, 1]], [[2, 5]]]
    assert leaves


def test_a_process_of_its_own_has_its_own_folders_and_settings():
    torch.set_num_threads(torch.get_num_threads())
    first = [in_own_process(1, function) for function in (os.getcwd, tempfile.gettempdir, _home, torch.get_num_threads)]
    again = [in_own_process(1, function) for function in (os.getcwd, tempfile.gettempdir, _home)]
    assert first[3] == torch.get_num_threads()
    assert len({*first[:3], *again, os.getcwd(), tempfile.gettempdir(), _home()}) == 9
    assert not any(Path(place).exists() for place in (*first[:3], *again))
    remembering.MEMBERS["here"] = 1
    assert in_own_process(1, _remembered) == 0
    assert in_own_process(3, _drawn).equal(in_own_process(3, _drawn))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        ("_refuse", RefusedError, "no\nnever"),
        ("_fail", ValueError, "wrong"),
        ("_fail_in_its_own_way", RuntimeError, "UnheardError: of"),
        ("_end", RuntimeError, "The process of a run ended before it had a result (exit code 1)."),
    ],
)
def test_what_fails_in_a_process_of_its_own_fails_here(function, error, message):
    with pytest.raises(error) as raised:
        in_own_process(1, globals()[function])
    assert str(raised.value) == message
    assert in_own_process(1, os.getpid) != os.getpid()


def test_what_cannot_be_imported_there_is_an_error_of_its_own():
    with pytest.raises(NotImportableError):
        in_own_process(1, lambda: 1)


def _home():
    return str(Path.home())


def _remembered():
    return len(remembering.MEMBERS)


def _drawn():
    return torch.rand(3)


def _refuse():
    raise RefusedError("no", "never")


def _fail():
    raise ValueError("wrong")


class UnheardError(Exception):
    pass


def _fail_in_its_own_way():
    raise UnheardError("of")


def _end():
    raise SystemExit(3)
