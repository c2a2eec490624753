"""The protocol `tuned`: what its cells are, which audits it has, and that nothing falls back to defaults."""

from __future__ import annotations

import pytest
from tuning_samples import CATALOGUE, GRAPH

from unlearnbench.audits.running import make_audit_plan
from unlearnbench.errors import UsageError
from unlearnbench.running.cell_codec import cell_of_canonical
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import make_plan

ROW = """
[[tuned]]
method = "{method}"
version = 1
model = "gcn"
graph = ""
chosen_on = ["digits"]
objective = "distance"
trials = 2
failed = 0
trial = 1
loss = 0.3
within_margin = true
values = {{{values}}}
"""
VALUES = {
    "retrain": '"training.lr" = 0.003',
    "scrub": 'epochs = 30, "training.lr" = 0.003',
    "sisa": '"training.lr" = 0.02',
}


@pytest.fixture
def config(tmp_path):
    rows = [ROW.format(method=method, values=values) for method, values in VALUES.items()]
    path = tmp_path / "tuned.toml"
    path.write_text("format = 1\n[origin]\n" + "".join(rows))

    def make(*methods, **more):
        shared = {"out": tmp_path, "forget_count": 5, "device": "cpu", "repetitions": 2, "datasets": [GRAPH]}
        values = {"methods": [*methods], "protocol": "tuned", "tuned": path, **shared, **more}
        return make_config(values)

    return make


def test_each_method_has_its_values_and_its_recipe(config):
    cells = make_plan(config("mine=scrub", "sisa"), CATALOGUE).cells
    found = {(cell.method.label, cell.method.shown, cell.training.lr) for cell in cells}
    assert found == {("retrain", "retrain", 0.003), ("scrub[epochs=30]", "mine", 0.003), ("sisa", "sisa", 0.02)}
    assert len(cells) == 6


def test_a_cell_is_rebuilt_from_its_record(config):
    for cell in make_plan(config("scrub"), CATALOGUE).cells:
        assert cell.protocol.name == "tuned"
        assert cell_of_canonical(cell.canonical(), CATALOGUE).key == cell.key


def test_the_same_values_under_another_protocol_are_another_cell(config):
    tuned = {cell.key for cell in make_plan(config("scrub"), CATALOGUE).cells}
    fixed = config("scrub[epochs=30]", protocol="www24", tuned=None, set={"training.lr": 0.003})
    assert not tuned & {cell.key for cell in make_plan(fixed, CATALOGUE).cells}


def test_a_method_that_was_not_tuned_stops_the_run(config):
    with pytest.raises(UsageError, match="has no tuned values for finetune with gcn"):
        make_plan(config("scrub", "finetune"), CATALOGUE)


def test_audits_are_of_methods_with_the_recipe_of_retrain(config):
    plan = make_audit_plan(config("scrub", "sisa"), ["distance"], CATALOGUE)
    assert {cell.method.name for cell in plan.cells} == {"retrain", "scrub"}
    assert any("distance is not for sisa: it was tuned with another recipe" in notice for notice in plan.notices)
