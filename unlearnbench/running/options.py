"""The options of a run: one row each with its type, default and help.

The command line, run files and `unlearnbench.run` are all made from this table; `config` checks the values.
The module is light: `unlearnbench run --help` reads it and loads no pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import Ge, Gt, Le

# Beyond these a number is a slip of the hand, and memory or the thread library would give up without a word.
MAX_REPETITIONS = 10_000
MAX_THREADS = 1024
MAX_STREAM = 10_000
# Each grid is held in memory and looked up cell by cell; the largest published comparison has some thousand cells.
MAX_CELLS = 100_000

ALTERNATIVES = ({"forget_ratio", "forget_count", "forget"}, {"repetitions", "seeds"})
"""Settings that say the same thing in different ways."""

AUDIT_DEFAULTS: Mapping[str, Any] = {"repetitions": 1, "forget_ratio": 0.05}
"""The defaults of audits, where they are not those of runs."""

TUNED = "tuned"
"""The protocol whose methods have the values that `unlearnbench tune` chose."""

Name = str | dict[str, Any]
Count = Annotated[int, Ge(1)]


@dataclass(frozen=True)
class Flag:
    """How an option looks on the command line.

    Args:
        help: One sentence.
        names: The flags, if they are not `--name-of-the-field`.
        metavar: What stands for the value.
        shown: The default as `--help` shows it, if it is not the field's own; empty: none is shown.
        reads: Which reader of `cli.options` reads the text, where the type alone does not say.
        commands: The commands that have the option.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    shown: str | None = None
    reads: str = ""
    commands: tuple[str, ...] = ("run", "audit")


