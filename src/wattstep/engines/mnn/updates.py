"""Optimizers as torch computes them: which of their settings MNN's graph has, and what a step feeds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from wattstep.engines.exported.folder import ExportedOptimizer
from wattstep.errors import InvalidValueError

# By optimizer its settings, with what they are where nobody says otherwise.
_SETTINGS: Final[Mapping[str, Mapping[str, object]]] = {
    "sgd": {"momentum": 0.0, "nesterov": False},
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0},
}


def settings_of(optimizer: ExportedOptimizer) -> dict[str, object]:
    """All settings of an optimizer, without rate and decay.

    Raises:
        InvalidValueError: The graph has no such optimizer, or it has a setting that the graph lacks.
    """
    usual = _SETTINGS.get(optimizer.name)
    if usual is None:
        raise InvalidValueError(
            f"--optimizer {optimizer.name}: on mnn there are {', '.join(_SETTINGS)}",
            id="optimizer-not-for-engine",
        )
    unknown = [key for key, value in optimizer.options.items() if key not in usual and value]
    if unknown:
        raise InvalidValueError(
            f"--optimizer {optimizer.name}: mnn's graph has no {', '.join(unknown)}",
            id="optimizer-not-for-engine",
        )
    return {key: optimizer.options.get(key, value) for key, value in usual.items()}


def scalars_at(optimizer: ExportedOptimizer, step: int) -> dict[str, float]:
    """Numbers that the graph is given at a step, by the name of its input.

    Args:
        optimizer: A checked one.
        step: Counted from 1.
    """
    if optimizer.name not in ("adam", "adamw"):
        return {}
    betas = settings_of(optimizer)["betas"]
    assert isinstance(betas, (tuple, list))
    first, second = betas
    # The corrections of moments that begin with zeros, computed in float64 as torch does.
    return {
        "step_size": optimizer.rate / (1 - first**step),
        "root": math.sqrt(1 - second**step),
    }
