"""Trials: what is tried, that interrupting changes nothing, and that no test node has a say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from tuning_samples import EFFORT, GRAPH, RECIPE, bench, graph_of, spec, tuning, unlearner

from unlearnbench.errors import UsageError
from unlearnbench.protocol import protocol
from unlearnbench.running.cell import identity_of
from unlearnbench.tuning.space import points, space_of
from unlearnbench.tuning.studies import JOURNAL, Studies
from unlearnbench.tuning.values import trials_csv
from unlearnbench.unlearning import PostHoc


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return trials_csv(tuning(tmp_path_factory.mktemp("whole")).run())


def test_the_defaults_and_the_released_values_are_tried_first():
    assert points(unlearner("megu"), 0, 3)[:2] == [{}, {"epochs": 30, "lr": 0.05}]
    assert points(unlearner("scrub"), 0, 1) == [{}]


def test_more_trials_begin_with_the_same_ones_and_fill_the_ranges():
    method = unlearner("scrub")
    several = points(method, 0, 20)
    assert several[:5] == points(method, 0, 5)
    assert several != points(method, 1, 20)
    for name, values in space_of(method).items():
        tried = [point[name] for point in several[1:]]
        assert all(values.low <= value <= values.high for value in tried)
        assert len(set(tried)) > 5
        assert all(isinstance(value, int) for value in tried) == values.whole


def test_a_recipe_is_tuned_for_methods_that_train_alone():
    recipe = {"training.epochs", "training.lr", "training.weight_decay"}
    assert space_of(unlearner("sisa")).keys() == recipe
    assert space_of(unlearner("smoothed[method=sisa]")).keys() == recipe | {"share"}
    assert not recipe & (space_of(unlearner("scrub")).keys() | space_of(unlearner("tally")).keys())


def test_a_method_without_ranges_is_refused_before_any_trial(tmp_path):
    with pytest.raises(UsageError, match="noop has nothing to tune"):
        tuning(tmp_path, methods=("gradient-ascent", "noop")).run()
    assert (tmp_path / JOURNAL).read_bytes() == b""


def test_a_tuning_that_was_interrupted_gives_the_trials_of_one_that_was_not(tmp_path, whole):
    def stop(study, trial, was_there):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuning(tmp_path, on_trial=stop).run()
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"op_code":4,"worker')  # killed while it wrote
    seen = []
    again = tuning(tmp_path, on_trial=lambda study, trial, was_there: seen.append(was_there)).run()
    assert seen == [True, False, False]
    assert trials_csv(again) == whole


def test_a_damaged_journal_is_named(tmp_path):
    (tmp_path / JOURNAL).write_bytes(b"no json\n{}\n")
    with pytest.raises(UsageError, match="is damaged: line 1"):
        Studies(tmp_path)


def test_a_method_that_fails_at_a_point_loses_that_trial_alone(tmp_path, monkeypatch):
    def update(self, network, task, request, retained):
        if self.params.steps != 2:
            raise RuntimeError("no such step")
        return network

    monkeypatch.setattr(unlearner("gradient-ascent").cls, "update", update)
    (study,) = tuning(tmp_path).run()
    assert study.trials[0].outcome.loss == pytest.approx(1)  # nothing was changed: as far as an untouched network
    assert study.trials[1].failure == "RuntimeError: no such step"
    assert trials_csv([study]).splitlines()[2].endswith("RuntimeError: no such step")
    (again,) = tuning(tmp_path).run()
    assert again.trials == study.trials


def test_another_effort_is_another_study(tmp_path):
    tuning(tmp_path, trials=1).run()
    other = replace(tuning(tmp_path, trials=1), effort=replace(EFFORT, seed=1))
    seen = []
    replace(other, on_trial=lambda study, trial, was_there: seen.append(was_there)).run()
    assert seen == [False]
    entries = map(json.loads, (tmp_path / JOURNAL).read_text().splitlines())
    names = {entry["study_name"] for entry in entries if entry["op_code"] == 0}
    assert len(names) == 2


@pytest.mark.parametrize("name", ["gradient-ascent", "retrain"])
def test_no_test_node_has_a_say(name):
    graph = graph_of()
    test = protocol.split(graph, EFFORT.base_seed, identity_of(spec("dataset", GRAPH)), 0).test
    at = graph.positions(test)
    x, y = graph.x.clone(), graph.y.clone()
    x[at], y[at] = 1e3, (y[at] + 1) % 3
    others = replace(graph, x=x, y=y)
    outcomes = [
        one.distance(unlearner(name), RECIPE) if name != "retrain" else one.validation(unlearner(name), RECIPE)
        for one in (bench(graph), bench(others))
    ]
    assert outcomes[0] == outcomes[1]


def test_splits_and_requests_are_of_seeds_that_no_run_has():
    assert EFFORT.base_seed != EFFORT.seed
    name = identity_of(spec("dataset", GRAPH))
    ours, reported = (protocol.split(graph_of(), base, name, 0).test for base in (EFFORT.base_seed, EFFORT.seed))
    assert not torch.equal(ours, reported)


def test_a_request_is_served_on_the_network_that_fit_trains(monkeypatch):
    quick = bench().distance(unlearner("scrub"), RECIPE)
    monkeypatch.setattr(PostHoc, "can_resume", lambda self: False)
    assert bench().distance(unlearner("scrub"), RECIPE) == quick


def test_the_unit_is_a_network_that_forgot_nothing():
    here = bench()
    assert here.distance(unlearner("finetune[epochs=0]"), RECIPE).loss == 1
    assert here.distance(unlearner("gradient-ascent[lr=0.01,steps=30]"), RECIPE).loss > 1
