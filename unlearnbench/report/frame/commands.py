"""The command that makes the records of a row again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unlearnbench.registry.brackets import parse_bracket, split_names
from unlearnbench.running.options import TUNED

DEFAULTS: Mapping[str, Any] = {
    "hidden": 64,
    "dropout": 0.5,
    "epochs": 100,
    "lr": 0.01,
    "weight_decay": 0.0005,
    "one_by_one": False,
}
"""What a run sets unless told otherwise, of models and of training; what is as here is not written."""
KNOWN_SIZES: Mapping[str, Mapping[str, Any]] = {
    "gat": {"heads": 8},
    "sgc": {"steps": 2},
    "jknet": {"layers": 3},
    "appnp": {"alpha": 0.1, "steps": 10},
}
"""Further parameters of models that have these values unless told otherwise."""


def run_command(
    facets: Mapping[str, str], label: str, units: Sequence[tuple[int, int]], audit: str = "", out: str = "runs/again"
) -> str:
    """Write the command whose cells are those of a row; empty where no command line says what was asked for.

    Args:
        facets: Of a group: `dataset_config`, `model_config`, `protocol_config` and `training_config`.
        label: The method, as a bracket; or several, with commas.
        units: Seed and repetition of each record.
        audit: An audit; empty: a run.
        out: The folder for its records; empty: none is written.
    """
    tuned = json.loads(facets["protocol_config"]).get("name") == TUNED
    methods = ",".join(map(_untuned, split_names([label]))) if tuned else label
    try:
        parts = [
            f"audit {audit}" if audit else "run",
            f"--methods {shlex.quote(methods)}",
            *_grid(facets, units, tuned),
        ]
        return f"unlearnbench {' '.join([*parts, *([f'--out {out}'] if out else [])])}"
    except _UnwrittenError:
        return ""


def _untuned(label: str) -> str:
    """Return what a method of the protocol `tuned` was asked for as: without numbers, which are what was tuned."""
    asked = parse_bracket(label)
    named = {key: value for key, value in asked.arguments.items() if not (isinstance(value, str) and _is_number(value))}
    return str(replace(asked, arguments=named))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _UnwrittenError(Exception):
    """Something was asked for that no option says."""


def _grid(facets: Mapping[str, str], units: Sequence[tuple[int, int]], tuned: bool) -> Iterator[str]:
    dataset, model = json.loads(facets["dataset_config"]), json.loads(facets["model_config"])
    yield f"--datasets {_bracket(dataset, {})}"
    yield f"--models {_bracket(model, {**DEFAULTS, **KNOWN_SIZES.get(model['name'], {})})}"
    seeds, repetitions = {seed for seed, _ in units}, sorted({repetition for _, repetition in units})
    if repetitions == list(range(len(repetitions))):
        yield f"--repetitions {len(repetitions)}"
    else:
        yield f"--seeds {','.join(map(str, repetitions))}"
    if len(seeds) > 1:
        raise _UnwrittenError
    if seeds and seeds != {0}:
        yield f"--set seed={min(seeds)}"
    yield from _protocol(json.loads(facets["protocol_config"]))
    if not tuned:
        yield from _training(json.loads(facets["training_config"]))


def _bracket(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    params = {key: value for key, value in config.get("params", {}).items() if defaults.get(key, ...) != value}
    if any(isinstance(value, dict | list) for value in params.values()):
        raise _UnwrittenError
    inner = ",".join(f"{key}={_plain(value)}" for key, value in params.items())
    return shlex.quote(f"{config['name']}[{inner}]" if inner else str(config["name"]))


def _protocol(protocol: dict[str, Any]) -> Iterator[str]:
    forget = dict(protocol.get("forget", {}))
    if protocol.get("name", "www24") != "www24":
        yield f"--protocol {protocol['name']}"
    if "setting" in protocol:
        yield f"--setting {protocol['setting']}"
    if (kind := forget.pop("kind", "node")) != "node":
        yield f"--forget-kind {kind}"
    for name, value in forget.items():
        if name in ("ratio", "count"):
            yield f"--forget-{name} {value}"
        elif name == "stream":
            yield f"--stream {value}"
        elif name not in ("injected", "manipulated", "known"):
            raise _UnwrittenError
    for name, value in protocol.get("poison", {}).items():
        yield f"--set poison.{name}={value}"


def _training(training: Mapping[str, Any]) -> Iterator[str]:
    for name, value in training.items():
        if DEFAULTS.get(name, ...) == value:
            continue
        if name == "one_by_one":
            yield "--train one-by-one"
        elif name in ("epochs", "batch_size"):
            yield f"--{name.replace('_', '-')} {value}"
        elif isinstance(value, int | float | str):
            yield f"--set {shlex.quote(f'training.{name}={value}')}"
        else:
            raise _UnwrittenError


def _plain(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
