"""`unlearnbench run` from Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unlearnbench.api.callbacks import OnEpoch, OnPhase, OnRecord, watched
from unlearnbench.api.session import names_of
from unlearnbench.records.record import Record
from unlearnbench.registry.loading import load_and_report
from unlearnbench.running.config import make_configs
from unlearnbench.running.execute import Compute, execute
from unlearnbench.running.lookup import Assumption
from unlearnbench.running.plan import Plan, make_plan, take_shard
from unlearnbench.running.progress import execute_with_progress, is_notebook


def run(
    methods: Sequence[Any] | type[Any] | str,
    *,
    progress: bool | None = None,
    on_phase: OnPhase | None = None,
    on_epoch: OnEpoch | None = None,
    on_record: OnRecord | None = None,
    **settings: Any,
) -> list[Record]:
    """Run a grid and return its records: `unlearnbench run` from Python.

    What of a graph is ignored or assumed, its edge weights or edges in one direction, is a warning.

    Args:
        methods: Brackets, or one text with commas; classes of this session too: see `register`.
        progress: Whether to show how far the run is; None: only in a notebook.
        on_phase: Called with a cell and a phase, both as text, before the phase begins.
        on_epoch: Called with a cell, a phase, the epoch from 1, their number, and the values of the epoch that has
            ended: `loss` and `val_f1`, averaged over the networks trained together (empty in a loop of the method's
            own). Records of runs with `on_phase` or `on_epoch` give no times.
        on_record: Called with each record that was made, once it is saved.
        **settings: Options of `running.options.RunOptions`: `datasets`, `models`, `repetitions`, `out`, ...; among
            datasets and models can be classes of this session, among datasets also PyG `Data`.

    Returns:
        One record per cell, including those of earlier runs.

    Raises:
        UsageError: The request cannot be carried out; nothing was started.
        WriteError: A record cannot be written.
    """
    configs = make_configs(named({"methods": methods, **settings}), "unlearnbench.run")
    first = configs[0]
    plan = take_shard(make_plan(configs, load_and_report(first.disable_plugins)), first.shard)
    return computed(plan, watched(on_phase, on_epoch, first), progress, on_record, "unlearnbench.run")


def named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the names of classes, networks and data of the session in place of these."""
    kinds = {"methods": "unlearner", "datasets": "dataset", "models": "model"}
    names = {key: names_of(value, kinds[key]) if key in kinds else value for key, value in settings.items()}
    return {**names, "device": str(names["device"])} if "device" in names else names


def computed(
    plan: Plan, compute: Compute, progress: bool | None, on_record: OnRecord | None, caller: str
) -> list[Record]:
    """Compute a plan, after a warning for each thing of a graph that is ignored or assumed.

    Args:
        plan: What to compute.
        compute: Makes a record.
        progress: Whether to show how far it is; None: only in a notebook.
        on_record: Called with each record that was made.
        caller: The function that the user called.
    """
    for notice in plan.notices:
        if isinstance(notice, Assumption):
            silence = f'warnings.filterwarnings("ignore", "{caller}") silences this.'
            warnings.warn(f"{caller}: {notice} {silence}", stacklevel=3)
    plan = replace(plan, on_record=on_record or plan.on_record)
    shown = is_notebook() if progress is None else progress
    return execute_with_progress(plan, compute) if shown else execute(plan, compute=compute)
