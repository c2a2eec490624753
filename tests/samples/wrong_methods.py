"""Methods that claim to be exact: two that are, and others that are each wrong in one thing."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn import functional

from unlearnbench.component import Spec, part
from unlearnbench.gnn import train_networks
from unlearnbench.protocol import Request
from unlearnbench.unlearning import Claim, PostHoc, Sharded, Unlearner
from unlearnbench.unlearning.aggregation import sample_of
from unlearnbench_smoothed.method import Smoothed


class Shards(Sharded):
    """Right: shards by hash, learned weights; holds its task, and after a request what is left of it."""

    name = "shards"
    named_by_parts = False

    class Params(Sharded.Params):
        num_shards: int = 6
        partitioner: Spec = part("partitioner", "hash", "Deals nodes.")
        aggregator: Spec = part("aggregator", "weighted[epochs=2,sample=20]", "Combines members.")

    def fit(self, task):
        self._old = task
        super().fit(task)

    def unlearn(self, request, retained):
        self.forget(request, retained)
        self._old = retained

    def forget(self, request, retained):
        super().unlearn(request, retained)

    def learn_from(self, task, sample):
        """Fit the aggregator on nodes of a task."""
        self.aggregator = self.params.aggregator.build()
        members = self.members(task.query(sample, self.aggregator.view))
        self.aggregator.fit(task, members, task.graph.induced(sample))


class KeepsOneInU(Shards):
    name = "keeps-one-in-u"

    def forget(self, request, retained):
        super().forget(request, retained)
        mixed = self._old.without(Request(request.ids[1:]))
        sample = sample_of(self.aggregator, retained)
        self.learn_from(mixed, torch.cat([request.ids[:1], sample[1:]]))


class ReusesOneMember(Shards):
    name = "reuses-one-member"

    def _train(self, task, shards):
        super()._train(task, shards if len(shards) == self.num_shards else list(shards)[1:])


class SkipsOne(Shards):
    """Holds the last node of a request on, and hides it when it is asked."""

    name = "skips-one"

    def forget(self, request, retained):
        self._skipped = request.ids[-1:]
        served = Request(request.ids[:-1])
        super().forget(served, self._old.without(served))

    def predict(self, query):
        skipped = torch.isin(self._ids, getattr(self, "_skipped", self._ids[:0]))
        held = self._ids, self._shard
        self._ids, self._shard = self._ids[~skipped], self._shard[~skipped]
        answer = super().predict(query)
        self._ids, self._shard = held
        return answer


class TakesPositionsForIds(Shards):
    name = "takes-positions-for-ids"

    def forget(self, request, retained):
        self._retained = retained.graph
        super().forget(request, retained)
        self._retained = None

    def _train(self, task, shards):
        if getattr(self, "_retained", None) is None:
            super()._train(task, shards)
            return
        graphs = []
        for shard in shards:
            at = task.graph.positions(self._ids[self._shard == shard])
            graphs.append(task.graph.induced(at[task.graph.contains(at)]))
        self._networks.replace(list(shards), train_networks(task, graphs, list(shards)))


class CachesARow(Shards):
    name = "caches-a-row"

    def fit(self, task):
        super().fit(task)
        self._cache = {"rows": task.graph.x[:30].clone()}


class DrawsUFromTheOldList(Shards):
    name = "draws-u-from-the-old-list"

    def forget(self, request, retained):
        super().forget(request, retained)
        sample = sample_of(self.aggregator, self._old)
        self.learn_from(retained, sample[~torch.isin(sample, request.ids)])


class ScoresTheOldMembers(Shards):
    """Retrains, shows the new members, and lets the old ones answer."""

    name = "scores-the-old-members"

    def fit(self, task):
        super().fit(task)
        self._answering = self._networks, self.aggregator

    def forget(self, request, retained):
        networks = train_networks(retained, [retained.graph] * self.num_shards, range(self.num_shards))
        networks.replace(range(self.num_shards), self._networks)
        self._networks = networks
        super().forget(request, retained)

    def predict(self, query):
        shown = self._networks, self.aggregator
        self._networks, self.aggregator = self._answering
        answer = super().predict(query)
        self._networks, self.aggregator = shown
        return answer


class LearnsFromTheOldMembers(Shards):
    name = "learns-from-the-old-members"

    def forget(self, request, retained):
        gone = torch.isin(self._ids, request.ids)
        hit = torch.unique(self._shard[gone]).tolist()
        self._ids, self._shard = self._ids[~gone], self._shard[~gone]
        self._fit_aggregator(retained)
        self._train(retained, hit)


class Vague(LearnsFromTheOldMembers):
    """Does not claim to be exact."""

    name = "vague"
    claim = Claim.APPROXIMATE
    claim_reason = ""


class SeedsFromTheStack(Shards):
    name = "seeds-from-the-stack"

    def _train(self, task, shards):
        graphs = [task.graph.induced(self._ids[self._shard == shard]) for shard in shards]
        self._networks.replace(list(shards), train_networks(task, graphs, range(len(graphs))))


class DeclaresItsAggregator(Shards):
    name = "declares-its-aggregator"

    def fit(self, task):
        super().fit(task)
        self._first = dict(self.aggregator.state())

    def kept(self):
        return {**super().kept(), **{f"aggregator/{name}": value for name, value in self._first.items()}}


class RetrainsInPredict(Shards):
    name = "retrains-in-predict"
    _waiting = None

    def unlearn(self, request, retained):
        gone = torch.isin(self._ids, request.ids)
        self._waiting = retained, torch.unique(self._shard[gone]).tolist()
        self._ids, self._shard = self._ids[~gone], self._shard[~gone]
        self._old = retained

    def predict(self, query):
        if self._waiting is not None:
            (retained, hit), self._waiting = self._waiting, None
            self._train(retained, hit)
            self._fit_aggregator(retained)
        return super().predict(query)


class NoopThatClaims(PostHoc):
    """Changes nothing, and says what Retrain says."""

    name = "noop-that-claims"
    claim = Claim.EXACT

    def update(self, network, task, request, retained):
        return network


class Linear(Unlearner):
    """Right: a linear layer on features that were passed on once, trained by Adam from zero."""

    name = "linear"
    claim = Claim.EXACT

    def fit(self, task):
        self._old = task
        self._weight, self._optimiser = self.start(task)
        self.train(task.graph)

    def unlearn(self, request, retained):
        self._weight, self._optimiser = self.start(retained)
        self.train(self.graph_to_learn_from(request, retained))
        self._old = retained

    def start(self, task):
        weight = torch.zeros(task.graph.num_features, task.graph.num_classes, requires_grad=True)
        return weight, torch.optim.Adam([weight], lr=0.1)

    def graph_to_learn_from(self, request, retained):
        return retained.graph

    def degree(self, graph):
        return torch.bincount(graph.edge_index[1], minlength=graph.num_nodes) + 1

    def passed_on(self, graph, degree):
        source, target = graph.edge_index
        total = graph.x.index_add(0, target, graph.x[source])
        return total / degree[:, None]

    def train(self, graph):
        self._ids = graph.ids.clone()
        rows, labels = self.passed_on(graph, self.degree(graph)), graph.y
        for _ in range(15):
            loss = functional.cross_entropy(rows @ self._weight, labels)
            (self._weight.grad,) = torch.autograd.grad(loss, [self._weight])
            self._optimiser.step()
        # Adam's moments are worked out anew at the next start; until then they hold nothing that is needed.
        self._weight.grad = None
        if not self.keeps_optimiser:
            self._optimiser = None

    keeps_optimiser = False

    def predict(self, query):
        graph = query.context(self._ids)
        rows = self.passed_on(graph, Linear.degree(self, graph)) @ self._weight.detach()
        return torch.log_softmax(rows[graph.positions(query.targets)], dim=1)

    def state(self):
        return {"members/000/weight": self._weight.detach()}


class OldDegrees(Linear):
    """Remembers by id the degrees it first saw."""

    name = "old-degrees"
    _degrees = None

    def degree(self, graph):
        now = super().degree(graph)
        if self._degrees is None:
            self._degrees = dict(zip(graph.ids.tolist(), now.tolist(), strict=True))
        return torch.tensor([self._degrees[node] for node in graph.ids.tolist()])


class KeepsTheOptimiser(Linear):
    name = "keeps-the-optimiser"
    keeps_optimiser = True

    def start(self, task):
        weight, optimiser = super().start(task)
        if getattr(self, "_optimiser", None) is not None:
            moments = self._optimiser.state_dict()["state"]
            optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
        return weight, optimiser


class ForgetsFeaturesNotEdges(Linear):
    name = "forgets-features-not-edges"

    def graph_to_learn_from(self, request, retained):
        x = self._old.graph.x.clone()
        x[self._old.graph.positions(request.ids)] = 0
        return replace(self._old.graph, x=x)

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        self._ids = retained.graph.ids.clone()


class ForgetsEdgesOfANeighbour(Linear):
    name = "forgets-edges-of-a-neighbour"

    def graph_to_learn_from(self, request, retained):
        graph = retained.graph
        busiest = torch.bincount(graph.edge_index.flatten(), minlength=graph.num_nodes).argmax()
        return replace(graph, edge_index=graph.edge_index[:, (graph.edge_index != busiest).all(dim=0)])


class LeavesALabel(Linear):
    """Counts how often each class occurs, and leaves one label of a forgotten node in the count."""

    name = "leaves-a-label"

    def fit(self, task):
        super().fit(task)
        self._labels = dict(zip(task.graph.ids.tolist(), task.graph.y.tolist(), strict=True))

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        for node in request.ids[1:].tolist():
            del self._labels[node]

    def state(self):
        often = torch.bincount(torch.tensor(list(self._labels.values())), minlength=self._weight.shape[1])
        return {**super().state(), "members/000/often": often}


class WarmStarts(Linear):
    name = "warm-starts"

    def start(self, task):
        weight, optimiser = super().start(task)
        if hasattr(self, "_weight"):
            weight.data.copy_(self._weight.data)
        return weight, optimiser


class Restless(Linear):
    """Draws from the global random state."""

    name = "restless"

    def predict(self, query):
        return torch.log_softmax(super().predict(query) + torch.rand(()) * torch.arange(3.0), dim=1)


class KeepsAnchors(Smoothed):
    """Keeps the labels of forgotten nodes, and leaves them out when it is asked."""

    name = "keeps-anchors"

    class Params(Smoothed.Params):
        method: Spec = part("unlearner", "retrain", "Whose predictions are smoothed.")

    def _anchor(self, task):
        if not hasattr(self, "_ids"):
            super()._anchor(task)

    def predict(self, query):
        held = self._ids, self._labels
        retained = torch.isin(self._ids, query.retained)
        self._ids, self._labels = self._ids[retained], self._labels[retained]
        answer = super().predict(query)
        self._ids, self._labels = held
        return answer


class WeighsByOldLabels(KeepsAnchors):
    """Drops the labels of forgotten nodes, but still weighs classes by how often it first saw each."""

    name = "weighs-by-old-labels"

    def _anchor(self, task):
        if not hasattr(self, "_often"):
            self._often = torch.bincount(task.graph.y, minlength=task.graph.num_classes) + 1
        Smoothed._anchor(self, task)

    def predict(self, query):
        return torch.log_softmax(super().predict(query) + self._often.log(), dim=1)


class KeepsANeighbour(Unlearner):
    """Transductive Retrain that hides the label of the first forgotten node and goes on passing messages over it."""

    name = "keeps-a-neighbour"
    claim = Claim.EXACT
    settings = frozenset({"inductive", "transductive"})

    def fit(self, task):
        self._old, self._graph = task, task.seen
        self._train(task)

    def unlearn(self, request, retained):
        left = self._old.without(Request(request.ids[1:])).seen
        self._graph = replace(left, y=left.y.masked_fill(left.ids == request.ids[0], -1))
        self._old = retained
        self._train(retained)

    def _train(self, task):
        self._ids = task.graph.ids.clone()
        self._network = train_networks(task, [self._graph], [0])

    def predict(self, query):
        graph = query.context(self._ids)
        ((_, logits),) = self._network.predict([graph])
        return torch.log_softmax(logits[graph.positions(query.targets)], dim=1)

    def state(self):
        return {f"members/000/{name}": value for name, value in self._network.state(0).items()}


RIGHT = [Shards, Linear, Vague]
WRONG = [
    *(KeepsOneInU, ReusesOneMember, OldDegrees, SkipsOne, TakesPositionsForIds, CachesARow, KeepsTheOptimiser),
    *(DrawsUFromTheOldList, ScoresTheOldMembers, LearnsFromTheOldMembers, SeedsFromTheStack),
    *(ForgetsFeaturesNotEdges, ForgetsEdgesOfANeighbour, LeavesALabel, WarmStarts, NoopThatClaims),
    *(DeclaresItsAggregator, RetrainsInPredict, Restless, KeepsAnchors, WeighsByOldLabels),
]
