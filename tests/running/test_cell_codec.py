"""Cells as plain JSON values, and back: the same cell with the same key, or an error that says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cell_samples import cell
from graph_samples import saved

from unlearnbench.errors import UsageError
from unlearnbench.protocol import Forget, Protocol
from unlearnbench.protocol.poison import Poison
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_codec import cell_from_plain, cell_to_plain
from unlearnbench.task import Training

CATALOGUE = load_catalogue()


def sent(made: Cell) -> Cell:
    return cell_from_plain(json.loads(json.dumps(cell_to_plain(made))), CATALOGUE)


METHODS = (
    "retrain",
    "sisa[num_shards=3,slices=2]",
    "grapheraser[partitioner=blpa]",
    "graphrevoker[preset=released]",
    "graphrevoker[sem_weight=0]",
    "sharded[partitioner=bekm[slack=0.2,capacity=paper],aggregator=attention]",
    "smoothed[method=sisa[partitioner=hash,num_shards=3],share=0.25]",
    "unlearnbench:gif[damp=0.125]",
    "idea",
)


@pytest.mark.parametrize("method", METHODS)
def test_a_cell_comes_back_equal(method: str) -> None:
    made = cell(method)
    back = sent(made)
    assert back == made
    assert back.key == made.key
    assert (back.method.label, back.dataset_label, back.model.label) == (
        made.method.label, made.dataset_label, made.model.label,
    )  # fmt: skip
    assert type(back.method.build()) is type(made.method.build())


@pytest.mark.parametrize(
    "rules",
    [
        Protocol(forget=Forget(0.125)),
        Protocol(forget=Forget(None, 4)),
        Protocol(forget=Forget(None, None, (3, 17))),
        Protocol(forget=Forget(None, None, ((3, 17), (4, 5)), "edge"), own_split=True),
        Protocol("poison", poison=Poison(7, 3)),
        Protocol("poison", poison=Poison(7, manipulation="label", known=0.25)),
        Protocol("poison", forget=Forget(kind="edge"), poison=Poison(edges=7, manipulation="edge")),
    ],
)
def test_every_protocol_comes_back_equal(rules: Protocol) -> None:
    made = cell("sisa", protocol=rules, training=Training(3, 0.1, 0.0, True), repetition=12, seed=2**40)
    assert sent(made) == made


def test_files_audits_and_models_with_parameters_come_back_equal(tmp_path: Path) -> None:
    path = saved(tmp_path / "g,[1].pt")
    dataset = replace(resolve(CATALOGUE, "dataset", "digits"), label="a label of its own")
    made = cell("sisa", dataset=dataset, audit=resolve(CATALOGUE, "audit", "exactness"))
    assert sent(made) == made
    made = cell("sisa", model=resolve(CATALOGUE, "model", "gat[hidden=8]"))
    assert sent(made) == made
    kind = CATALOGUE.load(CATALOGUE.find("dataset", "file"))
    base = resolve(CATALOGUE, "dataset", f"file[path={saved(tmp_path / 'g.pt')}]")
    made = cell("sisa", dataset=replace(base, params=kind.Params(path=str(path))))
    assert sent(made) == made
    assert sent(made).dataset.params.path == str(path)


def test_what_is_another_version_or_not_there_is_refused() -> None:
    plain = cell_to_plain(cell("sisa"))
    with pytest.raises(UsageError, match=r"sisa repetition 0: here it is cell [0-9a-f]{32}, where") as caught:
        cell_from_plain({**plain, "key": "0" * 32}, CATALOGUE)
    assert "install the same ones" in caught.value.hint
    other = json.loads(json.dumps(plain))
    other["cell"]["method"]["distribution"] = "ub-elsewhere"
    with pytest.raises(UsageError, match="ub-elsewhere:sisa"):
        cell_from_plain(other, CATALOGUE)
