"""Which trial wins, worked by hand, and that no graph chooses its own values."""

from __future__ import annotations

import hashlib
import tomllib

import pytest
from tuning_samples import CATALOGUE, spec, unlearner

from unlearnbench.errors import UsageError
from unlearnbench.running.tuned import TunedValues, read_tuned
from unlearnbench.task import Training
from unlearnbench.tuning.choice import Study, choices, choose
from unlearnbench.tuning.objective import Outcome
from unlearnbench.tuning.studies import Trial
from unlearnbench.tuning.values import trials_csv, values_toml


def study(method, graph, losses, f1=None, points=None, own_split=False):
    retrain_f1 = 0.9 if f1 else None
    points = points or [{}, *({"lr": 0.01 * number} for number in range(1, len(losses)))]
    trials = {
        number: Trial(number, points[number], None, "diverged")
        if loss is None
        else Trial(number, points[number], Outcome(loss, f1[number] if f1 else 1 - loss, retrain_f1))
        for number, loss in enumerate(losses)
    }
    return Study(unlearner(method), spec("model", "gcn"), graph, own_split, trials)


def test_the_least_mean_loss_over_graphs_wins():
    one = choose(
        [study("scrub", "a", [0.5, 0.2, 0.6], [0.9] * 3), study("scrub", "b", [0.5, 0.5, 0.2], [0.9] * 3)], 0.01
    )
    assert (one.trial, one.loss, one.default_loss) == (1, pytest.approx(0.35), 0.5)


def test_a_trial_below_retrain_by_more_than_the_margin_on_one_graph_loses():
    a, b = study("scrub", "a", [0.5, 0.1], [0.9, 0.9]), study("scrub", "b", [0.5, 0.1], [0.9, 0.88])
    assert choose([a, b], 0.01).trial == 0
    assert choose([a, b], 0.03).trial == 1
    short = choose([study("scrub", "a", [0.5, 0.1], [0.7, 0.8])], 0.01)
    assert (short.trial, short.within_margin) == (1, False)


def test_a_trial_that_failed_on_one_graph_does_not_count_and_none_is_no_choice():
    one = choose([study("scrub", "a", [0.5, 0.1], [0.9] * 2), study("scrub", "b", [0.5, None], [0.9] * 2)], 0.01)
    assert (one.trial, one.trials, one.failed) == (0, 2, 1)
    assert choose([study("scrub", "a", [None, None])], 0.01) is None


RECIPES = [{}, {"training.lr": 0.003}]


def made():
    return [
        study("scrub", "a", [0.5, 0.1], [0.9] * 2),
        study("scrub", "b", [0.1, 0.4], [0.9] * 2),
        study("retrain", "a", [0.2, 0.1], points=RECIPES),
        study("retrain", "b", [0.1, 0.15], points=RECIPES),
    ]


def test_no_graph_chooses_the_values_that_are_used_on_it():
    chosen = {(one.study.method.name, one.graph): one for one in choices(made(), 0.01)}
    assert {graph: chosen["scrub", graph].trial for graph in ("", "a", "b")} == {"": 1, "a": 0, "b": 1}
    assert all(graph not in chosen["scrub", graph].chosen_on for graph in ("a", "b"))
    # Its network is trained by the recipe that Retrain has there.
    assert {graph: chosen["scrub", graph].point.get("training.lr") for graph in ("", "a", "b")} == {
        "": 0.003,
        "a": None,
        "b": 0.003,
    }


def test_a_graph_with_a_split_of_its_own_may_choose():
    only = [study("scrub", "a", [0.5, 0.1], [0.9] * 2, own_split=True)]
    assert [(one.graph, one.chosen_on) for one in choices(only, 0.01)] == [("", ("a",)), ("a", ("a",))]
    assert [one.graph for one in choices([study("scrub", "a", [0.5])], 0.01)] == [""]


@pytest.fixture
def file(tmp_path):
    text = trials_csv(made())
    path = tmp_path / "tuned.toml"
    path.write_text(values_toml(choices(made(), 0.01), {"command": 'unlearnbench tune -m "x"', "trials": 2}, text))
    assert tomllib.loads(path.read_text())["origin"]["trials_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    return path


def test_values_are_found_by_method_model_and_graph(file):
    values, base = read_tuned(file), Training()

    def of(method, graph, model="gcn"):
        return values.of(CATALOGUE, unlearner(method), spec("model", model), graph, base)

    method, training = of("scrub", "cora")
    assert (method.label, training.lr, training.epochs) == ("scrub[lr=0.01]", 0.003, 100)
    method, training = of("scrub", "a")
    assert (method.label, training) == ("scrub", base)
    assert of("retrain", "cora")[1].lr == 0.003
    for wrong in (("finetune", "cora"), ("scrub", "cora", "sage"), ("scrub[lr=0.1]", "cora")):
        with pytest.raises(UsageError, match="has no tuned values for"):
            of(*wrong)


def test_values_of_one_graph_are_not_used_on_it_nor_those_of_another_version(file):
    one = [study("scrub", "a", [0.5, 0.1], [0.9] * 2)]
    file.write_text(values_toml(choices(one, 0.01), {}, ""))
    values, model = read_tuned(file), spec("model", "gcn")
    with pytest.raises(UsageError, match="chosen on this graph"):
        values.of(CATALOGUE, unlearner("scrub"), model, "a", Training())
    older = TunedValues("It", tuple(row.model_copy(update={"version": 9}) for row in values.rows))
    with pytest.raises(UsageError, match="of its version 9, this is version 1"):
        older.of(CATALOGUE, unlearner("scrub"), model, "b", Training())


def test_the_values_of_the_package_can_be_read():
    assert read_tuned(None).rows is not None


@pytest.mark.parametrize("text", ["x", "format = 1", "format = 1\ntuned = [{method = 3}]\n[origin]\n"])
def test_another_file_is_refused_by_name(tmp_path, text):
    path = tmp_path / "other.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"other\.toml"):
        read_tuned(path)
