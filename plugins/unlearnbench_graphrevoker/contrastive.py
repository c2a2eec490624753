"""Contrastive sub-model aggregation: attention learned on U (Zhang et al., WWW 2024, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy

from unlearnbench import Graph, LearnedAggregator, Members, Task
from unlearnbench_graphrevoker import auxiliary, fusion, sampling
from unlearnbench_graphrevoker.pairs import Batch, PairRules, PairSource


class Contrastive(LearnedAggregator):
    """Learns to fuse members' embeddings from U, with two auxiliary losses.

    One loss pulls a node's fused embedding towards that of a random subset of the members; the other
    restores similarity along edges that the partition cut, whatever their weights. Retired members are ignored.
    """

    name = "contrastive"
    version = 1
    summary = "Attention over projected member embeddings, learned with contrastive and reconstruction losses."
    reference = "Zhang et al., GraphRevoker, WWW 2024, section 4.2"

    class Params(LearnedAggregator.Params):
        """Parameters of the aggregator; the README of the plugin names the erratum behind each choice."""

        projection_width: int = Field(128, ge=1, description="Width of the members' projections.")
        attention_width: int = Field(16, ge=1, description="Width of the attention's hidden layer.")
        attention: fusion.AttentionForm = Field(
            "layered", description="Score by a hidden layer on the projection, or by one vector (the paper's)."
        )
        attention_temperature: float = Field(2.0, gt=0, description="Divides the scores before the softmax.")
        fused: fusion.FusionForm = Field(
            "projected", description="Fuse projections, or unprojected embeddings divided by S (the paper's formula)."
        )
        contra_weight: float = Field(1e-4, ge=0, description="Weight of the local-global contrastive loss.")
        recon_weight: float = Field(1e-4, ge=0, description="Weight of the reconstruction loss.")
        contra_form: auxiliary.ContrastForm = Field(
            "per-node",
            description="InfoNCE of each node; the paper's inverted fraction; or of cosines averaged over the batch.",
        )
        contra_temperature: float = Field(2.0, gt=0, description="Temperature of the contrastive loss.")
        negatives: Literal["random", "other-label"] = Field(
            "random", description="Negatives of the contrastive loss: any other node, or one of another label."
        )
        mask: sampling.MaskDraw = Field(
            "bernoulli",
            description="Members of a local view: each with probability keep, or S - 1 draws with replacement.",
        )
        keep: float = Field(0.6, gt=0, le=1, description="Probability of keeping a member, for mask=bernoulli.")
        mask_form: fusion.MaskForm = Field(
            "softmax", description="Mask before the softmax, or multiply its result by the mask (the paper's)."
        )
        resample: bool = Field(True, description="Draw masks and pairs anew at every step, or once.")
        recon_sign: auxiliary.MarginSign = Field(
            "intended", description="Draw neighbours together, or apart (the paper's formula)."
        )
        recon_alone: Literal["skip", "self"] = Field(
            "skip", description="A node without neighbour in another shard is left out, or is its own neighbour."
        )
        recon_margin: float = Field(1.0, ge=0, description="Margin of the reconstruction loss.")
        lr: float = Field(1e-2, gt=0, description="Learning rate of AdamW.")
        weight_decay: float = Field(1e-5, ge=0, description="Weight decay of AdamW.")
        batch_size: int = Field(512, ge=1, description="Nodes of U in a step.")
        epochs: int = Field(20, ge=0, description="Passes over U.")
        initial: fusion.Initial = Field(
            "glorot", description="Initial weights: Glorot with zero biases, or normal with deviation 0.01."
        )

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        self.params: Contrastive.Params
        self._fusion: fusion.Fusion | None = None

    @property
    def design(self) -> fusion.Design:
        """The formulas that the parameters choose."""
        params = self.params
        return fusion.Design(
            attention=params.attention,
            fused=params.fused,
            local=params.mask_form,
            temperature=params.attention_temperature,
            projection_width=params.projection_width,
            attention_width=params.attention_width,
            initial=params.initial,
        )

    @property
    def rules(self) -> PairRules:
        """The sampling rules that the parameters choose."""
        params = self.params
        return PairRules(
            contrast=params.contra_weight > 0,
            reconstruct=params.recon_weight > 0,
            negatives=params.negatives,
            mask=params.mask,
            keep=params.keep,
            alone=params.recon_alone,
            resample=params.resample,
        )

    def fit(self, task: Task, members: Members, graph: Graph) -> None:
        """Learn from U, from scratch.

        Args:
            task: Its `generator` is the source of random numbers.
            members: The members' outputs for U.
            graph: The subgraph induced by U, with labels, in the order of `members`.
        """
        params = self.params
        embeddings = members.embeddings[members.voting].detach()
        num_members, num_nodes, size = embeddings.shape
        network = fusion.Fusion(
            num_members, size, graph.num_classes, self.design, task.generator("contrastive", "weights")
        ).to(embeddings.device)
        optimiser = torch.optim.AdamW(network.parameters(), lr=params.lr, weight_decay=params.weight_decay, fused=True)
        member_mask = self.member_mask(members)
        pairs = PairSource(self.rules, graph, members.shard, num_members, task.generator("contrastive", "pairs"))
        order = task.generator("contrastive", "batches")
        for _ in task.epochs(params.epochs):
            shuffled = torch.randperm(num_nodes, generator=order).to(embeddings.device)
            for anchors in shuffled.split(params.batch_size):
                optimiser.zero_grad()
                loss = self._loss(network, embeddings, graph.y, anchors, pairs, member_mask)
                loss.backward()
                optimiser.step()
        self._fusion = network.requires_grad_(False)
        self.fitted(members)

    def combine(self, members: Members) -> Tensor:
        """Return log-probabilities [n, C].

        Raises:
            RefusedError: Not fitted, or fitted on other members than those that vote now.
        """
        voting = self.check_fitted(members)
        assert self._fusion is not None
        every = bool(voting.all())
        return torch.log_softmax(self._fusion(members.embeddings if every else members.embeddings[voting]), dim=1)

    def state(self) -> Mapping[str, Tensor]:
        """Return the learned parameters; those of a member are at its rank among the voting members."""
        return {} if self._fusion is None else self._fusion.named()

    def _loss(
        self,
        network: fusion.Fusion,
        embeddings: Tensor,
        labels: Tensor,
        anchors: Tensor,
        pairs: PairSource,
        member_mask: Tensor | None,
    ) -> Tensor:
        params = self.params
        if not (params.contra_weight or params.recon_weight):
            mask = None if member_mask is None else member_mask[anchors]
            return cross_entropy(network(embeddings.index_select(1, anchors), mask), labels[anchors])
        batch = pairs.draw(anchors)
        needed = embeddings.index_select(1, batch.nodes)
        mask = None if member_mask is None else member_mask[batch.nodes]
        projected, scores = network.scores(needed)
        scores = fusion.masked(scores, mask)
        views = [network.weights(scores)]
        if params.contra_weight:
            views.append(network.local_weights(scores, batch.mask, mask))
        fused = network.fuse(torch.stack(views, dim=1), projected, needed)
        loss = cross_entropy(network.classify(fused[batch.anchors, 0]), labels[anchors])
        return loss + self._auxiliary(batch, fused)

    def _auxiliary(self, batch: Batch, fused: Tensor) -> Tensor:
        """Return the weighted sum of the auxiliary losses from the views [R, 1 or 2, p] of a step's nodes."""
        params, partners = self.params, batch.partners
        views = auxiliary.directions(fused)
        global_views = views[:, 0]
        anchors = global_views[batch.anchors]
        total = fused.new_zeros(())
        if params.contra_weight:
            local_views = views[:, 1]
            contrast = auxiliary.contrastive_loss(
                auxiliary.cosines(anchors, local_views[batch.anchors]),
                auxiliary.cosines(anchors, global_views[partners.negatives]),
                auxiliary.cosines(anchors, local_views[partners.negatives]),
                partners.has_negative,
                params.contra_temperature,
                params.contra_form,
            )
            total = total + params.contra_weight * contrast
        if params.recon_weight:
            reconstruction = auxiliary.reconstruction_loss(
                auxiliary.cosines(anchors, global_views[partners.neighbours]),
                auxiliary.cosines(anchors, global_views[partners.strangers]),
                partners.has_both,
                params.recon_margin,
                params.recon_sign,
            )
            total = total + params.recon_weight * reconstruction
        return total
