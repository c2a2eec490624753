"""The main job on published graphs; skipped where their files are not at hand."""

import pytest

import unlearnbench

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("dataset", "methods", "least", "forgotten", "train"),
    [
        ("cora", ["sisa", "grapheraser", "graphrevoker"], (0.75, 0.6), 14, 1895),
        ("citeseer", ["sisa"], (0.65, 0.6), 17, 2328),
    ],
)
def test_methods_learn_forget_and_hit_the_shards_they_should(
    real_data, tmp_path, dataset, methods, least, forgotten, train
):
    records = unlearnbench.run(methods, datasets=[dataset], data_root=real_data, repetitions=1, out=tmp_path)
    for record in records:
        assert record.status == "ok", record
        assert record.requests[0]["count"] == forgotten
        assert record.metrics["f1_micro"]["full"]["after"] > least[record.label != "retrain"]
        if record.label != "retrain":
            assert 0 < len(record.digests["members_changed"]) == record.counts["shards_hit"] <= forgotten
            assert sum(record.partition["sizes"]) == train
