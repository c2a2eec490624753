"""C4: unlearning time is what serving this request took, whole; how many shards were trained again stands beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import command, csv_rows, install, records_of
from measure_samples import clock_by_hand
from plugin_samples import Write
from record_samples import make_record

from unlearnbench.protocol.protocol import split
from unlearnbench.records.record import Record
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import csv_text
from unlearnbench.testing.graphs import toy_graph

__all__ = ["clock_by_hand", "command", "install"]

pytestmark = pytest.mark.usefixtures("clock_by_hand")

TICKING = """
import torch
from measure_samples import CLOCK
from ub_toys import Steady

from unlearnbench import Aggregator, Partitioner, Sharded, hookimpl


class ById(Partitioner):
    '''The last digit in base S.'''

    name = "by-id"
    node_by_node = True
    uses_data = False
    may_be_empty = True

    def partition(self, task, num_shards):
        CLOCK.move(3)
        return task.graph.ids % num_shards


class Learning(Aggregator):
    name = "learning"
    sample = 10

    def fit(self, task, members, graph):
        CLOCK.move(0.05)

    def combine(self, members):
        return members.log_probabilities()[members.voting].exp().mean(dim=0).log()


class Ticking(Sharded):
    '''A tenth of a second a shard.'''

    name = "ticking"

    def train_members(self, task, graphs, shards):
        CLOCK.move(0.1 * len(graphs))
        return super().train_members(task, graphs, shards)


class Dealing(Ticking):
    '''Deals the retained nodes into shards anew.'''

    name = "dealing"

    def unlearn(self, request, retained):
        self.params.partitioner.build().partition(retained, self.num_shards)
        super().unlearn(request, retained)


class PutOff(Steady):
    '''Does a tenth of a second of its work when it is first asked.'''

    name = "put-off"
    pending = False

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        CLOCK.move(0.1)
        self.pending = True

    def work(self):
        if self.pending:
            CLOCK.move(0.1)
            self.pending = False

    def predict(self, query):
        self.work()
        CLOCK.move(0.01)
        return super().predict(query)


class Hiding(PutOff):
    name = "hiding"

    def state(self):
        self.work()
        return super().state()


@hookimpl
def register_partitioners(register):
    register(ById)


@hookimpl
def register_aggregators(register):
    register(Learning)


@hookimpl
def register_unlearners(register):
    for cls in (Ticking, Dealing, PutOff, Hiding):
        register(cls)
