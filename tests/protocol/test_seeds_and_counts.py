"""H11: another seed is another split and request, another count another request; no stored one is taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from command_line import ONCE, command, install

from unlearnbench.protocol import Forget, Protocol, protocol
from unlearnbench.records.record import read_record
from unlearnbench.records.store import Store
from unlearnbench.testing.graphs import toy_graph

__all__ = ["command", "install"]

TENTH = Forget(0.1)


def test_through_the_command_line(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("run", "-m", "steady", *ONCE, "--no-reference", "--out", str(out))
    drawn: dict[tuple[str, ...], tuple[str, str, int]] = {}
    for extra in (
        (),
        ("--set", "seed=1"),
        ("--forget-count", "2"),
        ("--forget-count", "3"),
        ("--forget-count", "3", "--set", "seed=1"),
    ):
        before = set(out.glob("records/*/*/*/*.json"))
        told = command(*arguments, *extra)
        assert told.code == 0
        assert "0 were there already" in told.err
        (path,) = set(out.glob("records/*/*/*/*.json")) - before
        record = read_record(path)
        arrays = Store(out, record.machine).arrays(record)
        (request,) = record.requests
        assert request["count"] == len(arrays["forgotten"])
        drawn[extra] = (request["ids_sha256"], arrays["test"].tobytes().hex(), request["count"])
    assert len({digest for digest, _, _ in drawn.values()}) == len(drawn)
    splits = {test for _, test, _ in drawn.values()}
    assert len(splits) == 2
    assert [count for _, _, count in drawn.values()] == [1, 1, 2, 3, 3]


def test_split_and_request_depend_on_seed_dataset_and_repetition_alone():
    graph = toy_graph(num_nodes=400)

    def drawn(base, dataset, repetition, forget=TENTH):
        parts = protocol.split(graph, base, dataset, repetition)
        wanted = Protocol(forget=forget)
        return protocol.request(wanted, graph, parts.train, base, dataset, repetition)

    first = drawn(0, "toy", 0)
    assert torch.equal(first.ids, drawn(0, "toy", 0).ids)
    others = [drawn(1, "toy", 0), drawn(0, "other", 0), drawn(0, "toy", 1), drawn(0, "toy", 0, Forget(None, 41))]
    assert len({first.sha256(), *(other.sha256() for other in others)}) == 5
