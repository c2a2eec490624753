"""The rules of methods apart from forgetting, and the list of all their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import get_args

import torch
from torch import Tensor

from unlearnbench.errors import UnlearnbenchError, UsageError
from unlearnbench.protocol import Setting
from unlearnbench.protocol.requests import Kind
from unlearnbench.task import surroundings
from unlearnbench.testing.graphs import EQUAL, ONE_CLASS, ONE_NODE, PLAIN, TOYS, Toy
from unlearnbench.testing.rules import forgetting
from unlearnbench.testing.rules.base import TOLERANCE, UNEQUAL, Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.lifecycle import (
    CPU,
    VIEWS,
    fifth,
    fitting,
    life_difference,
    live,
    question,
    seeded_life,
    trained,
)
from unlearnbench.testing.rules.purity import (
    changed,
    check_log_probabilities,
    copied,
    copies,
    describe,
    difference,
    reproducible,
    seeded_generators,
)
from unlearnbench.unlearning import Claim, Unlearner


def _declares_claim(case: Case, toy: Toy) -> Iterator[Fault]:
    method: Unlearner = case.build()
    if not isinstance(method.claim, Claim):
        yield Fault(f"Its claim is {method.claim!r}.", "Set one of unlearnbench.Claim.")
    if not isinstance(method.claim_reason, str):
        yield Fault(f"Its claim_reason is {method.claim_reason!r}.", "Use text: ids or content for a kept partition.")
    if not isinstance(method.settings, frozenset | set) or not method.settings <= set(get_args(Setting)):
        yield Fault(f"Its settings is {method.settings!r}.", 'Name settings: frozenset({"inductive"}).')
    kinds = method.forgets
    if not isinstance(kinds, frozenset | set) or not kinds or not kinds <= set(get_args(Kind)):
        yield Fault(f"Its forgets is {kinds!r}.", 'Name kinds of requests: frozenset({"node"}).')


def _answers(case: Case, toy: Toy) -> Iterator[Fault]:
    life = live(case, toy, []) if toy.name == ONE_NODE else seeded_life(case, toy)
    for state in (life.before, *life.after):
        yield from _faults_of_state(state)
    for view in VIEWS:
        for number, answer in enumerate(life.answers[view]):
            call = f"predict() {'after' if number else 'before'} the request"
            yield from check_log_probabilities(answer, toy, call)


def _faults_of_state(state: Mapping[str, Tensor]) -> Iterator[Fault]:
    if not state:
        yield Fault("state() is empty.", "List every deployed parameter by name: members/000/conv1.weight.")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            yield Fault(f"state() maps {name!r} to {describe(value)}.", "It maps names to tensors.")
        elif value.is_floating_point() and not bool(torch.isfinite(value).all()):
            yield Fault(
                f"state() has values that are not finite in {name}.", "Look at the learning rate and at divisions."
            )
        elif name.startswith("members/") and not name.split("/")[1].isdecimal():
            yield Fault(f"state() has the name {name}.", "A member has a number: members/003/conv1.weight.")


def _leaves_inputs_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    task, request = case.task(toy), fifth(toy)
    retained = task.without(request)
    before, ids = copies(task.graph, retained.graph), request.ids.clone()
    graphs = {"task.graph": task.graph, "retained.graph": retained.graph}
    method = trained(case, toy, task)
    yield from changed(graphs, before, "fit()")
    before = copies(task.graph, retained.graph)
    method.unlearn(request, retained)
    yield from changed(graphs, before, "unlearn()")
    if not torch.equal(request.ids, ids):
        yield Fault("unlearn() changed request.ids.", "clone() a tensor, then change it.")
    query = question(toy, retained.graph.ids if method.deletes_at_inference else toy.train)
    before = copies(query.graph)
    method.predict(query)
    yield from changed({"query.graph": query.graph}, before, "predict()")


def _sees_no_test_label(case: Case, toy: Toy) -> Iterator[Fault]:
    first = seeded_life(case, toy)
    graph = toy.whole
    at = graph.positions(toy.asked)
    true = graph.y[at].clone()
    # In place: a method that finds the full graph anywhere also finds these labels.
    graph.y[at] = (true + 1) % graph.num_classes
    try:
        with seeded_generators(0):
            again = live(case, toy)
    finally:
        graph.y[at] = true
    differs = life_difference(first, again)
    if differs and not case.memory.get(UNEQUAL):
        yield Fault(
            f"It learns from test labels: with the labels of test nodes permuted, {differs}.",
            "Use task.graph alone: a method must not look for the dataset behind it.",
        )


def _trains_over_surroundings(case: Case, toy: Toy) -> Iterator[Fault]:
    if "transductive" not in case.spec.cls.settings:
        raise Skipped("it declares no transductive setting")
    states = []
    at = torch.isin(toy.whole.ids, toy.asked)[:, None]
    for graph in (toy.whole, toy.whole.with_features(torch.where(at, -toy.whole.x, toy.whole.x))):
        task = replace(case.task(toy), surroundings=surroundings(graph, toy.asked, CPU))
        with seeded_generators(0):
            states.append(copied(trained(case, toy, task).state()))
    if not difference(*states):
        yield Fault(
            "In the transductive setting it trains on its training nodes alone.",
            "Train on Task.seen or Task.parts; leave nodes with the label -1 out of the loss.",
        )


def _predicts_without_side_effects(case: Case, toy: Toy) -> Iterator[Fault]:
    method = trained(case, toy, case.task(toy))
    for view in VIEWS:
        before = copied(method.state())
        query = question(toy, toy.train, view)
        first = method.predict(query)
        if differs := difference(before, method.state()):
            yield Fault(
                f"predict() changed the state: {differs}.",
                "Only fit() and unlearn() may; put networks into eval() before they predict.",
            )
            return
        again = method.predict(query)
        if isinstance(first, Tensor) and not torch.equal(first, again):
            yield Fault("Two calls of predict() with the same query differ.", "Set networks to eval() in predict().")
            return
        order = torch.arange(len(toy.asked) - 1, -1, -1)
        reversed_answer = method.predict(replace(query, targets=query.targets[order]))
        if first.shape == reversed_answer.shape and not torch.allclose(first[order], reversed_answer, atol=TOLERANCE):
            yield Fault(
                f"Rows of predict() do not follow query.targets (view {view.value}).",
                "Take the rows graph.positions(query.targets), in this order.",
            )
        answer = method.predict(question(toy, toy.train, view, toy.train[:5]))
        yield from check_log_probabilities(answer, toy, "predict() of training nodes", 5)


def _bears_more_shards_than_nodes(case: Case, toy: Toy) -> Iterator[Fault]:
    many = len(toy.train) + 1
    spec = fitting(case.spec, many)
    if spec is case.spec:
        raise Skipped("it has no parameter num_shards")
    method: Unlearner = spec.build()
    try:
        method.fit(case.task(toy))
        answer = method.predict(question(toy, toy.train))
    except UsageError:
        return
    except (UnlearnbenchError, Exception) as error:
        yield Fault(
            f"With {many} shards for {len(toy.train)} nodes it fails: {type(error).__name__}: {error}.",
            "Raise UsageError that names both numbers, as checked_partition does.",
        )
        return
    yield from check_log_probabilities(answer, toy, "predict()")


RULES = (
    Rule("says-what-it-is", "claim and forgets have valid values", _declares_claim),
    Rule("answers", "fit, predict, unlearn, predict: finite log-probabilities, a row per target node", _answers, TOYS),
    *reproducible(
        "the same task and request give the same state and answers",
        live,
        life_difference,
        "Two runs of the same task differ: {}.",
        toys=(PLAIN, EQUAL),
    ),
    Rule("inputs-unchanged", "task, retained task, request and query stay as they were", _leaves_inputs_alone),
    Rule("test-labels", "the labels of test nodes make no difference", _sees_no_test_label, (PLAIN, ONE_CLASS)),
    Rule(
        "surroundings",
        "a method that declares the transductive setting passes messages over all nodes in training",
        _trains_over_surroundings,
    ),
    Rule(
        "pure-predict", "predict() changes nothing and follows the order of its targets", _predicts_without_side_effects
    ),
    Rule(
        "more-shards-than-nodes",
        "more shards than nodes are refused with UsageError, or work",
        _bears_more_shards_than_nodes,
    ),
    *forgetting.RULES,
)
