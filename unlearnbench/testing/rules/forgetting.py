"""The rules of methods about forgetting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import torch
from torch import Tensor

from unlearnbench.audits.exactness.exactness import Exactness
from unlearnbench.audits.exactness.graph_access import listed
from unlearnbench.audits.exactness.reach import named_reachable_tensors
from unlearnbench.audits.exactness.taint import contains_row, unique_rows
from unlearnbench.audits.exactness.verdicts import contradiction
from unlearnbench.errors import RefusedError
from unlearnbench.protocol import Request
from unlearnbench.protocol.requests import Kind
from unlearnbench.running.runner import run_cell
from unlearnbench.task import Task
from unlearnbench.testing.graphs import ISOLATED, MANY_SHARDS, NO_EDGES, ONE_CLASS, PLAIN, Toy, toys
from unlearnbench.testing.rules.base import Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.lifecycle import (
    VIEWS,
    fifth,
    fitting,
    live,
    question,
    recorded,
    seeded_life,
    small_subject,
    trained,
)
from unlearnbench.testing.rules.purity import check_log_probabilities, copied, describe, difference
from unlearnbench.unlearning import Claim, Unlearner

_NAMED = {"node": "a node", "edge": "an edge", "feature": "the features of a node"}


def _claims_something(case: Case) -> Claim:
    claim: Claim = case.build().claim
    if claim is Claim.NONE:
        raise Skipped("it claims nothing")
    return claim


def _heeds_the_request(case: Case, toy: Toy) -> Iterator[Fault]:
    claim = _claims_something(case)
    life = seeded_life(case, toy)
    if not difference(life.before, life.after[0]):
        yield Fault(
            f"It ignores the request: it claims {claim.value}, and unlearn() changed no parameter of state().",
            "Forget request.ids, list what changes in state(), or set claim = Claim.NONE.",
        )


def _holds_nothing(case: Case, toy: Toy) -> Iterator[Fault]:
    _claims_something(case)
    life, request = seeded_life(case, toy), fifth(toy)
    rows = unique_rows(life.task.graph, request.ids)
    held: dict[str, list[str]] = {"ids": [], "features": []}
    for path, tensor in named_reachable_tensors(life.method):
        part = tensor.detach()
        if part.layout is not torch.strided:
            part = part.to_dense()
        if part.dtype in (torch.int64, torch.int32) and bool(torch.isin(part, request.ids).any()):
            held["ids"].append(path)
        elif any(contains_row(part, row) for row in rows.values()):
            held["features"].append(path)
    for what, paths in held.items():
        if paths:
            yield Fault(
                f"It still holds {what} of forgotten nodes: in {', '.join(paths[:3])}.",
                "In unlearn() drop the former task and everything made from it; keep the retained one.",
            )


def _keeps_what_it_may(case: Case, toy: Toy) -> Iterator[Fault]:
    life, request = seeded_life(case, toy), fifth(toy)
    for name, value in life.kept[0].items():
        if name != "partition" or value.dtype != torch.int64 or value.dim() != 2 or value.shape[1] != 2:
            yield Fault(
                f"kept() names {name}, {describe(value)}.",
                'At most {"partition": int64 [[node id, shard], ...]} may be kept.',
            )
            continue
        ids, left = value[:, 0], life.retained.graph.ids
        gone = ids[torch.isin(ids, request.ids)]
        if len(gone):
            yield Fault(f"kept() has forgotten nodes: {listed(gone.tolist())}.", "Keep retained nodes only.")
        elif not torch.equal(ids.sort().values, left.sort().values):
            yield Fault(
                f"kept() has {len(value)} nodes, {len(left)} are retained.", "Name every retained node once, by its id."
            )


def _holds_its_claim(case: Case, toy: Toy) -> Iterator[Fault]:
    if case.build().claim not in (Claim.EXACT, Claim.EXACT_GIVEN_PARTITION):
        raise Skipped("it does not claim to be exact; `unlearnbench audit` measures its forgetting")
    subject = small_subject(case, fitting(case.spec, toy.num_shards), int(toy.train[0]))
    finding = Exactness(Exactness.Params(runs=5, permutations=99)).examine(subject)
    if finding.details["claim_holds"] is False:
        failed = [
            f"{check['name']}: {check['differs']}" for check in finding.details["checks"] if check["passed"] is False
        ]
        yield Fault(
            f"{contradiction(finding.details['claim'], finding.verdict)} {'. '.join(failed)}.",
            f"Fix it, or claim no more than it shows. In full: unlearnbench audit exactness --methods {case.spec.name}",
        )


def _serves_a_second_request(case: Case, toy: Toy) -> Iterator[Fault]:
    requests = [Request(toy.train[1::5]), Request(toy.train[2::5]), Request(toy.train[-1:])]
    life = live(case, toy, requests)
    for answer in chain.from_iterable(life.answers.values()):
        yield from check_log_probabilities(answer, toy, "predict() after several requests")
    for name, kept in life.kept[-1].items():
        gone = torch.cat([request.ids for request in requests])
        if name == "partition" and bool(torch.isin(kept[:, 0], gone).any()):
            yield Fault("After a second request kept() has nodes of the first.", "Keep retained nodes only.")


def _bears_an_emptied_shard(case: Case, toy: Toy) -> Iterator[Fault]:
    task = case.task(toy)
    method = trained(case, toy, task)
    partition = method.kept().get("partition")
    gone: Tensor = toy.train[: len(toy.train) // 2]
    if partition is not None and len(partition):
        inside = partition[partition[:, 1] == partition[0, 1], 0]
        gone = inside.sort().values if len(inside) < len(toy.train) else gone
    yield from _faults_after(method, task, toy, gone, "when a whole shard was forgotten")


def _bears_a_single_node(case: Case, toy: Toy) -> Iterator[Fault]:
    task = case.task(toy)
    yield from _faults_after(trained(case, toy, task), task, toy, toy.train[1:], "with one node left")


def _faults_after(method: Unlearner, task: Task, toy: Toy, gone: Tensor, when: str) -> Iterator[Fault]:
    request = Request(gone)
    retained = task.without(request)
    method.unlearn(request, retained)
    held = retained.graph.ids if method.deletes_at_inference else toy.train
    for view in VIEWS:
        answer = method.predict(question(toy, held, view))
        yield from check_log_probabilities(answer, toy, f"predict() {when}")


def _serves_edges(case: Case, toy: Toy) -> Iterator[Fault]:
    if "edge" not in case.build().forgets:
        raise Skipped("it does not declare that it forgets edges")
    pairs = toy.graph.pairs()
    life = live(case, toy, [Request(pairs[:3], "edge"), Request(pairs[3:5], "edge")])
    for answer in chain.from_iterable(life.answers.values()):
        yield from check_log_probabilities(answer, toy, "predict() after a request of edges")


def _serves_features(case: Case, toy: Toy) -> Iterator[Fault]:
    if "feature" not in case.build().forgets:
        raise Skipped("it does not declare that it forgets features")
    single = torch.stack([toy.train[:3], torch.zeros_like(toy.train[:3])], dim=1)
    life = live(case, toy, [Request(single, "feature"), Request.of_features(toy.train[1::5])])
    for answer in chain.from_iterable(life.answers.values()):
        yield from check_log_probabilities(answer, toy, "predict() after a request of features")


def _reaches_every_shard(case: Case, toy: Toy) -> Iterator[Fault]:
    _claims_something(case)
    if not seeded_life(case, toys()[PLAIN]).kept[0]:
        toy = toys()[PLAIN]  # it has no shards
    task = case.task(toy)
    method = trained(case, toy, task)
    # Edges first, while shards have several.
    kinds: list[Kind] = ["edge"] if "edge" in method.forgets and case.model.partition("[")[0] != "mlp" else []
    kinds += ["feature"] if "feature" in method.forgets else []
    kinds += ["node"] * 3 if "node" in method.forgets else []
    for number, kind in enumerate(kinds, 1):
        ids, shards = _one_of_each(method, task, kind)
        request = Request.of_features(ids) if kind == "feature" else Request(ids, kind)
        retained, before = task.without(request), copied(method.state())
        method.unlearn(request, retained)
        after = method.state()
        left = [shard for shard in shards if not difference(_member(before, shard), _member(after, shard))]
        # Parameters that no edge has influence on are those of a training without it.
        is_stale = not difference(before, after) and difference(after, trained(case, toy, retained).state())
        if left or is_stale:
            what = f"the members of shards {listed(left)} are" if left else "every parameter is"
            yield Fault(
                f"Request {number}, {_NAMED[kind]} of each of {max(1, len(shards))} shards: {what} as before.",
                "Retrain, from the retained task, the member of every shard that a request touches, at every request.",
            )
            return
        task = retained


def _one_of_each(method: Unlearner, task: Task, kind: Kind) -> tuple[Tensor, list[int]]:
    """Return a node, or an edge, of every shard that has two, and their shards; without a partition, every fifth."""
    members = task.graph.pairs() if kind == "edge" else task.graph.ids[:, None]
    partition = method.kept().get("partition")
    if partition is None:
        return (members if kind == "edge" else members[:, 0])[1::5], []
    ids, order = partition[:, 0].sort()
    of_ends = partition[order, 1][torch.searchsorted(ids, members)]
    inside, of_pair = members[of_ends[:, 0] == of_ends[:, -1]], of_ends[of_ends[:, 0] == of_ends[:, -1], 0]
    shards = [int(shard) for shard in of_pair.unique() if kind == "edge" or int((of_pair == shard).sum()) > 1]
    chosen = torch.stack([inside[of_pair == shard][0] for shard in shards])
    return chosen if kind == "edge" else chosen[:, 0], shards


def _member(state: Mapping[str, Tensor], shard: int) -> dict[str, Tensor]:
    heads = (f"members/{shard:03d}/", f"members/{shard}/")
    return {name: value for name, value in state.items() if name.startswith(heads)}


def _runs_as_a_cell(case: Case, toy: Toy) -> Iterator[Fault]:
    subject = small_subject(case, fitting(case.spec, toy.num_shards), int(toy.train[0]))
    record, reason = recorded(case, run_cell, subject.cell, subject.graph)
    if record.status == "refused":
        raise RefusedError(*record.notes[0].split("\n", 1))
    if record.status != "ok":
        yield Fault(f"Run as a cell it ends with status {record.status}: {reason}.", "See the message.")


_ANSWERS = ("answers",)
RULES = (
    Rule("heeds-the-request", "a method that claims something changes when it forgets", _heeds_the_request),
    Rule("holds-nothing", "after a request nothing of the forgotten nodes can be reached from it", _holds_nothing),
    Rule("kept", "kept() returns at most the partition of the retained nodes", _keeps_what_it_may),
    Rule(
        "second-request",
        "a second and a third request are served",
        _serves_a_second_request,
        (PLAIN, ISOLATED, ONE_CLASS),
        _ANSWERS,
    ),
    Rule(
        "empty-shards",
        "it works when a whole shard is forgotten",
        _bears_an_emptied_shard,
        (PLAIN, NO_EDGES),
        _ANSWERS,
    ),
    Rule(
        "one-node-left",
        "it works, or refuses, when all nodes but one are forgotten",
        _bears_a_single_node,
        (ISOLATED,),
        _ANSWERS,
    ),
    Rule(
        "every-shard",
        "three requests, and one of edges and of features, change the member of every shard that they touch",
        _reaches_every_shard,
        (MANY_SHARDS,),
        (*_ANSWERS, "heeds-the-request"),
    ),
    Rule("edges", "requests of edges are served, if it declares them", _serves_edges, needs=_ANSWERS),
    Rule("features", "requests of features are served, if it declares them", _serves_features, needs=_ANSWERS),
    Rule(
        "claim",
        "a claim to be exact holds, bit for bit",
        _holds_its_claim,
        needs=("answers", "same-answer", "heeds-the-request", "holds-nothing", "kept"),
    ),
    Rule("cell", "the harness runs it as a cell, with a record", _runs_as_a_cell, needs=_ANSWERS),
)
