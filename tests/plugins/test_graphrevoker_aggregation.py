import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch.nn.functional import cosine_similarity, cross_entropy

from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError
from unlearnbench.gnn import GCN
from unlearnbench.graph import Graph
from unlearnbench.task import Task, Training, View
from unlearnbench.unlearning.aggregation import Members
from unlearnbench_graphrevoker import auxiliary, sampling
from unlearnbench_graphrevoker.contrastive import Contrastive
from unlearnbench_graphrevoker.fusion import Design, Fusion
from unlearnbench_graphrevoker.pairs import PairRules, PairSource

NO_EDGES = torch.empty(2, 0, dtype=torch.int64)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def sample_graph(n=40, num_classes=3, num_edges=60, seed=0):
    edges = torch.randint(n, (2, num_edges), generator=rng(seed))
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    return Graph(torch.zeros(n, 1), torch.arange(n) % num_classes, edges, torch.arange(n), num_classes)


def make_task(graph, seed=0):
    model = Spec("model", "gcn", GCN.version, GCN, GCN.Params())
    return Task(graph, model, Training(), torch.device("cpu"), seed)


def make_members(graph, num_members=4, size=6, seed=0, retired=()):
    """Members whose embeddings tell the label, each in its own rotation."""
    n = graph.num_nodes
    rotation = torch.linalg.qr(torch.randn(num_members, size, size, generator=rng(seed)))[0]
    signal = torch.nn.functional.one_hot(graph.y, size).float()
    embeddings = signal @ rotation + 0.1 * torch.randn(num_members, n, size, generator=rng(seed + 1))
    logits = torch.zeros(num_members, n, graph.num_classes)
    sizes = torch.full((num_members,), 10)
    sizes[list(retired)] = 0
    alive = torch.nonzero(sizes).squeeze(1)
    return Members(embeddings, logits, alive[torch.arange(n) % len(alive)], sizes)


def contrastive(**params):
    return Contrastive(Contrastive.Params(**params))


def fitted(graph, members, seed=0, **params):
    aggregator = contrastive(**params)
    aggregator.fit(make_task(graph, seed), members, graph)
    return aggregator


# The losses.


def test_contrastive_loss_by_hand():
    positive, across, within = torch.tensor([0.8, 0.5]), torch.tensor([0.1, 0.2]), torch.tensor([-0.4, 0.9])
    where = torch.tensor([True, True])

    def nce(p, a, w):
        p, a, w = (math.exp(value / 2) for value in (p, a, w))
        return -math.log(p / (p + a + w))

    each = [nce(0.8, 0.1, -0.4), nce(0.5, 0.2, 0.9)]
    loss = auxiliary.contrastive_loss(positive, across, within, where, 2.0, "per-node")
    assert float(loss) == pytest.approx(sum(each) / 2)
    paper = auxiliary.contrastive_loss(positive, across, within, where, 2.0, "paper")
    assert float(paper) == pytest.approx(-sum(each) / 2)
    released = auxiliary.contrastive_loss(positive, across, within, where, 2.0, "released")
    assert float(released) == pytest.approx(nce(0.65, 0.15, 0.25))
    first = auxiliary.contrastive_loss(positive, across, within, torch.tensor([True, False]), 2.0, "per-node")
    assert float(first) == pytest.approx(each[0])


def test_reconstruction_loss_by_hand():
    neighbour, stranger = torch.tensor([0.9, -1.0, 0.3]), torch.tensor([-0.9, 1.0, 0.3])
    every = torch.tensor([True, True, True])
    # 0 (already 1.8 apart), 3, 1.
    assert float(auxiliary.reconstruction_loss(neighbour, stranger, every, 1.0, "intended")) == pytest.approx(4 / 3)
    assert float(auxiliary.reconstruction_loss(neighbour, stranger, every, 1.0, "paper")) == pytest.approx(3.8 / 3)
    some = torch.tensor([False, True, False])
    assert float(auxiliary.reconstruction_loss(neighbour, stranger, some, 1.0, "intended")) == pytest.approx(3)