def option(default: Any, help: str, **look: Any) -> Any:
    """Declare an option: its default, its help and how it looks on the command line (see `Flag`)."""
    metadata = {"flag": Flag(help, **look)}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Every option of a run, in the order of `--help`.

    An entry of `methods`, `datasets` or `models` is a bracket, or a table whose lists are
    multiplied out: `{name = "graphrevoker", sem_weight = [0, 1]}`.
    """

    methods: list[Name] = option(
        [],
        "Methods, with commas: sisa,graphrevoker[sem_weight=0]; mine=METHOD gives one an alias; all.",
        names=("--methods", "-m"),
        metavar="NAMES",
    )
    datasets: list[Name] = option(["digits"], "Datasets.", names=("--datasets", "-d"), metavar="NAMES")
    models: list[Name] = option(["gcn"], "Base models.", metavar="NAMES")
    repetitions: Annotated[int, Ge(1), Le(MAX_REPETITIONS)] = option(3, "How many repetitions, 0 to R-1.")
    seeds: list[int] | None = option(
        None, "Which repetitions, instead of their number: 3,4. Can be repeated.", metavar="LIST", reads="integers"
    )
    protocol: Literal["www24", "poison", "tuned"] = option(
        "www24",
        "Forget training nodes, with one recipe for all methods; poison: wrong nodes, features, labels or edges, which"
        " are made first; tuned: as www24, with the values that `tune` chose for each method.",
    )
    tuned: Path | None = option(
        None, "Tuned values for --protocol tuned.", metavar="FILE", shown="those of the package"
    )
    setting: Literal["inductive", "transductive"] = option(
        "inductive",
        "Train on the training nodes and the edges among them, or pass messages over all nodes and hide the labels of"
        " the others.",
    )
    forget_ratio: float | None = option(
        None,
        "Share of all nodes to forget. `run` takes several: 0.005,0.05.",
        metavar="SHARE",
        shown="0.005",
        reads="shares",
    )
    forget_count: int | None = option(
        None, "Number of nodes to forget. `run` takes several: 1,10.", metavar="NUMBER", reads="integers"
    )
    forget_kind: Literal["node", "edge", "feature"] = option(
        "node", "What is forgotten; features of nodes become zero, and the nodes and their edges stay."
    )
    forget: list[int] | list[tuple[int, int]] | None = option(
        None,
        "The nodes to forget, or whose features, 3,17; edges: 3-17,4-5; single features by node and column: 3:0,17:2;"
        " @FILE: those in a text, .npy or .json file. Repeated, it adds to the one request.",
        metavar="IDS",
        reads="texts",
    )
    stream: Annotated[int, Ge(2), Le(MAX_STREAM)] | None = option(
        None,
        "Make K requests of this size, one after the other; metrics and counts are recorded after each.",
        metavar="K",
        commands=("run",),
    )
    num_shards: Count | None = option(None, "Shards of every sharded method.", shown="20")
    epochs: Count | None = option(None, "Epochs of training.", shown="100")
    batch_size: Count | None = option(
        None,
        "Nodes of a step, with neighbours sampled as training.fanouts says.",
        metavar="N",
        shown="the whole shard",
    )
    train: Literal["lockstep", "one-by-one"] = option(
        "lockstep", "Train networks together, or one by one to time each."
    )
    set: dict[str, Any] = option(
        {},
        "training.lr, .weight_decay or .fanouts, model.PARAMETER, poison.nodes, .edges, .manipulation or .known, seed.",
        metavar="KEY=VALUE",
        reads="assignments",
    )
    out: Path = option(Path("runs"), "Folder of the records.", metavar="DIR")
    data_root: Path | None = option(
        None, "Where datasets lie.", metavar="DIR", shown="UNLEARNBENCH_DATA, else your cache folder"
    )
    offline: bool = option(False, "Download nothing; UNLEARNBENCH_OFFLINE=1 says the same.")
    skip_missing: bool = option(False, "Leave out datasets that cannot be had, and say which.")
    split: int | Literal["folds"] | None = option(
        None,
        "Which split of the masks in file:PATH, or folds for the harness's own.",
        metavar="K",
        reads="split_choice",
    )
    device: str = option("auto", "auto, cpu, cuda or cuda:INDEX.", metavar="DEVICE")
    threads: Annotated[int, Ge(1), Le(MAX_THREADS)] = option(1, "Threads of torch.")
    deterministic: bool = option(False, "Fail, naming it, where an operation may give other bits each time (on a GPU).")
    overwrite: Literal["only-missing", "busy", "never", "always"] = option(
        "only-missing", "What to compute again; busy: also what was timed on a busy machine."
    )
    isolate: bool | None = option(
        None,
        "Give each cell a process of its own, without labels to score with; by default those of methods and models"
        " from other packages.",
        names=("--isolate/--no-isolate",),
    )
    cell_timeout: Annotated[float, Gt(0)] | None = option(
        None, "End a cell that takes longer, starting up included; implies --isolate.", metavar="SECONDS"
    )
    jobs: Count = option(1, "Run N cells at once; more than 1 implies --isolate, and gives no times.", metavar="N")
    backend: Literal["local", "dask"] = option(
        "local", "Run cells here, or on the workers of a dask cluster, which gives no times."
    )
    scheduler: str | None = option(
        None, "The scheduler of the cluster, for --backend dask: tcp://HOST:8786.", metavar="ADDRESS"
    )
    distribute: Literal["cells", "members"] = option(
        "cells", "What workers are given: cells, or the members of one cell after the other."
    )
    shard: tuple[int, int] | None = option(
        None, "Run the I-th of N parts of the cells, for array jobs that share --out.", metavar="I/N", reads="text"
    )
    progress: bool = option(True, "Show no progress while cells are computed.", names=("--no-progress",))
    disable_plugins: list[str] = option(
        [],
        "Do not even import this plugin or distribution. Can be repeated.",
        names=("--disable-plugin",),
        metavar="NAME",
    )
    reference: bool = option(True, "Do not run Retrain along.", names=("--no-reference",), commands=("run",))
    log: Literal["curves"] | None = option(
        None,
        "Keep the loss and the validation F1 of each network after each epoch beside the record, which gives no times;"
        " a record that is there stays as it is.",
        commands=("run",),
    )
    save_state: Path | None = option(
        None,
        "Keep weights, forgotten ids, split and partition here, as DIR/KEY.pt.",
        metavar="DIR",
        commands=("run",),
    )


OPTIONS: Mapping[str, Flag] = {each.name: each.metadata["flag"] for each in fields(RunOptions)}
"""The rows by name, the key of a run file."""


@cache
def option_types() -> dict[str, Any]:
    """Return the type of each option, limits included."""
    return get_type_hints(RunOptions, include_extras=True)


def with_defaults(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Add defaults for what no value says, in this way or another."""
    filled = dict(values)
    for key, value in defaults.items():
        group = next((group for group in ALTERNATIVES if key in group), {key})
        if not group & values.keys() and not (key == "forget_ratio" and values.get("protocol") == "poison"):
            filled[key] = value
    return filled


def option_default(name: str) -> Any:
    """Return the default of an option."""
    return getattr(RunOptions(), name)
