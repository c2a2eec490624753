"""Records for tests, as a run would write them."""

from __future__ import annotations

import hashlib
from typing import Any

from unlearnbench.component import canonical_json
from unlearnbench.records.record import FAILURES, Record

DEFAULT_METRICS = {"f1_micro": {"shard": {"before": 0.81, "after": 0.80}, "full": {"before": 0.83, "after": 0.82}}}


def make_record(
    method: str = "retrain",
    repetition: int = 0,
    *,
    label: str = "",
    status: str = "ok",
    dataset: str = "cora",
    sha256: str = "aa" * 32,
    model: str = "gcn",
    params: dict[str, Any] | None = None,
    version: int = 1,
    preset: str = "",
    protocol_version: int = 1,
    protocol: dict[str, Any] | None = None,
    split: Any = (0.7, 0.2, 0.1),
    device: str = "cpu",
    seed: int = 0,
    machine: str = "m-0001",
    shard: float | None = 0.80,
    full: float | None = 0.82,
    metrics: dict[str, Any] | None = None,
    seconds: float | None = 1.0,
    shards_hit: int | None = None,
    peak_rss_mib: float | None = 700.0,
    peak_gpu_mib: float | None = None,
    exclusive: bool | None = True,
    backend: str = "serial",
    torch: str = "2.13.0",
    **more: Any,
) -> Record:
    tree: dict[str, Any] = {"name": method, "version": version, "params": params or {}}
    if preset:
        tree["preset"] = preset
    cell = {
        "protocol": {
            "name": "www24",
            "version": protocol_version,
            "forget": {"kind": "node", "ratio": 0.005},
            "split": list(split) if isinstance(split, tuple) else split,
            **(protocol or {}),
        },
        "dataset": {"name": dataset, "version": 1, "params": {}, "sha256": sha256},
        "model": {"name": model, "version": 1, "params": {}},
        "method": tree,
        "training": {"epochs": 100, "lr": 0.01, "weight_decay": 0.0005},
        "repetition": repetition,
        "seed": seed,
        "device": device,
    }
    key = hashlib.sha256(canonical_json(cell).encode()).hexdigest()
    if metrics is None:
        metrics = {
            "f1_micro": {"shard": {"before": 0.81, "after": shard}, "full": {"before": 0.83, "after": full}},
            "f1_macro": {"shard": {"before": 0.71, "after": 0.70}, "full": {"before": 0.73, "after": 0.72}},
        }
    if status in FAILURES:
        metrics = {}
        more.setdefault("error", {"type": "ValueError", "message": "no", "traceback": "Traceback"})
    memory = {"peak_rss_mib": peak_rss_mib, "peak_gpu_mib": peak_gpu_mib, "rss_method": "vmhwm"}
    phases = [
        {"name": "partition", "seconds": 0.25, **memory},
        {"name": "train", "seconds": 2.0, **memory},
        {"name": "fit", "seconds": 2.5, **memory},
        {"name": "unlearn", "seconds": seconds, **memory},
    ]
    return Record(
        key=key,
        status=status,
        label=label or method,
        cell=cell,
        metrics=metrics,
        phases=more.pop("phases", phases),
        unlearn_seconds=seconds,
        counts={"node_epochs": 1000, "steps": 100} | ({} if shards_hit is None else {"shards_hit": shards_hit}),
        provenance={
            "packages": {"torch": torch, "unlearnbench": "0.1.0"},
            "plugins": {"unlearnbench": "0.1.0"},
            "git": "abc",
            "dirty": False,
            "started": "2026-01-01T00:00:00Z",
            "threads": 1,
            "backend": backend,
            "exclusive": exclusive,
            "machine": machine,
        },
        **more,
    )
