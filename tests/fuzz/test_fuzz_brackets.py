"""Brackets of any text: read, or refused with the place; what is read keeps its form, its key and its label."""

from __future__ import annotations

import json

import pytest
from fuzzing import ODD_TEXTS, catalogue, fuzz, odd_floats, odd_integers, odd_texts, told
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.component import canonical_json
from unlearnbench.hookspecs import KINDS
from unlearnbench.registry.brackets import Bracket, parse_bracket, split_names
from unlearnbench.registry.resolve import resolve

pytestmark = pytest.mark.slow

pieces = st.one_of(
    st.sampled_from(["a", "b", "[", "]", "[", "]", "=", ",", '"', "file:", ":", ".", " ", "a=", "a[b=", "\t", "1"]),
    st.sampled_from([text for text in ODD_TEXTS if len(text) < 100]),
    st.text(max_size=3),
)
deep = st.integers(1, 5000).map(lambda n: "a[a=" * n + "1" + "]" * n)


names = st.sampled_from(["a", "b-1", "dist:x", "file", "0"])
bare = st.text(st.characters(exclude_characters='"\n\r', exclude_categories=["Cs"]), max_size=8)
written = st.recursive(
    st.builds(Bracket, names),
    lambda inner: st.builds(
        Bracket,
        names,
        st.dictionaries(st.sampled_from(["a", "b.c", "_"]), bare | inner.filter(lambda one: one.arguments)),
    ),
    max_leaves=6,
)
texts = st.one_of(
    st.lists(pieces, max_size=12).map("".join),
    written.map(str),
    st.tuples(written.map(str), st.integers(0, 40), pieces).map(
        lambda cut: cut[0][: cut[1]] + cut[2] + cut[0][cut[1] :]
    ),
    deep,
)


@given(texts)
@fuzz(0.10)
def test_any_text_is_read_back_as_it_was_or_refused_with_its_place(text: str) -> None:
    with told("texts") as errors:
        bracket = parse_bracket(text)
        assert parse_bracket(str(bracket)) == bracket
        assert split_names([str(bracket)]) == [str(bracket)]
    if errors:
        message = errors[0].message
        assert "at character" in message or "given twice" in message or "two paths" in message or "deep" in message
        assert errors[0].hint


NAMES = [
    ("unlearner", name)
    for name in ("sisa", "graphrevoker", "grapheraser", "sharded", "retrain", "gif", "scrub", "file", "Sisa", "")
] + [("dataset", name) for name in ("digits", "sbm", "file", "cora")] + [
    ("model", name) for name in ("gcn", "gat", "appnp", "sgc")
]  # fmt: skip
KEYS = [
    "num_shards", "partitioner", "aggregator", "partitioner.slack", "sem_weight", "slices", "preset", "path", "split",
    "features", "undirected", "num_nodes", "num_classes", "homophily", "hidden", "dropout", "heads", "alpha", "slack",
    "aggregator.epochs", "damping", "partitioner.partitioner", "a b", "",
]  # fmt: skip
PARTS = [
    "random",
    "hash",
    "bekm",
    "bekm[slack=0]",
    "metis",
    "mean",
    "majority",
    "contrastive",
    "sisa",
    "file:x",
    "a[b=c]",
]


def quoted(text: str) -> str:
    return f'"{text}"'


values = st.one_of(
    odd_texts,
    odd_texts.map(quoted),
    odd_integers.filter(lambda number: abs(number) < 10**100).map(str),
    odd_floats.map(repr),
    st.sampled_from([*PARTS, "true", "false", "paper", "given", "degree", "folds"]),
)
GOOD = {
    "sisa": ["num_shards=3", "slices=2", "partitioner=hash", "aggregator=majority", "partitioner=metis"],
    "graphrevoker": ["num_shards=4", "preset=paper", "aggregator.recon_weight=0", "partitioner=bekm[slack=0]"],
    "sharded": ["partitioner=bekm", "aggregator=mean", "num_shards=2", "partitioner=random"],
    "sbm": ["num_nodes=40", "homophily=0.25", "seed=3"],
    "file": ["path=a b", 'path="x,y[1]"', "split=1", "split=folds", "features=degree", "undirected=true"],
    "gat": ["heads=2", "dropout=0.1"],
}
odd_argument = st.tuples(st.sampled_from(KEYS), values).map("=".join)


def arguments(name: str) -> st.SearchStrategy[str]:
    """Mix arguments that are right with those that are not."""
    good = st.sampled_from(GOOD.get(name, [""]))
    listed = st.lists(
        st.one_of(good, good, good, odd_argument), max_size=3, unique_by=lambda text: text.partition("=")[0]
    )
    return listed.map(lambda found: ",".join(filter(None, found)))


components = st.one_of(st.sampled_from([pair for pair in NAMES if pair[1] in GOOD]), st.sampled_from(NAMES)).flatmap(
    lambda pair: st.tuples(st.just(pair), arguments(pair[1]))
)


@given(components)
@fuzz(0.15)
def test_a_component_of_any_bracket_is_whole_or_refused(component: tuple[tuple[str, str], str]) -> None:
    (kind, name), inside = component
    assert kind in KINDS
    with told("components") as errors:
        spec = resolve(catalogue(), kind, f"{name}[{inside}]")
        again = resolve(catalogue(), kind, spec.label)
        assert again == spec
        assert json.loads(canonical_json(spec.canonical())) == spec.canonical()
        spec.label.encode("utf-8")
        assert "\n" not in spec.label
    if errors:
        assert errors[0].hint
