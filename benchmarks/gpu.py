"""Members trained in lockstep against the loop of `loop.py`, both on one CUDA device: time and peak memory.

The ratio, the peaks and the card go to the screen, and as one JSON file to `--out`.

    python benchmarks/gpu.py --data-root DIR [--model gcn gat ...] [--dataset cora] [--num-shards 20] [--rounds 5]
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from loop import Shards, add_options, compare, contestants, cut, line, ratios, training_task

from unlearnbench.errors import EXIT_USAGE
from unlearnbench.measure.clock import synchroniser
from unlearnbench.measure.memory import Sizes, gpu_memory
from unlearnbench.measure.nvml import Nvml
from unlearnbench.measure.provenance import provenance
from unlearnbench.records.files import safe_name, write_whole


def what_is_missing() -> str:
    """Return why torch cannot compute on a GPU here; empty if it can."""
    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA: install a build of torch that has it."
    return (
        f"torch {torch.__version__} is built for CUDA {torch.version.cuda} but finds no device:"
        " look for a GPU, its driver (nvidia-smi) and CUDA_VISIBLE_DEVICES."
    )


def peaks(train: Callable[[], object], device: torch.device) -> Sizes:
    """Train once and return the peaks of memory, in MiB; None where they cannot be read.

    What the allocator still holds of earlier work would count as reserved, so it is given back first.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
    memory, wait = gpu_memory(device), synchroniser(device)
    memory.reset()
    train()
    wait()
    sizes = memory.peak()
    memory.rest()
    return sizes


def measure(shards: Shards, model: str, rounds: int) -> dict[str, Any]:
    """Compare both on one model; memory is read in a round of its own, after the timed ones."""
    seconds = compare(shards, model, rounds)
    print(line(model, seconds), flush=True)
    of_rounds = ratios(seconds)
    memory = {name: peaks(train, shards.task.device) for name, train in contestants(shards, model).items()}
    for name, sizes in memory.items():
        print(f"       {name}: {', '.join(f'{key} {_shown(value)}' for key, value in sizes.items())}", flush=True)
    return {
        "ratio": statistics.median(of_rounds),
        "ratio_lowest": min(of_rounds),
        "ratio_highest": max(of_rounds),
        "seconds": seconds,
        "memory": memory,
    }


def card(device: torch.device, nvml: Nvml) -> dict[str, Any]:
    """Describe the device: its name, memory, driver and CUDA; None for what a CPU does not have."""
    if device.type != "cuda":
        return {"device": device.type, "card": None, "memory_mib": None, "driver": None, "cuda": None}
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": device.type,
        "card": properties.name,
        "memory_mib": properties.total_memory / 2**20,
        "driver": nvml.driver(),
        "cuda": torch.version.cuda,
    }


def compared(shards: Shards, dataset: str, models: Sequence[str], rounds: int) -> dict[str, Any]:
    """Compare both on every model and make the record."""
    return {
        "schema": 1,
        "benchmark": "stack-against-loop",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **card(shards.task.device, Nvml()),
        "dataset": {"name": dataset, "training_graph_sha256": shards.task.graph.checksum()},
        "num_shards": len(shards.graphs),
        "epochs": shards.task.training.epochs,
        "rounds": rounds,
        "models": {model: measure(shards, model, rounds) for model in models},
        "provenance": provenance(),
    }


def save(record: Mapping[str, Any], folder: Path) -> Path:
    """Write a record atomically, under a name made of its date and card."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = record["date"].split("+")[0].replace(":", "").replace("T", "-").lower()
    path = folder / f"{stamp}-{safe_name((record['card'] or record['device']).lower().replace(' ', '-'))}.json"
    write_whole(path, f"{json.dumps(record, indent=1, allow_nan=False)}\n".encode())
    return path


def _shown(mib: float | None) -> str:
    return "not read" if mib is None else f"{mib:.0f}"


def main() -> None:
    """Measure, print and write, or report what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--out", type=Path, default=Path("results/gpu"))
    options = parser.parse_args()
    missing = what_is_missing()
    if missing:
        print(f"benchmarks/gpu.py needs a CUDA device: {missing}", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)
    device = torch.device("cuda", torch.cuda.current_device())
    task, _ = training_task(options.dataset, options.data_root, device)
    name, epochs = torch.cuda.get_device_name(device), task.training.epochs
    print(f"{name}: {options.dataset}, {options.num_shards} shards, {epochs} epochs")
    print(f"median of {options.rounds} rounds, lowest and highest ratio within a round; peaks in MiB")
    record = compared(cut(task, options.num_shards), options.dataset, options.model, options.rounds)
    print(save(record, options.out))


if __name__ == "__main__":
    main()
