"""`unlearnbench plugin check`: what it prints, for people and for machines, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import command, install
from plugin_samples import Write
from repository import SAMPLES

__all__ = ["command", "install"]

WRONG = (SAMPLES / "wrong_plugins.py").read_text(encoding="utf-8")
TEN = [
    ("loses-nodes", "On isolated nodes: It loses nodes: 15 of 24 are in no shard from 0 to 3"),
    ("overlaps", "Shards overlap: 4 of 24 nodes are in more than one shard."),
    ("changes-inputs", "partition() changed task.graph.x."),
    ("reads-the-global-generator", "It uses the global generator of torch."),
    ("remembers", "Two calls with the same task give different answers."),
    ("ignores-the-request", "It ignores the request: it claims approximate, and unlearn() changed no parameter"),
    ("gives-nan", "gave values that are not finite (NaN or infinite) in"),
    ("counts-the-classes-it-sees", "gave float32 [6, 1], expected float [6, 3]."),
    ("learns-from-test-labels", "It learns from test labels: with the labels of test nodes permuted"),
    ("divides-by-size", "It crashes: ZeroDivisionError: division by zero (line"),
]


@pytest.mark.parametrize(("name", "said"), TEN)
def test_ten_wrong_plugins_are_told_their_fault(command: Any, install: Write, name: str, said: str) -> None:
    install("ub-wrong", WRONG)
    told = command("plugin", "check", name)
    assert told.code == 1
    assert said in told.out
    assert "Remedy: " in told.out
    assert " failed" in told.out.splitlines()[-1]
    assert "Traceback" not in told.out + told.err


def test_debug_shows_where_it_crashed(command: Any, install: Write) -> None:
    install("ub-wrong", WRONG)
    told = command("plugin", "check", "divides-by-size", "--debug")
    assert told.code == 1
    assert "Traceback (most recent call last)" in told.err
    assert "ZeroDivisionError: division by zero" in told.err


def test_a_component_that_conforms_ends_with_0(command: Any) -> None:
    told = command("plugin", "check", "mean")
    assert told.code == 0
    assert told.out.startswith("mean, aggregator, version 1, from unlearnbench\nok ")
    assert told.out.endswith("10 rules: 10 ok, 0 failed, 0 skipped\n")


def test_machines_get_every_rule(command: Any, install: Write) -> None:
    install("ub-wrong", WRONG)
    told = command("plugin", "check", "lop-sided", "--json")
    assert told.code == 1
    found = json.loads(told.out)
    assert (found["name"], found["kind"], found["distribution"]) == ("lop-sided", "partitioner", "ub-wrong")
    assert found["conforms"] is False
    rules = {rule["rule"]: rule for rule in found["rules"]}
    assert rules["places-every-node"]["status"] == "ok"
    assert rules["node-by-node"]["status"] == "skipped"
    (first, *_) = rules["balance"]["faults"]
    assert sorted(first) == ["remedy", "traceback", "what", "where"]
    told = command("plugin", "check", "hash", "--json")
    assert (told.code, json.loads(told.out)["conforms"]) == (0, True)


def test_parameters_may_be_given_in_brackets(command: Any) -> None:
    told = command("plugin", "check", "bekm[slack=0,rounds=2]")
    assert told.code == 0
    assert told.out.startswith("bekm[rounds=2,slack=0], partitioner")
    told = command("plugin", "check", "bekm[capacity=paper,rounds=2]")
    assert told.code == 1
    assert "nodes; the protocol wants 5 to 7 (slack 0.1)." in told.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("hsh",), "Did you mean hash"),
        (("bekm[slac=0]",), "Did you mean slack"),
        (("bekm[",), "Cannot read"),
        (("hash", "--kind", "metric"), "Unknown metric 'hash'"),
        (("cgu", "--model", "sgcc"), "Did you mean sgc"),
        (("absent",), "absent (ub-absent): ModuleNotFoundError"),
        (("needy",), "pip install not-there-at-all"),
    ],
)
def test_what_cannot_be_checked_ends_with_2(
    command: Any, install: Write, arguments: tuple[str, ...], said: str
) -> None:
    install("ub-absent", "import not_there_at_all\n")
    install(
        "ub-needy",
        "from unlearnbench import Metric, hookimpl\n"
        "class Needy(Metric):\n    name = 'needy'\n    requires = {'not_there_at_all': 'not-there-at-all'}\n"
        "    def score(self, labels, log_probabilities):\n        return 0.0\n"
        "@hookimpl\ndef register_metrics(register):\n    register(Needy)\n",
    )
    told = command("plugin", "check", *arguments)
    assert told.code == 2
    assert said in told.err


@pytest.mark.slow
def test_a_method_is_tried_with_the_model_named(command: Any) -> None:
    told = command("plugin", "check", "cgu", "--model", "sgc")
    assert told.code == 0
    told = command("plugin", "check", "cgu")
    assert told.code == 1
    assert "has no use for the model 'gcn'" in told.out


def test_a_name_of_two_kinds_must_say_which(command: Any, install: Write) -> None:
    install(
        "ub-twice",
        "from unlearnbench import Metric, hookimpl\n"
        "class Hash(Metric):\n    name = 'mean'\n    summary = reference = 'twice'\n"
        "    def score(self, labels, log_probabilities):\n        return float(log_probabilities.mean())\n"
        "@hookimpl\ndef register_metrics(register):\n    register(Hash)\n",
    )
    told = command("plugin", "check", "mean")
    assert told.code == 2
    assert "mean is a aggregator and a metric" in told.err
    assert command("plugin", "check", "mean", "--kind", "metric").code == 0