@settings(deadline=None)
@given(st.floats(-1, 0.9), st.floats(-1, 1), st.floats(-1, 1), st.floats(0.01, 0.1))
def test_both_losses_fall_when_positives_come_closer(near, other, third, step):
    where = torch.tensor([True])
    values = [torch.tensor([value], dtype=torch.float64) for value in (near, near + step, other, third)]

    def contrast(at, form):
        return float(auxiliary.contrastive_loss(values[at], values[2], values[3], where, 2.0, form))

    assert contrast(1, "per-node") < contrast(0, "per-node")
    assert contrast(1, "released") < contrast(0, "released")
    assert contrast(1, "paper") > contrast(0, "paper")
    # A margin of 2 keeps the hinge from closing anywhere.
    recon = [float(auxiliary.reconstruction_loss(values[at], values[2], where, 2.01, "intended")) for at in (0, 1)]
    assert recon[1] < recon[0]
    paper = [float(auxiliary.reconstruction_loss(values[at], values[2], where, 2.01, "paper")) for at in (0, 1)]
    assert paper[1] > paper[0]


@pytest.mark.parametrize("form", ["per-node", "paper", "released"])
def test_losses_without_pairs_are_zero_with_zero_gradient(form):
    value = torch.zeros(3, requires_grad=True)
    nobody = torch.zeros(3, dtype=torch.bool)
    loss = auxiliary.contrastive_loss(value, value, value, nobody, 2.0, form)
    loss = loss + auxiliary.reconstruction_loss(value, value, nobody, 1.0, "intended")
    loss.backward()
    assert float(loss.detach()) == 0
    assert value.grad.tolist() == [0, 0, 0]


def test_cosines():
    left, right = torch.randn(5, 7, generator=rng()), torch.randn(5, 7, generator=rng(1))
    found = auxiliary.cosines(auxiliary.directions(left), auxiliary.directions(right))
    assert torch.allclose(found, cosine_similarity(left, right), atol=1e-6)
    zero = torch.zeros(2, 3, requires_grad=True)
    auxiliary.directions(zero).sum().backward()
    assert torch.isfinite(zero.grad).all()


# Drawing.


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 20))
def test_partners_are_what_they_are_called(seed, n, num_edges):
    edges = torch.randint(n, (2, num_edges), generator=rng(seed))
    shard = torch.randint(3, (n,), generator=rng(seed + 1))
    labels = torch.randint(2, (n,), generator=rng(seed + 2))
    joined = {(a, b) for u, v in edges.t().tolist() for a, b in ((u, v), (v, u))}
    across = {u: {v for v in range(n) if (u, v) in joined and shard[u] != shard[v]} for u in range(n)}
    strange = {u: {v for v in range(n) if (u, v) not in joined and u != v} for u in range(n)}
    others = {u: set(range(n)) - {u} for u in range(n)}
    unlike = {u: {v for v in range(n) if labels[u] != labels[v]} for u in range(n)}
    anchors = torch.arange(n).repeat(3)
    for drawn, allowed in (
        (sampling.draw_members(sampling.cross_shard_neighbours(edges, shard), anchors, rng(seed)), across),
        (sampling.draw_outside(sampling.connected(edges, n), anchors, rng(seed)), strange),
        (sampling.draw_other_node(n, anchors, rng(seed)), others),
        (sampling.draw_other_label(labels, anchors, rng(seed)), unlike),
    ):
        for u, v, exists in zip(anchors.tolist(), drawn[0].tolist(), drawn[1].tolist(), strict=True):
            assert exists == bool(allowed[u])
            assert v in allowed[u] if exists else v == u


def test_partners_are_drawn_uniformly():
    edges = torch.tensor([[0, 0, 0, 0], [2, 3, 3, 5]])
    shard = torch.tensor([0, 0, 1, 1, 1, 0, 1, 1])
    labels = torch.tensor([0, 1, 0, 2, 2, 1, 0, 1])
    anchors = torch.zeros(12000, dtype=torch.int64)
    for drawn, allowed in (
        (sampling.draw_members(sampling.cross_shard_neighbours(edges, shard), anchors, rng()), [2, 3]),
        (sampling.draw_outside(sampling.connected(edges, 8), anchors, rng()), [1, 4, 6, 7]),
        (sampling.draw_other_node(8, anchors, rng()), [1, 2, 3, 4, 5, 6, 7]),
        (sampling.draw_other_label(labels, anchors, rng()), [1, 3, 4, 5, 7]),
    ):
        share = torch.bincount(drawn[0], minlength=8) / len(anchors)
        expected = torch.zeros(8)
        expected[allowed] = 1 / len(allowed)
        assert torch.allclose(share, expected, atol=0.02)


