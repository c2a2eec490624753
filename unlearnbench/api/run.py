"""`unlearnbench run` from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unlearnbench.records.record import Record
from unlearnbench.registry.loading import load_and_report
from unlearnbench.running.config import make_configs
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import make_plan, take_shard
from unlearnbench.running.progress import execute_with_progress, is_notebook


def run(methods: Sequence[Any] | str, *, progress: bool | None = None, **settings: Any) -> list[Record]:
    """Run a grid and return its records: `unlearnbench run` from Python.

    Args:
        methods: Brackets, or one text with commas.
        progress: Whether to show how far the run is; None: only in a notebook.
        **settings: Options of `running.options.RunOptions`: `datasets`, `models`, `repetitions`, `out`, ...

    Returns:
        One record per cell, including those of earlier runs.

    Raises:
        UsageError: The request cannot be carried out; nothing was started.
        WriteError: A record cannot be written.
    """
    configs = make_configs({"methods": methods, **settings}, "unlearnbench.run")
    first = configs[0]
    plan = take_shard(make_plan(configs, load_and_report(first.disable_plugins)), first.shard)
    shown = is_notebook() if progress is None else progress
    return execute_with_progress(plan) if shown else execute(plan)
