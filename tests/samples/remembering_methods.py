"""Methods that claim to be exact: honest caches, and others that remember or put off what one run does not show."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from wrong_methods import Linear, Shards

MEMBERS = {}


class Remembers(Shards):
    """Looks trained members up by seed and shard, in a module, and so forgets nothing."""

    name = "remembers-in-a-module"

    def key(self, task, shard):
        return f"{self.name}-{task.seed}-{shard}"

    def load(self, key):
        return MEMBERS.get(key)

    def keep(self, key, member):
        MEMBERS[key] = member

    def _train(self, task, shards):
        keys = {shard: self.key(task, shard) for shard in shards}
        known = {shard: self.load(key) for shard, key in keys.items()}
        missing = [shard for shard in shards if known[shard] is None]
        super()._train(task, missing)
        for shard in shards:
            if known[shard] is not None:
                self._networks.put(shard, known[shard])
            else:
                self.keep(keys[shard], {name: value.clone() for name, value in self._networks.state(shard).items()})


class RemembersInFiles(Remembers):
    """Does so in a folder."""

    name = "remembers-in-files"

    class Params(Remembers.Params):
        place: Literal["temporary", "home", "working"] = Field(default="temporary", description="Which folder.")

    def file(self, key):
        places = {"temporary": tempfile.gettempdir(), "home": Path.home(), "working": Path()}
        return Path(places[self.params.place], f"{key}.pt")

    def load(self, key):
        return torch.load(self.file(key), weights_only=True) if self.file(key).exists() else None

    def keep(self, key, member):
        torch.save(member, self.file(key))


class RemembersForLater(Remembers):
    """Forgets rightly, and leaves the members of its first training to whoever comes next."""

    name = "remembers-for-later"

    def forget(self, request, retained):
        self._forgetting = True
        super().forget(request, retained)

    def load(self, key):
        return None if hasattr(self, "_forgetting") else super().load(key)

    def keep(self, key, member):
        if not hasattr(self, "_forgetting"):
            super().keep(key, member)


class CachesByContent(Remembers):
    """Right: what it looks up was trained on the same data."""

    name = "caches-by-content"

    def key(self, task, shard):
        graph = task.graph.induced(self._ids[self._shard == shard])
        digest = hashlib.sha256()
        for part in (graph.x, graph.y, graph.edge_index, graph.ids):
            digest.update(part.numpy().tobytes())
        return f"{super().key(task, shard)}-{digest.hexdigest()}"


class CachesInFiles(RemembersInFiles, CachesByContent):
    """Right: the same in files."""

    name = "caches-in-files"


class MovesANode(Shards):
    """Moves a retained node from a shard that was not hit, whose member it keeps, to one that was."""

    name = "moves-a-node"

    def locate(self, request, retained):
        hit = super().locate(request, retained)
        others = [shard for shard in self._shard.unique().tolist() if shard not in hit]
        if others:
            self._shard[torch.nonzero(self._shard == others[0])[0]] = hit[0]
        return hit


class SeedsByHowMany(Shards):
    """Draws random numbers whose position depends on how many members are trained."""

    name = "seeds-by-how-many"

    def _train(self, task, shards):
        super()._train(replace(task, seed=task.seed + self.num_shards - len(shards)), shards)


class OneShardOfEdges(Shards):
    """Retrains a single member when edges are forgotten."""

    name = "one-shard-of-edges"
    kind = "edge"

    def locate(self, request, retained):
        hit = super().locate(request, retained)
        return hit[:1] if request.kind == self.kind else hit


class OneShardOfFeatures(OneShardOfEdges):
    """Does so when features are forgotten."""

    name = "one-shard-of-features"
    kind = "feature"


class Postpones(Linear):
    """Forgets when two nodes have come."""

    name = "postpones"

    def fit(self, task):
        super().fit(task)
        self._waiting = self._requests = 0

    def due(self, request):
        self._waiting += len(request.ids)
        return self._waiting >= 2

    def unlearn(self, request, retained):
        self._requests += 1
        if self.due(request):
            self._waiting = 0
            super().unlearn(request, retained)
        self._old, self._ids = retained, retained.graph.ids.clone()


class IgnoresTheThird(Postpones):
    """Serves two requests."""

    name = "ignores-the-third"

    def due(self, request):
        return self._requests <= 2


class PostponesTheThird(Postpones):
    """Serves the third request with the fourth."""

    name = "postpones-the-third"

    def due(self, request):
        return self._requests != 3


class RemembersNumbers(Linear):
    """Answers about nodes it was trained on from numbers that it noted then."""

    name = "remembers-numbers"

    def fit(self, task):
        super().fit(task)
        rows = self.passed_on(task.graph, self.degree(task.graph)) @ self._weight.detach()
        self._noted = dict(zip(task.graph.ids.tolist(), torch.log_softmax(rows, dim=1).tolist(), strict=True))

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        for node in request.ids.tolist():
            del self._noted[node]

    def predict(self, query):
        answer = super().predict(query)
        for row, node in enumerate(query.targets.tolist()):
            if node in self._noted:
                answer[row] = torch.tensor(self._noted[node])
        return answer


class AnswersAsBefore(Linear):
    """Answers a question that it was asked before as it did then."""

    name = "answers-as-before"

    def predict(self, query):
        self._asked = getattr(self, "_asked", {})
        key = query.view, tuple(query.targets.tolist())
        if key not in self._asked:
            self._asked[key] = super().predict(query).tolist()
        return torch.tensor(self._asked[key])


class TrainsByChance(Linear):
    """Draws in training from a generator that no seed sets."""

    name = "trains-by-chance"

    def fit(self, task):
        super().fit(task)
        with torch.no_grad():
            self._weight += torch.rand(1, generator=torch.Generator().manual_seed(torch.seed()))

    def unlearn(self, request, retained):
        chance = self._weight.detach().clone()
        super().unlearn(request, retained)
        with torch.no_grad():
            self._weight += chance


HONEST = [CachesByContent, CachesInFiles]
DISHONEST = [
    *(Remembers, RemembersInFiles, RemembersForLater, MovesANode, SeedsByHowMany, OneShardOfEdges, OneShardOfFeatures),
    *(Postpones, IgnoresTheThird, PostponesTheThird, RemembersNumbers, AnswersAsBefore),
]
