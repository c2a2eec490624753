"""Tables of a part of the records: an experiment, or some datasets, models and methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import command, install
from record_samples import make_record

from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.protocol import Protocol
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import frame_of
from unlearnbench.report.frame.selection import Selection, select
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import make_config
from unlearnbench.running.lookup import chosen_datasets, chosen_methods, chosen_models

__all__ = ["command", "install"]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


def records(catalogue: Catalogue, own_split: bool = False, **values: Any) -> list[Record]:
    """Make a record for each cell of a run, as that run would name it."""
    config = make_config(values)
    rules = Protocol(config.protocol, forget=config.forget_amount(), own_split=own_split, poison=config.poison())
    found = []
    for dataset in chosen_datasets(config, catalogue):
        for model in chosen_models(config, catalogue):
            for method in chosen_methods(config, catalogue):
                for repetition in config.repetition_numbers():
                    cell = Cell(
                        rules, dataset, "aa" * 32, model, method, config.training_settings(), repetition, 0, "cpu"
                    )
                    record = make_record(label=method.label)
                    found.append(record.model_copy(update={"cell": cell.canonical(), "key": cell.key}))
    return found


def methods(frame: pd.DataFrame) -> set[str]:
    return set(frame["method"])


def test_an_experiment_is_the_cells_its_run_makes(catalogue: Catalogue) -> None:
    inside = records(catalogue, methods="sisa,noop", datasets="cora", models="gat", repetitions=1)
    outside = [
        *records(catalogue, methods="sisa[aggregator=majority]", datasets="cora", models="gat", repetitions=1),
        *records(catalogue, methods="sisa", datasets="digits", models="gat", repetitions=1),
        *records(catalogue, methods="sisa", datasets="cora", models="gin", repetitions=1),
        *records(catalogue, methods="sisa", datasets="cora", models="gat", repetitions=1, forget_count=1),
        *records(catalogue, methods="sisa", datasets="cora", models="gat", repetitions=1, epochs=50),
        *records(catalogue, methods="sisa", datasets="cora", models="gat", repetitions=1, protocol="poison"),
    ]
    found = select(frame_of([*inside, *outside]), Selection("graphrevoker-www24"), catalogue)
    assert set(found["key"]) == {record.key for record in inside}
    poison = select(frame_of([*inside, *outside]), Selection("www24-poison"), catalogue)
    assert set(poison["protocol"]) == {"poison"}


def test_a_dataset_with_its_own_split_is_in_the_experiment(catalogue: Catalogue) -> None:
    cell = {"methods": "sisa", "datasets": "flickr", "models": "gcn", "repetitions": 1}
    made = records(catalogue, own_split=True, **cell, epochs=20, batch_size=512)
    # Not what is trained otherwise.
    other = records(catalogue, own_split=True, **cell)
    assert len(select(frame_of([*made, *other]), Selection("graphrevoker-www24"), catalogue)) == len(frame_of(made))


def test_names_are_those_of_run_and_retrain_stays(catalogue: Catalogue) -> None:
    made = records(
        catalogue,
        methods=["sisa", "graphrevoker", "graphrevoker[preset=paper]", "graphrevoker[sem_weight=0]"],
        datasets="cora,digits",
        models="gcn,gat",
        repetitions=1,
    )
    frame = frame_of(made)
    assert methods(select(frame, Selection(methods=["graphrevoker"]), catalogue)) == {
        "retrain",
        "graphrevoker (repaired)",
    }
    assert "graphrevoker (paper)" in methods(
        select(frame, Selection(methods=["graphrevoker[preset=paper]"]), catalogue)
    )
    assert "graphrevoker (paper)" in methods(select(frame, Selection(methods=["graphrevoker (paper)"]), catalogue))
    part = select(frame, Selection(datasets=["cora"], models=["gat"], methods=["sisa"]), catalogue)
    assert set(part["dataset"]) == {"cora"}
    assert set(part["model"]) == {"gat"}
    assert methods(part) == {"retrain", "sisa"}


def test_the_references_of_a_method_stay_with_it(catalogue: Catalogue) -> None:
    made = records(
        catalogue, methods=["smoothed", "smoothed[share=0.3]", "gif"], datasets="cora", models="gcn", repetitions=1
    )
    asked = select(frame_of(made), Selection(methods=["smoothed[method=sisa]"]), catalogue)
    assert methods(asked) == {"retrain", "smoothed[method=retrain]", "smoothed[method=sisa]"}


def test_retrain_stays_only_where_it_measures_a_method(catalogue: Catalogue) -> None:
    frame = frame_of(
        [
            *records(catalogue, methods=["sisa", "gif"], datasets=["digits"], repetitions=1),
            *records(catalogue, methods=["sisa"], datasets=["cora"], repetitions=1),
        ]
    )
    chosen = select(frame, Selection(methods=["gif"]), catalogue)
    assert set(zip(chosen["dataset"], chosen["method"], strict=True)) == {("digits", "gif"), ("digits", "retrain")}
    alone = select(frame, Selection(methods=["retrain"]), catalogue)
    assert set(alone["dataset"]) == {"digits", "cora"}


def test_a_method_that_nobody_brings_here_is_told_by_its_name(catalogue: Catalogue) -> None:
    frame = frame_of([make_record("theirs"), make_record("retrain")])
    assert methods(select(frame, Selection(methods=["theirs"]), catalogue)) == {"theirs", "retrain"}


def test_records_of_a_request_and_a_protocol(catalogue: Catalogue) -> None:
    def of(**forget: Any) -> list[Record]:
        return records(catalogue, methods="sisa", datasets="cora", repetitions=1, **forget)

    frame = frame_of([*of(), *of(forget_ratio=0.05), *of(forget_ratio=0.05, forget_kind="edge"), *of(forget_count=3)])
    kinds = {"edge": "5 % of edges", "node": "5 % of nodes"}
    for kind, shown in kinds.items():
        wanted = Selection(protocol="www24", forget=(("kind", kind), ("ratio", 0.05)))
        assert set(select(frame, wanted, catalogue)["forget"]) == {shown}
    assert set(select(frame, Selection(forget=(("count", 3),)), catalogue)["forget"]) == {"3 nodes"}
    assert Selection(protocol="www24", forget=(("ratio", 0.05),)).options() == " --protocol www24 --forget-ratio 0.05"
    for wanted in (Selection(protocol="tuned"), Selection(forget=(("ratio", 0.5),))):
        with pytest.raises(NothingMatchedError) as caught:
            select(frame, wanted, catalogue)
        assert "5 % of edges with www24" in caught.value.hint


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Selection(methods=["sisa", "grafrevoker"]), "graphrevoker"),
        (Selection(datasets=["core"]), "cora"),
        (Selection(models=["gnc"]), "gcn"),
        (Selection("www24-poison"), "unlearnbench run --experiment www24-poison"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(catalogue: Catalogue, wanted: Selection, said: str) -> None:
    frame = frame_of(records(catalogue, methods="sisa,graphrevoker", datasets="cora", repetitions=1))
    with pytest.raises(NothingMatchedError) as caught:
        select(frame, wanted, catalogue)
    assert said in caught.value.hint


def test_an_unknown_experiment_is_an_error(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="nope"):
        select(frame_of([make_record()]), Selection("nope"), catalogue)


def test_below_the_table_stands_what_was_selected(catalogue: Catalogue, tmp_path: Path, command: Any) -> None:
    store = Store(tmp_path / "my results", "m-0001")
    for record in records(catalogue, methods="sisa,graphrevoker", datasets="cora", repetitions=2):
        store.save(record)
    asked = ["report", str(store.root), "--datasets", "cora", "--methods", "graphrevoker[preset=repaired],sisa"]
    told = command(*asked)
    assert told.code == 0
    made_by = f"unlearnbench report '{store.root}' --datasets cora --methods 'graphrevoker[preset=repaired],sisa'"
    assert f"{made_by} --table summary" in told.out
    failed = command("report", str(store.root), "--experiment", "cost")
    assert failed.code == 3
    assert "unlearnbench run --experiment cost" in failed.err