def test_masks():
    mask = sampling.draw_mask(20000, 5, "bernoulli", 0.6, rng())
    # A row of none (0.4 to the fifth) keeps one instead.
    assert float(mask.float().mean()) == pytest.approx(0.6 + 0.4**5 / 5, abs=0.01)
    assert bool(sampling.draw_mask(2000, 5, "bernoulli", 0.01, rng()).any(dim=1).all())
    released = sampling.draw_mask(5000, 20, "released", 0.6, rng())
    assert float(released.sum(dim=1).float().mean()) == pytest.approx(20 * (1 - 0.95**19), abs=0.05)
    assert sampling.draw_mask(3, 1, "released", 0.6, rng()).tolist() == [[True]] * 3


def test_a_batch_holds_each_node_once_and_points_at_the_right_ones():
    graph, shard = sample_graph(), torch.arange(40) % 4
    for resample in (True, False):
        source = PairSource(PairRules(resample=resample), graph, shard, 4, rng(5))
        same = PairSource(PairRules(resample=resample), graph, shard, 4, rng(5))
        anchors = torch.tensor([7, 3, 30, 12])
        batch, again = source.draw(anchors), source.draw(anchors)
        assert len(batch.nodes.unique()) == len(batch.nodes)
        assert torch.equal(batch.nodes[batch.anchors], anchors)
        assert batch.mask.shape == (len(batch.nodes), 4)
        negatives = batch.nodes[batch.partners.negatives]
        assert bool((negatives != anchors).all())
        assert torch.equal(same.draw(anchors).nodes, batch.nodes)
        fixed = torch.equal(batch.nodes, again.nodes) and torch.equal(batch.mask, again.mask)
        assert fixed != resample
        joined = set(map(tuple, graph.edge_index.t().tolist()))
        chosen = zip(
            anchors.tolist(),
            batch.nodes[batch.partners.neighbours].tolist(),
            batch.nodes[batch.partners.strangers].tolist(),
            batch.partners.has_both.tolist(),
            strict=True,
        )
        for u, v, w, counts in chosen:
            if counts:
                assert (u, v) in joined
                assert shard[u] != shard[v]
                assert (u, w) not in joined


def test_nodes_without_cross_shard_neighbour_are_skipped_or_their_own():
    graph = Graph(torch.zeros(4, 1), torch.zeros(4).long(), torch.tensor([[0, 1], [1, 0]]), torch.arange(4), 1)
    shard, every = torch.tensor([0, 1, 0, 1]), torch.arange(4)
    skip = PairSource(PairRules(contrast=False), graph, shard, 2, rng()).draw(every).partners
    assert skip.has_both.tolist() == [True, True, False, False]
    own = PairSource(PairRules(contrast=False, alone="self"), graph, shard, 2, rng()).draw(every).partners
    assert own.has_both.tolist() == [True] * 4
    assert own.neighbours.tolist() == [1, 0, 2, 3]


# The fusion.


def plain_fusion(fusion, embeddings, design, mask=None):
    """The formulas, node by node and member by member."""
    num_members, n, _ = embeddings.shape
    rows = []
    for u in range(n):
        z = [(embeddings[i, u] @ fusion.projection[i] + fusion.projection_bias[i]).relu() for i in range(num_members)]
        if design.attention == "paper":
            scores = torch.stack([v @ fusion.score[:, 0] for v in z])
        else:
            scores = torch.stack(
                [(v @ fusion.attention + fusion.attention_bias).relu() @ fusion.score[:, 0] for v in z]
            )
        scores = scores / design.temperature
        if mask is not None and design.local == "softmax":
            weights = torch.zeros(num_members)
            weights[mask[u]] = torch.softmax(scores[mask[u]], dim=0)
        else:
            weights = torch.softmax(scores, dim=0)
            if mask is not None:
                weights = weights * mask[u] * num_members / mask[u].sum()
        if design.fused == "projected":
            rows.append(sum(w * v for w, v in zip(weights, z, strict=True)))
        else:
            rows.append(sum(weights[i] * embeddings[i, u] for i in range(num_members)) / num_members)
    return torch.stack(rows)


