"""Tables with misplaced, missing and repeated columns: the graph in them, or an error or a note about the table."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from fuzzing import fuzz, told
from graph_samples import tables
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File

pytestmark = pytest.mark.slow

COUNT = 12
BLANK = ["", "Unnamed: 0", "Unnamed: 0.1"]
IDS = ["id", "id", "node", "node_id", "Node ID", "paper", "index", "key", "label", "source", *BLANK]
CLASSES = ["label", "label", "class", "y", "Label", "target", "topic", "split", "0", *BLANK]
SOURCES = ["source", "source", "from", "src", "u", "Source", "a", "target", "id", "to", *BLANK]
TARGETS = ["target", "target", "to", "dst", "v", "Target", "b", "source", "label", *BLANK]
FEATURES = ["f0", "f1", "0", "a", "x", "label", "id", "y", "train", "index", *BLANK]
# In a table of features a column of that name is one.
MORE_FEATURES = {"weight", "source", "to", "year", "a"}
OTHERS = [*BLANK, "index", "weight", "label", "id", "y", "split", "source", "to", "year", "a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


def changes(roles: list[list[str]]) -> st.SearchStrategy[dict[str, Any]]:
    """Headings of the columns, columns put in as (place, heading, content), an order, and one column left out."""
    return st.fixed_dictionaries(
        {
            "headings": st.tuples(*(st.one_of(st.just(names[0]), st.sampled_from(names)) for names in roles)),
            "added": st.lists(
                st.tuples(
                    st.integers(0, len(roles)),
                    st.sampled_from(OTHERS),
                    st.sampled_from(["numbers", "ids", "classes", "text", "nothing"]),
                ),
                max_size=2,
            ),
            "order": st.one_of(st.none(), st.none(), st.randoms(use_true_random=False)),
            "dropped": st.sampled_from([None, None, None, None, 0, 1, len(roles) - 1]),
            "heading_left_out": st.sampled_from([False] * 7 + [True]),
        }
    )


def filled(content: str, rows: int, numbers: list[int]) -> list[str]:
    return {
        "numbers": [str(row) for row in range(rows)],
        "ids": [str(numbers[row % len(numbers)]) for row in range(rows)],
        "classes": [str(row % 2) for row in range(rows)],
        "text": ["train"] * rows,
        "nothing": [""] * rows,
    }[content]


def written(
    columns: list[list[str]], numbers: list[int], change: dict[str, Any], roles: list[list[str]]
) -> tuple[str, list[Any]]:
    """Write a table; return it, and its columns as (heading, content, which of the true ones or None)."""
    rows = len(columns[0])
    made: list[Any] = [(change["headings"][at], column, at) for at, column in enumerate(columns)]
    # Another column under the heading of one that is left out makes a table that is right, with other contents.
    taken = set() if change["dropped"] is None else set(roles[change["dropped"]]) - set(BLANK)
    for place, heading, content in change["added"]:
        if heading not in taken:
            made.insert(place, (heading, filled(content, rows, numbers), None))
    made = [one for one in made if one[2] is None or one[2] != change["dropped"]]
    if change["order"] is not None:
        change["order"].shuffle(made)
    head = [] if change["heading_left_out"] else [",".join(heading for heading, _, _ in made)]
    lines = [",".join(column[row] for _, column, _ in made) for row in range(rows)]
    return "\n".join([*head, *lines, ""]), made


ROLES = {"features": [IDS, FEATURES, FEATURES], "labels": [IDS, CLASSES], "edges": [SOURCES, TARGETS]}


@given(
    st.integers(0, 2**32),
    st.one_of(st.none(), changes(ROLES["features"])),
    st.one_of(st.none(), changes(ROLES["labels"])),
    st.one_of(st.none(), changes(ROLES["edges"])),
)
@fuzz(0.10)
def test_misplaced_columns_are_the_graph_in_them_or_named(
    folder: Path,
    seed: int,
    features: dict[str, Any] | None,
    labels: dict[str, Any] | None,
    edges: dict[str, Any] | None,
) -> None:
    rng = random.Random(seed)
    # Numbers that could all be ids, classes or features.
    ids = rng.sample(range(COUNT + 5), COUNT)
    x = [[rng.randrange(COUNT), rng.randrange(COUNT)] for _ in range(COUNT)]
    y = [rng.randrange(3) for _ in range(COUNT)]
    pairs = [tuple(rng.sample(ids, 2)) for _ in range(8)]
    usual = {"added": [], "order": None, "dropped": None, "heading_left_out": False}
    texts, made = {}, {}
    for name, columns, change, headings in (
        ("features", [ids, *zip(*x, strict=True)], features, ("id", "f0", "f1")),
        ("labels", [ids, y], labels, ("id", "label")),
        ("edges", list(zip(*pairs, strict=True)), edges, ("source", "target")),
    ):
        text = [[str(number) for number in column] for column in columns]
        texts[name], made[name] = written(text, ids, change or {**usual, "headings": headings}, ROLES[name])
    dataset = File(File.Params(path=str(tables(folder / "any tables", **texts))))
    with told("misplaced columns") as errors:
        graph = load_graph(dataset, folder)
        kept = [one for heading, one, at in made["features"] if at or (at is None and heading in MORE_FEATURES)]
        ends = [(int(graph.ids[a]), int(graph.ids[b])) for a, b in graph.edge_index.T.tolist()]
        right = {
            "features": graph.ids.tolist() == ids and graph.x.T.tolist() == [list(map(float, one)) for one in kept],
            "labels": graph.y.tolist() == y,
            "edges": ends == pairs,
        }
        for name, is_right in right.items():
            # Wrong ids are the fault of the table of the nodes.
            assert is_right or any(f"{name}.csv" in note for note in dataset.notes), (name, texts, dataset.notes)
    if errors:
        message = errors[0].message
        assert any(f"{name}.csv" in message for name in texts) or (
            "feature of node" in message or "no node has a label" in message
        )
