"""Optimizers outside of engines make of weights and gradients what torch's own make."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.engines.exported.updates import Update

torch = pytest.importorskip("torch")

DRAW = np.random.default_rng(1)
WEIGHT = DRAW.normal(size=8)
GRADIENTS = DRAW.normal(size=(5, 8))


@pytest.mark.parametrize(
    ("name", "make", "options", "decay"),
    [
        ("sgd", "SGD", {}, 0.0),
        ("sgd", "SGD", {"momentum": 0.9}, 1e-2),
        ("sgd", "SGD", {"momentum": 0.9, "nesterov": True}, 1e-2),
        ("adam", "Adam", {"betas": (0.5, 0.99)}, 1e-2),
        ("adamw", "AdamW", {"eps": 1e-6}, 0.1),
        ("rmsprop", "RMSprop", {"alpha": 0.9, "eps": 0.03, "momentum": 0.9}, 1e-2),
        ("rmsprop", "RMSprop", {}, 0.0),
        ("rmsprop", "RMSprop", {"centered": True, "momentum": 0.5}, 0.0),
    ],
)
def test_five_updates_are_torchs(
    name: str, make: str, options: dict[str, Any], decay: float
) -> None:
    weight = torch.tensor(WEIGHT, requires_grad=True)
    theirs = getattr(torch.optim, make)([weight], lr=0.1, weight_decay=decay, **options)
    update, mine = Update("far", name, options, 0.1), WEIGHT
    states = {state: np.zeros(8) for state in update.states}
    for step, gradient in enumerate(GRADIENTS, start=1):
        weight.grad = torch.tensor(gradient)
        theirs.step()
        mine = update(mine, gradient, states, decay, update.scalars(step), np.sqrt)
        np.testing.assert_allclose(mine, weight.detach().numpy(), rtol=1e-12)


def test_what_is_not_made_is_refused_by_name() -> None:
    with refused("optimizer-not-for-engine", "adam8bit", "far"):
        Update("far", "adam8bit", {})
    with refused("optimizer-not-for-engine", "amsgrad=True"):
        Update("far", "adam", {"amsgrad": True})
    assert Update("far", "sgd", {"dampening": 0}).states == ()


def test_adams_corrections_are_those_of_its_step() -> None:
    adam = Update("far", "adam", {"betas": (0.5, 0.75)}, 0.001)
    assert adam.scalars(1) == {"rate": 0.002, "correction": 0.5}
    assert adam.scalars(2) == {"rate": 0.001 / 0.75, "correction": math.sqrt(1 - 0.5625)}
    assert Update("far", "sgd", {}, 0.1).scalars(1) == {}