"""
PARTS = "num_shards={},partitioner=by-id,aggregator=learning"
TRAIN = split(toy_graph(100, first_id=5000), 0, "toy", 0).train.tolist()
ONCE = ("-d", "toy", "--epochs", "1", "--repetitions", "1", "--no-reference")


@pytest.fixture
def forgetting(command: Any, install: Write, tmp_path: Path) -> Any:
    """Give a function that runs a method with a request, and gives its record."""
    install("ub-ticking", TICKING)

    def run(method: str, ids: list[int]) -> Record:
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        told = command("run", "-m", method, *ONCE, "--forget", ",".join(map(str, ids)), "--out", str(out))
        assert told.code == 0, told.err
        ((_, record),) = records_of(out).items()
        assert record.status == "ok", record.notes
        return record

    return run


def chosen(shards: list[int], num_shards: int = 4) -> list[int]:
    """One training node of each of these shards."""
    return [next(node for node in TRAIN if node % num_shards == shard) for shard in shards]


@pytest.mark.parametrize(
    ("shards", "hit"), [([2], 1), ([0, 1, 2, 3], 4), ([1, 3], 2)], ids=["all in one", "one in each", "in two"]
)
def test_the_time_is_that_of_the_shards_hit_and_of_the_aggregator(forgetting: Any, shards: list[int], hit: int) -> None:
    record = forgetting(f"ticking[{PARTS.format(4)}]", chosen(shards))
    assert record.counts["shards_hit"] == hit
    assert record.digests["members_changed"] == shards
    assert record.unlearn_seconds == pytest.approx(0.1 * hit + 0.05)
    seconds = {row["name"]: row["seconds"] for row in record.phases}
    assert seconds["unlearn/retrain"] == pytest.approx(0.1 * hit)
    assert seconds["unlearn/aggregate"] == pytest.approx(0.05)
    # What came before the request is timed apart.
    assert (seconds["partition"], seconds["train"]) == pytest.approx((3, 0.4))


def test_several_nodes_of_one_shard_hit_it_once(forgetting: Any) -> None:
    inside = [node for node in TRAIN if node % 4 == 2]
    record = forgetting(f"ticking[{PARTS.format(4)}]", inside[:5])
    assert (record.requests[0]["count"], record.counts["shards_hit"]) == (5, 1)
    assert record.unlearn_seconds == pytest.approx(0.15)


def test_a_shard_that_becomes_empty_is_hit_and_not_trained(forgetting: Any) -> None:
    record = forgetting(f"ticking[{PARTS.format(4)}]", [node for node in TRAIN if node % 4 == 2])
    assert record.counts["shards_hit"] == 1
    assert record.unlearn_seconds == pytest.approx(0.05)


def test_partitioning_again_is_part_of_the_time(forgetting: Any) -> None:
    assert forgetting(f"dealing[{PARTS.format(4)}]", chosen([2])).unlearn_seconds == pytest.approx(3 + 0.15)


def test_one_shard_is_a_number_of_shards_as_any_other(forgetting: Any) -> None:
    record = forgetting(f"ticking[{PARTS.format(1)}]", chosen([0], 1))
    assert (record.counts["shards_hit"], record.digests["members_changed"]) == (1, [0])
    assert record.unlearn_seconds == pytest.approx(0.15)


@pytest.mark.parametrize("method", ["put-off", "hiding"])
def test_work_put_off_until_after_the_request_is_charged(forgetting: Any, method: str) -> None:
    record = forgetting(method, TRAIN[:1])
    assert record.unlearn_seconds == pytest.approx(0.21)
    assert any("anew" in note for note in record.notes)


def test_a_graph_too_small_for_a_share_of_it_has_a_time_and_no_other_number(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install("ub-ticking", TICKING.replace("class ById", "class Twelve(Dataset):\n    name = 'twelve'\n\n"
            "    def load(self, root):\n        return toy_graph(12)\n\n\nclass ById").replace(
            "import torch\n", "from unlearnbench import Dataset\n"
            "from unlearnbench.testing.graphs import toy_graph\n", 1)
            + "\n\n@hookimpl\ndef register_datasets(register):\n    register(Twelve)\n")  # fmt: skip
    method = f"ticking[{PARTS.format(4)}]"
    arguments = ("-d", "twelve", "--epochs", "1", "--repetitions", "1", "--no-reference", "--out", str(tmp_path / "o"))
    told = command("run", "-m", method, *arguments, "--forget-ratio", "0.04")
    assert told.code == 2
    assert "rounds to none" in told.err
    assert command("run", "-m", method, *arguments, "--forget-ratio", "0.05").code == 0
    ((_, record),) = records_of(tmp_path / "o").items()
    assert (record.requests[0]["count"], record.counts["shards_hit"]) == (1, 1)
    # A shard of one node is retired, and none is trained; tables that count shards say so.
    assert record.counts["shards_retired"] == 1
    note = "of the shards hit, 1.0 were retired, all of their nodes being forgotten, on average over 1 repetitions"
    for name in ("summary", "time"):
        (table,) = build_tables(frame_of([record]), name)
        assert any(note in line for line in table.notes)
    assert "shards_retired" not in build_tables(frame_of([make_record(shards_hit=1)]), "time")[0].data
    assert record.unlearn_seconds in (pytest.approx(0.15), pytest.approx(0.05))


def test_what_was_not_measured_is_empty_and_a_time_of_zero_makes_no_ratio() -> None:
    records = [
        make_record(seconds=2.0),
        make_record("sisa", seconds=None),
        make_record("instant", seconds=0.0, shards_hit=0),
        make_record("failing", status="error", seconds=None),
    ]
    (table,) = build_tables(frame_of(records), "time")
    rows = {row["method"]: row for row in csv_rows(csv_text(table.data))}
    for method in ("sisa", "failing"):
        assert (rows[method]["unlearn_seconds_mean"], rows[method]["times_retrain"]) == ("", "")
        assert rows[method]["shards_hit"] == ""
    assert (rows["instant"]["unlearn_seconds_mean"], rows["instant"]["times_retrain"]) == ("0", "")
    assert rows["instant"]["shards_hit"] == "0"
    assert rows["retrain"]["times_retrain"] == "1"
    shown = table.shown.set_index("method")
    assert shown.loc["sisa", "unlearn s"] == ""
    assert shown.loc["retrain", "shards hit"] == ""


@pytest.mark.slow
def test_a_method_without_shards_has_no_number_of_shards(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command("run", "-m", "steady,gif", "-d", "toy", "--epochs", "2", "--repetitions", "1", "--out",
                   str(out)).code == 0  # fmt: skip
    for record in records_of(out).values():
        assert "shards_hit" not in record.counts
    for row in csv_rows(command("report", str(out), "--table", "time", "--format", "csv").out):
        assert row["shards_hit"] == ""
