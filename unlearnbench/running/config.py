"""What a run is: one model for the run file (TOML), the command line and `unlearnbench.run`."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.dataclasses import dataclass

from unlearnbench.errors import UsageError, nearest
from unlearnbench.protocol import Forget
from unlearnbench.protocol.poison import Poison
from unlearnbench.registry.brackets import DEEPEST, Bracket, split_names
from unlearnbench.running import grid, settings
from unlearnbench.running.forget_list import read_forget
from unlearnbench.running.options import MAX_CELLS, OPTIONS, Name, RunOptions
from unlearnbench.task import Training

AMOUNTS = ("forget_ratio", "forget_count")
"""The settings of which a run may have several values: one grid each."""
_RECIPE = ("training.epochs", "training.lr", "training.weight_decay")


@dataclass(config=ConfigDict(extra="forbid"), frozen=True, kw_only=True)
class RunConfig(RunOptions):
    """The options of a run, checked. A run file has the same keys."""

    @field_validator("methods", "datasets", "models", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return split_names([value]) if isinstance(value, str) else value

    @field_validator("forget", mode="before")
    @classmethod
    def _read_forget(cls, value: Any, info: ValidationInfo) -> Any:
        return read_forget(value, info.data.get("forget_kind", "node"))

    @field_validator(
        "repetitions", "seeds", "forget_ratio", "forget_count", "forget", "stream", "num_shards", "epochs",
        "batch_size", "threads", "cell_timeout", "jobs",
        mode="before",
    )  # fmt: skip
    @classmethod
    def _refuse_truth(cls, value: Any) -> Any:
        # Python counts true as 1.
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, bool):
                raise ValueError(f"{str(item).lower()} is no number")
        return value

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: list[int] | None) -> list[int] | None:
        if seeds is not None:
            twice = sorted(value for value, times in Counter(seeds).items() if times > 1)
            if twice or not seeds or min(seeds) < 0 or max(seeds) >= 2**31:
                what = f"{twice[0]} is named twice" if twice else "repetitions are numbers from 0 to 2^31 - 1"
                raise ValueError(what)
        return seeds

    @field_validator("shard", mode="before")
    @classmethod
    def _read_shard(cls, value: Any) -> Any:
        if value is None or isinstance(value, tuple):
            return value
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", value) if isinstance(value, str) else None
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError("expected i/n with 1 <= i <= n, such as 2/8")
        return int(match[1]), int(match[2])

    @property
    def is_isolated(self) -> bool:
        """Whether each cell has a process of its own."""
        return self.isolate is True or self.cell_timeout is not None or self.jobs > 1

    @field_validator("cell_timeout")
    @classmethod
    def _refuse_infinity(cls, seconds: float | None) -> float | None:
        if seconds is not None and not math.isfinite(seconds):
            raise ValueError("expected a finite number")
        return seconds

    @field_validator("out", "data_root", "save_state", "tuned")
    @classmethod
    def _check_path(cls, path: Path | None) -> Path | None:
        if path is not None and "\0" in str(path):
            raise ValueError("no path holds a null character")
        return path

    def check_backend(self) -> None:
        """Check that a cluster is named where one is to be used, and nowhere else.

        Raises:
            UsageError: A scheduler without `--backend dask` or the reverse, or `--jobs` with it; members
                to be distributed without it, or with settings that cannot hold for them.
        """
        if (self.backend == "dask") != (self.scheduler is not None):
            missing = "`scheduler` ADDRESS" if self.scheduler is None else "`backend` dask"
            raise UsageError(
                "`backend` dask and `scheduler` go together.", f"Add {missing}; the scheduler prints its address."
            )
        if self.backend == "dask" and self.jobs > 1:
            raise UsageError("`jobs` is for this machine.", "With `backend` dask the workers' threads say how many.")
        if self.distribute == "members":
            self._check_members()
        if self.log and self.overwrite == "busy":
            raise UsageError(
                "`overwrite` busy makes times anew, and `log` curves gives none.", "Run one after the other."
            )

    @property
    def keeps_records(self) -> bool:
        """Whether a cell that has a record is computed for its learning curves alone."""
        return self.log == "curves" and self.overwrite != "always"

    def _check_members(self) -> None:
        if self.backend != "dask":
            raise UsageError("`distribute` members needs a cluster.", "Add `backend` dask and `scheduler` ADDRESS.")
        for flag, is_given in (
            ("`isolate`", self.isolate is True),
            ("`cell_timeout`", self.cell_timeout is not None),
            ("`train` one-by-one", self.train == "one-by-one"),
            ("`log` curves", self.log is not None),
        ):
            if is_given:
                raise UsageError(
                    f"{flag} and `distribute` members exclude each other.",
                    "Cells are then computed in this process, and members on the workers: leave one of them out.",
                )

    def check_tuned(self) -> None:
        """Check that nothing sets what tuning chose.

        Raises:
            UsageError: A file of tuned values without their protocol, or a recipe beside it.
        """
        if self.protocol != "tuned":
            if self.tuned is not None:
                raise UsageError("`tuned` is for `protocol` tuned.", "Add `protocol` tuned, or leave `tuned` out.")
            return
        fixed = ["`epochs`"] if self.epochs is not None else []
        fixed += [f"`set` {key}" for key in self.set if key in _RECIPE]
        if fixed:
            raise UsageError(
                f"{fixed[0]} and `protocol` tuned exclude each other.",
                "Tuning chose the recipe: leave one of them out.",
            )

    def check_size(self, source: str, amounts: int = 1) -> None:
        """Check that the grid, for so many amounts to forget, is not too large, before anything is multiplied out.

        Raises:
            UsageError: It has more than `MAX_CELLS` cells; names the number of points on each axis.
        """
        repetitions = self.repetitions if self.seeds is None else len(self.seeds)
        axes = {"datasets": self.datasets, "models": self.models, "methods": self.methods}
        sizes = {**{name: grid.count(names) for name, names in axes.items()}, "repetitions": repetitions}
        sizes |= {} if amounts == 1 else {"amounts to forget": amounts}
        # An axis without points is reported later: the others must be bounded too.
        cells = math.prod(max(1, size) for size in sizes.values())
        if cells > MAX_CELLS:
            shown = "; ".join(f"{name} {_shown(size)}" for name, size in sizes.items())
            raise UsageError(
                f"{source}: {_shown(cells)} cells, more than the {MAX_CELLS:,} that one run may have ({shown}).",
                "Leave values out of the lists that are multiplied out, or write several run files.",
            )

    def repetition_numbers(self) -> list[int]:
        """List the repetitions."""
        return list(range(self.repetitions)) if self.seeds is None else list(self.seeds)

    def forget_amount(self) -> Forget:
        """Return what is to be forgotten."""
        if self.forget_ratio is None and self.forget_count is None and self.forget is None:
            return Forget(kind=self.forget_kind, stream=self.stream)
        ids = None if self.forget is None else tuple(self.forget)
        return Forget(self.forget_ratio, self.forget_count, ids, self.forget_kind, self.stream)  # type: ignore[arg-type]

    def training_settings(self) -> Training:
        """Return how networks are trained.

        Raises:
            UsageError: `set` names no setting of the training, or a value out of range.
        """
        return settings.training(
            self.set, one_by_one=self.train == "one-by-one", epochs=self.epochs, batch_size=self.batch_size
        )

    def poison(self) -> Poison | None:
        """Return what is made wrong; None: nothing is.

        Raises:
            UsageError: `set` names no setting of the poison, a value out of range, or one without that protocol;
                or nodes to forget are named as well.
        """
        if self.protocol != "poison":
            settings.check_no_poison(self.set)
            return None
        given = (self.forget_ratio, self.forget_count, self.forget, self.stream)
        if any(value is not None for value in given):
            raise UsageError(
                "`protocol` poison forgets what it injects or manipulates, in one request.",
                "Leave `forget_ratio`, `forget_count`, `forget` and `stream` out; `set` poison.nodes=N says how many.",
            )
        if self.forget_kind == "feature" and "poison.edges" in self.set:
            raise UsageError("`set` poison.edges: injected features have no edges.", "Leave it out.")
        found = settings.poison(self.set)
        kinds = {None: ("node", "feature"), "label": ("node",), "edge": ("edge",)}[found.manipulation]
        if self.forget_kind not in kinds:
            raise UsageError(
                f"`protocol` poison forgets what it injects or manipulates: {kinds[0]}s, not {self.forget_kind}s.",
                f"Use `forget_kind` {kinds[0]}; `set` poison.manipulation=edge is for edges.",
            )
        return found

    def base_seed(self) -> int:
        """Return the seed that every other one is derived from."""
        return settings.base_seed(self.set)

    def brackets(self, names: Sequence[Name], defaults: Mapping[str, Any] | None = None) -> list[Bracket]:
        """Read names and tables; multiply lists out."""
        lowest = {key: str(value) for key, value in (defaults or {}).items()}
        return [replace(one, arguments={**lowest, **one.arguments}) for one in grid.brackets(names)]

    def model_defaults(self) -> dict[str, Any]:
        """Return the parameters that `set` names for every model."""
        return {key.partition(".")[2]: value for key, value in self.set.items() if key.startswith("model.")}


def _shown(number: int) -> str:
    """Write a number of cells; Python refuses to write one of thousands of digits."""
    return f"{number:,}" if number < 10**15 else "more than 10^15"


def make_config(values: Mapping[str, Any], source: str = "the settings") -> RunConfig:
    """Check settings: keys of `RunConfig`, where a table under `set` may be nested (`[set.training]`) or dotted.

    Raises:
        UsageError: An unknown key or a value out of range; names source, key and what is right.
    """
    unknown = [key for key in values if key not in OPTIONS]
    if unknown:
        close = nearest(unknown[0], OPTIONS, 1)
        guess = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(f"{source}: unknown key {unknown[0]!r}.", f"{guess}Known: {', '.join(OPTIONS)}.")
    if values.get("seeds") is not None and "repetitions" in values:
        raise UsageError(f"{source}: seeds and repetitions are both given.", "Use one of them.")
    for key in AMOUNTS:
        if isinstance(values.get(key), list | tuple):
            if len(values[key]) != 1:
                raise UsageError(f"{source}: `{key}` names several amounts.", "Several are for `unlearnbench run`.")
            values = {**values, key: values[key][0]}
    settings = values.get("set")
    if isinstance(settings, Mapping):
        values = {**values, "set": dict(_flat(settings))}
    try:
        config = RunConfig(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(item) for item in first["loc"])
        raise UsageError(
            f"{source}: {key} = {first.get('input')!r}: {first['msg']}.", "See: unlearnbench run --help"
        ) from None
    config.check_size(source)
    config.forget_amount()
    config.poison()
    config.check_tuned()
    config.check_backend()
    return config


def make_configs(values: Mapping[str, Any], source: str = "the settings") -> list[RunConfig]:
    """Check settings as `make_config` does, where several amounts to forget (a list) make one grid each.

    Raises:
        UsageError: As `make_config`; an empty list, or an amount that is named twice.
    """
    lists = {key: list(values[key]) for key in AMOUNTS if isinstance(values.get(key), list | tuple)}
    if not lists:
        return [make_config(values, source)]
    key, amounts = lists.popitem()
    # Both settings at once are refused below.
    values = {**values, **{other: several[:1] for other, several in lists.items()}}
    configs = [make_config({**values, key: one}, source) for one in amounts]
    twice = next((one for at, one in enumerate(amounts) if one in amounts[:at]), None)
    if not amounts or twice is not None:
        what = f"{twice} is named twice" if amounts else "no amount is named"
        raise UsageError(f"{source}: `{key}`: {what}.", "Name each amount once.")
    configs[0].check_size(source, len(amounts))
    return configs


def _flat(settings: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{head}{key}.")
        else:
            yield f"{head}{key}", value


def read_run_file(path: Path) -> dict[str, Any]:
    """Read a run file.

    Raises:
        UsageError: The file is missing or is not TOML; names file and line.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Run file {path}: {error.strerror}.", "Name an existing TOML file.") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise UsageError(f"Run file {path}: {error}.", "It must be TOML in UTF-8.") from None
    if grid.depth(values) > DEEPEST:
        raise UsageError(f"Run file {path}: tables stand in tables more than {DEEPEST} deep.", "Write it flatter.")
    return values
