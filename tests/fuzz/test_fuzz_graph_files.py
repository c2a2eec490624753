"""Graph files of any content: the graph that stands in them, number for number, or an error that names the file."""

from __future__ import annotations

import io
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzzing import catalogue, fuzz, known_machine, told
from graph_samples import user_graph
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.datasets.base import describe, load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.graph import Graph
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import make_plan

pytestmark = pytest.mark.slow

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
any_numbers = st.sampled_from(NUMBERS)
shapes = st.sampled_from(
    [(n,), (n, 1), (n, 2), (2, n), (2, 0), (0,), (0, 2), (n, 0), (n + 1,), (), (n, 1, 1), (1, n), (1,)]
)
any_array = arrays(shapes, any_numbers, [*INTEGERS, *FLOATS, *OTHERS])
distinct = {"min_size": n, "max_size": n, "unique": True}
usual = st.fixed_dictionaries(
    {
        "y": arrays(st.just((n,)), st.integers(0, 2), [*INTEGERS, *FLOATS]),
        "edge_index": arrays(st.sampled_from([(2, 5), (2, 0)]), st.integers(0, n - 1), [*INTEGERS, "float64"]),
        "x": arrays(st.sampled_from([(n, 2), (n,)]), st.integers(-5, 5) | st.floats(-2, 2), [*INTEGERS, *FLOATS]),
    },
    optional={
        "ids": st.one_of(
            st.lists(st.sampled_from(IDS[:11]), **distinct).map(lambda ids: np.array(ids, dtype=np.int64)),
            st.lists(st.sampled_from(IDS[:8]), **distinct).map(lambda ids: np.array(ids, dtype=np.uint64)),
        ),
        "num_classes": arrays(st.sampled_from([(), (1,)]), st.integers(3, 9), INTEGERS),
    },
)
split = st.just({"train_mask": np.arange(n) < 3, "val_mask": np.arange(n) == 3, "test_mask": np.arange(n) > 3})
NAMES = ["y", "edge_index", "x", "ids", "num_classes", "train_mask", "val_mask", "odd name"]
contents = st.builds(
    lambda good, masks, odd: {**good, **masks, **odd},
    usual,
    st.one_of(st.just({}), split),
    st.one_of(st.just({}), st.dictionaries(st.sampled_from(NAMES), any_array, min_size=1, max_size=2)),
)
parameters = st.fixed_dictionaries(
    {},
    optional={
        "features": st.sampled_from(["given", "degree", "constant"]),
        "undirected": st.booleans(),
        "split": st.sampled_from(["folds", "folds", None, 0, 1, -1, 2**70]),
    },
)


def agree(graph: Graph, content: dict[str, Any], chosen: dict[str, Any]) -> None:
    """Compare a graph with what stood in its file, value by value in plain Python."""
    labels = [
        value if math.isfinite(value) and value >= 0 else -1 for value in map(float, content["y"].reshape(-1).tolist())
    ]
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
        column = {
            name: content[f"{name}_mask"].reshape(len(labels), -1)[:, chosen.get("split") or 0]
            for name in ("train", "val", "test")
        }
        for name, ids in zip(column, graph.split.parts().values(), strict=True):
            assert ids.tolist() == sorted(np.array(graph.ids.tolist())[column[name].astype(bool)].tolist())


@given(contents, parameters)
@fuzz(0.10)
def test_an_archive_of_arrays_is_the_graph_in_it_or_refused(
    folder: Path, content: dict[str, Any], chosen: dict[str, Any]
) -> None:
    path = folder / "any graph.npz"
    np.savez(path, **{key.replace(" ", "_"): value for key, value in content.items()})
    with told("archives") as errors:
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
    if form == "sparse" and tensor.dim() > 0 and values.dtype.kind != "u":
        return tensor.to_sparse()
    if form == "grad" and (tensor.is_floating_point() or tensor.is_complex()):
        return torch.nn.Parameter(tensor)
    if form == "meta":
        return tensor.to("meta")
    return tensor.to(torch.bfloat16) if form == "bfloat16" and not tensor.is_complex() else tensor


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
    with told("torch files") as errors:
        graph = load(path, **chosen)
        if "bfloat16" not in forms.values():
            agree(graph, content, chosen)
    if errors:
        assert "any graph.pt" in errors[0].message


