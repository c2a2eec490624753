"""Controls that keep the weights, with or without the forgotten edges at inference."""

from __future__ import annotations

from unlearnbench import Claim, Paper, PostHoc, Request, Task
from unlearnbench.gnn import Networks


class NoOp(PostHoc):
    """Keeps the weights; the graph at inference lacks the forgotten nodes and their edges.

    A measure of forgetting that cannot distinguish it from Retrain where Retrain differs from the
    trained network is blind.
    """

    name = "noop"
    title = "No unlearning"
    version = 1
    summary = "Control: weights kept, the forgotten edges gone at inference."
    reference = "Tan et al., Unlink to Unlearn: Simplifying Edge Unlearning in GNNs, WWW 2024, as a control"
    claim = Claim.NONE
    forgets = frozenset({"node", "edge", "feature"})
    settings = frozenset({"inductive", "transductive"})

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Change nothing."""
        return network


class UtU(NoOp):
    """Unlinks what is forgotten and keeps the weights (Tan et al., WWW 2024, section 3).

    The paper forgets edges. The harness unlinks all edges of a forgotten node for every method, so
    that for requests of nodes nothing remains to be done.
    """

    name = "utu"
    title = "UtU"
    summary = "Unlink to Unlearn: for requests of nodes the same as noop."
    reference = "Tan et al., Unlink to Unlearn: Simplifying Edge Unlearning in GNNs, WWW 2024"
    paper = Paper(
        "Tan, Jiajun and Sun, Fei and Qiu, Ruichen and Su, Du and Shen, Huawei",
        "Unlink to Unlearn: Simplifying Edge Unlearning in GNNs",
        "Companion Proceedings of the ACM Web Conference",
        2024,
        "https://arxiv.org/abs/2402.10695",
    )


class NoOpFull(NoOp):
    """Does nothing at all: it passes messages over the forgotten nodes as before.

    The only method that holds the former task after a request; its queries are those before it.
    """

    name = "noop-full"
    summary = "Control: nothing at all happens, at inference neither."
    reference = "the control without the unlinking of Tan et al., Unlink to Unlearn, WWW 2024"
    deletes_at_inference = False

    def unlearn(self, request: Request, retained: Task) -> None:
        """Do nothing and keep the former task."""
