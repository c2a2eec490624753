"""Run files of any content: a plan that says what it is, or one error that names file or key, and the remedy."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from fuzzing import ODD_TEXTS, catalogue, fuzz, known_machine, odd_floats, odd_integers, odd_texts, told
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.running.config import RunConfig, make_config, read_run_file
from unlearnbench.running.options import OPTIONS
from unlearnbench.running.plan import make_plan

__all__ = ["known_machine"]

pytestmark = pytest.mark.usefixtures("known_machine")

SMALL = "sbm[num_nodes=40,num_edges=60,num_features=4,num_classes=2]"
GOOD = f"""
methods = ["sisa", {{name = "graphrevoker", "aggregator.recon_weight" = [0, 1], partitioner = {{name = "hash"}}}}]
datasets = ["{SMALL}"]
models = ["gcn"]
repetitions = 2
forget_ratio = 0.05
num_shards = 2
epochs = 3
device = "cpu"
[set]
seed = 7
training.lr = 0.02
"""
TOKENS = [
    "[", "]", "{", "}", "=", ",", '"', "'", '"""', "\n", "\r", "\0", "#", ".", "nan", "inf", "-", "1e999", "true", "[[",
    "2001-01-01", "0x1f", "9" * 4400, "[" * 3000, "a." * 3000, "name", "set", "methods", "seeds = [1]\n", "ä", "\ufeff",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def plan_of(config: RunConfig) -> None:
    """Make the plan, and check that it says what was asked."""
    plan = make_plan(config, catalogue())
    assert {cell.repetition for cell in plan.cells} == set(config.repetition_numbers())
    assert {cell.seed for cell in plan.cells} == {config.base_seed()}
    assert len({cell.key for cell in plan.cells}) == len(plan.cells)
    assert {cell.training for cell in plan.cells} == {config.training_settings()}
    for cell in plan.cells:
        cell.describe().encode("utf-8")


@given(
    st.one_of(
        st.binary(max_size=60),
        st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(
            st.tuples(
                st.integers(0, len(GOOD)), st.integers(0, 12), st.one_of(st.sampled_from(TOKENS), st.text(max_size=4))
            ),
            min_size=1,
            max_size=4,
        ).map(lambda edits: edited(GOOD, edits)),
    )
)
@fuzz(0.12)
def test_any_file_is_read_or_refused_by_its_name(folder: Path, content: bytes) -> None:
    path = folder / "run.toml"
    path.write_bytes(content)
    with told("run files") as errors:
        values = read_run_file(path)
        make_config(values, f"Run file {path}")
    if errors:
        assert str(path) in errors[0].message or "--" in str(errors[0])
        return
    assert set(values) <= set(OPTIONS)


def edited(text: str, edits: list[tuple[int, int, str]]) -> bytes:
    """Cut out and put in, at each of some places."""
    for at, length, new in edits:
        text = text[:at] + new + text[at + length :]
    return text.encode("utf-8", "surrogatepass")


scalars = st.one_of(
    odd_integers, odd_floats, odd_texts.filter(lambda text: "\udc80" not in text), st.booleans(),
    st.just(datetime.date(2001, 1, 1)),
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a", "b.c"]), inner, max_size=2)
    ),
    max_leaves=5,
)
METHOD_KEYS = [
    "num_shards",
    "partitioner",
    "aggregator",
    "aggregator.recon_weight",
    "slack",
    "slices",
    "preset",
    "no_such",
]
parts = st.fixed_dictionaries(
    {"name": st.sampled_from(["hash", "random", "bekm", "bekm[slack=0]", "mean"])},
    optional={"slack": st.lists(st.sampled_from([0, 0.1, 1]), max_size=2) | st.floats(0, 1)},
)
tables = st.fixed_dictionaries(
    {
        "name": st.one_of(
            st.sampled_from(["sisa", "sharded", "graphrevoker", "graphrevoker[aggregator.recon_weight=0]"]), scalars
        )
    },
    optional={key: st.one_of(scalars, parts, st.lists(st.one_of(parts, scalars), max_size=2)) for key in METHOD_KEYS},
)
names = st.one_of(
    st.lists(
        st.one_of(st.sampled_from(["sisa", "retrain", "graphrevoker[aggregator.recon_weight=0]"]), tables),
        min_size=1,
        max_size=2,
    ),
    anything,
)
# At most a few repetitions where the number can be used: each costs a split.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "methods": names,
    "datasets": st.one_of(st.just([SMALL]), anything),
    "models": st.one_of(st.just(["gcn", {"name": "gat", "heads": [1, 2]}]), names),
    "out": scalars, "data_root": scalars, "save_state": scalars,
    "seeds": st.one_of(st.lists(odd_integers, max_size=3), anything),
    "forget": st.one_of(
        st.lists(odd_integers, max_size=3), st.lists(st.lists(odd_integers, max_size=3), max_size=2), anything
    ),
    "set": st.one_of(
        st.dictionaries(
            st.sampled_from(["seed", "training.lr", "training.epochs", "training", "model.dropout", "poison.nodes"]),
            anything, max_size=2,
        ),
        anything,
    ),
    **{
        key: st.one_of(scalars, anything)
        for key in OPTIONS
        if key not in ("methods", "datasets", "models", "out", "data_root", "save_state", "seeds", "forget", "set")
    },
}  # fmt: skip
BASE = {"methods": ["sisa"], "datasets": [SMALL], "device": "cpu", "repetitions": 1, "epochs": 2, "num_shards": 2}


@given(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: FIELDS[key] for key in keys})
))  # fmt: skip
@fuzz(0.18)
def test_any_settings_become_a_plan_or_one_error(folder: Path, changes: dict[str, Any]) -> None:
    values = {**BASE, "out": str(folder / "out"), "forget_count": 2, **changes}
    if {"forget", "forget_ratio", "protocol"} & changes.keys():
        values.pop("forget_count")
    if "seeds" in changes:
        values.pop("repetitions")
    with told("settings") as errors:
        plan_of(make_config(values))
    if errors:
        assert errors[0].hint or errors[0].message.count(" ") > 3


def test_the_run_file_that_is_edited_is_a_good_one(folder: Path) -> None:
    path = folder / "good.toml"
    path.write_text(GOOD)
    plan_of(make_config({**read_run_file(path), "out": folder / "out"}))
    assert ODD_TEXTS
