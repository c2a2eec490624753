"""Components that are each wrong in one thing, as authors get them wrong."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch
from pydantic import Field

from unlearnbench import (
    Aggregator,
    Audit,
    Claim,
    ComponentParams,
    Dataset,
    Finding,
    Graph,
    Metric,
    Model,
    Partitioner,
    PostHoc,
    Score,
    Sharded,
    Unlearner,
    hookimpl,
    part,
    search,
    train_networks,
)
from unlearnbench.component import Spec


class Wrong:
    reference = "a test"
    summary = "Is wrong."


# Partitioners


class LosesNodes(Wrong, Partitioner):
    """Places nodes along edges, and those without any nowhere."""

    name = "loses-nodes"

    def partition(self, task, num_shards):
        graph = task.graph
        shard = torch.full((graph.num_nodes,), -1)
        linked = graph.edge_index[0].unique()
        shard[linked] = torch.arange(len(linked)) % num_shards
        return shard


class Overlaps(Wrong, Partitioner):
    """Gives shards as lists of nodes, each with a node of the next."""

    name = "overlaps"

    def partition(self, task, num_shards):
        parts = torch.arange(task.graph.num_nodes).tensor_split(num_shards)
        return [torch.cat([one, other[:1]]) for one, other in zip(parts, [*parts[1:], parts[0]], strict=True)]


class ChangesInputs(Wrong, Partitioner):
    """Normalises features in place."""

    name = "changes-inputs"

    def partition(self, task, num_shards):
        x = task.graph.x
        x -= x.mean(dim=0)
        return torch.arange(len(x)) % num_shards


class ReadsTheGlobalGenerator(Wrong, Partitioner):
    name = "reads-the-global-generator"

    def partition(self, task, num_shards):
        return torch.randperm(task.graph.num_nodes) % num_shards


class Remembers(Wrong, Partitioner):
    """Deals on from where the last call ended."""

    name = "remembers"
    calls = 0

    def partition(self, task, num_shards):
        Remembers.calls += 1
        return (torch.arange(task.graph.num_nodes) + Remembers.calls) % num_shards


class LopSided(Wrong, Partitioner):
    name = "lop-sided"

    def partition(self, task, num_shards):
        return torch.arange(task.graph.num_nodes).clamp(max=num_shards - 1)


class DeniesData(Wrong, Partitioner):
    """Looks at labels, and says that it does not."""

    name = "denies-data"
    uses_data = False

    def partition(self, task, num_shards):
        order = torch.argsort(task.graph.y, stable=True)
        shard = torch.empty_like(order)
        shard[order] = torch.arange(len(order)) % num_shards
        return shard


# Aggregators


class DividesBySize(Wrong, Aggregator):
    """Crashes with an empty shard."""

    name = "divides-by-size"

    def combine(self, members):
        weight = torch.tensor([1 / size for size in members.sizes.tolist()])
        return torch.log_softmax(torch.einsum("s,snc->nc", weight, members.logits), dim=1)


class HearsTheDead(Wrong, Aggregator):
    name = "hears-the-dead"

    def combine(self, members):
        return torch.log_softmax(members.logits.mean(dim=0), dim=1)


class NormalisesOverNodes(Wrong, Aggregator):
    name = "normalises-over-nodes"

    def combine(self, members):
        logits = members.logits[members.voting].mean(dim=0)
        return torch.log_softmax(logits - logits.mean(dim=0), dim=1)


class DividesByZero(Wrong, Aggregator):
    """Answers what is not a number, each time the same."""

    name = "divides-by-zero"

    def combine(self, members):
        return torch.log_softmax(members.logits[members.voting].mean(dim=0), dim=1) * torch.nan


class GoesOnLearning(Wrong, Aggregator):
    """Starts its second fit where the first one ended."""

    name = "goes-on-learning"
    sample = 10

    def __init__(self, params=None):
        super().__init__(params)
        self.bias = torch.zeros(())

    def fit(self, task, members, graph):
        self.bias = self.bias + graph.y.double().mean().float() + 1

    def combine(self, members):
        return torch.log_softmax(members.logits[members.voting].mean(dim=0) * self.bias, dim=1)

    def state(self):
        return {"bias": self.bias}


# Methods


class IgnoresTheRequest(Wrong, PostHoc):
    name = "ignores-the-request"

    def update(self, network, task, request, retained):
        return network


class GivesNaN(Wrong, PostHoc):
    """Averages over neighbours, of which some nodes have none."""

    name = "gives-nan"
    claim = Claim.NONE

    def update(self, network, task, request, retained):
        return network

    def logits(self, graph):
        own = super().logits(graph)
        source, target = graph.edge_index
        total = torch.zeros_like(own).index_add(0, target, own[source])
        return own + total / torch.bincount(target, minlength=graph.num_nodes)[:, None]


class CountsTheClassesItSees(Wrong, PostHoc):
    """Gives a column for each class that occurs."""

    name = "counts-the-classes-it-sees"
    claim = Claim.NONE

    def update(self, network, task, request, retained):
        return network

    def predict(self, query):
        occur = self._task.graph.y.unique()
        return torch.log_softmax(super().predict(query)[:, occur], dim=1)


class LearnsFromTestLabels(Wrong, PostHoc):
    """Looks for the graph that its task was cut from."""

    name = "learns-from-test-labels"
    claim = Claim.NONE

    def fit(self, task):
        super().fit(task)
        frame, whole = sys._getframe(), task.graph
        while (frame := frame.f_back) is not None and whole is task.graph:
            graphs = [found for found in frame.f_locals.values() if isinstance(found, Graph)]
            whole = next((found for found in graphs if found.num_nodes > task.graph.num_nodes), whole)
        self._network = train_networks(task, [whole], [0])

    def update(self, network, task, request, retained):
        return network


class HoldsItsTask(Wrong, Sharded):
    name = "holds-its-task"

    def fit(self, task):
        self.rows = dict(zip(task.graph.ids.tolist(), task.graph.x, strict=True))
        super().fit(task)


class StartsWarm(Wrong, Unlearner):
    """Says it is exact, and starts from what it had learned."""

    name = "starts-warm"
    claim = Claim.EXACT

    def fit(self, task):
        self.learn(task, {})

    def unlearn(self, request, retained):
        self.learn(retained, {0: self.network.state(0)})

    def learn(self, task, start):
        self.ids = task.graph.ids.clone()
        self.network = train_networks(task, [task.graph], [0], start=start)

    def predict(self, query):
        graph = query.context(self.ids)
        ((_, logits),) = self.network.predict([graph])
        return torch.log_softmax(logits[graph.positions(query.targets)], dim=1)

    def state(self):
        return {f"members/000/{name}": value for name, value in self.network.state(0).items()}


class AsksForTheForgotten(StartsWarm):
    name = "asks-for-the-forgotten"
    claim = Claim.APPROXIMATE

    def unlearn(self, request, retained):
        ids = self.ids
        super().unlearn(request, retained)
        self.ids = ids


class DropsOutWhenAsked(Wrong, PostHoc):
    name = "drops-out-when-asked"
    claim = Claim.NONE

    def update(self, network, task, request, retained):
        return network

    def logits(self, graph):
        return torch.nn.functional.dropout(super().logits(graph), 0.5)


class TakesNoSecondRequest(Wrong, PostHoc):
    name = "takes-no-second-request"
    told = 0

    def update(self, network, task, request, retained):
        self.told += 1
        if self.told == 2:
            raise KeyError(int(request.ids[0]))
        return train_networks(retained, [retained.graph], [0])


# Models, metrics, datasets, audits


class Normed(torch.nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.first = torch.nn.Linear(num_features, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.last = torch.nn.Linear(8, num_classes)

    def embed(self, x, edge_index):
        return self.norm(self.first(x)).relu()

    def head(self, h):
        return self.last(h)


class NeedsTwoNodes(Wrong, Model):
    name = "needs-two-nodes"

    def build(self, num_features, num_classes, generator):
        return Normed(num_features, num_classes)


class Averaging(Normed):
    """Ignores the weights of the edges it averages over."""

    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.norm = torch.nn.LayerNorm(8)

    def embed(self, x, edge_index, edge_weight=None):
        rows = super().embed(x, edge_index)
        return rows.index_add(0, edge_index[1], rows[edge_index[0]])


class ForgetsWeights(Wrong, Model):
    name = "forgets-weights"
    supports_edge_weight = True

    def build(self, num_features, num_classes, generator):
        return Averaging(num_features, num_classes)


class HidesNaN(Wrong, Metric):
    name = "hides-nan"

    def score(self, labels, log_probabilities):
        return float((log_probabilities.argmax(dim=1) == labels).double().mean())


class NeedsEveryClass(Wrong, Metric):
    name = "needs-every-class"

    def score(self, labels, log_probabilities):
        counts = torch.bincount(labels, minlength=log_probabilities.shape[1])
        right = torch.bincount(labels[log_probabilities.argmax(dim=1) == labels], minlength=len(counts))
        return float((right / counts).mean()) if not log_probabilities.isnan().any() else float("nan")


class AnotherEachTime(Wrong, Dataset):
    name = "another-each-time"

    def load(self, root):
        ids = torch.arange(40)
        x = torch.tensor([[random.SystemRandom().random()] for _ in range(40)])
        return Graph(x, ids % 2, torch.stack([ids[:-1], ids[1:]]), ids, 2)


class CrashesWithoutFiles(Wrong, Dataset):
    name = "crashes-without-files"

    def load(self, root: Path):
        (root / "graph.txt").read_text(encoding="utf-8")
        raise AssertionError("there is no such file")


class FindsNaN(Wrong, Audit):
    name = "finds-nan"
    question = "Is it a number?"

    def effort(self, method):
        return {method.label: 1}

    def examine(self, subject):
        return Finding("", (Score("it", "forgotten", float("nan")),))


class Undescribed(Wrong, Metric):
    name = "undescribed"
    summary = ""
    version = 0

    class Params(ComponentParams):
        other: int = Field(default=1)

    def score(self, labels, log_probabilities):
        return float(log_probabilities.mean())


class WrongParts(Wrong, Sharded):
    """Right itself: it is made of a partitioner that is wrong."""

    name = "wrong-parts"

    class Params(Sharded.Params):
        partitioner: Spec = part("partitioner", "loses-nodes", "Deals nodes.")


class SkipsMembers(Wrong, Sharded):
    """Retrains some of the members that a request touches, and keeps the others."""

    claim = Claim.APPROXIMATE
    claim_reason = ""

    def fit(self, task):
        self.served = 0
        super().fit(task)

    def unlearn(self, request, retained):
        self.served += 1
        self.kind = request.kind
        super().unlearn(request, retained)

    def _train(self, task, shards):
        super()._train(task, self.chosen(list(shards)) if self.served else shards)


class RetrainsFifteen(SkipsMembers):
    name = "retrains-fifteen"

    def chosen(self, shards):
        return shards[:15]


class RetrainsEverySecond(SkipsMembers):
    name = "retrains-every-second"

    def chosen(self, shards):
        return shards[::2]


class IgnoresTheThird(SkipsMembers):
    name = "ignores-the-third"

    def chosen(self, shards):
        return shards if self.served < 3 else []


class ServesEdgesInOneShard(SkipsMembers):
    name = "serves-edges-in-one-shard"

    def chosen(self, shards):
        return shards[:1] if self.kind == "edge" else shards


class ServesFeaturesInOneShard(SkipsMembers):
    name = "serves-features-in-one-shard"

    def chosen(self, shards):
        return shards[:1] if self.kind == "feature" else shards


class UpdatesInPlace(Wrong, PostHoc):
    """Returns nothing from update()."""

    name = "updates-in-place"

    def update(self, network, task, request, retained):
        pass


class HasNoState(Wrong, PostHoc):
    name = "has-no-state"

    def update(self, network, task, request, retained):
        return network

    def state(self):
        pass


# By kind and component: the rules that must fail, and what the first of them must say.
class TunesNothing(Wrong, Partitioner):
    """Declares values to be tuned of which there are none."""

    name = "tunes-nothing"

    class Params(ComponentParams):
        size: int = Field(default=1, ge=1, description="Not used.", json_schema_extra=search(5, 5))

    def partition(self, task, num_shards):
        return torch.arange(task.graph.num_nodes) % num_shards


FAULTS = {
    ("partitioner", TunesNothing): (["parameters"], "Its range of size to be tuned is empty"),
    ("partitioner", LosesNodes): (
        ["places-every-node"],
        "isolated nodes: It loses nodes: .* in no shard from 0 to 3",
    ),
    ("partitioner", Overlaps): (["places-every-node"], "Shards overlap: 4 of 24 nodes are in more than one shard"),
    ("partitioner", ChangesInputs): (["inputs-unchanged"], "partition\\(\\) changed task.graph.x"),
    ("partitioner", ReadsTheGlobalGenerator): (["own-generator"], "uses the global generator of torch.*task.generator"),
    ("partitioner", Remembers): (["same-answer"], "Two calls with the same task give different answers"),
    ("partitioner", LopSided): (["balance"], "Shards have 1 to 21 nodes; the protocol wants 5 to 7"),
    ("partitioner", DeniesData): (["uses-data"], "says uses_data = False, but other features, labels"),
    ("aggregator", DividesBySize): (["empty-shards"], "crashes: ZeroDivisionError.*wrong_plugins.py, in "),
    ("aggregator", HearsTheDead): (["empty-shards"], "A retired member still counts"),
    ("aggregator", NormalisesOverNodes): (["row-by-row"], "A row depends on other rows"),
    ("aggregator", DividesByZero): (
        ["answers", "empty-shards", "more-shards-than-nodes"],
        "values that are not finite",
    ),
    ("aggregator", GoesOnLearning): (["from-scratch"], "A second fit\\(\\) differs from the first: bias"),
    ("unlearner", IgnoresTheRequest): (["heeds-the-request"], "It ignores the request: it claims approximate"),
    ("unlearner", GivesNaN): (["answers"], "isolated nodes.*values that are not finite"),
    ("unlearner", CountsTheClassesItSees): (["answers"], "gave float32 \\[6, 1\\], expected float \\[6, 3\\]"),
    ("unlearner", LearnsFromTestLabels): (["test-labels"], "It learns from test labels"),
    ("unlearner", HoldsItsTask): (["holds-nothing"], "still holds features of forgotten nodes: in .rows"),
    ("unlearner", StartsWarm): (["claim"], "It claims exact: refuted "),
    ("unlearner", AsksForTheForgotten): (
        ["answers"],
        "refuses: A query was asked for the graph of 5 nodes that",
    ),
    ("unlearner", DropsOutWhenAsked): (["own-generator", "pure-predict"], "uses the global generator of torch"),
    ("unlearner", TakesNoSecondRequest): (["second-request"], "It crashes: KeyError"),
    ("unlearner", RetrainsFifteen): (
        ["every-shard"],
        "Request 2, the features of a node of each of 32 shards: the members of shards",
    ),
    ("unlearner", RetrainsEverySecond): (["every-shard"], "Request 1, an edge of each of .* shards: the members of"),
    ("unlearner", IgnoresTheThird): (["every-shard"], "Request 3, a node of each of .* shards: the members of shards"),
    ("unlearner", ServesEdgesInOneShard): (["every-shard"], "Request 1, an edge of each of .* shards: the members of"),
    ("unlearner", ServesFeaturesInOneShard): (
        ["every-shard"],
        "Request 2, the features of a node of each of 32 shards: the members of",
    ),
    ("unlearner", UpdatesInPlace): (
        ["answers"],
        "UpdatesInPlace.update\\(\\) returned a NoneType, expected .* return network",
    ),
    ("unlearner", HasNoState): (["answers"], "state\\(\\) or kept\\(\\) returned a NoneType"),
    ("unlearner", WrongParts): (["answers"], "Partitioner loses-nodes returned shard"),
    ("model", NeedsTwoNodes): (["answers"], "a single node.*normalises over a batch"),
    ("model", ForgetsWeights): (["edge-weights"], "other weights give the same predictions"),
    ("metric", HidesNaN): (["nan"], "Predictions with NaN are scored"),
    ("metric", NeedsEveryClass): (["a-number"], "score\\(\\) of a single node gave nan"),
    ("dataset", AnotherEachTime): (["same-answer"], "Loaded twice it is another graph: x differ"),
    ("dataset", CrashesWithoutFiles): (["a-graph", "missing-files"], "It crashes: FileNotFoundError"),
    ("audit", FindsNaN): (["finding"], "Its verdict is ''"),
    ("metric", Undescribed): (["declares", "parameters"], "Its version is 0"),
}


@hookimpl
def register_partitioners(register):
    _register("partitioner", register)


@hookimpl
def register_aggregators(register):
    _register("aggregator", register)


@hookimpl
def register_unlearners(register):
    _register("unlearner", register)


@hookimpl
def register_models(register):
    _register("model", register)


@hookimpl
def register_metrics(register):
    _register("metric", register)


@hookimpl
def register_datasets(register):
    _register("dataset", register)


@hookimpl
def register_audits(register):
    _register("audit", register)


def _register(kind, register):
    for each, cls in FAULTS:
        if each == kind:
            register(cls)
