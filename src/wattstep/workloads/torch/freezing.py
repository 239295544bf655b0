"""Fine-tuning of a part: the last layers alone, or low-rank updates beside frozen linear layers."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from wattstep.errors import InvalidValueError
from wattstep.schema.workload import Preparation


def freeze(model: nn.Module, preparation: Preparation) -> None:
    """Leaves to train what a preparation says, in place, before an optimizer is made.

    A BatchNorm none of whose parameters train keeps its running statistics and normalises with
    them, as it does in an evaluation: a layer that stays as it is gives the same for the same input.

    Raises:
        InvalidValueError: The model has too few layers, or none that take an update.
    """
    if preparation.train_last is not None:
        _train_last(model, preparation.train_last)
    elif preparation.lora is not None:
        _add_adapters(model, preparation.lora)
    else:
        return
    for module in model.modules():
        if isinstance(module, _BatchNorm) and not _trains(module):
            module.register_forward_pre_hook(_as_in_evaluation)


def _train_last(model: nn.Module, count: int) -> None:
    """The last layers with parameters that train, in the order in which the model registers them."""
    layers = [module for module in model.modules() if _trains(module)]
    if count > len(layers):
        raise InvalidValueError(
            f"--train-last {count}: {type(model).__name__} has {len(layers)} layers that train",
            id="too-few-layers",
        )
    trained = {id(each) for layer in layers[-count:] for each in layer.parameters(recurse=False)}
    for parameter in model.parameters():
        if id(parameter) not in trained:
            parameter.requires_grad_(False)


class Adapter(nn.Module):
    """A trainable update of low rank, to be added to what a frozen linear layer gives.

    The second matrix is zero at first, so that training begins with the frozen model.

    Source: Hu et al., arXiv 2106.09685, section 4.1, with the scale alpha equal to the rank.

    Args:
        inputs: Width of what the layer takes.
        outputs: Width of what it gives.
        rank: Width between the two matrices.
    """

    def __init__(self, *, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def forward(self, states: Tensor) -> Tensor:
        """Updates (..., outputs) for states (..., inputs)."""
        update: Tensor = self.up(self.down(states))
        return update


def _add_adapters(model: nn.Module, rank: int) -> None:
    """An adapter in every linear layer that is called as a module, added by a hook.

    The layer itself stays in its place, since others read its weight (a tied embedding). Torch's
    MultiheadAttention never calls its projections: they take none.
    """
    layers = [
        module
        for module in model.modules()
        if isinstance(module, nn.Linear) and not isinstance(module, NonDynamicallyQuantizableLinear)
    ]
    if not layers:
        raise InvalidValueError(
            f"--lora {rank}: {type(model).__name__} has no linear layers", id="no-linear-layers"
        )
    model.requires_grad_(False)
    for layer in layers:
        layer.adapter = Adapter(inputs=layer.in_features, outputs=layer.out_features, rank=rank)
        layer.register_forward_hook(_add_update)


def _add_update(layer: Any, inputs: Any, output: Any) -> Any:
    return output + layer.adapter(inputs[0])


def _as_in_evaluation(module: nn.Module, inputs: Any) -> None:
    module.training = False


def _trains(module: nn.Module) -> bool:
    return any(each.requires_grad for each in module.parameters(recurse=False))
