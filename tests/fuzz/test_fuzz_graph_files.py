"""Graph files of any content: the graph that stands in them, number for number, or an error that names file and place."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzzing import catalogue, fuzz, known_machine, told
from graph_samples import user_graph
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.config import make_config
from unlearnbench.datasets.base import describe, load_graph
from unlearnbench.datasets.file import File
from unlearnbench.execution import execute, make_plan
from unlearnbench.graph import Graph

__all__ = ["known_machine"]

ROOT = Path("unused")
IDS = [0, 1, 2, 7, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -1, -(2**62), -(2**63), 2**63, 2**64 - 1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


def load(path: Path, **parameters: Any) -> Graph:
    graph = load_graph(File(File.Params(path=str(path), **parameters)), ROOT)
    assert describe(graph)
    assert len(graph.checksum()) == 64
    assert not graph.x.requires_grad
    assert graph.num_classes <= 10**6
    return graph


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
OTHERS = ["bool", "complex64", "U3", "S3", "O", "M8[s]", ">i4", ">f8", "V2"]
NUMBERS = [0, 1, 2, 3, -1, 0.5, math.nan, math.inf, -math.inf, 1e300, 1e-320, *IDS]


def array(numbers: list[Any], dtype: str, shape: tuple[int, ...]) -> Any:
    """Fill an array with numbers, as far as its type can hold them."""
    kind = np.dtype(dtype)
    filled = np.zeros(shape, dtype=kind)
    for at, number in zip(np.ndindex(*shape), numbers * math.prod(shape), strict=False):
        try:
            with np.errstate(all="ignore"):
                filled[at] = number
        except (ValueError, OverflowError, TypeError):
            continue
    return filled


def arrays(shapes: Any, numbers: Any, dtypes: list[str]) -> Any:
    return st.builds(array, st.lists(numbers, min_size=1, max_size=8), st.sampled_from(dtypes), shapes)


n = 6
good_numbers = st.integers(0, 2)
any_numbers = st.sampled_from(NUMBERS)
shapes = st.sampled_from([(n,), (n, 1), (n, 2), (2, n), (2, 0), (0,), (0, 2), (n, 0), (n + 1,), (), (n, 1, 1), (1, n), (1,)])
any_array = arrays(shapes, any_numbers, [*INTEGERS, *FLOATS, *OTHERS])


def mostly(usual: Any) -> Any:
    return st.one_of(usual, usual, usual, any_array)


contents = st.fixed_dictionaries(
    {
        "y": mostly(arrays(st.just((n,)), good_numbers, [*INTEGERS, *FLOATS])),
        "edge_index": mostly(arrays(st.sampled_from([(2, 5), (2, 0)]), good_numbers, [*INTEGERS, "float64"])),
    },
    optional={
        "x": mostly(arrays(st.sampled_from([(n, 2), (n,)]), any_numbers, [*INTEGERS, *FLOATS])),
        "ids": st.one_of(
            st.lists(st.sampled_from(IDS[:11]), min_size=n, max_size=n, unique=True).map(lambda ids: np.array(ids, dtype=np.int64)),
            st.lists(st.sampled_from([*IDS[:8], *IDS[11:]]), min_size=n, max_size=n, unique=True).map(
                lambda ids: np.array(ids, dtype=np.uint64)
            ),
            any_array,
        ),
        "num_classes": st.one_of(arrays(st.sampled_from([(), (1,), (2,)]), any_numbers, [*INTEGERS, *FLOATS]), any_array),
        "train_mask": mostly(st.just(np.arange(n) < 3)),
        "val_mask": mostly(st.just(np.arange(n) == 3)),
        "test_mask": mostly(st.just(np.arange(n) > 3)),
        "odd name": any_array,
    },
)
parameters = st.fixed_dictionaries(
    {},
    optional={
        "features": st.sampled_from(["given", "degree", "constant"]),
        "undirected": st.booleans(),
        "split": st.sampled_from([0, 1, -1, 2**70, "folds", None]),
    },
)


def agree(graph: Graph, content: dict[str, Any], chosen: dict[str, Any]) -> None:
    """Compare a graph with what stood in its file, value by value in plain Python."""
    labels = [value if math.isfinite(value) and value >= 0 else -1 for value in map(float, content["y"].reshape(-1).tolist())]
    assert graph.y.tolist() == labels
    named = content.get("ids")
    assert graph.ids.tolist() == (list(range(len(labels))) if named is None else named.tolist())
    pairs = [tuple(int(end) for end in pair) for pair in content["edge_index"].T.tolist()]
    found = [tuple(pair) for pair in graph.edge_index.T.tolist()]
    if chosen.get("undirected"):
        assert sorted(found) == sorted({*pairs, *((b, a) for a, b in pairs)})
    else:
        assert found == pairs
    if chosen.get("features", "given") == "given":
        with np.errstate(over="ignore"):
            wanted = content["x"].astype(np.float32).reshape(len(labels), -1)
        np.testing.assert_array_equal(graph.x.numpy(), wanted)
    declared = content.get("num_classes")
    assert graph.num_classes == (int(declared.reshape(-1)[0]) if declared is not None else max(labels) + 1)
    if graph.split is not None:
        column = {name: content[f"{name}_mask"].reshape(len(labels), -1)[:, chosen.get("split") or 0] for name in ("train", "val", "test")}
        for name, ids in zip(column, graph.split.parts().values(), strict=True):
            assert ids.tolist() == sorted(np.array(graph.ids.tolist())[column[name].astype(bool)].tolist())


@given(contents, parameters)
@fuzz(0.10)
def test_an_archive_of_arrays_is_the_graph_in_it_or_refused(folder: Path, content: dict[str, Any], chosen: dict[str, Any]) -> None:
    path = folder / "any graph.npz"
    np.savez(path, **{key.replace(" ", "_"): value for key, value in content.items()})
    with told() as errors:
        agree(load(path, **chosen), content, chosen)
    if errors:
        assert "any graph.npz" in errors[0].message


def tensor_of(values: Any, form: str) -> Any:
    if form == "list":
        return values.tolist()
    try:
        tensor = torch.from_numpy(values.astype(values.dtype.newbyteorder("=")))
    except (TypeError, ValueError):
        return values.tolist()
    if form == "sparse" and tensor.dim() > 0:
        return tensor.to_sparse()
    if form == "grad" and (tensor.is_floating_point() or tensor.is_complex()):
        return torch.nn.Parameter(tensor)
    if form == "meta":
        return tensor.to("meta")
    return tensor.to(torch.bfloat16) if form == "bfloat16" else tensor


@given(
    contents,
    parameters,
    st.dictionaries(
        st.sampled_from(["x", "y", "edge_index", "ids", "train_mask", "num_classes"]),
        st.sampled_from(["sparse", "grad", "meta", "bfloat16", "list"]), max_size=2,
    ),
)  # fmt: skip
@fuzz(0.05)
def test_a_torch_file_is_the_graph_in_it_or_refused(
    folder: Path, content: dict[str, Any], chosen: dict[str, Any], forms: dict[str, str]
) -> None:
    path = folder / "any graph.pt"
    torch.save({key: tensor_of(value, forms.get(key, "")) for key, value in content.items()}, path)
    with told() as errors:
        graph = load(path, **chosen)
        if "bfloat16" not in forms.values():
            agree(graph, content, chosen)
    if errors:
        assert "any graph.pt" in errors[0].message


fields = st.one_of(
    st.integers(0, 3).map(str),
    st.sampled_from(IDS).map(str),
    st.sampled_from(["", "nan", "NA", "1.0", "0.5", "1e400", "-0", "0x10", "1_0", '"1"', '"', "a", "True", "inf", " 2", "2 ", "1,1", "1;2", "ä", "\0", "#", "'3"]),
)


def lines(columns: int) -> Any:
    row = st.lists(st.one_of(st.integers(0, 3).map(str), fields), min_size=columns, max_size=columns).map(",".join)
    return st.builds(
        lambda head, rows, end: end.join([head, *rows, ""]),
        st.sampled_from(["id,a,b", "id,a", "id", "a,a", "0,1", '"i\nd",a', ""]),
        st.lists(st.one_of(row, row, row, st.text(max_size=5)), max_size=5),
        st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    )


GOOD = {"features.csv": "id,a,b\n0,1,2\n1,2,3\n2,0,0\n3,1,1\n", "labels.csv": "id,class\n0,0\n1,1\n2,0\n3,1\n", "edges.csv": "a,b\n0,1\n1,2\n2,3\n"}


@given(
    st.dictionaries(st.sampled_from(sorted(GOOD)), st.one_of(lines(2), lines(3), st.none()), min_size=1, max_size=2),
    st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"]),
    parameters,
)
@fuzz(0.06)
def test_tables_are_the_graph_in_them_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, str | None], encoding: str, chosen: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("tables") / "any tables"
    folder.mkdir()
    texts = {**GOOD, **changes}
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_text(text, encoding=encoding if name in changes else "utf-8", newline="")
    with told() as errors:
        graph = load(folder, **chosen)
        # Whatever came out as an id stands in the file, to the last digit.
        home = texts["features.csv"] if texts["features.csv"] is not None else texts["labels.csv"]
        assert home is not None
        for number in graph.ids.tolist():
            assert str(number) in home
    if errors:
        assert "any tables" in errors[0].message


damage = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=4), st.booleans()), min_size=1, max_size=3)


@given(st.sampled_from(["g.pt", "g.npz"]), damage)
@fuzz(0.05)
def test_a_damaged_file_is_the_graph_that_was_saved_or_refused(
    folder: Path, name: str, changes: list[tuple[float, bytes, bool]]
) -> None:
    tensors = user_graph()
    buffer = io.BytesIO()
    if name == "g.pt":
        torch.save(tensors, buffer)
    else:
        np.savez(buffer, **{key: value.numpy() for key, value in tensors.items()})
    content = buffer.getvalue()
    for where, new, cut in changes:
        at = int(where * len(content))
        content = content[:at] if cut else content[:at] + new + content[at + len(new) :]
    path = folder / name
    path.write_bytes(content)
    with told() as errors:
        graph = load(path)
        assert torch.equal(graph.x, tensors["x"])
        assert torch.equal(graph.y, tensors["y"])
        assert torch.equal(graph.edge_index, tensors["edge_index"])
    if errors:
        assert name in errors[0].message


@given(
    st.lists(st.sampled_from(IDS[:11]), min_size=9, max_size=11, unique=True),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=20),
    st.lists(st.integers(-1, 3), min_size=9, max_size=9),
    st.sampled_from(["sisa", "sharded[partitioner=hash,aggregator=mean]", "gif", "grapheraser"]),
    st.sampled_from(["gcn", "gat", "sage", "appnp", "jknet"]),
    st.sampled_from(["node", "edge"]),
)
@fuzz(0.04)
@pytest.mark.usefixtures("known_machine")
def test_a_small_odd_graph_gives_a_record_that_says_what_it_is(
    folder: Path, ids: list[int], edges: list[tuple[int, int]], labels: list[int], method: str,
    model: str, kind: str,
) -> None:  # fmt: skip
    path = folder / "odd.npz"
    count = 9
    np.savez(
        path, x=np.eye(count, 3), y=np.array(labels), ids=np.array(ids[:count]),
        edge_index=np.array(edges, dtype=np.int64).reshape(-1, 2).T,
    )  # fmt: skip
    settings = {"methods": [method], "datasets": [f"file:{path}"], "models": [model], "repetitions": 1, "epochs": 1}
    with told() as errors:
        shards = {} if method == "gif" else {"num_shards": 2}
        config = make_config(
            {**settings, **shards, "forget_count": 1, "forget_kind": kind, "out": folder / "out", "device": "cpu",
             "overwrite": "always"}
        )  # fmt: skip
        records = execute(make_plan(config, catalogue()))
        assert [record.error for record in records] == [None] * len(records)
        for record in records:
            assert record.requests[0]["count"] == 1
            if record.status == "ok":
                scores = record.metrics["f1_micro"]["shard"]
                assert all(value is not None and 0 <= value <= 1 for value in scores.values())
    if errors:
        assert errors[0].message
