"""What a method must keep to as long as nothing is forgotten, and the list of all its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from unlearnbench.errors import UnlearnbenchError, UsageError
from unlearnbench.testing.graphs import EQUAL, ONE_CLASS, ONE_NODE, PLAIN, TOYS, Toy
from unlearnbench.testing.rules import forgetting
from unlearnbench.testing.rules.base import TOLERANCE, UNEQUAL, Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.lifecycle import (
    VIEWS,
    copied,
    fifth,
    fitting,
    has_shards,
    live,
    question,
    trained,
    watched_life,
)
from unlearnbench.testing.rules.purity import (
    changed,
    check_chance,
    check_log_probabilities,
    copies,
    describe,
    difference,
    same_chance,
)
from unlearnbench.unlearning import Claim, Unlearner


def _says_what_it_is(case: Case, toy: Toy) -> Iterator[Fault]:
    method: Unlearner = case.build()
    if not isinstance(method.claim, Claim):
        yield Fault(f"Its claim is {method.claim!r}.", "Set one of unlearnbench.Claim.")
    if not isinstance(method.claim_reason, str):
        yield Fault(f"Its claim_reason is {method.claim_reason!r}.", "Give text: ids or content for a kept partition.")
    kinds = method.forgets
    if not isinstance(kinds, frozenset | set) or not kinds or not kinds <= {"node", "edge"}:
        yield Fault(f"Its forgets is {kinds!r}.", 'Name kinds of requests: frozenset({"node"}).')


def _answers(case: Case, toy: Toy) -> Iterator[Fault]:
    life = live(case, toy, []) if toy.name == ONE_NODE else watched_life(case, toy)[0]
    for state in (life.before, *life.after):
        yield from _faults_of_state(state)
    for view in VIEWS:
        for number, answer in enumerate(life.answers[view]):
            call = f"predict() {'after' if number else 'before'} the request"
            yield from check_log_probabilities(answer, len(toy.asked), toy.whole.num_classes, call)


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


def _gives_the_same_answer(case: Case, toy: Toy) -> Iterator[Fault]:
    first, _ = watched_life(case, toy)
    with same_chance(0):
        again = live(case, toy)
    differs = difference(first.all_tensors(), again.all_tensors())
    if differs:
        case.memory[UNEQUAL] = True
        yield Fault(
            f"Two runs of the same task differ: {differs}.",
            'Draw from task.generator("role", ...) alone, and keep nothing in the class or the module.',
        )


def _leaves_chance_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    def run(seed: int) -> tuple[Mapping[str, Tensor], list[str]]:
        life, used = watched_life(case, toy, 0 if seed == 1 else seed)
        return life.all_tensors(), used

    yield from check_chance(case, run, difference)


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
    one, _ = watched_life(case, toy)
    whole = toy.whole
    at = whole.positions(toy.asked)
    true = whole.y[at].clone()
    # In place: a method that finds the whole graph, wherever, finds these labels.
    whole.y[at] = (true + 1) % whole.num_classes
    try:
        with same_chance(0):
            two = live(case, toy)
    finally:
        whole.y[at] = true
    differs = difference(one.all_tensors(), two.all_tensors())
    if differs and not case.memory.get(UNEQUAL):
        yield Fault(
            f"It learns from test labels: with the labels of test nodes permuted, {differs}.",
            "Use task.graph alone: a method is not to look for the dataset behind it.",
        )


def _changes_nothing_when_asked(case: Case, toy: Toy) -> Iterator[Fault]:
    method = trained(case, toy, case.task(toy))
    for view in VIEWS:
        before = copied(method.state())
        query = question(toy, toy.train, view)
        first = method.predict(query)
        differs = difference(before, copied(method.state()))
        if differs:
            yield Fault(
                f"predict() changed the state: {differs}.",
                "Only fit() and unlearn() may; put networks into eval() before they are asked.",
            )
            return
        again = method.predict(query)
        if isinstance(first, Tensor) and not torch.equal(first, again):
            yield Fault("predict() answers the same question differently.", "Set networks to eval() in predict().")
            return
        order = torch.arange(len(toy.asked) - 1, -1, -1)
        turned = method.predict(replace(query, targets=query.targets[order]))
        if first.shape == turned.shape and not torch.allclose(first[order], turned, atol=TOLERANCE):
            yield Fault(
                f"Rows of predict() do not follow query.targets (view {view.value}).",
                "Take the rows graph.positions(query.targets), in this order.",
            )
        answer = method.predict(question(toy, toy.train, view, toy.train[:5]))
        yield from check_log_probabilities(answer, 5, toy.whole.num_classes, "predict() of training nodes")


def _bears_more_shards_than_nodes(case: Case, toy: Toy) -> Iterator[Fault]:
    if not has_shards(case.spec):
        raise Skipped("it has no parameter num_shards")
    many = len(toy.train) + 1
    method: Unlearner = fitting(case.spec, many).build()
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
    yield from check_log_probabilities(answer, len(toy.asked), toy.whole.num_classes, "predict()")


RULES = (
    Rule("says-what-it-is", "claim and forgets are of the words there are", _says_what_it_is),
    Rule("answers", "fit, predict, unlearn, predict: finite log-probabilities, a row a node asked for", _answers, TOYS),
    Rule(
        "same-answer",
        "the same task and request give the same state and answers",
        _gives_the_same_answer,
        (PLAIN, EQUAL),
    ),
    Rule("own-chance", "the global random generators are neither read nor changed", _leaves_chance_alone),
    Rule("inputs-unchanged", "task, retained task, request and query stay as they were", _leaves_inputs_alone),
    Rule("test-labels", "the labels of test nodes make no difference", _sees_no_test_label, (PLAIN, ONE_CLASS)),
    Rule("pure-predict", "predict() changes nothing and follows the order of its targets", _changes_nothing_when_asked),
    Rule(
        "more-shards-than-nodes",
        "more shards than nodes are refused with UsageError, or work",
        _bears_more_shards_than_nodes,
    ),
    *forgetting.RULES,
)