fields = st.one_of(
    st.integers(0, 3).map(str),
    st.sampled_from(IDS).map(str),
    st.sampled_from(
        [
            "",
            "nan",
            "NA",
            "1.0",
            "0.5",
            "1e400",
            "-0",
            "0x10",
            "1_0",
            '"1"',
            '"',
            "a",
            "True",
            "inf",
            " 2",
            "2 ",
            "1,1",
            "1;2",
            "ä",
            "\0",
            "#",
            "'3",
        ]
    ),
)


def lines(columns: int) -> Any:
    row = st.lists(st.one_of(st.integers(0, 3).map(str), fields), min_size=columns, max_size=columns).map(",".join)
    return st.builds(
        lambda head, rows, end: end.join([head, *rows, ""]),
        st.sampled_from(["id,a,b", "id,a", "id", "a,a", "0,1", '"i\nd",a', ""]),
        st.lists(st.one_of(row, row, row, st.text(max_size=5)), max_size=5),
        st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    )


GOOD = {
    "features.csv": "id,a,b\n0,1,2\n1,2,3\n2,0,0\n3,1,1\n",
    "labels.csv": "id,class\n0,0\n1,1\n2,0\n3,1\n",
    "edges.csv": "a,b\n0,1\n1,2\n2,3\n",
}


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
    with told("tables") as errors:
        graph = load(folder, **chosen)
        # Whatever came out as an id stands in the file, to the last digit.
        home = texts["features.csv"] if texts["features.csv"] is not None else texts["labels.csv"]
        assert home is not None
        for number in graph.ids.tolist():
            assert str(number) in home
    if errors:
        assert "any tables" in errors[0].message


damage = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=4), st.booleans()), min_size=1, max_size=3
)


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
    with told("damaged graphs") as errors:
        graph = load(path)
        assert torch.equal(graph.x, tensors["x"])
        assert torch.equal(graph.y, tensors["y"])
        assert torch.equal(graph.edge_index, tensors["edge_index"])
    if errors:
        assert name in errors[0].message


count = 14
odd_ids = st.lists(
    st.one_of(st.sampled_from(IDS[:11]), st.integers(-(2**63), 2**63 - 1)), min_size=count, max_size=count, unique=True
)
odd_edges = st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=30)
odd_labels = st.lists(st.sampled_from([0, 0, 1, 2, 2, 4, -1]), min_size=count, max_size=count)


@given(
    odd_ids,
    odd_edges,
    odd_labels,
    st.sampled_from(["sisa", "sharded[partitioner=hash,aggregator=mean]", "gif", "grapheraser", "sisa[slices=2]"]),
    st.sampled_from(["gcn", "gat", "sage", "appnp", "jknet"]),
    st.sampled_from(["node", "node", "edge"]),
)
@fuzz(0.04)
@pytest.mark.usefixtures("known_machine")
def test_a_small_odd_graph_gives_a_record_that_says_what_it_is(
    folder: Path, ids: list[int], edges: list[tuple[int, int]], labels: list[int], method: str, model: str, kind: str
) -> None:
    path = folder / "odd.npz"
    shutil.rmtree(folder / "out", ignore_errors=True)
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    np.savez(path, x=np.eye(count, 3), y=np.array(labels), ids=np.array(ids), edge_index=pairs)
    shards = {} if method == "gif" else {"num_shards": 2}
    with told("runs of odd graphs") as errors:
        config = make_config(
            {"methods": [method], "datasets": [f"file:{path}"], "models": [model], "repetitions": 1, "epochs": 1,
             "forget_count": 1, "forget_kind": kind, "out": folder / "out", "device": "cpu", "overwrite": "always",
             "offline": True, **shards}
        )  # fmt: skip
        plan = make_plan(config, catalogue())
        records = execute(plan)
        assert [record.error for record in records] == [None] * len(records)
        for record in records:
            assert record.requests[0]["count"] == 1
            arrays = plan.store.arrays(record)
            known = {number for number, label in zip(ids, labels, strict=True) if label >= 0}
            assert set(arrays["train"].tolist()) | set(arrays["val"].tolist()) | set(arrays["test"].tolist()) == known
            assert set(arrays["forgotten"].reshape(-1).tolist()) <= set(arrays["train"].tolist())
            if record.status == "ok":
                scores = record.metrics["f1_micro"]["shard"]
                assert all(value is not None and 0 <= value <= 1 for value in scores.values())
    if errors:
        assert "odd.npz" in errors[0].message or "does not forget" in errors[0].message