@pytest.mark.parametrize("attention", ["layered", "paper"])
@pytest.mark.parametrize("fused", ["projected", "paper"])
@pytest.mark.parametrize("local", ["softmax", "paper"])
def test_fusion_equals_the_formulas(attention, fused, local):
    design = Design(attention, fused, local, temperature=1.5, projection_width=8, attention_width=3)
    fusion = Fusion(4, 6, 3, design, rng()).requires_grad_(False)
    fusion.projection_bias.normal_(generator=rng(1))
    embeddings = torch.randn(4, 5, 6, generator=rng(2))
    mask = sampling.draw_mask(5, 4, "bernoulli", 0.5, rng(3))
    projected, scores = fusion.scores(embeddings)
    both = fusion.fuse(
        torch.stack([fusion.weights(scores), fusion.local_weights(scores, mask)], dim=1), projected, embeddings
    )
    expected = plain_fusion(fusion, embeddings, design)
    assert torch.allclose(both[:, 0], expected, atol=1e-5)
    assert torch.allclose(both[:, 1], plain_fusion(fusion, embeddings, design, mask), atol=1e-5)
    logits = expected @ fusion.classifier + fusion.classifier_bias
    assert torch.allclose(fusion(embeddings), logits, atol=1e-5)


def test_initial_weights():
    glorot = Fusion(3, 40, 5, Design(), rng()).named()
    assert float(glorot["projection"].abs().max()) == pytest.approx(math.sqrt(6 / 168), rel=0.01)
    assert all(not bool(glorot[name].any()) for name in glorot if name.endswith("bias"))
    normal = Fusion(3, 40, 5, Design(initial="normal"), rng()).named()
    assert float(normal["projection"].std()) == pytest.approx(0.01, rel=0.05)
    assert float(normal["classifier"].std()) == pytest.approx(0.01, rel=0.15)


# The aggregator.


def test_learns_labels_from_embeddings_in_different_bases():
    graph = sample_graph(n=120)
    members = make_members(graph)
    result = fitted(graph, members, lr=0.01, epochs=40).combine(members)
    assert torch.allclose(result.exp().sum(dim=1), torch.ones(120), atol=1e-5)
    assert float((result.argmax(dim=1) == graph.y).float().mean()) > 0.95


def test_two_fits_are_equal_bit_for_bit_and_nothing_survives_a_fit():
    graph = sample_graph()
    members, others = make_members(graph), make_members(graph, seed=9)
    before = torch.get_rng_state()
    first = fitted(graph, members, epochs=3)
    second = contrastive(epochs=3)
    second.fit(make_task(graph), others, graph)
    unlike = {name: value.clone() for name, value in second.state().items()}
    second.fit(make_task(graph), members, graph)
    assert torch.equal(before, torch.get_rng_state())
    assert first.state().keys() == second.state().keys()
    assert all(torch.equal(first.state()[name], second.state()[name]) for name in first.state())
    assert any(not torch.equal(first.state()[name], unlike[name]) for name in unlike)
    assert torch.equal(first.combine(members), second.combine(members))


def test_inputs_are_not_changed():
    graph = sample_graph()
    members = make_members(graph)
    copy = members.embeddings.clone()
    fitted(graph, members, epochs=2).combine(members)
    assert torch.equal(members.embeddings, copy)


@pytest.mark.parametrize("weights", [{"contra_weight": 100}, {"recon_weight": 100}])
def test_auxiliary_losses_are_felt(weights):
    graph = sample_graph()
    members = make_members(graph)
    off = {"contra_weight": 0, "recon_weight": 0}
    plain = fitted(graph, members, epochs=2, **off).state()
    felt = fitted(graph, members, epochs=2, **{**off, **weights}).state()
    assert not torch.allclose(plain["projection"], felt["projection"])


def fused_cosines(aggregator, members, pairs):
    fusion = aggregator._fusion
    projected, scores = fusion.scores(members.embeddings)
    fused = fusion.fuse(fusion.weights(scores)[:, None], projected, members.embeddings)[:, 0]
    return float(cosine_similarity(fused[pairs[0]], fused[pairs[1]]).mean())


def test_reconstruction_draws_cut_neighbours_together_and_the_papers_sign_apart():
    graph = sample_graph(n=60, num_edges=40)
    members = make_members(graph)
    cut = graph.edge_index[:, members.shard[graph.edge_index[0]] != members.shard[graph.edge_index[1]]]
    options = {"contra_weight": 0, "recon_weight": 10, "epochs": 40, "lr": 0.01}
    together = fused_cosines(fitted(graph, members, **options), members, cut)
    plain = fused_cosines(fitted(graph, members, **{**options, "recon_weight": 0}), members, cut)
    apart = fused_cosines(fitted(graph, members, recon_sign="paper", **options), members, cut)
    assert apart < plain - 0.02
    assert together > plain + 0.02


