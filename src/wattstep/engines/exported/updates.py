"""Optimizers as torch makes them, for values of any library that know arithmetic: arrays, or nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final

from wattstep.errors import InvalidValueError

# Options that are made, by optimizer, with torch's own values.
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sgd": {"momentum": 0.0, "nesterov": False},
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False},
}
# What may be asked for since it changes nothing.
_WITHOUT_EFFECT: Final = {"dampening": 0, "amsgrad": False, "maximize": False}


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
        self._adapts = name in ("adam", "adamw")
        momentum = ("momentum",) if self._of.get("momentum") else ()
        mean = ("mean",) if self._of.get("centered") else ()
        self.states: Sequence[str] = {
            "sgd": momentum, "rmsprop": ("square", *mean, *momentum),
        }.get(name, ("mean", "square"))  # fmt: skip

    @property
    def betas(self) -> tuple[float, float] | None:
        """What of Adam's moments stays from step to step; None of optimizers without such."""
        if not self._adapts:
            return None
        first, second = self._of["betas"]
        return float(first), float(second)

    def scalars(self, step: int) -> dict[str, float]:
        """Numbers that change from step to step (1, 2, ...), by name; none where all stay as they are.

        Of Adam the rate, over the correction of the mean, and that of the root of the mean square.
        """
        if not self._adapts:
            return {}
        first, second = self._of["betas"]
        correction = float((1 - second**step) ** 0.5)
        return {"rate": self._rate / (1 - first**step), "correction": correction}

    def __call__(
        self,
        weight: Any,
        gradient: Any,
        states: MutableMapping[str, Any],
        decay: float,
        scalars: Mapping[str, Any],
        root: Callable[[Any], Any],
    ) -> Any:
        """A parameter after an update.

        Args:
            weight: Before it.
            gradient: Of the loss.
            states: By the names in `states`; each is set once, and read again from then on.
            decay: Weight decay of this parameter.
            scalars: As `scalars` gives them.
            root: Square root of a value.
        """
        apart = decay if self._name == "adamw" else 0.0
        if decay and not apart:
            gradient = gradient + weight * decay
        if self._adapts:
            step = self._adapted(gradient, states, scalars, root) * scalars["rate"]
            # Not a smaller weight less the step, of which MNN's graph makes another one.
            return weight - (step + weight * (apart * self._rate) if apart else step)
        if self._name == "rmsprop":
            gradient = self._by_root(gradient, states, root)
        if momentum := self._of["momentum"]:
            states["momentum"] = states["momentum"] * momentum + gradient
            nesterov = self._of.get("nesterov")
            moved = states["momentum"]
            gradient = gradient + moved * momentum if nesterov else moved
        return weight - gradient * self._rate

    def _adapted(
        self,
        gradient: Any,
        states: MutableMapping[str, Any],
        scalars: Mapping[str, Any],
        root: Callable[[Any], Any],
    ) -> Any:
        """Adam's direction."""
        first, second = self._of["betas"]
        _keep(states, "mean", first, gradient)
        _keep(states, "square", second, gradient * gradient)
        spread = root(states["square"]) / scalars["correction"] + self._of["eps"]
        return states["mean"] / spread

    def _by_root(
        self, gradient: Any, states: MutableMapping[str, Any], root: Callable[[Any], Any]
    ) -> Any:
        """RMSprop's direction."""
        alpha = self._of["alpha"]
        _keep(states, "square", alpha, gradient * gradient)
        square = states["square"]
        if self._of["centered"]:
            _keep(states, "mean", alpha, gradient)
            square = square - states["mean"] * states["mean"]
        return gradient / (root(square) + self._of["eps"])


def _keep(states: MutableMapping[str, Any], name: str, share: float, value: Any) -> None:
    """Updates a running mean, of which a share stays."""
    states[name] = states[name] * share + value * (1 - share)
