"""A network of the user's own as a base model: any module with `forward(x, edge_index)` that outputs a row per node."""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from unlearnbench.errors import UsageError
from unlearnbench.gnn import Model, Networks
from unlearnbench.graph import Graph
from unlearnbench.registry.session import source_digest
from unlearnbench.task import Task

_LIBRARIES = ("torch", "torch_geometric")


class _Network(nn.Module):
    """The module behind the interface of base models; what it outputs is also its embedding."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def embed(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits: Tensor = _evaluated(self.net, x, edge_index, edge_weight)
        return logits

    def head(self, rows: Tensor) -> Tensor:
        return rows


class OwnNetwork(Model):
    """Copies of a module, each newly initialised, trained one after the other.

    Attributes:
        make: Makes one.
        architecture: Text that differs where networks differ.
    """

    make: ClassVar[Callable[[], nn.Module]]
    architecture: ClassVar[str]

    @override
    def build(self, num_features: int, num_classes: int, generator: torch.Generator) -> nn.Module:
        return _Network(type(self).make())


def is_network(thing: Any) -> bool:
    """Whether it is a module, a class of modules, or a function that makes one."""
    return isinstance(thing, nn.Module) or inspect.isfunction(thing) or _is_class(thing)


def model_of(thing: Any) -> type[OwnNetwork]:
    """Return the base model made of a module, or of a function or class that makes one without arguments.

    Raises:
        UsageError: It makes no module, or a copy of the module cannot be initialised anew.
    """
    try:
        module = thing if isinstance(thing, nn.Module) else thing()
    except TypeError as error:
        raise UsageError(f"{thing!r} makes no network: {error}.", "Name a module, or lambda: MyNet(...).") from None
    if not isinstance(module, nn.Module):
        raise UsageError(f"{thing!r} makes a {type(module).__name__}, no torch.nn.Module.", "Name a module.")
    if any(nn.parameter.is_lazy(tensor) for tensor in module.parameters()):
        raise UsageError(f"{type(module).__name__} has layers of no size yet.", "Run it once: model(x, edge_index).")
    if isinstance(thing, nn.Module):
        _check_resettable(module)
    cls = type(module)
    sources = [cls.__qualname__ if cls.__module__.partition(".")[0] in _LIBRARIES else source_digest(cls)]
    if inspect.isfunction(thing):
        sources.append(source_digest(type("made", (), {"make": thing, "__module__": thing.__module__})))
    shapes = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    members = {
        "name": f"own-{re.sub('[^a-z0-9]+', '-', cls.__name__.lower()).strip('-')}",
        "summary": f"A network of the session, of the class {cls.__name__}.",
        "make": staticmethod(_copier(copy.deepcopy(module)) if isinstance(thing, nn.Module) else thing),
        "architecture": f"{module!r} {shapes} {sources}",
        "supports_edge_weight": _takes_weights(module),
        "__module__": __name__,
    }
    return type("OwnNetwork", (OwnNetwork,), members)


def check_outputs(module: nn.Module, graph: Graph) -> Tensor:
    """Return what a network outputs, checked to be a row of finite logits, or log-probabilities, per node.

    Raises:
        UsageError: It does not; says what it outputs and what is right.
    """
    name, wanted = type(module).__name__, f"forward(x, edge_index) must return logits [nodes, {graph.num_classes}]."
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    graph = graph.to(device)
    trains = {each: each.training for each in module.modules()}
    try:
        with torch.no_grad():
            rows = _evaluated(module.eval(), graph.x, graph.edge_index, graph.edge_weight)
    except Exception as error:  # a stranger's network may fail in any way; its user needs the reason
        raise UsageError(f"{name} cannot be evaluated: {type(error).__name__}: {error}.", wanted) from error
    finally:
        for each, mode in trains.items():
            each.training = mode
    if not isinstance(rows, Tensor) or rows.shape != (graph.num_nodes, graph.num_classes):
        what = list(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise UsageError(f"{name} outputs {what} for {graph.num_nodes} nodes.", wanted)
    if not rows.is_floating_point() or not bool(torch.isfinite(rows).all()):
        raise UsageError(f"{name} outputs numbers that are no finite logits.", wanted)
    if bool((rows >= 0).all()) and torch.allclose(rows.sum(dim=1), torch.ones_like(rows[:, 0]), atol=1e-4):
        raise UsageError(f"{name} outputs probabilities.", f"{wanted} Leave the last softmax out, or use log_softmax.")
    return rows


def _takes_weights(module: nn.Module) -> bool:
    """Whether its `forward` takes `edge_weight`; PyG's networks that only seem to say so themselves."""
    own = getattr(module, "supports_edge_weight", None)
    return own if isinstance(own, bool) else "edge_weight" in inspect.signature(module.forward).parameters


