"""Brackets of any text: read, or refused with the place; what is read keeps its form, its key and its label."""

from __future__ import annotations

import json

import pytest
from fuzzing import ODD_TEXTS, catalogue, fuzz, odd_floats, odd_integers, odd_texts, told
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.brackets import parse_bracket, split_names
from unlearnbench.cells import canonical_json
from unlearnbench.hookspecs import KINDS
from unlearnbench.resolve import resolve


pieces = st.one_of(
    st.sampled_from(["a", "b", "[", "]", "[", "]", "=", ",", '"', "file:", ":", ".", " ", "a=", "a[b=", "\t", "1"]),
    st.sampled_from([text for text in ODD_TEXTS if len(text) < 100]),
    st.text(max_size=3),
)
deep = st.integers(1, 5000).map(lambda n: "a[a=" * n + "1" + "]" * n)


@given(st.one_of(st.lists(pieces, max_size=12).map("".join), deep))
@fuzz(0.10)
def test_any_text_is_read_back_as_it_was_or_refused_with_its_place(text: str) -> None:
    with told() as errors:
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
PARTS = ["random", "hash", "bekm", "bekm[slack=0]", "metis", "mean", "majority", "contrastive", "sisa", "file:x", "a[b=c]"]


def quoted(text: str) -> str:
    return f'"{text}"'


values = st.one_of(
    odd_texts,
    odd_texts.map(quoted),
    odd_integers.filter(lambda number: abs(number) < 10**100).map(str),
    odd_floats.map(repr),
    st.sampled_from([*PARTS, "true", "false", "paper", "given", "degree", "folds"]),
)
arguments = st.lists(st.tuples(st.sampled_from(KEYS), values).map("=".join), max_size=3).map(",".join)


@given(st.sampled_from(NAMES), arguments)
@fuzz(0.15)
def test_a_component_of_any_bracket_is_whole_or_refused(
    kind_and_name: tuple[str, str], inside: str
) -> None:
    kind, name = kind_and_name
    assert kind in KINDS
    with told() as errors:
        spec = resolve(catalogue(), kind, f"{name}[{inside}]")
        again = resolve(catalogue(), kind, spec.label)
        assert again == spec
        assert json.loads(canonical_json(spec.canonical())) == spec.canonical()
        spec.label.encode("utf-8")
        assert "\n" not in spec.label
    if errors:
        assert errors[0].hint
