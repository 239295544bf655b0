"""Optimizers as torch makes them, for arrays of any library whose arrays know arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wattstep.errors import InvalidValueError

# Options that are made, by optimizer, with torch's own values.
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sgd": {"momentum": 0.0, "nesterov": False},
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0},
}
# What may be asked for since it changes nothing.
_WITHOUT_EFFECT: Final = {"dampening": 0, "amsgrad": False, "centered": False, "maximize": False}


class Update:
    """An optimizer of torch (torch.optim, version 2).

    Args:
        engine: That it is for, in refusals.
        name: One of `schema.workload.OPTIMIZERS`.
        options: Hyperparameters; the weight decay is given parameter by parameter.
        rate: The learning rate.

    Attributes:
        states: Names of the numbers that are kept for each parameter, all zero at first.

    Raises:
        InvalidValueError: It is not made here.
    """

    def __init__(
        self, engine: str, name: str, options: Mapping[str, Any], rate: float = 0.0
    ) -> None:
        if name not in _OPTIONS:
            raise InvalidValueError(
                f"--optimizer {name}: {engine} trains with {', '.join(_OPTIONS)}",
                id="optimizer-not-for-engine",
            )
        for key, value in options.items():
            known = key in _OPTIONS[name] or key == "weight_decay"
            if not known and value != _WITHOUT_EFFECT.get(key):
                raise InvalidValueError(
                    f"--optimizer {name}: {engine} does not train with {key}={value}",
                    id="optimizer-not-for-engine",
                )
        self._name, self._rate = name, rate
        self._of = {key: options.get(key, usual) for key, usual in _OPTIONS[name].items()}
        momentum = ("momentum",) if self._of.get("momentum") else ()
        self.states: Sequence[str] = {
            "sgd": momentum, "rmsprop": ("square", *momentum),
        }.get(name, ("mean", "square"))  # fmt: skip

    def scalars(self, step: int) -> tuple[float, float]:
        """Rate, and the correction of the mean square, of a step (1, 2, ...); of Adam they change."""
        if self._name not in ("adam", "adamw"):
            return self._rate, 1.0
        first, second = self._of["betas"]
        return self._rate / (1 - first**step), float((1 - second**step) ** 0.5)

    def __call__(
        self,
        weight: Any,
        gradient: Any,
        states: Mapping[str, Any],
        decay: float,
        scalars: tuple[Any, Any],
        root: Callable[[Any], Any],
    ) -> tuple[Any, dict[str, Any]]:
        """A parameter and its states after an update.

        Args:
            weight: Before it.
            gradient: Of the loss.
            states: By the names in `states`.
            decay: Weight decay of this parameter.
            scalars: As `scalars` gives them.
            root: Square root of an array.
        """
        rate, correction = scalars
        if self._name == "adamw":
            weight = weight * (1 - self._rate * decay)
        elif decay:
            gradient = gradient + decay * weight
        if "mean" in self.states:
            first, second = self._of["betas"]
            mean = states["mean"] + (1 - first) * (gradient - states["mean"])
            square = second * states["square"] + (1 - second) * gradient * gradient
            direction = mean / (root(square) / correction + self._of["eps"])
            return weight - rate * direction, {"mean": mean, "square": square}
        after = {}
        direction = gradient
        if self._name == "rmsprop":
            alpha = self._of["alpha"]
            square = alpha * states["square"] + (1 - alpha) * gradient * gradient
            after["square"] = square
            direction = gradient / (root(square) + self._of["eps"])
        if "momentum" in self.states:
            momentum = self._of["momentum"]
            after["momentum"] = momentum * states["momentum"] + direction
            nesterov = self._of.get("nesterov")
            direction = direction + momentum * after["momentum"] if nesterov else after["momentum"]
        return weight - rate * direction, after