def _evaluated(module: nn.Module, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
    # By its name: it need not be the third argument.
    return module(x, edge_index) if edge_weight is None else module(x, edge_index, edge_weight=edge_weight)


def adopted_weights(module: nn.Module, task: Task) -> dict[str, Tensor]:
    """Return a trained network's parameters as `Unlearner.state` would.

    Raises:
        UsageError: The task's model is another network, or it does not output logits.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(
            f"adopt() was given a {type(module).__name__}, no torch.nn.Module.",
            "Load parameters first: module.load_state_dict(...).",
        )
    if not issubclass(task.model.cls, OwnNetwork):
        raise UsageError(
            f"The task's model is {task.model.label}, not this network.", "task_from_data(data, model=module)."
        )
    expected = {name: value.shape for name, value in task.model.cls.make().state_dict().items()}
    given = module.state_dict()
    if {name: value.shape for name, value in given.items()} != expected:
        raise UsageError(
            f"This {type(module).__name__} has other parameters than {task.model.label} of the task.",
            "Make the task with this network: task_from_data(data, model=module).",
        )
    labels = task.graph.y
    right = int((check_outputs(module, task.graph).argmax(dim=1).to(labels.device) == labels).sum())
    if right <= int(labels.bincount().max()):
        warnings.warn(
            f"adopt: {right} of {len(labels)} training nodes are classified rightly, no more than the largest class"
            ' has. Is the network trained on this task? warnings.filterwarnings("ignore", "adopt") silences this.',
            stacklevel=3,
        )
    return {f"members/000/net.{name}": value.detach().to(task.device).clone() for name, value in given.items()}


def check_gradients(network: Networks, graph: Graph, twice: bool) -> None:
    """Check that the cross-entropy can be differentiated by the network's parameters, and twice where that is needed.

    Raises:
        UsageError: It cannot.
    """
    parameters = network.parameters()
    if not parameters:
        raise UsageError("The network has no parameter that is trained.", "Set requires_grad.")
    try:
        ((_, logits),) = network.answers([graph])
        loss = functional.cross_entropy(logits, graph.y)
        first = torch.autograd.grad(loss, parameters, create_graph=twice, allow_unused=True, materialize_grads=True)
        if twice:
            total = torch.stack([part.sum() for part in first]).sum()
            torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    except RuntimeError as error:
        how = "differentiated twice" if twice else "differentiated"
        raise UsageError(
            f"The network's loss cannot be {how}: {error}.", "Use layers of torch and PyG, without detach()."
        ) from error


def _copier(module: nn.Module) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        fresh = copy.deepcopy(module).train()
        for part in fresh.modules():
            reset: Any = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
        return fresh

    return make


def _check_resettable(module: nn.Module) -> None:
    """Check that every parameter is drawn anew by `reset_parameters` of its module or of one around it."""
    reset = [name for name, part in module.named_modules() if callable(getattr(part, "reset_parameters", None))]
    for name, _ in module.named_parameters():
        if not any(not prefix or name.startswith(f"{prefix}.") for prefix in reset):
            raise UsageError(
                f"The parameter {name} of {type(module).__name__} cannot be initialised anew.",
                "Define reset_parameters(), or name a function that makes the network: model=lambda: MyNet(...).",
            )


def _is_class(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, nn.Module)