def test_without_auxiliary_losses_training_is_plain_cross_entropy():
    graph = sample_graph()
    members = make_members(graph)
    aggregator = contrastive(contra_weight=0, recon_weight=0, epochs=2, batch_size=16, lr=1e-3, weight_decay=0.01)
    aggregator.fit(make_task(graph), members, graph)
    task = make_task(graph)
    fusion = Fusion(4, 6, 3, Design(), task.generator("contrastive", "weights"))
    optimiser = torch.optim.AdamW(fusion.parameters(), lr=1e-3, weight_decay=0.01)
    order = task.generator("contrastive", "batches")
    for _ in range(2):
        for batch in torch.randperm(40, generator=order).split(16):
            optimiser.zero_grad()
            cross_entropy(fusion(members.embeddings[:, batch]), graph.y[batch]).backward()
            optimiser.step()
    for name, value in fusion.named().items():
        assert torch.allclose(value, aggregator.state()[name], atol=1e-6)


def test_rows_are_combined_one_by_one():
    graph = sample_graph()
    members = make_members(graph)
    aggregator = fitted(graph, members, epochs=2)
    parts = [aggregator.combine(members.chunk(start, start + 7)) for start in range(0, 40, 7)]
    assert torch.allclose(torch.cat(parts), aggregator.combine(members), atol=1e-6)


def test_retired_members_have_no_say():
    graph = sample_graph()
    members = make_members(graph, retired=[1])
    result = fitted(graph, members, epochs=2)
    spoiled = members.embeddings.clone()
    spoiled[1] = float("nan")
    other = Members(spoiled, members.logits, members.shard, members.sizes)
    assert torch.equal(result.combine(members), fitted(graph, other, epochs=2).combine(other))
    assert result.state()["projection"].shape[0] == 3


def test_combine_refuses_members_it_was_not_fitted_on():
    graph = sample_graph()
    members = make_members(graph)
    with pytest.raises(RefusedError, match="not fitted"):
        contrastive().combine(members)
    with pytest.raises(RefusedError, match="not fitted"):
        fitted(graph, members, epochs=1).combine(make_members(graph, retired=[0]))


VARIANTS = [
    {},
    {"contra_form": "released", "negatives": "other-label", "mask": "released", "resample": False},
    {"recon_alone": "self", "initial": "normal"},
    {"contra_form": "paper", "mask_form": "paper", "recon_sign": "paper", "attention": "paper", "fused": "paper"},
]


@pytest.mark.parametrize("params", VARIANTS, ids=["repaired", "released", "alone", "paper"])
@pytest.mark.parametrize(
    "graph",
    [
        Graph(torch.zeros(1, 1), torch.zeros(1).long(), NO_EDGES, torch.arange(1), 2),
        Graph(torch.zeros(9, 1), torch.zeros(9).long(), NO_EDGES, torch.arange(9), 1),
        Graph(torch.zeros(3, 1), torch.arange(3), torch.tensor([[0, 0, 1], [1, 2, 2]]), torch.arange(3), 3),
    ],
    ids=["one node", "one class, no edges", "all joined"],
)
@pytest.mark.parametrize("num_members", [1, 3])
def test_odd_samples_stay_finite(graph, params, num_members):
    members = make_members(graph, num_members=num_members)
    aggregator = fitted(graph, members, contra_weight=1, recon_weight=1, batch_size=2, epochs=3, **params)
    assert torch.isfinite(aggregator.combine(members)).all()
    assert all(torch.isfinite(value).all() for value in aggregator.state().values())


def test_zero_embeddings_stay_finite():
    graph = sample_graph()
    members = make_members(graph)
    silent = Members(torch.zeros_like(members.embeddings), members.logits, members.shard, members.sizes)
    for params in VARIANTS:
        aggregator = fitted(graph, silent, contra_weight=1, recon_weight=1, epochs=3, **params)
        assert torch.isfinite(aggregator.combine(silent)).all()


def test_sample_and_view_are_parameters():
    assert (contrastive().sample, contrastive().view) == (1000, View.TARGETS)
    assert (contrastive(sample=0.1, view="shard").sample, contrastive(view="shard").view) == (0.1, View.SHARD)


@pytest.mark.parametrize("params", [{"lr": 0}, {"keep": 0}, {"view": "full"}, {"contra_weight": -1}, {"epoch": 2}])
def test_wrong_parameters_are_refused(params):
    with pytest.raises(ValidationError, match=next(iter(params))):
        contrastive(**params)
