"""GIF: removes the influence of the request, and its effect on neighbours, in one step."""

from __future__ import annotations

from unlearnbench import Claim, Paper, PostHoc, Request, Task
from unlearnbench.gnn import Networks
from unlearnbench.unlearning import InfluenceParams, add, influence_step


class Gif(PostHoc):
    """Steps towards the retrained parameters by the inverse Hessian (Wu et al., WWW 2023).

    Only training nodes can count as influenced: a task holds no labels of others.
    """

    name = "gif"
    title = "GIF"
    version = 1
    summary = "A step by the influence of the request and its neighbourhood."
    reference = "Wu et al., GIF: A General Graph Unlearning Strategy via Influence Function, WWW 2023"
    paper = Paper(
        "Wu, Jiancan and Yang, Yi and Qian, Yuchun and Sui, Yongduo and Wang, Xiang and He, Xiangnan",
        "GIF: A General Graph Unlearning Strategy via Influence Function",
        "Proceedings of the ACM Web Conference",
        2023,
        "https://doi.org/10.1145/3543507.3583521",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge", "feature"})
    settings = frozenset({"inductive", "transductive"})
    released = {"iterations": 5}

    class Params(InfluenceParams):
        """Whose loss changes and how the Hessian is inverted."""

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Add the step."""
        add(network, influence_step(network, task, request, retained, self.params).parts)
        return network
