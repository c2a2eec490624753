"""What `idea` claims of its distance to a retraining, and what the distance is.

Each repetition trains, steps, and retrains from the start that Retrain has. Distances are Euclidean, of all
parameters, before noise. `convex` is the constant of strong convexity that the weight decay alone would
give a convex model; a claim with it is the bound without the assumption that is hardest to defend.
`negative` is the smallest eigenvalue of the Hessian of the mean loss: below 0, the loss is not convex.

    python benchmarks/idea_bound.py --data-root DIR [--dataset digits cora] [--model gcn sgc] [--repetitions 3]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from unlearnbench.datasets.base import data_root
from unlearnbench.gnn import Networks, train_networks
from unlearnbench.protocol import Forget, Protocol, protocol
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.lookup import load_graphs
from unlearnbench.task import Task, Training
from unlearnbench.unlearning.influence import Curvature, add, influence_step, start_vector
from unlearnbench.unlearning.neumann import outermost
from unlearnbench_idea.bound import epsilon_of, noise_for
from unlearnbench_idea.idea import Idea, claimed

HEAD = "dataset model repetition step claimed observed ratio claimed(decay) epsilon(std) std(epsilon=1) negative"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--dataset", nargs="+", default=["digits"])
    parser.add_argument("--model", nargs="+", default=["gcn"])
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("\t".join(HEAD.split()))
    for dataset in arguments.dataset:
        for model in arguments.model:
            for repetition in range(arguments.repetitions):
                figures = measure(dataset, model, repetition, arguments.data_root)
                print(
                    "\t".join([dataset, model, str(repetition), *(f"{figure:.4g}" for figure in figures)]), flush=True
                )


def measure(dataset: str, model: str, repetition: int, root: Path | None) -> list[float]:
    catalogue = load_catalogue()
    spec = resolve(catalogue, "dataset", dataset)
    graphs, _ = load_graphs([spec], data_root(root), True, False)
    graph = graphs[spec.label]
    rules = Protocol(forget=Forget(), own_split=graph.split is not None)
    setting = protocol.repetition_data(rules, graph, 0, dataset, repetition)
    task = Task(
        graph=setting.graph.induced(setting.split.train),
        model=resolve(catalogue, "model", model),
        training=Training(),
        device=torch.device("cpu"),
        seed=protocol.task_seed(0, dataset, repetition),
    )
    retained = task.without(setting.request)
    trained, retrained = (train_networks(each, [each.graph], [0]) for each in (task, retained))
    smallest, _ = outermost(
        Curvature(trained, retained.graph, task.training.weight_decay), start_vector(trained, retained)
    )
    before = flat(trained)
    params = Idea.Params()
    step = influence_step(trained, task, setting.request, retained, params)
    add(trained, step.parts)
    bound, observed = claimed(params, task, setting.request, step), float((flat(trained) - flat(retrained)).norm())
    by_decay = params.model_copy(update={"convexity": task.training.weight_decay})
    return [
        float((flat(trained) - before).norm()),
        bound,
        observed,
        bound / observed,
        claimed(by_decay, task, setting.request, step),
        epsilon_of(bound, params.std, params.delta),
        noise_for(bound, 1.0, params.delta),
        smallest / retained.graph.num_nodes,
    ]


def flat(network: Networks) -> Tensor:
    return torch.cat([value.flatten() for value in network.state(0).values()])


if __name__ == "__main__":
    main()
