"""Aliases of methods: what a user calls them is shown, is checked before any work, and is no part of a cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cell_samples import cell

import unlearnbench
from unlearnbench.errors import UsageError
from unlearnbench.records.record import Record, read_record
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell_codec import cell_from_plain, cell_to_plain
from unlearnbench.running.config import make_config, read_run_file
from unlearnbench.running.lookup import chosen_methods

CATALOGUE = load_catalogue()
MINE = "mine=sharded[partitioner=bekm,aggregator=mean]"


def chosen(methods: Any) -> dict[str, str]:
    config = make_config({"methods": methods, "reference": False})
    return {spec.label: spec.alias for spec in chosen_methods(config, CATALOGUE)}


def test_an_alias_changes_neither_key_nor_label() -> None:
    plain, named = cell(MINE.partition("=")[2]), cell(MINE)
    assert named.method.alias == named.method.shown == "mine"
    assert (named.key, named.method.label, named.canonical()) == (plain.key, plain.method.label, plain.canonical())
    assert named.describe() == plain.describe().replace(plain.method.label, "mine")
    assert cell_from_plain(cell_to_plain(named), CATALOGUE) == named
    assert replace(named.method, alias="") == plain.method


def test_a_run_file_and_a_number_of_shards_keep_the_alias(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('methods = ["mine=sisa[partitioner=hash]", {name = "other=gif", damp = 0.5}]\nnum_shards = 4\n')
    config = make_config({**read_run_file(path), "reference": False})
    assert {spec.label: spec.alias for spec in chosen_methods(config, CATALOGUE)} == {
        "sisa[partitioner=hash,num_shards=4]": "mine",
        "gif[damp=0.5]": "other",
    }


def test_a_method_named_with_and_without_its_alias_is_one_method_that_has_it() -> None:
    assert chosen("sisa,mine=sisa,gif") == {"sisa": "mine", "gif": ""}


@pytest.mark.parametrize(
    ("methods", "message", "hint"),
    [
        ("a=sisa,a=gif", "Two methods have the alias 'a': sisa and gif", "of its own"),
        (
            [{"name": "a=sisa", "num_shards": [4, 5]}],
            r"Two methods have the alias 'a': sisa\[num_shards=4\] and",
            "own",
        ),
        ("a=sisa,b=sisa", "sisa has two aliases, 'a' and 'b'", "Leave one out"),
        ("gif=sisa", "'gif' is the name of a method", "another alias"),
        ("a=retrain", "Retrain is what tables compare with", "Leave the alias out"),
        ("num_shards=5", "there is no method '5' to give the alias 'num_shards' to", r"METHOD\[num_shards=5\]"),
    ],
)
def test_what_cannot_be_an_alias_is_refused_before_any_work(methods: Any, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        chosen(methods)
    assert hint.replace("\\", "") in caught.value.hint


@pytest.mark.parametrize(("kind", "text"), [("dataset", "a=digits"), ("model", "a=gcn"), ("audit", "a=exactness")])
def test_only_methods_take_one(kind: str, text: str) -> None:
    with pytest.raises(UsageError, match="only methods take an alias") as caught:
        resolve(CATALOGUE, kind, text)
    assert caught.value.hint == f"Write {text[2:]}."


def test_a_record_keeps_the_alias_and_the_same_cell_is_not_computed_again(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"out": tmp_path, "epochs": 1, "repetitions": 1, "num_shards": 2, "reference": False}
    (record,) = unlearnbench.run("mine=sisa", **settings)
    assert (record.alias, record.label, record.shown_name) == ("mine", "sisa[num_shards=2]", "mine")
    (path,) = tmp_path.rglob(f"{record.key}.json")
    assert path.parent.name == "sisa"
    assert read_record(path) == record
    (again,) = unlearnbench.run("sisa", **settings)
    assert again == record
    assert list(unlearnbench.load_records(tmp_path)["method"]) == ["mine", "mine"]
    without = Record.model_validate({**record.model_dump(), "alias": ""})
    assert '"alias"' not in without.to_json()
