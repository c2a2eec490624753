"""The built-in models as PyG's own modules would have them, and how they take a stacked network's parameters."""

import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import APPNP, GATConv, GATv2Conv, GCNConv, GINConv, JumpingKnowledge, SAGEConv, SGConv


class Plain(nn.Module):
    """A model of PyG modules; `pairs(own)` says which parameter equals which view of a stacked network's."""

    def __init__(self, classes, hidden=64, dropout=0.5):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)
        self.rate = dropout

    def dropped(self, rows):
        return functional.dropout(rows, self.rate, self.training)

    def head(self, rows):
        return self.linear2(self.dropped(self.linear1(rows).relu()))

    def forward(self, x, edge_index):
        return self.head(self.embed(x, edge_index))

    def pairs(self, own):
        head = [*linear(self.linear1, own, "mlp.linear1"), *linear(self.linear2, own, "mlp.linear2")]
        return [*self.body(own), *head]

    def take(self, own):
        with torch.no_grad():
            for parameter, view in self.pairs(own):
                parameter.copy_(view.reshape(parameter.shape))
        return self


def far(module, start, after):
    """How far parameters are from where they should be, and how far they were moved, at most."""
    with torch.no_grad():
        gaps = [(part.reshape(p.shape) - p).abs().max() for p, part in module.pairs(after)]
    return float(max(gaps)), max(float((after[name] - start[name]).abs().max()) for name in start)


def linear(module, own, name):
    return [(module.weight, own[f"{name}.weight"].t()), (module.bias, own[f"{name}.bias"])]


class Layered(Plain):
    """Two convolutions, activation and dropout after each."""

    def __init__(self, features, classes, hidden=64, dropout=0.5):
        super().__init__(classes, hidden, dropout)
        self.conv1, self.conv2 = self.convolution(features, hidden, 1), self.convolution(hidden, hidden, 2)

    def embed(self, x, *edges):
        rows = self.dropped(self.activation(self.conv1(x, *edges)))
        return self.dropped(self.activation(self.conv2(rows, *edges)))

    activation = staticmethod(torch.relu)

    def body(self, own):
        return [pair for name in ("conv1", "conv2") for pair in self.layer(getattr(self, name), own, name)]


class PygGCN(Layered):
    def convolution(self, inputs, outputs, number):
        return GCNConv(inputs, outputs)

    def layer(self, module, own, name):
        return [(module.lin.weight, own[f"{name}.weight"].t()), (module.bias, own[f"{name}.bias"])]


class PygSAGE(Layered):
    def convolution(self, inputs, outputs, number):
        return SAGEConv(inputs, outputs)

    def layer(self, module, own, name):
        weight = own[f"{name}.weight"]
        return [
            (module.lin_l.weight, weight[:, 0].t()),
            (module.lin_l.bias, own[f"{name}.bias"]),
            (module.lin_r.weight, weight[:, 1].t()),
        ]


class PygGIN(Layered):
    def convolution(self, inputs, outputs, number):
        return GINConv(nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs)))

    def layer(self, module, own, name):
        return [*linear(module.nn[0], own, f"{name}.linear1"), *linear(module.nn[2], own, f"{name}.linear2")]


class PygGAT(Layered):
    activation = staticmethod(functional.elu)

    def convolution(self, inputs, outputs, number):
        return GATConv(inputs, outputs // 4, heads=4) if number == 1 else GATConv(inputs, outputs)

    def layer(self, module, own, name):
        attention = own[f"{name}.attention"]
        return [
            (module.lin.weight, own[f"{name}.weight"].t()),
            (module.att_src, attention[0]),
            (module.att_dst, attention[1]),
            (module.bias, own[f"{name}.bias"]),
        ]


class PygGATv2(Layered):
    activation = staticmethod(functional.elu)

    def convolution(self, inputs, outputs, number):
        return GATv2Conv(inputs, outputs // 4, heads=4) if number == 1 else GATv2Conv(inputs, outputs)

    def layer(self, module, own, name):
        weight, bias = own[f"{name}.weight"], own[f"{name}.linear_bias"]
        return [
            (module.lin_l.weight, weight[:, 0].t()),
            (module.lin_l.bias, bias[0]),
            (module.lin_r.weight, weight[:, 1].t()),
            (module.lin_r.bias, bias[1]),
            (module.att, own[f"{name}.attention"]),
            (module.bias, own[f"{name}.bias"]),
        ]


class PygAPPNP(Plain):
    def __init__(self, features, classes, hidden=64, dropout=0.5):
        super().__init__(classes, hidden, dropout)
        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, hidden)
        self.propagation = APPNP(K=10, alpha=0.1)

    def embed(self, x, *edges):
        return self.propagation(self.second(self.dropped(self.first(x).relu())), *edges)

    def body(self, own):
        return [*linear(self.first, own, "linear1"), *linear(self.second, own, "linear2")]


class PygJKNet(Plain):
    def __init__(self, features, classes, hidden=64, dropout=0.5):
        super().__init__(classes, hidden, dropout)
        self.convolutions = nn.ModuleList(GCNConv(inputs, hidden) for inputs in (features, hidden, hidden))
        self.jumping, self.jump = JumpingKnowledge("cat"), nn.Linear(3 * hidden, hidden)

    def embed(self, x, *edges):
        rows = [x]
        for convolution in self.convolutions:
            rows.append(self.dropped(convolution(rows[-1], *edges).relu()))
        return self.jump(self.jumping(rows[1:]))

    def body(self, own):
        pairs = [(self.jump.weight, own["jump.weight"].flatten(0, 1).t()), (self.jump.bias, own["jump.bias"])]
        for number, convolution in enumerate(self.convolutions, 1):
            pairs.append((convolution.lin.weight, own[f"conv{number}.weight"].t()))
            pairs.append((convolution.bias, own[f"conv{number}.bias"]))
        return pairs


class PygSGC(Plain):
    def __init__(self, features, classes, hidden=64, dropout=0.5):
        super().__init__(classes, hidden, dropout)
        self.convolution = SGConv(features, hidden, K=2)

    def embed(self, x, *edges):
        return self.convolution(x, *edges)

    def body(self, own):
        return linear(self.convolution.lin, own, "conv1")


class PygMLP(Layered):
    def convolution(self, inputs, outputs, number):
        return nn.Linear(inputs, outputs)

    def embed(self, x, edge_index):
        return self.dropped(self.conv2(self.dropped(self.conv1(x).relu())).relu())

    def layer(self, module, own, name):
        return linear(module, own, name)


# The model's bracket and its counterpart; four heads, so that hidden=20 can be shared among them.
COUNTERPARTS = {
    "gcn": PygGCN,
    "gat[heads=4]": PygGAT,
    "sage": PygSAGE,
    "appnp": PygAPPNP,
    "jknet": PygJKNet,
    "gin": PygGIN,
    "gatv2[heads=4]": PygGATv2,
    "sgc": PygSGC,
    "mlp": PygMLP,
}
