"""Checks of `exactness` that serve D as several requests, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from unlearnbench.audits.exactness.counterfactuals import Check, check_kept, make_check
from unlearnbench.audits.exactness.run import Run, attempted, outcome, run_differences
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.protocol import Request


def check_sequences(unlearned: Run, trials: Trials) -> list[Check]:
    """(s) Whether D served in up to four requests, in two orders, is forgotten as all at once, and at once.

    Returns:
        `order`: the results of both orders are that of one request, and equal each other where the same part of D
        is forgotten. `small requests`: after a request of a single part of D, and after one that leaves
        about half of the shards untouched, the result is that of a run that never saw these.
    """
    parts, leaves_shards = parts_of(trials.request, unlearned.kept_before.get("partition"))
    if len(parts) < 2:
        reason = "a request of one has no parts"
        return [Check("order", None, reason), Check("small requests", None, f"{reason}: it is one")]
    # All but the last in reverse: before the last, the same part of D is forgotten in both.
    turned = [*parts[-2::-1], parts[-1]] if len(parts) > 2 else parts[::-1]
    orders = {"one part after the other": parts, "the parts exchanged": turned}
    runs, differs = [], []
    for name, order in orders.items():
        run = attempted(lambda order=order: trials.apart_unlearned(requests=order, staged=True))  # type: ignore[misc]
        differences = [run] if isinstance(run, str) else run_differences(unlearned, run)
        differs += [f"{name}: {differences[0]}"] if differences else []
        runs.append(run)
    first, second = runs
    if isinstance(first, str) or isinstance(second, str):
        return [make_check("order", differs), Check("small requests", None, "the requests are not served")]
    if len(parts) > 2:
        late = run_differences(first.stages[-1], second.stages[-1])
        differs += [f"put off or ignored: before the last of {len(parts)} requests, {late[0]}"] if late else []
    smalls = []
    for number in range(1, 3 if leaves_shards else 2):
        served = Request(torch.cat([part.ids for part in parts[:number]]).unique(dim=0), trials.request.kind)
        smalls += _small(first.stages[number - 1], served, trials)
    return [make_check("order", differs), make_check("small requests", smalls)]


def parts_of(request: Request, partition: Tensor | None) -> tuple[list[Request], bool]:
    """Split D: a single part of it, the rest of it in about half of the shards, half of what remains, the rest.

    Returns:
        The parts, none empty, and whether the first two leave shards untouched that D as a whole hits.
    """
    ids = request.ids
    rest = torch.arange(1, len(ids))
    inner = rest[:0]
    if partition is not None and len(partition):
        shard_of = dict(partition.tolist())
        shards = [_shard_of(ends, shard_of) for ends in request.ends.tolist()]
        hit = list(dict.fromkeys(shard for shard in shards if shard is not None))
        chosen = hit[: max(1, len(set(shard_of.values())) // 2)]
        inside = torch.tensor([shard in chosen for shard in shards])
        inner = rest[inside[1:]]
        rest = rest[~inside[1:]]
    leaves_shards = len(inner) > 0 and len(rest) > 0
    if not leaves_shards:
        rest = torch.arange(1, len(ids))
        inner, rest = rest[0::3], rest[torch.arange(len(rest)) % 3 != 0]
    cuts = [torch.zeros(1, dtype=torch.int64), inner, rest[0::2], rest[1::2]]
    return [Request(ids[cut.to(ids.device)], request.kind) for cut in cuts if len(cut)], leaves_shards


def _shard_of(ends: Sequence[int], shard_of: Mapping[int, int]) -> int | None:
    """Return the shard of a node, or of an edge within one."""
    shards = {shard_of.get(end) for end in ends}
    return shards.pop() if len(shards) == 1 else None


def _small(stage: Run, served: Request, trials: Trials) -> list[str]:
    left = served.apply(trials.subject.train_graph).ids
    _, given = check_kept(stage.kept, left, served)
    differences = outcome(lambda: trials.apart_counterfactual(given, served), stage)
    return [f"after {len(served.ids)} of {len(trials.request.ids)}: {differences[0]}"] if differences else []
