"""Optimizers as torch defines them, without a framework: states, options, and what changes by the step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wattstep.errors import InvalidValueError

# By optimizer: options that it heeds, with torch's own values.
OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sgd": {"momentum": 0.0, "nesterov": False},
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False},
}
# Options whose usual value changes nothing.
_USUAL: Final[Mapping[str, Any]] = {"dampening": 0, "amsgrad": False, "maximize": False}


def options_of(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of an optimizer, torch's own values where nothing else is said.

    Args:
        name: One of `schema.workload.OPTIMIZERS`.
        options: As the workload or the user sets them; "weight_decay" may be among them.

    Raises:
        InvalidValueError: ONNX Runtime does not train with it here.
    """
    if name not in OPTIONS:
        raise InvalidValueError(
            f"--optimizer {name}: onnxruntime trains with {', '.join(OPTIONS)}",
            id="optimizer-not-for-engine",
        )
    for key, value in options.items():
        if key not in OPTIONS[name] and key != "weight_decay" and value != _USUAL.get(key):
            raise InvalidValueError(
                f"--optimizer {name}: onnxruntime does not train with {key}={value}",
                id="optimizer-not-for-engine",
            )
    return {key: options.get(key, usual) for key, usual in OPTIONS[name].items()}


def states_of(name: str, options: Mapping[str, Any]) -> Sequence[str]:
    """Names of the numbers that an optimizer keeps for each parameter, all zero at first."""
    if name in ("adam", "adamw"):
        return ("mean", "square")
    momentum = ("momentum",) if options["momentum"] else ()
    if name == "sgd":
        return momentum
    return ("square", *(("mean",) if options["centered"] else ()), *momentum)


def scalars_of(name: str, options: Mapping[str, Any], rate: float, step: int) -> dict[str, float]:
    """What an optimizer's operations take that changes by the step: of Adam the corrections of its means.

    Args:
        name: Of the optimizer.
        options: All of them.
        rate: The learning rate.
        step: 1, 2, ...
    """
    if name not in ("adam", "adamw"):
        return {}
    first, second = options["betas"]
    return {
        "rate": rate / (1 - first**step),
        "correction": math.sqrt(1 - second**step),
    }
