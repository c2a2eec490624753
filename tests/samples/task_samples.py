"""Tasks on toy graphs whose model may be a plain module of PyG."""

from dataclasses import replace

from pyg_models import PygGCN

from unlearnbench.component import Spec
from unlearnbench.gnn import Model
from unlearnbench.testing.graphs import toy_task


class Plain(Model):
    """A module of PyG whose layers keep the first adjacency they see."""

    name = "plain"

    def build(self, num_features, num_classes, generator):
        module = PygGCN(num_features, num_classes)
        module.conv1.cached = module.conv2.cached = True
        return module


def task_of(graph, model="gcn", epochs=8):
    if model == "plain":
        return replace(toy_task(graph, epochs=epochs), model=Spec("model", "plain", 1, Plain, Plain.Params()))
    return toy_task(graph, model=model, epochs=epochs)
