"""A grid from Python: look up, check, run what is missing."""

import numpy as np
import pytest
import torch

import unlearnbench
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.measure.digests import digests

QUICK = {"epochs": 3, "num_shards": 3, "repetitions": 2}


def test_run_gives_a_record_a_cell_with_the_reference_along(tmp_path):
    records = unlearnbench.run(["sisa"], out=tmp_path, **QUICK)
    assert [(r.label, r.cell["repetition"]) for r in records] == [
        ("retrain", 0), ("sisa[num_shards=3]", 0), ("retrain", 1), ("sisa[num_shards=3]", 1),
    ]  # fmt: skip
    assert all(record.status == "ok" for record in records)
    frame = unlearnbench.load_records(tmp_path)
    assert len(frame) == 8
    assert set(frame["view"]) == {"shard", "full"}
    again = unlearnbench.run("sisa", out=tmp_path, **QUICK)
    assert [r.provenance["started"] for r in again] == [r.provenance["started"] for r in records]


@pytest.mark.slow
def test_the_split_and_the_request_are_the_same_for_every_method(tmp_path):
    records = unlearnbench.run(["sisa", "sisa[partitioner=hash]"], out=tmp_path, **QUICK)
    for repetition in (0, 1):
        drawn = {r.requests[0]["ids_sha256"] for r in records if r.cell["repetition"] == repetition}
        assert len(drawn) == 1
    assert len({r.requests[0]["ids_sha256"] for r in records}) == 2


@pytest.mark.slow
def test_the_deployed_parameters_are_kept_when_asked_for(tmp_path):
    records = unlearnbench.run(
        ["sisa"], out=tmp_path / "out", save_state=tmp_path / "state", **{**QUICK, "repetitions": 1}
    )
    for record in records:
        path = tmp_path / "state" / f"{record.key}.pt"
        assert torch.load(path, weights_only=True)["key"] == record.key
        state = unlearnbench.load_state(path)
        assert digests(state.weights) == record.digests["after"]
        assert (state.label, state.cell) == (record.label, record.cell)
        (arrays,) = (tmp_path / "out").rglob(f"{record.key}.npz")
        with np.load(arrays) as kept:
            found = {"forgotten": state.forgotten, **vars(state.split)}
            assert all(np.array_equal(kept[name], ids.numpy()) for name, ids in found.items())
        if state.partition is None:
            assert record.partition is None
        else:
            assert record.partition is not None
            retained = state.split.train[~torch.isin(state.split.train, state.forgotten)]
            assert torch.equal(state.partition[:, 0].sort().values, retained)
            gone = state.split.train[torch.isin(state.split.train, state.forgotten)]
            assert sum(record.partition["sizes"]) == len(state.partition) + len(gone)
    # A state is no part of a record: asked for later, the cell is computed again.
    unlearnbench.run(["sisa"], out=tmp_path / "out", save_state=tmp_path / "late", **{**QUICK, "repetitions": 1})
    assert len(list((tmp_path / "late").iterdir())) == 2


def test_the_frame_of_a_real_run_has_every_time(tmp_path):
    unlearnbench.run(["sisa"], out=tmp_path, reference=False, **QUICK)
    frame = unlearnbench.load_records(tmp_path)
    for name in ("partition", "train", "aggregate", "fit", "unlearn", "unlearn_locate", "unlearn_retrain",
                 "unlearn_aggregate", "first_predict", "second_predict", "full_predict"):  # fmt: skip
        assert bool((frame[f"{name}_seconds"] >= 0).all()), name
    assert bool((frame["unlearn_peak_rss_mib"] > 0).all())


@pytest.mark.slow
def test_a_damaged_record_that_may_not_be_written_over_is_left_out_with_a_note(tmp_path, capsys):
    records = unlearnbench.run(["sisa"], out=tmp_path, **QUICK)
    (path,) = tmp_path.rglob(f"{records[0].key}.json")
    path.write_text("{")
    again = unlearnbench.run(["sisa"], out=tmp_path, overwrite="never", **QUICK)
    assert [record.key for record in again] == [record.key for record in records[1:]]
    assert "not a whole record" in capsys.readouterr().err
    assert path.read_text() == "{"


def test_nothing_to_run_is_an_error_of_its_own(tmp_path):
    with pytest.raises(NothingMatchedError):
        unlearnbench.run([], out=tmp_path)
    with pytest.raises(NothingMatchedError):
        unlearnbench.run(["sisa"], datasets=[], out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_settings_of_the_model_reach_every_model(tmp_path):
    records = unlearnbench.run(
        ["sisa"], out=tmp_path, set={"model.hidden": 16, "training.lr": 0.02}, **{**QUICK, "repetitions": 1}
    )
    assert {r.cell["model"]["params"]["hidden"] for r in records} == {16}
    assert {r.cell["training"]["lr"] for r in records} == {0.02}
    with pytest.raises(UsageError, match=r"model\.hiden"):
        unlearnbench.run(["sisa"], out=tmp_path, set={"model.hiden": 16})


def test_a_broken_metric_of_a_plugin_is_left_out_with_a_notice(tmp_path):
    from unlearnbench.registry.catalogue import Entry
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.running.config import make_config
    from unlearnbench.running.plan import make_plan

    catalogue = load_catalogue()
    broken = Entry("metric", "odd", "nowhere_to_be_found:Odd", "", "ub-odd", "1", "odd")
    catalogue.entries["metric"]["odd"] = [broken]
    plan = make_plan(make_config({"methods": ["sisa"], "out": tmp_path}), catalogue)
    assert [spec.name for spec in plan.context.metrics] == ["average_precision", "f1_macro", "f1_micro", "roc_auc"]
    assert any("odd" in notice and "nowhere_to_be_found" in notice for notice in plan.notices)
