"""What fuzzing and reading for it found, each input as plain as it can be."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_samples import saved, tables, user_graph
from record_samples import make_record

from unlearnbench.component import canonical_json
from unlearnbench.datasets.base import data_root, load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError, NothingMatchedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.records.record import DamagedRecordError, read_record
from unlearnbench.records.store import Store
from unlearnbench.registry.brackets import parse_bracket
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report import load_records
from unlearnbench.report.tables.render import csv_text
from unlearnbench.running.config import RunConfig, make_config, read_run_file
from unlearnbench.running.plan import make_plan


def load(path: Path, **parameters: Any) -> Graph:
    return load_graph(File(File.Params(path=str(path), **parameters)), Path("unused"))


def archive(path: Path, **changes: Any) -> Path:
    arrays = {key: value.numpy() for key, value in user_graph().items()}
    np.savez(path, **{**arrays, **changes})
    return path


# Brackets and run files


def test_brackets_in_brackets_have_an_end() -> None:
    with pytest.raises(UsageError, match="deep, at character"):
        parse_bracket("a[b=" * 5000 + "1" + "]" * 5000)
    assert parse_bracket("a[b=" * 20 + "1" + "]" * 20)


@pytest.mark.parametrize("value", ["a\nb", "a\rb"])
def test_a_value_that_no_bracket_can_hold_is_refused(value: str) -> None:
    config = make_config({"datasets": [{"name": "file", "path": value}]})
    with pytest.raises(UsageError, match=r"holds a line break") as caught:
        config.brackets(config.datasets)
    assert "'path'" in caught.value.message


def test_lists_in_a_table_in_a_table_are_multiplied_out_too() -> None:
    config = RunConfig(
        methods=[{"name": "sharded", "partitioner": {"name": "bekm", "slack": [0, 0.5]}, "num_shards": [2, 3]}]
    )
    assert [str(bracket) for bracket in config.brackets(config.methods)] == [
        f"sharded[partitioner=bekm[slack={slack}],num_shards={shards}]" for slack in ("0", "0.5") for shards in (2, 3)
    ]


def test_a_table_does_not_override_its_own_bracket() -> None:
    config = RunConfig(methods=[{"name": "sisa[slices=2]", "slices": 3}])
    with pytest.raises(UsageError, match="'slices' is given twice"):
        config.brackets(config.methods)


@pytest.mark.parametrize("text", ["seed = " + "9" * 5000, "x = " + "[" * 5000, "set." + "a." * 3000 + "b = 1"])
def test_a_run_file_too_long_or_too_deep_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"run\.toml"):
        read_run_file(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"repetitions": 10**12}, "repetitions = 1000000000000"),
        ({"threads": 10**9}, "threads = 1000000000"),
        ({"seeds": [2**70]}, "seeds"),
        ({"forget": [2**70]}, "not the id of a node"),
        ({"forget": [(1, -(2**70))], "forget_kind": "edge"}, "not the id of a node"),
        ({"out": "a\0b"}, "null character"),
        ({"save_state": "a\0b"}, "null character"),
        ({"data_root": "a\0b"}, "null character"),
    ],
)
def test_a_setting_that_memory_or_a_library_would_choke_on_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        make_config(settings)
    assert caught.value.hint


def test_a_seed_has_64_bits() -> None:
    assert make_config({"set": {"seed": 2**63 - 1}}).base_seed() == 2**63 - 1
    with pytest.raises(UsageError, match="out of range"):
        make_config({"set": {"seed": 2**63}}).base_seed()


# Graph files


@pytest.mark.parametrize("path", ["x" * 300, "~nobody-of-that-name/g.pt"])
def test_a_path_that_cannot_be_is_told(path: str) -> None:
    with pytest.raises(DataError, match=path[:20]):
        load(Path(path))
    assert "not there" in File(File.Params(path="x" * 300)).presence(Path())
    with pytest.raises(DataError, match="cannot be used"):
        data_root(Path("~nobody-of-that-name/data"))
    with pytest.raises(DataError, match="cannot be used"):
        data_root(Path("x" * 300))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_unsigned_numbers_are_numbers(kind: Any, tmp_path: Path) -> None:
    plain = user_graph()
    whole = {name: plain[name].numpy().astype(kind) for name in ("y", "edge_index")}
    ids = np.arange(40).astype(kind)
    found = load(archive(tmp_path / "g.npz", **whole, ids=ids, num_classes=kind(2)))
    assert found.checksum() == load(archive(tmp_path / "h.npz")).checksum()


def test_an_id_beyond_64_bits_with_a_sign_is_refused_and_not_wrapped(tmp_path: Path) -> None:
    ids = np.arange(40, dtype=np.uint64)
    ids[3] = 2**63 + 5
    with pytest.raises(DataError, match=f"ids holds {2**63 + 5}"):
        load(archive(tmp_path / "g.npz", ids=ids))
    folder = tables(tmp_path / "t", "", f"id,class\n1,0\n{2**63 + 5},1\n", "a,b\n1,1\n")
    with pytest.raises(DataError, match=rf"labels\.csv, row 3: '{2**63 + 5}' is not the id"):
        load(folder, features="constant")


@pytest.mark.parametrize("label", [np.inf, 2.0**62, 1e300])
def test_a_label_that_is_no_class_is_refused(label: float, tmp_path: Path) -> None:
    y = user_graph()["y"].numpy().astype(np.float64)
    y[5] = label
    with pytest.raises(DataError, match="in row 5"):
        load(archive(tmp_path / "g.npz", y=y))
    folder = tables(tmp_path / "t", "", f"id,class\n1,0\n2,{label}\n", "a,b\n1,1\n")
    with pytest.raises(DataError, match="in row 1"):
        load(folder, features="constant")
    with pytest.raises(DataError, match="num_classes is 4611686018427387904"):
        load(archive(tmp_path / "g.npz", num_classes=2**62))


def test_tensors_of_other_kinds_become_plain_or_are_refused(tmp_path: Path) -> None:
    plain = user_graph()
    wanted = load(saved(tmp_path / "g.pt")).checksum()
    others = {"x": torch.nn.Parameter(plain["x"]), "edge_index": plain["edge_index"].to_sparse()}
    found = load(saved(tmp_path / "g.pt", **others))
    assert found.checksum() == wanted
    assert not found.x.requires_grad
    with pytest.raises(DataError, match=r"g\.pt: y holds no plain numbers"):
        load(saved(tmp_path / "g.pt", y=plain["y"].to("meta")))


@pytest.mark.parametrize("edges", [torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.complex64)])
def test_edges_are_whole_numbers(edges: torch.Tensor, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="edge_index is torch"):
        load(saved(tmp_path / "g.pt", edge_index=edges))


def test_masks_without_a_column_hold_no_split(tmp_path: Path) -> None:
    masks = {name: torch.zeros(40, 0, dtype=torch.bool) for name in ("train_mask", "val_mask", "test_mask")}
    with pytest.raises(DataError, match="no split"):
        load(saved(tmp_path / "g.pt", **masks))


@pytest.mark.parametrize("name", ["g.pt", "g.npz"])
def test_a_changed_byte_in_the_numbers_is_found(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / name) if name == "g.pt" else archive(tmp_path / name)
    content = bytearray(path.read_bytes())
    content[bytes(content).index(user_graph()["x"].numpy().tobytes()) + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=name):
        load(path)


def test_an_archive_that_asks_for_more_memory_than_there_is_is_named(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    with zipfile.ZipFile(path, "w") as made:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
        header += b" " * (117 - len(header)) + b"\n"
        made.writestr("y.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(DataError, match=r"g\.npz cannot be read"):
        load(path)


def test_rows_longer_than_the_heading_are_not_shifted(tmp_path: Path) -> None:
    # With 0, 1, ... in front pandas takes the first column for the numbers of the rows.
    folder = tables(tmp_path / "t", "id,a\n0,10,5\n1,11,6\n", "id,class\n10,0\n11,1\n", "a,b\n10,11\n")
    with pytest.raises(DataError, match=r"features\.csv: rows have more fields than the heading"):
        load(folder)


@pytest.mark.parametrize(("wrong", "row"), [("2.5", 4), ("two", 4), ("", 4), ("99999999999999999999", 4)])
def test_the_row_with_the_wrong_id_is_the_one_named(wrong: str, row: int, tmp_path: Path) -> None:
    folder = tables(tmp_path / "t", "", f"id,class\n0,0\n1,1\n{wrong},0\n", "a,b\n0,1\n")
    with pytest.raises(DataError, match=rf"labels\.csv, row {row}: .* is not the id"):
        load(folder, features="constant")


def test_what_does_not_fit_a_graph_names_it_as_it_was_asked_for(tmp_path: Path) -> None:
    path = saved(tmp_path / "small.pt", nodes=9)
    config = make_config({"methods": ["retrain"], "datasets": [f"file:{path}"], "out": tmp_path, "device": "cpu"})
    with pytest.raises(UsageError, match=r"Dataset file\[path=.*small\.pt\]: there are 9 labelled nodes"):
        make_plan(config, load_catalogue())


# Records


def test_every_record_has_a_checksum_and_a_changed_digit_is_found(tmp_path: Path) -> None:
    path = Store(tmp_path, "m-0001").save(make_record(shard=0.8125))
    text = path.read_text()
    assert len(json.loads(text)["checksum"]) == 64
    path.write_text(text.replace("0.8125", "0.9125"))
    with pytest.raises(DamagedRecordError, match="its checksum is another") as caught:
        read_record(path)
    assert str(path) in caught.value.message
    # Laid out in another way it says the same.
    path.write_text(json.dumps(json.loads(text)))
    assert read_record(path) == make_record(shard=0.8125)


def test_a_record_from_before_there_were_checksums_is_read_and_its_cell_is_held_against_its_key(tmp_path: Path) -> None:
    path = Store(tmp_path, "m-0001").save(make_record())
    plain = json.loads(path.read_text())
    del plain["checksum"]
    path.write_text(json.dumps(plain))
    assert read_record(path) == make_record()
    plain["cell"]["repetition"] = 7
    path.write_text(json.dumps(plain))
    with pytest.raises(DamagedRecordError, match="its key is that of another cell"):
        read_record(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("cell.protocol.split", [0.7, None, 0.1]),
        ("cell.protocol.split", "mine"),
        ("cell.protocol.forget", 3),
        ("cell.protocol.forget.ratio", "=1"),
        ("cell.training", "fast"),
        ("cell.method.params", []),
        ("cell.repetition", 2**70),
        ("provenance.packages", ["torch"]),
        ("provenance.readings", 1),
        ("partition", {"sizes": ["a"]}),
    ],
)
def test_a_record_whose_parts_have_another_shape_is_named(place: str, value: Any, tmp_path: Path) -> None:
    plain = json.loads(make_record().to_json())
    del plain["checksum"]
    holder = plain
    *head, last = place.split(".")
    for key in head:
        holder = holder[key]
    holder[last] = value
    plain["key"] = hashlib.sha256(canonical_json(plain["cell"]).encode()).hexdigest()
    path = tmp_path / "records/m/d/x" / f"{plain['key']}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(plain))
    with pytest.raises(DamagedRecordError, match=path.name):
        read_record(path)
    with pytest.warns(UserWarning, match=path.name), pytest.raises(NothingMatchedError, match=path.name):
        load_records(tmp_path)


def test_half_a_surrogate_pair_is_written_as_text() -> None:
    import pandas as pd

    assert csv_text(pd.DataFrame({"a": ["\udc80"]})) == "a\n\\udc80\n"


def test_a_file_whose_parts_have_other_names_in_its_directory_is_damaged(tmp_path: Path) -> None:
    """Torch reads such a file, whatever else in it is damaged."""
    path = saved(tmp_path / "g.pt")
    content = bytearray(path.read_bytes())
    content[32] ^= 0x80  # in the first name
    content[len(content) // 4] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"g\.pt"):
        load(path)
